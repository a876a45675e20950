// SPDX-License-Identifier: MIT
/* models/longrope.c - RoPE scaling "longrope" (formerly "su"): two lists of divisors of RoPE
 * angles, one for sessions up to the original context, one for longer sessions, and a factor of cos
 * and sin. Files store the lists as tensors. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/fp.h"
#include "base/json.h"
#include "models/rows.h"

/* Reads one of the lists of divisors from config.json. */
static int read_list(const struct hparams *h, const struct json *j, float *to, const char *name,
                     struct err *e) {
    int64_t i = 0;
    if (json_type(j) != JSON_ARR || json_len(j) != h->d[HD_ROT] / 2 || json_len(j) > HP_MAX_PAIRS)
        return err_set(e, ERR_DATA, "longrope without a list %s of %lld numbers", name,
                       (long long)h->d[HD_ROT] / 2);
    for (j = json_first(j); j; j = json_next(j), i++) {
        to[i] = (float)json_num(j, 0);
        if (!(to[i] > 0 && isfinite(to[i])))
            return err_set(e, ERR_DATA, "%s[%lld] is not a positive number", name, (long long)i);
    }
    return 0;
}

static int read_config(struct hparams *h, const struct json *r, struct err *e) {
    TRY(read_list(h, json_get(r, "long_factor"), h->far, "long_factor", e));
    TRY(read_list(h, json_get(r, "short_factor"), h->near, "short_factor", e));
    const double by =
        json_num(json_get(r, "factor"), (double)h->d[HD_CTX] / (double)h->d[HD_YARN_CTX]);
    const double usual = by > 1 ? sqrt(1 + fp_log(by) / fp_log((double)h->d[HD_YARN_CTX])) : 1;
    const double near = json_num(json_get(r, "short_mscale"), usual),
                 far = json_num(json_get(r, "long_mscale"), near);
    if (far < near || far > near)
        return err_set(e, ERR_DATA,
                       "long_mscale %g is not short_mscale %g: the format has one number", far,
                       near);
    h->f[HF_ROPE_M] = json_num(json_get(r, "attention_factor"), near);
    if (!(h->f[HF_ROPE_M] > 0 && isfinite(h->f[HF_ROPE_M])))
        return err_set(e, ERR_DATA, "the factor of longrope is %g", h->f[HF_ROPE_M]);
    h->d[HD_LONG] = 1;
    return 0;
}

int hf_rope_long(struct hparams *h, const struct hfdir *dir, struct err *e) {
    if (!h->d[HD_YARN_CTX]) h->d[HD_YARN_CTX] = h->d[HD_CTX];
    if (!hf_rope_is(dir, "longrope") && !hf_rope_is(dir, "su")) return hf_check_rope(dir, e);
    return read_config(h, hf_rope(dir, ROPE_FULL), e);
}

static const char *factor_key(char out[96], const char *arch) {
    snprintf(out, 96, "%s.rope.scaling.attn_factor", arch);
    return out;
}
int longrope_read(struct hparams *h, const char *arch, const struct gguf *g, struct err *e) {
    char key[96];
    return gguf_find(g, factor_key(key, arch)) ? gguf_get_f64(g, key, &h->f[HF_ROPE_M], e) : 0;
}
void longrope_write(const struct hparams *h, const char *arch, struct gguf_w *w) {
    char key[96];
    if (h->f[HF_ROPE_M] > 0) gguf_w_f32(w, factor_key(key, arch), (float)h->f[HF_ROPE_M]);
}
