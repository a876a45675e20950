# SPDX-License-Identifier: MIT
"""Adapters as saved by peft, Unsloth, axolotl, TRL, MLX and others for a base model, merged by `hone convert --lora`."""
import json
import pathlib
import shutil

import numpy as np
from safetensors.numpy import load_file, save_file

from published import checkpoint, convert, edit, keys, same_logits, tensors, trial


def apart(model):
    """Gives a tied head its own copy of the weights, since the model with the adapter computes it separately."""
    import torch

    head = model.get_output_embeddings()
    head = getattr(head, "base_layer", head)
    head.weight = torch.nn.Parameter(head.weight.detach().clone())


def trained(model, **config):
    """A peft model around a base, with random numbers in everything that peft trains."""
    import torch
    from peft import LoraConfig, get_peft_model

    peft = get_peft_model(model, LoraConfig(**{"r": 4, "lora_alpha": 16, "target_modules": ["q_proj", "v_proj"], **config}))
    torch.manual_seed(2)
    missed = [x for x in config.get("target_parameters", []) if not any("experts" in k or "gate" in k or "router" in k or "_linear" in k for k, p in peft.named_parameters() if p.requires_grad)]
    assert not missed, f"peft matched none of {missed}"
    for name, p in peft.named_parameters():
        if p.requires_grad:
            p.data = p.data + torch.randn_like(p) * 0.05
    return peft.eval()


def adapter(scratch, peft, **how):
    d = pathlib.Path(scratch, "adapter")
    peft.save_pretrained(d, **how)
    return d


def rewrite(d, change):
    """Lets `change` edit or replace the dictionary of an adapter's tensors."""
    f = d / "adapter_model.safetensors"
    t = load_file(f)
    new = change(t)
    save_file(t if new is None else new, f, {"format": "pt"})


def lora(base, d, model, *words, bound=1e-4):
    """Converts base and adapter: the logits must be the model's, or the refusal must contain the words."""
    p = convert(base, "--lora", d)
    return p.refusal(*words) or same_logits(p.path, model, bound=bound)


def case(name, model_type="llama", base={}, words=("peft",), change=None, config=None, how={}, **cfg):
    """Registers an adapter of peft over a base of transformers. change: edits tensors; config: edits adapter_config.json."""

    @trial("adapters", name)
    def _(scratch):
        folder, model = checkpoint(scratch, model_type, **base)
        peft = trained(model, **cfg)
        d = adapter(scratch, peft, **how)
        if change:
            rewrite(d, change)
        if config:
            edit(d, "adapter_config.json", config)
        return lora(folder, d, peft, *words)


TIED, APART = dict(tie_word_embeddings=True), dict(tie_word_embeddings=False)
MOE = dict(num_experts=4, num_local_experts=4, num_experts_per_tok=2, moe_intermediate_size=48)
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

