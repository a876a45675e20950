// SPDX-License-Identifier: MIT
/* runtime/measure/cases.c - `hone eval tools`: runs a suite on a model and, optionally, on its
 * base. runtime/measure/suite.h reads and judges the cases, runtime/measure/suite_run.c generates
 * the answers. The two models are never in memory at the same time. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib/defaults.h"
#include "runtime/measure/cases.h"
#include "runtime/measure/measurement_cache.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/printable.h"
#include "runtime/measure/suite.h"

enum { SHOWN = 10 }; /* failed cases listed in human-readable output */

/* ---- counts ---- */

enum counted { ALL_CASES, CASES_OF_CALLS, CASES_THAT_EXPECT };
struct grade {
    const char *key, *title;
    enum counted of; /* calls: cases that expect calls, and loops */
    bool (*holds)(const struct verdict *v);
};
static bool v_parsed(const struct verdict *v) {
    return v->parsed;
}
static bool v_valid(const struct verdict *v) {
    return v->valid;
}
static bool v_named(const struct verdict *v) {
    return v->named;
}
static bool v_equal(const struct verdict *v) {
    return v->equal;
}
static bool v_pass(const struct verdict *v) {
    return v->pass;
}
static const struct grade grades[] = {
    {"parsed", "a call exactly where one is expected", CASES_OF_CALLS, v_parsed},
    {"valid", "it is valid for the tool's schema", CASES_OF_CALLS, v_valid},
    {"named", "it names the expected tool", CASES_THAT_EXPECT, v_named},
    {"equal", "with the expected arguments", CASES_THAT_EXPECT, v_equal},
    {"passed", "passed", ALL_CASES, v_pass},
};

struct tools_run {
    const struct cases_opts *a;
    const struct suite *suite;
    int n_left_out; /* cases that need tool calls, for which a template has no known syntax */
    int n, *index;  /* cases that were run: their number, and their indices in the suite */
    /* Answers of the model, of its base, and of the model constrained to valid calls. */
    struct suite_answers cand, base, con;
    bool has_base, has_con;
};

/* Returns whether grade g counts case i. */
static bool is_counted(const struct tools_run *r, const struct grade *g, int i) {
    const struct suite_case *c = &r->suite->c[r->index[i]];
    return g->of == ALL_CASES || c->expect || (g->of == CASES_OF_CALLS && c->loop);
}

/* Returns the number of cases that satisfy grade g; *of: number of cases that it counts. */
static int64_t count_passed(const struct tools_run *r, const struct suite_answers *s,
                            const struct grade *g, int64_t *of) {
    int64_t n = *of = 0;
    for (int i = 0; i < r->n; i++) {
        if (!is_counted(r, g, i)) continue;
        ++*of;
        n += g->holds(&s->verdict[i]);
    }
    return n;
}

/* Returns n / of; NaN if `of` is 0. */
static double rate_of(int64_t n, int64_t of) {
    return of ? (double)n / (double)of : (double)NAN;
}
/* Returns the standard error of the rate n / of; 0 for fewer than two cases. */
static double rate_stderr(int64_t n, int64_t of) {
    double p = rate_of(n, of);
    return of > 1 ? sqrt(p * (1 - p) / (double)(of - 1)) : 0;
}

/* ---- output ---- */

