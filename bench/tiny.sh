#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/tiny.sh [OUT.json] - compares the quality of our files of the bundled trained model with an independent
# engine's, made with the same recipe and imatrix text. Needs ../shared/models/tiny-qwen35moe (its texts and
# peer-baseline.json). Prints a table and writes docs/results/tiny.json. Takes minutes on 2 cores.
# SEARCH=fast|best|conventional selects the search.
set -eu
HONE=${HONE:-build/hone}
src=../shared/models/tiny-qwen35moe
out=${1:-docs/results/tiny.json}
search=${SEARCH:-fast}
recipes=${RECIPES:-"Q8_0 Q6_K Q5_K_M Q4_K_M Q4_K_S IQ4_NL IQ4_XS Q3_K_L Q3_K_M IQ3_M IQ3_S Q3_K_S Q2_K IQ3_XXS"}
[ -e $src/eval.txt ] || { echo "SKIP: $src is not here"; exit 77; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
"$HONE" convert $src -o "$t/base.gguf" --type f32 -q > /dev/null
"$HONE" imatrix "$t/base.gguf" $src/calib.txt $src/calib_chat.txt -o "$t/imatrix.gguf" -q > /dev/null
"$HONE" quantize "$t/base.gguf" -o "$t/{}.gguf" --recipe "$(echo $recipes | tr ' ' ,)" --imatrix "$t/imatrix.gguf" --search "$search" -q > /dev/null
set --
for r in $recipes; do set -- "$@" "$t/$r.gguf"; done
"$HONE" eval ppl "$t/base.gguf" $src/eval.txt -q --json > "$t/ppl.json"
"$HONE" eval kld "$@" $src/eval.txt --base "$t/base.gguf" -q --json > "$t/kld.json"
python3 - "$t" $src/peer-baseline.json "$out" "$search" <<'PY'
import json, os, sys
t, peer, out, search = sys.argv[1:]
peer = json.load(open(peer))
ppl = json.load(open(t + "/ppl.json"))
kld = json.load(open(t + "/kld.json"))
rows = []
for c in kld["candidates"]:
    name = os.path.basename(c["model"])[:-5]
    p = peer["results"].get(name)
    rows.append(dict(recipe=name, size_bytes=os.path.getsize(f"{t}/{name}.gguf"), peer_size_bytes=p and p["size_bytes"],
                     ppl=c["ppl"], mean_kld=c["mean_kld"], mean_kld_stderr=c["mean_kld_stderr"], kld_p999=c["kld_p999"],
                     same_top1=c["same_top1"], peer_mean_kld=p and p["mean_kld"], ratio=p and c["mean_kld"] / p["mean_kld"]))
doc = dict(command=f"SEARCH={search} bench/tiny.sh", search=search, ppl_f32=ppl["ppl"], peer_ppl_f32=peer["ppl_f32"],
           ppl_f32_difference_percent=100 * (ppl["ppl"] / peer["ppl_f32"] - 1), n_tokens=ppl["n_tokens"], quants=rows)
json.dump(doc, open(out, "w"), indent=1)
print(f"f32 PPL {ppl['ppl']:.6f}, independent engine {peer['ppl_f32']}, difference {doc['ppl_f32_difference_percent']:+.4f} %")
print(f"{'recipe':8} {'bytes':>10} {'peer bytes':>10} {'PPL':>9} {'mean KLD':>9} {'peer KLD':>9} {'ratio':>6}")
for r in rows:
    print(f"{r['recipe']:8} {r['size_bytes']:10} {r['peer_size_bytes'] or 0:10} {r['ppl']:9.4f} {r['mean_kld']:9.6f} {r['peer_mean_kld'] or 0:9.6f} {r['ratio'] or 0:6.3f}")
PY
