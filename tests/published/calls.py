# SPDX-License-Identifier: MIT
"""Tool calls in answers: the syntax that a template asks for, detected from its behaviour; loosely written answers; markers
that must not leak. Expected results follow the family's documented format; rendered calls come from jinja2."""
import json
import os
import pathlib
import re

from published import ROOT, hone, trial


def tool(name, required=(), **kinds):
    props = {k: v if isinstance(v, dict) else {"type": v} for k, v in kinds.items()}
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": {"type": "object", "properties": props, "required": list(required)}}}


TOOLS = [
    tool("bash", ["command"], command="string"),
    tool("edit", ["path"], path="string", old="string", new="string", n="integer"),
    tool("mix", s="string", n="integer", x="number", b="boolean", l="array", o="object", u={"type": ["string", "null"]}, a={}),
    tool("now"),
]


def read(scratch, template, text, *args, tools=TOOLS):
    t, f = pathlib.Path(scratch, "t.jinja"), pathlib.Path(scratch, "tools.json")
    t.write_text(template)
    f.write_text(json.dumps(tools))
    return hone("template", "parse", t, "--tools", f, *args, data=text.encode())


TEXTS = []  # the inputs of the trials


def bash(x, name="bash"):
    return name, {"command": x}


EMPTY = "{% for m in messages %}{{ m.content }}{% endfor %}"


def answer(name, fmt, text, calls=(), content="", reasoning="", problems=False, think="none", more=(), loose=0):
    """A trial: text, parsed in the syntax fmt, must give these results. problems: whether any are reported, because the call
    deviates from the syntax and its meaning was guessed, or because something begins like a call but is none."""

    @trial("calls", fmt + ": " + name)
    def run(scratch):
        p = read(scratch, EMPTY, text, "--format", fmt, "--think", think, *more)
        if p.crashed:
            return "crashed", p.err[-300:]
        if p.rc:
            return "wrong reason", p.err
        j = json.loads(p.out)
        want = [{"name": n, "arguments": a} for n, a in calls]
        same = json.dumps(j["tool_calls"], sort_keys=True) == json.dumps(want, sort_keys=True)
        same = same and j["content"] == content and j["reasoning"] == reasoning and j.get("loose", 0) == loose
        return "right" if same and problems == bool(j["problems"]) else "wrong", p.out.strip()

    TEXTS.append({"name": name, "format": fmt, "think": think, "strict": "--strict-calls" in more, "text": text, "content": content,
                  "reasoning": reasoning, "tool_calls": [{"name": n, "arguments": a} for n, a in calls], "problems": problems, "loose": loose})


def write_texts(path):
    """Writes the inputs of the trials as lines of JSON for tests/unit/test_tool_texts.c, with the tools first."""
    with open(path, "w") as f:
        for line in [TOOLS] + TEXTS:
            f.write(json.dumps(line, ensure_ascii=False) + "\n")


# ---- Qwen XML ----
def qwen(*values, fn="edit", open="<tool_call>\n", close="\n</tool_call>"):
    return open + f"<function={fn}>\n" + "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in values) + "</function>" + close


for label, v in {
    "closing tag in text": "a </parameter> b",
    "closing tag on a line of its own": "a\n</parameter>\nb",
    "XML": "<a href=\"x\">\n  <b>1 &lt; 2</b>\n</a>",
    "function text": "def f():\n    return '</function>'",
    "call text": "write <tool_call> and </tool_call> literally",
    "blank lines": "\n\nx\n\n",
    "spaces": "   x\t ",
    "unicode": "naïve — 東京 \u2028 \U0001f600 e\u0301",
    "number": "007",
    "JSON text": '{"a": [1, 2]}',
    "word": "null",
    "empty": "",
    "windows": "a\r\nb\r\n",
    "think text": "a </think> b <think> c",
}.items():
    answer("value " + label, "qwen-xml", qwen(("path", v), ("old", "x")), [("edit", {"path": v, "old": "x"})])
answer("types", "qwen-xml", qwen(("s", "1"), ("n", "-3"), ("x", "1e3"), ("b", "true"), ("l", "[1, \"a\"]"), ("o", '{"k": {"k": null}}'), fn="mix"),
       [("mix", {"s": "1", "n": -3, "x": 1e3, "b": True, "l": [1, "a"], "o": {"k": {"k": None}}})])
answer("Python words", "qwen-xml", qwen(("b", "True"), fn="mix"), [("mix", {"b": True})])
answer("no parameters", "qwen-xml", "<tool_call>\n<function=now>\n</function>\n</tool_call>", [("now", {})])
answer("prose before", "qwen-xml", "I look.\n\n" + qwen(("command", "ls"), fn="bash"), [bash("ls")], "I look.")
answer("prose between", "qwen-xml", qwen(("command", "a"), fn="bash") + "\nthen\n" + qwen(("command", "b"), fn="bash"), [bash("a"), bash("b")], "then")
answer("no opening tag", "qwen-xml", "Hm.\n" + qwen(("command", "a"), fn="bash", open=""), [bash("a")], "Hm.")
answer("no closing tag", "qwen-xml", qwen(("command", "a"), fn="bash", close=""), [bash("a")])
answer("cut off", "qwen-xml", "<tool_call>\n<function=bash>\n<parameter=command>\nrm -r", [], "<tool_call>\n<function=bash>\n<parameter=command>\nrm -r", problems=True)
answer("tag of code inline", "qwen-xml", "Write `<tool_call>` to call.", [], "Write `<tool_call>` to call.", problems=True)
answer("no end of the parameter", "qwen-xml", "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</function>\n</tool_call>", [bash("ls")], problems=True)
answer("no end of the function", "qwen-xml", "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</parameter>\n</tool_call>", [bash("ls")], problems=True)
answer("call in open reasoning", "qwen-xml", "hm\n" + qwen(("command", "a"), fn="bash"), [bash("a")], reasoning="hm", think="open", problems=True)
answer("indented", "qwen-xml", "<tool_call>\n  <function=bash>\n    <parameter=command>\nls\n    </parameter>\n  </function>\n</tool_call>", [bash("ls\n    ")])  # one line break before and one after the value are dropped
answer("end of turn", "qwen-xml", qwen(("command", "a"), fn="bash") + "<|im_end|>\n", [bash("a")])

