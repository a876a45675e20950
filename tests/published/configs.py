# SPDX-License-Identifier: MIT
"""config.json files as published: keys with default values left out, both spellings, null, scaled RoPE, nested text configs.

Expected logits come from transformers reading the same edited folder, or from the saved model if release 5 no longer accepts a
null that release 4 accepted.
"""
from safetensors.numpy import load_file, save_file

from published import checkpoint, convert, edit, same_logits, trial

MOE = dict(moe_intermediate_size=32, num_experts_per_tok=2)
HYBRID = dict(num_hidden_layers=4, layer_types=["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"], sliding_window=8)
# model type -> settings of the small checkpoint in addition to published.SMALL
ARCHES = {
    "llama": {},
    "qwen2": {},
    "qwen3": dict(head_dim=32),
    "gemma2": dict(head_dim=16, query_pre_attn_scalar=16, sliding_window=8),
    "gemma3_text": dict(head_dim=16, query_pre_attn_scalar=16, sliding_window=8),
    "olmo2": {},
    "olmo3": HYBRID,
    "phi3": dict(pad_token_id=0),
    "mistral": dict(sliding_window=8),
    "granite": dict(logits_scaling=3.0, residual_multiplier=0.5, embedding_multiplier=2.0, attention_multiplier=0.3),
    "smollm3": dict(num_hidden_layers=4),
    "exaone4": HYBRID,
    "cohere2": HYBRID,
    "glm4": dict(head_dim=16),
    "glm4_moe": dict(head_dim=16, n_routed_experts=4, n_shared_experts=1, first_k_dense_replace=1, n_group=1, topk_group=1, **MOE),
    "qwen3_moe": dict(head_dim=16, num_experts=4, norm_topk_prob=True, **MOE),
    "mixtral": dict(num_local_experts=4),
    "gpt_oss": dict(head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=8),
    "deepseek_v3": dict(
        n_routed_experts=4, n_group=2, topk_group=1, first_k_dense_replace=1, q_lora_rank=32, kv_lora_rank=32, qk_rope_head_dim=16,
        qk_nope_head_dim=16, v_head_dim=16, num_key_value_heads=4, **MOE
    ),
    "lfm2": dict(layer_types=["conv", "full_attention"], block_multiple_of=32),
    "falcon_h1": dict(head_dim=16, mamba_d_ssm=64, mamba_n_heads=4, mamba_d_head=16, mamba_d_state=16, mamba_n_groups=1, mamba_chunk_size=16),
    "nemotron_h": dict(
        num_hidden_layers=4, layers_block_type=["mamba", "attention", "mamba", "mlp"], head_dim=16, mamba_num_heads=4, mamba_head_dim=16, ssm_state_size=16,
        n_groups=1, chunk_size=16
    ),
    "granitemoehybrid": dict(
        layer_types=["mamba", "attention"], num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=32, mamba_n_heads=8, mamba_d_head=16,
        mamba_d_state=16, mamba_chunk_size=16
    ),
    "hunyuan_v1_dense": dict(head_dim=16),
    "ernie4_5": dict(head_dim=16),
    "seed_oss": dict(head_dim=16),
    "starcoder2": dict(sliding_window=None),
    "stablelm": {},
}


def judged(scratch, model_type, change, *words, n=24, **config):
    """Changes config.json, then compares the logits of hone and transformers for the same folder."""
    from huggingface_hub.errors import StrictDataclassFieldValidationError
    from transformers import AutoModelForCausalLM

    d, model = checkpoint(scratch, model_type, **{**ARCHES[model_type], **config})
    edit(d, "config.json", change)
    p = convert(d)
    if p.rc:
        return p.refusal(*words or ("config.json",))
    try:
        model = AutoModelForCausalLM.from_pretrained(d, dtype="float32").eval()
    except (TypeError, StrictDataclassFieldValidationError):
        pass
    return same_logits(p.path, model, n)


def put(**k):
    """A change that sets keys."""
    return lambda c: c.update(k)


def lean(c):
    """Drops every key whose value is the default of its transformers class, as hand-written configs do."""
    from transformers import AutoConfig

    usual = AutoConfig.for_model(c["model_type"]).to_dict()
    return {k: v for k, v in c.items() if k in ("model_type", "architectures") or k not in usual or usual[k] != v}