# ---- settings of peft ----
case("plain")
case("every linear layer", target_modules="all-linear")
case("target_modules as a pattern", target_modules=r".*\.(self_attn|mlp)\.(q|k|v|o|gate|up|down)_proj$")
case("rslora", use_rslora=True)
case("rslora and alpha_pattern", use_rslora=True, alpha_pattern={"q_proj": 3}, rank_pattern={"v_proj": 9})
case("alpha_pattern by a middle part", alpha_pattern={r"layers\.1\.": 99, r".*\.1\.self_attn\.q_proj": 40, r"self_attn": 50})
case("alpha_pattern of a suffix in a word", alpha_pattern={"_proj": 77, "v_proj": 5})
case("alpha_pattern with a dollar and alternatives", alpha_pattern={r"(q_proj|k_proj)$": 7, r"^.*v_proj$": 2.5})
case("alpha_pattern that starts with a flag", alpha_pattern={r"(?:model\.layers\.0\.self_attn\.q_proj)": 40})
case("lora_alpha is a fraction", lora_alpha=0.5)
case("layers_to_transform, one number", layers_to_transform=1, layers_pattern="layers")
case("layers_to_transform from the end", layers_to_transform=[0], layers_pattern=["layers"])
case("exclude_modules", target_modules="all-linear", exclude_modules=r".*layers\.0\..*")
case("rank 1", r=1)
case("a rank as large as the layer", r=64)
case("a rank larger than the layer", r=80)
case("DoRA", use_dora=True, words=("dora", "peft"))
case("lora_bias", lora_bias=True, words=("lora_bias", "peft"))
case("PiSSA", init_lora_weights="pissa", words=("pissa", "peft"))
case("PiSSA by SVD in steps", init_lora_weights="pissa_niter_4", words=("pissa", "peft"))
case("OLoRA", init_lora_weights="olora", words=("olora", "peft"))
case("gaussian", init_lora_weights="gaussian")
case("orthogonal", init_lora_weights="orthogonal")
case("layer_replication", layer_replication=[(0, 2), (1, 2)], words=("layer_replication", "peft"))
case("trainable_token_indices", trainable_token_indices=[3, 5], words=("trainable_token_indices",))
case("trainable_token_indices, tied", base=TIED, trainable_token_indices={"embed_tokens": [3, 5]}, words=("trainable_token_indices",))
case("trainable_token_indices, empty list", config=lambda c: {**c, "trainable_token_indices": []})

# ---- heads and embeddings ----
case("LoRA head", base=APART, target_modules=["q_proj", "lm_head"])
case("LoRA embeddings", base=APART, target_modules=["q_proj", "embed_tokens"])
case("LoRA of both", base=APART, target_modules=["lm_head", "embed_tokens"])
case("trained head", base=APART, modules_to_save=["lm_head"])
case("trained embeddings", base=APART, modules_to_save=["embed_tokens"])
case("trained both", base=APART, modules_to_save=["lm_head", "embed_tokens"])
case("trained norms", modules_to_save=["norm", "input_layernorm", "post_attention_layernorm"])


def tied(name, model_type="llama", base={}, **cfg):
    """The same with a tied base, whose head and embeddings differ once the adapter changes one of them."""

    @trial("adapters", name + ", tied " + model_type)
    def _(scratch):
        folder, model = checkpoint(scratch, model_type, **{**TIED, **base})
        apart(model)
        peft = trained(model, **cfg)
        return lora(folder, adapter(scratch, peft), peft, "peft")


for kind in ("llama", "qwen3", "gemma3_text"):
    tied("LoRA head", kind, target_modules=["q_proj", "lm_head"])
    tied("trained head", kind, modules_to_save=["lm_head"])
tied("LoRA embeddings", target_modules=["q_proj", "embed_tokens"])
tied("LoRA of both", target_modules=["embed_tokens", "lm_head"])
tied("trained both", modules_to_save=["embed_tokens", "lm_head"])
tied("trained embeddings, LoRA head", target_modules=["lm_head"], modules_to_save=["embed_tokens"])


@trial("adapters", "ensure_weight_tying")
def weight_tying(scratch):
    folder, model = checkpoint(scratch, "llama", **TIED)
    peft = trained(model, modules_to_save=["embed_tokens"], ensure_weight_tying=True)
    return lora(folder, adapter(scratch, peft), peft, "peft")


def grown(name, base, by, tokenizer, **cfg):
    """An adapter with embedding rows for new tokens and a tokenizer with these tokens, as made by trl's
    setup_chat_format."""

    @trial("adapters", name)
    def _(scratch):
        from tokenizers import Tokenizer

        folder, model = checkpoint(scratch, "llama", **base)
        n = model.config.vocab_size
        model.resize_token_embeddings(n + by, mean_resizing=False)
        peft = trained(model, **cfg)
        d = adapter(scratch, peft)
        if tokenizer:
            t = Tokenizer.from_file(str(folder / "tokenizer.json"))
            t.add_special_tokens([f"<new_{i}>" for i in range(by)])
            t.save(str(d / "tokenizer.json"))
            shutil.copy(folder / "tokenizer_config.json", d)
        p = convert(folder, "--lora", d)
        said = p.refusal("tokens")
        if said:
            return said
        if tokenizer and keys(p.path)["tokenizer.ggml.tokens"][n] != "<new_0>":
            return "wrong", "the new token has no name"
        return same_logits(p.path, peft)


