# SPDX-License-Identifier: MIT
"""Runs bench/feedback.c for bench/quantize-speed.sh feedback, alternating with that of another build, and writes the results
of both: processor time per weight, and whether the bytes are the same."""
import argparse, json, subprocess


def run(program, columns, a):
    out = subprocess.run([program, str(columns), str(a.rows), *a.types], stdout=subprocess.PIPE, check=True, text=True).stdout
    machine, *rows = map(json.loads, out.splitlines())
    return machine, rows


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out"); p.add_argument("program")
    p.add_argument("--before", default="")
    p.add_argument("--columns", type=int, nargs="+")
    p.add_argument("--rows", type=int)
    p.add_argument("--types", nargs="*", default=[])
    p.add_argument("--note", default="", help="what else ran, and what --before is")
    a = p.parse_args()
    cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "")
    doc = dict(command="bench/quantize-speed.sh feedback", cpu=cpu, rows=a.rows, threads=1,
               note=", ".join(["processor time of one thread, AVX2"] + [a.note] * (a.note != "")), columns={})
    for n in a.columns:
        before = run(a.before, n, a) if a.before else None
        machine, rows = run(a.program, n, a)
        types = {}
        for i, x in enumerate(rows):
            r = types.setdefault(x["type"], {})[x["search"]] = dict(us_per_weight=x["us_per_weight"], setup_s=x["setup_s"], error=x["error"])
            text = f"{n:5} {x['type']:8} {x['search']:5} {x['us_per_weight']:7.3f} us"
            if before:
                b = before[1][i]
                r.update(before_us_per_weight=b["us_per_weight"], before_setup_s=b["setup_s"], same_bytes=b["bytes"] == x["bytes"])
                text += f"  before {b['us_per_weight']:7.3f}  {b['us_per_weight'] / x['us_per_weight']:.2f}x" \
                        f"  {'same' if r['same_bytes'] else 'OTHER'} bytes"
            print(text, flush=True)
        doc["columns"][n] = dict(peak_gmac=machine["peak_gmac"], product_gmac=machine["product_gmac"],
                                 product_share_of_peak=round(machine["product_gmac"] / machine["peak_gmac"], 2) if machine["peak_gmac"] else None,
                                 factor_gflops=machine["factor_gflops"], types=types)
        if before:
            doc["columns"][n]["before_factor_gflops"] = before[0]["factor_gflops"]
        json.dump(doc, open(a.out, "w"), indent=1)


main()
