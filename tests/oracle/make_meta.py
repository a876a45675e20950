# SPDX-License-Identifier: MIT
"""tests/oracle/make_meta.py FOLDER - writes base.gguf and edited.gguf with the gguf package: both have the same tensor, and the
metadata before and after the edits of tests/cli/meta.sh."""

import sys

import gguf
import numpy as np

BASE = [("general.name", "Base", "str"), ("general.description", "x" * 300, "str"), ("t.count", 7, "u32"), ("t.small", 3, "u8"),
        ("t.neg", -5, "i16"), ("t.long", 1 << 40, "u64"), ("t.deep", -(1 << 40), "i64"), ("t.ratio", 0.25, "f32"), ("t.exact", 0.1, "f64"),
        ("t.on", True, "bool"), ("t.ints", [1, 2, 3], "arr"), ("t.words", ["a", "b c"], "arr"), ("t.gone", "soon", "str"),
        ("tokenizer.chat_template", "{{ messages }}", "str")]
EDITS = {"general.name": "Größer =\"quoted\"", "t.count": 4294967295, "t.small": 255, "t.neg": -32768, "t.long": (1 << 64) - 1,
         "t.deep": -(1 << 63), "t.ratio": 1e-6, "t.exact": 1e300, "t.on": False, "t.ints": [-1, 2147483647], "t.words": ["", "ü", "\"\\\n"],
         "tokenizer.chat_template": "{% for m in messages %}\n{{ m }}\n{% endfor %}\n"}
ADDED = [("general.sampling.temp", 1.0, "f32"), ("general.version", "2", "str"), ("general.tags", ["chat"], "arr"), ("new.flag", True, "bool"),
         ("new.whole", 12, "u32"), ("new.minus", -12, "i32"), ("new.wide", 5000000000, "u64"), ("new.part", 1.5, "f32"), ("new.text", "1.5.0", "str"),
         ("new.byte", 9, "u8"), ("new.list", [1.5, 2.0], "arr"), ("new.at", "@me", "str")]
HOW = {"str": "add_string", "u8": "add_uint8", "i16": "add_int16", "u32": "add_uint32", "i32": "add_int32", "u64": "add_uint64", "f32": "add_float32",
       "f64": "add_float64", "bool": "add_bool", "arr": "add_array"}


def write(path: str, rows: list) -> None:
    w = gguf.GGUFWriter(path, "test")
    for key, value, kind in rows:
        if kind == "i64":
            w.add_key_value(key, value, gguf.GGUFValueType.INT64)
        else:
            getattr(w, HOW[kind])(key, value)
    w.add_tensor("x", np.arange(64, dtype=np.float32).reshape(2, 32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


write(sys.argv[1] + "/base.gguf", BASE)
write(sys.argv[1] + "/edited.gguf", [(k, EDITS.get(k, v), t) for k, v, t in BASE if k != "t.gone"] + ADDED)
