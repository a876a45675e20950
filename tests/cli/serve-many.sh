#!/bin/sh
# hone serve with several files: `model` in a request selects one by its id, a short form or Ollama's form of the name.
# Answers equal those of a server with only that file, whatever else was loaded; two of the three files fit into
# --max-memory. A damaged file is listed with its error. No answer is cut short, and every request is answered.
set -eu
. tests/serving.sh
d=$t/out
mkdir "$d"
for r in Q8_0 Q4_0 Q6_K; do "$HONE" quantize "$t/base.gguf" -o "$d/tiny-$r.gguf" --recipe $r -q > /dev/null; done
cp "$d/tiny-Q4_0.gguf" "$d/tiny-draft-Q4_0.gguf"
cp "$d/tiny-Q4_0.gguf" "$d/mmproj-tiny.gguf"
head -c 5000 "$d/tiny-Q4_0.gguf" > "$d/tiny-cut.gguf"
head -c 100 /dev/zero > "$d/imatrix.gguf"
"$HONE" split "$d/tiny-Q8_0.gguf" -o "$d/parts.gguf" --max-size 500KiB -q > /dev/null

begin() { serve "$@" --ctx 1024 --context-memory 16MiB; }
lacks() { ! grep -qF -- "$1" "$t/o" || say "'$1' in: $(head -c 900 "$t/o")"; }
said() { # the text of the answer in $t/o, by any of the APIs
    sed -E 's/.*"(message|content|response)":(.*)/\2/; s/"(id|created|usage|timings|model|stop_reason|system_fingerprint|done_reason|total_duration)":.*//' "$t/o"
}
ask() { # api, model: prints the answer by one of three APIs
    case $1 in
    chat) post /v1/chat/completions "{\"model\": \"$2\", \"messages\": [{\"role\": \"user\", \"content\": \"Count to ten, then stop.\"}], \"max_tokens\": 24, \"temperature\": 0.7, \"seed\": 5}" ;;
    messages) post /v1/messages "{\"model\": \"$2\", \"messages\": [{\"role\": \"user\", \"content\": \"Name three rivers of Europe.\"}], \"max_tokens\": 24, \"temperature\": 0}" ;;
    ollama) post /api/generate "{\"model\": \"$2\", \"prompt\": \"Once upon a time\", \"raw\": true, \"stream\": false, \"options\": {\"num_predict\": 24, \"seed\": 3, \"temperature\": 1}}" ;;
    esac
    is 200 "$1 of $2"
    said
}

# the answers of each file alone
for r in Q8_0 Q4_0 Q6_K; do
    begin "$d/tiny-$r.gguf"
    for api in chat messages ollama; do ask $api any > "$t/alone.$r.$api"; done
    stop
done
cmp -s "$t/alone.Q8_0.ollama" "$t/alone.Q4_0.ollama" && say "two files give one answer: this test shows nothing"

# ---- a folder ----
begin "$d" --max-memory 1GiB
get /v1/models; is 200 models
for r in Q8_0 Q4_0 Q6_K; do has "\"id\":\"tiny-$r\""; done
has '"id":"tiny-cut"'; has '"failed":true'; has '"error":"'; has '"value":"unloaded"'
has '"id":"parts"'; lacks draft; lacks mmproj; lacks imatrix; lacks 00002-of
need=$(tr ',{' '\n\n' < "$t/o" | sed -n 's/.*"memory_bytes":\([0-9]*\).*/\1/p' | sort -n | tail -1)
get /health; is 200 health; has '"id":"tiny-Q4_0"'
get '/props?model=Q4_0'; is 200 props; has '"model_path":"tiny-Q4_0.gguf"'; has '"is_sleeping":true'; has '"n_ctx":1024'
get /v1/models/tiny-Q6_K; is 200 "one model"; has '"id":"tiny-Q6_K"'
get /v1/models/none; is 404 "no model"
get /api/tags; has '"name":"tiny-Q4_0"'
get /api/ps; [ "$(cat "$t/o")" = '{"models":[]}' ] || say "something is loaded before it is used: $(cat "$t/o")"
post /api/show '{"model": "tiny:q6_k"}'; is 200 show; has '"general.architecture"'; has '"capabilities":["completion","tools"'
post /v1/chat/completions '{"model": "nothing", "messages": [{"role": "user", "content": "x"}]}'; is 404 "an unknown name"; has tiny-Q4_0; has tiny-Q6_K
post /api/chat '{"model": "tiny:Q5_K", "messages": [{"role": "user", "content": "x"}]}'; is 404 "an unknown tag"
post /v1/chat/completions '{"model": "tiny-cut", "messages": [{"role": "user", "content": "x"}]}'; is 500 "a broken file"; has tiny-cut
for name in tiny-Q4_0 TINY-q4_0 tiny-Q4_0.gguf Q4_0 q4_0 tiny:Q4_0 hf.co/x/tiny-GGUF:Q4_0 models/tiny-Q4_0.gguf tiny-Q4_0:latest; do
    ask messages $name | cmp -s - "$t/alone.Q4_0.messages" || say "'$name' is another file"
