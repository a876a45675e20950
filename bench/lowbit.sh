#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/lowbit.sh [OUT.json] - compares recipes of IQ1 and IQ2 types on the bundled trained model with
# llama-cpp-python's own quantizer, given the same importance matrix: size and mean KLD. hone evaluates both files, with
# f32 activations. Needs ../shared/models/tiny-qwen35moe. Environment: WINDOWS of eval.txt (163: all), RECIPES, IMATRIX
# (default: made from calib.txt and calib_chat.txt). Takes minutes on 2 cores.
set -eu
HONE=${HONE:-build/hone}
src=../shared/models/tiny-qwen35moe
out=${1:-docs/results/lowbit.json}
recipes=${RECIPES:-"IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ2_M"} windows=${WINDOWS:-163}
[ -e $src/eval.txt ] || { echo "SKIP: $src is not here"; exit 77; }
py=$(sh bench/peer-venv.sh) || exit $?
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
"$HONE" convert $src -o "$t/base.gguf" --type f32 -q > /dev/null
if [ -n "${IMATRIX:-}" ]; then
    cp "$IMATRIX" "$t/imatrix.gguf"
else
    "$HONE" imatrix "$t/base.gguf" $src/calib.txt $src/calib_chat.txt -o "$t/imatrix.gguf" -q > /dev/null
fi
"$HONE" imatrix --merge "$t/imatrix.gguf" -o "$t/imatrix.dat" -q > /dev/null
list=$(echo $recipes | tr ' ' ,)
"$HONE" quantize "$t/base.gguf" -o "$t/ours--{}.gguf" --recipe "$list" --imatrix "$t/imatrix.gguf" -q > /dev/null
PYTHONPATH=bench PYTHONDONTWRITEBYTECODE=1 "$py" - "$t" $recipes <<'PY'
import sys
import peer
t, *recipes = sys.argv[1:]
for r in recipes:
    peer.quantize(f"{t}/base.gguf", f"{t}/theirs--{r}.gguf", r, 2, imatrix=f"{t}/imatrix.dat")
PY
set --
for r in $recipes; do set -- "$@" "$t/ours--$r.gguf" "$t/theirs--$r.gguf"; done
"$HONE" eval kld "$@" $src/eval.txt --base "$t/base.gguf" --chunks "$windows" -q --json > "$t/kld.json"
python3 - "$t" "$out" "$windows" <<'PY'
import json, os, sys
t, out, windows = sys.argv[1:]
rows = {}
for c in json.load(open(t + "/kld.json"))["candidates"]:
    who, recipe = os.path.basename(c["model"]).split("--")
    recipe = recipe[:-5]
    r = rows.setdefault(recipe, dict(recipe=recipe))
    r.update({f"{who}_size_bytes": os.path.getsize(f"{t}/{who}--{recipe}.gguf"), f"{who}_mean_kld": c["mean_kld"],
              f"{who}_mean_kld_stderr": c["mean_kld_stderr"], f"{who}_kld_p999": c["kld_p999"]})
for r in rows.values():
    r["ratio"] = r["ours_mean_kld"] / r["theirs_mean_kld"]
json.dump(dict(command=f"WINDOWS={windows} RECIPES=\"{' '.join(rows)}\" bench/lowbit.sh", windows=int(windows), quants=list(rows.values())), open(out, "w"), indent=1)
print(f"{'recipe':8} {'bytes':>9} {'theirs':>9} {'mean KLD':>9} {'theirs':>9} ratio")
for r in rows.values():
    print(f"{r['recipe']:8} {r['ours_size_bytes']:9} {r['theirs_size_bytes']:9} {r['ours_mean_kld']:9.5f} {r['theirs_mean_kld']:9.5f} {r['ratio']:.3f}")
PY
