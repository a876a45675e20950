#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/faults.sh [N [RESULT.json]] - N injected faults (tests/fault.c) over `hone make` on a small model, each in a
# fresh folder, spread over every kind of call and, within a kind, over all its calls.
#
# After each: exit 0 with the files of an undisturbed run, or exactly one error line with the system's message and exit
# 4 (130 after SIGINT and SIGTERM); no sanitizer report, leaks included; no temporary file except after SIGKILL; files
# under final names are whole. The same command without the fault then finishes the job with the same bytes.
# HONE is the program, HONE_FAULTY the one with faults; SEED repeats a run. FIRST and LAST run only that range of the N,
# to divide them among processes (on a disk, fsync takes most of the time: set TMPDIR=/dev/shm). EVERY="stat EIO"
# injects that fault into every call of its kind, instead of N faults.
set -u
n_faults=${1:-500}
result=${2:-}
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
: "${HONE:?}" "${HONE_FAULTY:?}"
src=tests/golden/models/qwen35moe
head -c 3000 tests/golden/tiny-qwen35moe/self_calib.txt >"$t/calib.txt"
head -c 2500 tests/golden/tiny-qwen35moe/self_eval.txt >"$t/eval.txt"
job() { # program, folder
    "$1" make $src -o "$2" -q --resume --threads 2 --plain --recipes Q4_K_M,Q2_K --calib "$t/calib.txt" --eval "$t/eval.txt" --ctx 64 \
        --chunks 2 --calib-ctx 64 --pp 4 --tg 2 --reps 1 >"$t/out" 2>"$t/err"
}
seed=${SEED:-$$}
echo "seed $seed"

export HONE_FAULT_LOG="$t/counts"
job "$HONE_FAULTY" "$t/ref" || { cat "$t/err"; exit 1; }
unset HONE_FAULT_LOG
sed 's/^/calls: /' "$t/counts"

# kind, effect and share of the faults
cat >"$t/mixture" <<'END'
alloc ENOMEM 6
alloc ENOMEM+ 1
open EACCES 2
open EMFILE 2
open EMFILE+ 1
stat EIO 3
read EIO 2
read EINTR 1
read short 2
write ENOSPC 3
write ENOSPC+ 3
write EIO 2
write EDQUOT 1
write EINTR 1
write short 2
sync EIO 2
sync EIO+ 1
rename EIO 2
rename EACCES+ 1
map ENOMEM 2
map ENOMEM+ 1
thread EAGAIN 1
any kill 3
any int 2
any term 2
END
total=$(awk '{s += $3} END {print s}' "$t/mixture")
# one line per fault: kind n effect; n steps through the calls of the kind, with some chance
while read -r kind effect share; do
    calls=$(awk -v k="$kind" '$1 == k {print $2}' "$t/counts")
    awk -v k="$kind" -v e="$effect" -v share="$share" -v total="$total" -v n="$n_faults" -v calls="$calls" -v seed="$seed" '
        BEGIN { srand(seed + length(e) * 131 + calls); m = n * share / total; m = int(m) + (rand() < m - int(m))
                if (m < 1 && n >= total) m = 1
                for (i = 0; i < m && calls > 0; i++) printf "%s %d %s\n", k, 1 + int((i + rand()) * calls / m), e }'
done <"$t/mixture" >"$t/all"
# or every call of one kind
[ -z "${EVERY:-}" ] || awk -v k="${EVERY% *}" -v e="${EVERY#* }" '$1 == k {for (i = 1; i <= $2; i++) print k, i, e}' "$t/counts" >"$t/all"
sed -n "${FIRST:-1},${LAST:-\$}p" "$t/all" >"$t/plan"

