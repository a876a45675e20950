#!/bin/sh
# include/hone.h still has the interface of the last release, dumped in packaging/hone.abi, so programs compiled for it
# keep working. After adding a name or a field, `make abi` rewrites the dump. Removals and changes need a new
# HONE_API_MAJOR.
set -eu
command -v abidiff > /dev/null && command -v abidw > /dev/null || { echo "SKIP: no abidiff (abigail-tools)"; exit 77; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
h=${HONE_GEN:-build/gen}/include/hone.h
. tests/expect.sh
sh tests/abi.sh "$h" "$t/now.so"
abidiff --no-show-locs packaging/hone.abi "$t/now.so" > "$t/o" 2>&1 || say "the interface changed (see the head of this script): $(cat "$t/o")"
# the comparison is complete: it detects a different field, argument or function
change() {
    sed "$1" "$h" > "$t/hone.h"
    cmp -s "$h" "$t/hone.h" && say "'$1' changes nothing"
    sh tests/abi.sh "$t/hone.h" "$t/other.so"
    abidiff --no-show-locs packaging/hone.abi "$t/other.so" > /dev/null 2>&1 && say "abidiff does not see '$1'"
    return 0
}
change 's/int64_t n_embd, n_layers;/int64_t n_layers;/'
change 's/int64_t max_windows, struct hone_perplexity/int32_t max_windows, struct hone_perplexity/'
change 's/^HONE_API void hone_free(void \*p);//'
change 's/HONE_ERROR, HONE_WARN,/HONE_WARN, HONE_ERROR,/'
exit $fail
