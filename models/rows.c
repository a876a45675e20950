// SPDX-License-Identifier: MIT
/* models/rows.c - helpers shared by the derive() and from_hf() functions of architectures. */
#include "models/rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/graph.h"

int derive_experts(struct hparams *h, struct err *e) {
    if (h->d[HD_EXPERTS_USED] > h->d[HD_EXPERTS])
        return err_set(e, ERR_DATA, "%lld of only %lld experts are used",
                       (long long)h->d[HD_EXPERTS_USED], (long long)h->d[HD_EXPERTS]);
    if (h->d[HD_EXPERTS] && h->d[HD_EXPERTS_USED] < 1)
        return err_set(e, ERR_DATA,
                       "expert_used_count, the number of the %lld experts that each token uses, is "
                       "missing or 0",
                       (long long)h->d[HD_EXPERTS]);
    if (h->d[HD_EXPERTS] && !h->d[HD_FF_EXP]) h->d[HD_FF_EXP] = h->d[HD_FF];
    return hparams_mul(h, HD_FF_EXP2, 2, h->d[HD_FF_EXP], e);
}

int derive_shared_experts(struct hparams *h, struct err *e) {
    TRY(derive_experts(h, e));
    return hparams_mul(h, HD_FF_SHEXP, h->d[HD_SHEXPS], h->d[HD_FF_EXP], e);
}

int hf_shared_width(struct hparams *h, struct err *e) {
    const int64_t one = h->d[HD_FF_SHEXP], n = h->d[HD_SHEXPS];
    if (!one || n < 2) return 0;
    TRY(hparams_mul(h, HD_FF_SHEXP, n, h->d[HD_FF_EXP], e));
    return one == h->d[HD_FF_SHEXP] ? 0 : hparams_mul(h, HD_FF_SHEXP, n, one, e);
}

int derive_linear(struct hparams *h, struct err *e) {
    int64_t *d = h->d;
    if (d[HD_LIN_V_HEADS] % d[HD_LIN_K_HEADS])
        return err_set(e, ERR_DATA, "%lld linear value heads cannot share %lld key heads",
                       (long long)d[HD_LIN_V_HEADS], (long long)d[HD_LIN_K_HEADS]);
    if (!d[HD_LIN_V_DIM]) {
        d[HD_LIN_V_DIM] = d[HD_LIN_INNER] ? d[HD_LIN_INNER] / d[HD_LIN_V_HEADS] : d[HD_LIN_K_DIM];
        if (d[HD_LIN_INNER] && (d[HD_LIN_V_DIM] == 0 || d[HD_LIN_INNER] % d[HD_LIN_V_HEADS]))
            return err_set(e, ERR_DATA, "ssm.inner_size %lld is not a multiple of %lld value heads",
                           (long long)d[HD_LIN_INNER], (long long)d[HD_LIN_V_HEADS]);
    }
    TRY(hparams_mul(h, HD_LIN_INNER, d[HD_LIN_V_HEADS], d[HD_LIN_V_DIM], e));
    TRY(hparams_mul(h, HD_CONV_CH, d[HD_LIN_K_HEADS], d[HD_LIN_K_DIM], e));
    d[HD_CONV_CH] = 2 * d[HD_CONV_CH] + d[HD_LIN_INNER];
    return hparams_mul(h, HD_LIN_STATE, d[HD_LIN_INNER], d[HD_LIN_K_DIM], e);
}

int derive_mamba2(struct hparams *h, struct err *e) {
    int64_t *d = h->d;
    TRY(derive_linear(h, e));
    if (d[HD_LIN_INNER] % d[HD_LIN_K_HEADS])
        return err_set(e, ERR_DATA, "ssm.inner_size %lld cannot be cut into %lld groups",
                       (long long)d[HD_LIN_INNER], (long long)d[HD_LIN_K_HEADS]);
    d[HD_LIN_GROUP] = d[HD_LIN_INNER] / d[HD_LIN_K_HEADS];
    d[HD_LIN_IN] = d[HD_LIN_INNER] + d[HD_CONV_CH] + d[HD_LIN_V_HEADS];
    return 0;
}

