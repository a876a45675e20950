#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/search.sh [OUT.json] - measures the weighted error of the quantizer's searches, per type, on synthetic rows and,
# if ../shared is present, on the trained tiny model with its importance matrix. Prints a table and writes
# docs/results/search.json. Takes minutes on one core. BUILD is the build folder.
set -eu
BUILD=${BUILD:-build}
HONE=${HONE:-$BUILD/hone}
src=../shared/models/tiny-qwen35moe
out=${1:-docs/results/search.json}
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
lib=$(ls -t "$BUILD"/obj-*/all.a | head -1)
libs=$(pkg-config --libs zlib libxxhash libpcre2-8 libutf8proc yaml-0.1)
# shellcheck disable=SC2086
${CC:-cc} -std=c11 -D_GNU_SOURCE -I. -O2 -ffp-contract=off -o "$t/search" bench/search.c "$lib" $libs -lm -lpthread
set --
if [ -e $src/calib.txt ]; then
    "$HONE" convert $src -o "$t/base.gguf" --type f32 -q > /dev/null
    "$HONE" imatrix "$t/base.gguf" $src/calib.txt $src/calib_chat.txt -o "$t/imatrix.gguf" -q > /dev/null
    set -- "$t/base.gguf" "$t/imatrix.gguf"
fi
"$t/search" "$@" > "$t/rows.json"
python3 - "$t/rows.json" "$out" <<'PY'
import json, sys
rows = json.load(open(sys.argv[1]))
note = ("error = sum w (x - x^)^2 with w = importance of the column; ratio to the conventional search of this program (quantize/enc, "
        "written from the field's description); worse_blocks: under the search's own weights; us_per_256: conventional, fast, best, "
        "one thread, the fastest row on a machine that was shared while measuring")
json.dump(dict(command="bench/search.sh", note=note, rows=rows), open(sys.argv[2], "w"), indent=1)
print(f"{'type':8} {'rows':11} {'conv rmse':>9} {'fast':>6} {'best':>6} {'target':>6} {'worse':>9}  us conv, fast, best")
for r in rows:
    target = f"{r['target']:6.2f}" if r["target"] else "     -"
    print(f"{r['type']:8} {r['source']:11} {r['conventional_relative_rmse']:9.5f} {r['fast_mse_ratio']:6.3f} {r['best_mse_ratio']:6.3f} {target} "
          f"{r['worse_blocks_fast']:4} {r['worse_blocks_best']:4}  {r['us_per_256']}")
PY
