#!/bin/sh
# SPDX-License-Identifier: MIT
# GGUF files that hone has no graph for: an unknown architecture (renamed keys and tensors: scans, experts in three
# dimensions, rows of 64 and 128), and a known name with unsupported numbers. Commands that need only bytes and names
# work, and report that nothing was evaluated; commands that need to run the model fail and suggest alternatives. Then a
# folder whose model class is unknown.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
says() { # expected exit, text on stderr, arguments
    want=$1 text=$2
    shift 2
    run "$want" "$@"
    grep -qF -- "$text" "$t/e" || say "hone $*: not \"$text\": $(cat "$t/e")"
}
shows() { # text on stdout of the last command
    grep -qF -- "$1" "$t/o" || say "not \"$1\": $(cat "$t/o")"
}
m=tests/golden/models
"$HONE" convert $m/qwen35moe -o "$t/known.gguf" -q > /dev/null
for i in 1 2 3 4 5 6 7 8 9; do echo "line $i of a text for an importance matrix, word by word"; done > "$t/text"
"$HONE" imatrix "$t/known.gguf" "$t/text" -o "$t/known-im.gguf" --ctx 16 -q > /dev/null
# names of the same length keep the file valid. ssm_out has a known role, the others have none or a different one
rename() { LC_ALL=C sed 's/qwen35moe/zebra35mo/g; s/attn_gate\.weight/hc_stripe.weight/g; s/attn_output\.weight/attn_kv_mqa.weight/g; s/ffn_up_shexp/ffn_stripe_x/g; s/blk\.\(.\)\.attn_q\.weight/blk.\1.ssm_xx.weight/g' "$1" > "$2"; }
rename "$t/known.gguf" "$t/zebra.gguf"
rename "$t/known-im.gguf" "$t/zebra-im.gguf"
# the same file under the name of a different architecture with the same number of letters
LC_ALL=C sed 's/qwen35moe/bailing_x/g' "$t/known.gguf" > "$t/other.gguf"
# a known name with a tensor that its graph does not have
LC_ALL=C sed 's/blk\.2\.attn_gate\.weight/blk.2.attn_gnat.weight/' "$t/known.gguf" > "$t/variant.gguf"
still="can be inspected, verified, quantized, split, merged, compared and published"
for f in zebra other variant; do
    g=$t/$f.gguf
    run 0 inspect "$g"
    shows "not run or measured"
    "$HONE" inspect "$g" --json | grep -q '"computes": *false' || say "inspect --json of $f"
    run 0 verify "$g"
    run 0 verify "$g" --deep
    run 0 recipes "$g"
    run 0 split "$g" -o "$t/s-$f.gguf" --max-size 1MiB
    run 0 merge "$(ls "$t/s-$f"-00001-of-*.gguf)" -o "$t/merged.gguf" -f
    cmp -s "$g" "$t/merged.gguf" || say "$f: split and merged it is another file"
    run 1 template lint "$g"
    for c in "run $g -p x" "eval ppl $g $t/text" "eval speed $g" "imatrix $g $t/text -o $t/x.gguf"; do
        # shellcheck disable=SC2086
        says 3 "$still" $c
    done
    says 3 'hone publish DIR` make a folder' make "$g" -o "$t/d"
    [ ! -e "$t/d" ] || say "make left a folder"
    rm -f "$t/q.gguf"
    says 3 "needs a pass through the model" sensitivity "$g" -o "$t/s.json" --probe "$t/text"
    says 3 "needs a pass through the model" quantize "$g" -o "$t/q.gguf" --budget 2MiB --gate "$t/text"
    [ ! -e "$t/q.gguf" ] || say "something was made that the gate could not judge"
    says 0 "nothing was evaluated" quantize "$g" -o "$t/q.gguf" --type Q8_0 -f
    run 0 verify "$t/q.gguf" --deep
    run 1 diff "$g" "$t/q.gguf"
