#!/bin/sh
# hone serve: each fault of a client, its requests or the machine gives the right status and leaves nothing: all slots
# and memory except caches are released, and the next request is answered as before.
set -eu
. tests/serving.sh
status_of() { sed -n '1s/HTTP\/1.1 \([0-9]*\).*/\1/p' "$t/raw"; }
raw() { # expected status, what, printf text of a request
    printf "$3" > "$t/r"
    "$t/ask" "$port" -r "$t/r" > "$t/raw" || say "$2: nothing comes"
    [ "$(status_of)" = "$1" ] || say "$2: status $(status_of), expected $1"
}
body() { # expected status, what, path, file of a body
    size=$(wc -c < "$4")
    { printf 'POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n' "$3" "$size"; cat "$4"; } > "$t/r"
    "$t/ask" "$port" -r "$t/r" > "$t/raw" || say "$2: nothing comes"
    [ "$(status_of)" = "$1" ] || say "$2: status $(status_of), expected $1: $(tail -c 300 "$t/raw")"
}
says() { printf '%b' "$4" > "$t/b"; body "$1" "$2" "$3" "$t/b"; } # the same, for a text
answer() { "$t/ask" "$port" -b '{"prompt": "The cat", "max_tokens": 12, "temperature": 0, "cache_prompt": false}' POST /v1/completions | grep -o '"text":"[^"]*"'; }

c=/v1/chat/completions
start --ctx 8192 --parallel 2 --queue 8
first=$(answer)
[ -n "$first" ] || say "no answer at all"
quiet 'the first answer'
idle=$(metric hone_context_bytes)

# ---- clients that disconnect: during the prompt, in the queue, during thinking, an answer or a call, before the body
# has arrived ----
long=$(printf 'word %.0s' $(seq 5000))
go_on='"max_tokens": 4000, "ignore_eos": true, "temperature": 1, "cache_prompt": false'
"$t/ask" "$port" -t 30 -b "{\"prompt\": \"$long\", $go_on}" POST /v1/completions > /dev/null; quiet 'left in the prompt'
for i in 1 2 3 4; do "$t/ask" "$port" -t 300 -b "{\"prompt\": \"The $i\", $go_on}" POST /v1/completions > /dev/null & w="${w:-} $!"; done
wait $w; quiet 'left in the queue'
talk="\"messages\": [{\"role\": \"user\", \"content\": \"What is the weather in Oslo?\"}], \"stream\": true"
"$t/ask" "$port" -l 400 -b "{$talk, $go_on}" POST $c > /dev/null; quiet 'left in thinking'
"$t/ask" "$port" -l 1 -b "{$talk, $go_on}" POST $c > /dev/null; quiet 'left before the first token'
"$t/ask" "$port" -t 400 -b "{$talk, $go_on, \"tool_choice\": \"required\", \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"string\", \"minLength\": 200}}, \"required\": [\"x\"]}}}]}" POST $c > /dev/null; quiet 'left in a call'
printf 'POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n{"half' $c > "$t/r"
"$t/ask" "$port" -t 30 -r "$t/r" > /dev/null; quiet 'left in the body'
printf 'GET /heal' > "$t/r"; "$t/ask" "$port" -t 30 -r "$t/r" > /dev/null; quiet 'left in the head'
# on a busy machine, clients that disconnect after a time may have done so before their requests were read
[ "$(metric hone_requests_cancelled_total)" -ge 2 ] || say "only $(metric hone_requests_cancelled_total) were seen to leave"
[ "$(metric hone_context_bytes)" = "$idle" ] || say "memory is left behind: $(metric hone_context_bytes), at first $idle"

# ---- a full queue ----
w=
for i in 1 2 3 4 5 6 7 8 9 10; do "$t/ask" "$port" -t 100000 -b "{\"prompt\": \"The $i\", $go_on}" POST /v1/completions > /dev/null & w="$w $!"; done
i=0
while [ "$(metric hone_requests_running)$(metric hone_requests_waiting)" != 28 ]; do
    i=$((i + 1))
    [ $i -lt 600 ] || { say "two places and a queue of eight do not fill"; break; }
    sleep 0.05
