// SPDX-License-Identifier: MIT
/* quantize/enc/gridq.c - exact search of the IQ1, IQ2 and IQ3 formats.
 *
 * With c the scale of a sub-block, the error of grid entry g on weights a = |x| is
 * const + c^2*Q - 2*c*P with Q = sum w*L^2, P = sum w*a*L, so the best entry for any c is a vertex
 * of the upper hull of the points (Q, P): a chain of a few entries, found once per entry's weights.
 * A sign that has to be flipped (parity) only lowers P, by twice the least w*a*L. IQ1 has signed
 * levels in place of a = |x|; where a sub-block shares its shift, each shift has chains of its own
 * and the better one counts at every scale. Merging the
 * chains of a sub-block gives its exact error for every scale; what remains is to try values of d,
 * choose the integer scales by true error, and solve d by least squares with f16 in the loop. Best
 * also starts from the conventional d and keeps that solution unless the decoded error falls; fast
 * skips the conventional search (a block may then be worse, which the tests have not seen). Vector
 * code works element by element, so wider machines give the same bytes. */
#include "quantize/enc/gridq.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/attr.h"
#include "core/fp.h"
#include "kernels/grid.h"
#include "kernels/kern.h"

typedef float v8f __attribute__((vector_size(32)));
typedef int32_t v8i __attribute__((vector_size(32)));

enum { CHAIN_MAX = 40, SUB_CHAINS = 8, SEGS_MAX = 8 * CHAIN_MAX };
enum { N_START = 3 };

// clang-format off
static const struct grid_spec specs[] = {
    /* type      sub per  n  levels parity shift  sc  unit  top   conventional, its t shells step fudge */
    {QT_IQ2_XXS, 32, 8, 256,  3, true,  SHIFT_NONE, 15, 0.125f, 43, enc_grid_conventional,  6, 2, 0.1f, 1.0f},
    {QT_IQ2_XS,  16, 8, 512,  3, true,  SHIFT_NONE, 15, 0.125f, 43, enc_grid_conventional,  9, 2, 0.1f, 1.0f},
    {QT_IQ2_S,   16, 8, 1024, 3, false, SHIFT_NONE, 15, 0.125f, 43, enc_grid_conventional,  9, 1, 0.1f, 0.9875f},
    {QT_IQ3_XXS, 32, 4, 256,  8, true,  SHIFT_NONE, 15, 0.25f,  62, enc_grid_conventional, 15, 2, 0.2f, 1.0125f},
    {QT_IQ3_S,   32, 4, 512,  8, false, SHIFT_NONE, 15, 1.0f,   15, enc_grid_conventional,  9, 3, 0.2f, 1.033f},
    {QT_IQ1_S,   32, 8, 2048, 3, false, SHIFT_SUB,   7, 0.125f,  9, enc_iq1_conventional, 0, 3, 0, 1.125f},
    {QT_IQ1_M,   16, 8, 2048, 3, false, SHIFT_ENTRY, 7, 0.125f,  9, enc_iq1_conventional, 0, 3, 0, 1.1125f},
};
// clang-format on
static float levels[COUNT_OF(specs)][8][GRID_MAX]; /* [element][entry] */
static int lowest[COUNT_OF(specs)];                /* entry of least magnitudes */
static pthread_once_t levels_once = PTHREAD_ONCE_INIT;
static bool wide; /* this machine has AVX2 */
static atomic_bool plain_only;

const struct grid_spec *grid_spec_of(enum qtype t) {
    for (size_t i = 0; i < COUNT_OF(specs); i++)
        if (specs[i].type == t) return &specs[i];
    return NULL;
}

const int8_t *grid_levels(const struct grid_spec *s, int g) {
    const struct kern_grid *k = kern_grid_get();
    const void *first[] = {k->iq2_xxs, k->iq2_xs, k->iq2_s, k->iq3_xxs, k->iq3_s, k->iq1, k->iq1};
    return (const int8_t *)first[s - specs] + g * s->per; /* at most 62 */
}

