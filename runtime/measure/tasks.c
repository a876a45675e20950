// SPDX-License-Identifier: MIT
/* runtime/measure/tasks.c - `hone eval choice` and `hone eval needle`: runs multiple-choice and
 * needle tasks on a model and then, optionally, on its base. runtime/measure/choices.h reads the
 * tasks, runtime/measure/choice.c scores them. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/measure/tasks.h"
#include "runtime/measure/measurement_cache.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "runtime/measure/choices.h"
#include "runtime/measure/flips.h"
#include "text/textfile.h"

/* ---- numbers ---- */

struct accuracy {
    int64_t n, right, greedy;
    double rate, stderr_, lo, hi, chance; /* lo, hi: 95 % interval (flips.h) */
};
/* Computes the accuracy over a group of tasks; NULL: over all tasks. */
static struct accuracy accuracy_of(const struct choice_tasks *t, const struct choice_answers *a,
                                   const char *group) {
    struct accuracy r = {0};
    for (int i = 0; i < a->n; i++) {
        if (group && strcmp(group, t->t[i].group) != 0) continue;
        r.n++;
        r.right += a->pick[i] == t->t[i].right;
        r.greedy += a->greedy[i];
        r.chance += 1.0 / t->t[i].n;
    }
    const double n = (double)r.n;
    const struct eval_share share = eval_share_of(r.right, r.n);
    r.rate = share.per_100 / 100;
    r.lo = share.lo / 100;
    r.hi = share.hi / 100;
    r.chance = r.n ? r.chance / n : (double)NAN;
    r.stderr_ = r.n > 1 ? sqrt(r.rate * (1 - r.rate) / (n - 1)) : 0;
    return r;
}

/* Adds accuracy, its error, and chance level; needle: also answers that name no choice. */
static void emit_accuracy(struct emit *m, const struct accuracy *r, bool needle) {
    emit_i64(m, "n_tasks", "tasks", r->n);
    emit_num(m, "accuracy", "accuracy", r->rate, 4);
    emit_num(m, "accuracy_stderr", "standard error", r->stderr_, 4);
    emit_num(m, "accuracy_lo", "95 % from", r->lo, 4);
    emit_num(m, "accuracy_hi", "to", r->hi, 4);
    emit_num(m, "chance", "by chance", r->chance, 4);
    if (needle)
        emit_num(m, "recalled", "written without choices", (double)r->greedy / (double)r->n, 4);
}

/* Adds accuracy by group. */
static void emit_groups(struct emit *m, const struct choice_tasks *t,
                        const struct choice_answers *a) {
    const char *last = NULL;
    emit_table(m, "by_depth", "by depth of the needle");
    emit_col(m, "depth", "depth");
    emit_col(m, "n", "tasks");
    emit_col(m, "accuracy", "accuracy");
    emit_col(m, "recalled", "recalled");
    for (int i = 0; i < a->n; i++) {
        if (last && strcmp(last, t->t[i].group) == 0)
            continue; /* tasks of one depth are adjacent */
        last = t->t[i].group;
        struct accuracy r = accuracy_of(t, a, last);
        emit_row(m);
        emit_cell_str(m, last);
        emit_cell_i64(m, r.n);
        emit_cell_num(m, r.rate, 4);
        emit_cell_num(m, (double)r.greedy / (double)r.n, 4);
    }
}

/* Adds the base's accuracy and the tasks that only one of the two got right. */
static void emit_base(struct emit *m, const char *name, const struct choice_tasks *t,
                      const struct choice_answers *a, const struct choice_tasks *tb,
                      const struct choice_answers *b) {
    int64_t flips = 0, lost = 0, gained = 0;
    struct accuracy r = accuracy_of(tb, b, NULL);
    for (int i = 0; i < a->n && i < b->n; i++) {
        bool x = a->pick[i] == t->t[i].right, y = b->pick[i] == tb->t[i].right;
        flips += a->pick[i] != b->pick[i];
        lost += y && !x;
        gained += x && !y;
    }
    emit_str(m, "base", "base", name);
    emit_num(m, "base_accuracy", "its accuracy", r.rate, 4);
    emit_num(m, "flips", NULL, (double)flips / (double)r.n, 4);
    const struct eval_share share = eval_share_of(flips, r.n);
    eval_share_emit(m, "flips", "answers that change, per 100", &share);
    emit_i64(m, "n_lost", "only the base right", lost);
    emit_i64(m, "n_gained", "only the model right", gained);
}

/* Adds one row per task. */
static void emit_tasks(struct emit *m, const struct choice_tasks *t,
                       const struct choice_answers *a) {
    emit_table(m, "tasks", NULL);
    emit_col(m, "right", NULL);
    emit_col(m, "pick", NULL);
    emit_col(m, "score_right", NULL);
    emit_col(m, "score_pick", NULL);
    for (int i = 0; i < a->n; i++) {
        emit_row(m);
        emit_cell_i64(m, t->t[i].right);
        emit_cell_i64(m, a->pick[i]);
        emit_cell_num(m, a->score[i][t->t[i].right], 6);
        emit_cell_num(m, a->score[i][a->pick[i]], 6);
    }
}

int eval_tasks_run(struct work *w, const struct eval_args *a, const char *model,
                   const struct choice_job *j, struct emit *m, struct err *e) {
    struct choice_tasks t, tb = {0};
    struct choice_answers r = {0}, rb = {0};
    if (!j->format &&
        (j->n_depths < 1 || j->n_depths > 1000 || j->per_depth < 1 || j->per_depth > 1000))
        return err_set(e, ERR_USAGE, "eval needle: --depths and --per-depth are 1 to 1000");
    if (a->base) TRY(eval_check_model(a, a->base, e));
    TRY(eval_choice_of(w, a, model, j, &t, &r, e));
    int rc = a->base ? eval_choice_of(w, a, a->base, j, &tb, &rb, e) : 0;
    if (!rc) {
        struct accuracy all = accuracy_of(&t, &r, NULL);
        emit_str(m, "model", "model", model);
        emit_str(m, "tasks_file", "tasks of", io_base(j->path));
        emit_str(m, "format", "format", j->format ? j->format : "needle");
        if (!j->format) emit_i64(m, "ctx", "ctx", j->ctx);
        emit_accuracy(m, &all, !j->format);
        if (a->base) emit_base(m, a->base, &t, &r, &tb, &rb);
        emit_str(m, "kv_type", "kv type", a->kv_type);
        emit_str(m, "act", "activations", a->act);
        emit_num(m, "seconds", "seconds", r.seconds, 1);
        if (!j->format) emit_groups(m, &t, &r);
        emit_tasks(m, &t, &r);
    }
    choice_answers_release(&r);
    choice_answers_release(&rb);
    choices_close(&t);
    choices_close(&tb);
    return rc;
}

int eval_choice_run(struct work *w, const struct eval_args *a, const char *model,
                    const struct choice_job *j, struct emit *m, struct err *e) {
    if (!j->format)
        return err_set(e, ERR_USAGE, "eval choice: --format is missing: one of %s",
                       choices_formats());
    return eval_tasks_run(w, a, model, j, m, e);
}
