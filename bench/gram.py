# SPDX-License-Identifier: MIT
"""Constrained decoding compared with other engines: time per mask and for the first one, memory, rejected schemas, rejected
texts.

    python bench/gram.py BENCH_PROGRAM OUT.json       (BENCH_PROGRAM: built by `make bench-gram`, which prints its path)

Needs PyPI's llguidance, xgrammar, numpy; a vocabulary of 228,712 tokens is the union of those in the packages dashscope (Qwen)
and mistral-common (Tekken). Each engine runs in its own process, one after the other, on the same token ids: JSON Schemas with
valid texts from tests/golden/gram/texts.json and larger ones made here. Each engine runs three times and the fastest
time of each mask counts, since the machine may be busy. Ours is timed in C, the others around the Python call, including its
cost of about 1 us.
"""
import base64
import importlib.metadata
import json
import os
import resource
import subprocess
import sys
import tempfile
import time


ROUNDS = 3


def vocabulary():
    import importlib.util
    at = {p: os.path.dirname(importlib.util.find_spec(p).origin) for p in ("dashscope", "mistral_common")}
    toks = {base64.b64decode(line.split()[0]): None for line in open(at["dashscope"] + "/resources/qwen.tiktoken") if line.strip()}
    for x in json.load(open(at["mistral_common"] + "/data/tekken_240911.json"))["vocab"]:
        toks[base64.b64decode(x["token_bytes"])] = None
    return list(toks) + [b""]


