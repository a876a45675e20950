#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/golden/containers/ with independent software: gguf-py, the safetensors package and numpy.

    python3 tests/oracle/containers.py tests/golden/containers

Made with gguf 0.19.0, safetensors 0.8.0, numpy 2.4 (any recent versions give the same contents)."""
import struct
import sys

import gguf
import numpy as np
from safetensors.numpy import save_file

out = sys.argv[1]
rng = np.random.default_rng(7)

# --- GGUF: every scalar type, arrays, F32, F16, Q8_0
w = gguf.GGUFWriter(f"{out}/py.gguf", "qwen3")
w.add_name("oracle")
w.add_quantization_version(2)
w.add_uint8("t.u8", 200)
w.add_int8("t.i8", -100)
w.add_uint16("t.u16", 60000)
w.add_int16("t.i16", -30000)
w.add_uint32("t.u32", 4000000000)
w.add_int32("t.i32", -2000000000)
w.add_float32("t.f32", 1.5)
w.add_bool("t.bool", True)
w.add_uint64("t.u64", 2**63 + 5)
w.add_int64("t.i64", -(2**62))
w.add_float64("t.f64", 0.1)
w.add_string("t.str", "h\u00e9llo")
w.add_array("t.arr_i32", [1, -2, 3])
w.add_array("t.arr_str", ["a", "", "b c"])
w.add_array("t.arr_f32", [0.5, 0.25])
w.add_tensor("blk.0.attn_q.weight", np.arange(64, dtype=np.float32).reshape(2, 32))
w.add_tensor("norm.weight", np.array([1, 2, 3, 4, 5], dtype=np.float16))
q = gguf.quants.quantize(np.linspace(-1, 1, 96, dtype=np.float32).reshape(3, 32), gguf.GGMLQuantizationType.Q8_0)
w.add_tensor("output.weight", q, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()

# --- safetensors: several types, a scalar, an empty tensor, metadata
save_file(
    {
        "a.f32": np.array([[1.0, -2.5], [3.25, 4e-3]], dtype=np.float32),
        "b.f16": np.array([1.5, -0.0625, 65504.0], dtype=np.float16),
        "c.i64": np.array([-7, 9], dtype=np.int64),
        "d.u8": np.array([0, 255, 3], dtype=np.uint8),
        "e.scalar": np.array(42.0, dtype=np.float64),
        "f.empty": np.zeros((0, 4), dtype=np.float32),
        "g.bool": np.array([True, False]),
    },
    f"{out}/py.safetensors",
    metadata={"format": "pt"},
)


# --- importance matrix, both forms: 1 dense weight, 1 of 2 experts
def text(s):
    return struct.pack("<i", len(s)) + s.encode()


s_q = np.array([512, 1024, 256, 0], dtype=np.float32)  # 1024 tokens = 2 calls of 512
s_e = np.array([[10, 20], [300, 500]], dtype=np.float32)
n_e = np.array([10, 100], dtype=np.float32)
with open(f"{out}/py.dat", "wb") as f:
    f.write(struct.pack("<i", 2))
    f.write(text("blk.0.attn_q.weight") + struct.pack("<ii", 2, 4) + (s_q / 1024 * 2).tobytes())
    f.write(text("blk.0.ffn_up_exps.weight") + struct.pack("<ii", 1, 4) + (s_e / n_e[:, None] * 1).tobytes())
    f.write(struct.pack("<i", 2) + text("dir/calib.txt"))
w = gguf.GGUFWriter(f"{out}/py-imatrix.gguf", "x")
w.kv_data[0].clear()
w.add_type("imatrix")
w.add_array("imatrix.datasets", ["calib.txt"])
w.add_uint32("imatrix.chunk_count", 2)
w.add_uint32("imatrix.chunk_size", 512)
w.add_tensor("blk.0.attn_q.weight.in_sum2", s_q.reshape(1, 4))
w.add_tensor("blk.0.attn_q.weight.counts", np.array([[1024]], dtype=np.float32))
w.add_tensor("blk.0.ffn_up_exps.weight.in_sum2", s_e)
w.add_tensor("blk.0.ffn_up_exps.weight.counts", n_e.reshape(2, 1))
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()

# --- base logits: 2 chunks of 8 tokens, vocabulary of 5 (odd: padded), 3 rows per chunk
n_ctx, n_vocab, n_chunk = 8, 5, 2
tok = rng.integers(0, n_vocab, n_ctx * n_chunk).astype("<i4")
logits = (rng.standard_normal((6, n_vocab)) * 8).astype(np.float32)
logits[1, 2] = 40.0  # others more than 16 below
logits[2, :] = 1.25  # all equal: scale 0
with open(f"{out}/py.kld", "wb") as f:
    f.write(b"_logits_" + struct.pack("<3i", n_ctx, n_vocab, n_chunk) + tok.tobytes())
    for row in logits:
        mx = row.max()
        lo = np.float32(max(row.min(), mx - np.float32(16)))
        scale = np.float32((mx - lo) / np.float32(65535))
        r64 = row.astype(np.float64)
        mlp = np.float32(float(lo) - float(mx) - np.log(np.exp(r64 - float(mx)).sum()))
        code = np.zeros(n_vocab + 1, dtype="<u2")
        if scale > 0:
            c = np.floor((r64 - float(lo)) / float(scale) + 0.5)
            code[:n_vocab] = np.where(row > lo, np.clip(c, 0, 65535), 0).astype("<u2")
        f.write(np.array([scale, mlp], dtype="<f4").tobytes() + code.tobytes())
logits.astype("<f4").tofile(f"{out}/kld-logits.bin")
