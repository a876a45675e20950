#!/bin/sh
# hone synth: files are complete, do not depend on the number of threads, have the sizes that dry runs and plans
# predict, and are written in bounded memory; the models run.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
num() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" "$t/o" | head -1; }

# the published sizes: 26.55 GiB of Q6_K; 733, 851 and 579 tensors; bytes by recipe in GB, from the shapes
run 0 synth --recipe Q6_K --dry-run --json
[ "$(num n_tensors)" = 733 ] && grep -q '26\.5[45]' "$t/o" || say "35B-A3B Q6_K: $(cat "$t/o")"
for rs in Q3_K_M:16.75 IQ4_XS:18.72 Q4_K_M:21.16 Q8_0:36.89; do
    run 0 synth --recipe "${rs%:*}" --dry-run --json
    awk -v a="$(num size_bytes)" -v b="${rs#*:}" 'BEGIN { d = a / 1e9 - b; exit !(d < 0.006 && d > -0.006) }' ||
        say "35B-A3B $rs: $(num size_bytes)"
done
run 0 synth --arch-from Qwen3.5-27B --dry-run --json
[ "$(num n_tensors)" = 851 ] || say "27B: $(cat "$t/o")"
run 0 synth --arch-from qwen3-30b-a3b --dry-run --json
[ "$(num n_tensors)" = 579 ] || say "30B-A3B: $(cat "$t/o")"

# small models: threads, seeds, verification, prediction by quantize --dry-run and plan, logits
c=tests/golden/tiny-qwen35moe/config.json
printf '\001\000\000\000\002\000\000\000\003\000\000\000' > "$t/ids"
run 0 synth --arch-from $c --recipe BF16 -o "$t/bf16.gguf"
for r in Q4_K_M Q3_K_M IQ4_XS Q6_K Q8_0 IQ2_M IQ1_M; do
    run 0 synth --arch-from $c --recipe $r --threads 1 -o "$t/1.gguf" --json
    predicted=$(num size_bytes)
    [ "$(wc -c < "$t/1.gguf")" = "$predicted" ] || say "$r: $predicted bytes announced"
    for n in 2 7; do
        run 0 synth --arch-from $c --recipe $r --threads $n -o "$t/n.gguf" -f
        cmp -s "$t/1.gguf" "$t/n.gguf" || say "$r: other bytes with $n threads"
    done
    run 0 synth --arch-from $c --recipe $r --seed 2 -o "$t/n.gguf" -f
    [ "$(wc -c < "$t/n.gguf")" = "$predicted" ] || say "$r: the size depends on the seed"
    ! cmp -s "$t/1.gguf" "$t/n.gguf" || say "$r: the seed changes nothing"
    run 0 verify --deep "$t/1.gguf"
    run 0 plan "$t/1.gguf" --json
    run 0 eval logits "$t/1.gguf" --ids "$t/ids" -o "$t/logits" -f
    [ "$(wc -c < "$t/logits")" = $((3 * 4096 * 4)) ] || say "$r: logits"
    rm "$t/1.gguf"
done
run 0 synth --arch-from $c --recipe Q6_K --dry-run --json
predicted=$(num size_bytes)
run 0 quantize "$t/bf16.gguf" --recipe Q6_K --dry-run --json
# quantize also writes the key hone.replay, below 1 KiB
near() { [ $(($1 - predicted)) -ge 0 ] && [ $(($1 - predicted)) -lt 1024 ]; }
near "$(num size_bytes)" || say "quantize --dry-run says $(num size_bytes), synth $predicted"
run 0 quantize "$t/bf16.gguf" --recipe Q6_K -o "$t/q6.gguf"
near "$(wc -c < "$t/q6.gguf")" || say "a file quantized by the same recipe is not as large"

# a vocabulary of another folder: texts can be read, the template is there; the weights are the same
run 0 synth --arch-from $c --recipe Q8_0 --tokenizer tests/golden/tiny-qwen35moe -o "$t/v.gguf"
run 0 synth --arch-from $c --recipe Q8_0 -o "$t/w.gguf"
run 1 diff "$t/v.gguf" "$t/w.gguf" --json
[ "$(num n_tensors)" = 0 ] || say "another vocabulary, other tensors: $(head -40 "$t/o")"
run 0 tokenize "$t/v.gguf" "a cat"
run 0 template show "$t/v.gguf"
run 2 synth --arch-from $c --tokenizer "$t/none" -o "$t/x.gguf"

# skew changes only the routers
run 0 synth --arch-from $c --recipe BF16 --skew 0.5 -o "$t/skew.gguf"
run 1 diff "$t/bf16.gguf" "$t/skew.gguf" --json
[ "$(grep -c 'ffn_gate_inp.weight' "$t/o")" -ge 4 ] && ! grep -q 'exps' "$t/o" || say "skew: $(cat "$t/o")"

# other architectures; layers; memory; refusals
for a in qwen35 qwen3 qwen3moe mistral gemma4moe; do
    run 0 synth --arch-from tests/golden/models/$a/config.json --recipe Q8_0 -o "$t/a.gguf" -f
    run 0 verify --deep "$t/a.gguf"
    run 0 eval logits "$t/a.gguf" --ids "$t/ids" -o "$t/logits" -f
done
run 0 synth --arch-from $c --layers 9 --dry-run --json
[ "$(num n_layers)" = 9 ] || say "--layers"
if ! grep -q __asan_init "$HONE"; then # which reserves address space by the terabyte
    rc=0; (ulimit -v 400000; "$HONE" synth --layers 1 --recipe IQ2_XXS --threads 2 -o "$t/big.gguf") > "$t/o" 2> "$t/e" || rc=$?
    [ $rc = 0 ] || say "memory: $(cat "$t/e")"
fi
rm -f "$t/big.gguf"
run 2 synth -o "$t/x.gguf" --recipe NOPE
run 2 synth -o "$t/x.gguf" --arch-from "$t/absent.json"
run 2 synth -o "$t/x.gguf" --arch-from $c --skew -1
run 2 synth
echo '{"architectures": ["Unheard"]}' > "$t/bad.json"
run 3 synth -o "$t/x.gguf" --arch-from "$t/bad.json"
echo '[1]' > "$t/bad.json"
run 3 synth -o "$t/x.gguf" --arch-from "$t/bad.json"
run 2 synth -o "$t/bf16.gguf" --arch-from $c
[ ! -e "$t/x.gguf" ] && [ -z "$(ls "$t" | grep tmp)" ] || say "left behind: $(ls "$t")"
exit $fail
