// SPDX-License-Identifier: MIT
/* tests/unit/test_imat_file.c - quantize/imat_file.c: files written by Python in both forms, round
 * trips, merging, column weights, damaged files. Expected numbers are computed manually from
 * tests/oracle/containers.py: attn_q saw 1024 tokens (sums 512 1024 256 0), the experts 10 and 100
 * (sums 10 20, 300 500). */
#include "base/buf.h"
#include "containers/gguf.h"
#include "quantize/imat_file.h"
#include "base/io.h"
#include "base/log.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

static struct err e;
static const char py_gguf[] = "tests/golden/containers/py-imatrix.gguf";
static const char py_dat[] = "tests/golden/containers/py.dat";
static const char q[] = "blk.0.attn_q.weight", up[] = "blk.0.ffn_up_exps.weight";

static void test_read_gguf(void) {
    struct imat m;
    CHECK_OK(imat_read(&m, py_gguf, &e));
    CHECK_EQ_I64(m.n_entries, 2);
    CHECK_EQ_I64(m.n_chunks, 2);
    CHECK_EQ_I64(m.chunk_size, 512);
    CHECK(m.n_datasets == 1 && strcmp(m.dataset[0], "calib.txt") == 0);
    struct imat_entry *en = imat_find(&m, q);
    CHECK(en && en->ne0 == 4 && en->n_mat == 1 && en->count[0] == 1024 && en->sum2[1] == 1024);
    en = imat_find(&m, up);
    CHECK(en && en->ne0 == 2 && en->n_mat == 2 && en->count[0] == 10 && en->count[1] == 100);
    CHECK(en && en->sum2[2] == 300 && en->sum2[3] == 500);
    CHECK(imat_find(&m, "blk.0") == NULL && imat_find(&m, "zzz") == NULL);
    imat_release(&m);
}

/* Tests reading of .dat: value = sum/count * ncall; the reader assumes 512 tokens per call. */
static void test_read_dat(void) {
    struct imat m;
    CHECK_OK(imat_read(&m, py_dat, &e));
    CHECK_EQ_I64(m.n_entries, 2);
    CHECK_EQ_I64(m.n_chunks, 2);
    CHECK(m.n_datasets == 1 && strcmp(m.dataset[0], "calib.txt") == 0);
    struct imat_entry *en = imat_find(&m, q);
    CHECK(en && en->count[0] == 1024 && en->sum2[0] == 512 && en->sum2[2] == 256);
    en = imat_find(&m, up); /* flat: one count, four columns */
    CHECK(en && en->ne0 == 4 && en->n_mat == 1 && en->count[0] == 512);
    CHECK_OK(imat_fit(en, 2, 2, &e));
    CHECK(en->ne0 == 2 && en->n_mat == 2 && en->count[1] == 512);
    float w[4];
    imat_weights(en, 0, w);
    CHECK(w[0] == 1 && w[1] == 2 && w[2] == 3 && w[3] == 5);
    CHECK_ERR(imat_fit(en, 4, 1, &e), ERR_DATA, "1 x 4");
    CHECK_ERR(imat_fit(imat_find(&m, q), 3, 1, &e), ERR_DATA, q);
    imat_release(&m);
}

static char *slurp(const char *path, size_t *n) {
    char *p = NULL;
    CHECK_OK(io_read_file(&p, n, path, 1 << 20, &e));
    return p;
}

/* Checks that written .dat files equal Python's byte for byte, and that GGUF files read back
 * equal. */
