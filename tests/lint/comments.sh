#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/lint/comments.sh - comments above declarations begin with a capital or a name and end with a full stop (except
# for examples and formulas), those of functions begin with a verb, no line has over 100 columns, and a comment after
# code fits its line.
sentences() {
awk '
    function check(c, line,    t, w, words) {
        t = c
        sub(/[ \t\n]*\*\/[ \t]*$/, "", t); gsub(/\n[ \t]*\*?[ \t]?/, " ", t); sub(/^\/\*+[ \t]*/, "", t)
        if (t ~ /^----/ || t ~ /clang-format/ || t == "") return
        w = t; sub(/[^A-Za-z0-9_].*$/, "", w)
        if (t ~ /^[a-z]/ && w !~ /_/ && index(names, " " w " ") == 0)
            print FILENAME ":" line ": the comment begins with a small letter: " substr(t, 1, 50)
        if (t ~ /->| [-+*|]?= |<|["|()]|\*|^`|[0-9a-f]{40}/ || split(t, words, / +/) < 5) return
        if (t !~ /[.?:!]\)?$|[a-z_0-9]+\.(c|h|md|def|cu|cuh)$/)
            print FILENAME ":" line ": the comment ends without a full stop: " substr(t, length(t) - 40)
    }
    FNR == 1 {
        inside = torn = 0; names = ""
        while ((getline l < FILENAME) > 0) { gsub(/[^A-Za-z0-9_]+/, " ", l); names = names " " l " " }
        close(FILENAME)
    }
    /clang-format off/ { off = 1 } /clang-format on/ { off = 0 }
    length > 102 && !off && /^ ?(\/\*|\*)/ && !/\*\/ *[^ ]/ {
        print FILENAME ":" FNR ": a line of a comment is over 100"
    }
    torn {
        n++
        if ($0 ~ /\*\//) {
            if (n > 1) print FILENAME ":" at ": a comment after code has " n + 1 " lines; put it above"
            torn = 0
        }
    }
    /[;,{}].*\/\*/ && !/\*\// && !inside { torn = 1; n = 0; at = FNR }
    !inside && /^\/\*/ { inside = 1; c = ""; from = FNR }
    inside { c = c (c == "" ? "" : "\n") $0; if ($0 ~ /\*\//) { inside = 0; if ($0 ~ /\*\/[ \t]*$/) check(c, from) } }
' "$@"
}
# shellcheck disable=SC2046
sentences $(git ls-files '*.c' '*.h' '*.cu' '*.cuh' | grep -vE '^(tests|docs|bench|packaging)/')
# shellcheck disable=SC2046
awk '
    # the first word of the comment on a function is its verb ("Returns"; "Return" above several) or "Like"
    function verb(c, line,    t, w) {
        t = c
        sub(/^\/\*+[ \t]*/, "", t)
        if (t ~ /^(----|SHA|NOLINT|clang-format)/) return
        w = t; sub(/[^A-Za-z0-9_].*$/, "", w)
        if (w ~ several) return
        if (w !~ /^[A-Z][a-z]*s$/ || w ~ nouns)
            print FILENAME ":" line ": a function has a comment that does not begin with a verb: " substr(c, 1, 60)
    }
    BEGIN {
        nouns = "^(Bytes|Rows|Pages|Keys|Values|Weights|Tokens|Experts|Layers|Blocks|Logits|Whose|This|Others|Columns" \
                "|Floats|Offsets|Pieces|Places|Items|Less|Across|As)$"
        several = "^(Like|Get|Set|Do|Return|Tell|Show|Copy|Allocate|Call|Make|Check|Read|Fill|Append|Build|Apply|Mark" \
                  "|Prepare|Compute|Create|Parse|Open|Write|Find|Add|Start|Release)$"
        no_function = "^(typedef|enum|struct [a-z_]+ \\{|union|static const|extern|_Static_assert|[A-Z_]+\\()" \
                      "|[=;{] *\\/\\*|^static [a-z]+ [a-z_]+\\[|^[^(]*=|\\(\\*const"
    }
    FNR == 1 { c = ""; inside = 0 }
    /^\/\*/ { inside = 1; c = ""; from = FNR }
    inside { c = c $0; if ($0 ~ /\*\//) { inside = 0; whole = $0 ~ /\*\/[ \t]*$/; at = FNR }; next }
    c != "" && FNR == at + 1 && whole && /^[A-Za-z]/ && /\(/ && $0 !~ no_function { verb(c, from) }
    { if (FNR > at) c = "" }
' $(git ls-files '*.c' '*.h' '*.cu' '*.cuh' | grep -vE '^(tests|docs|bench|packaging|include)/')
