#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/lint/types.sh - at most six files name a tensor type (QT_X, "X" or "x" in code) besides its row, kernels,
# encoder and the recipes, so that a new type needs only a row and two files. F32, in which everything is computed, may
# be named in more. Arguments: the C files.
TYPE_FILES=6 F32_FILES=20
awk -v most=$TYPE_FILES -v f32=$F32_FILES '
    FILENAME == "containers/qtype.def" {
        if (match($0, /^QTYPE\([A-Z0-9_]+/)) { id[++n] = substr($0, 7, RLENGTH - 6); is[id[n]] = 1 }
        next
    }
    FNR == 1 { inside = 0 }
    {
        line = $0; code = ""
        while (line != "") { # without comments
            if (inside) { e = index(line, "*/"); if (!e) break; line = substr(line, e + 2); inside = 0; continue }
            b = index(line, "/*"); c = index(line, "//")
            if (c && (!b || c < b)) { code = code substr(line, 1, c - 1); break }
            if (!b) { code = code line; break }
            code = code substr(line, 1, b - 1) " "; line = substr(line, b + 2); inside = 1
        }
        while (match(code, /QT_[A-Z0-9_]+|"[A-Za-z0-9_]+"/)) {
            w = substr(code, RSTART, RLENGTH); code = substr(code, RSTART + RLENGTH)
            t = w ~ /^Q/ ? substr(w, 4) : toupper(substr(w, 2, length(w) - 2))
            if (!is[t] || FILENAME == "quantize/enc/" tolower(t) ".c" || seen[t, FILENAME]++) continue
            files[t] = files[t] " " FILENAME; count[t]++
        }
    }
    END {
        if (n < 20) print "qtype.def has " n + 0 " rows of QTYPE: the rule on types does not see them"
        for (i = 1; i <= n; i++) if (count[id[i]] > (id[i] == "F32" ? f32 : most))
            print count[id[i]] " files name " id[i] "; make what they know a column of qtype.def:" files[id[i]]
    }' containers/qtype.def $(printf '%s\n' "$@" $(git ls-files '*.def') |
    grep -vE '^(tests|docs|bench)/|^kernels/[a-z0-9]+/|^(containers/qtype|quantize/recipes|kernels/ops)\.def$')
