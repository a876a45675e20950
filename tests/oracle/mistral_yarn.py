#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/models/mistral/yarn.safetensors: logits of the folder's weights when its config
asks for YaRN (factor 4, original context 4096; then with attention_factor 1.5 and other betas), and "l" for
rope_type "llama3" (factor 8, low 1, high 4, original context 512: kept, interpolated and divided pairs).

A plain decoder in NumPy, float64, from the description of the architecture, of YaRN and of Llama 3's scaling; half-split
rope on the Hugging Face weights, so the regrouping of rows is checked too.

Usage: python3 tests/oracle/mistral_yarn.py   (from the repository root; needs numpy)
"""
import json
import math
import struct

import numpy as np

DIR = "tests/golden/models/mistral"
D, HEADS, KV, HD, LAYERS, THETA = 128, 4, 2, 32, 3, 1e9


def read_st(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    out = {}
    for name, t in json.loads(raw[8 : 8 + n]).items():
        if name == "__metadata__":
            continue
        b = raw[8 + n + t["data_offsets"][0] : 8 + n + t["data_offsets"][1]]
        if t["dtype"] == "BF16":
            a = (np.frombuffer(b, np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        else:
            a = np.frombuffer(b, {"I32": np.int32, "F32": np.float32}[t["dtype"]])
        out[name] = a.reshape(t["shape"])
    return out


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


def angles(factor, orig, fast, slow):
    def corr(b):
        return HD * math.log(orig / (b * 2 * math.pi)) / (2 * math.log(THETA))

    low, high = max(0, math.floor(corr(fast))), min(HD - 1, math.ceil(corr(slow)))
    out = []
    for j in range(HD // 2):
        f = THETA ** (-2 * j / HD)
        keep = 1 - min(1, max(0, (j - low) / max(0.001, high - low)))  # 1: the pair rotates as in training
        out.append(f * (keep + (1 - keep) / factor))
    return out


def llama3(factor, low, high, orig):
    out = []
    for j in range(HD // 2):
        f = THETA ** (-2 * j / HD)
        turns = orig * f / (2 * math.pi)  # rotations of the pair within the original context
        smooth = min(1, max(0, (turns - low) / (high - low)))
        out.append(f * ((1 - smooth) / factor + smooth))
    return out


def rms(x, w):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-5) * w


def run(w, ids, freq, m):
    n = len(ids)
    ang = np.outer(np.arange(n), freq)
    cos, sin = m * np.cos(ang), m * np.sin(ang)

    def rope(x):  # [n][heads][HD]
        a, b = x[..., : HD // 2], x[..., HD // 2 :]
        return np.concatenate([a * cos[:, None] - b * sin[:, None], b * cos[:, None] + a * sin[:, None]], -1)

    x = w["model.embed_tokens.weight"][ids]
    for i in range(LAYERS):
        p = f"model.layers.{i}."
        h = rms(x, w[p + "input_layernorm.weight"])
        q = rope((h @ w[p + "self_attn.q_proj.weight"].T).reshape(n, HEADS, HD))
        k = rope((h @ w[p + "self_attn.k_proj.weight"].T).reshape(n, KV, HD))
        v = (h @ w[p + "self_attn.v_proj.weight"].T).reshape(n, KV, HD)
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
    return rms(x, w["model.norm.weight"]) @ w["lm_head.weight"].T


w, golden = read_st(DIR + "/model.safetensors"), read_st(DIR + "/golden.safetensors")
ids = golden["ids"]
plain = run(w, ids, [THETA ** (-2 * j / HD) for j in range(HD // 2)], 1)[1::2]
print("without yarn, against transformers:", np.abs(plain - golden["logits"]).max())
a = run(w, ids, angles(4, 4096, 32, 1), 0.1 * math.log(4) + 1)[1::2]
b = run(w, ids, angles(8, 1024, 16, 2), 1.5)[1::2]
l = run(w, ids, llama3(8, 1, 4, 512), 1)[1::2]
print("with it:", np.abs(a - plain).max(), np.abs(b - plain).max(), np.abs(l - plain).max())
keep = slice(24, None, 4)  # positions 49, 57, 65, 73
write_st(DIR + "/yarn.safetensors", {"a": ("F32", a[keep].astype(np.float32)), "b": ("F32", b[keep].astype(np.float32)), "l": ("F32", l[keep].astype(np.float32))})
