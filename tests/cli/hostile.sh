#!/bin/sh
# Every malformed input of tests/hostile/ (written by tests/oracle/hostile.py): the expected exit status, exactly one
# error line that names the input and the problem, no output, no sanitizer report. tests/hostile/CASES has a line per
# input: name, how it is used, exit status, and a grep -E pattern that the message must match.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
model=tests/golden/models/qwen3
base="$t/base.gguf" text=tests/golden/tiny-qwen35moe/self_eval.txt
"$HONE" convert $model -o "$base" -q >/dev/null
echo '[{"role": "user", "content": "hi"}]' >"$t/chat.json"

run() { # how, input; the command of each use
    case $1 in
    inspect) "$HONE" inspect "$2" ;;
    verify) "$HONE" verify --deep "$2" ;;
    load) "$HONE" eval ppl "$2" $text --ctx 16 --chunks 1 ;;
    tokens) echo abc | "$HONE" tokenize "$2" ;;
    convert) "$HONE" convert "$2" -o "$t/out.gguf" ;;
    imatrix) "$HONE" quantize "$base" -o "$t/out.gguf" --recipe Q4_K_M --imatrix "$2" ;;
    gram) "$HONE" quantize "$base" -o "$t/out.gguf" --recipe Q4_K_M --gram "$2" ;;
    plan) "$HONE" quantize "$base" -o "$t/out.gguf" --recipe "$2" ;;
    sens) "$HONE" quantize "$base" -o "$t/out.gguf" --bpw 5 --sensitivity "$2" ;;
    kld) "$HONE" eval kld "$base" $text --base-file "$2" ;;
    show | lint | fix) "$HONE" template "$1" "$2" ;;
    differ) "$HONE" template diff "$base" "$2" ;;
    template) "$HONE" template render "$2" --chat "$t/chat.json" ;;
    costly) "$HONE" template render "$2" --chat "$t/chat.json" --untrusted ;; # the lower limit: seconds less
    calib) "$HONE" imatrix "$base" "$2" -o "$t/out.gguf" --ctx 16 ;;
    ids) "$HONE" eval logits "$base" --ids "$2" -o "$t/out.gguf" ;;
    batch) "$HONE" tokenize "$base" --batch "$2" ;;
    *) echo "no such use: $1" >&2 ;;
    esac
}
n=0 bad=0
: >"$t/seen"
while IFS='|' read -r name how want words; do
    case $name in '' | '#'*) continue ;; esac
    n=$((n + 1))
    echo "$name" >>"$t/seen"
    input=tests/hostile/$name shown=$name
    case $name in *.d) # a valid folder except for these files
        input="$t/$name"
        mkdir "$input"
        for f in $model/*; do ln -s "$PWD/$f" "$input/"; done
        # a different set of weights replaces all of them
        [ ! -e "tests/hostile/$name/model.safetensors" ] || rm -f "$input"/model*.safetensors*
        for f in "tests/hostile/$name"/*; do cp --remove-destination "$f" "$input/"; done
        shown=$name ;;
    esac
    rc=0
    run "$how" "$input" >"$t/stdout" 2>"$t/err" </dev/null || rc=$?
    why=
    [ $rc = "$want" ] || why="exit $rc, not $want"
    [ "$(grep -c '^hone: error: ' "$t/err")" = 1 ] || why="$why; not one error line"
    grep '^hone: error: ' "$t/err" | sed "s|[^ ]*$shown||g" | grep -qE -- "$words" || why="$why; the error lacks '$words'"
    grep '^hone: error: ' "$t/err" | grep -qF -- "$shown" || why="$why; the error does not name the input"
    [ ! -e "$t/out.gguf" ] || why="$why; an output was left"
    rm -f "$t/out.gguf"
    ! grep -qE 'Sanitizer|runtime error' "$t/err" || why="$why; a sanitizer speaks"
    [ -z "$why" ] || { bad=$((bad + 1)); echo "$name ($how): ${why#; }"; sed 's/^/    /' "$t/err" | head -20; }
done <tests/hostile/CASES
ls tests/hostile | grep -v '^CASES$' | sort >"$t/all"
sort -u "$t/seen" | diff "$t/all" - || { echo "CASES and the folder differ"; bad=$((bad + 1)); }
echo "$n malformed inputs, $bad wrong"
[ $bad = 0 ]
