// SPDX-License-Identifier: MIT
/* cli/probe.c - stages 2 and 3: what a change of one group does to the output.
 *
 * The model is opened several times (the same pages of one map); one binding stays as it is, each
 * of the others gets one group's encoded tensors. All run over the same windows, so the base's pass
 * is shared and differences are paired. A pass begins at the block of the changed group, with the
 * hidden states of the base (of the mix, for steps around one). */
#include "cli/probe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "calib/imatrix.h"
#include "cli/kept.h"
#include "core/hash.h"
#include "core/mem.h"
#include "core/num.h"

/* Keeps n windows of ctx tokens, evenly spaced; two at least, for a standard error. */
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
    hash_xxh128_hex(p->hash, p->ids.v, (size_t)p->ids.n * sizeof *p->ids.v);
    return 0;
}

int probe_open(struct probe *p, struct cli *c, const char *model, const struct str_list *texts,
               const struct sens_source *from, int64_t ctx, int64_t n_chunks, struct err *e) {
    memset(p, 0, sizeof *p);
    p->c = c;
    p->from = from;
    struct session_opts o = {.n_ctx = ctx,
                             .n_ubatch = min_i64(ctx, 2048),
                             .isa = c->isa,
                             .act = ACT_F32,
                             .pool = c->pool,
                             .device = c->device};
    int rc = 0;
    rc = model_open(&p->model[PROBE_SLOTS], model, e);
    for (int i = 0; i < PROBE_SLOTS && !rc; i++)
        rc = model_open_again(&p->model[i], p->model[PROBE_SLOTS], e);
    o.n_sharing = PROBE_SLOTS;
    for (int i = PROBE_SLOTS; i >= 0 && !rc; i--) { /* the base lends its weights to the others */
        rc = session_new(&p->session[i], p->model[i], &o, e);
        o.share = p->session[PROBE_SLOTS];
        o.n_sharing = 0;
    }
    for (int i = 0; i < texts->n && !rc; i++)
        rc = corpus_load(p->model[0], texts->v[i], true, &p->ids, e);
    if (!rc) rc = thin_windows(p, ctx, n_chunks, e);
    if (rc) probe_close(p);
    return rc;
}

static void drop(struct probe *p, bool all) {
    int n = 0;
    for (int i = 0; i < p->n_data; i++) {
        if (p->data[i].keep && !all)
            p->data[n++] = p->data[i];
        else
            buf_free(p->data[i].data);
    }
    p->n_data = n;
}

void probe_forget(struct probe *p) {
    drop(p, true);
}

void probe_close(struct probe *p) {
    for (int i = 0; i <= PROBE_SLOTS; i++) session_free(p->session[i]);
    for (int i = 0; i <= PROBE_SLOTS; i++) model_close(p->model[i]);
    drop(p, true);
    free(p->data);
    ids_release(&p->ids);
    memset(p, 0, sizeof *p);
}

static bool uses(const struct model *m, const char *name) {
    for (int i = 0; i < m->graph.n_weights; i++)
        if (strcmp(m->graph.weight[m->source[i]].name, name) == 0) return true;
    return false;
}

bool probe_uses(const struct probe *p, const struct sens *s, int group) {
    const struct sens_group *g = &s->group[group];
    for (int i = 0; i < g->n_items; i++)
        if (!uses(p->model[0], gguf_tensor_at(p->model[0]->gguf, g->item[i])->name)) return false;
    return true;
}

static int encoded(struct probe *p, const struct sens *s, int64_t item, enum qtype type, bool keep,
                   void **out, struct err *e) {
    for (int i = 0; i < p->n_data; i++)
        if (p->data[i].item == item && p->data[i].type == type) {
            *out = p->data[i].data;
            p->data[i].keep |= keep;
            return 0;
        }
    TRY(sens_encode(p->from, item, type, s->search, out, e));
    p->data = xreallocarray(p->data, (size_t)p->n_data + 1, sizeof *p->data);
    p->data[p->n_data++] = (struct probe_data){item, type, *out, keep};
    return 0;
}

/* The group's tensors of one slot in a type. */
static int put(struct probe *p, const struct sens *s, int slot, int group, enum qtype type,
               bool keep, struct err *e) {
    const struct sens_group *g = &s->group[group];
    for (int i = 0; i < g->n_items; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(p->model[slot]->gguf, g->item[i]);
        void *data = NULL;
        if (!uses(p->model[slot], t->name)) continue;
        if (type != t->type) TRY(encoded(p, s, g->item[i], type, keep, &data, e));
        TRY(model_set_weight(p->model[slot], t->name, data, type, e));
    }
    return 0;
}

