// SPDX-License-Identifier: MIT
/* mix/sequential_done.c - encoded tensors of block-by-block quantization, and their checkpoint.
 *
 * The checkpoint holds the number of groups and, for each, the number of its tensors; for each
 * tensor, the length of its name, its type and bytes (8 bytes each), its alpha, name and data.
 * Moments are not saved: the passes that collect them cost little compared with encoding and
 * learning. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "mix/sequential_int.h"
#include "quantize/exact.h"
#include "quantize/feedback.h"
#include "quantize/learn.h"
#include "quantize/record.h"

bool seq_is_head(const struct seq_job *j, const char *name) {
    return strcmp(name, model_head(j->base)->name) == 0 && strcmp(name, "token_embd.weight") != 0;
}

/* Returns whether an encoded tensor holds the weights of `from` without loss. */
static bool is_exact(const struct seq_job *j, const struct gguf_tensor *from, enum qtype to) {
    return to != from->type && j->o->q->search != SEARCH_CONVENTIONAL &&
           exact_in(from, to, j->w->pool);
}
/* Keeps a tensor of the file, whose data it takes over, for the models that follow. */
static int keep(struct seq_job *j, const struct weight *like, const char *name, enum qtype to,
                void *data, double alpha, struct err *e) {
    j->done = xreallocarray(j->done, (size_t)j->n_done + 1, sizeof *j->done);
    j->given = xreallocarray(j->given, (size_t)j->n_done + 1, sizeof *j->given);
    j->final = xreallocarray(j->final, (size_t)j->n_done + 1, sizeof *j->final);
    j->exact = xreallocarray(j->exact, (size_t)j->n_done + 1, sizeof *j->exact);
    const int rc = weight_given(&j->done[j->n_done], like, name, data, to, mem_free, e);
    if (rc)
        mem_free(data);
    else {
        const struct weight *w = &j->done[j->n_done];
        j->final[j->n_done] = (struct gram_learned){.name = name,
                                                    .type = to,
                                                    .ne = {w->ne[0], w->ne[1], w->ne[2], w->ne[3]},
                                                    .data = data,
                                                    .n_bytes = w->n_bytes};
        const struct gguf_tensor *from = gguf_find_tensor(j->base->gguf, name);
        if (j->can_learn)
            hash_xxh128_hex(j->final[j->n_done].source, from->data, (size_t)from->n_bytes);
        j->exact[j->n_done] = j->can_learn && is_exact(j, from, to);
        j->given[j->n_done++] = (struct quantize_given){name, data, alpha};
    }
    return rc;
}
/* Encodes a tensor and keeps it. */
static int encode(struct seq_job *j, const struct gram *gram, int64_t index, struct err *e) {
    const struct gguf_tensor *t = gguf_tensor_at(j->base->gguf, index);
    const struct weight *like = model_find_weight(j->base, t->name);
    const enum qtype to = j->plan.item[index].type;
    void *data = NULL;
    double alpha = 0;
    if (!like || to == t->type) return 0;
    TRY(quantize_tensor(j->o->q, j->base->gguf, j->o->q->imatrix ? &j->imat : NULL, gram, &j->plan,
                        index, &data, &alpha, e));
    return keep(j, like, t->name, to, data, alpha, e);
}

/* Rebuilds the model of the file so far: the base with all encoded weights. */
static int renew(struct seq_job *j, struct err *e) {
    struct model_change *change = xcalloc((size_t)j->n_done + 1, sizeof *change);
    struct model *m = NULL;
    for (int i = 0; i < j->n_done; i++)
        change[i] = (struct model_change){j->given[i].name, &j->done[i]};
    int rc = model_with(&m, j->base, change, j->n_done, e);
    free(change);
    if (rc) return rc;
    rc = session_use(j->side[PAIR_OTHER].s, m, e);
    if (rc) {
        model_close(m);
        return rc;
    }
    model_close(j->now);
    j->now = m;
    return 0;
}

int seq_encode(struct seq_job *j, const char *head, struct err *e) {
    struct gram gram;
    gram_init(&gram);
    int rc = head ? gram_col_finish(j->col, &gram, e) : 0;
    for (int64_t i = 0; i < j->plan.n && !rc; i++) {
        const char *name = gguf_tensor_at(j->base->gguf, i)->name;
        const bool outside = strncmp(name, "blk.", 4) != 0 && !seq_is_head(j, name);
        if (head ? strncmp(name, head, strlen(head)) == 0 : outside) rc = encode(j, &gram, i, e);
    }
    gram_release(&gram);
    return rc ? rc : renew(j, e);
}

