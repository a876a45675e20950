#!/bin/sh
# Mixes under a budget on the bundled trained model: bench/mix.sh [OUT.json]. At the exact sizes of an independent
# engine's files (peer-baseline.json): sensitivities on probe.txt, importance from calib.txt + calib_chat.txt, numbers
# on eval.txt. Per size: our mix, the same mix with the conventional search (what allocation alone gives), and the
# independent file's own numbers. Needs ../shared/models/tiny-qwen35moe. STEPS=1 also measures around the mixes.
# Writes docs/results/mix.json. Some ten minutes on 2 cores.
set -eu
HONE=${HONE:-build/hone}
src=../shared/models/tiny-qwen35moe
out=${1:-docs/results/mix.json}
[ -e $src/eval.txt ] || { echo "SKIP: $src is not here"; exit 77; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
presets="Q3_K_M:8965664 IQ4_XS:9888672 Q4_K_M:11063840"
always="AA-IQ3:11381792 AA-Q3:11512864 AA-IQ4:12233760 AA-Q4:13151264"
"$HONE" convert $src -o "$t/base.gguf" --type f32 -q > /dev/null
"$HONE" imatrix "$t/base.gguf" $src/calib.txt $src/calib_chat.txt -o "$t/im.gguf" -q > /dev/null
set --
[ "${STEPS:-1}" = 1 ] && for p in $presets; do set -- "$@" --budget "${p#*:}"; done
begin=$(date +%s)
"$HONE" sensitivity "$t/base.gguf" --imatrix "$t/im.gguf" --probe $src/probe.txt --types 2 -o "$t/s.json" "$@" -q > /dev/null
probing=$(($(date +%s) - begin))
set --
for p in $presets $always; do
    n=${p%%:*}
    "$HONE" quantize "$t/base.gguf" -o "$t/$n.gguf" --budget "${p#*:}" --sensitivity "$t/s.json" --imatrix "$t/im.gguf" -q > /dev/null
    set -- "$@" "$t/$n.gguf"
done
for p in $presets; do
    n=${p%%:*}
    "$HONE" quantize "$t/base.gguf" -o "$t/$n-conventional.gguf" --recipe "$t/$n.gguf.plan.tsv" --search conventional --imatrix "$t/im.gguf" -q > /dev/null
    set -- "$@" "$t/$n-conventional.gguf"
done
"$HONE" eval kld "$@" $src/eval.txt --base "$t/base.gguf" -q --json > "$t/kld.json"
python3 bench/mix.py "$t" "$t/kld.json" $src/peer-baseline.json "$out" "$probing"