static int n_entries(const struct grid_spec *s) {
    return s->shift == SHIFT_NONE ? s->n : 2 * s->n;
}

void enc_grid_plain(bool plain) {
    atomic_store(&plain_only, plain);
}

static void fill_levels(void) {
    wide = kern_isa_best() >= KERN_AVX2;
    for (size_t t = 0; t < COUNT_OF(specs); t++)
        for (int g = 0; g < n_entries(&specs[t]); g++)
            for (int j = 0; j < specs[t].per; j++)
                levels[t][j][g] = (float)grid_levels(&specs[t], g)[j];
    for (size_t t = 0; t < COUNT_OF(specs); t++) {
        int least = INT32_MAX;
        for (int g = 0; g < specs[t].n; g++) {
            int sum = 0;
            for (int j = 0; j < specs[t].per; j++) sum += abs(grid_levels(&specs[t], g)[j]);
            if (sum < least) {
                least = sum;
                lowest[t] = g;
            }
        }
    }
}

/* ---- the chain of one grid entry ----------------------------------------------------------------
 */

struct vertex {
    float q, p;
    float below;   /* best for scales under this one (down to the next vertex's) */
    uint16_t g[2]; /* grid entries */
    uint8_t flip;  /* 1: the least important sign of g[0] is flipped, 2: of g[1] */
};
struct chain { /* from large scales (least Q) to small ones */
    struct vertex v[CHAIN_MAX];
    int n;
    int first, entries; /* entries of the block it decides: 1 or 2 */
};
struct cloud { /* points of all entries */
    v8f q[GRID_MAX / 8], p[GRID_MAX / 8];
    int low;                     /* entry of least Q */
    int top[N_START];            /* entry of largest P - half*Q */
    uint16_t list[GRID_MAX + 8]; /* those above a polyline, and their places */
    float lq[GRID_MAX + 8], lp[GRID_MAX + 8];
    int n_list;
};

/* mask ? a : b; a macro, as vectors of 32 bytes have no portable calling convention */
#define v8i_pick(m, a, b) (((m) & (a)) | (~(m) & (b)))

static inline __attribute__((always_inline)) void cloud_body(struct cloud *o, const float *lev,
                                                             int per, int n, const float *w,
                                                             const float *wa, bool flip,
                                                             const float *half) {
    v8f best[N_START];
    v8i at[N_START], now = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int s = 0; s < N_START; s++) {
        best[s] = (v8f){0} - INFINITY;
        at[s] = now;
    }
    for (int i = 0; i < n / 8; i++, now += 8) {
        v8f q = {0}, p = {0}, least = (v8f){0} + INFINITY;
#pragma GCC unroll 8
        for (int j = 0; j < per; j++) {
            v8f l;
            memcpy(&l, lev + j * GRID_MAX + 8 * i, sizeof l);
            v8f x = wa[j] * l;
            q += w[j] * l * l;
            p += x;
            if (flip) {
                v8i m = x < least;
                least = (v8f)v8i_pick(m, (v8i)x, (v8i)least);
            }
        }
        if (flip) p -= 2.0f * least;
        o->q[i] = q;
        o->p[i] = p;
#pragma GCC unroll 3
        for (int s = 0; s < N_START; s++) {
            v8f v = p - half[s] * q;
            v8i m = v > best[s];
            best[s] = (v8f)v8i_pick(m, (v8i)v, (v8i)best[s]);
            at[s] = v8i_pick(m, now, at[s]);
        }
    }
    for (int s = 0; s < N_START; s++) {
        int b = 0;
        for (int k = 1; k < 8; k++)
            if (best[s][k] > best[s][b] || (best[s][k] == best[s][b] && at[s][k] < at[s][b])) b = k;
        o->top[s] = at[s][b];
    }
}

