#!/bin/sh
# Finished measurements are not repeated: eval kld, ppl and tools with --keep FILE, and eval suite (OUT.part), give the
# same numbers after interrupts and kills as in an undisturbed run. Also tests damaged records, a different model, and
# files of other programs.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
words=tests/golden/tiny-qwen35moe/self_eval.txt
"$HONE" convert tests/golden/models/qwen35moe -o "$t/in.gguf" -q > /dev/null
for r in Q8_0 Q4_0; do "$HONE" quantize "$t/in.gguf" -o "$t/$r.gguf" --recipe $r -q > /dev/null; done
numbers() { grep -vE 'tok_per_s|command_line|"seconds"' "$1" | sed 's/ --keep [^ "]*//'; }
n_before() { sed -n 's/.* \([0-9]*\) of [0-9]* windows are already measured/\1/p' "$t/e"; }
try() { # signal, seconds, arguments: some of it
    sig=$1 at=$2
    shift 2
    rc=0
    timeout -s "$sig" "$at" "$HONE" "$@" > "$t/o" 2> "$t/e" || rc=$?
    case $rc in 0 | 124 | 137) ;; *) say "SIG$sig: hone $*: exit $rc: $(cat "$t/e")" ;; esac
}

# windows: all candidates, then one more; then more windows
kld="eval kld $t/Q8_0.gguf $words --base $t/in.gguf --ctx 64 --json"
t0=$(date +%s%N)
run 0 $kld --chunks 60
half=$(awk "BEGIN{print ($(date +%s%N) - $t0) / 2e9}")
numbers "$t/o" > "$t/whole"
try INT "$half" $kld --chunks 60 --keep "$t/k"
try KILL "$half" $kld --chunks 60 --keep "$t/k" --threads 1
run 0 $kld --chunks 60 --keep "$t/k"
numbers "$t/o" | cmp - "$t/whole" || say "eval kld: other numbers"
run 0 $kld --chunks 60 --keep "$t/k"
numbers "$t/o" | cmp - "$t/whole" || say "eval kld: other numbers when all was there"
run 0 eval kld "$t/Q4_0.gguf" "$t/Q8_0.gguf" $words --base "$t/in.gguf" --ctx 64 --chunks 20 --json
numbers "$t/o" > "$t/two"
run 0 eval kld "$t/Q4_0.gguf" "$t/Q8_0.gguf" $words --base "$t/in.gguf" --ctx 64 --chunks 20 --json --keep "$t/k"
numbers "$t/o" | cmp - "$t/two" || say "eval kld: another candidate beside one that is known"
run 0 $kld --chunks 70
numbers "$t/o" > "$t/more"
run 0 $kld --chunks 70 --keep "$t/k"
[ "$(n_before)" = 60 ] || say "60 windows should have been known: $(cat "$t/e")"
numbers "$t/o" | cmp - "$t/more" || say "eval kld: more windows"

# damage loses the records after it; a different file of that name has none
size=$(stat -c %s "$t/k")
printf 'damage' | dd of="$t/k" bs=1 seek=$((size / 2)) conv=notrunc 2> "$t/dd"
run 0 $kld --chunks 60 --keep "$t/k"
grep -q 'are damaged' "$t/e" && [ "$(n_before)" -lt 60 ] && [ "$(n_before)" -gt 0 ] || say "damage is not said: $(cat "$t/e")"
numbers "$t/o" | cmp - "$t/whole" || say "eval kld: damage changed the numbers"
cp "$t/Q4_0.gguf" "$t/x" && touch -d 2001-01-01 "$t/Q8_0.gguf"
run 0 $kld --chunks 60 --keep "$t/k"
[ -z "$(n_before)" ] || say "windows of another file were taken"
refused 2 'holds something else' $kld --keep "$t/x"
cmp "$t/x" "$t/Q4_0.gguf" || say "a file of somebody else was changed"
refused 2 'cannot be used with' $kld --routing --keep "$t/k"
if ! on_wine; then
    flock "$t/k" "$HONE" $kld --chunks 2 --keep "$t/k" > "$t/o" 2> "$t/e" && say "two at a time" || grep -q 'another hone' "$t/e"
fi

# perplexity, published and strided
for how in "" "--stride 16"; do
    run 0 eval ppl "$t/in.gguf" $words --ctx 64 --chunks 60 $how --json
    numbers "$t/o" > "$t/whole"
    try INT "$(awk "BEGIN{print $half}")" eval ppl "$t/in.gguf" $words --ctx 64 --chunks 60 $how --keep "$t/p"
    run 0 eval ppl "$t/in.gguf" $words --ctx 64 --chunks 60 $how --json --keep "$t/p"
    numbers "$t/o" | cmp - "$t/whole" || say "eval ppl $how: other numbers"
done

# answers are stored case by case; the suite stores its own next to its output
"$HONE" convert tests/golden/tiny-qwen35moe -o "$t/tiny.gguf" -q > /dev/null
tools="eval tools $t/tiny.gguf --cases 4 --max-tokens 12 --json"
run 0 $tools
numbers "$t/o" > "$t/whole"
try INT 0.3 $tools --keep "$t/q"
try KILL 0.4 $tools --keep "$t/q"
run 0 $tools --keep "$t/q"
numbers "$t/o" | cmp - "$t/whole" || say "eval tools: other answers"
run 0 $tools --keep "$t/q"
grep -q '"seconds": 0\b' "$t/o" || say "eval tools: answers were made again"
suite="eval suite $t/Q4_0.gguf --base $t/in.gguf --ctx 64 --chunks 40 --tools none --text $words --needle $words --needle-ctx 128"
run 0 $suite -o "$t/whole.json"
try INT 0.12 $suite -o "$t/cut.json" -f
try TERM 0.16 $suite -o "$t/cut.json" -f
try KILL 0.2 $suite -o "$t/cut.json" -f
[ -e "$t/cut.json" ] || [ -e "$t/cut.json.part" ] || say "eval suite keeps nothing"
run 0 $suite -o "$t/cut.json" -f
cmp "$t/whole.json" "$t/cut.json" || say "eval suite: other numbers"
[ ! -e "$t/cut.json.part" ] || say "eval suite: its records are left behind"
exit $fail