static int restore(struct probe *p, const struct sens *s, int slot, struct err *e) {
    const struct gguf *g = p->model[slot]->gguf;
    for (int i = 0; i < s->n_groups; i++)
        for (int k = 0; k < s->group[i].n_items; k++) {
            const struct gguf_tensor *t = gguf_tensor_at(g, s->group[i].item[k]);
            if (uses(p->model[slot], t->name))
                TRY(model_set_weight(p->model[slot], t->name, NULL, t->type, e));
        }
    return 0;
}

/* The first block that a change of the group is in. */
static int first_block(const struct probe *p, const struct sens_group *g) {
    if (g->role == ROLE_OUTPUT) return (int)p->model[0]->hp.d[HD_LAYERS];
    return g->block < 0 ? 0 : g->block;
}

/* Everything that decides the weights of a candidate: a group's type alone, or within a mix. */
static void add_kept(struct kept_of *x, const struct probe *p, const struct sens *s,
                     const struct sens_mix *mix, const struct probe_want *w) {
    struct kept_of base = {0};
    struct buf b = {0};
    kept_model(&base, p->c->kept, p->session[PROBE_SLOTS], NULL);
    buf_fmt(&b, "probe;%simportance %s;search %d;", base.of[0].what, s->imatrix_hash,
            (int)s->search);
    for (int i = 0; mix && i < s->n_groups; i++) buf_fmt(&b, "%d ", (int)mix->type[i]);
    if (w) buf_fmt(&b, ";%s %d", s->group[w->group].name, (int)w->type);
    kept_text(x, p->c->kept, buf_take(&b));
    kept_release(&base);
}

/* begin, like: eval.h; of candidates whose weights below a block are those of another. */
static int measure(struct probe *p, int n, const int *begin, const int *like,
                   const struct kept_of *kept, struct eval_kld_run *r, struct err *e) {
    const struct eval_domain all = {.name = "", .ids = p->ids.v, .n_ids = p->ids.n};
    const struct eval_kld_job job = {.base = p->session[PROBE_SLOTS],
                                     .cand = p->session,
                                     .n_cand = n,
                                     .domain = &all,
                                     .n_domains = 1,
                                     .ctx = p->ctx,
                                     .from = p->ctx / 8,
                                     .begin = begin,
                                     .like = like,
                                     .keep = p->c->kept ? kept->of : NULL,
                                     .unshared = true};
    return eval_kld_open(&job, r, e);
}

int probe_alone(struct probe *p, const struct sens *s, const struct probe_want *w, int n,
                struct probe_got *got, struct err *e) {
    struct eval_kld_run r;
    struct kept_of kept = {0};
    int rc = 0, begin[PROBE_SLOTS] = {0}, like[PROBE_SLOTS] = {0};
    for (int i = 0; i < n && !rc; i++) {
        begin[i] = first_block(p, &s->group[w[i].group]);
        like[i] = -1;
        add_kept(&kept, p, s, NULL, &w[i]);
        rc = restore(p, s, i, e);
        if (!rc) rc = put(p, s, i, w[i].group, w[i].type, false, e);
    }
    if (!rc) rc = measure(p, n, begin, like, &kept, &r, e);
    kept_release(&kept);
    for (int i = 0; i < n && !rc; i++) {
        struct eval_group k;
        eval_kld_group(&r, i, -1, r.from, r.ctx, &k);
        got[i] = (struct probe_got){k.mean_kld > 0 ? k.mean_kld : 0, k.mean_kld_stderr};
    }
    if (!rc) eval_kld_close(&r);
    drop(p, false);
    return rc;
}

int probe_steps(struct probe *p, const struct sens *s, const struct sens_mix *mix,
                const struct probe_want *w, int n, struct probe_got *got, struct err *e) {
    struct eval_kld_run r = {0};
    struct kept_of kept = {0};
    int rc = 0, begin[PROBE_SLOTS] = {0}, like[PROBE_SLOTS] = {-1};
    for (int i = 0; i <= n; i++) add_kept(&kept, p, s, mix, i ? &w[i - 1] : NULL);
    for (int i = 1; i <= n; i++) begin[i] = first_block(p, &s->group[w[i - 1].group]);
    for (int i = 0; i <= n && !rc; i++)
        for (int g = 0; g < s->n_groups && !rc; g++) {
            bool step = i > 0 && w[i - 1].group == g;
            rc = put(p, s, i, g, step ? w[i - 1].type : mix->type[g], !step, e);
        }
    if (!rc) rc = measure(p, n + 1, begin, like, &kept, &r, e);
    kept_release(&kept);
    for (int i = 0; i < n && !rc; i++) {
        struct eval_pair d;
        eval_kld_pair(&r, i + 1, 0, &d);
        got[i] = (struct probe_got){d.diff, d.stderr_};
    }
    if (!rc) eval_kld_close(&r);
    drop(p, false);
    return rc;
}
