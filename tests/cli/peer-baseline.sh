#!/bin/sh
# The bundled trained model compared with an independent engine's measurements on the same text: the f32 conversion's
# perplexity is within 0.01 % over the same number of windows, and the mean KLD of each quantized file is no worse with
# the same recipe and only a quarter of that engine's importance text. For the first windows, eval ppl gives the same
# numbers as eval kld gives for its base. Needs ../shared (texts and baseline are not bundled).
set -eu
src=../shared/models/tiny-qwen35moe
[ -e $src/peer-baseline.json ] || { echo "SKIP: $src is not here"; exit 77; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
"$HONE" convert $src -o "$t/base.gguf" --type f32 -q > /dev/null
head -c 200000 $src/calib.txt > "$t/calib.txt"
head -c 75000 $src/calib_chat.txt > "$t/calib_chat.txt"
"$HONE" imatrix "$t/base.gguf" "$t/calib.txt" "$t/calib_chat.txt" -o "$t/imatrix.gguf" -q > /dev/null
set --
for r in Q4_K_M Q3_K_M; do # bench/tiny.sh: all of them
    "$HONE" quantize "$t/base.gguf" -o "$t/$r.gguf" --recipe $r --imatrix "$t/imatrix.gguf" -q > /dev/null
    set -- "$@" "$t/$r.gguf"
done
"$HONE" eval kld "$@" $src/eval.txt --base "$t/base.gguf" -q --json > "$t/kld.json"
field() { # of each candidate: its file and number $1
    awk -v want="\"$1\":" '$1 == "\"model\":" {m = $2} $1 == want && n < 2 {print m, $2; n++}' "$t/kld.json" | tr -d '",'
}
fail=0
grep -q '"n_chunks": 163,' "$t/kld.json" && grep -q '"n_tokens": 41565,' "$t/kld.json" || { echo "the windows differ from the engine's"; fail=1; }
ppl() { sed -n "s/^ *\"$1\": \([0-9.]*\),*$/\1/p" "$2" | head -1; }
"$HONE" eval ppl "$t/base.gguf" $src/eval.txt --chunks 8 --json -q > "$t/ppl"
"$HONE" eval kld "$t/Q4_K_M.gguf" $src/eval.txt --base "$t/base.gguf" --chunks 8 --json -q > "$t/part"
awk -v a="$(ppl ppl "$t/ppl")" -v b="$(ppl ppl_base "$t/part")" 'BEGIN {printf "eight windows: PPL %s, %s as base\n", a, b; exit !(a > 1 && a / b - 1 < 1e-6 && b / a - 1 < 1e-6)}' || fail=1
field ppl_base | head -1 | awk '{d = $2/29.143164 - 1; printf "f32 PPL %.6f, difference %+.4f %%\n", $2, d*100; exit !(d < 1e-4 && d > -1e-4)}' || fail=1
field mean_kld > "$t/mean"
while read -r file kld; do
    r=${file##*/}
    r=${r%.gguf}
    peer=$(tr -d '\n ' < $src/peer-baseline.json | grep -o "\"$r\":{[^}]*" | grep -o '"mean_kld":[0-9.e-]*' | cut -d: -f2)
    awk -v r="$r" -v a="$kld" -v b="$peer" 'BEGIN{printf "%-7s mean KLD %.6f, independent engine %.6f, ratio %.3f\n", r, a, b, a/b; exit !(a <= b)}' || fail=1
done < "$t/mean"
[ "$(wc -l < "$t/mean")" = 2 ] || { echo "expected 2 rows"; fail=1; }
exit $fail
