#!/bin/sh
# SPDX-License-Identifier: MIT
# Error feedback from the command line: second moments are collected, output bytes do not depend on the thread count,
# and files that do not match the model are refused.
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
"$HONE" convert "$src" -o "$dir/in.gguf" --type bf16 -q >/dev/null || fail "convert"
threads="1 3"
# a sanitizer is slow and checks the code, not the numbers
grep -q __asan_init "$HONE" && threads="1 2"
im="$HONE imatrix $dir/in.gguf $src/self_calib.txt -q --ctx 256"
$im --chunks 9 -o "$dir/i.gguf" --gram "$dir/g.gguf" >/dev/null || fail "imatrix --gram"
if [ "$threads" = "1 3" ]; then
    for j in 1 2; do
        $im --chunks 1 -o "$dir/i$j.gguf" --gram "$dir/g$j.gguf" -j $j >/dev/null || fail "imatrix --gram -j $j"
    done
    cmp -s "$dir/g1.gguf" "$dir/g2.gguf" || fail "threads change the second moments"
    $im --chunks 1 -o "$dir/plain.gguf" >/dev/null || fail "imatrix"
    cmp -s "$dir/i1.gguf" "$dir/plain.gguf" || fail "--gram changes the importance matrix"
    rm "$dir"/[ig][12].gguf "$dir/plain.gguf"
fi
expect 2 'use -f' $im -o "$dir/i2.gguf" --gram "$dir/g.gguf"
expect 2 'create its folder first' "$HONE" imatrix "$dir/absent.gguf" "$src/self_calib.txt" -o "$dir/none/i.gguf"
expect 2 'create its folder first' "$HONE" imatrix "$dir/absent.gguf" "$src/self_calib.txt" -o "$dir/i2.gguf" --gram "$dir/none/g"
expect 2 'two outputs' $im -o "$dir/i2.gguf" --gram "$dir/i2.gguf"
expect 2 'multiple of 256' $im -o "$dir/i2.gguf" --gram "$dir/g2.gguf" --gram-block 100
expect 2 'cannot be used together' "$HONE" imatrix --stats "$dir/i.gguf" --gram "$dir/g2.gguf"

# only the dense matrices of one block: quick, and the rest does not hide their effect
q="$HONE quantize $dir/in.gguf --recipe Q3_K_M --imatrix $dir/i.gguf --tensor blk.[023]=BF16 --tensor exps|token_embd|output.weight=BF16 -q"
$q -o "$dir/p.gguf" >/dev/null || fail "quantize"
for j in $threads; do
    $q -o "$dir/f$j.gguf" --gram "$dir/g.gguf" -j $j >/dev/null || fail "quantize --gram"
    cmp -s "$dir/f1.gguf" "$dir/f$j.gguf" || fail "$j threads change the bytes"
    [ $j = 1 ] || rm "$dir/f$j.gguf"
done
[ "$(wc -c <"$dir/p.gguf")" = "$(wc -c <"$dir/f1.gguf")" ] || fail "feedback changes the size"
cmp -s "$dir/p.gguf" "$dir/f1.gguf" && fail "feedback changes nothing"
"$HONE" verify "$dir/f1.gguf" >/dev/null || fail "verify"

# on similar text the divergence falls; the median is used, because a single token can outweigh the other thousand
"$HONE" eval kld "$dir/p.gguf" "$dir/f1.gguf" "$src/self_eval.txt" --base "$dir/in.gguf" --chunks 1 -q --csv >"$dir/kld" || fail "eval"
kld() { # value of the column median_kld for a model
    awk -F, -v m="$1" 'NR > 1 && $1 ~ m { print $col } /median_kld/ { for (i = 1; i <= NF; i++) if ($i == "median_kld") col = i }' "$dir/kld"
}
p=$(kld p.gguf) f=$(kld f1.gguf)
awk -v p="$p" -v f="$f" 'BEGIN { exit !(p > 0 && f > 0 && f < 0.8 * p) }' || fail "divergence $f, without feedback $p"

