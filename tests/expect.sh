# SPDX-License-Identifier: MIT
# Checks of the program's behaviour for scripts in tests/cli. Sourced once t names a scratch folder:
# `. tests/expect.sh`. stdout of the last command stays in $t/o, stderr in $t/e.
fail=0 # a script that continues after a failure ends with `exit $fail`
say() { echo "$*"; fail=1; }
# Wine 8 has no private files, does not replace a file that is open and does not see the locks of Linux programs
on_wine() { [ -n "${WINE_EXE:-}" ]; }

run() { # expected exit, then arguments of hone
    want=$1
    shift
    rc=0
    "$HONE" "$@" > "$t/o" 2> "$t/e" || rc=$?
    [ $rc = "$want" ] || say "hone $*: exit $rc, expected $want: $(cat "$t/e")"
}

says() { # expected exit, text, arguments: one line on stderr that holds the text; unlike refused(), the script continues
    want=$1 text=$2
    shift 2
    rc=0
    "$HONE" "$@" < /dev/null > "$t/o" 2> "$t/e" || rc=$?
    [ $rc = "$want" ] && grep -qF -- "$text" "$t/e" && [ "$(wc -l < "$t/e")" = 1 ] || say "hone $*: exit $rc, expected $want and \"$text\": $(cat "$t/e")"
}

refused() { # exit code, text, arguments: exactly one line on stderr that holds the text, nothing on stdout; else the script ends
    want=$1 text=$2
    shift 2
    rc=0
    "$HONE" "$@" < /dev/null > "$t/o" 2> "$t/e" || rc=$?
    [ $rc = "$want" ] && grep -qF -- "$text" "$t/e" && [ "$(wc -l < "$t/e")" = 1 ] && [ ! -s "$t/o" ] ||
        { echo "hone $*: exit $rc, expected $want and \"$text\":"; cat "$t/e"; exit 1; }
}
