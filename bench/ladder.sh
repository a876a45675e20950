#!/bin/sh
# bench/ladder.sh [OUT.json] - runs plain `hone make` on the trained tiny model. Records for each size class the bytes
# and mean KLD, those of the independent engine's file of the same name (peer-baseline.json) and their ratio, and for
# the run its time, processor time and forecast. Runs twice: with the model's texts and all windows of eval.txt, and
# with only the folder. With HAND=hone-binary, also makes the mixes step by step with that program (imatrix --gram,
# sensitivity --probe, quantize --budget --gram --search best) at the presets' sizes. With PICTURES=1, also runs the job
# `pictures`, whose numbers README.md shows (40 minutes more); otherwise that of the last run is kept. Needs
# ../shared/models/tiny-qwen35moe. Writes docs/results/ladder.json. Takes about 15 minutes on 2 cores.
set -eu
HONE=${HONE:-build/hone}
src=${SRC:-../shared/models/tiny-qwen35moe}
out=${1:-docs/results/ladder.json}
[ -e "$src/eval.txt" ] || { echo "SKIP: $src is not here"; exit 77; }
t=${KEEP:-$(mktemp -d)}
[ -n "${KEEP:-}" ] || trap 'rm -rf "$t"' EXIT
# timed NAME COMMAND...: writes the program's stderr and the times to NAME.err
timed() { n=$1; shift; (time -p "$@") > "$t/$n.out" 2> "$t/$n.err"; }
texts="--calib $src/calib.txt --calib $src/calib_chat.txt --probe $src/probe.txt --eval $src/eval.txt --chunks 0"
# shellcheck disable=SC2086
"$HONE" make "$src" -o "$t/texts" $texts --dry-run --json > "$t/texts.dry"
# shellcheck disable=SC2086
timed texts "$HONE" make "$src" -o "$t/texts" $texts
"$HONE" make "$src" -o "$t/alone" --dry-run --json > "$t/alone.dry"
timed alone "$HONE" make "$src" -o "$t/alone"
"$HONE" make "$src" -o "$t/alone.plain" --plain > "$t/plain.out" 2> "$t/plain.err"
if [ -n "${PICTURES:-}" ]; then
    set -- --time 0 --name "Tiny Qwen3.5 MoE" --license mit
    # shellcheck disable=SC2086
    "$HONE" make "$src" -o "$t/pictures" $texts "$@" --dry-run --json > "$t/pictures.dry"
    # shellcheck disable=SC2086
    timed pictures "$HONE" make "$src" -o "$t/pictures" $texts "$@"
fi
if [ -n "${HAND:-}" ]; then
    mkdir -p "$t/hand"
    "$HAND" convert "$src" -o "$t/hand/base.gguf" -q > /dev/null
    "$HAND" imatrix "$t/hand/base.gguf" "$src/calib.txt" "$src/calib_chat.txt" -o "$t/hand/im.gguf" --gram "$t/hand/gram.gguf" -q > /dev/null
    "$HAND" quantize "$t/hand/base.gguf" --imatrix "$t/hand/im.gguf" -o "$t/hand/{}.gguf" --recipe Q8_0,Q6_K,Q5_K_M,Q4_K_M,IQ4_XS,Q3_K_M,IQ3_S,Q2_K -q > /dev/null
    "$HAND" sensitivity "$t/hand/base.gguf" --imatrix "$t/hand/im.gguf" --probe "$src/probe.txt" -o "$t/hand/s.json" -q > /dev/null
    set --
    for n in Q8_0 Q6_K Q5_K_M Q4_K_M IQ4_XS Q3_K_M IQ3_S Q2_K; do set -- "$@" --budget "$(wc -c < "$t/hand/$n.gguf")"; done
    "$HAND" quantize "$t/hand/base.gguf" --imatrix "$t/hand/im.gguf" -o "$t/hand/{}.mix.gguf" --sensitivity "$t/hand/s.json" "$@" --gram "$t/hand/gram.gguf" --search best -q --json > "$t/hand.mixes"
    "$HAND" eval kld "$t/hand"/*.mix.gguf "$src/eval.txt" --base "$t/hand/base.gguf" -q --json > "$t/hand.kld"
fi
python3 bench/ladder.py "$t" "$src/peer-baseline.json" "$out"