# ---- calls as JSON in tags ----
A, B = '{"name": "bash", "arguments": {"command": "a"}}', '{"name": "bash", "arguments": {"command": "b"}}'
H = "<tool_call>\n%s\n</tool_call>"
answer("two in a tag", "hermes-json", H % (A + "\n" + B), [bash("a"), bash("b")])
answer("three in a list", "hermes-json", H % f"[{A}, {B}, {A}]", [bash("a"), bash("b"), bash("a")])
answer("arguments as text", "hermes-json", H % json.dumps({"name": "bash", "arguments": '{"command": "a"}'}), [bash("a")])
answer("parameters", "hermes-json", H % A.replace("arguments", "parameters"), [bash("a")])
answer("function around", "hermes-json", H % f'{{"type": "function", "function": {A}}}', [bash("a")])
answer("tags in the value", "hermes-json", H % json.dumps({"name": "bash", "arguments": {"command": "echo '</tool_call>' <tool_call> </think>"}}), [bash("echo '</tool_call>' <tool_call> </think>")])
answer("braces in the value", "hermes-json", H % json.dumps({"name": "bash", "arguments": {"command": 'f(){ echo "}}"; }'}}), [bash('f(){ echo "}}"; }')])
answer("no closing tag", "hermes-json", "<tool_call>\n" + A, [bash("a")])
answer("not JSON", "hermes-json", H % "{name: bash}", [], H % "{name: bash}", problems=True)
answer("one brace too many", "hermes-json", H % (A + "}"), [bash("a")], problems=True)
answer("one brace too few", "hermes-json", H % A[:-1], [bash("a")], problems=True)
answer("raw newline in the value", "hermes-json", H % A.replace('"a"', '"a\nb"'), [bash("a\nb")], problems=True)
answer("fence in the tag", "hermes-json", H % f"```json\n{A}\n```", [bash("a")])
answer("no arguments", "hermes-json", H % '{"name": "now"}', [("now", {})])
answer("null arguments", "hermes-json", H % '{"name": "now", "arguments": null}', [("now", {})])
answer("prose after", "hermes-json", H % A + "\nWaiting.", [bash("a")], "Waiting.")

# ---- loose ----
for label, text, n in (
    ("bare", A, 1),
    ("fence", f"```json\n{A}\n```", 1),
    ("fence of no language", f"```\n{A}\n```", 1),
    ("fence tool_call", f"```tool_call\n{A}\n```", 1),
    ("fence with a blank", f"```json \n{A}\n```\n\n", 1),
    ("tilde fence", f"~~~json\n{A}\n~~~", 1),
    ("parameters", A.replace("arguments", "parameters"), 1),
    ("arguments as text", json.dumps({"name": "bash", "arguments": '{"command": "a"}'}), 1),
    ("function around", f'{{"type": "function", "function": {A}}}', 1),
    ("two fences", f"```json\n{A}\n```\n\n```json\n{A}\n```", 2),
    ("three in a list", f"[{A},\n{A},\n{A}]", 3),
    ("end of turn", A + "<|im_end|>", 1),
    ("behind reasoning", f"<think>\n\n</think>\n\n{A}", 1),
):
    answer("loose " + label, "qwen-xml", text, [bash("a")] * n, loose=n, think="auto")
    answer("strict " + label, "qwen-xml", text, [], text.replace("<|im_end|>", "").replace("<think>\n\n</think>\n\n", "").strip("\n"), more=["--strict-calls"], think="auto")
answer("loose nested braces", "hermes-json", '{"name": "mix", "arguments": {"o": {"k": {"k": "}"}}, "l": [{"a": "{"}]}}', [("mix", {"o": {"k": {"k": "}"}}, "l": [{"a": "{"}]})], loose=1)
answer("loose no arguments", "hermes-json", '{"name": "now", "arguments": {}}', [("now", {})], loose=1)
for label, text in {
    "undeclared": A.replace("bash", "rm"),
    "wrong type": '{"name": "edit", "arguments": {"path": "a", "n": "1"}}',
    "member missing": '{"name": "edit", "arguments": {"old": "a"}}',
    "undeclared member": '{"name": "bash", "arguments": {"command": "a", "zz": 1}}',
    "prose before": "Here:\n" + A,
    "prose after": A + "\nThat is it.",
    "one of two undeclared": A + "\n" + A.replace("bash", "rm"),
    "other object": '{"name": "Ann", "age": 3}',
    "schema of a tool": json.dumps(TOOLS[0]),
    "text with half JSON": '{"name": "bash", "arguments": {"command": "a"',
}.items():
    answer("not loose " + label, "qwen-xml", text, [], text)

# ---- gpt-oss ----
S, LS = "<|start|>assistant", '<|message|>{"command": "ls"}<|call|>'
for ch in ("analysis", "commentary", "final"):
    for form in (f"<|channel|>{ch} to=functions.bash <|constrain|>json", f" to=functions.bash<|channel|>{ch} code", f"<|channel|>{ch} to=functions.bash<|constrain|>json", f"<|channel|>{ch} json to=functions.bash"):
        answer(form, "harmony", "<|channel|>analysis<|message|>Why.<|end|>" + S + form + LS, [bash("ls")], reasoning="Why.")
answer("preamble, two calls", "harmony", f"<|channel|>commentary<|message|>I list.<|end|>{S}<|channel|>commentary to=functions.bash json{LS}{S}<|channel|>commentary to=functions.bash json{LS}", [bash("ls")] * 2, "I list.")
answer("not JSON", "harmony", "<|channel|>commentary to=functions.bash json<|message|>ls -l<|call|>", [], "ls -l", problems=True)
answer("no arguments", "harmony", "<|channel|>commentary to=functions.now json<|message|>{}<|call|>", [("now", {})])
answer("empty message", "harmony", "<|channel|>analysis<|message|><|end|>" + S + "<|channel|>final<|message|>Hi<|return|>", [], "Hi")
answer("to= in text", "harmony", "<|channel|>final<|message|>Set to=functions.bash here.<|return|>", [], "Set to=functions.bash here.")
answer("recipient without functions", "harmony", S + " to=bash<|channel|>commentary <|constrain|>json" + LS, [bash("ls")])

