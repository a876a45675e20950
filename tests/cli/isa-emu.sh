#!/bin/sh
# SPDX-License-Identifier: MIT
# --isa avxvnni and amx through the whole program, emulated ($HONE_ISA_EMU), with packed weights and prompts of 40
# tokens: the logits are identical to those of avx2 and avx512, since these two sets only add packed products.
set -eu
[ -x "${HONE_ISA_EMU:-}" ] || { echo "SKIP: no emulated instruction sets"; exit 77; }
"$HONE" doctor --isa avx2 > /dev/null 2>&1 || { echo "SKIP: the emulation is made of AVX2"; exit 77; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
tiny=tests/golden/tiny-qwen35moe
"$HONE" convert $tiny -o "$t/m.gguf" --type f32 -q > /dev/null
"$HONE" quantize "$t/m.gguf" -o "$t/q.gguf" --recipe Q4_K_M -q > /dev/null
head -c 600 $tiny/self_eval.txt > "$t/text"
logits() { # name of the instruction set
    "$HONE_ISA_EMU" eval kld "$t/q.gguf" "$t/text" --save-base "$t/$1" --ctx 40 --chunks 2 --isa "$1" --act q8 -q > /dev/null
}
for isa in avx2 avxvnni avx512 amx; do logits $isa; done
cmp "$t/avx2" "$t/avxvnni"
cmp "$t/avx512" "$t/amx"
