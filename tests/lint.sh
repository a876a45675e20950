#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/lint.sh - rules that a compiler does not check: runs tests/lint/*.sh, each of which prints only what is wrong.
# To add a rule, add a script. Run from the root: `make lint`, or `make lint L=comments` for one of them. Arguments: the
# C files.
fail=0
for rule in tests/lint/${L:-*}.sh; do
    found=$(sh "$rule" "$@")
    [ -z "$found" ] || { printf '%s\n' "$found" | sed "s/^/$(basename "$rule" .sh): /"; fail=1; }
done
[ $fail = 0 ] && echo "lint: clean"
exit $fail
