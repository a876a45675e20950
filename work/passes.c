// SPDX-License-Identifier: MIT
/* work/passes.c - memory model of passes: rows per pass and number of sessions at a time. */
#include "work/passes.h"

#include <limits.h>

#include "work/open.h"
#include "base/mem.h"
#include "base/num.h"
#include "runtime/generate/windows.h"

double passes_row_bytes(const struct graph *g) {
    int64_t sum = 0, moe = 0;
    for (int i = 0; i < g->n_regs; i++) sum += (g->reg_width[i] + 15) / 16 * 16;
    for (int i = 0; i < graph_count(g, OP_ATTN); i++) {
        const struct gr_node *n = graph_nth(g, OP_ATTN, i);
        sum += 2 * n->attn.n_kv_heads * n->attn.head_dim;
    }
    for (int i = 0; i < graph_count(g, OP_MOE); i++) {
        const struct gr_node *n = graph_nth(g, OP_MOE, i);
        const int64_t d = g->weight[n->moe.gate].ne[0], f = g->weight[n->moe.gate].ne[1];
        moe = max_i64(moe, n->moe.n_used * (2 * d + f));
    }
    return 4.0 * (double)(sum + moe);
}

/* Rows of the shortest pass; a session's fixed cost in rows and in bytes. */
enum { LEAST = 64, FIXED_ROWS = 64, FIXED_BYTES = 4 << 20 };

double passes_bytes(double row_bytes, int64_t rows, int n) {
    return n * (row_bytes * (double)(rows + FIXED_ROWS) + FIXED_BYTES);
}

int passes_together(double row_bytes, double room) {
    const double n = room > 0 ? room / 2 / passes_bytes(row_bytes, LEAST, 1) : INT_MAX;
    return n < 3 ? 3 : n < INT_MAX ? (int)n : INT_MAX;
}

int64_t passes_fit(double row_bytes, int64_t ctx, int n, double room) {
    int64_t rows = windows_rows(ctx);
    while (room > 0 && rows > LEAST && passes_bytes(row_bytes, rows, n) > room / 2) rows /= 2;
    /* Round down to whole windows if one fits. */
    return rows > ctx ? rows / ctx * ctx : rows;
}

int64_t passes_rows(const struct work *w, const struct model *m, int64_t ctx, int n) {
    uint64_t limit;
    if (w->device.kind != DEVICE_CPU) return windows_rows(ctx);
    return passes_fit(passes_row_bytes(&m->graph), ctx, n, (double)buf_room(&limit));
}

bool passes_reread(uint64_t n_bytes) {
    const uint64_t have = mem_available();
    return have && n_bytes > have / 2;
}

int passes_files(const struct work *w, const char *path) {
    uint64_t limit;
    struct model *m = NULL;
    struct err ignored;
    if (w->device.kind != DEVICE_CPU || open_model(w, &m, path, &ignored)) return INT_MAX;
    const int n = passes_together(passes_row_bytes(&m->graph), (double)buf_room(&limit));
    model_close(m);
    return n;
}
