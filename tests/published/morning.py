# SPDX-License-Identifier: MIT
"""Folders as written by tools other than transformers, and unusual combinations of the cases in the other files.

Expected results are those of transformers, peft, tokenizers, tiktoken or Python's own parser for the same files. A folder
that these can use and hone refuses counts as refused; run.py lists it.
"""
import base64
import codecs
import json
import os
import pathlib
import shutil

import numpy as np
from safetensors.numpy import load_file, save_file

from adapters import adapter, apart, case, folder_of, lora, rewrite, trained
from configs import ARCHES, MOE, judged, put
from ends import END, EACH, INVITE, SPECIALS, folder as end_folder, judge, stops
from folders import EMBEDDING, HEAD, doubled, other, sharded, shards, tensors_changed
from published import TRIALS, checkpoint, convert, copy_of, edit, hone, keys, logits, same_logits, tensors, tokenizer, trial
from tokenizers_ import NASTY, added, byte_bpe, char_bpe, folder as tok_folder, judged as tok_judged, like, ranks

ME = "morning"


def mine(name):
    return trial(ME, name)


# ---- ends ---------------------------------------------------------------------------------------------------------------------------
def ended(name, want, warns=None, after=None, never=(), **files):
    """Registers a folder whose end tokens are `want` (texts); warns: a word of the warning that is accepted instead of
    a missing one."""

    @mine("ends: " + name)
    def _(scratch):
        d, t = end_folder(scratch, SPECIALS, **files)
        if after:
            after(d, t)
        p = convert(d)
        v = judge(p, t, set(want.split()), never)
        if v[0] != "right" and warns and p.rc == 0 and warns in p.err:
            return "right", "warned: " + p.err.strip()[-200:]
        return v


def raw(name, value):
    """Sets eos_token_id of a file to JSON text, in which <|a|> is replaced by the token's id."""

    def f(d, t):
        text = value
        for s in SPECIALS:
            text = text.replace(s, str(t.token_to_id(s)))
        c = json.loads((d / name).read_text()) if (d / name).exists() else {}
        c["eos_token_id"] = json.loads(text)
        (d / name).write_text(json.dumps(c))

    return f


for f in ("config.json", "generation_config.json"):
    base = dict(config=..., generation=...) if f == "config.json" else dict(config="<|a|>", generation=...)
    also = "" if f == "config.json" else "<|a|> "
    ended(f"a list in a list, {f}", also + "<|b|> <|c|>", "eos_token_id", raw(f, "[[<|b|>, <|c|>]]"), **base)
    ended(f"a number as text, {f}", also + "<|b|>", "eos_token_id", raw(f, '"<|b|>"'), **base)
    ended(f"numbers as texts, {f}", also + "<|b|> <|c|>", "eos_token_id", raw(f, '["<|b|>", "<|c|>"]'), **base)
    ended(f"2.0, {f}", also + "<|b|>", "eos_token_id", raw(f, "<|b|>.0"), **base)
    ended(f"null in a list, {f}", also + "<|b|>", None, raw(f, "[null, <|b|>]"), **base)
    ended(f"true, {f}", also + "<|b|>", "eos_token_id", raw(f, "true"), **base)
    ended(f"an object, {f}", also + "<|b|>", "eos_token_id", raw(f, '{"content": <|b|>}'), **base)
ended("the token's text for its id", "<|a|> <|b|>", "eos_token_id", lambda d, t: edit(d, "generation_config.json", lambda c: {"eos_token_id": "<|b|>"}), config="<|a|>", generation=...)
ended("eos_token_id in tokenizer_config.json", "<|a|> <|b|>", None, lambda d, t: edit(d, "tokenizer_config.json", lambda c: {**c, "eos_token_id": t.token_to_id("<|b|>")}), config="<|a|>", generation=...)
ended("a list of ids in tokenizer_config.json", "<|a|> <|b|> <|c|>", None, lambda d, t: edit(d, "tokenizer_config.json", lambda c: {**c, "eos_token_id": [t.token_to_id(x) for x in ("<|b|>", "<|c|>")]}), config="<|a|>", generation=...)
ended("eos_token a list", "<|a|> <|b|>", "eos_token", lambda d, t: edit(d, "tokenizer_config.json", lambda c: {**c, "eos_token": ["<|b|>"]}), config="<|a|>", generation=...)
ended("only eos_token", "<|b|>", config=..., generation=..., eos="<|b|>")
ended("stop_strings", "<|a|> <|b|>", "stop_strings", lambda d, t: edit(d, "generation_config.json", lambda c: {"eos_token_id": t.token_to_id("<|a|>"), "stop_strings": ["<|b|>"]}), config="<|a|>", generation=...)


def chat(mark, tool=None):
    own = "{%- if m.tool_calls -%}{{ m.tool_calls | tojson }}" + tool + "{%- else -%}{{ m.content }}" + mark + "{%- endif -%}" if tool else "{{ m.content }}" + mark
    return EACH + "<|im_start|>{{ m.role }}\n" + own + END + INVITE + "<|im_start|>assistant\n{%- endif -%}"


def write(name, text):
    def f(d, t):
        (d / name).parent.mkdir(exist_ok=True)
        (d / name).write_text(text)

    return f


ended("named templates, tool_use with another end", "<|a|> <|b|> <|c|>", None, lambda d, t: edit(d, "tokenizer_config.json", lambda c: {**c, "chat_template": [{"name": "default", "template": chat("<|b|>")}, {"name": "tool_use", "template": chat("<|c|>")}]}), config="<|a|>", generation=...)
ended("additional_chat_templates/tool_use.jinja", "<|a|> <|b|> <|c|>", None, lambda d, t: (write("chat_template.jinja", chat("<|b|>"))(d, t), write("additional_chat_templates/tool_use.jinja", chat("<|c|>"))(d, t)), config="<|a|>", generation=...)
ended("chat_template.jinja against tokenizer_config.json", "<|a|> <|b|>", None, write("chat_template.jinja", chat("<|b|>")), never=["<|c|>"], config="<|a|>", generation=..., template=chat("<|c|>"))
ended("chat_template.jinja with a byte order mark", "<|a|> <|b|>", None, write("chat_template.jinja", "\ufeff" + chat("<|b|>")), config="<|a|>", generation=...)
ended("chat_template.jinja with CRLF", "<|a|> <|b|>", None, write("chat_template.jinja", chat("<|b|>").replace("\n", "\r\n")), config="<|a|>", generation=...)
ended("chat_template.json", "<|a|> <|b|>", None, write("chat_template.json", json.dumps({"chat_template": chat("<|b|>")})), config="<|a|>", generation=...)
ended("an empty chat_template.jinja", "<|a|> <|b|>", "chat_template", write("chat_template.jinja", ""), config="<|a|>", generation=..., template=chat("<|b|>"))
ended("another end for calls", "<|a|> <|b|> <|c|>", None, write("chat_template.jinja", chat("<|b|>", "<|c|>")), config="<|a|>", generation=...)
ended("named templates without a default", "<|a|> <|b|>", "template", lambda d, t: edit(d, "tokenizer_config.json", lambda c: {**c, "chat_template": [{"name": "tool_use", "template": chat("<|b|>")}]}), config="<|a|>", generation=...)

