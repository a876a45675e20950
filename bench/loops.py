#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tool loops of some files against their base: bench/loops.py HONE BASE.gguf FILE.gguf... > docs/results/loops.json

`hone eval tools FILE loops --base BASE` of each file. SUITE=NAME selects another suite, SAID="..." says how the files were
made."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
from quality import build  # noqa: E402

hone, base, *files = sys.argv[1:]
suite, rows = os.environ.get("SUITE", "loops"), []
for f in files:
    done = subprocess.run([hone, "eval", "tools", f, suite, "--base", base, "--json", "-q"], check=True, stdout=subprocess.PIPE)
    d = json.loads(done.stdout)
    row = {"file": os.path.basename(f)} | {k: d[k] for k in ("n_cases", "n_passed", "n_same_as_base", "n_lost", "n_gained", "n_loose", "n_cut", "max_tokens")}
    row["base_passed"] = d["n_passed"] + d["n_lost"] - d["n_gained"]
    row["cases"] = {c["id"]: [c["base_pass"], c["pass"]] for c in d["cases"]}
    rows.append(row)
json.dump({"command": f"bench/loops.py HONE {os.path.basename(base)} {' '.join(os.path.basename(f) for f in files)}", "build": build(hone),
           "suite": suite, "suite_xxh128": d["suite_xxh128"], "files_from": os.environ.get("SAID"), "cases": "id: [base passes, file passes]",
           "rows": rows}, sys.stdout, indent=1)
print()
