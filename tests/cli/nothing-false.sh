#!/bin/sh
# SPDX-License-Identifier: MIT
# No false messages: files that are not text are refused wherever a text is read, a text may come from standard input, a
# missing input gives exit status 2 in every command, and each suggested remedy helps.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
m=tests/golden/models
says() { # expected exit, text on stderr, arguments
    want=$1 text=$2
    shift 2
    rc=0
    "$HONE" "$@" < /dev/null > "$t/o" 2> "$t/e" || rc=$?
    [ $rc = "$want" ] && grep -qF -- "$text" "$t/e" || say "hone $*: exit $rc, expected $want and \"$text\": $(cat "$t/e")"
}
b=$t/b.gguf
"$HONE" convert $m/qwen3 -o "$b" --type f32 -q > /dev/null
for i in 1 2 3 4 5 6 7 8 9; do echo "line $i of a text that a small model can be measured with, word by word"; done > "$t/text"
"$HONE" imatrix "$b" "$t/text" -o "$t/im.gguf" --ctx 16 -q > /dev/null

# ---- binary files are not text ----
printf 'PK\003\004\000\000' > "$t/x.zip"
printf '%%PDF-1.4\n%%\342\343\317\323\n' > "$t/x.pdf"
printf 'T\000e\000x\000t\000' > "$t/x.utf16"
head -c 3000 "$b" | tr -d '\000' | tr '\001-\176' '\201-\376' > "$t/x.random"
gzip -c "$b" > "$t/x.gz"
for bad in "$b" "$t/im.gguf" "$t/x.zip" "$t/x.pdf" "$t/x.utf16" "$t/x.random" "$t/x.gz"; do
    says 3 "${bad##*/}" imatrix "$b" "$bad" -o "$t/z.gguf"
    says 3 "${bad##*/}" eval ppl "$b" "$bad" --chunks 1
    says 3 "${bad##*/}" eval needle "$b" "$bad"
    says 3 "${bad##*/}" eval tools "$b" "$bad"
    says 3 "${bad##*/}" eval choice "$b" "$bad" --format hellaswag
    case $bad in *.gguf) ;; *) says 3 "${bad##*/}" eval kld "$b" "$bad" --base "$b" ;; esac
done
[ ! -e "$t/z.gguf" ] || say "a matrix was written"
says 3 "models come first" imatrix "$b" "$b" -o "$t/z.gguf"

# ---- a text on standard input, or as an argument ----
"$HONE" eval ppl "$b" "$t/text" --ctx 16 --json | grep '"ppl"' > "$t/want"
"$HONE" eval ppl "$b" - --ctx 16 --json < "$t/text" | grep '"ppl"' | cmp - "$t/want" || say "eval ppl from standard input"
gzip -c "$t/text" | "$HONE" eval ppl "$b" - --ctx 16 --json | grep '"ppl"' | cmp - "$t/want" || say "gzip on standard input"
"$HONE" imatrix "$b" - -o "$t/im2.gguf" --ctx 16 -q < "$t/text" > /dev/null || say "imatrix from standard input"
echo | "$HONE" eval ppl "$b" "$b" > /dev/null 2>&1 && say "a model is a text"
[ "$("$HONE" tokenize "$b" 'two words')" = "$(printf 'two words' | "$HONE" tokenize "$b")" ] || say "tokenize TEXT"
[ "$("$HONE" tokenize "$b" two words)" = "$(printf 'two words' | "$HONE" tokenize "$b")" ] || say "tokenize TEXT TEXT"
[ "$(printf 'two words' | "$HONE" tokenize "$b" -)" = "$(printf 'two words' | "$HONE" tokenize "$b")" ] || say "tokenize -"

