#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/ranks.sh - hone under mpirun: one, two and three ranks write the same bytes. Covers quantize with and without
# error feedback, also several recipes at once; imatrix; sensitivity, from the start and resumed; eval ppl and kld,
# whose numbers equal those of one process. A NaN on any rank, or a killed rank, ends the job without an output;
# commands that cannot be distributed are refused. HONE is a build with MPI=1 (make check-mpi).
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
src=tests/golden/tiny-qwen35moe
fail() { echo "FAIL: $*"; exit 1; }
ranks() { # n, arguments...
    n=$1
    shift
    mpirun --allow-run-as-root --oversubscribe --bind-to none --mca btl self,vader,tcp -n "$n" "$HONE" "$@" --threads 1
}
"$HONE" convert $src -o "$t/in.gguf" --type bf16 -q > /dev/null
"$HONE" imatrix "$t/in.gguf" $src/self_calib.txt --chunks 2 -o "$t/im.gguf" --gram "$t/gram.gguf" -q > /dev/null
"$HONE" quantize "$t/in.gguf" -o "$t/one.gguf" --recipe Q4_K_M --imatrix "$t/im.gguf" -q > /dev/null
for n in 1 2 3; do
    ranks $n quantize "$t/in.gguf" -o "$t/n$n.gguf" --recipe Q4_K_M --imatrix "$t/im.gguf" -q > "$t/out" || fail "$n ranks"
    cmp "$t/one.gguf" "$t/n$n.gguf" || fail "$n ranks write other bytes"
    [ "$(grep -c file "$t/out")" -le 2 ] || fail "every rank speaks: $(cat "$t/out")"
done
"$HONE" quantize "$t/in.gguf" -o "$t/one-fb.gguf" --recipe IQ4_XS --imatrix "$t/im.gguf" --gram "$t/gram.gguf" -q > /dev/null
ranks 2 quantize "$t/in.gguf" -o "$t/fb.gguf" --recipe IQ4_XS --imatrix "$t/im.gguf" --gram "$t/gram.gguf" -q > /dev/null || fail "error feedback"
cmp "$t/one-fb.gguf" "$t/fb.gguf" || fail "error feedback: other bytes"
ranks 2 quantize "$t/in.gguf" -o "$t/many-{}.gguf" --recipe Q4_K_M,Q8_0 --imatrix "$t/im.gguf" -q > /dev/null || fail "two recipes"
cmp "$t/one.gguf" "$t/many-Q4_K_M.gguf" || fail "two recipes: other bytes"

# chunks and windows: five, so that no number of ranks divides them
imatrix="imatrix $t/in.gguf $src/self_calib.txt --ctx 128 --chunks 5 -q"
ppl="eval ppl $t/one.gguf $src/self_eval.txt --ctx 128 --chunks 5 --json -q"
kld="eval kld $t/one.gguf $t/many-Q8_0.gguf $src/self_eval.txt --base $t/in.gguf --ctx 128 --chunks 5 --by-depth --worst 3 --json -q"
numbers() { grep -vE "tok_per_s|command_line|\"threads\""; }
"$HONE" $imatrix -o "$t/im-one.gguf" > /dev/null
"$HONE" $ppl | numbers > "$t/ppl"
"$HONE" $kld | numbers > "$t/kld"
for n in 2 3; do
    ranks $n $imatrix -o "$t/im-$n.gguf" > /dev/null || fail "imatrix, $n ranks"
    cmp "$t/im-one.gguf" "$t/im-$n.gguf" || fail "imatrix: $n ranks write other bytes"
    ranks $n $ppl | numbers > "$t/out" && cmp "$t/ppl" "$t/out" || fail "eval ppl: $n ranks say something else"
    ranks $n $kld | numbers > "$t/out" && cmp "$t/kld" "$t/out" || fail "eval kld: $n ranks say something else"
done

