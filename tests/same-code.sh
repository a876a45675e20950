#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/same-code.sh OLD [NEW] - lists the C files whose code differs between two revisions (NEW: the working tree),
# ignoring comments, the text of strings and white space. Files on one side only are listed too. Succeeds if the list is
# empty.
set -u
code() { # the code on standard input, without what may differ
    cc -fpreprocessed -dD -E -P -x c - 2>/dev/null | sed -E 's/"([^"\\]|\\.)*"/""/g' | tr -d ' \t\n\\' | sed -E 's/(""(PRI[a-zA-Z0-9]+)?)+/""/g'
}
old=$1 new=${2:-} n=0 bad=0
for f in $(git diff --name-only "$old" ${new:+"$new"} -- '*.c' '*.h' '*.in' '*.cu' '*.cuh' '*.def'); do
    n=$((n + 1))
    a=$(git show "$old:$f" 2>/dev/null | code | cksum)
    if [ -n "$new" ]; then b=$(git show "$new:$f" 2>/dev/null | code | cksum); else b=$(code <"$f" 2>/dev/null | cksum); fi
    [ "$a" = "$b" ] || { echo "$f: the code differs"; bad=$((bad + 1)); }
done
echo "$n files changed, code differs in $bad"
[ "$bad" = 0 ]
