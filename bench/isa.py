#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ranks this machine's instruction sets: speed of kernels and whole models with each set, and of whole models with the other
engine.

    python3 bench/isa.py [--out docs/results/isa.json] [--kernels] [MODEL.gguf] [--threads 2] [--rounds 2]

Environment: HONE (build/hone); PEER, a Python with llama-cpp-python (bench/peer-venv.sh). --kernels: `hone bench-kernels`, each
packed type with each set: GB/s with one and four tokens, 10^9 multiply-adds per second with 64. MODEL: tokens per second of
prompts of 512 tokens and of 64 generated tokens, for every set and the peer in turns; the best of the rounds counts. Results
that are not measured again stay in OUT."""
import argparse
import json
import os
import re
import subprocess
import sys
import time

hone = os.environ.get("HONE", "build/hone")


def run(*args):
    return json.loads(subprocess.run([hone, *args, "--json", "-q"], check=True, capture_output=True, text=True).stdout)


def processor():
    text = open("/proc/cpuinfo", encoding="utf-8").read()
    field = {k: re.search(rf"^{k}\s*: (.*)$", text, re.M).group(1) for k in ("model name", "cpu family", "model", "flags")}
    return field | {"processors": os.cpu_count()}


def sets(flags):
    """This machine's instruction sets with packed rows, best first."""
    return [s for s, f in (("amx", "amx_int8"), ("avx512", "avx512_vnni"), ("avxvnni", "avx_vnni"), ("avx2", "avx2")) if f in flags.split()]


def kernels():
    rates, keys = {}, ("packed_gb_s", "packed4_gb_s", "packed_gmac_s")
    for row in run("bench-kernels")["types"]:
        if row.get("packed_gb_s"):
            rates.setdefault(row["type"], {})[row["isa"]] = {k: row[k] for k in keys}
    for by_isa in rates.values():
        for name, isa in (("ratio", "avx512"), ("ratio_avxvnni", "avxvnni"), ("ratio_amx", "amx")):
            if {"avx2", isa} <= set(by_isa):
                by_isa[name] = {k: round(by_isa[isa][k] / by_isa["avx2"][k], 2) for k in keys}
    return rates


def ours(model, isa, threads):
    d = run("eval", "speed", model, "--pp", "512", "--tg", "64", "--reps", "1", "--isa", isa, "--threads", str(threads))
    return {x["test"]: x["tok_per_s"] for x in d["tests"]}


def peer(model, threads):
    """Runs this file in the peer's Python, with one more argument."""
    out = subprocess.run([os.environ["PEER"], __file__, "--peer", model, "--threads", str(threads)], check=True, capture_output=True, text=True)
    return json.loads(out.stdout.splitlines()[-1])


def as_peer(model, threads):
    from peer import Model, build
    m = Model(model, n_ctx=1024, threads=threads, kv_f32=False, flash=True)
    out = {"build": build()}
    ids = [(7919 * i) % min(m.n_vocab, 4000) for i in range(640)]
    for _ in range(2):  # the first is a warm-up
        m.clear()
        t = time.monotonic()
        m.feed(ids[:512])
        out["pp512"] = 512 / (time.monotonic() - t)
        m.clear()
        m.feed(ids[:1])
        t = time.monotonic()
        for i in range(64):
            m.feed([ids[i]])
        out["tg64"] = 64 / (time.monotonic() - t)
    print(json.dumps(out))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model", nargs="?")
    p.add_argument("--out", default="docs/results/isa.json")
    p.add_argument("--kernels", action="store_true")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.peer:
        return as_peer(a.model, a.threads)
    out = json.load(open(a.out, encoding="utf-8")) if os.path.exists(a.out) else {}
    out |= {"command": "python3 bench/isa.py --kernels MODEL.gguf", "what": __doc__.split("\n\n")[2].replace("\n", " ")}
    cpu = processor()
    name = f"{cpu['model name']}, family {cpu['cpu family']}, model {cpu['model']}"
    doc = out.setdefault("machines", {}).setdefault(name, {})
    doc["processor"] = cpu
    if a.kernels:
        doc["kernels"] = kernels()
    if a.model:
        best = {}
        for _ in range(a.rounds):
            for who in sets(cpu["flags"]) + (["peer"] if "PEER" in os.environ else []):
                got = peer(a.model, a.threads) if who == "peer" else ours(a.model, who, a.threads)
                doc["peer_build"] = got.pop("build", doc.get("peer_build"))
                for k, v in got.items():
                    best.setdefault(who, {})[k] = round(max(v, best.get(who, {}).get(k, 0)), 2)
        doc["models"] = doc.get("models", {}) | {os.path.basename(a.model): best | {"threads": a.threads, "bytes": os.path.getsize(a.model)}}
    doc["date"] = time.strftime("%Y-%m-%d", time.gmtime())
    with open(a.out, "w", encoding="utf-8") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


sys.exit(main())