/* Points above the polyline whose sides are p = icept[k] + slope[k]*q, padded to whole vectors. */
static inline __attribute__((always_inline)) void
above_body(struct cloud *o, int n, const float *icept, const float *slope, int n_side) {
    int k = 0;
    for (int i = 0; i < n / 8; i++) {
        v8f line = icept[0] + slope[0] * o->q[i];
        for (int s = 1; s < n_side; s++) {
            v8f other = icept[s] + slope[s] * o->q[i];
            v8i m = other < line;
            line = (v8f)v8i_pick(m, (v8i)other, (v8i)line);
        }
        v8i over = o->p[i] > line;
        uint64_t any[4];
        memcpy(any, &over, sizeof any);
        if (!(any[0] | any[1] | any[2] | any[3])) continue;
        for (int j = 0; j < 8; j++) {
            o->list[k] = (uint16_t)(8 * i + j);
            k += over[j] & 1;
        }
    }
    for (int i = 0; i < k; i++) {
        o->lq[i] = ((const float *)o->q)[o->list[i]];
        o->lp[i] = ((const float *)o->p)[o->list[i]];
    }
    while (k % 8) {
        o->lq[k] = 0;
        o->lp[k++] = -INFINITY;
    }
    o->n_list = k;
}

/* Adds the vertices after a up to b, best for larger scales first: the point farthest above the
 * chord is a vertex, until none is above. */
static inline __attribute__((always_inline)) void refine_body(const struct cloud *o, int a, int b,
                                                              struct chain *c) {
    const float *q = (const float *)o->q, *p = (const float *)o->p;
    int todo[CHAIN_MAX], depth = 0;
    todo[depth++] = b;
    while (depth) {
        v8f best = {0};
        v8i at = {0}, now = {0, 1, 2, 3, 4, 5, 6, 7};
        b = todo[depth - 1];
        float qa = q[a], pa = p[a], qb = q[b], dq = qb - qa, dp = p[b] - pa;
        for (int i = 0; i < o->n_list; i += 8, now += 8) {
            v8f lq, lp;
            memcpy(&lq, &o->lq[i], sizeof lq);
            memcpy(&lp, &o->lp[i], sizeof lp);
            v8f h = (lp - pa) * dq - (lq - qa) * dp;
            v8i m = (h > best) & (lq > qa) & (lq < qb);
            best = (v8f)v8i_pick(m, (v8i)h, (v8i)best);
            at = v8i_pick(m, now, at);
        }
        float top = best[0];
        int32_t first = INT32_MAX;
        for (int k = 1; k < 8; k++) top = best[k] > top ? best[k] : top;
        for (int k = 0; k < 8; k++) {
            int32_t i = best[k] == top ? at[k] : INT32_MAX;
            first = i < first ? i : first;
        }
        if (top > 0 && c->n + depth < CHAIN_MAX) {
            todo[depth++] = o->list[first];
            continue;
        }
        c->v[c->n++] = (struct vertex){qb, p[b], 0, {(uint16_t)b, 0}, 0};
        a = b;
        depth--;
    }
}

/* The polyline through the starts, and what lies above it. */
static inline __attribute__((always_inline)) void hull_body(struct cloud *o, int n,
                                                            struct chain *c) {
    const float *q = (const float *)o->q, *p = (const float *)o->p;
    int start[N_START + 1] = {o->low}, ns = 1;
    float icept[N_START], slope[N_START];
    for (int s = 0; s < N_START; s++) { /* from large scales to small ones */
        int a = start[ns - 1], b = o->top[s];
        if (!(q[b] > q[a] && p[b] > p[a])) continue;
        slope[ns - 1] = (p[b] - p[a]) / (q[b] - q[a]);
        icept[ns - 1] = p[a] - slope[ns - 1] * q[a];
        start[ns++] = b;
    }
    c->v[0] = (struct vertex){q[o->low], p[o->low], 0, {(uint16_t)o->low, 0}, 0};
    c->n = 1;
    if (ns == 1) return;
    above_body(o, n, icept, slope, ns - 1);
    for (int s = 1; s < ns; s++)
        if (c->n < CHAIN_MAX) refine_body(o, start[s - 1], start[s], c);
}

