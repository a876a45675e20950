#!/bin/sh
# hone make with a vision model: its projector files are written as a step of the job, listed wherever files are listed,
# never replaced if hone did not write them, and made again only if missing. An unsupported vision tower is reported
# instead.
set -eu
. tests/making.sh
cp -r tests/golden/models/qwen35 "$t/Tiny"
make() { # expected exit, folder, more
    want=$1 folder=$2
    shift 2
    small_make "$want" "$folder" --plain --recipe Q8_0 "$@"
}
bf16=mmproj-Tiny-BF16.gguf q8=mmproj-Tiny-Q8_0.gguf

# ---- announced, written, named ----
run 0 make "$t/Tiny" -o "$t/out" --plain --recipe Q8_0 --calib "$t/calib.txt" --eval "$t/eval.txt" --dry-run --json
for f in $bf16 $q8; do grep -q "\"$f\"" "$t/o" || say "dry run does not name $f"; done
said=$(sed -n "/\"$bf16\"/,/}/s/.*\"size_bytes\": *\([0-9]*\).*/\1/p" "$t/o" | head -1)
[ ! -e "$t/out" ] || say "a dry run wrote files"
make 0 "$t/out"
grep -q "llama-server -m $t/out/Tiny-Q8_0.gguf --mmproj $t/out/$bf16" "$t/o" || say "no command with images: $(cat "$t/o")"
grep -q 'left out of this file' "$t/e" && say "leaves out the tower that it writes: $(cat "$t/e")"
[ "$said" = "$(stat -c %s "$t/out/$bf16")" ] || say "dry run: $said bytes, but the file has $(stat -c %s "$t/out/$bf16")"
for type in bf16 q8_0; do # the bytes that hone convert writes, which test_mmproj compares with the gguf package's
    run 0 convert "$t/Tiny" --mmproj "$t/$type.gguf" --type $type --name Tiny
done
cmp "$t/bf16.gguf" "$t/out/$bf16"
cmp "$t/q8_0.gguf" "$t/out/$q8"
(cd "$t/out" && sha256sum -c SHA256SUMS > /dev/null)
for f in $bf16 $q8; do
    for in in README.md report.html results.json manifest.json SHA256SUMS; do grep -q "$f" "$t/out/$in" || say "$in does not name $f"; done
done
grep -qx 'FROM ./Tiny-Q8_0.gguf' "$t/out/Modelfile" && grep -qx "FROM ./$bf16" "$t/out/Modelfile" || say "Modelfile: $(cat "$t/out/Modelfile")"
grep -q '^  vision: true' "$t/out/model.yaml" || say "model.yaml"
grep -q '^pipeline_tag: image-text-to-text' "$t/out/README.md" || say "pipeline_tag"
grep -q -- "--mmproj $bf16" "$t/out/README.md" || say "no command on the card"
run 0 publish "$t/out" --repo me/Tiny-GGUF
grep -q 'hf also fetches the mmproj file' "$t/out/README.md" || say "card with a repo"
run 1 publish --check "$t/out" --json # the model names no license
grep -q 'mmproj' "$t/o" && say "publish --check: $(cat "$t/o")"

# ---- done once, made again if missing ----
stamp() { stat -c '%n %Y %i' "$t/out/$bf16" "$t/out/$q8"; }
before=$(stamp)
make 0 "$t/out"
[ "$before" = "$(stamp)" ] || say "a second run wrote the projector files again"
cp "$t/out/$bf16" "$t/good" && rm "$t/out/$bf16"
make 0 "$t/out"
cmp "$t/good" "$t/out/$bf16"
# someone else's file of that name
mkdir "$t/f" && echo mine > "$t/f/$bf16"
make 2 "$t/f"
grep -q "$bf16" "$t/e" && [ "$(cat "$t/f/$bf16")" = mine ] || say "foreign file: $(cat "$t/e")"
make 0 "$t/f" -f
[ "$(cat "$t/f/$bf16.orig")" = mine ] && cmp "$t/good" "$t/f/$bf16" || say "-f lost a file"

