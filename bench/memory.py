#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Peak memory of hone on full-width folders made of sparse files: shapes of real models, all data zero.

    python3 bench/memory.py build/hone SCRATCH OUT.json [--layers N] [--shapes 35B,397B] [--type bf16] [--max-gib 40] [--all]
    [--add] [--check]

For every shape: `convert --dry-run` over all layers (time, predicted bytes, peak), and a real convert of N layers, whose size
is compared with the prediction. With --all also imatrix (one chunk), quantize to Q4_K_M, eval ppl and eval kld (two windows) on
the result, compared with the plan of one pass (`hone plan`): activations, keys and values, recurrent state. --add: keep rows
of other runs in OUT.json. --check: exit 1 unless every peak of convert is below 512 MiB, every dry run takes less than 2
processor seconds, and every prediction equals the output's size. A step whose output would exceed --max-gib is skipped, with
a note. Peak is ru_maxrss of the process, including resident pages of mapped inputs; peak_anon_bytes excludes these (RssAnon,
read every 20 ms)."""
import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import threading
import time

SHAPES = {  # hidden, layers, heads, kv heads, linear value heads, experts, used, expert width
    "35B": (2048, 40, 16, 2, 32, 256, 8, 512),
    "397B": (4096, 60, 32, 2, 64, 512, 10, 1024),
}
VOCAB, KEY_HEADS, HEAD = 248320, 16, 128


def tensors(shape, n_layers):
    h, _, heads, kv, vh, experts, _, ff = SHAPES[shape]
    yield "model.language_model.embed_tokens.weight", [VOCAB, h], -1
    yield "lm_head.weight", [VOCAB, h], -1
    yield "model.language_model.norm.weight", [h], -1
    for i in range(n_layers):
        p = f"model.language_model.layers.{i}."
        one = {"input_layernorm.weight": [h], "post_attention_layernorm.weight": [h], "mlp.gate.weight": [experts, h],
               "mlp.experts.gate_up_proj": [experts, 2 * ff, h], "mlp.experts.down_proj": [experts, h, ff],
               "mlp.shared_expert.gate_proj.weight": [ff, h], "mlp.shared_expert.up_proj.weight": [ff, h],
               "mlp.shared_expert.down_proj.weight": [h, ff], "mlp.shared_expert_gate.weight": [1, h]}
        if i % 4 == 3:
            one |= {"self_attn.q_proj.weight": [2 * heads * 256, h], "self_attn.k_proj.weight": [kv * 256, h],
                    "self_attn.v_proj.weight": [kv * 256, h], "self_attn.o_proj.weight": [h, heads * 256],
                    "self_attn.q_norm.weight": [256], "self_attn.k_norm.weight": [256]}
        else:
            conv = (2 * KEY_HEADS + vh) * HEAD
            one |= {"linear_attn.conv1d.weight": [conv, 1, 4], "linear_attn.in_proj_qkv.weight": [conv, h],
                    "linear_attn.in_proj_z.weight": [vh * HEAD, h], "linear_attn.in_proj_a.weight": [vh, h],
                    "linear_attn.in_proj_b.weight": [vh, h], "linear_attn.A_log": [vh], "linear_attn.dt_bias": [vh],
                    "linear_attn.norm.weight": [HEAD], "linear_attn.out_proj.weight": [h, vh * HEAD]}
        for name, dims in one.items():
            yield p + name, dims, i


def folder(path, shape, n_layers):
    """Writes one sparse shard per layer and one for the other tensors."""
    h, _, heads, kv, vh, experts, used, ff = SHAPES[shape]
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    golden = os.path.join(os.path.dirname(__file__), "../tests/golden/models/qwen35moe")
    for name in "tokenizer.json", "tokenizer_config.json", "generation_config.json":
        shutil.copy(os.path.join(golden, name), path)
    config = json.load(open(os.path.join(golden, "config.json")))
    config.pop("vision_config", None)
    config["text_config"] |= {
        "hidden_size": h, "num_hidden_layers": n_layers, "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": 256,
        "linear_key_head_dim": HEAD, "linear_value_head_dim": HEAD, "linear_num_key_heads": KEY_HEADS, "linear_num_value_heads": vh,
        "num_experts": experts, "num_experts_per_tok": used, "moe_intermediate_size": ff, "shared_expert_intermediate_size": ff,
        "vocab_size": VOCAB, "mtp_num_hidden_layers": 0, "max_position_embeddings": 262144,
        "layer_types": ["full_attention" if i % 4 == 3 else "linear_attention" for i in range(n_layers)]}
    json.dump(config, open(os.path.join(path, "config.json"), "w"))
    shards = {}
    for name, dims, i in tensors(shape, n_layers):
        shards.setdefault(i, []).append((name, dims))
    index, total = {}, 0
    for k, (_, items) in enumerate(sorted(shards.items())):
        header, off = {}, 0
        for name, dims in items:
            n = 2
            for d in dims:
                n *= d
            header[name] = {"dtype": "BF16", "shape": dims, "data_offsets": [off, off + n]}
            off += n
        text = json.dumps(header).encode()
        file = f"model-{k + 1:05d}-of-{len(shards):05d}.safetensors"
        with open(os.path.join(path, file), "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            f.truncate(8 + len(text) + off)
        index |= {name: file for name, _ in items}
        total += off
    json.dump({"weight_map": index}, open(os.path.join(path, "model.safetensors.index.json"), "w"))
    return total


def watch_anon(pid, peak):
    try:
        while True:
            for line in open(f"/proc/{pid}/status"):
                if line.startswith("RssAnon:"):
                    peak[0] = max(peak[0], int(line.split()[1]) * 1024)
            time.sleep(0.02)
    except OSError:
        pass


def run(*cmd):
    t, anon = time.time(), [0]
    p = subprocess.Popen(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    threading.Thread(target=watch_anon, args=(p.pid, anon), daemon=True).start()
    out, err = p.stdout.read(), p.stderr.read()
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode:
        sys.exit(f"{' '.join(cmd)}: exit {p.returncode}\n{err.decode()}")
    return {"seconds": round(time.time() - t, 2), "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
            "peak_rss_bytes": usage.ru_maxrss * 1024, "peak_anon_bytes": anon[0]}, json.loads(out or b"{}")


def planned(hone, model):
    """Anonymous memory of one window of 512 tokens, predicted by `hone plan` from the header."""
    j = json.loads(subprocess.check_output([hone, "plan", model, "--ctx", "512", "--kv-type", "f32", "--json", "-q"]))
    return {"planned_pass_bytes": j["activations_bytes"] + j["kv_bytes"] + j["state_bytes"], "planned_weights_bytes": j["weights_bytes"]}


def use(hone, scratch, model, shape, n_layers):
    """The steps after convert: name, output bytes, results of run() and expected values."""
    h, _, _, _, _, experts, _, ff = SHAPES[shape]
    # sums in double: one set for the current chunk and one for the total (docs/design/scale.md)
    sums = n_layers * experts * (2 * h + ff) * 8 * 2
    text = os.path.join(os.path.dirname(__file__), "../tests/golden/tiny-qwen35moe/self_eval.txt")
    im, q = os.path.join(scratch, "im.gguf"), os.path.join(scratch, "q.gguf")
    steps = (("imatrix", im, [hone, "imatrix", model, text, "--chunks", "1", "-o", im]),
             ("quantize Q4_K_M", q, [hone, "quantize", model, "--recipe", "Q4_K_M", "--search", "fast", "--imatrix", im, "-o", q]),
             ("eval ppl", None, [hone, "eval", "ppl", q, text, "--chunks", "2"]),
             ("eval kld", None, [hone, "eval", "kld", q, text, "--base", model, "--chunks", "2"]))
    for name, out, cmd in steps:
        r, _ = run(*cmd, "--json", "-q")
        if name == "imatrix":
            r |= planned(hone, model) | {"expected_sums_bytes": sums}
        elif not out:
            r |= planned(hone, q)
        yield name, os.path.getsize(out) if out else None, r
    os.remove(im)
    os.remove(q)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("hone")
    a.add_argument("scratch")
    a.add_argument("out")
    a.add_argument("--layers", type=int, default=2)
    a.add_argument("--shapes", default="35B,397B")
    a.add_argument("--type", default="bf16")
    a.add_argument("--max-gib", type=float, default=40)
    a.add_argument("--all", action="store_true")
    a.add_argument("--add", action="store_true")
    a.add_argument("--check", action="store_true")
    a = a.parse_args()
    rows = []
    for shape in a.shapes.split(","):
        path = os.path.join(a.scratch, "folder")
        target = os.path.join(a.scratch, "out.gguf")
        full = SHAPES[shape][1]
        in_bytes = folder(path, shape, full)
        r, j = run(a.hone, "convert", path, "-o", target, "--type", a.type, "--dry-run", "--json", "-q")
        rows.append({"shape": shape, "layers": full, "step": "convert --dry-run", "input_bytes": in_bytes,
                     "predicted_bytes": j.get("size_bytes"), **r})
        in_bytes = folder(path, shape, a.layers)
        _, j = run(a.hone, "convert", path, "-o", target, "--type", a.type, "--dry-run", "--json", "-q")
        if j["size_bytes"] > a.max_gib * 2**30:
            rows.append({"shape": shape, "layers": a.layers, "step": "convert", "left_out": "output over --max-gib"})
        else:
            r, _ = run(a.hone, "convert", path, "-o", target, "--type", a.type, "-f", "--json", "-q")
            rows.append({"shape": shape, "layers": a.layers, "step": "convert", "input_bytes": in_bytes,
                         "predicted_bytes": j["size_bytes"], "output_bytes": os.path.getsize(target), **r})
            for step, size, r in use(a.hone, a.scratch, target, shape, a.layers) if a.all else ():
                rows.append({"shape": shape, "layers": a.layers, "step": step, **({"output_bytes": size} if size else {}), **r})
            os.remove(target)
        shutil.rmtree(path)
    old = json.load(open(a.out)) if a.add else {"commands": [], "rows": []}
    measured = {(r["shape"], r["layers"], r["step"]) for r in rows}
    old["commands"].append("python3 bench/memory.py build/hone SCRATCH OUT.json " + " ".join(sys.argv[4:]))
    old["machine"] = f"{os.cpu_count()} processors"
    old["rows"] = [r for r in old["rows"] if (r["shape"], r["layers"], r["step"]) not in measured] + rows
    json.dump(old, open(a.out, "w"), indent=1)
    open(a.out, "a").write("\n")
    bad = 0
    for r in rows:
        wrong = [w for w, is_so in (("peak", r["step"].startswith("convert") and r.get("peak_rss_bytes", 0) >= 512 << 20),
                                    ("time", "dry" in r["step"] and r["cpu_seconds"] >= 2),
                                    ("size", "predicted_bytes" in r and r.get("output_bytes", r["predicted_bytes"]) != r["predicted_bytes"]),
                                    ("left out", "left_out" in r)) if is_so]
        bad += len(wrong)
        print(r, *wrong)
    sys.exit(bad > 0 and a.check)


if __name__ == "__main__":
    main()
