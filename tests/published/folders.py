# SPDX-License-Identifier: MIT
"""Folders: location and names of tensors. Classes: class names whose graph is already supported under a different name."""
import json

import numpy as np
from safetensors.numpy import load_file, save_file

from configs import ARCHES, MOE, lean
from published import checkpoint, convert, edit, same_logits, trial


def tensors_changed(scratch, change, *words, model_type="llama", **config):
    """Converts a checkpoint after `change` has replaced tensors, and compares its logits with those of the saved
    model."""
    d, model = checkpoint(scratch, model_type, **{**ARCHES[model_type], **config})
    f = d / "model.safetensors"
    save_file({k: np.ascontiguousarray(v) for k, v in change(load_file(f)).items()}, f, {"format": "pt"})
    p = convert(d)
    return p.refusal(*words) or same_logits(p.path, model)


def renamed(scratch, rename, *words, **config):
    return tensors_changed(scratch, lambda t: {rename(k): v for k, v in t.items()}, *words or ("prefix",), **config)


@trial("folders")
def as_saved(scratch):
    return renamed(scratch, lambda k: k)


PREFIXES = (
    "_orig_mod.", "module.", "_orig_mod.module.", "module._orig_mod.", "language_model.", "module.language_model.", "_orig_mod.language_model.",
    "model.", "model.language_model.", "base_model.", "base_model.model.", "transformer.", "llm.", "text_model.",
)
for prefix in PREFIXES:
    trial("folders", "prefix " + prefix)(lambda s, p=prefix: renamed(s, lambda k: p + k))
for t in ("qwen3", "gemma2", "mixtral", "lfm2", "glm4_moe"):
    for prefix in ("_orig_mod.", "module._orig_mod.", "language_model."):
        trial("folders", f"{t}, prefix {prefix}")(lambda s, p=prefix, t=t: renamed(s, lambda k: p + k, model_type=t))
trial("folders", "prefix of the body only")(lambda s: renamed(s, lambda k: k if k.startswith("lm_head") else "_orig_mod." + k))
trial("folders", "language_model in the body")(lambda s: renamed(s, lambda k: k.replace("model.", "model.language_model.", 1)))
trial("folders", "bare model")(lambda s: renamed(s, lambda k: k.removeprefix("model."), tie_word_embeddings=True))
trial("folders", "bare model with a head")(lambda s: renamed(s, lambda k: k.removeprefix("model.")))
trial("folders", "bare model, module.")(lambda s: renamed(s, lambda k: "module." + k.removeprefix("model."), tie_word_embeddings=True))
trial("folders", "inverse frequencies beside")(
    lambda s: tensors_changed(s, lambda t: {**t, **{f"model.layers.{i}.self_attn.rotary_emb.inv_freq": np.ones(8, "<f4") for i in (0, 1)}})
)
trial("folders", "an unknown tensor")(lambda s: tensors_changed(s, lambda t: {**t, "model.layers.0.extra.weight": np.ones((8, 8), "<f4")}, "model.layers.0.extra.weight"))
trial("folders", "a layer's tensor twice, by two prefixes")(
    lambda s: tensors_changed(s, lambda t: {**t, "module.model.norm.weight": 2 * t["model.norm.weight"]}, "model.norm.weight")
)


# Tied embeddings: the tensors and the config disagree. Expected logits: those of transformers for the folder.
def tied(scratch, saved, said, change, *words):
    from transformers import AutoModelForCausalLM

    d, model = checkpoint(scratch, "llama", tie_word_embeddings=saved)
    f = d / "model.safetensors"
    save_file(change(load_file(f)), f, {"format": "pt"})
    edit(d, "config.json", lambda c: c.update(tie_word_embeddings=said) if said is not None else c.pop("tie_word_embeddings") and None)
    p = convert(d)
    return p.refusal(*words) or same_logits(p.path, AutoModelForCausalLM.from_pretrained(d).eval())


HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
trial("folders", "said tied, another head present")(lambda s: tied(s, False, True, lambda t: t))
trial("folders", "said tied, the same head present")(lambda s: tied(s, True, True, lambda t: {**t, HEAD: t[EMBEDDING].copy()}))
trial("folders", "said tied, only the head present")(lambda s: tied(s, True, True, lambda t: {(HEAD if k == EMBEDDING else k): v for k, v in t.items()}, EMBEDDING))
trial("folders", "said not tied, the same head present")(lambda s: tied(s, True, False, lambda t: {**t, HEAD: t[EMBEDDING].copy()}))


@trial("folders", "said not tied, no head")
def no_head(scratch):
    """A head is missing, for which transformers draws random weights: the right result is a refusal, or a tied head
    with a warning."""
    d, model = checkpoint(scratch, "llama", tie_word_embeddings=True)
    edit(d, "config.json", lambda c: c.update(tie_word_embeddings=False))
    p = convert(d)
    if p.rc == 0 and "tie_word_embeddings" not in p.err:
        return "wrong", "no warning"
    return p.refusal("head") or same_logits(p.path, model)


def sharded(scratch, change, *words, **config):
    """Converts a folder of several shards after calling change(folder, index)."""
    d, model = checkpoint(scratch, "llama", **config)
    (d / "model.safetensors").unlink()
    model.save_pretrained(d, max_shard_size="60KB")
    index = json.loads((d / "model.safetensors.index.json").read_text())
    change(d, index)
    if index:
        (d / "model.safetensors.index.json").write_text(json.dumps(index))
    p = convert(d)
    return p.refusal(*words) or same_logits(p.path, model)


def shards(d):
    return sorted(d.glob("model-*.safetensors"))


def doubled(src, dst):
    """Writes the tensors of a shard times two to a different file, so that a reader of it would get wrong values."""
    save_file({k: 2 * v for k, v in load_file(src).items()}, dst)


def merge(d, name):
    """Writes all tensors times two to one file."""
    save_file({k: 2 * v for f in shards(d) for k, v in load_file(f).items()}, d / name)


def moved(d, index):
    """Moves a tensor to a different shard and updates the index."""
    first, second = load_file(shards(d)[0]), load_file(shards(d)[1])
    name = sorted(first)[0]
    second[name] = first.pop(name)
    save_file(first, shards(d)[0])
    save_file(second, shards(d)[1])
    index["weight_map"][name] = shards(d)[1].name


def stale(d, index):
    """Writes an outdated copy of a tensor, times two, to a shard that the index does not give for it."""
    first, second = load_file(shards(d)[0]), load_file(shards(d)[1])
    name = sorted(first)[0]
    save_file({**second, name: 2 * first[name]}, shards(d)[1])


def lie(d, index):
    """Makes the index give the wrong shard for a tensor."""
    first = sorted(load_file(shards(d)[0]))[0]
    index["weight_map"][first] = shards(d)[1].name


