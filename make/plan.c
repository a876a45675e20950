// SPDX-License-Identifier: MIT
/* make/plan.c - fits the plan to time and memory, and writes its messages. docs/design/make.md
 * explains in which order parts are left out. */
#include "make/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/num.h"
#include "mix/probe.h"
#include "quantize/recipe.h"

const char *const effort_name[EFFORT_COUNT] = {"fast", "normal", "high"};
const char *const plan_part_name[PART_COUNT] = {"conversion",
                                                "importance matrix",
                                                "presets",
                                                "sensitivity probes",
                                                "files of the size classes",
                                                "comparison with the presets",
                                                "perplexity and divergence",
                                                "speed",
                                                "questions about images",
                                                "tool calls",
                                                "checksums and report"};

/* Windows of joint probes, from many to few. */
static const int levels[] = {16, 8, 4};

/* Evaluation windows: ENOUGH compares files well; fewer than LEAST are meaningless. */
enum { ENOUGH_WINDOWS = 32, LEAST_WINDOWS = 8 };

/* Sets the kind of probes and their number of windows, limited to the number available. */
static void set_probes(const struct plan_in *in, enum probes how, int windows,
                       struct make_plan *p) {
    p->probes = how;
    p->probe_windows = min_i64(windows, in->probe_windows > 0 ? in->probe_windows : levels[0]);
}

/* Sets how many files get error feedback; 0 also drops second moments of gradients. */
static void set_fed(struct make_plan *p, int64_t files) {
    p->fed_files = files;
    p->feedback = files > 0;
    p->answers = p->answers && files > 0;
}

/* Returns the number of files of --budget: all of them get feedback if any file does. */
static int n_budgets(const struct plan_in *in) {
    return in->n_classes - in->n_sizes;
}

/* Computes how many probes and passes the plan needs. */
static void cost_of(const struct plan_in *in, const struct make_plan *p, struct probe_cost *out) {
    probe_cost(p->probes, in->layers, in->n_roles, 0, 0, out);
}

int64_t plan_probes(const struct plan_in *in, const struct make_plan *p) {
    struct probe_cost c;
    cost_of(in, p, &c);
    return c.n_probes;
}

/* Returns the time for all probes in seconds, including encoding. Errors and gradients are complete
 * even if they take longer than --probe-time. */
static double probing_seconds(const struct plan_in *in, const struct make_plan *p) {
    const double windows = (double)p->probe_windows, few = fmin(windows, PROBE_LOOK);
    struct probe_cost c;
    cost_of(in, p, &c);
    const double first = in->errors + (in->gradients ? windows * in->slope_window : 0),
                 all = first + c.encoded * in->probe_encode +
                       (few * c.joint_passes + windows * c.single_passes) * in->pass_window;
    return in->probe_limit > 0 ? fmin(all, fmax(first, in->probe_limit)) : all;
}

/* Returns the time that making the mixes takes. */
static double mixing(const struct plan_in *in, const struct make_plan *p) {
    const double files = in->n_classes, fed = (double)p->fed_files;
    double sum = files * in->preset + (files - fed) * in->encode;
    if (fed > 0)
        sum += in->gains + in->factors + fed * (fed > 2 ? in->encode_feedback : in->encode_alone);
    return sum + (p->sequential ? in->n_sizes * in->encode_sequential : 0);
}

/* Windows on which the loser of a comparison is measured, on average (make/size_ladder.h). */
static const double loser_windows = 12;

/* Returns the number of windows of all files, including the base, in the comparison with
 * presets. */
static double judging(const struct plan_in *in, const struct make_plan *p) {
    const double all = (double)p->eval_windows,
                 files = in->n_classes + (p->sequential ? in->n_sizes : 0);
    return all * (files + in->judge_passes) + fmin(all, loser_windows) * in->n_classes;
}