def larger():
    """Schemas of the size that tools use."""
    text = "Some longer text with UTF-8: été 日本語, and \"quotes\"."
    person = {"name": "Hello world, a test", "age": 42, "tags": ["alpha", "beta"], "nested": {"x": 1.5, "y": [True, False, None]}, "text": text}
    s = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150}, "tags": {"type": "array", "items": {"type": "string"}},
                                          "nested": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "array"}}, "required": ["x"]}, "text": {"type": "string"}},
         "required": ["name", "age"], "additionalProperties": False}
    yield s, person
    limited = json.loads(json.dumps(s))
    limited["properties"]["text"]["maxLength"], limited["properties"]["name"]["minLength"] = 100, 3
    yield limited, person
    patterns = json.loads(json.dumps(s))
    patterns["properties"]["text"]["pattern"], patterns["properties"]["name"]["pattern"] = "^[A-Z].*\\.$", "^[A-Za-z ,]+$"
    yield patterns, person
    yield {"type": "object", "properties": {f"field_{i}": {"type": "string", "maxLength": 20 + i} for i in range(60)}, "additionalProperties": False}, {f"field_{i}": "value of it" for i in range(60)}
    yield {"type": "object", "properties": {f"o{i}": {"type": "object", "properties": {f"p{k}": {"type": ["integer", "string", "null"]} for k in range(8)}} for i in range(20)}}, {f"o{i}": {f"p{k}": [1, "two", None][k % 3] for k in range(8)} for i in range(20)}
    yield {"type": "array", "items": {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}, "mail": {"type": "string", "format": "email"}, "id": {"type": "string", "format": "uuid"}},
                                      "required": ["at", "mail", "id"], "additionalProperties": False}}, [{"at": "2024-02-29T12:00:00Z", "mail": "someone.else+tag@example-host.co.uk", "id": "123e4567-e89b-12d3-a456-426614174000"}] * 4
    yield {"enum": [f"choice number {i}" for i in range(500)]}, "choice number 321"
    tree = {"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3, "kids": [{"v": 4, "kids": []}]}]}
    yield {"$ref": "#/$defs/t", "$defs": {"t": {"type": "object", "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "required": ["v", "kids"], "additionalProperties": False}}}, tree


def cases(toks):
    ids, longest = {t: i for i, t in enumerate(toks) if t}, 24
    out = []

    def add(schema, text):
        b, at, v = text.encode(), 0, []
        while at < len(b):
            n = next(n for n in range(min(longest, len(b) - at), 0, -1) if b[at:at + n] in ids)
            v.append(ids[b[at:at + n]])
            at += n
        out.append({"schema": schema, "ids": v})

    for c in json.load(open("tests/golden/gram/texts.json"))["cases"]:
        for text in c["valid"][:3]:
            add(c["schema"], text)
    for schema, value in larger():
        add(schema, json.dumps(value, ensure_ascii=False))
    return out


class Llguidance:
    def __init__(self, toks):
        import llguidance.numpy
        from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

        class Wrapped:
            def __init__(self):
                self.tokens, self.bos_token_id, self.eos_token_id, self.special_token_ids = toks, None, len(toks) - 1, [len(toks) - 1]
                self.one = {t: i for i, t in enumerate(toks) if len(t) == 1}

            def __call__(self, text):
                return [self.one[bytes([b])] for b in (text if isinstance(text, bytes) else text.encode())]

        self.m, self.np = LLMatcher, llguidance.numpy
        self.tok = LLTokenizer(TokenizerWrapper(Wrapped()))
        self.bits = self.np.allocate_token_bitmask(1, self.tok.vocab_size)

    def start(self, schema):
        g = self.m.grammar_from_lark('%llguidance {"no_forcing": true}\nstart: %json ' + json.dumps(schema)) if isinstance(schema, dict) else self.m.grammar_from_json_schema(json.dumps(schema))
        m = self.m(self.tok, g)
        if m.is_error():
            raise ValueError(m.get_error())
        return m

    def mask(self, m):
        self.np.fill_next_token_bitmask(m, self.bits, 0)

    def accept(self, m, i):
        return m.consume_token(i)

    def ends(self, m):
        return m.is_accepting()


class Xgrammar:
    def __init__(self, toks):
        import numpy
        import xgrammar
        self.x, self.end = xgrammar, len(toks) - 1
        info = xgrammar.TokenizerInfo(toks[:-1] + [b"<end>"], vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[len(toks) - 1])
        self.c = xgrammar.GrammarCompiler(info, max_threads=1)
        self.bits = numpy.zeros((1, (len(toks) + 31) // 32), numpy.int32)

    def start(self, schema):
        return self.x.GrammarMatcher(self.c.compile_json_schema(json.dumps(schema), strict_mode=False))

    def mask(self, m):
        m.fill_next_token_bitmask(self.bits, 0)

    def accept(self, m, i):
        return m.accept_token(i)

    def ends(self, m):
        end = self.end
        self.mask(m)
        return bool(self.bits[0][end // 32] >> end % 32 & 1)


def other(engine, path):
    toks, out = vocabulary(), []
    rows = [json.loads(line) for line in open(path)]
    t = time.perf_counter()
    e = engine(toks)
    start_us, base = (time.perf_counter() - t) * 1e6, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for c in rows:
        t = time.perf_counter()
        try:
            m = e.start(c["schema"])
        except Exception as x:
            out.append({"error": str(x)[:200]})
            continue
        r = {"compile": (time.perf_counter() - t) * 1e6, "mask": [], "accepted": 0}
        for i in c["ids"] + [None]:
            t = time.perf_counter()
            e.mask(m)
            r["mask"].append((time.perf_counter() - t) * 1e6)
            if i is None or not e.accept(m, i):
                break
            r["accepted"] += 1
        r["ends"] = r["accepted"] == len(c["ids"]) and bool(e.ends(m))
        out.append(r)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base
    print(json.dumps({"vocab_us": start_us, "peak_rss_growth_mib": round(grown / 1024, 1), "rows": out}))


def ours(program, vocab, path):
    p = subprocess.run([program, vocab, path], check=True, capture_output=True, text=True)
    lines = [json.loads(x) for x in p.stdout.splitlines()]
    return {"vocab_us": lines[0]["vocab_us"], "rows": lines[1:]}


def least(runs):
    """Merges runs into one with the fastest time of each mask."""
    out = runs[0]
    for r in runs[1:]:
        for a, b in zip(out["rows"], r["rows"]):
            if "error" not in a:
                a["mask"] = [min(x, y) for x, y in zip(a["mask"], b["mask"])]
                a["compile"] = min(a["compile"], b["compile"])
        out["vocab_us"] = min(out["vocab_us"], r["vocab_us"])
    return out


def share(v, q):
    v = sorted(v)
    return round(v[min(len(v) - 1, int(q * len(v)))], 1)


def summary(r, rows):
    good = [x for x in r["rows"] if "error" not in x]
    masks = [t for x in good for t in x["mask"]]
    first = [x["compile"] + x["mask"][0] for x in good]
    out = {"mask_us": {"mean": round(sum(masks) / len(masks), 1), "median": share(masks, .5), "p99": share(masks, .99), "p99_9": share(masks, .999), "max": round(max(masks), 1)},
           "first_mask_us": {"mean": round(sum(first) / len(first), 1), "median": share(first, .5), "p99": share(first, .99), "max": round(max(first), 1)},
           "compile_us": {"mean": round(sum(x["compile"] for x in good) / len(good), 1), "max": round(max(x["compile"] for x in good), 1)},
           "masks": len(masks), "schemas_refused": len(rows) - len(good), "valid_texts_rejected": sum(not x["ends"] for x in good), "vocabulary_ms": round(r["vocab_us"] / 1e3, 1)}
    if good and "bytes" in good[0]:
        out["largest_grammar_kib"] = round(max(x["bytes"] for x in good) / 1024)
    if "peak_rss_growth_mib" in r:
        out["peak_rss_growth_mib"] = r["peak_rss_growth_mib"]
    return out


def main():
    if sys.argv[1] == "--engine":
        other({"llguidance": Llguidance, "xgrammar": Xgrammar}[sys.argv[2]], sys.argv[3])
        return
    program, out = sys.argv[1:3]
    toks = vocabulary()
    rows = cases(toks)
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/vocab", "wb") as f:
            for t in toks:
                f.write(len(t).to_bytes(4, "little") + t)
        with open(d + "/cases", "w", encoding="utf-8") as f:
            f.writelines(json.dumps(c) + "\n" for c in rows)
        result = {"command": "bench/gram.py", "note": __doc__.split("\n\n")[2].replace("\n", " "), "tokens": len(toks), "texts": len(rows), "engines": {}}
        result["engines"]["hone"] = summary(least([ours(program, d + "/vocab", d + "/cases") for _ in range(ROUNDS)]), rows)
        for name in ("llguidance", "xgrammar"):
            runs = [subprocess.run([sys.executable, __file__, "--engine", name, d + "/cases"], capture_output=True, text=True) for _ in range(ROUNDS)]
            if any(p.returncode for p in runs):
                result["engines"][name] = {"failed": runs[0].stderr.strip().splitlines()[-1][:200]}
                continue
            result["engines"][name + " " + importlib.metadata.version(name)] = summary(least([json.loads(p.stdout.splitlines()[-1]) for p in runs]), rows)
    with open(out, "w") as f:
        json.dump(result, f, indent=1)
    print(json.dumps(result["engines"], indent=1))


main()
