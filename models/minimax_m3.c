// SPDX-License-Identifier: MIT
/* models/minimax_m3.c - MiniMax M3: per-head norms of queries and keys, partial RoPE; leading dense
 * layers, then experts selected by sigmoid scores with a bias, plus shared experts, all with a
 * clamped SwiGLU. Layers with experts have an indexer that selects, for each key head, blocks of
 * keys; the query's own block is always among them. Norms are stored as w - 1. */
#include "base/attr.h"
#include "base/json.h"
#include "containers/hfdir.h"
#include "models/rows.h"

static const char *const hf_classes[] = {
    "MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration",
    "MiniMaxM3VLForConditionalGeneration", "MiniMaxM3VLForCausalLM", NULL};
static const char *const skip[] = {"vision_tower.", "multi_modal_projector.", "patch_merge_mlp.",
                                   "=mtp.", NULL};
enum { MOST_BLOCK = 256 }; /* longest block of keys; shorter ones divide it */
// clang-format off
#define SPARSE(flat, nested) flat "|sparse_attention_config." nested
#define MOE "block_sparse_moe."
static const struct hp_row hp[] = {
    HP_ROWS_DECODER,
    {"feed_forward_length", "dense_intermediate_size", HD_FF, HPF_REQUIRED, 0},
    {"rope.dimension_count", "rotary_dim", HD_ROT, 0, 0}, HP_ROW_EXPERT_COUNTS,
    {"expert_feed_forward_length", "intermediate_size", HD_FF_EXP, HPF_REQUIRED, 0},
    {"expert_shared_count", "n_shared_experts", HD_SHEXPS, 0, 1},
    HP_ROW_LEAD_DENSE, HP_ROW_EXPERT_SCALE, HP_ROW_EXPERT_NORM(1), HP_ROW_GATING(2),
    {"attention.indexer.head_count", SPARSE("index_n_heads", "sparse_num_index_heads"), HD_INDEX_HEADS, HPF_REQUIRED, 0},
    {"attention.indexer.key_length", SPARSE("index_head_dim", "sparse_index_dim"), HD_INDEX_DIM, HPF_REQUIRED, 0},
    {"attention.indexer.top_k", SPARSE("index_topk_blocks", "sparse_topk_blocks"), HD_TOP_BLOCKS, HPF_REQUIRED, 0},
    {"attention.indexer.block_size", SPARSE("index_block_size", "sparse_block_size"), HD_INDEX_BLOCK, HPF_REQUIRED, 0},
    {"attention.indexer.local_blocks", SPARSE("index_local_blocks", "sparse_local_block"), HD_INDEX_LOCAL, HPF_REQUIRED, 0},
    {.slot = -1},
};
#define INDEX(gguf, hf, xf, ...) \
    {"blk.%d.indexer." gguf ".weight", HF_LAYER("self_attn.index_" hf ".weight") "|" HF_LAYER("self_attn.indexer." hf ".weight"), {__VA_ARGS__}, xf, 0, \
     ROLE_OTHER, W_MOE, TR_F32}
/* Dense feed-forwards and shared experts: gate and up are apart or, as transformers 5 saves them, in one matrix. */
#define FUSED "gate_up_proj.weight"
#define GATED(gguf, hf, rows, xf, role) {"blk.%d." gguf ".weight", HF_LAYER("mlp." FUSED) "|" HF_LAYER("mlp." hf ".weight"), {rows, HD_EMBD}, xf, 0, role, W_DENSE, 0}
#define SHARED_AS(hf) HF_LAYER(MOE "shared_experts." hf) "|" HF_LAYER("mlp.shared_experts." hf)
#define SHARED(gguf, names, rows, cols, xf, role) {"blk.%d." gguf "_shexp.weight", names, {rows, cols}, xf, 0, role, W_MOE, 0}
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD, ROWS_PRE_NORMS(XF_ADD1), ROWS_QKVO(HD_ATTN_OUT, XF_COPY), ROWS_QK_NORM(XF_ADD1),
    INDEX("q_proj", "q_proj", XF_COPY, HD_INDEX_Q, HD_EMBD), INDEX("k_proj", "k_proj", XF_COPY, HD_INDEX_DIM, HD_EMBD),
    INDEX("q_norm", "q_norm", XF_ADD1, HD_INDEX_DIM), INDEX("k_norm", "k_norm", XF_ADD1, HD_INDEX_DIM),
    GATED("ffn_gate", "gate_proj", HD_FF, XF_SPLIT_FIRST, ROLE_FFN_GATE), GATED("ffn_up", "up_proj", HD_FF, XF_SPLIT_SECOND, ROLE_FFN_UP),
    ROW_MAT("ffn_down", "mlp.down_proj", HD_EMBD, HD_FF, ROLE_FFN_DOWN, W_DENSE, 0),
    ROW_ROUTER(MOE "gate"), ROWS_EXPERT_MATS(MOE "experts", "w1", "w3", "w2"), ROW_ROUTER_BIAS(MOE "e_score_correction_bias"),
    SHARED("ffn_gate", SHARED_AS(FUSED) "|" SHARED_AS("gate_proj.weight"), HD_FF_SHEXP, HD_EMBD, XF_SPLIT_FIRST, ROLE_SHEXP_GATE),
    SHARED("ffn_up", SHARED_AS(FUSED) "|" SHARED_AS("up_proj.weight"), HD_FF_SHEXP, HD_EMBD, XF_SPLIT_SECOND, ROLE_SHEXP_UP),
    SHARED("ffn_down", SHARED_AS("down_proj.weight"), HD_EMBD, HD_FF_SHEXP, XF_COPY, ROLE_SHEXP_DOWN),
    ROW_OUTPUT_NORM(XF_ADD1), ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

