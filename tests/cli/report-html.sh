#!/bin/sh
# report.html in a real browser at 390, 768 and 1280 pixels, light and dark: the recommendation comes first, nothing
# overflows the page, no text is smaller than 12 px or has a contrast ratio below 4.5, every file in the folder is
# linked, and untrusted text stays text.
set -eu
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
run() { "$HONE" "$@" > "$t/o" 2> "$t/e" || say "hone $*: $(cat "$t/e")"; }
run convert tests/golden/models/qwen3 -o "$t/b.gguf"
mkdir "$t/d"
run quantize "$t/b.gguf" -o "$t/d/Tiny-Q4_K_M.gguf" --recipe Q4_K_M
# names that would break out of HTML, long ones, huge and missing numbers; plots over one and over three depths
cat > "$t/d/results.json" <<'X'
{"hone_version": "0", "machine": "<script>alert(1)</script>", "model": {"name": "T<b onclick='x'>&amp;ny</b>", "arch": "qwen3", "n_params": 1,
 "ctx": 4096}, "imatrix": {"n_chunks": 1, "chunk_size": 512, "texts": [{"name": "a</code><i>.txt"}]},
 "eval": {"ctx": 512, "n_tokens": 90000, "n_chunks": 1, "texts": ["e.txt"], "pp": 512, "tg": 64}, "notes": ["<img src=x onerror=alert(2)>"],
 "files": [
 {"file": "Tiny-BF16.gguf", "recipe": "BF16", "is_base": true, "size_bytes": 20000000000, "bpw": 16, "ppl": 9.1, "ppl_stderr": 0.1, "sha256": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
 {"file": "a-very-long-name-of-a-model-that-somebody-really-published-with-everything-in-it-Q8_0.gguf", "recipe": "Q8_0'/><b>", "size_bytes": 10000000000, "bpw": 8.5,
  "ppl": 9.11, "mean_kld": 0.006, "sha256": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
  "by_depth": [{"from": 1, "to": 63, "mean_kld": 2e-05}, {"from": 64, "to": 127, "mean_kld": 1e-05}, {"from": 128, "to": 255, "mean_kld": 0}],
  "speed": [{"test": "pp512", "depth": 0, "tok_per_s": 900}, {"test": "tg64", "depth": 0, "tok_per_s": 40}, {"test": "tg64", "depth": 4096, "tok_per_s": 30}]},
 {"file": "Tiny-Q4_K_M.gguf", "recipe": "Q4_K_M", "size_bytes": 5000000000, "bpw": 4.9, "ppl": 9.3, "mean_kld": 0.01, "mean_kld_stderr": 0.0001, "mean_kld_stderr_windows": 0.0004, "same_top1": 0.979, "tg_tok_per_s": 1234.5, "tg_tok_per_s_stddev": 80, "size_class": "Q4_K_M", "preset_kld": 0.087,
  "by_depth": "none", "speed": [{"test": 3}, 7, null]}]}
X
run publish "$t/d" --repo me/T-GGUF --license mit
grep -q "<h2 class=take>Take <a href='./Tiny-Q4_K_M.gguf'>Q4_K_M</a>, 5.00 GB <span class='q q2'>slight loss</span></h2>" "$t/d/report.html" ||
    say "report.html does not say what to take"
sed 's/<[^>]*>/ /g' "$t/d/report.html" > "$t/text"
for x in '8.7x  closer to the original' '97.9 %  of the time the same most likely token' '0.0100  mean divergence, nats, ± 0.0004' "Rings: llama.cpp's presets"; do
    grep -qF "$x" "$t/text" || say "report.html: no '$x'"
done
grep -q '`' "$t/text" && say "report.html: literal back-ticks"
# folded: details that few need; the base has no row if it is not in the folder
for x in 'What the words mean' 'All numbers' Checksums; do grep -q "<summary>$x" "$t/d/report.html" || say "report.html: $x is not folded"; done
sed -n '/<section id=files/,/<\/table>/p' "$t/d/report.html" | sed 's/<\/table>.*//' | grep -q BF16 && say "report.html: the base is in the table of files"
# bands, chips and rings agree: each point has the colour of its chip, above it the preset
for w in wide narrow; do
    grep "<div class=$w>" "$t/d/report.html" | head -1 | sed "s/<g class='/\n&/g" | sed -n "s/^<g class='\(q.\)'>.*<title>\(Q4_K_M\) .*/\1 \2/p" > "$t/points"
    [ "$(cat "$t/points")" = "q2 Q4_K_M" ] || say "report.html, $w: points $(cat "$t/points")"
done
grep -q "class='o'" "$t/d/kld.svg" || say "kld.svg: no ring of the preset"
grep -q "href='./Tiny-Q4_K_M.gguf'" "$t/d/report.html" || say "no link to the file"
grep -q "href='./a-very" "$t/d/report.html" && say "a link to a file that is not there"
grep -q 'no noticeable loss</span> divergence up to 0.005' "$t/d/report.html" || say "the bands are not defined"
grep -qE '5,000,000,000' "$t/d/report.html" || say "bytes without separators"
grep -qE "(src|href)='?(https?:|//)" "$t/d/report.html" && say "report.html refers to other places"
for f in report.html kld.svg kld-depth.svg speed-depth.svg; do
    [ -s "$t/d/$f" ] || say "no $f"
    grep -qE '<script|<img|<b>|<b |<i>' "$t/d/$f" && say "$f: text became markup"
done
# results of earlier versions have only the error of independent tokens, which is too small: it is not shown
cp -r "$t/d" "$t/old"
sed -i 's/"mean_kld_stderr_windows": [0-9.]*/"old": 1/; s/"preset_kld"/"preset_sure": 9, "preset_kld"/' "$t/old/results.json"
run publish "$t/old" -f
for f in README.md report.html; do
    sed 's/<[^>]*>/ /g' "$t/old/$f" > "$t/text"
    grep -q '0.0100' "$t/text" && ! grep -q '0.0100 .*±.* 0.000' "$t/text" || say "$f: the error of independent tokens"
    grep -q 'divergence is unknown\|error is unknown' "$t/text" || say "$f does not say that the error is unknown"
done
# the preset of the same size is closer: not the same
for x in 0.004:farther 0.0098:same; do
    cp -r "$t/d" "$t/worse"
    sed -i "s/\"preset_kld\": 0.087/\"preset_kld\": ${x%:*}/" "$t/worse/results.json"
    run publish "$t/worse" -f
    grep -q "; ${x#*:} [a-z]* llama.cpp's" "$t/worse/README.md" ||
        say "README.md: preset ${x%:*}: $(grep Q4_K_M "$t/worse/README.md")"
    rm -r "$t/worse"
done
cp -r "$t/d" "$t/odd"
sed -i 's/"size_class": "Q4_K_M"/"size_class": "<b>x<\/b>"/; s/"arch": "qwen3"/"arch": "<b>", "arch_note": "<i>"/; s/"hone_version": "0"/"hone_version": "<b>"/' "$t/odd/results.json"
mv "$t/odd/Tiny-Q4_K_M.gguf" "$t/odd/Tiny)<b>.gguf"
sed -i 's/Tiny-Q4_K_M.gguf/Tiny)<b>.gguf/' "$t/odd/results.json"
run publish "$t/odd" -f
grep -q '<strong>8.7x</strong>' "$t/odd/report.html" || say "the odd file has no gain"
for f in d/README.md odd/README.md odd/report.html; do
    sed '/^```/,/^```/d; s/`[^`]*`//g; s/\\<//g' "$t/$f" | grep -E '<script|<img|<b>|<b |<i>' && say "$f: text became markup"
done
grep -qF '](Tiny%29%3Cb%3E.gguf)' "$t/odd/README.md" || say "README.md: the link to an odd name"
"$HONE" publish --check "$t/odd" > "$t/o" 2>&1 || true
grep -q card-link "$t/o" && say "a link to an odd name is not found: $(cat "$t/o")"
for f in kld kld-depth speed-depth; do
    grep -q "]($f.svg)" "$t/d/README.md" || say "README.md does not show $f.svg"
    grep -qE 'NaN|nan|inf[^o]' "$t/d/$f.svg" && say "$f.svg holds no numbers: $(grep -oE '.{40}(nan|inf).{20}' "$t/d/$f.svg" | head -2)"
done
grep -o "<circle" "$t/d/kld-depth.svg" | grep -c . | grep -qx 2 || say "kld-depth.svg: points $(grep -o '<circle' "$t/d/kld-depth.svg" | grep -c .)"
grep -o "<circle" "$t/d/speed-depth.svg" | grep -c . | grep -qx 2 || say "speed-depth.svg: points"
[ $fail = 0 ] || exit 1
[ -n "$browser" ] || { echo "SKIP: no chromium; the texts are right"; exit 77; }
# a page that loads the report in a frame of each width and writes what it finds; a wide table may scroll, in its own box
cat > "$t/d/frame.html" <<'X'
<!doctype html><meta charset=utf-8><iframe width=390 height=800 src=report.html></iframe><iframe width=768 height=800 src=report.html></iframe>
<iframe width=1280 height=800 src=report.html></iframe><pre id=out></pre><script>
const rgb = s => s.match(/[\d.]+/g).map(Number);
const lum = c => { const [r, g, b] = c.map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const ratio = (a, b) => { const [x, y] = [lum(a), lum(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
addEventListener('load', () => { for (const f of document.querySelectorAll('iframe')) {
  const w = f.contentWindow, d = f.contentDocument, e = d.documentElement;
  let off = 0, font = 99, contrast = 99, where = '';
  const all = d.createTreeWalker(d.body, NodeFilter.SHOW_TEXT);
  while (all.nextNode()) {
    const p = all.currentNode.parentElement, s = w.getComputedStyle(p);
    if (!all.currentNode.data.trim() || ['style', 'title'].includes(p.tagName.toLowerCase()) || !p.getClientRects().length) continue;
    const box = (p.closest('.scroll') || p).getBoundingClientRect(), svg = p.ownerSVGElement;
    if (box.right > e.clientWidth + 0.5 || box.left < -0.5) { off++; where = all.currentNode.data; }
    font = Math.min(font, parseFloat(s.fontSize) * (svg ? svg.getScreenCTM().a : 1));
    let back = svg ? w.getComputedStyle(svg.querySelector('rect.p')).fill : 'rgba(0, 0, 0, 0)';
    for (let g = p; g && rgb(back)[3] === 0; g = g.parentElement) back = w.getComputedStyle(g).backgroundColor;
    const c = ratio(rgb(svg ? s.fill : s.color).slice(0, 3), rgb(back).slice(0, 3));
    if (c < 4.5) where = all.currentNode.data;
    contrast = Math.min(contrast, c);
  }
  document.getElementById('out').textContent += `width ${e.clientWidth} content ${e.scrollWidth} off ${off} font ${font >= 11.99} contrast ${contrast >= 4.5} ` +
    `strange ${d.querySelectorAll('script,img,b,i').length} title ${d.title}\n(${font.toFixed(2)} px, ${contrast.toFixed(2)}, ${where})\n`; } });
</script>
X
for dark in 1 0; do
    timeout 60 "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$t/profile" --allow-file-access-from-files \
        --enable-logging=stderr --blink-settings=preferredColorScheme=$dark --virtual-time-budget=3000 --dump-dom "file://$t/d/frame.html" \
        > "$t/dom" 2> "$t/e" || say "chromium: $(tail -3 "$t/e")"
    grep -q 'CONSOLE' "$t/e" && say "console: $(grep CONSOLE "$t/e")"
    for w in 390 768 1280; do
        grep -q "width $w content $w off 0 font true contrast true strange 0 title T&lt;b onclick='x'&gt;&amp;amp;ny&lt;/b&gt; GGUF report" "$t/dom" ||
            say "at $w, dark $((1 - dark)): $(grep -A1 "width $w" "$t/dom" || tail -5 "$t/dom")"
    done
done
exit $fail
