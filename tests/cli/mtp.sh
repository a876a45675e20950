#!/bin/sh
# SPDX-License-Identifier: MIT
# hone eval mtp; hone run --draft with the model's MTP block, or with one in a file of its own, generates the same text as without drafts;
# invalid requests are refused.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
for m in qwen35moe qwen35; do
    "$HONE" convert tests/golden/models/$m -o "$t/$m.gguf" --type f32 -q > /dev/null 2>&1
    "$HONE" convert tests/golden/models/$m -o "$t/none-$m.gguf" --type f32 --no-mtp -q > /dev/null 2>&1
    "$HONE" convert tests/golden/models/$m -o "$t/mtp-$m.gguf" --type f32 --mtp-only -q > /dev/null 2>&1
    for how in "--temp 0" "--temp 1 --seed 3"; do
        # shellcheck disable=SC2086
        "$HONE" run "$t/$m.gguf" -p "The value of" -n 60 $how --act f32 > "$t/plain"
        # shellcheck disable=SC2086
        "$HONE" run "$t/$m.gguf" -p "The value of" -n 60 $how --act f32 --draft mtp > "$t/draft" 2> "$t/log"
        cmp "$t/plain" "$t/draft"
        grep -q 'of [1-9][0-9]* drafted tokens accepted' "$t/log" || { cat "$t/log"; exit 1; }
        # the block in a file of its own, for a model without it: the same text and drafts
        # shellcheck disable=SC2086
        "$HONE" run "$t/none-$m.gguf" -p "The value of" -n 60 $how --act f32 --draft "$t/mtp-$m.gguf" > "$t/draft" 2> "$t/log2"
        cmp "$t/plain" "$t/draft"
        [ "$(grep -o '[0-9]* of [0-9]* drafted' "$t/log")" = "$(grep -o '[0-9]* of [0-9]* drafted' "$t/log2")" ] || { cat "$t/log2"; exit 1; }
    done
done
# the rates of drafts in files: those of the block in the model's file, which --no-mtp leaves out
"$HONE" eval mtp "$t/qwen35.gguf" calib/text/calib.txt --ctx 64 --chunks 2 --json > "$t/json"
"$HONE" eval mtp "$t/none-qwen35.gguf" "$t/mtp-qwen35.gguf" calib/text/calib.txt --ctx 64 --chunks 2 --json > "$t/json2"
[ "$(grep -o '"overlap": [0-9.]*' "$t/json")" = "$(grep -o '"overlap": [0-9.]*' "$t/json2")" ] || { cat "$t/json2"; exit 1; }
grep -q '"overlap": 0[.]0*[1-9]' "$t/json2"
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

# several files: each against the first, with intervals
"$HONE" quantize "$t/qwen35moe.gguf" -o "$t/q4.gguf" --type Q4_0 > /dev/null 2>&1
"$HONE" eval mtp "$t/qwen35moe.gguf" "$t/q4.gguf" "$t/qwen35moe.gguf" calib/text/calib.txt --ctx 64 --chunks 2 --csv > "$t/csv"
"$HONE" eval mtp "$t/q4.gguf" calib/text/calib.txt --ctx 64 --chunks 2 --json > "$t/json"
[ "$(grep -c gguf "$t/csv")" = 3 ]
one=$(sed -n 's/.*"acceptance": \([0-9.]*\).*/\1/p' "$t/json")
awk -F, -v one="$one" '/^qwen35moe/ { if (!n++) first = $2; else if ($5 != 0 || $6 != 0 || $7 != 0) exit 1 }
    /^q4/ { d = $2 - first - $5; if (d > 2e-4 || d < -2e-4 || $6 > $5 || $7 < $5 || $3 > $2 || $4 < $2 || $2 - one > 1e-4 || one - $2 > 1e-4) exit 1; q = 1 }
    END { exit !q }' "$t/csv" || { cat "$t/csv" "$t/json"; exit 1; }

"$HONE" convert tests/golden/models/qwen35moe -o "$t/none.gguf" --no-mtp -q > /dev/null 2>&1
refused 3 "no MTP block" run "$t/none.gguf" -p x --draft mtp
refused 3 "no MTP block" eval mtp "$t/none.gguf" calib/text/calib.txt
refused 3 "mtp-qwen35.gguf: its model is qwen35, but $t/none.gguf is qwen35moe: use the draft made for this model" \
    run "$t/none.gguf" -p x --draft "$t/mtp-qwen35.gguf"
refused 3 "none.gguf is not a draft file, but a model of its own" run "$t/qwen35.gguf" -p x --draft "$t/none.gguf"
refused 3 "holds only an MTP block, which --draft takes" run "$t/mtp-qwen35.gguf" -p x
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

