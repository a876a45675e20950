#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/run.sh - runs every unit program and every tests/cli script from the repository root.
#
#  UNITS    unit programs, separated by spaces     HONE  the binary that tests/cli/*.sh run
#  SCRIPTS  scripts to run instead of tests/cli/*.sh; empty: none
#  SLOWEST  number of the slowest items to list, with their processor seconds
#  WRAP     prefix of unit programs, e.g. 'valgrind -q --error-exitcode=9'
#  JOBS     default: one per processor, at most 8
#
# A unit program's last line is "N passed, N failed"; one that crashes counts as one failure, a script as one test. Exit
# 77 is "skipped". Prints a line for each finished item, then the output of those that failed or were skipped, and ends
# with exactly one line "N passed, N failed, N skipped"; exit 1 if any failed. Each item writes its own result file.

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd) || exit 2
cd "$root" || exit 2
HONE=${HONE:-}
export HONE

if [ "${1:-}" = --one ]; then # one item: $2 result file, $3 the program or script
    export XDG_CACHE_HOME="$2.cache" # no files of the user are read or written
    seen=${2%/*}/speeds # speeds that an earlier item measured: measuring takes seconds, and no file's bytes depend on them
    [ ! -d "$seen" ] || { mkdir -p "$2.cache" && cp -r "$seen" "$2.cache/hone"; }
    pin=
    [ -z "${CPUS:-}" ] || pin="taskset -c $(echo "$CPUS" | cut -d' ' -f$((SLOT + 1)))"
    case $3 in
    *.sh) $pin sh "$3" >"$2.log" 2>&1 ;;
    *) $pin ${WRAP:-} "$3" >"$2.log" 2>&1 ;;
    esac
    rc=$?
    echo $rc >"$2.rc"
    case $rc in 0) word=ok ;; 77) word=skip ;; *) word=FAIL ;; esac
    done_items=$(find "${2%/*}" -name '*.rc' | wc -l)
    printf '%3d/%s %-4s %s\n' "$done_items" "$N_ITEMS" "$word" "$(basename "$3")"
    for f in "$2.cache/hone"/speeds-*; do
        [ ! -e "$f" ] || [ -e "$seen/${f##*/}" ] || { mkdir -p "$seen" && cp "$f" "$2.new" && mv "$2.new" "$seen/${f##*/}"; }
    done
    times >"$2.times" # second line: the children's processor time, such as 1m2.34s 0m0.56s
    awk -v name="$(basename "$3")" 'NR == 2 { gsub(/[ms]/, " "); print int($1 * 60 + $2 + $3 * 60 + $4), name }' "$2.times" >"$2.sec"
    exit 0
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/hone-check.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# number and path of each item, one per line pair for xargs
i=1000
: >"$work/list"
for item in ${SCRIPTS-tests/cli/*.sh} ${UNITS:-}; do # the long ones first, so that no core waits at the end
    [ -e "$item" ] || [ "$item" != 'tests/cli/*.sh' ] || continue # no scripts at all
    i=$((i + 1))
    printf '%s\n%s\n' "$work/$i" "$item" >>"$work/list"
done
N_ITEMS=$((i - 1000))
export N_ITEMS
[ "$N_ITEMS" -gt 0 ] || { echo "no test has '${T:-}' in its name (tests/unit, tests/kern, tests/fuzz, tests/cli)" >&2; exit 2; }
n_cpus=$(nproc 2>/dev/null || echo 2)
[ "$n_cpus" -le 8 ] || n_cpus=8
# each item gets a processor of its own, if there is one: threads of several items on one processor wait for each other
if [ -z "${JOBS:-}" ] && command -v taskset >/dev/null && true | xargs --process-slot-var=SLOT -P 1 true 2>/dev/null; then
    CPUS=$(taskset -pc $$ | sed 's/.*: //' | tr ',' '\n' | awk -F- '{ for (i = $1; i <= $NF; i++) printf "%s ", i }')
    export CPUS
    xargs --process-slot-var=SLOT -n 2 -P "$n_cpus" sh tests/run.sh --one <"$work/list"
else
    xargs -n 2 -P "${JOBS:-$n_cpus}" sh tests/run.sh --one <"$work/list"
fi

passed=0 failed=0 skipped=0
report_failure() { # name, result file, why
    echo "FAIL: $1 ($3)"
    sed 's/^/    /' "$2.log" 2>/dev/null
}
while IFS= read -r res && IFS= read -r item; do
    name=$(basename "$item")
    rc=$(cat "$res.rc" 2>/dev/null || echo none)
    if [ "$rc" = 77 ]; then
        skipped=$((skipped + 1))
        echo "SKIP: $name: $(tail -n 1 "$res.log" | sed 's/^SKIP: *//')"
        continue
    fi
    case $item in
    *.sh)
        if [ "$rc" = 0 ]; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            report_failure "$name" "$res" "exit $rc"
        fi
        continue
        ;;
    esac
    counts=$(tail -n 1 "$res.log" 2>/dev/null |
        sed -n 's/^\(.*[^0-9]\)\{0,1\}\([0-9][0-9]*\) passed, \([0-9][0-9]*\) failed$/\2 \3/p')
    p=${counts% *} f=${counts#* }
    if [ -z "$counts" ]; then
        failed=$((failed + 1))
        report_failure "$name" "$res" "exit $rc, no count: it crashed"
    else
        [ "$rc" = 0 ] || [ "$f" != 0 ] || f=1 # a bad exit after a good count (a leak, say) is a failure
        passed=$((passed + p))
        failed=$((failed + f))
        [ "$f" = 0 ] || report_failure "$name" "$res" "exit $rc, $f failed"
    fi
done <"$work/list"

[ -z "${SLOWEST:-}" ] || { echo "slowest (CPU s):" $(cat "$work"/*.sec | sort -rn | head -n "$SLOWEST"); }
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
