#!/bin/sh
# docs/limits.md is what the program says; --untrusted lowers a limit; --max-memory is kept, and refusing leaves nothing.
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

text=tests/golden/tiny-qwen35moe/self_eval.txt
imatrix() { "$HONE" imatrix "$t/m.gguf" $text -o "$t/i.gguf" --chunks 1 -q --threads 2 "$@" >/dev/null 2>"$t/e"; }
imatrix --ctx 64 --max-memory 1GiB
rm "$t/i.gguf"
rc=0
imatrix --ctx 64 --max-memory 64KiB || rc=$?
[ $rc = 4 ] && [ "$(grep -c '^hone: error: not enough memory for .* --max-memory leaves' "$t/e")" = 1 ] &&
    [ ! -e "$t/i.gguf" ] || { echo "--max-memory 64KiB: exit $rc"; cat "$t/e"; exit 1; }