# ---- a GGUF file: its projector file is taken along ----
mkdir "$t/g"
run 0 convert "$t/Tiny" -o "$t/g/Some.gguf" --name Some
run 0 convert "$t/Tiny" --mmproj "$t/g/mmproj-model.gguf" --type f16
for job in 1 2; do
    run 0 make "$t/g/Some.gguf" -o "$t/h" --plain --recipe Q8_0 --calib "$t/calib.txt" --eval "$t/eval.txt" --ctx 64 --chunks 2 --calib-ctx 64 \
        --pp 4 --tg 2 --reps 1 --tools none
    cmp "$t/g/mmproj-model.gguf" "$t/h/mmproj-Some-F16.gguf"
done
for in in README.md results.json manifest.json SHA256SUMS; do grep -q mmproj-Some-F16.gguf "$t/h/$in" || say "$in of a file's job has no projector file"; done

# ---- a model without its file ----
rm "$t/out/$bf16" "$t/out/$q8" "$t/out/SHA256SUMS" "$t/out/manifest.json"
run 1 publish --check "$t/out" --json
grep -q '"vision-mmproj"' "$t/o" || say "publish --check does not miss the file: $(cat "$t/o")"

# ---- a tower that does not match its config ----
cp -r "$t/Tiny" "$t/odd" && rm -r "$t/Tiny" && mv "$t/odd" "$t/Tiny"
sed -i 's/"depth": 2/"depth": 1/' "$t/Tiny/config.json"
run 0 make "$t/Tiny" -o "$t/u" --plain --recipe Q8_0 --calib "$t/calib.txt" --eval "$t/eval.txt" --dry-run
grep -q 'no mmproj file is written' "$t/o" || say "dry run: $(cat "$t/o")"
make 0 "$t/u"
grep -q 'no mmproj file is written' "$t/e" || say "no warning: $(cat "$t/e")"
grep -q 'they belong to a projector file' "$t/e" && say "names a file that cannot be written: $(cat "$t/e")"
ls "$t/u" | grep -q mmproj && say "a projector file of an unknown tower"
grep -q 'Text only.*is not part of' "$t/u/README.md" && grep -q 'Text only' "$t/u/report.html" || say "card: $(cat "$t/u/README.md")"
grep -q '^  vision: false' "$t/u/model.yaml" || say "model.yaml of half a model"
grep -rqF "$t" "$t/u/README.md" "$t/u/results.json" "$t/u/report.html" && say "a local path leaked"
run 1 publish --check "$t/u" --json
grep -q '"vision-mmproj"' "$t/o" || say "publish --check: $(cat "$t/o")"

# ---- a config that names a tower whose tensors are missing, as of a fine-tune of the language model alone ----
cp -r tests/golden/models/qwen3 "$t/Bare"
sed -i 's/^{/{"vision_config": {"depth": 2},/' "$t/Bare/config.json" && rm -r "$t/Tiny" && mv "$t/Bare" "$t/Tiny"
run 0 make "$t/Tiny" -o "$t/n" --plain --recipe Q8_0 --calib "$t/calib.txt" --eval "$t/eval.txt" --dry-run
grep -q 'missing tower.*config.json names a vision tower (vision_config)' "$t/o" || say "dry run: $(cat "$t/o")"
make 0 "$t/n"
grep -q 'config.json names a vision tower (vision_config)' "$t/e" || say "no warning: $(cat "$t/e")"
grep -q 'Text only\*\*: config.json names a vision tower' "$t/n/README.md" && grep -q 'Text only: config.json' "$t/n/report.html" || say "card: $(cat "$t/n/README.md")"
run 1 publish --check "$t/n" --json
grep -q 'config.json names a vision tower' "$t/o" || say "publish --check: $(cat "$t/o")"
exit $fail
