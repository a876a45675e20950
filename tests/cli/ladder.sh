#!/bin/sh
# hone make with default options: for each size class, a file that is no larger than the preset, with a verdict;
# --plain, --time and --dry-run. An interrupted job resumes and writes the same bytes. Files record the options chosen,
# so that they can be reproduced.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
fail() { echo "$*"; exit 1; }
src=tests/golden/models/qwen3moe
texts=tests/golden/tiny-qwen35moe
head -c 6000 $texts/self_calib.txt > "$t/calib.txt"
tail -c 1200 $texts/self_calib.txt > "$t/probe.txt"
head -c 8000 $texts/self_eval.txt > "$t/eval.txt"
how="--calib $t/calib.txt --probe $t/probe.txt --eval $t/eval.txt --chunks 4 --ctx 128 --calib-ctx 64 --pp 8 --tg 2 --reps 1 --tools none --search fast"
job() { out=$1; shift; "$HONE" make $src -o "$t/$out" $how "$@" > "$t/$out.out" 2> "$t/$out.err" || { rc=$?; cat "$t/$out.err"; fail "make $out: exit $rc"; }; }
size() { wc -c < "$1"; }
field() { grep -o "\"$1\": [0-9.e+-]*" "$2" | head -1 | cut -d' ' -f2; }

# only the source and a folder are needed; the dry run prints the cost and writes nothing
mkdir "$t/tmp"
TMPDIR=$t/tmp "$HONE" make $src -o "$t/dry" --dry-run --json > "$t/dry.json" 2> "$t/dry.err" || fail "$(cat "$t/dry.err")"
[ ! -e "$t/dry" ] && [ ! -e "$t/dry.work" ] && [ -z "$(ls "$t/tmp" | grep -v '^wine-')" ] || fail "--dry-run wrote something"
for k in seconds file_bytes work_bytes memory_bytes; do
    awk -v v="$(field $k "$t/dry.json")" 'BEGIN {exit !(v > 0)}' || fail "--dry-run: no $k"
