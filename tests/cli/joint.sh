#!/bin/sh
# SPDX-License-Identifier: MIT
# Joint probes on the bundled trained model: the expected number of probes is made, a resumed measurement writes the
# same bytes, and the mix is no worse than the one from slopes.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
fail() { echo "$*"; exit 1; }
src=tests/golden/tiny-qwen35moe
head -c 16000 $src/self_calib.txt > "$t/calib.txt"
tail -c 16000 $src/self_calib.txt > "$t/probe.txt"
"$HONE" convert $src -o "$t/base.gguf" --type bf16 -q > /dev/null
"$HONE" imatrix "$t/base.gguf" "$t/calib.txt" -o "$t/im.gguf" --ctx 128 --chunks 16 -q > /dev/null
probe() { out=$1; shift; "$HONE" sensitivity "$t/base.gguf" --imatrix "$t/im.gguf" --probe "$t/probe.txt" --ctx 64 --chunks 4 -o "$t/$out.json" -q --json "$@" > "$t/$out.out"; }
n() { grep -o "\"$1\": [0-9.e-]*" "$2" | head -1 | cut -d' ' -f2; }

# 13 roles, everything, 4 blocks; then single groups in rounds of 6, fewer than all 30
probe joint
found=$(n n_probes "$t/joint.out")
[ "$found" -ge 24 ] && [ "$found" -lt 48 ] && [ $((found % 6)) = 0 ] || fail "$found probes"
[ "$(grep -c '"joint_type"' "$t/joint.json")" = 30 ] || fail "groups without a type for joint probes"
grep -q '"role": "ffn_down_exps", "kld"' "$t/joint.json" && grep -q '"block": 3, "kld"' "$t/joint.json" || fail "no joint probes in the file"

# precise probes end after 8 windows; on a varied text all windows are needed
grep -q '"n_chunks": 4}' "$t/joint.json" || fail "windows of a probe are not recorded"
i=0
head -c 40 "$t/calib.txt" > "$t/same.txt"
while [ $i != 9 ]; do cat "$t/same.txt" "$t/same.txt" > "$t/twice.txt"; mv "$t/twice.txt" "$t/same.txt"; i=$((i + 1)); done
for text in same probe; do
    "$HONE" sensitivity "$t/base.gguf" --imatrix "$t/im.gguf" --probe "$t/$text.txt" --ctx 64 --chunks 9 -o "$t/$text.json" -q > /dev/null
done
early=$(grep -o "\"n_chunks\": 8}" "$t/same.json" | wc -l)
[ "$early" -ge 12 ] || fail "$early of the probes on repeated text ended early"
[ "$(grep -o "\"n_chunks\": 9}" "$t/probe.json" | wc -l)" -gt 12 ] || fail "probes on a varied text ended early"

# cut short, then completed
probe cut --time 0.0006s
grep -q '"cut_short": true' "$t/cut.out" || fail "--time had no effect"
probe cut
cmp "$t/joint.json" "$t/cut.json" || fail "a resumed measurement is not the whole one"

# the mix
cp "$t/joint.json" "$t/slopes.json"
probe slopes -f --measure slopes
grep -q '"joint' "$t/slopes.json" && fail "--measure slopes made joint probes"
for how in joint slopes; do
    "$HONE" quantize "$t/base.gguf" -o "$t/$how.gguf" --budget 11060000 --imatrix "$t/im.gguf" --sensitivity "$t/$how.json" -q > /dev/null
done
"$HONE" eval kld "$t/joint.gguf" "$t/slopes.gguf" $src/self_eval.txt --base "$t/base.gguf" --ctx 256 --chunks 4 -q --json > "$t/kld.json"
grep -o '"mean_kld": [0-9.e-]*' "$t/kld.json" | head -2 | cut -d' ' -f2 | tr '\n' ' ' > "$t/pair"
awk '{exit !($1 > 0 && $1 <= 1.02 * $2)}' "$t/pair" || fail "divergence of the joint mix and of the slopes' mix: $(cat "$t/pair")"

# refusals
refuse() { want=$1 text=$2; shift 2; rc=0; "$@" > /dev/null 2> "$t/err" || rc=$?; [ $rc = "$want" ] && grep -q -- "$text" "$t/err" || fail "status $rc: $*: $(cat "$t/err")"; }
refuse 2 "--measure: 'some' is not joint, all or slopes" "$HONE" sensitivity "$t/base.gguf" -o "$t/x.json" --measure some
sed 's/"role": "ffn_down_exps", "kld"/"role": "nothing", "kld"/' "$t/joint.json" > "$t/bad.json"
refuse 3 '"joint": entry' "$HONE" quantize "$t/base.gguf" -o "$t/x.gguf" --budget 9M --imatrix "$t/im.gguf" --sensitivity "$t/bad.json"
echo "joint probes: $found probes of 30 groups, resumed, and a mix at $(awk '{printf "%.2f", $1 / $2}' "$t/pair") of the slopes'"
