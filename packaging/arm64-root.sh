#!/bin/sh
# usage: arm64-root.sh FOLDER [PACKAGE...] : unpacks ARM64 libraries from the distribution's packages into FOLDER.
# Without PACKAGE, unpacks the libraries that hone links, with their headers; the C library is the cross compiler's
# (gcc-aarch64-linux-gnu). Each shared library is also unpacked under FOLDER/packages with the metadata that packaging
# tools read, and so is libc6, for which those tools look. With PACKAGE, unpacks these packages and all their
# dependencies, including a C library.
# Needs apt-get and its sources, not root; does not touch this machine's packages. Does nothing if this version of the
# script has already completed FOLDER.
set -eu
packages="zlib1g-dev zlib1g libxxhash-dev libxxhash0 libpcre2-dev libpcre2-8-0 libutf8proc-dev libutf8proc2
  libyaml-dev libyaml-0-2 libcjson-dev libcjson1 libpng-dev libpng16-16 libjpeg62-turbo-dev libjpeg62-turbo libedit-dev libedit2 libbsd-dev libbsd0 libmd-dev libmd0 libncurses-dev libtinfo6"
mkdir -p "$1"
d=$(cd "$1" && pwd)
shift
[ ! "$d/complete" -nt "$0" ] || exit 0
command -v apt-get > /dev/null || { echo "arm64-root: no apt-get; put the libraries for ARM64 under $d and an empty file named complete" >&2; exit 1; }
rm -rf "$d/apt" "$d/packages" && mkdir -p "$d/apt/lists/partial" "$d/apt/cache/archives/partial" && : > "$d/apt/status"
apt="apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::lists=$d/apt/lists -o Dir::State::status=$d/apt/status
  -o Dir::Cache=$d/apt/cache -o APT::Sandbox::User=root -o Debug::NoLocking=1"
cd "$d/apt"
# skip sources that have nothing for this architecture
$apt update 2> update.log || { cat update.log >&2; exit 1; }
if [ $# = 0 ]; then $apt download $packages libc6; else $apt install -y --download-only --no-install-recommends "$@" && mv cache/archives/*.deb .; fi
for f in *.deb; do
    case $#$f in 0libc6_*) ;; *) dpkg-deb -x "$f" "$d" ;; esac
    case $f in *-dev_*) ;; *) mkdir -p "$d/packages" && dpkg-deb -R "$f" "$d/packages/${f%%_*}" ;; esac
done
rm -rf "$d/apt" && : > "$d/complete"
