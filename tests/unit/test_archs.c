// SPDX-License-Identifier: MIT
/* Architectures compared with transformers (tests/oracle/archs.py): micro checkpoints are converted
 * and run with every kernel set, in one batch, in pieces and token by token, beyond their windows.
 * Also checks the keys of the file, and that each number in the config has an effect. */
#include "convert/convert.h"
#include "base/log.h"
#include "containers/q8_0.h"
#include "models/arch.h"
#include "quantize/qplan.h"
#include "runtime/engine/kv_type.h"
#include "tests/unit/micro.h"

/* Both sides compute in f32 from the same weights, with sums in a different order; logits reach
 * 30. */
static const double tol = 5e-4;

struct edit {
    const char *from, *to;
};
struct arch_case {
    const char *name, *arch;
    const char *keys;     /* keys after "<arch>.", separated by spaces, in addition to those of
                           * every decoder */
    struct edit edit[10]; /* changes to config.json that must change the logits */
};

static void check_keys(const struct arch_case *c, const char *path) {
    static const char every[] = "block_count context_length embedding_length feed_forward_length "
                                "attention.head_count";
    struct err e = {0};
    struct gguf *g = NULL;
    CHECK_OK(gguf_open(&g, path, 0, &e));
    if (!g) return;
    CHECK_EQ_STR(gguf_str_or(g, "general.architecture", ""), c->arch);
    char *list = xasprintf("%s %s", every, c->keys);
    for (char *save = NULL, *k = strtok_r(list, " ", &save); k; k = strtok_r(NULL, " ", &save)) {
        char *key = xasprintf("%s.%s", c->arch, k);
        if (!gguf_find(g, key)) CHECK_FAIL("%s: no key %s", c->name, key);
        free(key);
    }
    char *key = xasprintf("%s.attention.head_count_kv", c->arch); /* Mamba alone has no heads */
    if (strncmp(c->arch, "mamba", 5) != 0 && !gguf_find(g, key))
        CHECK_FAIL("%s: no key %s", c->name, key);
    free(key);
    free(list);
    gguf_close(g);
}

static void check_logits(const struct arch_case *c, const struct model *m, const struct golden *g) {
    const int64_t v = m->hp.d[HD_VOCAB];
    double worst = 0;
    CHECK_EQ_I64(g->n_logits, g->n_ids / 4 * (v / 4));
    for (int isa = KERN_REF; isa <= (int)kern_isa_best(); isa++)
        for (size_t b = 0; b < COUNT_OF(golden_batching); b++) {
            const struct session_opts o = {.n_ctx = g->n_ids,
                                           .n_ubatch = golden_batching[b].n_ubatch,
                                           .isa = (enum kern_isa)isa};
            float *l =
                golden_run(m, &o, g->ids, g->n_ids, golden_batching[b].pieces, NULL, NULL, NULL);
            const double d = micro_diff(g, l, g->n_ids, v);
            if (!(d <= worst)) worst = d;
            free(l);
        }
    printf("%s: max |logit difference| %.3g\n", c->name, worst);
    if (!(worst <= tol)) CHECK_FAIL("%s: %g is more than %g", c->name, worst, tol);
}

static void check_edits(const struct arch_case *c, const char *dir, const struct golden *g) {
    for (const struct edit *x = c->edit; x->from; x++) {
        const char *const edit[] = {x->from, x->to, NULL};
        struct model *m = golden_open(micro_folder(dir, edit), tmp_path("edited.gguf"));
        if (!m) continue;
        const struct session_opts o = {.n_ctx = g->n_ids, .isa = kern_isa_best()};
        float *l = golden_run(m, &o, g->ids, g->n_ids, golden_all, NULL, NULL, NULL);
        if (!(micro_diff(g, l, g->n_ids, m->hp.d[HD_VOCAB]) > 20 * tol))
            CHECK_FAIL("%s: %s changes nothing", c->name, x->to);
        free(l);
        model_close(m);
    }
}

static void check_case(const struct arch_case *c) {
    char *dir = xasprintf("tests/golden/archs/%s", c->name);
    struct golden g;
    struct model *m = golden_open(micro_folder(dir, NULL), tmp_path("m.gguf"));
    check_keys(c, tmp_path("m.gguf"));
    if (golden_load(&g, dir) && m) {
        check_logits(c, m, &g);
        check_edits(c, dir, &g);
    }
    golden_release(&g);
    model_close(m);
    free(dir);
}

// clang-format off
#define RMS "attention.layer_norm_rms_epsilon "
#define LN "attention.layer_norm_epsilon "
#define HEAD "attention.key_length attention.value_length "
#define ROUTER \
    "expert_count expert_used_count expert_feed_forward_length expert_shared_count leading_dense_block_count expert_weights_scale " \
    "expert_weights_norm expert_gating_func "
#define MLA \
    RMS HEAD ROUTER "attention.kv_lora_rank attention.key_length_mla attention.value_length_mla rope.dimension_count rope.freq_base vocab_size "
#define SCALE {"\"routed_scaling_factor\": 1.5", "\"routed_scaling_factor\": 1.0"}
#define MORE {"\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 3"}
#define USED {"\"num_experts_per_tok\": 3", "\"num_experts_per_tok\": 2"}
#define SSM "ssm.conv_kernel ssm.inner_size ssm.state_size ssm.time_step_rank "
#define WINDOW {"\"sliding_window\": 16", "\"sliding_window\": 48"}
#define THETA {"\"num_hidden_layers\": 4", "\"num_hidden_layers\": 4,\n \"rope_theta\": 100.0"}
#define GPT_OSS                                                                                                      \
    RMS HEAD "rope.freq_base rope.scaling.type rope.scaling.factor rope.scaling.original_context_length expert_count " \
    "expert_used_count expert_feed_forward_length attention.sliding_window"
#define GRANITE_MOE                                                                                                  \
    RMS "rope.freq_base rope.dimension_count vocab_size attention.scale embedding_scale residual_scale logit_scale " \
    "expert_count expert_used_count"
