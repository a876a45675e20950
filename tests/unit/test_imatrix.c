// SPDX-License-Identifier: MIT
/* tests/unit/test_imatrix.c - calib/: the collector's sums, compared with a direct computation from
 * the file's tensors for the one product whose input needs no forward pass (the first block's), and
 * for the others with the counts that routing must give. */
#include "calib/imatrix.h"

#include <unistd.h>

#include "calib/candidates.h"
#include "calib/coverage.h"
#include "calib/defaults.h"
#include "calib/moments.h"
#include "calib/stats.h"
#include "convert/convert.h"
#include "base/bytes.h"
#include "base/ctx.h"
#include "containers/gguf.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/out.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/progress.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

enum { CTX = 64, CHUNKS = 3 };
static char gguf[256], text[256];
static struct model *model;

static void setup(void) {
    struct err e;
    struct convert_opts o = {.src = "tests/golden/models/qwen35moe", .out = gguf, .type = "f32"};
    struct convert_report r;
    const struct default_text *t = default_text_at(0);
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_OK(model_open(&model, gguf, &e));
    CHECK_OK(out_write_file(text, t->data, 4000, true, &e));
}

static bool moments; /* collected too */

static void collect(struct imat *m, int n_threads, struct err *e) {
    struct pool *pool = NULL;
    const char *texts[] = {text};
    imat_init(m);
    CHECK(pool_new(&pool, n_threads, e) == 0);
    struct imatrix_opts o = {.texts = texts,
                             .n_texts = 1,
                             .ctx = CTX,
                             .max_chunks = CHUNKS,
                             .isa = kern_isa_best(),
                             .pool = pool,
                             .moments = moments};
    if (imatrix_collect(model, &o, m, e)) CHECK_FAIL("%s", e->msg);
    pool_free(pool);
}

static const float *f32(const char *name) {
    const struct gguf_tensor *t = gguf_find_tensor(model->gguf, name);
    CHECK(t && t->type == QT_F32);
    return t ? (const float *)(const void *)t->data : NULL;
}

static void test_first_block_equals_direct_sums(void) {
    struct err e;
    struct imat m;
    struct ids ids = {0};
    int64_t d = model->hp.d[HD_EMBD];
    const float *embd = f32("token_embd.weight"), *norm = f32("blk.0.attn_norm.weight");
    moments = true;
    collect(&m, 1, &e);
    moments = false;
    CHECK_OK(corpus_load(model, text, false, &ids, &e));
    double *want = calloc((size_t)d, sizeof *want), *want1 = calloc((size_t)d, sizeof *want),
           *want4 = calloc((size_t)d, sizeof *want), *size1 = calloc((size_t)d, sizeof *want);
    for (int64_t t = 0; t < CTX * CHUNKS; t++) {
        const float *x = embd + ids.v[t] * d;
        double ss = 0;
        for (int64_t i = 0; i < d; i++) ss += (double)x[i] * (double)x[i];
        double scale = 1 / sqrt(ss / (double)d + model->hp.f[HF_RMS_EPS]);
        for (int64_t i = 0; i < d; i++) {
            double h = (double)x[i] * scale * (double)norm[i];
            want[i] += h * h;
            want1[i] += h;
            size1[i] += fabs(h);
            want4[i] += h * h * h * h;
        }
    }
    const struct imat_entry *en = imat_find(&m, "blk.0.attn_qkv.weight");
    CHECK(en && en->ne0 == d && en->n_mat == 1);
    /* f32 norms round to 6e-8 relative, squared and summed over positive terms: far below 1e-5 */
    for (int64_t i = 0; en && i < d; i++) {
        CHECK(fabs(en->sum2[i] - want[i]) <= 1e-5 * want[i]);
        CHECK(fabs(en->sum4[i] - want4[i]) <= 1e-5 * want4[i]);
        CHECK(fabs(en->sum1[i] - want1[i]) <= 1e-5 * size1[i]);
    }
    free(want);
    free(want1);
    free(want4);
    free(size1);
    ids_release(&ids);
    imat_release(&m);
}

