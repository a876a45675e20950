#!/bin/sh
# Hostile model folders that are too large for tests/hostile, so this script creates them: deep and huge JSON, headers
# that claim huge sizes, links out of the folder and special files, inconsistent tokenizers, templates of several
# megabytes. Each is either refused with one line that names the file, or converted, within 4 GB of address space.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
src=$PWD/tests/golden/models/qwen3
[ -n "${SANF:-}" ] || ulimit -v 4000000 # sanitizers reserve more

folder() { # a copy of the checkpoint in $d
    d=$t/f
    rm -rf "$d"
    mkdir "$d"
    for part in config.json tokenizer.json tokenizer_config.json generation_config.json model.safetensors; do cp "$src/$part" "$d/"; done
    chmod -R u+w "$d"
}
try() { # expected status, words of the message
    rc=0
    "$HONE" convert "$d" -o "$t/out.gguf" -f -q < /dev/null > "$t/o" 2> "$t/e" || rc=$?
    [ $rc = "$1" ] || say "$what: exit $rc, expected $1: $(head -c 300 "$t/e")"
    [ $rc = 0 ] || { [ "$(wc -l < "$t/e")" = 1 ] && [ "$(wc -c < "$t/e")" -lt 700 ]; } || say "$what: not one short line: $(head -c 300 "$t/e")"
    [ $rc = 0 ] || grep -q -- "$2" "$t/e" || say "$what: the message lacks '$2': $(head -c 300 "$t/e")"
    [ $rc = 0 ] || [ ! -e "$t/out.gguf" ] || say "$what: an output was left"
    rm -f "$t/out.gguf"
}
deep() { awk -v s="$1" 'BEGIN { for (i = 0; i < 100000; i++) printf "%s", s }'; }

for f in config.json tokenizer.json model.safetensors.index.json; do
    what="deep $f"; folder; deep '{"a":' > "$d/$f"; try 3 "$f: line 1, column .*nested deeper than"
    what="deep lists in $f"; folder; deep '[' > "$d/$f"; try 3 "$f: line 1, column .*nested deeper than"
done
what="a deep header"; folder; { printf '\040\241\007\000\000\000\000\000'; deep '{"a":'; } > "$d/model.safetensors"; try 3 'header: line 1, column .*nested deeper than'
what="a header of 2 GB"; folder; printf '\000\000\000\200\000\000\000\000{"a": 1}' > "$d/model.safetensors"; try 3 'claims a header of 2147483648 bytes'
truncate -s 2200000000 "$d/model.safetensors"; what="a header of 2 GB, all there"; try 3 'claims a header of 2147483648 bytes'
what="a header of 80 MB of zeros"; folder; printf '\000\000\000\005\000\000\000\000{' > "$d/model.safetensors"; truncate -s 84000000 "$d/model.safetensors"; try 3 'model.safetensors: safetensors header: '
what="a configuration of 500 MB of zeros"; folder; truncate -s 500000000 "$d/config.json"; try 3 'config.json: line .*NUL byte'
what="a configuration of 600 MB"; folder; truncate -s 600000000 "$d/config.json"; try 3 'config.json is larger than the limit of 536870912 bytes'
what="a configuration and 100 MB of blanks"; folder; head -c 100000000 /dev/zero | tr '\0' ' ' >> "$d/config.json"; try 0

for name in ../../../../../etc/passwd /etc/passwd ../f/model.safetensors ./model.safetensors sub/model.safetensors . .. ''; do
    what="an index that names '$name'"; folder; mkdir "$d/sub"; cp "$src/model.safetensors" "$d/sub/"
    printf '{"weight_map": {"%s": "%s"}}' model.embed_tokens.weight "$name" > "$d/model.safetensors.index.json"
    try 3 'only plain names of safetensors files are allowed'
done
what="an index that names a link out of the folder"; folder; ln -s /etc/passwd "$d/x.safetensors"
printf '{"weight_map": {"model.embed_tokens.weight": "x.safetensors"}}' > "$d/model.safetensors.index.json"; try 3 'x.safetensors: not a safetensors file'
for f in config.json tokenizer.json model.safetensors; do
    what="a link of $f to another file"; folder; rm "$d/$f"; ln -s /etc/passwd "$d/$f"; try 3 "$f: "
    what="a link of $f to itself"; folder; rm "$d/$f"; ln -s $f "$d/$f"; try 4 "cannot open .*$f: "
    what="a folder in place of $f"; folder; rm "$d/$f"; mkdir "$d/$f"; try 2 "$f is a folder"
done
what="a pipe in place of the weights"; folder; rm "$d/model.safetensors"; mkfifo "$d/model.safetensors"; try 2 'is not a regular file'
what="a device in place of the weights"; folder; rm "$d/model.safetensors"; ln -s /dev/zero "$d/model.safetensors"; try 2 'is not a regular file'

tok() { sed "$1" "$src/tokenizer.json" > "$d/tokenizer.json"; }
what="a token with the id of another"; folder; tok '0,/"&": 5/s/"&": 5/"\&": 4/; 0,/"&":5/s/"&":5/"\&":4/'; try 3 'have the same id 4'
what="a token of a negative id"; folder; tok '0,/"&": *5/s/"&": *5/"\&": -5/'; try 3 'has no proper id'
what="a token of an id past the rows"; folder; tok '0,/"&": *5/s/"&": *5/"\&": 1099511627776/'; try 3 'the model has only'
what="a merge of unknown tokens"; folder; tok 's/"merges": *\[/&"zzzz qqqq",/'; try 3 'merge 0 "zzzz qqqq" has a left part that is not a token'
what="300,000 added tokens"; folder
{ printf '{"added_tokens":['; awk 'BEGIN { for (i = 0; i < 300000; i++) printf "%s{\"id\":%d,\"content\":\"<%d>\",\"special\":true}", i ? "," : "", i, i }'; printf '],'; sed 's/^{//; s/"added_tokens"/"old"/' "$src/tokenizer.json"; } > "$d/tokenizer.json"
try 3 'in model.vocab and'

what="a template that is a comment of 5 MB"; folder; { printf '{# '; head -c 5000000 /dev/zero | tr '\0' x; printf ' #}{{ messages }}'; } > "$d/chat_template.jinja"; try 0
what="a template of 20 MB"; folder; head -c 20000000 /dev/zero | tr '\0' x > "$d/chat_template.jinja"; try 0
exit $fail
