#!/bin/sh
# SPDX-License-Identifier: MIT
# OpenBLAS (kernels/blas.h), with libraries built for this test. One with wrong results, a slow one, unusable ones and
# one already loaded by the process are refused with the reason. imatrix obeys doctor's stored choice, --isa overrides
# it, and the moments equal our kernel's up to rounding and are the same for any number of threads.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
[ "$(uname -s)" = Linux ] || { echo "SKIP: libopenblas.so.0 is a name of Linux"; exit 77; }
[ -z "${SANF:-}" ] || { echo "SKIP: a sanitizer replaces dlopen"; exit 77; }
export XDG_CACHE_HOME="$t/cache"

cat > "$t/fake.c" << 'END'
#include <stdio.h>
#include <stdlib.h>
#ifndef PARALLEL
#define PARALLEL 1
#endif
#ifndef FIRST
#define FIRST 0 /* 1: leaves out the first of the products that make a sum */
#endif
static int calls, threads = 8;
char *openblas_get_config(void) { return "OpenBLAS 0.0.1 MAX_THREADS=64" MORE; }
char *openblas_get_corename(void) { return "Fake"; }
int openblas_get_parallel(void) { return PARALLEL; }
void openblas_set_num_threads(int n) { threads = n; }
#ifndef WITHOUT
void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb, float beta,
                 float *c, int ldc) {
    __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    if (order != 101 || ta != 111 || alpha != 1) abort();
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0; /* slow, too */
            for (int p = FIRST; p < k; p++) sum += a[i * lda + p] * (tb == 112 ? b[j * ldb + p] : b[p * ldb + j]);
            c[i * ldc + j] = sum + (beta != 0 ? beta * c[i * ldc + j] : 0);
        }
}
#endif
__attribute__((destructor)) static void end(void) {
    FILE *f = getenv("FAKE_LOG") ? fopen(getenv("FAKE_LOG"), "w") : NULL;
    if (f) fprintf(f, "%d %d\n", calls, threads), fclose(f);
}
END
fake() { # name, flags: makes a build in a folder of that name
    name=$1
    shift
    mkdir -p "$t/$name"
    # an environment variable may hold a compiler and its options
    # shellcheck disable=SC2086
    ${CC:-cc} -O1 -w -shared -fPIC -Wl,-soname,libopenblas.so.0 -DMORE='""' "$@" -o "$t/$name/libopenblas.so.0" "$t/fake.c"
}
use() { # folder, expected exit, arguments: runs hone with the build of that folder
    export LD_LIBRARY_PATH="$t/$1"
    shift
    run "$@"
    unset LD_LIBRARY_PATH
}
fake slow
fake wrong -DFIRST=1
fake openmp -DPARALLEL=2
fake without -DWITHOUT
fake newer -UMORE '-DMORE=" newer"'
fake wide -UMORE '-DMORE=" USE64BITINT"'
mkdir "$t/broken"
echo 'no library' > "$t/broken/libopenblas.so.0"
cp "$t/broken/libopenblas.so.0" "$t/broken/libopenblasp.so.0"

kept() { head -1 "$t"/cache/hone/blas-* 2> /dev/null; }
while read -r name reason; do
    use "$name" 0 doctor --json
    grep -q "\"openblas_not_used\": *\"[^\"]*$reason" "$t/o" || say "$name: not refused by '$reason': $(grep openblas "$t/o")"
    [ -z "$(kept)" ] || say "$name: kept $(kept)"
done << END
wrong it computes wrongly on this processor
openmp not the build with POSIX threads
without it has no cblas_sgemm
wide its integers have 64 bits
broken libopenblas
END
export LD_PRELOAD="$t/slow/libopenblas.so.0" FAKE_LOG="$t/log"
run 0 doctor --json
unset LD_PRELOAD
grep -q '"openblas_not_used": *"the process uses it already' "$t/o" || say "one that was loaded before is used: $(grep openblas "$t/o")"
[ "$(cat "$t/log")" = '0 8' ] || say "calls and threads of one that was loaded before: $(cat "$t/log")"

(ulimit -v 8000000; use slow 0 doctor --json; exit $fail) || fail=1
grep -q '"openblas_not_used": *"the memory of the process is limited' "$t/o" || say "used under ulimit -v: $(grep openblas "$t/o")"

# correct but slow: tried with one thread, and not used
use slow 0 doctor --json
grep -q '"openblas": *"OpenBLAS 0.0.1 MAX_THREADS=64 Fake"' "$t/o" || say "doctor does not name it: $(grep openblas "$t/o")"
grep -q openblas_not_used "$t/o" && say "a right one is refused: $(cat "$t/o")"
[ -z "$(kept)" ] || say "a slow one would be used: $(kept)"
read -r calls threads < "$t/log"
[ "$calls" -gt 5 ] && [ "$threads" = 1 ] || say "tried by $calls calls with $threads threads"

# imatrix obeys the stored choice
m=$t/m.gguf
"$HONE" convert tests/golden/tiny-qwen35moe -o "$m" -q > /dev/null
moments() { # folder, output, more options; leaves the calls in $calls
    dir=$1 out=$2
    shift 2
    echo '0 0' > "$t/log"
    use "$dir" 0 imatrix "$m" tests/golden/tiny-qwen35moe/self_calib.txt --chunks 1 --ctx 128 -o "$t/i.gguf" --gram "$t/$out" -f "$@"
    read -r calls threads < "$t/log"
}
moments slow ours.gguf
[ "$calls" = 0 ] || say "used by $calls calls, though nothing was kept"
file=$(echo "$t"/cache/hone/blas-*)
printf 'moments,rows_512,nonsense\nOpenBLAS 0.0.1 MAX_THREADS=64 Fake\n' > "$file"
moments slow theirs.gguf --threads 1
[ "$calls" -gt 5 ] || say "not used, though it was kept"
[ "$threads" = 1 ] || say "it has $threads threads"
moments slow again.gguf --threads 3
cmp "$t/theirs.gguf" "$t/again.gguf" || say "other threads, other moments"
cmp -s "$t/ours.gguf" "$t/theirs.gguf" && say "the same moments to the bit: it was not used for them"
isa=$("$HONE" doctor "$m" --json | sed -n 's/.*"cpu_isa": *"\([a-z0-9]*\)".*/\1/p')
moments slow named.gguf --isa "$isa"
[ "$calls" = 0 ] || say "used with --isa"
cmp "$t/ours.gguf" "$t/named.gguf" || say "other moments with --isa $isa"
# the first million values differ only by rounding
for x in ours theirs; do od -An -v -w4 -tf4 -N4000000 "$t/$x.gguf" > "$t/$x"; done
paste "$t/ours" "$t/theirs" | awk '$1 != $2 { n++; d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d; if ($1 > size) size = $1 }
    END { print n + 0, most + 0, size + 0; exit !(n && most <= 1e-5 * size) }' > "$t/o" || say "moments: differing values, largest difference, largest of them: $(cat "$t/o")"
[ "$(stat -c %s "$t/ours.gguf")" = "$(stat -c %s "$t/theirs.gguf")" ] || say "other sizes"
for dir in newer wrong; do
    moments $dir $dir.gguf
    cmp "$t/ours.gguf" "$t/$dir.gguf" || say "$dir: other moments"
    grep -q 'OpenBLAS is not used' "$t/e" || say "$dir: no word about it: $(cat "$t/e")"
done
exit $fail
