// SPDX-License-Identifier: MIT
/* mix/sequential.c - block-by-block quantization: collects the inputs that the finished blocks
 * produce, encodes the next block, and continues. */
#include <stdlib.h>
#include <string.h>

#include "grad/grad.h"
#include "kernels/dev_product.h"
#include "mix/learn_block.h"
#include "mix/sequential_int.h"
#include "work/apart.h"
#include "work/device.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/os.h"
#include "base/out.h"
#include "base/progress.h"
#include "quantize/feedback.h"
#include "quantize/learn.h"

/* ---- observers ---- */

/* Returns whether the current pass is that of the head, after the last block. */
static bool is_head_pass(const struct seq_job *j) {
    return j->block == j->base->hp.d[HD_LAYERS];
}
/* Returns whether w belongs to the current block. */
static bool in_block(const struct seq_job *j, const struct gr_weight *w) {
    char head[32];
    const int n = snprintf(head, sizeof head, "blk.%d.", j->block);
    return strncmp(w->name, head, (size_t)n) == 0;
}
/* Keeps the inputs of the block's weights in the original model. */
static void see_base(void *ud, const struct session_shown *r) {
    struct seq_job *j = ud;
    if (j->collecting && in_block(j, r->w))
        pair_keep(j->pair, r->w, r->expert, r->x, r->n_rows, r->ld);
}
/* Adds input rows to the moments, weighted by the base's gradients for the same tokens. */
static void add_rows(struct seq_job *j, const struct session_shown *r) {
    int32_t *token = j->gradients && j->block >= 0
                         ? pair_tokens(j->pair, PAIR_OTHER, r->w, r->expert, r->n_rows)
                         : NULL;
    if (token && r->n_rows <= j->ctx &&
        gradients_gates(j->gradients, r->w, j->chunk * j->ctx, token, r->gate, r->n_rows, j->gate))
        gram_col_see_each(j->col, r->w, r->expert, r->x, j->gate, r->n_rows, r->ld);
    else
        gram_col_see(j->col, r->w, r->expert, r->x, r->gate, r->n_rows, r->ld);
    free(token);
}
/* Adds the inputs of the block's weights in the model being made to the moments. */
static void see_other(void *ud, const struct session_shown *r) {
    struct seq_job *j = ud;
    const bool all = j->block < 0 && strncmp(r->w->name, "blk.", 4) == 0; /* survey */
    if (j->collecting && (all || in_block(j, r->w))) add_rows(j, r);
}
/* Chooses the chunk that the following rows belong to. */
static void begin_chunk(struct seq_job *j, int64_t i) {
    j->chunk = i;
    pair_begin(j->pair);
    gram_col_chunk(j->col, i);
}
/* Records the experts that the block chooses on one side. */
static void route(struct seq_job *j, enum pair_side side, const struct session_shown *r) {
    if (r->block == j->block) pair_route(j->pair, side, r->block, r->chosen, r->n_used, r->n_rows);
}
/* Records the base's choice of experts; a session observer. */
static void route_base(void *ud, const struct session_shown *r) {
    route(ud, PAIR_BASE, r);
}
/* Records the quantized model's choice of experts; a session observer. */
static void route_other(void *ud, const struct session_shown *r) {
    route(ud, PAIR_OTHER, r);
}
/* Copies the residual after the current block. A session observer; ud: the job. */
static void keep_residual(void *ud, const struct session_shown *r) {
    struct seq_job *j = ud;
    if (r->block == j->block && j->to)
        memcpy(j->to + r->pos * j->width, r->x, (size_t)(r->n_rows * j->width) * sizeof *r->x);
}

/* Runs chunk i through the current block on one side. With `next`, the block's output replaces its
 * input. */
static int pass(struct seq_job *j, enum pair_side side, int64_t i, bool next, struct err *e) {
    struct side *d = &j->side[side];
    float *residual = d->residual + i * j->ctx * j->width;
    struct session_pass p = {.ids = j->ids.v + i * j->ctx, .n = j->ctx, .hidden = j->hidden};
    p.begin = j->block;
    p.residual = residual;
    if (!is_head_pass(j)) p.end = j->block + 1;
    j->to = next ? residual : NULL;
    session_reset(d->s);
    TRY(session_pass(d->s, &p, e));
    return pair_check(j->pair, e);
}

