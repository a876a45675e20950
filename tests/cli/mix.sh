#!/bin/sh
# hone sensitivity, quantize --budget and make --budget: sizes are exact to the byte, a plan reproduces its file, an
# interrupted job resumes, and the gate keeps a plain recipe if a mix is not better.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
fail() { echo "$*"; exit 1; }
src=tests/golden/models/qwen35moe
texts=tests/golden/tiny-qwen35moe
head -c 12000 $texts/self_calib.txt > "$t/calib.txt"
tail -c 12000 $texts/self_calib.txt > "$t/probe.txt"
head -c 8000 $texts/self_eval.txt > "$t/eval.txt"
"$HONE" convert $src -o "$t/base.gguf" -q > /dev/null
"$HONE" imatrix "$t/base.gguf" "$t/calib.txt" -o "$t/im.gguf" -q > /dev/null

# the budget is kept to the byte, and the plan rebuilds the tensors
for b in 1200000 1300000; do
    "$HONE" quantize "$t/base.gguf" -o "$t/a.gguf" --budget $b --imatrix "$t/im.gguf" -f -q --json > "$t/a.json"
    size=$(wc -c < "$t/a.gguf")
    [ "$size" -le $b ] || fail "budget $b: the file has $size bytes"
    [ "$size" -gt $((b * 9 / 10)) ] || fail "budget $b: the file has only $size bytes"
    grep -q "\"size_bytes\": $size" "$t/a.json" || fail "budget $b: the reported size is not $size"
    "$HONE" verify "$t/a.gguf" -q > /dev/null || fail "budget $b: not a whole file"
    "$HONE" quantize "$t/base.gguf" -o "$t/b.gguf" --recipe "$t/a.gguf.plan.tsv" --imatrix "$t/im.gguf" -f -q > /dev/null
    "$HONE" inspect "$t/a.gguf" > "$t/a.txt"
    grep -q hone.mix.budget_bytes "$t/a.gguf" || fail "no note of the mix in the file"
done
"$HONE" quantize "$t/base.gguf" -o "$t/m-{}.gguf" --budget 1250K --budget 1200K --imatrix "$t/im.gguf" -q > /dev/null
[ -e "$t/m-1250K.gguf" ] && [ -e "$t/m-1200K.gguf" ] || fail "several budgets: files are missing"

# the same command again: its own plan is no obstacle; another plan is, and stays
rm "$t/m-1250K.gguf" "$t/m-1200K.gguf"
"$HONE" quantize "$t/base.gguf" -o "$t/m-{}.gguf" --budget 1250K --budget 1200K --imatrix "$t/im.gguf" -q > /dev/null || fail "the same command again"
echo "# mine" > "$t/mine.tsv"
rc=0
"$HONE" quantize "$t/base.gguf" -o "$t/x.gguf" --plan-out "$t/mine.tsv" --budget 1250K --imatrix "$t/im.gguf" > /dev/null 2> "$t/err" || rc=$?
[ $rc = 2 ] && grep -q "mine.tsv exists already" "$t/err" && [ "$(cat "$t/mine.tsv")" = "# mine" ] || fail "another plan: $(cat "$t/err")"

# an uninformative matrix counts as missing, as with a recipe; a budget must be a number
printf '\1\0\0\0\1\0\0\0x\1\0\0\0\1\0\0\0\0\0\200\77' > "$t/empty.dat"
"$HONE" quantize "$t/base.gguf" -o "$t/none.gguf" --budget 1300K --imatrix "$t/empty.dat" > /dev/null 2> "$t/err"
grep -q "empty.dat has no entry for" "$t/err" || fail "an empty importance matrix: $(cat "$t/err")"
for x in inf nan 1e999 1e-9 1e30; do
    "$HONE" quantize "$t/base.gguf" -o "$t/none.gguf" --bpw $x -f > /dev/null 2> "$t/err" && fail "--bpw $x"
    grep -qE "'$x' is not a number|no file has" "$t/err" || fail "--bpw $x: $(cat "$t/err")"
done

# same input, same file, with any number of threads
"$HONE" quantize "$t/base.gguf" -o "$t/c.gguf" --budget 1200K --imatrix "$t/im.gguf" --threads 1 -q > /dev/null
cmp "$t/c.gguf" "$t/m-1200K.gguf" || fail "another number of threads, another file"