bool seq_is_too_large(const struct seq_job *j) {
    int64_t n = 0;
    for (int64_t i = 0; i < j->plan.n; i++) {
        const int64_t *ne = gguf_tensor_at(j->base->gguf, i)->ne;
        n += ne[0] * ne[1] * ne[2] * ne[3];
    }
    return j->o->learn_most && n > j->o->learn_most;
}
bool seq_is_among(const char *name, const char *head) {
    return head ? strncmp(name, head, strlen(head)) == 0 : strncmp(name, "blk.", 4) != 0;
}
bool seq_learns_blocks(const struct seq_job *j) {
    return j->can_learn && !seq_is_too_large(j);
}
int seq_keep_vectors(struct seq_job *j, const char *head, struct err *e) {
    for (int64_t i = 0; i < j->plan.n; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(j->base->gguf, i);
        const struct weight *like = model_find_weight(j->base, t->name);
        void *data = NULL;
        if (!seq_is_among(t->name, head) || !like || !learn_is_vector(t->type, t->ne) ||
            j->plan.item[i].type != t->type)
            continue;
        TRY(mem_alloc(&data, (uint64_t)t->ne[0] * sizeof(float), "vectors", e));
        memcpy(data, t->data, (size_t)t->ne[0] * sizeof(float));
        TRY(keep(j, like, t->name, t->type, data, 0, e));
    }
    return renew(j, e);
}

/* ---- finished groups, saved for a later run -------------------------------------------------- */

/* Returns a string with everything that the finished tensors depend on; the caller frees it. */
static char *identity(const struct seq_job *j) {
    const struct sequential_opts *o = j->o;
    struct buf b = {0};
    char hex[33];
    struct err ignored;
    hash_xxh128_hex(hex, j->ids.v, (size_t)j->ids.n * sizeof *j->ids.v);
    buf_fmt(&b, "blocks 1;isa %s;device %d;ctx %" PRId64 ";tokens %s;chunks %" PRId64 ";",
            kern_isa_name(j->w->isa), j->products != NULL, j->ctx, hex, j->n_chunks);
    for (int i = 0; i < o->texts.n; i++) buf_fmt(&b, "%" PRId64 ",", j->end[i]);
    buf_fmt(&b, "learn %d %" PRId64 ";search %s;without %u;tau %.17g;gradients %d %d;", o->learn,
            o->learn_most, search_name(o->q->search), o->q->without, o->q->tau,
            j->gradients != NULL, gram_col_without_gradients(j->col));
    if (o->q->imatrix && record_file_hash(o->q->imatrix, hex, &ignored) == 0)
        buf_fmt(&b, "importance %s;", hex);
    for (int64_t i = 0; i < j->plan.n; i++) buf_fmt(&b, "%s,", qtype_name(j->plan.item[i].type));
    buf_str(&b, "model ");
    gguf_stamp(j->base->gguf, &b);
    return buf_take(&b);
}

void seq_saved_open(struct seq_job *j) {
    struct seq_saved *s = &j->saved;
    s->path = sequential_part(j->o->q->out);
    s->what = identity(j);
    const enum checkpoint_found is = checkpoint_open(&s->from, s->path, s->what);
    if (is == SNAP_FOREIGN) {
        free(s->path);
        s->path = NULL;
    }
    if (is != SNAP_SAME || !checkpoint_get(&s->from, &s->left, sizeof s->left)) s->left = 0;
    s->n_saved = (int)s->left;
    if (s->left > 1)
        log_info("%s: resuming after %" PRIu64 " of %" PRId64 " blocks", s->path, s->left - 1,
                 j->base->hp.d[HD_LAYERS]);
}