static const struct arch_case cases[] = {
    {"gemma", "gemma", RMS HEAD, {THETA}},
    {"granite", "granite",
     RMS "rope.freq_base rope.dimension_count vocab_size attention.scale embedding_scale residual_scale logit_scale",
     {{"\"attention_multiplier\": 0.3", "\"attention_multiplier\": 0.2"}, {"\"embedding_multiplier\": 3.0", "\"embedding_multiplier\": 2.0"},
      {"\"residual_multiplier\": 0.4", "\"residual_multiplier\": 0.5"}, {"\"logits_scaling\": 4.0", "\"logits_scaling\": 3.0"}}},
    {"olmo2", "olmo2", RMS "rope.freq_base", {{"500000.0", "1000.0"}}},
    {"smollm3", "smollm3", RMS "rope.freq_base rope.dimension_count vocab_size", {{"100000.0", "1000.0"}}},
    {"starcoder2", "starcoder2", LN "rope.freq_base", {{"\"norm_epsilon\": 1e-05", "\"norm_epsilon\": 0.1"}}},
    {"starcoder2win", "starcoder2", LN "rope.freq_base attention.sliding_window", {WINDOW}},
    {"mistralwin", "llama", RMS "rope.freq_base rope.dimension_count vocab_size attention.sliding_window", {WINDOW}},
    {"llamabias", "llama", RMS HEAD "rope.freq_base rope.dimension_count vocab_size", {{"\"rope_theta\": 10000.0", "\"rope_theta\": 100.0"}}},
    {"stablelm", "stablelm", LN "rope.dimension_count use_parallel_residual",
     {{"\"partial_rotary_factor\": 0.25", "\"partial_rotary_factor\": 0.5"}, {"\"rope_theta\": 10000", "\"rope_theta\": 100"}}},
    {"stablelm12b", "stablelm", LN "rope.dimension_count use_parallel_residual", {{NULL, NULL}}},
    {"phi3", "phi3", RMS "rope.freq_base rope.dimension_count rope.scaling.original_context_length attention.sliding_window",
     {{"\"partial_rotary_factor\": 0.75", "\"partial_rotary_factor\": 1"}, {"\"sliding_window\": null", "\"sliding_window\": 20"}}},
    {"glm4", "glm4", RMS HEAD "rope.freq_base rope.dimension_count", {{"\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 1"}}},
    {"exaone4", "exaone4", RMS HEAD "rope.freq_base attention.sliding_window attention.sliding_window_pattern", {WINDOW}},
    {"exaonemoe", "exaone-moe",
     RMS HEAD ROUTER "rope.freq_base attention.sliding_window attention.sliding_window_pattern expert_group_count expert_group_used_count",
     {WINDOW, USED, SCALE, {"\"topk_group\": 2", "\"topk_group\": 1"}}},
    {"mellum", "mellum",
     RMS HEAD "rope.freq_base rope.freq_base_swa rope.scaling.type attention.sliding_window attention.sliding_window_pattern expert_count "
     "expert_used_count expert_feed_forward_length",
     {WINDOW, MORE, {"\"rope_theta\": 10000.0", "\"rope_theta\": 100.0"}, {"\"factor\": 4.0", "\"factor\": 8.0"}}},
    {"minicpm", "minicpm", RMS "rope.freq_base embedding_scale residual_scale logit_scale",
     {{"\"scale_emb\": 12", "\"scale_emb\": 6"}, {"\"scale_depth\": 1.4", "\"scale_depth\": 1.0"}, {"\"dim_model_base\": 32", "\"dim_model_base\": 64"}, {"\"rope_theta\": 10000.0", "\"rope_theta\": 100.0"}}},
    {"minicpm4", "minicpm", RMS "rope.freq_base rope.scaling.type rope.scaling.attn_factor rope.scaling.original_context_length",
     {{"\"original_max_position_embeddings\": 64", "\"original_max_position_embeddings\": 128"}}},
    {"minicpm3", "minicpm3", RMS "attention.q_lora_rank attention.kv_lora_rank attention.key_length rope.dimension_count rope.freq_base vocab_size", {{NULL, NULL}}},
    {"chatglm", "chatglm", RMS HEAD "rope.freq_base rope.dimension_count", {{"\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 1"}}},
    {"exaone", "exaone", RMS HEAD "rope.freq_base", {{"\"rope_theta\": 1000000.0", "\"rope_theta\": 1000.0"}, {"\"factor\": 8.0", "\"factor\": 2.0"}}},
    {"muse-glimmer", "muse-glimmer",
     RMS HEAD "rope.freq_base attention.sliding_window attention.sliding_window_pattern final_logit_softcapping logit_scale",
     {WINDOW, {"\"output_multiplier\": 0.5", "\"output_multiplier\": 0.4"}, {"\"final_logit_softcapping\": 4.0", "\"final_logit_softcapping\": 6.0"},
      {"\"qk_scale_factor\": 3.87", "\"qk_scale_factor\": 1.0"}, {"\"rope_theta\": 500000.0", "\"rope_theta\": 100.0"}}},
    {"hyv3", "hy_v3", RMS HEAD ROUTER "rope.freq_base nextn_predict_layers",
     {USED, {"\"router_scaling_factor\": 1.5", "\"router_scaling_factor\": 1.0"}, {"11158840.0", "1000.0"}}},
    {"cohere2moe", "cohere2moe",
     LN HEAD "rope.freq_base rope.scaling.type logit_scale vocab_size attention.sliding_window attention.sliding_window_pattern expert_count "
     "expert_used_count expert_feed_forward_length expert_shared_count expert_weights_norm expert_gating_func leading_dense_block_count",
     {WINDOW, USED, {"\"logit_scale\": 0.25", "\"logit_scale\": 0.3"}, {"\"norm_topk_prob\": true", "\"norm_topk_prob\": false"},
      {"\"expert_selection_fn\": \"sigmoid\"", "\"expert_selection_fn\": \"softmax\""}, {"\"sliding_window_pattern\": 3", "\"sliding_window_pattern\": 2"}}},
    {"olmo", "olmo", LN "rope.freq_base attention.clamp_kqv", {{"\"clip_qkv\": 1.0", "\"clip_qkv\": 0.5"}}},
    {"gptneox", "gptneox", LN "rope.freq_base rope.dimension_count use_parallel_residual",
     {{"\"rotary_pct\": 0.25", "\"rotary_pct\": 0.5"}, {"\"use_parallel_residual\": true", "\"use_parallel_residual\": false"}}},
    {"falcon", "falcon", LN "rope.freq_base", {{NULL, NULL}}},
    {"falcon40b", "falcon", LN "rope.freq_base", {{NULL, NULL}}},
    {"gpt2", "gpt2", LN, {{NULL, NULL}}},
    {"deepseek-v32", "deepseek32",
     MLA "attention.q_lora_rank expert_group_count rope.scaling.yarn_log_multiplier attention.indexer.head_count attention.indexer.key_length "
     "attention.indexer.top_k", {USED, SCALE, {"\"factor\": 4.0", "\"factor\": 8.0"}}},
    {"deepseek-v32-sparse", "deepseek32", MLA "attention.indexer.top_k", {{"\"index_topk\": 32", "\"index_topk\": 48"}, {"\"index_topk\": 32", "\"index_topk\": 96"}}},
    {"glm-dsa-sparse", "glm-dsa", MLA "attention.indexer.top_k", {{"\"index_topk\": 32", "\"index_topk\": 96"}, {"\"index_topk\": 32", "\"index_topk\": 48"}}},
    {"glm-dsa", "glm-dsa", MLA "attention.indexer.top_k attention.indexer.types", {USED, SCALE}},
    {"laguna", "laguna",
     RMS HEAD "attention.head_count rope.freq_base rope.freq_base_swa rope.dimension_count rope.dimension_count_swa rope.scaling.type "
     "attention.sliding_window attention.sliding_window_pattern expert_count expert_used_count expert_feed_forward_length "
     "expert_shared_feed_forward_length expert_weights_scale expert_weights_norm expert_gating_func leading_dense_block_count",
     {WINDOW, USED, {"\"moe_routed_scaling_factor\": 1.5", "\"moe_routed_scaling_factor\": 1.0"}, {"\"factor\": 4.0", "\"factor\": 8.0"},
      {"\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 1.0"}, {"\"rope_theta\": 10000.0", "\"rope_theta\": 100.0"},
      {"\"attention_factor\": 1.0", "\"attention_factor\": 2.0"}}},
    {"laguna-wide", "laguna", RMS HEAD "rope.dimension_count", {WINDOW}},
    {"mimo2", "mimo2",
     RMS HEAD "attention.head_count_kv attention.value_scale rope.freq_base rope.freq_base_swa rope.dimension_count attention.sliding_window "
     "attention.sliding_window_pattern expert_count expert_used_count expert_feed_forward_length expert_weights_norm expert_gating_func "
     "leading_dense_block_count",
     {{"\"sliding_window_size\": 15", "\"sliding_window_size\": 48"}, USED, {"\"attention_value_scale\": 0.707", "\"attention_value_scale\": 1.0"},
      {"\"partial_rotary_factor\": 0.334", "\"partial_rotary_factor\": 0.667"}, {"\"swa_rope_theta\": 10000.0", "\"swa_rope_theta\": 100.0"}}},
    {"step35", "step35",
     RMS HEAD "attention.head_count rope.freq_base rope.freq_base_swa rope.dimension_count attention.sliding_window "
     "attention.sliding_window_pattern expert_count expert_used_count expert_feed_forward_length expert_shared_feed_forward_length "
     "expert_weights_scale expert_gating_func leading_dense_block_count swiglu_clamp_exp swiglu_clamp_shexp",
     {WINDOW, {"\"moe_top_k\": 3", "\"moe_top_k\": 2"}, {"\"moe_router_scaling_factor\": 1.5", "\"moe_router_scaling_factor\": 1.0"},
      {"\"factor\": 2.0", "\"factor\": 8.0"}, {"0.5,\n  0.7", "0.5,\n  9.0"}, {"0.6\n", "9.0\n"}}},
    {"nemotron", "nemotron", LN "rope.freq_base rope.dimension_count", {{"\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 1"}}},
    {"jais2", "jais2", LN HEAD "rope.freq_base", {{"500000.0", "1000.0"}}},
    {"phi2", "phi2", LN "rope.freq_base rope.dimension_count", {{"\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 1"}}},
    {"seed_oss", "seed_oss", RMS HEAD "rope.freq_base", {{"10000000.0", "1000.0"}}},
    {"cohere2", "cohere2", LN HEAD "rope.freq_base rope.dimension_count rope.scaling.type logit_scale vocab_size attention.sliding_window",
     {WINDOW, {"\"logit_scale\": 0.25", "\"logit_scale\": 0.3"}}},
    {"gemma2", "gemma2", RMS HEAD "attn_logit_softcapping final_logit_softcapping attention.sliding_window",
     {WINDOW, THETA, {"\"num_hidden_layers\": 4", "\"num_hidden_layers\": 4,\n \"sliding_window_pattern\": 4"},
      {"\"attn_logit_softcapping\": 5.0", "\"attn_logit_softcapping\": 50.0"},
      {"\"final_logit_softcapping\": 8.0", "\"final_logit_softcapping\": 30.0"}}},
    {"gemma3", "gemma3", RMS HEAD "rope.freq_base rope.freq_base_swa rope.scaling.type rope.scaling.factor attention.sliding_window",
     {WINDOW, {"\"sliding_window_pattern\": 6", "\"sliding_window_pattern\": 3"}, {"\"factor\": 8.0", "\"factor\": 2.0"},
      {"\"rope_local_base_freq\": 10000.0", "\"rope_local_base_freq\": 100.0"}}},
    {"gemma3n", "gemma3n",
     RMS HEAD "rope.freq_base rope.freq_base_swa attention.sliding_window attention.sliding_window_pattern attention.shared_kv_layers "
     "altup.active_idx altup.num_inputs activation_sparsity_scale embedding_length_per_layer_input final_logit_softcapping",
     {WINDOW, {"0.8,\n   0.8", "0.8,\n   0.0"}, {"\"altup_active_idx\": 0", "\"altup_active_idx\": 2"},
      {"\"num_kv_shared_layers\": 2", "\"num_kv_shared_layers\": 3"}, {"\"rope_local_base_freq\": 10000.0", "\"rope_local_base_freq\": 100.0"}}},
    {"olmo3", "olmo2", RMS "rope.freq_base attention.sliding_window attention.sliding_window_pattern rope.scaling.type",
     {WINDOW, {"\"attention_factor\": 1.2", "\"attention_factor\": 2.0"}}},
    {"phi3long", "phi3", RMS "rope.scaling.attn_factor rope.scaling.original_context_length",
     {{"6.0,", "2.0,"}, {"\"original_max_position_embeddings\": 32", "\"original_max_position_embeddings\": 256"}}},
    {"phimoe", "phimoe",
     RMS "rope.freq_base rope.dimension_count rope.scaling.attn_factor rope.scaling.original_context_length attention.sliding_window "
     "expert_count expert_used_count",
     {{"6.0,", "2.0,"}, {"\"original_max_position_embeddings\": 32", "\"original_max_position_embeddings\": 256"},
      {"\"sliding_window\": 40", "\"sliding_window\": 511"}, {"\"long_mscale\": 1.25,\n  \"short_mscale\": 1.25", "\"long_mscale\": 1.5,\n  \"short_mscale\": 1.5"}}},
    {"qwen2moe", "qwen2moe", RMS "expert_count expert_used_count expert_feed_forward_length expert_shared_feed_forward_length",
     {{"\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 3"}}},
    {"olmoe", "olmoe", RMS "expert_count expert_used_count", {{"\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 3"}}},
    {"glm4moe", "glm4moe", RMS HEAD ROUTER "rope.freq_base rope.dimension_count expert_group_count expert_group_used_count",
     {SCALE, USED, {"\"topk_group\": 2", "\"topk_group\": 1"}, {"\"n_group\": 4", "\"n_group\": 8"}, {"\"norm_topk_prob\": true", "\"norm_topk_prob\": false"},
      {"\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 1"}}},
    {"solar", "glm4moe", RMS HEAD ROUTER "rope.freq_base rope.dimension_count",
     {{"\"rope_theta\": 1000000.0", "\"rope_theta\": 100.0"}, {"\"rope_theta\": 1000000.0", "\"partial_rotary_factor\": 0.5"}, SCALE, USED}},
    {"glm4moe-air", "glm4moe", RMS HEAD ROUTER "rope.freq_base nextn_predict_layers", {SCALE}},
    {"dots1", "dots1", RMS HEAD ROUTER "rope.freq_base", {SCALE, USED}},
    {"dbrx", "dbrx", LN "rope.freq_base attention.clamp_kqv expert_count expert_used_count",
     {{"\"clip_qkv\": 1.0", "\"clip_qkv\": 0.5"}, {"\"moe_top_k\": 3", "\"moe_top_k\": 2"}, {"\"rope_theta\": 500000", "\"rope_theta\": 100"}}},
    {"minimax-m3", "minimax-m3",
     RMS HEAD "rope.freq_base rope.dimension_count expert_count expert_used_count expert_feed_forward_length expert_shared_count "
     "expert_weights_scale expert_weights_norm expert_gating_func leading_dense_block_count attention.indexer.head_count "
     "attention.indexer.key_length attention.indexer.top_k attention.indexer.block_size attention.indexer.local_blocks",
     {SCALE, {"\"sparse_topk_blocks\": 3", "\"sparse_topk_blocks\": 5"}, {"\"sparse_topk_blocks\": 3", "\"sparse_topk_blocks\": 12"},
      {"\"sparse_block_size\": 8", "\"sparse_block_size\": 16"}, {"\"sparse_local_block\": 1", "\"sparse_local_block\": 3"}}},
    {"minimax-m2", "minimax-m2", RMS HEAD "expert_count expert_used_count expert_feed_forward_length expert_gating_func rope.dimension_count",
     {{"\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 3"}, {"\"rotary_dim\": 16", "\"rotary_dim\": 24"}}},
    {"afmoe", "afmoe", RMS HEAD ROUTER "attention.sliding_window", {WINDOW, USED, {"\"route_scale\": 1.5", "\"route_scale\": 1.0"}}},
    {"deepseek-v2", "deepseek2", MLA "rope.scaling.type rope.scaling.factor rope.scaling.yarn_log_multiplier",
     {USED, SCALE, {"\"factor\": 4.0", "\"factor\": 8.0"}, {"\"mscale\": 0.707,\n  \"mscale_all_dim\": 0.707", "\"mscale\": 1.0,\n  \"mscale_all_dim\": 1.0"}}},
    {"deepseek-v3", "deepseek2", MLA "attention.q_lora_rank expert_group_count rope.scaling.yarn_log_multiplier",
     {USED, SCALE, {"\"topk_group\": 2", "\"topk_group\": 1"}, {"\"original_max_position_embeddings\": 32", "\"original_max_position_embeddings\": 128"}}},
    {"deepseek-v2-groups", "deepseek2", MLA "attention.q_lora_rank expert_group_count",
     {{"\"topk_group\": 2", "\"topk_group\": 1"}, USED, SCALE, {"\"rope_theta\": 10000.0", "\"rope_theta\": 1000.0"}}},
    {"mistral4", "mistral4",
     RMS HEAD "attention.q_lora_rank attention.kv_lora_rank attention.key_length_mla attention.temperature_scale attention.temperature_length "
     "rope.scaling.yarn_log_multiplier expert_count expert_used_count expert_shared_count expert_weights_norm",
     {{"\"llama_4_scaling_beta\": 0.1", "\"llama_4_scaling_beta\": 0.4"}, MORE, {"\"factor\": 16.0", "\"factor\": 8.0"}}},
    {"glm4moe-lite", "deepseek2", MLA "attention.q_lora_rank nextn_predict_layers", {SCALE}},
    {"youtu", "deepseek2",
     RMS HEAD "attention.q_lora_rank attention.kv_lora_rank attention.key_length_mla leading_dense_block_count expert_shared_count "
     "expert_feed_forward_length", {{"1600000.0", "1000.0"}}},
    {"bailingmoe2", "bailingmoe2", RMS HEAD ROUTER "rope.dimension_count vocab_size expert_shared_feed_forward_length expert_group_count",
     {SCALE, USED, {"\"topk_group\": 2", "\"topk_group\": 1"}}},
    {"lfm2", "lfm2", RMS "rope.freq_base vocab_size shortconv.l_cache", {{"\"rope_theta\": 1000000.0", "\"rope_theta\": 100.0"}}},
    {"lfm2moe", "lfm2moe",
     RMS "shortconv.l_cache expert_count expert_used_count expert_feed_forward_length expert_gating_func leading_dense_block_count",
     {{"\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 3"}}},
    {"internlm2", "internlm2", RMS "rope.freq_base", {{"1000000.0", "1000.0"}}},
    {"mixtral", "llama", RMS "rope.freq_base rope.dimension_count vocab_size expert_count expert_used_count",
     {{"\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 3"}}},
    {"gptoss", "gpt-oss", GPT_OSS,
     {WINDOW, {"\"num_experts_per_tok\": 3", "\"num_experts_per_tok\": 2"}, {"\"factor\": 8.0", "\"factor\": 4.0"}}},
    {"gptoss_mxfp4", "gpt-oss", GPT_OSS, {{NULL, NULL}}},
    {"granitemoe", "granitemoe", GRANITE_MOE,
     {{"\"attention_multiplier\": 0.3", "\"attention_multiplier\": 0.2"}, {"\"num_experts_per_tok\": 3", "\"num_experts_per_tok\": 2"}}},
    {"granitemoeshared", "granitemoe", GRANITE_MOE " expert_shared_feed_forward_length",
     {{"\"residual_multiplier\": 0.4", "\"residual_multiplier\": 0.5"}}},
    {"arcee", "arcee", RMS "rope.freq_base rope.dimension_count vocab_size rope.scaling.type rope.scaling.factor",
     {{"\"factor\": 4.0", "\"factor\": 8.0"}}},
    {"commandr", "command-r", LN "rope.freq_base logit_scale rope.scaling.type", {{"\"logit_scale\": 0.25", "\"logit_scale\": 0.3"}}},
    {"commandrplus", "command-r", LN "rope.freq_base logit_scale rope.scaling.type", {{"8000000.0", "1000.0"}}},
    {"hunyuan", "hunyuan-dense", RMS HEAD "rope.freq_base rope.scaling.type rope.scaling.factor rope.scaling.original_context_length",
     {{"\"alpha\": 1000.0", "\"alpha\": 1.0"}}},
    {"hunyuanmoe", "hunyuan-moe",
     RMS HEAD "rope.freq_base rope.scaling.type expert_count expert_used_count expert_feed_forward_length "
     "expert_shared_feed_forward_length expert_shared_count", {{"\"alpha\": 1000.0", "\"alpha\": 1.0"}}},
    {"ernie45", "ernie4_5", RMS HEAD "rope.freq_base", {{"500000.0", "1000.0"}}},
    {"ernie45moe", "ernie4_5-moe",
     RMS HEAD "rope.freq_base expert_count expert_used_count expert_feed_forward_length expert_shared_count "
     "expert_shared_feed_forward_length interleave_moe_layer_step leading_dense_block_count",
     {{"\"moe_k\": 3", "\"moe_k\": 2"}}},
    {"granitehybrid", "granitehybrid",
     RMS SSM "ssm.group_count expert_shared_feed_forward_length rope.scaling.finetuned attention.scale residual_scale", {MORE}},
    {"granitehybrid-dense", "granitehybrid", RMS SSM "feed_forward_length rope.dimension_count", {{"\"rope_theta\": 10000", "\"rope_theta\": 10"}}},
    {"granite4", "granite",
     RMS "rope.freq_base rope.dimension_count vocab_size attention.scale embedding_scale residual_scale logit_scale",
     {{"\"rope_theta\": 10000", "\"rope_theta\": 10"}, {"\"position_embedding_type\": \"rope\"", "\"position_embedding_type\": \"nope\""}}},
    {"granite4moe", "granitemoe", GRANITE_MOE " expert_shared_feed_forward_length rope.scaling.finetuned",
     {MORE, {"\"position_embedding_type\": \"nope\"", "\"position_embedding_type\": \"rope\""}}},
    {"bamba", "granitehybrid", RMS SSM "ssm.group_count feed_forward_length rope.dimension_count", {{"\"rope_theta\": 10000.0", "\"rope_theta\": 10.0"}}},
    {"nemotron_h", "nemotron_h", RMS LN HEAD SSM "feed_forward_length ssm.group_count vocab_size",
     {{"\"layer_norm_epsilon\": 1e-05", "\"layer_norm_epsilon\": 0.3"}}},
    {"nemotron_h_moe", "nemotron_h_moe",
     RMS HEAD SSM "feed_forward_length expert_count expert_used_count expert_feed_forward_length expert_shared_feed_forward_length "
     "expert_weights_norm expert_weights_scale expert_group_count expert_group_used_count",
     {SCALE, USED, {"\"topk_group\": 2", "\"topk_group\": 1"}}},
    {"nemotron3-super", "nemotron_h_moe", RMS HEAD SSM "moe_latent_size expert_count expert_used_count expert_feed_forward_length", {SCALE, USED}},
    {"bailinghybrid", "bailingmoe3", RMS ROUTER "rope.freq_base rope.dimension_count attention.kv_lora_rank kda.head_dim expert_group_count vocab_size",
     {{"\"num_experts_per_token\": 3", "\"num_experts_per_token\": 2"}, {"\"num_expert_group\": 4", "\"num_expert_group\": 2"},
      {"\"qk_rope_head_dim\": 8", "\"qk_rope_head_dim\": 8,\n \"rope_theta\": 100.0"}}},
    {"bailingmoe3", "bailingmoe3",
     RMS ROUTER "rope.freq_base rope.dimension_count attention.q_lora_rank attention.kv_lora_rank attention.key_length attention.key_length_mla "
     "attention.value_length_mla ssm.conv_kernel kda.head_dim kda.safe_gate kda.gate_lower_bound expert_group_count expert_group_used_count "
     "expert_shared_feed_forward_length vocab_size",
     {USED, SCALE, {"\"kda_lower_bound\": -5.0", "\"kda_lower_bound\": -1.0"}, {"\"rope_theta\": 6000000.0", "\"rope_theta\": 100.0"},
      {"\"topk_group\": 2", "\"topk_group\": 1"}}},
    {"falcon-h1", "falcon-h1", RMS HEAD SSM "rope.freq_base",
     {{"\"embedding_multiplier\": 4.0", "\"embedding_multiplier\": 1.0"}, {"\"key_multiplier\": 0.25", "\"key_multiplier\": 1.0"},
      {"\"attention_out_multiplier\": 2.0", "\"attention_out_multiplier\": 1.0"}, {"\"ssm_out_multiplier\": 2.0", "\"ssm_out_multiplier\": 1.0"},
      {"0.25,\n  2.0,\n  0.5", "0.25,\n  2.0,\n  1.0"}, {"\"lm_head_multiplier\": 8.0", "\"lm_head_multiplier\": 4.0"}}},
    {"jamba", "jamba", RMS SSM "expert_count expert_used_count", {MORE}},
    {"mamba", "mamba", RMS SSM "ssm.dt_b_c_rms", {{"\"layer_norm_epsilon\": 1e-05", "\"layer_norm_epsilon\": 0.3"}}},
    {"falcon-mamba", "mamba", RMS SSM "ssm.dt_b_c_rms", {{"\"falcon_mamba\"", "\"mamba\""}}},
    {"mamba2", "mamba2", RMS SSM "ssm.group_count", {{"\"layer_norm_epsilon\": 1e-05", "\"layer_norm_epsilon\": 0.3"}}},
    {"kimi-linear", "kimi-linear",
     RMS "attention.key_length attention.value_length attention.kv_lora_rank attention.key_length_mla attention.value_length_mla "
     "rope.dimension_count ssm.conv_kernel kda.head_dim expert_count expert_used_count expert_gating_func leading_dense_block_count",
     {{"\"routed_scaling_factor\": 1.5", "\"routed_scaling_factor\": 1.0"}, {"\"num_experts_per_token\": 3", "\"num_experts_per_token\": 2"}}},
    {"qwen3next", "qwen3next", RMS HEAD SSM "ssm.group_count full_attention_interval rope.dimension_count expert_shared_feed_forward_length",
     {{"\"partial_rotary_factor\": 0.25", "\"partial_rotary_factor\": 1.0"}}},
    {"apertus", "apertus", RMS HEAD "rope.freq_base rope.dimension_count vocab_size", {{"\"low_freq_factor\": 1.0", "\"low_freq_factor\": 0.5"}}},
    {"ministral3", "mistral3",
     RMS HEAD "rope.freq_base rope.dimension_count vocab_size rope.scaling.type rope.scaling.factor rope.scaling.original_context_length "
     "rope.scaling.yarn_log_multiplier attention.temperature_scale",
     {{"\"llama_4_scaling_beta\": 0.1", "\"llama_4_scaling_beta\": 0.4"}, {"\"mscale_all_dim\": 1.0", "\"mscale_all_dim\": 0.5"}}},
    {"llama4", "llama4",
     RMS HEAD "rope.freq_base rope.dimension_count vocab_size expert_count expert_used_count expert_feed_forward_length "
     "interleave_moe_layer_step attention.chunk_length attention.temperature_length",
     {{"\"attention_chunk_size\": 10", "\"attention_chunk_size\": 48"}, {"\"floor_scale\": 6", "\"floor_scale\": 64"}}},
    {"qwen2vl", "qwen2vl", RMS "rope.freq_base rope.dimension_sections", {{"\"rope_theta\": 1000000.0", "\"rope_theta\": 1000.0"}}},
    {"qwen3vl", "qwen3vl", RMS HEAD "rope.freq_base rope.dimension_sections n_deepstack_layers",
     {{"\"rope_theta\": 5000000", "\"rope_theta\": 1000"}}},
    {"qwen3omni", "qwen3vlmoe", RMS HEAD "rope.freq_base rope.dimension_sections n_deepstack_layers expert_count expert_used_count",
     {{"\"num_experts_per_tok\": 3", "\"num_experts_per_tok\": 2"}}},
    {"glm4v", "glm4", RMS HEAD "rope.freq_base rope.dimension_count rope.dimension_sections",
     {{"\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 1"}, {"\"rope_theta\": 10000.0", "\"rope_theta\": 100.0"}}},
    {"glm4vmoe", "glm4moe", RMS HEAD ROUTER "rope.freq_base rope.dimension_count rope.dimension_sections", {SCALE, USED}},
    {"exaone45", "exaone4", RMS HEAD "rope.freq_base attention.sliding_window attention.sliding_window_pattern", {WINDOW}},
    {"gemma4unified", "gemma4", RMS HEAD "attention.sliding_window attention.sliding_window_pattern final_logit_softcapping", {WINDOW}},
    {"sarvam", "bailingmoe2", RMS HEAD ROUTER "rope.dimension_count vocab_size", {SCALE, USED}},
    {"qwen3vlmoe", "qwen3vlmoe",
     RMS HEAD "rope.freq_base rope.dimension_sections n_deepstack_layers expert_count expert_used_count expert_feed_forward_length",
     {{"\"num_experts_per_tok\": 3", "\"num_experts_per_tok\": 2"}}},
};
// clang-format on

