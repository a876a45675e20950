#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/lint/math.sh - functions of the C library whose last bits differ between systems are not called where results
# reach a file: base/fp.h has its own. Exempt: tests, timings, reports, answers of the server. Arguments: C files.
rooms='base|convert|grad|kernels|mix|models|quantize|runtime'
files=$(printf '%s\n' "$@" | grep -E "^($rooms)/" | grep -vE '^(kernels|quantize/enc|runtime/engine)/cuda/|/sample\.c$')
calls='exp|expf|exp2|exp2f|expm1|log|logf|log2|log2f|log10|log1p|log1pf|pow|powf|sin|sinf|cos|cosf|tan|tanh|tanhf|erf'
call="(^|[^a-zA-Z0-9_.>])($calls|erff|cbrt|hypot|lgamma|tgamma|atan|atan2)\("
grep -nE "$call" $files /dev/null | sed 's|/\*.*\*/||' | grep -vE ':[[:space:]]*(/?\*|//)' | grep -E "$call"
exit 0
