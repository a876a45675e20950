#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Forecasts of `hone make` (--dry-run) at full size, on folders with the shapes of real models, made of sparse files.

    python3 bench/hours.py build/hone SCRATCH docs/results/hours.json [SHAPE...]     (0.5B, 4B, 27B, 35B, 397B)

Sizes, disk and memory follow from the shapes; --max-memory exceeds what any of them needs, so this machine's memory limits
nothing. Hours follow from the speeds of this machine's threads with AVX2 code, which the first forecast measures on random
rows, without other load. Each shape is forecast for presets alone and for mixes at each effort (everything: normal), also
for machines with a card, next to the targets of issue 51. hours_16_threads, without a card, divides the time by the number
of threads. dry_run_seconds: the longest forecast of the shape, which on a new machine includes measuring its speeds; exit 1
if the 35B takes more than 20 s.

    python3 bench/hours.py --run build/hone SRC SCRATCH [OPTION...]

forecasts a job, runs it, and adds forecast, run, their ratio and what the job measured to docs/results/hours-run.json; exit 1 if the total is off
by more than 1.3. SRC: a model, or 4B or 35B for random weights of that shape with 4 layers. Run it on a quiet machine. If it
is interrupted (exit 75), the same command continues, and the times add up.

    python3 bench/hours.py --memory N build/hone SCRATCH docs/results/hours.json

runs jobs instead, on N blocks of the 4B shape, and adds the forecast memory and the process's peak to the file (RssAnon, read
every 20 ms: without pages of mapped files)."""
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import memory  # noqa: E402  folders of the two MoE shapes

ASKED = {"presets": ["--plain", "--time", "0"], "fast": ["--effort", "fast", "--time", "0"], "everything": ["--time", "0"],
         "high": ["--effort", "high", "--time", "0"]}
MEMORY, ISA = "128GiB", "avx2"  # the targets are for AVX2
KEPT = ["file_bytes", "work_bytes", "memory_bytes", "cached_bytes", "n_probes", "feedback", "measured"]


DRY_RUN_SECONDS = 20
FOUR_LAYERS = ["4B", "35B"]
RUNS = "docs/results/hours-run.json"
AGAIN = 75  # exit status: the same command continues

# hidden, layers, heads, kv heads, head size, feed-forward, vocabulary, tied head
DENSE = {"0.5B": (896, 24, 14, 2, 64, 4864, 151936, True), "4B": (2560, 36, 32, 8, 128, 9728, 151936, True),
         "27B": (5120, 60, 40, 8, 128, 17408, 151936, False)}
# targets of issue 51 for the complete job, in hours: two AVX2 threads; 16 threads; RTX 4090; H100 or H200
TARGETS = {"0.5B": [1.4, .2, .083, None], "4B": [11, 1.4, .25, .13], "27B": [60, 8, 1, .67], "35B": [28, 4.5, 1, .58],
           "397B": [240, 30, None, None]}


def dense(path, shape, layers=None):
    """A dense model of Qwen3's architecture as one sparse file."""
    hidden, n_layers, heads, kv, head, ff, vocab, tied = DENSE[shape]
    layers = layers or n_layers
    golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/golden/models/qwen3")
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    for name in "tokenizer.json", "tokenizer_config.json", "generation_config.json":
        shutil.copy(os.path.join(golden, name), path)
    config = json.load(open(os.path.join(golden, "config.json")))
    config |= {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": head,
               "intermediate_size": ff, "vocab_size": vocab, "max_position_embeddings": 40960, "layer_types": ["full_attention"] * layers,
               "tie_word_embeddings": tied}
    json.dump(config, open(os.path.join(path, "config.json"), "w"))
    shapes = {"model.embed_tokens.weight": [vocab, hidden], "model.norm.weight": [hidden]}
    if not tied:
        shapes["lm_head.weight"] = [vocab, hidden]
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


def forecast(hone, src, out, asked, took):
    """The forecast of a job; its own seconds are added to took."""
    t0 = time.monotonic()
    run = subprocess.run([hone, "make", src, "-o", out, "--dry-run", "--max-memory", MEMORY, "--isa", ISA, "--json", "-q", *asked],
                         stdout=subprocess.PIPE, check=True)
    took.append(round(time.monotonic() - t0, 1))
    got = json.loads(run.stdout)
    quiet, *cards = got["machines"]
    return {"hours": round(quiet["seconds"] / 3600, 2),
            "hours_16_threads": round(quiet["seconds"] / 3600 * os.cpu_count() / 16, 2)} | {k: got[k] for k in KEPT} | {
        # computed from rates of the cards (make/machines.c), not measured
        "hours_with_card": {m["card"]: round(m["seconds"] / 3600, 2) for m in cards}}


def source(hone, name, scratch):
    """The model to run: a path, or random weights of a shape, made once."""
    if name not in FOUR_LAYERS:
        return name
    path, shapes = os.path.join(scratch, name + "-4.gguf"), []
    if not os.path.exists(path):
        if name in DENSE:
            folder = os.path.join(scratch, name)
            dense(folder, name)
            shapes = ["--arch-from", os.path.join(folder, "config.json")]
        tokenizer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/golden/tiny-qwen35moe")
        subprocess.run([hone, "synth", *shapes, "--layers", "4", "--recipe", "BF16", "--tokenizer", tokenizer, "-o", path, "-q"], check=True,
                       stdout=subprocess.DEVNULL)
        shutil.rmtree(os.path.join(scratch, name), ignore_errors=True)
    return path


def interrupted(*_):
    raise KeyboardInterrupt


