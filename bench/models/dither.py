#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Moves a published Q4_1 file's weights off their grid, so that no type reproduces them exactly: uniform noise of half a step.

    hone quantize PUBLISHED.gguf --type F16 --allow-requantize -o SPELLED.gguf
    python3 bench/models/dither.py PUBLISHED.gguf SPELLED.gguf OUT.gguf

OUT.gguf is a dense base with the activations of a trained published model. Needs numpy and gguf (PyPI).
"""
import mmap
import shutil
import sys

import gguf
import numpy as np

published, spelled, out = sys.argv[1:]
shutil.copy(spelled, out)
to = {t.name: t for t in gguf.GGUFReader(out, "r+").tensors}
rng = np.random.default_rng(1)
for t in gguf.GGUFReader(published).tensors:
    if t.tensor_type.name == "Q4_1":  # blocks of 32 weights: scale, minimum, 16 bytes of codes
        step = np.array(t.data).reshape(-1, 20)[:, :2].copy().view(np.float16).astype(np.float32)
        data = to[t.name].data
        x = np.array(data).astype(np.float32).reshape(-1, 32)
        x += rng.uniform(-0.5, 0.5, x.shape).astype(np.float32) * np.abs(step)
        data[...] = x.reshape(data.shape).astype(np.float16)
with open(out, "r+b") as f, mmap.mmap(f.fileno(), 0) as m:  # these keys no longer describe the file
    for key in b"hone.base_type", b"hone.replay":
        at = m.find(key)
        m[at + len(key) - 1 : at + len(key)] = b"_"
