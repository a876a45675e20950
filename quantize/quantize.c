// SPDX-License-Identifier: MIT
/* quantize/quantize.c - the streaming driver: GGUF + importance -> smaller GGUF, tensor by tensor.
 *
 * Rows are taken in batches of at most 32 MiB (as f32); each row of a batch is decoded, checked and
 * encoded on its own by some worker, and the batches are written in order by a thread of their own
 * (base/writer.h) while the next are encoded: the bytes do not depend on the number of threads.
 * Source rows are decoded by the scalar kernels, whose values are the same on every machine. Peak
 * memory: three batches of output, the source's pages of one, a row of f32 per thread, and the
 * importance of one tensor; of several ranks (base/ranks.h) each encodes its share. NaN and
 * infinities are refused by name; a tensor whose type stays is copied byte for byte, checked too.
 */
#include "quantize/quantize.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "containers/gguf.h"
#include "quantize/imat_file.h"
#include "base/io.h"
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
#include "quantize/enc/gridq.h"
#include "quantize/fb_tensor.h"
#include "quantize/feedback.h"
#include "quantize/qplan.h"
#include "quantize/record.h"
#include "quantize/requant.h"
#include "quantize/resume.h"

enum { BATCH_BYTES = 32 << 20, TAU_DEFAULT = 256 };

struct run {
    const struct quantize_opts *o;
    struct gguf *g;
    struct gguf_w *w;
    struct qplan plan;
    struct imat imat;
    struct gram gram;
    bool have_imat, have_gram;
    /* The moments of embeddings for all runs, made when they are first asked for. */
    struct embd_moments *embd;
    struct kern ref;
    struct quantize_report *r;
    struct progress *prog; /* The progress of all runs over the source. */
    /* The number of batches and of matrices with error feedback so far, by which ranks share
     * them out. */
    int64_t item;
    struct writer *writer; /* The writer of all runs. */
    struct qdev *dev;      /* The device of all runs, or NULL where only the CPU encodes. */
    /* What an interrupted output is continued by, or NULL where it is removed. */
    struct resume *resume;
    int64_t n_done;   /* How many tensors an earlier run has completed. */
    struct run *next; /* The next run over the same source. */
};

/* Returns the first run in the list from `from` on that can take over the bytes that q made of a
 * tensor: it wants the same type, and an earlier call has not written the tensor yet. NULL: there
 * is none. */
static struct run *follower(const struct run *q, struct run *from, int64_t tensor) {
    enum qtype type = q->plan.item[tensor].type;
    while (from && (from->plan.item[tensor].type != type || tensor < from->n_done))
        from = from->next;
    return from;
}