/* Checks that the moments file has the collected sums and the standard file has none of them. */
static void test_file_of_moments(void) {
    struct err e;
    struct imat m, plain;
    struct gguf *g = NULL;
    char a[300], b[300], c[300], *da = NULL, *db = NULL;
    size_t na = 0, nb = 0;
    snprintf(a, sizeof a, "%s/with.gguf", tmp_dir);
    snprintf(b, sizeof b, "%s/without.gguf", tmp_dir);
    snprintf(c, sizeof c, "%s/moments.gguf", tmp_dir);
    collect(&plain, 2, &e);
    moments = true;
    collect(&m, 2, &e);
    moments = false;
    CHECK_OK(imat_write(&m, a, IMAT_GGUF, false, &e));
    CHECK_OK(imat_write(&plain, b, IMAT_GGUF, false, &e));
    CHECK_OK(imat_write_moments(&m, c, false, &e));
    CHECK_OK(io_read_file(&da, &na, a, 1 << 28, &e));
    CHECK_OK(io_read_file(&db, &nb, b, 1 << 28, &e));
    CHECK(na == nb && memcmp(da, db, na) == 0);
    CHECK_OK(gguf_open(&g, c, 0, &e));
    const struct imat_entry *en = imat_find(&m, "blk.1.ffn_down_exps.weight");
    const struct gguf_tensor *t1 = gguf_find_tensor(g, "blk.1.ffn_down_exps.weight.in_sum"),
                             *t4 = gguf_find_tensor(g, "blk.1.ffn_down_exps.weight.in_sum4"),
                             *tc = gguf_find_tensor(g, "blk.1.ffn_down_exps.weight.counts");
    CHECK(en && t1 && t4 && tc && t1->ne[0] == en->ne0 && t4->ne[1] == en->n_mat && tc->ne[0] == 1);
    for (int64_t i = 0; en && t1 && t4 && i < en->ne0 * en->n_mat; i++) {
        CHECK(load_f32(t1->data + 4 * i) == (float)en->sum1[i]);
        CHECK(load_f32(t4->data + 4 * i) == (float)en->sum4[i]);
    }
    gguf_close(g);
    free(da);
    free(db);
    imat_release(&m);
    imat_release(&plain);
}

static void test_counts_are_tokens(void) {
    struct err e;
    struct imat m;
    collect(&m, 2, &e);
    int64_t n_used = model->hp.d[HD_EXPERTS_USED];
    CHECK_EQ_I64(m.n_chunks, CHUNKS);
    CHECK(m.n_entries > 20);
    for (int64_t i = 0; i < m.n_entries; i++) {
        const struct imat_entry *en = &m.entry[i];
        double n = 0;
        for (int64_t k = 0; k < en->n_mat; k++) n += en->count[k];
        int block = atoi(en->name + 4), mtp = block >= model->hp.d[HD_LAYERS]; /* one row less */
        int64_t want = (CTX - mtp) * CHUNKS * (en->n_mat > 1 ? n_used : 1);
        if ((int64_t)n != want)
            CHECK_FAIL("%s counts %lld tokens, expected %lld", en->name, (long long)n,
                       (long long)want);
        CHECK(strncmp(en->name, "blk.", 4) == 0);
    }
    /* gate and up of an expert have the same input rows */
    const struct imat_entry *g = imat_find(&m, "blk.1.ffn_gate_exps.weight"),
                            *u = imat_find(&m, "blk.1.ffn_up_exps.weight");
    CHECK(g && u && memcmp(g->sum2, u->sum2, (size_t)(g->ne0 * g->n_mat) * sizeof *g->sum2) == 0);
    imat_release(&m);
}

static void test_threads_do_not_matter(void) {
    struct err e;
    struct imat a, b;
    collect(&a, 1, &e);
    collect(&b, 3, &e);
    CHECK_EQ_I64(a.n_entries, b.n_entries);
    for (int64_t i = 0; i < a.n_entries && i < b.n_entries; i++)
        CHECK(memcmp(a.entry[i].sum2, b.entry[i].sum2,
                     (size_t)(a.entry[i].ne0 * a.entry[i].n_mat) * sizeof(double)) == 0);
    imat_release(&a);
    imat_release(&b);
}

/* Returns how many chunks run together if n_bytes of memory are left. */
static int together(uint64_t n_bytes) {
    struct ctx c;
    ctx_init(&c);
    struct ctx *mine = ctx_enter(&c);
    mem_limit(n_bytes);
    const int n = imatrix_together(model->gguf, false);
    ctx_enter(mine);
    ctx_release(&c);
    return n;
}

