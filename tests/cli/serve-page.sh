#!/bin/sh
# The web page of hone serve: browsers get it with a policy that allows only its own script to run; other clients get
# the one-line reply of Ollama's API. tests/page.py tries every view with hostile texts in headless Chromium.
set -eu
. tests/serving.sh
start --ctx 8192
url=http://127.0.0.1:$port
grep -qF "open $url in a browser" "$t/log" || say "the page is not announced: $(cat "$t/log")"
"$t/ask" "$port" GET / 'Accept: text/html,*/*;q=0.8' > "$t/raw"
grep -q 'content-type: text/html' "$t/raw" || say "no page: $(head -5 "$t/raw")"
for h in "content-security-policy: default-src 'none'; script-src 'sha256-" "frame-ancestors 'none'" 'x-content-type-options: nosniff' 'referrer-policy: no-referrer'; do
    grep -qF "$h" "$t/raw" || say "no '$h'"
done
[ "$(wc -c < "$t/raw")" -lt 122880 ] || say "the page has $(wc -c < "$t/raw") bytes"
grep -nE '(src|href)="?(https?:)?//|\son[a-z]+=|\beval\(|innerHTML|insertAdjacentHTML|document\.write' serve/page/* && say "the page asks elsewhere, or parses what it shows"
"$t/ask" "$port" GET / > "$t/raw"
grep -q '^Ollama is running' "$t/raw" || say "a client of Ollama's API gets: $(cat "$t/raw")"
# the hash in the header is the script's
if command -v openssl > /dev/null; then
    "$t/ask" "$port" GET /index.html 'Accept: text/html' | tr -d '\r' > "$t/page"
    sum=$(cat serve/page/base.js serve/page/markdown.js serve/page/chat.js serve/page/tools.js serve/page/tokens.js serve/page/pair.js serve/page/server.js | openssl dgst -sha256 -binary | openssl base64)
    grep -qF "script-src 'sha256-$sum'" "$t/page" || say "the header has a hash other than $sum"
fi
[ $fail = 0 ] || exit 1
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
[ -n "$browser" ] && command -v python3 > /dev/null || { echo "SKIP: no chromium or no python3; the page is served as it should"; exit 77; }
python3 tests/page.py "$browser" "$url" || fail=1
exit $fail
