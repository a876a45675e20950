#!/bin/sh
# SPDX-License-Identifier: MIT
# `--isa auto` uses the instruction set that `hone doctor` measured and stored for this machine. A stored name that is
# unknown or not supported by the machine is ignored, and an explicit --isa overrides it.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
export XDG_CACHE_HOME="$t/cache"
"$HONE" convert tests/golden/models/qwen35moe -o "$t/m.gguf" -q > /dev/null
isa() { "$HONE" doctor "$t/m.gguf" --json "$@" | sed -n 's/.*"cpu_isa": *"\([a-z0-9]*\)".*/\1/p'; }
[ ! -e "$t/cache" ] || say "a folder before anything was measured"
best=$(isa)
run 0 doctor --json
fastest=$(sed -n 's/.*"fastest_isa": *"\([a-z0-9]*\)".*/\1/p' "$t/o")
set -- "$t"/cache/hone/isa-*
[ $# = 1 ] && [ -f "$1" ] || say "not one file was kept: $*"
kept=$1
[ "$(cat "$kept")" = "$fastest" ] || say "kept $(cat "$kept"), measured $fastest"
[ "$(isa)" = "$fastest" ] || say "$fastest is the fastest, but $(isa) is used"
# a different choice is obeyed, and --isa overrides it
echo ref > "$kept"
[ "$(isa)" = ref ] || say "ref was kept, but $(isa) is used"
[ "$(isa --isa auto)" = ref ] || say "auto is not what was kept"
[ "$(isa --isa "$best")" = "$best" ] || say "--isa is weaker than what was kept"
# an invalid choice is ignored
other=neon
[ "$(uname -m)" = x86_64 ] || other=avx2
for text in auto nonsense '' "$other" 'ref and more'; do
    printf '%s\n' "$text" > "$kept"
    [ "$(isa)" = "$best" ] || say "'$text' was kept, and $(isa) is used"
done
# no cache folder: chosen by the machine's features, and doctor works
rm -r "$t/cache"
: > "$t/cache"
run 0 doctor --json
[ "$(isa)" = "$best" ] || say "without a folder $(isa) is used"
[ "$(env -u XDG_CACHE_HOME -u HOME "$HONE" doctor "$t/m.gguf" --json | grep -c "\"$best\"")" -gt 0 ] || say "without a home $best is not used"
exit $fail
