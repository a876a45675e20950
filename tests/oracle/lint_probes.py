#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/oracle/lint_probes.py FOLDER - adds the probes below to tests/golden/templates/lint_probes.json, each with its
outcome under transformers for every template of FOLDER (NAME.jinja). tests/oracle/lint_def.py then writes the table."""
import copy
import json
import os
import sys

import jinja2
from transformers.utils.chat_template_utils import render_jinja_template

PATH = "tests/golden/templates/lint_probes.json"


def user(content):
    return {"messages": [{"role": "user", "content": content}], "add_generation_prompt": True}


def with_arguments(base, text):
    p = copy.deepcopy(base)
    p["messages"][1]["tool_calls"][0]["function"]["arguments"] = text
    return p


def turns(*contents):
    return {"messages": [{"role": "assistant" if i % 2 else "user", "content": c} for i, c in enumerate(contents)],
            "add_generation_prompt": True}


def with_call(base, name, result):
    """Returns base with object arguments, the called function's name and the result replaced."""
    p = with_arguments(base, {"location": "Zq7-Paris", "unit": "celsius"})
    p["messages"][1]["tool_calls"][0]["function"]["name"] = name
    p["messages"][2]["content"] = result
    return p


def renamed(tool, name):
    return {**tool, "function": {**tool["function"], "name": name}}


def new_probes(base):
    tools = base["tools"]
    many = {"k%02d" % i: {0: "Zq7-first", 23: "Zq7-last"}.get(i, i) for i in range(24)}
    said = user("Hi")
    said["messages"] += [{"role": "assistant", "content": [{"type": "output_text", "text": "Zq7said"}]},
                         {"role": "user", "content": "Go on"}]
    return [
        ("args_string_many", "TOOL-ARGS-STRING",
         {**with_arguments(base, json.dumps(many)), "contains": ["Zq7-first", "Zq7-last"]}),
        ("args_string_broken", "TOOL-ARGS-BROKEN",
         {**with_arguments(base, '{"location": "Zq7-Paris", "unit": "cel'), "contains": ["Zq7-Paris"]}),
        ("user_parts_input", "CONTENT-PARTS",
         {**user([{"type": "input_text", "text": "Zq7part"}]), "contains": ["Zq7part"], "absent": ["'type'", '"type"']}),
        ("answer_parts_output", "CONTENT-PARTS",
         {**said, "contains": ["Zq7said"], "absent": ["'type'", '"type"']}),
        # the description contains "location", so only "unit" shows that parameters are rendered
        ("tools_declared", "TOOLS-DROPPED",
         {**base, **turns("Weather in Zq7town?"), "contains": ["get_weather", "location", "unit"]}),
        ("tools_two", "TOOLS-DROPPED",
         {**base, **turns("Weather in Zq7town?"), "tools": tools + [renamed(tools[0], "zq7_second")],
          "contains": ["get_weather", "zq7_second"]}),
        ("call_name", "TOOL-CALLS-DROPPED", {**with_call(base, "zq7_name", "18C"), "contains": ["zq7_name"]}),
        ("result_rendered", "TOOL-RESULTS-DROPPED", {**with_call(base, "get_weather", "Zq7res"), "contains": ["Zq7res"]}),
        ("turns_rendered", "TURNS-DROPPED",
         {**turns("Zq7one", "Zq7two", "Zq7three", "Zq7four", "Zq7five"),
          "order": ["Zq7one", "Zq7two", "Zq7three", "Zq7four", "Zq7five"]}),
        ("bos_once", "BOS-TWICE", {**turns("Weather in Zq7town?"), "absent": ["<BOS><BOS>"]}),
    ]


def outcome(source, p, defaults):
    try:
        text = render_jinja_template(conversations=[p["messages"]], tools=p.get("tools"), documents=None, chat_template=source,
                                     add_generation_prompt=p["add_generation_prompt"], **defaults)[0][0]
    except Exception as e:
        kinds = [(jinja2.exceptions.SecurityError, "security"), (jinja2.exceptions.UndefinedError, "undefined"),
                 (jinja2.exceptions.TemplateSyntaxError, "syntax")]
        if type(e) is jinja2.exceptions.TemplateError:
            return "error:raise"
        kind = next((k for t, k in kinds if isinstance(e, t)), None)
        return "error:" + (kind or ("runtime" if isinstance(e, jinja2.exceptions.TemplateError) else type(e).__name__))
    bad = ["fail:missing " + x for x in p.get("contains", []) if x not in text]
    bad += ["fail:found " + x for x in p.get("absent", []) if x in text]
    at = -1
    for x in p.get("order", []):
        at = text.find(x, at + 1)
        if at < 0:
            bad.append("fail:order " + x)
            break
    return bad[0] if bad else "pass"


def main():
    with open(PATH, encoding="utf-8") as f:
        doc = json.load(f)
    base = next(p for p in doc["probes"] if p["id"] == "args_string")
    base = {k: base[k] for k in ("messages", "tools", "add_generation_prompt")}
    for ident, rule, p in new_probes(base):
        new = {"id": ident, "rule": rule, **p}
        if ident not in [x["id"] for x in doc["probes"]]:
            doc["probes"].append(new)
        doc["probes"] = [new if x["id"] == ident else x for x in doc["probes"]]
        for name, want in doc["expected"].items():
            with open(os.path.join(sys.argv[1], name + ".jinja"), encoding="utf-8", newline="") as f:
                want[ident] = outcome(f.read(), p, doc["defaults"])
    with open(PATH, "w", encoding="utf-8") as f:
        f.write('{"defaults":%s,\n"probes":[\n' % json.dumps(doc["defaults"]))
        f.write(",\n".join(json.dumps(p, ensure_ascii=False) for p in doc["probes"]))
        f.write('\n],\n"expected":{\n')
        f.write(",\n".join("%s: %s" % (json.dumps(k), json.dumps(v, ensure_ascii=False)) for k, v in doc["expected"].items()))
        f.write("\n}}\n")


main()
