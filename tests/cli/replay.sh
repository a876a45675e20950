#!/bin/sh
# hone replay: files of every kind are reproduced byte for byte from their own record; inputs with a different hash are
# refused; files that were changed later are detected.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
fail() { echo "$*"; exit 1; }
texts=tests/golden/tiny-qwen35moe
"$HONE" convert tests/golden/models/qwen35moe -o "$t/base.gguf" -q > /dev/null
head -c 6000 $texts/self_calib.txt > "$t/calib.txt"
tail -c 6000 $texts/self_calib.txt > "$t/other.txt"
"$HONE" imatrix "$t/base.gguf" "$t/calib.txt" -o "$t/im.gguf" --gram "$t/gram.gguf" -q > /dev/null
"$HONE" imatrix "$t/base.gguf" "$t/other.txt" -o "$t/im2.gguf" -q > /dev/null
quantize() { "$HONE" quantize "$t/base.gguf" --imatrix "$t/im.gguf" -q "$@" > /dev/null; }
quantize -o "$t/preset.gguf" --recipe Q4_K_M
quantize -o "$t/tensor.gguf" --recipe Q4_K_M --tensor 'attn_q\.=Q8_0' --search conventional
quantize -o "$t/named.gguf" --recipe hone-Q3_K_XL --gram "$t/gram.gguf"
quantize -o "$t/pure.gguf" --type Q5_1 --without balance
quantize -o "$t/mix.gguf" --budget 1250K
quantize -o "$t/again.gguf" --recipe "$t/mix.gguf.plan.tsv"
quantize -o "$t/set.gguf" --recipe Q4_K_M --split-max 600K
quantize -o "$t/ternary.gguf" --type TQ2_0 # most rows do not fit it, so its file type is not that of most weights
quantize -o "$t/plan.gguf" --type NVFP4    # there is no preset of that name
mkdir "$t/away"
for f in preset tensor named pure mix again ternary plan set-00001-of-0000?; do
    f=$(echo "$t"/$f.gguf)
    "$HONE" replay "$f" -q --json > "$t/r.json" 2> "$t/err" || fail "$f: $(cat "$t/err" "$t/r.json")"
    grep -q '"equal": true' "$t/r.json" || fail "$f is not equal: $(cat "$t/r.json")"
done
[ -z "$(ls "$t" | grep 'replay-')" ] || fail "replay left files: $(ls "$t")"

# files merged, split or split otherwise since: equal except for the split, which is named
"$HONE" merge "$(echo "$t"/set-00001-of-*.gguf)" -o "$t/merged.gguf" -q > /dev/null
"$HONE" split "$(echo "$t"/set-00001-of-*.gguf)" --max-size 300K -o "$t/finer.gguf" -q > /dev/null
"$HONE" split "$t/preset.gguf" --max-size 300K -o "$t/later.gguf" -q > /dev/null
for f in merged finer later; do
    f=$(ls "$t/$f"*.gguf | head -1)
    "$HONE" replay "$f" -q > "$t/o" 2> "$t/err" || fail "$f: $(cat "$t/err" "$t/o")"
    grep -q '^equal except for the split *yes$' "$t/o" || fail "$f: $(cat "$t/o")"
    ! grep -qe '-1$' "$t/o" || fail "a byte -1: $(cat "$t/o")"
done
grep -q '^files when it was made *1$' "$t/o" || fail "the recorded split: $(cat "$t/o")"
"$HONE" meta "$(ls "$t"/later-00001-of-*.gguf)" general.name=other -q > /dev/null
rc=0
"$HONE" replay "$(ls "$t"/later-00001-of-*.gguf)" -q > "$t/o" 2> "$t/err" || rc=$?
[ $rc = 1 ] && grep -q '^equal except for the split *no$' "$t/o" || fail "a changed key of a split set: $rc, $(cat "$t/o" "$t/err")"
[ -z "$(ls "$t" | grep 'replay-')" ] || fail "replay left files: $(ls "$t")"

# a source with a long name
long=$(printf '%0200d' 0)
ln "$t/base.gguf" "$t/$long.gguf"
"$HONE" quantize "$t/$long.gguf" -o "$t/of-long.gguf" --type Q8_0 -q > /dev/null
"$HONE" replay "$t/of-long.gguf" -q > "$t/o" 2> "$t/err" || fail "a source with a long name: $(cat "$t/err" "$t/o")"

