// SPDX-License-Identifier: MIT
/* runtime/generate/constrain.c - a grammar and a sampler together (constrain.h). */
#include "runtime/generate/constrain.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

enum { SPACES_MAX = 2, FORCED_MAX = 512 };

/* Where an answer is: its first token decides whether it reasons, then reasoning, then text. */
enum place { AT_START, IN_REASONING, IN_TEXT };

struct constrain {
    struct constrain_opts o;
    const struct tok *tok;
    struct gram_state *state, *before; /* before: without the last token; NULL */
    enum place at;
    struct buf text; /* reasoning so far */
    int spaces;      /* tokens of white space that may still come between reasoning and text */
    struct constrain_counts n;
    float *logits;
    uint32_t *bits;
};

struct constrain *constrain_new(const struct constrain_opts *o, const struct tok *t) {
    struct constrain *c = xcalloc(1, sizeof *c);
    c->o = *o;
    c->tok = t;
    c->state = gram_begin(o->g);
    c->at = o->close && !o->open ? IN_REASONING : o->open ? AT_START : IN_TEXT;
    return c;
}

void constrain_free(struct constrain *c) {
    if (!c) return;
    gram_end(c->state);
    gram_end(c->before);
    buf_release(&c->text);
    free(c->logits);
    free(c->bits);
    free(c);
}

struct constrain_counts constrain_get_counts(const struct constrain *c) {
    return c ? c->n : (struct constrain_counts){0};
}

bool constrain_done(const struct constrain *c) {
    return c->at == IN_TEXT && gram_must_end(c->state);
}

/* ---- which tokens ---- */

static bool blank(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r\n", s[i])) return false;
    return n > 0;
}

/* Allowed, though the grammar knows nothing of it: an opening tag, white space behind a closing
 * one. */
static bool besides(const struct constrain *c, int32_t id) {
    if (c->at != AT_START && c->spaces == 0) return false;
    struct buf b = {0};
    tok_decode(c->tok, id, true, &b);
    bool ok = c->spaces > 0 && blank(b.data, b.len);
    if (c->at == AT_START && b.len) ok = strncmp(c->o.open, b.data, strlen(c->o.open)) == 0;
    buf_release(&b);
    return ok;
}

static bool allowed(const struct constrain *c, int32_t id) {
    if (c->at == IN_REASONING) return !tok_is_eog(c->tok, id);
    return gram_allows(c->state, id) || besides(c, id);
}

static int no_token(struct err *e) {
    return err_set(e, ERR_DATA, "no token of the vocabulary goes on with what the grammar allows");
}

/* All logits, those of forbidden tokens impossible. */
static int pick_masked(struct constrain *c, struct sampler *s, const float *logits, int64_t n,
                       const int32_t *last, int64_t n_last, int32_t *id, struct err *e) {
    bool any = false;
    if (!c->logits) {
        c->logits = xcalloc((size_t)n, sizeof *c->logits);
        c->bits = xcalloc(((size_t)n + 31) / 32 + 1, sizeof *c->bits);
    }
    if (c->at != IN_REASONING) TRY(gram_mask(c->state, c->bits, e));
    const bool alone = c->at != IN_TEXT || c->spaces > 0;
    for (int64_t i = 0; i < n; i++) {
        const bool ok = alone ? allowed(c, (int32_t)i) : (c->bits[i / 32] >> i % 32 & 1) != 0;
        c->logits[i] = ok ? logits[i] : -INFINITY;
        any = any || (ok && isfinite(logits[i]));
    }
    if (!any) return no_token(e);
    *id = sampler_pick(s, c->logits, last, n_last);
    return 0;
}