done
post /tokenize '{"model": "Q6_K", "content": "hello"}'; is 200 tokenize
post /v1/completions '{"prompt": "x", "max_tokens": 2}'; is 200 "no model named"; has '"model":"'
get /api/ps; has tiny-Q4_0; has tiny-Q6_K
get /slots; is 200 slots; has '"model":"tiny-Q4_0"'
# Ollama's keep_alive 0 frees the memory
unloads() { # what
    i=0
    while get /api/ps; grep -q tiny-Q4_0 "$t/o"; do
        i=$((i + 1))
        [ $i -lt 100 ] || { say "$1: still loaded"; return; }
        sleep 0.05
    done
}
post /api/generate '{"model": "tiny-Q4_0", "keep_alive": 0}'; is 200 unload; has '"done_reason":"unload"'
unloads 'keep_alive 0'
post /api/generate '{"model": "Q4_0", "prompt": "x", "keep_alive": "0s", "stream": false, "options": {"num_predict": 2}}'; is 200 'an answer, then unload'
unloads 'keep_alive 0s'
[ "$(metric 'hone_model_loads_total{model="tiny-Q4_0"}')" = 2 ] || say "loads: $(metric 'hone_model_loads_total{model="tiny-Q4_0"}')"
stop

# ---- memory for two of three, in any order ----
begin "$d" --max-memory "$((need * 5 / 2))"
n=0
for i in 3 1 4 1 5 9 2 6 5 3 5 8 9 7 9 3 2 3 8 4; do
    case $((i % 3)) in 0) r=Q8_0 ;; 1) r=Q4_0 ;; *) r=Q6_K ;; esac
    case $(((i + n) % 3)) in 0) api=chat ;; 1) api=messages ;; *) api=ollama ;; esac
    n=$((n + 1))
    ask $api $r | cmp -s - "$t/alone.$r.$api" || say "request $n ($api of $r): the answer differs from that of the request alone: $(head -c 400 "$t/o")"
    get /api/ps
    [ "$(grep -o '"name"' "$t/o" | wc -l)" -le 2 ] || say "three files are loaded: $(cat "$t/o")"
done
[ "$(grep -o '"name"' "$t/o" | wc -l)" = 2 ] || say "not two files are loaded: $(cat "$t/o")"
# clients that request different files at once, and one that disconnects: every answer is complete
w=
for i in $(seq 12); do
    case $((i % 3)) in 0) r=Q8_0 ;; 1) r=Q4_0 ;; *) r=Q6_K ;; esac
    "$t/ask" "$port" -b "{\"model\": \"$r\", \"prompt\": \"Once upon a time\", \"raw\": true, \"stream\": false, \"options\": {\"num_predict\": 24, \"seed\": 3, \"temperature\": 1}}" POST /api/generate > "$t/many.$i" & w="$w $!"
