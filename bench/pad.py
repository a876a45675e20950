#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Gain of `convert --pad`: a random Gemma-4-like mixture of experts of width 704 (dense branch 576), with its experts in each
type in turn, both unpadded (rows of 704 get a fallback type) and padded to 768.

    python3 bench/pad.py build/hone SCRATCH OUT.json          (needs numpy)

Everything except the experts is Q8_0. Bytes are those of the expert tensors; the divergence is from the unquantized model over
the text shipped with hone, windows of 128 tokens. `at_equal_bytes`: the padded file's divergence over that of the unpadded
files at its size, interpolated in log divergence between neighbours. Weights are normal with log-normal scales by column: the
model is not trained, so differences between types count, not the values."""
import json
import math
import os
import struct
import subprocess
import sys

import numpy as np

GOLDEN = os.path.join(os.path.dirname(__file__), "../tests/golden/models/gemma4moe")
TEXT = os.path.join(os.path.dirname(__file__), "../calib/text/")
TYPES = ["IQ2_XXS", "IQ2_XS", "IQ2_S", "Q2_K", "IQ3_XXS", "IQ3_S", "Q3_K", "IQ4_XS", "Q4_K"]
D, L, E, F, DENSE, VOCAB = 256, 3, 8, 704, 576, 1280


def folder(path):
    os.makedirs(path, exist_ok=True)
    rng = np.random.default_rng(1)
    config = json.load(open(os.path.join(GOLDEN, "config.json")))
    config.pop("vision_config"), config.pop("audio_config")
    c = config["text_config"]
    kinds = ["sliding_attention", "sliding_attention", "full_attention"]
    c.update(hidden_size=D, num_hidden_layers=L, layer_types=kinds, num_experts=E, moe_intermediate_size=F, intermediate_size=DENSE,
             head_dim=64, global_head_dim=128, num_attention_heads=4, num_key_value_heads=2, num_global_key_value_heads=1)
    json.dump(config, open(os.path.join(path, "config.json"), "w"))
    for name in "tokenizer.json", "tokenizer_config.json", "generation_config.json":
        open(os.path.join(path, name), "wb").write(open(os.path.join(GOLDEN, name), "rb").read())
    tensors = {}

    def matrix(name, *shape):
        columns = np.exp(rng.normal(0, 0.4, shape[-1]))
        tensors[name] = rng.standard_normal(shape) * columns * 1.1 / np.sqrt(shape[-1] * np.mean(columns ** 2))

    def vector(name, n, mean=1.0, sd=0.2):
        tensors[name] = mean + sd * rng.standard_normal(n)

    tensors["embed_tokens.weight"] = rng.standard_normal((VOCAB, D)) * 0.06
    vector("norm.weight", D)
    for i, kind in enumerate(kinds):
        p, full = f"layers.{i}.", kind == "full_attention"
        hd, kv = (128, 1) if full else (64, 2)
        for n in ("input", "post_attention", "pre_feedforward", "post_feedforward"):
            vector(p + n + "_layernorm.weight", D)
        for n in ("post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"):
            vector(p + n + ".weight", D)
        matrix(p + "self_attn.q_proj.weight", 4 * hd, D)
        matrix(p + "self_attn.k_proj.weight", kv * hd, D)
        if not full:
            matrix(p + "self_attn.v_proj.weight", kv * hd, D)
        matrix(p + "self_attn.o_proj.weight", D, 4 * hd)
        vector(p + "self_attn.q_norm.weight", hd)
        vector(p + "self_attn.k_norm.weight", hd)
        matrix(p + "mlp.gate_proj.weight", DENSE, D)
        matrix(p + "mlp.up_proj.weight", DENSE, D)
        matrix(p + "mlp.down_proj.weight", D, DENSE)
        matrix(p + "router.proj.weight", E, D)
        vector(p + "router.scale", D)
        vector(p + "router.per_expert_scale", E)
        matrix(p + "experts.gate_up_proj", E, 2 * F, D)
        matrix(p + "experts.down_proj", E, D, F)
        vector(p + "layer_scalar", 1, 0.8, 0.1)
    header, blob, at = {}, [], 0
    for name, x in tensors.items():
        u = np.ascontiguousarray(x, np.float32).view(np.uint32)
        raw = ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16).tobytes()
        header["model.language_model." + name] = {"dtype": "BF16", "shape": list(x.shape), "data_offsets": [at, at + len(raw)]}
        blob.append(raw)
        at += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(path, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blob))


def main():
    hone, scratch, out = sys.argv[1:4]

    def run(*args):
        return json.loads(subprocess.run([hone, *args, "-q", "--json"], check=True, stdout=subprocess.PIPE).stdout)

    folder(os.path.join(scratch, "hf"))
    base = {}
    for way, flags in ("plain", []), ("padded", ["--pad"]):
        base[way] = os.path.join(scratch, way + ".gguf")
        run("convert", os.path.join(scratch, "hf"), "-o", base[way], "-f", *flags)
        run("imatrix", base[way], TEXT + "calib.txt", "-o", base[way] + ".imatrix", "--ctx", "128", "-f")
    rows, paths = [], [base["padded"]]
    for way in base:
        for t in TYPES:
            path = os.path.join(scratch, f"{way}-{t}.gguf")
            run("quantize", base[way], "-o", path, "-f", "--type", "Q8_0", "--tensor", f"_exps={t}", "--imatrix", base[way] + ".imatrix")
            tensors = [x for x in run("inspect", path, "--tensors")["tensors"] if "_exps.weight" in x["name"]]
            rows.append({"way": way, "asked": t, "down": next(x["type"] for x in tensors if "down" in x["name"]),
                         "expert_bytes": sum(x["size_bytes"] for x in tensors)})
            paths.append(path)
    k = run("eval", "kld", *paths, TEXT + "eval.txt", "--base", base["plain"], "--ctx", "128", "--chunks", "24")["candidates"]
    for r, c in zip(rows, k[1:]):
        r |= {"mean_kld": c["mean_kld"], "mean_kld_stderr": c["mean_kld_stderr"]}
    curve = sorted((r["expert_bytes"], r["mean_kld"]) for r in rows if r["way"] == "plain")
    for r in rows:
        for (b0, k0), (b1, k1) in zip(curve, curve[1:]):
            if r["way"] == "padded" and b0 <= r["expert_bytes"] <= b1 and b1 > b0:
                x = (r["expert_bytes"] - b0) / (b1 - b0)
                r["at_equal_bytes"] = round(r["mean_kld"] / math.exp((1 - x) * math.log(k0) + x * math.log(k1)), 3)
    n = L * E * 3 * F * D
    for r in rows:
        r["bits_per_weight"] = round(8 * r["expert_bytes"] / n, 3)
    json.dump({"command": "python3 bench/pad.py build/hone SCRATCH OUT.json", "expert_weights": n, "padding_alone_kld": k[0]["mean_kld"],
               "rows": rows}, open(out, "w"), indent=1)
    open(out, "a").write("\n")
    print(f"padding alone: {k[0]['mean_kld']:.2g}")
    for r in rows:
        print(f"{r['way']:7} {r['asked']:8} down {r['down']:8} {r['bits_per_weight']:6.3f} bits  KLD {r['mean_kld']:.4f} +- {r['mean_kld_stderr']:.4f}  {r.get('at_equal_bytes', '')}")


main()
