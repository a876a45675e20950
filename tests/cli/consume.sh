#!/bin/sh
# SPDX-License-Identifier: MIT
# hone convert --consume: the same bytes as without it, shards gone one by one and none before its time; resumes after SIGKILL at N random
# moments (6); what it refuses, and links into a cache. HONE is the binary, SEED the seed.
set -eu
n=${N:-6} seed=${SEED:-1}
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
src=tests/golden/tiny-qwen35moe
fail() { echo "FAIL: $*"; [ ! -s "$t/err" ] || tail -n 3 "$t/err"; exit 1; }
random() { # of 10000, to $r
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    r=$((seed / 65536 % 10000))
}
shards() { find "$1" -name 'model-*' | wc -l; }

mkdir "$t/whole" "$t/now"
for f in $src/*.json $src/*.jinja $src/model-*; do [ ! -e "$f" ] || cp "$f" "$t/whole/"; done
"$HONE" convert $src -o "$t/want.gguf" --name Tiny -q > /dev/null || fail "the folder"
consume() { $x "$HONE" convert "$t/now" -o "$t/m.gguf" --name Tiny --consume "$@" > "$t/out" 2> "$t/err"; }

x=
cp "$t"/whole/* "$t/now/"
consume --dry-run --json || fail "--dry-run"
extra=$(sed -n 's/.*"extra_bytes": \([0-9]*\).*/\1/p' "$t/out") all=$(wc -c < "$t/want.gguf")
[ "$extra" -gt 10000000 ] && [ "$extra" -lt $((all - 1000000)) ] || fail "--dry-run: $extra bytes of $all"
[ "$(shards "$t/now")" = 2 ] || fail "--dry-run deleted a shard"
began=$(date +%s%N)
consume || fail "undisturbed"
ms=$((($(date +%s%N) - began) / 1000000))
cmp "$t/want.gguf" "$t/m.gguf" || fail "other bytes"
[ "$(shards "$t/now")" = 0 ] || fail "shards are left"
[ "$(grep -c 'hone: deleted .*model-' "$t/err")" = 2 ] || fail "does not name each deleted shard"
[ "$(find "$t" -name 'm.gguf?*' | wc -l)" = 0 ] || fail "left behind"

# the same command again: it is done; with a shard that a killed run did not delete: that is deleted; with another name: not there
consume || fail "done already"
grep -q 'complete already' "$t/err" || fail "done already: another message"
cp "$t/whole/model-00002-of-00002.safetensors" "$t/now/"
consume || fail "the last deletions"
[ "$(shards "$t/now")" = 0 ] || fail "the last deletions: shards are left"
cmp "$t/want.gguf" "$t/m.gguf" || fail "done already: other bytes"
mv "$t/m.gguf" "$t/moved.gguf"
consume && fail "the output is gone"
grep -q 'converted to m.gguf and deleted' "$t/err" || fail "the output is gone: another message"
rm "$t/moved.gguf"

