#!/bin/sh
# hone imatrix interrupted and killed, on its own and inside hone make: the same command resumes after the finished
# chunks and writes the same bytes as an undisturbed run. A snapshot that is damaged, belongs to a different text or is
# not a snapshot is reported and ignored.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
src=tests/golden/models/qwen35moe
head -c 14000 tests/golden/tiny-qwen35moe/self_calib.txt > "$t/text"
"$HONE" convert $src -o "$t/in.gguf" -q > /dev/null
im() { # outputs' name, options...
    o=$1
    shift
    "$HONE" imatrix "$t/in.gguf" "$t/text" --ctx 64 -o "$t/$o.gguf" --gram "$t/$o.gram" --moments "$t/$o.mom" "$@" > "$t/o" 2> "$t/e"
}
t0=$(date +%s%N)
im whole --threads 2 || { cat "$t/e"; exit 1; }
ms=$((($(date +%s%N) - t0) / 1000000))
same() { for x in gguf gram mom; do cmp "$t/whole.$x" "$t/cut.$x" || say "$1: other bytes in $x"; done; rm -f "$t"/cut.*; }
went_on=0
cut() { # signal, share of the run's time in percent, options...
    s=$1 at=$(awk "BEGIN{print $2 * $ms / 100000}")
    shift 2
    rc=0
    o=cut
    timeout -s "$s" "$at" "$HONE" imatrix "$t/in.gguf" "$t/text" --ctx 64 -o "$t/$o.gguf" --gram "$t/$o.gram" --moments "$t/$o.mom" "$@" \
        > "$t/o" 2> "$t/e" || rc=$?
    case $rc in 0 | 124 | 137) ;; *) say "SIG$s: exit $rc: $(cat "$t/e")" ;; esac
    # The signal may arrive between the last rename and the end; then the file under the final name is complete.
    [ $rc = 0 ] || [ ! -e "$t/cut.gguf" ] || { rc=0; cmp "$t/whole.gguf" "$t/cut.gguf" || say "SIG$s: something unfinished stands under the final name"; }
    ! grep -q 'resuming after' "$t/e" || went_on=$((went_on + 1))
    [ $rc != 0 ] || rm -f "$t/cut.gguf" "$t/cut.gram" "$t/cut.mom" # it finished: a faster machine
}
for share in 40 20 10 5; do
    cut INT $share --threads 1
    [ ! -e "$t/cut.gguf.part" ] || break
done
[ -e "$t/cut.gguf.part" ] || say "nothing is kept after INT: $(cat "$t/e")"
cp "$t/cut.gguf.part" "$t/snapshot"
cut TERM 30 --threads 2
cut KILL 10 --threads 1
rm -f "$t"/cut.g* "$t"/cut.mom
cp "$t/snapshot" "$t/cut.gguf.part"
im cut --threads 2 --json || { cat "$t/e"; exit 1; }
grep -q 'resuming after [1-9]' "$t/e" && grep -q '"n_chunks_before": [1-9]' "$t/o" || say "the last run began again: $(cat "$t/e" "$t/o")"
[ ! -e "$t/cut.gguf.part" ] || say "the snapshot is left behind"
same "resuming"

odd() { # what is done to the snapshot, words, options
    cp "$t/snapshot" "$t/cut.gguf.part"
    eval "$1"
    w=$2
    shift 2
    im cut --threads 2 "$@" || { cat "$t/e"; exit 1; }
    grep -q "$w" "$t/e" || say "$w: not said: $(cat "$t/e")"
}
part=$t/cut.gguf.part
odd 'printf x | dd of="$part" bs=1 seek=3000 conv=notrunc 2> "$t/dd"' 'is damaged: starting afresh'
same damaged
odd 'truncate -s -1 "$part"' 'is damaged: starting afresh'
same cut
odd 'echo "my notes" > "$part"' 'not a hone checkpoint: left'
[ "$(cat "$part")" = "my notes" ] || say "a file of somebody else was replaced"
rm "$part"
same foreign
odd true 'starting afresh' --ctx 96
odd 'touch -d 2001-01-01 "$t/in.gguf"; rm "$t"/cut.g?*f "$t"/cut.gram "$t"/cut.mom' 'starting afresh'
same "another model"

# inside make: finished chunks are not collected again
mk="--plain --recipes Q8_0 --calib $t/text --calib-ctx 64 --ctx 64 --chunks 2 --pp 4 --tg 2 --reps 1 --tools none --eval tests/golden/tiny-qwen35moe/self_eval.txt"
"$HONE" make $src -o "$t/one" $mk > "$t/o" 2> "$t/e" || { cat "$t/e"; exit 1; }
: > "$t/e"
"$HONE" make $src -o "$t/two" $mk > "$t/o" 2> "$t/e" &
pid=$!
i=0
until grep -q 'collecting the importance' "$t/e" || [ $i = 100 ]; do sleep 0.02; i=$((i + 1)); done
sleep "$(awk "BEGIN{print 0.3 * $ms / 1000}")"
kill -INT $pid 2> /dev/null || true
wait $pid || true
"$HONE" make $src -o "$t/two" $mk > "$t/o" 2> "$t/e" || { cat "$t/e"; exit 1; }
grep -q 'resuming after [1-9]' "$t/e" || echo "make was not caught in its importance matrix"
cmp "$t/one/imatrix.gguf" "$t/two/imatrix.gguf" || say "make: another importance matrix"
cmp "$t/one/qwen35moe-Q8_0.gguf" "$t/two/qwen35moe-Q8_0.gguf" || say "make: other bytes"
[ -z "$(find "$t/two" "$t" -maxdepth 3 -name '*.part' | head -1)" ] || say "make: a snapshot is left"
echo "$went_on runs went on"
exit $fail
