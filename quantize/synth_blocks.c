// SPDX-License-Identifier: MIT
/* quantize/synth_blocks.c - random blocks of every type.
 *
 * Any pattern of codes and small scales is valid; only the half-precision scales (and the
 * exponents of FP4 types) determine the magnitude of the weights. containers/qtype.def lists
 * typical scales; they vary by +-25 % from block to block. */
#include "base/bytes.h"
#include "base/fp.h"
#include "kernels/bench.h"
#include "quantize/synth.h"

/* Fills n bytes with random values. */
static void random_bytes(struct rng *r, uint8_t *p, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) store_u64(p + i, rng_u64(r));
    if (i == n) return;
    for (uint64_t v = rng_u64(r); i < n; i++, v >>= 8) p[i] = (uint8_t)v;
}

/* Makes random bytes valid: exponents near 2^-7, and only the three valid codes of TQ2_0. */
static void tame(enum qtype t, uint8_t *p) {
    const struct qtype_scale *s = &qtype_info(t)->scale;
    uint8_t *v = p + s->off[0];
    for (int i = 0; i < s->n && s->kind == QS_E8M0; i++) v[i] = (uint8_t)(119 + ((v[i] & 3) != 0));
    for (int i = 0; i < s->n && s->kind == QS_E4M3; i++) v[i] = (uint8_t)(2 + (v[i] & 3));
    if (t == QT_TQ2_0)
        for (int i = 0; i < 64; i++) p[i] = (uint8_t)(p[i] & ~(p[i] << 1 & 0xaa));
}

bool synth_blocks(enum qtype t, struct rng *r, void *dst, int64_t n_blocks) {
    const struct qtype_info *info = qtype_info(t);
    const int n_half = kern_n_halves(t);
    uint8_t *p = dst;
    if (info->flags & QF_FLOAT) {
        kern_random_floats(t, r, p, n_blocks);
        return true;
    }
    if (!info->scale.n) return false;
    random_bytes(r, p, n_blocks * info->block_bytes);
    for (int64_t b = 0; b < n_blocks; b++, p += info->block_bytes) {
        float d = n_half ? info->typical.scale * rng_f32(r, 0.75f, 1.25f) : 0;
        if (n_half) kern_set_half(t, p, 0, fp_f32_to_f16(d));
        if (n_half > 1) kern_set_half(t, p, 1, fp_f32_to_f16(d * info->typical.offset));
        tame(t, p);
    }
    return true;
}