done
"$t/ask" "$port" -t 50 -b '{"model": "Q8_0", "prompt": "x", "max_tokens": 200, "stream": true}' POST /v1/completions > /dev/null & w="$w $!"
for p in $w; do wait $p || say "a client fails"; done
for i in $(seq 12); do
    case $((i % 3)) in 0) r=Q8_0 ;; 1) r=Q4_0 ;; *) r=Q6_K ;; esac
    cp "$t/many.$i" "$t/raw"; parts; is 200 "one of many"
    said | cmp -s - "$t/alone.$r.ollama" || say "together, $r says: $(head -c 300 "$t/o")"
done
quiet 'many clients'
stop

# ---- a file that does not fit on its own is refused; if no file fits, the server does not start ----
least=$((need - $(wc -c < "$d/tiny-Q8_0.gguf") + $(wc -c < "$d/tiny-Q4_0.gguf")))
refused 4 'none of the 2 files fits into memory: the smallest, tiny-Q4_0, takes' serve "$d/tiny-Q4_0.gguf" "$d/tiny-Q8_0.gguf" --port 0 --max-memory 1MiB
refused 4 '(--max-memory)' serve "$d" --port 0 --max-memory 1MiB
for c in "$d" "$d/tiny-Q4_0.gguf $d/tiny-Q8_0.gguf" "$d/tiny-Q4_0.gguf"; do
    rc=0
    # shellcheck disable=SC2086
    timeout 60 "$HONE" serve $c --port 0 --ctx 99999999 > "$t/o" 2> "$t/e" || rc=$?
    { [ $rc = 2 ] || [ $rc = 4 ]; } && [ ! -s "$t/o" ] && grep -q 'a context of 99999999 tokens takes [0-9.]* GiB.*(--context-memory)' "$t/e" || say "serve $c --ctx 99999999: exit $rc: $(cat "$t/o" "$t/e")"
done
# a small model reserves no more than its contexts can use
"$HONE" serve "$d/tiny-Q8_0.gguf" --port 0 > "$t/o" 2> "$t/small" & small=$!
i=0
while ! grep -q 'open http' "$t/small" && [ $i -lt 200 ]; do sleep 0.05; i=$((i + 1)); done
kill $small && wait $small || true
mib=$(sed -n 's/.*, \([0-9]*\)\.[0-9]* MiB of context memory.*/\1/p' "$t/small")
[ -n "$mib" ] && [ "$mib" -gt 0 ] && [ "$mib" -le 600 ] || say "context memory of a tiny model: $(cat "$t/small")"
begin "$d/tiny-Q4_0.gguf" "$d/tiny-Q8_0.gguf" --max-memory "$(((least + need) / 2))"
post /v1/completions '{"model": "Q8_0", "prompt": "x", "max_tokens": 2}'; is 500 "a file that is too large"; has max-memory; grep -qi 'x-should-retry: false' "$t/raw" || say "clients would retry"
stop

# ---- without results.json the default is hone plan's choice, the largest file that fits; a file is named by its recipe
# ----
mkdir "$t/two"
for r in Q4_K_M Q6_K; do "$HONE" quantize "$t/base.gguf" -o "$t/two/tiny-$r.gguf" --recipe $r -q > /dev/null; done
run 0 plan "$t/two" --vram 24GiB --ctx 1024
taken=$(sed -n 's/^Take \(.*\)\.gguf: .*/\1/p' "$t/o")
begin "$t/two"
post /v1/completions '{"prompt": "x", "max_tokens": 2}'; has "\"model\":\"${taken:-none}\""
get /api/tags; has '"quantization_level":"Q4_K_M"'; has '"quantization_level":"Q6_K"'
stop
# with it, the file that it recommends, unless that has other weights by now
for hash in "" 00112233445566778899aabbccddeeff; do
    printf '{"model": {}, "eval": {}, "files": [{"file": "tiny-Q4_K_M.gguf", "size_bytes": 1000000, "ppl": 5, "mean_kld": 0.001, "mean_kld_stderr_windows": 0.0001, "weights_xxh128": "%s", "sample_xxh128": "%s"}]}' "$hash" "$hash" > "$t/two/results.json"
    begin "$t/two"
    post /v1/completions '{"prompt": "x", "max_tokens": 2}'
    [ -n "$hash" ] || has '"model":"tiny-Q4_K_M"'
    [ -z "$hash" ] || has "\"model\":\"${taken:-none}\""
    stop
