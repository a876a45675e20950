#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes vision towers and the expected contents of their projector files.

    mmproj.py     writes tests/golden/mmproj/

Folders gemma4/ and qwen3vl/: random small towers made by transformers (Gemma 4 with clipped linear layers and standardisation;
the Qwen3-VL tower, which is that of Qwen3.5 with deepstack mergers), with the names of published checkpoints and without a
language model. <folder>.json, also for
tests/golden/models/{qwen35,gemma4moe}: metadata and, per output type, every tensor's shape, type and
SHA-256. Names come from the gguf package's map of tensor names (mergers and deepstack, which it does
not map, from its table of names), keys from its writer's methods, types f16 and bf16 from torch,
q8_0 from gguf.quants. image-<model>.safetensors: a random image and its embeddings from transformers' towers of the two golden
models (float32), for tests/interop-vision.py. Made with gguf 0.19.0, torch 2.15.0, transformers 5.23.0, numpy 2.4.6."""
import hashlib
import json
import os
import tempfile

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "golden", "mmproj")
MODELS = os.path.join(HERE, "..", "golden", "models")
T = gguf.MODEL_TENSOR
Q = gguf.GGMLQuantizationType
TYPES = {"f32": (Q.F32, 0), "f16": (Q.F16, 1), "bf16": (Q.BF16, 32), "q8_0": (Q.Q8_0, 7)}


def randomize(model, seed):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, p in sorted(model.state_dict().items()):
            p.copy_(torch.randn(p.shape, generator=g) * 0.5)


def make(name, config, model, prefix, extra, preprocessor):
    folder = os.path.join(OUT, name)
    os.makedirs(folder, exist_ok=True)
    randomize(model, 7)
    tensors = {prefix + k: v.to(torch.bfloat16) for k, v in model.state_dict().items()}
    tensors.update(extra)
    save_file({k: v.contiguous() for k, v in tensors.items()}, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    os.chmod(os.path.join(folder, "model.safetensors"), 0o644)
    json.dump(config, open(os.path.join(folder, "config.json"), "w"), indent=1)
    json.dump(preprocessor, open(os.path.join(folder, "preprocessor_config.json"), "w"))


def make_gemma4():
    from transformers.models.gemma4.modeling_gemma4 import Gemma4VisionConfig, Gemma4VisionModel
    c = Gemma4VisionConfig(hidden_size=32, intermediate_size=72, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                           patch_size=4, position_embedding_size=20, use_clipped_linears=True, standardize=True)
    proj = torch.randn((48, 32), generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
    config = {"architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4", "text_config": {"hidden_size": 48, "model_type": "gemma4_text"},
              "vision_config": json.loads(c.to_json_string(use_diff=False)), "audio_config": None}
    make("gemma4", config, Gemma4VisionModel(c), "model.vision_tower.", {"model.embed_vision.embedding_projection.weight": proj},
         {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.9, 1.0, 1.1], "image_processor_type": "Gemma4ImageProcessor"})


def make_qwen3vl():
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLVisionConfig, Qwen3VLVisionModel
    c = Qwen3VLVisionConfig(depth=3, hidden_size=16, intermediate_size=40, num_heads=2, patch_size=4, spatial_merge_size=2, temporal_patch_size=2,
                            out_hidden_size=32, num_position_embeddings=25, deepstack_visual_indexes=[0, 2])
    config = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "vision_config": json.loads(c.to_json_string(use_diff=False)),
              "text_config": {"hidden_size": 32, "rms_norm_eps": 1e-5, "model_type": "qwen3_5_text"}}
    make("qwen3vl", config, Qwen3VLVisionModel(c), "model.visual.", {}, {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.25]})


def tower(folder):
    out = {}
    for f in sorted(os.listdir(folder)):
        if f.startswith("model") and f.endswith(".safetensors"):
            out.update(load_file(os.path.join(folder, f)))
    return {k: v for k, v in out.items() if "language_model" not in k and not k.startswith(("mtp.", "lm_head"))}


def mapped(names, name, suffixes):
    out = names.get_name(name, try_suffixes=suffixes)
    assert out, name
    return out


def qwen_tensors(folder, vc):
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, vc["depth"])
    for k, v in tower(folder).items():
        k = k.removeprefix("model.")
        parts = k.split(".")
        if k == "visual.patch_embed.proj.weight":
            for t in range(2):
                yield gguf.TENSOR_NAMES[T.V_ENC_EMBD_PATCH] + (".weight", ".weight.1")[t], v[:, :, t]
        elif parts[1] == "merger" and parts[2] == "norm":
            yield f"{gguf.TENSOR_NAMES[T.V_POST_NORM]}.{parts[3]}", v
        elif parts[1] == "merger":
            yield f"{gguf.TENSOR_NAMES[T.V_MMPROJ].format(bid={'linear_fc1': 0, 'linear_fc2': 2}[parts[2]])}.{parts[3]}", v
        elif parts[1] == "deepstack_merger_list":
            t = {"norm": T.V_DS_NORM, "linear_fc1": T.V_DS_FC1, "linear_fc2": T.V_DS_FC2}[parts[3]]
            yield f"{gguf.TENSOR_NAMES[t].format(bid=vc['deepstack_visual_indexes'][int(parts[2])])}.{parts[4]}", v
        else:
            yield mapped(names, k, (".weight", ".bias")), v


def gemma_tensors(folder, vc):
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, vc["num_hidden_layers"])
    for k, v in tower(folder).items():
        if k.endswith("patch_embedder.input_proj.weight"):
            p = vc["patch_size"]
            v = v.reshape(v.shape[0], p, p, 3).permute(0, 3, 1, 2)
        k = k.replace("model.vision_tower.encoder.", "vision_model.model.").replace(".linear.weight", ".weight")
        k += ".weight" if k.endswith("position_embedding_table") else ""
        yield mapped(names, k, (".weight", ".bias", ".input_max", ".input_min", ".output_max", ".output_min")), v.reshape(1) if v.dim() == 0 else v


def stored(name, v, kind):
    """The tensor's type and bytes."""
    x = v.contiguous().float().numpy()
    want = TYPES[kind][0]
    if name.startswith("v.patch_embd.weight"):
        want = Q.F16 if kind == "f16" else Q.F32
    elif x.ndim < 2 or "position_embd" in name:
        want = Q.F32
    elif want == Q.Q8_0 and x.shape[-1] % 32:
        want = Q.F16
    if want == Q.F32:
        return want, x.tobytes()
    if want in (Q.F16, Q.BF16):
        return want, v.contiguous().float().to(torch.float16 if want == Q.F16 else torch.bfloat16).view(torch.int16).numpy().tobytes()
    return want, gguf.quants.quantize(x, want).tobytes()