static void test_dense(void) {
    for (size_t i = 0; i < COUNT_OF(cases); i++) check_case(&cases[i]);
}

/* Checks that converting a micro checkpoint with edits of its config.json is refused. */
static void check_refused(const char *name, const char *const *edit, const char *why) {
    char *dir = xasprintf("tests/golden/archs/%s", name);
    struct convert_opts o = {.src = micro_folder(dir, edit), .out = tmp_path("refused.gguf")};
    struct convert_report r;
    struct err e = {0};
    CHECK_ERR(convert_run(&o, &r, &e), ERR_DATA, why);
    free(dir);
}

/* Checks that unknown activations are refused, even if the table does not mention activations. */
static void test_activations(void) {
    static const char *const edit[] = {"\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"",
                                       NULL};
    static const char *const name[] = {"olmo2", "smollm3", "lfm2", "gptoss"};
    for (size_t i = 0; i < COUNT_OF(name); i++)
        check_refused(name[i], edit, "hidden_act is \"gelu\", not silu");
}

/* Checks that config.json has the width of one shared expert, and the file that of all. */
static void test_shared_experts(void) {
    static const char *const edit[] = {"\"num_shared_experts\": 1", "\"num_shared_experts\": 2",
                                       "\"moe_shared_expert_intermediate_size\": 40",
                                       "\"moe_shared_expert_intermediate_size\": 20", NULL};
    const char *dir = "tests/golden/archs/bailingmoe3";
    struct golden g;
    struct model *m = golden_open(micro_folder(dir, edit), tmp_path("m.gguf"));
    if (golden_load(&g, dir) && m) {
        const struct session_opts o = {.n_ctx = g.n_ids, .isa = kern_isa_best()};
        float *l = golden_run(m, &o, g.ids, g.n_ids, golden_all, NULL, NULL, NULL);
        CHECK(micro_diff(&g, l, g.n_ids, m->hp.d[HD_VOCAB]) <= tol);
        CHECK_EQ_I64((int64_t)gguf_u64_or(m->gguf, "bailingmoe3.expert_shared_count", 0), 2);
        CHECK_EQ_I64(
            (int64_t)gguf_u64_or(m->gguf, "bailingmoe3.expert_shared_feed_forward_length", 0), 40);
        free(l);
    }
    golden_release(&g);
    model_close(m);
}

