#!/bin/sh
# Schemas and grammars that are costly to compile: they are refused after a number of steps, not after some time; other
# requests are answered meanwhile; and the work ends if the client disconnects or a signal arrives.
set -eu
. tests/serving.sh
awk 'BEGIN { printf "{\"prompt\": \"a\", \"max_tokens\": 2, \"json_schema\": {\"$defs\": {\"x\": {}"
    for (i = 0; i < 9000; i++) printf ", \"a%d\": {\"$anchor\": \"n%d\", \"type\": \"null\"}", i, i
    printf "}, \"anyOf\": [true"; for (i = 0; i < 9000; i++) printf ", {\"$ref\": \"#n%d\"}", i; print "]}}" }' > "$t/costly"
awk 'BEGIN { printf "{\"prompt\": \"a\", \"max_tokens\": 2, \"grammar\": \"root ::="; for (i = 0; i < 20000; i++) printf " \\\"a\\\"? \\\"b\\\"?"; print "\"}" }' > "$t/ways"
awk 'BEGIN { printf "{\"prompt\": \"a\", \"max_tokens\": 2, \"json_schema\": {\"type\": \"object\", \"properties\": {\""
    for (i = 0; i < 100000; i++) printf "a"; print "\": {}}}}" }' > "$t/long"
sed 's/^.*"json_schema": \(.*\)}$/{"messages": [{"role": "user", "content": "x"}], "max_tokens": 2, "tools": [{"type": "function", "function": {"name": "f", "strict": false, "parameters": \1}}]}/' "$t/costly" > "$t/tool"
sed 's/"strict": false/"strict": true/' "$t/tool" > "$t/held"
raw() { # file: the request that posts it
    case $1 in */tool | */held) path=/v1/chat/completions ;; *) path=/v1/completions ;; esac
    printf 'POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %s\r\n\r\n' $path "$(wc -c < "$1")"
    cat "$1"
}
for f in costly ways long tool held; do raw "$t/$f" > "$t/$f.raw"; done
post() { "$t/ask" "$port" -r "$t/$1.raw" > "$t/o" || say "POST fails: $1"; }
cat > "$t/names.jinja" << 'X' # without the parameters, which are long here
{%- for t in tools %}{{ t.function.name }};{% endfor -%}
{%- for m in messages -%}{{ m.role }}: {{ m.content }}
{%- for c in m.tool_calls -%}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{%- endfor -%}
{%- endfor -%}
X

start --ctx 512 --template "$t/names.jinja"
post costly
grep -q ' 400 ' "$t/o" && grep -q 'it takes more than 100000000 steps to compile' "$t/o" || say "a costly schema: $(head -c 600 "$t/o")"
post ways
grep -q ' 400 ' "$t/o" && grep -q 'the grammar is too large' "$t/o" || say "a grammar of too many ways: $(head -c 600 "$t/o")"
post long
grep -q ' 200 ' "$t/o" || say "a long name: $(head -c 600 "$t/o")"

# as a tool's parameters it leaves the tool's calls unconstrained, unless the tool is strict
post tool
grep -q ' 200 ' "$t/o" || say "a costly tool: $(head -c 600 "$t/o")"
post held
grep -q ' 400 ' "$t/o" || say "a costly tool that is strict: $(head -c 600 "$t/o")"

# more of them than compiler threads: other requests are answered first, and a signal ends work in progress
for i in 1 2 3 4 5 6; do "$t/ask" "$port" -r "$t/costly.raw" > "$t/o$i" & all="${all:-} $!"; done
"$t/ask" "$port" -b '{"prompt": "The cat", "max_tokens": 2}' POST /v1/completions > "$t/o" || say 'a request beside them'
grep -q ' 200 ' "$t/o" || say "a request beside costly ones: $(head -c 600 "$t/o")"
kill -TERM $pid; rc=0; wait $pid || rc=$?; pid=
[ $rc = 0 ] || [ $rc = 143 ] || [ $rc = 130 ] || say "the server ends with $rc"
wait $all || true
for i in 1 2 3 4 5 6; do grep -qE ' (400|503) ' "$t/o$i" || [ ! -s "$t/o$i" ] || say "what was under way: $(head -c 300 "$t/o$i")"; done
exit $fail
