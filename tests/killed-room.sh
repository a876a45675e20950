#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/killed-room.sh N - kills `hone template fix --in-place` with SIGKILL at N (40) random moments while it makes room for a template in a
# GGUF file of 4 GiB without padding. After each kill the file must open with the old or the new template, and markers
# in its tensor data must be at the right offsets; after the last kill, all 4 GiB are read. Once there is room, the same
# edit must take under a second. Needs 4.1 GB in TMPDIR, on a file system that inserts blocks (ext4, XFS, f2fs), and
# fallocate of util-linux. HONE is the binary, SEED the seed, ROWS the size in KiB * 4.
set -eu
n=${1:-40} seed=${SEED:-1} hone=${HONE:-build/hone}
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
m=$t/m.gguf rows=${ROWS:-1048576}
size=$((rows * 4096)) middle=$((rows * 2048)) last=$((rows * 4096 - 32))
fail() { echo "FAIL: $*"; [ ! -s "$t/err" ] || tail -n 3 "$t/err"; exit 1; }
ms() { echo $(($(date +%s%N) / 1000000)); }
int() { # $1 bytes of the number $2, little-endian
    i=0 v=$2
    while [ $i -lt "$1" ]; do printf "\\$(printf %o $((v % 256)))"; v=$((v / 256)) i=$((i + 1)); done
}
str() { int 8 ${#1}; printf %s "$1"; }
header() { # three texts and one F32 tensor; longer than a block, since blocks are inserted after the first
    printf GGUF; int 4 3; int 8 1; int 8 3
    str general.architecture; int 4 8; str qwen3
    str general.description; int 4 8; str "$(head -c 6000 /dev/zero | tr '\000' x)"
    str tokenizer.chat_template; int 4 8; str "$old"
    str token_embd.weight; int 4 2; int 8 1024; int 8 "$rows"; int 4 0; int 8 0
}
restore() { # removes the room that was made, and writes the old header
    room=$(($(wc -c < "$m") - data - size))
    [ $room = 0 ] || fallocate -c -o 4096 -l $room "$m" 2> "$t/err" || fail "fallocate"
    dd if="$t/header" of="$m" conv=notrunc 2> "$t/err"
}
marks() { # of the tensor data, which end the file
    all=$(wc -c < "$m")
    for at in 0 $middle $last; do
        [ "$(tail -c $((size - at)) "$m" 2> /dev/null | head -c $((8 + ${#at})))" = "mark at $at" ] || fail "$1: the mark at $at is lost"
    done
    [ "$all" -ge $((data + size)) ] || fail "$1: the file is shorter"
}
fix() { "$hone" template fix "$m" --replace "$1" --in-place > /dev/null 2> "$t/err"; }
old='{% for m in messages %}{{ m.content }}{% endfor %}'

header > "$t/header"
data=$((($(wc -c < "$t/header") + 31) / 32 * 32))
head -c $((data - $(wc -c < "$t/header"))) /dev/zero >> "$t/header"
cat "$t/header" > "$m"
head -c "$size" /dev/zero >> "$m" # not sparse: a hole would look like inserted room
for at in 0 $middle $last; do printf 'mark at %d' "$at" | dd of="$m" bs=1 seek=$((data + at)) conv=notrunc 2> "$t/err"; done
sync "$m"
whole=1000000
for i in 1 2 3; do
    [ $i = 1 ] || restore
    began=$(ms)
    fix qwen3 || fail undisturbed
    took=$(($(ms) - began))
    [ $took -gt $whole ] || whole=$took
done
grep -q 'bytes of room' "$t/err" || { echo "SKIP: the file system of $t inserts no blocks"; exit 0; }
marks undisturbed
began=$(ms)
fix qwen3.5 || fail "with room"
fits=$(($(ms) - began))
grep -q 'in place' "$t/err" && [ $fits -lt 1000 ] || fail "with room: $fits ms"

i=0 killed=0 before=0 after=0
while [ $i -lt "$n" ]; do
    i=$((i + 1)) seed=$(((seed * 1103515245 + 12345) % 2147483648))
    restore
    "$hone" template fix "$m" --replace qwen3 --in-place > /dev/null 2>&1 &
    pid=$!
    sleep "$(awk -v s=$((seed / 65536 % 10000)) -v ms=$whole 'BEGIN { printf "%.4f", s / 1e4 * ms / 1e3 }')"
    kill -KILL $pid 2> /dev/null || true
    wait $pid 2> /dev/null || killed=$((killed + 1))
    "$hone" template show "$m" > "$t/now" 2> "$t/err" || fail "kill $i: the file does not open"
    if cmp -s "$t/now" template/own/qwen3.jinja; then after=$((after + 1))
    elif [ "$(cat "$t/now")" = "$old" ]; then before=$((before + 1))
    else fail "kill $i: neither the old nor the new template"; fi
    fix qwen3 || fail "kill $i: it does not run again"
    "$hone" template show "$m" | cmp -s - template/own/qwen3.jinja || fail "kill $i: another template after the second run"
    marks "kill $i"
    [ "$(find "$t" -name 'm.gguf?*' | wc -l)" = 0 ] || fail "kill $i: left behind: $(ls "$t")"
done
[ "$n" -lt 10 ] || [ $killed -gt 0 ] || fail "no run was killed before its end"
marked=$(tail -c $size "$m" | tr -d '\000' | wc -c)
want=$(printf 'mark at %d' 0 "$middle" "$last" | wc -c)
[ "$marked" = "$want" ] || fail "the tensor has $marked bytes that are not zero, of $want"
echo "$n runs, $killed killed before their end; $before with the old template, $after with the new one; nothing lost. Room made in $whole ms, written into room in $fits ms"
