#!/bin/sh
# What an hour with a GPU should yield, in one command: bench/cuda.sh [OUT.json]. Writes docs/results/cuda.json:
# the kernel tests on the device, speed of synthetic full-shape files at depths and cache types, and the overhead
# probe, a model of as many layers and launches whose widths are shrunk until only the launches cost time.
#
#   HONE     the binary (build/hone)          DIR      where synthetic files go and stay (a scratch folder)
#   SHAPES   "Qwen3.5-35B-A3B Qwen3.5-27B"    RECIPES  "Q4_K_M"     DEPTHS  0,16384,65536,131072,262144
#   REPS     repetitions (5)   TG  tokens generated (128)   KV  "f16 q8_0"   DEVICE  cuda
# The same files beside another engine: bench/peers.sh. Numbers of different machines are never compared.
set -eu
HONE=${HONE:-build/hone}
out=${1:-docs/results/cuda.json}
device=${DEVICE:-cuda} depths=${DEPTHS:-0,16384,65536,131072,262144} reps=${REPS:-5}
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
dir=${DIR:-$t}
"$HONE" doctor --json > "$t/doctor"
grep -q '"compute_capability"' "$t/doctor" || { echo "bench/cuda.sh: no CUDA device (hone doctor)"; exit 77; }

first=1
add() { # key, file with a JSON document
    [ $first = 1 ] || echo ',' >> "$t/doc"
    first=0
    printf '"%s": ' "$1" >> "$t/doc"
    cat "$2" >> "$t/doc"
}
speed() { # key, file, options...
    key=$1 file=$2
    shift 2
    echo "$key"
    "$HONE" eval speed "$file" --device "$device" --reps "$reps" --json -q "$@" > "$t/one" ||
        printf '{"failed": true}\n' > "$t/one"
    add "$key" "$t/one"
}

echo '{' > "$t/doc"
add machine "$t/doctor"
rc=0
make -s check-cuda > "$t/check" 2>&1 || rc=$?
tail -n 40 "$t/check"
printf '{"exit": %d, "passed": %d}\n' $rc "$(sed -n 's/^\([0-9]*\) passed.*/\1/p' "$t/check" | awk '{ n += $1 } END { print n + 0 }')" > "$t/one"
add check_cuda "$t/one"
make -s bench-cuda > "$t/one" || printf '{"failed": true}\n' > "$t/one" # single kernels, copy bandwidth, empty launches
add kernels "$t/one"

for shape in ${SHAPES:-Qwen3.5-35B-A3B Qwen3.5-27B}; do
    for recipe in ${RECIPES:-Q4_K_M}; do
        file=$dir/$shape-$recipe.gguf
        [ -r "$file" ] || "$HONE" synth --arch-from "$shape" --recipe "$recipe" -o "$file" -q > /dev/null
        for kv in ${KV:-f16 q8_0}; do
            speed "$shape $recipe $kv" "$file" --kv-type "$kv" --tg "${TG:-128}" --depths "$depths"
            speed "$shape $recipe $kv pp2048" "$file" --kv-type "$kv" --pp 2048 --tg 0 --depths 0,32768
        done
    done
done

# launches alone: the layers of Qwen3.5-35B-A3B, widths of the bundled tiny model
awk '/"layer_types"/ { print; for (i = 0; i < 40; i++) printf "    \"%s_attention\"%s\n", i % 4 == 3 ? "full" : "linear", i < 39 ? "," : ""; skip = 1; next }
     skip && /\]/ { skip = 0 } skip { next }
     { sub(/"num_hidden_layers": [0-9]*/, "\"num_hidden_layers\": 40"); sub(/"full_attention_interval": [0-9]*/, "\"full_attention_interval\": 4"); print }' \
    tests/golden/tiny-qwen35moe/config.json > "$t/config.json"
"$HONE" synth --arch-from "$t/config.json" --recipe Q4_K_M -o "$t/launches.gguf" -q > /dev/null
speed "launches only, 40 layers" "$t/launches.gguf" --kv-type f16 --pp 0 --tg "${TG:-128}"
echo '}' >> "$t/doc"
cp "$t/doc" "$out"
echo "$out"