# a full disk after the first shard is gone
rm -f "$t/m.gguf"
cp "$t"/whole/* "$t/now/"
(
    ulimit -f $(((all - 1000000) / 512))
    consume
) 2> /dev/null && fail "a file of limited size"
[ -e "$t/m.gguf.part" ] && [ ! -e "$t/m.gguf" ] || fail "a file of limited size: no part"
[ "$(find "$t/now" -name 'model*.safetensors' | wc -l)" = 1 ] || fail "a file of limited size: the shards are not 1"
rest=$(find "$t/now" -name '*.consumed')
[ "$(du -k "$rest" | cut -f1)" -lt 2000 ] || fail "what is left of a shard takes its whole space"
"$HONE" convert "$t/now" -o "$t/other.gguf" -q > /dev/null 2> "$t/err" && fail "converts what is left"
grep -q 'run the same command' "$t/err" || fail "what is left: another message"
mv "$t/m.gguf.part" "$t/kept"
consume && fail "without the output"
grep -q 'consumed by another run' "$t/err" || fail "without the output: another message"
mv "$t/kept" "$t/m.gguf.part"
cp "$t/m.gguf.part" "$t/kept"
printf 'xyz' | dd of="$t/m.gguf.part" bs=1 seek=1000000 conv=notrunc 2> /dev/null # in the first tensors
consume && fail "a part that has changed"
grep -q 'has changed since it was written, and model-0000.* is gone' "$t/err" || fail "a part that has changed: another message"
mv "$t/kept" "$t/m.gguf.part"
consume || fail "after a full disk"
grep -q 'resuming after' "$t/err" || fail "after a full disk: starts afresh"
cmp "$t/want.gguf" "$t/m.gguf" || fail "after a full disk: other bytes"
[ "$(shards "$t/now")" = 0 ] || fail "after a full disk: shards are left"

# a part, or a record of one, that hone did not write
rm -f "$t"/m.gguf*
cp "$t"/whole/* "$t/now/"
for end in part part.state; do
    echo mine > "$t/m.gguf.$end"
    rc=0
    consume || rc=$?
    [ $rc = 2 ] && grep -q "m.gguf.$end was not written by hone" "$t/err" && [ "$(cat "$t/m.gguf.$end")" = mine ] || fail "another program's $end: exit status $rc"
    [ "$(shards "$t/now")" = 2 ] || fail "another program's $end: a shard is gone"
    [ $end = part ] || { consume -f || fail "another program's $end with -f"; }
    rm "$t"/m.gguf*
done

i=0 killed=0
while [ $i -lt "$n" ]; do
    i=$((i + 1))
    rm -rf "$t/now" "$t"/m.gguf*
    mkdir "$t/now"
    cp "$t"/whole/* "$t/now/"
    tries=0
    while [ ! -e "$t/m.gguf" ] || [ "$(shards "$t/now")" != 0 ]; do
        tries=$((tries + 1))
        random
        at=$(awk "BEGIN{printf \"%.4f\", $r / 10000 * $ms / 1000}")
        x=exec
        consume & pid=$!
        x=
        [ $tries -ge 4 ] || { sleep "$at"; kill -KILL $pid 2> /dev/null || true; }
        rc=0
        wait $pid 2> /dev/null || rc=$?
        [ $rc != 137 ] || killed=$((killed + 1))
        [ $rc = 0 ] || [ $rc = 137 ] || fail "try $tries of run $i: exit status $rc"
        [ ! -e "$t/m.gguf" ] || cmp "$t/want.gguf" "$t/m.gguf" || fail "run $i: other bytes"
        left=$(find "$t/now" -name '*.consumed' | wc -l)
        if [ "$left" != 0 ] && [ "$(find "$t/now" -name '*.safetensors' | wc -l)" != 2 ] && [ ! -e "$t/m.gguf" ]; then
            "$HONE" convert "$t/now" -o "$t/other.gguf" -q > /dev/null 2> "$t/err2" && fail "run $i: converts what is left"
            grep -q 'run the same command' "$t/err2" || fail "run $i: another message"
        fi
        [ $tries -lt 6 ] || fail "run $i does not end"
    done
    # a kill after the last deletion leaves the record, of some bytes
    [ "$(find "$t" -name 'm.gguf?*' ! -name '*.state' | wc -l)" = 0 ] || fail "run $i: left behind"
done
[ "$n" -lt 6 ] || [ $killed -gt 0 ] || fail "no run was killed"

rm -f "$t"/m.gguf*
refused() { # message, options: nothing is deleted
    msg=$1
    shift
    rm -rf "$t/now"
    mkdir "$t/now"
    ln -s "$t"/whole/* "$t/now/"
    consume "$@" && fail "accepted: $*"
    grep -q -- "$msg" "$t/err" || fail "$*: another message"
    [ "$(shards "$t/now")" = 2 ] && [ "$(shards "$t/whole")" = 2 ] || fail "$*: deleted a shard"
}
refused 'is a link to .*--consume-links'
refused 'cannot be used together' --lora "$t/now"
refused 'hone make --consume writes both; or first convert the vision tower, with --mmproj and without -o' --mmproj "$t/mm.gguf"
refused 'cannot be used together' --split-max 4M
refused 'cannot be used together' --mtp-only
"$HONE" convert "$t/now" -o "$t/m.gguf" --consume-links > /dev/null 2>&1 && fail "--consume-links alone"

consume --consume-links || fail "links"
grep -q 'deleted together' "$t/err" || fail "links: not said"
cmp "$t/want.gguf" "$t/m.gguf" || fail "links: other bytes"
[ "$(shards "$t/now")" = 0 ] && [ "$(shards "$t/whole")" = 0 ] || fail "links: shards are left"
# make --consume: the job continues with SRC/NAME.gguf; the same command again has nothing to do
rm -rf "$t/now"
mkdir "$t/now"
for f in $src/*.json $src/*.jinja $src/model-*; do [ ! -e "$f" ] || cp "$f" "$t/now/"; done
job() {
    "$HONE" make "$t/now" -o "$t/made" --consume --plain --recipe Q8_0 --calib $src/self_calib.txt --calib-chunks 1 --eval $src/self_eval.txt \
        --ctx 128 --chunks 2 --pp 8 --tg 2 --reps 1 --tools none "$@" > "$t/o" 2> "$t/err"
}
job --dry-run || fail "make --dry-run"
[ "$(shards "$t/now")" = 2 ] || fail "make --dry-run deleted a shard"
rc=0
job --time 0.0001s || rc=$?
[ $rc = 4 ] && grep -q 'cannot be met' "$t/err" || fail "make with too little time: exit status $rc"
job --recipe Q5_X && fail "make of an unknown recipe"
[ "$(shards "$t/now")" = 2 ] && [ ! -e "$t/now/now.gguf" ] && [ ! -e "$t/made.work" ] || fail "make: refused, but not before it began"
job || fail "make"
[ "$(shards "$t/now")" = 0 ] && [ -e "$t/now/now.gguf" ] && [ -e "$t/made/now-Q8_0.gguf" ] || fail "make: $(ls "$t/now" "$t/made")"
job || fail "make again"
grep -q 'complete already' "$t/err" || fail "make again: converts"
"$HONE" make "$t/now/now.gguf" -o "$t/made2" --consume > /dev/null 2> "$t/err" && fail "make --consume of a file"
grep -q 'is not a model folder' "$t/err" || fail "make --consume of a file: another message"
echo "consumed: the same bytes, also after $killed kills; shards go when their tensors are on disk"
