// SPDX-License-Identifier: MIT
/* models/cohere2.c - Command R7B, Command A, Aya: one LayerNorm per block, on whose result
 * attention and feed-forward work side by side; rope of neighbours in layers with a window, which
 * are three of four, and none in the others; logits are multiplied by a factor. */
#include "core/hfdir.h"
#include "core/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"Cohere2ForCausalLM", NULL};
static const char *const skip[] = {"lm_head.", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_SIZES, HP_ROW_FF, HP_ROW_ROPE_BASE, HP_ROW_LAYER_EPS, HP_ROW_ROT, HP_ROW_WINDOW(HPF_REQUIRED),
    {"vocab_size", "vocab_size", HD_VOCAB, HPF_REQUIRED, 0},
    {"logit_scale", "logit_scale", HF_LOGIT_SCALE, HPF_REAL | HPF_REQUIRED, 0},
    {.slot = -1},
};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD, ROW_NORM("attn_norm", "input_layernorm", XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_COPY), ROWS_FFN,
    ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

static int derive(struct hparams *h, struct err *e) {
    TRY(layers_fill(h, e));
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) h->layer[i].no_rope = !h->layer[i].window;
    return 0;
}

static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", "use_qk_norm", NULL};
    h->tied = true;
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    if (json_num(hfdir_hparam(dir, "rotary_pct"), 1) < 1)
        return err_set(e, ERR_DATA, "rotary_pct is less than 1, which is not supported");
    return hf_check_rope(dir, e);
}

static void write_keys(const struct hparams *h, struct gguf_w *w) {
    (void)h;
    gguf_w_str(w, "cohere2.rope.scaling.type", "none");
}

static const struct decoder_spec decoder = {
    .block = {.before_mix = {NORM_LAYER, "attn_norm"},
              .attn = {.rope = {.kind = ROPE_PAIRS}},
              .parallel = true},
    .norm = {NORM_LAYER, "output_norm"},
};

extern const struct arch arch_cohere2;
const struct arch arch_cohere2 = {
    .name = "cohere2",
    .hf_classes = hf_classes,
    .family = "Command R7B, Command A",
    .size_note = "sliding-window and full attention, dense",
    .tools = "command-r-list",
    .hp = hp,
    .tensors = tensors,
    .skip = skip,
    .derive = derive,
    .from_hf = from_hf,
    .write_keys = write_keys,
    .window_period = 4,
    .decoder = &decoder,
};