# a card: by the planner's count the choice fits it, and slightly more would not
card="--vram 4500000 --reserve 100000B --ctx 512 --kv-type q8_0"
"$HONE" quantize "$t/base.gguf" -o "$t/v.gguf" $card --imatrix "$t/im.gguf" -q --json > "$t/v.json"
"$HONE" plan "$t/v.gguf" $card --json > "$t/plan.json"
grep -q '"fit": "all"' "$t/plan.json" || fail "the mix for a card does not fit it: $(grep fits "$t/plan.json")"
used=$(grep -o '"vram_bytes": [0-9]*' "$t/v.json" | cut -d' ' -f2)
[ "$used" -le 4400000 ] && [ "$used" -gt 4300000 ] || fail "--vram: $used bytes are used"
"$HONE" quantize "$t/base.gguf" -o "$t/v2.gguf" $card --budget 1200K --imatrix "$t/im.gguf" -q > /dev/null
[ "$(wc -c < "$t/v2.gguf")" -le 1200000 ] || fail "--vram with --budget: the file is too large"

# quality and speed: fewer bytes per token, more divergence; the front has both ends; avoided types do not occur
ask() { "$HONE" quantize "$t/base.gguf" -o "$t/p.gguf" --budget 1250K --imatrix "$t/im.gguf" -f -q --json "$@" > "$t/p.json"; }
field() { grep -o "\"$1\": [0-9.e+-]*" "$t/p.json" | head -1 | cut -d' ' -f2; }
ask --prefer quality
q_bytes=$(field decode_bytes) q_kld=$(field predicted_kld)
ask --prefer 100 --front "$t/front.svg"
awk -v a="$q_bytes" -v b="$(field decode_bytes)" -v c="$q_kld" -v d="$(field predicted_kld)" 'BEGIN {exit !(b < a && d > c)}' || fail "--prefer speed reads $(field decode_bytes) bytes a token, quality $q_bytes"
grep -q "<polyline" "$t/front.svg" && grep -q "</svg>" "$t/front.svg" || fail "--front wrote no plot"
grep -q "\"predicted_kld\": $q_kld" "$t/p.json" || fail "the front does not begin with quality"
"$HONE" quantize "$t/base.gguf" -o "$t/p.gguf" --budget 1400K --avoid IQ4_NL,Q5_0 --imatrix "$t/im.gguf" -f -q > /dev/null
! grep -qE "IQ4_NL|Q5_0" "$t/p.gguf.plan.tsv" || fail "--avoid had no effect"

# error feedback: the choice accounts for its gain per type, and the file is made with it; the sanitizer runs
# feedback.sh
if ! grep -q __asan_init "$HONE"; then
    "$HONE" imatrix "$t/base.gguf" "$t/calib.txt" -o "$t/im2.gguf" --gram "$t/gram.gguf" --ctx 64 --chunks 16 -q > /dev/null
    "$HONE" quantize "$t/base.gguf" -o "$t/fb.gguf" --budget 1250K --imatrix "$t/im.gguf" --gram "$t/gram.gguf" -q --json > "$t/p.json"
    awk -v a="$(field predicted_kld)" -v b="$q_kld" 'BEGIN {exit !(a > 0 && a < b)}' || fail "with feedback $(field predicted_kld) is predicted, without $q_kld"
    [ "$(wc -c < "$t/fb.gguf")" -le 1250000 ] || fail "--budget with --gram: the file is too large"
    "$HONE" quantize "$t/base.gguf" -o "$t/fb2.gguf" --recipe "$t/fb.gguf.plan.tsv" --imatrix "$t/im.gguf" -q > /dev/null
    cmp -s "$t/fb.gguf" "$t/fb2.gguf" && fail "--gram changes nothing"
fi
# a size between the smallest types and IQ1: these are measured too, in any order of the sizes
if ! grep -q __asan_init "$HONE"; then
    "$HONE" convert $texts -o "$t/tiny.gguf" --type bf16 -q > /dev/null
    "$HONE" imatrix "$t/tiny.gguf" "$t/calib.txt" --ctx 64 --chunks 2 -o "$t/tiny-im.gguf" -q > /dev/null
    two() { "$HONE" quantize "$t/tiny.gguf" -o "$t/iq1-{}" --imatrix "$t/tiny-im.gguf" --dry-run --csv "$@" > "$t/iq1" 2> "$t/err" || fail "IQ1 as a last resort: $(cat "$t/err")"; }
    two --budget 6500000 --budget 8M
    grep -q "IQ1_S and IQ1_M too" "$t/err" || fail "6500000 bytes are enough without IQ1: $(cat "$t/err")"
    cut -d, -f1-6 "$t/iq1" | sort > "$t/iq1.sorted"
    two --budget 8M --budget 6500000
    cut -d, -f1-6 "$t/iq1" | sort | cmp - "$t/iq1.sorted" || fail "the order of the sizes changes the mixes"
