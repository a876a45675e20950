// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/plan.c - what a session takes of a device, before it takes it.
 *
 * Device bytes: the model's tensors, as the file has them or (8-bit activations) packed, vectors as
 * f32, registers n_ubatch * (sum of widths) * 4, cache, states, HEAD_ROWS rows of logits, scratch
 * of products. All of it is summed up, in the pieces in which a device gives memory away, and
 * compared with what is free before anything is allocated: never more than that less CU_KEEP_FREE.
 * What does not fit: experts of the last blocks stay in main memory and are computed by the CPU's
 * operators, or for many tokens copied (stream.c). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/num.h"
#include "base/str.h"
#include "runtime/engine/cuda/exec.h"

static struct cuda *dev(const struct session *s) {
    return s->dev;
}

/* A buffer that is cut into pieces. Where p is NULL, the pieces are only counted. */
struct cut {
    uint8_t *p;
    uint64_t at;
};
static void *piece(struct cut *c, int64_t n, uint64_t size) {
    uint8_t *p = c->p ? c->p + c->at : NULL;
    c->at += round_up((uint64_t)(n > 0 ? n : 1) * size, CUDA_ALIGN);
    return p;
}

static void cut_regs(struct session *s, struct cut *c) {
    for (int i = 0; i < s->g->n_regs; i++)
        dev(s)->reg[i] = piece(c, s->g->reg_width[i] * s->o.n_ubatch, sizeof(float));
    /* Products of few tokens read registers in 8 bits. */
    for (int i = 0; i < s->g->n_regs && !dev(s)->exact; i++)
        if (s->g->reg_width[i] % 64 == 0)
            dev(s)->q8[i] = piece(c, CU_FEW * CU_ACT_BYTES(s->g->reg_width[i]), 1);
}

static void cut_work(struct session *s, struct cut *c) {
    struct cuda *d = dev(s);
    const int64_t few = min_i64(CU_FEW, s->o.n_ubatch);
    int64_t n = s->o.n_ubatch, experts = 0, pairs = 0, hidden = 0, part = 0, hidden_q = 0;
    int64_t hidden_up = 0;
    for (int i = 0; i < graph_count(s->g, OP_ATTN); i++) {
        const struct gr_node *x = graph_nth(s->g, OP_ATTN, i);
        part = max_i64(part, few * x->attn.n_heads * d->n_splits * (x->attn.head_dim + 2));
    }
    for (int i = 0; i < graph_count(s->g, OP_MOE); i++) {
        const struct gr_node *x = graph_nth(s->g, OP_MOE, i);
        experts = max_i64(experts, s->g->weight[x->moe.router].ne[1]);
        pairs = max_i64(pairs, n * x->moe.n_used);
        int64_t f = s->g->weight[x->moe.down].ne[0];
        hidden = max_i64(hidden, n * x->moe.n_used * f);
        if (!exec_cuda_glu_is_whole(&x->moe) && !x->moe.relu2) hidden_up = hidden;
        if (f % 64 == 0 && !d->exact)
            hidden_q = max_i64(hidden_q, CU_FEW * x->moe.n_used * CU_ACT_BYTES(f));
    }
    d->rows = piece(c, 1, exec_cuda_rows_bytes(n));
    d->arrived = piece(c, CUDA_ARRIVED, sizeof(int32_t));
    d->router = piece(c, n * experts, sizeof(float));
    d->expert = piece(c, pairs, sizeof(int32_t));
    d->p = piece(c, pairs, sizeof(float));
    d->hidden = piece(c, hidden, sizeof(float));
    d->hidden_up = hidden_up ? piece(c, hidden_up, sizeof(float)) : NULL;
    d->hidden_q = hidden_q ? piece(c, hidden_q, 1) : NULL;
    d->part = piece(c, part, sizeof(float));
    if (d->place == d->all->head) {
        d->head_x = piece(c, HEAD_ROWS * s->m->hp.d[HD_EMBD], sizeof(float));
        d->logits = piece(c, HEAD_ROWS * s->g->weight[s->g->output].ne[1], sizeof(float));
        d->target = piece(c, HEAD_ROWS, sizeof *d->target);
        d->score = piece(c, HEAD_ROWS, sizeof *d->score);
        d->best = piece(c, HEAD_ROWS, sizeof *d->best);
        d->best_work = piece(c, BEST_ROWS, CU_BEST_WORK);
    }
    for (int i = 0; i < s->n_ropes; i++) {
        d->rope[i].freq = piece(c, s->rope[i].n_rot / 2, sizeof(double));
        d->rope[i].cs = piece(c, n * s->rope[i].n_rot, sizeof(float));
    }
}

