#!/bin/sh
# SPDX-License-Identifier: MIT
# --pack-cache: the text is the same with and without it, and the cache is created once and shared by two simultaneous
# programs. Whichever system call fails, the text is right or the exit status reports an error.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
"$HONE" convert tests/golden/tiny-qwen35moe -o "$t/m.gguf" --type q8_0 -q > /dev/null
[ "$("$HONE" eval speed "$t/m.gguf" --pp 1 --tg 0 --reps 1 --json -q | sed -n 's/.*"packed_bytes": \([0-9]*\).*/\1/p')" != 0 ] ||
    { echo "SKIP: no packed rows on this machine"; exit 77; }
text() { "$@" run "$t/m.gguf" -p "The value of" -n 12 --temp 0 --pack-cache "$t/c"; }
"$HONE" run "$t/m.gguf" -p "The value of" -n 12 --temp 0 > "$t/want" 2> /dev/null
sleep .2 # times of files go in steps

text "$HONE" > "$t/one" 2> "$t/e1" & one=$!
text "$HONE" > "$t/two" 2> "$t/e2" & two=$!
wait $one && wait $two || say "two at a time: $(cat "$t/e1" "$t/e2")"
cmp "$t/want" "$t/one" && cmp "$t/want" "$t/two" || say "the text is another with a cache"
[ "$(cat "$t/e1" "$t/e2" | grep -c 'packing the weights into')" = 1 ] || say "it was made by both, or by none: $(cat "$t/e1" "$t/e2")"
[ "$(ls "$t/c" | wc -l)" = 3 ] || say "rows, seal and lock were expected: $(ls "$t/c")"
text "$HONE" > "$t/o" 2> "$t/e"
cmp "$t/want" "$t/o" || say "the second start gives another text"
if grep -q 'pack' "$t/e"; then say "the second start says: $(cat "$t/e")"; fi
# `eval speed` packs, and reports where rows are
run 0 eval speed "$t/m.gguf" --pp 1 --tg 1 --reps 1 --json -q --pack-cache "$t/c"
packed=$(sed -n 's/.*"packed_bytes": \([0-9]*\).*/\1/p' "$t/o")
grep -q "\"packed_mapped_bytes\": $packed," "$t/o" || say "not all of $packed bytes are mapped: $(grep packed "$t/o")"
refused 2 "is not a folder" run "$t/m.gguf" -p x -n 1 -q --pack-cache "$t/m.gguf"

# every failing call of a first start, and of one that compares
if [ -n "${HONE_FAULTY:-}" ]; then
    n_faults=0
    for first in yes no; do
        rm -rf "$t/c"
        [ $first = yes ] || text "$HONE" > /dev/null 2>&1
        rm -f "$t"/c/*.seal "$t/counts"
        HONE_FAULT_LOG="$t/counts" text "$HONE_FAULTY" > /dev/null 2>&1
        for kind in open mmap fallocate pwrite fsync rename mkdir; do
            calls=$(awk -v k=$kind '$1 == k {print $2}' "$t/counts")
            [ "${calls:-0}" -le 6 ] || calls=6
            n_faults=$((n_faults + ${calls:-0}))
            for n in $(seq "${calls:-0}"); do
                [ $first = no ] || rm -rf "$t/c"
                rm -f "$t"/c/*.seal
                rc=0
                HONE_FAULT="$kind $n EIO" text "$HONE_FAULTY" > "$t/o" 2> "$t/e" || rc=$?
                [ $rc != 0 ] || cmp -s "$t/want" "$t/o" || say "$kind $n fails: another text"
                [ $rc = 0 ] || [ $rc = 4 ] || [ $rc = 2 ] || say "$kind $n fails: exit $rc: $(cat "$t/e")"
                [ -z "$(find "$t/c" -name '*.tmp-*' 2> /dev/null)" ] || say "$kind $n fails: $(ls "$t/c") is left"
                [ $first = yes ] || continue
                text "$HONE" > "$t/o" 2> "$t/e" || say "after $kind $n: $(cat "$t/e")"
                cmp -s "$t/want" "$t/o" || say "after $kind $n: another text"
            done
        done
    done
    [ $n_faults -ge 12 ] || say "only $n_faults calls were made to fail"
fi
exit $fail