# the copy replaces neither the file that it is compared with, under any of its names, nor a plan next to it
refuse() { want=$1; shift; rc=0; "$HONE" replay "$@" -q > /dev/null 2> "$t/err" || rc=$?; [ $rc = "$want" ] || fail "status $rc, expected $want: replay $*: $(cat "$t/err")"; }
ln "$t/preset.gguf" "$t/link.gguf"
sums=$(cat "$t"/preset.gguf "$t"/set-*.gguf | cksum)
for o in preset link; do refuse 2 "$t/preset.gguf" -o "$t/$o.gguf" -f; done
refuse 2 "$(echo "$t"/set-00001-of-*.gguf)" -o "$t/set.gguf" -f
[ "$sums" = "$(cat "$t"/preset.gguf "$t"/set-*.gguf | cksum)" ] || fail "replay replaced the file that it checks"
echo mine > "$t/copy.gguf.plan.tsv"
"$HONE" replay "$t/plan.gguf" -o "$t/copy.gguf" -q > /dev/null 2> "$t/err" || fail "a copy: $(cat "$t/err")"
[ "$(cat "$t/copy.gguf.plan.tsv")" = mine ] || fail "replay replaced a plan"
rm "$t/copy.gguf"

# the inputs of hone make's files are next to their folder
mkdir "$t/made" "$t/made.work"
ln "$t/named.gguf" "$t/im.gguf" "$t/made/" && ln "$t/base.gguf" "$t/gram.gguf" "$t/made.work/"
"$HONE" replay "$t/made/named.gguf" -q > /dev/null 2> "$t/err" || fail "inputs in FOLDER.work: $(cat "$t/err")"
program=$(realpath "$HONE")
(cd "$t/made" && "$program" replay named.gguf -q > /dev/null 2> "$t/err") || fail "inputs in FOLDER.work, from the folder: $(cat "$t/err")"

# a file of the recorded name in the folder does not hide the input in FOLDER.work
echo junk > "$t/made/base.gguf"
cp "$t/im2.gguf" "$t/made/gram.gguf"
"$HONE" replay "$t/made/named.gguf" -q > /dev/null 2> "$t/err" || fail "other files with the names of inputs: $(cat "$t/err")"

# the error names every input that is missing, and one that is another file
rm "$t/made.work/gram.gguf" "$t/made.work/base.gguf"
mv "$t/made/im.gguf" "$t/made/im3.gguf"
rc=0
"$HONE" replay "$t/made/named.gguf" -q > /dev/null 2> "$t/err" || rc=$?
[ $rc = 2 ] || fail "status $rc, expected 2: $(cat "$t/err")"
for word in "source base.gguf (--source; $t/made/base.gguf is another file)" "importance matrix im.gguf (--imatrix)" \
    "second moments gram.gguf (--gram; $t/made/gram.gguf is another file)" "exist only if quantize --gram kept them"; do
    grep -qF -- "$word" "$t/err" || fail "missing inputs: no '$word' in $(cat "$t/err")"
done
"$HONE" replay "$t/made/named.gguf" --source "$t/base.gguf" --imatrix "$t/made/im3.gguf" --gram "$t/gram.gguf" -q > /dev/null 2> "$t/err" || fail "all inputs named: $(cat "$t/err")"

# a chat template that is not the source's is taken from the file and reported
LC_ALL=C sed 's/m[.]role/m.kind/' "$t/preset.gguf" > "$t/own-template.gguf" # as long as the old one
cmp -s "$t/preset.gguf" "$t/own-template.gguf" && fail "the template has no m.role"
"$HONE" replay "$t/own-template.gguf" -q > "$t/o" 2> "$t/err" || fail "another template: $(cat "$t/err" "$t/o")"
grep -q '^chat template *taken from the file; not the source.s$' "$t/o" || fail "another template is not reported: $(cat "$t/o")"

# inputs with different names and in a different folder
mv "$t/base.gguf" "$t/away/source.gguf"
mv "$t/im.gguf" "$t/away/importance.gguf"
refuse 2 "$t/preset.gguf"
"$HONE" replay "$t/preset.gguf" --source "$t/away/source.gguf" --imatrix "$t/away/importance.gguf" -o "$t/copy.gguf" -q > "$t/o" 2> "$t/err" || {
    fail "inputs by other names: $(cat "$t/err" "$t/o")"
}
grep -q "^made from *$t/away/source.gguf\$" "$t/o" || fail "not the given path: $(cat "$t/o")"
cmp "$t/preset.gguf" "$t/copy.gguf" || fail "the kept copy differs"

# other inputs, and changed files
refuse 3 "$t/preset.gguf" --source "$t/away/source.gguf" --imatrix "$t/im2.gguf"
refuse 3 "$t/preset.gguf" --source "$t/pure.gguf" --imatrix "$t/away/importance.gguf"
refuse 3 "$t/away/source.gguf" --source "$t/away/source.gguf"
cp "$t/preset.gguf" "$t/bad.gguf"
printf 'x' | dd of="$t/bad.gguf" bs=1 seek=$(($(wc -c < "$t/bad.gguf") - 100)) conv=notrunc 2> /dev/null
refuse 1 "$t/bad.gguf" --source "$t/away/source.gguf" --imatrix "$t/away/importance.gguf"
[ -z "$(ls "$t" | grep 'replay-')" ] || fail "replay left files: $(ls "$t")"
echo "replay: equal to the byte"