static void test_write(void) {
    struct imat m, r;
    size_t n = 0, n2 = 0;
    CHECK_OK(imat_read(&m, py_gguf, &e));
    CHECK_OK(imat_write(&m, tmp_path("o.dat"), IMAT_DAT, false, &e));
    CHECK_ERR(imat_write(&m, tmp_path("o.dat"), IMAT_DAT, false, &e), ERR_USAGE, "o.dat");
    char *a = slurp(tmp_path("o.dat"), &n), *b = slurp(py_dat, &n2);
    /* Python's trailer names "dir/calib.txt" (13 bytes), ours the base name (9) */
    CHECK(n == n2 - 4 && memcmp(a, b, n - 13) == 0);
    free(a);
    free(b);
    CHECK_OK(imat_write(&m, tmp_path("o.gguf"), IMAT_GGUF, false, &e));
    CHECK_OK(imat_write(&m, tmp_path("o2.gguf"), IMAT_GGUF, false, &e));
    a = slurp(tmp_path("o.gguf"), &n);
    b = slurp(tmp_path("o2.gguf"), &n2);
    CHECK(n == n2 && memcmp(a, b, n) == 0);
    free(a);
    free(b);
    CHECK_OK(imat_read(&r, tmp_path("o.gguf"), &e));
    CHECK_EQ_I64(r.n_entries, m.n_entries);
    for (int64_t i = 0; i < m.n_entries; i++) {
        const struct imat_entry *x = &m.entry[i], *y = &r.entry[i];
        CHECK_EQ_STR(x->name, y->name);
        CHECK(x->ne0 == y->ne0 && x->n_mat == y->n_mat);
        CHECK(memcmp(x->sum2, y->sum2, (size_t)(x->ne0 * x->n_mat) * sizeof(double)) == 0);
        CHECK(memcmp(x->count, y->count, (size_t)x->n_mat * sizeof(double)) == 0);
    }
    imat_release(&r);
    imat_release(&m);
    struct gguf *g; /* the keys that other programs require, with their types */
    CHECK_OK(gguf_open(&g, tmp_path("o.gguf"), 0, &e));
    CHECK_EQ_STR(gguf_str_or(g, "general.type", ""), "imatrix");
    CHECK_EQ_I64(gguf_find(g, "imatrix.chunk_count")->type, GV_U32);
    CHECK_EQ_I64(gguf_find(g, "imatrix.chunk_size")->type, GV_U32);
    const struct gguf_tensor *t = gguf_find_tensor(g, "blk.0.ffn_up_exps.weight.counts");
    CHECK(t && t->ne[0] == 1 && t->ne[1] == 2 && t->type == QT_F32);
    gguf_close(g);
}

/* Checks that an expert without tokens reads back from .dat as ones, and that an entry without any
 * tokens is left out. */
static void test_unseen(void) {
    struct imat m, r;
    float w[4];
    imat_init(&m);
    m.chunk_size = 512;
    struct imat_entry *en = imat_add(&m, "exps", 2, 2);
    en->sum2[2] = 600;
    en->sum2[3] = 1200;
    en->count[1] = 600; /* two calls */
    imat_add(&m, "never", 3, 1);
    CHECK_OK(imat_write(&m, tmp_path("u.dat"), IMAT_DAT, true, &e));
    CHECK_OK(imat_read(&r, tmp_path("u.dat"), &e));
    CHECK_EQ_I64(r.n_entries, 1);
    CHECK_OK(imat_fit(&r.entry[0], 2, 2, &e));
    imat_weights(&r.entry[0], 0, w);
    CHECK(w[0] == 1 && w[1] == 1 && w[2] == 1 && w[3] == 2);
    imat_release(&r);
    imat_weights(en, 0, w); /* unseen: the mean of the others */
    CHECK(w[0] == 1 && w[1] == 2 && w[2] == 1 && w[3] == 2);
    imat_release(&m);
    imat_init(&m);
    imat_add(&m, "never", 3, 1);
    CHECK_ERR(imat_write(&m, tmp_path("v.dat"), IMAT_DAT, true, &e), ERR_DATA, "empty");
    CHECK(!io_exists(tmp_path("v.dat")));
    imat_find(&m, "never")->count[0] = 1;
    imat_find(&m, "never")->sum2[1] = (double)NAN;
    CHECK_ERR(imat_write(&m, tmp_path("v.gguf"), IMAT_GGUF, true, &e), ERR_DATA, "column 1");
    imat_release(&m);
}

/* Checks that sums of zero carry no information, whatever the count: such an expert gets the mean
 * of the others, and such an entry counts as missing. */
