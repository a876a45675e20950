#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Adds to tests/golden/tok_families/ tokenizers in the other forms found in published folders: tiktoken files, added tokens
that are normalized or single words, decoders that replace text, split regexes in different spellings.

Oracles: tiktoken with the family's regex and special tokens; tokenizers. Strings: those of tok_families.py and, under "more",
some that contain the added tokens.

Usage: python3 tests/oracle/tok_published.py   (from the repository root; tiktoken 0.14.0, tokenizers 0.23.3)
"""
import base64
import json
import sys
import unicodedata

import tiktoken
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers as pt, trainers

sys.path.insert(0, "tests/oracle")
import tok_families as tf  # noqa: E402


# ---- tiktoken -------------------------------------------------------------------------------------------------------------------
def ranks_of(regex, norm, vocab):
    """Byte strings in rank order, from an ordinary byte-level BPE: the single bytes, then the merges of its
    training."""
    tok = tf.byte_level("ranks", tf.cut(regex), norm, False, vocab=vocab)
    alphabet = {c: b for b, c in zip(list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256)), [chr(c) for c in list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))])}
    for n, b in enumerate(b for b in range(256) if chr(b) not in alphabet):
        alphabet[chr(256 + n)] = b
    words = json.loads(tok.to_str())["model"]["vocab"]
    return [bytes(alphabet[c] for c in w) for w, _ in sorted(words.items(), key=lambda x: x[1])]


def tiktoken_family(name, file, regex, ranks, special, files, norm=None, repeat=False):
    lines = [base64.b64encode(r).decode() for r in ranks]
    rows = [f"{x} {i}" for i, x in enumerate(lines)]
    if repeat:  # Hunyuan's loader skips a repeated line and renumbers the rest
        rows.insert(300, lines[40] + " 300")
        rows[301:] = [f"{x.split()[0]} {i + 301}" for i, x in enumerate(rows[301:])]
    enc = tiktoken.Encoding(name, pat_str=regex, mergeable_ranks={r: i for i, r in enumerate(ranks)}, special_tokens=special)
    ids, text = [], []
    for s in tf.STRINGS:
        got = enc.encode(unicodedata.normalize("NFC", s) if norm else s, allowed_special="all")
        ids.append(got)
        back = enc.decode(got)
        text.append(None if back == s else back)
    ids += [None] * len(tf.BAD)
    text += [None] * len(tf.BAD)
    files = dict(files, tiktoken=base64.b64encode(("\n".join(rows) + "\n").encode()).decode(), tiktoken_name=file)
    return dict(name=name, oracle="tiktoken 0.14.0", files=files, special=True, ids=ids, text=text)


def tiktoken_families():
    ranks = ranks_of(tf.KIMI, None, 512)
    names = {len(ranks): "[BOS]", len(ranks) + 1: "[EOS]", len(ranks) + 2: "<|im_end|>", len(ranks) + 5: "[INST]"}
    special = {names.get(i, f"<|reserved_token_{i}|>"): i for i in range(len(ranks), len(ranks) + 256)}
    config = {"tokenizer_class": "TikTokenTokenizer", "bos_token": "[BOS]", "eos_token": "[EOS]",
              "added_tokens_decoder": {str(i): {"content": c, "special": True} for i, c in names.items()}}
    yield tiktoken_family("tiktoken-kimi", "tiktoken.model", tf.KIMI, ranks, special, {"tokenizer_config.json": config})
    ranks = ranks_of(tf.QWEN2, normalizers.NFC(), 512)
    ranks.append(b" user@exa")  # no two other tokens merge to it, so that it is found only as a whole
    ranks.append("\u00c5ngstr\u00f6m".encode())
    hy = ["<|endoftext|>", "<|startoftext|>", "<|bos|>", "<|eos|>", "<|pad|>"] + [f"<|extra_{i}|>" for i in range(205)]
    special = {t: len(ranks) + i for i, t in enumerate(hy)}
    yield tiktoken_family("tiktoken-hunyuan", "hy.tiktoken", tf.QWEN2, ranks, special, {"tokenizer_config.json": {"tokenizer_class": "HYTokenizer"}}, norm=True, repeat=True)
    qwen = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [f"<|extra_{i}|>" for i in range(205)]
    special = {t: len(ranks) + i for i, t in enumerate(qwen)}
    yield tiktoken_family("tiktoken-qwen", "qwen.tiktoken", tf.QWEN2, ranks, special, {"tokenizer_config.json": {"tokenizer_class": "QWenTokenizer"}}, norm=True)


def tiktoken_names():
    """GLM-4's file, which is called tokenizer.model, and a file of a different name whose class is known."""
    ranks = ranks_of(tf.LLAMA3, None, 512)
    names = ["<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>", "<|system|>", "<|user|>"]
    special = {t: len(ranks) + i for i, t in enumerate(names)}
    config = {"tokenizer_class": "ChatGLM4Tokenizer", "added_tokens_decoder": {str(i): {"content": c, "special": True} for c, i in special.items()}}
    row = tiktoken_family("tiktoken-chatglm", "tokenizer.model", tf.LLAMA3, ranks, special, {"tokenizer_config.json": config})
    row["files"]["tokenizer.model"] = row["files"].pop("tiktoken")
    del row["files"]["tiktoken_name"]
    yield row
    ranks = ranks_of(tf.QWEN2, normalizers.NFC(), 512)
    qwen = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [f"<|extra_{i}|>" for i in range(205)]
    special = {t: len(ranks) + i for i, t in enumerate(qwen)}
    yield tiktoken_family("tiktoken-name", "own.tiktoken", tf.QWEN2, ranks, special, {"tokenizer_config.json": {"tokenizer_class": "QWenTokenizer"}}, norm=True)