# ---- configs ------------------------------------------------------------------------------------------------------------------------
def text_of(scratch, name, change, *words, model_type="llama", **config):
    """Changes the text of a JSON file of a folder; the logits must stay those of transformers for the unchanged
    folder."""
    d, model = checkpoint(scratch, model_type, **{**ARCHES[model_type], **config})
    f = d / name
    f.write_bytes(change(f.read_bytes()))
    p = convert(d)
    return p.refusal(*words) or same_logits(p.path, model)


for f in ("config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json"):
    trial(ME, f"configs: a byte order mark in {f}")(lambda s, f=f: text_of(s, f, lambda b: codecs.BOM_UTF8 + b, f, "byte order mark"))
    trial(ME, f"configs: UTF-16 in {f}")(lambda s, f=f: text_of(s, f, lambda b: b.decode().encode("utf-16"), f, "utf-16"))
    trial(ME, f"configs: CRLF in {f}")(lambda s, f=f: text_of(s, f, lambda b: b.replace(b"\n", b"\r\n"), f))
    trial(ME, f"configs: white space after {f}")(lambda s, f=f: text_of(s, f, lambda b: b + b"\n\n  \t\n", f))
trial(ME, "configs: a key twice, the later counts")(lambda s: text_of(s, "config.json", lambda b: b.replace(b"{", b'{"rms_norm_eps": 0.5, "num_hidden_layers": 7,', 1)))


def cfg(name, model_type, change, *words, **config):
    trial(ME, f"configs: {model_type}: {name}")(lambda s: judged(s, model_type, change, *words, **config))


cfg("rope_scaling linear beside rope_parameters", "llama", put(rope_scaling=dict(type="linear", factor=4.0)), "rope")
cfg("rope_scaling default beside rope_parameters linear", "llama", lambda c: (c["rope_parameters"].update(rope_type="linear", factor=4.0), c.update(rope_scaling=dict(rope_type="default")))[0], "rope")
cfg("rope_scaling null beside rope_parameters yarn", "llama", lambda c: (c["rope_parameters"].update(rope_type="yarn", factor=4.0, original_max_position_embeddings=128), c.update(rope_scaling=None))[0], "rope")
cfg("rope_scaling empty", "llama", put(rope_scaling={}), "rope")
cfg("type default", "llama", lambda c: (c.pop("rope_parameters"), c.update(rope_theta=777.0, rope_scaling=dict(type="default")))[1], "rope")
cfg("type and rope_type, which disagree", "llama", lambda c: (c.pop("rope_parameters"), c.update(rope_theta=777.0, rope_scaling=dict(type="linear", rope_type="default", factor=4.0)))[1], "rope")
cfg("factor an integer", "llama", lambda c: (c.pop("rope_parameters"), c.update(rope_theta=777, rope_scaling=dict(type="linear", factor=4)))[1], "rope")
cfg("factor as text", "llama", lambda c: (c.pop("rope_parameters"), c.update(rope_theta=777, rope_scaling=dict(type="linear", factor="4.0")))[1], "factor")
cfg("rope_scaling a text", "llama", lambda c: (c.pop("rope_parameters"), c.update(rope_scaling="none"))[1], "rope_scaling")
cfg("layer_types longer, gemma2", "gemma2", lambda c: c["layer_types"].extend(["sliding_attention"]), "layer_types")
cfg("layer_types shorter", "gemma2", lambda c: c["layer_types"].pop() and None, "layer_types")
cfg("torch_dtype torch.bfloat16", "llama", put(torch_dtype="torch.bfloat16"))
cfg("dtype auto", "llama", put(dtype="auto"))
cfg("dtype null", "llama", put(dtype=None, torch_dtype=None))
for k, v in dict(num_hidden_layers=2.0, hidden_size=64.0, num_attention_heads=4.0, vocab_size=323.0, max_position_embeddings=512.0, num_key_value_heads=2.0, head_dim=16.0).items():
    cfg(f"{k} as {v}", "llama", put(**{k: v}), k)
