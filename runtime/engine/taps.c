// SPDX-License-Identifier: MIT
/* runtime/engine/taps.c - inputs of layers that a pass keeps for a draft model (session_tap). A
 * layer's input is the residual after the node before the layer. It is copied when that node has
 * run; nothing else changes, so the results of a pass are the same with and without taps. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/engine/exec.h"

int session_tap(struct session *s, const int32_t *layer, int n, struct err *e) {
    struct taps *t = &s->taps;
    void *rows = NULL;
    if (s->be->on_device)
        return err_set(
            e, ERR_USAGE,
            "EAGLE-3 drafts are computed on the CPU only: use --device cpu, or leave out "
            "--draft");
    if (n < 1 || n > HP_MAX_TARGETS)
        return err_set(e, ERR_USAGE, "%d layers to keep: 1 to %d are possible", n, HP_MAX_TARGETS);
    for (int i = 0; i < n; i++) {
        if (layer[i] < 0 || layer[i] > s->m->hp.d[HD_LAYERS])
            return err_set(e, ERR_USAGE, "there is no layer %" PRId32, layer[i]);
        t->node[i] = graph_before(s->g, layer[i]);
    }
    t->width = s->g->reg_width[s->g->residual];
    const uint64_t n_bytes = (uint64_t)(s->o.n_ubatch * n * t->width) * sizeof *t->rows;
    TRY(mem_alloc(&rows, n_bytes, "rows for a draft", e));
    mem_free(t->rows);
    t->rows = rows;
    t->n = n;
    s->n_bytes += n_bytes;
    return 0;
}

int64_t session_tap_width(const struct session *s) {
    return s->taps.n * s->taps.width;
}

void taps_take(struct session *s, int first, int n_nodes, bool dropped) {
    struct taps *t = &s->taps;
    for (int i = 0; i < t->n; i++) {
        if (t->node[i] < first || t->node[i] >= first + n_nodes) continue;
        t->dropped[i] = dropped;
        for (int64_t r = 0; r < s->n_tok; r++)
            memcpy(t->rows + (r * t->n + i) * t->width, s->reg[s->g->residual] + r * t->width,
                   (size_t)t->width * sizeof *t->rows);
    }
}

void taps_give(const struct session *s, int64_t r, float *out) {
    const struct taps *t = &s->taps;
    for (int i = 0; i < t->n; i++) {
        const int64_t at = t->dropped[i] ? s->row_out[r] : r;
        memcpy(out + i * t->width, t->rows + (at * t->n + i) * t->width,
               (size_t)t->width * sizeof *out);
    }
}