/* Adds the table of grades with the number of cases that pass each. */
static void emit_grades(struct emit *m, const struct tools_run *r) {
    emit_table(m, "grades", "");
    emit_col(m, "grade", NULL);
    emit_col(m, "about", "");
    emit_col(m, "n", "cases");
    emit_col(m, "of", "of");
    emit_col(m, "rate", "rate");
    emit_col(m, "rate_stderr", "+-");
    emit_col(m, "base_n", r->has_base ? "base" : NULL);
    emit_col(m, "constrained_n", r->has_con ? "constrained" : NULL);
    for (size_t k = 0; k < COUNT_OF(grades); k++) {
        int64_t of, n = count_passed(r, &r->cand, &grades[k], &of);
        if (!of) continue;
        emit_row(m);
        emit_cell_str(m, grades[k].key);
        emit_cell_str(m, grades[k].title);
        emit_cell_i64(m, n);
        emit_cell_i64(m, of);
        emit_cell_num(m, rate_of(n, of), 4);
        emit_cell_num(m, rate_stderr(n, of), 4);
        if (r->has_base)
            emit_cell_i64(m, count_passed(r, &r->base, &grades[k], &of));
        else
            emit_cell_none(m);
        if (r->has_con)
            emit_cell_i64(m, count_passed(r, &r->con, &grades[k], &of));
        else
            emit_cell_none(m);
    }
}

/* Adds a table of the tokens inside calls where the grammar overruled the model, by tool and
 * position in the call. Omits an empty table. */
static void emit_overruled(struct emit *m, const struct tools_run *r) {
    const struct tool_tally *t = &r->con.overruled;
    if (!t->n) return;
    emit_table(m, "overruled", "overruled, by tool and place");
    emit_col(m, "tool", "tool");
    for (int k = 0; k < TOOL_PLACES; k++) {
        const char *name = tool_place_name((enum tool_place)k);
        emit_col(m, name, name);
    }
    for (int i = 0; i < t->n; i++) {
        emit_row(m);
        emit_cell_str(m, t->row[i].tool[0] ? t->row[i].tool : NULL);
        for (int k = 0; k < TOOL_PLACES; k++) emit_cell_i64(m, t->row[i].n[k]);
    }
}

/* Adds two cells, whether case i passed and its answer, of another run; NULL: no such run. */
static void put_other(struct emit *m, const struct suite_answers *s, int i) {
    struct buf text = {0};
    if (s) {
        answer_show(&s->answer[i], &text);
        emit_cell_bool(m, s->verdict[i].pass);
        emit_cell_str(m, text.data);
    } else {
        emit_cell_none(m);
        emit_cell_none(m);
    }
    buf_release(&text);
}

/* Adds the table of cases; people: with readable texts instead of data. */
static void emit_cases(struct emit *m, const struct tools_run *r, bool people) {
    int n_shown = 0;
    emit_table(m, "cases", r->a->all ? "cases" : "cases that failed (--all: every case)");
    emit_col(m, "id", "id");
    emit_col(m, "pass", "passed");
    emit_col(m, "answer", "answer");
    emit_col(m, "why", "why not");
    emit_col(m, "base_pass", r->has_base ? "base passed" : NULL);
    emit_col(m, "base_answer", NULL);
    emit_col(m, "ended", NULL);
    emit_col(m, "constrained_pass", r->has_con ? "constrained" : NULL);
    emit_col(m, "constrained_answer", NULL);
    for (int i = 0; i < r->n; i++) {
        const struct verdict *v = &r->cand.verdict[i];
        struct buf text = {0};
        if (people && !r->a->all && (v->pass || n_shown++ >= SHOWN)) continue;
        emit_row(m);
        emit_cell_str(m, r->suite->c[r->index[i]].id);
        emit_cell_bool(m, v->pass);
        answer_show(&r->cand.answer[i], &text);
        emit_cell_str(m, people ? show_n(text.data, text.len).s : text.data);
        emit_cell_str(m, v->why.len ? v->why.data : NULL);
        put_other(m, r->has_base ? &r->base : NULL, i);
        emit_cell_bool(m, r->cand.ended[i]);
        put_other(m, r->has_con ? &r->con : NULL, i);
        buf_release(&text);
    }
}

struct flips { /* cases where the model and its base differ */
    int64_t same, lost, gained;
};
/* Returns the cases that only one of base and candidate passes; all 0 without a base. */
static struct flips find_flips(const struct tools_run *r) {
    struct flips f = {0, 0, 0};
    for (int i = 0; i < r->n && r->has_base; i++) {
        bool a = r->cand.verdict[i].pass, b = r->base.verdict[i].pass;
        f.same += answer_same(&r->cand.answer[i], &r->base.answer[i]);
        f.lost += b && !a;
        f.gained += a && !b;
    }
    return f;
}

