#!/bin/sh
# SPDX-License-Identifier: MIT
# Packed weights with 8-bit activations (--act q8): mean divergence from f32 activations below 1e-3 for every family of formats,
# and the same numbers for any thread count; f32 activations agree with the scalar reference to 1e-5 (a base file holds
# 16-bit logits). Uses 1016 tokens, since with few of them one token that switches experts would determine the mean.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
tiny=tests/golden/tiny-qwen35moe
"$HONE" convert $tiny -o "$t/f32.gguf" --type f32 -q > /dev/null
text=calib/text/eval.txt
# a sanitizer is slow and looks for different errors
if grep -q __asan_init "$HONE"; then TYPES=${TYPES:-Q4_K_M}; fi
num() { sed -n "s/^ *\"$2\": \([-0-9.e+]*\),*$/\1/p" "$1" | head -1; }
base() { "$HONE" eval kld "$t/q.gguf" $text --save-base "$t/base" -f "$@" -q > /dev/null; }
kld() { "$HONE" eval kld "$t/q.gguf" --base-file "$t/base" "$@" --json > "$t/kld"; num "$t/kld" mean_kld; }
for type in ${TYPES:-Q4_K_M Q8_0 IQ4_XS Q3_K_M}; do
    "$HONE" quantize "$t/f32.gguf" -o "$t/q.gguf" -f --recipe "$type" -q > /dev/null
    base --isa ref --ctx 128 --chunks 1
    f32=$(kld --act f32)
    base --act f32 --ctx 256 --chunks 8
    q8=$(kld --act q8)
    awk "BEGIN { exit !($f32 < 1e-5 && $q8 > 1e-5 && $q8 < 1e-3) }" || { echo "$type: divergence f32 $f32, q8 $q8"; exit 1; }
    [ "$(kld --act q8 -j 1)" = "$q8" ] && [ "$(kld --act q8 -j 3)" = "$q8" ] || { echo "$type: threads change the result"; exit 1; }
    echo "$type: divergence of 8-bit activations $q8"
done