/* Checks that the sums of a pass and the total take at most a quarter of the memory. */
static void test_sums_fit(void) {
    struct err e;
    struct imat m;
    uint64_t set = 0;
    collect(&m, 2, &e);
    for (int64_t i = 0; i < m.n_entries; i++)
        set += (uint64_t)(m.entry[i].ne0 * m.entry[i].n_mat) * sizeof(double);
    CHECK_EQ_I64(together(set), 1);
    for (int n = 2; n < 100; n += 7) {
        CHECK(together(4 * set * (uint64_t)(n + 1)) <= n);
        CHECK(together(8 * set * (uint64_t)(n + 1)) > n);
    }
    imat_release(&m);
}

/* Interrupts the run once n tokens are done, at the end of a chunk or within it. */
static int stop_at(void *ud, const char *stage, uint64_t done, uint64_t total) {
    (void)stage, (void)total;
    return done >= *(const uint64_t *)ud;
}

/* Makes one run with second moments and snapshots. stop: number of tokens after which it is
 * interrupted; 0: never.
 */
static int stored(const char *part, uint64_t stop, int n_threads, int64_t n_chunks, double every,
                  struct imat *m, int64_t *n_found, struct err *e) {
    struct pool *pool = NULL;
    struct gram_col *col = NULL;
    const char *texts[] = {text};
    struct gram g;
    char path[300];
    struct imatrix_keep keep = {.path = part, .every = every};
    imat_init(m);
    gram_init(&g);
    CHECK(pool_new(&pool, n_threads, e) == 0);
    CHECK(gram_col_new(&col, 0, kern_isa_best(), pool, e) == 0);
    struct imatrix_opts o = {.texts = texts,
                             .n_texts = 1,
                             .ctx = CTX,
                             .max_chunks = n_chunks,
                             .isa = kern_isa_best(),
                             .pool = pool,
                             .moments = true,
                             .gram = col,
                             .keep = part ? &keep : NULL};
    if (stop) progress_set_sink(stop_at, &stop);
    int rc = imatrix_collect(model, &o, m, e);
    progress_set_sink(NULL, NULL);
    progress_resume();
    *n_found = keep.n_found;
    snprintf(path, sizeof path, "%s/gram-%s", tmp_dir, part ? "again" : "whole");
    if (!rc) rc = gram_col_finish(col, &g, e);
    if (!rc) rc = gram_write(&g, path, true, e);
    gram_release(&g);
    gram_col_free(col);
    pool_free(pool);
    return rc;
}

static void same_sums(const struct imat *a, const struct imat *b) {
    CHECK_EQ_I64(a->n_entries, b->n_entries);
    CHECK_EQ_I64(a->n_chunks, b->n_chunks);
    for (int64_t i = 0; i < a->n_entries && i < b->n_entries; i++) {
        const struct imat_entry *x = &a->entry[i], *y = &b->entry[i];
        const size_t n = (size_t)(x->ne0 * x->n_mat) * sizeof(double);
        CHECK(strcmp(x->name, y->name) == 0 && memcmp(x->sum2, y->sum2, n) == 0);
        CHECK(memcmp(x->sum1, y->sum1, n) == 0 && memcmp(x->sum4, y->sum4, n) == 0);
        CHECK(memcmp(x->count, y->count, (size_t)x->n_mat * sizeof(double)) == 0);
    }
}

static void same_grams(void) {
    struct err e;
    char a[300], b[300], *da = NULL, *db = NULL;
    size_t na = 0, nb = 0;
    snprintf(a, sizeof a, "%s/gram-whole", tmp_dir);
    snprintf(b, sizeof b, "%s/gram-again", tmp_dir);
    CHECK_OK(io_read_file(&da, &na, a, 1 << 28, &e));
    CHECK_OK(io_read_file(&db, &nb, b, 1 << 28, &e));
    CHECK(na == nb && na > 1000 && memcmp(da, db, na) == 0);
    free(da);
    free(db);
}

/* Checks that, however it is interrupted and with any number of threads, a resumed run gives the
 * bits of an undisturbed one. */
