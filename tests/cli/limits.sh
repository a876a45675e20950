#!/bin/sh
# docs/limits.md matches the program's output, --untrusted lowers a limit, --max-memory is obeyed, and a refused job
# leaves no files.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
"$HONE" doctor --limits --md | grep '^|' >"$t/now"
grep '^|' docs/limits.md | diff "$t/now" - || { echo "docs/limits.md is not 'hone doctor --limits --md'"; exit 1; }

# JSON 40 levels deep: a wrong list of strings by default, too deep with --untrusted
awk 'BEGIN { for (i = 0; i < 40; i++) printf "["; for (i = 0; i < 40; i++) printf "]" }' >"$t/deep.json"
"$HONE" convert tests/golden/models/qwen3 -o "$t/m.gguf" -q >/dev/null
"$HONE" tokenize "$t/m.gguf" --batch "$t/deep.json" 2>"$t/e" && exit 1
grep -q 'list of strings' "$t/e" || { cat "$t/e"; exit 1; }
"$HONE" tokenize "$t/m.gguf" --batch "$t/deep.json" --untrusted 2>"$t/e" && exit 1
grep -qE 'deep|nested' "$t/e" || { cat "$t/e"; exit 1; }

# long schemas and grammars compile with a small stack; costly ones are refused, after a number of steps and not a time
run() { # option, file, options
    (ulimit -s 1024; "$HONE" run "$t/m.gguf" -p hi "$1" "$2" -n 2 --threads 1 ${3:-}) >/dev/null 2>"$t/e"
}
takes() { run "$@" || { echo "$2: exit $?"; cat "$t/e"; exit 1; }; }
refused() { # words, option, file, options
    words=$1 rc=0; shift
    run "$@" || rc=$?
    [ $rc = 3 ] && grep -q "$words" "$t/e" || { echo "$2: exit $rc"; cat "$t/e"; exit 1; }
}
awk 'BEGIN { printf "{\"enum\": [\""; for (i = 0; i < 300000; i++) printf "x"; print "\"]}" }' >"$t/enum.json"
awk 'BEGIN { printf "{\"type\": \"object\", \"properties\": {\""; for (i = 0; i < 100000; i++) printf "a"; print "\": {}}}" }' >"$t/key.json"
awk 'BEGIN { printf "root ::="; for (i = 0; i < 150000; i++) printf " [ab]"; print "" }' >"$t/long.gbnf"
awk 'BEGIN { printf "{\"$defs\": {\"x\": {}"; for (i = 0; i < 9000; i++) printf ", \"a%d\": {\"$anchor\": \"n%d\", \"type\": \"null\"}", i, i
    printf "}, \"anyOf\": [true"; for (i = 0; i < 9000; i++) printf ", {\"$ref\": \"#n%d\"}", i; print "]}" }' >"$t/refs.json"
awk 'BEGIN { printf "{\"type\": \"object\", \"required\": [\"z\""; for (i = 0; i < 2500; i++) printf ", \"k%d\"", i
    printf "], \"properties\": {\"z\": false"; for (i = 0; i < 2500; i++) printf ", \"k%d\": {\"pattern\": \"^a{1,200}$\", \"minLength\": 2}", i; print "}}" }' >"$t/none.json"
takes --schema "$t/enum.json"
takes --schema "$t/key.json"
takes --grammar "$t/long.gbnf"
refused 'it takes more than 100000000 steps to compile' --schema "$t/refs.json"
refused 'it takes more than 20000000 steps to compile' --schema "$t/refs.json" --untrusted
refused 'no text can satisfy' --schema "$t/none.json"

text=tests/golden/tiny-qwen35moe/self_eval.txt
imatrix() { "$HONE" imatrix "$t/m.gguf" $text -o "$t/i.gguf" --chunks 1 -q --threads 2 "$@" >/dev/null 2>"$t/e"; }
imatrix --ctx 64 --max-memory 1GiB
rm "$t/i.gguf"
rc=0
imatrix --ctx 64 --max-memory 64KiB || rc=$?
[ $rc = 4 ] && [ "$(grep -c '^hone: error: not enough memory for .* --max-memory leaves' "$t/e")" = 1 ] &&
    [ ! -e "$t/i.gguf" ] || { echo "--max-memory 64KiB: exit $rc"; cat "$t/e"; exit 1; }
