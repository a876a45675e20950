#!/bin/sh
# SPDX-License-Identifier: MIT
# End tokens: every id that a folder lists, and the marker that its template writes, end answers of hone serve, run and
# eval; and they are in the converted file and in every file made from it.
set -eu
. tests/serving.sh
folder() { # name, the list of generation_config.json, template
    mkdir -p "$t/$1"
    cp tests/golden/models/qwen3/* "$t/$1"
    printf '{"do_sample": true, "eos_token_id": %s}' "$2" > "$t/$1/generation_config.json"
    printf '%s' "$3" > "$t/$1/chat_template.jinja"
}
ends() { # file, the ids that inspect must show as ends, as [a, b, ...]
    run 0 inspect "$1" --json --keys none
    got=$(tr -d '\n ' < "$t/o" | sed 's/.*"ends":\[\([^]]*\)\].*/\1/' | grep -o '"id":[0-9]*' | sed 's/"id"://' | paste -sd, -)
    [ "$got" = "$2" ] || say "$1: ends $got, expected $2"
}
keys() { # file, KEY=VALUE...: keys of tokenizer.ggml
    run 0 inspect "$1" --json --keys all
    file=$1
    shift
    for k; do
        tr -d '\n ' < "$t/o" | grep -qF "\"key\":\"tokenizer.ggml.${k%%=*}\",\"type\":\"${k#*=}" || say "$file: no $k"
    done
}

plain='{% for m in messages %}{{ m.content }}{% endfor %}'
# 1012 <|im_end|> is eos; the texts of 1010 and 1012 are known everywhere; 1013 to 1016 are not
folder a '[1010, 1012, 1013, 1014, 1015, 1013, 99999]' "$plain"
run 0 convert "$t/a" -o "$t/a.gguf"
grep -qF '"<|vision_pad|>" (1015)' "$t/e" || say "no warning of the end that has no key: $(cat "$t/e")"
grep -q 99999 "$t/e" || say "no warning of an id past the vocabulary: $(cat "$t/e")"
ends "$t/a.gguf" 1010,1012,1013,1014,1015
keys "$t/a.gguf" 'eos_token_id=u32","value":"1012"' 'eot_token_id=u32","value":"1013"' 'eom_token_id=u32","value":"1014"'

# files made from it
run 0 quantize "$t/a.gguf" -o "$t/q.gguf" --recipe Q8_0
run 0 split "$t/a.gguf" -o "$t/s" --max-size 300KiB
run 0 merge "$t"/s-00001-of-*.gguf -o "$t/m2.gguf"
cp "$t/a.gguf" "$t/f.gguf"
"$HONE" template fix "$t/f.gguf" --write > "$t/o" 2>&1 || true
for f in "$t/q.gguf" "$t"/s-00001-of-*.gguf "$t/m2.gguf" "$t/f.gguf"; do ends "$f" 1010,1012,1013,1014,1015; done

# three of them have keys: no list, no warning
folder b '[1012, 1013, 1010, 1014]' "$plain"
run 0 convert "$t/b" -o "$t/b.gguf"
! grep -q 'end an answer' "$t/e" || say "a warning of ends that all have keys: $(cat "$t/e")"
run 0 inspect "$t/b.gguf" --json
! grep -q eos_token_ids "$t/o" || say "a list where keys hold all"

# the template writes 1014 after answers, and 1016 before tool results
folder c null '{% for m in messages %}{% if m.role == "tool" %}<|image_pad|>{% else %}<|im_start|>{% endif %}{{ m.content }}{{
    m.tool_calls }}{% if not m.tool_calls %}<|vision_end|>{% endif %}{% endfor %}'
run 0 convert "$t/c" -o "$t/c.gguf"
keys "$t/c.gguf" 'eos_token_id=u32","value":"1012"' 'eot_token_id=u32","value":"1014"' 'eom_token_id=u32","value":"1016"'
ends "$t/c.gguf" 1010,1012,1014,1016

# a template in chat_template.json alone
folder j null ''
rm "$t/j/chat_template.jinja"
sed -i 's/"chat_template"/"other"/' "$t/j/tokenizer_config.json"
echo '{"chat_template": "{% for m in messages %}{{ m.content }}<|vision_end|>{% endfor %}"}' > "$t/j/chat_template.json"
run 0 template show "$t/j"
grep -q '^{% for m in' "$t/o" || say "template show of a folder with chat_template.json: $(cat "$t/o")"
run 0 convert "$t/j" -o "$t/j.gguf"
keys "$t/j.gguf" 'eos_token_id=u32","value":"1012"' 'eot_token_id=u32","value":"1014"'
ends "$t/j.gguf" 1010,1012,1014