done
"$t/ask" "$port" -b "{\"prompt\": \"The last\", $go_on}" POST /v1/completions > "$t/full" || true
grep -q 'HTTP/1.1 429' "$t/full" || say "a full queue refuses nobody"
grep -q 'retry-after' "$t/full" || say "429 without retry-after"
kill $w
wait $w 2> /dev/null || true
quiet 'a full queue'

# ---- requests that two parsers could read differently ----
raw 400 'both lengths' 'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'
raw 400 'chunks of no size' 'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n'
raw 400 'a chunk of 2^64' 'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n'
raw 400 'a negative length' 'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n'
raw 400 'two hosts' 'GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n'
raw 400 'no host' 'GET /health HTTP/1.1\r\n\r\n'
raw 400 'a folded field' 'GET /health HTTP/1.1\r\nHost: localhost\r\nA: b\r\n c\r\n\r\n'
raw 505 'another version' 'GET /health HTTP/2.0\r\nHost: localhost\r\n\r\n'
raw 400 'a space in front of the colon' 'GET /health HTTP/1.1\r\nHost : localhost\r\n\r\n'
raw 400 'a control byte in a field' 'GET /health HTTP/1.1\r\nHost: localhost\r\nA: b\001c\r\n\r\n'
raw 400 'another host in the path' 'GET http://evil.example/health HTTP/1.1\r\nHost: localhost\r\n\r\n'
raw 400 'TLS' '\026\003\001\002\000'
raw 200 'the whole address, as proxies are asked' 'GET http://localhost/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
raw 400 'two lengths' 'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}'
raw 400 'a length that is none' 'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2x\r\n\r\n{}'
raw 400 'a length with a sign' 'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: +2\r\n\r\n{}'
raw 501 'an unknown coding' 'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n'
raw 501 'a coding behind chunked' 'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n'
raw 431 'a field of 40 KiB' "$(awk 'BEGIN { printf "GET /health HTTP/1.1\\r\\nHost: localhost\\r\\nA: "; for (i = 0; i < 40000; i++) printf "x"; printf "\\r\\n\\r\\n" }')"
raw 431 '200 fields' "$(awk 'BEGIN { printf "GET /health HTTP/1.1\\r\\nHost: localhost\\r\\n"; for (i = 0; i < 200; i++) printf "A%d: b\\r\\n", i; printf "\\r\\n" }')"
raw 403 'a name that only begins like ours' 'GET /health HTTP/1.1\r\nHost: localhost.evil.example\r\nConnection: close\r\n\r\n'
raw 403 'the name of this machine in a container' 'GET /health HTTP/1.1\r\nHost: host.docker.internal:8080\r\nConnection: close\r\n\r\n'
grep -q -- '--allow-host host.docker.internal would' "$t/raw" || say "what would let it in is not said: $(tail -n 1 "$t/raw")"
raw 403 'an address that is a name' 'GET /health HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\nConnection: close\r\n\r\n'
raw 413 '33 MiB' 'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 34603008\r\n\r\n'
raw 404 'a path that goes up' 'GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'

# ---- requests that client libraries send ----
x='{"prompt": "x", "max_tokens": 1}'
post='POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n'
raw 415 'a body that is packed' "${post}Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"
raw 200 'a coding that is none' "${post}Content-Encoding: identity\r\nContent-Length: ${#x}\r\n\r\n$x"
raw 200 'a body in chunks' "${post}Transfer-Encoding: chunked\r\n\r\n10\r\n{\"prompt\": \"x\", \r\n10\r\n\"max_tokens\": 1}\r\n0\r\n\r\n"
raw 100 'a body that waits for a word' "${post}Expect: 100-continue\r\nContent-Length: ${#x}\r\n\r\n$x"
grep -q 'HTTP/1.1 200' "$t/raw" || say "behind 100-continue comes no answer"
raw 200 'an upgrade that nobody needs' "${post}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nContent-Length: ${#x}\r\n\r\n$x"
raw 505 'HTTP/2 without asking' 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
raw 405 'a websocket' 'GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nUpgrade: websocket\r\n\r\n'
grep -q '^allow: POST' "$t/raw" || say "405 without the methods that the path takes"
raw 405 'questions about a path' 'OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
raw 200 'a slash and a query behind the path' 'GET /v1/models/?api-version=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
raw 200 'one model, its name in bytes' 'GET /models/%%6d HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
raw 404 'another model' 'GET /v1/models/n HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
raw 404 'a base URL with a /v1 too many' 'GET /v1/v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
grep -q 'but there is /v1/models: is the base URL right' "$t/raw" || say "a wrong base URL is not said to be one"
printf '\357\273\277%s' "$x" > "$t/b"; body 200 'a mark of its byte order in front' /v1/completions "$t/b"