static int64_t n_rows(const int64_t ne[4]) {
    return ne[1] * ne[2] * ne[3];
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Writes rows of a tensor to all outputs that take these bytes. The writer's thread calls it, for
 * the rows of a tensor in their order. */
static int write_rows(void *ctx, int64_t tensor, const uint8_t *p, uint64_t n, struct err *e) {
    struct run *q = ctx;
    for (struct run *to = q; to; to = follower(q, to->next, tensor)) {
        TRY(gguf_w_data(to->w, p, n, e));
        if (to->resume) TRY(resume_data(to->resume, p, n, to->r->rows[tensor].alpha, e));
    }
    return 0;
}

/* Tells the system that the pages of n rows from `first` are not needed for now. */
static void drop_rows(const struct run *q, const struct batch_job *j, int64_t first, int64_t n) {
    struct gguf_tensor part = *j->t; /* gguf_drop looks only at where the data are and how many. */
    part.off += (uint64_t)first * j->src_row;
    part.n_bytes = (uint64_t)n * j->src_row;
    gguf_drop(q->g, &part);
}

/* Writes one tensor in batches of rows: `have` are its bytes; NULL: they are encoded here. */
static int run_batches(struct run *q, struct batch_job *j, int64_t index, const uint8_t *have,
                       struct err *e) {
    int64_t rows = n_rows(j->t->ne), ne0 = j->t->ne[0];
    int64_t per_batch = max_i64(1, BATCH_BYTES / 4 / ne0);
    for (int64_t at = 0, n; at < rows; at += n) {
        int64_t in_mat = at % j->t->ne[1];
        n = min_i64(per_batch, j->fb ? j->t->ne[1] - in_mat : rows - at);
        if (progress_interrupted()) return err_set(e, ERR_INTR, "interrupted");
        if (!j->fb || in_mat == 0) q->item++;
        uint64_t bytes = (uint64_t)n * j->dst_row;
        TRY(writer_buffer(q->writer, bytes, &j->out, e));
        if (have)
            memcpy(j->out, have + (uint64_t)at * j->dst_row, bytes);
        else if (ranks_mine(q->item))
            TRY(batch_encode(j, at, n, gguf_path(q->g), e));
        ranks_send(q->item, j->out, bytes);
        if (ranks_me() == 0) writer_put(q->writer, bytes, write_rows, q, index);
        drop_rows(q, j, at, n);
        for (struct run *to = q; to; to = follower(q, to->next, index))
            q->prog->done += (uint64_t)n * j->src_row;
        progress_update(q->prog, q->prog->done);
    }
    return 0;
}

/* ---- one tensor ------------------------------------------------------------------------------ */

/* Sets *out to the importance of a tensor as floats; NULL when it has none. *blind is the number of
 * its matrices without importance of their own. */
static int find_importance(struct run *q, const struct gguf_tensor *t, enum role role, float **out,
                           int64_t *blind, struct err *e) {
    *out = NULL;
    *blind = 0;
    struct imat_entry *en = q->have_imat ? imat_find(&q->imat, t->name) : NULL;
    if (!en) return 0;
    int64_t n_mat = t->ne[2] * t->ne[3];
    struct err why;
    if (imat_fit(en, t->ne[0], n_mat, &why) != 0) {
        if (role == ROLE_TOKEN_EMBD) return 0;
        return err_set(e, ERR_DATA,
                       "%s: entry %s is for %lld columns x %lld matrices, but the tensor of %s has "
                       "%lld x %lld: the importance matrix belongs to another model",
                       q->o->imatrix, t->name, (long long)en->ne0, (long long)en->n_mat,
                       gguf_path(q->g), (long long)t->ne[0], (long long)n_mat);
    }
    *blind = imat_blind(en);
    if (*blind == n_mat) return 0;
    void *p;
    TRY(mem_alloc(&p, (uint64_t)n_mat * (uint64_t)t->ne[0] * sizeof(float),
                  "importance of a tensor", e));
    double tau = q->o->tau < 0 ? 0 : q->o->tau > 0 ? q->o->tau : TAU_DEFAULT;
    imat_weights(en, q->o->search == SEARCH_CONVENTIONAL ? 0 : tau, p);
    *out = p;
    return 0;
}

static int importance(struct run *q, const struct gguf_tensor *t, enum role role, float **out,
                      struct err *e) {
    int64_t unused;
    return find_importance(q, t, role, out, &unused, e);
}

static bool load_row(void *ctx, int64_t row, float *x) {
    return batch_load(ctx, row, x);
}

/* Notes error feedback's shrinkage for all runs that take these bytes. */
static void note_feedback(struct run *q, int64_t index, double alpha) {
    for (struct run *to = q; to; to = follower(q, to->next, index)) {
        to->r->rows[index].alpha = alpha;
        to->r->n_feedback++;
    }
}

/* Finds the moments for a tensor: those of its input, or, for embeddings, those that the first
 * block gives. NULL where there are none. */
static int moments(struct run *q, const struct gguf_tensor *t, enum role role,
                   const struct gram_input **out, struct err *e) {
    *out = q->have_gram ? gram_find(&q->gram, t->name) : NULL;
    if (!q->have_gram || *out || role != ROLE_TOKEN_EMBD) return 0;
    if (!q->embd->sum) TRY(embd_moments_make(q->embd, q->g, q->o->pool, e));
    *out = embd_moments_find(q->embd, &q->gram, t->name);
    return 0;
}

/* Encodes a tensor with error feedback, if the moments of its input are known, its type can and it
 * pays. */
static int feedback(struct run *q, struct batch_job *j, int64_t index, struct err *e) {
    const struct gguf_tensor *t = j->t;
    const struct gram_input *in;
    if (!j->enc || j->search == SEARCH_CONVENTIONAL || !feedback_can(j->to)) return 0;
    TRY(moments(q, t, q->plan.item[index].role, &in, e));
    if (!in) return 0;
    struct fb_source src = {.in = in,
                            .out = gram_find_out(&q->gram, t->name, t->ne[1], t->ne[2] * t->ne[3]),
                            .type = j->to,
                            .search = j->search,
                            .n = t->ne[0],
                            .rows = t->ne[1],
                            .n_mat = t->ne[2] * t->ne[3],
                            .imp = j->imp,
                            .load = load_row,
                            .ctx = j,
                            .tau = q->o->tau < 0   ? 0
                                   : q->o->tau > 0 ? q->o->tau
                                                   : TAU_DEFAULT,
                            .steps = FEEDBACK_ALL & ~q->o->without,
                            .pool = q->o->pool};
    if (fb_tensor_new(&j->fb, &src, e)) return err_wrap(e, "%s", q->o->gram);
    if (fb_tensor_alpha(j->fb) < 1) {
        note_feedback(q, index, fb_tensor_alpha(j->fb));
        return 0;
    }
    fb_tensor_free(j->fb);
    j->fb = NULL;
    return 0;
}

static const struct quantize_given *given(const struct run *q, const char *name) {
    for (int i = 0; i < q->o->n_given; i++)
        if (strcmp(q->o->given[i].name, name) == 0) return &q->o->given[i];
    return NULL;
}

static int do_tensor(struct run *q, int64_t index, struct err *e) {
    const struct gguf_tensor *t = gguf_tensor_at(q->g, index);
    const struct quantize_given *have = given(q, t->name);
    const struct recipe_item *it = &q->plan.item[index];
    struct batch_job j = {.t = t,
                          .to = it->type,
                          .search = q->o->search,
                          .keep = !(q->o->without & FEEDBACK_BALANCE),
                          .pool = q->o->pool};
    float *imp = NULL;
    int rc = 0;
    if (it->type != t->type && !have) TRY(importance(q, t, it->role, &imp, e));
    j.imp = imp;
    TRY_GOTO(out, rc, batch_open(&j, &q->ref, e));
    if (have && have->alpha > 0) note_feedback(q, index, have->alpha);
    if (!have) TRY_GOTO(out, rc, feedback(q, &j, index, e));
    if (!have) TRY_GOTO(out, rc, batch_device(&j, q->dev, e));
    TRY_GOTO(out, rc, run_batches(q, &j, index, have ? have->data : NULL, e));
    for (struct run *r = q; r && j.dev; r = follower(q, r->next, index)) r->r->n_cuda++;
out:
    batch_close(&j);
    mem_free(imp);
    return rc;
}

int quantize_tensor(const struct quantize_opts *o, struct gguf *g, const struct imat *imat,
                    const struct gram *gram, const struct qplan *plan, int64_t index, void **out,
                    double *alpha, struct err *e) {
    struct quantize_report report = {.rows = xcalloc((size_t)plan->n, sizeof *report.rows)};
    struct run *q = xcalloc(1, sizeof *q);
    struct embd_moments embd = {0};
    const struct gguf_tensor *t = gguf_tensor_at(g, index);
    const enum role role = plan->item[index].role;
    const int64_t rows = n_rows(t->ne), per = max_i64(1, BATCH_BYTES / 4 / t->ne[0]);
    struct batch_job j = {.t = t,
                          .to = plan->item[index].type,
                          .search = o->search,
                          .keep = !(o->without & FEEDBACK_BALANCE),
                          .pool = o->pool};
    float *imp = NULL;
    void *p = NULL;
    int rc = 0;
    q->o = o;
    q->g = g;
    q->plan = *plan;
    q->r = &report;
    q->embd = &embd;
    if (imat) q->imat = *imat;
    if (gram) q->gram = *gram;
    q->have_imat = imat != NULL;
    q->have_gram = gram != NULL;
    kern_init(&q->ref, KERN_REF);
    TRY_GOTO(out, rc, importance(q, t, role, &imp, e));
    j.imp = imp;
    TRY_GOTO(out, rc, batch_open(&j, &q->ref, e));
    TRY_GOTO(out, rc, feedback(q, &j, index, e));
    TRY_GOTO(out, rc, mem_alloc(&p, j.dst_row * (uint64_t)rows, "an encoded tensor", e));
    for (int64_t at = 0, n; at < rows; at += n) {
        n = min_i64(per, j.fb ? t->ne[1] - at % t->ne[1] : rows - at);
        TRY_GOTO(out, rc, progress_interrupted() ? err_set(e, ERR_INTR, "interrupted") : 0);
        j.out = (uint8_t *)p + (uint64_t)at * j.dst_row;
        TRY_GOTO(out, rc, batch_encode(&j, at, n, gguf_path(g), e));
    }
    *out = p;
    *alpha = report.rows[index].alpha;
    p = NULL;
out:
    batch_close(&j);
    embd_moments_release(&embd);
    mem_free(p);
    mem_free(imp);
    free(report.rows);
    free(q);
    return rc;
}

/* ---- the file -------------------------------------------------------------------------------- */

static bool starts_with(const char *s, const char *head) {
    return strncmp(s, head, strlen(head)) == 0;
}

static int write_keys(struct run *q, struct err *e) {
    bool any = false;
    struct buf record = {0};
    struct requant base;
    for (int64_t i = 0; i < gguf_n_kv(q->g); i++) {
        const struct gguf_kv *kv = gguf_kv_at(q->g, i);
        if (!starts_with(kv->key, "split.") && !starts_with(kv->key, "quantize.imatrix.") &&
            !starts_with(kv->key, "hone.mix.") && strcmp(kv->key, RECORD_KEY) != 0 &&
            strcmp(kv->key, REQUANT_KEY) != 0)
            gguf_w_copy_kv(q->w, kv);
    }
    for (int64_t i = 0; i < q->plan.n; i++)
        any |= (qtype_info(q->plan.item[i].type)->flags & QF_QUANT) != 0;
    if (any) gguf_w_u32(q->w, "general.quantization_version", 2);
    if (q->plan.ftype >= 0) gguf_w_u32(q->w, "general.file_type", (uint32_t)q->plan.ftype);
    for (int i = 0; i < q->o->n_notes; i++)
        gguf_w_str(q->w, q->o->note[i].key, q->o->note[i].value);
    requant_look(q->g, &base);
    if (base.quantized) gguf_w_str(q->w, REQUANT_KEY, base.type);
    int rc = record_text(&record, q->o, q->g, e);
    if (rc == 0) gguf_w_str(q->w, RECORD_KEY, record.data);
    buf_release(&record);
    if (rc || !q->have_imat) return rc;
    gguf_w_str(q->w, "quantize.imatrix.file", io_base(q->o->imatrix));
    if (q->imat.n_datasets > 0) gguf_w_str(q->w, "quantize.imatrix.dataset", q->imat.dataset[0]);
    gguf_w_u32(q->w, "quantize.imatrix.entries_count", (uint32_t)q->imat.n_entries);
    gguf_w_u32(q->w, "quantize.imatrix.chunks_count", q->imat.n_chunks);
    return 0;
}

static int declare(struct run *q, struct err *e) {
    TRY(write_keys(q, e));
    for (int64_t i = 0; i < q->plan.n; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(q->g, i);
        TRY(gguf_w_tensor(q->w, t->name, q->plan.item[i].type, t->n_dims, t->ne, e));
    }
    if (q->o->split_max) gguf_w_split(q->w, q->o->split_max, true);
    return 0;
}

/* Checks that the moments of a weight's input have as many columns as the weight, and are one
 * matrix or one per expert. */
static int check_gram(const struct run *q, const struct gguf_tensor *t, struct err *e) {
    const struct gram_input *in = gram_find(&q->gram, t->name);
    int64_t n_mat = t->ne[2] * t->ne[3];
    if (!in || (in->n == t->ne[0] && (in->n_mat == 1 || in->n_mat == n_mat))) return 0;
    return err_set(
        e, ERR_DATA,
        "%s: moments of %s are for %lld columns x %lld matrices, but the tensor of %s has "
        "%lld x %lld: they belong to another model",
        q->o->gram, t->name, (long long)in->n, (long long)in->n_mat, gguf_path(q->g),
        (long long)t->ne[0], (long long)n_mat);
}

/* Checks everything before a byte is written: every source type must be decodable, every target
 * type writable, and importance must have the right sizes. Fills the report. */
static int survey(struct run *q, struct err *e) {
    struct quantize_report *r = q->r;
    double weights = 0;
    int64_t n_blind = 0;
    const char *first_blind = "";
    r->rows = xcalloc((size_t)q->plan.n + 1, sizeof *r->rows);
    for (int64_t i = 0; i < q->plan.n; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(q->g, i);
        const struct recipe_item *it = &q->plan.item[i];
        bool same = it->type == t->type;
        int rc = 0;
        if (!same && !q->ref.op[t->type].decode)
            rc = err_set(e, ERR_DATA, "%s: tensor %s has type %s, which cannot be decoded",
                         gguf_path(q->g), t->name, qtype_name(t->type));
        else if (!same && !enc_find(it->type))
            rc = err_set(e, ERR_USAGE, "tensor %s: type %s cannot be written", t->name,
                         qtype_name(it->type));
        if (rc) return err_about(e, gguf_path(q->g), t->name);
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
            TRY(find_importance(q, t, it->role, &imp, &blind, e));
            if (imp && blind && !n_blind) first_blind = t->name;
            if (imp) n_blind += blind;
            if (q->have_gram) TRY(check_gram(q, t, e));
            row->no_imatrix = !imp && q->have_imat && it->role != ROLE_TOKEN_EMBD &&
                              (qtype_info(it->type)->flags & QF_QUANT);
            bool bare = !imp;
            mem_free(imp);
            if (bare && !q->o->dry_run && recipe_needs_imatrix(q->plan.name, it))
                return err_set(e, ERR_USAGE,
                               "tensor %s: %s is too coarse without importance%s%s; %s and pass it "
                               "as --imatrix, or give the tensor another type with --tensor",
                               t->name, qtype_name(it->type),
                               q->have_imat ? ", of which nothing is in " : "",
                               q->have_imat ? q->o->imatrix : "",
                               arch_find(gguf_str_or(q->g, "general.architecture", ""))
                                   ? "make a matrix with `hone imatrix`"
                                   : "take a matrix from a program that runs this model");
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
    if (n_blind && !q->next && !q->o->dry_run && !q->o->known_gaps)
        log_warn(
            "%s: %lld expert matrices have no importance (the first in %s): they take the mean "
            "of their tensor; collect it on more text",
            q->o->imatrix, (long long)n_blind, first_blind);
    return 0;
}

static int check_paths(const struct quantize_opts *o, struct err *e) {
    struct stat a, b;
    if (o->dry_run || !o->out) return 0;
    if (stat(o->in, &a) == 0 && stat(o->out, &b) == 0 && a.st_dev == b.st_dev &&
        a.st_ino == b.st_ino)
        return err_set(e, ERR_USAGE, "%s: input and output are the same file", o->out);
    return out_check(o->out, o->overwrite, e);
}

/* Does for one output everything that can fail without reading weights. */
static int prepare(struct run *q, struct err *e) {
    const struct quantize_opts *o = q->o;
    TRY(qplan_make(&q->plan, q->g, o, e));
    memcpy(q->r->recipe, q->plan.name, sizeof q->r->recipe);
    TRY(survey(q, e));
    if (o->plan_out && ranks_me() == 0) TRY(qplan_write(&q->plan, o->plan_out, o->overwrite, e));
    q->w = gguf_w_new();
    TRY(declare(q, e));
    q->r->file_bytes = gguf_w_total_bytes(q->w);
    return 0;
}

/* Opens the output. Tensors that an earlier run left complete count as done, on every rank. */
static int begin(struct run *q, struct err *e) {
    const struct quantize_opts *o = q->o;
    bool part = o->resume == RESUME_ALWAYS ||
                (o->resume == RESUME_AUTO && q->r->file_bytes >= QUANTIZE_RESUME_BYTES);
    if (ranks_me() == 0 && !part) TRY(gguf_w_begin(q->w, o->out, o->overwrite, e));
    if (ranks_me() == 0 && part) TRY(resume_begin(&q->resume, q->w, o, q->g, &q->n_done, e));
    ranks_bcast(&q->n_done, sizeof q->n_done);
    q->r->n_resumed = q->n_done;
    for (int64_t i = 0; i < q->n_done; i++) {
        q->prog->total -= q->r->rows[i].in_bytes;
        if (q->resume) q->r->rows[i].alpha = resume_alpha(q->resume, i);
        q->r->n_feedback += q->r->rows[i].alpha > 0;
    }
    return 0;
}

/* Writes tensor by tensor: all outputs of one before the next one is read. The first output that
 * wants a type encodes it, and the others that want the same type get its bytes. */
static int all_tensors(struct run *run, int n, struct err *e) {
    for (int64_t i = 0; i < run->plan.n; i++) {
        for (int k = 0; k < n; k++)
            if (follower(&run[k], run, i) == &run[k]) TRY(do_tensor(&run[k], i, e));
        gguf_drop(run->g, gguf_tensor_at(run->g, i));
    }
    return writer_flush(run->writer, e);
}

static int work(struct run *run, int n, struct err *e) {
    const struct quantize_opts *o = run->o;
    struct progress prog;
    uint64_t total = 0;
    for (int k = 0; k < n; k++) TRY(check_paths(run[k].o, e));
    TRY(gguf_open(&run->g, o->in, 0, e));
    if (strcmp(gguf_str_or(run->g, "general.type", ""), "imatrix") == 0)
        return err_set(e, ERR_DATA, "%s is an importance matrix, not a model: give it as --imatrix",
                       o->in);
    if (o->imatrix) {
        TRY(imat_read(&run->imat, o->imatrix, e));
        run->have_imat = true;
    }
    if (o->gram) {
        TRY(gram_read(&run->gram, o->gram, e));
        run->have_gram = true;
    }
    for (int k = 0; k < n; k++) {
        run[k].g = run->g;
        run[k].imat = run->imat;
        run[k].have_imat = run->have_imat;
        run[k].gram = run->gram;
        run[k].have_gram = run->have_gram;
        run[k].prog = &prog;
        run[k].next = k + 1 < n ? &run[k + 1] : NULL;
        TRY(prepare(&run[k], e));
        total += run[k].r->in_bytes;
    }
    if (o->dry_run) return 0;
    TRY(writer_new(&run->writer, e));
    TRY(qdev_open(&run->dev, &o->device, o->pool, e));
    int rc = 0;
    for (int k = 1; k < n; k++) {
        run[k].writer = run->writer;
        run[k].dev = run->dev;
    }
    progress_begin(&prog, n == 1 ? run->plan.name : "quantize", PROG_BYTES, total);
    for (int k = 0; k < n && rc == 0; k++) rc = begin(&run[k], e);
    if (rc == 0) rc = all_tensors(run, n, e);
    progress_end(&prog);
    for (int k = 0; k < n && rc == 0 && ranks_me() == 0; k++) {
        rc = gguf_w_commit(run[k].w, e);
        if (rc) break;
        resume_end(run[k].resume, 0);
        run[k].resume = NULL;
    }
    return rc;
}

int quantize_run_many(const struct quantize_opts *o, int n, struct quantize_report *r,
                      struct err *e) {
    struct run *run = xcalloc((size_t)n, sizeof *run);
    struct embd_moments embd = {0};
    double t0 = progress_now_s();
    memset(r, 0, (size_t)n * sizeof *r);
    for (int k = 0; k < n; k++) {
        run[k].o = &o[k];
        run[k].embd = &embd;
        run[k].r = &r[k];
        kern_init(&run[k].ref, KERN_REF);
    }
    imat_init(&run->imat);
    gram_init(&run->gram);
    int rc = work(run, n, e);
    writer_free(run->writer);
    qdev_close(run->dev);
    for (int k = 0; k < n; k++) {
        resume_end(run[k].resume, rc);
        gguf_w_free(run[k].w);
        qplan_release(&run[k].plan);
        r[k].seconds = progress_now_s() - t0;
        if (rc || !o[k].want_rows) quantize_report_release(&r[k]);
    }
    imat_release(&run->imat);
    gram_release(&run->gram);
    embd_moments_release(&embd);
    gguf_close(run->g);
    free(run);
    return rc;
}

int quantize_run(const struct quantize_opts *o, struct quantize_report *r, struct err *e) {
    return quantize_run_many(o, 1, r, e);
}

void quantize_report_release(struct quantize_report *r) {
    free(r->rows);
    r->rows = NULL;
}
