// SPDX-License-Identifier: MIT
/* models/mistral3.c - plain dense decoders: Llama 3, SmolLM, Mistral Small 3.x and models that
 * share their class. GGUF has two architecture names for them: `llama` (text-only classes, all
 * older files) and `mistral3` (Mistral's multimodal class). Both have the same graph. Mixtral is a
 * `llama` with experts as wide as its feed-forward.
 *
 * GGUF orders query and key rows so that RoPE uses adjacent pairs (2j, 2j + 1); Hugging Face uses
 * the halves of each head, so conversion regroups rows (XF_ROPE_PAIRS). Ministral 3 extends its
 * context with YaRN, and scales queries by position. The sliding window of Mistral 7B 0.1 is stored
 * under a key that other readers of `llama` ignore; they use full attention. Mistral Small 4 shares
 * the class but has a different architecture (deepseek2.c). Unknown variants are refused. */
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const llama_classes[] = {"LlamaForCausalLM",
                                            "MistralForCausalLM",
                                            "MixtralForCausalLM",
                                            "InternLM3ForCausalLM",
                                            "IQuestCoderForCausalLM",
                                            "LlavaForConditionalGeneration",
                                            "VoxtralForConditionalGeneration",
                                            "Idefics3ForConditionalGeneration",
                                            "SmolVLMForConditionalGeneration",
                                            NULL};
static const char *const mistral3_classes[] = {"Mistral3ForConditionalGeneration",
                                               "Ministral3ForCausalLM", NULL};
static const char *const skip[] = {"vision_tower.", "audio_tower.", "multi_modal_projector.", NULL};

// clang-format off
#define HP_ROWS                                       \
    HP_ROWS_DECODER,                                  \
    HP_ROW_FF,                                        \
    HP_ROW_WINDOW(HPF_ZERO_OK),                       \
    {"rope.dimension_count", NULL, HD_ROT, 0, 0},     \
    HP_ROW_VOCAB_KEY
static const struct hp_row hp[] = {HP_ROWS, {.slot = -1}};
static const struct hp_row llama_hp[] = {
    HP_ROWS,
    {"expert_count", "num_local_experts", HD_EXPERTS, HPF_ZERO_OK, 0},
    {"expert_used_count", "num_experts_per_tok", HD_EXPERTS_USED, HPF_ZERO_OK, 0},
    {.slot = -1},
};
#define BIAS(gguf, hf, width, xf, group, where, slot) \
    {"blk.%d." gguf ".bias", HF_LAYER(hf ".bias"), {width}, xf, group, ROLE_OTHER, where, TR_F32 | TR_FOUND | TR_IF(slot)}
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    ROW_LLAMA3_FREQS,
    ROWS_PRE_NORMS(XF_COPY),
    ROWS_QKVO(HD_ATTN_OUT, XF_ROPE_PAIRS),
    BIAS("attn_q", "self_attn.q_proj", HD_ATTN_OUT, XF_ROPE_PAIRS, HD_HEAD_DIM, W_ATTN, HD_BIAS_QKV),
    BIAS("attn_k", "self_attn.k_proj", HD_KV_OUT, XF_ROPE_PAIRS, HD_HEAD_DIM, W_ATTN, HD_BIAS_QKV),
    BIAS("attn_v", "self_attn.v_proj", HD_KV_OUT, XF_COPY, 0, W_ATTN, HD_BIAS_QKV),
    BIAS("attn_output", "self_attn.o_proj", HD_EMBD, XF_COPY, 0, W_ATTN, HD_BIAS_OUT),
    ROWS_FFN,
    BIAS("ffn_gate", "mlp.gate_proj", HD_FF, XF_COPY, 0, W_DENSE, HD_BIAS_FFN),
    BIAS("ffn_up", "mlp.up_proj", HD_FF, XF_COPY, 0, W_DENSE, HD_BIAS_FFN),
    BIAS("ffn_down", "mlp.down_proj", HD_EMBD, XF_COPY, 0, W_DENSE, HD_BIAS_FFN),
    ROW_ROUTER("block_sparse_moe.gate"),
    ROWS_EXPERT_MATS("block_sparse_moe.experts", "w1", "w3", "w2"),
    ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    if (h->d[HD_EXPERTS] && !h->d[HD_EXPERTS_USED])
        return err_set(e, ERR_DATA, "expert_count is %lld, but expert_used_count 0",
                       (long long)h->d[HD_EXPERTS]);
    TRY(derive_experts(h, e));
    TRY(layers_fill(h, e));
    if (h->d[HD_HEAD_DIM] % 2 || h->d[HD_ROT] != h->d[HD_HEAD_DIM])
        return err_set(e, ERR_DATA, "%lld rotated dimensions of heads of %lld: all must be",
                       (long long)h->d[HD_ROT], (long long)h->d[HD_HEAD_DIM]);
    return 0;
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const struct json *text = json_get(hfdir_config(dir), "text_config");
    const char *type = json_str(json_get(text, "model_type"));
    if (type && strcmp(type, "mistral") != 0 && strcmp(type, "ministral3") != 0 &&
        strcmp(type, "llama") != 0)
        return err_set(
            e, ERR_DATA,
            "the language model inside is \"%.40s\", not Mistral Small 3 or Ministral 3: "
            "it is another architecture",
            type);
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(llama3_from_hf(h, dir, e));
    const char *cls = json_str(json_first(hfdir_hparam(dir, "architectures")));
    /* its "dynamic" scaling acts only beyond the file's context */
    const bool intern = cls && strcmp(cls, "InternLM3ForCausalLM") == 0;
    return h->d[HD_FREQS] || (intern && hf_rope_is(dir, "dynamic")) ? 0 : hf_check_rope(dir, e);
}

