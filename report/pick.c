// SPDX-License-Identifier: MIT
/* report/pick.c - see pick.h.
 *
 * Where the thresholds come from. A mean divergence of K nats a token says how soon a reader who
 * knows both models could tell which of them wrote a text: each token adds K to the logarithm of
 * the odds, so odds of 20 to 1 (3 nats) take 3 / K tokens. We call a loss not noticeable when that
 * takes a text longer than most answers (600 tokens), slight when a paragraph does not do (100),
 * and noticeable when a sentence does not (20). The share of equal likeliest tokens says where
 * greedy answers part: at the 25th, 10th and 5th token on average. Both must hold, the worse
 * decides. */
#include "report/pick.h"

#include <math.h>
#include <string.h>

#include "report/report_text.h"

static const double Z95 = 1.959964; /* two-sided 95 % of a normal distribution */

const struct pick_row pick_bands[PICK_BANDS] = {
    {"no noticeable loss",
     "telling it from the original with odds of 20 to 1 takes more than 600 tokens of its text, "
     "longer than most answers; at most one likeliest token in 25 differs",
     0.005, 0.96},
    {"slight loss",
     "a paragraph of 100 tokens is not enough to tell it from the original; at most one likeliest "
     "token in 10 differs",
     0.03, 0.90},
    {"noticeable loss",
     "a paragraph tells it from the original, a sentence of 20 tokens does not; at most one "
     "likeliest token in 5 differs",
     0.15, 0.80},
    {"heavy loss", "more than that: a sentence tells it from the original", (double)INFINITY, 0},
};

/* What is recommended keeps a distance from noticeable loss: other texts than the measured ones may
 * lose more. */
const struct pick_row pick_take = {"recommended",
                                   "where every file has a loss: the smallest file of which 150 "
                                   "tokens are not enough to tell it from the original, and that "
                                   "differs in at most one likeliest token in 14",
                                   0.02, 0.93};

static enum pick_band band_of(double kld, double top1) {
    int i = 0;
    while (i < PICK_HEAVY && !(kld <= pick_bands[i].max_kld && top1 >= pick_bands[i].min_top1)) i++;
    return (enum pick_band)i;
}

/* Sets half the 95 % intervals of divergence and of equal first choices. */
static void errors(double kld_stderr, double top1, int64_t n, double *dk, double *dt) {
    double var = n > 0 ? top1 * (1 - top1) / (double)n : 0;
    *dk = kld_stderr > 0 && isfinite(kld_stderr) ? Z95 * kld_stderr : 0;
    *dt = var > 0 ? Z95 * sqrt(var) : 0;
}

struct pick_grade pick_judge(double kld, double kld_stderr, double top1, int64_t n) {
    struct pick_grade g = {PICK_UNKNOWN, PICK_UNKNOWN, PICK_UNKNOWN};
    if (!isfinite(kld)) return g;
    if (!isfinite(top1)) top1 = 1;
    double dk, dt;
    errors(kld_stderr, top1, n, &dk, &dt);
    g.band = band_of(kld, top1);
    g.best = band_of(kld - dk, top1 + dt);
    g.worst = band_of(kld + dk, top1 - dt);
    return g;
}

