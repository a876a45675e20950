// SPDX-License-Identifier: MIT
/* report/pick.c - the verdict on a release: loss bands, recommendation, sentences.
 *
 * Where the thresholds come from: at a mean divergence of K nats per token, a reader who knows both
 * models gains K in log odds with each token, so odds of 20 to 1 (3 nats) take 3 / K tokens. A loss
 * is not noticeable if that is longer than most answers (600 tokens), slight if longer than a
 * paragraph (100), noticeable if longer than a sentence (20). The share of equal top tokens is
 * printed but not graded: it follows the divergence, and a second limit would contradict the bands
 * in the plot. */
#include "report/pick.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "report/report_text.h"

static const double Z95 = 1.959964; /* two-sided 95 % of a normal distribution */

const struct pick_row pick_bands[PICK_BANDS] = {
    {"no noticeable loss",
     "even 600 tokens of output, more than most answers have, are not enough to tell it from the "
     "original with odds of 20 to 1",
     0.005},
    {"slight loss", "a paragraph of 100 tokens is not enough to tell it from the original", 0.03},
    {"noticeable loss",
     "a paragraph is enough to tell it from the original, a sentence of 20 tokens is not", 0.15},
    {"heavy loss", "a sentence is enough to tell it from the original", (double)INFINITY},
};

/* Keeps a margin below noticeable loss: other texts may lose more than the measured ones. */
const struct pick_row pick_take = {
    "recommended", "the smallest file that cannot be told from the original within 150 tokens",
    0.02};

/* Returns the grade of a mean divergence. */
static enum pick_band band_of(double kld) {
    int i = 0;
    while (i < PICK_HEAVY && kld > pick_bands[i].max_kld) i++;
    return (enum pick_band)i;
}

/* Returns half the width of the 95 % interval of a divergence. */
static double half_width(double kld_stderr) {
    return kld_stderr > 0 && isfinite(kld_stderr) ? Z95 * kld_stderr : 0;
}

struct pick_grade pick_judge(double kld, double kld_stderr) {
    const double d = half_width(kld_stderr);
    if (!isfinite(kld)) return (struct pick_grade){PICK_UNKNOWN, PICK_UNKNOWN, PICK_UNKNOWN};
    return (struct pick_grade){band_of(kld), band_of(kld - d), band_of(kld + d)};
}

struct pick_grade pick_grade(const struct result *r, int i) {
    const struct result_file *f = &r->file[i];
    double kld = f->is_base ? (double)NAN : f->mean_kld;
    return pick_judge(kld, f->mean_kld_stderr);
}

const char *pick_word(enum pick_band band) {
    static const char *const word[] = {[PICK_NONE] = "not noticeable",
                                       [PICK_SLIGHT] = "slight",
                                       [PICK_NOTICEABLE] = "noticeable",
                                       [PICK_HEAVY] = "heavy",
                                       [PICK_UNKNOWN] = "not measured"};
    return word[band];
}

