#!/bin/sh
# Every command: --help prints its synopsis on stdout and exits 0; an unknown option exits 2, names the nearest
# known one and prints nothing on stdout; the man page's SYNOPSIS has the same synopsis and every option. All commands
# and options in README.md and docs/steps.md exist.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
gen=${HONE_GEN:-build/gen}
. tests/expect.sh
"$HONE" --help > "$t/all"
"$HONE" --version | grep -q '^hone [0-9]' || say "no version"
rc=0; "$HONE" frobnicate > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 2 ] && grep -q "no command 'frobnicate'" "$t/e" && [ ! -s "$t/o" ] || say "unknown command: exit $rc"
for cmd in $(sed -n 's/^COMMAND("\([^"]*\)".*/\1/p' cli/commands.def); do
    grep -q "^  $cmd " "$t/all" || say "hone --help does not list $cmd"
    "$HONE" "$cmd" --help > "$t/h" 2> "$t/e" || say "hone $cmd --help failed"
    [ -s "$t/e" ] && say "hone $cmd --help writes to stderr"
    man=$gen/man/hone-$cmd.1
    [ -e "$man" ] || { say "no man page $man"; continue; }
    # every option of the help is in the page (groff escapes '-' as '\-')
    "$HONE" "$cmd" --help --verbose > "$t/full" || say "hone $cmd --help --verbose failed"
    for o in $(grep -oE -- '--[a-z][a-z0-9-]*' "$t/full" | sort -u); do
        case $o in --json | --csv | --md | --force | --threads | --device | --isa | --max-memory | --max-vram | --stream-from | --place | --pack-cache | --untrusted | --progress | --color | --verbose | --trace | --quiet | --help | --version) continue ;; esac
        sed 's/\\-/-/g' "$man" | grep -qF -- "$o" || say "$man does not describe $o"
    done
    syn=$(sed '/^$/q' "$t/h" | tr -s ' \n' ' ' | sed 's/^usage: hone //; s/ $//')
    sed 's/\\-/-/g; s/\\f[BIRP]//g' "$man" | tr '\n' ' ' | tr -s ' ' | grep -qF -- "$syn" || say "$man: SYNOPSIS is not \"hone $syn\""
    rc=0; "$HONE" "$cmd" --jsno > "$t/o" 2> "$t/e" || rc=$?
    [ $rc = 2 ] && [ ! -s "$t/o" ] || say "hone $cmd --jsno: exit $rc, expected 2 and nothing on stdout"
done
# ---- man pages of subcommands ----
syn=$("$HONE" eval mtp --help | sed -n 's/^usage: hone eval mtp //p')
sed 's/\\-/-/g' docs/man/hone-eval.1 | grep -qF -- "${syn%% \[*}" && [ -n "$syn" ] || say "docs/man/hone-eval.1 does not show eval mtp $syn"
"$HONE" eval kld --help --verbose > "$t/full"
sed -n '/^options:/,/^$/p' "$t/full" | grep -oE -- '--[a-z][a-z0-9-]*' | sort -u > "$t/opts"
while read -r o; do
    sed 's/\\-/-/g' "$gen/man/hone-eval-kld.1" | grep -qF -- "$o" || say "docs/man/hone-eval-kld.1 does not describe $o"
done < "$t/opts"
# ---- exit statuses: --help and the man pages agree with the table base/status.def ----
"$HONE" recipes --help --verbose | sed -n '/^exit status: /,$p' | tr -s '\n ' '  ' > "$t/help"
awk '/^\.SH/ { on = /EXIT STATUS/; next } on' docs/man/hone.1 | tr '\n' ' ' > "$t/man"
awk '/^STATUS\(/ { row = "" } { row = row " " $0 } /\)$/ { print row }' base/status.def |
    sed -n 's/^ *STATUS([A-Z]*, [A-Z]*, \([0-9]*\), "[a-z]*", "\([^"]*\)", *\(.*\))$/\1|\2|\3/p' | sed 's/" *"//g; s/"//g' > "$t/statuses"
[ "$(wc -l < "$t/statuses")" = "$(grep -c '^STATUS(' base/status.def)" ] || say "base/status.def: rows of another form"
while IFS='|' read -r n brief meaning; do
    grep -qF -- "$n $brief" "$t/help" || say "--help --verbose does not say: exit status $n $brief"
    grep -qF -- ".B $n $meaning" "$t/man" || say "docs/man/hone.1 does not say: $n $meaning"
done < "$t/statuses"
[ "$(grep -o '\.B [0-9]*' "$t/man" | wc -l)" = "$(wc -l < "$t/statuses")" ] || say "docs/man/hone.1: other exit statuses"
for man in "$gen"/man/*.1; do
    awk '/^\.SH/ { on = /EXIT STATUS/; next } on' "$man" > "$t/man"
    [ -s "$t/man" ] || say "$man: no exit status"
    for n in $(grep -oE '[0-9]+' "$t/man"); do
        grep -q "^$n|" "$t/statuses" || say "$man: exit status $n is not in base/status.def"
    done
done
# ---- answers to options of other programs name options that hone has ----
peer() { # text, arguments
    text=$1
    shift
    "$HONE" "$@" > "$t/h" 2> "$t/e" < /dev/null && say "hone $*: no error"
    grep -qF -- "$text" "$t/e" || say "hone $*: $(cat "$t/e")"
}
peer '--schema FILE' run x.gguf --json-schema '{}' hello
peer '--device cuda:0,1' serve x.gguf --tensor-split 1,1
peer 'none.jinja' serve x.gguf --chat-template-file none.jinja # taken as --template
peer '--template FILE' serve x.gguf --chat-template chatml
peer 'response_format' serve x.gguf --json-schema '{}'
peer "'hone template fix'" run x.gguf --chat-template-file none.jinja
peer 'given twice' convert tests/golden/models/qwen3 --lora a --lora b -o y.gguf
peer 'x.gguf' quantize x.gguf -o y.gguf --recipe Q8_0 --gram - # an input may be a stream
peer 'not to standard output' imatrix x.gguf x.txt -o y.gguf --gram -
# ---- its table of models is that of the registry and the tests ----
sh tests/models.sh --check || say "docs/models.md"
# ---- commands in README.md and docs/steps.md: known, with known options ----
n=0
for f in README.md docs/steps.md; do
    awk '/^```/ { on = $0 == "```sh"; next } on' "$f"
done | grep -oE '^(build/)?hone [a-z-]+( [^#|&]*)?' | sed 's/^build\///' > "$t/lines"
while read -r _ cmd rest; do
    case $cmd in eval | template) cmd="$cmd ${rest%% *}" ;; esac
    # shellcheck disable=SC2086
    "$HONE" $cmd --help > "$t/h" 2> "$t/e" || say "README.md or docs/steps.md: hone $cmd: $(cat "$t/e")"
    for o in $(echo " $rest" | grep -oE -- ' --[a-z][a-z0-9-]*' || true); do
        grep -qE -- "(^|[ ,])$o( |\$)" "$t/h" || say "README.md or docs/steps.md: hone $cmd has no $o"
    done
    n=$((n + 1))
done < "$t/lines"
[ $n -ge 20 ] || say "README.md, docs/steps.md: only $n commands"
exit $fail
