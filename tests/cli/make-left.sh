#!/bin/sh
# hone make reports the remaining work: --dry-run subtracts recorded work, a finished folder has none left, the progress
# line covers the whole job; experts without tokens give one warning, based on the actual importance matrix.
set -eu
. tests/making.sh
cp -r tests/golden/models/qwen3moe "$t/Tiny"
make() { # folder, more
    folder=$1
    shift
    small_make 0 "$t/$folder" --calib-chunks 2 --time 0 "$@"
}
more() { awk "BEGIN { exit !($1 > $2) }" || say "$3: $1 and $2"; }
state() { (cd "$t" && find "$1" "$1.work" | sort && find "$1" "$1.work" -type f ! -name '*.gguf' -exec cksum {} + | sort); }

# ---- a new job: everything is left, and there is no warning about experts ----
make x --recipe Q4_K_M,Q8_0 --dry-run --json
cp "$t/o" "$t/fresh"
all=$(number seconds "$t/fresh")
[ "$all" = "$(number seconds_in_all "$t/fresh")" ] || say "part of a new job is done: $(cat "$t/fresh")"
if grep -qi expert "$t/e"; then say "the forecast's few windows are said to miss experts: $(cat "$t/e")"; fi
[ ! -e "$t/x" ] && [ ! -e "$t/x.work" ] || say "the forecast wrote"
make x --recipe Q8_0 --budget 21GiB --dry-run --json # a mix is never larger than the model
[ "$(number file_bytes "$t/o")" -lt 100000000 ] || say "files of a small model: $(number file_bytes "$t/o")"
# with time for presets only, no files of --budget are forecast
make x --recipe Q8_0 --budget 21GiB --time 0.0001s --dry-run --json
if grep -q '"kind": "mix"' "$t/o"; then say "a mix that is not made: $(cat "$t/o")"; fi
grep -q 'plain presets, no files of --budget are made' "$t/o" || say "--budget is not said to be left out: $(cat "$t/o")"
# no text is left to judge mixes: presets, in the forecast too
same=tests/golden/tiny-qwen35moe/self_eval.txt
"$HONE" make "$t/Tiny" -o "$t/x" --recipe Q4_K_M --calib $same --eval $same --time 0 --dry-run --json > "$t/o" 2> "$t/e"
[ "$(number n_probes "$t/o")" = 0 ] || say "probes for mixes that are not made: $(number n_probes "$t/o")"
grep -q "the files are presets" "$t/e" || say "no reason: $(cat "$t/e")"
# a base model has no template for chats; the folder of temporary files is that of the run, however -o is spelled
cp -r tests/golden/models/mistral "$t/Base" && mkdir "$t/here"
for o in . "$t/here/" ../here; do
    (cd "$t/here" && "$HONE" make ../Base -o $o --plain --recipe Q8_0 --dry-run > "$t/o" 2> "$t/e") || say "no template, -o $o: $(cat "$t/e")"
    case $o in .) work=$(cd "$t" && pwd -P)/here.work ;; *) work=${o%/}.work ;; esac
    head -1 "$t/o" | grep -qF " temporary files in $work; nothing was written." || say "-o $o: $(head -1 "$t/o")"
done
for how in --dry-run -q; do refused 2 'the output folder has no name' make "$t/Base" -o "" --plain --recipe Q8_0 $how; done

# ---- a job: one warning on experts; the progress line has the step, the probe and the time of the whole job ----
make out --recipe Q4_K_M,Q8_0 --progress always
[ "$(tr '\r' '\n' < "$t/e" | grep -ci 'expert.*token\|expert.*importance')" = 1 ] || say "not one warning on experts: $(grep -i expert "$t/e")"
tr '\r' '\n' < "$t/e" > "$t/lines"
grep -q 'step [0-9]* of [0-9]*, probe [0-9]* of [0-9]*, [0-9.]* \(s\|min\|of\)' "$t/lines" || say "no line with the probe: $(cat "$t/lines")"
grep -q 'step [0-9]* of [0-9]*, .*of [0-9.]* \(hours \)\{0,1\}left: ' "$t/lines" || say "no time of the job: $(cat "$t/lines")"

# ---- finished: nothing left, without measuring, and nothing is written ----
state out > "$t/before"
make out --recipe Q4_K_M,Q8_0 --dry-run
head -1 "$t/o" | grep -q "^Nothing left to do" || say "a finished job: $(head -1 "$t/o")"
make out --recipe Q4_K_M,Q8_0 --dry-run --json
[ "$(number seconds "$t/o")" = 0 ] || say "a finished job takes $(number seconds "$t/o") seconds"
state out > "$t/after"
cmp "$t/before" "$t/after" || say "the forecast changed the folder"
# -f redoes everything; a different option redoes the steps that depend on it
make out --recipe Q4_K_M,Q8_0 --dry-run --json -f
more "$(number seconds "$t/o")" 0 "-f"
make out --recipe Q4_K_M,Q8_0 --dry-run --json --tg 3
more "$(number seconds "$t/o")" 0 "another speed test"
more "$(number seconds_in_all "$t/o")" "$(number seconds "$t/o")" "another speed test leaves the rest"

# another --time counts what is done: no poorer plan, and nothing is made again
make out --recipe Q4_K_M,Q8_0 --time 0.0001s --dry-run
head -1 "$t/o" | grep -q "^Nothing left to do" || say "a finished job with less time: $(head -1 "$t/o")"
cp "$t/out.work/class-Q4_K_M.json" "$t/class.json"
make out --recipe Q4_K_M,Q8_0 --time 0.0001s
cmp "$t/class.json" "$t/out.work/class-Q4_K_M.json" || say "a finished file was made again: $(cat "$t/e")"
grep -q '"left_out": \[\]' "$t/out/results.json" && ! grep -q "skipped to meet" "$t/e" || say "less time drops finished work: $(cat "$t/e")"
make out --recipe Q4_K_M,Q8_0

