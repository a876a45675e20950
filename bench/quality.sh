#!/bin/sh
# Quality at equal bytes, step by step: bench/quality.sh [OUT.json]. At the sizes of an independent engine's presets (its file
# peer-baseline.json beside the model; IQ2_XS, which it lacks, at our own size): what that engine measured of its preset, our mix,
# our mix with error feedback, and, with OLD=BINARY, what an earlier build of hone makes with the same commands. Importance and
# second moments come from calib.txt and calib_chat.txt, sensitivities from probe.txt; numbers are of eval.txt (CHUNKS windows, all
# by default) and of a second domain, eval_chat.txt. Needs ../shared/models/tiny-qwen35moe or SRC=FOLDER with such texts beside
# the checkpoint (without peer-baseline.json: at the sizes of our own presets). Writes docs/results/quality.json. A quarter of an
# hour on 4 cores.
set -eu
HONE=${HONE:-build/hone}
src=${SRC:-../shared/models/tiny-qwen35moe}
[ -e "$src/eval.txt" ] || { echo "SKIP: $src is not here"; exit 77; }
exec python3 "$(dirname "$0")/quality.py" "$HONE" "$src" "${1:-docs/results/quality.json}"
