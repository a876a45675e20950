#!/usr/bin/env python3
"""Collects the results of bench/ladder.sh in one JSON: ladder.py FOLDER PEER.json OUT.json"""
import json
import os
import sys

folder, peer_path, out = sys.argv[1:4]


def load(name):
    with open(os.path.join(folder, name)) as f:
        return json.load(f)


def seconds(name):
    """The times of `time -p` ('real 12.3'), which follow the program's own output."""
    with open(os.path.join(folder, name)) as f:
        t = dict(line.split() for line in f if line.startswith(("real ", "user ", "sys ")))
    return float(t["real"]), float(t["user"]) + float(t["sys"])


peer = {}
if os.path.exists(peer_path):
    with open(peer_path) as f:
        peer = json.load(f)["results"]
hand = {}
if os.path.exists(os.path.join(folder, "hand.kld")):
    name = lambda c: c.get("file") or c["model"]
    kld = {os.path.basename(name(c)): c["mean_kld"] for c in load("hand.kld")["candidates"]}
    hand = {m["budget_bytes"]: kld[f"{m['budget_bytes']}.mix.gguf"] for m in load("hand.mixes")["mixes"]}


def classes(result, with_peer):
    rows = []
    for f in result["files"]:
        if "size_class" not in f:
            continue
        row = {k: f.get(k) for k in ("size_class", "made", "feedback", "size_bytes", "mean_kld", "mean_kld_stderr",
                                     "kld_p999", "same_top1")}
        p = peer.get(f["size_class"])
        if with_peer and p:
            row["peer_size_bytes"] = p["size_bytes"]
            row["peer_mean_kld"] = p["mean_kld"]
            row["ratio"] = f["mean_kld"] / p["mean_kld"]
        if with_peer and hand:
            near = min(hand, key=lambda b: abs(b - f["size_bytes"]))
            row["by_hand_mean_kld"] = hand[near]
            row["ratio_by_hand"] = f["mean_kld"] / hand[near]
        rows.append(row)
    return rows


def job(name, command, with_peer):
    result, dry = load(f"{name}/results.json"), load(f"{name}.dry")
    real, cpu = seconds(f"{name}.err")
    return {"command": command, "seconds": real, "processor_seconds": cpu, "forecast_seconds": dry["seconds"],
            "forecast_steps": {s["step"]: s["seconds"] for s in dry["steps"]}, "windows": result["eval"]["n_chunks"],
            "left_out": result["left_out"], "classes": classes(result, with_peer)}


doc = {
    "command": "bench/ladder.sh",
    "note": "two processors, shared with a changing number of other jobs: seconds and forecasts are of that, and differ by it "
            "(a forecast is what --dry-run printed before the run began); processor_seconds do too where the jobs share a core. "
            "peer: an independent engine's presets, with about 2e-4 of 8-bit activation noise in its numbers",
    "texts": job("texts", "hone make SRC -o DIR --calib calib.txt --calib calib_chat.txt --probe probe.txt --eval eval.txt "
                          "--chunks 0", True),
    "alone": job("alone", "hone make SRC -o DIR (built-in texts)", False),
}
plain = {f.get("size_class"): f for f in load("alone.plain/results.json")["files"]}
for row in doc["alone"]["classes"]:
    row["plain_mean_kld"] = plain[row["size_class"]]["mean_kld"]
    row["ratio"] = row["mean_kld"] / row["plain_mean_kld"]
if os.path.exists(os.path.join(folder, "pictures/results.json")):
    doc["pictures"] = job("pictures", "hone make SRC -o DIR --time 0 --calib calib.txt --calib calib_chat.txt --probe probe.txt "
                                      "--eval eval.txt --chunks 0 --name 'Tiny Qwen3.5 MoE' --license mit", True)
    doc["pictures"]["note"] = ("the table of README.md and the pictures docs/report-*.png, docs/card-*.png are of this run. preset: "
                               "hone's own file of the preset's types and size")
    preset = {f.get("size_class"): f.get("preset_kld") for f in load("pictures/results.json")["files"]}
    for row in doc["pictures"]["classes"]:
        row["preset_kld"] = preset[row["size_class"]]
        row["gain"] = row["preset_kld"] and row["preset_kld"] / row["mean_kld"]
elif os.path.exists(out):
    with open(out) as f:
        doc |= {k: v for k, v in json.load(f).items() if k == "pictures"}
with open(out, "w") as f:
    json.dump(doc, f, indent=1)
    f.write("\n")