/* Computes and collects the head's input rows, in a pass after the last block. */
static int pass_head(struct seq_job *j, enum pair_side side, int64_t i, struct err *e) {
    const struct gr_weight *head = model_head(j->base);
    if (side == PAIR_BASE) begin_chunk(j, i);
    TRY(pass(j, side, i, false, e));
    if (side == PAIR_BASE)
        pair_keep(j->pair, head, -1, j->hidden, j->ctx, j->width);
    else
        add_rows(j, &(struct session_shown){
                        .w = head, .expert = -1, .x = j->hidden, .n_rows = j->ctx, .ld = j->width});
    return 0;
}

/* ---- a block --------------------------------------------------------------------------------- */

/* Runs both models over all chunks and collects moments of the block's inputs. */
static int collect_block(struct seq_job *j, struct progress *p, struct err *e) {
    for (int64_t i = 0; i < j->n_chunks; i++) {
        begin_chunk(j, i);
        j->collecting = true;
        TRY(pass(j, PAIR_BASE, i, true, e));
        TRY(pass(j, PAIR_OTHER, i, false, e));
        j->collecting = false;
        if (progress_interrupted()) return err_set(e, ERR_INTR, "interrupted");
        progress_update(p, p->done + 2);
    }
    return 0;
}

/* Collects the head's inputs and encodes the head. */
static int head(struct seq_job *j, struct err *e) {
    for (int64_t i = 0; i < j->n_chunks; i++) {
        TRY(pass_head(j, PAIR_BASE, i, e));
        TRY(pass_head(j, PAIR_OTHER, i, e));
    }
    return seq_encode(j, model_head(j->base)->name, e);
}

/* ---- learning -------------------------------------------------------------------------------- */

/* Returns the options for learning the tensors of a block (NULL: of the model) that are not exact,
 * or of them the vectors only. The list of tensors belongs to the caller. */
