# SPDX-License-Identifier: MIT
"""Tests projector files in another engine: interop-vision.py HONE SCRATCH OUT.json, run by tests/interop.sh.

Converts the golden models with a vision tower with `hone convert --mmproj`, loads the files with llama-cpp-python's mtmd next
to their language models, and compares the embeddings of an image with those of transformers (tests/oracle/mmproj.py). The
engine computes parts of the tower in half precision; BOUND limits the largest difference, divided by the largest value. The
same image with red and blue exchanged must differ by more than BOUND, which shows that the comparison detects a wrong order of
the kernels."""
import ctypes
import json
import pathlib
import subprocess
import sys

import llama_cpp
import numpy as np
from llama_cpp import mtmd_cpp as mtmd

BOUND = 2e-2
hone, scratch, out_path = sys.argv[1].split(), pathlib.Path(sys.argv[2]), sys.argv[3]


def safetensors(path):
    raw = open(path, "rb").read()
    n = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + n])
    kind = {"U8": np.uint8, "F32": np.float32}
    return {k: np.frombuffer(raw[8 + n:][slice(*v["data_offsets"])], kind[v["dtype"]]).reshape(v["shape"]) for k, v in header.items() if k[0] != "_"}


def embeddings(ctx, rgb, shape):
    data = np.ascontiguousarray(rgb)
    bitmap = mtmd.mtmd_bitmap_init(rgb.shape[1], rgb.shape[0], data.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8)))
    chunks, text = mtmd.mtmd_input_chunks_init(), mtmd.mtmd_input_text()
    marker = mtmd.mtmd_default_marker()
    text.text, text.text_len, text.add_special, text.parse_special = marker, len(marker), False, True
    assert mtmd.mtmd_tokenize(ctx, chunks, ctypes.byref(text), (mtmd.mtmd_bitmap_p_ctypes * 1)(bitmap), 1) == 0
    for i in range(mtmd.mtmd_input_chunks_size(chunks)):
        chunk = mtmd.mtmd_input_chunks_get(chunks, i)
        if mtmd.mtmd_input_chunk_get_type(chunk) == 1:
            assert mtmd.mtmd_input_chunk_get_n_tokens(chunk) == shape[0] and mtmd.mtmd_encode_chunk(ctx, chunk) == 0
            return np.ctypeslib.as_array(mtmd.mtmd_get_output_embd(ctx), shape).copy()


def check(name):
    text, tower = scratch / "text.gguf", scratch / "mmproj.gguf"
    subprocess.run([*hone, "convert", f"tests/golden/models/{name}", "-o", text, "--mmproj", tower, "--type", "f32", "-f", "-q"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    model = llama_cpp.llama_model_load_from_file(str(text).encode(), llama_cpp.llama_model_default_params())
    params = mtmd.mtmd_context_params_default()
    params.use_gpu, params.n_threads = False, 1
    ctx = model and mtmd.mtmd_init_from_file(str(tower).encode(), model, params)
    if not ctx:
        return dict(model=name, loads=False)
    g = safetensors(f"tests/golden/mmproj/image-{name}.safetensors")
    want = g["embeddings"]
    off = [float(abs(embeddings(ctx, rgb, want.shape) - want).max() / abs(want).max()) for rgb in (g["rgb"], g["rgb"][:, :, ::-1])]
    mtmd.mtmd_free(ctx)
    llama_cpp.llama_model_free(model)
    return dict(model=name, loads=True, image_tokens=want.shape[0], relative_difference=off[0], with_colours_exchanged=off[1])


llama_cpp.llama_backend_init()
rows = [check(name) for name in ("qwen35", "gemma4moe")]
bad = [r["model"] for r in rows if not r["loads"] or not r["relative_difference"] <= BOUND < r["with_colours_exchanged"]]
json.dump(dict(command="make interop", bound=BOUND, failures=bad, towers=rows), open(out_path, "w"), indent=1)
for r in rows:
    print("vision", r)
sys.exit(len(bad) > 0)
