#!/bin/sh
# SPDX-License-Identifier: MIT
# hone versus and the card: inputs are never overwritten and none counts twice; pairs of equal size; what the block says
# about the base, the cache, the suites, templates and domains.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
mkdir "$t/a"
"$HONE" convert tests/golden/models/qwen3 -o "$t/base.gguf" --type bf16 -q > /dev/null
"$HONE" quantize "$t/base.gguf" -o "$t/a/M-Q8_0.gguf" --type Q8_0 --search conventional -q > /dev/null
"$HONE" quantize "$t/base.gguf" -o "$t/a/M-Q4_0.gguf" --type Q4_0 --search conventional -q > /dev/null
cp calib/text/eval.txt "$t/mine.txt"
printf '{"text": "def add(a, b):", "checks": {"contains": "a"}}\n{"prompt": "Say yes.", "checks": {"exact": "yes"}}\n' > "$t/plain.jsonl"
cp tests/golden/suites/winogrande.csv "$t/w.csv"
versus() { # expected exit, then arguments
    want=$1
    shift
    run "$want" versus "$t/base.gguf" "$@" --ctx 64
}
json() { tr -d ' \n' < "$1"; }
# members of the rows of equal_size: "closer other"
pairs() { awk '/"equal_size"/ { on = 1 } on && /^  \]/ { on = 0 } on && /"(closer|other)":/ { gsub(/[",]/, ""); printf "%s ", $2 }' "$1"; }

# ---- inputs: a text, a suite and tasks are not outputs, not even with -f ----
for o in "--text $t/mine.txt --markdown $t/mine.txt" "--text x=$t/mine.txt --plot $t/mine.txt" \
    "--text $t/mine.txt --tools $t/plain.jsonl --markdown $t/plain.jsonl" \
    "--text $t/mine.txt --choice winogrande:$t/w.csv --plot $t/w.csv"; do
    refused 2 "input and output are the same file" versus "$t/base.gguf" "$t/a/M-Q8_0.gguf" $o --ctx 64 --chunks 2 -f
done
refused 2 "input and output are the same file" eval suite "$t/a/M-Q8_0.gguf" -o "$t/w.csv" --choice "winogrande:$t/w.csv" -f
cmp "$t/mine.txt" calib/text/eval.txt && cmp "$t/w.csv" tests/golden/suites/winogrande.csv || say "an input was overwritten"

# ---- nothing counts twice ----
ln -s "$t/mine.txt" "$t/other.txt"
for o in "--text $t/mine.txt --text x=$t/other.txt" "--text ja --text code --text ja" \
    "--text $t/mine.txt --tools $t/plain.jsonl --tools $t/plain.jsonl" \
    "--text $t/mine.txt --choice winogrande:$t/w.csv --choice winogrande:$t/w.csv"; do
    refused 2 "is given twice" versus "$t/base.gguf" "$t/a/M-Q8_0.gguf" $o --ctx 64 --chunks 2
done
refused 2 "is given twice" eval kld "$t/a/M-Q8_0.gguf" "$t/mine.txt" "$t/other.txt" --base "$t/base.gguf" --ctx 64 --chunks 2
# eval kld: links of either kind are the same text, and the same model
ln "$t/mine.txt" "$t/hard.txt"
ln "$t/a/M-Q8_0.gguf" "$t/a/hard.gguf"
refused 2 "is given twice" eval kld "$t/a/M-Q8_0.gguf" "$t/mine.txt" "$t/hard.txt" --base "$t/base.gguf" --ctx 64 --chunks 2
refused 2 "is given twice" eval kld "$t/a/M-Q8_0.gguf" "$t/a/hard.gguf" "$t/mine.txt" --base "$t/base.gguf" --ctx 64 --chunks 2
rm "$t/a/hard.gguf"
# domains of one name in two files are one, which is not silent
for f in one two; do echo "{\"domain\": \"code\", \"text\": \"$(head -c 900 calib/text/eval.txt | tr -cd 'a-z ') $f\"}" > "$t/$f.jsonl"; done
run 0 eval kld "$t/a/M-Q8_0.gguf" "$t/one.jsonl" "$t/two.jsonl" --base "$t/base.gguf" --ctx 64 --chunks 2
grep -q 'two.jsonl: an earlier text also has a domain "code"' "$t/e" || say "domains of one name: $(cat "$t/e")"
run 0 eval kld "$t/a/M-Q8_0.gguf" "$t/one.jsonl" --base "$t/base.gguf" --ctx 64 --chunks 2
grep -q 'also has a domain' "$t/e" && say "one file: $(cat "$t/e")"
for o in "--text x=$t/mine.txt --text x=calib/text/calib.txt" "--text builtin --text prose"; do
    refused 2 "an earlier text has a domain of this name" versus "$t/base.gguf" "$t/a/M-Q8_0.gguf" $o --ctx 64 --chunks 2
