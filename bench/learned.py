#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Learned codes and GSQ's rule from the same starts, at equal bytes: bench/learned.py HONE FOLDER [OUT.json]

FOLDER: a small dense model of bench/models/third.py. Starts, with the types of RECIPE (Q2_K): a, a preset with
importance (`--search conventional`); b, error feedback with gradients; c, block by block. GSQ (bench/gsq.py, its
authors' rule with few steps) continues from each of STARTS ("a b c"); `learn` is c with PASSES (3) of `--learn`. All of
them learn from the same parts of calib.txt and man_calib.txt, and are compared on CHUNKS (32) windows that no step saw.
Processor seconds are those of a step alone. Steps whose files are in WORK (FOLDER/learned) are not repeated; files that
another build or command made are refused. Needs what bench/gsq.py needs; writes docs/results/learned.json."""
import json
import os
import resource
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from quality import build  # noqa: E402

here = sys.path.pop(0)
hone, folder = sys.argv[1:3]
out = sys.argv[3] if len(sys.argv) > 3 else "docs/results/learned.json"
env = os.environ.get
recipe, passes, chunks = env("RECIPE", "Q2_K"), env("PASSES", "3"), env("CHUNKS", "32")
work, built, steps = env("WORK", folder + "/learned"), build(hone), {}
GSQ = {"RULE": "gumbel", "STEPS": "160", "BATCH": "2", "TRAIN": "112", "PROBES": "16", "THREADS": "1"}
PARTS = {"train": (("calib", 110000), ("man_calib", 70000)), "probe": (("probe", 60000),), "ev": (("eval", 110000),), "ev_man": (("man_eval", 80000),)}


def path(name):
    return f"{work}/{name}"


def step(name, made, cmd, **more):
    """Runs a command that writes the file `made`, unless it exists; remembers its command, build and processor seconds."""
    shown = " ".join([f"{k}={os.path.basename(v)}" for k, v in more.items()] + [os.path.basename(str(x)) for x in cmd])
    note = path(f"step-{name}.json")
    if not (os.path.exists(note) and os.path.exists(made)):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([str(x) for x in cmd], check=True, env=os.environ | more, stdout=sys.stderr)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        with open(note, "w") as f:
            json.dump({"command": shown, "build": built, "cpu_seconds": round(seconds, 1)}, f)
    found = json.load(open(note))
    if (found["command"], found["build"]) != (shown, built):
        sys.exit(f"{made} was made by another command or build; delete {work}")
    steps[name] = {k: found[k] for k in ("command", "cpu_seconds")}
    print(name, found["cpu_seconds"], file=sys.stderr, flush=True)
    return made


def quantized(name, *options):
    made = path(name + ".gguf")
    return step(name, made, [hone, "quantize", base, "-o", made, "--recipe", recipe, "--imatrix", im, *options, "-f", "-q", "-j", 1])


os.makedirs(work, exist_ok=True)
for part, pieces in PARTS.items():
    with open(path(part + ".txt"), "wb") as f:
        for name, n in pieces:
            f.write(open(f"{folder}/{name}.txt", "rb").read()[:n].decode(errors="ignore").encode())
base, im, gram, train = path("base.gguf"), path("im.gguf"), path("gram.gguf"), path("train.txt")
step("base", base, [hone, "convert", folder, "-o", base, "--type", "f32", "-f", "-q"])
step("moments", gram, [hone, "imatrix", base, train, "-o", im, "--gram", gram, "-f", "-q", "-j", 1])
best = ["--search", "best"]
files = {"a": quantized("a", "--search", "conventional"), "b": quantized("b", *best, "--gram", gram), "c": quantized("c", *best, "--sequential", train),
         "learn": quantized("learn", *best, "--sequential", train, "--learn", passes)}
for start in env("STARTS", "a b c").split():
    name = f"gsq-{start}"
    files[name] = made = path(name + ".gguf")
    step(name, made, [sys.executable, here + "/gsq.py", folder, base, files[start], made, train, path("probe.txt")], **GSQ, LOG=path(name + ".json"))
judged = [hone, "eval", "kld", *files.values(), path("ev.txt"), path("ev_man.txt"), "--base", base, "--chunks", chunks, "-j", "1", "-q", "--json"]
found = json.loads(subprocess.run(judged, check=True, stdout=subprocess.PIPE).stdout)
rows = [{"file": n, "size_bytes": os.path.getsize(f)} | {k: c[k] for k in ("mean_kld", "mean_kld_stderr_windows", "kld_p999", "same_top1")}
        for (n, f), c in zip(files.items(), found["candidates"])]
pairs = [{"a": os.path.basename(p["a"])[:-5], "b": os.path.basename(p["b"])[:-5]} | {k: p[k] for k in ("diff", "diff_ci95_low", "diff_ci95_high")}
         for p in found["pairs"]]
trained = json.load(open(folder + "/train.json"))
with open(out, "w") as f:
    json.dump({"command": "bench/models/third.py FOLDER --small --threads 1 --minutes {minutes:g}; bench/learned.py HONE FOLDER".format(**trained),
               "build": built, "model": {"steps": trained["steps"], "tokens": trained["tokens"], "perplexity": found["candidates"][0]["ppl_base"]},
               "recipe": recipe, "windows": found["n_chunks"], "steps": steps,
               "files": rows, "pairs": pairs}, f, indent=1)
    f.write("\n")
for r in rows:
    print(r)
