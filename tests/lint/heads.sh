#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/lint/heads.sh - every file of the product begins with a head, "path - noun phrase", with its own path.
git ls-files '*.c' '*.h' '*.cu' '*.cuh' '*.def' '*.js' '*.mk' '*.sh' '*.awk' Makefile |
    grep -vE '^(tests|bench|docs|packaging|python)/' | awk -f mk/heads.awk | awk -F '\t' '
        $2 == "" { print $1 ": its first comment is not \"" $1 " - what it is.\""; next }
        $2 != $1 { print $1 ": its first comment names " $2 }
        length($3) < 9 { print $1 ": its first comment does not say what it is" }'
# elsewhere a head need not name its path, but where it does, it is the right one
git ls-files 'tests/*.[ch]' 'tests/*.sh' 'tests/*.py' 'bench/*' 'packaging/*.[ch]' 'packaging/*.sh' |
    grep -E '\.(c|h|sh|py)$' | awk -f mk/heads.awk | awk -F '\t' '
        $2 ~ /\// && $2 != $1 { print $1 ": its first comment names " $2 }'