# ---- Gemma 4 ----
Q = '<|"|>'
G = lambda s: "<|tool_call>call:" + s + "<tool_call|>"
answer("string", "gemma4", G(f"bash{{command:{Q}ls {{}},[a]:b{Q}}}") + "<turn|>", [bash("ls {},[a]:b")])
answer("blanks", "gemma4", G(f"edit{{path: {Q}a{Q}, n: 3}}"), [("edit", {"path": "a", "n": 3})])
answer("newlines", "gemma4", G(f"edit{{\n  path: {Q}a{Q},\n  n: 3\n}}"), [("edit", {"path": "a", "n": 3})])
answer("JSON quotes", "gemma4", G('bash{command:"ls"}'), [bash("ls")])
answer("quoted keys", "gemma4", G(f"bash{{{Q}command{Q}:{Q}ls{Q}}}"), [bash("ls")])
answer("nested", "gemma4", G(f"mix{{b:true,l:[1,{Q}a{Q},{{k:null}}],o:{{k:{{k:-2.5}}}}}}"), [("mix", {"b": True, "l": [1, "a", {"k": None}], "o": {"k": {"k": -2.5}}})])
answer("two", "gemma4", G(f"bash{{command:{Q}a{Q}}}") + G(f"bash{{command:{Q}b{Q}}}"), [bash("a"), bash("b")])
answer("no arguments", "gemma4", G("now{}") + "<|tool_response>", [("now", {})])
answer("thought and call", "gemma4", f"<|channel>thought\nHm.\n<channel|>" + G(f"bash{{command:{Q}a{Q}}}"), [bash("a")], reasoning="Hm.")
answer("empty thought", "gemma4", "<|channel>thought\n<channel|>Hi<turn|>", [], "Hi")
answer("newline in text", "gemma4", G(f"bash{{command:{Q}a\nb \"c\" 'd' \\{Q}}}"), [bash("a\nb \"c\" 'd' \\")])
answer("cut off", "gemma4", f"<|tool_call>call:bash{{command:{Q}a", [], f"<|tool_call>call:bash{{command:{Q}a", problems=True)

# ---- Cohere ----
C = lambda s: f"<|START_ACTION|>{s}<|END_ACTION|>"
ONE = '[{"tool_call_id": "0", "tool_name": "bash", "parameters": {"command": "a"}}]'
answer("thought", "command-r-list", "<|START_THINKING|>Hm.<|END_THINKING|>" + C(ONE) + "<|END_OF_TURN_TOKEN|>", [bash("a")], reasoning="Hm.")
answer("lines", "command-r-list", C("[\n    " + ONE[1:-1] + ",\n    " + ONE[1:-1] + "\n]"), [bash("a")] * 2)
answer("response", "command-r-list", "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Hi<|END_RESPONSE|>", [], "Hi", "Hm.")
answer("text", "command-r-list", "<|START_TEXT|>Hi<|END_TEXT|><|END_OF_TURN_TOKEN|>", [], "Hi")
answer("object", "command-r-list", C(ONE[1:-1]), [bash("a")])

# ---- Kimi ----
K = lambda n, x, w="functions.": f'<|tool_call_begin|>{w}{n}<|tool_call_argument_begin|>{x}<|tool_call_end|>'
for s in ("s", ""):
    answer(f"section{s}", "kimi", f"Hm.<|tool_call{s}_section_begin|>" + K("bash:0", '{"command": "a"}') + K("bash:1", '{"command": "b"}') + f"<|tool_call{s}_section_end|><|im_end|>", [bash("a"), bash("b")], "Hm.")
answer("lines", "kimi", "<|tool_calls_section_begin|>\n" + K(" bash:0 ", '\n{"command": "a"}\n', "functions.").replace("functions. ", " functions.") + "\n<|tool_calls_section_end|>", [bash("a")])
answer("no section", "kimi", K("bash:0", '{"command": "a"}'), [bash("a")])
answer("no prefix", "kimi", "<|tool_calls_section_begin|>" + K("bash:0", '{"command": "a"}', "") + "<|tool_calls_section_end|>", [bash("a")])
answer("call in open reasoning", "kimi", "hm<|tool_calls_section_begin|>" + K("bash:0", '{"command": "a"}') + "<|tool_calls_section_end|>", [bash("a")], reasoning="hm", think="open", problems=True)
answer("text behind", "kimi", "<|tool_calls_section_begin|>" + K("bash:0", '{"command": "a"}') + "<|tool_calls_section_end|>Wait.", [bash("a")], "Wait.")
answer("token in the value", "kimi", K("bash:0", '{"command": "<|tool_call_end|>"}'), [bash("<|tool_call_end|>")])
answer("not JSON", "kimi", "<|tool_calls_section_begin|>" + K("bash:0", "ls") + "<|tool_calls_section_end|>", [], K("bash:0", "ls"), problems=True)

