#!/bin/sh
# hone quantize --resume after kills, interrupts and full disks at random system calls (SEED), with the journal or the
# partial file damaged, and with different options or inputs. The final bytes are always those of an undisturbed run,
# and no file has the final name before that. hone make --resume also resumes within a file.
set -eu
[ -n "${HONE_FAULTY:-}" ] || { echo "SKIP: HONE_FAULTY is not set (make check sets it)"; exit 77; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
fail() { echo "FAIL: $*"; [ ! -e "$t/err" ] || cat "$t/err"; exit 1; }
"$HONE" convert tests/golden/models/qwen35moe -o "$t/in.gguf" -q >/dev/null
q() { # program, output, options...
    p=$1 o=$2
    shift 2
    "$p" quantize "$t/in.gguf" -o "$o" --resume --threads 2 --json "$@" >"$t/json" 2>"$t/err"
}
resumed() { sed -n 's/.*"n_resumed": \([0-9]*\).*/\1/p' "$t/json" | grep . || echo 0; }
lines() { grep -c . "$1" || true; }
seed=${SEED:-1}
random() { # below $1
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    r=$((seed / 65536 % $1))
}
q "$HONE" "$t/ref.gguf" --recipe Q4_K_M || fail "undisturbed"
rm -f "$t/counts"
HONE_FAULT_LOG="$t/counts" q "$HONE_FAULTY" "$t/x.gguf" --recipe Q4_K_M || fail "undisturbed, with counting"
n_write=$(awk '$1 == "write" {print $2}' "$t/counts")
[ "$n_write" -gt 150 ] || fail "only $n_write writes" # 96 tensors, each with its line
rm "$t/x.gguf"

# one fault after another, the same command each time, until it is done
job=0 gone_on=0
for effect in kill int ENOSPC+ kill EIO term kill "ENOSPC+" kill; do
    job=$((job + 1))
    [ -e "$t/x.gguf" ] && { cmp "$t/ref.gguf" "$t/x.gguf"; rm "$t/x.gguf"; }
    random "$n_write"
    n=$((r + 1)) rc=0
    before=0
    [ ! -e "$t/x.gguf.part.log" ] || before=$(($(lines "$t/x.gguf.part.log") - 1))
    HONE_FAULT="write $n $effect" q "$HONE_FAULTY" "$t/x.gguf" --recipe Q4_K_M || rc=$?
    what="$effect at write $n after $before tensors"
    case $effect:$rc in kill:137 | int:130 | term:130 | E*:4 | *:0) ;; *) fail "$what: exit $rc" ;; esac
    [ $rc = 0 ] || [ ! -e "$t/x.gguf" ] || fail "$what: something stands under the final name"
    [ $rc = 137 ] || [ $rc = 0 ] || [ "$(grep -c '^hone: error: ' "$t/err")" = 1 ] || fail "$what: not one error"
    case $effect:$rc in ENOSPC+:4) grep -q 'space' "$t/err" || fail "$what: the error does not say so" ;; esac
    if [ -e "$t/x.gguf.part.log" ]; then
        [ "$(lines "$t/x.gguf.part.log")" -gt "$before" ] || fail "$what: lost what was done before"
    fi
    [ "$before" = 0 ] || gone_on=$((gone_on + 1))
    if [ $rc = 0 ]; then
        [ "$(resumed)" = "$before" ] || fail "$what: went on after $(resumed) tensors"
        [ -z "$(ls "$t" | grep part)" ] || fail "$what: the part is left behind"
    fi
done
q "$HONE" "$t/x.gguf" --recipe Q4_K_M -f || fail "the last run"
cmp "$t/ref.gguf" "$t/x.gguf" || fail "the bytes differ"
[ $gone_on -ge 3 ] || fail "only $gone_on of $job runs went on"

