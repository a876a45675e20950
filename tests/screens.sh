#!/bin/sh
# Pictures of a report in Chromium: tests/screens.sh FOLDER [OUT]: OUT/report-{390,768,1280}{,-dark}.png, made smaller where pngquant is installed.
# Those in docs/ are of a folder that `hone make` made from the tiny model. Look at them before they are committed.
set -eu
dir=$(cd "$1" && pwd) out=${2:-docs}
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
[ -e "$dir/report.html" ] || { echo "$dir holds no report.html"; exit 2; }
mkdir -p "$out"
for width in 390 768 1280; do
    for dark in "" -dark; do
        scheme=1
        [ -z "$dark" ] || scheme=0 # of Chromium's setting: 0 dark, 1 light
        file=$out/report-$width$dark.png
        "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$t/profile" \
            --blink-settings=preferredColorScheme=$scheme --window-size=$width,"${HEIGHT:-1500}" --screenshot="$file" "file://$dir/report.html" \
            2> "$t/e" || { cat "$t/e"; exit 1; }
        ! command -v pngquant > /dev/null || pngquant --force --skip-if-larger --output "$file" 64 "$file" || :
    done
done
