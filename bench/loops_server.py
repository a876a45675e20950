#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The built-in loops and checks over the server's own API: bench/loops_server.py HONE MODEL.gguf [OUT.json]

Starts `hone serve` on a free port of 127.0.0.1, sends the cases of a suite to /v1/chat/completions as a client would, plays the
world that answers the calls, and judges the answers, all by a second implementation of docs/formats/suite.md (package jsonschema).
Compares each case with `hone eval tools --json` of the same file: calls, last text, verdict. Constrained: with grammars, as the
server does by default; free: --constrain off. Both sides have the same cache and activations (KV, f16, and ACT, q8) and THREADS (1).
SUITES="loops checks" and MODES="free constrained" select parts; parts that are not run keep their rows. Writes
docs/results/loops-server.json. The exit status is 1 if an answer or a verdict differs. Takes minutes for a model of 0.5B."""
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse

import jsonschema

sys.path.insert(0, os.path.dirname(__file__))
from quality import build  # noqa: E402

env = os.environ.get
KV, ACT, THREADS, MAX_TOKENS, MAX_STEPS = env("KV", "f16"), env("ACT", "q8"), env("THREADS", "1"), 256, 8
OWN = {"id", "kind", "messages", "prompt", "tools", "expect", "checks", "loop", "max_tokens", "stop"}  # others are for the template


# ---- the rules ----

def equal(a, b):
    """JSON values: 2 is 2.0, but 1 is not true."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(v, b[k]) for k, v in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def fault(schema, value):
    """The first fault of a value, in words that a model can use; None: it satisfies the schema."""
    for error in jsonschema.Draft202012Validator(schema).iter_errors(value):
        path, rule = list(error.absolute_path), error.validator
        if rule == "additionalProperties":
            path.append(next(k for k in error.instance if k not in error.schema.get("properties", {})))
            said = "is not allowed"
        elif rule == "required":
            said = f"'{next(k for k in error.validator_value if k not in error.instance)}' is missing"
        else:
            said = {"type": "is not of type {}", "minimum": "is not at least {}", "maximum": "is not at most {}"}.get(rule, rule).format(error.validator_value)
        return "".join(f"/{p}" for p in path) + (": " if path else "") + said
    return None


def call_fault(case, name, args):
    for t in case.get("tools", []):
        f = t.get("function", t)
        if f["name"] == name:
            return fault(f.get("parameters") or {}, args)
    return f"no tool '{name}' is offered"


class World:
    """Answers the calls of a loop; its state decides."""

    def __init__(self, case):
        self.case, self.loop = case, case["loop"]
        self.state, self.used = dict(self.loop.get("state", {})), {}

    def has(self, want):
        return all(self.state.get(k) is None if v is None else k in self.state and equal(self.state[k], v) for k, v in want.items())

    def matches(self, i, r, name, args):
        given = r.get("arguments", {})
        return (r["name"] == name and self.used.get(i, 0) < r.get("times", float("inf")) and all(k in args and equal(args[k], v) for k, v in given.items())
                and self.has(r.get("when", {})) and ("schema" not in r or fault(r["schema"], args) is None))

    def call(self, name, args):
        bad = call_fault(self.case, name, args)
        if bad:
            return json.dumps({"error": bad}, ensure_ascii=False)
        for i, r in enumerate(self.loop["results"]):
            if self.matches(i, r, name, args):
                self.used[i] = self.used.get(i, 0) + 1
                self.state.update(r.get("set", {}))
                return r["result"] if isinstance(r["result"], str) else json.dumps(r["result"], ensure_ascii=False)
        return json.dumps({"error": "nothing found for these arguments"})


def read_json(text):
    """The JSON of an answer, possibly in one fenced block; None: it is not JSON."""
    text = text.strip(" \t\r\n")
    if len(text) >= 6 and text.startswith("```") and text.endswith("```") and "\n" in text:
        text = text[text.index("\n"):-3]
    try:
        return [json.loads(text)]
    except ValueError:
        return None


def texts(v):
    return [v] if isinstance(v, str) else v


