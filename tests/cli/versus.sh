#!/bin/sh
# SPDX-License-Identifier: MIT
# hone versus: numbers against tests/golden/versus.json (tests/oracle/versus.py: transformers and NumPy) and against
# hone eval; files of equal size; few windows; domains; cache types; flips; metadata faults; what publish shows; inputs
# that are refused.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
g=tests/golden/versus.json
mkdir "$t/a" "$t/b"
"$HONE" convert tests/golden/models/qwen3 -o "$t/base.gguf" --type bf16 -q > /dev/null
"$HONE" quantize "$t/base.gguf" -o "$t/a/M-all.gguf" --type Q8_0 --search conventional -q > /dev/null
for n in 0:first 2:last; do
    "$HONE" quantize "$t/base.gguf" -o "$t/a/M-${n#*:}.gguf" --type BF16 --tensor "blk\\.${n%:*}\\..*=Q8_0" --search conventional -q > /dev/null
done

# value of a key in the row of a table that has this name; the printed JSON has one member per line
cell() { awk -v table="\"$2\": [" -v name="\"$3\"" -v key="\"$4\":" '
    index($0, table) { on = 1 }
    on && /^  \]/ { on = 0 }
    on && /"(name|closer)":/ { row = index($0, name) > 0 }
    on && row && index($0, key) { sub(/^[^:]*: */, ""); sub(/,$/, ""); print; exit }' "$1"; }
num() { sed -n "s/^ *\"$2\": \([-0-9.e+]*\),*$/\1/p" "$1" | head -1; }
golden() { awk -v name="\"$1\": {" -v key="\"$2\":" 'index($0, name) { on = 1 } on && index($0, key) { sub(/^[^:]*: */, ""); sub(/,$/, ""); print; exit }' "$g"; }
near() { # got, expected, relative tolerance, what; log-probabilities in f32 have errors of about 2e-7
    awk "BEGIN { d = ($1) - ($2); m = ($2) < 0 ? -($2) : ($2); exit !(d <= $3 * m + 2e-7 && -d <= $3 * m + 2e-7) }" || say "$4: $1, expected $2"
}

texts="--text calib/text/eval.txt --text two=calib/text/calib.txt"
run 0 versus "$t/base.gguf" "$t"/a/M-*.gguf $texts --ctx 64 --chunks 16 --greedy 8 --json --markdown "$t/md" --plot "$t/svg"
cp "$t/o" "$t/v.json"
for f in all first last; do
    for k in mean_kld mean_kld_stderr mean_kld_ci95_low mean_kld_ci95_high kld_p999 max_kld same_top1 ppl; do
        near "$(cell "$t/v.json" files $f $k)" "$(golden $f $k)" 2e-3 "$f $k"
    done
    for k in per_100 lo hi of; do
        near "$(cell "$t/v.json" flips $f greedy_$k)" "$(sed -n '/"greedy": {/,$p' "$g" | awk -v name="\"$f\": {" -v key="\"$k\":" 'index($0, name) { on = 1 } on && index($0, key) { sub(/^[^:]*: */, ""); sub(/,$/, ""); print; exit }')" 1e-6 "greedy $f $k"
    done
done
near "$(num "$t/v.json" base_ppl)" "$(num "$g" base_ppl)" 1e-4 "perplexity of the base"
[ "$(num "$t/v.json" n_tokens)" = 496 ] || say "scored tokens: not 16 * 31"
# equal size: first and last, not all
[ "$(grep -c '"closer":' "$t/v.json")" = 1 ] || say "pairs of equal size: not one"
c=$(sed -n 's/^ *"closer": "\(.*\)",$/\1/p' "$g")
near "$(cell "$t/v.json" equal_size "$c" ratio)" "$(num "$g" ratio)" 2e-3 ratio
near "$(cell "$t/v.json" equal_size "$c" ratio_ci95_low)" "$(sed -n '/"ratio_ci95"/,/]/p' "$g" | tr -dc '0-9.,e\n-' | grep '[0-9]' | sed -n 2p | tr -d ,)" 5e-3 "ratio from"
near "$(cell "$t/v.json" equal_size "$c" diff)" "$(num "$g" diff)" 2e-3 diff
[ "$(cell "$t/v.json" equal_size "$c" clear)" = true ] || say "the difference of equal sizes is not clear"
# and the ratio of the two by domain; by depth, that of the two means
part() { # file, member that begins a part, its value, name, key
    awk -v begin="\"$2\": $3," -v name="\"$4\"" -v key="\"$5\":" '
        $0 ~ /^ *"(domain|from)":/ { on = index($0, begin) > 0 }
        /"name":/ { row = on && index($0, name) > 0 }
        row && index($0, key) { sub(/^[^:]*: */, ""); sub(/,$/, ""); print; exit }' "$1"
}
o=$(sed -n 's/^ *"other": "\(.*\)",*$/\1/p' "$g")
for d in eval.txt two; do
    near "$(part "$t/v.json" domain "\"$d\"" "$o" ratio)" "$(golden $d ratio)" 2e-3 "ratio on $d"
    near "$(part "$t/v.json" domain "\"$d\"" "$o" ratio_ci95_low)" "$(golden $d low)" 5e-3 "ratio on $d from"
    near "$(part "$t/v.json" domain "\"$d\"" "$o" ratio_ci95_high)" "$(golden $d high)" 5e-3 "ratio on $d to"
    [ "$(part "$t/v.json" domain "\"$d\"" "$o" closest)" = "\"$c\"" ] || say "closest on $d"
    for f in "$c" all; do [ "$(part "$t/v.json" domain "\"$d\"" $f ratio)" = null ] || say "$f has a ratio on $d"; done
