// SPDX-License-Identifier: MIT
/* cli/cmd_eval_compare.c - hone eval compare: two results of `hone eval suite`, measure by measure.
 */
#include <stdlib.h>

#include "cli/eval.h"
#include "jobs/measures.h"
#include "core/log.h"

static void emit_pairs(struct cli *c, const struct measures *a, const struct measures *b,
                       int n_matched) {
    struct emit *m = emit_new();
    int64_t n[3] = {0, 0, 0};
    emit_str(m, "a", "A", a->model);
    emit_str(m, "b", "B", b->model);
    for (int i = 0; i < a->n; i++) {
        const struct measure *other = measures_match(b, &a->m[i]);
        struct measure_pair p;
        if (!other) continue;
        measure_compare(&a->m[i], other, &p);
        n[p.verdict + 1]++;
    }
    emit_i64(m, "n_a_better", "A is better in", n[0]);
    emit_i64(m, "n_b_better", "B is better in", n[2]);
    emit_i64(m, "n_no_difference", "no difference beyond its error in", n[1]);
    emit_i64(m, "n_unmatched", "measures that only one has", a->n + b->n - 2 * n_matched);
    emit_table(m, "measures", "");
    static const char *const col[][2] = {
        {"measure", "measure"}, {"group", "of"},  {"n", "n"},   {"a", "A"},   {"b", "B"},
        {"diff", "A - B"},      {"stderr", "+-"}, {"lo", NULL}, {"hi", NULL}, {"better", "better"}};
    for (size_t i = 0; i < COUNT_OF(col); i++) emit_col(m, col[i][0], col[i][1]);
    for (int i = 0; i < a->n; i++) {
        static const char *const word[3] = {"A", "neither", "B"};
        const struct measure *other = measures_match(b, &a->m[i]);
        struct measure_pair p;
        if (!other) continue;
        measure_compare(&a->m[i], other, &p);
        emit_row(m);
        emit_cell_str(m, a->m[i].name);
        emit_cell_str(m, a->m[i].group);
        emit_cell_i64(m, a->m[i].n);
        const double v[] = {p.a, p.b, p.diff, p.stderr_, p.lo, p.hi};
        for (size_t k = 0; k < COUNT_OF(v); k++) emit_cell_num(m, v[k], 6);
        emit_cell_str(m, word[p.verdict + 1]);
    }
    cli_emit(c, m);
    emit_free(m);
}

int eval_cmd_compare(struct cli *c, int argc, char **argv, struct err *e) {
    const struct cmd_spec spec = {
        .name = "eval compare",
        .synopsis = "A.json B.json",
        .about = "Two results of 'hone eval suite': which is better, where, and is the difference "
                 "larger than its\n"
                 "error? Window by window and case by case on the same inputs; 95 % by resampling.",
        .min_args = 2,
        .max_args = 2,
    };
    struct measures a, b;
    TRY(cli_parse(c, &spec, argc, argv, e));
    if (c->done) return 0;
    TRY(measures_read(&a, c->arg[0], e));
    int rc = measures_read(&b, c->arg[1], e), n = 0;
    if (!rc) {
        for (int i = 0; i < a.n; i++) n += measures_match(&b, &a.m[i]) != NULL;
        if (n)
            emit_pairs(c, &a, &b, n);
        else
            rc = err_set(e, ERR_DATA,
                         "%s and %s have no measure of the same input: measure both with the same "
                         "texts, suites and options",
                         c->arg[0], c->arg[1]);
        measures_release(&b);
    }
    measures_release(&a);
    return rc;
}