# ---- MiniMax, GLM, Seed, DeepSeek, Mistral, Llama, Python ----
M = lambda s: f"<minimax:tool_call>\n{s}\n</minimax:tool_call>"
inv = lambda fn, **a: f'<invoke name="{fn}">\n' + "".join(f'<parameter name="{k}">{v}</parameter>\n' for k, v in a.items()) + "</invoke>"
answer("two", "minimax-invoke", "Hm.\n" + M(inv("bash", command="a") + "\n" + inv("edit", path="x\ny", n="3")) + "[e~[", [bash("a"), ("edit", {"path": "x\ny", "n": 3})], "Hm.")
answer("single quotes", "minimax-invoke", M("<invoke name='bash'>\n<parameter name='command'>a</parameter>\n</invoke>"), [bash("a")])
answer("closing tag in text", "minimax-invoke", M(inv("bash", command="a </parameter> b </invoke> c")), [bash("a </parameter> b </invoke> c")])
AT = lambda *calls: "<atem:function_calls>\n" + "\n".join(inv(fn, **a).replace("<", "<atem:").replace("<atem:/", "</atem:") for fn, a in calls) + "\n</atem:function_calls>"
answer("two messages", "atem", f" to=self<|message|>Hm.<|eom|>{S} to=bash<|message|>{AT(bash('a'))}<|eom|>{S} to=edit<|message|>{AT(('edit', {'path': '12', 'n': 3}))}<|eot|>", [bash("a"), ("edit", {"path": "12", "n": 3})], reasoning="Hm.")
answer("one block", "atem", " to=bash<|message|>" + AT(bash("a"), bash(" b\n")) + "<|eot|>", [bash("a"), bash(" b\n")])
answer("no header", "atem", AT(("now", {})), [("now", {})])
answer("to= in text", "atem", " to=user<|message|>Set to=bash here.<|eot|>", [], "Set to=bash here.")
answer("header without end of message", "atem", f" to=self<|message|>Hm. to=now<|message|>{AT(('now', {}))}<|eot|>", [("now", {})], reasoning="Hm.", problems=True)
answer("own namespace", "atem", " to=now.now<|message|>" + AT(("now.now", {})), [("now", {})])
g = lambda n, *a: f"<tool_call>{n}\n" + "".join(f"<arg_key>{k}</arg_key>\n<arg_value>{v}</arg_value>\n" for k, v in a) + "</tool_call>"
answer("two", "glm-argkv", g("bash", ("command", "a")) + "\n" + g("edit", ("path", " a\nb "), ("n", "4")), [bash("a"), ("edit", {"path": " a\nb ", "n": 4})])
answer("no breaks", "glm-argkv", g("bash", ("command", "a<b>")).replace("\n", ""), [bash("a<b>")])
answer("no arguments", "glm-argkv", "<tool_call>now</tool_call>", [("now", {})])
answer("nested", "glm-argkv", g("mix", ("o", '{"a": [1]}'), ("u", "null"), ("s", "null")), [("mix", {"o": {"a": [1]}, "u": None, "s": "null"})])
answer("no end of value", "glm-argkv", "<tool_call>edit\n<arg_key>path</arg_key>\n<arg_value>a\n<arg_key>n</arg_key>\n<arg_value>1</arg_value>\n</tool_call>", [("edit", {"path": "a", "n": 1})], problems=True)
answer("no end of last value", "glm-argkv", "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls\n</tool_call>", [bash("ls")], problems=True)
answer("thought", "seed-xml", "<seed:think>Hm.</seed:think><seed:tool_call>\n<function=bash>\n<parameter=command>a\nb</parameter>\n</function>\n</seed:tool_call><seed:eos>", [bash("a\nb")], reasoning="Hm.", think="auto")
answer("closing tag in text", "seed-xml", "<seed:tool_call>\n<function=bash>\n<parameter=command>a</parameter>b</parameter>\n</function>\n</seed:tool_call>", [bash("a</parameter>b")])
D, EOS = "｜DSML｜", "<｜end▁of▁sentence｜>"
d = lambda w, *a, fn="edit": f'<{D}{w}>\n<{D}invoke name="{fn}">\n' + "".join(f'<{D}parameter name="{k}" string="{s}">{v}</{D}parameter>\n' for k, s, v in a) + f"</{D}invoke>\n</{D}{w}>"
for f, w in (("dsml", "function_calls"), ("dsml-v4", "tool_calls")):
    answer("flags", f, "Hm.\n\n" + d(w, ("path", "true", "12"), ("n", "false", "12")) + "<｜end▁of▁sentence｜>", [("edit", {"path": "12", "n": 12})], "Hm.")
    answer("odd text", f, d(w, ("path", "true", '\n{"a"}\n<b> '), ("n", "false", "-1")), [("edit", {"path": '\n{"a"}\n<b> ', "n": -1})])
    answer("no end", f, d(w, ("path", "true", "a")).rsplit("\n", 1)[0], [("edit", {"path": "a"})])

# ---- models of autumn 2026, and syntaxes of their own ----
# DeepSeek V4.1: https://huggingface.co/deepseek-ai/DeepSeek-V4.1-Flash, encoding/encoding.py; the space is part of a tag's name.
# GigaChat 3.5: its chat_template.jinja. dots: dots-studio/dots-3-note, as vLLM and SGLang read it.
spaced = lambda s: s.replace(D, D + " ")
russian = lambda s: s.replace(D, "｜GCML｜")
for f, w, as_written in (("dsml-v41", "calls", spaced), ("gcml", "tool_calls", russian)):
    both = d(w, ("path", "true", "12"), ("n", "false", "12")).rsplit("\n", 1)[0] + "\n" + d(w, ("command", "true", "a </b> <c>\n"), fn="bash").split("\n", 1)[1]
    answer("two", f, "Hm.\n\n" + as_written(both) + EOS, [("edit", {"path": "12", "n": 12}), bash("a </b> <c>\n")], "Hm.")
    answer("no arguments", f, "\n\n" + as_written(d(w, fn="now")), [("now", {})])
    answer("nested", f, as_written(d(w, ("o", "false", '{"k": [1, null]}'), ("s", "true", "null"), fn="mix")), [("mix", {"o": {"k": [1, None]}, "s": "null"})])
    answer("closing tag in text", f, as_written(d(w, ("path", "true", f"a </{D}parameter> b"))), [("edit", {"path": as_written(f"a </{D}parameter> b")})])
    answer("no end", f, as_written(d(w, ("path", "true", "a")).rsplit("\n", 1)[0]), [("edit", {"path": "a"})])
    answer("cut off", f, as_written(d(w, ("path", "true", "a")).rsplit("a</", 1)[0]), [], as_written(d(w, ("path", "true", "a")).rsplit("a</", 1)[0]), problems=True)
    answer("thought", f, "Why.</think>\n\n" + as_written(d(w, ("command", "true", "a"), fn="bash")), [bash("a")], reasoning="Why.", think="open")
