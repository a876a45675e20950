# The table and JSON of bench/mix.sh: python3 bench/mix.py FOLDER KLD.json PEER.json OUT.json PROBING_SECONDS
import json, os, sys
folder, kld, peer, out, probing = sys.argv[1:]
peer = json.load(open(peer))["results"]
kld = {os.path.basename(c["model"])[:-5]: c for c in json.load(open(kld))["candidates"]}
target = {"Q3_K_M": .50, "IQ4_XS": .70, "Q4_K_M": .55}
rows = []
for name in ["Q3_K_M", "IQ4_XS", "Q4_K_M", "AA-IQ3", "AA-Q3", "AA-IQ4", "AA-Q4"]:
    c, p = kld[name], peer[name]
    conv = kld.get(name + "-conventional")
    types = {}
    for line in open(f"{folder}/{name}.gguf.plan.tsv"):
        if not line.startswith("#"):
            types[line.split()[1]] = types.get(line.split()[1], 0) + 1
    rows.append(dict(budget_of=name, budget_bytes=p["size_bytes"], size_bytes=os.path.getsize(f"{folder}/{name}.gguf"),
                     mean_kld=c["mean_kld"], mean_kld_stderr=c["mean_kld_stderr"], kld_p999=c["kld_p999"],
                     peer_mean_kld=p["mean_kld"], peer_kld_p999=p["kld_p999"], ratio=c["mean_kld"] / p["mean_kld"],
                     target_ratio=target.get(name, .85), met=c["mean_kld"] <= target.get(name, .85) * p["mean_kld"],
                     mean_kld_conventional_search=conv and conv["mean_kld"],
                     gain_allocation=conv and conv["mean_kld"] / p["mean_kld"],
                     gain_search=conv and c["mean_kld"] / conv["mean_kld"], tensors_by_type=types))
doc = dict(command="bench/mix.sh", probing_seconds=float(probing), rows=rows)
json.dump(doc, open(out, "w"), indent=1)
print(f"{'size of':8} {'bytes':>9} {'KLD':>9} {'peer':>9} {'ratio':>6} {'target':>6}  {'99.9 %':>7} {'peer':>7} {'alloc.':>6} {'search':>6}")
for r in rows:
    a = "".join(f" {r[k]:6.3f}" if r[k] else "      -" for k in ("gain_allocation", "gain_search"))
    print(f"{r['budget_of']:8} {r['size_bytes']:9} {r['mean_kld']:9.6f} {r['peer_mean_kld']:9.6f} {r['ratio']:6.3f} {r['target_ratio']:6.2f}  "
          f"{r['kld_p999']:7.4f} {r['peer_kld_p999']:7.4f}{a}")
