// SPDX-License-Identifier: MIT
/* runtime/measure/answer.c - one-sentence summary of a divergence measurement. */
#include "runtime/measure/answer.h"

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

/* Appends a file's name with its grade and numbers in parentheses. */
static void put_end(const struct eval_kld *k, const char *label, struct buf *out) {
    struct pick_grade g = loss_grade(k);
    buf_fmt(out, "%s (", label);
    pick_grade_text(&g, out);
    buf_str(out, ": ");
    put_numbers(k, out);
    buf_chr(out, ')');
}

void eval_ends(const struct eval_kld *k, int n, int *near, int *far) {
    *near = *far = 0;
    for (int i = 1; i < n; i++) {
        if (k[i].mean_kld < k[*near].mean_kld) *near = i;
        if (k[i].mean_kld >= k[*far].mean_kld) *far = i;
    }
}

void eval_answer(const struct eval_kld *k, char *const *label, int n, const char *base, bool differ,
                 struct buf *out) {
    int near, far;
    if (n == 1) {
        answer_one(k, label[0], base, out);
        return;
    }
    eval_ends(k, n, &near, &far);
    buf_fmt(out,
            differ ? "Closest to %s is " : "No file is clearly closer to %s than another: ", base);
    put_end(&k[near], label[near], out);
    buf_str(out, differ ? ", farthest " : " to ");
    put_end(&k[far], label[far], out);
    buf_chr(out, '.');
}
