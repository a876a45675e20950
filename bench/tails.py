#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which tensors of a file make its mean divergence, and which make its 99.9 % tail?

    bench/tails.py build/hone BASE.gguf FILE.gguf TEXT WORK OUT.json

For each class of tensors, WORK gets a copy of FILE with these tensors as in BASE. One run of `hone eval kld --routing` compares all
copies with BASE. OUT collects, under FILE's name: bytes of the class in FILE, the shares of the mean and of the 99.9 % divergence
that disappear with the class, and, by layer, the share of tokens whose experts are not the base's. CHUNKS: windows of TEXT (64).
The classes are those of a hybrid mixture of four blocks (tiny-qwen35moe)."""
import json
import os
import re
import struct
import subprocess
import sys

CLASSES = {
    "embeddings": r"^token_embd",
    "head": r"^output\.weight",
    "attention, delta net of block 0": r"^blk\.0\.(attn_(qkv|gate)|ssm_)",
    "attention, delta net of blocks 1 to 3": r"^blk\.[123]\.(attn_(qkv|gate|q|k|v|output)\.|ssm_)",
    "shared experts": r"ffn_(gate|up|down)_shexp",
    "gate and up of experts, blocks 0 and 1": r"blk\.[01]\.ffn_(gate|up)_exps",
    "gate and up of experts, blocks 2 and 3": r"blk\.[23]\.ffn_(gate|up)_exps",
    "down of experts, blocks 0 and 1": r"blk\.[01]\.ffn_down_exps",
    "down of experts, blocks 2 and 3": r"blk\.[23]\.ffn_down_exps",
}
SIZE = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
ALIGN = 32


def after(d, at, kind):
    """Returns the position after a metadata value."""
    if kind == 8:
        return at + 8 + struct.unpack_from("<Q", d, at)[0]
    if kind != 9:
        return at + SIZE[kind]
    kind, n = struct.unpack_from("<IQ", d, at)
    at += 12
    for _ in range(n if kind == 8 else 0):
        at = after(d, at, 8)
    return at if kind == 8 else at + n * SIZE[kind]


def read(path):
    """Returns a file's metadata with its count of entries, and its tensors by name: shape, type and bytes."""
    d = open(path, "rb").read()
    n_tensors, n_meta = struct.unpack_from("<QQ", d, 8)
    at, found = 24, []
    for _ in range(n_meta):
        at = after(d, at, 8)
        at = after(d, at + 4, struct.unpack_from("<I", d, at)[0])
    meta = d[24:at]
    for _ in range(n_tensors):
        name = d[at + 8:after(d, at, 8)].decode()
        at = after(d, at, 8)
        n_dims = struct.unpack_from("<I", d, at)[0]
        shape = struct.unpack_from(f"<{n_dims}Q", d, at + 4)
        kind, first = struct.unpack_from("<IQ", d, at + 4 + 8 * n_dims)
        at += 16 + 8 * n_dims
        found.append((name, shape, kind, first))
    data = -(-at // ALIGN) * ALIGN
    ends = sorted(f[3] for f in found) + [len(d) - data]
    return meta, n_meta, {n: (s, k, d[data + f:data + ends[ends.index(f) + 1]]) for n, s, k, f in found}


def splice(file, base, pattern, out):
    """Writes `file` with base's tensors where the name matches, and returns the bytes that these had."""
    meta, n_meta, tensors = file
    head, body, at, taken = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), n_meta) + meta, [], 0, 0
    for name, (shape, kind, data) in tensors.items():
        if re.search(pattern, name) and base[2][name][2] != data:
            taken += len(data)
            _, kind, data = base[2][name]
        body.append(data + b"\0" * (-len(data) % ALIGN))
        head += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}QIQ", *shape, kind, at)
        at += len(body[-1])
    with open(out, "wb") as f:
        f.write(head + b"\0" * (-len(head) % ALIGN) + b"".join(body))
    return taken


def changed(res, model):
    return [round(1 - r["same_set"], 4) for r in res["routing"] if r["model"] == model]


def table(res, size):
    """Returns a row per class from a result of `eval kld`, whose first candidate is the file itself."""
    whole, *parts = res["candidates"]
    row = dict(mean_kld=whole["mean_kld"], kld_p999=whole["kld_p999"], n_tokens=res["n_tokens"],
               experts_changed=changed(res, whole["model"]), classes={})
    for (name, n), c in zip(size.items(), parts):
        row["classes"][name] = dict(bytes=n, share_of_mean=round(1 - c["mean_kld"] / whole["mean_kld"], 4),
                                    share_of_p999=round(1 - c["kld_p999"] / whole["kld_p999"], 4),
                                    experts_changed=changed(res, c["model"]))
    return row


def main():
    hone, base, file, text, work, out = sys.argv[1:7]
    os.makedirs(work, exist_ok=True)
    a, b, paths, size = read(file), read(base), [file], {}
    for i, (name, pattern) in enumerate(CLASSES.items()):
        paths.append(f"{work}/{i}-{os.path.basename(file)}")
        size[name] = splice(a, b, pattern, paths[-1])
    res = json.loads(subprocess.run([hone, "eval", "kld", *paths, text, "--base", base, "--routing", "--chunks",
                                     os.environ.get("CHUNKS", "64"), "-q", "--json"], check=True, stdout=subprocess.PIPE).stdout)
    doc = json.load(open(out)) if os.path.exists(out) else {}
    doc[os.path.basename(file)] = table(res, size)
    with open(out, "w") as f:
        json.dump(doc, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
