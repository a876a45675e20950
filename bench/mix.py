# Table and JSON of bench/mix.sh: python3 bench/mix.py FOLDER PEER.json OUT.json PROBING_SECONDS ENCODING_SECONDS MODEL
# OTHER
import json, os, sys
folder, peer, out, probing, encoding, model, other_name = sys.argv[1:]
peer = json.load(open(peer))["results"] if os.path.exists(peer) else None
target = {"Q3_K_M": .50, "IQ4_XS": .70, "Q4_K_M": .55}


def candidates(name):
    path = f"{folder}/{name}"
    return {os.path.basename(c["model"])[:-5]: c for c in json.load(open(path))["candidates"]} if os.path.exists(path) else {}


kld, other = candidates("kld.json"), candidates("other.json")
mixes = {m["budget_bytes"]: m for m in json.load(open(f"{folder}/mixes.json"))["mixes"]}
rows = []
for name in ["Q3_K_M", "IQ4_XS", "Q4_K_M", "AA-IQ3", "AA-Q3", "AA-IQ4", "AA-Q4"]:
    c, conv, fb = kld[name], kld.get(name + "-conventional"), kld.get(name + "-feedback")
    p = peer[name] if peer else kld[name + "-plain"]
    size = p["size_bytes"] if peer else os.path.getsize(f"{folder}/{name}-plain.gguf")
    types = {}
    for line in open(f"{folder}/{name}.plan.tsv"):
        if not line.startswith("#"):
            types[line.split()[1]] = types.get(line.split()[1], 0) + 1
    row = dict(budget_of=name, budget_bytes=size, size_bytes=os.path.getsize(f"{folder}/{name}.gguf"), mean_kld=c["mean_kld"],
               mean_kld_stderr=c["mean_kld_stderr"], kld_p999=c["kld_p999"], peer_mean_kld=p["mean_kld"], peer_kld_p999=p["kld_p999"],
               ratio=c["mean_kld"] / p["mean_kld"], target_ratio=target.get(name, .85),
               met=c["mean_kld"] <= target.get(name, .85) * p["mean_kld"], predicted_kld=mixes[size]["predicted_kld"],
               gap_to_bound=mixes[size]["gap"], tensors_by_type=types)
    if conv:
        assert os.path.getsize(f"{folder}/{name}-feedback.gguf") <= size
        row.update(mean_kld_conventional_search=conv["mean_kld"], gain_allocation=conv["mean_kld"] / p["mean_kld"],
                   gain_search=c["mean_kld"] / conv["mean_kld"], mean_kld_feedback=fb["mean_kld"],
                   gain_feedback=fb["mean_kld"] / c["mean_kld"], kld_p999_feedback=fb["kld_p999"], ratio_feedback=fb["mean_kld"] / p["mean_kld"])
    if other:
        row["other_mean_kld"] = other[name]["mean_kld"]
        if name + "-plain" in other:
            row["other_ratio"] = other[name]["mean_kld"] / other[name + "-plain"]["mean_kld"]
        if conv:
            row["other_mean_kld_feedback"] = other[name + "-feedback"]["mean_kld"]
    rows.append(row)
sens = json.load(open(f"{folder}/sens.json"))
doc = dict(command="bench/mix.sh", model=model, compared_with="an independent engine's files" if peer else "our files of the recipes, conventional search",
           other_text=other_name, probing_wall_seconds=float(probing), encoding_wall_seconds=float(encoding),
           n_probes=sens["n_probes"], n_groups=sens["n_groups"], rows=rows)
json.dump(doc, open(out, "w"), indent=1)
print(f"{'size of':8} {'bytes':>9} {'KLD':>9} {'theirs':>9} {'ratio':>6} {'target':>6}  {'99.9 %':>7} {'theirs':>7} {'alloc.':>6} {'search':>6} {'feedb.':>6}")
for r in rows:
    a = "".join(f" {r[k]:6.3f}" if k in r else "      -" for k in ("gain_allocation", "gain_search", "gain_feedback"))
    print(f"{r['budget_of']:8} {r['size_bytes']:9} {r['mean_kld']:9.6f} {r['peer_mean_kld']:9.6f} {r['ratio']:6.3f} {r['target_ratio']:6.2f}  "
          f"{r['kld_p999']:7.4f} {r['peer_kld_p999']:7.4f}{a}")
