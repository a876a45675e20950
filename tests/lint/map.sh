#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/lint/map.sh - MAP.md has a line for every file, in the section of its folder: "name", or "stem.[ch]" for a pair.
git ls-files core kernels models text tok template chat gram convert calib quantize runtime grad report jobs lib serve \
    cli |
    grep -vE '^kernels/(ref|f32|avx2|avxvnni|avx512|amx|neon|dotprod|i8mm|rows)/|^quantize/enc/(avx2|cuda)/' |
    grep -vE '^(template/own|calib/text|serve/page)/' | awk '
    FILENAME == "MAP.md" {
        if (/^## /) { room = $2; sub(/:$/, "", room) } else if (/^```/) fence = !fence
        else if (fence && room ~ /\/$/ && /^[^ ]/) {
            if ((room, $1) in line) print "MAP.md: two lines for " $1 " in " room
            line[room, $1] = FNR
        }
        next
    }
    /^core\/qtype.def$/ {
        while ((getline l < $0) > 0)
            if (match(l, /^QTYPE\([A-Z0-9_]+/)) type["quantize/enc/" tolower(substr(l, 7, RLENGTH - 6)) ".c"]
    }
    { file[++n] = $0 }
    END {
        for (i = 1; i <= n; i++) {
            base = dir = file[i]; sub(/.*\//, "", base); sub(/[^\/]*$/, "", dir)
            stem = base; sub(/\.[ch]$/, ".[ch]", stem)
            if (((dir, base) in line) || ((dir, stem) in line) || (file[i] in type)) {
                delete line[dir, base]; used[dir, stem]
            } else print "MAP.md has no line for " base " in the section of " dir
        }
        for (k in line) {
            split(k, p, SUBSEP)
            if (!(k in used) && p[2] !~ /\/$/) print "MAP.md: there is no " p[1] p[2]
        }
    }' MAP.md -