# a partial file for experiments: killed when about half was done
rm "$t/x.gguf"
HONE_FAULT="write $((n_write / 2)) kill" q "$HONE_FAULTY" "$t/x.gguf" --recipe Q4_K_M || true
mkdir "$t/half"
mv "$t"/x.gguf.part* "$t/half"
n_lines=$(lines "$t/half/x.gguf.part.log")
[ "$n_lines" -gt 40 ] || fail "only $n_lines lines"
again() { # what happens to it, tensors that are kept (a pattern), words of the message, options
    what=$1 want=$2 words=$3
    shift 3
    cp "$t/half"/* "$t"
    eval "$what"
    q "$HONE" "$t/x.gguf" --recipe Q4_K_M "$@" || fail "$what $*"
    case $(resumed) in $want) ;; *) fail "$what $*: $(resumed) tensors taken over, not $want" ;; esac
    grep -q "$words" "$t/err" || fail "$what $*: no message '$words'"
    [ -z "$(ls "$t" | grep part)" ] || fail "$what $*: a part is left: $(ls "$t")"
    [ $# -gt 0 ] || cmp "$t/ref.gguf" "$t/x.gguf" || fail "$what: the bytes differ"
    rm "$t"/x*.gguf
}
log="$t/x.gguf.part.log" part="$t/x.gguf.part"
all=$((n_lines - 1))
again true $all 'resuming'
again 'printf 9 >>"$log"' $all 'resuming'                # a torn line
again 'sed -i "10s/^8 ./8 _/" "$log"' 8 'resuming'       # a damaged one
again 'sed -i 10d "$log"' 8 'resuming'                   # one missing
again 'sed -i "1s/1/2/" "$log"' 0 'starting afresh'      # the first
again 'rm "$log"' 0 '' -f                                # a part without a log
echo precious >"$part"
cp "$part" "$t/precious"
rc=0
q "$HONE" "$t/x.gguf" --recipe Q4_K_M || rc=$?
[ $rc = 2 ] && grep -q 'x.gguf.part exists' "$t/err" && cmp "$t/precious" "$part" || fail "a part of another program: exit $rc"
[ ! -e "$log" ] || fail "a log of another program's part"
mv "$part" "$log"
rc=0
q "$HONE" "$t/x.gguf" --recipe Q4_K_M || rc=$?
[ $rc = 2 ] && grep -q 'x.gguf.part.log was not written by hone' "$t/err" && cmp "$t/precious" "$log" || fail "a log of another program: exit $rc"
mv "$log" "$part"
rm "$part"
again 'head -c 3000 /dev/zero >"$log"' 0 'starting afresh'
again 'rm "$part"' 0 'only 0 of'
again 'truncate -s -3000 "$part"' '[1-9]*' 'are as recorded'
again 'printf x | dd of="$part" bs=1 seek=40000 conv=notrunc 2>"$t/dd"' '[0-9]*' 'are as recorded'
again 'printf "a tail" >>"$part"' $all 'resuming'
again true 0 'starting afresh' --search best             # other options
again true 0 'starting afresh' --tensor token_embd=Q8_0
again true 0 'starting afresh' --split-max 1M            # whose files have other names
cp "$t/half"/* "$t"
rc=0
flock "$log" "$HONE" quantize "$t/in.gguf" -o "$t/x.gguf" --recipe Q4_K_M --resume >"$t/json" 2>"$t/err" || rc=$?
[ $rc = 4 ] && grep -q 'another hone' "$t/err" && cmp "$log" "$t/half/x.gguf.part.log" || fail "two at a time: exit $rc"
rm "$part"
mkdir "$part"
rc=0
q "$HONE" "$t/x.gguf" --recipe Q4_K_M || rc=$?
rmdir "$part"
[ $rc = 4 ] || fail "a folder in the way: exit $rc"
again 'touch -d 2001-01-01 "$t/in.gguf"' 0 'starting afresh'

# several outputs: both resume, or the one that is still requested; a split one
rc=0
HONE_FAULT="write $n_write kill" q "$HONE_FAULTY" "$t/y-{}.gguf" --recipe Q4_K_M,Q8_0 || rc=$?
[ $rc = 137 ] && [ "$(lines "$t/y-Q8_0.gguf.part.log")" -gt 40 ] || fail "two recipes: exit $rc"
q "$HONE" "$t/y-Q8_0.gguf" --recipe Q8_0 || fail "one of two"
[ "$(resumed)" -gt 40 ] || fail "one of two: $(resumed) tensors taken over"
q "$HONE" "$t/y-{}.gguf" --recipe Q4_K_M,Q8_0 -f || fail "two, one of them begun"
cmp "$t/ref.gguf" "$t/y-Q4_K_M.gguf" || fail "two recipes: other bytes"
q "$HONE" "$t/z.gguf" --recipe Q4_K_M --split-max 300K || fail "split"
mkdir "$t/split"
mv "$t"/z-* "$t/split"
rc=0
HONE_FAULT="write $n_write int" q "$HONE_FAULTY" "$t/z.gguf" --recipe Q4_K_M --split-max 300K || rc=$?
[ $rc = 130 ] && ls "$t"/z-*.gguf.part >"$t/ls" || fail "split: exit $rc"
q "$HONE" "$t/z.gguf" --recipe Q4_K_M --split-max 300K || fail "split, again"
[ "$(resumed)" -gt 40 ] || fail "split: $(resumed) tensors taken over"
for f in "$t/split"/*; do cmp "$f" "$t/${f##*/}" || fail "split: other bytes"; done

