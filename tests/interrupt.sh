#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/interrupt.sh N [SRC [arguments of hone make]] - interrupts `hone make` at N random moments with SIGINT, SIGTERM
# and SIGKILL in turn, each time in a fresh folder, and runs the same command again to the end. The GGUFs, the
# importance matrix, the second moments, the sensitivities and results.json (apart from timings) must have the bytes of
# an undisturbed run, and little work may be repeated.
#
# Repeated work: the CPU seconds of both runs together, minus those of the undisturbed run, divided by the number of
# threads; includes startup and reading the files. CPU time is meaningful on a busy machine, too. The limit is MAX
# seconds (60). HONE is the binary, SEED the seed, RESULT a JSON file to write, WORK a folder to keep (default: a
# temporary one). Without SRC, a model with random weights and small texts are used, with every kind of step, or only the
# cheap ones if N is at most 5 (make test); KINDS selects different ones.
set -eu
n=${1:-3}
src=${2:-tests/golden/models/qwen35moe}
[ $# -le 2 ] || shift 2
t=${WORK:-$(mktemp -d)}
mkdir -p "$t"
[ -n "${WORK:-}" ] || trap 'rm -rf "$t"' EXIT
threads=2 seed=${SEED:-1} max=${MAX:-60}
if [ $# -le 2 ]; then
    head -c 9000 tests/golden/tiny-qwen35moe/self_calib.txt > "$t/calib.txt"
    head -c 6000 tests/golden/tiny-qwen35moe/self_eval.txt > "$t/eval.txt"
    tail -c 6000 tests/golden/tiny-qwen35moe/self_eval.txt > "$t/probe.txt"
    kinds=${KINDS:-"--recipes Q4_K_M --search fast --budget 1200K"} # probes and a gate too
    [ "$n" -gt 5 ] || kinds="--plain --recipes Q4_K_M --search fast"
    set -- $kinds --calib "$t/calib.txt" --eval "$t/eval.txt" --probe "$t/probe.txt" \
        --calib-ctx 64 --ctx 64 --chunks 20 --pp 16 --tg 4 --reps 2 --tools none
fi

spent() { # processor seconds of the children so far, to $now
    times > "$t/times"
    now=$(awk 'NR == 2 { gsub(/[ms]/, " "); print $1 * 60 + $2 + $3 * 60 + $4 }' "$t/times")
}
random() { # of 10000, to $r
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    r=$((seed / 65536 % 10000))
}
# what all runs must have in common with an undisturbed one
numbers() { grep -vE '"(seconds|date|time|[a-z_]*tok_per_s[a-z_]*|probe_seconds)"' "$1"; }
fail() { echo "FAIL: $*"; [ ! -e "$t/err" ] || tail -n 5 "$t/err"; exit 1; }

spent; before=$now
t0=$(date +%s%N)
"$HONE" make "$src" -o "$t/whole" --threads $threads -q "$@" > "$t/out" 2> "$t/err" || fail "the undisturbed run"
ms=$((($(date +%s%N) - t0) / 1000000))
spent
whole=$(awk "BEGIN{print $now - $before}")
echo "undisturbed: $whole processor seconds, $ms ms"
rows='' worst=0 i=0
while [ $i -lt "$n" ]; do
    i=$((i + 1))
    case $((i % 3)) in 1) sig=INT ;; 2) sig=TERM ;; 0) sig=KILL ;; esac
    random
    at=$(awk "BEGIN{printf \"%.3f\", $r / 10000 * $ms / 1000}")
    rm -rf "$t/cut" "$t/cut.work"
    spent; before=$now
    "$HONE" make "$src" -o "$t/cut" --threads $threads -q "$@" > "$t/out" 2> "$t/err" &
    pid=$!
    sleep "$at"
    kill -$sig $pid 2> /dev/null || true
    rc=0
    wait $pid 2> /dev/null || rc=$?
    case $sig:$rc in *:0 | INT:130 | TERM:130 | KILL:137) ;; *) fail "SIG$sig after $at s: exit $rc" ;; esac
    spent; done=$(awk "BEGIN{print $now - $before}")
    "$HONE" make "$src" -o "$t/cut" --threads $threads -q "$@" > "$t/out" 2> "$t/err" || fail "the run after SIG$sig at $at s"
    spent
    again=$(awk "BEGIN{d = ($now - $before - $whole) / $threads; printf \"%.2f\", (d > 0) ? d : 0}")
    for f in "$t"/whole/*.gguf "$t"/whole.work/*.gguf "$t"/whole.work/sens.json; do
        [ -e "$f" ] || continue
        cmp "$f" "$t/cut${f#"$t"/whole}" || fail "SIG$sig after $at s: other bytes"
    done
    numbers "$t/whole/results.json" > "$t/a"
    numbers "$t/cut/results.json" > "$t/b"
    diff "$t/a" "$t/b" || fail "SIG$sig after $at s: other numbers"
    left=$(find "$t/cut" "$t/cut.work" -name '*.tmp-*' -o -name '*.part' -o -name '*.part.log' -o -name measured)
    [ -z "$left" ] || fail "SIG$sig after $at s: left behind: $left"
    awk "BEGIN{exit !($again > $max)}" && fail "SIG$sig after $at s: $again seconds were done again"
    worst=$(awk "BEGIN{print ($again > $worst) ? $again : $worst}")
    echo "$i: SIG$sig after $at s ($done processor seconds), exit $rc: $again s again"
    rows="$rows${rows:+,
}    {\"signal\": \"$sig\", \"moment_s\": $at, \"processor_s\": $done, \"exit\": $rc, \"repeated_s\": $again}"
done
echo "$n interruptions: all bytes equal; at most $worst s were done again"
[ -z "${RESULT:-}" ] || cat > "$RESULT" <<END
{
  "about": "hone make of ${src##*/}, interrupted at random moments, each time in a fresh folder, then run to its end: every GGUF, importance matrix, second moments, sensitivities and results.json apart from timings equal to those of an undisturbed run",
  "command": "tests/interrupt.sh $n",
  "version": "$("$HONE" --version)",
  "threads": $threads,
  "undisturbed_processor_s": $whole,
  "undisturbed_s": $(awk "BEGIN{print $ms / 1000}"),
  "repeated_is": "processor seconds of both runs, less those of the undisturbed one, over the threads",
  "largest_repeated_s": $worst,
  "interruptions": [
$rows
  ]
}
END
