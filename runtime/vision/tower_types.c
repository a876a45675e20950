// SPDX-License-Identifier: MIT
/* runtime/vision/tower_types.c - the towers' tables. They follow the code published with each
 * model, in the version of transformers; tensor names are those of convert/tower_*.c. A number next
 * to a norm is a constant of that code for which projector files have no key. */
#include "runtime/vision/tower_int.h"

// clang-format off
#define VB(x) "v.blk.%d." x
#define OP(o) {.op = (o)}
#define NAMED(o, x) {.op = (o), .name = (x)}
#define NORM(k, x, number) {.op = TOP_NORM, .kind = (k), .name = (x), .eps = (number)}
#define OPT_NORM(k, x, number) {.op = TOP_NORM, .kind = (k), .flags = ROW_OPT, .name = (x), .eps = (number)}
#define LINEAR(x) NAMED(TOP_LINEAR, x)
#define ACT(k) {.op = TOP_ACT, .kind = (k)}
#define GATED(k, a, b) {.op = TOP_GATED, .kind = (k), .name = (a), .second = (b)}
#define PATCH NAMED(TOP_PATCH, "v.patch_embd")
#define POS NAMED(TOP_POS, "v.position_embd")
#define LOAD OP(TOP_LOAD)
#define STORE OP(TOP_STORE)
#define ADD OP(TOP_ADD)
#define END OP(TOP_END)
/* Attention with its norm; the feed-forward network with its norm. */
#define HEADS(k, number) LOAD, NORM(k, VB("ln1"), number), NAMED(TOP_QKV, VB("attn_")), OP(TOP_ATTEND), LINEAR(VB("attn_out"))
#define PLAIN(k, number, act) LOAD, NORM(k, VB("ln2"), number), LINEAR(VB("ffn_up")), ACT(act), LINEAR(VB("ffn_down"))
#define GATES(k, number, act) LOAD, NORM(k, VB("ln2"), number), GATED(act, VB("ffn_gate"), VB("ffn_up")), LINEAR(VB("ffn_down"))
/* Two products around an activation. */
#define MLP(a, act, b) LINEAR(a), ACT(act), LINEAR(b)

typedef const struct tower_row rows[];
static rows embed_bare = {PATCH, STORE, END};
static rows embed_pos = {PATCH, POS, STORE, END};
static rows siglip_block = {HEADS(NORM_LAYER, 0), ADD, PLAIN(NORM_LAYER, 0, ACT_GELU), ADD, END};

static rows qwen2_block = {HEADS(NORM_LAYER, 1e-6f), ADD, PLAIN(NORM_LAYER, 1e-6f, ACT_QUICK), ADD, END};
static rows qwen2_project = {LOAD, NORM(NORM_LAYER, "v.post_ln", 1e-6f), OP(TOP_MERGE), MLP("mm.0", ACT_ERF, "mm.2"), OP(TOP_OUT), END};

static rows qwen25_block = {LOAD, NORM(NORM_RMS, VB("ln1"), 1e-6f), NAMED(TOP_QKV, VB("attn_")), {.op = TOP_ATTEND, .kind = RANGE_WINDOW}, LINEAR(VB("attn_out")), ADD,
                            GATES(NORM_RMS, 1e-6f, ACT_SILU), ADD, END};
static rows qwen25_project = {LOAD, NORM(NORM_RMS, "v.post_ln", 1e-6f), OP(TOP_MERGE), MLP("mm.0", ACT_ERF, "mm.2"), OP(TOP_OUT), END};

static rows qwen3_block = {HEADS(NORM_LAYER, 1e-6f), ADD, PLAIN(NORM_LAYER, 1e-6f, ACT_GELU), ADD, END};
static rows qwen3_deep = {LOAD, OP(TOP_MERGE), NORM(NORM_LAYER, "v.deepstack.%d.norm", 1e-6f),
                          MLP("v.deepstack.%d.fc1", ACT_ERF, "v.deepstack.%d.fc2"), OP(TOP_DEEP), END};

static rows gemma3_project = {LOAD, NORM(NORM_LAYER, "v.post_ln", 0), OP(TOP_POOL), NORM(NORM_RMS, "mm.soft_emb_norm", 0),
                              {.op = TOP_LINEAR, .kind = 1, .name = "mm.input_projection"}, OP(TOP_OUT), END};

