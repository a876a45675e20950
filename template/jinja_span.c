// SPDX-License-Identifier: MIT
/* template/jinja_span.c - origin tracking: the input that each byte of a rendering comes from.
 *
 * With tracking on, every string of a rendering is allocated in chunks, with the origin of each
 * byte in a parallel array. A substring is a view into a chunk and needs no bookkeeping. The output
 * records the origin of each byte it copies, so origins survive everything that copies bytes:
 * printing, concatenation, join, replace, slices, strip, split, formats, macros, tojson. Where
 * other bytes replace a character (an escape, a different case), the writer names the original with
 * jx_as. Numbers, booleans and none carry the origin of their input value (jval.aux) until
 * something is computed from them: sums, int(), round and float formats give values without origin.
 * Characters that the engine adds (quotes, commas, padding) have no origin.
 *
 * Memory: 3 bytes per string byte and 2 per output byte, within the rendering's limits. Without
 * tracking, the cost is one test per string written. */
#include "template/jinja_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { CHUNK = 64 << 10, MAX_ORIGINS = 65535 };

/* Returns the first chunk that ends after p; it contains p, or no chunk does. */
static int chunk_at(const struct jspan *s, const char *p) {
    uintptr_t at = (uintptr_t)p;
    int lo = 0, hi = s->n_chunk;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (at < (uintptr_t)s->chunk[mid].base + s->chunk[mid].used)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

/* Returns the origins of the string at p; NULL: p is outside all chunks. */
static const uint16_t *origins_at(const struct jspan *s, const char *p) {
    int i = chunk_at(s, p);
    if (i == s->n_chunk || (uintptr_t)p < (uintptr_t)s->chunk[i].base) return NULL;
    return s->chunk[i].origin + ((uintptr_t)p - (uintptr_t)s->chunk[i].base);
}

/* Adds a chunk of n bytes of string memory and of their origins, keeping the chunks in address
 * order. */
static void add_chunk(struct jctx *c, struct jspan *s, size_t n) {
    if (s->n_chunk == s->cap_chunk) {
        s->cap_chunk = s->cap_chunk ? s->cap_chunk * 2 : 16;
        s->chunk = xreallocarray(s->chunk, (size_t)s->cap_chunk, sizeof *s->chunk);
    }
    struct jspan_chunk k = {.size = n < CHUNK ? CHUNK : n};
    k.base = jx_alloc(c, k.size, 1);
    k.origin = jx_alloc(c, k.size, sizeof *k.origin);
    int at = 0;
    while (at < s->n_chunk && (uintptr_t)s->chunk[at].base < (uintptr_t)k.base) at++;
    memmove(s->chunk + at + 1, s->chunk + at, (size_t)(s->n_chunk - at) * sizeof *s->chunk);
    s->chunk[at] = k;
    s->n_chunk++;
    s->current = at;
}

char *jspan_alloc(struct jctx *c, size_t n) {
    struct jspan *s = c->span;
    if (!s->n_chunk || s->chunk[s->current].size - s->chunk[s->current].used < n)
        add_chunk(c, s, n);
    struct jspan_chunk *k = &s->chunk[s->current];
    char *p = k->base + k->used;
    k->used += n;
    return p;
}

/* Writes the origins of the n bytes at src to `to`. Bytes outside all chunks get the origin set by
 * jx_as. */
static void write_origins(const struct jspan *s, uint16_t *to, const char *src, size_t n) {
    const uint16_t *from = origins_at(s, src);
    if (from && !s->force) {
        memcpy(to, from, n * sizeof *to);
    } else {
        for (size_t i = 0; i < n; i++) to[i] = s->as;
    }
    for (size_t i = 0; s->node && i < n; i++)
        if (!to[i]) to[i] = s->node;
}

/* Returns the origins of the string bytes at p, which must be in a chunk. */
static uint16_t *origins_of(struct jspan *s, const char *p) {
    int i = chunk_at(s, p);
    return s->chunk[i].origin + (p - s->chunk[i].base);
}

void jspan_copy(struct jctx *c, char *to, const char *src, size_t n) {
    if (!n) return;
    memcpy(to, src, n);
    write_origins(c->span, origins_of(c->span, to), src, n);
}

void jspan_write(struct jctx *c, const char *src, size_t n) {
    struct jspan *s = c->span;
    size_t need = c->out.len + n;
    if (need > s->cap_out) {
        s->cap_out = need < 4096 ? 8192 : need * 2;
        s->out = xreallocarray(s->out, s->cap_out, sizeof *s->out);
    }
    if (n) write_origins(s, s->out + c->out.len, src, n);
}

void jspan_take(struct jctx *c, char *to, size_t mark, size_t n) {
    if (!n) return;
    memcpy(to, c->out.data + mark, n);
    memcpy(origins_of(c->span, to), c->span->out + mark, n * sizeof *c->span->out);
}

void jspan_as(struct jctx *c, const char *src) {
    const uint16_t *from = src ? origins_at(c->span, src) : NULL;
    c->span->as = from ? *from : 0;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

uint16_t jspan_origin(struct jctx *c, struct jval path, const char *kind) {
    struct jspan *s = c->span;
    if (s->n_origin == MAX_ORIGINS)
        jx_fail(c, "limit", "the input has more than %d values: origins cannot be followed",
                MAX_ORIGINS);
    if (s->n_origin == s->cap_origin) {
        s->cap_origin = s->cap_origin ? s->cap_origin * 2 : 64;
        s->origin = xreallocarray(s->origin, (size_t)s->cap_origin, sizeof *s->origin);
    }
    s->origin[s->n_origin].path = xstrndup(path.u.s, path.len);
    s->origin[s->n_origin].kind = kind;
    return (uint16_t)++s->n_origin;
}

struct jval jspan_mark(struct jctx *c, struct jval v, uint16_t origin) {
    if (v.tag == JT_STR) {
        c->span->force = true;
        c->span->as = origin;
        v.u.s = jv_copy(c, v.u.s, v.len).u.s;
        c->span->force = false;
        c->span->as = 0;
    } else if (v.tag == JT_NONE || jv_is_num(v)) {
        v.aux = origin;
    }
    return v;
}

/* ---- results --------------------------------------------------------------------------------- */

void jspan_result(struct jspan *s, size_t n, struct jinja_spans *out) {
    int cap = 0;
    for (size_t i = 0; i < n;) {
        size_t from = i;
        uint16_t origin = s->out[i];
        while (i < n && s->out[i] == origin) i++;
        if (!origin) continue;
        if (out->n == cap) {
            cap = cap ? cap * 2 : 64;
            out->v = xreallocarray(out->v, (size_t)cap, sizeof *out->v);
        }
        out->v[out->n++] = (struct jinja_span){from, i, origin - 1};
    }
    out->origin = s->origin;
    out->n_origin = s->n_origin;
    s->origin = NULL;
    s->n_origin = 0;
}

void jspan_release(struct jspan *s) {
    struct jinja_spans own = {.origin = s->origin, .n_origin = s->n_origin};
    jinja_spans_free(&own);
    free(s->chunk);
    free(s->out);
}

void jinja_spans_free(struct jinja_spans *s) {
    for (int i = 0; i < s->n_origin; i++) free(s->origin[i].path);
    free(s->origin);
    free(s->v);
    memset(s, 0, sizeof *s);
}
