#!/bin/sh
# usage: arm64-root.sh FOLDER : the libraries that hone is linked with, and their headers, for ARM64, unpacked from the distribution's
# own packages into FOLDER. Needs apt-get and its sources, not root; nothing of this machine's packages changes. The C library
# is that of the cross compiler (gcc-aarch64-linux-gnu). Does nothing where FOLDER is complete.
set -eu
packages="zlib1g-dev zlib1g libxxhash-dev libxxhash0 libpcre2-dev libpcre2-8-0 libutf8proc-dev libutf8proc2
  libedit-dev libedit2 libbsd-dev libbsd0 libmd-dev libmd0 libncurses-dev libtinfo6"
mkdir -p "$1"
d=$(cd "$1" && pwd)
[ ! -e "$d/complete" ] || exit 0
command -v apt-get > /dev/null || { echo "arm64-root: no apt-get; put the libraries for ARM64 under $1 and an empty file named complete" >&2; exit 1; }
rm -rf "$d/apt" && mkdir -p "$d/apt/lists/partial" "$d/apt/cache/archives/partial" && : > "$d/apt/status"
apt="apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::lists=$d/apt/lists -o Dir::State::status=$d/apt/status
  -o Dir::Cache=$d/apt/cache -o APT::Sandbox::User=root"
# sources that have nothing for this architecture are passed over
(cd "$d/apt" && { $apt update 2> update.log || { cat update.log >&2; exit 1; }; } && $apt download $packages)
for f in "$d"/apt/*.deb; do dpkg-deb -x "$f" "$d"; done
rm -rf "$d/apt" && : > "$d/complete"
