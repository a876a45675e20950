// SPDX-License-Identifier: MIT
/* runtime/generate/constrain.c - constrained decoding: a grammar restricts what a sampler draws
 * (constrain.h). */
#include "runtime/generate/constrain.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "base/num.h"
#include "runtime/engine/logits.h"

enum { SPACES_MAX = 2, FORCED_MAX = 512, TRIES = 16, MANY = 256 };

/* Phase of an answer. The first token decides whether it starts with reasoning; the text
 * follows. */
enum placement { AT_START, IN_REASONING, IN_TEXT };

enum { LANGS = 2 };
struct states { /* one state for each language that the text may still belong to */
    struct gram_state *v[LANGS];
    int n;
};
struct constrain {
    struct constrain_opts o;
    const struct tok *tok;
    struct states state, before; /* current states, and those before the last token */
    enum placement at;
    struct buf text;  /* all text so far, without white space before the text */
    size_t aside;     /* bytes of such white space at the end of the last token */
    int spaces;       /* whitespace tokens still allowed before the text */
    int64_t left;     /* maximum number of tokens still to come; -1: unlimited */
    bool ended;       /* the last token ended the answer */
    bool late;        /* the text cannot be completed within `left` tokens */
    struct ids end;   /* tokens that complete the text from here; empty: not yet searched */
    struct ids close; /* tokens of o.close */
    struct constrain_counts n;
    size_t *over; /* [n.n_overruled] offsets in text */
    float *logits;
    uint32_t *bits, *more;
};

/* Ends all states and empties the list. */
static void states_end(struct states *s) {
    for (int i = 0; i < s->n; i++) gram_end(s->v[i]);
    s->n = 0;
}

/* Returns copies of all states, ended with states_end(). */
static struct states states_copy(const struct states *s) {
    struct states to = {.n = s->n};
    for (int i = 0; i < s->n; i++) to.v[i] = gram_copy(s->v[i]);
    return to;
}

struct constrain *constrain_new(const struct constrain_opts *o, const struct tok *t) {
    struct constrain *c = xcalloc(1, sizeof *c);
    c->o = *o;
    c->tok = t;
    c->left = -1;
    c->state.v[c->state.n++] = gram_begin(o->g);
    if (o->other) c->state.v[c->state.n++] = gram_begin(o->other);
    c->at = o->close && !o->open ? IN_REASONING : o->open ? AT_START : IN_TEXT;
    c->spaces = c->at == IN_TEXT ? o->spaces : 0;
    struct err ignored; /* if this fails, reasoning is not closed in time */
    if (o->close) (void)tok_encode(t, o->close, strlen(o->close), true, false, &c->close, &ignored);
    buf_str(&c->text, "");
    return c;
}

void constrain_free(struct constrain *c) {
    if (!c) return;
    states_end(&c->state);
    states_end(&c->before);
    buf_release(&c->text);
    ids_release(&c->end);
    ids_release(&c->close);
    free(c->over);
    free(c->logits);
    free(c->bits);
    free(c->more);
    free(c);
}

struct constrain_counts constrain_get_counts(const struct constrain *c) {
    return c ? c->n : (struct constrain_counts){0};
}

const size_t *constrain_overruled(const struct constrain *c, int64_t *n) {
    *n = c ? c->n.n_overruled : 0;
    return c ? c->over : NULL;
}

bool constrain_done(const struct constrain *c) {
    for (int i = 0; i < c->state.n; i++)
        if (!gram_must_end(c->state.v[i])) return false;
    return c->at == IN_TEXT;
}

size_t constrain_aside(const struct constrain *c) {
    return c->aside;
}

/* ---- allowed tokens ---- */

/* Returns whether s is not empty and has only whitespace. */
static bool is_blank(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r\n", s[i])) return false;
    return n > 0;
}

/* Returns whether a token outside the grammar is allowed: the opening tag, or whitespace before the
 * text. */
static bool besides(const struct constrain *c, int32_t id) {
    if (c->at != AT_START && c->spaces == 0) return false;
    struct buf b = {0};
    tok_decode(c->tok, id, true, &b);
    bool ok = c->spaces > 0 && b.len && is_blank(b.data, b.len);
    if (c->at == AT_START && b.len) ok = strncmp(c->o.open, b.data, strlen(c->o.open)) == 0;
    buf_release(&b);
    return ok;
}

