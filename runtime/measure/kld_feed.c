// SPDX-License-Identifier: MIT
/* runtime/measure/kld_feed.c - hidden rows of the base and all candidates for the next windows:
 * several windows per pass, or one long window in chunks of WINDOWS_PIECE tokens.
 *
 * A candidate that shares its first blocks with another model starts after them, from that model's
 * residual. An observer captures the residual (session_observe), or it is handed over within a
 * device. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "runtime/measure/kld_int.h"

/* Observer that captures a session's residuals for the candidates that start from them. */
struct kld_tap {
    struct kld_feed *f;
    int who;       /* candidate's index; -1: the base */
    bool *blocks;  /* [layers + 1] a candidate starts after this block; 0: the embeddings */
    bool stays;    /* all of these candidates receive their rows on the device */
    struct err *e; /* error of the current pass */
};

/* Returns the session of candidate i (n_cand: the base, which may be NULL). */
static struct session *session_of(const struct kld_feed *f, int i) {
    return i < f->job->n_cand ? f->job->cand[i] : f->job->base;
}

/* Captures the residual after a block for the candidates that start there. */
static void keep_below(void *ud, const struct session_shown *r) {
    const struct kld_tap *t = ud;
    struct kld_feed *f = t->f;
    const int me = t->who < 0 ? f->job->n_cand : t->who;
    const int at = windows_which(&f->windows[me], r->seq);
    const int window = f->most > 1 ? f->fed[me * f->most + at] : 0;
    for (int i = 0; i < f->job->n_cand; i++) {
        if (!f->late[i] || f->like[i] != t->who || f->begin[i] - 1 != r->block) continue;
        const int64_t first = f->first[i * f->most + window];
        const int64_t d = session_model(f->job->cand[i])->hp.d[HD_EMBD];
        if (first == KLD_NOT_FED) continue;
        if (f->below[i])
            memcpy(f->below[i] + (first + r->pos) * d, r->x,
                   (size_t)(r->n_rows * d) * sizeof *r->x);
        else if (!t->e->code)
            (void)session_hand(session_of(f, me), r, f->job->cand[i], first + r->pos, t->e);
    }
}

/* Finds, for each candidate, the model to start from: the one that leaves the fewest blocks to
 * run. */
static void find_like(struct kld_feed *f) {
    const struct eval_kld_job *job = f->job;
    f->begin = xcalloc((size_t)job->n_cand + 1, sizeof *f->begin);
    f->like = xcalloc((size_t)job->n_cand + 1, sizeof *f->like);
    for (int i = 0; i < job->n_cand; i++) {
        f->like[i] = -1;
        for (int k = -1; k < i && job->same_graph && job->base; k++) {
            const struct session *of = k < 0 ? job->base : job->cand[k];
            const int b = model_first_change(session_model(of), session_model(job->cand[i]));
            if (b <= f->begin[i]) continue;
            f->begin[i] = b;
            f->like[i] = k;
        }
    }
}

/* Returns the size of the hidden rows of a session's pass. */
static uint64_t rows_bytes(const struct kld_feed *f, const struct session *s) {
    const int64_t n = f->most > 1 ? f->most * f->ctx : min_i64(f->piece, f->ctx);
    return (uint64_t)(n * session_model(s)->hp.d[HD_EMBD]) * sizeof(float);
}
/* Returns the hidden values of session i; the base is the last. */
static float *hidden_of(const struct kld_feed *f, int i) {
    return f->hidden[i].p;
}

/* Sets up the observer of session `at`. If any receiving candidate is not on its device, all
 * receive the rows in main memory. */
