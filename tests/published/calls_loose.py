# SPDX-License-Identifier: MIT
"""Loosely written calls in all syntaxes, as from models that have learned several of them, or whose answer ends early.
Expected results follow the syntax's documentation for the parts that are present; `problems` tells whether something was
missing or guessed."""
import json

from calls import A, B, C, D, DC, DCE, DCS, DE, DSEP, EOS, G, H, K, LS, M, P, Q, S, answer, bash, d, g, inv, qwen, write_texts  # noqa: F401

E = lambda **a: ("edit", a)
X = lambda **a: ("mix", a)
NOW = [("now", {})]
AP = A.replace("arguments", "parameters")
U = "naïve — 東京 \U0001f600 «x»"

# ---- Qwen XML: closing tags ----
answer("two calls, no end of the first value", "qwen-xml", "<tool_call>\n<function=bash>\n<parameter=command>\na\n</function>\n</tool_call>\n" + qwen(("command", "b"), fn="bash"), [bash("a"), bash("b")], problems=True)
answer("two calls, no end of the first function", "qwen-xml", "<tool_call>\n<function=bash>\n<parameter=command>\na\n</parameter>\n</tool_call>\n" + qwen(("command", "b"), fn="bash"), [bash("a"), bash("b")], problems=True)
answer("no end of value and function", "qwen-xml", "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</tool_call>", [bash("ls")], problems=True)
answer("no end but the turn's", "qwen-xml", "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</function><|im_end|>", [bash("ls")], problems=True)
answer("no end between parameters", "qwen-xml", "<tool_call>\n<function=edit>\n<parameter=path>\na\n<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>", [E(path="a", n=3)], problems=True)
answer("no end of any parameter", "qwen-xml", "<tool_call>\n<function=edit>\n<parameter=path>\na\n<parameter=n>\n3\n</function>\n</tool_call>", [E(path="a", n=3)], problems=True)
answer("parameters in the text", "qwen-xml", qwen(("path", "a"), ("old", "use\n<parameter=n>\n3\n</parameter>\nhere")), [E(path="a", old="use\n<parameter=n>\n3\n</parameter>\nhere")], problems=True)
answer("no end in one line", "qwen-xml", "<tool_call><function=bash><parameter=command>ls</function></tool_call>", [bash("ls")], problems=True)
answer("no parameters, no end of the function", "qwen-xml", "<tool_call>\n<function=now>\n</tool_call>", NOW, problems=True)
answer("no end, and prose", "qwen-xml", "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</function>\n</tool_call>\n\nI wait for the result of this command.", [bash("ls")], "I wait for the result of this command.", problems=True)
answer("cut off after a value", "qwen-xml", "Hm.\n<tool_call>\n<function=edit>\n<parameter=path>\na\n</parameter>\n", [], "Hm.\n<tool_call>\n<function=edit>\n<parameter=path>\na\n</parameter>", problems=True)
answer("second cut off", "qwen-xml", qwen(("command", "a"), fn="bash") + "\n<tool_call>\n<function=bash>\n<parameter=command>\nrm", [bash("a")], "<tool_call>\n<function=bash>\n<parameter=command>\nrm", problems=True)
answer("value closes a fence", "qwen-xml", qwen(("path", "r.md"), ("old", "```sh\nls\n```")), [E(path="r.md", old="```sh\nls\n```")])
answer("fence around", "qwen-xml", "```xml\n" + qwen(("command", "ls"), fn="bash") + "\n```", [bash("ls")])
answer("fence around, text before", "qwen-xml", "So:\n\n```\n" + qwen(("command", "ls"), fn="bash") + "\n```\n", [bash("ls")], "So:")
answer("fence of another kind around two", "qwen-xml", "~~~\n" + qwen(("command", "a"), fn="bash") + "\n" + qwen(("command", "b"), fn="bash") + "\n~~~", [bash("a"), bash("b")])
answer("code, then a call", "qwen-xml", "```sh\nls\n```\n" + qwen(("command", "ls"), fn="bash"), [bash("ls")], "```sh\nls\n```")
answer("JSON in the tag", "qwen-xml", H % A, [bash("a")])
answer("two JSON in the tag", "qwen-xml", H % f"{A}\n{B}", [bash("a"), bash("b")])
answer("fenced JSON in the tag", "qwen-xml", H % f"```json\n{A}\n```", [bash("a")])
answer("quoted number", "qwen-xml", qwen(("path", "1"), ("n", '"3"')), [E(path="1", n=3)], problems=True)
answer("Python values", "qwen-xml", qwen(("l", "['a', None, True]"), ("o", "{'k': (1, 2)}"), fn="mix"), [X(l=["a", None, True], o={"k": [1, 2]})], problems=True)
answer("unicode", "qwen-xml", "Ja — nämlich:\n" + qwen(("command", U), fn="bash"), [bash(U)], "Ja — nämlich:")