done
run 0 versus "$t/base.gguf" "$t"/a/M-*.gguf $texts --ctx 128 --chunks 8 --by-depth --json
for d in 1 64; do
    near "$(part "$t/o" from $d "$o" ratio)" "$(awk "BEGIN { print $(part "$t/o" from $d "$o" mean_kld) / $(part "$t/o" from $d "$c" mean_kld) }")" 1e-4 "ratio at depth $d"
    [ "$(part "$t/o" from $d "$o" ratio_ci95_low)" != null ] || say "no interval at depth $d"
done
# fewer than 8 windows: no interval, nothing is clear; a single window has no error
for n in 1 7 8; do
    rm -f "$t/few"
    run 0 versus "$t/base.gguf" "$t/a/M-first.gguf" "$t/a/M-last.gguf" --text calib/text/eval.txt --ctx 64 --chunks $n --json --markdown "$t/few"
    want='null null null null false'
    [ $n != 8 ] || want=
    got="$(cell "$t/o" files first mean_kld_ci95_low) $(cell "$t/o" equal_size "$c" ratio_ci95_low) $(cell "$t/o" equal_size "$c" ratio_ci95_high) $(cell "$t/o" equal_size "$c" diff_ci95_high) $(cell "$t/o" equal_size "$c" clear)"
    case $n,$got in
    8,*null* | 8,*false) say "8 windows: $got" ;;
    8,*) ;;
    *) [ "$got" = "$want" ] || say "$n windows: $got" ;;
    esac
    [ $n = 8 ] || ! grep -q 'At equal size' "$t/o" || say "$n windows: $(grep answer "$t/o")"
    [ "$(grep -c '(too few windows for an interval), which is not a clear difference' "$t/few")" = $((n < 8)) ] || say "$n windows: $(grep divergence "$t/few")"
    [ "$(cell "$t/o" files first mean_kld_stderr)" != null ] || [ $n = 1 ] || say "$n windows: no error"
done
# the domains have the names given
for d in eval.txt two; do [ "$(grep -c "\"domain\": \"$d\"" "$t/v.json")" = 3 ] || say "domain $d: not three rows"; done

# the same numbers as hone eval kld, digit by digit
run 0 eval kld "$t/a/M-all.gguf" calib/text/eval.txt calib/text/calib.txt --base "$t/base.gguf" --ctx 64 --chunks 16 --json
for k in median_kld kld_p999 max_kld same_top1 ppl; do
    [ "$(num "$t/o" $k)" = "$(cell "$t/v.json" files all $k)" ] || say "$k differs from eval kld's"
done

# the block and the plot
grep -q "^| all | " "$t/md" && grep -q "At equal size" "$t/md" && grep -q "^hone versus base.gguf M-all.gguf" "$t/md" ||
    say "the Markdown block: $(cat "$t/md")"
grep -F "$t" "$t/md" && say "a path of this machine is shown"
[ "$(grep -o '<title>[a-z]* ' "$t/svg" | sort -u | wc -l)" = 3 ] || say "the plot does not show three files"
run 0 versus "$t/base.gguf" "$t"/a/M-*.gguf $texts --ctx 64 --chunks 4 --by-depth --greedy 2
[ "$(sed 1d "$t/o" | wc -L)" -le 100 ] || say "lines of $(sed 1d "$t/o" | wc -L) columns"

