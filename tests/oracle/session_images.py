#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/session_images/NAME: logits of transformers' vision-language models for prompts with images.

The models are micro checkpoints as in archs.py: folders of tests/golden/archs, or folders here with config.json and tensors.txt.
The tower is not run: get_image_features() returns generated rows, so that transformers itself merges them with the text,
computes positions and masks, and adds deepstack rows. Row values are archs.uniform() times 0.75, from names "image.I.rows" and
"image.I.deep.K". golden.safetensors: ids (image tokens are the image token), grids (per image: first token, t, h, w in tokens)
and logits at positions 3, 7, 11, ... of vocabulary entries 0, 8, 16, ...

Usage: python3 tests/oracle/session_images.py [NAME...]   (from the repository root; torch 2.15, transformers 5.24, numpy)
"""
import copy
import os
import sys
from types import SimpleNamespace

import numpy as np
import torch

import archs
from archs import BASE, VOCAB, MODELS as ARCHS, uniform, vl, write_st

DIR = "tests/golden/session_images"
IMAGE, N_IDS = 1001, 96
# First token and grid (h, w) of the images of a prompt; 16 and more tokens exceed the windows.
IMAGES = [(5, 3, 7), (40, 5, 2), (54, 2, 2)]

QWEN35 = dict(head_dim=16, hidden_act="silu", rms_norm_eps=1e-6, attention_bias=False, linear_conv_kernel_dim=4, linear_key_head_dim=16,
              linear_num_key_heads=2, linear_num_value_heads=4, linear_value_head_dim=16, full_attention_interval=4,
              layer_types=["linear_attention"] * 3 + ["full_attention"],
              rope_parameters={"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 1.0, "mrope_interleaved": True,
                               "mrope_section": [4, 2, 2]})  # fmt: skip
QWEN35_TOWER = dict(depth=1, hidden_size=32, num_heads=2, intermediate_size=32, out_hidden_size=64, num_position_embeddings=16)
GEMMA3 = {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "image_token_index": IMAGE, "tie_word_embeddings": True,
          "mm_tokens_per_image": 4, "boi_token_index": 1003, "eoi_token_index": 1004,
          "text_config": {k: v for k, v in {**ARCHS["gemma3"][0], "num_hidden_layers": 6, "rope_scaling": None}.items()
                          if k not in ("architectures", "rope_scaling")},
          "vision_config": dict(hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=4,
                                model_type="siglip_vision_model", vision_use_head=False)}  # fmt: skip
MISTRAL3 = {"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3", "image_token_index": IMAGE, "tie_word_embeddings": False,
            "spatial_merge_size": 2, "projector_hidden_act": "gelu", "multimodal_projector_bias": False, "vision_feature_layer": -1,
            "text_config": {**BASE, "model_type": "mistral", "head_dim": 16, "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 1e6,
                            "sliding_window": None},
            "vision_config": dict(model_type="pixtral", hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                                  head_dim=8, image_size=16, patch_size=4, hidden_act="silu")}  # fmt: skip
# Per-layer embeddings: those of an image are the padding token's.
GEMMA4E = {"architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4", "tie_word_embeddings": True, "image_token_id": IMAGE,
           "text_config": {**{k: v for k, v in BASE.items() if k != "tie_word_embeddings"}, "model_type": "gemma4_text", "head_dim": 16,
                           "global_head_dim": 32, "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "sliding_window": 16,
                           "num_kv_shared_layers": 2, "hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": VOCAB,
                           "use_double_wide_mlp": True, "final_logit_softcapping": 30.0, "pad_token_id": 0, "use_bidirectional_attention": None,
                           "num_hidden_layers": 6, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
                           "rope_parameters": ARCHS["gemma4unified"][0]["text_config"]["rope_parameters"]},
           "vision_config": dict(model_type="gemma4_vision", hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                                 num_key_value_heads=2, head_dim=8, patch_size=4, position_embedding_size=16)}  # fmt: skip
LANGUAGE_MODEL = [("model.language_model.", "language_model.model."), ("lm_head.", "language_model.lm_head.")]
OWN = {
    "qwen25vl": (vl("Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", "qwen2_5_vl_text",
                    dict(depth=1, hidden_size=32, intermediate_size=32, out_hidden_size=64, num_heads=2, patch_size=4, fullatt_block_indexes=[0]),
                    rope_theta=1e6, rope_scaling={"type": "mrope", "mrope_section": [2, 3, 3]}, use_sliding_window=False),
                 dict(cls="Qwen2_5_VLForConditionalGeneration", names=[("model.language_model.", "model.")])),
    "qwen35": (vl("Qwen3_5ForConditionalGeneration", "qwen3_5", "qwen3_5_text", QWEN35_TOWER, **QWEN35),
               dict(cls="Qwen3_5ForConditionalGeneration", plus_one=True, spread={"linear_attn.norm": (1.0, 0.25), "A_log": (0.5, 0.5), "conv1d": (0.0, 0.5)})),
    "qwen35moe": (vl("Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe", "qwen3_5_moe_text", QWEN35_TOWER, **QWEN35, num_experts=6,
                     num_experts_per_tok=3, moe_intermediate_size=40, shared_expert_intermediate_size=40),
                  dict(cls="Qwen3_5MoeForConditionalGeneration", fused=True, plus_one=True,
                       spread={"linear_attn.norm": (1.0, 0.25), "A_log": (0.5, 0.5), "conv1d": (0.0, 0.5)})),
    "gemma3": (GEMMA3, dict(cls="Gemma3ForConditionalGeneration", plus_one=True, names=LANGUAGE_MODEL)),
    "gemma4e": (GEMMA4E, dict(cls="Gemma4ForConditionalGeneration", spread={"layer_scalar": (0.75, 0.25)})),
    "mistral3": (MISTRAL3, dict(cls="Mistral3ForConditionalGeneration", names=LANGUAGE_MODEL)),
}  # fmt: skip
NAMES = ["qwen25vl", "qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe", "gemma3", "mistral3", "glm4v", "gemma4unified", "gemma4e"]


def rows(name, n, d):
    return torch.from_numpy((0.75 * uniform(name, n * d)).astype(np.float32).reshape(n, d))


def main():
    for name in sys.argv[1:] or NAMES:
        config, extra = copy.deepcopy(OWN.get(name) or ARCHS[name])
        out = f"{DIR}/{name}"
        os.makedirs(out, exist_ok=True)
        model, _ = archs.micro(config, extra, out if name in OWN else None)
        d = model.config.get_text_config().hidden_size
        for key in ("image_token_id", "image_token_index"):
            if hasattr(model.config, key):
                setattr(model.config, key, IMAGE)
        n_deep = len(getattr(model.config.vision_config, "deepstack_visual_indexes", None) or [])
        ids = np.random.default_rng(20261127).integers(0, 1000, N_IDS).astype(np.int32)
        embeds, deep = [], [[] for _ in range(n_deep)]
        for i, (at, h, w) in enumerate(IMAGES):
            ids[at : at + h * w] = IMAGE
            embeds.append(rows(f"image.{i}.rows", h * w, d))
            for k in range(n_deep):
                deep[k].append(rows(f"image.{i}.deep.{k}", h * w, d))
        flat = "gemma3" in name
        features = SimpleNamespace(pooler_output=torch.cat(embeds) if flat else embeds, deepstack_features=deep, to_tuple=tuple)
        model.model.get_image_features = lambda *a, **k: features
        x = torch.from_numpy(ids.astype(np.int64))[None]
        kind = (x == IMAGE).to(torch.int64)
        merge = getattr(model.config.vision_config, "spatial_merge_size", 1)
        more = dict(image_grid_thw=torch.tensor([[1, h * merge, w * merge] for _, h, w in IMAGES]), mm_token_type_ids=kind)
        if flat:
            more = dict(token_type_ids=kind)
        elif "gemma4" in name:  # the masks of generate(), from which the unified model's forward() differs
            e = model.get_input_embeddings()(x)
            more = dict(attention_mask=model.create_masks_for_generate(model.config, e, None, None, None, mm_token_type_ids=kind))
        elif name == "mistral3":
            more = {}
        with torch.no_grad():
            l = model(input_ids=x, pixel_values=torch.zeros(1), **more).logits[0].numpy()
        print(f"  largest logit {np.abs(l).max():.3g}, {n_deep} deepstack layers")
        grids = np.array([[at, 1, h, w] for at, h, w in IMAGES], np.int32)
        write_st(out + "/golden.safetensors", {"ids": ("I32", ids), "grids": ("I32", grids),
                                               "logits": ("F32", np.ascontiguousarray(l[3::4, ::8]))})  # fmt: skip


if __name__ == "__main__":
    main()
