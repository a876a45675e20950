#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/lint/cli.sh - cli/ only parses, calls and prints: it is small, its functions are short, and it calls the same
# functions as lib/. Of the other modules it uses only sizes, text for a screen, names to complete, and observers of an
# answer (jobs/run.h).
grep -Hn '#include "' cli/*.[ch] | grep -vE '"(cli|commands|base|containers|work|plan|runtime/measure|mix|make|jobs)/' |
    grep -vE '"(include/hone|lib/(call|options)|text/(shell|size|textfile)|quantize/(quantize|recipe))\.h"' |
    grep -vE '"(runtime/generate/run_set|chat/toolfmt)\.h"' &&
    echo "cli/ includes jobs/ and the rooms of its commands, as lib/ does, and nothing below (above)"
n=$(cat cli/*.[ch] cli/*.def | wc -l)
[ "$n" -lt 6000 ] || echo "cli/ has $n lines; what is not parsing, calling or printing belongs to jobs/"
awk 'FNR == 1 { at = 0 }
    /^[a-z].*\) \{$|^ .*\) \{$/ && !at && !/^ *(if|for|while|switch|else|do)\>/ { at = FNR }
    /^}$/ && at { print FNR - at + 1; at = 0 }' cli/*.c | sort -n | awk '
    { v[NR] = $1 }
    END {
        i = int(NR * .9)
        if (v[i] > 20) print "nine of ten functions in cli/ have at most " v[i] " lines; 20 are enough"
    }'
