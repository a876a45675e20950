#!/bin/sh
# SPDX-License-Identifier: MIT
# hone make --images: the columns of every file and of the quantized projector are the numbers of hone eval vision for the same
# files; they are in results.json, manifest, report and card; an interrupted job resumes with the same numbers; bad questions
# are refused before anything is written; without the option, the card lists images as not measured.
set -eu
. tests/making.sh
cp -r tests/golden/models/qwen35 "$t/Tiny"
cp tests/golden/see/chat_template.jinja "$t/Tiny"
cp tests/golden/pixels/420.jpg tests/golden/pixels/rgba.png "$t"
cat > "$t/ask.jsonl" << X
{"image": "420.jpg", "question": "What is this?", "answer": "a red circle"}
{"image": "rgba.png", "question": "What color is it?", "answer": "red", "choices": ["blue", "red", "green"]}
{"image": ["rgba.png", "420.jpg"], "question": "Compare these.", "answer": ["a red circle", "a dog"]}
{"image": "420.jpg", "question": "Name the shape.", "answer": "ring", "choices": ["ring", "square", "a round circle"]}
X
for word in one two three four five six seven eight; do echo "{\"image\": \"rgba.png\", \"question\": \"Say $word.\"}"; done >> "$t/ask.jsonl"
make() { # expected exit, folder, more
    want=$1 folder=$2
    shift 2
    small_make "$want" "$folder" --plain --recipe Q8_0,Q4_K_M --images "$t/ask.jsonl" "$@"
}
row() { sed -n "/\"file\": \"$1\"/,/^ *}/p" "$2" > "$t/row"; } # of a file in a JSON text
# same KEY, KEY: a member of the row in results.json and the member that eval vision gives
same() {
    a=$(number "$1" "$t/row") b=$(number "$2" "$t/o")
    [ -n "$a" ] && [ "$a" = "$b" ] || say "$1: '$a', but eval vision: '$b'"
}
compared() {
    same images_kld mean_kld
    same images_kld_stderr mean_kld_stderr
    same images_same_top1 same_top1
    same images_changed changed
    same images_right right
    same images_choices_right choices_right
    same images_choices_flipped choices_flipped
}

# ---- forecast ----
run 0 make "$t/Tiny" -o "$t/out" --plain --recipe Q8_0 --calib "$t/calib.txt" --eval "$t/eval.txt" --images "$t/ask.jsonl" --dry-run
grep -q 'questions about images' "$t/o" || say "forecast: $(cat "$t/o")"

# ---- the numbers of eval vision, everywhere ----
make 0 "$t/out"
grep -q 'images' "$t/o" || say "table: $(cat "$t/o")"
mmproj=$t/out/mmproj-Tiny-BF16.gguf base=$t/out.work/Tiny-BF16.gguf
for recipe in Q8_0 Q4_K_M; do
    row Tiny-$recipe.gguf "$t/out/results.json"
    run 0 eval vision "$base" "$t/out/Tiny-$recipe.gguf" "$t/ask.jsonl" --base-mmproj "$mmproj" --json
    compared
    kld=$(number images_kld "$t/row")
    grep -q "\"images_kld\": $kld" "$t/out/manifest.json" || say "manifest"
done
awk -v k="$kld" 'BEGIN { exit !(k > 0) }' || say "Q4_K_M has no divergence"
run 0 eval vision "$base" "$t/ask.jsonl" --base-mmproj "$mmproj" --mmproj "$t/out/mmproj-Tiny-Q8_0.gguf" --json
row mmproj-Tiny-Q8_0.gguf "$t/out/results.json"
compared
row Tiny-BF16.gguf "$t/out/results.json"
same images_right base_right
same images_choices_right base_choices_right
grep -q '| images | of 100 answers' "$t/out/README.md" || say "at a glance: $(cat "$t/out/README.md")"
grep -q '| memory | 0.* GiB on a card .*, with the projector file |' "$t/out/README.md" || say "memory: $(cat "$t/out/README.md")"
for f in README.md report.html; do grep -q 'The projector file, 0.* GiB, is counted' "$t/out/$f" || say "$f: the projector"; done
grep -q '| file | size | loss | same token | images |' "$t/out/README.md" || say "column: $(cat "$t/out/README.md")"
grep -q 'Over 12 questions about 2 images' "$t/out/README.md" && grep -q 'projector Q8' "$t/out/README.md" || say "section"
grep -q 'Answers about images' "$t/out/report.html" && grep -q 'divergence,<br>images' "$t/out/report.html" || say "report.html"
run 0 make "$t/Tiny" -o "$t/out" --plain --recipe Q8_0,Q4_K_M --calib "$t/calib.txt" --eval "$t/eval.txt" --ctx 64 --chunks 2 --calib-ctx 64 \
    --pp 4 --tg 2 --reps 1 --tools none --images "$t/ask.jsonl" --dry-run