/* A copy of the loops for every length of entry: unrolled IQ1 to IQ3 encode 1.2 times as fast. */
static inline __attribute__((always_inline)) void cloud_of(struct cloud *o, const float *lev,
                                                           int per, int n, const float *w,
                                                           const float *wa, bool flip,
                                                           const float *half) {
    if (per == 8 && flip)
        cloud_body(o, lev, 8, n, w, wa, true, half);
    else if (per == 8)
        cloud_body(o, lev, 8, n, w, wa, false, half);
    else if (flip)
        cloud_body(o, lev, 4, n, w, wa, true, half);
    else
        cloud_body(o, lev, 4, n, w, wa, false, half);
}
static void cloud_plain(struct cloud *o, const float *lev, int per, int n, const float *w,
                        const float *wa, bool flip, const float *half) {
    cloud_of(o, lev, per, n, w, wa, flip, half);
}
static void hull_plain(struct cloud *o, int n, struct chain *c) {
    hull_body(o, n, c);
}
#if defined(__x86_64__)
__attribute__((target("avx2"))) static void cloud_avx2(struct cloud *o, const float *lev, int per,
                                                       int n, const float *w, const float *wa,
                                                       bool flip, const float *half) {
    cloud_of(o, lev, per, n, w, wa, flip, half);
}
__attribute__((target("avx2"))) static void hull_avx2(struct cloud *o, int n, struct chain *c) {
    hull_body(o, n, c);
}
#else
#define cloud_avx2 cloud_plain
#define hull_avx2 hull_plain
#endif

/* Scales at which each vertex takes over, decreasing along the chain: points that are none but for
 * rounding (entries that differ in equal weights are as good) drop out. */
static void chain_breaks(struct chain *c) {
    int n = 0;
    for (int i = 0; i < c->n; i++) {
        struct vertex v = c->v[i];
        v.below = INFINITY;
        if (n && !(v.q > c->v[n - 1].q && v.p > c->v[n - 1].p)) continue;
        for (; n; n--) {
            const struct vertex *a = &c->v[n - 1];
            v.below = 2.0f * (v.p - a->p) / (v.q - a->q);
            if (v.below < a->below) break;
        }
        if (!n) v.below = INFINITY;
        c->v[n++] = v;
    }
    c->n = n;
}

/* ---- two entries that share a sign group --------------------------------------------------------
 */

/* All vertices of the sum of two chains, in order. */
static int chain_sum(const struct chain *a, const struct chain *b, uint8_t flip,
                     struct vertex *out) {
    int i = 0, j = 0, n = 0;
    for (;;) {
        out[n++] = (struct vertex){
            a->v[i].q + b->v[j].q, a->v[i].p + b->v[j].p, 0, {a->v[i].g[0], b->v[j].g[0]}, flip};
        bool ai = i + 1 < a->n, bj = j + 1 < b->n;
        if (!ai && !bj) return n;
        if (ai && (!bj || a->v[i + 1].below >= b->v[j + 1].below))
            i++;
        else
            j++;
    }
}

/* One of the two halves takes the flip, whichever is cheaper at each scale: upper hull of both. */
static void chain_either(const struct chain even[2], const struct chain odd[2], struct chain *c) {
    struct vertex x[2 * CHAIN_MAX], y[2 * CHAIN_MAX], h[4 * CHAIN_MAX];
    int nx = chain_sum(&even[0], &odd[1], 2, x), ny = chain_sum(&odd[0], &even[1], 1, y);
    int n = 0, i = 0, j = 0;
    while (i < nx || j < ny) {
        bool first =
            j >= ny || (i < nx && (x[i].q < y[j].q || (x[i].q == y[j].q && x[i].p >= y[j].p)));
        struct vertex v = first ? x[i++] : y[j++];
        if (n && !(v.q > h[n - 1].q && v.p > h[n - 1].p)) {
            if (v.p <= h[n - 1].p) continue; /* more Q for no more P */
            n--;
        }
        while (n >= 2 && (h[n - 1].p - h[n - 2].p) * (v.q - h[n - 2].q) <=
                             (v.p - h[n - 2].p) * (h[n - 1].q - h[n - 2].q))
            n--;
        h[n++] = v;
    }
    c->n = n < CHAIN_MAX ? n : CHAIN_MAX;
    memcpy(c->v, h, (size_t)c->n * sizeof *h);
    chain_breaks(c);
}