/* Checks that settings in objects within config.json are refused if the format cannot hold them. */
static void test_nested_settings(void) {
#define TOP_K "\"moe_top_k\": 3"
    static const char *const two[] = {TOP_K, TOP_K ", \"moe_normalize_expert_weights\": 2.0", NULL};
    static const char *const null[] = {TOP_K, TOP_K ", \"moe_normalize_expert_weights\": null",
                                       NULL};
    static const char *const gelu[] = {TOP_K, TOP_K ", \"ffn_act_fn\": {\"name\": \"gelu\"}", NULL};
    static const char *const sparse[] = {"\"sparse_attention_freq\": [\n    0,",
                                         "\"sparse_attention_freq\": [\n    1,", NULL};
    check_refused("dbrx", two, "moe_normalize_expert_weights is 2");
    check_refused("dbrx", null, "moe_normalize_expert_weights is 0 (0: null)");
    check_refused("dbrx", gelu, "ffn_act_fn.name is \"gelu\", not silu");
    check_refused("minimax-m3", sparse, "layer 0: the format requires an indexer");
}

/* Checks that settings which change the computation are refused if the format cannot hold them. */
static void test_fixed_settings(void) {
    static const char *const norm[] = {"\"norm_topk_prob\": true", "\"norm_topk_prob\": false",
                                       NULL};
    static const char *const alpha[] = {"\"swiglu_limit\": 7.0",
                                        "\"swiglu_limit\": 7.0, \"swiglu_alpha\": 1.0", NULL};
    static const char *const relu[] = {"\"hidden_act\": \"gelu_pytorch_tanh\"",
                                       "\"hidden_act\": \"relu\"", NULL};
    check_refused("qwen3omni", norm, "norm_topk_prob is not true");
    check_refused("gptoss", alpha, "swiglu_alpha 1 and swiglu_limit 7 are not 1.702 and 7");
    check_refused("gemma", relu, "hidden_act is \"relu\", not gelu");
}