# ---- GLM, Seed, MiniMax, DSML ----
answer("no end of a value, then a call", "glm-argkv", "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>a\n</tool_call>\n" + g("bash", ("command", "b")), [bash("a"), bash("b")], problems=True)
answer("no end of two values", "glm-argkv", "<tool_call>edit\n<arg_key>path</arg_key>\n<arg_value>a\n<arg_key>n</arg_key>\n<arg_value>3\n</tool_call>", [E(path="a", n=3)], problems=True)
answer("JSON in the tag", "glm-argkv", H % A, [bash("a")])
answer("fence around", "glm-argkv", "```\n" + g("bash", ("command", "ls")) + "\n```", [bash("ls")])
answer("tags in the value", "glm-argkv", g("bash", ("command", "echo '</tool_call>' <arg_key>x")), [bash("echo '</tool_call>' <arg_key>x")])
answer("cut off", "glm-argkv", "Hm.<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>rm -r", [], "Hm.<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>rm -r", problems=True)
answer("no end of the value", "seed-xml", "<seed:tool_call>\n<function=bash>\n<parameter=command>ls\n</function>\n</seed:tool_call><seed:eos>", [bash("ls")], problems=True)
answer("no end of the function", "seed-xml", "<seed:tool_call>\n<function=bash>\n<parameter=command>ls</parameter>\n</seed:tool_call>", [bash("ls")], problems=True)
answer("JSON in the tag", "seed-xml", f"<seed:tool_call>\n{A}\n</seed:tool_call>", [bash("a")])
answer("no end of the value", "minimax-invoke", M('<invoke name="bash">\n<parameter name="command">ls\n</invoke>') + "[e~[", [bash("ls")], problems=True)
answer("no end of the invocation", "minimax-invoke", M('<invoke name="bash">\n<parameter name="command">ls</parameter>'), [bash("ls")], problems=True)
answer("no wrapper", "minimax-invoke", "Hm.\n" + inv("bash", command="ls"), [bash("ls")], "Hm.")
answer("JSON in the tag", "minimax-invoke", M(A), [bash("a")])
for f, w in (("dsml", "function_calls"), ("dsml-v4", "tool_calls")):
    answer("no end of the value", f, d(w, ("path", "true", "a")).replace(f"</{D}parameter>", ""), [E(path="a")], problems=True)
    answer("two", f, "Hm." + d(w, ("path", "true", "a")).replace(f"</{D}{w}>", "") + d(w, ("path", "true", "b")).replace(f"<{D}{w}>\n", "") + EOS, [E(path="a"), E(path="b")], "Hm.")
    answer("no flag", f, d(w, ("path", "true", "a"), ("n", "true", "3")).replace(' string="true"', ""), [E(path="a", n=3)])
answer("CDATA and two", "minicpm-xml", '<function name="bash"><param name="command"><![CDATA[a < b]]></param></function>\n<function name="now"></function>', [bash("a < b")] + NOW)
answer("no end of the value", "minicpm-xml", '<function name="bash"><param name="command">ls</function>', [bash("ls")], problems=True)
HY = ":opensource"
for f, h in (("hy3", HY), ("hy3-preview", "")):
    t = lambda n, *a: f"<tool_call{h}>{n}<tool_sep{h}>\n" + "".join(f"<arg_key{h}>{k}</arg_key{h}>\n<arg_value{h}>{v}</arg_value{h}>\n" for k, v in a) + f"</tool_call{h}>"
    answer("two", f, f"Hm.<tool_calls{h}>\n" + t("edit", ("path", U), ("n", "3")) + "\n" + t("now") + f"\n</tool_calls{h}>", [E(path=U, n=3)] + NOW, "Hm.")
    answer("no end of the value", f, f"<tool_calls{h}>\n" + t("bash", ("command", "ls")).replace(f"</arg_value{h}>", "") + f"\n</tool_calls{h}>", [bash("ls")], problems=True)
