# SPDX-License-Identifier: MIT
"""Tokens that constrained decoding must allow, computed by independent tools (PyPI; versions in the output).

texts.json: JSON Schemas with texts and jsonschema's verdicts. Values come from hypothesis-jsonschema, some of them changed
afterwards; they are written with the properties in declared order, since that is the order of an answer.
masks.json: a vocabulary whose tokens cut words, escapes and characters anywhere; regular expressions and schemas with prefixes,
and the tokens that llguidance allows after each (hexadecimal; token 0 is the lowest bit of the first digit pair). Intended
differences are left out; comments below give the reasons.
Run: python tests/oracle/gram.py tests/golden/gram
"""
import json
import random
import sys
import warnings

import hypothesis
import jsonschema
import llguidance
import llguidance.numpy
import numpy
from hypothesis_jsonschema import from_schema
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

INT, STR = {"type": "integer"}, {"type": "string"}


def obj(props, required=(), **more):
    return {"type": "object", "properties": props, "required": list(required), "additionalProperties": False, **more}


SCHEMAS = [
    STR, {"type": "string", "minLength": 2, "maxLength": 4}, {"type": "string", "pattern": "^[a-z]{2,4}-[0-9]+$"}, {"type": "string", "pattern": "foo"},
    {"type": "string", "pattern": "^\"a\\\\b\"$"}, {"type": "string", "pattern": "(^a|b$)", "maxLength": 6}, {"type": "string", "pattern": "^[^a-z]+$", "maxLength": 5},
    {"type": "string", "format": "date"}, {"type": "string", "format": "ipv4"}, {"type": "string", "format": "uuid"},
    INT, {"type": "number"}, {"type": "integer", "minimum": -5, "maximum": 17}, {"type": "integer", "minimum": 100}, {"type": "integer", "maximum": -100},
    {"type": "integer", "exclusiveMinimum": 9, "exclusiveMaximum": 1000}, {"type": "number", "minimum": 0.5, "maximum": 12.25}, {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    {"type": "number", "minimum": -3.75, "exclusiveMaximum": -0.125}, {"type": "integer", "multipleOf": 7, "minimum": 0, "maximum": 1000}, {"type": "integer", "multipleOf": 12},
    {"type": "integer", "minimum": 5, "maximum": 5}, {"type": "number", "minimum": 9.99, "maximum": 10.01},
    {"enum": ["a", "b\n", 1, None, True, [1, 2], {"x": [{}]}, 1.5]}, {"const": {"a": "é\""}}, {"type": ["string", "null"]}, {"type": "boolean"}, {"type": "null"}, True,
    {"type": "array"}, {"type": "array", "items": INT, "minItems": 2, "maxItems": 4}, {"type": "array", "prefixItems": [STR, INT], "items": False},
    {"type": "array", "prefixItems": [STR, INT], "items": {"type": "null"}, "minItems": 1, "maxItems": 4}, {"type": "array", "prefixItems": [{"const": 1}, {"const": 2}, {"const": 3}], "minItems": 2},
    {"type": "array", "items": {"enum": ["a", "b", "c", 1]}, "uniqueItems": True, "minItems": 2}, {"type": "array", "maxItems": 0},
    {"type": "object"}, {"type": "object", "properties": {"a": INT}}, obj({"a": INT, "b": STR, "c": True}, ["b"]),
    obj({"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}, "d": {"const": 4}}, minProperties=2, maxProperties=3),
    {"type": "object", "additionalProperties": INT, "maxProperties": 2}, {"type": "object", "patternProperties": {"^x-": INT}, "additionalProperties": False},
    {"type": "object", "properties": {"xa": STR}, "patternProperties": {"^x": {"minLength": 2}, "a$": {"type": ["string", "null"]}}, "additionalProperties": {"type": "boolean"}},
    {"type": "object", "propertyNames": {"pattern": "^[a-z]{1,3}$"}, "additionalProperties": {"type": "null"}}, {"type": "object", "propertyNames": {"enum": ["p", "q"]}, "minProperties": 1},
    obj({"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}, dependentRequired={"a": ["b"], "b": ["c"]}),
    obj({"c": {"const": 1}, "a": {"const": 2}, "b": {"const": 3}}, dependentRequired={"a": ["b"], "b": ["c"]}),
    {"anyOf": [INT, {"type": "object", "properties": {"t": {"const": "x"}}, "required": ["t"]}]},
    {"oneOf": [obj({"k": {"const": "a"}, "v": INT}, ["k", "v"]), obj({"k": {"const": "b"}, "w": STR}, ["k"])]},
    {"allOf": [{"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"]}, {"properties": {"a": {"maximum": 9}, "b": STR}, "required": ["b"]}]},
    {"$ref": "#/$defs/node", "$defs": {"node": obj({"v": INT, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, ["v", "next"])}},
    {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}, "maxItems": 3}, "name": {"type": "string", "maxLength": 3}}, "required": ["name"], "additionalProperties": False},
    {"definitions": {"p": {"type": "integer", "minimum": 1}}, **obj({"x": {"$ref": "#/definitions/p", "maximum": 4}, "y": {"$ref": "#/definitions/p"}}, ["x", "y"])},
    {"type": "string", "not": {"enum": ["a", "b", "\"c"]}, "maxLength": 2}, {"not": STR}, {"type": ["integer", "string"], "not": {"const": 5}},
    {"type": "object", "properties": {"a": False, "b": INT}, "additionalProperties": INT}, {"type": "integer", "enum": [1, 2, 300], "minimum": 2}, {"minLength": 3},
    {"type": "object", "required": ["z"]}, obj({"a/b": {"const": 1}, "c\"d": {"const": 2}}, ["a/b", "c\"d"]), {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "string", "pattern": "^ab"}], "minLength": 1},
    obj({"city": {"type": "string", "minLength": 1}, "unit": {"enum": ["celsius", "fahrenheit"]}, "days": {"type": "integer", "minimum": 1, "maximum": 14}}, ["city"]),
]
SEEDS = ["", "a", "ab", "abc", "foo", "xfoo\n", "b", "\"c", "\"a\\b\"", "ab-12", "AB", "日本語", "é😀", "a\\", "2024-02-29", "2023-02-29", "2024-13-01", "1.2.3.4", "1.2.3.256",
         "00000000-0000-0000-0000-00000000000A", "tab\there", -5, -6, 0, 5, 7, 17, 18, 99, 100, 101, -100, -99, 999, 1000, 994, 12, 13, 24, 300, 0.5, 0.49, 12.25, 12.26, 0.001, 1.5, -3.75, -3.76,
         -0.125, -0.126, 9.99, 10.01, 10.011, True, False, None, [], [1], [1, 2], [1, 2, 3], ["a", 1], ["a", 1, None], ["a", "b"], ["a", "a"], ["a", "b", "c", 1], [[1]], {}, {"a": 1},
         {"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, {"b": 2, "c": 3}, {"c": 1, "a": 2, "b": 3}, {"c": 1, "b": 3}, {"a": 2, "b": 3}, {"a": 3, "b": "x"}, {"a": 10, "b": "x"}, {"b": "x"},
         {"x-1": 3}, {"x-1": "3"}, {"xa": "ab"}, {"xa": None}, {"xb": "ab"}, {"xb": "a"}, {"za": None}, {"z": True}, {"z": 1}, {"p": None}, {"q": 1, "p": 2}, {"abcd": None}, {"t": "x"}, {"t": "y"},
         {"k": "a", "v": 1}, {"k": "a"}, {"k": "b"}, {"k": "b", "w": ""}, {"k": "b", "v": 1}, {"v": 1, "next": None}, {"v": 1, "next": {"v": 2, "next": None}}, {"v": 1}, {"name": "abc"},
         {"children": [{"name": ""}], "name": "x"}, {"name": "abcd"}, {"x": 4, "y": 9}, {"x": 5, "y": 9}, {"x": 4, "y": 0}, {"a/b": 1, "c\"d": 2}, {"a/b": 1}, {"a": "é\""},
         {"city": "Paris"}, {"city": "Paris", "unit": "celsius", "days": 3}, {"city": ""}, {"city": "Oslo", "days": 15}, {"city": "Oslo", "wind": True}]


def ordered(schema, v):
    """Puts properties into the order of the schema; leaves them as they are if the schema is not available."""
    if isinstance(v, dict):
        names = []
        for s in [schema] + schema.get("allOf", []) if isinstance(schema, dict) else []:
            names += [n for n in s.get("properties", {}) if n not in names]
        return {**{n: v[n] for n in names if n in v}, **v}
    return v


def told_apart(v):
    """Whether a value has numbers that JSON may write in a form that bounded numbers do not have."""
    if isinstance(v, float):
        return not v.is_integer() and 1e-4 < abs(v) < 1e17
    if isinstance(v, int):
        return abs(v) < 10**17
    if isinstance(v, list):
        return all(map(told_apart, v))
    if isinstance(v, dict):
        return all(map(told_apart, v.values()))
    return True


def texts():
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    rng, out = random.Random(1), []
    for schema in SCHEMAS:
        judge, pool = jsonschema.Draft202012Validator(schema, format_checker=checker), list(SEEDS)
        if "$ref" not in json.dumps(schema):
            found = []
            settings = hypothesis.settings(max_examples=60, database=None, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck))
            try:
                settings(hypothesis.given(from_schema(schema))(lambda v: found.append(v)))()
            except (hypothesis.errors.HypothesisException, ValueError):
                pass  # it cannot invent values for every schema
            pool += rng.sample(found, min(12, len(found)))
        row = {"schema": schema, "valid": [], "invalid": []}
        for v in pool:
            v = ordered(schema, v)
            try:
                text = json.dumps(v, ensure_ascii=False)
                text.encode()
            except UnicodeEncodeError:
                continue
            kind = "valid" if judge.is_valid(v) else "invalid"
            if (kind == "invalid" or told_apart(v)) and text not in row[kind] and len(text) < 300:
                row[kind].append(text)
        row["invalid"] = row["invalid"][::2] if len(row["invalid"]) > 40 else row["invalid"]
        out.append(row)
    return {"tools": {"jsonschema": version("jsonschema"), "hypothesis-jsonschema": version("hypothesis-jsonschema")}, "cases": out}