static rows gemma4_embed = {{.op = TOP_PATCH, .kind = 1, .name = "v.patch_embd"}, POS, STORE, END};
static rows gemma4_block = {LOAD, NORM(NORM_RMS, VB("ln1"), 0), {.op = TOP_QKV, .kind = 1, .name = VB("attn_")}, OP(TOP_ATTEND), LINEAR(VB("attn_out")),
                            NORM(NORM_RMS, VB("attn_post_norm"), 0), ADD,
                            GATES(NORM_RMS, 0, ACT_GELU),
                            NORM(NORM_RMS, VB("ffn_post_norm"), 0), ADD, END};
static rows gemma4_project = {LOAD, OP(TOP_POOL), OP(TOP_WIDEN), {.op = TOP_CENTRE, .flags = ROW_OPT, .name = "v.std_bias", .second = "v.std_scale"},
                              {.op = TOP_NORM, .kind = NORM_BARE}, LINEAR("mm.input_projection"), OP(TOP_OUT), END};

static rows gemma4u_embed = {OP(TOP_PIXELS), NORM(NORM_LAYER, "v.patch_norm.1", 1e-5f), LINEAR("v.patch_embd"), NORM(NORM_LAYER, "v.patch_norm.2", 1e-5f),
                             POS, NORM(NORM_LAYER, "v.patch_norm.3", 1e-5f), STORE, END};
static rows gemma4u_project = {LOAD, {.op = TOP_NORM, .kind = NORM_BARE}, LINEAR("mm.input_projection"), OP(TOP_OUT), END};

static rows pixtral_embed = {PATCH, NORM(NORM_RMS, "v.pre_ln", 1e-5f), STORE, END};
static rows pixtral_block = {HEADS(NORM_RMS, 1e-5f), ADD, GATES(NORM_RMS, 1e-5f, ACT_KEYS), ADD, END};
static rows pixtral_project = {LOAD, OPT_NORM(NORM_RMS, "mm.input_norm", 0), OP(TOP_SHUFFLE), {.op = TOP_LINEAR, .flags = ROW_OPT, .name = "mm.patch_merger"},
                               MLP("mm.1", ACT_ERF, "mm.2"), OP(TOP_OUT), END};

static rows idefics3_project = {LOAD, NORM(NORM_LAYER, "v.post_ln", 0), OP(TOP_MERGE), LINEAR("mm.model.fc"), OP(TOP_OUT), END};

static rows internvl_embed = {PATCH, POS, STORE, NAMED(TOP_CLASS, "v.class_embd"), END};
static rows internvl_block = {HEADS(NORM_AUTO, 0), NAMED(TOP_COLUMNS, VB("ls1")), ADD,
                              PLAIN(NORM_AUTO, 0, ACT_KEYS), NAMED(TOP_COLUMNS, VB("ls2")), ADD, END};
static rows internvl_project = {LOAD, OP(TOP_MERGE), NORM(NORM_LAYER, "mm.model.mlp.0", 1e-5f), MLP("mm.model.mlp.1", ACT_ERF, "mm.model.mlp.3"), OP(TOP_OUT), END};

static rows lfm2_project = {LOAD, NORM(NORM_LAYER, "v.post_ln", 0), OP(TOP_MERGE), OPT_NORM(NORM_LAYER, "mm.input_norm", 1e-5f),
                            MLP("mm.1", ACT_ERF, "mm.2"), OP(TOP_OUT), END};

static rows glm4v_embed = {PATCH, OPT_NORM(NORM_RMS, "v.norm_embd", 0), {.op = TOP_POS, .flags = ROW_OPT, .name = "v.position_embd"}, STORE, END};
static rows glm4v_block = {HEADS(NORM_RMS, 0), ADD, GATES(NORM_RMS, 0, ACT_SILU), ADD, END};
static rows glm4v_project = {LOAD, NORM(NORM_RMS, "v.post_ln", 0), OP(TOP_SHUFFLE), LINEAR("mm.patch_merger"), LINEAR("mm.model.fc"),
                             NORM(NORM_LAYER, "mm.post_norm", 1e-5f), ACT(ACT_ERF), GATED(ACT_SILU, "mm.gate", "mm.up"), LINEAR("mm.down"), OP(TOP_OUT), END};

static rows kimi_project = {LOAD, NORM(NORM_LAYER, "v.post_ln", 1e-5f), NORM(NORM_LAYER, "mm.input_norm", 1e-5f), OP(TOP_MERGE),
                            MLP("mm.1", ACT_ERF, "mm.2"), OP(TOP_OUT), END};

