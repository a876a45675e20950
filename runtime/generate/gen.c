// SPDX-License-Identifier: MIT
/* runtime/generate/gen.c - generation from prompt tokens to text (gen.h).
 *
 * The last token drawn has not been fed to the session, because its logits are needed only if the
 * answer continues. Calling gen_prompt with all tokens of an answer therefore computes just that
 * one. */
#include "runtime/generate/gen.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "runtime/engine/fault.h"
#include "runtime/generate/pictures.h"

enum { SHOW_FROM = 1024 }; /* number of prompt tokens from which progress is shown */

struct gen {
    struct session *s;
    struct draft *d;
    struct pictures *pictures;
    struct ids fed;
    int64_t mark; /* tokens in the session at its mark; -1: no mark */
    float *logits;
    /* Best logits; used instead of `logits` if have_best is set. */
    struct session_best best;
    /* have_best: `best` is filled in instead of `logits`. ready: whichever is in use belongs to the
     * last token of `fed`. */
    bool have_best, ready;
};

int gen_new(struct gen **out, struct session *s, struct draft *d, struct err *e) {
    void *mem = NULL;
    int64_t n_vocab = session_model(s)->hp.d[HD_VOCAB];
    TRY(mem_alloc(&mem, (uint64_t)n_vocab * sizeof(float), "logits", e));
    struct gen *g = xcalloc(1, sizeof *g);
    g->s = s;
    g->d = d;
    g->logits = mem;
    g->mark = -1;
    *out = g;
    return 0;
}

void gen_free(struct gen *g) {
    if (!g) return;
    ids_release(&g->fed);
    mem_free(g->logits);
    free(g);
}

void gen_set_pictures(struct gen *g, struct pictures *p) {
    g->pictures = p;
}
int64_t gen_n_ctx(const struct gen *g) {
    return session_get_opts(g->s)->n_ctx;
}
int64_t gen_n_fed(const struct gen *g) {
    return g->fed.n;
}

/* Clears the sequence, its tokens and its mark. */
static void forget_fed(struct gen *g) {
    if (g->d)
        draft_reset(g->d);
    else
        session_reset(g->s);
    g->fed.n = 0;
    g->mark = -1;
    g->ready = false;
}

/* Rewinds the session to its first `same` tokens, or to an earlier point. */
static void go_back(struct gen *g, int64_t same) {
    if (g->mark < 0 || g->mark > same) {
        forget_fed(g);
        return;
    }
    session_rewind(g->s);
    g->fed.n = g->mark;
    g->ready = false;
}

/* Returns whether one of n tokens is a row of an image. */
static bool has_images(const int32_t *v, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (v[i] < 0) return true;
    return false;
}

/* Feeds n tokens, some of them rows of images, in one call. logits NULL: not wanted. */
static int feed_rows(struct gen *g, const int32_t *v, int64_t n, float *logits, struct err *e) {
    struct session_row *row = try_calloc((size_t)n, sizeof *row, "the rows of a prompt", e);
    int rc = row ? 0 : (int)e->code;
    if (!rc && g->d)
        rc = err_set(e, ERR_USAGE, "speculative decoding (--draft) does not support images");
    for (int64_t i = 0; i < n && !rc; i++) {
        row[i].id = v[i];
        if (v[i] < 0 && g->pictures)
            row[i].image = pictures_row(g->pictures, v[i], &row[i].image_at);
    }
    if (!rc && logits) row[n - 1].want = WANT_LOGITS;
    if (!rc)
        rc = session_pass(g->s, &(struct session_pass){.row = row, .n = n, .logits = logits}, e);
    free(row);
    return rc;
}