void exec_cuda_lay_out(struct session *s, void *regs, void *work) {
    cut_regs(s, &(struct cut){regs, 0});
    cut_work(s, &(struct cut){work, 0});
}

/* Returns the most scratch that products of weight w with many tokens take, in bytes. */
static uint64_t scratch_of(const struct session *s, gr_w w, int64_t n_in, int64_t x_div,
                           int64_t n_sum) {
    if (w == GR_NONE) return 0;
    const struct cu_weight shape = exec_cuda_shape(model_weight(s->m, w));
    return cu_scratch_bytes(&shape, n_in, x_div, n_sum, dev(s)->exact);
}
static uint64_t scratch_bytes(const struct session *s) {
    const int64_t n = s->o.n_ubatch;
    const bool head = dev(s)->place == dev(s)->all->head;
    uint64_t most = head ? scratch_of(s, s->g->output, HEAD_ROWS, 1, 1) : 0;
    for (int i = 0; i < s->g->facts.n_uses; i++) {
        const struct gr_use *u = &s->g->facts.use[i];
        if (!gr_roles[u->role].product || !exec_cuda_here(s, u->node)) continue;
        const int64_t used = gr_roles[u->role].expert ? s->g->node[u->node].moe.n_used : 0;
        most = max_u64(most, !gr_roles[u->role].expert ? scratch_of(s, u->w, n, 1, 1)
                             : u->role == USE_EXP_DOWN ? scratch_of(s, u->w, n * used, 1, used)
                                                       : scratch_of(s, u->w, n * used, used, 1));
    }
    return most;
}

/* Returns what the buffers of a plan take of a device beyond their bytes. */
static uint64_t rounding(const struct session *s, const struct cuda_plan *p) {
    const uint64_t n[] = {p->regs, p->work, p->stage, p->stream, p->scratch};
    uint64_t sum = cache_first_rounding(&s->cache, dev(s)->place, s->o.n_ctx, cu_alloc_bytes);
    for (size_t i = 0; i < COUNT_OF(n); i++) sum += n[i] ? cu_alloc_bytes(n[i]) - n[i] : 0;
    sum *= 1 + (uint64_t)s->o.n_followers;
    for (int i = 0; i < s->g->n_weights; i++) {
        const uint64_t w = exec_cuda_upload_bytes(s, i);
        sum += w ? cu_alloc_bytes(w) - w : 0;
    }
    /* The last allocation of the driver's for small buffers is not full. */
    return sum + cu_alloc_bytes(UINT64_C(2) << 20);
}

void exec_cuda_plan(struct session *s, struct cuda_plan *p) {
    struct cut regs = {0}, work = {0};
    memset(p, 0, sizeof *p);
    for (int i = 0; i < s->g->n_weights; i++) p->weights += exec_cuda_upload_bytes(s, i);
    p->stage = exec_cuda_stage_bytes(s);
    p->stream = exec_cuda_stream_plan(s);
    p->scratch = scratch_bytes(s);
    cut_regs(s, &regs);
    cut_work(s, &work);
    p->regs = regs.at;
    p->work = work.at;
    s->cache.pass_tok = s->o.n_ubatch;
    p->kv = cache_first_bytes(&s->cache, dev(s)->place, s->o.n_ctx, &p->rec);
    p->others = (uint64_t)s->o.n_followers * (p->regs + p->work + p->kv + p->rec + p->stage +
                                              p->scratch + exec_cuda_replaced_bytes(s));
    p->needed = p->weights + p->stage + p->stream + p->regs + p->kv + p->rec + p->work +
                p->scratch + p->others;
    p->rounding = rounding(s, p);
}

