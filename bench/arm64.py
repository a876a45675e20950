#!/usr/bin/env python3
"""Instructions per weight of the ARM64 kernels, counted by QEMU (bench/insns.c, bench/product.c) -> docs/results/arm64.json.

usage: arm64.py PRODUCT RUN [OUT.json [TYPE...]]: with types, OUT.json keeps the rows of all other types, and its other members
("other_engine", "check"). PRODUCT is build/arm64's bench/product; RUN runs it (tests/arm64-run.sh in the environment of `make
bench-arm64`). A product of 16 rows of 2048 weights is computed once and three times; half the difference is the kernel's count.
These are instruction counts, not times: no processor was measured."""
import json
import os
import subprocess
import sys

ISAS = ["ref", "neon", "dotprod", "i8mm"]
PACKED = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4", "TQ2_0",
          "TQ1_0", "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"]
OTHER = ["F16", "BF16"]
TOKENS = [1, 4, 16, 64]


def count(run, plugin, args):
    env = dict(os.environ, QEMU_PLUGIN="file=" + plugin)
    p = subprocess.run([run, "max"] + args, env=env, capture_output=True, text=True)
    if p.returncode == 77:
        return None
    if p.returncode:
        sys.exit(" ".join(args) + ": " + p.stderr)
    return int(p.stderr.split()[-2])


def main():
    product, run = sys.argv[1:3]
    plugin = os.path.join(os.path.dirname(product), "insns.so")
    subprocess.run([os.environ.get("HOSTCC", "cc"), "-O2", "-shared", "-fPIC", "-o", plugin, "bench/insns.c"], check=True)
    out = {
        "command": "make bench-arm64",
        "what": "Instructions executed per weight and token: products of 16 rows of 2048 weights, 8-bit activations (F16, BF16: f32). "
        "F16 and BF16, which have no packed rows: one row of activations at a time. Counted by QEMU; not times.",
        "types": {},
    }
    if len(sys.argv) > 3 and os.path.exists(sys.argv[3]):
        with open(sys.argv[3]) as f:
            was = json.load(f)
        out = {**was, **out, "types": was["types"] if len(sys.argv) > 4 else {}}
    for t in sys.argv[4:] or PACKED + OTHER:
        row = out["types"][t] = {}
        for isa in ISAS if t in PACKED else ISAS[:3]:
            for n in TOKENS if isa != "ref" else TOKENS[:1]:
                few, more = (count(run, plugin, [product, isa, t, str(n), str(times)]) for times in (1, 3))
                row.setdefault(isa, {})[str(n)] = round((more - few) / 2 / (16 * 2048 * n), 3)
        print(t, row, file=sys.stderr)
    text = json.dumps(out, indent=1) + "\n"
    if len(sys.argv) > 3:
        with open(sys.argv[3], "w") as f:
            f.write(text)
    else:
        print(text, end="")


main()