# an embedding model appends a token other than the eos of its chats: keys as those of gguf-py 0.19.0's SpecialVocab
embedding() { # name, text before add_bos_token
    folder "$1" null "$plain"
    single='[{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}]'
    steps="[{\"type\": \"ByteLevel\"}, {\"type\": \"TemplateProcessing\", \"single\": $single, \"pair\": []}]"
    sed -i "s/\"post_processor\": null/\"post_processor\": {\"type\": \"Sequence\", \"processors\": $steps}/" "$t/$1/tokenizer.json"
    sed -i "s/\"add_bos_token\"/$2&/" "$t/$1/tokenizer_config.json"
    echo '[]' > "$t/$1/modules.json"
}
embedding emb ''
run 0 convert "$t/emb" -o "$t/emb.gguf"
keys "$t/emb.gguf" 'eos_token_id=u32","value":"1010"' 'eot_token_id=u32","value":"1012"' 'add_eos_token=bool","value":"true"'
embedding emb2 '"add_eos_token": false, '
run 0 convert "$t/emb2" -o "$t/emb2.gguf"
keys "$t/emb2.gguf" 'eos_token_id=u32","value":"1010"' 'eot_token_id=u32","value":"1012"' 'add_eos_token=bool","value":"false"'
rm "$t/emb/modules.json" # a chat model keeps its eos
run 0 convert "$t/emb" -o "$t/emb3.gguf"
keys "$t/emb3.gguf" 'eos_token_id=u32","value":"1012"'

# each of them ends an answer, and no other token does
answers() { # id, finish_reason
    body="{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"max_tokens\": 3, \"logit_bias\": {\"$1\": 100}}"
    "$t/ask" "$port" -b "$body" POST /v1/chat/completions > "$t/raw" || say "the server does not answer"
    grep -q "\"finish_reason\": *\"$2\"" "$t/raw" || say "token $1 does not give $2: $(tail -c 300 "$t/raw")"
}
for f in a c; do
    cp "$t/$f.gguf" "$t/m.gguf"
    start
    answers 1012 stop; answers 1010 stop; answers 1014 stop; answers 1017 length
    if [ $f = a ]; then
        answers 1013 stop; answers 1015 stop; answers 1016 length
    else
        answers 1013 length; answers 1016 stop
    fi
    kill -TERM $pid
    wait $pid || say "the server ends with $?"
    pid=
done

# run and eval end there too: this model repeats the last token of its prompt, and 72 is "i"
says() { # file, user's message, answer, how it ends
    printf '{"messages": [{"role": "user", "content": "%s"}]}' "$2" > "$t/talk.json"
    printf '{"messages": [{"role": "user", "content": "%s"}], "max_tokens": 6, "checks": {"exact": "%s"}}\n' "$2" "$3" > "$t/talk.jsonl"
    run 0 run "$1" --chat "$t/talk.json" --temp 0 -n 6 --json
    grep -qF "\"text\": \"$3\"" "$t/o" && grep -qF "\"stop\": \"$4\"" "$t/o" || say "run $1: $(head -n 8 "$t/o")"
    run 0 eval checks "$1" "$t/talk.jsonl" --require 100
}
folder i '[1012, 72]' "$plain"
run 0 convert "$t/i" -o "$t/i.gguf"
says "$t/b.gguf" hi iiiiii length
says "$t/i.gguf" hi '' end

# a marker of ordinary tokens ends answers and is not part of them; a single word does not
text_end() { # name, template
    folder "$1" null "$2"
    run 0 convert "$t/$1" -o "$t/$1.gguf"
}
text_end d "{% for m in messages %}{{ m.content }}{% if m.role == 'assistant' %}# #{% endif %}{% endfor %}"
text_end next "{% for m in messages %}{% if m.role == 'user' and not loop.first %} # # {% endif %}{{ m.content }}{% endfor %}"
text_end word "{% for m in messages %}{{ m.content }}{% if m.role == 'assistant' %}per{% endif %}{% endfor %}"
says "$t/b.gguf" 'a #' ' # # # # # #' length
says "$t/d.gguf" 'a #' ' ' end
says "$t/next.gguf" 'a #' ' ' end
says "$t/word.gguf" '#' perperperperperper length
cp "$t/d.gguf" "$t/m.gguf"
start
for more in '' ', "stream": true'; do
    "$t/ask" "$port" -b "{\"messages\": [{\"role\": \"user\", \"content\": \"a #\"}], \"max_tokens\": 6, \"temperature\": 0$more}" POST /v1/chat/completions > "$t/raw"
    grep -q '"finish_reason": *"stop"' "$t/raw" && ! grep -q 'content": *"[^"]*#' "$t/raw" || say "a text does not end the answer: $(tail -c 600 "$t/raw")"
done
"$t/ask" "$port" -b '{"prompt": "a #", "max_tokens": 6, "temperature": 0}' POST /v1/completions > "$t/raw"
grep -q '"text": *" # # # # # #"' "$t/raw" || say "a text without a template is ended: $(tail -c 600 "$t/raw")"
kill -TERM $pid
wait $pid || say "the server ends with $?"
pid=

# a user's template brings its own end tokens
printf '%s' '{% for m in messages %}{{ m.content }}<|video_pad|>{% endfor %}' > "$t/own.jinja"
cp "$t/b.gguf" "$t/m.gguf"
start --template "$t/own.jinja"
answers 1017 stop; answers 1014 stop; answers 1016 length
exit $fail
