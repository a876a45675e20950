#!/bin/sh
# Takes screenshots in Chromium of a folder that `hone make` made, and of README.md:
#   tests/screens.sh FOLDER [OUT]  writes OUT/{report,card}-{390,1280}{,-dark}.png
#   tests/screens.sh README.md     writes docs/readme-1280.png, its first screen
# Markdown is drawn as the Hub does (tests/card_html.py, needs markdown-it-py: PYTHON=...); pngquant, if installed, reduces
# the colours. The pictures of a folder in docs/ show the job "pictures" in docs/results/ladder.json. Look at them before
# they are committed; docs/pictures.md shows them.
set -eu
out=${2:-docs}
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
shoot() { # page, picture, width, height, scheme of Chromium's setting: 0 dark, 1 light
    "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$t/profile" \
        --blink-settings=preferredColorScheme="$5" --window-size="$3,$4" --screenshot="$2" "file://$1" 2> "$t/e" || { cat "$t/e"; exit 1; }
    ! command -v pngquant > /dev/null || pngquant --force --skip-if-larger --output "$2" 64 "$2" || :
}
if [ "$1" = README.md ]; then
    mkdir "$t/docs" && cp docs/*.png "$t/docs"
    "${PYTHON:-python3}" tests/card_html.py README.md > "$t/readme.html"
    shoot "$t/readme.html" docs/readme-1280.png 1280 1000 1
    exit
fi
dir=$(cd "$1" && pwd)
[ -e "$dir/report.html" ] || { echo "$dir holds no report.html"; exit 2; }
mkdir -p "$out"
cp "$dir"/*.svg "$dir/report.html" "$t/"
"${PYTHON:-python3}" tests/card_html.py "$dir/README.md" > "$t/card.html"
for what in report card; do
    for width in 390 1280; do
        shoot "$t/$what.html" "$out/$what-$width.png" $width "${HEIGHT:-1500}" 1
        shoot "$t/$what.html" "$out/$what-$width-dark.png" $width "${HEIGHT:-1500}" 0
    done
done
