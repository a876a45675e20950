#!/bin/sh
# bench/cuda.sh [PART...] - all GPU measurements, within TOTAL seconds (1200) besides building. Default parts: first,
# check, launches, files, decode, prompt, on one model. Each writes OUT/cuda-PART.json. A measurement that exceeds
# LIMIT, or the remaining part of TOTAL, is recorded as failed (124); parts after TOTAL are recorded as skipped. All
# parts: TOTAL=36000 bench/cuda.sh first check kernels ... deep.
#
#  first     times that decide whether the estimates of docs/notebook/cuda-counts.md hold (make bench-cuda-first):
#            seconds
#  check     the kernel tests on the device (make check-cuda)
#  kernels   individual kernels at full size, copy bandwidth, cost of an empty launch in a captured chain
#            (make bench-cuda)
#  launches  launch overhead: the layers and launches of Qwen3.5-35B-A3B with the widths of the bundled tiny model, so
#            that nothing else costs time; with each fusion step switched off (--device cuda/MASK, docs/design/cuda.md)
#  files     writes the synthetic files of the parts below (tens of GB)
#  decode    generation at DEPTHS and cache types
#  prompt    prompts of 512 and 2048 tokens
#  fusions   on the first file: generation with each fusion step; prompts with and without chunks, tensor cores, wgmma
#  offload   prompts on the first file with memory for half of it, to find the length from which copying its experts is
#            faster than the CPU
#  deep      generation and prompts at the depths of DEEP, one after the other; then generation with attention on CUDA
#            cores (DEEP_MASKS)
#  quantize  the searches on the CPU (all threads) and on the device, with one full-width layer in BF16: seconds, and
#            whether the bytes agree
#  day       first measurements on a GPU lent for minutes: bench/cuda_day.py, TOTAL seconds (540)
#
#  HONE     the binary (build/hone)          DIR      folder of the synthetic files (a scratch folder)
#  OUT      folder of results (docs/results) LIMIT    seconds of one measurement (240)
#  SHAPES   "Qwen3.5-35B-A3B" (Qwen3.5-27B)  RECIPES  "Q4_K_M" (IQ2_XXS, Q2_K and BF16 use other kernels)
#  DEPTHS   0,4096,32768    DEEP  "65536 131072 262144"    DEEP_MASKS  "999 487"
#  REPS     repetitions (5)    TG  tokens generated (128)    KV  "f16 q8_0"    DEVICE  cuda    MASKS  "0 1 3 7 519 647"
#
# The same files with another engine: bench/peers.sh. Numbers of different machines are never compared.
set -eu
if [ "${1-}" = day ]; then
    shift
    exec python3 bench/cuda_day.py "$@" --total "${TOTAL:-540}"
fi
HONE=${HONE:-build/hone}
device=${DEVICE:-cuda} reps=${REPS:-5} tg=${TG:-128} masks=${MASKS:-0 1 3 7 519 647}
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
dir=${DIR:-$t} results=${OUT:-docs/results}
mkdir -p "$dir" "$results"
"$HONE" doctor --json > "$t/doctor"
grep -q '"compute_capability"' "$t/doctor" || { echo "bench/cuda.sh: no CUDA device (hone doctor)"; exit 77; }

end=$(($(date +%s) + ${TOTAL:-1200}))
left() { # seconds left for a measurement; fails at 0
    n=$((end - $(date +%s)))
    [ $n -gt 5 ] || return 1
    [ $n -lt "${LIMIT:-240}" ] || n=${LIMIT:-240}
    echo $n
}
add() { # key, file with a JSON document
    printf ',\n"%s": ' "$1" >> "$t/doc"
    cat "$2" >> "$t/doc"
}
speed() { # key, file, device, options...
    key=$1 file=$2 on=$3
    shift 3
    echo "$key"
    n=$(left) || { echo '{"skipped": true}' > "$t/one"; add "$key" "$t/one"; return 0; }
    timeout "$n" "$HONE" eval speed "$file" --device "$on" --reps "$reps" --json -q "$@" > "$t/one" ||
        printf '{"failed": %d}\n' $? > "$t/one"
    add "$key" "$t/one"
}
each_file() { # function: called with shape and recipe, file
    for shape in ${SHAPES:-Qwen3.5-35B-A3B}; do
        for recipe in ${RECIPES:-Q4_K_M}; do
            file=$dir/$shape-$recipe.gguf
            [ -r "$file" ] || "$HONE" synth --arch-from "$shape" --recipe "$recipe" -o "$file" -q > /dev/null
            "$1" "$shape $recipe" "$file"
        done
    done
}
each_kv() { for kv in ${KV:-f16 q8_0}; do "$@"; done; }

