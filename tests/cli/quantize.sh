#!/bin/sh
# SPDX-License-Identifier: MIT
# hone quantize from the command line: exit codes, errors, round trip of a plan, and output bytes that do not depend on
# the thread count.
set -u
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
src=tests/golden/tiny-qwen35moe
fail() {
    echo "FAIL: $*" >&2
    exit 1
}
expect() { # expect CODE TEXT command...: exit status and a part of stderr
    want=$1 text=$2
    shift 2
    "$@" >"$dir/out" 2>"$dir/err"
    got=$?
    [ "$got" = "$want" ] || fail "$* gave $got, expected $want: $(cat "$dir/err")"
    grep -q -- "$text" "$dir/err" || fail "$*: no \"$text\" in: $(cat "$dir/err")"
}
q="$HONE quantize"
"$HONE" convert "$src" -o "$dir/in.gguf" --type bf16 -q >/dev/null || fail "convert"

expect 2 'recipe' $q "$dir/in.gguf" -o "$dir/a.gguf"
expect 2 'give one of' $q "$dir/in.gguf" -o "$dir/a.gguf" --recipe Q4_K_M --type Q4_K
expect 2 'OUT.gguf' $q "$dir/in.gguf" --recipe Q4_K_M
expect 2 'hone recipes' $q "$dir/in.gguf" -o "$dir/a.gguf" --recipe Q4_K_Q
expect 2 'not a tensor type' $q "$dir/in.gguf" -o "$dir/a.gguf" --type Q99
expect 2 '--gate, --bandwidth' $q "$dir/in.gguf" -o "$dir/a.gguf" --recipe Q4_K_M --gate "$src/self_eval.txt"
expect 2 'not fast' $q "$dir/in.gguf" -o "$dir/a.gguf" --recipe Q4_K_M --search slow
expect 2 'REGEX=TYPE' $q "$dir/in.gguf" -o "$dir/a.gguf" --recipe Q4_K_M --tensor abc
expect 2 'same file' $q "$dir/in.gguf" -o "$dir/in.gguf" -f --recipe Q4_K_M
cp "$dir/in.gguf" "$dir/importance.gguf"
expect 2 'same file' $q "$dir/in.gguf" -o "$dir/importance.gguf" -f --recipe Q4_K_M --imatrix "$dir/importance.gguf"
cmp "$dir/in.gguf" "$dir/importance.gguf" || fail "the importance file changed"
rm "$dir/importance.gguf"
# no output is an input or another output, also with -f and under another name
echo words >"$dir/text"
ln -s text "$dir/link"
cp "$dir/in.gguf" "$dir/kept.gguf"
to="$q $dir/in.gguf -o $dir/a.gguf -f --recipe Q4_K_M"
expect 2 'same file' $to --plan-out "$dir/in.gguf"
expect 2 'same file' $to --imatrix "$dir/text" --plan-out "$dir/link"
expect 2 'same file' $to --sequential "$dir/text" --gram "$dir/in.gguf"
expect 2 'same file' $to --sequential "$dir/text" --gram "$dir/link"
expect 2 'two outputs' $to --sequential "$dir/text" --gram "$dir/./a.gguf"
expect 2 'two outputs' $to --plan-out "$dir/../${dir##*/}/a.gguf"
expect 2 'same file' $q "$dir/in.gguf" --recipe "$dir/text" --dry-run --plan-out "$dir/text" -f
to="$q $dir/in.gguf -o $dir/a.gguf -f --budget 8M"
expect 2 'same file' $to --front "$dir/in.gguf"
expect 2 'same file' $to --gate "$dir/text" --plan-out "$dir/text"
expect 2 'two outputs' $to --plan-out "$dir/p" --front "$dir/p"
ln -s in.gguf "$dir/a.gguf.plan.tsv"
expect 2 'same file' $to
rm "$dir/a.gguf.plan.tsv" "$dir/link"
cmp "$dir/in.gguf" "$dir/kept.gguf" || fail "the model changed"
rm "$dir/kept.gguf"
[ -e "$dir/a.gguf" ] && fail "a refused run left a file"

# --dry-run writes nothing and predicts the size
$q "$dir/in.gguf" --recipe Q4_K_M --dry-run --plan-out "$dir/plan.tsv" --json -q >"$dir/dry.json" || fail "dry run"
$q "$dir/in.gguf" -o "$dir/a.gguf" --recipe Q4_K_M --threads 1 -q >/dev/null || fail "quantize"
size=$(wc -c <"$dir/a.gguf" | tr -d ' ')
grep -q "\"size_bytes\": $size" "$dir/dry.json" || fail "the dry run did not predict $size bytes"

# a type that is also a preset's name
$q "$dir/in.gguf" --type IQ2_S --dry-run --csv -q >"$dir/types" || fail "--type IQ2_S"
grep -q IQ2_S "$dir/types" && ! grep -q IQ2_XS "$dir/types" || fail "--type IQ2_S gives other types: $(cat "$dir/types")"