# embeddings have moments from the weights of the first block, the same for any thread count
e="$HONE quantize $dir/in.gguf --recipe Q3_K_M --imatrix $dir/i.gguf --tensor ^blk|^output.weight=BF16 -q"
$e -o "$dir/e0.gguf" >/dev/null || fail "quantize embeddings"
for j in 1 3; do
    $e -o "$dir/e$j.gguf" --gram "$dir/g.gguf" -j $j --json >"$dir/out" || fail "quantize embeddings --gram"
    grep -q '"n_feedback": *1[^0-9]' "$dir/out" || fail "embeddings without feedback: $(cat "$dir/out")"
done
cmp -s "$dir/e1.gguf" "$dir/e3.gguf" || fail "threads change embeddings"
cmp -s "$dir/e0.gguf" "$dir/e1.gguf" && fail "feedback does not change embeddings"

# invalid files
expect 3 'general.type' $q -o "$dir/x.gguf" --gram "$dir/i.gguf"
expect 2 'No such file' $q -o "$dir/x.gguf" --gram "$dir/none.gguf"
head -c 100000 "$dir/g.gguf" >"$dir/cut.gguf"
expect 3 'cut.gguf' $q -o "$dir/x.gguf" --gram "$dir/cut.gguf"
"$HONE" convert tests/golden/models/qwen35moe -o "$dir/other.gguf" --type bf16 -q >/dev/null || fail "convert"
expect 3 'another model' "$HONE" quantize "$dir/other.gguf" -o "$dir/x.gguf" --recipe Q4_0 --gram "$dir/g.gguf" -q
expect 2 'balance, codes' $q -o "$dir/x.gguf" --without everything
expect 2 'needs --sequential' $q -o "$dir/x.gguf" --without gradients
expect 2 'leave out --gram and --sequential' $q -o "$dir/x.gguf" --gram "$dir/g.gguf" --search conventional
expect 2 'leave out --gram and --sequential' $q -o "$dir/x.gguf" --sequential "$dir/none" --search conventional
[ -e "$dir/x.gguf" ] && fail "a refused run left a file"

# moments of the file's own inputs, block by block: for the tensors that a mix's plan marks for feedback only. The same
# bytes for any thread count and with the cached moments; no other files are left next to the output
head -c 4500 "$src/self_calib.txt" > "$dir/text"
s="$HONE quantize $dir/other.gguf -q"
echo "the user's" >"$dir/s1.gguf.moments"
$s --bpw 5.6 -o "$dir/s1.gguf" --sequential "$dir/text" -j 1 >/dev/null || fail "--bpw --sequential"
[ "$(cat "$dir/s1.gguf.moments")" = "the user's" ] || fail "a file of the user was replaced"
[ "$(ls "$dir" | grep -c moments)" = 1 ] || fail "moments are left beside the output"
plan="--recipe $dir/s1.gguf.plan.tsv"
$s $plan -o "$dir/s2.gguf" --sequential "$dir/text" --gram "$dir/own.gguf" -j 3 >/dev/null || fail "--sequential --gram with a mix's plan"
$s $plan -o "$dir/s3.gguf" --gram "$dir/own.gguf" >/dev/null || fail "with moments that were kept"
$s $plan -o "$dir/s0.gguf" >/dev/null || fail "a mix's plan"
same() { "$HONE" diff "$dir/s2.gguf" "$1" 2>/dev/null | grep -q 'tensors that differ  0$'; }
same "$dir/s1.gguf" || fail "a mix and its plan differ block by block, or threads change the bytes"
cmp -s "$dir/s2.gguf" "$dir/s3.gguf" || fail "the moments that were kept make another file" # whose record names the same moments
same "$dir/s0.gguf" && fail "--sequential changes nothing"
"$HONE" replay "$dir/s2.gguf" --source "$dir/other.gguf" --gram "$dir/own.gguf" -q >/dev/null || fail "a file made block by block cannot be replayed"
expect 2 'one recipe' $s -o "$dir/x-{}.gguf" --recipe Q4_0,Q5_0 --sequential "$dir/text"
expect 2 'use -f' $s $plan -o "$dir/x.gguf" --sequential "$dir/text" --gram "$dir/own.gguf"
# what the output does not allow is found first
none="--sequential $dir/no-such.txt"
mv "$dir/s1.gguf.moments" "$dir/x.gguf.moments"
expect 2 'no-such' $s $plan -o "$dir/x.gguf" $none
[ -s "$dir/x.gguf.moments" ] || fail "a refused run deleted a file of the user"
expect 2 'use -f' $s $plan -o "$dir/s1.gguf" $none
expect 2 'create its folder' $s $plan -o "$dir/none/x.gguf" $none
expect 2 'create its folder' $s $plan -o "$dir/x.gguf" --gram "$dir/none/own.gguf" $none
expect 2 'x.gguf.moments exists' $s $plan -o "$dir/x.gguf" --plan-out "$dir/x.gguf.moments" $none
expect 2 'too coarse without importance' $s --recipe IQ2_XS -o "$dir/x.gguf" $none
head -c 100 "$src/self_calib.txt" > "$dir/short"
expect 3 'fewer than one chunk' $s $plan -o "$dir/x.gguf" --sequential "$dir/short"
[ -e "$dir/x.gguf" ] && fail "a refused run left a file"

