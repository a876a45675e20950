#!/bin/sh
# SPDX-License-Identifier: MIT
# hone run without a terminal: answers, seeds, prompt sources, reasoning and calls, Ctrl-C, and errors. run-chat.sh
# tests it with a terminal.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
tiny=tests/golden/tiny-qwen35moe
"$HONE" convert $tiny -o "$t/m.gguf" --type f32 -q > /dev/null
head -1 $tiny/tools.jsonl > "$t/case.json"

# the unquantized model's answer is known from its training report: a well-formed call of the expected function
"$HONE" run "$t/m.gguf" --chat "$t/case.json" --temp 0 -n 150 > "$t/call"
grep -q '<function=search_docs>' "$t/call" && grep -q '</tool_call>' "$t/call" || { cat "$t/call"; exit 1; }
if grep -q '<|im_end|>' "$t/call"; then echo "the end token was printed"; exit 1; fi
"$HONE" run "$t/m.gguf" --chat "$t/case.json" --temp 0 -n 150 --json > "$t/json"
grep -q '"stop": "end"' "$t/json"

for n in 1 3; do "$HONE" run "$t/m.gguf" -p "The value of" -n 40 --seed 5 --temp 1 --threads $n > "$t/seed$n"; done
cmp "$t/seed1" "$t/seed3"
"$HONE" run "$t/m.gguf" -p "The value of" -n 40 --seed 6 --temp 1 > "$t/seed6"
"$HONE" run "$t/m.gguf" -p "The value of" -n 1 --device cuda > "$t/none" 2> "$t/e" || true
if grep -q 'this build supports the CPU only' "$t/e"; then
    "$HONE" run "$t/m.gguf" -p "The value of" -n 1 --max-vram 8GiB > "$t/none" 2> "$t/e"
    [ "$(grep -c 'warning: --max-vram has no effect' "$t/e")" = 1 ] || { cat "$t/e"; exit 1; }
fi
if cmp -s "$t/seed1" "$t/seed6"; then echo "two seeds, one text"; exit 1; fi
"$HONE" run "$t/m.gguf" -p "The value of" -n 7 --json > "$t/json"
grep -q '"generated_tokens": 7' "$t/json" && grep -q '"stop": "length"' "$t/json"
"$HONE" run "$t/m.gguf" -p "The value of" -n 50 --ctx 12 --seed 1 --json > "$t/json"
grep -q '"stop": "context"' "$t/json"

# ---- every run draws and prints a seed: each time a different text, and the same text with that seed ----
for i in 1 2 3; do "$HONE" run "$t/m.gguf" -p Once -n 12 --temp 3 > "$t/s$i" 2> "$t/s$i.err"; done
if cmp -s "$t/s1" "$t/s2" && cmp -s "$t/s2" "$t/s3"; then echo "three runs, one text"; exit 1; fi
seed=$(sed -n 's/.*; seed \([0-9]*\)$/\1/p' "$t/s1.err")
grep -q '^[0-9]* tokens, [0-9.]*/s; prompt [0-9]* tokens, [0-9.]*/s; seed [0-9]*$' "$t/s1.err" || { cat "$t/s1.err"; exit 1; }
"$HONE" run "$t/m.gguf" -p 'The value of' -n 12 --temp 0 2>&1 > "$t/o" | grep -q 'cut at 12 tokens: -n 48 lets it continue'
"$HONE" run "$t/m.gguf" -p Once -n 12 --temp 3 --seed "$seed" > "$t/s4" 2> /dev/null
cmp "$t/s1" "$t/s4"
"$HONE" run "$t/m.gguf" -p Once -n 12 -q > "$t/o" 2> "$t/e"
[ ! -s "$t/e" ] || { echo "-q: $(cat "$t/e")"; exit 1; }

