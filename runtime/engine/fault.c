// SPDX-License-Identifier: MIT
/* runtime/engine/fault.c - search for values that are not finite in weights and block outputs. It
 * runs only after a failure, so it simply reads every weight in file order, on one thread. */
#include "runtime/engine/fault.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "containers/gguf.h"
#include "base/mem.h"
#include "base/num.h"
#include "runtime/engine/kv_type.h"
#include "runtime/engine/model.h"

enum { CHUNK = 4096 }; /* a multiple of every block size */

bool fault_in_logits(const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (isnan(x[i]) || x[i] == INFINITY) return true;
    return false;
}

/* Returns the index of the first NaN or infinity in x [n], or -1. */
static int64_t first_not_finite(const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return i;
    return -1;
}

/* Returns the index of the first value of a tensor that is not finite, or -1. */
static int64_t bad_weight(const struct kern *k, const struct gguf_tensor *t) {
    const struct qtype_info *q = qtype_info((int64_t)t->type);
    if (!q || !kern_has(k, t->type)) return -1;
    float x[CHUNK];
    const int64_t total = t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
    for (int64_t i = 0; i < total; i += CHUNK) {
        const int64_t n = min_i64(CHUNK, total - i);
        k->op[t->type].decode(t->data + qtype_row_bytes(t->type, i), x, n);
        const int64_t at = first_not_finite(x, n);
        if (at >= 0) return i + at;
    }
    return -1;
}

int fault_in_weights(const struct gguf *g, struct err *e) {
    struct kern k;
    kern_init(&k, KERN_REF);
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        const int64_t at = bad_weight(&k, t);
        if (at < 0) continue;
        return err_set(e, ERR_DATA,
                       "%s: tensor %s: row %" PRId64 ", column %" PRId64
                       " is not finite, so the model cannot be used: "
                       "convert it again from an intact folder",
                       gguf_path(g), t->name, at / t->ne[0], at % t->ne[0]);
    }
    return 0;
}

struct first { /* first output that is not finite */
    int64_t width;
    bool found;
    int block;   /* -1: the embeddings */
    int64_t pos; /* position of the token */
};

/* Records in ud, a struct first, the first block and position that are not finite. */
static void check_block(void *ud, const struct session_shown *r) {
    struct first *f = ud;
    const int64_t at = f->found ? -1 : first_not_finite(r->x, r->n_rows * f->width);
    if (at < 0) return;
    *f = (struct first){f->width, true, r->block, r->pos + at / f->width};
}

/* Writes the end of the message: what the value exceeds. A cache that is not exact may have a
 * smaller range than the f32 of the computation. */
static void range_text(const struct session *s, char out[160]) {
    const struct session_opts *o = session_get_opts(s);
    const struct kv_type *plain = kv_type_of(o->kv_type), *k = o->kv_k ? o->kv_k : plain,
                         *v = o->kv_v ? o->kv_v : plain, *exact = kv_type_find(KV_EXACT);
    char types[40];
    if (!k || !v || (k == exact && v == exact)) {
        snprintf(out, 160, "the range of f32");
        return;
    }
    kv_type_text(types, k, v);
    snprintf(out, 160,
             "the range of the %s cache (use --kv-type " KV_EXACT ") or, if that does not help, "
             "of f32",
             types);
}

/* Runs the tokens again and checks the output of every block. */
static int check_blocks(struct session *s, const int32_t *ids, int64_t n, struct err *e) {
    struct first f = {.width = session_model(s)->hp.d[HD_EMBD]};
    const char *path = gguf_path(session_model(s)->gguf);
    struct err unused;
    session_reset(s);
    session_observe(s, &(struct session_probe){.ud = &f, .residual = check_block});
    const int rc = session_forward(s, ids, min_i64(n, session_get_opts(s)->n_ctx), NULL, &unused);
    session_observe(s, NULL);
    if (rc || !f.found) return 0;
    char where[32], range[160];
    range_text(s, range);
    snprintf(where, sizeof where, f.block < 0 ? "embeddings" : "output of block %d", f.block);
    return err_set(e, ERR_DATA,
                   "%s: all weights are finite, but the %s is not, from token %" PRId64
                   " on: a value exceeds %s",
                   path, where, f.pos, range);
}

int fault_find(struct session *s, const int32_t *ids, int64_t n, struct err *e) {
    const struct gguf *g = session_model(s)->gguf;
    TRY(fault_in_weights(g, e));
    if (ids && n > 0) TRY(check_blocks(s, ids, n, e));
    return err_set(e, ERR_DATA, "%s: logits are not finite, although all weights%s are",
                   gguf_path(g), ids && n > 0 ? " and the outputs of all blocks" : "");
}

int fault_check(struct session *s, const double *x, int64_t n_x, const int32_t *ids, int64_t n,
                struct err *e) {
    for (int64_t i = 0; i < n_x; i++)
        if (!isfinite(x[i])) return fault_find(s, ids, n, e);
    return 0;
}