same() { # folder: every model and matrix there is has the bytes of the undisturbed run; every report is whole
    for f in "$1"/*.gguf; do
        [ -e "$f" ] || continue
        cmp -s "$f" "$t/ref/${f##*/}" || { why="${f##*/} is partial or different"; return 1; }
    done
    for f in "$1"/*.json "$1".work/*.json; do
        [ -e "$f" ] || continue
        [ "$(tail -c 3 "$f" | tr -d ' \n' | tail -c 1)" = "}" ] || { why="${f##*/} is cut"; return 1; }
    done
}
complete() { # folder: nothing missing either
    same "$1" || return 1
    for f in "$t/ref"/*; do
        [ -e "$1/${f##*/}" ] || { why="${f##*/} is missing"; return 1; }
    done
    (cd "$1" && sha256sum -c SHA256SUMS >/dev/null 2>&1) || { why="SHA256SUMS do not agree"; return 1; }
}
says() { # effect: the words its error must contain
    case $1 in
    ENOMEM*) echo 'memory' ;;
    ENOSPC*) echo 'space' ;;
    EDQUOT*) echo 'quota' ;;
    EIO*) echo 'Input/output error' ;;
    EACCES*) echo 'Permission denied' ;;
    EMFILE*) echo 'Too many open files' ;;
    EAGAIN*) echo 'Resource temporarily unavailable' ;;
    esac
}
judge() { # fault, exit status
    set -- $1 $2
    if grep -qE 'Sanitizer|runtime error' "$t/err"; then why="a sanitizer speaks"; return 1; fi
    n_err=$(grep -c '^hone: error: ' "$t/err")
    if [ "$3" != kill ] && find "$t/dir" "$t/dir.work" -name '*.tmp-*' 2>/dev/null | grep -q .; then
        # a failing unlink cannot be helped; the next run removes what it left
        [ "$1" = rename ] || { why="a temporary is left"; return 1; }
    fi
    case $3:$4 in
    kill:137) same "$t/dir" ;;
    int:130 | term:130) same "$t/dir" ;;
    *:0) [ "$n_err" = 0 ] || { why="exit 0 with an error line"; return 1; }
        complete "$t/dir" ;;
    short:* | EINTR:*) why="exit $4, but such a call should be continued"; return 1 ;;
    *:4) [ "$n_err" = 1 ] || { why="$n_err error lines"; return 1; }
        grep -qi "$(says "$3")" "$t/err" || { why="the error does not say '$(says "$3")'"; return 1; }
        same "$t/dir" ;;
    *) why="exit $4"; return 1 ;;
    esac
}
n=0 bad=0 ok=0 errors=0 cut=0
while read -r fault; do
    n=$((n + 1))
    rm -rf "$t/dir" "$t/dir.work"
    rc=0
    HONE_FAULT="$fault" job "$HONE_FAULTY" "$t/dir" || rc=$?
    why=
    if judge "$fault" $rc; then
        case $rc in 0) ok=$((ok + 1)) ;; 4) errors=$((errors + 1)) ;; *) cut=$((cut + 1)) ;; esac
        if [ $rc != 0 ]; then
            job "$HONE" "$t/dir" || why="the resumed run failed"
            [ -n "$why" ] || complete "$t/dir" || why="after the resumed run: $why"
            find "$t/dir" "$t/dir.work" -name '*.tmp-*' -o -name '*.part*' | grep -q . && why="a temporary is left after the resumed run"
        fi
    fi
    [ -n "$why" ] || continue
    bad=$((bad + 1))
    echo "FAULT $fault: $why (exit $rc)"
    sed 's/^/    /' "$t/err" | head -25
done <"$t/plan"
asan=false
grep -q __asan_init "$HONE_FAULTY" && asan=true
line=$(printf '{"faults": %d, "success": %d, "one_error": %d, "interrupted_or_killed": %d, "wrong": %d, "sanitized": %s, "seed": %d}' \
    $n $ok $errors $cut $bad $asan "$seed")
echo "$line"
[ -z "$result" ] || {
    printf '{"command": "make faults", "result": %s, "calls": {' "$line"
    awk '{printf "%s\"%s\": %d", (NR > 1 ? ", " : ""), $1, $2}' "$t/counts"
    printf '}, "plan": {'
    awk '{c[$1 " " $3]++} END {for (k in c) printf "%s\"%s\": %d", i++ ? ", " : "", k, c[k]}' "$t/plan"
    printf '}}\n'
} >"$result"
[ $bad = 0 ]