# such a file of another model, one that is cut, and one with a weight that is not a number, which gives the same text
"$HONE" synth --arch-from tests/golden/tiny-qwen35moe/config.json --recipe BF16 --tokenizer tests/golden/tiny-qwen35moe -o "$t/base.gguf" > /dev/null 2>&1
refused 3 "mtp.gguf: its model has a width of 128, but $t/base.gguf has" run "$t/base.gguf" -p x --draft "$t/mtp.gguf"
head -c 20000 "$t/mtp.gguf" > "$t/cut.gguf"
refused 3 "cut.gguf" run "$t/all.gguf" -p x --draft "$t/cut.gguf"
cp "$t/mtp-qwen35.gguf" "$t/nan.gguf" # its last tensor, output_norm of 512 bytes, is not used: the block has its own norm before it
printf '\377\377\377\377' | dd of="$t/nan.gguf" bs=1 seek=$(($(stat -c %s "$t/nan.gguf") - 516)) conv=notrunc 2> /dev/null
"$HONE" run "$t/none-qwen35.gguf" -p "The value of" -n 20 --temp 0 > "$t/plain" 2> /dev/null
"$HONE" run "$t/none-qwen35.gguf" -p "The value of" -n 20 --temp 0 --draft "$t/nan.gguf" > "$t/draft" 2> "$t/log"
cmp "$t/plain" "$t/draft"
grep -q 'nan.gguf: tensor .* is not finite.*the drafts are useless' "$t/log" || { cat "$t/log"; exit 1; }

[ -z "${WINE_EXE-}" ] || exit 0 # Wine cannot edit a file in place

# Presets, recipes and mixes give the MTP block at least 4.5 bits per weight (Q4_K); explicit types stay as they are. Layer 3 of a random model
# is declared to be the MTP block; as it lacks nextn.eh_proj, hone only quantizes the file.
head -c 3000 tests/golden/tiny-qwen35moe/self_calib.txt > "$t/calib.txt"
"$HONE" imatrix "$t/base.gguf" "$t/calib.txt" --ctx 64 --gram "$t/gram.gguf" -o "$t/im.gguf" > /dev/null 2>&1
refused 2 "nextn_predict_layers is 1, but block 3 lacks nextn.eh_proj.weight" meta "$t/base.gguf" qwen35moe.nextn_predict_layers=1
"$HONE" meta "$t/base.gguf" qwen35moe.nextn_predict_layerz=1 > /dev/null 2>&1
LC_ALL=C sed 's/[.]nextn_predict_layerz/.nextn_predict_layers/' "$t/base.gguf" > "$t/x.gguf"
mv "$t/x.gguf" "$t/base.gguf"
refused 3 "nextn_predict_layers is 1, but block 3 lacks nextn.eh_proj.weight" eval ppl "$t/base.gguf" "$t/calib.txt"
fine='Q4_0 Q4_1 Q4_K Q5_0 Q5_1 Q5_K Q6_K Q8_0 F16 BF16 F32 IQ4_NL NVFP4'
low() { # plan: its types of the block that are not in $fine
    grep '^blk[.]3[.]' "$1" | while read -r name type; do case " $fine " in *" $type "*) ;; *) echo "$name $type" ;; esac; done
}
n=0
for r in $("$HONE" recipes --json | sed -n 's/.*"recipe": "\(.*\)".*/\1/p'); do
    [ "$r" != BF16 ] || continue # the model has this type
    "$HONE" quantize "$t/base.gguf" -o "$t/x.gguf" --recipe "$r" --dry-run --plan-out "$t/plan.tsv" -f > /dev/null 2>&1
    [ -z "$(low "$t/plan.tsv")" ] || { echo "$r:"; low "$t/plan.tsv"; exit 1; }
    n=$((n + 1))
done
[ "$n" -gt 30 ] || { echo "only $n recipes"; exit 1; }
"$HONE" quantize "$t/base.gguf" -o "$t/x.gguf" --recipe Q2_K --search fast --imatrix "$t/im.gguf" --gram "$t/gram.gguf" --plan-out "$t/plan.tsv" -f > /dev/null 2>&1
[ -z "$(low "$t/plan.tsv")" ] && grep -q Q2_K "$t/plan.tsv" || { echo "error feedback:"; low "$t/plan.tsv"; exit 1; }
"$HONE" inspect "$t/x.gguf" --tensors --keys none | grep 'blk.3.ffn_down_exps.weight *Q4_K' > /dev/null
"$HONE" quantize "$t/base.gguf" -o "$t/x.gguf" --budget 8M --imatrix "$t/im.gguf" --plan-out "$t/plan.tsv" -f > /dev/null 2>&1
[ -z "$(low "$t/plan.tsv")" ] && grep -q IQ2 "$t/plan.tsv" || { echo "a mix:"; low "$t/plan.tsv"; exit 1; }
for explicit in "--recipe Q3_K_M --tensor blk.3.*=Q2_K" "--type Q2_K" "--recipe Q2_K --pure"; do
    # shellcheck disable=SC2086
    "$HONE" quantize "$t/base.gguf" -o "$t/x.gguf" $explicit --dry-run --plan-out "$t/plan.tsv" -f > /dev/null 2>&1
    low "$t/plan.tsv" | grep -q 'blk.3.attn_v.weight Q2_K' || { echo "$explicit: $(cat "$t/plan.tsv")"; exit 1; }
done