grown("two new tokens", APART, 2, True, modules_to_save=["embed_tokens", "lm_head"])
grown("two new tokens, tied", TIED, 2, True, modules_to_save=["embed_tokens", "lm_head"], ensure_weight_tying=True)
grown("two new tokens, LoRA embeddings", APART, 2, True, target_modules=["embed_tokens", "lm_head", "q_proj"])
grown("padded to a multiple of 64, tokenizer of the base", APART, 61, False, modules_to_save=["embed_tokens", "lm_head"])
grown("a smaller table", APART, -1, False, modules_to_save=["embed_tokens", "lm_head"])

# ---- architectures ----
for kind, more in {
    "qwen2": {}, "qwen3": {}, "mistral": {}, "gemma2": {}, "gemma3_text": {}, "granite": {}, "olmo2": {}, "cohere": {}, "phi3": {},
    "smollm3": {}, "glm4": {}, "exaone4": {}, "stablelm": {}, "starcoder2": {}, "gpt_neox": {}, "seed_oss": {},
}.items():  # fmt: skip
    case("every linear layer of " + kind, kind, base=more, target_modules="all-linear")
case("biases of qwen2", "qwen2", bias="all")
case("lora_only biases of qwen2", "qwen2", bias="lora_only", target_modules=["q_proj", "k_proj"])
case("biases of starcoder2", "starcoder2", base=dict(use_bias=True), bias="all", target_modules=["q_proj", "c_fc"])
case("biases of llama with attention_bias", base=dict(attention_bias=True, mlp_bias=True), bias="all", target_modules=LINEAR)
case("GPT-2's Conv1D", "gpt2", base=dict(n_embd=64, n_layer=2, n_head=4, n_positions=512), target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)
case("biases of GPT-2", "gpt2", base=dict(n_embd=64, n_layer=2, n_head=4, n_positions=512), target_modules=["c_attn"], fan_in_fan_out=True, bias="all")
case("convolutions of lfm2", "lfm2", base=dict(layer_types=["conv", "full_attention"], num_hidden_layers=2), target_modules=["in_proj", "out_proj", "w1", "w2", "w3", "q_proj"])
case("mamba 2 of granite 4", "granitemoehybrid", base=dict(layer_types=["mamba", "attention"], layers_block_type=["mamba", "attention"], mamba_n_heads=8, mamba_d_head=16, mamba_n_groups=1, mamba_d_state=16, shared_intermediate_size=96, num_local_experts=0, num_experts_per_tok=0), target_modules=["in_proj", "out_proj", "q_proj"])
case("mamba", "mamba", base=dict(state_size=8, time_step_rank=8), target_modules=["in_proj", "x_proj"])
case("gated delta net", "qwen3_next", base=dict(MOE, num_hidden_layers=2, layer_types=["linear_attention", "full_attention"], head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16, shared_expert_intermediate_size=48), target_modules=["in_proj_qkvz", "in_proj_ba", "out_proj", "q_proj", "o_proj"])

# ---- experts ----
FUSED = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
for kind in ("qwen3_moe", "qwen2_moe", "olmoe", "glm4_moe", "mixtral", "ernie4_5_moe"):
    more = dict(MOE, norm_topk_prob=kind not in ("qwen2_moe", "olmoe"), n_routed_experts=4, moe_num_experts=4, moe_k=2, n_group=1, topk_group=1, shared_expert_intermediate_size=48, first_k_dense_replace=0, moe_layer_start_index=0, moe_num_shared_experts=1)
    case("fused experts of " + kind, kind, base=more, target_modules=["q_proj"], target_parameters=FUSED)
    case("only one of the fused matrices of " + kind, kind, base=more, target_modules=["q_proj"], target_parameters=FUSED[1:])
    case("the router of " + kind, kind, base=more, target_modules=["q_proj"], target_parameters=["mlp.gate.weight"])
