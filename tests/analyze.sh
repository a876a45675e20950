#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/analyze.sh LOG - prints the findings of gcc -fanalyzer in LOG, except those listed in tests/analyze.supp. Exits
# with 1 if any are left.
root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 2
[ -r "${1:-}" ] || { sed -n '3,4p' "$0"; exit 2; }
sed -nE 's/^(\.\/)?([^ :]+):([0-9]+):[0-9]+: warning: (.*)\[-Wanalyzer-([a-z-]+)\]$/\2 \5 \3 \4/p' "$1" | sort -u |
    awk -v supp="$root/analyze.supp" '
        BEGIN { while ((getline line < supp) > 0) if (line !~ /^#/ && split(line, f, " ") > 2) why[f[1] " " f[2]] = 1 }
        { n++; key = $1 " " $2 }
        key in why { used[key] = 1; next }
        { printf "%s:%s: %s:", $1, $3, $2; for (i = 4; i <= NF; i++) printf " %s", $i; print ""; bad++ }
        END {
            for (k in why) if (!(k in used)) print "not needed any more: " k
            printf "%d remarks, %d explained, %d left\n", n, n - bad, bad
            exit bad > 0
        }'
