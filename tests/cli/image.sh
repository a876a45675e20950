#!/bin/sh
# SPDX-License-Identifier: MIT
# hone run and hone serve with images: the answers of transformers to the same prompts (tests/oracle/see.py), in every
# spelling of an image; and what is refused.
set -eu
. tests/serving.sh
p=tests/golden/pixels
printf '%s' "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.content is string %}{{ m.content }}{% else %}{% for c in m.content %}{% if c.type == 'image' %}{{ '<|vision_start|><|image_pad|><|vision_end|>' }}{% else %}{{ c.text }}{% endif %}{% endfor %}{% endif %}{% if m.tool_calls %}{% for c in m.tool_calls %}{{ '<tool_call>\n{\"name\": \"' + c.function.name + '\", \"arguments\": ' }}{{ c.function.arguments | tojson }}{{ '}\n</tool_call>' }}{% endfor %}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}" > "$t/tools"
mkdir "$t/hf" "$t/v" && cp tests/golden/models/qwen35/*.json tests/golden/models/qwen35/model.safetensors tests/golden/see/chat_template.jinja "$t/hf"
"$HONE" convert "$t/hf" -o "$t/v/m.gguf" --type f32 --mmproj "$t/v/mmproj-F32.gguf" -q > "$t/o" 2> "$t/e" || say "convert: $(cat "$t/e")"
answer() { "$HONE" run "$t/v/m.gguf" "$@" --act f32 --kv-type f32 --temp 0 -n 24 --raw --json -q; }
# want NAME: the golden answer
want() { awk -v n="\"$1\":" '$1 == n { on = 1 } on && /"answer"/ { sub(/^ *"answer": /, ""); sub(/,$/, ""); print; exit }' tests/golden/see/qwen35.json tests/golden/see/roles.json; }
# check NAME WHAT: the answer in $t/o is the golden one
check() { grep -qF "\"text\": $(want "$1")" "$t/o" || say "$2: $(cat "$t/o" "$t/e"), not $(want "$1")"; }

answer 'What is this?' > "$t/o" 2> "$t/e" || :
check none 'without an image'
answer 'What is this?' --image $p/420.jpg > "$t/o" 2> "$t/e" || :
check one 'one image'
grep -q '"prompt_tokens": 96,' "$t/o" || say "tokens: $(cat "$t/o")"
answer 'Compare these.' --image $p/rgba.png --image $p/420.jpg --mmproj "$t/v/mmproj-F32.gguf" > "$t/o" 2> "$t/e" || :
check two 'two images'
jpg=$(base64 < $p/420.jpg | tr -d '\n')
png=$(base64 < $p/rgba.png | tr -d '\n')
printf '[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,%s"}}, {"type": "image", "path": "%s"}, {"type": "text", "text": "Compare these."}]}]' "$png" $p/420.jpg > "$t/chat.json"
answer --chat "$t/chat.json" > "$t/o" 2> "$t/e" || :
check two 'a conversation with images'

answer 'What is this?' --image $p/420.jpg --image-tokens 16 > "$t/o" 2> "$t/e" || :
grep -q '"prompt_tokens": 34,' "$t/o" || say "16 tokens: $(cat "$t/o" "$t/e")"
# from a pipe, which can be read only once
cat $p/420.jpg | "$HONE" run "$t/v/m.gguf" 'What is this?' --image - --act f32 --kv-type f32 --temp 0 -n 24 --raw --json > "$t/o" 2> "$t/e" || :
check one 'an image from a pipe'
grep -q 'not read' "$t/e" && say "an image from a pipe: $(cat "$t/e")"
# alone
printf '[{"role": "user", "content": [{"type": "image", "path": "%s"}]}]' $p/420.jpg > "$t/alone.json"
answer --chat "$t/alone.json" > "$t/want" 2> "$t/e" || say "an image alone: $(cat "$t/e")"
answer '' --image $p/420.jpg > "$t/o" 2> "$t/e" || say "an image alone: $(cat "$t/e")"
[ "$(grep -E '"(text|prompt_tokens)"' "$t/o")" = "$(grep -E '"(text|prompt_tokens)"' "$t/want")" ] || say "an image alone: $(cat "$t/o" "$t/want")"
# one that the context cannot hold is refused before it is computed; options without an image
answer x --image $p/420.jpg --ctx 64 > "$t/o" 2> "$t/e" && say 'an image larger than the context'
grep -q '420.jpg: the image has 77 tokens, but the context only 64: shrink it with --image-tokens N' "$t/e" || say "larger than the context: $(cat "$t/e")"
answer x --image-tokens 5 > "$t/o" 2> "$t/e" || say "--image-tokens: $(cat "$t/e")"
"$HONE" run "$t/v/m.gguf" x --image-tokens 5 -n 1 > "$t/o" 2> "$t/e" || :
grep -q 'image-tokens changes nothing' "$t/e" || say "--image-tokens: $(cat "$t/e")"
answer x --mmproj "$t/none.gguf" > "$t/o" 2> "$t/e" && say 'a missing --mmproj'

# in a conversation on a terminal; Wine redraws its console
terminal() {
# shellcheck disable=SC2086
${CC:-cc} -std=c11 -D_GNU_SOURCE -O1 tests/pty.c -o "$t/pty"
cp $p/420.jpg "$t/my pic.jpg"
cat > "$t/script" << X
< /help lists commands
< 2004h
> /image $t/none.png\n
< none.png
< 2004h
> /image "$t/my pic.jpg"\n
< the next message is about this image
< 2004h
> What is this?\n
< ; seed
< 2004h
> /save $t/talk.json\n
< 2 messages in
< 2004h
> /save -f $t/my pic.jpg\n
< 2 messages in
< 2004h
> And now?\n
< new)
< ; seed
< 2004h
> /image $t/my\\\\ pic.jpg\n
< the data are not an image
< 2004h
> /bye\n
$ 0
X
# libedit never frees the names of added functions (documented in its source): six small strings
echo 'leak:wcsdup' > "$t/lsan"
LSAN_OPTIONS="suppressions=$t/lsan:print_suppressions=0" TERM=xterm-256color XDG_STATE_HOME=$t/state "$t/pty" "$t/script" "$HONE" run "$t/v/m.gguf" --act f32 --kv-type f32 --temp 0 -n 24 \
    > "$t/o" 2> "$t/e" || say "a conversation on a terminal: $(cat "$t/o" "$t/e")"
grep -qF "{\"type\": \"image\", \"path\": \"$t/my pic.jpg\"}" "$t/talk.json" || say "no image in $(cat "$t/talk.json")"
grep -q '"role": "assistant"' "$t/talk.json" || say "no answer in $(cat "$t/talk.json")"
}
[ -n "${WINE_EXE-}" ] || terminal
# of several projector files in a folder, the model's own is found
mkdir "$t/two" && ln "$t/v/m.gguf" "$t/v/mmproj-F32.gguf" "$t/two/" && cp "$t/v/mmproj-F32.gguf" "$t/two/mmproj-A.gguf"
"$HONE" meta "$t/two/mmproj-A.gguf" clip.projector_type=qwen2.5vl_merger > "$t/o" 2>&1 || say "meta: $(cat "$t/o")"
"$HONE" run "$t/two/m.gguf" 'What is this?' --image $p/420.jpg --act f32 --kv-type f32 --temp 0 -n 24 --raw --json -q > "$t/o" 2> "$t/e" || :
check one 'two projector files'

# of several that fit, the one named after the model's file; otherwise hone asks
mkdir "$t/named"
for n in a-m b-m; do ln "$t/v/m.gguf" "$t/named/$n-Q8_0.gguf"; cp "$t/v/mmproj-F32.gguf" "$t/named/mmproj-$n-BF16.gguf"; done
ln "$t/v/m.gguf" "$t/named/c.gguf"
see() { "$HONE" "$1" "$t/named/$2.gguf" x --image $p/420.jpg -n 1 > "$t/o" 2> "$t/e"; }
see run a-m-Q8_0; grep -q 'read by .*/mmproj-a-m-BF16' "$t/e" || say "a-m: $(cat "$t/e")"
see run b-m-Q8_0; grep -q 'read by .*/mmproj-b-m-BF16' "$t/e" || say "b-m: $(cat "$t/e")"
see run c && say 'c: a projector of another model was used'
grep -q 'mmproj-a-m-BF16.gguf, mmproj-b-m-BF16.gguf: .*--mmproj FILE' "$t/e" || say "c: $(cat "$t/e")"
"$HONE" make "$t/named/c.gguf" -o "$t/made" --dry-run > "$t/o" 2> "$t/e" && say 'make: c has no projector of its own'
grep -q 'several projector files' "$t/e" || say "make, c: $(cat "$t/e")"
# of one name in several types, the largest
rm "$t/named/mmproj-b-m-BF16.gguf" && "$HONE" convert "$t/hf" --type q8_0 --mmproj "$t/named/mmproj-a-m-Q8_0.gguf" -q > "$t/o" 2>&1
see run c || :
grep -q 'read by .*/mmproj-a-m-BF16' "$t/e" || say "two types: $(cat "$t/e")"
# one that cannot be used is named with its defect, also if another one fits
head -c 3000 "$t/v/mmproj-F32.gguf" > "$t/named/mmproj-c.gguf"
see run c && say 'a cut projector file'
grep -q 'mmproj-c.gguf: .*truncated' "$t/e" || say "cut: $(cat "$t/e")"

