#!/bin/sh
# hone inspect recognizes files by content and prints what Python wrote into them; hone verify accepts intact files, and
# exits with 1 and names the problem for truncated, altered and poisoned ones.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
g=tests/golden/containers
json() { "$HONE" inspect "$@" --json > "$t/o" 2> "$t/e" || say "inspect $*: $(cat "$t/e")"; }
has() { grep -qF -- "$1" "$t/o" || say "no '$1' in $2"; }

json $g/py.gguf --tensors
has '"arch": "qwen3"' py.gguf
has '"name": "oracle"' py.gguf
has '"n_params": 165' py.gguf
has '"size_bytes": 1152' py.gguf
has '"n_tensors": 3' py.gguf
has '9223372036854775813' py.gguf
has '32 x 2' py.gguf
json $g/py-imatrix.gguf
has '"kind": "importance matrix"' py-imatrix.gguf
has '"format": "GGUF"' py-imatrix.gguf
json $g/py.dat
has '"format": "dat"' py.dat
json $g/py.kld
has '"n_vocab": 5' py.kld
json $g/py.safetensors
has '"format": "safetensors"' py.safetensors
has '"n_params": 15' py.safetensors
json tests/golden/models/qwen35moe
has '"arch": "Qwen3_5MoeForConditionalGeneration"' qwen35moe
has '"n_files": 2' qwen35moe
has '"n_layers": 4' qwen35moe
has '"computes": true' qwen35moe
mkdir "$t/model"
cp tests/golden/models/qwen3/model.safetensors "$t/model"
# a class that is not known is read by its model_type, as conversion does
for type in qwen3 own; do
    sed "s/Qwen3ForCausalLM/OwnForCausalLM/; s/\"model_type\": \"qwen3\"/\"model_type\": \"$type\"/" tests/golden/models/qwen3/config.json > "$t/model/config.json"
    json "$t/model"
    case $type in qwen3) has '"computes": true' "model_type $type" ;; *) has 'unknown class' "model_type $type" ;; esac
done
for n in 9223372036854775807 -3 0 1.5 1e300 NaN -Infinity '"2"'; do # invalid numbers of layers
    sed "s/\"num_hidden_layers\": [0-9]*/\"num_hidden_layers\": $n/" tests/golden/models/qwen3/config.json > "$t/model/config.json"
    rc=0; "$HONE" inspect "$t/model" > "$t/o" 2> "$t/e" || rc=$?
    [ $rc = 3 ] && [ ! -s "$t/o" ] && grep -q 'num_hidden_layers is not' "$t/e" || say "num_hidden_layers $n: exit $rc"
done
rc=0; "$HONE" inspect $g/kld-logits.bin > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 3 ] && [ ! -s "$t/o" ] || say "unknown file: exit $rc"
rc=0; "$HONE" inspect $g/py.gguf --keys some 2> "$t/e" || rc=$?
[ $rc = 2 ] || say "--keys some: exit $rc"
rc=0; "$HONE" inspect "$t/absent" 2> "$t/e" || rc=$?
[ $rc = 2 ] || say "absent file: exit $rc"

for f in py.gguf py-imatrix.gguf py.dat py.kld py.safetensors; do
    "$HONE" verify --deep $g/$f --json > "$t/o" 2> "$t/e" || say "verify $f: $(cat "$t/e")"
    has '"ok": true' "verify $f"
    n=$(wc -c < $g/$f)
    head -c $((n / 2)) $g/$f > "$t/cut-$f"
    rc=0; "$HONE" verify "$t/cut-$f" --json > "$t/o" 2> "$t/e" || rc=$?
    [ $rc = 1 ] || say "verify of half of $f: exit $rc"
    has '"ok": false' "verify of half of $f"
done
"$HONE" verify --deep tests/golden/models/qwen35moe > "$t/o" 2> "$t/e" || say "verify qwen35moe: $(cat "$t/e")"

# an infinite f16 in norm.weight, 32 + 128 bytes before the end: only --deep finds it
mkdir "$t/d"
cp $g/py.gguf "$t/d/bad.gguf"
n=$(wc -c < "$t/d/bad.gguf")
printf '\000\174' | dd of="$t/d/bad.gguf" bs=1 seek=$((n - 160)) conv=notrunc 2> "$t/e"
"$HONE" verify "$t/d/bad.gguf" > "$t/o" 2> "$t/e" || say "without --deep: $(cat "$t/e")"
rc=0; "$HONE" verify --deep "$t/d" > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 1 ] && grep -q 'NaN or infinity' "$t/e" || say "poisoned tensor: exit $rc, $(cat "$t/e")"