case("fused experts with a rank per matrix", "qwen3_moe", base=dict(MOE, norm_topk_prob=True), target_modules=[], target_parameters=FUSED, rank_pattern={"experts.down_proj": 2}, alpha_pattern={"experts.gate_up_proj": 4})
case("fused experts of gpt-oss", "gpt_oss", base=dict(MOE, head_dim=16, num_hidden_layers=2), target_modules=["q_proj"], target_parameters=FUSED)
case("attention of gpt-oss, with biases", "gpt_oss", base=dict(MOE, head_dim=16, num_hidden_layers=2), target_modules=["q_proj", "o_proj"], bias="all")
GRANITE = ["block_sparse_moe.experts.gate_up_proj", "block_sparse_moe.experts.down_proj"]
case("fused experts of granitemoe", "granitemoe", base=MOE, target_modules=["q_proj"], target_parameters=GRANITE)
case("only down of granitemoe", "granitemoe", base=MOE, target_modules=["q_proj"], target_parameters=GRANITE[1:])
case("the router of granitemoe", "granitemoe", base=MOE, target_modules=["q_proj"], target_parameters=["router.weight"])
NEMOTRON = dict(MOE, n_routed_experts=4, num_hidden_layers=3, layers_block_type=["mamba", "moe", "attention"], mamba_num_heads=4, mamba_head_dim=16, n_groups=1, ssm_state_size=16, head_dim=16, moe_shared_expert_intermediate_size=48, moe_latent_size=None, norm_topk_prob=True, n_group=1, topk_group=1)
for only in (["experts.up_proj", "experts.down_proj"], ["experts.up_proj"], ["experts.down_proj"]):
    case("nemotron_h, " + " and ".join(only), "nemotron_h", base=NEMOTRON, target_modules=["q_proj", "in_proj"], target_parameters=only)
    case("square nemotron_h, " + " and ".join(only), "nemotron_h", base=dict(NEMOTRON, moe_intermediate_size=64), target_modules=["q_proj"], target_parameters=only)
for only in (FUSED, FUSED[:1], FUSED[1:]):
    case("square experts, " + " and ".join(only), "qwen3_moe", base=dict(MOE, norm_topk_prob=True, moe_intermediate_size=64), target_modules=["q_proj"], target_parameters=only)
    case("square gate_up, " + " and ".join(only), "qwen3_moe", base=dict(MOE, norm_topk_prob=True, moe_intermediate_size=32), target_modules=["q_proj"], target_parameters=only)


def one_by_one(name, module, parts):
    """An adapter for transformers 4, in which each expert was a separate module: random matrices, which numpy merges
    into the folder."""

    @trial("adapters", name)
    def _(scratch):
        from transformers import AutoModelForCausalLM

        folder, model = checkpoint(scratch, "qwen3_moe" if "mlp" in module else "mixtral", **MOE, norm_topk_prob=True)
        merged = pathlib.Path(shutil.copytree(folder, pathlib.Path(scratch, "merged")))
        w, t, r = load_file(merged / "model.safetensors"), {}, np.random.default_rng(3)
        for k in sorted(w):
            if ".experts." in k and k.split(".")[-2] in parts:
                a, b = (r.standard_normal(s).astype("f4") * 0.1 for s in ((4, w[k].shape[1]), (w[k].shape[0], 4)))
                w[k] = w[k] + 2 * b @ a
                stem = "base_model.model." + k.removesuffix(".weight").replace(".mlp.", f".{module}.")
                t[stem + ".lora_A.weight"], t[stem + ".lora_B.weight"] = a, b
        save_file(w, merged / "model.safetensors", {"format": "pt"})
        d = pathlib.Path(scratch, "adapter")
        d.mkdir()
        save_file(t, d / "adapter_model.safetensors")
        d.joinpath("adapter_config.json").write_text(json.dumps(dict(peft_type="LORA", r=4, lora_alpha=8, target_modules=parts)))
        return lora(folder, d, AutoModelForCausalLM.from_pretrained(merged).float().eval(), "peft") if t else ("wrong", "no tensors")


