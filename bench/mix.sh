#!/bin/sh
# bench/mix.sh [OUT.json] - compares mixes of a trained model with an independent engine's files at exactly their sizes
# (peer-baseline.json). Sensitivities come from probe.txt, importance and second moments from calib.txt and
# calib_chat.txt; results are for eval.txt and OTHER, a text that no choice in this project was ever based on. For each
# size: our mix, the same plan with the conventional search (the effect of allocation alone), the same plan with error
# feedback, and the numbers of the independent file. STEPS=1 also probes steps around the mixes. Needs
# ../shared/models/tiny-qwen35moe.
# SRC=FOLDER (a checkpoint with calib.txt, probe.txt and eval.txt next to it) does the same for a different model,
# compared with our own files of the presets and of the always-active recipes, at their sizes.
# Writes docs/results/mix.json. Takes about ten minutes on 2 cores.
set -eu
HONE=${HONE:-build/hone}
src=${SRC:-../shared/models/tiny-qwen35moe}
texts=${TEXTS:-$src}
other=${OTHER:-$texts/eval_chat.txt}
out=${1:-docs/results/mix.json}
[ -e "$texts/eval.txt" ] || { echo "SKIP: $texts is not here"; exit 77; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
presets="Q3_K_M IQ4_XS Q4_K_M"
always="AA-IQ3 AA-Q3 AA-IQ4 AA-Q4"
calib=$texts/calib.txt
[ -e "$texts/calib_chat.txt" ] && calib="$calib $texts/calib_chat.txt"
"$HONE" convert "$src" -o "$t/base.gguf" --type f32 -q > /dev/null
# shellcheck disable=SC2086
"$HONE" imatrix "$t/base.gguf" $calib -o "$t/im.gguf" --gram "$t/gram.gguf" -q > /dev/null
quantize() { "$HONE" quantize "$t/base.gguf" --imatrix "$t/im.gguf" -q "$@" > /dev/null; }

# the sizes: those of the independent files, otherwise those of our own files with the conventional search
set --
if [ -e "$src/peer-baseline.json" ]; then
    for n in $presets $always; do
        set -- "$@" "$n:$(tr -d '\n ' < "$src/peer-baseline.json" | grep -o "\"$n\":{[^}]*" | grep -o '"size_bytes":[0-9]*' | cut -d: -f2)"
    done
else
    mkdir "$t/plain"
    quantize -o "$t/plain/{}.gguf" --recipe "$(echo $presets $always | tr ' ' ,)" --search conventional
    for n in $presets $always; do set -- "$@" "$n:$(wc -c < "$t/plain/$n.gguf")"; done
fi
sizes=$*
set --
if [ "${STEPS:-0}" = 1 ]; then for p in $sizes; do set -- "$@" --budget "${p#*:}"; done; fi
begin=$(date +%s)
"$HONE" sensitivity "$t/base.gguf" --imatrix "$t/im.gguf" --probe "$texts/probe.txt" --measure all --types 2 -o "$t/s.json" "$@" -q --json > "$t/sens.json"
probing=$(($(date +%s) - begin))
set --
for p in $sizes; do set -- "$@" --budget "${p#*:}"; done
begin=$(date +%s)
"$HONE" quantize "$t/base.gguf" --imatrix "$t/im.gguf" -o "$t/{}.gguf" --sensitivity "$t/s.json" "$@" -q --json > "$t/mixes.json"
encoding=$(($(date +%s) - begin))
set --
for p in $sizes; do
    n=${p%%:*}
    mv "$t/${p#*:}.gguf" "$t/$n.gguf"
    mv "$t/${p#*:}.gguf.plan.tsv" "$t/$n.plan.tsv"
    set -- "$@" "$t/$n.gguf"
    [ ! -e "$t/plain/$n.gguf" ] || { mv "$t/plain/$n.gguf" "$t/$n-plain.gguf"; set -- "$@" "$t/$n-plain.gguf"; }
done
for n in $presets; do
    quantize -o "$t/$n-conventional.gguf" --recipe "$t/$n.plan.tsv" --search conventional
    quantize -o "$t/$n-feedback.gguf" --recipe "$t/$n.plan.tsv" --gram "$t/gram.gguf"
    set -- "$@" "$t/$n-conventional.gguf" "$t/$n-feedback.gguf"
done
"$HONE" eval kld "$@" "$texts/eval.txt" --base "$t/base.gguf" -q --json > "$t/kld.json"
[ ! -e "$other" ] || "$HONE" eval kld "$@" "$other" --base "$t/base.gguf" --chunks "${OTHER_CHUNKS:-8}" -q --json > "$t/other.json"
python3 bench/mix.py "$t" "$src/peer-baseline.json" "$out" "$probing" "$encoding" "$(basename "$src")" "$(basename "$other")"
