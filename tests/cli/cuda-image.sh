#!/bin/sh
# SPDX-License-Identifier: MIT
# Images with --device cuda, on the emulated device ($HONE_EMU): hone run, hone serve and hone eval vision give the answers of
# transformers (tests/oracle/see.py), as on the CPU.
set -eu
[ -x "${HONE_EMU:-}" ] || { echo "SKIP: no emulated device"; exit 77; }
host=$HONE HONE=$HONE_EMU
. tests/serving.sh
p=tests/golden/pixels
mkdir "$t/hf" "$t/v" && cp tests/golden/models/qwen35/*.json tests/golden/models/qwen35/model.safetensors tests/golden/see/chat_template.jinja "$t/hf"
"$host" convert "$t/hf" -o "$t/v/m.gguf" --type f32 --mmproj "$t/v/mmproj-F32.gguf" -q > "$t/o" 2> "$t/e" || say "convert: $(cat "$t/e")"
answer() { "$HONE" run "$t/v/m.gguf" "$@" --device cuda --act f32 --kv-type f32 --temp 0 -n 24 --raw --json -q > "$t/o" 2> "$t/e" || say "$*: $(cat "$t/e")"; }
want() { awk -v n="\"$1\":" '$1 == n { on = 1 } on && /"answer"/ { sub(/^ *"answer": /, ""); sub(/,$/, ""); print; exit }' tests/golden/see/qwen35.json; }
check() { grep -qF "\"text\": $(want "$1")" "$t/o" || say "$2: $(cat "$t/o" "$t/e"), not $(want "$1")"; }

answer 'What is this?'
check none 'without an image'
answer 'What is this?' --image $p/420.jpg
check one 'one image'
answer 'Compare these.' --image $p/rgba.png --image $p/420.jpg
check two 'two images'

# eval vision: the model and itself do not differ, and the answers are those on the CPU
cp $p/420.jpg $p/rgba.png "$t/v"
printf '{"image": "420.jpg", "question": "What is this?", "answer": "no", "choices": ["yes", "no", "maybe it is"]}\n{"image": ["rgba.png", "420.jpg"], "question": "Compare these."}\n' > "$t/v/ask.jsonl"
"$host" quantize "$t/v/m.gguf" --type Q4_K -o "$t/v/q.gguf" -q > "$t/o"
for d in cpu cuda; do
    "$HONE" eval vision "$t/v/m.gguf" "$t/v/q.gguf" "$t/v/ask.jsonl" --max-tokens 8 --device $d --json -q > "$t/$d" 2> "$t/e" || say "eval vision: $(cat "$t/e")"
done
value() { sed -n "s/^ *\"$1\": \(.*[^,]\),*$/\1/p" "$2" | head -1; }
awk -v a="$(value mean_kld "$t/cpu")" -v b="$(value mean_kld "$t/cuda")" 'BEGIN { d = a - b; exit !(a > 0 && d < 1e-3 * a && d > -1e-3 * a) }' ||
    say "mean KLD: $(value mean_kld "$t/cpu"), on the device $(value mean_kld "$t/cuda")"
grep -o '"\(answer\|choice\)": .*' "$t/cpu" > "$t/a" && grep -o '"\(answer\|choice\)": .*' "$t/cuda" > "$t/b"
[ "$(grep -c 'choice": "' "$t/a")" = 2 ] && cmp "$t/a" "$t/b" || { say "other answers on the device"; diff "$t/a" "$t/b"; }
"$HONE" eval vision "$t/v/m.gguf" "$t/v/m.gguf" "$t/v/ask.jsonl" --max-tokens 8 --device cuda --json -q > "$t/o"
awk -v k="$(value max_kld "$t/o")" 'BEGIN { exit !(k != "" && k < 1e-4) }' || say "itself: $(value max_kld "$t/o")" # tokens one by one, and together

# serve: computed, and from the prefix cache
serve "$t/v/m.gguf" --device cuda --context-memory 64MiB --act f32 --kv-type f32
jpg=$(base64 < $p/420.jpg | tr -d '\n')
for how in computed cached; do
    post /v1/chat/completions "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": \"data:image/jpeg;base64,$jpg\"}, {\"type\": \"text\", \"text\": \"What is this?\"}]}], \"temperature\": 0, \"max_tokens\": 24}"
    is 200 "an image, $how"
    grep -qF ":$(want one | sed 's/^"\\n/"/')" "$t/o" || say "serve, $how: $(cat "$t/o"), not $(want one)"
done
get /props; has '"vision":true'
stop
exit $fail