# ---- missing files: exit 2 in every command ----
none=$t/none
for c in "quantize $none -o $t/q --recipe Q8_0" "quantize $b -o $t/q --recipe Q4_K_M --imatrix $none" "convert $none -o $t/q" "imatrix $none $t/text -o $t/q" "imatrix $b $none -o $t/q" \
    "imatrix --stats $none" "imatrix --merge $none $none -o $t/q" "eval ppl $none $t/text" "eval ppl $b $none" "eval kld $b $none --base $b" "eval kld $b $t/text --base $none" \
    "eval kld $b --base-file $none" "eval speed $none" "eval compare $none $none" "eval logits $b --ids $none -o $t/q" "tokenize $none x" "run $none -p x" "inspect $none" "verify $none" \
    "diff $b $none" "plan $none" "recipes $none" "replay $none" "split $none" "template show $none" "template lint $none" "publish $none" "make $none -o $t/d" \
    "sensitivity $none --probe $t/text -o $t/s.json" "quantize $b -o $none/q.gguf --recipe Q8_0" "convert $m/qwen3 -o $none/q.gguf" "tokenize $b --batch $none" "verify $b --manifest $none"; do
    # shellcheck disable=SC2086
    says 2 none $c
done

# ---- names of models elsewhere ----
for c in "make Qwen/Qwen3-0.6B -o $t/d" "convert Qwen/Qwen3-0.6B -o $t/q" "convert https://huggingface.co/Qwen/Qwen3-0.6B -o $t/q" "inspect hf.co/Qwen/Qwen3-0.6B:Q4_K_M" \
    "run Qwen/Qwen3-0.6B" "run Qwen/Qwen3-0.6B -p x" "eval ppl Qwen/Qwen3-0.6B $t/text" "plan https://huggingface.co/Qwen/Qwen3-0.6B/resolve/main/x.gguf"; do
    # shellcheck disable=SC2086
    says 2 "hf download Qwen/Qwen3-0.6B" $c
done
says 2 "hone does not download" inspect https://example.com/x.gguf
says 2 "the store of another program" run llama3.2:3b -p x
says 2 "cannot open data/wiki.txt" eval ppl "$b" data/wiki.txt

# ---- unknown models: the message lists the known ones; what works without a tokenizer ----
LC_ALL=C sed 's/tokenizer\.ggml\.pre\(........\)\(....\)qwen2/tokenizer.ggml.pre\1\2smoll/' "$b" > "$t/pre.gguf"
cmp -s "$b" "$t/pre.gguf" && grep -c smoll "$t/pre.gguf" > /dev/null && say "no pre-tokenizer was replaced"
LC_ALL=C sed 's/gpt2/spmx/' "$b" > "$t/spm.gguf"
for f in pre spm; do
    for c in "run $t/$f.gguf -p Hi" "eval ppl $t/$f.gguf $t/text" "eval tools $t/$f.gguf" "imatrix $t/$f.gguf $t/text -o $t/z.gguf" "tokenize $t/$f.gguf x" "make $t/$f.gguf -o $t/d --recipes Q8_0"; do
        # shellcheck disable=SC2086
        says 3 "hone cannot tokenize text for this model" $c
        [ "$(grep -o "$f.gguf" "$t/e" | wc -l)" = 1 ] || say "the path stands there twice: $(cat "$t/e")"
        case $f in
        pre) grep -q 'nearest: smollm; .*--pre NAME' "$t/e" || say "no nearest rules, no option: $(cat "$t/e")" ;;
        *) grep -q -- --pre "$t/e" && say "a remedy that cannot be followed: $(cat "$t/e")" ;;
        esac
    done
    run 0 eval speed "$t/$f.gguf" --pp 8 --tg 2 --reps 1
    run 0 quantize "$t/$f.gguf" -o "$t/q-$f.gguf" --recipe Q8_0 -q
    run 0 plan "$t/$f.gguf"
done
[ ! -e "$t/d" ] || say "make began with a model it cannot read"
for c in "run $t/pre.gguf -p Hi -n 1" "eval ppl $t/pre.gguf $t/text --ctx 16" "imatrix $t/pre.gguf $t/text -o $t/z.gguf --ctx 16" "tokenize $t/pre.gguf don't"; do
    # shellcheck disable=SC2086
    run 0 $c --pre qwen2
