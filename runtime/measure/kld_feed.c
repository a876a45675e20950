// SPDX-License-Identifier: MIT
/* runtime/measure/kld_feed.c - the hidden rows of the base and of all candidates, for the windows
 * that are compared next: several windows to a pass, or a long one in pieces of WINDOWS_PIECE
 * tokens.
 *
 * A candidate whose first blocks have the weights of another model begins behind them with that
 * model's residual, which is shown as it passes (session_observe). */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "runtime/measure/kld_int.h"

/* The session whose residuals are shown to the candidates that begin with them. */
struct kld_tap {
    struct kld_feed *f;
    int who; /* The candidate's index, or -1 for the base. */
};

static struct session *session_of(const struct kld_feed *f, int i) {
    return i < f->job->n_cand ? f->job->cand[i] : f->job->base;
}

/* Keeps the residual behind a block for the candidates whose own blocks begin there. */
static void keep_below(void *ud, const struct session_shown *r) {
    const struct kld_tap *t = ud;
    struct kld_feed *f = t->f;
    const int me = t->who < 0 ? f->job->n_cand : t->who;
    const int at = windows_which(&f->windows[me], r->seq);
    const int window = f->most > 1 ? f->fed[me * f->most + at] : 0;
    for (int i = 0; i < f->job->n_cand; i++) {
        if (!f->below[i] || f->like[i] != t->who || f->begin[i] - 1 != r->block) continue;
        const int64_t first = f->first[i * f->most + window];
        const int64_t d = session_model(f->job->cand[i])->hp.d[HD_EMBD];
        if (first == KLD_NOT_FED) continue;
        memcpy(f->below[i] + (first + r->pos) * d, r->x, (size_t)(r->n_rows * d) * sizeof *r->x);
    }
}

/* Finds for each candidate whose hidden states it can begin with; of several models it takes the
 * one after which the fewest blocks are left. */
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

static uint64_t rows_bytes(const struct kld_feed *f, const struct session *s) {
    const int64_t n = f->most > 1 ? f->most * f->ctx : min_i64(f->piece, f->ctx);
    return (uint64_t)(n * session_model(s)->hp.d[HD_EMBD]) * sizeof(float);
}
static float *hidden_of(const struct kld_feed *f, int i) {
    return f->hidden[i].p;
}

static int below_init(struct kld_feed *f, struct err *e) {
    const struct eval_kld_job *job = f->job;
    find_like(f);
    for (int i = 0; i < job->n_cand && !job->routing; i++) {
        if (!session_can_begin(job->cand[i], f->begin[i])) continue;
        void *p = NULL;
        TRY(mem_alloc(&p, rows_bytes(f, job->cand[i]), "hidden rows", e));
        f->below[i] = p;
        const int who = f->like[i], at = who < 0 ? job->n_cand : who;
        f->tap[at] = (struct kld_tap){f, who};
        session_observe(session_of(f, at),
                        &(struct session_probe){.ud = &f->tap[at], .residual = keep_below});
    }
    return 0;
}

/* Finds how many windows all sessions have room for. Sessions on one device share its memory, and
 * how much there is is known only when the weights that were replaced are there. */
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

int kld_feed_open(struct kld_feed *f, const struct eval_kld_job *job, int64_t ctx, const bool *stay,
                  struct err *e) {
    const size_t n = (size_t)job->n_cand + 1;
    memset(f, 0, sizeof *f);
    f->job = job;
    f->ctx = ctx;
    f->stay = stay;
    f->piece = WINDOWS_PIECE;
    f->hidden = xcalloc(n, sizeof *f->hidden);
    f->below = xcalloc(n, sizeof *f->below);
    f->tap = xcalloc(n, sizeof *f->tap);
    f->windows = xcalloc(n, sizeof *f->windows);
    f->most = job->routing ? 1 : WINDOWS_PIECE;
    TRY(find_most(f, e));
    for (int i = job->n_cand; i >= 0; i--) {
        struct session *s = session_of(f, i);
        if (!s) continue;
        TRY(windows_open(&f->windows[i], s, ctx, f->most, true, e));
        if (f->windows[i].most < f->most) f->most = f->windows[i].most;
        if (stay[i]) f->piece = min_i64(f->piece, eval_piece(s));
    }
    f->first = xcalloc(n * (size_t)f->most, sizeof *f->first);
    f->fed = xcalloc(n * (size_t)f->most, sizeof *f->fed);
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
        if (f->windows) windows_close(&f->windows[i]);
        if (f->hidden && f->hidden[i].p) session_host_free(session_of(f, i), &f->hidden[i]);
        if (f->below) mem_free(f->below[i]);
    }
    free(f->hidden);
    free(f->below);
    free(f->tap);
    free(f->windows);
    free(f->first);
    free(f->fed);
    free(f->begin);
    free(f->like);
    memset(f, 0, sizeof *f);
}

int kld_feed_now(const struct kld_feed *f) {
    int now = f->most;
    for (int i = 0; i <= f->job->n_cand; i++)
        if (session_of(f, i) && f->windows[i].now < now) now = f->windows[i].now;
    return now;
}

int kld_feed_piece(struct kld_feed *f, const int32_t *window, int64_t at, int64_t n,
                   const bool *skip, kld_feed_before before, void *ud, struct err *e) {
    for (int i = 0; i <= f->job->n_cand; i++) f->first[i * f->most] = -at;
    for (int k = 0; k <= f->job->n_cand; k++) { /* The base comes first. */
        const int i = k ? k - 1 : f->job->n_cand;
        struct session *s = session_of(f, i);
        if (!s || (k && skip[i])) continue;
        if (before) before(ud, i, at);
        if (!k || !f->below[i]) {
            TRY(eval_feed(s, window, at, n, hidden_of(f, i), e));
            continue;
        }
        if (!at) session_reset(s);
        struct session_pass p = {.ids = window + at, .n = n, .hidden = hidden_of(f, i)};
        p.begin = f->begin[i];
        p.residual = f->below[i];
        TRY(session_pass(s, &p, e));
    }
    return 0;
}

/* Chooses which windows are fed to session i, and where their rows will be. Returns how many they
 * are. */
static int choose(struct kld_feed *f, int i, int n, const bool *skip) {
    int n_fed = 0;
    for (int w = 0; w < n; w++) {
        const bool left_out = i < f->job->n_cand && skip[w * f->job->n_cand + i];
        f->first[i * f->most + w] = left_out ? KLD_NOT_FED : n_fed * f->ctx;
        if (!left_out) f->fed[i * f->most + n_fed++] = w;
    }
    return n_fed;
}

int kld_feed_windows(struct kld_feed *f, const int32_t *const *window, int n, const bool *skip,
                     struct err *e) {
    const int32_t **some = xcalloc((size_t)n, sizeof *some);
    int rc = 0;
    for (int i = 0; i <= f->job->n_cand; i++) (void)choose(f, i, n, skip);
    for (int k = 0; k <= f->job->n_cand && !rc; k++) { /* The base comes first. */
        const int i = k ? k - 1 : f->job->n_cand, n_fed = choose(f, i, n, skip);
        if (!session_of(f, i) || !n_fed) continue;
        for (int w = 0; w < n_fed; w++) some[w] = window[f->fed[i * f->most + w]];
        rc = windows_feed(&f->windows[i], some, n_fed, f->below[i] ? f->begin[i] : 0, f->below[i],
                          hidden_of(f, i), e);
    }
    free(some);
    return rc;
}