# refused
answer 'x' --image $p/decode.json > "$t/o" 2> "$t/e" && say 'a text was taken for an image'
grep -q 'decode.json: the data are not an image' "$t/e" || say "not an image: $(cat "$t/e")"
printf 'GIF89a......' > "$t/a.gif" && printf 'RIFF1234WEBPVP8 ' > "$t/a.webp"
for kind in GIF WebP; do
    answer 'x' --image "$t/a.$(echo $kind | tr A-Z a-z)" > "$t/o" 2> "$t/e" && say "a $kind was accepted"
    grep -q "$kind images are not supported: convert the image to PNG or JPEG" "$t/e" || say "$kind: $(cat "$t/e")"
done
answer 'x' --image "$t/none.png" > "$t/o" 2> "$t/e" && say 'a missing file'
grep -q 'none.png' "$t/e" || say "missing: $(cat "$t/e")"
mkdir "$t/alone" && ln "$t/v/m.gguf" "$t/alone/m.gguf"
"$HONE" run "$t/alone/m.gguf" x --image $p/420.jpg > "$t/o" 2> "$t/e" && say 'no projector file'
grep -q 'no projector file of this model' "$t/e" || say "no projector: $(cat "$t/e")"
# a template that knows no images gets what others write
printf '%s' "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}" > "$t/hf/chat_template.jinja"
"$HONE" convert "$t/hf" -o "$t/v/plain.gguf" --type f32 -q > "$t/o" 2>&1 || say "convert: $(cat "$t/o")"
"$HONE" run "$t/v/plain.gguf" --chat "$t/chat.json" --act f32 --kv-type f32 --temp 0 -n 24 --raw --json -q > "$t/o" 2> "$t/e" || :
check two 'a template without images'
printf '%s' 'nothing' > "$t/hf/chat_template.jinja"
"$HONE" convert "$t/hf" -o "$t/v/none.gguf" --type f32 -q > "$t/o" 2>&1 || say "convert: $(cat "$t/o")"
"$HONE" run "$t/v/none.gguf" x --image $p/420.jpg > "$t/o" 2> "$t/e" && say 'a template without messages'
grep -q 'chat template does not accept images' "$t/e" || say "template: $(cat "$t/e")"

