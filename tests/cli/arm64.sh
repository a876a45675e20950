#!/bin/sh
# SPDX-License-Identifier: MIT
# ARM64 under QEMU: the part of `make check-arm64` that needs no ARM64 libraries and only a few seconds. Runs the kernel
# checks (tests/kern/check.c) of every NEON f32 operator, and of packed rows for one type per kind of product, with
# NEON, SDOT and SMMLA.
set -eu
[ -z "${SANF:-}" ] || { echo 'SKIP: once, without a sanitizer'; exit 77; }
cc=aarch64-linux-gnu-gcc
command -v $cc > /dev/null && command -v qemu-aarch64 > /dev/null || { echo "SKIP: no $cc or qemu-aarch64 (Debian: gcc-aarch64-linux-gnu, qemu-user)"; exit 77; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
packed='Q8_0 Q4_K'
plain='F32 F16 BF16'
mkdir "$t/kernels"
# the kernel table with only these; all others are scalar
sed -n '/^KERN_\(OPS\|PACKED\)(\(neon\|dotprod\|i8mm\), /!p' kernels/ops.def > "$t/head"
for type in $plain; do echo "KERN_OPS(neon, $type)"; done > "$t/rows"
for type in $packed; do grep "^KERN_PACKED(\(neon\|dotprod\|i8mm\), $type," kernels/ops.def; done >> "$t/rows"
sed "/^#if defined(__aarch64__)/r $t/rows" "$t/head" > "$t/kernels/ops.def"
lower() { echo "$*" | tr 'A-Z' 'a-z'; }
compile() { # file, object, more options
    file=$1 object=$2
    shift 2
    $cc -std=c11 -D_GNU_SOURCE -DHONE_VERSION='"0"' -O1 -ffp-contract=off "$@" -I"$t" -I. -c "$file" -o "$t/$object.o" ||
        exit 1
}
march=-march=armv8.2-a
{
    for f in buf ctx err fp io limits log machine map mem numa os out pool progress; do compile base/$f.c base_$f $march; done
    compile containers/qtype.c containers_qtype $march
    for f in $(ls kernels/*.c kernels/ref/*.c tests/kern/check.c | grep -v '^kernels/\(packed\|blas\)'); do
        compile $f "$(echo $f | tr / _)" $march
    done
    for f in act f32_weights gemm seq $(lower $plain); do compile kernels/neon/$f.c neon_$f $march; done
    sed -n 's/^KERN_PACKED(\(.*\))/\1/p' "$t/rows" | tr -d , | while read -r isa type steps products; do
        case $isa in neon) m=$march ;; dotprod) m=$march+dotprod ;; *) m=$march+dotprod+i8mm ;; esac
        compile kernels/packed.c "packed_${isa}_$type" $m -DPACKED_ISA=$isa -DPACKED_TYPE=$type -DPACKED_STEPS=$steps \
            -DPACKED_PRODUCTS=$products -DPACKED_BY_$products -DPACKED_FILE=$(lower $type) -DPACKED_FEW=dotprod
    done
} > "$t/log" 2>&1 || { cat "$t/log"; exit 1; }
$cc -static -o "$t/check" "$t"/*.o -lm -lpthread
# a processor with all of them: the checks run every instruction set that it has
qemu-aarch64 -cpu max "$t/check" > "$t/log" 2>&1 || { cat "$t/log"; exit 1; }