/* Checks that numbers that are no integers are refused. */
static void test_integers(void) {
    static const char *const shared[] = {"\"shared_intermediate_size\": 40",
                                         "\"shared_intermediate_size\": 1e300", NULL};
    static const char *const group[] = {"\"layer_group_size\": 3", "\"layer_group_size\": -1e300",
                                        NULL};
    static const char *const window[] = {"\"sliding_window_pattern\": 3",
                                         "\"sliding_window_pattern\": 3.5", NULL};
    check_refused("minimax-m3", shared, "shared_intermediate_size is not a valid integer");
    check_refused("bailingmoe3", group, "layer_group_size is not a valid integer");
    check_refused("cohere2moe", window, "sliding_window_pattern is not a valid integer");
}

/* Checks that other kinds of model with a known class are refused. */
static void test_other_kinds(void) {
    static const char *const experts[] = {"\"vocab_size\": 1024",
                                          "\"num_experts\": 8, \"vocab_size\": 1024", NULL};
    static const char *const both_ways[] = {
        "\"vocab_size\": 1024", "\"use_bidirectional_attention\": true, \"vocab_size\": 1024",
        NULL};
    check_refused("minicpm", experts, "MiniCPM with experts is not supported");
    check_refused("gemma3", both_ways, "use_bidirectional_attention");
}

