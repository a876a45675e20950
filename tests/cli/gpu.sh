#!/bin/sh
# A build without CUDA logs once, when it first runs a model, that the machine has a GPU. It does not log this without a
# GPU, with --device cpu, or in commands that run no model. A build with CUDA ($HONE_EMU) uses the GPU by default and
# logs that in one line.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
mkdir -p "$t/card/proc/driver/nvidia" "$t/none"
echo "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54" > "$t/card/proc/driver/nvidia/version"
run 0 convert tests/golden/models/qwen3 -o "$t/m.gguf" -q
run 0 quantize "$t/m.gguf" -o "$t/q.gguf" --recipe Q8_0 -q
head -c 2500 tests/golden/tiny-qwen35moe/self_eval.txt > "$t/text"
notes() { # expected number of lines about a card, command
    n=$1
    shift
    "$HONE" "$@" > "$t/o" 2> "$t/e" < /dev/null || say "hone $*: exit $?: $(cat "$t/e")"
    [ "$(grep -c 'found an NVIDIA GPU' "$t/e")" = "$n" ] || say "hone $*: not $n notes: $(cat "$t/e")"
}
if "$HONE" doctor --json 2> /dev/null | grep -q '"cuda": "not built'; then
    export HONE_ROOT="$t/card"
    notes 1 run "$t/q.gguf" -p "The value" -n 1
    grep -q "make HAVE_CUDA=1" "$t/e" || say "no way to build: $(cat "$t/e")"
    notes 1 run "$t/q.gguf" -p "The value" -n 1 --device auto
    notes 1 eval ppl "$t/q.gguf" "$t/text" --ctx 64 --chunks 1
    notes 1 eval kld --base "$t/m.gguf" "$t/q.gguf" "$t/text" --ctx 64 --chunks 1
    notes 1 imatrix "$t/m.gguf" "$t/text" -o "$t/i.gguf" --ctx 64 --chunks 1
    notes 0 run "$t/q.gguf" -p "The value" -n 1 --device cpu
    notes 0 run "$t/q.gguf" -p "The value" -n 1 -q
    notes 0 inspect "$t/q.gguf"
    notes 0 convert tests/golden/models/qwen3 -o "$t/again.gguf"
    "$HONE" doctor > "$t/o" 2>&1
    grep -q "there is an NVIDIA GPU" "$t/o" || say "doctor does not see the card: $(cat "$t/o")"
    HONE_ROOT="$t/none" notes 0 run "$t/q.gguf" -p "The value" -n 1
    HONE_ROOT="$t/none" notes 0 run "$t/q.gguf" -p "The value" -n 1 --device auto
    unset HONE_ROOT
fi

# ---- a build with CUDA ----
if [ -x "${HONE_EMU:-}" ] && ! grep -q __asan_init "$HONE_EMU"; then
    HONE=$HONE_EMU
    line="computing on cuda:0"
    run 0 run "$t/q.gguf" -p "The value" -n 2 --temp 0
    [ "$(grep -c "$line" "$t/e")" = 1 ] || say "no line on the card: $(cat "$t/e")"
    run 0 eval speed "$t/q.gguf" --pp 2 --tg 1 --reps 1 --json
    grep -q '"device": "cuda"' "$t/o" || say "the speed is not the card's: $(cat "$t/o")"
    run 0 run "$t/q.gguf" -p "The value" -n 2 --temp 0 --device cpu
    if grep -q "computing on" "$t/e"; then say "the CPU was asked for: $(cat "$t/e")"; fi
    run 0 inspect "$t/q.gguf"
    if grep -q "computing on" "$t/e"; then say "inspect computes: $(cat "$t/e")"; fi
    # files are byte-identical to the CPU's where that is promised: conversion and quantization
    run 0 quantize "$t/m.gguf" -o "$t/card.gguf" --recipe Q4_0 -q
    run 0 quantize "$t/m.gguf" -o "$t/cpu.gguf" --recipe Q4_0 -q --device cpu
    cmp "$t/card.gguf" "$t/cpu.gguf" || say "quantization depends on the device"
    # no device, or none that can be used: the CPU, with a warning only in the second case
    CUDA_EMU_DRIVER=0 "$HONE" run "$t/q.gguf" -p "The value" -n 1 > "$t/o" 2> "$t/e"
    if grep -q "computing on" "$t/e"; then say "there is no device: $(cat "$t/e")"; fi
    CUDA_EMU_DRIVER=12080 "$HONE" run "$t/q.gguf" -p "The value" -n 1 > "$t/o" 2> "$t/e"
    grep -q "computing on the CPU: the NVIDIA driver" "$t/e" || say "an old driver: $(cat "$t/e")"
fi
exit $fail
