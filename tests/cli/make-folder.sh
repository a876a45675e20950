#!/bin/sh
# hone make on a small random checkpoint: the folder is complete, a second run reuses everything, -f makes everything
# again, and invalid requests are refused in one sentence before any work.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
tiny=tests/golden/tiny-qwen35moe
n=20000 chunks=4
# a sanitizer is slow and checks the code, not the numbers
if grep -q __asan_init "$HONE"; then n=12500 chunks=1; fi
head -c $n $tiny/self_calib.txt > "$t/calib.txt"
head -c 12000 $tiny/self_eval.txt > "$t/eval.txt"
job() { "$HONE" make $tiny -o "$t/out" -q --plain --recipes Q4_K_M,Q2_K --calib "$t/calib.txt" --eval "$t/eval.txt" --chunks $chunks --pp 32 --tg 8 --reps 1 --tools-cases 2 --by-depth --depths 0,16 "$@"; }
job --json > "$t/first.json"
for f in README.md report.html results.json SHA256SUMS manifest.json Modelfile params model.yaml config.json imatrix.gguf tiny-qwen35moe-Q4_K_M.gguf tiny-qwen35moe-Q2_K.gguf; do
    [ -s "$t/out/$f" ] || { echo "missing $f"; exit 1; }
done
(cd "$t/out" && sha256sum -c SHA256SUMS >/dev/null)
rc=0
"$HONE" publish --check "$t/out" --json > "$t/check" || rc=$? # the tiny model names neither license nor origin
[ $rc -le 1 ] || { echo "publish --check: exit $rc"; exit 1; }
if grep '"rule"' "$t/check" | grep -vE 'card-license"|card-base-model"|model-yaml-local|meta-name'; then echo "faults in the folder"; exit 1; fi
grep -q '<svg' "$t/out/report.html"
grep -q 'base_model_relation: quantized' "$t/out/README.md"
grep -q '"mean_kld"' "$t/out/results.json"
# the error over windows, of two files; one window has none
[ "$(grep -c '"mean_kld_stderr_windows": 0*[.1-9]' "$t/out/results.json")" = $((chunks > 1 ? 2 : 0)) ] || { echo "errors over windows"; exit 1; }
# windows of 512: predictions from 1..63, 64..127, 128..255 and 256..511 tokens, of each of two files; speed at both depths of three
for k in 63 64 128 256; do
    [ "$(grep -c "\"n_tokens\": $((k * chunks)),\|\"n_tokens\":$((k * chunks))," "$t/out/results.json")" = 2 ] || { echo "by depth: no $k tokens"; cat "$t/out/results.json"; exit 1; }
done
[ "$(grep -c '"depth": 16' "$t/out/results.json")" = 6 ] || { echo "speed rows"; exit 1; }
# our documents read by a different parser: no duplicate names, only numbers as numbers; sizes and sums match the files
if command -v python3 > /dev/null; then
    python3 - "$t/out" "$t/out.work" <<'END'
import hashlib, json, os, sys
def once(pairs):
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)
def constant(word):
    raise ValueError(word)
for folder in sys.argv[1:]:
    for name in os.listdir(folder):
        if name.endswith(".json"):
            json.load(open(os.path.join(folder, name), encoding="utf-8"), object_pairs_hook=once, parse_constant=constant)
for f in json.load(open(os.path.join(sys.argv[1], "manifest.json")))["files"]:
    data = open(os.path.join(sys.argv[1], f["file"]), "rb").read()
    assert f["size_bytes"] == len(data) and f["sha256"] == hashlib.sha256(data).hexdigest(), f["file"]
END
fi
for f in kld-depth.svg speed-depth.svg; do grep -q polyline "$t/out/$f" || { echo "no lines in $f"; exit 1; }; done
grep -q '"tools_n": 2' "$t/out/results.json" && grep -q '<summary>Tool calls' "$t/out/README.md" && grep -q 'Tool calls' "$t/out/report.html"
if grep -qE "src=|<script|<link|url\\(|href='?[^'.]" "$t/out/report.html"; then echo "report.html is not self-contained"; exit 1; fi
if grep -rqF "$t" "$t/out/README.md" "$t/out/report.html" "$t/out/results.json"; then echo "a local path leaked"; exit 1; fi

