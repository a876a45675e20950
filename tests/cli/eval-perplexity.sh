#!/bin/sh
# SPDX-License-Identifier: MIT
# Perplexity of the trained test model's f32 conversion on the shared evaluation text, at 512 tokens: an
# independent engine and transformers' arithmetic give 29.1434; ours must be within 0.01 %.
set -eu
text=../shared/models/tiny-qwen35moe/eval.txt
[ -r $text ] || { echo "SKIP: $text is not there"; exit 77; }
grep -q __asan_init "$HONE" && { echo "SKIP: minutes under a sanitizer; eval.sh walks the same code"; exit 77; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
"$HONE" convert tests/golden/tiny-qwen35moe -o "$t/f32.gguf" --type f32 -q > /dev/null
"$HONE" eval ppl "$t/f32.gguf" $text --json > "$t/out"
sed -n 's/^ *"\(ppl\|n_chunks\|n_tokens\|tok_per_s\)": \([-0-9.e+]*\),*$/\1 \2/p' "$t/out" | awk '
    { v[$1] = $2; print }
    END { d = v["ppl"] / 29.1434 - 1; exit !(d < 1e-4 && d > -1e-4 && v["n_chunks"] == 163 && v["n_tokens"] == 41565) }'