def keys(folder, config, vc, qwen):
    pre = os.path.join(folder, "preprocessor_config.json")
    pre = json.load(open(pre)) if os.path.exists(pre) else {"image_mean": [0.5 if qwen else 0.0] * 3, "image_std": [0.5 if qwen else 1.0] * 3}
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "x.gguf")
        w = gguf.GGUFWriter(path, "clip")
        w.add_type(gguf.GGUFType.MMPROJ)
        w.add_file_type(0)
        w.add_quantization_version(2)
        w.add_clip_has_vision_encoder(True)
        w.add_clip_has_audio_encoder(False)
        w.add_vision_projection_dim(config["text_config"]["hidden_size"])
        w.add_vision_patch_size(vc["patch_size"])
        w.add_vision_embedding_length(vc["hidden_size"])
        w.add_vision_feed_forward_length(vc["intermediate_size"])
        w.add_vision_image_mean([float(x) for x in pre["image_mean"]])
        w.add_vision_image_std([float(x) for x in pre["image_std"]])
        if qwen:
            w.add_clip_projector_type(gguf.VisionProjectorType.QWEN3VL)
            w.add_vision_use_gelu(True)
            w.add_vision_image_size(int(vc["num_position_embeddings"] ** 0.5) * vc["patch_size"])
            w.add_vision_block_count(vc["depth"])
            w.add_vision_head_count(vc["num_heads"])
            w.add_vision_spatial_merge_size(vc["spatial_merge_size"])
            w.add_vision_attention_layernorm_eps(config["text_config"]["rms_norm_eps"])
            w.add_vision_is_deepstack_layers([i in vc.get("deepstack_visual_indexes", []) for i in range(vc["depth"])])
        else:
            w.add_clip_vision_projector_type(gguf.VisionProjectorType.GEMMA4V)
            w.add_vision_image_size(224)
            w.add_vision_block_count(vc["num_hidden_layers"])
            w.add_vision_head_count(vc["num_attention_heads"])
            w.add_vision_attention_layernorm_eps(1e-6)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        r = gguf.GGUFReader(path)
        return {f.name: {"type": [t.name for t in f.types], "value": f.contents()} for f in r.fields.values() if not f.name.startswith("GGUF.")}


