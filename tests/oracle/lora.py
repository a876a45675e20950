#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes LoRA adapters saved by peft, and hashes of the weights that peft merged in float32.

    python tests/oracle/lora.py tests/golden/models tests/golden/lora
    PYTHONPATH=peft-0.18.0 python tests/oracle/lora.py tests/golden/models tests/golden/lora    # adds this version's files

If the base ties its head to the embeddings, they are separated before merging: merging one of two modules that share a weight
changes both, unlike running the model with the adapter.

Adapter values are small multiples of 1/64 and the scales powers of two, so every sum is exact in f32 and the
merged weights have one right answer in any order of summation. peft 0.21.2 and 0.18.0, transformers 5.23.0, torch 2.15.0."""
import hashlib
import json
import os
import shutil
import sys

import peft as peft_package
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

torch.manual_seed(2)
SRC, OUT = sys.argv[1], sys.argv[2]
OLD = tuple(map(int, peft_package.__version__.split(".")[:3])) < (0, 19, 1)
index = json.load(open(f"{OUT}/cases.json")) if OLD else []
if not OLD:
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT)
# A and B of fused experts are swapped; gate_up is square, so that in layer 0 only the version number shows it
OLD_CASES = {
    "experts-0.18": ("qwen3moe", dict(r=1, lora_alpha=2, target_modules=[],
                                      target_parameters=["layers.0.mlp.experts.gate_up_proj", "layers.1.mlp.experts.gate_up_proj",
                                                         "layers.1.mlp.experts.down_proj"])),
}
CASES = {
    # scale with rslora: rank 4 gives 8 / sqrt(4) = 4; layer 1's queries have rank 16 and alpha 2, which gives 2 /
    # sqrt(16)
    "experts": ("qwen3moe", dict(r=4, lora_alpha=8, use_rslora=True, target_modules=["q_proj", "o_proj"],
                                 layers_to_transform=[0, 1], target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
                                 rank_pattern={"layers.1.self_attn.q_proj": 16}, alpha_pattern={"layers.1.self_attn.q_proj": 2})),
    # scale alpha / r; rows that the conversion permutes; a norm that is trained as a whole
    "mistral": ("mistral", dict(r=2, lora_alpha=4, target_modules=["q_proj", "k_proj", "down_proj"], modules_to_save=["input_layernorm"],
                                exclude_modules=[f"model.layers.{i}.mlp.down_proj" for i in (0, 2)])),
    "embedding": ("qwen3", dict(r=1, lora_alpha=2, target_modules=["embed_tokens", "up_proj"])),
    "head": ("qwen3", dict(r=1, lora_alpha=2, target_modules=["lm_head"])),
    # one key for each rule: anchored, in the middle, a list of names, and one that matches only the end
    "patterns": ("qwen3", dict(r=1, lora_alpha=2, target_modules=["q_proj", "k_proj", "up_proj"],
                               rank_pattern={r"layers\.1\.self_attn\.k_proj": 2},
                               alpha_pattern={r"^model\.layers\.0\.self_attn\.q_proj": 32, r"layers\.[12]\..*\.(k|v)_proj": 8,
                                              "proj": 64, "up_proj": 16, "self_attn.q_proj": 4})),
    "square": ("qwen3moe", dict(r=1, lora_alpha=2, target_modules=[], target_parameters=["layers.0.mlp.experts.gate_up_proj"])),
    "biases": ("qwen2", dict(r=1, lora_alpha=2, target_modules=["q_proj"], bias="all", layers_to_transform=[0])),
    # without gate_up, whose shapes are those of down with A and B swapped
    "down": ("qwen3moe", dict(r=1, lora_alpha=2, target_modules=[], target_parameters=["layers.1.mlp.experts.down_proj"])),
}
if OLD:
    CASES = OLD_CASES
NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.o_proj": "attn_output", "mlp.down_proj": "ffn_down",
         "mlp.up_proj": "ffn_up", "input_layernorm": "attn_norm", "self_attn.v_proj": "attn_v"}


def sha(t):
    return hashlib.sha256(t.float().contiguous().numpy().tobytes()).hexdigest()


def pairs(w, heads):
    """The rows of each head in the order of the llama layout: new[2i + b] = old[i + b * n/2]."""
    n = w.shape[0] // heads
    return w.reshape(heads, 2, n // 2, -1).transpose(1, 2).reshape(w.shape)


for case, (base, cfg) in CASES.items():
    model = AutoModelForCausalLM.from_pretrained(f"{SRC}/{base}", dtype=torch.float32)
    peft = get_peft_model(model, LoraConfig(**cfg))
    changed = set()
    for name, p in peft.named_parameters():
        if "lora_" in name:
            p.data = torch.randint(-3, 4, p.shape).float() / 64
        elif "modules_to_save" in name or (cfg.get("bias") == "all" and name.endswith(".bias")):
            p.data = torch.randint(32, 96, p.shape).float() / 64
    peft.save_pretrained(f"{OUT}/{case}", save_embedding_layers=False)
    before = {k: v.clone() for k, v in AutoModelForCausalLM.from_pretrained(f"{SRC}/{base}", dtype=torch.float32).state_dict().items()}
    tied = model.config.tie_word_embeddings
    head = peft.base_model.model.lm_head
    head = getattr(head, "base_layer", head)
    head.weight = torch.nn.Parameter(head.weight.detach().clone())
    merged = peft.merge_and_unload().state_dict()
    apart = tied and not torch.equal(merged["lm_head.weight"], merged["model.embed_tokens.weight"])
    want = {}
    for k, v in merged.items():
        part = k.split(".")
        if k == "lm_head.weight" and apart:
            want["output.weight"] = sha(v)
        if torch.equal(v, before[k]) or k == "lm_head.weight":
            continue
        if k == "model.embed_tokens.weight":
            want["token_embd.weight"] = sha(v)
        elif k.endswith("experts.gate_up_proj"):
            f = v.shape[1] // 2
            want[f"blk.{part[2]}.ffn_gate_exps.weight"] = sha(v[:, :f])
            want[f"blk.{part[2]}.ffn_up_exps.weight"] = sha(v[:, f:])
        elif k.endswith("experts.down_proj"):
            want[f"blk.{part[2]}.ffn_down_exps.weight"] = sha(v)
        else:
            c = model.config
            if base == "mistral" and part[-2] in ("q_proj", "k_proj"):
                v = pairs(v, c.num_attention_heads if part[-2] == "q_proj" else c.num_key_value_heads)
            want[f"blk.{part[2]}.{NAMES['.'.join(part[3:-1])]}.{part[-1]}"] = sha(v)
    for f in ("README.md",):
        os.path.exists(f"{OUT}/{case}/{f}") and os.remove(f"{OUT}/{case}/{f}")
    conf = json.load(open(f"{OUT}/{case}/adapter_config.json"))
    conf["base_model_name_or_path"] = base
    json.dump(conf, open(f"{OUT}/{case}/adapter_config.json", "w"), indent=1)
    index = [x for x in index if x["adapter"] != case]
    index.append({"adapter": case, "base": base, "expected": want})
    print(case, sorted(want))
json.dump(index, open(f"{OUT}/cases.json", "w"), indent=1)