answer("no call of V4", "dsml-v41", "Write <｜DSML｜ calls> to call.", [], "Write <｜DSML｜ calls> to call.", problems=True)
answer("end of message", "gcml", russian(d("tool_calls", ("command", "true", "a"), fn="bash")) + "<|message_sep|>\n\n", [bash("a")])
dots = lambda *calls: "<dots_function_call>\n" + "\n".join(inv(fn, **a) for fn, a in calls) + "\n</dots_function_call>"
answer("two", "dots", "Hm.\n" + dots(bash("a\nb"), ("edit", {"path": "12", "n": 3})), [bash("a\nb"), ("edit", {"path": "12", "n": 3})], "Hm.")
answer("no arguments", "dots", dots(("now", {})), [("now", {})])
answer("no quotes", "dots", "<dots_function_call><invoke name=bash><parameter name=command>a</parameter></invoke></dots_function_call>", [bash("a")])
answer("JSON", "dots", f"<dots_function_call>\n{A}\n</dots_function_call>", [bash("a")])
# Kimi K3: its chat_template.jinja.
k3_kind = lambda v: {str: "string", bool: "boolean", type(None): "null", dict: "object", list: "array"}.get(type(v), "number")
k3_call = lambda i, fn, a: f'<|open|>call tool="{fn}" index="{i}"<|sep|>' + "".join(
    f'<|open|>argument key="{k}" type="{k3_kind(v)}"<|sep|>{v if isinstance(v, str) else json.dumps(v)}<|close|>argument<|sep|>' for k, v in a.items()) + "<|close|>call<|sep|>"
k3 = lambda text, *calls: f"<|open|>response<|sep|>{text}<|close|>response<|sep|><|open|>tools<|sep|>" + "".join(k3_call(i + 1, *c) for i, c in enumerate(calls)) + "<|close|>tools<|sep|>"
K3_END = "<|close|>message<|sep|><|end_of_msg|>"
answer("two", "kimi-k3", k3("Hm.", bash("a\n<b> "), ("edit", {"path": "12", "n": 3})) + K3_END, [bash("a\n<b> "), ("edit", {"path": "12", "n": 3})], "Hm.")
answer("thought", "kimi-k3", "Why.<|close|>think<|sep|>" + k3("", bash("a")) + K3_END, [bash("a")], reasoning="Why.", think="open")
answer("types", "kimi-k3", k3("", ("mix", {"s": "1", "n": 1, "x": 1.5, "b": True, "l": [1, "a"], "o": {"k": None}, "u": None})), [("mix", {"s": "1", "n": 1, "x": 1.5, "b": True, "l": [1, "a"], "o": {"k": None}, "u": None})])
answer("no arguments", "kimi-k3", k3("", ("now", {})), [("now", {})])
answer("answer", "kimi-k3", "<|open|>response<|sep|>Hi.<|close|>response<|sep|>" + K3_END, [], "Hi.")
answer("thought and answer", "kimi-k3", "Why.<|close|>think<|sep|><|open|>response<|sep|>Hi.<|close|>response<|sep|>" + K3_END, [], "Hi.", "Why.", think="open")
answer("answer of an opened response", "kimi-k3", "Hi.<|close|>response<|sep|>" + K3_END, [], "Hi.")
# Inkling: the messages that vLLM's parser documents. The prompt ends with <|message_model|>.
INV, MSG, EOM = "<|content_invoke_tool_json|>", "<|message_model|>", "<|end_message|>"
ink = lambda fn, a: fn + INV + json.dumps({"name": fn, "args": a}, separators=(",", ":")) + EOM
SAMPLED = "<|content_model_end_sampling|>"
answer("one", "inkling", ink(*bash("a\nb")) + SAMPLED, [bash("a\nb")])
answer("two", "inkling", MSG.join(["<|content_text|>Hm." + EOM, ink(*bash("a")), ink("edit", {"path": "<|", "n": 3})]) + SAMPLED, [bash("a"), ("edit", {"path": "<|", "n": 3})], "Hm.")
answer("thought", "inkling", MSG.join(["<|content_thinking|>Why." + EOM, ink("now", {})]) + SAMPLED, [("now", {})], reasoning="Why.")
answer("thought and answer", "inkling", MSG.join(["<|content_thinking|>Why." + EOM, "<|content_text|>bash, now" + EOM]) + SAMPLED, [], "bash, now", "Why.")
answer("no name", "inkling", ink(*bash("a"))[4:], [bash("a")])
answer("one word", "inkling", "<|content_text|>now" + EOM + SAMPLED, [], "now")
answer("text behind", "inkling", ink(*bash("a")) + MSG + "<|content_text|>Wait." + EOM, [bash("a")], "Wait.")
# openPangu: a list of calls between two unused tokens, as its system prompts ask for.
PG = lambda *calls: f"[unused11][{', '.join(calls)}][unused12]"
answer("two", "pangu-list", "[unused16]Why.[unused17]Hm." + PG(A, B) + "[unused10]", [bash("a"), bash("b")], "Hm.", "Why.")
answer("one", "pangu-list", PG(A), [bash("a")])
answer("cut off", "pangu-list", PG(A)[:-22], [], PG(A)[:-22], problems=True)
# FunctionGemma: its chat_template.jinja.
FG = lambda s: f"<start_function_call>call:{s}<end_function_call>"
X = "<escape>"
answer("string", "functiongemma", FG(f"bash{{command:{X}ls {{}},[a]:b{X}}}") + "<start_function_response>", [bash("ls {},[a]:b")])
answer("two", "functiongemma", "Hm." + FG(f"edit{{n:3,path:{X}a{X}}}") + FG("now{}"), [("edit", {"n": 3, "path": "a"}), ("now", {})], "Hm.")
answer("nested", "functiongemma", FG(f"mix{{b:true,l:[1,{X}a{X}],o:{{k:{{k:-2.5}}}}}}"), [("mix", {"b": True, "l": [1, "a"], "o": {"k": {"k": -2.5}}})])
answer("newline in text", "functiongemma", FG(f"bash{{command:{X}a\nb \"c\" 'd' \\{X}}}"), [bash("a\nb \"c\" 'd' \\")])
answer("cut off", "functiongemma", f"<start_function_call>call:bash{{command:{X}a", [], f"<start_function_call>call:bash{{command:{X}a", problems=True)
# OLMo 3: its chat_template.jinja.
OL = lambda *calls: "<function_calls>" + "\n".join(calls) + "</function_calls>"
answer("one", "python-lines", OL('bash(command="a")') + "<|im_end|>", [bash("a")])
answer("two", "python-lines", "Hm.\n" + OL('bash(command="it\'s (a, b)\\n")', 'edit(path="a", n=-3)'), [bash("it's (a, b)\n"), ("edit", {"path": "a", "n": -3})], "Hm.")
answer("lines of their own", "python-lines", OL("", "bash(command='a')", "now()", ""), [bash("a"), ("now", {})])
answer("JSON words", "python-lines", OL('mix(o={"a": true, "b": null}, b=false)'), [("mix", {"o": {"a": True, "b": None}, "b": False})])
answer("a list", "python-lines", OL('[bash(command="a"), now()]'), [bash("a"), ("now", {})])
answer("text behind", "python-lines", OL('now()') + "\nWait (a bit).", [("now", {})], "Wait (a bit).")
answer("no end", "python-lines", OL('now()', 'bash(command="a")').replace("</function_calls>", ""), [("now", {}), bash("a")])
answer("cut off", "python-lines", "<function_calls>bash(command='rm", [], "<function_calls>bash(command='rm", problems=True)
answer("second cut off", "python-lines", "<function_calls>now()\nbash(command='rm", [("now", {})], "bash(command='rm", problems=True)
# Phi-4-mini and InternLM 2: their documentation of tool calls.
answer("two", "phi4-mini", f"Hm.<|tool_call|>[{A}, {B}]<|/tool_call|><|end|>", [bash("a"), bash("b")], "Hm.")
answer("one each", "phi4-mini", f"<|tool_call|>{A}<|/tool_call|><|tool_call|>{B}<|/tool_call|><|end|>", [bash("a"), bash("b")])
answer("text behind", "phi4-mini", f"<|tool_call|>[{A}]<|/tool_call|>Wait.", [bash("a")], "Wait.")
IL = lambda s: f"<|action_start|><|plugin|>\n{s}<|action_end|>"
answer("parameters", "internlm", "Hm." + IL(A.replace("arguments", "parameters")) + "<|im_end|>", [bash("a")], "Hm.")
answer("arguments", "internlm", IL(A) + IL(B), [bash("a"), bash("b")])
answer("cut off", "internlm", IL(A)[:-20], [], IL(A)[:-20], problems=True)
DC, DE, DSEP, DCS, DCE = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"

