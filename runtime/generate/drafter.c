// SPDX-License-Identifier: MIT
/* runtime/generate/drafter.c - what drafts tokens for another model (drafter.h). */
#include "runtime/generate/drafter.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "runtime/engine/fault.h"
#include "runtime/engine/logits.h"

int drafter_check(const char *how, const char *option, const char *names, struct err *e) {
    if (strcmp(how, "mtp") == 0 || io_exists(how)) return 0;
    return err_set(e, ERR_USAGE, "%s: '%.200s' is not %s, and there is no such file", option, how,
                   names);
}

/* Reads the table from the draft's tokens to the trunk's. */
static int read_ids(struct drafter *d, struct err *e) {
    const struct gguf_tensor *t = gguf_find_tensor(d->m->gguf, "d2t");
    const int64_t n_vocab = d->m->hp.d[HD_VOCAB];
    if (!t) return 0;
    if (t->type != QT_I64 || t->ne[0] != d->n_logits)
        return err_set(e, ERR_DATA, "%s: d2t is not a list of %" PRId64 " 64-bit tokens",
                       gguf_path(d->m->gguf), d->n_logits);
    bool *seen = try_calloc((size_t)n_vocab, sizeof *seen, "tokens of the draft", e);
    if (!seen) return ERR_SYS;
    d->ids = xcalloc((size_t)d->n_logits, sizeof *d->ids);
    int rc = 0;
    for (int64_t i = 0; i < d->n_logits && !rc; i++) {
        int64_t id;
        memcpy(&id, t->data + i * (int64_t)sizeof id, sizeof id);
        if (id < 0 || id >= n_vocab || seen[id])
            rc = err_set(e, ERR_DATA,
                         "%s: d2t maps token %" PRId64 " to %" PRId64
                         ", which is %s: convert the draft again",
                         gguf_path(d->m->gguf), i, id,
                         id < 0 || id >= n_vocab ? "not a token" : "also that of another token");
        else
            seen[id] = true;
        d->ids[i] = (int32_t)id;
    }
    free(seen);
    return rc;
}

/* Lets the trunk keep the rows that the draft reads (EAGLE-3), and opens the draft's session. */
static int start_tapped(struct drafter *d, struct session *trunk, struct err *e) {
    const struct hparams *h = &d->m->hp;
    const char *path = gguf_path(d->m->gguf);
    const int32_t own = (int32_t)h->d[HD_LAYERS];
    TRY(session_tap(trunk, h->target, (int)h->d[HD_TARGETS], e));
    if (session_new(&d->s, d->m, session_get_opts(trunk), e)) return err_wrap(e, "%s", path);
    TRY(session_tap(d->s, &own, 1, e));
    if (session_tap_width(trunk) != h->d[HD_FEATURES])
        return err_set(
            e, ERR_DATA,
            "%s: the layers of %s have other rows than the draft reads: leave out --draft", path,
            gguf_path(session_model(trunk)->gguf));
    d->taps = true;
    d->steps = DRAFTER_STEPS;
    d->n_row = session_tap_width(trunk);
    d->n_own = session_tap_width(d->s);
    return 0;
}

/* Opens the session of an MTP block. */
static int start_block(struct drafter *d, struct session *trunk, struct err *e) {
    TRY(session_new(&d->s, d->m, session_get_opts(trunk), e));
    d->steps = 1;
    d->n_row = d->n_own = d->m->graph.reg_width[d->m->graph.hidden_out];
    return 0;
}

/* Opens the draft and its session. */
static int start(struct drafter *d, struct session *trunk, const char *how, struct err *e) {
    const struct model *of = session_model(trunk);
    TRY(strcmp(how, "mtp") == 0 ? model_open_draft(&d->m, of, e)
                                : model_open_draft_file(&d->m, how, of, e));
    return d->m->arch->draft ? start_tapped(d, trunk, e) : start_block(d, trunk, e);
}

int drafter_open(struct drafter **out, struct session *trunk, const char *how, struct err *e) {
    struct drafter *d = xcalloc(1, sizeof *d);
    int rc = start(d, trunk, how, e);
    if (!rc) {
        d->n_in = d->m->graph.reg_width[d->m->graph.hidden_in];
        d->n_logits = model_n_logits(d->m);
        if (d->taps) rc = read_ids(d, e);
    }
    if (rc) {
        drafter_close(d);
        return rc;
    }
    *out = d;
    return 0;
}

void drafter_close(struct drafter *d) {
    if (!d) return;
    session_free(d->s);
    model_close(d->m);
    free(d->ids);
    free(d);
}

void drafter_wants(const struct drafter *d, struct session_pass *p, float *rows, float *hidden) {
    p->taps = d->taps ? rows : NULL;
    p->hidden = d->taps ? hidden : rows;
}

void drafter_put(const struct drafter *d, float *in, const float *row) {
    memcpy(in, row, (size_t)d->n_row * sizeof *in);
    memset(in + d->n_row, 0, (size_t)(d->n_in - d->n_row) * sizeof *in);
}

void drafter_put_own(const struct drafter *d, float *in, const float *own) {
    const int64_t n = d->n_in - d->n_own;
    memset(in, 0, (size_t)n * sizeof *in);
    memcpy(in + n, own, (size_t)d->n_own * sizeof *in);
}

int drafter_pass(struct drafter *d, struct session_pass *p, float *own, struct err *e) {
    if (own) drafter_wants(d, p, own, NULL);
    return session_pass(d->s, p, e);
}

int32_t drafter_token(const struct drafter *d, int64_t i) {
    return d->ids ? d->ids[i] : (int32_t)i;
}

/* Warns that the draft's logits are not finite, and names the weight of a draft file. */
static void warn_of_fault(struct drafter *d) {
    const struct gguf *g = d->m->gguf;
    struct err e;
    d->warned = true;
    if (d->m->of || !fault_in_weights(g, &e))
        err_set(&e, ERR_DATA, "%s: logits of the draft are not finite", gguf_path(g));
    log_warn("%s; the drafts are useless: leave out --draft", e.msg);
}

int32_t drafter_best(struct drafter *d, const float *logits) {
    if (!d->warned && fault_in_logits(logits, d->n_logits)) warn_of_fault(d);
    return drafter_token(d, logits_argmax(logits, d->n_logits));
}
