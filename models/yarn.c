// SPDX-License-Identifier: MIT
/* models/yarn.c - context extension by YaRN, or by dividing positions ("linear"), for all
 * architectures. Reads it from config.json or GGUF keys, and writes the keys. The formula is in
 * graph.h (struct gr_yarn) and ops.def (rope). Other RoPE scalings are refused: a model that
 * ignores its scaling produces nonsense in long contexts. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "containers/gguf.h"
#include "base/attr.h"
#include "containers/hfdir.h"
#include "base/fp.h"
#include "base/json.h"
#include "models/arch.h"

static const double usual_fast = 32, usual_slow = 1;

static const struct {
    const char *key, *hf; /* hf: name in config.json; NULL: always written */
    int slot;
    double usual;
} reals[] = {{"factor", NULL, HF_YARN_FACTOR, 0},
             {"yarn_attn_factor", "attention_factor", HF_YARN_ATTN, 1},
             {"yarn_beta_fast", "beta_fast", HF_YARN_FAST, 32},
             {"yarn_beta_slow", "beta_slow", HF_YARN_SLOW, 1}};

/* Returns YaRN's magnitude factor for a context factor and a weight (mscale). */
static double yarn_growth(double factor, double weight) {
    return 0.1 * weight * fp_log(factor) + 1;
}

/* Returns ERR_DATA unless the numbers are valid; where: name of the key or file for messages. */
static int check_yarn(struct hparams *h, const char *where, struct err *e) {
    const double *f = h->f;
    if (!(f[HF_YARN_FACTOR] >= 1 && f[HF_YARN_FACTOR] <= 1e6))
        return err_set(e, ERR_DATA, "%s asks for rope_type \"yarn\" with factor %g, not 1 or more",
                       where, f[HF_YARN_FACTOR]);
    if (!(f[HF_YARN_ATTN] > 0 && isfinite(f[HF_YARN_ATTN])) ||
        !(f[HF_YARN_SLOW] > 0 && f[HF_YARN_FAST] >= f[HF_YARN_SLOW] && f[HF_YARN_FAST] < 1e9) ||
        h->d[HD_YARN_CTX] < 1 || h->d[HD_YARN_CTX] > INT32_MAX)
        return err_set(e, ERR_DATA, "%s asks for rope_type \"yarn\" with invalid numbers", where);
    return 0;
}

/* Returns ERR_DATA unless the factor is valid; where: name of the key or file for messages. */
static int check_linear(const struct hparams *h, const char *where, struct err *e) {
    const double f = h->f[HF_ROPE_FACTOR];
    return f > 0 && f <= 1e6
               ? 0
               : err_set(e, ERR_DATA, "%s asks for rope_type \"linear\" with factor %g", where, f);
}

/* Returns the factor of cos and sin according to config.json, divided by the one used in training
 * (mscale_all_dim). */
static double magnitude(struct hparams *h, const struct arch *a, const struct json *r) {
    const double f = h->f[HF_YARN_FACTOR], mscale = json_num(json_get(r, "mscale"), 0);
    const double all = json_num(json_get(r, "mscale_all_dim"), 0);
    const bool both = mscale > 0 && all > 0;
    if (both && a->yarn_log > 0) h->f[HF_YARN_LOG] = all;
    return json_num(json_get(r, "attention_factor"),
                    both ? yarn_growth(f, mscale) / yarn_growth(f, all) : yarn_growth(f, 1));
}

int yarn_from_hf(struct hparams *h, const struct arch *a, const struct hfdir *dir, struct err *e) {
    static const char where[] = "config.json";
    const struct json *r = hf_rope(dir, ROPE_FULL);
    const char *type = json_str(json_get(r, "rope_type"));
    const double f = json_num(json_get(r, "factor"), 0);
    if (type && strcmp(type, "linear") == 0) {
        h->f[HF_ROPE_FACTOR] = f;
        return check_linear(h, where, e);
    }
    if (!type || strcmp(type, "yarn") != 0) return 0;
    if (json_bool(json_get(r, "truncate"), true) == a->yarn_smooth)
        return err_set(e, ERR_DATA,
                       "%s asks for rope_type \"yarn\" with truncate %s, which %s files "
                       "cannot hold",
                       where, a->yarn_smooth ? "true" : "false", a->name);
    h->f[HF_YARN_FACTOR] = f;
    h->f[HF_YARN_ATTN] = magnitude(h, a, r) / yarn_growth(f, 1);
    h->f[HF_YARN_FAST] = json_num(json_get(r, "beta_fast"), usual_fast);
    h->f[HF_YARN_SLOW] = json_num(json_get(r, "beta_slow"), usual_slow);
    for (size_t k = 0; k < COUNT_OF(reals); k++)
        if (reals[k].hf && json_type(json_get(r, reals[k].hf)) == JSON_NUM)
            h->yarn_given |= 1u << k;
    h->d[HD_YARN_CTX] = h->d[HD_CTX];
    const struct json *ctx = json_get(r, "original_max_position_embeddings");
    if (ctx && !json_i64(ctx, &h->d[HD_YARN_CTX])) h->d[HD_YARN_CTX] = 0;
    return check_yarn(h, where, e);
}

#define LOG_KEY "yarn_log_multiplier"
enum { KEY_CAP = 128 };
/* Writes "ARCH.rope.scaling.NAME" to out and returns it. */
static const char *key_of(char out[KEY_CAP], const char *arch, const char *name) {
    snprintf(out, KEY_CAP, "%s.rope.scaling.%s", arch, name);
    return out;
}