N = "]<]minimax[>["
m3 = lambda s: f"{N}<tool_call>\n{s}\n{N}</tool_call>"
answer("two", "minimax-m3", "Hm.\n" + m3(f'{N}<invoke name="edit">{N}<path>{U}{N}</path>{N}<n>3{N}</n>{N}</invoke>\n{N}<invoke name="now">{N}</invoke>'), [E(path=U, n=3)] + NOW, "Hm.")

# ---- JSON in tags ----
answer("tilde fence in the tag", "hermes-json", H % f"~~~\n{A}\n~~~", [bash("a")])
answer("fences in the tag", "hermes-json", H % f"```json\n{A}\n```" + "\n" + H % f"```json\n{B}\n```", [bash("a"), bash("b")])
answer("fence around", "hermes-json", "```json\n" + H % A + "\n```", [bash("a")])
answer("fence around, not closed", "hermes-json", "I look.\n```xml\n" + H % A, [bash("a")], "I look.")
answer("fence around each", "hermes-json", f"```\n{H % A}\n```\n\n```\n{H % B}\n```\n", [bash("a"), bash("b")])
answer("fence around, then text", "hermes-json", f"```\n{H % A}\n```\nI wait.", [bash("a")], "I wait.")
answer("Python dictionary", "hermes-json", H % "{'name': 'bash', 'arguments': {'command': 'it\\'s'}}", [bash("it's")], problems=True)
answer("Python words", "hermes-json", H % '{"name": "mix", "arguments": {"b": True, "u": None}}', [X(b=True, u=None)], problems=True)
answer("comma at the end", "hermes-json", H % '{"name": "bash", "arguments": {"command": "a",},}', [bash("a")], problems=True)
answer("XML in the tag", "hermes-json", qwen(("command", "ls"), fn="bash"), [bash("ls")])
answer("tag twice", "hermes-json", f"<tool_call>\n<tool_call>\n{A}\n</tool_call>\n</tool_call>", [bash("a")])
answer("empty text as arguments", "hermes-json", H % '{"name": "now", "arguments": ""}', NOW)
answer("arguments first", "hermes-json", H % '{"arguments": {"command": "a"}, "name": "bash"}', [bash("a")])
answer("with an id", "hermes-json", H % '{"id": "call_1", "type": "function", "name": "bash", "arguments": {"command": "a"}}', [bash("a")])
answer("number as text", "hermes-json", H % '{"name": "edit", "arguments": {"path": "7", "n": "7"}}', [E(path="7", n="7")])
answer("namespace", "hermes-json", H % A.replace('"bash"', '"functions.bash"'), [bash("a")])
answer("escapes", "hermes-json", H % '{"name": "bash", "arguments": {"command": "\\u00fc\\ud83d\\ude00\\n\\t\\"\\/"}}', [bash("ü\U0001f600\n\t\"/")])
answer("cut off", "hermes-json", 'Hm.\n<tool_call>\n{"name": "bash", "arguments": {"command": "rm', [], 'Hm.\n<tool_call>\n{"name": "bash", "arguments": {"command": "rm', problems=True)
answer("second cut off", "hermes-json", H % A + '\n<tool_call>\n{"name": "ba', [bash("a")], '<tool_call>\n{"name": "ba', problems=True)
answer("odd names", "hermes-json", H % '{"name": "mcp__a-b.c/d", "arguments": {}}', [("mcp__a-b.c/d", {})], problems=True)  # it was not declared