# block by block, weighting tokens by gradients lowers the median divergence
if [ "$threads" = "1 3" ]; then
    head -c 16000 "$src/self_calib.txt" >"$dir/text"
    q="$HONE quantize $dir/in.gguf --recipe Q3_K_M --tensor blk.[023]=BF16 --tensor exps|token_embd|output.weight=BF16 -q"
    $q -o "$dir/b0.gguf" --sequential "$dir/text" --without gradients >/dev/null || fail "--without gradients"
    $q -o "$dir/b1.gguf" --sequential "$dir/text" >/dev/null || fail "--sequential with gradients"
    "$HONE" eval kld "$dir/b0.gguf" "$dir/b1.gguf" "$src/self_eval.txt" --base "$dir/in.gguf" --chunks 4 -q --csv >"$dir/kld" || fail "eval"
    p=$(kld b0.gguf) f=$(kld b1.gguf)
    awk -v p="$p" -v f="$f" 'BEGIN { exit !(p > 0 && f > 0 && f < p) }' || fail "divergence $f, without gradients $p"
fi

# codes, scales and norms that follow gradients (their numbers: test_learn, test_learn_block): the same bytes for any thread count
"$HONE" convert tests/golden/models/mistral -o "$dir/m.gguf" --type bf16 -q >/dev/null || fail "convert"
head -c 12000 "$src/self_calib.txt" >"$dir/text"
q="$HONE quantize $dir/m.gguf --type IQ3_S --sequential $dir/text --without gradients -q"
$q -o "$dir/l0.gguf" -j 1 >/dev/null || fail "--type IQ3_S --sequential"
for j in 1 2; do
    $q -o "$dir/l$j.gguf" --gram "$dir/learn$j.gguf" --learn 1 -j $j >/dev/null || fail "--learn"
done
cmp -s "$dir/l1.gguf" "$dir/l2.gguf" || fail "threads change what is learned"
"$HONE" diff "$dir/l0.gguf" "$dir/l1.gguf" 2>/dev/null | grep -q 'tensors that differ  29$' || fail "--learn does not change 21 matrices, seven norms and, after them, the head"
"$HONE" verify "$dir/l1.gguf" >/dev/null || fail "verify"
# a mix is tuned as its plan is
q="$HONE quantize $dir/m.gguf --sequential $dir/text --without gradients --learn 1 -q"
$q --bpw 6 -o "$dir/lm.gguf" >/dev/null || fail "--bpw --learn"
$q --recipe "$dir/lm.gguf.plan.tsv" -o "$dir/lp.gguf" >/dev/null || fail "--learn with a mix's plan"
"$HONE" diff "$dir/lm.gguf" "$dir/lp.gguf" 2>/dev/null | grep -q 'tensors that differ  0$' || fail "a mix and its plan differ when learned"
"$HONE" diff "$dir/m.gguf" "$dir/lm.gguf" 2>/dev/null | grep -q '^data .*F32' || fail "no norm of a mix is learned"
# what is stored without loss stays so: blocks 0 and 1, except their norms
"$HONE" quantize "$dir/m.gguf" --type BF16 --tensor 'blk.[01]=Q4_0' -o "$dir/low.gguf" -q >/dev/null || fail "blocks of few bits"
"$HONE" quantize "$dir/low.gguf" --type F32 --allow-requantize -o "$dir/low32.gguf" -q >/dev/null 2>&1 || fail "few bits in F32"
for n in 0 1; do
    "$HONE" quantize "$dir/low32.gguf" --allow-requantize --type Q4_0 --sequential "$dir/text" --without gradients --learn $n -o "$dir/few$n.gguf" >"$dir/out" 2>&1 || fail "few bits, --learn $n: $(tail -1 "$dir/out")"
