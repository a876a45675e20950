#!/bin/sh
# Exactly the commands, subcommands and options of the help are completed; the scripts work in all installed shells.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
words() { "$HONE" completion words -- "$@" | cut -f 1 | sort; }
same() { cmp -s "$t/want" "$t/got" || say "$1: $(diff "$t/want" "$t/got")"; }
n_options=0
options() { # command line whose options are compared with its help
    # left column of the help: "  -o, --output FILE   text"
    "$HONE" "$@" --help --verbose | sed -n 's/^  \(-., \|    \)\(--[a-z0-9-]*\).*/\2/p' | sort > "$t/want"
    words "$@" -- > "$t/got"
    same "options of $*"
    n_options=$((n_options + $(wc -l < "$t/want")))
}
{ sed -n 's/^COMMAND("\([^"]*\)".*/\1/p' cli/commands.def; echo --help; echo --version; } | sort > "$t/want"
words '' > "$t/got"
same commands
for cmd in $(sed -n 's/^COMMAND("\([^"]*\)".*/\1/p' cli/commands.def); do
    case $cmd in
    eval | template)
        "$HONE" "$cmd" --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p' | sort -u > "$t/subs"
        [ "$(wc -l < "$t/subs")" -ge 5 ] || say "$cmd: $(cat "$t/subs")"
        grep -vxE 'check|replay' "$t/subs" > "$t/want" # other names of lint and traffic
        words "$cmd" '' | sort -u > "$t/got"
        same "subcommands of $cmd"
        for sub in $(cat "$t/want"); do options "$cmd" "$sub"; done
        ;;
    *) options "$cmd" ;;
    esac
done
[ $n_options -ge 400 ] || say "only $n_options options"
[ "$(words quan)" = quantize ] || say "quan: $(words quan)"
[ "$(words quantize in.gguf --recipe Q5)" = "$(printf 'Q5_0\nQ5_1\nQ5_K_M\nQ5_K_S')" ] || say "recipes: $(words quantize --recipe Q5)"
[ "$(words plan x --device cu)" = cuda ] || say "devices"
[ -z "$(words quantize /et)" ] || say "file names are the shell's"
[ -z "$(words frobnicate --x)" ] || say "an unknown command"

ran=
for sh in bash zsh fish; do
    "$HONE" completion $sh > "$t/hone.$sh" || say "completion $sh"
    command -v $sh > /dev/null || continue
    $sh -n "$t/hone.$sh" 2> "$t/e" || say "$sh: $(cat "$t/e")"
    ran="$ran $sh"
done
if command -v bash > /dev/null; then
    cat > "$t/x.bash" <<'X'
. "$1"
ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _hone; printf '%s,' "${COMPREPLY[@]}"; echo; }
ask "$2" eval kld --by
ask "$2" eval spe
ask "$2" quantize --recipe IQ4
complete -p hone
X
    bash "$t/x.bash" "$t/hone.bash" "$HONE" > "$t/o" 2>&1 || say "bash: $(cat "$t/o")"
    printf -- '--by-depth,\nspeed,\nIQ4_XS,IQ4_NL,\ncomplete -o bashdefault -o default -F _hone hone\n' | cmp -s - "$t/o" || say "bash: $(cat "$t/o")"
fi
if command -v fish > /dev/null; then
    ln -s "$HONE" "$t/hone"
    XDG_CONFIG_HOME=$t PATH=$t:$PATH fish -c "source $t/hone.fish; complete -C 'hone eval kld --by-d'" > "$t/o" 2>&1 || say "fish: $(cat "$t/o")"
    grep -q '^--by-depth	' "$t/o" || say "fish: $(cat "$t/o")"
fi
exit $fail
