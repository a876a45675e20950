#!/bin/sh
# A fixed set of faults injected into hone make (`make faults` injects 500 different ones), and each read or stat
# failing in turn in the commands that scan a folder: a partly read folder must never be mistaken for a small one.
set -eu
[ -n "${HONE_FAULTY:-}" ] || { echo "SKIP: HONE_FAULTY is not set (make check sets it)"; exit 77; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
mkdir "$t/dir"
for type in f16 q8_0; do
    "$HONE" convert tests/golden/models/qwen3 -o "$t/dir/m-$type.gguf" --type $type -q >/dev/null
done
for command in "verify" "publish --check"; do
    want=0
    "$HONE" $command "$t/dir" >"$t/want" 2>/dev/null || want=$?
    HONE_FAULT_LOG="$t/counts" "$HONE_FAULTY" $command "$t/dir" >/dev/null 2>&1 || true
    for kind in read stat open; do
        calls=$(awk -v k=$kind '$1 == k {print $2}' "$t/counts")
        [ $kind = open ] || [ "$calls" -gt 1 ] || { echo "$command: only $calls calls of $kind"; exit 1; }
        for n in $(seq "$calls"); do
            rc=0
            HONE_FAULT="$kind $n EIO" "$HONE_FAULTY" $command "$t/dir" >"$t/out" 2>"$t/err" || rc=$?
            # the same findings, an error, or a finding that names the unreadable file
            if [ $rc = $want ] && cmp -s "$t/out" "$t/want"; then continue; fi
            # (one that the undisturbed run does not have)
            [ $rc != 0 ] && cat "$t/out" "$t/err" | grep -vxFf "$t/want" |
                grep -q 'Input/output error\|cannot be examined\|cannot open' ||
                { echo "$command, $kind $n fails: exit $rc"; cat "$t/err" "$t/out"; exit 1; }
        done
    done
    rm "$t/counts"
done
# a model file whose state is unknown counts neither as missing nor as present
plan() { "$HONE_FAULTY" convert tests/golden/models/qwen3 -o "$t/x.gguf" --dry-run --csv -q 2>"$t/err" >"$t/all" && grep -v seconds "$t/all" >"$t/out"; }
HONE_FAULT_LOG="$t/counts" plan
cp "$t/out" "$t/want"
for n in $(seq "$(awk '$1 == "stat" {print $2}' "$t/counts")"); do
    rc=0
    HONE_FAULT="stat $n EIO" plan || rc=$?
    { [ $rc = 0 ] && cmp -s "$t/out" "$t/want"; } || { [ $rc = 4 ] && grep -q 'Input/output error' "$t/err"; } ||
        { echo "convert, stat $n fails: exit $rc: $(cat "$t/err")"; exit 1; }
done
# an output whose state is unknown must not be taken for something other than a file
quantize() { "$HONE_FAULTY" quantize "$t/dir/m-f16.gguf" -o "$t/q.gguf" --recipe Q4_K_M -q >/dev/null 2>"$t/err"; }
HONE_FAULT_LOG="$t/counts2" quantize
cp "$t/q.gguf" "$t/want"
for n in $(seq "$(awk '$1 == "stat" {print $2}' "$t/counts2")"); do
    rm -f "$t"/q.gguf*
    rc=0
    HONE_FAULT="stat $n EIO" quantize || rc=$?
    { [ $rc = 0 ] && cmp -s "$t/q.gguf" "$t/want"; } || { [ $rc = 4 ] && grep -q 'Input/output error' "$t/err"; } ||
        { echo "quantize, stat $n fails: exit $rc: $(cat "$t/err")"; exit 1; }
    ! ls "$t"/q.gguf.tmp-* 2>/dev/null || { echo "quantize, stat $n fails: a temporary is left"; exit 1; }
done
if grep -q __asan_init "$HONE_FAULTY"; then
    echo "SKIP: the faults over hone make are too slow under a sanitizer; make faults does them"
    exit 77
fi
SEED=1 sh tests/faults.sh 24
