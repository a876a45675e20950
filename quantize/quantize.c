// SPDX-License-Identifier: MIT
/* quantize/quantize.c - the streaming quantizer: reads a GGUF and importance, writes a smaller
 * GGUF, tensor by tensor.
 *
 * Rows are processed in batches of at most 32 MiB (as f32). A worker decodes, checks and encodes
 * each row of a batch independently; a separate thread (base/writer.h) writes finished batches in
 * order while the next ones are encoded. So the bytes do not depend on the number of threads. The
 * scalar kernels decode source rows to the same values on every machine. Peak memory: three output
 * batches, the source pages of one batch, a row of f32 per thread (with error feedback a group of
 * rows, and the factors of factors.h), and the importance of one tensor. Ranks (base/ranks.h) share
 * the work. NaN and infinities are rejected with an error that names the tensor; a tensor that
 * keeps its type is also checked, then copied byte for byte. */
#include "quantize/quantize.h"

#include <stdlib.h>
#include <string.h>

#include "containers/gguf.h"
#include "quantize/imat_file.h"
#include "base/io.h"
#include "base/os.h"
#include "base/out.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/ranks.h"
#include "base/writer.h"
#include "kernels/kern.h"
#include "quantize/batch.h"
#include "quantize/embd_moments.h"
#include "quantize/exact.h"
#include "quantize/enc/gridq.h"
#include "quantize/fb_tensor.h"
#include "quantize/feedback.h"
#include "quantize/learned.h"
#include "quantize/qplan.h"
#include "quantize/record.h"
#include "quantize/requant.h"
#include "quantize/resume.h"

enum { BATCH_BYTES = 32 << 20, TAU_DEFAULT = 256 };

/* Inputs and state shared by all outputs. */
struct source {
    struct gguf *g;
    const struct imat *imat;  /* NULL: none */
    const struct gram *gram;  /* NULL: none */
    struct embd_moments embd; /* computed on first use */
    struct factors *factors;  /* of the moments, for all tensors and targets; NULL: no moments */
    struct kern ref;
    struct progress prog;
    /* Number of batches, and of matrices with error feedback, so far; it decides which rank does
     * the next one. */
    int64_t item;
    struct writer *writer;
    struct qdev *dev; /* NULL: the CPU encodes */
    struct target *target;
    int n;
    bool check; /* nothing is encoded */
};

struct target { /* one output */
    struct source *s;
    const struct quantize_opts *o;
    struct gguf_w *w;
    struct qplan plan;
    struct quantize_report *r;
    struct resume *resume; /* NULL: an interrupted output is removed */
    int64_t n_done;        /* tensors that an earlier run completed */
    bool learned;          /* takes the learned tensors of the moments */
};

/* Returns whether target q can reuse the bytes that `first` computes for a tensor: q wants the
 * same type, learned or not, and no earlier run has written the tensor. */
static bool wants_bytes(const struct target *q, const struct target *first, int64_t tensor) {
    return q->plan.item[tensor].type == first->plan.item[tensor].type &&
           q->learned == first->learned && tensor >= q->n_done;
}

