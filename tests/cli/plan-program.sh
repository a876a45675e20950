#!/bin/sh
# SPDX-License-Identifier: MIT
# hone plan --launches and hone doctor MODEL: bytes and FLOP of steps are compared with values derived from config.json,
# sums add up, and each block appears once. Also fusions on an emulated device, and the notes of both commands on types
# and operations without a fast kernel.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
field() { sed -n "s/.*\"$1\": \"*\([^\",]*\).*/\1/p" "$t/o" | head -1; }
# rows of a table: step, times, operations, bytes read, bytes written, mflop
rows() {
    tr -d '\n' < "$t/o" | sed "s/.*\"$1\": \[//; s/\].*//" | tr '}' '\n' |
        sed -n 's/.*"n_times": \([0-9]*\), *"step": "\([a-z_]*\)", *"n_operations": \([0-9]*\).*"read_bytes": \([0-9]*\), *"written_bytes": \([0-9]*\), *"mflop": \([0-9.e+-]*\).*/\2 \1 \3 \4 \5 \6/p'
}
row() { rows "$1" | grep -m1 "^$2 " || true; }
same() { [ "$2" = "$3" ] || say "$1 is '$2', expected '$3'"; }

run 0 convert tests/golden/models/qwen35moe -o "$t/m.gguf"
run 0 plan "$t/m.gguf" --launches --ctx 1000 --json
# attention: 1000 keys and values of 2 heads of 64 in f16; its register of queries 4 * 64, of new keys and values 2 * 64 each; two
# products with 256 values for each key
same attention "$(row program_one attn)" "attn 1 1 $((1000 * 512 + (256 + 128 + 128) * 4)) $((512 + 256 * 4)) $(awk 'BEGIN { printf "%.9g", 4 * 256 * 1000 / 1e6 }')"
# experts: a router of 6 x 128 in f32; 2 of 6 experts of three 64 x 128 in bf16; the first three layers and the last alike
moe=$((6 * 128 * 4 + 2 * 3 * 64 * 128 * 2 + 128 * 4))
same experts "$(row program_one moe)" "moe 1 1 $moe 512 $(awk 'BEGIN { printf "%.9g", (2 * 6 * 128 + 2 * 2 * 3 * 64 * 128) / 1e6 }')"
# the delta rule: matrices of 4 heads, 32 x 32, read and written; 7 operations on each number; 256 + 4 + 4 values come in, two vectors of 4
same "delta rule" "$(row program_one delta)" "delta 1 1 $((4 * 32 * 32 * 4 + (256 + 4 + 4) * 4 + 2 * 4 * 4)) $((4 * 32 * 32 * 4 + 128 * 4)) $(awk 'BEGIN { printf "%.9g", 7 * 4 * 32 * 32 / 1e6 }')"
same head "$(row program_one head)" "head 1 1 $((1024 * 128 * 2 + 128 * 4)) 4096 $(awk 'BEGIN { printf "%.9g", 2 * 1024 * 128 / 1e6 }')"
# many rows choose all experts; keys are read once for all of them
same "all experts" "$(row program_many moe | cut -d' ' -f4)" $((6 * 128 * 4 + 6 * 3 * 64 * 128 * 2 + 512 * 128 * 4))
same "keys of many" "$(row program_many attn | cut -d' ' -f4)" $((1000 * 512 + 512 * (256 + 128 + 128) * 4))
for c in one few many; do
    same "bytes read, $c" "$(rows program_$c | awk '{ n += $2 * $4 } END { print n }')" "$(field read_${c}_bytes)"
    same "steps, $c" "$(rows program_$c | awk '{ n += $2 } END { print n }')" "$(field n_steps_$c)"
    ops=$(rows program_$c | awk '{ n += $2 * $3 } END { print n }')
    same "operations, $c" "$ops" "${all:=$ops}"
done
run 0 plan "$t/m.gguf" --launches
awk 'length > 100' "$t/o" | grep . && say "lines of more than 100 columns"
run 2 plan "$t/m.gguf" --launches --act q9
run 2 plan "$t/m.gguf" --act f32
run 2 plan "$t/absent.gguf" --launches
run 2 doctor "$t/absent.gguf"
run 2 doctor "$t/m.gguf" --models

# bf16 has no packed rows and q8_0 has
run 0 doctor "$t/m.gguf" --isa avx2 --json
grep -q '"type": "BF16"' "$t/o" || say "doctor says nothing of bf16: $(cat "$t/o")"
run 0 quantize "$t/m.gguf" -o "$t/q.gguf" --type Q8_0
run 0 doctor "$t/q.gguf" --isa avx2 --json
grep -q '"step"' "$t/o" && say "doctor finds slow products in q8_0: $(cat "$t/o")"

