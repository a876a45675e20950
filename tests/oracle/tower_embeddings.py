#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes embeddings of images for tests/unit/test_tower.c.

    tower_embeddings.py [NAME...]        writes tests/golden/towers/embeddings.safetensors
    tower_embeddings.py --wide FOLDER    writes folders of towers with published widths and two blocks, too large for goldens, and
                                         their embeddings: `test_tower RESULTS.json FOLDER` compares them

The vision towers of the golden folders are computed by transformers in float32 with eager attention. A tensor NAME.WxH contains
the embeddings [tokens][width] of an image of W x H patches, NAME.WxH.deepI its deepstack rows. Pixels are computed by a formula
(pixels() below), so that none are stored. transformers computes towers with one image size only for that size; other grids of
these towers are computed from its modules here, with the position table resized by its own function (interpolate_pos_encoding)
and with squares of patches merged. Kimi-VL's tower is
computed by that of Kimi-K2.5, which has the same code. Made with torch 2.15.0, transformers 5.24.0."""
import json
import os
import sys
import tempfile

import torch
import torch.nn.functional as F
import transformers as tf
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "golden")
OUT = os.path.join(GOLDEN, "towers", "embeddings.safetensors")


FOLDERS = {}


def folder(name):
    return FOLDERS.get(name) or next(p for p in (os.path.join(GOLDEN, d, name) for d in ("towers", "mmproj", "models")) if os.path.isdir(p))


def pixels(w, h):
    c, y, x = torch.meshgrid(torch.arange(3), torch.arange(h), torch.arange(w), indexing="ij")
    return ((c * 7919 + y * 31 + x * 17 + 3 * x * y) % 509).float() / 254 - 1


def load(name, change=None, cls=None):
    config = tf.AutoConfig.from_pretrained(folder(name))
    if change:
        change(config)
    cls = cls or getattr(tf, config.architectures[0])
    model, info = cls.from_pretrained(folder(name), config=config, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    seen = [k for k in info["missing_keys"] if any(s in k for s in ("visual", "vision", "projector", "connector", "merger"))]
    assert not seen and not info["unexpected_keys"], (seen, info["unexpected_keys"])
    return model.eval().model


def blocks(x, m):
    """Reorders [h][w][c] to [h/m][w/m][m * m * c]."""
    h, w, c = x.shape
    return x.reshape(h // m, m, w // m, m, c).transpose(1, 2).reshape(h // m * (w // m), m * m * c)


def patches(image, p, last=False):
    """Splits an image into [h][w][values of a patch]."""
    _, h, w = image.shape
    x = image.reshape(3, h // p, p, w // p, p)
    return (x.permute(1, 3, 2, 4, 0) if last else x.permute(1, 3, 0, 2, 4)).reshape(h // p, w // p, -1)


def qwen(name, w, h, p=4, m=2):
    v = load(name).visual
    x = patches(pixels(w * p, h * p), p).reshape(h, w, 3, 1, p, p).expand(-1, -1, -1, 2, -1, -1).reshape(h, w, -1)
    out = v(blocks(x, m).reshape(h * w, -1), grid_thw=torch.tensor([[1, h, w]]))
    return [out.pooler_output, *(getattr(out, "deepstack_features", None) or [])]


def gemma3(name, w, h):
    m = load(name)
    x = m.vision_tower(pixels(w * 4, h * 4)[None], interpolate_pos_encoding=w != 4 or h != 4).last_hidden_state
    x = F.avg_pool2d(x.reshape(h, w, -1).permute(2, 0, 1), 2).flatten(1).T
    return [m.multi_modal_projector.mm_soft_emb_norm(x) @ m.multi_modal_projector.mm_input_projection_weight]


def positions(w, h):
    return torch.tensor([[[x, y] for y in range(h) for x in range(w)]])


def gemma4moe(name, w, h):
    return [load(name).get_image_features(patches(pixels(w * 4, h * 4), 4, last=True).reshape(1, w * h, -1), positions(w, h)).pooler_output[0]]


def gemma4(name, w, h):
    from transformers.models.gemma4 import modeling_gemma4 as g
    c = json.load(open(os.path.join(folder(name), "config.json")))
    vision = tf.Gemma4VisionConfig(**c["vision_config"])
    vision._attn_implementation = "eager"
    text = tf.Gemma4TextConfig(hidden_size=c["text_config"]["hidden_size"])
    t = {k: v.float() for k, v in load_file(os.path.join(folder(name), "model.safetensors")).items()}
    tower, embed = g.Gemma4VisionModel(vision).eval(), g.Gemma4MultimodalEmbedder(vision, text)
    part = lambda s: {k.split(s)[1]: v for k, v in t.items() if s in k}
    tower.load_state_dict(part("vision_tower."))
    embed.load_state_dict(part("embed_vision."))
    x = tower(patches(pixels(w * 4, h * 4), 4, last=True).reshape(1, w * h, -1), positions(w, h)).last_hidden_state
    return [embed(x)]


def gemma4u(name, w, h):
    return [load(name).get_image_features(patches(pixels(w * 12, h * 12), 12, last=True).reshape(1, w * h, -1), positions(w, h)).pooler_output[0]]


def pixtral(name, w, h, p=4):
    def published(c):
        c.text_config.rms_norm_eps = 1e-5
        c.vision_feature_layer, c.vision_feature_select_strategy = -1, "full"
    m = load(name, published)
    kind = {} if name == "mistral3" else {"vision_feature_select_strategy": "full"}
    return [m.get_image_features(pixels(w * p, h * p)[None], image_sizes=torch.tensor([[h * p, w * p]]), vision_feature_layer=-1, **kind).pooler_output[0]]


def smolvlm(name, w, h):
    m = load(name)
    x = m.vision_model(pixel_values=pixels(w * 4, h * 4)[None], patch_attention_mask=torch.ones(1, h, w, dtype=torch.bool)).last_hidden_state
    return [m.connector.modality_projection(blocks(x.reshape(h, w, -1), 2))]


def internvl(name, w, h):
    m = load(name + "-hf")
    if w == h == 4:
        return [m.get_image_features(pixels(16, 16)[None], vision_feature_layer=-1, vision_feature_select_strategy="default").pooler_output[0]]
    x = m.vision_tower(pixels(w * 4, h * 4)[None]).last_hidden_state[:, 1:]
    return [m.multi_modal_projector(blocks(x.reshape(h, w, -1), 2))]


def lfm2vl(name, w, h):
    x = patches(pixels(w * 16, h * 16), 16, last=True).reshape(1, w * h, -1)
    return [load(name).get_image_features(x, torch.tensor([[h, w]]), torch.ones(1, w * h, dtype=torch.long)).pooler_output[0]]


def kimivl(name, w, h):
    """Kimi-VL's tower is that of Kimi-K2.5, which transformers has, under other names of the projector."""
    from transformers.models.kimi_k25 import configuration_kimi_k25 as c, modeling_kimi_k25 as m
    tensors = load_file(os.path.join(folder(name), "model.safetensors"))
    for a, b in (("linear_1", "proj.0"), ("linear_2", "proj.2"), ("pre_norm", "pre_norm")):
        tensors = {k.replace("multi_modal_projector." + a, "mm_projector." + b): v for k, v in tensors.items()}
    text = dict(model_type="deepseek_v3", hidden_size=32, intermediate_size=16, moe_intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, vocab_size=16,
                n_routed_experts=2, num_experts_per_tok=1, n_group=1, topk_group=1, q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8)
    config = c.Kimi_K25Config(text_config=text, projection_hidden_size=16, vision_config=dict(
        hidden_size=16, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2, patch_size=14, pos_emb_height=4, pos_emb_width=4))
    with tempfile.TemporaryDirectory() as d:
        save_file(tensors, os.path.join(d, "model.safetensors"), metadata={"format": "pt"})
        config.save_pretrained(d)
        model = m.Kimi_K25ForConditionalGeneration.from_pretrained(d, config=config, dtype=torch.float32, attn_implementation="eager").eval().model
    out = model.get_image_features(patches(pixels(w * 14, h * 14), 14).reshape(h * w, 3, 14, 14), torch.tensor([[1, h, w]])).pooler_output
    return [out[0] if isinstance(out, (tuple, list)) else out]


