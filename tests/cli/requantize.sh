#!/bin/sh
# A model that is already quantized is quantized again only on request, and the results record that.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
cp -r tests/golden/models/qwen3 "$t/Tiny"
run 0 convert "$t/Tiny" -o "$t/base.gguf"
run 0 quantize "$t/base.gguf" -o "$t/q4.gguf" --recipe Q4_K_M
run 0 quantize "$t/base.gguf" -o "$t/q8.gguf" --recipe Q8_0
head -c 3000 tests/golden/tiny-qwen35moe/self_calib.txt > "$t/calib.txt"
head -c 2500 tests/golden/tiny-qwen35moe/self_eval.txt > "$t/eval.txt"

for how in "--recipe Q2_K" "--type Q8_0" "--recipe Q5_K_M,Q6_K" "--budget 400K"; do
    # shellcheck disable=SC2086
    refused 2 "allow-requantize" quantize "$t/q4.gguf" -o "$t/x.gguf" $how
done
grep -q Q4_K_M "$t/e" || say "the refusal does not name the type: $(cat "$t/e")"
refused 2 "nothing to do" quantize "$t/q4.gguf" -o "$t/x.gguf" --recipe Q4_K_M
refused 2 "nothing to do" quantize "$t/q8.gguf" -o "$t/x.gguf" --recipe q8_0
refused 2 "nothing to do" quantize "$t/base.gguf" -o "$t/x.gguf" --type BF16
[ ! -e "$t/x.gguf" ] || say "a refused call wrote a file"
run 0 quantize "$t/q4.gguf" -o "$t/x.gguf" --recipe Q2_K --allow-requantize
grep -q Q4_K_M "$t/e" || say "no warning: $(cat "$t/e")"
run 0 inspect "$t/x.gguf" --json
grep -q 'hone.base_type' "$t/x.gguf" || say "the file does not say what its base was"
run 0 quantize "$t/q8.gguf" -o "$t/x.gguf" -f --recipe Q4_K_M # as conversions are stored
grep -q 'hone.base_type' "$t/x.gguf" && say "Q8_0 counts as a quant"
# a quant written as F16 still has its errors
run 0 quantize "$t/q4.gguf" -o "$t/f16.gguf" --type F16 --allow-requantize
refused 2 "f16.gguf was dequantized from Q4_K_M, and" quantize "$t/f16.gguf" -o "$t/x.gguf" -f --recipe Q2_K
refused 2 "was dequantized from Q4_K_M" quantize "$t/f16.gguf" -o "$t/x.gguf" -f --recipe Q4_K_M
run 0 quantize "$t/f16.gguf" -o "$t/x.gguf" -f --recipe Q2_K --allow-requantize
grep -q "its errors add to the new ones" "$t/e" || say "no warning: $(cat "$t/e")"
"$HONE" inspect "$t/x.gguf" --keys all | grep -q 'hone.base_type *str *"Q4_K_M"' || say "the file does not say what its base was made of"
# blocks of MXFP4 may be what the model was released in; not so in a file that a quantizer made
run 0 quantize "$t/base.gguf" -o "$t/mx.gguf" --type MXFP4
refused 2 "allow-requantize" quantize "$t/mx.gguf" -o "$t/x.gguf" -f --recipe Q4_K_M
sed -i s/hone.replay/hone.replaY/ "$t/mx.gguf"
run 0 quantize "$t/mx.gguf" -o "$t/x.gguf" -f --recipe Q4_K_M

make() { # expected exit, source, folder, more
    want=$1 src=$2 folder=$3
    shift 3
    run "$want" make "$src" -o "$folder" --calib "$t/calib.txt" --eval "$t/eval.txt" --recipes Q2_K --ctx 64 --chunks 2 --calib-ctx 64 --pp 4 \
        --tg 2 --reps 1 --tools none "$@"
}
make 2 "$t/q4.gguf" "$t/a"
grep -q -- --allow-requantize "$t/e" || say "make: $(cat "$t/e")"
[ ! -e "$t/a" ] && [ ! -e "$t/a.work" ] || say "a refused job left a folder"
make 0 "$t/q4.gguf" "$t/a" --allow-requantize
grep -q '"base_type": "Q4_K_M"' "$t/a/results.json" && grep -q '"base_is_quantized": true' "$t/a/results.json" || say "results.json: $(head -5 "$t/a/results.json")"
grep -q 'unquantized' "$t/a/README.md" && say "the card calls a quant unquantized: $(grep unquantized "$t/a/README.md")"
grep -q 'already quantized (Q4' "$t/a/README.md" || say "the card does not say what the base was"
make 2 "$t/f16.gguf" "$t/c"
make 0 "$t/q8.gguf" "$t/b"
grep -q '"base_is_quantized": false' "$t/b/results.json" || say "results.json of a Q8_0 base"
exit $fail
