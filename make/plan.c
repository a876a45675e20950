// SPDX-License-Identifier: MIT
/* make/plan.c - fits the plan to time and memory, and writes its messages. docs/design/make.md
 * explains the order in which parts are left out. */
#include "make/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/attr.h"
#include "base/num.h"
#include "mix/joint.h"

const char *const effort_name[EFFORT_COUNT] = {"fast", "normal", "high"};
const char *const plan_part_name[PART_COUNT] = {"conversion",
                                                "importance matrix",
                                                "presets",
                                                "sensitivity probes",
                                                "files of the size classes",
                                                "comparison with the presets",
                                                "perplexity and divergence",
                                                "speed",
                                                "tool calls",
                                                "checksums and report"};

/* Levels of probing, from many to few. With one type per group, mixes equal those of two, so types
 * are reduced first. Between probed layers, gradients give the costs of the others. Without
 * gradients these are interpolated, which costs more than fewer windows do
 * (docs/notebook/mixes.md). */
static const struct level {
    int types, bands, windows;
} sloped[] = {{3, 0, 16}, {2, 0, 16}, {1, 0, 16}, {1, 8, 16},
              {1, 4, 16}, {1, 2, 16}, {1, 2, 8},  {1, 2, 4}},
  bare[] = {{3, 0, 16}, {2, 0, 16}, {1, 0, 16}, {1, 0, 8},
            {1, 8, 8},  {1, 4, 8},  {1, 4, 4},  {1, 2, 4}};
static const struct level *level_at(const struct plan_in *in, size_t i) {
    const size_t n = in->gradients ? COUNT_OF(sloped) : COUNT_OF(bare);
    return i >= n ? NULL : in->gradients ? &sloped[i] : &bare[i];
}
enum { LEAST_WINDOWS = 8 }; /* fewer evaluation windows are meaningless */

static void set_level(const struct plan_in *in, const struct level *l, struct make_plan *p) {
    p->types = l->types;
    p->bands = l->bands;
    p->probe_windows = min_i64(l->windows, in->probe_windows > 0 ? in->probe_windows : 16);
}

int64_t plan_probes(const struct plan_in *in, const struct make_plan *p) {
    struct probe_cost c;
    probe_cost(PROBES_ALL, in->layers, in->n_roles, p->types, p->bands, &c);
    return c.n_probes;
}

static double probing_seconds(const struct plan_in *in, const struct make_plan *p) {
    const double windows = (double)p->probe_windows;
    return in->errors + (in->gradients ? windows * in->slope_window : 0) +
           (double)plan_probes(in, p) * (in->probe_encode + windows * in->probe_window);
}

/* Returns the time of encoding one file of the ladder. */
static double encoding(const struct plan_in *in, const struct make_plan *p) {
    const double once = p->feedback ? in->encode_feedback : in->encode;
    return once + (p->sequential ? in->encode_sequential : 0);
}

/* Returns the time of a whole part, including finished work. */
static double whole_part(const struct plan_in *in, const struct make_plan *p, enum plan_part part) {
    const double classes = in->n_classes, window = (double)p->eval_windows * in->eval_window;
    const double files = classes + in->n_presets, mixes = p->mixes ? classes : 0;
    switch (part) {
    case PART_CONVERT:
        return in->convert + in->hash;
    case PART_IMATRIX:
        return in->imatrix + (p->feedback ? in->gram : 0);
    case PART_PRESETS:
        return in->preset * (files - mixes);
    case PART_PROBES:
        return p->mixes ? probing_seconds(in, p) : 0;
    case PART_LADDER:
        return mixes * (in->preset + encoding(in, p)) + (p->mixes && p->feedback ? in->gains : 0);
    case PART_JUDGE:
        return p->mixes ? window * (2 + 2 * p->sequential) * classes + window * in->judge_passes
                        : 0;
    case PART_EVAL:
        return files > mixes ? window * (files - mixes + 1) : 0;
    case PART_SPEED:
        return in->speed * (files + 1);
    case PART_TOOLS:
        return in->tools * (files + 1);
    case PART_REPORT:
        return in->report * (files + 1);
    case PART_COUNT:
        break;
    }
    return 0;
}

double plan_seconds(const struct plan_in *in, const struct make_plan *p, enum plan_part part) {
    return in->done[part] < 1 ? whole_part(in, p, part) * (1 - in->done[part]) : 0;
}

double plan_total(const struct plan_in *in, const struct make_plan *p) {
    double sum = in->spent;
    for (int i = 0; i < PART_COUNT; i++) sum += plan_seconds(in, p, (enum plan_part)i);
    return sum;
}

