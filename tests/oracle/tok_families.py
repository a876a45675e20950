#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/tok_families/: small tokenizers like those of published families, and the results of the libraries that
define them for hostile strings.

Vocabularies are trained here, on calib/text and lines below, by `tokenizers` (byte-level BPE, tokenizer.json) and by
`sentencepiece` (tokenizer.model); normalizer, pre-tokenizer, added tokens and options are those of each family. A
tokenizer.json next to a tokenizer.model gets its merges from the pieces: every way to compose a piece, best piece first.

Ids and texts come from `sentencepiece` for families with tokenizer.model, and from `tokenizers` for the others. One file per
family, gzip'd JSON:
  name, oracle, files {name: object, or base64 for tokenizer.model}, ids [[...] per string; null where the library takes no such
  string], text [the decoded text where it is not the string itself, else null]
strings.json.gz: the strings; the last ones are not UTF-8.

Usage: python3 tests/oracle/tok_families.py   (from the repository root; tokenizers 0.23.3, sentencepiece 0.2.3, gguf 0.19.0)
"""
import base64
import gzip
import hashlib
import io
import json
import os
import pathlib
import random
import tempfile
import unicodedata

import gguf
import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers as pt, processors, trainers

OUT = "tests/golden/tok_families"
META = "\u2581"

# ---- texts --------------------------------------------------------------------------------------------------------------
MORE = """Übergrößenträger naïve café façade piñata smörgåsbord Zürich Kraków Łódź İstanbul ğüşöç
Привет, как дела? Сегодня хорошая погода, и мы идём в парк. Ελληνικά γράμματα και λέξεις στην πρόταση.
日本語のテキストを書いています。カタカナとひらがなと漢字。東京は大きい。 中文字符测试，我们今天去公园散步。天气很好。
한국어 텍스트 테스트입니다. 오늘 날씨가 좋습니다. हिन्दी में लिखा हुआ पाठ। ภาษาไทยไม่มีช่องว่าง
עברית מימין לשמאל. العربية من اليمين إلى اليسار، والسلام عليكم.
def fib(n):\n    if n < 2:\n        return n\n    return fib(n - 1) + fib(n - 2)\n
for (int i = 0; i < 10; i++) { printf("%d\\n", i); }
1 12 123 1234 12345 3.14159 1,000,000 2024-11-23 0x1F 99% $100 €50
I'm you're he's we've they'll don't CAN'T I'D it's
http://example.com/path?q=1&r=2 user@example.org C:\\Users\\name <b>bold</b> {"key": [1, 2, 3]}
"""


def corpus():
    lines = []
    for name in ("calib/text/calib.txt", "calib/text/eval.txt"):
        lines += [line for line in open(name, encoding="utf-8").read().split("\n") if line.strip()]
    return lines[::2] + MORE.split("\n") * 8


CORPUS = corpus()

HAND = [
    "", " ", "  ", "   ", "a", " a", "a ", "  a  ", "a b", "a  b", "a   b    c", "\n", "\n\n", "\n \n", "\t", "\r\n", " \n", "\n ", "a\n", "a\n\nb", "a \n b",
    "\ta\tb", "Hello world", " Hello world", "Hello  world ", "hello\u2581world", "\u2581", "\u2581a", " \u2581", "\u2581\u2581 \u2581", "a\u2581 b",
    "0", "00", "007", "1234567890", "12345678901234567890", "3.14159 1,000,000", "1 2 3", " 1 22 333 4444", "x1y22z333", "123abc", "abc123 456", "٣٤٥٦ १२३४ ４５６",
    "²³½¾Ⅷ一二三", "\u00bd123", "12\u00b2", "I'm you're HE'S we'Ve they'LL D'oh 's 't", "don't''x'", "naïve café", "cafe\u0301 e\u0301\u0323 n\u0303", "\u0301a", "a\u0301\u0301\u0301\u0301",
    "\u212b \u00c5 A\u030a", "\ufb01 \ufb03 \u2126 \u212a", "Ａｂｃ １２３ ｶﾞ", "\u1e9b\u0323", "\u0344 \u0958", "\uac00 \u1100\u1161\u11a8", "ǅ ǈ ʰ ß ẞ ſ",
    "日本語のテキスト", "中文 混合English和123数字", "한국어 텍스트", "हिन्दी में पाठ", "ภาษาไทยทดสอบ", "עברית", "العربية ١٢٣", "\u202eright to left\u202c \u200f\u200e",
    "שלום world مرحبا", "Привет МИР Ёлка", "Ελληνικά ΚΑΙ", "😀", "😀😃😄", "👨‍👩‍👧‍👦", "👍🏽👍", "🇩🇪🇫🇷🇯", "❤️ ☺ ☺️", "e😀f 😀 g", "\U0001f3f4\U000e0067\U000e0062\U000e007f", "𝔘𝔫𝔦 𠮷𠮷",
    "a\u0000b", "\u0000", "\u0000\u0000 \u0000", "\u0001\u0002\u0003", "\u007f\u0080\u009f", "\u00ad\u200b\u200c\u200d\u2060\ufeff", "\ufffd \ufffe \uffff \ue000", "a\u00a0b\u2003c\u3000d\u202fe",
    "\u1680\u180e\u2028\u2029\u0085", "\u000b\u000c\u001c\u001f", "line\u2028sep", "<s>", "</s>", "<unk>", "<pad>", "<s>a", "a<s>", "a <s> b", "<s> a</s>  b", "a</s>", "</s></s>", "<s><s>x",
    "[INST] hi [/INST]", "<|im_start|>user\nHi<|im_end|>\n", "<|end|>  x", "x  <|end|>", "a <mask> b", "a  <mask>  b\n<mask>", "<tool> x</tool>", "x<tool>y", "<x1><x2>", "<x1>a <x2>", "<x", "<|im_", "<<s>>",
    "<0x41>", "<0x0A>x", "[PAD7]", "a[PAD7]b", "x" * 60, "ab" * 40, "a" * 33 + " " + "b" * 17, " " * 40, "\n" * 20, " \n" * 12, "-" * 30, "=" * 13 + ">", "0" * 40, "é" * 25, "日" * 30, "😀" * 12, "\u0301" * 12,
    "the the the the", "thethethethe", "aaaa bbbb aaab abab baab", "in in inin ininin", "!?.,;:" * 5, "...!!!???", "$100 €50 100%", "#include <stdio.h>\n#define X 1\n", "def f(x):\n    return x**2\n\n\nclass A:\n\tpass\n",
    "if (a && b || !c) { i++; }", "a_b_c __init__ camelCaseAndUPPER McDonald", "http://example.com/path?q=1&r=2#frag", "C:\\Users\\name", "{\"k\": [1, 2.5e-3, null]}", "'''quotes''' \"double\" `tick`",
    "tail space ", "tail newline\n", "two  \n\n  gaps", "MiXeD cAsE wOrDs", "ÀÉÎÕÜ àéîõü", "ĄĆĘŁ ąćęł", "O\u2019Neill \u201cquoted\u201d \u2018x\u2019 \u2013 \u2014 \u2026", "Hello, world! How are you?", "  leading and trailing  ",
    "1st 2ND 3rd", "A.B.C. e.g. i.e.", "\u4e00\u9fa5\u9fa6\u3400", "\u0800\u0801 \ud7a3\ud7b0", "x\u0e33y", "\U0010ffff", "\u0915\u094d\u0937\u093f", "क्षत्रिय", "ກຂ ខ្មែរ မြန်မာ", "ㄅㄆㄇ ㄱㅏ", "IMGIMGABZ <sentinel:12>",
    "\u3007\u3005\u303b々〇", "〱〲 ヽヾ", "𐐀𐐨 𞤀𞤢", "ℂℓ ⅅ Ↄ", "「全角」、。！？（）", "A\u030aA\u0308\u0304", "dz\u030c \u01c6", "\u03d3\u0301", "word\u200bword", "a\u034fb", "٪ ۔ ، ؟", "।॥", "x²+y²=z²", "№5 ™ ©",
]
BAD = [b"\xff", b"a\xffb", b"\xe6\x97", b"\xe6\x97\xe6\x97\xa5", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"ok \x80\x81 ok", b" \xfe \xfe ", b"\xf0\x9f\x98", b"x\xc3", b"\xc3(", b"<s>\xff</s>"]


def strings():
    rng = random.Random(11)
    old = json.loads(open("tests/golden/models/tokens.json", "rb").read().decode("utf-8", "surrogatepass"))["cases"]
    ok = [s for s in old if 0 < len(s) <= 70 and not any(0xD800 <= ord(c) < 0xE000 for c in s)]
    rng.shuffle(ok)
    seen, out = set(), []
    for s in HAND + ok[:150]:
        if s not in seen:
            seen.add(s)
            out.append(s)
    return out


STRINGS = strings()

# ---- byte-level BPE --------------------------------------------------------------------------------------------------------------
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LEAD = r"[^\r\n\p{L}\p{N}]?"
BLANK = r"\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = SHORT + "|" + LEAD + r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + BLANK
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
QWEN35 = SHORT + "|" + LEAD + r"[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + BLANK
U, L = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"


def cased(short, digits, tail, less=""):
    return (
        rf"{LEAD}[{U}{less}]*[{L}{less}]+{short}|{LEAD}[{U}{less}]+[{L}{less}]*{short}|{digits}| ?[^\s\p{{L}}\p{{N}}]+{tail}|" + BLANK
    )


GPT4O = cased(SHORT + "?", r"\p{N}{1,3}", r"[\r\n/]*")
TEKKEN = cased("", r"\p{N}", r"[\r\n/]*")
KIMI = r"[\p{Han}]+|" + cased(SHORT + "?", r"\p{N}{1,3}", r"[\r\n]*", r"&&[^\p{Han}]")
SYMBOLS = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|""" + BLANK
)
CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
CASED_LETTERS = (
    "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386"
    "\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf"
    "\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4"
    "\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115"
    "\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee"
    "\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
    "\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943]+"
)
PUNCT = "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"
ASIA = (
    "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f"
    "\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+"
)
YOUTU = (
    "[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+"
    "|[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
)
BLOOM = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
JAIS2 = LLAMA3[: -len(r"\s+(?!\S)|\s+")] + "|".join(rf"\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4)) + r"|\s{1,2}(?!\S)|\s{1}"


def cut(*regexes):
    return [pt.Split(Regex(r), "isolated") for r in regexes]


def level(**kw):
    return pt.ByteLevel(add_prefix_space=kw.pop("space", False), **kw)


MARKS = [("<|im_start|>", True), ("<|im_end|>", True), ("<tool>", False), ("</tool>", False), ("<s>", True), ("</s>", True)]
BYTE_LEVEL = {  # name: (steps, normalizer, ignore_merges)
    "qwen2": (cut(QWEN2), normalizers.NFC(), False),
    "stablelm2": (cut(QWEN2), None, False),
    "qwen35": (cut(QWEN35), normalizers.NFC(), False),
    "tekken": (cut(TEKKEN), None, True),
    "gpt-2": ([level()], None, False),
    "mpt": ([level()], normalizers.NFC(), False),
    "llama-bpe": (cut(LLAMA3), None, True),
    "dbrx": (cut(LLAMA3), None, False),
    "gpt-4o": (cut(GPT4O), None, False),
    "granite-embed-multi-97m": (cut(GPT4O), None, True),
    "tiny_aya": (cut(r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O), None, False),
    "smollm": ([pt.Digits(individual_digits=True), level()], None, False),
    "deepseek-v3": (cut(r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", SYMBOLS), None, False),
    "deepseek-llm": (cut(r"[" + "\r\n]", CASED_LETTERS, PUNCT, r"\s+$", CJK) + [pt.Digits(individual_digits=True)], None, False),
    "deepseek-coder": (cut("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK) + [pt.Digits(individual_digits=True)], normalizers.Sequence([]), False),
    "kimi-k2": (cut(KIMI), None, False),
    "seed-coder": (cut(QWEN2.replace(r" ?[^\s\p{L}\p{N}]+[\r\n]*", r" ?[^\s\p{L}\p{N}\r\n]+")), None, False),
    "bailingmoe": (
        cut(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"), None, False),
    "youtu": (cut(YOUTU, cased(SHORT + "?", r"\p{N}", r"[\r\n/]*")), None, True),
    "afmoe": (cut(r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", ASIA, SYMBOLS), None, False),
    "exaone-moe": (
        cut(SHORT + "|" + LEAD + r"(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"), None, False),
    "laguna": (cut(r"[^\n]+|[\n]+", QWEN2), None, False),
    "minicpm5": (cut(r"\p{N}{1,3}", LLAMA3.replace("{1,3}", "+")), None, True),
    "falcon": ([pt.Punctuation("contiguous"), level(), pt.Digits(individual_digits=False)] + cut("[0-9][0-9][0-9]"), None, False),
    "bloom": (cut(BLOOM), None, False),
    "viking": (cut(BLOOM) + [pt.Digits(individual_digits=True)], None, False),
    "superbpe": (cut(r"\p{N}+", r"(?=(\d{3})+(?!\d))"), None, False),
    "chameleon": (
        cut("<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", r"\p{N}", r"[\p{P}!-/:-@\[-`{-~]") + [level()],
        None, False),
    "jais-2": (cut(JAIS2), None, False),
    "default": (cut(r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"), None, False),
}


def byte_level(name, steps, norm, whole, vocab=520, space=False, extra=()):
    tok = Tokenizer(models.BPE(ignore_merges=whole))
    if norm is not None:
        tok.normalizer = norm
    has = any(isinstance(s, pt.ByteLevel) for s in steps)
    steps = list(steps) if has else list(steps) + [level(use_regex=False)]
    tok.pre_tokenizer = pt.Sequence(steps) if len(steps) > 1 else steps[0]
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab, initial_alphabet=pt.ByteLevel.alphabet(), show_progress=False)
    tok.train_from_iterator(CORPUS, trainer)
    for text, special in MARKS:
        (tok.add_special_tokens if special else tok.add_tokens)([AddedToken(text, special=special, normalized=False)])
    for t in extra:
        tok.add_special_tokens([t])
    return tok


# ---- SentencePiece --------------------------------------------------------------------------------------------------------------
def train_sp(**kw):
    out = io.BytesIO()
    args = dict(vocab_size=900, model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                add_dummy_prefix=True, split_digits=True, character_coverage=0.98, num_threads=1, max_sentence_length=20000,
                allow_whitespace_only_pieces=True, minloglevel=2)
    args.update(kw)
    if args["normalization_rule_name"].startswith("own"):  # the published tables are large: one family (t5) has one
        args["normalization_rule_tsv"] = rules(args.pop("normalization_rule_name") == "own_cf")
    spm.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_writer=out, **args)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(out.getvalue())
    proto.normalizer_spec.ClearField("normalization_rule_tsv")  # the path of a file on this machine
    return proto.SerializeToString()


def rules(fold):
    """A normalization table for the characters of the test strings: NFKC (with case folding), blanks as spaces, some
    characters removed."""
    out = {}
    for c in sorted(set("".join(STRINGS))):
        to = unicodedata.normalize("NFKC", c)
        to = to.casefold() if fold else to
        if c in "\t\n\r\u00a0\u2003\u3000":
            to = " "
        if c in "\u200b\u200e\u200f\u202e\ufeff\x01\x7f":
            to = ""
        if to != c and c != "\0":
            out[c] = to
    for base in "aAeEnoOuU":
        for mark in "\u0300\u0301\u0303\u0308\u030a":
            whole = unicodedata.normalize("NFC", base + mark)
            if len(whole) == 1:
                out[base + mark] = whole.casefold() if fold else whole
    path = tempfile.NamedTemporaryFile("w", suffix=".tsv", delete=False, encoding="utf-8")
    for k, v in sorted(out.items()):
        path.write(" ".join("%X" % ord(c) for c in k) + "\t" + " ".join("%X" % ord(c) for c in v) + "\n")
    path.close()
    return path.name


def pieces_of(sp):
    return [(sp.id_to_piece(i), sp.get_score(i)) for i in range(sp.get_piece_size())]


def kind_of(sp, i):
    return ("unknown" if sp.is_unknown(i) else "control" if sp.is_control(i) else "byte" if sp.is_byte(i) else "normal")


def merges_of(sp):
    """All ways to form a normal piece from two others, best piece first."""
    ids = {sp.id_to_piece(i): i for i in range(sp.get_piece_size()) if kind_of(sp, i) == "normal"}
    out = []
    for piece, i in sorted(ids.items(), key=lambda x: -sp.get_score(x[1])):
        ways = [(piece[:k], piece[k:]) for k in range(1, len(piece)) if piece[:k] in ids and piece[k:] in ids]
        out += [list(w) for w in sorted(ways, key=lambda w: (ids[w[0]], ids[w[1]]))]
    return out


def json_of(model, norm, pre, added, fuse=True, post=None, split_off=()):
    """A tokenizer.json with the pieces of a tokenizer.model."""
    sp = spm.SentencePieceProcessor(model_proto=model)
    bpe = models.BPE(vocab={p: i for i, (p, _) in enumerate(pieces_of(sp))}, merges=[tuple(m) for m in merges_of(sp)], unk_token="<unk>",
                     fuse_unk=fuse, byte_fallback=True)
    tok = Tokenizer(bpe)
    if norm is not None:
        tok.normalizer = norm
    if pre is not None:
        tok.pre_tokenizer = pre
    for t in added:
        (tok.add_special_tokens if t.special else tok.add_tokens)([t])
    strip = [] if norm is None and pre is None else [decoders.Strip(" ", 1, 0)]
    if isinstance(norm, normalizers.Replace):
        strip = []
    tok.decoder = decoders.Sequence([decoders.Replace(META, " "), decoders.ByteFallback(), decoders.Fuse()] + strip)
    return tok


def special(*texts, **kw):
    return [AddedToken(t, special=True, normalized=False, **kw) for t in texts]


SP_SPECIALS = dict(unk_id=0, bos_id=1, eos_id=2)
SP = {  # name: options of the trainer
    "llama-2": {},
    "codellama": dict(control_symbols="\u2581<PRE>,\u2581<MID>,\u2581<SUF>,\u2581<EOT>"),
    "mistral-7b": dict(control_symbols="[INST],[/INST],[TOOL_CALLS]", vocab_size=920),
    "mixtral": dict(split_digits=False, vocab_size=860),
    "gemma-1": dict(add_dummy_prefix=False, pad_id=0, eos_id=1, bos_id=2, unk_id=3, user_defined_symbols="<mask>,\n,\n\n,\n\n\n,\t,\u2581\u2581,\u2581\u2581\u2581,<b>,</b>,<x1>,<x2>"),
    "gemma-2": dict(add_dummy_prefix=False, pad_id=0, eos_id=1, bos_id=2, unk_id=3, user_defined_symbols="<start_of_turn>,<end_of_turn>,\u2581\u2581,\u2581\u2581\u2581\u2581", vocab_size=1000),
    "gemma-3": dict(add_dummy_prefix=False, split_by_unicode_script=False, user_defined_symbols="<unused0>,[multimodal],\n\n", vocab_size=940),
    "phi-3": dict(control_symbols="<|end|>,<|user|>"),
    "ernie-4.5": dict(user_defined_symbols="0,1,2,3,4,5,6,7,8,9", remove_extra_whitespaces=False),
    "jamba": dict(control_symbols="<|startoftext|>", pad_id=3),
    "internlm2": dict(split_by_number=False, user_defined_symbols="<|im_start|>,<|im_end|>"),
    "baichuan": dict(remove_extra_whitespaces=False, vocab_size=812, character_coverage=0.98),
    "yi": dict(normalization_rule_name="identity", user_defined_symbols="<|im_start|>,<|im_end|>,<tool>,</tool>", add_dummy_prefix=False),
    "minicpm": dict(normalization_rule_name="own", remove_extra_whitespaces=True),
    "orion": dict(normalization_rule_name="own", add_dummy_prefix=False),
    "xverse": dict(byte_fallback=False, character_coverage=1.0, vocab_size=1100),
    "openelm": dict(split_by_whitespace=False, max_sentencepiece_length=12),
    "deci": dict(normalization_rule_name="own_cf", remove_extra_whitespaces=True),
    "t5": dict(model_type="unigram", byte_fallback=False, normalization_rule_name="nmt_nfkc", remove_extra_whitespaces=True, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, split_digits=False),
    "mt5": dict(model_type="unigram", byte_fallback=True, normalization_rule_name="own", remove_extra_whitespaces=True, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, vocab_size=1000),
    "umt5": dict(model_type="unigram", byte_fallback=True, remove_extra_whitespaces=False, pad_id=0, eos_id=1, unk_id=2, bos_id=3, vocab_size=1000),
    "flan-ul2": dict(model_type="unigram", byte_fallback=False, remove_extra_whitespaces=True, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, add_dummy_prefix=False),
    "albert": dict(model_type="unigram", byte_fallback=False, normalization_rule_name="own_cf", remove_extra_whitespaces=True, user_defined_symbols="<x1>,(,),-", control_symbols="<mask>"),
    "unused-bpe": dict(unused=True, byte_fallback=False, character_coverage=1.0, vocab_size=1000),
    "unused-unigram": dict(unused=True, model_type="unigram", vocab_size=800),
    "pegasus": dict(model_type="unigram", byte_fallback=False, normalization_rule_name="own", treat_whitespace_as_suffix=True, remove_extra_whitespaces=True, pad_id=0, eos_id=1, unk_id=3, bos_id=2),
}


def with_unused(model):
    """Makes every fourth piece of three or more characters unused: such a piece may appear during merging and is split
    again."""
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    long = [p for p in proto.pieces if p.type == p.NORMAL and len(p.piece) >= 3]
    for p in long[::4]:
        p.type = p.UNUSED
    return proto.SerializeToString()


def field_list(model):
    """SHA-256 of the tokens, scores and types that gguf-py (0.19) reads from a tokenizer.model."""
    with tempfile.TemporaryDirectory() as d:
        pathlib.Path(d, "tokenizer.model").write_bytes(model)
        sha = hashlib.sha256()
        for text, score, kind in gguf.vocab.SentencePieceVocab(pathlib.Path(d)).all_tokens():
            sha.update(text + b"\t%.9g\t%d\n" % (score, kind))
        return sha.hexdigest()


def sp_family(name, options):
    options = dict(options)
    unused = options.pop("unused", False)
    model = train_sp(**dict(SP_SPECIALS, **options))
    if unused:
        model = with_unused(model)
    sp = spm.SentencePieceProcessor(model_proto=model)
    files = {"tokenizer.model": base64.b64encode(model).decode()}
    if name == "phi-3":  # with a tokenizer.json whose added tokens include the white space after them
        tok = json_of(model, normalizers.Sequence([normalizers.Prepend(META), normalizers.Replace(" ", META)]), None, special("<unk>", "<s>", "</s>"))
        files["tokenizer.json"] = json.loads(tok.to_str())
    if name == "gemma-2":
        files["tokenizer_config.json"] = {"add_bos_token": True}
    listed = field_list(model) if name in ("llama-2", "gemma-1", "mt5") else None
    ids, text = [], []
    for s in STRINGS + BAD:
        got = sp.encode(s)
        ids.append(got)
        back = sp.decode(got)
        text.append(None if back == s else back)
    # special=False: sentencepiece itself treats the texts of control tokens as plain text
    out = dict(name=name, oracle="sentencepiece 0.2.3", files=files, special=False, ids=ids, text=text)
    return dict(out, gguf_list=listed) if listed else out


def hf_family(name, tok, files=None, skip=None, **kw):
    ids, text = [], []
    for s in STRINGS:
        if skip and skip in s:
            ids.append(None)
            text.append(None)
            continue
        got = tok.encode(s, add_special_tokens=False).ids
        ids.append(got)
        back = tok.decode(got, skip_special_tokens=False)
        text.append(None if back == s else back)
    ids += [None] * len(BAD)
    text += [None] * len(BAD)
    files = dict({"tokenizer.json": json.loads(tok.to_str())}, **(files or {}))
    return dict(name=name, oracle="tokenizers 0.23.3", files=files, special=True, ids=ids, text=text, **kw)


def json_families():
    base = train_sp(**SP_SPECIALS)
    added = special("<unk>", "<s>", "</s>")
    sp = {"tokenizer.model": base64.b64encode(base).decode()}
    replace = normalizers.Replace(" ", META)
    legacy = normalizers.Sequence([normalizers.Prepend(META), replace])
    yield hf_family("tinyllama", json_of(base, legacy, None, added))
    more = added + special("[INST]", "[/INST]") + [AddedToken("<tool>", special=False, normalized=False), AddedToken("</tool>", special=False)]
    yield hf_family("both-files", json_of(base, legacy, None, more), sp)
    bare = train_sp(**dict(SP_SPECIALS, add_dummy_prefix=False))
    more = more + special("<|im_start|>", rstrip=True)
    yield hf_family("both-files-bare", json_of(bare, replace, None, more), {"tokenizer.model": base64.b64encode(bare).decode()})
    first = json_of(base, None, pt.Metaspace(META, prepend_scheme="first", split=False), added)
    yield hf_family("llama-2-new", first)
    yield hf_family("zephyr", json_of(base, None, pt.Metaspace(META, prepend_scheme="always", split=False), added))
    yield hf_family("metaspace-words", json_of(base, None, pt.Metaspace(META, prepend_scheme="always", split=True), added))
    phi = json_of(base, legacy, None, added + special("<|end|>", "<|im_start|>", rstrip=True) + special("<mask>", lstrip=True))
    yield hf_family("phi-3-mini", phi)
    plain = json_of(base, replace, pt.Split(" ", "merged_with_previous"), added + [AddedToken("<tool>", special=False, normalized=False), AddedToken("<|im_end|>", special=True, normalized=False)])
    yield hf_family("gemma-json", plain, {"config.json": {"model_type": "gemma3_text"}})
    yield hf_family("gemma-4", plain)
    own = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))  # merges that scores cannot express
    own.normalizer, own.pre_tokenizer = legacy, None
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)], show_progress=False, limit_alphabet=300)
    own.pre_tokenizer = pt.Metaspace(META, prepend_scheme="never", split=True)
    own.train_from_iterator(CORPUS, trainer)
    j = json.loads(own.to_str())
    j["pre_tokenizer"] = None
    j["added_tokens"] = [t for t in j["added_tokens"] if not t["content"].startswith("<0x")]
    j["decoder"] = json.loads(first.to_str())["decoder"]
    yield hf_family("own-merges", Tokenizer.from_str(json.dumps(j)))


def unigram_json_families():
    model = train_sp(model_type="unigram", byte_fallback=False, vocab_size=800, **SP_SPECIALS)
    pieces = pieces_of(spm.SentencePieceProcessor(model_proto=model))

    def build(pre, norm, byte_fallback=False, more=()):
        vocab = list(more) + pieces
        tok = Tokenizer(models.Unigram(vocab, unk_id=len(more), byte_fallback=byte_fallback))
        if norm is not None:
            tok.normalizer = norm
        tok.pre_tokenizer = pre
        tok.add_special_tokens(special("<unk>", "<s>", "</s>") + special("<mask>", lstrip=True))
        one = [decoders.Replace(META, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        tok.decoder = decoders.Sequence(one) if byte_fallback else decoders.Metaspace(META, prepend_scheme="always")
        return tok

    always = pt.Metaspace(META, prepend_scheme="always", split=True)
    yield hf_family("xlm-roberta", build(always, None))
    yield hf_family("t5-json", build(always, normalizers.Sequence([normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), META)])))
    # not compared: the library reads the text "<0x41>" as the byte's token, sentencepiece does not (mt5 above)
    yield hf_family("unigram-bytes", skip="<0x", tok=build(pt.Metaspace(META, prepend_scheme="first", split=False), None, True, [(f"<0x{b:02X}>", -20.0) for b in range(256)]))


def families():
    for name, (steps, norm, whole) in BYTE_LEVEL.items():
        yield hf_family(name, byte_level(name, steps, norm, whole), pre=name)
    roberta = byte_level("roberta", [level(space=True)], None, False, space=True, extra=special("<mask>", lstrip=True))
    yield hf_family("roberta", roberta, pre="gpt-2")
    for name, options in SP.items():
        yield sp_family(name, options)
    yield from json_families()
    yield from unigram_json_families()


def write(name, data):
    with open(f"{OUT}/{name}.json.gz", "wb") as f:
        f.write(gzip.compress(data, 9, mtime=0))


def main():
    os.makedirs(OUT, exist_ok=True)
    raw = [json.dumps(s, ensure_ascii=True).encode() for s in STRINGS] + [b'"' + s.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"' for s in BAD]
    write("strings", b"[" + b",\n".join(raw) + b"]")
    n = 0
    for f in families():
        f["text"] = [t.replace("\u0000", "\ufffd") if t else t for t in f["text"]]
        write(f["name"], json.dumps(f, ensure_ascii=True, separators=(",", ":")).encode())
        n += 1
        print(f["name"], os.path.getsize(f"{OUT}/{f['name']}.json.gz"))
    print(n, "families,", len(STRINGS), "+", len(BAD), "strings")


if __name__ == "__main__":
    main()
