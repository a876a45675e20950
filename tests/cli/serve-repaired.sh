#!/bin/sh
# hone serve with repaired templates: two turns with parallel calls, empty arguments, null content, results and a second system message
# survive in all four APIs, which all build the same prompt.
set -eu
. tests/serving.sh
number() { grep -o "\"$1\": *[0-9]*" "$t/o" | head -1 | tr -cd 0-9; }
weather='{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}'
none='{"type": "object", "properties": {}}'
tool() { echo "{\"type\": \"function\", \"function\": {\"name\": \"$1\", \"description\": \"D.\", \"parameters\": $2}}"; }
tools="[$(tool get_weather "$weather"), $(tool ping "$none")]"
call() { echo "{\"id\": \"$1\", \"type\": \"function\", \"function\": {\"name\": \"$2\", \"arguments\": $3}}"; }
two="$(call call_0001 get_weather '"{\"city\": \"Zq7Oslo\"}"'), $(call call_0002 ping '"{}"')"
chat="[{\"role\": \"system\", \"content\": \"Zq7kind\"}, {\"role\": \"user\", \"content\": \"Zq7ask\"}, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [$two]}, {\"role\": \"tool\", \"tool_call_id\": \"call_0001\", \"name\": \"get_weather\", \"content\": \"Zq7rain\"}, {\"role\": \"tool\", \"tool_call_id\": \"call_0002\", \"name\": \"ping\", \"content\": \"Zq7pong\"}, {\"role\": \"assistant\", \"content\": \"Zq7said\"}, {\"role\": \"user\", \"content\": \"Zq7more\"}]"
ollama=$(echo "$chat" | sed 's/"{\\"city\\": \\"Zq7Oslo\\"}"/{"city": "Zq7Oslo"}/; s/"arguments": "{}"/"arguments": {}/; s/"content": null/"content": ""/; s/"name": \("[a-z_]*", "content"\)/"tool_name": \1/g')
responses='[{"role": "user", "content": "Zq7ask"}, {"type": "function_call", "call_id": "call_0001", "name": "get_weather", "arguments": "{\"city\": \"Zq7Oslo\"}"}, {"type": "function_call", "call_id": "call_0002", "name": "ping", "arguments": "{}"}, {"type": "function_call_output", "call_id": "call_0001", "output": "Zq7rain"}, {"type": "function_call_output", "call_id": "call_0002", "output": "Zq7pong"}, {"role": "assistant", "content": "Zq7said"}, {"role": "user", "content": "Zq7more"}]'
flat="[{\"type\": \"function\", \"name\": \"get_weather\", \"description\": \"D.\", \"parameters\": $weather}, {\"type\": \"function\", \"name\": \"ping\", \"description\": \"D.\", \"parameters\": $none}]"
claude='[{"role": "user", "content": "Zq7ask"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "call_0001", "name": "get_weather", "input": {"city": "Zq7Oslo"}}, {"type": "tool_use", "id": "call_0002", "name": "ping", "input": {}}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_0001", "content": "Zq7rain"}, {"type": "tool_result", "tool_use_id": "call_0002", "content": "Zq7pong"}]}, {"role": "assistant", "content": "Zq7said"}, {"role": "user", "content": "Zq7more"}]'
schemas="[{\"name\": \"get_weather\", \"description\": \"D.\", \"input_schema\": $weather}, {\"name\": \"ping\", \"description\": \"D.\", \"input_schema\": $none}]"

# templates written here, and published ones of eight families if present
published=../shared/golden/templates/jinja
families="Qwen-Qwen3-0.6B meta-llama-Llama-3.1-8B-Instruct Mistral-Small-3.2-24B-Instruct-2506 GLM-4.6 MiniMax-M2 Kimi-K2-Instruct openai-gpt-oss-120b deepseek-ai-DeepSeek-V3.1"
[ -d $published ] || families=
for name in chatml tags headers turns pasted $families; do
    src=tests/golden/templates/repair/$name.jinja
    [ -e $src ] || src=$published/$name.jinja
    "$HONE" template fix $src -o "$t/$name.jinja" > /dev/null 2>&1 || say "$name: fix"
    start --template "$t/$name.jinja" --ctx 4096
    post /apply-template "{\"messages\": $chat, \"tools\": $tools}"
    is 200 "$name: the prompt"
    order=$(grep -o 'Zq7[a-z]*\|Zq7Oslo' "$t/o" | tr '\n' ' ')
    [ "$order" = 'Zq7kind Zq7ask Zq7Oslo Zq7rain Zq7pong Zq7said Zq7more ' ] || say "$name: the prompt has: $order"
    has ping
    post /v1/chat/completions "{\"messages\": $chat, \"tools\": $tools, \"max_tokens\": 4}"
    is 200 "$name: chat"
    n=$(number prompt_tokens)
    [ "$n" -gt 50 ] || say "$name: chat: $n tokens"
    post /v1/responses "{\"instructions\": \"Zq7kind\", \"input\": $responses, \"tools\": $flat, \"max_output_tokens\": 16}"
    is 200 "$name: responses"
    [ "$(number input_tokens)" = "$n" ] || say "$name: responses: $(number input_tokens) tokens, chat $n"
    post /v1/messages "{\"system\": \"Zq7kind\", \"messages\": $claude, \"tools\": $schemas, \"max_tokens\": 4}"
    is 200 "$name: messages"
    m=$(($(number input_tokens) + $(number cache_read_input_tokens) + $(number cache_creation_input_tokens)))
    [ "$m" = "$n" ] || say "$name: messages: $m tokens, chat $n"
    post /api/chat "{\"messages\": $ollama, \"tools\": $tools, \"stream\": false, \"options\": {\"num_predict\": 4}}"
    is 200 "$name: ollama"
    [ "$(number prompt_eval_count)" = "$n" ] || say "$name: ollama: $(number prompt_eval_count) tokens, chat $n"
    # a call made by the model, its result, and a second system message in between
    post /v1/chat/completions "{\"messages\": [{\"role\": \"user\", \"content\": \"Weather?\"}], \"tools\": $tools, \"tool_choice\": \"required\", \"seed\": 1, \"max_tokens\": 200}"
    is 200 "$name: a call"
    id=$(grep -o '"id": *"call_[^"]*"' "$t/o" | head -1 | cut -d'"' -f4)
    [ -n "$id" ] || say "$name: no call: $(head -c 400 "$t/o")"
    first=$(grep -o '"function": *{"name": *"[a-z_]*"' "$t/o" | head -1 | cut -d'"' -f6)
    post /v1/chat/completions "{\"messages\": [{\"role\": \"system\", \"content\": \"A\"}, {\"role\": \"system\", \"content\": \"B\"}, {\"role\": \"user\", \"content\": \"Weather?\"}, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [$(call "$id" "${first:-ping}" '"{}"')]}, {\"role\": \"tool\", \"tool_call_id\": \"$id\", \"content\": \"Sun.\"}], \"tools\": $tools, \"max_tokens\": 8}"
    is 200 "$name: its result"
    stop
done
# a template that prints a call's id as its name, as Kimi's do
cat > "$t/ids.jinja" << 'X'
{%- for t in tools %}{{ t.function.name }};{% endfor -%}
{%- for m in messages -%}<|im_start|>{{ m.role }} {{ m.tool_call_id or '' }}: {{ m.content }}
{%- for c in m.tool_calls -%}<|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>{{ c.function.arguments | tojson }}<|tool_call_end|>{%- endfor -%}<|im_end|>
{%- endfor -%}
X
start --template "$t/ids.jinja" --ctx 4096
post /apply-template "{\"messages\": $chat, \"tools\": $tools}"
is 200 'ids as names'
for w in '<|tool_call_begin|>functions.get_weather:0<' '<|tool_call_begin|>functions.ping:1<' 'tool functions.get_weather:0: Zq7rain' 'tool functions.ping:1: Zq7pong'; do has "$w"; done
stop
if on_wine; then exit $fail; fi # what follows repairs files in place
# --template fix: each file's own, repaired in memory
cp "$t/m.gguf" "$t/own.gguf"
"$HONE" template fix "$t/own.gguf" --replace qwen3 --in-place > /dev/null 2>&1
serve "$t/own.gguf" --template fix --context-memory 64MiB
post /v1/chat/completions '{"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}'
is 200 "--template fix"
stop
# eval tools: a file gives the same calls before and after its template was repaired in place
cp "$t/m.gguf" "$t/r.gguf"
"$HONE" template fix "$t/r.gguf" --in-place > /dev/null 2>&1 || say "fix --in-place"
head -1 tests/golden/tiny-qwen35moe/tools.jsonl > "$t/one.jsonl"
"$HONE" eval tools "$t/r.gguf" "$t/one.jsonl" --base "$t/m.gguf" --json -q > "$t/o" 2> "$t/log" || say "eval tools: $(cat "$t/log")"
grep -q '"n_parsed": 1' "$t/o" && grep -q '"n_same_as_base": 1' "$t/o" || say "eval tools of a repaired file: $(head -c 600 "$t/o")"
# the same with the published templates: with constrained calls, one is made and valid; without, the answers are those before the repair
# (DeepSeek V3.1 lists its tools only now)
for name in $families; do
    mkdir "$t/$name"
    cp tests/golden/tiny-qwen35moe/*.json tests/golden/tiny-qwen35moe/*.safetensors "$t/$name"
    cp $published/$name.jinja "$t/$name/chat_template.jinja"
    "$HONE" convert "$t/$name" -o "$t/b.gguf" -f -q > /dev/null
    cp "$t/b.gguf" "$t/r.gguf"
    "$HONE" template fix "$t/r.gguf" --in-place > /dev/null 2>&1 || say "$name: fix --in-place"
    "$HONE" eval tools "$t/r.gguf" "$t/one.jsonl" --base "$t/b.gguf" --constrained --json -q > "$t/o" 2> "$t/log" || say "$name: $(cat "$t/log")"
    [ "$(grep -o '"constrained_n": *[0-9]*' "$t/o" | head -2 | tr -cd '0-9\n' | tr '\n' ' ')" = '1 1 ' ] || say "$name: no constrained call: $(head -c 600 "$t/o")"
    [ $name = deepseek-ai-DeepSeek-V3.1 ] || grep -q '"n_same_as_base": 1' "$t/o" || say "$name: other answers: $(head -c 600 "$t/o")"
    rm -r "${t:?}/$name"
done
exit $fail