def expect(name, folder):
    config = json.load(open(os.path.join(folder, "config.json")))
    vc = config["vision_config"]
    qwen = "depth" in vc
    tensors = dict(qwen_tensors(folder, vc) if qwen else gemma_tensors(folder, vc))
    out = {"metadata": keys(folder, config, vc, qwen), "types": {}}
    for kind in TYPES:
        rows = {}
        for n, v in sorted(tensors.items()):
            t, data = stored(n, v, kind)
            rows[n] = {"type": t.name, "ne": list(reversed(v.shape)), "sha256": hashlib.sha256(data).hexdigest()}
        out["types"][kind] = {"file_type": TYPES[kind][1], "tensors": rows}
    with open(os.path.join(OUT, name + ".json"), "w") as f:
        json.dump(out, f, indent=0, sort_keys=True)
    print(name, len(tensors), "tensors")


def images():
    """Images of sizes that neither preprocessor changes."""
    from PIL import Image
    from transformers.models.gemma4.image_processing_pil_gemma4 import Gemma4ImageProcessorPil
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
    half = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    how = {"qwen35": (64, Qwen2VLImageProcessorPil(patch_size=4, temporal_patch_size=2, merge_size=2, do_resize=False, **half), "image_grid_thw"),
           "gemma4moe": (108, Gemma4ImageProcessorPil(patch_size=4, pooling_kernel_size=3, do_resize=False), "image_position_ids")}
    for name, (side, processor, second) in how.items():
        rgb = np.random.default_rng(3).integers(0, 256, (side, side, 3), dtype=np.uint8)
        model = transformers.AutoModelForImageTextToText.from_pretrained(os.path.join(MODELS, name), dtype=torch.float32, attn_implementation="eager").eval()
        x = processor(images=[Image.fromarray(rgb)], return_tensors="pt")
        with torch.no_grad():
            out = model.model.get_image_features(x["pixel_values"], x[second])
        out = getattr(out, "pooler_output", out)
        out = out[0] if isinstance(out, (tuple, list)) else out
        path = os.path.join(OUT, f"image-{name}.safetensors")
        save_file({"rgb": torch.from_numpy(rgb), "embeddings": out.contiguous()}, path)
        os.chmod(path, 0o644)
        print(name, list(out.shape))


def main():
    torch.set_num_threads(1)
    make_gemma4()
    make_qwen3vl()
    for name in ("gemma4", "qwen3vl"):
        expect(name, os.path.join(OUT, name))
    for name in ("qwen35", "gemma4moe"):
        expect(name, os.path.join(MODELS, name))
    images()


if __name__ == "__main__":
    main()
