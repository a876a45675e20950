#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Logits of the multi-token prediction block of the two Qwen3.5 golden checkpoints.

    mtp.py            writes tests/golden/mtp/{qwen35,qwen35moe}.safetensors

transformers has no MTP block: it only gives the trunk's hidden rows (after the final norm, float32).
The block is written here in numpy (float64) from its description:

    e = rms(embed(id[t+1]); pre_fc_norm_embedding),  q = rms(y[t]; pre_fc_norm_hidden)
    x = fc (e | q), one full-attention decoder block, logits = lm_head . rms(x; norm)

Every norm weight w is used as 1 + w. As a check on the block itself (not on its input and output) the
decoder layer class of transformers gets the same weights and rows, and must agree within 1e-4.

Row t reads hidden row t and token t+1, and predicts token t+2. Made with numpy 2.4.6,
torch 2.15.0, transformers 5.23.0; the trunk's recorded logits are checked too."""
import os

import numpy as np
import torch
import transformers
from safetensors import safe_open
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "golden", "models")
OUT = os.path.join(HERE, "..", "golden", "mtp")
ROWS = np.arange(2, 79, 4)  # 20 of the 79 rows that have a next token


def weights(folder):
    out = {}
    for name in sorted(os.listdir(folder)):
        if name.startswith("model") and name.endswith(".safetensors"):
            with safe_open(os.path.join(folder, name), "pt") as f:
                for key in f.keys():
                    out[key] = f.get_tensor(key).to(torch.float64).numpy()
    return out


def rms(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * (1 + w)


def silu(x):
    return x / (1 + np.exp(-x))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def rope(x, n_rot, base):
    """Rotates the first n_rot dimensions of x [T, heads, dim], in pairs (j, j + n_rot/2)."""
    half = n_rot // 2
    angle = np.arange(len(x))[:, None] * base ** (-np.arange(half) * 2.0 / n_rot)
    c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
    y = x.copy()
    y[..., :half] = x[..., :half] * c - x[..., half:n_rot] * s
    y[..., half:n_rot] = x[..., half:n_rot] * c + x[..., :half] * s
    return y


def attention(w, p, h, c):
    n, heads, kv, dim = len(h), c.num_attention_heads, c.num_key_value_heads, c.head_dim
    qg = (h @ w[p + "q_proj.weight"].T).reshape(n, heads, 2 * dim)
    q, gate = qg[..., :dim], qg[..., dim:]
    k = (h @ w[p + "k_proj.weight"].T).reshape(n, kv, dim)
    v = (h @ w[p + "v_proj.weight"].T).reshape(n, kv, dim)
    n_rot, base = int(dim * c.rope_parameters["partial_rotary_factor"]), c.rope_parameters["rope_theta"]
    q = rope(rms(q, w[p + "q_norm.weight"], c.rms_norm_eps), n_rot, base)
    k = rope(rms(k, w[p + "k_norm.weight"], c.rms_norm_eps), n_rot, base)
    out = np.empty_like(q)
    for i in range(heads):
        j = i // (heads // kv)
        score = q[:, i] @ k[:, j].T / np.sqrt(dim)
        score[np.triu_indices(n, 1)] = -np.inf
        out[:, i] = softmax(score) @ v[:, j]
    return (out * sigmoid(gate)).reshape(n, heads * dim) @ w[p + "o_proj.weight"].T


def feed_forward(w, p, h, c):
    if p + "gate_proj.weight" in w:
        return (silu(h @ w[p + "gate_proj.weight"].T) * (h @ w[p + "up_proj.weight"].T)) @ w[p + "down_proj.weight"].T
    score = softmax(h @ w[p + "gate.weight"].T)
    best = np.argsort(-score, axis=-1, kind="stable")[:, :c.num_experts_per_tok]
    out = np.zeros_like(h)
    width = c.moe_intermediate_size
    for t, chosen in enumerate(best):
        for e in chosen:
            gu = w[p + "experts.gate_up_proj"][e] @ h[t]
            out[t] += score[t, e] / score[t, chosen].sum() * (w[p + "experts.down_proj"][e] @ (silu(gu[:width]) * gu[width:]))
    s = p + "shared_expert."
    shared = (silu(h @ w[s + "gate_proj.weight"].T) * (h @ w[s + "up_proj.weight"].T)) @ w[s + "down_proj.weight"].T
    return out + shared * sigmoid(h @ w[p + "shared_expert_gate.weight"].T)


def block(w, x, c):
    p = "mtp.layers.0."
    x = x + attention(w, p + "self_attn.", rms(x, w[p + "input_layernorm.weight"], c.rms_norm_eps), c)
    return x + feed_forward(w, p + "mlp.", rms(x, w[p + "post_attention_layernorm.weight"], c.rms_norm_eps), c)


def draft(w, y, ids, c):
    e = rms(w["model.language_model.embed_tokens.weight"][ids], w["mtp.pre_fc_norm_embedding.weight"], c.rms_norm_eps)
    q = rms(y, w["mtp.pre_fc_norm_hidden.weight"], c.rms_norm_eps)
    x = np.concatenate([e, q], -1) @ w["mtp.fc.weight"].T
    out = block(w, x, c)
    head = w.get("lm_head.weight", w["model.language_model.embed_tokens.weight"])
    return x, out, rms(out, w["mtp.norm.weight"], c.rms_norm_eps) @ head.T


def layer_of_transformers(model, w, x):
    """Computes the trunk's last layer (full attention) on rows x, with the MTP layer's weights."""
    text = model.model.language_model
    layer = text.layers[-1]
    sd = {k: torch.from_numpy(w["mtp.layers.0." + k]).float() for k in layer.state_dict()}
    layer.load_state_dict(sd)
    h = torch.from_numpy(x).float()[None]
    n = h.shape[1]
    pos = torch.arange(n)[None]
    mask = torch.full((n, n), float("-inf")).triu(1)[None, None]
    with torch.no_grad():
        out = layer(h, position_embeddings=text.rotary_emb(h, pos[None].expand(3, -1, -1)), attention_mask=mask, position_ids=pos)
    return (out[0] if isinstance(out, tuple) else out)[0].double().numpy()


def main():
    torch.set_num_threads(1)
    os.makedirs(OUT, exist_ok=True)
    for name in ("qwen35", "qwen35moe"):
        folder = os.path.join(MODELS, name)
        w = weights(folder)
        model = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        c = model.config.get_text_config()
        with safe_open(os.path.join(folder, "golden.safetensors"), "np") as f:
            ids, logits = f.get_tensor("ids"), f.get_tensor("logits")
        with torch.no_grad():
            y = model.model(input_ids=torch.from_numpy(ids).long()[None]).last_hidden_state[0].double().numpy()
        assert np.abs(y[1::2] @ w.get("lm_head.weight", w["model.language_model.embed_tokens.weight"]).T - logits).max() < 5e-4
        x, out, drafted = draft(w, y[:-1], ids[1:], c)
        diff = np.abs(layer_of_transformers(model, w, x) - out).max()
        assert diff < 1e-4, diff
        print(f"{name}: block against transformers' layer {diff:.2g}, logits up to {np.abs(drafted).max():.3g}")
        save_file({"rows": ROWS.astype(np.int32), "logits": drafted[ROWS].astype(np.float32)}, os.path.join(OUT, name + ".safetensors"))


if __name__ == "__main__":
    main()