def old(c):
    """Writes the rope parameters and the dtype as transformers 4.x does."""
    rope = c.pop("rope_parameters", None) or {}
    c["torch_dtype"] = c.pop("dtype", "float32")
    if "rope_theta" in rope:
        c["rope_theta"] = rope.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        c["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    if rope.get("rope_type", "default") == "default":
        rope = None
    c["rope_scaling"] = rope
    c["transformers_version"] = "4.46.3"


def nested(scratch, model_type, architecture, outer_type, outer, inner=()):
    """A text model inside a multimodal folder: its config is under text_config, without the keys `inner`; the keys
    `outer` are outside it."""
    d, model = checkpoint(scratch, model_type, **{**ARCHES[model_type], "tie_word_embeddings": False})
    f = d / "model.safetensors"
    save_file({"language_model." + k: v for k, v in load_file(f).items()}, f, {"format": "pt"})

    def change(c):
        top = {k: c.pop(k) for k in outer if k in c}
        text = {k: v for k, v in c.items() if k not in inner and k != "architectures"}
        return {"architectures": [architecture], "model_type": outer_type, "text_config": text, "vision_config": {"hidden_size": 32}, **top}

    edit(d, "config.json", change)
    p = convert(d)
    return p.refusal("config.json") or same_logits(p.path, model)


def add(name, model_type, change, *words, **config):
    trial("configs", f"{model_type}: {name}")(lambda s: judged(s, model_type, change, *words, **config))


for t in ARCHES:
    add("as saved", t, lambda c: None)
    add("defaults left out", t, lean)
for t in ARCHES:
    if t not in ("gemma3_text", "olmo3", "nemotron_h", "granitemoehybrid", "gpt_oss"):
        add("rope theta in rope_parameters", t, lambda c: c["rope_parameters"].update(rope_theta=777.0))
        add("4.x spelling, rope theta", t, lambda c: (c["rope_parameters"].update(rope_theta=777.0), old(c))[1])
for t in ("qwen3", "mistral", "ernie4_5", "seed_oss", "glm4", "hunyuan_v1_dense", "llama", "gemma2", "mixtral"):
    add("head_dim null", t, put(head_dim=None))
SCALINGS = {
    "linear": dict(rope_type="linear", factor=4.0),
    "yarn": dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=128),
    "yarn, betas": dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=128, beta_fast=16.0, beta_slow=2.0),
    "yarn, attention factor": dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=128, attention_factor=1.3),
    "llama3": dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64),
    "dynamic": dict(rope_type="dynamic", factor=4.0),
}
for t in ("llama", "qwen3", "olmo2", "mistral", "deepseek_v3", "qwen3_moe"):
    for n, r in SCALINGS.items():
        add(n, t, lambda c, r=r: c["rope_parameters"].update(r), "rop")
for t in ("llama", "qwen2"):
    for n, r in SCALINGS.items():
        spelled = {"type" if k == "rope_type" else k: v for k, v in r.items()}
        add(n + ", 4.x, type", t, lambda c, r=spelled: (old(c), c.update(rope_scaling=r))[0], "rop")
# Release 5 of transformers gives olmo3's rope_theta to the full layers only, release 4 to all layers. So this uses the
# default, which both give to all layers.
add("4.x spelling", "olmo3", old)
add("rope theta per layer type", "olmo3", lambda c: [r.update(rope_theta=777.0) for r in c["rope_parameters"].values()] and None)
add("per layer type, local theta", "gemma3_text", lambda c: c["rope_parameters"]["sliding_attention"].update(rope_theta=555.0))
add("per layer type, global theta and linear", "gemma3_text", lambda c: c["rope_parameters"]["full_attention"].update(rope_theta=777.0, rope_type="linear", factor=8.0))
add(
    "4.x spelling, both thetas", "gemma3_text",
    lambda c: (c.pop("rope_parameters"), c.update(rope_theta=777.0, rope_local_base_freq=555.0, rope_scaling=dict(rope_type="linear", factor=8.0)))[1],
)
add("sliding_window_pattern for layer_types", "gemma3_text", lambda c: (c.pop("layer_types"), c.update(sliding_window_pattern=2))[1], num_hidden_layers=4)
add("layer_types absent", "gemma2", lambda c: c.pop("layer_types") and None)
add("hybrid_override_pattern", "nemotron_h", lambda c: (c.pop("layers_block_type"), c.update(hybrid_override_pattern="M*M-"))[1])
add("Infinity", "nemotron_h", put(time_step_limit=[0.0, float("inf")]))
add("Infinity in an unused key", "llama", put(router_z_loss=float("inf"), note=float("-inf"), other=float("nan")))
for k in ("rope_scaling", "sliding_window", "pad_token_id", "pretraining_tp", "bos_token_id", "attention_bias", "mlp_bias"):
    add(k + " null", "llama", put(**{k: None}))
