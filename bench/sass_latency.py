#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Time that a warp waits for its own results: dependency chains of kernels, found in nvcc's code without a GPU. Unlike
instruction counts (bench/sass.py), these show, for example, eight loads each of which waits for the previous one.

    nvcc -std=c++17 -O3 -I. -fmad=false -arch=sm_90a -cubin -o DIR/elem.90a.cubin kernels/cuda/elem.cu
    (the same for route, delta, best, gemm, matmul)
    NVDISASM=nvdisasm python3 bench/sass_latency.py 90a DIR/before DIR/after

The model: a warp issues in program order, each instruction once its registers and predicates are ready, at most one per
clock; it has the multiprocessor to itself. Code is walked once from the first instruction to the last exit, past branches; a
loop costs its body's steady state times the number of iterations in the table below. Latencies in clocks are assumptions, not
measurements: the numbers show which chain is long and how a code change affects it, in units of the assumption.
"""
import os
import re
import subprocess
import sys

CLOCK = {"90a": 1.755e9, "89": 2.5e9}  # H200, RTX 4090
NAME = {"90a": "H200", "89": "RTX 4090"}
# pattern of the opcode (the first match counts), clocks until its result can be used
LATENCY = [
    (r"LDG|LD\.|LD$", 300), (r"ATOM|RED", 350), (r"MEMBAR\.SC", 500), (r"MEMBAR", 350), (r"CCTL", 50), (r"LDGDEPBAR|DEPBAR", 1), (r"LDGSTS", 1),
    (r"LDS|LDSM", 30), (r"LDC|ULDC|LDL", 35), (r"SHFL|REDUX|CREDUX|VOTE|MOVM", 25), (r"MUFU", 25), (r"BAR|WARPSYNC|BSYNC|BSSY", 20), (r"HMMA", 33),
    (r"I2F|F2I|F2F|FRND|POPC|FLO|BREV", 15), (r"DADD|DMUL|DFMA|DSETP", 16), (r"CALL", 40), (r"IMAD|IDP", 5), (r"ST|STG|STS|STL", 1), (r"", 4)]
# kernel, file, pattern of its name, iterations of its innermost loops (with "outer": of a loop that contains one),
# given as a pattern of the loop's text, the counted instruction and its total number
KERNELS = [
    ("a super of Q4_K by the GEMV, one turn", "gemv", r"gemv_kernelI8blk_Q4_K(Li1)?E", "turn"),
    ("a super of Q6_K", "gemv", r"gemv_kernelI8blk_Q6_K(Li1)?E", "turn"),
    ("a super of Q8_0", "gemv", r"gemv_kernelI8blk_Q8_0(Li1)?E", "turn"),
    ("norm of 2048 values by a block", "elem", r"9norm_rows7cu_norm", []),
    ("choice of 8 of 256 experts", "route", r"choose_expertsILi8E", [(r"(SHFL|REDUX)", r"SHFL|REDUX", {"before": 80, "after": 32})]),
    ("delta rule of a token, 128 values", "delta", r"delta_tokenILi4E", []),
    ("convolution of 2048 tokens, a channel", "delta", r"conv_siluILi4E", [(r"STG", r"STG", {"before": 2048, "after": 64})]),
    ("a chunk of the delta rule", "delta", r"12delta_chunks", [(r"^(?=.*LDG)(?=.*SHFL)", r"SHFL", 80)]),
    ("largest logits of the slices, bound", "best", r"10slice_tops", [(r"^(?!.*LDG)(?=.*LDS)", r"LDS", 256), (r"LDG", r"LDG", 16)]),
    ("best tokens: collected, 160 sorted", "best", r"7collect",
     [(r"^(?!.*(LDG|ATOM))(?=.*LDS)", r"LDS", {"before": 256, "after": 200}), (r"LDG(.*LDG){20}", r"LDG", 960)]),
    ("2048 x 8 pairs sorted by expert", "gemm", r"sort_rows", [(r"outer^(?!.*SHFL)(?=.*LDS)(?=.*STG)(?!.*ATOM)", r"LDS", 256), (r"ATOM", r"ATOM", 16)]),
]


def latency(op):
    return next(n for pattern, n in LATENCY if re.match(pattern, op))


def functions(cubin):
    text = subprocess.run([os.environ.get("NVDISASM", "nvdisasm"), "-c", cubin], capture_output=True, text=True, check=True).stdout
    code, name = {}, None
    for line in text.splitlines():
        start = re.match(r"\.text\.(\S+):", line)
        label = re.match(r"(\.L_x_\d+):", line)
        op = re.search(r"/\*[0-9a-f]+\*/\s+(.*?)\s*;", line)
        if start:
            name = start.group(1)
            code[name] = []
        elif label and name:
            code[name].append(("label", label.group(1)))
        elif op and name:
            code[name].append(("op", op.group(1)))
    return code


def registers(text):
    return re.findall(r"\b(U?R\d+|U?P\d)\b", text)


def split(op):
    """Parses an instruction into opcode, registers written and registers read."""
    guard = re.match(r"@!?(U?P\w+) +", op)
    rest = op[guard.end():] if guard else op
    word, _, args = rest.partition(" ")
    reads = registers(args) + ([guard.group(1)] if guard else [])
    wide = 4 if ".128" in word else 2 if ".64" in word or ".WIDE" in word else 1
    if re.match(r"ST|RED|BAR|BRA|EXIT|MEMBAR|LDGSTS|DEPBAR|BSSY|BSYNC|WARPSYNC|CALL|RET|NOP|CCTL", word):
        return word, [], reads
    writes = []
    for arg in args.split(","):
        arg = arg.strip()
        m = re.fullmatch(r"(U?R|U?P)(\d+|Z|T)", arg)
        if not m:
            break
        if m.group(2) in "ZT":
            continue
        n = wide if m.group(1) in ("R", "UR") else 1
        writes += [f"{m.group(1)}{int(m.group(2)) + i}" for i in range(n)]
        if m.group(1) in ("R", "UR"):
            break
    return word, writes, reads


class Warp:
    """The clock, and the time at which each register is ready."""

    def __init__(self):
        self.now, self.ready = 0, {}
        self.stored, self.groups = 0, []  # copies to shared memory: when the latest and each closed group complete

    def issue(self, op):
        word, writes, reads = split(op)
        at = max([self.now + 1] + [self.ready.get(r, 0) for r in reads])
        if re.match(r"BAR|MEMBAR|EXIT", word):  # waits for everything in flight
            at = max([at] + list(self.ready.values()))
        left = re.match(r"DEPBAR\.LE SB\d, 0x(\w+)", op)
        if left and self.groups:
            done = len(self.groups) - int(left.group(1), 16)
            at = max([at] + self.groups[:max(done, 0)])
        if word == "LDGDEPBAR":
            self.groups.append(self.stored)
        if re.match(r"LDGSTS", word):
            self.stored = at + 300
        self.now = at
        for r in writes:
            self.ready[r] = at + latency(word)
        if re.match(r"BAR|MEMBAR", word):
            self.now = at + latency(word)


def loops(code):
    at = {name: i for i, (kind, name) in enumerate(code) if kind == "label"}
    found = []
    for i, (kind, op) in enumerate(code):
        jump = re.search(r"\bBRA\S* .*?(\.L_x_\d+)", op) if kind == "op" else None
        if jump and at.get(jump.group(1), i) < i:
            found.append((at[jump.group(1)], i))
    return [x for x in found if x[1] - x[0] > 4]  # without the trap at the end


def main_path(code):
    """The code without subroutines after the last exit and without calls to them: square roots and divisions of edge-case
    numbers."""
    last = max(i for i, (kind, op) in enumerate(code) if kind == "op" and "EXIT" in op)
    out, block = [], []
    for i, (kind, op) in enumerate(code[:last + 1]):
        if kind == "label":
            out += block if len(block) > 12 or not any(k == "op" and "CALL" in o for k, o in block) else [x for x in block if x[0] == "label" or "BRA" in x[1]]
            block = []
        block.append((kind, op))
        if kind == "op" and "BRA" in op:
            out += block if len(block) > 12 or not any(k == "op" and "CALL" in o for k, o in block) else [x for x in block if x[0] == "label" or "BRA" in x[1]]
            block = []
    return out + block


def clocks(code, turns, when):
    warp, around = Warp(), {}
    code = main_path(code)
    found = loops(code)
    for first, last in found:
        ops = [op for kind, op in code[first:last + 1] if kind == "op"]
        inner = not any(first <= f and l < last for f, l in found)
        for pattern, counted, n in turns:
            if pattern.startswith("outer") == inner:
                continue
            pattern = pattern.replace("outer", "")
            n = n.get(when, 1) if isinstance(n, dict) else n
            each = sum(re.search(r"^(@\S+ +)?" + counted, op) is not None for op in ops)
            if re.search(pattern, " ".join(ops)) and each:
                around[last] = (first, -(-n // each))
                break
    for i, (kind, op) in enumerate(code):
        if kind != "op" or "CALL" in op:
            continue
        warp.issue(op)
        if i in around:
            first, n = around[i]
            for _ in range(n - 1):
                for k, o in code[first:i + 1]:
                    if k == "op" and "CALL" not in o:
                        warp.issue(o)
    return warp.now


def of_turn(code):
    """Clocks of one more iteration of the loop that copies and multiplies; None if its jumps are not understood."""
    loop = (r"^(?=.*IDP)(?=.*LDGSTS)", r"LDGDEPBAR")
    return clocks(code, [(*loop, 3)], "") - clocks(code, [(*loop, 2)], "") or None


def main():
    arch, folders = sys.argv[1], sys.argv[2:]
    print(f"{NAME[arch]}, microseconds of dependent latency{'':8s}" + "".join(f"{os.path.basename(f.rstrip('/')):>12s}" for f in folders))
    for what, file, pattern, turns in KERNELS:
        row = []
        for folder in folders:
            when = os.path.basename(folder.rstrip("/"))
            path = os.path.join(folder, f"{file}.{arch}.cubin")
            code = functions(path) if os.path.exists(path) else {}
            name = next((n for n in code if re.search(pattern, n)), None)
            n = None if not name else of_turn(code[name]) if turns == "turn" else clocks(code[name], turns, when)
            row.append(f"{n / CLOCK[arch] * 1e6:12.2f}" if n else f"{'-':>12s}")
        print(f"{what:47s}" + "".join(row))


main()
