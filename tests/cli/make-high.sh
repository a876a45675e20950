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
left=$(ls "$t/out.work" | grep -E '^(mix|plain|feedback|block)-.*gguf$' || true)
[ -z "$left" ] || fail "candidates are left: $left"
if grep -q '"made": "mix"' "$t/out/results.json"; then
    grep -q hone.mix.budget_bytes "$t"/out/*Q2_K.gguf || fail "the mix does not say why it has its types"
fi
job
grep -q 'block by block' "$t/job.err" && fail "the second job encoded again"
grep -q 'left_out": \[\]' "$t/out/results.json" || fail "left out: $(grep -A3 left_out "$t/out/results.json")"
# files of --budget are made in one pass only
effort=high
dry() {
    "$HONE" make "$@" -o "$t/dry" --effort $effort --time 0 --dry-run --json --calib "$t/calib.txt" --probe "$t/probe.txt" --eval "$t/eval.txt" > "$t/dry.json" 2> "$t/dry.err" ||
        fail "$* --dry-run: $(cat "$t/dry.err")"
}
dry tests/golden/models/qwen3 --recipe Q2_K --budget 400K
grep -q '"makes": "everything: .*block by block' "$t/dry.json" || fail "no class is made block by block: $(grep makes "$t/dry.json")"
number() { sed -n "s/^ *\"$1\": \([0-9]*\),*$/\1/p" "$t/dry.json"; }
work=$(number work_bytes) buffers=$(number buffer_bytes)
effort=normal
dry tests/golden/models/qwen3 --recipe Q2_K --budget 400K
effort=high
[ "$work" -gt "$(number work_bytes)" ] && [ "$buffers" -gt "$(number buffer_bytes)" ] || fail "block by block takes no more disk or memory: $work, $buffers"
dry tests/golden/models/qwen3 --recipe Q4_0 --budget 400K
grep -q 'block by block' "$t/dry.json" && fail "--budget is said to be made block by block"
# nor are blocks that read more than the output of the block before them
if [ -x "${HONE_MICRO:-}" ]; then
    dry "$("$HONE_MICRO" tests/golden/archs/gemma3n)" --recipe Q2_K
    grep -q 'making files block by block: a block of this architecture' "$t/dry.json" && ! grep -q '"makes".*block by block' "$t/dry.json" ||
        fail "blocks of gemma3n: $(cat "$t/dry.json")"
fi
exit 0
