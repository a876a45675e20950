#!/usr/bin/env python3
"""tests/template-repair.py - measures `hone template fix` over a folder of templates.

Renders with jinja2 as configured by transformers and, if installed, with minijinja; expected results never come from hone.
Prints for each template: errors and warnings before and after, failed renderings of the scenarios, right renderings that
changed, pairs of the equivalence oracle, differences between engines, milliseconds that the repair adds to 200 messages, and
whether a second repair changes anything.

    tests/template-repair.py FOLDER [--hone build/hone] [--scenarios FILE] [--json] [-v]

A rendering is right if the original template rendered it, the probes of its features passed, and, if a message has an odd form
(content null, arguments as text ...), it equals the rendering of the normal form."""
import argparse
import collections
import copy
import json
import os
import random
import subprocess
import sys
import tempfile
import time

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

try:
    import minijinja
except ImportError:
    minijinja = None

SPECIAL = {"bos_token": "<BOS>", "eos_token": "<EOS>", "unk_token": "<UNK>", "pad_token": "<PAD>"}


# ---- engines ---------------------------------------------------------------------------------------------------
class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_call"), [], [], body).set_lineno(line)

    def _call(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime_now(fmt):
    import datetime
    return datetime.datetime(2026, 3, 5, 14, 30).strftime(fmt)


def variables(sc):
    v = dict(SPECIAL)
    v.update(sc.get("kwargs") or {})
    for k in sc.get("drop") or []:
        v.pop(k, None)
    messages = []
    for m in sc["messages"]:
        r = next((m[k] for k in ("reasoning_content", "thinking", "reasoning") if m.get(k) is not None), None)
        messages.append(m if r is None else {"thinking": r, **m, "reasoning_content": r})
    v.update(messages=messages, tools=sc.get("tools"), documents=sc.get("documents"),
             add_generation_prompt=sc.get("add_generation_prompt", False))
    return copy.deepcopy(v)


class Jinja2:
    name = "jinja2"

    def __init__(self, text):
        env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                            extensions=[Generation, jinja2.ext.loopcontrols])
        env.filters["tojson"] = tojson
        env.globals["raise_exception"] = raise_exception
        env.globals["strftime_now"] = strftime_now
        self.template = env.from_string(text)

    def render(self, sc):
        try:
            return self.template.render(**variables(sc))
        except Exception as e:  # any failure is the template's fault
            return Failure(e)


class Minijinja:
    name = "minijinja"

    def __init__(self, text):
        env = minijinja.Environment(trim_blocks=True, lstrip_blocks=True, pycompat=True)
        env.add_global("raise_exception", raise_exception)
        env.add_global("strftime_now", strftime_now)
        env.add_filter("tojson", tojson)
        env.add_template("t", text)
        self.env = env

    def render(self, sc):
        try:
            return self.env.render_template("t", **variables(sc))
        except Exception as e:
            return Failure(e)


class Failure:
    def __repr__(self):
        return self.text

    def __init__(self, e):
        self.text = f"{type(e).__name__}: {e}"

    def __eq__(self, other):
        return isinstance(other, Failure)


def engine(kind, text):
    try:
        return kind(text)
    except Exception as e:
        bad = Failure(e)

        class Broken:
            name = kind.name

            @staticmethod
            def render(_):
                return bad
        return Broken()


# ---- conversations ---------------------------------------------------------------------------------------------
def normal(sc):
    """The same conversation in the normal form, as a server would convert it before rendering."""
    sc = copy.deepcopy(sc)
    out, called = [], {}
    for m in sc["messages"]:
        if m.get("role") == "tool" and m.get("tool_call_id") in called:
            m.setdefault("name", called[m["tool_call_id"]])
        if m.get("role") == "developer":
            m["role"] = "system"
        c = m.get("content")
        if isinstance(c, list) and all(isinstance(p, dict) and p.get("type") == "text" for p in c):
            m["content"] = "".join(p["text"] for p in c)
        if c is None and m.get("role") in ("assistant", "tool"):
            m["content"] = ""
        for call in m.get("tool_calls") or []:
            f = call.get("function", call)
            called[call.get("id")] = f.get("name")
            a = f.get("arguments")
            if a is None or (isinstance(a, str) and not a.strip()):
                f["arguments"] = {}
            elif isinstance(a, str):
                try:
                    if isinstance(json.loads(a), dict):
                        f["arguments"] = json.loads(a)
                except ValueError:
                    pass
        out.append(m)
    sc["messages"] = out
    return sc


