#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/lint/built.sh - checks that need a built program: global variables, unused functions, README.md's table of
# models.
when_wrong() { out=$("$@" 2>&1) || printf '%s\n' "$out"; }
if [ -e "${HONE:-}" ] && [ -z "${SANF:-}" ]; then
    when_wrong sh tests/cli/globals.sh
else
    echo "lint: not built here, variables of the process not checked" >&2
fi
# shellcheck disable=SC2012
built=$(ls -t build/obj-*/hone 2> /dev/null | head -n 1) # the newest, as other flags leave older ones
[ -n "$built" ] || exit 0
export HONE="$built"
when_wrong sh tests/unused.sh
when_wrong sh tests/models.sh --check