/* ---- a block ------------------------------------------------------------------------------------
 */

struct seg { /* of a sub-block: error(c) = c*(c*q - 2*p) + const for c < below */
    float below, q, p;
};
struct job {
    const struct grid_spec *s;
    const float *lev; /* [element][GRID_MAX] */
    int low;          /* entry of least levels */
    bool plain;
    float x[QK], w[QK], a[QK], wa[QK];
    uint8_t sign[32]; /* as they are */
    double zero;      /* error of a block of zeros */
    int ways;         /* 2: a sub-block's shift is chosen, its ways are 2k and 2k + 1 below */
    struct chain chain[GRID_SUBS][SUB_CHAINS];
    int n_chain[GRID_SUBS];
    struct seg seg[GRID_SUBS][SEGS_MAX];
    int n_seg[GRID_SUBS];
    float fit[GRID_SUBS];   /* of sub-blocks: best real-valued scale, in units of `unit` */
    float merit[GRID_SUBS]; /* what it takes off the error */
    struct cloud cloud;
};

static bool odd_bits(unsigned v) {
    return __builtin_parity(v) != 0;
}

/* Chain of the `per` weights of entry h, out of n grid entries from `from` on. */
static void entry_chain(struct job *j, int h, bool flip, float typical, int from, int n,
                        struct chain *c) {
    const struct grid_spec *s = j->s;
    const bool three = s->shift != SHIFT_NONE; /* three levels: the best scales reach lower */
    const float half[N_START] = {(three ? 0.6f : 0.8f) * typical, (three ? 0.3f : 0.5f) * typical,
                                 (three ? 0.08f : 0.25f) * typical};
    const float *w = j->w + h * s->per, *wa = j->wa + h * s->per;
    const float *lev = j->lev + from;
    float sum = 0;
    if (j->plain)
        cloud_plain(&j->cloud, lev, s->per, n, w, wa, flip, half);
    else
        cloud_avx2(&j->cloud, lev, s->per, n, w, wa, flip, half);
    j->cloud.low = j->low;
    for (int i = 0; n > s->n && i < s->per; i++) sum += wa[i];
    if (sum < 0) j->cloud.low += s->n; /* zeros, shifted towards the weights */
    if (j->plain)
        hull_plain(&j->cloud, n, c);
    else
        hull_avx2(&j->cloud, n, c);
    chain_breaks(c);
    for (int i = 0; i < c->n; i++) c->v[i].g[0] = (uint16_t)(c->v[i].g[0] + from);
    if (flip)
        for (int i = 0; i < c->n; i++) c->v[i].flip = 1;
    c->first = h;
    c->entries = 1;
}

/* The chains of way v as one, and what it can do for its sub-block. */
static void merge_chains(struct job *j, int v) {
    const int k = v / j->ways;
    int at[SUB_CHAINS] = {0}, n = 0, nc = j->n_chain[v];
    float q = 0, p = 0, below = INFINITY;
    struct seg *seg = j->seg[v];
    for (int i = 0; i < nc; i++) {
        q += j->chain[v][i].v[0].q;
        p += j->chain[v][i].v[0].p;
    }
    for (;;) {
        if (n && seg[n - 1].below == below) n--;
        seg[n++] = (struct seg){below, q, p};
        int next = -1;
        float top = -1;
        for (int i = 0; i < nc; i++) {
            const struct chain *c = &j->chain[v][i];
            if (at[i] + 1 < c->n && c->v[at[i] + 1].below > top) {
                top = c->v[at[i] + 1].below;
                next = i;
            }
        }
        if (next < 0) break;
        const struct vertex *e = &j->chain[v][next].v[at[next]++];
        q += e[1].q - e[0].q;
        p += e[1].p - e[0].p;
        below = top;
    }
    j->n_seg[v] = n;
    for (int i = 0; i < n; i++) {
        float merit = seg[i].p > 0 ? seg[i].p * seg[i].p / seg[i].q : 0;
        if (merit > j->merit[k]) {
            j->merit[k] = merit;
            j->fit[k] = seg[i].p / seg[i].q / j->s->unit;
        }
    }
}

