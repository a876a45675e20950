#!/bin/sh
# hone make with a model that has an MTP block: its draft file mtp-NAME-Q8_0.gguf is written as a step of the job, listed wherever files are
# listed, not taken for a model, never replaced if hone did not write it, and made again only if missing.
set -eu
. tests/making.sh
cp -r tests/golden/models/qwen35moe "$t/Tiny"
make() { # expected exit, folder, more
    want=$1 folder=$2
    shift 2
    small_make "$want" "$folder" --plain --recipe Q8_0 "$@"
}
draft=mtp-Tiny-Q8_0.gguf

# ---- announced, written, named ----
run 0 make "$t/Tiny" -o "$t/out" --plain --recipe Q8_0 --calib "$t/calib.txt" --eval "$t/eval.txt" --dry-run --json
said=$(sed -n "/\"$draft\"/,/}/s/.*\"size_bytes\": *\([0-9]*\).*/\1/p" "$t/o" | head -1)
[ ! -e "$t/out" ] || say "a dry run wrote files"
make 0 "$t/out"
grep -q "llama-server -m $t/out/Tiny-Q8_0.gguf -md $t/out/$draft --spec-type draft-mtp" "$t/o" || say "no command with drafts: $(cat "$t/o")"
[ "$said" = "$(stat -c %s "$t/out/$draft")" ] || say "dry run: $said bytes, but the file has $(stat -c %s "$t/out/$draft")"
# the bytes that hone convert writes: tests/cli/mtp.sh checks their layout
run 0 convert "$t/Tiny" --mtp-only --type q8_0 -o "$t/alone.gguf"
cmp "$t/alone.gguf" "$t/out/$draft"
(cd "$t/out" && sha256sum -c SHA256SUMS > /dev/null)
for in in README.md report.html results.json manifest.json SHA256SUMS; do grep -q "$draft" "$t/out/$in" || say "$in does not name $draft"; done
[ "$(grep -c '"made"' "$t/out/results.json")" = 1 ] || say "the draft file is in the list of models: $(cat "$t/out/results.json")"
grep -q "| .*$draft" "$t/out/README.md" && say "the card's table of files contains the draft file"
grep -q "^llama-server -m Tiny-Q8_0.gguf.* -md $draft --spec-type draft-mtp" "$t/out/README.md" || say "no command on the card"
grep -qx 'FROM ./Tiny-Q8_0.gguf' "$t/out/Modelfile" && ! grep -q "$draft" "$t/out/Modelfile" || say "Modelfile: $(cat "$t/out/Modelfile")"
run 0 publish "$t/out" --repo me/Tiny-GGUF
grep -q '^llama-server -hf me/Tiny-GGUF:Q8_0.* --spec-type draft-mtp' "$t/out/README.md" || say "card with a repo"
run 1 publish --check "$t/out" --json # the model names no license
grep -q 'draft-\|name-twice' "$t/o" && say "publish --check: $(cat "$t/o")"

# ---- acceptance of each file, as eval mtp measures it ----
[ "$(grep -c '"acceptance":' "$t/out/results.json")" = 2 ] || say "results: $(cat "$t/out/results.json")"
run 0 eval mtp "$t/out/Tiny-Q8_0.gguf" "$t/eval.txt" --ctx 64 --chunks 2 --act f32 --kv-type f32 --json
share=$(number acceptance "$t/o")
sed -n '/"file": "Tiny-Q8_0.gguf"/,/}/p' "$t/out/results.json" > "$t/q8"
awk -v a="$share" -v b="$(number acceptance "$t/q8")" 'BEGIN { d = a - b; exit !(d < 1e-4 && d > -1e-4) }' ||
    say "eval mtp: $share, make: $(number acceptance "$t/q8")"
grep -q 'Drafts that match .* 60 .*BF16.*Q8_0' "$t/out/README.md" || say "card: $(cat "$t/out/README.md")"
grep -q 'Drafts that match' "$t/out/report.html" || say "report"
grep -q 'not measured.*acceptance' "$t/out/README.md" && say "measured, but the card says otherwise"
# a block that hone cannot run has no such numbers
cp -r "$t/out" "$t/without"
sed -i 's/"acceptance/"no_acceptance/' "$t/without/results.json"
run 0 publish "$t/without"
grep -q '^| not measured |.*acceptance of drafts' "$t/without/README.md" || say "the acceptance is not listed as missing"
grep -q 'whether answers become faster, was not measured' "$t/without/README.md" || say "the card promises faster answers"

# ---- done once, made again if missing ----
stamp() { stat -c '%n %Y %i' "$t/out/$draft"; }
before=$(stamp)
make 0 "$t/out"
[ "$before" = "$(stamp)" ] || say "a second run wrote the draft file again"
run 0 make "$t/Tiny" -o "$t/out" --plain --recipe Q8_0 --calib "$t/calib.txt" --eval "$t/eval.txt" --ctx 64 --chunks 2 --calib-ctx 64 \
    --pp 4 --tg 2 --reps 1 --tools none --dry-run