void pick_grade_text(const struct pick_grade *g, struct buf *out) {
    if (g->band == PICK_UNKNOWN) {
        buf_str(out, "not measured");
        return;
    }
    buf_str(out, pick_bands[g->band].name);
    if (g->worst == g->best) return;
    buf_str(out, ", perhaps ");
    buf_str(out, pick_word(g->worst != g->band ? g->worst : g->best));
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* Returns whether a file has a measured divergence and is not the base. */
static bool is_counted(const struct result_file *f) {
    return !f->is_base && isfinite(f->mean_kld) && f->size_bytes > 0;
}

/* Returns the smallest file in this band or a better one; if `sure`, its worst possible band must
 * qualify. -1: none. */
static int smallest(const struct result *r, enum pick_band limit, bool sure) {
    int best = -1;
    for (int i = 0; i < r->n_files; i++) {
        struct pick_grade g = pick_grade(r, i);
        if (!is_counted(&r->file[i]) || (sure ? g.worst : g.band) > limit) continue;
        if (best < 0 || r->file[i].size_bytes < r->file[best].size_bytes) best = i;
    }
    return best;
}

/* Returns the smallest file that is certain to be good enough; -1: not found. */
static int smallest_to_take(const struct result *r) {
    int best = -1;
    for (int i = 0; i < r->n_files; i++) {
        const struct result_file *f = &r->file[i];
        if (!is_counted(f) || !(f->mean_kld + half_width(f->mean_kld_stderr) <= pick_take.max_kld))
            continue;
        if (best < 0 || f->size_bytes < r->file[best].size_bytes) best = i;
    }
    return best;
}

/* Returns the file with the lowest divergence; -1: none is measured. */
static int closest_file(const struct result *r) {
    int best = -1;
    for (int i = 0; i < r->n_files; i++)
        if (is_counted(&r->file[i]) && (best < 0 || r->file[i].mean_kld < r->file[best].mean_kld))
            best = i;
    return best;
}

int pick_file(const struct result *r) {
    int i = smallest(r, PICK_NONE, true);
    if (i < 0) i = smallest_to_take(r);
    if (i < 0) i = smallest(r, PICK_SLIGHT, true);
    if (i < 0) i = smallest(r, PICK_SLIGHT, false);
    return i >= 0 ? i : closest_file(r);
}

/* Returns the closest of the files that are no larger than file i and no farther from the base, and
 * better in one of the two; -1: none. */
static int better(const struct result *r, int i) {
    const struct result_file *f = &r->file[i];
    int best = -1;
    for (int k = 0; k < r->n_files; k++) {
        const struct result_file *g = &r->file[k];
        if (k == i || !is_counted(g) || g->size_bytes > f->size_bytes || g->mean_kld > f->mean_kld)
            continue;
        if (g->size_bytes == f->size_bytes && g->mean_kld >= f->mean_kld) continue;
        if (best < 0 || g->mean_kld < r->file[best].mean_kld) best = k;
    }
    return best;
}

struct sized {
    int64_t size;
    int i;
};

/* Orders files by size, largest first, for qsort. */
static int larger_first(const void *a, const void *b) {
    const struct sized *x = a, *y = b;
    return x->size != y->size ? (x->size > y->size ? -1 : 1) : x->i - y->i;
}

int *pick_order(const struct result *r) {
    struct sized *v = xcalloc((size_t)r->n_files + 1, sizeof *v);
    int *order = xcalloc((size_t)r->n_files + 1, sizeof *order);
    for (int i = 0; i < r->n_files; i++)
        v[i] = (struct sized){r->file[i].is_base ? -1 : r->file[i].size_bytes, i};
    qsort(v, (size_t)r->n_files, sizeof *v, larger_first);
    for (int i = 0; i < r->n_files; i++) order[i] = v[i].i;
    free(v);
    return order;
}

bool pick_on_front(const struct result *r, int i) {
    return is_counted(&r->file[i]) && better(r, i) < 0;
}

/* ---- words ----------------------------------------------------------------------------------- */

const char *pick_base_word(const struct result *r) {
    return r->base_is_quantized ? "its base" : "the original";
}

/* Returns a file's size class, or its recipe. */
static const char *short_label(const struct result_file *f) {
    return *f->size_class ? f->size_class : f->recipe;
}

const char *pick_label(const struct result *r, int i) {
    const char *s = short_label(&r->file[i]);
    for (int k = 0; k < r->n_files; k++)
        if (!*s || (k != i && strcmp(s, short_label(&r->file[k])) == 0)) return r->file[i].file;
    return s;
}

/* Returns why file i is recommended: which rule of pick_file chose it. */
static const char *why_recommended(const struct result *r, int i) {
    if (i == smallest(r, PICK_NONE, true)) return "the smallest without noticeable loss";
    if (i == smallest_to_take(r) || pick_grade(r, i).band <= PICK_SLIGHT)
        return "small, with a slight loss";
    return "the closest there is";
}

/* Returns how file g, of those that better() accepts, compares with file f. */
static const char *how_better(const struct result_file *f, const struct result_file *g) {
    if (g->size_bytes == f->size_bytes) return "as small and closer";
    return g->mean_kld < f->mean_kld ? "smaller and closer" : "smaller and as close";
}

void pick_role(const struct result *r, int i, struct buf *out) {
    const struct result_file *f = &r->file[i];
    int pick = pick_file(r), beaten = better(r, i);
    if (f->is_base) {
        buf_str(out, r->base_is_quantized ? "the base of the others, itself quantized"
                                          : "the unquantized conversion, for making other files");
    } else if (!is_counted(f)) {
        buf_str(out, "not measured");
    } else if (i == pick) {
        buf_str(out, why_recommended(r, i));
    } else if (beaten >= 0) {
        buf_fmt(out, "%s is %s", pick_label(r, beaten), how_better(f, &r->file[beaten]));
    } else if (i == closest_file(r)) {
        buf_fmt(out, "closest to %s", pick_base_word(r));
    } else if (pick >= 0 && f->size_bytes < r->file[pick].size_bytes) {
        bool heavy = pick_grade(r, i).band == PICK_HEAVY;
        buf_str(out, heavy ? "last resort" : "when memory is short");
    } else {
        buf_str(out, "with memory to spare");
    }
}

bool pick_knows_errors(const struct result *r) {
    for (int i = 0; i < r->n_files; i++)
        if (is_counted(&r->file[i]) && !isfinite(r->file[i].mean_kld_stderr)) return false;
    return true;
}

double pick_gain(const struct result *r, int i) {
    const struct result_file *f = &r->file[i];
    return is_counted(f) && f->mean_kld > 0 ? f->preset_kld / f->mean_kld : (double)NAN;
}

/* Returns whether file i and the preset certainly differ: zero is outside the 95 % interval of
 * their paired difference. Without that, as in results of earlier versions, the error of each alone
 * is used, which is larger; if that is unknown too, nothing is certain. */
static bool is_certain(const struct result *r, int i) {
    const struct result_file *f = &r->file[i];
    if (isfinite(f->preset_sure)) return f->preset_sure > Z95;
    const double both = f->mean_kld_stderr * (1 + f->preset_kld / f->mean_kld);
    return isfinite(both) && f->preset_kld - f->mean_kld > half_width(both);
}

bool pick_is_closer(const struct result *r, int i) {
    return pick_gain(r, i) >= 1.05 && is_certain(r, i);
}

bool pick_gain_text(const struct result *r, int i, struct buf *out) {
    const double gain = pick_gain(r, i);
    if (!pick_is_closer(r, i)) return false;
    buf_fmt(out, "%.*fx closer to %s than llama.cpp's %s of the same size", gain < 9.95 ? 1 : 0,
            gain, pick_base_word(r), r->file[i].size_class);
    return true;
}

bool pick_types(const struct result *r, int i, struct buf *out) {
    const cJSON *types = r->file[i].types;
    bool any = false;
    for (const cJSON *t = doc_first(types); t; t = t->next) {
        const char *name = doc_str(t, "type");
        const double share = doc_num(t, "share", 0);
        if (!name || !(share >= 0.005)) continue;
        buf_fmt(out, "%s%s %.0f %%", any ? ", " : "", name, share * 100);
        any = true;
    }
    return any;
}

/* Appends the name and size of file i. */
static void name_and_size(const struct result *r, int i, struct buf *out) {
    char size[32];
    text_size(size, r->file[i].size_bytes);
    buf_fmt(out, "%s, %s", pick_label(r, i), size);
}

void pick_head(const struct result *r, struct buf *out) {
    int i = pick_file(r);
    if (i < 0) return;
    struct pick_grade g = pick_grade(r, i);
    buf_str(out, "Take ");
    name_and_size(r, i, out);
    buf_str(out, ": ");
    if (pick_gain_text(r, i, out)) buf_str(out, ", ");
    pick_grade_text(&g, out);
    buf_chr(out, '.');
    if (g.band > PICK_SLIGHT)
        buf_fmt(out, " No file here is closer to %s, but the loss is still noticeable.",
                pick_base_word(r));
}

void pick_numbers(const struct result *r, struct buf *out) {
    int i = pick_file(r);
    if (i < 0) return;
    const struct result_file *f = &r->file[i];
    if (isfinite(f->same_top1))
        buf_fmt(out, "The most likely token is that of %s %.1f %% of the time; mean divergence ",
                pick_base_word(r), f->same_top1 * 100);
    else
        buf_str(out, "Mean divergence ");
    text_kld(out, f->mean_kld, f->mean_kld_stderr);
    buf_chr(out, '.');
}

void pick_others(const struct result *r, struct buf *out) {
    int pick = pick_file(r), less = -1;
    int more = smallest(r, PICK_NONE, true);
    for (int i = 0; i < r->n_files; i++) { /* the next smaller file worth recommending */
        if (!pick_on_front(r, i) || r->file[i].size_bytes >= r->file[pick].size_bytes) continue;
        if (less < 0 || r->file[i].size_bytes > r->file[less].size_bytes) less = i;
    }
    if (less >= 0) {
        struct pick_grade g = pick_grade(r, less);
        buf_str(out, "If that does not fit: ");
        name_and_size(r, less, out);
        buf_str(out, " (");
        pick_grade_text(&g, out);
        buf_str(out, ").");
    }
    if (more >= 0 && more != pick && r->file[more].size_bytes > r->file[pick].size_bytes) {
        if (less >= 0) buf_chr(out, ' ');
        buf_str(out, "For no noticeable loss: ");
        name_and_size(r, more, out);
        buf_fmt(out, " (%s).", pick_bands[PICK_NONE].name);
    }
}