# ---- loose ----
for label, text, calls in (
    ("inline code", f"`{A}`", [bash("a")]),
    ("fence in a line", f"```json {A} ```", [bash("a")]),
    ("four backticks", f"````json\n{A}\n````", [bash("a")]),
    ("fence JSON", f"```JSON\n{A}\n```", [bash("a")]),
    ("fence tool-call", f"```tool-call\n{A}\n```", [bash("a")]),
    ("fence function_call", f"```function_call\n{A}\n```", [bash("a")]),
    ("fence xml and tag", f"```xml\n<tools>\n{A}\n</tools>\n```", [bash("a")]),
    ("tools tag", f"<tools>\n{A}\n</tools>", [bash("a")]),
    ("tilde and backticks", f"~~~\n{A}\n~~~\n```\n{B}\n```", [bash("a"), bash("b")]),
    ("lines", json.dumps(json.loads(A), indent=4), [bash("a")]),
    ("one after another", f"{A}\n{B}", [bash("a"), bash("b")]),
    ("unicode", json.dumps({"name": "bash", "arguments": {"command": U}}, ensure_ascii=False), [bash(U)]),
    ("empty text", '{"name": "now", "arguments": ""}', NOW),
):
    for f in ("hermes-json", "mistral-args", "kimi"):
        if f != "hermes-json" or "tools" not in text:
            answer("loose " + label, f, text, calls, loose=len(calls))
for label, text in {
    "bold": f"**{A}**",
    "heading": f"# Call\n{A}",
    "quote": f"> {A}",
    "fence closed by another": f"```json\n{A}\n~~~",
    "fence of Python": f"```python\n{A}\n```",
    "two fences with text": f"```json\n{A}\n```\nand\n```json\n{B}\n```",
    "one invalid in a list": f"[{A}, {{}}]",
    "inline code in a sentence": f"`{A}` calls bash",
}.items():
    answer("not loose " + label, "mistral-args", text, [], text)

for f in ("python-list", "llama-json"):
    answer("loose Python list", f, "[bash(command='a'), bash(command=\"b\")]", [bash("a"), bash("b")], loose=2)
    answer("loose Python list in a fence", f, "```python\n[bash(command='a')]\n```" if f == "python-list" else "```\n[bash(command='a')]\n```", [bash("a")], loose=1)
    answer("not loose Python list", f, "[bash(command=1)]", [], "[bash(command=1)]")
    answer("not loose Python list of another tool", f, "[rm(command='a')]", [], "[rm(command='a')]")
answer("loose Python call", "python-list", "bash(command='a')", [bash("a")], loose=1)
answer("not loose Python list elsewhere", "kimi", "[bash(command='a')]", [], "[bash(command='a')]")

# ---- lists and names ----
answer("fence in the list", "mistral-array", f"[TOOL_CALLS]```json\n[{A}]\n```</s>", [bash("a")])
answer("Python list", "mistral-array", "[TOOL_CALLS][{'name': 'bash', 'arguments': {'command': 'a'}}]</s>", [bash("a")], problems=True)
answer("odd name", "mistral-args", '[TOOL_CALLS]my-tool.v2[ARGS]{"a": 1}</s>', [("my-tool.v2", {"a": 1})], problems=True)
answer("two in one marker", "mistral-args", '[TOOL_CALLS]bash[ARGS]{"command": "a"}bash[ARGS]{"command": "b"}', [bash("a"), bash("b")])
answer("cut off", "mistral-args", 'Hm.[TOOL_CALLS]bash[ARGS]{"command": "r', [], 'Hm.[TOOL_CALLS]bash[ARGS]{"command": "r', problems=True)
answer("blanks", "mistral-args", '[TOOL_CALLS] bash [ARGS] {"command": "a"}', [bash("a")])
for f, o, c, k in (("nemotron-list", "<TOOLCALL>", "</TOOLCALL>", A), ("apriel-list", "<tool_calls>", "</tool_calls>", A), ("granite-list", "<|tool_call|>", "", A), ("firefunction-list", " functools", "", A), ("apertus-list", "<|tools_prefix|>", "<|tools_suffix|>", '{"bash": {"command": "a"}}'), ("command-r-action", "Action: ", "", A.replace('"name"', '"tool_name"').replace("arguments", "parameters"))):
    answer("two, blanks, text before", f, f"I look.\n{o}[\n {k} ,\n {k}\n]{c}", [bash("a")] * 2, "I look.")
    if f != "firefunction-list":
        answer("fence", f, f"{o}```json\n[{k}]\n```{c}", [bash("a")])
    answer("not closed", f, f"{o}[{k}]", [bash("a")])
    answer("cut off", f, f"Hm.\n{o}[{k[:-4]}", [], (f"Hm.\n{o}[{k[:-4]}").strip(), problems=True)
