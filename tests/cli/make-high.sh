#!/bin/sh
# SPDX-License-Identifier: MIT
# hone make --effort high: a class below four bits per weight is made again block by block, and its codes, scales and norms
# follow gradients; the job's records keep that from being repeated.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
fail() { echo "FAIL: $*"; exit 1; }
texts=tests/golden/tiny-qwen35moe
head -c 6000 $texts/self_calib.txt > "$t/calib.txt"
tail -c 1200 $texts/self_calib.txt > "$t/probe.txt"
head -c 8000 $texts/self_eval.txt > "$t/eval.txt"
job() {
    "$HONE" make tests/golden/models/qwen3 -o "$t/out" --effort high --time 0 --recipe Q2_K --calib "$t/calib.txt" --probe "$t/probe.txt" \
        --eval "$t/eval.txt" --chunks 4 --ctx 128 --calib-ctx 64 --calib-chunks 16 --pp 8 --tg 2 --reps 1 --tools none --search fast \
        > "$t/job.out" 2> "$t/job.err" || fail "make: $(cat "$t/job.err")"
}
job
grep -q 'encoding Q2_K block by block' "$t/job.err" || fail "no file was made block by block"
grep -q 'learned scales and norms' "$t/job.err" || fail "scales and norms were not learned"
"$HONE" verify "$t"/out/*Q2_K.gguf > /dev/null || fail "verify"
job
grep -q 'block by block' "$t/job.err" && fail "the second job encoded again"
exit 0