void plan_full(const struct plan_in *in, struct make_plan *p) {
    *p = (struct make_plan){.made = true,
                            .mixes = in->mixes && in->n_classes > 0,
                            .feedback = in->feedback,
                            .sequential = in->sequential && in->mixes && in->n_classes > 0,
                            .answers = in->feedback && in->answers,
                            .eval_windows = in->eval_windows};
    set_level(in, level_at(in, 0), p);
}

bool plan_same(const struct make_plan *a, const struct make_plan *b) {
    return a->mixes == b->mixes && a->feedback == b->feedback && a->sequential == b->sequential &&
           a->answers == b->answers && a->types == b->types && a->bands == b->bands &&
           a->probe_windows == b->probe_windows && a->eval_windows == b->eval_windows;
}

static bool fits_limit(const struct plan_in *in, const struct make_plan *p) {
    return in->limit <= 0 || plan_total(in, p) <= in->limit;
}

bool plan_too_long(const struct plan_in *in, const struct make_plan *p) {
    return !fits_limit(in, p);
}

/* Chooses the first level of probes that fits; false: none does. Finished probes are not repeated.
 */
static bool fit_probes(const struct plan_in *in, struct make_plan *p) {
    const struct level *l;
    for (size_t i = 0; (l = level_at(in, i)); i++) {
        set_level(in, l, p);
        if (fits_limit(in, p)) return true;
        if (in->done[PART_PROBES] >= 1) break;
    }
    return false;
}