answer("two", "gigachat-31", f"Hm.<|message_sep|><|function_call|>{A}<|message_sep|>", [bash("a")], "Hm.")
answer("fence", "gigachat", f"function call<|role_sep|>\n```json\n{A}\n```<|message_sep|>", [bash("a")])
answer("two", "functionary-v31", f'<function=bash>{{"command": "a"}}</function><function=now>{{}}</function><|eom_id|>', [bash("a")] + NOW)
answer("no end", "functionary-v31", '<function=bash>{"command": "a"}', [bash("a")])
answer("text, two", "functionary-v32", f'>>>all\nHm.>>>bash\n{{"command": "a"}}>>>now\n{{}}<|eot_id|>', [bash("a")] + NOW, "Hm.")
answer("id", "solar", '<|tool_call:begin|>abc<|tool_call:name|>bash<|tool_call:args|>{"command": "a"}<|tool_call:end|><|tool_call:begin|>abd<|tool_call:name|>now<|tool_call:args|><|tool_call:end|>', [bash("a")] + NOW)
answer("fence", "llama-json", f"<|python_tag|>{AP}; {AP}<|eom_id|>", [bash("a")] * 2)
answer("arguments", "llama-json", A + "<|eot_id|>", [bash("a")])
answer("text before", "llama-json", "I look.\n" + AP, [bash("a")], "I look.")
answer("list", "llama-json", f"[{AP}, {AP}]", [bash("a")] * 2, loose=2)
answer("Python dictionary", "llama-json", "<|python_tag|>{'name': 'bash', 'parameters': {'command': 'a'}}", [bash("a")], problems=True)

for answered in ('{"name": "Ann", "age": 3}', '```json\n{"name": "Ann", "age": 3}\n```', 'Ann is {"name": "Ann", "parameters": {"age": 3}}.',
                 '{"name": "Ann", "friend": {"name": "bash", "parameters": {"command": "a"}}}', '{"type": "object", "name": 3}', '{"name": "Ann", "age": None}'):
    answer("JSON that is no call", "llama-json", answered, [], answered)
answer("JSON, then a call", "llama-json", f'{{"name": "Ann"}}\n{AP}', [bash("a")], '{"name": "Ann"}')
answer("function", "llama-json", f'{{"type": "function", "function": {AP}}}', [bash("a")])
answer("no arguments", "llama-json", '{"name": "now"}', NOW)

# ---- missing brackets before the closing tag ----
answer("two braces too few", "hermes-json", H % A[:-2], [bash("a")], problems=True)
answer("no end of the list", "nemotron-list", f"<TOOLCALL>[{A}</TOOLCALL>", [bash("a")], problems=True)
answer("no closing brace", "kimi", K("bash:0", '{"command": "a"'), [bash("a")], problems=True)
answer("no closing brace", "harmony", '<|channel|>commentary to=functions.bash json<|message|>{"command": "ls"<|call|>', [bash("ls")], problems=True)
answer("cut off within a text", "hermes-json", H % A[:-3], [], H % A[:-3], problems=True)

# ---- members ----
for k in ("input", "params", "args"):
    answer("arguments as " + k, "hermes-json", H % A.replace("arguments", k), [bash("a")])
for k in ("tool", "function", "tool_name"):
    answer("name as " + k, "hermes-json", H % A.replace('"name"', f'"{k}"'), [bash("a")])
