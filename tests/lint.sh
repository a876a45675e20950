#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/lint.sh - rules that a compiler does not check: runs tests/lint/*.sh at once, each of which prints only what is
# wrong. To add a rule, add a script. Run from the root: `make lint`, or `make lint L=comments` for one of them.
# Arguments: the C files.
found=$(mktemp -d) || exit 2
trap 'rm -rf "$found"' EXIT
for rule in tests/lint/${L:-*}.sh; do
    sh "$rule" "$@" > "$found/$(basename "$rule" .sh)" &
done
wait
fail=0
for f in "$found"/*; do
    [ ! -s "$f" ] || { sed "s/^/${f##*/}: /" "$f"; fail=1; }
done
[ $fail = 0 ] && echo "lint: clean"
exit $fail
