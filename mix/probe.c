// SPDX-License-Identifier: MIT
/* mix/probe.c - stages 2 and 3: how the types of groups affect the output.
 *
 * A candidate is the base with some tensors replaced by encoded ones; all other weights are shared.
 * Each slot has one session for all batches, which runs one candidate after another. All sessions
 * use the same windows, so they share the base's pass, and differences are paired. A pass begins at
 * the block of the changed group, with the hidden states of the base or, for steps around a mix, of
 * that mix. */
#include "mix/probe.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib/imatrix.h"
#include "mix/joint.h"
#include "runtime/measure/measurement_cache.h"
#include "work/open.h"
#include "work/passes.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"

/* Relative standard error with which a probe may end early. Costs that are wrong by a factor exp(d)
 * with a standard deviation of s make a mix worse by s^2 / 2: 0.25 %. */
static const double precise = .07;

/* Moves every other window to the front, so that the first half is also spread over the text. */
static void interleave(struct probe *p) {
    const size_t bytes = (size_t)p->ctx * sizeof *p->ids.v;
    int32_t *from = xmalloc((size_t)p->n_chunks * bytes);
    memcpy(from, p->ids.v, (size_t)p->n_chunks * bytes);
    for (int64_t i = 0; i < p->n_chunks; i++)
        memcpy(p->ids.v + (i % 2 ? (p->n_chunks + 1) / 2 + i / 2 : i / 2) * p->ctx,
               from + i * p->ctx, bytes);
    free(from);
}

/* Keeps n evenly spaced windows of ctx tokens, but at least two, so that a standard error
 * exists. */
static int thin_windows(struct probe *p, int64_t ctx, int64_t n, struct err *e) {
    int64_t have = p->ids.n / ctx;
    if (have < 2)
        return err_set(e, ERR_DATA,
                       "the probe texts have %" PRId64 " tokens, fewer than two windows of %" PRId64
                       "; give more text or a smaller --ctx",
                       p->ids.n, ctx);
    p->ctx = ctx;
    p->n_chunks = n > 0 ? min_i64(max_i64(n, 2), have) : have;
    for (int64_t i = 0; i < p->n_chunks; i++)
        memmove(p->ids.v + i * ctx, p->ids.v + (i * have / p->n_chunks) * ctx,
                (size_t)ctx * sizeof *p->ids.v);
    p->ids.n = p->n_chunks * ctx;
    if (p->n_chunks > PROBE_LOOK) interleave(p);
    hash_xxh128_hex(p->hash, p->ids.v, (size_t)p->ids.n * sizeof *p->ids.v);
    return 0;
}

/* Closes all sessions. */
static void close_sessions(struct probe *p) {
    for (int i = 0; i <= PROBE_SLOTS; i++) {
        session_free(p->session[i]);
        p->session[i] = NULL;
    }
}

/* Opens sessions for the base, which uploads the weights, and for n candidates on one kind of
 * device. On error, none stays open. */
static int open_on(struct probe *p, struct session_opts *o, enum device_kind kind, int n,
                   struct err *e) {
    struct session **base = &p->session[PROBE_SLOTS];
    o->device.kind = kind;
    o->n_followers = p->n_slots = n;
    o->like = NULL;
    int rc = session_new(base, p->base, o, e);
    o->n_followers = 0;
    o->like = *base;
    for (int i = 0; i < n && !rc; i++) rc = session_new(&p->session[i], p->base, o, e);
    if (rc) close_sessions(p);
    return rc;
}

/* Opens sessions for the base and for two or more candidates, up to the number that fits on the
 * device. With `auto`, the CPU runs all of them if the device cannot. */
static int open_sessions(struct probe *p, struct session_opts *o, struct err *e) {
    static const int slots[] = {PROBE_SLOTS, 3, 2};
    const enum device_kind asked = o->device.kind;
    if (asked == DEVICE_CPU) return open_on(p, o, DEVICE_CPU, PROBE_SLOTS, e);
    int rc = ERR_SYS;
    for (size_t i = 0; i < COUNT_OF(slots) && rc == ERR_SYS; i++)
        rc = open_on(p, o, DEVICE_CUDA, slots[i], e);
    if (!rc || asked == DEVICE_CUDA) return rc;
    log_warn("computing on the CPU: %s", e->msg);
    return open_on(p, o, DEVICE_CPU, PROBE_SLOTS, e);
}

