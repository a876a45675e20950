#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/pretok/pieces.json: how the `tokenizers` library splits strings into pre-tokens, as specified in the
published tokenizer.json of each family. The regexes were copied from those files' descriptions, in the library's own syntax.

Usage: python3 tests/oracle/pretok.py   (from the repository root; needs tokenizers 0.23)
"""
import json
import os

from tokenizers import Regex, pre_tokenizers as pt

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
LEAD = r"[^\r\n\p{L}\p{N}]?"
GPT4O = (
    rf"{LEAD}[{UPPER}]*[{LOWER}]+{SHORT}|{LEAD}[{UPPER}]+[{LOWER}]*{SHORT}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SEED = QWEN2.replace(r" ?[^\s\p{L}\p{N}]+[\r\n]*", r" ?[^\s\p{L}\p{N}\r\n]+")
LING = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)


def cut(*regexes):
    return pt.Sequence([pt.Split(Regex(r), "isolated") for r in regexes])


RULES = {
    "qwen2": cut(QWEN2),
    "stablelm2": cut(QWEN2),
    "gpt-2": cut(GPT2),
    "llama-bpe": cut(LLAMA3),
    "dbrx": cut(LLAMA3),
    "gpt-4o": cut(GPT4O),
    "smollm": pt.Sequence([pt.Digits(individual_digits=True), pt.Split(Regex(GPT2), "isolated")]),
    "deepseek-v3": cut(r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+", DEEPSEEK),
    "deepseek-coder": cut(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\ud7ff]+", r"\p{N}"),
    "seed-coder": cut(SEED),
    "bailingmoe": cut(LING),
    # in the published file, Digits comes after ByteLevel and therefore sees the byte alphabet. It would also split
    # inside characters (the bytes of "\u00bd" are "\u00c2" and "\u00bd"), where such a vocabulary has no merges
    "falcon": pt.Sequence([pt.Punctuation("contiguous")] + [pt.Split(Regex(r), "isolated") for r in (GPT2, "[0-9]+", "[0-9][0-9][0-9]")]),
}
STRINGS = [
    "", " ", "  ", "a", "Hello, world!", "  two  spaces   between ", "tabs\tand\nlines\r\n\r\nmore\n\n\n", "I'll can't we'VE DON'T it's",
    "1", "12", "123", "1234", "1234567890", "3.14159 and 1,000,000.00", "x1y22z333w4444", "  7  88  999  ", "²³ ½ Ⅷ ٣٤٥ 一二三",
    "CamelCaseAndUPPERlower McDonald's O'Neill's", "ǅ ǈ title ʰ modifier", "naïve café Ünïcödé", "e\u0301 n\u0303 combining",
    "日本語のテキストとカタカナ、ひらがな。", "中文字符测试,混合English和123数字", "한국어 텍스트 테스트입니다", "हिन्दी में पाठ", "ภาษาไทยทดสอบ", "עברית וערבית العربية",
    "😀😃 emoji 👨‍👩‍👧‍👦 family 🇩🇪", "def f(x):\n    return x**2  # comment\n\n\nclass A:\n\tpass\n", "if (a && b || !c) { i++; }", "http://example.com/path?q=1&r=2#frag",
    "<|im_start|>user\nHi<|im_end|>", "$100 €50 £20 ¥10 100%", "...!!!???--==++", " !? ,; :", "a\u00a0b\u2003c\u3000d", "\u200b zero \u200d width", "line\u2028sep\u2029para",
    "trailing space ", "trailing newline\n", "\n\n leading", "\r\n\r\n", " \n \n ", "A\n\n  B\n   C", "'s 't 'RE don''t", "x'sy", "#include <stdio.h>\n#define X 1",
    "a_b_c __init__ snake_case_9", "C:\\Users\\name\\file.txt", "math: ∑ ∫ √ ≤ ≥ ≠ ∞ α β γ", "№ ™ © ® § ¶", "½cup 3rd 1st 2ND", "0x1F 0b1010 1e-9 6.02e23",
    "\ud7ff\ue000"[0:1] + " edge 가나다", "ࠀ Samaritan", "mixed中English文123字abc", "'''quotes''' \"double\" `tick`", "word\u0000nul"[0:4] + "end", "     deep indent", "x" * 40 + "1" * 7,
    "\u1680ogham \u180emongol", "١٢٣٤ arabic digits", "１２３ fullwidth ＡＢＣ", "a\u0308o\u0308u\u0308 Ä", "@user #tag $var %fmt ^x &y *z",
]
out = {"library": "tokenizers 0.23.3", "strings": STRINGS, "pieces": {}}
for name, rule in RULES.items():
    rows = []
    for s in STRINGS:
        got = [len(p.encode()) for p, _ in rule.pre_tokenize_str(s)] if s else []
        assert sum(got) == len(s.encode()), (name, s, got)
        rows.append(got)
    out["pieces"][name] = rows
os.makedirs("tests/golden/pretok", exist_ok=True)
json.dump(out, open("tests/golden/pretok/pieces.json", "w"), ensure_ascii=False, separators=(",", ":"))
