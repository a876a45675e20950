#!/usr/bin/env python3
"""tests/oracle/repair.py - expected renderings of repaired templates: tests/golden/templates/repair.json.

For each template of tests/golden/templates/repair, which are written here in the idioms of published ones, and for
conversations in odd forms (content null, arguments as text ...): the rendering by jinja2, configured as in transformers, of
the same conversation in normal form with the original template. test_repair.c compares."""
import importlib.util
import json
import os
import random

root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
spec = importlib.util.spec_from_file_location("measure", os.path.join(root, "template-repair.py"))
measure = importlib.util.module_from_spec(spec)
spec.loader.exec_module(measure)

folder = os.path.join(root, "golden", "templates", "repair")
TOOLS = [measure.tool("get_weather", location="string")]


def pairs():
    for form, (change, how) in measure.FORMS.items():
        rng = random.Random("golden " + form)
        for _ in range(2):
            plain = measure.ordinary(rng, **how)
            if plain.get("tools"):
                plain["tools"] = TOOLS
            # these parts are lost by some of the templates, which is a different defect than the odd form
            for m in plain["messages"]:
                m.pop("reasoning_content", None)
                if m.get("tool_calls"):
                    m["content"] = ""
            measure.each_call(plain, lambda f: f.update(arguments={
                k: v for k, v in f["arguments"].items() if isinstance(v, (str, int)) and not isinstance(v, bool)}))
            odd = json.loads(json.dumps(plain))
            change(odd)
            yield form, odd, measure.normal(odd)


def texts():
    """Arguments as text that the repair has to parse: objects, and texts from json.dumps and other writers."""
    objects = [{"a": 0.5, "b": -1.25, "c": 1e3, "d": 1e-7, "e": -3, "f": 2000000000},
               {"s": "caf\u00e9 \u00c0\u017f", "g": "\u03a9\u03bb \u043f\u0440\u0438 \u2013 \u201cq\u201d \u20ac"},
               {"x": "\\u00e9 \n \\\\ \"q\" 'z' {{ }}"},
               {"k%02d" % i: i for i in range(9)}, {"k%02d" % i: str(i) for i in range(40)}, {"": "empty", "tab": "a\tb\bc\fd/"}]
    for o in objects:
        for how in ({}, {"ensure_ascii": False}, {"separators": (",", ":")}, {"indent": 1}):
            yield json.dumps(o, **how)
    yield '{"a": "\\u003cb\\u003e\\u0026 \\u0027", "b": 1E3, "c": 1.5e+2, "d": "\\/"}'


def with_arguments(arguments):
    call = {"id": "call00001", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "tool_calls": [call]},
                         {"role": "tool", "tool_call_id": "call00001", "content": "ok"}], "add_generation_prompt": True}


out = []
for name in sorted(os.listdir(folder)):
    with open(os.path.join(folder, name), encoding="utf-8") as f:
        template = measure.Jinja2(f.read())
    for form, odd, plain in pairs():
        want = template.render(plain)
        if not isinstance(want, measure.Failure):
            out.append({"template": name, "form": form, "odd": odd, "want": want})
    for text in texts() if name == "tags.jinja" else []:
        want = template.render(with_arguments(json.loads(text)))
        out.append({"template": name, "form": "text " + text, "odd": with_arguments(text), "want": want})
with open(os.path.join(root, "golden", "templates", "repair.json"), "w", encoding="utf-8") as f:
    json.dump({"defaults": measure.SPECIAL, "pairs": out}, f, ensure_ascii=False, separators=(",", ":"))
    f.write("\n")
print(len(out), "pairs")
