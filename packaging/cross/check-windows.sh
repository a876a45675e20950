#!/bin/sh
# SPDX-License-Identifier: MIT
# packaging/cross/check-windows.sh DIR HONE [PART...] - checks DIR/hone.exe, the Windows program, under Wine against HONE,
# the same version for Linux. Parts (default: all): bytes, make, kills, serve, library, units, scripts. KILLS and CUTS are
# the numbers of random kills (40) and of interruptions of a job (9); UNITS and SCRIPTS choose tests, LIMIT is the time
# of each in seconds (1800). What Wine cannot show is in docs/platforms.md.
set -u
for p in wine curl; do command -v $p > /dev/null || { echo "check-windows: $p is missing (Debian: wine64, curl)"; exit 1; }; done
dir=$(cd "$1" && pwd)
exe=$dir/hone.exe
linux=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
shift 2
parts=${*:-bytes make kills serve library units scripts}
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
# `\` in paths gives the bytes of `/`, and is kept in arguments that are no paths
paths() {
    mkdir "$t/linux.paths" "$t/windows.paths"
    for who in linux windows; do
        program=$linux slash=/
        [ $who = linux ] || program=$wine slash='\'
        (
            cd "$t/$who.paths" || exit 1
            "$program" quantize "..${slash}linux${slash}base.gguf" -o ".${slash}a.gguf" --recipe IQ2_S \
                --imatrix "..${slash}linux${slash}imatrix.gguf" --tensor '\.attn_output\.weight=Q8_0' -q
        ) > "$t/log" 2>&1 || say "paths: $who: $(tail -2 "$t/log")"
    done
    cmp "$t/linux.paths/a.gguf" "$t/windows.paths/a.gguf" || say 'paths: another file'
    grep -q C:/ "$t/windows.paths/a.gguf" && say 'paths: a folder is in the file'
    rc=0
    "$wine" quantize "$t/linux/base.gguf" -o "$t/COM1.gguf" --recipe Q8_0 -q > "$t/log" 2>&1 || rc=$?
    [ $rc = 2 ] && grep -q 'a name can be no device' "$t/log" || say "paths: COM1: exit $rc: $(tail -1 "$t/log")"
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
    paths
    echo "bytes: $same of $(ls "$t/linux" | wc -l) files are equal"
}

# ---- scripts of the tests, with the Windows program ----
script() { # name, words for the result, command
    name=$1
    shift
    start=$(date +%s)
    HONE=$wine HONE_GEN=$root/build/gen CC=${CC:-cc} XDG_CACHE_HOME=$(mktemp -d -p "$t") \
        timeout "${LIMIT:-1800}" "$@" > "$t/out" 2>&1
    rc=$?
    case $rc in 0) word=ok ;; 77) word=skipped ;; *) word=FAILED ;; esac
    echo "$name: $word, $(($(date +%s) - start)) s: $(tail -1 "$t/out" | cut -c1-140)"
    [ $word != FAILED ] || tail -30 "$t/out" | cut -c1-200 | sed 's/^/    /'
    return $rc
}
make_() { CUTS=${CUTS:-9} script make-resume sh tests/cli/make-resume.sh || fail=1; }
# without template fix --in-place and meta: Wine 8 cannot replace an open file
kills() { KINDS='convert shards quantize split publish make' script kills sh tests/killed.sh "${KILLS:-40}" || fail=1; }

