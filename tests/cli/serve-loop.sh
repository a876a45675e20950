#!/bin/sh
# hone serve: a loop of 20 tool calls on a hybrid model computes only the new tokens, although the client drops the
# reasoning, respells arguments and returns text, not tokens.
set -eu
. tests/serving.sh
number() { grep -o "\"$1\":[0-9]*" "$t/o" | head -1 | cut -d: -f2; }
step() { # sends the conversation, adds the answer and a result to it
    "$t/ask" "$port" -b "{\"messages\": [$talk], $tools, \"temperature\": 0.6, \"seed\": $1, \"max_tokens\": 400, \"reasoning_budget_tokens\": 40, \"tool_choice\": \"required\", \"parallel_tool_calls\": false}" POST /v1/chat/completions > "$t/o"
    call=$(grep -o '"id":"call_[^"]*"' "$t/o" | head -1)
    args=$(grep -o '"arguments":"{.*}"}}' "$t/o" | sed 's/^"arguments":"//; s/"}}$//' | sed 's/\\": /\\":/g; s/, \\"/,\\"/g')
    [ -n "$call" ] || { say "step $1: no call: $(tail -c 600 "$t/o")"; exit 1; }
    grep -q '"reasoning_content":".' "$t/o" && thought=$((thought + 1))
    talk="$talk, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{$call, \"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"arguments\": \"$args\"}}]}"
    result="It is $1 degrees there."
    talk="$talk, {\"role\": \"tool\", \"tool_call_id\": ${call#*:}, \"content\": \"$result\"}"
    "$t/ask" "$port" -b "{\"content\": \"<|im_end|>\\n<|im_start|>user\\n<tool_response>\\n$result\\n</tool_response><|im_end|>\\n<|im_start|>assistant\\n<think>\\n\"}" POST /tokenize > "$t/o"
    last=$(grep -o '"tokens":\[.*\]' "$t/o" | tr -cd ,)
    last=$((${#last} + 1))
    new=$((new + last))
}
tools='"tools": [{"type": "function", "function": {"name": "get_weather", "description": "The weather of a city.", "parameters": {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome", "Cairo", "Lima"]}, "days": {"type": "integer", "minimum": 1, "maximum": 30}}, "required": ["city", "days"]}}}]'
talk='{"role": "system", "content": "You help with the weather, and look it up."}, {"role": "user", "content": "What is the weather in Oslo and in Rome?"}'
new=0 thought=0
start --ctx 8192
step 1
first=$(metric hone_prompt_tokens_computed_total)
for i in $(seq 2 20); do step "$i"; done
new=$((first + new - last))
computed=$(metric hone_prompt_tokens_computed_total)
[ $thought -ge 15 ] || say "only $thought of 20 answers thought: nothing was lost that had to be restored"
[ $((computed * 100)) -le $((new * 105)) ] || say "$computed tokens computed for $new new ones"
# another conversation continues at a client's mark in the prompt; without a mark, before the first message
doc=
for i in $(seq 60); do doc="$doc Rule $i: be kind."; done
marked() { # mark, question: how many tokens were known
    "$t/ask" "$port" -b "{\"max_tokens\": 2, \"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"$1 $doc\"$2}]}, {\"role\": \"assistant\", \"content\": \"Yes.\"}, {\"role\": \"user\", \"content\": \"$3\"}]}" POST /v1/messages > "$t/o"
    number cache_read_input_tokens
}
m=', "cache_control": {"type": "ephemeral"}'
marked A "$m" "What is the first rule?" > /dev/null
[ "$(marked A "$m" "Is there a second one?")" -ge 300 ] || say "where a client marked its prompt nothing is known: $(tail -c 300 "$t/o")"
marked B "" "What is the first rule?" > /dev/null
[ "$(marked B "" "Is there a second one?")" -lt 100 ] || say "marks make no difference"
grep '"api":"messages"' "$t/log" | head -1 | grep -q '"known_tokens":[0-9]*, *"cache_miss":"new"' || say "the log does not say why a prompt was computed: $(tail -1 "$t/log")"
kill -TERM $pid; rc=0; wait $pid || rc=$?; pid=
[ $rc = 0 ] || say "ends with $rc: $(tail -3 "$t/log")"
exit $fail