fi
# random weights need not have a lower divergence; feedback.sh checks that on a trained model

# probes: stopped at once, then completed; an uninterrupted run gives the same file
probe() { out=$1; shift; "$HONE" sensitivity "$t/base.gguf" --imatrix "$t/im.gguf" --probe "$t/probe.txt" --ctx 64 --chunks 4 --types 1 -o "$out" -q --json "$@"; }
probe "$t/whole.json" > "$t/whole.out"
probe "$t/cut.json" --time 0.0006s > "$t/cut.out"
grep -q '"cut_short": true' "$t/cut.out" || fail "--time had no effect"
grep -q '"slope": ' "$t/cut.json" || fail "gradients say nothing of the groups"
for k in rel_err_mix seconds_missing accuracy; do grep -q "\"$k\"" "$t/cut.out" || fail "a short measurement does not say $k"; done
probe "$t/bands.json" --measure all --bands 1 > "$t/bands.out"
probe "$t/all.json" --measure all > "$t/all.out"
probe "$t/slopes.json" --measure slopes > "$t/slopes.out"
n() { grep -o "\"$1\": [0-9]*" "$2" | head -1 | cut -d' ' -f2; }
[ "$(n n_probes "$t/bands.out")" -gt 0 ] && [ "$(n n_probes "$t/bands.out")" -lt "$(n n_probes "$t/all.out")" ] || fail "--bands 1 made $(n n_probes "$t/bands.out") probes"
probe "$t/cut.json" > "$t/cut2.out"
"$HONE" sensitivity "$t/base.gguf" --imatrix "$t/im.gguf" --probe "$t/probe.txt" --ctx 32 --chunks 1 --types 1 --bands 1 --time 0.0006s -o "$t/two.json" -q > /dev/null
LC_ALL=C sed 's/blk[.]3[.]attn_output[.]weight/blk.9.attn_output.weight/g' "$t/im.gguf" > "$t/lacks.gguf" # one entry less
for im in im lacks; do
    "$HONE" sensitivity "$t/base.gguf" --imatrix "$t/$im.gguf" --probe "$t/probe.txt" --ctx 32 --chunks 2 --types 1 --bands 1 --time 0.0006s -o "$t/$im.json" > /dev/null 2> "$t/$im.err"
done
grep -q 'lacks.gguf has no entry for 1 tensor (blk.3.attn_output.weight), measured without importance' "$t/lacks.err" || fail "no warning: $(cat "$t/lacks.err")"
grep 'has no entry' "$t/im.err" && fail "a complete matrix is called incomplete"
grep -q '"n_chunks": 2' "$t/two.json" || fail "--chunks 1 is not the least that a standard error needs"
cmp "$t/whole.json" "$t/cut.json" || fail "a resumed measurement is not the whole one"
# a file full of joint probes that are never made leaves no room for others
awk '/"joint": \[/ {
         print
         for (i = 0; i < 1024; i++) print "{\"block\": " 5000 + i ", \"kld\": 1}" (i < 1023 ? "," : "")
         skip = 1
     }
     skip && /^  \]/ {skip = 0}
     !skip' "$t/whole.json" > "$t/full.json"
[ "$(grep -c '"kld": 1}' "$t/full.json")" = 1024 ] || fail "no joint probes were replaced"
probe "$t/full.json" > "$t/full.out" || fail "a file full of joint probes"
# a small budget that comes later adds the errors of IQ1 types
cp "$t/whole.json" "$t/low.json"
probe "$t/low.json" --budget 300K --rounds 0 > "$t/low.out"
probe "$t/fresh.json" --budget 300K --rounds 0 > "$t/fresh.out"
grep -q '"IQ1_S"' "$t/fresh.json" || fail "IQ1 types are no candidates for a small budget"
grep -q '"IQ1_S"' "$t/whole.json" && fail "IQ1 types are candidates without a small budget"
cmp "$t/low.json" "$t/fresh.json" || fail "a small budget that comes later gives other sensitivities"
"$HONE" quantize "$t/base.gguf" -o "$t/d.gguf" --budget 1200K --imatrix "$t/im.gguf" --sensitivity "$t/whole.json" -q > /dev/null
[ "$(wc -c < "$t/d.gguf")" -le 1200000 ] || fail "budget with probes"

