#!/bin/sh
# SPDX-License-Identifier: MIT
# Tools in loops, with the tiny model, which was trained on single calls with a result and an answer. Its first call is
# known from hone eval tools; what its world returns must reach the model, and the end state decides.
set -eu
. tests/serving.sh
"$HONE" convert tests/golden/tiny-qwen35moe -o "$t/m.gguf" --type bf16 -q -f > /dev/null
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
passed() { sed -n '/"id": "/h; /"pass": true/{x; s/.*"id": "\(.*\)",/\1/p;}' "$1" | tr '\n' ' '; }
case " $(passed "$t/loops")" in *" call-000 "*) ;; *) say "call-000 does not pass: $(passed "$t/loops")" ;; esac
[ "$(num "$t/loops" n_passed)" -ge 2 ] || say "fewer than two loops pass"
# of the grades of calls, loops have the first two
[ "$(num "$t/loops" n_parsed)" -ge "$(num "$t/single" n_parsed)" ] && [ "$(num "$t/loops" n_valid)" -ge 1 ] || say "loops: calls are not counted"
grep -q '"n_named"\|"n_equal"' "$t/loops" && say "loops are compared with an expected call"
# each loop begins with the call of the single case
sed -n 's/^ *"answer": "\(.*\)",$/\1/p' "$t/single" > "$t/a"
sed -n 's/^ *"answer": "\(.*\)",$/\1/p' "$t/loops" > "$t/b"
while read -r first && read -r all <&3; do
    case $all in "$first"*) ;; *) say "the loop '$all' does not begin with '$first'" ;; esac
done < "$t/a" 3< "$t/b"
# a loop can only pass if its call was right; the same model has the same answers
[ "$(num "$t/loops" n_passed)" -le "$(num "$t/single" n_equal)" ] || say "more loops passed than first calls were right"
[ "$(num "$t/loops" n_same_as_base)" = "$n" ] || say "a model differs from itself"
grep -q '"constrained_pass": true' "$t/loops" && grep -q '"constrained_answer": "' "$t/loops" || say "no constrained answers"
[ "$(num "$t/loops" n_passed_constrained)" -ge "$(num "$t/loops" n_passed)" ] || say "constrained calls pass less often"
# over the server's API, with this script as the world, the calls and the last text are the same (bench/loops_server.py
# does it for whole suites, and judges by rules of its own)
serve "$t/m.gguf" --context-memory 64MiB --kv-type f32 --act f32 --constrain off
same() { sed 's/\\//g; s/\([:,]\) "/\1"/g; s/": /":/g; s/, "/,"/g'; } # JSON without blanks, quotes escaped or not
while read -r line <&3 && read -r want <&4; do
    more=$(printf '%s' "$line" | sed 's/^.*"tools": /"tools": /; s/, "expect": .*//')
    talk=$(printf '%s' "$line" | sed 's/^.*"messages": \[//; s/\], "tools": .*//')
    post /v1/chat/completions "{\"messages\": [$talk], $more, \"temperature\": 0, \"max_tokens\": 64}"
    name=$(sed -n 's/.*"function":{"name":"\([a-z_]*\)".*/\1/p' "$t/o")
    args=$(sed -n 's/.*"arguments":"\({.*}\)"}}\].*/\1/p' "$t/o")
    case $(printf '%s' "$want" | same) in "$name$(printf '%s' "$args" | same)"*) ;; *) say "served: $name$args, in process: $want" ;; esac
    case $want in *'} '*'{'*) continue ;; esac # more than one call
    result='{\"ok\": true}'
    [ "$(printf '%s' "$line" | grep -c "\"expect\": {\"name\": \"$name\", \"arguments\": $(printf '%s' "$args" | sed 's/\\//g')}")" = 1 ] || result='{\"error\": \"nothing found for these arguments\"}'
    talk="$talk, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"call00001\", \"type\": \"function\", \"function\": {\"name\": \"$name\", \"arguments\": \"$args\"}}]}, {\"role\": \"tool\", \"tool_call_id\": \"call00001\", \"content\": \"$result\"}"
    post /v1/chat/completions "{\"messages\": [$talk], $more, \"temperature\": 0, \"max_tokens\": 64}"
    text=$(sed -n 's/.*"content":"\(.*\)","refusal".*/\1/p' "$t/o")
    case $want in *"\\\"$text\\\"") n_same=$((${n_same:-0} + 1)) ;; *) say "served: $text, in process: $want" ;; esac
done 3< "$t/single.jsonl" 4< "$t/b"
[ "${n_same:-0}" -ge 2 ] || say "only ${n_same:-0} loops were compared to their end"
stop