# nothing is kept of a faulty input, nor of a small output without --resume
rc=0
HONE_FAULT="write 90 touch" HONE_FAULT_FILE="$t/in.gguf" q "$HONE_FAULTY" "$t/x.gguf" --recipe Q4_K_M || rc=$?
[ $rc = 3 ] && ! ls "$t"/x.gguf* >"$t/ls" 2>&1 || fail "changed input: exit $rc, $(cat "$t/ls")"
rc=0
HONE_FAULT="any 2000 int" "$HONE_FAULTY" quantize "$t/in.gguf" -o "$t/x.gguf" --recipe Q4_K_M >"$t/json" 2>"$t/err" || rc=$?
! ls "$t"/x.gguf.part* >"$t/ls" 2>&1 || fail "small output: a part is left"

# hone make resumes inside the file that was being written
make() { # program, recipes, -f
    "$1" make tests/golden/models/qwen35moe -o "$t/made" --resume --threads 2 --plain --recipes "$2" --ctx 64 --chunks 1 --calib-ctx 64 \
        --calib-chunks 1 --pp 4 --tg 2 --reps 1 --tools none --calib "$t/text" --eval "$t/text" ${3-} >"$t/out" 2>"$t/err"
}
head -c 3000 tests/golden/tiny-qwen35moe/self_calib.txt >"$t/text"
make "$HONE" Q8_0 || fail "make"
rc=0
HONE_FAULT="write 90 kill" make "$HONE_FAULTY" Q8_0,Q4_K_M || rc=$?
[ $rc = 137 ] && [ "$(lines "$t/made"/*Q4_K_M.gguf.part.log)" -gt 20 ] || fail "make: exit $rc: $(ls "$t/made")"
make "$HONE" Q8_0,Q4_K_M || fail "make, again"
grep -q 'Q4_K_M.gguf.part: resuming' "$t/err" || fail "make began the file again"
"$HONE" quantize "$t/made.work"/*BF16.gguf -o "$t/want.gguf" --imatrix "$t/made/imatrix.gguf" --recipe Q4_K_M -q >"$t/json"
cmp "$t/want.gguf" "$t/made"/*Q4_K_M.gguf || fail "make: other bytes"
[ -z "$(find "$t/made" "$t/made.work" -name '*.part*')" ] || fail "make: a part is left"
# a part and a log of another program: refused, and kept with -f
for end in part part.log; do
    cp "$t/precious" "$t/made/qwen35moe-Q8_0.gguf.$end"
    rc=0
    make "$HONE" Q8_0,Q4_K_M || rc=$?
    [ $rc = 2 ] && grep -q "Q8_0.gguf.$end is in the way" "$t/err" && cmp "$t/precious" "$t/made/qwen35moe-Q8_0.gguf.$end" || fail "make: another program's $end: exit $rc"
    make "$HONE" Q8_0,Q4_K_M -f || fail "make -f: another program's $end"
    cmp "$t/precious" "$t/made/qwen35moe-Q8_0.gguf.$end.orig" || fail "make -f: another program's $end is gone: $(ls "$t/made")"
done
echo "$gone_on of $job faults met a part; all bytes equal"
