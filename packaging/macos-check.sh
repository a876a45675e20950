#!/bin/sh
# SPDX-License-Identifier: MIT
# packaging/macos-check.sh HONE [SOURCE] - what the owner of a Mac runs once, to send back the one file hone-macos.json:
# the machine, hone doctor, and for each check its status and time. HONE is the program; SOURCE the unpacked source of
# the same version (default: the current folder). Takes a few minutes, downloads nothing, writes only to a temporary
# folder and hone-macos.json.
set -u
export LC_ALL=C
[ $# -ge 1 ] || { echo "usage: sh packaging/macos-check.sh HONE [SOURCE]" >&2; exit 2; }
hone=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
src=$(cd "${2:-.}" && pwd)
model=$src/tests/golden/tiny-qwen35moe
[ -d "$model" ] || { echo "$src is not hone's source" >&2; exit 2; }
out=$PWD/hone-macos.json
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
cd "$t" || exit 1
json() { # text of a file as a JSON string
    printf '"'
    tr '\t' ' ' < "$1" | tr -d '\000-\010\013-\037' | sed 's/\\/\\\\/g; s/"/\\"/g' |
        awk '{ if (NR > 1) printf "%s", "\\n"; printf "%s", $0 }'
    printf '"'
}
n=0
check() { # name, command...
    name=$1
    shift
    start=$(date +%s)
    "$@" > "$t/stdout" 2> "$t/stderr"
    rc=$?
    tail -c 2000 "$t/stderr" > "$t/tail"
    [ $n = 0 ] || printf ',\n'
    n=$((n + 1))
    printf '    {"check": "%s", "status": %d, "seconds": %d, ' "$name" $rc $(($(date +%s) - start))
    printf '"error": %s}' "$(json "$t/tail")"
    echo "$name: $rc" >&2
}
same() { # two files have the same bytes
    cmp "$1" "$2"
}
killed() { # a job that is killed and started again gives the bytes of one that was not
    "$hone" quantize m.gguf -o whole.gguf --recipe Q4_K_M --threads 1 -q && for wait in 0.1 0.2 0.3; do
        "$hone" quantize m.gguf -o cut.gguf --recipe Q4_K_M --threads 1 -q &
        sleep $wait
        kill -9 $! 2> /dev/null
        wait $! 2> /dev/null
    done
    "$hone" quantize m.gguf -o cut.gguf --recipe Q4_K_M --threads 1 -q -f && "$hone" diff whole.gguf cut.gguf
}
cut_map() { # a truncated input gives a message, not a crash
    cp m.gguf c.gguf && head -c 100000 m.gguf > c.gguf && ! "$hone" verify c.gguf
}
served() { # an answer, a client that leaves, and the end by a signal
    url=http://127.0.0.1:18990
    "$hone" serve m.gguf --port 18990 -q & pid=$!
    for i in 1 2 3 4 5 6 7 8 9 10; do curl -sf $url/v1/models > models && break; sleep 1; done
    curl -sf $url/v1/completions -d '{"prompt": "The", "max_tokens": 8, "temperature": 0}' && grep -q id models
    rc=$?
    curl -s -m 1 $url/v1/completions -d '{"prompt": "The", "max_tokens": 500, "stream": true}' > /dev/null
    curl -sf $url/metrics > metrics || rc=1
    kill -INT $pid
    wait $pid
    [ $? -le 130 ] && return $rc
}
{
    uname -a > name
    sysctl machdep.cpu.brand_string hw.physicalcpu hw.logicalcpu hw.perflevel0.physicalcpu hw.memsize > cpu 2>&1
    sw_vers > version 2>&1
    "$hone" doctor --json > doctor 2>&1 || echo null > doctor
    otool -L "$hone" > libs 2>&1
    printf '{\n  "name": %s,\n  "cpu": %s,\n  "version": %s,\n  "libraries": %s,\n  "doctor": %s,\n  "checks": [\n' \
        "$(json name)" "$(json cpu)" "$(json version)" "$(json libs)" "$(json doctor)"
    check version "$hone" --version
    check convert "$hone" convert "$model" -o m.gguf -q
    check verify "$hone" verify m.gguf -q
    for type in Q4_K_M Q8_0 IQ4_XS; do
        check "quantize $type" "$hone" quantize m.gguf -o $type.gguf --recipe $type -q
    done
    check hashes sh -c 'shasum -a 256 *.gguf >&2'
    check perplexity "$hone" eval ppl m.gguf "$model/self_eval.txt" --chunks 4 --json
    check imatrix "$hone" imatrix m.gguf "$model/self_calib.txt" -o m.imatrix --chunks 4 -q
    check run "$hone" run m.gguf -p "The" -n 16 --temp 0 --raw
    check 'killed and resumed' killed
    check 'cut input' cut_map
    head -c 3000 "$model/self_calib.txt" > calib.txt
    head -c 2500 "$model/self_eval.txt" > eval.txt
    check make "$hone" make "$src/tests/golden/models/qwen35moe" -o made --plain --recipes Q4_K_M,Q2_K -q --calib calib.txt \
        --eval eval.txt --ctx 64 --chunks 2 --calib-ctx 64 --pp 4 --tg 2 --reps 1
    check serve served
    printf '\n  ]\n}\n'
} > "$out"
echo "Please send $out" >&2