/* One way v to do a sub-block: its shift, where that is shared. */
static void way_chains(struct job *j, int v, float typical) {
    const struct grid_spec *s = j->s;
    const int k = v / j->ways, from = v % j->ways * s->n, of = n_entries(s) / j->ways;
    int n = 0;
    for (int o = k * s->sub / 8; o < (k + 1) * s->sub / 8; o++) { /* groups of 8 */
        bool odd = s->parity && odd_bits(j->sign[o]);
        if (s->per == 8) {
            entry_chain(j, o, odd, typical, from, of, &j->chain[v][n++]);
        } else if (!odd) {
            entry_chain(j, 2 * o, false, typical, from, of, &j->chain[v][n++]);
            entry_chain(j, 2 * o + 1, false, typical, from, of, &j->chain[v][n++]);
        } else {
            struct chain even[2], flipped[2], *c = &j->chain[v][n++];
            for (int h = 0; h < 2; h++) {
                entry_chain(j, 2 * o + h, false, typical, from, of, &even[h]);
                entry_chain(j, 2 * o + h, true, typical, from, of, &flipped[h]);
            }
            chain_either(even, flipped, c);
            c->first = 2 * o;
            c->entries = 2;
        }
    }
    j->n_chain[v] = n;
    merge_chains(j, v);
}

static void sub_chains(struct job *j, int k) {
    const struct grid_spec *s = j->s;
    float amax = 0;
    for (int i = k * s->sub; i < (k + 1) * s->sub; i++) amax = fmaxf(amax, fabsf(j->a[i]));
    j->fit[k] = j->merit[k] = 0;
    for (int v = k * j->ways; v < (k + 1) * j->ways; v++) way_chains(j, v, amax / s->top);
}

/* Error of way v at scale c, the sub-block's constant left out. */
static float way_error(const struct job *j, int v, float c, const struct seg **which) {
    const struct seg *s = j->seg[v];
    int lo = 0, hi = j->n_seg[v] - 1; /* last segment whose `below` is above c */
    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (s[mid].below > c)
            lo = mid;
        else
            hi = mid - 1;
    }
    *which = &s[lo];
    return c * (c * s[lo].q - 2.0f * s[lo].p);
}

/* The better way of sub-block k. */
static float sub_error(const struct job *j, int k, float c, const struct seg **which, int *way) {
    const struct seg *other;
    float best = way_error(j, *way = k * j->ways, c, which);
    if (j->ways == 1) return best;
    float e = way_error(j, k * j->ways + 1, c, &other);
    if (!(e < best)) return best;
    *way = k * j->ways + 1;
    *which = other;
    return e;
}

/* Integer scales of least error at d, within `near` of the nearest; returns the error and the least
 * squares for d. */
static float choose(const struct job *j, float d, int near, uint8_t *sc, float *refit) {
    double num = 0, den = 0;
    float total = 0;
    for (int k = 0; k < QK / j->s->sub; k++) {
        const struct seg *best_seg = NULL, *seg;
        float best = INFINITY, top = (float)j->s->sc_max;
        int mid = (int)enc_rint(enc_clampf(0.5f * (j->fit[k] / d - 1.0f), 0, top)), at = 0, way;
        for (int v = mid - near; v <= mid + near; v++) {
            if (v < 0 || v > j->s->sc_max) continue;
            float e = sub_error(j, k, d * j->s->unit * (float)(2 * v + 1), &seg, &way);
            if (!(e < best)) continue;
            best = e;
            best_seg = seg;
            at = v;
        }
        sc[k] = (uint8_t)at;
        total += best;
        if (!best_seg) continue; /* no error is finite */
        double m = 2 * at + 1;
        num += m * (double)best_seg->p;
        den += m * m * (double)best_seg->q;
    }
    *refit = den > 0 ? (float)(num / den / (double)j->s->unit) : 0;
    return total;
}

