#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes fixtures of quantized checkpoint forms, quantized and dequantized by the tools that define the forms.

    python tests/oracle/quantized.py tests/golden/models tests/golden/quantized [nvfp4_experts]

Each form gets NAME.safetensors, the tensors of a few modules as the tool stores them, and an entry of forms.json: the folder
of tests/golden/models whose modules they replace, its quantization_config, and per GGUF tensor the SHA-256 of the tool's own
dequantization as f32 (where the tool computes in f32) and as bf16. Scales that a tool keeps in half precision are cast to f32
before it dequantizes, since it rounds to the dtype of the scale.

From PyPI: compressed-tensors 0.20.0, transformers 5.23.0, torch 2.15.0, bitsandbytes 0.50.2 (its CPU path), auto-gptq 0.7.1,
autoawq 0.2.7.post3, nvidia-modelopt 0.47.0. auto-gptq and autoawq need names that newer libraries removed: see old_imports().
The gptq_v2 layout is that of GPTQModel, which could not be run here: its rule (zero points stored without the -1) is applied to
auto-gptq's output by hand."""
import hashlib
import json
import os
import sys
import types

import numpy as np
import torch
from safetensors.torch import load_file, save_file

torch.manual_seed(1)
SRC, OUT = sys.argv[1], sys.argv[2]
os.makedirs(OUT, exist_ok=True)
FORMS = []
# name of the module -> GGUF tensor; sizes 64 x 128 and 128 x 320
LINEAR = {
    "model.layers.1.self_attn.k_proj": "blk.1.attn_k.weight",
    "model.layers.1.mlp.down_proj": "blk.1.ffn_down.weight",
}
BASE = load_file(f"{SRC}/qwen3/model.safetensors")


def weight(module):
    """Random f32 weights, with some rows and groups far larger than others."""
    w = BASE[f"{module}.weight"].float()
    w = w * torch.exp2(torch.randint(-2, 3, (w.shape[0], 1)).float())
    return w


