// SPDX-License-Identifier: MIT
/* models/muse_glimmer.c - Muse Glimmer: embeddings and, per head, queries and keys are normed
 * without weights; norms before and after each half of a block, stored as w - 1; attention output
 * gated elementwise; sliding windows and RoPE in three of four layers; logits scaled, then capped.
 *
 * Queries are multiplied by qk_scale_factor after their norm. As in llama.cpp's files, it is stored
 * as the weights of that norm. */
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/block.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"MuseGlimmerForConditionalGeneration",
                                         "MuseGlimmerForCausalLM", NULL};
static const char *const skip[] = {"vision_tower.", "vision_adapter.", "vision_projection.", NULL};
#define POST_EPS 1e-8 /* of the norms after each half; there is no key for it */
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_DECODER, HP_ROW_FF, HP_ROW_WINDOW(HPF_REQUIRED),
    {"final_logit_softcapping", "final_logit_softcapping", HF_SOFTCAP, HPF_REAL | HPF_ZERO_OK, 0},
    {"logit_scale", "output_multiplier", HF_LOGIT_SCALE, HPF_REAL | HPF_REQUIRED, 0},
    {.slot = -1},
};
#define FILLED(gguf, xf) {"blk.%d." gguf ".weight", NULL, {HD_HEAD_DIM}, xf, 0, ROLE_OTHER, W_ATTN, TR_F32}
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    ROW_NORM("attn_norm", "input_layernorm", XF_ADD1),
    ROWS_QKVO(HD_ATTN_OUT, XF_ROPE_PAIRS),
    FILLED("attn_q_norm", XF_FILL_Q), FILLED("attn_k_norm", XF_FILL_ONE),
    ROW_MAT("attn_gate", "self_attn.gate_proj", HD_ATTN_OUT, HD_EMBD, ROLE_ATTN_GATE, W_ATTN, 0),
    ROW_NORM("post_attention_norm", "post_attention_layernorm", XF_ADD1),
    ROW_NORM("ffn_norm", "pre_feedforward_layernorm", XF_ADD1),
    ROWS_FFN,
    ROW_NORM("post_ffw_norm", "post_feedforward_layernorm", XF_ADD1),
    ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

static int derive(struct hparams *h, struct err *e) {
    TRY(layers_fill(h, e));
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) h->layer[i].no_rope = !h->layer[i].window;
    return 0;
}

/* Checks that exactly the layers with a window have RoPE. Without layer_types and layer_rope_theta,
 * every fourth layer, counted from the last, has neither. */
static int check_layers(const struct hparams *h, const struct hfdir *dir, struct err *e) {
    const int64_t n = h->d[HD_LAYERS];
    const struct json *type = json_first(hfdir_hparam(dir, "layer_types"));
    const struct json *theta = json_first(hfdir_hparam(dir, "layer_rope_theta"));
    const bool own = type != NULL;
    if (!own && n % 4)
        return err_set(e, ERR_DATA,
                       "layer_types is missing, and %lld layers are not a multiple of 4",
                       (long long)n);
    for (int64_t i = 0; i < n; i++) {
        const char *is = json_str(type);
        const bool last = (n - 1 - i) % 4 == 0;
        const bool full = own ? is && is[0] == 'f' : last;
        const bool plain = theta ? !(json_num(theta, 0) > 0) : last;
        if (full != plain)
            return err_set(e, ERR_DATA,
                           "layer %lld has %s, which the format cannot hold: it implies RoPE in "
                           "layers with a window, and only there",
                           (long long)i, plain ? "a window but no RoPE" : "RoPE but no window");
        type = type ? json_next(type) : NULL;
        theta = theta ? json_next(theta) : NULL;
    }
    return 0;
}

static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", NULL};
    const double eps = json_num(hfdir_hparam(dir, "post_norm_eps"), POST_EPS);
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_activation", "silu", e));
    TRY(check_layers(h, dir, e));
    if (eps < POST_EPS * 0.99 || eps > POST_EPS * 1.01)
        return err_set(e, ERR_DATA, "post_norm_eps is %g, but the format implies %g", eps,
                       POST_EPS);
    h->mul[MUL_Q] = (float)json_num(hfdir_hparam(dir, "qk_scale_factor"), 3.87);
    if (!(h->mul[MUL_Q] > 0))
        return err_set(e, ERR_DATA, "qk_scale_factor is %g, which is out of range",
                       (double)h->mul[MUL_Q]);
    return hf_check_rope(dir, e);
}

/* Appends the norm of the embeddings, in place. */
static void norm_embeddings(struct build *b) {
    static const struct norm_spec plain = {.kind = NORM_RMS};
    const gr_reg x = b->g->residual;
    block_norm_heads(b, &plain, x, x, b->g->reg_width[x]);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, POST_NORMS, .after_eps = POST_EPS,
              .attn = {.rope = {.kind = ROPE_PAIRS}, .gate = GATE_ELEMENT, QK_NORMS}},
    .start = norm_embeddings,
};

extern const struct arch arch_muse_glimmer;
const struct arch arch_muse_glimmer = {
    .name = "muse-glimmer",
    .hf_classes = hf_classes,
    .family = "Muse Glimmer",
    .size_note = "sliding-window and full attention, dense",
    .hp = hp,
    .tensors = tensors,
    .skip = skip,
    .derive = derive,
    .from_hf = from_hf,
    .window_period = 4,
    .window_keys = true,
    .tools = "atem",
    .decoder = &decoder,
};