/* Reads a Ministral 3 config: queries are scaled up with every multiple of the original context. */
static int ministral_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const struct json *r = hf_rope(dir, ROPE_FULL);
    h->f[HF_TEMPER] = json_num(json_get(r, "llama_4_scaling_beta"), 0);
    TRY(from_hf(h, dir, e));
    if (!(h->f[HF_TEMPER] >= 0 && h->f[HF_TEMPER] < 1e3) ||
        (h->f[HF_TEMPER] > 0 && h->d[HD_YARN_CTX] < 1))
        return err_set(e, ERR_DATA, "llama_4_scaling_beta is %g without a context to grow with",
                       h->f[HF_TEMPER]);
    return 0;
}
/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int ministral_derive(struct hparams *h, struct err *e) {
    h->d[HD_TEMPER_STEP] = h->d[HD_YARN_CTX];
    return derive(h, e);
}
#define TEMPER_KEY "mistral3.attention.temperature_scale"
/* Reads the keys that only this architecture has; ERR_DATA: out of range. */
static int ministral_read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    if (!gguf_find(g, TEMPER_KEY)) return 0;
    TRY(gguf_get_f64(g, TEMPER_KEY, &h->f[HF_TEMPER], e));
    return h->f[HF_TEMPER] >= 0 && h->f[HF_TEMPER] < 1e3 && h->d[HD_YARN_CTX] > 0
               ? 0
               : err_set(e, ERR_DATA, "%s is %g without an original context to grow with",
                         TEMPER_KEY, h->f[HF_TEMPER]);
}
/* Writes the keys that only this architecture has. */
static void ministral_write_keys(const struct hparams *h, struct gguf_w *w) {
    if (h->f[HF_TEMPER] > 0) gguf_w_f32(w, TEMPER_KEY, (float)h->f[HF_TEMPER]);
}

extern const struct arch arch_llama, arch_mistral3, arch_mistral4;
/* Selects the architecture: Mistral Small 4 has the same model class as Mistral Small 3. */
static const struct arch *which(const struct hfdir *dir) {
    const struct json *text = json_get(hfdir_config(dir), "text_config");
    const char *type = json_str(json_get(text, "model_type"));
    return type && strcmp(type, "mistral4") == 0 ? &arch_mistral4 : &arch_mistral3;
}

/* Rejects files with unsupported features. Many models call themselves `llama`, so keys of features
 * that the supported ones do not have are errors. Unknown tensors (biases) are refused when weights
 * are bound. */
static int read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    UNUSED(h);
    const char *name = gguf_str_or(g, "general.architecture", "");
    char key[96];
    snprintf(key, sizeof key, "%s.attention.temperature_scale", name);
    return gguf_find(g, key) ? err_set(e, ERR_DATA, "%s is set, which is not supported", key) : 0;
}

/* Selects the architecture: some EAGLE-3 drafts have the class of the Llama layer inside. */
extern const struct arch arch_eagle3;
static const struct arch *which_llama(const struct hfdir *dir) {
    int64_t n;
    const bool one = json_i64(hfdir_said(dir, "num_hidden_layers"), &n) && n == 1;
    return one && hfdir_said(dir, "draft_vocab_size") ? &arch_eagle3 : &arch_llama;
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_PAIRS}}},
};

const struct arch arch_llama = {
    .name = "llama",
    .hf_classes = llama_classes,
    .family = "Llama 2 and 3, SmolLM, Mistral, Mixtral, InternLM3",
    .size_note = "dense transformer",
    .tools = "llama-json mistral-array",
    .hp = llama_hp,
    .tensors = tensors,
    .skip = skip,
    .derive = derive,
    .from_hf = from_hf,
    .read_keys = read_keys,
    .window_period = WINDOW_EVERYWHERE,
    .decoder = &decoder,
    .which = which_llama,
};
const struct arch arch_mistral3 = {
    .name = "mistral3",
    .hf_classes = mistral3_classes,
    .family = "Mistral Small 3, Ministral 3",
    .size_note = "dense transformer",
    .tools = "mistral-args mistral-array",
    .hp = hp,
    .tensors = tensors,
    .skip = skip,
    .derive = ministral_derive,
    .from_hf = ministral_from_hf,
    .write_keys = ministral_write_keys,
    .read_keys = ministral_read_keys,
    .yarn_log = 1,
    .window_period = WINDOW_EVERYWHERE,
    .decoder = &decoder,
    .which = which,
};