/* Returns the time that a whole part takes, including work already done. */
static double whole_part(const struct plan_in *in, const struct make_plan *p, enum plan_part part) {
    /* Without mixes, no file of --budget is made. */
    const double classes = p->mixes ? in->n_classes : in->n_sizes,
                 window = (double)p->eval_windows * in->eval_window;
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
        return p->mixes ? mixing(in, p) : 0;
    case PART_JUDGE:
        return p->mixes ? in->eval_window * judging(in, p) : 0;
    case PART_EVAL:
        return files > mixes ? window * (files - mixes + 1) : 0;
    case PART_SPEED:
        return (in->speed + in->drafts) * (files + 1);
    case PART_IMAGES:
        return in->images * (files + (in->n_projectors > 1 ? in->n_projectors : 1));
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
                            .sequential = in->sequential && in->mixes && in->n_sizes > 0,
                            .answers = in->feedback && in->answers,
                            .fed_files = in->feedback ? in->n_classes : 0,
                            .eval_windows = in->eval_windows};
    set_probes(in, PROBES_JOINT, levels[0], p);
}

bool plan_same(const struct make_plan *a, const struct make_plan *b) {
    return a->mixes == b->mixes && a->feedback == b->feedback && a->sequential == b->sequential &&
           a->answers == b->answers && a->fed_files == b->fed_files && a->probes == b->probes &&
           a->probe_windows == b->probe_windows && a->eval_windows == b->eval_windows;
}

/* Returns whether the plan takes no longer than --time; true without a limit. */
static bool fits_limit(const struct plan_in *in, const struct make_plan *p) {
    return in->limit <= 0 || plan_total(in, p) <= in->limit;
}

bool plan_too_long(const struct plan_in *in, const struct make_plan *p) {
    return !fits_limit(in, p);
}

/* ---- steps ----------------------------------------------------------------------------------- */

struct steps {
    const struct plan_in *in;
    struct make_plan *out;
    int n;
    int kind_end[PLAN_POINTS], n_kinds; /* indices after the last step of each kind */
};

/* Adds a plan to the list unless it equals the last one; PLAN_STEPS leaves room for all. */
static void add_step(struct steps *s, const struct make_plan *p) {
    if (s->n < PLAN_STEPS && (!s->n || !plan_same(p, &s->out[s->n - 1]))) s->out[s->n++] = *p;
}

/* Marks the end of the plans of one kind. */
static void end_kind(struct steps *s) {
    if (s->n_kinds < PLAN_POINTS && (!s->n_kinds || s->kind_end[s->n_kinds - 1] < s->n))
        s->kind_end[s->n_kinds++] = s->n;
}

/* Halves the evaluation windows down to `least`. */
static void fewer_windows(struct steps *s, struct make_plan *p, int64_t least) {
    while (p->eval_windows > least) {
        p->eval_windows = max_i64(least, p->eval_windows / 2);
        add_step(s, p);
    }
}

/* Lists plans with mixes. They give up, in this order: making files block by block; some probes;
 * windows of the comparison that hardly change its outcome; all probes, if gradients are known;
 * feedback for large files, which gain least from it, then for all files; further windows. */
static void mix_steps(struct steps *s, struct make_plan *p) {
    p->sequential = false;
    for (size_t i = 0; i < COUNT_OF(levels); i++) {
        set_probes(s->in, PROBES_JOINT, levels[i], p);
        add_step(s, p);
    }
    end_kind(s);
    fewer_windows(s, p, ENOUGH_WINDOWS);
    if (s->in->gradients) set_probes(s->in, PROBES_SLOPES, levels[0], p);
    add_step(s, p);
    end_kind(s);
    if (p->feedback) {
        for (int64_t n = s->in->n_sizes / 2; n > 0; n /= 2) {
            set_fed(p, n_budgets(s->in) + n);
            add_step(s, p);
        }
        if (n_budgets(s->in)) set_fed(p, n_budgets(s->in));
        add_step(s, p);
        end_kind(s);
        set_fed(p, 0);
        add_step(s, p);
    }
    fewer_windows(s, p, LEAST_WINDOWS);
    end_kind(s);
}

/* Lists plans from the best to the fastest. */
static void list_steps(struct steps *s) {
    struct make_plan p;
    plan_full(s->in, &p);
    add_step(s, &p);
    end_kind(s);
    if (p.mixes) mix_steps(s, &p);
    plan_full(s->in, &p);
    p.mixes = p.sequential = false;
    set_fed(&p, 0);
    add_step(s, &p);
    end_kind(s);
    fewer_windows(s, &p, LEAST_WINDOWS);
    end_kind(s);
}

