#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Gain of computing several sequences in one pass on the CPU, and its cost for a single sequence.

    python3 bench/rows.py MODEL.gguf TEXT [OUT.json] [--base OLDHONE] [--threads 2] [--pairs 7] [--minutes 6] [--part NAME]...
    [--again]

MODEL: for instance the output of `hone synth --layers 8 --recipe Q4_K_M --tokenizer tests/golden/tiny-qwen35moe`; TEXT: any
plain text of at least 2048 tokens. Environment: HONE (build/hone), ROWS (built by `make bench-rows`). Parts:
tokens, depth: prompts of 512 tokens and 64 generated ones, at depth 0 and after 4096 tokens
imatrix, ppl, kld: importance, perplexity, divergence of the model from itself, with four windows of 512
sequences: 1, 4 and 16 sequences decoded together (bench/rows.c)
windows: perplexity and divergence with windows one by one and together (bench/rows.c)
The first five need --base, a build of an earlier version: both programs take turns, `pairs` times each, or fewer if the part
would take longer than --minutes. A ratio is the later program's tokens per second over the earlier one's: the median over
pairs, with the range. Parts already in OUT are skipped unless --again or --part names them. OUT is written after each part,
so an interrupted run resumes."""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time


def run(hone, *args):
    return json.loads(subprocess.run([hone, *args, "--json", "-q"], check=True, capture_output=True, text=True).stdout)


def speed(depth):
    def of(hone, a, scratch):
        d = run(hone, "eval", "speed", a.model, "--pp", "512", "--tg", "64", "--reps", "1", "--depths", depth, "--threads", str(a.threads))
        return {f'{x["test"]}@{x["depth"]}': x["tok_per_s"] for x in d["tests"]}
    return of


def windows(name, *args):
    def of(hone, a, scratch):
        put = {"MODEL": a.model, "TEXT": a.text, "OUT": os.path.join(scratch, "i.gguf")}
        d = run(hone, *[put.get(x, x) for x in args], "--ctx", "512", "--chunks", "4", "--threads", str(a.threads))
        return {name: d["tok_per_s"]}
    return of


COMPARED = {
    "tokens": speed("0"),
    "depth": speed("4096"),
    "imatrix": windows("imatrix", "imatrix", "MODEL", "TEXT", "-o", "OUT", "-f"),
    "ppl": windows("eval ppl", "eval", "ppl", "MODEL", "TEXT"),
    "kld": windows("eval kld", "eval", "kld", "MODEL", "TEXT", "--base", "MODEL"),
}


def compare(part, new, a):
    """Measures pairs until there are enough or the next pair would end too late."""
    pairs, t0, longest = [], time.monotonic(), 0.0
    with tempfile.TemporaryDirectory() as scratch:
        while len(pairs) < a.pairs and (not pairs or time.monotonic() - t0 + longest < 60 * a.minutes):
            t = time.monotonic()
            first_new = len(pairs) % 2 == 1
            got = {hone: COMPARED[part](hone, a, scratch) for hone in ((new, a.base) if first_new else (a.base, new))}
            pairs.append((got[new], got[a.base]))
            longest = max(longest, time.monotonic() - t)
    out = {}
    for name in pairs[0][0]:
        r = [x[name] / y[name] for x, y in pairs]
        out[name] = {"tok_per_s": round(statistics.median(x[name] for x, _ in pairs), 2),
                     "ratio": round(statistics.median(r), 3), "range": [round(min(r), 3), round(max(r), 3)]}
    return {"pairs": len(pairs), **out}


def rows_program(part, a):
    """Runs the program of bench/rows.c, built now unless ROWS names it, until its time is over."""
    path = os.environ.get("ROWS") or subprocess.run(["make", "-s", "bench-rows"], check=True, capture_output=True, text=True).stdout.split()[-1]
    what = "decode" if part == "sequences" else "windows"
    args = [path, a.model, str(a.threads), str(max(1, a.pairs - 1)), what, str(int(60 * a.minutes))]
    return json.loads(subprocess.run(args, check=True, capture_output=True, text=True).stdout)


def save(doc, path):
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump(doc, f, indent=1)
        f.write("\n")
    os.replace(path + ".new", path)


def main():
    parts = [*COMPARED, "sequences", "windows"]
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("text")
    p.add_argument("out", nargs="?", default="docs/results/rows.json")
    p.add_argument("--base")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--pairs", type=int, default=7)
    p.add_argument("--minutes", type=float, default=6)
    p.add_argument("--part", action="append", choices=parts)
    p.add_argument("--again", action="store_true")
    a = p.parse_args()
    hone = os.environ.get("HONE", "build/hone")
    doc = json.load(open(a.out, encoding="utf-8")) if os.path.exists(a.out) else {}
    if "parts" not in doc:
        doc = {"command": "", "parts": {}, **({"before": doc} if doc else {})}
    doc["command"] = f"python3 bench/rows.py {os.path.basename(a.model)} TEXT --base OLDHONE --threads {a.threads}"
    doc["model_bytes"] = os.path.getsize(a.model)
    for part in a.part or [x for x in parts if a.again or x not in doc["parts"]]:
        if part in COMPARED and not a.base:
            print(f"{part}: left out, no --base", flush=True)
            continue
        load, t0 = os.getloadavg()[0], time.monotonic()
        got = compare(part, hone, a) if part in COMPARED else rows_program(part, a)
        doc["parts"][part] = {"load": round(load, 1), "seconds": round(time.monotonic() - t0), **got}
        save(doc, a.out)
        print(part, json.dumps(doc["parts"][part]), flush=True)


main()
