#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/models/gemma4e and gemma4dense: random small checkpoints and their logits.

An implementation of the architecture's description in NumPy, float64, one token at a time with plain
loops, independent of the C code. gemma4e: per-layer embeddings, shared keys and values, double-wide
feed-forward. gemma4dense: no experts, values are raw keys in full layers, a re-saved config
(per_layer_config, no layer_types). The tokenizer is gemma4moe's.

Usage: python3 tests/oracle/gemma4.py   (from the repository root; needs numpy; deterministic)
"""
import json
import os
import struct

import numpy as np

VOCAB = 1280


def bf16(x):
    """Values rounded to bfloat16: (bits as uint16, value as float64)."""
    u = np.ascontiguousarray(x, np.float32).view(np.uint32)
    u = ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)
    return u, (u.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


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


class Model:
    def __init__(self, c, seed):
        self.c, self.rng = c, np.random.default_rng(seed)
        self.raw, self.w = {}, {}

    def new(self, name, shape, sd=None, mean=0.0):
        sd = 1 / np.sqrt(shape[-1]) if sd is None else sd
        bits, val = bf16(mean + sd * self.rng.standard_normal(shape))
        self.raw["model.language_model." + name] = ("BF16", bits)
        self.w[name] = val

    def kind(self, i):
        return self.c["kinds"][i]

    def shared(self, i):
        return i >= self.c["L"] - self.c["shared"]

    def make(self):
        c, d, L = self.c, self.c["d"], self.c["L"]
        self.new("embed_tokens.weight", (VOCAB, d), 1 / np.sqrt(d))
        self.new("norm.weight", (d,), 0.3, 6.0)
        if c["ple"]:
            self.new("embed_tokens_per_layer.weight", (VOCAB, L * c["ple"]), 1 / np.sqrt(c["ple"]))
            self.new("per_layer_model_projection.weight", (L * c["ple"], d), 1.0)
            self.new("per_layer_projection_norm.weight", (c["ple"],), 0.1, 1.0)
        for i in range(L):
            p, hd, kv = f"layers.{i}.", c["hd"][self.kind(i)], c["kv"][self.kind(i)]
            ff = c["ff"] * (2 if c["double"] and self.shared(i) else 1)
            for n in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"):
                self.new(p + n + ".weight", (d,), 0.2, 1.0)
            self.new(p + "layer_scalar", (1,), 0.1, 0.9)
            a = p + "self_attn."
            self.new(a + "q_proj.weight", (c["heads"] * hd, d))
            self.new(a + "o_proj.weight", (d, c["heads"] * hd))
            self.new(a + "q_norm.weight", (hd,), 0.1, 0.5)  # scores of order 1: rounding is not amplified
            if not self.shared(i) or i == L - c["shared"]:  # unused tensors are allowed
                self.new(a + "k_proj.weight", (kv * hd, d))
                self.new(a + "k_norm.weight", (hd,), 0.1, 0.5)
                if self.kind(i) == "sliding" or not c["k_eq_v"]:
                    self.new(a + "v_proj.weight", (kv * hd, d))
            self.new(p + "mlp.gate_proj.weight", (ff, d))
            self.new(p + "mlp.up_proj.weight", (ff, d))
            self.new(p + "mlp.down_proj.weight", (d, ff))
            if c["ple"]:
                self.new(p + "per_layer_input_gate.weight", (c["ple"], d))
                self.new(p + "per_layer_projection.weight", (d, c["ple"]))
                self.new(p + "post_per_layer_input_norm.weight", (d,), 0.2, 1.0)

    # ---- forward ----
    @staticmethod
    def rms(x, w=None):
        y = x / np.sqrt(np.mean(x * x) + 1e-6)
        return y if w is None else y * w

    @staticmethod
    def gelu(x):
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    def rope(self, x, pos, kind):
        hd, y = len(x), x.copy()
        base, pairs = (10000.0, hd // 2) if kind == "sliding" else (1000000.0, int(hd * 0.25 / 2))
        for j in range(pairs):
            t = pos * base ** (-2 * j / hd)
            a, b = x[j], x[j + hd // 2]
            y[j], y[j + hd // 2] = a * np.cos(t) - b * np.sin(t), a * np.sin(t) + b * np.cos(t)
        return y

    def layer(self, i, x, pos, ple):
        c, w, p, kind = self.c, self.w, f"layers.{i}.", self.kind(i)
        hd, kv, nh, a = c["hd"][kind], c["kv"][kind], c["heads"], f"layers.{i}.self_attn."
        h = self.rms(x, w[p + "input_layernorm.weight"])
        q = (w[a + "q_proj.weight"] @ h).reshape(nh, hd)
        q = [self.rope(self.rms(v, w[a + "q_norm.weight"]), pos, kind) for v in q]
        if self.shared(i):
            src = max(k for k in range(c["L"] - c["shared"]) if self.kind(k) == kind)
        else:
            src = i
            k = (w[a + "k_proj.weight"] @ h).reshape(kv, hd)
            v = (w[a + "v_proj.weight"] @ h).reshape(kv, hd) if a + "v_proj.weight" in w else k
            self.cache[i].append(([self.rope(self.rms(u, w[a + "k_norm.weight"]), pos, kind) for u in k], [self.rms(u) for u in v]))
        first = max(0, pos + 1 - c["window"]) if kind == "sliding" else 0
        o = []
        for n in range(nh):
            g = n // (nh // kv)
            s = np.array([q[n] @ self.cache[src][t][0][g] for t in range(first, pos + 1)])
            s = np.exp(s - s.max())
            s /= s.sum()
            o.append(sum(s[t] * self.cache[src][first + t][1][g] for t in range(len(s))))
        x = x + self.rms(w[a + "o_proj.weight"] @ np.concatenate(o), w[p + "post_attention_layernorm.weight"])
        h = self.rms(x, w[p + "pre_feedforward_layernorm.weight"])
        f = w[p + "mlp.down_proj.weight"] @ (self.gelu(w[p + "mlp.gate_proj.weight"] @ h) * (w[p + "mlp.up_proj.weight"] @ h))
        x = x + self.rms(f, w[p + "post_feedforward_layernorm.weight"])
        if c["ple"]:
            g = self.gelu(w[p + "per_layer_input_gate.weight"] @ x) * ple[i]
            x = x + self.rms(w[p + "per_layer_projection.weight"] @ g, w[p + "post_per_layer_input_norm.weight"])
        return x * w[p + "layer_scalar"]

    def run(self, ids):
        c, w, L, out = self.c, self.w, self.c["L"], []
        self.cache = [[] for _ in range(L)]
        for pos, t in enumerate(ids):
            x = w["embed_tokens.weight"][t] * np.sqrt(c["d"])
            ple = None
            if c["ple"]:
                e = w["embed_tokens_per_layer.weight"][t].reshape(L, -1) * np.sqrt(c["ple"])
                m = (w["per_layer_model_projection.weight"] @ x / np.sqrt(c["d"])).reshape(L, -1)
                ple = [(self.rms(m[i], w["per_layer_projection_norm.weight"]) + e[i]) / np.sqrt(2) for i in range(L)]
            for i in range(L):
                x = self.layer(i, x, pos, ple)
            l = w["embed_tokens.weight"] @ self.rms(x, w["norm.weight"])
            out.append(30 * np.tanh(l / 30))
        return np.array(out)


def save(name, m, config, ids):
    path = f"tests/golden/models/{name}"
    os.makedirs(path, exist_ok=True)
    m.make()
    write_st(f"{path}/model.safetensors", m.raw)
    logits = m.run(ids)[1::2].astype(np.float32)
    write_st(f"{path}/golden.safetensors", {"ids": ("I32", np.array(ids, np.int32)), "logits": ("F32", logits)})
    with open(f"{path}/config.json", "w") as f:
        json.dump(config, f, indent=1)
        f.write("\n")
    print(name, "logits up to", np.abs(logits).max(), "sd", logits.std())


def config(c, **text):
    t = {
        "model_type": "gemma4_text", "hidden_size": c["d"], "num_hidden_layers": c["L"], "num_attention_heads": c["heads"],
        "num_key_value_heads": c["kv"]["sliding"], "head_dim": c["hd"]["sliding"], "intermediate_size": c["ff"],
        "enable_moe_block": False, "num_experts": None, "top_k_experts": None, "moe_intermediate_size": None,
        "sliding_window": c["window"], "attention_k_eq_v": c["k_eq_v"], "num_kv_shared_layers": c["shared"],
        "use_double_wide_mlp": c["double"], "hidden_size_per_layer_input": c["ple"], "vocab_size": VOCAB,
        "vocab_size_per_layer_input": VOCAB, "rms_norm_eps": 1e-6, "hidden_activation": "gelu_pytorch_tanh",
        "attention_bias": False, "final_logit_softcapping": 30.0, "max_position_embeddings": 4096,
        "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                            "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0}},
    }
    t.update(text)
    return {"architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4", "tie_word_embeddings": True, "text_config": t}


S, F = "sliding", "full"
ids = [2] + [int(x) for x in np.random.default_rng(5).integers(20, VOCAB, 31)]
e = dict(d=48, L=8, heads=4, kv={S: 2, F: 2}, hd={S: 16, F: 32}, ff=40, window=9, k_eq_v=False, shared=4, double=True, ple=8,
         kinds=[S, S, F, S, S, S, F, F])
save("gemma4e", Model(e, 1),
     config(e, global_head_dim=32, num_global_key_value_heads=None, layer_types=[k + "_attention" for k in e["kinds"]]), ids)
# 13 layers: full at 5, 11, and the last
dense = dict(d=32, L=13, heads=4, kv={S: 2, F: 1}, hd={S: 16, F: 32}, ff=40, window=6, k_eq_v=True, shared=0, double=False, ple=0,
             kinds=[F if i % 6 == 5 or i == 12 else S for i in range(13)])
save("gemma4dense", Model(dense, 2),
     config(dense, layer_types=None,
            per_layer_config={str(i): {"head_dim": 32, "num_key_value_heads": 1} for i in (5, 11, 12)}), ids)
