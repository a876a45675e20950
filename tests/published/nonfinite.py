# SPDX-License-Identifier: MIT
"""Degenerate numbers: NaN, infinity and zeros in weights, metadata, importance, settings and requests."""
import json
import pathlib
import shutil
import socket
import struct
import subprocess
import time
import urllib.error
import urllib.request

import numpy as np
from safetensors.numpy import load_file, save_file

from published import HONE, checkpoint, convert, edit, hone, logits, same_logits, tensors, trial

WIDE = dict(hidden_size=256, intermediate_size=256, vocab_size=320, num_attention_heads=4, num_key_value_heads=2, head_dim=64)
CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
UP = "blk.1.ffn_up.weight"
NAN, INF = float("nan"), float("inf")


def text(scratch, n=400):
    f = pathlib.Path(scratch, "text.txt")
    f.write_text(" ".join(f"the quick brown fox {i} jumps over the lazy dog" for i in range(n)))
    return f


def model(scratch, kind="llama", to=None, **config):
    """A GGUF of a random model, quantized to the type `to` if given."""
    folder, _ = checkpoint(scratch, kind, template=CHATML, **{**WIDE, **config})
    p = convert(folder, "--type", "f32")
    if p.rc:
        raise RuntimeError(p.err)
    if to:
        q = pathlib.Path(scratch, "q.gguf")
        r = hone("quantize", p.path, "-o", q, "--type", to, "-f")
        if r.rc:
            raise RuntimeError(r.err)
        return q
    return p.path


def poison(path, name, value, at=300, count=1, dtype="<f4"):
    """Writes `value` as `dtype` into a tensor's data, from element `at` on."""
    import gguf

    t = next(t for t in gguf.GGUFReader(path).tensors if t.name == name)
    with open(path, "r+b") as f:
        f.seek(t.data_offset + at * np.dtype(dtype).itemsize)
        f.write(np.full(count, value, dtype).tobytes())
    return path


def set_key(path, key, value):
    """Overwrites a float in the metadata."""
    import gguf

    f = gguf.GGUFReader(path).fields[key]
    raw = bytearray(pathlib.Path(path).read_bytes())
    at = f.offset + sum(p.nbytes for p in f.parts[:-1])
    raw[at : at + 4] = struct.pack("<f", value)
    pathlib.Path(path).write_bytes(raw)
    return path


def clean(p, *words):
    """The verdict on a command that must fail and print no NaN as a result."""
    return p.refusal(*words) or ("wrong", f"exit status 0: {p.out.strip()[:150]} {p.err.strip()[-150:]}")


