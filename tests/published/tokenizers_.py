# SPDX-License-Identifier: MIT
"""Tokenizers: ids and texts of folder and GGUF compared with the tokenizers library, sentencepiece and tiktoken.

The name ends with an underscore because a module `tokenizers` would hide the library.
"""
import base64
import functools
import json
import pathlib
import tempfile

import numpy as np

from published import QWEN2, TEXT, convert, edit, hone, keys, trial

NASTY = [
    "", " ", "  ", "a", " a", "a ", "  two  spaces  ", "\t\ttabs\tend\t", "line\r\nline\r\n\r\n", "\n\n x\n", "12345678901234567890 3.14159 ١٢٣",
    "👩‍👩‍👧‍👦 emoji 🇩🇪🏳️‍🌈", "e\u0301 a\u0308\u0323 combining", "東京都は日本の首都です。你好,世界!", "안녕하세요 привет мир", "control \x01\x02\x1f\x7f here",
    "I'M DON'T we'll It's", "foo_bar(x)=>{return x**2;}//...", "\u00a0nbsp\u3000wide\u200b", "<tag>x<tag> y <tag>", "word<|sp|>word <|sp|> <|sp|>", "x<ls>y  <ls> <rs>  z<rs>\n\nq",
    "▁meta ▁ ▁▁", "\ufffd\ufeff", "the<tag>the", " <tag>", "<tag> ", "🙂" * 5, "ａｂｃ ﬁ ½", "HelloWorldABCDef",
]
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
REGEXES = {
    "qwen2": QWEN2,
    "llama3": LLAMA3,
    "gpt4o": GPT4O,
    "gpt2": GPT2,
    "qwen2 with {1}": QWEN2.replace(r"|\p{N}|", r"|\p{N}{1}|"),
    "qwen2 with a class": QWEN2.replace(r"|\p{N}|", r"|[\p{N}]|"),
    "llama3 spelled out": LLAMA3.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "'(?i:[sdmt]|ll|ve|re)"),
    "llama3 possessive": LLAMA3.replace(r"\s+(?!\S)|\s+", r"\s+(?!\S)|\s"),
    "unknown: digits in fours": LLAMA3.replace("{1,3}", "{1,4}"),
    "unknown: words of one case": r"\p{Lu}+|\p{Ll}+|\s|\p{N}+|[^\s\p{L}\p{N}]",
    "unknown: blanks": r"\s+|\S+",
}


def folder(scratch, tok=None, config=None, n=None, **files):
    """A Llama folder of one small layer with a tokenizer and other files (NAME with __ for a dot)."""
    from safetensors.numpy import save_file

    d = pathlib.Path(scratch, "model")
    d.mkdir()
    n = n or tok.get_vocab_size()
    h, f, rng = 32, 32, np.random.default_rng(1)
    shapes = {"embed_tokens": (n, h), "norm": (h,), "layers.0.input_layernorm": (h,), "layers.0.post_attention_layernorm": (h,)}
    shapes |= {f"layers.0.self_attn.{x}_proj": (h, h) for x in "qkvo"}
    shapes |= {"layers.0.mlp.gate_proj": (f, h), "layers.0.mlp.up_proj": (f, h), "layers.0.mlp.down_proj": (h, f)}
    save_file({f"model.{k}.weight": rng.standard_normal(s).astype("f4") for k, s in shapes.items()}, d / "model.safetensors", {"format": "pt"})
    conf = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=h, intermediate_size=f, num_hidden_layers=1, num_attention_heads=2)
    conf |= dict(num_key_value_heads=2, vocab_size=n, rms_norm_eps=1e-5, max_position_embeddings=128, tie_word_embeddings=True, rope_theta=1e4)
    (d / "config.json").write_text(json.dumps(conf | files.pop("model", {})))
    if tok:
        tok.save(str(d / "tokenizer.json"))
    if config is not None:
        (d / "tokenizer_config.json").write_text(json.dumps(config))
    for k, v in files.items():
        (d / k.replace("__", ".")).write_text(json.dumps(v) if not isinstance(v, str) else v)
    return d