done
# a text has as many greedy beginnings of 64 tokens as there are places for one, and none is taken twice
head -c 600 calib/text/eval.txt > "$t/short"
n=$(($("$HONE" tokenize "$t/base.gguf" --no-special < "$t/short" | tr -cd , | wc -c) + 1))
[ "$n" -ge 128 ] && [ "$n" -lt 300 ] || say "the short text has $n tokens"
versus 0 "$t/a/M-Q8_0.gguf" --text "$t/short" --chunks 1 --greedy 400 --json
[ "$(sed -n 's/^ *"greedy_of": \([0-9]*\),*$/\1/p' "$t/o")" = $((n - 64)) ] || say "$n tokens: $(grep greedy_of "$t/o")"

# ---- equal size: every pair within 1 %, also between two files of which a third keeps its distance ----
pad() { # file, tenths of a percent more
    cp "$t/a/M-Q8_0.gguf" "$t/$1"
    size=$(stat -c %s "$t/$1")
    "$HONE" meta "$t/$1" general.description="$(head -c $((size * $2 / 1000 + 1)) /dev/zero | tr '\0' x)" -q > /dev/null 2>&1 || say "hone meta failed"
}
pad P-0.gguf 0
pad P-5.gguf 8 # hone meta adds whole pages
pad P-10.gguf 12
versus 0 "$t/P-0.gguf" "$t/P-5.gguf" "$t/P-10.gguf" --text "$t/mine.txt" --chunks 8 --json
want=
for p in "0 5" "0 10" "5 10"; do
    set -- $p
    [ $(($(stat -c %s "$t/P-$2.gguf") * 100)) -gt $(($(stat -c %s "$t/P-$1.gguf") * 101)) ] || want="$want$1 $2 "
done
[ "$want" = "0 5 5 10 " ] || say "sizes of the test are not as intended: $want"
[ "$(pairs "$t/o")" = "$want" ] || say "pairs of equal size: $(pairs "$t/o"), expected $want"
# none of these is closer, and the answer does not say so
grep -q '"answer": "No file is clearly closer to base.gguf than another: ' "$t/o" || say "$(grep '"answer"' "$t/o")"
# two windows have no interval
run 0 versus "$t/base.gguf" "$t/a/M-Q8_0.gguf" "$t/a/M-Q4_0.gguf" --text "$t/mine.txt" --ctx 64 --chunks 2 --json
grep -q '"answer": "No file is clearly closer' "$t/o" || say "two windows: $(grep '"answer"' "$t/o")"
versus 0 "$t/a/M-Q8_0.gguf" "$t/a/M-Q4_0.gguf" --text "$t/mine.txt" --chunks 8 --json --markdown "$t/md"
grep -q '"answer": "Closest to base.gguf is Q8_0 (.*, farthest Q4_0 (' "$t/o" || say "$(grep '"answer"' "$t/o")"

# eval kld makes the same test; two files with the same weights do not differ, and neither is called the closest without it
run 0 eval kld "$t/a/M-Q8_0.gguf" "$t/a/M-Q4_0.gguf" "$t/mine.txt" --base "$t/base.gguf" --ctx 64 --chunks 2 --json
grep -q '"answer": "No file is clearly closer' "$t/o" || say "eval kld, two windows: $(grep '"answer"' "$t/o")"
run 0 eval kld "$t/P-0.gguf" "$t/a/M-Q4_0.gguf" "$t/P-5.gguf" "$t/mine.txt" --base "$t/base.gguf" --ctx 64 --chunks 8 --json
grep -q '"answer": "Closest to base.gguf is P-0.gguf (.*; not clearly closer than P-5.gguf), farthest M-Q4_0.gguf ([^;]*)[.]"' "$t/o" || say "a tie: $(grep '"answer"' "$t/o")"
versus 0 "$t/P-0.gguf" "$t/a/M-Q4_0.gguf" "$t/P-5.gguf" --text "$t/mine.txt" --chunks 8 --json
grep -q '"answer": "Closest to base.gguf is P-0 (.*; not clearly closer than P-5), farthest M-Q4_0 ([^;]*)[.]' "$t/o" || say "a tie: $(grep '"answer"' "$t/o")"