done
"$HONE" diff "$dir/few0.gguf" "$dir/few1.gguf" 2>/dev/null | grep -q 'tensors that differ  15$' || fail "other tensors than block 2, seven norms and the head changed"
q="$HONE quantize $dir/m.gguf --type IQ3_S --sequential $dir/text --without gradients -q"
"$HONE" replay "$dir/l1.gguf" --source "$dir/m.gguf" --gram "$dir/learn1.gguf" -q >/dev/null || fail "a learned file cannot be replayed"
# other types: norms learned for these codes are not taken
expect 0 'they are ignored' "$HONE" quantize "$dir/m.gguf" --type Q4_0 --gram "$dir/learn1.gguf" -o "$dir/other-types.gguf"
"$HONE" diff "$dir/m.gguf" "$dir/other-types.gguf" 2>/dev/null | grep -q '^data .*F32' && fail "norms learned for other types were taken"
# of two outputs, the one with these types takes them: then both can be replayed
"$HONE" quantize "$dir/m.gguf" --recipe IQ3_S,Q4_0 --pure --gram "$dir/learn1.gguf" -o "$dir/two-{}.gguf" -q >/dev/null 2>&1 || fail "two outputs"
for t in IQ3_S Q4_0; do
    "$HONE" replay "$dir/two-$t.gguf" --source "$dir/m.gguf" --gram "$dir/learn1.gguf" -q >/dev/null 2>&1 || fail "$t of two outputs cannot be replayed"
done
# other weights of the same shapes
"$HONE" convert tests/golden/models/mistral -o "$dir/m32.gguf" --type f32 -q >/dev/null || fail "convert"
expect 3 'learned from other weights' "$HONE" quantize "$dir/m32.gguf" --type IQ3_S --gram "$dir/learn1.gguf" -o "$dir/x.gguf"
expect 2 'is named for two outputs' $q -o "$dir/x.gguf" --gram "$dir/x.gguf" --learn 1
# eight chunks fill both halves of the moments, so there is feedback, and enough text to learn from; one does not
head -c 9000 "$src/self_calib.txt" >"$dir/text"
$q -o "$dir/l8.gguf" --learn 1 --json >"$dir/out" || fail "--learn with eight chunks"
grep -q '"n_feedback": *[1-9][0-9]' "$dir/out" || fail "eight chunks give no feedback: $(cat "$dir/out")"
expect 0 'give at least 2 chunks' "$HONE" imatrix "$dir/m.gguf" "$dir/text" --chunks 1 -o "$dir/one.im" --gram "$dir/one.gram"
expect 0 'moments of one half are empty' "$HONE" quantize "$dir/m.gguf" --type IQ3_S -o "$dir/one.gguf" --gram "$dir/one.gram"
head -c 6000 "$src/self_calib.txt" >"$dir/text"
expect 3 'needs 8 chunks' $q -o "$dir/x.gguf" --learn 1
expect 2 'at most 1000' $q -o "$dir/x.gguf" --learn 1001
expect 2 'learn' $q -o "$dir/x.gguf" --learn -1
expect 2 'needs --sequential' $s $plan -o "$dir/x.gguf" --learn 1
[ -e "$dir/x.gguf" ] && fail "a refused run left a file"
exit 0
