#!/bin/sh
# hone tokenize: text to ids and back, special tokens on and off, batches, with the tokenizer of a folder and of a GGUF
# made from it.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
m=tests/golden/models
fail=0
same() { # name expected actual
    [ "$2" = "$3" ] || { echo "$1: expected $2, got $3"; fail=1; }
}
refused() { # name exit-code text command...
    name=$1 want=$2 text=$3
    shift 3
    rc=0; "$@" > "$t/o" 2> "$t/e" < "$t/in" || rc=$?
    [ $rc = "$want" ] && [ ! -s "$t/o" ] && grep -qF -- "$text" "$t/e" || { echo "$name: exit $rc, $(cat "$t/e")"; fail=1; }
}
check() { # model
    same "$1 control token" '[1012]' "$(printf '<|im_end|>' | "$HONE" tokenize "$1")"
    same "$1 user token" '[1022]' "$(printf '<think>' | "$HONE" tokenize "$1" --no-special)"
    same "$1 empty" '[]' "$(printf '' | "$HONE" tokenize "$1" --bos)"
    printf '<|im_end|>' | "$HONE" tokenize "$1" --no-special > "$t/plain"
    grep -q 1012 "$t/plain" && { echo "$1: --no-special gives the control token"; fail=1; }
    same "$1 spelled out" '<|im_end|>' "$("$HONE" tokenize "$1" --decode --no-special < "$t/plain")"
    same "$1 hidden" '' "$(echo '[1012]' | "$HONE" tokenize "$1" --decode --no-special)"
    same "$1 shown" '<|im_end|></think>' "$(echo '[1012, 1023]' | "$HONE" tokenize "$1" --decode)"
    printf 'a\377\000 na\303\257ve\n' > "$t/bytes"
    "$HONE" tokenize "$1" < "$t/bytes" > "$t/ids"
    "$HONE" tokenize "$1" --decode < "$t/ids" | cmp - "$t/bytes" || { echo "$1: bytes do not come back"; fail=1; }
}
check $m/qwen3
if "$HONE" --help | grep -q '^  convert '; then
    "$HONE" convert $m/qwen3 -o "$t/q.gguf" > /dev/null 2> "$t/e" || { cat "$t/e"; fail=1; }
    check "$t/q.gguf"
fi
# BOS only on request, and only if texts begin with it
same "mistral" '[3]' "$(printf '[INST]' | "$HONE" tokenize $m/mistral)"
same "mistral --bos" '[1, 3]' "$(printf '[INST]' | "$HONE" tokenize $m/mistral --bos)"
# batches: U+0000, surrogate pairs, an empty text
printf '["", "a\\u0000b", "\\ud83d\\ude00", "<|im_end|>"]' > "$t/b.json"
"$HONE" tokenize $m/qwen3 --batch "$t/b.json" > "$t/b.ids"
printf 'a\000b' | "$HONE" tokenize $m/qwen3 > "$t/nul"
same "batch size" 4 "$(wc -l < "$t/b.ids" | tr -d ' ')"
same "batch U+0000" " $(cat "$t/nul")," "$(sed -n 2p "$t/b.ids")"
printf '[[1012], [], [1022]]' > "$t/d.json"
same "batch decode" '["<|im_end|>", "", "<think>"]' "$("$HONE" tokenize $m/qwen3 --decode --batch "$t/d.json" | tr -d '\n')"
# only SentencePiece's file: the folder and the GGUF made from it; the leading space is added and removed
if [ -x "$(command -v od)" ]; then
    cp -r $m/mistral "$t/sp"
    rm -f "$t"/sp/tokenizer* "$t"/sp/generation_config.json
    f=tests/fuzz/corpus/spmodel/bytes
    n=$(head -c 1 $f | od -An -tu1 | tr -d ' ')
    tail -c +$((n + 2)) $f > "$t/sp/tokenizer.model"
    "$HONE" convert "$t/sp" -o "$t/sp.gguf" > /dev/null 2> "$t/e" || { cat "$t/e"; fail=1; }
    printf 'The cat na\303\257ve <s> 42' > "$t/text"
    "$HONE" tokenize "$t/sp" < "$t/text" > "$t/ids"
    same "SentencePiece, GGUF" "$(cat "$t/ids")" "$("$HONE" tokenize "$t/sp.gguf" < "$t/text")"
    same "SentencePiece, decoded" 'The cat' "$("$HONE" tokenize "$t/sp.gguf" 'The cat' | "$HONE" tokenize "$t/sp.gguf" --decode)"
    "$HONE" verify "$t/sp.gguf" > /dev/null || fail=1
fi
# refusals
echo '[1, 4096]' > "$t/in"
refused "id out of range" 3 "entry 1 of the list" "$HONE" tokenize $m/qwen3 --decode
echo '{"a": 1}' > "$t/in"
refused "no list" 3 "not a JSON list" "$HONE" tokenize $m/qwen3 --decode
refused "no list of texts" 3 "not a JSON list of strings" "$HONE" tokenize $m/qwen3 --batch "$t/in"
refused "a text next to --batch" 2 'leave out "word"' "$HONE" tokenize $m/qwen3 word --batch "$t/b.json"
mkdir "$t/empty"
refused "no tokenizer" 3 "no tokenizer.json" "$HONE" tokenize "$t/empty"
refused "unknown pre" 2 "forces the rules of one of qwen2" "$HONE" tokenize $m/qwen3 --pre nonsense
sed 's/"type": *"BPE"/"type": "WordPiece"/' $m/qwen3/tokenizer.json > "$t/empty/tokenizer.json"
refused "WordPiece" 3 "WordPiece" "$HONE" tokenize "$t/empty"
"$HONE" split "$t/q.gguf" -o "$t/s.gguf" --max-size 50K > /dev/null 2> "$t/e" || { cat "$t/e"; fail=1; }
second=$(ls "$t"/s-00002-of-*)
refused "not the first of a set" 3 "only the first file of a split set has the tokenizer: name that one" "$HONE" tokenize "$second"
exit $fail
