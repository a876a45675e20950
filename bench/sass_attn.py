#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Warp instructions per key in attention for few tokens, counted in nvcc's code for kernels/cuda/attn.cu, without a GPU.

    nvcc -std=c++17 -O3 -I. -fmad=false -arch=sm_90a -cubin -o x.cubin kernels/cuda/attn.cu
    cuobjdump -sass x.cubin | python3 bench/sass_attn.py

Tensor cores (attend_few, bytes of keys and values as in the template's name): the shortest path through the loop over tiles of
16 keys that copies a whole tile and passes all products, and the same with a new maximum in every tile (the longest path after
the first whole tile). CUDA cores (attend_part, heads of 256 values), for 8 heads: the loops of scores and of values, one key
per iteration, and the loop of the softmax, 32 keys of a head per iteration. Budget: an H200 at 4.3 TB/s, 132 multiprocessors,
1.755 GHz, four instructions issued per clock."""
import re
import sys

FORMS = ["f32", "f16", "q8_0", "q4_0", "any"]
PER_BYTE = 4 / (4.3e12 / 132 / 1.755e9)  # warp instructions issued per byte read


def functions(lines):
    code, name = {}, None
    for line in lines:
        start = re.match(r"\s*Function : (\S+)", line)
        if start:
            name = start.group(1)
            code[name] = []
        op = re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", line)
        if op and name:
            code[name].append((int(op.group(1), 16), op.group(2)))
    return code


def edges(code):
    """Successors of each instruction, through BRA only, since calls and exits leave the kernel's code."""
    at = {a: i for i, (a, _) in enumerate(code)}
    out = []
    for i, (_, op) in enumerate(code):
        jump = re.search(r"\bBRA\S* .*?0x([0-9a-f]+)", op)
        to = [at[int(jump.group(1), 16)]] if jump and int(jump.group(1), 16) in at else []
        if not jump or op.startswith("@") or re.search(r"BRA\S* !?U?P\d", op):
            to.append(i + 1)
        out.append([t for t in to if t < len(code)])
    return out


def loops(code):
    """(first, last) of every backward jump, except the trap at the end."""
    return [(t, i) for i, to in enumerate(edges(code)) for t in to if t < i]


def way(code, first, last, worst, turns):
    """Instructions on the shortest or longest path from first to last without going back, through everything that must be passed.
    Copies of wide heads are loops that run several times."""
    next_of = edges(code)
    inner = [(a, b) for a, b in loops(code) if first <= a and b < last]
    copies = [x for x in inner if sum("LDGSTS" in op for _, op in code[x[0]:x[1]]) >= 8]
    inner = [x for x in inner if x not in copies]
    # the path excludes code that runs only for the first tile (queries from global memory, a block barrier) or only for
    # ragged tiles (rolled copies, and code that only they reach)
    never = {i for i in range(first, last + 1) if re.search(r"BAR\.SYNC|LDG\.", code[i][1])} | {i for a, b in inner for i in range(a, b + 1)}
    reached = {first}
    for i in range(first, last + 1):
        if i in reached and i not in never:
            reached.update(t for t in next_of[i] if t > i)
    must = [i for i in sorted(reached - never) if i <= last and re.search("HMMA|LDGSTS", code[i][1])]
    best = {first: 1}
    for i in range(first, last + 1):
        if i not in best or i in never:
            best.pop(i, None)
            continue
        for t in next_of[i]:
            if i < t <= last and not any(i < m < t for m in must):
                n = best[i] + (turns if any(a <= i <= b for a, b in copies) else 1)
                best[t] = n if t not in best else (max if worst else min)(n, best[t])
    return best.get(last, float("nan"))


def main():
    print(f"{'':34s}{'bytes':>6s}{'instructions':>14s}{'rising':>8s}{'budget':>8s}   per key")
    for name, code in functions(sys.stdin).items():
        few = re.search(r"attend_fewILi(\d)ELi(\d)ELi(\d+)E", name)
        part = re.search(r"attend_partILi(\d)ELi1ELi8E", name)
        size = lambda form, dim: {1: 2 * dim, 2: dim + dim // 16, 3: dim // 2 + dim // 16}.get(form, 4 * dim)
        if few:
            k, v, dim = (int(g) for g in few.groups())
            around = [(a, b) for a, b in loops(code) if any("HMMA" in op for _, op in code[a:b])]
            first, last = min(around, key=lambda x: x[1] - x[0])
            n = [way(code, first, last, worst, max(1, (2 * dim if k == 1 else dim) // 256)) for worst in (False, True)]
            n_bytes = size(k, dim) + size(v, dim)
            what = f"tensor cores, {FORMS[k]}/{FORMS[v]}, {dim}"
            print(f"{what:34s}{n_bytes:6d}{n[0] / 16:14.1f}{n[1] / 16:8.1f}{n_bytes * PER_BYTE:8.1f}")
        elif part and part.group(1) != "4":
            form = int(part.group(1))
            inner = [(a, b) for a, b in loops(code) if b - a > 20 and not any(a <= c and d < b for c, d in loops(code) if d - c > 20)]
            keys = [b - a + 1 for a, b in inner if sum("FFMA" in op for _, op in code[a:b]) >= 64]
            soft = [b - a + 1 for a, b in inner if b - a < 100 and any("MUFU" in op or "FMNMX" in op for _, op in code[a:b])]
            print(f"{'CUDA cores, ' + FORMS[form] + ', 256':34s}{2 * size(form, 256):6d}{sum(keys) + sum(soft) * 8 / 32:14.1f}{'':8s}"
                  f"{2 * size(form, 256) * PER_BYTE:8.1f}   {keys} {soft}")


main()
