#!/bin/sh
# hone serve --record and the commands that read records: the same model file answers recorded requests with the same
# tokens, greedily and with the recorded seeds; a different file's deviations are reported by kind and place;
# calibration and suites accept the lines, which contain no API keys.
set -eu
. tests/serving.sh
post() { "$t/ask" "$port" -b "$2" POST "$1" 'Authorization: Bearer secret-of-sixteen' > "$t/o" || say "POST $1 fails"; }
value() { sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\",]*\).*/\1/p" "$t/o" | head -1; }
is() { [ "$(value "$1")" = "$2" ] || say "$3: $1 is '$(value "$1")', expected $2: $(head -c 1500 "$t/o")"; }
echo secret-of-sixteen > "$t/keys"

# ---- of a tool loop, only the last line; settings by name ----
echo '{"fixed": {"temperature": 0, "max_tokens": 3, "stop": ["zzz"], "kwargs": {"enable_thinking": false}}}' > "$t/presets"
start --ctx 2048 --record "$t/last.jsonl" --record-last --preset "$t/presets" --strict
hi='{"role": "user", "content": "Tell me something."}'
c=/v1/chat/completions
post $c "{\"messages\": [$hi], \"preset\": \"fixed\"}"
said=$(sed -n 's/.*"message":{"role":"assistant","content":\("[^"]*"\).*/\1/p' "$t/o")
grep -q '"completion_tokens":3,' "$t/o" || say "a preset of 3 tokens: $(tail -n 1 "$t/o")"
post $c "{\"model\": \"m@fixed\", \"messages\": [$hi], \"max_tokens\": 2}"
grep -q '"completion_tokens":2,' "$t/o" || say "the request says 2 tokens: $(tail -n 1 "$t/o")"
post $c "{\"messages\": [$hi], \"preset\": \"none\"}"
grep -q "no such preset: 'none'" "$t/o" || say "an unknown preset: $(tail -n 1 "$t/o")"
post $c "{\"messages\": [$hi, {\"role\": \"assistant\", \"content\": $said}, $hi], \"preset\": \"fixed\"}"
kill -TERM $pid; wait $pid || true; pid=
[ "$(wc -l < "$t/last.jsonl")" = 2 ] || say "of three lines one continues another, but there are $(wc -l < "$t/last.jsonl")"
[ "$(grep -o '"role":"user"' "$t/last.jsonl" | wc -l)" = 3 ] || say "the wrong line is gone: $(cat "$t/last.jsonl")"
echo '{"x": {"temprature": 1}}' > "$t/presets"
rc=0; "$HONE" serve "$t/m.gguf" --preset "$t/presets" 2> "$t/e" || rc=$?
[ $rc = 2 ] && grep -q temprature "$t/e" || say "a preset that nobody reads: $rc $(cat "$t/e")"

start --ctx 2048 --record "$t/rec.jsonl" --log "$t/log.jsonl" --api-key-file "$t/keys"
has_lines() { # file, how many: they are written when the answer is out already
    i=0
    while [ "$(wc -l < "$1")" -lt "$2" ] && [ $i -lt 200 ]; do i=$((i + 1)); sleep 0.05; done
}
post /v1/completions '{"prompt": "The cat", "max_tokens": 1}'
has_lines "$t/rec.jsonl" 1; has_lines "$t/log.jsonl" 1
mv "$t/rec.jsonl" "$t/moved.jsonl"; mv "$t/log.jsonl" "$t/log.1"
tools='"tools": [{"type": "function", "function": {"name": "get_weather", "description": "The weather of a city.", "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "unit": {"type": "string"}}, "required": ["city"]}}}]'
for c in Oslo Rome; do
    post /v1/chat/completions "{\"messages\": [{\"role\": \"user\", \"content\": \"What is the weather in $c?\"}], $tools, \"temperature\": 0, \"max_tokens\": 100}"
done
post /v1/messages '{"max_tokens": 12, "temperature": 0, "thinking": {"type": "disabled"}, "messages": [{"role": "user", "content": "Tell me something."}]}'
post /v1/responses '{"max_output_tokens": 12, "temperature": 0, "input": "Tell me something."}'
post /v1/completions '{"prompt": "The cat", "max_tokens": 8, "temperature": 0}'
has_lines "$t/rec.jsonl" 5
cp "$t/rec.jsonl" "$t/greedy.jsonl"
post /v1/chat/completions '{"messages": [{"role": "user", "content": "Tell me something."}], "max_tokens": 16, "temperature": 1, "seed": 7, "n": 2}'
post /v1/completions '{"prompt": "The", "guided_regex": "[a-c]{3}-[0-9]{4}", "temperature": 1}'
kill -TERM $pid; wait $pid || true; pid=
[ "$(wc -l < "$t/moved.jsonl") $(wc -l < "$t/log.1") $(wc -l < "$t/log.jsonl")" = '1 1 7' ] || say "files that were moved away: $(wc -l "$t/moved.jsonl" "$t/log.1" "$t/log.jsonl")"
[ "$(wc -l < "$t/rec.jsonl")" = 8 ] || say "$(wc -l < "$t/rec.jsonl") lines, expected 8"
on_wine || [ "$(stat -c %a "$t/rec.jsonl")" = 600 ] || say "a record that others may read: $(ls -l "$t/rec.jsonl")"
! grep -q secret "$t/rec.jsonl" || say "a key is in the record"

