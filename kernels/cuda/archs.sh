#!/bin/sh
# SPDX-License-Identifier: MIT
# kernels/cuda/archs.sh - chooses the GPU architectures that nvcc compiles for.
# sh kernels/cuda/archs.sh NVCC [WANTED...] prints the suffixes of compute_ and sm_ on one line, which
# may be empty: PTX of 80 is always built in addition, and the driver can compile it for all newer cards.
#
#   here       (the default) the GPUs of this machine according to nvidia-smi; 80 if it lists none
#   all        a release: those of 80 86 89 90a 100 120 that the toolkit knows
#   86 90 ...  these compute capabilities; 90 is 90a, which has wgmma
#
# Skips whatever nvcc would reject, with a line on stderr: GPUs older than 8.0, GPUs newer than the toolkit, and text
# that nvidia-smi prints instead of numbers if its driver does not respond.
set -eu
nvcc=$1
shift
[ $# -gt 0 ] || set -- here
say() { echo "CUDA: $*" >&2; }
known=$("$nvcc" --list-gpu-code 2> /dev/null | sed -n 's/^sm_//p' | tr '\n' ' ')
knows() { case " $known " in *" $1 "*) return 0 ;; esac; return 1; }

found=
add() { case " $found " in *" $1 "*) ;; *) found="$found${found:+ }$1" ;; esac; }
# Adds code for a card of capability $1: its own, or an older card's of its generation if that runs on it (12.1 runs 12.0's).
card() {
    if [ "$1" = 90 ] && knows 90; then add 90a # nvcc does not list 90a, but supports it wherever it supports 90
    elif knows "$1"; then add "$1"
    elif [ "$1" -gt 100 ] && knows "${1%?}0"; then add "${1%?}0"
    else say "this toolkit makes no code for compute capability ${1%?}.${1#"${1%?}"}: the driver compiles PTX at the first use, which takes minutes"
    fi
}

if [ "$*" = all ]; then
    for a in 80 86 89 90 100 120; do if knows $a; then card $a; fi; done
elif [ "$*" = here ]; then
    caps=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2> /dev/null | tr -d ' \r' | grep -xE '[0-9]+\.[0-9]+' | tr -d . | sort -un || true)
    for c in $caps; do
        if [ "$c" -lt 80 ]; then say "a GPU of compute capability ${c%?}.${c#"${c%?}"} is left out: 8.0 is needed"; else card "$c"; fi
    done
    if [ -z "$caps" ]; then
        say "no GPU answers here: code for 8.0, and PTX that newer cards compile at their first use (minutes); CUDA_ARCHS=all makes code for all"
        add 80
    fi
else
    for a in "$@"; do
        case $a in
        [0-9]*a) add "$a" ;;
        [0-9]*) [ "$a" = 90 ] && a=90a; add "$a" ;;
        *) say "CUDA_ARCHS: '$a' is not here, all, or a compute capability like 86"; exit 1 ;;
        esac
    done
fi
echo "$found"