# ---- added tokens ---------------------------------------------------------------------------------------------------------------
MORE = [a + b + c + d + e for a in ("", "x", " ", "a ", "\n", "é") for b in ("<|x|>", "<w>", "word", "<w>word", "word word", "<|x|><|x|>", "<n>")
        for c in ("", " ") for d in ("", "y", ".", "_", "9", "\u0338", " b") for e in ("",)] + ["a b <w> c", "<w>", "<w><w>", "(<w>)", "<s>word</s>", "words word sword", "<|x|>user\nHi <w>\n"]


def own_strings(name, tok, strip=(), where=None, **kw):
    """A family with its own test strings. `where` moves these ids from tokenizer.json to a different file."""
    ids = [tok.encode(s, add_special_tokens=False).ids for s in MORE]
    text = [tok.decode(i, skip_special_tokens=False) for i in ids]
    j = json.loads(tok.to_str())
    files = kw.pop("files", {})
    if where:
        moved = [t for t in j["added_tokens"] if t["content"] in where[1]]
        j["added_tokens"] = [t for t in j["added_tokens"] if t["content"] not in where[1]]
        if where[0] == "added_tokens.json":
            files = dict(files, **{where[0]: {t["content"]: t["id"] for t in moved}})
        else:
            config = {"added_tokens_decoder": {str(t.pop("id")): t for t in moved}}
            files = dict(files, **{"tokenizer_config.json": config})
    return dict(name=name, oracle="tokenizers 0.23.3", files=dict({"tokenizer.json": j}, **files), special=True, strings=MORE, ids=ids,
                text=[None if t == s else t for t, s in zip(text, MORE)], **kw)


def added(tok):
    tok.add_tokens([AddedToken("<|x|>", normalized=True, special=False), AddedToken("word", single_word=True, normalized=False),
                    AddedToken("<w>", normalized=True, single_word=True), AddedToken("<n>", normalized=True, lstrip=True, rstrip=True)])
    return tok


