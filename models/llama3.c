// SPDX-License-Identifier: MIT
/* models/llama3.c - Llama 3.1's context extension. Angles of slowly rotating pairs are divided by a
 * factor, those of fast pairs stay, and those in between are interpolated. A GGUF stores the
 * divisors as the tensor rope_freqs.weight, so only conversion needs the formula:
 *
 *     wl = 2 pi base^(2i / head_dim), c = original training context
 *     wl < c / high: 1;   wl > c / low: factor;
 *     else 1 / ((1 - s) / factor + s), s = (c / wl - low) / (high - low)
 *
 * Source: the "llama3" entry of transformers' RoPE utilities. */
#include <math.h>
#include <string.h>

#include "containers/hfdir.h"
#include "base/fp.h"
#include "base/json.h"
#include "models/rows.h"

static const double two_pi = 6.283185307179586476925286766559;

int llama3_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const struct json *r = hf_rope(dir, ROPE_FULL);
    double *f = h->f;
    int64_t ctx = 0;
    if (!hf_rope_is(dir, "llama3")) return 0;
    f[HF_LLAMA3_FACTOR] = json_num(json_get(r, "factor"), 0);
    f[HF_LLAMA3_LOW] = json_num(json_get(r, "low_freq_factor"), 0);
    f[HF_LLAMA3_HIGH] = json_num(json_get(r, "high_freq_factor"), 0);
    if (!json_i64(json_get(r, "original_max_position_embeddings"), &ctx)) ctx = 0;
    if (!(f[HF_LLAMA3_FACTOR] >= 1 && f[HF_LLAMA3_FACTOR] <= 1e6) || !(f[HF_LLAMA3_LOW] > 0) ||
        !(f[HF_LLAMA3_HIGH] >= f[HF_LLAMA3_LOW] && f[HF_LLAMA3_HIGH] <= 1e6) || ctx < 1 ||
        ctx > INT32_MAX)
        return err_set(e, ERR_DATA,
                       "config.json asks for rope_type \"llama3\" without a sensible factor, "
                       "low_freq_factor, high_freq_factor and "
                       "original_max_position_embeddings: take config.json from the model's "
                       "publisher again");
    h->d[HD_YARN_CTX] = ctx;
    h->d[HD_FREQS] = 1;
    return 0;
}

double llama3_divisor(const struct hparams *h, int64_t i) {
    const double *f = h->f, c = (double)h->d[HD_YARN_CTX];
    const int64_t n = h->d[HD_FREQS_ROT] ? h->d[HD_FREQS_ROT] : h->d[HD_HEAD_DIM];
    const double wl = two_pi * fp_pow(f[HF_ROPE_BASE], 2.0 * (double)i / (double)n);
    if (wl < c / f[HF_LLAMA3_HIGH]) return 1;
    if (wl >= c / f[HF_LLAMA3_LOW]) return f[HF_LLAMA3_FACTOR];
    const double s = (c / wl - f[HF_LLAMA3_LOW]) / (f[HF_LLAMA3_HIGH] - f[HF_LLAMA3_LOW]);
    return 1 / ((1 - s) / f[HF_LLAMA3_FACTOR] + s);
}
