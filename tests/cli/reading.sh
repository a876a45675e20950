#!/bin/sh
# Readable output: the answer comes first, names and findings are never truncated at any width, CSV can be parsed, and
# every lint rule is explained.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
tiny=tests/golden/tiny-qwen35moe
long=a-model-with-a-name-that-somebody-really-published-Instruct-2507-GGUF
run() { "$HONE" "$@" > "$t/o" 2> "$t/e" || say "hone $*: exit $?: $(cat "$t/e")"; }
first() { head -n 1 "$t/o" | grep -q "$1" || say "first line is not '$1': $(head -n 1 "$t/o")"; }
run convert $tiny -o "$t/base.gguf"
run quantize "$t/base.gguf" -o "$t/$long-Q4_K_M.gguf" --recipe Q4_K_M
run quantize "$t/base.gguf" -o "$t/$long-Q2_K.gguf" --recipe Q2_K
head -c 6000 calib/text/eval.txt > "$t/text"

# eval kld: one model, several, the base itself
run eval kld "$t/$long-Q2_K.gguf" "$t/text" --base "$t/base.gguf" --ctx 128 --chunks 2
first "^$long-Q2_K.gguf has .*: mean divergence 0\.[0-9]* ± 0\.[0-9]*, the same most likely token [0-9.]* % of the time\.$"
grep -qE 'KLD[^+]*  -[0-9]' "$t/o" && say "a negative divergence: $(grep -E 'KLD.*  -[0-9]' "$t/o")"
run eval kld "$t/$long-Q2_K.gguf" "$t/text" --base "$t/base.gguf" --ctx 128 --chunks 2 --json
grep -q '"answer": ".* has ' "$t/o" && grep -q '"min_kld"' "$t/o" || say "JSON has not answer and min_kld"
run eval kld "$t/base.gguf" "$t/text" --base "$t/base.gguf" --ctx 128 --chunks 1
first "base.gguf is the same as base.gguf"
run eval kld "$t/$long-Q4_K_M.gguf" "$t/$long-Q2_K.gguf" "$t/text" --base "$t/base.gguf" --ctx 64 --chunks 8
first "^Closest to base.gguf is $long-Q4_K_M.gguf (.*, farthest $long-Q2_K.gguf ("
grep -q "^$long-Q4_K_M.gguf  " "$t/o" && grep -q "^$long-Q4_K_M.gguf  $long-Q2_K.gguf" "$t/o" || say "names are cut: $(cat "$t/o")"
grep -qF '...' "$t/o" && say "something is cut: $(grep -F ... "$t/o")"
run eval kld "$t/$long-Q4_K_M.gguf" "$t/$long-Q2_K.gguf" "$t/text" --base "$t/base.gguf" --ctx 128 --chunks 2 --csv
awk -F, 'NR == 1 { n = NF } NF != n || n < 10 { bad = 1 } END { exit bad || NR != 3 }' "$t/o" || say "--csv is not one table: $(cut -c1-80 "$t/o")"
"$HONE" recipes --csv > "$t/o"
grep -q '^$' "$t/o" && say "recipes --csv: an empty line"
grep -q '^recipe,' "$t/o" || say "recipes --csv: $(head -3 "$t/o")"

# publish --check: complete findings, however long
mkdir "$t/d"
mv "$t/$long-Q4_K_M.gguf" "$t/d/$long-wrong.gguf"
rc=0; "$HONE" publish --check "$t/d" --quick > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 1 ] || say "publish --check: exit $rc"
first "^Not publishable: [0-9]* errors\{0,1\}\b.*first to repair: "
grep -q "  $long-wrong.gguf  " "$t/o" || say "the file's name is cut"
"$HONE" publish --check "$t/d" --quick --json 2> /dev/null | sed -n 's/^ *"finding": "\(.*\)"$/\1/p' > "$t/findings" || :
[ -s "$t/findings" ] || say "no finding in JSON"
while read -r f; do grep -qF "$f" "$t/o" || say "cut: $f"; done < "$t/findings"

# template lint: a verdict; every rule of the code explained, here and in the man page
run template lint "$t/base.gguf"
first '^Tool calls: work with this template\. No defect'
grep -q '^PREFIX  *[0-9]*  *the next turn.s prompt does not begin' "$t/o" || say "no meaning of PREFIX"
printf '{%% for m in messages %%}{{ m.role }}: {{ m.content }}\n{%% endfor %%}' > "$t/plain.jinja"
rc=0; "$HONE" template lint "$t/plain.jinja" > "$t/o" 2> /dev/null || rc=$?
[ $rc = 1 ] || say "lint of a template without tools: exit $rc"
first '^No tool calling'
printf '{%% if %%}' > "$t/broken.jinja"
"$HONE" template lint "$t/broken.jinja" > "$t/o" 2> /dev/null || :
first '^The template does not compile'
printf '{{ raise_exception("no talk") }}' > "$t/never.jinja"
"$HONE" template lint "$t/never.jinja" > "$t/o" 2> /dev/null || :
first '^The template fails with every conversation: no talk'
run template fix "$t/base.gguf"
grep -q 'remaining defects: .*PREFIX' "$t/e" || say "template fix does not say what it leaves: $(cat "$t/e")"
grep -hoE '(PROBE\("[a-z0-9_]*", |rule = |, |PIECE\([A-Z_]+, "[a-z-]*", [A-Z]+, )"[A-Z]+(-[A-Z]+)+"|"(CLOCK|MARKERS|PREFIX|SYNTAX|UNDECLARED)"' template/lint.c template/lint_judge.c template/lint_tree.c template/lint_probes.def template/repair_pieces.def |
    grep -oE '"[A-Z-]+"$' | tr -d '"' | sort -u > "$t/rules"
[ "$(wc -l < "$t/rules")" -ge 44 ] || say "found only $(wc -l < "$t/rules") rules in the code"
"$HONE" template lint --explain all --csv | cut -d, -f1 > "$t/known"
while read -r r; do
    grep -qx -e "$r" "$t/known" || say "$r is not explained"
    grep -qx "\.B $(echo "$r" | sed 's/-/\\\\-/g')" docs/man/hone-template.1 || say "$r is not in hone-template(1)"
done < "$t/rules"
run template lint --explain tool-args-string-eq
first '^TOOL-ARGS-STRING-EQ: .* What to do: '
rc=0; "$HONE" template lint --explain NOPE > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 2 ] && grep -q 'explain all' "$t/e" || say "--explain NOPE: exit $rc"
exit $fail