done
run 0 plan "$t/zebra.gguf" --vram 8GiB --all-recipes
shows "not known"
shows "Q4_K_M"
says 1 "do not fit" plan "$t/zebra.gguf" --vram 1MiB
# ---- every recipe, and mixes; with importance and without ----
"$HONE" recipes "$t/zebra.gguf" --csv | sed '1d; s/,.*//' | grep -v '^BF16$' > "$t/names"
for part in "1,24" '25,$'; do
    run 0 quantize "$t/zebra.gguf" -o "$t/all-{}.gguf" --recipe "$(sed -n "${part}p" "$t/names" | tr '\n' ',' | sed 's/,$//')" --imatrix "$t/zebra-im.gguf"
done
[ "$(ls "$t"/all-*.gguf | wc -l)" = "$(wc -l < "$t/names")" ] || say "not every recipe made a file"
for f in "$t"/all-IQ2_XXS.gguf "$t"/all-Q4_K_M.gguf "$t"/all-MXFP4_MOE.gguf; do run 0 verify "$f" --deep; done
n=$("$HONE" quantize "$t/zebra.gguf" --recipe Q4_K_M --imatrix "$t/zebra-im.gguf" --dry-run --json -q | grep -c '"n_no_imatrix": *[0-9]')
[ "$n" = 1 ] || say "no count of tensors without importance"
says 0 "by roles guessed from tensor names" quantize "$t/zebra.gguf" -o "$t/mix.gguf" --budget 1500000 --imatrix "$t/zebra-im.gguf"
[ "$(wc -c < "$t/mix.gguf")" -le 1500000 ] || say "a mix above its budget"
run 0 quantize "$t/zebra.gguf" -o "$t/mix2.gguf" --bpw 6
says 3 "use --budget" quantize "$t/zebra.gguf" -o "$t/v.gguf" --vram 2MiB
run 0 sensitivity "$t/zebra.gguf" -o "$t/sens.json" --imatrix "$t/zebra-im.gguf"
run 0 quantize "$t/zebra.gguf" -o "$t/mix3.gguf" --budget 1500000 --sensitivity "$t/sens.json" --imatrix "$t/zebra-im.gguf"
run 0 replay "$t/mix.gguf" --source "$t/zebra.gguf" --imatrix "$t/zebra-im.gguf"
# ---- a folder of such files: the card states that nothing was measured, and does not suggest hone run ----
mkdir "$t/pub"
cp "$t/all-Q4_K_M.gguf" "$t/pub/Zebra-Q4_K_M.gguf"
cp "$t/all-Q8_0.gguf" "$t/pub/Zebra-Q8_0.gguf"
run 0 publish "$t/pub" --repo me/Zebra-GGUF --license mit --base-model zoo/Zebra
grep -q '^\*\*Not evaluated\*\*: .*`zebra35mo`' "$t/pub/README.md" || say "the card does not say that nothing was evaluated"
grep -qE 'hone run|measured with' "$t/pub/README.md" && say "the card says what hone cannot do: $(grep -nE 'hone run|measured with' "$t/pub/README.md")"
"$HONE" publish --check "$t/pub" > "$t/o" 2> "$t/e" || [ $? = 1 ] || say "publish --check: $(cat "$t/e")"
# ---- a folder ----
cp -r $m/qwen3 "$t/src"
sed 's/Qwen3ForCausalLM/ZebraForCausalLM/' $m/qwen3/config.json > "$t/src/config.json"
LC_ALL=C sed 's/self_attn\.q_norm/stripes__.q_norm/g' $m/qwen3/model.safetensors > "$t/src/model.safetensors"
for c in "inspect $t/src" "inspect $t/src --tensors" "verify $t/src --deep" "tokenize $t/src hello"; do
    # shellcheck disable=SC2086
    run 0 $c
