#!/bin/sh
# SPDX-License-Identifier: MIT
# Requirements on the C library and the processor. Outside base/os*.c and serve/poller.c, which replace Linux's own calls
# elsewhere, the program needs only POSIX.1-2008 and the names below, which glibc, musl, macOS and the BSDs share (most
# are in POSIX.1-2024). Checked by compiling as on those systems, against musl's headers if musl-gcc is installed; clang
# compiles the macOS-specific parts. Big-endian machines are refused with a message.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
shared='FNM_CASEFOLD MADV_DONTNEED MAP_ANONYMOUS MAP_NORESERVE getentropy madvise memmem realpath timegm tm_gmtoff'
flags='-std=c11 -DHONE_VERSION="0" -I. -fsyntax-only'
${CC:-cc} $flags -D_GNU_SOURCE -U__BYTE_ORDER__ -D__BYTE_ORDER__=4321 base/err.c 2> "$t/e" && say 'compiles for a big-endian machine'
grep -q 'hone runs on little-endian machines only' "$t/e" || say "big-endian: $(cat "$t/e")"
sources=$(ls base/*.c containers/*.c kernels/*.c models/*.c text/*.c tok/*.c template/*.c grammar/*.c chat/*.c convert/*.c calib/*.c quantize/*.c runtime/*/*.c runtime/*/*/*.c \
    report/*.c serve/*.c work/*.c plan/*.c mix/*.c make/*.c jobs/*.c lib/*.c cli/*.c)
gnu='memrchr|mempcpy|rawmemchr|strchrnul|strcasestr|strverscmp|qsort_r|asprintf|vasprintf|canonicalize_file_name|secure_getenv|get_current_dir_name'
grep -nwE "($gnu) *\(" $sources > "$t/o" && say "GNU only: $(cat "$t/o")"
# the headers of the libraries alone, without those of the C library in the same folder
mkdir -p "$t/h/editline" "$t/h/cjson"
for h in zlib.h zconf.h xxhash.h pcre2.h utf8proc.h yaml.h histedit.h editline/readline.h cjson/cJSON.h png.h pngconf.h pnglibconf.h jpeglib.h jconfig.h jmorecfg.h jerror.h; do
    for d in /usr/include /usr/include/*-linux-gnu; do [ ! -e "$d/$h" ] || ln -sf "$d/$h" "$t/h/$h"; done
done
command -v musl-gcc > /dev/null && cc=musl-gcc || cc=gcc
command -v "$cc" > /dev/null || { echo 'neither musl-gcc nor gcc is here'; [ $fail = 0 ] && exit 77; exit 1; }
# sources that call the system
grep -lE '#include <(sys/|net|arpa/|unistd|fcntl|pthread|poll|dirent|time|fnmatch|signal|termios|dlfcn|glob|sched|locale)' $sources |
    LC_ALL=C xargs -P 2 -n 20 "$cc" $flags -D_POSIX_C_SOURCE=200809L -U__linux__ -isystem "$t/h" > "$t/o" 2>&1 || true
sed -n "s/.*implicit declaration of function '\([a-zA-Z_0-9]*\)'.*/\1/p; s/.*error: '\([A-Za-z_0-9]*\)' undeclared.*/\1/p
  s/.*has no member named '\([a-z_]*\)'.*/\1/p; s/.*fatal error: //p" "$t/o" | LC_ALL=C sort -u > "$t/used"
[ -s "$t/used" ] || say "nothing was compiled: $(head -5 "$t/o")"
for name in $(cat "$t/used"); do
    case " $shared " in *" $name "*) ;; *) say "not in POSIX, nor in what systems share: $name; $(grep -m 1 "$name" "$t/o")" ;; esac
done
[ "$cc" != musl-gcc ] || musl-gcc $flags -D_GNU_SOURCE -Werror=implicit-function-declaration -isystem "$t/h" $(grep -l '__linux__' $sources) > "$t/o" 2>&1 ||
    say "musl: $(grep -m 5 error "$t/o")"
if clang --target=arm64-apple-macos11 -x c -c -o "$t/x.o" /dev/null 2> "$t/o"; then
    for f in $(grep -l 'base/incbin.h' $sources); do
        sed -n '/^INCBIN(/p' "$f" | clang --target=arm64-apple-macos11 -I. -include base/incbin.h -x c -c -o "$t/x.o" - 2> "$t/o" || say "macOS: $f: $(head -3 "$t/o")"
    done
fi
exit $fail
