#!/bin/sh
# hone make and hone publish lose nothing of a person's: the folder of the results holds only what is published, job
# state lies beside it.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
cp -r tests/golden/models/qwen3 "$t/Tiny"
head -c 3000 tests/golden/tiny-qwen35moe/self_calib.txt > "$t/calib.txt"
head -c 2500 tests/golden/tiny-qwen35moe/self_eval.txt > "$t/eval.txt"
make() { # expected exit, folder, more
    want=$1 folder=$2
    shift 2
    run "$want" make "$t/Tiny" -o "$folder" --calib "$t/calib.txt" --eval "$t/eval.txt" --recipes Q8_0 --ctx 64 --chunks 2 \
        --calib-ctx 64 --pp 4 --tg 2 --reps 1 --tools none "$@"
}
private() { # folder: nothing of the job is in it, and all of it beside it
    [ ! -e "$1/.hone" ] || say "$1/.hone is there"
    [ -z "$(find "$1" -name '*BF16*')" ] || say "the base lies in $1"
    [ -e "$1.work/convert.json" ] && [ -e "$1.work/Tiny-BF16.gguf" ] || say "no records or base in $1.work: $(ls "$1.work")"
}

# ---- where things lie ----
make 0 "$t/out//"
private "$t/out"
base=$(stat -c '%i %Y' "$t/out.work/Tiny-BF16.gguf") file=$(stat -c '%i %Y' "$t/out/Tiny-Q8_0.gguf")
# a folder of an earlier version is taken over, nothing is made again
mv "$t/out.work" "$t/out/.hone"
mv "$t/out/.hone/Tiny-BF16.gguf" "$t/out/"
sed -i 's/"work:/"/' "$t/out/.hone/convert.json"
make 0 "$t/out"
private "$t/out"
[ "$base" = "$(stat -c '%i %Y' "$t/out.work/Tiny-BF16.gguf")" ] || say "the base was made again"
[ "$file" = "$(stat -c '%i %Y' "$t/out/Tiny-Q8_0.gguf")" ] || say "the quant was made again"
# one that is no longer as recorded stays where it is
mkdir "$t/old" && mv "$t/out.work" "$t/old/.hone" && mv "$t/out/Tiny-Q8_0.gguf" "$t/old/"
sed -i 's/"work:/"/' "$t/old/.hone/convert.json"
echo "mine" > "$t/old/Tiny-BF16.gguf" && mv "$t/old/.hone/Tiny-BF16.gguf" "$t/base.gguf"
make 3 "$t/old"
[ "$(cat "$t/old/Tiny-BF16.gguf")" = mine ] || say "a file of another was moved"
rm -r "$t/old" "$t/old.work"
# names that a person may use stay; the current folder has its state beside it too
mkdir -p "$t/here/x" "$t/foreign.work"
echo 1 > "$t/here/x/my.tmp-notes" && echo 1 > "$t/here/x/llama.gguf.part" && echo 1 > "$t/foreign.work/mine"
# shellcheck disable=SC2030,SC2031
(cd "$t/here/x" && case $HONE in /*) ;; *) HONE=$OLDPWD/$HONE ;; esac; make 0 .; exit $fail) || fail=1
private "$t/here/x"
[ -e "$t/here/x/my.tmp-notes" ] && [ -e "$t/here/x/llama.gguf.part" ] || say "a person's file was removed"
make 2 "$t/foreign"
grep -q "foreign.work" "$t/e" || say "foreign.work: $(cat "$t/e")"
[ ! -e "$t/foreign" ] || say "a refused job left a folder"
exit $fail
