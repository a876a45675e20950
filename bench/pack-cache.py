#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Time to open a model: packed in memory, the first time with --pack-cache, and afterwards.

    python3 bench/pack-cache.py build/hone SCRATCH OUT.json [--layers 4,16] [--reps 5] [--how made,mapped]

For each number of layers `hone synth` makes a Qwen3.5-35B-A3B of random weights (0.55 GiB a layer); the files are removed
afterwards. Per size: seconds to open reported by `eval speed`, and seconds of the whole process, which reads one token, for:
memory (packed each time), made (the cache is written and synced), mapped (it exists), compared (its seal was removed), cold
(the cache's pages were dropped first: the first token reads those it needs). Then speeds of prompts and tokens from memory
and mapped, in turn. gib_per_s: bytes of packed rows per second of opening. The load before each run is recorded, since a busy
machine slows everything down."""
import argparse
import glob
import json
import os
import statistics
import subprocess
import time

import pages

GIB = 1 << 30


def run(hone, *args):
    t0 = time.monotonic()
    out = subprocess.run([hone, *args, "--json", "-q"], check=True, capture_output=True, text=True).stdout
    return json.loads(out), time.monotonic() - t0


def warm(path):
    with open(path, "rb") as f:
        while f.read(1 << 24):
            pass


def measure(hone, model, cache, name, reps):
    rows = []
    for _ in range(reps):
        packs = glob.glob(cache + "/*.pack")
        if name == "made":
            for p in packs:
                os.remove(p)
        if name == "compared":
            for p in glob.glob(cache + "/*.seal"):
                os.remove(p)
        warm(model)
        for p in packs:
            if name == "cold":
                pages.drop(p)
            elif name != "made":
                warm(p)
        load = os.getloadavg()[0]
        args = ["eval", "speed", model, "--pp", "1", "--tg", "0", "--reps", "1"]
        d, wall = run(hone, *args, *([] if name == "memory" else ["--pack-cache", cache]))
        rows.append((d["open_seconds"], wall, load, d))
    d = rows[0][3]
    opened = statistics.median(r[0] for r in rows)
    row = {"how": name, "reps": reps, "open_s": round(opened, 4), "open_s_least": round(min(r[0] for r in rows), 4),
           "process_s": round(statistics.median(r[1] for r in rows), 3), "load": round(max(r[2] for r in rows), 1),
           "packed_bytes": d["packed_bytes"], "mapped_bytes": d["packed_mapped_bytes"]}
    if name in ("memory", "made", "compared"):
        row["gib_per_s"] = round(d["packed_bytes"] / GIB / opened, 2)
    return row


def speeds(hone, model, cache):
    found = {"memory": [], "mapped": []}
    for _ in range(3):
        for how, more in (("memory", []), ("mapped", ["--pack-cache", cache])):
            d, _ = run(hone, "eval", "speed", model, "--pp", "256", "--tg", "32", "--reps", "2", *more)
            found[how].append([t["tok_per_s"] for t in d["tests"]])
    return {how: {"pp256": round(max(v[0] for v in x), 1), "tg32": round(max(v[1] for v in x), 2)} for how, x in found.items()}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("hone")
    p.add_argument("scratch")
    p.add_argument("out")
    p.add_argument("--layers", default="4,16")
    p.add_argument("--reps", type=int, default=5)
    p.add_argument("--how", help="only these ways to open, without speeds: for sizes near that of memory and disk")
    a = p.parse_args()
    os.makedirs(a.scratch, exist_ok=True)
    result = {"command": "python3 bench/pack-cache.py build/hone SCRATCH OUT.json --layers " + a.layers,
              "machine": f"{os.cpu_count()} processors", "note": "medians; speeds are the best of three", "sizes": []}
    for n in a.layers.split(","):
        model, cache = os.path.join(a.scratch, "m.gguf"), os.path.join(a.scratch, "cache")
        run(a.hone, "synth", "--layers", n, "-o", model, "-f")
        size = {"layers": int(n), "model_bytes": os.path.getsize(model), "rows": []}
        for name in a.how.split(",") if a.how else ("memory", "made", "mapped", "compared", "cold"):
            size["rows"].append(measure(a.hone, model, cache, name, 2 if name == "made" else a.reps))
            print(n, size["rows"][-1], flush=True)
        if not a.how:
            size["speed"] = speeds(a.hone, model, cache)
            print(n, size["speed"], flush=True)
        result["sizes"].append(size)
        for path in [model, *glob.glob(cache + "/*")]:
            os.remove(path)
    with open(a.out, "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")


main()
