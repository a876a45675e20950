# SPDX-License-Identifier: MIT
"""Twenty tasks with hone_gguf, gguf (gguf-py), llama-cpp-python and transformers: lines, seconds and peak memory, each task in
its own process, including imports.

    run.py FOLDER LIBRARY=PYTHON...     -> docs/results/python.json, the table of docs/python.md

FOLDER has model.gguf, base.gguf, source and text.txt, as made by python/tests/run.sh. PYTHON has the library installed; results
of unnamed libraries are kept. Best of RUNS runs (3). A task without a row has no solution in that library.
"""
import datetime
import importlib
import inspect
import json
import os
import platform
import re
import resource
import subprocess
import sys
import time

WHERE = os.environ.get("HONE_BENCH", ".")
M, B, D, T = (os.path.join(WHERE, n) for n in ("model.gguf", "base.gguf", "source", "text.txt"))
OUT = os.path.join(WHERE, "out.gguf")
RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/results/python.json")
# per library: the package whose version is recorded
PACKAGES = {"hone": "hone-gguf", "gguf": "gguf", "llama_cpp": "llama-cpp-python", "transformers": "transformers"}
TEXT = open(T, encoding="utf-8").read() if os.path.exists(T) else ""
TALK = [{"role": "user", "content": "What is 2 + 2?"}]
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer"}}}}}]
WROTE = "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"
RUNS = int(os.environ.get("RUNS", "3"))


def lines(function):
    return len([x for x in inspect.getsource(function).splitlines()[1:] if x.strip()])


def version(python, library):
    code = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    return subprocess.run([python, "-c", code, PACKAGES[library]], check=True, capture_output=True,
                          text=True).stdout.strip()


def processor():
    found = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo", encoding="utf-8").read())
    return f"{found.group(1) if found else platform.machine()}, {os.cpu_count()} cores"


def one(folder, python, library, task):
    """Runs a task in its own process; returns the best seconds and peak MiB, or the reason of its failure."""
    best, out = None, os.path.join(folder, "out.gguf")
    for _ in range(RUNS):
        if os.path.exists(out):
            os.remove(out)
        begin = time.perf_counter()
        p = subprocess.run([python, os.path.abspath(__file__), "--task", library, task], capture_output=True,
                           text=True, env={**os.environ, "HONE_BENCH": folder, "TOKENIZERS_PARALLELISM": "false"})
        took = time.perf_counter() - begin
        if p.returncode:
            return {"failed": p.stderr.strip().splitlines()[-1:]}
        found = json.loads(p.stdout.splitlines()[-1])
        if best is None or took < best["seconds"]:
            best = {"seconds": round(took, 3), "peak_mib": round(found["peak"] / 1024), "says": found["says"]}
    return best


def table(rows, libraries):
    print("| task | " + " | ".join(libraries) + " |\n|---" + "|---" * len(libraries) + "|")
    for task, row in rows.items():
        cells = [row.get(lib) for lib in libraries]
        print(f"| {task[4:].replace('_', ' ')} | " + " | ".join(
            "" if not c else "fails" if "failed" in c else f"{c['lines']} / {c['seconds']:.2f} / {c['peak_mib']}"
            for c in cells) + " |")


def main():
    folder = os.path.abspath(sys.argv[1])
    pythons = dict(a.split("=", 1) for a in sys.argv[2:])
    os.environ["HONE_BENCH"] = folder
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    modules = {n: importlib.import_module("tasks_" + n) for n in PACKAGES}
    rows = {t: {} for t in sorted({n for m in modules.values() for n in dir(m) if re.match(r"t\d\d_", n)})}
    versions, runs = {}, {}
    if os.path.exists(RESULTS):
        old = json.load(open(RESULTS, encoding="utf-8"))
        versions, runs = old["versions"], old["runs"]
        rows = {t: old["tasks"].get(t, {}) for t in rows}
    for lib, python in pythons.items():
        versions[lib], runs[lib] = version(python, lib), RUNS
        for t in rows:
            rows[t].pop(lib, None)
            if hasattr(modules[lib], t):
                rows[t][lib] = {"lines": lines(getattr(modules[lib], t)), **one(folder, python, lib, t)}
                print(t, lib, rows[t][lib], file=sys.stderr, flush=True)
    result = {"date": datetime.date.today().isoformat(), "machine": processor(), "runs": runs,
              "versions": versions, "tasks": rows}
    with open(RESULTS, "w", encoding="utf-8") as f:
        json.dump(result, f, indent=1)
        f.write("\n")
    table(rows, [n for n in PACKAGES if n in versions])


if __name__ == "__main__":
    if len(sys.argv) > 3 and sys.argv[1] == "--task":
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        says = getattr(importlib.import_module("tasks_" + sys.argv[2]), sys.argv[3])()
        print()
        print(json.dumps({"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, "says": str(says)[:120]}))
    else:
        main()