def ask(path, *requests, args=()):
    """Starts hone serve and posts bodies (texts). Returns [(status, text)], or the server's refusal as an Outcome if it
    does not start."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    p = subprocess.Popen([HONE, "serve", str(path), "--port", str(port), "--ctx", "512", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out = []
    try:
        for _ in range(100):
            if p.poll() is not None:
                break
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).read()
                break
            except OSError:
                time.sleep(0.05)
        if p.poll() is not None:
            from published import Outcome

            o, e = p.communicate()
            return Outcome(subprocess.CompletedProcess([], p.returncode, o, e))
        for where, body in requests:
            r = urllib.request.Request(f"http://127.0.0.1:{port}{where}", body.encode(), {"Content-Type": "application/json"})
            try:
                with urllib.request.urlopen(r, timeout=30) as f:
                    out.append((f.status, f.read().decode()))
            except urllib.error.HTTPError as e:
                out.append((e.code, e.read().decode()))
        if p.poll() is not None:
            out.append((-1, "the server ended"))
    finally:
        p.terminate()
        p.wait(20)
    return out


# ---- a NaN among the weights, with every command ----
COMMANDS = {
    "eval ppl": lambda m, t: ("eval", "ppl", m, t, "--ctx", "64", "--chunks", "2"),
    "eval ppl in JSON": lambda m, t: ("eval", "ppl", m, t, "--ctx", "64", "--chunks", "2", "--json"),
    "eval ppl, q8 activations": lambda m, t: ("eval", "ppl", m, t, "--ctx", "64", "--chunks", "2", "--act", "q8"),
    "eval kld, itself the base": lambda m, t: ("eval", "kld", m, t, "--base", m, "--ctx", "64", "--chunks", "2"),
    "eval kld --save-base": lambda m, t: ("eval", "kld", m, t, "--save-base", str(m) + ".kld", "--ctx", "64", "--chunks", "2"),
    "eval tools": lambda m, t: ("eval", "tools", m, "--cases", "2", "--max-tokens", "8", "--format", "qwen-xml"),
    "eval needle": lambda m, t: ("eval", "needle", m, t, "--ctx", "256"),
    "eval suite": lambda m, t: ("eval", "suite", m, "-o", str(m) + ".json"),
    "run": lambda m, t: ("run", m, "hello", "-n", "8"),
    "run -p at temperature 0": lambda m, t: ("run", m, "-p", "hello", "-n", "8", "--temp", "0"),
    "imatrix": lambda m, t: ("imatrix", m, t, "-o", str(m) + ".im", "--ctx", "64", "--chunks", "2"),
    "quantize": lambda m, t: ("quantize", m, "-o", str(m) + ".q", "--type", "Q4_K"),
    "quantize to Q8_0": lambda m, t: ("quantize", m, "-o", str(m) + ".q", "--type", "Q8_0"),
    "quantize to F16": lambda m, t: ("quantize", m, "-o", str(m) + ".q", "--type", "F16"),
    "quantize to BF16": lambda m, t: ("quantize", m, "-o", str(m) + ".q", "--type", "BF16"),
    "sensitivity": lambda m, t: ("sensitivity", m, "--probe", t, "-o", str(m) + ".s.json", "--ctx", "64", "--chunks", "2"),
    "make": lambda m, t: ("make", m, "-o", str(m) + ".made", "--plain", "--recipes", "Q8_0", "--calib", t, "--eval", t, "--chunks", "2", "--ctx", "64", "--tools-cases", "2"),
    "verify --deep": lambda m, t: ("verify", m, "--deep"),
}
for name, command in COMMANDS.items():

    @trial("numbers", "NaN weight: " + name)
    def _(scratch, command=command):
        m = poison(model(scratch), UP, NAN)
        return clean(hone(*command(m, text(scratch))), UP)


@trial("numbers", "NaN weight: serve")
def serve_nan(scratch):
    p = ask(poison(model(scratch), UP, NAN), ("/v1/completions", '{"prompt": "a", "max_tokens": 4}'))
    if not isinstance(p, list):
        return clean(p, UP)
    return ("refused" if p[0][0] >= 400 and UP in p[0][1] else "wrong"), str(p)[:200]


@trial("numbers", "NaN weight: make of a folder")
def make_folder(scratch):
    folder, _ = checkpoint(scratch, "llama", template=CHATML, **WIDE)
    f = folder / "model.safetensors"
    w = load_file(f)
    w["model.layers.1.mlp.up_proj.weight"][3, 4] = np.nan
    save_file(w, f, {"format": "pt"})
    t = text(scratch)
    p = hone("make", folder, "-o", str(folder) + ".made", "--plain", "--recipes", "Q8_0", "--calib", t, "--eval", t, "--chunks", "2", "--ctx", "64", "--tools-cases", "2")
    return clean(p, UP)


@trial("numbers", "NaN candidate, whole base: eval kld")
def kld_candidate(scratch):
    m = model(scratch)
    bad = poison(shutil.copy(m, str(m) + ".bad.gguf"), UP, NAN)
    return clean(hone("eval", "kld", bad, text(scratch), "--base", m, "--ctx", "64", "--chunks", "2"), UP)


@trial("numbers", "NaN weights: sensitivity without a probe")
def sensitivity_errors(scratch):  # reads a sample of the rows
    m = poison(model(scratch), UP, NAN, 0, 256 * 256)
    return clean(hone("sensitivity", m, "-o", str(m) + ".s.json"), UP)


# ---- kinds of bad weights ----
def weight(name, tensor, value, to=None, kind="llama", at=300, count=1, dtype="<f4", config={}, words=(None,), command="eval ppl"):
    @trial("numbers", name)
    def _(scratch):
        m = poison(model(scratch, kind, to, **config), tensor, value, at, count, dtype)
        return clean(hone(*COMMANDS[command](m, text(scratch))), *(w or tensor for w in words))


weight("infinite weight", UP, INF)
weight("minus infinite weight", UP, -INF)
weight("NaN in a norm", "blk.0.attn_norm.weight", NAN, at=3)
weight("infinity in the last norm", "output_norm.weight", INF, at=3)
weight("NaN in the head", "output.weight", NAN)
weight("NaN in the embeddings", "token_embd.weight", NAN, at=0, count=320 * 256)
weight("NaN in the row of a rare token", "token_embd.weight", NAN, at=319 * 256, count=3)
weight("NaN in a bias", "blk.0.attn_q.bias", NAN, kind="qwen2", at=3)
weight("NaN with a payload", UP, 0x7F800001, dtype="<u4")
weight("negative NaN", UP, 0xFFC00000, dtype="<u4")
weight("NaN in F16", UP, 0x7E00, to="F16", dtype="<u2")
weight("infinity in F16", UP, 0x7C00, to="F16", dtype="<u2")
weight("NaN in BF16", UP, 0x7FC0, to="BF16", dtype="<u2")
weight("infinity in BF16", UP, 0xFF80, to="BF16", dtype="<u2")
for t, size in {"Q8_0": 34, "Q4_0": 18, "Q5_0": 22, "Q4_K": 144, "IQ4_NL": 18}.items():
    weight(f"NaN scale of {t}", UP, 0x7E00, to=t, dtype="<u2", at=size * 3 // 2)
    weight(f"infinite scale of {t}", UP, 0x7C00, to=t, dtype="<u2", at=size * 3 // 2)
for t, at in {"Q6_K": 210 // 2 * 4 - 1, "Q3_K": 110 // 2 * 4 - 1, "Q2_K": 84 // 2 * 4 - 1, "IQ4_XS": 136 // 2 * 3}.items():
    weight(f"NaN scale of {t}", UP, 0x7E00, to=t, dtype="<u2", at=at)
weight("NaN minimum of Q4_K", UP, 0x7E00, to="Q4_K", dtype="<u2", at=144 // 2 * 3 + 1)
weight("NaN minimum of Q2_K", UP, 0x7E00, to="Q2_K", dtype="<u2", at=84 // 2 * 4 - 1)
MOE = dict(num_experts=4, num_experts_per_tok=4, moe_intermediate_size=256, norm_topk_prob=True)
weight("NaN in an expert", "blk.1.ffn_up_exps.weight", NAN, kind="qwen3_moe", config=MOE)
weight("NaN in a router", "blk.1.ffn_gate_inp.weight", NAN, kind="qwen3_moe", config=MOE)
weight("finite, but products overflow: eval ppl", UP, 3e38, at=0, count=256 * 256, words=("block 1",))
weight("finite, but products overflow: run", UP, 3e38, at=0, count=256 * 256, words=(), command="run")
weight("finite, but products overflow: imatrix", UP, 3e38, at=0, count=256 * 256, words=("blk.1", "f32"), command="imatrix")
weight("finite, but products overflow: eval tools", UP, 3e38, at=0, count=256 * 256, words=(), command="eval tools")
weight("finite, but products overflow: eval kld", UP, 3e38, at=0, count=256 * 256, words=(), command="eval kld, itself the base")
weight("finite, but products overflow: eval suite", UP, 3e38, at=0, count=256 * 256, words=(), command="eval suite")


@trial("numbers", "finite, but too large for F16: quantize")
def quantize_f16(scratch):
    return clean(hone(*COMMANDS["quantize to F16"](poison(model(scratch), UP, 1e6), None)), UP, "F16")



@trial("numbers", "finite, but products overflow: serve")
def serve_overflow(scratch):
    m = poison(model(scratch), UP, 3e38, 0, 256 * 256)
    p = ask(m, ("/v1/completions", '{"prompt": "a", "max_tokens": 4}'), ("/v1/chat/completions", '{"messages": [{"role": "user", "content": "a"}], "max_tokens": 4, "logprobs": true, "top_logprobs": 3}'))
    if not isinstance(p, list):
        return clean(p, "blk.1")
    return ("refused" if all(s >= 500 and "finite" in t for s, t in p) else "wrong"), str(p)[:300]


for to, value in (("Q8_0", 3e38), ("Q8_0", 1e10), ("Q4_K", 3e38), ("Q5_1", 1e6), ("Q2_K", 3e38)):

    @trial("numbers", f"a weight of {value} in {to}")
    def _(scratch, to=to, value=value):
        m = poison(model(scratch), UP, value)
        return clean(hone("quantize", m, "-o", str(m) + ".q", "--type", to), UP, to)


@trial("numbers", "finite, but too large for F16: convert")
def convert_f16(scratch):
    folder, m = checkpoint(scratch, "llama")
    f = folder / "model.safetensors"
    w = load_file(f)
    w["model.layers.1.mlp.up_proj.weight"][3, 4] = 1e6
    save_file(w, f, {"format": "pt"})
    return warned(convert(folder, "--type", "f16"), UP, "F16", "infinite")


@trial("numbers", "subnormal weights")
def subnormal(scratch):
    folder, m = checkpoint(scratch, "llama")
    for p in m.parameters():
        if p.dim() == 2:
            p.data[:, :7] = 1e-41
    m.save_pretrained(folder)
    p = convert(folder)
    return p.refusal() or same_logits(p.path, m)


@trial("numbers", "a matrix of zeros quantizes and answers")
def zeros(scratch):
    m = poison(model(scratch), UP, 0.0, 0, 256 * 256)
    for t in ("Q4_K", "Q8_0", "IQ4_XS", "Q2_K", "Q6_K", "Q5_0"):
        q = hone("quantize", m, "-o", str(m) + ".q", "--type", t, "-f")
        if q.rc:
            return "wrong", q.err
        if not np.isfinite(logits(str(m) + ".q", [1, 2, 3])).all():
            return "wrong", t
    return "right"


# ---- metadata ----
for key, value in {
    "llama.attention.layer_norm_rms_epsilon": (NAN, INF, -1.0),
    "llama.rope.freq_base": (NAN, INF, 0.0, -10000.0),
}.items():
    for v in value:

        @trial("numbers", f"{key} = {v}")
        def _(scratch, key=key, v=v):
            return clean(hone(*COMMANDS["eval ppl"](set_key(model(scratch), key, v), text(scratch))), key)


def config_value(name, change, *words, kind="llama", config={}):
    """Registers a value of config.json that no model has: the conversion must refuse it and give its key."""

    @trial("numbers", "config.json: " + name)
    def _(scratch):
        folder, _ = checkpoint(scratch, kind, **config)
        edit(folder, "config.json", change)
        return clean(convert(folder), *words)


def warned(p, *words):
    """The verdict `right` if the command succeeded with a warning that contains the words, otherwise like clean()."""
    return ("right", p.err.strip()[-200:]) if p.rc == 0 and all(w in p.err for w in words) else clean(p, *words)


def rope(c, **v):
    (c.get("rope_parameters") or c).update(v)


config_value("rms_norm_eps NaN", lambda c: c.update(rms_norm_eps=NAN), "rms_norm_eps")
config_value("rms_norm_eps Infinity", lambda c: c.update(rms_norm_eps=INF), "rms_norm_eps")
config_value("rms_norm_eps -1", lambda c: c.update(rms_norm_eps=-1), "rms_norm_eps")
config_value("rope_theta NaN", lambda c: rope(c, rope_theta=NAN), "rope_theta")
config_value("rope_theta Infinity", lambda c: rope(c, rope_theta=INF), "rope_theta")
config_value("rope_theta 0", lambda c: rope(c, rope_theta=0), "rope_theta")
config_value("linear rope by factor NaN", lambda c: rope(c, rope_type="linear", factor=NAN), "factor")
config_value("linear rope by factor 0", lambda c: rope(c, rope_type="linear", factor=0), "factor")
config_value("granite's logits_scaling 0", lambda c: c.update(logits_scaling=0), "logits_scaling", kind="granite")
config_value("granite's logits_scaling NaN", lambda c: c.update(logits_scaling=NAN), "logits_scaling", kind="granite")
config_value("granite's residual_multiplier Infinity", lambda c: c.update(residual_multiplier=INF), "residual_multiplier", kind="granite")
config_value("gemma2's softcap NaN", lambda c: c.update(final_logit_softcapping=NAN), "final_logit_softcapping", kind="gemma2")
config_value("cohere's logit_scale NaN", lambda c: c.update(logit_scale=NAN), "logit_scale", kind="cohere")
config_value("1e999, read as infinity", lambda c: c.update(rms_norm_eps=1e999), "rms_norm_eps")

# ---- importance ----


def importance(scratch, m):
    f = pathlib.Path(scratch, "im.gguf")
    p = hone("imatrix", m, text(scratch), "-o", f, "--ctx", "64", "--chunks", "4", "-f")
    if p.rc:
        raise RuntimeError(p.err)
    return f


def every(path, part, value, at=0, count=None, dtype="<f4"):
    """Poisons all tensors of an importance matrix whose names contain `part`."""
    import gguf

    for t in gguf.GGUFReader(path).tensors:
        if part in t.name:
            poison(path, t.name, value, at, count or t.n_elements, dtype)
    return path


def with_importance(name, change, *words, kind="llama", config={}, warns=False, recipe="IQ2_XXS", dat=False, command=None):
    """Registers a quantization with a changed importance matrix, which must be refused, or with warns=True succeed with
    a warning that contains the words."""

    @trial("numbers", "importance: " + name)
    def _(scratch):
        m = model(scratch, kind, **config)
        f = importance(scratch, m)
        f = change(f) or f
        p = hone(*command(m, f)) if command else hone("quantize", m, "-o", str(m) + ".q", "--recipe", recipe, "--imatrix", f, "-f")
        if p.rc == 0 and warns and all(w in p.err for w in words):
            return "right", p.err.strip()[:200]
        return clean(p, *words)


STATS = lambda m, f: ("imatrix", "--stats", f)
MERGE = lambda m, f: ("imatrix", "--merge", f, f, "-o", str(f) + ".2.gguf", "-f")
with_importance("all zero", lambda f: every(f, "in_sum2", 0), "coarse")
with_importance("all zero, Q4_K_M", lambda f: every(f, "in_sum2", 0), "importance", warns=True, recipe="Q4_K_M")
with_importance("one tensor zero", lambda f: every(f, "ffn_up.weight.in_sum2", 0), "ffn_up")
with_importance("one tensor zero, Q4_K_M", lambda f: every(f, "blk.1.ffn_up.weight.in_sum2", 0), "ffn_up", warns=True, recipe="Q4_K_M")
with_importance("half of the columns zero", lambda f: every(f, "ffn_up.weight.in_sum2", 0, 0, 128), warns=True)
with_importance("counts zero", lambda f: every(f, "counts", 0), "coarse")
with_importance("counts NaN", lambda f: every(f, "counts", NAN), "attn_k", "nan")
with_importance("counts negative", lambda f: every(f, "counts", -5), "attn_k", "-5")
with_importance("counts infinite", lambda f: every(f, "counts", INF), "attn_k", "inf")
with_importance("one NaN", lambda f: every(f, "blk.1.ffn_up.weight.in_sum2", NAN, 3, 1), "ffn_up")
with_importance("one infinity", lambda f: every(f, "blk.1.ffn_up.weight.in_sum2", INF, 3, 1), "ffn_up")
with_importance("one negative number", lambda f: every(f, "blk.1.ffn_up.weight.in_sum2", -1, 3, 1), "ffn_up")

for value in (2.0**100, 2.0**-60):

    @trial("numbers", f"importance: all {value} is as all 1")
    def _(scratch, value=value):
        m = model(scratch)
        f, out = importance(scratch, m), []
        for v in (1, value):
            every(f, "in_sum2", v)
            p = hone("quantize", m, "-o", str(m) + ".q", "--recipe", "IQ2_XXS", "--imatrix", f, "-f")
            if p.rc:
                return p.refusal("importance")
            out.append({n: t.tobytes() for n, t in tensors(str(m) + ".q").items()})
        return ("right" if out[0] == out[1] else "wrong"), f"{sum(out[0][n] != out[1][n] for n in out[0])} tensors differ"


with_importance("one NaN: --stats", lambda f: every(f, "blk.1.ffn_up.weight.in_sum2", NAN, 3, 1), "ffn_up", command=STATS)
with_importance("one NaN: --merge", lambda f: every(f, "blk.1.ffn_up.weight.in_sum2", NAN, 3, 1), "ffn_up", command=MERGE)
with_importance("one NaN: --budget", lambda f: every(f, "blk.1.ffn_up.weight.in_sum2", NAN, 3, 1), "ffn_up", command=lambda m, f: ("quantize", m, "-o", str(m) + ".q", "--budget", "700KiB", "--imatrix", f, "-f"))
with_importance("all zero: --budget", lambda f: every(f, "in_sum2", 0), "importance", warns=True, command=lambda m, f: ("quantize", m, "-o", str(m) + ".q", "--budget", "700KiB", "--imatrix", f, "-f"))
with_importance("one NaN: sensitivity", lambda f: every(f, "blk.1.ffn_up.weight.in_sum2", NAN, 3, 1), "ffn_up", command=lambda m, f: ("sensitivity", m, "--imatrix", f, "-o", str(m) + ".s.json"))
with_importance("an expert that was never used", lambda f: every(f, "exps.weight.in_sum2", 0, 256, 256), "expert", kind="qwen3_moe", config=MOE, warns=True, recipe="Q4_K_M")
with_importance("no expert ever used", lambda f: every(f, "exps.weight.in_sum2", 0), "exps", kind="qwen3_moe", config=MOE)


def dat(entries):
    out = struct.pack("<i", len(entries))
    for n, v in entries:
        out += struct.pack("<i", len(n)) + n.encode() + struct.pack("<ii", 1, len(v)) + np.asarray(v, "<f4").tobytes()
    return out


def from_dat(name, value, *words, warns=False, recipe="IQ2_XXS"):
    def change(f):
        import gguf

        sums = [t for t in gguf.GGUFReader(f).tensors if t.name.endswith(".in_sum2")]
        d = f.with_suffix(".dat")
        d.write_bytes(dat([(t.name.removesuffix(".in_sum2"), np.full(t.n_elements, value, "f4")) for t in sums]))
        return d

    with_importance("a .dat file of " + name, change, *words, warns=warns, recipe=recipe)


from_dat("zeros", 0, "coarse")
from_dat("zeros, Q4_K_M", 0, "importance", warns=True, recipe="Q4_K_M")
from_dat("NaN", NAN, "weight")
from_dat("infinity", INF, "weight")
from_dat("negative numbers", -1, "weight")

# ---- other files ----


@trial("numbers", "base logits with NaN: eval kld")
def base_file(scratch):
    m, t = model(scratch), text(scratch)
    f = str(m) + ".kld"
    p = hone("eval", "kld", m, t, "--save-base", f, "--ctx", "64", "--chunks", "2")
    if p.rc:
        return "wrong", p.err
    raw = bytearray(pathlib.Path(f).read_bytes())
    at = 20 + 4 * 2 * 64  # after the magic, three sizes and the tokens: scale and least of a row
    raw[at : at + 8] = struct.pack("<ff", NAN, NAN)
    pathlib.Path(f).write_bytes(raw)
    return clean(hone("eval", "kld", m, t, "--base-file", f, "--ctx", "64", "--chunks", "2"), "scale nan", "damaged")


@trial("numbers", "a sensitivity file with NaN")
def sensitivity_file(scratch):
    m = model(scratch)
    f = str(m) + ".s.json"
    p = hone("sensitivity", m, "-o", f)
    if p.rc:
        return "wrong", p.err
    s = pathlib.Path(f).read_text()
    import re

    bad = re.sub(r'("error": *)[0-9.e-]+', r"\1NaN", s)
    if bad == s:
        bad = re.sub(r"\d\.\d+e-\d+|0\.\d+", "NaN", s)
    pathlib.Path(f).write_text(bad)
    return clean(hone("quantize", m, "-o", str(m) + ".q", "--budget", "700KiB", "--sensitivity", f, "-f"), "s.json")


# ---- options ----
for option in ("--temp", "--top-p", "--min-p", "--repeat-penalty", "--presence-penalty", "--frequency-penalty"):
    for v in ("nan", "inf", "-inf", "1e999"):

        @trial("numbers", f"run {option} {v}")
        def _(scratch, option=option, v=v):
            return clean(hone("run", model(scratch), "-p", "a", "-n", "2", option, v), option)


for option, v in (("--budget", "nan"), ("--budget", "infGiB"), ("--bpw", "nan"), ("--bpw", "inf"), ("--vram", "nanGiB"), ("--budget", "-1GiB"), ("--budget", "0")):

    @trial("numbers", f"quantize {option} {v}")
    def _(scratch, option=option, v=v):
        m = model(scratch)
        return clean(hone("quantize", m, "-o", str(m) + ".q", option, v), option)


for option, v in (("--time", "nan"), ("--time", "inf"), ("--probe-time", "nan")):

    @trial("numbers", f"make {option} {v}")
    def _(scratch, option=option, v=v):
        m = model(scratch)
        return clean(hone("make", m, "-o", str(m) + ".d", option, v), option)


# ---- requests ----
BODY = '{"prompt": "a", "max_tokens": 2, %s}'
for body in (
    '"temperature": NaN', '"temperature": 1e999', '"temperature": -1', '"temperature": Infinity', '"top_p": -1', '"top_p": 1e999', '"logit_bias": {"5": 1e999}',
    '"logit_bias": {"5": NaN}', '"logit_bias": {"5": "x"}', '"min_p": 1e999', '"presence_penalty": 1e999', '"frequency_penalty": -1e999', '"repeat_penalty": 1e999',
    '"seed": 1e999', '"seed": NaN', '"n": 1e999', '"logprobs": 1e999', '"top_k": 1e999', '"repeat_penalty": 0', '"n": 0',
):  # fmt: skip

    @trial("numbers", "request " + body)
    def _(scratch, body=body):
        p = ask(model(scratch), ("/v1/completions", BODY % body), ("/v1/completions", BODY % '"seed": 1'))
        if not isinstance(p, list):
            return "wrong", p.err
        (s, t), (after, _) = p[0], p[1]
        name = body.split('"')[1]
        if after != 200:
            return "crashed", str(p)
        if s != 400:
            return "wrong", f"{s} {t[:200]}"
        return ("refused" if name in t or "NaN" in body or "Infinity" in body else "wrong reason"), t[:200]


@trial("numbers", "request with a logit_bias of -100 on every token")
def bias_all(scratch):
    b = json.dumps({"prompt": "a", "max_tokens": 2, "temperature": 0, "logprobs": 2, "logit_bias": {str(i): -100 for i in range(320)}})
    p = ask(model(scratch), ("/v1/completions", b))
    ok = isinstance(p, list) and p[0][0] == 200 and "NaN" not in p[0][1] and "inf" not in p[0][1].lower().replace("info", "")
    return ("right" if ok else "wrong"), str(p)[:300]