# the built-in domains: all of them without --text
names() { sed -n 's/^ *"domain": "\(.*\)",$/\1/p' "$1" | uniq | tr '\n' ' '; }
row() { awk -v domain="\"domain\": \"$2\"" -v key="\"$3\":" 'index($0, domain) { on = 1 } on && index($0, key) { sub(/^[^:]*: */, ""); sub(/,$/, ""); print; exit }' "$1"; }
run 0 versus "$t/base.gguf" "$t"/a/M-*.gguf --ctx 64 --chunks 22 --json
[ "$(num "$t/o" n_chunks)" = 22 ] || say "built-in domains: not 22 windows"
[ "$(names "$t/o")" = "prose chat code math tools de fr es ru zh ja " ] || say "built-in domains: $(names "$t/o")"
[ "$(sed -n '/"by_domain"/,/^  ]/p' "$t/o" | grep -c '"n_tokens": 62,')" = 33 ] || say "built-in domains: not two windows each"
grep -q ' --text prose --text chat .* --text ja --ctx 64 --chunks 22 --kv-type f32 --act f32"' "$t/o" || say "$(grep '"command"' "$t/o")"
grep -q '"domains_missing": \[\]' "$t/o" || say "$(grep missing "$t/o")"
# fewer windows than domains: those without any are named, and why
rm -f "$t/few"
"$HONE" versus "$t/base.gguf" "$t/a/M-all.gguf" --ctx 64 --chunks 8 --json --markdown "$t/few" > "$t/e8.json" 2> "$t/e" || say "$(cat "$t/e")"
tr -d ' \n' < "$t/e8.json" | grep -q '"domains_missing":\["ru","zh","ja"\]' || say "$(grep -A4 missing "$t/e8.json")"
grep -q 'images, the domains ru, zh, ja\.$' "$t/few" && grep -q 'A domain with a single window has no standard error' "$t/few" || say "$(cat "$t/few")"
grep -q "domain 'ru' gets none of the 8 windows" "$t/e" && ! grep -q 'gives no window' "$t/e" || say "$(cat "$t/e")"
near "$(row "$t/o" zh relative)" "$(awk "BEGIN { print $(row "$t/o" zh mean_kld) / $(cell "$t/o" files "$(row "$t/o" zh name | tr -d '"')" mean_kld) }")" 1e-5 relative

# chosen by name: the same numbers as from a file, and as eval kld's
vs() { # options; the result is $t/o
    (cd "$t/b" && "$HONE" versus "$t/base.gguf" "$t/a/M-all.gguf" "$@" --ctx 64 --chunks 4 --json -q > "$t/o") || say "versus $* failed"
}
vs --text code --text ja
[ "$(names "$t/o")" = "code ja " ] || say "--text code --text ja: $(names "$t/o")"
grep -q -- '--text code --text ja --ctx 64' "$t/o" || say "$(grep '"command"' "$t/o")"
grep -v '"command' "$t/o" > "$t/named"
code=$(row "$t/o" code mean_kld)
texts_of=$PWD/calib/text/domain
vs --text code="$texts_of/code.txt" --text ja="$texts_of/ja.txt"
grep -v '"command' "$t/o" | cmp - "$t/named" || say "a built-in domain differs from its file"
run 0 eval kld "$t/a/M-all.gguf" code --base "$t/base.gguf" --ctx 64 --chunks 2 --json
[ "$(num "$t/o" mean_kld)" = "$code" ] || say "code: $code, eval kld $(num "$t/o" mean_kld)"
vs --text tools --text x=code --text builtin
[ "$(names "$t/o")" = "tools x prose chat " ] || say "--text builtin: $(names "$t/o")"

# two texts of one file name are two domains, named in the command as in the tables; also in eval kld
mkdir -p "$t/b/d1/x" "$t/b/d2/x"
cp "$texts_of/de.txt" "$t/b/d1/x/t.txt"
cp "$texts_of/fr.txt" "$t/b/d2/x/t.txt"
cp "$texts_of/fr.txt" "$t/b/d2/t.txt"
vs --text d1/x/t.txt --text d2/x/t.txt
[ "$(names "$t/o")" = "1/x/t.txt 2/x/t.txt " ] && grep -q -- '--text 1/x/t.txt --text 2/x/t.txt' "$t/o" || say "texts of one name: $(names "$t/o") $(grep '"command"' "$t/o")"
vs --text d1/x/t.txt --text two=d2/t.txt
[ "$(names "$t/o")" = "x/t.txt two " ] && grep -q -- '--text x/t.txt --text two=d2/t.txt' "$t/o" || say "texts of one name: $(names "$t/o") $(grep '"command"' "$t/o")"
run 0 eval kld "$t/a/M-all.gguf" "$t/b/d1/x/t.txt" "$t/b/d2/t.txt" --base "$t/base.gguf" --ctx 64 --chunks 2 --json
[ "$(names "$t/o")" = "x/t.txt d2/t.txt " ] || say "eval kld, texts of one name: $(names "$t/o")"

# own texts are no languages, and a short depth is no long context
vs --text d1/x/t.txt --text d2/t.txt --by-depth --markdown "$t/deep"
grep -q 'contexts of more than 63 tokens, speed' "$t/deep" || say "$(grep 'Not measured' "$t/deep")"


# a file whose name begins with "-", and one with backticks
cp "$t/a/M-all.gguf" "$t/b/-dash.gguf"
cp "$t/a/M-all.gguf" "$t/b/t\`\`\`ick.gguf"
(cd "$t/b" && "$HONE" versus "$t/base.gguf" ./-dash.gguf 't```ick.gguf' --text d2/t.txt --ctx 64 --chunks 2 -q --markdown "$t/ticks" > /dev/null) || say "odd names failed"
tail -3 "$t/ticks" | head -1 | grep -qx '````' && tail -2 "$t/ticks" | grep -q "^hone versus base.gguf ./-dash.gguf 't\`\`\`ick.gguf' " || say "the command: $(tail -3 "$t/ticks")"
rm -r "$t"/b/*

# a file of that name wins, a folder does not; other names are refused
mkdir "$t/b/code"
vs --text code --text ja
grep -v '"command' "$t/o" | cmp - "$t/named" || say "a folder hides a domain"
cp "$texts_of/de.txt" "$t/b/ja"
vs --text code --text ja
[ "$(names "$t/o")" = "code ja " ] && ! grep -v '"command' "$t/o" | cmp -s - "$t/named" || say "a file does not win"
rm -r "$t/b/code" "$t/b/ja"
refused 2 "'klingon' is not a file, nor a built-in domain (prose, chat, code," versus "$t/base.gguf" "$t/a/M-all.gguf" --text klingon
refused 2 "'klingon' is not a file" versus "$t/base.gguf" "$t/a/M-all.gguf" --text code=klingon

# a short text gives fewer windows; without a template there are no conversations
head -c 300 calib/text/eval.txt > "$t/b/short"
run 0 versus "$t/base.gguf" "$t/a/M-all.gguf" --text code --text "$t/b/short" --ctx 64 --chunks 20 --json
[ "$(num "$t/o" n_chunks)" = 20 ] && [ "$(row "$t/o" short n_tokens)" -lt 310 ] && [ "$(row "$t/o" code n_tokens)" -gt 310 ] || say "a short text"
cp "$t/base.gguf" "$t/b/bare.gguf"
"$HONE" meta "$t/b/bare.gguf" --unset tokenizer.chat_template -q > /dev/null 2>&1 || say "hone meta failed"
run 0 versus "$t/b/bare.gguf" "$t/a/M-all.gguf" --ctx 64 --chunks 9 --json
[ "$(names "$t/o")" = "prose code math de fr es ru zh ja " ] || say "without a template: $(names "$t/o")"
tr -d ' \n' < "$t/o" | grep -q '"domains_missing":\["chat","tools"\]' || say "without a template: $(grep -A4 missing "$t/o")"
refused 3 template versus "$t/b/bare.gguf" "$t/a/M-all.gguf" --text tools
# conversations that the template refuses are skipped, with a warning
echo "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{{ m.content }}{% endfor %}" > "$t/strict"
"$HONE" meta "$t/b/bare.gguf" tokenizer.chat_template=@"$t/strict" -q > /dev/null 2>&1 || say "hone meta failed"
"$HONE" versus "$t/b/bare.gguf" "$t/a/M-all.gguf" --ctx 64 --chunks 10 --json -j 1 > "$t/o" 2> "$t/e" || say "$(cat "$t/e")"
[ "$(names "$t/o")" = "prose chat code math de fr es ru zh ja " ] && grep -q "8 conversations of 'tools' are skipped.*roles must alternate" "$t/e" || say "a strict template: $(names "$t/o") $(cat "$t/e")"
rm "$t"/b/*

# six files and eleven domains: rows of domains, columns of files, at most 100 wide; cards too
mkdir "$t/six" "$t/q"
for n in Q4_0 Q5_0 Q8_0; do
    "$HONE" quantize "$t/base.gguf" -o "$t/six/hone-$n.gguf" --type $n -q > /dev/null
    "$HONE" quantize "$t/base.gguf" -o "$t/six/llama.cpp-$n.gguf" --type $n --search conventional -q > /dev/null
done
run 0 versus "$t/base.gguf" "$t"/six/*.gguf --ctx 64 --chunks 22 --markdown "$t/wide"
[ "$(sed 1d "$t/o" | wc -L)" -le 100 ] || say "lines of $(sed 1d "$t/o" | wc -L) columns"
[ "$(grep -c '^ja  *[0-9.]* ([0-9.]*x)  [^(]*([0-9.]*x)  [^(]*([0-9.]*x)$' "$t/o")" = 2 ] || say "not two tables of three files: $(grep '^ja' "$t/o")"
[ "$(grep -c '^| ja | [0-9.]*, [0-9.]*x | [0-9.]*, [0-9.]*x | [0-9.]*, [0-9.]*x |$' "$t/wide")" = 2 ] || say "$(grep '^| ja' "$t/wide")"
[ "$(sed -n '/^| domain/,/^$/p' "$t/wide" | wc -L)" -le 100 ] || say "tables by domain are too wide"
grep -q '^The domain on which a file loses most' "$t/wide" && grep -q 'Standard errors are at most' "$t/wide" || say "$(cat "$t/wide")"
run 0 versus "$t/base.gguf" "$t"/six/*.gguf --ctx 64 --chunks 22 --json
cp "$t/o" "$t/six.json"
cp "$t"/six/*.gguf "$t/q"
run 0 publish "$t/q" --compare "$t/six.json"
grep -q "^| ja | " "$t/q/README.md" && grep -q "^The domain on which" "$t/q/README.md" || say "the card has no table by domain"
[ "$(sed -n '/^| domain/,/^$/p' "$t/q/README.md" | wc -L)" -le 100 ] || say "the card's tables by domain are too wide"

# flips of choices are those of eval choice, and a file against a copy of the base has none
cp "$t/base.gguf" "$t/b/copy.gguf"
run 0 versus "$t/base.gguf" "$t/a/M-all.gguf" "$t/b/copy.gguf" $texts --ctx 64 --chunks 2 --greedy 2 --cases 0 \
    --choice winogrande:tests/golden/suites/winogrande.csv --tools none --json
cp "$t/o" "$t/c.json"
grep -q ' --choice winogrande:winogrande.csv --tools none --cases 0 --max-tokens 128 --kv-type' "$t/c.json" || say "$(grep '"command"' "$t/c.json")"
run 0 eval choice "$t/a/M-all.gguf" tests/golden/suites/winogrande.csv --format winogrande --base "$t/base.gguf" --json
for k in per_100 lo hi; do
    [ "$(cell "$t/c.json" flips M-all choices_$k)" = "$(num "$t/o" flips_$k)" ] || say "choices_$k differs from eval choice's"
done
[ "$(cell "$t/c.json" flips copy choices_per_100)" = 0 ] && [ "$(cell "$t/c.json" flips copy greedy_per_100)" = 0 ] &&
    [ "$(cell "$t/c.json" files copy mean_kld)" = 0 ] || say "a copy of the base differs from it"

# a split set; names that two files share get their folders
"$HONE" split "$t/a/M-all.gguf" -o "$t/b/M-all.gguf" --max-size 300K -q > /dev/null
run 0 versus "$t/base.gguf" "$t/a/M-all.gguf" "$t/b/M-all-00001-of-"*.gguf $texts --ctx 64 --chunks 2 --json
[ "$(grep -c '"ratio": 1,' "$t/o")" = 1 ] || say "a split set does not equal its file: $(cat "$t/o")"
cp "$t/a/M-first.gguf" "$t/b/M-all.gguf"
run 0 versus "$t/base.gguf" "$t/a/M-all.gguf" "$t/b/M-all.gguf" $texts --ctx 64 --chunks 2 --json
grep -q '"file": "a/M-all.gguf"' "$t/o" && grep -q '"file": "b/M-all.gguf"' "$t/o" || say "equal names without folders"

# also of one name in one folder's name; the base counts
mkdir -p "$t/x/a" "$t/y"
cp "$t/a/M-first.gguf" "$t/x/a/M-all.gguf"
cp "$t/base.gguf" "$t/y/M-all.gguf"
run 0 versus "$t/y/M-all.gguf" "$t/a/M-all.gguf" "$t/x/a/M-all.gguf" $texts --ctx 64 --chunks 2 --pre qwen2 --json
grep -q '"command": "hone versus y/M-all.gguf 1/a/M-all.gguf 2/a/M-all.gguf .* --pre qwen2"' "$t/o" || say "$(grep '"command"' "$t/o")"

# cache types: the tables are of the first; the others as alone
run 0 versus "$t/base.gguf" "$t/a/M-first.gguf" "$t/a/M-last.gguf" $texts --ctx 64 --chunks 8 --kv-type q8_0 --json
cp "$t/o" "$t/q8.json"
rm -f "$t/few"
run 0 versus "$t/base.gguf" "$t/a/M-first.gguf" "$t/a/M-last.gguf" $texts --ctx 64 --chunks 8 --kv-type f32,q8_0 --json --markdown "$t/few"
kv() { awk -v type="\"kv_type\": \"$1\"," -v name="\"$2\"" -v key="\"$3\":" '
    /"by_kv"/ { on = 1 }
    on && /"kv_type":/ { hit = index($0, type) > 0 }
    on && /"name":/ { row = hit && index($0, name) > 0 }
    row && index($0, key) { sub(/^[^:]*: */, ""); sub(/,$/, ""); print; exit }' "$t/o"; }
