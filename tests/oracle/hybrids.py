#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/archs/NAME for architectures with mixers besides attention, as archs.py does for the others: random micro
checkpoints with the tensor names of published models, and the logits of transformers for them.

Usage: python3 tests/oracle/hybrids.py [NAME...]   (from the repository root; torch 2.15, transformers 5.23, numpy)
"""
import json
import os
import re
import sys

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from archs import DIR, N_IDS, cfg, spread_of, weights, write_st

SSM = dict(num_hidden_layers=4, tie_word_embeddings=True, hidden_act="silu")


def experts(gate, up, down):
    """Rules for experts that transformers fuses and that are published individually."""
    return [(r"(.*)experts\.gate_up_proj", lambda m, s: [[f"{m[1]}experts.{x}.{p}.weight" for p in (gate, up)] for x in range(s[0])],
            ),
            (r"(.*)experts\.down_proj", lambda m, s: [[f"{m[1]}experts.{x}.{down}.weight"] for x in range(s[0])])]  # fmt: skip


def bailing(dense):
    """Rules for Ling 3, whose attention outputs that match `dense` are published under that name."""
    return [*experts("gate_proj", "up_proj", "down_proj"),
            (r"model\.embed_tokens\.weight", lambda m, s: [["model.word_embeddings.weight"]]),
            (r"(.*)mlp\.gate\.e_score_correction_bias", lambda m, s: [[f"{m[1]}mlp.gate.expert_bias"]]),
            (r"(.*)self_attn\.conv1d\.weight", lambda m, s: [[f"{m[1]}attention.{p}_conv1d.weight" for p in "qkv"]]),
            (r"(.*)self_attn\.forget_gate\.(.*)", lambda m, s: [[f"{m[1]}attention.{m[2]}"]]),
            (dense, lambda m, s: [[f"{m[1]}attention.dense.weight"]]),
            (r"(.*)self_attn\.(.*)", lambda m, s: [[f"{m[1]}attention.{m[2]}"]])]  # fmt: skip


GRANITE = dict(**SSM, rms_norm_eps=1e-5, rope_theta=10000, attention_multiplier=0.3, embedding_multiplier=3.0, residual_multiplier=0.4,
               logits_scaling=4.0, attention_bias=False, normalization_function="rmsnorm", mamba_n_heads=8, mamba_d_head=16,
               mamba_d_state=16, mamba_n_groups=2, mamba_d_conv=4, mamba_expand=2, mamba_conv_bias=True, mamba_proj_bias=False)  # fmt: skip
GRANITE_NAMES = [(r"(.*)block_sparse_moe\.experts\.gate_up_proj", lambda m, s: [[f"{m[1]}block_sparse_moe.input_linear.weight"]]),
                 (r"(.*)block_sparse_moe\.experts\.down_proj", lambda m, s: [[f"{m[1]}block_sparse_moe.output_linear.weight"]]),
                 (r"(.*)block_sparse_moe\.router\.weight", lambda m, s: [[f"{m[1]}block_sparse_moe.router.layer.weight"]])]  # fmt: skip


def alone(cls, model_type, **kw):
    return {"architectures": [cls], "model_type": model_type, "vocab_size": 1024, "hidden_size": 64, "num_hidden_layers": 3, "state_size": 16,
            "conv_kernel": 4, "use_bias": False, "use_conv_bias": True, "hidden_act": "silu", "layer_norm_epsilon": 1e-5, "bos_token_id": 1010,
            "eos_token_id": 1012, "residual_in_fp32": True, "torch_dtype": "bfloat16", **kw}  # fmt: skip


# name: (config as published, entries that have different names in transformers, rules); a rule is (pattern of a
# tensor's name in transformers, published names: a list of tensors to stack, each a list of parts to join by rows)
MODELS = {
    "lfm2": (cfg("Lfm2ForCausalLM", "lfm2", **{**SSM, "num_hidden_layers": 5}, norm_eps=1e-5, rope_theta=1e6, conv_L_cache=3, conv_bias=False,
                 block_ff_dim=136, block_auto_adjust_ff_dim=True, block_ffn_dim_multiplier=1.0, block_multiple_of=32,
                 full_attn_idxs=[2, 4], tie_embedding=True), []),
    "lfm2moe": (cfg("Lfm2MoeForCausalLM", "lfm2_moe", **SSM, norm_eps=1e-5, rope_theta=1e6, conv_L_cache=3, conv_bias=False,
                    moe_intermediate_size=40, num_dense_layers=1, num_experts=6, num_experts_per_tok=2, use_expert_bias=True,
                    norm_topk_prob=True, routed_scaling_factor=1.0, layer_types=["conv", "full_attention", "conv", "full_attention"]),
                experts("w1", "w3", "w2")),
    "granitehybrid": (cfg("GraniteMoeHybridForCausalLM", "granitemoehybrid", **GRANITE, num_local_experts=6, num_experts_per_tok=2,
                          shared_intermediate_size=48, position_embedding_type="nope",
                          layer_types=["mamba", "attention", "mamba", "mamba"]), GRANITE_NAMES),
    "granitehybrid-dense": (cfg("GraniteMoeHybridForCausalLM", "granitemoehybrid", **{**GRANITE, "intermediate_size": 80}, num_local_experts=0,
                                num_experts_per_tok=0, shared_intermediate_size=80, position_embedding_type="rope",
                                layer_types=["mamba", "mamba", "attention", "mamba"]), GRANITE_NAMES),
    # Without Mamba layers: the architectures of Granite 3.
    "granite4": (cfg("GraniteMoeHybridForCausalLM", "granitemoehybrid", **GRANITE, num_local_experts=0, num_experts_per_tok=0,
                     shared_intermediate_size=80, position_embedding_type="rope", layer_types=["attention"] * 4), GRANITE_NAMES),
    "granite4moe": (cfg("GraniteMoeHybridForCausalLM", "granitemoehybrid", **GRANITE, num_local_experts=6, num_experts_per_tok=2,
                        shared_intermediate_size=48, position_embedding_type="nope", layer_types=["attention"] * 4), GRANITE_NAMES),
    "bamba": (cfg("BambaForCausalLM", "bamba", num_hidden_layers=4, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, attention_bias=False,
                  mlp_bias=False, attn_layer_indices=[1, 3], attn_rotary_emb=8, mamba_n_heads=8, mamba_d_head="auto", mamba_n_groups=2, mamba_d_state=16,
                  mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=32, mamba_conv_bias=True, mamba_proj_bias=False), []),
    "nemotron_h": (cfg("NemotronHForCausalLM", "nemotron_h", **{**SSM, "num_hidden_layers": 6, "tie_word_embeddings": False},
                       hybrid_override_pattern="M-M*-M", head_dim=24, mamba_num_heads=6, mamba_head_dim=16, ssm_state_size=16, n_groups=2,
                       conv_kernel=4, expand=2, mlp_hidden_act="relu2", mamba_hidden_act="silu", use_bias=False, use_conv_bias=True,
                       mamba_proj_bias=False, attention_bias=False, mlp_bias=False, layer_norm_epsilon=1e-5, rms_norm_eps=1e-5,
                       time_step_min=1e-30),
                   [(r"model\.(.*)", lambda m, s: [["backbone." + m[1]]])]),
    "nemotron_h_moe": (cfg("NemotronHForCausalLM", "nemotron_h", **{**SSM, "num_hidden_layers": 5, "tie_word_embeddings": False},
                           hybrid_override_pattern="ME*EM", head_dim=16, mamba_num_heads=4, mamba_head_dim=16, ssm_state_size=16, n_groups=2,
                           conv_kernel=4, expand=2, mlp_hidden_act="relu2", mamba_hidden_act="silu", use_bias=False, use_conv_bias=True,
                           mamba_proj_bias=False, attention_bias=False, mlp_bias=False, layer_norm_epsilon=1e-5, rms_norm_eps=1e-5,
                           time_step_min=1e-30, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1, moe_intermediate_size=40,
                           moe_shared_expert_intermediate_size=72, n_group=4, topk_group=2, norm_topk_prob=True,
                           routed_scaling_factor=1.5),
                       [(r"model\.(.*)experts\.(up|down)_proj",
                         lambda m, s: [[f"backbone.{m[1]}experts.{x}.{m[2]}_proj.weight"] for x in range(s[0])]),
                        (r"model\.(.*)", lambda m, s: [["backbone." + m[1]]])]),
    # Routed experts on rows of a lower rank.
    "nemotron3-super": (cfg("NemotronHForCausalLM", "nemotron_h", **{**SSM, "num_hidden_layers": 5, "tie_word_embeddings": False},
                           hybrid_override_pattern="ME*EM", head_dim=16, mamba_num_heads=4, mamba_head_dim=16, ssm_state_size=16, n_groups=2,
                           conv_kernel=4, expand=2, mlp_hidden_act="relu2", mamba_hidden_act="silu", use_bias=False, use_conv_bias=True,
                           mamba_proj_bias=False, attention_bias=False, mlp_bias=False, layer_norm_epsilon=1e-5, rms_norm_eps=1e-5,
                           time_step_min=1e-30, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1, moe_intermediate_size=40,
                           moe_shared_expert_intermediate_size=72, n_group=1, topk_group=1, moe_latent_size=32, norm_topk_prob=True,
                           routed_scaling_factor=1.5),
                       [(r"model\.(.*)experts\.(up|down)_proj",
                         lambda m, s: [[f"backbone.{m[1]}experts.{x}.{m[2]}_proj.weight"] for x in range(s[0])]),
                        (r"model\.(.*)", lambda m, s: [["backbone." + m[1]]])]),
    "falcon-h1": (cfg("FalconH1ForCausalLM", "falcon_h1", **{**SSM, "num_hidden_layers": 2, "tie_word_embeddings": False}, head_dim=24,
                      rms_norm_eps=1e-5, rope_theta=1e11, mamba_d_ssm=96, mamba_n_heads=6, mamba_d_head=16, mamba_d_state=16,
                      mamba_n_groups=2, mamba_d_conv=4, mamba_expand=2, mamba_conv_bias=True, mamba_proj_bias=False,
                      mamba_norm_before_gate=False, mamba_rms_norm=True, projectors_bias=False, attention_bias=False, mlp_bias=False,
                      # powers of two: weights times them are exact in BF16
                      attention_in_multiplier=0.5, attention_out_multiplier=2.0, embedding_multiplier=4.0, key_multiplier=0.25,
                      lm_head_multiplier=8.0, mlp_multipliers=[0.5, 2.0], ssm_in_multiplier=4.0, ssm_out_multiplier=2.0,
                      ssm_multipliers=[0.25, 2.0, 0.5, 1.0, 0.5]), []),
    "jamba": (cfg("JambaForCausalLM", "jamba", **SSM, rms_norm_eps=1e-6, num_experts=4, num_experts_per_tok=2, attn_layer_period=4,
                  attn_layer_offset=2, expert_layer_period=2, expert_layer_offset=1, mamba_d_conv=4, mamba_d_state=16, mamba_dt_rank=8,
                  mamba_expand=2, mamba_conv_bias=True, mamba_proj_bias=False),
              experts("gate_proj", "up_proj", "down_proj")),
    "kimi-linear": ({k: v for k, v in cfg(
        "KimiLinearForCausalLM", "kimi_linear", **{**SSM, "tie_word_embeddings": False}, num_key_value_heads=4, head_dim=24,
        model_max_length=512, rms_norm_eps=1e-5, rope_theta=10000.0, kv_lora_rank=32, q_lora_rank=None, qk_nope_head_dim=16,
        qk_rope_head_dim=8, v_head_dim=24, mla_use_nope=True, first_k_dense_replace=1, moe_intermediate_size=40, num_experts=8,
        num_experts_per_token=3, num_shared_experts=1, num_expert_group=1, topk_group=1, use_grouped_topk=True,
        moe_renormalize=True, moe_router_activation_func="sigmoid", moe_layer_freq=1, routed_scaling_factor=1.5,
        linear_attn_config=dict(full_attn_layers=[2, 4], kda_layers=[1, 3], head_dim=16, num_heads=4,
                                short_conv_kernel_size=4)).items() if k != "max_position_embeddings"},
                    [(r"(.*)mlp\.experts\.gate_up_proj",
                      lambda m, s: [[f"{m[1]}block_sparse_moe.experts.{x}.{p}.weight" for p in ("w1", "w3")] for x in range(s[0])]),
                     (r"(.*)mlp\.experts\.down_proj",
                      lambda m, s: [[f"{m[1]}block_sparse_moe.experts.{x}.w2.weight"] for x in range(s[0])]),
                     (r"(.*)mlp\.(gate\.|shared)(.*)", lambda m, s: [[f"{m[1]}block_sparse_moe.{m[2]}{m[3]}"]]),
                     (r"(.*)self_attn\.conv1d\.weight", lambda m, s: [[f"{m[1]}self_attn.{p}_conv1d.weight" for p in "qkv"]]),
                     (r"(.*)self_attn\.forget_gate\.(.*)", lambda m, s: [[f"{m[1]}self_attn.{m[2]}"]])]),
    "bailingmoe3": (cfg("BailingMoeV3ForCausalLM", "bailing_hybrid", **{**SSM, "num_hidden_layers": 6, "tie_word_embeddings": False}, num_key_value_heads=4, head_dim=16,
                        rms_norm_eps=1e-6, rope_theta=6000000.0, kv_lora_rank=32, q_lora_rank=40, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=24,
                        first_k_dense_replace=1, moe_intermediate_size=40, moe_shared_expert_intermediate_size=40, num_experts=8, num_experts_per_tok=3,
                        num_shared_experts=1, n_group=4, topk_group=2, norm_topk_prob=True, routed_scaling_factor=1.5, score_function="sigmoid",
                        layer_group_size=3, short_conv_kernel_size=4, no_kda_lora=True, kda_safe_gate=True, kda_lower_bound=-5.0,
                        gated_attention_proj_granularity_type="head_wise", attention_bias=False),
                    bailing(r"(model\.layers\.[25]\.)self_attn\.o_proj\.weight"), dict(double=True)),
    # As transformers saves it: other names of keys and of the outputs of linear attention; the rest are the class's defaults.
    "bailinghybrid": ({k: v for k, v in cfg(
        "BailingHybridForCausalLM", "bailing_hybrid", **{**SSM, "num_hidden_layers": 6, "tie_word_embeddings": False}, num_key_value_heads=4, head_dim=8,
        linear_head_dim=16, model_max_length=512, kv_lora_rank=32, q_lora_rank=None, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=24,
        mlp_layer_types=["dense"] * 2 + ["sparse"] * 4, moe_intermediate_size=40, num_experts=8, num_experts_per_token=3, num_expert_group=4, topk_group=2,
        layer_types=["linear_attention", "linear_attention", "full_attention"] * 2).items() if k != "max_position_embeddings"},
                      bailing(r"(.*)self_attn\.o_proj\.weight"), dict(double=True)),
    "mamba": (alone("MambaForCausalLM", "mamba", intermediate_size=96, time_step_rank=4, use_cache=True), []),
    "falcon-mamba": (alone("FalconMambaForCausalLM", "falcon_mamba", expand=2, time_step_rank="auto", mixer_rms_eps=1e-6,
                           tie_word_embeddings=False), []),
    "mamba2": (alone("Mamba2ForCausalLM", "mamba2", expand=2, num_heads=8, head_dim=16, n_groups=2, norm_before_gate=True, rms_norm=True,
                     tie_word_embeddings=False, chunk_size=16), []),
    "qwen3next": (cfg("Qwen3NextForCausalLM", "qwen3_next", **{**SSM, "tie_word_embeddings": False}, head_dim=16, rms_norm_eps=1e-6,
                      rope_theta=1e7, partial_rotary_factor=0.25, full_attention_interval=4, linear_conv_kernel_dim=4,
                      linear_key_head_dim=16, linear_value_head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4,
                      decoder_sparse_step=1, mlp_only_layers=[], moe_intermediate_size=40, shared_expert_intermediate_size=40,
                      num_experts=4, num_experts_per_tok=2, norm_topk_prob=True, attention_bias=False),
                  experts("gate_proj", "up_proj", "down_proj"), dict(plus_one=True)),
}  # fmt: skip


def spread(name, shape, extra):
    if name.endswith("A_log"):
        return 0.5, 1.0
    if re.search(r"(^|\.)D$", name):
        return 1.0, 0.5
    if name.endswith("expert_bias") or name.endswith("e_score_correction_bias"):
        return 0.0, 0.25
    return spread_of(name, shape, {} if name.endswith("linear_attn.norm.weight") else extra)


def sources(name, shape, rules):
    """Splits an array of stacks of joined rows into [(published name, shape)]."""
    for pattern, names in rules:
        m = re.fullmatch(pattern, name)
        if m:
            nested = names(m, shape)
            part = list(shape[-2:] if len(nested) > 1 else shape)
            part[0] //= len(nested[0])
            return [[(n, tuple(part)) for n in row] for row in nested]
    return [[(name, shape)]]


def micro(config, rules, extra, out):
    """Writes config.json and tensors.txt to `out`, unless that is None; returns the model."""
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), attn_implementation="eager").float().eval()
    if extra.get("double"):
        model.set_experts_implementation("eager")
    sd = {k: tuple(v.shape) for k, v in model.state_dict().items()}
    tied = model.config.tie_word_embeddings
    if tied:
        sd.pop("lm_head.weight")
    made, lines = {}, []
    for k, shape in sd.items():
        for row in sources(k, shape, rules):
            for n, s in row:
                mean, by = spread(n, s, extra)
                made[n] = (s, weights(n, s, "BF16", mean, by))
                lines.append(f"{n} BF16 {'x'.join(map(str, s))} {mean} {by}\n")
    if out:
        os.makedirs(out, exist_ok=True)
        with open(out + "/config.json", "w") as f:
            json.dump(config, f, indent=1)
            f.write("\n")
        with open(out + "/tensors.txt", "w") as f:
            f.writelines(sorted(lines))
    with torch.no_grad():
        new = {}
        for k, shape in sd.items():
            stack = [np.concatenate([made[n][1] for n, _ in row]) for row in sources(k, shape, rules)]
            new[k] = torch.from_numpy((np.stack(stack) if len(stack) > 1 else stack[0]).reshape(shape).copy())
        missing = model.load_state_dict(new, strict=False)
        assert not missing.unexpected_keys, missing
        if tied:
            model.tie_weights()
    print(f"{config['architectures'][0]}: {len(lines)} tensors, {sum(v.size for _, v in made.values())} weights")
    return model


def make(config, rules, extra, out, seed=20261123):
    """Writes a model folder; returns ids and all logits."""
    model = micro(config, rules, extra, out)
    with torch.no_grad():
        rng = np.random.default_rng(seed)
        ids = rng.integers(0, 1000, N_IDS).astype(np.int32)
        float32 = torch.float32
        if extra.get("double"):  # transformers' chunks lose digits of large decays in float32
            model, torch.float32 = model.double(), torch.float64
        l = model(torch.from_numpy(ids.astype(np.int64))[None]).logits[0].float().numpy()
        torch.float32 = float32
    print(f"  largest logit {np.abs(l).max():.3g}")
    write_st(out + "/golden.safetensors", {"ids": ("I32", ids), "logits": ("F32", np.ascontiguousarray(l[3::4, ::4]))})
    return ids, l


def main():
    for name in sys.argv[1:] or MODELS:
        config, rules, *more = MODELS[name]
        make(config, rules, more[0] if more else {}, f"{DIR}/{name}")


if __name__ == "__main__":
    main()
