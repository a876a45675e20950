#!/bin/sh
# SPDX-License-Identifier: MIT
# hone eval vision: divergences as transformers computes them (tests/oracle/see_other.py), for another language model, another
# projector and given answers; a quantized model; and what is refused.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
p=tests/golden/pixels
mkdir "$t/hf" "$t/v" "$t/o" && cp tests/golden/models/qwen35/*.json tests/golden/models/qwen35/model.safetensors tests/golden/see/chat_template.jinja "$t/hf"
"$HONE" convert "$t/hf" -o "$t/v/m.gguf" --type f32 --mmproj "$t/v/mmproj-F32.gguf" -q > "$t/out" 2> "$t/e" || say "convert: $(cat "$t/e")"
cp "$t/v/m.gguf" "$t/o/text.gguf" && cp "$t/v/mmproj-F32.gguf" "$t/tower.gguf"
"$HONE" meta "$t/o/text.gguf" qwen35.rope.freq_base=100 qwen35.attention.layer_norm_rms_epsilon=0.05 -q > "$t/out" || say 'meta of the model'
"$HONE" meta "$t/tower.gguf" clip.vision.attention.head_count=4 -q > "$t/out" || say 'meta of the projector'
jpg=$(base64 < $p/420.jpg | tr -d '\n')
cp $p/rgba.png "$t/v/two.png"
cat > "$t/v/ask.jsonl" << X
{"image": "data:image/jpeg;base64,$jpg", "question": "What is this?", "answer": "a red circle"}

{"image": ["two.png", "data:image/jpeg;base64,$jpg"], "question": "Compare these.", "answer": ["a red circle", "a dog"]}
X
vision() { "$HONE" eval vision "$t/v/m.gguf" "$@" --json -q > "$t/out" 2> "$t/e" || say "eval vision $*: $(cat "$t/e")"; }
# value FILE KEY: the first number of a key in a JSON text of one number per line; want CASE KEY: the golden one
value() { awk -v k="\"$2\":" '{ for (i = 1; i < NF; i++) if ($i == k) { sub(/,$/, "", $(i + 1)); print $(i + 1); exit } }' "$1"; }
want() { awk -v c="\"$1\":" '$1 == c { on = 1 } on' tests/golden/see/other.json > "$t/case"; value "$t/case" "$2"; }
# near WHAT A B: they differ by at most 0.1 %
near() { awk -v a="$2" -v b="$3" 'BEGIN { d = a - b; exit !(a != "" && b > 0 && (d < 0 ? -d : d) <= 1e-3 * b) }' || say "$1: $2, not $3"; }
# is_as CASE: the measurement is the golden one
is_as() {
    near "$1: mean KLD" "$(value "$t/out" mean_kld)" "$(want "$1" mean_kld)"
    near "$1: max KLD" "$(value "$t/out" max_kld)" "$(want "$1" max_kld)"
    [ "$(value "$t/out" n_tokens)" = "$(want "$1" n_tokens)" ] || say "$1: $(value "$t/out" n_tokens) tokens"
    near "$1: same top" "$(value "$t/out" same_top1)" "$(awk -v a="$(want "$1" n_same)" -v b="$(want "$1" n_tokens)" 'BEGIN { print a / b }')"
}
# first_changed: of each answer, the first token that differs
first_changed() { awk '/"answers":/ { on = 1 } on && /"first_changed":/ { sub(/,$/, "", $2); printf "%s ", $2 }' "$t/out"; }

vision "$t/o/text.gguf" "$t/v/ask.jsonl" --max-tokens 24
is_as text # there is no projector next to it, so the base's is used
[ "$(first_changed)" = '2 2 ' ] || say "text: changed at $(first_changed)"
grep -q '"mmproj": ".*/v/mmproj-F32.gguf"' "$t/out" || say "projector: $(cat "$t/out")"
vision "$t/v/ask.jsonl" --max-tokens 24 --mmproj "$t/tower.gguf"
is_as tower
[ "$(first_changed)" = '13 0 ' ] || say "tower: changed at $(first_changed)"
[ "$(value "$t/out" changed)" = 0.5 ] || say "changed: $(value "$t/out" changed)"
vision "$t/o/text.gguf" "$t/v/ask.jsonl" --max-tokens 24 --given
is_as given
# the model itself: nothing differs; q4_k: something does; --cases takes the first line
vision "$t/v/m.gguf" "$t/v/ask.jsonl" --max-tokens 8 --cases 1
[ "$(value "$t/out" max_kld)" = 0 ] && [ "$(value "$t/out" n_questions)" = 1 ] || say "itself: $(cat "$t/out")"
"$HONE" quantize "$t/v/m.gguf" --type Q4_K -o "$t/v/q4.gguf" -q > "$t/out" || say 'quantize'
"$HONE" eval vision "$t/v/m.gguf" "$t/v/q4.gguf" "$t/v/m.gguf" "$t/v/ask.jsonl" --mmproj "$t/tower.gguf,$t/v/mmproj-F32.gguf" --max-tokens 8 -q > "$t/out" || say 'a table'
[ "$(grep -c '^[qm]4*.gguf ' "$t/out")" = 10 ] || say "rows: $(cat "$t/out")" # 4 models, 6 pairs
"$HONE" eval vision "$t/v/m.gguf" "$t/v/q4.gguf" "$t/v/ask.jsonl" --max-tokens 8 -q > "$t/out" || say 'a table'
awk 'NR > 1 && length($0) > 100' "$t/out" | grep . && say 'lines of more than 100 columns'
# answers that the base gives are right, whatever their case
vision "$t/v/m.gguf" "$t/v/ask.jsonl" --max-tokens 8
text=$(awk '/"questions":/ { on = 1 } on && /"answer":/ { sub(/^ *"answer": /, ""); sub(/,$/, ""); print; exit }' "$t/out")
printf '{"image": "two.png", "question": "?"}\n{"image": "data:;base64,%s", "question": "What is this?", "answer": ["no", %s]}\n' "$jpg" "$(printf %s "$text" | tr a-z A-Z | sed 's/\\N/\\n/g; s/"$/. "/')" > "$t/v/right.jsonl"
vision "$t/v/m.gguf" "$t/v/right.jsonl" --max-tokens 8
[ "$(value "$t/out" base_right)" = 1 ] || say "right: $(cat "$t/out" "$t/v/right.jsonl")"