# a scale of MX blocks that is NaN, 255
header='{"s":{"dtype":"F8_E8M0","shape":[1],"data_offsets":[0,1]}}'
printf '%b\000\000\000\000\000\000\000%s\377' "\\0$(printf %o ${#header})" "$header" > "$t/e8.safetensors"
"$HONE" verify "$t/e8.safetensors" > "$t/o" 2> "$t/e" || say "a NaN scale without --deep: $(cat "$t/e")"
rc=0; "$HONE" verify --deep "$t/e8.safetensors" > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 1 ] && grep -q 'NaN or infinity' "$t/e" || say "a NaN scale: exit $rc, $(cat "$t/e")"

# checksums: right, wrong, missing file, a name that leaves the folder
cp $g/py.gguf "$t/d/bad.gguf"
(cd "$t/d" && sha256sum bad.gguf > SHA256SUMS)
"$HONE" verify "$t/d" > "$t/o" 2> "$t/e" || say "checksums: $(cat "$t/e")"
printf 'x' | dd of="$t/d/bad.gguf" bs=1 seek=$((n - 1)) conv=notrunc 2> "$t/e"
rc=0; "$HONE" verify "$t/d" > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 1 ] && grep -q 'differs from its checksum' "$t/e" || say "altered file: exit $rc, $(cat "$t/e")"
sed 's/bad.gguf/gone.gguf/' "$t/d/SHA256SUMS" > "$t/m"
rc=0; "$HONE" verify "$t/d" --manifest "$t/m" > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 1 ] && grep -q 'missing' "$t/e" || say "missing file: exit $rc"
sed 's/bad.gguf/..\/m/' "$t/d/SHA256SUMS" > "$t/m"
rc=0; "$HONE" verify "$t/d" --manifest "$t/m" > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 1 ] && grep -q 'not a line of checksums' "$t/e" || say "name outside: exit $rc"
cp $g/py.gguf "$t/d/bad.gguf"
cp $g/py.gguf "$t/d/a..b.gguf"
(cd "$t/d" && sha256sum ./bad.gguf > ../m && sha256sum a..b.gguf > ../other)
for f in "$t/d/bad.gguf --manifest $t/m" "$t/d/a..b.gguf --manifest $t/other"; do
    "$HONE" verify $f > "$t/o" 2> "$t/e" || say "verify $f: $(cat "$t/e")"
done
: > "$t/m"
for f in "$t/d --manifest $t/m" "$t/d/bad.gguf --manifest $t/m" "$t/d/bad.gguf --manifest $t/other"; do # a list without the file
    rc=0; "$HONE" verify $f > "$t/o" 2> "$t/e" || rc=$?
    [ $rc = 1 ] && grep -q 'has no checksum' "$t/e" || say "verify $f: exit $rc, $(cat "$t/e")"
done

cp $g/py.gguf "$t/long.gguf"
printf 'more' >> "$t/long.gguf"
rc=0; "$HONE" verify "$t/long.gguf" > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 1 ] && grep -q '4 bytes follow the last tensor' "$t/e" || say "bytes at the end: exit $rc, $(cat "$t/e")"

# a token type that does not exist: the arrays are complete, but the tokenizer cannot be built
"$HONE" convert tests/golden/models/qwen3 -o "$t/m.gguf" -q > "$t/o" 2> "$t/e" || say "convert: $(cat "$t/e")"
"$HONE" verify "$t/m.gguf" > "$t/o" 2> "$t/e" || say "verify a model: $(cat "$t/e")"
at=$(grep -abo tokenizer.ggml.token_type "$t/m.gguf" | cut -d: -f1)
printf '\011' | dd of="$t/m.gguf" bs=1 seek=$((at + 25 + 4 + 4 + 8)) conv=notrunc 2> "$t/e"
rc=0; "$HONE" verify "$t/m.gguf" > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 1 ] && grep -q 'token 0 has type 9' "$t/e" || say "token type 9: exit $rc, $(cat "$t/e")"

# a set without its first shard: one finding, whose other shards are not opened
mkdir "$t/set"
cp $g/py.gguf "$t/set/M-00002-of-00003.gguf"
cp $g/py.gguf "$t/set/M-00003-of-00003.gguf"
rc=0; "$HONE" verify "$t/set" --json > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 1 ] && grep -q 'M-00001-of-00003.gguf: shard 1 of 3 is missing' "$t/e" || say "first shard missing: exit $rc, $(cat "$t/e")"
has '"n_findings": 1' "a set without its first shard"
exit $fail
