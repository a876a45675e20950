#!/bin/sh
# bench/feedback.sh [OUT.json] - effect of each step of the quantizer on the divergence of the bundled trained model,
# compared with an independent engine's files of the same recipe and size. Needs ../shared/models/tiny-qwen35moe.
# Environment: TEXT (eval.txt) is the evaluation text: make choices on probe.txt, report results on eval.txt. CHUNKS (0:
# all) limits its windows. VARIANTS is "RECIPE:VARIANT ..." with the variants listed below. IMAT and GRAM are existing
# files to use instead of new ones. Writes docs/results/feedback.json.
set -eu
HONE=${HONE:-build/hone}
src=../shared/models/tiny-qwen35moe
out=${1:-docs/results/feedback.json}
text=${TEXT:-eval.txt}
all="conventional fast-plain fast best pass codes scales ints feedback feedback-best"
[ -e $src/eval.txt ] || { echo "SKIP: $src is not here"; exit 77; }
variants=${VARIANTS:-$(for r in Q3_K_M Q4_K_M IQ4_XS; do for v in $all; do echo $r:$v; done; done)}
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
"$HONE" convert $src -o "$t/base.gguf" --type f32 -q >/dev/null
if [ -z "${GRAM:-}" ]; then
    "$HONE" imatrix "$t/base.gguf" $src/calib.txt $src/calib_chat.txt -o "$t/imat.gguf" --gram "$t/gram.gguf" -q >/dev/null
    IMAT=$t/imat.gguf GRAM=$t/gram.gguf
fi
set --
for rv in $variants; do
    r=${rv%%:*} v=${rv#*:}
    g="--gram $GRAM"
    case $v in
    conventional) o="--search conventional" ;;
    fast-plain) o="--without balance" ;;
    fast) o="" ;;
    best) o="--search best" ;;
    pass) o="$g --without balance,codes,scales,ints" ;;
    codes) o="$g --without balance,scales,ints" ;;
    scales) o="$g --without balance,ints" ;;
    ints) o="$g --without balance" ;;
    feedback) o="$g" ;;
    feedback-best) o="$g --search best" ;;
    *) echo "no variant $v" >&2; exit 2 ;;
    esac
    # shellcheck disable=SC2086
    "$HONE" quantize "$t/base.gguf" -o "$t/$r.$v.gguf" --recipe "$r" --imatrix "$IMAT" $o -q --json >"$t/$r.$v.json"
    set -- "$@" "$t/$r.$v.gguf"
done
"$HONE" eval kld "$@" $src/"$text" --base "$t/base.gguf" --chunks "${CHUNKS:-0}" -q --json >"$t/kld.json"
python3 - "$t" $src/peer-baseline.json "$out" "$text" <<'PY'
import json, os, sys
t, peer, out, text = sys.argv[1:]
peer = json.load(open(peer))["results"]
kld = json.load(open(t + "/kld.json"))
rows = []
for c in kld["candidates"]:
    name = os.path.basename(c["model"])[:-5]
    r, v = name.split(".")
    q = json.load(open(f"{t}/{name}.json"))
    p = peer.get(r) if text == "eval.txt" else None
    rows.append(dict(recipe=r, variant=v, size_bytes=q["size_bytes"], seconds=q["seconds"], mean_kld=c["mean_kld"],
                     mean_kld_stderr=c["mean_kld_stderr"], kld_p999=c["kld_p999"], same_top1=c["same_top1"],
                     peer_mean_kld=p and p["mean_kld"], ratio=p and c["mean_kld"] / p["mean_kld"]))
doc = json.load(open(out)) if os.path.exists(out) else {}
doc.setdefault("command", "bench/feedback.sh; TEXT=probe.txt CHUNKS=16 bench/feedback.sh")
doc[text] = dict(n_tokens=kld.get("n_tokens"), n_chunks=kld.get("n_chunks"), rows=rows)
json.dump(doc, open(out, "w"), indent=1)
print(f"{'recipe':8} {'variant':14} {'mean KLD':>9} {'+-':>9} {'ratio':>6} {'seconds':>8}")
for r in rows:
    print(f"{r['recipe']:8} {r['variant']:14} {r['mean_kld']:9.6f} {r['mean_kld_stderr']:9.6f} {r['ratio'] or 0:6.3f} {r['seconds']:8.1f}")
PY
