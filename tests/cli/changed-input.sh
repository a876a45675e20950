#!/bin/sh
# An input that is truncated or changed while it is being read: one error that names it, exit status 3, no output file.
# tests/fault.c makes the change at a system call halfway through the command, so it never comes too late.
set -eu
[ -n "${HONE_FAULTY:-}" ] || { echo "SKIP: HONE_FAULTY is not set (make check sets it)"; exit 77; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
export XDG_CACHE_HOME="$t/cache" # reading the user's cache adds calls to the count
src=tests/golden/models/qwen35moe
head -c 3000 tests/golden/tiny-qwen35moe/self_calib.txt >"$t/text"
"$HONE" convert $src -o "$t/base.gguf" -q >"$t/out"

bad=0
try() { # fault, file that changes, words of the message, command...
    fault=$1 file=$2 words=$3
    shift 3
    rm -f "$t"/new.gguf*
    rc=0
    HONE_FAULT="$fault" HONE_FAULT_FILE="$file" "$HONE_FAULTY" "$@" >"$t/out" 2>"$t/err" || rc=$?
    if [ $rc != 3 ] || [ "$(grep -c '^hone: error: ' "$t/err")" != 1 ] || ! grep -q "${file##*/}.*$words" "$t/err" ||
        ls "$t"/new.gguf* >/dev/null 2>&1; then
        echo "$fault: hone $*: exit $rc, outputs: $(ls "$t")"
        cat "$t/err"
        bad=1
    fi
}
cut='was truncated by another program' touch='was changed by another program'
for how in cut touch; do
    eval "words=\$$how"
    cp "$t/base.gguf" "$t/in.gguf"
    try "write 1 $how" "$t/in.gguf" "$words" quantize "$t/in.gguf" -o "$t/new.gguf" --type q8_0 -q
    cp "$t/base.gguf" "$t/in.gguf"
    try "sync 2 $how" "$t/in.gguf" "$words" imatrix "$t/in.gguf" "$t/text" -o "$t/new.gguf" --ctx 64 --chunks 2 -q
    rm -rf "$t/dir"
    cp -r $src "$t/dir"
    shard=$(ls "$t"/dir/*.safetensors | tail -1)
    try "write 1 $how" "$shard" "$words" convert "$t/dir" -o "$t/new.gguf" -q
done
exit $bad
