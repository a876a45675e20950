#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Forecasts of `hone make` (--dry-run) at full size, on folders with the shapes of real models, made of sparse files.

    python3 bench/hours.py build/hone SCRATCH docs/results/hours.json [SHAPE...]     (4B, 35B, 397B)

Sizes, disk and memory follow from the shapes; --max-memory exceeds what any of them needs, so this machine's memory limits
nothing. Hours are forecast from timings of a few seconds on this machine; all-zero weights may be searched faster or slower than
real ones. Each shape is forecast for presets alone and for mixes at each effort (everything: normal).

    python3 bench/hours.py --memory N build/hone SCRATCH docs/results/hours.json

runs jobs instead, on N blocks of the 4B shape, and adds the forecast memory and the process's peak to the file (RssAnon, read
every 20 ms: without pages of mapped files)."""
import json
import os
import shutil
import struct
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import memory  # noqa: E402  folders of the two MoE shapes

ASKED = {"presets": ["--plain", "--time", "0"], "fast": ["--effort", "fast", "--time", "0"], "everything": ["--time", "0"],
         "high": ["--effort", "high", "--time", "0"]}
MEMORY = "128GiB"
KEPT = ["hours", "file_bytes", "work_bytes", "memory_bytes", "cached_bytes", "n_probes", "feedback", "measured"]


def dense_4b(path, layers=36):
    """Qwen3-4B as one sparse file."""
    hidden, heads, kv, head, ff, vocab = 2560, 32, 8, 128, 9728, 151936
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


def measured(hone, scratch, layers):
    """Peak memory of two jobs and their forecasts."""
    src, out, rows = os.path.join(scratch, "4B"), os.path.join(scratch, "out"), {}
    text = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/golden/tiny-qwen35moe/self_eval.txt")
    small = ["--recipe", "Q4_K_M", "--eval", text, "--calib", text, "--chunks", "1", "--calib-chunks", "1", "--pp", "8", "--tg", "2", "--reps", "1",
             "--tools", "none"]
    dense_4b(src, layers)
    for name, asked in {"presets": ["--plain", "--time", "0"], "everything": ["--time", "0", "--probe-time", "20s"]}.items():
        shutil.rmtree(out, ignore_errors=True)
        shutil.rmtree(out + ".work", ignore_errors=True)
        forecast_bytes = forecast(hone, src, out, [*small, *asked])["memory_bytes"]
        run, peak = subprocess.Popen([hone, "make", src, "-o", out, "-q", "--max-memory", MEMORY, *small, *asked], stdout=subprocess.DEVNULL), [0]
        watch = threading.Thread(target=memory.watch_anon, args=(run.pid, peak))
        watch.start()
        if run.wait():
            sys.exit(f"{name}: exit {run.returncode}")
        watch.join()
        rows[name] = {"memory_bytes": forecast_bytes, "peak_anon_bytes": peak[0]}
    for d in src, out, out + ".work":
        shutil.rmtree(d)
    return {"blocks": layers, "jobs": rows}


if sys.argv[1] == "--memory":
    layers, hone, scratch, result = sys.argv[2:]
    table = json.load(open(result)) | {"memory_measured": measured(hone, scratch, int(layers))}
    json.dump(table, open(result, "w"), indent=1)
    sys.exit(0)
hone, scratch, result, *shapes = sys.argv[1:]
load, rows = os.getloadavg()[0], {}
for shape in shapes or ["4B", "35B", "397B"]:
    src = os.path.join(scratch, shape)
    dense_4b(src) if shape == "4B" else memory.folder(src, shape, memory.SHAPES[shape][1])
    rows[shape] = {name: forecast(hone, src, os.path.join(scratch, "out"), asked) for name, asked in ASKED.items()}
    shutil.rmtree(src)
json.dump({"command": "python3 bench/hours.py build/hone SCRATCH docs/results/hours.json", "threads": os.cpu_count(),
           "load_at_start": load, "shapes": rows}, open(result, "w"), indent=1)