struct found {
    float d, err;
    uint8_t sc[GRID_SUBS];
};

/* Least squares and integer scales in turn until d stays. */
static void settle(const struct job *j, float d, int near, int rounds, struct found *best) {
    for (int r = 0; r < rounds; r++) {
        struct found f;
        float next;
        if (!(d > 0)) return;
        f.d = d;
        f.err = choose(j, d, near, f.sc, &next);
        if (f.err < best->err) *best = f;
        next = enc_f16(next);
        if (next == d) return;
        d = next;
    }
}

/* Starts of d: largest fit of a sub-block at the top of the integer scales, and around it; slow
 * also has it at other integers exactly. The best few are settled. */
static void search_starts(const struct job *j, bool slow, struct found *best) {
    float top = 0, err[72], start[72], unused;
    uint8_t sc[GRID_SUBS];
    int n = 0, keep = slow ? 12 : 3;
    for (int k = 0; k < QK / j->s->sub; k++)
        if (j->fit[k] > top) top = j->fit[k];
    for (int i = 0; i < (slow ? 64 : 20); i++) {
        float f = slow ? 0.55f + 0.02f * (float)i : 0.8f + 0.04f * (float)i;
        start[n++] = enc_f16(top / (float)(2 * j->s->sc_max + 1) * f);
    }
    for (int v = j->s->sc_max; slow && v > j->s->sc_max - 8; v--)
        start[n++] = enc_f16(top / (float)(2 * v + 1));
    for (int i = 0; i < n; i++)
        err[i] = start[i] > 0 ? choose(j, start[i], slow ? 2 : 1, sc, &unused) : INFINITY;
    for (int t = 0; t < keep; t++) {
        int at = 0;
        for (int i = 1; i < n; i++)
            if (err[i] < err[at]) at = i;
        settle(j, start[at], slow ? 3 : 1, slow ? 8 : 3, best);
        err[at] = INFINITY;
    }
}

/* The neighbours of d in f16. */
static void search_steps(const struct job *j, struct found *best) {
    const uint16_t bits = enc_f16_bits(best->d);
    float unused;
    for (int k = 1; k <= 6; k++)
        for (int up = 0; up < 2; up++) {
            struct found f = {.d = 0};
            int v = up ? bits + k : bits - k;
            if (v <= 0 || v > 0x7bff) continue;
            f.d = fp_f16_to_f32((uint16_t)v);
            f.err = choose(j, f.d, 2, f.sc, &unused);
            if (f.err < best->err) *best = f;
        }
}

static void search_more(const struct job *j, float other, struct found *best) {
    search_starts(j, true, best);
    settle(j, other, j->s->sc_max, 8, best);
    if (best->d > 0) search_steps(j, best);
}

/* Entries and signs of the block at its scales. */
static void decide(const struct job *j, const struct found *f, struct grid_block *b) {
    const struct grid_spec *s = j->s;
    memset(b, 0, sizeof *b);
    if (f->d == 0) return;
    b->d = f->d;
    memcpy(b->sign, j->sign, sizeof b->sign);
    memcpy(b->sc, f->sc, sizeof b->sc);
    for (int k = 0; k < QK / s->sub; k++) {
        float scale = f->d * s->unit * (float)(2 * f->sc[k] + 1);
        const struct seg *unused;
        int way;
        sub_error(j, k, scale, &unused, &way);
        for (int i = 0; i < j->n_chain[way]; i++) {
            const struct chain *c = &j->chain[way][i];
            int v = c->n - 1;
            while (v > 0 && !(c->v[v].below > scale)) v--;
            for (int h = 0; h < c->entries; h++) b->index[c->first + h] = c->v[v].g[h];
            if (!c->v[v].flip) continue;
            int h = c->first + c->v[v].flip - 1, at = 0;
            const int8_t *lev = grid_levels(s, b->index[h]);
            const float *wa = j->wa + h * s->per;
            for (int e = 1; e < s->per; e++)
                if (wa[e] * (float)lev[e] < wa[at] * (float)lev[at]) at = e;
            int bit = h * s->per + at;
            b->sign[bit / 8] ^= (uint8_t)(1 << (bit % 8));
        }
    }
}

