// SPDX-License-Identifier: MIT
/* models/qwen3.c - Qwen3 dense, and the parts the MoE form shares (qwen3.h). */
#include "models/qwen3.h"

#include "core/hfdir.h"
#include "core/json.h"

int qwen3_derive(struct hparams *h, struct err *e) {
    return derive_attn(h, 1, e);
}

int qwen3_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    UNUSED(h);
    static const char *const no[] = {"attention_bias", "use_sliding_window"};
    for (size_t i = 0; i < COUNT_OF(no); i++)
        if (json_bool(hfdir_hparam(dir, no[i]), false))
            return err_set(e, ERR_DATA, "%s is true, which this architecture cannot hold", no[i]);
    return hf_check_rope(dir, e);
}

static gr_reg attn(struct build *b, gr_reg in) {
    return part_attn(b, in, 0);
}

int qwen3_decoder(const struct arch *a, const struct hparams *h, struct graph *g, part_fn ffn,
                  struct err *e) {
    const struct part_blocks p = {.full = attn, .ffn = ffn, .ffn_norm = "ffn_norm.weight"};
    return part_decoder(a, h, g, &p, e);
}

static const char *const hf_classes[] = {"Qwen3ForCausalLM", NULL};
static const struct hp_row hp[] = {HP_ROWS_DECODER, HP_ROW_FF, {.slot = -1}};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,           QWEN3_NORM_ROWS, ROWS_ATTN(XF_COPY), ROWS_FFN,
    ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT,      {.gguf = NULL},
};

static int build(const struct hparams *h, struct graph *g, struct err *e);
extern const struct arch arch_qwen3;
const struct arch arch_qwen3 = {
    .name = "qwen3",
    .hf_classes = hf_classes,
    .family = "Qwen 3",
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = qwen3_derive,
    .from_hf = qwen3_from_hf,
    .build = build,
};

static int build(const struct hparams *h, struct graph *g, struct err *e) {
    return qwen3_decoder(&arch_qwen3, h, g, part_ffn, e);
}
