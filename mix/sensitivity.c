// SPDX-License-Identifier: MIT
/* mix/sensitivity.c - hone sensitivity: errors of the encoders; then end-to-end probes, in an order
 * that is useful even if cut short; then steps around the mixes for given budgets. The file is
 * written after every batch, and the same command resumes from it. Ranks share out the groups for
 * the encoders' errors, then batches of probes. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mix/sensitivity.h"
#include "mix/slopes.h"
#include "mix/mixer.h"
#include "work/apart.h"
#include "work/device.h"
#include "runtime/measure/measurement_cache.h"
#include "mix/probe.h"
#include "work/open.h"
#include "base/fp.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/out.h"
#include "base/progress.h"
#include "base/ranks.h"
#include "base/str.h"
#include "quantize/record.h"
#include "text/size.h"

/* Relative errors near which to probe, in this order: roughly those of Q3_K, Q5_K, IQ4_XS, Q2_K. */
static const double targets[] = {.016, .001, .0046, .05};
/* Single probes end when the expected loss is below this fraction of a mix's divergence. */
static const double RISK = .02;

struct probing {
    const struct mix_probe_opts *o;
    struct sens *s;
    struct gguf *g;
    struct probe p;
    double t0;
    struct mix_probe_report *r;
    int64_t n_all; /* number of probes in stage 2 */
    /* Probes of one round, at most ranks_n() * PROBE_SLOTS. */
    struct probe_want *want;
    struct probe_got *got;
    int n, batch;
    uint64_t room, bytes; /* bytes of encoded weights: maximum per round, and in this round */
    bool hold;            /* rounds are not saved individually */
    /* Mix in which groups are probed; NULL: groups are probed alone. */
    const struct sens_mix *mix;
    uint64_t budget; /* the mix's budget */
};

/* ---- choice of probes ------------------------------------------------------------------------ */

/* Finds the candidate type whose error is nearest to a target, by ratio. False: it has no
 * candidate. */
static bool type_near(const struct sens_group *g, double target, enum qtype *out) {
    double best = HUGE_VAL;
    for (int t = 0; t < QT_COUNT; t++) {
        if (!g->can[t] || !(g->err[t] > 0)) continue;
        double d = fabs(fp_log(g->err[t] / target));
        if (d >= best) continue;
        best = d;
        *out = (enum qtype)t;
    }
    return best < HUGE_VAL;
}

/* Ranks the layers of each role. rank[i] is the rank of group i; band[i] is whether it is among the
 * first `bands` layers of its role. Returns the largest rank. */
