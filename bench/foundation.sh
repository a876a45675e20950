#!/bin/sh
# bench/foundation.sh [OUT.json] - the basic measurements in one JSON: conversions compared with llama.cpp's converter,
# logits compared with transformers, tokenizers, perplexity and divergence compared with an independent engine, and the
# demo's time. Needs `make all unit`. The last part needs ../shared and is skipped without it.
set -eu
out=${1:-docs/results/foundation.json}
HONE=${HONE:-build/hone}
UNIT=${UNIT:-$(ls -td build/obj-*/tests/unit | head -1)}
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
last() { tail -n 1 "$1"; }
"$UNIT/test_convert" > "$t/convert" 2>&1 || true
"$UNIT/test_session" > "$t/session" 2>&1 || true
"$UNIT/test_tok" > "$t/tok" 2>&1 || true
worst() { grep -E "^$1, .*max .logit difference" "$t/session" | sed 's/.* //' | sort -g | tail -1; }
t0=$(date +%s%N)
make --no-print-directory demo > "$t/demo" 2>&1
demo=$(awk "BEGIN{print ($(date +%s%N) - $t0) / 1e9}")
baseline=null
[ -e ../shared/models/tiny-qwen35moe/peer-baseline.json ] && bench/tiny.sh "$t/tiny.json" > /dev/null && baseline=$(cat "$t/tiny.json")
cat > "$out" <<JSON
{
 "command": "bench/foundation.sh",
 "machine": "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $(nproc) threads",
 "conversion": {"test": "test_convert", "result": "$(last "$t/convert")", "oracle": "tests/golden/models/*/gguf-reference.json"},
 "logits": {"test": "test_session", "result": "$(last "$t/session")", "limit": 5e-4,
  "max_abs_difference": {"qwen35moe": $(worst qwen35moe), "qwen35": $(worst qwen35)}, "oracle": "transformers float32, golden.safetensors"},
 "tokenizers": {"test": "test_tok", "result": "$(last "$t/tok")", "cases": 331, "tokenizers": 4, "oracle": "tests/golden/models/tokens.json"},
 "demo_seconds": $demo,
 "tiny_against_peer": $baseline
}
JSON
cat "$out"
