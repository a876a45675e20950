#!/bin/sh
# SPDX-License-Identifier: MIT
# mk/map.sh - prints every file's purpose, by folder, from its first comment (mk/heads.awk): `make map`.
printf '# Map\n\nWritten by `make map` from the first comment of each file. How the folders depend on each other and how data\n'
printf 'flows through them: docs/architecture.md.\n'
git ls-files '*.c' '*.h' '*.cu' '*.cuh' '*.cpp' '*.hpp' '*.def' '*.js' '*.mk' '*.sh' '*.awk' '*.py' '*.md' Makefile .ci/run |
    grep -vE '^tests/(golden|hostile|fuzz/corpus)/' | awk -f mk/heads.awk | awk -F '\t' '
    {
        dir = base = $1; sub(/[^\/]*$/, "", dir); sub(/.*\//, "", base)
        line = sprintf("%-24s%s", base, ($3 == "" ? "" : " " $3))
        if (!(dir in text)) room[++n] = dir
        text[dir] = text[dir] line "\n"
    }
    END {
        for (i = 1; i <= n; i++)
            printf "\n## %s\n\n```\n%s```\n", (room[i] == "" ? "Root" : room[i]), text[room[i]]
    }'