def minicpmv(name, w, h):
    from transformers.models.minicpmv4_6 import modeling_minicpmv4_6 as m
    return load(name, cls=m.MiniCPMV4_6ForConditionalGeneration).get_image_features(pixels(w * 4, h * 4)[None], torch.tensor([[h, w]], dtype=torch.int32)).pooler_output


# name: function, grids of patches (columns, rows)
TOWERS = {
    "qwen35": (qwen, [(6, 4), (10, 14)]), "qwen3vlmoe": (qwen, [(6, 4), (10, 14)]), "qwen25vl": (qwen, [(6, 4), (34, 30)]),
    "qwen2vl": (qwen, [(6, 4), (10, 14)]), "gemma3": (gemma3, [(4, 4), (6, 10)]), "gemma4moe": (gemma4moe, [(6, 9), (12, 3)]),
    "gemma4": (gemma4, [(6, 9), (12, 3)]), "gemma4u": (gemma4u, [(2, 3), (7, 4)]), "pixtral": (pixtral, [(6, 4), (5, 13)]), "mistral3": (pixtral, [(6, 4), (10, 14)]),
    "smolvlm": (smolvlm, [(4, 4), (6, 2)]), "internvl": (internvl, [(4, 4), (6, 10)]), "internvl6b": (internvl, [(4, 4), (6, 10)]), "lfm2vl": (lfm2vl, [(2, 6), (6, 4)]),
    "glm4v": (qwen, [(6, 4), (10, 14)]), "kimivl": (kimivl, [(4, 4), (6, 10)]),
    "minicpmv": (minicpmv, [(8, 4), (12, 20)]),
}