struct pick_grade pick_grade(const struct result *r, int i) {
    const struct result_file *f = &r->file[i];
    double kld = f->is_base ? (double)NAN : f->mean_kld;
    return pick_judge(kld, f->mean_kld_stderr, f->same_top1, r->eval_tokens);
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

static bool counts(const struct result_file *f) {
    return !f->is_base && isfinite(f->mean_kld) && f->size_bytes > 0;
}

/* Returns the smallest file of at most this band, by its worst band where it must be sure; -1:
 * there is none. */
static int smallest(const struct result *r, enum pick_band limit, bool sure) {
    int best = -1;
    for (int i = 0; i < r->n_files; i++) {
        struct pick_grade g = pick_grade(r, i);
        if (!counts(&r->file[i]) || (sure ? g.worst : g.band) > limit) continue;
        if (best < 0 || r->file[i].size_bytes < r->file[best].size_bytes) best = i;
    }
    return best;
}

static int smallest_to_take(const struct result *r) {
    int best = -1;
    for (int i = 0; i < r->n_files; i++) {
        const struct result_file *f = &r->file[i];
        double top1 = isfinite(f->same_top1) ? f->same_top1 : 1, dk = 0, dt = 0;
        errors(f->mean_kld_stderr, top1, r->eval_tokens, &dk, &dt);
        if (!counts(f) || !(f->mean_kld + dk <= pick_take.max_kld) ||
            !(top1 - dt >= pick_take.min_top1))
            continue;
        if (best < 0 || f->size_bytes < r->file[best].size_bytes) best = i;
    }
    return best;
}

static int closest(const struct result *r) {
    int best = -1;
    for (int i = 0; i < r->n_files; i++)
        if (counts(&r->file[i]) && (best < 0 || r->file[i].mean_kld < r->file[best].mean_kld))
            best = i;
    return best;
}

int pick_file(const struct result *r) {
    int i = smallest(r, PICK_NONE, true);
    if (i < 0) i = smallest_to_take(r);
    if (i < 0) i = smallest(r, PICK_SLIGHT, true);
    if (i < 0) i = smallest(r, PICK_SLIGHT, false);
    return i >= 0 ? i : closest(r);
}

/* Returns the closest of the files that are no larger than i and closer; -1: there is none. */
static int better(const struct result *r, int i) {
    const struct result_file *f = &r->file[i];
    int best = -1;
    for (int k = 0; k < r->n_files; k++) {
        const struct result_file *g = &r->file[k];
        if (k == i || !counts(g) || g->size_bytes > f->size_bytes || g->mean_kld > f->mean_kld)
            continue;
        if (g->size_bytes == f->size_bytes && g->mean_kld >= f->mean_kld) continue;
        if (best < 0 || g->mean_kld < r->file[best].mean_kld) best = k;
    }
    return best;
}

bool pick_on_front(const struct result *r, int i) {
    return counts(&r->file[i]) && better(r, i) < 0;
}

/* ---- words ----------------------------------------------------------------------------------- */

const char *pick_base_word(const struct result *r) {
    return r->base_is_quantized ? "its base" : "the original";
}

static const char *short_label(const struct result_file *f) {
    return *f->size_class ? f->size_class : f->recipe;
}

const char *pick_label(const struct result *r, int i) {
    const char *s = short_label(&r->file[i]);
    for (int k = 0; k < r->n_files; k++)
        if (!*s || (k != i && strcmp(s, short_label(&r->file[k])) == 0)) return r->file[i].file;
    return s;
}

void pick_role(const struct result *r, int i, struct buf *out) {
    const struct result_file *f = &r->file[i];
    int pick = pick_file(r), beaten = better(r, i);
    if (f->is_base) {
        buf_str(out, r->base_is_quantized ? "what the others were made from, quantized itself"
                                          : "the unquantized conversion, for making other files");
    } else if (!counts(f)) {
        buf_str(out, "not measured");
    } else if (i == pick) {
        buf_str(out, "recommended");
    } else if (beaten >= 0) {
        buf_fmt(out, "%s is smaller and closer", pick_label(r, beaten));
    } else if (i == closest(r)) {
        buf_fmt(out, "closest to %s", pick_base_word(r));
    } else if (pick >= 0 && f->size_bytes < r->file[pick].size_bytes) {
        bool heavy = pick_grade(r, i).band == PICK_HEAVY;
        buf_str(out, heavy ? "last resort" : "when memory is short");
    } else {
        buf_str(out, "with memory to spare");
    }
}

void pick_phrase(const struct result *r, int i, struct buf *out) {
    struct pick_grade g = pick_grade(r, i);
    pick_role(r, i, out);
    if (g.band == PICK_UNKNOWN) return;
    buf_str(out, ": ");
    pick_grade_text(&g, out);
}

double pick_gain(const struct result *r, int i) {
    const struct result_file *f = &r->file[i];
    return counts(f) && f->mean_kld > 0 ? f->preset_kld / f->mean_kld : (double)NAN;
}

bool pick_gain_text(const struct result *r, int i, struct buf *out) {
    const double gain = pick_gain(r, i);
    if (!(gain >= 1.05)) return false;
    buf_fmt(out, "%.*fx closer to %s than llama.cpp's %s of the same size", gain < 9.95 ? 1 : 0,
            gain, pick_base_word(r), r->file[i].size_class);
    return true;
}

bool pick_types(const struct result *r, int i, struct buf *out) {
    const struct json *types = r->file[i].types;
    bool any = false;
    for (const struct json *t = json_first(types); t; t = json_next(t)) {
        const char *name = json_str(json_get(t, "type"));
        const double share = json_num(json_get(t, "share"), 0);
        if (!name || !(share >= 0.005)) continue;
        buf_fmt(out, "%s%s %.0f %%", any ? ", " : "", name, share * 100);
        any = true;
    }
    return any;
}

static void name_and_size(const struct result *r, int i, struct buf *out) {
    char size[32];
    text_size(size, r->file[i].size_bytes);
    buf_fmt(out, "%s, %s", pick_label(r, i), size);
}

void pick_sentence(const struct result *r, struct buf *out) {
    int i = pick_file(r);
    if (i < 0) return;
    const struct result_file *f = &r->file[i];
    struct pick_grade g = pick_grade(r, i);
    buf_str(out, "Take ");
    name_and_size(r, i, out);
    buf_str(out, ": ");
    if (isfinite(f->same_top1))
        buf_fmt(out, "the same most likely token as %s %.1f %% of the time, ", pick_base_word(r),
                f->same_top1 * 100);
    buf_str(out, "mean divergence ");
    text_kld(out, f->mean_kld, f->mean_kld_stderr);
    buf_str(out, " (");
    pick_grade_text(&g, out);
    buf_str(out, ")");
    struct buf gain = {0};
    if (pick_gain_text(r, i, &gain)) buf_fmt(out, ", %s", gain.data);
    buf_release(&gain);
    buf_chr(out, '.');
    if (g.band > PICK_SLIGHT)
        buf_fmt(out, " It is the closest to %s of these files, but not close.", pick_base_word(r));
}

void pick_others(const struct result *r, struct buf *out) {
    int pick = pick_file(r), less = -1;
    int more = smallest(r, PICK_NONE, true);
    for (int i = 0; i < r->n_files; i++) { /* the next smaller one that is worth its bytes */
        if (!pick_on_front(r, i) || r->file[i].size_bytes >= r->file[pick].size_bytes) continue;
        if (less < 0 || r->file[i].size_bytes > r->file[less].size_bytes) less = i;
    }
    if (less >= 0) {
        struct pick_grade g = pick_grade(r, less);
        buf_str(out, "Where that does not fit: ");
        name_and_size(r, less, out);
        buf_str(out, " (");
        pick_grade_text(&g, out);
        buf_str(out, ").");
    }
    if (more >= 0 && more != pick && r->file[more].size_bytes > r->file[pick].size_bytes) {
        if (less >= 0) buf_chr(out, ' ');
        buf_str(out, "Where nothing may be lost: ");
        name_and_size(r, more, out);
        buf_fmt(out, " (%s).", pick_bands[PICK_NONE].name);
    }
}