# ---- masks ----

def vocabulary():
    rng, toks = random.Random(7), [bytes([i]) for i in range(256)]
    for w in ['", "', '":', '": ', '"}', '{"', '},', '],', '":{"', "abc", "--", "\n  ", "  ", "123", "99", ".5", "e1", '"a', 'a"', "true", "tru", "null", "é", "日本", "\\\"", "\\n", "][", "}}", "0.", "-1", "12:", "T", ".com", "ab"]:
        toks.append(w.encode())
    toks += ["日".encode()[:2], "日".encode()[1:] + b"a", "é".encode()[1:] + b'"', "😀".encode()[:3], b"a" + "😀".encode()[:1]]
    while len(toks) < 511:
        t = "".join(rng.choice('abcxyz019-_:,.{}[]"é日 T') for _ in range(rng.randint(2, 6))).encode()
        if t not in toks:
            toks.append(t)
    return toks + [b""]  # the last token ends the text


class Wrapped:
    def __init__(self, toks):
        self.tokens, self.bos_token_id, self.eos_token_id, self.special_token_ids = toks, None, len(toks) - 1, [len(toks) - 1]

    def __call__(self, text):
        return list(text if isinstance(text, bytes) else text.encode())


REGEXES = [("[a-c]+x", ["", "a", "abc", "abcx"]), ("(abc|ab|x9)*", ["", "ab", "x", "abx9"]), ("[^a]{2,3}b?", ["", "é", "日x", "zzz"]), ("(é|日|😀)+", ["", "é", "日é"]), ("[0-9]{1,3}(\\.[0-9]+)?", ["", "1", "123", "1.", "1.5"]),
           ("a{3,5}", ["", "aa", "aaaaa"]), ("[a-z0-9_]+(-[a-z]+){0,2}", ["", "ab", "ab-", "ab-c-d"]), ("\"[^\"\\\\]*\"", ["", "\"", "\"ab", "\"ab\""]), ("(a|b)*c[^c]*c", ["", "ab", "abc", "abcx"]), (".{0,4}", ["", "日", "abcd"]),
           ("[\\u00e0-\\u00ff]+|[^\\x00-\\x7f]x", ["", "é"]), ("((a|b){2}c){2}", ["", "ab", "abca", "abcbbc"])]
