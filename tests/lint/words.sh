#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/lint/words.sh - comments, strings, documents and man pages avoid the phrases in tests/lint/words.txt; a sentence
# of a document has at most 40 words, a table cell 120 characters (code not counted). Comments of scripts are read even
# after code.
# WORDS_OF: files to read; default: all tracked ones.
# shellcheck disable=SC2046,SC2086
set -- ${WORDS_OF:-$(git ls-files '*.c' '*.h' '*.in' '*.cu' '*.cuh' '*.def' '*.md' '*.1' '*.sh' '*.mk' '*.py' Makefile |
    grep -vE '^(docs/notebook|tests/golden|tests/data|tests/published)/|^CHANGELOG|jinja_case')}
awk '
    function plain(s) {
        s = tolower(s)
        gsub(/`[^`]*`/, " ", s)
        gsub(/[.,;:!?]([^a-z0-9]|$)/, " ", s)
        gsub(/[^a-z0-9.%\047-]+/, " ", s)
        gsub(/ +/, " ", s)
        return " " s " "
    }
    function judge(s, line,    t, i, hit) {
        t = plain(s)
        if (t !~ all) return
        for (i = 1; i <= n; i++) {
            if (!match(t, " " pat[i] " ")) continue
            hit = substr(t, RSTART + 1, RLENGTH - 2)
            if ((FILENAME SUBSEP hit) in ok) continue
            print FILENAME ":" line ": \"" hit "\": " use[i]
        }
    }
    function sentences(s, line,    part, k, w, m, i) { # of a paragraph
        judge(s, line)
        if (kind != "md") return
        k = split(s, part, /[.!?:;)]+ +|\. /)
        for (m = 1; m <= k; m++)
            if ((i = split(part[m], w, / +/)) > 40)
                print FILENAME ":" line ": a sentence of " i " words: " substr(part[m], 1, 40)
    }
    function flush() { if (para != "") sentences(para, at); para = "" }
    function add(s) { if (para == "") at = FNR; para = para " " s }
    FILENAME ~ /words.txt$/ {
        if ($0 ~ /^#/) next
        k = split($0, f, "\t")
        if (f[1] == "ok") { ok[f[2], f[3]]; if (++n_ok > 20) print FILENAME ": over 20 exceptions"; next }
        pat[++n] = f[1]; use[n] = f[2]; all = all (n > 1 ? "|" : "") " " f[1] " "
        next
    }
    FNR == 1 {
        fence = comment = 0; para = ""
        kind = FILENAME ~ /\.md$/ ? "md" : FILENAME ~ /\.1$/ ? "man" : "c"
        if (FILENAME ~ /\.(sh|mk|py)$|Makefile$/) kind = "hash"
    }
    kind == "hash" {
        if ($0 ~ /^[ \t]*#/) add(substr($0, index($0, "#") + 1))
        else {
            if (para != "") judge(para, at)
            para = ""
            if (match($0, /[ \t;)]##? +[A-Za-z`].*$/)) judge(substr($0, RSTART + 1), FNR) # a comment after code
        }
        next
    }
    kind == "c" {
        s = $0
        for (;;) {
            if (comment) {
                if ((i = index(s, "*/")) == 0) { sub(/^[ \t]*\*? ?/, "", s); text = text " " s; next }
                t = substr(s, 1, i - 1); sub(/^[ \t]*\*? ?/, "", t)
                judge(text " " t, from); comment = 0; s = substr(s, i + 2)
            }
            if (!match(s, /"([^"\\]|\\.)*"|\/\*|\/\/.*/)) break
            t = substr(s, RSTART, RLENGTH); s = substr(s, RSTART + RLENGTH)
            if (t == "/*") { comment = 1; text = ""; from = FNR }
            else if (t ~ /^\/\//) judge(substr(t, 3), FNR)
            else if (t ~ / .* /) judge(substr(t, 2, length(t) - 2), FNR)
        }
        next
    }
    kind == "man" {
        if ($0 ~ /^\.(nf|EX)/) { flush(); fence = 1 } else if ($0 ~ /^\.(fi|EE)/) fence = 0
        else if (fence || $0 ~ /^\.\\"/) next
        else if ($0 ~ /^\.(SH|SS|TP|P|PP|IP|LP|RS|RE|TH)/) flush()
        else { s = $0; gsub(/\\f[BIRP]/, "", s); gsub(/\\-/, "-", s); sub(/^\.[A-Z]+ /, "", s); add(s) }
        next
    }
    /^ *```/ { flush(); fence = !fence; next }
    fence || /^    [^ ]/ && para == "" { next }
    /^[ \t]*\|/ {
        flush(); judge($0, FNR)
        s = $0; gsub(/`[^`]*`/, "``", s); k = split(s, f, "|")
        for (i = 2; i < k; i++)
            if (length(f[i]) > 122) print FILENAME ":" FNR ": a table cell of " length(f[i]) " characters"
        next
    }
    /^[ \t]*$/ { flush(); next }
    /^#|^ *<|^!\[|^ *([-*]|[0-9]+\.) / { flush() }
    { add($0) }
' tests/lint/words.txt "$@"
