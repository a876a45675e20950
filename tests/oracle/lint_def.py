#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/golden/templates/lint_probes.json -> template/lint_probes.def (run from the repository root)."""
import json

SEVERITY = {
    "LINT_WARN": "TOOL-ARGS-STRING-EQ TOOL-ARGS-BROKEN TOOLS-SCHEMA RESULT-NULL CONTENT-PARTS THINK-PRESERVE PREFIX".split(),
    "LINT_INFO": "THINK-HISTORY THINK-EMPTY CONTENT-TRIM".split(),
}
HEAD = """/* template/lint_probes.def - behavioural probes of the template linter.
 * PROBE(id, rule, severity, texts...): the JSON of a small conversation and the requirements on its rendering, split
 * into literals that compilers accept.
 * Generated from tests/golden/templates/lint_probes.json by tests/oracle/lint_def.py. */
/* clang-format off */"""


def quote(s):
    return '"' + s.replace("\\", "\\\\").replace('"', '\\"') + '"'


def pieces(text):
    groups, cur, n = [], [], 0
    for s in (text[i : i + 110] for i in range(0, len(text), 110)):
        if n + len(s) > 3500:
            groups.append(cur)
            cur, n = [], 0
        cur.append(s)
        n += len(s)
    return groups + [cur]


out = [HEAD]
for p in json.load(open("tests/golden/templates/lint_probes.json", encoding="utf-8"))["probes"]:
    sev = next((k for k, v in SEVERITY.items() if p["rule"] in v), "LINT_ERROR")
    text = json.dumps({k: v for k, v in p.items() if k not in ("id", "rule")}, separators=(",", ":"))
    body = ",\n".join("\n".join("    " + quote(s) for s in g) for g in pieces(text))
    out.append("PROBE(%s, %s, %s,\n%s)" % (quote(p["id"]), quote(p["rule"]), sev, body))
open("template/lint_probes.def", "w", encoding="utf-8").write("\n".join(out) + "\n")
