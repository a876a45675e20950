#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Cost of evaluation: peak memory with a vocabulary of 248,320 at contexts of 32,768 and 262,144, and the time of a streaming
divergence run compared with a perplexity run. Needs numpy; run from the root after `make`:

    python3 bench/eval-cost.py memory|time FILE.json [HONE]

memory: the tiny model's first two layers (one with full attention), its embedding and head repeated to 248,320 rows, as bf16.
`above_weights` is peak RSS less the tensor bytes of all models in the run: mapped pages count once touched, and all are
touched. The run at 262,144 is stopped after two progress lines.
time: tiny model; processor seconds per scored token of `eval kld` with 1 and 5 candidates over those of `eval ppl`, medians
of 5 interleaved rounds. All models are the same bf16 file, so every forward pass costs the same.
"""
import json
import os
import re
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

TINY = "tests/golden/tiny-qwen35moe"
VOCAB = 248320


def read_tensors():
    out = {}
    for name in sorted(os.listdir(TINY)):
        if not re.match(r"model-.*safetensors$", name):
            continue
        raw = open(f"{TINY}/{name}", "rb").read()
        n, = struct.unpack("<Q", raw[:8])
        for key, t in json.loads(raw[8:8 + n]).items():
            if key != "__metadata__":
                a, b = t["data_offsets"]
                out[key] = (t["dtype"], t["shape"], raw[8 + n + a:8 + n + b])
    return out


def big_vocabulary(folder):
    os.makedirs(folder)
    cfg = json.load(open(f"{TINY}/config.json"))
    cfg.update(vocab_size=VOCAB, num_hidden_layers=2, layer_types=cfg["layer_types"][:2], max_position_embeddings=262144)
    json.dump(cfg, open(f"{folder}/config.json", "w"))
    for f in ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja"):
        os.symlink(os.path.abspath(f"{TINY}/{f}"), f"{folder}/{f}")
    head, blobs, at = {}, [], 0
    for key, (dtype, shape, data) in read_tensors().items():
        layer = re.search(r"layers\.(\d+)\.", key)
        if layer and int(layer.group(1)) >= 2:
            continue
        if "embed_tokens" in key or "lm_head" in key:
            rows = np.frombuffer(data, "<u2").reshape(shape)
            data = np.tile(rows, (VOCAB // shape[0] + 1, 1))[:VOCAB].tobytes()
            shape = [VOCAB, shape[1]]
        head[key] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        blobs.append(data)
        at += len(data)
    text = json.dumps(head).encode()
    with open(f"{folder}/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def peak(cmd):
    """Runs a command and returns its peak RSS, output and seconds."""
    t = time.time()
    p = subprocess.Popen(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out = p.stdout.read()
    _, status, use = os.wait4(p.pid, 0)
    if status:
        sys.exit(p.stderr.read())
    return use.ru_maxrss * 1024, out, time.time() - t


def memory(hone, d):
    big_vocabulary(f"{d}/hf")
    subprocess.run([hone, "convert", f"{d}/hf", "-o", f"{d}/m.gguf", "-q", "--type", "bf16"], check=True, stdout=subprocess.DEVNULL)
    weights = os.path.getsize(f"{d}/m.gguf")
    text = open(f"{TINY}/self_calib.txt").read() + open(f"{TINY}/self_eval.txt").read()
    open(f"{d}/text", "w").write(text * 16)
    res = {"n_vocab": VOCAB, "layers": 2, "weights_bytes": weights, "runs": []}
    for name, cmd, models in (("ppl", ["ppl", f"{d}/m.gguf", f"{d}/text"], 1), ("kld", ["kld", f"{d}/m.gguf", f"{d}/text", "--base", f"{d}/m.gguf"], 1)):
        rss, _, s = peak([hone, "eval", *cmd, "--ctx", "32768", "--chunks", "1", "--json", "-q"])
        res["runs"].append({"run": name, "ctx": 32768, "peak_rss_bytes": rss, "above_weights_bytes": rss - models * weights, "seconds": round(s, 1)})
        print(res["runs"][-1], flush=True)
    p = subprocess.Popen([hone, "eval", "ppl", f"{d}/m.gguf", f"{d}/text", "--ctx", "262144", "--chunks", "1", "--progress", "always"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    seen, t, hwm = b"", time.time(), 0
    while seen.count(b" left") < 2 and time.time() - t < 170:
        chunk = os.read(p.stderr.fileno(), 4096)
        if not chunk:
            break
        seen += chunk
        hwm = int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{p.pid}/status").read()).group(1)) * 1024
    p.terminate()
    p.wait()
    lines = [x.strip() for x in re.split(r"[\r\n]", re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", seen.decode())) if " left" in x]
    res["long"] = {"ctx": 262144, "progress": lines[-1:] or seen.decode()[-200:], "peak_rss_bytes_so_far": hwm, "above_weights_bytes_so_far": hwm - weights, "stopped_after_s": round(time.time() - t, 1)}
    return res


def seconds_per_token(hone, args):
    """Processor seconds of the whole process, including loading; other programs disturb these less than wall time."""
    p = subprocess.Popen([hone, "eval", *args, "--chunks", "12", "--json", "-q"], stdout=subprocess.PIPE, text=True)
    n = json.loads(p.stdout.read())["n_tokens"]
    _, status, use = os.wait4(p.pid, 0)
    if status:
        sys.exit(f"hone eval {' '.join(args)} failed")
    return (use.ru_utime + use.ru_stime) / n


def cost(hone, d):
    subprocess.run([hone, "convert", TINY, "-o", f"{d}/m.gguf", "-q", "--type", "bf16"], check=True, stdout=subprocess.DEVNULL)
    for i in range(5):
        os.link(f"{d}/m.gguf", f"{d}/c{i}.gguf")
    text, c = f"{TINY}/self_eval.txt", [f"{d}/c{i}.gguf" for i in range(5)]
    runs = {"ppl": ["ppl", f"{d}/m.gguf", text], "kld_1": ["kld", c[0], text, "--base", f"{d}/m.gguf"], "kld_5": ["kld", *c, text, "--base", f"{d}/m.gguf"]}
    s = {k: [] for k in runs}
    for _ in range(5):
        for k, args in runs.items():
            s[k].append(seconds_per_token(hone, args))
    m = {k: statistics.median(v) for k, v in s.items()}
    return {"model": "tiny-qwen35moe bf16", "ctx": 512, "chunks": 12, "us_per_token": {k: [round(1e6 * x, 2) for x in v] for k, v in s.items()},
            "cost_1": round(m["kld_1"] / m["ppl"], 3), "cost_5": round(m["kld_5"] / m["ppl"], 3)}


what, path, hone = sys.argv[1], sys.argv[2], os.path.abspath(sys.argv[3] if len(sys.argv) > 3 else "build/hone")
res = json.load(open(path)) if os.path.exists(path) else {}
res["command"] = "python3 bench/eval-cost.py memory|time FILE.json"
res["cpu"] = re.search(r"model name\s*:\s*(.*)", open("/proc/cpuinfo").read()).group(1)
res["threads"] = os.cpu_count()
with tempfile.TemporaryDirectory() as d:
    res[what] = {"memory": memory, "time": cost}[what](hone, d)
json.dump(res, open(path, "w"), indent=1)
open(path, "a").write("\n")
print(json.dumps(res[what]))