/* Returns whether any of the grammar states allows the token. */
static bool in_text(const struct constrain *c, int32_t id) {
    for (int i = 0; i < c->state.n; i++)
        if (gram_allows(c->state.v[i], id)) return true;
    return false;
}

/* Returns the end of the closing tag as an offset in s, if s comes next and completes the tag;
 * otherwise -1. */
static int64_t closes(const struct constrain *c, const char *s, size_t n) {
    const size_t len = strlen(c->o.close);
    const size_t n_tail = c->text.len < len - 1 ? c->text.len : len - 1;
    struct buf b = {0};
    buf_add(&b, c->text.data + c->text.len - n_tail, n_tail);
    buf_add(&b, s, n);
    const char *hit = memmem(b.data, b.len, c->o.close, len);
    const int64_t at = hit ? hit - b.data + (int64_t)len - (int64_t)n_tail : -1;
    buf_release(&b);
    return at;
}

/* Advances the states by text, which may end inside a token, and drops languages that do not match.
 * Returns false, with nothing changed, if none matches. */
static bool go_on(struct states *s, const char *text, size_t n) {
    struct states to = states_copy(s), kept = {.n = 0};
    struct err ignored;
    for (int i = 0; i < to.n; i++) {
        if (gram_accept_text(to.v[i], text, n, &ignored))
            gram_end(to.v[i]);
        else
            kept.v[kept.n++] = to.v[i];
    }
    if (!kept.n) return false;
    states_end(s);
    *s = kept;
    return true;
}

/* Returns whether a token is allowed within reasoning: anything it adds after the closing tag must
 * be able to start the text. */
static bool may_close(const struct constrain *c, int32_t id) {
    struct buf b = {0};
    tok_decode(c->tok, id, true, &b);
    const int64_t at = b.len ? closes(c, b.data, b.len) : -1;
    bool ok = true;
    if (at >= 0 && (size_t)at < b.len && !is_blank(b.data + at, b.len - (size_t)at)) {
        struct states s = states_copy(&c->state);
        ok = go_on(&s, b.data + at, b.len - (size_t)at);
        states_end(&s);
    }
    buf_release(&b);
    return ok;
}

/* Returns whether token id may come next, in reasoning or in text. A model may have logits for more
 * ids than there are tokens. */
static bool is_allowed(const struct constrain *c, int32_t id) {
    if (id >= tok_n_vocab(c->tok)) return false;
    if (c->at == IN_REASONING) return tok_is_eog(c->tok, id) ? c->o.may_end : may_close(c, id);
    return in_text(c, id) || besides(c, id);
}

/* Sets and returns the error for a grammar that no token continues. */
static int no_token(struct err *e) {
    return err_set(e, ERR_DATA,
                   "no token of the vocabulary continues a text that the grammar allows");
}

/* Allocates the masks for n tokens, and logits for all that the sampler reads. */
static void alloc_masks(struct constrain *c, const struct sampler *s, int64_t n) {
    const int64_t n_all = sampler_n_vocab(s);
    c->logits = xcalloc((size_t)max_i64(n, n_all), sizeof *c->logits);
    c->bits = xcalloc(((size_t)n + 31) / 32 + 1, sizeof *c->bits);
    c->more = xcalloc(((size_t)n + 31) / 32 + 1, sizeof *c->more);
    for (int64_t i = n; i < n_all; i++) c->logits[i] = -INFINITY;
}

/* Draws from all logits after masking the forbidden tokens. */
static int pick_masked(struct constrain *c, struct sampler *s, const float *logits, int64_t n,
                       const int32_t *last, int64_t n_last, int32_t *id, struct err *e) {
    bool any = false;
    if (!c->logits) alloc_masks(c, s, n);
    for (int i = 0; i < c->state.n && c->at != IN_REASONING; i++) {
        TRY(gram_mask(c->state.v[i], i ? c->more : c->bits, e));
        for (int64_t k = 0; i && k < (n + 31) / 32; k++) c->bits[k] |= c->more[k];
    }
    const bool alone = c->at != IN_TEXT || c->spaces > 0;
    for (int64_t i = 0; i < n; i++) {
        const bool ok = alone ? is_allowed(c, (int32_t)i) : (c->bits[i / 32] >> i % 32 & 1) != 0;
        c->logits[i] = ok ? logits[i] : -INFINITY;
        any = any || (ok && isfinite(logits[i]));
    }
    if (!any) return no_token(e);
    *id = sampler_pick(s, c->logits, last, n_last);
    return 0;
}

