# SPDX-License-Identifier: MIT
"""`hone serve` over HTTP: streams compared with whole answers, closed objects, strict tools, templates without tools or system
messages, grammars, timings, counts, NUL and Origin. Judged by jsonschema, jinja2, tokenizers and Python's re. One server per
template, started on first use and ended at exit."""
import atexit
import http.client
import json
import pathlib
import re
import subprocess
import tempfile

from published import HONE, ROOT, convert, copy_of, trial

TINY = ROOT / "tests/golden/tiny-qwen35moe"
HOME, SERVERS = tempfile.TemporaryDirectory(), {}
CHAT, MESSAGES, RESPONSES, OLLAMA = "/v1/chat/completions", "/v1/messages", "/v1/responses", "/api/chat"


def port_of(template=None):
    """The port of the server with this template (None: the model's own)."""
    if template not in SERVERS:
        model = pathlib.Path(HOME.name, "model.gguf")
        if not model.exists():
            p = convert(copy_of(TINY, HOME.name), "--type", "f16")
            if p.rc:
                raise RuntimeError(p.err)
        more = []
        if template is not None:
            path = pathlib.Path(HOME.name, f"{len(SERVERS)}.jinja")
            path.write_text(template)
            more = ["--template", path]
        log = open(pathlib.Path(HOME.name, f"{len(SERVERS)}.log"), "w")
        args = [HONE, "serve", model, "--port", "0", "--threads", "1", "--context-memory", "64MiB", "--ctx", "8192", *more]
        p = subprocess.Popen([str(a) for a in args], stdout=subprocess.PIPE, stderr=log)
        atexit.register(lambda: (p.terminate(), p.wait()))
        SERVERS[template] = int(json.loads(p.stdout.readline())["url"].rsplit(":", 1)[1].strip("/"))
    return SERVERS[template]


def ask(path, body, template=None, headers=()):
    """Posts a request; returns (status, text). headers are pairs, so that a header can occur twice."""
    c = http.client.HTTPConnection("127.0.0.1", port_of(template), timeout=60)
    data = json.dumps(body).encode()
    c.putrequest("POST", path)
    for k, v in (("Content-Type", "application/json"), ("Content-Length", str(len(data))), *headers):
        c.putheader(k, v)
    c.endheaders(data)
    r = c.getresponse()
    out = r.status, r.read().decode()
    c.close()
    return out


def got(path, body, template=None):
    """The JSON of an answer, which must have status 200."""
    status, text = ask(path, body, template)
    if status != 200:
        raise RuntimeError(f"{status}: {text[:300]}")
    return json.loads(text)


def events(path, body, template=None):
    """The objects of a stream, which is SSE or lines of JSON."""
    status, text = ask(path, {**body, "stream": True}, template)
    if status != 200:
        raise RuntimeError(f"{status}: {text[:300]}")
    lines = text.splitlines() if path == OLLAMA else [x[5:].strip() for x in text.splitlines() if x.startswith("data:")]
    return [json.loads(x) for x in lines if x and x != "[DONE]"]


def refused(status, text, *words):
    """The verdict on an answer that must have status 400 or 403 and contain these words."""
    if status == 200:
        return "wrong", text[:200]
    missing = [w for w in words if w.lower() not in text.lower()]
    return ("refused" if status in (400, 403) and not missing else "wrong reason"), f"{status} {text[:200]}"


def pairs(members):
    names = [k for k, _ in members]
    if len(set(names)) != len(names):
        raise ValueError("a member stands twice: " + " ".join(names))
    return dict(members)


def fits(text, schema):
    """None if the text is JSON that matches the schema and has no repeated members, otherwise the fault."""
    import jsonschema

    try:
        jsonschema.validate(json.loads(text, object_pairs_hook=pairs), schema)
    except (ValueError, jsonschema.ValidationError) as e:
        return f"{str(e).splitlines()[0]}: {text[:200]}"
    return None


