#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/archs/NAME: random micro checkpoints of many architectures and logits of transformers for them.

A folder has config.json as such models are published, tensors.txt (a line per tensor: name, dtype, shape, mean, spread) and
golden.safetensors: ids, and logits at positions 3, 7, 11, ... of vocabulary entries 0, 4, 8, ... The weights themselves are not
stored: value i of a tensor is mean + spread * u(i) rounded to BF16, where u(i) in [-1, 1) comes from the top 24 bits of output
i of splitmix64 seeded by the FNV-1a hash of the tensor's name; bytes (U8) are mean + those bits modulo spread.
tests/unit/micro.h makes the same ones.

Usage: python3 tests/oracle/archs.py [NAME...]   (from the repository root; torch 2.15, transformers 5.23, numpy)
"""
import copy
import json
import os
import struct
import sys

import numpy as np
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

DIR = "tests/golden/archs"
VOCAB, N_IDS = 1024, 96
U64 = np.uint64


def bits24(name, n):
    h = 0xCBF29CE484222325
    for b in name.encode():
        h = (h ^ b) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    with np.errstate(over="ignore"):
        z = U64(h) + np.arange(1, n + 1, dtype=U64) * U64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> U64(30))) * U64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> U64(27))) * U64(0x94D049BB133111EB)
        z = z ^ (z >> U64(31))
    return z >> U64(40)


def uniform(name, n):
    return bits24(name, n).astype(np.float64) * 2.0**-23 - 1


def bf16(x):
    u = x.astype(np.float32).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


def weights(name, shape, dtype, mean, spread):
    n = int(np.prod(shape))
    if dtype == "U8":
        return (mean + bits24(name, n) % U64(spread)).astype(np.uint8).reshape(shape)
    return bf16((mean + spread * uniform(name, n)).astype(np.float32)).reshape(shape)


def spread_of(name, shape, extra):
    """Mean and spread of random weights: norms around 1 (0 if the model adds 1), matrices that keep the size of their
    input."""
    plus_one = extra.get("plus_one", False)
    for part, said in extra.get("spread", {}).items():
        if part in name:
            return said
    if "norm" in name and name.endswith("weight"):
        return (0.0 if plus_one else 1.0), 0.25
    if name.endswith("bias"):
        return 0.0, 0.25
    if "embed" in name:
        return 0.0, 0.75
    return 0.0, round(2.0 / shape[-1] ** 0.5, 4)


def write_st(path, tensors):
    header, blob = {}, b""
    for name, (dtype, a) in tensors.items():
        raw = a.tobytes()
        header[name] = {"dtype": dtype, "shape": list(a.shape), "data_offsets": [len(blob), len(blob) + len(raw)]}
        blob += raw
    h = json.dumps(header, separators=(",", ":")).encode()
    h += b" " * (-len(h) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(h)) + h + blob)


BASE = dict(vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=512, tie_word_embeddings=False, bos_token_id=1010, eos_token_id=1012, pad_token_id=None,
            torch_dtype="bfloat16")  # fmt: skip


def cfg(cls, model_type, **kw):
    return {"architectures": [cls], "model_type": model_type, **BASE, **kw}


GPT_OSS = cfg("GptOssForCausalLM", "gpt_oss", head_dim=16, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=150000.0,
              sliding_window=16, num_local_experts=6, num_experts_per_tok=3, experts_per_token=3, swiglu_limit=7.0,
              attention_bias=True, layer_types=["sliding_attention", "full_attention"] * 2,
              rope_scaling={"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64, "beta_fast": 32.0,
                            "beta_slow": 1.0, "truncate": False})  # fmt: skip
GRANITE_MOE = dict(hidden_act="silu", rms_norm_eps=1e-6, rope_theta=1e4, attention_multiplier=0.3, embedding_multiplier=3.0,
                   residual_multiplier=0.4, logits_scaling=4.0, attention_bias=False, num_local_experts=6, num_experts_per_tok=3,
                   tie_word_embeddings=True)  # fmt: skip
GRANITE_MOE_NAMES = dict(fused=True, names=[("experts.gate_up_proj", "input_linear.weight"), ("experts.down_proj", "output_linear.weight"),
                                               ("router.weight", "router.layer.weight")])  # fmt: skip
COHERE = dict(hidden_act="silu", layer_norm_eps=1e-5, rope_theta=8000000.0, logit_scale=0.25, attention_bias=False,
              tie_word_embeddings=True)  # fmt: skip
MINISTRAL = cfg("Ministral3ForCausalLM", "ministral3", head_dim=16, hidden_act="silu", rms_norm_eps=1e-5, sliding_window=None,
                tie_word_embeddings=True,
                rope_parameters={"rope_type": "yarn", "type": "yarn", "rope_theta": 1e6, "factor": 16.0, "beta_fast": 32.0, "beta_slow": 1.0,
                                 "original_max_position_embeddings": 32, "mscale": 1.0, "mscale_all_dim": 1.0,
                                 "llama_4_scaling_beta": 0.1})  # fmt: skip
LLAMA4 = cfg("Llama4ForCausalLM", "llama4_text", head_dim=16, num_hidden_layers=5, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=500000.0,
             intermediate_size=40, intermediate_size_mlp=96, num_local_experts=6, num_experts_per_tok=1, interleave_moe_layer_step=2,
             attention_chunk_size=10, attn_temperature_tuning=True, attn_scale=0.1, floor_scale=6, use_qk_norm=True, attention_bias=False,
             no_rope_layers=[1, 1, 1, 0, 1],
             rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0,
                           "original_max_position_embeddings": 64})  # fmt: skip
HUNYUAN = dict(head_dim=16, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, attention_bias=False, use_qk_norm=True,
               rope_scaling={"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
                             "mscale_all_dim": 1.0}, tie_word_embeddings=True)  # fmt: skip
ERNIE = dict(head_dim=16, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=500000.0, use_bias=False)

SLIDES = ["full_attention"] + ["sliding_attention"] * 3
MIMO2 = cfg("MiMoV2FlashForCausalLM", "mimo_v2_flash", head_dim=24, v_head_dim=16, hidden_act="silu", layernorm_epsilon=1e-5, attention_bias=False,
            n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=24, n_shared_experts=None, scoring_func="sigmoid", n_group=1,
            topk_group=1, norm_topk_prob=True, routed_scaling_factor=None, attention_value_scale=0.707, partial_rotary_factor=0.334,
            rope_theta=5000000.0, swa_rope_theta=10000.0, sliding_window_size=15, hybrid_layer_pattern=[0, 1, 1, 1], moe_layer_freq=[0, 1, 1, 1],
            swa_num_attention_heads=4, swa_num_key_value_heads=4, swa_head_dim=24, swa_v_head_dim=16, add_swa_attention_sink_bias=True,
            add_full_attention_sink_bias=False)  # fmt: skip
STEP = dict(head_dim=16, num_attention_groups=2, hidden_act="silu", rms_norm_eps=1e-5, sliding_window=16, layer_types=SLIDES,
            attention_other_setting={"attention_type": "sliding_attention", "num_attention_heads": 6, "num_attention_groups": 2, "head_dim": 16},
            rope_theta=[500000.0, 10000.0, 10000.0, 10000.0], partial_rotary_factors=[0.5, 1.0, 1.0, 1.0],
            rope_scaling={"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 32.0,
                          "original_max_position_embeddings": 128},
            moe_num_experts=8, moe_top_k=3, moe_intermediate_size=24, share_expert_dim=40, moe_layers_enum="1,2,3", moe_router_scaling_factor=1.5,
            swiglu_limits=[0.0, 0.0, 0.5, 0.7], swiglu_limits_shared=[0.0, 0.0, 0.0, 0.6], use_moe_router_bias=True, moe_router_activation="sigmoid",
            use_head_wise_attn_gate=True)  # fmt: skip
STEP_NAMES = [("model.language_model.", "model."), ("mlp.gate.e_score_correction_bias", "moe.router_bias"), ("mlp.gate.weight", "moe.gate.weight"),
              ("mlp.shared_experts", "share_expert"), ("mlp.experts.", "moe.")]  # fmt: skip


def vl(cls, model_type, text_type, tower, **kw):
    text = {**BASE, "model_type": text_type, "hidden_act": "silu", "rms_norm_eps": 1e-6, **kw}
    return {"architectures": [cls], "model_type": model_type, "tie_word_embeddings": False, "image_token_id": 1001,
            "video_token_id": 1002, "vision_start_token_id": 1003, "text_config": text, "vision_config": tower}  # fmt: skip


QWEN3_TOWER = dict(depth=2, hidden_size=32, num_heads=2, intermediate_size=32, out_hidden_size=64, num_position_embeddings=16,
                   deepstack_visual_indexes=[0, 1])  # fmt: skip
QWEN3_VL = dict(rope_theta=5000000, attention_bias=False,
                rope_scaling={"rope_type": "default", "mrope_interleaved": True, "mrope_section": [4, 2, 2]})  # fmt: skip
GLM_TOWER = dict(depth=1, hidden_size=32, intermediate_size=32, num_heads=2, out_hidden_size=64, image_size=28)
OMNI = {"architectures": ["Qwen3OmniMoeForConditionalGeneration"], "model_type": "qwen3_omni_moe", "thinker_config": {
    "model_type": "qwen3_omni_moe_thinker", "tie_word_embeddings": False,
    "text_config": {**BASE, "model_type": "qwen3_omni_moe_text", "head_dim": 16, "hidden_act": "silu", "rms_norm_eps": 1e-6, "num_experts": 6,
                    "num_experts_per_tok": 3, "moe_intermediate_size": 40, "decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True, **QWEN3_VL},
    "vision_config": {**QWEN3_TOWER, "deepstack_visual_indexes": [0, 1]},
    "audio_config": {"d_model": 32, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 32, "num_mel_bins": 16, "output_dim": 64,
                     "downsample_hidden_size": 8}}}  # fmt: skip
UNIFIED = {"architectures": ["Gemma4UnifiedForConditionalGeneration"], "model_type": "gemma4_unified", "tie_word_embeddings": True,
           "text_config": {**{k: v for k, v in BASE.items() if k != "tie_word_embeddings"}, "model_type": "gemma4_unified_text", "head_dim": 16, "global_head_dim": 32,
                           "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "sliding_window": 16, "num_global_key_value_heads": 1,
                           "attention_k_eq_v": True, "num_kv_shared_layers": 0, "final_logit_softcapping": 30.0, "tie_word_embeddings": True, "pad_token_id": 1,
                           "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
                           "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                                               "full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25}}},
           "vision_config": {"model_type": "gemma4_unified_vision", "mm_embed_dim": 32, "output_proj_dims": 32, "mm_posemb_size": 16},
           "audio_config": {"model_type": "gemma4_unified_audio", "audio_embed_dim": 32}}  # fmt: skip
W123 = [("mlp.experts", "block_sparse_moe.experts"), ("mlp.", "block_sparse_moe."), ("gate_proj", "w1"), ("up_proj", "w3"),
           ("down_proj", "w2")]  # fmt: skip
BAILING = [("model.embed_tokens", "model.word_embeddings"), ("self_attn.qkv_proj", "attention.query_key_value"),
           ("self_attn.o_proj", "attention.dense"), ("self_attn.q_norm", "attention.query_layernorm"),
           ("self_attn.k_norm", "attention.key_layernorm"), ("e_score_correction_bias", "expert_bias")]  # fmt: skip
# Experts as in DeepSeek V3 and the architectures derived from it.
LING = dict(num_experts_per_tok=3, moe_intermediate_size=24, first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=1.5)
MOE = dict(n_routed_experts=8, n_shared_experts=2, scoring_func="sigmoid", **LING)
# As in V2's configs: no bias, and the weights of the chosen experts are not normalized.
V2 = dict(config=dict(scoring_func="softmax", norm_topk_prob=False))

MLA = dict(hidden_act="silu", rms_norm_eps=1e-6, rope_theta=10000.0, kv_lora_rank=32, qk_rope_head_dim=32, qk_nope_head_dim=16,
           v_head_dim=24, num_key_value_heads=4, attention_bias=False, moe_layer_freq=1)  # fmt: skip
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 32, "beta_slow": 1}

LONG = [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0]
SHORT = [1.0, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6]

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
MINICPM = dict(embedding_multiplier=12.0, residual_multiplier=1.4 / 4**0.5, logits_scaling=2.0, attention_multiplier=0.25)
EXAONE = [("model.embed_tokens", "transformer.wte"), ("model.norm", "transformer.ln_f"), ("model.layers.", "transformer.h."), ("self_attn.o_proj", "self_attn.out_proj"),
          ("self_attn", "attn.attention"), ("input_layernorm", "ln_1"), ("post_attention_layernorm", "ln_2"), ("mlp.gate_proj", "mlp.c_fc_0"),
          ("mlp.up_proj", "mlp.c_fc_1"), ("mlp.down_proj", "mlp.c_proj")]  # fmt: skip

M3 = cfg("MiniMaxM3VLForCausalLM", "minimax_m3_vl_text", head_dim=24, hidden_act="swigluoai", rms_norm_eps=1e-6, rope_theta=5e6, rotary_dim=8, intermediate_size=40,
         dense_intermediate_size=96, shared_intermediate_size=40, n_shared_experts=1, num_local_experts=6, num_experts_per_tok=2, routed_scaling_factor=1.5,
         scoring_func="sigmoid", swiglu_alpha=1.702, swiglu_limit=7.0, use_qk_norm=True, qk_norm_type="per_head", moe_layer_freq=[0, 1, 1, 1],
         sparse_attention_config=dict(use_sparse_attention=True, sparse_index_dim=16, sparse_num_index_heads=2, sparse_topk_blocks=3, sparse_block_size=8,
                                      sparse_local_block=1, sparse_attention_freq=[0, 1, 1, 1]))  # fmt: skip
# transformers does not read rotary_dim
M3_FLAT = dict(rope_parameters={"rope_type": "default", "rope_theta": 5e6, "partial_rotary_factor": 1 / 3}, index_n_heads=2, index_head_dim=16, index_topk_blocks=3, index_block_size=8, index_local_blocks=1,
               layer_types=["full_attention"] + ["minimax_m3_sparse"] * 3, mlp_layer_types=["dense"] + ["sparse"] * 3)
M3_EXPERTS = [(f"experts.{e}.{a}_proj", f"experts.{e}.{b}") for e in range(6) for a, b in (("gate", "w1"), ("up", "w3"), ("down", "w2"))]
MISTRAL4 = cfg("Mistral4ForCausalLM", "mistral4", **{**{k: v for k, v in MLA.items() if k not in ("rope_theta", "moe_layer_freq")}, "qk_nope_head_dim": 32},
               q_lora_rank=40, n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=40, first_k_dense_replace=0,
               norm_topk_prob=True, routed_scaling_factor=1.0, n_group=1, topk_group=1, rope_interleave=True,
               rope_parameters={"rope_type": "yarn", "type": "yarn", "rope_theta": 10000.0, "factor": 16.0, "original_max_position_embeddings": 32,
                                "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1})  # fmt: skip

# transformers rounds the factors of embeddings to BF16; these sizes make them exact.
GEMMA3N = cfg("Gemma3nForCausalLM", "gemma3n_text", head_dim=16, num_hidden_layers=6, intermediate_size=[96] * 6, hidden_activation="gelu_pytorch_tanh",
              rms_norm_eps=1e-6, sliding_window=16, layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2,
              rope_theta=1e6, rope_local_base_freq=1e4, final_logit_softcapping=8.0, activation_sparsity_pattern=[0.8, 0.8, 0.0, 0.0, 0.0, 0.0],
              num_kv_shared_layers=2, laurel_rank=8, altup_num_inputs=4, altup_active_idx=0, altup_correct_scale=True, altup_coef_clip=120.0,
              hidden_size_per_layer_input=16, vocab_size_per_layer_input=1008, attention_bias=False, tie_word_embeddings=True)  # fmt: skip

MODELS = {
    "gemma": (cfg("GemmaForCausalLM", "gemma", head_dim=24, hidden_act="gelu_pytorch_tanh", hidden_activation="gelu_pytorch_tanh",
                  rms_norm_eps=1e-6, tie_word_embeddings=True), dict(plus_one=True)),
    "gemma2": (cfg("Gemma2ForCausalLM", "gemma2", head_dim=16, hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6,
                   sliding_window=16, attn_logit_softcapping=5.0, final_logit_softcapping=8.0, query_pre_attn_scalar=16,
                   tie_word_embeddings=True), dict(plus_one=True)),
    "gemma3": (cfg("Gemma3ForCausalLM", "gemma3_text", head_dim=16, num_hidden_layers=7, hidden_activation="gelu_pytorch_tanh",
                   rms_norm_eps=1e-6, sliding_window=16, sliding_window_pattern=6, rope_theta=1e6, rope_local_base_freq=1e4,
                   query_pre_attn_scalar=16, rope_scaling={"rope_type": "linear", "factor": 8.0}, tie_word_embeddings=True),
               dict(plus_one=True)),
    "gemma3n": ({"architectures": ["Gemma3nForConditionalGeneration"], "model_type": "gemma3n", "tie_word_embeddings": True,
                 "text_config": {k: v for k, v in GEMMA3N.items() if k != "architectures"}},
                dict(names=[("model.", "model.language_model.")], oracle=GEMMA3N,
                     spread={"correct_output_scale": (1.0, 0.25), "prediction_coefs": (0.0, 0.25), "correction_coefs": (0.0, 0.25)})),
    "granite": (cfg("GraniteForCausalLM", "granite", hidden_act="silu", rms_norm_eps=1e-5, rope_theta=1e4, attention_multiplier=0.3,
                    embedding_multiplier=3.0, residual_multiplier=0.4, logits_scaling=4.0, attention_bias=False, mlp_bias=False,
                    tie_word_embeddings=True), {}),
    "olmo2": (cfg("Olmo2ForCausalLM", "olmo2", hidden_act="silu", rms_norm_eps=1e-6, rope_theta=5e5, attention_bias=False), {}),
    "olmo3": (cfg("Olmo3ForCausalLM", "olmo3", hidden_act="silu", rms_norm_eps=1e-6, rope_theta=5e5, attention_bias=False,
                  sliding_window=16, layer_types=["sliding_attention"] * 3 + ["full_attention"],
                  rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 32.0,
                                "beta_slow": 1.0, "attention_factor": 1.2}), {}),
    "smollm3": (cfg("SmolLM3ForCausalLM", "smollm3", hidden_act="silu", rms_norm_eps=1e-6, rope_theta=1e5, attention_bias=False,
                    mlp_bias=False, no_rope_layer_interval=4, no_rope_layers=[1, 1, 1, 0], use_sliding_window=False,
                    sliding_window=None, tie_word_embeddings=True), {}),
    "starcoder2": (cfg("Starcoder2ForCausalLM", "starcoder2", hidden_act="gelu_pytorch_tanh", norm_epsilon=1e-5, rope_theta=1e5,
                       use_bias=True, sliding_window=None, tie_word_embeddings=True), {}),
    "starcoder2win": (cfg("Starcoder2ForCausalLM", "starcoder2", hidden_act="gelu_pytorch_tanh", norm_epsilon=1e-5, rope_theta=1e5,
                          use_bias=True, sliding_window=16, tie_word_embeddings=True), {}),
    "llamabias": (cfg("LlamaForCausalLM", "llama", head_dim=24, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=1e4, attention_bias=True,
                      mlp_bias=True), {}),
    "mistralwin": (cfg("MistralForCausalLM", "mistral", hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, sliding_window=16), {}),
    "stablelm": (cfg("StableLmForCausalLM", "stablelm", hidden_act="silu", layer_norm_eps=1e-5, partial_rotary_factor=0.25,
                     use_qkv_bias=True, qk_layernorm=False, use_parallel_residual=False, rope_theta=10000), {}),
    "stablelm12b": (cfg("StableLmForCausalLM", "stablelm", hidden_act="silu", layer_norm_eps=1e-5, partial_rotary_factor=0.25,
                        use_qkv_bias=False, qk_layernorm=True, use_parallel_residual=True, rope_theta=10000), {}),
    "phi3": (cfg("Phi3ForCausalLM", "phi3", hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, sliding_window=None,
                 original_max_position_embeddings=512, partial_rotary_factor=0.75), {}),
    "phi3long": (cfg("Phi3ForCausalLM", "phi3", hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, sliding_window=None,
                     original_max_position_embeddings=32,
                     rope_scaling={"type": "longrope", "long_factor": LONG, "short_factor": SHORT}), {}),
    # The code in transformers always uses the divisors for short contexts, the model's own code those for its length.
    # So the reference gets the long ones as its short ones.
    "phimoe": (cfg("PhiMoEForCausalLM", "phimoe", hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, attention_bias=True,
                   lm_head_bias=True, num_local_experts=6, num_experts_per_tok=2, router_jitter_noise=0.01, input_jitter_noise=0.01,
                   sliding_window=40, original_max_position_embeddings=32,
                   rope_scaling={"type": "longrope", "long_factor": LONG, "short_factor": SHORT, "long_mscale": 1.25, "short_mscale": 1.25,
                                 "original_max_position_embeddings": 32}),
               dict(names=[(".mlp.", ".block_sparse_moe."), ("router.weight", "gate.weight"), ("gate_proj", "w1"), ("up_proj", "w3"), ("down_proj", "w2")],
                    oracle=dict(rope_scaling={"rope_type": "longrope", "long_factor": LONG, "short_factor": LONG, "long_mscale": 1.25, "short_mscale": 1.25,
                                              "original_max_position_embeddings": 32}))),
    "glm4": (cfg("Glm4ForCausalLM", "glm4", head_dim=16, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0,
                 attention_bias=True, partial_rotary_factor=0.5), {}),
    "exaone4": (cfg("Exaone4ForCausalLM", "exaone4", head_dim=16, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=1e6,
                    sliding_window=16, sliding_window_pattern="LLLG",
                    layer_types=["sliding_attention"] * 3 + ["full_attention"]), {}),
    "exaonemoe": (cfg("ExaoneMoeForCausalLM", "exaone_moe", head_dim=16, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=1e6,
                      sliding_window=16, sliding_window_pattern="LLLG", layer_types=["sliding_attention"] * 3 + ["full_attention"],
                      num_experts=8, num_shared_experts=1, scoring_func="sigmoid", **LING, n_group=4, topk_group=2,
                      mlp_layer_types=["dense"] + ["sparse"] * 3),
                  dict(names=[("mlp.gate.e_score", "mlp.e_score")])),
    "hyv3": (cfg("HYV3ForCausalLM", "hy_v3", head_dim=24, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=11158840.0, attention_bias=False,
                 mlp_bias=False, num_experts=8, num_experts_per_tok=3, num_shared_experts=2, moe_intermediate_size=24, router_scaling_factor=1.5,
                 route_norm=True, first_k_dense_replace=1, enable_moe_fp32_combine=False, num_nextn_predict_layers=1),
             dict(drafts=True, names=[("mlp.gate.weight", "mlp.router.gate.weight"), ("mlp.e_score_correction_bias", "mlp.expert_bias"),
                                      ("mlp.shared_experts", "mlp.shared_mlp"), ("shared_head.norm", "final_layernorm")])),
    "laguna": (cfg("LagunaForCausalLM", "laguna", head_dim=16, hidden_act="silu", rms_norm_eps=1e-6, sliding_window=16, layer_types=SLIDES,
                   attention_bias=False, gating=True, num_attention_heads_per_layer=[4, 6, 6, 6], num_experts=8, num_experts_per_tok=3,
                   moe_intermediate_size=24, shared_expert_intermediate_size=40, moe_routed_scaling_factor=1.5, mlp_layer_types=["dense"] + ["sparse"] * 3,
                   rope_parameters={"full_attention": {"rope_type": "yarn", "rope_theta": 500000.0, "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
                                                       "original_max_position_embeddings": 64, "attention_factor": 1.0, "partial_rotary_factor": 0.5},
                                    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}}),
               dict(names=[("mlp.gate.e_score", "mlp.experts.e_score"), ("mlp.shared_experts", "mlp.shared_expert")])),
    "laguna-wide": (cfg("LagunaForCausalLM", "laguna", head_dim=16, hidden_act="silu", rms_norm_eps=1e-6, sliding_window=16, layer_types=SLIDES,
                        attention_bias=False, gating="per-element", num_experts=8, num_experts_per_tok=3, moe_intermediate_size=24,
                        shared_expert_intermediate_size=40, rope_parameters={
                            "full_attention": {"rope_type": "default", "rope_theta": 500000.0, "partial_rotary_factor": 0.5},
                            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}}),
                    dict(names=[("mlp.gate.e_score", "mlp.experts.e_score"), ("mlp.shared_experts", "mlp.shared_expert")])),
    "mimo2": (MIMO2, dict(names=[("self_attn.sinks", "self_attn.attention_sink_bias")],
                          oracle=dict(rms_norm_eps=1e-5, layer_types=SLIDES, mlp_layer_types=["dense"] + ["sparse"] * 3, rope_parameters={
                              "full_attention": {"rope_type": "default", "rope_theta": 5000000.0, "partial_rotary_factor": 0.334},
                              "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.334}}))),
    "step35": (cfg("Step3p5ForCausalLM", "step3p5", **STEP),
               dict(step=True, plus_one=True, names=STEP_NAMES, cls="Step3p7ForConditionalGeneration",
                    oracle=dict(architectures=["Step3p7ForConditionalGeneration"], model_type="step3p7", vision_config=dict(
                        hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2),
                        text_config={**BASE, **STEP, "model_type": "step3p5", "pad_token_id": 1}))),
    "cohere2moe": (cfg("Cohere2MoeForCausalLM", "cohere2_moe", head_dim=16, num_experts=6, num_experts_per_tok=3, num_shared_experts=1,
                       shared_expert_combination_strategy="average", expert_selection_fn="sigmoid", norm_topk_prob=True, first_k_dense_replace=1,
                       prefix_dense_intermediate_size=80, prefix_dense_sliding_window_pattern=1, sliding_window_pattern=3, sliding_window=16,
                       **{**COHERE, "layer_norm_eps": 1e-5, "rms_norm_eps": None}), {}),
    "olmo": (cfg("OlmoForCausalLM", "olmo", hidden_act="silu", rope_theta=10000.0, attention_bias=False, clip_qkv=1.0), {}),
    "gptneox": (cfg("GPTNeoXForCausalLM", "gpt_neox", hidden_act="gelu", layer_norm_eps=1e-5, rotary_pct=0.25, rotary_emb_base=10000,
                    use_parallel_residual=True), dict(oracle=dict(partial_rotary_factor=0.25))),
    "falcon": (cfg("FalconForCausalLM", "falcon", layer_norm_epsilon=1e-5, alibi=False, bias=False, multi_query=True, parallel_attn=True,
                   new_decoder_architecture=False, ffn_hidden_size=96), dict(spread={".ln_": (1.0, 0.25)})),
    "falcon40b": (cfg("FalconForCausalLM", "falcon", layer_norm_epsilon=1e-5, alibi=False, bias=False, multi_query=True, parallel_attn=True,
                      new_decoder_architecture=True, num_kv_heads=2), dict(spread={".ln_": (1.0, 0.25)})),
    "gpt2": ({k: v for k, v in cfg("GPT2LMHeadModel", "gpt2", n_embd=64, n_layer=4, n_head=4, n_positions=96, n_inner=None, layer_norm_epsilon=1e-5,
                                   activation_function="gelu_new", tie_word_embeddings=True).items() if k not in (
                                       "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
                                       "max_position_embeddings")}, dict(names=[("transformer.", "")], spread={".ln_": (1.0, 0.25), "ln_f": (1.0, 0.25)})),
    "nemotron": (cfg("NemotronForCausalLM", "nemotron", hidden_act="relu2", norm_eps=1e-5, rope_theta=10000.0, partial_rotary_factor=0.5,
                     attention_bias=False, mlp_bias=False), dict(plus_one=True)),
    "jais2": (cfg("Jais2ForCausalLM", "jais2", hidden_act="relu2", layer_norm_eps=1e-5, rope_theta=500000.0, attention_bias=True, mlp_bias=True,
                  head_dim=16), {}),
    "phi2": (cfg("PhiForCausalLM", "phi", hidden_act="gelu_new", layer_norm_eps=1e-5, rope_theta=10000.0, partial_rotary_factor=0.5,
                 qk_layernorm=False), {}),
    "mellum": (cfg("MellumForCausalLM", "mellum", head_dim=16, hidden_act="silu", rms_norm_eps=1e-6, sliding_window=16, attention_bias=False,
                   layer_types=["sliding_attention"] * 3 + ["full_attention"], mlp_layer_types=["sparse"] * 4, num_experts=6,
                   num_experts_per_tok=2, moe_intermediate_size=40, norm_topk_prob=True,
                   rope_parameters={"full_attention": {"rope_type": "yarn", "rope_theta": 500000.0, "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
                                                       "original_max_position_embeddings": 64},
                                    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}), {}),
    "seed_oss": (cfg("SeedOssForCausalLM", "seed_oss", head_dim=24, hidden_act="silu", rms_norm_eps=1e-6, rope_theta=1e7,
                     attention_bias=True, attention_out_bias=False, mlp_bias=False), {}),
    "cohere2": (cfg("Cohere2ForCausalLM", "cohere2", head_dim=16, hidden_act="silu", layer_norm_eps=1e-5, rope_theta=50000.0,
                    sliding_window=16, logit_scale=0.25, rotary_pct=1.0, use_qk_norm=False, attention_bias=False,
                    use_parallel_block=True, layer_types=["sliding_attention"] * 3 + ["full_attention"],
                    tie_word_embeddings=True), {}),
    "qwen2moe": (cfg("Qwen2MoeForCausalLM", "qwen2_moe", hidden_act="silu", rms_norm_eps=1e-6, rope_theta=1e6, num_experts=6,
                     num_experts_per_tok=2, moe_intermediate_size=40, shared_expert_intermediate_size=72, norm_topk_prob=False,
                     decoder_sparse_step=1, use_sliding_window=False, qkv_bias=True), {}),
    "olmoe": (cfg("OlmoeForCausalLM", "olmoe", hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, num_experts=6,
                  num_experts_per_tok=2, norm_topk_prob=False, attention_bias=False, clip_qkv=None), {}),
    "glm4moe": (cfg("Glm4MoeForCausalLM", "glm4_moe", head_dim=16, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=1e6,
                    partial_rotary_factor=0.5, attention_bias=True, use_qk_norm=True, **MOE, n_group=4, topk_group=2), {}),
    "glm4moe-air": (cfg("Glm4MoeForCausalLM", "glm4_moe", head_dim=16, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=1e6,
                        partial_rotary_factor=0.5, attention_bias=True, use_qk_norm=False, **MOE, n_group=1, topk_group=1,
                        num_nextn_predict_layers=1), dict(drafts=True)),
    # As transformers saves it: without partial_rotary_factor, whole heads rotate.
    "solar": ({k: v for k, v in cfg("SolarOpenForCausalLM", "solar_open", head_dim=16, hidden_act="silu", rms_norm_eps=1e-5, attention_bias=False,
                                    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}, moe_intermediate_size=24, n_routed_experts=8,
                                    n_shared_experts=1, num_experts_per_tok=3, n_group=1, topk_group=1, norm_topk_prob=True,
                                    routed_scaling_factor=1.5).items() if k != "intermediate_size"}, {}),
    "dots1": (cfg("Dots1ForCausalLM", "dots1", head_dim=16, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=1e7, attention_bias=False,
                  sliding_window=None, max_window_layers=4, **MOE, n_group=1, topk_group=1), {}),
    # Contexts of four times what the indexer selects; each key head selects its own blocks.
    "dbrx": ({"architectures": ["DbrxForCausalLM"], "model_type": "dbrx", "vocab_size": VOCAB, "d_model": 64, "n_heads": 4, "n_layers": 4, "max_seq_len": 512,
              "tie_word_embeddings": False, "bos_token_id": 1010, "eos_token_id": 1012, "torch_dtype": "bfloat16",
              "attn_config": {"model_type": "", "clip_qkv": 1.0, "kv_n_heads": 2, "rope_theta": 500000},
              "ffn_config": {"model_type": "", "ffn_hidden_size": 40, "moe_jitter_eps": 0.01, "moe_loss_weight": 0.05, "moe_num_experts": 6, "moe_top_k": 3}},
             dict(oracle=dict(architectures=["DbrxForCausalLM"], model_type="dbrx", vocab_size=VOCAB, d_model=64, n_heads=4, n_layers=4, max_seq_len=512,
                              tie_word_embeddings=False, attn_config=dict(clip_qkv=1.0, kv_n_heads=2, rope_theta=500000), pad_token_id=None,
                              rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
                              ffn_config=dict(ffn_hidden_size=40, moe_num_experts=6, moe_top_k=3)), spread={".attn.": (0.0, 0.25)})),
    "minimax-m3": ({"architectures": ["MiniMaxM3SparseForConditionalGeneration"], "model_type": "minimax_m3_vl", "tie_word_embeddings": False,
                    "text_config": {k: v for k, v in M3.items() if k != "architectures"}},
                   dict(plus_one=True, split_dense=True, oracle={**{k: v for k, v in M3.items() if k != "sparse_attention_config"}, **M3_FLAT},
                        names=[("model.", "language_model.model."), ("lm_head", "language_model.lm_head"), ("mlp.gate.e_score", "block_sparse_moe.e_score"),
                               ("mlp.experts", "block_sparse_moe.experts"), ("mlp.shared_experts", "block_sparse_moe.shared_experts"),
                               ("mlp.gate.weight", "block_sparse_moe.gate.weight"), ("indexer.", "index_"), *M3_EXPERTS])),
    "minimax-m2": (cfg("MiniMaxM2ForCausalLM", "minimax_m2", head_dim=24, hidden_act="silu", rms_norm_eps=1e-6, rope_theta=5e6,
                       rotary_dim=16, num_local_experts=8, num_experts_per_tok=2, scoring_func="sigmoid", use_qk_norm=True,
                       qk_norm_type="per_layer"), dict(names=W123)),
    "afmoe": (cfg("AfmoeForCausalLM", "afmoe", head_dim=16, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, sliding_window=16,
                  layer_types=["sliding_attention"] * 3 + ["full_attention"], global_attn_every_n_layers=4, mup_enabled=True,
                  num_experts=8, num_experts_per_tok=3, num_shared_experts=1, num_dense_layers=1, moe_intermediate_size=24,
                  route_scale=1.5, route_norm=True, score_func="sigmoid"), {}),
    "deepseek-v2": (cfg("DeepseekV2ForCausalLM", "deepseek_v2", **{**MLA, **MOE}, q_lora_rank=None, topk_method="greedy",
                        n_group=1, topk_group=1, rope_scaling={**YARN, "mscale": 0.707, "mscale_all_dim": 0.707}), V2),
    "deepseek-v2-groups": (cfg("DeepseekV2ForCausalLM", "deepseek_v2", **{**MLA, **MOE}, q_lora_rank=40,
                               topk_method="group_limited_greedy", n_group=4, topk_group=2), V2),
    "deepseek-v3": (cfg("DeepseekV3ForCausalLM", "deepseek_v3", **{**MLA, **MOE}, q_lora_rank=40, topk_method="noaux_tc", n_group=4,
                        topk_group=2, num_nextn_predict_layers=1, rope_scaling={**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}), {}),
    "deepseek-v32": (cfg("DeepseekV32ForCausalLM", "deepseek_v32", **{**MLA, **MOE}, q_lora_rank=40, topk_method="noaux_tc", n_group=4, topk_group=2,
                         index_topk=96, index_head_dim=64, index_n_heads=4,
                         rope_scaling={**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}), {}),
    "glm-dsa": (cfg("GlmMoeDsaForCausalLM", "glm_moe_dsa", **{**MLA, **MOE, "rms_norm_eps": 1e-5}, q_lora_rank=40, n_group=1, topk_group=1,
                    index_topk=96, index_head_dim=64, index_n_heads=4, indexer_types=["full", "full", "shared", "full"]), {}),
    # Contexts of three times what the indexer selects. Its heads are many, so that no scores are equal.
    "deepseek-v32-sparse": (cfg("DeepseekV32ForCausalLM", "deepseek_v32", **{**MLA, **MOE}, q_lora_rank=40, topk_method="noaux_tc", n_group=4, topk_group=2,
                                index_topk=32, index_head_dim=64, index_n_heads=24,
                                rope_scaling={**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}), {}),
    "glm-dsa-sparse": (cfg("GlmMoeDsaForCausalLM", "glm_moe_dsa", **{**MLA, **MOE, "rms_norm_eps": 1e-5}, q_lora_rank=40, n_group=1, topk_group=1,
                           index_topk=32, index_head_dim=64, index_n_heads=24, indexer_types=["full", "full", "shared", "full"]), {}),
    "glm4moe-lite": (cfg("Glm4MoeLiteForCausalLM", "glm4_moe_lite", **{**MLA, **MOE}, q_lora_rank=40, topk_method="noaux_tc",
                         n_group=1, topk_group=1, num_nextn_predict_layers=1), dict(drafts=True)),
    "youtu": (cfg("YoutuForCausalLM", "youtu", **{**MLA, "rope_theta": 1600000.0, "tie_word_embeddings": True}, q_lora_rank=40), {}),
    # transformers has no code for this architecture; GLM-4.5 computes the same from tensors with different names.
    "bailingmoe2": (cfg("BailingMoeV2ForCausalLM", "bailing_moe_v2", head_dim=16, hidden_act="silu", rms_norm_eps=1e-6, rope_theta=6e5,
                        partial_rotary_factor=0.5, use_qk_norm=True, use_bias=False, use_qkv_bias=False, score_function="sigmoid",
                        num_experts=8, num_shared_experts=1, **LING, n_group=4, topk_group=2),
                    dict(names=BAILING, qkv="all",
                         oracle=cfg("Glm4MoeForCausalLM", "glm4_moe", head_dim=16, hidden_act="silu", rms_norm_eps=1e-6, rope_theta=6e5,
                                    partial_rotary_factor=0.5, use_qk_norm=True, attention_bias=False, n_routed_experts=8,
                                    n_shared_experts=1, **LING, n_group=4, topk_group=2))),
    "internlm2": (cfg("InternLM2ForCausalLM", "internlm2", hidden_act="silu", rms_norm_eps=1e-5, rope_theta=1e6, bias=False,
                      rope_scaling={"type": "dynamic", "factor": 2.0}),
                  dict(qkv="by key head", names=[("self_attn.qkv_proj", "attention.wqkv"), ("embed_tokens", "tok_embeddings"), ("lm_head", "output"), ("input_layernorm", "attention_norm"),
                                               ("post_attention_layernorm", "ffn_norm"), ("self_attn.o_proj", "attention.wo"),
                                               ("mlp.gate_proj", "feed_forward.w1"), ("mlp.up_proj", "feed_forward.w3"),
                                               ("mlp.down_proj", "feed_forward.w2")],
                       oracle=dict(model_type="llama", rope_scaling=None))),
    "mixtral": (cfg("MixtralForCausalLM", "mixtral", hidden_act="silu", rms_norm_eps=1e-5, rope_theta=1e6, num_local_experts=6,
                    num_experts_per_tok=2, sliding_window=None),
                dict(names=W123)),
    "gptoss": (GPT_OSS, dict(fused=True, spread={"experts.gate_up_proj_bias": (0.0, 0.25), "experts.gate_up_proj": (0.0, 2.0)})),
    "gptoss_mxfp4": ({**GPT_OSS, "quantization_config": {"quant_method": "mxfp4"}}, dict(fused=True, mxfp4=True, spread={"_blocks": (0, 256), "_scales": (121, 4)})),
    "granitemoe": (cfg("GraniteMoeForCausalLM", "granitemoe", **GRANITE_MOE), GRANITE_MOE_NAMES),
    "granitemoeshared": (cfg("GraniteMoeSharedForCausalLM", "granitemoeshared", shared_intermediate_size=72, **GRANITE_MOE),
                         GRANITE_MOE_NAMES),
    "arcee": (cfg("ArceeForCausalLM", "arcee", hidden_act="relu2", rms_norm_eps=1e-5, rope_theta=10000.0, attention_bias=False,
                  mlp_bias=False, rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64,
                                                "mscale": 1.0, "beta_fast": 32.0, "beta_slow": 1.0}), {}),
    "apertus": (cfg("ApertusForCausalLM", "apertus", hidden_act="xielu", rms_norm_eps=1e-5, rope_theta=12000000.0,
                    attention_bias=False, mlp_bias=False, post_norm=False, qk_norm=True,
                    rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                  "original_max_position_embeddings": 64}),
                dict(spread={"act_fn.beta": (0.5, 0.0), "act_fn.eps": (-0.125, 0.0)})),
    "commandr": (cfg("CohereForCausalLM", "cohere", model_max_length=1024, use_qk_norm=False, **COHERE), {}),
    "commandrplus": (cfg("CohereForCausalLM", "cohere", use_qk_norm=True, **COHERE), {}),
    "ministral3": ({"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3", "tie_word_embeddings": True,
                    "text_config": {k: v for k, v in MINISTRAL.items() if k != "architectures"}},
                   dict(names=[("model.", "language_model.model.")], oracle=MINISTRAL)),
    "mistral4": ({"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3", "tie_word_embeddings": False,
                  "text_config": {k: v for k, v in MISTRAL4.items() if k != "architectures"}},
                 dict(fused=True, names=[("model.", "language_model.model."), ("lm_head", "language_model.lm_head")], oracle=MISTRAL4, cls="Mistral4ForCausalLM")),
    "qwen2vl": (vl("Qwen2VLForConditionalGeneration", "qwen2_vl", "qwen2_vl_text", dict(depth=1, embed_dim=32, hidden_size=64, num_heads=2),
                   rope_theta=1e6, rope_scaling={"type": "mrope", "mrope_section": [2, 3, 3]}, use_sliding_window=False),
                dict(cls="Qwen2VLForConditionalGeneration", names=[("model.language_model.", "model.")])),
    "qwen3vl": (vl("Qwen3VLForConditionalGeneration", "qwen3_vl", "qwen3_vl_text", QWEN3_TOWER, head_dim=16, **QWEN3_VL),
                dict(cls="Qwen3VLForConditionalGeneration")),
    "qwen3vlmoe": (vl("Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe", "qwen3_vl_moe_text", QWEN3_TOWER, head_dim=16, num_experts=6,
                      num_experts_per_tok=3, moe_intermediate_size=40, decoder_sparse_step=1, mlp_only_layers=[], norm_topk_prob=True,
                      **QWEN3_VL), dict(cls="Qwen3VLMoeForConditionalGeneration", turned=True)),
    # The thinker of Omni: experts as individual tensors, names that start with "thinker.". The talker is left out.
    "qwen3omni": (OMNI, dict(cls="Qwen3OmniMoeThinkerForConditionalGeneration", names=[("model.language_model.", "thinker.model."), ("lm_head", "thinker.lm_head")],
                             oracle={"architectures": ["Qwen3OmniMoeThinkerForConditionalGeneration"], "model_type": "qwen3_omni_moe_thinker", **OMNI["thinker_config"]})),
    "glm4v": (vl("Glm4vForConditionalGeneration", "glm4v", "glm4v_text", GLM_TOWER, head_dim=16, rope_theta=10000.0, attention_bias=True,
                 partial_rotary_factor=0.5, rope_scaling={"type": "default", "mrope_section": [1, 1, 2]}),
              dict(cls="Glm4vForConditionalGeneration", oracle=dict(text_config={
                  **BASE, "model_type": "glm4v_text", "hidden_act": "silu", "rms_norm_eps": 1e-6, "head_dim": 16, "attention_bias": True, "pad_token_id": None,
                  "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5, "mrope_section": [1, 1, 2]}}))),
    "glm4vmoe": (vl("Glm4vMoeForConditionalGeneration", "glm4v_moe", "glm4v_moe_text", GLM_TOWER, head_dim=16, attention_bias=True, use_qk_norm=False, **MOE,
                    n_group=1, topk_group=1, rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5, "mrope_section": [1, 1, 2]}),
                 dict(cls="Glm4vMoeForConditionalGeneration")),
    "exaone45": (vl("Exaone4_5_ForConditionalGeneration", "exaone4_5", "exaone4", dict(depth=1, hidden_size=32, intermediate_size=32, num_heads=2,
                    num_key_value_heads=1, out_hidden_size=64, fullatt_block_indexes=[0]), head_dim=16, rope_theta=1e6, sliding_window=16,
                    sliding_window_pattern="LLLG", layer_types=["sliding_attention"] * 3 + ["full_attention"]),
                 dict(cls="Exaone4_5_ForConditionalGeneration")),
    # MiniCPM's code is not in transformers; Granite computes the same with factors of other names.
    "minicpm": (cfg("MiniCPMForCausalLM", "minicpm", hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, scale_emb=12, scale_depth=1.4, dim_model_base=32,
                    attention_bias=False), dict(oracle=dict(model_type="granite", **MINICPM))),
    "minicpm4": (cfg("MiniCPMForCausalLM", "minicpm", hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, scale_emb=12, scale_depth=1.4, dim_model_base=32,
                     rope_scaling={"rope_type": "longrope", "long_factor": LONG, "short_factor": SHORT, "original_max_position_embeddings": 64}),
                 dict(oracle=dict(model_type="granite", **MINICPM))),
    "minicpm3": (cfg("MiniCPM3ForCausalLM", "minicpm3", **{k: v for k, v in MLA.items() if k not in ("v_head_dim", "moe_layer_freq")}, q_lora_rank=40, scale_emb=12,
                     scale_depth=1.4, dim_model_base=256), {}),
    "chatglm": (cfg("GlmForCausalLM", "glm", head_dim=16, hidden_act="silu", rms_norm_eps=1.5625e-07, rope_theta=10000.0, partial_rotary_factor=0.5,
                    attention_bias=True), {}),
    "exaone": ({k: v for k, v in cfg("ExaoneForCausalLM", "exaone", head_dim=16, num_layers=4, activation_function="silu", layer_norm_epsilon=1e-5, rope_theta=1e6,
                                     rope_scaling=LLAMA3).items() if k != "num_hidden_layers"},
               dict(names=EXAONE, spread={".ln_": (1.0, 0.25), ".wte.": (0.0, 0.75)},
                    oracle=cfg("LlamaForCausalLM", "llama", head_dim=16, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=1e6, rope_scaling=dict(LLAMA3)))),
    "muse-glimmer": (vl("MuseGlimmerForConditionalGeneration", "muse_glimmer", "muse_glimmer_text",
                        dict(model_type="muse_glimmer_vision", num_hidden_layers=1, hidden_size=32, intermediate_size=32, num_attention_heads=2),
                        head_dim=16, hidden_activation="silu", sliding_window=16, final_logit_softcapping=4.0, qk_scale_factor=3.87, output_multiplier=0.5,
                        post_norm_eps=1e-8, layer_types=["sliding_attention"] * 3 + ["full_attention"], layer_rope_theta=[500000.0] * 3 + [0],
                        rope_parameters={"rope_type": "default", "rope_theta": 500000.0}, attention_bias=False),
                     dict(cls="MuseGlimmerForConditionalGeneration", spread={"layernorm": (0.0, 0.25), "language_model.norm.": (1.0, 0.25)})),
    "gemma4unified": (UNIFIED, dict(cls="Gemma4UnifiedForConditionalGeneration", spread={"layer_scalar": (0.75, 0.25)})),
    # transformers runs this with the code of GLM-4.5 and renames the names below on loading.
    "sarvam": (cfg("SarvamMoEForCausalLM", "sarvam_moe", head_dim=16, hidden_act="silu", rms_norm_eps=1e-6, rope_theta=8e6, use_qk_norm=True, use_bias=False,
                   use_qkv_bias=False, num_experts=8, num_shared_experts=1, moe_router_enable_expert_bias=True, score_function="sigmoid", **LING, n_group=1, topk_group=1),
               dict(names=BAILING, qkv="all",
                    oracle=cfg("Glm4MoeForCausalLM", "glm4_moe", head_dim=16, hidden_act="silu", rms_norm_eps=1e-6, rope_theta=8e6, partial_rotary_factor=1.0,
                               use_qk_norm=True, attention_bias=False, n_routed_experts=8, n_shared_experts=1, **LING, n_group=1, topk_group=1))),
    "llama4": ({"architectures": ["Llama4ForConditionalGeneration"], "model_type": "llama4", "tie_word_embeddings": False,
                "text_config": {k: v for k, v in LLAMA4.items() if k != "architectures"}},
               dict(fused=True, names=[("model.", "language_model.model."), ("lm_head", "language_model.lm_head")], oracle=LLAMA4)),
    "hunyuan": (cfg("HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", **HUNYUAN), {}),
    "hunyuanmoe": (cfg("HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe", num_experts=6, moe_topk=[2] * 4, num_shared_expert=[1] * 4,
                       moe_intermediate_size=[96] * 4, use_mixed_mlp_moe=True, **HUNYUAN), dict(oracle=dict(moe_topk=2))),
    "ernie45": (cfg("Ernie4_5ForCausalLM", "ernie4_5", **{**ERNIE, "tie_word_embeddings": True}), {}),
    "ernie45moe": (cfg("Ernie4_5_MoeForCausalLM", "ernie4_5_moe", moe_num_experts=6, moe_k=3, moe_intermediate_size=40,
                       moe_num_shared_experts=2, moe_layer_start_index=1, moe_layer_end_index=3, moe_layer_interval=1,
                       moe_capacity=[64, 64, 64], moe_gate="topk", moe_use_aux_free=True, **ERNIE),
                   dict(names=[("mlp.gate.moe_statics", "mlp.moe_statics")])),
}  # fmt: skip


def attention(name):
    """(name, matrix) of q, k and v."""
    at, part = name[: -len("q_proj.weight")], name[-len("q_proj.weight") :]
    return (at, part[0]) if part[1:] == "_proj.weight" and part[0] in "qkv" else (None, None)


OTHER_PARTS = (".visual.", "visual.", ".vision_model.", ".multi_modal_projector.", "audio_tower.", "embed_vision.", "embed_audio.", "vision_tower.", "vision_adapter.", "vision_projection.")


def sources(name, shape, extra, sd):
    """The published tensors (name, shape, dtype) that make up one tensor of transformers, which fuses experts and
    renames tensors."""
    out = [(name, shape, "BF16")]
    at, part = attention(name)
    if part and "qkv" in extra:
        out = [(at + "qkv_proj.weight", (sum(sd[at + x + "_proj.weight"][0] for x in "qkv"), shape[1]), "BF16")]
    elif extra.get("mxfp4") and name.endswith("_proj") and "experts" in name:  # [experts, in, out]
        blocks = (shape[0], shape[2], shape[1] // 32)
        out = [(name + "_blocks", blocks + (16,), "U8"), (name + "_scales", blocks, "U8")]
    elif extra.get("turned") and name.endswith("_proj") and "experts" in name:
        out = [(name, (shape[0], shape[2], shape[1]), "BF16")]
    elif extra.get("step") and name.endswith("experts.gate_up_proj"):
        out = [(name.replace("gate_up_proj", p + "_proj.weight"), (shape[0], shape[1] // 2, shape[2]), "BF16") for p in ("gate", "up")]
    elif extra.get("step") and name.endswith("experts.down_proj"):
        out = [(name + ".weight", shape, "BF16")]
    elif extra.get("fused"):
        pass
    elif extra.get("split_dense") and name.endswith(".gate_up_proj.weight"):
        out = [(name.replace("gate_up", p), (shape[0] // 2, shape[1]), "BF16") for p in ("gate", "up")]
    elif name.endswith("experts.gate_up_proj"):
        one = [name.replace("gate_up_proj", f"{x}.{p}.weight") for x in range(shape[0]) for p in ("gate_proj", "up_proj")]
        out = [(n, (shape[1] // 2, shape[2]), "BF16") for n in one]
    elif name.endswith("experts.down_proj"):
        out = [(name.replace("down_proj", f"{x}.down_proj.weight"), shape[1:], "BF16") for x in range(shape[0])]
    return [(renamed(n, extra), s, t) for n, s, t in out]


def renamed(name, extra):
    """The published name of a tensor; extra["names"] lists the replacements."""
    for a, b in extra.get("names", []):
        name = name.replace(a, b)
    return name


def out_of_qkv(qkv, name, shape, how, sd):
    at, part = attention(name)
    q, k = (sd[at + x + "_proj.weight"][0] for x in "qk")
    if how == "all":  # q, then k, then v
        return {"q": qkv[:q], "k": qkv[q : q + k], "v": qkv[q + k :]}[part]
    hd = 16
    g = qkv.reshape(k // hd, q // k + 2, hd, shape[1])  # for each key head: its queries, the key, the value
    return {"q": g[:, :-2], "k": g[:, -2], "v": g[:, -1]}[part].reshape(shape)


def out_of_mxfp4(blocks, scales, shape):
    """FP4 E2M1, two per byte, low half first, times a power of two for 32."""
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    values = np.concatenate([values, -values])
    v = np.stack([values[blocks & 15], values[blocks >> 4]], -1).reshape(scales.shape + (32,))
    v = v * np.exp2(scales.astype(np.float32) - 127)[..., None]
    return np.ascontiguousarray(v.reshape(shape[0], shape[2], shape[1]).transpose(0, 2, 1))


def fill(name, shape, made, extra, sd):
    a = [made[s[0]] for s in sources(name, shape, extra, sd)]
    if attention(name)[1] and "qkv" in extra:
        return out_of_qkv(a[0], name, shape, extra["qkv"], sd)
    if extra.get("turned") and name.endswith("_proj") and "experts" in name:
        return np.ascontiguousarray(a[0].transpose(0, 2, 1))
    if extra.get("step") and name.endswith("experts.gate_up_proj"):
        return np.concatenate(a, 1)
    if a[0].dtype == np.uint8:
        return out_of_mxfp4(*a, shape)
    return np.concatenate([x.reshape(-1) for x in a]).reshape(shape)


def build(config, extra):
    """The model in transformers; `oracle` is its configuration there, or the keys that differ."""
    oracle = extra.get("oracle", {})
    config = oracle if "architectures" in oracle else {**config, **oracle}
    config = AutoConfig.for_model(**{k: v for k, v in config.items() if k != "quantization_config"})
    cls = getattr(transformers, extra["cls"])._from_config if "cls" in extra else AutoModelForCausalLM.from_config
    return cls(config, attn_implementation="eager", dtype=torch.float32).float().eval()  # constants of the model are f32 as well


def mtp_block(every, config, extra):
    """Tensors of an MTP block as published: one more layer like the last one, after the trunk."""
    n, d, v = config["num_hidden_layers"], config["hidden_size"], config["vocab_size"]
    head = f"model.layers.{n - 1}."
    out = {(k.replace(head, f"model.layers.{n}."), s, t) for k, s, t in every if k.startswith(head)}
    own = {"eh_proj.weight": (d, 2 * d), "enorm.weight": (d,), "hnorm.weight": (d,), "shared_head.norm.weight": (d,),
           "embed_tokens.weight": (v, d), "shared_head.head.weight": (v, d)}  # fmt: skip
    return out | {(renamed(f"model.layers.{n}." + k, extra), s, "BF16") for k, s in own.items()}


def mtp_logits(config, extra, made, hidden, ids):
    """Logits for the token after the next one: eh_proj(rms(embedding of the next token) | rms(hidden row)), one more
    layer, norm and head."""
    n, eps = config["num_hidden_layers"], config["rms_norm_eps"]
    more = build({**config, "num_hidden_layers": n + 1}, extra).model
    layer, at = more.layers[n], f"model.layers.{n}."
    sd = {k: tuple(v.shape) for k, v in layer.state_dict().items()}
    get = lambda k: torch.from_numpy(made[renamed(at + k, extra)])  # noqa: E731
    rms = lambda x, w: x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * w  # noqa: E731
    full = {at + k: s for k, s in sd.items()}
    layer.load_state_dict({k: torch.from_numpy(fill(at + k, s, made, extra, full).copy()) for k, s in sd.items()})
    e = get("embed_tokens.weight")[ids[1:]][None]
    x = torch.cat([rms(e, get("enorm.weight")), rms(hidden[:, :-1], get("hnorm.weight"))], -1) @ get("eh_proj.weight").T
    t = x.shape[1]
    mask = torch.full((t, t), float("-inf")).triu(1)[None, None]
    x = layer(x, attention_mask=mask, position_embeddings=more.rotary_emb(x, torch.arange(t)[None]))
    x = x[0] if isinstance(x, tuple) else x
    return (rms(x, get("shared_head.norm.weight")) @ get("shared_head.head.weight").T).reshape(t, -1).numpy()


def micro(config, extra, out):
    """Writes config.json and tensors.txt to `out`, unless that is None; returns the model and its published tensors."""
    config.update(extra.get("config", {}))
    model = build(config, extra)
    tied = model.config.get_text_config().tie_word_embeddings
    sd = {k: tuple(v.shape) for k, v in model.state_dict().items() if not any(part in k for part in OTHER_PARTS)}
    if tied:
        sd.pop("lm_head.weight")
    made, lines = {}, []
    every = {s for name, shape in sd.items() for s in sources(name, shape, extra, sd)}
    if config.get("num_nextn_predict_layers"):
        every |= mtp_block(every, config, extra)
    for k, shape, dtype in sorted(every):
        mean, spread = spread_of(k, shape, extra)
        made[k] = weights(k, shape, dtype, mean, spread)
        lines.append(f"{k} {dtype} {'x'.join(map(str, shape)) or '-'} {mean} {spread}\n")
    if out:
        os.makedirs(out, exist_ok=True)
        with open(out + "/config.json", "w") as f:
            json.dump(config, f, indent=1)
            f.write("\n")
        with open(out + "/tensors.txt", "w") as f:
            f.writelines(lines)
    with torch.no_grad():
        new = {k: torch.from_numpy(fill(k, s, made, extra, sd).copy()) for k, s in sd.items()}
        model.load_state_dict(new, strict=False)
        if tied:
            model.tie_weights()
    print(f"{config['architectures'][0]}: {len(lines)} tensors, {sum(v.size for v in made.values())} weights")
    return model, made


def make(config, extra, out, seed=20261123):
    """Writes a folder; returns ids and all logits."""
    model, made = micro(config, extra, out)
    with torch.no_grad():
        rng = np.random.default_rng(seed)
        ids = rng.integers(0, 1000, N_IDS).astype(np.int32)
        res = model(torch.from_numpy(ids.astype(np.int64))[None], output_hidden_states=True)
        l = res.logits[0].numpy()
        golden = {"ids": ("I32", ids), "logits": ("F32", np.ascontiguousarray(l[3::4, ::4]))}
        if extra.get("drafts"):
            d = mtp_logits(config, extra, made, res.hidden_states[-1], torch.from_numpy(ids.astype(np.int64)))
            golden["mtp"] = ("F32", np.ascontiguousarray(d[3::4, ::4]))
    print(f"  largest logit {np.abs(l).max():.3g}")
    write_st(out + "/golden.safetensors", golden)
    return ids, l


def main():
    for name in sys.argv[1:] or MODELS:
        make(*copy.deepcopy(MODELS[name]), f"{DIR}/{name}")


if __name__ == "__main__":
    main()