one_by_one("experts one by one", "mlp", ["gate_proj", "up_proj", "down_proj"])
one_by_one("experts one by one, down only", "mlp", ["down_proj"])
one_by_one("Mixtral's experts one by one", "block_sparse_moe", ["w1", "w2", "w3"])

# ---- savers ----
case("names with the adapter's own", change=lambda t: {k.replace(".weight", ".default.weight"): v for k, v in t.items()})
case("names without base_model.model.", change=lambda t: {k.removeprefix("base_model.model."): v for k, v in t.items()})
case("torch.compile's wrapper", change=lambda t: {k.replace("base_model.model.", "base_model.model._orig_mod."): v for k, v in t.items()})
case("wrapper before everything", change=lambda t: {"_orig_mod." + k: v for k, v in t.items()})
case("DDP's wrapper", change=lambda t: {"module." + k: v for k, v in t.items()})
case("checkpointed layers", change=lambda t: {k.replace("layers.0.", "layers.0._checkpoint_wrapped_module."): v for k, v in t.items()})
case("a bare model's names", change=lambda t: {k.replace("model.model.", "model."): v for k, v in t.items()})
case("an empty config but for rank and alpha", config=lambda c: {k: c[k] for k in ("peft_type", "r", "lora_alpha")})
case("null patterns", config=lambda c: {**c, "alpha_pattern": None, "rank_pattern": None, "target_modules": None, "modules_to_save": None})
case("unknown settings of a later peft", config=lambda c: {**c, "new_thing": None, "peft_version": "0.30.0.dev0@main"})
case("the rank of the config is not the tensors'", config=lambda c: {**c, "r": 8}, words=("r",))


for dtype in ("float64", "bfloat16", "float16"):

    @trial("adapters", "tensors in " + dtype)
    def _(scratch, dtype=dtype):
        import torch
        from safetensors.torch import load_file as load
        from safetensors.torch import save_file as save

        folder, model = checkpoint(scratch, "llama")
        peft = trained(model)
        for name, p in peft.named_parameters():
            if "lora_" in name:
                p.data = p.data.to(getattr(torch, dtype)).float()
        f = adapter(scratch, peft) / "adapter_model.safetensors"
        save({k: v.to(getattr(torch, dtype)) for k, v in load(f).items()}, f)
        return lora(folder, f.parent, peft, "peft")


def folder_of(name, *words, base={}, model_type="llama"):
    """Registers a trial whose function changes a plain adapter folder (d) of a base (folder)."""

    def add(f):
        @trial("adapters", name)
        def _(scratch):
            folder, model = checkpoint(scratch, model_type, **base)
            peft = trained(model)
            d = adapter(scratch, peft)
            d = f(d, folder) or d
            return lora(folder, d, peft, *words)

    return add


@folder_of("a folder that does not exist", "adapter_config.json")
def _(d, folder):
    return d / "missing"


for old, new in (("model.", "model.language_model."), ("model.", "language_model.model."), ("model.", "model.text_model.")):
    case(f"names of a model with a tower: {new}", change=lambda t, o=old, n=new: {k.replace("base_model.model." + o, "base_model.model." + n): v for k, v in t.items()}, words=("no such weight",))


@trial("adapters", "an adapter of a tower beside the text's")
def tower(scratch):
    folder, model = checkpoint(scratch, "llama")
    peft = trained(model)
    d = adapter(scratch, peft)
    extra = {f"base_model.model.model.vision_tower.layers.0.q_proj.lora_{x}.weight": np.ones(s, "f4") for x, s in (("A", (4, 8)), ("B", (8, 4)))}
    rewrite(d, lambda t: {**t, **extra})
    return lora(folder, d, peft, "vision_tower")


