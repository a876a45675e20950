// SPDX-License-Identifier: MIT
/* quantize/hessian_file.c - reader (memory-mapped) and writer of second-moment files
 * (docs/formats/gram.md). The bytes written depend only on the contents, because weights and
 * inputs are sorted by name. */
#include "quantize/hessian_file.h"

#include <stdlib.h>
#include <string.h>

#include "containers/gguf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/printable.h"
#include "base/str.h"

enum {
    MAX_WEIGHTS = 1 << 15,
    MAX_COLUMNS = 1 << 20,
    VERSION = 1,
    VERSION_CROSS = 2,
    VERSION_LEARNED = 3
};
/* Prefix of a learned weight. */
#define LEARNED "learned:"

void gram_init(struct gram *m) {
    memset(m, 0, sizeof *m);
}
void gram_release(struct gram *m) {
    for (int64_t i = 0; i < m->n_inputs; i++) free(m->input[i].name);
    for (int64_t i = 0; i < m->n_weights; i++) free(m->weight[i].name);
    for (int i = 0; i < m->n_datasets; i++) free(m->dataset[i]);
    if (m->file) free(m->learned);
    free(m->input);
    free(m->weight);
    free(m->dataset);
    gguf_close(m->file);
    gram_init(m);
}

bool gram_input_bytes(int64_t n, int64_t block, int64_t n_mat, uint64_t *out) {
    int64_t rows, v;
    if (n < 1 || block < 1 || n_mat < 1) return false;
    if (!mul_ok_i64(n, block, &rows) || !mul_ok_i64(rows, n_mat, &v) || v > INT64_MAX / 8)
        return false;
    *out = (uint64_t)v * sizeof(float);
    return true;
}

