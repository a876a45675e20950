#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `hone make` takes at full size: its own forecast (--dry-run) for folders of the shapes of real models, made of sparse files.

    python3 bench/hours.py build/hone SCRATCH docs/results/hours.json [SHAPE...]     (4B, 35B, 397B)

Sizes, disk and memory follow from the shapes: --max-memory is more than any of them needs, so that the memory of this machine leaves
nothing out. Hours are what the program forecasts from what it times on this machine in a few seconds; weights that are all zero may be
searched faster or slower than real ones. Each shape is forecast for presets alone and for mixes at each effort (everything: normal)."""
import json
import os
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import memory  # noqa: E402  folders of the two MoE shapes

ASKED = {"presets": ["--plain", "--time", "0"], "fast": ["--effort", "fast", "--time", "0"], "everything": ["--time", "0"],
         "high": ["--effort", "high", "--time", "0"]}
MEMORY = "128GiB"
KEPT = ["hours", "file_bytes", "work_bytes", "memory_bytes", "cached_bytes", "n_probes", "feedback", "measured"]


def dense_4b(path):
    """Qwen3-4B: one file, holes for data."""
    hidden, layers, heads, kv, head, ff, vocab = 2560, 36, 32, 8, 128, 9728, 151936
    golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/golden/models/qwen3")
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    for name in "tokenizer.json", "tokenizer_config.json", "generation_config.json":
        shutil.copy(os.path.join(golden, name), path)
    config = json.load(open(os.path.join(golden, "config.json")))
    config |= {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": head,
               "intermediate_size": ff, "vocab_size": vocab, "max_position_embeddings": 40960, "layer_types": ["full_attention"] * layers}
    json.dump(config, open(os.path.join(path, "config.json"), "w"))
    shapes = {"model.embed_tokens.weight": [vocab, hidden], "model.norm.weight": [hidden]}
    for i in range(layers):
        p = f"model.layers.{i}."
        for name, dims in {"input_layernorm": [hidden], "post_attention_layernorm": [hidden], "self_attn.q_norm": [head],
                           "self_attn.k_norm": [head], "self_attn.q_proj": [heads * head, hidden], "self_attn.k_proj": [kv * head, hidden],
                           "self_attn.v_proj": [kv * head, hidden], "self_attn.o_proj": [hidden, heads * head],
                           "mlp.gate_proj": [ff, hidden], "mlp.up_proj": [ff, hidden], "mlp.down_proj": [hidden, ff]}.items():
            shapes[p + name + ".weight"] = dims
    header, off = {}, 0
    for name, dims in shapes.items():
        n = 2
        for d in dims:
            n *= d
        header[name] = {"dtype": "BF16", "shape": dims, "data_offsets": [off, off + n]}
        off += n
    text = json.dumps(header).encode()
    with open(os.path.join(path, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + off)


def forecast(hone, src, out, asked):
    run = subprocess.run([hone, "make", src, "-o", out, "--dry-run", "--max-memory", MEMORY, "--json", "-q", *asked], stdout=subprocess.PIPE, check=True)
    got = json.loads(run.stdout)
    return {k: got[k] for k in KEPT} | {"steps": {s["step"]: round(s["seconds"]) for s in got["steps"]}}


hone, scratch, result, *shapes = sys.argv[1:]
load, rows = os.getloadavg()[0], {}
for shape in shapes or ["4B", "35B", "397B"]:
    src = os.path.join(scratch, shape)
    dense_4b(src) if shape == "4B" else memory.folder(src, shape, memory.SHAPES[shape][1])
    rows[shape] = {name: forecast(hone, src, os.path.join(scratch, "out"), asked) for name, asked in ASKED.items()}
    shutil.rmtree(src)
json.dump({"command": "python3 bench/hours.py build/hone SCRATCH docs/results/hours.json", "threads": os.cpu_count(),
           "load_at_start": load, "shapes": rows}, open(result, "w"), indent=1)