SHARDED = {
    "sharded": (lambda d, i: None,),
    "sharded, stray shard of another split": (lambda d, i: doubled(shards(d)[0], d / "model-00001-of-00002.safetensors"),),
    "sharded, consolidated.safetensors beside": (lambda d, i: merge(d, "consolidated.safetensors"),),
    "sharded, a stray that sorts first": (lambda d, i: doubled(shards(d)[0], d / "a.safetensors"),),
    "sharded, adapter beside": (lambda d, i: save_file({"x.lora_A.weight": np.ones((2, 2), "<f4")}, d / "adapter_model.safetensors"),),
    "sharded, a tensor moved": (moved,),
    "sharded, a stale copy in another shard": (stale,),
    "sharded, the index lies": (lie, "index"),
    "sharded, without weight_map": (lambda d, i: i.pop("weight_map"), "weight_map"),
    "sharded, without metadata": (lambda d, i: i.pop("metadata"),),
    "sharded, no index": (lambda d, i: ((d / "model.safetensors.index.json").unlink(), i.clear()), "index"),
    "sharded, no index, a shard missing": (lambda d, i: ((d / "model.safetensors.index.json").unlink(), i.clear(), shards(d)[1].unlink()), "shards"),
    "sharded, the first missing": (lambda d, i: shards(d)[0].unlink(), "-00001-of-"),
    "sharded, the last missing": (lambda d, i: shards(d)[-1].unlink(), ".safetensors"),
    "sharded, one empty": (lambda d, i: shards(d)[1].write_bytes(b""), "-00002-of-"),
    "sharded, one cut short": (lambda d, i: shards(d)[1].write_bytes(shards(d)[1].read_bytes()[:-100]), "-00002-of-"),
    "sharded, one a Git LFS pointer": (
        lambda d, i: shards(d)[1].write_text("version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 60000\n"), "-00002-of-", "lfs",
    ),
    "sharded, other names": (
        lambda d, i: [(f.rename(d / f"part {n}.safetensors"), i.update(weight_map={k: (f"part {n}.safetensors" if v == f.name else v) for k, v in i["weight_map"].items()})) for n, f in enumerate(shards(d))],
    ),
    "sharded, an index of a path outside": (lambda d, i: i["weight_map"].update({EMBEDDING: "../x.safetensors"}), "index"),
    "sharded, the index names a tensor no shard has": (lambda d, i: i["weight_map"].update({"model.layers.0.self_attn.q_proj.bias": shards(d)[0].name}), "q_proj.bias"),
}
for n, k in SHARDED.items():
    trial("folders", n)(lambda s, k=k: sharded(s, *k))
trial("folders", "sharded, tied")(lambda s: sharded(s, lambda d, i: None, tie_word_embeddings=True))


def other(scratch, change, *words):
    """Converts a folder after calling change(folder)."""
    d, model = checkpoint(scratch, "llama")
    change(d)
    p = convert(d)
    return p.refusal(*words) or same_logits(p.path, model)


def consolidated(d):
    """Changes a folder to Mistral's own layout: params.json and consolidated.safetensors, no config.json."""
    (d / "config.json").unlink()
    (d / "params.json").write_text(json.dumps(dict(dim=64, n_layers=2, head_dim=16, hidden_dim=96, n_heads=4, n_kv_heads=2, norm_eps=1e-5, vocab_size=323)))
    (d / "model.safetensors").rename(d / "consolidated.safetensors")


def pickled(d):
    import torch

    torch.save({k: torch.from_numpy(v) for k, v in load_file(d / "model.safetensors").items()}, d / "pytorch_model.bin")
    (d / "model.safetensors").unlink()


trial("folders", "params.json")(lambda s: other(s, consolidated, "params.json"))
trial("folders", "params.json beside config.json")(lambda s: other(s, lambda d: (d / "params.json").write_text("{}")))
trial("folders", "pytorch_model.bin only")(lambda s: other(s, pickled, "safetensors"))
trial("folders", "model.fp16.safetensors only")(lambda s: other(s, lambda d: (d / "model.safetensors").rename(d / "model.fp16.safetensors"), "safetensors"))
trial("folders", "a broken stray index")(lambda s: other(s, lambda d: (d / "model.safetensors.index.json").write_text("{"), "index"))
trial("folders", "pytorch_model.bin beside")(lambda s: other(s, lambda d: (d / "pytorch_model.bin").write_bytes(b"x")))
trial("folders", "no config.json")(lambda s: other(s, lambda d: (d / "config.json").unlink(), "config.json"))


def fused(scratch, model_type):
    """Experts fused as in transformers 5's memory."""
    d, model = checkpoint(scratch, model_type, **ARCHES[model_type])
    save_file({k: np.ascontiguousarray(v.numpy()) for k, v in model.state_dict().items()}, d / "model.safetensors", {"format": "pt"})
    p = convert(d)
    return p.refusal("expert") or same_logits(p.path, model)


