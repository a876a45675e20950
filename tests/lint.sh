#!/bin/sh
# Checks that a compiler does not: who includes whom, that MAP.md and the man pages are true, formatting,
# machine paths, file sizes. Run from the root: `make lint`. Arguments: the C files.
fail=0
say() { echo "lint: $*"; fail=1; }

# ---- layers: an include of another folder must be allowed here (docs: CONTRIBUTING.md); calls that have their place ----
awk '
    BEGIN {
        low = "text core"; chat = "chat template gram tok " low
        ok["core"] = "core"; ok["text"] = low; ok["tok"] = "tok " low; ok["template"] = "template tok " low; ok["gram"] = "gram tok " low
        ok["chat"] = chat; ok["models"] = "models core"; ok["kernels"] = "kernels core"; ok["convert"] = "convert models template tok text core"
        ok["quantize"] = "quantize kernels models core"; ok["runtime"] = "runtime kernels models " chat
        ok["grad"] = "grad " ok["runtime"]; ok["calib"] = "calib quantize grad " ok["runtime"]; ok["report"] = "report core"; ok["serve"] = "serve " ok["runtime"]
        ok["lib"] = "lib jobs convert report include " ok["calib"]; ok["jobs"] = "jobs convert report serve " ok["calib"]
        ok["cli"] = ok["tests"] = "cli tests " ok["lib"] " serve"
    }
    function size() { if (lines > 1000) print file ": " lines " lines; it holds two things" }
    FNR == 1 {
        size(); file = FILENAME; room = file; sub(/\/.*/, "", room)
        if ($0 !~ /^\/\/ SPDX-License-Identifier: MIT/) print file ": first line is not the SPDX line"
    }
    { lines = FNR }
    match($0, /^#include "[a-z]*\//) {
        inc = substr($0, 11, RLENGTH - 11)
        if (index(" " ok[room] " ", " " inc " ") == 0) print file ": " room "/ must not include " inc "/"
    }
    room == "tests" || room == "docs" { next }
    match($0, /(^|[^a-z_])(strcpy|strcat|sprintf|gets|atoi|strtok|alloca)\(/) { print file ":" FNR ": calls " substr($0, RSTART + (RSTART > 1), RLENGTH - 1 - (RSTART > 1)) }
    /readdir\(/ && file != "core/io.c" { print file ": folders are read by io_list" }
    /(^|[^a-z_])(getenv|exit|printf)\(/ && room != "cli" { print file ":" FNR ": getenv, exit and printf belong to cli/" }
    END { size() }
' "$@" > "${TMPDIR:-/tmp}/hone-lint.$$"
[ -s "${TMPDIR:-/tmp}/hone-lint.$$" ] && say "$(cat "${TMPDIR:-/tmp}/hone-lint.$$")"
rm -f "${TMPDIR:-/tmp}/hone-lint.$$"
# third-party headers stay behind one file or folder of ours
# the one jump of the project (a failure in a template) stays in one file
bad=$(grep -lE '(setjmp|longjmp)\(' "$@" | grep -vE '^template/jinja\.c$')
[ -z "$bad" ] || say "setjmp or longjmp outside template/jinja.c:" $bad
for pair in 'zlib.h:^core/|^jobs/doctor\.c$' 'xxhash.h:^core/|^jobs/doctor\.c$' 'pcre2.h:^text/|^tok/|^tests/|^jobs/doctor\.c$' 'utf8proc.h:^text/|^template/|^jobs/doctor\.c$|^tests/' 'histedit.h:^cli/line\.c$'; do
    h=${pair%%:*}; pat=${pair#*:}
    bad=$(grep -lE "#include <$h>" "$@" 2>/dev/null | grep -vE "$pat")
    [ -z "$bad" ] || say "$h included outside its place:" $bad
done

# ---- who walks over the nodes of a graph: it itself and what compiles it; others ask struct graph_facts or walk over steps ----
bad=$(grep -lE '(for|while) \(.*(g|graph)(->|\.)n_nodes|= *[a-z>.-]*(g|graph)(->|\.)n_nodes;' "$@" | grep -vE '^(models/graph\.c|runtime/engine/program\.c|tests/.*)$')
[ -z "$bad" ] || say "walks over the nodes of a graph (models/graph.h has facts about them):" $bad

# ---- files that name a tensor type (QT_X, "X" or "x" in code) besides its row, its kernels, its encoder and the recipes: six at
# most for each, so that adding one stays a row and two files. Plain f32, in which everything is computed, may be in more ----
TYPE_FILES=6 F32_FILES=20
awk -v most=$TYPE_FILES -v f32=$F32_FILES '
    FILENAME == "core/qtype.def" {
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
        if (n < 20) print "core/qtype.def has " n + 0 " rows of QTYPE: the rule on types does not see them"
        for (i = 1; i <= n; i++) if (count[id[i]] > (id[i] == "F32" ? f32 : most))
            print count[id[i]] " files name " id[i] "; make what they know of it a column of core/qtype.def:" files[id[i]]
    }' core/qtype.def $(printf '%s\n' "$@" $(git ls-files '*.def') | grep -vE '^(tests|docs|bench)/|^kernels/[a-z0-9]+/|^core/qtype\.def$|^quantize/recipes\.def$|^kernels/ops\.def$') > "${TMPDIR:-/tmp}/hone-lint.$$"
[ -s "${TMPDIR:-/tmp}/hone-lint.$$" ] && say "$(cat "${TMPDIR:-/tmp}/hone-lint.$$")"
rm -f "${TMPDIR:-/tmp}/hone-lint.$$"

# ---- MAP.md has a line for every file of ours, in the section of its folder: "name", or "stem.[ch]" for a module and its header ----
git ls-files core kernels models text tok template chat gram convert calib quantize runtime grad report jobs lib serve cli |
    grep -vE '^(kernels/(ref|f32|avx2|avxvnni|avx512|amx|neon|dotprod|i8mm|rows)|quantize/enc/(avx2|cuda)|template/own|calib/text|serve/page)/' | awk '
    FILENAME == "MAP.md" {
        if (/^## /) { room = $2; sub(/:$/, "", room) } else if (/^```/) fence = !fence
        else if (fence && room ~ /\/$/ && /^[^ ]/) {
            if ((room, $1) in line) print "MAP.md: two lines for " $1 " in " room
            line[room, $1] = FNR
        }
        next
    }
    /^core\/qtype.def$/ { while ((getline l < $0) > 0) if (match(l, /^QTYPE\([A-Z0-9_]+/)) type["quantize/enc/" tolower(substr(l, 7, RLENGTH - 6)) ".c"] }
    { file[++n] = $0 }
    END {
        for (i = 1; i <= n; i++) {
            base = dir = file[i]; sub(/.*\//, "", base); sub(/[^\/]*$/, "", dir); stem = base; sub(/\.[ch]$/, ".[ch]", stem)
            if (((dir, base) in line) || ((dir, stem) in line) || (file[i] in type)) { delete line[dir, base]; used[dir, stem]; continue }
            print "MAP.md has no line for " base " in the section of " dir
        }
        for (k in line) { split(k, p, SUBSEP); if (!(k in used) && p[2] !~ /\/$/) print "MAP.md: there is no " p[1] p[2] }
    }' MAP.md - > "${TMPDIR:-/tmp}/hone-lint.$$"
[ -s "${TMPDIR:-/tmp}/hone-lint.$$" ] && say "$(cat "${TMPDIR:-/tmp}/hone-lint.$$")"
rm -f "${TMPDIR:-/tmp}/hone-lint.$$"

# ---- base names say which file is meant: one of a name, but for kernels and encoders, which repeat per type ----
git ls-files '*.c' '*.h' '*.cu' | grep -vE '^(tests|bench|docs|packaging|kernels)/|^quantize/enc/' | awk -F/ '
    { n[$NF]++; f[$NF] = f[$NF] " " $0 } END { for (b in n) if (n[b] > 1) print "two files are called " b ":" f[b] }' > "${TMPDIR:-/tmp}/hone-lint.$$"
[ -s "${TMPDIR:-/tmp}/hone-lint.$$" ] && say "$(cat "${TMPDIR:-/tmp}/hone-lint.$$")"
rm -f "${TMPDIR:-/tmp}/hone-lint.$$"

# ---- cli/ parses, calls and prints: small, its functions short, and what it calls is what the library calls ----
# sizes, text for a screen, names to complete, and who looks on while an answer is made (jobs/run.h) are all it knows of the rest
grep -Hn '#include "' cli/*.[ch] | grep -vE '"(cli|core|jobs)/|"(include/hone|lib/call|text/(size|visible|textfile)|quantize/(quantize|recipe)|runtime/generate/run_set|chat/toolfmt)\.h"' &&
    say "cli/ asks jobs/, as lib/ does, and not what lies below (above)"
n=$(cat cli/* | wc -l)
[ "$n" -lt 6000 ] || say "cli/ has $n lines; what is not parsing, calling or printing belongs to jobs/"
awk 'FNR == 1 { at = 0 }
    /^[a-z].*\) \{$|^ .*\) \{$/ && !at && !/^ *(if|for|while|switch|else|do)\>/ { at = FNR }
    /^}$/ && at { print FNR - at + 1; at = 0 }' cli/*.c | sort -n | awk '
    { v[NR] = $1 } END { i = int(NR * .9); if (v[i] > 20) print "nine of ten functions in cli/ have at most " v[i] " lines; 20 are enough to parse, call and print" }' > "${TMPDIR:-/tmp}/hone-lint.$$"
[ -s "${TMPDIR:-/tmp}/hone-lint.$$" ] && say "$(cat "${TMPDIR:-/tmp}/hone-lint.$$")"
rm -f "${TMPDIR:-/tmp}/hone-lint.$$"

# ---- comments, what a script can see of them: above declarations they begin with a capital or a name and end with a full stop (not
# examples and formulas); no line over 100; none behind code that goes on over several lines ----
sentences() {
awk '
    function check(c, line,    t, w, words) {
        t = c
        sub(/[ \t\n]*\*\/[ \t]*$/, "", t); gsub(/\n[ \t]*\*?[ \t]?/, " ", t); sub(/^\/\*+[ \t]*/, "", t)
        if (t ~ /^----/ || t ~ /clang-format/ || t == "") return
        w = t; sub(/[^A-Za-z0-9_].*$/, "", w)
        if (t ~ /^[a-z]/ && w !~ /_/ && index(names, " " w " ") == 0) print FILENAME ":" line ": the comment begins with a small letter: " substr(t, 1, 50)
        if (t ~ /->| [-+*|]?= |<|["|()]|\*|^`|[0-9a-f]{40}/ || split(t, words, / +/) < 5) return
        if (t !~ /[.?:!]\)?$|[a-z_0-9]+\.(c|h|md|def|cu|cuh)$/) print FILENAME ":" line ": the comment ends without a full stop: " substr(t, length(t) - 40)
    }
    FNR == 1 { inside = torn = 0; names = ""; while ((getline l < FILENAME) > 0) { gsub(/[^A-Za-z0-9_]+/, " ", l); names = names " " l " " } close(FILENAME) }
    /clang-format off/ { off = 1 } /clang-format on/ { off = 0 }
    length > 102 && !off && /^ ?(\/\*|\*)/ && !/\*\/ *[^ ]/ { print FILENAME ":" FNR ": a line of a comment is over 100" }
    torn { n++; if ($0 ~ /\*\//) { if (n > 1) print FILENAME ":" at ": a comment behind code goes on over " n + 1 " lines; put it above"; torn = 0 } }
    /[;,{}].*\/\*/ && !/\*\// && !inside { torn = 1; n = 0; at = FNR }
    !inside && /^\/\*/ { inside = 1; c = ""; from = FNR }
    inside { c = c (c == "" ? "" : "\n") $0; if ($0 ~ /\*\//) { inside = 0; if ($0 ~ /\*\/[ \t]*$/) check(c, from) } }
' "$@"
}
# shellcheck disable=SC2046
sentences $(git ls-files '*.c' '*.h' '*.cu' '*.cuh' | grep -vE '^(tests|docs|bench|packaging)/') > "${TMPDIR:-/tmp}/hone-lint.$$"
# shellcheck disable=SC2046
awk '
    # a comment above a function says with its first word what the function does: "Returns", "Writes"; "Return", "Set" where it stands above several
    function verb(c, line,    t, w) {
        t = c
        sub(/^\/\*+[ \t]*/, "", t)
        if (t ~ /^(----|SHA|NOLINT|clang-format)/) return
        w = t; sub(/[^A-Za-z0-9_].*$/, "", w)
        if (w ~ /^(Get|Set|Do|Return|Tell|Show|Copy|Allocate|Call|Make)$/) return
        if (w !~ /^[A-Z][a-z]*s$/ || w ~ /^(Bytes|Rows|Pages|Keys|Values|Weights|Tokens|Experts|Layers|Blocks|Logits|Whose|This|Others|Columns|Floats|Offsets|Pieces|Places|Items|Less|Across|As)$/)
            print FILENAME ":" line ": a function has a comment that does not begin with a verb: " substr(c, 1, 60)
    }
    FNR == 1 { c = ""; inside = 0 }
    /^\/\*/ { inside = 1; c = ""; from = FNR }
    inside { c = c $0; if ($0 ~ /\*\//) { inside = 0; whole = $0 ~ /\*\/[ \t]*$/; at = FNR }; next }
    c != "" && FNR == at + 1 && whole && /^[A-Za-z]/ && /\(/ && !/^(typedef|enum|struct [a-z_]+ \{|union|static const|extern|_Static_assert|[A-Z_]+\()/ && !/[=;{] *\/\*/ && !/^static [a-z]+ [a-z_]+\[/ && !/^[^(]*=|\(\*const/ { verb(c, from) }
    { if (FNR > at) c = "" }
' $(git ls-files '*.c' '*.h' '*.cu' '*.cuh' | grep -vE '^(tests|docs|bench|packaging|include)/') >> "${TMPDIR:-/tmp}/hone-lint.$$"
[ -s "${TMPDIR:-/tmp}/hone-lint.$$" ] && say "$(cat "${TMPDIR:-/tmp}/hone-lint.$$")"
rm -f "${TMPDIR:-/tmp}/hone-lint.$$"

# ---- no room outgrows a house: a folder with more lines than this is several libraries ----
for room in core models text tok template chat gram convert calib quantize runtime grad report jobs lib serve cli kernels; do
    n=$(find $room -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' | xargs cat | wc -l)
    [ "$n" -le 20000 ] || say "$room/ has $n lines; 20000 are a room (sh tests/rooms.sh)"
done

# ---- docs/design/ says why and how; what was measured, and when, stands in docs/notebook/ ----
grep -nE '(^|[^0-9])20[0-9][0-9]-[01][0-9]-[0-3][0-9]|[0-9] ?(GFLOP/s|GMAC/s|tok/s|tokens/s)|^#+ (Measured|Results)' docs/design/*.md && say "measurements in docs/design (above); they belong to docs/notebook"

# ---- variables of the process, where the program has been built ----
if [ -e "${HONE:-}" ] && [ -z "${SANF:-}" ]; then
    sh tests/cli/globals.sh > "${TMPDIR:-/tmp}/hone-lint.$$" 2>&1 || say "$(cat "${TMPDIR:-/tmp}/hone-lint.$$")"
    rm -f "${TMPDIR:-/tmp}/hone-lint.$$"
else
    echo "lint: not built here, variables of the process not checked"
fi

# ---- functions that nothing uses, and README.md's table of models, where the program has been built ----
# shellcheck disable=SC2012
built=$(ls -t build/obj-*/hone build/hone 2> /dev/null | head -n 1) # of other flags an older one may lie there
if [ -n "$built" ]; then
    HONE=$built sh tests/unused.sh > "${TMPDIR:-/tmp}/hone-lint.$$" 2>&1 || say "$(cat "${TMPDIR:-/tmp}/hone-lint.$$")"
    HONE=$built sh tests/models.sh --check > "${TMPDIR:-/tmp}/hone-lint.$$" 2>&1 || say "$(cat "${TMPDIR:-/tmp}/hone-lint.$$")"
    rm -f "${TMPDIR:-/tmp}/hone-lint.$$"
fi

# ---- a merge left half done ----
git grep -nIE '^(<<<<<<<|>>>>>>>)( |$)' -- . 2>/dev/null && say "conflict markers (above)"

# ---- no machine paths, no words about where the work was done ----
git grep -nIE '/(root|home/[a-z]+|work)/' -- . ':!tests/golden' ':!tests/lint.sh' ':!tests/cli/publish.sh' ':!tests/unit/test_release.c' ':!report/folder_lint.c' 2>/dev/null | grep -vE '/home/user' && say "machine paths (above)"

# ---- each header compiles alone; formatting, where the formatter is there ----
bad=$(printf '%s\n' "$@" | grep '\.h$' | grep -vE '^kernels/(avx[a-z0-9]*|amx|rows|f32|neon|dotprod|i8mm)/' | xargs -P 4 -I {} sh -c '
    printf "#include \"%s\"\n" {} | ${CC:-cc} -std=c11 -D_GNU_SOURCE -I. -fsyntax-only -Wno-unused -x c - 2>/dev/null || echo {}')
[ -z "$bad" ] || say "does not compile alone:" $bad
if command -v clang-format >/dev/null 2>&1; then
    bad=$(printf '%s\n' "$@" | xargs -P 4 -n 60 clang-format --dry-run -Werror 2>&1 | grep 'error: code should be' | cut -d: -f1 | sort -u | head -20 | tr '\n' ' ')
    [ -z "$bad" ] || say "not formatted (make format): $bad"
else
    echo "lint: no clang-format here, formatting not checked"
fi

# ---- hone(1) lists every command, in its text and in SEE ALSO ----
for c in $(sed -n 's/^COMMAND("\([^"]*\)".*/\1/p' cli/commands.def); do
    n=$(sed 's/\\-/-/g' docs/man/hone.1 | grep -c "^\.BR hone-$c (1)")
    [ "$n" -ge 2 ] || say "docs/man/hone.1 names hone-$c $n times; it belongs into the list and into SEE ALSO"
    grep -q '^\.SH EXAMPLES' "docs/man/hone-$c.1" || say "docs/man/hone-$c.1 has no EXAMPLES"
done

# ---- man pages ----
for m in docs/man/*.1; do
    [ -e "$m" ] || continue
    if command -v man >/dev/null 2>&1; then
        w=$(MANWIDTH=100 man --warnings -l "$m" 2>&1 >/dev/null)
        [ -z "$w" ] || say "$m: $w"
    fi
done
[ $fail = 0 ] && echo "lint: clean"
exit $fail