# ---- half done: less is left than at the beginning, and the run does no more ----
rm "$t/out/Tiny-Q4_K_M.gguf" "$t/out.work/class-Q4_K_M.json"
make out --recipe Q4_K_M,Q8_0 --dry-run
head -1 "$t/o" | grep -q "left of" || say "a half-done job: $(head -1 "$t/o")"
make out --recipe Q4_K_M,Q8_0 --dry-run --json
more "$(number seconds "$t/o")" 0 "one file is missing"
more "$(number seconds_in_all "$t/o")" "$(number seconds "$t/o")" "the rest is there"
make out --recipe Q4_K_M,Q8_0
make out --recipe Q4_K_M,Q8_0 --dry-run
head -1 "$t/o" | grep -q "^Nothing left to do" || say "a completed job: $(head -1 "$t/o")"

# ---- probes without time: reported as long as they are missing; more time adds them ----
missing() { grep -q 'sensitivity probes, because their time ran out' "$t/s/results.json"; }
for how in "" "--effort fast"; do # shellcheck disable=SC2086
    make s --recipe Q4_K_M --probe-time 0.0006s $how
    missing || say "missing probes are not reported $how"
done
make s --recipe Q4_K_M
if missing; then say "probes are said to be missing: $(cat "$t/e")"; fi
cmp "$t/s.work/sens.json" "$t/out.work/sens.json" || say "more time did not add the probes"
make s --recipe Q4_K_M
if missing || grep -q "measuring the cost" "$t/e"; then say "complete probes: $(cat "$t/e")"; fi

# ---- classes of one size: one of them, in the forecast and in the job ----
cp -r tests/golden/models/qwen2 "$t/other" && mv "$t/Tiny" "$t/Tiny.moe" && mv "$t/other" "$t/Tiny"
make all --effort fast --dry-run --json
grep -o '"[A-Z0-9_]* is not made: [^"]*"' "$t/o" > "$t/same" || say "rows of 64: all classes differ: $(cat "$t/o")"
grep -o 'Tiny-[A-Z0-9_]*.gguf' "$t/o" | sort > "$t/names"
make all --effort fast
(cd "$t/all" && ls Tiny-*.gguf) | sort | cmp - "$t/names" || say "other files than in the forecast: $(ls "$t/all")"
while read -r line; do
    grep -qF "${line#\"}" "$t/all/results.json" || say "results.json does not say $line"
done < "$t/same"
sizes=$(cd "$t/all" && wc -c Tiny-*.gguf | sort -n | sed '$d' | awk '{ print int($1 / 256) }')
[ "$(echo "$sizes" | sort -u | wc -l)" = "$(echo "$sizes" | wc -l)" ] || say "two files of one size: $sizes"
make all --effort fast --dry-run
head -1 "$t/o" | grep -q "^Nothing left to do" && grep -q "is not made" "$t/o" || say "all classes: $(cat "$t/o")"
name=$(sed -n '1s/^"\([A-Z0-9_]*\) is.*/\1/p' "$t/same")
make all --effort fast --recipe "$name" --dry-run --json
grep -q "Tiny-$name.gguf" "$t/o" || say "--recipe $name does not make it"
rm -r "$t/Tiny" && mv "$t/Tiny.moe" "$t/Tiny"

# ---- stopped while measuring: the windows measured so far count, and the forecast only looks ----
windows() { make w --plain --recipe Q8_0 --eval tests/golden/tiny-qwen35moe/self_eval.txt --ctx 32 --chunks 6000 "$@"; }
share() { awk "BEGIN { print $(number seconds "$t/o") / $(number seconds_in_all "$t/o") }"; }
"$HONE" make "$t/Tiny" -o "$t/w" --calib "$t/calib.txt" --eval "$t/eval.txt" --eval tests/golden/tiny-qwen35moe/self_eval.txt --calib-ctx 64 --pp 4 \
    --tg 2 --reps 1 --tools none --calib-chunks 2 --time 0 --plain --recipe Q8_0 --ctx 32 --chunks 6000 > "$t/o" 2> "$t/e" &
pid=$!
while kill -0 $pid 2> "$t/dd" && [ "$(wc -c 2> "$t/dd" < "$t/w.work/measured" || echo 0)" -lt 1200000 ]; do sleep 0.02; done
kill -INT $pid || say "it was not stopped while measuring"
wait $pid || :
grep -q "interrupted; the same command continues" "$t/e" || say "interrupted: $(tail -1 "$t/e")"
state w > "$t/before"
windows --dry-run --json
with=$(share)
state w | cmp - "$t/before" || say "the forecast changed the folder"
mv "$t/w.work/measured" "$t/measured"
windows --dry-run --json
more "$(share)" "$with + 0.1" "the windows measured so far"
cp "$t/e" "$t/measured"

# ---- presets, stopped after a step ----
make p --plain --recipe Q8_0
make p --plain --recipe Q8_0,Q4_0 --dry-run --json
more "$(number seconds_in_all "$t/o")" "$(number seconds "$t/o")" "a recipe more"
make p --plain --recipe Q8_0 --dry-run
head -1 "$t/o" | grep -q "^Nothing left to do" || say "presets: $(head -1 "$t/o")"
# too little time for a job that has begun: it warns
make p --plain --recipe Q4_0 --time 0.0001s
grep -q "warning: --time (.*) cannot be met: the job will take" "$t/e" && [ -e "$t/p/Tiny-Q4_0.gguf" ] || say "not warned: $(cat "$t/e")"
exit $fail