def tool(name, **props):
    return {"type": "function", "function": {
        "name": name, "description": f"The tool {name}.", "parameters": {
            "type": "object", "properties": {k: {"type": v, "description": k} for k, v in props.items()},
            "required": list(props)[:1]}}}


TOOLS = [tool("get_weather", location="string", unit="string"), tool("run", code="string", limit="integer")]
USERS = ["Hi", "Weather in Oslo?", "  padded\n", "Größe 日本 😀", "a < b && c", "two\n\nparagraphs", "go on"]
ANSWERS = ["Hello!", "It is cold.", "```\ncode\n```", "你好 & <b>", "<think>\nhm\n</think>\n\nYes.", " x "]
SYSTEMS = ["Be terse.", "Rules:\n1. a\n2. b", "Répondez."]
ARGS = [{"location": "Oslo"}, {"location": "Zürich 東京", "unit": "celsius"}, {"limit": 3, "code": "print('a & b')\n"},
        {"flag": True, "none": None}, {"filter": {"a": [1, "x"], "b": {"c": "d"}}}, {"q": 'say "hi" \\ there'}, {}]
RESULTS = ["18C", '{"temp": 18}', "line\nline", "<ok> é"]


def ordinary(rng, system=None, calls=None, empty=False):
    """A conversation in the normal form."""
    m = []
    if rng.random() < 0.4 if system is None else system:
        m.append({"role": "system", "content": rng.choice(SYSTEMS)})
    calls = rng.random() < 0.5 if calls is None else calls
    n = 0
    turns = rng.randint(1, 3)
    for t in range(turns):
        m.append({"role": "user", "content": rng.choice(USERS)})
        if calls and (t == turns - 1 or rng.random() < 0.6):
            for _ in range(rng.choice([1, 1, 2])):
                k = rng.choice([1, 1, 1, 2])
                a = {"role": "assistant", "content": rng.choice(["", "", "", "Let me look."]), "tool_calls": [
                    {"id": f"call{n + i:05d}", "type": "function", "function": {
                        "name": rng.choice(["get_weather", "run"]),
                        "arguments": {} if empty else copy.deepcopy(rng.choice(ARGS))}} for i in range(k)]}
                if rng.random() < 0.2:
                    a["reasoning_content"] = "I need it."
                m.append(a)
                for i in range(k):
                    m.append({"role": "tool", "tool_call_id": f"call{n + i:05d}", "content": rng.choice(RESULTS)})
                n += k
        if t < turns - 1 or rng.random() < 0.3:
            a = {"role": "assistant", "content": rng.choice(ANSWERS)}
            if rng.random() < 0.2:
                a["reasoning_content"] = "Simple."
            m.append(a)
    sc = {"messages": m, "add_generation_prompt": m[-1]["role"] != "assistant"}
    if calls or rng.random() < 0.2:
        sc["tools"] = TOOLS
    if rng.random() < 0.3:
        on = rng.random() < 0.5
        sc["kwargs"] = {"enable_thinking": on, "thinking": on}
    return sc


def each_call(sc, change):
    for m in sc["messages"]:
        for call in m.get("tool_calls", []):
            change(call["function"])


def odd_content(absent):
    def change(sc):
        for m in sc["messages"]:
            if m.get("tool_calls"):
                m["content"] = None
                if absent:
                    del m["content"]
    return change


def odd_args(how):
    def one(f):
        if how == "absent":
            del f["arguments"]
        else:
            f["arguments"] = {"null": None, "blank": "", "text": json.dumps(f["arguments"], ensure_ascii=False)}[how]
    return lambda sc: each_call(sc, one)


def odd_parts(role):
    def change(sc):
        for m in sc["messages"]:
            if m["role"] == role:
                m["content"] = [{"type": "text", "text": m["content"]}]
    return change


def odd_no_parts(sc):
    for m in sc["messages"]:
        if m.get("tool_calls"):
            m["content"] = []


