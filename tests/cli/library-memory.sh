#!/bin/sh
# Out of memory, and cancellation, in the programs of docs/examples. Whichever memory request fails, a program ends with
# its result or with the library's out-of-memory error; it never crashes, and the library never ends it. Cancelled at
# any request, it ends with its result or reports the cancellation, and leaves no partial output. Tests a sample of the
# requests of three programs, or with EVERY=1 (make check-examples-memory) every request of every program. Then tests
# too little address space (ulimit).
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
$cc -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -fPIC -shared -I. -I"$p" tests/oom.c tests/cancelled.c -o "$t/cancelled.so"
for x in docs/examples/*.c; do
    x=$(basename "$x" .c)
    $cc -std=c11 -D_POSIX_C_SOURCE=200809L docs/examples/$x.c -I"$p/include" -L"$p/lib" -lhone -lm "-Wl,-rpath,$p/lib" -o "$t/$x"
done
"$HONE" convert tests/golden/tiny-qwen35moe -o "$t/b.gguf" -q > /dev/null
printf 'Yes.<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>' > "$t/in"

# an output is missing or complete; a message about the early end may follow it
whole() { [ ! -e "$t/out.gguf" ] || "$HONE" verify "$t/out.gguf" -q > /dev/null 2>&1 || say "$x, $1: half an output is there"; }
# one failing request: N, program and arguments; standard input is a model's answer
fails() {
    n=$1; x=$2; shift 2
    rc=0
    rm -f "$t/out.gguf"
    # LD_PRELOAD inside: the shell's own requests are not counted
    OOM_AT=$n LD_PRELOAD=$t/oom.so "$t/$x" "$@" < "$t/in" > "$t/o" 2> "$t/e" || rc=$?
    # exit 2: the program's own fopen failed; without a buffer for standard output, printf prints nothing
    [ $rc = 2 ] && grep -q '^usage' "$t/e" && return 0
    { [ $rc = "$want" ] && { same || [ ! -s "$t/o" ]; }; } || { [ $rc = 4 ] && grep -q 'memory\|annot\|allocate' "$t/e" "$t/o"; } ||
        say "$x, request $n fails: exit $rc: $(tail -n 1 "$t/e")"
    [ $rc = "$want" ] || whole "request $n fails"
    [ $rc = "$want" ] || refused=$((refused + 1))
    grep -q '^hone: error: out of memory' "$t/e" && say "$x, request $n: the library ended the process"
    return 0
}
# cancelled at one request: the same arguments
cancels() {
    n=$1; x=$2; shift 2
    rc=0
    rm -f "$t/out.gguf"
    OOM_AT=$n LD_PRELOAD=$t/cancelled.so "$t/$x" "$@" < "$t/in" > "$t/o" 2> "$t/e" || rc=$?
    { [ $rc = "$want" ] && same; } || { [ $rc = 130 ] && grep -q 'cancel\|interrupt' "$t/e" "$t/o"; } || say "$x, cancelled at request $n: exit $rc: $(tail -n 1 "$t/e")"
    [ $rc = "$want" ] || whole "cancelled at request $n"
    [ $rc = "$want" ] || cancelled=$((cancelled + 1))
    return 0
}
# a program's output without times, rates and the number of threads that memory allowed
words() { sed 's/[0-9.]* seconds*//; s/[0-9.]*\/s//; s/in [0-9.]* s//' "$1" | grep -v 'second\|threads' || true; }
same() { words "$t/o" | cmp -s - "$t/want"; }
# program, maximum number of points, exit status, arguments
sweep() {
    x=$1; most=$2; want=$3; shift 3
    rc=0
    rm -f "$t/out.gguf"
    OOM_LOG=$t/n LD_PRELOAD=$t/oom.so "$t/$x" "$@" < "$t/in" > "$t/o" 2> "$t/e" || rc=$?
    [ $rc = "$want" ] || say "$x: $(cat "$t/e")"
    words "$t/o" > "$t/want"
    total=$(cat "$t/n")
    step=$((total / most + 1))
    [ -z "${EVERY:-}" ] || step=1
    refused=0
    cancelled=0
    for i in $(seq 1 $step "$total"); do
        fails "$i" "$x" "$@"
        [ "$x" = cancel ] || cancels "$i" "$x" "$@" # this program has its own cancel switch
    done
    echo "$x: $total requests, every ${step}th refused in turn, $refused times an error; cancelled there, $cancelled times it ended early"
    [ $refused -gt 0 ] || [ "$total" -gt 100 ] || say "$x: no error at all" # all if few, else many
}
sweep tensor 30 0 "$t/b.gguf" output_norm.weight
sweep toolcall 20 0 "$t/b.gguf"
sweep chat 4 0 "$t/b.gguf" Hi 1
if [ -n "${EVERY:-}" ]; then
    text=tests/golden/tiny-qwen35moe/self_eval.txt
    head -c 3000 $text > "$t/small"
    echo '[{"role": "user", "content": "Hi"}]' > "$t/conv"
    printf 'The number 1 is\nThe number 2 is\n' > "$t/prompts"
    sweep template 1 0 "$t/b.gguf" "$t/conv"
    sweep corpus 1 0 "$t/b.gguf" "$t/small" "$t/ids"
    sweep batch 1 0 "$t/b.gguf" "$t/prompts" 2
    sweep perplexity 1 0 "$t/b.gguf" $text 1
    sweep divergence 1 0 "$t/b.gguf" "$t/b.gguf" $text 1
    sweep quantizer 1 0 "$t/b.gguf" "$t/out.gguf"
    sweep steps 1 0 tests/golden/models/qwen35moe "$t/out.gguf" Q8_0
    sweep cancel 1 130 "$t/b.gguf" "$t/out.gguf" Q4_0 1
