#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Moves a published quantized file's weights off their grid, so that no type reproduces them exactly: noise, uniform
over half a step to each side.

    hone quantize PUBLISHED.gguf --type F16 --allow-requantize -o SPELLED.gguf
    python3 bench/models/dither.py PUBLISHED.gguf SPELLED.gguf OUT.gguf

OUT.gguf is a base with the activations of a trained published model. Needs numpy and gguf (PyPI).
"""
import mmap
import os
import shutil
import subprocess
import sys

import gguf
import numpy as np


def half(data, size, at=0):
    """The float16 at byte `at` of each block of `size` bytes."""
    return data.reshape(-1, size)[:, at : at + 2].copy().view(np.float16).astype(np.float32)


def steps_q4_k(data):
    """d times the eight 6-bit scales, which 12 bytes contain: bytes 0-3 and 4-7 have the first four scales and minima
    in their low six bits; their high two bits extend the low nibbles of bytes 8-11, the last four scales."""
    packed = data.reshape(-1, 144)[:, 4:16].astype(np.int32)
    first, last = packed[:, :4] & 63, (packed[:, 8:] & 15) | (packed[:, :4] >> 6 << 4)
    return half(data, 144) * np.concatenate([first, last], axis=1)


def steps_q6_k(data):
    return half(data, 210, 208) * data.reshape(-1, 210)[:, 192:208].copy().view(np.int8)


# type: (weights per group, function that returns each group's step between neighbours of the grid)
STEPS = {
    "Q4_1": (32, lambda data: half(data, 20)),
    "Q5_0": (32, lambda data: half(data, 22)),
    "Q8_0": (32, lambda data: half(data, 34)),
    "Q4_K": (32, steps_q4_k),
    "Q6_K": (16, steps_q6_k),
}


def main(published, spelled, out):
    shutil.copy(spelled, out)
    to = {t.name: t for t in gguf.GGUFReader(out, "r+").tensors}
    rng = np.random.default_rng(1)
    for t in gguf.GGUFReader(published).tensors:
        kind = t.tensor_type.name
        if kind in ("F32", "F16", "BF16"):
            continue
        n, steps = STEPS[kind]
        step = np.abs(steps(np.ascontiguousarray(t.data).view(np.uint8))).reshape(-1, 1)
        data = to[t.name].data
        x = np.array(data).astype(np.float32).reshape(-1, n)
        x += rng.uniform(-0.5, 0.5, x.shape).astype(np.float32) * step
        data[...] = x.reshape(data.shape).astype(np.float16)
    with open(out, "r+b") as f, mmap.mmap(f.fileno(), 0) as m:  # these keys no longer describe the file
        for key in b"hone.base_type", b"hone.replay":
            at = m.find(key)
            if at >= 0:
                m[at + len(key) - 1 : at + len(key)] = b"_"


def prepared(hone, at):
    """The path of the base of the published file at + ".gguf"; makes it, and its F16 spelling, unless they exist."""
    published, spelled, base = (at + end for end in (".gguf", "-F16.gguf", "-dithered.gguf"))
    if not os.path.exists(spelled):
        subprocess.run([hone, "quantize", published, "--type", "F16", "--allow-requantize", "-o", spelled, "-q"], check=True, stdout=subprocess.DEVNULL)
    if not os.path.exists(base):
        main(published, spelled, base + ".part")
        os.rename(base + ".part", base)
    return base


if __name__ == "__main__":
    main(*sys.argv[1:])
