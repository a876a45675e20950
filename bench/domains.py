#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the languages of the importance text do to each domain: bench/domains.py [HONE [OUT.json]]

Two presets Q2_K of SmolLM2 135M (its published file, moved off its grid; bench/real.sh fetches it), compared by `hone
versus` on the built-in domains. The importance of `english` is from the first BYTES (22000) of calib/text/calib.txt,
which are English, source code and LaTeX; that of `mixed` is from every third paragraph of the whole file, as many
bytes. Environment: THREADS (1), CTX (256) and CHUNKS (88: 8 windows of each domain, the least for which `hone versus`
gives the ratios intervals), WORK (build/domains), where nothing is reused.
Needs gguf and numpy (PyPI)."""
import json
import os
import subprocess
import sys

sys.path[:0] = [os.path.dirname(__file__), os.path.join(os.path.dirname(__file__), "models")]
import dither  # noqa: E402
from quality import build  # noqa: E402

hone = sys.argv[1] if len(sys.argv) > 1 else "build/hone"
out = sys.argv[2] if len(sys.argv) > 2 else "docs/results/domains.json"
threads, ctx, chunks, work = (os.environ.get(*x) for x in (("THREADS", "1"), ("CTX", "256"), ("CHUNKS", "88"), ("WORK", "build/domains")))
n_bytes = int(os.environ.get("BYTES", "22000"))
os.makedirs(work, exist_ok=True)
base = dither.prepared(hone, "build/real/smollm2")
text = open("calib/text/calib.txt", encoding="utf-8").read()
texts = {"mixed": "\n\n".join(text.split("\n\n")[::3]), "english": text}
commands, files = [], []


def run(*args):
    commands.append(" ".join(["hone", *(os.path.basename(str(a)) for a in args)]))
    r = subprocess.run([hone, *map(str, args), "-q", "-j", threads], check=True, stdout=subprocess.PIPE, text=True)
    return r.stdout


for name, whole in texts.items():
    calib, im, file = (f"{work}/{name}{end}" for end in (".txt", ".im.gguf", "-Q2_K.gguf"))
    with open(calib, "wb") as f:
        f.write(whole.encode()[:n_bytes].decode(errors="ignore").encode())
    run("imatrix", base, calib, "-o", im, "-f")
    run("quantize", base, "-o", file, "--recipe", "Q2_K", "--imatrix", im, "-f")
    files.append(file)
found = json.loads(run("versus", base, *files, "--ctx", ctx, "--chunks", chunks, "--json"))
for key in "command_line", "threads":
    found.pop(key, None)
with open(out, "w") as f:
    json.dump({"command": "bench/domains.py", "build": build(hone), "calibration_bytes": n_bytes, "commands": commands, "versus": found}, f, indent=1)
    f.write("\n")
