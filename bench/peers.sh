#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/peers.sh [OUT.json] - compares speed with other engines on the same files: for each recipe, a 4-layer
# Qwen3.5-35B-A3B of random weights. Runs alternate between the engines; docs/results/peers.json gets the median ratio
# and its range. Measures prompts of 32, 128, 512 and 2048 tokens, and 64 generated tokens at depths 0, 4096 and 16384.
# Engines: llama-cpp-python from PyPI, built by pip on this machine; with IK=1 also ik-llama-cpp-python from PyPI
# (ik_llama.cpp, compiled for AVX2: rows repacked at load, flash attention, fused experts); with LLAMA_BENCH also that
# program (with the same settings where it has them).
#
# An interrupted run can be resumed: groups that are already in OUT are not measured again (with AGAIN=1, they are).
# With MINUTES, nothing is started after that time, and the exit status is 75 if something is left to do.
# Environment: RECIPES, LAYERS (4), SHAPE, THREADS (2), SETS (prompt:generated:depths:pairs ...), SYNTH_DIR (keeps the
# models and caches; default: a scratch folder), DROP=1 (removes each model once measured; caches stay), PEER_VENV
# (none: without llama-cpp-python), IK, IK_VENV, LLAMA_BENCH, RUN (a prefix for each measuring command, for example
# `chrt -f 10`), FLAGS (options of hone eval speed, for example `--isa avx2`), PREPARE=1 (only makes the models).
set -eu
HONE=${HONE:-build/hone}
out=${1:-docs/results/peers.json}
layers=${LAYERS:-4}
shape=${SHAPE:-Qwen3.5-35B-A3B}
until=0
[ -z "${MINUTES:-}" ] || until=$(($(date +%s) + 60 * MINUTES))
py=python3 alone=--no-peer
[ "${PEER_VENV:-}" = none ] || { py=$(sh bench/peer-venv.sh) || exit $?; alone=; }
ik=
[ -z "${IK:-}" ] || ik=$(sh bench/peer-venv.sh ik) || exit $?
dir=${SYNTH_DIR:-}
[ -n "$dir" ] || { dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; }
name=$(echo "$shape" | tr / -)
states="$dir/states-$name-$layers"
mkdir -p "$states"
for r in ${RECIPES:-Q2_K Q3_K_M Q4_K_M Q5_K_M Q6_K Q8_0 IQ2_XXS IQ2_XS IQ3_XXS IQ3_S IQ4_XS}; do
    f="$dir/$name-$layers-$r.gguf"
    run() {
        PYTHONPATH=bench PYTHONDONTWRITEBYTECODE=1 "$py" bench/peers.py "$HONE" "$out" --file "$r=$f" \
            --groups "${SETS:-32:0:0:3 128:0:0:3 512:64:0:3 2048:0:0:1 0:64:4096,16384:1}" --threads "${THREADS:-2}" --run="${RUN:-}" \
            --flags="${FLAGS:-}" --bench "${LLAMA_BENCH:-}" --ik "$ik" $alone --states "$states" --until "$until" ${AGAIN:+--again} \
            --model "$shape, $layers layers, random weights (hone synth)" "$@"
    }
    rc=0
    run --left || rc=$?
    [ $rc != 3 ] || continue
    [ $rc = 0 ] || exit $rc
    [ -e "$f" ] || "$HONE" synth --arch-from "$shape" --layers "$layers" --recipe "$r" -o "$f" -q > /dev/null
    [ -n "${PREPARE:-}" ] || run
    [ -n "${SYNTH_DIR:-}" ] && [ -z "${DROP:-}" ] || rm -f "$f"
done