CHECKS = {
    "exact": lambda v, a: a["content"].strip(" \t\r\n") == v.strip(" \t\r\n"),
    "contains": lambda v, a: all(x in a["content"] for x in texts(v)),
    "excludes": lambda v, a: not any(x in a["content"] for x in texts(v)),
    "regex": lambda v, a: re.search(v, a["content"]) is not None,
    "json_schema": lambda v, a: (j := read_json(a["content"])) is not None and fault(v, j[0]) is None,
    "fields": lambda v, a: (j := read_json(a["content"])) is not None and isinstance(j[0], dict) and list(j[0]) == v,
    "reasoning": lambda v, a: bool(a["reasoning"].strip(" \t\r\n")) == v,
}


def expected(case, calls):
    """Whether the calls are those that the case expects, and valid."""
    want = case["expect"] if isinstance(case["expect"], list) else [case["expect"]] if case["expect"] else []
    return len(calls) == len(want) and all(
        name == w["name"] and call_fault(case, name, args) is None and (fault(w["schema"], args) is None if "schema" in w else equal(args, w["arguments"]))
        for (name, args), w in zip(calls, want))


def judge(case, a):
    return ("expect" not in case or expected(case, a["calls"])) and all(CHECKS[k](v, a) for k, v in case.get("checks", {}).items())


# ---- the client ----

class Server:
    def __init__(self, hone, model, constrain):
        self.ready = tempfile.TemporaryFile("w+")
        self.run = subprocess.Popen([hone, "serve", model, "--port", "0", "--parallel", "1", "--ctx", "8192", "--kv-type", KV, "--act", ACT, "-j", THREADS,
                                     "--log", "off", "--constrain", "auto" if constrain else "off"], stdout=self.ready, stderr=subprocess.DEVNULL)
        for _ in range(1200):
            self.ready.seek(0)
            line = self.ready.readline()
            if line.endswith("\n"):
                break
            if self.run.poll() is not None:
                raise RuntimeError(f"hone serve ends with {self.run.returncode}")
            time.sleep(.1)
        self.at = urllib.parse.urlsplit(json.loads(line)["url"])

    def stop(self):
        self.run.terminate()
        self.run.wait()

    def ask(self, case, messages, required):
        """One answer: content, reasoning, calls, and the message to append."""
        body = {"messages": messages, "temperature": 0, "max_tokens": case.get("max_tokens", MAX_TOKENS), **{k: case[k] for k in ("tools", "stop") if k in case}}
        if required:
            body["tool_choice"] = "required"
        variables = {k: v for k, v in case.items() if k not in OWN}
        if variables:
            body["chat_template_kwargs"] = variables
        c = http.client.HTTPConnection(self.at.hostname, self.at.port, timeout=1200)
        c.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        r = c.getresponse()
        said = json.loads(r.read())
        c.close()
        if r.status != 200:
            raise RuntimeError(f"{r.status}: {said}")
        m = said["choices"][0]["message"]
        calls = [(t["function"]["name"], json.loads(t["function"]["arguments"])) for t in m.get("tool_calls") or []]
        return {"cut": said["choices"][0]["finish_reason"] == "length", "content": m.get("content") or "", "reasoning": m.get("reasoning_content") or "", "calls": calls, "message": m}


def as_sent(message):
    """A message of a suite as OpenAI's API wants it: arguments are a text."""
    if "tool_calls" not in message:
        return message
    return {**message, "tool_calls": [{**t, "function": {**t["function"], "arguments": json.dumps(t["function"]["arguments"], ensure_ascii=False)}} for t in message["tool_calls"]]}


def run_loop(server, case):
    """All calls, the last text, and the verdict."""
    world, messages, then, trace, done = World(case), [as_sent(m) for m in case["messages"]], list(case["loop"].get("then", [])), [], False
    for _ in range(case["loop"].get("max_steps", MAX_STEPS)):
        a = server.ask(case, messages, False)
        messages.append(a["message"])
        for t, (name, args) in zip(a["message"].get("tool_calls") or [], a["calls"]):
            messages.append({"role": "tool", "tool_call_id": t["id"], "content": world.call(name, args)})
        trace += a["calls"]
        if not a["calls"] and (a["cut"] or not then):
            done = not a["cut"]
            break
        if not a["calls"]:
            messages.append({"role": "user", "content": then.pop(0)})
    return trace, a["content"], done and world.has(case["loop"].get("goal", {})) and judge(case, a)