add("pad_token_id -1", "llama", put(pad_token_id=-1))
add("eos list", "llama", put(eos_token_id=[1, 2]))
add("num_key_value_heads null", "llama", put(num_key_value_heads=None), num_key_value_heads=4)
add("num_key_value_heads absent", "llama", lambda c: c.pop("num_key_value_heads") and None, num_key_value_heads=4)
add("rms_norm_eps absent", "llama", lambda c: c.pop("rms_norm_eps") and None)
add("rms_norm_eps as text", "llama", put(rms_norm_eps="1e-5"))
add("rope_theta an integer", "llama", lambda c: (old(c), c.update(rope_theta=500000))[0])
add("rope theta in both, which disagree", "llama", put(rope_theta=99.0))
add("dtype and torch_dtype, which disagree", "llama", put(torch_dtype="bfloat16"))
add("tie_word_embeddings absent", "gemma2", lambda c: c.pop("tie_word_embeddings", None) and None)
add("partial_rotary_factor in rope_parameters", "stablelm", lambda c: c["rope_parameters"].update(partial_rotary_factor=0.5))
add("partial_rotary_factor on top", "phi3", lambda c: (old(c), c.update(partial_rotary_factor=0.5))[0], partial_rotary_factor=0.5)
add("use_sliding_window", "qwen2", put(use_sliding_window=True, sliding_window=8, max_window_layers=1, layer_types=["full_attention", "sliding_attention"]))
add("use_sliding_window, layer_types absent", "qwen2", lambda c: (c.pop("layer_types"), c.update(use_sliding_window=True, sliding_window=8, max_window_layers=1))[1])
add("sliding_window of a config that does not use it", "qwen2", put(use_sliding_window=False, sliding_window=8))
add("no_rope_layers absent", "smollm3", lambda c: c.pop("no_rope_layers") and None)
add("hidden_size contradicts the tensors", "llama", put(hidden_size=128))
add("a layer too many", "llama", put(num_hidden_layers=3))
add("norm_topk_prob false", "qwen3_moe", lambda c: None, "norm_topk_prob", norm_topk_prob=False)
add("norm_topk_prob absent", "qwen3_moe", lambda c: c.pop("norm_topk_prob") and None, "norm_topk_prob")
for t, a, o in (("mistral", "Mistral3ForConditionalGeneration", "mistral3"), ("gemma3_text", "Gemma3ForConditionalGeneration", "gemma3")):
    for n, k in {
        "text_config": ((), ()),
        "text_config, tie_word_embeddings outside": (("tie_word_embeddings",), ()),
        "text_config, ids outside": (("bos_token_id", "eos_token_id", "pad_token_id"), ()),
        "text_config, vocab_size outside": (("vocab_size",), ()),
        "text_config without type": ((), ("model_type",)),
    }.items():
        trial("configs", f"{t}: {n}")(lambda s, t=t, a=a, o=o, k=k: nested(s, t, a, o, *k))
# Unusual periods of the layers with a window, and unusual rope bases.
for t, period in (("gemma2", 3), ("gemma3_text", 3), ("cohere2", 2), ("cohere2", 4), ("gemma2", 1)):
    types = ["full_attention" if (i + 1) % period == 0 else "sliding_attention" for i in range(6)]
    add(f"layer_types with a period of {period}", t, lambda c: None, num_hidden_layers=6, layer_types=types)
