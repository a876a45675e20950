// SPDX-License-Identifier: MIT
/* tests/isa-emu/self.c - the emulation against plain C, on bytes of all values and on those that
 * saturate where they should not. */
#include "core/rng.h"
#include "tests/isa-emu/emu.h"

static int wrong_dot(struct rng *r, int round) {
    int wrong = 0;
    uint8_t u[64];
    int8_t s[64];
    int32_t c[16], got[16];
    for (int i = 0; i < 64; i++) {
        u[i] = round == 0 ? 255 : (uint8_t)rng_u64(r);
        s[i] = round == 0 ? -128 : (int8_t)rng_u64(r);
    }
    for (int i = 0; i < 16; i++) c[i] = (int32_t)(rng_u64(r) >> 33);
    const __m512i v =
        _mm512_dpbusd_epi32(_mm512_loadu_si512(c), _mm512_loadu_si512(u), _mm512_loadu_si512(s));
    memcpy(got, &v, sizeof got);
    for (int i = 0; i < 16; i++) {
        for (int b = 4 * i; b < 4 * i + 4; b++) c[i] += u[b] * s[b];
        wrong += got[i] != c[i];
    }
    return wrong;
}

static int wrong_mask(unsigned m) {
    int wrong = 0;
    float x[16], got[16];
    for (int i = 0; i < 16; i++) x[i] = (float)i + 1;
    _mm512_storeu_ps(got, _mm512_maskz_loadu_ps((__mmask16)m, x));
    for (int i = 0; i < 16; i++) wrong += got[i] != (m >> i & 1 ? x[i] : 0);
    return wrong;
}

int emu_wrong(void) {
    struct rng r;
    rng_seed(&r, 5);
    int wrong = 0;
    for (int round = 0; round < 200; round++) wrong += wrong_dot(&r, round);
    for (unsigned m = 0; m < 0x10000; m += 0x0123) wrong += wrong_mask(m);
    return wrong;
}