# ---- a prompt as an argument, on standard input, in files: a turn with the template; -p continues a text ----
ask='Find 12 pages on the valve manual.'
echo "[{\"role\": \"user\", \"content\": \"$ask\"}]" > "$t/one.json"
"$HONE" run "$t/m.gguf" --chat "$t/one.json" --temp 0 -q > "$t/want"
"$HONE" run "$t/m.gguf" "$ask" --temp 0 -q > "$t/got" && cmp "$t/want" "$t/got"
# shellcheck disable=SC2086
"$HONE" run "$t/m.gguf" $ask --temp 0 -q > "$t/got" && cmp "$t/want" "$t/got"
echo "$ask" | "$HONE" run "$t/m.gguf" --temp 0 -q > "$t/got" && cmp "$t/want" "$t/got"
echo "$ask" | "$HONE" run "$t/m.gguf" - --temp 0 -q > "$t/got" && cmp "$t/want" "$t/got"
echo "$ask" > "$t/ask.txt"
"$HONE" run "$t/m.gguf" --file "$t/ask.txt" --temp 0 -q > "$t/got" && cmp "$t/want" "$t/got"
"$HONE" run "$t/m.gguf" -p "The value of" --temp 0 -n 8 -q > "$t/want"
printf 'The value of' | "$HONE" run "$t/m.gguf" -p - --temp 0 -n 8 -q > "$t/got" && cmp "$t/want" "$t/got"
printf 'The value' > "$t/head.txt"
"$HONE" run "$t/m.gguf" --file "$t/head.txt" -p ' of' --temp 0 -n 8 -q > "$t/got" && cmp "$t/want" "$t/got"
# an unread pipe is reported, for every kind of prompt; an empty one is not
for p in "-p Once" "Once" "--chat $t/one.json"; do
    # shellcheck disable=SC2086
    "$HONE" run "$t/m.gguf" $p -n 1 < "$t/ask.txt" > "$t/o" 2> "$t/e" && grep -q 'standard input is not read.*--file -' "$t/e" || { echo "run $p < file: $(cat "$t/e")"; exit 1; }
    # shellcheck disable=SC2086
    # Wine cannot look into a pipe of Linux
    [ -n "${WINE_EXE-}" ] || cat "$t/ask.txt" | { sleep 0.2; exec "$HONE" run "$t/m.gguf" $p -n 1; } > "$t/o" 2> "$t/e" && grep -q 'standard input is not read' "$t/e" || { echo "cat | run $p: $(cat "$t/e")"; exit 1; }
    # shellcheck disable=SC2086
    "$HONE" run "$t/m.gguf" $p -n 1 < /dev/null > "$t/o" 2> "$t/e"
    if grep -q 'is not read' "$t/e"; then echo "run $p < /dev/null: $(cat "$t/e")"; exit 1; fi
done
echo "$ask" | "$HONE" run "$t/m.gguf" --file - Why -n 1 > "$t/o" 2> "$t/e"
if grep -q 'is not read' "$t/e"; then cat "$t/e"; exit 1; fi
# files before the prompt, in order, with an empty line between; the system text first: as if typed
printf '%s' '[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "The value\n\nfirst\n\nWhy?"}]' > "$t/hand.json"
printf 'first\n\n' > "$t/b.txt"
"$HONE" run "$t/m.gguf" --chat "$t/hand.json" --temp 0 -n 5 --json > "$t/want"
"$HONE" run "$t/m.gguf" --system 'Be brief.' --file "$t/head.txt" --file "$t/b.txt" 'Why?' --temp 0 -n 5 --json > "$t/got"
for key in prompt_tokens text; do [ "$(grep "\"$key\"" "$t/want")" = "$(grep "\"$key\"" "$t/got")" ]; done
# a shell loop keeps its input
printf 'one\ntwo\n' | while read -r x; do "$HONE" run "$t/m.gguf" "$x" -n 1 -q; echo "$x"; done > "$t/o"
grep -q '^two$' "$t/o"

# ---- reasoning, content and calls are separate; numbers of calls are unchanged; --raw; --stop; reasoning ----
"$HONE" run "$t/m.gguf" --chat "$t/case.json" --temp 0 --json > "$t/json"
tr -d ' \n' < "$t/json" | grep -q '"tool_calls":\[{"name":"search_docs","arguments":{"query":"valvemanual","limit":12}}\]' || { cat "$t/json"; exit 1; }
grep -q '"reasoning": "I should call search_docs."' "$t/json" && grep -q '"content": ""' "$t/json"
if grep -q 'I should' "$t/call"; then echo "reasoning on stdout"; exit 1; fi
"$HONE" run "$t/m.gguf" --chat "$t/case.json" --temp 0 --raw -q > "$t/o"
grep -q 'I should call' "$t/o" && grep -q '</think>' "$t/o"
"$HONE" run "$t/m.gguf" --chat "$t/case.json" --temp 0 --raw -q --stop nothing --stop 'search_' > "$t/o"
[ "$(cat "$t/o")" = "I should call " ] || { cat "$t/o"; exit 1; }
"$HONE" run "$t/m.gguf" --chat "$t/case.json" --temp 0 --json --stop 'search_' | grep -q '"stop": "stop"'
"$HONE" run "$t/m.gguf" "$ask" --no-think --temp 0 --json > "$t/json"
grep -q '"reasoning": ""' "$t/json"
"$HONE" run "$t/m.gguf" "$ask" --kwargs '{"enable_thinking": false}' --temp 0 --json > "$t/json2"
for key in prompt_tokens text; do [ "$(grep "\"$key\"" "$t/json")" = "$(grep "\"$key\"" "$t/json2")" ]; done
"$HONE" run "$t/m.gguf" -p "The value of" -n 30 --temp 0 --frequency-penalty 2 --presence-penalty 1.5 -q > "$t/o"
"$HONE" run "$t/m.gguf" -p "The value of" -n 30 --temp 0 -q > "$t/o2"
if cmp -s "$t/o" "$t/o2"; then echo "penalties change nothing"; exit 1; fi

