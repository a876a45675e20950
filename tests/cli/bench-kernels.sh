#!/bin/sh
# SPDX-License-Identifier: MIT
# hone bench-kernels: a row per type and instruction set, JSON with positive rates, clear error messages.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() {
    echo "bench-kernels: $*" >&2
    exit 1
}
"$HONE" bench-kernels --types Q4_K,q8_0 --seconds 0.001 --isa ref >"$tmp/table"
grep -q '^Q4_K  *ref  *[0-9.]* ' "$tmp/table" || fail "no Q4_K row"
grep -q '^Q8_0  *ref ' "$tmp/table" || fail "no Q8_0 row"
grep -q 'avx' "$tmp/table" && grep -q '^Q4_K  *avx' "$tmp/table" && fail "--isa ref shows other kernels"
"$HONE" bench-kernels --types IQ4_XS --seconds 0.001 --isa ref --json >"$tmp/json"
grep -q '"decode_gb_s": *[0-9]' "$tmp/json" || fail "no rate in JSON"
grep -q '"gflop_s": *[0-9]' "$tmp/json" || fail "no gemm rate in JSON"
for bad in I32 Q4_K,nonsense; do
    if "$HONE" bench-kernels --types "$bad" >"$tmp/out" 2>"$tmp/err"; then fail "$bad accepted"; fi
    grep -q "is not a type with kernels" "$tmp/err" || fail "$bad: unclear message"
    [ ! -s "$tmp/out" ] || fail "output in spite of the error"
done
if "$HONE" bench-kernels --seconds 0 >/dev/null 2>"$tmp/err"; then fail "0 seconds accepted"; fi