for f in first last; do
    [ "$(kv f32 $f mean_kld)" = "$(cell "$t/o" files $f mean_kld)" ] && [ "$(kv f32 $f ratio)" = null ] || say "$f: by_kv of f32"
    for k in mean_kld mean_kld_ci95_low same_top1; do [ "$(kv q8_0 $f $k)" = "$(cell "$t/q8.json" files $f $k)" ] || say "$f with q8_0: $k"; done
    near "$(kv q8_0 $f ratio)" "$(awk "BEGIN { print $(kv q8_0 $f mean_kld) / $(kv f32 $f mean_kld) }")" 1e-4 "$f: ratio of q8_0"
done
grep -q '^| q8_0 | first | [^|]* | [0-9.]*x (95 %: ' "$t/few" || say "$(grep '^| q8_0' "$t/few")"
refused 2 "--kv-type: 'q9' must be one of" versus "$t/base.gguf" "$t/a/M-all.gguf" --kv-type f32,q9

# faults of metadata: a wrong end, no template, another rope base
cp "$t/a/M-all.gguf" "$t/b/bad.gguf"
"$HONE" meta "$t/b/bad.gguf" tokenizer.ggml.eos_token_id=7 --unset tokenizer.chat_template qwen3.rope.freq_base=10000 -q > /dev/null 2>&1 ||
    say "hone meta failed"