/* Adds the run's totals and tables. */
static void emit_run(struct emit *m, const struct tools_run *r, const char *suite,
                     const struct flips *f) {
    char hex[33];
    int64_t of, n_cut = 0, n = count_passed(r, &r->cand, &grades[COUNT_OF(grades) - 1], &of);
    for (int i = 0; i < r->n; i++) n_cut += !r->cand.ended[i];
    hash_xxh128_hex(hex, r->suite->text, r->suite->len);
    emit_str(m, "model", "model", r->a->model);
    emit_str(m, "suite", "suite", suite);
    emit_str(m, "suite_xxh128", NULL, hex);
    emit_i64(m, "n_cases", "cases", r->n);
    emit_i64(m, "n_passed", NULL, n);
    emit_i64(m, "n_left_out", r->n_left_out ? "cases left out, which need tool calls" : NULL,
             r->n_left_out);
    emit_num(m, "pass_rate", "pass rate", rate_of(n, of), 4);
    emit_num(m, "pass_rate_stderr", "standard error", rate_stderr(n, of), 4);
    for (size_t k = 0; k + 1 < COUNT_OF(grades); k++) {
        char key[32];
        int64_t v = count_passed(r, &r->cand, &grades[k], &of);
        snprintf(key, sizeof key, "n_%s", grades[k].key);
        if (of) emit_i64(m, key, NULL, v);
    }
    if (r->has_base) {
        emit_str(m, "base", "base", r->a->eval.base);
        emit_i64(m, "n_same_as_base", "answers equal to the base's", f->same);
        emit_i64(m, "n_lost", "only the base passed", f->lost);
        emit_i64(m, "n_gained", "only the model passed", f->gained);
    }
    if (r->has_con) {
        const struct constrain_counts x = r->con.counts;
        emit_i64(m, "n_passed_constrained", "passed when constrained",
                 count_passed(r, &r->con, &grades[COUNT_OF(grades) - 1], &of));
        emit_num(m, "seconds_constrained", NULL, r->con.seconds, 3);
        emit_num(m, "decode_seconds_constrained", NULL, r->con.decode_s, 3);
        emit_i64(m, "tokens_made_constrained", NULL, r->con.n_new);
        emit_i64(m, "forced_tokens", NULL, x.n_forced);
        emit_i64(m, "constrained_tokens", NULL, x.n_drawn);
        emit_i64(m, "overruled_tokens", NULL, x.n_overruled);
        emit_i64(m, "ended_tokens", NULL, x.n_ended);
        emit_num(m, "overruled_per_1000", "overruled, per 1000 tokens",
                 x.n_drawn ? 1000.0 * (double)x.n_overruled / (double)x.n_drawn : 0, 1);
    }
    emit_i64(m, "n_loose", r->cand.n_loose ? "calls written as bare JSON (loose)" : NULL,
             r->cand.n_loose);
    emit_i64(m, "n_cut", "answers cut at the limit", n_cut);
    emit_i64(m, "max_tokens", NULL, r->a->max_tokens);
    emit_str(m, "kv_type", NULL, r->a->eval.kv_type);
    emit_str(m, "act", NULL, r->a->eval.act);
    emit_num(m, "seconds", "seconds", r->cand.seconds, 3);
    emit_i64(m, "tokens_made", NULL, r->cand.n_new);
    emit_grades(m, r);
    if (r->has_con) emit_overruled(m, r);
    emit_cases(m, r, r->a->table);
}

