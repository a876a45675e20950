#!/bin/sh
# hone serve under load: many clients at once, some of which disconnect, send byte by byte or request things that do not
# exist. The others get the same answers as when alone, memory stays within its limit, and afterwards nothing is
# running, waiting or held.
set -eu
. tests/serving.sh
whole() { # number of a request: prompts from 10 to 1000 tokens, answers from 4 to 40
    words=$(printf "word$1 %.0s" $(seq $((($1 * $1 * $1 % 9 + 1) * 25))))
    echo "{\"prompt\": \"$words\", \"max_tokens\": $(($1 * 7 % 37 + 4)), \"temperature\": 0.8, \"seed\": $1, \"ignore_eos\": true, \"cache_prompt\": false${2:-}}"
}
post() { "$t/ask" "$port" "$@" POST /v1/completions; }
start --ctx 2048 --parallel 6 --queue 64 --context-memory 48MiB
for i in $(seq 8); do post -b "$(whole $i)" | grep -o '"text":"[^"]*"' > "$t/alone.$i"; done
quiet 'alone'
idle=$(metric hone_context_bytes)
w=
for round in 1 2 3; do
    for i in $(seq 8); do
        post -b "$(whole $i)" > "$t/busy.$round.$i" & w="$w $!"
        post -t $((i * 9 + round)) -b "$(whole $((i + 8)) ', "stream": true')" > /dev/null & w="$w $!"
    done
    post -d 1 -b '{"prompt": "slow", "max_tokens": 3, "cache_prompt": false}' > "$t/slow.$round" & w="$w $!"
    post -b '{"prompt": "x", "max_tokens": -5}' > "$t/wrong.$round" & w="$w $!"
done
for p in $w; do wait $p || true; done
for round in 1 2 3; do
    for i in $(seq 8); do
        grep -o '"text":"[^"]*"' "$t/busy.$round.$i" | cmp -s - "$t/alone.$i" || say "request $i of round $round: the answer differs from that of the request alone: $(head -c 200 "$t/busy.$round.$i")"
    done
    grep -q 'HTTP/1.1 200' "$t/slow.$round" || say "who sends byte by byte gets: $(head -1 "$t/slow.$round")"
    grep -q 'HTTP/1.1 400' "$t/wrong.$round" || say "a wrong request gets: $(head -1 "$t/wrong.$round")"
done
quiet 'after the load'
[ "$(metric hone_context_bytes)" = "$idle" ] || say "memory is left behind: $(metric hone_context_bytes), at first $idle"
[ "$(metric hone_connections)" -le 1 ] || say "$(metric hone_connections) connections are open"
stop
exit $fail