static int layer_order(const struct sens *s, int64_t bands, int *rank, bool *band) {
    int most = 0;
    for (int i = 0; i < s->n_groups; i++) {
        int at = 0, n = 0;
        for (int k = 0; k < s->n_groups; k++) {
            if (s->group[k].role != s->group[i].role) continue;
            at += s->group[k].block < s->group[i].block;
            n++;
        }
        rank[i] = joint_rank(at, n);
        if (rank[i] > most) most = rank[i];
    }
    for (int i = 0; i < s->n_groups; i++) {
        /* Counts the layers of the role that come before it, by rank and then by depth. */
        int64_t before = 0;
        for (int k = 0; k < s->n_groups; k++)
            before += s->group[k].role == s->group[i].role &&
                      (rank[k] < rank[i] ||
                       (rank[k] == rank[i] && s->group[k].block < s->group[i].block));
        band[i] = bands <= 0 || before < bands;
    }
    return most;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* Returns whether the time for probes is used up; the answer is the same on all ranks. */
static bool late(const struct probing *w) {
    bool yes = w->o->seconds > 0 && progress_now_s() - w->t0 >= w->o->seconds;
    ranks_bcast(&yes, sizeof yes);
    return yes;
}

/* Writes the sensitivities; only the first rank does so. */
static int save(const struct probing *w, struct err *e) {
    return ranks_me() == 0 ? sens_write(w->s, w->g, w->o->out, true, e) : 0;
}

/* Stores a probe's result in its group or among the joint probes. */
static void store_probe(const struct probing *w, const struct probe_want *want,
                        const struct probe_got *got) {
    struct sens *s = w->s;
    if (want->group < 0) {
        /* Only a damaged file fills the list. */
        if (s->n_joint == SENS_MAX_JOINT) return;
        struct sens_joint *j = &s->joint[s->n_joint++];
        *j = want->joint;
        j->kld = got->kld;
        j->kld_stderr = got->stderr_;
        j->n_windows = got->n_windows;
        return;
    }
    struct sens_group *g = &s->group[want->group];
    if (!w->mix && g->n_probes < SENS_MAX_PROBES)
        g->probe[g->n_probes++] =
            (struct sens_probe){want->type, got->kld, got->stderr_, got->n_windows};
    if (w->mix && g->n_steps < SENS_MAX_STEPS)
        g->step[g->n_steps++] = (struct sens_step){w->budget, w->mix->type[want->group], want->type,
                                                   got->kld, got->stderr_};
}

/* Measures the queued probes and saves the result. */
static int end_round(struct probing *w, struct err *e) {
    double t0 = progress_now_s();
    int rc = 0, n = 0;
    for (int at = 0, b = 0; at < w->n && !rc; at += n, b++) {
        const struct probe_want *want = w->want + at;
        struct probe_got *got = w->got + at;
        n = w->n - at < w->batch ? w->n - at : w->batch;
        if (!w->mix) progress_set_item("probe", w->r->n_probes - w->n + at + 1, w->n_all);
        if (ranks_mine(b))
            rc = w->mix ? probe_steps(&w->p, w->s, w->mix, want, n, got, e)
                        : probe_alone(&w->p, w->s, want, n, got, e);
        if (!rc) ranks_send(b, got, (uint64_t)n * sizeof *got);
    }
    if (rc || !w->n) return rc;
    ranks_bcast(w->got, w->n * (int)sizeof *w->got);
    for (int i = 0; i < w->n; i++) store_probe(w, &w->want[i], &w->got[i]);
    if (!w->mix) {
        w->r->probing += progress_now_s() - t0;
        w->r->n_now += w->n;
    }
    w->n = 0;
    w->bytes = 0;
    joint_fit(w->s);
    return w->hold ? 0 : save(w, e);
}

/* Adds a probe to the round, and runs the round when it is full. */
static int queue(struct probing *w, const struct probe_want *want, struct err *e) {
    const uint64_t bytes = probe_bytes(w->s, want);
    if (w->n && w->bytes + bytes > w->room) TRY(end_round(w, e));
    w->want[w->n++] = *want;
    w->bytes += bytes;
    return w->n < w->batch * ranks_n() ? 0 : end_round(w, e);
}

static int queue_probe(struct probing *w, int group, enum qtype type, struct err *e) {
    return queue(w, &(struct probe_want){.group = group, .type = type}, e);
}

/* Begins rounds of probes: of groups alone, or of groups within a mix of that budget. */
static void begin_rounds(struct probing *w, const struct sens_mix *mix, uint64_t budget) {
    w->mix = mix;
    w->budget = budget;
    w->batch = mix ? w->p.n_slots - 1 : w->p.n_slots;
    w->bytes = 0;
    w->room = mem_available() / 4;
    ranks_bcast(&w->room, sizeof w->room);
}

/* ---- stage 2 --------------------------------------------------------------------------------- */

/* Returns whether the probe of a group with type t is done or queued. */
static bool probed(const struct probing *w, int group, enum qtype t) {
    const struct sens_group *g = &w->s->group[group];
    for (int i = 0; i < g->n_probes; i++)
        if (g->probe[i].type == t) return true;
    for (int i = 0; i < w->n; i++)
        if (w->want[i].group == group && w->want[i].type == t) return true;
    return false;
}

/* Counts the probes of stage 2, including those already known. */
static int64_t count_stage2(struct probing *w, const bool *band) {
    int64_t n = 0;
    enum qtype type;
    for (int64_t t = 0; t < w->o->n_types; t++)
        for (int i = 0; i < w->s->n_groups; i++)
            n += band[i] && probe_uses(&w->p, w->s, i) &&
                 type_near(&w->s->group[i], targets[t], &type);
    return n;
}

/* Probes single groups, the most important first. */
static int stage2(struct probing *w, struct err *e) {
    struct sens *s = w->s;
    int *rank = xcalloc((size_t)s->n_groups + 1, sizeof *rank), rc = 0;
    bool *band = xcalloc((size_t)s->n_groups + 1, sizeof *band);
    int most = layer_order(s, w->o->bands, rank, band);
    begin_rounds(w, NULL, 0);
    w->n_all = count_stage2(w, band);
    for (int64_t t = 0; t < w->o->n_types && !rc; t++)
        for (int k = 0; k <= most && !rc; k++)
            for (int i = 0; i < s->n_groups && !rc; i++) {
                enum qtype type = 0;
                if (rank[i] != k || !band[i] || !probe_uses(&w->p, s, i)) continue;
                if (!type_near(&s->group[i], targets[t], &type)) continue;
                w->r->n_wanted++;
                bool known = probed(w, i, type);
                if (!known && !w->n && late(w)) {
                    w->r->cut_short = true;
                    continue;
                }
                w->r->n_probes++;
                if (!known) rc = queue_probe(w, i, type, e);
            }
    if (!rc) rc = end_round(w, e);
    progress_set_item(NULL, 0, 0);
    free(rank);
    free(band);
    return rc;
}

/* ---- joint probes ---------------------------------------------------------------------------- */

/* Measures the joint probes that are missing. */
static int joint_rounds(struct probing *w, const struct sens_joint *list, int n, struct err *e) {
    for (int i = 0; i < n; i++) {
        const bool known = joint_known(w->s, &list[i]);
        if (!known && !w->n && late(w)) {
            w->r->cut_short = true;
            continue;
        }
        w->r->n_probes++;
        if (!known) TRY(queue(w, &(struct probe_want){.group = -1, .joint = list[i]}, e));
    }
    return end_round(w, e);
}

/* Probes groups alone: at least one round, and more rounds while the risk exceeds RISK and a round
 * reduces it by more than 0.1x RISK. Groups are chosen and saved JOINT_SINGLES at a time, on any
 * device and with any number of ranks, so that a resumed measurement makes the same choices. */
static int single_rounds(struct probing *w, struct err *e) {
    struct sens *s = w->s;
    struct joint_choice c;
    int n = 0;
    for (int i = 0; i < s->n_groups; i++) n += s->group[i].n_probes > 0;
    w->r->n_wanted += n;
    w->r->n_probes += n;
    for (;;) {
        joint_choose(s, JOINT_SINGLES - n % JOINT_SINGLES, &c);
        const bool pays = c.risk > RISK && c.risk - c.after > RISK / 10;
        if (!c.n || (n >= JOINT_SINGLES && !pays)) return 0;
        w->r->n_wanted += c.n;
        w->n_all = w->r->n_wanted;
        if (late(w)) {
            w->r->cut_short = true;
            return 0;
        }
        w->r->n_probes += c.n;
        w->hold = true;
        for (int i = 0; i < c.n; i++)
            TRY(queue_probe(w, c.group[i], s->group[c.group[i]].joint_type, e));
        TRY(end_round(w, e));
        w->hold = false;
        TRY(save(w, e));
        n += c.n;
    }
}

/* Probes groups jointly, then individually where that was not enough. */
static int stage2_joint(struct probing *w, struct err *e) {
    struct sens *s = w->s;
    bool *used = xcalloc((size_t)s->n_groups + 1, sizeof *used);
    struct sens_joint *list = xcalloc(SENS_MAX_JOINT, sizeof *list);
    for (int i = 0; i < s->n_groups; i++) used[i] = probe_uses(&w->p, s, i);
    joint_types(s, used);
    const int n = joint_list(s, list);
    begin_rounds(w, NULL, 0);
    w->r->n_wanted = n;
    w->n_all = n + JOINT_SINGLES;
    int rc = joint_rounds(w, list, n, e);
    if (!rc) rc = single_rounds(w, e);
    progress_set_item(NULL, 0, 0);
    free(used);
    free(list);
    return rc;
}

/* ---- stage 3 --------------------------------------------------------------------------------- */

/* Returns whether this step from the mix of the budget has already been measured. */
static bool stepped(const struct sens_group *g, uint64_t budget, enum qtype from, enum qtype to) {
    for (int i = 0; i < g->n_steps; i++)
        if (g->step[i].budget == budget && g->step[i].from == from && g->step[i].to == to)
            return true;
    return false;
}

/* Measures steps around the mix of a budget, one group at a time. */
static int around(struct probing *w, uint64_t budget, struct err *e) {
    struct sens *s = w->s;
    struct sens_mix mix;
    uint64_t head = 0;
    int rc = 0, *rank;
    bool *band;
    gguf_shard_header(w->g, 0, &head);
    if (budget <= head) return err_set(e, ERR_USAGE, "--budget: smaller than the file's metadata");
    const struct sens_ask want = {.tensor_bytes = budget - head, .budget = budget, .floors = true};
    TRY(sens_solve(s, &want, &mix, e));
    rank = xcalloc((size_t)s->n_groups + 1, sizeof *rank);
    band = xcalloc((size_t)s->n_groups + 1, sizeof *band);
    layer_order(s, w->o->bands, rank, band);
    begin_rounds(w, &mix, budget);
    for (int dir = -1; dir <= 1 && !rc; dir += 2)
        for (int i = 0; i < s->n_groups && !rc; i++) {
            enum qtype to = sens_next(s, i, mix.type[i], dir);
            if (to == mix.type[i] || !band[i] || !probe_uses(&w->p, s, i)) continue;
            if (dir < 0 && !sens_allowed(s, i, to, budget)) continue;
            if (stepped(&s->group[i], budget, mix.type[i], to)) continue;
            if (!w->n && late(w)) {
                w->r->cut_short = true;
                continue;
            }
            w->r->n_steps++;
            rc = queue_probe(w, i, to, e);
        }
    if (!rc) rc = end_round(w, e);
    probe_forget(&w->p);
    free(rank);
    free(band);
    sens_mix_release(&mix);
    return rc;
}

/* ---- all stages ------------------------------------------------------------------------------ */

/* Discards the probes, steps and slopes read from a file. */
static void start_over(struct sens *s) {
    for (int i = 0; i < s->n_groups; i++) {
        s->group[i].n_probes = s->group[i].n_steps = 0;
        s->group[i].slope = 0;
        s->group[i].joint_type = SENS_NOT_JOINT;
    }
    s->n_joint = 0;
    joint_fit(s);
}

/* Reuses the results of an earlier run with the same inputs. */
static int resume(struct probing *w, const char *imatrix_hash, struct err *e) {
    struct sens *s = w->s;
    const struct mix_probe_opts *o = w->o;
    if (o->overwrite || !io_exists(o->out)) return 0;
    int rc = sens_read(s, o->out, e);
    if (rc && !o->replace) return rc;
    bool probes = o->texts.n > 0 && s->probe_hash[0];
    bool same = !rc && strcmp(s->imatrix_hash, imatrix_hash) == 0 && s->search == o->search &&
                (!probes || (strcmp(s->probe_hash, w->p.hash) == 0 && s->ctx == w->p.ctx &&
                             s->n_chunks == w->p.n_chunks));
    if (!same && !o->replace)
        return err_set(e, ERR_USAGE,
                       "%s was measured with another importance matrix, search or probe text; "
                       "use -f to measure again",
                       o->out);
    if (!same) start_over(s);
    w->r->resumed = same;
    return 0;
}

/* Returns whether any group has a slope. */
static bool sloped(const struct sens *s) {
    for (int i = 0; i < s->n_groups; i++)
        if (s->group[i].slope > 0) return true;
    return false;
}

/* Returns whether the errors of IQ1 types are known, which only a small budget needs. */
static bool has_low(const struct sens *s) {
    for (int i = 0; i < s->n_groups; i++)
        for (int t = 0; t < QT_COUNT; t++)
            if (s->group[i].err[t] >= 0 && (qtype_info(t)->flags & QF_LAST_RESORT)) return true;
    return false;
}

/* Warns of texts on which the importance matrix was collected: probes on these underestimate the
 * divergence on other texts. */
static void warn_same_text(const struct mix_probe_opts *o, const struct imat *imat) {
    for (int i = 0; imat && i < imat->n_datasets; i++)
        for (int k = 0; k < o->texts.n; k++)
            if (strcmp(io_base(imat->dataset[i]), io_base(o->texts.v[k])) == 0)
                log_warn("%s seems to be a text of the importance matrix: probes on it "
                         "underestimate divergence on others",
                         o->texts.v[k]);
}

/* Returns whether the matrix has an entry of this name that saw tokens. */
static bool has_importance(const struct imat *imat, const char *name) {
    const struct imat_entry *en = imat_find(imat, name);
    for (int64_t k = 0; en && k < en->n_mat; k++)
        if (en->count[k] > 0) return true;
    return false;
}

/* Warns about tensors that the importance matrix has no entry for, except the output tensor and
 * embeddings: their errors are measured without importance. */
static void warn_incomplete(const struct mix_probe_opts *o, const struct sens_source *from,
                            const struct sens *s) {
    const char *first = NULL;
    int64_t n = 0;
    for (int i = 0; from->imat && i < s->n_groups; i++)
        for (int k = 0; k < s->group[i].n_items; k++) {
            const char *name = gguf_tensor_at(from->g, s->group[i].item[k])->name;
            if (s->group[i].role == ROLE_OUTPUT || s->group[i].role == ROLE_TOKEN_EMBD ||
                has_importance(from->imat, name))
                continue;
            if (!first) first = name;
            n++;
        }
    if (n)
        log_warn("%s has no entry for %lld tensor%s (%s%s), measured without importance: does it "
                 "belong to this model, and was its text long enough?",
                 o->imatrix, (long long)n, str_s(n), first, n > 1 ? ", ..." : "");
}

/* Measures errors and slopes, then runs the probes. */
static int run(struct probing *w, const struct sens_source *from, const char *hash, struct err *e) {
    const struct mix_probe_opts *o = w->o;
    struct sens *s = w->s;
    warn_same_text(o, from->imat);
    warn_incomplete(o, from, s);
    if (o->texts.n) TRY(probe_open(&w->p, o->w, o->model, &o->texts, from, o->ctx, o->n_chunks, e));
    s->search = o->search;
    if (ranks_me() == 0) TRY(resume(w, hash, e));
    ranks_bcast(&w->r->resumed, sizeof w->r->resumed);
    sens_tell(s);
    memcpy(s->imatrix_hash, hash, sizeof s->imatrix_hash);
    s->search = o->search;
    for (int k = 0; k < o->n_budgets; k++) sens_set_low(s, o->budget[k]);
    /* Without importance, these types are no candidates. */
    const bool lacks_low = s->low && from->imat && !has_low(s);
    if (!w->r->resumed || lacks_low) TRY(sens_errors(s, from, e));
    if (o->texts.n) {
        memcpy(s->probe_hash, w->p.hash, sizeof s->probe_hash);
        s->ctx = w->p.ctx;
        s->n_chunks = w->p.n_chunks;
    }
    TRY(save(w, e));
    if (!o->texts.n) return 0;
    if (!sloped(s)) {
        const struct slope_text text = {w->p.ids.v, w->p.n_chunks, w->p.ctx};
        TRY(slopes_measure(s, w->p.base, from->imat, &text, o->w->isa, o->w->pool, e));
        TRY(save(w, e));
    }
    if (o->probes == PROBES_JOINT) TRY(stage2_joint(w, e));
    if (o->probes == PROBES_ALL) TRY(stage2(w, e));
    for (int k = 0; k < o->n_budgets; k++)
        for (int64_t i = 0; i < o->rounds; i++) TRY(around(w, o->budget[k], e));
    return 0;
}

/* Opens the results cache next to the output, which holds unfinished measurements. */
static struct results_cache *open_own(const struct mix_probe_opts *o) {
    char *path = xasprintf("%s.part", o->out);
    struct results_cache *k = NULL;
    struct err e;
    /* -f: start over */
    if (o->overwrite && results_cache_open(&k, path, &e) == 0) results_cache_close(k, true);
    if (results_cache_open(&k, path, &e) != 0)
        log_warn("%s; if interrupted, the current measurement is lost", e.msg);
    free(path);
    return k;
}

int mix_measure(const struct mix_probe_opts *o, struct sens *s, struct mix_probe_report *r,
                struct err *e) {
    struct probing w = {.o = o, .s = s, .r = r, .t0 = progress_now_s()};
    struct imat imat;
    char hash[33] = "";
    memset(r, 0, sizeof *r);
    memset(s, 0, sizeof *s);
    imat_init(&imat);
    w.want = xcalloc((size_t)ranks_n() * PROBE_SLOTS, sizeof *w.want);
    w.got = xcalloc((size_t)ranks_n() * PROBE_SLOTS, sizeof *w.got);
    int rc = work_pool(o->w, e);
    if (!rc) rc = gguf_open(&w.g, o->model, 0, e);
    if (!rc && o->imatrix) rc = imat_read(&imat, o->imatrix, e);
    if (!rc && o->imatrix) rc = record_file_hash(o->imatrix, hash, e);
    if (!rc) rc = sens_init(s, w.g, e);
    struct kept_of kept = {0};
    struct results_cache *own = rc || o->w->kept || ranks_n() > 1 ? NULL : open_own(o);
    if (own) o->w->kept = own;
    if (!rc) kept_weights(&kept, o->w->kept, w.g, hash, NULL);
    struct sens_source from = {w.g, o->imatrix ? &imat : NULL, o->w->pool, NULL, kept.of};
    const struct qdev_want want = device_quantize(o->w);
    if (!rc) rc = qdev_open(&from.dev, &want, from.pool, e);
    if (!rc) rc = run(&w, &from, hash, e);
    if (w.p.w) probe_close(&w.p);
    kept_release(&kept);
    if (own) o->w->kept = NULL;
    results_cache_close(own, !rc);
    qdev_close(from.dev);
    gguf_close(w.g);
    imat_release(&imat);
    free(w.want);
    free(w.got);
    r->seconds = progress_now_s() - w.t0;
    return rc;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Adds the accuracy reached so far, and what more time would improve. */
static void emit_accuracy(struct emit *m, const struct sens *s, const struct mix_probe_report *r) {
    struct sens_accuracy a;
    char text[160];
    sens_accuracy(s, &a);
    int64_t missing = r->n_wanted - r->n_probes;
    double more = r->n_now ? (double)missing * r->probing / (double)r->n_now : 0;
    emit_i64(m, "n_groups_probed", NULL, a.n_probed);
    emit_num(m, "rel_err_probed", NULL, a.probed, 4);
    emit_num(m, "rel_err_between", NULL, a.between, 4);
    emit_num(m, "rel_err_mix", NULL, a.mix, 4);
    emit_num(m, "rel_err_mix_complete", NULL, a.complete, 4);
    emit_num(m, "seconds_missing", NULL, more, 1);
    if (!a.n_probed) {
        emit_str(m, "accuracy", "accuracy", "not known: no group was probed");
        return;
    }
    snprintf(text, sizeof text,
             "predicted divergence +- %.0f %%: probed groups +- %.0f %%, between probes +- %.0f %%",
             100 * a.mix, 100 * a.probed, 100 * a.between);
    emit_str(m, "accuracy", "accuracy", text);
    if (missing <= 0) return;
    snprintf(text, sizeof text, "+- %.0f %% with all probes", 100 * a.complete);
    if (more > 0)
        snprintf(text, sizeof text, "about %.1f minutes for +- %.0f %%", more / 60,
                 100 * a.complete);
    emit_str(m, "accuracy_missing", "  missing accuracy", text);
}

static void emit_result(struct emit *m, const struct mix_probe_opts *o, const struct sens *s,
                        const struct mix_probe_report *r) {
    emit_str(m, "output", "output", o->out);
    emit_i64(m, "n_groups", "groups", s->n_groups);
    emit_i64(m, "n_probes", "probes", r->n_probes);
    emit_i64(m, "n_probes_wanted", "probes wanted", r->n_wanted);
    emit_i64(m, "n_steps", "steps around mixes", r->n_steps);
    emit_bool(m, "cut_short", "cut short by --time", r->cut_short);
    emit_num(m, "seconds", "seconds", r->seconds, 1);
    emit_accuracy(m, s, r);
    emit_table(m, "groups", "predicted divergence of each group alone");
    emit_col(m, "name", "group");
    emit_col(m, "n_weights", "weights");
    emit_col(m, "n_probes", "probes");
    static const enum qtype shown[] = {QT_Q2_K, QT_Q3_K, QT_IQ4_XS, QT_Q4_K, QT_Q5_K, QT_Q6_K};
    for (size_t k = 0; k < COUNT_OF(shown); k++)
        emit_col(m, qtype_name(shown[k]), qtype_name(shown[k]));
    for (int i = 0; i < s->n_groups; i++) {
        emit_row(m);
        emit_cell_str(m, s->group[i].name);
        emit_cell_i64(m, s->group[i].n_weights);
        emit_cell_i64(m, s->group[i].n_probes);
        for (size_t k = 0; k < COUNT_OF(shown); k++) {
            if (s->group[i].can[shown[k]] && s->group[i].err[shown[k]] >= 0)
                emit_cell_num(m, sens_loss(s, i, shown[k]), 6);
            else
                emit_cell_none(m);
        }
    }
}

const struct sensitivity_ask sensitivity_usual = {
    .o = {.ctx = 512, .n_chunks = 16, .n_types = 3, .rounds = 1}};

/* Parses --measure. ERR_USAGE: not joint, all or slopes. */
static int probes_parse(const char *name, enum probes *out, struct err *e) {
    int k = 0;
    while (name && k < PROBES_COUNT && strcmp(name, probes_name[k]) != 0) k++;
    if (k == PROBES_COUNT)
        return err_set(e, ERR_USAGE, "--measure: '%s' is not joint, all or slopes", name);
    *out = (enum probes)k;
    return 0;
}

/* Checks the options and parses search, probes and budgets. */
static int check(struct sensitivity_ask *a, struct err *e) {
    struct mix_probe_opts *o = &a->o;
    if (!o->out) return err_set(e, ERR_USAGE, "-o FILE.json is missing");
    if (o->n_types < 1 || o->n_types > SENS_MAX_TYPES)
        return err_set(e, ERR_USAGE, "--types: 1 to %d", SENS_MAX_TYPES);
    if (o->ctx < 32) return err_set(e, ERR_USAGE, "--ctx: at least 32");
    if (a->budget.n > MIX_MAX_BUDGETS)
        return err_set(e, ERR_USAGE, "at most %d budgets", MIX_MAX_BUDGETS);
    if (a->budget.n && !o->texts.n)
        return err_set(e, ERR_USAGE, "--budget measures around a mix: give --probe TEXT too");
    TRY(mix_search(a->search, &o->search, e));
    TRY(probes_parse(a->measure, &o->probes, e));
    for (int i = 0; i < a->budget.n; i++)
        TRY(size_parse(a->budget.v[i], "--budget", &o->budget[i], e));
    o->n_budgets = a->budget.n;
    return o->texts.n ? unknown_refuse(o->model, "--probe", e) : 0;
}

int sensitivity_run(struct work *w, struct sensitivity_ask *a, struct emit *m, struct err *e) {
    struct sens s;
    struct mix_probe_report r;
    TRY(check(a, e));
    struct apart files = {.w = w};
    apart_in(&files, a->o.model);
    apart_in(&files, a->o.imatrix);
    apart_in_all(&files, a->o.texts.v, a->o.texts.n);
    apart_out(&files, a->o.out);
    TRY(apart_check(&files, e));
    if (ranks_me() == 0) TRY(out_try(a->o.out, true, e)); /* an existing file is continued */
    a->o.w = w;
    a->o.overwrite = w->overwrite;
    int rc = mix_measure(&a->o, &s, &r, e);
    if (!rc) emit_result(m, &a->o, &s, &r);
    sens_release(&s);
    return rc;
}