# quantize's gate: with probes the mix wins; without them, or if every type fits, a plain recipe takes its place
gate() { "$HONE" quantize "$t/base.gguf" -o "$t/g.gguf" --gate "$t/eval.txt" --imatrix "$t/im.gguf" -f -q --json "$@" > "$t/g.json" 2> "$t/err"; }
gate --budget 1300K --sensitivity "$t/whole.json"
grep -q '"shipped": "the mix"' "$t/g.json" && grep -q hone.mix.budget_bytes "$t/g.gguf" || fail "1300K: $(cat "$t/g.json")"
gate --budget 2M --sensitivity "$t/whole.json"
grep -q '"shipped": "Q[68]_' "$t/g.json" && ! grep -q hone.mix.budget_bytes "$t/g.gguf" || fail "2M: $(cat "$t/g.json")"
[ ! -e "$t/g.gguf.plan.tsv" ] && [ -z "$(ls "$t" | grep plain-)" ] || fail "the gate left files: $(ls "$t")"

# whatever ships for a card fits it, whatever the budget
for limits in "$card" "$card --budget 40M"; do
    # shellcheck disable=SC2086
    gate $limits
    "$HONE" plan "$t/g.gguf" $card --json > "$t/plan.json"
    grep -q '"fit": "all"' "$t/plan.json" || fail "$limits: $(grep shipped "$t/g.json") does not fit the card"
done
# without a verdict the mix has another name, and the output stays as it was
rm -f "$t"/g.gguf*
echo word > "$t/word.txt"
"$HONE" quantize "$t/base.gguf" -o "$t/g-{}.gguf" --gate "$t/word.txt" --imatrix "$t/im.gguf" --budget 1300K --budget 1200K > /dev/null 2> "$t/err" && fail "a gate of one word"
[ "$(cd "$t" && echo g-*.gguf)" = "g-1200K.gguf.unjudged.gguf g-1300K.gguf.unjudged.gguf" ] || fail "without a verdict: $(ls "$t")"
grep -q "g-1200K.gguf.unjudged.gguf: the mix is kept" "$t/err" || fail "without a verdict: $(cat "$t/err")"
gate --budget 1300K --sensitivity "$t/whole.json"
[ "$(cd "$t" && echo g.gguf*)" = "g.gguf g.gguf.plan.tsv" ] || fail "after a verdict: $(ls "$t")"
# files that hone did not write stay
foreign() { # file
    cp "$t/word.txt" "$1"
    rc=0
    "$HONE" quantize "$t/base.gguf" -o "$t/h.gguf" --gate "$t/eval.txt" --imatrix "$t/im.gguf" --budget 1300K > /dev/null 2> "$t/err" || rc=$?
    [ $rc = 2 ] && grep -q "${1##*/} exists already" "$t/err" && cmp "$1" "$t/word.txt" || fail "${1##*/}: exit $rc: $(cat "$t/err")"
}
foreign "$t/h.gguf.unjudged.gguf"
rm "$t/h.gguf.unjudged.gguf"
foreign "$t/h.gguf.plain-Q4_K_M.gguf" # the largest that fits
rm "$t"/h.gguf*

