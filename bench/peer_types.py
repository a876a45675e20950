# SPDX-License-Identifier: MIT
"""Encodes a file with another engine but with the types of our plan, to separate the effects of allocation and encoding.

    peer_types.py BASE.gguf PLAN.tsv IMATRIX.dat OUT.gguf, with the Python of bench/peer-venv.sh. PLAN: written by hone quantize
    --budget."""
import sys

import peer

base, plan, imatrix, out = sys.argv[1:5]
types = dict(line.split()[:2] for line in open(plan) if line.strip() and not line.startswith("#"))
print(f"{peer.quantize(base, out, 'Q8_0', 2, imatrix=imatrix, types=types):.1f} s")
