#!/bin/sh
# SPDX-License-Identifier: MIT
# hone imatrix --select: selects documents that reach rare experts. They give better coverage than the same number of
# tokens drawn at random; the selection does not depend on the number of threads; invalid requests are refused.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
base="$t/base.gguf"
"$HONE" convert tests/golden/models/qwen35moe -o "$base" --type f32 -q > /dev/null
head -c 1500 calib/text/calib.txt > "$t/calib.txt"
# a pool: conversations, plain lines (one of them twice), a text that is split, a compressed one
head -n 6 calib/text/calib.jsonl > "$t/pool.jsonl"
for w in alpha '{}();' 0123456789 'été où'; do printf '{"text": "%s %s %s %s"}\n' "$w" "$w" "$w" "$w"; done >> "$t/pool.jsonl"
echo '{"text": "alpha alpha alpha alpha", "note": 1}' >> "$t/pool.jsonl"
tail -c 5000 calib/text/calib.txt > "$t/pool.txt"
head -c 2500 calib/text/eval.txt | gzip -n > "$t/more.txt.gz"
pool="$t/pool.jsonl $t/pool.txt $t/more.txt.gz"
run 0 imatrix "$base" "$t/calib.txt" -o "$t/have.gguf" --ctx 64 -q

select="imatrix $base $pool --ctx 64 --have $t/have.gguf -q"
run 0 $select --select 1000 -o "$t/a.jsonl" --threads 2 --json
cp "$t/o" "$t/json"
run 0 $select --select 1000 -o "$t/b.jsonl" --threads 1
cmp "$t/a.jsonl" "$t/b.jsonl" || say "threads change the choice"
has() { grep -q "$1" "$t/json" || say "no $1"; }
for key in n_candidates n_duplicates pool_tokens n_selected selected_tokens choices coverage documents own_share n_unseen_before gain; do has "\"$key\""; done
has '"n_duplicates": 1,'
row() { tr '\n' ' ' < "$t/json" | sed "s/.*\"texts\": \"$1\",\([^}]*\)}.*/\1/" | sed "s/.*\"$2\": \([0-9.e+-]*\).*/\1/"; }
tokens=$(sed -n 's/.*"selected_tokens": \([0-9]*\).*/\1/p' "$t/json")
[ "$tokens" -le 1000 ] && [ "$tokens" -gt 500 ] || say "$tokens tokens of 1000"
awk -v was="$(row before own_share)" -v is="$(row selected own_share)" -v drawn="$(row 'at random' own_share)" \
    'BEGIN { exit !(was > 0 && drawn > was && is > drawn) }' ||
    say "own share: $(row before own_share) before, $(row selected own_share) selected, $(row 'at random' own_share) at random"
[ "$(row selected n_unseen)" -le "$(row before n_unseen)" ] || say "more unseen experts than before"

lines=$(wc -l < "$t/a.jsonl")
[ "$lines" = "$(sed -n 's/.*"n_selected": \([0-9]*\).*/\1/p' "$t/json")" ] || say "$lines lines"

# collected separately and merged, they add up
run 0 imatrix "$base" "$t/a.jsonl" -o "$t/new.gguf" --ctx 64 -q
run 0 imatrix --merge "$t/have.gguf" "$t/new.gguf" -o "$t/sum.gguf" -q
run 0 imatrix --stats "$t/sum.gguf" --json
grep -q '"coverage"' "$t/o" || say "no coverage of the sum"
run 0 imatrix "$base" "$t/pool.jsonl" --select 100 -o "$t/c.jsonl" -q # nothing there yet

out="-o $t/x.jsonl -q"
refused 2 '.jsonl' imatrix "$base" $pool --select 10 -o "$t/x.txt"
refused 2 'create its folder first' imatrix "$t/absent.gguf" "$t/pool.txt" --select 10 -o "$t/none/x.jsonl"
refused 2 'use -f' imatrix "$base" $pool --select 10 -o "$t/a.jsonl"
refused 2 'cannot be used together' imatrix --stats "$t/have.gguf" --select 10
refused 2 'requires --select' imatrix "$base" "$t/pool.txt" --have "$t/have.gguf" $out
refused 2 '--chunks' imatrix "$base" "$t/pool.txt" --select 10 --chunks 2 $out
refused 2 'cannot be used together' imatrix "$base" "$t/pool.txt" --select 10 --gram "$t/g" $out
refused 2 'twice' imatrix "$base" - --select 10 $out
refused 2 'at least one TEXT' imatrix "$base" --select 10 $out
refused 3 'fits into 1 tokens' imatrix "$base" "$t/pool.txt" --select 1 --ctx 64 $out
run 0 imatrix --merge "$t/have.gguf" -o "$t/have.dat" -q
refused 3 'tokens per expert' imatrix "$base" "$t/pool.txt" --select 10 --have "$t/have.dat" $out
refused 3 'imatrix' imatrix "$base" "$t/pool.txt" --select 10 --have "$base" $out
: > "$t/empty.txt"
refused 3 'holds no text' imatrix "$base" "$t/empty.txt" --select 10 $out
printf '{"text": "a"}\n{"text": ' > "$t/cut.jsonl"
refused 3 'line 2' imatrix "$base" "$t/cut.jsonl" --select 10 $out
printf '{"text": 7}\n[1]\n' > "$t/odd.jsonl"
refused 3 'none of the conversations' imatrix "$base" "$t/odd.jsonl" --select 10 $out
"$HONE" convert tests/golden/models/qwen3 -o "$t/dense.gguf" --type f32 -q > /dev/null
refused 3 'has no experts' imatrix "$t/dense.gguf" "$t/pool.txt" --select 10 $out
# no input is replaced, and two outputs need two files
same='input and output are the same file'
cp "$base" "$t/kept.gguf"
ln -s pool.jsonl "$t/link.jsonl"
refused 2 "$same" imatrix "$base" $pool --select 10 -o "$t/link.jsonl" -f
refused 2 "$same" imatrix "$base" "$t/pool.txt" -o "$t/pool.txt" -f
refused 2 "$same" imatrix "$base" "$t/pool.txt" -o "$t/x.jsonl" --moments "$base" -f
refused 2 "$same" imatrix "$base" "$t/pool.txt" -o "$t/x.jsonl" --gram "$t/link.jsonl" "$t/pool.jsonl" -f
refused 2 "$same" imatrix --merge "$t/have.gguf" "$t/new.gguf" -o "$t/new.gguf" -f
refused 2 'two outputs' imatrix "$base" "$t/pool.txt" -o "$t/x.jsonl" --gram "$t/./x.jsonl" -f
cmp "$base" "$t/kept.gguf" || say "the model was replaced"
[ ! -e "$t/x.jsonl" ] || say "an output was left behind"
exit $fail
