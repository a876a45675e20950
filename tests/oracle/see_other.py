#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Divergence of answers about images.

    see_other.py     writes tests/golden/see/other.json

The base is the tiny model tests/golden/models/qwen35 with its tower in float32; the others differ from it in settings: "text" in
the rotary base (100) and the epsilon of its norms (0.05), "tower" in the number of the tower's heads (4). The base answers the
questions of see.py greedily; its answer is fed to the others, and each position's distributions are compared in float64. "given" is
the same over a given answer, whose end counts as a position. "choices" has the choice with the largest mean log-probability for
each model, question and list of choices. Made with torch 2.15.0, transformers 5.24.0."""
import json
import os

import numpy as np
import see  # writes its own file again
import torch
import transformers as tf

GIVEN = "a red circle"
QUESTIONS = see.CASES[:2]
CHOICES = [["a red circle", "a dog", "no", "the blue square"], ["yes", "no", "maybe it is"], ["one", "two", "three", "four", "five"],
           ["left", "right of it", "above"], ["red", "green", "blue"]]


def other(kind):
    config = tf.AutoConfig.from_pretrained(see.MODEL)
    if kind == "tower":
        config.vision_config.num_heads = 4
    if kind == "text":
        config.text_config.rms_norm_eps = 0.05
        config.text_config.rope_parameters["rope_theta"] = 100.0
    return tf.AutoModelForImageTextToText.from_pretrained(see.MODEL, config=config, dtype=torch.float32).eval()


def log_p(model, files, text, answer):
    """Log-probabilities before each token of the answer and after the last."""
    inputs, ids = see.prompt(files, text)
    ids = torch.cat([ids, torch.tensor([answer])], 1)
    if files:
        inputs["mm_token_type_ids"] = (ids == see.model.config.image_token_id).int()
    with torch.no_grad():
        x = model(input_ids=ids, **inputs).logits[0, -len(answer) - 1:].double().numpy()
    x -= x.max(1, keepdims=True)
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def compare(model, answers, end):
    rows = [[log_p(m, f, t, a)[: len(a) + end] for m in (see.model, model)] for (_, f, t), a in zip(QUESTIONS, answers)]
    kld = [(np.exp(p) * (p - q)).sum(1) for p, q in rows]
    same = [p.argmax(1) == q.argmax(1) for p, q in rows]
    tops = np.sort(np.concatenate([r for pair in rows for r in pair]), 1)
    return {"mean_kld": float(np.concatenate(kld).mean()), "max_kld": float(np.concatenate(kld).max()),
            "n_tokens": int(sum(map(len, kld))), "n_same": int(sum(s.sum() for s in same)),
            "first_changed": [int(np.argmin(s)) + 1 if not s.all() else 0 for s in same], "margin": float((tops[:, -1] - tops[:, -2]).min())}


def picks(model):
    """The index of the best choice for each question and list, and the smallest lead over the second."""
    out, lead = [], []
    for _, files, text in QUESTIONS:
        for choices in CHOICES:
            ids = [see.tok(c, add_special_tokens=False).input_ids for c in choices]
            score = [float(np.mean([log_p(model, files, text, a)[i, t] for i, t in enumerate(a)])) for a in ids]
            out.append(int(np.argmax(score)))
            lead.append(sorted(score)[-1] - sorted(score)[-2])
    return {"picks": out, "lead": min(lead)}


answers = [see.tok(see.answer(f, t)["answer"], add_special_tokens=False).input_ids for _, f, t in QUESTIONS]
assert [see.tok.decode(a) for a in answers] == [see.answer(f, t)["answer"] for _, f, t in QUESTIONS]
given = [see.tok(GIVEN, add_special_tokens=False).input_ids] * len(QUESTIONS)
out = {k: compare(other(k), answers, 0) for k in ("text", "tower")} | {"given": compare(other("text"), given, 1)}
out["choices"] = {k: picks(m) for k, m in (("base", see.model), ("text", other("text")), ("tower", other("tower")))}
with open(os.path.join(see.GOLDEN, "see", "other.json"), "w") as f:
    json.dump(out, f, indent=1)
    f.write("\n")
