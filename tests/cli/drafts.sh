#!/bin/sh
# SPDX-License-Identifier: MIT
# Drafts for another model (EAGLE-3, DFlash, Gemma 4 assistants): convert, quantize, make and publish of a draft alone. test_named compares the
# conversion itself; test_recipes the types.
set -eu
[ -x "${HONE_MICRO:-}" ] || { echo "SKIP: no micro checkpoints"; exit 77; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
folder() { # architecture, name: its micro checkpoint as $t/NAME
    made=$("$HONE_MICRO" "tests/golden/named/$1")
    cp -rL "$made" "$t/$2"
    rm -r "${made%/hf}"
}

# ---- an EAGLE-3 draft without tokenizer and list of layers needs its model's folder ----
folder eagle3 Head
rm "$t"/Head/tokenizer*
sed -i 's/eagle_aux_hidden_state_layer_ids/unlisted/' "$t/Head/config.json"
mkdir "$t/Model"
cp tests/golden/models/qwen3/tokenizer* "$t/Model"
echo '{"num_hidden_layers": 36, "hidden_size": 48, "vocab_size": 1024}' > "$t/Model/config.json"
refused 3 "--target-model-dir" convert "$t/Head" -o "$t/x.gguf" -q
run 0 convert "$t/Head" -o "$t/head.gguf" --target-model-dir "$t/Model"
run 0 inspect "$t/head.gguf"
grep -q 'eagle3.target_layers .*2.*18.*33' "$t/o" || say "layers: $(grep target_layers "$t/o")"
grep -q 'draft' "$t/o" || say "inspect does not call it a draft"
run 0 verify "$t/head.gguf" --deep
refused 2 "--target-model-dir is for drafts" convert tests/golden/models/qwen3 -o "$t/x.gguf" --target-model-dir "$t/Model" -q
run 3 run "$t/head.gguf" -p x
grep -q "hone run MODEL.gguf --draft" "$t/e" || say "run: $(cat "$t/e")"

# ---- no type below Q4_K; d2t stays ----
run 0 quantize "$t/head.gguf" -o "$t/q.gguf" --recipe IQ2_XXS
run 0 verify "$t/q.gguf" --deep
run 0 inspect "$t/q.gguf" --tensors
grep -q '^d2t  *I64 ' "$t/o" || say "d2t: $(grep d2t "$t/o")"
grep -q '^fc.weight  *[A-Z0-9_]* ' "$t/o" || say "no list of tensors: $(cat "$t/o")"
grep -E '^[a-z0-9_.]*weight +(IQ[123]|Q[23]_|TQ|IQ4_XS)' "$t/o" && say "a type below Q4_K"

# ---- make: names that llama.cpp finds, a card of a draft ----
refused 2 "--target-model-dir is for folders of drafts" make tests/golden/models/qwen3 -o "$t/x" --target-model-dir "$t/Model" -q
refused 2 "drafts get no type below Q4_K" make "$t/Head" -o "$t/d" --target-model-dir "$t/Model" --recipe Q8_0,Q2_K -q
run 3 make "$t/Head" -o "$t/d" --license mit --base-model me/Head
grep -q -- "--target-model-dir" "$t/e" || say "make without the model: $(cat "$t/e")"
run 0 make "$t/Head" -o "$t/d" --target-model-dir "$t/Model" --dry-run
grep -q "eagle3-Head-Q4_K_M.gguf" "$t/o" || say "dry run: $(cat "$t/o")"
[ ! -e "$t/d/README.md" ] || say "a dry run wrote something"
run 0 make "$t/Head" -o "$t/d" --license mit --base-model me/Head --target-model-dir "$t/Model"
grep -q "Nothing was measured" "$t/o" && grep -q "hone eval mtp MODEL.gguf" "$t/o" && grep -q -- "-md $t/d/eagle3-Head-Q8_0.gguf --spec-type draft-eagle3" "$t/o" || say "make: $(cat "$t/o")"
(cd "$t/d" && ls ./*.gguf) > "$t/ls"
[ "$(tr '\n' ' ' < "$t/ls")" = "./eagle3-Head-Q4_K_M.gguf ./eagle3-Head-Q5_K_M.gguf ./eagle3-Head-Q6_K.gguf ./eagle3-Head-Q8_0.gguf " ] || say "$(cat "$t/ls")"
for text in "Draft of a model" "A draft, not a complete model" "Not listed" "-md eagle3-Head-Q4_K_M.gguf --spec-type draft-eagle3"; do
    grep -qF -- "$text" "$t/d/README.md" || say "the card lacks \"$text\""
done
grep -q "^hone run MODEL --draft eagle3-Head-Q4_K_M.gguf" "$t/d/README.md" || say "the card lacks hone's commands"
grep -qi 'ollama\|hone run eagle\|lms import' "$t/d/README.md" && say "the card has commands for models"
[ ! -e "$t/d/Modelfile" ] || say "a Modelfile of a draft"
run 0 publish --check "$t/d"
run 0 publish "$t/d" --repo me/Head-GGUF
grep -q "^hf download me/Head-GGUF eagle3-Head-Q4_K_M.gguf" "$t/d/README.md" || say "card with a repo"
before=$(cat "$t/d/SHA256SUMS")
run 0 make "$t/Head" -o "$t/d" --license mit --base-model me/Head --target-model-dir "$t/Model"
[ "$(cat "$t/d/SHA256SUMS")" = "$before" ] || say "a second make changed files"

# ---- acceptance with a GGUF file of the model in --target-model-dir, as eval mtp measures it ----
made=$("$HONE_MICRO" tests/golden/eagle3/shares)
cp -rL "$made" "$t/Shares"
rm -r "${made%/hf}"
mkdir "$t/Qwen"
cp tests/golden/models/qwen3/*.json "$t/Qwen"
run 0 convert tests/golden/models/qwen3 -o "$t/Qwen/model.gguf" --type f32
head -c 900 calib/text/calib.txt > "$t/eval.txt"
acceptance() { run 0 make "$t/Shares" -o "$t/a" --license mit --base-model me/Shares --target-model-dir "$t/Qwen" --recipe Q8_0 --ctx 64 --chunks 0 --eval "$t/eval.txt" --csv; }
acceptance
one=$(sed -n 's/^eagle3-Shares-Q8_0.gguf,[0-9]*,\([0-9.]*\),.*/\1/p' "$t/o")
run 0 eval mtp "$t/Qwen/model.gguf" "$t/a/eagle3-Shares-Q8_0.gguf" "$t/eval.txt" --ctx 64 --csv
[ -n "$one" ] && grep -q "^eagle3-Shares-Q8_0.gguf,$one," "$t/o" || say "make: $one, eval mtp: $(cat "$t/o")"
acceptance
grep -q ",$one," "$t/o" || say "a second make: $(cat "$t/o")"
card() { grep -q "^\*\*Accepted guesses\*\*, of [0-9]* along the evaluation text: Q8_0 $(awk -v a="$one" 'BEGIN { printf "%.1f", a * 100 }') &plusmn; [0-9.]* %\." "$t/a/README.md"; }
card && ! grep -q 'Not listed' "$t/a/README.md" || say "the card lacks the acceptance: $(cat "$t/a/README.md")"
run 0 publish "$t/a" --repo me/Shares-GGUF
card && grep -q '"acceptance": ' "$t/a/manifest.json" || say "the acceptance is lost by publish"
run 0 meta "$t/a/eagle3-Shares-Q8_0.gguf" general.description=other
run 0 publish "$t/a"
grep -q 'Not listed' "$t/a/README.md" || say "the card has the acceptance of another file"

# ---- --consume: also a second job, with a shard that is kept; not if the shard has changed ----
cp -r "$t/Head" "$t/Eaten"
for job in e1 e2; do
    run 0 make "$t/Eaten" -o "$t/$job" --consume --license mit --base-model me/Head --target-model-dir "$t/Model" --recipe Q8_0
done
grep -q 'Eaten.gguf is complete already' "$t/e" && cmp "$t/e1/eagle3-Eaten-Q8_0.gguf" "$t/e2/eagle3-Eaten-Q8_0.gguf" || say "a second job: $(cat "$t/e")"
touch "$t/Eaten/model.safetensors"
refused 2 "Eaten.gguf exists already" make "$t/Eaten" -o "$t/e3" --consume --target-model-dir "$t/Model" --recipe Q8_0 -q
run 0 make "$t/Eaten" -o "$t/e3" --consume --target-model-dir "$t/Model" --recipe Q8_0 -f
cmp "$t/e1/eagle3-Eaten-Q8_0.gguf" "$t/e3/eagle3-Eaten-Q8_0.gguf" || say "-f"

# ---- the others, with their own tokenizers; from a file ----
for a in dflash gemma4-assistant; do
    folder $a "$a"
    run 0 convert "$t/$a" -o "$t/$a.gguf"
    run 0 verify "$t/$a.gguf" --deep
    run 0 make "$t/$a.gguf" -o "$t/of-$a" --license mit --base-model me/x --recipe Q4_K_M
    kind=$a
    [ $a = dflash ] || kind=mtp
    [ -e "$t/of-$a/$kind-$a-Q4_K_M.gguf" ] || say "make of $a: $(ls "$t/of-$a")"
    grep -q "spec-type draft-$kind" "$t/of-$a/README.md" || say "card of $a"
    grep -q "hone run" "$t/of-$a/README.md" && say "hone does not run $a"
    run 0 publish --check "$t/of-$a"
done
exit $fail
