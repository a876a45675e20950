#!/bin/sh
# usage: abi-added.sh OLD.abi NEW.so : exit 1 unless NEW has everything in OLD, unchanged, and additions come after it.
# A field inside a struct's old size, in the compiler's padding, is not an addition: older programs set no value there.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
rc=0
abidiff --no-show-locs --no-added-syms "$1" "$2" > "$t/o" 2>&1 || rc=$?
[ $((rc & ~4)) = 0 ] || { cat "$t/o"; echo "the interface changed other than by additions: HONE_API_MAJOR"; exit 1; }
awk '/type size changed from/ { for (i = 1; i < NF; i++) if ($i == "from") old = $(i + 1) }
    /, at offset/ { for (i = 1; i < NF; i++) if ($i == "offset" && $(i + 1) + 0 < old + 0) { print; bad = 1 } }
    / changed: | changed from |deletion|removed/ && !/type size changed/ && !/0 Removed/ { print; bad = 1 }
    END { exit bad }' "$t/o" > "$t/bad" || { cat "$t/bad"; echo "these are no additions behind what there was"; exit 1; }
