#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/select.sh [OUT.json] - measures the gain of `imatrix --select` on the bundled trained model: a short calibration
# text plus more text from a pool, selected for rare experts, at random, or in order. Reports the coverage and the
# divergence of low-bit recipes. Needs ../shared/models/tiny-qwen35moe. Takes minutes on 2 cores. Environment: WINDOWS
# of the evaluation text (40), TOKENS to add (4096).
set -eu
HONE=${HONE:-build/hone}
src=../shared/models/tiny-qwen35moe
out=${1:-docs/results/select.json}
windows=${WINDOWS:-40} tokens=${TOKENS:-4096} recipes=${RECIPES:-"IQ2_XXS Q2_K"}
[ -e $src/calib.txt ] || { echo "SKIP: $src is not here"; exit 77; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
"$HONE" convert $src -o "$t/base.gguf" --type f32 -q > /dev/null
head -c 12000 $src/calib.txt > "$t/calib.txt"
tail -c +12001 $src/calib.txt | head -c 150000 > "$t/pool.txt"
head -n 80 $src/calib.jsonl > "$t/pool.jsonl"
head -c 100000 $src/eval.txt > "$t/eval.txt"
head -c 100000 $src/eval_chat.txt > "$t/eval_chat.txt"
imatrix() { "$HONE" imatrix "$t/base.gguf" "$@" -q --json; }
imatrix "$t/calib.txt" -o "$t/short.gguf" > /dev/null
# the whole pool in the order in which it is selected: the selection is the part that fits into TOKENS
imatrix "$t/pool.txt" "$t/pool.jsonl" --have "$t/short.gguf" --select 1000000000 -o "$t/all.jsonl" > "$t/all.json"
python3 - "$t" "$tokens" <<'PY'
import json, random, sys
t, budget = sys.argv[1], int(sys.argv[2])
docs = json.load(open(t + "/all.json"))["documents"]
lines = open(t + "/all.jsonl").read().splitlines(True)
assert len(docs) == len(lines)
def take(order, name):
    n = 0
    with open(f"{t}/{name}.jsonl", "w") as f:
        for i in order:
            if n + docs[i]["n_tokens"] <= budget:
                n += docs[i]["n_tokens"]
                f.write(lines[i])
take(range(len(docs)), "selected")
for seed in range(1, 5):
    order = list(range(len(docs)))
    random.Random(seed).shuffle(order)
    take(order, f"random{seed}")
PY
names=short
for x in selected random1 random2 random3 random4; do
    imatrix "$t/$x.jsonl" --ctx 128 -o "$t/new.gguf" -f > /dev/null
    "$HONE" imatrix --merge "$t/short.gguf" "$t/new.gguf" -o "$t/$x.gguf" -q > /dev/null
    names="$names $x"
done
imatrix "$t/calib.txt" "$t/pool.txt" "$t/pool.jsonl" -o "$t/whole.gguf" > /dev/null
names="$names whole"
set --
for x in $names; do
    "$HONE" imatrix --stats "$t/$x.gguf" --json > "$t/$x.stats"
    "$HONE" quantize "$t/base.gguf" -o "$t/$x--{}.gguf" --recipe "$(echo $recipes | tr ' ' ,)" --imatrix "$t/$x.gguf" -q > /dev/null
    for r in $recipes; do set -- "$@" "$t/$x--$r.gguf"; done
done
"$HONE" eval kld "$@" "$t/eval.txt" "$t/eval_chat.txt" --base "$t/base.gguf" --chunks "$windows" -q --json > "$t/kld.json"
python3 - "$t" "$out" "$windows" "$tokens" $names <<'PY'
import json, os, sys
t, out, windows, tokens, *names = sys.argv[1:]
rows, klds, stderr = [], {}, {}
for c in json.load(open(t + "/kld.json"))["by_domain"]:
    name, recipe = os.path.basename(c["model"]).split("--")
    column = recipe.removesuffix(".gguf") + " " + c["domain"]
    klds.setdefault(name, {})[column] = c["mean_kld"]
    stderr[column] = c["mean_kld_stderr"] / c["mean_kld"]
for name in names:
    n = [x["tokens"] for x in json.load(open(f"{t}/{name}.stats"))["experts"]]
    rows.append(dict(imatrix=name, own_share=sum(x / (x + 256) for x in n) / len(n), n_unseen=sum(x == 0 for x in n),
                     n_rare=sum(0 < x < 256 for x in n), min=min(n), mean_kld=klds[name]))
pool = json.load(open(t + "/all.json"))
doc = dict(command=f"WINDOWS={windows} TOKENS={tokens} bench/select.sh", pool_tokens=pool["pool_tokens"], pool_documents=pool["n_candidates"],
           kld_relative_stderr=stderr, rows=rows)
json.dump(doc, open(out, "w"), indent=1)
print(f"{'imatrix':9} {'own share':>9} {'unseen':>6} {'< 256':>5} {'fewest':>6}  mean KLD " + ", ".join(rows[0]["mean_kld"]))
for r in rows:
    print(f"{r['imatrix']:9} {r['own_share']:9.4f} {r['n_unseen']:6} {r['n_rare']:5} {r['min']:6.0f}  " + " ".join(f"{v:.6f}" for v in r["mean_kld"].values()))
PY
