#!/bin/sh
# usage: abi.sh HEADER OUT.so : a library of empty functions with the types of include/hone.h, for abidw and abidiff. It
# contains only the interface, so that a dump is small and changes only when the header does.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
# every declaration, a definition
{
    echo '#include "hone.h"'
    awk '/^HONE_API/ { inside = 1 } inside { if (sub(/;.*/, " { __builtin_trap(); }")) inside = 0; print; }' "$1"
} > "$t/all.c"
cp "$1" "$t/hone.h"
${CC:-cc} -std=c11 -g -fPIC -shared -w -Wl,-soname,libhone.so -o "$2" "$t/all.c"
