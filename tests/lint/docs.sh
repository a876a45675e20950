#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/lint/docs.sh - man pages and design pages.
# docs/design/ says why and how; measurements and their dates are in docs/notebook/
grep -nE '(^|[^0-9])20[0-9][0-9]-[01][0-9]-[0-3][0-9]|[0-9] ?(GFLOP/s|GMAC/s|tok/s|tokens/s)|^#+ (Measured|Results)' \
    docs/design/*.md && echo "measurements in docs/design (above); they belong to docs/notebook"
awk -F '|' '/^\|/ { for (i = 2; i < NF; i++) if (length($i) > 122) print FILENAME ":" FNR ": a cell is over 120" }' \
    docs/STATUS.md

# hone(1) lists every command twice: in its text and in SEE ALSO
for c in $(sed -n 's/^COMMAND("\([^"]*\)".*/\1/p' cli/commands.def); do
    n=$(sed 's/\\-/-/g' docs/man/hone.1 | grep -c "^\.BR hone-$c (1)")
    [ "$n" -ge 2 ] || echo "docs/man/hone.1 names hone-$c $n times; it belongs into the list and into SEE ALSO"
    grep -q '^\.SH EXAMPLES' "docs/man/hone-$c.1" || echo "docs/man/hone-$c.1 has no EXAMPLES"
done

command -v man >/dev/null 2>&1 || exit 0
for m in docs/man/*.1; do
    w=$(MANWIDTH=100 man --warnings -l "$m" 2>&1 >/dev/null)
    [ -z "$w" ] || echo "$m: $w"
done
