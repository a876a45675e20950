# SPDX-License-Identifier: MIT
"""usage: prove.py CASES OUT : renders the cases with the engines that are installed, compares with what hone wrote."""
import datetime
import json
import os
import re
import struct
import sys
import urllib.error
import urllib.request


def dump(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def refuse(message):
    raise ValueError(message)


def clock(form):
    return datetime.datetime.fromtimestamp(data["now"], datetime.timezone.utc).strftime(form)


def transformers_engine(text):
    import transformers
    from transformers.utils.chat_template_utils import _compile_jinja_template

    return "transformers " + transformers.__version__, _compile_jinja_template(text).render


def jinja2_engine(text):
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.filters["tojson"] = dump
    env.globals["raise_exception"] = refuse
    return "jinja2 " + jinja2.__version__, env.from_string(text).render


def minijinja_engine(text):
    from importlib.metadata import version

    import minijinja

    env = minijinja.Environment(trim_blocks=True, lstrip_blocks=True, templates={"chat": text})
    env.add_filter("tojson", dump)
    env.add_function("raise_exception", refuse)
    return "minijinja " + version("minijinja"), lambda **v: env.render_template("chat", **v)


class NotRendered(Exception):
    """The server changed or refused the messages before the template saw them."""


def tiny_model(path):
    """Writes a GGUF file that llama.cpp loads: one layer of zeros, with a vocabulary of bytes."""

    def text(s):
        return struct.pack("<Q", len(s.encode())) + s.encode()

    def key(name, kind, value):
        return text(name) + struct.pack("<I", kind) + value

    def array(kind, values):
        form = {5: "<i", 6: "<f"}.get(kind)
        return struct.pack("<IQ", kind, len(values)) + b"".join(struct.pack(form, x) if form else text(x) for x in values)

    tokens = [data["tokens"][x + "_token"] for x in ("unk", "bos", "eos", "pad")] + ["<0x%02X>" % i for i in range(256)] + ["\u2581"]
    sizes = {"block_count": 1, "context_length": 256, "embedding_length": 32, "feed_forward_length": 32, "attention.head_count": 1}
    keys = [key("general.architecture", 8, text("llama")), key("tokenizer.ggml.model", 8, text("llama"))]
    keys += [key("llama." + k, 4, struct.pack("<I", v)) for k, v in sizes.items()]
    keys += [key("llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-5))]
    keys += [key("tokenizer.ggml.%s_token_id" % x, 4, struct.pack("<I", i))
             for i, x in enumerate(("unknown", "bos", "eos", "padding"))]
    keys += [key("tokenizer.ggml.tokens", 9, array(8, tokens)), key("tokenizer.ggml.scores", 9, array(6, [0.0] * len(tokens))),
             key("tokenizer.ggml.token_type", 9, array(5, [2, 3, 3, 3] + [6] * 256 + [1]))]
    tensors = [("token_embd", [32, len(tokens)]), ("output_norm", [32]), ("blk.0.attn_norm", [32]), ("blk.0.ffn_norm", [32])]
    tensors += [("blk.0." + x, [32, 32]) for x in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")]
    infos, at = b"", 0
    for name, dims in tensors:
        infos += text(name + ".weight") + struct.pack("<I%dQIQ" % len(dims), len(dims), *dims, 0, at)
        at += 4 * dims[0] * (dims[1] if len(dims) > 1 else 1)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys) + infos
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32 + at))


def llama_engine(text):
    """llama.cpp's server with the template. It takes arguments as JSON text, and continues a last answer."""
    from importlib.metadata import version

    import xllamacpp

    text = re.sub(r"strftime_now\((['\"])(.*?)\1\)", lambda m: json.dumps(clock(m.group(2))), text)
    path = sys.argv[2] + ".gguf"
    tiny_model(path)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # its log
    p = xllamacpp.CommonParams()
    p.model.path, p.chat_template, p.use_jinja, p.warmup, p.n_ctx, p.n_parallel = path, text, True, False, 256, 1
    try:
        server = xllamacpp.Server(p)
    finally:
        os.remove(path)
    own = {"messages", "tools", "add_generation_prompt", "documents", "strftime_now", "want", *data["tokens"]}

    def render(**v):
        messages = json.loads(json.dumps(v["messages"]))
        if messages[-1]["role"] == "assistant":
            raise NotRendered
        for call in (c.get("function", c) for m in messages for c in m.get("tool_calls") or []):
            if not isinstance(call.get("arguments", ""), str):
                call["arguments"] = json.dumps(call["arguments"], ensure_ascii=False)
        body = {"messages": messages, "add_generation_prompt": v["add_generation_prompt"],
                "chat_template_kwargs": {k: x for k, x in v.items() if k not in own}}
        if v["tools"]:
            body["tools"] = v["tools"]
        request = urllib.request.Request(server.listening_address + "/apply-template", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request) as r:
                prompt = json.load(r)["prompt"]
        except urllib.error.HTTPError as e:
            message = json.load(e)["error"]["message"]
            ours = "JSON schema" not in message and ("template" in message or "jinja" in message.lower())
            raise (ValueError if ours else NotRendered)(message)
        bos = data["tokens"]["bos_token"]  # left to the tokenizer
        return bos + prompt if v["want"].startswith(bos) and not prompt.startswith(bos) else prompt

    return "llama.cpp of xllamacpp " + version("xllamacpp"), render


data = json.load(open(sys.argv[1], encoding="utf-8"))
engines = []
for name, make in (("transformers", transformers_engine), ("jinja2", jinja2_engine), ("minijinja", minijinja_engine),
                   ("llama.cpp", llama_engine)):
    row = {"engine": name, "version": None, "compiles": False, "equal": 0, "differs": 0, "fails": 0, "first": None}
    try:
        row["version"], render = make(data["template"])
        row["compiles"] = True
    except ImportError:
        row["first"] = "not installed"
    except Exception as e:
        row["first"] = "does not compile: %s" % e
    for case in data["cases"] if row["compiles"] else []:
        if case["want"] is None:
            continue
        conv, what = case["conversation"], "equal"
        try:
            want = {"want": case["want"]} if name == "llama.cpp" else {}
            got = render(**want, **{**data["tokens"], "messages": conv["messages"], "tools": conv.get("tools"), "documents": None, "strftime_now": clock,
                            "add_generation_prompt": conv.get("add_generation_prompt", False), **conv.get("kwargs", {})})
            if got != case["want"]:
                what = "differs"
        except NotRendered:
            continue
        except Exception as e:
            what, got = "fails", str(e)
        row[what] += 1
        if what != "equal" and not row["first"]:
            row["first"] = "%s %s: %s" % (case["id"], what, got[-200:])
    engines.append(row)
json.dump({"engines": engines}, open(sys.argv[2], "w", encoding="utf-8"))
