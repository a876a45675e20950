#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/kernels.sh [COMMIT] [OUT.json] - measures the speed of every kernel before and after a change: builds an earlier
# commit of this repository next to the working tree and alternates `hone bench-kernels` of both, on one thread with
# blocks in cache. Writes "kernels" in docs/results/cpu-speed.json. The default COMMIT is b736c18, the last one without
# packed rows. Environment: HONE (the later program), BEFORE (the earlier one, if already built), ROUNDS (5), PYTHON
# (python3), RUN (a prefix for each measuring command).
set -eu
commit=${1:-b736c18}
out=${2:-docs/results/cpu-speed.json}
if [ -z "${BEFORE:-}" ]; then
    dir=$(mktemp -d)
    trap 'git worktree remove --force "$dir/tree"; rm -rf "$dir"' EXIT
    git worktree add -q --detach "$dir/tree" "$commit"
    make -C "$dir/tree" HAVE_CUDA=0 > /dev/null
    BEFORE=$dir/tree/build/hone
fi
"${PYTHON:-python3}" bench/kernels.py "$BEFORE" "${HONE:-build/hone}" "$out" --commit "$commit" --rounds "${ROUNDS:-5}" --run="${RUN:-}"
