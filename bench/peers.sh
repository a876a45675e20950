#!/bin/sh
# SPDX-License-Identifier: MIT
# Speed beside another engine (llama-cpp-python from PyPI, built by pip where it runs) on the same files: an 8-layer
# Qwen3.5-35B-A3B of random weights per recipe, alternating runs, the median ratio and its range -> docs/results/cpu-speed.json.
# bench/peers.sh [OUT.json]. Environment: RECIPES, LAYERS (8), SHAPE, PAIRS (5), THREADS (2), SETS ("512:128:0,4096 2048:0:0":
# prompt, generated tokens, depths), SYNTH_DIR (keeps the models; default: a scratch folder), PEER_VENV, RUN (a command that each
# measurement runs under, say `chrt -f 10`), FLAGS (of hone eval speed). What is not asked for stays in OUT.
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
    PYTHONPATH=bench PYTHONDONTWRITEBYTECODE=1 "$py" bench/peers.py "$HONE" "$out" --file "$r=$f" --pairs "${PAIRS:-5}" \
        --groups "${SETS:-512:128:0,4096 2048:0:0}" --threads "${THREADS:-2}" --run="${RUN:-}" --flags="${FLAGS:-}" \
        --model "$shape, $layers layers, random weights (hone synth)"
    [ -n "${SYNTH_DIR:-}" ] || rm -f "$f"
done
