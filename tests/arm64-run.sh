#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: arm64-run.sh CPU PROGRAM [ARGUMENTS] : runs an ARM64 program in QEMU, which emulates the processor CPU
# (qemu-aarch64 -cpu help). ARM64_LIBC: the C library of the cross compiler; ARM64_ROOT: the other libraries
# (packaging/arm64-root.sh).
cpu=$1
shift
exec qemu-aarch64 -cpu "$cpu" -L "$ARM64_LIBC" -E LD_LIBRARY_PATH="$ARM64_ROOT/usr/lib/aarch64-linux-gnu:$ARM64_ROOT/lib/aarch64-linux-gnu" "$@"