static struct learn_opts learn_opts_of(const struct seq_job *j, const char *head, bool vectors) {
    struct learn_tensor *t = xcalloc((size_t)j->n_done + 1, sizeof *t);
    struct learn_opts o = {.w = j->w,
                           .base = j->base,
                           .now = j->now,
                           .tensor = t,
                           .ids = j->ids.v,
                           .ctx = j->ctx,
                           .n_chunks = j->n_chunks,
                           .passes = j->o->learn,
                           .products = j->products};
    for (int i = 0; i < j->n_done; i++)
        if (!j->exact[i] && (!head || seq_is_among(j->given[i].name, head)) &&
            (!vectors || learn_is_vector(j->final[i].type, j->final[i].ne)))
            t[o.n_tensors++] =
                (struct learn_tensor){j->given[i].name, (void *)(uintptr_t)j->given[i].data};
    return o;
}
/* Lets codes, scales and vectors of the current block follow the gradient of its output's error. */
static int learn_current(struct seq_job *j, const char *head, struct progress *p, struct err *e) {
    struct learn_block_report r;
    const struct learn_block_opts b = {.o = learn_opts_of(j, head, false),
                                       .block = j->block,
                                       .progress = p,
                                       .x = j->side[PAIR_OTHER].residual,
                                       .y = j->side[PAIR_BASE].residual};
    const int rc = learn_block(&b, &r, e);
    free((void *)(uintptr_t)b.o.tensor);
    if (rc) return rc;
    j->is_learned = true;
    log_info("block %d: learning leaves %.3f of its output's error", j->block,
             r.before > 0 ? r.after / r.before : 1);
    return 0;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Makes the tensors of the current block: encoded, then learned. */
static int make_block(struct seq_job *j, const char *head, struct progress *p, struct err *e) {
    TRY(seq_encode(j, head, e));
    if (j->can_learn) TRY(seq_keep_vectors(j, head, e));
    return seq_learns_blocks(j) ? learn_current(j, head, p, e) : 0;
}
/* Collects the moments of one block, makes its tensors or takes those of an earlier run, and runs
 * the block with them. */
static int block(struct seq_job *j, struct progress *p, struct err *e) {
    char head[32];
    bool taken;
    snprintf(head, sizeof head, "blk.%d.", j->block);
    TRY(collect_block(j, p, e));
    TRY(seq_saved_take(j, &taken, e));
    if (!taken) TRY(make_block(j, head, p, e));
    if (taken && seq_learns_blocks(j)) {
        j->is_learned = true;
        progress_update(p, p->done + (uint64_t)learn_block_chunks(j->n_chunks, j->o->learn));
    }
    seq_saved_add(j);
    for (int64_t i = 0; i < j->n_chunks; i++) {
        TRY(pass(j, PAIR_OTHER, i, true, e));
        progress_update(p, p->done + 1);
    }
    return 0;
}

/* ---- the job --------------------------------------------------------------------------------- */

/* Opens the sessions of both models. ERR_USAGE: a block reads more than the residual. */
static int open_sides(struct seq_job *j, struct err *e) {
    struct session_opts so = {
        .n_ctx = j->ctx, .n_ubatch = j->ctx, .isa = j->w->isa, .act = ACT_F32, .pool = j->w->pool};
    const uint64_t bytes = (uint64_t)(j->n_chunks * j->ctx * j->width) * sizeof(float);
    for (int k = 0; k < 2; k++) {
        void *p = NULL;
        TRY(session_new(&j->side[k].s, j->base, &so, e));
        session_products(j->side[k].s, j->products);
        TRY(mem_alloc(&p, bytes, "residuals of the texts (give less text)", e));
        j->side[k].residual = p;
        session_observe(j->side[k].s, &(struct session_probe){
                                          .ud = j,
                                          .product = k == PAIR_BASE ? see_base : see_other,
                                          .residual = keep_residual,
                                          .route = k == PAIR_BASE ? route_base : route_other});
    }
    for (int b = 1; b < j->base->hp.d[HD_LAYERS]; b++)
        if (!session_can_begin(j->side[0].s, b))
            return err_set(e, ERR_USAGE,
                           "block %d of this architecture reads more than the residual: it cannot "
                           "be calibrated block by block: leave out --sequential",
                           b);
    return 0;
}

/* Returns ERR_SYS if memory for gradients was short and the file is to be left out then. */
static int short_of_memory(const struct seq_job *j, struct err *e) {
    return j->o->if_possible ? err_memory(e, "too little memory for gradients") : 0;
}
/* Decides whether tensors are learned. */
static int check_learning(struct seq_job *j, struct err *e) {
    struct err why;
    if (!j->o->learn) return 0;
    j->can_learn = learn_check(j->base, j->n_chunks, &why) == 0;
    if (j->can_learn) return 0;
    if (!j->o->if_possible) return err_set(e, why.code, "%s", why.msg);
    log_info("%s", why.msg);
    return 0;
}
/* Opens the gradients of the base, if it has them. */
static int open_gradients(struct seq_job *j, struct err *e) {
    const char *missing;
    if (j->o->q->without & FEEDBACK_GRADIENTS) return 0;
    TRY(gradients_new(&j->gradients, j->base, j->col, j->ctx, j->w->isa, j->w->pool, e));
    if (j->gradients) gradients_device(j->gradients, j->products);
    return !j->gradients && grad_can(j->base, &missing) ? short_of_memory(j, e) : 0;
}
/* Opens the model and the texts and allocates what the passes need. */
static int start(struct seq_job *j, struct err *e) {
    const struct sequential_opts *o = j->o;
    void *p = NULL;
    TRY(work_pool(j->w, e));
    TRY(model_open(&j->base, o->q->in, e));
    TRY(model_need_tok(j->base, e));
    if (o->q->imatrix) TRY(imat_read(&j->imat, o->q->imatrix, e));
    TRY(qplan_make(&j->plan, j->base->gguf, o->q, e));
    j->ctx = o->ctx ? o->ctx : 512;
    j->end = xcalloc((size_t)o->texts.n + 1, sizeof *j->end);
    for (int i = 0; i < o->texts.n; i++) {
        TRY(corpus_load(j->base, o->texts.v[i], true, &j->ids, e));
        j->end[i] = j->ids.n / j->ctx;
    }
    j->n_chunks = j->ids.n / j->ctx;
    if (o->chunks) j->n_chunks = min_i64(j->n_chunks, o->chunks);
    for (int i = 0; i < o->texts.n; i++) j->end[i] = min_i64(j->end[i], j->n_chunks);
    if (j->n_chunks < 1)
        return err_set(e, ERR_DATA, "the texts give %lld tokens, fewer than one chunk of %lld",
                       (long long)j->ids.n, (long long)j->ctx);
    TRY(check_learning(j, e));
    j->products = device_products(j->w);
    if (j->products) log_info("large products of moments, gradients and learning: on the device");
    j->width = j->base->hp.d[HD_EMBD];
    TRY(mem_alloc(&p, (uint64_t)(j->ctx * j->width) * sizeof(float), "hidden rows", e));
    j->hidden = p;
    TRY(gram_col_new(&j->col, 0, j->w->isa, j->w->pool, e));
    gram_col_chunks(j->col, j->n_chunks);
    j->pair = pair_new();
    gram_col_pair(j->col, j->pair);
    gram_col_device(j->col, j->products);
    if (o->inputs_only) gram_col_leave_out_gradients(j->col);
    TRY(open_gradients(j, e));
    j->gate = xcalloc((size_t)j->ctx, sizeof *j->gate);
    return open_sides(j, e);
}

/* Runs one pass of the whole model for the collector, so that it learns which weights share an
 * input. */
static int survey(struct seq_job *j, struct err *e) {
    j->block = -1;
    j->collecting = true;
    TRY(session_forward(j->side[PAIR_OTHER].s, j->ids.v, j->ctx, j->hidden, e));
    j->collecting = false;
    if (seq_is_head(j, model_head(j->base)->name))
        gram_col_see(j->col, model_head(j->base), -1, j->hidden, NULL, j->ctx, j->width);
    if (j->gradients) gradients_keep(j->gradients, j->ctx);
    if (j->gradients) TRY(gradients_text(j->gradients, j->ids.v, j->ctx, 0, e));
    TRY(gram_col_settle(j->col, j->ctx, e));
    if (!j->o->inputs_only && gram_col_without_gradients(j->col)) TRY(short_of_memory(j, e));
    gram_col_texts(j->col, j->end, j->o->texts.n);
    return 0;
}

/* Collects the base's gradients: the moments of outputs, and the weights of all tokens. */
static int collect_gradients(struct seq_job *j, struct err *e) {
    struct progress p;
    int rc = 0;
    if (!j->gradients) return 0;
    gradients_keep(j->gradients, j->n_chunks * j->ctx);
    progress_begin(&p, "gradients", PROG_ITEMS, (uint64_t)j->n_chunks);
    for (int64_t i = 0; i < j->n_chunks && !rc; i++) {
        gram_col_chunk(j->col, i);
        rc = gradients_text(j->gradients, j->ids.v + i * j->ctx, j->ctx, i, e);
        if (!rc && progress_interrupted()) rc = err_set(e, ERR_INTR, "interrupted");
        progress_update(&p, p.done + 1);
    }
    progress_end(&p);
    return rc;
}

/* Writes the collected moments to a file. */
static int write_moments(struct seq_job *j, const char *path, struct err *e) {
    struct gram g;
    gram_init(&g);
    g.n_chunks = (uint32_t)j->n_chunks;
    g.chunk_size = (uint32_t)j->ctx;
    g.learned = j->final;
    g.n_learned = j->is_learned ? j->n_done : 0;
    int rc = gram_col_finish(j->col, &g, e);
    if (!rc) rc = gram_write(&g, path, true, e);
    gram_release(&g);
    return rc;
}

/* Releases everything that only passes need. */
static void end_passes(struct seq_job *j) {
    for (int k = 0; k < 2; k++) {
        session_free(j->side[k].s);
        mem_free(j->side[k].residual);
        j->side[k] = (struct side){0};
    }
    model_close(j->now);
    j->now = NULL;
    gradients_free(j->gradients);
    j->gradients = NULL;
    gram_col_free(j->col);
    j->col = NULL;
    pair_free(j->pair);
    j->pair = NULL;
    dev_product_free(j->products);
    j->products = NULL;
}

static void release(struct seq_job *j) {
    end_passes(j);
    for (int i = 0; i < j->n_done; i++) weight_drop(&j->done[i]);
    free(j->done);
    free(j->given);
    free(j->final);
    free(j->exact);
    model_close(j->base);
    qplan_release(&j->plan);
    imat_release(&j->imat);
    ids_release(&j->ids);
    free(j->end);
    seq_saved_release(j);
    mem_free(j->hidden);
    free(j->gate);
}

/* Makes the tensors outside of blocks, or takes those of an earlier run. */
static int outside(struct seq_job *j, struct err *e) {
    bool taken;
    seq_saved_open(j);
    TRY(seq_saved_take(j, &taken, e));
    if (!taken) TRY(seq_encode(j, NULL, e));
    seq_saved_add(j);
    return 0;
}
/* Calibrates and encodes block by block, then the head. */
static int all_blocks(struct seq_job *j, struct err *e) {
    const int64_t layers = j->base->hp.d[HD_LAYERS];
    struct progress p;
    TRY(survey(j, e));
    TRY(collect_gradients(j, e));
    TRY(outside(j, e));
    int rc = 0;
    const int64_t each =
        3 * j->n_chunks + (seq_learns_blocks(j) ? learn_block_chunks(j->n_chunks, j->o->learn) : 0);
    progress_begin(&p, "block by block", PROG_ITEMS, (uint64_t)(layers * each));
    for (j->block = 0; j->block < layers && !rc; j->block++) rc = block(j, &p, e);
    if (!rc && seq_is_head(j, model_head(j->base)->name)) rc = head(j, e);
    progress_end(&p);
    return rc;
}

/* Lets scales and vectors of the encoded model follow the gradient of its divergence. */
static int learn(struct seq_job *j, struct err *e) {
    struct learn_report r;
    if (!j->can_learn) return 0;
    TRY(seq_keep_vectors(j, NULL, e));
    seq_saved_last(j);
    const struct learn_opts o = learn_opts_of(j, NULL, seq_is_too_large(j));
    const int rc = learn_run(&o, &r, e);
    free((void *)(uintptr_t)o.tensor);
    if (rc) return rc;
    j->is_learned = true;
    if (!r.n_weights)
        log_warn("--learn: no tensor can be learned");
    else
        log_info("learned scales and norms of %lld weights in %lld steps: divergence of held-out "
                 "text %.5f, before %.5f",
                 (long long)r.n_weights, (long long)r.n_steps, r.after, r.before);
    return 0;
}

/* Writes the moments, in a temporary file unless they are kept, and then the output. */
static int write_file(struct seq_job *j, struct quantize_report *r, struct err *e) {
    const char *keep = j->o->keep;
    struct quantize_opts q = *j->o->q;
    char *moments = keep ? xstrdup(keep) : xasprintf("%s.moments.tmp-%ld-0", q.out, (long)os_pid());
    int rc = write_moments(j, moments, e);
    if (!rc) {
        q.gram = moments;
        q.given = j->given;
        q.n_given = j->n_done;
        q.known_gaps = true; /* quantize_check has warned about them */
        end_passes(j);
        rc = quantize_run(&q, r, e);
        if (!keep) (void)os_unlink(moments);
    }
    free(moments);
    return rc;
}

/* Returns ERR_USAGE instead of ERR_SYS if memory is short and the file may be left out. With
 * --max-memory, what other programs leave free must not change what is made. */
static int leave_out(const struct sequential_opts *o, int rc, struct err *e) {
    uint64_t limit;
    const uint64_t room = buf_room(&limit), have = mem_available();
    if (rc != ERR_SYS || !e->no_memory || !o->if_possible || (limit && have && have < room))
        return rc;
    e->code = ERR_USAGE;
    return ERR_USAGE;
}

/* Checks that the outputs can be written before the long work begins. */
static int check_outputs(struct work *w, const struct sequential_opts *o, struct err *e) {
    const char *const in[] = {o->q->in, o->q->imatrix};
    struct apart files = {.w = w};
    apart_in_all(&files, in, COUNT_OF(in));
    apart_in_all(&files, o->texts.v, o->texts.n);
    apart_out(&files, o->keep);
    apart_out(&files, o->q->out);
    TRY(apart_check(&files, e));
    if (o->keep) TRY(out_try(o->keep, true, e));
    return quantize_check(o->q, e);
}

char *sequential_part(const char *out) {
    return xasprintf("%s" SEQUENTIAL_PART, out);
}

int sequential_quantize(struct work *w, const struct sequential_opts *o, struct quantize_report *r,
                        struct err *e) {
    struct seq_job j = {.w = w, .o = o};
    const double began = progress_now_s();
    TRY(check_outputs(w, o, e));
    imat_init(&j.imat);
    int rc = start(&j, e);
    if (!rc) rc = all_blocks(&j, e);
    if (!rc) rc = learn(&j, e);
    rc = rc ? leave_out(o, rc, e) : write_file(&j, r, e);
    if (!rc) r->seconds = progress_now_s() - began;
    seq_saved_end(&j, rc);
    release(&j);
    return rc;
}
