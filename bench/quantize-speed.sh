#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/quantize-speed.sh [OUT.json] - compares the speed of hone quantize with that of another engine's quantizer
# (llama-cpp-python from PyPI). Both quantize the same BF16 file of random weights (one full-width layer of
# Qwen3-30B-A3B with embeddings, 2.3 GiB) with the same recipe and without importance, in alternation. Writes
# docs/results/quantize-speed.json. Environment: RECIPES, PAIRS (3), THREADS (2), SEARCH ("fast best"), SHAPE and LAYERS
# of hone synth, DIR (scratch folder: needs 6 GiB, best in memory), PEER_VENV, RUN (a prefix for each run).
# bench/quantize-speed.sh feedback [OUT.json] - measures the processor time of error feedback per weight, by type and
# search, on one thread, and writes docs/results/feedback-speed.json. Environment: BEFORE (the program of
# bench/feedback.c from an earlier build, run in alternation with the current one), COLUMNS ("2048 896"), ROWS (64),
# TYPES (all), NOTE (what else ran, and what BEFORE is: "on a quiet machine; before: 3be73005 of 2026-11-28").
set -eu
if [ "${1-}" = feedback ]; then
    exec python3 bench/feedback_speed.py "${2:-docs/results/feedback-speed.json}" "$(make -s bench-feedback)" \
        --before "${BEFORE-}" --columns ${COLUMNS:-2048 896} --rows "${ROWS:-64}" --note "${NOTE-}" --types ${TYPES-}
fi
HONE=${HONE:-build/hone}
out=${1:-docs/results/quantize-speed.json}
py=$(sh bench/peer-venv.sh) || exit $?
t=$(mktemp -d ${DIR:+-p "$DIR"})
trap 'rm -rf "$t"' EXIT
"$HONE" synth --arch-from "${SHAPE:-Qwen3-30B-A3B}" --layers "${LAYERS:-1}" --recipe BF16 -o "$t/in.gguf" -q > /dev/null
PYTHONPATH=bench PYTHONDONTWRITEBYTECODE=1 "$py" bench/quantize-speed.py "$HONE" "$t" "$out" \
    --recipes ${RECIPES:-Q8_0 Q6_K Q5_K_M Q4_K_M Q3_K_M IQ4_XS IQ4_NL Q2_K} --pairs "${PAIRS:-3}" --threads "${THREADS:-2}" \
    --search ${SEARCH:-fast best} --run="${RUN:-}"
