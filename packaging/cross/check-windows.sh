#!/bin/sh
# SPDX-License-Identifier: MIT
# packaging/cross/check-windows.sh EXE HONE [PART...] - checks EXE, the Windows program, under Wine against HONE,
# the same version for Linux. Parts (default: all): bytes, make, kills, serve, scripts. KILLS and CUTS are the
# numbers of random kills (40) and of interruptions of a job (9). What Wine cannot show is in docs/platforms.md.
set -u
exe=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
linux=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
shift 2
parts=${*:-bytes make kills serve scripts}
t=$(mktemp -d)
export WINEDEBUG=-all WINE_EXE="$exe" WINEPREFIX="${WINEPREFIX:-$t/prefix}"
# one server for all programs, which no limit of a script reaches
wineserver=$(command -v wineserver || ls /usr/lib/wine/wineserver* 2> /dev/null | head -1)
wine reg add 'HKCU\Software\Wine' /v Version /d win10 /f > /dev/null 2>&1
"$wineserver" -p
trap '"$wineserver" -k; rm -rf "$t"' EXIT
wine=$t/hone
${CC:-cc} -std=c11 -D_GNU_SOURCE -O1 tests/wine.c -o "$wine" || exit 1
fail=0
say() { echo "$*"; fail=1; }
root=$PWD
src=$root/tests/golden/models/qwen35moe texts=$root/tests/golden/tiny-qwen35moe
head -c 24000 "$texts/self_calib.txt" > "$t/calib.txt"
head -c 8000 "$texts/self_eval.txt" > "$t/eval.txt"

# ---- the same commands on both systems: all files have the same bytes ----
commands() { # program
    set -e
    "$1" convert "$src" -o base.gguf -q
    "$1" imatrix base.gguf ../calib.txt -o imatrix.gguf --gram gram.gguf --moments moments.gguf --ctx 128 -q
    types='Q8_0 Q6_K Q5_K_M Q4_K_M Q4_0 Q3_K_M Q2_K IQ4_XS IQ4_NL IQ3_S IQ3_XXS IQ2_S IQ2_XS IQ2_XXS IQ1_M MXFP4'
    for type in $types; do
        "$1" quantize base.gguf -o $type.gguf --recipe $type --imatrix imatrix.gguf -q
    done
    "$1" quantize base.gguf -o fed.gguf --recipe Q4_K_M --imatrix imatrix.gguf --gram gram.gguf -q
    "$1" quantize base.gguf -o mix.gguf --budget 1250K --imatrix imatrix.gguf -q
    "$1" sensitivity base.gguf --imatrix imatrix.gguf --probe ../eval.txt -o sensitivity.json --ctx 128 --chunks 4 -q
    "$1" quantize base.gguf -o mix2.gguf --budget 1200K --imatrix imatrix.gguf --sensitivity sensitivity.json -q
    "$1" eval kld base.gguf ../eval.txt --save-base logits.kld --ctx 128 -q
}
bytes() {
    mkdir "$t/linux" "$t/windows"
    # not before || or &&, where set -e has no effect
    (cd "$t/linux"; commands "$linux") > "$t/log" 2>&1
    [ $? = 0 ] || say "bytes: Linux: $(tail -2 "$t/log")"
    (cd "$t/windows"; commands "$wine") > "$t/log" 2>&1
    [ $? = 0 ] || say "bytes: Windows: $(tail -2 "$t/log")"
    same=0
    for f in "$t"/linux/*; do
        name=${f##*/}
        if cmp -s "$f" "$t/windows/$name"; then same=$((same + 1)); else
            say "bytes: $name differs: $("$linux" diff "$f" "$t/windows/$name" 2>&1 | grep -i 'differ' | head -1)"
        fi
    done
    echo "bytes: $same of $(ls "$t/linux" | wc -l) files are equal"
}

# ---- scripts of the tests, with the Windows program ----
script() { # name, words for the result, command
    name=$1
    shift
    start=$(date +%s)
    HONE=$wine HONE_GEN=$root/build/gen CC=${CC:-cc} XDG_CACHE_HOME=$(mktemp -d -p "$t") \
        timeout "${LIMIT:-900}" "$@" > "$t/out" 2>&1
    rc=$?
    case $rc in 0) word=ok ;; 77) word=skipped ;; *) word=FAILED ;; esac
    echo "$name: $word, $(($(date +%s) - start)) s: $(tail -1 "$t/out" | cut -c1-140)"
    [ $rc = 0 ]
}
make_() { CUTS=${CUTS:-9} script make-resume sh tests/cli/make-resume.sh || fail=1; }
kills() { script kills sh tests/killed.sh "${KILLS:-40}" || fail=1; }
serve() {
    "$linux" convert "$texts" -o "$t/served.gguf" -q > /dev/null
    for who in linux windows; do
        program=$linux
        [ $who = linux ] || program=$wine
        "$program" serve "$t/served.gguf" --port 0 --isa avx2 > "$t/ready.$who" 2> "$t/log" &
        pid=$!
        for i in $(seq 600); do [ -s "$t/ready.$who" ] && break || sleep 0.1; done
        port=$(sed 's/.*127\.0\.0\.1:\([0-9]*\).*/\1/' "$t/ready.$who")
        for n in 1 2; do # two clients at the same time
            curl -sf "http://127.0.0.1:$port/v1/completions" \
                -d "{\"prompt\": \"Client $n writes\", \"max_tokens\": 40, \"temperature\": 0}" |
                sed 's/.*"text":"\([^"]*\)".*/\1/' > "$t/$who.$n" &
            eval "client$n=\$!"
        done
        wait "$client1" "$client2"
        kill -INT $pid
        rc=0
        wait $pid || rc=$?
        [ $rc = 0 ] || say "serve: $who ends with $rc: $(tail -1 "$t/log")"
    done
    for n in 1 2; do
        [ -s "$t/windows.$n" ] && cmp "$t/linux.$n" "$t/windows.$n" || say "serve: another answer for client $n"
    done
    echo "serve: two clients, $(cat "$t/windows.1" "$t/windows.2" | wc -c) bytes as on Linux"
}
# left out: scripts that limit a process (Wine's server is limited too), that test Linux, its libraries or a compiler,
# or that run another program than HONE
LEFT_OUT='abi arm64 blas cuda cuda-archs faults globals gpu guides isa-emu library python portable bench-kernels peers
  peer-baseline card'
scripts() {
    passed=0 failed='' left=''
    for f in ${SCRIPTS:-tests/cli/*.sh}; do
        name=$(basename "$f" .sh)
        if grep -q 'ulimit\|HONE_EMU\|HONE_FAULTY' "$f" || echo " $(echo $LEFT_OUT) " | grep -q " $name "; then
            left="$left $name"
        elif script "$name" sh "$f"; then passed=$((passed + 1)); else failed="$failed $name"; fi
    done
    echo "scripts: $passed passed; failed:${failed:- none}; left out:${left:- none}"
    [ -z "$failed" ] || fail=1
}
for p in $parts; do
    case $p in make) make_ ;; *) $p ;; esac
done
[ $fail = 0 ] && echo "check-windows: passed"
exit $fail
