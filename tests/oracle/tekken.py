#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A small tekken.json, and token ids from mistral-common.

    python tests/oracle/tekken.py tests/golden/models tests/golden/tekken

The tokens are those of the golden Mistral folder's tokenizer.json, as bytes in rank order; texts are the 331 strings of
tests/golden/models/tokens.json. mistral-common 1.13.1 (tiktoken 0.14.0) encodes them, without special tokens."""
import base64
import json
import os
import sys

from mistral_common.tokens.tokenizers.tekken import Tekkenizer

SRC, OUT = sys.argv[1], sys.argv[2]
os.makedirs(OUT, exist_ok=True)
tok = json.load(open(f"{SRC}/mistral/tokenizer.json"))
keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
alphabet, n = {}, 0
for b in range(256):
    if b in keep:
        alphabet[chr(b)] = b
    else:
        alphabet[chr(256 + n)] = b
        n += 1
texts = [bytes([b]) for b in range(256)]
for m in tok["model"]["merges"]:
    m = m.split(" ") if isinstance(m, str) else m
    t = bytes(alphabet[c] for c in "".join(m))
    if t not in texts:
        texts.append(t)
special = 24  # 20 tokens that the format defines, 4 fillers
texts = texts[: 1024 - special]
pattern = tok["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]


def text(b):
    try:
        return b.decode()
    except UnicodeDecodeError:
        return None


doc = {
    "config": {"pattern": pattern, "num_vocab_tokens": len(texts), "default_vocab_size": 1024,
               "default_num_special_tokens": special, "version": "v3"},
    "vocab": [{"rank": i, "token_bytes": base64.b64encode(t).decode(), "token_str": text(t)} for i, t in enumerate(texts)],
}
json.dump(doc, open(f"{OUT}/tekken.json", "w"))
t = Tekkenizer.from_file(f"{OUT}/tekken.json")
strings = json.load(open(f"{SRC}/tokens.json"))
strings = [c if isinstance(c, str) else c["text"] for c in strings["cases"]]
ids = [t.encode(s, bos=False, eos=False) for s in strings]
names = [t.id_to_piece(i) for i in range(special)]
json.dump({"special": names, "ids": ids}, open(f"{OUT}/ids.json", "w"))
print(special, len(texts), len(ids), names[:22], sum(map(len, ids)))
