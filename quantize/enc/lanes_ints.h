// SPDX-License-Identifier: MIT
/* quantize/enc/lanes_ints.h - trial integers of a sub-block in error feedback: eight
 * trials at once, one per lane. They start from the same codes and do not depend on one another, so
 * a lane computes what a loop over single trials would. */
#ifndef HONE_QUANTIZE_ENC_LANES_INTS_H
#define HONE_QUANTIZE_ENC_LANES_INTS_H

#include "quantize/enc/lanes.h"

struct eight { /* not an array, which would be kept in memory */
    vf a, b, c, d, e, f, g, h;
};

/* Computes out = R v for n weights, a multiple of 8. Rows of r are ld apart. */
INLINE void ints_times_r(vf *out, const vf *v, const float *r, int64_t ld, int n) {
    for (int j = 0; j < n; j += 8) {
        struct eight s = {splat(0), splat(0), splat(0), splat(0),
                          splat(0), splat(0), splat(0), splat(0)};
        for (int i = 0; i < n; i++) {
            const float *p = r + i * ld + j;
            const vf x = v[i];
            const struct eight t = {s.a + splat(p[0]) * x, s.b + splat(p[1]) * x,
                                    s.c + splat(p[2]) * x, s.d + splat(p[3]) * x,
                                    s.e + splat(p[4]) * x, s.f + splat(p[5]) * x,
                                    s.g + splat(p[6]) * x, s.h + splat(p[7]) * x};
            s = t;
        }
        memcpy(out + j, &s, sizeof s);
    }
}

INLINE void ints_of(struct enc_ints *o, bool one, bool table) {
    const int n = o->sub;
    const vf step = loadv(o->step), base = loadv(o->base), lo = splat((float)o->lv.lo),
             hi = splat((float)o->lv.hi);
    const vi moves = step != splat(0);
    const vf by = pick(moves, step, splat(1));
    vf l[ENC_SUB], du[ENC_SUB], rdu[ENC_SUB];
    for (int i = 0; i < n; i++) {
        const vf s = splat(o->s[i]), x = of_rows(o->x, one, i), u = of_rows(o->u, one, i);
        l[i] = nearest(table, (x - u / s - base) / by, lo, hi);
        du[i] = s * (x - (step * l[i] + base)) - u;
    }
    ints_times_r(rdu, du, o->r, o->ldr, n);
    for (int i = 0; i < n; i++) {
        const vf s = splat(o->s[i]), x = of_rows(o->x, one, i), u = of_rows(o->u, one, i);
        const vf now = u + du[i], g = of_rows(o->g, one, i) + rdu[i];
        const vf want = x - (now - g) / s;
        const vf to = nearest(table, (want - base) / by, lo, hi);
        const vi turn = (absv(want) < splat(1e30f)) & (to != l[i]) & moves;
        if (!any(turn)) continue;
        const vf after = s * (x - (step * to + base)), change = pick(turn, after - now, splat(0));
        for (int j = 0; j < n; j++) rdu[j] += splat(o->r[i * o->ldr + j]) * change;
        l[i] = pick(turn, to, l[i]);
        du[i] = pick(turn, after - u, du[i]);
    }
    vd e = to_double(splat(0));
    for (int i = 0; i < n; i++) {
        const vf g = of_rows(o->g, one, i);
        e += to_double(du[i]) * (to_double(rdu[i]) + 2 * to_double(g));
        storev(o->du[i], du[i]);
        store_level(o->l, i, l[i]);
    }
    store_doubles(o->e, e);
}

/* Chooses the nearest codes for each trial, then makes one descent sweep within the sub-block. */
LANE_FN void ints(struct enc_ints *o) {
    const bool one = o->x[0] == o->x[LANES - 1];
    if (o->lv.tab)
        ints_of(o, one, true);
    else if (one)
        ints_of(o, true, false);
    else
        ints_of(o, false, false);
}

#endif
