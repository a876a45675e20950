#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the trials of this folder and prints a table by kind.

Usage: HONE=build/hone python3 tests/published/run.py [--kind KIND] [--only NAME] [--json FILE] [-v]
Exit status 1 if a trial is wrong, crashed or refused for the wrong reason, or if one is refused that the recorded results
(docs/results/published.json) do not list as refused, because what once worked must keep working.
"""
import argparse
import importlib
import json
import os
import pathlib
import sys
import tempfile
import traceback

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import published

for f in sorted(pathlib.Path(__file__).parent.glob("[a-z]*.py")):
    if f.stem not in ("run", "published"):
        importlib.import_module(f.stem)

ap = argparse.ArgumentParser()
ap.add_argument("--kind")
ap.add_argument("--only")
ap.add_argument("--json")
ap.add_argument("-v", action="store_true")
a = ap.parse_args()
counts, bad, refused = {}, [], []
RECORD = published.ROOT / "docs/results/published.json"
known = json.loads(RECORD.read_text()).get("refused") if RECORD.exists() else None
for kind, name, f in published.TRIALS:
    if (a.kind and kind != a.kind) or (a.only and name != a.only):
        continue
    with tempfile.TemporaryDirectory() as scratch:
        try:
            verdict = f(scratch)
        except Exception:
            verdict = "wrong", traceback.format_exc(limit=-2)
    verdict, note = verdict if isinstance(verdict, tuple) else (verdict, "")
    assert verdict in published.VERDICTS, (name, verdict)
    row = counts.setdefault(kind, dict.fromkeys(("tried",) + published.VERDICTS, 0))
    row["tried"] += 1
    row[verdict] += 1
    new = verdict == "refused" and known is not None and f"{kind} / {name}" not in known
    if verdict == "refused":
        refused.append(f"{kind} / {name}")
    if new:
        note = "not refused when the results were recorded: " + note
    if new or verdict not in ("right", "refused"):
        bad.append((kind, name, verdict))
    if a.v or new or verdict not in ("right", "refused"):
        print(f"{verdict}: {kind}: {name}: {note}".rstrip(": "), flush=True)
total = {k: sum(r[k] for r in counts.values()) for k in ("tried",) + published.VERDICTS}
print(f"{'kind':<16}" + "".join(f"{k:>14}" for k in total))
for kind, row in {**counts, "all": total}.items():
    print(f"{kind:<16}" + "".join(f"{n:>14}" for n in row.values()))
if a.json:
    bad = [b for b in bad if b[2] != "refused"]
    out = {"command": "make check-published", "kinds": counts, "all": total, "refused": refused, "not right": [" / ".join(b) for b in bad]}
    pathlib.Path(a.json).write_text(json.dumps(out, indent=1) + "\n")
sys.exit(bool(bad))
