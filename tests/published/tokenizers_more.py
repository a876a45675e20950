# SPDX-License-Identifier: MIT
"""More forms of published tokenizers: decoders, sequences of pre-tokenizers, unigram vocabularies, files in old and new
spellings."""
import json

from published import QWEN2, TEXT, convert, trial
from tokenizers_ import GPT2, LLAMA3, NASTY, added, byte_bpe, char_bpe, folder, judged, like


# ---- pre-tokenizers of byte-level BPE ---------------------------------------------------------------------------------------------
def bytes_with(pre, norm=None, post=None, size=420, **model):
    """A byte-level BPE whose pre-tokenizer is the list `pre`."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers as p, trainers

    t = Tokenizer(models.BPE(**model))
    t.pre_tokenizer = p.Sequence(pre) if isinstance(pre, list) else pre
    if norm:
        t.normalizer = norm
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator((TEXT + NASTY) * 4, trainers.BpeTrainer(vocab_size=size, initial_alphabet=p.ByteLevel.alphabet(), show_progress=False))
    t.add_special_tokens(["<|sp|>", "<|endoftext|>"])
    return t


def pre(name, make, *args, **files):
    def f(s):
        from tokenizers import Regex, normalizers, pre_tokenizers

        return like(bytes_with(make(pre_tokenizers, Regex)), s, **files)

    trial("tokenizers", "pre: " + name)(f)


BL = dict(add_prefix_space=False)
pre("ByteLevel alone", lambda p, R: p.ByteLevel(add_prefix_space=False))
pre("ByteLevel with a prefix space", lambda p, R: p.ByteLevel(add_prefix_space=True))
pre("Digits, ByteLevel", lambda p, R: [p.Digits(individual_digits=True), p.ByteLevel(add_prefix_space=False)])
pre("Digits in runs, ByteLevel", lambda p, R: [p.Digits(individual_digits=False), p.ByteLevel(add_prefix_space=False)])
pre("ByteLevel, Digits", lambda p, R: [p.ByteLevel(add_prefix_space=False), p.Digits(individual_digits=True)])
pre("Split then Digits, ByteLevel", lambda p, R: [p.Split(R(LLAMA3), "isolated"), p.Digits(individual_digits=True), p.ByteLevel(add_prefix_space=False, use_regex=False)])
pre("Punctuation, Digits, ByteLevel", lambda p, R: [p.Punctuation("contiguous"), p.ByteLevel(add_prefix_space=False), p.Digits(individual_digits=False), p.Split(R("[0-9][0-9][0-9]"), "isolated")])
pre("Punctuation isolated", lambda p, R: [p.Punctuation("isolated"), p.ByteLevel(add_prefix_space=False)])
pre("Split removed, inverted", lambda p, R: [p.Split(R(QWEN2), "removed", invert=True), p.ByteLevel(add_prefix_space=False, use_regex=False)])
pre("Split isolated, inverted", lambda p, R: [p.Split(R(QWEN2), "isolated", invert=True), p.ByteLevel(add_prefix_space=False, use_regex=False)])
pre("Split by a text", lambda p, R: [p.Split("\n", "isolated"), p.ByteLevel(add_prefix_space=False)])
pre("Split merged with next", lambda p, R: [p.Split(R(" "), "merged_with_next"), p.ByteLevel(add_prefix_space=False)])
pre("Split merged with previous", lambda p, R: [p.Split(R("\\n"), "merged_with_previous"), p.ByteLevel(add_prefix_space=False)])
pre("Split contiguous", lambda p, R: [p.Split(R("[0-9]"), "contiguous"), p.ByteLevel(add_prefix_space=False)])
pre("nested sequences", lambda p, R: [p.Sequence([p.Split(R("\\p{N}{1,3}"), "isolated")]), p.Sequence([p.Split(R(LLAMA3), "isolated"), p.ByteLevel(add_prefix_space=False, use_regex=False)])])
pre("three Splits", lambda p, R: [p.Split(R("[\\r\\n]"), "isolated"), p.Split(R("\\s?\\p{L}+"), "isolated"), p.Split(R("\\p{N}"), "isolated"), p.ByteLevel(add_prefix_space=False, use_regex=False)])
pre("Split, ByteLevel with its regex", lambda p, R: [p.Split(R("\\p{N}{1,3}"), "isolated"), p.ByteLevel(add_prefix_space=False, use_regex=True)])
pre("UnicodeScripts", lambda p, R: [p.UnicodeScripts(), p.ByteLevel(add_prefix_space=False)])
pre("Whitespace", lambda p, R: [p.Whitespace(), p.ByteLevel(add_prefix_space=False)])
pre("WhitespaceSplit", lambda p, R: [p.WhitespaceSplit(), p.ByteLevel(add_prefix_space=False)])
pre("BertPreTokenizer", lambda p, R: [p.BertPreTokenizer(), p.ByteLevel(add_prefix_space=False)])
pre("regex with a look-behind", lambda p, R: [p.Split(R(r"(?<=\p{L})(?=\p{N})|\s+|[^\s]+?(?=\s|$)"), "isolated"), p.ByteLevel(add_prefix_space=False, use_regex=False)])
pre("possessive and atomic", lambda p, R: [p.Split(R(r"(?>\p{L}++)|\p{N}{1,3}+| ?+[^\s\p{L}\p{N}]++|\s++"), "isolated"), p.ByteLevel(add_prefix_space=False, use_regex=False)])
pre("POSIX classes", lambda p, R: [p.Split(R(r"[[:alpha:]]+|[[:digit:]]|[[:space:]]+|[[:punct:]]"), "isolated"), p.ByteLevel(add_prefix_space=False, use_regex=False)])
pre("\\w and \\d", lambda p, R: [p.Split(R(r"\w+|\d|\W"), "isolated"), p.ByteLevel(add_prefix_space=False, use_regex=False)])
pre("ends of lines", lambda p, R: [p.Split(R(r"^\s+|\s+$|\S+\s?"), "isolated"), p.ByteLevel(add_prefix_space=False, use_regex=False)])
pre("scripts", lambda p, R: [p.Split(R(r"[\p{Han}\p{Hiragana}\p{Katakana}]+|\p{Hangul}|\p{Cyrillic}+|\p{Latin}+|\P{L}"), "isolated"), p.ByteLevel(add_prefix_space=False, use_regex=False)])
pre("FixedLength", lambda p, R: [p.FixedLength(5), p.ByteLevel(add_prefix_space=False)])


def norm(name, make):
    def f(s):
        from tokenizers import Regex, normalizers, pre_tokenizers as p

        return like(bytes_with([p.Split(Regex(QWEN2), "isolated"), p.ByteLevel(add_prefix_space=False, use_regex=False)], make(normalizers, Regex)), s)

    trial("tokenizers", "norm: " + name)(f)


norm("NFC in a sequence", lambda n, R: n.Sequence([n.NFC()]))
norm("empty sequence", lambda n, R: n.Sequence([]))
norm("NFKC", lambda n, R: n.NFKC())
norm("NFD", lambda n, R: n.NFD())
norm("Lowercase", lambda n, R: n.Lowercase())
norm("NFC, Lowercase", lambda n, R: n.Sequence([n.NFC(), n.Lowercase()]))
norm("Replace", lambda n, R: n.Replace("\r\n", "\n"))
norm("Strip", lambda n, R: n.Strip())
norm("Nmt", lambda n, R: n.Nmt())


def changed(name, change, make=byte_bpe, **files):
    """Edits tokenizer.json as text; the library reads the same file."""

    def f(s):
        from tokenizers import Tokenizer

        j = json.loads(make().to_str())
        j = change(j) or j
        text = json.dumps(j)
        try:
            t = Tokenizer.from_str(text)
        except Exception as e:
            t = None
            why = str(e)
        d = folder(s, None, n=len(j["model"]["vocab"]) + 8, **files)
        (d / "tokenizer.json").write_text(text)
        if t is None:
            p = convert(d)
            return p.refusal("tokenizer") or ("wrong", "the library refuses it: " + why)
        return judged(d, lambda x: t.encode(x, add_special_tokens=False).ids, lambda i: t.decode(i, skip_special_tokens=False))

    trial("tokenizers", "json: " + name)(f)


def set_model(**k):
    return lambda j: j["model"].update(k)


changed("merges as texts", lambda j: j["model"].update(merges=[x if isinstance(x, str) else " ".join(x) for x in j["model"]["merges"]]))
changed("merges as pairs", lambda j: j["model"].update(merges=[x.split(" ") if isinstance(x, str) else x for x in j["model"]["merges"]]))
changed("no model type", lambda j: j["model"].pop("type") and None)
changed("no version", lambda j: j.pop("version", 0) and None)
changed("null fields", lambda j: j.update(truncation=None, padding=None, post_processor=None))
changed("ignore_merges", set_model(ignore_merges=True))
changed("dropout null", set_model(dropout=None))
changed("unk_token", set_model(unk_token="<|endoftext|>"))
changed("empty prefix and suffix", set_model(continuing_subword_prefix="", end_of_word_suffix=""))
changed("suffix", set_model(end_of_word_suffix="</w>"))
changed("added token also in the vocabulary", lambda j: j["model"]["vocab"].update({"<|sp|>": len(j["model"]["vocab"])}))
changed("special token among the pieces", lambda j: j["added_tokens"].append(dict(id=j["model"]["vocab"]["the"], content="the", special=True, normalized=False, lstrip=False, rstrip=False, single_word=False)))
changed("added token twice", lambda j: j["added_tokens"].append(dict(j["added_tokens"][0])))
changed("WordPiece", lambda j: j.update(model=dict(type="WordPiece", vocab={"[UNK]": 0, "a": 1}, unk_token="[UNK]", continuing_subword_prefix="##", max_input_chars_per_word=100)))
changed("WordLevel", lambda j: j.update(model=dict(type="WordLevel", vocab={"[UNK]": 0, "a": 1}, unk_token="[UNK]")))
changed("ByteLevel with trim_offsets", lambda j: j["pre_tokenizer"]["pretokenizers"][1].update(trim_offsets=True))
changed("pre-tokenizer not in a sequence", lambda j: j.update(pre_tokenizer=dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)))
changed("use_regex absent", lambda j: j.update(pre_tokenizer=dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True)))


# ---- decoders ---------------------------------------------------------------------------------------------------------------------
def decoder(name, make, legacy="prepend", scheme="always", also=()):
    def f(s):
        from tokenizers import Regex, decoders

        t = char_bpe(legacy, scheme)
        t.decoder = decoders.Sequence(make(decoders, Regex))
        t.add_tokens(added(*also, normalized=False))
        return like(t, s, config={"tokenizer_class": "LlamaTokenizer"})

    trial("tokenizers", f"decoder: {name}, {legacy} {scheme}")(f)


META = "▁"
for legacy, scheme in (("prepend", "always"), ("replace", "never"), ("meta", "first"), ("meta", "always"), ("meta", "never")):
    decoder("no Strip", lambda d, R: [d.Replace(META, " "), d.ByteFallback(), d.Fuse()], legacy, scheme)
    decoder("Strip", lambda d, R: [d.Replace(META, " "), d.ByteFallback(), d.Fuse(), d.Strip(" ", 1, 0)], legacy, scheme)
    decoder("Strip and user tokens", lambda d, R: [d.Replace(META, " "), d.ByteFallback(), d.Fuse(), d.Strip(" ", 1, 0)], legacy, scheme, ["<tag>", "  two", "\n\n"])
    decoder("Metaspace", lambda d, R: [d.ByteFallback(), d.Metaspace(META, "always"), d.Fuse()], legacy, scheme)
    decoder("Metaspace never", lambda d, R: [d.ByteFallback(), d.Metaspace(META, "never"), d.Fuse()], legacy, scheme)
decoder("regexes", lambda d, R: [d.Replace(R("▁+"), " "), d.ByteFallback(), d.Fuse(), d.Replace(R(r"\s+([.,!?])"), "!"), d.Replace(R("[0-9]{2,}"), "#")])
decoder("regex of nothing", lambda d, R: [d.Replace(META, " "), d.ByteFallback(), d.Fuse(), d.Replace(R("(?=[A-Z])"), "_")])
decoder("Replace of a marked piece", lambda d, R: [d.Replace("▁the", "▁THE"), d.Replace(META, " "), d.ByteFallback(), d.Fuse()])
decoder("Strip of nothing", lambda d, R: [d.Replace(META, " "), d.ByteFallback(), d.Fuse(), d.Strip(" ", 0, 0)])


@trial("tokenizers", "decoder: Replace before ByteLevel")
def replace_bytes(scratch):
    from tokenizers import decoders as d

    t = byte_bpe()
    t.decoder = d.Sequence([d.Replace("Ġ", "Ċ"), d.ByteLevel()])
    return like(t, scratch)


@trial("tokenizers", "decoder: Replace after ByteLevel")
def replace_after_bytes(scratch):
    from tokenizers import Regex, decoders as d

    t = byte_bpe()
    t.decoder = d.Sequence([d.ByteLevel(), d.Replace(" the", " THE"), d.Replace(Regex("o+"), "0")])
    return like(t, scratch)


# ---- unigram ----------------------------------------------------------------------------------------------------------------------
def unigram(scheme="always", split=True, fallback=True, norm=None, decode=None, size=400):
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
    special = ["<unk>", "<s>", "</s>"] + ([f"<0x{i:02X}>" for i in range(256)] if fallback else [])
    t.train_from_iterator(TEXT * 4, trainers.UnigramTrainer(vocab_size=size, special_tokens=special, unk_token="<unk>", show_progress=False))
    vocab = [tuple(x) for x in json.loads(t.to_str())["model"]["vocab"]]
    t = Tokenizer(models.Unigram(vocab, 0, fallback))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
    if norm:
        t.normalizer = norm(normalizers)
    t.decoder = decode(decoders) if decode else decoders.Metaspace(prepend_scheme=scheme)
    t.add_special_tokens(["<unk>", "<s>", "</s>"])
    return t


CLEAN = [t for t in NASTY if "\ufffd" not in t]
for scheme in ("always", "first", "never"):
    for split in (True, False):
        for fallback in (True, False):
            for also in (None, True, False):

                def f(s, scheme=scheme, split=split, fallback=fallback, also=also):
                    t = unigram(scheme, split, fallback, None, lambda d: d.Sequence([d.ByteFallback(), d.Metaspace(prepend_scheme=scheme)]) if fallback else d.Metaspace(prepend_scheme=scheme))
                    if also is not None:
                        t.add_tokens(added("<tag>", "<ls>", normalized=also))
                    return like(t, s, CLEAN)

                trial("tokenizers", f"unigram: {scheme}, split {split}, bytes {fallback}, added {also}")(f)
for name, norm_of in {
    "NFC": lambda n: n.NFC(), "NFKC": lambda n: n.NFKC(), "Prepend and Replace": lambda n: n.Sequence([n.Prepend(META), n.Replace(" ", META)]),
    "Replace": lambda n: n.Replace(" ", META),
}.items():
    trial("tokenizers", f"unigram: {name}")(lambda s, m=norm_of: like(unigram("never", False, True, m, lambda d: d.Sequence([d.ByteFallback(), d.Metaspace(prepend_scheme="never")])), s, CLEAN))


# ---- tokenizer_config.json --------------------------------------------------------------------------------------------------------
def by_transformers(name, config, make=byte_bpe, texts=NASTY, **files):
    """Compares a folder with AutoTokenizer."""

    def f(s):
        from transformers import AutoTokenizer

        t = make()
        d = folder(s, t, config=config, n=t.get_vocab_size() + 8, **files)
        try:
            hf = AutoTokenizer.from_pretrained(d)
        except Exception as e:
            p = convert(d)
            return p.refusal("tokenizer") or ("right", f"transformers refuses it: {str(e)[:100]}")
        return judged(d, lambda x: hf.encode(x, add_special_tokens=False), lambda i: hf.decode(i, skip_special_tokens=False, clean_up_tokenization_spaces=False), texts)

    trial("tokenizers", "config: " + name)(f)


FAST = dict(tokenizer_class="PreTrainedTokenizerFast", eos_token="<|endoftext|>")
by_transformers("extra_special_tokens as a list", dict(FAST, extra_special_tokens=["<tag>", "<ls>"]), lambda: byte_bpe(added=["<tag>", "<ls>"]))
by_transformers("extra_special_tokens as an object", dict(FAST, extra_special_tokens={"image_token": "<tag>"}), lambda: byte_bpe(added=["<tag>"]))
by_transformers("extra_special_tokens empty", dict(FAST, extra_special_tokens={}))
by_transformers("additional_special_tokens", dict(FAST, additional_special_tokens=["<tag>", "<ls>"]), lambda: byte_bpe(added=["<tag>", "<ls>"]))
by_transformers("additional_special_tokens that are new", dict(FAST, additional_special_tokens=["<tag>", "<ls>"]))
by_transformers("extra_special_tokens that are new", dict(FAST, extra_special_tokens=["<tag>"]))
by_transformers("additional_special_tokens null", dict(FAST, additional_special_tokens=None))
by_transformers("bos_token new", dict(FAST, bos_token="<s>"))
by_transformers("pad_token new", dict(FAST, pad_token="<pad>"))


@trial("tokenizers", "config: pad_token a piece")
def ordinary_pad(scratch):
    """transformers drops this token's text from answers, even inside words; hone keeps it as text and warns."""
    p = convert(folder(scratch, byte_bpe(), config=dict(FAST, pad_token="the")))
    return "right" if p.rc == 0 and '"the" is an ordinary piece' in p.err else ("wrong", p.err)


