# SPDX-License-Identifier: MIT
"""kernels.py BEFORE AFTER OUT.json - rates of all kernels of two programs, measured in turns; run by bench/kernels.sh.

A rate is the best of the rounds. One token: the fastest way to compute a product with one token (dot products of blocks, or
packed rows); 64 tokens: packed rows, or decoding and the f32 product. A ratio below 1 is a regression, but the earlier
program's blocks are wherever malloc puts them, which changes dot products of F32 and F16 by a third. The f32 product did not
change: its ratio shows how equal the conditions were."""
import argparse, json, os, shlex, subprocess


def rates(run, hone):
    """{type: rates} of the best instruction set, and GFLOP/s of the f32 product with 64 tokens."""
    p = subprocess.run(run + [hone, "bench-kernels", "--json"], capture_output=True, text=True, check=True)
    d = json.loads(p.stdout)
    best = {}
    for row in d["types"]:
        if row["isa"] == d["isa"]:
            best[row["type"]] = {k: v for k, v in row.items() if isinstance(v, float) and not k.endswith("_ratio")}
    gemm = {g["tokens"]: g["gflop_s"] for g in d["gemm"] if g["isa"] == d["isa"]}
    return best, gemm[64], d["isa"]


def fold(best, more):
    for name, row in more.items():
        for k, v in row.items():
            best.setdefault(name, {})[k] = max(v, best.get(name, {}).get(k, 0))


def ways(row, gflops):
    """GB/s of one token, 10^9 multiply-adds per second of 64 tokens, 10^9 weights decoded per second."""
    decode = row["decode_gweights_s"]
    return dict(one_token_gb_s=max(row["dot_gb_s"], row.get("packed_gb_s", 0)),
                **({"four_tokens_gb_s": row["packed4_gb_s"]} if "packed4_gb_s" in row else {}),
                many_tokens_gmac_s=row.get("packed_gmac_s", 0) or 1 / (1 / (gflops / 2) + 1 / (64 * decode)),
                decode_gweights_s=decode)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("before"); p.add_argument("after"); p.add_argument("out")
    p.add_argument("--commit"); p.add_argument("--rounds", type=int, default=5); p.add_argument("--run", default="")
    a = p.parse_args()
    side = {}
    for i in range(a.rounds):
        for which in ("before", "after") if i % 2 == 0 else ("after", "before"):
            types, gemm, isa = rates(shlex.split(a.run), getattr(a, which))
            s = side.setdefault(which, dict(types={}, gemm=0))
            fold(s["types"], types)
            s["gemm"] = max(s["gemm"], gemm)
    table = {}
    for name, row in side["after"]["types"].items():
        new = ways(row, side["after"]["gemm"])
        if name not in side["before"]["types"]:
            table[name] = dict(after=new)
            continue
        old = ways(side["before"]["types"][name], side["before"]["gemm"])
        both = [k for k in new if k in old]  # no ratio for measurements missing in the earlier program or for types that only one packs
        table[name] = dict(before=old, after=new, ratio={k: new[k] / old[k] for k in both})
        print(f"{name:8}", *(f"{k} {old[k]:.1f} {new[k]:.1f} {new[k] / old[k]:.2f}x " for k in both))
    doc = json.load(open(a.out)) if os.path.exists(a.out) else {}
    doc["kernels"] = dict(command="bench/kernels.sh", what=__doc__.split("\n\n")[1].replace("\n", " "), before=a.commit, isa=isa,
                          rounds=a.rounds, f32_product_gflop_s=dict(before=side["before"]["gemm"], after=side["after"]["gemm"]),
                          types=table)
    json.dump(doc, open(a.out, "w"), indent=1)


main()