# repeated: nothing is rebuilt
before=$(stat -c '%n %Y %i' "$t/out"/*.gguf)
job > /dev/null
[ "$before" = "$(stat -c '%n %Y %i' "$t/out"/*.gguf)" ] || { echo "a second run wrote files again"; exit 1; }
# a damaged output is detected and made again
cp "$t/out/tiny-qwen35moe-Q2_K.gguf" "$t/good"
printf X | dd of="$t/out/tiny-qwen35moe-Q2_K.gguf" bs=1 seek=500000 conv=notrunc 2>/dev/null
job > /dev/null
cmp "$t/good" "$t/out/tiny-qwen35moe-Q2_K.gguf"

# numbers are only used for the weights that were measured: other metadata keep them, other weights do not
cp -r "$t/out" "$t/edit"
"$HONE" meta "$t/edit/tiny-qwen35moe-Q2_K.gguf" general.description="new words" > /dev/null
"$HONE" publish "$t/edit" -q > /dev/null
old=$(sha256sum "$t/out/tiny-qwen35moe-Q2_K.gguf" | cut -d' ' -f1)
if grep -q "$old" "$t/edit/report.html" || ! grep -q 'see SHA256SUMS' "$t/edit/report.html"; then echo "report.html: the sum of the file before"; exit 1; fi
"$HONE" plan "$t/edit" > "$t/o" 2> "$t/e"
! grep -q 'its loss is unknown' "$t/e" || { echo "edited metadata: $(cat "$t/e")"; exit 1; }
cp "$t/out/tiny-qwen35moe-Q2_K.gguf" "$t/edit/tiny-qwen35moe-Q4_K_M.gguf"
refused 3 "are not those whose numbers results.json has" publish "$t/edit"
"$HONE" publish --check "$t/edit" --json > "$t/o" 2> "$t/e" || true
[ "$(grep -c '"rule": "results-other"' "$t/o")" = 1 ] || { echo "publish --check: $(cat "$t/o")"; exit 1; }
"$HONE" plan "$t/edit" > "$t/o" 2> "$t/e"
grep -q 'Q4_K_M.gguf: .* its loss is unknown' "$t/e" || { echo "other weights: $(cat "$t/e")"; exit 1; }

refused 2 "no recipe 'Q9_X'" make $tiny -o "$t/x" --recipes Q9_X
refused 2 "no such" make "$t/nothing" -o "$t/x"
refused 2 "-o DIR" make $tiny
refused 2 "none.txt: No such file" make $tiny -o "$t/x" --calib "$t/none.txt"
refused 2 "/dev/null" make $tiny -o /dev/null/x
[ ! -e "$t/x" ] || { echo "a refused request left $t/x"; exit 1; }

# a full disk: a private tmpfs of 50 MB holds the base (35 MB) and the first quant, but the second is refused
mkdir "$t/small"
if [ -z "${WINE_EXE-}" ] && unshare -m sh -c "mount -t tmpfs -o size=50m none '$t/small'" 2>/dev/null; then
    HONE=$HONE T=$t TINY=$tiny unshare -m sh -c 'mount -t tmpfs -o size=50m none "$T/small"
        job() { "$HONE" make "$TINY" -o "$T/small/o" -q --plain --recipes "$1" --calib "$T/calib.txt" --eval "$T/eval.txt" --chunks 2 --pp 8 --tg 2 --reps 1 --tools none > "$T/o" 2> "$T/e"; }
        job Q2_K || { echo "a disk for one file: $(cat "$T/e")"; exit 1; }
        rc=0
        job Q2_K,Q8_0 || rc=$?
        [ $rc = 4 ] || { echo "full disk: exit $rc, expected 4"; exit 1; }
        ls -A "$T/small/o" | grep -q "tmp-" && { echo "full disk: a temporary was left behind"; exit 1; }
        "$HONE" verify "$T/small/o/tiny-qwen35moe-Q2_K.gguf" -q > /dev/null || { echo "full disk: the file before is damaged"; exit 1; }
        [ ! -e "$T/small/o/tiny-qwen35moe-Q8_0.gguf" ]'
    [ "$(wc -l < "$t/e")" = 1 ] && grep -q 'not enough space for .*small/o: .* bytes needed, .* free' "$t/e" || { echo "full disk:"; cat "$t/e"; exit 1; }
else
    echo "no mount rights here, or Wine: a full disk was not tried"
fi