by_transformers("eos_token an object with lstrip", dict(FAST, eos_token=dict(__type="AddedToken", content="<|endoftext|>", lstrip=True, rstrip=True, normalized=False, single_word=False)))
by_transformers("add_prefix_space true", dict(FAST, add_prefix_space=True))
by_transformers("add_prefix_space false", dict(FAST, add_prefix_space=False))
by_transformers("GPT2Tokenizer, add_prefix_space", dict(FAST, tokenizer_class="GPT2Tokenizer", add_prefix_space=True), lambda: byte_bpe(GPT2))
by_transformers("TokenizersBackend", dict(FAST, tokenizer_class="TokenizersBackend", backend="tokenizers"))
by_transformers("no class", dict(eos_token="<|endoftext|>"))
by_transformers("empty config", {})
by_transformers("decoder entry against the json", dict(FAST, added_tokens_decoder={"420": dict(content="<|other|>", special=True, lstrip=False, rstrip=False, normalized=False, single_word=False)}))
for k in ("lstrip", "rstrip", "single_word"):
    flags = dict(lstrip=False, rstrip=False, normalized=False, single_word=False)
    by_transformers(f"decoder entry with another {k}", dict(FAST, added_tokens_decoder={str(i): dict(flags, content=c, special=True, **{k: True}) for i, c in ((420, "<|sp|>"), (421, "<|endoftext|>"))}))