# errors, probes and steps around a mix; the second run has half of the probes, which one process made
sens="sensitivity $t/in.gguf --imatrix $t/im.gguf --probe $src/self_eval.txt --ctx 64 --chunks 2 --measure all -q"
"$HONE" $sens --types 1 -o "$t/s-half.json" > /dev/null
cp "$t/s-half.json" "$t/s-one.json"
"$HONE" $sens --types 2 --budget 9M -o "$t/s-one.json" > /dev/null
[ "$(grep -c '"from"' "$t/s-one.json")" -gt 0 ] || fail "sensitivity: no steps"
for n in 2 3; do
    ranks $n $sens --types 2 --budget 9M -o "$t/s-$n.json" > /dev/null || fail "sensitivity, $n ranks"
    cmp "$t/s-one.json" "$t/s-$n.json" || fail "sensitivity: $n ranks write other bytes"
done
ranks 2 $sens --types 2 --budget 9M -o "$t/s-half.json" > /dev/null || fail "sensitivity that goes on"
cmp "$t/s-one.json" "$t/s-half.json" || fail "sensitivity: going on writes other bytes"
joint=$(echo "$sens" | sed 's/--measure all//')
"$HONE" $joint -o "$t/j-one.json" > /dev/null
ranks 2 $joint -o "$t/j-2.json" > /dev/null || fail "joint probes"
cmp "$t/j-one.json" "$t/j-2.json" || fail "joint probes: 2 ranks write other bytes"

# a NaN in a matrix: the rank that meets it reports it, and no rank leaves a file
cp "$t/in.gguf" "$t/nan.gguf"
printf '\377\177' | dd of="$t/nan.gguf" bs=1 seek=$(($(wc -c < "$t/in.gguf") / 2 / 32 * 32)) conv=notrunc 2> /dev/null
rc=0
ranks 2 quantize "$t/nan.gguf" -o "$t/x.gguf" --recipe Q4_K_M -q > /dev/null 2> "$t/err" || rc=$?
[ $rc = 3 ] && grep -q 'NaN' "$t/err" || fail "NaN: exit $rc: $(cat "$t/err")"
# a rank that dies
ranks 2 quantize "$t/in.gguf" -o "$t/x.gguf" --recipe Q6_K --search best -q > /dev/null 2> "$t/err" &
pid=$!
sleep 1
victim=$(ps -o pid= --ppid $pid --ppid "$(ps -o pid= --ppid $pid | head -1)" | tail -1)
kill -KILL $victim
rc=0
wait $pid || rc=$?
[ $rc != 0 ] || fail "a killed rank went unseen"
sleep 1
[ -z "$(find "$t" -name 'x.gguf*')" ] || fail "a file was left: $(ls "$t")"

refused() { # text, arguments...: exit 2, one line, no file
    text=$1 rc=0
    shift
    ranks 2 "$@" > /dev/null 2> "$t/err" || rc=$?
    [ $rc = 2 ] && [ "$(grep -c 'hone: error: ' "$t/err")" = 1 ] && grep -q -- "$text" "$t/err" || fail "$*: exit $rc: $(cat "$t/err")"
    [ ! -e "$t/x.gguf" ] || fail "$*: a file was left"
}
refused 'its plan as --recipe' quantize "$t/in.gguf" -o "$t/x.gguf" --budget 9M
refused 'done by one process' imatrix "$t/in.gguf" $src/self_calib.txt -o "$t/x.gguf" --gram "$t/x2.gguf"
refused 'done by one process' imatrix --merge "$t/im.gguf" "$t/im.gguf" -o "$t/x.gguf"
refused 'done by one process' eval kld "$t/in.gguf" $src/self_eval.txt --save-base "$t/x.gguf"
refused 'done by one process' eval kld "$t/one.gguf" $src/self_eval.txt --base "$t/in.gguf" --routing
refused 'without mpirun' eval speed "$t/one.gguf"
refused 'without mpirun' convert $src -o "$t/x.gguf"
refused 'without mpirun' make $src -o "$t/x.gguf"
echo "ranks: equal bytes and numbers for 1, 2 and 3; NaN, a dead rank and refusals leave nothing"