/* Returns the number of rows in all matrices. */
static int64_t n_rows(const int64_t ne[4]) {
    return ne[1] * ne[2] * ne[3];
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Writes rows of a tensor to all targets that want these bytes. Runs on the writer's thread, in row
 * order. */
static int write_rows(void *ctx, int64_t tensor, const uint8_t *p, uint64_t n, struct err *e) {
    const struct target *first = ctx;
    for (int k = 0; k < first->s->n; k++) {
        const struct target *q = &first->s->target[k];
        if (!wants_bytes(q, first, tensor)) continue;
        TRY(gguf_w_data(q->w, p, n, e));
        if (q->resume) TRY(resume_data(q->resume, p, n, q->r->rows[tensor].alpha, e));
    }
    return 0;
}

/* Releases the mapped pages of n rows starting at `first` until they are needed again. */
static void drop_rows(const struct source *s, const struct batch_job *j, int64_t first, int64_t n) {
    struct gguf_tensor part = *j->t; /* gguf_drop uses only offset and size */
    part.off += (uint64_t)first * j->src_row;
    part.n_bytes = (uint64_t)n * j->src_row;
    gguf_drop(s->g, &part);
}

/* Returns the number of rows in the batch that starts at row `at`. With error feedback, a batch
 * ends where its matrix ends. */
static int64_t batch_rows(const struct batch_job *j, int64_t at) {
    const int64_t ne1 = j->t->ne[1];
    return min_i64(max_i64(1, BATCH_BYTES / 4 / j->t->ne[0]),
                   j->fb ? ne1 - at % ne1 : n_rows(j->t->ne) - at);
}

/* Writes one tensor in batches to n_takers targets. `have` holds its encoded bytes; NULL: the
 * tensor is encoded. */
static int run_batches(struct target *q, struct batch_job *j, int64_t index, int n_takers,
                       const uint8_t *have, struct err *e) {
    struct source *s = q->s;
    for (int64_t at = 0, n; at < n_rows(j->t->ne); at += n) {
        n = batch_rows(j, at);
        if (progress_interrupted()) return err_set(e, ERR_INTR, "interrupted");
        if (!j->fb || at % j->t->ne[1] == 0) s->item++;
        uint64_t bytes = (uint64_t)n * j->dst_row;
        TRY(writer_buffer(s->writer, bytes, &j->out, e));
        if (have)
            memcpy(j->out, have + (uint64_t)at * j->dst_row, bytes);
        else if (ranks_mine(s->item))
            TRY(batch_encode(j, at, n, gguf_path(s->g), e));
        ranks_send(s->item, j->out, bytes);
        if (ranks_me() == 0) writer_put(s->writer, bytes, write_rows, q, index);
        drop_rows(s, j, at, n);
        progress_update(&s->prog, s->prog.done + (uint64_t)n_takers * (uint64_t)n * j->src_row);
    }
    return 0;
}

/* ---- one tensor ------------------------------------------------------------------------------ */

/* Returns the damping in use: the option's value or TAU_DEFAULT; 0 if negative. */
static double tau_of(const struct quantize_opts *o) {
    return o->tau < 0 ? 0 : o->tau > 0 ? o->tau : TAU_DEFAULT;
}

/* Sets *out to a tensor's importance as floats, NULL if it has none, and *blind to the number of
 * its matrices without their own importance. */
static int load_importance(const struct source *s, const struct quantize_opts *o,
                           const struct gguf_tensor *t, enum role role, float **out, int64_t *blind,
                           struct err *e) {
    *out = NULL;
    *blind = 0;
    struct imat_entry *en = s->imat ? imat_find(s->imat, t->name) : NULL;
    if (!en) return 0;
    int64_t n_mat = t->ne[2] * t->ne[3];
    struct err why;
    if (imat_fit(en, t->ne[0], n_mat, &why) != 0) {
        if (role == ROLE_TOKEN_EMBD) return 0;
        return err_set(e, ERR_DATA,
                       "%s: entry %s is for %lld columns x %lld matrices, but the tensor of %s has "
                       "%lld x %lld: the importance matrix belongs to another model",
                       o->imatrix, t->name, (long long)en->ne0, (long long)en->n_mat,
                       gguf_path(s->g), (long long)t->ne[0], (long long)n_mat);
    }
    *blind = imat_blind(en);
    if (*blind == n_mat) return 0;
    void *p;
    TRY(mem_alloc(&p, (uint64_t)n_mat * (uint64_t)t->ne[0] * sizeof(float),
                  "importance of a tensor", e));
    imat_weights(en, o->search == SEARCH_CONVENTIONAL ? 0 : tau_of(o), p);
    *out = p;
    return 0;
}

/* Loads row `row` as floats; returns false if it has a value that is not finite. */
static bool load_row(void *ctx, int64_t row, float *x) {
    return batch_load(ctx, row, x);
}

/* Finds the moments for a tensor: those of its input or, for embeddings, those from the first
 * block. *out is NULL if there is no such input. */
static int find_moments(struct source *s, const struct gguf_tensor *t, enum role role,
                        struct pool *pool, const struct gram_input **out, struct err *e) {
    *out = s->gram ? gram_find(s->gram, t->name) : NULL;
    if (!s->gram || *out || role != ROLE_TOKEN_EMBD) return 0;
    if (!s->embd.sum) TRY(embd_moments_make(&s->embd, s->g, pool, e));
    *out = embd_moments_find(&s->embd, s->gram, t->name);
    return 0;
}

/* Sets up error feedback for a tensor if the moments of its input are known, its type supports it
 * and it reduces the loss. *alpha is then its shrinkage. */
static int open_feedback(struct source *s, const struct quantize_opts *o, enum role role,
                         struct batch_job *j, double *alpha, struct err *e) {
    const struct gguf_tensor *t = j->t;
    const struct gram_input *in;
    if (!j->enc || j->search == SEARCH_CONVENTIONAL || !feedback_can(j->to)) return 0;
    if (j->exact && exact_in(t, j->to, o->pool)) return 0; /* there is no error to feed back */
    TRY(find_moments(s, t, role, o->pool, &in, e));
    if (!in) return 0;
    struct fb_source src = {.in = in,
                            .out = gram_find_out(s->gram, t->name, t->ne[1], t->ne[2] * t->ne[3]),
                            .type = j->to,
                            .search = j->search,
                            .n = t->ne[0],
                            .rows = t->ne[1],
                            .n_mat = t->ne[2] * t->ne[3],
                            .imp = j->imp,
                            .load = load_row,
                            .ctx = j,
                            .tau = tau_of(o),
                            .steps = FEEDBACK_ALL & ~o->without,
                            .pool = o->pool,
                            .factors = s->factors};
    if (fb_tensor_new(&j->fb, &src, e)) return err_wrap(e, "%s", o->gram);
    if (fb_tensor_alpha(j->fb) < 1) {
        *alpha = fb_tensor_alpha(j->fb);
        return 0;
    }
    fb_tensor_free(j->fb);
    j->fb = NULL;
    return 0;
}

/* State of encoding one tensor to one type. */
struct encoding {
    struct batch_job j;
    float *imp;
    double alpha; /* shrinkage of error feedback; 0: not used */
};

/* Prepares to encode a tensor, or to write it if `have` holds its bytes. Call encoding_close even
 * after an error. */
static int encoding_open(struct encoding *x, struct source *s, const struct quantize_opts *o,
                         const struct gguf_tensor *t, const struct recipe_item *it,
                         const struct quantize_given *have, struct err *e) {
    int64_t unused;
    *x = (struct encoding){.j = {.t = t,
                                 .to = it->type,
                                 .search = o->search,
                                 .keep = !(o->without & FEEDBACK_BALANCE),
                                 .feed = s->gram != NULL,
                                 .pool = o->pool},
                           .alpha = have ? have->alpha : 0};
    if (it->type != t->type && !have) TRY(load_importance(s, o, t, it->role, &x->imp, &unused, e));
    x->j.imp = x->imp;
    TRY(batch_open(&x->j, &s->ref, e));
    return have ? 0 : open_feedback(s, o, it->role, &x->j, &x->alpha, e);
}
static void encoding_close(struct encoding *x) {
    batch_close(&x->j);
    mem_free(x->imp);
}

/* Returns the tensor that the caller gave under this name; NULL: not given. */
static const struct quantize_given *find_given(const struct quantize_opts *o, const char *name) {
    for (int i = 0; i < o->n_given; i++)
        if (strcmp(o->given[i].name, name) == 0) return &o->given[i];
    return NULL;
}

/* Sets *to, and *have to it, if the tensor was learned for this output. */
static int find_learned(const struct target *q, const struct gguf_tensor *t,
                        struct quantize_given *to, const struct quantize_given **have,
                        struct err *e) {
    const struct gram_learned *l = q->learned ? gram_find_learned(q->s->gram, t->name) : NULL;
    if (!l || *have) return 0;
    if (learned_check(l, t, e)) return err_wrap(e, "%s", q->o->gram);
    *to = (struct quantize_given){.name = l->name, .data = l->data};
    *have = to;
    return 0;
}

/* Encodes a tensor for `first`, and for the later targets that want the same type. */
static int do_tensor(struct target *first, int64_t index, struct err *e) {
    struct source *s = first->s;
    const struct gguf_tensor *t = gguf_tensor_at(s->g, index);
    const struct quantize_given *have = find_given(first->o, t->name);
    struct quantize_given learned;
    struct encoding x;
    int rc, n_takers = 0;
    TRY(find_learned(first, t, &learned, &have, e));
    TRY_GOTO(out, rc, encoding_open(&x, s, first->o, t, &first->plan.item[index], have, e));
    for (int k = 0; k < s->n; k++) {
        if (!wants_bytes(&s->target[k], first, index)) continue;
        n_takers++;
        s->target[k].r->rows[index].alpha = x.alpha;
        s->target[k].r->n_feedback += x.alpha > 0;
    }
    if (!have) TRY_GOTO(out, rc, batch_device(&x.j, s->dev, e));
    TRY_GOTO(out, rc, run_batches(first, &x.j, index, n_takers, have ? have->data : NULL, e));
    for (int k = 0; k < s->n && x.j.dev; k++)
        s->target[k].r->n_cuda += wants_bytes(&s->target[k], first, index);
out:
    encoding_close(&x);
    return rc;
}

int quantize_tensor(const struct quantize_opts *o, struct gguf *g, const struct imat *imat,
                    const struct gram *gram, const struct qplan *plan, int64_t index, void **out,
                    double *alpha, struct err *e) {
    struct source s = {.g = g, .imat = imat, .gram = gram};
    const struct gguf_tensor *t = gguf_tensor_at(g, index);
    const int64_t rows = n_rows(t->ne);
    struct encoding x;
    void *p = NULL;
    int rc;
    kern_init(&s.ref, KERN_REF);
    TRY_GOTO(out, rc, encoding_open(&x, &s, o, t, &plan->item[index], NULL, e));
    TRY_GOTO(out, rc, mem_alloc(&p, x.j.dst_row * (uint64_t)rows, "an encoded tensor", e));
    for (int64_t at = 0, n; at < rows; at += n) {
        n = batch_rows(&x.j, at);
        TRY_GOTO(out, rc, progress_interrupted() ? err_set(e, ERR_INTR, "interrupted") : 0);
        x.j.out = (uint8_t *)p + (uint64_t)at * x.j.dst_row;
        TRY_GOTO(out, rc, batch_encode(&x.j, at, n, gguf_path(g), e));
    }
    *out = p;
    *alpha = x.alpha;
    p = NULL;
out:
    encoding_close(&x);
    embd_moments_release(&s.embd);
    mem_free(p);
    return rc;
}

/* ---- the file -------------------------------------------------------------------------------- */

static bool starts_with(const char *s, const char *head) {
    return strncmp(s, head, strlen(head)) == 0;
}

/* Writes the output's keys, including the record of this run. */
static int write_keys(struct target *q, struct err *e) {
    bool any = false;
    struct buf record = {0};
    struct requant base;
    for (int64_t i = 0; i < gguf_n_kv(q->s->g); i++) {
        const struct gguf_kv *kv = gguf_kv_at(q->s->g, i);
        if (!starts_with(kv->key, "split.") && !starts_with(kv->key, "quantize.imatrix.") &&
            !starts_with(kv->key, "hone.mix.") && strcmp(kv->key, RECORD_KEY) != 0 &&
            strcmp(kv->key, REQUANT_KEY) != 0)
            gguf_w_copy_kv(q->w, kv);
    }
    for (int64_t i = 0; i < q->plan.n; i++)
        any |= (qtype_info(q->plan.item[i].type)->flags & QF_QUANT) != 0;
    if (any) gguf_w_u32(q->w, "general.quantization_version", 2);
    if (q->plan.ftype >= 0) gguf_w_u32(q->w, "general.file_type", (uint32_t)q->plan.ftype);
    if (q->o->tmpl) gguf_w_str(q->w, "tokenizer.chat_template", q->o->tmpl);
    for (int i = 0; i < q->o->n_notes; i++)
        gguf_w_str(q->w, q->o->note[i].key, q->o->note[i].value);
    requant_look(q->s->g, &base);
    if (base.quantized) gguf_w_str(q->w, REQUANT_KEY, base.type);
    int rc = record_text(&record, q->o, q->s->g, e);
    if (rc == 0) gguf_w_str(q->w, RECORD_KEY, record.data);
    buf_release(&record);
    if (rc || !q->s->imat) return rc;
    gguf_w_str(q->w, "quantize.imatrix.file", io_base(q->o->imatrix));
    if (q->s->imat->n_datasets > 0)
        gguf_w_str(q->w, "quantize.imatrix.dataset", q->s->imat->dataset[0]);
    gguf_w_u32(q->w, "quantize.imatrix.entries_count", (uint32_t)q->s->imat->n_entries);
    gguf_w_u32(q->w, "quantize.imatrix.chunks_count", q->s->imat->n_chunks);
    return 0;
}

/* Writes the keys and declares the tensors of one output. */
static int declare_target(struct target *q, struct err *e) {
    TRY(write_keys(q, e));
    for (int64_t i = 0; i < q->plan.n; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(q->s->g, i);
        TRY(gguf_w_tensor(q->w, t->name, q->plan.item[i].type, t->n_dims, t->ne, e));
    }
    if (q->o->split_max) gguf_w_split(q->w, q->o->split_max, true);
    return 0;
}

/* Checks that the moments of a weight's input match its columns, and that there is one matrix or
 * one per expert. */
static int check_gram(const struct target *q, const struct gguf_tensor *t, struct err *e) {
    const struct gram_input *in = gram_find(q->s->gram, t->name);
    int64_t n_mat = t->ne[2] * t->ne[3];
    if (!in || (in->n == t->ne[0] && (in->n_mat == 1 || in->n_mat == n_mat))) return 0;
    return err_set(
        e, ERR_DATA,
        "%s: moments of %s are for %lld columns x %lld matrices, but the tensor of %s has "
        "%lld x %lld: they belong to another model",
        q->o->gram, t->name, (long long)in->n, (long long)in->n_mat, gguf_path(q->s->g),
        (long long)t->ne[0], (long long)n_mat);
}

/* Refuses a type that needs importance, and names the recipe that has such tensors. */
static int too_coarse(const struct target *q, const char *tensor, enum qtype type, struct err *e) {
    const struct gguf *g = q->s->g;
    const bool recipe = !q->o->is_type && !q->o->n_over && recipe_find(q->plan.name),
               runs = arch_find(gguf_str_or(g, "general.architecture", "")) != NULL;
    return err_set(e, ERR_USAGE,
                   "tensor %s: %s%s%s%s%s too coarse without importance%s%s; %s and pass it as "
                   "--imatrix, or %s",
                   tensor, recipe ? "recipe " : "", recipe ? q->plan.name : "",
                   recipe ? " gives it " : "", qtype_name(type), recipe ? ", which is" : " is",
                   q->s->imat ? ", which is missing from " : "", q->s->imat ? q->o->imatrix : "",
                   runs ? "make a matrix with `hone imatrix`"
                        : "take a matrix from a program that runs this model",
                   recipe ? "take a recipe without such types: Q2_K or Q3_K_M"
                   : q->o->is_type && !q->o->n_over ? "take a type that needs none: Q2_K or Q3_K"
                                                    : "give the tensor another type with --tensor");
}

/* Checks, before any byte is written, that every source type can be decoded, every target type can
 * be written, and every importance entry has the right size. Fills the report. */
static int survey(struct target *q, struct err *e) {
    struct quantize_report *r = q->r;
    double weights = 0;
    int64_t n_blind = 0;
    const char *first_blind = "";
    r->rows = xcalloc((size_t)q->plan.n + 1, sizeof *r->rows);
    for (int64_t i = 0; i < q->plan.n; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(q->s->g, i);
        const struct recipe_item *it = &q->plan.item[i];
        bool same = it->type == t->type;
        int rc = 0;
        if (!same && !q->s->ref.op[t->type].decode)
            rc = err_set(e, ERR_DATA, "%s: tensor %s has type %s, which cannot be decoded",
                         gguf_path(q->s->g), t->name, qtype_name(t->type));
        else if (!same && !enc_find(it->type))
            rc = err_set(e, ERR_USAGE, "tensor %s: type %s cannot be written", t->name,
                         qtype_name(it->type));
        if (rc) return err_about(e, gguf_path(q->s->g), t->name);
        struct quantize_row *row = &r->rows[i];
        memcpy(row->name, t->name,
               strlen(t->name) < sizeof row->name ? strlen(t->name) : sizeof row->name - 1);
        row->role = role_name(it->role);
        row->from = t->type;
        row->to = it->type;
        row->n_weights = t->ne[0] * n_rows(t->ne);
        row->in_bytes = t->n_bytes;
        row->out_bytes = qtype_row_bytes(it->type, t->ne[0]) * (uint64_t)n_rows(t->ne);
        row->fallback = it->fallback;
        if (!same) {
            float *imp = NULL;
            int64_t blind;
            TRY(load_importance(q->s, q->o, t, it->role, &imp, &blind, e));
            if (imp && blind && !n_blind) first_blind = t->name;
            if (imp) n_blind += blind;
            if (q->s->gram) TRY(check_gram(q, t, e));
            row->no_imatrix = !imp && q->s->imat && it->role != ROLE_TOKEN_EMBD &&
                              (qtype_info(it->type)->flags & QF_QUANT);
            bool bare = !imp;
            mem_free(imp);
            if (bare && !q->o->dry_run && recipe_needs_imatrix(q->plan.name, it))
                return too_coarse(q, t->name, it->type, e);
        }
        r->n_tensors++;
        r->n_quantized += !same;
        r->n_fallbacks += row->fallback;
        r->n_no_imatrix += row->no_imatrix;
        r->in_bytes += row->in_bytes;
        r->out_bytes += row->out_bytes;
        weights += (double)row->n_weights;
    }
    r->bpw = weights > 0 ? 8.0 * (double)r->out_bytes / weights : 0;
    if (n_blind && q == &q->s->target[q->s->n - 1] && !q->o->dry_run && !q->o->known_gaps)
        log_warn("%s: %lld expert matrices have no importance (the first in %s): they use their "
                 "tensor's mean; run hone imatrix on more text",
                 q->o->imatrix, (long long)n_blind, first_blind);
    return 0;
}

/* Returns an error if the output exists (unless allowed) or is one of the inputs. */
static int check_paths(const struct quantize_opts *o, struct err *e) {
    const char *const in[] = {o->in, o->imatrix, o->gram};
    if (o->dry_run || !o->out) return 0;
    TRY(out_apart(o->out, in, COUNT_OF(in), e));
    return out_check(o->out, o->overwrite, e);
}

/* Does everything for one output that can fail without reading weights. */
static int prepare(struct target *q, struct err *e) {
    const struct quantize_opts *o = q->o;
    char hash[33];
    TRY(qplan_make(&q->plan, q->s->g, o, e));
    memcpy(q->r->recipe, q->plan.name, sizeof q->r->recipe);
    q->r->exact = q->plan.exact;
    TRY(survey(q, e));
    if (o->plan_out && ranks_me() == 0) TRY(qplan_write(&q->plan, o->plan_out, o->overwrite, e));
    q->w = gguf_w_new();
    TRY(declare_target(q, e));
    if (o->out && !o->dry_run) TRY(gguf_w_apart(q->w, o->out, q->s->g, e));
    if (o->spared && !o->dry_run) TRY(gguf_w_apart(q->w, o->out, o->spared, e));
    q->r->file_bytes = gguf_w_total_bytes(q->w);
    q->r->n_files = gguf_w_header_hash(q->w, hash);
    return 0;
}

/* Opens the output. Tensors that an earlier run has completed count as done, on every rank. */
static int begin_output(struct target *q, struct err *e) {
    const struct quantize_opts *o = q->o;
    bool part = o->resume == RESUME_ALWAYS ||
                (o->resume == RESUME_AUTO && q->r->file_bytes >= QUANTIZE_RESUME_BYTES);
    if (ranks_me() == 0 && !part) TRY(gguf_w_begin(q->w, o->out, o->overwrite, e));
    if (ranks_me() == 0 && part) TRY(resume_begin(&q->resume, q->w, o, q->s->g, &q->n_done, e));
    ranks_bcast(&q->n_done, sizeof q->n_done);
    q->r->n_resumed = q->n_done;
    for (int64_t i = 0; i < q->n_done; i++) {
        q->s->prog.total -= q->r->rows[i].in_bytes;
        if (q->resume) q->r->rows[i].alpha = resume_alpha(q->resume, i);
        q->r->n_feedback += q->r->rows[i].alpha > 0;
    }
    return 0;
}

/* Writes all outputs of one tensor before reading the next. The first target that wants a type
 * encodes it; other targets of that type reuse the bytes. */
static int all_tensors(struct source *s, struct err *e) {
    for (int64_t i = 0; i < s->target->plan.n; i++) {
        if (s->factors) factors_next(s->factors);
        for (int k = 0, first; k < s->n; k++) {
            for (first = 0; !wants_bytes(&s->target[first], &s->target[k], i) && first < k;)
                first++;
            if (first == k && i >= s->target[k].n_done) TRY(do_tensor(&s->target[k], i, e));
        }
        gguf_drop(s->g, gguf_tensor_at(s->g, i));
    }
    return writer_flush(s->writer, e);
}

/* Opens the model, importance matrix and second moments that the options name. */
static int read_inputs(struct source *s, struct imat *imat, struct gram *gram,
                       const struct quantize_opts *o, struct err *e) {
    TRY(gguf_open(&s->g, o->in, 0, e));
    if (strcmp(gguf_str_or(s->g, "general.type", ""), "imatrix") == 0)
        return err_set(e, ERR_DATA, "%s is an importance matrix, not a model: give it as --imatrix",
                       o->in);
    if (o->imatrix) {
        TRY(imat_read(imat, o->imatrix, e));
        s->imat = imat;
    }
    if (o->gram) {
        TRY(gram_read(gram, o->gram, e));
        if (!o->dry_run && !o->known_gaps && ranks_me() == 0) gram_warn_empty(gram, o->gram);
        s->gram = gram;
        s->factors = factors_new();
    }
    return 0;
}

/* Logs the tensors that an output stores without loss, or equal after rounding to the source's
 * type. */
static void log_exact(const struct qplan *p) {
    for (int how = 0; how < EXACT_HOW_COUNT; how++)
        for (int t = 0; t < QT_COUNT; t++) {
            const long long n = p->exact.n[how][t];
            if (!n) continue;
            const char *name = qtype_name((enum qtype)t), *to = exact_source((enum exact_how)how),
                       *are = n == 1 ? " is" : "s are";
            if (to)
                log_info("%lld tensor%s equal to the source in %s after rounding to %s", n, are,
                         name, to);
            else
                log_info("%lld tensor%s exact in %s: stored without loss", n, are, name);
        }
}

/* Decides whether an output takes the learned tensors of the moments. */
static void use_learned(struct target *q) {
    q->learned = learned_fit(q->s->gram, q->s->g, &q->plan);
    if (q->learned)
        log_info("%d learned tensors of %s are copied", q->s->gram->n_learned, q->o->gram);
    else
        log_warn("%s: its learned tensors have other names, types or shapes than those of %s: they "
                 "are ignored",
                 q->o->gram, q->plan.name);
}

/* Makes all outputs, reading the source once. */
static int run_targets(struct source *s, struct imat *imat, struct gram *gram, struct err *e) {
    const struct quantize_opts *o = s->target->o;
    uint64_t total = 0;
    for (int k = 0; k < s->n; k++) TRY(check_paths(s->target[k].o, e));
    TRY(read_inputs(s, imat, gram, o, e));
    for (int k = 0; k < s->n; k++) {
        TRY(prepare(&s->target[k], e));
        total += s->target[k].r->in_bytes;
    }
    for (int k = 0; k < s->n && gram->n_learned && !o->n_given; k++) use_learned(&s->target[k]);
    if (o->dry_run || s->check) return 0;
    for (int k = 0; k < s->n; k++) log_exact(&s->target[k].plan);
    TRY(writer_new(&s->writer, e));
    TRY(qdev_open(&s->dev, &o->device, o->pool, e));
    int rc = 0;
    progress_begin(&s->prog, s->n == 1 ? s->target->plan.name : "quantize", PROG_BYTES, total);
    for (int k = 0; k < s->n && rc == 0; k++) rc = begin_output(&s->target[k], e);
    if (rc == 0) rc = all_tensors(s, e);
    progress_end(&s->prog);
    for (int k = 0; k < s->n && rc == 0 && ranks_me() == 0; k++) {
        struct target *q = &s->target[k];
        rc = gguf_w_commit(q->w, e);
        if (rc) break;
        resume_end(q->resume, 0);
        q->resume = NULL;
    }
    return rc;
}

/* Writes several outputs or, with `check`, only prepares them. */
static int run_many(const struct quantize_opts *o, int n, struct quantize_report *r, bool check,
                    struct err *e) {
    struct source s = {.target = xcalloc((size_t)n, sizeof *s.target), .n = n, .check = check};
    struct imat imat;
    struct gram gram;
    double t0 = progress_now_s();
    memset(r, 0, (size_t)n * sizeof *r);
    for (int k = 0; k < n; k++) s.target[k] = (struct target){.s = &s, .o = &o[k], .r = &r[k]};
    kern_init(&s.ref, KERN_REF);
    imat_init(&imat);
    gram_init(&gram);
    int rc = run_targets(&s, &imat, &gram, e);
    writer_free(s.writer);
    qdev_close(s.dev);
    for (int k = 0; k < n; k++) {
        struct target *q = &s.target[k];
        resume_end(q->resume, rc);
        gguf_w_free(q->w);
        qplan_release(&q->plan);
        r[k].seconds = progress_now_s() - t0;
        if (rc || !o[k].want_rows) quantize_report_release(&r[k]);
    }
    imat_release(&imat);
    gram_release(&gram);
    if (s.factors)
        log_debug("%lld factors of moments computed", (long long)factors_made(s.factors));
    factors_free(s.factors);
    embd_moments_release(&s.embd);
    gguf_close(s.g);
    free(s.target);
    return rc;
}

int quantize_run_many(const struct quantize_opts *o, int n, struct quantize_report *r,
                      struct err *e) {
    return run_many(o, n, r, false, e);
}

int quantize_run(const struct quantize_opts *o, struct quantize_report *r, struct err *e) {
    return run_many(o, 1, r, false, e);
}

int quantize_check(const struct quantize_opts *o, struct err *e) {
    struct quantize_opts q = *o;
    struct quantize_report r;
    q.gram = NULL;
    q.want_rows = false;
    TRY(run_many(&q, 1, &r, true, e));
    return ranks_me() == 0 ? out_try(q.out, q.overwrite, e) : 0;
}

void quantize_report_release(struct quantize_report *r) {
    free(r->rows);
    r->rows = NULL;
}