# ---- bodies ----
say_x='"messages": [{"role": "user", "content": "x"}]'
deep=$(printf '[%.0s' $(seq 66))$(printf ']%.0s' $(seq 66))
says 400 'depth' $c "{$say_x, \"metadata\": $deep}"
says 400 'names twice' $c "{$say_x, \"seed\": 1, \"seed\": 2}"
says 400 'no UTF-8' $c '{"messages": [{"role": "user", "content": "\0377"}]}'
says 200 'half of a surrogate pair, and NUL' $c '{"messages": [{"role": "user", "content": "\\ud800 x \\u0000"}], "max_tokens": 1}'
says 200 'NUL in the name of an unknown field' $c "{$say_x, \"a\\\\u0000b\": 1, \"max_tokens\": 1}"
says 400 'an endless number' $c "{$say_x, \"temperature\": 1e999}"
says 400 'a negative count' $c "{$say_x, \"max_tokens\": -2}"
says 400 '2^63' $c "{$say_x, \"max_tokens\": 9223372036854775808}"
says 400 'negative choices' $c "{$say_x, \"n\": -1}"
says 400 'a negative seat' $c "{$say_x, \"top_logprobs\": -1, \"logprobs\": true}"
says 400 'a negative id' /v1/completions '{"prompt": [-1]}'
says 400 'a negative id' /detokenize '{"tokens": [-1]}'
says 200 'a schema that explodes' $c "{$say_x, \"max_tokens\": 4, \"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"strict\": true, \"schema\": {\"type\": \"string\", \"pattern\": \"^((((a{1000}){1000}){1000}){1000})\$\"}}}}"
says 200 'a pattern that explodes' /v1/completions '{"prompt": "x", "guided_regex": "(a{1000}){1000}(b{1000}){1000}"}'
awk 'BEGIN { printf "{\"messages\": ["; for (i = 0; i < 200000; i++) printf "%s{\"role\": \"user\", \"content\": \"\"}", i ? "," : ""; printf "]}" }' > "$t/b"
body 400 'many messages' $c "$t/b"
awk 'BEGIN { printf "{\"max_tokens\": 1, \"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"tools\": ["; for (i = 0; i < 513; i++) printf "%s{\"type\": \"function\", \"function\": {\"name\": \"f%d\"}}", i ? "," : "", i; printf "]}" }' > "$t/b"
body 400 '513 tools' $c "$t/b"
quiet 'wrong bodies'
[ "$(answer)" = "$first" ] || say "after all that the answer is '$(answer)', not '$first'"

# ---- shutdown during answers ----
for i in 1 2 3 4; do "$t/ask" "$port" -b "{\"prompt\": \"The $i\", $go_on, \"stream\": true}" POST /v1/completions > "$t/end.$i" & done
sleep 0.3
kill -TERM $pid; sleep 0.1; kill -TERM $pid 2> /dev/null || true
rc=0; wait $pid || rc=$?
pid=
[ $rc = 130 ] || say "a second signal: ends with $rc"

# ---- a log on a full disk ----
start --ctx 8192 --log /dev/full
[ "$(answer)" = "$first" ] || say "a full disk changes the answer"
kill -TERM $pid; rc=0; wait $pid || rc=$?; pid=
[ $rc = 0 ] || say "with a full disk it ends with $rc"
exit $fail