/* Feeds tokens [fed.n, to). Computes logits after the last one, and only if `logits` is set. */
static int feed(struct gen *g, const int32_t *v, int64_t to, bool logits, struct progress *p,
                struct err *e) {
    const int64_t piece = g->d ? INT64_MAX : session_get_opts(g->s)->n_ubatch;
    int rc = 0;
    g->ready = g->have_best = false;
    while (!rc && g->fed.n < to) {
        const int64_t from = g->fed.n;
        const bool images = has_images(v + from, to - from);
        const int64_t n = images ? to - from : min_i64(piece, to - from);
        const bool last = logits && from + n == to;
        rc = images ? feed_rows(g, v + from, n, last ? g->logits : NULL, e)
             : g->d ? draft_feed(g->d, v + from, n, g->logits, e)
             : last ? session_step(g->s, v + from, n, g->logits, e)
                    : session_forward(g->s, v + from, n, NULL, e);
        if (!rc && last && !images &&
            fault_in_logits(g->logits, session_model(g->s)->hp.d[HD_VOCAB]))
            rc = fault_find(g->s, v, to, e);
        if (rc) break;
        for (int64_t i = 0; i < n; i++) ids_add(&g->fed, v[from + i]);
        g->ready = last || g->d;
        if (p) progress_update(p, (uint64_t)g->fed.n);
    }
    /* After a failed pass the state of the session is unknown. */
    if (rc && (g->d || session_pos(g->s) != g->fed.n)) forget_fed(g);
    return rc;
}

int gen_prompt(struct gen *g, const struct ids *ids, int64_t mark, int64_t *n_new, struct err *e) {
    int64_t same = 0;
    struct progress p = {0};
    *n_new = 0;
    if (ids->n < 1) return err_set(e, ERR_USAGE, "the prompt is empty");
    if (ids->n > gen_n_ctx(g))
        return err_set(e, ERR_USAGE,
                       "the context of %" PRId64 " tokens is full: the prompt has %" PRId64
                       "; use a larger --ctx, or a shorter prompt",
                       gen_n_ctx(g), ids->n);
    while (same < g->fed.n && same < ids->n && g->fed.v[same] == ids->v[same]) same++;
    if (same < g->fed.n) go_back(g, same);
    if (g->fed.n == ids->n && !g->ready) forget_fed(g);
    const int64_t from = g->fed.n;
    const bool shown = ids->n - from >= SHOW_FROM;
    if (shown) progress_begin(&p, "prompt", PROG_TOKENS, (uint64_t)ids->n);
    int rc = 0;
    if (!g->d && mark > from && mark < ids->n) {
        rc = feed(g, ids->v, mark, false, shown ? &p : NULL, e);
        if (!rc) rc = session_mark(g->s, e);
        g->mark = rc ? -1 : mark;
    }
    if (!rc && g->fed.n < ids->n) rc = feed(g, ids->v, ids->n, true, shown ? &p : NULL, e);
    if (shown) progress_end(&p);
    *n_new = max_i64(g->fed.n - from, 0);
    return rc;
}

/* ---- drawing ---- */

const char *gen_stop_name(enum gen_stop s) {
    static const char *const name[] = {"end", "length", "context", "stop", "interrupted"};
    return name[s];
}

/* Runs one token. If the best logits determine the choice, they are selected on the device, unless
 * `all` is set. */
static int step(struct gen *g, const struct sampler *sampler, bool all, int32_t id, struct err *e) {
    const int64_t needs = sampler_needs(sampler, g->fed.n + 1);
    int rc;
    g->have_best =
        !g->d && !all && needs > 0 && needs <= SESSION_BEST && session_info(g->s).can_best;
    g->ready = false;
    if (g->have_best)
        rc = session_pass(g->s, &(struct session_pass){.ids = &id, .n = 1, .best = &g->best}, e);
    else
        rc = g->d ? draft_feed(g->d, &id, 1, g->logits, e)
                  : session_step(g->s, &id, 1, g->logits, e);
    if (rc) {
        if (g->d || session_pos(g->s) != g->fed.n) forget_fed(g);
        return rc;
    }
    g->ready = true;
    ids_add(&g->fed, id);
    if (g->have_best ? g->best.n > 0
                     : !fault_in_logits(g->logits, session_model(g->s)->hp.d[HD_VOCAB]))
        return 0;
    rc = fault_find(g->s, g->fed.v, g->fed.n, e);
    forget_fed(g);
    return rc;
}

