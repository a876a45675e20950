# SPDX-License-Identifier: MIT
"""Twenty tasks with hone_gguf, gguf (gguf-py), llama-cpp-python and transformers: lines, seconds and
peak memory, each task in a process of its own, importing included.

    run.py FOLDER LIBRARY=PYTHON...     -> docs/results/python.json, the table of docs/python.md

FOLDER has model.gguf, base.gguf, source and text.txt, as python/tests/run.sh makes them. PYTHON is
one that has the library. Best of three runs. A task without a row has no way in that library."""
import importlib
import inspect
import json
import os
import re
import resource
import subprocess
import sys
import time

WHERE = os.environ.get("HONE_BENCH", ".")
M, B, D, T = (os.path.join(WHERE, n) for n in ("model.gguf", "base.gguf", "source", "text.txt"))
OUT = os.path.join(WHERE, "out.gguf")
TEXT = open(T, encoding="utf-8").read() if os.path.exists(T) else ""
TALK = [{"role": "user", "content": "What is 2 + 2?"}]
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer"}}}}}]
WROTE = "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"
RUNS = int(os.environ.get("RUNS", "3"))


def lines(function):
    return len([x for x in inspect.getsource(function).splitlines()[1:] if x.strip()])


def one(python, library, task):
    """Best seconds, and peak MiB, of a task in a process of its own; None: it failed."""
    best = None
    for _ in range(RUNS):
        if os.path.exists(OUT):
            os.remove(OUT)
        begin = time.perf_counter()
        p = subprocess.run([python, os.path.abspath(__file__), "--task", library, task], capture_output=True,
                           text=True, env={**os.environ, "HONE_BENCH": WHERE, "TOKENIZERS_PARALLELISM": "false"})
        took = time.perf_counter() - begin
        if p.returncode:
            return None, p.stderr.strip().splitlines()[-1:]
        found = json.loads(p.stdout.splitlines()[-1])
        if best is None or took < best["seconds"]:
            best = {"seconds": round(took, 3), "peak_mib": round(found["peak"] / 1024), "says": found["says"]}
    return best, None


def main():
    global WHERE
    WHERE = os.path.abspath(sys.argv[1])
    os.environ["HONE_BENCH"] = WHERE
    pythons = dict(a.split("=", 1) for a in sys.argv[2:])
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, here)
    modules = {n: importlib.import_module("tasks_" + n) for n in pythons}
    tasks = sorted({n for m in modules.values() for n in dir(m) if re.match(r"t\d\d_", n)})
    rows = []
    for t in tasks:
        row = {"task": t[4:].replace("_", " ")}
        for lib, python in pythons.items():
            f = getattr(modules[lib], t, None)
            if not f:
                continue
            found, why = one(python, lib, t)
            row[lib] = {"lines": lines(f), **(found or {"failed": why})}
            print(t, lib, row[lib], file=sys.stderr, flush=True)
        rows.append(row)
    json.dump({"tasks": rows, "runs": RUNS}, open(os.path.join(here, "../../docs/results/python.json"), "w"), indent=1)
    print("| task | " + " | ".join(pythons) + " |\n|---" * (1) + "|---" * len(pythons) + "|")
    for row in rows:
        cells = []
        for lib in pythons:
            c = row.get(lib)
            cells.append("" if not c else "fails" if "failed" in c
                         else f"{c['lines']} / {c['seconds']:.2f} / {c['peak_mib']}")
        print(f"| {row['task']} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    if len(sys.argv) > 3 and sys.argv[1] == "--task":
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        says = getattr(importlib.import_module("tasks_" + sys.argv[2]), sys.argv[3])()
        print()
        print(json.dumps({"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, "says": str(says)[:120]}))
    else:
        main()