int derive_kda_mla(struct hparams *h, int64_t rot, struct err *e) {
    int64_t *d = h->d;
    if (!d[HD_KEY_MLA]) d[HD_KEY_MLA] = d[HD_NOPE] + rot;
    d[HD_NOPE] = d[HD_KEY_MLA] - rot;
    d[HD_HEAD_DIM] = d[HD_KV_RANK] + rot;
    d[HD_LATENT] = d[HD_KV_RANK];
    d[HD_Q_DIRECT] = !d[HD_Q_RANK];
    if (!d[HD_LIN_V_HEADS]) d[HD_LIN_V_HEADS] = d[HD_HEADS];
    if (d[HD_NOPE] < 1 || d[HD_LIN_V_HEADS] != d[HD_HEADS])
        return err_set(
            e, ERR_DATA,
            "heads of %lld values of which %lld have positions, and %lld and %lld heads, "
            "do not belong together",
            (long long)d[HD_KEY_MLA], (long long)rot, (long long)d[HD_HEADS],
            (long long)d[HD_LIN_V_HEADS]);
    h->f[HF_ATTN_SCALE] = 1 / sqrt((double)d[HD_KEY_MLA]);
    TRY(hparams_mul(h, HD_Q_MLA, d[HD_HEADS], d[HD_KEY_MLA], e));
    TRY(hparams_mul(h, HD_V_MLA, d[HD_HEADS], d[HD_VALUE_MLA], e));
    TRY(hparams_mul(h, HD_LIN_INNER, d[HD_LIN_V_HEADS], d[HD_LIN_K_DIM], e));
    return hparams_mul(h, HD_LIN_STATE, d[HD_LIN_INNER], d[HD_LIN_K_DIM], e);
}

int derive_streams(struct hparams *h, struct err *e) {
    int64_t *d = h->d;
    d[HD_THREE] = 3;
    TRY(hparams_mul(h, HD_STREAM_ALL, d[HD_STREAMS], d[HD_EMBD], e));
    return hparams_mul(h, HD_STREAM_MIX, d[HD_STREAMS] + 2, d[HD_STREAMS], e);
}

int hf_full_layers(struct hparams *h, const struct json *list, int64_t first, struct err *e) {
    if (json_type(list) != JSON_ARR)
        return err_set(e, ERR_DATA, "full_attn_layers is missing or not a list");
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) *layers_own(h, HD_KV_HEADS, i) = 0;
    for (const struct json *t = json_first(list); t; t = json_next(t)) {
        int64_t i;
        if (!json_i64(t, &i) || i < first || i - first >= h->d[HD_LAYERS])
            return err_set(e, ERR_DATA, "full_attn_layers names a layer that is not there");
        *layers_own(h, HD_KV_HEADS, i - first) = h->d[HD_KV_HEADS];
    }
    return 0;
}

int hf_mamba_inner(struct hparams *h, const struct hfdir *dir, struct err *e) {
    int64_t expand;
    if (h->d[HD_LIN_INNER] || h->d[HD_LIN_V_DIM]) return 0;
    if (!json_i64(hfdir_hparam(dir, "mamba_expand"), &expand) || expand < 1 || expand > 64)
        expand = 2;
    return hparams_mul(h, HD_LIN_INNER, expand, h->d[HD_EMBD], e);
}

/* Returns a hint on the effect of removing the RoPE type from config.json. */
static const char *without_rope(const char *type) {
    return strcmp(type, "dynamic") == 0
               ? ": it changes positions beyond the original context length only; remove it from "
                 "config.json for a file that is right up to there"
               : "; leaving it out of config.json would give wrong positions, and no error";
}