# ---- hone serve: the same answer in every API, also from the prefix cache ----
serve "$t/v/m.gguf" --context-memory 64MiB --act f32 --kv-type f32
url="\"data:image/png;base64,$png\"" jurl="\"data:image/jpeg;base64,$jpg\""
same() { grep -qF ":$(want "$1" | sed 's/^"\\n/"/')" "$t/o" || say "$2: $(cat "$t/o"), not $(want "$1")"; } # APIs trim the text
o='"temperature": 0, "max_tokens": 24'
two="[{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {\"url\": $url}}, {\"type\": \"image_url\", \"image_url\": $jurl}, {\"type\": \"text\", \"text\": \"Compare these.\"}]}]"
one="[{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {\"url\": $jurl}}, {\"type\": \"text\", \"text\": \"What is this?\"}]}]"
for how in computed cached; do
    post /v1/chat/completions "{\"messages\": $two, $o}"; is 200 "two images"; same two "$how: chat"
    post /v1/chat/completions "{\"messages\": $one, $o}"; is 200 "an image"; same one "$how: chat, one image"
    has '"prompt_tokens":96,'
done
has '"cached_tokens":91'
post /v1/responses "{\"input\": [{\"role\": \"user\", \"content\": [{\"type\": \"input_image\", \"image_url\": $jurl}, {\"type\": \"input_text\", \"text\": \"What is this?\"}]}], \"temperature\": 0, \"max_output_tokens\": 24}"
is 200 responses; same one responses
post /v1/messages "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\", \"source\": {\"type\": \"base64\", \"media_type\": \"image/jpeg\", \"data\": \"$jpg\"}}, {\"type\": \"text\", \"text\": \"What is this?\"}]}], $o}"
is 200 messages; same one messages
post /api/chat "{\"messages\": [{\"role\": \"user\", \"content\": \"What is this?\", \"images\": [\"$jpg\"]}], \"stream\": false, \"options\": {\"temperature\": 0, \"num_predict\": 24}}"
is 200 ollama; same one "Ollama's chat"
post /api/generate "{\"prompt\": \"What is this?\", \"images\": [\"$jpg\"], \"stream\": false, \"options\": {\"temperature\": 0, \"num_predict\": 24}}"
is 200 generate; same one "Ollama's generate"
post /api/generate "{\"prompt\": \"x\", \"images\": [\"$jpg\"], \"raw\": true, \"stream\": false}"
is 400 'an image without the template'; has 'leave out'
post /api/chat "{\"messages\": [{\"role\": \"user\", \"content\": \"x\", \"images\": \"$jpg\"}], \"stream\": false}"
is 400 'images that are no array'; has 'must be an array'
get /props; has '"vision":true'
post /api/show '{"model": "m"}'; has '"vision"'
post /v1/chat/completions "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {\"url\": \"https://x.invalid/x.png\"}}]}]}"
is 400 'an address'; has 'not fetched: send the image itself as a data URL'
post /v1/messages "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\", \"source\": {\"type\": \"url\", \"url\": \"https://x.invalid/x.png\"}}]}], $o}"
is 400 'an address'; has 'not fetched: send the image itself as a source of type base64'
# other kinds of content
post /v1/chat/completions '{"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}'; is 400 audio; has "'input_audio' are not supported, only text and images"
post /v1/messages "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"document\"}]}], $o}"; is 400 'a document'; has "'document' are not supported, only text and images"
post /v1/messages "{\"system\": [{\"type\": \"audio\"}], \"messages\": [{\"role\": \"user\", \"content\": \"x\"}], $o}"; is 400 'a system block'; has "'audio' are not supported, only text and images"
post /v1/responses '{"input": [{"role": "user", "content": [{"type": "input_file"}]}]}'; is 400 'a file'; has "'input_file' are not supported, only text and images"
post /v1/chat/completions "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {\"url\": \"data:image/png;base64,aGVsbG8=\"}}]}]}"
is 400 'a text'; has 'not an image'
for kind in GIF WebP; do
    file=$t/a.$(echo $kind | tr A-Z a-z)
    post /v1/chat/completions "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {\"url\": \"data:image/${file##*.};base64,$(base64 < "$file")\"}}]}]}"
    is 400 "a $kind"; has "$kind images are not supported: convert the image to PNG or JPEG"