int plan_steps(const struct plan_in *in, struct make_plan out[PLAN_STEPS]) {
    struct steps s = {.in = in, .out = out};
    list_steps(&s);
    return s.n;
}

void plan_fit(const struct plan_in *in, struct make_plan *p) {
    struct make_plan all[PLAN_STEPS];
    const int n = plan_steps(in, all);
    int i = 0;
    while (i < n - 1 && !fits_limit(in, &all[i])) i++;
    *p = all[i];
}

int plan_points(const struct plan_in *in, struct make_plan out[PLAN_POINTS]) {
    struct make_plan all[PLAN_STEPS];
    struct steps s = {.in = in, .out = all};
    int n = 0;
    list_steps(&s);
    for (int k = s.n_kinds - 1; k >= 0; k--) {
        const struct make_plan *p = &all[s.kind_end[k] - 1];
        /* Do not offer a plan that takes nearly as long as a better one. */
        if (k && plan_total(in, p) > .95 * plan_total(in, &all[s.kind_end[k - 1] - 1])) continue;
        out[n++] = *p;
    }
    return n;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Returns whether the memory suffices for this need; true without a limit. */
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

/* Restores the options that memory excludes if time would exclude them too, so that time is given
 * as the reason. Returns the changed inputs. */
static struct plan_in by_time(const struct plan_in *in) {
    struct plan_in out = *in, all = unlimited(in);
    struct make_plan p;
    plan_fit(&all, &p);
    out.feedback |= all.feedback && !p.feedback;
    out.sequential |= all.sequential && !p.sequential && p.feedback && in->feedback;
    return out;
}

/* Writes a size as --max-memory accepts it, rounded up. */
static void size_text(double bytes, char out[32]) {
    const bool large = bytes > 4 * 0x1p30;
    snprintf(out, 32, "%.0f%s", ceil(bytes / (large ? 0x1p30 : 0x1p20)), large ? "GiB" : "MiB");
}

void plan_amount_text(double bytes, char out[32]) {
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
        plan_amount_text(in->need[row[k].need], need);
        plan_amount_text(in->memory, have);
        size_text(in->need[row[k].need], size);
        snprintf(out, cap, "%s: needs %s of memory, %s%s%s; %s--max-memory %s would allow it",
                 row[k].what, need, in->memory_given ? "--max-memory allows " : "", have,
                 in->memory_given ? "" : " are free",
                 in->memory_given ? "" : "more free memory or ", size);
        return true;
    }
    return false;
}

/* ---- words ----------------------------------------------------------------------------------- */

bool plan_learns(const char *size_class) {
    return qtype_bpw(recipe_default(size_class)) < 4;
}

void plan_describe(const struct plan_in *in, const struct make_plan *p, char *out, size_t cap) {
    struct make_plan full;
    struct buf b = {0};
    plan_full(in, &full);
    if (plan_same(p, &full)) buf_str(&b, "everything: ");
    if (p->mixes) {
        const int64_t n = plan_probes(in, p);
        buf_str(&b, "mixes of types");
        if (n)
            buf_fmt(&b, " from %" PRId64 " probes", n);
        else
            buf_str(&b, " from gradients alone");
        if (p->sequential) buf_str(&b, ", block by block");
        if (p->fed_files >= in->n_classes)
            buf_str(&b, ", error feedback");
        else if (p->fed_files > n_budgets(in))
            buf_fmt(&b, ", error feedback for the smallest %" PRId64 " of %d sizes%s",
                    p->fed_files - n_budgets(in), in->n_sizes,
                    n_budgets(in) ? " and for --budget" : "");
        else if (p->feedback)
            buf_str(&b, ", error feedback for --budget only");
        else
            buf_str(&b, ", no error feedback");
    } else {
        buf_str(&b, "plain presets");
        if (n_budgets(in)) buf_str(&b, ", no files of --budget");
    }
    if (p->eval_windows < full.eval_windows)
        buf_fmt(&b, "; measured on %" PRId64 " of %" PRId64 " windows", p->eval_windows,
                full.eval_windows);
    snprintf(out, cap, "%s", b.data ? b.data : "");
    buf_release(&b);
}

