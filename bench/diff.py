#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times `hone diff` on two revisions of a 20 GiB file, compared by their manifests: python3 bench/diff.py build/hone SCRATCH
OUT.json

Both files are sparse (20 GiB of holes, a few blocks of data) with the tensors of Qwen3.5-35B-A3B and a vocabulary of 248320
entries. They differ in one byte of one tensor. `hone publish --manifest-only` makes the first manifest, which reads everything
once; the second is a copy with a different hash for that tensor, so 20 GiB are hashed only once. The comparison reads headers
and manifests. Time is the best of five."""
import json
import os
import shutil
import struct
import subprocess
import sys
import time

Q4_K, Q6_K, F32 = (12, 144), (14, 210), (0, 1024)  # id, bytes of 256 weights
HIDDEN, LAYERS, EXPERTS, WIDTH, VOCAB = 2048, 40, 256, 512, 248320


def tensors():
    yield "token_embd.weight", (HIDDEN, VOCAB), Q6_K
    yield "output.weight", (HIDDEN, VOCAB), Q6_K
    for i in range(LAYERS):
        for name, dims, kind in (("attn_norm", (HIDDEN,), F32), ("attn_qkv", (HIDDEN, 8192), Q4_K), ("attn_gate", (HIDDEN, 4096), Q4_K),
                                 ("ssm_out", (4096, HIDDEN), Q4_K), ("ffn_gate_inp", (HIDDEN, EXPERTS), F32),
                                 ("ffn_gate_exps", (HIDDEN, WIDTH, EXPERTS), Q4_K), ("ffn_up_exps", (HIDDEN, WIDTH, EXPERTS), Q4_K),
                                 ("ffn_down_exps", (WIDTH, HIDDEN, EXPERTS), Q6_K)):
            yield f"blk.{i}.{name}.weight", dims, kind


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def write(path, name, touched):
    """Writes a header, holes, and one byte of the tensor `touched`."""
    infos, at, place, n = b"", 0, None, 0
    for tensor, dims, (kind, bytes_256) in tensors():
        size = bytes_256
        for d in dims:
            size *= d
        size //= 256
        infos += text(tensor) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", kind, at)
        if tensor == touched:
            place = at + size // 2
        at += (size + 31) // 32 * 32
        n += 1
    keys = [text("general.architecture") + struct.pack("<I", 8) + text("qwen35moe"),
            text("general.name") + struct.pack("<I", 8) + text(name),
            text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, VOCAB) + b"".join(text(f"token{i}") for i in range(VOCAB))]
    head = b"GGUF" + struct.pack("<IQQ", 3, n, len(keys)) + b"".join(keys) + infos
    head += bytes(-len(head) % 32)
    with open(path, "wb") as f:
        f.write(head)
        f.truncate(len(head) + at)
        if place is not None:
            f.seek(len(head) + place)
            f.write(b"x")
    return len(head) + at


def main():
    hone, scratch, out = sys.argv[1:4]
    row = {"command": "python3 bench/diff.py build/hone SCRATCH OUT.json", "machine": "2 processors"}
    changed = "blk.17.ffn_up_exps.weight"
    for rev, touched in (("a", None), ("b", changed)):
        os.makedirs(f"{scratch}/{rev}")
        row["size_bytes"] = write(f"{scratch}/{rev}/M-Q4_K_M.gguf", "M", touched)
    t0 = time.monotonic()
    subprocess.run([hone, "publish", f"{scratch}/a", "--manifest-only", "-q"], check=True, stdout=subprocess.DEVNULL)
    row["publish_seconds"] = round(time.monotonic() - t0, 1)
    manifest = json.load(open(f"{scratch}/a/manifest.json"))
    for t in manifest["files"][0]["tensors"]:
        if t["name"] == changed:
            t["xxh128"] = t["xxh128"][::-1]
    json.dump(manifest, open(f"{scratch}/b/manifest.json", "w"), indent=2)
    times = []
    for _ in range(5):
        t0 = time.monotonic()
        r = subprocess.run([hone, "diff", f"{scratch}/a/M-Q4_K_M.gguf", f"{scratch}/b/M-Q4_K_M.gguf", "--json"], capture_output=True, text=True)
        times.append(time.monotonic() - t0)
        doc = json.loads(r.stdout)
        assert r.returncode == 1 and doc["n_tensors"] == 1, r.stdout[:2000] + r.stderr
        assert doc["compared"] == "manifests" and doc["data_bytes_read"] == 0, doc
    row["diff_seconds"] = round(min(times), 3)
    row["diff_seconds_worst"] = round(max(times), 3)
    row["n_tensors"] = doc["n_tensors_same"] + doc["n_tensors"]
    shutil.rmtree(scratch)
    with open(out, "w", encoding="utf-8") as f:
        json.dump(row, f, indent=1)
        f.write("\n")
    print(row)


main()
