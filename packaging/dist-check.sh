#!/bin/sh
# usage: dist-check.sh FOLDER [PYTHON] : installs each thing that `make dist` made in a clean folder and runs it once.
set -eu # which looks at the last command of a list alone: so each has a line of its own
d=$(cd "$1" && pwd)
python=${2:-python3}
model=$(pwd)/tests/golden/models/qwen35moe
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
unset LD_LIBRARY_PATH HONE_LIBRARY PYTHONPATH 2> /dev/null || true
cd "$d"
sha256sum -c --quiet SHA256SUMS
echo "sums: right"
"$python" -c 'import json, sys; d = json.load(open(sys.argv[1])); print("SPDX:", len(d["packages"]), "packages,", len(d["files"]), "files")' "$d"/*.spdx.json

once() { # name, program: a conversion and what it says of the result
    rm -rf "$t/run"
    mkdir "$t/run"
    cd "$t/run"
    "$2" convert "$model" -o m.gguf -q > /dev/null
    "$2" verify m.gguf -q > /dev/null
    echo "$1: $("$2" --version)"
}
mkdir "$t/static"
cp "$d"/hone-*-static "$t/static/hone"
once "static program" "$t/static/hone"
# alone in the world: no library, no other file
if [ "$(id -u)" = 0 ]; then
    chroot "$t/static" /hone --version > /dev/null
    echo "static program: runs in an empty root"
fi
mkdir "$t/deb"
for f in "$d"/*.deb; do dpkg-deb -x "$f" "$t/deb"; done
once "Debian packages, unpacked" "$t/deb/usr/bin/hone"
cat > "$t/v.c" << 'END'
#include <hone.h>
#include <stdio.h>
int main(void) { return puts(hone_version()) < 0; }
END
so=$(find "$t/deb" -name libhone.so.1)
cc "$t/v.c" -I"$t/deb/usr/include" "$so" "-Wl,-rpath,$(dirname "$so")" -o "$t/v"
echo "libhone-dev: $("$t/v")"
"$python" -m venv "$t/v1"
"$t/v1/bin/pip" -q install "$d"/*.whl
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
tar -xzf "$d"/hone-[0-9]*.tar.gz -C "$t/src"
[ -e "$t"/src/hone-*/Makefile ]
echo "sources: unpacked"
