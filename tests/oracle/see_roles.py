#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Answers to conversations with images in every role.

    see_roles.py     writes tests/golden/see/roles.json

As see.py, which also writes its own file again; the templates of tests/cli/image.sh are rendered by jinja2.
Made with torch 2.15.0, transformers 5.24.0, jinja2 3.1."""
import json
import os
import re

import jinja2
import see
import torch

SCRIPT = open(os.path.join(see.HERE, "..", "cli", "image.sh")).read()
IMAGE = {"type": "image"}
CASES = {
    "assistant": [{"role": "user", "content": "Look."}, {"role": "assistant", "content": [IMAGE, {"type": "text", "text": "Seen."}]}, {"role": "user", "content": "What is this?"}],
    "system": [{"role": "system", "content": [{"type": "text", "text": "See."}, IMAGE]}, {"role": "user", "content": "What is this?"}],
    "tool": [{"role": "user", "content": "Look."},
             {"role": "assistant", "content": "Calling.", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]},
             {"role": "tool", "content": [{"type": "text", "text": "seen"}, IMAGE]}],
}


def template(name):
    text = re.search(r"""printf '%s' "(\{%.*?)" > "\$t/""" + name + '"', SCRIPT).group(1)
    return jinja2.Template(text.replace("\\n", "\n").replace('\\"', '"'), keep_trailing_newline=True)


def answer(name, messages):
    inputs, ids = see.prompt(["420.jpg"], "")
    n = int((ids == see.model.config.image_token_id).sum())
    text = template("tools" if name == "tool" else "template").render(messages=messages, add_generation_prompt=True)
    assert text.count("<|image_pad|>") == 1
    ids = see.tok(text.replace("<|image_pad|>", "<|image_pad|>" * n), add_special_tokens=False, return_tensors="pt").input_ids
    inputs["mm_token_type_ids"] = (ids == see.model.config.image_token_id).int()
    with torch.no_grad():
        out = see.model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=see.N, **inputs)
    return {"prompt_tokens": ids.shape[1], "answer": see.tok.decode(out[0, ids.shape[1]:].tolist(), skip_special_tokens=False)}


with open(os.path.join(see.GOLDEN, "see", "roles.json"), "w") as f:
    json.dump({k: answer(k, m) for k, m in CASES.items()}, f, indent=1)
    f.write("\n")
