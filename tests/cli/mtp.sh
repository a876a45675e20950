#!/bin/sh
# SPDX-License-Identifier: MIT
# hone eval mtp; hone run --draft mtp generates the same text as without drafts; invalid requests are refused.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
for m in qwen35moe qwen35; do
    "$HONE" convert tests/golden/models/$m -o "$t/$m.gguf" --type f32 -q > /dev/null 2>&1
    for how in "--temp 0" "--temp 1 --seed 3"; do
        # shellcheck disable=SC2086
        "$HONE" run "$t/$m.gguf" -p "The value of" -n 60 $how --act f32 > "$t/plain"
        # shellcheck disable=SC2086
        "$HONE" run "$t/$m.gguf" -p "The value of" -n 60 $how --act f32 --draft mtp > "$t/draft" 2> "$t/log"
        cmp "$t/plain" "$t/draft"
        grep -q 'of [1-9][0-9]* drafted tokens accepted' "$t/log" || { cat "$t/log"; exit 1; }
    done
done
"$HONE" run "$t/qwen35.gguf" -p "The value of" -n 9 --temp 0 --draft mtp --json > "$t/json"
for key in drafted_tokens accepted_tokens acceptance; do grep -q "\"$key\"" "$t/json"; done
# a context that becomes full within an answer
"$HONE" run "$t/qwen35.gguf" -p "The value of" -n 50 --ctx 12 --temp 0 --draft mtp --json > "$t/json"
grep -q '"stop": "context"' "$t/json"

"$HONE" eval mtp "$t/qwen35moe.gguf" calib/text/calib.txt --ctx 64 --chunks 2 --json > "$t/json"
grep -q '"n_tokens": 60' "$t/json" # rows 32 to 61 of two windows
for key in acceptance acceptance_stderr overlap overlap_stderr trunk_top1 draft_top1 tok_per_s; do
    grep -q "\"$key\"" "$t/json" || { echo "no $key"; exit 1; }
done

"$HONE" convert tests/golden/models/qwen35moe -o "$t/none.gguf" --no-mtp -q > /dev/null 2>&1
refused 3 "no MTP block" run "$t/none.gguf" -p x --draft mtp
refused 3 "no MTP block" eval mtp "$t/none.gguf" calib/text/calib.txt
refused 2 "--draft: 'eagle' is not mtp" run "$t/none.gguf" -p x --draft eagle

# --mtp-only: the block and the tensors that it shares, with the keys of the whole model, as llama.cpp's converter writes with --mtp
names() { "$HONE" inspect "$1" --tensors --keys none --json | grep -o '"name": "[a-z_]*[.][a-z0-9_.]*"' | sort; }
m=tests/golden/models/qwen35moe
"$HONE" convert $m -o "$t/all.gguf" --type q8_0 -q > /dev/null 2>&1
"$HONE" convert $m -o "$t/mtp.gguf" --type q8_0 --mtp-only -q > /dev/null 2>&1
last=$("$HONE" meta "$t/all.gguf" qwen35moe.block_count --csv | tail -n 1 | sed 's/.*,//')
names "$t/all.gguf" | grep "\"blk[.]$((last - 1))[.]\|\"token_embd.weight\|\"output_norm.weight\|\"output.weight" > "$t/want"
names "$t/mtp.gguf" | diff "$t/want" - || { echo "--mtp-only: other tensors"; exit 1; }
[ "$(wc -l < "$t/want")" -gt 12 ]
for f in all mtp; do "$HONE" meta "$t/$f.gguf" | grep -v size_label > "$t/$f.keys"; done
diff "$t/all.keys" "$t/mtp.keys" || { echo "--mtp-only: other keys"; exit 1; }
grep -q 'nextn_predict_layers *u32 *1' "$t/mtp.keys"
refused 2 "no-mtp" convert $m -o "$t/x.gguf" --mtp-only --no-mtp
refused 3 "no MTP block" convert tests/golden/models/qwen3 -o "$t/x.gguf" --mtp-only
