#!/bin/sh
# SPDX-License-Identifier: MIT
# What hone asks of a C library and a processor: what calls the system compiles against musl as well (where musl-gcc is), and not for a
# big-endian machine, with a sentence that says so.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
flags='-std=c11 -D_GNU_SOURCE -DHONE_VERSION="0" -I. -fsyntax-only'
${CC:-cc} $flags -U__BYTE_ORDER__ -D__BYTE_ORDER__=4321 core/err.c 2> "$t/e" && say 'compiles for a big-endian machine'
grep -q 'hone runs on little-endian machines only' "$t/e" || say "big-endian: $(cat "$t/e")"
command -v musl-gcc > /dev/null || { echo 'musl-gcc (musl-tools) is not here'; [ $fail = 0 ] && exit 77; exit 1; }
# the headers of the libraries alone, without those of the C library beside them
mkdir -p "$t/h/editline"
for h in zlib.h zconf.h xxhash.h pcre2.h utf8proc.h histedit.h editline/readline.h; do
    for d in /usr/include /usr/include/*-linux-gnu; do [ ! -e "$d/$h" ] || ln -sf "$d/$h" "$t/h/$h"; done
done
for f in core/*.c kernels/*.c calib/*.c quantize/*.c runtime/generate/*.c serve/*.c jobs/*.c lib/*.c cli/*.c; do echo "$f"; done |
    xargs -P 2 -n 20 musl-gcc $flags -Werror=implicit-function-declaration -isystem "$t/h" > "$t/o" 2>&1 || say "musl: $(grep -m 5 error "$t/o")"
exit $fail