bool hf_rope_is(const struct hfdir *dir, const char *type) {
    const char *is = json_str(json_get(hf_rope(dir, ROPE_FULL), "rope_type"));
    return is && strcmp(is, type) == 0;
}

int hf_check_rope(const struct hfdir *dir, struct err *e) {
    static const char *const known[] = {"default", "mrope", "yarn", "linear"};
    const char *type = json_str(json_get(hf_rope(dir, ROPE_FULL), "rope_type"));
    for (size_t i = 0; i < COUNT_OF(known); i++)
        if (!type || strcmp(type, known[i]) == 0) return 0;
    return err_set(e, ERR_DATA,
                   "config.json asks for rope_type \"%.40s\", which is not supported, so this "
                   "model cannot be converted%s",
                   type, without_rope(type));
}

int hf_check_off(const struct hfdir *dir, const char *const *names, struct err *e) {
    for (; *names; names++)
        if (json_bool(hfdir_hparam(dir, *names), false))
            return err_set(e, ERR_DATA, "%s is true, which this architecture cannot hold", *names);
    return 0;
}

int hf_check_windows(const struct hparams *h, const struct hfdir *dir, const char *first,
                     struct err *e) {
    const struct json *types = hfdir_hparam(dir, "layer_types");
    const double from = first ? json_num(hfdir_hparam(dir, first), 0) : 0;
    bool windows = !json_len(types) && from < (double)h->d[HD_LAYERS] &&
                   json_type(hfdir_hparam(dir, "sliding_window")) != JSON_NULL;
    for (const struct json *t = json_first(types); t; t = json_next(t))
        windows |= !json_str(t) || strcmp(json_str(t), ROPE_FULL) != 0;
    if (!windows || !json_bool(hfdir_hparam(dir, "use_sliding_window"), false)) return 0;
    return err_set(e, ERR_DATA,
                   "use_sliding_window is true and gives layers a window, which this architecture "
                   "cannot hold");
}

int hf_rope_llama3(struct hparams *h, const struct hfdir *dir, struct err *e) {
    TRY(llama3_from_hf(h, dir, e));
    return h->d[HD_FREQS] ? 0 : hf_check_rope(dir, e);
}

int hf_partial_rope(struct hparams *h, const struct hfdir *dir, double usual, struct err *e) {
    const struct json *j = json_get(hf_rope(dir, ROPE_FULL), "partial_rotary_factor");
    const double part = json_num(j, usual);
    const int64_t hd = h->d[HD_HEAD_DIM] ? h->d[HD_HEAD_DIM] : h->d[HD_EMBD] / h->d[HD_HEADS];
    if (!(part > 0 && part <= 1))
        return err_set(e, ERR_DATA, "partial_rotary_factor %g is not in (0, 1]", part);
    h->d[HD_ROT] = (int64_t)((double)hd * part);
    if (h->d[HD_ROT] < 2)
        return err_set(e, ERR_DATA, "partial_rotary_factor %g leaves nothing to rotate", part);
    return 0;
}

int hf_rope_sections(struct hparams *h, const struct hfdir *dir, const int64_t usual[4],
                     struct err *e) {
    const struct json *j = json_get(hf_rope(dir, ROPE_FULL), "mrope_section");
    int i = 0;
    const bool there = json_type(j) == JSON_ARR;
    for (int k = 0; k < 4; k++) h->d[HD_ROPE_SEC0 + k] = there ? 0 : usual[k];
    for (const struct json *s = there ? json_first(j) : NULL; s; s = json_next(s), i++)
        if (i >= 4 || !json_i64(s, &h->d[HD_ROPE_SEC0 + i]) || h->d[HD_ROPE_SEC0 + i] < 0 ||
            h->d[HD_ROPE_SEC0 + i] > INT32_MAX)
            return err_set(e, ERR_DATA, "mrope_section is not a list of up to 4 small numbers");
    return 0;
}