def sha(t):
    return hashlib.sha256(t.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()


def add(name, config, stored, want, base="qwen3", remove=None):
    """Writes a case. want: GGUF name -> the weights as the tool dequantizes them, f32 (both hashes) or bf16 (one
    hash)."""
    save_file({k: v.contiguous() for k, v in stored.items()}, f"{OUT}/{name}.safetensors")
    exp = {}
    for k, v in want.items():
        exp[k] = {"bf16": sha(v.to(torch.bfloat16))}
        if v.dtype == torch.float32:
            exp[k]["f32"] = sha(v)
    remove = remove or [f"{m}.weight" for m in LINEAR]
    FORMS.append({"name": name, "base": base, "quantization_config": config, "remove": remove, "expected": exp})
    print(name, {k: tuple(v.shape) for k, v in stored.items() if "k_proj" in k or base != "qwen3"})


# ---- compressed-tensors ----
def compressed(name, fmt, scale_dtype=torch.bfloat16, **args):
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams

    qa = QuantizationArgs(**args)
    scheme = QuantizationScheme(targets=["Linear"], weights=qa)
    tool = BaseCompressor.get_value_from_registry(fmt)
    stored, want = {}, {}
    for module, gguf in LINEAR.items():
        w = weight(module)
        r, c = w.shape
        if qa.strategy == "tensor":
            v = w.reshape(1, -1)
        elif qa.strategy == "channel":
            v = w
        elif qa.strategy == "block":
            br, bc = qa.block_structure
            p = torch.nn.functional.pad(w, (0, -c % bc, 0, -r % br))
            v = p.reshape(p.shape[0] // br, br, p.shape[1] // bc, bc).transpose(1, 2).flatten(2)
        else:
            v = w.reshape(r, -1, qa.group_size)
        extra = {}
        if fmt == "nvfp4-pack-quantized":
            extra["global_scale"] = (448.0 * 6.0 / w.abs().max()).reshape(1)
        scale, zero = calculate_qparams(v.amin(-1), v.amax(-1), qa, **extra)
        if fmt not in ("nvfp4-pack-quantized",):
            scale = scale.to(scale_dtype)
        shape = {"tensor": (1,), "channel": (r, 1)}.get(qa.strategy, v.shape[:-1])
        sd = {"weight": w, "weight_scale": scale.reshape(shape)}
        if zero is not None:
            sd["weight_zero_point"] = zero.reshape(shape).to(torch.int8)
        if extra:
            sd["weight_global_scale"] = extra["global_scale"]
        sd = {k: v for k, v in tool.compress(sd, scheme).items() if v is not None}
        stored.update({f"{module}.{k}": v for k, v in sd.items()})
        back = dict(sd)
        if scale.is_floating_point() and back["weight_scale"].dtype in (torch.bfloat16, torch.float16):
            back["weight_scale"] = back["weight_scale"].float()
        want[gguf] = tool.decompress(back, scheme)["weight"]
    config = {
        "quant_method": "compressed-tensors",
        "format": fmt,
        "quantization_status": "compressed",
        "config_groups": {"group_0": json.loads(scheme.model_dump_json())},
        "ignore": ["lm_head"],
    }
    add(name, config, stored, want)


def compressed_forms():
    i4, i8, f8, f4 = ({"num_bits": n, "type": t} for n, t in ((4, "int"), (8, "int"), (8, "float"), (4, "float")))
    compressed("ct-pack4-group", "pack-quantized", **i4, strategy="group", group_size=32, symmetric=True)
    compressed("ct-pack4-asym", "pack-quantized", torch.float16, **i4, strategy="group", group_size=64, symmetric=False)
    compressed("ct-pack8-channel", "pack-quantized", **i8, strategy="channel", symmetric=False)
    compressed("ct-pack3", "pack-quantized", num_bits=3, type="int", strategy="group", group_size=32, symmetric=True)
    compressed("ct-int8-channel", "int-quantized", **i8, strategy="channel", symmetric=True)
    compressed("ct-int8-group", "naive-quantized", **i8, strategy="group", group_size=32, symmetric=False)
    compressed("ct-fp8-tensor", "float-quantized", **f8, strategy="tensor", symmetric=True)
    compressed("ct-fp8-channel", "float-quantized", **f8, strategy="channel", symmetric=True)
    compressed("ct-fp8-block", "float-quantized", torch.float32, **f8, strategy="block", block_structure=[48, 96], symmetric=True)
    compressed("ct-nvfp4", "nvfp4-pack-quantized", **f4, strategy="tensor_group", group_size=16, symmetric=True)
    compressed("ct-mxfp4", "mxfp4-pack-quantized", **f4, strategy="group", group_size=32, symmetric=True)
    compressed("ct-mxfp8", "mxfp8-quantized", **f8, strategy="group", group_size=32, symmetric=True)


# ---- FP8 of transformers ----
def fp8_blocks():
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize, Fp8Quantize

    quantizer = types.SimpleNamespace(
        quantization_config=types.SimpleNamespace(weight_block_size=[32, 64], scale_fmt="float"))
    stored, want = {}, {}
    for module, gguf in LINEAR.items():
        got = Fp8Quantize(quantizer)._quantize_one(f"{module}.weight", weight(module))
        stored.update(got)
        want[gguf] = Fp8Dequantize(quantizer)._dequantize_one(
            got[f"{module}.weight"], got[f"{module}.weight_scale_inv"], torch.float32)
    add("fp8-block", {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [32, 64]}, stored, want)


def fp8_experts():
    """Fused experts with block scales."""
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize, Fp8Quantize

    quantizer = types.SimpleNamespace(
        quantization_config=types.SimpleNamespace(weight_block_size=[32, 64], scale_fmt="float"))
    moe = load_file(f"{SRC}/qwen3moe/model.safetensors")
    pre = "model.layers.1.mlp.experts"
    n = 1 + max(int(k.split(".")[5]) for k in moe if k.startswith(pre))
    ex = {p: torch.stack([moe[f"{pre}.{i}.{p}_proj.weight"].float() for i in range(n)]) for p in ("gate", "up", "down")}
    stored, want = {}, {}
    for name, w in (("gate_up_proj", torch.cat([ex["gate"], ex["up"]], 1)), ("down_proj", ex["down"])):
        got = Fp8Quantize(quantizer)._quantize_one(f"{pre}.{name}", w)
        got = {k.replace(".weight_scale_inv", "_scale_inv"): v for k, v in got.items()}
        assert f"{pre}.{name}_scale_inv" in got, got.keys()
        stored.update(got)
        want[name] = Fp8Dequantize(quantizer)._dequantize_one(got[f"{pre}.{name}"], got[f"{pre}.{name}_scale_inv"], torch.float32)
    f = want["gate_up_proj"].shape[1] // 2
    add("fp8-experts", {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [32, 64]}, stored,
        {"blk.1.ffn_gate_exps.weight": want["gate_up_proj"][:, :f], "blk.1.ffn_up_exps.weight": want["gate_up_proj"][:, f:],
         "blk.1.ffn_down_exps.weight": want["down_proj"]}, "qwen3moe", [pre + "."])


# ---- MXFP4 blocks of transformers (gpt-oss); fused experts ----
def mxfp4_blocks():
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    moe = load_file(f"{SRC}/qwen3moe/model.safetensors")
    pre = "model.layers.1.mlp.experts"
    n = 1 + max(int(k.split(".")[5]) for k in moe if k.startswith(pre))
    f, d = moe[f"{pre}.0.gate_proj.weight"].shape
    stored, want = {}, {}
    for name, rows, cols in (("gate_up_proj", 2 * f, d), ("down_proj", d, f)):
        blocks = torch.randint(0, 256, (n, rows, cols // 32, 16), dtype=torch.uint8)
        scales = torch.randint(90, 140, (n, rows, cols // 32), dtype=torch.uint8)
        stored[f"{pre}.{name}_blocks"], stored[f"{pre}.{name}_scales"] = blocks, scales
        # the tool returns [E, in, out]
        want[name] = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).transpose(1, 2)
    add("mxfp4-blocks", {"quant_method": "mxfp4"}, stored,
        {"blk.1.ffn_gate_exps.weight": want["gate_up_proj"][:, :f], "blk.1.ffn_up_exps.weight": want["gate_up_proj"][:, f:],
         "blk.1.ffn_down_exps.weight": want["down_proj"]}, "qwen3moe", [pre + "."])


# ---- NVFP4 of modelopt ----
def modelopt_nvfp4():
    from modelopt.torch.quantization.qtensor.nvfp4_tensor import NVFP4QTensor

    stored, want = {}, {}
    for module, gguf in LINEAR.items():
        q, scale, scale2 = NVFP4QTensor.quantize(weight(module), 16)
        stored[f"{module}.weight"] = q._quantized_data
        stored[f"{module}.weight_scale"] = scale
        stored[f"{module}.weight_scale_2"] = scale2
        stored[f"{module}.input_scale"] = torch.tensor(0.01)
        want[gguf] = q.dequantize(torch.float32, scale=scale, double_scale=scale2, block_sizes={-1: 16})
    add("modelopt-nvfp4", {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}, stored, want)


def nvfp4_experts():
    """Separate experts, each with a scale of its own; decoded with NumPy as modelopt does, in f32: code * (scale * scale_2)."""
    level = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6], np.float32)
    rng = np.random.default_rng(40)
    stored, want = {}, {}
    for part, rows, cols in (("gate", 64, 128), ("up", 64, 128), ("down", 128, 64)):
        all_ = []
        for e in range(8):
            code = rng.integers(0, 16, (rows, cols), dtype=np.uint8)
            scale = rng.uniform(1, 400, (rows, cols // 16)).astype(np.float32)
            scale[e % rows, 0] = 2 ** -9  # the smallest scale, which is subnormal
            scale = torch.from_numpy(scale).to(torch.float8_e4m3fn)
            scale2 = np.float32(rng.uniform(1e-5, 9e-5))
            name = f"model.layers.1.mlp.experts.{e}.{part}_proj."
            stored[name + "weight"] = torch.from_numpy(code[:, ::2] | code[:, 1::2] << 4)
            stored[name + "weight_scale"] = scale
            stored[name + "weight_scale_2"] = torch.tensor(scale2)
            stored[name + "input_scale"] = torch.tensor(0.01)
            all_.append(level[code] * np.repeat(scale.float().numpy() * scale2, 16, 1) + np.float32(0))
        want[f"blk.1.ffn_{part}_exps.weight"] = torch.from_numpy(np.stack(all_))
    add("nvfp4-experts", {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}, stored, want, "qwen3moe",
        ["model.layers.1.mlp.experts."])


# ---- GPTQ, AWQ ----
def old_imports():
    """Provides names that these tools import but do not need here."""
    import transformers.modeling_utils as mu

    for name in ("no_init_weights",):
        if not hasattr(mu, name):
            setattr(mu, name, None)
    for name in ("auto_gptq", "awq"):  # the packages' own __init__ imports every model class
        import importlib.util
        spec = importlib.util.find_spec(name)
        mod = types.ModuleType(name)
        mod.__path__ = list(spec.submodule_search_locations)
        sys.modules[name] = mod


def groups(w, bits, group, order=None):
    """Scales, zero points [out, groups] and the group of each column."""
    n = w.shape[1] // group
    idx = torch.arange(w.shape[1]) // group
    if order is not None:  # activation order: columns belong to groups in a different order
        g = torch.empty_like(idx)
        g[order] = idx
        idx = g
    lo = torch.stack([w[:, idx == i].amin(1) for i in range(n)], 1).clamp(max=0)
    hi = torch.stack([w[:, idx == i].amax(1) for i in range(n)], 1).clamp(min=0)
    scale = ((hi - lo) / (2**bits - 1)).half().float()
    zero = torch.round(-lo / scale).clamp(1, 2**bits - 1)
    return scale, zero, idx.to(torch.int32)


def gptq():
    from auto_gptq.nn_modules.qlinear import qlinear_cuda as tool

    tool._autogptq_cuda_available = False
    tool.autogptq_cuda_256 = tool.autogptq_cuda_64 = None
    add_one = {2: 0x55555555, 4: 0x11111111, 8: 0x01010101}
    for bits, order, v2 in ((2, False, False), (3, False, False), (4, False, False), (4, True, False), (8, True, False), (4, True, True)):
        stored, want = {}, {}
        for module, gguf in LINEAR.items():
            w = weight(module)
            linear = torch.nn.Linear(w.shape[1], w.shape[0], bias=False)
            scale, zero, g_idx = groups(w, bits, 64, torch.randperm(w.shape[1]) if order else None)
            # codes must be in the range that a quantizer writes
            q = torch.clamp(torch.round(w / scale[:, g_idx.long()]) + zero[:, g_idx.long()], 0, 2**bits - 1)
            linear.weight.data = (q - zero[:, g_idx.long()]) * scale[:, g_idx.long()]
            layer = tool.QuantLinear(bits, 64, w.shape[1], w.shape[0], False, weight_dtype=torch.float32)
            layer.pack(linear, scale, zero, g_idx)
            layer.autogptq_cuda_available = False
            want[gguf] = layer(torch.eye(w.shape[1])).T.contiguous()
            assert torch.equal(want[gguf], linear.weight.data)
            qzeros = layer.qzeros
            if v2:  # GPTQModel: unchanged zero points, all of which are at least 1 here
                qzeros = torch.from_numpy((qzeros.numpy().view(np.uint32) + np.uint32(add_one[bits])).view(np.int32))
            stored.update({f"{module}.qweight": layer.qweight, f"{module}.qzeros": qzeros, f"{module}.scales": layer.scales.half()})
            if order:
                stored[f"{module}.g_idx"] = layer.g_idx.to(torch.int32)
            elif bits == 4:
                stored[f"{module}.bias"] = torch.zeros(w.shape[0], dtype=torch.float16)
        config = {"quant_method": "gptq", "bits": bits, "group_size": 64, "desc_act": order, "sym": False}
        if v2:
            config["checkpoint_format"] = "gptq_v2"
        add(f"gptq{bits}" + ("-act" if order else "") + ("-v2" if v2 else ""), config, stored, want)


def awq():
    from awq.modules.linear import gemm
    from awq.utils.packing_utils import dequantize_gemm

    gemm.get_best_device = lambda: "cpu"
    stored, want = {}, {}
    for module, gguf in LINEAR.items():
        w = weight(module)
        linear = torch.nn.Linear(w.shape[1], w.shape[0], bias=False)
        scale, zero, g_idx = groups(w, 4, 32)
        q = torch.clamp(torch.round(w / scale[:, g_idx.long()]) + zero[:, g_idx.long()], 0, 15)
        linear.weight.data = (q - zero[:, g_idx.long()]) * scale[:, g_idx.long()]
        layer = gemm.WQLinear_GEMM.from_linear(linear, 4, 32, scales=scale.T.contiguous(), zeros=zero.T.contiguous())
        want[gguf] = dequantize_gemm(layer.qweight, layer.qzeros, layer.scales.float(), 4, 32).T.contiguous()
        assert torch.equal(want[gguf], linear.weight.data)
        stored.update({f"{module}.qweight": layer.qweight, f"{module}.qzeros": layer.qzeros, f"{module}.scales": layer.scales})
    add("awq", {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}, stored, want)


# ---- bitsandbytes ----
def bitsandbytes():
    import bitsandbytes.functional as F

    for kind, nested, dtype in (("nf4", False, torch.float32), ("nf4", True, torch.bfloat16), ("fp4", True, torch.float32)):
        stored, want = {}, {}
        for module, gguf in LINEAR.items():
            q, state = F.quantize_4bit(weight(module).to(dtype), blocksize=64, compress_statistics=nested, quant_type=kind)
            stored[f"{module}.weight"] = q
            stored.update({f"{module}.weight.{k}": v for k, v in state.as_dict(packed=True).items()})
            want[gguf] = F.dequantize_4bit(q, state)
            if kind == "fp4":  # the CPU kernel gives code 8 a sign that the stored quant_map does not have
                want[gguf] = want[gguf] + 0.0
        add(f"bnb-{kind}" + ("-nested" if nested else ""),
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": kind}, stored, want)
    stored, want = {}, {}
    for module, gguf in LINEAR.items():
        q, stats, _ = F.int8_vectorwise_quant(weight(module).half())
        stored.update({f"{module}.weight": q, f"{module}.SCB": stats, f"{module}.weight_format": torch.tensor(0, dtype=torch.uint8)})
        want[gguf] = F.int8_vectorwise_dequant(q, stats)
    add("bnb-int8", {"quant_method": "bitsandbytes", "load_in_8bit": True}, stored, want)


if sys.argv[3:]:  # only this form; the other entries stay
    with open(f"{OUT}/forms.json") as f:
        FORMS = [x for x in json.load(f) if x["name"] != sys.argv[3].replace("_", "-")]
    globals()[sys.argv[3]]()
else:
    compressed_forms()
    fp8_blocks()
    fp8_experts()
    mxfp4_blocks()
    modelopt_nvfp4()
    nvfp4_experts()
    bitsandbytes()
    old_imports()
    gptq()
    awq()
with open(f"{OUT}/forms.json", "w") as f:
    json.dump(FORMS, f, indent=1)
    f.write("\n")
