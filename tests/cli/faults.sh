#!/bin/sh
# Some injected faults over hone make; `make faults` injects 500 (tests/faults.sh).
set -eu
[ -n "${HONE_FAULTY:-}" ] || { echo "SKIP: HONE_FAULTY is not set (make check sets it)"; exit 77; }
if grep -q __asan_init "$HONE_FAULTY"; then
    echo "SKIP: too slow under a sanitizer; make faults does it"
    exit 77
fi
exec sh tests/faults.sh 24