serve() {
    "$wine" doctor | grep -q 'tested with Wine 8, not on Windows' || say 'serve: doctor does not say how far Windows was tested'
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

# ---- hone.dll: the programs of docs/examples, linked with its import library, write what they write on Linux ----
example() { # file for the output, name, arguments; $in for standard input
    out=$1 name=$2
    shift 2
    for who in linux windows; do
        program=$t/library/$name
        [ $who = linux ] || program=$wine
        (cd "$t/library/$who" && WINE_EXE=$t/library/$name.exe "$program" "$@") \
            < "${in:-/dev/null}" > "$t/library/$who/$out" 2> "$t/log" ||
            say "library: $name on $who: $(tail -1 "$t/log")"
    done
}
library() {
    mkdir -p "$t/library/linux" "$t/library/windows"
    so=$(ls "$(dirname "$linux")"/libhone.so.*)
    for name in steps tensor template toolcall corpus perplexity cancel; do
        ${CC:-cc} -std=c11 -D_POSIX_C_SOURCE=200809L -O1 -I build/gen/include docs/examples/$name.c "$so" -lm \
            "-Wl,-rpath,$(dirname "$so")" -o "$t/library/$name" || say "library: $name on Linux"
        "$dir/../tools/bin/windows-x86_64-clang" -std=c11 -O2 -fPIC -I build/gen/include docs/examples/$name.c "$dir/libhone.dll.a" \
            -o "$t/library/$name.exe" > "$t/log" 2>&1 || say "library: $name: $(tail -1 "$t/log")"
    done
    cp "$dir/hone.dll" "$t/library"
    echo '[{"role": "user", "content": "Say <|im_end|> twice"}]' > "$t/conv"
    "$linux" convert "$texts" -o "$t/lib.gguf" -q > "$t/log" 2>&1
    example steps.txt steps "$src" steps.gguf Q8_0
    example tensor.txt tensor steps.gguf token_embd.weight
    example template.txt template ../../lib.gguf ../../conv
    example corpus.txt corpus ../../lib.gguf ../../eval.txt ids
    example perplexity.txt perplexity ../../lib.gguf ../../eval.txt 2
    printf '<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>' > "$t/answer"
    in=$t/answer example toolcall.txt toolcall ../../lib.gguf
    rc=0
    (cd "$t/library" && WINE_EXE=$t/library/cancel.exe "$wine" ../lib.gguf late.gguf IQ4_XS 1) > "$t/out" 2>&1 || rc=$?
    [ $rc = 130 ] && grep -q cancelled "$t/out" && [ ! -e "$t/library/late.gguf" ] || say "library: cancel: exit $rc: $(tail -1 "$t/out")"
    # Windows' C library ends lines with a carriage return
    for f in "$t"/library/*/*.txt; do tr -d '\r' < "$f" | grep -v '"seconds"' > "$f.new"; mv "$f.new" "$f"; done
    same=0
    for f in "$t"/library/linux/*; do
        if cmp -s "$f" "$t/library/windows/${f##*/}"; then same=$((same + 1)); else
            say "library: ${f##*/} differs: $(head -2 "$t/library/windows/${f##*/}" | cut -c1-200)"
        fi
    done
    echo "library: $same of $(ls "$t/library/linux" | wc -l) outputs of programs with hone.dll are equal"
}

# ---- unit tests, built as Windows programs ----
# left out: tests that write a file again while they have it open, which Wine 8 refuses, one that uses `cp -r`, and one
# of caches on disk (test_sched), which need private files
UNITS_LEFT_OUT='test_sched test_convert_lora test_convert_quantized test_rows test_kv test_lib_handles'
units() {
    n=0 passed=0 failed='' left=''
    for f in "$dir"/unit/*.exe; do
        name=$(basename "$f" .exe)
        case " ${UNITS:-$name} " in *" $name "*) ;; *) continue ;; esac
        if echo " $(echo $UNITS_LEFT_OUT) " | grep -q " $name "; then
            left="$left $name"
            continue
        fi
        n=$((n + 1))
        XDG_CACHE_HOME=$(mktemp -d -p "$t") WINE_EXE=$f timeout "${LIMIT:-1800}" "$wine" > "$t/out" 2>&1
        rc=$?
        p=$(tail -1 "$t/out" | tr -d '\r' | sed -n 's/^\(.* \)\{0,1\}\([0-9]*\) passed, 0 failed$/\2/p')
        case $rc:$p in
        77:*) echo "$name: skipped: $(tail -1 "$t/out" | cut -c1-200)" ;;
        0:[0-9]*) passed=$((passed + p)) ;;
        *)
            failed="$failed $name"
            echo "$name: FAILED, exit $rc: $(grep -vE '^ok|^ *Host|passed, ' "$t/out" | head -2 | cut -c1-300)"
            ;;
        esac
    done
    echo "units: $n programs, $passed tests passed; failed:${failed:- none}; left out:${left:- none}"
    [ -z "$failed" ] || fail=1
}

# left out: scripts that limit a process (Wine's server is limited too), that test Linux, its libraries or a compiler,
# that run another program than HONE, that the parts kills and make run, that rewrite files in place (meta, template-fix,
# template-everywhere), which Wine 8 refuses, that test the console, which Wine redraws (run-chat), or whose caches on disk need private files (serve-disk): Wine keeps access
# rules as Unix modes
LEFT_OUT='abi arm64 blas cuda cuda-archs faults globals gpu guides isa-emu library python portable bench-kernels peers
  peer-baseline card killed make-resume meta run-chat template-fix template-everywhere serve-disk'
scripts() {
    passed=0 failed='' left='' skipped=''
    for f in ${SCRIPTS:-tests/cli/*.sh}; do
        name=$(basename "$f" .sh)
        if grep -q 'ulimit\|HONE_EMU\|HONE_FAULTY' "$f" || echo " $(echo $LEFT_OUT) " | grep -q " $name "; then
            left="$left $name"
        else
            script "$name" sh "$f"
            case $? in 0) passed=$((passed + 1)) ;; 77) skipped="$skipped $name" ;; *) failed="$failed $name" ;; esac
        fi
    done
    echo "scripts: $passed passed; failed:${failed:- none}; skipped:${skipped:- none}; left out:${left:- none}"
    [ -z "$failed" ] || fail=1
}
for p in $parts; do
    case $p in make) make_ ;; *) $p ;; esac
done
[ $fail = 0 ] && echo "check-windows: passed"
exit $fail
