#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/lint/format.sh - every header compiles alone, every file is formatted. Arguments: the C files.
bad=$(printf '%s\n' "$@" | grep '\.h$' | grep -vE '^kernels/(avx[a-z0-9]*|amx|rows|f32|neon|dotprod|i8mm)/' |
    xargs -P 4 -I {} sh -c 'printf "#include \"%s\"\n" {} |
        ${CC:-cc} -std=c11 -D_GNU_SOURCE -I. -I${HONE_GEN:-build/gen} \
        -fsyntax-only -Wno-unused -x c - 2>/dev/null || echo {}')
[ -z "$bad" ] || echo "does not compile alone:" $bad
command -v clang-format >/dev/null 2>&1 || { echo "lint: no clang-format here, formatting not checked" >&2; exit 0; }
bad=$(printf '%s\n' "$@" | xargs -P 4 -n 60 clang-format --dry-run -Werror 2>&1 | grep 'error: code should be' |
    cut -d: -f1 | sort -u | head -20 | tr '\n' ' ')
[ -z "$bad" ] || echo "not formatted (make format): $bad"
