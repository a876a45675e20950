#!/bin/sh
# Contexts longer than the one a model was trained for are refused or warned about before anything is computed: single
# runs with a prompt from any source, a chat that starts too long, and measurements.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
run 0 convert tests/golden/models/qwen3 -o "$t/m.gguf" -q # trained for 4096
for _ in 1 2 3 4 5 6 7 8; do cat tests/golden/tiny-qwen35moe/self_calib.txt; done | head -c 40000 > "$t/long"
short=$(head -c 200 "$t/long")
said="trained for 4096"
refused 2 "$said" run "$t/m.gguf" --file "$t/long" "Summarize" -n 2
if [ -z "${WINE_EXE-}" ]; then # arguments on Windows have 32,767 characters at most
    refused 2 "$said" run "$t/m.gguf" "$(cat "$t/long")" -n 2
    refused 2 "$said" run "$t/m.gguf" -p "$(cat "$t/long")" -n 2
    refused 2 "$said" run "$t/m.gguf" --system "$(cat "$t/long")" "Hello" -n 2
fi
printf '{"messages": [{"role": "user", "content": "%s"}]}' "$(tr -d '\n\\"' < "$t/long" | tr -c 'a-zA-Z0-9 .,' ' ')" > "$t/chat.json"
refused 2 "$said" run "$t/m.gguf" --chat "$t/chat.json" -n 2
rc=0
"$HONE" run "$t/m.gguf" -n 2 < "$t/long" > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 2 ] && grep -q "$said" "$t/e" || say "standard input: exit $rc: $(cat "$t/e")"
warns() { # number of warnings, command
    n=$1
    shift
    run 0 "$@"
    [ "$(grep -c "$said" "$t/e")" = "$n" ] || say "hone $*: not $n warnings: $(cat "$t/e")"
}
warns 1 eval ppl "$t/m.gguf" "$t/long" --ctx 5000 --chunks 1
warns 1 eval kld --base "$t/m.gguf" "$t/m.gguf" "$t/long" --ctx 5000 --chunks 1
warns 1 imatrix "$t/m.gguf" "$t/long" -o "$t/i.gguf" --ctx 5000 --chunks 1
warns 1 eval speed "$t/m.gguf" --pp 5000 --tg 1 --reps 1
warns 0 eval ppl "$t/m.gguf" "$t/long" --ctx 512 --chunks 1
warns 0 run "$t/m.gguf" "$short" -n 2
# a conversation on a terminal (script gives one)
if [ -z "${WINE_EXE-}" ] && command -v script > /dev/null; then # Wine redraws its console
    printf '#!/bin/sh\nexec "%s" run "%s" --system "$(cat %s)"\n' "$HONE" "$t/m.gguf" "$t/long" > "$t/talk"
    TERM=xterm XDG_STATE_HOME=$t timeout 60 script -qec "sh $t/talk" /dev/null < /dev/null > "$t/screen" 2>&1 || true
    grep -q "starts with [0-9]* tokens" "$t/screen" || say "a conversation begins: $(head -c 600 "$t/screen")"
fi
exit $fail