def wide(root):
    import towers
    text = dict(hidden_size=2048, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, vocab_size=16, head_dim=16)
    mrope = dict(text, rope_scaling={"type": "default", "rope_type": "default", "mrope_section": [2, 3, 3]})
    qwen_vit = dict(depth=2, num_heads=16, out_hidden_size=2048)
    vit = dict(num_hidden_layers=2, num_attention_heads=16)
    made = {
        "qwen3vl": (lambda: tf.Qwen3VLForConditionalGeneration(tf.Qwen3VLConfig(text_config=mrope, vision_config=dict(
            qwen_vit, hidden_size=1152, intermediate_size=4304, patch_size=16, num_position_embeddings=2304, deepstack_visual_indexes=[0]))), lambda n: qwen(n, 40, 26, 16)),
        "qwen25vl": (lambda: tf.Qwen2_5_VLForConditionalGeneration(tf.Qwen2_5_VLConfig(text_config=mrope, vision_config=dict(
            qwen_vit, hidden_size=1280, intermediate_size=3420, patch_size=14, fullatt_block_indexes=[1]))), lambda n: qwen(n, 36, 26, 14)),
        "gemma3": (lambda: tf.Gemma3ForConditionalGeneration(tf.Gemma3Config(text_config=text, vision_config=dict(
            vit, hidden_size=1152, intermediate_size=4304, image_size=896, patch_size=14, vision_use_head=False))),
            lambda n: [load(n).get_image_features(pixels(896, 896)[None]).pooler_output[0]]),
        "mistral3": (lambda: tf.Mistral3ForConditionalGeneration(tf.Mistral3Config(text_config=tf.MistralConfig(**text), vision_config=tf.PixtralVisionConfig(
            **vit, hidden_size=1024, intermediate_size=4096, image_size=1540, patch_size=14, head_dim=64, hidden_act="silu"))), lambda n: pixtral(n, 40, 26, 14)),
    }
    grids = {"qwen3vl": "40x26", "qwen25vl": "36x26", "gemma3": "64x64", "mistral3": "40x26"}
    towers.PREPROCESSOR["gemma3"] = {"image_seq_length": 256}
    towers.randomized = lambda tensors: {k: ((1 + 0.1 * torch.randn(v.shape)) if v.dim() == 1 and "norm" in k + "ln_q" and k.endswith("weight") else
                                             torch.randn(v.shape) / max(v[0].numel(), 25) ** 0.5 if v.dim() > 1 else 0.1 * torch.randn(v.shape)).to(torch.bfloat16)
                                         for k, v in sorted(tensors.items())}
    out = {}
    for name, (make, run) in made.items():
        make.__name__ = name
        keep = towers.mistral3 if name == "mistral3" else None
        if keep:
            towers.mistral3 = make  # whose [IMG_BREAK] is kept
        tensors, config = towers.made(make)
        towers.write(os.path.join(root, name), tensors, config, name)
        FOLDERS[name] = os.path.join(root, name)
        with torch.no_grad():
            for i, x in enumerate(run(name)):
                out[f"{name}.{grids[name]}" + (f".deep{i - 1}" if i else "")] = x.reshape(-1, x.shape[-1]).contiguous()
        print(name, grids[name])
    save_file(out, os.path.join(root, "embeddings.safetensors"))


def main():
    if sys.argv[1:2] == ["--wide"]:
        return wide(sys.argv[2])
    torch.set_num_threads(1)
    out = load_file(OUT) if sys.argv[1:] else {}
    for name, (f, grids) in TOWERS.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        for w, h in grids:
            with torch.no_grad():
                rows = f(name, w, h)
            for i, x in enumerate(rows):
                assert torch.isfinite(x).all(), name
                out[f"{name}.{w}x{h}" + (f".deep{i - 1}" if i else "")] = x.reshape(-1, x.shape[-1]).contiguous()
            print(name, w, h, [list(x.shape) for x in rows], float(rows[0].pow(2).mean().sqrt()))
    save_file(out, OUT)
    os.chmod(OUT, 0o644)


if __name__ == "__main__":
    main()
