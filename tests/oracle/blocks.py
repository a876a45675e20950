#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/golden/blocks/<TYPE>.bin: random valid blocks and the values that the PyPI package `gguf` decodes
them to. Usage: blocks.py OUTDIR [N_BLOCKS]   (needs gguf and numpy; see tests/golden/blocks/how.md)

File: u32 number of blocks, u32 bytes per block, u32 weights per block, blocks, f32 weights.
Half-precision fields get finite values of all sizes; every other byte is uniform random, except that
the first block is all 0x00 and the second all 0xff outside its half-precision fields."""
import struct
import sys

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

# type: byte offsets of its f16 fields
HALF = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "IQ4_NL": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_XS": [0],
    "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0],
    "MXFP4": [], "NVFP4": [], "BF16": [], "TQ1_0": [52], "TQ2_0": [64], "IQ1_S": [0], "IQ1_M": [],
}
N_BLOCKS = {"BF16": 2000, "IQ1_S": 68, "IQ1_M": 68}


def half(rng):
    while True:
        h = np.uint16(rng.integers(0, 1 << 16))
        if (h >> 10) & 31 != 31:
            return h


def every_grid_entry(name, b):
    """Makes the blocks from the third on use all indices of the grid."""
    for i, row in enumerate(b[2:66]):
        h = np.arange(64)
        if name == "IQ2_XXS" and i < 8:
            row[2:].reshape(8, 8)[:, :4] = (32 * i + h[:32]).reshape(8, 4)
        elif name == "IQ2_XS" and i < 16:
            q = row[2:66].view("<u2")
            q[:] = (q & 0xFE00) | (32 * i + h[:32])
        elif name == "IQ2_S" and i < 32:
            index = 32 * i + h[:32]
            row[2:34] = index & 255
            row[66:74] = ((index >> 8) << 2 * (h[:32] % 4)).reshape(8, 4).sum(1)
        elif name == "IQ3_XXS" and i < 4:
            row[2:66] = 64 * i + h
        elif name == "IQ3_S" and i < 8:
            index = 64 * i + h
            row[2:66] = index & 255
            row[66:74] = ((index >> 8) << (h % 8)).reshape(8, 8).sum(1)
        elif name == "IQ1_S":
            index = 32 * i + h[:32]
            row[2:34] = index & 255
            q = row[34:50].view("<u2")
            q[:] = (q & 0xF000) | ((index >> 8) << 3 * (h[:32] % 4)).reshape(8, 4).sum(1)
        elif name == "IQ1_M":
            index = 32 * i + h[:32]
            row[:32] = index & 255
            row[32:48] = (row[32:48] & 0x88) | ((index >> 8) << 4 * (h[:32] % 2)).reshape(16, 2).sum(1)


def blocks_of(name, rng, n):
    per, size = GGML_QUANT_SIZES[T[name]]
    b = rng.integers(0, 256, (n, size), dtype=np.uint8)
    b[0], b[1] = 0, 255
    for off in HALF[name]:
        for row in b:
            row[off:off + 2] = np.frombuffer(half(rng).tobytes(), np.uint8)
    if name == "IQ1_M":  # the top nibbles of four words
        for row in b:
            bits = int(half(rng))
            for i in range(4):
                row[49 + 2 * i] = (row[49 + 2 * i] & 15) | (bits >> 4 * i & 15) << 4
    every_grid_entry(name, b)
    if name == "MXFP4":
        b[0, 0], b[1, 0], b[2, 0], b[3, 0] = 0, 1, 2, 251
        b[b[:, 0] > 251, 0] = 127  # larger scales overflow f32
    if name == "BF16":
        v = b.view(np.uint16)
        v[(v & 0x7F80) == 0x7F80] = 0x3F80
    return per, b


def main(out, n=None):
    rng = np.random.default_rng(20240817)
    for name in HALF:
        per, b = blocks_of(name, rng, int(n or N_BLOCKS.get(name, 40)))
        with np.errstate(all="ignore"):
            y = dequantize(b.reshape(-1), T[name]).astype("<f4").reshape(-1)
        assert y.size == per * len(b) and np.isfinite(y).all(), name
        with open(f"{out}/{name}.bin", "wb") as f:
            f.write(struct.pack("<III", len(b), b.shape[1], per) + b.tobytes() + y.tobytes())


main(*sys.argv[1:])