static int by_name(const void *a, const void *b) {
    const struct gram_weight *x = a, *y = b;
    return strcmp(x->name, y->name);
}
const struct gram_input *gram_find(const struct gram *m, const char *weight) {
    int64_t lo = 0, hi = m->n_weights;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        int c = strcmp(m->weight[mid].name, weight);
        if (c == 0) return &m->input[m->weight[mid].input];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

const struct gram_input *gram_find_out(const struct gram *m, const char *weight, int64_t rows,
                                       int64_t n_mat) {
    char *name = xasprintf(GRAM_OUT "%s", weight);
    const struct gram_input *out = gram_find(m, name);
    free(name);
    return out && out->n == rows && (out->n_mat == 1 || out->n_mat == n_mat) ? out : NULL;
}

/* Returns whether one half of an input's moments has no tokens. */
static bool has_empty_half(const struct gram_input *in) {
    double tokens[GRAM_HALVES] = {0};
    for (int h = 0; h < GRAM_HALVES; h++)
        for (int64_t k = 0; k < in->n_mat; k++) tokens[h] += (double)in->count[h][k];
    return !(tokens[0] > 0 && tokens[1] > 0);
}

void gram_warn_empty(const struct gram *m, const char *path) {
    const char *first = NULL;
    int64_t n = 0;
    for (int64_t i = 0; i < m->n_inputs; i++) {
        const struct gram_input *in = &m->input[i];
        if (strncmp(in->name, GRAM_OUT, strlen(GRAM_OUT)) == 0 || !has_empty_half(in)) continue;
        if (!n++) first = in->name;
    }
    if (n)
        log_warn("%s: moments of one half are empty for %lld input%s (%s%s): no error feedback of "
                 "their weights; give hone imatrix --gram at least %d chunks",
                 path, (long long)n, str_s(n), show_n(first, strlen(first)).s, n > 1 ? ", ..." : "",
                 GRAM_HALVES);
}

const struct gram_learned *gram_find_learned(const struct gram *m, const char *weight) {
    for (int i = 0; i < m->n_learned; i++)
        if (strcmp(m->learned[i].name, weight) == 0) return &m->learned[i];
    return NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Returns a key that is an array of strings; NULL: it is missing or has another type. */
static const struct gguf_kv *string_array(const struct gguf *g, const char *key) {
    const struct gguf_kv *kv = gguf_find(g, key);
    return kv && kv->type == GV_ARR && kv->elem == GV_STR ? kv : NULL;
}

/* Finds the tensor <input><suffix>, which must exist and be F32. */
static int find_part(const struct gguf *g, const char *input, const char *suffix,
                     const struct gguf_tensor **out, struct err *e) {
    char *name = xasprintf("%s%s", input, suffix);
    const struct gguf_tensor *t = gguf_find_tensor(g, name);
    int rc = 0;
    if (!t)
        rc = err_set(e, ERR_DATA, "tensor \"%s\" is missing", show_n(name, strlen(name)).s);
    else if (t->type != QT_F32)
        rc = err_set(e, ERR_DATA, "tensor \"%s\" is not F32", show_n(name, strlen(name)).s);
    else if ((uintptr_t)t->data % _Alignof(float))
        rc = err_set(e, ERR_DATA, "tensor \"%s\" is not aligned", show_n(name, strlen(name)).s);
    free(name);
    *out = t;
    return rc;
}

/* Reads the cross sums, which must have the shape of the moments. */
static int read_cross(struct gram *m, const char *name, struct gram_input *in, struct err *e) {
    static const char *const suffix[GRAM_HALVES] = {".cross.0", ".cross.1"};
    const struct gguf_tensor *t;
    for (int h = 0; h < GRAM_HALVES; h++) {
        TRY(find_part(m->file, name, suffix[h], &t, e));
        if (t->ne[0] != in->block || t->ne[1] != in->n || t->ne[2] != in->n_mat || t->ne[3] != 1)
            return err_set(e, ERR_DATA, "the cross sums of \"%s\" differ in shape from its moments",
                           show_n(name, strlen(name)).s);
        in->cross[h] = (const float *)(const void *)t->data;
    }
    return 0;
}

/* Reads sums and counts of one input. ERR_DATA: malformed. */
static int read_input(struct gram *m, const char *name, struct err *e) {
    static const char *const sum[GRAM_HALVES] = {".sum.0", ".sum.1"};
    struct gram_input in = {0};
    const struct gguf_tensor *t, *c;
    TRY(find_part(m->file, name, ".counts", &c, e));
    for (int h = 0; h < GRAM_HALVES; h++) {
        TRY(find_part(m->file, name, sum[h], &t, e));
        if (h && (t->ne[0] != in.block || t->ne[1] != in.n || t->ne[2] != in.n_mat))
            return err_set(e, ERR_DATA, "the two halves of \"%s\" differ in size",
                           show_n(name, strlen(name)).s);
        in.block = t->ne[0];
        in.n = t->ne[1];
        in.n_mat = t->ne[2];
        if (in.block < 1 || in.n < 1 || in.n_mat < 1 || t->ne[3] != 1 || in.block > in.n ||
            in.n > MAX_COLUMNS)
            return err_set(e, ERR_DATA, "\"%s\" has invalid dimensions",
                           show_n(name, strlen(name)).s);
        if (in.block != in.n && in.block % QK != 0)
            return err_set(e, ERR_DATA,
                           "\"%s\" has blocks of %lld columns, neither all %lld nor a multiple of "
                           "%d, so blocks of types cross them; collect the moments again with hone "
                           "imatrix --gram",
                           show_n(name, strlen(name)).s, (long long)in.block, (long long)in.n, QK);
        in.sum[h] = (const float *)(const void *)t->data;
    }
    if (c->ne[0] != in.n_mat || c->ne[1] != GRAM_HALVES || c->ne[2] != 1 || c->ne[3] != 1)
        return err_set(e, ERR_DATA, "\"%s\" has counts whose shape does not fit its %lld matrices",
                       show_n(name, strlen(name)).s, (long long)in.n_mat);
    for (int h = 0; h < GRAM_HALVES; h++) {
        in.count[h] = (const float *)(const void *)c->data + h * in.n_mat;
        for (int64_t k = 0; k < in.n_mat; k++)
            if (!(in.count[h][k] >= 0 && in.count[h][k] <= 0x1p60f))
                return err_set(e, ERR_DATA, "\"%s\" has an invalid token count: %g",
                               show_n(name, strlen(name)).s, (double)in.count[h][k]);
    }
    if (m->crossed && strncmp(name, GRAM_OUT, strlen(GRAM_OUT)) != 0)
        TRY(read_cross(m, name, &in, e));
    in.name = xstrdup(name);
    m->input[m->n_inputs++] = in;
    return 0;
}

/* Returns the index of an input, searching from the end; -1: not found. */
static int64_t input_named(const struct gram *m, const char *name) {
    for (int64_t i = m->n_inputs - 1; i >= 0; i--)
        if (strcmp(m->input[i].name, name) == 0) return i;
    return -1;
}

/* Reads which weight uses which input and sorts the weights by name. */
static int read_weights(struct gram *m, struct err *e) {
    const struct gguf_kv *w = string_array(m->file, "gram.weights"),
                         *in = string_array(m->file, "gram.inputs");
    if (!w || !in)
        return err_set(e, ERR_DATA, "key \"%s\" is not an array of strings",
                       !w ? "gram.weights" : "gram.inputs");
    if (w->count != in->count || w->count < 1 || w->count > MAX_WEIGHTS)
        return err_set(e, ERR_DATA,
                       "%llu weights with %llu inputs; equal numbers up to %d expected",
                       (unsigned long long)w->count, (unsigned long long)in->count, MAX_WEIGHTS);
    m->weight = xcalloc((size_t)w->count, sizeof *m->weight);
    m->input = xcalloc((size_t)w->count, sizeof *m->input);
    const uint8_t *pw = w->data, *pi = in->data;
    for (uint64_t i = 0; i < w->count; i++) {
        const char *sw, *si;
        uint64_t nw, ni;
        gguf_kv_str_next(w, &pw, &sw, &nw);
        gguf_kv_str_next(in, &pi, &si, &ni);
        if (nw < 1 || ni < 1 || nw > 63 || ni > 63 || memchr(sw, 0, nw) || memchr(si, 0, ni))
            return err_set(e, ERR_DATA,
                           "a name in \"gram.weights\" or \"gram.inputs\" is not valid");
        char *input = xstrndup(si, (size_t)ni);
        int64_t at = input_named(m, input);
        int rc = at < 0 ? read_input(m, input, e) : 0;
        free(input);
        if (rc) return rc;
        m->weight[m->n_weights++] =
            (struct gram_weight){xstrndup(sw, (size_t)nw), at < 0 ? m->n_inputs - 1 : at};
    }
    qsort(m->weight, (size_t)m->n_weights, sizeof *m->weight, by_name);
    for (int64_t i = 1; i < m->n_weights; i++)
        if (strcmp(m->weight[i - 1].name, m->weight[i].name) == 0)
            return err_set(e, ERR_DATA, "weight \"%s\" occurs twice",
                           show_n(m->weight[i].name, strlen(m->weight[i].name)).s);
    return 0;
}

/* Reads one learned weight. ERR_DATA: its tensor or hash is missing, or it occurs twice. */
static int read_one(struct gram *m, const char *name, const char *source, struct err *e) {
    char *full = xasprintf(LEARNED "%s", name);
    const struct gguf_tensor *t = gguf_find_tensor(m->file, full);
    struct gram_learned *l = &m->learned[m->n_learned];
    free(full);
    if (!t || strlen(source) != sizeof l->source - 1)
        return err_set(e, ERR_DATA,
                       "the learned tensor of \"%s\", or its source's hash, is missing",
                       show_n(name, strlen(name)).s);
    if (gram_find_learned(m, name))
        return err_set(e, ERR_DATA, "\"%s\" is learned twice", show_n(name, strlen(name)).s);
    *l = (struct gram_learned){.name = t->name + strlen(LEARNED),
                               .type = t->type,
                               .ne = {t->ne[0], t->ne[1], t->ne[2], t->ne[3]},
                               .data = t->data,
                               .n_bytes = t->n_bytes};
    memcpy(l->source, source, sizeof l->source);
    m->n_learned++;
    return 0;
}
/* Reads the learned weights. */
static int read_learned(struct gram *m, struct err *e) {
    const struct gguf_kv *names = string_array(m->file, "gram.learned"),
                         *sources = string_array(m->file, "gram.learned_sources");
    if (!names || !sources || !names->count || names->count != sources->count ||
        names->count > MAX_WEIGHTS)
        return err_set(e, ERR_DATA,
                       "\"gram.learned\" and \"gram.learned_sources\" are not arrays of equal "
                       "numbers of strings, 1 to %d",
                       MAX_WEIGHTS);
    m->learned = xcalloc((size_t)names->count, sizeof *m->learned);
    const uint8_t *pn = names->data, *ps = sources->data;
    for (uint64_t i = 0; i < names->count; i++) {
        const char *sn, *ss;
        uint64_t nn, ns;
        gguf_kv_str_next(names, &pn, &sn, &nn);
        gguf_kv_str_next(sources, &ps, &ss, &ns);
        char *name = xstrndup(sn, (size_t)nn), *source = xstrndup(ss, (size_t)ns);
        const int rc = read_one(m, name, source, e);
        free(name);
        free(source);
        if (rc) return rc;
    }
    return 0;
}

/* Checks the file's kind and version, then reads inputs and weights. */
static int read_file(struct gram *m, struct err *e) {
    if (strcmp(gguf_str_or(m->file, "general.type", ""), "gram") != 0)
        return err_set(e, ERR_DATA,
                       "not a file of second moments: general.type is not \"gram\"; make one with "
                       "hone imatrix --gram");
    uint64_t v = gguf_u64_or(m->file, "gram.version", 0);
    m->crossed = v == VERSION_CROSS || v == VERSION_LEARNED;
    if (v < VERSION || v > VERSION_LEARNED)
        return err_set(e, ERR_DATA, "format version %llu is not known", (unsigned long long)v);
    uint64_t chunks = gguf_u64_or(m->file, "gram.chunk_count", 0);
    uint64_t size = gguf_u64_or(m->file, "gram.chunk_size", 0);
    if (chunks > UINT32_MAX || size > UINT32_MAX || size == 0)
        return err_set(e, ERR_DATA, "invalid header: %llu chunks of %llu tokens",
                       (unsigned long long)chunks, (unsigned long long)size);
    m->n_chunks = (uint32_t)chunks;
    m->chunk_size = (uint32_t)size;
    if (v == VERSION_LEARNED) TRY(read_learned(m, e));
    return read_weights(m, e);
}

int gram_read(struct gram *m, const char *path, struct err *e) {
    gram_init(m);
    TRY(gguf_open(&m->file, path, 0, e));
    int rc = read_file(m, e);
    if (rc) {
        err_wrap(e, "%s", path);
        gram_release(m);
    }
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Declares the tensors of an input, in the order of write_data(). */
static int declare_input(struct gguf_w *w, const struct gram_input *in, struct err *e) {
    static const char *const suffix[] = {".sum.0", ".sum.1", ".counts", ".cross.0", ".cross.1"};
    const int64_t ne_sum[3] = {in->block, in->n, in->n_mat}, ne_count[2] = {in->n_mat, GRAM_HALVES};
    for (int k = 0; k < (in->cross[0] ? 5 : 3); k++) {
        char *name = xasprintf("%s%s", in->name, suffix[k]);
        int rc = gguf_w_tensor(w, name, QT_F32, k == 2 ? 2 : 3, k == 2 ? ne_count : ne_sum, e);
        free(name);
        if (rc) return rc;
    }
    return 0;
}

/* Writes the tensors that declare_input() declared. */
static int write_data(struct gguf_w *w, const struct gram_input *in, struct err *e) {
    uint64_t bytes = 0;
    if (!gram_input_bytes(in->n, in->block, in->n_mat, &bytes))
        return err_set(e, ERR_USAGE, "%s: too large", in->name);
    for (int h = 0; h < GRAM_HALVES; h++) TRY(gguf_w_data(w, in->sum[h], bytes, e));
    for (int h = 0; h < GRAM_HALVES; h++)
        TRY(gguf_w_data(w, in->count[h], (uint64_t)in->n_mat * sizeof(float), e));
    for (int h = 0; h < GRAM_HALVES && in->cross[0]; h++)
        TRY(gguf_w_data(w, in->cross[h], bytes, e));
    return 0;
}

/* Writes the names of the learned weights and the hashes of their sources. */
static void write_learned_keys(struct gguf_w *w, const struct gram *m) {
    const char **a = xcalloc((size_t)m->n_learned, sizeof *a);
    for (int i = 0; i < m->n_learned; i++) a[i] = m->learned[i].name;
    gguf_w_arr_str(w, "gram.learned", a, (uint64_t)m->n_learned);
    for (int i = 0; i < m->n_learned; i++) a[i] = m->learned[i].source;
    gguf_w_arr_str(w, "gram.learned_sources", a, (uint64_t)m->n_learned);
    free(a);
}
/* Declares the tensor of a learned weight. */
static int declare_learned(struct gguf_w *w, const struct gram_learned *l, struct err *e) {
    char *name = xasprintf(LEARNED "%s", l->name);
    int n = 4;
    while (n > 1 && l->ne[n - 1] == 1) n--;
    const int rc = gguf_w_tensor(w, name, l->type, n, l->ne, e);
    free(name);
    return rc;
}

/* Writes the file's keys: names and inputs of the weights. */
static void write_keys(struct gguf_w *w, const struct gram *m) {
    const char **a = xcalloc((size_t)m->n_weights + 1, sizeof *a);
    gguf_w_str(w, "general.type", "gram");
    const bool crossed = m->crossed;
    gguf_w_u32(w, "gram.version",
               m->n_learned ? VERSION_LEARNED
               : crossed    ? VERSION_CROSS
                            : VERSION);
    gguf_w_u32(w, "gram.chunk_count", m->n_chunks);
    gguf_w_u32(w, "gram.chunk_size", m->chunk_size);
    gguf_w_arr_str(w, "gram.datasets", (const char *const *)m->dataset, (uint64_t)m->n_datasets);
    for (int64_t i = 0; i < m->n_weights; i++) a[i] = m->weight[i].name;
    gguf_w_arr_str(w, "gram.weights", a, (uint64_t)m->n_weights);
    for (int64_t i = 0; i < m->n_weights; i++) a[i] = m->input[m->weight[i].input].name;
    gguf_w_arr_str(w, "gram.inputs", a, (uint64_t)m->n_weights);
    free(a);
    if (m->n_learned) write_learned_keys(w, m);
}

int gram_write(const struct gram *m, const char *path, bool overwrite, struct err *e) {
    struct gguf_w *w = gguf_w_new();
    int rc = 0;
    write_keys(w, m);
    for (int64_t i = 0; i < m->n_inputs && !rc; i++) rc = declare_input(w, &m->input[i], e);
    for (int i = 0; i < m->n_learned && !rc; i++) rc = declare_learned(w, &m->learned[i], e);
    if (!rc) rc = gguf_w_begin(w, path, overwrite, e);
    for (int64_t i = 0; i < m->n_inputs && !rc; i++) rc = write_data(w, &m->input[i], e);
    for (int i = 0; i < m->n_learned && !rc; i++)
        rc = gguf_w_data(w, m->learned[i].data, m->learned[i].n_bytes, e);
    if (!rc) rc = gguf_w_commit(w, e);
    gguf_w_free(w);
    return rc;
}
