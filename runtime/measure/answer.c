// SPDX-License-Identifier: MIT
/* runtime/measure/answer.c - one-sentence summary of a divergence measurement. */
#include "runtime/measure/answer.h"

#include <math.h>

#include "runtime/measure/measures.h"
#include "report/pick.h"
#include "report/report_text.h"

static const char *const loses[] = {[PICK_NONE] = "has no noticeable loss",
                                    [PICK_SLIGHT] = "has a slight loss",
                                    [PICK_NOTICEABLE] = "has a noticeable loss",
                                    [PICK_HEAVY] = "has a heavy loss",
                                    [PICK_UNKNOWN] = "was not measured"};
static const char *const perhaps[] = {[PICK_NONE] = ", perhaps none",
                                      [PICK_SLIGHT] = ", perhaps slight",
                                      [PICK_NOTICEABLE] = ", perhaps noticeable",
                                      [PICK_HEAVY] = ", perhaps heavy",
                                      [PICK_UNKNOWN] = ""};

/* Grades the quality loss by the mean divergence; best and worst are the grades at the ends of its
 * error range. */
static struct pick_grade loss_grade(const struct eval_kld *k) {
    return pick_judge(k->mean_kld, k->mean_kld_stderr_windows);
}

/* Appends mean divergence and share of equal most likely tokens. */
static void put_numbers(const struct eval_kld *k, struct buf *out) {
    buf_str(out, "mean divergence ");
    text_kld(out, k->mean_kld, k->mean_kld_stderr_windows);
    buf_fmt(out, ", the same most likely token %.*f %% of the time", k->same_top1 < 0.999 ? 1 : 2,
            k->same_top1 * 100);
}

/* Appends a sentence that grades one file against `base`. */
static void answer_one(const struct eval_kld *k, const char *label, const char *base,
                       struct buf *out) {
    struct pick_grade g = loss_grade(k);
    if (!(k->max_kld > 0) && k->same_top1 >= 1) {
        buf_fmt(out, "%s is the same as %s: no divergence on %lld tokens.", label, base,
                (long long)k->n_tokens);
        return;
    }
    buf_fmt(out, "%s %s%s: ", label, loses[g.band],
            g.worst == g.best ? "" : perhaps[g.worst != g.band ? g.worst : g.best]);
    put_numbers(k, out);
    buf_chr(out, '.');
}

bool eval_is_closer(const struct eval_pair *p) {
    const bool lower = isfinite(p->ratio_hi) ? p->ratio_hi < 1 : p->hi < 0;
    return p->n_chunks >= MEASURE_MIN && lower;
}

struct field { /* several models and their measurement */
    const struct eval_kld *k;
    char *const *label;
    int n;
    const struct eval_kld_run *run; /* NULL: differences are not tested */
};

/* Returns whether model a is closer to the base than b by more than chance. */
static bool is_closer(const struct field *f, int a, int b) {
    struct eval_pair p;
    if (!f->run) return true;
    eval_kld_pair(f->run, a, b, &p);
    return eval_is_closer(&p);
}

/* Returns whether any model is closer than another by more than chance. */
static bool any_closer(const struct field *f) {
    for (int i = 0; i < f->n; i++)
        for (int j = 0; j < f->n; j++)
            if (i != j && is_closer(f, i, j)) return true;
    return false;
}

/* Appends a model's name with its grade, numbers and, with `near` or `far`, the first model from
 * which it does not clearly differ and the number of others. */
static void put_end(const struct field *f, int i, bool near, bool far, struct buf *out) {
    struct pick_grade g = loss_grade(&f->k[i]);
    int first = -1, more = 0;
    buf_fmt(out, "%s (", f->label[i]);
    pick_grade_text(&g, out);
    buf_str(out, ": ");
    put_numbers(&f->k[i], out);
    for (int j = 0; j < f->n; j++) {
        const bool alike =
            j != i && ((near && !is_closer(f, i, j)) || (far && !is_closer(f, j, i)));
        more += alike && first >= 0;
        if (alike && first < 0) first = j;
    }
    if (first >= 0)
        buf_fmt(out, "; not clearly %s than %s", near ? "closer" : "farther", f->label[first]);
    if (more) buf_fmt(out, " and %d other%s", more, more > 1 ? "s" : "");
    buf_chr(out, ')');
}

void eval_answer(const struct eval_kld *k, char *const *label, int n, const char *base,
                 const struct eval_kld_run *run, struct buf *out) {
    const struct field f = {k, label, n, run};
    int near = 0, far = 0; /* of equal ones the first and the last */
    if (n == 1) {
        answer_one(k, label[0], base, out);
        return;
    }
    for (int i = 1; i < n; i++) {
        if (k[i].mean_kld < k[near].mean_kld) near = i;
        if (k[i].mean_kld >= k[far].mean_kld) far = i;
    }
    const bool differ = any_closer(&f);
    buf_fmt(out,
            differ ? "Closest to %s is " : "No file is clearly closer to %s than another: ", base);
    put_end(&f, near, differ, false, out);
    buf_str(out, differ ? ", farthest " : " to ");
    put_end(&f, far, false, differ, out);
    buf_chr(out, '.');
}