static int tap_init(struct kld_feed *f, int at, struct err *e) {
    const struct eval_kld_job *job = f->job;
    struct session *s = session_of(f, at);
    struct kld_tap *t = &f->tap[at];
    const int who = at < job->n_cand ? at : -1;
    bool any = false;
    *t = (struct kld_tap){.who = who, .stays = true};
    t->blocks = xcalloc((size_t)session_model(s)->hp.d[HD_LAYERS] + 1, sizeof *t->blocks);
    for (int i = 0; i < job->n_cand; i++) {
        if (!f->late[i] || f->like[i] != who) continue;
        t->blocks[f->begin[i]] = true;
        t->stays = t->stays && f->stay[i] && session_can_hand(s, job->cand[i]);
        any = true;
    }
    for (int i = 0; i < job->n_cand && !t->stays; i++) {
        if (!f->late[i] || f->like[i] != who) continue;
        void *p = NULL;
        TRY(mem_alloc(&p, rows_bytes(f, job->cand[i]), "hidden rows", e));
        f->below[i] = p;
    }
    if (!any) return 0;
    t->f = f;
    session_observe(s,
                    &(struct session_probe){
                        .ud = t, .residual = keep_below, .blocks = t->blocks, .stays = t->stays});
    return 0;
}
/* Decides which candidates start at the first block that differs, and sets up the observers. */
static int below_init(struct kld_feed *f, struct err *e) {
    const struct eval_kld_job *job = f->job;
    find_like(f);
    for (int i = 0; i < job->n_cand && !job->routing; i++)
        f->late[i] = session_can_begin(job->cand[i], f->begin[i]);
    for (int i = 0; i <= job->n_cand; i++)
        if (session_of(f, i)) TRY(tap_init(f, i, e));
    return 0;
}

/* Determines how many windows fit into all sessions at the same time. Sessions on one device share
 * its memory, and the amount free is known only after the replaced weights have been uploaded. */
static int find_most(struct kld_feed *f, struct err *e) {
    int n_alike = 0;
    for (int i = 0; i <= f->job->n_cand; i++) {
        struct session *s = session_of(f, i);
        if (!s) continue;
        TRY(session_prepare(s, e));
        n_alike += session_room(s) != UINT64_MAX;
    }
    for (int i = 0; i <= f->job->n_cand; i++)
        if (session_of(f, i))
            f->most = (int)min_i64(f->most, windows_fit(session_of(f, i), f->ctx, n_alike));
    return 0;
}

int kld_feed_open(struct kld_feed *f, const struct eval_kld_job *job, int64_t ctx, int64_t n_chunks,
                  const bool *stay, struct err *e) {
    const size_t n = (size_t)job->n_cand + 1;
    memset(f, 0, sizeof *f);
    f->job = job;
    f->ctx = ctx;
    f->stay = stay;
    f->piece = WINDOWS_PIECE;
    f->hidden = xcalloc(n, sizeof *f->hidden);
    f->below = xcalloc(n, sizeof *f->below);
    f->late = xcalloc(n, sizeof *f->late);
    f->tap = xcalloc(n, sizeof *f->tap);
    f->windows = xcalloc(n, sizeof *f->windows);
    f->most = job->routing ? 1 : (int)max_i64(1, min_i64(n_chunks, INT_MAX));
    TRY(find_most(f, e));
    for (int i = job->n_cand; i >= 0; i--) {
        struct session *s = session_of(f, i);
        if (!s) continue;
        TRY(windows_open(&f->windows[i], s, ctx, f->most, job->n_cand + 1, true, e));
        if (f->windows[i].most < f->most) f->most = f->windows[i].most;
        if (stay[i]) f->piece = min_i64(f->piece, eval_piece(s));
    }
    f->first = xcalloc(n * (size_t)f->most, sizeof *f->first);
    f->fed = xcalloc(n * (size_t)f->most, sizeof *f->fed);
    f->known = xcalloc((size_t)f->most, sizeof *f->known);
    for (int i = 0; i <= job->n_cand; i++) {
        struct session *s = session_of(f, i);
        if (s && !stay[i])
            TRY(session_host_new(s, &f->hidden[i], rows_bytes(f, s), "hidden rows", e));
    }
    return below_init(f, e);
}

void kld_feed_close(struct kld_feed *f) {
    for (int i = 0; f->job && i <= f->job->n_cand; i++) {
        if (f->tap && f->tap[i].f) session_observe(session_of(f, i), NULL);
        if (f->tap) free(f->tap[i].blocks);
        if (f->windows) windows_close(&f->windows[i]);
        if (f->hidden && f->hidden[i].p) session_host_free(session_of(f, i), &f->hidden[i]);
        if (f->below) mem_free(f->below[i]);
    }
    free(f->hidden);
    free(f->late);
    free(f->below);
    free(f->tap);
    free(f->windows);
    free(f->first);
    free(f->fed);
    free(f->known);
    free(f->begin);
    free(f->like);
    memset(f, 0, sizeof *f);
}

