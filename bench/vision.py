#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What quantization does to vision: a ladder of types of a trained small vision model.

    python3 bench/models/shapes.py build/shapes             (30 minutes of one thread; needs torch, transformers)
    python3 bench/vision.py build/hone build/shapes [OUT.json]

Measures `hone eval vision` on questions about images and on the same questions about scenes in words, for the language model in
each type and for the projector in Q8_0. Prints a table. OUT.json is docs/results/vision.json by default.
It takes minutes on one thread."""
import json
import os
import subprocess
import sys
import tempfile

TYPES = ["Q8_0", "Q6_K", "Q5_K", "Q4_K", "Q3_K", "Q2_K"]
hone, src = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
out = os.path.abspath(sys.argv[3] if len(sys.argv) > 3 else os.path.join(os.path.dirname(__file__), "../docs/results/vision.json"))


def run(*args):
    r = subprocess.run([hone, *args, "-q", "--threads", "1"], capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"hone {' '.join(args)}: {r.stderr}")
    return r.stdout


def measure(name, models, *options):
    return json.loads(run("eval", "vision", "base.gguf", *models, f"{src}/images/{name}", *options, "--json"))


def row(m):
    keys = ["mean_kld", "mean_kld_stderr", "same_top1", "changed", "changed_stderr", "right", "n_lost", "n_gained"]
    return {k: m[k] for k in keys}


with tempfile.TemporaryDirectory() as t:
    os.chdir(t)
    run("convert", src, "-o", "base.gguf", "--type", "bf16", "--mmproj", "mmproj-BF16.gguf")
    run("convert", src, "-o", "other.gguf", "--type", "q8_0", "--mmproj", "other-Q8_0.gguf")
    os.rename("other-Q8_0.gguf", "Q8_0.projector")
    for f in ("mmproj-BF16.gguf", "Q8_0.projector"):  # images of 32 x 32 pixels are 4 tokens, fewer than the published minimum
        run("meta", f, "clip.vision.image_min_pixels=1024")
    run("imatrix", "base.gguf", f"{src}/calib.jsonl", "-o", "imatrix.gguf", "--ctx", "256")
    for q in TYPES:
        run("quantize", "base.gguf", "--type", q, "-o", f"{q}.gguf", "--imatrix", "imatrix.gguf")
    files = [f"{q}.gguf" for q in TYPES]
    seen, told = measure("eval.jsonl", files), measure("text.jsonl", files)
    tower = measure("eval.jsonl", [], "--mmproj", "Q8_0.projector")
    rows = [dict(type=q, size_bytes=os.path.getsize(f"{q}.gguf"), images=row(a), text=row(b))
            for q, a, b in zip(TYPES, seen["models"], told["models"])]
    doc = dict(command="python3 bench/vision.py build/hone build/shapes", threads=1, train=json.load(open(f"{src}/train.json")),
               base_bytes=os.path.getsize("base.gguf"), projector_bytes=[os.path.getsize(f) for f in ("mmproj-BF16.gguf", "Q8_0.projector")],
               questions=dict(images=seen["n_questions"], text=told["n_questions"]), tokens=dict(images=seen["n_tokens"], text=told["n_tokens"]),
               base_right=dict(images=seen["base_right"], text=told["base_right"]), types=rows, projector_q8_0=row(tower["models"][0]))
doc["train"].pop("loss_images_text", None)
with open(out, "w") as f:
    json.dump(doc, f, indent=1)
    f.write("\n")
print(f"The base is right on {doc['base_right']['images']:.1%} of {doc['questions']['images']} questions about images, and on "
      f"{doc['base_right']['text']:.1%} of {doc['questions']['text']} about scenes in words.\n")
print("| type | MiB | KLD, images | KLD, text | images/text | changed, images | changed, text | right, images | right, text |\n" + "|---" * 9 + "|")
for r in rows + [dict(type="projector Q8_0", size_bytes=doc["projector_bytes"][1], images=doc["projector_q8_0"], text=None)]:
    a, b = r["images"], r["text"]
    print(f"| {r['type']} | {r['size_bytes'] / 2**20:.2f} | {a['mean_kld']:.5f} ± {a['mean_kld_stderr']:.5f} | "
          + (f"{b['mean_kld']:.5f} ± {b['mean_kld_stderr']:.5f} | {a['mean_kld'] / b['mean_kld']:.2f} | {a['changed']:.1%} | {b['changed']:.1%} | "
             f"{a['right']:.1%} | {b['right']:.1%} |" if b else f"- | - | {a['changed']:.1%} | - | {a['right']:.1%} | - |"))