grep -q 'Nothing left to do' "$t/o" || say "dry run of a finished job: $(cat "$t/o")"
rm "$t/out/$draft"
make 0 "$t/out"
cmp "$t/alone.gguf" "$t/out/$draft"
mkdir "$t/f" && echo mine > "$t/f/$draft"
make 2 "$t/f"
grep -q "$draft" "$t/e" && [ "$(cat "$t/f/$draft")" = mine ] || say "foreign file: $(cat "$t/e")"
make 0 "$t/f" -f
[ "$(cat "$t/f/$draft.orig")" = mine ] && cmp "$t/alone.gguf" "$t/f/$draft" || say "-f lost a file"

# ---- draft files that do not fit, or have the wrong name ----
run 0 convert tests/golden/models/qwen35 --mtp-only --type q8_0 -o "$t/f/$draft" -f
run 1 publish --check "$t/f" --json
grep -q '"draft-differs"' "$t/o" || say "publish --check accepts another model's draft file: $(cat "$t/o")"
mv "$t/out/$draft" "$t/out/Tiny-head-Q8_0.gguf"
run 1 publish --check "$t/out" --json
grep -q '"draft-name"' "$t/o" || say "publish --check: $(cat "$t/o")"

# ---- --consume: the block is still in the file that the folder was converted to, the vision tower is written before ----
mkdir "$t/c"
cp -r "$t/Tiny" "$t/c/Tiny"
eat() {
    run 0 make "$t/c/Tiny" -o "$1" --consume --plain --recipe Q8_0 --calib "$t/calib.txt" --eval "$t/eval.txt" --ctx 64 --chunks 2 \
        --calib-ctx 64 --pp 4 --tg 2 --reps 1 --tools none
}
eat "$t/eaten"
extras() { sed -n '/^  "vision": {/,/^  },*$/p; /^  "draft": {/,/^  },*$/p' "$1/results.json" > "$1.extras"; }
extras "$t/out"
extras "$t/eaten"
cmp "$t/out.extras" "$t/eaten.extras" && grep -q "$draft" "$t/out.extras" || say "results.json of a consumed folder"
grep -q "$draft" "$t/eaten/report.html" || say "report of a consumed folder: no $draft"
cmp "$t/alone.gguf" "$t/eaten/$draft"
[ -z "$(find "$t/c/Tiny" -name 'model-*')" ] || say "--consume left shards"
tower=mmproj-Tiny-BF16.gguf
for f in "$tower" SHA256SUMS; do [ -e "$t/out/$f" ] || say "no $f"; done
cmp "$t/out/$tower" "$t/eaten/$tower"
grep -q "$tower" "$t/eaten/README.md" || say "card of a consumed folder: no $tower"
eat "$t/eaten2" # the shards are gone
cmp "$t/out/$tower" "$t/eaten2/$tower"
extras "$t/eaten2"
cmp "$t/out.extras" "$t/eaten2.extras"

# ---- the same from a GGUF file of the model ----
run 0 convert "$t/Tiny" -o "$t/Tiny.gguf"
run 0 make "$t/Tiny.gguf" -o "$t/g" --plain --recipe Q8_0 --calib "$t/calib.txt" --eval "$t/eval.txt" --ctx 64 --chunks 2 --calib-ctx 64 \
    --pp 4 --tg 2 --reps 1 --tools none
cmp "$t/alone.gguf" "$t/g/$draft"
grep -q -- "-md $draft --spec-type draft-mtp" "$t/g/README.md" || say "card of a GGUF file"
grep -q "$draft" "$t/g/results.json" && grep -q "$draft" "$t/g/report.html" || say "results.json or report of a GGUF file: no $draft"
grep -q '"vision": {' "$t/g/results.json" && say "results.json of a GGUF file without a projector file has a vision tower"
run 0 split "$t/Tiny.gguf" -o "$t/part.gguf" --max-size 200K
run 0 make "$t"/part-00001-of-*.gguf -o "$t/h" --plain --recipe Q8_0 --calib "$t/calib.txt" --eval "$t/eval.txt" --ctx 64 --chunks 2 \
    --calib-ctx 64 --pp 4 --tg 2 --reps 1 --tools none
cmp "$t/alone.gguf" "$t"/h/mtp-*.gguf
run 0 convert "$t/Tiny" --no-mtp -o "$t/Tiny.gguf" -f
run 0 make "$t/Tiny.gguf" -o "$t/i" --plain --recipe Q8_0 --calib "$t/calib.txt" --eval "$t/eval.txt" --ctx 64 --chunks 2 --calib-ctx 64 \
    --pp 4 --tg 2 --reps 1
grep -q "no tool calls are measured: pass --tools builtin" "$t/e" || say "a job without a suite: $(cat "$t/e")"
[ -e "$t/i/$draft" ] && say "a draft file of a GGUF file without an MTP block"

# ---- a model without an MTP block ----
rm -r "$t/Tiny" && cp -r tests/golden/models/qwen3 "$t/Tiny"
make 0 "$t/none"
ls "$t/none" | grep mtp- && say "a draft file of a model without an MTP block"
grep -q 'Drafts' "$t/none/README.md" && say "card of a model without an MTP block"
exit $fail
