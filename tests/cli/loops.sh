#!/bin/sh
# SPDX-License-Identifier: MIT
# Tools in loops, with the tiny model, which was trained on single calls with a result and an answer. Its first call is
# known from hone eval tools; what its world returns must reach the model, and the end state decides.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
"$HONE" convert tests/golden/tiny-qwen35moe -o "$t/m.gguf" --type bf16 -q > /dev/null
num() { sed -n "s/^ *\"$2\": \([-0-9.e+]*\),*$/\1/p" "$1" | head -1; }

# the cases of the tiny model's suite as loops: the goal is that the expected call was made
head -n 12 tests/golden/tiny-qwen35moe/tools.jsonl | grep '"expect": {"name"' > "$t/single.jsonl"
sed 's/"expect": {"name": \("[a-z_]*"\), "arguments": \(.*\)}}$/"loop": {"results": [{"name": \1, "arguments": \2, "result": {"ok": true}, "set": {"done": true}}], "goal": {"done": true}, "max_steps": 3}}/' \
    "$t/single.jsonl" > "$t/loops.jsonl"
n=$(wc -l < "$t/loops.jsonl")
[ "$n" -ge 4 ] && [ "$(grep -c '"loop": {"results"' "$t/loops.jsonl")" = "$n" ] || { echo "the suite was not converted"; head -c 1500 "$t/loops.jsonl"; exit 1; }
run 0 eval tools "$t/m.gguf" "$t/single.jsonl" --max-tokens 64 --json
cp "$t/o" "$t/single"
run 0 eval tools "$t/m.gguf" "$t/loops.jsonl" --max-tokens 64 --base "$t/m.gguf" --constrained --json
cp "$t/o" "$t/loops"
[ "$(num "$t/loops" n_cases)" = "$n" ] || say "not $n loops"
# each loop begins with the call of the single case
sed -n 's/^ *"answer": "\(.*\)",$/\1/p' "$t/single" > "$t/a"
sed -n 's/^ *"answer": "\(.*\)",$/\1/p' "$t/loops" > "$t/b"
while read -r first && read -r all <&3; do
    case $all in "$first"*) ;; *) say "the loop '$all' does not begin with '$first'" ;; esac
done < "$t/a" 3< "$t/b"
# a loop can only pass if its call was right; the same model has the same answers
[ "$(num "$t/loops" n_passed)" -le "$(num "$t/single" n_equal)" ] || say "more loops passed than first calls were right"
[ "$(num "$t/loops" n_same_as_base)" = "$n" ] || say "a model differs from itself"
[ "$(num "$t/loops" n_passed_constrained)" -ge "$(num "$t/loops" n_passed)" ] || say "constrained calls pass less often"
# no step left for the answer, and a goal that the world cannot reach: none passes
sed 's/"max_steps": 3/"max_steps": 1/' "$t/loops.jsonl" > "$t/short.jsonl"
run 0 eval tools "$t/m.gguf" "$t/short.jsonl" --max-tokens 64 --json
[ "$(num "$t/o" n_passed)" = 0 ] && grep -q "no end within the steps\|'done' is not true" "$t/o" || say "a loop of one step passed"
sed 's/"goal": {"done": true}/"goal": {"done": false}/' "$t/loops.jsonl" > "$t/never.jsonl"
run 0 eval tools "$t/m.gguf" "$t/never.jsonl" --max-tokens 64 --json
[ "$(num "$t/o" n_passed)" = 0 ] || say "a goal was reached that nothing sets"

# the built-in suites
run 0 eval tools "$t/m.gguf" loops --cases 3 --max-tokens 24 --json
[ "$(num "$t/o" n_cases)" = 3 ] || say "loops: not 3 cases"
run 0 eval checks "$t/m.gguf" --max-tokens 8 --json
[ "$(num "$t/o" n_cases)" = 16 ] || say "checks: not 16 cases"
refused 3 "a case with \"loop\" needs \"messages\"" eval tools "$t/m.gguf" "$(printf '%s\n' '{"prompt": "x", "loop": {"results": [], "goal": {"a": 1}}}' > "$t/bad.jsonl"; echo "$t/bad.jsonl")"
exit $fail
