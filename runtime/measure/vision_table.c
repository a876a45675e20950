// SPDX-License-Identifier: MIT
/* runtime/measure/vision_table.c - tables of a measurement over images (vision_int.h). Errors and
 * intervals treat the questions about the same images as one sample. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "runtime/measure/answer.h"
#include "runtime/measure/internal.h"
#include "runtime/measure/vision_int.h"

enum { MAX_PAIRED = 8 }; /* up to this number, all pairs are compared; above it, with the first */

struct tables {
    struct emit *m;
    const struct vision_lines *l;
    const struct vision_result *r;
    int n;
    int n_wanted, n_choices; /* questions with an expected answer, and of multiple choice */
    double *sum;             /* [n_groups] scratch, as is the next */
    int64_t *count;
};

/* A number of each answer, and its weight in the mean. */
typedef double (*of_answer)(const struct tables *t, int model, int q, int64_t *weight);

/* Returns whether the generated answer is compared with an expected one. */
static bool is_wanted(const struct vision_question *q) {
    return q->n_want > 0 && !q->n_choices;
}

static double kld_of(const struct tables *t, int model, int q, int64_t *weight) {
    const struct vision_answer *a = &t->r[model].answer[q];
    *weight = a->n_tokens;
    return a->kld;
}
static double same_of(const struct tables *t, int model, int q, int64_t *weight) {
    const struct vision_answer *a = &t->r[model].answer[q];
    *weight = a->n_tokens;
    return (double)a->n_same;
}
static double flip_of(const struct tables *t, int model, int q, int64_t *weight) {
    *weight = 1;
    return t->r[model].answer[q].differs >= 0;
}
static double right_of(const struct tables *t, int model, int q, int64_t *weight) {
    *weight = is_wanted(&t->l->q[q]);
    return *weight && t->r[model].answer[q].right;
}
static double pick_of(const struct tables *t, int model, int q, int64_t *weight) {
    *weight = t->l->q[q].n_choices > 0;
    return *weight && t->r[model].answer[q].pick == t->l->q[q].right;
}
static double pick_flip_of(const struct tables *t, int model, int q, int64_t *weight) {
    *weight = t->l->q[q].n_choices > 0;
    return *weight && t->r[model].answer[q].pick != t->r[0].answer[q].pick;
}

/* Returns the mean over all answers of a model, minus that of `minus` (-1: none). */
static struct cluster mean_of(const struct tables *t, of_answer f, int model, int minus) {
    struct cluster c;
    memset(t->sum, 0, (size_t)t->l->n_groups * sizeof *t->sum);
    memset(t->count, 0, (size_t)t->l->n_groups * sizeof *t->count);
    for (int q = 0; q < t->l->n; q++) {
        const int g = t->l->q[q].group;
        int64_t weight, unused;
        t->sum[g] += f(t, model, q, &weight) - (minus < 0 ? 0 : f(t, minus, q, &unused));
        t->count[g] += weight;
    }
    eval_cluster(t->sum, t->count, t->l->n_groups, &c);
    return c;
}

/* Adds the columns of a mean with its error; title NULL: JSON and CSV only. */
static void mean_columns(struct emit *m, const char *const key[4], const char *title,
                         const char *error) {
    emit_col(m, key[0], title);
    emit_col(m, key[1], error);
    emit_col(m, key[2], NULL);
    emit_col(m, key[3], NULL);
}
static void mean_cells(struct emit *m, struct cluster c, int prec) {
    emit_cell_num(m, c.mean, prec);
    emit_cell_num(m, c.stderr_, prec);
    emit_cell_num(m, c.lo, prec);
    emit_cell_num(m, c.hi, prec);
}
/* Adds the cells of a mean whose values are at least 0 and at most `most`. */
static void bound_cells(struct emit *m, struct cluster c, double most, int prec) {
    eval_cluster_bound(&c, 0, most);
    mean_cells(m, c, prec);
}
#define MEAN_KEYS(name)                                                                            \
    { name, name "_stderr", name "_ci95_low", name "_ci95_high" }

