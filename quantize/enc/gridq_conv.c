// SPDX-License-Identifier: MIT
/* quantize/enc/gridq_conv.c - the field's usual search for the IQ2 and IQ3 formats, written from
 * its description (docs/design/quantize.md): baseline of the tests and a start of the best search.
 *
 * Signs are taken off (parity: the least important sign of an odd group is flipped), scales are
 * tried on a grid with equally spaced levels 1, 3, 5, ...; a vector that is not on the format's
 * grid goes to the best of its nearest entries under sqrt(w); sub-scales are quantized by
 * themselves, the codes stay. Tables of neighbours are made at first use. */
#include "quantize/enc/gridq.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

enum { N_TYPES = 6 };

static struct near_table tables[N_TYPES];
static pthread_once_t once[N_TYPES] = {PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT,
                                       PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT};

static int bits_of(const struct grid_spec *s) {
    return s->n_level == 3 ? 2 : 3;
}

static int distance(const uint8_t *a, const uint8_t *b, int n) {
    int d = 0;
    for (int i = 0; i < n; i++) d += (a[i] - b[i]) * (a[i] - b[i]);
    return d;
}

/* Entries within the nearest `shells` distances of v; returns their number. */
static int neighbours(const struct near_table *t, const uint8_t *v, uint16_t *out) {
    uint16_t d[GRID_MAX];
    int limit = -1, n = 0;
    for (int g = 0; g < t->s->n; g++) d[g] = (uint16_t)distance(v, t->code[g], t->s->per);
    for (int k = 0; k < t->s->shells; k++) {
        int next = 1 << 15;
        for (int g = 0; g < t->s->n; g++)
            if (d[g] > limit && d[g] < next) next = d[g];
        limit = next;
    }
    for (int g = 0; g < t->s->n; g++)
        if (d[g] <= limit) out[n++] = (uint16_t)g;
    return n;
}

static void fill(enum qtype type, int slot) {
    struct near_table *t = &tables[slot];
    const struct grid_spec *s = t->s = grid_spec_of(type);
    const int bits = bits_of(s), n_codes = 1 << (bits * s->per);
    const int8_t *lowest = grid_levels(s, 0);
    const int top = (int)s->top, first = lowest[0];
    size_t cap = 1 << 20, n = 0;
    t->start = xcalloc((size_t)n_codes, sizeof *t->start);
    t->list = xreallocarray(NULL, cap, sizeof *t->list);
    for (int i = 0; i < n_codes; i++) t->start[i] = INT32_MIN;
    for (int g = 0; g < s->n; g++) {
        int code = 0;
        for (int e = 0; e < s->per; e++) {
            int l = grid_levels(s, g)[e];
            int at = (2 * (l - first) * (s->n_level - 1) + top - first) / (2 * (top - first));
            t->code[g][e] = (uint8_t)at;
            code |= at << (bits * e);
        }
        t->start[code] = g;
    }
    for (int i = 0; i < n_codes; i++) {
        uint8_t v[8] = {0};
        bool valid = t->start[i] == INT32_MIN;
        for (int e = 0; e < s->per; e++) {
            v[e] = (uint8_t)(i >> (bits * e) & ((1 << bits) - 1));
            valid &= v[e] < s->n_level;
        }
        if (!valid) continue;
        if (n + GRID_MAX + 1 > cap) t->list = xreallocarray(t->list, cap *= 2, sizeof *t->list);
        int k = neighbours(t, v, t->list + n + 1);
        t->list[n] = (uint16_t)k;
        t->start[i] = -1 - (int32_t)n;
        n += (size_t)k + 1;
    }
}
static void fill0(void) {
    fill(QT_IQ2_XXS, 0);
}
static void fill1(void) {
    fill(QT_IQ2_XS, 1);
}
static void fill2(void) {
    fill(QT_IQ2_S, 2);
}
static void fill3(void) {
    fill(QT_IQ3_XXS, 3);
}
static void fill4(void) {
    fill(QT_IQ3_S, 4);
}
static void fill5(void) {
    fill(QT_IQ1_S, 5);
}

const struct near_table *enc_grid_near(enum qtype t) {
    static const struct {
        enum qtype type;
        void (*fill)(void);
    } row[N_TYPES] = {{QT_IQ2_XXS, fill0}, {QT_IQ2_XS, fill1}, {QT_IQ2_S, fill2},
                      {QT_IQ3_XXS, fill3}, {QT_IQ3_S, fill4},  {QT_IQ1_S, fill5}};
    int i = 0;
    while (row[i].type != t) i++;
    pthread_once(&once[i], row[i].fill);
    return &tables[i];
}

struct sub { /* one sub-block */
    const struct near_table *t;
    const float *w, *root; /* weights and their roots */
    float a[32];           /* magnitudes; a flipped one is negative */
};
struct trial {
    uint16_t index[8];
    bool on_grid[8];
    float sxq, sqq;
};