/* Draws the next token; with a constraint, one that it allows, and advances the constraint. */
static int draw_token(const struct gen *g, struct gen_answer *a, int32_t *id, struct err *e) {
    const struct session_best *b = &g->best;
    struct sampler *s = a->sampler;
    if (a->constrain) {
        TRY(constrain_pick(a->constrain, s, g->logits, g->fed.v, g->fed.n, id, e));
        return constrain_accept(a->constrain, *id, e);
    }
    *id = g->have_best ? sampler_pick_best(s, b->id, b->logit, b->n, g->fed.v, g->fed.n)
                       : sampler_pick(s, g->logits, g->fed.v, g->fed.n);
    return 0;
}

/* Passes the answer's text up to byte `to` to the sink, starting where the last call ended. */
static void show_text(const struct gen_opts *o, struct gen_answer *a, size_t to) {
    if (to <= a->n_shown) return;
    if (o->sink) o->sink(o->ud, a->text.data + a->n_shown, to - a->n_shown);
    a->n_shown = to;
}

/* Shows the text that cannot be the start of a stop text. If a stop text was found, cuts it off,
 * sets a->stop and returns true. */
static bool stopped(const struct gen_opts *o, struct gen_answer *a, size_t before) {
    size_t first = a->text.len, hold = 0;
    for (int i = 0; i < o->n_stop + (o->end ? 1 : 0); i++) {
        const char *const stop = i < o->n_stop ? o->stop[i] : o->end;
        const size_t n = strlen(stop);
        const size_t from = before > n ? before - n : 0; /* older bytes have been searched */
        const char *hit = n && a->text.len >= from + n
                              ? memmem(a->text.data + from, a->text.len - from, stop, n)
                              : NULL;
        if (hit && (size_t)(hit - a->text.data) < first) {
            first = (size_t)(hit - a->text.data);
            a->stop = i < o->n_stop ? GEN_TEXT : GEN_END;
        }
        /* Hold back a tail that may turn out to be a stop text. */
        for (size_t k = n ? n - 1 : 0; k > hold; k--)
            if (k <= a->text.len && memcmp(a->text.data + a->text.len - k, stop, k) == 0) hold = k;
    }
    if (first == a->text.len) {
        show_text(o, a, a->text.len - hold);
        return false;
    }
    a->text.len = first;
    a->text.data[first] = 0;
    return true;
}

/* Appends a token to the answer. ended: the grammar has accepted it as the end of the text. Returns
 * true if the token is the last one. */
static bool append_token(const struct gen *g, const struct gen_opts *o, struct gen_answer *a,
                         int32_t id, bool ended) {
    const size_t before = a->text.len;
    a->n_drawn++;
    if (a->constrain ? ended : tok_is_eog(session_model(g->s)->tok, id)) {
        a->stop = GEN_END;
        return true;
    }
    ids_add(&a->ids, id);
    tok_decode(session_model(g->s)->tok, id, o->special, &a->text);
    tok_stream_put(a->stream, true, before, &a->text);
    if (a->text.len == before) return false;
    if (stopped(o, a, before)) return true;
    if (!o->done || !o->done(o->done_ud, a->text.data, a->text.len)) return false;
    a->stop = GEN_TEXT;
    return true;
}

/* Feeds forced tokens in one pass, all but the last. */
static int jump(struct gen *g, const struct ids *next, struct err *e) {
    struct ids all = {0};
    for (int64_t i = 0; i < g->fed.n; i++) ids_add(&all, g->fed.v[i]);
    for (int64_t i = 0; i + 1 < next->n; i++) ids_add(&all, next->v[i]);
    const int rc = feed(g, all.v, all.n, false, NULL, e);
    ids_release(&all);
    return rc;
}

