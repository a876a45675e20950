# SPDX-License-Identifier: MIT
"""Checks constrained decoding with other libraries: python tests/gram/judge.py PROGRAM SUITE OUT.json (run by make check-gram)

PROGRAM is build/.../bench/gram_texts, SUITE the folder draft2020-12 of the official JSON Schema test suite, from jsonschema's
source package. There are four parts; OUT.json lists every difference with its cause:

suite       every instance of the suite: a valid one must be accepted and an invalid one rejected, unless a clause was left out
            (which is noted)
instances   values from hypothesis-jsonschema for random schemas must be accepted; texts from a random walk through the grammar
            must be valid according to jsonschema
real        the same for schemas as programs write them (real.py)
masks       bit by bit compared with llguidance, xgrammar and outlines-core, after every byte of valid and invalid texts; if a
            byte differs, jsonschema decides whether a valid text continues with it
"""
import collections
import json
import os
import random
import subprocess
import sys
import time
import warnings

import jsonschema
import real

warnings.simplefilter("ignore")
FORMATS = jsonschema.Draft202012Validator.FORMAT_CHECKER


class Ours:
    def __init__(self, program):
        self.p = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", errors="surrogateescape")

    def __call__(self, **case):
        self.p.stdin.write(json.dumps(case) + "\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        if not line:
            raise RuntimeError("the program ended at " + json.dumps(case)[:300])
        return json.loads(line)


def other_digits(schema, v):
    """Whether jsonschema may judge a value differently because \\d matches only ASCII digits in ECMAScript but not in
    Python."""
    text = json.dumps(v, ensure_ascii=False)
    return "\\\\d" in json.dumps(schema) and any(c.isdigit() or c.isdecimal() for c in text if not c.isascii())


def texts_of(v):
    """The forms in which an answer may write a value: the usual one, and the one without blanks."""
    out = []
    for seps in (None, (",", ":")):
        t = json.dumps(v, ensure_ascii=False, separators=seps)
        if t not in out:
            out.append(t)
    return out


def writable(v):
    """Whether any reader of JSON can read the value: no lone surrogates, no NUL, finite numbers."""
    t = json.dumps(v)
    try:
        json.dumps(v, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return "\\u0000" not in t and "NaN" not in t and "Infinity" not in t


def odd_number(v):
    """Whether a number is written in a form that bounded numbers do not have (docs/design/constrained.md): an exponent,
    1.0, many digits."""
    if isinstance(v, bool) or v is None or isinstance(v, str):
        return False
    if isinstance(v, int):
        return abs(v) >= 10**18
    if isinstance(v, float):
        return v.is_integer() or "e" in json.dumps(v)
    return any(map(odd_number, v.values() if isinstance(v, dict) else v))


def depth(v):
    if isinstance(v, (dict, list)):
        return 1 + max(map(depth, v.values() if isinstance(v, dict) else v), default=0)
    return 0


def valid(judge, text):
    try:
        v = json.loads(text)
    except ValueError as e:
        return False, "no JSON: " + str(e)
    try:
        err = next(judge.iter_errors(v), None)
    except Exception as e:  # it cannot judge: a missing reference, an invalid pattern
        return True, str(e)
    return err is None, err.message[:200] if err else ""


def suite(ours, folder, differ):
    n = collections.Counter()
    for name in sorted(os.listdir(folder)) + ["optional/" + x for x in sorted(os.listdir(folder + "/optional")) if x.endswith(".json")]:
        if not name.endswith(".json"):
            continue
        for group in json.load(open(f"{folder}/{name}", encoding="utf-8")):
            schema = group["schema"]
            rows = [(t, text) for t in group["tests"] if writable(t["data"]) for text in texts_of(t["data"])[:1]]
            if not writable(schema):
                continue
            r = ours(schema=schema, any_order=True, texts=[text for _, text in rows], walks=10)
            n["schemas"] += 1
            if "error" in r or "unread" in r:
                n["schemas_refused"] += 1
                if "no text can satisfy" not in r.get("error", "") or any(t["valid"] for t, _ in rows):
                    differ.append({"part": "suite", "what": "refused", "at": f"{name}: {group['description']}", "schema": schema, "why": r.get("error", r.get("unread"))})
                continue
            left_out = "notes" in r
            n["schemas_with_clauses_left_out"] += left_out
            for (t, text), takes in zip(rows, r["takes"]):
                n["instances"] += 1
                if takes == t["valid"]:
                    n["as_the_suite_says"] += 1
                elif takes:
                    n["invalid_let_through" + ("_clause_left_out" if left_out else "")] += 1
                    if not left_out:
                        differ.append({"part": "suite", "what": "invalid, let through", "at": f"{name}: {group['description']}: {t['description']}", "schema": schema, "text": text})
                else:
                    odd = odd_number(t["data"])
                    n["valid_not_let_through" + ("_number_form" if odd else "")] += 1
                    if not odd:
                        differ.append({"part": "suite", "what": "valid, not let through", "at": f"{name}: {group['description']}: {t['description']}", "schema": schema, "text": text})
            judge = jsonschema.Draft202012Validator(schema)
            for text in r["made"]:
                n["written"] += 1
                ok, why = valid(judge, text)
                if not ok:
                    n["invalid_written" + ("_clause_left_out" if left_out else "")] += 1
                    if not left_out:
                        differ.append({"part": "suite", "what": "invalid, written", "at": f"{name}: {group['description']}", "schema": schema, "text": text[:300], "why": why})
    return dict(n)


# ---- random schemas, with instances from hypothesis ----

def chance_schema(rng, deep=0):
    """A random schema with only the clauses that docs/design/constrained.md calls exact."""
    kind = rng.choice(["string", "string", "integer", "number", "boolean", "null", "enum", "const", "types"] + ["array", "object", "object", "anyOf", "allOf"] * (deep < 3))
    if kind == "string":
        s = {"type": "string"}
        if rng.random() < .4:
            s["minLength"] = rng.randint(0, 4)
        if rng.random() < .4:
            s["maxLength"] = s.get("minLength", 0) + rng.randint(0, 9)
        if rng.random() < .3:
            s = {"type": "string", "pattern": rng.choice(["^[a-z]+$", "^[A-Z]{2}-[0-9]{3}$", "foo|bar", "^(a|bc)*$", "[0-9]$", "^x?y+z*$", "^\\d{4}$", "^[^\"]{1,5}$", "^.{2,6}$", "[a-z_]+@[0-9]+", "^é+$"])}
        if rng.random() < .1:
            s = {"type": "string", "format": rng.choice(["date", "date-time", "ipv4", "uuid", "time"])}
        return s
    if kind in ("integer", "number"):
        s = {"type": kind}
        if rng.random() < .5:
            s["minimum"] = rng.choice([-10, 0, 1, 5, -1000, 2.5])
        if rng.random() < .5:
            s["maximum"] = s.get("minimum", 0) + rng.choice([1, 7, 50, 10000])
        if rng.random() < .2:
            s["multipleOf"] = rng.choice([1, 2, 5, 7])
        return s
    if kind in ("boolean", "null"):
        return {"type": kind}
    if kind == "enum":
        return {"enum": rng.sample(["a", "b c", "ünï", 1, 2.5, None, True, [1, "x"], {"k": 0}, "quote\"", "back\\slash", "line\n"], rng.randint(1, 5))}
    if kind == "const":
        return {"const": rng.choice(["fixed", 42, None, [1, 2], {"a": {"b": []}}])}
    if kind == "types":
        return {"type": rng.sample(["string", "integer", "null", "boolean"], 2)}
    if kind == "array":
        s = {"type": "array", "items": chance_schema(rng, deep + 1)}
        if rng.random() < .4:
            s["minItems"] = rng.randint(0, 2)
        if rng.random() < .5:
            s["maxItems"] = s.get("minItems", 0) + rng.randint(0, 3)
        if rng.random() < .2:
            s["prefixItems"] = [chance_schema(rng, deep + 1) for _ in range(rng.randint(1, 2))]
        return s
    if kind == "object":
        names = rng.sample(["id", "name", "größe", "a b", "items", "x-y", "n1", "n2"], rng.randint(0, 5))
        s = {"type": "object", "properties": {n: chance_schema(rng, deep + 1) for n in names}, "required": [n for n in names if rng.random() < .5]}
        extra = rng.random()
        if extra < .6:
            s["additionalProperties"] = False
        elif extra < .8:
            s["additionalProperties"] = chance_schema(rng, deep + 1)
        if rng.random() < .15:
            s["minProperties"] = rng.randint(0, len(names))
        return s
    if kind == "anyOf":
        return {"anyOf": [chance_schema(rng, deep + 1) for _ in range(rng.randint(2, 3))]}
    return {"allOf": [chance_schema(rng, deep + 2), {"type": rng.choice(["string", "integer", "object"])}]}


def invented(schema, most):
    import hypothesis
    from hypothesis_jsonschema import from_schema
    found = []
    options = hypothesis.settings(max_examples=most, database=None, derandomize=True, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
    try:
        options(hypothesis.given(from_schema(schema))(lambda v: found.append(v)))()
    except Exception:
        pass  # it cannot invent values for every schema
    return found


def instances(ours, n_schemas, differ):
    n, rng = collections.Counter(), random.Random(3)
    while n["schemas"] < n_schemas:
        schema = chance_schema(rng)
        values = [v for v in invented(schema, 40) if writable(v) and depth(v) < 30]
        rows = [(v, t) for v in values for t in texts_of(v)]
        r = ours(schema=schema, any_order=True, texts=[t for _, t in rows], walks=20)
        n["schemas"] += 1
        if "error" in r:
            n["schemas_without_any_text" if "no text can satisfy" in r["error"] else "schemas_refused"] += 1
            if "no text can satisfy" not in r["error"] or values:
                differ.append({"part": "instances", "what": "refused", "schema": schema, "why": r["error"]})
            continue
        judge = jsonschema.Draft202012Validator(schema, format_checker=FORMATS)
        for (v, t), takes in zip(rows, r["takes"]):
            of_a_constant = json.dumps(v, sort_keys=True) != json.dumps(v) and any(isinstance(x, dict) for x in consts(schema))
            if not takes_or_why(n, schema, judge, v, takes, "order_of_a_constant" if of_a_constant else None):
                differ.append({"part": "instances", "what": "valid, not let through", "schema": schema, "text": t})
        for t in r["made"]:
            n["written"] += 1
            ok, why = valid(judge, t)
            if not ok:
                n["invalid_written"] += 1
                differ.append({"part": "instances", "what": "invalid, written", "schema": schema, "text": t[:300], "why": why})
    return dict(n)


def takes_or_why(n, schema, judge, v, takes, order):
    """Counts an instance as accepted or by the reason of its rejection. `order` is the reason to count if the order of
    its members is wrong, or None. Returns False for a rejection without a known reason."""
    if takes:
        why = "let_through"
    elif odd_number(v):
        why = "number_forms"
    elif not judge.is_valid(v):
        why = "invalid_by_jsonschema"
    elif other_digits(schema, v):
        why = "digits_of_other_scripts"
    else:
        why = order or "valid_not_let_through"
    n["instances"] += 1
    n[why] += 1
    return why != "valid_not_let_through"


def consts(schema):
    if isinstance(schema, dict):
        for k, v in schema.items():
            if k == "const":
                yield v
            elif k == "enum":
                yield from v
            else:
                yield from consts(v)
    elif isinstance(schema, list):
        for v in schema:
            yield from consts(v)


# ---- masks ----

WORDS = ['", "', '":', '": ', '"}', '{"', "},", "],", "abc", "--", "\n  ", "  ", "123", "99", ".5", "e1", '"a', 'a"', "true", "null", "é", "日本", '\\"', "\\n", "}}", "0.", "-1", "foo", "ab", "x-"]


def vocabulary():
    return [bytes([i]) for i in range(256)] + [w.encode() for w in WORDS] + ["日".encode()[:2], "é".encode()[1:] + b'"']


class Llguidance:
    name = "llguidance"

    def __init__(self, toks):
        import llguidance.numpy
        from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
        self.m, self.np = LLMatcher, llguidance.numpy

        class Wrapped:
            tokens, bos_token_id, eos_token_id, special_token_ids = toks + [b""], None, len(toks), [len(toks)]

            def __call__(self, text):
                return list(text if isinstance(text, bytes) else text.encode())

        self.tok = LLTokenizer(TokenizerWrapper(Wrapped()))
        self.bits = self.np.allocate_token_bitmask(1, self.tok.vocab_size)

    def start(self, case):
        if "schema" in case:
            form = {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}
            g = self.m.grammar_from_lark('%llguidance {"no_forcing": true}\nstart: %json ' + json.dumps({**case["schema"], "x-guidance": form} if isinstance(case["schema"], dict) else case["schema"]))
        elif "regex" in case:
            g = self.m.grammar_from_regex(case["regex"])
        else:
            g = self.m.grammar_from_lark(case["lark"])
        m = self.m(self.tok, g)
        if m.is_error():
            raise ValueError(m.get_error())
        return m

    def mask(self, m):
        self.np.fill_next_token_bitmask(m, self.bits, 0)
        return bytes(self.bits.view("uint8")[0])

    def accept(self, m, byte):
        return m.consume_token(byte)


class Xgrammar:
    name = "xgrammar"

    def __init__(self, toks):
        import numpy
        import xgrammar
        self.x, self.n = xgrammar, len(toks) + 1
        info = xgrammar.TokenizerInfo(toks + [b"<end>"], vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[len(toks)])
        self.c = xgrammar.GrammarCompiler(info, max_threads=1)
        self.bits = numpy.zeros((1, (self.n + 31) // 32), numpy.int32)

    def start(self, case):
        if "schema" in case:
            g = self.c.compile_json_schema(json.dumps(case["schema"]), any_whitespace=False, separators=(",", ":"), strict_mode=False)
        elif "regex" in case:
            g = self.c.compile_regex(case["regex"])
        else:
            g = self.c.compile_grammar(case["gbnf"])
        return self.x.GrammarMatcher(g)

    def mask(self, m):
        m.fill_next_token_bitmask(self.bits, 0)
        return self.bits.tobytes()

    def accept(self, m, byte):
        return m.accept_token(byte)


class Outlines:
    name = "outlines-core"

    def __init__(self, toks):
        import outlines_core
        self.o, self.n = outlines_core, len(toks) + 1
        self.v = outlines_core.Vocabulary(len(toks), {t: [i] for i, t in enumerate(toks)})

    def start(self, case):
        if "lark" in case:
            raise ValueError("no grammars")
        pattern = case["regex"] if "regex" in case else self.o.json_schema.build_regex_from_schema(json.dumps(case["schema"]), r"")
        return self.o.Guide(self.o.Index(pattern, self.v))

    def mask(self, m):
        out = bytearray((self.n + 7) // 8)
        for i in m.get_tokens() if not m.is_finished() else [self.n - 1]:
            out[i // 8] |= 1 << i % 8
        return bytes(out)

    def accept(self, m, byte):
        if m.is_finished() or byte not in m.get_tokens():
            return False
        m.advance(byte)
        return True


REGEXES = ["[a-c]+x", "(abc|ab|x9)*", "[^a]{2,3}b?", "(é|日|x)+", "[0-9]{1,3}(\\.[0-9]+)?", "a{3,5}", "[a-z0-9_]+(-[a-z]+){0,2}", "\"[^\"\\\\]*\"", "(a|b)*c[^c]*c", ".{0,4}", "((a|b){2}c){2}", "(foo|bar){1,2}", "x*y*z+", "[A-Z][a-z]*( [A-Z][a-z]*)*"]
GRAMMARS = [('start: "a" x "b"\nx: "c" | "(" x ")"\n', 'root ::= "a" x "b"\nx ::= "c" | "(" x ")"\n', ["a((c))b", "acb", "a(c"]),
            ('start: item ("," item)*\nitem: /[0-9]+/ | "[" start "]"\n', 'root ::= item ("," item)*\nitem ::= [0-9]+ | "[" root "]"\n', ["1,[2,3],44", "[[1]]", "1,,"]),
            ('start: ("yes" | "no") " "? "!"~1..3\n', 'root ::= ("yes" | "no") " "? "!"{1,3}\n', ["yes !!", "no!!!!"])]


def step_cases(n_schemas):
    rng, out = random.Random(5), []
    for r in json.load(open("tests/golden/gram/texts.json", encoding="utf-8"))["cases"]:
        out.append(({"schema": r["schema"]}, r["valid"][:2] + r["invalid"][:2]))
    while len(out) < n_schemas:
        s = chance_schema(rng)
        good = [v for v in invented(s, 8) if writable(v) and not odd_number(v)][-2:]
        bad = [v for v in invented(chance_schema(rng), 4) if writable(v)][-1:]
        out.append(({"schema": s}, [json.dumps(v, ensure_ascii=False) for v in good + bad]))
    for p in REGEXES:
        out.append(({"regex": p}, ["abcx", "foo bar", "12.5", "aab", "xyz", "\"a\"", "é日"]))
    for lark, gbnf, texts in GRAMMARS:
        out.append(({"lark": lark, "gbnf": gbnf}, texts))
    return out


def dense(text):
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        return text


def completes(judge, prefix, byte):
    """Whether some valid text continues with this byte, found by trying the ends of a few values; None if unknown."""
    head = prefix + bytes([byte])
    for end in ("", '"', "0", "1", "}", "]", '"}', '"]', "0}", "0]", "rue", "alse", "ull", 'a"', 'aa"', '":0}', '":"a"}', '":null}', "null}", '""}', "[]", "{}", "00", ".5", "true}", '"a"]', '"a"}'):
        try:
            v = json.loads(head.decode() + end)
            if judge.is_valid(v):
                return True
        except (ValueError, UnicodeDecodeError):
            continue
    return None


def masks(ours, n_schemas, differ):
    toks, per = vocabulary(), {}
    ours(tokens=[t.hex() for t in toks])
    cases = step_cases(n_schemas)
    for make in (Llguidance, Xgrammar, Outlines):
        n = collections.Counter()
        e = make(toks)
        for case, texts in cases:
            if "lark" in case:
                own = {"grammar": case["gbnf"]}
            else:
                own = {k: case[k] for k in case}
                if e.name == "llguidance" and "regex" in case:
                    own = {"regex": case["regex"]}
            if "schema" in case:
                texts = list(dict.fromkeys(dense(t) for t in texts))
            texts = [t for t in texts if len(t.encode()) < 120][:4]
            r = ours(**own, dense=True, steps=texts)
            n["languages"] += 1
            try:
                e.start(case)
            except Exception as x:
                n["refused_there"] += 1
                n["refused_there_and_here"] += "error" in r
                continue
            if "error" in r:
                n["refused_here"] += 1
                continue
            judge = jsonschema.Draft202012Validator(case["schema"], format_checker=FORMATS) if "schema" in case else None
            for text, rows in zip(texts, r["masks"]):
                m, b = e.start(case), text.encode()
                for i, row in enumerate(rows):
                    mine, theirs = bytes.fromhex(row), e.mask(m)
                    n["masks"] += 1
                    only = [[t for t in range(len(toks) + 1) if (x[t // 8] & ~y[t // 8]) >> t % 8 & 1] for x, y in ((mine, theirs), (theirs, mine))]
                    if not any(only):
                        n["equal"] += 1
                    else:
                        n["differ"] += 1
                        judged = collections.Counter()
                        for side, ids in zip(("only_here", "only_there"), only):
                            for t in [t for t in ids if t < 256]:
                                judged[side + {True: "_and_right", None: "_not_settled"}[completes(judge, b[:i], t) if judge else None]] += 1
                            if len(toks) in ids and judge:
                                judged[side + ("_and_right" if valid(judge, b[:i].decode("utf-8", "replace"))[0] else "_and_wrong")] += 1
                        for k, v in judged.items():
                            n["bytes_" + k] += v
                        show = lambda ids: [toks[t].decode("latin-1") if t < len(toks) else "end" for t in ids[:12]]
                        differ.append({"part": "masks", "engine": e.name, **case, "behind": b[:i].decode("utf-8", "replace"), "only_here": show(only[0]), "only_there": show(only[1]), "judged": dict(judged)})
                    if i == len(b) or not e.accept(m, b[i]):
                        break
        per[e.name] = dict(n)
    return per


def grouped(differ):
    """One line per engine and language: the number of different masks, the verdicts on their bytes, and the first
    difference."""
    rows, at = [], {}
    for d in differ:
        if d["part"] != "masks":
            rows.append(d)
            continue
        key = (d["engine"], json.dumps([d.get("schema"), d.get("regex"), d.get("lark")]))
        if key not in at:
            at[key] = {**{k: v for k, v in d.items() if k not in ("judged", "gbnf")}, "masks": 0, "judged": {}}
            rows.append(at[key])
        at[key]["masks"] += 1
        for k, v in d["judged"].items():
            at[key]["judged"][k] = at[key]["judged"].get(k, 0) + v
    return rows


def judge_of(schema, name):
    """The validator for the draft in which a schema is written."""
    first = json.dumps(schema)[:200] if isinstance(schema, dict) else ""
    for word, draft in (("draft-04", jsonschema.Draft4Validator), ("draft 4", jsonschema.Draft4Validator), ("draft-07", jsonschema.Draft7Validator), ("draft 7", jsonschema.Draft7Validator)):
        if word in first or word in name:
            return draft(schema, format_checker=FORMATS)
    return jsonschema.Draft202012Validator(schema, format_checker=FORMATS)


def reals(ours, differ):
    """Tests schemas as programs write them (real.py), with values from hypothesis-jsonschema and texts from random
    walks through the grammar."""
    n = collections.Counter()
    for name, schema in real.SCHEMAS.items():
        rows = [(v, t) for v in invented(schema, 25) if writable(v) and depth(v) < 30 for t in texts_of(v)]
        t0 = time.time()
        r = ours(schema=schema, any_order=True, texts=[t for _, t in rows], walks=30)
        slow = round(time.time() - t0, 2)
        n["schemas"] += 1
        if "error" in r or "unread" in r:
            n["refused"] += 1
            differ.append({"part": "real", "what": "refused", "at": name, "why": r.get("error", r.get("unread"))})
            continue
        n["with_clauses_left_out"] += "notes" in r
        n["slowest_ms"] = max(n["slowest_ms"], round(1000 * slow))
        judge, many = judge_of(schema, name), isinstance(schema, dict) and len(schema.get("properties", ())) > 64
        for (v, t), takes in zip(rows, r["takes"]):
            if not takes_or_why(n, schema, judge, v, takes, "order_of_many_properties" if many else None):
                differ.append({"part": "real", "what": "valid, not let through", "at": name, "text": t[:300]})
        for t in r["made"]:
            n["written"] += 1
            ok, why = valid(judge, t)
            if not ok:
                n["invalid_written" + ("_clause_left_out" if "notes" in r else "")] += 1
                if "notes" not in r:
                    differ.append({"part": "real", "what": "invalid, written", "at": name, "text": t[:300], "why": why})
    return dict(n)


def main():
    """With names of parts after OUT.json, only those are measured again; the results of the others stay."""
    program, folder, out = sys.argv[1:4]
    differ, t, only = [], time.time(), sys.argv[4:]
    ours = Ours(program)
    r = {"command": "make check-gram", "versions": {}}
    parts = {"suite": lambda: suite(ours, folder, differ), "instances": lambda: instances(ours, 300, differ), "real": lambda: reals(ours, differ), "masks": lambda: masks(ours, 300, differ)}
    old = json.load(open(out, encoding="utf-8")) if only else {}
    for name, part in parts.items():
        r[name] = part() if not only or name in only else old.get(name)
    import importlib.metadata
    for p in ("jsonschema", "hypothesis-jsonschema", "hypothesis", "llguidance", "xgrammar", "outlines-core"):
        try:
            r["versions"][p] = importlib.metadata.version(p)
        except importlib.metadata.PackageNotFoundError:
            r["versions"][p] = old["versions"][p]
    r["seconds"] = round(time.time() - t) if not only else old["seconds"]
    rows = grouped(differ) + [d for d in old.get("list", ()) if d["part"] not in only]
    r["kinds_of_differences"] = dict(collections.Counter(" ".join(filter(None, (d["part"], d.get("engine"), d.get("what")))) for d in rows for _ in range(d.get("masks", 1))))
    r["differences"] = sum(r["kinds_of_differences"].values())
    with open(out, "w", encoding="utf-8") as f:
        f.write(json.dumps(r, indent=1, ensure_ascii=False)[:-2] + ',\n "list": [\n' + ",\n".join("  " + json.dumps(d, ensure_ascii=False) for d in rows) + "\n ]\n}\n")
    print(json.dumps(r, indent=1))
    wrong = [d for d in differ if d["part"] == "instances" or (d["part"] == "real" and d["what"] != "refused")]
    for d in wrong[:20]:
        print(json.dumps(d, ensure_ascii=False)[:600])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