/* Sets the error that says what the part at work needs and what its device has. */
static int too_large(const struct session *s, const struct cuda_plan *p, uint64_t have,
                     struct err *e) {
    const struct cuda *d = dev(s);
    const double mib = 1024.0 * 1024.0;
    char others[80] = "", name[300];
    if (p->others)
        snprintf(others, sizeof others, ", of %d more that share the weights %.0f",
                 s->o.n_followers, (double)p->others / mib);
    snprintf(name, sizeof name, d->all->n > 1 ? "%s (cuda:%d)" : "%s", d->info.name, d->info.index);
    return err_set(
        e, ERR_SYS,
        "%s has %.0f MiB free, of which %.0f may be used, and %.0f MiB are needed%s: weights "
        "%.0f, cache %.0f, states %.0f, activations %.0f%s. Use a smaller quantization, "
        "--ctx or cache type, or --device cpu",
        name, (double)d->info.mem_free / mib, (double)have / mib, (double)p->needed / mib,
        d->all->n_on_host ? " without the experts" : "", (double)(p->weights + p->stage) / mib,
        (double)p->kv / mib, (double)p->rec / mib, (double)(p->regs + p->work + p->scratch) / mib,
        others);
}

/* One way to leave experts in main memory, while it is tried. */
struct trial {
    struct cuda_plan *p;         /* [parts] */
    uint64_t have[CACHE_PLACES]; /* bytes of each device that may be used */
    int short_of;                /* The part whose device is too small for it. */
};

/* Tells in *yes whether the model fits when the experts of the last n blocks stay in main memory
 * and there is room to copy them for passes of at least `from` tokens (0: no such room). */
static int fits(struct session *s, int n, int64_t from, struct trial *t, bool *yes, struct err *e) {
    const uint64_t keep = CU_KEEP_FREE + s->keep_free;
    EACH_PART(s, i) dev(s)->in.from = from;
    exec_cuda_leave_on_host(s, n);
    TRY(exec_cuda_spread(s, t->have, e));
    *yes = true;
    EACH_PART(s, i) {
        struct cuda_plan *p = &t->p[i];
        exec_cuda_plan(s, p);
        if (!exec_cuda_busy(s) ||
            (p->needed <= t->have[i] && p->needed + p->rounding + keep <= dev(s)->info.mem_free))
            continue;
        *yes = false;
        t->short_of = i;
    }
    return 0;
}

/* Returns the least tokens of a pass for which experts are copied. A single token is captured, and
 * few with 8-bit activations have kernels of their own: these are
 * for experts that lie on the device. */
static int64_t least(const struct session *s) {
    return s->o.act == ACT_F32 ? 2 : CU_FEW + 1;
}

static int refuse(struct session *s, const struct trial *t, struct err *e) {
    exec_cuda_at(s, t->short_of);
    const int rc = too_large(s, &t->p[t->short_of], t->have[t->short_of], e);
    exec_cuda_at(s, dev(s)->all->head);
    return rc;
}

/* Leaves experts in main memory, those of the last block first, until the rest fits. Copying them
 * to the device for large passes needs a buffer there, which may push the experts of another block
 * or two out. Where the user did not ask for copies (--stream-from), the buffer is made only if
 * that leaves out at most half as many blocks more. */
static int place(struct session *s, struct trial *t, struct err *e) {
    const int64_t asked = s->o.device.stream_from;
    const int64_t from = asked < 0 ? -1 : max_i64(asked ? asked : CUDA_STREAM_FROM, least(s));
    const int n_moe = graph_count(s->g, OP_MOE);
    bool yes = false;
    int n = -1;
    while (n < n_moe && !yes) TRY(fits(s, ++n, 0, t, &yes, e));
    if (!yes) return refuse(s, t, e);
    if (dev(s)->all->n_on_host == 0 || from < 0 || from > s->o.n_ubatch) return 0;
    const int most = asked ? n_moe : n + n / 2;
    yes = false;
    for (int k = n; k <= most && k <= n_moe && !yes; k++) TRY(fits(s, k, from, t, &yes, e));
    if (yes) return 0;
    if (asked) log_info("there is no room on %s to copy experts to", dev(s)->info.name);
    return fits(s, n, 0, t, &yes, e);
}