answer("two", "deepseek-v31", f'Hm.{DCS}{DC}bash{DSEP}{{"command": "a"}}{DE}{DC}bash{DSEP}{{"command": "b"}}{DE}{DCE}{EOS}', [bash("a"), bash("b")], "Hm.")
answer("V3 fences", "deepseek-v31", f'{DCS}{DC}function{DSEP}bash\n```json\n{{"command": "a"}}\n```{DE}\n{DC}function{DSEP}bash\n```json\n{{"command": "b"}}\n```{DE}{DCE}{EOS}', [bash("a"), bash("b")])
answer("V3 without fence", "deepseek-v31", f'{DCS}{DC}function{DSEP}bash\n{{"command": "a"}}{DE}{DCE}', [bash("a")])
answer("no section", "deepseek-v31", f'{DC}bash{DSEP}{{"command": "a"}}{DE}', [bash("a")])
answer("text between", "deepseek-v31", f'{DCS}\n{DC}bash{DSEP}\n{{"command": "a"}}\n{DE}\n{DCE}\nWait.', [bash("a")], "Wait.")
answer("end of turn only", "deepseek-v31", "Hi" + EOS, [], "Hi")
answer("ids", "mistral-args", '[TOOL_CALLS]bash[CALL_ID]abcdefghi[ARGS]{"command": "a"}[TOOL_CALLS]bash[CALL_ID]abcdefghj[ARGS]{"command": "b"}</s>', [bash("a"), bash("b")])
answer("thought", "mistral-args", '[THINK]Hm.[/THINK]So.[TOOL_CALLS]bash[ARGS]{"command": "[ARGS] [TOOL_CALLS]"}</s>', [bash("[ARGS] [TOOL_CALLS]")], "So.", "Hm.")
answer("old form", "mistral-args", f"[TOOL_CALLS][{A}, {B}]</s>", [bash("a"), bash("b")])
answer("old form with a marker inside", "mistral-array", "[TOOL_CALLS][" + A.replace('"a"', '"[ARGS]"') + "]</s>", [bash("[ARGS]")])
answer("blank", "mistral-array", f"[TOOL_CALLS] [{A}]", [bash("a")])
answer("object", "mistral-array", f"[TOOL_CALLS]{A}</s>", [bash("a")])
answer("end", "llama-json", A.replace("arguments", "parameters") + "<|eom_id|>", [bash("a")])
answer("tag", "llama-json", "<|python_tag|>" + A.replace("arguments", "parameters") + "<|eom_id|>", [bash("a")])
answer("built in", "llama-json", '<|python_tag|>bash.call(command="a")<|eom_id|>', [bash("a")])
P = lambda s: f"<|tool_call_start|>{s}<|tool_call_end|>"
answer("two", "python-list", "Hm." + P("[bash(command='it\\'s'), edit(path=\"a\", n=-3)]") + "<|im_end|>", [bash("it's"), ("edit", {"path": "a", "n": -3})], "Hm.")
answer("lines", "python-list", P("[\n  bash(\n    command = 'a',\n  ),\n]"), [bash("a")])
answer("nested", "python-list", P("[mix(o={'a': [True, None, 1.5]}, l=[(1, 2)], b=False)]"), [("mix", {"o": {"a": [True, None, 1.5]}, "l": [[1, 2]], "b": False})])
answer("JSON words", "python-list", P('[mix(o={"a": true, "b": null}, b=false)]'), [("mix", {"o": {"a": True, "b": None}, "b": False})])
answer("JSON list", "python-list", P(f"[{A}]"), [bash("a")])
answer("no arguments", "python-list", P("[now()]"), [("now", {})])
answer("triple quotes", "python-list", P('[bash(command="""a\n"b"\n""")]'), [bash('a\n"b"\n')])

