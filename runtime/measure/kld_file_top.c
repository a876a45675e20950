// SPDX-License-Identifier: MIT
/* runtime/measure/kld_file_top.c - reader and writer of the compact base file
 * (docs/formats/kld.md).
 *
 * A heap selects the n_top largest logits of a row; ties go to the lower index. The other tokens
 * are sampled in proportion to their probability: n_tail equally spaced marks, with one random
 * offset, over the cumulative mass in index order. Computed in double with fp_exp, so the bytes are
 * the same on every machine. Memory: one row; the reader maps the file. */
#include "runtime/measure/kld_file_top.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fp.h"
#include "base/io.h"
#include "base/map.h"
#include "base/os.h"
#include "base/out.h"
#include "runtime/measure/kld_file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"

enum { HEADER = 40, ROW_HEAD = 8, VERSION = 1 };
static const char magic[8] = {'h', 'o', 'n', 'e', '_', 'k', 'l', 'd'};

struct sizes {
    uint64_t n_tokens, n_rows, row_bytes, file_bytes;
};
struct kld_top_w {
    struct out *out;
    struct kld_top_shape sh;
    struct sizes z;
    uint64_t i_row;
    uint8_t *row;
    int32_t *heap; /* [n_top] ids, least likely first */
    char *path;
};
struct kld_top_r {
    struct map map;
    struct kld_top_shape sh;
    struct sizes z;
    int32_t *tokens;
};