done

# images in every role (tests/oracle/see_roles.py), the first time and from the prefix cache
cimg="{\"type\": \"image_url\", \"image_url\": {\"url\": $jurl}}" rimg="{\"type\": \"input_image\", \"image_url\": $jurl}"
mimg="{\"type\": \"image\", \"source\": {\"type\": \"base64\", \"media_type\": \"image/jpeg\", \"data\": \"$jpg\"}}"
seen='{"type": "text", "text": "Seen."}' see='{"type": "text", "text": "See."}' use='"id": "a", "name": "f"' what='{"role": "user", "content": "What is this?"}' look='{"role": "user", "content": "Look."}'
post /v1/chat/completions "{\"messages\": [$look, {\"role\": \"assistant\", \"content\": [$cimg, $seen]}, $what], $o}"; is 200 "an assistant's image"; same assistant 'chat: assistant'
has '"prompt_tokens":117,'
post /v1/messages "{\"messages\": [$look, {\"role\": \"assistant\", \"content\": [$mimg, $seen]}, $what], $o}"; is 200 "an assistant's image"; same assistant 'messages: assistant'
post /v1/responses "{\"input\": [$look, {\"role\": \"assistant\", \"content\": [$rimg, {\"type\": \"output_text\", \"text\": \"Seen.\"}]}, $what], \"temperature\": 0, \"max_output_tokens\": 24}"; is 200 "an assistant's image"; same assistant 'responses: assistant'
for role in system developer; do
    post /v1/chat/completions "{\"messages\": [{\"role\": \"$role\", \"content\": [$see, $cimg]}, $what], $o}"; is 200 "an image of $role"; same system "chat: $role"
    post /v1/responses "{\"input\": [{\"role\": \"$role\", \"content\": [{\"type\": \"input_text\", \"text\": \"See.\"}, $rimg]}, $what], \"temperature\": 0, \"max_output_tokens\": 24}"; is 200 "an image of $role"; same system "responses: $role"