static int check_indexer(const struct hparams *h, struct err *e) {
    const int64_t *d = h->d, block = d[HD_INDEX_BLOCK];
    if (block > MOST_BLOCK || MOST_BLOCK % block || d[HD_INDEX_LOCAL] > d[HD_TOP_BLOCKS] ||
        d[HD_INDEX_HEADS] != d[HD_KV_HEADS] || d[HD_TOP_BLOCKS] > 1 << 16 ||
        d[HD_ROT] > d[HD_INDEX_DIM])
        return err_set(
            e, ERR_DATA,
            "an indexer of %lld heads of %lld values that selects %lld blocks of %lld keys, %lld "
            "of them local, is not supported with %lld key heads of which rope turns %lld values",
            (long long)d[HD_INDEX_HEADS], (long long)d[HD_INDEX_DIM], (long long)d[HD_TOP_BLOCKS],
            (long long)block, (long long)d[HD_INDEX_LOCAL], (long long)d[HD_KV_HEADS],
            (long long)d[HD_ROT]);
    return 0;
}

static int derive(struct hparams *h, struct err *e) {
    TRY(check_indexer(h, e));
    h->d[HD_TOP_KEYS] = h->d[HD_TOP_BLOCKS] * h->d[HD_INDEX_BLOCK];
    TRY(hparams_mul(h, HD_INDEX_Q, h->d[HD_INDEX_HEADS], h->d[HD_INDEX_DIM], e));
    TRY(derive_shared_experts(h, e));
    return layers_fill(h, e);
}

/* Sets HD_LEAD_DENSE from moe_layer_freq, and checks that the layers with experts are those with an
 * indexer, because the format cannot express anything else. */
static int read_layers(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const struct json *moe = json_first(hfdir_hparam(dir, "moe_layer_freq"));
    const struct json *sparse =
        json_first(json_get(hfdir_hparam(dir, "sparse_attention_config"), "sparse_attention_freq"));
    const struct json *type = json_first(hfdir_hparam(dir, "layer_types"));
    if (moe) h->d[HD_LEAD_DENSE] = 0;
    for (int64_t i = 0; moe && i < h->d[HD_LAYERS]; i++, moe = json_next(moe)) {
        const bool dense = !(json_num(moe, 1) > 0);
        if (dense && h->d[HD_LEAD_DENSE] < i)
            return err_set(e, ERR_DATA, "moe_layer_freq[%lld]: dense layers must come first",
                           (long long)i);
        h->d[HD_LEAD_DENSE] += dense;
    }
    TRY(hf_lead_dense(h, dir, e));
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) {
        const char *is = json_str(type);
        const bool has = sparse ? json_num(sparse, 0) > 0 : type ? is && is[0] == 'm' : false;
        if ((sparse || type) && has != (i >= h->d[HD_LEAD_DENSE]))
            return err_set(e, ERR_DATA,
                           "layer %lld: the format requires an indexer in all layers with experts, "
                           "and only there",
                           (long long)i);
        sparse = sparse ? json_next(sparse) : NULL;
        type = type ? json_next(type) : NULL;
    }
    return 0;
}

static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    int64_t shared;
    TRY(hfdir_whole(hfdir_hparam(dir, "shared_intermediate_size"), "shared_intermediate_size",
                    h->d[HD_FF_EXP], &shared, e));
    TRY(hf_check_swiglu(dir, e));
    if (shared != h->d[HD_FF_EXP])
        return err_set(e, ERR_DATA,
                       "shared_intermediate_size %lld is not intermediate_size %lld, as the format "
                       "implies",
                       (long long)shared, (long long)h->d[HD_FF_EXP]);
    TRY(hf_check_is(dir, "scoring_func", "sigmoid", e));
    TRY(hf_check_is(dir, "qk_norm_type", "per_head", e));
    TRY(read_layers(h, dir, e));
    if (!h->d[HD_ROT]) TRY(hf_partial_rope(h, dir, 1, e));
    return hf_check_rope(dir, e);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}, QK_NORMS},
              .ffn = {.act = ACT_SWIGLU_OAI, .router = {.score = SCORE_SIGMOID}}},
};

extern const struct arch arch_minimax_m3;
const struct arch arch_minimax_m3 = {
    .name = "minimax-m3",
    .hf_classes = hf_classes,
    .family = "MiniMax M3",
    .size_note = "block-sparse attention, mixture of experts",
    .hp = hp,
    .tensors = tensors,
    .skip = skip,
    .derive = derive,
    .from_hf = from_hf,
    .decoder = &decoder,
    .tools = "minimax-m3",
};
