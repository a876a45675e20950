// SPDX-License-Identifier: MIT
/* runtime/measure/kld_file.c - base-logits files: tokens, then one row of 16-bit log-probability
 * codes per scored position (docs/formats/kld.md).
 *
 * A row covers the 16 nats below its maximum in 65535 steps; anything lower is code 0. Values are
 * computed in double with fp_exp, so the bytes are the same on every machine. A row takes 2 *
 * n_vocab + 8 bytes (0.5 MiB for a vocabulary of 248k). Reader and writer hold one row at a time;
 * the reader maps the file. */
#include "runtime/measure/kld_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fp.h"
#include "base/io.h"
#include "base/map.h"
#include "base/out.h"
#include "base/mem.h"
#include "base/num.h"

enum { HEADER = 20, ROW_HEAD = 8, CODES = 65535, RANGE = 16 };
static const char magic[8] = {'_', 'l', 'o', 'g', 'i', 't', 's', '_'};

struct shape {
    int32_t n_ctx, n_vocab, n_chunk;
    uint64_t n_tokens, n_rows, row_bytes, file_bytes;
};
struct kld_w {
    struct out *out;
    struct shape sh;
    uint64_t i_row;
    uint8_t *row;
    char *path;
};
struct kld_r {
    struct map map;
    struct shape sh;
    int32_t *tokens;
    uint64_t rows_off;
};

/* Computes the file's sizes from context, vocabulary and chunks. ERR_DATA: these are invalid. */
static int fill_shape(struct shape *s, struct err *e) {
    if (s->n_ctx < 4 || s->n_vocab < 1 || s->n_chunk < 1)
        return err_set(e, ERR_DATA, "%d chunks of %d tokens over a vocabulary of %d are not valid",
                       s->n_chunk, s->n_ctx, s->n_vocab);
    uint64_t n_rows_chunk = (uint64_t)(s->n_ctx - 1 - s->n_ctx / 2), bytes;
    s->row_bytes = ROW_HEAD + 4 * (((uint64_t)s->n_vocab + 1) / 2);
    s->n_tokens = (uint64_t)s->n_chunk * (uint64_t)s->n_ctx;
    s->n_rows = (uint64_t)s->n_chunk * n_rows_chunk;
    if (!mul_ok(s->n_rows, s->row_bytes, &bytes) ||
        !add_ok(bytes, HEADER + 4 * s->n_tokens, &s->file_bytes) || s->file_bytes > INT64_MAX)
        return err_set(e, ERR_DATA, "the size overflows");
    return 0;
}

