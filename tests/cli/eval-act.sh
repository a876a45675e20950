#!/bin/sh
# SPDX-License-Identifier: MIT
# Packed weights with 8-bit activations (--act q8) against f32 activations of the scalar reference: mean divergence below 1e-3
# for every family of formats (the base file holds 16-bit logits: 1e-5), and the same numbers for any thread count.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
tiny=tests/golden/tiny-qwen35moe
"$HONE" convert $tiny -o "$t/f32.gguf" --type f32 -q > /dev/null
head -c 12000 $tiny/self_eval.txt > "$t/text"
# a sanitizer makes everything slow, and looks for other things
if grep -q __asan_init "$HONE"; then TYPES=${TYPES:-Q4_K_M}; fi
num() { sed -n "s/^ *\"$2\": \([-0-9.e+]*\),*$/\1/p" "$1" | head -1; }
kld() { "$HONE" eval kld "$t/q.gguf" --base-file "$t/base" "$@" --json > "$t/kld"; num "$t/kld" mean_kld; }
for type in ${TYPES:-Q4_K_M Q8_0 IQ4_XS Q3_K_M}; do
    "$HONE" quantize "$t/f32.gguf" -o "$t/q.gguf" -f --recipe "$type" -q > /dev/null
    "$HONE" eval kld "$t/q.gguf" "$t/text" --save-base "$t/base" -f --ctx 128 --chunks 2 --isa ref -q > /dev/null
    f32=$(kld --act f32)
    q8=$(kld --act q8)
    awk "BEGIN { exit !($f32 < 1e-5 && $q8 > $f32 && $q8 < 1e-3) }" || { echo "$type: divergence f32 $f32, q8 $q8"; exit 1; }
    [ "$(kld --act q8 -j 1)" = "$q8" ] && [ "$(kld --act q8 -j 3)" = "$q8" ] || { echo "$type: threads change the result"; exit 1; }
    echo "$type: divergence of 8-bit activations $q8"
done
