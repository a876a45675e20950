// SPDX-License-Identifier: MIT
/* runtime/measure/flips.c - shares of changed answers with their intervals, and greedy
 * continuations compared token by token. */
#include "runtime/measure/flips.h"

#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/progress.h"
#include "runtime/measure/internal.h"

struct eval_share eval_share_of(int64_t n, int64_t of) {
    const double z = 1.959963984540054, k = (double)of, p = (double)n / k;
    const double mid = p + z * z / (2 * k), half = z * sqrt(p * (1 - p) / k + z * z / (4 * k * k)),
                 scale = 100 / (1 + z * z / k);
    struct eval_share s = {(double)NAN, (double)NAN, (double)NAN, n, of};
    if (of < 1) return s;
    s.per_100 = 100 * p;
    s.lo = n ? fmax(0, (mid - half) * scale) : 0;
    s.hi = n < of ? fmin(100, (mid + half) * scale) : 100;
    return s;
}

void eval_share_emit(struct emit *m, const char *prefix, const char *title,
                     const struct eval_share *s) {
    char key[64];
    snprintf(key, sizeof key, "%s_per_100", prefix);
    emit_num(m, key, title, s->per_100, 1);
    snprintf(key, sizeof key, "%s_lo", prefix);
    emit_num(m, key, "95 % from", s->lo, 1);
    snprintf(key, sizeof key, "%s_hi", prefix);
    emit_num(m, key, "to", s->hi, 1);
}

void eval_share_columns(struct emit *m, const char *prefix, const char *title) {
    char key[64];
    snprintf(key, sizeof key, "%s_per_100", prefix);
    emit_col(m, key, title);
    snprintf(key, sizeof key, "%s_lo", prefix);
    emit_col(m, key, title ? "from" : NULL);
    snprintf(key, sizeof key, "%s_hi", prefix);
    emit_col(m, key, title ? "to" : NULL);
    snprintf(key, sizeof key, "%s_of", prefix);
    emit_col(m, key, title ? "of" : NULL);
}

void eval_share_cells(struct emit *m, const struct eval_share *s) {
    if (s->of) {
        emit_cell_num(m, s->per_100, 1);
        emit_cell_num(m, s->lo, 1);
        emit_cell_num(m, s->hi, 1);
        emit_cell_i64(m, s->of);
    } else {
        for (int i = 0; i < 4; i++) emit_cell_none(m);
    }
}

int eval_greedy(struct session *s, const int32_t *prompt, int64_t n_prompt, int64_t n_max,
                const struct ids *as, struct ids *out, struct err *e) {
    const struct tok *t = session_model(s)->tok;
    const int64_t n_vocab = session_model(s)->hp.d[HD_VOCAB];
    void *mem = NULL;
    int rc = 0;
    TRY(mem_alloc(&mem, (uint64_t)n_vocab * sizeof(float), "logits", e));
    float *logits = mem;
    out->n = 0;
    session_reset(s);
    for (int64_t i = 0; i < n_max && !rc; i++) {
        const int32_t *feed = i ? &out->v[out->n - 1] : prompt;
        rc = session_step(s, feed, i ? 1 : n_prompt, logits, e);
        if (rc) break;
        const int32_t best = (int32_t)logits_argmax(logits, n_vocab);
        if (as && (out->n == as->n || as->v[out->n] != best)) break;
        ids_add(out, best);
        if (t && tok_is_eog(t, best)) break;
        if (progress_interrupted()) rc = err_set(e, ERR_INTR, "interrupted");
    }
    mem_free(mem);
    return rc;
}
