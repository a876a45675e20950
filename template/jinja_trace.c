// SPDX-License-Identifier: MIT
/* template/jinja_trace.c - traces of renderings: the statement that wrote each byte, and the
 * expression that last held a text.
 *
 * The bookkeeping works as in jinja_span.c, with statements instead of inputs. A byte belongs to
 * the statement that first wrote it, or for a copy of an input, first copied it, no matter where
 * macros, set blocks and filters carry it afterwards. */
#include "template/jinja_trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { MAX_STATEMENTS = 65535 };

/* Records that a statement runs. Only the first 65535 statements are distinguished; later ones
 * count as 0. */
void jtrace_at(struct jctx *c, const struct jnode *n) {
    struct jtrace *t = c->span->trace;
    bool text = n->kind == JN_TEXT;
    size_t pos = text ? (size_t)(n->val.u.s - c->t->src) : n->pos;
    if (!t->id) t->id = xcalloc(c->t->src_len + 1, sizeof *t->id);
    c->span->node = 0;
    if (pos > c->t->src_len) return;
    if (!t->id[pos] && t->n < MAX_STATEMENTS) {
        if (t->n == t->cap) {
            t->cap = t->cap ? t->cap * 2 : 64;
            t->v = xreallocarray(t->v, (size_t)t->cap, sizeof *t->v);
        }
        t->v[t->n++] = (struct jtrace_stmt){(uint32_t)pos, text ? n->val.len : 0};
        t->id[pos] = (uint16_t)t->n;
    }
    c->span->node = t->id[pos];
}

/* Returns 1 if v is a string that contains the wanted text, a larger number if such a string is
 * inside lists or objects (the more, the larger they are), 0 if it is not found. Each visit is a
 * step, because a list that contains another one twice is visited as a tree. */
static unsigned size_around(struct jctx *c, struct jval v, struct jval want, int depth) {
    unsigned n = 0, found = 0;
    jx_step(c);
    if (v.tag == JT_STR) jx_bytes(c, v.len);
    if (v.tag == JT_STR) return v.len >= want.len && memmem(v.u.s, v.len, want.u.s, want.len);
    if (depth > 50) return 0;
    if (v.tag == JT_DICT) {
        n = v.u.dict->n;
        for (uint32_t i = 0; i < n && !found; i++) {
            found = size_around(c, v.u.dict->e[i].v, want, depth + 1);
            if (!found) found = size_around(c, v.u.dict->e[i].k, want, depth + 1);
        }
    } else if (v.tag == JT_LIST || v.tag == JT_TUPLE) {
        n = v.u.list->n;
        for (uint32_t i = 0; i < n && !found; i++)
            found = size_around(c, v.u.list->v[i], want, depth + 1);
    }
    return found ? found + n + 1 : 0;
}

void jtrace_saw(struct jctx *c, const struct jnode *n, struct jval v) {
    struct jtrace *t = c->span->trace;
    unsigned around = t->want.len ? size_around(c, v, t->want, 0) : 0;
    if (!around || (t->around && around > t->around)) return;
    t->around = around;
    t->held = n->pos;
}

void jtrace_result(struct jtrace *t, const struct jspan *s, size_t n) {
    t->out = xreallocarray(NULL, n + 1, sizeof *t->out);
    t->n_out = n;
    if (n) memcpy(t->out, s->out, n * sizeof *t->out);
}

bool jtrace_byte(const struct jtrace *t, const struct jinja *tmpl, const struct buf *out, size_t at,
                 uint32_t *pos) {
    if (at >= t->n_out || !t->out[at]) return false;
    const struct jtrace_stmt *s = &t->v[t->out[at] - 1];
    *pos = s->pos;
    if (!s->len) return true;
    size_t from = at;
    while (from > 0 && t->out[from - 1] == t->out[at]) from--;
    uint32_t exact = s->pos + (uint32_t)((at - from) % s->len); /* A loop repeats its text. */
    /* Otherwise only part of the text is left. */
    if (tmpl->src[exact] == out->data[at]) *pos = exact;
    return true;
}

void jtrace_release(struct jtrace *t) {
    free(t->id);
    free(t->v);
    free(t->out);
    memset(t, 0, sizeof *t);
}
