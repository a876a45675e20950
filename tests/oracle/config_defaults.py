#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes models/defaults.json: the defaults of transformers' configuration classes for keys missing in config.json.

There is one entry per model type of a text model: the class's name, alternative names of keys ("also", attribute_map), the rope
parameters that are added if a file lacks some ("fill") or all of them ("rope"), and the default value of each key that has one.
Types of folders that hold such a model in their text_config, and class names of models, refer to the text model's type; null is
a class that transformers lacks (tests/lint/defaults.sh checks that the table names every class). Only keys that occur in
models/*.[ch] are stored; run it again when an architecture begins to read another key, or a class is added.

Usage: python3 tests/oracle/config_defaults.py   (from the repository root; transformers 5.24)
"""
import dataclasses
import glob
import json
import re

import transformers
from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedConfig

SOURCES = "".join(open(f).read() for f in sorted(glob.glob("models/*.[ch]")) if not f.endswith("defaults.c"))
CLASSES = sorted(set(re.findall(r'"([A-Za-z0-9_]+(?:For[A-Z]\w+|LMHeadModel|Model))"', SOURCES)))
KEYS = {k for k in re.findall(r"[A-Za-z_][A-Za-z0-9_]+", " ".join(re.findall(r'"([^"\n]*)"', SOURCES))) if not k.endswith("_token_id")}
SPELLED = {n.lower(): n for n in dir(transformers)}  # SarvamMoE in published files is SarvamMoe in transformers
PLAIN = (bool, int, float, str)


def rope_of(cls, **given):
    rope = getattr(cls(**given), "rope_parameters", None)
    return rope if isinstance(rope, dict) else None


def entry(cls):
    fields = {f.name: f.default for f in dataclasses.fields(cls)}
    base = {f.name for f in dataclasses.fields(PreTrainedConfig)}
    out = {"class": cls.__name__}
    also = {k: v for k, v in cls.attribute_map.items() if k in KEYS or v in KEYS}
    partner = {**also, **{v: k for k, v in also.items()}}
    if also:
        out["also"] = also
    rope = rope_of(cls)
    if rope:
        given = rope_of(cls, rope_parameters={"rope_type": "default"})
        fill = {k: v for k, v in given.items() if k not in ("rope_type", "type")} or rope
        out["fill"] = plain(fill, types=False)  # for keys that are missing in other parameters
        if plain(rope) != out["fill"]:
            out["rope"] = plain(rope)  # for a file without rope parameters
        for one in [v for v in out["fill"].values() if isinstance(v, dict)] or [out["fill"]]:
            one.setdefault("partial_rotary_factor", 1.0)  # what transformers assumes where a class gives nothing
    keys = {k: v for k, v in fields.items() if k not in base and type(v) in PLAIN}
    keys.update({partner[k]: v for k, v in keys.items() if k in partner})
    dense = getattr(cls(), "mlp_layer_types", None) or []  # a list that follows from the number of layers
    if "dense" in dense:
        keys.setdefault("first_k_dense_replace", dense.count("dense"))
    out["keys"] = {k: v for k, v in keys.items() if k in KEYS}
    return out


def config_of(name):
    """The configuration class of a model class; None: transformers has neither."""
    cls = getattr(transformers, SPELLED.get(name.lower(), ""), None)
    config = SPELLED.get(name.split("For")[0].lower() + "config", "")  # of a model that runs with another one's code
    return getattr(cls, "config_class", None) or getattr(transformers, config, None)


def plain(rope, types=True):
    """Removes members that have no information."""
    rope = {k: plain(v, types) if isinstance(v, dict) else v for k, v in rope.items()}
    no = ("type", "max_position_embeddings") + (() if types and rope.get("rope_type") != "default" else ("rope_type",))
    return {k: v for k, v in rope.items() if k not in no}


def main():
    table = {}
    for name in CLASSES:
        root = config_of(name)
        try:
            text = type(root().get_text_config(decoder=True)) if root else None
        except StrictDataclassError:  # the class rejects its own defaults
            text = None
        if not text:
            table[name] = None
            continue
        if text.model_type not in table:
            table[text.model_type] = entry(text)
        for other in (root.model_type, name):
            table.setdefault(other, text.model_type)
    with open("models/defaults.json", "w") as f:
        rows = [json.dumps(k) + ": " + json.dumps(table[k]) for k in sorted(table)]
        f.write("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    main()
