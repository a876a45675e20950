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


def new_probes(base):
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
    bad = ["fail:missing " + x for x in p["contains"] if x not in text] + ["fail:found " + x for x in p.get("absent", []) if x in text]
    return bad[0] if bad else "pass"


def main():
    with open(PATH, encoding="utf-8") as f:
        doc = json.load(f)
    base = next(p for p in doc["probes"] if p["id"] == "args_string")
    base = {k: base[k] for k in ("messages", "tools", "add_generation_prompt")}
    for ident, rule, p in new_probes(base):
        doc["probes"] = [x for x in doc["probes"] if x["id"] != ident] + [{"id": ident, "rule": rule, **p}]
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
