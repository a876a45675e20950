#!/bin/sh
# hone make, interrupted CUTS times (9; CUTS=20 for the long run) at random points by SIGINT, SIGTERM and SIGKILL in
# turn, then run to the end: every GGUF and the imatrix are byte-identical to those of an uninterrupted run, and a file
# under its final name was complete at all times.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
src=tests/golden/tiny-qwen35moe
head -c 24000 $src/self_calib.txt > "$t/calib.txt"
head -c 12000 $src/self_eval.txt > "$t/eval.txt"
# a sanitizer is slow, so it uses a smaller model
grep -q __asan_init "$HONE" && src=tests/golden/models/qwen35moe
job() { "$HONE" make $src -o "$1" -q --plain --recipes Q4_K_M,Q3_K_M --calib "$t/calib.txt" --eval "$t/eval.txt" --chunks 4 --pp 32 --tg 8 --reps 1 --tools-cases 1; }

t0=$(date +%s%N)
job "$t/whole" > "$t/whole.out"
ms=$((($(date +%s%N) - t0) / 1000000))
seed=${SEED:-1}
echo "uninterrupted run: $ms ms; seed $seed"
whole() { # every final file there is equals the uninterrupted one
    for f in "$t/cut"/*.gguf; do
        [ -e "$f" ] || continue
        cmp "$f" "$t/whole/${f##*/}" || { echo "partial or different: ${f##*/} after cut $1"; exit 1; }
    done
}
i=0
cut=0
while [ $i -lt ${CUTS:-9} ]; do
    i=$((i + 1))
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    # a fresh start every fifth time (FRESH), so that all steps are hit
    [ $((i % ${FRESH:-5})) = 1 ] && rm -rf "$t/cut" "$t/cut.work"
    delay=$(awk "BEGIN{printf \"%.3f\", ($seed % 1000) / 1000 * $ms / 1000 * 0.9}")
    job "$t/cut" > "$t/cut.out" 2>"$t/cut.err" &
    pid=$!
    sleep "$delay"
    case $((i % 3)) in 0) sig=INT ;; 1) sig=TERM ;; 2) sig=KILL ;; esac
    # job runs in a subshell: signal its child
    child=$(ps -o pid= --ppid $pid 2>/dev/null | head -1 || true)
    if kill -$sig ${child:-$pid} 2>/dev/null; then cut=$((cut + 1)); fi
    rc=0
    wait $pid || rc=$?
    case $rc in 0 | 130 | 137 | 143) ;; *) echo "exit $rc after SIG$sig at $delay s:"; cat "$t/cut.err"; exit 1 ;; esac
    whole "$i ($sig at $delay s)"
done
job "$t/cut" > "$t/cut.out"
for f in "$t/whole"/*.gguf; do cmp "$f" "$t/cut/${f##*/}"; done
left=$(find "$t/cut" "$t/cut.work" -name '*.tmp-*' | wc -l)
[ "$left" = 0 ] || { echo "$left temporaries left behind"; exit 1; }
(cd "$t/cut" && sha256sum -c SHA256SUMS >/dev/null)
echo "$cut of $i runs were cut; all files equal"