# "-0" for a bounded integer is left out: our grammar allows 0 only without a sign.
JSONS = [(obj({"a": INT, "ab": {"type": "boolean"}}, ["a"]), ["", "{", "{\"", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,", "{\"a\":1,\"ab\":", "{\"a\":1}"]), ({"enum": ["abc", "ab", 12, None]}, ["", "\"", "\"ab", "1"]),
         ({"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2}, ["", "[", "[true", "[true,", "[true,true"]), ({"type": "integer", "minimum": -5, "maximum": 120}, ["", "1", "12", "120"]),
         (obj({"x": {"type": "array", "items": {"type": "array", "items": {"type": "null"}}}}, ["x"]), ["{\"x\":", "{\"x\":[", "{\"x\":[[", "{\"x\":[[null", "{\"x\":[[null],"]), ({"anyOf": [{"const": "ab"}, {"type": "boolean"}]}, ["", "\"a", "t"])]


def mask_of(tok, grammar, prefix):
    m = LLMatcher(tok, grammar)
    assert not m.is_error(), m.get_error()
    if prefix and not m.consume_tokens(list(prefix.encode())):
        return None
    bits = llguidance.numpy.allocate_token_bitmask(1, tok.vocab_size)
    llguidance.numpy.fill_next_token_bitmask(m, bits, 0)
    return bits.view(numpy.uint8)[0][:64].tobytes().hex()


def masks():
    toks = vocabulary()
    tok, out = LLTokenizer(TokenizerWrapper(Wrapped(toks))), []
    for pattern, prefixes in REGEXES:
        for p in prefixes:
            out.append({"regex": pattern, "prefix": p, "mask": mask_of(tok, LLMatcher.grammar_from_regex(pattern), p)})
    for schema, prefixes in JSONS:
        # no_forcing: otherwise only the first token of forced text is allowed, although several tokenizations are right
        form = {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}
        g = LLMatcher.grammar_from_lark("%llguidance {\"no_forcing\": true}\nstart: %json " + json.dumps({**schema, "x-guidance": form}))
        for p in prefixes:
            out.append({"schema": schema, "prefix": p, "mask": mask_of(tok, g, p)})
    return {"tools": {"llguidance": version("llguidance")}, "tokens": [t.hex() for t in toks], "cases": out}


def version(name):
    import importlib.metadata
    return importlib.metadata.version(name)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, make in (("texts", texts), ("masks", masks)):
        data = make()
        with open(f"{sys.argv[1]}/{name}.json", "w", encoding="utf-8") as f:
            rows = ",\n".join(json.dumps(c, ensure_ascii=False) for c in data.pop("cases"))
            f.write(json.dumps(data, ensure_ascii=False)[:-1] + ", \"cases\": [\n" + rows + "\n]}\n")
