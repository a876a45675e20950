#!/bin/sh
# usage: spdx.sh VERSION FILE... : prints a bill of materials (SPDX 2.3, JSON) for the results of `make dist`: each file
# with its SHA-256 and the SHA-1 that SPDX requires, and the libraries contained in wheels and static programs, in the
# versions of this machine, for another processor of ARM64_ROOT (arm64-root.sh), and for other systems of CROSS
# (build/cross).
set -eu
version=$1; shift
when=$(date -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}" +%Y-%m-%dT%H:%M:%SZ)
# Debian package, name, license, origin
libraries='zlib1g zlib Zlib https://zlib.net
libxxhash0 xxHash BSD-2-Clause https://xxhash.com
libpcre2-8-0 PCRE2 BSD-3-Clause https://www.pcre.org
libutf8proc2 utf8proc MIT https://juliastrings.github.io/utf8proc
libedit2 libedit BSD-3-Clause https://www.thrysoee.dk/editline
libyaml-0-2 libyaml MIT https://pyyaml.org/wiki/LibYAML
libcjson1 cJSON MIT https://github.com/DaveGamble/cJSON
libpng16-16 libpng libpng-2.0 http://www.libpng.org/pub/png/libpng.html
libjpeg62-turbo libjpeg-turbo BSD-3-Clause https://libjpeg-turbo.org
libbsd0 libbsd BSD-3-Clause https://libbsd.freedesktop.org
libmd0 libmd BSD-3-Clause https://www.hadrons.org/software/libmd
libtinfo6 ncurses X11 https://invisible-island.net/ncurses
libc6 glibc LGPL-2.1-or-later https://www.gnu.org/software/libc'
cat << END
{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "hone-$version",
  "documentNamespace": "https://hone.invalid/spdx/hone-$version-$(cat "$@" | sha256sum | cut -c1-32)",
  "creationInfo": {"created": "$when", "creators": ["Tool: hone packaging/spdx.sh"]},
  "packages": [
    {"SPDXID": "SPDXRef-hone", "name": "hone", "versionInfo": "$version", "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
     "licenseConcluded": "MIT", "licenseDeclared": "MIT", "copyrightText": "NOASSERTION"}
END
# one line per linked library and processor
libraries=$(echo "$libraries" | while read -r deb name licence home; do
    v=$(dpkg-query -W -f '${Version}' "$deb" 2> /dev/null || echo NOASSERTION)
    echo "$name $name $v $licence $home"
    a=$(sed -n 's/^Version: //p' "${ARM64_ROOT:-none}/packages/$deb/DEBIAN/control" 2> /dev/null || true)
    [ -z "$a" ] || [ "$a" = "$v" ] || echo "$name-arm64 $name $a $licence $home"
    # sources have names in small letters, libpng's with a version
    c=$(cat "${CROSS:-none}/libs/src/$(echo "$name" | tr A-Z a-z)"*_*.dsc 2> /dev/null | sed -n 's/^Version: //p' | head -1)
    [ -z "$c" ] || [ "$c" = "$v" ] || echo "$name-cross $name $c $licence $home"
done
zig=$(sed -n 's/^version=//p' packaging/cross/tools.sh)
[ ! -d "${CROSS:-none}/dist" ] ||
    printf '%s\n' "zig zig $zig MIT https://ziglang.org" "mingw-w64 mingw-w64 zig-$zig ZPL-2.1 https://www.mingw-w64.org")
echo "$libraries" | while read -r id name v licence home; do
    printf '    ,{"SPDXID": "SPDXRef-lib-%s", "name": "%s", "versionInfo": "%s", "downloadLocation": "%s", "filesAnalyzed": false, "licenseConcluded": "%s", "licenseDeclared": "%s", "copyrightText": "NOASSERTION"}\n' \
        "$id" "$name" "$v" "$home" "$licence" "$licence"
done
echo '  ],' && echo '  "files": ['
sep=' '
for f in "$@"; do
    printf '    %s{"SPDXID": "SPDXRef-file-%s", "fileName": "./%s", "checksums": [{"algorithm": "SHA1", "checksumValue": "%s"}, {"algorithm": "SHA256", "checksumValue": "%s"}], "licenseConcluded": "MIT", "copyrightText": "NOASSERTION"}\n' \
        "$sep" "$(basename "$f" | tr -c 'A-Za-z0-9.\n-' -)" "$(basename "$f")" "$(sha1sum "$f" | cut -d' ' -f1)" "$(sha256sum "$f" | cut -d' ' -f1)"
    sep=,
done
echo '  ],' && echo '  "relationships": ['
echo '    {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-hone"}'
echo "$libraries" | while read -r id rest; do
    printf '    ,{"spdxElementId": "SPDXRef-hone", "relationshipType": "DEPENDS_ON", "relatedSpdxElement": "SPDXRef-lib-%s"}\n' "$id"
done
for f in "$@"; do
    printf '    ,{"spdxElementId": "SPDXRef-file-%s", "relationshipType": "GENERATED_FROM", "relatedSpdxElement": "SPDXRef-hone"}\n' "$(basename "$f" | tr -c 'A-Za-z0-9.\n-' -)"
done
echo '  ]' && echo '}'
