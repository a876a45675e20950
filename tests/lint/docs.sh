#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/lint/docs.sh - man pages and design pages. docs/design/ explains how and why in readable pages of at most 2000
# words and 100 columns; measurements are in docs/notebook/
awk '
    function page() { if (words > 2000) print file ": " words " words; at most 2000" }
    FNR == 1 { page(); file = FILENAME; words = 0 }
    { for (i = 1; i <= NF; i++) words += $i ~ /[A-Za-z0-9]/ }
    !/^\|/ && length > 100 { print FILENAME ":" FNR ": " length " columns; at most 100" }
    END { page() }' docs/design/*.md docs/architecture.md
awk -F '|' '/^\|/ { for (i = 2; i < NF; i++) if (length($i) > 122) print FILENAME ":" FNR ": a cell is over 120" }' \
    docs/STATUS.md docs/design/*.md docs/architecture.md

# files that a page names in backticks exist, by their path or the end of it; foo and my are examples
git ls-files | awk '
    FILENAME == "-" {
        for (p = $0; p != ""; p = (p ~ /\//) ? substr(p, index(p, "/") + 1) : "") there[p]
        next
    }
    {
        for (l = $0; match(l, /`[A-Za-z0-9_\/.-]+\.(c|h|cu|cuh|def|awk)`/); l = substr(l, RSTART + RLENGTH)) {
            p = substr(l, RSTART + 1, RLENGTH - 2)
            if (!(p in there) && p !~ /(^|[\/_])(foo|my)\.|(^|\/)hone\.h$/) print FILENAME ":" FNR ": there is no " p
        }
    }' - README.md CONTRIBUTING.md docs/*.md docs/design/*.md docs/formats/*.md docs/guides/*.md

# hone(1) lists every command twice: in its text and in SEE ALSO
for c in $(sed -n 's/^COMMAND("\([^"]*\)".*/\1/p' cli/commands.def); do
    n=$(sed 's/\\-/-/g' docs/man/hone.1 | grep -c "^\.BR hone-$c (1)")
    [ "$n" -ge 2 ] || echo "docs/man/hone.1 names hone-$c $n times; it belongs into the list and into SEE ALSO"
    grep -q '^\.SH EXAMPLES' "docs/man/hone-$c.1" || echo "docs/man/hone-$c.1 has no EXAMPLES"
done

command -v man >/dev/null 2>&1 || exit 0
for m in "${HONE_GEN:-build/gen}"/man/*.1; do
    w=$(MANWIDTH=100 man --warnings -l "$m" 2>&1 >/dev/null)
    [ -z "$w" ] || echo "$m: $w"
done