# refuses to overwrite, obeys -f; threads do not change a byte; the plan gives the same file
expect 2 'use -f' $q "$dir/in.gguf" -o "$dir/a.gguf" --recipe Q4_K_M
$q "$dir/in.gguf" -o "$dir/b.gguf" --recipe q4_k_m --threads 3 -q >/dev/null || fail "3 threads"
cmp "$dir/a.gguf" "$dir/b.gguf" || fail "the thread count changed the file"
$q "$dir/in.gguf" -o "$dir/b.gguf" -f --recipe "$dir/plan.tsv" -q >/dev/null || fail "plan"
cmp "$dir/a.gguf" "$dir/b.gguf" || fail "the plan gave another file"
sed 's/^output.weight.*/output.weight\tQ9_K/' "$dir/plan.tsv" >"$dir/bad.tsv"
expect 3 'Q9_K is not a type' $q "$dir/in.gguf" -o "$dir/c.gguf" --recipe "$dir/bad.tsv"
[ -e "$dir/c.gguf" ] && fail "a bad plan left a file"

# several recipes in one pass: the same files as one by one; invalid lists are refused
mkdir "$dir/many"
$q "$dir/in.gguf" -o "$dir/many" --recipe q4_k_m,Q6_K,IQ4_XS -q >/dev/null || fail "three recipes"
cmp "$dir/a.gguf" "$dir/many/in-Q4_K_M.gguf" || fail "Q4_K_M differs among several"
for r in Q6_K IQ4_XS; do
    $q "$dir/in.gguf" -o "$dir/b.gguf" -f --recipe $r -q >/dev/null || fail "$r"
    cmp "$dir/b.gguf" "$dir/many/in-$r.gguf" || fail "$r differs among several"
done
$q "$dir/in.gguf" -o "$dir/x-{}-y.gguf" --recipe Q8_0,Q6_K -q >/dev/null || fail "pattern"
[ -e "$dir/x-Q8_0-y.gguf" ] && [ -e "$dir/x-Q6_K-y.gguf" ] || fail "pattern made other names"
$q "$dir/in.gguf" -o "$dir/x-{}.gguf" --recipe q8_0 -q >/dev/null || fail "pattern for one recipe"
cmp "$dir/x-Q8_0-y.gguf" "$dir/x-Q8_0.gguf" || fail "the pattern made another file for one recipe"
# a set of shards is named like one file, and none of its files is replaced
"$HONE" split "$dir/in.gguf" -o "$dir/in-BF16.gguf" --max-size 10M -q >/dev/null || fail "split"
set -- "$dir"/in-BF16-0*
mkdir "$dir/set"
$q "$1" -o "$dir/set" --recipe Q8_0,Q6_K -q >/dev/null || fail "two recipes from shards"
[ "$(cd "$dir/set" && echo *)" = "in-Q6_K.gguf in-Q8_0.gguf" ] || fail "names from shards: $(ls "$dir/set")"
expect 2 'same file' $q "$1" -o "$2" -f --recipe Q8_0
expect 2 'same file' $q "$1" -o "$dir/b.gguf" -f --recipe Q8_0 --plan-out "$2"
expect 2 'same file' $q "$1" -o "$dir/in-BF16.gguf" -f --recipe F16 --split-max 10M
"$HONE" verify --deep "$1" >/dev/null || fail "the shards changed"
rm -f "$dir/many/in-Q6_K.gguf"
expect 2 'use -f' $q "$dir/in.gguf" -o "$dir/many" --recipe Q6_K,IQ4_XS
[ -e "$dir/many/in-Q6_K.gguf" ] && fail "a refused run left one of its files"
for bad in 'Q8_0,' ',Q8_0' 'Q8_0,,Q6_K' '' ','; do
    expect 2 'empty' $q "$dir/in.gguf" -o "$dir/many" -f --recipe "$bad"
done
expect 2 'twice' $q "$dir/in.gguf" -o "$dir/many" -f --recipe Q8_0,q8_0
expect 2 'more than' $q "$dir/in.gguf" -o "$dir/many" -f --recipe "$(i=0; while [ $i -lt 40 ]; do printf 'r%d,' $i; i=$((i + 1)); done)"
expect 2 'neither' $q "$dir/in.gguf" -o "$dir/many" -f --recipe 'Q8_0,%s%n../../absent'
expect 2 'plan-out' $q "$dir/in.gguf" -o "$dir/many" -f --recipe Q8_0,Q6_K --plan-out "$dir/p.tsv"

# the coarsest types need importance
expect 2 'hone imatrix.* take a type that needs none' $q "$dir/in.gguf" -o "$dir/c.gguf" --type IQ3_XXS
expect 2 'recipe IQ2_M gives it IQ2_S, which is too coarse .* take a recipe without such types: Q2_K or Q3_K_M' $q "$dir/in.gguf" -o "$dir/c.gguf" --recipe IQ2_M
$q "$dir/in.gguf" -o "$dir/c.gguf" --recipe Q2_K -q >/dev/null || fail "the recipe that the error suggests"
rm -f "$dir/c.gguf"
expect 2 'hone imatrix' $q "$dir/in.gguf" -o "$dir/c.gguf" --recipe IQ1_S
expect 2 'hone imatrix' $q "$dir/in.gguf" -o "$dir/c.gguf" --type IQ1_M
[ -e "$dir/c.gguf" ] && fail "a refused run left a file"
"$HONE" convert tests/golden/models/qwen35moe -o "$dir/micro.gguf" -q >/dev/null
$q "$dir/micro.gguf" -o "$dir/c.gguf" --recipe IQ3_M -q >/dev/null || fail "IQ3_M needs no importance"
rm -f "$dir/c.gguf"

# truncated input
head -c 100000 "$dir/in.gguf" >"$dir/cut.gguf"
expect 3 'cut.gguf' $q "$dir/cut.gguf" -o "$dir/c.gguf" --recipe Q4_K_M
[ -e "$dir/c.gguf" ] && fail "a truncated model left a file"
exit 0