def added_families():
    base = tf.train_sp(**tf.SP_SPECIALS)
    marks = tf.special("<unk>", "<s>", "</s>")
    replace = normalizers.Replace(" ", tf.META)
    legacy = normalizers.Sequence([normalizers.Prepend(tf.META), replace])
    sp = {"tokenizer.model": base64.b64encode(base).decode()}
    yield own_strings("added-prepend", added(tf.json_of(base, legacy, None, marks)))
    yield own_strings("added-prepend-sp", added(tf.json_of(base, legacy, None, marks)), files=sp)
    yield own_strings("added-metaspace", added(tf.json_of(base, None, pt.Metaspace(tf.META, prepend_scheme="always", split=False), marks)))
    yield own_strings("added-first", added(tf.json_of(base, None, pt.Metaspace(tf.META, prepend_scheme="first", split=False), marks)))
    yield own_strings("added-gemma", added(tf.json_of(base, replace, pt.Split(" ", "merged_with_previous"), marks)), files={"config.json": {"model_type": "gemma3_text"}})
    yield own_strings("added-bytes", added(tf.byte_level("qwen2", tf.cut(tf.QWEN2), normalizers.NFC(), False)))
    yield own_strings("added-bytes-plain", added(tf.byte_level("dbrx", tf.cut(tf.LLAMA3), None, False)))
    plain = tf.byte_level("dbrx", tf.cut(tf.LLAMA3), None, False)
    plain.add_tokens([AddedToken("<|x|>", normalized=False, special=True), AddedToken("<w>", normalized=True)])
    yield own_strings("added-decoder", plain, where=("added_tokens_decoder", ("<|x|>", "<w>", "<|im_start|>")))
    plain = tf.byte_level("dbrx", tf.cut(tf.LLAMA3), None, False)
    plain.add_tokens([AddedToken("<|x|>", normalized=True), AddedToken("<w>", normalized=True)])
    yield own_strings("added-json", plain, where=("added_tokens.json", ("<|x|>", "<w>")))


# ---- decoders -------------------------------------------------------------------------------------------------------------------
def decoder_families():
    base = tf.train_sp(**tf.SP_SPECIALS)
    marks = tf.special("<unk>", "<s>", "</s>")
    tok = tf.json_of(base, None, pt.Metaspace(tf.META, prepend_scheme="always", split=False), marks)
    tok.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(tf.META, prepend_scheme="always"), decoders.Fuse(), decoders.Replace("\n ", "\n")])
    yield tf.hf_family("decoder-lucie", tok, replaces=True)
    tok = tf.json_of(base, normalizers.Sequence([normalizers.Prepend(tf.META), normalizers.Replace(" ", tf.META)]), None, marks)
    tok.decoder = decoders.Sequence([decoders.Replace(tf.META, " "), decoders.Replace("in", "IN"), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0), decoders.Replace(" .", ".")])
    yield tf.hf_family("decoder-both", tok, replaces=True)


# ---- split regexes --------------------------------------------------------------------------------------------------------------
def no_strip_families():
    """Decoders that keep the added space, or replace by regexes."""
    base = tf.train_sp(**tf.SP_SPECIALS)
    marks = tf.special("<unk>", "<s>", "</s>")
    legacy = normalizers.Sequence([normalizers.Prepend(tf.META), normalizers.Replace(" ", tf.META)])
    tok = tf.json_of(base, legacy, None, marks)
    tok.decoder = decoders.Sequence([decoders.Replace(tf.META, " "), decoders.ByteFallback(), decoders.Fuse()])
    yield tf.hf_family("decoder-no-strip", tok)
    tok = tf.json_of(base, None, pt.Metaspace(tf.META, prepend_scheme="first", split=False), marks)
    tok.decoder = decoders.Sequence([decoders.Replace(Regex(tf.META), " "), decoders.Replace(Regex("(?<=a)n+"), "N"), decoders.ByteFallback(), decoders.Fuse(),
                                     decoders.Replace(Regex(r"\s+([.,!?])"), "!"), decoders.Replace(Regex(r"[0-9]{2,}|(?=\bth)"), "#")])
    yield tf.hf_family("decoder-regex", tok)


# ---- normal forms, spaces, flags ------------------------------------------------------------------------------------------------
def unigram(norm=None, **flags):
    """A unigram vocabulary after Metaspace, with two added tokens that have these `flags`."""
    tok = Tokenizer(models.Unigram())
    tok.pre_tokenizer = pt.Metaspace(tf.META, prepend_scheme="always", split=False)
    marks = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    tok.train_from_iterator(tf.CORPUS, trainers.UnigramTrainer(vocab_size=700, special_tokens=marks, unk_token="<unk>", show_progress=False))
    tok = Tokenizer(models.Unigram([tuple(x) for x in json.loads(tok.to_str())["model"]["vocab"]], 0, True))
    tok.pre_tokenizer = pt.Metaspace(tf.META, prepend_scheme="always", split=False)
    if norm:
        tok.normalizer = norm
    tok.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(tf.META, prepend_scheme="always")])
    tok.add_special_tokens(["<unk>", "<s>", "</s>"])
    tok.add_tokens([AddedToken("<|x|>", normalized=True), AddedToken("<w>", normalized=True), AddedToken("word", normalized=False), AddedToken("<n>", **flags)])
    return tok