static void test_goes_on(void) {
    struct err e;
    struct imat whole, m;
    int64_t found = 0, n_runs = 0;
    enum { MANY = 7 };
    char part[300], *data = NULL;
    size_t len = 0;
    snprintf(part, sizeof part, "%s/im.part", tmp_dir);
    CHECK_OK(stored(NULL, 0, 2, MANY, 0, &whole, &found, &e));
    for (int64_t at = 1;; at += 2) { /* two chunks a run */
        const int rc =
            stored(part, (uint64_t)(at * CTX), 1 + (int)(n_runs % 3), MANY, 0, &m, &found, &e);
        CHECK_EQ_I64(found, n_runs ? at - 2 : 0);
        if (!rc) break;
        CHECK_EQ_I64(rc, ERR_INTR);
        CHECK(io_exists(part));
        imat_release(&m);
        n_runs++;
        if (n_runs == 2) CHECK_OK(io_read_file(&data, &len, part, 1 << 28, &e));
    }
    CHECK_EQ_I64(n_runs, 3); /* the fourth is stopped when everything is done */
    same_sums(&whole, &m);
    same_grams();
    imat_release(&m);
    /* killed: the last snapshot at the end of a chunk counts */
    remove(part);
    CHECK_EQ_I64(stored(part, 3 * CTX, 2, MANY, 1e-9, &m, &found, &e), ERR_INTR);
    imat_release(&m);
    CHECK_OK(stored(part, 0, 2, MANY, 1e-9, &m, &found, &e));
    CHECK_EQ_I64(found, 3);
    same_sums(&whole, &m);
    same_grams();
    imat_release(&m);
    /* a shorter run cannot use it; a damaged snapshot and one of a different text are not used */
    CHECK_OK(out_write_file(part, data, len, true, &e));
    CHECK_OK(stored(part, 0, 2, 2, 0, &m, &found, &e));
    CHECK_EQ_I64(found, 0);
    imat_release(&m);
    for (size_t at = 0; at < len; at += len / 11 + 1) {
        data[at + 16 < len ? at + 16 : at] ^= 4;
        CHECK_OK(out_write_file(part, data, len, true, &e));
        CHECK_OK(stored(part, 0, 2, MANY, 0, &m, &found, &e));
        CHECK_EQ_I64(found, 0);
        same_sums(&whole, &m);
        imat_release(&m);
        data[at + 16 < len ? at + 16 : at] ^= 4;
    }
    CHECK_OK(out_write_file(part, data, len, true, &e));
    CHECK_OK(stored(part, 0, 2, MANY, 0, &m, &found, &e));
    CHECK_EQ_I64(found, 3);
    same_sums(&whole, &m);
    same_grams();
    imat_release(&m);
    CHECK_OK(out_write_file(text, "other", 5, true, &e)); /* a different text, then the first */
    CHECK_OK(out_write_file(text, default_text_at(0)->data, 3999, true, &e));
    CHECK_OK(out_write_file(part, data, len, true, &e));
    CHECK_OK(stored(part, 0, 2, MANY, 0, &m, &found, &e));
    CHECK_EQ_I64(found, 0);
    imat_release(&m);
    CHECK_OK(out_write_file(text, default_text_at(0)->data, 4000, true, &e));
    free(data);
    imat_release(&whole);
}

/* Checks mean, entropy and share of an entry computed manually: v = 1, 1, 1, 5. */
static void test_statistics_by_hand(void) {
    struct imat m;
    struct imat_stats s;
    static const double v[] = {2, 2, 2, 10};
    imat_init(&m);
    struct imat_entry *en = imat_add(&m, "blk.0.a.weight", 4, 1);
    memcpy(en->sum2, v, sizeof v);
    en->count[0] = 2;
    imat_describe(&m, 0, &s);
    CHECK_CLOSE(s.sum, 8, 1e-12);
    CHECK_CLOSE(s.mean, 2, 1e-12);
    CHECK_CLOSE(s.stddev, sqrt(3), 1e-12);
    CHECK_CLOSE(s.zd, 0.25, 1e-12);
    /* p = 1/8 three times and 5/8: (3*3/8 + 5/8*log2(8/5)) / 2 */
    CHECK_CLOSE(s.entropy_norm, (9.0 / 8 + 0.625 * 0.67807190511263771) / 2, 1e-12);
    CHECK(isnan(s.cosine));
    imat_release(&m);
}

