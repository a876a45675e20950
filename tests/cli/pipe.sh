#!/bin/sh
# Tables written to a pipe have one row per line, however wide they are. Every command that prints tables is compared
# with its --md output, whose format has one line per row.
set -eu
. tests/making.sh
long=a-file-whose-name-is-so-long-that-no-table-with-it-fits-into-a-hundred-columns-of-a-terminal
m=$t/$long-BF16.gguf q=$t/$long-Q4_K_M.gguf r=$t/$long-Q3_K_M.gguf
run 0 convert tests/golden/models/qwen3moe -o "$m" -q
run 0 imatrix "$m" "$t/calib.txt" -o "$t/i.gguf" --ctx 64 --chunks 2 -q
run 0 quantize "$m" -o "$q" --recipe Q4_K_M --imatrix "$t/i.gguf" -q
run 0 quantize "$m" -o "$r" --recipe Q3_K_M --imatrix "$t/i.gguf" -q
n=0
piped() { # arguments: every row of a table is one line
    { "$HONE" "$@" -q --md || [ $? = 1 ]; } > "$t/md" 2> "$t/e" || { say "hone $* --md: $(cat "$t/e")"; return; }
    { COLUMNS=80 "$HONE" "$@" -q || [ $? = 1 ]; } 2> "$t/e" | cat > "$t/text"
    [ -s "$t/text" ] || say "hone $*: nothing: $(cat "$t/e")"
    tables=$(grep -c '^|[-:|]*$' "$t/md") || true
    want=$(($(grep -c . "$t/md") - tables)) got=$(grep -c . "$t/text")
    [ "$1" != make ] || got=$((got - $(grep -cE "^(Take |The report is |To serve it: )" "$t/text" || true))) # printed after its table
    [ "$tables" -gt 0 ] || say "hone $*: no table"
    [ "$want" = "$got" ] || { say "hone $*: $got lines, $want rows, titles and fields"; head -30 "$t/text"; }
    n=$((n + 1))
}
made="--calib $t/calib.txt --eval $t/eval.txt --ctx 64 --chunks 2 --calib-ctx 64 --calib-chunks 2 --pp 4 --tg 2 --reps 1 --tools none --time 0"
# shellcheck disable=SC2086
run 0 make "$m" -o "$t/out" --recipe Q8_0 --plain $made
# shellcheck disable=SC2086
{
    piped make "$m" -o "$t/out" --recipe Q8_0 --plain $made
    piped make "$m" -o "$t/new" --recipe Q8_0,Q4_K_M $made --dry-run
}
piped recipes "$m"
piped recipes "$m" --imatrix "$t/i.gguf"
piped quantize "$m" -o "$t/none.gguf" --recipe Q4_K_M --imatrix "$t/i.gguf" --dry-run
piped imatrix --stats "$t/i.gguf"
piped sensitivity "$m" --probe "$t/calib.txt" -o "$t/s.json" --ctx 64 --chunks 2 --measure all --types 1 --bands 1 -f
piped eval kld --base "$m" "$q" "$r" "$t/eval.txt" --ctx 64 --chunks 2
piped eval speed "$q" --pp 4 --tg 2 --reps 1 --depths 0,8
piped plan "$q" "$r" --vram 1GiB --ctx 256
piped plan "$q" --recipes
piped plan "$q" --launches
piped inspect "$q"
piped inspect "$q" --tensors
piped inspect "$q" --keys all
piped diff "$q" "$r"
piped publish --check "$t/out"
piped doctor
piped doctor --models
piped doctor --limits
piped bench-kernels --types Q4_K --seconds 0.001
[ "$n" -ge 20 ] || say "$n commands only"
# every row of a table has the same number of columns
"$HONE" recipes "$m" -q | awk -F'  +' '/^recipe/ { h = NF } h && NF && NF != h { print "a row of " NF " of " h " columns: " $0; bad = 1 } END { exit bad || !h }' || fail=1
exit $fail