answer("arguments next to the name", "hermes-json", H % '{"name": "edit", "path": "a", "n": 3}', [E(path="a", n=3)], problems=True)
answer("name as the member", "hermes-json", H % '{"bash": {"command": "a"}}', [bash("a")])
answer("name and object", "mistral-args", '[TOOL_CALLS]bash{"command": "a"}</s>', [bash("a")])
answer("two names and objects", "mistral-args", 'Hm.[TOOL_CALLS]bash{"command": "a"}[TOOL_CALLS]now{}</s>', [bash("a")] + NOW, "Hm.")
answer("function", "llama-json", '<|python_tag|>{"function": "bash", "parameters": {"command": "a"}}', [bash("a")])
answer("fence", "kimi", K("bash:0", '```json\n{"command": "a"}\n```'), [bash("a")])
answer("fence", "functionary-v32", '>>>bash\n```json\n{"command": "a"}\n```', [bash("a")])
answer("fence", "harmony", '<|channel|>commentary to=functions.bash<|message|>```json\n{"command": "ls"}\n```<|call|>', [bash("ls")])
answer("blanks in the head", "gemma4", f"<|tool_call> call: bash {{command:{Q}a{Q}}}<tool_call|>", [bash("a")])
answer("no word before the name", "gemma4", f"<|tool_call>bash{{command:{Q}a{Q}}}<tool_call|>", [bash("a")])
answer("objects", "nemotron-list", f"<TOOLCALL>{A}</TOOLCALL>", [bash("a")])
answer("prose after", "granite-list", f"<|tool_call|>[{A}]\nI wait.", [bash("a")], "I wait.")
answer("names in lists", "apertus-list", f"<|tools_prefix|>[{A}]<|tools_suffix|>", [bash("a")])

# ---- Kimi, DeepSeek ----
answer("empty arguments", "kimi", K("now:0", ""), NOW)
answer("an empty text as arguments", "kimi", K("now:0", '""'), NOW)
answer("arguments as text", "kimi", K("bash:0", json.dumps('{"command": "a"}')), [bash("a")])
answer("dots and dashes", "kimi", K("a.b-c:0", "{}"), [("a.b-c", {})], problems=True)
answer("no end", "kimi", "Hm.<|tool_calls_section_begin|>" + K("bash:0", '{"command": "a"}').replace("<|tool_call_end|>", ""), [bash("a")], "Hm.")
answer("cut off", "kimi", "Hm." + K("bash:0", '{"command": "a'), [], "Hm." + K("bash:0", '{"command": "a'), problems=True)
answer("empty arguments", "deepseek-v31", f"{DCS}{DC}now{DSEP}{DE}{DCE}", NOW)
answer("fence", "deepseek-v31", f'{DCS}{DC}bash{DSEP}```json\n{{"command": "a"}}\n```{DE}{DCE}', [bash("a")])
answer("no end", "deepseek-v31", f'Hm.{DCS}{DC}bash{DSEP}{{"command": "a"}}', [bash("a")], "Hm.")
answer("type in the name", "deepseek-v31", f'{DCS}{DC}function{DSEP}bash\n```json\n{{"command": "a"}}\n```\n{DE}{DCE}', [bash("a")])
answer("Python dictionary", "deepseek-v31", f"{DCS}{DC}bash{DSEP}{{'command': 'a'}}{DE}{DCE}", [bash("a")], problems=True)

# ---- gpt-oss ----
answer("text in final", "harmony", "<|channel|>analysis<|message|>Why.<|end|>" + S + "<|channel|>final json<|message|>{\"a\": 1}<|return|>", [], '{"a": 1}', "Why.")
answer("constrained text", "harmony", "<|channel|>final <|constrain|>JSON<|message|>{\"a\": 1}<|return|>", [], '{"a": 1}')
answer("channel of another name", "harmony", '<|channel|>comment to=functions.bash json<|message|>{"command": "ls"}<|call|>', [bash("ls")])
answer("text in a channel of another name", "harmony", "<|channel|>reflection<|message|>Hi<|end|>", [], "Hi")
answer("empty arguments", "harmony", "<|channel|>commentary to=functions.now <|constrain|>json<|message|><|call|>", NOW)
answer("no end", "harmony", '<|channel|>commentary to=functions.bash json<|message|>{"command": "ls"}', [bash("ls")])
answer("dots and dashes", "harmony", '<|channel|>commentary to=functions.a.b-c json<|message|>{}<|call|>', [("a.b-c", {})], problems=True)
answer("cut off", "harmony", '<|channel|>commentary to=functions.bash json<|message|>{"command": "r', [], '{"command": "r', problems=True)
answer("reasoning, then text with to=", "harmony", "<|channel|>analysis<|message|>Use to=functions.bash here.<|end|>" + S + "<|channel|>final<|message|>Mail to=a@b.c\nto=functions.bash<|return|>", [], "Mail to=a@b.c\nto=functions.bash", "Use to=functions.bash here.")

