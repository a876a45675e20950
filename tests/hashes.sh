#!/bin/sh
# usage: HONE=build/hone sh tests/hashes.sh FILE
# Writes to FILE the hash of every file that tests/cli/determinism.sh and the job of `make demo` write. Two builds that
# compute the same bits write equal files: run this with HONE set to each of them, from one tree, and compare. The job
# runs without its time limit, so that what it measures does not depend on the machine's load. No file is skipped: files
# that contain times or speeds (results.json, report.html, README.md and the lists of their hashes) differ between any
# two runs.
set -eu
out=$1 t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
: > "$out"
case $out in /*) ;; *) out=$PWD/$out ;; esac
HASHES=$out sh tests/cli/determinism.sh
tiny=tests/golden/tiny-qwen35moe
"$HONE" make $tiny -o "$t/demo" --recipes Q6_K,Q4_K_M,IQ4_XS,Q3_K_M,Q2_K --calib $tiny/calib.jsonl --calib-chunks 60 \
    --probe $tiny/self_calib.txt --eval $tiny/eval.jsonl --eval $tiny/self_eval.txt --chunks 8 --tools-cases 2 --time 0 -q > /dev/null
cd "$t/demo"
find . -type f | LC_ALL=C sort > ../list
while read -r f; do
    echo "$(md5sum < "$f" | cut -c1-32)  demo/${f#./}"
done < ../list >> "$out"
wc -l "$out"
