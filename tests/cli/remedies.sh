#!/bin/sh
# Suggested remedies exist: every option that a message, a help text, a manual page or a document mentions exists in the
# command that it is mentioned for, and so does every command. (What a message says must also be true:
# nothing-false.sh.)
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
gen=${HONE_GEN:-build/gen}
. tests/expect.sh
# options of each command, by its name with '-' for ' '; and of all
mkdir "$t/has"
for cmd in $(sed -n 's/^COMMAND("\([^"]*\)".*/\1/p' cli/commands.def); do
    subs=
    case $cmd in eval | template) subs=$("$HONE" $cmd --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p') ;; esac
    for sub in ${subs:--}; do
        [ "$sub" != - ] || sub=
        # shellcheck disable=SC2086
        "$HONE" $cmd $sub --help -v | grep -oE -- '(^|[ ,])--[a-z][a-z0-9-]*( |$)' | tr -d ' ,' | sort -u > "$t/has/$cmd${sub:+-$sub}"
    done
done
cat "$t/has"/* | sort -u > "$t/all"
[ "$(wc -l < "$t/all")" -ge 150 ] || say "only $(wc -l < "$t/all") options were found"
# names from older versions, which still work (cli/peers.def), and options of other programs that our texts mention
printf '%s\n' --recipes --help --version > "$t/old"
sed -n 's/^PEER_OPTION("\([^"]*\)".*/--\1/p' cli/peers.def | sort -u > "$t/peers"
printf '%s\n' --jinja --cpu-moe --n-cpu-moe --include --local-dir --dequantize --prefix --repo-type --spec-type >> "$t/peers"

# ---- strings of the program: adjacent literals are one ----
for f in $(git ls-files '*.c' '*.def' | grep -vE '^(tests|bench|docs|packaging|kernels)/|^serve/page'); do
    tr '\n' ' ' < "$f" | sed "s/'\"'//g" | sed -E 's/\\n/ /g; s/" +"//g' | grep -oE '"([^"\\]|\\.)*"' | grep -E -- '--[a-z]|hone [a-z]' | sed "s|^|$f: |" || :
done > "$t/strings"
[ "$(wc -l < "$t/strings")" -ge 400 ] || say "only $(wc -l < "$t/strings") strings were found"
grep -vE '^(report/html|report/readme|cli/peers|quantize/synth_shapes)' "$t/strings" | grep -oE "(^[^:]*:|[ '(\`\"]--[a-z][a-z0-9-]+)" | awk '/:$/ {f = $0; next} {print f, substr($0, 2)}' | sort -u > "$t/named"
while read -r f o; do
    grep -qxF -e "$o" "$t/all" "$t/peers" || say "$f no command has $o"
done < "$t/named"

# ---- "hone COMMAND ... --option", in strings and documents ----
{
    cat "$t/strings"
    for f in README.md CONTRIBUTING.md $(git ls-files 'docs/*.md' 'docs/guides/*' 'docs/formats/*' 'docs/design/*'); do sed "s|^|$f: |" "$f"; done
    for f in "$gen"/man/*.1; do sed "s/\\\\-/-/g; s/\\\\f[BIRP]//g; s/\\\\//g; s|^|$f: |" "$f"; done
} | grep -E 'hone [a-z]' > "$t/texts"
grep -oE "^[^:]*:|\bhone (make|versus|convert|imatrix|sensitivity|quantize|replay|recipes|run|serve|tokenize|plan|inspect|diff|publish|split|merge|verify|synth|doctor|bench-kernels|completion|eval [a-z]+|template [a-z]+)\b[^\`\"';|#&(),:]*" "$t/texts" |
    awk '/:$/ {f = $0; next} {print f "|" $0}' | sort -u > "$t/calls"
n=0
while IFS='|' read -r f call; do
    # shellcheck disable=SC2086
    set -- $call
    cmd=${2%.} # the end of a sentence
    case $cmd in eval | template)
        case ${3:-} in tools | checks | choice | ppl | kld | mtp | vision | needle | traffic | replay | suite | compare | speed | kv | logits | show | render | diff | parse | lint | check | fix | eval) cmd=$cmd-$3 ;; *) continue ;; esac ;;
    esac
    [ -e "$t/has/$cmd" ] || { say "$f there is no hone $cmd"; continue; }
    for o in $(echo " $call" | grep -oE -- ' --[a-z][a-z0-9-]*' || true); do
        n=$((n + 1))
        grep -qxF -e "$o" "$t/has/$cmd" "$t/old" || say "$f hone $cmd has no $o: $call"
    done
done < "$t/calls"
# commands in quotes are valid, except for those of the example in docs/walk.md
for c in $(grep -ohE "['\`]hone [a-z][a-z-]*" "$t/texts" | sed 's/.hone //' | sort -u | grep -vxE 'my|walk'); do
    [ -e "$t/has/$c" ] || ls "$t/has" | grep -q "^$c-" || [ "$c" = help ] || say "there is no 'hone $c': $(grep -m1 -E "['\`]hone $c\b" "$t/texts" | cut -c1-200)"
done
[ $n -ge 150 ] || say "only $n options of commands were checked"
exit $fail
