#!/bin/sh
# hone eval tools, checks, choice, needle: output, exit status, and invalid requests. test_choices and test_suite
# compare the answers and scores with other programs.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
tiny=tests/golden/tiny-qwen35moe
"$HONE" convert $tiny -o "$t/m.gguf" --type f32 -q > /dev/null
head -1 $tiny/tools.jsonl > "$t/one.jsonl"
is() { grep -qE "\"$2\": $3,?\$" "$1" || { echo "$1: \"$2\" is not $3:"; cat "$1"; exit 1; }; }

# the first case: the right call is made (transformers generates the same, suites/choices.json)
"$HONE" eval tools "$t/m.gguf" "$t/one.jsonl" --base "$t/m.gguf" --json -q > "$t/tools"
for k in n_cases n_parsed n_valid n_named n_equal n_passed n_same_as_base; do is "$t/tools" $k 1; done
is "$t/tools" n_lost 0
grep -q 'search_docs{' "$t/tools"
"$HONE" eval tools "$t/m.gguf" "$t/one.jsonl" --all -q > "$t/table"
grep -q 'with the expected arguments  *1 *1 ' "$t/table" || { cat "$t/table"; exit 1; }
grep -q '^call-000 ' "$t/table"

# checks; continued texts of a few tokens; a case that fails
cat > "$t/mine.jsonl" <<'END'
{"id": "yes", "text": "In the beginning", "max_tokens": 2, "checks": {"regex": "^.", "excludes": "zzz"}}
{"id": "no", "text": "In the beginning", "max_tokens": 2, "checks": {"exact": "impossible", "contains": "x"}}
END
"$HONE" eval checks "$t/m.gguf" "$t/mine.jsonl" --json -q > "$t/checks"
is "$t/checks" n_passed 1
is "$t/checks" n_cut 2
is "$t/checks" pass_rate 0.5
grep -q '"why": "exact: the answer is' "$t/checks"
rc=0
"$HONE" eval checks "$t/m.gguf" "$t/mine.jsonl" -q --require 60 > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 1 ] && grep -q '50.00 % of the cases passed, 60 % are required' "$t/e" || { echo "--require: exit $rc"; cat "$t/e"; exit 1; }
"$HONE" eval checks "$t/m.gguf" "$t/mine.jsonl" -q --require 50 --base "$t/m.gguf" --no-loss > /dev/null

# choices and needles
"$HONE" eval choice "$t/m.gguf" tests/golden/suites/winogrande.csv --format winogrande --cases 2 --base "$t/m.gguf" --json -q > "$t/choice"
is "$t/choice" n_tasks 2
is "$t/choice" flips 0
is "$t/choice" chance 0.5
"$HONE" eval needle "$t/m.gguf" $tiny/self_eval.txt --ctx 96 --depths 2 --per-depth 1 --json -q > "$t/needle"
is "$t/needle" n_tasks 2
grep -q '"depth": "depth 100 %"' "$t/needle"

echo '{"prompt": "x"}' > "$t/bad.jsonl"
refused 3 'neither "checks" nor "expect"' eval checks "$t/m.gguf" "$t/bad.jsonl"
refused 2 "none.jsonl" eval tools "$t/m.gguf" "$t/none.jsonl"
refused 2 "--no-loss needs a --base" eval checks "$t/m.gguf" "$t/mine.jsonl" --no-loss
refused 2 "--max-tokens" eval tools "$t/m.gguf" "$t/one.jsonl" --max-tokens 0
refused 2 "is not one of seed-xml" eval tools "$t/m.gguf" "$t/one.jsonl" --format xml
refused 2 "use a larger --ctx" eval tools "$t/m.gguf" "$t/one.jsonl" --ctx 64
refused 2 "--format is missing: one of hellaswag" eval choice "$t/m.gguf" tests/golden/suites/mmlu.csv
refused 2 "not one of hellaswag" eval choice "$t/m.gguf" tests/golden/suites/mmlu.csv --format csv
refused 3 "has 6 fields, not 5" eval choice "$t/m.gguf" tests/golden/suites/mmlu.csv --format winogrande
refused 3 "a window of needles needs 4096" eval needle "$t/m.gguf" "$t/mine.jsonl"
refused 2 "--depths" eval needle "$t/m.gguf" "$t/mine.jsonl" --depths 0

# again with calls constrained to the tools' schemas: correct calls stay correct, a model that calls a missing tool is
# overruled; both are counted
"$HONE" eval tools "$t/m.gguf" "$t/one.jsonl" --constrained --json -q > "$t/tools"
for k in n_valid n_passed n_passed_constrained; do is "$t/tools" $k 1; done
is "$t/tools" overruled_tokens 0
sed 's/search_docs/find_papers/g' "$t/one.jsonl" > "$t/other.jsonl"
"$HONE" eval tools "$t/m.gguf" "$t/other.jsonl" --constrained --json -q > "$t/tools"
is "$t/tools" overruled_tokens '[1-9][0-9]*'
grep -q '"valid"' "$t/tools"