@folder_of("a pickle", "pickle")
def _(d, folder):
    (d / "adapter_model.safetensors").rename(d / "adapter_model.bin")


@folder_of("no config", "adapter_config.json")
def _(d, folder):
    (d / "adapter_config.json").unlink()


@folder_of("no tensors", "adapter_model.safetensors")
def _(d, folder):
    (d / "adapter_model.safetensors").unlink()


@folder_of("the folder above", "adapter")
def _(d, folder):
    up = d.parent / "run"
    shutil.copytree(d, up / "checkpoint-100")
    return up


@folder_of("one of the two matrices missing", "lora_B")
def _(d, folder):
    rewrite(d, lambda t: t.pop(sorted(k for k in t if "lora_B" in k)[0]) is None or None)


@folder_of("an empty file", "no tensors")
def _(d, folder):
    rewrite(d, lambda t: {})


@folder_of("another model's width", "fit")
def _(d, folder):
    rewrite(d, lambda t: {k: np.concatenate([v, v], 1) if "lora_A" in k else v for k, v in t.items()})


@folder_of("more layers than the base has", "layers.7")
def _(d, folder):
    rewrite(d, lambda t: {**t, **{k.replace("layers.1", "layers.7"): v for k, v in t.items()}})


@folder_of("NaN in the adapter", "nan")
def _(d, folder):
    rewrite(d, lambda t: {k: np.where(np.arange(v.size).reshape(v.shape) == 5, np.nan, v).astype("f4") for k, v in t.items()})


@folder_of("Infinity in the adapter", "inf")
def _(d, folder):
    rewrite(d, lambda t: {k: np.where(np.arange(v.size).reshape(v.shape) == 5, np.inf, v).astype("f4") for k, v in t.items()})


@folder_of("NaN in a trained norm", "nan")
def _(d, folder):
    rewrite(d, lambda t: {**t, "base_model.model.model.norm.weight": np.full(64, np.nan, "f4")})


@folder_of("lora_alpha is NaN", "lora_alpha")
def _(d, folder):
    edit(d, "adapter_config.json", lambda c: {**c, "lora_alpha": float("nan")})


@folder_of("lora_alpha is a text", "lora_alpha")
def _(d, folder):
    edit(d, "adapter_config.json", lambda c: {**c, "lora_alpha": "16"})


@folder_of("lora_alpha is null", "lora_alpha")
def _(d, folder):
    edit(d, "adapter_config.json", lambda c: {**c, "lora_alpha": None})


@folder_of("alpha_pattern's value is a text", "alpha_pattern")
def _(d, folder):
    edit(d, "adapter_config.json", lambda c: {**c, "alpha_pattern": {"q_proj": "32"}})


@folder_of("alpha_pattern is no pattern", "alpha_pattern")
def _(d, folder):
    edit(d, "adapter_config.json", lambda c: {**c, "alpha_pattern": {"(q_proj": 32}})


@folder_of("DoRA's tensors without its setting", "dora", "peft")
def _(d, folder):
    rewrite(d, lambda t: {**t, **{k.replace("lora_A.weight", "lora_magnitude_vector"): np.ones(64, "f4") for k in t if "lora_A" in k}})


@folder_of("MLX's adapter", "mlx")
def _(d, folder):
    t = load_file(d / "adapter_model.safetensors")
    (d / "adapter_model.safetensors").unlink()
    out = {k.removeprefix("base_model.model.").replace(".lora_A.weight", ".lora_a").replace(".lora_B.weight", ".lora_b"): np.ascontiguousarray(v.T) for k, v in t.items()}
    save_file(out, d / "adapters.safetensors")
    (d / "adapter_config.json").write_text(json.dumps({"fine_tune_type": "lora", "num_layers": 2, "lora_parameters": {"rank": 4, "scale": 4.0, "dropout": 0.0}, "model": "x"}))