/* Returns the median of the first tokens that differ, counted from 1; 0: no answer differs. */
static double median_difference(const struct tables *t, int model) {
    double *at = xcalloc((size_t)t->l->n + 1, sizeof *at);
    int64_t n = 0;
    for (int q = 0; q < t->l->n; q++)
        if (t->r[model].answer[q].differs >= 0) at[n++] = (double)t->r[model].answer[q].differs + 1;
    eval_sort(at, n);
    const double median = n ? eval_percentile(at, n, 0.5) : 0;
    free(at);
    return median;
}

/* Counts the questions that only one of a model and the base answers as expected. */
static int64_t only_right(const struct tables *t, int model, bool base) {
    int64_t n = 0;
    for (int q = 0; q < t->l->n; q++)
        n += is_wanted(&t->l->q[q]) && t->r[0].answer[q].right == base &&
             t->r[model].answer[q].right == !base;
    return n;
}

static void emit_model(const struct tables *t, int i) {
    struct emit *m = t->m;
    const struct vision_result *r = &t->r[i];
    emit_row(m);
    emit_cell_str(m, r->label);
    emit_cell_str(m, r->path);
    emit_cell_str(m, r->mmproj);
    bound_cells(m, mean_of(t, kld_of, i, -1), (double)INFINITY, 6);
    eval_sort(r->kld, r->n_kld);
    emit_cell_num(m, eval_percentile(r->kld, r->n_kld, 0.5), 6);
    emit_cell_num(m, eval_percentile(r->kld, r->n_kld, 0.99), 5);
    emit_cell_num(m, r->kld[r->n_kld - 1], 4);
    bound_cells(m, mean_of(t, same_of, i, -1), 1, 4);
    bound_cells(m, mean_of(t, flip_of, i, -1), 1, 4);
    emit_cell_num(m, median_difference(t, i), 1);
    if (t->n_wanted) {
        bound_cells(m, mean_of(t, right_of, i, -1), 1, 4);
        emit_cell_i64(m, only_right(t, i, true));
        emit_cell_i64(m, only_right(t, i, false));
    }
    if (t->n_choices) {
        bound_cells(m, mean_of(t, pick_of, i, -1), 1, 4);
        bound_cells(m, mean_of(t, pick_flip_of, i, -1), 1, 4);
    }
}

static void emit_models(const struct tables *t) {
    static const char *const kld[] = MEAN_KEYS("mean_kld"), *const same[] = MEAN_KEYS("same_top1"),
                             *const flips[] = MEAN_KEYS("changed"),
                             *const right[] = MEAN_KEYS("right"),
                             *const picks[] = MEAN_KEYS("choices_right"),
                             *const turned[] = MEAN_KEYS("choices_flipped");
    struct emit *m = t->m;
    emit_table(m, "models", "models");
    emit_col(m, "model", "model");
    emit_col(m, "file", NULL);
    emit_col(m, "mmproj", NULL);
    mean_columns(m, kld, "mean KLD", "+-");
    emit_col(m, "median_kld", NULL);
    emit_col(m, "kld_p99", "99 %");
    emit_col(m, "max_kld", NULL);
    mean_columns(m, same, "same top", NULL);
    mean_columns(m, flips, "changed", NULL);
    emit_col(m, "first_changed", "from token");
    if (t->n_wanted) {
        mean_columns(m, right, "right", NULL);
        emit_col(m, "n_lost", "lost");
        emit_col(m, "n_gained", "gained");
    }
    if (t->n_choices) {
        mean_columns(m, picks, "choices right", NULL);
        mean_columns(m, turned, "flipped", NULL);
    }
    for (int i = 1; i < t->n; i++) emit_model(t, i);
}

