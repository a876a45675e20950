#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/arm64.sh - the ARM64 build under QEMU compared with this machine's build; run by `make check-arm64` (4 minutes
# on one core). Every encoder writes the same bytes; files opened with f32 activations give the same logits (below);
# packed products equal their definition bit for bit, on processors with and without the instructions for which there
# are kernels.
#
#  HONE   the program of this machine     ARM_HONE  that of ARM64, with tests/kern/check and tests/unit/ in its folder
#  RUN    the emulator: $RUN CPU PROGRAM ARGUMENTS     QUICK=1  only kernels, on one processor
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
dir=$(dirname "$ARM_HONE")
bad=0
begin=$(date +%s)
note() { echo "$(($(date +%s) - begin)) s: $*"; }

# processors with none of the features that select kernels, with FEAT_DotProd, and with FEAT_I8MM as well
cpus='cortex-a53 neoverse-n1 max'
[ -z "${QUICK:-}" ] || cpus=max
for cpu in $cpus; do
    if "$RUN" "$cpu" "$dir/tests/kern/check" >"$t/log" 2>&1; then note "kernels on $cpu: $(tail -n 1 "$t/log")"; else
        cat "$t/log"
        note "kernels on $cpu: FAILED"
        bad=$((bad + 1))
    fi
done
[ -z "${QUICK:-}" ] || exit $bad

# ---- unit programs: what depends on the processor (vectors, floats, char's sign, threads), and parsers of every kind
# (test_kv, test_session: gcc 12 for ARM64 fails to compile them; test_rows takes more than seven minutes) ----
printf '#!/bin/sh\nexec "%s" max "%s" "$@"\n' "$RUN" "$ARM_HONE" >"$t/hone"
chmod +x "$t/hone"
units='test_fp test_qtype test_blocks test_pool test_hash test_gguf test_json test_safetensors test_imat_file test_graph test_sizes
  test_sample test_select test_pretok test_tok test_tok_sp test_utf8 test_jinja test_schema test_weight test_machine'
for u in $units; do
    rc=0
    HONE="$t/hone" "$RUN" max "$dir/tests/unit/$u" >"$t/log" 2>&1 || rc=$?
    [ $rc = 77 ] || [ $rc = 0 ] || {
        sed "s/^/$u: /" "$t/log"
        bad=$((bad + 1))
    }
done
note "$(echo $units | wc -w) unit programs"

# ---- the same bytes of every encoder -------------------------------------------------------------------------------
src=tests/golden/models/qwen3
both() { # output, arguments with OUT in its place
    out=$1
    shift
    for way in here arm; do
        cmd=
        for a in "$@"; do [ "$a" = OUT ] && a=$t/$way.$out; cmd="$cmd '$a'"; done
        [ $way = here ] && prog=$HONE || prog=$t/hone
        eval "\"\$prog\" $cmd -q" >/dev/null 2>"$t/err" || { cat "$t/err"; bad=$((bad + 1)); return; }
    done
    n=$((n + 1))
    cmp "$t/here.$out" "$t/arm.$out" || bad=$((bad + 1))
}
n=0
both f32.gguf convert $src -o OUT --type f32
both bf16.gguf convert $src -o OUT --type bf16
head -c 20000 tests/golden/tiny-qwen35moe/self_calib.txt >"$t/a.txt"
"$HONE" imatrix "$t/here.bf16.gguf" "$t/a.txt" -o "$t/imat.gguf" --ctx 128 -q >/dev/null
for type in $(sed -n 's/^QTYPE([A-Z0-9_]*, *[0-9]*, *"\([a-z0-9A-Z_]*\)".*/\1/p' containers/qtype.def); do
    "$HONE" quantize "$t/here.bf16.gguf" -o "$t/none" --type "$type" --imatrix "$t/imat.gguf" --dry-run -q >/dev/null 2>&1 || continue
    both "$type" quantize "$t/here.bf16.gguf" -o OUT --type "$type" --imatrix "$t/imat.gguf"
    rm -f "$t/here.$type" "$t/arm.$type"
done
[ $n -ge 29 ] || bad=$((bad + 1))
note "$n files written by both: the same bytes, but for what is said above"

# ---- logits ------------------------------------------------------------------------------------------------------------
# f32 activations: the kernels of kernels/f32/ are the same operations in the same order as AVX2's. A file of 16-bit logits
# (bound of tests/cli/eval-act.sh: a divergence of 1e-5) is compared, and divergence with 8-bit activations is this
# machine's by AVX2, to the same bound: AVX-512 adds floats in another order, which moves that divergence by more.
tiny=tests/golden/tiny-qwen35moe
num() { sed -n "s/^ *\"$2\": \([-0-9.e+]*\),*$/\1/p" "$1" | head -1; }
"$HONE" convert $tiny -o "$t/tiny.gguf" -q >/dev/null
"$HONE" imatrix "$t/tiny.gguf" "$t/a.txt" -o "$t/tiny-imat.gguf" --ctx 128 -q >/dev/null
for type in Q4_K_M IQ3_XS; do
    "$HONE" quantize "$t/tiny.gguf" -o "$t/q.gguf" -f --recipe $type --imatrix "$t/tiny-imat.gguf" -q >/dev/null
    "$HONE" eval kld "$t/q.gguf" calib/text/eval.txt --save-base "$t/base" -f --act f32 --ctx 128 --chunks 2 -q >/dev/null
    for act in f32 q8; do
        "$HONE" eval kld "$t/q.gguf" --base-file "$t/base" --act $act --isa avx2 --json >"$t/here.json"
        "$t/hone" eval kld "$t/q.gguf" --base-file "$t/base" --act $act --json >"$t/arm.json"
        here=$(num "$t/here.json" mean_kld) arm=$(num "$t/arm.json" mean_kld)
        echo "$type, $act activations: divergence from f32 activations $here here, $arm on ARM64"
        awk "BEGIN { d = $here - $arm; exit !(d < 1e-5 && -d < 1e-5) }" || bad=$((bad + 1))
    done
done
note "logits; $bad wrong"
[ $bad = 0 ]
