#!/bin/sh
# hone eval suite and compare: a model does not differ from itself, a damaged one is worse where it should be, and
# results for different inputs are not compared. The expected numbers for a hand-written pair of results were computed
# manually.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
m=tests/golden/models/qwen35moe
"$HONE" convert $m -o "$t/m.gguf" --type f32 -q > /dev/null
"$HONE" quantize "$t/m.gguf" -o "$t/q.gguf" --type Q3_K -q > /dev/null
cat > "$t/mine.jsonl" <<'END'
{"text": "In the beginning", "max_tokens": 1, "checks": {"excludes": "zzzz"}}
{"text": "In the beginning", "max_tokens": 1, "checks": {"exact": "impossible"}}
END
suite() { "$HONE" eval suite "$1" -o "$2" --base "$t/m.gguf" --text calib/text/eval.txt --ctx 32 --chunks 10 --tools "$t/mine.jsonl" --choice winogrande:tests/golden/suites/winogrande.csv -q --json; }
is() { grep -qE "\"$2\": $3,?\$" "$1" || { echo "$1: \"$2\" is not $3:"; cat "$1"; exit 1; }; }
suite "$t/m.gguf" "$t/a.json" > "$t/o"
[ "$(grep -c '"measure": ' "$t/a.json")" = 4 ] || { cat "$t/a.json"; exit 1; }
suite "$t/q.gguf" "$t/b.json" > /dev/null
"$HONE" eval compare "$t/a.json" "$t/a.json" --json > "$t/same"
is "$t/same" n_no_difference 4
is "$t/same" n_a_better 0
"$HONE" eval compare "$t/a.json" "$t/b.json" --json > "$t/ab"
"$HONE" eval compare "$t/b.json" "$t/a.json" --json > "$t/ba"
is "$t/ab" n_b_better 0
# the divergence of the quantized file from the base is above 0 in every window: A, the base itself, is better there
grep -A9 '"measure": "kld"' "$t/ab" | grep -q '"better": "A"' || { cat "$t/ab"; exit 1; }
grep -A9 '"measure": "kld"' "$t/ba" | grep -q '"better": "B"' || { cat "$t/ba"; exit 1; }
# a divergence from another base is not compared, what needs no base is
"$HONE" eval suite "$t/q.gguf" -o "$t/c.json" --base "$t/q.gguf" --text calib/text/eval.txt --ctx 32 --chunks 10 --tools none -q > /dev/null
"$HONE" eval compare "$t/b.json" "$t/c.json" --json > "$t/bc"
is "$t/bc" n_no_difference 1
is "$t/bc" n_unmatched 4
grep -q '"measure": "ln_ppl"' "$t/bc" || { cat "$t/bc"; exit 1; }

# a template without tool calls: the usual suite is left out, a named one is refused before the texts are read
cp "$t/m.gguf" "$t/nt.gguf"
"$HONE" meta "$t/nt.gguf" --unset tokenizer.chat_template -q
"$HONE" eval suite "$t/nt.gguf" -o "$t/nt.json" --text calib/text/eval.txt --ctx 32 --chunks 2 > "$t/o" 2> "$t/e" || { cat "$t/e"; exit 1; }
grep -q 'no tool calls are measured, as with --tools none' "$t/e" && [ "$(grep -c '"measure": ' "$t/nt.json")" = 1 ] || { cat "$t/e" "$t/nt.json"; exit 1; }
refused 3 "no known syntax of tool calls" eval suite "$t/nt.gguf" -o "$t/nt2.json" --text calib/text/eval.txt --ctx 32 --chunks 2 --tools builtin -q
[ ! -e "$t/nt2.json.part" ] || { echo "refused after the texts"; exit 1; }

# a text's name is kept in UTF-8 and ends with a whole character: 63 bytes hold 31 of two bytes
long=$(printf '\303\251%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
cp calib/text/eval.txt "$t/$long$long.txt"
"$HONE" eval suite "$t/m.gguf" -o "$t/u.json" --text "$t/$long$long.txt" --ctx 32 --chunks 2 --tools none -q --json > "$t/o"
for f in u.json o; do grep -q "\"group\": \"$long\"" "$t/$f" || { cat "$t/$f"; exit 1; }; done

# expected: differences 1 1 1 1 2 2 2 2 have mean 1.5, sample deviation sqrt(2 / 7), standard error 0.188982237
h=00000000000000000000000000000000
made() { printf '{"hone_eval_suite": 1, "model": "%s", "measures": [{"measure": "x", "group": "g", "input_xxh128": "%s", "better": "%s", "samples": [%s]}]}' "$2" $h "$3" "$4" > "$1"; }
made "$t/h1" one more 1,2,3,4,6,7,8,9
made "$t/h2" two more 0,1,2,3,4,5,6,7
"$HONE" eval compare "$t/h1" "$t/h2" --json > "$t/o"
is "$t/o" diff 1.5
is "$t/o" stderr 0.188982237
is "$t/o" n_a_better 1
made "$t/h1" one less 1,2,3,4,6,7,8,9
made "$t/h2" two less 0,1,2,3,4,5,6,7
"$HONE" eval compare "$t/h1" "$t/h2" --json > "$t/o"
is "$t/o" n_b_better 1
made "$t/h1" one less 1,2,3
made "$t/h2" two less 0,1,2
"$HONE" eval compare "$t/h1" "$t/h2" --json > "$t/o"
is "$t/o" n_no_difference 1 # three samples say nothing

refused 3 "no measure of the same input" eval compare "$t/a.json" "$t/h1"
refused 3 "not a result of hone eval suite" eval compare "$t/a.json" "$t/same"
echo '{"hone_eval_suite": 1, "measures": [{"measure": "x"}]}' > "$t/bad"
refused 3 "measure 1 is incomplete" eval compare "$t/bad" "$t/bad"
refused 2 "-o" eval suite "$t/m.gguf"
refused 2 "create its folder first" eval suite "$t/absent.gguf" -o "$t/none/a.json"
refused 2 "use -f" eval suite "$t/m.gguf" -o "$t/a.json"
refused 2 "FORMAT:FILE" eval suite "$t/m.gguf" -o "$t/x" --text calib/text/eval.txt --ctx 32 --chunks 1 --tools none --choice a.csv
[ ! -e "$t/x" ]