/* Reads the factor of "linear" from its key or from the one of older files. No key and 0 both mean
 * that positions are not scaled. */
static int linear_from_gguf(struct hparams *h, const char *arch, const struct gguf *g,
                            struct err *e) {
    char key[KEY_CAP];
    double *f = &h->f[HF_ROPE_FACTOR];
    if (!gguf_find(g, key_of(key, arch, "factor")))
        snprintf(key, sizeof key, "%s.rope.scale_linear", arch);
    if (gguf_find(g, key)) TRY(gguf_get_f64(g, key, f, e));
    return fabs(*f) <= 0 ? 0 : check_linear(h, key, e); /* NaN is refused */
}

int yarn_from_gguf(struct hparams *h, const struct arch *a, const struct gguf *g, struct err *e) {
    const char *arch = a->name, *type = "linear"; /* without the key, as in llama.cpp */
    char key[KEY_CAP];
    if (gguf_find(g, key_of(key, arch, "type"))) TRY(gguf_get_str(g, key, &type, e));
    if (strcmp(type, "none") == 0) return 0;
    if (strcmp(type, "longrope") == 0 && h->d[HD_LONG]) return 0; /* longrope.c */
    if (strcmp(type, "linear") == 0) return linear_from_gguf(h, arch, g, e);
    if (strcmp(type, "yarn") != 0)
        return err_set(e, ERR_DATA, "%s is \"%.40s\", which is not supported", key, type);
    for (size_t i = 0; i < COUNT_OF(reals); i++) {
        h->f[reals[i].slot] = reals[i].usual;
        if (gguf_find(g, key_of(key, arch, reals[i].key)))
            TRY(gguf_get_f64(g, key, &h->f[reals[i].slot], e));
    }
    if (a->yarn_log > 0 && gguf_find(g, key_of(key, arch, LOG_KEY))) {
        TRY(gguf_get_f64(g, key, &h->f[HF_YARN_LOG], e));
        h->f[HF_YARN_LOG] /= a->yarn_log;
        h->f[HF_YARN_ATTN] /= yarn_growth(h->f[HF_YARN_FACTOR], h->f[HF_YARN_LOG]);
    }
    double ext = 1;
    if (gguf_find(g, key_of(key, arch, "yarn_ext_factor"))) TRY(gguf_get_f64(g, key, &ext, e));
    if (ext >= 0 && !(ext > 0.999 && ext < 1.001)) /* negative: unset */
        return err_set(e, ERR_DATA, "%s is %g, which is not supported", key, ext);
    uint64_t ctx = 0;
    TRY(gguf_opt_u64(g, key_of(key, arch, "original_context_length"), &ctx, e));
    h->d[HD_YARN_CTX] = ctx ? (ctx <= INT32_MAX ? (int64_t)ctx : 0) : h->d[HD_CTX];
    return check_yarn(h, key_of(key, arch, "type"), e);
}

int yarn_check_factor(const struct hparams *h, const char *arch, const struct gguf *g,
                      struct err *e) {
    const double f = h->f[HF_YARN_FACTOR], usual = f > 0 ? yarn_growth(f, 1) : 1;
    double v = 1;
    char key[KEY_CAP];
    if (h->f[HF_ROPE_M] > 0) return 0; /* read and used (longrope.c) */
    TRY(gguf_opt_f64(g, key_of(key, arch, "attn_factor"), &v, e));
    return fabs(v - 1) < 1e-4 || fabs(v - usual) < 1e-4
               ? 0
               : err_set(e, ERR_DATA, "%s is %g, which is supported with \"longrope\" only", key,
                         v);
}

/* Writes the YaRN keys, including default values that config.json states, as llama.cpp's converter
 * does. */
void yarn_write(const struct hparams *h, const struct arch *a, struct gguf_w *w) {
    const char *arch = a->name;
    char key[KEY_CAP];
    if (h->f[HF_ROPE_FACTOR] > 0) {
        gguf_w_str(w, key_of(key, arch, "type"), "linear");
        gguf_w_f32(w, key_of(key, arch, "factor"), (float)h->f[HF_ROPE_FACTOR]);
    }
    if (!(h->f[HF_YARN_FACTOR] > 0)) return;
    gguf_w_str(w, key_of(key, arch, "type"), "yarn");
    gguf_w_u32(w, key_of(key, arch, "original_context_length"), (uint32_t)h->d[HD_YARN_CTX]);
    for (size_t i = 0; i < COUNT_OF(reals); i++) {
        double v = h->f[reals[i].slot];
        if (reals[i].slot == HF_YARN_ATTN)
            v *= yarn_growth(h->f[HF_YARN_FACTOR], h->f[HF_YARN_LOG]);
        if (fabs(v - reals[i].usual) > 1e-6 || (h->yarn_given >> i & 1))
            gguf_w_f32(w, key_of(key, arch, reals[i].key), (float)v);
    }
    if (h->f[HF_YARN_LOG] > 0)
        gguf_w_f32(w, key_of(key, arch, LOG_KEY), (float)(h->f[HF_YARN_LOG] * a->yarn_log));
}

void yarn_write_none(const struct hparams *h, const char *arch, struct gguf_w *w) {
    char key[KEY_CAP];
    if (!(h->f[HF_ROPE_FACTOR] > 0) && !(h->f[HF_YARN_FACTOR] > 0))
        gguf_w_str(w, key_of(key, arch, "type"), "none");
}