void plan_time_needed(const struct plan_in *in, const struct make_plan *p, char out[32]) {
    const double s = 1.1 * plan_total(in, p);
    if (s > 10 * 3600)
        snprintf(out, 32, "%.0fh", ceil(s / 3600));
    else if (s > 600)
        snprintf(out, 32, "%.0fm", ceil(s / 60));
    else
        snprintf(out, 32, "%.0fs", ceil(s));
}

void plan_time_text(double s, char out[32]) {
    if (s >= 5400)
        snprintf(out, 32, "%.1f hours", s / 3600);
    else if (s >= 100)
        snprintf(out, 32, "%.0f minutes", s / 60);
    else
        snprintf(out, 32, "%.0f seconds", s);
}

/* Writes how much longer the whole job would take with the plan `with`. */
static void cost(const struct plan_in *in, const struct make_plan *p, const struct make_plan *with,
                 char out[32]) {
    plan_time_text(plan_total(in, with) - plan_total(in, p), out);
}

/* Describes the mixes that p leaves out, and the time they would take. */
static void say_mixes(const struct plan_in *in, const struct make_plan *p,
                      const struct make_plan *full, char *out, size_t cap) {
    static const char presets[] = "the files of the size classes are plain presets",
                      none[] = "no files of --budget are made";
    const bool both = in->n_sizes && n_budgets(in);
    struct make_plan with = *full;
    char more[32];
    with.eval_windows = p->eval_windows;
    cost(in, p, &with, more);
    snprintf(out, cap, "mixes of types chosen by probes%s: %s%s%s; they would take %s more",
             full->feedback ? " and made with error feedback" : "", in->n_sizes ? presets : none,
             both ? ", " : "", both ? none : "", more);
}

/* Describes the error feedback that p leaves out, and the time it would take. */
static void say_feedback(const struct plan_in *in, const struct make_plan *p, char *out,
                         size_t cap) {
    struct make_plan with = *p;
    char more[32];
    with.feedback = true;
    with.fed_files = in->n_classes;
    cost(in, p, &with, more);
    if (p->feedback)
        snprintf(out, cap, "error feedback for the %d largest of %d files: it would take %s more",
                 in->n_classes - (int)p->fed_files, in->n_sizes, more);
    else
        snprintf(out, cap, "error feedback: it would take %s more", more);
}

/* Describes the probes that p leaves out, and the time they would take. */
static void say_probes(const struct plan_in *in, const struct make_plan *p,
                       const struct make_plan *full, char *out, size_t cap) {
    struct make_plan with = *p;
    char more[32];
    with.probes = full->probes;
    with.probe_windows = full->probe_windows;
    cost(in, p, &with, more);
    if (p->probes == full->probes)
        snprintf(out, cap,
                 "%" PRId64 " of the %" PRId64 " windows of %" PRId64
                 " sensitivity probes: all of them would take %s more",
                 full->probe_windows - p->probe_windows, full->probe_windows, plan_probes(in, p),
                 more);
    else
        snprintf(out, cap,
                 "%" PRId64
                 " sensitivity probes (gradients alone choose the types): they would take "
                 "%s more",
                 plan_probes(in, &with), more);
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
        const bool less = p->probes != full.probes || p->probe_windows < full.probe_windows;
        if (less && n++ == i) return say_probes(in, p, &full, out, cap), true;
        with.sequential = true;
        cost(in, p, &with, more);
        if (full.sequential && p->feedback && !p->sequential && n++ == i)
            return snprintf(out, cap,
                            "block-by-block encoding (--effort high): it would take %s more", more),
                   true;
    }
    const bool plain = full.mixes && !p->mixes; /* said with the mixes */
    const bool less_fed = !p->feedback || p->fed_files < full.fed_files;
    if (full.feedback && less_fed && !plain && n++ == i) return say_feedback(in, p, out, cap), true;
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
