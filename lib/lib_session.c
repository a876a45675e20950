// SPDX-License-Identifier: MIT
/* lib/lib_session.c - sessions and their sequences: tokens in, logits out. */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "work/open.h"
#include "lib/handles.h"
#include "runtime/engine/kv_type.h"
#include "runtime/generate/drafter.h"
#include "runtime/generate/gen.h"
#include "runtime/generate/pictures.h"

/* Opens the session and, if requested, its draft; completes `so` from o. */
static int open_with(struct hone_session *s, const struct hone_session_opts *o,
                     struct session_opts *so, struct err *e) {
    TRY(kv_type_parse(o->kv_type ? o->kv_type
                      : o->exact ? KV_EXACT
                                 : KV_USUAL,
                      "kv_type", &so->kv_k, &so->kv_v, e));
    TRY(pool_new(&s->pool, s->owner->o.n_threads, e));
    so->pool = s->pool;
    TRY(session_new(&s->s, s->model->m, so, e));
    return o->draft ? draft_new(&s->draft, s->s, o->draft, e) : 0;
}

/* Settles device and precision and opens the session. */
static int make_session(struct hone_session *s, const struct hone_session_opts *o, struct err *e) {
    struct session_opts so = {.n_ctx = o->n_ctx,
                              .n_ubatch = o->n_batch,
                              .act = o->exact ? ACT_F32 : ACT_Q8,
                              .pack = !o->exact};
    struct work_how how = s->owner->how;
    struct work w = {.ctx = ctx_current()};
    if (o->n_ctx < 0 || o->n_batch < 0)
        return err_set(e, ERR_USAGE, "a session's context and batch cannot be negative");
    if (o->draft) TRY(drafter_check(o->draft, "hone_session_opts.draft", "mtp", e));
    if (o->device) how.device = o->device;
    arena_init(&w.mem);
    int rc = work_set(&w, &how, e);
    so.isa = w.isa;
    so.device = w.device;
    so.pack_cache = w.pack_cache;
    if (!rc) open_warn_context(&w, s->model->m, o->n_ctx);
    if (!rc) rc = open_with(s, o, &so, e);
    arena_release(&w.mem);
    return rc;
}

int hone_session_new(struct hone_session **out, const struct hone_model *m,
                     const struct hone_session_opts *so, const struct hone_opts *o,
                     struct hone_error *e) {
    struct hone_session_opts own;
    struct call c;
    *out = NULL;
    int rc = lib_take(&own, so, sizeof own, "hone_session_opts", e);
    if (rc) return rc;
    struct hone_session *s = lib_new(sizeof *s, e);
    rc = s ? owner_new(&s->owner, o, m->owner->file, e) : HONE_SYSTEM;
    if (rc) {
        free(s);
        return rc;
    }
    s->model = m;
    rc = call_begin(&c, s->owner, e);
    if (!rc) rc = call_end(&c, make_session(s, &own, &c.err), e);
    if (rc)
        hone_session_free(s);
    else
        *out = s;
    return rc;
}

void hone_session_free(struct hone_session *s) {
    if (!s) return;
    gen_free(s->gen);
    draft_free(s->draft);
    if (s->s) session_free(s->s);
    session_drop_images(s);
    pictures_free(s->pictures);
    pool_free(s->pool);
    owner_drop(s->owner);
    free(s);
}

int64_t hone_session_n_ctx(const struct hone_session *s) {
    return session_get_opts(s->s)->n_ctx;
}

uint64_t hone_session_bytes(const struct hone_session *s) {
    return session_bytes(s->s);
}

void session_forget(struct hone_session *s) {
    gen_free(s->gen);
    s->gen = NULL;
}

/* ---- sequences ---- */

/* Creates an empty sequence, or a copy of `from` if that is not NULL; *out is NULL on error. */
static int new_seq(struct hone_seq **out, struct hone_session *s, const struct seq *from,
                   struct hone_error *e) {
    struct call c;
    *out = NULL;
    struct hone_seq *q = lib_new(sizeof *q, e);
    if (!q) return HONE_SYSTEM;
    q->s = s;
    int rc = call_begin(&c, s->owner, e);
    if (!rc) {
        rc = from ? seq_fork(&q->q, from, &c.err) : session_new_seq(s->s, 0, &q->q, &c.err);
        rc = call_end(&c, rc, e);
    }
    if (rc)
        free(q);
    else
        *out = q;
    return rc;
}

/* Creates an empty sequence; release it with hone_seq_free(). *out is NULL on error. */
int hone_seq_new(struct hone_seq **out, struct hone_session *s, struct hone_error *e) {
    return new_seq(out, s, NULL, e);
}