# ---- detects the syntax by rendering the template; parses a call that jinja2 rendered ----
HEAD = "{%- if tools %}[TOOLS]{% for t in tools %}{{ t | tojson }}{% endfor %}[/TOOLS]{% endif %}{% for m in messages %}{%- if m.role == 'assistant' %}"
TAIL = "{%- else %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
EACH = "{{ m.content or '' }}{% for c in m.tool_calls or [] %}{% set f = c.function %}%s{% endfor %}"
J = "{{ f.arguments | tojson }}"
items = lambda x: "{% for k, v in f.arguments.items() %}" + x + "{% endfor %}"
V = "{{ v if v is string else v | tojson }}"
part = lambda a, b: "{{ '" + a + "' ~ '" + b + "' }}"  # a marker in two parts, so that it is not contiguous in the template's text
PY = "{% set q = namespace(a=[]) %}{% for k, v in f.arguments.items() %}{{ k }}={{ v | tojson }}{{ ', ' if not loop.last }}{% endfor %}"
BODIES = {
    "qwen-xml": "\n" + part("<tool", "_call>") + "\n" + part("<func", "tion=") + "{{ f.name }}>\n" + items("<parameter={{ k }}>\n" + V + "\n</parameter>\n") + "</function>\n</tool_call>",
    "seed-xml": part("<seed:", "tool_call>") + "\n<function={{ f.name }}>\n" + items("<parameter={{ k }}>" + V + "</parameter>\n") + "</function>\n</seed:tool_call>",
    "hermes-json": "\n" + part("<tool", "_call>") + '\n{"name": "{{ f.name }}", "arguments": ' + J + "}\n</tool_call>",
    "glm-argkv": "\n" + part("<tool", "_call>") + "{{ f.name }}\n" + items("<arg_" + "{{ 'key' }}>{{ k }}</arg_key>\n<arg_value>" + V + "</arg_value>\n") + "</tool_call>",
    "minimax-invoke": "\n<minimax:" + "{{ 'tool_call' }}>\n<invoke name=\"{{ f.name }}\">\n" + items('<parameter name="{{ k }}">' + V + "</parameter>\n") + "</invoke>\n</minimax:tool_call>",
    "atem": S + " to={{ f.name }}<|message|>" + part("<atem:", "function_calls>") + '\n<atem:invoke name="{{ f.name }}">\n' + items('<atem:parameter name="{{ k }}">' + V + "</atem:parameter>\n") + "</atem:invoke>\n</atem:function_calls><|eot|>",
    "kimi": part("<|tool_calls_", "section_begin|>") + "<|tool_call_begin|>functions.{{ f.name }}:{{ loop.index0 }}<|tool_call_argument_begin|>" + J + "<|tool_call_end|><|tool_calls_section_end|>",
    "deepseek-v31": DCS + DC + "{{ f.name }}" + DSEP + J + DE + DCE,
    "dsml": f"\n<{D}function_calls>\n<{D}invoke name=\"{{{{ f.name }}}}\">\n" + items(f'<{D}parameter name="{{{{ k }}}}" string="{{{{ \'true\' if v is string else \'false\' }}}}">' + V + f"</{D}parameter>\n") + f"</{D}invoke>\n</{D}function_calls>",
    "dsml-v4": f"\n<{D}tool_calls>\n<{D}invoke name=\"{{{{ f.name }}}}\">\n" + items(f'<{D}parameter name="{{{{ k }}}}" string="{{{{ \'true\' if v is string else \'false\' }}}}">' + V + f"</{D}parameter>\n") + f"</{D}invoke>\n</{D}tool_calls>",
    "harmony": S + " to=functions.{{ f.name }}<|channel|>commentary json<|message|>" + J + "<|call|>",
    "mistral-args": part("[TOOL_", "CALLS]") + "{{ f.name }}[ARGS]" + J,
    "mistral-array": part("[TOOL_", "CALLS]") + '[{"name": "{{ f.name }}", "arguments": ' + J + ', "id": "{{ c.id }}"}]',
    "apertus-list": '<|tools_prefix|>[{"{{ f.name }}": ' + J + "}]<|tools_suffix|>",
    "nemotron-list": '<TOOLCALL>[{"name": "{{ f.name }}", "arguments": ' + J + "}]</TOOLCALL>",
    "apriel-list": '<tool_calls>[{"name": "{{ f.name }}", "arguments": ' + J + "}]</tool_calls>",
    "firefunction-list": ' functools[{"name": "{{ f.name }}", "arguments": ' + J + "}]",
    "command-r-list": '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "{{ f.name }}", "parameters": ' + J + "}\n]<|END_ACTION|>",
    "command-r-action": '\nAction:\n```json\n[\n    {\n        "tool_name": "{{ f.name }}",\n        "parameters": ' + J + "\n    }\n]```",
    "granite-list": '<|tool_call|>[{"name": "{{ f.name }}", "arguments": ' + J + "}]",
    "functionary-v31": "<function={{ f.name }}>" + J + "</function>",
    "functionary-v32": ">>>{{ f.name }}\n" + J,
    "python-list": part("<|tool_call_", "start|>") + "[{{ f.name }}(" + PY + ")]<|tool_call_end|>",
    "solar": "<|tool_call:begin|>{{ c.id }}<|tool_call:name|>{{ f.name }}<|tool_call:args|>" + J + "<|tool_call:end|>",
    "llama-json": '{"name": "{{ f.name }}", "parameters": ' + J + "}",
    "gigachat-31": '<|function_call|>{"name": "{{ f.name }}", "arguments": ' + J + "}",
}
VALUES = [bash("ls -l\n  | wc"), ("edit", {"path": "a/ü.py", "old": '"q" \\ \'s\' {x} <b>', "n": -7}), ("mix", {"b": True, "l": [1, "a", None], "o": {"k": {"j": 1.5}}})]