def form_families():
    yield own_strings("added-unigram", unigram(normalized=True, lstrip=True))
    yield own_strings("added-unigram-nfc", unigram(normalizers.NFC(), normalized=True, rstrip=True))
    for form in ("NFKC", "NFD"):
        yield tf.hf_family("form-" + form.lower(), tf.byte_level("dbrx", tf.cut(tf.LLAMA3), getattr(normalizers, form)(), False))
    tok = tf.byte_level("dbrx", tf.cut(tf.LLAMA3), None, False)
    tok.add_tokens([AddedToken("<|x|>", normalized=False, special=True), AddedToken("<w>", normalized=False, special=True)])
    n = tok.get_vocab_size()
    plain, j = json.loads(tok.to_str()), json.loads(tok.to_str())
    # transformers takes the flags of tokenizer_config.json, and adds what only that file calls special.
    config = {"added_tokens_decoder": {str(n - 2): {"content": "<|x|>", "special": True, "lstrip": True}, str(n - 1): {"content": "<w>", "special": True, "rstrip": True}},
              "additional_special_tokens": ["<n>"], "pad_token": "<p>"}
    for t in j["added_tokens"]:
        t.update({"<|x|>": {"lstrip": True}, "<w>": {"rstrip": True}}.get(t["content"], {}))
    tok = Tokenizer.from_str(json.dumps(j))
    tok.add_special_tokens(["<p>", "<n>"])
    row = own_strings("added-config", tok, files={"tokenizer_config.json": config, "config.json": {"vocab_size": n + 4}}, n_vocab=n + 4)
    row["files"]["tokenizer.json"] = plain
    yield row


# ---- pre-tokenizers -------------------------------------------------------------------------------------------------------------
def pre_families():
    def bl():
        return pt.ByteLevel(add_prefix_space=False, use_regex=False)

    for name, parts in {
        "pre-removed": [pt.Split(Regex(tf.LLAMA3), "removed", invert=True), bl()],
        "pre-texts": [pt.Split("\n", "isolated"), pt.Split(Regex("[0-9]"), "contiguous"), pt.Split(" ", "merged_with_previous"), bl()],
        "pre-next": [pt.Punctuation("merged_with_next"), pt.Split(Regex(" "), "merged_with_next"), bl()],
        "pre-syntax": [pt.Split(Regex(r"(?>\p{L}++)|\p{N}{1,3}+|[[:punct:]]|\w{2}?|[\w[$%]]\b|\h{,2}|\s++|."), "isolated"), bl()],
    }.items():
        yield tf.hf_family(name, tf.byte_level("own", parts, None, False))


def regex_families():
    one = tf.QWEN2.replace(r"|\p{N}|", r"|\p{N}{1}|").replace(r"\s*[\r\n]+", r"(?:\s*[\r\n]+)")
    yield tf.hf_family("regex-rewritten", tf.byte_level("qwen2", tf.cut(one), normalizers.NFC(), False), pre="qwen2")
    own = r"[A-Z]?[a-z]+(?:-[a-z]+)*|\p{N}{1,2}| ?\p{L}\p{M}*| ?[^\s\p{L}\p{N}]+$|[^\s\p{L}\p{N}]|\s+"
    yield tf.hf_family("regex-own", tf.byte_level("own", tf.cut(own), None, False))
    yield tf.hf_family("regex-own-levels", tf.byte_level("own", tf.cut(r"\p{N}{1,2}", r"[\p{Han}]|^ +", tf.LLAMA3.replace("?\\p{L}+", "?[\\p{L}_]+")), None, False))


def families():
    yield from regex_families()
    yield from tiktoken_families()
    yield from added_families()
    yield from decoder_families()
    yield from no_strip_families()
    yield from form_families()
    yield from pre_families()
    yield from tiktoken_names()


def main():
    for f in families():
        f["text"] = [t.replace("\u0000", "\ufffd") if t else t for t in f["text"]]
        tf.write(f["name"], json.dumps(f, ensure_ascii=True, separators=(",", ":")).encode())
        print(f["name"])


main()