def odd_result(sc):
    for m in sc["messages"]:
        if m["role"] == "tool":
            m["content"] = None


def odd_developer(sc):
    sc["messages"][0]["role"] = "developer"


# form: (function that makes a conversation odd, properties of the normal conversations)
FORMS = {
    "content absent": (odd_content(True), {"calls": True}),
    "content null": (odd_content(False), {"calls": True}),
    "developer": (odd_developer, {"system": True}),
    "arguments absent": (odd_args("absent"), {"calls": True, "empty": True}),
    "arguments null": (odd_args("null"), {"calls": True, "empty": True}),
    "arguments empty text": (odd_args("blank"), {"calls": True, "empty": True}),
    "arguments text": (odd_args("text"), {"calls": True}),
    "content without parts": (odd_no_parts, {"calls": True}),
    "result null": (odd_result, {"calls": True}),
    "result parts": (odd_parts("tool"), {"calls": True}),
    "user parts": (odd_parts("user"), {}),
}


def pairs():
    for form, (change, how) in FORMS.items():
        rng = random.Random(form)
        for _ in range(4):
            plain = ordinary(rng, **how)
            odd = copy.deepcopy(plain)
            change(odd)
            yield form, odd, normal(odd)


def holds(sc):
    """The probes that show whether a conversation of this kind is rendered correctly."""
    want = set()
    tools, roles = sc.get("tools"), [m.get("role") for m in sc["messages"]]
    if tools:
        want |= {"tools_declared", "tools_unicode", "tools_union_type"}
        if "system" in roles:
            want.add("system_with_tools")
    if "developer" in roles:
        want.add("developer")
    if "system" in roles[1:2] and roles[0] == "system":
        want.add("system_twice")
    if any(r == "system" and set(roles[:i]) - {"system"} for i, r in enumerate(roles)):
        want.add("system_mid")
    if "system" in roles:
        want.add("system shown")
    if (sc.get("kwargs") or {}).get("preserve_thinking"):
        want.add("reasoning_preserve")
    if "user" not in roles:
        want.add("no_user")
    for a, b in zip([None] + roles, roles):
        if b == "tool" and a not in ("assistant", "tool"):
            want.add("orphan_tool")
        if a == b == "assistant":
            want |= {"assistants_glued", "gemma4_balanced"}
    for m in sc["messages"]:
        text = m.get("content")
        if isinstance(text, str) and "</think>" in text and m.get("role") == "assistant":
            want.add("literal_close_think")
        calls = m.get("tool_calls") or []
        if not calls:
            continue
        want |= {"args_mapping", "chatml_balanced"}
        if text:
            want.add("calls_rendered")
        if len(calls) > 1:
            want.add("parallel")
        if m.get("reasoning_content"):
            want.add("reasoning_open_turn")
        for c in calls:
            a = c.get("function", c).get("arguments")
            for v in a.values() if isinstance(a, dict) else []:
                if isinstance(v, (bool, type(None), list, dict)):
                    want |= {"args_literals", "args_unicode", "args_html"}
                if isinstance(v, str):
                    want |= {"args_unicode"} if not v.isascii() else set()
                    want |= {"args_html"} if set(v) & set("<>&'") else set()
            if a == {}:
                want.add("args_empty_object")
    return want


# ---- hone ------------------------------------------------------------------------------------------------------
def lint(hone, path):
    r = subprocess.run([hone, "template", "lint", path, "--json"], capture_output=True, text=True)
    return json.loads(r.stdout)


def fix(hone, src, dst):
    subprocess.run([hone, "template", "fix", src, "-o", dst, "--force"], capture_output=True, text=True, check=True)
    with open(dst, encoding="utf-8", newline="") as f:
        return f.read()


def hone_batch(hone, path, scenarios):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump({"defaults": SPECIAL, "clock": "2026-03-05T14:30:00", "scenarios": scenarios}, f)
        f.flush()
        r = subprocess.run([hone, "template", "render", path, "--batch", f.name],
                           capture_output=True, text=True)
    return json.loads(r.stdout)


def long_conversation(text_args):
    """200 messages, with arguments as objects or as JSON text."""
    rng, messages = random.Random(3), []
    while len(messages) < 200:
        messages += ordinary(rng, system=False, calls=True)["messages"]
    sc = {"messages": messages[:200], "tools": TOOLS, "add_generation_prompt": True}
    if text_args:
        odd_args("text")(sc)
    return sc