done
post /v1/messages "{\"system\": [$see, $mimg], \"messages\": [$what], $o}"; is 200 'a system image'; same system 'messages: system'
# a bad image is named by message and part
bad='data:image/png;base64,aGVsbG8='
post /v1/chat/completions "{\"messages\": [$what, {\"role\": \"user\", \"content\": [$see, {\"type\": \"image_url\", \"image_url\": {\"url\": \"$bad\"}}]}]}"; is 400 'chat: a bad image'; has 'messages[1].content[1]: the data are not an image'
post /v1/responses "{\"input\": [$what, {\"role\": \"user\", \"content\": [{\"type\": \"input_image\", \"image_url\": \"$bad\"}]}]}"; is 400 'responses: a bad image'; has 'input[1].content[0]: the data are not an image'
post /v1/responses "{\"input\": [$look, {\"type\": \"function_call\", \"call_id\": \"a\", \"name\": \"f\", \"arguments\": \"{}\"}, {\"type\": \"function_call_output\", \"call_id\": \"a\", \"output\": [{\"type\": \"input_image\", \"image_url\": \"$bad\"}]}]}"; is 400 'responses: a bad result'; has 'input[2].output[0]: the data are not an image'
post /v1/messages "{\"messages\": [$look, {\"role\": \"assistant\", \"content\": [{\"type\": \"tool_use\", $use, \"input\": {}}]}, {\"role\": \"user\", \"content\": [$see, {\"type\": \"tool_result\", \"tool_use_id\": \"a\", \"content\": [{\"type\": \"image\", \"source\": {\"type\": \"base64\", \"data\": \"aGVsbG8=\"}}]}]}], \"max_tokens\": 4}"; is 400 'messages: a bad result'; has 'messages[2].content[1].content[0]: the data are not an image'
post /api/chat "{\"messages\": [$what, {\"role\": \"user\", \"content\": \"x\", \"images\": [\"$jpg\", \"aGVsbG8=\"]}], \"stream\": false}"; is 400 'ollama: a bad image'; has 'messages[1].images[1]: the data are not an image'
# a text that looks like a mark or a placeholder is a text
post /v1/chat/completions "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {\"url\": $jurl}}, {\"type\": \"text\", \"text\": \"<|image_pad|> <image:0123456789abcdef:0123456789abcdef0123456789abcdef>\"}]}], $o}"
is 200 'a text like a placeholder'
stop
# in results of tools, with a template that knows calls
cp "$t/tools" "$t/hf/chat_template.jinja"
"$HONE" convert "$t/hf" -o "$t/v/tools.gguf" --type f32 -q > "$t/o" 2>&1 || say "convert: $(cat "$t/o")"
serve "$t/v/tools.gguf" --context-memory 64MiB --act f32 --kv-type f32
post /v1/chat/completions "{\"messages\": [$look, {\"role\": \"assistant\", \"content\": \"Calling.\", \"tool_calls\": [{\"id\": \"a\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": \"{}\"}}]}, {\"role\": \"tool\", \"tool_call_id\": \"a\", \"content\": [{\"type\": \"text\", \"text\": \"seen\"}, $cimg]}], $o}"; is 200 "a tool's image"; same tool 'chat: tool'
post /v1/messages "{\"messages\": [$look, {\"role\": \"assistant\", \"content\": [{\"type\": \"text\", \"text\": \"Calling.\"}, {\"type\": \"tool_use\", $use, \"input\": {}}]}, {\"role\": \"user\", \"content\": [{\"type\": \"tool_result\", \"tool_use_id\": \"a\", \"content\": [{\"type\": \"text\", \"text\": \"seen\"}, $mimg]}]}], $o}"; is 200 "a tool's image"; same tool 'messages: tool'
said='{"role": "assistant", "content": "Calling."}'
post /v1/responses "{\"input\": [$look, $said, {\"type\": \"function_call\", \"call_id\": \"a\", \"name\": \"f\", \"arguments\": \"{}\"}, {\"type\": \"function_call_output\", \"call_id\": \"a\", \"output\": [{\"type\": \"input_text\", \"text\": \"seen\"}, $rimg]}], \"temperature\": 0, \"max_output_tokens\": 24}"; is 200 "a tool's image"; same tool 'responses: tool'
post /v1/responses "{\"input\": [$look, {\"type\": \"computer_call\", \"call_id\": \"a\", \"action\": {\"type\": \"screenshot\"}}, {\"type\": \"computer_call_output\", \"call_id\": \"a\", \"output\": {\"type\": \"computer_screenshot\", \"image_url\": $jurl}}], \"temperature\": 0, \"max_output_tokens\": 24}"; is 200 'a screenshot'
has '"input_tokens":1'
stop
serve "$t/alone/m.gguf" --context-memory 64MiB
post /v1/chat/completions "{\"messages\": $one, $o}"; is 400 'without a projector'; has 'messages[0].content[0]: this model does not see images'
post /v1/chat/completions '{"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}'; is 400 audio; has "are not supported, only text\""
post /v1/chat/completions "{\"messages\": [$look, {\"role\": \"assistant\", \"content\": [$cimg, $seen]}, $what], $o}"; is 400 'an assistant, without a projector'; has 'messages[1].content[0]: this model does not see images'
post /v1/chat/completions "{\"messages\": [$look, {\"role\": \"assistant\", \"content\": \"Calling.\"}, {\"role\": \"tool\", \"content\": [$cimg]}], $o}"; is 200 'a tool, without a projector'
get /props; has '"vision":false'
stop
# --mmproj
serve "$t/alone/m.gguf" --context-memory 64MiB --act f32 --kv-type f32 --mmproj "$t/v/mmproj-F32.gguf"
get /props; has '"vision":true'
post /v1/chat/completions "{\"messages\": $one, $o}"; is 200 '--mmproj'; same one '--mmproj'
stop
cp "$t/two/mmproj-A.gguf" "$t/A.gguf"
"$HONE" serve "$t/v/m.gguf" --port 0 --mmproj "$t/A.gguf" > "$t/o" 2> "$t/e" && say 'serve: a projector of another model'
grep -q 'A.gguf belongs to another model' "$t/e" || say "serve --mmproj: $(cat "$t/e")"
exit $fail