/* Keeps the allowed tokens among the n best logits, in order, at most `most`. Returns how many it
 * kept. */
static int64_t keep_allowed(const struct constrain *c, int32_t *id, float *logit, int64_t n,
                            int64_t most) {
    int64_t m = 0;
    for (int64_t i = 0; i < n && m < most; i++) {
        if (!is_allowed(c, id[i])) continue;
        id[m] = id[i];
        logit[m++] = logit[i];
    }
    return m;
}

/* Draws among the allowed tokens. First tests as many candidates as the sampler needs, and looks at
 * more only if some of these are forbidden. *alone: the token that the sampler would have drawn on
 * its own. */
static int pick(struct constrain *c, struct sampler *s, const float *logits, const int32_t *last,
                int64_t n_last, int32_t *alone, int32_t *id, struct err *e) {
    static const int32_t ladder[] = {16, LOGITS_BEST};
    const int64_t n = tok_n_vocab(c->tok), needs = sampler_needs(s, n_last);
    const uint64_t rng = sampler_get_rng(s);
    const bool few = needs > 0 && needs <= LOGITS_BEST;
    int32_t best[LOGITS_BEST];
    float logit[LOGITS_BEST];
    int64_t n_best = few ? logits_best(logits, n, (int32_t)needs, best, logit) : 0;
    *id = few ? sampler_pick_best(s, best, logit, n_best, last, n_last)
              : sampler_pick(s, logits, last, n_last);
    *alone = *id;
    const bool ok = is_allowed(c, *id);
    if (ok && (needs == 1 || c->at == IN_REASONING)) return 0;
    int64_t m = few ? keep_allowed(c, best, logit, n_best, needs) : 0;
    if (few && ok && m == n_best) return 0; /* no candidate is forbidden, so the draw is the same */
    for (size_t i = 0; i < COUNT_OF(ladder) && few && m < needs && n_best >= needs; i++) {
        if (ladder[i] <= needs) continue;
        n_best = logits_best(logits, n, ladder[i], best, logit);
        m = keep_allowed(c, best, logit, n_best, needs);
        if (n_best < ladder[i]) break; /* all logits have been looked at */
    }
    sampler_set_rng(s, rng);
    if (!few || m == 0 || (m < needs && n_best >= LOGITS_BEST))
        return pick_masked(c, s, logits, n, last, n_last, id, e);
    *id = sampler_pick_best(s, best, logit, m, last, n_last);
    return 0;
}

/* Counts a token that differs from the sampler's own choice, and records the byte offset in the
 * answer at which their texts diverge. */
static void note_overruled(struct constrain *c, int32_t alone, int32_t id) {
    struct buf a = {0}, b = {0};
    size_t same = 0;
    tok_decode(c->tok, alone, true, &a);
    tok_decode(c->tok, id, true, &b);
    while (same < a.len && same + 1 < b.len && a.data[same] == b.data[same]) same++;
    const int64_t n = c->n.n_overruled++;
    if ((n & (n - 1)) == 0)
        c->over = xreallocarray(c->over, n ? 2 * (size_t)n : 1, sizeof *c->over);
    c->over[n] = c->text.len + same;
    buf_release(&a);
    buf_release(&b);
}

/* ---- token limit ---- */

void constrain_limit(struct constrain *c, int64_t left) {
    c->left = left;
}

/* Returns whether `most` tokens can complete the text. If no completion is known, assumes that one
 * exists within MANY tokens. */
static bool text_ends(const struct states *s, int64_t most) {
    for (int i = 0; i < s->n; i++)
        if (gram_ends_within(s->v[i], most) || (most >= MANY && gram_least(s->v[i]) < 0))
            return true;
    return false;
}