# ---- Ctrl-C: the text so far, exit 130 ----
"$HONE" run "$t/m.gguf" -p x -n -1 --ctx 1000000 --temp 60 --top-k 0 --top-p 1 --act f32 --seed 1 > "$t/long" 2> "$t/long.err" &
pid=$!
i=0
while [ ! -s "$t/long" ] && [ $i -lt 300 ]; do sleep 0.1; i=$((i + 1)); done
kill -INT $pid
rc=0
wait $pid || rc=$?
[ $rc = 130 ] && [ -s "$t/long" ] && grep -q '; seed ' "$t/long.err" || { echo "interrupted: exit $rc"; cat "$t/long.err"; exit 1; }

echo '{"messages": [' > "$t/broken.json"
refused 2 "give -p TEXT" run "$t/m.gguf"
refused 2 "the prompt is empty" run "$t/m.gguf" -p ""
refused 2 "cannot be used together" run "$t/m.gguf" -p x --chat "$t/case.json"
refused 3 "broken.json" run "$t/m.gguf" --chat "$t/broken.json"
refused 2 "none.json" run "$t/m.gguf" --chat "$t/none.json"
refused 2 "--kwargs" run "$t/m.gguf" --chat "$t/case.json" --kwargs '[1]'
refused 2 "--kwargs" run "$t/m.gguf" --chat "$t/case.json" --kwargs '{bad'
if grep -q case.json "$t/e"; then echo "the conversation is blamed for --kwargs"; exit 1; fi
refused 2 "no-such" run "$t/no-such.gguf"
refused 2 "no-such" run "$t/no-such.gguf" -p x --temp -1 # the file first
while read -r option value range; do
    refused 2 "$option: '$value' is not a $range" run "$t/m.gguf" -p x "$option" "$value"
done << 'X'
--temp -1 number from 0 to 100
--temp nan number from 0 to 100
--temp inf number from 0 to 100
--temp 1e400 number from 0 to 100
--temp warm number from 0 to 100
--top-p 2 number from 0 to 1
--top-p -0.1 number from 0 to 1
--min-p -1 number from 0 to 1
--min-p 1.01 number from 0 to 1
--top-k -3 whole number from 0 to 2147483647
--top-k 1.5 whole number from 0 to 2147483647
--repeat-penalty 0 number from 0.01 to 100
--presence-penalty 2.5 number from -2 to 2
--frequency-penalty -3 number from -2 to 2
--seed -2 whole number from 0 to 9007199254740992, or -1
--n-predict 0 whole number from 1 to 2147483647, or -1
X
refused 2 "--n-predict: '0' is not" run "$t/m.gguf" -p x -n 0
refused 2 "the prompt is empty" run "$t/m.gguf" ""
refused 2 "--stop: the text is empty" run "$t/m.gguf" x --stop ""
refused 2 "cannot be used together" run "$t/m.gguf" x --think --no-think
refused 2 "give one of them" run "$t/m.gguf" x -p y
refused 2 "--system" run "$t/m.gguf" -p y --system z
printf 'a\000b' > "$t/bin"
refused 3 "bin" run "$t/m.gguf" --file "$t/bin"
refused 2 "context of 3 tokens is full" run "$t/m.gguf" -p "one two three four five six seven" --ctx 3
refused 2 "--kv-type" run "$t/m.gguf" -p x --kv-type q5_k
# a prompt longer than the training context is refused before it is computed; --ctx allows it, with a warning
cp -r tests/golden/models/qwen3 "$t/short"
sed -i 's/"max_position_embeddings": [0-9]*/"max_position_embeddings": 64/' "$t/short/config.json"
"$HONE" convert "$t/short" -o "$t/short.gguf" -q > /dev/null
seq 100 > "$t/long.txt"
refused 2 "but the model was trained for 64: shorten it, or try with --ctx" run "$t/short.gguf" --file "$t/long.txt" -p x -n 1
"$HONE" run "$t/short.gguf" --file "$t/long.txt" -p x -n 1 --ctx 2000 > /dev/null 2> "$t/e"
grep -q "warning: the prompt has [0-9]* tokens, but the model was trained for 64" "$t/e"
# without -n an answer ends where the training context does; with it the context may be longer, with a warning
"$HONE" run "$t/short.gguf" -p "one two" --temp 0 --json > "$t/json" 2> "$t/e"
grep -q '"stop": "context"' "$t/json" || { cat "$t/json"; exit 1; }
if grep -q warning "$t/e"; then cat "$t/e"; exit 1; fi
"$HONE" run "$t/short.gguf" -p "one two" -n 100 > "$t/o" 2> "$t/e"
grep -q "warning: 1[0-9]* tokens of context, but the model was trained for 64" "$t/e" || { cat "$t/e"; exit 1; }
# GPT-2 has no positions beyond its training context
"$HONE" synth --arch-from tests/golden/archs/gpt2/config.json --recipe Q8_0 --tokenizer tests/golden/models/qwen3 -o "$t/gpt2.gguf" -q > "$t/o"
"$HONE" run "$t/gpt2.gguf" -p "one two" -n 500 --temp 0 > "$t/o" 2> "$t/e"
grep -q "the context of 96 tokens is full; the model supports no more" "$t/e" || { cat "$t/e"; exit 1; }