int hone_seq_fork(struct hone_seq **out, const struct hone_seq *from, struct hone_error *e) {
    return new_seq(out, from->s, from->q, e);
}

int hone_seq_trim(struct hone_seq *q, int64_t n, struct hone_error *e) {
    struct call c;
    int rc = call_begin(&c, q->s->owner, e);
    if (rc) return rc;
    if (n == 0)
        seq_reset(q->q);
    else
        rc = seq_trim(q->q, n, &c.err);
    return call_end(&c, rc, e);
}

/* Returns the number of tokens in the sequence. */
int64_t hone_seq_n_tokens(const struct hone_seq *q) {
    return seq_pos(q->q);
}

void hone_seq_free(struct hone_seq *q) {
    if (!q) return;
    seq_free(q->q);
    free(q);
}

int hone_seq_save(struct hone_session *s, const struct hone_seq *q, const char *path, int overwrite,
                  struct hone_error *e) {
    struct call c;
    int rc = call_begin(&c, s->owner, e);
    if (rc) return rc;
    rc = session_save_seq(s->s, q ? q->q : NULL, path, overwrite != 0, &c.err);
    if (rc) err_about(&c.err, path, NULL);
    return call_end(&c, rc, e);
}

/* Replaces the contents of q by a saved sequence; q NULL: those of the session's own sequence. */
int hone_seq_load(struct hone_session *s, struct hone_seq *q, const char *path,
                  struct hone_error *e) {
    struct call c;
    int rc = call_begin(&c, s->owner, e);
    if (rc) return rc;
    if (!q) session_forget(s);
    rc = session_load_seq(s->s, q ? q->q : NULL, path, &c.err);
    if (rc) err_about(&c.err, path, NULL);
    return call_end(&c, rc, e);
}

int hone_session_reset(struct hone_session *s, struct hone_error *e) {
    struct call c;
    int rc = call_begin(&c, s->owner, e);
    if (rc) return rc;
    session_forget(s);
    session_drop_images(s);
    session_reset(s->s);
    return call_end(&c, 0, e);
}

/* ---- feeding ---- */

/* Feeds tokens to one sequence. logits: of the last token, or with `all` of every token. */
static int feed(struct hone_session *s, struct hone_seq *q, const int32_t *ids, int64_t n,
                float *logits, bool all, struct err *e) {
    if (n <= 0) return err_set(e, ERR_USAGE, "no tokens to feed");
    struct session_row *row = xreallocarray(NULL, (size_t)n, sizeof *row);
    for (int64_t i = 0; i < n; i++) {
        row[i] = session_row_of(s, ids[i]);
        row[i].seq = q ? q->q : NULL;
        row[i].want = logits && (all || i + 1 == n) ? WANT_LOGITS : 0;
    }
    int rc = session_pass(s->s, &(struct session_pass){.row = row, .n = n, .logits = logits}, e);
    free(row);
    return rc;
}

int hone_session_feed(struct hone_session *s, struct hone_seq *q, const int32_t *ids, int64_t n,
                      float *logits, struct hone_error *e) {
    struct call c;
    int rc = call_begin(&c, s->owner, e);
    if (rc) return rc;
    if (!q) session_forget(s);
    return call_end(&c, feed(s, q, ids, n, logits, false, &c.err), e);
}

int hone_session_logits(struct hone_session *s, struct hone_seq *q, const int32_t *ids, int64_t n,
                        float *logits, struct hone_error *e) {
    struct call c;
    int rc = call_begin(&c, s->owner, e);
    if (rc) return rc;
    if (!q) session_forget(s);
    return call_end(&c, feed(s, q, ids, n, logits, true, &c.err), e);
}

int hone_session_run(struct hone_session *s, const struct hone_row *row, int64_t n, float *logits,
                     struct hone_error *e) {
    struct call c;
    if (n <= 0) return lib_error(e, HONE_USAGE, "no rows to feed");
    int rc = call_begin(&c, s->owner, e);
    if (rc) return rc;
    struct session_row *r = xreallocarray(NULL, (size_t)n, sizeof *r);
    for (int64_t i = 0; i < n; i++) {
        r[i] = session_row_of(s, row[i].id);
        r[i].seq = row[i].seq ? row[i].seq->q : NULL;
        r[i].want = row[i].want && logits ? WANT_LOGITS : 0;
        if (!row[i].seq) session_forget(s);
    }
    rc = session_pass(s->s, &(struct session_pass){.row = r, .n = n, .logits = logits}, &c.err);
    free(r);
    return call_end(&c, rc, e);
}