part_first() {
    make -s bench-cuda-first > "$t/one" || printf '{"failed": true}\n' > "$t/one"
    cat "$t/one"
    add first "$t/one"
}
part_check() {
    rc=0
    timeout "$(left || echo 5)" make -s check-cuda > "$t/check" 2>&1 || rc=$?
    tail -n 40 "$t/check"
    printf '{"exit": %d, "passed": %d}\n' $rc "$(sed -n 's/^\([0-9]*\) passed.*/\1/p' "$t/check" | awk '{ n += $1 } END { print n + 0 }')" > "$t/one"
    add check_cuda "$t/one"
}
part_kernels() {
    timeout "$(left || echo 5)" make -s bench-cuda > "$t/one" || printf '{"failed": true}\n' > "$t/one"
    add kernels "$t/one"
}
part_launches() { # the layers of Qwen3.5-35B-A3B
    awk '/"layer_types"/ { print; for (i = 0; i < 40; i++) printf "    \"%s_attention\"%s\n", i % 4 == 3 ? "full" : "linear", i < 39 ? "," : ""; skip = 1; next }
         skip && /\]/ { skip = 0 } skip { next }
         { sub(/"num_hidden_layers": [0-9]*/, "\"num_hidden_layers\": 40"); sub(/"full_attention_interval": [0-9]*/, "\"full_attention_interval\": 4"); print }' \
        tests/golden/tiny-qwen35moe/config.json > "$t/config.json"
    "$HONE" synth --arch-from "$t/config.json" --recipe Q4_K_M -o "$t/launches.gguf" -q > /dev/null
    for mask in $masks; do
        speed "40 layers of small widths, fused $mask" "$t/launches.gguf" "$device/$mask" --kv-type f16 --pp 0 --tg "$tg"
    done
}
part_files() { each_file :; }
decode() { speed "$1 $kv" "$2" "$device" --kv-type "$kv" --pp 512 --tg "$tg" --depths "${DEPTHS:-0,4096,32768}"; }
file_decode() { each_kv decode "$@"; }
part_decode() { each_file file_decode; }
file_prompt() { for pp in 512 2048; do speed "$1 pp$pp" "$2" "$device" --kv-type q8_0 --pp $pp --tg 0 --depths 0; done; }
part_prompt() { each_file file_prompt; }
part_fusions() { each_file file_fusions; }
file_fusions() {
    [ ! -e "$t/fusions" ] || return 0
    : > "$t/fusions"
    for mask in $masks; do
        speed "$1, fused $mask" "$2" "$device/$mask" --kv-type q8_0 --pp 0 --tg "$tg"
    done
    for mask in 7 39 103 999; do
        speed "$1, pp2048 by $mask" "$2" "$device/$mask" --kv-type q8_0 --pp 2048 --tg 0
    done
}
part_offload() { each_file file_offload; }
file_offload() {
    [ ! -e "$t/offload" ] || return 0
    : > "$t/offload"
    half=$(($(wc -c < "$2") / 2))
    for from in 0 9; do
        for pp in ${PROMPTS:-16 32 64 128 256 512 2048}; do
            speed "$1, pp$pp, $half bytes, copied from $from tokens on" "$2" "$device" --kv-type q8_0 --pp "$pp" --tg 0 --max-vram $half --stream-from $from
        done
    done
}
file_deep() {
    for depth in ${DEEP:-65536 131072 262144}; do
        pp=2048
        for mask in ${DEEP_MASKS:-999 487}; do
            speed "$1 q8_0 at $depth by $mask" "$2" "$device/$mask" --kv-type q8_0 --pp $pp --tg 64 --depths "$depth"
            pp=0
        done
    done
}
part_quantize() {
    "$HONE" synth --arch-from Qwen3-30B-A3B --layers 1 --recipe BF16 -o "$t/in.gguf" -q > /dev/null
    for recipe in Q4_K_M Q3_K_M Q6_K IQ4_XS; do
        quantize_both_ways $recipe fast --recipe $recipe
        quantize_both_ways $recipe best --recipe $recipe
    done
    for type in IQ3_S IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ1_S IQ1_M; do # all but IQ3_S need importance, except for these two
        quantize_both_ways $type fast --type Q8_0 --tensor '^(token_embd|output)[.]weight$='$type
    done
    quantize_both_ways IQ3_S best --type Q8_0 --tensor '^(token_embd|output)[.]weight$=IQ3_S'
}
quantize_both_ways() { # name, search, options
    name=$1 search=$2
    shift 2
    for on in cpu "$device"; do
        n=$(left) || n=1
        timeout "$n" "$HONE" quantize "$t/in.gguf" -o "$t/$on.gguf" -f --search "$search" --device "$on" --json -q "$@" > "$t/one" ||
            printf '{"failed": %d}\n' $? > "$t/one"
        add "$name $search $on" "$t/one"
    done
    cmp -s "$t/cpu.gguf" "$t/$device.gguf" && echo true > "$t/one" || echo false > "$t/one"
    add "$name $search same bytes" "$t/one"
}
part_deep() { each_file file_deep; }

for part in ${*:-first check launches files decode prompt}; do
    echo "== $part"
    printf '{"machine": ' > "$t/doc"
    cat "$t/doctor" >> "$t/doc"
    "part_$part"
    echo '}' >> "$t/doc"
    cp "$t/doc" "$results/cuda-$part.json"
    echo "$results/cuda-$part.json"
done
