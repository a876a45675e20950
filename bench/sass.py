#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks nvcc's code for kernels/cuda/gemm_sm90.cu without a GPU: instructions between products of each width, and whether a
register of a running product is written before the wait that covers it (exit 1). The code is read linearly, without following
jumps, since loops jump back to code that looks the same.

    nvcc -std=c++17 -O3 -I. -fmad=false -arch=sm_90a -Xptxas -v -cubin -o x.cubin kernels/cuda/gemm_sm90.cu
    nvdisasm -c x.cubin | python3 bench/sass.py

ptxas must not print "serialized"; its -v prints registers and spills."""
import collections
import re
import sys

# opcodes whose first operand is not a register they write
NO_RESULT = {"BAR", "BRA", "BREAK", "BSSY", "BSYNC", "DEPBAR", "EXIT", "FENCE", "HGMMA", "LDGDEPBAR", "LDGSTS", "MEMBAR", "NOP", "RED", "ST",
             "STG", "STS", "WARPGROUP", "WARPSYNC"}


def functions(lines):
    code, name = collections.OrderedDict(), None
    for line in lines:
        start = re.match(r"\.text\.(\S+):", line)
        if start:
            name = start.group(1)
            code[name] = []
        op = re.search(r"/\*[0-9a-f]+\*/\s+(.*?)\s*;", line)
        if op and name:
            code[name].append(re.sub(r"^@!?U?P\w+ +", "", op.group(1)))
    return code


def written(op):
    """Registers that an instruction writes."""
    word = op.split()[0]
    to = re.match(r"\S+ +(?:U?P\w+, *)*R(\d+)", op)
    if word.split(".")[0] in NO_RESULT or not to:
        return set()
    n = 4 if ".128" in word else 2 if ".WIDE" in word or (".64" in word and word.startswith("LD")) else 1
    return set(range(int(to.group(1)), int(to.group(1)) + n))


def early(code, i, width, sums, operand):
    """Instructions that write to the operand or the sums of product i before the second wait after it (at most one product is
    left running)."""
    busy = set(range(operand, operand + 4)) | set(range(sums, sums + width // 2))
    bad, waits = [], 0
    for op in code[i + 1:]:
        wait = re.match(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x(\d)", op)
        if wait:
            waits += 2 if wait.group(1) == "0" else 1
            if waits >= 2:
                break
        if written(op) & busy:
            bad.append(op)
    return bad


def main():
    n_products = n_bad = 0
    for name, code in functions(sys.stdin).items():
        kernel = re.search(r"wgmma_kernelI\d*blk_(\w+?)E", name)
        if not kernel:
            continue
        at = collections.OrderedDict()
        for i, op in enumerate(code):
            p = re.match(r"HGMMA\.64x(\d+)x16\S* R(\d+), R(\d+),", op)
            if not p:
                continue
            n_products += 1
            width, sums, operand = (int(g) for g in p.groups())
            at.setdefault(width, []).append(i)
            for op2 in early(code, i, width, sums, operand):
                print(f"{kernel.group(1)}: {op} is under way at {op2}")
                n_bad += 1
        steps = ", ".join(f"{w}: {(i[-1] - i[0]) / (len(i) - 1):.1f}" for w, i in sorted(at.items()))
        print(f"{kernel.group(1)}: {len(code)} instructions; from a product to the next by width {steps}")
    print(f"{n_products} products, {n_bad} registers written too early")
    return 1 if n_bad or not n_products else 0


sys.exit(main())