/* Checks the drafts of an MTP block that is stored as the last layer, from the trunk's rows; file:
 * the block has a file of its own. */
static void check_draft(const char *name, bool file) {
    char *dir = xasprintf("tests/golden/archs/%s", name);
    struct err e = {0};
    struct golden g;
    const char *folder = micro_folder(dir, NULL);
    struct model *m = golden_open(folder, tmp_path("m.gguf")), *draft = NULL;
    struct session *s = NULL;
    const bool ok = golden_load(&g, dir) && m;
    if (ok && file)
        CHECK_OK(model_open_draft_file(&draft, golden_mtp_file(folder, tmp_path("mtp.gguf"), "f32"),
                                       m, &e));
    else if (ok)
        CHECK_OK(model_open_draft(&draft, m, &e));
    const struct session_opts o = {.n_ctx = g.n_ids, .isa = kern_isa_best()};
    if (draft) CHECK_OK(session_new(&s, draft, &o, &e));
    if (s) {
        const int64_t n = g.n_ids - 1, d = m->hp.d[HD_EMBD], v = m->hp.d[HD_VOCAB];
        float *hidden = xcalloc((size_t)((n + 1) * d), sizeof *hidden), *mtp = g.logits;
        float *out = xcalloc((size_t)(n * d), sizeof *out),
              *l = xcalloc((size_t)(n * v), sizeof *l);
        free(golden_run(m, &o, g.ids, g.n_ids, golden_all, hidden, NULL, NULL));
        const struct session_pass p = {
            .ids = g.ids + 1, .n = n, .hidden_in = hidden, .hidden = out};
        CHECK_OK(session_pass(s, &p, &e));
        CHECK_OK(session_head(s, out, n, l, &e));
        g.logits = golden_floats(g.st, "mtp", &g.n_logits);
        CHECK_EQ_I64(g.n_logits, n / 4 * (v / 4));
        const double diff = micro_diff(&g, l, n, v);
        printf("%s, drafts%s: max |logit difference| %.3g\n", name, file ? " of a file" : "", diff);
        if (!(diff <= tol)) CHECK_FAIL("%s: drafts, %g is more than %g", name, diff, tol);
        free(mtp);
        free(hidden);
        free(out);
        free(l);
    }
    golden_release(&g);
    session_free(s);
    model_close(draft);
    model_close(m);
    free(dir);
}
static void test_mtp(void) {
    for (int file = 0; file < 2; file++) {
        check_draft("glm4moe-air", file);
        check_draft("glm4moe-lite", file);
        check_draft("hyv3", file);
    }
}

/* Returns the root mean square difference from the recorded logits. */
static double rms_diff(const struct golden *g, const float *l, int64_t n, int64_t v) {
    double sum = 0;
    for (int64_t p = 0; 4 * p + 3 < n; p++)
        for (int64_t i = 0; i < v / 4; i++) {
            const double d =
                (double)l[(4 * p + 3) * v + 4 * i] - (double)g->logits[p * (v / 4) + i];
            sum += d * d;
        }
    return sqrt(sum / (double)g->n_logits);
}
static double with_cache(const struct model *m, const struct golden *g, const char *type) {
    const struct kv_type *t = kv_type_find(type);
    const struct session_opts o = {.n_ctx = g->n_ids, .isa = kern_isa_best(), .kv_k = t, .kv_v = t};
    float *l = golden_run(m, &o, g->ids, g->n_ids, golden_uneven, NULL, NULL, NULL);
    const double d = rms_diff(g, l, g->n_ids, m->hp.d[HD_VOCAB]);
    printf("latent rows of %s: %.3g\n", type, d);
    free(l);
    return d;
}

