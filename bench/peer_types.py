# SPDX-License-Identifier: MIT
"""A file that another engine encodes with the types of a plan of ours, so that allocation and encoding are told apart.

peer_types.py BASE.gguf PLAN.tsv IMATRIX.dat OUT.gguf, with the python of bench/peer-venv.sh. PLAN: what hone quantize --budget writes."""
import sys

import peer

base, plan, imatrix, out = sys.argv[1:5]
types = dict(line.split()[:2] for line in open(plan) if line.strip() and not line.startswith("#"))
print(f"{peer.quantize(base, out, 'Q8_0', 2, imatrix=imatrix, types=types):.1f} s")