done
rm "$t/two/results.json"
begin "$t/two/tiny-Q4_K_M.gguf" "$t/two/tiny-Q6_K.gguf"
post /v1/completions '{"prompt": "x", "max_tokens": 2}'; has '"model":"tiny-Q4_K_M"'
stop

# ---- files by name: --alias, presets, --record, --strict, --cache-dir, errors at the start ----
echo '{"cold": {"temperature": 0}}' > "$t/presets"
begin "$d/tiny-Q4_0.gguf" "$d/tiny-Q6_K.gguf" --alias small,large --preset "$t/presets" --record "$t/record"
get /v1/models; has '"id":"small"'; has '"id":"large"'; lacks '"id":"tiny'
get /v1/models/tiny-Q6_K; is 200 "the file's own name"; has '"id":"large"'
ask messages tiny-Q4_0.gguf | cmp -s - "$t/alone.Q4_0.messages" || say "the file's own name is another file beside --alias"
post /v1/messages '{"model": "large@cold", "messages": [{"role": "user", "content": "x"}], "max_tokens": 2}'; is 200 'a preset of a file'
post /v1/messages '{"model": "small@cold", "messages": [{"role": "user", "content": "x"}], "max_tokens": 2}'; is 200 'a preset of a file'
stop
grep -q '"model":"small"' "$t/record" && grep -q '"model":"large"' "$t/record" || say "the record does not say which file answered"
begin "$d/tiny-Q4_0.gguf" "$d/tiny-Q6_K.gguf" --strict --max-memory 1GiB --cache-dir "$t/cache"
post /v1/completions '{"model": "Q6_K", "prompt": "x", "max_tokens": 2}'; is 404 '--strict'
for r in Q4_0 Q6_K; do post /v1/completions "{\"model\": \"tiny-$r\", \"prompt\": \"$(printf 'word%.0s ' $(seq 400))\", \"max_tokens\": 2}"; is 200 '--strict'; done
stop
on_wine || [ "$(find "$t/cache" -type f | wc -l)" -ge 2 ] || say "--cache-dir has no files of both"
refused 2 '2 names for 3 files' serve "$d/tiny-Q4_0.gguf" "$d/tiny-Q6_K.gguf" "$d/tiny-Q8_0.gguf" --alias small,large --port 0
refused 2 '1 name for 2 files' serve "$t/two" --alias small --port 0
refused 2 'same name' serve "$d/tiny-Q4_0.gguf" "$d/tiny-Q4_0.gguf" --port 0
refused 2 none.gguf serve "$d/tiny-Q4_0.gguf" "$d/none.gguf" --port 0
mkdir "$t/empty"
refused 2 'no GGUF model' serve "$t/empty" --port 0
cp "$d/tiny-cut.gguf" "$t/empty/a.gguf"; cp "$d/tiny-cut.gguf" "$t/empty/b.gguf"
refused 3 'none of the 2 files' serve "$t/empty" --port 0

# ---- clients without a key do not learn which files there are ----
echo sixteen-letters-1 > "$t/keys"
begin "$d" --api-key-file "$t/keys"
get /health; is 200 'health without a key'; has '"status": "ok"'; lacks tiny
get /health 'x-api-key: sixteen-letters-1'; is 200 'health with a key'; has '"id":"tiny-Q4_0"'
stop

# ---- SIGTERM while a file is loaded and requests wait for others ----
begin "$d" --max-memory "$((need * 3 / 2))"
w=
for r in Q8_0 Q4_0 Q6_K Q8_0 Q4_0; do
    "$t/ask" "$port" -b "{\"model\": \"$r\", \"prompt\": \"x\", \"max_tokens\": 400, \"ignore_eos\": true, \"stream\": true}" POST /v1/completions > "$t/end.$r" & w="$w $!"
done
sleep 0.05
stop
for p in $w; do wait $p || true; done
exit $fail