void plan_fit(const struct plan_in *in, struct make_plan *p) {
    plan_full(in, p);
    if (fits_limit(in, p)) return;
    p->sequential = false;
    if (p->mixes) {
        if (fit_probes(in, p)) return;
        if (p->feedback) {
            p->feedback = p->answers = false;
            if (fit_probes(in, p)) return;
        }
    }
    p->mixes = p->feedback = p->answers = false;
    set_level(in, level_at(in, 0), p);
    while (!fits_limit(in, p) && p->eval_windows > LEAST_WINDOWS)
        p->eval_windows = max_i64(LEAST_WINDOWS, p->eval_windows / 2);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static bool has_room(const struct plan_in *in, enum plan_need n) {
    return in->memory <= 0 || in->need[n] <= in->memory;
}

void plan_memory(struct plan_in *in) {
    in->feedback = in->feedback && has_room(in, NEED_FEEDBACK);
    in->answers = in->answers && in->feedback && has_room(in, NEED_ANSWERS);
    in->sequential = in->sequential && in->feedback && has_room(in, NEED_BLOCKS);
}

double plan_bytes(const struct plan_in *in, const struct make_plan *p) {
    double most = in->need[NEED_PASSES];
    if (p->feedback) most = fmax(most, in->need[p->answers ? NEED_ANSWERS : NEED_FEEDBACK]);
    return p->sequential ? fmax(most, in->need[NEED_BLOCKS]) : most;
}

/* Returns the inputs with unlimited memory. */
static struct plan_in unlimited(const struct plan_in *in) {
    struct plan_in out = *in;
    out.feedback |= in->need[NEED_FEEDBACK] > 0;
    out.answers |= in->need[NEED_ANSWERS] > 0;
    out.sequential |= in->need[NEED_BLOCKS] > 0;
    out.memory = 0;
    return out;
}

/* Returns the inputs with those options restored that memory excludes but time would exclude as
 * well, so that time is given as the reason. */
static struct plan_in by_time(const struct plan_in *in) {
    struct plan_in out = *in, all = unlimited(in);
    struct make_plan p;
    plan_fit(&all, &p);
    out.feedback |= all.feedback && !p.feedback;
    out.sequential |= all.sequential && !p.sequential && p.feedback && in->feedback;
    return out;
}

/* Writes a size in the form of --max-memory, rounded up. */
static void size_text(double bytes, char out[32]) {
    const bool large = bytes > 4 * 0x1p30;
    snprintf(out, 32, "%.0f%s", ceil(bytes / (large ? 0x1p30 : 0x1p20)), large ? "GiB" : "MiB");
}

static void amount_text(double bytes, char out[32]) {
    if (bytes < 1e9)
        snprintf(out, 32, "%.0f MB", bytes / 1e6);
    else
        snprintf(out, 32, "%.1f GB", bytes / 1e9);
}

bool plan_no_memory(const struct plan_in *in, int i, char *out, size_t cap) {
    const struct plan_in all = unlimited(in);
    struct make_plan p;
    plan_fit(&all, &p);
    const struct {
        bool out;
        enum plan_need need;
        const char *what;
    } row[] = {
        {p.feedback && !in->feedback, NEED_FEEDBACK, "error feedback"},
        {p.answers && in->feedback && !in->answers, NEED_ANSWERS,
         "output gradients in error feedback"},
        {p.sequential && in->feedback && !in->sequential, NEED_BLOCKS,
         "making files block by block"},
    };
    for (size_t k = 0; k < COUNT_OF(row); k++) {
        char need[32], have[32], size[32];
        if (!row[k].out || i--) continue;
        amount_text(in->need[row[k].need], need);
        amount_text(in->memory, have);
        size_text(in->need[row[k].need], size);
        snprintf(out, cap, "%s: needs %s of memory, %s%s%s; %s--max-memory %s brings it back",
                 row[k].what, need, in->memory_given ? "--max-memory allows " : "", have,
                 in->memory_given ? "" : " are free",
                 in->memory_given ? "" : "more free memory or ", size);
        return true;
    }
    return false;
}

/* ---- words ----------------------------------------------------------------------------------- */

void plan_time_text(double s, char out[32]) {
    if (s >= 5400)
        snprintf(out, 32, "%.1f hours", s / 3600);
    else if (s >= 100)
        snprintf(out, 32, "%.0f minutes", s / 60);
    else
        snprintf(out, 32, "%.0f seconds", s);
}

/* Writes the extra time of the whole job under the plan `with`. */
static void cost(const struct plan_in *in, const struct make_plan *p, const struct make_plan *with,
                 char out[32]) {
    plan_time_text(plan_total(in, with) - plan_total(in, p), out);
}

static void say_mixes(const struct plan_in *in, const struct make_plan *p,
                      const struct make_plan *full, char *out, size_t cap) {
    struct make_plan with = *full;
    char more[32];
    with.eval_windows = p->eval_windows;
    cost(in, p, &with, more);
    snprintf(out, cap,
             "mixes of types chosen by probes%s: the files of the size classes are plain presets; "
             "they would take %s more",
             full->feedback ? " and made with error feedback" : "", more);
}

static void say_probes(const struct plan_in *in, const struct make_plan *p,
                       const struct make_plan *full, char *out, size_t cap) {
    struct make_plan with = *p;
    char more[32];
    with.types = full->types;
    with.bands = full->bands;
    with.probe_windows = full->probe_windows;
    cost(in, p, &with, more);
    const int n = snprintf(out, cap, "%" PRId64 " of %" PRId64 " sensitivity probes",
                           plan_probes(in, &with) - plan_probes(in, p), plan_probes(in, &with));
    char *end = out + n;
    cap -= (size_t)n;
    if (p->probe_windows < full->probe_windows)
        snprintf(end, cap,
                 ", of %" PRId64 " windows instead of %" PRId64 ": all of them would take %s more",
                 p->probe_windows, full->probe_windows, more);
    else
        snprintf(end, cap, ": all of them would take %s more", more);
}

bool plan_left_out(const struct plan_in *from, const struct make_plan *p, int i, char *out,
                   size_t cap) {
    const struct plan_in timed = by_time(from), *in = &timed;
    struct make_plan full, with = *p;
    char more[32];
    int n = 0;
    plan_full(in, &full);
    if (full.mixes && !p->mixes) {
        if (n++ == i) return say_mixes(in, p, &full, out, cap), true;
    } else if (full.mixes) {
        bool less =
            plan_probes(in, p) < plan_probes(in, &full) || p->probe_windows < full.probe_windows;
        if (less && n++ == i) return say_probes(in, p, &full, out, cap), true;
        with.sequential = true;
        cost(in, p, &with, more);
        if (full.sequential && p->feedback && !p->sequential && n++ == i)
            return snprintf(out, cap,
                            "making files block by block after the quantized blocks: it would "
                            "take %s more",
                            more),
                   true;
        with = *p;
        with.feedback = true;
        cost(in, p, &with, more);
        if (full.feedback && !p->feedback && n++ == i)
            return snprintf(out, cap, "error feedback: it would take %s more", more), true;
    }
    with = *p;
    with.eval_windows = full.eval_windows;
    cost(in, p, &with, more);
    if (p->eval_windows < full.eval_windows && n++ == i)
        return snprintf(out, cap,
                        "%" PRId64 " of %" PRId64 " evaluation windows: all of them would "
                        "take %s more",
                        full.eval_windows - p->eval_windows, full.eval_windows, more),
               true;
    return false;
}
