#!/bin/sh
# SPDX-License-Identifier: MIT
# packaging/cross/libs.sh TOOLS TARGET DIR - static libraries for a cross build, from Debian's sources: DIR/TARGET/lib
# and include. TOOLS is the folder of tools.sh. Needs cmake and apt. Nothing is installed.
set -eu
tools=$(cd "$1" && pwd)
target=$2
mkdir -p "$3/$target" "$3/src" "$3/lists/partial" "$3/cache/archives/partial"
dir=$(cd "$3" && pwd)
prefix=$dir/$target
exec 9> "$prefix/lock"
flock 9
[ ! -e "$prefix/done" ] || exit 0
sources='zlib xxhash pcre2 utf8proc libyaml cjson libpng1.6 libjpeg-turbo'
if [ ! -e "$dir/src/done" ]; then
    # the machine's own archives, with their sources
    for f in /etc/apt/sources.list.d/*.sources; do
        grep -q debian-archive-keyring "$f" && sed 's/^Types: deb$/Types: deb-src/' "$f" && echo
    done > "$dir/debian.sources"
    apt="-q -o Dir::Etc::sourcelist=$dir/debian.sources -o Dir::Etc::sourceparts=- -o Dir::State::Lists=$dir/lists"
    apt="$apt -o Dir::Cache=$dir/cache"
    apt-get $apt update > "$dir/log"
    for s in $sources; do
        # without the security archive if that has no such version any more
        (cd "$dir/src" && { apt-get $apt source --download-only $s ||
            apt-get $apt source --download-only -t bookworm $s/bookworm; }) >> "$dir/log" 2>&1 ||
            { echo "$s: no source; see $dir/log"; exit 1; }
        for orig in "$dir"/src/"$s"_*.orig.tar.*; do
            case $orig in *.asc) continue ;; esac
            mkdir -p "$dir/src/$s" && tar -xf "$orig" -C "$dir/src/$s" --strip-components=1
        done
        for patches in "$dir"/src/"$s"_*.diff.gz; do
            [ ! -e "$patches" ] || gunzip -c "$patches" | patch -s -N -p1 -d "$dir/src/$s" >> "$dir/log"
        done
        for patches in "$dir"/src/"$s"_*.debian.tar.xz; do
            [ -e "$patches" ] || continue
            tar -xf "$patches" -C "$dir/src/$s"
            for p in $(grep -v '^#' "$dir/src/$s/debian/patches/series" 2> /dev/null | cut -d' ' -f1); do
                patch -s -N -p1 -d "$dir/src/$s" < "$dir/src/$s/debian/patches/$p" >> "$dir/log" ||
                    { echo "$s: $p"; exit 1; }
            done
        done
    done
    touch "$dir/src/done"
fi
# macOS: an old macro of zlib hides fdopen; and libhone.2.dylib exports whatever is not hidden
mac='-Dfdopen=fdopen -fvisibility=hidden -DUTF8PROC_STATIC'
case $target in
    macos-arm64) system=Darwin cpu=aarch64 more=$mac ;;
    macos-x86_64) system=Darwin cpu=x86_64 more=$mac ;;
    windows-x86_64) system=Windows cpu=x86_64 more=-DCJSON_HIDE_SYMBOLS ;; # hone.dll exports whatever is marked
esac
build() {
    name=$1
    shift
    src=$dir/src/$name
    [ "$name" != xxhash ] || src=$src/cmake_unofficial
    [ ! -e "$prefix/made.$name" ] || return 0
    rm -rf "$prefix/build"
    # -O2 -fPIC also where cmake tries the compiler: zig builds a C library for each set of flags, in minutes
    cmake -S "$src" -B "$prefix/build" -G 'Unix Makefiles' -DCMAKE_SYSTEM_NAME=$system -DCMAKE_SYSTEM_PROCESSOR=$cpu \
        -DCMAKE_C_COMPILER="$tools/bin/$target-clang" -DCMAKE_AR="$tools/bin/ar" -DCMAKE_RANLIB="$tools/bin/ranlib" \
        -DCMAKE_RC_COMPILER=/bin/true -DCMAKE_C_FLAGS="-O2 -fPIC $more" -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_C_FLAGS_RELEASE='-O2 -DNDEBUG' \
        -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR="$prefix/lib" \
        -DCMAKE_INSTALL_DEFAULT_LIBDIR="$prefix/lib" -DCMAKE_FIND_ROOT_PATH="$prefix" -DBUILD_SHARED_LIBS=OFF \
        -DCMAKE_OSX_DEPLOYMENT_TARGET=11.0 -DCMAKE_OSX_SYSROOT= -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY \
        -DCMAKE_POLICY_VERSION_MINIMUM=3.5 "$@" >> "$prefix/log" 2>&1
    cmake --build "$prefix/build" -j2 ${only:+--target $only} >> "$prefix/log" 2>&1
    [ -n "${only-}" ] || cmake --install "$prefix/build" >> "$prefix/log" 2>&1
    touch "$prefix/made.$name"
}
trap '[ $? = 0 ] || tail -30 "$prefix/log"' EXIT
mkdir -p "$prefix/lib" "$prefix/include"
# Debian's source of zlib lacks files that its cmake script names
mkdir -p "$prefix/build"
(cd "$prefix/build" && for f in "$dir"/src/zlib/[a-z]*.c; do
    case $f in */minigzip.c | */example.c) continue ;; esac
    "$tools/bin/$target-clang" -O2 $more -w -DHAVE_UNISTD_H -c "$f" -o "$(basename "$f" .c).o" || exit 1
