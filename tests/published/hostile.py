# SPDX-License-Identifier: MIT
"""Hostile input: files, folders, templates and requests mutated by a seeded generator. Nothing may crash or hang, an error is
one line that names the input, and accepted input must mean the same as to the gguf and safetensors packages, jinja2 and
json."""
import json
import pathlib
import random
import struct

from published import ROOT, convert, copy_of, hone, trial
from serving import CHAT, MESSAGES, OLLAMA, RESPONSES, port_of

MICRO = ROOT / "tests/golden/models/qwen3"
SEED = 20261127
U64 = (0, 1, 7, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**64 - 1)


def mutated(data, rng, head):
    """The data with one to four changed places, mostly in the first `head` bytes."""
    b = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        if not b:
            break
        at = rng.randrange(min(head, len(b)) if rng.random() < 0.9 else len(b))
        how = rng.randrange(6)
        if how == 0:
            b[at] = rng.randrange(256)
        elif how == 1:
            b[at : at + 8] = struct.pack("<Q", rng.choice(U64))
        elif how == 2:
            b[at : at + 4] = struct.pack("<I", rng.choice(U64) % 2**32)
        elif how == 3:
            del b[at : at + rng.randint(1, 40)]
        elif how == 4:
            b[at:at] = b[at : at + rng.randint(1, 40)]
        else:
            del b[rng.randrange(1, len(b)) :]
    return bytes(b)


def judged(p, name, accepted):
    """The verdict on a command: its refusal, or the result of `accepted` if it accepted the input."""
    if p.crashed:
        return "crashed", p.err[-300:]
    if p.rc == 0:
        return accepted()
    errors = [x for x in p.err.splitlines() if x.startswith("hone: error: ")]
    return ("refused" if len(errors) == 1 and name in errors[0] and len(errors[0]) < 600 else "wrong reason"), p.err[:300]


# ---- GGUF: the gguf package reads each file that `verify --deep` accepts, with the same tensors ----
def gguf_names(path):
    import gguf

    r = gguf.GGUFReader(path)
    return sorted(t.name for t in r.tensors)


def gguf_mutant(scratch, n):
    rng = random.Random(SEED + n)
    p = convert(copy_of(MICRO, scratch))
    bad = pathlib.Path(scratch, "bad.gguf")
    bad.write_bytes(mutated(p.path.read_bytes(), rng, 30000 if n % 2 else 2000))

    def accepted():
        i = hone("inspect", bad, "--tensors", "--json")
        names = sorted(t["name"] for t in json.loads(i.out)["tensors"]) if i.rc == 0 else None
        try:
            want = gguf_names(bad)
        except Exception as e:
            return "wrong", f"the gguf package: {e!r}"
        return "right" if names == want else ("wrong", f"{names} {want}"[:300])

    for args in (("inspect", bad), ("tokenize", bad), ("template", "show", bad), ("run", bad, "-p", "hi", "-n", "2", "--ctx", "64")):
        q = hone(*args, timeout=60)
        if q.crashed:
            return "crashed", f"{args[0]}: {q.err[-300:]}"
    return judged(hone("verify", "--deep", bad), "bad.gguf", accepted)


for i in range(60):
    trial("hostile", f"gguf {i}")(lambda s, i=i: gguf_mutant(s, i))


# ---- safetensors: the safetensors package reads each file that convert accepts ----
def safetensors_mutant(scratch, n):
    rng = random.Random(SEED + 1000 + n)
    d = copy_of(MICRO, scratch)
    f = d / "model.safetensors"
    data = f.read_bytes()
    f.write_bytes(mutated(data, rng, 8 + struct.unpack("<Q", data[:8])[0] if n % 3 else 8))

    def accepted():
        import ml_dtypes  # noqa: F401 (bfloat16 for numpy)
        from safetensors.numpy import load_file

        try:
            load_file(f)
        except Exception as e:
            return "wrong", f"the safetensors package: {e!r}"
        return "right"

    return judged(convert(d), "model", accepted)


for i in range(40):
    trial("hostile", f"safetensors {i}")(lambda s, i=i: safetensors_mutant(s, i))


# ---- the JSON files of a folder ----
def json_mutant(scratch, n):
    rng = random.Random(SEED + 2000 + n)
    d = copy_of(MICRO, scratch)
    name = ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json")[n % 4]
    value = json.loads((d / name).read_text())

    def change(v):
        """Replaces one random value in v."""
        odd = (None, True, -1, 0, 2**31, 2**63, 1e308, float("nan"), "", "x" * 5000, [], {}, [[]], {"a": []})
        k = rng.choice(list(v)) if isinstance(v, dict) and v else rng.randrange(len(v)) if isinstance(v, list) and v else None
        if k is None:
            return
        if isinstance(v[k], (dict, list)) and v[k] and rng.random() < 0.7:
            change(v[k])
        elif rng.random() < 0.2 and isinstance(v, dict):
            del v[k]
        else:
            v[k] = rng.choice(odd)

    for _ in range(rng.randint(1, 3)):
        change(value)
    (d / name).write_text(json.dumps(value))
    p = convert(d)
    return judged(p, d.name, lambda: "right" if hone("verify", "--deep", p.path).rc == 0 else ("wrong", "what was written does not verify"))


