#!/bin/sh
# usage: sh tests/rooms.sh [REVISION]
# The modules at a revision (default: the working tree): files, lines of C and CUDA, and the modules that
# each includes, with the number of includes. Modules are listed from the top; a module that includes a higher one is
# reported, so no cycle can remain. In the working tree, calls are checked in the same way, with the symbols of the
# newest build.
set -eu
rooms='cli lib jobs make mix runtime/measure plan work serve calib grad runtime/generate runtime/engine/cuda
runtime/engine/cpu runtime/engine runtime/vision report convert quantize kernels models chat grammar template tok text containers commands base'
[ $# = 0 ] || [ -n "$(git ls-tree "$1" base)" ] || rooms='cli lib jobs serve calib grad runtime report convert quantize chat gram
template tok text kernels models core'
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
if [ $# -gt 0 ]; then
    git archive "$1" | tar -x -C "$t"
else
    git ls-files '*.c' '*.h' '*.cu' '*.cuh' '*.def' | tar -c -T - | tar -x -C "$t"
fi
# room of each path on standard input: the longest of $rooms that it begins with
room_of='function room(path,  r, best) {
    for (r in is) if (index(path, r "/") == 1 && length(r) > length(best)) best = r
    return best
}
BEGIN { n = split(rooms, name, /[ \n]+/); for (i = 1; i <= n; i++) { is[name[i]] = 1; at[name[i]] = i } }'
(cd "$t" && find . -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' | sed 's|^\./||' | sort) > "$t.files"
(cd "$t" && xargs awk -v rooms="$rooms" "$room_of"'
    FNR == 1 { here = room(FILENAME); files[here]++ }
    here { lines[here]++ }
    here && /^#include "/ { split($0, q, "\""); to = room(q[2]); if (to && to != here) uses[here, to]++ }
    END {
        printf "%-20s %5s %6s  %s\n", "room", "files", "lines", "includes (times)"
        for (i = 1; i <= n; i++) {
            out = ""
            for (j = 1; j <= n; j++) if ((name[i], name[j]) in uses) {
                out = out (out ? ", " : "") name[j] " " uses[name[i], name[j]]
                if (j < i) up = up name[i] " includes " name[j] ", which is above it\n"
            }
            printf "%-20s %5d %6d  %s\n", name[i], files[name[i]], lines[name[i]], out
        }
        printf "%s", up
        exit up != ""
    }') < "$t.files" || bad=1
rm -f "$t.files"
obj=$(ls -td build/obj-*/base 2> /dev/null | head -n 1)
if [ $# = 0 ] && [ -n "$obj" ]; then
    obj=${obj%/base}
    (cd "$obj" && find . -name '*.o' | sed 's|^\./||' | while read -r o; do
        case $o in isa-emu/* | tests/* | bench/*) continue ;; esac
        [ -e "$OLDPWD/${o%.o}.c" ] || continue
        nm "$o" | sed "s|^|$o |"
    done) | awk -v rooms="$rooms" "$room_of"'
        $(NF - 1) == "U" { wants[$1, $NF] = 1; next }
        $(NF - 1) ~ /^[TDBRV]$/ { home[$NF] = $1 }
        END {
            for (w in wants) {
                split(w, p, SUBSEP); a = room(p[1]); b = room(home[p[2]])
                # the one list of backends
                if (p[1] == "runtime/engine/session.o" && p[2] ~ /^backend_/) continue
                if (a && b && at[b] < at[a]) { print p[1] " uses " p[2] " of " b ", which is above it"; up = 1 }
            }
            exit up
        }' || bad=1
fi
exit "${bad:-0}"