run 0 versus "$t/base.gguf" "$t/a/M-all.gguf" "$t/b/bad.gguf" $texts --ctx 64 --chunks 2 --json
[ "$(cell "$t/o" checks bad n_faults)" = 3 ] && [ "$(cell "$t/o" checks M-all n_faults)" = 0 ] || say "faults: $(grep -A3 fault "$t/o")"
grep -q 'eos_token_id is 7, in the base 1012' "$t/o" && grep -q 'the chat template is missing' "$t/o" || say "faults are not named"

# keys that only one of the two has, and token types; not a missing key whose default is the base's value
cp "$t/a/M-all.gguf" "$t/b/lone.gguf"
"$HONE" meta "$t/b/lone.gguf" tokenizer.ggml.token_type -q | sed -n 's/^tokenizer.*\[1,/[4,/p' > "$t/types"
"$HONE" meta "$t/b/lone.gguf" qwen3.rope.scaling.type=linear qwen3.rope.scaling.factor=4 tokenizer.ggml.token_type="$(cat "$t/types")" \
    --unset qwen3.rope.freq_base -q > /dev/null 2>&1 || say "hone meta failed"
run 0 versus "$t/base.gguf" "$t/a/M-all.gguf" "$t/b/lone.gguf" $texts --ctx 64 --chunks 2 --json
[ "$(cell "$t/o" checks lone n_faults)" = 4 ] || say "lone keys: $(grep fault "$t/o")"
for m in 'qwen3.rope.freq_base is missing, in the base 1000000' 'qwen3.rope.scaling.type is linear, in the base it is missing' \
    'qwen3.rope.scaling.factor is 4, in the base it is missing' "tokenizer.ggml.token_type differs from the base's in 1 place, first "; do
    grep -q "$m" "$t/o" || say "no '$m': $(grep fault "$t/o")"
