#!/bin/sh
# Some injected faults over hone make; `make faults` injects 500 (tests/faults.sh).
set -eu
[ -n "${HONE_FAULTY:-}" ] || { echo "SKIP: HONE_FAULTY is not set (make check sets it)"; exit 77; }
n=24
grep -q __asan_init "$HONE_FAULTY" && n=10
exec sh tests/faults.sh $n