done
# of the eight classes, three have the size of another one, because rows of 128 weights fit the same types
[ "$(grep -c '"file": "qwen3moe-' "$t/dry.json")" = 5 ] && [ "$(grep -c 'is not made: for this model' "$t/dry.json")" = 3 ] || fail "--dry-run: classes"
grep -q '"file": "qwen3moe-Q2_K.gguf"' "$t/dry.json" && grep -q '"step": "sensitivity probes"' "$t/dry.json" || fail "--dry-run: steps or files are missing"

# presets: the maximum sizes of the classes
job plain --plain --recipes Q5_K_M,Q2_K
! grep -q hone.mix "$t/plain/qwen3moe-Q5_K_M.gguf" || fail "--plain made a mix"
[ "$(grep -c '"made": "preset"' "$t/plain/results.json")" = 2 ] || fail "--plain: results.json says otherwise"
[ ! -e "$t/plain.work/gram.gguf" ] || fail "--plain collected second moments"
"$HONE" make $src -o "$t/dry" $how --dry-run --json > "$t/dry.json" 2> "$t/dry.err" || fail "$(cat "$t/dry.err")"
for c in Q5_K_M Q2_K; do # the forecast's sizes are those, with the same texts
    grep -A1 "qwen3moe-$c.gguf" "$t/dry.json" | grep -qE "\"size_bytes\": $(size "$t/plain/qwen3moe-$c.gguf")\\b" || fail "--dry-run: another size for $c: $(grep -A1 "qwen3moe-$c.gguf" "$t/dry.json")"
done
if grep -q __asan_init "$HONE"; then
    echo "ladder: forecast and presets (no mixes under a sanitizer)"
    exit 0
fi

# the ladder: a mix wins where the preset is far from the base; the preset of another name is made as it is
job whole --recipes q5_k_m,Q4_0
for c in Q5_K_M; do
    f=$t/whole/qwen3moe-$c.gguf
    [ "$(size "$f")" -le "$(size "$t/plain/qwen3moe-$c.gguf")" ] || fail "$c is larger than the preset"
    grep -q hone.mix.budget_bytes "$f" || fail "$c is no mix"
    "$HONE" inspect "$f" | grep -qE "file type +$c" || fail "$c: another file type"
done
! grep -q hone.mix "$t/whole/qwen3moe-Q4_0.gguf" || fail "Q4_0 is not a size class"
[ "$(grep -c '"size_class": "Q5_K_M"' "$t/whole/results.json")" = 1 ] || fail "results.json: size classes"
[ "$(grep -c '"made": "mix"' "$t/whole/results.json")" = 1 ] && [ "$(grep -c '"feedback": true' "$t/whole/results.json")" = 1 ] || fail "results.json: how they were made"
grep -qE 'Types: chosen from [1-9][0-9]* probes on [1-9][0-9]* windows each' "$t/whole/README.md" || fail "README.md: no note on probes: $(grep Types "$t/whole/README.md")"
grep -q 'Comparisons with presets: all on 4 windows' "$t/whole/README.md" || fail "README.md: how far comparisons went"
[ "$(grep -c '"why": "the mix has mean KLD' "$t/whole/results.json")" = 1 ] && grep -q '"left_out": \[\]' "$t/whole/results.json" || fail "results.json: why"
kld() { sed -n "/\"file\": \"qwen3moe-$2.gguf\"/,/\"file\": \"q/p" "$t/$1/results.json" | grep -o '"mean_kld": [0-9.e-]*' | head -1 | cut -d' ' -f2; }
for c in Q5_K_M; do
    awk -v a="$(kld whole $c)" -v b="$(kld plain $c)" 'BEGIN {exit !(a > 0 && a < b)}' || fail "$c: KLD $(kld whole $c), the preset's $(kld plain $c)"
done
# card, report and table show the gain over the preset, which the job with --plain measured on the same texts, and the
# types inside
gain=$(awk -v a="$(kld whole Q5_K_M)" -v b="$(kld plain Q5_K_M)" 'BEGIN {printf "%.1f", b / a}')
grep -q "^| .*(qwen3moe-Q5_K_M.gguf) |.*${gain}x closer" "$t/whole/README.md" || fail "README.md: no gain of $gain: $(grep Q5_K_M "$t/whole/README.md")"
grep -q "${gain}x closer to the original than llama.cpp.*s Q5_K_M of the same size" "$t/whole/report.html" || fail "report.html: no sentence about the gain"
for f in README.md report.html; do
    grep -qE "Q[0-9]_[0-9K] [0-9]+ %, Q[0-9]_[0-9K] [0-9]+ %" "$t/whole/$f" || fail "$f: no types inside"
done
grep -qE "qwen3moe-Q5_K_M.gguf .* $gain " "$t/whole.out" || fail "the table has no gain of $gain: $(cat "$t/whole.out")"
! grep -q "x closer" "$t/plain/README.md" || fail "a gain without a comparison"
grep -q "step 1 of 9: " "$t/whole.err" && grep -q "about .* in all" "$t/whole.err" || fail "no steps or forecast in the log"
tail -3 "$t/whole.out" | grep -q "^Take " || fail "the answer is missing: $(tail -3 "$t/whole.out")"
[ -z "$(ls "$t/whole.work" | grep -E '^(mix|plain|feedback)-.*gguf$')" ] || fail "candidates are left: $(ls "$t/whole.work")"
"$HONE" replay "$t/whole/qwen3moe-Q5_K_M.gguf" --source "$t/whole.work/qwen3moe-BF16.gguf" --imatrix "$t/whole/imatrix.gguf" --gram "$t/whole.work/gram.gguf" -q > /dev/null || fail "the mix cannot be replayed"

# repeated: nothing is made, and the plan is the recorded one; an additional class uses the existing sensitivities
before=$(stat -c '%n %Y %i' "$t/whole"/*.gguf)
job whole --recipes q5_k_m,Q4_0
[ "$before" = "$(stat -c '%n %Y %i' "$t/whole"/*.gguf)" ] || fail "a second run made files again"
! grep -qE "encoding|comparing|about .* in all" "$t/whole.err" || fail "a second run worked: $(cat "$t/whole.err")"

# killed between the file's name and its record: no second name of the file is left
ln "$t/whole/qwen3moe-Q5_K_M.gguf" "$t/whole.work/mix-Q5_K_M.gguf"
rm "$t/whole.work/class-Q5_K_M.json"
job whole --recipes q5_k_m,Q4_0
[ -e "$t/whole.work/class-Q5_K_M.json" ] || fail "the class was not recorded again"
[ -z "$(ls -a "$t/whole" | grep '\.tmp-')" ] || fail "a second name is left: $(ls -a "$t/whole")"

# interrupted while it chooses, encodes or compares: the final files are the same
for word in "choosing" "encoding .* mixes" "comparing"; do
    : > "$t/cut.err"
    "$HONE" make $src -o "$t/cut" $how --recipes q5_k_m,Q4_0 > "$t/cut.out" 2> "$t/cut.err" &
    pid=$!
    i=0
    until grep -qE "$word" "$t/cut.err" || [ $i = 1500 ]; do sleep 0.02; i=$((i + 1)); done
    kill -KILL $pid 2> /dev/null || true
    wait $pid 2> /dev/null || true
done
job cut --recipes q5_k_m,Q4_0
for f in "$t/whole"/*.gguf; do cmp "$f" "$t/cut/${f##*/}"; done

# a comparison ends early once it is clear, which the card notes; the file is measured on all windows, and is the same with one thread
head -c 16000 $texts/self_eval.txt > "$t/long.txt"
plain=$how
how=$(echo "$how" | sed "s,--eval $t/eval.txt,--eval $t/long.txt,")
for threads in 2 1; do
    job early$threads --recipes Q5_K_M --chunks 80 --ctx 64 --threads $threads
    n=$(field preset_chunks "$t/early$threads/results.json")
    [ "$n" -lt 80 ] && grep -q ", clear after $n of 80 windows" "$t/early$threads/results.json" || fail "results.json: no early end"
    grep -q "1 of 1 comparisons with presets ended after $n to $n of 80 windows" "$t/early$threads/README.md" || fail "README.md: no early end: $(grep -i comparison "$t/early$threads/README.md")"
    sed -n '/"size_class": "Q5_K_M"/,/"file"/p' "$t/early$threads/results.json" | grep -q '"n_chunks": 80' || fail "the file was not measured to the end"
done
how=$plain
cmp "$t/early1/qwen3moe-Q5_K_M.gguf" "$t/early2/qwen3moe-Q5_K_M.gguf"

# -f ignores all records, and makes the same files; if it is interrupted, the way to continue is without -f
: > "$t/cut.err"
"$HONE" make $src -o "$t/cut" $how --recipes q5_k_m -f > "$t/cut.out" 2> "$t/cut.err" &
pid=$!
i=0
until grep -q "measuring the cost" "$t/cut.err" || [ $i = 1500 ]; do sleep 0.02; i=$((i + 1)); done
kill -INT $pid 2> /dev/null || true
rc=0
wait $pid || rc=$?
[ $rc != 130 ] || grep -q "interrupted; the same command without -f keeps what this one finished" "$t/cut.err" || fail "interrupted -f: $(cat "$t/cut.err")"
job cut --recipes q5_k_m
[ $rc != 130 ] || ! grep -q "collecting the importance matrix" "$t/cut.err" || fail "without -f, an interrupted -f is lost: $(cat "$t/cut.err")"
job cut --recipes q5_k_m -f
cmp "$t/whole/qwen3moe-Q5_K_M.gguf" "$t/cut/qwen3moe-Q5_K_M.gguf"

# not enough time even for presets: refused before anything is written, with the time needed; the forecast reports it,
# too
refused 4 "--time (0 seconds) cannot be met: even presets and the shortest measurements take about" make $src -o "$t/short" $how --recipes Q2_K --time 0.036s
grep -qE 'use --time [1-9][0-9]*[smh], --time 0 \(no limit\)' "$t/e" || fail "--time: the time needed is missing: $(cat "$t/e")"
[ ! -e "$t/short" ] && [ ! -e "$t/short.work" ] || fail "--time 0.036s wrote something"
"$HONE" make $src -o "$t/short" $how --recipes Q2_K --time 0.036s --dry-run --json > "$t/dry.json" 2> "$t/dry.err" || fail "$(cat "$t/dry.err")"
grep -q '"over_time_limit": true' "$t/dry.json" || fail "--dry-run: not over the limit"
grep -q '"makes": "plain presets' "$t/dry.json" && grep -q '"makes": "everything: mixes' "$t/dry.json" || fail "--dry-run: what other time limits allow"
refused 2 "presets only" make $src -o "$t/x" --plain --budget 1M
refused 2 "1h30m" make $src -o "$t/x" --time -1
echo "ladder: classes, presets, forecast, interruption, time"