def run_part(hone, job, src, out):
    """Runs the job or, after an interruption, the rest of it; adds the seconds to job. Returns its exit status."""
    t0, made = time.monotonic(), subprocess.Popen([hone, "make", src, "-o", out, "-q", *job["options"]], stdout=subprocess.DEVNULL)
    try:
        status = made.wait()
    except KeyboardInterrupt:
        made.terminate()
        made.wait()
        status = AGAIN
    job["parts"].append({"seconds": round(time.monotonic() - t0, 1), "load_at_end": os.getloadavg()[0]})
    return status


def measured_files(out):
    """The comparison of each file with the preset of its size. The job measured a preset on preset_chunks windows, until
    the better file was clear, and preset_kld is scaled to all windows; `why` has both files on the same windows."""
    kept = ("size_class", "size_bytes", "made", "n_chunks", "mean_kld", "mean_kld_stderr", "kld_p999", "same_top1", "preset_kld", "preset_chunks", "why")
    return [{k: f[k] for k in kept if k in f} for f in json.load(open(os.path.join(out, "results.json")))["files"] if "size_class" in f]


def run_job(hone, name, scratch, more):
    """Forecasts and runs one job; returns the ratio of the total times."""
    out, note = os.path.join(scratch, "run"), os.path.join(scratch, "run.json")
    src = source(hone, name, scratch)
    job = json.load(open(note)) if os.path.exists(note) else None
    if not job or job["model"] != name or job["options"] != more:
        for d in out, out + ".work":
            shutil.rmtree(d, ignore_errors=True)
        load = os.getloadavg()[0]
        run = subprocess.run([hone, "make", src, "-o", out, "--dry-run", "--json", "-q", *more], stdout=subprocess.PIPE, check=True)
        said = json.loads(run.stdout)
        job = {"model": name, "options": more, "threads": os.cpu_count(), "load_at_start": load, "forecast_seconds": round(said["seconds"], 1),
               "quiet_seconds": round(said["machines"][0]["seconds"], 1),
               "forecast": {s["step"]: round(s["seconds"], 1) for s in said["steps"]}, "parts": []}
        json.dump(job, open(note, "w"))
    status = run_part(hone, job, src, out)
    json.dump(job, open(note, "w"))
    if status:
        sys.exit(status)
    job["seconds"] = round(sum(p["seconds"] for p in job["parts"]), 1)
    job["ratio"] = round(job["forecast_seconds"] / job["seconds"], 2)
    job["model"], job["files"] = os.path.basename(name), measured_files(out)
    table = json.load(open(RUNS)) if os.path.exists(RUNS) else {"command": "python3 bench/hours.py --run build/hone SRC SCRATCH [OPTION...]", "jobs": []}
    table["jobs"] = [j for j in table["jobs"] if (j["model"], j["options"]) != (job["model"], more)] + [job]
    json.dump(table, open(RUNS, "w"), indent=1)
    print(json.dumps(job, indent=1))
    os.remove(note)
    return job["ratio"]


def measured(hone, scratch, layers):
    """Peak memory of two jobs, and the forecasts of it."""
    src, out, rows = os.path.join(scratch, "4B"), os.path.join(scratch, "out"), {}
    text = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/golden/tiny-qwen35moe/self_eval.txt")
    small = ["--recipe", "Q4_K_M", "--eval", text, "--calib", text, "--chunks", "1", "--calib-chunks", "1", "--pp", "8", "--tg", "2", "--reps", "1",
             "--tools", "none"]
    dense(src, "4B", layers)
    for name, asked in {"presets": ["--plain", "--time", "0"], "everything": ["--time", "0", "--probe-time", "20s"]}.items():
        shutil.rmtree(out, ignore_errors=True)
        shutil.rmtree(out + ".work", ignore_errors=True)
        forecast_bytes = forecast(hone, src, out, [*small, *asked], [])["memory_bytes"]
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
if sys.argv[1] == "--run":
    hone, src, scratch, *more = sys.argv[2:]
    signal.signal(signal.SIGTERM, interrupted)
    os.makedirs(os.path.dirname(RUNS), exist_ok=True)
    try:
        ratio = run_job(hone, src, scratch, more or ["--time", "0"])
    except KeyboardInterrupt:
        sys.exit(AGAIN)
    sys.exit(not 1 / 1.3 <= ratio <= 1.3)
hone, scratch, result, *shapes = sys.argv[1:]
load, rows = os.getloadavg()[0], {}
for shape in shapes or ["0.5B", "4B", "27B", "35B", "397B"]:
    src = os.path.join(scratch, shape)
    dense(src, shape) if shape in DENSE else memory.folder(src, shape, memory.SHAPES[shape][1])
    took = []
    rows[shape] = {name: forecast(hone, src, os.path.join(scratch, "out"), asked, took) for name, asked in ASKED.items()}
    rows[shape]["dry_run_seconds"] = max(took)
    rows[shape]["target_hours"] = dict(zip(["two_threads", "16_threads", "rtx_4090", "h100"], TARGETS[shape]))
    shutil.rmtree(src)
kept = {}
if os.path.exists(result):
    kept = {k: v for k, v in json.load(open(result)).items() if k == "memory_measured"}
json.dump({"command": "python3 bench/hours.py build/hone SCRATCH docs/results/hours.json", "threads": os.cpu_count(),
           "isa": ISA, "load_at_start": load, "shapes": rows} | kept, open(result, "w"), indent=1)
if rows.get("35B", {}).get("dry_run_seconds", 0) > DRY_RUN_SECONDS:
    sys.exit(f"--dry-run of the 35B takes {rows['35B']['dry_run_seconds']} s")