def milliseconds(template, sc):
    """The fastest of three renderings; None if they fail."""
    best = None
    for _ in range(3):
        start = time.perf_counter()
        if isinstance(template.render(sc), Failure):
            return None
        took = 1000 * (time.perf_counter() - start)
        best = took if best is None else min(best, took)
    return best


def costs(old, new):
    """Milliseconds that the repair adds for 200 messages, and the additional ones for arguments as text."""
    a, b = milliseconds(old, long_conversation(False)), milliseconds(new, long_conversation(False))
    c = milliseconds(new, long_conversation(True))
    return [None if x is None or y is None else round(y - x, 2) for x, y in ((a, b), (b, c))]


def measure(hone, path, scenarios, verbose):
    name = os.path.basename(path)
    with open(path, encoding="utf-8", newline="") as f:
        before_text = f.read()
    row = {"template": name}
    report = lint(hone, path)
    found = report["findings"]
    with tempfile.TemporaryDirectory() as tmp:
        once, twice = os.path.join(tmp, "once.jinja"), os.path.join(tmp, "twice.jinja")
        start = time.time()
        after_text = fix(hone, path, once)
        row["seconds"] = round(time.time() - start, 2)
        row["stable"] = fix(hone, once, twice) == after_text
        left = lint(hone, once)["findings"]
        rendered = hone_batch(hone, once, scenarios)
    errors = [f for f in found if f["severity"] == "error"]
    after = [f for f in left if f["severity"] == "error"]
    row["errors"] = [len(errors), len(after)]
    row["warnings"] = [sum(f["severity"] == "warning" for f in x) for x in (found, left)]
    row["rules_before"] = collections.Counter(f["rule"] for f in errors)
    row["left"] = [f"{f['probe'] or f['rule']}: {f['outcome']}" for f in after]
    row["bytes"] = [len(before_text.encode()), len(after_text.encode())]

    failed = {f["probe"] for f in found if f["probe"]}
    if "tools" not in report["renders"]:  # probes of missing features are not in the list
        failed |= {"tools_declared", "system_with_tools"}
    if "system message" not in report["renders"]:
        failed.add("system shown")
    if "calls" not in report["renders"]:
        failed |= {"args_mapping", "calls_rendered"}
    old, new = engine(Jinja2, before_text), engine(Jinja2, after_text)
    other = [(engine(Minijinja, before_text), engine(Minijinja, after_text))] if minijinja else []
    rng = random.Random(7)
    everything = [(sc["id"], sc) for sc in scenarios] + [(f"ordinary {i}", ordinary(rng)) for i in range(60)]
    row["cost"] = {a.name: costs(a, b) for a, b in [(old, new)] + other}
    row.update(right=0, changed=[], crashes=[0, 0], new_errors=[], engines=[], hone=[])
    for ident, sc in everything:
        a, b = old.render(sc), new.render(sc)
        row["crashes"][0] += isinstance(a, Failure)
        row["crashes"][1] += isinstance(b, Failure)
        if not isinstance(a, Failure) and isinstance(b, Failure):
            row["new_errors"].append(ident)
        plain = normal(sc)
        texts = [m["content"].strip() for m in sc["messages"]
                 if m.get("role") == "user" and isinstance(m.get("content"), str)]
        right = not isinstance(a, Failure) and not holds(sc) & failed
        right = right and not ("args_literals" in failed and "{'" in a)  # Python's repr of arguments
        right = right and all(x in a for x in texts)  # templates that accept only lists of parts lose them
        if right and plain["messages"] != sc["messages"]:
            right = old.render(plain) == a
        row["right"] += right
        if right and a != b:
            row["changed"].append(ident)
            if verbose:
                print(f"  {name}: {ident}\n--- {a!r}\n+++ {b!r}")
        for x, y in other:
            m, n = x.render(sc), y.render(sc)
            if a == m and b != n and not (isinstance(m, Failure) and isinstance(n, Failure)):
                if verbose:
                    print(f"  {name}: {ident}\n--- jinja2 {b!r}\n+++ {x.name} {n!r}")
                row["engines"].append(f"{ident}: {n.text[:90] if isinstance(n, Failure) else 'differs'}")
        if ident in rendered:
            h = rendered[ident] if isinstance(rendered[ident], str) else Failure(Exception())
            if h != b:
                row["hone"].append(ident)
                if verbose:
                    print(f"  {name}: {ident}\n--- jinja2 {b!r}\n+++ hone {h!r}")
    row["pairs"] = {}
    for form, odd, plain in pairs():
        have = row["pairs"].setdefault(form, [0, 0])
        want = new.render(plain)
        if isinstance(want, Failure):
            continue
        have[1] += 1
        have[0] += new.render(odd) == want
    return row