done
says 3 "class ZebraForCausalLM is not known" convert "$t/src" -o "$t/z.gguf"
says 3 "nearest is Qwen 3, which names 32 of its 35 tensors, but not model.layers.N.stripes__.q_norm.weight" convert "$t/src" -o "$t/z.gguf"
[ ! -e "$t/z.gguf" ] || say "convert left a file"
# several architectures name every tensor: the nearest is one that needs no tensor besides them
cp -r $m/mistral "$t/plain"
sed 's/[A-Za-z0-9]*For[A-Z][A-Za-z]*/ZebraForCausalLM/; s/"model_type": "[^"]*"/"model_type": "zebra"/' $m/mistral/config.json > "$t/plain/config.json"
says 3 "nearest is Qwen 1.5 to 2.5, which names 30 of its 30" convert "$t/plain" -o "$t/z.gguf"
sed 's/"zebra"/"llama"/; s/ZebraForCausalLM/LlamaForSequenceClassification/' "$t/plain/config.json" > "$t/config.json" && cp "$t/config.json" "$t/plain/config.json"
says 3 "nearest is Llama" convert "$t/plain" -o "$t/z.gguf" # of the family of model_type
says 3 "Add a table of them" make "$t/src" -o "$t/d2"
[ ! -e "$t/d2" ] && [ ! -e "$t/d2.work" ] || say "make of an unknown class left something"
# ---- an unknown pre-tokenizer: commands that read no text ignore it; make accepts --pre and remembers it ----
"$HONE" convert $m/qwen3 -o "$t/qwen2.gguf" -q > /dev/null
LC_ALL=C sed 's/tokenizer.ggml.pre\(............\)qwen2/tokenizer.ggml.pre\1qwem2/' "$t/qwen2.gguf" > "$t/pre.gguf"
for c in "inspect $t/pre.gguf" "verify $t/pre.gguf --deep" "plan $t/pre.gguf" "quantize $t/pre.gguf -o $t/p.gguf --recipe Q4_K_M" "eval speed $t/pre.gguf --pp 4 --tg 2 --reps 1" \
    "sensitivity $t/pre.gguf -o $t/ps.json"; do
    # shellcheck disable=SC2086
    run 0 $c
done
for c in "run $t/pre.gguf -p x" "eval ppl $t/pre.gguf $t/text" "imatrix $t/pre.gguf $t/text -o $t/pi.gguf" "make $t/pre.gguf -o $t/d3" "sensitivity $t/pre.gguf -o $t/ps2.json --probe $t/text"; do
    # shellcheck disable=SC2086
    says 3 'pre-tokenizer "qwem2" is not known; nearest: qwen2' $c
    grep -qF -- '--pre NAME' "$t/e" || say "$c: no word of --pre"
done
says 2 '"qwem" is not known; nearest: qwen2' make "$t/pre.gguf" -o "$t/d3" --pre qwem
make="--recipes Q8_0 --plain --calib $t/text --eval $t/text --calib-ctx 16 --ctx 16 --chunks 2 --pp 4 --tg 2 --reps 1 --tools none -q"
# shellcheck disable=SC2086
run 0 make "$t/pre.gguf" -o "$t/d3" --pre qwen2 $make
# shellcheck disable=SC2086
run 0 make "$t/pre.gguf" -o "$t/d3" $make
# shellcheck disable=SC2086
run 0 make "$t/qwen2.gguf" -o "$t/d4" $make
ppl() { "$HONE" eval ppl "$1" "$t/text" --ctx 16 --json ${2:+--pre $2} | grep '"ppl"'; }
[ "$(ppl "$t/pre.gguf" qwen2)" = "$(ppl "$t/qwen2.gguf")" ] || say "forced rules give another perplexity"
kld() { sed -n 's/.*"mean_kld": *\([^,]*\).*/\1/p' "$1/results.json" | head -3; }
[ -n "$(kld "$t/d3")" ] && [ "$(kld "$t/d3")" = "$(kld "$t/d4")" ] || say "make --pre measures other numbers: $(kld "$t/d3") and $(kld "$t/d4")"
exit $fail
