#!/bin/sh
# usage: sh tests/rooms.sh [REVISION]
# Draws the structure of the tree at a revision (the tree as it is, without one): a row per room with its files, its lines of C and CUDA, and
# the rooms that it includes with the number of includes. Rooms that include each other would show in both rows; tests/lint.sh holds the
# tree to the layers of docs/architecture.md.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
if [ $# -gt 0 ]; then
    git archive "$1" | tar -x -C "$t"
else
    git ls-files '*.c' '*.h' '*.cu' '*.cuh' '*.def' | tar -c -T - | tar -x -C "$t"
fi
cd "$t"
printf '%-9s %5s %6s  %s\n' room files lines 'includes (times)'
for room in cli lib jobs make mix runtime/measure plan work serve report calib quantize convert grad runtime/generate runtime/engine chat grammar template tok text kernels models containers base; do
    [ -d "$room" ] || continue
    find "$room" -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' > files
    xargs cat < files > all
    # shellcheck disable=SC2046
    sed -n 's/^#include "\([a-z]*\)\/.*/\1/p' all | grep -vx "$room" | sort | uniq -c | sort -rn | awk '{ printf "%s%s %d", (NR > 1 ? ", " : ""), $2, $1 }' > includes
    printf '%-9s %5d %6d  %s\n' "$room" "$(wc -l < files)" "$(wc -l < all)" "$(cat includes)"
done
