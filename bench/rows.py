#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What several sequences in one pass are worth on the CPU, and what they cost one sequence.

    python3 bench/rows.py MODEL.gguf TEXT [OUT.json] [--base OLDHONE] [--threads 2] [--pairs 3] [--decode]

MODEL is what `hone synth --layers 8 --recipe Q4_K_M --tokenizer tests/golden/tiny-qwen35moe` makes, for instance; TEXT is any plain text of
2048 tokens or more. Environment: HONE (build/hone). The program of bench/rows.c measures 1, 4 and 16 sequences, and windows one by one and
together. With --base, a build of an earlier version, both programs take turns, `pairs` times each: prompts of 512 tokens and 64
generated ones at depths 0 and 4096, importance and perplexity over four windows of 512. A ratio is the later by the
earlier one's tokens per second: the median over pairs, with the range.
--decode: sequences decoded together, and one sequence's tokens at depth 0, only; what OUT holds of the rest stays, as `before`."""
import argparse
import json
import os
import statistics
import subprocess
import tempfile


def run(hone, *args):
    return json.loads(subprocess.run([hone, *args, "--json", "-q"], check=True, capture_output=True, text=True).stdout)


def rows_program(model, threads, pairs, decode):
    """Builds bench/rows.c and runs it."""
    path = subprocess.run(["make", "-s", "bench-rows"], check=True, capture_output=True, text=True).stdout.split()[-1]
    return json.loads(subprocess.run([path, model, str(threads), str(pairs)] + decode * ["decode"], check=True, capture_output=True, text=True).stdout)


def one_round(hone, model, text, threads, scratch, decode):
    """Returns tokens per second by name."""
    t = ["--threads", str(threads)]
    if decode:
        return {"tg64@0": run(hone, "eval", "speed", model, "--pp", "0", "--tg", "64", "--reps", "1", *t)["tests"][0]["tok_per_s"]}
    d = run(hone, "eval", "speed", model, "--pp", "512", "--tg", "64", "--reps", "1", "--depths", "0,4096", *t)
    out = {f'{x["test"]}@{x["depth"]}': x["tok_per_s"] for x in d["tests"]}
    four = ["--ctx", "512", "--chunks", "4", *t]
    out["imatrix"] = run(hone, "imatrix", model, text, "-o", os.path.join(scratch, "i.gguf"), "-f", *four)["tok_per_s"]
    out["eval ppl"] = run(hone, "eval", "ppl", model, text, *four)["tok_per_s"]
    return out


def compare(new, old, a):
    rounds = {new: [], old: []}
    with tempfile.TemporaryDirectory() as scratch:
        for i in range(a.pairs):
            for hone in (old, new) if i % 2 else (new, old):
                rounds[hone].append(one_round(hone, a.model, a.text, a.threads, scratch, a.decode))
    out = {}
    for name in rounds[new][0]:
        r = [x[name] / y[name] for x, y in zip(rounds[new], rounds[old])]
        out[name] = {"tok_per_s": round(statistics.median(x[name] for x in rounds[new]), 2),
                     "ratio": round(statistics.median(r), 3), "range": [round(min(r), 3), round(max(r), 3)]}
    return out


def save(doc, path):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(doc, f, indent=1)
        f.write("\n")
    print(json.dumps(doc, indent=1), flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("text")
    p.add_argument("out", nargs="?", default="docs/results/rows.json")
    p.add_argument("--base")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--pairs", type=int, default=3)
    p.add_argument("--decode", action="store_true")
    a = p.parse_args()
    hone = os.environ.get("HONE", "build/hone")
    doc = {"command": f"python3 bench/rows.py {os.path.basename(a.model)} TEXT --base OLDHONE --threads {a.threads} --pairs {a.pairs}{' --decode' * a.decode}",
           "model_bytes": os.path.getsize(a.model), "load": round(os.getloadavg()[0], 1)}
    if a.decode and os.path.exists(a.out):
        old = json.load(open(a.out, encoding="utf-8"))
        doc["before"] = old.get("before", old)
    if a.base:
        doc["against_base"] = compare(hone, a.base, a)
        save(doc, a.out)
    doc["sequences"] = rows_program(a.model, a.threads, max(1, a.pairs - 1), a.decode)
    save(doc, a.out)


main()
