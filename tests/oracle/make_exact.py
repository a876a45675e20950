# SPDX-License-Identifier: MIT
"""tests/oracle/make_exact.py OUT.gguf - weights of low-bit training, as published checkpoints store them, written with numpy and the gguf package.
tests/oracle/make_exact.py OUT.gguf QUANTIZED.gguf - checks with the gguf package's decoders that a file of hone quantize holds them without loss."""

import sys

import gguf
import ml_dtypes
import numpy as np
from gguf.quants import dequantize

COLS, ROWS = 256, 6
bf16 = ml_dtypes.bfloat16
rng = np.random.default_rng(7)


def blocks(low: int, high: int) -> np.ndarray:
    return rng.integers(low, high + 1, (ROWS, COLS // 32, 32)).astype(np.float32)


def scales(kind) -> np.ndarray:
    return (rng.uniform(0.002, 0.09, (ROWS, COLS // 32, 1))).astype(kind).astype(np.float32)


def flat(x: np.ndarray, kind) -> np.ndarray:
    return x.reshape(ROWS, COLS).astype(kind)


def fp4() -> np.ndarray:
    levels = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6], np.float32)
    return levels[rng.integers(0, 16, (ROWS, COLS // 32, 32))] * np.exp2(rng.integers(-9, -3, (ROWS, COLS // 32, 1))).astype(np.float32)


few = blocks(-3, 2)
few[:, 1] = 0
negative = blocks(-7, 8)  # of a negative scale: 8 times it is the largest weight
negative[:, :, 5] = 8
broken = blocks(-8, 7) * scales(bf16)
broken[3, 4] *= 1 + .03 * rng.normal(size=32)
tensors = {  # name: (weights, type in which they are exact)
    "blk.0.attn_q.weight": (flat(blocks(-8, 7) * scales(np.float16), bf16), "Q4_0"),  # quantization-aware training, scales f16
    "blk.0.attn_k.weight": (flat(blocks(-8, 7) * scales(bf16), bf16), "Q4_0"),  # int4 of compressed-tensors, scales bf16
    "blk.0.attn_v.weight": (flat(negative * scales(np.float16), np.float16), "Q4_0"),
    "blk.0.attn_output.weight": (flat(few * scales(bf16), np.float32), "Q4_0"),
    "blk.0.ffn_gate.weight": (flat(fp4(), bf16), "MXFP4"),
    "blk.0.ffn_up.weight": (flat(blocks(-127, 127) * scales(bf16), bf16), "Q8_0"),
    "blk.0.ffn_down.weight": (flat(blocks(-127, 127) * scales(np.float16), np.float32), "Q8_0"),
    "blk.1.attn_q.weight": (flat(broken, bf16), ""),
    "blk.1.attn_k.weight": (flat(rng.normal(0, .02, (ROWS, COLS)), bf16), ""),
    "blk.1.attn_v.weight": (np.zeros((ROWS, COLS), bf16), ""),
    "blk.1.attn_output.weight": (flat(blocks(-8, 7) * scales(np.float32), np.float32), ""),  # scales that f16 cannot hold
}
if len(sys.argv) > 2:
    bad = 0
    for t in gguf.GGUFReader(sys.argv[2]).tensors:
        want, kind = tensors[t.name]
        if not kind:
            continue
        got = dequantize(t.data, t.tensor_type).reshape(ROWS, COLS).astype(want.dtype)
        if t.tensor_type.name != kind or not np.array_equal(got.astype(np.float32), want.astype(np.float32)):
            bad += 1
            print("FAULT", t.name, t.tensor_type.name)
    print("OK" if not bad else "FAULT")
    sys.exit(bad)
w = gguf.GGUFWriter(sys.argv[1], "llama")
w.add_block_count(2)
w.add_head_count(4)
for name, (x, _) in tensors.items():
    if x.dtype == bf16:
        w.add_tensor(name, x.view(np.uint16).view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
    else:
        w.add_tensor(name, x)
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