void kld_feed_progress(struct kld_feed *f, struct progress *p) {
    for (int i = 0; i <= f->job->n_cand; i++) {
        f->windows[i].progress = p;
        f->windows[i].per_token = 1. / (f->job->n_cand + (f->job->base != NULL));
    }
}

int kld_feed_now(const struct kld_feed *f, bool with_base) {
    int now = f->most;
    for (int i = 0; i < f->job->n_cand + with_base; i++)
        if (session_of(f, i) && f->windows[i].now < now) now = f->windows[i].now;
    return now;
}

/* Sets where errors are stored if rows are handed over during session i's next pass. */
static void hands(struct kld_feed *f, int i, struct err *e) {
    *e = (struct err){0};
    f->tap[i].e = e;
}

/* Feeds tokens [at, at + n) of a window to candidate i, starting at its first changed block if it
 * shares the earlier ones. */
static int feed_piece(struct kld_feed *f, int i, const int32_t *window, int64_t at, int64_t n,
                      struct err *e) {
    struct session *s = session_of(f, i);
    if (i == f->job->n_cand || !f->late[i]) return eval_feed(s, window, at, n, hidden_of(f, i), e);
    if (!at) session_reset(s);
    return session_pass(s,
                        &(struct session_pass){.ids = window + at,
                                               .n = n,
                                               .begin = f->begin[i],
                                               .residual = f->below[i],
                                               .hidden = hidden_of(f, i)},
                        e);
}

int kld_feed_piece(struct kld_feed *f, const int32_t *window, int64_t at, int64_t n,
                   const bool *skip, kld_feed_before before, void *ud, struct err *e) {
    struct err wrong;
    for (int i = 0; i <= f->job->n_cand; i++) f->first[i * f->most] = -at;
    for (int k = 0; k <= f->job->n_cand; k++) { /* The base comes first. */
        const int i = k ? k - 1 : f->job->n_cand;
        if (!session_of(f, i) || (k ? skip[i] : f->known[0])) continue;
        if (before) before(ud, i, at);
        hands(f, i, &wrong);
        TRY(feed_piece(f, i, window, at, n, e));
        if (!wrong.code) continue;
        *e = wrong;
        return (int)wrong.code;
    }
    return 0;
}

/* Chooses the windows to feed to session i and the positions of their rows. Returns the number of
 * windows. */
static int choose(struct kld_feed *f, int i, int n, const bool *skip) {
    int n_fed = 0;
    for (int w = 0; w < n; w++) {
        const bool left_out = i < f->job->n_cand ? skip[w * f->job->n_cand + i] : f->known[w];
        f->first[i * f->most + w] = left_out ? KLD_NOT_FED : n_fed * f->ctx;
        if (!left_out) f->fed[i * f->most + n_fed++] = w;
    }
    return n_fed;
}

int kld_feed_windows(struct kld_feed *f, const int32_t *const *window, int n, const bool *skip,
                     struct err *e) {
    const int32_t **some = xcalloc((size_t)n, sizeof *some);
    struct err wrong;
    int rc = 0;
    for (int i = 0; i <= f->job->n_cand; i++) (void)choose(f, i, n, skip);
    for (int k = 0; k <= f->job->n_cand && !rc; k++) { /* The base comes first. */
        const int i = k ? k - 1 : f->job->n_cand, n_fed = choose(f, i, n, skip);
        if (!session_of(f, i) || !n_fed) continue;
        for (int w = 0; w < n_fed; w++) some[w] = window[f->fed[i * f->most + w]];
        hands(f, i, &wrong);
        const bool late = i < f->job->n_cand && f->late[i];
        rc = windows_feed(&f->windows[i], some, n_fed, late ? f->begin[i] : 0, f->below[i],
                          hidden_of(f, i), e);
        if (rc || !wrong.code) continue;
        *e = wrong;
        rc = (int)wrong.code;
    }
    free(some);
    return rc;
}