by_transformers("decoder entry not special", dict(FAST, added_tokens_decoder={"420": dict(content="<|sp|>", special=False, lstrip=False, rstrip=False, normalized=False, single_word=False)}))
by_transformers("added_tokens.json overlapping", FAST, added_tokens__json={"<|sp|>": 420, "<|endoftext|>": 421})
by_transformers("added_tokens.json overlapping the vocabulary", FAST, added_tokens__json={"the": 300, "<tag>": 422})
by_transformers("model_max_length huge", dict(FAST, model_max_length=1000000000000000019884624838656))


# ---- vocab.json and merges.txt alone ------------------------------------------------------------------------------------------------
def slow(name, make, config, words=(), texts=NASTY, **files):
    """Compares the two files that slow tokenizers save with AutoTokenizer."""

    def f(s):
        from transformers import AutoTokenizer

        t = make()
        m = json.loads(t.to_str())["model"]
        added = {x: t.token_to_id(x) for x in ("<|sp|>", "<|endoftext|>")}
        lines = ["#version: 0.2"] + [x if isinstance(x, str) else " ".join(x) for x in m["merges"]]
        d = folder(s, None, n=t.get_vocab_size(), config=config, vocab__json=m["vocab"], merges__txt="\n".join(lines) + "\n", added_tokens__json=added, **files)
        if words:
            return convert(d).refusal(*words) or "wrong"
        hf = AutoTokenizer.from_pretrained(d)
        return judged(d, lambda x: hf.encode(x, add_special_tokens=False), lambda i: hf.decode(i, skip_special_tokens=False, clean_up_tokenization_spaces=False), texts)

    trial("tokenizers", "slow files: " + name)(f)


END = dict(eos_token="<|endoftext|>", additional_special_tokens=["<|sp|>"])
slow("Qwen2Tokenizer", lambda: byte_bpe(norm="NFC"), dict(END, tokenizer_class="Qwen2Tokenizer", bos_token=None, pad_token="<|endoftext|>"))
slow("GPT2Tokenizer", lambda: byte_bpe(GPT2), dict(END, tokenizer_class="GPT2Tokenizer"))
slow("GPT2Tokenizer, add_prefix_space", lambda: byte_bpe(GPT2), dict(END, tokenizer_class="GPT2Tokenizer", add_prefix_space=True))
slow("an unknown class", byte_bpe, dict(END, tokenizer_class="OwnTokenizer"), ("OwnTokenizer", "--pre"))