static void test_blind(void) {
    struct imat m;
    float w[6];
    imat_init(&m);
    struct imat_entry *en = imat_add(&m, "exps", 2, 3);
    en->sum2[2] = 600;
    en->sum2[3] = 1200;
    en->count[0] = 40;
    en->count[1] = 600;
    CHECK_EQ_I64(imat_blind(en), 2);
    CHECK(en->count[0] == 0 && en->count[1] == 600);
    imat_weights(en, 0, w);
    CHECK(w[0] == 1 && w[1] == 2 && w[4] == 1 && w[5] == 2);
    en = imat_add(&m, "zero", 3, 1);
    en->count[0] = 512;
    CHECK_EQ_I64(imat_blind(en), 1);
    imat_release(&m);
}

/* Tests shrinkage. n=10: (10*1 + 30*q)/40 with q = 310/110; n=100 likewise. */
static void test_shrinkage(void) {
    struct imat m;
    float w[4];
    CHECK_OK(imat_read(&m, py_gguf, &e));
    imat_weights(imat_find(&m, up), 30, w);
    CHECK_CLOSE(w[0], (10.0 + 30.0 * 310.0 / 110.0) / 40.0, 1e-6);
    CHECK_CLOSE(w[1], (20.0 + 30.0 * 520.0 / 110.0) / 40.0, 1e-6);
    CHECK_CLOSE(w[3], (500.0 + 30.0 * 520.0 / 110.0) / 130.0, 1e-6);
    imat_release(&m);
}

/* Tests that weights too large for the encoders keep their ratios, and that others stay the same,
 * for each matrix on its own. */
static void test_large(void) {
    struct imat m;
    float w[4];
    imat_init(&m);
    struct imat_entry *en = imat_add(&m, "exps", 2, 2);
    en->sum2[0] = 0x1p120;
    en->sum2[1] = 0x1.8p118;
    en->sum2[2] = 0x1p60;
    en->sum2[3] = 3;
    en->count[0] = en->count[1] = 1;
    imat_weights(en, 0, w);
    CHECK(w[0] == .5f && w[1] == .1875f);
    CHECK(w[2] == 0x1p60f && w[3] == 3);
    imat_release(&m);
}

static void test_merge(void) {
    struct imat a, b, d;
    CHECK_OK(imat_read(&a, py_gguf, &e));
    CHECK_OK(imat_read(&b, py_gguf, &e));
    CHECK_OK(imat_read(&d, py_dat, &e));
    CHECK_OK(imat_merge(&a, &b, &e));
    CHECK(imat_find(&a, up)->sum2[3] == 1000 && imat_find(&a, up)->count[1] == 200);
    CHECK_EQ_I64(a.n_chunks, 4);
    CHECK_EQ_I64(a.n_datasets, 2);
    CHECK_OK(imat_merge(&a, &d, &e)); /* the single count applies to both experts */
    CHECK(imat_find(&a, up)->count[0] == 20 + 512 && imat_find(&a, up)->count[1] == 200 + 512);
    CHECK(imat_find(&a, up)->sum2[0] == 20 + 512);
    CHECK_OK(imat_merge(&d, &b, &e)); /* the other way round: adopts the shape */
    CHECK(imat_find(&d, up)->n_mat == 2 && imat_find(&d, up)->count[1] == 612);
    imat_release(&b);
    imat_init(&b);
    imat_add(&b, q, 5, 1);
    double before = imat_find(&a, up)->sum2[0];
    CHECK_ERR(imat_merge(&a, &b, &e), ERR_DATA, "different models");
    CHECK(imat_find(&a, up)->sum2[0] == before);
    imat_add(&b, "new", 3, 2);
    imat_release(&a);
    imat_init(&a);
    CHECK_OK(imat_merge(&a, &b, &e));
    CHECK_EQ_I64(a.n_entries, 2);
    imat_release(&a);
    imat_release(&b);
    imat_release(&d);
}

/* Checks that counts that readers would refuse are not written, and that counts beyond the range of
 * a .dat file's integers are the largest. */
