#!/bin/sh
# Pictures of a folder that `hone make` made, in Chromium: tests/screens.sh FOLDER [OUT] writes OUT/{report,card}-{390,1280}{,-dark}.png, with fewer
# colours where pngquant is installed. The card is drawn as the Hub does (tests/card_html.py, needs markdown-it-py: PYTHON=...). Those in docs/ are of
# the job "pictures" in docs/results/ladder.json. Look at them before they are committed; docs/pictures.md shows them.
set -eu
dir=$(cd "$1" && pwd) out=${2:-docs}
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
[ -e "$dir/report.html" ] || { echo "$dir holds no report.html"; exit 2; }
mkdir -p "$out"
cp "$dir"/*.svg "$dir/report.html" "$t/"
"${PYTHON:-python3}" tests/card_html.py "$dir/README.md" > "$t/card.html"
for what in report card; do
    for width in 390 1280; do
        for dark in "" -dark; do
            scheme=1
            [ -z "$dark" ] || scheme=0 # of Chromium's setting: 0 dark, 1 light
            file=$out/$what-$width$dark.png
            "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$t/profile" \
                --blink-settings=preferredColorScheme=$scheme --window-size=$width,"${HEIGHT:-1500}" --screenshot="$file" "file://$t/$what.html" \
                2> "$t/e" || { cat "$t/e"; exit 1; }
            ! command -v pngquant > /dev/null || pngquant --force --skip-if-larger --output "$file" 64 "$file" || :
        done
    done
done