int probe_open(struct probe *p, struct work *w, const char *model, const struct str_list *texts,
               const struct sens_source *from, int64_t ctx, int64_t n_chunks, struct err *e) {
    memset(p, 0, sizeof *p);
    p->w = w;
    p->from = from;
    struct session_opts o = {
        .n_ctx = ctx, .isa = w->isa, .act = ACT_F32, .pool = w->pool, .device = w->device};
    int rc = 0;
    rc = open_model(w, &p->base, model, e);
    if (!rc) open_warn_context(w, p->base, ctx);
    if (!rc) o.n_ubatch = passes_rows(w, p->base, ctx, PROBE_SLOTS + 1);
    if (!rc) o.reread = passes_reread(gguf_file_bytes(p->base->gguf));
    if (!rc) rc = open_sessions(p, &o, e);
    for (int i = 0; i < texts->n && !rc; i++)
        rc = corpus_load(p->base, texts->v[i], true, &p->ids, e);
    if (!rc) rc = thin_windows(p, ctx, n_chunks, e);
    if (rc) probe_close(p);
    return rc;
}

/* Switches slot i to a candidate and takes ownership of it; NULL: to the base. */
static int use(struct probe *p, int i, struct model *cand, struct err *e) {
    int rc = session_use(p->session[i], cand ? cand : p->base, e);
    if (rc) {
        model_close(cand);
        return rc;
    }
    model_close(p->cand[i]);
    p->cand[i] = cand;
    return 0;
}

/* Removes the candidates and the encoded tensors that are no longer used. Tensors of the mix are
 * removed only with `all`. */
static void drop(struct probe *p, bool all) {
    struct err unused;
    int n = 0;
    for (int i = 0; i < PROBE_SLOTS; i++) /* use() cannot fail: the base has the same graph */
        if (p->cand[i]) (void)use(p, i, NULL, &unused);
    for (int i = 0; i < p->n_data; i++) {
        if (p->data[i].keep && !all)
            p->data[n++] = p->data[i];
        else
            weight_drop(&p->data[i].w);
    }
    p->n_data = n;
}

void probe_forget(struct probe *p) {
    drop(p, true);
}

void probe_close(struct probe *p) {
    drop(p, true);
    close_sessions(p);
    model_close(p->base);
    free(p->data);
    ids_release(&p->ids);
    memset(p, 0, sizeof *p);
}

/* Returns the i-th tensor of the group. */
static const struct gguf_tensor *item(const struct probe *p, const struct sens_group *g, int i) {
    return gguf_tensor_at(p->base->gguf, g->item[i]);
}

bool probe_uses(const struct probe *p, const struct sens *s, int group) {
    const struct sens_group *g = &s->group[group];
    for (int i = 0; i < g->n_items; i++)
        if (!model_find_weight(p->base, item(p, g, i)->name)) return false;
    return true;
}

/* Returns a tensor in a type, encoding it on first use. *out is valid until the next call. */
static int encoded(struct probe *p, const struct sens *s, int64_t index, enum qtype type, bool keep,
                   const struct weight **out, struct err *e) {
    const char *name = gguf_tensor_at(p->base->gguf, index)->name;
    struct weight w;
    void *data = NULL;
    for (int i = 0; i < p->n_data; i++)
        if (p->data[i].item == index && p->data[i].type == type) {
            *out = &p->data[i].w;
            p->data[i].keep |= keep;
            return 0;
        }
    TRY(sens_encode(p->from, index, type, s->search, &data, e));
    int rc = weight_given(&w, model_find_weight(p->base, name), name, data, type, mem_free, e);
    if (rc) {
        mem_free(data);
        return rc;
    }
    p->data = xreallocarray(p->data, (size_t)p->n_data + 1, sizeof *p->data);
    p->data[p->n_data++] = (struct probe_data){index, type, w, keep};
    *out = &p->data[p->n_data - 1].w;
    return 0;
}

/* Changes a group's tensors in a candidate to a type; replaces *cand. */
static int change(struct probe *p, const struct sens *s, struct model **cand, int group,
                  enum qtype type, bool keep, struct err *e) {
    const struct sens_group *g = &s->group[group];
    for (int i = 0; i < g->n_items; i++) {
        const struct gguf_tensor *t = item(p, g, i);
        struct model *next = NULL;
        struct model_change c = {.name = t->name};
        if (type == t->type || !model_find_weight(p->base, t->name)) continue;
        TRY(encoded(p, s, g->item[i], type, keep, &c.to, e));
        TRY(model_with(&next, *cand ? *cand : p->base, &c, 1, e));
        model_close(*cand);
        *cand = next;
    }
    return 0;
}

/* Sets *type to the group's type in a candidate of stage 2. Returns false if the group keeps its
 * type. */
static bool type_in(const struct sens *s, const struct probe_want *w, int group, enum qtype *type) {
    const bool joint = w->group < 0;
    *type = joint ? s->group[group].joint_type : w->type;
    return joint ? joint_has(&w->joint, &s->group[group]) : w->group == group;
}

uint64_t probe_bytes(const struct sens *s, const struct probe_want *w) {
    uint64_t sum = 0;
    enum qtype type;
    for (int g = 0; g < s->n_groups; g++)
        if (type_in(s, w, g, &type)) sum += s->group[g].bytes[type];
    return sum;
}

/* Adds a candidate's key for the results cache: everything that determines its weights. w: the
 * change to one or several groups, alone or within a mix. */
