#!/bin/sh
# SPDX-License-Identifier: MIT
# Weights of low-bit training keep every bit: hone quantize stores them in the type that holds them exactly, unless the chosen type is smaller.
# The file is made by tests/oracle/make_exact.py, which names the types; with a second argument it checks the result with the gguf package.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
fail() { echo "FAIL: $*"; [ ! -s "$t/err" ] || tail -n 3 "$t/err"; exit 1; }
types() { # "name type" of each tensor
    "$HONE" inspect "$1" --tensors --keys none | awk '/^blk/ { print $1, $2 }'
}
exact() { # of one type, to $n: the number of tensors, and their errors are 0
    n=$(types "$t/$1.gguf" | grep -c "$2\$" || true)
}
src=tests/golden/exact/lowbit.gguf
"$HONE" quantize $src -o "$t/q6.gguf" --recipe Q6_K --json > "$t/out" 2> "$t/err" || fail "Q6_K"
for l in '1 tensor is exact in Q4_0' '2 tensors are equal to the source in Q4_0 after rounding to BF16' \
    '1 tensor is equal to the source in Q4_0 after rounding to F16' '1 tensor is exact in MXFP4'; do
    grep -q "$l" "$t/err" || fail "Q6_K: not said: $l"
done
grep -q 'in Q8_0' "$t/err" && fail "Q6_K: Q8_0 is larger than asked for"
exact q6 Q4_0; [ "$n" = 4 ] || fail "Q6_K: $n of Q4_0"
exact q6 MXFP4; [ "$n" = 1 ] || fail "Q6_K: $n of MXFP4"
exact q6 Q6_K; [ "$n" = 6 ] || fail "Q6_K: $n of Q6_K"
"$HONE" quantize $src -o "$t/q8.gguf" --recipe Q8_0 > "$t/out" 2> "$t/err" || fail "Q8_0"
grep -q '1 tensor is exact in Q8_0' "$t/err" || fail "Q8_0: not said"
grep -q '1 tensor in Q4_0, 1 in Q8_0, 1 in MXFP4, 2 in Q4_0 after rounding to BF16, 1 in Q8_0 after rounding to BF16' "$t/out" || fail "Q8_0: not reported"
# decoded weights differ from the source by its own rounding at most: half a step of bf16 (2^-9) or f16 (2^-12) of their size, of f32 not at all
"$HONE" diff $src "$t/q8.gguf" --tensors --error > "$t/diff" 2> "$t/err" || [ $? = 1 ] || fail "diff"
awk '/^blk.0/ { n++; most = $3 == "F32" || $4 == "MXFP4" ? 0 : $3 == "F16" ? 2 ^ -12 : 2 ^ -9; if ($NF > most) bad = 1 } END { exit n != 7 || bad }' "$t/diff" ||
    fail "weights changed: $(grep blk.0 "$t/diff")"
"$HONE" quantize $src -o "$t/q3.gguf" --recipe Q3_K_S > "$t/out" 2> "$t/err" || fail "Q3_K_S"
grep -q 'exact in\|equal to' "$t/err" && fail "Q3_K_S: smaller types than the exact ones were asked for"
"$HONE" quantize $src -o "$t/conv.gguf" --recipe Q8_0 --search conventional > "$t/out" 2> "$t/err" || fail "conventional"
grep -q 'exact in\|equal to' "$t/err" && fail "conventional: other types than llama.cpp's"
"$HONE" quantize $src -o "$t/own.gguf" --recipe Q8_0 --tensor attn_q=q5_k > "$t/out" 2> "$t/err" || fail "--tensor"
[ "$(types "$t/own.gguf" | grep -c 'attn_q.weight.*Q5_K')" = 2 ] || fail "--tensor does not win"
# mixes: the exact types cost no divergence, so they are taken if there is room for them; gate and up have the same type
"$HONE" quantize $src -o "$t/mix.gguf" --budget 40K --json > "$t/out" 2> "$t/err" || fail "--budget"
words='1 tensor in Q4_0, 2 in Q8_0, 2 in Q4_0 after rounding to BF16, 1 in Q8_0 after rounding to BF16, 1 in Q4_0 after rounding to F16'
grep -q "\"exact\": \"$words\"" "$t/out" || fail "--budget: $(grep exact "$t/out")"
"$HONE" replay "$t/q6.gguf" --source $src > "$t/out" 2> "$t/err" || fail "replay"
"$HONE" quantize $src -o "$t/one.gguf" --recipe Q6_K --threads 1 -q > /dev/null || fail "one thread"
cmp "$t/q6.gguf" "$t/one.gguf" || fail "other bytes with one thread"
echo "low-bit weights are stored without loss"