/* Computes the file's sizes from its shape. ERR_DATA: the shape is invalid. */
static int set_sizes(const struct kld_top_shape *s, struct sizes *z, struct err *e) {
    if (s->n_ctx < 4 || s->n_vocab < 1 || s->n_chunk < 1 || s->from < 0 || s->from > s->n_ctx - 2 ||
        s->n_top < 1 || s->n_top > s->n_vocab || s->n_tail < 0 || s->n_tail > 1 << 20)
        return err_set(e, ERR_DATA,
                       "%d chunks of %d tokens scored from %d, %d of %d tokens and %d samples are "
                       "not valid",
                       s->n_chunk, s->n_ctx, s->from, s->n_top, s->n_vocab, s->n_tail);
    uint64_t bytes;
    z->n_tokens = (uint64_t)s->n_chunk * (uint64_t)s->n_ctx;
    z->n_rows = (uint64_t)s->n_chunk * (uint64_t)(s->n_ctx - 1 - s->from);
    z->row_bytes = ROW_HEAD + 8 * ((uint64_t)s->n_top + (uint64_t)s->n_tail);
    if (!mul_ok(z->n_rows, z->row_bytes, &bytes) ||
        !add_ok(bytes, HEADER + 4 * z->n_tokens, &z->file_bytes) || z->file_bytes > INT64_MAX)
        return err_set(e, ERR_DATA, "the size overflows");
    return 0;
}
/* Returns ERR_DATA if a token is outside the vocabulary. */
static int check_tokens(const struct kld_top_shape *s, const int32_t *tokens, uint64_t n,
                        struct err *e) {
    for (uint64_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= s->n_vocab)
            return err_set(e, ERR_DATA, "token %" PRIu64 " has id %d, the vocabulary has %d", i,
                           tokens[i], s->n_vocab);
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Checks space, opens the file, and writes header and tokens. */
static int begin_file(struct kld_top_w *w, const int32_t *tokens, bool overwrite, struct err *e) {
    uint8_t head[HEADER] = {0};
    const int32_t field[6] = {w->sh.n_ctx, w->sh.n_vocab, w->sh.n_chunk,
                              w->sh.from,  w->sh.n_top,   w->sh.n_tail};
    TRY(set_sizes(&w->sh, &w->z, e));
    TRY(check_tokens(&w->sh, tokens, w->z.n_tokens, e));
    TRY(io_need_space(w->path, w->z.file_bytes, e));
    memcpy(head, magic, sizeof magic);
    store_u32(head + 8, VERSION);
    for (int i = 0; i < 6; i++) store_i32(head + 12 + 4 * i, field[i]);
    TRY(out_open(&w->out, w->path, overwrite, e));
    TRY(out_write(w->out, head, sizeof head, e));
    TRY(out_write(w->out, tokens, 4 * w->z.n_tokens, e));
    w->row = xcalloc(1, (size_t)w->z.row_bytes);
    w->heap = xcalloc((size_t)w->sh.n_top, sizeof *w->heap);
    return 0;
}

int kld_top_w_open(struct kld_top_w **out, const char *path, bool overwrite,
                   const struct kld_top_shape *sh, const int32_t *tokens, struct err *e) {
    struct kld_top_w *w = xcalloc(1, sizeof *w);
    w->path = xstrdup(path);
    w->sh = *sh;
    int rc = begin_file(w, tokens, overwrite, e);
    if (rc) {
        err_wrap(e, "%s", path);
        kld_top_w_close(w);
        w = NULL;
    }
    *out = w;
    return rc;
}

/* Returns whether a ranks before b: larger logit, or equal logit and smaller id. */
static bool before(const float *x, int32_t a, int32_t b) {
    return x[a] > x[b] || (x[a] == x[b] && a < b);
}
/* Restores the heap h [n] of indices into x, in which only the root at i may be misplaced. */
static void sift_down(const float *x, int32_t *h, int64_t n, int64_t i) {
    for (;;) {
        int64_t c = 2 * i + 1;
        if (c >= n) return;
        if (c + 1 < n && before(x, h[c], h[c + 1])) c++; /* c: the worse child */
        if (!before(x, h[i], h[c])) return;
        int32_t t = h[i];
        h[i] = h[c];
        h[c] = t;
        i = c;
    }
}
/* Writes the n best ids to h, best first. While searching, h is a heap whose root is the worst of
 * them. */
static void best(const float *x, int32_t n_vocab, int32_t *h, int64_t n) {
    for (int64_t i = 0; i < n; i++) h[i] = (int32_t)i;
    for (int64_t i = n / 2 - 1; i >= 0; i--) sift_down(x, h, n, i);
    for (int32_t v = (int32_t)n; v < n_vocab; v++)
        if (before(x, v, h[0])) {
            h[0] = v;
            sift_down(x, h, n, 0);
        }
    for (int64_t k = n - 1; k > 0; k--) {
        int32_t t = h[0];
        h[0] = h[k];
        h[k] = t;
        sift_down(x, h, k, 0);
    }
}

/* Returns an error if a logit is NaN or +infinity or all are -infinity; otherwise sets *max. */
static int check_row(const struct kld_top_w *w, const float *x, float *max, struct err *e) {
    *max = -INFINITY;
    if (w->i_row == w->z.n_rows)
        return err_set(e, ERR_SYS, "%s: internal error: more than %" PRIu64 " rows", w->path,
                       w->z.n_rows);
    for (int32_t i = 0; i < w->sh.n_vocab; i++) {
        if (isnan(x[i]) || x[i] == INFINITY)
            return err_set(e, ERR_DATA, "logit %d of row %" PRIu64 " is %g", i, w->i_row,
                           (double)x[i]);
        if (x[i] > *max) *max = x[i];
    }
    if (*max == -INFINITY)
        return err_set(e, ERR_DATA, "all logits of row %" PRIu64 " are -inf", w->i_row);
    return 0;
}

/* Returns the unnormalized probability exp(x - max); 0 for -infinity. */
static double weight_of(float x, float max) {
    return x == -INFINITY ? 0 : fp_exp((double)x - (double)max);
}
/* Returns the natural log of the probability; log_sum: log of the sum of exp(x - max). */
static float logp_of(float x, float max, double log_sum) {
    return x == -INFINITY ? -INFINITY : (float)((double)x - (double)max - log_sum);
}

int kld_top_w_row(struct kld_top_w *w, const float *x, int32_t next, struct err *e) {
    const int64_t k = w->sh.n_top, m = w->sh.n_tail;
    uint8_t *top = w->row + ROW_HEAD, *tail = top + 8 * k;
    float max;
    TRY(check_row(w, x, &max, e));
    best(x, w->sh.n_vocab, w->heap, k);
    int32_t edge = w->heap[k - 1];
    double kept = 0, rest = 0, at = 0;
    for (int64_t i = 0; i < k; i++) kept += weight_of(x[w->heap[i]], max);
    for (int32_t v = 0; v < w->sh.n_vocab; v++)
        if (before(x, edge, v)) rest += weight_of(x[v], max);
    double log_sum = kld_log(kept + rest);
    store_f32(w->row, logp_of(x[next], max, log_sum));
    store_f32(w->row + 4, rest > 0 ? (float)(kld_log(rest) - log_sum) : -INFINITY);
    for (int64_t i = 0; i < k; i++) {
        store_u32(top + 4 * i, (uint32_t)w->heap[i]);
        store_f32(top + 4 * (k + i), logp_of(x[w->heap[i]], max, log_sum));
    }
    memset(tail, 0, (size_t)(8 * m));
    struct rng rng;
    rng_seed(&rng, w->i_row);
    double u = rng_unit(&rng), step = rest / (double)(m ? m : 1);
    int64_t j = 0;
    int32_t last = -1;
    for (int32_t v = 0; v <= w->sh.n_vocab && rest > 0; v++) {
        bool end = v == w->sh.n_vocab; /* The last id gets the marks lost to rounding. */
        if (!end && (!before(x, edge, v) || x[v] == -INFINITY)) continue;
        if (!end) {
            at += weight_of(x[v], max);
            last = v;
        }
        for (; j < m && (end || at > (u + (double)j) * step); j++) {
            store_u32(tail + 4 * j, (uint32_t)last);
            store_f32(tail + 4 * (m + j), logp_of(x[last], max, log_sum));
        }
    }
    TRY(out_write(w->out, w->row, w->z.row_bytes, e));
    w->i_row++;
    return 0;
}

int kld_top_w_commit(struct kld_top_w *w, struct err *e) {
    if (w->i_row != w->z.n_rows)
        return err_set(e, ERR_SYS, "%s: internal error: %" PRIu64 " of %" PRIu64 " rows written",
                       w->path, w->i_row, w->z.n_rows);
    return out_commit(w->out, e);
}

void kld_top_w_close(struct kld_top_w *w) {
    if (!w) return;
    out_close(w->out);
    free(w->row);
    free(w->heap);
    free(w->path);
    free(w);
}

/* ---- reading --------------------------------------------------------------------------------- */

bool kld_top_is(const char *path) {
    char head[sizeof magic];
    FILE *f = os_fopen(path, "rb");
    if (!f) return false;
    bool yes = fread(head, sizeof head, 1, f) == 1 && memcmp(head, magic, sizeof magic) == 0;
    fclose(f);
    return yes;
}

/* Reads header and tokens. ERR_DATA: not a compact base file, or its size or version is wrong. */
static int read_header(struct kld_top_r *r, struct err *e) {
    const uint8_t *p = r->map.data;
    if (r->map.size < HEADER || memcmp(p, magic, sizeof magic) != 0)
        return err_set(e, ERR_DATA, "not a compact base file: it does not begin with \"hone_kld\"");
    if (load_u32(p + 8) != VERSION)
        return err_set(e, ERR_DATA, "version %u is unknown here: write it again with --save-base",
                       load_u32(p + 8));
    r->sh = (struct kld_top_shape){.n_ctx = load_i32(p + 12),
                                   .n_vocab = load_i32(p + 16),
                                   .n_chunk = load_i32(p + 20),
                                   .from = load_i32(p + 24),
                                   .n_top = load_i32(p + 28),
                                   .n_tail = load_i32(p + 32)};
    TRY(set_sizes(&r->sh, &r->z, e));
    if (r->map.size != r->z.file_bytes)
        return err_set(e, ERR_DATA, "%" PRIu64 " bytes, but its header describes %" PRIu64 ": %s",
                       r->map.size, r->z.file_bytes,
                       r->map.size < r->z.file_bytes ? "it is truncated, write it again"
                                                     : "it has trailing data");
    r->tokens = try_calloc(r->z.n_tokens, 4, "the tokens of base logits", e);
    if (!r->tokens) return ERR_SYS;
    memcpy(r->tokens, p + HEADER, 4 * r->z.n_tokens);
    return check_tokens(&r->sh, r->tokens, r->z.n_tokens, e);
}

int kld_top_r_open(struct kld_top_r **out, const char *path, struct err *e) {
    struct kld_top_r *r = xcalloc(1, sizeof *r);
    int rc = map_open(&r->map, path, e);
    if (!rc && read_header(r, e)) rc = err_wrap(e, "%s", path);
    if (rc) {
        kld_top_r_close(r);
        r = NULL;
    }
    *out = r;
    return rc;
}
const struct kld_top_shape *kld_top_r_shape(const struct kld_top_r *r) {
    return &r->sh;
}
const int32_t *kld_top_r_tokens(const struct kld_top_r *r) {
    return r->tokens;
}

/* Returns whether n stored tokens are in the vocabulary and their log probabilities are at most
 * 0. */
static bool entries_ok(const uint8_t *id, const uint8_t *lp, int64_t n, int32_t n_vocab) {
    for (int64_t i = 0; i < n; i++) {
        float v = load_f32(lp + 4 * i);
        if (load_u32(id + 4 * i) >= (uint32_t)n_vocab || !(v <= 1e-5f)) return false;
    }
    return true;
}

int kld_top_r_row(const struct kld_top_r *r, int64_t i, struct kld_top_row *out, struct err *e) {
    const int64_t k = r->sh.n_top, m = r->sh.n_tail;
    if (i < 0 || (uint64_t)i >= r->z.n_rows)
        return err_set(e, ERR_DATA, "%s: there is no row %" PRId64, r->map.path, i);
    const uint8_t *p = r->map.data + HEADER + 4 * r->z.n_tokens + (uint64_t)i * r->z.row_bytes;
    *out = (struct kld_top_row){.logp_true = load_f32(p),
                                .log_rest = load_f32(p + 4),
                                .top_id = p + ROW_HEAD,
                                .top_logp = p + ROW_HEAD + 4 * k,
                                .tail_id = p + ROW_HEAD + 8 * k,
                                .tail_logp = p + ROW_HEAD + 8 * k + 4 * m};
    if (!(out->logp_true <= 1e-5f) || !(out->log_rest <= 1e-5f) ||
        !(load_f32(out->top_logp) > -1e6f) ||
        !entries_ok(out->top_id, out->top_logp, k, r->sh.n_vocab) ||
        !entries_ok(out->tail_id, out->tail_logp, m, r->sh.n_vocab))
        return err_set(e, ERR_DATA,
                       "%s: row %" PRId64 " is not a distribution; the file is damaged",
                       r->map.path, i);
    return 0;
}

void kld_top_r_close(struct kld_top_r *r) {
    if (!r) return;
    map_close(&r->map);
    free(r->tokens);
    free(r);
}
