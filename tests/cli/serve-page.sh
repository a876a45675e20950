#!/bin/sh
# The page of hone serve: browsers get it with a policy that lets nothing but its own script run, others the line of Ollama's API. In
# headless Chromium every view is used with hostile texts and looked at (tests/page.py).
set -eu
t=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2> /dev/null || true; rm -rf "$t"' EXIT
. tests/expect.sh
${CC:-cc} -std=c11 -D_GNU_SOURCE -O1 tests/ask.c -o "$t/ask"
"$HONE" convert tests/golden/tiny-qwen35moe -o "$t/base.gguf" -q > /dev/null
"$HONE" quantize "$t/base.gguf" -o "$t/m.gguf" --recipe Q8_0 -q > /dev/null
"$HONE" serve "$t/m.gguf" --port 0 --threads 1 --ctx 4096 --context-memory 64MiB > "$t/ready" 2> "$t/log" &
pid=$!
i=0
while [ ! -s "$t/ready" ]; do
    i=$((i + 1))
    [ $i -lt 200 ] && kill -0 $pid 2> /dev/null || { cat "$t/log"; exit 1; }
    sleep 0.05
done
url=$(sed 's/.*"url": *"\([^"]*\)".*/\1/' "$t/ready")
port=${url##*:}
port=${port%%/*}
"$t/ask" "$port" GET / 'Accept: text/html,*/*;q=0.8' > "$t/raw"
grep -q 'content-type: text/html' "$t/raw" || say "no page: $(head -5 "$t/raw")"
for h in "content-security-policy: default-src 'none'; script-src 'sha256-" "frame-ancestors 'none'" 'x-content-type-options: nosniff' 'referrer-policy: no-referrer'; do
    grep -qF "$h" "$t/raw" || say "no '$h'"
done
[ "$(wc -c < "$t/raw")" -lt 122880 ] || say "the page has $(wc -c < "$t/raw") bytes"
grep -nE '(src|href)="?(https?:)?//|\son[a-z]+=|\beval\(|innerHTML|insertAdjacentHTML|document\.write' serve/page/* && say "the page asks elsewhere, or parses what it shows"
"$t/ask" "$port" GET / > "$t/raw"
grep -q '^Ollama is running' "$t/raw" || say "a client of Ollama's API gets: $(cat "$t/raw")"
# the hash that the header tells is the script's
if command -v openssl > /dev/null; then
    "$t/ask" "$port" GET /index.html 'Accept: text/html' | tr -d '\r' > "$t/page"
    sum=$(cat serve/page/base.js serve/page/markdown.js serve/page/chat.js serve/page/tools.js serve/page/tokens.js serve/page/pair.js serve/page/server.js | openssl dgst -sha256 -binary | openssl base64)
    grep -qF "script-src 'sha256-$sum'" "$t/page" || say "the header tells another hash than $sum"
fi
[ $fail = 0 ] || exit 1
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
[ -n "$browser" ] && command -v python3 > /dev/null || { echo "SKIP: no chromium or no python3; the page is served as it should"; exit 77; }
python3 tests/page.py "$browser" "$url" || fail=1
exit $fail
