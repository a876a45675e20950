#!/bin/sh
# A template that takes seconds to render: SIGTERM and SIGINT end `template render`, `lint`, `run` and `serve` with
# status 130 (serve: 0) during the rendering, not only when it reaches its step limit.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
cp -r tests/golden/tiny-qwen35moe "$t/m"
chmod -R u+w "$t/m"
# costly only for conversations: probes use different words
printf '%s' "{% if messages[0].content == 'slow' %}{% for i in range(100000) %}{% for k in range(100000) %}{% set x = [k, i] %}{% endfor %}{% endfor %}{% endif %}" > "$t/m/chat_template.jinja"
cat tests/golden/tiny-qwen35moe/chat_template.jinja >> "$t/m/chat_template.jinja"
echo '[{"role": "user", "content": "slow"}]' > "$t/slow"
"$HONE" convert "$t/m" -o "$t/m.gguf" -q > "$t/o" 2> "$t/e" || say "convert: $(cat "$t/e")"

stop() { # signal, what, command: it ends with 130 when it is stopped a little later, before the limit ends it with 3
    sig=$1 what=$2
    shift 2
    for wait in 0.2 0.1 0.05 0.4 0.8; do # too early: the template was not reached; too late: it was done
        "$@" > "$t/o" 2> "$t/e" < /dev/null &
        pid=$!
        sleep $wait
        kill -"$sig" $pid 2> /dev/null || true
        rc=0
        wait $pid || rc=$?
        [ $rc != 130 ] || return 0
    done
    say "$what, SIG$sig: exit $rc: $(tail -n 2 "$t/e")"
}
stop TERM "template render" "$HONE" template render "$t/m.gguf" --chat "$t/slow"
stop TERM "run" "$HONE" run "$t/m.gguf" --chat "$t/slow" -n 4
printf '%s' "{% for i in range(100000) %}{% for k in range(100000) %}{% set x = [k, i] %}{% endfor %}{% endfor %}" > "$t/all.jinja"
stop TERM "template lint" "$HONE" template lint "$t/all.jinja"
stop TERM "template fix" "$HONE" template fix "$t/all.jinja"
exit $fail