static void add_kept(struct kept_of *x, const struct probe *p, const struct sens *s,
                     const struct sens_mix *mix, const struct probe_want *w) {
    struct kept_of base = {0};
    struct buf b = {0};
    kept_model(&base, p->w->kept, p->session[PROBE_SLOTS], NULL);
    buf_fmt(&b, "probe;%simportance %s;search %d;", base.of[0].what, s->imatrix_hash,
            (int)s->search);
    for (int i = 0; mix && i < s->n_groups; i++) buf_fmt(&b, "%d ", (int)mix->type[i]);
    enum qtype type;
    for (int i = 0; w && i < s->n_groups; i++)
        if (type_in(s, w, i, &type)) buf_fmt(&b, ";%s %d", s->group[i].name, (int)type);
    kept_text(x, p->w->kept, buf_take(&b));
    kept_release(&base);
}

static struct probe_got result(const struct eval_kld_run *r, int cand) {
    struct eval_group k;
    eval_kld_group(r, cand, -1, r->from, r->ctx, &k);
    return (struct probe_got){fmax(0, k.mean_kld), k.mean_kld_stderr, k.n_chunks};
}

/* Ends the probes whose standard error is small enough. */
static void look_at(void *ud, const struct eval_kld_run *r, bool *stop) {
    (void)ud;
    for (int i = 0; i < r->n_cand; i++) {
        const struct probe_got got = result(r, i);
        stop[i] = got.stderr_ > 0 && got.stderr_ <= precise * got.kld;
    }
}

/* Measures the candidates of all slots, on all windows unless `look` ends some earlier. */
static int measure(struct probe *p, int n, const struct kept_of *kept, eval_look look,
                   struct eval_kld_run *r, struct err *e) {
    static const int64_t looks[] = {PROBE_LOOK};
    const struct eval_domain all = {.name = "", .ids = p->ids.v, .n_ids = p->ids.n};
    const struct eval_kld_job job = {.base = p->session[PROBE_SLOTS],
                                     .cand = p->session,
                                     .n_cand = n,
                                     .domain = &all,
                                     .n_domains = 1,
                                     .ctx = p->ctx,
                                     .from = p->ctx / 8,
                                     .same_graph = true,
                                     .keep = p->w->kept ? kept->of : NULL,
                                     .unshared = true,
                                     .look = look,
                                     .looks = looks,
                                     .n_looks = COUNT_OF(looks)};
    return eval_kld_open(&job, r, e);
}

int probe_alone(struct probe *p, const struct sens *s, const struct probe_want *w, int n,
                struct probe_got *got, struct err *e) {
    struct eval_kld_run r;
    struct kept_of kept = {0};
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        struct model *cand = NULL;
        add_kept(&kept, p, s, NULL, &w[i]);
        enum qtype type;
        for (int g = 0; g < s->n_groups && !rc; g++)
            if (type_in(s, &w[i], g, &type)) rc = change(p, s, &cand, g, type, false, e);
        if (rc)
            model_close(cand);
        else
            rc = use(p, i, cand, e);
    }
    if (!rc) rc = measure(p, n, &kept, look_at, &r, e);
    kept_release(&kept);
    for (int i = 0; i < n && !rc; i++) got[i] = result(&r, i);
    if (!rc) eval_kld_close(&r);
    drop(p, false);
    return rc;
}

/* Builds the mix with one group in a different type; w NULL: the mix itself. */
static int mixed(struct probe *p, const struct sens *s, const struct sens_mix *mix,
                 const struct probe_want *w, struct model **cand, struct err *e) {
    for (int g = 0; g < s->n_groups; g++) {
        bool step = w && w->group == g;
        TRY(change(p, s, cand, g, step ? w->type : mix->type[g], !step, e));
    }
    return 0;
}

int probe_steps(struct probe *p, const struct sens *s, const struct sens_mix *mix,
                const struct probe_want *w, int n, struct probe_got *got, struct err *e) {
    struct eval_kld_run r = {0};
    struct kept_of kept = {0};
    int rc = 0;
    for (int i = 0; i <= n && !rc; i++) {
        const struct probe_want *step = i ? &w[i - 1] : NULL;
        struct model *cand = NULL;
        add_kept(&kept, p, s, mix, step);
        rc = mixed(p, s, mix, step, &cand, e);
        if (rc)
            model_close(cand);
        else
            rc = use(p, i, cand, e);
    }
    if (!rc) rc = measure(p, n + 1, &kept, NULL, &r, e);
    kept_release(&kept);
    for (int i = 0; i < n && !rc; i++) {
        struct eval_pair d;
        eval_kld_pair(&r, i + 1, 0, &d);
        got[i] = (struct probe_got){d.diff, d.stderr_, r.n_chunks};
    }
    if (!rc) eval_kld_close(&r);
    drop(p, false);
    return rc;
}
