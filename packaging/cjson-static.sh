#!/bin/sh
# usage: cjson-static.sh FOLDER : builds FOLDER/libcjson.a with CC and AR, for static programs: Debian's package has no
# archive. The source is the distribution's, in the version of its source package. Needs apt-get and dpkg-source, not
# root; does not touch this machine's packages.
set -eu
mkdir -p "$1"
d=$(cd "$1" && pwd)
command -v apt-get > /dev/null || { echo "cjson-static: no apt-get; put a libcjson.a into $d" >&2; exit 1; }
rm -rf "$d/apt" && mkdir -p "$d/apt/lists/partial" "$d/apt/parts" && : > "$d/apt/status"
for f in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
    [ ! -e "$f" ] || sed 's/^deb /deb-src /; s/^Types:.*/Types: deb-src/' "$f" > "$d/apt/parts/$(basename "$f")"
done
apt="apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$d/apt/parts -o Dir::State::lists=$d/apt/lists
  -o Dir::State::status=$d/apt/status -o APT::Sandbox::User=root -o Debug::NoLocking=1"
cd "$d/apt"
# skip sources without source packages
$apt update 2> update.log || true
$apt source --download-only cjson || { cat update.log >&2; exit 1; }
dpkg-source --no-check -x cjson_*.dsc src > /dev/null
${CC:-cc} -O2 -g -fPIC -c -o cJSON.o src/cJSON.c
rm -f ../libcjson.a
${AR:-ar} rcs ../libcjson.a cJSON.o
rm -rf "$d/apt"