/* Adds the differences between the models' mean divergences. */
static void emit_pairs(const struct tables *t) {
    struct emit *m = t->m;
    emit_table(m, "pairs", "differences of mean KLD, a - b");
    emit_col(m, "a", "a");
    emit_col(m, "b", "b");
    emit_col(m, "diff", "a - b");
    emit_col(m, "diff_stderr", "+-");
    emit_col(m, "diff_ci95_low", "95 % from");
    emit_col(m, "diff_ci95_high", "to");
    for (int i = 1; i < t->n; i++)
        for (int j = i + 1; j < t->n; j++) {
            if (t->n - 1 > MAX_PAIRED && i > 1) continue;
            emit_row(m);
            emit_cell_str(m, t->r[i].label);
            emit_cell_str(m, t->r[j].label);
            mean_cells(m, mean_of(t, kld_of, i, j), 6);
        }
}

/* Adds the columns that judge an answer. */
static void emit_right_columns(const struct tables *t) {
    if (t->n_wanted) emit_col(t->m, "right", NULL);
    if (t->n_choices) emit_col(t->m, "choice", NULL);
    if (t->n_choices) emit_col(t->m, "choice_right", NULL);
}
static void emit_right_cells(const struct tables *t, int model, int q) {
    const struct vision_question *at = &t->l->q[q];
    const struct vision_answer *a = &t->r[model].answer[q];
    if (t->n_wanted && is_wanted(at)) emit_cell_bool(t->m, a->right);
    if (t->n_wanted && !is_wanted(at)) emit_cell_none(t->m);
    if (!at->n_choices) return;
    emit_cell_str(t->m, at->choice[a->pick]);
    emit_cell_bool(t->m, a->pick == at->right);
}

/* Adds every answer. */
static void emit_answers(const struct tables *t) {
    struct emit *m = t->m;
    emit_table(m, "questions", NULL);
    emit_col(m, "line", NULL);
    emit_col(m, "question", NULL);
    emit_col(m, "answer", NULL);
    emit_right_columns(t);
    for (int q = 0; q < t->l->n; q++) {
        emit_row(m);
        emit_cell_i64(m, t->l->q[q].line);
        emit_cell_str(m, t->l->q[q].text);
        emit_cell_str(m, t->r[0].answer[q].text);
        emit_right_cells(t, 0, q);
    }
    emit_table(m, "answers", NULL);
    emit_col(m, "model", NULL);
    emit_col(m, "line", NULL);
    emit_col(m, "n_tokens", NULL);
    emit_col(m, "mean_kld", NULL);
    emit_col(m, "n_same_top1", NULL);
    emit_col(m, "first_changed", NULL); /* from 1; 0: the same answer */
    emit_col(m, "answer", NULL);
    emit_right_columns(t);
    for (int i = 1; i < t->n; i++)
        for (int q = 0; q < t->l->n; q++) {
            const struct vision_answer *a = &t->r[i].answer[q];
            emit_row(m);
            emit_cell_str(m, t->r[i].label);
            emit_cell_i64(m, t->l->q[q].line);
            emit_cell_i64(m, a->n_tokens);
            emit_cell_num(m, a->kld / (double)max_i64(a->n_tokens, 1), 6);
            emit_cell_i64(m, a->n_same);
            emit_cell_i64(m, a->differs + 1);
            emit_cell_str(m, a->text);
            emit_right_cells(t, i, q);
        }
}

/* Adds the sentence that grades the models. */
static void emit_sentence(const struct tables *t) {
    struct eval_kld *k = xcalloc((size_t)t->n, sizeof *k);
    char **label = xcalloc((size_t)t->n, sizeof *label);
    struct buf b = {0};
    for (int i = 1; i < t->n; i++) {
        const struct cluster c = mean_of(t, kld_of, i, -1);
        k[i - 1] = (struct eval_kld){.mean_kld = c.mean,
                                     .mean_kld_stderr_windows = c.stderr_,
                                     .same_top1 = mean_of(t, same_of, i, -1).mean,
                                     .max_kld = t->r[i].kld[t->r[i].n_kld - 1],
                                     .n_tokens = t->r[i].n_kld};
        label[i - 1] = t->r[i].label;
    }
    eval_answer(k, label, t->n - 1, io_base(t->r[0].path), NULL, &b);
    emit_answer(t->m, b.data);
    buf_release(&b);
    free(label);
    free(k);
}

