#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/eagle3/NAME: micro EAGLE-3 drafts for the golden checkpoint qwen3, and their logits.

A folder has config.json and tensors.txt as in tests/golden/archs (archs.py), and golden.safetensors: ids, rows, logits of these
rows, and `further`, the logits of two more tokens drafted after the last row. The draft is computed here with NumPy in float64 from
EAGLE-3's description (arXiv 2503.01840 and the published checkpoints' layout):

    x = fc (a | b | c), the inputs of three layers at position t; normalised first with norm_before_fc
    q, k, v of (rms(embed(id[t+1]); input_layernorm) | rms(x; hidden_norm)), causal attention with RoPE at position t
    x += attention, or rms(x; hidden_norm) + attention with norm_before_residual; x += feed-forward(rms(x))
    logits of the draft's tokens = lm_head . rms(x; norm)

A further token takes the place of id[t+1], and x (before the last norm) that of fc's result. transformers (float64) gives the
inputs of the layers. "shares" has no embeddings and 256 of 1024 tokens; "whole" has everything of its own, and another width.

Usage: python3 tests/oracle/eagle3.py   (from the repository root; numpy, torch 2.15, transformers 5.23)
"""
import json
import os

import numpy as np
import torch
import transformers
from safetensors import safe_open
from safetensors.numpy import save_file

from archs import VOCAB, weights

DIR, MODEL = "tests/golden/eagle3", "tests/golden/models/qwen3"
ROWS = np.arange(2, 79, 4)
BASE = dict(architectures=["LlamaForCausalLMEagle3"], model_type="llama", num_hidden_layers=1, vocab_size=VOCAB, hidden_act="silu",
            max_position_embeddings=512, tie_word_embeddings=False, bos_token_id=1010, eos_token_id=1012, rms_norm_eps=1e-5,
            num_attention_heads=4, num_key_value_heads=2, head_dim=32, target_hidden_size=128)  # fmt: skip
DRAFTS = {
    "shares": dict(hidden_size=128, intermediate_size=192, draft_vocab_size=256, rope_theta=10000.0,
                   eagle_aux_hidden_state_layer_ids=[0, 1, 3]),
    "whole": dict(hidden_size=64, intermediate_size=96, head_dim=16, draft_vocab_size=VOCAB, rope_theta=500000.0, norm_before_residual=True,
                  norm_before_fc=True, eagle_config=dict(eagle_aux_hidden_state_layer_ids=[0, 1, 2]),
                  rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                    original_max_position_embeddings=256)),
}  # fmt: skip


def shapes(c):
    d, head = c["hidden_size"], c["head_dim"]
    q, kv, ff = c["num_attention_heads"] * head, c["num_key_value_heads"] * head, c["intermediate_size"]
    yield "fc.weight", (d, 3 * c["target_hidden_size"])
    if d != c["target_hidden_size"]:
        yield "embed_tokens.weight", (VOCAB, d)
    if c.get("norm_before_fc"):
        yield "input_norm.weight", (3 * c["target_hidden_size"],)
    for name, shape in (("q", (q, 2 * d)), ("k", (kv, 2 * d)), ("v", (kv, 2 * d)), ("o", (d, q))):
        yield f"midlayer.self_attn.{name}_proj.weight", shape
    for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
        yield f"midlayer.{name}.weight", (d,)
    for name, shape in (("gate", (ff, d)), ("up", (ff, d)), ("down", (d, ff))):
        yield f"midlayer.mlp.{name}_proj.weight", shape
    yield "norm.weight", (d,)
    yield "lm_head.weight", (c["draft_vocab_size"], d)


def rms(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def silu(x):
    return x / (1 + np.exp(-x))


def frequencies(c):
    """Angles per position of each pair of dimensions, with Llama 3's scaling."""
    n = c["head_dim"]
    f = c["rope_theta"] ** (-np.arange(n // 2) * 2.0 / n)
    s = c.get("rope_scaling")
    if not s:
        return f
    old, low, high = s["original_max_position_embeddings"], s["low_freq_factor"], s["high_freq_factor"]
    wave = 2 * np.pi / f
    mix = (old / wave - low) / (high - low)
    return np.where(wave < old / high, f, np.where(wave > old / low, f / s["factor"], (1 - mix) * f / s["factor"] + mix * f))


def rope(x, pos, c):
    """Rotates x [T, heads, dim] at the given positions, in pairs (j, j + dim/2)."""
    half = x.shape[-1] // 2
    angle = np.asarray(pos)[:, None] * frequencies(c)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    return np.concatenate([x[..., :half] * cos - x[..., half:] * sin, x[..., half:] * cos + x[..., :half] * sin], -1)


class Draft:
    """A draft with the keys and values of all positions so far."""

    def __init__(self, w, c):
        self.w, self.c, self.k, self.v = w, c, [], []

    def features(self, rows):
        if self.c.get("norm_before_fc"):
            rows = rms(rows, self.w["input_norm.weight"], self.c["rms_norm_eps"])
        return rows @ self.w["fc.weight"].T

    def step(self, x, token):
        """One pair of a hidden state x [d] and the next token; returns the draft's own hidden state."""
        w, c, p = self.w, self.c, "midlayer."
        eps, dim, heads = c["rms_norm_eps"], c["head_dim"], c["num_attention_heads"]
        hn = rms(x, w[p + "hidden_norm.weight"], eps)
        both = np.concatenate([rms(w["embed_tokens.weight"][token], w[p + "input_layernorm.weight"], eps), hn])
        pos = [len(self.k)]
        q = rope((w[p + "self_attn.q_proj.weight"] @ both).reshape(1, -1, dim), pos, c)[0]
        self.k.append(rope((w[p + "self_attn.k_proj.weight"] @ both).reshape(1, -1, dim), pos, c)[0])
        self.v.append((w[p + "self_attn.v_proj.weight"] @ both).reshape(-1, dim))
        k, v, group = np.array(self.k), np.array(self.v), heads // c["num_key_value_heads"]
        out = np.empty((heads, dim))
        for i in range(heads):
            score = k[:, i // group] @ q[i] / np.sqrt(dim)
            a = np.exp(score - score.max())
            out[i] = a / a.sum() @ v[:, i // group]
        x = (hn if c.get("norm_before_residual") else x) + w[p + "self_attn.o_proj.weight"] @ out.reshape(-1)
        h = rms(x, w[p + "post_attention_layernorm.weight"], eps)
        m = p + "mlp."
        return x + w[m + "down_proj.weight"] @ (silu(w[m + "gate_proj.weight"] @ h) * (w[m + "up_proj.weight"] @ h))

    def logits(self, x):
        return rms(x, self.w["norm.weight"], self.c["rms_norm_eps"]) @ self.w["lm_head.weight"].T


def make(name, more, ids, inputs, embd):
    c = dict(BASE, **more)
    lines, w = [], {}
    for tensor, shape in shapes(c):
        mean, spread = (1.0, 0.25) if len(shape) == 1 else (0.0, (3.0 / shape[-1]) ** 0.5)
        lines.append(f"{tensor} BF16 {'x'.join(map(str, shape))} {mean} {spread:.9g}\n")
        w[tensor] = weights(tensor, shape, "BF16", mean, float(f"{spread:.9g}")).astype(np.float64)
    n = c["draft_vocab_size"]
    w.setdefault("embed_tokens.weight", embd)
    if n < VOCAB:  # token i of the draft is token 3 + 4 i of the model
        lines.append(f"d2t I64 {n} 3 -3\n")
    at = os.path.join(DIR, name)
    os.makedirs(at, exist_ok=True)
    with open(at + "/config.json", "w") as f:
        json.dump(c, f, indent=1)
        f.write("\n")
    with open(at + "/tensors.txt", "w") as f:
        f.writelines(sorted(lines))
    layers = c.get("eagle_aux_hidden_state_layer_ids") or [i + 1 for i in c["eagle_config"]["eagle_aux_hidden_state_layer_ids"]]
    d = Draft(w, c)
    x = d.features(np.concatenate([inputs[i] for i in layers], -1))
    own = [d.step(x[t], ids[t + 1]) for t in range(len(ids) - 1)]
    logits, last, further = d.logits(np.array(own)), own[-1], []
    for _ in range(2):
        i = int(np.argmax(d.logits(last)))
        last = d.step(last, 3 + 4 * i if n < VOCAB else i)
        further.append(d.logits(last))
    print(f"{name}: logits up to {np.abs(logits).max():.3g}")
    save_file({"ids": ids.astype(np.int32), "rows": ROWS.astype(np.int32), "logits": logits[ROWS].astype(np.float32),
               "further": np.array(further).astype(np.float32)}, at + "/golden.safetensors")  # fmt: skip


def main():
    torch.set_num_threads(1)
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float64, attn_implementation="eager").eval()
    inputs = {}
    for i, layer in enumerate(model.model.layers):
        layer.register_forward_pre_hook(lambda _, a, kw, i=i: inputs.update({i: (a[0] if a else kw["hidden_states"])[0].numpy()}), with_kwargs=True)
        layer.register_forward_hook(lambda _, a, out, i=i: inputs.update({i + 1: (out[0] if isinstance(out, tuple) else out)[0].numpy()}))
    with safe_open(os.path.join(MODEL, "golden.safetensors"), "np") as f:
        ids = f.get_tensor("ids")
    with torch.no_grad():
        model(input_ids=torch.from_numpy(ids).long()[None])
    inputs = {i: x.reshape(len(ids), -1) for i, x in inputs.items()}
    for name, more in DRAFTS.items():
        make(name, more, ids, inputs, model.model.embed_tokens.weight.detach().numpy())


if __name__ == "__main__":
    main()