/* Writes the name of the key for rope sections. */
static void sections_key(char out[96], const char *arch) {
    snprintf(out, 96, "%s.rope.dimension_sections", arch);
}
void rope_sections_write(const struct hparams *h, const char *arch, struct gguf_w *w) {
    int32_t sec[4];
    char key[96];
    sections_key(key, arch);
    for (int i = 0; i < 4; i++) sec[i] = (int32_t)h->d[HD_ROPE_SEC0 + i];
    gguf_w_arr(w, key, GV_I32, sec, 4);
}
int rope_sections_read(struct hparams *h, const char *arch, const struct gguf *g, bool required,
                       struct err *e) {
    char key[96];
    sections_key(key, arch);
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) return required ? err_set(e, ERR_DATA, "the key %s is missing", key) : 0;
    if (kv->type != GV_ARR || (kv->elem != GV_I32 && kv->elem != GV_U32) || kv->count > 4)
        return err_set(e, ERR_DATA, "%s is not an array of up to 4 integers", key);
    for (uint64_t i = 0; i < kv->count; i++) h->d[HD_ROPE_SEC0 + i] = gguf_kv_i64(kv, i);
    return 0;
}

int hf_check_topk_norm(const struct hfdir *dir, bool otherwise, struct err *e) {
    return json_bool(hfdir_hparam(dir, "norm_topk_prob"), otherwise)
               ? 0
               : err_set(e, ERR_DATA, "norm_topk_prob is not true, which the format cannot hold");
}

int hf_check_swiglu(const struct hfdir *dir, struct err *e) {
    const double alpha = json_num(hfdir_hparam(dir, "swiglu_alpha"), (double)GR_CLAMPED_ALPHA),
                 limit = json_num(hfdir_hparam(dir, "swiglu_limit"), (double)GR_CLAMPED_LIMIT);
    return fabs(alpha - 1.702) < 1e-4 && limit >= 7 && limit <= 7
               ? 0
               : err_set(e, ERR_DATA, "swiglu_alpha %g and swiglu_limit %g are not 1.702 and 7",
                         alpha, limit);
}

const char *hf_act(const char *name) {
    return name && strcmp(name, "swish") == 0 ? "silu" : name;
}

int hf_check_is(const struct hfdir *dir, const char *key, const char *want, struct err *e) {
    const char *is = hf_act(json_str(hfdir_hparam(dir, key)));
    return is && strcmp(is, want) != 0
               ? err_set(e, ERR_DATA, "%s is \"%.40s\", not %s", key, is, want)
               : 0;
}

int hf_all_sparse(const struct hfdir *dir, struct err *e) {
    const struct json *step = hfdir_hparam(dir, "decoder_sparse_step");
    if (json_num(step, 1) < 1 || json_num(step, 1) > 1 ||
        json_len(hfdir_hparam(dir, "mlp_only_layers")) > 0)
        return err_set(e, ERR_DATA,
                       "decoder_sparse_step or mlp_only_layers asks for dense layers "
                       "among the sparse ones, which the format cannot hold");
    return 0;
}

int hf_lead_dense(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const struct json *types = hfdir_hparam(dir, "mlp_layer_types");
    int64_t i = 0;
    if (json_type(types) != JSON_ARR) return 0;
    h->d[HD_LEAD_DENSE] = 0;
    for (const struct json *t = json_first(types); t && i < h->d[HD_LAYERS];
         t = json_next(t), i++) {
        const char *is = json_str(t);
        const bool dense = is && strcmp(is, "dense") == 0;
        if (!is || (!dense && strcmp(is, "sparse") != 0 && strcmp(is, "moe") != 0) ||
            (dense && h->d[HD_LEAD_DENSE] < i))
            return err_set(e, ERR_DATA,
                           "mlp_layer_types[%lld]: dense layers must come first, before those with "
                           "experts",
                           (long long)i);
        h->d[HD_LEAD_DENSE] += dense;
    }
    return 0;
}