def environment():
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    env.globals["strftime_now"] = lambda form: "2026-01-01"
    env.globals["raise_exception"] = lambda s: (_ for _ in ()).throw(ValueError(s))
    return env


def rendered(template, name, args, content=""):
    user = {"role": "user", "content": "Zu"}
    call = {"role": "assistant", "content": content, "tool_calls": [{"id": "abcdefghi", "type": "function", "function": {"name": name, "arguments": args}}]}
    plain = re.sub(r"(\{%-? *)(end)?generation( *-?%\})", lambda m: m[1] + ("endif" if m[2] else "if true") + m[3], template)
    show = lambda messages, gen: environment().from_string(plain).render(messages=messages, tools=TOOLS, add_generation_prompt=gen, bos_token="", eos_token="")
    text = show([user, call], False)
    try:  # the prompt's part is not part of the answer
        prompt = show([user], True)
        same = os.path.commonprefix([text, prompt])
        start = len(same) if same == prompt else max(same.rfind(c) for c in ">]\n") + 1
    except Exception:
        start = 0
    return text[max(start, text.rindex("Zu") + 2) :].removeprefix("<|end|>\n").split("<|END_OF_TURN_TOKEN|>")[0]


def back(scratch, template):
    for name, args in VALUES:
        for content in ("", "I look."):
            p = read(scratch, template, rendered(template, name, args, content))
            if p.rc:
                return "crashed" if p.crashed else "wrong reason", p.err
            j = json.loads(p.out)
            if j["tool_calls"] != [{"name": name, "arguments": args}] or j["content"] != content:
                return "wrong", p.out.strip()
    return "right"


for fmt, body in BODIES.items():
    trial("calls", "template like " + fmt)(lambda s, b=body: back(s, HEAD + EACH.replace("%s", b) + TAIL))


SHARED = ROOT.parent / "shared/golden/templates/jinja"
# Templates with which jinja2 renders no call, or not the conversation of these trials, and the syntax that their models
# write according to their documentation. None: the template has no calls, so that the parser must be told the syntax.
ACTION = """Action: ```json
[
    {
        "tool_name": "bash",
        "parameters": {
            "command": "ls"
        }
    }
]
```"""
V3 = f'{DCS}{DC}function{DSEP}bash\n```json\n{{"command": "ls"}}\n```{DE}{DCE}{EOS}'
OBJECT = '{"name": "bash", "arguments": {"command": "ls"}}'
BY_HAND = {
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": V3,
    "llama-cpp-deepseek-r1": V3,
    "CohereForAI-c4ai-command-r-plus-tool_use": ACTION + "<|END_OF_TURN_TOKEN|>",
    "Kimi-K2-Instruct": "<|tool_calls_section_begin|>" + K("bash:0", '{"command": "ls"}') + "<|tool_calls_section_end|><|im_end|>",
    "LFM2-8B-A1B": P("[bash(command='ls')]") + "<|im_end|>",
    "LFM2.5-Instruct": P('[bash(command="ls")]') + "<|im_end|>",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": f"<tool_call>\n{OBJECT}\n</tool_call><|im_end|>",
    "ibm-granite-granite-3.3-2B-Instruct": f"<|tool_call|>[{OBJECT}]<|end_of_text|>",
    "google-gemma-2-2b-it": None,
    "google-gemma-3": None,
    "llama-cpp-rwkv-world": None,
    "microsoft-Phi-3.5-mini-instruct": None,
    "HuggingFaceTB-SmolLM3-3B": None,
}


def by_hand(scratch, path, text):
    """A call as in the model's documentation, alone and after text; or a refusal whose message gives the solution."""
    template = path.read_text()
    if text is None:
        p = read(scratch, template, f"<tool_call>\n{OBJECT}\n</tool_call>")
        if p.rc == 0 or "--format" not in p.err:
            return "wrong", p.out + p.err
        p = read(scratch, template, f"<tool_call>\n{OBJECT}\n</tool_call>", "--format", "hermes-json")
        j = json.loads(p.out)
        return "right" if j["tool_calls"] == [{"name": "bash", "arguments": {"command": "ls"}}] else "wrong", p.out
    for before in ("", "I look.\n"):
        p = read(scratch, template, before + text)
        j = json.loads(p.out) if p.rc == 0 else {}
        want = [{"name": "bash", "arguments": {"command": "ls"}}]
        if j.get("tool_calls") != want or j["content"] != before.strip() or j["problems"]:
            return "wrong", f"{before + text!r} {p.out} {p.err}"
    return "right"


def shared(scratch, path):
    """A shared template: a call that jinja2 renders with it is parsed correctly. Tries several forms of arguments,
    since templates require different ones."""
    template, tried = path.read_text(), 0
    for name, args in VALUES[:2]:
        for form in (args, json.dumps(args, ensure_ascii=False)):
            try:
                text = rendered(template, name, args if form is args else form)
            except Exception:
                continue
            if name not in text:
                continue
            tried += 1
            p = read(scratch, template, text)
            j = json.loads(p.out) if p.rc == 0 else {}
            got = j.get("tool_calls")
            if got == [{"name": name, "arguments": args}] and not j["content"]:
                break
        else:
            if tried:
                return "wrong", f"{text!r} {p.out} {p.err}"
    return ("right", "") if tried else ("wrong", "no call can be rendered")


for path in sorted(SHARED.glob("*.jinja")) if SHARED.exists() else ():
    if path.stem in BY_HAND:
        trial("calls", "by hand " + path.stem)(lambda s, p=path: by_hand(s, p, BY_HAND[p.stem]))
    else:
        trial("calls", "shared " + path.stem)(lambda s, p=path: shared(s, p))
