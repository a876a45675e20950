#!/bin/sh
# SPDX-License-Identifier: MIT
# packaging/cross/package.sh DIR VERSION HEADER PYTHON - packs the programs of cross builds in DIR into DIR/dist: a zip for
# Windows, tarballs for macOS, and a wheel for each. Then packaging/manifests/* get the version and checksums.
set -eu
dir=$(cd "$1" && pwd)
version=$2 python=$4
header=$(realpath "$3")
out=$dir/dist
rm -rf "$out" "$dir/stage"
mkdir -p "$out" "$dir/stage"

# the licenses of the libraries in each program, and of the compiler's runtime
license() { # name, text from standard input
    printf '\n==== %s ====\n\n' "$1"
    cat
}
zig=$dir/tools/ziglang
{
    echo "Libraries in hone's programs for Windows and macOS, and their licenses"
    echo 'This software is based in part on the work of the Independent JPEG Group.' # libjpeg-turbo requires this sentence
    for f in cjson/LICENSE libjpeg-turbo/LICENSE.md libpng1.6/LICENSE libyaml/License pcre2/LICENCE utf8proc/LICENSE.md \
        xxhash/LICENSE zlib/LICENSE; do
        license "${f%/*}" < "$dir/libs/src/$f"
    done
    license zig < "$zig/LICENSE"
} > "$dir/stage/libraries"
# files of one platform, in a folder with the archive's name
folder() { # platform, files
    s=$dir/stage/hone-$version-$1
    mkdir -p "$s"
    cp "$dir/stage/libraries" "$s/LIBRARIES.txt"
    cp LICENSE "$s/LICENSE.txt"
    sed "s/@VERSION@/$version/g" "packaging/cross/README-${1%%-*}.txt" > "$s/README.txt"
    cp "$header" "$s"
    shift
    cp "$@" "$s"
}
same_times() { # the same files give the same archive
    find "$s" -exec touch -d 2020-01-01T00:00:00Z {} +
}
wheel() { # platform in wheels' names, library, program
    (cd python && HONE_BUILT=$2:$3:$s/LIBRARIES.txt _PYTHON_HOST_PLATFORM=$1 "$python" -c 'import sys, build_hone
build_hone.build_wheel(sys.argv[1])' "$out")
}

windows=$dir/windows-x86_64
folder windows-x86_64 "$windows/hone.exe" "$windows/hone.dll" "$windows/libhone.dll.a"
{
    license mingw-w64 < "$zig/lib/libc/mingw/COPYING"
    for f in winpthreads/thread gdtoa/gdtoa; do # the comment at the top
        sed '/\*\//q' "$zig/lib/libc/mingw/$f.c" | license "${f%/*}"
    done
} >> "$s/LIBRARIES.txt"
for f in "$s"/*.txt; do sed 's/$/\r/' "$f" > "$f.new" && mv "$f.new" "$f"; done
same_times
(cd "$dir/stage" && TZ=UTC "$python" -m zipfile -c "$out/${s##*/}.zip" "${s##*/}/")
wheel win-amd64 "$windows/hone.dll" "$windows/hone.exe"
for cpu in arm64 x86_64; do
    macos=$dir/macos-$cpu
    folder macos-$cpu "$macos/hone" "$macos"/libhone.*.dylib packaging/macos-check.sh
    mkdir -p "$s/man/man1" && cp "$macos"/gen/man/*.1 "$s/man/man1"
    same_times
    (cd "$dir/stage" && tar --sort=name --owner=0 --group=0 --numeric-owner --format=ustar -cf - "${s##*/}" |
        gzip -9n > "$out/${s##*/}.tar.gz")
    wheel macosx-11.0-$cpu "$(ls "$macos"/libhone.*.dylib)" "$macos/hone"
done
sh packaging/manifests/fill.sh "$version" "$out"
ls -l "$out"