done && "$tools/bin/ar" rcs "$prefix/lib/libz.a" ./*.o)
rm -rf "$prefix/build"
cp "$dir/src/zlib/zlib.h" "$dir/src/zlib/zconf.h" "$prefix/include"
# the editor of lines is macOS's own; its interface is that of Debian's package
case $target in macos-*) cp /usr/include/histedit.h "$prefix/include" ;; esac
build xxhash -DXXHASH_BUILD_XXHSUM=OFF
build pcre2 -DPCRE2_BUILD_PCRE2GREP=OFF -DPCRE2_BUILD_TESTS=OFF -DPCRE2_STATIC=ON
build utf8proc
build libyaml -DBUILD_TESTING=OFF
build cjson -DENABLE_CJSON_TEST=OFF -DENABLE_PUBLIC_SYMBOLS=OFF -DENABLE_CUSTOM_COMPILER_FLAGS=OFF -DBUILD_SHARED_AND_STATIC_LIBS=OFF
# libpng's cmake script preprocesses headers that zig lacks
mkdir -p "$prefix/build"
cp "$dir/src/libpng1.6/scripts/pnglibconf.h.prebuilt" "$prefix/include/pnglibconf.h"
cp "$dir/src/libpng1.6/png.h" "$dir/src/libpng1.6/pngconf.h" "$prefix/include"
(cd "$prefix/build" && for f in "$dir"/src/libpng1.6/png[a-z]*.c "$dir"/src/libpng1.6/png.c; do
    [ "${f%pngtest.c}" = "$f" ] || continue
    "$tools/bin/$target-clang" -O2 $more -UTARGET_OS_MAC -DPNG_ARM_NEON_OPT=0 -DPNG_INTEL_SSE_OPT=0 -I"$prefix/include" \
        -c "$f" -o "$(basename "$f" .c).o" || exit 1
done && "$tools/bin/ar" rcs "$prefix/lib/libpng.a" ./*.o)
if [ ! -e "$prefix/lib/libjpeg.a" ]; then
    rm -f "$prefix/made.libjpeg-turbo"
    only=jpeg-static
    build libjpeg-turbo -DENABLE_SHARED=OFF -DWITH_SIMD=OFF -DWITH_TURBOJPEG=OFF
    cp "$prefix/build/jconfig.h" "$prefix/include"
    for h in jpeglib jmorecfg jerror; do cp "$dir/src/libjpeg-turbo/$h.h" "$prefix/include"; done
    cp "$prefix"/build/libjpeg*.a "$prefix/lib/libjpeg.a"
fi
rm -rf "$prefix/build"
touch "$prefix/done"
