#!/bin/sh
# SPDX-License-Identifier: MIT
# --device cuda through the whole program, on the emulated device ($HONE_EMU): perplexity equals the CPU's to 4 digits,
# divergence of an f16 cache from the CPU's f32 cache is below 1e-4, and the greedy text is the same; quantized files
# are identical; importance and drafts work on two devices; without a device, commands fail with a clear error.
set -eu
[ -x "${HONE_EMU:-}" ] || { echo "SKIP: no emulated device"; exit 77; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
tiny=tests/golden/tiny-qwen35moe
"$HONE" convert $tiny -o "$t/m.gguf" --type f32 -q > /dev/null
head -c 300 $tiny/self_eval.txt > "$t/text"

ppl() { # device
    "$HONE_EMU" eval ppl "$t/m.gguf" "$t/text" --ctx 16 --chunks 2 --device "$1" --json -q |
        sed -n 's/^ *"ppl": \([0-9.]*\),*$/\1/p'
}
cpu=$(ppl cpu) cuda=$(ppl cuda)
echo "perplexity $cpu on the CPU, $cuda on the device"
echo "$cpu $cuda" | awk '{ d = $1 - $2; exit !($1 > 1 && d < 5e-5 && d > -5e-5) }'

"$HONE_EMU" eval kld "$t/m.gguf" "$t/text" --ctx 16 --chunks 1 --save-base "$t/base" --device cpu -q > /dev/null
kld=$("$HONE_EMU" eval kld --base-file "$t/base" "$t/m.gguf" --kv-type f16 --device cuda --json -q |
    sed -n 's/^ *"mean_kld": \([-0-9.e]*\),*$/\1/p' | head -1)
echo "divergence with an f16 cache $kld"
echo "$kld" | awk '{ exit !($1 != "" && $1 < 1e-4 && $1 > -1e-4) }'

for d in cpu cuda auto; do
    "$HONE_EMU" run "$t/m.gguf" -p "The value of" -n 6 --temp 0 --act f32 --kv-type f32 --device $d > "$t/$d"
    cmp "$t/cpu" "$t/$d"
done

# heads that no kernel supports: the CPU by default, an error if a device is named
echo '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 400, "intermediate_size": 256,
 "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 1, "vocab_size": 4096, "rms_norm_eps": 1e-6}' > "$t/config.json"
"$HONE" synth --arch-from "$t/config.json" --tokenizer $tiny --recipe F16 -o "$t/odd.gguf" -q > /dev/null
why="CUDA has no kernels for 100 values per head in a cache of f32 or f16 (at most 512, a multiple of 8): use --device cpu"
for d in cpu cuda auto; do
    rc=0
    "$HONE_EMU" run "$t/odd.gguf" -p "The value of" -n 2 --temp 0 --device $d > "$t/odd-$d" 2> "$t/log-$d" || rc=$?
    [ $rc = "$([ $d = cuda ] && echo 2 || echo 0)" ] || { cat "$t/log-$d"; exit 1; }
done
cmp "$t/odd-cpu" "$t/odd-auto"
grep -q "computing on the CPU: $why" "$t/log-auto" && grep -q "$why" "$t/log-cuda" || { cat "$t/log-auto" "$t/log-cuda"; exit 1; }

# a server uses no drafts if states cannot be rolled back
rc=0
"$HONE_EMU" serve "$t/m.gguf" --port 0 --draft auto --device cuda > /dev/null 2> "$t/log" || rc=$?
[ $rc = 2 ] && grep -q "draft: on a device .* a separate pass" "$t/log" || { cat "$t/log"; exit 1; }

# a server's contexts get the device's remaining memory, more than main memory would give them
context_mib() { # MiB of the device
    CUDA_EMU_DEVICES=$1 "$HONE_EMU" serve "$t/m.gguf" --port 0 --parallel 256 --device cuda > /dev/null 2> "$t/log" &
    p=$! i=0
    until grep -q "of context memory" "$t/log" || [ $i = 100 ]; do sleep 0.1; i=$((i + 1)); done
    kill $p
    wait $p || true
    sed -n 's/.* \([0-9]*\)[.][0-9]* MiB of context memory.*/\1/p' "$t/log"
}
large=$(context_mib 65536) small=$(context_mib 4096)
echo "context memory: $large MiB of 65536, $small MiB of 4096"
[ "$large" -gt 16384 ] && [ "$small" -gt 2048 ] && [ "$small" -lt 4096 ]

# every command reports a driver that is too old for this build; without a driver nothing is reported
old="driver of this machine supports CUDA 12.8 at most, but this hone was built with CUDA 13.0: update the driver to 580 or newer, or build with CUDA 12"
CUDA_EMU_DRIVER=12080 "$HONE_EMU" doctor > /dev/null 2> "$t/log"
grep -q "$old" "$t/log" || { cat "$t/log"; exit 1; }
CUDA_EMU_DRIVER=12080 "$HONE_EMU" run "$t/m.gguf" -p "The value of" -n 2 --device auto > /dev/null 2> "$t/log"
grep -q "computing on the CPU: the NVIDIA $old" "$t/log" || { cat "$t/log"; exit 1; }
if CUDA_EMU_DRIVER=12080 "$HONE_EMU" run "$t/m.gguf" -p "The value of" -n 2 --device cuda > /dev/null 2> "$t/log"; then exit 1; fi
grep -q "'cuda' is not available: the NVIDIA $old" "$t/log" || { cat "$t/log"; exit 1; }
CUDA_EMU_DRIVER=0 "$HONE_EMU" run "$t/m.gguf" -p "The value of" -n 2 --device auto > /dev/null 2> "$t/log"
if grep -q "the CPU" "$t/log"; then cat "$t/log"; exit 1; fi

# experts that do not fit are computed by the CPU
"$HONE_EMU" run "$t/m.gguf" -p "The value of" -n 6 --temp 0 --act f32 --kv-type f32 --device cuda --max-vram 40M > "$t/less" 2> "$t/log"
grep -q "the CPU computes them" "$t/log" || { cat "$t/log"; exit 1; }
cmp "$t/cpu" "$t/less"
# or placed by a map
printf 'experts 1-2 cpu\nexperts 3 device\n' > "$t/map"
"$HONE_EMU" run "$t/m.gguf" -p "The value of" -n 6 --temp 0 --act f32 --kv-type f32 --device cuda --place "$t/map" > "$t/less" 2> "$t/log"
grep -q "the experts of 2 blocks stay in main memory" "$t/log" || { cat "$t/log"; exit 1; }
cmp "$t/cpu" "$t/less"
# or are copied to the device for the prompt
"$HONE_EMU" run "$t/m.gguf" -p "The value of" -n 6 --temp 0 --act f32 --kv-type f32 --device cuda --max-vram 40M --stream-from 2 > "$t/less" 2> "$t/log"
grep -q "passes of 2 tokens or more copy them" "$t/log" || { cat "$t/log"; exit 1; }
cmp "$t/cpu" "$t/less"

# layers on two devices by a map: the bytes of one device
export CUDA_EMU_DEVICES=2048,3072
printf 'layers 0 cuda:1\nlayers 1-2 cuda:0\nlayers 3 cuda:1\nexperts 2 cpu\n' > "$t/map"
"$HONE_EMU" run "$t/m.gguf" -p "The value of" -n 6 --temp 0 --act f32 --kv-type f32 --device cuda:0,1 --place "$t/map" > "$t/less"
cmp "$t/cpu" "$t/less"
printf 'layers 0 cuda:7\n' > "$t/map"
if "$HONE_EMU" run "$t/m.gguf" -p "The value of" -n 6 --device cuda:0,1 --place "$t/map" > "$t/less" 2> "$t/log"; then exit 1; fi
grep -q "cuda:7, which --device does not name" "$t/log" || { cat "$t/log"; exit 1; }

# importance summed on both: the bytes of one device; a draft block goes to a device with room
printf 'One two three four five six seven eight nine ten eleven twelve. %.0s' 1 2 3 > "$t/words"
for d in cuda:0 cuda:0,1; do "$HONE_EMU" imatrix "$t/m.gguf" "$t/words" -o "$t/i-$d" --ctx 8 --chunks 3 --device $d -q > /dev/null; done
cmp "$t/i-cuda:0" "$t/i-cuda:0,1"
"$HONE" convert tests/golden/models/qwen35moe -o "$t/d.gguf" -q > /dev/null
for d in cpu cuda:0,1; do "$HONE_EMU" run "$t/d.gguf" -p "One two" -n 6 --temp 0 --act f32 --kv-type f32 --draft mtp --device $d > "$t/d-$d" 2> "$t/log-$d"; done
cmp "$t/d-cpu" "$t/d-cuda:0,1"
grep -q "drafted tokens accepted" "$t/log-cuda:0,1" || { cat "$t/log-cuda:0,1"; exit 1; }

# a server on both: simultaneous answers equal the CPU's, and context memory is what the devices have room for
${CC:-cc} -std=c11 -D_GNU_SOURCE -O1 tests/ask.c -o "$t/ask"
served() { # device: two texts
    : > "$t/ready"
    CUDA_EMU_DEVICES=1000,1100 "$HONE_EMU" serve "$t/m.gguf" --port 0 --act f32 --kv-type f32 --ctx 64 --device "$1" > "$t/ready" 2> "$t/log" &
    pid=$!
    while [ ! -s "$t/ready" ]; do kill -0 $pid || { cat "$t/log"; exit 1; }; sleep 0.05; done
    port=$(sed 's/.*127\.0\.0\.1:\([0-9]*\).*/\1/' "$t/ready")
    for p in "The value of" "A function is"; do
        "$t/ask" "$port" -b "{\"prompt\": \"$p\", \"max_tokens\": 2, \"temperature\": 0}" POST /v1/completions > "$t/o${#p}" &
        asks="${asks:-} $!"
    done
    wait $asks
    asks=
    grep -ho '"text":"[^"]*"' "$t/o12" "$t/o13"
    kill $pid
    wait $pid || true
}
served cpu > "$t/cpu-texts"
served cuda:0,1 > "$t/cuda-texts"
[ "$(wc -l < "$t/cpu-texts")" = 2 ]
cmp "$t/cpu-texts" "$t/cuda-texts"
awk '/context memory/ { for (i = 2; i <= NF; i++) if ($i == "MiB") m = $(i - 1) } END { print "room for " m " MiB on two devices"; exit !(m > 0 && m < 564) }' "$t/log"
unset CUDA_EMU_DEVICES

# a device that fails for good: commands report what to do; a server fails its requests and exits
rc=0
CUDA_EMU_LOST=6 "$HONE_EMU" eval ppl "$t/m.gguf" "$t/text" --ctx 16 --chunks 2 --device cuda > /dev/null 2> "$t/log" || rc=$?
[ $rc = 4 ] && grep -q "has lost the device. Run the same command again" "$t/log" || { cat "$t/log"; exit 1; }
: > "$t/ready"
CUDA_EMU_LOST=40 "$HONE_EMU" serve "$t/m.gguf" --port 0 --ctx 64 --device cuda > "$t/ready" 2> "$t/log" &
pid=$!
while [ ! -s "$t/ready" ]; do kill -0 $pid || { cat "$t/log"; exit 1; }; sleep 0.05; done
port=$(sed 's/.*127\.0\.0\.1:\([0-9]*\).*/\1/' "$t/ready")
"$t/ask" "$port" -b '{"prompt": "The cat", "max_tokens": 55, "ignore_eos": true}' POST /v1/completions > "$t/o" || true
rc=0
wait $pid || rc=$?
[ $rc = 4 ] && grep -q "503" "$t/o" && grep -q "the server is shutting down: .*has lost the device" "$t/log" || { cat "$t/o" "$t/log"; exit 1; }

# the whole job on a device equals the CPU's up to rounding; its importance matrix and quantization, repeated on both,
# give the same file
job() { # program, folder, arguments...
    hone=$1 out=$2
    shift 2
    "$hone" make tests/golden/models/qwen3moe -o "$t/$out" --recipes Q4_0 --calib "$t/calib" --eval "$t/text" --chunks 1 --calib-chunks 1 --ctx 16 \
        --calib-ctx 16 --pp 2 --tg 1 --reps 1 --tools none -q "$@" > /dev/null
}
head -c 300 $tiny/self_calib.txt > "$t/calib"
job "$HONE" on-cpu
job "$HONE_EMU" on-cuda --device cuda 2> "$t/log"
[ ! -s "$t/log" ] || { cat "$t/log"; exit 1; }
grep -q '"machine": .*CPU emulation' "$t/on-cuda/results.json"
for d in on-cpu on-cuda; do sed -n 's/.*"mean_kld": *\([-0-9.e]*\).*/\1/p' "$t/$d/results.json" | head -1; done | tr '\n' ' ' > "$t/kld"
echo "divergence of Q4_0 on both: $(cat "$t/kld")"
awk '{ r = $1 / $2; exit !($1 > 0 && r > .98 && r < 1.02) }' "$t/kld"
for d in cpu cuda; do
    "$HONE_EMU" quantize "$t/on-cpu.work/qwen3moe-BF16.gguf" -o "$t/$d.gguf" --recipe Q4_0 --imatrix "$t/on-cpu/imatrix.gguf" --device $d --max-vram 1M --json -q > "$t/log"
done
grep -q '"n_cuda": [1-9]' "$t/log" || { cat "$t/log"; exit 1; }
cmp "$t/cpu.gguf" "$t/cuda.gguf"
"$HONE_EMU" eval speed "$t/m.gguf" --pp 3 --tg 0 --reps 1 --act f32 --device cuda --max-vram 40M --stream-from 3 --json -q > "$t/json"
for field in '"device": "cuda"' '"offload_blocks": [1-4]' '"stream_from": 3' '"bandwidth_gb_per_s": 960'; do
    grep -q "$field" "$t/json" || { echo "no $field"; cat "$t/json"; exit 1; }
done

refused() { # exit code, text, arguments...
    want=$1 text=$2
    shift 2
    rc=0
    "$@" > "$t/log" 2>&1 || rc=$?
    [ $rc = "$want" ] && grep -q -- "$text" "$t/log" || { echo "exit $rc: $*"; cat "$t/log"; exit 1; }
}
refused 4 "does not exist" "$HONE_EMU" eval ppl "$t/m.gguf" "$t/text" --device cuda:7
refused 4 "without the experts" "$HONE_EMU" eval ppl "$t/m.gguf" "$t/text" --device cuda --max-vram 1M
refused 2 "is not cpu, cuda" "$HONE_EMU" eval ppl "$t/m.gguf" "$t/text" --device tpu
refused 2 "does not exist on CUDA" "$HONE_EMU" eval ppl "$t/m.gguf" "$t/text" --ctx 16 --chunks 1 --kv-type tq4 --device cuda