done
cp "$t/base.gguf" "$t/b/base-10k.gguf"
cp "$t/a/M-all.gguf" "$t/b/usual.gguf"
"$HONE" meta "$t/b/base-10k.gguf" qwen3.rope.freq_base=10000 -q > /dev/null 2>&1 || say "hone meta failed"
"$HONE" meta "$t/b/usual.gguf" --unset qwen3.rope.freq_base -q > /dev/null 2>&1 || say "hone meta failed"
run 0 versus "$t/b/base-10k.gguf" "$t/b/usual.gguf" $texts --ctx 64 --chunks 2 --json
[ "$(cell "$t/o" checks usual n_faults)" = 0 ] || say "a missing default: $(grep fault "$t/o")"

# a space before the text: a key that only the file has is a fault if it changes that
"$HONE" convert tests/golden/models/mistral -o "$t/b/space.gguf" --type bf16 -q > /dev/null
list() { awk -v d="$1" 'BEGIN { printf "[1"; for (i = 1; i < 1024; i++) printf ",%d" d, i / 512; print "]" }'; }
"$HONE" meta "$t/b/space.gguf" tokenizer.ggml.model=llama tokenizer.ggml.pre=default tokenizer.ggml.scores="$(list .5)" --unset tokenizer.ggml.merges \
    --unset hone.tokenizer.ignore_merges -q > /dev/null 2>&1 || say "hone meta failed"
for x in true false; do
    cp "$t/b/space.gguf" "$t/b/space-$x.gguf"
    "$HONE" meta "$t/b/space-$x.gguf" tokenizer.ggml.add_space_prefix=$x -q > /dev/null 2>&1 || say "hone meta failed"
done
run 0 versus "$t/b/space.gguf" "$t/b/space-true.gguf" "$t/b/space-false.gguf" $texts --ctx 64 --chunks 2 --json
[ "$(cell "$t/o" checks true n_faults)" = 0 ] && [ "$(cell "$t/o" checks false n_faults)" = 1 ] && grep -q 'add_space_prefix is 0, in the base it is missing' "$t/o" ||
    say "a space before the text: $(grep fault "$t/o")"

# what else a folder holds is skipped
cp "$t/a/M-all.gguf" "$t/b/imatrix.gguf"
"$HONE" meta "$t/b/imatrix.gguf" general.type=imatrix -q > /dev/null 2>&1 || say "hone meta failed"
"$HONE" split "$t/a/M-first.gguf" -o "$t/b/part.gguf" --max-size 100K -q > /dev/null 2>&1 || say "hone split failed"
"$HONE" versus "$t/base.gguf" "$t/a/M-all.gguf" "$t/b/imatrix.gguf" "$t"/b/part*.gguf $texts --ctx 64 --chunks 2 --json > "$t/o" 2> "$t/e" || say "a folder: $(cat "$t/e")"
grep -q 'imatrix.gguf is skipped: it is not a model' "$t/e" && [ "$(grep -c '"sample_xxh128"' "$t/o")" = 2 ] || say "a folder: $(cat "$t/e")"
refused 3 "is an importance matrix, not a model" versus "$t/base.gguf" "$t/b/imatrix.gguf"

# a vocabulary that adds a BOS but has none: greedy texts begin with text
for f in base a/M-all; do
    cp "$t/$f.gguf" "$t/b/bos-${f#a/}.gguf"
    "$HONE" meta "$t/b/bos-${f#a/}.gguf" tokenizer.ggml.add_bos_token=true --unset tokenizer.ggml.bos_token_id -q > /dev/null 2>&1 || say "hone meta failed"
done
run 0 versus "$t/b/bos-base.gguf" "$t/b/bos-M-all.gguf" $texts --ctx 64 --chunks 2 --greedy 2 --json
[ "$(cell "$t/o" flips bos-M-all greedy_of)" = 2 ] || say "greedy texts without a BOS: $(grep greedy_ "$t/o")"

# tool calls of a file without a template are not compared, those of the others are
for f in base a/M-all; do
    cp "$t/$f.gguf" "$t/b/with-${f#a/}.gguf"
    "$HONE" meta "$t/b/with-${f#a/}.gguf" tokenizer.chat_template=@tests/golden/tiny-qwen35moe/chat_template.jinja -q > /dev/null 2>&1 || say "hone meta failed"
done
"$HONE" versus "$t/b/with-base.gguf" "$t/b/with-M-all.gguf" "$t/b/bad.gguf" $texts --ctx 64 --chunks 2 --tools builtin --cases 2 --max-tokens 4 --json > "$t/o" 2> "$t/e" ||
    say "a file without a template: $(cat "$t/e")"
grep -q 'bad.gguf: tool calls are not compared' "$t/e" || say "a file without a template: $(cat "$t/e")"
[ "$(cell "$t/o" flips with-M-all tools_of)" = 2 ] && [ "$(cell "$t/o" flips bad tools_of)" = null ] || say "$(grep tools_ "$t/o")"

# a template without tool calls, if the base's has them
printf '{%% for m in messages %%}{{ m.role }}: {{ m.content }}\n{%% endfor %%}' > "$t/plain"
cp "$t/a/M-all.gguf" "$t/b/plain.gguf"
"$HONE" meta "$t/b/plain.gguf" tokenizer.chat_template=@"$t/plain" -q > /dev/null 2>&1 || say "hone meta failed"
run 0 versus "$t/b/with-base.gguf" "$t/b/with-M-all.gguf" "$t/b/plain.gguf" $texts --ctx 64 --chunks 2 --json
[ "$(cell "$t/o" checks plain n_faults)" = 1 ] && [ "$(cell "$t/o" checks with-M-all n_faults)" = 0 ] && grep -q "the chat template has no known syntax of tool calls, the base's has that of " "$t/o" || say "no tool calls: $(grep fault "$t/o")"

