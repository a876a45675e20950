#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mixes from joint probes compared with mixes from probes of every group.

    python3 bench/joint.py build/hone BASE.gguf IMATRIX PROBE.txt EVAL.txt WORK OUT.json SIZE...

Measures with `--measure joint`, `--measure all --types 1` and `--measure slopes`, solves each for every size (bytes), makes the
files (search fast) and compares them with the base on EVAL: divergences relative to those of "all". "no singles" is "joint"
without its single probes. WORK keeps the files, so the same command resumes. CHUNKS: windows of EVAL (16), PROBES: windows of
PROBE (16). OUT collects one object per model."""
import json
import os
import subprocess
import sys

VARIANTS = ["all", "joint", "no singles", "slopes"]


def run(*cmd):
    text = subprocess.run([str(c) for c in cmd] + ["-q", "--json"], check=True, stdout=subprocess.PIPE).stdout
    return json.loads(text) if text.strip() else {}


def without_singles(path, out):
    doc = json.load(open(path))
    for g in doc["groups"]:
        g["probes"] = []
    json.dump(doc, open(out, "w"))


def main():
    hone, base, imatrix, probe, text, work, out = sys.argv[1:8]
    os.makedirs(work, exist_ok=True)
    row = {}
    for how in "slopes", "joint", "all":
        path = f"{work}/{how}.json"
        if not os.path.exists(path + ".out"):  # an interrupted run leaves the file without its numbers, and resumes
            got = run(hone, "sensitivity", base, "--imatrix", imatrix, "--probe", probe, "--measure", how, "--types", 1,
                      "--chunks", os.environ.get("PROBES", "16"), "-o", path)
            json.dump(got, open(path + ".out", "w"))
        got = json.load(open(path + ".out"))
        row[how] = dict(n_probes=got["n_probes"], rel_err_between=got["rel_err_between"])
    without_singles(f"{work}/joint.json", f"{work}/no singles.json")
    row["n_groups"] = got["n_groups"]
    row["sizes"] = {}
    for size in sys.argv[8:]:
        files, plans = [], []
        for name in VARIANTS:
            f = f"{work}/{name}-{size}.gguf".replace(" ", "-")
            if not os.path.exists(f):
                run(hone, "quantize", base, "-o", f, "--budget", size, "--imatrix", imatrix,
                    "--allow-requantize", "--sensitivity", f"{work}/{name}.json")
            files.append(f)
        res = run(hone, "eval", "kld", *files, text, "--base", base, "--chunks", os.environ.get("CHUNKS", "16"))
        by = [c["mean_kld"] for c in res["candidates"]]
        row["sizes"][size] = {n: dict(bytes=os.path.getsize(f), mean_kld=k, over_all=k / by[0]) for n, f, k in zip(VARIANTS, files, by)}
        for pair in res["pairs"]:
            name = VARIANTS[[os.path.basename(f) for f in files].index(pair["b"])]
            if pair["a"] == os.path.basename(files[0]):
                row["sizes"][size][name]["stderr_of_over_all"] = pair["diff_stderr"] / by[0]
        print(size, "  ".join(f"{n}: {k / by[0]:.3f}" for n, k in zip(VARIANTS, by)), flush=True)
    doc = {"command": "python3 bench/joint.py build/hone BASE.gguf IMATRIX PROBE.txt EVAL.txt WORK OUT.json SIZE..."}
    doc |= json.load(open(out)) if os.path.exists(out) else {}
    doc[os.path.basename(os.path.abspath(work))] = row
    json.dump(doc, open(out, "w"), indent=1)


if __name__ == "__main__":
    main()