/* Checks counts computed manually: 5 experts, one matrix with fewer tokens for expert 3, blocks 2
 * and 10 in order. */
static void test_coverage_by_hand(void) {
    static const double up[] = {300, 0, 2000, 90, 1023}, down[] = {300, 0, 2000, 80, 1023};
    struct imat m;
    struct coverage c;
    imat_init(&m);
    memcpy(imat_add(&m, "blk.2.ffn_up_exps.weight", 4, 5)->count, up, sizeof up);
    memcpy(imat_add(&m, "blk.2.ffn_down_exps.weight", 4, 5)->count, down, sizeof down);
    imat_add(&m, "blk.2.attn_q.weight", 4, 1)->count[0] = 9;
    imat_add(&m, "blk.2.attn_k_b.weight", 4, 4)->count[0] = 9; /* heads are not experts */
    for (int i = 0; i < 2; i++)
        imat_add(&m, "blk.10.ffn_up_exps.weight", 4, 2)->count[i] = i ? 4096 : 1024;
    imat_add(&m, "blk.10.odd_exps.weight", 4, 3)->count[1] = 7; /* skipped: fewer experts */
    coverage_make(&m, &c);
    CHECK_EQ_I64(c.n_layers, 2);
    if (c.n_layers == 2) {
        const struct cover_layer *l = c.layer;
        static const int64_t order[] = {1, 3, 0, 4, 2};
        CHECK(l[0].block == 2 && l[0].n == 5 && l[1].block == 10);
        for (int i = 0; i < 5; i++) CHECK_EQ_I64(l[0].expert[i].id, order[i]);
        CHECK(l[0].least == 0 && l[0].p1 == 0 && l[0].median == 300 && l[0].most == 2000);
        CHECK(l[0].expert[1].tokens == 80 && l[0].total == 3403);
        CHECK(l[0].n_unseen == 1 && l[0].n_rare == 1 && l[0].n_short == 3);
        CHECK(l[1].n == 2 && l[1].total == 5120);
    }
    coverage_release(&c);
    imat_release(&m);
}

/* Checks that every layer's counts add up to the number of tokens times experts per token. */
static void test_coverage_of_a_model(void) {
    struct err e;
    struct imat m;
    struct coverage c;
    collect(&m, 2, &e);
    coverage_make(&m, &c);
    CHECK(c.n_layers >= model->hp.d[HD_LAYERS]);
    for (int64_t i = 0; i < c.n_layers; i++) {
        const int64_t mtp = c.layer[i].block >= model->hp.d[HD_LAYERS];
        CHECK_EQ_I64(c.layer[i].n, model->hp.d[HD_EXPERTS]);
        CHECK_EQ_I64((int64_t)c.layer[i].total,
                     (CTX - mtp) * CHUNKS * model->hp.d[HD_EXPERTS_USED]);
    }
    coverage_release(&c);
    imat_release(&m);
}

/* Checks that --select counts the same tokens per expert as collecting does with independent code
 * (from the inputs of products, not the router's choices), and that the pieces of a text make up
 * the whole. */