def batch(model, items, *args):
    """Runs all items through `hone tokenize --batch`."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(items, f)
        f.flush()
        p = hone("tokenize", model, "--batch", f.name, *args)
    if p.rc:
        raise RuntimeError(p.err)
    return json.loads(p.out)


def judged(d, encode, decode=None, texts=NASTY, gguf=True):
    """Compares the folder, and the file converted from it, with the library."""
    want = [encode(t) for t in texts]
    back = decode and [decode(w) for w in want]
    models = [d]
    if gguf:
        p = convert(d)
        if p.rc:
            return p.refusal("tokenizer") if not p.crashed else ("crashed", p.err[-300:])
        models.append(p.path)
    for m in models:
        got = batch(m, texts)
        for t, a, b in zip(texts, got, want):
            if a != b:
                return "wrong", f"{m.name}: ids of {t!r}: {a}, not {b}"
        if back:
            for t, a, b in zip(texts, batch(m, want, "--decode"), back):
                if a != b:
                    return "wrong", f"{m.name}: text of {t!r}: {a!r}, not {b!r}"
    return "right", ""


def like(tok, scratch, texts=NASTY, **files):
    """Compares hone with the tokenizers library for one of its tokenizers."""
    d = folder(scratch, tok, **files)
    return judged(d, lambda t: tok.encode(t, add_special_tokens=False).ids, lambda i: tok.decode(i, skip_special_tokens=False), texts)


def byte_bpe(regex=QWEN2, norm=None, added=()):
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    t = Tokenizer(models.BPE())
    if norm:
        t.normalizer = getattr(normalizers, norm)()
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(regex), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator((TEXT + NASTY) * 4, trainers.BpeTrainer(vocab_size=420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.add_special_tokens(["<|sp|>", "<|endoftext|>"])
    t.add_tokens(list(added))
    return t


def added(*names, **flags):
    from tokenizers import AddedToken

    return [AddedToken(n, **flags) for n in names]


for name, regex in REGEXES.items():
    trial("tokenizers", "bytes: " + name)(lambda s, r=regex: like(byte_bpe(r), s))
trial("tokenizers", "bytes: nfc")(lambda s: like(byte_bpe(norm="NFC"), s))
for norm in (True, False):
    for side in ({}, {"lstrip": True}, {"rstrip": True}, {"single_word": True}, {"lstrip": True, "rstrip": True}):
        what = f"bytes: added, normalized {norm}, {' '.join(side) or 'plain'}"
        trial("tokenizers", what)(lambda s, n=norm, k=side: like(byte_bpe(norm="NFC", added=added("<tag>", "<ls>", "<rs>", normalized=n, **k)), s))


def char_bpe(legacy="prepend", scheme="always"):
    """A tokenizer.json like that of Llama 2: the legacy form with a normalizer, or Metaspace with a scheme."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    first = Tokenizer(models.BPE())
    first.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    first.train_from_iterator(TEXT * 4, trainers.BpeTrainer(vocab_size=420, special_tokens=special, show_progress=False))
    m = json.loads(first.to_str())["model"]
    merges = [tuple(x) if isinstance(x, list) else tuple(x.split(" ")) for x in m["merges"]]
    t = Tokenizer(models.BPE(m["vocab"], merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if legacy == "prepend":
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    elif legacy == "replace":
        t.normalizer = normalizers.Replace(" ", "▁")
    else:
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    t.decoder = decoders.Sequence(parts + ([decoders.Strip(" ", 1, 0)] if legacy != "replace" and scheme != "never" else []))
    t.add_special_tokens(["<unk>", "<s>", "</s>", "<|sp|>"])
    return t


for legacy, scheme in (("prepend", ""), ("replace", ""), ("meta", "always"), ("meta", "first"), ("meta", "never")):
    for norm in (None, False, True):

        def characters(s, legacy=legacy, scheme=scheme, norm=norm):
            t = char_bpe(legacy, scheme)
            if norm is not None:
                t.add_tokens(added("<tag>", "<ls>", normalized=norm))
            return like(t, s, config={"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"})

        trial("tokenizers", f"characters: {legacy} {scheme} added {norm}")(characters)


@functools.cache
def sentences(kind):
    import sentencepiece as sp

    d = pathlib.Path(tempfile.mkdtemp())
    (d / "t").write_text("\n".join((TEXT + [x for x in NASTY if x.strip()]) * 4))
    how = dict(model_type=kind, vocab_size=400 if kind == "bpe" else 440, byte_fallback=True, hard_vocab_limit=False, minloglevel=9)
    sp.SentencePieceTrainer.train(input=str(d / "t"), model_prefix=str(d / "m"), normalization_rule_name="identity", remove_extra_whitespaces=False, **how)
    return (d / "m.model").read_bytes()


for kind in ("bpe", "unigram"):

    @trial("tokenizers", f"sentencepiece {kind}")
    def pieces(scratch, kind=kind):
        import sentencepiece as sp

        p = sp.SentencePieceProcessor(model_proto=sentences(kind))
        d = folder(scratch, n=p.vocab_size(), config={"tokenizer_class": "LlamaTokenizer" if kind == "bpe" else "T5Tokenizer"})
        (d / "tokenizer.model").write_bytes(sentences(kind))
        return judged(d, p.encode, None, [t for t in NASTY if "\ufffd" not in t])


@functools.cache
def ranks():
    """Byte tokens and merges of a trained tokenizer as tiktoken's ranks."""
    from tokenizers import pre_tokenizers

    t = byte_bpe(QWEN2)
    # The byte alphabet of GPT-2: printable bytes are themselves, the others follow from U+0100.
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    back = {chr(b): b for b in keep} | {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in keep)}
    assert set(back) == set(pre_tokenizers.ByteLevel.alphabet())
    vocab = sorted((i, x) for x, i in t.get_vocab(with_added_tokens=False).items())
    return {bytes(back[c] for c in x): i for i, (_, x) in enumerate(vocab)}


def tiktoken_file(scratch, name, regex, specials, norm=False, **config):
    import unicodedata
    import tiktoken

    n = len(ranks())
    enc = tiktoken.Encoding("own", pat_str=regex, mergeable_ranks=ranks(), special_tokens={s: n + i for i, s in enumerate(specials)})
    d = folder(scratch, n=n + len(specials), config=config)
    (d / name).write_text("".join(f"{base64.b64encode(k).decode()} {v}\n" for k, v in ranks().items()))
    nfc = (lambda t: unicodedata.normalize("NFC", t)) if norm else (lambda t: t)
    return judged(d, lambda t: enc.encode(nfc(t), allowed_special="all"), enc.decode)


QWEN1 = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [f"<|extra_{i}|>" for i in range(205)]
CHATGLM = ["<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"]
KIMI = r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def decoder_of(names):
    return {str(len(ranks()) + i): {"content": s, "special": True} for i, s in enumerate(names)}


@trial("tokenizers", "tiktoken: qwen 1")
def qwen1(scratch):
    return tiktoken_file(scratch, "qwen.tiktoken", QWEN2, QWEN1, True, tokenizer_class="QWenTokenizer")


@trial("tokenizers", "tiktoken: chatglm 4")
def chatglm4(scratch):
    names = decoder_of(CHATGLM)
    return tiktoken_file(scratch, "tokenizer.model", LLAMA3, CHATGLM, tokenizer_class="ChatGLM4Tokenizer", added_tokens_decoder=names)


@trial("tokenizers", "tiktoken: kimi")
def kimi(scratch):
    names = ["[BOS]", "[EOS]"] + [f"<|reserved_token_{len(ranks()) + i}|>" for i in range(2, 256)]
    config = dict(bos_token="[BOS]", eos_token="[EOS]", added_tokens_decoder=decoder_of(names[:2]))
    return tiktoken_file(scratch, "tiktoken.model", KIMI, names, tokenizer_class="TikTokenTokenizer", **config)


@trial("tokenizers", "tiktoken: a name of its own")
def own_name(scratch):
    d = folder(scratch, n=len(ranks()), config={"tokenizer_class": "OwnTokenizer"})
    (d / "own.tiktoken").write_text("".join(f"{base64.b64encode(k).decode()} {v}\n" for k, v in ranks().items()))
    return convert(d).refusal("own.tiktoken", "--pre") or "wrong"


def special(want, config=None, tok=None, **files):
    """A trial of a file's keys: want maps the part after tokenizer.ggml. to a value (None: absent)."""

    def f(scratch):
        t = tok() if tok else byte_bpe()
        d = folder(scratch, t, config=config, **files)
        p = convert(d)
        if p.rc:
            return "wrong", p.err[-300:]
        k = keys(p.path)
        for name, value in want.items():
            value = t.token_to_id(value) if isinstance(value, str) else value
            got = k.get("tokenizer.ggml." + name)
            if got != value:
                return "wrong", f"{name}: {got}, not {value}"
        return "right"

    return f


def with_template(*parts):
    from tokenizers import processors

    t = byte_bpe()
    t.post_processor = processors.TemplateProcessing(single=" ".join(parts), special_tokens=[("<|sp|>", t.token_to_id("<|sp|>"))])
    return t


BOS, EOS = {"bos_token_id": "<|sp|>"}, {"eos_token_id": "<|endoftext|>"}
obj = {"content": "<|endoftext|>", "lstrip": False, "special": True, "__type": "AddedToken"}
for name, f in {
    "strings": special(BOS | EOS, {"bos_token": "<|sp|>", "eos_token": "<|endoftext|>"}),
    "objects": special(EOS, {"eos_token": obj}),
    "null, then an id in the config": special({"bos_token_id": None}, {"bos_token": None}),
    "empty, and an id in the config": special({"bos_token_id": None}, {"bos_token": ""}, model={"bos_token_id": 3}),
    "map only": special(BOS | EOS, {}, special_tokens_map__json={"bos_token": "<|sp|>", "eos_token": obj}),
    "map only, no tokenizer_config": special(EOS, None, special_tokens_map__json={"eos_token": "<|endoftext|>"}),
    "map against config": special(EOS, {"eos_token": "<|endoftext|>"}, special_tokens_map__json={"eos_token": "<|sp|>"}),
    "map against an id": special(EOS, {}, model={"eos_token_id": 3}, special_tokens_map__json={"eos_token": "<|endoftext|>"}),
    "add_bos true": special({"add_bos_token": True}, {"bos_token": "<|sp|>", "add_bos_token": True}),
    "add_bos false": special({"add_bos_token": False}, {"bos_token": "<|sp|>", "add_bos_token": False}),
    "template bos": special({"add_bos_token": True}, {"bos_token": "<|sp|>"}, lambda: with_template("<|sp|>", "$A")),
    "template bos, flag false": special({"add_bos_token": False}, {"bos_token": "<|sp|>", "add_bos_token": False}, lambda: with_template("<|sp|>", "$A")),
    "template eos": special({"add_eos_token": True}, {"eos_token": "<|sp|>"}, lambda: with_template("$A", "<|sp|>")),
    "template of text alone": special({"add_bos_token": False}, {"bos_token": "<|sp|>"}, lambda: with_template("$A")),
}.items():
    trial("tokenizers", "special: " + name)(f)


@trial("tokenizers", "added_tokens.json alone")
def oldest(scratch):
    t = byte_bpe()
    n = t.get_vocab_size()
    d = folder(scratch, t, n=n + 2, config={}, added_tokens__json={"<tag>": n, "<ls>": n + 1})
    t.add_tokens(["<tag>", "<ls>"])
    return judged(d, lambda x: t.encode(x, add_special_tokens=False).ids, lambda i: t.decode(i, skip_special_tokens=False))


@trial("tokenizers", "added_tokens_decoder alone")
def newer(scratch):
    t = byte_bpe()
    n = t.get_vocab_size()
    d = folder(scratch, t, n=n + 2, config={"added_tokens_decoder": {str(n): {"content": "<tag>", "rstrip": True}, str(n + 1): {"content": "<ls>", "lstrip": True}}})
    t.add_tokens(added("<tag>", rstrip=True, normalized=False) + added("<ls>", lstrip=True, normalized=False))
    return judged(d, lambda x: t.encode(x, add_special_tokens=False).ids, lambda i: t.decode(i, skip_special_tokens=False))


def replaced(scratch, *parts):
    from tokenizers import decoders

    t = char_bpe()
    t.decoder = decoders.Sequence(list(parts))
    return like(t, scratch, config={"tokenizer_class": "LlamaTokenizer"})


@trial("tokenizers", "decoder: Replace of two texts")
def replace_two(scratch):
    from tokenizers import decoders as d

    return replaced(scratch, d.Replace("▁", " "), d.Replace("o", "0"), d.ByteFallback(), d.Fuse(), d.Strip(" ", 1, 0))


@trial("tokenizers", "decoder: Replace by a regex")
def replace_regex(scratch):
    from tokenizers import Regex, decoders as d

    return replaced(scratch, d.Replace(Regex("▁"), " "), d.ByteFallback(), d.Fuse())


@trial("tokenizers", "decoder: Replace after Fuse")
def replace_fused(scratch):
    from tokenizers import decoders as d

    return replaced(scratch, d.Replace("▁", " "), d.ByteFallback(), d.Fuse(), d.Replace("the", "THE"))