#define VM(x) "v.vit_merger." x
static rows minicpm_middle = {LOAD, NORM(NORM_LAYER, VM("ln1"), 0), NAMED(TOP_QKV, VM("attn_")), {.op = TOP_ATTEND, .kind = RANGE_SQUARE}, LINEAR(VM("attn_out")), ADD,
                              LOAD, OP(TOP_MERGE), NORM(NORM_LAYER, VM("ds_ln"), 0), MLP(VM("ds_ffn_up"), ACT_GELU, VM("ds_ffn_down")), OP(TOP_SHRINK), END};
static rows minicpm_project = {LOAD, NORM(NORM_LAYER, "v.post_ln", 0), OP(TOP_MERGE), NORM(NORM_LAYER, "mm.input_norm", 1e-6f), MLP("mm.up", ACT_ERF, "mm.down"), OP(TOP_OUT), END};
// clang-format on

const struct tower_type tower_types[PROJ_COUNT] = {
    [PROJ_QWEN2VL] = {.family = "Qwen2-VL",
                      .embed = embed_bare,
                      .block = qwen2_block,
                      .project = qwen2_project,
                      .rope = ROPE_HALVES,
                      .theta = 10000},
    [PROJ_QWEN25VL] = {.family = "Qwen2.5-VL",
                       .embed = embed_bare,
                       .block = qwen25_block,
                       .project = qwen25_project,
                       .rope = ROPE_HALVES,
                       .theta = 10000,
                       .window = 112,
                       .every = 8},
    [PROJ_QWEN3VL] = {.family = "Qwen3-VL and Qwen3.5",
                      .embed = embed_pos,
                      .block = qwen3_block,
                      .deep = qwen3_deep,
                      .project = qwen2_project,
                      .pos = POS_CORNERS,
                      .rope = ROPE_HALVES,
                      .theta = 10000},
    [PROJ_GEMMA3] = {.family = "Gemma 3",
                     .embed = embed_pos,
                     .block = siglip_block,
                     .project = gemma3_project,
                     .pos = POS_BICUBIC},
    [PROJ_GEMMA4] = {.family = "Gemma 4",
                     .embed = gemma4_embed,
                     .block = gemma4_block,
                     .project = gemma4_project,
                     .pos = POS_AXES,
                     .rope = ROPE_PARTS,
                     .theta = 100,
                     .unscaled = true},
    [PROJ_GEMMA4U] = {.family = "Gemma 4 Unified",
                      .embed = gemma4u_embed,
                      .project = gemma4u_project,
                      .pos = POS_AXES,
                      .whole = true},
    [PROJ_PIXTRAL] = {.family = "Pixtral and Mistral 3",
                      .embed = pixtral_embed,
                      .block = pixtral_block,
                      .project = pixtral_project,
                      .rope = ROPE_EVEN,
                      .theta = 10000},
    [PROJ_IDEFICS3] = {.family = "Idefics 3 and SmolVLM",
                       .embed = embed_pos,
                       .block = siglip_block,
                       .project = idefics3_project,
                       .pos = POS_NEAREST},
    [PROJ_INTERNVL] = {.family = "InternVL",
                       .embed = internvl_embed,
                       .block = internvl_block,
                       .project = internvl_project,
                       .pos = POS_BICUBIC},
    [PROJ_LFM2] = {.family = "LFM2-VL",
                   .embed = embed_pos,
                   .block = siglip_block,
                   .project = lfm2_project,
                   .pos = POS_ANTIALIAS},
    [PROJ_GLM4V] = {.family = "GLM-4.xV",
                    .embed = glm4v_embed,
                    .block = glm4v_block,
                    .project = glm4v_project,
                    .pos = POS_BICUBIC,
                    .rope = ROPE_HALVES,
                    .theta = 10000},
    [PROJ_KIMIVL] = {.family = "Kimi-VL",
                     .embed = embed_pos,
                     .block = siglip_block,
                     .project = kimi_project,
                     .pos = POS_BICUBIC,
                     .rope = ROPE_MIXED,
                     .theta = 10000},
    [PROJ_MINICPMV] = {.family = "MiniCPM-V 4.6",
                       .embed = embed_pos,
                       .block = siglip_block,
                       .middle = minicpm_middle,
                       .project = minicpm_project,
                       .pos = POS_FRACTION},
};
