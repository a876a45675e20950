#!/bin/sh
# SPDX-License-Identifier: MIT
# The GPU architectures that a build generates code for (kernels/cuda/archs.sh), with stubs of nvidia-smi and nvcc that
# behave like the real ones on misconfigured machines: a driver that does not respond, old and new cards together, a
# toolkit older than the card, a missing toolkit, a toolkit that is too old.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
smi() { # exit status, then what it prints
    rc=$1
    shift
    printf '#!/bin/sh\ncat <<"X"\n%s\nX\nexit %d\n' "$*" "$rc" > "$t/nvidia-smi"
    chmod +x "$t/nvidia-smi"
}
toolkit() { # version, codes that it makes
    v=$1
    shift
    printf '#!/bin/sh\n[ "$1" = --version ] && { echo "Cuda compilation tools, release %s, V%s.1"; exit; }\nprintf "sm_%%s\\n" %s\n' "$v" "$v" "$*" > "$t/nvcc"
    chmod +x "$t/nvcc"
}
n=0
want() { # what is expected on stdout, a pattern of stderr (empty: nothing), WANTED...
    out=$1 pattern=$2
    shift 2
    got=$(PATH="$t:$PATH" sh kernels/cuda/archs.sh "$t/nvcc" "$@" 2> "$t/err") || got="exit $?"
    [ "$got" = "$out" ] || { echo "$*: '$got' in place of '$out'"; cat "$t/err"; exit 1; }
    if [ -n "$pattern" ]; then grep -q "$pattern" "$t/err" || { echo "$*: no '$pattern' in"; cat "$t/err"; exit 1; }
    elif [ -s "$t/err" ]; then cat "$t/err"; exit 1; fi
    n=$((n + 1))
}
old="50 52 60 61 70 75 80 86 87 89 90" new="75 80 86 87 88 89 90 100 103 110 120 121" # as listed by nvcc 12.4 and 13.0

toolkit 13.0 "$new"
smi 0 8.6
want 86 ''
smi 0 "8.9
8.9"
want 89 '' here
smi 0 9.0
want 90a ''
smi 0 12.1
want 121 ''
# a driver that does not match or respond: text in place of numbers, on stdout
smi 18 "Failed to initialize NVML: Driver/library version mismatch
NVML library version: 570.86"
want 80 'no GPU answers'
smi 9 "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running."
want 80 'no GPU answers'
smi 0 "[N/A]"
want 80 'no GPU answers'
rm "$t/nvidia-smi"
PATH=/usr/bin:/bin command -v nvidia-smi > /dev/null || want 80 'no GPU answers'
# an old card along with a new one, and alone
smi 0 "8.6
7.5"
want 86 '7.5 is left out'
smi 0 6.1
want '' '6.1 is left out'
# a card unknown to the toolkit
toolkit 12.4 "$old"
smi 0 "12.0
8.9"
want 89 'no code for compute capability 12.0'
smi 0 12.0
want '' 'first use'
toolkit 12.8 "80 86 89 90 100 120"
smi 0 12.1
want 120 ''
# a release: the architectures that the toolkit knows
want "80 86 89 90a 100 120" '' all
toolkit 12.4 "$old"
want "80 86 89 90a" '' all
want "86 90a" '' 86 90
want 'exit 1' "'ampere' is not" ampere

# as make sees it: flags of nvcc, and no build without the CPU
flags() { # variables...
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u CUDA_ARCHS -u HAVE_CUDA PATH="$t:$PATH" make -pn help NVCC="$t/nvcc" "$@" 2> "$t/err" | sed -n 's/^NVCC_FLAGS := //p'
}
smi 18 "Failed to initialize NVML: Driver/library version mismatch"
flags HAVE_CUDA=1 CI=false > "$t/flags"
grep -q 'compute_80,code=sm_80 -gencode arch=compute_80,code=compute_80' "$t/flags" || { cat "$t/flags" "$t/err"; exit 1; }
! grep -qE 'Driver|NVML|Werror' "$t/flags" || { cat "$t/flags"; exit 1; } # not -Werror: warnings must not stop a build
flags HAVE_CUDA=1 CI=true | grep -q 'Werror all-warnings'
toolkit 11.5 "50 52 60 61 70 75 80 86"
[ -z "$(flags HAVE_CUDA=1)" ] && grep -q 'CUDA 11; 12 is needed. HAVE_CUDA=0' "$t/err" || { cat "$t/err"; exit 1; }
[ -z "$(flags CUDA_ARCHS=86)" ] && grep -q 'building for the CPU alone' "$t/err" || { cat "$t/err"; exit 1; }
echo "$n machines"
