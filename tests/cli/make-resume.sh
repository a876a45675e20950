#!/bin/sh
# hone make, interrupted CUTS times (9; CUTS=20 for the long run) by SIGINT, SIGTERM and SIGKILL in turn, then run to
# the end: every GGUF and the imatrix are byte-identical to those of an uninterrupted run, and a file under its final
# name was complete at all times. A random number of finished steps and a random wait choose the moment, so that a slow
# or busy machine is interrupted everywhere, too.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
src=tests/golden/tiny-qwen35moe
head -c 24000 $src/self_calib.txt > "$t/calib.txt"
head -c 12000 $src/self_eval.txt > "$t/eval.txt"
# a sanitizer is slow, so it uses a smaller model
grep -q __asan_init "$HONE" && src=tests/golden/models/qwen35moe
job() { exec "$HONE" make $src -o "$1" -q --plain --recipes Q4_K_M,Q3_K_M --calib "$t/calib.txt" --eval "$t/eval.txt" --chunks 4 --pp 32 --tg 8 --reps 1 --tools-cases 1; }

t0=$(date +%s%N)
(job "$t/whole") > "$t/whole.out"
ms=$((($(date +%s%N) - t0) / 1000000))
seed=${SEED:-1}
steps() { # folder: sets n to the number of steps that are finished, without hashes of files
    set -- "$1.work"/[!h]*.json
    n=$#
    [ -e "$1" ] || n=0
}
steps "$t/whole"
all=$n
echo "uninterrupted run: $ms ms, $all steps; seed $seed"
whole() { # every final file there is equals the uninterrupted one
    for f in "$t/cut"/*.gguf; do
        [ -e "$f" ] || continue
        cmp "$f" "$t/whole/${f##*/}" || { echo "partial or different: ${f##*/} after cut $1"; exit 1; }
    done
}
i=0
cut=0
while [ $cut -lt "${CUTS:-9}" ] && [ $i -lt $((${CUTS:-9} * 2)) ]; do
    i=$((i + 1))
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    steps "$t/cut"
    # a fresh start every fifth time and near the end, so that all steps are hit
    if [ $((i % 5)) = 1 ] || [ $n -ge $((all - 3)) ]; then
        rm -rf "$t/cut" "$t/cut.work"
        n=0
    fi
    at=$((n + seed / 65536 % (all - 3 - n)))
    delay=$(awk "BEGIN{printf \"%.3f\", $seed / 64 % 1000 / 1000 * $ms / 1000 / $all}")
    job "$t/cut" > "$t/cut.out" 2> "$t/cut.err" &
    pid=$!
    while steps "$t/cut" && [ $n -lt $at ] && kill -0 $pid 2> /dev/null; do sleep 0.02; done
    sleep "$delay"
    case $((i % 3)) in 0) sig=INT ;; 1) sig=TERM ;; 2) sig=KILL ;; esac
    kill -$sig $pid 2> /dev/null || true
    rc=0
    wait $pid || rc=$?
    case $rc in
    0) ;;
    130 | 137 | 143) cut=$((cut + 1)) ;;
    *) echo "exit $rc after SIG$sig at step $at:"; cat "$t/cut.err"; exit 1 ;;
    esac
    whole "$i ($sig at step $at)"
done
(job "$t/cut") > "$t/cut.out"
for f in "$t/whole"/*.gguf; do cmp "$f" "$t/cut/${f##*/}"; done
left=$(find "$t/cut" "$t/cut.work" -name '*.tmp-*' | wc -l)
[ "$left" = 0 ] || { echo "$left temporaries left behind"; exit 1; }
(cd "$t/cut" && sha256sum -c SHA256SUMS >/dev/null)
[ $cut -ge $((${CUTS:-9} * 2 / 3)) ] || { echo "only $cut of $i runs were cut"; exit 1; }
echo "$cut of $i runs were cut; all files equal"
