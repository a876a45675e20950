#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks that another engine reads our files as we do. Every type and recipe of the bundled model, the micro models of
# all architectures and split files are loaded in llama-cpp-python; logits, tokens and rendered templates are compared
# with ours. tests/interop.sh [OUT.json]; `make interop`. With IK=1, types and recipes are also compared in ik_llama.cpp
# (ik-llama-cpp-python). Needs Python and, the first time, the network, so it is not part of `make test`.
set -eu
out=${1:-docs/results/interop.json}
py=$(sh bench/peer-venv.sh) || exit $?
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
# the engine's image code prints a page to stderr; its exit code and the printed line suffice
PYTHONDONTWRITEBYTECODE=1 "$py" tests/interop-vision.py "${HONE:-build/hone}" "$t" "$(dirname "$out")/mmproj.json" 2> "$t/log" || { tail -20 "$t/log"; exit 1; }
PYTHONPATH=bench PYTHONDONTWRITEBYTECODE=1 "$py" tests/interop.py "${HONE:-build/hone}" "$t" "$out"
PYTHONPATH=bench PYTHONDONTWRITEBYTECODE=1 "$py" tests/interop-archs.py "${HONE:-build/hone}" "$MICRO" "$t" "$(dirname "$out")/interop-archs.json"
[ -n "${IK:-}" ] || exit 0
ik=$(sh bench/peer-venv.sh ik) || exit $?
PYTHONPATH=bench PYTHONDONTWRITEBYTECODE=1 "$ik" tests/interop-ik.py "${HONE:-build/hone}" "$t" "$(dirname "$out")/interop-ik.json"
