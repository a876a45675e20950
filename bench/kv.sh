#!/bin/sh
# bench/kv.sh [OUT.json] - compares KV cache types on the bundled trained model (2 attention layers, head size 256) at
# several depths, and on synthetic attention with head sizes 64, 128 and 256. Writes docs/results/kv-types.json, which
# contains the complete JSON of `hone` and the commands, and two plots next to it (-model.svg, -head256.svg). Takes
# minutes on 2 cores. CHUNKS=N sets the number of windows of 2048 tokens (3); twice as many windows of 1024 tokens are
# used.
set -eu
HONE=${HONE:-build/hone}
tiny=tests/golden/tiny-qwen35moe
out=${1:-docs/results/kv-types.json}
chunks=${CHUNKS:-3}
plain=f16,bf16,q8_0,q5_1,q4_0,q8_0-norot,q5_1-norot,q4_0-norot,tq4,tq3,tq2,q8_0/tq4,q8_0/tq3,tq4/tq3
ways() { # bits: the code in use first, then the alternatives it was measured against
    echo tq$1,tq$1-raw,tq$1-norm,tq$1-least,tq$1/tq$1-least,tq$1-qjl,tq$1-qjl/tq$1
}
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
"$HONE" convert $tiny -o "$t/tiny.gguf" --type f32 -q > /dev/null
first=1
add() { # key, command...
    key=$1
    shift
    [ $first = 1 ] || echo ',' >> "$t/doc"
    first=0
    printf '"%s": ' "$key" >> "$t/doc"
    (cd "$t" && "$HONE_ABS" "$@" -q --json) >> "$t/doc"
}
case $HONE in /*) HONE_ABS=$HONE ;; *) HONE_ABS=$PWD/$HONE ;; esac
text=self_eval.txt
cp $tiny/$text $tiny/eval.jsonl "$t"
echo '{' > "$t/doc"
add types_by_depth eval kld tiny.gguf $text --base tiny.gguf --ctx 2048 --chunks "$chunks" --by-depth --kv-type $plain
few=q8_0,q5_1,q4_0,q4_0-norot,tq4,tq3,tq2
"$HONE" eval kld "$t/tiny.gguf" "$t/$text" --base "$t/tiny.gguf" --ctx 2048 --chunks "$chunks" --by-depth --kv-type $few \
    --plot "${out%.json}-model.svg" -f -q > /dev/null
"$HONE" eval kv --head-dims 256 --depths 512,1024,2048,4096,8192,16384 --kv-type $few --plot "${out%.json}-head256.svg" -f -q > /dev/null
for bits in 4 3 2; do
    add factors_$bits eval kld tiny.gguf $text --base tiny.gguf --ctx 1024 --chunks $((chunks * 2)) --kv-type $(ways $bits)
done
add synthetic eval kv --depths 512,4096,16384 --kv-type $plain
for bits in 4 3 2; do
    add synthetic_factors_$bits eval kv --depths 512,4096 --kv-type $(ways $bits)
    add synthetic_factors_${bits}_cosine_07 eval kv --depths 4096 --cosine 0.7 --kv-type $(ways $bits)
done
echo '}' >> "$t/doc"
sed "s/^ *//" "$t/doc" > "$out"
