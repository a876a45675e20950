#!/bin/sh
# SPDX-License-Identifier: MIT
# packaging/manifests/fill.sh VERSION DIR - writes the manifests for Homebrew, Scoop and winget into DIR, from the files
# *.in here. @VERSION@ becomes the version, @SHA256 FILE@ the checksum of DIR/FILE.
set -eu
version=$1
here=$(cd "$(dirname "$0")" && pwd)
cd "$2"
for f in "$here"/*.in; do
    name=$(basename "$f" .in)
    sed "s/@VERSION@/$version/g" "$f" > "$name"
    sed -n 's/.*@SHA256 \([^@]*\)@.*/\1/p' "$name" | sort -u | while read -r of; do
        sum=$(sha256sum "$of" | cut -d' ' -f1)
        [ "$sum" ] || { echo "fill.sh: $name names $of, which was not built"; exit 1; }
        sed -i "s/@SHA256 $of@/$sum/g" "$name"
    done
    if grep -n '@[A-Z]' "$name"; then echo "fill.sh: $name is not complete"; exit 1; fi
done
