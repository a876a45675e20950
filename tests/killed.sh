#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/killed.sh N - kills convert, quantize, split, make, publish, meta and template fix --in-place with SIGKILL at N random moments, in
# turn, each time in a fresh folder, and runs the same command again. After the kill, every file with a final name must have the
# bytes from before the run or those of an undisturbed run; after the second run, the folder must hold exactly the files
# of an undisturbed one. HONE is the binary, SEED the seed, KINDS the commands. (tests/interrupt.sh measures the time lost, for hone make
# only.)
set -eu
n=${1:-40} seed=${SEED:-1} x=
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
src=$PWD/tests/golden/tiny-qwen35moe own=$PWD/template/own
case $HONE in /*) ;; *) HONE=$PWD/$HONE ;; esac
fail() { echo "FAIL: $*"; [ ! -s "$t/err" ] || tail -n 3 "$t/err"; exit 1; }
random() { # of 10000, to $r
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    r=$((seed / 65536 % 10000))
}

kinds=${KINDS:-convert shards quantize split publish fix meta make}
n_kinds=$(echo $kinds | wc -w)
"$HONE" convert "$src" -o "$t/base.gguf" -q > /dev/null
mkdir "$t/small"
for f in tests/golden/models/qwen3/*; do ln -s "$PWD/$f" "$t/small/"; done
head -c 6000 "$src/self_calib.txt" > "$t/calib.txt"
head -c 3000 "$src/self_eval.txt" > "$t/eval.txt"

# the folder in which each command works, and the command; -f only for the second run
inputs() {
    case $1 in
    fix | meta) # room for another template
        cp "$t/base.gguf" m.gguf
        "$HONE" template fix m.gguf --replace qwen3 --in-place > /dev/null 2>&1
        ;;
    publish)
        cp "$t/base.gguf" Tiny-BF16.gguf
        "$HONE" publish . --repo me/Tiny-GGUF --base-model me/Tiny --license mit -q > /dev/null 2>&1
        ;;
    esac
}
work() { # in the background with x=exec, so that the signal reaches the program and not its shell
    case $1 in
    convert) $x "$HONE" convert "$src" -o m.gguf --type q8_0 -q $2 ;;
    shards) $x "$HONE" convert "$src" -o m.gguf --split-max 4M -q $2 ;;
    quantize) $x "$HONE" quantize "$t/base.gguf" -o m.gguf --recipe Q4_K_M --threads 1 -q $2 ;;
    split) $x "$HONE" split "$t/base.gguf" -o m.gguf --max-size 4M -q $2 ;;
    make) $x "$HONE" make "$src" -o out --plain --recipes Q4_0 --search fast --calib "$t/calib.txt" --eval "$t/eval.txt" --calib-ctx 64 --ctx 64 \
        --chunks 4 --pp 8 --tg 2 --reps 1 --tools none --threads 1 -q ;;
    publish) $x "$HONE" publish . --repo you/Tiny-GGUF --base-model you/Tiny --license apache-2.0 -q -f ;;
    fix) $x "$HONE" template fix m.gguf --replace qwen3.5 --in-place ;;
    meta) $x "$HONE" meta m.gguf "tokenizer.chat_template=@$own/qwen3.5.jinja" general.name=Other --unset general.size_label ;;
    esac
}
# the files to compare in a folder: all of them; for make, only models (its numbers contain times)
files() { find . -type f ! -path './out.work/*' ! -path './out/*.json' ! -path './out/*.html' ! -path './out/*.md' ! -path './out/*SUMS' | sort; }

for k in $kinds; do
    mkdir "$t/$k" "$t/$k.before"
    (cd "$t/$k.before" && inputs $k)
    cp -r "$t/$k.before/." "$t/$k"
    began=$(date +%s%N)
    (cd "$t/$k" && work $k '' > /dev/null 2> "$t/err") || fail "$k, undisturbed"
    echo $((($(date +%s%N) - began) / 1000000)) > "$t/$k.ms"
done

i=0 killed=0
while [ $i -lt "$n" ]; do
    k=$(echo $kinds | cut -d' ' -f$((i % n_kinds + 1)))
    i=$((i + 1))
    rm -rf "$t/now"
    cp -r "$t/$k.before" "$t/now"
    random
    at=$(awk "BEGIN{printf \"%.4f\", $r / 10000 * $(cat "$t/$k.ms") / 1000}")
    cd "$t/now"
    x=exec; work $k "" > /dev/null 2> "$t/err" &
    pid=$! x=
    sleep "$at"
    kill -KILL $pid 2> /dev/null || true
    wait $pid 2> /dev/null || killed=$((killed + 1))
    sleep 0.02
    for f in $(cd "$t/$k" && files); do
        [ ! -e "$f" ] || cmp -s "$f" "$t/$k/$f" || cmp -s "$f" "$t/$k.before/$f" || [ $k = fix ] || [ $k = meta ] || fail "$k killed after $at s: half of $f is there"
    done
    case $k in fix | meta) template=1 ;; *) template=0 ;; esac
    [ $template = 0 ] || "$HONE" template show m.gguf > "$t/tmpl" 2> "$t/err" || fail "fix killed after $at s: the file does not open"
    [ $template = 0 ] || cmp -s "$t/tmpl" "$own/qwen3.jinja" || cmp -s "$t/tmpl" "$own/qwen3.5.jinja" || fail "fix killed after $at s: another template"
    [ $k != meta ] || case $("$HONE" meta m.gguf general.name | tail -n 1) in *'"Other"') cmp -s "$t/tmpl" "$own/qwen3.5.jinja" ;;
    *) cmp -s "$t/tmpl" "$own/qwen3.jinja" ;; esac || fail "meta killed after $at s: some keys are old, others new"
    work $k -f > /dev/null 2> "$t/err" || fail "$k killed after $at s: it does not run again"
    files > "$t/list"
    (cd "$t/$k" && files) | diff - "$t/list" || fail "$k killed after $at s: other files"
    left=$(find . -name '*.tmp-*' -o -name '*.part' -o -name '*.journal*')
    [ -z "$left" ] || fail "$k killed after $at s: left behind: $left"
    while read -r f; do cmp "$f" "$t/$k/$f" || fail "$k killed after $at s: other bytes"; done < "$t/list"
    cd "$OLDPWD"
done
[ "$n" -lt 8 ] || [ $killed -gt 0 ] || fail "no run was killed before its end"
echo "$n runs, $killed of them killed: all bytes equal, nothing left behind"
