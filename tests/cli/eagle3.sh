#!/bin/sh
# SPDX-License-Identifier: MIT
# EAGLE-3 draft files in hone run: the text is that of a run without a draft, greedy and sampled, with f32 and 8-bit activations, whatever the
# draft says; files that do not fit are refused with the remedy. test_eagle3 compares logits and acceptance, test_sched the server's answers.
set -eu
[ -x "${HONE_MICRO:-}" ] || { echo "SKIP: no micro checkpoints"; exit 77; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
"$HONE" convert tests/golden/models/qwen3 -o "$t/model.gguf" --type q8_0 -q > /dev/null 2>&1
for d in eagle3/shares eagle3/whole named/dflash; do
    made=$("$HONE_MICRO" "tests/golden/$d")
    "$HONE" convert "$made" -o "$t/${d#*/}.gguf" --type q8_0 -q > /dev/null 2>&1
    rm -r "${made%/hf}"
done
for d in shares whole; do
    for how in "--temp 0" "--temp 1 --seed 3" "--temp 0 --act f32" "--temp 1 --seed 4 --act f32"; do
        # shellcheck disable=SC2086
        run 0 run "$t/model.gguf" -p "The value of" -n 60 $how
        cp "$t/o" "$t/plain"
        # shellcheck disable=SC2086
        run 0 run "$t/model.gguf" -p "The value of" -n 60 $how --draft "$t/$d.gguf"
        cmp "$t/plain" "$t/o" || say "$d, $how: another text"
        grep -q 'of [1-9][0-9]* drafted tokens accepted' "$t/e" || say "$d: $(cat "$t/e")"
    done
    # a context that becomes full within an answer, and a type of draft that is as small as they get
    run 0 run "$t/model.gguf" -p "The value of" -n 50 --ctx 12 --temp 0 --draft "$t/$d.gguf" --json
    grep -q '"stop": "context"' "$t/o" || say "full context: $(cat "$t/o")"
done
run 0 quantize "$t/shares.gguf" -o "$t/small.gguf" --type Q4_0
run 0 run "$t/model.gguf" -p "The value of" -n 20 --temp 0 --draft "$t/small.gguf"

# ---- acceptance of each file ----
run 0 eval mtp "$t/model.gguf" "$t/shares.gguf" "$t/small.gguf" calib/text/calib.txt --ctx 64 --chunks 2 --csv
[ "$(grep -c '^\(shares\|small\)' "$t/o")" = 2 ] || say "eval mtp: $(cat "$t/o")"
run 0 eval mtp "$t/model.gguf" "$t/whole.gguf" calib/text/calib.txt --ctx 64 --chunks 2 --json
grep -q '"acceptance"' "$t/o" && grep -q '"n_tokens": 60' "$t/o" || say "eval mtp of one file: $(cat "$t/o")"
# a draft with a weight that is not a number: the same text, and a warning that names the file
made=$("$HONE_MICRO" tests/golden/eagle3/shares)
run 0 convert "$made" -o "$t/nan.gguf" --type f32
rm -r "${made%/hf}"
size=$(stat -c %s "$t/nan.gguf")
printf '\377\377\377\377' | dd of="$t/nan.gguf" bs=1 seek=$((size - 4)) conv=notrunc 2> /dev/null
run 0 run "$t/model.gguf" -p "The value of" -n 20 --temp 0
cp "$t/o" "$t/plain"
run 0 run "$t/model.gguf" -p "The value of" -n 20 --temp 0 --draft "$t/nan.gguf"
cmp "$t/plain" "$t/o" || say "a draft that is not finite: another text"
grep -q 'nan.gguf: tensor .* is not finite.*the drafts are useless' "$t/e" || say "not finite: $(cat "$t/e")"
refused 2 "a model and then its draft files" eval mtp "$t/model.gguf" "$t/shares.gguf" "$t/model.gguf" calib/text/calib.txt

# ---- refusals ----
"$HONE" convert tests/golden/models/qwen2 -o "$t/other.gguf" -q > /dev/null 2>&1
refused 3 "shares.gguf: its model has a width of 128, but $t/other.gguf has 64: use the draft made for this model" \
    run "$t/other.gguf" -p x --draft "$t/shares.gguf"
refused 3 "other.gguf is not a draft file" run "$t/model.gguf" -p x --draft "$t/other.gguf"
"$HONE" convert tests/golden/models/qwen35 -o "$t/mtp.gguf" --mtp-only -q > /dev/null 2>&1
refused 3 "mtp.gguf: its model is qwen35, but $t/model.gguf is qwen3: use the draft made for this model" \
    run "$t/model.gguf" -p x --draft "$t/mtp.gguf"
refused 3 "dflash.gguf: hone cannot draft with DFlash" run "$t/model.gguf" -p x --draft "$t/dflash.gguf"
refused 2 "'nothing.gguf' is not mtp, and there is no such file" run "$t/model.gguf" -p x --draft nothing.gguf
refused 2 "'nothing.gguf' is not one of auto, mtp, off, and there is no such file" serve "$t/model.gguf" --draft nothing.gguf
refused 3 "hone run MODEL.gguf --draft" run "$t/shares.gguf" -p x
head -c 3000 "$t/shares.gguf" > "$t/cut.gguf"
run 3 run "$t/model.gguf" -p x --draft "$t/cut.gguf"
exit $fail
