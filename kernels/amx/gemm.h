// SPDX-License-Identifier: MIT
/* kernels/amx/gemm.h - the loops of an AMX product; see tiles.h. Included once by a type's file,
 * after fold.h or plain.h, which define
 *   ABREAST       groups of sixteen tokens multiplied together: 1 or 2
 *   struct sums   the integer sums of these tokens with 256 weights of 16 rows
 *   first_step, step, last_step  compute these sums; STEPS: number of steps in between
 *   finish_token  adds a token's sums to its floats
 * and after the definitions of
 *   struct tiled  256 unpacked weights of 16 rows
 *   unpack_tiles(w, n, p)  unpacks n blocks to p: IN_ACT, or fewer at the end of a row */
#ifndef HONE_KERNELS_AMX_GEMM_H
#define HONE_KERNELS_AMX_GEMM_H

enum { STRIP = ABREAST * HALF, PART = STRIP / STEPS /* tokens finished after each step */ };

/* Finishes the tokens of a strip that are due after step i. */
INLINE void finish_part(const struct sums *s, int i, int64_t lda) {
    const int h = i * PART / HALF, from = i * PART % HALF;
    const struct half u = s->half[h];
    for (int t = from < u.done ? u.done : from; t < from + PART; t++)
        finish_token(s, h, t, u.acc + t - u.done, u.x + t * lda);
}

/* Multiplies the tokens of s and, after each step, finishes some tokens of `before`. Processors run
 * tile and vector instructions in parallel only if these are close together in the program, because
 * they look ahead only a few hundred instructions. */
INLINE void multiply(bool two, struct sums *s, const struct sums *before, int64_t lda) {
    first_step(two);
    UNROLL for (int i = 0; i < STEPS; i++) {
        step(two, s, i, (size_t)lda * sizeof(struct kern_act));
        finish_part(before, i, lda);
    }
    last_step(two, s);
}

/* Multiplies tokens t0 .. t1 - 1, at most CHUNK of all n, by a group. Unpacks 256 weights at a
 * time for all of these tokens. Two unpacked blocks and two strips of sums alternate, because
 * the last strip of a block is finished while the first of the next is multiplied. */
static void chunk_of_tokens(const uint8_t *w, const struct kern_act *a, int64_t lda, int64_t t0,
                            int64_t t1, int64_t n, float *out, int64_t ldo, int64_t nb) {
    struct tiled tiled[2];
    struct sums sums[2], *s = sums, *before = sums + 1;
    fv acc[CHUNK];
    for (int64_t t = 0; t < t1 - t0; t++) acc[t] = l_set(0);
    for (int h = 0; h < ABREAST; h++) before->half[h] = (struct half){a, acc, HALF};
    for (int64_t b = 0; b < nb; b += IN_ACT, w += IN_ACT * BLOCK * LANES, a++) {
        struct tiled *p = &tiled[b / IN_ACT % 2];
        unpack_tiles(w, nb - b < IN_ACT ? nb - b : IN_ACT, p);
        for (int64_t t = t0; t < t1; t += STRIP) {
            s->p = p;
            for (int h = 0; h < ABREAST; h++)
                s->half[h] = half_at(a, lda, acc, t + HALF * h, t0, t1, n);
            if (ABREAST == 2 && s->half[ABREAST - 1].done < HALF)
                multiply(true, s, before, lda);
            else
                multiply(false, s, before, lda);
            struct sums *other = before;
            before = s;
            s = other;
        }
    }
    for (int i = 0; i < STEPS; i++) finish_part(before, i, lda);
    for (int64_t t = t0; t < t1; t++) l_storef(out + t * ldo, acc[t - t0]);
}

static void gemm_tiles(const uint8_t *w, int64_t n_groups, const struct kern_act *a, int64_t lda,
                       int64_t n, float *out, int64_t ldo, int64_t k, void *scratch) {
    const int64_t nb = k / SIZE, group = nb * BLOCK * LANES;
    if (n < HALF) {
        FEW.gemm(w, n_groups, a, lda, n, out, ldo, k, scratch);
        return;
    }
    configure();
    for (int64_t t = 0; t < n; t += CHUNK)
        for (int64_t g = 0; g < n_groups; g++)
            chunk_of_tokens(w + g * group, a, lda, t, t + CHUNK < n ? t + CHUNK : n, n,
                            out + g * LANES, ldo, nb);
    _tile_release(); /* lets the operating system stop saving the tiles */
}

#endif