grep -q '^Nothing left to do' "$t/o" || say "a finished job: $(cat "$t/o")"

# ---- interrupted, resumed with another recipe: the same numbers ----
"$HONE" make "$t/Tiny" -o "$t/cut" --calib "$t/calib.txt" --eval "$t/eval.txt" --ctx 64 --chunks 2 --calib-ctx 64 --pp 4 --tg 2 --reps 1 \
    --tools none --plain --recipe Q8_0 --images "$t/ask.jsonl" > "$t/o" 2> "$t/e" &
pid=$!
while kill -0 $pid 2> "$t/dd" && ! grep -aq 'step .*: questions about images' "$t/e"; do sleep 0.01; done
sleep 0.1
kill -INT $pid 2> "$t/dd" || :
wait $pid || :
make 0 "$t/cut"
members() { grep -o '"images_[a-z0-9_]*": [0-9.e-]*' "$1"; }
members "$t/out/results.json" > "$t/a" && members "$t/cut/results.json" > "$t/b"
cmp "$t/a" "$t/b"

# ---- without the option ----
small_make 0 "$t/out" --plain --recipe Q8_0,Q4_K_M
grep -q '| not measured | .*images' "$t/out/README.md" || say "not measured: $(cat "$t/out/README.md")"
grep -q 'images_kld' "$t/out/results.json" && say "stale numbers"

# ---- refused before anything is written ----
echo '{"image": "none.png", "question": "?"}' > "$t/bad.jsonl"
run 3 make "$t/Tiny" -o "$t/bad" --images "$t/bad.jsonl"
grep -q 'bad.jsonl: line 1: none.png' "$t/e" && [ ! -e "$t/bad" ] || say "missing image: $(cat "$t/e")"
thin=iVBORw0KGgoAAAANSUhEUgAAASwAAAABAQAAAABMQ66EAAAADklEQVR42mP8z0AE+AgAJxkB8hWgkqoAAAAASUVORK5CYII= # a PNG of 300 x 1 pixels
echo "$thin" | base64 -d > "$t/thin.png"
printf '%s\n' '{"image": "rgba.png", "question": "?"}' '{"image": ["rgba.png", "thin.png"], "question": "?"}' > "$t/bad.jsonl"
for more in '' --consume --dry-run; do
    run 3 make "$t/Tiny" -o "$t/bad" --images "$t/bad.jsonl" $more
    grep -q 'bad.jsonl: line 2: thin.png: the image is 300 x 1 pixels' "$t/e" && [ ! -e "$t/bad" ] || say "thin image: $(cat "$t/e")"
done
run 3 eval vision "$base" "$t/out/Tiny-Q8_0.gguf" "$t/bad.jsonl" --base-mmproj "$mmproj"
grep -q 'bad.jsonl: line 2: thin.png: the image is 300 x 1' "$t/e" || say "eval vision of a thin image: $(cat "$t/e")"
run 2 make "$base" -o "$t/bad" --images "$t/ask.jsonl"
grep -q 'no projector file is made' "$t/e" && [ ! -e "$t/bad" ] || say "a GGUF: $(cat "$t/e")"
mkdir "$t/g" && cp "$base" "$mmproj" "$t/g"
run 0 make "$t/g/Tiny-BF16.gguf" -o "$t/bad" --plain --recipe Q8_0 --calib "$t/calib.txt" --eval "$t/eval.txt" --images "$t/ask.jsonl" --dry-run
grep -q 'questions about images' "$t/o" && grep -q 'mmproj-Tiny-BF16.gguf' "$t/o" || say "a GGUF next to its projector: $(cat "$t/o")"
rm "$t/Tiny/chat_template.jinja" && sed -i 's/"chat_template"/"other"/' "$t/Tiny/tokenizer_config.json"
make 3 "$t/no"
grep -q 'images.*template' "$t/e" && [ ! -e "$t/no/Tiny-Q8_0.gguf" ] || say "no template: $(cat "$t/e")"
exit $fail
