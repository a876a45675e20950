# SPDX-License-Identifier: MIT
"""Tests vision models in another engine: interop-towers.py HONE SCRATCH OUT.json.

Small random vision models of each family, made by transformers with the tokenizer of tests/golden/models/qwen3, go through
plain `hone make`. The folder's Q8_0 file with its BF16 and with its Q8_0 projector file, and the BF16 conversion, are loaded in
llama.cpp's server (PyPI: xllamacpp, which has a wheel) and asked about two images at temperature 0. Every pair must load; the
answers to the two images must differ in their probabilities, which shows that the image has an effect; the largest difference
between the probabilities of quantized and BF16 files is recorded. Needs transformers and xllamacpp, so it is not a part of
`make interop`."""
import base64
import json
import math
import pathlib
import shutil
import struct
import subprocess
import sys
import zlib

import torch
import transformers as tf
import xllamacpp

hone, scratch, out_path = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
GOLDEN = pathlib.Path(__file__).parent / "golden"
TEXT = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1, vocab_size=1024, head_dim=32,
            max_position_embeddings=4096)
BARE = {k: v for k, v in TEXT.items() if k != "head_dim"}
VIT = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=2, image_size=56, patch_size=14)
QWEN = dict(hidden_size=64, intermediate_size=96, out_hidden_size=64, num_heads=2, patch_size=14)
MROPE = dict(rope_scaling={"type": "default", "rope_type": "default", "mrope_section": [8, 4, 4]})
MODELS = {
    "qwen2vl": lambda: tf.Qwen2VLForConditionalGeneration(tf.Qwen2VLConfig(
        text_config={**BARE, **MROPE}, vision_config=dict(depth=3, embed_dim=64, hidden_size=64, num_heads=2, patch_size=14, mlp_ratio=2))),
    "qwen25vl": lambda: tf.Qwen2_5_VLForConditionalGeneration(tf.Qwen2_5_VLConfig(
        text_config={**BARE, **MROPE}, vision_config=dict(QWEN, depth=4, fullatt_block_indexes=[1, 3]))),
    "qwen3vl": lambda: tf.Qwen3VLForConditionalGeneration(tf.Qwen3VLConfig(
        text_config={**TEXT, **MROPE}, vision_config=dict(QWEN, depth=3, patch_size=16, num_position_embeddings=25, deepstack_visual_indexes=[0, 1]))),
    "gemma3": lambda: tf.Gemma3ForConditionalGeneration(tf.Gemma3Config(text_config=dict(TEXT, sliding_window=64), vision_config=dict(VIT, vision_use_head=False))),
    "mistral3": lambda: tf.Mistral3ForConditionalGeneration(tf.Mistral3Config(
        text_config=tf.MistralConfig(**TEXT), vision_config=tf.PixtralVisionConfig(**VIT, head_dim=32, hidden_act="silu"))),
    "pixtral": lambda: tf.LlavaForConditionalGeneration(tf.LlavaConfig(
        text_config=tf.MistralConfig(**TEXT), vision_config=tf.PixtralVisionConfig(**VIT, head_dim=32))),
    "smolvlm": lambda: tf.SmolVLMForConditionalGeneration(tf.SmolVLMConfig(text_config=tf.LlamaConfig(**TEXT), vision_config=VIT)),
    "internvl": lambda: tf.InternVLForConditionalGeneration(tf.InternVLConfig(
        text_config=tf.Qwen2Config(**BARE), vision_config=dict(VIT, num_hidden_layers=4, image_size=[56, 56], patch_size=[14, 14], attention_bias=True))),
    "lfm2vl": lambda: tf.Lfm2VlForConditionalGeneration(tf.Lfm2VlConfig(
        text_config=tf.Lfm2Config(**dict(BARE, num_hidden_layers=2), layer_types=["conv", "full_attention"], block_auto_adjust_ff_dim=False),
        vision_config=dict(VIT, patch_size=16, num_patches=16, vision_use_head=False), projector_hidden_size=64)),
    "glm4v": lambda: tf.Glm4vForConditionalGeneration(tf.Glm4vConfig(text_config={**TEXT, **MROPE}, vision_config=dict(QWEN, depth=3, image_size=56))),
}
# tokens that the engine looks up; they replace tokens that it does not use
TOKENS = {"mistral3": ["[IMG_BREAK]"], "pixtral": ["[IMG_BREAK]"],
          "smolvlm": ["<fake_token_around_image>", "<global-img>", "<row_1_col_1>", "<row_1_col_2>", "<row_2_col_1>", "<row_2_col_2>", "\n\n"]}


