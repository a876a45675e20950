# SPDX-License-Identifier: MIT
"""Effect and cost of grammars on quantizations of the bundled model:

    python3 bench/constrained.py HONE OUT.json [--dir DIR] recipes [RECIPE...] | speed | model FILE

recipes: each recipe answers the 200 cases of tests/golden/tiny-qwen35moe/tools.jsonl greedily, unconstrained and with calls
constrained to the tools' schemas. Reports well-formed calls and the tokens per 1000 that the grammar overruled. Results are
written to OUT.json one by one; without names, only recipes missing from OUT.json are measured, so an interrupted run resumes.
speed (a quiet machine, a minute): decoding with a schema of 30 fields compared with free decoding, and tool calls with and
without jump-forward; temperature 0, one thread, alternating.
model FILE (a quiet machine, a minute): the first of these two for FILE with all threads, to see the cost at realistic step
times.
--dir DIR: keeps the model and its importance matrix there for the next part
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

TINY = "tests/golden/tiny-qwen35moe"


def run(*args):
    p = subprocess.run(args, capture_output=True, text=True)
    if p.returncode:
        raise RuntimeError(f"{' '.join(args)}: {p.stderr.strip()[-300:]}")
    return p.stdout


def recipe(hone, d, name):
    path = f"{d}/{name}.gguf"
    try:
        if name == "BF16":  # the base of the others
            os.link(f"{d}/base.gguf", path)
        else:
            run(hone, "quantize", f"{d}/base.gguf", "-o", path, "--recipe", name, "--imatrix", f"{d}/i.gguf", "--threads", "1", "-q")
        r = json.loads(run(hone, "eval", "tools", path, f"{TINY}/tools.jsonl", "--constrained", "--threads", "1", "--json", "-q"))
    except RuntimeError as e:
        return {"recipe": name, "failed": str(e)}
    finally:
        if os.path.exists(path):
            os.unlink(path)
    grades = {g["grade"]: g for g in r["grades"]}
    return {"recipe": name, "cases": r["n_cases"], "valid": grades["valid"]["n"], "valid_constrained": grades["valid"]["constrained_n"],
            "passed": r["n_passed"], "passed_constrained": r["n_passed_constrained"], "overruled_per_1000": r["overruled_per_1000"],
            "tokens_made": r["tokens_made"], "tokens_made_constrained": r["tokens_made_constrained"]}


def save(out, **new):
    """Merges parts into OUT.json, with recipes in the table's order."""
    r = json.load(open(out)) if os.path.exists(out) else {}
    recipes = {x["recipe"]: x for x in r.pop("recipes", []) + new.pop("recipes", [])}
    r = {"command": "python3 bench/constrained.py build/hone docs/results/constrained.json recipes, then speed", **r, **new}
    text = json.dumps(r, indent=1)[:-2]
    if recipes:
        text += ',\n "recipes": [\n  ' + ",\n  ".join(json.dumps(x) for x in recipes.values()) + "\n ]"
    with open(out + ".new", "w") as f:
        f.write(text + "\n}\n")
    os.replace(out + ".new", out)


def recipes(hone, d, out, names):
    have = {x["recipe"] for x in json.load(open(out)).get("recipes", []) if "failed" not in x} if os.path.exists(out) else set()
    if not names:
        names = [r["recipe"] for r in json.loads(run(hone, "recipes", "--json"))["recipes"]]
        names = [n for n in names if n not in have]
    for n in names:
        r = recipe(hone, d, n)
        save(out, recipes=[r])
        print(r, flush=True)


def form(d):
    """A schema of 30 fields, all required."""
    kinds = [{"type": "string", "maxLength": 24}, {"type": "integer", "minimum": 0, "maximum": 9999}, {"type": "boolean"}, {"enum": ["red", "green", "blue"]}, {"type": ["string", "null"], "maxLength": 16}, {"type": "number"}]
    props = {f"field_{i:02d}": kinds[i % 6] for i in range(30)}
    with open(f"{d}/s.json", "w") as f:
        json.dump({"type": "object", "properties": props, "required": list(props), "additionalProperties": False}, f)
    return f"{d}/s.json"


def pairs(hone, model, schema, n_tokens, n_pairs, *flags):
    """Alternates free and constrained answers."""
    common = ["-p", "Describe a car. ", "--temp", "0", "-n", str(n_tokens), "--json", *flags]
    free, held, a, b = [], [], {}, {}
    for _ in range(n_pairs):
        a = json.loads(run(hone, "run", model, *common))
        b = json.loads(run(hone, "run", model, *common, "--schema", schema))
        free.append(a["tok_per_s"])
        held.append(b["tok_per_s"])
    return {"fields": 30, "pairs": n_pairs, "tokens": a["generated_tokens"], "tokens_constrained": b["generated_tokens"], "of_them_forced": b["forced_tokens"],
            "overruled": b["overruled_tokens"], "free_tok_per_s": round(statistics.median(free), 1), "constrained_tok_per_s": round(statistics.median(held), 1),
            "free_spread": [round(min(free), 1), round(max(free), 1)], "constrained_spread": [round(min(held), 1), round(max(held), 1)],
            "constrained_by_free": round(statistics.median(b / a for a, b in zip(free, held)), 3)}


def speed(hone, d):
    model = f"{d}/speed.gguf"
    run(hone, "quantize", f"{d}/base.gguf", "-o", model, "--recipe", "Q8_0", "-f", "-q")
    return pairs(hone, model, form(d), 400, 25, "--threads", "1")


def jump(hone, d):
    """Decoding time in seconds, without prompts, of 20 answers with tool calls, with and without jump-forward."""
    model = f"{d}/speed.gguf"
    drawn, jumped, made, forced = [], [], 0, 0
    for _ in range(5):
        for flags, out in (([], drawn), (["--jump"], jumped)):
            r = json.loads(run(hone, "eval", "tools", model, f"{TINY}/tools.jsonl", "--constrained", *flags, "--cases", "20", "--threads", "1", "--json", "-q"))
            out.append(r["decode_seconds_constrained"])
        made, forced = r["tokens_made_constrained"], r["forced_tokens"]
    return {"cases": 20, "tokens": made, "of_them_forced": forced, "seconds_drawn": round(statistics.median(drawn), 3), "seconds_jumping": round(statistics.median(jumped), 3),
            "drawn_spread": [round(min(drawn), 3), round(max(drawn), 3)], "jumping_spread": [round(min(jumped), 3), round(max(jumped), 3)],
            "drawn_by_jumping": round(statistics.median(a / b for a, b in zip(drawn, jumped)), 3)}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("hone")
    p.add_argument("out")
    p.add_argument("--dir")
    p.add_argument("part", choices=["recipes", "speed", "model"])
    p.add_argument("names", nargs="*")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        d = a.dir or tmp
        if a.part == "model":
            r = pairs(a.hone, a.names[0], form(d), 100, 5)
            save(a.out, speed_of_a_file={"file": os.path.basename(a.names[0]), "threads": os.cpu_count(), **r})
            return
        if not os.path.exists(f"{d}/i.gguf"):
            run(a.hone, "convert", TINY, "-o", f"{d}/base.gguf", "-q")
            run(a.hone, "imatrix", f"{d}/base.gguf", f"{TINY}/calib.jsonl", "-o", f"{d}/i.gguf", "--chunks", "40", "-q")
        if a.part == "recipes":
            recipes(a.hone, d, a.out, a.names)
        else:
            save(a.out, speed=speed(a.hone, d))
            save(a.out, jump_forward=jump(a.hone, d))


main()
