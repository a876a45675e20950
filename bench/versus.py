#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Files of one published model from two quantizers, compared by `hone versus`: bench/versus.py [HONE [OUT.json]]

The base is a published 4-bit file, decoded and moved off its grid (bench/models/dither.py): SmolLM2 135M, or
MODEL=qwen2coder for Qwen2.5-Coder 0.5B; bench/real.sh fetches them into build/real. Three files are presets, made by
the independent engine's own quantizer (bench/peer-venv.sh). For the bytes of each, hone makes a mix with error
feedback. The importance is computed once, by hone, and both quantizers use it; hone also uses the second moments of the
same texts and, to choose types, texts held out from them. `hone versus` reads texts that neither has seen.

Runs inside the venv, which needs the package gguf too. A step whose output exists in build/versus/MODEL-DOCS is not
repeated, and its seconds are kept; if another command made it, the script stops. Environment: MODEL, THREADS (2), DOCS
(calibration documents of every 5; 4), PROBES (windows of the probes, 8), SEARCH (best), CHUNKS (windows of 512 tokens
that `hone versus` reads, 44: 4 of each built-in domain), CASES (of the tool suite, 20), CONTROL_CHUNKS (22: windows for
the control, in which the engine's encoders use hone's choice of types).
"""
import json
import os
import re
import subprocess
import sys
import time

sys.path[:0] = [os.path.dirname(__file__), os.path.join(os.path.dirname(__file__), "models")]
import dither  # noqa: E402
import peer  # noqa: E402

CLASSES = ["Q4_K_M", "Q3_K_M", "Q2_K"]
hone = sys.argv[1] if len(sys.argv) > 1 else "build/hone"
out = sys.argv[2] if len(sys.argv) > 2 else "docs/results/versus.json"
env = os.environ.get
model, threads = env("MODEL", "smollm2"), int(env("THREADS", "2"))
docs, probes, search = int(env("DOCS", "4")), env("PROBES", "8"), env("SEARCH", "best")
d = f"build/versus/{model}-{docs}"
steps = {}  # {step: {"command": ..., "seconds": ...}}


def shown(args):
    return " ".join(os.path.basename(str(a)) for a in args)


def step(name, made, *args):
    """Runs a command that writes the file `made`, unless the file exists; remembers its command, seconds and result."""
    note = f"{d}/step-{name}.json"
    text = args[1] if callable(args[0]) else "hone " + shown(args)
    if not (os.path.exists(made) and os.path.exists(note)):
        start = time.monotonic()
        result = args[0]() if callable(args[0]) else run(*args)
        with open(note, "w") as f:
            json.dump({"command": text, "seconds": round(time.monotonic() - start), "result": result}, f)
    found = json.load(open(note))
    if found["command"] != text:
        sys.exit(f"{made} was made by another command: {found['command']}; delete {d}")
    steps[name] = {k: found[k] for k in ("command", "seconds")}
    print(f"{name}: {found['seconds']} s", flush=True)
    return found["result"]


def run(*args):
    r = subprocess.run([hone, *map(str, args), "-q", "--json", "-j", str(threads)], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(r.stdout) if r.stdout.strip() else None


def divided():
    """Divides the calibration texts: every fifth document for probes, `docs` of the other four for calibration. A
    document is a conversation, or a paragraph break after at least 1 KiB of prose."""
    for name, pattern in (("calib.txt", r"(?s).{1024}.*?(?:\n\n|\Z)|.+"), ("calib.jsonl", r".*\n")):
        found = re.findall(pattern, open("calib/text/" + name, encoding="utf-8").read())
        for to, wanted in ((name, (1, 3, 2, 4)[:docs]), ("probe" + os.path.splitext(name)[1], (0,))):
            with open(f"{d}/{to}", "w", encoding="utf-8") as f:
                f.write("".join(x for i, x in enumerate(found, 1) if i % 5 in wanted))


os.makedirs(d, exist_ok=True)
base = dither.prepared(hone, "build/real/" + model)
divided()
im, gram, dat, sens = (f"{d}/{x}" for x in ("im.gguf", "gram.gguf", "im.dat", "sens.json"))
step("imatrix", gram, "imatrix", base, f"{d}/calib.txt", f"{d}/calib.jsonl", "-o", im, "--gram", gram, "-f")
if not os.path.exists(dat):
    run("imatrix", "--merge", im, "-o", dat)
files, types = [], {}
for c in CLASSES:
    theirs = f"{d}/llama.cpp-{c}.gguf"
    step("llama.cpp-" + c, theirs, lambda: peer.quantize(base, theirs, c, threads, imatrix=dat),
         f"llama_model_quantize, ftype {c}, imatrix im.dat")
step("sensitivity", sens, "sensitivity", base, "--imatrix", im, "--probe", f"{d}/probe.txt", "--probe", f"{d}/probe.jsonl", "--chunks", probes,
     "-o", sens)
for c in CLASSES:
    theirs, ours = f"{d}/llama.cpp-{c}.gguf", f"{d}/hone-{c}.gguf"
    step("hone-" + c, ours, "quantize", base, "-o", ours, "--budget", os.path.getsize(theirs), "--imatrix", im, "--gram", gram,
         "--sensitivity", sens, "--search", search, "-f")
    files += [ours, theirs]
for f in files:
    types[os.path.basename(f)] = {t["type"]: t["n_tensors"] for t in run("inspect", f)["types"]}
found = step("versus", f"{d}/versus.md", "versus", base, *files, "--chunks", env("CHUNKS", "44"), "--flips", "--cases", env("CASES", "20"),
             "--markdown", f"{d}/versus.md", "--plot", f"{d}/versus.svg", "-f")
# which part of the difference is the choice of types, and which the encoding: the engine's encoders with hone's types
pairs = []
for c in CLASSES:
    ours, same = f"{d}/hone-{c}.gguf", f"{d}/llama.cpp-types-of-hone-{c}.gguf"
    chosen = {t["name"]: t["type"] for t in run("inspect", ours, "--tensors")["tensors"] if t["type"] != "F32"}
    step("llama.cpp-types-of-hone-" + c, same, lambda: peer.quantize(base, same, c, threads, imatrix=dat, types=chosen),
         f"llama_model_quantize, ftype {c}, imatrix im.dat, the type of each tensor from hone-{c}.gguf")
    pairs += [ours, same]
control = step("versus-same-types", f"{d}/control.md", "versus", base, *pairs, "--chunks", env("CONTROL_CHUNKS", "22"), "--markdown",
               f"{d}/control.md", "-f")
doc = json.load(open(out)) if os.path.exists(out) else {}
doc["command"] = "bench/versus.py"
doc["note"] = ("The base is the published 4-bit file, decoded to F16 and moved off its grid, so it is not an original that anyone published. One importance "
               "matrix, computed by hone, served both quantizers. Seconds were measured next to other work.")
usual = {"DOCS": "4", "PROBES": "8", "SEARCH": "best", "CHUNKS": "44", "CASES": "20", "CONTROL_CHUNKS": "22"}
asked = " ".join(f"{k}={env(k, v)}" for k, v in usual.items())
doc.setdefault("models", {})[model] = {
    "command": f"MODEL={model} {asked} bench/versus.py", "hone": run("doctor")["version"], "peer": f"llama-cpp-python {peer.lc.__version__}", "peer_build": peer.build(), "threads": threads,
    "calibration_documents_of_5": docs, "probe_windows": int(probes), "search": search, "steps": steps, "types": types, "versus": found, "same_types": control,
    "block": open(f"{d}/versus.md").read().split("\n")}
with open(out, "w") as f:
    json.dump(doc, f, indent=1)
    f.write("\n")