cfg("head_dim 0", "llama", put(head_dim=0), "head_dim")
cfg("max_position_embeddings null", "llama", put(max_position_embeddings=None), "max_position_embeddings")
cfg("max_position_embeddings absent", "llama", lambda c: c.pop("max_position_embeddings") and None)
cfg("max_position_embeddings 1e15", "llama", put(max_position_embeddings=10**15), "max_position_embeddings")
cfg("vocab_size null", "llama", put(vocab_size=None), "vocab_size")
cfg("hidden_act null", "llama", put(hidden_act=None), "hidden_act")
cfg("auto_map", "llama", put(auto_map={"AutoModelForCausalLM": "modeling_x.XForCausalLM"}))
cfg("num_experts null in a dense model", "qwen3", put(num_experts=None, num_experts_per_tok=None))
cfg("n_routed_experts null", "glm4_moe", put(n_routed_experts=None), "expert")
cfg("head_dim absent, not hidden_size / heads", "qwen3", lambda c: c.pop("head_dim") and None, "head_dim")
for m in ({"quant_method": None}, {}, None, {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, {"quant_method": "gptq", "bits": 4, "group_size": 32}, {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"}, {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}, {"quant_method": "mxfp4"}, {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {}, "quantization_status": "compressed"}, {"quant_method": "torchao"}):

    @mine(f"configs: quantization_config {(m or {}).get('quant_method', m)} over plain weights")
    def _(scratch, m=m):  # a merged or dequantized model whose config still has the section
        d, model = checkpoint(scratch, "llama")
        edit(d, "config.json", put(quantization_config=m))
        p = convert(d)
        return p.refusal("quant") or same_logits(p.path, model)


def release4(name, change, **rope):
    """A config that release 4 reads and release 5 refuses: the logits must be those of the saved model."""

    @mine("configs: " + name)
    def _(scratch):
        d, model = checkpoint(scratch, "llama", **({"rope_parameters": rope} if rope else {}))
        edit(d, "config.json", change)
        p = convert(d)
        return p.refusal("config.json") or same_logits(p.path, model)


release4("rope_type null, type linear", lambda c: (c.pop("rope_parameters"), c.update(rope_theta=777.0, rope_scaling=dict(rope_type=None, type="linear", factor=4.0)))[1], rope_type="linear", factor=4.0, rope_theta=777.0)
release4("layer_types longer than the layers", put(layer_types=["full_attention"] * 5))
release4("model_type in capitals", put(model_type="Llama"))
release4("rope_theta as text", lambda c: (c.pop("rope_parameters"), c.update(rope_theta="777.0"))[1], rope_type="default", rope_theta=777.0)

# MTP: counts in the config, with and without the block in the file. transformers drops the block.
MTP = {
    "glm4_moe": ("num_nextn_predict_layers", {}),
    "deepseek_v3": ("num_nextn_predict_layers", {}),
    "qwen3_next": ("mtp_num_hidden_layers", dict(num_hidden_layers=2, layer_types=["linear_attention", "full_attention"], head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16, shared_expert_intermediate_size=48, num_experts=4, norm_topk_prob=True, **MOE)),
}
for t, (k, more) in MTP.items():
    for v in (0, None, 1, 3, "absent"):
        ARCHES.setdefault(t, more)
        cfg(f"{k} {v}, no block", t, (lambda c, k=k: {x: y for x, y in c.items() if x != k}) if v == "absent" else put(**{k: v}))


def with_block(scratch, count):
    """GLM-4.5 with an MTP block made of the last layer's tensors: the trunk's logits must stay those of
    transformers."""
    d, model = checkpoint(scratch, "glm4_moe", **ARCHES["glm4_moe"])
    f = d / "model.safetensors"
    t = load_file(f)
    last = {k.replace("layers.1.", "layers.2."): v for k, v in t.items() if ".layers.1." in k}
    extra = {f"model.layers.2.{k}.weight": v for k, v in dict(enorm=np.ones(64, "f4"), hnorm=np.ones(64, "f4"), eh_proj=np.ones((64, 128), "f4"), **{"embed_tokens": t[EMBEDDING], "shared_head.head": t[HEAD], "shared_head.norm": np.ones(64, "f4")}).items()}
    save_file({**t, **last, **extra}, f, {"format": "pt"})
    edit(d, "config.json", (lambda c: {x: y for x, y in c.items() if x != "num_nextn_predict_layers"}) if count == "absent" else put(num_nextn_predict_layers=count))
    p = convert(d)
    return p.refusal("nextn") or same_logits(p.path, model)


for n in (0, None, 1, 2, "absent"):
    trial(ME, f"configs: glm4_moe: num_nextn_predict_layers {n} with the block")(lambda s, n=n: with_block(s, n))


# ---- folders ------------------------------------------------------------------------------------------------------------------------
def some(scratch, rename, *words, model_type="llama", **config):
    """Renames tensors in one shard only and updates the index."""

    def change(d, index):
        f = shards(d)[0]
        t = load_file(f)
        save_file({rename(k): v for k, v in t.items()}, f, {"format": "pt"})
        index["weight_map"] = {rename(k) if v == f.name else k: v for k, v in index["weight_map"].items()}

    return sharded(scratch, change, *words, **config)


for p in ("_orig_mod.", "module.", "language_model.", "model.", "base_model.model."):
    trial(ME, f"folders: {p} in one shard only")(lambda s, p=p: some(s, lambda k: p + k, "prefix"))
trial(ME, "folders: model. missing in one shard only")(lambda s: some(s, lambda k: k.removeprefix("model."), "prefix"))
for p in ("model.model.", "model.model.model.", "language_model.language_model.", "model.language_model.model.", "base_model.model.model.model.", "decoder.", "model.decoder.", "lm.", "llm.model."):
    trial(ME, f"folders: {p} for model.")(lambda s, p=p: tensors_changed(s, lambda t: {(p + k.removeprefix("model.") if k.startswith("model.") else k): v for k, v in t.items()}, "prefix"))
trial(ME, "folders: a prefix of the head only")(lambda s: tensors_changed(s, lambda t: {("model." + k if k == HEAD else k): v for k, v in t.items()}, "head"))
trial(ME, "folders: the head as output.weight")(lambda s: tensors_changed(s, lambda t: {("output.weight" if k == HEAD else k): v for k, v in t.items()}, "output.weight"))
trial(ME, "folders: the head as model.lm_head")(lambda s: tensors_changed(s, lambda t: {("model.language_model.lm_head.weight" if k == HEAD else k): v for k, v in t.items()}, "head"))


def linked(d):
    """Changes a folder to the layout of the Hub's cache, in which every file is a link to a blob."""
    blobs = d.parent / "blobs"
    blobs.mkdir()
    for i, f in enumerate(sorted(d.iterdir())):
        f.rename(blobs / str(i))
        f.symlink_to(os.path.join("..", "blobs", str(i)))


def dangling(d):
    linked(d)
    os.remove(d.parent / "blobs" / str(sorted(x.name for x in d.iterdir()).index("model.safetensors")))


trial(ME, "folders: every file a link")(lambda s: other(s, linked))
trial(ME, "folders: a link to a file that is gone")(lambda s: other(s, dangling, "model.safetensors"))
trial(ME, "folders: shards as links")(lambda s: sharded(s, lambda d, i: [(f.rename(d.parent / f.name), f.symlink_to(d.parent / f.name)) for f in shards(d)]))
trial(ME, "folders: the link of one shard dangles")(lambda s: sharded(s, lambda d, i: (shards(d)[1].unlink(), shards(d)[0].with_name("model-00002-of-" + shards(d)[0].name[-17:]).symlink_to("nowhere")), "-00002-of-"))


def whole_beside(d, index):
    """A merged model saved over an old one, of which transformers reads model.safetensors without looking for an
    index."""
    save_file({k: v for f in shards(d) for k, v in load_file(f).items()}, d / "model.safetensors", {"format": "pt"})
    for f in shards(d):
        doubled(f, f)


trial(ME, "folders: a whole model beside older shards and their index")(lambda s: sharded(s, whole_beside, "model.safetensors", "index"))


def beside(scratch, name, change, *words):
    def f(d):
        (d / name).parent.mkdir(exist_ok=True, parents=True)
        change(d, d / name)

    return other(scratch, f, *words)


for n in ("._model.safetensors", "model (1).safetensors", "model.safetensors.tmp", "model.safetensors.incomplete", "original/model.safetensors", ".cache/huggingface/download/model.safetensors.metadata", "optimizer.safetensors", "model.safetensors.bak", "model-old.safetensors", "model.fp16.safetensors", "modeling.safetensors", "MODEL.SAFETENSORS"):
    trial(ME, f"folders: {n} beside")(lambda s, n=n: beside(s, n, lambda d, f: doubled(d / "model.safetensors", f), n))
trial(ME, "folders: ._model.safetensors of macOS beside")(lambda s: beside(s, "._model.safetensors", lambda d, f: f.write_bytes(b"\0\x05\x16\x07\0\2\0\0Mac OS X        ")))
trial(ME, "folders: ._model-00001-of-00002.safetensors of macOS beside shards without an index")(
    lambda s: sharded(s, lambda d, i: ((d / "model.safetensors.index.json").unlink(), i.clear(), [(d / ("._" + f.name)).write_bytes(b"\0\x05\x16\x07\0\2\0\0Mac OS X        ") for f in shards(d)]))
)
trial(ME, "folders: a folder named model-x.safetensors beside")(lambda s: beside(s, "model-x.safetensors/a", lambda d, f: f.write_text("")))
for n, k in {"in bytes after the header's end": lambda b: b + b"\0" * 64}.items():
    trial(ME, f"folders: model.safetensors with 64 bytes more")(lambda s, k=k: other(s, lambda d: (d / "model.safetensors").write_bytes(k((d / "model.safetensors").read_bytes())), "model.safetensors"))


def named(scratch, path, *words):
    """Gives a path that is not the folder on the command line: hone must either use it or refuse it and say which path
    to give."""
    d, model = checkpoint(scratch, "llama")
    where = path(d)
    out = pathlib.Path(scratch, "out.gguf")
    p = hone("convert", where, "-o", out, "-f")
    return p.refusal(*words) or same_logits(out, model)


def cache(d):
    """Changes a folder to that of a repository in the Hub's cache."""
    root = d.parent / "models--a--b"
    (root / "snapshots").mkdir(parents=True)
    (root / "refs").mkdir()
    (root / "refs/main").write_text("0" * 40)
    shutil.move(str(d), root / "snapshots" / ("0" * 40))
    return root


trial(ME, "folders: config.json is named")(lambda s: named(s, lambda d: d / "config.json", "folder"))
trial(ME, "folders: model.safetensors is named")(lambda s: named(s, lambda d: d / "model.safetensors", "folder"))
trial(ME, "folders: the Hub's cache folder is named")(lambda s: named(s, cache, "snapshots"))
trial(ME, "folders: the folder above is named")(lambda s: named(s, lambda d: d.parent, "config.json"))
trial(ME, "folders: a link to the folder is named")(lambda s: named(s, lambda d: (d.parent / "link").symlink_to(d) or d.parent / "link"))
trial(ME, "folders: a folder with a slash at its end is named")(lambda s: named(s, lambda d: str(d) + "/"))
trial(ME, "folders: a folder with blanks and umlauts is named")(lambda s: named(s, lambda d: d.rename(d.parent / "mein Modell ü (1)")))


def cast(t, name, dtype):
    import torch

    return torch.from_numpy(t[name]).to(dtype)


def head_cast(scratch, tie, exact, dtype="bfloat16"):
    """A head that equals the embeddings but has a different dtype."""
    import torch
    from safetensors.torch import save_file as save

    d, model = checkpoint(scratch, "llama", tie_word_embeddings=True)
    t = {k: torch.from_numpy(v) for k, v in load_file(d / "model.safetensors").items()}
    head = t[EMBEDDING].to(getattr(torch, dtype))
    if exact:
        t[EMBEDDING] = head.float()
        model.get_input_embeddings().weight.data = t[EMBEDDING].clone()
        model.tie_weights()
    save({**t, HEAD: head}, d / "model.safetensors", {"format": "pt"})
    edit(d, "config.json", put(tie_word_embeddings=tie))
    from transformers import AutoModelForCausalLM

    p = convert(d)
    return p.refusal("head") or same_logits(p.path, AutoModelForCausalLM.from_pretrained(d, dtype="float32").eval())


for tie in (True, False):
    for exact in (True, False):
        for t in ("bfloat16", "float16", "float64"):
            trial(ME, f"folders: tied {tie}, the head in {t}, {'equal' if exact else 'rounded'}")(lambda s, tie=tie, exact=exact, t=t: head_cast(s, tie, exact, t))


def fused_some(scratch, model_type, layers):
    """Experts fused in some layers and as individual tensors in the others."""
    d, model = checkpoint(scratch, model_type, **{**ARCHES[model_type], "num_hidden_layers": 3})
    one, whole = load_file(d / "model.safetensors"), {k: np.ascontiguousarray(v.numpy()) for k, v in model.state_dict().items()}
    of = lambda k: any(f"layers.{i}." in k for i in layers)
    save_file({**{k: v for k, v in one.items() if not (of(k) and ".experts." in k)}, **{k: v for k, v in whole.items() if of(k) and ".experts." in k}}, d / "model.safetensors", {"format": "pt"})
    p = convert(d)
    return p.refusal("expert") or same_logits(p.path, model)


for t in ("mixtral", "qwen3_moe", "deepseek_v3"):
    for layers in ((1,), (2,), (1, 2)):
        trial(ME, f"folders: {t}, experts of layers {layers} fused")(lambda s, t=t, l=layers: fused_some(s, t, l))


def half_fused(t):
    """gate_up_proj fused, down_proj as individual tensors."""
    out = {k: v for k, v in t.items() if ".experts." not in k or "down_proj" in k}
    for k in [k for k in t if ".experts.0.gate_proj" in k]:
        stem = k.split("experts.0.")[0]
        out[stem + "experts.gate_up_proj"] = np.stack([np.concatenate([t[f"{stem}experts.{x}.{p}_proj.weight"] for p in ("gate", "up")]) for x in range(4)])
    return out


trial(ME, "folders: qwen3_moe, gate_up fused, down one by one")(lambda s: tensors_changed(s, half_fused, "expert", model_type="qwen3_moe"))


def stacked(t):
    """Experts as one tensor each for gate, up and down, as in MLX's switch_mlp."""
    out = {k: v for k, v in t.items() if ".experts." not in k}
    for k in [k for k in t if ".experts.0." in k]:
        stem, leaf = k.split("experts.0.")
        out[f"{stem}switch_mlp.{leaf}"] = np.stack([t[f"{stem}experts.{x}.{leaf}"] for x in range(4)])
    return out


trial(ME, "folders: qwen3_moe, MLX's switch_mlp")(lambda s: tensors_changed(s, stacked, "missing", model_type="qwen3_moe"))
trial(ME, "folders: qwen3_moe, an expert missing")(lambda s: tensors_changed(s, lambda t: {k: v for k, v in t.items() if ".experts.2." not in k}, "experts.2", model_type="qwen3_moe"))
trial(ME, "folders: qwen3_moe, an expert too many")(lambda s: tensors_changed(s, lambda t: {**t, **{k.replace("experts.3", "experts.4"): v for k, v in t.items() if ".experts.3." in k}}, "expert", model_type="qwen3_moe"))
trial(ME, "folders: MLX's convolutions [C, K, 1]")(lambda s: tensors_changed(s, lambda t: {k: v.swapaxes(1, 2) if v.ndim == 3 else v for k, v in t.items()}, "conv", model_type="lfm2"))


def mlx_quantized(scratch):
    d, _ = checkpoint(scratch, "llama")
    f = d / "model.safetensors"
    out = {}
    for k, v in load_file(f).items():
        if v.ndim == 2:
            stem = k.removesuffix("weight")
            out |= {k: np.zeros((v.shape[0], v.shape[1] // 8), "u4"), stem + "scales": np.ones((v.shape[0], v.shape[1] // 32), "f2"), stem + "biases": np.ones((v.shape[0], v.shape[1] // 32), "f2")}
        else:
            out[k] = v
    save_file(out, f, {"format": "mlx"})
    edit(d, "config.json", put(quantization={"group_size": 32, "bits": 4}, quantization_config={"group_size": 32, "bits": 4}))
    return convert(d).refusal("mlx") or "wrong"


trial(ME, "folders: an MLX quantization")(mlx_quantized)
trial(ME, "folders: format mlx, plain weights")(lambda s: other(s, lambda d: save_file(load_file(d / "model.safetensors"), d / "model.safetensors", {"format": "mlx"})))
trial(ME, "folders: no metadata in the shard")(lambda s: other(s, lambda d: save_file(load_file(d / "model.safetensors"), d / "model.safetensors")))
BUFFERS = {
    "model.rotary_emb.inv_freq": np.ones(8, "f4"), "model.rotary_emb.original_inv_freq": np.ones(8, "f4"), "rotary_emb.inv_freq": np.ones(8, "f4"),
    "model.embed_positions": np.arange(512), "model.layers.0.self_attn.rotary_emb.cos_cached": np.ones((512, 16), "f4"), "model.layers.0.self_attn.rotary_emb.sin_cached": np.ones((512, 16), "f4"),
    "model.layers.0.self_attn.k_scale": np.ones((), "f4"), "model.layers.0.self_attn.v_scale": np.ones((), "f4"), "model.layers.0.self_attn.k_proj.k_scale": np.ones((1,), "f4"),
    "model.layers.0.self_attn.attn.k_scale": np.ones((1,), "f4"), "model.layers.0.mlp.up_proj.input_scale": np.ones((1,), "f4"), "model.layers.0.self_attn.q_scale": np.ones((1,), "f4"),
    "model.layers.0.self_attn.q_proj.bias": np.zeros(64, "f4"), "lm_head.bias": np.zeros(323, "f4"), "model.norm.bias": np.zeros(64, "f4"), "model.layers.0.self_attn.masked_bias": np.array(-1e4, "f4"), "model.layers.0.self_attn.bias": np.ones((1, 1, 8, 8), bool),
    "model.causal_mask": np.ones((8, 8), bool), "model.position_ids": np.arange(512)[None], "model.layers.0.self_attn.q_proj.weight_format": np.array([1], "u1"),
}
for k, v in BUFFERS.items():
    trial(ME, f"folders: a buffer {k}")(lambda s, k=k, v=v: tensors_changed(s, lambda t: {**t, k: v}, k))
for k, v in {"model.layers.0.self_attn.q_proj.bias": np.ones(64, "f4"), "lm_head.bias": np.ones(323, "f4")}.items():
    trial(ME, f"folders: {k} that the class has not, not zero")(lambda s, k=k, v=v: tensors_changed(s, lambda t: {**t, k: v}, k))
trial(ME, "folders: vocab_size larger than the table")(lambda s: judged(s, "llama", put(vocab_size=400), "config.json asks for"))
trial(ME, "folders: vocab_size smaller than the table")(lambda s: judged(s, "llama", put(vocab_size=300), "config.json asks for"))
for a in (["FSDPLlamaForCausalLM"], ["PeftModelForCausalLM"], ["UnslothLlamaForCausalLM"], ["transformers.LlamaForCausalLM"], "LlamaForCausalLM", ["LlamaForCausalLMWithValueHead"], ["LlavaLlamaForCausalLM"], ["TFLlamaForCausalLM"], ["OptimizedModule"], ["DistributedDataParallel"], ["LlamaLMHeadModel"], ["llamaforcausallm"], [""], [7], {}):

    @mine(f"classes: llama as {a}")
    def _(scratch, a=a):
        d, model = checkpoint(scratch, "llama")
        edit(d, "config.json", put(architectures=a))
        p = convert(d)
        return p.refusal("is not known") or same_logits(p.path, model)


for t, a in (("qwen2", "FSDPQwen2ForCausalLM"), ("qwen3", "FSDPQwen3ForCausalLM"), ("gemma2", "FSDPGemma2ForCausalLM"), ("mixtral", "FSDPMixtralForCausalLM"), ("qwen3_moe", "FSDPQwen3MoeForCausalLM")):

    @mine(f"classes: {a}")
    def _(scratch, t=t, a=a):
        d, model = checkpoint(scratch, t, **ARCHES[t])
        edit(d, "config.json", put(architectures=[a]))
        p = convert(d)
        return p.refusal("architectures") or same_logits(p.path, model)


# ---- tokenizers ---------------------------------------------------------------------------------------------------------------------
OVER = [
    ["ab", "abc", "bcd"], ["<a", "<a>", "<a>b"], ["<|x", "<|x|>", "|>"], ["  ", "    ", "\t\t"], ["\n\n", "\n", "\r\n"], [" the", "the", "the quick"],
    ["жа", "жажа", "и\u0306"], ["<tag>", "<tag><tag>", "tag"], ["Hello", "HelloWorld", "World"], ["東京", "東", "京都"], ["12", "123", "1"],
]
LOOK = NASTY + ["abcd ab abc bcd xabcde", "<a <a> <a>b <a>bc", "<|x <|x|> |> <|x|>|>", "a    b  c\t\t\td", "x\n\n\ny\r\n\r\nz", "the quick the the quick  the", "жажажа и\u0306 й", "<tag><tag><tag>", "HelloWorld Hello World", "1234123121"]
for words in OVER:
    for make in (byte_bpe, lambda: char_bpe("meta", "first")):
        for flags in (dict(normalized=False), dict(normalized=True), dict(normalized=False, lstrip=True), dict(normalized=False, rstrip=True), dict(normalized=True, single_word=True)):
            what = f"tokenizers: overlapping {words}, {'bytes' if make is byte_bpe else 'characters'}, {flags}"

            def over(s, words=words, make=make, flags=flags):
                t = make()
                t.add_tokens(added(*words, **flags))
                return like(t, s, LOOK)

            mine(what)(over)


def mixed(s):
    """Special, plain, normalized and raw tokens that overlap."""
    t = byte_bpe(norm="NFC")
    t.add_tokens(added("abc", normalized=True) + added("ab", normalized=False, lstrip=True) + added("ж", normalized=False))
    t.add_special_tokens(added("abcd", "<|x|>", normalized=False, rstrip=True))
    return like(t, s, LOOK)


mine("tokenizers: overlapping tokens of all kinds")(mixed)


def disagree(name, decoder, old):
    """added_tokens.json and added_tokens_decoder disagree; AutoTokenizer gives the expected result."""

    @mine("tokenizers: " + name)
    def _(s):
        from transformers import AutoTokenizer

        t = byte_bpe()
        n = t.get_vocab_size()
        entry = lambda x: dict(content=x, special=False, lstrip=False, rstrip=False, normalized=False, single_word=False)
        d = tok_folder(s, t, n=n + 8, config=dict(tokenizer_class="PreTrainedTokenizerFast", added_tokens_decoder={str(n + i): entry(x) for i, x in decoder.items()}), added_tokens__json={x: n + i for x, i in old.items()})
        hf = AutoTokenizer.from_pretrained(d)
        return tok_judged(d, lambda x: hf.encode(x, add_special_tokens=False), lambda i: hf.decode(i, skip_special_tokens=False, clean_up_tokenization_spaces=False))


disagree("added_tokens.json and added_tokens_decoder agree", {0: "<tag>", 1: "<ls>"}, {"<tag>": 0, "<ls>": 1})
disagree("added_tokens.json has them the other way round", {0: "<tag>", 1: "<ls>"}, {"<tag>": 1, "<ls>": 0})
disagree("added_tokens.json has another for the id", {0: "<tag>"}, {"<ls>": 0})


def tik(name, lines, **more):
    @mine("tokenizers: tiktoken, " + name)
    def _(s):
        import tiktoken

        from tokenizers_ import KIMI

        n = len(ranks())
        names = ["[BOS]", "[EOS]"] + [f"<|reserved_token_{n + i}|>" for i in range(2, 256)]
        enc = tiktoken.Encoding("own", pat_str=KIMI, mergeable_ranks=ranks(), special_tokens={x: n + i for i, x in enumerate(names)})
        entry = {str(n + i): {"content": x, "special": True} for i, x in enumerate(names[:2])}
        d = tok_folder(s, n=n + 256, config=dict(tokenizer_class="TikTokenTokenizer", bos_token="[BOS]", eos_token="[EOS]", added_tokens_decoder=entry))
        (d / "tiktoken.model").write_bytes(lines([(base64.b64encode(k), b"%d" % v) for k, v in ranks().items()]))
        return tok_judged(d, lambda t: enc.encode(t, allowed_special="all"), enc.decode)


joined = lambda l, end=b"\n": b"".join(a + b" " + r + end for a, r in l)
tik("CRLF", lambda l: joined(l, b"\r\n"))
tik("unsorted ranks", lambda l: joined(l[::-1]))
tik("no line at the end", lambda l: joined(l)[:-1])
tik("blank lines", lambda l: joined(l, b"\n\n"))
tik("a byte order mark", lambda l: codecs.BOM_UTF8 + joined(l))
tik("tabs", lambda l: b"".join(a + b"\t" + r + b"\n" for a, r in l))
tik("blanks at ends", lambda l: joined(l, b" \n"))


def written(name, change, make=byte_bpe, **files):
    """tokenizer.json with a different text that means the same to the library."""

    @mine("tokenizers: " + name)
    def _(s):
        t = make()
        d = tok_folder(s, t, **files)
        f = d / "tokenizer.json"
        f.write_text(change(json.loads(f.read_text())))
        from tokenizers import Tokenizer

        t = Tokenizer.from_file(str(f))
        t.no_truncation()
        return tok_judged(d, lambda x: t.encode(x, add_special_tokens=False).ids, lambda i: t.decode(i, skip_special_tokens=False))


def unordered(j):
    j["model"]["vocab"] = dict(sorted(j["model"]["vocab"].items(), key=lambda x: -x[1]))
    return json.dumps(j)


written("vocabulary and added tokens out of order", unordered)
written("escapes for everything", lambda j: json.dumps(j, ensure_ascii=True))
written("one line", lambda j: json.dumps(j, ensure_ascii=False, separators=(",", ":")))
written("truncation and padding", lambda j: json.dumps({**j, "truncation": dict(direction="Right", max_length=4, strategy="LongestFirst", stride=0), "padding": None}))


def nul(s):
    """A vocabulary of characters that contains NUL, like one trained on binary text."""
    from tokenizers import Tokenizer

    j = json.loads(char_bpe("meta", "first").to_str())
    j["model"]["vocab"]["\0"] = len(j["model"]["vocab"]) + 8
    t = Tokenizer.from_str(json.dumps(j))
    return like(t, s, [x for x in NASTY if "\0" not in x], n=max(t.get_vocab().values()) + 1)


mine("tokenizers: a piece that is NUL")(nul)


def old_files(name, change, **config):
    @mine("tokenizers: vocab.json and merges.txt, " + name)
    def _(s):
        from transformers import AutoTokenizer

        t = byte_bpe()
        m = json.loads(t.to_str())["model"]
        lines = [x if isinstance(x, str) else " ".join(x) for x in m["merges"]]
        d = tok_folder(s, None, n=t.get_vocab_size(), config=dict(tokenizer_class="Qwen2Tokenizer", eos_token="<|endoftext|>", additional_special_tokens=["<|sp|>"], **config), vocab__json=m["vocab"], added_tokens__json={x: t.token_to_id(x) for x in ("<|sp|>", "<|endoftext|>")})
        (d / "merges.txt").write_bytes(change(["#version: 0.2"] + lines))
        hf = AutoTokenizer.from_pretrained(d)
        return tok_judged(d, lambda x: hf.encode(x, add_special_tokens=False), lambda i: hf.decode(i, skip_special_tokens=False, clean_up_tokenization_spaces=False))


old_files("as saved", lambda l: ("\n".join(l) + "\n").encode())
old_files("CRLF", lambda l: ("\r\n".join(l) + "\r\n").encode())
old_files("no version line", lambda l: ("\n".join(l[1:]) + "\n").encode())
old_files("no line at the end", lambda l: "\n".join(l).encode())


# ---- adapters -----------------------------------------------------------------------------------------------------------------------
def ad(name, model_type="llama", **k):
    n = len(TRIALS)
    case(name, model_type, **k)
    TRIALS[n] = (ME, "adapters: " + name, TRIALS[n][2])


LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ad("rank_pattern with ^", target_modules=LINEAR, rank_pattern={r"^model.layers.0.self_attn.q_proj": 9, r"^.*down_proj$": 2})
ad("rank_pattern and alpha_pattern with ^", target_modules=LINEAR, rank_pattern={r"^model\.layers\.1\..*": 7}, alpha_pattern={r"^model\.layers\.1\..*": 3})
ad("alpha_pattern whose first key wins", target_modules=LINEAR, alpha_pattern={"a.q_proj": 7, "q_proj": 3, "self_attn.q_proj": 9})  # sorted, as peft saves them
ad("lora_only biases, all layers", base=dict(attention_bias=True, mlp_bias=True), bias="lora_only", target_modules=LINEAR)
ad("lora_only biases where the base has none", bias="lora_only", target_modules=LINEAR)
ad("fan_in_fan_out of a linear layer", fan_in_fan_out=True)
ad("null flags", config=lambda c: {**c, "use_rslora": None, "use_dora": None, "lora_bias": None, "bias": None, "fan_in_fan_out": None, "peft_version": None, "layer_replication": None})
ad("modules_to_save of a projection", modules_to_save=["o_proj"], target_modules=["q_proj"])
ad("save_embedding_layers", base=dict(tie_word_embeddings=False), target_modules=["q_proj"], how=dict(save_embedding_layers=True))
ad("save_embedding_layers, tied", base=dict(tie_word_embeddings=True), target_modules=["q_proj"], how=dict(save_embedding_layers=True))
for v in ("0.11.1", "0.17.1", "0.18.0", "0.19.0", "0.19.1", "", None, "main", 7):
    ad(f"peft_version {v!r}, plain layers", config=lambda c, v=v: {**c, "peft_version": v}, target_modules=LINEAR)
AD = {
    "deepseek_v3": {}, "granitemoehybrid": {}, "gpt_oss": {}, "cohere2": {}, "olmo3": {}, "hunyuan_v1_dense": {}, "ernie4_5": {}, "qwen3_next": {},
    "qwen3_5_text": dict(num_hidden_layers=2, layer_types=["linear_attention", "full_attention"], head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16),
    "bamba": {}, "phi": {}, "falcon": {}, "deepseek_v2": {}, "apertus": {}, "arcee": {},
}
for t, more in AD.items():
    ad(f"every linear layer of {t}", t, base={**ARCHES.get(t, {}), **more}, target_modules="all-linear")
# Without the layers of Mamba that peft refuses, and without dt_proj, whose adapter transformers bypasses.
for t, names in {"falcon_h1": ["in_proj", "q_proj", "gate_proj"], "nemotron_h": ["in_proj", "q_proj", "up_proj"], "jamba": ["in_proj", "x_proj", "out_proj", "q_proj"], "falcon_mamba": ["in_proj"]}.items():
    ad(f"layers of {t}", t, base=ARCHES[t], target_modules=names)
for t in ("gemma2", "gemma3_text", "qwen3_5_text", "qwen3_next", "nemotron_h", "falcon_h1", "lfm2"):
    norms = {"gemma2": ["norm", "pre_feedforward_layernorm"], "lfm2": ["operator_norm", "ffn_norm", "embedding_norm"], "nemotron_h": ["norm"], "falcon_h1": ["input_layernorm", "pre_ff_layernorm"]}.get(t, ["input_layernorm", "norm"])
    ad(f"trained norms of {t}", t, base={**ARCHES.get(t, {}), **AD.get(t, {})}, target_modules=["q_proj"], modules_to_save=norms)
ad("modules_to_save of a convolution's projection", "lfm2", base=ARCHES["lfm2"], target_modules=["q_proj"], modules_to_save=["in_proj"])


def bom(d, folder):
    f = d / "adapter_config.json"
    f.write_bytes(codecs.BOM_UTF8 + f.read_bytes())


def in_folder(name, *words, **k):
    def add(f):
        n = len(TRIALS)
        folder_of(name, *words, **k)(f)
        TRIALS[n] = (ME, "adapters: " + name, TRIALS[n][2])

    return add


in_folder("a byte order mark", "byte order mark")(bom)
in_folder("every file a link")(lambda d, folder: linked(d))
in_folder("the base's own files beside")(lambda d, folder: [shutil.copy(folder / n, d) for n in ("tokenizer.json", "tokenizer_config.json", "config.json")] and None)
in_folder("the base in the adapter's folder, model.safetensors")(lambda d, folder: [shutil.copy(f, d) for f in folder.iterdir()] and None)
in_folder("the file is named instead of the folder", "folder")(lambda d, folder: d / "adapter_model.safetensors")


@mine("adapters: base in language_model., adapter of the text model")
def base_nested(scratch):
    folder, model = checkpoint(scratch, "llama")
    peft = trained(model)
    d = adapter(scratch, peft)
    f = folder / "model.safetensors"
    save_file({"language_model." + k: v for k, v in load_file(f).items()}, f, {"format": "pt"})
    return lora(folder, d, peft, "no such weight")


@mine("adapters: bare base without model.")
def base_bare(scratch):
    folder, model = checkpoint(scratch, "llama", tie_word_embeddings=True)
    peft = trained(model)
    d = adapter(scratch, peft)
    f = folder / "model.safetensors"
    save_file({k.removeprefix("model."): v for k, v in load_file(f).items()}, f, {"format": "pt"})
    return lora(folder, d, peft, "no such weight")


@mine("adapters: with --pad")
def padded(scratch):
    folder, model = checkpoint(scratch, "llama")
    peft = trained(model, target_modules=LINEAR)
    p = convert(folder, "--lora", adapter(scratch, peft), "--pad")
    return p.refusal("pad") or same_logits(p.path, peft)


@mine("adapters: two of them")
def two(scratch):
    folder, model = checkpoint(scratch, "llama")
    d = adapter(scratch, trained(model))
    p = convert(folder, "--lora", d, "--lora", d)
    return p.refusal("--lora", "twice") or ("wrong", "one of the two was dropped: " + p.err[-200:])


# ---- numbers ------------------------------------------------------------------------------------------------------------------------
def bad_row(scratch, change, *words, model_type="llama", **config):
    """`change` writes NaN into weights: the conversion must warn of the tensor or refuse it, with its name."""
    d, _ = checkpoint(scratch, model_type, **{**ARCHES[model_type], **config})
    f = d / "model.safetensors"
    t = load_file(f)
    change(t)
    save_file(t, f, {"format": "pt"})
    p = convert(d)
    if p.rc == 0:
        return ("right" if all(w in p.err for w in words) else "wrong"), p.err.strip()[-300:]
    return p.refusal(*words)


def nans(part, at=slice(0, 2), value=np.nan):
    def f(t):
        for k in [k for k in t if part in k]:
            t[k][at] = value

    return f


for v in (np.nan, np.inf):
    for q in ("f32", "f16", "bf16", "q8_0"):

        @mine(f"numbers: {v} in an expert, convert --type {q}")
        def _(scratch, v=v, q=q):
            d, _ = checkpoint(scratch, "qwen3_moe", **ARCHES["qwen3_moe"])
            f = d / "model.safetensors"
            t = load_file(f)
            nans("layers.1.mlp.experts.3.up_proj", slice(0, 1), v)(t)
            save_file(t, f, {"format": "pt"})
            p = convert(d, "--type", q)
            words = ("blk.1.ffn_up_exps",)
            if p.rc == 0:
                return ("right" if all(w in p.err for w in words) else "wrong"), p.err.strip()[-300:]
            return p.refusal(*words)


trial(ME, "numbers: NaN in a padded row of the embeddings")(lambda s: bad_row(s, nans("embed_tokens", slice(323, 330)), "token_embd", vocab_size=330))
trial(ME, "numbers: NaN in a buffer that is left out")(lambda s: bad_row(s, lambda t: t.update({"model.layers.0.self_attn.rotary_emb.inv_freq": np.full(8, np.nan, "f4")})))
trial(ME, "numbers: every norm NaN")(lambda s: bad_row(s, nans("layernorm"), "attn_norm"))


@mine("numbers: NaN in rope_freqs")
def rope_freqs(scratch):
    from nonfinite import poison, text

    d, model = checkpoint(scratch, "llama")
    edit(d, "config.json", lambda c: c["rope_parameters"].update(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64))
    p = convert(d)
    if p.rc:
        return "wrong", p.err
    poison(p.path, "rope_freqs.weight", np.nan, 1)
    return hone("eval", "ppl", p.path, text(scratch), "--ctx", "64", "--chunks", "2").refusal("rope_freqs") or "wrong"


# ---- adapters over quantized bases ----
def fp8_base(scratch, scales, **cfg):
    """A base in FP8, written by torch; the adapter is added to the decoded weights."""
    import torch
    from safetensors.torch import load_file as load
    from safetensors.torch import save_file as save

    d, model = checkpoint(scratch, "llama", **{"tie_word_embeddings": False})
    out = {}
    with torch.no_grad():
        for k, v in load(d / "model.safetensors").items():
            if not k.endswith("_proj.weight"):
                out[k] = v
                continue
            s = (v.abs().amax(1, keepdim=True) if scales == "rows" else v.abs().max().reshape(())) / 448
            out[k] = (v / s).to(torch.float8_e4m3fn)
            out[k.replace(".weight", ".weight_scale")] = s
            model.get_parameter(k).copy_(out[k].float() * s)
    save(out, d / "model.safetensors", {"format": "pt"})
    edit(d, "config.json", put(quantization_config={"quant_method": "fp8", "activation_scheme": "dynamic"}))
    peft = trained(model, **cfg)
    return lora(d, adapter(scratch, peft), peft, "peft", bound=2e-2)  # the output of a quantized base is BF16


for scales in ("tensor", "rows"):
    trial(ME, f"adapters: a base in FP8, scales per {scales}")(lambda s, x=scales: fp8_base(s, x, target_modules=LINEAR))


def mxfp4_base(scratch, **cfg):
    """gpt-oss as published, with experts in MXFP4 blocks, and an adapter; experts that it changes are no longer
    MXFP4."""
    import torch

    d, model = checkpoint(scratch, "gpt_oss", **{**ARCHES["gpt_oss"], "num_hidden_layers": 2})
    t = load_file(d / "model.safetensors")
    value = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], "f4")
    value = np.concatenate([value, -value])
    rng, out = np.random.default_rng(5), {}
    for k, v in t.items():
        if not k.endswith(("gate_up_proj", "down_proj")):
            out[k] = v
            continue
        x, cols, rows = v.shape  # [experts][inputs][outputs]; blocks lie along the inputs
        q = rng.integers(0, 256, (x, rows, cols // 32, 16), "u1")
        s = rng.integers(119, 122, (x, rows, cols // 32), "u1")
        out[k + "_blocks"], out[k + "_scales"] = q, s
        w = np.stack([value[q & 15], value[q >> 4]], -1).reshape(x, rows, cols // 32, 32) * np.exp2(s.astype("f4") - 127)[..., None]
        model.get_parameter(k).data = torch.from_numpy(np.ascontiguousarray(w.reshape(x, rows, cols).swapaxes(1, 2)))
    save_file(out, d / "model.safetensors", {"format": "pt"})
    edit(d, "config.json", put(quantization_config={"quant_method": "mxfp4"}))
    peft = trained(model, **cfg)
    return lora(d, adapter(scratch, peft), peft, "peft", bound=2e-2)


for n, k in {"attention": dict(target_modules=["q_proj", "o_proj"]), "experts": dict(target_modules=[], target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]), "one matrix of the experts": dict(target_modules=["q_proj"], target_parameters=["mlp.experts.down_proj"])}.items():
    trial(ME, "adapters: gpt-oss in MXFP4, " + n)(lambda s, k=k: mxfp4_base(s, **k))


# ---- the same folder written in two ways ----
def resharded(scratch, change):
    return sharded(scratch, change)


mine("folders: an index with null metadata")(lambda s: resharded(s, lambda d, i: i.update(metadata=None)))
mine("folders: an index with a wrong total")(lambda s: resharded(s, lambda d, i: i["metadata"].update(total_size=7)))
mine("folders: an index with a byte order mark")(lambda s: sharded(s, lambda d, i: ((d / "model.safetensors.index.json").write_bytes(codecs.BOM_UTF8 + json.dumps(i).encode()), i.clear())))
mine("folders: an index of one file")(lambda s: other(s, lambda d: (d / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": {k: "model.safetensors" for k in load_file(d / "model.safetensors")}}))))
mine("folders: an index that names a tensor twice")(lambda s: other(s, lambda d: (d / "model.safetensors.index.json").write_text('{"weight_map": {' + ", ".join(f'"{k}": "model.safetensors"' for k in [*load_file(d / "model.safetensors"), HEAD]) + "}}")))


@mine("folders: a merged model of the same values next to shards and their index")
def same_beside(scratch):
    return sharded(scratch, lambda d, i: save_file({k: v for f in shards(d) for k, v in load_file(f).items()}, d / "model.safetensors", {"format": "pt"}))


# ---- tokenizers once more ----
def entries(name, value):
    @mine("tokenizers: added_tokens_decoder " + name)
    def _(s):
        t = byte_bpe()
        n = t.get_vocab_size()
        d = tok_folder(s, t, n=n + 4, config=dict(tokenizer_class="PreTrainedTokenizerFast", added_tokens_decoder=value(n)))
        t.add_tokens(added("<tag>", normalized=False))
        p = convert(d)
        if p.rc:
            return p.refusal("added_tokens_decoder")
        return tok_judged(d, lambda x: t.encode(x, add_special_tokens=False).ids, lambda i: t.decode(i, skip_special_tokens=False))


entries("with texts for objects", lambda n: {str(n): "<tag>"})
entries("with blanks around the id", lambda n: {f" {n} ": {"content": "<tag>"}})
entries("with the flags left out", lambda n: {str(n): {"content": "<tag>"}})
entries("with null flags", lambda n: {str(n): dict(content="<tag>", lstrip=None, rstrip=None, normalized=None, single_word=None, special=None)})
entries("as a list", lambda n: [{"id": n, "content": "<tag>"}])
for k, v in {"tokenizer.json": "[]", "tokenizer_config.json": "[]", "generation_config.json": "[]", "added_tokens.json": "[]", "special_tokens_map.json": "[]"}.items():

    @mine(f"tokenizers: {k} is a list")
    def _(s, k=k, v=v):
        t = byte_bpe()
        d = tok_folder(s, t, config={})
        (d / k).write_text(v)
        if k == "tokenizer.json":
            return convert(d).refusal("tokenizer.json", "model") or "wrong"
        return tok_judged(d, lambda x: t.encode(x, add_special_tokens=False).ids, lambda i: t.decode(i, skip_special_tokens=False))