/* Returns ERR_DATA if a token is outside the vocabulary. */
static int check_tokens(const struct shape *s, const int32_t *tokens, struct err *e) {
    for (uint64_t i = 0; i < s->n_tokens; i++)
        if (tokens[i] < 0 || tokens[i] >= s->n_vocab)
            return err_set(e, ERR_DATA, "token %llu has id %d, the vocabulary has %d",
                           (unsigned long long)i, tokens[i], s->n_vocab);
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Checks space, opens the file, and writes header and tokens. */
static int begin_file(struct kld_w *w, const int32_t *tokens, bool overwrite, struct err *e) {
    uint8_t head[HEADER];
    TRY(fill_shape(&w->sh, e));
    TRY(check_tokens(&w->sh, tokens, e));
    TRY(io_need_space(w->path, w->sh.file_bytes, e));
    memcpy(head, magic, sizeof magic);
    store_i32(head + 8, w->sh.n_ctx);
    store_i32(head + 12, w->sh.n_vocab);
    store_i32(head + 16, w->sh.n_chunk);
    TRY(out_open(&w->out, w->path, overwrite, e));
    TRY(out_write(w->out, head, sizeof head, e));
    TRY(out_write(w->out, tokens, 4 * w->sh.n_tokens, e));
    w->row = xcalloc(1, (size_t)w->sh.row_bytes);
    return 0;
}

int kld_w_open(struct kld_w **out, const char *path, bool overwrite, int32_t n_ctx, int32_t n_vocab,
               int32_t n_chunk, const int32_t *tokens, struct err *e) {
    struct kld_w *w = xcalloc(1, sizeof *w);
    w->path = xstrdup(path);
    w->sh = (struct shape){.n_ctx = n_ctx, .n_vocab = n_vocab, .n_chunk = n_chunk};
    int rc = begin_file(w, tokens, overwrite, e);
    if (rc) {
        kld_w_close(w);
        w = NULL;
    }
    *out = w;
    return rc;
}

/* Computes ln x. The first guess is within 0.06 of the result. Each step of Halley's iteration
 * cubes the error, so three steps give double precision. */
double kld_log(double x) {
    const double ln2 = 0.693147180559945309417;
    int e = 0;
    double m = frexp(x, &e); /* 0.5 <= m < 1 */
    double y = (double)e * ln2 + 2.0 * (m - 1.0) / (m + 1.0);
    for (int i = 0; i < 3; i++) {
        double t = fp_exp(y);
        y += 2.0 * (x - t) / (x + t);
    }
    return y;
}

int kld_w_row(struct kld_w *w, const float *logits, struct err *e) {
    int32_t n = w->sh.n_vocab;
    float max = -INFINITY, min = INFINITY;
    if (w->i_row == w->sh.n_rows)
        return err_set(e, ERR_SYS, "%s: internal error: more than %llu rows", w->path,
                       (unsigned long long)w->sh.n_rows);
    for (int32_t i = 0; i < n; i++) {
        if (isnan(logits[i]) || logits[i] == INFINITY)
            return err_set(e, ERR_DATA, "logit %d of row %llu is %g", i,
                           (unsigned long long)w->i_row, (double)logits[i]);
        if (logits[i] > max) max = logits[i];
        if (logits[i] < min) min = logits[i];
    }
    if (max == -INFINITY)
        return err_set(e, ERR_DATA, "all logits of row %llu are -inf",
                       (unsigned long long)w->i_row);
    float lo = min > max - RANGE ? min : max - RANGE, scale = (max - lo) / CODES;
    double sum = 0;
    uint8_t *code = w->row + ROW_HEAD;
    for (int32_t i = 0; i < n; i++) {
        uint16_t c = 0;
        if (logits[i] != -INFINITY) sum += fp_exp((double)logits[i] - (double)max);
        if (scale > 0 && logits[i] > lo) {
            double q = floor(((double)logits[i] - (double)lo) / (double)scale + 0.5);
            c = (uint16_t)(q < CODES ? q : CODES);
        }
        store_u16(code + 2 * (int64_t)i, c);
    }
    store_f32(w->row, scale);
    store_f32(w->row + 4, (float)((double)lo - (double)max - kld_log(sum)));
    TRY(out_write(w->out, w->row, w->sh.row_bytes, e));
    w->i_row++;
    return 0;
}

int kld_w_commit(struct kld_w *w, struct err *e) {
    if (w->i_row != w->sh.n_rows)
        return err_set(e, ERR_SYS, "%s: internal error: %llu of %llu rows written", w->path,
                       (unsigned long long)w->i_row, (unsigned long long)w->sh.n_rows);
    return out_commit(w->out, e);
}

void kld_w_close(struct kld_w *w) {
    if (!w) return;
    out_close(w->out);
    free(w->row);
    free(w->path);
    free(w);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads header and tokens. ERR_DATA: not a base-logits file, or its size is wrong. */
static int read_header(struct kld_r *r, struct err *e) {
    const uint8_t *p = r->map.data;
    if (r->map.size < HEADER || memcmp(p, magic, sizeof magic) != 0)
        return err_set(e, ERR_DATA, "not a base-logits file: it does not begin with \"_logits_\"");
    r->sh.n_ctx = load_i32(p + 8);
    r->sh.n_vocab = load_i32(p + 12);
    r->sh.n_chunk = load_i32(p + 16);
    TRY(fill_shape(&r->sh, e));
    if (r->map.size != r->sh.file_bytes)
        return err_set(e, ERR_DATA, "%llu bytes, but its header describes %llu: %s",
                       (unsigned long long)r->map.size, (unsigned long long)r->sh.file_bytes,
                       r->map.size < r->sh.file_bytes ? "it is truncated, write it again"
                                                      : "it has trailing data");
    r->rows_off = HEADER + 4 * r->sh.n_tokens;
    r->tokens = try_calloc(r->sh.n_tokens, 4, "the tokens of base logits", e);
    if (!r->tokens) return ERR_SYS;
    memcpy(r->tokens, p + HEADER, 4 * r->sh.n_tokens);
    return check_tokens(&r->sh, r->tokens, e);
}

int kld_r_open(struct kld_r **out, const char *path, struct err *e) {
    struct kld_r *r = xcalloc(1, sizeof *r);
    int rc = map_open(&r->map, path, e);
    if (!rc && read_header(r, e)) rc = err_wrap(e, "%s", path);
    if (rc) {
        kld_r_close(r);
        r = NULL;
    }
    *out = r;
    return rc;
}
int32_t kld_r_ctx(const struct kld_r *r) {
    return r->sh.n_ctx;
}
int32_t kld_r_vocab(const struct kld_r *r) {
    return r->sh.n_vocab;
}
int32_t kld_r_chunks(const struct kld_r *r) {
    return r->sh.n_chunk;
}
const int32_t *kld_r_tokens(const struct kld_r *r) {
    return r->tokens;
}

void kld_r_row(const struct kld_r *r, int64_t i, float *logp) {
    const uint8_t *p = r->map.data + r->rows_off + (uint64_t)i * r->sh.row_bytes;
    float scale = load_f32(p), min = load_f32(p + 4);
    for (int32_t k = 0; k < r->sh.n_vocab; k++)
        logp[k] = scale * (float)load_u16(p + ROW_HEAD + 2 * (int64_t)k) + min;
}

int kld_r_check_row(const struct kld_r *r, int64_t i, struct err *e) {
    if (i < 0 || (uint64_t)i >= r->sh.n_rows)
        return err_set(e, ERR_DATA, "%s: there is no row %lld", r->map.path, (long long)i);
    const uint8_t *p = r->map.data + r->rows_off + (uint64_t)i * r->sh.row_bytes;
    float scale = load_f32(p), min = load_f32(p + 4);
    if (!(scale >= 0 && scale <= 1) || !(min <= 0 && min >= -1e6f))
        return err_set(e, ERR_DATA, "%s: row %lld has scale %g and minimum %g; the file is damaged",
                       r->map.path, (long long)i, (double)scale, (double)min);
    return 0;
}

void kld_r_close(struct kld_r *r) {
    if (!r) return;
    map_close(&r->map);
    free(r->tokens);
    free(r);
}