# ---- Python and Gemma ----
answer("positional", "python-list", P("[bash('ls')]"), [bash("ls")], problems=True)
answer("dictionary", "python-list", P('[bash({"command": "ls"})]'), [bash("ls")])
answer("JSON object", "python-list", P(A), [bash("a")])
answer("JSON lines", "python-list", P(f"[\n{A},\n{B}\n]"), [bash("a"), bash("b")])
answer("fence in the tag", "python-list", P("```python\n[bash(command='a')]\n```"), [bash("a")])
answer("single triple quotes", "python-list", P("[bash(command='''it's\n''')]"), [bash("it's\n")])
answer("raw text", "python-list", P("[bash(command=r'a\\nb')]"), [bash("a\\nb")])
answer("joined texts", "python-list", P("[bash(command='a' \"b\"\n 'c')]"), [bash("abc")])
answer("escapes", "python-list", P("[bash(command='\\x41\\u00fc\\U0001f600\\t\\q\\\\')]"), [bash("Aü\U0001f600\t\\q\\")])
answer("numbers", "python-list", P("[mix(n=1_000, x=.5, l=[+1, 0x1F, 1., 1e3, -2])]"), [X(n=1000, x=0.5, l=[1, 31, 1.0, 1e3, -2])])
answer("set and tuple", "python-list", P("[mix(l=(1,), o={'a': {1, 2}, 'b': (3)}, u=())]"), [X(l=[1], o={"a": [1, 2], "b": 3}, u=[])])
answer("no brackets", "python-list", P("bash(command='a')"), [bash("a")])
answer("text before and after", "python-list", "I look." + P("[bash(command='a')]") + "I wait.<|im_end|>", [bash("a")], "I look.\nI wait.")
answer("dots and dashes", "python-list", P("[a.b-c(x=1)]"), [("a.b-c", {"x": 1})], problems=True)
answer("cut off", "python-list", "<|tool_call_start|>[bash(command='rm", [], "<|tool_call_start|>[bash(command='rm", problems=True)
answer("no end", "python-list", "<|tool_call_start|>[bash(command='a')]", [bash("a")])
answer("unicode", "python-list", P(f"[bash(command='{U}')]"), [bash(U)])
answer("single quotes", "gemma4", G("bash{'command': 'it\\'s'}"), [bash("it's")])
answer("escapes in quotes", "gemma4", G('bash{command:"\\u00fc\\n"}'), [bash("ü\n")])
answer("two, text around", "gemma4", "I look." + G(f"bash{{command:{Q}a{Q}}}") + "\n" + G("now{}") + "I wait.<turn|>", [bash("a")] + NOW, "I look.\nI wait.")
answer("no end", "gemma4", f"<|tool_call>call:bash{{command:{Q}a{Q}}}", [bash("a")])
answer("dots and dashes", "gemma4", G("a.b-c{x:1}"), [("a.b-c", {"x": 1})], problems=True)
answer("two, fence", "command-r-list", C(f'```json\n[{{"tool_call_id": "0", "tool_name": "bash", "parameters": {{"command": "a"}}}}]\n```'), [bash("a")])
answer("number as id", "command-r-list", C('[{"tool_call_id": 0, "tool_name": "bash", "parameters": {"command": "a"}}]'), [bash("a")])

if __name__ == "__main__":  # python3 tests/published/calls_loose.py tests/golden/templates/calls.jsonl
    import sys

    write_texts(sys.argv[1])