def total(rows):
    out = {"templates": len(rows)}
    for i, when in enumerate(("before", "after")):
        out[f"errors_{when}"] = sum(r["errors"][i] for r in rows)
        out[f"warnings_{when}"] = sum(r["warnings"][i] for r in rows)
        out[f"error_free_{when}"] = sum(r["errors"][i] == 0 for r in rows)
        out[f"crashes_{when}"] = sum(r["crashes"][i] for r in rows)
    out["right"] = sum(r["right"] for r in rows)
    out["right_changed"] = sum(len(r["changed"]) for r in rows)
    out["new_errors"] = sum(len(r["new_errors"]) for r in rows)
    out["engine_differences"] = sum(len(r["engines"]) for r in rows)
    out["hone_differences"] = sum(len(r["hone"]) for r in rows)
    out["not_stable"] = sum(not r["stable"] for r in rows)
    out["slowest"] = max(r["seconds"] for r in rows)
    out["milliseconds"] = {}  # engine: median and longest, for plain messages and for arguments as text
    for name in sorted({e for r in rows for e in r["cost"]}):
        for i, what in enumerate(("messages", "text arguments")):
            ms = sorted(r["cost"][name][i] for r in rows if r["cost"].get(name, [None] * 2)[i] is not None)
            out["milliseconds"][f"{name}, {what}"] = [ms[len(ms) // 2], ms[-1]] if ms else None
    out["pairs"] = {f: [sum(r["pairs"][f][i] for r in rows) for i in (0, 1)] for f in FORMS}
    good, n = (sum(p[i] for p in out["pairs"].values()) for i in (0, 1))
    out["pairs_equal"] = f"{good} of {n} ({100 * good / max(n, 1):.1f} %)"
    out["rules_left"] = dict(collections.Counter(x.split(":")[0] for r in rows for x in r["left"]).most_common())
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("folder")
    p.add_argument("--hone", default="build/hone")
    p.add_argument("--scenarios", default="../shared/golden/templates/scenarios.json",
                   help="JSON with conversations (optional)")
    p.add_argument("--only", help="part of the names")
    p.add_argument("--json", action="store_true")
    p.add_argument("-v", "--verbose", action="store_true")
    o = p.parse_args()
    scenarios = []
    if os.path.exists(o.scenarios):
        with open(o.scenarios, encoding="utf-8") as f:
            scenarios = json.load(f)["scenarios"]
    names = [n for n in sorted(os.listdir(o.folder)) if n.endswith(".jinja") and (not o.only or o.only in n)]
    rows = []
    for n in names:
        row = measure(o.hone, os.path.join(o.folder, n), scenarios, o.verbose)
        rows.append(row)
        if not o.json:
            bad = {k: v for k, v in row["pairs"].items() if v[0] < v[1]}
            print(f"{n}: errors {row['errors'][0]} -> {row['errors'][1]}, warnings {row['warnings'][0]} -> "
                  f"{row['warnings'][1]}, bytes {row['bytes'][0]} -> {row['bytes'][1]}, {row['seconds']} s"
                  + "".join(f"\n    {k}: {row[k]}" for k in ("left", "changed", "new_errors", "engines", "hone") if row[k])
                  + (f"\n    pairs that differ: {bad}" if bad else "") + ("" if row["stable"] else "\n    NOT STABLE"),
                  flush=True)
    print(json.dumps({"total": total(rows), "rows": rows} if o.json else total(rows), indent=1, ensure_ascii=False))


if __name__ == "__main__":
    sys.exit(main())