[ -x "${HONE_EMU:-}" ] || exit $fail
HONE=$HONE_EMU
run 0 plan "$t/q.gguf" --launches --device cuda --json
same "a device's layers" "$(rows program_one | cut -d' ' -f1-3 | tr '\n' ';')" \
    "embed 1 1;rms 1 1;products 1 4;delta 1 3;products 1 1;add_rms 1 2;moe 1 5;gate_add_rms 1 3;products 2 4;delta 2 3;products 2 1;add_rms 2 2;moe 2 5;gate_add_rms 2 3;qkv 1 10;products 1 1;add_rms 1 2;moe 1 5;gate_add_rms 1 3;head 1 1;"
run 0 plan "$t/q.gguf" --launches --device cuda/0 --json
same "without fusions of few rows" "$(rows program_one | grep -c '^moe [0-9]* 5 ')" 0
run 0 doctor "$t/q.gguf" --device cuda --json
grep '"step"' "$t/o" && say "doctor on a device: $(cat "$t/o")"
run 0 plan "$t/m.gguf" --launches --device cuda --act f32 --json
same "f32, one row" "$(row program_one moe | cut -d' ' -f1-3)" "moe 1 1"
# a map: the first block's experts on the CPU, what they read and write is copied: 128 values each way
printf 'experts 0 cpu\n' > "$t/map"
run 0 plan "$t/q.gguf" --launches --device cuda --place "$t/map" --json
same "a placed block" "$(rows program_one | awk 'NR < 10 { print $1, $3 }' | tr '\n' ';')" "embed 1;rms 1;products 4;delta 3;products 1;add_rms 2;fetch 0;moe 1;send 0;"
same "copies" "$(row program_one fetch | cut -d' ' -f4,5) $(row program_few send | cut -d' ' -f4,5)" "512 512 2048 2048"
# many rows bring these experts: all 6 of a matrix, and its values once; parts of the node add up to the node where nothing is placed
bytes=$((6 * 64 * 128 * 34 / 32))
same "a placed block, many rows" "$(rows program_many | sed -n '/^choose/,/^contract/p' | awk '{ print $1, $3 }' | tr '\n' ';')" \
    "choose 0;bring 0;bring 0;expand 0;bring 0;contract 1;"
same "matrices brought" "$(rows program_many | grep '^bring' | cut -d' ' -f4,5 | sort -u)" "$bytes $bytes"
same "parts of the node" "$(rows program_many | grep -E '^(choose|expand|contract) ' | awk '{ r += $4; w += $5; f += $6 } END { printf "%d %d %.6g", r, w, f }')" \
    "$(row program_many moe | awk '{ printf "%d %d %.6g", $4, $5, $6 }')"
run 0 plan "$t/q.gguf" --launches --device cuda --place "$t/map" --stream-from 600 --json
same "passes that are too short" "$(rows program_many | grep -c '^bring' || true) $(row program_many fetch | cut -d' ' -f1)" "0 fetch"
run 0 doctor "$t/q.gguf" --device cuda --place "$t/map" --json
grep -q 'on the CPU' "$t/o" || say "doctor says nothing of the placed block"
# two devices: half of the blocks each, the residual moves once, 128 values; a map sends it to and fro
export CUDA_EMU_DEVICES=2048,1024
run 0 plan "$t/q.gguf" --launches --device cuda:0,1 --json
same "one move" "$(rows program_one | grep '^move' | cut -d' ' -f2,4,5)" "1 512 512"
same "devices of the steps" "$(tr -d '\n' < "$t/o" | sed 's/.*"program_one": \[//; s/\].*//' | tr '}' '\n' | sed -n 's/.*"device": "\([^"]*\)".*/\1/p' | sort -u | tr '\n' ' ')" "cuda:0 cuda:1 "
printf 'layers 0-3 cuda:0\nlayers 1 cuda:1\n' > "$t/map"
run 0 plan "$t/q.gguf" --launches --device cuda:0,1 --place "$t/map" --json
same "to and fro" "$(rows program_one | grep -c '^move')" 2
run 2 plan "$t/q.gguf" --launches --device cuda:0,0
run 4 plan "$t/q.gguf" --launches --device cuda:0,2
unset CUDA_EMU_DEVICES
printf 'layers 0 device\n' > "$t/map"
run 3 plan "$t/q.gguf" --launches --place "$t/map"
printf 'experts zero cpu\n' > "$t/map"
run 3 plan "$t/q.gguf" --launches --place "$t/map"
run 2 plan "$t/q.gguf" --launches --place "$t/no-map"
exit $fail