static void tables_init(struct tables *t, struct emit *m, const struct vision_lines *l,
                        const struct vision_result *r, int n) {
    *t = (struct tables){.m = m, .l = l, .r = r, .n = n};
    t->sum = xcalloc((size_t)l->n_groups, sizeof *t->sum);
    t->count = xcalloc((size_t)l->n_groups, sizeof *t->count);
    for (int q = 0; q < l->n; q++) t->n_wanted += is_wanted(&l->q[q]);
    for (int q = 0; q < l->n; q++) t->n_choices += l->q[q].n_choices > 0;
}

static void tables_release(struct tables *t) {
    free(t->sum);
    free(t->count);
}

/* Fills *out with the results of model i. */
static void sum_one(const struct tables *t, int i, struct vision_sums *out) {
    const struct cluster kld = mean_of(t, kld_of, i, -1), changed = mean_of(t, flip_of, i, -1),
                         right = mean_of(t, right_of, i, -1), picks = mean_of(t, pick_of, i, -1),
                         turned = mean_of(t, pick_flip_of, i, -1);
    *out = (struct vision_sums){.mean_kld = kld.mean,
                                .mean_kld_stderr = kld.stderr_,
                                .same_top1 = mean_of(t, same_of, i, -1).mean,
                                .changed = changed.mean,
                                .changed_stderr = changed.stderr_,
                                .n_expected = t->n_wanted,
                                .right = right.mean,
                                .right_stderr = right.stderr_,
                                .n_lost = only_right(t, i, true),
                                .n_gained = only_right(t, i, false),
                                .n_choices = t->n_choices,
                                .choices_right = picks.mean,
                                .choices_right_stderr = picks.stderr_,
                                .choices_flipped = turned.mean,
                                .choices_flipped_stderr = turned.stderr_};
    for (int q = 0; q < t->l->n; q++) out->n_tokens += t->r[i].answer[q].n_tokens;
}

void vision_sum(const struct vision_lines *l, const struct vision_result *r, int n,
                struct vision_sums *out) {
    struct tables t;
    tables_init(&t, NULL, l, r, n);
    for (int i = 0; i < n; i++) sum_one(&t, i, &out[i]);
    tables_release(&t);
}

void vision_emit(struct emit *m, const struct vision_opts *o, const struct vision_lines *l,
                 const struct vision_result *r, int n, double seconds) {
    struct tables t;
    tables_init(&t, m, l, r, n);
    emit_str(m, "base", "base", r[0].path);
    emit_str(m, "base_mmproj", "its projector", r[0].mmproj);
    emit_str(m, "questions_file", "questions of", l->path);
    emit_i64(m, "n_questions", "questions", l->n);
    emit_i64(m, "n_images", "images", l->n_images);
    emit_i64(m, "n_tokens", "scored tokens", r[1].n_kld);
    emit_str(m, "over", "over", o->given ? "the given answers" : "the base's answers");
    if (t.n_wanted) {
        const struct cluster c = mean_of(&t, right_of, 0, -1);
        emit_i64(m, "n_expected", "expected answers", t.n_wanted);
        emit_num(m, "base_right", "the base's right", c.mean, 4);
        emit_num(m, "base_right_stderr", "+-", c.stderr_, 4);
    }
    if (t.n_choices) {
        const struct cluster c = mean_of(&t, pick_of, 0, -1);
        emit_i64(m, "n_choices", "multiple choice", t.n_choices);
        emit_num(m, "base_choices_right", "the base's right", c.mean, 4);
        emit_num(m, "base_choices_right_stderr", "+-", c.stderr_, 4);
    }
    emit_str(m, "kv_type", "kv type", o->eval.kv_type);
    emit_str(m, "act", "activations", o->eval.act);
    emit_num(m, "seconds", "seconds", seconds, 1);
    emit_models(&t);
    emit_sentence(&t);
    if (n > 2) emit_pairs(&t);
    emit_answers(&t);
    tables_release(&t);
}
