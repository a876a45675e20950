#!/bin/sh
# The bundled trained model against what an independent engine measured on the same texts: PPL of the f32
# conversion within 0.01 %, mean KLD of each quant no worse at the same recipe and imatrix text.
# Needs ../shared (texts and baseline are not bundled).
set -eu
src=../shared/models/tiny-qwen35moe
[ -e $src/peer-baseline.json ] || { echo "SKIP: $src is not here"; exit 77; }
grep -q __asan_init "$HONE" && { echo "SKIP: minutes under a sanitizer"; exit 77; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
"$HONE" convert $src -o "$t/base.gguf" --type f32 -q > /dev/null
"$HONE" imatrix "$t/base.gguf" $src/calib.txt $src/calib_chat.txt -o "$t/imatrix.gguf" -q > /dev/null
set --
for r in Q6_K Q4_K_M Q3_K_M; do # bench/tiny.sh: all of them
    "$HONE" quantize "$t/base.gguf" -o "$t/$r.gguf" --recipe $r --imatrix "$t/imatrix.gguf" -q > /dev/null
    set -- "$@" "$t/$r.gguf"
done
"$HONE" eval kld "$@" $src/eval.txt --base "$t/base.gguf" -q --csv > "$t/kld.csv"
field() { # column $1 of the candidates' table
    awk -F, -v want="$1" '$1=="model" && NF>5 {for (i = 1; i <= NF; i++) if ($i == want) c = i; next} NF == 0 || $1 == "a" {c = 0} c && NF > 5 {print $1, $c}' "$t/kld.csv"
}
fail=0
field ppl_base | head -1 | awk '{d = $2/29.143164 - 1; printf "f32 PPL %.6f, difference %+.4f %%\n", $2, d*100; exit !(d < 1e-4 && d > -1e-4)}' || fail=1
field mean_kld > "$t/mean"
while read -r file kld; do
    r=${file##*/}
    r=${r%.gguf}
    peer=$(tr -d '\n ' < $src/peer-baseline.json | grep -o "\"$r\":{[^}]*" | grep -o '"mean_kld":[0-9.e-]*' | cut -d: -f2)
    awk -v r="$r" -v a="$kld" -v b="$peer" 'BEGIN{printf "%-7s mean KLD %.6f, independent engine %.6f, ratio %.3f\n", r, a, b, a/b; exit !(a <= b)}' || fail=1
done < "$t/mean"
[ "$(wc -l < "$t/mean")" = 3 ] || { echo "expected 3 rows"; fail=1; }
exit $fail