def make_folder(name):
    folder = scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    model, g = MODELS[name](), torch.Generator().manual_seed(7)
    with torch.no_grad():
        for k, p in sorted(model.state_dict().items()):
            if p.is_floating_point():
                p.copy_(torch.randn(p.shape, generator=g) * 0.1 + (name != "gemma3" and "norm" in k and k.endswith("weight")))
    model.to(torch.bfloat16).save_pretrained(folder)
    tok = json.load(open(GOLDEN / "models/qwen3/tokenizer.json"))
    for t, text in zip(tok["added_tokens"][3:], TOKENS.get(name, [])):
        t["content"] = text
    json.dump(tok, open(folder / "tokenizer.json", "w"))
    shutil.copy(GOLDEN / "models/qwen3/tokenizer_config.json", folder)
    json.dump({"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "image_seq_length": 4, "size": {"longest_edge": 112}},
              open(folder / "preprocessor_config.json", "w"))
    return folder


def png(f):
    raw = b"".join(b"\0" + bytes(v for x in range(112) for v in f(x, y)) for y in range(112))
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", 112, 112, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(raw)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d)) for t, d in chunks)


IMAGES = [png(lambda x, y: (x * 2, y * 2, x * y % 256)), png(lambda x, y: (255 - x * 2, (x ^ y) * 2, y))]


def ask(text, tower):
    """Log probabilities of the candidates for the first token, for each image."""
    p = xllamacpp.CommonParams()
    p.model.path, p.mmproj.path, p.n_ctx, p.warmup, p.n_gpu_layers, p.cpuparams.n_threads = str(text), str(tower), 2048, False, 0, 1
    server, out = xllamacpp.Server(p), []
    for image in IMAGES:
        url = "data:image/png;base64," + base64.b64encode(image).decode()
        r = server.handle_chat_completions({
            "max_tokens": 2, "temperature": 0, "logprobs": True, "top_logprobs": 5, "logit_bias": [[t, False] for t in (1, 2, 1010, 1011, 1012)],
            "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "what"}]}]})
        seen = r["choices"][0].get("logprobs")  # missing if the answer ends at once
        out.append({t["id"]: math.exp(t["logprob"]) for t in seen["content"][0]["top_logprobs"]} if seen else {})
    return out


def apart(a, b):
    """The largest difference between probabilities of tokens that both list; 1 if they have no token in common."""
    return max((abs(a[t] - b[t]) for t in a if t in b), default=1.0)


def check(name):
    folder, made = make_folder(name), scratch / f"{name}-made"
    subprocess.run(["rm", "-rf", made, f"{made}.work"], check=True)
    texts = [t for kind in ("calib", "eval") for t in (f"--{kind}", str(GOLDEN / f"tiny-qwen35moe/self_{kind}.txt"))]
    subprocess.run([hone, "make", folder, "-o", made, "--plain", "--recipe", "Q8_0", *texts, "--ctx", "64", "--chunks", "2", "--calib-ctx", "64",
                    "--pp", "4", "--tg", "2", "--reps", "1", "--tools", "none", "-q"], check=True, capture_output=True)
    base, quant = scratch / f"{name}-made.work" / f"{name}-BF16.gguf", made / f"{name}-Q8_0.gguf"
    bf16, q8 = made / f"mmproj-{name}-BF16.gguf", made / f"mmproj-{name}-Q8_0.gguf"
    want, small, smallest = ask(base, bf16), ask(quant, bf16), ask(quant, q8)
    answered = [i for i in range(len(IMAGES)) if want[i] and small[i] and smallest[i]]
    return dict(model=name, between_images=apart(*want), images_compared=len(answered), q8_0=max(apart(want[i], small[i]) for i in answered),
                q8_0_with_q8_0_tower=max(apart(want[i], smallest[i]) for i in answered))


rows = [check(name) for name in MODELS]
bad = [r["model"] for r in rows if not r["between_images"] > 2 * r["q8_0_with_q8_0_tower"]]
json.dump(dict(command="tests/interop-towers.py", engine=f"xllamacpp {xllamacpp.__version__}", failures=bad, models=rows), open(out_path, "w"), indent=1)
for r in rows:
    print(r)
sys.exit(len(bad) > 0)
