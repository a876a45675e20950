#!/bin/sh
# bench/quality.sh [OUT.json] - compares quality at equal bytes, step by step, at the sizes of an independent engine's
# presets (its file peer-baseline.json next to the model; without one, at the sizes of our presets). Measures that
# engine's file of the preset, our mix (`mix`), the mix with error feedback (`feedback`), the same types block by block
# (`block`: `make --effort high`), and, with OLD=BINARY, an earlier build of hone with feedback (`before`). Importance
# and second moments come from calib.txt, calib_chat.txt and man_calib.txt, sensitivities from probe.txt. Results, with
# paired intervals, are for eval.txt and a second domain: conversations as a server receives them (eval.jsonl) and as
# plain text (eval_chat.txt), or man_eval.txt.
# Runs for LIMIT seconds (480) and exits with 75 if there is more to do: the same command then resumes from files in
# WORK. By default, that is a folder of its own for each model, setting and pair of binaries; a WORK whose files were
# made with others is refused. SRC=FOLDER selects a different model (bench/models/third.py trains one; base.gguf in it
# is used as it is), SIZES="Q4_K_M IQ2_XS" and STEPS="mix feedback" select a subset, CHUNKS=N measures N windows (0, the
# default: all), TOOLS=N adds N tool calls, PLAIN=1 uses the presets' types instead of mixes, LEARN=N adds N passes of
# `--learn` to `block`. Adds the results, the command and both builds to docs/results/quality.json, under ENTRY (the
# folder's name).
set -eu
HONE=${HONE:-build/hone}
src=${SRC:-../shared/models/tiny-qwen35moe}
[ -e "$src/eval.txt" ] || { echo "SKIP: $src is not here"; exit 77; }
exec python3 "$(dirname "$0")/quality.py" "$HONE" "$src" "${1:-docs/results/quality.json}"