def run_case(server, case, constrain):
    if "loop" in case:
        return run_loop(server, case)
    messages = [as_sent(m) for m in case["messages"]] if "messages" in case else [{"role": "user", "content": case["prompt"]}]
    a = server.ask(case, messages, constrain and bool(case.get("expect")))
    return a["calls"], a["content"], judge(case, a)


# ---- the comparison ----

def shown(text, loop):
    """The calls and the last text of an answer as `hone eval tools` shows it: NAME{...} NAME{...} "text"."""
    calls, at, d = [], 0, json.JSONDecoder()
    while at < len(text) and text[at] != '"':
        brace = text.index("{", at)
        args, end = d.raw_decode(text, brace)
        calls.append((text[at:brace], args))
        at = end + 1
    return calls, d.raw_decode(text, at)[0] if at < len(text) else ""


def part(hone, model, suite, constrain, inside):
    with open(suite if os.path.exists(suite) else f"calib/text/{suite}.jsonl", encoding="utf-8") as f:
        cases = [json.loads(line) for line in f if line.strip()]
    server, begin = Server(hone, model, constrain), time.monotonic()
    mode, which = ("constrained", "constrained_") if constrain else ("free", "")
    row = {"suite": suite, "suite_xxh128": inside["suite_xxh128"], "mode": mode, "n_cases": len(cases)}
    passed, differ = {}, {}
    try:
        for case, other in zip(cases, inside["cases"], strict=True):
            calls, text, ok = run_case(server, case, constrain)
            calls2, text2 = shown(other[which + "answer"], "loop" in case)
            same = len(calls) == len(calls2) and all(n == m and equal(x, y) for (n, x), (m, y) in zip(calls, calls2)) and (text == text2 or (calls and "loop" not in case))
            passed[case["id"]] = [ok, other[which + "pass"]]
            if not same or ok != other[which + "pass"]:
                differ[case["id"]] = {"same_answer": bool(same), "server": [calls, text], "in_process": [calls2, text2]}
            print(f"{suite} {mode} {case['id']}: {'same' if same else 'DIFFERS'}, {ok}", file=sys.stderr)
    finally:
        server.stop()
    return {**row, "n_passed_server": sum(s for s, _ in passed.values()), "n_passed_in_process": sum(p for _, p in passed.values()),
            "n_same_answer": len(cases) - sum(not d["same_answer"] for d in differ.values()), "n_same_verdict": sum(s == p for s, p in passed.values()),
            "seconds_server": round(time.monotonic() - begin, 1), "cases": passed, "differ": differ}


def main(hone, model, out="docs/results/loops-server.json"):
    suites, modes = env("SUITES", "loops checks").split(), env("MODES", "free constrained").split()
    rows = []
    for suite in suites:
        eval_ = [hone, "eval", "tools", model, suite, "--kv-type", KV, "--act", ACT, "-j", THREADS, "--json", "-q"] + ["--constrained", "--jump"] * ("constrained" in modes)
        done = subprocess.run(eval_, check=True, stdout=subprocess.PIPE)
        rows += [part(hone, model, suite, mode == "constrained", json.loads(done.stdout)) for mode in modes]
    old = json.load(open(out))["rows"] if os.path.exists(out) else []
    order = {(r["suite"], r["mode"]): r for r in old + rows}
    doc = {"command": f"bench/loops_server.py HONE {os.path.basename(model)}", "build": build(hone), "kv_type": KV, "act": ACT, "threads": int(THREADS),
           "cases": "id: [passes over the server, passes in process]", "rows": list(order.values())}
    with open(out, "w", encoding="utf-8") as f:
        json.dump(doc, f, indent=1, ensure_ascii=False)
        f.write("\n")
    return any(r["differ"] for r in rows)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
