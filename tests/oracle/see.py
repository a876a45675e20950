#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Answers to prompts with images.

    see.py     writes tests/golden/see/qwen35.json

The tiny model tests/golden/models/qwen35 and its tower in float32, greedy. The prompt is the one of TEMPLATE for the messages; an image is
tests/golden/pixels/420.jpg or rgba.png, through the image processor of Qwen3-VL with the limits of 64 and 16384 tokens per image.
Made with torch 2.15.0, torchvision 0.29.2, Pillow 13.0.0, transformers 5.24.0."""
import json
import os

import torch
import transformers as tf
from PIL import Image
from transformers.image_transforms import convert_to_rgb
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "golden")
MODEL = os.path.join(GOLDEN, "models", "qwen35")
CASES = [("one", ["420.jpg"], "What is this?"), ("two", ["rgba.png", "420.jpg"], "Compare these."), ("none", [], "What is this?")]
N = 24

torch.set_num_threads(1)
tok = tf.AutoTokenizer.from_pretrained(MODEL)
model = tf.AutoModelForImageTextToText.from_pretrained(MODEL, dtype=torch.float32).eval()
vision = model.config.vision_config
token = (vision.patch_size * vision.spatial_merge_size) ** 2
proc = Qwen2VLImageProcessor(size={"shortest_edge": 64 * token, "longest_edge": 16384 * token}, patch_size=vision.patch_size,
                             merge_size=vision.spatial_merge_size, image_mean=[0.5] * 3, image_std=[0.5] * 3)


def prompt(files, text):
    """The inputs of the tower, and the tokens."""
    images = [convert_to_rgb(Image.open(os.path.join(GOLDEN, "pixels", f)), return_numpy=True) for f in files]
    inputs = dict(proc(images, return_tensors="pt")) if images else {}
    counts = [int(g.prod()) // vision.spatial_merge_size ** 2 for g in inputs.get("image_grid_thw", [])]
    seen = "".join("<|vision_start|>" + "<|image_pad|>" * n + "<|vision_end|>" for n in counts)
    ids = tok(f"<|im_start|>user\n{seen}{text}<|im_end|>\n<|im_start|>assistant\n", add_special_tokens=False, return_tensors="pt").input_ids
    return inputs, ids


def answer(files, text):
    inputs, ids = prompt(files, text)
    if files:
        inputs["mm_token_type_ids"] = (ids == model.config.image_token_id).int()
    with torch.no_grad():
        out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=N, **inputs)
        first = model(input_ids=ids, **inputs).logits[0, -1]
    top = first.topk(2).values
    new = out[0, ids.shape[1]:].tolist()
    return {"images": files, "text": text, "prompt_tokens": ids.shape[1], "answer": tok.decode(new, skip_special_tokens=False), "n": len(new),
            "margin": float(top[0] - top[1])}


os.makedirs(os.path.join(GOLDEN, "see"), exist_ok=True)
with open(os.path.join(GOLDEN, "see", "qwen35.json"), "w") as f:
    json.dump({name: answer(files, text) for name, files, text in CASES}, f, indent=1)
    f.write("\n")