static void test_documents_are_counted_as_collected(void) {
    struct err e;
    struct pool *pool = NULL;
    struct candidates c;
    struct imat m;
    char path[300];
    snprintf(path, sizeof path, "%s/doc.jsonl", tmp_dir);
    static const char doc[] = "{\"text\": \"The value of a\\nthing, <|im_end|> and more of it\"}";
    const char *texts[] = {path, path, text};
    struct ids ids = {0};
    CHECK_OK(out_write_file(path, doc, sizeof doc - 1, true, &e));
    CHECK_OK(corpus_load(model, path, true, &ids, &e));
    CHECK(ids.n > 8);
    CHECK(pool_new(&pool, 2, &e) == 0);
    struct imatrix_opts o = {.texts = texts,
                             .n_texts = 3,
                             .ctx = ids.n,
                             .parse_special = true,
                             .isa = kern_isa_best(),
                             .pool = pool};
    CHECK_OK(candidates_init(&c, model, &e));
    CHECK_OK(candidates_route(&c, model, &o, &e));
    CHECK_EQ_I64(c.n_layers, model->hp.d[HD_LAYERS]);
    CHECK_EQ_I64(c.n_duplicates, 1);
    CHECK_EQ_I64(c.sel.n_docs, 3); /* the document, and two pieces of 4000 bytes */
    if (c.sel.n_docs != 3) return;
    CHECK_EQ_I64(c.sel.doc[0].n_tokens, ids.n);
    o.n_texts = 1;
    imat_init(&m);
    CHECK_OK(imatrix_collect(model, &o, &m, &e));
    const size_t n = (size_t)c.sel.n_cells;
    double *want = calloc(n, sizeof *want), *got = calloc(n, sizeof *got);
    CHECK_OK(candidates_have(&c, &m, want, &e));
    sel_count(&c.sel, 0, got);
    CHECK(memcmp(want, got, n * sizeof *got) == 0);
    /* every token of the text uses its experts in every layer */
    double sum = 0;
    memset(got, 0, n * sizeof *got);
    sel_count(&c.sel, 1, got);
    sel_count(&c.sel, 2, got);
    for (size_t i = 0; i < n; i++) sum += got[i];
    CHECK_EQ_I64((int64_t)sum, (c.n_tokens - ids.n) * model->hp.d[HD_EXPERTS_USED] * c.n_layers);
    /* the lines, last pick first */
    const struct sel_pick pick[] = {{2, 0}, {1, 0}, {0, 0}};
    struct buf lines = {0};
    o.n_texts = 3;
    CHECK_OK(candidates_lines(&c, model, &o, pick, 3, &lines, &e));
    const size_t len = lines.len;
    CHECK(len > sizeof doc && memcmp(lines.data + len - sizeof doc, doc, sizeof doc - 1) == 0);
    CHECK(strncmp(lines.data, "{\"text\": \"", 10) == 0);
    /* the lines give the same tokens */
    CHECK_OK(out_write_file(path, lines.data, len, true, &e));
    ids.n = 0;
    CHECK_OK(corpus_load(model, path, true, &ids, &e));
    CHECK_EQ_I64(ids.n, c.n_tokens);
    /* changed files are detected: different text, and less of it */
    CHECK_ERR(candidates_lines(&c, model, &o, pick, 3, &lines, &e), ERR_DATA, "changed");
    CHECK_OK(out_write_file(path, "", 0, true, &e));
    CHECK_ERR(candidates_lines(&c, model, &o, pick, 3, &lines, &e), ERR_DATA, "changed");
    buf_release(&lines);
    ids_release(&ids);
    free(want);
    free(got);
    imat_release(&m);
    candidates_release(&c);
    pool_free(pool);
}

struct pieces {
    int64_t n, n_ids, longest;
    struct buf text;
};
static int see_piece(void *ud, const struct corpus_doc *d, struct err *e) {
    struct pieces *p = ud;
    struct json *j = NULL;
    CHECK_EQ_I64(d->number, ++p->n);
    CHECK(json_parse(&j, d->line, d->len, "a line", e) == 0);
    const char *t = json_str(json_get(j, "text"));
    CHECK(t && !memchr(d->line, '\n', d->len));
    if (t) buf_str(&p->text, t);
    p->n_ids += d->n_ids;
    if ((int64_t)strlen(t ? t : "") > p->longest) p->longest = (int64_t)strlen(t ? t : "");
    json_free(j);
    return 0;
}

/* Checks that pieces of a plain text end at blank lines, else at newlines, else within a line, but
 * never within a character, and that together they are the text. */