/* Returns whether `most` more tokens can complete the text after token id. */
static bool ends_behind(struct constrain *c, int32_t id, int64_t most) {
    if (c->at == IN_REASONING && tok_is_eog(c->tok, id)) return true;
    if (c->end.n && c->end.v[0] == id && c->end.n - 1 <= most) return true;
    if (c->at == IN_REASONING && c->o.may_end) return true;
    struct buf b = {0};
    struct states s = states_copy(&c->state);
    struct err ignored;
    tok_decode(c->tok, id, true, &b);
    int n = 0;
    bool ended = false;
    if (c->at != IN_REASONING && in_text(c, id)) {
        for (int i = 0; i < s.n; i++) {
            if (gram_accept(s.v[i], id, &ignored)) {
                gram_end(s.v[i]);
                continue;
            }
            ended = ended || gram_ended(s.v[i]);
            s.v[n++] = s.v[i];
        }
        s.n = n;
    } else {
        const int64_t at = c->at == IN_REASONING && b.len ? closes(c, b.data, b.len) : -1;
        if (at >= 0)
            (void)go_on(&s, b.data + at, b.len - (size_t)at);
        else if (c->at != IN_TEXT)
            most -= c->close.n;
    }
    const bool ok = ended || text_ends(&s, most);
    buf_release(&b);
    states_end(&s);
    return ok;
}

/* Searches for tokens that complete the text and stores them in c->end. Returns false if no such
 * tokens are known, or if they exceed the limit; in that case c->late is set. */
static bool find_end(struct constrain *c) {
    struct ids best = {0};
    bool found = false;
    for (int i = 0; i < c->state.n; i++) {
        struct ids way = {0};
        if (gram_way_out(c->state.v[i], &way) && (!found || way.n < best.n)) {
            ids_release(&best);
            best = way;
            found = true;
        } else {
            ids_release(&way);
        }
    }
    c->end.n = 0;
    for (int64_t i = 0; i < c->close.n && c->at == IN_REASONING; i++)
        ids_add(&c->end, c->close.v[i]);
    for (int64_t i = 0; i < best.n; i++) ids_add(&c->end, best.v[i]);
    ids_release(&best);
    c->late = found && c->end.n > c->left;
    if (c->late) c->end.n = 0;
    return found && !c->late;
}

/* Replaces the drawn token if the text could no longer be completed after it: by the most likely
 * token that allows completion, or else by the next token of c->end. */
static void end_in_time(struct constrain *c, const float *logits, int32_t *id) {
    const int64_t n = tok_n_vocab(c->tok), most = c->left - 1;
    int32_t best[TRIES];
    float logit[TRIES];
    if (c->left <= 0 || c->late || ends_behind(c, *id, most)) return;
    if (!c->end.n && !find_end(c)) return;
    int64_t n_best = logits_best(logits, n, TRIES, best, logit), at = 0;
    while (at < n_best && (!is_allowed(c, best[at]) || !ends_behind(c, best[at], most))) at++;
    if (at < n_best) {
        *id = best[at];
    } else if (c->end.n) {
        *id = c->end.v[0];
    } else { /* the text is complete */
        int32_t end = -1;
        for (int32_t i = 0; i < n; i++)
            if (tok_is_eog(c->tok, i) && (end < 0 || logits[i] > logits[end])) end = i;
        if (end < 0 || !isfinite(logits[end])) return;
        *id = end;
    }
    c->n.n_ended++;
    c->n.n_shortened += c->at == IN_TEXT;
}

int constrain_pick(struct constrain *c, struct sampler *s, const float *logits, const int32_t *last,
                   int64_t n_last, int32_t *id, struct err *e) {
    int32_t alone;
    TRY(pick(c, s, logits, last, n_last, &alone, id, e));
    end_in_time(c, logits, id);
    c->n.n_drawn += c->at != IN_REASONING;
    if (*id != alone && !is_allowed(c, alone)) note_overruled(c, alone, *id);
    return 0;
}

/* ---- accepted tokens ---- */

/* Advances within reasoning. If reasoning ends inside s, the rest of s is text. */
static int reason(struct constrain *c, const char *s, size_t n, struct err *e) {
    const int64_t at = closes(c, s, n);
    if (at < 0) return 0;
    c->at = IN_TEXT;
    c->spaces = c->o.spaces > SPACES_MAX ? c->o.spaces : SPACES_MAX;
    if ((size_t)at == n || is_blank(s + at, n - (size_t)at)) {
        c->aside = n - (size_t)at;
        return 0;
    }
    return go_on(&c->state, s + at, n - (size_t)at) ? 0 : no_token(e);
}

