#!/bin/sh
# Memory that runs out under programs of docs/examples: whichever request fails, a program ends with its result or with the
# library's sentence that memory is out; it never crashes, and the library never ends it. Every request of one program in turn, and a
# sample of those of two more; then address space that is too little, by ulimit.
set -eu
p=$(dirname "$HONE")/stage/opt/hone
[ -e "$p/lib/libhone.so" ] || { echo "SKIP: no $p (make test installs there)"; exit 77; }
[ -z "${SANF:-}" ] || { echo "SKIP: a sanitizer has an allocator of its own"; exit 77; }
[ "$(getconf GNU_LIBC_VERSION 2> /dev/null)" ] || { echo "SKIP: the requests are taken by glibc's own names"; exit 77; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
cc=${CC:-cc}
$cc -std=gnu11 -O2 -Wall -Wextra -fPIC -shared tests/oom.c -o "$t/oom.so"
for x in toolcall tensor chat quantizer; do
    $cc -std=c11 -D_POSIX_C_SOURCE=200809L docs/examples/$x.c -I"$p/include" -L"$p/lib" -lhone -lm "-Wl,-rpath,$p/lib" -o "$t/$x"
done
"$HONE" convert tests/golden/tiny-qwen35moe -o "$t/b.gguf" -q > /dev/null
printf 'Yes.<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>' > "$t/in"

# one failing request: N, program and arguments
fails() {
    n=$1; x=$2; shift 2
    rc=0
    # LD_PRELOAD inside: the shell's own requests are not counted
    OOM_AT=$n LD_PRELOAD=$t/oom.so "$t/$x" "$@" < "$t/in" > "$t/o" 2> "$t/e" || rc=$?
    # exit 2: the program's own fopen; without a buffer for standard output printf says nothing
    [ $rc = 2 ] && grep -q '^usage' "$t/e" && return 0
    { [ $rc = 0 ] && { cmp -s "$t/o" "$t/want" || [ ! -s "$t/o" ]; }; } || { [ $rc = 4 ] && grep -q 'memory\|annot\|allocate' "$t/e"; } ||
        say "$x, request $n fails: exit $rc: $(cat "$t/e")"
    [ $rc = 0 ] || refused=$((refused + 1))
    grep -q '^hone: error: out of memory' "$t/e" && say "$x, request $n: the library ended the process"
    return 0
}
# program, at most so many points, arguments
sweep() {
    x=$1; most=$2; shift 2
    OOM_LOG=$t/n LD_PRELOAD=$t/oom.so "$t/$x" "$@" < "$t/in" > "$t/want" 2> "$t/e" || say "$x: $(cat "$t/e")"
    total=$(cat "$t/n")
    step=$((total / most + 1))
    refused=0
    for i in $(seq 1 $step "$total"); do fails "$i" "$x" "$@"; done
    echo "$x: $total requests, every ${step}th refused in turn, $refused times an error"
    [ $refused -gt 0 ] || [ "$total" -gt 100 ] || say "$x: no error at all" # of few requests all were tried, or many
}
sweep tensor 400 "$t/b.gguf" token_embd.weight
sweep toolcall 20 "$t/b.gguf"
sweep chat 5 "$t/b.gguf" Hi 1

# too little address space, whatever is asked for: an error, or the result
for mib in 60 110; do
    rc=0
    (ulimit -v $((mib * 1024)) && "$t/quantizer" "$t/b.gguf" "$t/q.gguf") > "$t/o" 2> "$t/e" || rc=$?
    { [ $rc = 0 ] && "$HONE" verify "$t/q.gguf" -q > /dev/null; } || { [ $rc != 0 ] && [ $rc -lt 128 ] && [ -s "$t/e" ] && [ ! -e "$t/q.gguf" ]; } ||
        say "$mib MiB: exit $rc: $(cat "$t/e")"
    rm -f "$t/q.gguf"
done
exit $fail
