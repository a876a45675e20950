#!/usr/bin/env python3
"""What bench/quality.sh runs: quality.py HONE MODEL_FOLDER OUT.json"""
import json
import os
import subprocess
import sys
import tempfile

PRESETS = ["Q6_K", "Q4_K_M", "IQ4_XS", "Q3_K_M", "IQ3_S", "Q2_K", "IQ2_XS"]


def run(*cmd):
    """Runs a command and returns what it prints as JSON."""
    text = subprocess.run([str(c) for c in cmd] + ["-q", "--json"], check=True, stdout=subprocess.PIPE).stdout
    return json.loads(text) if text.strip() else {}


def sizes(hone, d, folder):
    """Bytes by preset, and what the independent engine measured of it."""
    path = folder + "/peer-baseline.json"
    peer = json.load(open(path))["results"] if os.path.exists(path) else {}
    out = {}
    for p in PRESETS:
        if p in peer:
            out[p] = peer[p]["size_bytes"], peer[p]
            continue
        file = f"{d}/preset-{p}.gguf"
        run(hone, "quantize", d + "/base.gguf", "-o", file, "--recipe", p, "--imatrix", d + "/im.gguf", "--search", "conventional")
        out[p] = os.path.getsize(file), None
    return out


def mixes(hone, d, folder, name, budgets, feedback):
    """Makes mixes of the given sizes; returns their files by size."""
    sens = f"{d}/{name}-sens.json"
    args = [a for b in budgets for a in ("--budget", b)]
    run(hone, "sensitivity", d + "/base.gguf", "--imatrix", d + "/im.gguf", "--probe", folder + "/probe.txt", "--types", 2, "-o", sens)
    run(hone, "quantize", d + "/base.gguf", "--imatrix", d + "/im.gguf", "--sensitivity", sens, "-o", f"{d}/{name}-{{}}.gguf",
        "--search", "best", *(["--gram", d + "/gram.gguf"] if feedback else []), *args)
    return {b: f"{d}/{name}-{b}.gguf" for b in budgets}


def main():
    hone, folder, out = sys.argv[1:]
    old = os.environ.get("OLD")
    chunks = os.environ.get("CHUNKS", "0")
    d = tempfile.mkdtemp(prefix="quality-", dir=os.environ.get("TMPDIR", "/tmp"))
    texts = [folder + "/" + t for t in ("calib.txt", "calib_chat.txt") if os.path.exists(folder + "/" + t)]
    run(hone, "convert", folder, "-o", d + "/base.gguf", "--type", "f32")
    run(hone, "imatrix", d + "/base.gguf", *texts, "-o", d + "/im.gguf", "--gram", d + "/gram.gguf")
    want = sizes(hone, d, folder)
    budgets = [b for b, _ in want.values()]
    steps = {"mix": mixes(hone, d, folder, "mix", budgets, False), "feedback": mixes(hone, d, folder, "feedback", budgets, True)}
    if old:
        steps["before"] = mixes(old, d, folder, "before", budgets, True)
    domains = [t for t in ("eval.txt", "eval_chat.txt", "man_eval.txt") if os.path.exists(folder + "/" + t)]
    rows = []
    measured = {}
    files = [f for s in steps.values() for f in s.values()]
    for t in domains:
        res = run(hone, "eval", "kld", *files, folder + "/" + t, "--base", d + "/base.gguf", "--chunks", chunks)
        for c in res["candidates"]:
            measured[os.path.basename(c["model"]), t] = c
    for preset, (budget, peer) in want.items():
        row = dict(size_of=preset, budget_bytes=budget, peer=peer and {k: peer[k] for k in ("mean_kld", "kld_p999", "same_top1_percent")})
        for step, made in steps.items():
            f = made[budget]
            row[step] = dict(size_bytes=os.path.getsize(f))
            for t in domains:
                c = measured[os.path.basename(f), t]
                row[step][t] = {k: c[k] for k in ("mean_kld", "mean_kld_stderr", "kld_p999", "same_top1")}
        rows.append(row)
    json.dump(dict(command="OLD=BINARY bench/quality.sh", chunks=int(chunks), rows=rows), open(out, "w"), indent=1)
    show(rows, steps, domains)
    subprocess.run(["rm", "-r", d], check=True)


def show(rows, steps, domains):
    for t in domains:
        print(f"{t}: mean divergence, and that of the 99.9 % token")
        print(f"{'size of':8} {'peer':>17} " + " ".join(f"{s:>17}" for s in steps) + "  feedback/before")
        for r in rows:
            cells = [r["peer"] if t == "eval.txt" else None] + [r[s][t] for s in steps]
            text = " ".join(f"{c['mean_kld']:9.6f} {c['kld_p999']:7.4f}" if c else f"{'':17}" for c in cells)
            ratio = f"  {r['feedback'][t]['mean_kld'] / r['before'][t]['mean_kld']:.3f}" if "before" in r else ""
            print(f"{r['size_of']:8} {text}{ratio}")


if __name__ == "__main__":
    main()
