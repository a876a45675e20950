# SPDX-License-Identifier: MIT
"""Tokenizer keys compared with those that the gguf package derives for the same folder: ids, flags, types and scores."""
import json

from configs import ARCHES
from published import checkpoint, convert, edit, keys, tokenizer, trial
from tokenizers_ import byte_bpe, folder, sentences

PLAIN, CONTROL, USER = 1, 3, 4


def special(d, n, merges=False):
    """The keys of special tokens that the gguf package derives from a folder."""
    import gguf

    v = gguf.SpecialVocab(d, load_merges=merges, n_vocab=n)
    names = {"unk": "unknown_token_id", "pad": "padding_token_id", "sep": "seperator_token_id"}
    want = {names.get(k, f"{k}_token_id"): i for k, i in v.special_token_ids.items()}
    return want | {f"add_{k}_token": x for k, x in v.add_special_token.items()}


def listed(config, pieces):
    """Types and scores of a SentencePiece vocabulary. Of the entries of added_tokens_decoder, special ones are control
    tokens and others user-defined, all with score -1000."""
    import sentencepiece as sp

    p = sp.SentencePieceProcessor(model_proto=pieces)
    types = [2 if p.IsUnknown(i) else CONTROL if p.IsControl(i) else 6 if p.IsByte(i) else PLAIN for i in range(p.vocab_size())]
    scores = [p.GetScore(i) for i in range(p.vocab_size())]
    for i, t in config.get("added_tokens_decoder", {}).items():
        types[int(i)], scores[int(i)] = CONTROL if t["special"] else USER, -1000.0
    return types, scores


def compare(d, want, but=()):
    p = convert(d)
    if p.rc:
        return "wrong", p.err[-300:]
    got = {k.removeprefix("tokenizer.ggml."): v for k, v in keys(p.path).items()}
    for k, v in want.items():
        g = got.get(k)
        same = [abs(a - b) < 1e-6 * abs(b) + 1e-9 for a, b in zip(g, v)] if k == "scores" else [g == v]
        if k not in but and not all(same):
            return "wrong", f"{k}: {g if not isinstance(g, list) else 'differs at ' + str([a == b for a, b in zip(g, v)].index(False))}, not {v if not isinstance(v, list) else ''}"
    return "right", ""


def entry(text, special=True):
    return dict(content=text, special=special, lstrip=False, rstrip=False, normalized=False, single_word=False)


UNK, BOS, EOS = {"0": entry("<unk>")}, {"1": entry("<s>")}, {"2": entry("</s>")}
CASES = {  # in the form of the families' tokenizer_config.json
    "ernie": dict(tokenizer_class="Ernie4_5_Tokenizer", bos_token="<s>", eos_token="</s>", unk_token="<unk>", add_bos_token=False, add_eos_token=False, added_tokens_decoder=UNK | BOS | EOS),
    "ernie without flags": dict(tokenizer_class="Ernie4_5_Tokenizer", bos_token="<s>", eos_token="</s>", unk_token="<unk>"),
    "phi3": dict(tokenizer_class="LlamaTokenizer", add_bos_token=False, add_eos_token=False, bos_token="<s>", eos_token="</s>", unk_token="<unk>", added_tokens_decoder=UNK | BOS | {"2": entry("</s>", False)}),
    "gemma": dict(tokenizer_class="GemmaTokenizer", add_bos_token=True, add_eos_token=False, bos_token="<s>", eos_token="</s>", unk_token="<unk>", added_tokens_decoder=UNK | BOS | EOS | {"300": entry("", False)}),
    "mixtral": dict(tokenizer_class="LlamaTokenizer", add_bos_token=True, add_eos_token=False, bos_token="<s>", eos_token="</s>", pad_token=None, unk_token="<unk>", added_tokens_decoder=UNK | BOS | EOS),
    "no config": None,
}
for name, config in CASES.items():

    def pieces(s, config=config):
        import sentencepiece as sp

        p = sp.SentencePieceProcessor(model_proto=sentences("bpe"))
        c = json.loads(json.dumps(config)) if config else config
        for i, t in (c or {}).get("added_tokens_decoder", {}).items():
            t["content"] = p.IdToPiece(int(i))
        d = folder(s, n=p.vocab_size(), config=c)
        (d / "tokenizer.model").write_bytes(sentences("bpe"))
        types, scores = listed(c or {}, sentences("bpe"))
        return compare(d, special(d, p.vocab_size()) | {"token_type": types, "scores": scores})

    trial("keys", "sentencepiece: " + name)(pieces)


def with_post(*parts):
    from tokenizers import processors

    t = byte_bpe()
    t.post_processor = processors.TemplateProcessing(single=" ".join(parts), special_tokens=[(x, t.token_to_id(x)) for x in parts if x != "$A"])
    return t


for name, parts in {"$A": ["$A"], "bos $A": ["<|sp|>", "$A"], "$A eos": ["$A", "<|endoftext|>"], "bos $A eos": ["<|sp|>", "$A", "<|endoftext|>"]}.items():
    for flag in (None, True, False):

        def template(s, parts=parts, flag=flag):
            t = with_post(*parts)
            config = dict(tokenizer_class="PreTrainedTokenizerFast", bos_token="<|sp|>", eos_token="<|endoftext|>")
            if flag is not None:
                config |= dict(add_bos_token=flag)
            d = folder(s, t, config=config)
            return compare(d, special(d, t.get_vocab_size()))

        trial("keys", f"bytes: {name}, add_bos_token {flag}")(template)


def glm(scratch, model_type, bos, **config):
    """llama.cpp's converter finds these tokens by their text if config.json has none. It sets eom only for mixtures of
    experts, hone for both kinds (docs/interop.md)."""
    d, _ = checkpoint(scratch, model_type, **config)
    t = tokenizer(["<|endoftext|>", "[gMASK]", "<sop>", "<|user|>", "<|assistant|>", "<|observation|>"], size=317)
    assert json.loads((d / "config.json").read_text())["vocab_size"] == t.get_vocab_size()
    t.save(str(d / "tokenizer.json"))
    ids = [t.token_to_id(x) for x in ("<|endoftext|>", "<|user|>", "<|observation|>")]
    edit(d, "config.json", lambda c: c.update(eos_token_id=ids, bos_token_id=None))
    edit(d, "generation_config.json", lambda c: {"eos_token_id": ids})
    edit(d, "tokenizer_config.json", lambda c: {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"})
    return compare(d, dict(eos_token_id=ids[0], eot_token_id=ids[1], eom_token_id=ids[2], unknown_token_id=ids[0], bos_token_id=t.token_to_id(bos)))


for t, bos in (("glm4", "<|endoftext|>"), ("glm4_moe", "[gMASK]")):
    trial("keys", t + ": eot, eom, unknown and bos by text")(lambda s, t=t, bos=bos: glm(s, t, bos, **ARCHES[t]))
