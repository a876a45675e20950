# SPDX-License-Identifier: MIT
"""Requests to `hone serve` in odd shapes: duplicate members, contents without text, schemas that combine, chain and recurse,
tools whose parameters are spread over a schema, grammars with left recursion, records written to links and pipes, clients
that disconnect. Judged by jsonschema, jinja2, Python's json and re."""
import http.client
import json
import os
import pathlib
import re
import socket
import subprocess
import threading
import time

from published import HONE, trial
from serving import CHAT, COUNT, HERMES, HOME, MESSAGES, NULLS, OLLAMA, PLAIN, READ, RESPONSES, YES, ask, fits, got, port_of, prompt, refused, rendered, request, schema_of


def post(path, text, template=None):
    """Posts a body without changes; returns (status, text)."""
    c = http.client.HTTPConnection("127.0.0.1", port_of(template), timeout=60)
    c.request("POST", path, text.encode(), {"Content-Type": "application/json"})
    r = c.getresponse()
    out = r.status, r.read().decode()
    c.close()
    return out


# ---- duplicate members, at any depth and with any escapes ----
SAY = '"messages":[{"role":"user","content":"hi"}],"max_tokens":2'
A, U = '{"type":"integer"}', "\\u0061"
FORM = '{%s,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":%s}}}'
for name, path, body, member in (
    ("top", CHAT, '{%s,"max_tokens":3}' % SAY, "max_tokens"),
    ("top, escaped", CHAT, '{%s,"max_tok\\u0065ns":3}' % SAY, "max_tokens"),
    ("message", CHAT, '{"messages":[{"role":"user","content":"a","content":"b"}]}', "content"),
    ("part", CHAT, '{"messages":[{"role":"user","content":[{"type":"text","text":"a","t\\u0065xt":"b"}]}]}', "text"),
    ("properties", CHAT, FORM % (SAY, '{"type":"object","properties":{"a":%s,"%s":%s}}' % (A, U, A)), "a"),
    ("value in enum", CHAT, FORM % (SAY, '{"enum":[{"a":1,"%s":2}]}' % U), "a"),
    ("parameters", CHAT, '{%s,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":%s,"%s":%s}}}}]}' % (SAY, A, U, A), "a"),
    ("arguments", CHAT, '{"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":{"a":1,"%s":2}}}]}]}' % U, "a"),
    ("kwargs", CHAT, '{%s,"chat_template_kwargs":{"a":1,"%s":2}}' % (SAY, U), "a"),
    ("logit_bias", CHAT, '{%s,"logit_bias":{"1":5,"\\u0031":-5}}' % SAY, "1"),
    ("surrogates", CHAT, '{%s,"metadata":{"\\ud83d\\ude00":"1","\U0001f600":"2"}}' % SAY, "\U0001f600"),
    ("input of a call", MESSAGES, '{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{"a":1,"%s":2}}]}],"max_tokens":2}' % U, "a"),
    ("input", RESPONSES, '{"input":[{"role":"user","content":"a","content":"b"}]}', "content"),
    ("options", OLLAMA, '{"messages":[{"role":"user","content":"a"}],"stream":false,"options":{"num_predict":2,"num_predict":3}}', "num_predict"),
):
    trial("requests", "twice: " + name)(lambda scratch, path=path, body=body, member=member: refused(*post(path, body), "twice", member))