# publish shows the comparison, and keeps it
mkdir "$t/p"
cp "$t"/a/M-*.gguf "$t/p"
run 0 publish "$t/p" --compare "$t/v.json"
grep -q '^## Compared with other files' "$t/p/README.md" && grep -q 'versus.json' "$t/p/SHA256SUMS" || say "publish shows no comparison"
grep -F "$t" "$t/p/versus.json" "$t/p/README.md" && say "publish shows a path of this machine"
run 0 publish "$t/p"
grep -q '^## Compared with other files' "$t/p/README.md" || say "publish forgot the comparison"
refused 3 "not a result of 'hone versus --json'" publish "$t/p" --compare tests/golden/versus.json
echo '{"hone_versus": 1, "files": [{"name": "<script>|`x`", "size_bytes": 5, "mean_kld": null, "same_top1": null}], "flips": 3, "faults": [null]}' > "$t/odd"
run 0 publish "$t/p" --compare "$t/odd" --force
grep -q '<script>' "$t/p/README.md" && say "a name of the comparison is not escaped"
grep -q '| 5 B | not measured, - | - |$' "$t/p/README.md" || say "numbers that are missing: $(grep '5 B' "$t/p/README.md")"
grep -q 'odd: compares no model of' "$t/e" || say "no warning that no model is compared: $(cat "$t/e")"
good='"name": "x", "size_bytes": 5, "mean_kld": 0.1, "same_top1": 0.9'
for bad in '7' '{}' "{${good#*,}}" "{$(echo "$good" | sed 's/5/"many"/')}" "{${good%,*}}" "{${good%9}x}" "{$(echo "$good" | sed 's/0\.9/90/')}" "{$(echo "$good" | sed 's/0\.1/-0.1/')}"; do
    echo "{\"hone_versus\": 1, \"files\": [{$good}, $bad]}" > "$t/bad"
    refused 3 "$t/bad: " publish "$t/p" --compare "$t/bad" --force
done
# what a document leaves out is left out, also from a row that is there
echo "{\"hone_versus\": 1, \"files\": [{$good}], \"flips\": [{\"name\": \"x\", \"choices_per_100\": 3}], \"by_depth\": [{\"name\": \"x\"}], \"checks\": [{\"name\": \"x\"}], \"by_domain\": [{\"domain\": \"d\", \"name\": \"x\"}]}" > "$t/least"
run 0 publish "$t/p" --compare "$t/least" --force
grep -qw 'nan' "$t/p/README.md" && say "a number that is missing: $(grep -w nan "$t/p/README.md")"
grep -q '^Not measured: greedy texts' "$t/p/README.md" || say "what is not measured: $(grep 'Not measured' "$t/p/README.md")"

# rows by domain that make no sense: other files, missing numbers, names with markup, more rows than fit
{
    echo '{"hone_versus": 1, "files": [{"name": "x", "size_bytes": 1, "mean_kld": 0.1, "same_top1": 0.9},' \
        '{"name": "y", "size_bytes": 1, "mean_kld": null, "same_top1": null}], "by_domain": [3, {"domain": "<b>|", "name": "x", "mean_kld": 0.2},'
    awk 'BEGIN { for (i = 0; i < 400; i++) printf "{\"domain\": \"d%d\", \"name\": \"x\", \"mean_kld\": 1e-3},\n", i }'
    echo '{"domain": "a", "name": "z", "mean_kld": 1}, {"domain": 5, "name": "x"}, {"domain": "a", "name": "y", "mean_kld": "1"}]}'
} > "$t/rows"
run 0 publish "$t/p" --compare "$t/rows" --force
grep -q '^| d254 | 0.0010, 0.0x | - |$' "$t/p/README.md" && grep -q '(2.0x)' "$t/p/README.md" || say "rows by domain: $(grep '^| d25' "$t/p/README.md")"
grep -q '<b>' "$t/p/README.md" && say "a domain's name is not escaped"
grep -q '^| d255' "$t/p/README.md" && say "more than 256 domains"

# where greedy texts change: when all change, only the position tells files apart
for at in 5 2.5 null; do
    echo '{"hone_versus": 1, "files": [{"name": "x", "size_bytes": 1, "mean_kld": 0.1, "same_top1": 0.9}], "flips": [{"name": "x",' \
        "\"greedy_per_100\": 93.75, \"greedy_lo\": 71.67, \"greedy_hi\": 98.89, \"greedy_of\": 16, \"first_change\": $at}]}" > "$t/at"
    run 0 publish "$t/p" --compare "$t/at" --force
    want="| texts 94 (72 to 99) from token $at |"
    [ $at != null ] || want="| texts 94 (72 to 99) |"
    grep -qF "$want" "$t/p/README.md" || say "first change $at: $(grep -F 'texts 94' "$t/p/README.md")"
done