# ---- streams compared with whole answers: (text, calls, end) of both; a call is (name, arguments as text) ----
def chat_whole(a):
    c = a["choices"][0]
    m = c["message"]
    return m["content"] or "", [(x["function"]["name"], x["function"]["arguments"]) for x in m.get("tool_calls", [])], c["finish_reason"]


def chat_stream(ev):
    text, calls, end = "", [], None
    for c in (c for e in ev for c in e["choices"]):
        text += c["delta"].get("content") or ""
        for x in c["delta"].get("tool_calls", []):
            if x["index"] == len(calls):
                calls.append([x["function"]["name"], ""])
            calls[x["index"]][1] += x["function"].get("arguments", "")
        end = c["finish_reason"] or end
    return text, [tuple(c) for c in calls], end


def messages_whole(a):
    blocks = a["content"]
    calls = [(b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"]
    return "".join(b["text"] for b in blocks if b["type"] == "text"), calls, a["stop_reason"]


def messages_stream(ev):
    text, calls, end = "", [], None
    for e in ev:
        if e["type"] == "content_block_start" and e["content_block"]["type"] == "tool_use":
            calls.append([e["content_block"]["name"], ""])
        elif e["type"] == "content_block_delta":
            text += e["delta"].get("text", "")
            if "partial_json" in e["delta"]:
                calls[-1][1] += e["delta"]["partial_json"]
        elif e["type"] == "message_delta":
            end = e["delta"]["stop_reason"]
    return text, [(n, json.loads(a or "{}", object_pairs_hook=pairs)) for n, a in calls], end


def responses_whole(a):
    texts = [p["text"] for o in a["output"] if o["type"] == "message" for p in o["content"]]
    return "".join(texts), [(o["name"], o["arguments"]) for o in a["output"] if o["type"] == "function_call"], a["status"]


def responses_stream(ev):
    text, calls, end = "", {}, None
    for e in ev:
        if e["type"] == "response.output_item.added" and e["item"]["type"] == "function_call":
            calls[e["output_index"]] = [e["item"]["name"], ""]
        elif e["type"] == "response.function_call_arguments.delta":
            calls[e["output_index"]][1] += e["delta"]
        elif e["type"] == "response.output_text.delta":
            text += e["delta"]
        elif e["type"] in ("response.completed", "response.incomplete"):
            end = e["response"]["status"]
    return text, [tuple(c) for _, c in sorted(calls.items())], end


def ollama_stream(ev):
    calls = [(c["function"]["name"], c["function"]["arguments"]) for e in ev for c in e["message"].get("tool_calls", [])]
    return "".join(e["message"]["content"] for e in ev), calls, ev[-1]["done_reason"]


def schema_of(required=(), **props):
    return {"type": "object", "properties": props, "required": list(required)}


WORD, COUNT, YES = {"type": "string", "maxLength": 6}, {"type": "integer", "minimum": 0, "maximum": 99}, {"type": "boolean"}
TOOLS = {
    "words": schema_of(["city"], city=WORD, unit={"enum": ["C", "F"]}),
    "numbers": schema_of(["n", "ok"], n=COUNT, ok=YES, x={"type": ["integer", "null"], "minimum": 0, "maximum": 9}),
    "nested": schema_of(["at"], at=schema_of(["x"], x=COUNT, y=COUNT), tags={"type": "array", "items": {"enum": ["a", "b\"c"]}, "maxItems": 2}),
    "odd_names": schema_of(["a-b", "größe"], **{"a-b": YES, "größe": COUNT}),
    "none": schema_of(),
}


def request(path, schema, name="probe"):
    """A request for the API at this path that requires a call of a tool with this schema."""
    asked = [{"role": "user", "content": "Call the tool, please."}]
    f = {"name": name, "description": "answers what is asked", "parameters": schema}
    common = {"model": "m", "temperature": 0, "seed": 7}
    off = {**common, "chat_template_kwargs": {"enable_thinking": False}}
    if path == CHAT:
        return {**off, "messages": asked, "tools": [{"type": "function", "function": f}], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 400}
    if path == MESSAGES:
        tool = {"name": name, "input_schema": schema}
        return {**off, "messages": asked, "tools": [tool], "tool_choice": {"type": "any", "disable_parallel_tool_use": True}, "max_tokens": 400}
    if path == RESPONSES:
        tool = {"type": "function", "strict": False, **f}
        return {**off, "input": asked, "tools": [tool], "tool_choice": "required", "parallel_tool_calls": False, "max_output_tokens": 400}
    options = {"temperature": 0, "seed": 7, "num_predict": 400}
    return {"model": "m", "messages": asked, "tools": [{"type": "function", "function": f}], "think": False, "options": options}


READ = {
    CHAT: (chat_whole, chat_stream),
    MESSAGES: (messages_whole, messages_stream),
    RESPONSES: (responses_whole, responses_stream),
    OLLAMA: (lambda a: ollama_stream([a]), ollama_stream),
}


def both(path, schema, template=None):
    """The verdict on one request, sent normally and as a stream: both answers must be equal and contain one call with
    arguments that match the schema (Ollama has no tool_choice)."""
    body = request(path, schema)
    whole = READ[path][0](got(path, {**body, "stream": False}, template))
    stream = READ[path][1](events(path, body, template))
    if whole != stream:
        return "wrong", f"whole {whole} stream {stream}"
    if path == OLLAMA and not whole[1]:
        return "right", "no call, as a model may"
    if len(whole[1]) != 1 or whole[1][0][0] != "probe":
        return "wrong", f"calls: {whole}"
    args = whole[1][0][1]
    bad = fits(args if isinstance(args, str) else json.dumps(args), {**schema, "additionalProperties": False})
    return ("wrong", bad) if bad else ("right", str(args))


for api in READ:
    for tool in TOOLS:
        trial("serving", f"stream_{api.rsplit('/', 1)[1] if api != CHAT else 'chat'}_{tool}" if api != OLLAMA else f"stream_ollama_{tool}")(
            lambda scratch, api=api, tool=tool: both(api, TOOLS[tool])
        )

# ---- forms: closed objects ----
FORMS = {  # name: (schema as sent, schema that answers must satisfy)
    "closed": (schema_of(["a"], a=COUNT, b=YES), False),
    "closed_nested": (schema_of(["o"], o=schema_of(["p"], p=YES)), False),
    "said_false": ({**schema_of(["a"], a=YES), "additionalProperties": False}, False),
    "said_schema": ({**schema_of(["a"], a=YES), "additionalProperties": {"type": "boolean"}, "maxProperties": 3}, None),
    "patterns": ({**schema_of(["a"], a=YES), "patternProperties": {"^x[0-9]$": YES}, "additionalProperties": False, "maxProperties": 3}, None),
    "free_names": ({"type": "object", "additionalProperties": {"type": "boolean"}, "propertyNames": {"enum": ["u", "v", "w"]}, "minProperties": 2, "maxProperties": 3}, None),
    "patterns_only": ({"type": "object", "patternProperties": {"^k[a-c]$": COUNT}, "additionalProperties": False, "minProperties": 2, "maxProperties": 3}, None),
    "in_array": ({"type": "array", "items": schema_of(["a", "b"], a=YES, b=YES), "minItems": 2, "maxItems": 2}, False),
    "by_reference": ({"$defs": {"p": schema_of(["x"], x=COUNT)}, **schema_of(["l", "r"], l={"$ref": "#/$defs/p"}, r={"$ref": "#/$defs/p"})}, False),
}


def close(s):
    """Closes every object of the schema that lists properties."""
    if isinstance(s, list):
        return [close(x) for x in s]
    if not isinstance(s, dict):
        return s
    out = {k: close(v) for k, v in s.items()}
    return {**out, "additionalProperties": False} if s.get("type") == "object" and isinstance(s.get("properties"), dict) and "additionalProperties" not in s else out


def form(sent, want, more=()):
    body = {"messages": [{"role": "user", "content": "Fill the form."}], "max_tokens": 300, "chat_template_kwargs": {"enable_thinking": False}, **dict(more)}
    for temperature, seed in ((0, 1), (1.5, 2), (1.5, 3)):
        a = got(CHAT, {**body, "temperature": temperature, "seed": seed, "response_format": {"type": "json_schema", "json_schema": {"name": "f", "schema": sent}}})
        bad = fits(a["choices"][0]["message"]["content"], want)
        if bad:
            return "wrong", bad
    return "right"


for name, (sent, closed) in FORMS.items():
    trial("serving", f"form_{name}")(lambda scratch, sent=sent, closed=closed: form(sent, close(sent) if closed is False else sent))


# ---- strict tools ----
def strict(path, schema):
    body = request(path, schema)
    t = body["tools"][0]
    (t["function"] if path == CHAT else t)["strict"] = True
    return body


@trial("serving")
def strict_all_properties(scratch):
    schema = schema_of(["a"], a=YES, b=COUNT, c={"enum": ["u", "v"]})
    for path in (CHAT, RESPONSES):
        calls = READ[path][0](got(path, strict(path, schema)))[1]
        bad = fits(calls[0][1], {**schema, "required": ["a", "b", "c"], "additionalProperties": False})
        if bad:
            return "wrong", f"{path}: {bad}"
    return "right"


for where, schema in (
    ("top", {**schema_of(["a"], a=YES), "additionalProperties": True}),
    ("inside", {**schema_of(["o"], o={**schema_of(["a"], a=YES), "additionalProperties": True}), "additionalProperties": False}),
    ("of_a_schema", {**schema_of(["a"], a=YES), "additionalProperties": {"type": "string"}}),
):
    for path in (CHAT, RESPONSES):
        trial("serving", f"strict_open_{where}_{'chat' if path == CHAT else 'responses'}")(
            lambda scratch, path=path, schema=schema: refused(*ask(path, strict(path, schema)), "additionalProperties", "strict")
        )

# ---- which schema is wrong ----
LOOK = {"type": "string", "pattern": "(?=a)b"}
ODD = {"type": "array", "items": {"type": "strnig"}}
for where, wrong, path in (
    ("pattern", schema_of(["a"], a=YES, p=LOOK), ".properties.p.pattern"),
    ("items", schema_of(["a"], a=YES, l=ODD), ".properties.l.items.type"),
    ("ref", schema_of(["a"], a={"$ref": "#/$defs/nowhere"}), ".properties.a"),
    ("top", {"type": "objekt"}, ".type"),
):
    for api, member in ((CHAT, "function.parameters"), (RESPONSES, "parameters"), (MESSAGES, "input_schema")):

        def named(scratch, wrong=wrong, path=path, api=api, member=member):
            body = request(api, wrong)
            body["tools"].insert(0, request(api, TOOLS["words"], "other")["tools"][0])
            t = body["tools"][1]
            (t["function"] if api == CHAT else t)["strict"] = True
            if api == MESSAGES:
                body["tools"].insert(0, {"type": "web_search_20250305", "name": "web_search"})
            status, text = ask(api, body)
            return refused(status, text, f"tools[{2 if api == MESSAGES else 1}].{member}{path}")

        trial("serving", f"param_{where}_{api.rsplit('/', 1)[1]}")(named)

# ---- custom templates ----
TURN = "{{ '<|im_start|>' ~ m.role ~ '\\n' ~ m.content ~ '<|im_end|>\\n' }}"
NEXT = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
PLAIN = "{% for m in messages %}" + TURN + "{% endfor %}" + NEXT
NO_SYSTEM = "{% for m in messages %}{% if m.role in ['user', 'assistant'] %}" + TURN + "{% endif %}{% endfor %}" + NEXT
NEVER_SYSTEM = "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" + TURN + "{% endfor %}" + NEXT
FIRST_SYSTEM = "{% for m in messages %}{% if m.role != 'system' or loop.first %}" + TURN + "{% endif %}{% endfor %}" + NEXT
LAST_SYSTEM = (
    "{% set ns = namespace(s='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.s = m.content %}{% endif %}{% endfor %}"
    "{% if ns.s %}{{ '<|im_start|>system\\n' ~ ns.s ~ '<|im_end|>\\n' }}{% endif %}{% for m in messages if m.role != 'system' %}" + TURN + "{% endfor %}" + NEXT
)
# NULLS prints a distinct text for null, WORD_NULL the word "null"; LOOSE prints contents as they are,
# LOOSE_JSON as JSON
NULLS = (
    "{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\\n' }}{% if m.content is none %}[nothing]{% elif m.content == '' %}[empty]{% else %}{{ m.content }}{% endif %}"
    "{% for c in m.tool_calls or [] %}{{ '<tool_call>\\n{\"name\": \"' ~ c.function.name ~ '\", \"arguments\": ' ~ (c.function.arguments | tojson) ~ '}\\n</tool_call>' }}{% endfor %}"
    "{{ '<|im_end|>\\n' }}{% endfor %}" + NEXT
)
WORD_NULL = NULLS.replace("[nothing]", "null")
IF_NULL = "{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\\n' ~ ('null' if m.content is none else m.content) }}" + NULLS.split("{% endif %}", 1)[1]
LOOSE = "{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\\n' ~ m.content }}" + NULLS.split("{% endif %}", 1)[1]
LOOSE_JSON = LOOSE.replace("m.content }}", "m.content | tojson }}", 1)
APPEND = (
    "{% set seen = [] %}{% for m in messages %}{% set _ = seen.append(m.role) %}{% endfor %}{% set last = seen.pop() %}"
    "{{ seen | join(',') ~ '|' ~ last ~ '\\n' }}" + PLAIN
)
APPEND_DO = "{% set kept = [] %}{% for m in messages %}{% if m.content %}{{ '' if kept.append(m) }}{% endif %}{% endfor %}{% for m in kept %}" + TURN + "{% endfor %}" + NEXT
HERMES = (
    "{% if tools %}{{ '<|im_start|>system\\nTools:' }}{% for t in tools %}{{ '\\n' ~ (t | tojson) }}{% endfor %}{{ '\\nAnswer with <tool_call>\\n{\"name\": ..., \"arguments\": ...}\\n</tool_call><|im_end|>\\n' }}{% endif %}"
    + NULLS
)
TALK = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Who are you?"}]
CALLED = {"id": "call_1", "type": "function", "function": {"name": "probe", "arguments": '{"a": 1}'}}


def rendered(template, messages):
    """The prompt that jinja2 renders with arguments of calls as objects, as in transformers."""
    from jinja2.sandbox import SandboxedEnvironment

    env = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = lambda x: json.dumps(x, ensure_ascii=False)
    messages = json.loads(json.dumps(messages))
    for c in (c for m in messages for c in m.get("tool_calls", [])):
        c["function"]["arguments"] = json.loads(c["function"]["arguments"])
    return env.from_string(template).render(messages=messages, add_generation_prompt=True)


def prompt(template, messages, **more):
    return got("/apply-template", {"messages": messages, **more}, template)["prompt"]


for name, template, messages in (
    ("append_pop", APPEND, TALK),
    ("append_in_if", APPEND_DO, TALK),
    ("null", NULLS, [TALK[0], {"role": "assistant", "content": None, "tool_calls": [CALLED]}, {"role": "tool", "tool_call_id": "call_1", "content": "5"}]),
    ("null_as_word", WORD_NULL, [TALK[0], {"role": "assistant", "content": None, "tool_calls": [CALLED]}, {"role": "tool", "tool_call_id": "call_1", "content": "5"}]),
    ("null_in_expression", IF_NULL, [TALK[0], {"role": "assistant", "content": None, "tool_calls": [CALLED]}, {"role": "tool", "tool_call_id": "call_1", "content": "5"}]),
    ("empty", NULLS, [TALK[0], {"role": "assistant", "content": "", "tool_calls": [CALLED]}, {"role": "tool", "tool_call_id": "call_1", "content": "5"}]),
    ("first_system", FIRST_SYSTEM, [{"role": "system", "content": "Be brief."}, *TALK]),
):

    def same(scratch, template=template, messages=messages):
        have, want = prompt(template, messages), rendered(template, messages)
        return ("right" if have == want else "wrong"), f"{have!r}, jinja2 {want!r}"

    trial("serving", f"template_{name}")(same)

for name, template in (("value", LOOSE), ("json", LOOSE_JSON)):

    def not_written(scratch, template=template):
        """A template that prints the content without checking it gets an empty text, not a word for null."""
        messages = [TALK[0], {"role": "assistant", "content": None, "tool_calls": [CALLED]}, {"role": "tool", "tool_call_id": "call_1", "content": "5"}]
        have = prompt(template, messages)
        want = rendered(template, [{**m, "content": m["content"] or ""} for m in messages])
        return ("right" if have == want else "wrong"), f"{have!r}, jinja2 {want!r}"

    trial("serving", f"template_null_loose_{name}")(not_written)

ONE, TWO = {"role": "system", "content": "Rule alpha-17."}, {"role": "system", "content": "Rule beta-23."}
for name, template, messages in (
    ("ignored", NO_SYSTEM, [ONE, *TALK]),
    ("ignored_two", NO_SYSTEM, [ONE, TWO, *TALK]),
    ("ignored_middle", NO_SYSTEM, [TALK[0], TALK[1], TWO, TALK[2]]),
    ("raises", NEVER_SYSTEM, [ONE, *TALK]),
    ("raises_middle", NEVER_SYSTEM, [ONE, TALK[0], TALK[1], TWO, TALK[2]]),
    ("second_dropped", FIRST_SYSTEM, [ONE, TWO, *TALK]),
    ("middle_dropped", FIRST_SYSTEM, [ONE, TALK[0], TALK[1], TWO, TALK[2]]),
    ("first_dropped", LAST_SYSTEM, [ONE, TWO, *TALK]),
    ("developer", NO_SYSTEM, [{**ONE, "role": "developer"}, *TALK]),
    ("parts", NO_SYSTEM, [{**ONE, "content": [{"type": "text", "text": ONE["content"]}]}, *TALK]),
):

    def kept(scratch, template=template, messages=messages):
        text = prompt(template, messages)
        said = [m["content"] if isinstance(m["content"], str) else m["content"][0]["text"] for m in messages]
        odd = [s for s in said if text.count(s) != 1]
        return ("wrong" if odd else "right"), f"not there once: {odd} in {text!r}"

    trial("serving", f"system_{name}")(kept)

for name, template in (("plain", PLAIN), ("no_system", NO_SYSTEM), ("never_system", NEVER_SYSTEM), ("hermes", HERMES)):

    def told(scratch, template=template):
        tools = request(CHAT, TOOLS["words"])["tools"]
        history = [ONE, TALK[0], {"role": "assistant", "content": None, "tool_calls": [CALLED]}, {"role": "tool", "tool_call_id": "call_1", "content": "result-5"}]
        text = prompt(template, history, tools=tools)
        want = ["answers what is asked", '"city"', "result-5"] + ([ONE["content"]] if template is not HERMES else [])
        odd = [w for w in want if w not in text]
        return ("wrong" if odd or text.count('"a": 1') != 1 else "right"), f"missing {odd} in {text!r}"

    trial("serving", f"tools_told_{name}")(told)
    for path, tool in ((CHAT, "words"), (CHAT, "nested"), (MESSAGES, "numbers"), (RESPONSES, "odd_names")):
        trial("serving", f"tools_called_{name}_{tool}")(lambda scratch, template=template, path=path, tool=tool: both(path, TOOLS[tool], template))

# ---- grammars: (field, text, pattern of the answers) ----
GRAMMARS = {
    "lark_indented": ("grammar", '\n    start: WORD " " NUM\n    WORD: /[a-c]{2,4}/\n    NUM: /[0-9]{1,3}/\n', "[a-c]{2,4} [0-9]{1,3}"),
    "lark_tabs": ("guided_grammar", '\tstart: item ("," item)~1..2\n\titem: "x" | "y"\n', "[xy](,[xy]){1,2}"),
    "lark_ignored_case": ("grammar", '  start: "yes"i | "no"i\n', "(?i:yes|no)"),
    "gbnf_blanks": ("grammar", 'root ::= [a-c]{ 2 , 4 } "-" [0-9]{ 3 }\n', "[a-c]{2,4}-[0-9]{3}"),
    "gbnf_lines": ("grammar", 'root ::= (\n  "a" # one\n  | "b"\n) tail\ntail ::= "!"{1,}  "?"\n', "[ab]!+\\?"),
    "gbnf_not": ("grammar", 'root ::= "[" [^\\]\\n\\x00-\\x1f"]{1, 5} "]"', '\\[[^\\]\\n\\x00-\\x1f"]{1,5}\\]'),
}
for name, (field, grammar, want) in GRAMMARS.items():

    def held(scratch, field=field, grammar=grammar, want=want, endless="{1,}" in grammar):
        for seed in (1, 2, 3):
            body = {"prompt": "Say it: ", "max_tokens": 60, "temperature": 1, "seed": seed, field: grammar}
            c = got("/v1/completions", body)["choices"][0]
            if not re.fullmatch(want, c["text"]) and c["finish_reason"] == "stop":
                return "wrong", repr(c["text"])
            if c["finish_reason"] != "stop" and not endless:
                return "wrong", f"no end: {c['text']!r}"
        return "right"

    trial("serving", f"grammar_{name}")(held)

# ---- numbers ----
SAY = {"messages": TALK, "max_tokens": 5, "temperature": 0, "ignore_eos": True}
for name, path, body in (("chat", CHAT, SAY), ("completions", "/v1/completions", {"prompt": "The cat", "max_tokens": 5, "temperature": 0, "ignore_eos": True})):
    for usage in (False, True):

        def timed(scratch, path=path, body=body, usage=usage):
            ev = events(path, {**body, "stream_options": {"include_usage": usage}})
            with_usage = [e for e in ev if e.get("usage")]
            t = (with_usage or ev)[-1].get("timings") or {}
            if usage and (len(with_usage) != 1 or with_usage[0]["usage"]["completion_tokens"] != 5):
                return "wrong", f"usage: {with_usage}"
            return ("right" if t.get("predicted_n") == 5 and t.get("prompt_ms", -1) >= 0 else "wrong"), str(ev[-1])[:300]

        trial("serving", f"timings_{name}{'_usage' if usage else ''}")(timed)

for name, path, body in (
    ("chat", "/chat/completions/input_tokens", {"messages": TALK}),
    ("chat_tools", "/chat/completions/input_tokens", {"messages": TALK, "tools": request(CHAT, TOOLS["words"])["tools"]}),
    ("responses", "/responses/input_tokens", {"input": TALK}),
    ("responses_instructions", "/responses/input_tokens", {"input": "Hi.", "instructions": "Be brief."}),
):

    def counted(scratch, path=path, body=body):
        from tokenizers import Tokenizer

        messages = body.get("messages") or ([{"role": "system", "content": body["instructions"]}] if "instructions" in body else [])
        said = body.get("input", [])
        messages = messages + ([{"role": "user", "content": said}] if isinstance(said, str) else said)
        text = prompt(None, messages, **({"tools": body["tools"]} if "tools" in body else {}))
        want = len(Tokenizer.from_file(str(TINY / "tokenizer.json")).encode(text, add_special_tokens=False).ids)
        have = [got(p, body)["input_tokens"] for p in (path, "/v1" + path)]
        return ("right" if have == [want, want] else "wrong"), f"{have}, tokenizers {want}"

    trial("serving", f"input_tokens_{name}")(counted)

# ---- NUL: kept unchanged in texts; refused in names and schemas ----
NUL = "a\0b"


@trial("serving")
def nul_in_prompt(scratch):
    texts = [prompt(t, [{"role": "system", "content": NUL + "s"}, {"role": "user", "content": NUL + "u"}]) for t in (None, PLAIN, NO_SYSTEM)]
    return ("right" if all(NUL + "s" in t and NUL + "u" in t for t in texts) else "wrong"), repr(texts)


@trial("serving")
def nul_tokenized(scratch):
    from tokenizers import Tokenizer

    t = Tokenizer.from_file(str(TINY / "tokenizer.json"))
    ids = got("/tokenize", {"content": NUL})["tokens"]
    back = got("/detokenize", {"tokens": ids})["content"]
    return ("right" if ids == t.encode(NUL, add_special_tokens=False).ids and back == NUL else "wrong"), f"{ids} {back!r}"


@trial("serving")
def nul_in_enum(scratch):
    body = {"messages": TALK, "response_format": {"type": "json_schema", "json_schema": {"name": "f", "schema": schema_of(["a"], a={"enum": [NUL]})}}}
    return refused(*ask(CHAT, body), "response_format", "u0000")


@trial("serving")
def nul_in_name_of_property(scratch):
    return refused(*ask(CHAT, request(CHAT, schema_of([NUL], **{NUL: YES}))), "tools", "u0000")


@trial("serving")
def nul_in_name_of_tool(scratch):
    return refused(*ask(CHAT, request(CHAT, TOOLS["words"], NUL)), "name")


@trial("serving")
def nul_in_arguments(scratch):
    call = {**CALLED, "function": {"name": "probe", "arguments": json.dumps({"t": NUL})}}
    messages = [TALK[0], {"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "call_1", "content": NUL + "r"}]
    text = prompt(None, messages)
    return ("right" if text.count(NUL) == 2 and NUL + "r" in text else "wrong"), repr(text)


for name, path, body, where in (
    ("messages", "/v1/messages/count_tokens", {"messages": [{"role": "user", "content": [{"type": "text", "text": NUL}]}]}, "messages"),
    ("responses", "/responses/input_tokens", {"input": [{"role": "user", "content": [{"type": "input_text", "text": NUL}]}]}, "input"),
    ("system", "/v1/messages/count_tokens", {"system": NUL, "messages": TALK}, "system"),
):

    def nul_counted(scratch, path=path, body=body, where=where):
        """A NUL counts as a byte: the count must be that of the same text with a different byte that is a token."""
        other = json.loads(json.dumps(body).replace("\\u0000", "\\u0001"))
        have, want = got(path, body)["input_tokens"], got(path, other)["input_tokens"]
        return ("right" if have == want else "wrong"), f"{have}, {want}"

    trial("serving", f"nul_in_{name}")(nul_counted)


@trial("serving")
def nul_in_completion(scratch):
    a = got("/v1/completions", {"prompt": NUL, "max_tokens": 1, "echo": True})["choices"][0]["text"]
    return ("right" if a.startswith(NUL) else "wrong"), repr(a)


# ---- origin of the requesting page ----
def own():
    return f"http://127.0.0.1:{port_of()}"


for name, origins, good in (
    ("own", lambda: [own()], True),
    ("other", lambda: ["http://evil.example"], False),
    ("own_then_other", lambda: [own(), "http://evil.example"], False),
    ("other_then_own", lambda: ["http://evil.example", own()], False),
    ("own_twice", lambda: [own(), own()], False),
):

    def from_page(scratch, origins=origins, good=good):
        status, text = ask("/tokenize", {"content": "a"}, headers=[("Origin", o) for o in origins()])
        return ("right" if status == 200 else "wrong", text[:200]) if good else refused(status, text, "origin")

    trial("serving", f"origin_{name}")(from_page)