@trial("requests", "twice: in arguments given as text")
def _(scratch):
    """The arguments are text from a model: the template gets the values that Python's json parses."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1, "b": 2, "\\u0061": 3}'}}
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "r"}]
    have, want = prompt(HERMES, messages), rendered(HERMES, messages)
    return ("right" if have == want else "wrong"), f"{have!r}, jinja2 {want!r}"


# ---- contents without text, in every role ----
def talk(role, content):
    said = {"role": role, "content": content}
    if role in ("system", "developer"):
        return [said, {"role": "user", "content": "q"}]
    if role == "tool":
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        return [{"role": "user", "content": "q"}, {"role": "assistant", "content": "", "tool_calls": [call]}, {**said, "tool_call_id": "c"}]
    return [{"role": "user", "content": "q"}, said, {"role": "user", "content": "z"}]


for role in ("system", "user", "assistant", "tool"):
    for label, content in (("null", None), ("no parts", []), ("empty", ""), ("an empty part", [{"type": "text", "text": ""}]), ("two empty parts", [{"type": "text", "text": ""}] * 2)):

        def shown(scratch, role=role, content=content):
            have = prompt(NULLS, talk(role, content))
            want = [rendered(NULLS, talk(role, x)) for x in ("", *([None] if content is None else []))]
            return ("right" if have.strip() in [w.strip() for w in want] else "wrong"), f"{have!r}, jinja2 {want!r}"

        trial("requests", f"content: {label}, {role}")(shown)
    for label, content in (("a number", 5), ("an object", {}), ("null among parts", [None]), ("a part without text", [{"type": "text"}])):
        trial("requests", f"content: {label}, {role}")(
            lambda scratch, role=role, content=content: refused(*ask("/apply-template", {"messages": talk(role, content)}), "messages[", "content", "needed")
        )

# ---- schemas that combine, chain and recurse ----
N = {"type": "integer", "minimum": 0, "maximum": 9}
REFS = lambda n, make, last=YES: {"$defs": {**{f"d{i}": make(i) for i in range(n)}, f"d{n}": last}, "$ref": "#/$defs/d0"}
TREE = schema_of(["v", "kids"], v=N, kids={"type": "array", "items": {"$ref": "#/$defs/t"}, "maxItems": 2})


def filled(schema, strict=False, want=None):
    for temperature, seed in ((0, 1), (1.3, 2), (1.3, 3)):
        form = {"name": "f", "schema": schema, "strict": strict}
        body = {"messages": [{"role": "user", "content": "Fill the form."}], "max_tokens": 500, "temperature": temperature, "seed": seed, "chat_template_kwargs": {"enable_thinking": False}}
        c = got(CHAT, {**body, "response_format": {"type": "json_schema", "json_schema": form}})["choices"][0]
        bad = fits(c["message"]["content"], want or schema) if c["finish_reason"] == "stop" else None
        if bad:
            return "wrong", bad
    return "right"


for name, schema, strict in (
    ("allOf of objects", {"allOf": [schema_of(["a"], a=YES), schema_of(["b"], b=N)]}, False),
    ("allOf narrows", {**schema_of(["b"], b=N), "additionalProperties": False, "allOf": [{"properties": {"b": {"maximum": 3}}}]}, False),
    ("allOf of a base", {"$defs": {"base": schema_of(["a"], a=YES)}, "allOf": [{"$ref": "#/$defs/base"}], **schema_of(["b"], b=N)}, False),
    ("$ref with a bound", {"$defs": {"n": {"type": "integer"}}, **schema_of(["a"], a={"$ref": "#/$defs/n", "minimum": 3, "maximum": 5})}, False),
    ("$ref with properties", {"$defs": {"p": schema_of(["x"], x=YES)}, **schema_of(["a"], a={"$ref": "#/$defs/p", "properties": {"y": N}, "required": ["y"]})}, False),
    ("$ref or null", {"$defs": {"p": schema_of(["x"], x=YES)}, **schema_of(["a"], a={"anyOf": [{"$ref": "#/$defs/p"}, {"type": "null"}], "default": None})}, False),
    ("branches told apart", {"oneOf": [schema_of(["t", "a"], t={"const": "x"}, a=YES), schema_of(["t", "b"], t={"const": "y"}, b=N)]}, False),
    ("recursive", {"$defs": {"t": TREE}, "$ref": "#/$defs/t"}, False),
    ("recursive and strict", {"$defs": {"t": {**TREE, "additionalProperties": False}}, "$ref": "#/$defs/t"}, True),
    ("recursive to the root", schema_of(["v"], v=N, next={"anyOf": [{"$ref": "#"}, {"type": "null"}]}), False),
    ("a chain of 200 references", REFS(200, lambda i: {"$ref": f"#/$defs/d{i + 1}"}), False),
    ("600 nested objects", REFS(600, lambda i: {**schema_of([], n={"$ref": f"#/$defs/d{i + 1}"}), "maxProperties": 1}), False),
    ("nested counts", {"type": "string", "pattern": "^((a{0,1000}){0,1000}){0,1000}$"}, False),
):
    trial("requests", "schema: " + name)(lambda scratch, schema=schema, strict=strict: filled(schema, strict))

DOUBLED = REFS(40, lambda i: {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2})  # jsonschema would need 2^40 steps, so that it gets an equivalent schema
trial("requests", "schema: doubled 40 times by allOf")(lambda scratch: filled(DOUBLED, want=YES))

for name, schema, *words in (
    ("closed next to allOf", {"type": "object", "allOf": [schema_of(["a"], a=YES)], "additionalProperties": False}, "no text", "additionalProperties"),
    ("closed parts of allOf", {"allOf": [{**schema_of([k], **{k: YES}), "additionalProperties": False} for k in "ab"]}, "no text", "additionalProperties"),
    ("closed next to $ref", {"$defs": {"p": schema_of(["x"], x=YES)}, **schema_of(["a"], a={"$ref": "#/$defs/p", "additionalProperties": False})}, "properties.a", "additionalProperties"),
    ("without an end", {"$defs": {"t": schema_of(["n"], n={"$ref": "#/$defs/t"})}, "$ref": "#/$defs/t"}, "no text"),
    ("a circle", REFS(1, lambda i: {"$ref": "#/$defs/d1"}, {"$ref": "#/$defs/d0"}), "$ref", "leads to itself"),
    ("a chain of 10,000 references", REFS(10000, lambda i: {"$ref": f"#/$defs/d{i + 1}"}), "more than 256"),
    ("10,000 nested objects", REFS(10000, lambda i: schema_of(["n"], n={"$ref": f"#/$defs/d{i + 1}"})), "too large"),
    ("a chain of 10,000 choices", REFS(10000, lambda i: {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"const": i}]}), "more than 256"),
):
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 2, "response_format": {"type": "json_schema", "json_schema": {"name": "f", "schema": schema}}}
    trial("requests", "schema: " + name)(lambda scratch, body=body, words=words: refused(*ask(CHAT, body), "response_format", *words))

# ---- tools whose parameters are spread over the schema ----
SPREAD = {
    "allOf": {"allOf": [schema_of(["a"], a=COUNT), schema_of(["b"], b=YES)]},
    "anyOf": {"anyOf": [schema_of(["a"], a=COUNT), schema_of(["b"], b=YES)]},
    "anyOf required": {**schema_of([], a=COUNT, b=YES), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "oneOf": {"oneOf": [schema_of(["t", "a"], t={"const": "x"}, a=COUNT), schema_of(["t", "b"], t={"const": "y"}, b=YES)]},
    "a base": {"$defs": {"p": schema_of(["a"], a=COUNT)}, "allOf": [{"$ref": "#/$defs/p"}], **schema_of(["b"], b=YES)},
    "$ref": {"$defs": {"p": schema_of(["a"], a=COUNT)}, "$ref": "#/$defs/p"},
    "$ref and more": {"$defs": {"p": schema_of(["a"], a=COUNT)}, "$ref": "#/$defs/p", **schema_of(["b"], b=YES)},
}
for label, template in (("tags", None), ("JSON", HERMES), ("no tools", PLAIN)):
    for name, schema in SPREAD.items():
        for api in (CHAT, MESSAGES, RESPONSES) if template is None else (CHAT,):

            def called(scratch, template=template, schema=schema, api=api):
                calls = READ[api][0](got(api, request(api, schema), template))[1]
                if len(calls) != 1:
                    return "wrong", str(calls)
                args = calls[0][1]
                bad = fits(args if isinstance(args, str) else json.dumps(args), schema)
                return ("wrong", bad) if bad else ("right", str(args))

            trial("requests", f"tool: {name}, {label}, {api.rsplit('/', 1)[1]}")(called)

# ---- grammars ----
SUM = "[0-9](\\+[0-9])*"
for name, grammar, want in (
    ("lark, left", 'start: start "a" | "b"', "ba*"),
    ("lark, left, of a sum", 'start: sum\nsum: sum "+" n | n\nn: /[0-9]/', SUM),
    ("lark, left in a terminal", 'start: A\nA: A "a" | "b"', "ba*"),
    ("gbnf, left", 'root ::= root "a" | "b"', "ba*"),
    ("gbnf, nested counts", 'root ::= ("a"{0,100000} "b"){0,100000}', "(a*b)*a*"),
    ("lark, nested counts", 'start: (("a"~0..100000)~0..100000 "b")~0..100000', "(a*b)*a*"),
    ("gbnf, 1,500 rules in a chain", "root ::= r0\n" + "\n".join(f'r{i} ::= "x" r{i + 1} | "z"' for i in range(1500)) + '\nr1500 ::= "y"', "x*[yz]?"),
):

    def told(scratch, grammar=grammar, want=want):
        for seed in (1, 2, 3):
            c = got("/v1/completions", {"prompt": "Say it: ", "max_tokens": 30, "temperature": 1, "seed": seed, "grammar": grammar})["choices"][0]
            if not re.fullmatch(want, c["text"]) and (c["finish_reason"] == "stop" or not re.fullmatch(want, c["text"].rstrip("+") or "0")):
                return "wrong", repr(c["text"])
        return "right"

    trial("requests", "grammar: " + name)(told)

for name, grammar, *words in (
    ("lark, left by another rule", 'start: x "a"\nx: start "b" | "c"', "left recursion", "start"),
    ("lark, left behind what may be empty", 'start: e start "a" | "b"\ne: "z"?', "left recursion", "start"),
    ("gbnf, left by another rule", 'root ::= x "a" | "b"\nx ::= root "c"', "left recursion", "root"),
    ("gbnf, nothing but itself", "root ::= root", "no text"),
    ("gbnf, 10,000 rules in each other", "root ::= r0\n" + "\n".join(f'r{i} ::= r{i + 1} | "x{i}"' for i in range(10000)) + '\nr10000 ::= "z"', "nested more than 2000 deep"),
    ("gbnf, a count past 64 bits", 'root ::= "a"{0,99999999999999999999}', "line 1", "too large"),
    ("gbnf, a negative count", 'root ::= "a"{-1,3}', "line 1", "number"),
):
    trial("requests", "grammar: " + name)(lambda scratch, grammar=grammar, words=words: refused(*ask("/v1/completions", {"prompt": "x", "max_tokens": 2, "grammar": grammar}), *words))


# ---- records on links and pipes ----
def recorded(path, n=1, length=3):
    """Runs a server that records into the file; returns (answers, exit status, stderr)."""
    port_of()
    args = [HONE, "serve", pathlib.Path(HOME.name, "model.gguf"), "--port", "0", "--threads", "1", "--context-memory", "64MiB", "--ctx", "2048", "--record", path]
    p = subprocess.Popen([str(a) for a in args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    stop = threading.Timer(20, p.kill)
    stop.start()
    line, answers = p.stdout.readline(), []
    for _ in range(n if line else 0):
        c = http.client.HTTPConnection("127.0.0.1", int(json.loads(line)["url"].rsplit(":", 1)[1].strip("/")), timeout=10)
        c.request("POST", "/v1/completions", json.dumps({"prompt": "a" * length, "max_tokens": 2}), {"Content-Type": "application/json"})
        answers.append(c.getresponse().status)
        c.close()
    time.sleep(0.2)
    p.terminate()
    err = p.communicate()[1].decode()
    stop.cancel()
    return answers, p.returncode, err


def wrong_file(answers, rc, err, *words):
    missing = [w for w in words if w not in err]
    return ("wrong" if answers else "crashed" if rc < 0 else "wrong reason" if missing else "refused"), err[-300:]


for name, link in (("a file", "file"), ("nothing yet", "new")):

    def by_link(scratch, link=link):
        d = pathlib.Path(scratch)
        (d / "file").write_text("")
        os.symlink(d / link, d / "link")
        answers, rc, err = recorded(d / "link")
        ok = answers == [200] and rc == 0 and (d / link).read_text().count("\n") == 1 and os.stat(d / link).st_mode & 0o777 == 0o600 and (d / "link").is_symlink()
        return ("right" if ok else "wrong"), err[-300:]

    trial("requests", "record: a link to " + name)(by_link)


@trial("requests", "record: a link to itself")
def _(scratch):
    os.symlink(scratch + "/l", scratch + "/l")
    return wrong_file(*recorded(scratch + "/l"), "--record", "symbolic links")


@trial("requests", "record: a link into a folder that is not there")
def _(scratch):
    os.symlink(scratch + "/no/file", scratch + "/l")
    return wrong_file(*recorded(scratch + "/l"), "--record", "No such file")


@trial("requests", "record: a pipe without a reader")
def _(scratch):
    os.mkfifo(scratch + "/p")
    return wrong_file(*recorded(scratch + "/p"), "--record", "nothing reads")


@trial("requests", "record: a pipe whose reader stands still")
def _(scratch):
    os.mkfifo(scratch + "/p")
    fd = os.open(scratch + "/p", os.O_RDONLY | os.O_NONBLOCK)
    answers, rc, err = recorded(scratch + "/p", 16, 1500)
    os.close(fd)
    return ("right" if answers == [200] * 16 and rc == 0 and "a line was not written" in err else "wrong"), f"{answers} {err[-200:]}"


@trial("requests", "record: another program's file")
def _(scratch):
    f = pathlib.Path(scratch, "notes.md")
    f.write_text("# Notes\n")
    os.chmod(f, 0o644)
    verdict = wrong_file(*recorded(f), "notes.md", "JSON lines")
    return verdict if f.read_text() == "# Notes\n" and os.stat(f).st_mode & 0o777 == 0o644 else ("wrong", "it was changed")


@trial("requests", "record: the model")
def _(scratch):
    port_of()
    f = pathlib.Path(HOME.name, "model.gguf")
    before = f.stat().st_size
    verdict = wrong_file(*recorded(f), "JSON lines")
    return verdict if f.stat().st_size == before else ("wrong", "the model got lines")


# ---- clients that leave while a grammar compiles, or an answer streams ----
@trial("requests", "leaving: while grammars compile")
def _(scratch):
    port = port_of()

    def leave(i):
        schema = REFS(800 + i, lambda k: schema_of(["n"], n={"$ref": f"#/$defs/d{k + 1}"}))
        body = json.dumps({"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_schema", "json_schema": {"name": "f", "schema": schema}}}).encode()
        s = socket.create_connection(("127.0.0.1", port))
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        time.sleep(0.02 * i)
        s.close()

    all_of = [threading.Thread(target=leave, args=(i,)) for i in range(20)]
    for t in all_of:
        t.start()
    slow = 0.0
    for _ in range(10):
        begin = time.time()
        got("/tokenize", {"content": "a"})
        slow = max(slow, time.time() - begin)
    for t in all_of:
        t.join()
    begin = time.time()
    got("/v1/completions", {"prompt": "a", "max_tokens": 1})
    last = time.time() - begin
    return ("right" if slow < 2 and last < 5 else "wrong"), f"/tokenize took {slow:.2f} s, the answer {last:.2f} s"
