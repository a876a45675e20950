#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/archs/NAME: random micro checkpoints of many architectures and logits of transformers for them.

A folder has config.json as such models are published, tensors.txt (a line per tensor: name, dtype, shape, mean, spread) and
golden.safetensors: ids, and logits at positions 3, 7, 11, ... of vocabulary entries 0, 4, 8, ... The weights themselves are not
stored: value i of a tensor is mean + spread * u(i) rounded to BF16, where u(i) in [-1, 1) comes from the top 24 bits of output
i of splitmix64 seeded by the FNV-1a hash of the tensor's name. tests/unit/test_archs.c makes the same ones.

Usage: python3 tests/oracle/archs.py [NAME...]   (from the repository root; torch 2.15, transformers 5.23, numpy)
"""
import json
import os
import struct
import sys

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

DIR = "tests/golden/archs"
VOCAB, N_IDS = 1024, 96
U64 = np.uint64


def uniform(name, n):
    h = 0xCBF29CE484222325
    for b in name.encode():
        h = (h ^ b) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    with np.errstate(over="ignore"):
        z = U64(h) + np.arange(1, n + 1, dtype=U64) * U64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> U64(30))) * U64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> U64(27))) * U64(0x94D049BB133111EB)
        z = z ^ (z >> U64(31))
    return (z >> U64(40)).astype(np.float64) * 2.0**-23 - 1


def bf16(x):
    u = x.astype(np.float32).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


def weights(name, shape, mean, spread):
    n = int(np.prod(shape))
    return bf16((mean + spread * uniform(name, n)).astype(np.float32)).reshape(shape)


def spread_of(name, shape, plus_one):
    """Mean and spread: norms around 1 (0 where 1 is added), matrices that keep the size of their input."""
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


MINIMAX = [("mlp.experts", "block_sparse_moe.experts"), ("mlp.", "block_sparse_moe."), ("gate_proj", "w1"), ("up_proj", "w3"),
           ("down_proj", "w2")]  # fmt: skip
BAILING = [("model.embed_tokens", "model.word_embeddings"), ("self_attn.qkv_proj", "attention.query_key_value"),
           ("self_attn.o_proj", "attention.dense"), ("self_attn.q_norm", "attention.query_layernorm"),
           ("self_attn.k_norm", "attention.key_layernorm"), ("e_score_correction_bias", "expert_bias")]  # fmt: skip
# Experts as DeepSeek V3 has them, and those who follow it.
LING = dict(num_experts_per_tok=3, moe_intermediate_size=24, first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=1.5)
MOE = dict(n_routed_experts=8, n_shared_experts=2, scoring_func="sigmoid", **LING)

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
    "stablelm": (cfg("StableLmForCausalLM", "stablelm", hidden_act="silu", layer_norm_eps=1e-5, partial_rotary_factor=0.25,
                     use_qkv_bias=True, qk_layernorm=False, use_parallel_residual=False, rope_theta=10000), {}),
    "stablelm12b": (cfg("StableLmForCausalLM", "stablelm", hidden_act="silu", layer_norm_eps=1e-5, partial_rotary_factor=0.25,
                        use_qkv_bias=False, qk_layernorm=True, use_parallel_residual=True, rope_theta=10000), {}),
    "phi3": (cfg("Phi3ForCausalLM", "phi3", hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, sliding_window=None,
                 original_max_position_embeddings=512, partial_rotary_factor=0.75), {}),
    "phi3long": (cfg("Phi3ForCausalLM", "phi3", hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, sliding_window=None,
                     original_max_position_embeddings=32,
                     rope_scaling={"type": "longrope", "long_factor": [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0],
                                   "short_factor": [1.0, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6]}), {}),
    "glm4": (cfg("Glm4ForCausalLM", "glm4", head_dim=16, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0,
                 attention_bias=True, partial_rotary_factor=0.5), {}),
    "exaone4": (cfg("Exaone4ForCausalLM", "exaone4", head_dim=16, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=1e6,
                    sliding_window=16, sliding_window_pattern="LLLG",
                    layer_types=["sliding_attention"] * 3 + ["full_attention"]), {}),
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
                        partial_rotary_factor=0.5, attention_bias=True, use_qk_norm=False, **MOE, n_group=1, topk_group=1), {}),
    "dots1": (cfg("Dots1ForCausalLM", "dots1", head_dim=16, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=1e7, attention_bias=False,
                  sliding_window=None, max_window_layers=4, **MOE, n_group=1, topk_group=1), {}),
    "minimax-m2": (cfg("MiniMaxM2ForCausalLM", "minimax_m2", head_dim=24, hidden_act="silu", rms_norm_eps=1e-6, rope_theta=5e6,
                       rotary_dim=16, num_local_experts=8, num_experts_per_tok=2, scoring_func="sigmoid", use_qk_norm=True,
                       qk_norm_type="per_layer"), dict(names=MINIMAX)),
    "afmoe": (cfg("AfmoeForCausalLM", "afmoe", head_dim=16, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, sliding_window=16,
                  layer_types=["sliding_attention"] * 3 + ["full_attention"], global_attn_every_n_layers=4, mup_enabled=True,
                  num_experts=8, num_experts_per_tok=3, num_shared_experts=1, num_dense_layers=1, moe_intermediate_size=24,
                  route_scale=1.5, route_norm=True, score_func="sigmoid"), {}),
    # Its code is not in transformers; GLM-4.5 computes the same from tensors with other names.
    "bailingmoe2": (cfg("BailingMoeV2ForCausalLM", "bailing_moe_v2", head_dim=16, hidden_act="silu", rms_norm_eps=1e-6, rope_theta=6e5,
                        partial_rotary_factor=0.5, use_qk_norm=True, use_bias=False, use_qkv_bias=False, score_function="sigmoid",
                        num_experts=8, num_shared_experts=1, **LING, n_group=4, topk_group=2),
                    dict(names=BAILING, qkv=True,
                         oracle=cfg("Glm4MoeForCausalLM", "glm4_moe", head_dim=16, hidden_act="silu", rms_norm_eps=1e-6, rope_theta=6e5,
                                    partial_rotary_factor=0.5, use_qk_norm=True, attention_bias=False, n_routed_experts=8,
                                    n_shared_experts=1, **LING, n_group=4, topk_group=2))),
}  # fmt: skip


def renamed(name, extra):
    """The published name of a tensor: extra["names"] has what is to be replaced."""
    for a, b in extra.get("names", []):
        name = name.replace(a, b)
    return name


def published(sd, extra):
    """Experts one by one, as published; transformers keeps them fused. With extra["qkv"] q, k and v are one tensor."""
    out = {}
    for name, shape in sd.items():
        if extra.get("qkv") and name.endswith("q_proj.weight"):
            rows = sum(sd[name.replace("q_proj", x)][0] for x in ("q_proj", "k_proj", "v_proj"))
            out[name.replace("q_proj", "qkv_proj")] = (rows, shape[1])
        elif extra.get("qkv") and name.endswith(("k_proj.weight", "v_proj.weight")):
            pass
        elif name.endswith("experts.gate_up_proj"):
            for x in range(shape[0]):
                for part in ("gate_proj", "up_proj"):
                    out[name.replace("gate_up_proj", f"{x}.{part}.weight")] = (shape[1] // 2, shape[2])
        elif name.endswith("experts.down_proj"):
            for x in range(shape[0]):
                out[name.replace("down_proj", f"{x}.down_proj.weight")] = shape[1:]
        else:
            out[name] = shape
    return {renamed(k, extra): v for k, v in out.items()}


def fill(name, shape, weights, extra, sd):
    made = lambda n: weights[renamed(n, extra)]  # noqa: E731
    if extra.get("qkv") and name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight")):
        part = name[-len("q_proj.weight")]
        first = 0
        for x in "qkv"[: "qkv".index(part)]:
            first += sd[name.replace(part + "_proj", x + "_proj")][0]
        return made(name.replace(part + "_proj", "qkv_proj"))[first : first + shape[0]]
    if name.endswith("experts.gate_up_proj"):
        one = lambda x, part: made(name.replace("gate_up_proj", f"{x}.{part}.weight"))  # noqa: E731
        return np.stack([np.concatenate([one(x, "gate_proj"), one(x, "up_proj")]) for x in range(shape[0])])
    if name.endswith("experts.down_proj"):
        return np.stack([made(name.replace("down_proj", f"{x}.down_proj.weight")) for x in range(shape[0])])
    return made(name)


def main():
    for name in sys.argv[1:] or MODELS:
        config, extra = MODELS[name]
        out = f"{DIR}/{name}"
        os.makedirs(out, exist_ok=True)
        with open(out + "/config.json", "w") as f:
            json.dump(config, f, indent=1)
            f.write("\n")
        oracle = extra.get("oracle", config)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**oracle), attn_implementation="eager").float().eval()
        sd = {k: tuple(v.shape) for k, v in model.state_dict().items()}
        if config["tie_word_embeddings"]:
            sd.pop("lm_head.weight")
        made, lines = {}, []
        for k, shape in sorted(published(sd, extra).items()):
            mean, spread = spread_of(k, shape, extra.get("plus_one", False))
            made[k] = weights(k, shape, mean, spread)
            lines.append(f"{k} BF16 {'x'.join(map(str, shape))} {mean} {spread}\n")
        with open(out + "/tensors.txt", "w") as f:
            f.writelines(lines)
        with torch.no_grad():
            new = {k: torch.from_numpy(fill(k, s, made, extra, sd).copy()) for k, s in sd.items()}
            model.load_state_dict(new, strict=False)
            if config["tie_word_embeddings"]:
                model.tie_weights()
            rng = np.random.default_rng(20261123)
            ids = rng.integers(0, 1000, N_IDS).astype(np.int32)
            l = model(torch.from_numpy(ids.astype(np.int64))[None]).logits[0].numpy()
        print(f"{name}: {len(lines)} tensors, {sum(v.size for v in made.values())} weights, largest logit {np.abs(l).max():.3g}")
        write_st(out + "/golden.safetensors", {"ids": ("I32", ids), "logits": ("F32", np.ascontiguousarray(l[3::4, ::4]))})


if __name__ == "__main__":
    main()
