#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/grads/NAME.safetensors: gradients of micro checkpoints (archs.py, hybrids.py) by PyTorch's autograd through
transformers, in double precision.

A file has ids and answer [N]; loss, -sum log p(answer); blk.I, the gradient with respect to the residual that enters block I (every
fourth column); and for each matrix W with gradient G, by its name in GGUF files, two numbers: <G, W> and |G| |W|. Both are the same
however rows and experts are ordered or fused.

Usage: python3 tests/oracle/grads.py [NAME...]   (from the repository root; torch 2.15, transformers 5.23, numpy, gguf)
"""
import copy
import os
import re
import sys

import gguf
import numpy as np
import torch

import archs
import hybrids

OUT, N = "tests/golden/grads", 40
# name: architecture in gguf.MODEL_ARCH
MODELS = {
    "mamba2": "MAMBA2", "nemotron_h": "NEMOTRON_H", "nemotron_h_moe": "NEMOTRON_H_MOE", "granitehybrid": "GRANITE_HYBRID",
    "bamba": "GRANITE_HYBRID", "falcon-h1": "FALCON_H1", "mamba": "MAMBA", "falcon-mamba": "MAMBA", "jamba": "JAMBA",
    "kimi-linear": "KIMI_LINEAR", "bailingmoe3": "KIMI_LINEAR", "phimoe": "PHIMOE", "llama4": "LLAMA4", "gemma3n": "GEMMA3N",
}  # fmt: skip


def model_of(name):
    if name in hybrids.MODELS:
        config, rules, *more = copy.deepcopy(hybrids.MODELS[name])
        return hybrids.micro(config, rules, more[0] if more else {}, None), lambda k, s, sd: hybrids_parts(k, s, rules)
    config, extra = copy.deepcopy(archs.MODELS[name])
    return archs.micro(config, extra, None)[0], lambda k, s, sd: [n for n, _, _ in archs.sources(k, s, extra, sd)]


def hybrids_parts(name, shape, rules):
    return [n for row in hybrids.sources(name, shape, rules) for n, _ in row]


def parts(names, g, w):
    """Splits a parameter of transformers into its published tensors: [(name, gradient, weight)]."""
    if len(names) == 1 and "input_linear" in names[0]:  # gate | up
        kind = "experts" if g.dim() == 3 else "shared_experts"
        names = [re.sub(r"\.\w+\.input_linear", f".{kind}.{p}_proj", names[0]) for p in ("gate", "up")]
        return list(zip(names, g.chunk(2, -2), w.chunk(2, -2)))
    if len(names) == 1 and "gate_up_proj" in names[0]:  # [experts][inputs][gate | up]
        return [(names[0].replace("gate_up", p), a, b) for p, a, b in zip(("gate", "up"), g.chunk(2, -1), w.chunk(2, -1))]
    if len(names) == 1:
        return [(names[0], g, w)]
    if g.dim() == 3:
        per = len(names) // g.shape[0]
        return [x for e in range(g.shape[0]) for x in parts(names[e * per : (e + 1) * per], g[e], w[e])]
    return list(zip(names, g.chunk(len(names), 0), w.chunk(len(names), 0)))


def weights_of(name, model, names_of):
    """Returns {GGUF name: [<G, W>, |G|^2, |W|^2]} of all matrices that have a gradient."""
    sd = {k: tuple(v.shape) for k, v in model.state_dict().items()}
    layers = model.config.get_text_config().num_hidden_layers
    names = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, MODELS[name]), layers)
    out = {}
    for k, p in model.named_parameters():
        if p.grad is None or p.dim() < 2 or "embed_tokens" in k or "conv" in k:
            continue
        for published, g, w in parts(names_of(k, sd[k], sd), p.grad, p.detach()):
            plain = re.sub(r"experts\.\d+\.", "experts.", published)
            plain = plain.replace("language_model.", "")
            plain = plain.replace(".attention.dense.", ".self_attn.o_proj.").replace(".attention.", ".self_attn.")
            plain = re.sub(r"(altup_\w*projections)\.\d+", r"\1", plain)
            expert = re.fullmatch(r".*layers\.(\d+)\..*\b(shared_)?experts\.(gate|up|down)_proj(\.weight)?", plain)
            at = names.get_name(plain, (".weight", ""))
            if expert:
                at = f"blk.{expert[1]}.ffn_{expert[3]}_{'sh' if expert[2] else ''}exp{'' if expert[2] else 's'}"
            if not at:
                print(f"  {published}: gguf has no name for it")
            if not at or re.search(r"ssm_a\b|gate_inp|attn_kv_b", at):  # not given to observers, or stored as two matrices
                continue
            at = at if at.endswith(".weight") else at + ".weight"
            v = out.setdefault(at, np.zeros(3))
            v += [float((g * w).sum()), float((g * g).sum()), float((w * w).sum())]
    return out


def make(name):
    model, names_of = model_of(name)
    text = model.config.get_text_config()
    model = model.double()
    model.set_experts_implementation("eager")
    rng = np.random.default_rng(53)
    ids, answer = (rng.integers(0, 1000, N) for _ in range(2))
    seen = {}

    def hook(i):
        def keep(_, args, kwargs):
            x = args[0] if args else kwargs["hidden_states"]
            x.retain_grad()
            seen[i] = x
        return keep  # fmt: skip

    base = getattr(model, "model", model.base_model)
    for i, layer in enumerate(base.layers):
        layer.register_forward_pre_hook(hook(i), with_kwargs=True)
    float32, torch.float32 = torch.float32, torch.float64
    logits = model(torch.from_numpy(ids)[None]).logits[0]
    loss = -torch.log_softmax(logits.double(), -1)[torch.arange(N), torch.from_numpy(answer)].sum()
    loss.backward()
    torch.float32 = float32
    golden = {"ids": ("I32", ids.astype(np.int32)), "answer": ("I32", answer.astype(np.int32)),
              "loss": ("F32", np.array([loss.item()], np.float32))}  # fmt: skip
    for i, x in seen.items():
        if x.dim() > 3:  # several streams
            continue
        g = x.grad.reshape(N, text.hidden_size)
        golden[f"blk.{i}"] = ("F32", np.ascontiguousarray(g.float().numpy()[:, ::4]))
    for k, (dot, g2, w2) in sorted(weights_of(name, model, names_of).items()):
        golden[k] = ("F32", np.array([dot, (g2 * w2) ** 0.5], np.float32))
    os.makedirs(OUT, exist_ok=True)
    archs.write_st(f"{OUT}/{name}.safetensors", golden)
    print(f"  loss {loss.item():.6g}, {len(seen)} blocks, {len(golden) - 3 - len(seen)} matrices")


def main():
    for name in sys.argv[1:] or MODELS:
        make(name)


if __name__ == "__main__":
    main()
