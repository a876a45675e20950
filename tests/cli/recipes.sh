#!/bin/sh
# hone recipes: every recipe is listed with the exact size of its file, each one written as a plan gives the same file,
# and the always-active recipes have the sizes of an independent engine's files of that kind.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
fail() { echo "$*"; exit 1; }
"$HONE" convert tests/golden/models/qwen35moe -o "$t/base.gguf" -q > /dev/null
head -c 4000 tests/golden/tiny-qwen35moe/self_calib.txt > "$t/calib.txt"
"$HONE" imatrix "$t/base.gguf" "$t/calib.txt" -o "$t/im.gguf" -q > /dev/null
"$HONE" recipes "$t/base.gguf" --imatrix "$t/im.gguf" --csv > "$t/list.csv"
"$HONE" recipes --csv > "$t/names.csv"
"$HONE" recipes "$t/base.gguf" > "$t/list.txt" # in a pipe a row is one line
[ "$(grep -cE "^Q4_K_M +[0-9,]+ +[0-9.]+ +" "$t/list.txt")" = 1 ] || fail "rows are folded: $(head -5 "$t/list.txt")"
size() { awk -F, -v r="$2" '$1 == r {print $2; exit}' "$1"; }
for r in Q4_K_M hone-Q3_K_XL AA-Q4 bartowski-Q4_K_L UD-Q3_K_XL APEX; do
    grep -q "^$r," "$t/names.csv" || fail "$r is not listed"
    "$HONE" quantize "$t/base.gguf" -o "$t/a.gguf" --recipe $r --imatrix "$t/im.gguf" -f -q > /dev/null
    [ "$(size "$t/list.csv" $r)" = "$(wc -c < "$t/a.gguf")" ] || fail "$r: listed as $(size "$t/list.csv" $r) bytes, the file has $(wc -c < "$t/a.gguf")"
    "$HONE" recipes "$t/base.gguf" --recipe $r --imatrix "$t/im.gguf" -o "$t/p.tsv" -f -q > /dev/null
    "$HONE" quantize "$t/base.gguf" -o "$t/b.gguf" --recipe "$t/p.tsv" --imatrix "$t/im.gguf" -f -q > /dev/null
    rc=0; "$HONE" diff "$t/a.gguf" "$t/b.gguf" > /dev/null 2> "$t/diff" || rc=$?
    [ $rc = 0 ] || grep -q "and 0 tensors differ" "$t/diff" || fail "$r: its plan gives other tensors: $(cat "$t/diff")"
done
rc=0; "$HONE" recipes "$t/base.gguf" --recipe Q4_K_M 2> /dev/null || rc=$?
[ $rc = 2 ] || fail "a plan without -o: status $rc"
rc=0; "$HONE" recipes "$t/base.gguf" --recipe nonsense -o "$t/x.tsv" 2> /dev/null || rc=$?
[ $rc = 2 ] && [ ! -e "$t/x.tsv" ] || fail "an unknown recipe: status $rc"
ln -s base.gguf "$t/link.tsv"
for out in "$t/link.tsv" "$t/im.gguf"; do
    rc=0; "$HONE" recipes "$t/base.gguf" --imatrix "$t/im.gguf" --recipe Q4_K_M -o "$out" -f 2> "$t/err" || rc=$?
    [ $rc = 2 ] && grep -q "same file" "$t/err" || fail "a plan that replaces an input: status $rc: $(cat "$t/err")"
done
src=../shared/models/tiny-qwen35moe
if [ -e $src/peer-baseline.json ]; then # metadata differs by the same number of bytes in every file
    "$HONE" convert $src -o "$t/tiny.gguf" --type f32 -q > /dev/null
    "$HONE" recipes "$t/tiny.gguf" --csv > "$t/tiny.csv"
    peer() { tr -d '\n ' < $src/peer-baseline.json | grep -o "\"$1\":{[^}]*" | grep -o '"size_bytes":[0-9]*' | cut -d: -f2; }
    meta=$(($(peer Q4_K_M) - $(size "$t/tiny.csv" Q4_K_M)))
    for r in AA-IQ3 AA-Q3 AA-IQ4 AA-Q4; do
        [ $(($(peer $r) - meta)) = "$(size "$t/tiny.csv" $r)" ] || fail "$r: $(size "$t/tiny.csv" $r) bytes, the independent file has $(peer $r) with $meta more of metadata"
    done
fi
echo "recipes: sizes, plans"
