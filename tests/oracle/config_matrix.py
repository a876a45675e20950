#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/configs/resaved.json: config.json of every micro checkpoint in tests/golden as transformers saves it again.

One line per checkpoint. "v5" and "v4" are the changes from its config.json to the one that transformers 5 and 4 save after
reading it. The others are changes from "v5" to the config that is saved after an edit of config.json: "absent", for each key
that transformers does not require, if the key is missing; "null", if it is null and not kept; "absent5", if a member of the
rope_parameters in "v5" is missing; "alias", if a key has an alternative name of the class's attribute_map, as in "old=new". A
change is {"set": members, "drop": names, "in": changes of members}. Conversion of the edited file must equal conversion of the
file that transformers saves for it.

Usage: python3 tests/oracle/config_matrix.py v4; python3 tests/oracle/config_matrix.py v5   (from the repository root;
       each with its own release: transformers 4.57 and 5.24. The second keeps what the first wrote.)
"""
import copy
import glob
import json
import os
import sys
import tempfile

import transformers
from transformers import AutoConfig

OUT = "tests/golden/configs/resaved.json"
# Token ids are left out because conversion takes them from the tokenizer's files first.
NOT_READ = ("transformers_version", "vision_config", "audio_config", "dtype", "torch_dtype")

# Settings that hone reads and transformers does not: a list of layers under its older name, and a context length next
# to the rope parameters. Then what no file lacks: the experts of DBRX, and factors of MiniCPM 3 that are null.
OTHER = {"archs/mimo2": [("absent", "num_hidden_layers")], "archs/phimoe": [("absent5", "original_max_position_embeddings")],
         "archs/dbrx": [("absent", "ffn_config"), ("null", "ffn_config")], "archs/minicpm3": [("null", "dim_model_base"), ("null", "scale_depth")]}  # fmt: skip


# Types that AutoConfig knows only inside another one: that type and its class.
INSIDE = {"step3p5": ("step3p7", "Step3p7ForConditionalGeneration")}


def is_read(key):
    return key not in NOT_READ and not key.endswith("_token_id")


def saved(config):
    """The config that transformers saves after reading this one; None if it refuses it."""
    with tempfile.TemporaryDirectory() as d:
        try:
            with open(d + "/config.json", "w") as f:
                json.dump(config, f)
            AutoConfig.from_pretrained(d).save_pretrained(d + "/new")
            with open(d + "/new/config.json") as f:
                return json.load(f)
        except Exception:
            return None


def change(a, b):
    out = {"set": {}, "drop": [k for k in a if k not in b and is_read(k)], "in": {}}
    for k, v in b.items():
        if k == "text_config" and isinstance(a.get(k), dict):
            inner = change(a[k], v)
            if inner:
                out["in"][k] = inner
        elif is_read(k) and (k not in a or a[k] != v or type(a[k]) is not type(v)):
            out["set"][k] = v
    return {k: v for k, v in out.items() if v}


def text(config):
    return config.get("text_config") if isinstance(config.get("text_config"), dict) else config


def variants(config, base, null):
    """The differences from `base` after each key in turn is removed, or with null set to null."""
    out = {}
    for k in text(config):
        if k in ("architectures", "model_type", "torch_dtype", "dtype", "bos_token_id", "eos_token_id", "pad_token_id"):
            continue
        if k == "tie_word_embeddings" and text(config) is not config:
            continue  # the value at the root decides
        c = copy.deepcopy(config)
        if null and text(c)[k] is None:
            continue
        text(c)[k] = None
        if not null:
            del text(c)[k]
        s = saved(c)
        if s is not None:
            out[k] = change(base, s)
    return out


def aliases(config, base):
    """The differences from `base` after keys get alternative names."""
    out = {}
    cls = getattr(transformers, config["architectures"][0], None)
    for name, key in type(cls.config_class().get_text_config(decoder=True)).attribute_map.items() if cls else ():
        for old, new in ((name, key), (key, name)):
            if old not in text(config) or new in text(config):
                continue
            c = copy.deepcopy(config)
            text(c)[new] = text(c).pop(old)
            s = saved(c)
            if s is not None:
                out[old + "=" + new] = change(base, s)
    return out


def rope_members(base):
    out = {}
    rope = text(base).get("rope_parameters") or {}
    kinds = [[k] for k, v in rope.items() if isinstance(v, dict)] or [[]]
    for kind in kinds:
        of = rope[kind[0]] if kind else rope
        for path in ([kind] if len(kinds) > 1 else []) + [kind + [m] for m in of]:
            c = copy.deepcopy(base)
            inner = text(c)["rope_parameters"]
            for k in path[:-1]:
                inner = inner[k]
            del inner[path[-1]]
            s = saved(c)
            if s is not None:
                out[".".join(path)] = change(base, s)
    return out


def main():
    mode = sys.argv[1]
    table = {}
    if os.path.exists(OUT):
        with open(OUT) as f:
            table = json.load(f)
    for d in sorted(glob.glob("tests/golden/archs/*/") + glob.glob("tests/golden/models/*/")):
        name = d.rstrip("/").removeprefix("tests/golden/")
        with open(d + "config.json") as f:
            config = json.load(f)
        new = "rope_parameters" in text(config)  # a config that transformers 4 does not read
        inside = INSIDE.get(config.get("model_type"))
        part = {k: v for k, v in config.items() if v is not None}  # its class refuses pad_token_id null
        whole = {"architectures": [inside[1]], "model_type": inside[0], "text_config": part} if inside else config
        base = None if new and mode == "v4" else saved(whole)
        row = table.setdefault(name, {})
        row.pop(mode, None)
        if base is None:
            print(name, "is not known to", transformers.__version__)
            continue
        row[mode] = change(config, base)
        if mode == "v5" and not inside:
            row["absent"] = variants(config, base, False)
            # if transformers keeps the null, both files have it and there is nothing to compare
            row["null"] = {k: v for k, v in variants(config, base, True).items() if v != {"set": {k: None}}}
            row["absent5"] = rope_members(base)
            row["alias"] = aliases(config, base)
            for kind, key in OTHER.get(name, ()):
                row[kind].pop(key)
    os.makedirs(os.path.dirname(OUT), exist_ok=True)
    with open(OUT, "w") as f:
        f.write("{\n" + ",\n".join(json.dumps(k) + ": " + json.dumps(v, separators=(",", ":"), sort_keys=True) for k, v in sorted(table.items()) if v) + "\n}\n")


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    main()