static void test_counts(void) {
    struct imat a, b;
    struct imat_entry *en;
    imat_init(&a);
    imat_init(&b);
    en = imat_add(&a, "x", 1, 1);
    en->sum2[0] = 1;
    en->count[0] = 3e38;
    CHECK_OK(imat_merge(&b, &a, &e));
    CHECK_OK(imat_write(&b, tmp_path("counts.dat"), IMAT_DAT, true, &e));
    CHECK_OK(imat_merge(&b, &a, &e));
    CHECK_ERR(imat_write(&b, tmp_path("counts.gguf"), IMAT_GGUF, true, &e), ERR_DATA,
              "\"x\", matrix 0: the count is 6e+38");
    imat_release(&b);
    CHECK_OK(imat_read(&b, tmp_path("counts.dat"), &e));
    CHECK(b.n_entries == 1 && b.entry[0].count[0] > 1e9);
    imat_release(&a);
    imat_release(&b);
}

static void test_order(void) {
    struct imat m;
    imat_init(&m);
    imat_add(&m, "c", 1, 1);
    imat_add(&m, "a", 1, 1);
    imat_add(&m, "b", 2, 1);
    CHECK(imat_add(&m, "b", 2, 1) == imat_find(&m, "b"));
    CHECK(imat_add(&m, "b", 1, 1) == NULL);
    CHECK(imat_add(&m, "x", 0, 1) == NULL);
    CHECK(imat_add(&m, "x", INT64_MAX, 2) == NULL);
    CHECK(m.n_entries == 3 && !strcmp(m.entry[0].name, "a") && !strcmp(m.entry[2].name, "c"));
    imat_release(&m);
}

/* ---- damaged files --------------------------------------------------------------------------- */

