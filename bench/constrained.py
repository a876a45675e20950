# SPDX-License-Identifier: MIT
"""What a grammar does to the quants of the bundled model, and what it costs:
python3 bench/constrained.py HONE OUT.json [RECIPE...]

recipes     every recipe answers the 200 cases of tests/golden/tiny-qwen35moe/tools.jsonl greedily, bare and with calls held to the
            schemas of the tools: well-formed calls, and how many of 1000 tokens the grammar overruled; seconds hold the prompts too
speed       decoding with a schema of 30 fields beside decoding freely, temperature 0, alternating, tokens per second of the answer
Four processes of one thread each for the recipes, one for the speed.
"""
import concurrent.futures
import json
import os
import statistics
import subprocess
import sys
import tempfile

TINY = "tests/golden/tiny-qwen35moe"
CASES = 200


def run(*args):
    p = subprocess.run(args, capture_output=True, text=True)
    if p.returncode:
        raise RuntimeError(f"{' '.join(args)}: {p.stderr.strip()[-300:]}")
    return p.stdout


def recipe(hone, d, name):
    path = f"{d}/{name}.gguf"
    try:
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
            "seconds": r["seconds"], "tokens_made": r["tokens_made"],
            "seconds_constrained": r["seconds_constrained"], "tokens_made_constrained": r["tokens_made_constrained"]}


def speed(hone, d):
    kinds = [{"type": "string", "maxLength": 24}, {"type": "integer", "minimum": 0, "maximum": 9999}, {"type": "boolean"}, {"enum": ["red", "green", "blue"]}, {"type": ["string", "null"], "maxLength": 16}, {"type": "number"}]
    props = {f"field_{i:02d}": kinds[i % 6] for i in range(30)}
    with open(f"{d}/s.json", "w") as f:
        json.dump({"type": "object", "properties": props, "required": list(props), "additionalProperties": False}, f)
    model, common = f"{d}/speed.gguf", ["-p", "Describe a car. ", "--temp", "0", "-n", "400", "--threads", "1", "--json"]
    run(hone, "quantize", f"{d}/base.gguf", "-o", model, "--recipe", "Q8_0", "-q")
    free, held, forced, drawn = [], [], 0, 0
    for _ in range(7):
        a = json.loads(run(hone, "run", model, *common))
        b = json.loads(run(hone, "run", model, *common, "--schema", f"{d}/s.json"))
        free.append(a["tok_per_s"])
        held.append(b["tok_per_s"])
        forced, drawn = b["forced_tokens"], b["generated_tokens"]
        tokens = a["generated_tokens"]
    return {"fields": 30, "tokens": tokens, "tokens_constrained": drawn, "of_them_forced": forced,
            "free_tok_per_s": round(statistics.median(free), 1), "constrained_tok_per_s": round(statistics.median(held), 1),
            "free_spread": [round(min(free), 1), round(max(free), 1)], "constrained_spread": [round(min(held), 1), round(max(held), 1)],
            "constrained_by_free": round(statistics.median(held) / statistics.median(free), 3)}


def main():
    hone, out, names = sys.argv[1], sys.argv[2], sys.argv[3:]
    with tempfile.TemporaryDirectory() as d:
        run(hone, "convert", TINY, "-o", f"{d}/base.gguf", "-q")
        run(hone, "imatrix", f"{d}/base.gguf", f"{TINY}/calib.jsonl", "-o", f"{d}/i.gguf", "--chunks", "40", "-q")
        if not names:
            names = [r["recipe"] for r in json.loads(run(hone, "recipes", "--json"))["recipes"]]
        r = {"command": "python3 bench/constrained.py build/hone docs/results/constrained.json", "speed": speed(hone, d)}
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            r["recipes"] = list(pool.map(lambda n: recipe(hone, d, n), names))
    if os.path.exists(out):  # recipes measured earlier stay
        have = {x["recipe"] for x in r["recipes"] if "failed" not in x}
        old = json.load(open(out))
        r["recipes"] = [x for x in old.get("recipes", []) if x["recipe"] not in have] + r["recipes"]
    with open(out, "w") as f:
        f.write(json.dumps({k: v for k, v in r.items() if k != "recipes"}, indent=1)[:-2] + ',\n "recipes": [\n  ' + ",\n  ".join(json.dumps(x) for x in r["recipes"]) + "\n ]\n}\n")
    print(json.dumps(r["speed"]), len(r["recipes"]))
    for x in r["recipes"]:
        print(x)


main()