# refusals
refuse() { want=$1; shift; rc=0; "$@" > /dev/null 2> "$t/err" || rc=$?; [ $rc = "$want" ] || fail "status $rc, expected $want: $*: $(cat "$t/err")"; }
refuse 2 "$HONE" quantize "$t/base.gguf" -o "$t/x.gguf" --budget 1000B --imatrix "$t/im.gguf"
refuse 2 "$HONE" quantize "$t/base.gguf" -o "$t/x.gguf" --budget 1M --recipe Q4_K_M
refuse 2 "$HONE" quantize "$t/base.gguf" -o "$t/x.gguf" --budget 1M --budget 2M
refuse 2 "$HONE" quantize "$t/base.gguf" -o "$t/x-{}.gguf" --budget 1M --budget 2M --budget 1M
grep -q -- "--budget: 1M is named twice" "$t/err" || fail "a budget named twice: $(cat "$t/err")"
refuse 2 "$HONE" quantize "$t/base.gguf" -o "$t/x.gguf" --vram 3M --ctx 4096 --imatrix "$t/im.gguf"
refuse 2 "$HONE" quantize "$t/base.gguf" -o "$t/x.gguf" --budget 1M --ctx 4096
refuse 2 "$HONE" quantize "$t/base.gguf" -o "$t/x.gguf" --recipe Q4_K_M --prefer speed
refuse 2 "$HONE" quantize "$t/base.gguf" -o "$t/x.gguf" --budget 1M --prefer slow
refuse 3 "$HONE" quantize "$t/a.gguf" --allow-requantize -o "$t/x.gguf" --budget 1M --sensitivity "$t/whole.json"
refuse 2 "$HONE" sensitivity "$t/base.gguf" --probe "$t/probe.txt" --ctx 64 --chunks 4 -o "$t/whole.json"
for in in base.gguf im.gguf probe.txt; do
    cp "$t/$in" "$t/copy"
    refuse 2 "$HONE" sensitivity "$t/base.gguf" --imatrix "$t/im.gguf" --probe "$t/probe.txt" -o "$t/$in" -f
    cmp "$t/$in" "$t/copy" || fail "sensitivity replaced its input"
done
refuse 2 "$HONE" quantize "$t/base.gguf" -o "$t/x.gguf" --vram 3600K --reserve 100000B --ctx 512 --kv-type q8_0 --imatrix "$t/im.gguf"
grep -q -- "--vram leaves" "$t/err" || fail "an impossible card: $(cat "$t/err")"
refuse 2 "$HONE" quantize "$t/base.gguf" -o "$t/x-{}.gguf" --budget 1300K --budget 1000B --imatrix "$t/im.gguf"
refuse 2 "$HONE" quantize "$t/base.gguf" -o "$t/base.gguf" -f --budget 1300K --imatrix "$t/im.gguf" --gate "$t/eval.txt"
[ -z "$(ls "$t" | grep '^x')" ] || fail "a refused run left a file"
# outputs are checked before anything is measured or read
refuse 2 "$HONE" quantize "$t/base.gguf" -o "$t/a.gguf" --budget 1300K --sensitivity "$t/calib.txt"
grep -q "use -f" "$t/err" || fail "an output that exists: $(cat "$t/err")"
refuse 2 "$HONE" quantize "$t/base.gguf" -o "$t/x.gguf" --budget 1300K --sensitivity "$t/calib.txt" --front "$t/none/x.svg"
refuse 2 "$HONE" sensitivity "$t/absent.gguf" -o "$t/absent/x.json"
grep -q "create its folder first" "$t/err" || fail "a missing folder: $(cat "$t/err")"
[ ! -e "$t/x.gguf" ] || fail "a refused run left a file"

# the three texts are kept apart
"$HONE" sensitivity "$t/base.gguf" --imatrix "$t/im.gguf" --probe "$t/calib.txt" --ctx 64 --chunks 2 --types 1 --bands 1 -o "$t/same.json" > /dev/null 2> "$t/err"
grep -q "text of the importance matrix" "$t/err" || fail "probes on the importance matrix's text: no warning"
cp "$t/eval.txt" "$t/eval-copy.txt"
refuse 2 "$HONE" make "$t/base.gguf" -o "$t/job2" -q --recipes Q8_0 --budget 1300K --calib "$t/calib.txt" --probe "$t/eval-copy.txt" --eval "$t/eval.txt" --chunks 2 --ctx 64 --calib-ctx 64 --calib-chunks 4 --pp 16 --tg 4 --reps 1 --tools none
grep -q "neither importance nor probes" "$t/err" || fail "make with the same text twice: $(cat "$t/err")"

