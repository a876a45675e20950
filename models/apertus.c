// SPDX-License-Identifier: MIT
/* models/apertus.c - Apertus 8B and 70B: per-head norms of queries and keys, and an ungated
 * feed-forward whose activation (xIELU) has parameters per layer. Checkpoints store these as
 * tensors, GGUF files as keys without the usual prefix. */
#include <math.h>
#include <stdio.h>

#include "base/attr.h"
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"ApertusForCausalLM", NULL};
static const char *const skip[] = {"=act_fn.", NULL}; /* read by from_hf */
// clang-format off
static const struct hp_row hp[] = {HP_ROWS_DECODER, HP_ROW_FF, HP_ROW_ROT, {"vocab_size", "vocab_size", HD_VOCAB, HPF_REQUIRED, 0}, {.slot = -1}};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD, ROW_LLAMA3_FREQS, ROW_NORM("attn_norm", "attention_layernorm", XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_COPY),
    ROWS_QK_NORM(XF_COPY), ROW_NORM("ffn_norm", "feedforward_layernorm", XF_COPY), ROWS_FFN_UNGATED, ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* Parameter names, in the order of layer_hp.xielu. */
static const char *const number[] = {"alpha_p", "alpha_n", "beta", "eps"};
static const char *const key[] = {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps"};

/* Returns ERR_DATA unless v is finite and its magnitude is below 1000. */
static int check_number(const char *name, int64_t layer, float v, struct err *e) {
    return isfinite(v) && fabsf(v) < 1e3f
               ? 0
               : err_set(e, ERR_DATA, "%s of layer %lld is out of range", name, (long long)layer);
}

/* Reads the parameters of the activation from the folder's tensors. Without tensors (only a
 * config.json), the parameters stay 0. */
static int numbers_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    for (int64_t i = 0; i < h->d[HD_LAYERS] && hfdir_n_tensors(dir); i++)
        for (size_t k = 0; k < COUNT_OF(number); k++) {
            char pat[64], name[96];
            const size_t n =
                (size_t)snprintf(pat, sizeof pat, "model.layers.%%d.mlp.act_fn.%s", number[k]);
            if (!arch_name(name, sizeof name, pat, n, i, 0))
                return err_set(e, ERR_DATA, "a name is too long");
            const struct st_tensor *t = hfdir_find(dir, name);
            if (!t || t->n_elems != 1)
                return err_set(e, ERR_DATA, "tensor %s is missing, or is not one number", name);
            TRY(st_to_f32(t, 0, 1, &h->layer[i].xielu[k], e));
            TRY(check_number(name, i, h->layer[i].xielu[k], e));
        }
    return 0;
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", "mlp_bias", "post_norm", NULL};
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "xielu", e));
    if (!json_bool(hfdir_hparam(dir, "qk_norm"), true))
        return err_set(e, ERR_DATA, "qk_norm is false, which is not supported");
    TRY(numbers_from_hf(h, dir, e));
    return hf_rope_llama3(h, dir, e);
}

/* Writes the keys that only this architecture has. */
static void write_keys(const struct hparams *h, struct gguf_w *w) {
    float v[HP_MAX_LAYERS];
    for (size_t k = 0; k < COUNT_OF(key); k++) {
        for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) v[i] = h->layer[i].xielu[k];
        gguf_w_arr(w, key[k], GV_F32, v, (uint64_t)h->d[HD_LAYERS]);
    }
}

/* Reads the keys that only this architecture has; ERR_DATA: out of range. */
static int read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    for (size_t k = 0; k < COUNT_OF(key); k++) {
        const struct gguf_kv *kv = gguf_find(g, key[k]);
        if (!kv || kv->type != GV_ARR || kv->elem != GV_F32 ||
            kv->count != (uint64_t)h->d[HD_LAYERS])
            return err_set(e, ERR_DATA, "%s is not an array of one number for each of %lld layers",
                           key[k], (long long)h->d[HD_LAYERS]);
        for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) {
            h->layer[i].xielu[k] = (float)gguf_kv_f64(kv, (uint64_t)i);
            TRY(check_number(key[k], i, h->layer[i].xielu[k], e));
        }
    }
    return 0;
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}, QK_NORMS},
              .ffn = {.act = ACT_XIELU}},
};

extern const struct arch arch_apertus;
const struct arch arch_apertus = {
    .name = "apertus",
    .hf_classes = hf_classes,
    .family = "Apertus",
    .size_note = "dense transformer",
    .tools = "apertus-list",
    .hp = hp,
    .tensors = tensors,
    .skip = skip,
    .derive = layers_fill,
    .from_hf = from_hf,
    .write_keys = write_keys,
    .read_keys = read_keys,
    .decoder = &decoder,
};