/* Checks that cache types for latent rows cause only rounding errors: rotated types are as accurate
 * as plain ones with the same number of bits (within 1.5x, to allow for chance). If queries or
 * outputs were not rotated to match, the logits would be completely wrong. */
static void test_latent_types(void) {
    static const char dir[] = "tests/golden/archs/glm4moe-lite";
    struct golden g;
    struct model *m = golden_open(micro_folder(dir, NULL), tmp_path("m.gguf"));
    if (golden_load(&g, dir) && m) {
        const double q8 = with_cache(m, &g, "q8_0-norot"), q4 = with_cache(m, &g, "q4_0-norot");
        CHECK(with_cache(m, &g, "f32") < tol);
        CHECK(with_cache(m, &g, "f16") < q8);
        CHECK(with_cache(m, &g, "q8_0") < 1.5 * q8);
        CHECK(with_cache(m, &g, "tq4") < 1.5 * q4);
        CHECK(with_cache(m, &g, "tq4-qjl") < 1.5 * q4);
        CHECK(q8 < q4 / 4);
    }
    golden_release(&g);
    model_close(m);
}

/* Selected keys in caches of other types. A block whose keys are selected by another block can
 * begin a pass only if the context is short enough for all keys. */
static void test_sparse(void) {
    static const char dir[] = "tests/golden/archs/glm-dsa-sparse";
    struct golden g;
    struct model *m = golden_open(micro_folder(dir, NULL), tmp_path("m.gguf"));
    if (golden_load(&g, dir) && m) {
        CHECK(with_cache(m, &g, "f32") < tol);
        CHECK(with_cache(m, &g, "f16") < 0.01);
        CHECK(with_cache(m, &g, "q8_0") < 1.5 * with_cache(m, &g, "q8_0-norot"));
    }
    for (int64_t n_ctx = 32; m && n_ctx <= 96; n_ctx += 64) {
        struct session *s = NULL;
        struct err e;
        const struct session_opts o = {.n_ctx = n_ctx};
        CHECK_OK(session_new(&s, m, &o, &e));
        for (int b = 1; s && b < 4; b++)
            CHECK_EQ_I64(session_can_begin(s, b), b != 2 || n_ctx == 32);
        session_free(s);
    }
    golden_release(&g);
    model_close(m);
}

/* kv_b_proj of the first layer in FP8, in blocks of 64 x 32, which end within heads. A head's keys
 * are transposed, its values are not. */
enum { HEADS = 4, NOPE = 16, VALUE = 24, RANK = 32, KV_ROWS = HEADS * (NOPE + VALUE) };
static const float kv_scale[3] = {0.5f, 2, -1};
static double kv_b(int64_t row, int64_t col) { /* e4m3: bias 7, subnormals m * 2^-9 */
    const int code = (int)((row * RANK + col) % 127), exp = code >> 3, man = code & 7;
    return (exp ? ldexp(1 + man / 8.0, exp - 7) : ldexp(man, -9)) * (double)kv_scale[row / 64];
}
static void make_fp8(const char *folder) {
    static const int64_t shape[2] = {KV_ROWS, RANK}, blocks[2] = {3, 1};
    static const char name[] = "model.layers.0.self_attn.kv_b_proj.weight";
    char *path = xasprintf("%s/model.safetensors", folder);
    uint8_t code[KV_ROWS * RANK];
    struct st_build b = {0};
    struct st *s = NULL;
    struct err e;
    for (size_t i = 0; i < sizeof code; i++) code[i] = (uint8_t)(i % 127);
    CHECK_OK(st_open(&s, path, &e));
    for (int64_t i = 0; s && i < st_n_tensors(s); i++) {
        const struct st_tensor *t = st_tensor_at(s, i);
        if (strcmp(t->name, name) != 0) st_copy(&b, t->name, t);
    }
    st_add(&b, name, "F8_E4M3", 2, shape, code, sizeof code);
    st_add(&b, "model.layers.0.self_attn.kv_b_proj.weight_scale_inv", "F32", 2, blocks, kv_scale,
           sizeof kv_scale);
    st_close(s);
    st_finish(&b, path);
    free(path);
}
static void test_split_of_fp8(void) {
    static const char *const edit[] = {
        "\"attention_bias\": false",
        "\"attention_bias\": false, \"quantization_config\": {\"quant_method\": \"fp8\", "
        "\"weight_block_size\": [64, 32]}",
        NULL};
    const char *folder = micro_folder("tests/golden/archs/deepseek-v3", edit);
    int64_t n_bad = 0;
    make_fp8(folder);
    struct model *m = golden_open(folder, tmp_path("fp8.gguf"));
    const struct gguf_tensor *k = m ? gguf_find_tensor(m->gguf, "blk.0.attn_k_b.weight") : NULL;
    const struct gguf_tensor *v = m ? gguf_find_tensor(m->gguf, "blk.0.attn_v_b.weight") : NULL;
    CHECK(k && v && k->ne[0] == NOPE && k->ne[1] == RANK && v->ne[0] == RANK && v->ne[1] == VALUE);
    const float *keys = k ? (const float *)(const void *)k->data : NULL;
    const float *values = v ? (const float *)(const void *)v->data : NULL;
    for (int64_t h = 0; h < HEADS && keys && values; h++)
        for (int64_t c = 0; c < RANK; c++) {
            const int64_t row = h * (NOPE + VALUE);
            for (int64_t r = 0; r < NOPE; r++)
                n_bad += (double)keys[(h * RANK + c) * NOPE + r] != kv_b(row + r, c);
            for (int64_t r = 0; r < VALUE; r++)
                n_bad += (double)values[(h * VALUE + r) * RANK + c] != kv_b(row + NOPE + r, c);
        }
    CHECK_EQ_I64(n_bad, 0);
    model_close(m);
}

/* Returns the logits of a file. */
static float *logits_of(const char *path, const struct golden *g) {
    struct model *m = NULL;
    struct err e;
    const struct session_opts o = {.n_ctx = g->n_ids, .isa = kern_isa_best()};
    CHECK_OK(model_open(&m, path, &e));
    float *l = m ? golden_run(m, &o, g->ids, g->n_ids, golden_all, NULL, NULL, NULL) : NULL;
    model_close(m);
    return l;
}