head -c 2500 "$t/probe.txt" > "$t/short.txt"
# make: a size that no mix has is refused before anything is written, also by the dry run; 0 is no size
few() { "$HONE" make "$t/base.gguf" -q --recipes Q8_0 --calib "$t/calib.txt" --probe "$t/short.txt" --eval "$t/eval.txt" --chunks 2 --ctx 64 --calib-ctx 64 --calib-chunks 8 --pp 4 --tg 2 --reps 1 --tools none "$@"; }
refuse 2 few -o "$t/nofit" --budget 0
grep -q -- "--budget: 0 bytes" "$t/err" || fail "a budget of 0: $(cat "$t/err")"
for how in --dry-run "" "--time 0"; do
    # shellcheck disable=SC2086
    refuse 2 few -o "$t/nofit" --budget 1300K --budget 1000B $how
    least=$(sed -n 's/.*--budget 1000B is too small: this model.s smallest mix has \([0-9]*\) bytes.*/\1/p' "$t/err")
    [ -n "$least" ] || fail "a budget that cannot be met $how: $(cat "$t/err")"
    [ "$how" = "--time 0" ] || [ ! -e "$t/nofit.work" ] || fail "a refused budget left a folder $how"
done

# make: the forecast has the recipes that a mix is compared with, the three largest ones within the size, which are on the disk together
few -o "$t/x" --effort fast --budget 1300K --dry-run --json > "$t/dry.json"
sizes=$(for r in Q5_0 Q5_K_S Q4_K_M Q4_K_S Q4_1 Q3_K_L IQ4_NL IQ4_XS Q4_0 Q3_K_M; do
    "$HONE" quantize "$t/base.gguf" --imatrix "$t/im.gguf" --recipe $r --dry-run --json -q | sed -n 's/.*"size_bytes": \([0-9]*\).*/\1/p' | head -1
done | awk '$1 <= 1300000' | sort -rn | head -3 | awk '{s += $1} END {print s}')
[ "$(n work_bytes "$t/dry.json")" -ge "$sizes" ] || fail "temporary files: $(n work_bytes "$t/dry.json"), the recipes compared take $sizes"

# a preset that the job makes anyway is counted once, and float recipes, which are never compared, are not counted
"$HONE" recipes "$t/base.gguf" --imatrix "$t/im.gguf" --csv | awk -F, '$6 == "llama.cpp preset" && $1 !~ /^B?F[0-9]*$/ {print $2, $1}' | sort -rn | head -3 > "$t/largest"
third=$(sed -n '3s/.* //p' "$t/largest") # no size class, so its file is the preset
few -o "$t/x" --effort fast --recipes "$third" --budget 90M --dry-run --json > "$t/dry.json"
awk -v got="$(n work_bytes "$t/dry.json")" 'NR < 3 {want += $1} END {exit !(got > want * 0.99 && got < want * 1.01)}' "$t/largest" || fail "temporary files: $(n work_bytes "$t/dry.json"), the two largest are compared: $(cat "$t/largest")"

# make: a size at which the mix wins, and one at which every type fits and it cannot
if grep -q __asan_init "$HONE"; then
    echo "mixes: budgets, plans, resume, refusals, gate (not make, under a sanitizer)"
    exit 0
fi
# the least size, which is below every floor, is made
few -o "$t/least" --budget "$least"B > "$t/job.out" 2> "$t/err" || fail "--budget $least: $(cat "$t/err")"
grep -q "shipped for ${least}B" "$t/least/README.md" || fail "the smallest mix was not made: $(ls "$t/least")"
for f in "$t/least/base-$least"*.gguf; do [ "$(wc -c < "$f")" -le "$least" ] || fail "the smallest mix: $(ls -l "$t/least")"; done
# The template is a defective one: every file has the repaired one. Size classes in the same folder change no verdict.
bad=tests/golden/templates/repair/chatml.jinja
cp -r $src "$t/hf" && cp $bad "$t/hf/chat_template.jinja"
"$HONE" convert "$t/hf" -o "$t/base.gguf" -f -q > /dev/null
"$HONE" template fix $bad -o "$t/good.jinja" > /dev/null 2>&1
job() { out=$1; shift; "$HONE" make "$t/base.gguf" -o "$t/$out" -q --recipes "$@" --budget 1300K --budget 2M --calib "$t/calib.txt" --probe "$t/short.txt" --eval "$t/eval.txt" --chunks 4 --ctx 128 --calib-ctx 64 --calib-chunks 8 --pp 4 --tg 2 --reps 1 --tools none; }
job job Q4_0 > "$t/job.out"
grep -q "the mix was shipped for 1300K" "$t/job/README.md" || fail "the mix for 1300K was not shipped: $(grep shipped "$t/job/README.md")"
grep -q "the plain recipe was shipped for 2M" "$t/job/README.md" || fail "2M: $(grep shipped "$t/job/README.md")"
mix=$(ls "$t/job" | grep "^base-1300K-mix-.*gguf$")
[ -n "$mix" ] && [ -e "$t/job/$mix.plan.tsv" ] || fail "the mix or its plan is missing"
[ -z "$(ls "$t/job" | grep "^base-2M")" ] || fail "a mix that is no better was left in the folder"
for f in "$t/job"/base-*.gguf; do
    "$HONE" template show "$f" | cmp -s - "$t/good.jinja" || fail "$f has another template than the repaired one"
