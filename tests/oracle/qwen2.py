#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/models/qwen2: a Qwen2ForCausalLM folder of random bf16 weights (no head_dim in its config, tied embeddings; its
tokenizer files are copies of ../qwen3's), and golden.safetensors with logits at odd positions.

The forward pass is a plain decoder in NumPy, float64, from the description of the architecture: biases of q, k and v, rope over halves of
heads, grouped keys and values, SwiGLU. tests/oracle/mistral_yarn.py, which has the same steps except the biases, agrees with
transformers within 4e-6.

Usage: python3 tests/oracle/qwen2.py   (from the repository root; needs numpy)
"""
import json
import math
import os
import struct

import numpy as np

DIR = "tests/golden/models/qwen2"
D, HEADS, KV, LAYERS, FF, VOCAB, THETA, EPS = 64, 4, 2, 2, 96, 1024, 1e6, 1e-6
HD = D // HEADS
rng = np.random.default_rng(20261122)


def bf16(a):
    u = a.astype(np.float32).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)


def rand(*shape, scale):
    return bf16(rng.normal(0, scale, shape))


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


raw = {"model.embed_tokens.weight": rand(VOCAB, D, scale=0.5), "model.norm.weight": bf16(1 + rng.normal(0, 0.1, D))}
for i in range(LAYERS):
    p = f"model.layers.{i}."
    for n, rows in (("q", D), ("k", KV * HD), ("v", KV * HD)):
        raw[p + f"self_attn.{n}_proj.weight"] = rand(rows, D, scale=0.2)
        raw[p + f"self_attn.{n}_proj.bias"] = rand(rows, scale=0.5)
    raw[p + "self_attn.o_proj.weight"] = rand(D, D, scale=0.2)
    raw[p + "mlp.gate_proj.weight"] = rand(FF, D, scale=0.2)
    raw[p + "mlp.up_proj.weight"] = rand(FF, D, scale=0.2)
    raw[p + "mlp.down_proj.weight"] = rand(D, FF, scale=0.2)
    for n in ("input_layernorm", "post_attention_layernorm"):
        raw[p + n + ".weight"] = bf16(1 + rng.normal(0, 0.1, D))
w = {k: (v.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for k, v in raw.items()}
ids = rng.integers(0, 1000, 80).astype(np.int32)


def rms(x, g):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + EPS) * g


def logits(biases=True):
    n = len(ids)
    ang = np.outer(np.arange(n), [THETA ** (-2 * j / HD) for j in range(HD // 2)])
    cos, sin = np.cos(ang)[:, None], np.sin(ang)[:, None]

    def project(h, p, name):
        y = h @ w[p + f"self_attn.{name}_proj.weight"].T
        return (y + w[p + f"self_attn.{name}_proj.bias"] * biases).reshape(n, -1, HD)

    def rope(x):
        a, b = x[..., : HD // 2], x[..., HD // 2 :]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    x = w["model.embed_tokens.weight"][ids]
    for i in range(LAYERS):
        p = f"model.layers.{i}."
        h = rms(x, w[p + "input_layernorm.weight"])
        q, k, v = rope(project(h, p, "q")), rope(project(h, p, "k")), project(h, p, "v")
        o = np.zeros((n, HEADS, HD))
        for head in range(HEADS):
            g = head // (HEADS // KV)
            s = q[:, head] @ k[:, g].T / math.sqrt(HD)
            s = np.where(np.tril(np.ones((n, n))) > 0, s, -np.inf)
            s = np.exp(s - s.max(-1, keepdims=True))
            o[:, head] = s / s.sum(-1, keepdims=True) @ v[:, g]
        x = x + o.reshape(n, -1) @ w[p + "self_attn.o_proj.weight"].T
        h = rms(x, w[p + "post_attention_layernorm.weight"])
        a = h @ w[p + "mlp.gate_proj.weight"].T
        x = x + (a / (1 + np.exp(-a)) * (h @ w[p + "mlp.up_proj.weight"].T)) @ w[p + "mlp.down_proj.weight"].T
    return rms(x, w["model.norm.weight"]) @ w["model.embed_tokens.weight"].T


config = {
    "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1010, "eos_token_id": 1012, "hidden_act": "silu",
    "hidden_size": D, "intermediate_size": FF, "max_position_embeddings": 4096, "max_window_layers": 2, "model_type": "qwen2",
    "num_attention_heads": HEADS, "num_hidden_layers": LAYERS, "num_key_value_heads": KV, "rms_norm_eps": EPS, "rope_theta": THETA,
    "sliding_window": 4096, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_sliding_window": False, "vocab_size": VOCAB,
}  # fmt: skip
os.makedirs(DIR, exist_ok=True)
json.dump(config, open(DIR + "/config.json", "w"), indent=2)
write_st(DIR + "/model.safetensors", {k: ("BF16", v) for k, v in raw.items()})
l = logits()[1::2]
print("largest logit", np.abs(l).max(), "biases change", np.abs(l - logits(False)[1::2]).max())
write_st(DIR + "/golden.safetensors", {"ids": ("I32", ids), "logits": ("F32", l.astype(np.float32))})