static double block_error(const struct job *j, const struct grid_block *b) {
    const struct grid_spec *s = j->s;
    double e = 0;
    for (int i = 0; i < QK; i++) {
        float v = b->d * s->unit * (float)(2 * b->sc[i / s->sub] + 1) *
                  (float)grid_levels(s, b->index[i / s->per])[i % s->per];
        double diff = (double)(b->sign[i / 8] >> (i % 8) & 1 ? -v : v) - (double)j->x[i];
        e += (double)j->w[i] * diff * diff;
    }
    return e;
}

/* Keeps what was found if the block decodes to a smaller error. */
static void offer(const struct job *j, const struct found *f, struct grid_block *b) {
    struct grid_block mine;
    decide(j, f, &mine);
    if (block_error(j, &mine) < block_error(j, b)) *b = mine;
}

static void improve(struct job *j, enum search search, struct grid_block *b) {
    struct found best = {.d = 0, .err = 0}; /* a block of zeros */
    for (int i = 0; i < QK; i++) {
        bool signs = j->s->shift == SHIFT_NONE;
        j->a[i] = signs ? fabsf(j->x[i]) : j->x[i];
        j->wa[i] = j->w[i] * j->a[i];
        if (i % 8 == 0) j->sign[i / 8] = 0;
        if (signs && j->x[i] < 0) j->sign[i / 8] |= (uint8_t)(1 << (i % 8));
    }
    for (int k = 0; k < QK / j->s->sub; k++) sub_chains(j, k);
    search_starts(j, false, &best);
    if (search != SEARCH_BEST) {
        decide(j, &best, b);
        return;
    }
    const float conventional = b->d;
    offer(j, &best, b);
    search_more(j, conventional, &best);
    offer(j, &best, b);
}

void enc_grid_row(enum qtype t, const float *x, const float *imp, int64_t n, void *dst,
                  enum search search, void (*pack)(void *blk, const struct grid_block *b)) {
    struct job job, *j = &job;
    const struct grid_spec *s = grid_spec_of(t);
    const struct wrule conv = enc_wrule(t, SEARCH_CONVENTIONAL);
    const struct wrule rule = enc_wrule(t, search);
    const int bytes = qtype_info(t)->block_bytes;
    pthread_once(&levels_once, fill_levels);
    j->s = s;
    j->lev = levels[s - specs][0];
    j->low = lowest[s - specs];
    j->ways = s->shift == SHIFT_SUB ? 2 : 1;
    j->plain = atomic_load(&plain_only) || !wide;
    for (int64_t i = 0; i < n / QK; i++) {
        const float *im = imp ? imp + i * QK : NULL;
        struct grid_block b;
        memset(&b, 0, sizeof b);
        if (enc_load(j->x, x + i * QK, QK,
                     65504.0f * s->unit * (float)(2 * s->sc_max + 1) * s->top)) {
            float mean2 = enc_mean2(j->x, QK);
            if (search != SEARCH_FAST) {
                enc_weights(j->w, j->x, im, QK, &conv, mean2, s->sub);
                s->conventional(s, j->x, j->w, &b);
            }
            if (search != SEARCH_CONVENTIONAL) {
                enc_weights(j->w, j->x, im, QK, &rule, mean2, s->sub);
                improve(j, search, &b);
            }
        }
        pack((uint8_t *)dst + i * bytes, &b);
    }
}
