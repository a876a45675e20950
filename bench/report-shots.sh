#!/bin/sh
# report.html of a folder made by `hone make` in headless Chromium at the widths of a phone and of a desk:
#   sh bench/report-shots.sh FOLDER  ->  docs/report-390.png docs/report-1280.png
set -eu
[ -f "${1:?folder}/report.html" ] || { echo "no report.html in $1" >&2; exit 2; }
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
page=$(CDPATH='' cd -- "$1" && pwd)/report.html
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
shot() { # width, height, pixels per CSS pixel
    timeout 60 "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$t" --window-size="$1,$2" \
        --force-device-scale-factor="$3" --screenshot="$PWD/docs/report-$1.png" "file://$page" 2> "$t/log" || { cat "$t/log"; exit 1; }
}
shot 390 1300 1
shot 1280 1500 0.5