/* Combines the two parts of a block's kv_b_proj. */
static void published(const struct gguf *g, int block, float *m) {
    char *kn = xasprintf("blk.%d.attn_k_b.weight", block);
    char *vn = xasprintf("blk.%d.attn_v_b.weight", block);
    const float *k = (const float *)(const void *)gguf_find_tensor(g, kn)->data;
    const float *v = (const float *)(const void *)gguf_find_tensor(g, vn)->data;
    for (int64_t h = 0; h < HEADS; h++)
        for (int64_t c = 0; c < RANK; c++) {
            float *at = m + h * (NOPE + VALUE) * RANK + c;
            for (int64_t r = 0; r < NOPE; r++) at[r * RANK] = k[(h * RANK + c) * NOPE + r];
            for (int64_t r = 0; r < VALUE; r++)
                at[(NOPE + r) * RANK] = v[(h * VALUE + r) * RANK + c];
        }
    free(kn);
    free(vn);
}
/* Encodes its rows to q as blocks of F32 or Q8_0, and replaces m by the decoded values. */
static void rounded(const struct kern *k, enum qtype type, float *m, uint8_t *q) {
    const uint64_t n = qtype_row_bytes(type, RANK);
    for (uint64_t r = 0; r < KV_ROWS; r++) {
        if (type == QT_F32)
            memcpy(q + r * n, m + r * RANK, n);
        else
            q8_0_row(m + r * RANK, q + r * n, RANK);
        k->op[type].decode(q + r * n, m + r * RANK, RANK);
    }
}
/* Extracts one of the two parts. */
static void part_of(const float *m, bool keys, float *f) {
    for (int64_t h = 0; h < HEADS; h++)
        for (int64_t c = 0; c < RANK; c++) {
            const float *at = m + h * (NOPE + VALUE) * RANK + c;
            for (int64_t r = 0; keys && r < NOPE; r++) f[(h * RANK + c) * NOPE + r] = at[r * RANK];
            for (int64_t r = 0; !keys && r < VALUE; r++)
                f[(h * VALUE + r) * RANK + c] = at[(NOPE + r) * RANK];
        }
}
static void copy_keys(const struct gguf *g, bool now, struct gguf_w *w) {
    static const char *const drop[] = {"head_count_kv", "key_length", "value_length",
                                       "key_length_mla", "value_length_mla"};
    for (int64_t i = 0; i < gguf_n_kv(g); i++) {
        const char *tail = strrchr(gguf_kv_at(g, i)->key, '.');
        bool drops = false;
        for (size_t j = 0; j < COUNT_OF(drop); j++)
            drops = drops || (tail && strcmp(tail + 1, drop[j]) == 0);
        if (now || !drops) gguf_w_copy_kv(w, gguf_kv_at(g, i));
    }
    if (now) return;
    gguf_w_u32(w, "deepseek2.attention.head_count_kv", HEADS);
    gguf_w_u32(w, "deepseek2.attention.key_length", NOPE + 32);
    gguf_w_u32(w, "deepseek2.attention.value_length", VALUE);
}

/* Writes the file like converters of 2024: a layer's keys and values in one tensor of the type,
 * with the sizes of single heads. With `now`, writes the same numbers like today's converters. */
static void write_older(const struct gguf *g, enum qtype type, bool now, const char *path) {
    static const int64_t all[4] = {RANK, KV_ROWS, 1, 1};
    static float m[KV_ROWS * RANK], f[KV_ROWS * RANK];
    static uint8_t q[sizeof m];
    struct kern *k = xcalloc(1, sizeof *k);
    struct gguf_w *w = gguf_w_new();
    struct err e;
    kern_init(k, KERN_REF);
    copy_keys(g, now, w);
    for (int pass = 0; pass < 2; pass++) { /* declarations, data */
        for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
            const struct gguf_tensor *t = gguf_tensor_at(g, i);
            const bool keys = strstr(t->name, "attn_k_b"), values = strstr(t->name, "attn_v_b");
            const int block = keys || values ? atoi(t->name + 4) : 0;
            char *old = xasprintf("blk.%d.attn_kv_b.weight", block);
            if (keys || values) {
                published(g, block, m);
                rounded(k, type, m, q);
                part_of(m, keys, f);
            }
            if (!keys && !values && !pass)
                CHECK_OK(gguf_w_tensor(w, t->name, t->type, t->n_dims, t->ne, &e));
            else if (!keys && !values)
                CHECK_OK(gguf_w_data(w, t->data, t->n_bytes, &e));
            else if (now && !pass)
                CHECK_OK(gguf_w_tensor(w, t->name, QT_F32, 3, t->ne, &e));
            else if (now)
                CHECK_OK(gguf_w_data(w, f, t->n_bytes, &e));
            else if (keys && !pass)
                CHECK_OK(gguf_w_tensor(w, old, type, 2, all, &e));
            else if (keys)
                CHECK_OK(gguf_w_data(w, q, KV_ROWS * qtype_row_bytes(type, RANK), &e));
            free(old);
        }
        if (!pass) CHECK_OK(gguf_w_begin(w, path, true, &e));
    }
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
    free(k);
}

/* Checks that files with attn_kv_b give the same bits as today's files with the same numbers. */
static void test_older_files(void) {
    static const char dir[] = "tests/golden/archs/deepseek-v3";
    static const enum qtype types[] = {QT_F32, QT_Q8_0};
    struct golden g;
    struct model *m = golden_open(micro_folder(dir, NULL), tmp_path("m.gguf"));
    if (golden_load(&g, dir) && m)
        for (int i = 0; i < 2; i++) {
            write_older(m->gguf, types[i], false, tmp_path("old.gguf"));
            write_older(m->gguf, types[i], true, tmp_path("now.gguf"));
            float *old = logits_of(tmp_path("old.gguf"), &g);
            float *now = logits_of(tmp_path("now.gguf"), &g);
            const int64_t v = m->hp.d[HD_VOCAB];
            CHECK(old && now && memcmp(old, now, (size_t)(g.n_ids * v) * sizeof *old) == 0);
            if (old && !i) CHECK(micro_diff(&g, old, g.n_ids, v) <= tol);
            free(old);
            free(now);
        }
    golden_release(&g);
    model_close(m);
}

/* Checks that experts released in MXFP4 keep it, since no type of the recipe is smaller, and that
 * an attention matrix does not. */
static void test_released(void) {
    struct model *m =
        golden_open(micro_folder("tests/golden/archs/gptoss_mxfp4", NULL), tmp_path("m.gguf"));
    struct quantize_opts o = {.recipe = "Q4_K_M"};
    struct gguf *g = NULL;
    struct qplan p = {0};
    struct err e = {0};
    int n = 0;
    CHECK_OK(gguf_open(&g, tmp_path("m.gguf"), 0, &e));
    if (g) CHECK_OK(qplan_make(&p, g, &o, &e));
    for (int64_t i = 0; i < p.n; i++) {
        const bool expert = strstr(p.item[i].name, "_exps.weight") != NULL;
        if (expert) CHECK(p.item[i].from == QT_MXFP4 && p.item[i].type == QT_MXFP4);
        if (strstr(p.item[i].name, "attn_q.weight")) CHECK(p.item[i].type == QT_Q5_0);
        n += expert;
    }
    CHECK_EQ_I64(n, 12);
    CHECK_EQ_I64(p.n_released, 12);
    qplan_release(&p);
    gguf_close(g);
    model_close(m);
}

/* Checks that contexts longer than the graph supports are refused because of a table of positions,
 * and that the maximum is used without an explicit limit. */
static void test_most_context(void) {
    static const struct {
        const char *name;
        const char *edit[3];
        int64_t most;
    } c[] = {{"gpt2", {NULL}, 96}};
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        char *dir = xasprintf("tests/golden/archs/%s", c[i].name);
        struct model *m =
            golden_open(micro_folder(dir, c[i].edit[0] ? c[i].edit : NULL), tmp_path("m.gguf"));
        struct session *s = NULL;
        struct err e = {0};
        struct session_opts o = {.n_ctx = c[i].most + 1};
        if (m)
            CHECK_ERR(session_new(&s, m, &o, &e), ERR_USAGE, "that this model supports: use --ctx");
        o.n_ctx = 0;
        if (m) CHECK_OK(session_new(&s, m, &o, &e));
        session_free(s);
        model_close(m);
        free(dir);
    }
}

int main(void) {
    tmp_make();
    log_set_level(LOG_WARN);
    RUN(test_dense);
    RUN(test_released);
    RUN(test_activations);
    RUN(test_nested_settings);
    RUN(test_fixed_settings);
    RUN(test_integers);
    RUN(test_other_kinds);
    RUN(test_shared_experts);
    RUN(test_mtp);
    RUN(test_latent_types);
    RUN(test_sparse);
    RUN(test_split_of_fp8);
    RUN(test_older_files);
    RUN(test_most_context);
    tmp_remove();
    return check_done();
}
