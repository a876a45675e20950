#!/bin/sh
# SPDX-License-Identifier: MIT
# Speed beside another engine (llama-cpp-python from PyPI, built by pip where it runs) on the same files: an 8-layer
# Qwen3.5-35B-A3B of random weights per recipe, alternating runs, the median ratio and its range -> docs/results/cpu-speed.json.
# bench/peers.sh [OUT.json]. Environment: RECIPES, LAYERS (8), PAIRS (5), THREADS (2), TESTS ("pp512@0 pp2048@0 tg128@0
# tg128@4096"), SHAPE, SYNTH_DIR (where the models are kept between runs; default: a scratch folder), PEER_VENV,
# RUN (a command put before each measurement, say `taskset`), FLAGS (of hone eval speed). Results of recipes and tests not asked
# for stay in OUT.
set -eu
HONE=${HONE:-build/hone}
out=${1:-docs/results/cpu-speed.json}
layers=${LAYERS:-8}
shape=${SHAPE:-Qwen3.5-35B-A3B}
py=$(sh bench/peer-venv.sh) || exit $?
dir=${SYNTH_DIR:-}
[ -n "$dir" ] || { dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; }
for r in ${RECIPES:-Q3_K_M Q4_K_M IQ4_XS Q6_K Q8_0}; do
    f="$dir/$shape-$layers-$r.gguf"
    [ -e "$f" ] || "$HONE" synth --arch-from "$shape" --layers "$layers" --recipe "$r" -o "$f" -q > /dev/null
    PYTHONPATH=bench PYTHONDONTWRITEBYTECODE=1 ${RUN:-} "$py" bench/peers.py "$HONE" "$out" --files "$r=$f" \
        --tests ${TESTS:-pp512@0 pp2048@0 tg128@0 tg128@4096} --pairs "${PAIRS:-5}" --threads "${THREADS:-2}" \
        --note "$shape, $layers layers, hone synth" --flags=${FLAGS:-}
    [ -n "${SYNTH_DIR:-}" ] || rm -f "$f"
done