/* Chooses the length of a pass. Longer passes read weights less often, so where nobody asked for a
 * length it is the longest one for which no more experts are left out. One that is longer than a
 * context takes rows of several sequences, whole ones each. */
static int choose(struct session *s, struct trial *t, struct err *e) {
    const int64_t ctx = s->o.n_ctx, usual = min_i64(s->wanted_ubatch, ctx);
    /* The number of sequences of a pass that is longer than a context. */
    int64_t n_seqs = s->any_ubatch ? 0 : s->wanted_ubatch / ctx;
    int64_t longer = s->any_ubatch ? 2048 : n_seqs * ctx;
    s->o.n_ubatch = usual;
    TRY(place(s, t, e));
    const int n = dev(s)->all->n_on_host;
    const int64_t from = dev(s)->in.from;
    while (longer > usual) {
        struct err ignored;
        s->o.n_ubatch = s->any_ubatch ? min_i64(longer, ctx) : longer;
        if (!place(s, t, &ignored) && dev(s)->all->n_on_host == n && dev(s)->in.from == from)
            return 0;
        n_seqs /= 2;
        longer = s->any_ubatch ? longer / 2 : n_seqs * ctx;
    }
    if (s->o.n_ubatch == usual) return 0;
    s->o.n_ubatch = usual;
    return place(s, t, e);
}

static void tell(struct session *s, const struct trial *t) {
    const struct cuda *d = dev(s);
    uint64_t have = 0, stream = 0;
    char copies[128] = "";
    s->offload.n_blocks = d->all->n_on_host;
    s->offload.from = d->in.from;
    s->offload.n_bytes = 0;
    for (int i = 0; i < s->g->n_weights; i++)
        if (d->w[i].is_host) s->offload.n_bytes += (int64_t)model_weight(s->m, i)->n_bytes;
    for (int i = 0; i < d->all->n; i++) {
        have += t->have[i];
        stream += t->p[i].stream;
    }
    if (d->in.from)
        snprintf(copies, sizeof copies,
                 "; passes of %" PRId64 " tokens or more copy them to the device, through %" PRIu64
                 " MiB there",
                 d->in.from, stream >> 20);
    const int n = d->all->n_on_host - d->all->n_placed;
    if (n)
        log_info("the experts of %d block%s do not fit into the %" PRIu64
                 " MiB of %s that may be used: the CPU computes them%s",
                 n, str_s(n), have >> 20, d->info.name, copies);
    if (d->all->n_placed)
        log_info(
            "the experts of %d block%s stay in main memory, as --place says or because %s does "
            "not compute them: the CPU does%s",
            d->all->n_placed, str_s(d->all->n_placed), d->info.name, copies);
}

int exec_cuda_settle(struct session *s, struct cuda_plan p[CACHE_PLACES], struct err *e) {
    const uint64_t keep = CU_KEEP_FREE + s->keep_free;
    struct trial t = {.p = p};
    EACH_PART(s, i) {
        const struct cu_info *info = &dev(s)->info;
        t.have[i] = info->mem_free > keep ? info->mem_free - keep : 0;
        if (dev(s)->most && dev(s)->most < t.have[i]) t.have[i] = dev(s)->most;
    }
    TRY(choose(s, &t, e));
    if (dev(s)->all->n_on_host) tell(s, &t);
    exec_cuda_drop_idle(s);
    EACH_PART(s, i) exec_cuda_plan(s, &p[i]);
    return dev(s)->all->n_on_host && !dev(s)->in.from ? exec_cuda_open_host(s, e) : 0;
}
