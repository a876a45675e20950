#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/extend.sh - tests CONTRIBUTING.md's table. Adds a tensor type and an operation to a copy of the tree as its rows
# describe, changing only the files they name. The copy is built without optimization, and must quantize, verify and
# evaluate with the type, and compute with the operation on the CPU (its launcher is an existing one). `make extend`: a
# minute. Needs a C compiler and the libraries.
set -eu
cd "$(dirname "$0")/.."
root=$PWD t=$(mktemp -d)
[ -n "${KEEP:-}" ] || trap 'rm -rf "$t"' EXIT
fail=0
say() { echo "extend: $*"; fail=1; }
mkdir "$t/tree"
git ls-files -- Makefile mk VERSION base containers kernels models text tok template grammar chat convert calib quantize runtime grad report serve work plan mix make jobs lib cli commands docs/man include packaging tests/check.h tests/run.sh |
    grep -v '\.cu$' | xargs cp --parents -t "$t/tree"
cd "$t/tree"

# the names in backticks of a table's row, with FOO for foo and * for any
files_of() { # first cell of the row; its second one names the files
    grep "^| $1 |" "$root/CONTRIBUTING.md" | cut -d '|' -f 3 | grep -oE '`[a-z_]+/[^`]*`' | tr -d '`' | sed "s/foo/$2/" | sort
}
# files that differ from the tree or are new
touched() {
    git -C "$root" ls-files | grep -E '^(base|containers|kernels|models|runtime|quantize)/' | while read -r f; do
        if [ -e "$f" ] && ! cmp -s "$f" "$root/$f"; then echo "$f"; fi
    done
    find base containers kernels models runtime quantize -type f | while read -r f; do [ -e "$root/$f" ] || echo "$f"; done
}
compare() { # what, the table's row, its name here: as many files as the row names, each of them
    touched | sort > "$t/now"
    comm -13 "$t/before" "$t/now" > "$t/new"
    files_of "$2" "$3" > "$t/want"
    [ "$(wc -l < "$t/want")" -ge 3 ] || say "CONTRIBUTING.md has no row '$2' that names files"
    while read -r w; do # a pattern of the shell
        n=0
        while read -r f; do # a file that is named as it is meets no pattern
            case $f in "$w") n=$((n + 1)) ;; $w) grep -qxF "$f" "$t/want" || n=$((n + 1)) ;; esac
        done < "$t/new"
        [ $n = 1 ] || say "$1: CONTRIBUTING.md names $w, $n such files were touched"
    done < "$t/want"
    [ "$(wc -l < "$t/new")" = "$(wc -l < "$t/want")" ] || say "$1: $(wc -l < "$t/new") files touched, CONTRIBUTING.md names $(wc -l < "$t/want"):" $(cat "$t/new")
    echo "$1: $(wc -l < "$t/new") files:" $(cat "$t/new")
    cp "$t/now" "$t/before"
}
: > "$t/before"

# ---- a tensor type: 32 weights, a half and 32 codes from -100 to 100 ----
sed -i 's/^#undef QTYPE_OTHER/QTYPE(TOY, 43, "TOY", 32, 34, .flags = QF_QUANT, .fallback = QT_F16, .scale = {QS_HALF, 1, {AT(TOY, d)}}, .typical = {2.7e-4f})\n&/' containers/qtype.def
sed -i 's/QT_COUNT = 43$/QT_COUNT = 44/; s/^struct blk_Q2_0 .*/&\nstruct blk_TOY { uint16_t d; int8_t qs[32]; };/' containers/qtype.h
cat > kernels/ref/toy.c << 'END'
#include "base/fp.h"
#include "kernels/ops.h"

static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_TOY *x = blk;
    for (int64_t b = 0; b < n / 32; b++, x++, dst += 32)
        for (int i = 0; i < 32; i++) dst[i] = fp_f16_to_f32(x->d) * (float)x->qs[i];
}

const struct kern_ops kern_ref_TOY = {.decode = decode};
END
cat > quantize/enc/toy.c << 'END'
#include <math.h>
#include <string.h>

#include "base/attr.h"
#include "quantize/enc/search.h"
#include "quantize/enc/types.h"

static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst, enum search search) {
    struct blk_TOY *o = dst;
    UNUSED(imp);
    UNUSED(search);
    for (int64_t b = 0; b < n / 32; b++, o++, x += 32) {
        float top = 0;
        for (int i = 0; i < 32; i++) top = fmaxf(top, fabsf(x[i]));
        o->d = enc_f16_bits(top / 100);
        const float d = enc_f16(top / 100);
        for (int i = 0; i < 32; i++) o->qs[i] = (int8_t)(d > 0 ? roundf(x[i] / d) : 0);
    }
}

const struct enc enc_type_TOY = {.type = QT_TOY, .row = row, .conventional = {0, 0, WP_ONE}, .chosen = {0, 0, WP_ONE}};
END
compare "tensor type" "tensor type" toy

# ---- an operation: dst = -src0 ----
printf '%s\n' '/* dst = -src0 */' 'OP(NEGATE, negate, 0, NONE, NO_WEIGHTS)' >> models/ops.def
cat >> runtime/engine/cpu/act.c << 'END'