done
[ "$("$HONE" tokenize "$t/pre.gguf" "don't 1234" --pre qwen2)" = "$("$HONE" tokenize "$b" "don't 1234")" ] || say "--pre is not obeyed"
says 2 '"qwen" is not known; nearest: qwen2' tokenize "$b" x --pre qwen
for c in "inspect $t/pre.gguf" "verify $t/pre.gguf" "template lint $t/pre.gguf"; do
    # shellcheck disable=SC2086
    "$HONE" $c > "$t/o" 2> "$t/e" || [ $? = 1 ] || say "$c: $(cat "$t/e")"
done
for cls in BloomForCausalLM OPTForCausalLM GPTJForCausalLM; do
    rm -rf "$t/src"
    cp -r $m/qwen3 "$t/src"
    sed "s/Qwen3ForCausalLM/$cls/; s/\"model_type\": \"qwen3\"/\"model_type\": \"other\"/" $m/qwen3/config.json > "$t/src/config.json"
    says 3 "model class $cls is not known" convert "$t/src" -o "$t/q"
    grep -q ' llama' "$t/e" && say "an architecture is offered that has this name only: $(cat "$t/e")"
    says 3 "model class $cls is not known" make "$t/src" -o "$t/d2" --recipes Q8_0
done
rm -rf "$t/src"
cp -r $m/mistral "$t/src"
sed 's/"rope_type": "default"/"rope_type": "longrope", "factor": 8.0/' $m/mistral/config.json > "$t/src/config.json"
says 3 "would give wrong positions" convert "$t/src" -o "$t/q"
says 2 "'hone recipes' lists them" make $m/qwen3 -o "$t/d3" --recipes Q4_K_M,NOPE
for bad in "$t/x.zip" "$b" "$none"; do says "$([ "$bad" = "$none" ] && echo 2 || echo 3)" "${bad##*/}" make $m/qwen3 -o "$t/d3" --recipes Q8_0 --calib "$bad"; done
[ ! -e "$t/d3" ] || say "make began with a text that is none"

# ---- folders of files that are finished ----
mkdir "$t/out"
cp "$b" "$t/out/tiny-F32.gguf"
run 0 inspect "$t/out"
grep -q '^tiny-F32.gguf ' "$t/o" || say "inspect of a folder: $(cat "$t/o")"
says 3 "hone quantize start from $t/out/tiny-F32.gguf" convert "$t/out" -o "$t/q"
cp $m/qwen3/config.json "$t/out/"
run 0 inspect "$t/out"
says 3 "hone quantize start from $t/out/tiny-F32.gguf" convert "$t/out" -o "$t/q"
# make suggests a file that it can start from, not the matrix or a quantized file, and the printed command works
cp tests/golden/containers/py-imatrix.gguf "$t/out/imatrix.gguf"
run 0 quantize "$b" -o "$t/out/a-Q8_0.gguf" --recipe Q8_0 -q
run 0 quantize "$b" -o "$t/out/b-Q4_K_M.gguf" --recipe Q4_K_M -q
says 3 "hone make $t/out/tiny-F32.gguf" make "$t/out" -o "$t/d4"
run 0 make "$(sed 's/.*hone make //' "$t/e")" -o "$t/d4" --dry-run --plain --recipe Q8_0 --eval "$t/text" --calib "$t/text" --ctx 16 --calib-ctx 16
rm "$t/out/tiny-F32.gguf"
says 3 "hone make starts from the model's original folder" make "$t/out" -o "$t/d4"
says 3 "is not a model" make "$t/out/imatrix.gguf" -o "$t/d4"
grep -q 'hone quantize' "$t/e" && say "a matrix would be quantized: $(cat "$t/e")"