/* Advances the grammar states by token id. ERR_DATA: no state allows the token. */
static int accept_text(struct constrain *c, int32_t id, struct err *e) {
    struct states to = states_copy(&c->state);
    int n = 0, rc = 0;
    for (int i = 0; i < to.n; i++) {
        const int one = gram_accept(to.v[i], id, e);
        if (one == ERR_DATA) rc = one;
        if (one)
            gram_end(to.v[i]);
        else
            to.v[n++] = to.v[i];
    }
    to.n = n;
    if (rc || !n) {
        states_end(&to);
        return rc ? rc : no_token(e);
    }
    states_end(&c->before);
    c->before = c->state;
    c->state = to;
    c->at = IN_TEXT;
    c->spaces = 0;
    return 0;
}

int constrain_accept(struct constrain *c, int32_t id, struct err *e) {
    struct buf b = {0};
    int rc = 0;
    c->aside = 0;
    if (c->end.n && c->end.v[0] == id)
        memmove(c->end.v, c->end.v + 1, (size_t)--c->end.n * sizeof *c->end.v);
    else
        c->end.n = 0;
    if (c->left > 0) c->left--;
    if (tok_is_eog(c->tok, id)) {
        c->ended = c->at == IN_REASONING;
        if (!c->ended) TRY(accept_text(c, id, e));
        for (int i = 0; i < c->state.n; i++) c->ended = c->ended || gram_ended(c->state.v[i]);
        if (!c->ended) tok_decode(c->tok, id, true, &c->text);
        return 0;
    }
    tok_decode(c->tok, id, true, &b);
    if (c->at != IN_REASONING && in_text(c, id)) {
        rc = accept_text(c, id, e);
    } else {
        states_end(&c->before);
        if (c->at == AT_START && b.len) c->at = IN_REASONING;
        if (c->at == IN_TEXT && c->spaces > 0) {
            c->spaces--;
            c->aside = b.len;
        }
        if (c->at == IN_REASONING && b.len) rc = reason(c, b.data, b.len, e);
    }
    buf_add(&c->text, b.data ? b.data : "", b.len - c->aside);
    buf_release(&b);
    return rc;
}

bool constrain_ended(const struct constrain *c) {
    return c->ended;
}

/* Returns how many of `ids` are certain to follow. The last one is left to the model unless the
 * text ends there. 0: after them, completing the text would exceed the limit. */
static int64_t certain(const struct constrain *c, const struct gram_state *from,
                       const struct ids *ids, int64_t most) {
    struct gram_state *s = gram_copy(from);
    struct err ignored;
    int64_t k = 0;
    while (k < ids->n && k < most && gram_accept(s, ids->v[k], &ignored) == 0) k++;
    /* c->left no longer includes the token that these tokens replace, hence + 1. */
    const bool late = c->left >= 0 && !c->late && !gram_ends_within(s, c->left + 1 - k);
    if (k == ids->n && k > 0 && !gram_must_end(s)) k--;
    gram_end(s);
    return late ? 0 : k;
}

int constrain_forced(struct constrain *c, int32_t id, int64_t most, struct ids *out,
                     struct err *e) {
    struct buf text = {0}, again = {0};
    int rc = 0;
    out->n = 0;
    if (c->o.draw_all || c->before.n != 1 || c->state.n != 1 || c->at != IN_TEXT) return 0;
    if (gram_must_end(c->state.v[0])) return 0;
    tok_decode(c->tok, id, false, &text);
    const size_t len = text.len;
    if (len) gram_forced(c->state.v[0], FORCED_MAX, &text);
    if (len && text.len > len + 1)
        rc = tok_encode(c->tok, text.data, text.len, false, false, out, e);
    for (int64_t i = 0; i < out->n; i++) tok_decode(c->tok, out->v[i], false, &again);
    const bool same = again.len == text.len && memcmp(again.data, text.data, text.len) == 0;
    out->n = same && !rc ? certain(c, c->before.v[0], out, most) : 0;
    if (out->n < 2) out->n = 0;
    if (out->n) { /* replace the token by the forced ones */
        states_end(&c->state);
        c->state = c->before;
        c->before.n = 0;
        c->text.len -= len;
        c->left += c->left >= 0;
        c->end.n = 0;
        for (int64_t i = 0; i < out->n && !rc; i++) rc = constrain_accept(c, out->v[i], e);
        c->n.n_forced += out->n - 1;
    }
    buf_release(&text);
    buf_release(&again);
    return rc;
}