/* Sets the constraint's number of remaining tokens. n_made: tokens drawn in this run. */
static void limit(const struct gen *g, const struct gen_opts *o, struct gen_answer *a,
                  int64_t n_made) {
    const int64_t room = gen_n_ctx(g) - g->fed.n + 1; /* the last token is not fed */
    constrain_limit(a->constrain, o->n_max < 0 ? room : min_i64(room, o->n_max - n_made));
}

/* Draws and feeds tokens until the answer ends, and sets a->stop to the reason. */
static int generate_tokens(struct gen *g, const struct gen_opts *o, struct gen_answer *a,
                           struct err *e) {
    const int64_t n_ctx = gen_n_ctx(g), n_before = a->n_drawn;
    struct ids next = {0};
    int rc = 0;
    a->stop = GEN_LENGTH;
    while (!rc && (o->n_max < 0 || a->n_drawn - n_before < o->n_max)) {
        int32_t id = 0;
        if (a->constrain) limit(g, o, a, a->n_drawn - n_before);
        if (progress_interrupted()) rc = err_set(e, ERR_INTR, "interrupted");
        if (!rc) rc = draw_token(g, a, &id, e);
        if (rc) break;
        int64_t most = n_ctx - g->fed.n - 1;
        if (o->n_max >= 0) most = min_i64(most, o->n_max - (a->n_drawn - n_before));
        next.n = 0;
        if (a->constrain && !constrain_ended(a->constrain))
            rc = constrain_forced(a->constrain, id, most, &next, e);
        if (!next.n) ids_add(&next, id);
        bool last = rc != 0;
        for (int64_t i = 0; i < next.n && !last; i++)
            last = append_token(g, o, a, next.v[i],
                                a->constrain && i + 1 == next.n && constrain_ended(a->constrain));
        if (!last && a->constrain && constrain_done(a->constrain)) {
            a->stop = GEN_END;
            last = true;
        }
        if (last || (o->n_max >= 0 && a->n_drawn - n_before >= o->n_max)) break;
        if (g->fed.n + next.n - 1 >= n_ctx) {
            a->stop = GEN_CONTEXT;
            break;
        }
        if (next.n > 1) rc = jump(g, &next, e);
        if (!rc) rc = step(g, a->sampler, a->constrain != NULL, next.v[next.n - 1], e);
    }
    ids_release(&next);
    return rc;
}

/* Appends the text that the detokenizer still holds back. */
static void finish_text(const struct gen_opts *o, struct gen_answer *a) {
    const size_t before = a->text.len;
    tok_stream_put(a->stream, false, before, &a->text);
    if (a->text.len > before) (void)stopped(o, a, before);
}

int gen_run(struct gen *g, const struct gen_opts *o, struct gen_answer *a, struct err *e) {
    if (!g->ready) return err_set(e, ERR_USAGE, "gen_run without gen_prompt");
    if (!a->sampler)
        a->sampler = sampler_new(&o->sample, session_model(g->s)->hp.d[HD_VOCAB], a->seed);
    if (!a->constrain && o->constrain.g)
        a->constrain = constrain_new(&o->constrain, session_model(g->s)->tok);
    const double t = progress_now_s();
    if (!a->stream) a->stream = tok_stream_new(session_model(g->s)->tok);
    buf_str(&a->text, "");
    int rc = generate_tokens(g, o, a, e);
    if (rc) a->stop = GEN_INTERRUPTED;
    if (a->stop != GEN_TEXT) finish_text(o, a);
    show_text(o, a, a->text.len);
    a->seconds += progress_now_s() - t;
    return rc;
}

void gen_answer_release(struct gen_answer *a) {
    ids_release(&a->ids);
    buf_release(&a->text);
    sampler_free(a->sampler);
    constrain_free(a->constrain);
    tok_stream_free(a->stream);
    memset(a, 0, sizeof *a);
}
