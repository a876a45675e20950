# SPDX-License-Identifier: MIT
"""usage: prove.py CASES OUT : renders the cases with the engines that are installed, compares with what hone wrote."""
import datetime
import json
import sys


def dump(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def refuse(message):
    raise ValueError(message)


def clock(form):
    return datetime.datetime.fromtimestamp(data["now"], datetime.timezone.utc).strftime(form)


def transformers_engine(text):
    import transformers
    from transformers.utils.chat_template_utils import _compile_jinja_template

    return "transformers " + transformers.__version__, _compile_jinja_template(text).render


def jinja2_engine(text):
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.filters["tojson"] = dump
    env.globals["raise_exception"] = refuse
    return "jinja2 " + jinja2.__version__, env.from_string(text).render


def minijinja_engine(text):
    from importlib.metadata import version

    import minijinja

    env = minijinja.Environment(trim_blocks=True, lstrip_blocks=True, templates={"chat": text})
    env.add_filter("tojson", dump)
    env.add_function("raise_exception", refuse)
    return "minijinja " + version("minijinja"), lambda **v: env.render_template("chat", **v)


data = json.load(open(sys.argv[1], encoding="utf-8"))
engines = []
for name, make in (("transformers", transformers_engine), ("jinja2", jinja2_engine), ("minijinja", minijinja_engine)):
    row = {"engine": name, "version": None, "compiles": False, "equal": 0, "differs": 0, "fails": 0, "first": None}
    try:
        row["version"], render = make(data["template"])
        row["compiles"] = True
    except ImportError:
        row["first"] = "not installed"
    except Exception as e:
        row["first"] = "does not compile: %s" % e
    for case in data["cases"] if row["compiles"] else []:
        if case["want"] is None:
            continue
        conv, what = case["conversation"], "equal"
        try:
            got = render(**{**data["tokens"], "messages": conv["messages"], "tools": conv.get("tools"), "documents": None, "strftime_now": clock,
                            "add_generation_prompt": conv.get("add_generation_prompt", False), **conv.get("kwargs", {})})
            if got != case["want"]:
                what = "differs"
        except Exception as e:
            what, got = "fails", str(e)
        row[what] += 1
        if what != "equal" and not row["first"]:
            row["first"] = "%s %s: %s" % (case["id"], what, got[-200:])
    engines.append(row)
json.dump({"engines": engines}, open(sys.argv[2], "w", encoding="utf-8"))
