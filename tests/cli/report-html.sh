#!/bin/sh
# report.html in a real browser at 390 and 1280 pixels: no error, nothing wider than the page, all text of strangers as text.
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
 "eval": {"ctx": 512, "n_tokens": 9, "n_chunks": 1, "texts": ["e.txt"], "pp": 512, "tg": 64}, "notes": ["<img src=x onerror=alert(2)>"],
 "files": [
 {"file": "Tiny-BF16.gguf", "recipe": "BF16", "is_base": true, "size_bytes": 20000000000, "bpw": 16, "ppl": 9.1, "ppl_stderr": 0.1, "sha256": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
 {"file": "a-very-long-name-of-a-model-that-somebody-really-published-with-everything-in-it-Q8_0.gguf", "recipe": "Q8_0'/><b>", "size_bytes": 10000000000, "bpw": 8.5,
  "ppl": 9.11, "mean_kld": 1e-05, "sha256": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
  "by_depth": [{"from": 1, "to": 63, "mean_kld": 2e-05}, {"from": 64, "to": 127, "mean_kld": 1e-05}, {"from": 128, "to": 255, "mean_kld": 0}],
  "speed": [{"test": "pp512", "depth": 0, "tok_per_s": 900}, {"test": "tg64", "depth": 0, "tok_per_s": 40}, {"test": "tg64", "depth": 4096, "tok_per_s": 30}]},
 {"file": "Tiny-Q4_K_M.gguf", "recipe": "Q4_K_M", "size_bytes": 5000000000, "bpw": 4.9, "ppl": 9.3, "mean_kld": 0.01,
  "by_depth": "none", "speed": [{"test": 3}, 7, null]}]}
X
run publish "$t/d" --repo me/T-GGUF --license mit
for f in report.html kld.svg kld-depth.svg speed-depth.svg; do
    [ -s "$t/d/$f" ] || say "no $f"
    grep -qE '<script|<img|<b>|<b |<i>' "$t/d/$f" && say "$f: text became markup"
done
for f in kld kld-depth speed-depth; do
    grep -q "]($f.svg)" "$t/d/README.md" || say "README.md does not show $f.svg"
    grep -qE 'NaN|nan|inf[^o]' "$t/d/$f.svg" && say "$f.svg holds no numbers: $(grep -oE '.{40}(nan|inf).{20}' "$t/d/$f.svg" | head -2)"
done
grep -o "<circle" "$t/d/kld-depth.svg" | grep -c . | grep -qx 2 || say "kld-depth.svg: points $(grep -o '<circle' "$t/d/kld-depth.svg" | grep -c .)"
grep -o "<circle" "$t/d/speed-depth.svg" | grep -c . | grep -qx 2 || say "speed-depth.svg: points"
[ $fail = 0 ] || exit 1
[ -n "$browser" ] || { echo "SKIP: no chromium; the texts are right"; exit 77; }
# a page that loads the report in a frame of each width and writes what it finds
cat > "$t/d/frame.html" <<'X'
<!doctype html><meta charset=utf-8><iframe id=a width=390 height=800 src=report.html></iframe><iframe id=b width=1280 height=800 src=report.html></iframe>
<pre id=out></pre><script>
addEventListener('load', () => { for (const id of ['a', 'b']) {
  const f = document.getElementById(id), d = f.contentDocument, e = d.documentElement;
  document.getElementById('out').textContent += `width ${f.clientWidth} content ${e.scrollWidth} svg ${d.querySelectorAll('svg').length} ` +
    `rows ${d.querySelectorAll('tr').length} strange ${d.querySelectorAll('script,img,b,i').length} title ${d.title}\n`; } });
</script>
X
timeout 60 "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$t/profile" --allow-file-access-from-files --enable-logging=stderr \
    --virtual-time-budget=3000 --dump-dom "file://$t/d/frame.html" > "$t/dom" 2> "$t/e" || say "chromium: $(tail -3 "$t/e")"
grep -q 'CONSOLE' "$t/e" && say "console: $(grep CONSOLE "$t/e")"
for w in 390 1280; do
    grep -q "width $w content $w svg 3 rows 8 strange 0 title T&lt;b onclick='x'&gt;&amp;amp;ny&lt;/b&gt; GGUF report" "$t/dom" || say "at $w: $(grep '^<pre\|^width' "$t/dom")"
done
exit $fail