# a record left incomplete by a killed server and readable by others: the next line is separate, and permissions are
# restricted
{ head -n 1 "$t/greedy.jsonl"; printf '{"partial": tru'; } > "$t/torn.jsonl"
chmod 644 "$t/torn.jsonl"
start --ctx 2048 --record "$t/torn.jsonl"
grep -q 'torn.jsonl: others could read or write this file (mode 644); now only its owner can' "$t/log" || say "an open record: $(cat "$t/log")"
on_wine || [ "$(stat -c %a "$t/torn.jsonl")" = 600 ] || say "a record that others may read: $(ls -l "$t/torn.jsonl")"
post /v1/completions '{"prompt": "The cat", "max_tokens": 8, "temperature": 0}'
has_lines "$t/torn.jsonl" 3
kill -TERM $pid; wait $pid || true; pid=
[ "$(sed -n 2p "$t/torn.jsonl")" = '{"partial": tru' ] && [ "$(wc -l < "$t/torn.jsonl")" = 3 ] || say "after a torn line: $(cat "$t/torn.jsonl")"
"$HONE" eval traffic "$t/m.gguf" "$t/torn.jsonl" --json > "$t/o" 2> "$t/e"
is n_answers 2 'a torn record'
grep -q 'torn.jsonl: 1 line is torn and skipped, the first is line 2' "$t/e" || say "a torn record: $(cat "$t/e")"
rc=0; sed -n 2p "$t/torn.jsonl" > "$t/bad.jsonl"; "$HONE" eval traffic "$t/m.gguf" "$t/bad.jsonl" 2> "$t/e" || rc=$?
[ $rc = 3 ] && grep -q 'bad.jsonl: line 1' "$t/e" || say "a record of nothing: $rc $(cat "$t/e")"

"$HONE" eval traffic "$t/m.gguf" "$t/greedy.jsonl" --json > "$t/o"
is n_answers 5 'the same file'; is n_same_tokens 5 'the same file'; is n_kept 5 'the same file'
"$HONE" eval traffic "$t/m.gguf" "$t/rec.jsonl" --sampled --require 100 --json > "$t/o"
is n_same_tokens 8 'with the recorded seeds'; is n_kept 8 'with the recorded seeds'

# a constructed different answer: different arguments, a different tool, a missing call, an extra call
ask='"messages": [{"role": "user", "content": "What is the weather in Oslo?"}, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "get_weather", "arguments": {"city": '
grep -o '"tool_calls":\[{"name":"get_weather","arguments":{[^}]*}}\]' "$t/rec.jsonl" | head -1 | sed 's/.*"arguments"://; s/}]$//' > "$t/args"
unit=$(sed 's/.*"city": "Oslo"//' "$t/args")
{
    echo "{\"id\": \"a\", $ask\"Paris\"$unit}}]}], $tools}"
    echo "{\"id\": \"b\", $ask\"Oslo\"$unit}}]}], $tools}" | sed 's/"name": "get_weather", "arguments"/"name": "other", "arguments"/'
    echo "{\"id\": \"c\", $ask\"Oslo\"$unit}}, {\"function\": {\"name\": \"get_weather\", \"arguments\": \"{}\"}}]}], $tools}"
    echo "{\"id\": \"d\", \"messages\": [{\"role\": \"user\", \"content\": \"What is the weather in Oslo?\"}, {\"role\": \"assistant\", \"content\": \"Cold.\"}], $tools}"
    echo "{\"id\": \"e\", $ask\"Oslo\"$unit}}]}], $tools}"
    echo "{\"id\": \"f\", $ask\"Oslo\"$unit}}]}], $tools, \"hone\": {\"end\": \"left\"}}"
} > "$t/hand.jsonl"
sed -i 's/"messages"/"hone": {"sampling": {"temperature": 0}}, "messages"/' "$t/hand.jsonl"
sed -i '6s/"hone": {"sampling": {"temperature": 0}}, //' "$t/hand.jsonl"
rc=0
"$HONE" eval traffic "$t/m.gguf" "$t/hand.jsonl" --base "$t/base.gguf" --require 50 --all --json > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 1 ] || say "one answer of five, 50 % required: exit $rc, $(cat "$t/e")"
is n_answers 5 'by hand'; is n_left_out 1 'by hand'; is n_kept 1 'by hand'
tr -d '\n' < "$t/o" | tr -s ' ' > "$t/line"
for w in '"id": "a", "kind": "arguments", "detail": "get_weather.city: \"Paris\" -> \"Oslo\""' '"id": "b", "kind": "tool", "detail": "other -> get_weather"' \
    '"id": "c", "kind": "missing"' '"id": "d", "kind": "extra"'; do
    grep -qF "$w" "$t/line" || say "no $w in: $(cat "$t/line")"
done

# the other readers
"$HONE" eval tools "$t/m.gguf" "$t/greedy.jsonl" --from-answers --act q8 --kv-type f16 --json > "$t/o" 2> "$t/e"
is n_cases 4 'as a suite'
head -n 2 "$t/greedy.jsonl" > "$t/calls.jsonl"
"$HONE" eval tools "$t/m.gguf" "$t/calls.jsonl" --from-answers --act q8 --kv-type f16 --json > "$t/o"
is n_passed 2 'its own calls as a suite'
"$HONE" imatrix "$t/base.gguf" "$t/rec.jsonl" -o "$t/i.gguf" -q > /dev/null 2> "$t/e" || say "imatrix of a record: $(cat "$t/e")"
rc=0
"$HONE" eval traffic "$t/m.gguf" "$t/none.jsonl" > /dev/null 2>&1 || rc=$?
[ $rc = 2 ] || say "a record that is not there: exit $rc"
exit $fail
