#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/archs/NAME for architectures with mixers beside attention, as archs.py does for the others: random micro
checkpoints with the tensor names that such models are published with, and logits of transformers for them.

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
    """Fused experts of transformers, published one by one."""
    return [(r"(.*)experts\.gate_up_proj", lambda m, s: [[f"{m[1]}experts.{x}.{p}.weight" for p in (gate, up)] for x in range(s[0])],
             None),
            (r"(.*)experts\.down_proj", lambda m, s: [[f"{m[1]}experts.{x}.{down}.weight"] for x in range(s[0])], None)]  # fmt: skip


# name: (config as published, other names of its entries in transformers, rules (pattern of a tensor in transformers, published
# names: a list to be stacked of lists to be joined by rows))
MODELS = {
    "lfm2": (cfg("Lfm2ForCausalLM", "lfm2", **{**SSM, "num_hidden_layers": 5}, norm_eps=1e-5, rope_theta=1e6, conv_L_cache=3, conv_bias=False,
                 block_ff_dim=136, block_auto_adjust_ff_dim=True, block_ffn_dim_multiplier=1.0, block_multiple_of=32,
                 full_attn_idxs=[2, 4], tie_embedding=True), []),
    "lfm2moe": (cfg("Lfm2MoeForCausalLM", "lfm2_moe", **SSM, norm_eps=1e-5, rope_theta=1e6, conv_L_cache=3, conv_bias=False,
                    moe_intermediate_size=40, num_dense_layers=1, num_experts=6, num_experts_per_tok=2, use_expert_bias=True,
                    norm_topk_prob=True, routed_scaling_factor=1.0, layer_types=["conv", "full_attention", "conv", "full_attention"]),
                experts("w1", "w3", "w2")),
}  # fmt: skip


def spread(name, shape, extra):
    if name.endswith("A_log"):
        return 0.5, 1.0
    if re.search(r"(^|\.)D$", name):
        return 1.0, 0.5
    if name.endswith("expert_bias") or name.endswith("e_score_correction_bias"):
        return 0.0, 0.25
    return spread_of(name, shape, extra.get("plus_one", False) and not name.endswith("linear_attn.norm.weight"))


def sources(name, shape, rules):
    """[(published name, shape)] in an array of stacks of joined rows."""
    for pattern, names, _ in rules:
        m = re.fullmatch(pattern, name)
        if m:
            nested = names(m, shape)
            part = list(shape[-2:] if len(nested) > 1 else shape)
            part[0] //= len(nested[0])
            return [[(n, tuple(part)) for n in row] for row in nested]
    return [[(name, shape)]]


def main():
    for name in sys.argv[1:] or MODELS:
        config, rules, *more = MODELS[name]
        extra = more[0] if more else {}
        out = f"{DIR}/{name}"
        os.makedirs(out, exist_ok=True)
        with open(out + "/config.json", "w") as f:
            json.dump(config, f, indent=1)
            f.write("\n")
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), attn_implementation="eager").float().eval()
        sd = {k: tuple(v.shape) for k, v in model.state_dict().items()}
        tied = model.config.tie_word_embeddings
        if tied:
            sd.pop("lm_head.weight")
        made, lines = {}, []
        for k, shape in sd.items():
            for row in sources(k, shape, rules):
                for n, s in row:
                    mean, by = spread(n, s, extra)
                    made[n] = (s, weights(n, s, mean, by))
                    lines.append(f"{n} BF16 {'x'.join(map(str, s))} {mean} {by}\n")
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
            rng = np.random.default_rng(20261123)
            ids = rng.integers(0, 1000, N_IDS).astype(np.int32)
            l = model(torch.from_numpy(ids.astype(np.int64))[None]).logits[0].numpy()
        n = sum(v.size for _, v in made.values())
        print(f"{name}: {len(lines)} tensors, {n} weights, largest logit {np.abs(l).max():.3g}")
        write_st(out + "/golden.safetensors", {"ids": ("I32", ids), "logits": ("F32", np.ascontiguousarray(l[3::4, ::4]))})


main()
