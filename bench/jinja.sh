#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/jinja.sh [OUT.json] - renderings per second of the Qwen3.5 template with tools and 20 turns on one core,
# compared with Python's jinja2 in the same run. Needs python3 with jinja2 (PYTHON=...), the build folder (BUILD=build),
# and the official template in ../shared; without that, measures our own template. Writes docs/results/jinja.json. Takes
# twenty seconds.
set -eu
BUILD=${BUILD:-build}
PYTHON=${PYTHON:-python3}
out=${1:-docs/results/jinja.json}
src=../shared/golden/templates/jinja/Qwen3.5-4B.jinja
[ -e $src ] || src=template/own/qwen3.5.jinja
lib=$(ls -t "$BUILD"/obj-*/libhone.a | head -1)
libs="zlib libxxhash libpcre2-8 libutf8proc yaml-0.1"
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
${CC:-cc} -std=c11 -D_GNU_SOURCE -O2 -ffp-contract=off -I. bench/jinja.c -o "$t/jinja" "$lib" $(pkg-config --libs $libs) -lm -lpthread
cat > "$t/bench.py" <<'PY'
import json, subprocess, sys, time
import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
t, src, out = sys.argv[1:]
tools = [{"type": "function", "function": {"name": f"tool_{i}", "description": "Looks something up.", "parameters": {
    "type": "object", "properties": {"query": {"type": "string", "description": "What to look for"},
    "limit": {"type": "integer"}, "exact": {"type": "boolean"}}, "required": ["query"]}}} for i in range(5)]
messages = [{"role": "system", "content": "You are a helpful assistant."}]
for i in range(10):  # twenty turns: a question with a call, its result and an answer
    messages += [{"role": "user", "content": f"Question {i}: " + "what does the weather do in this town? " * 5},
                 {"role": "assistant", "content": "", "reasoning_content": "I should look it up. " * 10, "tool_calls": [
                     {"type": "function", "function": {"name": f"tool_{i % 5}", "arguments": {"query": f"weather {i}", "limit": i}}}]},
                 {"role": "tool", "content": json.dumps({"temperature": 20.5 + i, "sky": "clear"})},
                 {"role": "assistant", "content": f"Answer {i}: " + "it is warm and the sky is clear. " * 8}]
case = {"messages": messages, "tools": tools, "add_generation_prompt": True}
json.dump(case, open(t + "/case.json", "w"))

def raise_exception(m):
    raise jinja2.exceptions.TemplateError(m)
env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None: json.dumps(x, ensure_ascii=ensure_ascii, indent=indent)
env.globals["raise_exception"] = raise_exception
template = env.from_string(open(src).read())
def python_rate(seconds):
    n, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in range(20):
            text = template.render(documents=None, **case)
        n += 20
    return n / (time.perf_counter() - start), text
ours, theirs = [], []
for _ in range(3): # interleaved, so that both run under the same conditions
    r, want = python_rate(2)
    theirs.append(r)
    p = subprocess.run([t + "/jinja", src, t + "/case.json", "2"], capture_output=True, check=True)
    if p.stdout.decode() != want:
        sys.exit("the two renderings differ")
    ours.append([float(x) for x in p.stderr.split()])
mid = lambda v: sorted(v)[len(v) // 2]
res = {"what": "renderings per second, Qwen3.5 template, 5 tools, 20 assistant turns, template compiled once, one core, median of 3",
       "bytes": len(want.encode()), "jinja2": jinja2.__version__, "python": sys.version.split()[0],
       "jinja2_per_s": round(mid(theirs), 1), "hone_per_s": round(mid([o[0] for o in ours]), 1),
       "hone_from_json_text_per_s": round(mid([o[1] for o in ours]), 1)}
res["ratio"] = round(res["hone_per_s"] / res["jinja2_per_s"], 1)
res["ratio_from_json_text"] = round(res["hone_from_json_text_per_s"] / res["jinja2_per_s"], 1)
json.dump(res, open(out, "w"), indent=1)
open(out, "a").write("\n")
print(json.dumps(res, indent=1))
PY
"$PYTHON" "$t/bench.py" "$t" $src "$out"
