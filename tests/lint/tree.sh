#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/lint/tree.sh - no merge conflict markers, no machine-specific paths; makefiles and lint scripts have at most 120
# columns.
git grep -nIE '^(<<<<<<<|>>>>>>>)( |$)' -- . 2>/dev/null && echo "conflict markers (above)"
git grep -nIE '/(root|home/[a-z]+|work)/' -- . ':!tests/golden' ':!tests/lint/tree.sh' ':!tests/cli/publish.sh' \
    ':!tests/unit/test_release.c' ':!report/folder_lint.c' 2>/dev/null | grep -v '/home/user' &&
    echo "machine paths (above)"
awk 'length > 120 { print FILENAME ":" FNR ": " length " columns; at most 120" }' Makefile mk/*.mk tests/lint/*.sh
