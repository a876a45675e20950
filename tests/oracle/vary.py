#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares variants of the micro checkpoints of archs.py and hybrids.py with transformers: different sizes, numbers of heads,
tied and untied, biases, scalings of rope, experts. Each is made in a scratch folder, converted, and its logits compared;
nothing is kept.

Usage: HONE=build/hone MICRO=.../tests/micro python3 tests/oracle/vary.py [--seed N] [--variants N] [NAME...] [KEY=JSON...]
KEY=JSON: one variant with these entries of config.json. MICRO is built by `make interop`'s rule, or: make OBJ/tests/micro.
A variant that hone refuses is printed with the reason, for a person to judge. Exit 1: logits differ.
"""
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

import numpy as np

import archs
import hybrids

HONE, MICRO = os.environ.get("HONE", "build/hone"), os.environ["MICRO"]
TOL = 5e-4

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 32.0, "beta_slow": 1.0}
LINEAR = {"rope_type": "linear", "factor": 4.0}


def places(config):
    """The dictionaries that contain hyperparameters."""
    return [config] + [config[k] for k in ("text_config",) if k in config]


def change(config, key, value):
    for c in places(config):
        if key in c:
            c[key] = value


def lookup(config, key):
    for c in reversed(places(config)):
        if key in c:
            return c[key]
    return None


# key -> values to choose from, given the config; only keys that a config has are changed.
CHOICES = {
    "hidden_size": [64, 144],  # transformers rounds factors of embeddings to BF16; the roots of these sizes are exact
    "intermediate_size": [40, 96, 136],
    "num_attention_heads": [2, 4, 8],
    "num_key_value_heads": [1, 2, "heads"],
    "head_dim": [8, 16, 32],
    "vocab_size": [1024, 1032, 1100],
    "tie_word_embeddings": [True, False],
    "attention_bias": [True, False],
    "mlp_bias": [True, False],
    "use_qkv_bias": [True, False],
    "use_bias": [True, False],
    "qkv_bias": [True, False],
    "use_qk_norm": [True, False],
    "rms_norm_eps": [1e-5, 1e-2],
    "layer_norm_eps": [1e-5, 1e-2],
    "rope_theta": [1e4, 5e5, 100.0],
    "rope_scaling": [None, LLAMA3, YARN, LINEAR],
    "partial_rotary_factor": [0.25, 0.5, 1.0],
    "sliding_window": [8, 16, 40, None],
    "num_experts": [4, 6, 9],
    "num_local_experts": [4, 6, 9],
    "n_routed_experts": [8, 16],
    "num_experts_per_tok": [1, 2, 3],
    "moe_intermediate_size": [24, 40],
    "shared_expert_intermediate_size": [24, 72],
    "n_shared_experts": [1, 2],
    "norm_topk_prob": [True, False],
    "routed_scaling_factor": [1.0, 2.5],
    "first_k_dense_replace": [0, 1, 2],
    "q_lora_rank": [24, 40],
    "kv_lora_rank": [16, 48],
    "v_head_dim": [16, 24, 32],
    "qk_rope_head_dim": [8, 16, 32],
    "qk_nope_head_dim": [8, 16, 24],
    "conv_L_cache": [2, 3, 4],
    "conv_bias": [True, False],
    "mamba_d_conv": [2, 3, 4],
    "conv_kernel": [2, 3, 4],
    "state_size": [8, 16, 32],
    "mamba_d_state": [8, 16, 32],
    "ssm_state_size": [8, 16, 32],
    "use_conv_bias": [True, False],
    "mamba_conv_bias": [True, False],
    "mamba_n_groups": [1, 2],
    "n_groups": [1, 2],
    "hidden_act": ["silu", "gelu"],
    "logit_scale": [0.25, 1.0],
    "initializer_range": [0.02],
}


def variant(config, rng):
    """Draws up to four changes for a config."""
    keys = [k for k in CHOICES if any(k in c for c in places(config))]
    changes = {}
    for k in rng.sample(keys, min(len(keys), rng.randint(1, 4))):
        v = rng.choice(CHOICES[k])
        changes[k] = lookup(config, "num_attention_heads") if v == "heads" else copy.deepcopy(v)
    return {k: v for k, v in changes.items() if v != lookup(config, k)}


def run(*args):
    p = subprocess.run(args, capture_output=True, text=True)
    return p.returncode, p.stdout.strip(), p.stderr.strip()


def compare(make, scratch, seed):
    """The largest difference between logits, or the reason why there are none."""
    try:
        ids, want = make(scratch + "/model", seed)
    except Exception as e:  # transformers refuses this combination
        return None, f"transformers: {type(e).__name__}: {str(e).splitlines()[0][:100] if str(e) else ''}"
    rc, folder, err = run(MICRO, scratch + "/model")
    f = scratch + "/m.gguf"
    rc, _, err = run(HONE, "convert", folder, "-o", f, "--type", "f32", "-f", "-q")
    shutil.rmtree(os.path.dirname(folder), ignore_errors=True)
    if rc:
        return None, "hone: " + err.splitlines()[-1][-160:]
    ids.astype("<i4").tofile(scratch + "/ids")
    rc, _, err = run(HONE, "eval", "logits", f, "--ids", scratch + "/ids", "-o", scratch + "/logits", "--act", "f32", "-f", "-q")
    if rc:
        return None, "hone eval: " + err.splitlines()[-1][-160:]
    got = np.fromfile(scratch + "/logits", "<f4").reshape(len(ids), -1)[:, : want.shape[1]]
    return float(np.abs(got - want).max() / max(1, np.abs(want).max() / 30)), ""


def maker(name, changes):
    if name in archs.MODELS:
        config, extra = copy.deepcopy(archs.MODELS[name])
        where = [config] + [extra[k] for k in ("oracle", "config") if k in extra]
        for c in where:
            for k, v in changes.items():
                change(c, k, copy.deepcopy(v))
        return lambda out, seed: archs.make(config, extra, out, seed)
    config, rules, *more = copy.deepcopy(hybrids.MODELS[name])
    for k, v in changes.items():
        change(config, k, copy.deepcopy(v))
    return lambda out, seed: hybrids.make(config, rules, more[0] if more else {}, out, seed)


def main():
    args, seed, variants, names, given = sys.argv[1:], 1, 3, [], {}
    while args:
        a = args.pop(0)
        if a == "--seed":
            seed = int(args.pop(0))
        elif a == "--variants":
            variants = int(args.pop(0))
        elif "=" in a:
            k, v = a.split("=", 1)
            given[k] = json.loads(v)
        else:
            names.append(a)
    bad = 0
    for name in names or [*archs.MODELS, *hybrids.MODELS]:
        config = (archs.MODELS.get(name) or hybrids.MODELS.get(name))[0]
        rng = random.Random(f"{seed} {name}")
        for i in range(1 if given else variants):
            changes = given or variant(config, rng)
            with tempfile.TemporaryDirectory() as scratch, open(os.devnull, "w") as null:
                out, sys.stdout = sys.stdout, null
                diff, why = compare(maker(name, changes), scratch, seed + i)
                sys.stdout = out
            bad += diff is not None and not diff <= TOL
            said = f"{diff:.2g}{'' if diff <= TOL else '  DIFFERS'}" if diff is not None else why
            print(f"{name}: {json.dumps(changes)}: {said}", flush=True)
    sys.exit(bad > 0)


main()