add("layer_types without a period", "gemma2", lambda c: None, "layer_types", num_hidden_layers=6, layer_types=["full_attention"] * 2 + ["sliding_attention"] * 3 + ["full_attention"])
add("every layer with a window", "gemma2", lambda c: None, num_hidden_layers=3, layer_types=["sliding_attention"] * 3)
add("rope theta 4.x", "gemma2", lambda c: (c["rope_parameters"].update(rope_theta=333.0), old(c))[1])


def release4(c):
    """Writes a config as transformers 4.4x does, without keys of release 5."""
    old(c)
    for k in ("layer_types", "dtype"):
        c.pop(k, None)
    c.update(use_cache=True, initializer_range=0.02, attention_dropout=0.0, transformers_version="4.44.2")


for t in ("llama", "qwen2", "qwen3", "gemma2", "phi3", "mistral", "granite", "glm4", "mixtral", "qwen3_moe", "starcoder2", "stablelm", "ernie4_5", "hunyuan_v1_dense", "olmo2"):
    add("as release 4.44 saves it", t, release4)
MORE = {
    "gpt_neox": dict(rotary_pct=0.25, hidden_act="gelu"), "gpt2": dict(n_embd=64, n_layer=2, n_head=4, n_positions=512, n_inner=None), "falcon": dict(new_decoder_architecture=False, parallel_attn=True, alibi=False, multi_query=True),
    "phi": dict(), "olmo": dict(), "olmoe": dict(num_experts=4, num_experts_per_tok=2), "jamba": dict(attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1, num_experts=4, num_experts_per_tok=2, mamba_d_state=8, mamba_dt_rank=8, use_mamba_kernels=False),
    "cohere": dict(), "qwen2_moe": dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=32), "arcee": dict(head_dim=16), "apertus": dict(),
    "dots1": dict(n_routed_experts=4, n_shared_experts=1, first_k_dense_replace=1, n_group=1, topk_group=1, head_dim=16, **MOE), "exaone4": HYBRID, "minimax_m2": dict(num_local_experts=4, num_experts_per_tok=2, head_dim=16),
    "bamba": dict(attn_layer_indices=[1], mamba_n_heads=8, mamba_d_head=16, mamba_d_state=16, mamba_n_groups=1, mamba_chunk_size=16), "ernie4_5_moe": dict(moe_num_experts=4, moe_k=2, moe_intermediate_size=32, moe_layer_start_index=1, moe_num_shared_experts=1),
    "falcon_mamba": dict(state_size=8, time_step_rank=8), "mamba": dict(state_size=8, time_step_rank=8), "granitemoe": dict(num_local_experts=4, num_experts_per_tok=2), "helium": dict(head_dim=16), "persimmon": dict(), "deepseek_v2": dict(
        n_routed_experts=4, n_group=1, topk_group=1, first_k_dense_replace=1, q_lora_rank=None, kv_lora_rank=32, qk_rope_head_dim=16, qk_nope_head_dim=16, v_head_dim=16, head_dim=16, num_key_value_heads=4, **MOE), "bloom": dict(n_layer=2, n_head=4), "mpt": dict(d_model=64, n_layers=2, n_heads=4),
}
ARCHES |= {k: v for k, v in MORE.items() if k not in ARCHES}
for t in MORE:
    add("as saved, further", t, lambda c: None, "is not known")
    add("defaults left out, further", t, lean, "is not known")


@trial("configs", "olmo3: 4.x spelling, another rope theta")
def olmo3_old(scratch):
    """A file of release 4, which applies its single rope_theta to all layers; release 5 applies it only to the layers
    with full attention when it reads the same file."""
    bases = {k: dict(rope_type="default", rope_theta=777.0) for k in ("full_attention", "sliding_attention")}
    d, model = checkpoint(scratch, "olmo3", **ARCHES["olmo3"], rope_parameters=bases)
    edit(d, "config.json", lambda c: (c.pop("rope_parameters"), c.update(rope_theta=777.0, rope_scaling=None, transformers_version="4.57.0"))[1])
    p = convert(d)
    return p.refusal("rope_theta") or same_logits(p.path, model)