static void negate_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    for (int64_t i = t0 * j->width; i < t1 * j->width; i++) j->s->reg[j->n->dst][i] = -j->s->reg[j->n->src[0]][i];
}
void exec_negate(struct session *s, const struct gr_node *n) {
    run_rows(s, n, 1, negate_range);
}
END
cat > "$t/cuda" << 'END'
static int op_negate(struct cuda *d, const struct gr_node *n, struct err *e) {
    float **r = d->reg;
    TRY(cu_copy_rows(d->q, r[n->src[0]], width_of(d, n->src[0]), r[n->dst], d->s->n_tok, width_of(d, n->dst), e));
    return cu_scale(d->q, r[n->dst], n_values(d, n->dst), -1, NULL, 1, e);
}

END
awk -v part="$t/cuda" '/^static const cuda_fn table\[OP_COUNT\]/ && !done { while ((getline l < part) > 0) print l; done = 1 } { print }' "$root/runtime/engine/cuda/exec.c" > runtime/engine/cuda/exec.c
compare operation operation negate

# ---- built: the program, and a check of both through the generic machinery ----
mkdir -p tests/unit
cat > tests/unit/test_extend.c << 'END'
#include "base/fp.h"
#include "quantize/enc/enc.h"
#include "runtime/engine/exec.h"
#include "tests/check.h"

/* An error is at most half a step; the step is rounded to f16, which is 2^-11 of it, times at most 100. */
static void test_type(void) {
    enum { N = 4096 };
    static float x[N], y[N];
    static uint8_t blk[N / 32 * 34];
    static struct kern k;
    enum qtype t;
    CHECK(qtype_parse("toy", &t) && t == QT_TOY && qtype_row_bytes(t, N) == sizeof blk);
    CHECK_EQ_I64(qtype_fit(QT_TOY, 33), QT_F16);
    for (int i = 0; i < N; i++) x[i] = sinf((float)i * 0.7f) * (float)(1 + i % 97);
    CHECK(enc_find(QT_TOY) != NULL);
    enc_find(QT_TOY)->row(x, NULL, N, blk, SEARCH_FAST);
    kern_init(&k, kern_isa_best());
    CHECK(kern_has(&k, QT_TOY));
    k.op[QT_TOY].decode(blk, y, N);
    for (int b = 0; b < N; b += 32) {
        float top = 0;
        for (int i = 0; i < 32; i++) top = fmaxf(top, fabsf(x[b + i]));
        for (int i = 0; i < 32; i++) CHECK(fabsf(x[b + i] - y[b + i]) <= top / 100 * (0.5f + 0.06f));
    }
}

static void test_operation(void) {
    struct graph g;
    static float in[3][8], out[3][8];
    float *reg[2] = {in[0], out[0]};
    struct session s = {.g = &g, .reg = reg, .n_tok = 3};
    graph_init(&g);
    gr_reg a = graph_reg(&g, 8), b = graph_reg(&g, 8);
    struct gr_node *n = graph_node(&g, OP_NEGATE, 0);
    n->src[0] = a;
    n->dst = b;
    for (int i = 0; i < 24; i++) in[i / 8][i % 8] = (float)(i - 11);
    CHECK_EQ_STR(gr_ops[OP_NEGATE].name, "negate");
    exec_table[OP_NEGATE](&s, n);
    for (int i = 0; i < 24; i++) CHECK(out[i / 8][i % 8] == (float)(11 - i));
    graph_release(&g);
}

int main(void) {
    RUN(test_type);
    RUN(test_operation);
    return check_done();
}
END
MAKEFLAGS='' make -s -j"$(nproc)" HAVE_CUDA=0 CI= DEBUG=1 CC="${CC:-cc}" UNITS_OF=test_extend all units-run > "$t/log" 2>&1 ||
    { grep -vE '^  (cc|link)' "$t/log" | tail -n 30; say "the copy was not built, or its check failed"; exit 1; }
hone=$PWD/build/hone
cd "$root"
step() { "$@" > "$t/o" 2> "$t/e" || say "$* failed: $(cat "$t/e")"; }
step "$hone" convert tests/golden/models/qwen3 -o "$t/b.gguf"
step "$hone" quantize "$t/b.gguf" -o "$t/q.gguf" --type TOY
step "$hone" verify --deep "$t/q.gguf"
step "$hone" inspect "$t/q.gguf" --tensors
grep -q TOY "$t/o" || say "hone inspect shows no tensor of the type: $(cat "$t/o")"
step "$hone" eval kld "$t/q.gguf" tests/golden/tiny-qwen35moe/self_eval.txt --base "$t/b.gguf" --ctx 32 --chunks 2 --json
kld=$(sed -n 's/.*"mean_kld": \([0-9.e-]*\).*/\1/p' "$t/o" | head -1)
awk -v k="${kld:-9}" 'BEGIN { exit !(k > 0 && k < 0.05) }' || say "divergence of a model in 8.5 bits: $kld"
[ $fail = 0 ] && echo "extend: both work"
exit $fail