# multiple choice: the picks of transformers; the first choice counts as right
cat > "$t/choices" << X
a red circle|a dog|no|the blue square
yes|no|maybe it is
one|two|three|four|five
left|right of it|above
red|green|blue
X
# ask IMAGES QUESTION: the lines of all choices
ask() { sed "s/|/\", \"/g; s/\([^\"]*\).*/{\"image\": $1, \"question\": \"$2\", \"answer\": \"\1\", \"choices\": [\"&\"]}/" "$t/choices"; }
{ ask "\"data:image\/jpeg;base64,$(printf %s "$jpg" | sed 's/\//\\\//g')\"" 'What is this?'
ask "[\"two.png\", \"data:image\/jpeg;base64,$(printf %s "$jpg" | sed 's/\//\\\//g')\"]" 'Compare these.'; } > "$t/v/choose.jsonl"
# golden MODEL: the texts of the golden picks
golden() {
    awk -v c="\"$1\":" '/"choices":/ { on = 1 } on && $1 == c { here = 1 } here && /^ *[0-9],?$/ { print $1 + 0 } here && /]/ { exit }' tests/golden/see/other.json |
        awk -v f="$t/choices" 'BEGIN { while ((getline l < f) > 0) row[n++] = l } { split(row[(NR - 1) % n], c, "|"); print c[$1 + 1] }'
}
# picks TABLE: the picks of a table in $t/out
picks() { awk -v t="\"$1\":" '$1 == t { on = 1 } on && /"choice":/ { sub(/^ *"choice": "/, ""); sub(/",?$/, ""); print } on && /]/ { exit }' "$t/out"; }
share() { printf '%s\n' "$2" > "$t/a"; printf '%s\n' "$3" | paste -d= "$t/a" - | awk -F= -v want="$1" '(want == "same") == ($1 == $2) { n++ } END { print n / NR }'; }
first=$(sed 's/|.*//' "$t/choices"; sed 's/|.*//' "$t/choices")
for kind in text tower; do
    case $kind in text) vision "$t/o/text.gguf" "$t/v/choose.jsonl" --max-tokens 8 ;; tower) vision "$t/v/choose.jsonl" --max-tokens 8 --mmproj "$t/tower.gguf" ;; esac
    [ "$(picks answers | grep -c .)" = 10 ] || say "$(picks answers | grep -c .) choices"
    [ "$(picks questions)" = "$(golden base)" ] || say "choices of the base: $(picks questions)"
    [ "$(picks answers)" = "$(golden $kind)" ] || say "choices of $kind: $(picks answers)"
    [ "$(value "$t/out" base_choices_right)" = "$(share same "$first" "$(golden base)")" ] || say "choices, base right: $(value "$t/out" base_choices_right)"
    [ "$(value "$t/out" choices_right)" = "$(share same "$first" "$(golden $kind)")" ] || say "choices right: $(value "$t/out" choices_right)"
    [ "$(value "$t/out" choices_flipped)" = "$(share other "$(golden base)" "$(golden $kind)")" ] || say "choices flipped: $(value "$t/out" choices_flipped)"
done
grep -q '"n_expected"' "$t/out" && say 'multiple choice counts as an expected answer, too'

