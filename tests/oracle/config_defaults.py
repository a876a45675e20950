#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes models/defaults.json: what the configuration classes of transformers take for keys that a config.json leaves out.

An entry per text model: the class's name, the model types of folders that hold such a model in their text_config, other names
of keys (attribute_map), the rope parameters that a file without any has, and the value of each key that has one. Only
keys that occur in models/*.[ch] are stored; run it again when an architecture begins to read another key, or a class is added.

Usage: python3 tests/oracle/config_defaults.py   (from the repository root; transformers 5.24)
"""
import dataclasses
import glob
import json
import re

import transformers
from transformers import PreTrainedConfig

SOURCES = "".join(open(f).read() for f in sorted(glob.glob("models/*.[ch]")) if not f.endswith("defaults.c"))
CLASSES = sorted(set(re.findall(r'"([A-Za-z0-9_]+(?:For[A-Z]\w+|LMHeadModel|Model))"', SOURCES)))
KEYS = set(re.findall(r"[A-Za-z_][A-Za-z0-9_]+", " ".join(re.findall(r'"([^"\n]*)"', SOURCES))))
PLAIN = (bool, int, float, str)


def rope_of(cls, **given):
    rope = getattr(cls(**given), "rope_parameters", None)
    return rope if isinstance(rope, dict) else None


def entry(cls):
    fields = {f.name: f.default for f in dataclasses.fields(cls)}
    base = {f.name for f in dataclasses.fields(PreTrainedConfig)}
    out = {"class": cls.__name__, "types": [], "also": {k: v for k, v in cls.attribute_map.items() if {k, v} <= KEYS}}
    rope = rope_of(cls)
    if rope:
        out["rope"] = rope  # of a file without rope parameters
        given = rope_of(cls, rope_parameters={"rope_type": "default"})
        out["fill"] = {k: v for k, v in given.items() if k not in ("rope_type", "type")} if given != rope else None
        if not out["fill"]:  # what others leave out is the same
            del out["fill"]
    out["keys"] = {k: v for k, v in fields.items() if k in KEYS and k not in base and type(v) in PLAIN}
    return out


def main():
    table = {}
    for name in CLASSES:
        cls = getattr(transformers, name, None)
        root = getattr(cls, "config_class", None)
        if not root:
            continue
        text = type(root().get_text_config(decoder=True))
        e = table.setdefault(text.model_type, entry(text))
        if root.model_type != text.model_type and root.model_type not in e["types"]:
            e["types"].append(root.model_type)
    with open("models/defaults.json", "w") as f:
        rows = [json.dumps(k) + ": " + json.dumps(table[k]) for k in sorted(table)]
        f.write("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    main()
