# SPDX-License-Identifier: MIT
"""Tests hone's files in ik_llama.cpp (the package ik-llama-cpp-python); run by tests/interop.sh: interop-ik.py HONE SCRATCH
OUT.json. The bundled model in the types and recipes of FILES is loaded there, and its logits for 32 tokens are compared with
ours. Both engines round activations to 8 bits, but differently: a file that is read correctly differs by little, a misread one
by about the size of the logits themselves."""
import json, os, pathlib, subprocess, sys
import numpy as np
import peer_ik

MISREAD = 0.1  # mean divergence; unrelated distributions are above 1
hone, scratch, out_path = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[-1]
tiny = pathlib.Path("tests/golden/tiny-qwen35moe")
FILES = [("type", t) for t in "F16 BF16 Q8_0 Q6_K Q5_K Q4_K Q3_K Q2_K Q5_1 Q5_0 Q4_1 Q4_0 IQ4_NL IQ4_XS IQ3_S IQ3_XXS IQ2_S IQ2_XS IQ2_XXS IQ1_M IQ1_S MXFP4".split()]
FILES += [("recipe", r) for r in "IQ1_M IQ2_XXS IQ2_M Q2_K IQ3_XXS IQ3_M Q3_K_M IQ4_XS MXFP4_MOE Q4_K_M Q5_K_M Q6_K Q8_0 hone-Q4_K_XL UD-Q4_K_XL APEX".split()]


def run(*args):
    p = subprocess.run([hone, *map(str, args)], capture_output=True, text=True)
    if p.returncode:
        raise SystemExit(f"hone {' '.join(map(str, args))}: {p.stderr}")


def log_probabilities(x):
    x = x.astype(np.float64)
    x -= x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def check(how, name, base, imat):
    """Compares one file; returns a row of the result."""
    path = scratch / "f.gguf"
    run("quantize", base, "-o", path, "--" + how, name, "--imatrix", imat, "-q", "-f")
    row = dict(file=f"{how} {name}", size_bytes=os.path.getsize(path))
    child = subprocess.run([sys.executable, __file__, "--child", path, scratch / "theirs"], capture_output=True, text=True)
    if child.returncode:
        return dict(row, loads=False, message=child.stderr[-300:])
    run("eval", "logits", path, "--ids", scratch / "ids", "-o", scratch / "ours", "--act", "q8", "-q", "-f")
    mine, theirs = (log_probabilities(np.fromfile(scratch / f, "<f4").reshape(32, -1)) for f in ("ours", "theirs"))
    return dict(row, loads=True, mean_kld=float((np.exp(mine) * (mine - theirs)).sum(-1).mean()), same_top1=float((mine.argmax(-1) == theirs.argmax(-1)).mean()))


def main():
    base, imat = scratch / "ik-base.gguf", scratch / "ik-imatrix.gguf"
    run("convert", tiny, "-o", base, "--type", "f32", "-q", "-f")
    run("imatrix", base, tiny / "self_calib.txt", "-o", imat, "--chunks", 8, "-q", "-f")
    np.random.default_rng(2).integers(0, 1000, 32).astype("<i4").tofile(scratch / "ids")
    rows = [check(how, name, base, imat) for how, name in FILES]
    for r in rows:
        print(f"{r['file']:22} " + (f"KLD {r['mean_kld']:.2e}, same first {r['same_top1']:.2f}" if r["loads"] else "refused: " + r["message"]), flush=True)
    wrong = [r["file"] for r in rows if not r["loads"] or not r["mean_kld"] < MISREAD]
    with open(out_path, "w") as f:
        json.dump(dict(command="IK=1 tests/interop.sh", engine=peer_ik.build(), files=rows), f, indent=1)
        f.write("\n")
    print(f"ik_llama.cpp: {len(rows)} files, {len(wrong)} wrong {wrong}")
    return bool(wrong)


if sys.argv[1] == "--child":  # in its own process, which a file that cannot be loaded may end
    m = peer_ik.Model(sys.argv[2], 64, 2, 64)
    m.logits(np.fromfile(pathlib.Path(sys.argv[3]).parent / "ids", "<i4")).astype("<f4").tofile(sys.argv[3])
else:
    sys.exit(main())