static void i32(struct buf *b, int32_t v) {
    buf_add(b, &v, 4);
}
static int try_bytes(const void *p, size_t n) {
    struct imat m;
    int rc = imat_read(&m, tmp_write("x.imatrix", p, n), &e);
    if (!rc) imat_release(&m);
    return rc;
}
static void dat_entry(struct buf *b, int32_t len, const char *name, int32_t ncall, int32_t nval) {
    i32(b, len);
    buf_str(b, name);
    i32(b, ncall);
    i32(b, nval);
    float v = 2;
    for (int i = 0; i < nval && i < 4; i++) buf_add(b, &v, 4);
}
static void test_bad_dat(void) {
    static const struct {
        int32_t n, len;
        const char *name;
        int32_t ncall, nval;
        const char *text;
    } bad[] = {
        {0, 1, "a", 1, 4, "not an importance matrix"},
        {-1, 1, "a", 1, 4, "not an importance matrix"},
        {1000000, 1, "a", 1, 4, "not an importance matrix"},
        {1, -1, "a", 1, 4, "claims -1 bytes"},
        {1, 2000, "a", 1, 4, "claims 2000 bytes"},
        {1, 0, "", 1, 4, "name is empty"},
        {1, 1, "a", 1, 0, "values: 0"},
        {1, 1, "a", 1, -4, "values: -4"},
        {1, 1, "a", 1, 1 << 30, "truncated"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct buf b = {0};
        i32(&b, bad[i].n);
        dat_entry(&b, bad[i].len, bad[i].name, bad[i].ncall, bad[i].nval);
        i32(&b, 0);
        i32(&b, 0);
        CHECK_ERR(try_bytes(b.data, b.len), ERR_DATA, bad[i].text);
        CHECK(strstr(e.msg, "x.imatrix") != NULL);
        buf_release(&b);
    }
    struct buf b = {0};
    i32(&b, 2);
    dat_entry(&b, 1, "a", 0, 4); /* ncall 0: the values are used unchanged */
    dat_entry(&b, 1, "b", 1, 4);
    CHECK_OK(try_bytes(b.data, b.len)); /* no trailer: accepted */
    b.data[4 + 4 + 1 + 8 + 16 + 4] = 'a';
    CHECK_ERR(try_bytes(b.data, b.len), ERR_DATA, "duplicate entry");
    b.data[4 + 4 + 1 + 8 + 16 + 4] = 'b';
    float nan = NAN;
    memcpy(b.data + b.len - 4, &nan, 4);
    CHECK_ERR(try_bytes(b.data, b.len), ERR_DATA, "finite");
    nan = -1;
    memcpy(b.data + b.len - 4, &nan, 4);
    CHECK_ERR(try_bytes(b.data, b.len), ERR_DATA, "not negative");
    buf_release(&b);
}

static void test_truncations(void) {
    static const char *const files[] = {py_dat, py_gguf};
    for (size_t f = 0; f < 2; f++) {
        size_t n = 0;
        char *p = slurp(files[f], &n);
        /* a .dat is complete without the trailer (2 numbers and 13 bytes) or with only its first
         * number; a GGUF may lack the final padding (24 of 32 bytes) */
        for (size_t cut = 0; cut < n; cut++) {
            bool whole = f == 0 ? cut == n - 21 || cut == n - 17 : cut >= n - 24;
            if ((try_bytes(p, cut) == 0) != whole) CHECK_FAIL("%s cut at %zu", files[f], cut);
        }
        for (size_t i = 0; i < n; i++) { /* sanitizers watch */
            char was = p[i];
            p[i] = (char)0xff;
            (void)try_bytes(p, n);
            p[i] = 0;
            (void)try_bytes(p, n);
            p[i] = was;
        }
        free(p);
    }
}

static int gguf_variant(const char *remove, const char *tensor, enum qtype type, int64_t ne0,
                        int64_t ne1) {
    struct gguf_w *w = gguf_w_new();
    struct imat m;
    static const char zeros[4096];
    gguf_w_str(w, "general.type", "imatrix");
    gguf_w_arr_str(w, "imatrix.datasets", NULL, 0);
    gguf_w_u32(w, "imatrix.chunk_count", 1);
    gguf_w_u32(w, "imatrix.chunk_size", 512);
    if (remove) gguf_w_remove(w, remove);
    CHECK_OK(gguf_w_tensor(w, "w.in_sum2", QT_F32, 2, (const int64_t[]){8, 2}, &e));
    if (tensor) CHECK_OK(gguf_w_tensor(w, tensor, type, 2, (const int64_t[]){ne0, ne1}, &e));
    CHECK_OK(gguf_w_begin(w, tmp_path("v.gguf"), true, &e));
    CHECK_OK(gguf_w_data(w, zeros, 64, &e));
    if (tensor) CHECK_OK(gguf_w_data(w, zeros, qtype_row_bytes(type, ne0) * (uint64_t)ne1, &e));
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
    int rc = imat_read(&m, tmp_path("v.gguf"), &e);
    if (!rc) imat_release(&m);
    return rc;
}
static void test_bad_gguf(void) {
    CHECK_OK(gguf_variant(NULL, "w.counts", QT_F32, 1, 2));
    CHECK_OK(gguf_variant(NULL, "w.counts", QT_F32, 1, 1));
    CHECK_ERR(gguf_variant(NULL, NULL, QT_F32, 0, 0), ERR_DATA, "lacks its partner \"w.counts\"");
    CHECK_ERR(gguf_variant(NULL, "w.counts", QT_F32, 1, 3), ERR_DATA, "2 matrices but 3 counts");
    CHECK_ERR(gguf_variant(NULL, "w.counts", QT_F16, 1, 2), ERR_DATA, "F32");
    CHECK_ERR(gguf_variant("imatrix.datasets", "w.counts", QT_F32, 1, 2), ERR_DATA,
              "imatrix.datasets");
    CHECK_ERR(gguf_variant("imatrix.chunk_count", "w.counts", QT_F32, 1, 2), ERR_DATA,
              "imatrix.chunk_count");
    CHECK_ERR(gguf_variant("imatrix.chunk_size", "w.counts", QT_F32, 1, 2), ERR_DATA,
              "imatrix.chunk_size");
    struct imat m;
    CHECK_ERR(imat_read(&m, "tests/golden/containers/py.gguf", &e), ERR_DATA,
              "not an importance matrix");
    CHECK_ERR(imat_read(&m, "tests/golden/containers/py.safetensors", &e), ERR_DATA,
              "not an importance");
}

int main(void) {
    log_set_level(LOG_ERROR);
    tmp_make();
    RUN(test_read_gguf);
    RUN(test_read_dat);
    RUN(test_write);
    RUN(test_unseen);
    RUN(test_blind);
    RUN(test_shrinkage);
    RUN(test_large);
    RUN(test_merge);
    RUN(test_counts);
    RUN(test_order);
    RUN(test_bad_dat);
    RUN(test_truncations);
    RUN(test_bad_gguf);
    tmp_remove();
    return check_done();
}