# ---- the block: median and tail, cache and activations only if not exact ----
for k in median_kld:5 kld_p999:3; do
    sed -n "s/^ *\"${k%:*}\": \(.*\),/\1/p" "$t/o" | while read -r x; do
        grep -qF "| $(printf "%.${k#*:}f" "$x") |" "$t/md" || echo "no ${k%:*} of $x in the block"
    done
done > "$t/missing"
[ ! -s "$t/missing" ] || say "$(cat "$t/missing" "$t/md")"
grep -q 'Computed with\|fewer bits' "$t/md" && say "exact numbers: $(grep Measured "$t/md")"
versus 0 "$t/a/M-Q4_0.gguf" --text "$t/mine.txt" --chunks 2 --kv-type q8_0,f32 --act q8 --markdown "$t/kv.md"
grep -q 'Computed with a key-value cache of q8_0 and activations of q8, whose errors are in these numbers\.' "$t/kv.md" ||
    say "cache and activations: $(grep Measured "$t/kv.md")"

# ---- a base with fewer bits than a file ----
run 0 versus "$t/a/M-Q4_0.gguf" "$t/base.gguf" "$t/a/M-Q8_0.gguf" --text "$t/mine.txt" --ctx 64 --chunks 2 --markdown "$t/worse.md"
grep -q 'M-Q4_0.gguf has fewer bits per weight than .*base.gguf' "$t/e" && [ "$(grep -c 'fewer bits' "$t/e")" = 1 ] || say "no warning: $(cat "$t/e")"
grep -q 'The base has fewer bits per weight than some files' "$t/worse.md" || say "$(grep Measured "$t/worse.md")"

# ---- suites without tools are not called tool calls ----
for f in base a/M-Q8_0; do
    cp "$t/$f.gguf" "$t/with-${f#a/}.gguf"
    "$HONE" meta "$t/with-${f#a/}.gguf" tokenizer.chat_template=@tests/golden/tiny-qwen35moe/chat_template.jinja -q > /dev/null 2>&1 || say "hone meta failed"
done
suites() { # block, suite, ...
    md=$1
    shift
    run 0 versus "$t/with-base.gguf" "$t/with-M-Q8_0.gguf" --text "$t/mine.txt" --ctx 64 --chunks 2 "$@" --cases 2 --max-tokens 4 --json --markdown "$md"
}
suites "$t/s.md" --tools "$t/plain.jsonl" --tools builtin
json "$t/o" | grep -q '"tools_offered":false' && grep -q '| suites [0-9]' "$t/s.md" && ! grep -q '| tool calls [0-9]\|Tool calls:' "$t/s.md" ||
    say "a suite without tools: $(cat "$t/s.md")"
suites "$t/c.md" --tools builtin
json "$t/o" | grep -q '"tools_offered":true' && grep -q '| tool calls [0-9]' "$t/c.md" || say "tool calls: $(cat "$t/c.md")"

# a file whose calls were not compared has no number of passed ones
cp "$t/a/M-Q4_0.gguf" "$t/mute.gguf"
"$HONE" meta "$t/mute.gguf" --unset tokenizer.chat_template -q > /dev/null 2>&1 || say "hone meta failed"
run 0 versus "$t/with-base.gguf" "$t/with-M-Q8_0.gguf" "$t/mute.gguf" --text "$t/mine.txt" --ctx 64 --chunks 2 --greedy 4 --tools builtin \
    --cases 2 --max-tokens 4
sed -n '/^tool calls that change/,/^$/p' "$t/o" > "$t/calls"
grep -q '^mute  *-  *-  *-  *-  *-$' "$t/calls" && grep -q '^with-M-Q8_0 .* 2  *[0-2]$' "$t/calls" || say "a file without calls: $(cat "$t/calls")"

# ---- named templates, which some programs use instead of the default; the first error of a template ----
plain='{% for m in messages %}{{ m.content }}{% endfor %}'
cp "$t/with-base.gguf" "$t/named.gguf"
"$HONE" meta "$t/named.gguf" tokenizer.chat_template.tool_use="$plain" tokenizer.chat_template.rag="$plain" -q > /dev/null 2>&1 || say "hone meta failed"
for f in none other; do cp "$t/with-M-Q8_0.gguf" "$t/$f.gguf"; done
"$HONE" meta "$t/other.gguf" tokenizer.chat_template.tool_use="$plain!" tokenizer.chat_template.rag="$plain" \
    tokenizer.chat_template.more="$plain" tokenizer.chat_template='{% for m in messages %}{{ m.content }' -q > /dev/null 2>&1 || say "hone meta failed"
run 0 versus "$t/named.gguf" "$t/none.gguf" "$t/other.gguf" --text "$t/mine.txt" --ctx 64 --chunks 2 --json --markdown "$t/n.md"
for m in "none: the chat template 'tool_use' is missing" "none: the chat template 'rag' is missing" \
    "other: the chat template 'tool_use' differs from the base's" "other: the base has no chat template 'more'"; do
    grep -qF -- "- $m" "$t/n.md" || say "no '$m': $(cat "$t/n.md")"
done
why=$(sed -n 's/^ *"template_first": "\(.*\)",*$/\1/p' "$t/o")
[ -n "$why" ] && grep -q '^First error of the template of other: ..' "$t/n.md" || say "the template's error: $(cat "$t/n.md")"

# ---- documents: the weakest domain is named only if more than its error shows it ----
doc() { # error of the mean on domain b, whose mean is 1.5 times the file's
    echo '{"hone_versus": 1, "files": [{"name": "x", "size_bytes": 1, "mean_kld": 0.02, "same_top1": 0.9}], "by_domain": [' \
        '{"domain": "a", "name": "x", "mean_kld": 0.01, "mean_kld_stderr": 0.001},' \
        "{\"domain\": \"b\", \"name\": \"x\", \"mean_kld\": 0.03, \"mean_kld_stderr\": $1}]}"
}
mkdir "$t/p"
cp "$t/a/M-Q8_0.gguf" "$t/p"
for e in 0.004:1 0.006:0 null:1; do
    doc "${e%:*}" > "$t/doc"
    run 0 publish "$t/p" --compare "$t/doc" --force
    [ "$(grep -c 'loses most, relative to its mean: b for x (1.5x)' "$t/p/README.md")" = "${e#*:}" ] || say "an error of ${e%:*}: $(grep loses "$t/p/README.md")"
done
# and the card claims nothing about who made the files
grep -q 'made with hone\|measured with hone' "$t/p/README.md" && say "$(grep 'with hone' "$t/p/README.md")"

# ---- a folder that only hone versus measured: the card takes the file by these numbers, not the smallest ----
mkdir "$t/own"
cp "$t/a"/M-*.gguf "$t/own"
only() { # divergence of Q8_0, bits of the base, name of the compared files
    for n in Q8_0:$1 Q4_0:0.4; do
        echo "{\"name\": \"${n%:*}\", \"file\": \"$3-${n%:*}.gguf\", \"size_bytes\": $(stat -c %s "$t/a/M-${n%:*}.gguf")," \
            "\"mean_kld\": ${n#*:}, \"mean_kld_stderr\": 0.0001, \"same_top1\": 0.875},"
    done | sed '$s/,$//' > "$t/rows"
    echo "{\"hone_versus\": 1, \"base\": \"base.gguf\", \"base_bpw\": $2, \"files\": [$(cat "$t/rows")], \"by_depth\": [" \
        '{"name": "Q8_0", "from": 1, "to": 63, "mean_kld": 0.002}, {"name": "Q8_0", "from": 64, "to": 127, "mean_kld": 0.003}]}' > "$t/doc"
    run 0 publish "$t/own" --compare "$t/doc" --force
}
card() { grep -qF -- "$1" "$t/own/README.md" || say "the card lacks '$1': $(sed -n '1,/^## Use/p' "$t/own/README.md")"; }
only 0.001 16.03 M
card '**Take Q8_0, '
card ': no noticeable loss.**'
card '| at a glance | Q8_0 |'
card '| loss | no noticeable loss: of 100 next tokens, 12.5 differ from the first choice of the original |'
card '| context | 64 to 127 tokens: 1.50x the divergence of the first 63 |'
card 'multiple choice, greedy texts, tool calls, tool loops, checks'
card 'hone run M-Q8_0.gguf'
only 0.2 8.5 M
card '**Take Q8_0, '
card ': heavy loss. No file here is closer to its base'
card 'from the first choice of its base |'
grep -q 'was already quantized' "$t/own/README.md" && say "the base of a comparison is not that of the files"
# other files' numbers recommend nothing
only 0.001 16.03 N
grep -q 'at a glance\|\*\*Take' "$t/own/README.md" && say "recommended by the numbers of other files"

# ---- suites: one JSON object per line, perhaps after a byte order mark ----
echo '[{"prompt": "x", "checks": {"exact": "y"}}]' > "$t/list.json"
refused 3 "this is a list, but a suite has one JSON object per line" eval checks "$t/with-base.gguf" "$t/list.json"
{ printf '\357\273\277'; cat "$t/plain.jsonl"; } > "$t/mark.jsonl"
run 0 eval checks "$t/with-base.gguf" "$t/mark.jsonl" --max-tokens 2
{ printf '\357\273\277'; head -c 3000 calib/text/eval.jsonl | sed '$d'; } > "$t/mark-text.jsonl"
run 0 versus "$t/with-base.gguf" "$t/with-M-Q8_0.gguf" --text "$t/mark-text.jsonl" --ctx 64 --chunks 2
exit $fail
