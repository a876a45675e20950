#!/bin/sh
# SPDX-License-Identifier: MIT
# hone run: a tool call from a conversation, the same text for a seed and any thread count, and refusals.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
tiny=tests/golden/tiny-qwen35moe
"$HONE" convert $tiny -o "$t/m.gguf" --type f32 -q > /dev/null
head -1 $tiny/tools.jsonl > "$t/case.json"

# what the unquantized model writes is known from its training report: a well-formed call of the expected function
"$HONE" run "$t/m.gguf" --chat "$t/case.json" --temp 0 -n 150 > "$t/call"
grep -q '<function=search_docs>' "$t/call" && grep -q '</tool_call>' "$t/call" || { cat "$t/call"; exit 1; }
if grep -q '<|im_end|>' "$t/call"; then echo "the end token was printed"; exit 1; fi
"$HONE" run "$t/m.gguf" --chat "$t/case.json" --temp 0 -n 150 --json > "$t/json"
grep -q '"stop": "end"' "$t/json"

for n in 1 3; do "$HONE" run "$t/m.gguf" -p "The value of" -n 40 --seed 5 --temp 1 --threads $n > "$t/seed$n"; done
cmp "$t/seed1" "$t/seed3"
"$HONE" run "$t/m.gguf" -p "The value of" -n 40 --seed 6 --temp 1 > "$t/seed6"
if cmp -s "$t/seed1" "$t/seed6"; then echo "two seeds, one text"; exit 1; fi
"$HONE" run "$t/m.gguf" -p "The value of" -n 7 --json > "$t/json"
grep -q '"generated_tokens": 7' "$t/json" && grep -q '"stop": "length"' "$t/json"
"$HONE" run "$t/m.gguf" -p "The value of" -n 50 --ctx 12 --seed 1 --json > "$t/json"
grep -q '"stop": "context"' "$t/json"

echo '{"messages": [' > "$t/broken.json"
refused 2 "give -p TEXT" run "$t/m.gguf"
refused 2 "the prompt is empty" run "$t/m.gguf" -p ""
refused 2 "exclude" run "$t/m.gguf" -p x --chat "$t/case.json"
refused 3 "broken.json" run "$t/m.gguf" --chat "$t/broken.json"
refused 4 "none.json" run "$t/m.gguf" --chat "$t/none.json"
refused 2 "--kwargs" run "$t/m.gguf" --chat "$t/case.json" --kwargs '[1]'
refused 2 "context of 3 tokens is full" run "$t/m.gguf" -p "one two three four five six seven" --ctx 3
refused 2 "--kv-type" run "$t/m.gguf" -p x --kv-type q5_k
