#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Searches the codes of a Q2_K file again with K candidates a row: bench/kbest.py HONE BASE.gguf START.gguf GRAM OUT.json
TEXT...

START.gguf was made from BASE.gguf with `hone quantize --gram GRAM`. Of each Q2_K matrix in a block, scales stay as
they are. Codes are chosen column by column with error feedback: K beginnings are kept for a row (the M-algorithm), three
levels are tried for each, and the cost is the row's error under the second moments. Then codes move one at a time while
the error falls. A row keeps its codes in START if they have the lower error. K=1 is feedback without candidates. For each
K, the file is measured with `hone eval kld` on TEXT (CHUNKS=48 windows), paired with START. Needs numpy and gguf; a
prototype, not fast. KS="1 4 8" selects candidates, DAMP=.01 adds a part of the mean to the diagonal. Written to
OUT.json."""
import json
import os
import subprocess
import sys
import time

sys.path.pop(0)  # this folder's modules would shadow others'

import gguf
import numpy as np
from gguf.quants import dequantize

DAMP = float(os.environ.get("DAMP", ".01"))
SWEEPS = 3


def blocks_of(raw):
    """Returns the parts of Q2_K blocks: step and base of each weight, and codes; layout: docs/formats."""
    b = raw.reshape(-1, 84)
    n = len(b)
    half = lambda a: np.ascontiguousarray(a).view(np.float16).astype(np.float32).reshape(n, 1)
    shift = np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1)
    codes = (b[:, 16:80].reshape(n, 2, 1, 32) >> shift & 3).reshape(n, 256)
    step = np.repeat(half(b[:, 80:82]) * (b[:, :16] & 15), 16, 1)
    base = np.repeat(-half(b[:, 82:84]) * (b[:, :16] >> 4), 16, 1)
    return step, base, codes


def with_codes(raw, codes):
    """Returns the blocks with other codes."""
    b = raw.reshape(-1, 84).copy()
    q = codes.astype(np.uint8).reshape(len(b), 2, 4, 32)
    b[:, 16:80] = (q[:, :, 0] | q[:, :, 1] << 2 | q[:, :, 2] << 4 | q[:, :, 3] << 6).reshape(-1, 64)
    return b.reshape(raw.shape)


def upper(h):
    """Returns U, D with h = U diag(D) U^T, U unit upper triangular."""
    c = np.linalg.cholesky(h[::-1, ::-1])[::-1, ::-1]
    d = np.diag(c)
    return c / d, d * d


def candidates(w, step, base, h, k):
    """Returns codes [rows][n] by feedback with k beginnings kept in place."""
    rows, n = w.shape
    u, d = upper(h)
    cost = np.zeros((rows, 1))
    pull = np.zeros((rows, 1, n), np.float32)  # what earlier errors ask of later columns
    path = np.zeros((rows, 1, n), np.int8)
    at = np.arange(rows)[:, None]
    for j in range(n):
        s = step[:, j, None]
        want = w[:, j, None] + pull[:, :, j]
        ideal = np.where(s != 0, (want - base[:, j, None]) / np.where(s != 0, s, 1), 0)
        first = np.clip(np.rint(ideal), 0, 3)
        tries = [first] if k == 1 else [first, np.clip(first + 1, 0, 3), np.clip(first - 1, 0, 3)]
        q = np.stack(tries, 2)  # [rows][kept][tries]
        left = want[:, :, None] - (base[:, j, None, None] + s[:, :, None] * q)
        new = cost[:, :, None] + d[j] * left.astype(np.float64) ** 2
        for t in range(1, len(tries)):  # a level tried twice counts once
            for v in range(t):
                new[:, :, t][q[:, :, t] == q[:, :, v]] = np.inf
        flat = new.reshape(rows, -1)
        keep = np.argsort(flat, 1, kind="stable")[:, :k]
        of, level = keep // len(tries), np.take_along_axis(q.reshape(rows, -1), keep, 1)
        cost = np.take_along_axis(flat, keep, 1)
        path, pull = path[at, of], pull[at, of]
        path[:, :, j] = level
        err = w[:, j, None] - (base[:, j, None] + s * level)  # the weight's own error
        if j + 1 < n:
            pull[:, :, j + 1:] += err[:, :, None] * u[j, j + 1:].astype(np.float32)
        cost[np.isinf(cost)] = 1e300
    return path[np.arange(rows), cost.argmin(1)]


def descend(w, step, base, h, codes):
    """Moves codes one at a time while the error falls."""
    codes = codes.astype(np.float32)
    e = w - (base + step * codes)
    he = e @ h
    for _ in range(SWEEPS):
        for j in range(w.shape[1]):
            s = step[:, j]
            move = np.where(s != 0, he[:, j] / np.where(s != 0, s * h[j, j], 1), 0)
            to = np.clip(np.rint(codes[:, j] + move), 0, 3)
            by = (to - codes[:, j]) * s
            codes[:, j] = to
            he -= by[:, None] * h[j]
    return codes.astype(np.int8)


def error(w, step, base, h, codes):
    e = (w - (base + step * codes)).astype(np.float64)
    return np.einsum("ij,ij->i", e @ h, e)


def search(w, raw, moments, k, tally):
    """Returns the blocks of one matrix with the codes of a new search."""
    rows, n = w.shape
    step, base, was = (x.reshape(rows, n) for x in blocks_of(raw))
    size = moments.shape[1]
    out = was.copy()
    for c in range(0, n, size):
        m = min(size, n - c)
        h = moments[c:c + m, :m].astype(np.float64)
        h = np.tril(h) + np.tril(h, -1).T
        mean = np.trace(h) / m
        if not mean > 0:
            continue
        h = h + DAMP * mean * np.eye(m)
        part = slice(c, c + m)
        args = w[:, part], step[:, part], base[:, part], h
        new = descend(*args, candidates(*args, k))
        before, after = error(*args, was[:, part]), error(*args, new)
        better = after < before
        out[better, part] = new[better]
        tally += [before.sum(), np.minimum(before, after).sum(), after.sum(), better.sum(), rows]
    return with_codes(raw, out)


def main():
    hone, base, start, gram, out, *texts = sys.argv[1:]
    ks = [int(k) for k in os.environ.get("KS", "1 4 8").split()]
    chunks = os.environ.get("CHUNKS", "48")
    b = {t.name: t for t in gguf.GGUFReader(base).tensors}
    g = gguf.GGUFReader(gram)
    parts = {t.name: t for t in g.tensors}
    key = lambda name: [bytes(g.fields[name].parts[i]).decode() for i in g.fields[name].data]
    inputs = dict(zip(key("gram.weights"), key("gram.inputs")))
    files, res = [], {"chunks": int(chunks), "rows": []}
    for k in ks:
        file = f"{os.path.splitext(out)[0]}-{k}.gguf"
        data = bytearray(open(start, "rb").read())
        total, began = np.zeros(5), time.process_time()
        for t in gguf.GGUFReader(start).tensors:
            if t.tensor_type.name != "Q2_K" or not t.name.startswith("blk.") or t.name not in inputs:
                continue
            both = [parts[f"{inputs[t.name]}.sum.{i}"].data for i in (0, 1)]
            moments = (both[0].astype(np.float32) + both[1]).reshape(-1, both[0].shape[-2], both[0].shape[-1])
            w = dequantize(b[t.name].data, b[t.name].tensor_type).astype(np.float32)
            w = w.reshape(-1, *w.shape[-2:])
            raw = t.data.reshape(len(w), -1)
            tally = np.zeros(5)
            new = np.concatenate([search(w[i], raw[i], moments[min(i, len(moments) - 1)], k, tally) for i in range(len(w))])
            data[t.data_offset:t.data_offset + new.nbytes] = new.tobytes()
            total += tally / [tally[0] or 1, tally[0] or 1, tally[0] or 1, 1, 1]
            print(f"{k} {t.name}: {tally[2] / (tally[0] or 1):.4f} of the error, {tally[1] / (tally[0] or 1):.4f} kept", flush=True)
        open(file, "wb").write(data)
        files.append(file)
        res["rows"].append({"k": k, "error": total[2] / total[0], "error_kept": total[1] / total[0],
                            "rows_better": total[3] / total[4], "cpu_seconds": round(time.process_time() - began)})
    for text in texts:
        cmd = [hone, "eval", "kld", start, *files, text, "--base", base, "--chunks", chunks, "-q", "--json"]
        res[os.path.basename(text)] = json.loads(subprocess.run(cmd, check=True, stdout=subprocess.PIPE).stdout)
    json.dump(res, open(out, "w"), indent=1)


main()