# without images: the tower does not matter, and every question is a sample of its own
printf '{"image": [], "question": "What is this?"}\n{"image": [], "question": "What is that?"}\n' > "$t/v/none.jsonl"
vision "$t/v/none.jsonl" --mmproj "$t/tower.gguf" --max-tokens 8
[ "$(value "$t/out" max_kld)" = 0 ] && [ "$(value "$t/out" n_tokens)" = 16 ] || say "no images: $(cat "$t/out")"
vision "$t/o/text.gguf" "$t/v/none.jsonl" --max-tokens 8
[ "$(value "$t/out" mean_kld_stderr)" != 0 ] || say "no error: $(cat "$t/out")"

# refused, with file and line
# refuse WHAT TEXT: the file $t/v/bad.jsonl
refuse() {
    "$HONE" eval vision "$t/v/m.gguf" "$t/v/q4.gguf" "$t/v/bad.jsonl" -q > "$t/out" 2> "$t/e" && say "$1 was accepted"
    grep -q "bad.jsonl: $2" "$t/e" || say "$1: $(cat "$t/e")"
}
ok='{"image": "two.png", "question": "?"}'
printf '%s\n\n{"image": "none.png", "question": "?"}\n' "$ok" > "$t/v/bad.jsonl"; refuse 'a missing image' 'line 3: .*none.png'
printf '%s\n{"image": "ask.jsonl", "question": "?"}\n' "$ok" > "$t/v/bad.jsonl"; refuse 'a text' 'line 2: ask.jsonl: the data are not an image'
printf 'GIF89a......' > "$t/v/a.gif" && printf 'RIFF1234WEBPVP8 ' > "$t/v/a.webp"
printf '{"image": "a.gif", "question": "?"}\n' > "$t/v/bad.jsonl"; refuse 'a GIF' 'line 1: a.gif: GIF images are not supported: convert the image to PNG or JPEG'
printf '{"image": "a.webp", "question": "?"}\n' > "$t/v/bad.jsonl"; refuse 'a WebP' 'line 1: a.webp: WebP images are not supported: convert'
printf '{"image": "two.png", "question": 3}\n' > "$t/v/bad.jsonl"; refuse 'a question' 'line 1: "question"'
printf '{"question": "?"}\n' > "$t/v/bad.jsonl"; refuse 'no image' 'line 1: "image" is missing'
printf '{"image": [3], "question": "?"}\n' > "$t/v/bad.jsonl"; refuse 'a number' 'line 1: "image" must be'
printf '{"image": "https://x.invalid/a.png", "question": "?"}\n' > "$t/v/bad.jsonl"; refuse 'an address' 'line 1: .*not fetched'
printf '{"image": "data:image/png;base64,!", "question": "?"}\n' > "$t/v/bad.jsonl"; refuse 'no base64' 'line 1: the image: '
printf '{"image": "two.png", "question": "?", "answer": []}\n' > "$t/v/bad.jsonl"; refuse 'no answers' 'line 1: "answer"'
for bad in '["a", "b"]' '["c"]' '"c"' '["c", 3]' '["c", "c"]' '["c", ""]'; do
    printf '{"image": "two.png", "question": "?", "answer": "c", "choices": %s}\n' "$bad" > "$t/v/bad.jsonl"; refuse "choices $bad" 'line 1: .*"choices"'
done
printf '{"image": "two.png", "question": "?", "choices": ["a", "b"]}\n' > "$t/v/bad.jsonl"; refuse 'no right choice' 'line 1: .*"answer"'
printf '%s\n[1\n' "$ok" > "$t/v/bad.jsonl"; refuse 'no JSON' 'line 2'
printf '[1]\n' > "$t/v/bad.jsonl"; refuse 'an array' 'line 1: not an object'
printf '\n' > "$t/v/bad.jsonl"; refuse 'no lines' 'contains no question'
printf '\357\273\277{"image": "two.png", "question": "?", "answer": null, "choices": null}\n' > "$t/v/null.jsonl"
vision "$t/v/q4.gguf" "$t/v/null.jsonl" --max-tokens 2
printf '%s\n' "$ok" > "$t/v/bad.jsonl"
"$HONE" eval vision "$t/v/m.gguf" "$t/v/bad.jsonl" -q > "$t/out" 2> "$t/e" && say 'no quantized model'
grep -q 'name a quantized model' "$t/e" || say "no quantized model: $(cat "$t/e")"
"$HONE" eval vision "$t/v/m.gguf" "$t/v/q4.gguf" "$t/v/bad.jsonl" --given -q > "$t/out" 2> "$t/e" && say 'no answer to force'
grep -q 'bad.jsonl: line 1: no "answer"' "$t/e" || say "--given: $(cat "$t/e")"
"$HONE" eval vision "$t/v/m.gguf" "$t/v/m.gguf" "$t/v/bad.jsonl" --mmproj "$t/v/q4.gguf" -q > "$t/out" 2> "$t/e" && say 'a model for a projector'
grep -q 'not a projector' "$t/e" || say "a model for a projector: $(cat "$t/e")"
exit $fail
