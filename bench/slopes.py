#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Gain from gradients if only a few layers are probed.

    python3 bench/slopes.py build/hone BASE.gguf IMATRIX PROBE.txt EVAL.txt WORK OUT.json SIZE...

Measures all probes of one type per group. From that file, probes, slopes or both are removed as with `--bands` (all: nothing;
4, 2, 1: layers per role; 0: none; "bare": without slopes). The mixes that are then chosen for the sizes (bytes) are made
(search fast) and compared with the base on EVAL; divergences are relative to "all". WORK keeps the files, so the same command
resumes. CHUNKS: windows of EVAL (16), PROBES: windows of PROBE (16)."""
import json
import math
import os
import subprocess
import sys

VARIANTS = ["all", "4", "2", "1", "0", "4 bare", "2 bare", "0 bare"]


def run(*cmd):
    text = subprocess.run([str(c) for c in cmd] + ["-q", "--json"], check=True, stdout=subprocess.PIPE).stdout
    return json.loads(text) if text.strip() else {}


def rank(at, n):
    """The rank of a layer in the order first, last, middle, quarters..., as in mix/joint.c."""
    if at in (0, n - 1):
        return min(at, 1)
    step, r = 2, 2
    while not any(k * (n - 1) // step == at for k in range(1, step, 2)):
        step, r = step * 2, r + 1
    return r


def first(groups, bands):
    """The names of the groups whose probes are kept."""
    by_role = {}
    for g in groups:
        by_role.setdefault(g["role"], []).append(g)
    kept = set()
    for gs in by_role.values():
        gs.sort(key=lambda g: g["block"])
        kept |= {gs[i]["name"] for i in sorted(range(len(gs)), key=lambda i: (rank(i, len(gs)), i))[:bands]}
    return kept


def variant(sens, name):
    doc = json.loads(json.dumps(sens))
    if name != "all":
        kept = first(doc["groups"], int(name.split()[0]))
        for g in doc["groups"]:
            if g["name"] not in kept:
                g["probes"] = []
            if "bare" in name:
                g.pop("slope", None)
    return doc


def main():
    hone, base, imatrix, probe, text, work, out = sys.argv[1:8]
    os.makedirs(work, exist_ok=True)
    whole = work + "/all.json"
    run(hone, "sensitivity", base, "--imatrix", imatrix, "--probe", probe, "--measure", "all", "--types", 1, "--chunks",
        os.environ.get("PROBES", "16"), "-o", whole)
    sens = json.load(open(whole))
    probed = [g for g in sens["groups"] if g["probes"]]
    logs = [math.log(g["slope"] * g["error"][p["type"]] / p["kld"]) for g in probed for p in g["probes"][:1] if g.get("slope") and p["kld"] > 0]
    mean = sum(logs) / len(logs)
    doc = dict(groups=len(sens["groups"]), slope_over_probe=math.exp(mean),
               spread=math.sqrt(sum((x - mean) ** 2 for x in logs) / len(logs)), sizes={})
    for name in VARIANTS:
        json.dump(variant(sens, name), open(f"{work}/{name}.json", "w"))
    for size in sys.argv[8:]:
        files = []
        for name in VARIANTS:
            f = f"{work}/{name}-{size}.gguf"
            if not os.path.exists(f):
                run(hone, "quantize", base, "-o", f, "--budget", size, "--imatrix", imatrix, "--sensitivity", f"{work}/{name}.json")
            files.append(f)
        res = run(hone, "eval", "kld", *files, text, "--base", base, "--chunks", os.environ.get("CHUNKS", "16"))
        by = [c["mean_kld"] for c in res["candidates"]]
        doc["sizes"][size] = {n: dict(mean_kld=k, over_all=k / by[0]) for n, k in zip(VARIANTS, by)}
        print(size, "  ".join(f"{n}: {k / by[0]:.3f}" for n, k in zip(VARIANTS, by)), flush=True)
    json.dump(doc, open(out, "w"), indent=1)
    print(f"{doc['groups']} groups; slopes are {doc['slope_over_probe']:.2f} of probes (one standard deviation: a factor of {math.exp(doc['spread']):.2f})")


if __name__ == "__main__":
    main()
