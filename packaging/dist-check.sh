#!/bin/sh
# usage: dist-check.sh FOLDER [PYTHON] : installs each package that `make dist` built into a clean folder and runs it
# once.
set -eu # -e checks only the last command of an && list, so each command has its own line
d=$(cd "$1" && pwd)
python=${2:-python3}
root=$(pwd)
model=$root/tests/golden/models/qwen35moe
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
unset LD_LIBRARY_PATH HONE_LIBRARY PYTHONPATH 2> /dev/null || true
cd "$d"
sha256sum -c --quiet SHA256SUMS
echo "sums: right"
"$python" -c 'import json, sys; d = json.load(open(sys.argv[1])); print("SPDX:", len(d["packages"]), "packages,", len(d["files"]), "files")' "$d"/*.spdx.json

once() { # name, program and its first arguments: runs a conversion and checks its result
    name=$1
    shift
    rm -rf "$t/run"
    mkdir "$t/run"
    cd "$t/run"
    "$@" convert "$model" -o m.gguf -q > /dev/null
    "$@" verify m.gguf -q > /dev/null
    echo "$name: $("$@" --version)"
}
arch=$(uname -m)
mkdir "$t/static"
cp "$d"/hone-*-"$arch"-linux-static "$t/static/hone"
once "static program" "$t/static/hone"
# in a root without any library or other file
if [ "$(id -u)" = 0 ]; then
    chroot "$t/static" /hone --version > /dev/null
    echo "static program: runs in an empty root"
fi
mkdir "$t/deb"
for f in "$d"/*_"$(dpkg --print-architecture)".deb; do dpkg-deb -x "$f" "$t/deb"; done
once "Debian packages, unpacked" "$t/deb/usr/bin/hone"
so=$(find "$t/deb" -name libhone.so.2)
cat > "$t/v.c" << 'END'
#include <hone.h>
#include <stdio.h>
int main(void) { return puts(hone_version()) < 0; }
END
cc "$t/v.c" -I"$t/deb/usr/include" "$so" "-Wl,-rpath,$(dirname "$so")" -o "$t/v"
echo "libhone-dev: $("$t/v")"
"$python" -m venv "$t/v1"
"$t/v1/bin/pip" -q install "$d"/*manylinux*_"$arch".whl
once wheel "$t/v1/bin/hone"
if "$t/v1/bin/pip" -q install spdx-tools 2> /dev/null; then
    "$t/v1/bin/pyspdxtools" -i "$d"/*.spdx.json
    echo "SPDX: pyspdxtools finds no fault"
fi
cd "$t"
"$t/v1/bin/python" -c 'import hone_gguf as h; print("wheel:", len(h.GGUF("run/m.gguf").tensors), "tensors")'
"$python" -m venv "$t/v2"
"$t/v2/bin/pip" -q install "$d"/hone_gguf-*.tar.gz
once "source package" "$t/v2/bin/hone"
mkdir "$t/src"
tar -xzf "$d/hone-$(cat "$root/VERSION").tar.gz" -C "$t/src"
[ -e "$t"/src/hone-*/Makefile ]
echo "sources: unpacked"

# ---- Windows and macOS: the same checks as after the build; where there is Wine, hone.exe runs once
header=$root/build/gen/include/hone.h
if [ -e "$(ls "$d"/hone-*-windows-x86_64.zip 2> /dev/null)" ]; then
    mkdir "$t/cross"
    cd "$t/cross"
    for f in "$d"/hone-*-windows-x86_64.zip; do "$python" -m zipfile -e "$f" .; done
    for f in "$d"/hone-*-macos-*.tar.gz; do tar -xzf "$f"; done
    "$python" "$root/packaging/cross/pe.py" "$header" hone-*-windows-x86_64/hone.exe hone-*-windows-x86_64/hone.dll
    for cpu in arm64 x86_64; do
        "$python" "$root/packaging/cross/macho.py" $cpu "$header" hone-*-macos-$cpu/hone hone-*-macos-$cpu/libhone.*.dylib
        "$t/v1/bin/pip" -q install --no-deps --target "mac-$cpu" --only-binary=:all: --platform macosx_11_0_$cpu "$d"/*macosx_11_0_$cpu.whl
    done
    "$t/v1/bin/pip" -q install --no-deps --target win --only-binary=:all: --platform win_amd64 "$d"/*win_amd64.whl
    cmp win/hone_gguf/lib/hone.dll hone-*-windows-x86_64/hone.dll
    for f in hone.rb hone.json hone.hone.installer.yaml; do # each checksum in a manifest is that of a file here
        grep -oE '[0-9a-f]{64}' "$d/$f" | while read -r sum; do grep -q "^$sum " "$d/SHA256SUMS" || echo "$f: $sum"; done > bad
        [ ! -s bad ] || { cat bad; exit 1; }
    done
    ! command -v wine > /dev/null || WINEPREFIX=$t/prefix WINEDEBUG=-all once "Windows zip, by Wine" wine "$t"/cross/hone-*-windows-x86_64/hone.exe
fi

# ---- ARM64 packages built on another machine: run under QEMU with the distribution's libraries and Python
[ "$arch" != aarch64 ] && [ -e "$(ls "$d"/*_aarch64.whl 2> /dev/null)" ] || exit 0
mkdir "$t/arm"
cp "$d"/hone-*-aarch64-linux-static "$t/arm/hone"
once "ARM64: static program" qemu-aarch64 "$t/arm/hone"
for f in "$d"/*_arm64.deb; do dpkg-deb -x "$f" "$t/arm"; done
sh "$root/packaging/arm64-root.sh" "$root/build/arm64-python" python3 libpython3-stdlib libstdc++6 zlib1g libxxhash0 libpcre2-8-0 libutf8proc2 libedit2 libyaml-0-2 libcjson1 libpng16-16 libjpeg62-turbo
lib=$root/build/arm64-python/usr
export ARM64_LIBC="$root/build/arm64-python" ARM64_ROOT="$root/build/arm64-python"
once "ARM64: Debian packages, unpacked" "$root/tests/arm64-run.sh" max "$t/arm/usr/bin/hone"
for f in "$d"/*_arm64.deb; do echo "ARM64: $(basename "$f") needs $(dpkg-deb -f "$f" Depends)"; done
py=$(basename "$(ls "$lib"/bin/python3.[0-9]*)")
"$t/v1/bin/pip" -q install --target "$t/site" --only-binary=:all: --implementation cp --python-version "${py#python}" \
    --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux2014_aarch64 "$d"/*_aarch64.whl
once "ARM64: wheel's program" "$root/tests/arm64-run.sh" max "$t/site/hone_gguf/bin/hone"
PYTHONHOME=$lib PYTHONPATH=$t/site "$root/tests/arm64-run.sh" max "$lib/bin/$py" -c 'import hone_gguf as h, platform, sys
m = h.Model("m.gguf")
made = m.generate("Once upon", max_tokens=4)
print("ARM64: wheel by Python", platform.python_version(), "on", platform.machine() + ":", h.GGUF("m.gguf").tensors["token_embd.weight"].to_numpy().shape,
      "decoded,", len(made.tokens), "tokens made")'
