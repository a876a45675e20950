#!/bin/sh
# hone diff reports which keys, types, shapes and data changed and exits with 1; it exits with 0 if only the packaging
# differs.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
has() { tr -d '\n' < "$t/o" | tr -s ' ' | grep -qF -- "$1" || say "no '$1' in: $(cat "$t/o")"; }
run 0 convert tests/golden/models/qwen35moe -o "$t/m.gguf"

run 0 diff "$t/m.gguf" "$t/m.gguf" --json
has '"same": true'
has '"n_tensors_same": 96'
run 0 split "$t/m.gguf" --max-size 500K
run 0 diff "$t/m.gguf" "$(ls "$t"/m-00001-of-*)" --json
has '"same": true'

# one byte of data at a known offset: reports the tensor that contains it
cp "$t/m.gguf" "$t/n.gguf"
n=$(wc -c < "$t/n.gguf")
printf 'x' | dd of="$t/n.gguf" bs=1 seek=$((n - 40)) conv=notrunc 2> "$t/e"
run 1 diff "$t/m.gguf" "$t/n.gguf" --tensors --json
has '"n_keys": 0'
has '"n_tensors": 1,'
has '"change": "data", "type_a": "BF16", "type_b": "BF16"'
grep -q '0 keys and 1 tensor differ' "$t/e" || say "message: $(cat "$t/e")"

# a key's value, same length: general.architecture stays, the name's first letter changes
cp "$t/m.gguf" "$t/k.gguf"
at=$(grep -abo 'tokenizer.ggml.pre' "$t/k.gguf" | head -1 | cut -d: -f1)
printf 'Q' | dd of="$t/k.gguf" bs=1 seek=$((at + 18 + 4 + 8)) conv=notrunc 2> "$t/e"
run 1 diff "$t/m.gguf" "$t/k.gguf" --json
has '"key": "tokenizer.ggml.pre", "change": "value"'
has '"n_tensors": 0,'

# types and errors
run 0 quantize "$t/m.gguf" -o "$t/q.gguf" --recipe Q8_0
run 1 diff "$t/m.gguf" "$t/q.gguf" --error --json
has '"key": "general.file_type", "change": "value", "a": "32", "b": "7"'
has '"change": "type", "type_a": "BF16", "type_b": "Q8_0"'
# Q8_0 rounds to 1/254 of a block's largest weight: 0.3 to 0.7 percent for normal weights
tr ',' '\n' < "$t/o" | sed -n 's/.*"rel_rms_error": \([0-9.e-]*\).*/\1/p' > "$t/err"
[ -s "$t/err" ] || say "no errors listed"
awk '{ if (!($1 > 0.003 && $1 < 0.007)) exit 1 }' "$t/err" || say "errors of Q8_0: $(sort -n "$t/err" | sed -n '1p;$p')"
# a weight that is NaN, in either file
cp "$t/m.gguf" "$t/nan.gguf"
printf '\300\177' | dd of="$t/nan.gguf" bs=1 seek=$((n - 40)) conv=notrunc 2> "$t/e"
for files in "$t/m.gguf $t/nan.gguf" "$t/nan.gguf $t/m.gguf"; do
    run 1 diff $files --error
    grep -q 'data .* nan$' "$t/o" || say "error of NaN: $(cat "$t/o")"
    run 1 diff $files --error --json
    has '"rel_rms_error": null'
done

# a different model: removed and added tensors, shapes
run 0 convert tests/golden/models/qwen3 -o "$t/d.gguf"
run 1 diff "$t/m.gguf" "$t/d.gguf" --json
has '"change": "removed"'
has '"change": "added"'
has '"key": "general.architecture", "change": "value", "a": "\"qwen35moe\"", "b": "\"qwen3\""'

# with manifests no data is read, and the result is the same; a manifest of a different file is not trusted
if "$HONE" publish --help > /dev/null 2>&1; then
    mkdir "$t/a" "$t/b"
    cp "$t/m.gguf" "$t/a"; cp "$t/n.gguf" "$t/b/m.gguf"
    run 0 publish "$t/a" --manifest-only
    run 0 publish "$t/b" --manifest-only
    run 1 diff "$t/a/m.gguf" "$t/b/m.gguf" --json
    has '"compared": "manifests"'
    has '"data_bytes_read": 0,'
    has '"n_tensors": 1,'
    cp "$t/m.gguf" "$t/b/m.gguf"
    run 0 publish "$t/b" --manifest-only
    cp "$t/n.gguf" "$t/b/m.gguf"
    run 0 diff "$t/a/m.gguf" "$t/b/m.gguf"
    run 1 diff "$t/a/m.gguf" "$t/b/m.gguf" --error --json # reads the data even so
    has '"compared": "reading"'
    cp "$t/q.gguf" "$t/b/m.gguf"
    run 1 diff "$t/a/m.gguf" "$t/b/m.gguf" --json
    has '"compared": "reading"'
    echo '{' > "$t/a/manifest.json"
    run 0 diff "$t/a/m.gguf" "$t/m.gguf"
fi
head -c 1000 "$t/m.gguf" > "$t/cut.gguf"
run 3 diff "$t/m.gguf" "$t/cut.gguf"
run 2 diff "$t/m.gguf" "$t/absent.gguf"
run 2 diff "$t/m.gguf"
exit $fail
