#!/bin/sh
# A second hone make of the same model with fewer recipes: files of the first run stay, with their numbers, on the card,
# in the report and in the checksums; files whose numbers are not comparable with the new ones are listed.
set -eu
. tests/making.sh
cp -r tests/golden/models/qwen3 "$t/Tiny"
make() { small_make 0 "$t/out" --plain --license mit --repo me/Tiny-GGUF --base-model you/Tiny "$@"; }
row() { grep "Tiny-$1.gguf" "$t/out/README.md" | head -1; }
on_card() { # recipe, what
    for f in README.md report.html results.json SHA256SUMS manifest.json; do
        grep -q "Tiny-$1.gguf" "$t/out/$f" || say "$2: $1 is not in $f"
    done
}

make --recipe Q8_0,Q4_0,Q6_K
row Q4_0 > "$t/first"
make --recipe Q8_0
for r in Q8_0 Q4_0 Q6_K; do on_card $r "fewer recipes"; done
row Q4_0 | cmp -s - "$t/first" || say "other numbers: $(row Q4_0), $(cat "$t/first")"
grep -q "Tiny-Q4_0.gguf of an earlier run stays on the card" "$t/e" || say "nothing is said: $(cat "$t/e")"
grep -q "Tiny-Q6_K.gguf" "$t/o" || say "not in the last table: $(cat "$t/o")"
make --recipe Q5_0
for r in Q8_0 Q4_0 Q6_K Q5_0; do on_card $r "another recipe"; done
[ "$(grep -c '"file": "Tiny-Q4_0.gguf"' "$t/out/results.json")" = 1 ] || say "a file is listed twice"
run 0 publish --check "$t/out"

# answers to a suite that was edited since are not comparable, whatever its name
call='{"text": "In the beginning", "max_tokens": 1, "checks": {"excludes": "zzzz"}}'
cp -r "$t/out" "$t/kept" && cp -r "$t/out.work" "$t/kept.work"
printf '%s\n' "$call" > "$t/suite.jsonl"
make --recipe Q8_0,Q4_0 --tools "$t/suite.jsonl"
make --recipe Q8_0 --tools "$t/suite.jsonl"
of_q4() { sed -n '/"file": "Tiny-Q4_0.gguf"/,/^    }/p' "$t/out/results.json"; }
of_q4 | grep -q '"tools_n"' || say "no answers of an earlier run: $(of_q4)"
printf '%s\n' "$call" | sed 's/zzzz/qqqq/' > "$t/suite.jsonl"
make --recipe Q8_0 --tools "$t/suite.jsonl"
of_q4 | grep -q '"tools_n"' && say "answers to another suite are on the card: $(of_q4)"
# loops and checks: a template without calls costs these, not the job; a card keeps only those that this run measured too
make --recipe Q8_0,Q4_0 --tools "loops,$t/suite.jsonl,checks"
of_q4 | grep -q '"tools_n"' || say "no answers to the file among the suites: $(of_q4)"
of_q4 | grep -q '"loops_\|"checks_' && say "answers to calls without a syntax: $(of_q4)"
for s in loops checks; do
    grep -q "^ *\"$s, since its template has no known syntax" "$t/out/results.json" || say "not left out: $s: $(grep -A6 left_out "$t/out/results.json")"
done
cp "$t/Tiny/tokenizer_config.json" "$t/tokenizer_config.json"
sed -i 's/"chat_template"/"no_template"/' "$t/Tiny/tokenizer_config.json"
cp tests/golden/tiny-qwen35moe/chat_template.jinja "$t/Tiny/"
rm -r "$t/out" "$t/out.work"
make --recipe Q8_0,Q4_0 --tools loops,checks
of_q4 | grep -q '"loops_n": 13' && of_q4 | grep -q '"checks_n": 16' && of_q4 | grep -q '"checks_same"' || say "no loops and checks: $(of_q4)"
make --recipe Q8_0 --tools checks
of_q4 | grep -q '"checks_n": 16' || say "checks of an earlier run are not on the card: $(of_q4)"
of_q4 | grep -q '"loops_' && say "loops that were not run are on the card: $(of_q4)"
grep -q '^| tool loops, checks | [0-9]* of 16 checks pass, the original [0-9]* |' "$t/out/README.md" || say "at a glance: $(grep -A9 'at a glance' "$t/out/README.md")"
rm "$t/Tiny/chat_template.jinja" && mv "$t/tokenizer_config.json" "$t/Tiny/"
refused 2 "only one suite besides loops and checks" make "$t/Tiny" -o "$t/out" --tools "builtin,$t/suite.jsonl"
refused 2 "no-such.jsonl" make "$t/Tiny" -o "$t/out" --tools loops,no-such.jsonl
rm -r "$t/out" "$t/out.work" && mv "$t/kept" "$t/out" && mv "$t/kept.work" "$t/out.work"

# removed files are gone; changed ones, or ones measured on a different text, are listed
rm "$t/out/Tiny-Q6_K.gguf"
echo x >> "$t/out/Tiny-Q5_0.gguf"
make --recipe Q8_0
grep -q "Tiny-Q6_K.gguf" "$t/out/README.md" && say "a removed file is on the card"
grep -q "Tiny-Q6_K" "$t/e" && say "a removed file: $(cat "$t/e")"
grep -q "Tiny-Q5_0.gguf of an earlier run .* changed since" "$t/e" || say "a changed file: $(cat "$t/e")"
on_card Q4_0 "after a change of another"
rm "$t/out/Tiny-Q5_0.gguf"
for other in "--chunks 1" "--eval $t/calib.txt" "--calib $t/eval.txt"; do
    cp -r "$t/out" "$t/kept" && cp -r "$t/out.work" "$t/kept.work"
    # shellcheck disable=SC2086
    make --recipe Q8_0 $other
    grep -q "Tiny-Q4_0.gguf of an earlier run .* other texts" "$t/e" || say "$other: $(cat "$t/e")"
    grep -q "Tiny-Q4_0.gguf" "$t/out/results.json" && say "$other: numbers that cannot be compared are on the card"
    [ -e "$t/out/Tiny-Q4_0.gguf" ] || say "$other: a file is lost"
    rm -r "$t/out" "$t/out.work" && mv "$t/kept" "$t/out" && mv "$t/kept.work" "$t/out.work"
done
exit $fail