fi

# every request of more than 16 MiB fails, and a text needs one
cat > "$t/whole.c" << 'END'
#include <hone.h>
#include <stdio.h>
static char text[48 << 20]; /* not from malloc */
int main(int argc, char **argv) {
    struct hone_tokenizer *tok = NULL;
    struct hone_error e = {0};
    int32_t *ids = NULL;
    int64_t n;
    (void)argc;
    int rc = hone_tokenizer_open(&tok, argv[1], NULL, &e);
    if (!rc) rc = hone_tokenize(tok, text, fread(text, 1, sizeof text, stdin), 0, &ids, &n, &e);
    fprintf(stderr, "%s\n", e.message);
    hone_free(ids);
    hone_tokenizer_close(tok);
    return rc;
}
END
$cc -std=c11 "$t/whole.c" -I"$p/include" -L"$p/lib" -lhone "-Wl,-rpath,$p/lib" -o "$t/whole"
refuses() {
    rc=0
    OOM_OVER=$((16 << 20)) LD_PRELOAD=$t/oom.so "$t/whole" "$t/b.gguf" < "$t/long" 2> "$t/e" || rc=$?
    { [ $rc = 4 ] && grep -q '^not enough memory for ' "$t/e"; } || say "$1, requests of 16 MiB fail: exit $rc: $(tail -n 1 "$t/e")"
}
awk 'BEGIN { for (i = 0; i < 2000000; i++) print "line", i, "of many" }' > "$t/long"
refuses "many words"
awk 'BEGIN { for (i = 0; i < 1000000; i++) printf "oneword" }' > "$t/long"
refuses "one word"

# too little address space at any limit: an error, or the result
for mib in 60 110; do
    rc=0
    (ulimit -v $((mib * 1024)) && "$t/quantizer" "$t/b.gguf" "$t/q.gguf") > "$t/o" 2> "$t/e" || rc=$?
    { [ $rc = 0 ] && "$HONE" verify "$t/q.gguf" -q > /dev/null; } || { [ $rc != 0 ] && [ $rc -lt 128 ] && [ -s "$t/e" ] && [ ! -e "$t/q.gguf" ]; } ||
        say "$mib MiB: exit $rc: $(cat "$t/e")"
    rm -f "$t/q.gguf"
done
exit $fail