for i in range(40):
    trial("hostile", f"folder {i}")(lambda s, i=i: json_mutant(s, i))


# ---- templates: the same output as jinja2 with the settings of transformers, or both fail ----
def raise_exception(message):
    raise ValueError(message)


def by_jinja2(source, messages):
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    env.globals["raise_exception"] = raise_exception
    return env.from_string(source).render(messages=messages, add_generation_prompt=True, tools=None, documents=None, bos_token="", eos_token="")


TALK = [{"role": "system", "content": "s"}, {"role": "user", "content": "a\nb"}, {"role": "assistant", "content": "<think>\nt\n</think>\n\nc"}, {"role": "user", "content": "d"}]
OWN = sorted((ROOT / "template/own").glob("*.jinja"))


def template_mutant(scratch, n):
    import re

    rng = random.Random(SEED + 3000 + n)
    source = OWN[n % len(OWN)].read_text()
    parts = [x for x in re.split(r"({[{%#]|[%#}]}|\W)", source) if x]
    for _ in range(rng.randint(1, 3)):
        at, other = rng.randrange(len(parts)), rng.randrange(len(parts))
        how = rng.randrange(4)
        if how == 0:
            del parts[at]
        elif how == 1:
            parts.insert(at, parts[other])
        elif how == 2:
            parts[at] = parts[other]
        else:
            parts[at], parts[other] = parts[other], parts[at]
    source = "".join(parts)
    f, talk = pathlib.Path(scratch, "bad.jinja"), pathlib.Path(scratch, "talk.json")
    f.write_text(source)
    talk.write_text(json.dumps(TALK))
    try:
        want, why = by_jinja2(source, TALK), ""
    except Exception as e:
        want, why = None, repr(e)
    p = hone("template", "render", f, "--chat", talk)
    for args in (("lint", f), ("fix", f)):
        q = hone("template", *args, timeout=60)
        if q.crashed:
            return "crashed", q.err[-300:]
    if p.rc and want is not None and not p.crashed:
        return "wrong", f"jinja2 renders it: {p.err[:200]}"
    return judged(p, "bad.jinja", lambda: "right" if p.out == want else ("wrong", f"{p.out!r}, jinja2 {want!r} {why}"[:400]))


for i in range(60):
    trial("hostile", f"template {i}")(lambda s, i=i: template_mutant(s, i))


# ---- requests: 200 with JSON, or 4xx with a message; the server answers the next request ----
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}}
BODIES = (
    (CHAT, {"messages": [{"role": "user", "content": "a"}], "max_tokens": 3, "tools": [TOOL], "temperature": 0, "stop": ["x"], "logit_bias": {"1": 1}}),
    (CHAT, {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}], "max_tokens": 3, "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "properties": {"a": {"enum": [1, 2]}}}}}}),
    (MESSAGES, {"messages": [{"role": "user", "content": "a"}], "max_tokens": 3, "system": "s", "tools": [{"name": "f", "input_schema": {"type": "object"}}]}),
    (RESPONSES, {"input": [{"role": "user", "content": "a"}], "max_output_tokens": 3, "text": {"format": {"type": "text"}}}),
    (OLLAMA, {"messages": [{"role": "user", "content": "a"}], "stream": False, "options": {"num_predict": 3}}),
    ("/v1/completions", {"prompt": "a", "max_tokens": 3, "grammar": 'root ::= "a" | "b"', "n": 1}),
    ("/tokenize", {"content": "a", "add_special": True}),
)


def post(path, data):
    import http.client

    c = http.client.HTTPConnection("127.0.0.1", port_of(), timeout=60)
    try:
        c.request("POST", path, data, {"Content-Type": "application/json"})
        r = c.getresponse()
        return r.status, r.read().decode("utf8", "replace")
    finally:
        c.close()


def request_mutant(scratch, n):
    rng = random.Random(SEED + 4000 + n)
    path, body = BODIES[n % len(BODIES)]
    data = json.dumps(body).encode()
    if n % 2:
        odd = (None, True, -1, 0, 2**40, 1e300, "", "x" * 3000, "\ud800", [], {}, [[]] * 50, {"type": "object"}, [{}])
        value = json.loads(data)
        spots = [(value, k) for k in value] + [(v, k) for v in value.values() if isinstance(v, (dict, list)) for k in (v if isinstance(v, dict) else range(len(v)))]
        for _ in range(rng.randint(1, 3)):
            v, k = rng.choice(spots)
            v[k] = rng.choice(odd)
        data = json.dumps(value).encode()
    else:
        data = mutated(data, rng, len(data))
    try:
        status, text = post(path, data)
        alive, _ = post("/tokenize", b'{"content": "a"}')
    except OSError as e:
        return "crashed", repr(e)
    if alive != 200:
        return "crashed", f"afterwards {alive}"
    try:
        answer = json.loads(text)
    except ValueError:
        return ("right", "a stream") if status == 200 and text.startswith(("data:", "event:", "{")) else ("wrong", f"{status} {text[:200]}")
    if status == 200:
        return "right"
    message = answer.get("error", answer)
    message = message.get("message", message) if isinstance(message, dict) else message
    return ("refused" if 400 <= status < 500 and message else "wrong"), f"{status} {text[:200]}"


for i in range(70):
    trial("hostile", f"request {i}")(lambda s, i=i: request_mutant(s, i))