/* Entry for `per` weights at scale 1/id. */
static int entry_of(const struct sub *u, int h, float id, bool *on_grid) {
    const struct grid_spec *s = u->t->s;
    const float *a = u->a + h * s->per, *root = u->root + h * s->per;
    int code = 0;
    for (int e = 0; e < s->per; e++) {
        int l = (int)enc_rint(enc_clampf(0.5f * (id * a[e] - 1.0f), 0, (float)(s->n_level - 1)));
        code |= l << (bits_of(s) * e);
    }
    int at = u->t->start[code], best = 0;
    *on_grid = at >= 0;
    if (at >= 0) return at;
    const uint16_t *list = u->t->list + (-1 - at);
    float least = INFINITY, scale = 1.0f / id;
    for (int i = 1; i <= list[0]; i++) {
        float err = 0;
        for (int e = 0; e < s->per; e++) {
            float diff = scale * (float)(2 * u->t->code[list[i]][e] + 1) - a[e];
            err += root[e] * diff * diff;
        }
        if (!(err < least)) continue;
        least = err;
        best = list[i];
    }
    return best;
}

static void sums(const struct sub *u, struct trial *t) {
    const struct grid_spec *s = u->t->s;
    t->sxq = t->sqq = 0;
    for (int i = 0; i < s->sub; i++) {
        float q = (float)(2 * u->t->code[t->index[i / s->per]][i % s->per] + 1);
        t->sxq += u->w[i] * u->a[i] * q;
        t->sqq += u->w[i] * q * q;
    }
}

/* Scale of one sub-block and its entries; signs of groups may be flipped. */
static float sub_search(struct sub *u, uint8_t *sign, uint16_t *index) {
    const struct grid_spec *s = u->t->s;
    struct trial best = {.sxq = 0}, t = {.sxq = 0};
    float top = 0, merit = 0, scale = 0;
    for (int i = 0; i < s->sub; i++)
        if (u->a[i] > top) top = u->a[i];
    if (top < 0x1p-40f) return 0;
    for (int k = -s->t; k <= s->t; k++) {
        float id = ((float)(2 * s->n_level - 1) + (float)k * s->step) / top;
        for (int h = 0; h < s->sub / s->per; h++)
            t.index[h] = (uint16_t)entry_of(u, h, id, &t.on_grid[h]);
        sums(u, &t);
        if (!(t.sqq > 0 && t.sxq * t.sxq > merit * t.sqq)) continue;
        merit = t.sxq * t.sxq / t.sqq;
        scale = t.sxq / t.sqq;
        best = t;
    }
    if (scale > 0) { /* once more, at the fitted scale, what had to move to the grid */
        for (int h = 0; h < s->sub / s->per; h++) {
            bool on;
            if (!best.on_grid[h]) best.index[h] = (uint16_t)entry_of(u, h, 1.0f / scale, &on);
        }
        sums(u, &best);
        scale = best.sxq / best.sqq;
    }
    if (scale < 0) {
        scale = -scale;
        for (int o = 0; o < s->sub / 8; o++) sign[o] = (uint8_t)~sign[o];
    }
    memcpy(index, best.index, (size_t)(s->sub / s->per) * sizeof *index);
    return scale;
}

/* Signs off; an odd group of 8 flips the sign that matters least. */
static void take_signs(const struct grid_spec *s, const float *x, const float *w, float *a,
                       uint8_t *sign) {
    for (int o = 0; o < s->sub / 8; o++) {
        const float *xo = x + 8 * o, *wo = w + 8 * o;
        unsigned bits = 0;
        int least = 0;
        for (int e = 0; e < 8; e++) {
            if (xo[e] < 0) bits |= 1u << e;
            a[8 * o + e] = fabsf(xo[e]);
            if (wo[e] * xo[e] * xo[e] < wo[least] * xo[least] * xo[least]) least = e;
        }
        if (s->parity && __builtin_parity(bits)) {
            bits ^= 1u << least;
            a[8 * o + least] = -a[8 * o + least];
        }
        sign[o] = (uint8_t)bits;
    }
}

void enc_grid_conventional(const struct grid_spec *s, const float *x, const float *w,
                           struct grid_block *b) {
    float root[QK], scale[GRID_SUBS], top = 0;
    struct sub u = {.t = enc_grid_near(s->type)};
    memset(b, 0, sizeof *b);
    for (int i = 0; i < QK; i++) root[i] = sqrtf(w[i]);
    for (int k = 0; k < QK / s->sub; k++) {
        u.w = w + k * s->sub;
        u.root = root + k * s->sub;
        take_signs(s, x + k * s->sub, u.w, u.a, b->sign + k * s->sub / 8);
        scale[k] = sub_search(&u, b->sign + k * s->sub / 8, b->index + k * s->sub / s->per);
        if (scale[k] > top) top = scale[k];
    }
    float d = top / 31.0f;
    b->d = enc_f16(d * s->fudge);
    if (!(d > 0) || b->d == 0) {
        memset(b, 0, sizeof *b);
        return;
    }
    for (int k = 0; k < QK / s->sub; k++)
        b->sc[k] = (uint8_t)enc_rint(enc_clampf(0.5f * (scale[k] / d - 1.0f), 0, 15));
}
