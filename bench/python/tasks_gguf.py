# SPDX-License-Identifier: MIT
"""The tasks that gguf (gguf-py) can do."""
from run import M, OUT


def t01_open_file():
    from gguf import GGUFReader
    return len(GGUFReader(M).tensors)

def t02_read_key():
    from gguf import GGUFReader
    return GGUFReader(M).get_field("general.architecture").contents()

def t03_vocabulary():
    from gguf import GGUFReader
    return GGUFReader(M).get_field("tokenizer.ggml.tokens").contents()[100]

def t04_sizes_by_type():
    from gguf import GGUFReader
    sizes = {}
    for t in GGUFReader(M).tensors:
        sizes[t.tensor_type.name] = sizes.get(t.tensor_type.name, 0) + int(t.n_bytes)
    return sizes

def t05_dequantize():
    from gguf import GGUFReader
    from gguf.quants import dequantize
    t = next(t for t in GGUFReader(M).tensors if t.name == "token_embd.weight")
    return float(abs(dequantize(t.data, t.tensor_type)).max())

def t06_write_file():
    import numpy as np
    from gguf import GGUFWriter
    w = GGUFWriter(OUT, "x")
    w.add_uint32("x.layers", 2)
    w.add_tensor("a", np.ones((64, 256), "f4"))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()

def t08_change_key():
    from gguf import GGUFReader, GGUFValueType, GGUFWriter
    r = GGUFReader(M)
    w = GGUFWriter(OUT, r.get_field("general.architecture").contents())
    for f in r.fields.values():
        if f.name.startswith("GGUF.") or f.name == "general.architecture":
            continue
        sub = f.types[-1] if f.types[0] == GGUFValueType.ARRAY else None
        value = "other" if f.name == "general.name" else f.contents()
        w.add_key_value(f.name, value, f.types[0], sub_type=sub)
    for t in r.tensors:
        w.add_tensor(t.name, t.data, raw_shape=t.data.shape, raw_dtype=t.tensor_type)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