# ---- a name alone, before the model is there ----
(cd "$t" && mkdir empty && cd empty
for c in "make Qwen3-4B -o o" "convert Qwen3-4B -o o.gguf" "make Qwen3-4B/ -o o"; do
    # shellcheck disable=SC2086
    says 2 "hf download ORG/Qwen3-4B --local-dir Qwen3-4B" $c
done
for c in "run Qwen3-4B-GGUF" "plan gemma-3-270m" "inspect phi-4" "serve SmolLM2-135M" "eval ppl Qwen3-4B x.txt"; do
    # shellcheck disable=SC2086
    says 2 "hf download ORG/" $c
done
says 2 "run 'hf download ORG/Qwen3-4B config.json --local-dir Qwen3-4B', which is enough for 'hone plan Qwen3-4B'" plan Qwen3-4B --vram 24GiB
says 2 "cannot open words" tokenize words x
exit $fail) || fail=1

# ---- a folder or a checkpoint in place of a GGUF file: the message names the file to give, or how to make one ----
mkdir "$t/gg" "$t/bare" && cp "$b" "$t/gg/imatrix.gguf" && cp "$b" "$t/gg/Model-Q8_0.gguf" && cp "$b" "$t/gg/Model-Q4_0.gguf"
for c in run "eval speed" doctor split tokenize "template lint" "template show" "template fix" recipes replay; do
    # shellcheck disable=SC2086
    for end in "" /; do
        says 2 "$t/gg$end is a folder with Model-Q4_0.gguf, Model-Q8_0.gguf: name a file in it, such as $t/gg/Model-Q4_0.gguf" $c "$t/gg$end"
        case $c in t*) continue ;; esac
        says 2 "hone convert $m/qwen35$end -o model.gguf makes one" $c "$m/qwen35$end"
    done
    # shellcheck disable=SC2086
    case $c in t*) continue ;; esac
    # shellcheck disable=SC2086
    says 2 "there is no GGUF model in this folder" $c "$t/bare"
    for f in model.safetensors config.json tokenizer.json; do
        # shellcheck disable=SC2086
        says 3 "hone convert $m/qwen35 -o model.gguf makes a GGUF file of its folder" $c "$m/qwen35/$f"
    done
    # shellcheck disable=SC2086
    (cd "$m/qwen35" && case $HONE in /*) ;; *) HONE=$OLDPWD/$HONE ;; esac; says 3 "hone convert . -o model.gguf makes" $c model.safetensors; exit $fail) || fail=1
done
# commands that take a folder too name it
for f in model.safetensors config.json tokenizer.json; do
    says 2 "is one file of a model: name its folder, $m/qwen35" make "$m/qwen35/$f" -o "$t/made"
    says 2 "is one file of a model: name its folder, $m/qwen35" tokenize "$m/qwen35/$f" x
done
cp "$m/qwen35/model.safetensors" "$t/bare/x.safetensors"
says 3 "a safetensors file: name its folder, or make a GGUF file of the folder" run "$t/bare/x.safetensors"
says 3 "weight files have no chat template; name their folder" template lint "$m/qwen35/model.safetensors"
says 3 "no chat template found" template lint "$m/qwen35/config.json"
echo '{"chat_template": "{{ messages[0].content }}"}' > "$t/chat_template.json"
"$HONE" template show "$t/chat_template.json" > "$t/o" && grep -q "^{{ messages" "$t/o" || say "chat_template.json: $(cat "$t/o")"
says 2 "hone convert $m/qwen35 -o model.gguf makes one" serve "$m/qwen35"
says 2 "there is no GGUF model in this folder" serve "$t/bare"

# ---- options in messages of shared code belong to the current command, or the message names their command ----
cp -r $m/qwen35 "$t/mtp"
for f in "$t/mtp"/*.safetensors; do LC_ALL=C sed -i 's/mtp\.layers\.0\./mtp.layers.1./g' "$f"; done
says 3 "use --no-mtp" convert "$t/mtp" -o "$t/q"
grep -q 'is an option of' "$t/e" && say "convert has --no-mtp: $(cat "$t/e")"
says 3 "(--no-mtp is an option of hone convert)" make "$t/mtp" -o "$t/d5"
exit $fail