int constrain_pick(struct constrain *c, struct sampler *s, const float *logits, const int32_t *last,
                   int64_t n_last, int32_t *id, struct err *e) {
    const int64_t n = tok_n_vocab(c->tok), needs = sampler_needs(s, n_last);
    const uint64_t rng = sampler_get_rng(s);
    int32_t best[SAMPLE_BEST], kept[SAMPLE_BEST], alone;
    float logit[SAMPLE_BEST], kept_logit[SAMPLE_BEST];
    int64_t n_best = 0, m = 0;
    const bool few = needs > 0 && needs <= SAMPLE_BEST;
    if (few) n_best = sample_best(logits, n, SAMPLE_BEST, best, logit);
    alone = few ? sampler_pick_best(s, best, logit, n_best, last, n_last)
                : sampler_pick(s, logits, last, n_last);
    const bool ok = allowed(c, alone);
    c->n.n_drawn += c->at != IN_REASONING;
    c->n.n_overruled += !ok;
    *id = alone;
    if (ok && needs == 1) return 0;
    for (int64_t i = 0; i < n_best && m < needs; i++) {
        if (!allowed(c, best[i])) continue;
        kept[m] = best[i];
        kept_logit[m++] = logit[i];
    }
    sampler_set_rng(s, rng);
    if (!few || (m < needs && n_best == SAMPLE_BEST) || m == 0)
        return pick_masked(c, s, logits, n, last, n_last, id, e);
    *id = sampler_pick_best(s, kept, kept_logit, m, last, n_last);
    return 0;
}

/* ---- what came ---- */

/* Reasoning goes on; behind its end the rest of the token is text. */
static int reason(struct constrain *c, const char *s, size_t n, struct err *e) {
    const size_t len = strlen(c->o.close), from = c->text.len > len ? c->text.len - len : 0;
    buf_add(&c->text, s, n);
    const char *hit = memmem(c->text.data + from, c->text.len - from, c->o.close, len);
    if (!hit) return 0;
    const char *rest = hit + len;
    const size_t n_rest = c->text.len - (size_t)(rest - c->text.data);
    c->at = IN_TEXT;
    c->spaces = SPACES_MAX;
    return n_rest && !blank(rest, n_rest) ? gram_accept_text(c->state, rest, n_rest, e) : 0;
}

int constrain_accept(struct constrain *c, int32_t id, struct err *e) {
    struct buf b = {0};
    int rc = 0;
    gram_end(c->before);
    c->before = NULL;
    if (c->at != IN_REASONING && gram_allows(c->state, id)) {
        c->before = gram_copy(c->state);
        c->at = IN_TEXT;
        c->spaces = 0;
        return gram_accept(c->state, id, e);
    }
    tok_decode(c->tok, id, true, &b);
    if (c->at == AT_START && b.len) c->at = IN_REASONING;
    if (c->at == IN_REASONING && b.len) rc = reason(c, b.data, b.len, e);
    if (c->at == IN_TEXT && c->spaces > 0) c->spaces--;
    buf_release(&b);
    return rc;
}

int constrain_forced(struct constrain *c, int32_t id, int64_t most, struct ids *out,
                     struct err *e) {
    struct buf text = {0}, again = {0};
    int rc = 0;
    out->n = 0;
    if (c->o.draw_all || !c->before || c->at != IN_TEXT || gram_must_end(c->state)) return 0;
    tok_decode(c->tok, id, false, &text);
    const size_t len = text.len;
    if (len) gram_forced(c->state, FORCED_MAX, &text);
    if (len && text.len > len + 1)
        rc = tok_encode(c->tok, text.data, text.len, false, false, out, e);
    for (int64_t i = 0; i < out->n; i++) tok_decode(c->tok, out->v[i], false, &again);
    const bool same = again.len == text.len && memcmp(again.data, text.data, text.len) == 0;
    struct gram_state *s = gram_copy(c->before);
    struct err ignored;
    int64_t k = 0;
    while (!rc && same && k < out->n && k < most && gram_accept(s, out->v[k], &ignored) == 0) k++;
    if (k == out->n && k > 0 && !gram_must_end(s)) k--;
    out->n = same && !rc ? k : 0;
    gram_end(s);
    if (out->n < 2) out->n = 0;
    if (out->n) {
        gram_end(c->state);
        c->state = c->before;
        c->before = NULL;
        for (int64_t i = 0; i < out->n && !rc; i++) rc = gram_accept(c->state, out->v[i], e);
        c->n.n_forced += out->n - 1;
    }
    buf_release(&text);
    buf_release(&again);
    return rc;
}
