#!/bin/sh
# hone split and hone merge: the original bytes are restored for any shard size; no shard exceeds the limit; after an
# error no file is left or overwritten; damaged and incomplete sets are refused.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
sum() { sha256sum < "$1"; }
run 0 convert tests/golden/models/qwen35moe -o "$t/m.gguf"
m=$(sum "$t/m.gguf")

for size in 300K 1M 100K; do
    for first in '' --no-metadata-first; do
        mkdir "$t/s"
        run 0 split "$t/m.gguf" -o "$t/s/x.gguf" --max-size $size $first --json
        n=$(sed -n 's/.*"n_files": \([0-9]*\).*/\1/p' "$t/o")
        [ "$(ls "$t/s" | wc -l)" = "$n" ] || say "$size: $n files announced, not there"
        run 0 verify --deep "$t/s/$(printf 'x-00001-of-%05d.gguf' "$n")"
        last=$(printf '%s/s/x-%05d-of-%05d.gguf' "$t" "$n" "$n")
        run 0 merge "$last"
        [ "$(sum "$t/s/x.gguf")" = "$m" ] || say "$size $first: merged file differs"
        rm -r "$t/s"
    done
done

# the limit is obeyed, except for single tensors that are larger (token_embd and output: 262144 bytes)
run 0 split "$t/m.gguf" --max-size 300K
for f in "$t"/m-0*-of-*.gguf; do
    [ "$(wc -c < "$f")" -lt 330000 ] || say "$f is too large"
done
first=$(ls "$t"/m-00001-of-*)
# a set split again
run 0 split "$first" -o "$t/again.gguf" --max-size 1M
[ ! -s "$t/e" ] || ! grep warning "$t/e" || say "a warning for a plain set"
run 0 merge "$(ls "$t"/again-00001-of-*)"
[ "$(sum "$t/again.gguf")" = "$m" ] || say "a set split again and merged differs"
rm "$t"/again*

# a file that a merge cannot restore: bytes at the end, version 2
cp "$t/m.gguf" "$t/long.gguf"
printf 'more' >> "$t/long.gguf"
cp "$t/m.gguf" "$t/v2.gguf"
printf '\002' | dd of="$t/v2.gguf" bs=1 seek=4 conv=notrunc 2> "$t/e"
for f in long v2 m; do
    run 0 split "$t/$f.gguf" --max-size 1M -o "$t/w.gguf" --dry-run
    grep -c 'but not the same file' "$t/e" | grep -qx "$([ $f = m ] && echo 0 || echo 1)" || say "$f: $(cat "$t/e")"
done
# keys of a later file that the first one lacks or has with another value
patch() { # file, offset from the key split.tensors.count, byte
    at=$(grep -abo plit.tensors.count "$1" | cut -d: -f1)
    printf "$3" | dd of="$1" bs=1 seek=$((at - 1 + $2)) conv=notrunc 2> "$t/e"
}
mkdir "$t/k"
cp "$t"/m-0* "$t/k"
one=$(ls "$t"/k/m-00001-of-*) two=$(ls "$t"/k/m-00002-of-*)
patch "$two" 0 X
run 0 merge "$one"
grep -q 'm-00002-of.*key "Xplit.tensors.count" is not in the first file' "$t/e" || say "a later key: $(cat "$t/e")"
patch "$one" 0 X
run 0 merge "$one" -f
! grep warning "$t/e" || say "a warning for a key that both have"
patch "$two" 23 X
run 0 merge "$one" -f
grep -q 'm-00002-of.*key "Xplit.tensors.count" has another value' "$t/e" || say "another value: $(cat "$t/e")"
rm -r "$t/k"

# refusals
run 2 split "$t/m.gguf" --max-size 300K
grep -q 'exists already; use -f' "$t/e" || say "no advice: $(cat "$t/e")"
run 0 split "$t/m.gguf" --max-size 300K -f
run 2 split "$t/m.gguf"
grep -q 'smaller --max-size' "$t/e" || say "no advice: $(cat "$t/e")"
run 2 split "$t/m.gguf" --max-size 0
grep -q '49000000000 bytes, the limit without --max-size or with 0;' "$t/e" || say "--max-size 0: $(cat "$t/e")"
run 2 merge "$first"
for how in "merge $first -o $first" "split $first --max-size 300K"; do
    run 2 $how -f
    grep -q 'same file' "$t/e" || say "$how: $(cat "$t/e")"
done
run 2 merge "$t/m.gguf" -o "$t/y.gguf"
run 0 split "$t/m.gguf" --max-size 300K -o "$t/dry.gguf" --dry-run
[ -z "$(ls "$t" | grep dry)" ] || say "--dry-run wrote"
head -c 100000 "$t/m.gguf" > "$t/cut.gguf"
run 3 split "$t/cut.gguf" --max-size 10K
run 2 split "$t/absent.gguf" --max-size 10K
run 2 split "$t/m.gguf" -o "$t/no/such/x.gguf" --max-size 300K

# a disk that becomes full halfway: a process's file size limit gives the same kind of error
rc=0; (ulimit -f 200; "$HONE" split "$t/m.gguf" -o "$t/full.gguf" --max-size 300K) > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 4 ] || say "size limit: exit $rc: $(cat "$t/e")"
rc=0; (ulimit -f 200; "$HONE" merge "$first" -o "$t/full.gguf") > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 4 ] || say "size limit: exit $rc: $(cat "$t/e")"
[ -z "$(ls "$t" | grep -e full -e tmp)" ] || say "left behind: $(ls "$t" | grep -e full -e tmp)"

# missing, truncated, swapped and foreign shards
second=$(ls "$t"/m-00002-of-*) third=$(ls "$t"/m-00003-of-*)
mkdir "$t/d"; cp "$t"/m-0* "$t/d"
rm "$t/d/$(basename "$second")"
run 3 merge "$t/d/$(basename "$first")" -o "$t/y.gguf"
grep -q 'shard 2 of' "$t/e" || say "missing shard: $(cat "$t/e")"
head -c 200000 "$second" > "$t/d/$(basename "$second")"
run 3 merge "$t/d/$(basename "$first")" -o "$t/y.gguf"
cp "$third" "$t/d/$(basename "$second")"
run 3 merge "$t/d/$(basename "$first")" -o "$t/y.gguf"
cp "$t/m.gguf" "$t/d/z-00001-of-00002.gguf"
run 3 merge "$t/d/z-00001-of-00002.gguf"
cp "$third" "$t/d/$(basename "$first")"
run 3 merge "$t/d/$(basename "$first")" -o "$t/y.gguf"
grep -q 'claims to be shard 3, but is named shard 1' "$t/e" || say "third named first: $(cat "$t/e")"
[ ! -e "$t/y.gguf" ] && [ ! -e "$t/d/z.gguf" ] || say "a damaged set gave a file"

# data altered after the manifest was written
if "$HONE" publish --help > /dev/null 2>&1; then
    mkdir "$t/p"; cp "$t"/m-0* "$t/p"
    run 0 publish "$t/p" --manifest-only
    run 0 merge "$t/p/$(basename "$first")" -o "$t/y.gguf" --json
    grep -q '"n_manifest": 96' "$t/o" || say "manifest not used: $(cat "$t/o")"
    printf 'x' | dd of="$t/p/$(basename "$second")" bs=1 seek=100000 conv=notrunc 2> "$t/e"
    run 3 merge "$t/p/$(basename "$first")" -o "$t/z.gguf"
    grep -q 'do not match manifest.json' "$t/e" || say "altered data: $(cat "$t/e")"
    [ ! -e "$t/z.gguf" ] || say "altered data gave a file"
fi
exit $fail