@folder_of("a merged model instead of an adapter", "adapter")
def _(d, folder):
    return folder


@folder_of("a GGUF adapter file", "adapter")
def _(d, folder):
    f = d.parent / "lora.gguf"
    f.write_bytes(b"GGUF" + bytes(100))
    return f


@folder_of("kohya's names", "lora_unet", "another model")
def _(d, folder):
    rewrite(d, lambda t: {"lora_unet_down_blocks_0.lora_down.weight": np.ones((4, 64), "f4")})


@folder_of("a classification head", "score")
def _(d, folder):
    rewrite(d, lambda t: {**t, "base_model.model.score.weight": np.ones((2, 64), "f4")})
    edit(d, "adapter_config.json", lambda c: {**c, "task_type": "SEQ_CLS", "modules_to_save": ["score"]})


@folder_of("a value head of TRL", "v_head")
def _(d, folder):
    rewrite(d, lambda t: {**t, "v_head.summary.weight": np.ones((1, 64), "f4")})


@folder_of("an adapter named twice", "twice")
def _(d, folder):
    rewrite(d, lambda t: {**t, **{k.replace(".weight", ".default.weight"): v for k, v in t.items()}})


@trial("adapters", "lora_alpha is 0")
def alpha_zero(scratch):
    folder, model = checkpoint(scratch, "llama")
    peft = trained(model, lora_alpha=0)
    return lora(folder, adapter(scratch, peft), peft, "lora_alpha")


@folder_of("an adapter of another width that fits by chance", "fit")
def _(d, folder):
    rewrite(d, lambda t: {k: v.T.copy() for k, v in t.items()})


@folder_of("half of ZeRO-3", "lora_A")
def _(d, folder):
    rewrite(d, lambda t: {k: np.zeros((0,), "f4") if "lora_A" in k else v for k, v in t.items()})


@folder_of("ZeRO-3 saved before gathering", "ZeRO-3")
def _(d, folder):
    rewrite(d, lambda t: {k: np.zeros((0,), "f4") for k in t})


def other(name, peft_config, **cfg):
    """Registers an adapter that is not LoRA and must be refused by its name."""

    @trial("adapters", name)
    def _(scratch):
        import peft as p

        folder, model = checkpoint(scratch, "llama")
        c = getattr(p, peft_config)(**({"task_type": "CAUSAL_LM", **cfg}))
        q = p.get_peft_model(model, c)
        d = adapter(scratch, q)
        return convert(folder, "--lora", d).refusal(c.peft_type.value) or ("wrong", "converted")


other("LoHa", "LoHaConfig", target_modules=["q_proj"])
other("LoKr", "LoKrConfig", target_modules=["q_proj"])
other("IA3", "IA3Config", target_modules=["q_proj", "down_proj"], feedforward_modules=["down_proj"])
other("OFT", "OFTConfig", target_modules=["q_proj"], r=0, oft_block_size=4)
other("BOFT", "BOFTConfig", target_modules=["q_proj"], boft_block_size=4)
other("VeRA", "VeraConfig", target_modules=["q_proj"], r=4)
other("AdaLoRA", "AdaLoraConfig", target_modules=["q_proj"], total_step=10)
other("prompt tuning", "PromptTuningConfig", num_virtual_tokens=4)
other("prefix tuning", "PrefixTuningConfig", num_virtual_tokens=4)
other("LN tuning", "LNTuningConfig", target_modules=["input_layernorm"])
other("FourierFT", "FourierFTConfig", target_modules=["q_proj"], n_frequency=16)
other("trainable tokens", "TrainableTokensConfig", token_indices=[1, 2], target_modules=["embed_tokens"])
other("randlora", "RandLoraConfig", target_modules=["q_proj"], r=4)
other("MiSS", "MissConfig", target_modules=["q_proj"], r=4)