# no step left for the answer, and a goal that the world cannot reach: none passes
sed 's/"max_steps": 3/"max_steps": 1/' "$t/loops.jsonl" > "$t/short.jsonl"
run 0 eval tools "$t/m.gguf" "$t/short.jsonl" --max-tokens 64 --json
[ "$(num "$t/o" n_passed)" = 0 ] && grep -q "no end within the steps\|'done' is not true" "$t/o" || say "a loop of one step passed"
# a goal that holds from the start, and an answer that the limit cuts: the model did not end it
sed 's/"loop": {"results": .*$/"loop": {"results": [], "state": {"a": 1}, "goal": {"a": 1}}}/' "$t/loops.jsonl" | head -n 1 > "$t/cut.jsonl"
run 0 eval tools "$t/m.gguf" "$t/cut.jsonl" --max-tokens 3 --json
[ "$(num "$t/o" n_cut)" = 1 ] && [ "$(num "$t/o" n_passed)" = 0 ] && grep -q 'cut at the limit' "$t/o" || say "a cut answer passed: $(cat "$t/o")"
sed 's/"goal": {"done": true}/"goal": {"done": false}/' "$t/loops.jsonl" > "$t/never.jsonl"
run 0 eval tools "$t/m.gguf" "$t/never.jsonl" --max-tokens 64 --json
[ "$(num "$t/o" n_passed)" = 0 ] || say "a goal was reached that nothing sets"

# thinking is kept between calls: this template refuses calls without it
{
    printf '%s' "{% for m in messages %}{% if m.tool_calls and not m.reasoning_content %}{{ raise_exception('no thinking') }}{% endif %}{% endfor %}"
    cat tests/golden/tiny-qwen35moe/chat_template.jinja
} > "$t/thinking.jinja"
cp "$t/m.gguf" "$t/think.gguf"
"$HONE" meta "$t/think.gguf" tokenizer.chat_template=@"$t/thinking.jinja" -q > /dev/null 2>&1 || say "hone meta failed"
run 0 eval tools "$t/think.gguf" "$t/loops.jsonl" --max-tokens 64 --json
[ "$(passed "$t/o")" = "$(passed "$t/loops")" ] || say "with a template that needs the thinking, others pass: $(passed "$t/o")"
sed 's/"messages": \[\(.*\)\], "tools": /"messages": [\1, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {}}}]}, {"role": "tool", "content": "1"}], "tools": /' \
    "$t/loops.jsonl" | head -n 1 > "$t/start.jsonl"
refused 3 "no thinking" eval tools "$t/think.gguf" "$t/start.jsonl" --max-tokens 8
sed -i 's/"role": "assistant", "content": "", /&"reasoning_content": "Let me see.", /' "$t/start.jsonl"
run 0 eval tools "$t/think.gguf" "$t/start.jsonl" --max-tokens 8

# stop texts: the answer ends before them, also when it comes from --keep
echo '{"text": "The river", "max_tokens": 24, "checks": {"excludes": "e"}}' > "$t/on.jsonl"
echo '{"text": "The river", "max_tokens": 24, "stop": ["e", "zz"], "checks": {"excludes": "e"}}' > "$t/stop.jsonl"
for i in 1 2; do
    run 0 eval checks "$t/m.gguf" "$t/on.jsonl" --keep "$t/kept" --json
    [ "$(num "$t/o" n_passed)" = 0 ] && [ "$(num "$t/o" n_cut)" = 1 ] || say "no answer to stop: $(cat "$t/o")"
    run 0 eval checks "$t/m.gguf" "$t/stop.jsonl" --keep "$t/kept" --json
    [ "$(num "$t/o" n_passed)" = 1 ] && [ "$(num "$t/o" n_cut)" = 0 ] || say "no stop: $(cat "$t/o")"
done

# the built-in suites
run 0 eval tools "$t/m.gguf" loops --cases 3 --max-tokens 24 --json
[ "$(num "$t/o" n_cases)" = 3 ] || say "loops: not 3 cases"
run 0 eval checks "$t/m.gguf" --max-tokens 8 --json
[ "$(num "$t/o" n_cases)" = 16 ] || say "checks: not 16 cases"
refused 3 "nor a \"goal\" with values" eval tools "$t/m.gguf" "$(sed 's/"goal": {[^}]*}/"goal": {}/' "$t/loops.jsonl" > "$t/empty.jsonl"; echo "$t/empty.jsonl")"
refused 3 "a case with \"loop\" needs \"messages\"" eval tools "$t/m.gguf" "$(printf '%s\n' '{"prompt": "x", "loop": {"results": [], "goal": {"a": 1}}}' > "$t/bad.jsonl"; echo "$t/bad.jsonl")"
exit $fail