# the card's first table has numbers of the folder's own file only, whatever other files are called
mkdir "$t/g" "$t/theirs"
cp "$t/a/M-all.gguf" "$t/g"
echo '{"hone_version": "1", "model": {"name": "M"}, "files": [{"file": "M-all.gguf", "recipe": "Q8_0", "size_bytes": 1, "mean_kld": 0.01, "same_top1": 0.9}]}' > "$t/g/results.json"
glance() { sed -n '/^| at a glance/,/^$/p' "$t/g/README.md"; }
changes_of() { awk "BEGIN { printf \"| texts | of 100 greedy texts, %.1f change \", $(cell "$1" flips "$2" greedy_per_100) }"; }
run 0 publish "$t/g" --compare "$t/v.json"
glance | grep -qF "$(changes_of "$t/v.json" all)" || say "at a glance, compared: $(glance)"
# only the base of the comparison is known
glance | grep -q '^| texts | .*), compared with base.gguf |$' || say "at a glance, the base: $(glance)"
sed 's/"model": {"name": "M"}/"model": {"name": "M", "source": "base.gguf"}/' "$t/g/results.json" > "$t/named.json"
cp "$t/named.json" "$t/g/results.json"
run 0 publish "$t/g" --compare "$t/v.json" --force
glance | grep -q 'compared with' && say "at a glance, the same base: $(glance)"
glance | grep -q '^| not measured | .*, languages,' || say "at a glance, own texts are no languages: $(glance)"
"$HONE" quantize "$t/base.gguf" -o "$t/theirs/M-all.gguf" --type Q4_0 -q > /dev/null
run 0 versus "$t/base.gguf" "$t/theirs/M-all.gguf" "$t/a/M-all.gguf" $texts --ctx 64 --chunks 2 --greedy 4 --json
cp "$t/o" "$t/both.json"
run 0 publish "$t/g" --compare "$t/both.json" --force
grep -q 'another file\|compares no' "$t/e" && say "a warning: $(cat "$t/e")"
glance | grep -qF "$(changes_of "$t/both.json" a/M-all)" || say "at a glance, two files of one name: $(glance)"
run 0 versus "$t/base.gguf" "$t/theirs/M-all.gguf" $texts --ctx 64 --chunks 2 --greedy 4 --json
cp "$t/o" "$t/theirs.json"
run 0 publish "$t/g" --compare "$t/theirs.json" --force
grep -q 'theirs.json: its numbers for M-all.gguf are those of another file of this name' "$t/e" || say "no warning: $(cat "$t/e")"
glance | grep -q '^| not measured | .*texts' || say "at a glance, another file: $(glance)"
grep -q '^## Compared' "$t/g/README.md" || say "--compare is not shown"
# a file made again: its old numbers are not shown
run 0 publish "$t/g" --compare "$t/v.json" --force
cp "$t/theirs/M-all.gguf" "$t/g/M-all.gguf"
run 0 publish "$t/g" --force
grep -q 'another file of this name' "$t/e" && ! grep -q '^## Compared' "$t/g/README.md" || say "old numbers of a file made again: $(cat "$t/e")"
glance | grep -q '^| not measured | .*texts' || say "at a glance, a file made again: $(glance)"
# documents of other programs have no hash: name and size decide
grep -v sample_xxh128 "$t/theirs.json" > "$t/plain.json"
run 0 publish "$t/g" --compare "$t/plain.json" --force
glance | grep -qF "$(changes_of "$t/plain.json" M-all)" || say "at a glance, without a hash: $(glance)"
cp "$t/a/M-all.gguf" "$t/g/M-all.gguf"
run 0 publish "$t/g" --compare "$t/plain.json" --force
glance | grep -q '^| not measured | .*texts' || say "at a glance, another size: $(glance)"

# refused: another model, a broken file, a file given twice, the base itself, bad options; nothing is written
"$HONE" convert tests/golden/models/qwen2 -o "$t/other.gguf" --type bf16 -q > /dev/null
head -c 200000 "$t/a/M-all.gguf" > "$t/cut.gguf"
refused 3 "its architecture is qwen2 instead of qwen3" versus "$t/base.gguf" "$t/a/M-all.gguf" "$t/other.gguf" --markdown "$t/none"
refused 3 "cut.gguf" versus "$t/base.gguf" "$t/cut.gguf" --markdown "$t/none"
refused 2 "is given twice" versus "$t/base.gguf" "$t/a/M-all.gguf" "$t/b/../a/M-all.gguf" --markdown "$t/none"
refused 2 "is the base itself" versus "$t/base.gguf" "$t/base.gguf" --markdown "$t/none"
refused 2 "create its folder first" versus "$t/absent.gguf" "$t/base.gguf" --markdown "$t/absent/md"
refused 2 "use -f" versus "$t/base.gguf" "$t/a/M-all.gguf" --markdown "$t/md"
refused 2 "create its folder first" versus "$t/base.gguf" "$t/a/M-all.gguf" --text "$t/no-such" --plot "$t/no-folder/svg"
refused 2 "FORMAT:FILE" versus "$t/base.gguf" "$t/a/M-all.gguf" $texts --ctx 64 --chunks 2 --choice winogrande.csv
# files of suites and tasks are read before the work, which this text is too short for
printf x > "$t/short"
for o in "--tools $t/no-such" "--choice winogrande:$t/no-such"; do
    refused 2 "no-such" versus "$t/base.gguf" "$t/a/M-all.gguf" --text "$t/short" $o
done
refused 2 "FILE" versus "$t/base.gguf"
[ ! -e "$t/none" ] || say "a refused comparison wrote a file"
exit $fail
