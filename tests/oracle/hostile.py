#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the malformed inputs of tests/hostile/ byte by byte, with only the standard library.

    python3 tests/oracle/hostile.py tests/hostile

A name that ends in '.d' is a folder whose files replace those of a valid model folder (tests/cli/hostile.sh)."""
import json
import os
import shutil
import struct
import sys
import zlib

out = sys.argv[1]
U8, I8, U16, I16, U32, I32, F32, BOOL, STR, ARR, U64, I64, F64 = range(13)
SCALAR = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B", U64: "Q", I64: "q", F64: "d"}


def put(name, data):
    path = os.path.join(out, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def s(x):
    b = x if isinstance(x, bytes) else x.encode()
    return struct.pack("<Q", len(b)) + b


def val(t, v):
    if t == STR:
        return s(v)
    if t == ARR:
        e, items = v
        return struct.pack("<IQ", e, len(items)) + b"".join(val(e, i) for i in items)
    return struct.pack("<" + SCALAR[t], v)


def kv(k, t, v):
    return s(k) + struct.pack("<I", t) + val(t, v)


def rec(name, dims, t, off):
    return s(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in dims) + struct.pack("<IQ", t, off)


def gguf(kvs=(), recs=(), data=b"", version=3, magic=b"GGUF", n_t=None, n_kv=None, align=32):
    h = magic + struct.pack("<IQQ", version, len(recs) if n_t is None else n_t, len(kvs) if n_kv is None else n_kv)
    h += b"".join(kvs) + b"".join(recs)
    return h + b"\0" * (-len(h) % align) + data


ARCH = kv("general.architecture", STR, "qwen3")
D64 = b"\0" * 64
one = [rec("a", [16], 0, 0)]
put("gguf-empty.gguf", b"")
put("gguf-magic.gguf", gguf([ARCH], one, D64, magic=b"GGML"))
put("gguf-big-endian.gguf", b"GGUF" + struct.pack(">IQQ", 3, 0, 0) + D64)
put("gguf-version.gguf", gguf([ARCH], one, D64, version=99))
put("gguf-cut-header.gguf", gguf([ARCH], one, D64)[:14])
put("gguf-kv-count.gguf", gguf([ARCH], one, D64, n_kv=1 << 63))
put("gguf-tensor-count.gguf", gguf([ARCH], one, D64, n_t=1 << 62))
put("gguf-key-length.gguf", gguf([struct.pack("<Q", 1 << 40) + b"x" * 64]))
put("gguf-key-zero-byte.gguf", gguf([kv("a\0b", U8, 1)]))
put("gguf-key-empty.gguf", gguf([kv("", U8, 1)]))
put("gguf-key-twice.gguf", gguf([ARCH, ARCH], one, D64))
put("gguf-value-type.gguf", gguf([s("k") + struct.pack("<IQ", 99, 0)]))
put("gguf-array-type.gguf", gguf([s("k") + struct.pack("<IIQ", ARR, 99, 0)]))
put("gguf-array-nested.gguf", gguf([s("k") + struct.pack("<IIQ", ARR, ARR, 1) + struct.pack("<IQ", U8, 1) + b"\0"]))
put("gguf-array-count.gguf", gguf([s("k") + struct.pack("<IIQ", ARR, U64, 1 << 60)]))
put("gguf-string-length.gguf", gguf([s("k") + struct.pack("<IQ", STR, 5000) + b"short"]))
put("gguf-align-zero.gguf", gguf([ARCH, kv("general.alignment", U32, 0)], one, D64))
put("gguf-align-odd.gguf", gguf([ARCH, kv("general.alignment", U32, 48)], one, D64))
put("gguf-align-huge.gguf", gguf([ARCH, kv("general.alignment", U32, 1 << 31)], one, D64))
put("gguf-align-type.gguf", gguf([ARCH, kv("general.alignment", STR, "32")], one, D64))
put("gguf-dims-five.gguf", gguf([ARCH], [rec("a", [2, 2, 2, 2, 2], 0, 0)], b"\0" * 128))
put("gguf-dim-negative.gguf", gguf([ARCH], [rec("a", [1 << 63], 0, 0)], D64))
put("gguf-dim-zero.gguf", gguf([ARCH], [rec("a", [0, 4], 0, 0)], D64))
put("gguf-dims-overflow.gguf", gguf([ARCH], [rec("a", [1 << 31, 1 << 31, 1 << 31], 0, 0)], D64))
put("gguf-tensor-type.gguf", gguf([ARCH], [rec("a", [32], 200, 0)], D64))
put("gguf-block-size.gguf", gguf([ARCH], [rec("a", [100], 12, 0)], D64))
put("gguf-offset-odd.gguf", gguf([ARCH], [rec("a", [4], 0, 7)], D64))
put("gguf-offset-far.gguf", gguf([ARCH], [rec("a", [4], 0, 1 << 50)], D64))
put("gguf-overlap.gguf", gguf([ARCH], [rec("a", [16], 0, 0), rec("b", [16], 0, 32)], b"\0" * 96))
put("gguf-tensor-twice.gguf", gguf([ARCH], [rec("a", [8], 0, 0), rec("a", [8], 0, 32)], D64))
put("gguf-tensor-name.gguf", gguf([ARCH], [rec("a" * 200, [16], 0, 0)], D64))
put("gguf-cut-data.gguf", gguf([ARCH], one, b"\0" * 20))
put("gguf-bool.gguf", gguf([ARCH, kv("x", BOOL, 7)], one, D64))
put("gguf-split-missing.gguf", gguf([ARCH, kv("split.no", U16, 0), kv("split.count", U16, 3), kv("split.tensors.count", I32, 1)], one, D64))
put("gguf-nan.gguf", gguf([ARCH], one, struct.pack("<f", float("nan")) * 16))
put("gguf-q8-inf-scale.gguf", gguf([ARCH, kv("general.quantization_version", U32, 2)], [rec("a", [32], 8, 0)], b"\x00\x7c" + b"\1" * 32 + b"\0" * 30))
put("gguf-no-arch.gguf", gguf([], one, D64))
put("gguf-unknown-arch.gguf", gguf([kv("general.architecture", STR, "perceptron9000")], one, D64))
put("gguf-no-hparams.gguf", gguf([ARCH], one, D64))
put("gguf-arch-number.gguf", gguf([kv("general.architecture", U32, 5)], one, D64))


def hp(**k):
    d = {"block_count": 1, "context_length": 64, "embedding_length": 32, "feed_forward_length": 64, "attention.head_count": 2,
         "attention.head_count_kv": 1, "attention.key_length": 16, "attention.value_length": 16}
    d.update(k)
    kvs = [ARCH] + [kv("qwen3." + n, U32, v) for n, v in d.items()]
    return gguf(kvs + [kv("qwen3.attention.layer_norm_rms_epsilon", F32, 1e-6), kv("qwen3.rope.freq_base", F32, 1e4)], one, D64)


put("gguf-layers-huge.gguf", hp(block_count=4000000000))
put("gguf-layers-zero.gguf", hp(block_count=0))
put("gguf-heads-zero.gguf", hp(**{"attention.head_count": 0}))
put("gguf-tensor-unknown.gguf", hp())

TOK = [ARCH, kv("tokenizer.ggml.model", STR, "gpt2"), kv("tokenizer.ggml.pre", STR, "qwen2")]
toks = kv("tokenizer.ggml.tokens", ARR, (STR, ["a", "b", "ab"]))
put("gguf-tokens-not-array.gguf", gguf(TOK + [kv("tokenizer.ggml.tokens", U32, 3)], one, D64))
put("gguf-token-types-short.gguf", gguf(TOK + [toks, kv("tokenizer.ggml.token_type", ARR, (I32, [1])), kv("tokenizer.ggml.merges", ARR, (STR, ["a b"]))], one, D64))
put("gguf-token-special-far.gguf", gguf(TOK + [toks, kv("tokenizer.ggml.token_type", ARR, (I32, [1, 1, 1])), kv("tokenizer.ggml.merges", ARR, (STR, ["a b"])), kv("tokenizer.ggml.eos_token_id", U32, 77)], one, D64))


# --- a model folder with one thing wrong
def st(header, data=b"", n=None):
    h = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(h) if n is None else n) + h + data


def t(shape, a, b, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [a, b]}


def folder(name, data):
    put(f"st-{name}.d/model.safetensors", data)


folder("header-length", st({"a": t([1], 0, 4)}, b"\0" * 4, n=1 << 60))
folder("header-cut", st({"a": t([1], 0, 4)}, n=5000))
folder("header-not-json", st(b"{" + b"x" * 40))
folder("header-not-object", st(b"[1,2,3,4]"))
folder("overlap", st({"a": t([4], 0, 16), "b": t([4], 8, 24)}, b"\0" * 24))
folder("hole", st({"a": t([4], 0, 16), "b": t([4], 24, 40)}, b"\0" * 40))
folder("dtype", st({"a": t([4], 0, 16, "F37")}, b"\0" * 16))
folder("shape-negative", st({"a": t([-4], 0, 16)}, b"\0" * 16))
folder("shape-fraction", st({"a": t([1.5], 0, 6)}, b"\0" * 6))
folder("shape-overflow", st({"a": t([1 << 40, 1 << 40], 0, 16)}, b"\0" * 16))
folder("size-differs", st({"a": t([4], 0, 12)}, b"\0" * 12))
folder("data-cut", st({"a": t([4], 0, 16)}, b"\0" * 9))
folder("data-behind", st({"a": t([4], 0, 16)}, b"\0" * 99))
folder("name-twice", st(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', b"\0" * 8))
folder("depth", st(b'{"a":' + b"[" * 500 + b"]" * 500 + b"}"))
folder("meta", st({"__metadata__": {"format": 3}, "a": t([1], 0, 4)}, b"\0" * 4))
folder("pickle", b"\x80\x02}q\0." + b"\0" * 32)
folder("lfs-pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n")
folder("not-utf8", st(b'{"a\xff\xfe":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', b"\0" * 4))
folder("other-tensors", st({"some.tensor": t([1], 0, 4)}, b"\0" * 4))

INDEX = "model.safetensors.index.json"
good = st({"a": t([1], 0, 4)}, b"\0" * 4)
for name, index in {
    "path": {"weight_map": {"a": "../../secret.safetensors"}},
    "missing-shard": {"weight_map": {"a": "model-00001-of-00002.safetensors"}},
    "no-map": {"metadata": {}},
    "not-string": {"weight_map": {"a": 5}},
    "absent-tensor": {"weight_map": {"a": "model.safetensors", "b": "model.safetensors"}},
}.items():
    put(f"index-{name}.d/{INDEX}", json.dumps(index))
    put(f"index-{name}.d/model.safetensors", good)
put(f"index-unlisted-tensor.d/{INDEX}", json.dumps({"weight_map": {"a": "model.safetensors"}}))
put("index-unlisted-tensor.d/model.safetensors", st({"a": t([1], 0, 4), "b": t([1], 4, 8)}, b"\0" * 8))

CONFIG = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "vocab_size": 512,
          "max_position_embeddings": 512, "hidden_act": "silu", "tie_word_embeddings": True}


def config(name, text=None, **change):
    put(f"config-{name}.d/config.json", text if text is not None else json.dumps({**CONFIG, **change}))


config("not-json", "{ this is no JSON")
config("empty", "")
config("nan", '{"architectures": ["Qwen3ForCausalLM"], "hidden_size": NaN}')
config("not-object", "[1, 2]")
config("no-class", architectures=None, model_type="perceptron")
config("unknown-class", architectures=["PerceptronForCausalLM"], model_type="perceptron")
config("size-text", hidden_size="sixty-four")
config("size-negative", hidden_size=-64)
config("layers-huge", num_hidden_layers=2000000000)
config("layers-zero", num_hidden_layers=0)
config("heads-zero", num_attention_heads=0)
config("heads-uneven", num_attention_heads=7, num_key_value_heads=3)
config("depth", "[" * 3000 + "]" * 3000)
config("key-twice", '{"hidden_size": 1, "hidden_size": 2}')
config("zero-in-string", '{"model_type": "a\\u0000b"}')


def tokenizer(name, text=None, **model):
    j = {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"], **model}, "added_tokens": [],
         "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}, "decoder": {"type": "ByteLevel"}}
    put(f"tokenizer-{name}.d/tokenizer.json", text if text is not None else json.dumps(j))


tokenizer("not-json", '{"model": {')
tokenizer("no-model", "{}")
tokenizer("type", type="Unigram9")
tokenizer("vocab-empty", vocab={})
tokenizer("id-text", vocab={"a": "zero"})
tokenizer("id-negative", vocab={"a": -5})
tokenizer("id-huge", vocab={"a": 0, "b": 4000000000})
tokenizer("id-twice", vocab={"a": 0, "b": 0})
tokenizer("merge-unknown", merges=["a b", "x y"])
tokenizer("merge-shape", merges=[["a", "b", "c"]])


# --- importance matrices, in both forms; base logits; second moments
def dat(n, entries, tail=b""):
    return struct.pack("<i", n) + b"".join(entries) + tail


def ent(name, calls, vals, n=None):
    return struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", calls, len(vals) if n is None else n) + struct.pack(f"<{len(vals)}f", *vals)


put("imat-empty.dat", b"")
put("imat-count.dat", dat(2000000000, [ent("a", 1, [1.0] * 4)]))
put("imat-negative-count.dat", dat(-1, []))
put("imat-cut.dat", dat(1, [ent("a", 1, [1.0] * 4)])[:-3])
put("imat-name-length.dat", struct.pack("<ii", 1, 1 << 30) + b"x" * 40)
put("imat-values-count.dat", dat(1, [ent("a", 1, [1.0] * 4, n=1 << 30)]))
put("imat-negative.dat", dat(1, [ent("a", 1, [1.0, -2.0])]))
put("imat-nan.dat", dat(1, [ent("a", 1, [1.0, float("nan")])]))
put("imat-twice.dat", dat(2, [ent("a", 1, [1.0]), ent("a", 1, [1.0])]))
put("imat-behind.dat", dat(1, [ent("a", 1, [1.0])], struct.pack("<ii", 1, 1) + b"x" + b"rest"))
IM = [kv("general.type", STR, "imatrix"), kv("imatrix.datasets", ARR, (STR, ["t"])), kv("imatrix.chunk_count", U32, 1)]
SIZE = [kv("imatrix.chunk_size", U32, 512)]
f4 = struct.pack("<4f", 1, 2, 3, 4) + b"\0" * 16
put("imat-no-counts.gguf", gguf(IM + SIZE, [rec("a.in_sum2", [4], 0, 0)], f4))
put("imat-no-sums.gguf", gguf(IM + SIZE, [rec("a.counts", [1], 0, 0)], b"\0" * 32))
put("imat-no-key.gguf", gguf(IM, [rec("a.in_sum2", [4], 0, 0), rec("a.counts", [1], 0, 32)], f4 + b"\0" * 32))
put("imat-chunk-zero.gguf", gguf(IM + [kv("imatrix.chunk_size", U32, 0)], [rec("a.in_sum2", [4], 0, 0), rec("a.counts", [1], 0, 32)], f4 + b"\0" * 32))
put("imat-type.gguf", gguf([kv("general.type", STR, "model")] + IM[1:] + SIZE, [rec("a.in_sum2", [4], 0, 0), rec("a.counts", [1], 0, 32)], f4 + b"\0" * 32))
put("imat-columns.gguf", gguf(IM + SIZE, [rec("blk.0.attn_q.weight.in_sum2", [4], 0, 0), rec("blk.0.attn_q.weight.counts", [1], 0, 32)], f4 + struct.pack("<f", 9) + b"\0" * 28))
put("imat-sum-inf.gguf", gguf(IM + SIZE, [rec("a.in_sum2", [4], 0, 0), rec("a.counts", [1], 0, 32)], struct.pack("<4f", 1, 2, float("inf"), 4) + b"\0" * 48))


def kld(ctx, vocab, chunks, tokens, rows, magic=b"_logits_"):
    return magic + struct.pack("<iii", ctx, vocab, chunks) + struct.pack(f"<{len(tokens)}i", *tokens) + rows


put("kld-magic.kld", kld(4, 4, 1, [0, 1, 2, 3], b"\0" * 16, b"_logitz_"))
put("kld-cut.kld", kld(4, 4, 1, [0, 1, 2, 3], b"\0" * 5))
put("kld-empty.kld", b"")
put("kld-vocab.kld", kld(4, 2147483647, 1, [0, 1, 2, 3], b"\0" * 16))
put("kld-ctx-negative.kld", kld(-4, 4, 1, [0, 1, 2, 3], b"\0" * 16))
put("kld-token.kld", kld(4, 4, 1, [0, 1, 99, 3], b"\0" * 16))
put("gram-type.gguf", gguf([kv("general.type", STR, "imatrix")], one, D64))
put("gram-no-weights.gguf", gguf([kv("general.type", STR, "gram"), kv("gram.version", U32, 1), kv("gram.chunk_size", U32, 1)], one, D64))

# --- text files
put("plan-type.tsv", "token_embd.weight\tq9_Z\n")
put("plan-tensor.tsv", "blk.99.attn_q.weight\tq8_0\n")
put("plan-no-tab.tsv", "token_embd.weight q8_0\n")
put("plan-twice.tsv", "token_embd.weight\tq8_0\ntoken_embd.weight\tq4_0\n")
put("plan-binary.tsv", bytes(range(1, 256)))
put("sens-not-json.json", "sensitivity")
put("sens-format.json", '{"format": "poem", "version": 1}')
put("sens-other-model.json", '{"format": "hone-sensitivity", "version": 1, "model": {"header_xxh128": "0"}, "groups": []}')
put("template-open.jinja", "{% if x %}never closed")
put("template-filter.jinja", "{{ messages | conjure }}")
put("template-range.jinja", "{% for i in range(1000000000000) %}x{% endfor %}")
put("template-recursion.jinja", "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}")
put("template-doubling.jinja", "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s | length }}")
put("template-depth.jinja", "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}")
put("template-attribute.jinja", "{{ messages.__class__.__mro__ }}")
BIG = "{% set a = 'x' * 1000000 %}{% set b = 'x' * 1000000 %}"
for name, text in {  # costly inputs of few bytes: each is refused because of its number of steps
    "equal": BIG + "{% for i in range(10000) %}{% if a == b %}{% endif %}{% endfor %}",
    "in": BIG + "{% for i in range(10000) %}{% if 'y' in a %}{% endif %}{% endfor %}",
    "method": BIG + "{% for i in range(10000) %}{% if a.count('y') %}{% endif %}{% endfor %}",
    "item": BIG + "{% for i in range(99000) %}{% if a[i] %}{% endif %}{% endfor %}",
    "slice": BIG + "{% for i in range(99000) %}{% if a[i:i + 1] %}{% endif %}{% endfor %}",
    "key": BIG + "{% set d = {a: 1} %}{% for i in range(99000) %}{% if d[b] %}{% endif %}{% endfor %}",
    "small": "{% for i in range(100000) %}{% for k in range(1000) %}{% set x = k ~ 'abcdefghi' %}{% endfor %}{% endfor %}",
    "rfind": "{{ ('a' * 400000).rfind('a' * 200000 ~ 'b') }}",
    "rsplit": "{{ ('a' * 400000).rsplit('a' * 200000 ~ 'b') }}",
    "rpartition": "{{ ('a' * 400000).rpartition('a' * 200000 ~ 'b') }}",
    "strip": "{{ ('a' * 400000).strip('b' * 400000 ~ 'a') }}",
    "ends": "{% set b = 'x' * 1000000 %}{{ ('x' * 1000001).endswith((b ~ 'y', b ~ 'z', b ~ 'q') * 100000) }}",
    "hash": "{% set ns = namespace(t=(1, 2)) %}{% for i in range(60) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}{{ {ns.t: 1} }}",
    "meet": "{{ range(40000) | map('string') | map('replace', '', '7777777777') | map('int') | unique | list | length }}",
    "multiply": "{% set x = 10 ** 8000 %}{% for i in range(99000) %}{% if x * x %}{% endif %}{% endfor %}",
    "divide": "{% set x = 10 ** 16000 %}{% set y = 10 ** 8000 %}{% for i in range(99000) %}{% if x // y %}{% endif %}{% endfor %}",
    "chain": "{% for i in range(99000) %}{% if " + " < ".join(str(k) for k in range(2000)) + " %}{% endif %}{% endfor %}",
    "loads": "{% for i in range(99000) %}{% if false %}" + "".join("{{ a%d }}" % k for k in range(2000)) + "{% endif %}{% endfor %}",
    "names": "".join("{{ a%x }}" % k for k in range(9000)),
    "keywords": "{% macro f() %}{{ kwargs }}{% endmacro %}{{ f(**{" + ", ".join("'k%x': 1" % k for k in range(8000)) + "}) }}",
    "sorted": "{{ {" + ", ".join("%d: 1" % (5000 - k) for k in range(5000)) + "} | tojson(sort_keys=true) }}",
}.items():
    put("template-cost-" + name + ".jinja", text + "\n")
put("template-nul.jinja", "line one\na\0b")
put("template-nul-long.jinja", b"a\0" + b"\0" * 3000)
put("template-nul.gguf", gguf([ARCH, kv("tokenizer.chat_template", STR, "{{ x }}\0{{ y }}")], one, D64))
put("template-nul-magic.gguf", gguf([ARCH, kv("tokenizer.chat_template", STR, "{{ x }}")], one, D64, magic=b"GGXF"))
put("template-nul-named.gguf", gguf([ARCH, kv("tokenizer.chat_template", STR, "{{ x }}"), kv("tokenizer.chat_template.tool_use", STR, "a\0b")], one, D64))
put("template-nul.d/chat_template.jinja", "{{ x }}\0")
put("template-nul-config.d/tokenizer_config.json", json.dumps({"chat_template": "{{ x }}\0{{ y }}"}))
put("template-loop.jinja", "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}")
put("template-copies.jinja", "{{ messages[0].content }}{% if messages|length > 1 %}{% set x = 'abcdefgh' * 100000 %}"
    "{% for i in range(100000) %}{% for j in range(100000) %}{% if x ~ 'b' == x %}{% endif %}{% endfor %}{% endfor %}{% endif %}")
put("chat-line.jsonl", '{"messages": [{"role": "user", "content": "hi"}]}\n{"messages": [\n')
put("chat-no-messages.jsonl", '{"text": 5}\n')
put("chat-not-object.jsonl", "17\n")
put("chat-role.jsonl", '{"messages": [{"role": 3, "content": "hi"}]}\n')
put("text-cut.txt.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + zlib.compress(b"some text " * 50, 9)[2:20])
put("text-empty.txt", "")
put("ids-odd.bin", b"\1\0\0\0\2\0")
put("ids-far.bin", struct.pack("<2i", 1, 99999999))
put("ids-negative.bin", struct.pack("<2i", 1, -1))
put("tokenize-batch.json", '{"not": "an array"}')