done
[ "$(grep -c '"made": "mix"' "$t/job/results.json")" = 1 ] || fail "results.json does not tell the mix"
cksum "$t/job"/*.gguf "$t/job.work/sens.json" > "$t/sums"
job job Q4_0 > "$t/job.out"
cksum "$t/job"/*.gguf "$t/job.work/sens.json" | cmp - "$t/sums" || fail "a second run changed files"
# a job that is killed while the mix is compared keeps what it encoded
x= # exec: the program takes the place of the shell that runs it
comparing() { $x "$HONE" make "$t/base.gguf" -o "$t/$1" --effort fast --recipes Q4_0 --budget 1300K --calib "$t/calib.txt" --probe "$t/short.txt" --eval "$t/eval.txt" --chunks 40 --ctx 64 --calib-ctx 64 --calib-chunks 8 --pp 4 --tg 2 --reps 1 --tools none 2> "$t/err"; }
comparing whole > "$t/job.out" || fail "$(cat "$t/err")"
cut_short() { # folder
    x=exec
    comparing "$1" > "$t/job.out" &
    pid=$! x=
    while kill -0 $pid 2> /dev/null && [ "$(find "$t" -path "*$1.work/compared-*.json" | wc -l)" -lt 2 ]; do sleep 0.02; done
    kill -KILL $pid 2> /dev/null || true
    wait $pid 2> /dev/null || true
}
compared_files() { find "$t/$1.work" -name 'plain-*' -o -name '*-mix.gguf*'; } # folder
cut_short cut
known=$(cd "$t/cut.work" && ls | sed -n 's/^compared-\(.*\)[.]json$/\1/p')
if [ ! -e "$t/cut/results.json" ]; then # it was killed in time
    comparing cut > "$t/job.out" || fail "$(cat "$t/err")"
    grep 'making the best mix' "$t/err" && fail "the mix was encoded again"
    for r in $known; do grep "quantizing $r, for comparison" "$t/err" && fail "$r was encoded again"; done
fi
for f in "$t"/whole/*.gguf; do cmp "$f" "$t/cut/${f##*/}" || fail "killed during the comparison: other bytes"; done
compared_files cut | grep . && fail "files that were compared are left"
# a later job that does not need them removes them too
cut_short other
if [ ! -e "$t/other/results.json" ]; then
    compared_files other | grep -q . || fail "the killed job left no files: the test shows nothing"
    few -o "$t/other" --plain > "$t/job.out" 2> "$t/err" || fail "$(cat "$t/err")"
    compared_files other | grep . && fail "another job left the files that were compared"
fi
job classes Q8_0,Q6_K > "$t/job.out"
for f in job classes; do grep "shipped for" "$t/$f/README.md" > "$t/$f.verdicts"; done
cmp "$t/job.verdicts" "$t/classes.verdicts" || fail "classes change a verdict: $(cat "$t/classes.verdicts")"
(cd "$t/classes" && sha256sum -c SHA256SUMS > /dev/null) || fail "a class's file was replaced"
# a plain recipe that takes the mix's place overwrites no other file of an earlier run
plain=$(cd "$t/job" && echo base-*.gguf | tr ' ' '\n' | sed -n 's/^base-\([A-Z0-9_]*\).gguf$/\1/p' | grep -v Q4_0)
few -o "$t/own" --plain --search conventional --recipes "$plain" > "$t/job.out"
cksum < "$t/own/base-$plain.gguf" > "$t/sums"
for i in 1 2; do
    job own Q4_0 > "$t/job.out"
    cksum < "$t/own/base-$plain.gguf" | cmp - "$t/sums" || fail "run $i: base-$plain.gguf was replaced"
    [ -e "$t/own/base-2M-$plain.gguf" ] || fail "run $i: the plain recipe has no file of its own: $(ls "$t/own")"
done
echo "mixes: budgets, plans, resume, refusals, gate"
