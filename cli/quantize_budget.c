// SPDX-License-Identifier: MIT
/* cli/quantize_budget.c - hone quantize --budget: one file per budget, and their table. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/mix.h"
#include "cli/quantize_budget.h"
#include "core/io.h"
#include "core/log.h"
#include "core/mem.h"

/* Weights of all tensors, for bits per weight. */
static int count_weights(const char *path, double *n, struct err *e) {
    struct gguf *g;
    TRY(gguf_open(&g, path, 0, e));
    *n = 0;
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const int64_t *ne = gguf_tensor_at(g, i)->ne;
        *n += (double)ne[0] * (double)ne[1] * (double)ne[2] * (double)ne[3];
    }
    gguf_close(g);
    return 0;
}

/* "{}" of the output is replaced by the budget's text; with one budget it may be left out. */
static char *output(const char *out, const char *budget) {
    const char *hole = out ? strstr(out, "{}") : NULL;
    if (!out) return NULL;
    if (!hole) return xstrdup(out);
    return xasprintf("%.*s%s%s", (int)(hole - out), out, budget, hole + 2);
}

static void emit_head(struct emit *m) {
    emit_table(m, "mixes", "");
    emit_col(m, "output", "output");
    emit_col(m, "budget_bytes", "budget");
    emit_col(m, "size_bytes", "bytes");
    emit_col(m, "bpw", "bpw");
    emit_col(m, "predicted_kld", "predicted KLD");
    emit_col(m, "predicted_kld_bound", "bound");
    emit_col(m, "gap", "gap");
    emit_col(m, "optimal", "optimal");
    emit_col(m, "plan", "plan");
}

static void emit_mix(struct emit *m, const char *out, const struct mix_report *r) {
    emit_row(m);
    emit_cell_str(m, out ? io_base(out) : "");
    emit_cell_i64(m, (int64_t)r->budget);
    emit_cell_i64(m, (int64_t)r->file_bytes);
    emit_cell_num(m, r->bpw, 3);
    emit_cell_num(m, r->loss, 6);
    emit_cell_num(m, r->bound, 6);
    emit_cell_num(m, r->loss - r->bound, 9);
    emit_cell_str(m, r->exact ? "yes" : "no");
    emit_cell_str(m, r->plan ? r->plan : "");
}

int quantize_budgets(struct cli *c, const struct quantize_opts *q, const struct budget_args *b,
                     struct err *e) {
    struct emit *m = emit_new();
    int rc = 0, n = b->budget.n + (b->bpw > 0);
    emit_head(m);
    if (n > 1 && q->out && !strstr(q->out, "{}") && !q->dry_run)
        rc = err_set(e, ERR_USAGE, "several budgets need {} in -o: it becomes the budget");
    if (!rc && n > 1 && q->plan_out)
        rc = err_set(e, ERR_USAGE,
                     "--plan-out goes with one budget; plans are written beside the files anyway");
    if (!rc) rc = cli_pool(c, e);
    for (int i = 0; i < n && !rc; i++) {
        uint64_t size = 0;
        char label[32] = "bpw";
        struct quantize_opts o = *q;
        struct mix_report mr;
        struct quantize_report r;
        if (i < b->budget.n) {
            rc = cli_size(b->budget.v[i], "--budget", &size, e);
        } else {
            double weights = 0;
            rc = count_weights(q->in, &weights, e);
            size = (uint64_t)(weights * b->bpw / 8);
        }
        if (rc) break;
        char *out = output(q->out, i < b->budget.n ? b->budget.v[i] : label);
        o.out = out;
        rc = mix_quantize(c, &o, b->sensitivity, size, !b->no_floors, &mr, &r, e);
        if (!rc && !mr.probed)
            log_warn("no probes: the mix weighs the encoders' errors by role; hone sensitivity "
                     "measures them");
        if (!rc) emit_mix(m, out, &mr);
        quantize_report_release(&r);
        mix_report_release(&mr);
        free(out);
    }
    if (!rc) cli_emit(c, m);
    emit_free(m);
    return rc;
}