for t in ("mixtral", "qwen3_moe", "glm4_moe", "deepseek_v3", "gpt_oss", "granitemoehybrid"):
    trial("folders", "fused experts, " + t)(lambda s, t=t: fused(s, t))


def bare(scratch, model_type, tie=True, change=lambda c: None):
    """A folder saved by the class without a head. With tied embeddings it is a complete language model; otherwise its
    head is lost."""
    d, model = checkpoint(scratch, model_type, **{**ARCHES[model_type], "tie_word_embeddings": tie})
    model.model.config.architectures = None
    model.model.save_pretrained(d)
    edit(d, "config.json", change)
    assert tie is False or HEAD not in load_file(d / "model.safetensors")
    p = convert(d)
    return p.refusal("head") or (same_logits(p.path, model) if tie else ("wrong", "a head out of nowhere"))


for t in ("llama", "qwen2", "qwen3", "mistral", "gemma2", "gemma3_text", "phi3", "olmo2", "granite", "smollm3", "lfm2", "mixtral", "starcoder2", "ernie4_5", "cohere2"):
    trial("classes", "bare, " + t)(lambda s, t=t: bare(s, t))
    trial("classes", "bare, not tied, " + t)(lambda s, t=t: bare(s, t, False))
for t in ("llama", "qwen3", "gemma2", "lfm2"):
    trial("classes", "bare, defaults left out, " + t)(lambda s, t=t: bare(s, t, True, lean))


def named(scratch, model_type, names):
    """A checkpoint with an alternative name of its class."""
    d, model = checkpoint(scratch, model_type, **ARCHES[model_type])
    edit(d, "config.json", lambda c: c.update(architectures=names) if names is not None else c.pop("architectures") and None)
    p = convert(d)
    return p.refusal("is not known") or same_logits(p.path, model)


for t, a in (
    ("llama", ["LLaMAForCausalLM"]), ("lfm2", ["LFM2ForCausalLM"]), ("llama", ["IQuestCoderForCausalLM"]), ("llama", None), ("llama", []), ("qwen3", None),
    ("gemma2", None), ("mixtral", None), ("llama", ["LlamaForSequenceClassification"]), ("llama", ["MyLlamaForCausalLM"]), ("llama", [None]),
    ("llama", ["LlamaForCausalLM", "LlamaModel"]),
):
    trial("classes", f"{t} as {a}")(lambda s, t=t, a=a: named(s, t, a))


def unsloth(t):
    """gpt-oss with experts as individual tensors, as saved by Unsloth's training."""
    out = {}
    for k, v in t.items():
        head, _, name = k.partition("experts.")
        if name:
            part, bias = name.removesuffix("_bias"), name.endswith("_bias")
            out |= {f"{head}experts.{part}s.{i}.{'bias' if bias else 'weight'}": x if bias else x.T for i, x in enumerate(v)}
        else:
            out[k.replace("router.", "router.linear.")] = v
    return out


trial("folders", "gpt_oss, experts one by one")(lambda s: tensors_changed(s, unsloth, "expert", model_type="gpt_oss"))


@trial("folders", "MiMo-V2.5's fused attention, without scales")
def mimo(scratch):
    d, _ = checkpoint(scratch, "mimo_v2_flash", head_dim=24, v_head_dim=16, n_routed_experts=4, **MOE)
    edit(d, "config.json", lambda c: c.update(architectures=["MiMoV2ForCausalLM"], model_type="mimo_v2", attention_projection_layout="fused_qkv"))
    f = d / "model.safetensors"
    t = load_file(f)
    for k in [k for k in t if k.endswith(".q_proj.weight")]:
        t[k.replace("q_proj", "qkv_proj")] = np.concatenate([t.pop(k.replace("q_proj", x)) for x in ("q_proj", "k_proj", "v_proj")])
    save_file(t, f, {"format": "pt"})
    return convert(d).refusal("do not tell them apart", "q_proj, k_proj and v_proj") or "wrong"