/* Returns ERR_VERDICT if --no-loss or --require is not met. */
static int judge_run(const struct tools_run *r, const struct flips *f, struct err *e) {
    int64_t of, n = count_passed(r, &r->cand, &grades[COUNT_OF(grades) - 1], &of);
    if (r->a->no_loss && f->lost)
        return err_set(e, ERR_VERDICT, "%" PRId64 " cases that the base passes fail", f->lost);
    if (!isnan(r->a->require) && rate_of(n, of) * 100 < r->a->require)
        return err_set(e, ERR_VERDICT, "%.2f %% of the cases passed, %.9g %% are required",
                       rate_of(n, of) * 100, r->a->require);
    return 0;
}

const struct cases_opts eval_cases_usual = {
    .eval = {.kv_type = KV_EXACT, .act = ACT_EXACT}, .max_tokens = 256, .require = (double)NAN};

/* Removes the cases that need tool calls if the template of the model or of its base has no known
 * syntax for them and there are other cases. Required results must not depend on fewer cases, so
 * with those the suite stays as it is, and is refused. */
static int leave_out_calls(struct tools_run *r, struct suite *s, struct err *e) {
    const struct cases_opts *a = r->a;
    const char *const models[] = {a->eval.base, a->model}; /* the base may be unusable */
    bool knows = true;
    if (a->format || a->no_loss || !isnan(a->require) || !suite_calls(s)) return 0;
    for (int i = !r->has_base; i < 2 && knows; i++) {
        TRY(eval_knows_calls(&a->eval, models[i], &knows, e));
        if (knows || !(r->n_left_out = suite_drop_calls(s))) continue;
        log_warn("%s: its template has no known syntax of tool calls; left out: %d of %d cases, "
                 "which need calls (--format names a syntax, if the model was trained on it)",
                 models[i], r->n_left_out, r->n_left_out + s->n);
    }
    return 0;
}

int eval_cases_run(struct work *w, struct cases_opts *a, struct emit *m, struct err *e) {
    const char *path = a->suite;
    struct suite suite;
    struct tools_run r = {
        .a = a, .suite = &suite, .has_base = a->eval.base != NULL, .has_con = a->constrained};
    int rc;
    if (a->no_loss && !r.has_base)
        return err_set(e, ERR_USAGE, "--no-loss needs a --base to compare with");
    if (a->max_tokens < 1) return err_set(e, ERR_USAGE, "--max-tokens must be at least 1");
    TRY(a->from_answers ? suite_open_answers(&suite, path, e) : eval_suite_read(&suite, path, e));
    TRY_GOTO(out, rc, leave_out_calls(&r, &suite, e));
    if (r.has_base)
        TRY_GOTO(out, rc,
                 eval_check_suite(&a->eval, a->eval.base, &suite, a->n_cases, a->format, e));
    TRY_GOTO(out, rc, kept_open(&a->eval.kept, a->eval.keep, e));
    TRY_GOTO(out, rc,
             eval_suite_of(w, &a->eval, a->model, &suite, a->n_cases, a->max_tokens, a->format,
                           &r.cand, e));
    if (r.has_base)
        TRY_GOTO(out, rc,
                 eval_suite_of(w, &a->eval, a->eval.base, &suite, a->n_cases, a->max_tokens,
                               a->format, &r.base, e));
    if (r.has_con) {
        struct eval_args con = a->eval;
        con.constrained = true;
        con.jump = a->jump;
        TRY_GOTO(out, rc,
                 eval_suite_of(w, &con, a->model, &suite, a->n_cases, a->max_tokens, a->format,
                               &r.con, e));
    }
    r.n = r.cand.n;
    r.index = xcalloc((size_t)r.n + 1, sizeof *r.index);
    for (int i = 0; i < r.n; i++) r.index[i] = suite_spread(suite.n, r.n, i);
    struct flips f = find_flips(&r);
    emit_run(m, &r, io_base(path), &f);
    rc = judge_run(&r, &f, e);
out:
    results_cache_close(a->eval.kept, false);
    free(r.index);
    suite_answers_release(&r.cand);
    suite_answers_release(&r.base);
    suite_answers_release(&r.con);
    suite_close(&suite);
    return rc;
}