static void test_plain_text_is_cut(void) {
    struct err e;
    struct buf b = {0};
    struct pieces p = {0};
    char path[300];
    snprintf(path, sizeof path, "%s/cut.txt", tmp_dir);
    for (int i = 0; i < 120; i++) buf_fmt(&b, "paragraph %d, some words in a line\nmore\n\n", i);
    for (int i = 0; i < 400; i++) buf_fmt(&b, "line %d of a long list without blank lines\n", i);
    for (int i = 0; i < 15000; i++) buf_str(&b, "\xe2\x82\xac"); /* 45 KB of one word */
    CHECK_OK(out_write_file(path, b.data, b.len, true, &e));
    CHECK_OK(corpus_each(model, path, true, see_piece, &p, &e));
    CHECK(p.n > 4 && p.longest <= 32768);
    CHECK(p.text.len == b.len && memcmp(p.text.data, b.data, b.len) == 0);
    /* a byte that is not UTF-8, in a text with a character beyond ASCII */
    struct pieces q = {0};
    CHECK_OK(out_write_file(path,
                            "some words\xff"
                            "and m\xc3\xb6re",
                            20, true, &e));
    CHECK_OK(corpus_each(model, path, true, see_piece, &q, &e));
    CHECK_EQ_STR(q.text.data, "some words\xef\xbf\xbd"
                              "and m\xc3\xb6re");
    CHECK_OK(out_write_file(path, "some words\0and more", 19, true, &e));
    CHECK_ERR(corpus_each(model, path, true, see_piece, &q, &e), ERR_DATA, "byte 10 is NUL");
    buf_release(&p.text);
    buf_release(&q.text);
    buf_release(&b);
}

static void test_bad_texts(void) {
    struct err e;
    struct ids ids = {0};
    char path[256];
    snprintf(path, sizeof path, "%s/x.jsonl", tmp_dir);
    CHECK_OK(out_write_file(path, "{\"messages\": [", 14, true, &e));
    CHECK_ERR(corpus_load(model, path, true, &ids, &e), ERR_DATA, "line 1");
    CHECK_OK(out_write_file(path, "[]\n7\n", 5, true, &e));
    CHECK_ERR(corpus_load(model, path, true, &ids, &e), ERR_DATA, "x.jsonl");
    snprintf(path, sizeof path, "%s/empty.txt", tmp_dir);
    CHECK_OK(out_write_file(path, "", 0, true, &e));
    CHECK_ERR(corpus_load(model, path, true, &ids, &e), ERR_DATA, "no text");
    snprintf(path, sizeof path, "%s/cut.txt.gz", tmp_dir);
    CHECK_OK(out_write_file(path, "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b", 11, true, &e));
    CHECK_ERR(corpus_load(model, path, true, &ids, &e), ERR_DATA, "gzip");
    snprintf(path, sizeof path, "%s/absent.txt", tmp_dir);
    CHECK_ERR(corpus_load(model, path, true, &ids, &e), ERR_USAGE, "absent.txt");
    CHECK_EQ_I64(ids.n, 0);
    const char *texts[] = {text};
    struct imat m;
    imat_init(&m);
    struct imatrix_opts o = {.texts = texts, .n_texts = 1, .ctx = 1 << 20, .isa = kern_isa_best()};
    CHECK_ERR(imatrix_collect(model, &o, &m, &e), ERR_DATA, "fewer than one chunk");
    imat_release(&m);
    ids_release(&ids);
}

/* Checks the hash of the built-in texts. Model cards give their version: increment it, and update
 * this hash, with each change. */
static void test_texts_version(void) {
    struct buf all = {0};
    char hex[33];
    for (int i = 0; default_text_at(i); i++) {
        const struct default_text *t = default_text_at(i);
        CHECK(strstr(t->about, "version 2") && default_text_about(t->name) == t->about);
        buf_add(&all, t->data, default_text_len(t));
    }
    CHECK(default_text_about("mine.txt") == NULL);
    hash_xxh128_hex(hex, all.data, all.len);
    CHECK_EQ_STR(hex, "1a2d55f210615e786d60413417fe25df");
    buf_release(&all);
}

int main(void) {
    RUN(test_texts_version);
    tmp_make();
    log_set_level(LOG_ERROR);
    snprintf(gguf, sizeof gguf, "%s/m.gguf", tmp_dir);
    snprintf(text, sizeof text, "%s/t.txt", tmp_dir);
    RUN(setup);
    if (!model) return check_done();
    RUN(test_first_block_equals_direct_sums);
    RUN(test_file_of_moments);
    RUN(test_counts_are_tokens);
    RUN(test_threads_do_not_matter);
    RUN(test_sums_fit);
    RUN(test_goes_on);
    RUN(test_statistics_by_hand);
    RUN(test_coverage_by_hand);
    RUN(test_coverage_of_a_model);
    RUN(test_documents_are_counted_as_collected);
    RUN(test_plain_text_is_cut);
    RUN(test_bad_texts);
    model_close(model);
    tmp_remove();
    return check_done();
}
