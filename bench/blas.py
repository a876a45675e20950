#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/blas.py PROGRAM [OUT.json] - our float products compared with OpenBLAS's, on one thread, in GFLOP/s.

PROGRAM is built by `make bench-blas` and times the libopenblas.so.0 that `hone doctor` tries in the same way. numpy's wheels
from PyPI contain a different build, which is timed with the same sizes: 2048 columns, second moments of 512 rows, and the
factorization for error feedback, for which hone never uses OpenBLAS."""
import json
import os
import subprocess
import sys
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"
import numpy as np

N, ROWS = 2048, 512


def rate(flop, f, seconds=0.5):
    """Runs f for some time and returns its best rate in GFLOP/s."""
    f()
    best, end = 1e9, time.perf_counter() + seconds
    while time.perf_counter() < end:
        t = time.perf_counter()
        f()
        best = min(best, time.perf_counter() - t)
    return flop / best / 1e9


def theirs():
    rng = np.random.default_rng(1)
    out = {"blas": np.__config__.CONFIG["Build Dependencies"]["blas"]["openblas configuration"].split(" USE")[0]}
    b = rng.standard_normal((N, N), dtype=np.float32)
    for m in (1, 2, 16, 64, 512):
        a = rng.standard_normal((m, N), dtype=np.float32)
        out[f"gemm_{m}"] = rate(2 * m * N * N, lambda: a @ b.T)
    x = rng.standard_normal((ROWS, N), dtype=np.float32)
    out["moments"] = rate(N * (N + 1) * ROWS, lambda: x.T @ x)  # numpy calls syrk for this
    h = (x.T @ x).astype(np.float64) / ROWS + np.eye(N)
    out["factor"] = rate(N**3 / 3, lambda: np.linalg.cholesky(h), 2)
    return {k: round(v, 1) if isinstance(v, float) else v for k, v in out.items()}


ours = json.loads(subprocess.run([sys.argv[1]], check=True, capture_output=True, text=True).stdout)
doc = {key: ours.pop(key) for key in ("processor", "openblas", "not_used", "trial") if key in ours}
doc = {"command": "python3 bench/blas.py $(make -s bench-blas) docs/results/blas.json", "date": time.strftime("%Y-%m-%d"), "load": round(os.getloadavg()[0], 1), **doc, "hone": ours, "numpy": theirs()}
text = json.dumps(doc, indent=1) + "\n"
if len(sys.argv) > 2:
    with open(sys.argv[2], "w") as f:
        f.write(text)
print(text, end="")
