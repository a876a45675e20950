#!/bin/sh
# usage: static.sh FOLDER : sees to it that FOLDER has libcjson.a, the one library that Debian has no static form of: compiled from
# the distribution's own source package (apt-get source), nothing of it is kept in this repository.
set -eu
mkdir -p "$1"
d=$(cd "$1" && pwd)
have=$(${CC:-cc} -print-file-name=libcjson.a)
[ "$have" = libcjson.a ] || { cp "$have" "$d"; exit 0; }
[ -e "$d/libcjson.a" ] && exit 0
command -v apt-get > /dev/null || { echo "static: no libcjson.a, and no apt-get to have its source from" >&2; exit 1; }
mkdir -p "$d/lists/partial" "$d/parts"
# where packages come from, sources come from too
for f in /etc/apt/sources.list.d/*.sources; do [ ! -e "$f" ] || sed 's/^Types:.*/Types: deb-src/' "$f" > "$d/parts/$(basename "$f")"; done
for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do [ ! -s "$f" ] || sed -n 's/^deb /deb-src /p' "$f" > "$d/parts/$(basename "$f" .list).list"; done
apt="apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$d/parts -o Dir::State::lists=$d/lists -o APT::Sandbox::User=root"
(cd "$d" && $apt update && $apt source --download-only cjson > /dev/null)
tar -xzf "$d"/cjson_*.orig.tar.gz -C "$d"
${CC:-cc} -O2 -c "$d"/cJSON-*/cJSON.c -o "$d/cJSON.o" && ar rcs "$d/libcjson.a" "$d/cJSON.o"