/* Reports a checkpoint that was not written by this job. */
static int misfit(const struct seq_job *j, struct err *e) {
    return err_set(e, ERR_DATA, "%s does not fit %s: remove it", j->saved.path, j->o->q->in);
}
/* Takes the next tensor of an earlier run. */
static int take(struct seq_job *j, struct err *e) {
    struct checkpoint_r *r = &j->saved.from;
    uint64_t size[3]; /* of the name; type; bytes */
    char name[256];
    double alpha;
    void *data = NULL;
    if (!checkpoint_get(r, size, sizeof size) || !checkpoint_get(r, &alpha, sizeof alpha) ||
        size[0] >= sizeof name || !checkpoint_get(r, name, size[0]) || size[1] >= QT_COUNT ||
        size[2] > checkpoint_left(r))
        return misfit(j, e);
    name[size[0]] = 0;
    const struct gguf_tensor *t = gguf_find_tensor(j->base->gguf, name);
    const struct weight *like = t ? model_find_weight(j->base, name) : NULL;
    const enum qtype to = (enum qtype)size[1];
    if (!like ||
        (uint64_t)(t->ne[1] * t->ne[2] * t->ne[3]) * qtype_row_bytes(to, t->ne[0]) != size[2])
        return misfit(j, e);
    TRY(mem_alloc(&data, size[2], "encoded weights", e));
    if (!checkpoint_get(r, data, size[2])) memset(data, 0, size[2]); /* its size was checked */
    return keep(j, like, t->name, to, data, alpha, e);
}

int seq_saved_take(struct seq_job *j, bool *taken, struct err *e) {
    struct seq_saved *s = &j->saved;
    uint64_t n;
    *taken = s->left > 0;
    if (!*taken) return 0;
    s->left--;
    if (!checkpoint_get(&s->from, &n, sizeof n)) return misfit(j, e);
    for (uint64_t i = 0; i < n; i++) TRY(take(j, e));
    if (!s->left) checkpoint_close(&s->from);
    return renew(j, e);
}

/* Writes a tensor to the checkpoint. */
static int put(struct checkpoint_w *w, const struct gram_learned *t, double alpha, struct err *e) {
    const uint64_t size[3] = {strlen(t->name), t->type, t->n_bytes};
    TRY(checkpoint_put(w, size, sizeof size, e));
    TRY(checkpoint_put(w, &alpha, sizeof alpha, e));
    TRY(checkpoint_put(w, t->name, size[0], e));
    return checkpoint_put(w, t->data, t->n_bytes, e);
}
/* Writes all finished groups. */
static int save(const struct seq_job *j, struct err *e) {
    const struct seq_saved *s = &j->saved;
    const uint64_t n_groups = (uint64_t)s->n;
    struct checkpoint_w *w;
    int rc = checkpoint_begin(&w, s->path, s->what, e), i = 0;
    if (!rc) rc = checkpoint_put(w, &n_groups, sizeof n_groups, e);
    for (int k = 0; k < s->n && !rc; k++) {
        const uint64_t n = (uint64_t)(s->end[k] - i);
        rc = checkpoint_put(w, &n, sizeof n, e);
        for (; i < s->end[k] && !rc; i++) rc = put(w, &j->final[i], j->given[i].alpha, e);
    }
    if (!rc) rc = checkpoint_commit(w, e);
    checkpoint_end(w);
    return rc;
}

/* Saves all finished groups; after an error, no more. */
static void save_now(struct seq_job *j) {
    struct seq_saved *s = &j->saved;
    const double began = progress_now_s();
    struct err e;
    if (save(j, &e)) {
        log_warn("%s: an interrupted run will start over", e.msg);
        free(s->path);
        s->path = NULL;
        return;
    }
    s->n_saved = s->n;
    checkpoint_wrote(&s->clock, began);
}

void seq_saved_add(struct seq_job *j) {
    struct seq_saved *s = &j->saved;
    s->end = xreallocarray(s->end, (size_t)s->n + 1, sizeof *s->end);
    s->end[s->n++] = j->n_done;
    if (s->path && !s->left && checkpoint_due(&s->clock)) save_now(j);
}

/* Saves all groups that the checkpoint lacks. */
static void save_rest(struct seq_job *j) {
    const struct seq_saved *s = &j->saved;
    if (s->path && !s->changed && !s->left && s->n > s->n_saved) save_now(j);
}

void seq_saved_last(struct seq_job *j) {
    save_rest(j);
    j->saved.changed = true;
}

void seq_saved_end(struct seq_job *j, int rc) {
    if (rc == ERR_INTR) save_rest(j);
    const struct seq_saved *s = &j->saved;
    if (rc == 0 && s->path) checkpoint_remove(s->path);
    if ((rc == ERR_INTR || rc == ERR_SYS) && s->path && s->n_saved > 1)
        log_warn("%d of %" PRId64 " blocks are kept in %s: run the same command to resume, or "
                 "remove it to give up",
                 s->n_saved - 1, j->base->hp.d[HD_LAYERS], s->path);
}

void seq_saved_release(struct seq_job *j) {
    checkpoint_close(&j->saved.from);
    free(j->saved.path);
    free(j->saved.what);
    free(j->saved.end);
}
