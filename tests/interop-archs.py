# SPDX-License-Identifier: MIT
"""Tests the micro checkpoints of tests/golden/archs in llama.cpp; run by tests/interop.sh.
interop-archs.py HONE MICRO SCRATCH OUT.json [NAME...]

Each is converted to F32 and loaded in the engine, whose logits for 40 tokens are compared with ours; then the same with a Q8_0
file and, in hone, 8-bit activations. Since tests/unit/test_archs.c tests that our logits are those of transformers, any
difference is due to the engine or the file. Every difference above the bound must be in KNOWN with its reason, and so must
every refusal, except that of an architecture that the engine does not have."""
import json, os, pathlib, shutil, subprocess, sys
import numpy as np
import peer

BOUND = 1e-2
YARN = "the engine rounds the ends of YaRN's ramp; config.json says truncate false. Without YaRN logits agree to 1e-5"
KNOWN = {  # the reason why logits differ or the engine refuses the file
    "exaone4": "the engine knows windows at 64 layers only; without them logits agree to 3e-6",
    "gptoss": YARN,
    "gptoss_mxfp4": YARN,
    "llama4": "the engine knows chunks and steps of 8192 only; with these logits agree to 1e-5",
    "olmo3": "the engine passes over an attention factor that is not YaRN's own (published: its own); without one logits agree to 3e-6",
    "mistralwin": "the engine lets every token see all",
    "starcoder2win": "the engine lets every token see all",
    "commandrplus": "the engine takes norms of queries and keys at 64 layers only",
    "deepseek-v2": "the engine takes queries without a rank at 26 and 27 layers only, as the published V2 Lite has",
    "deepseek-v2-groups": "the engine judges V2's groups by their two best experts, transformers by the best; without groups logits agree",
    "dots1": "the engine wants as many key heads as query heads, as the published model has",
    "gemma3n": "the engine takes 256 columns of per-layer embeddings, as the published models have",
    "mamba": "the engine takes inner states of twice the width only, as the published models have",
    "mellum": "the engine turns all layers by one base; with one base logits agree to 4e-6, with YaRN on all layers too",
    "phimoe": "the engine takes RMS norms and a softmax router, the model has LayerNorms and its own router",
    "laguna": "the engine passes over an attention factor that is not YaRN's own; without one logits agree to 8e-6",
    "olmoe": "the engine wants as many key heads as query heads, as the published model has",
}
hone, micro, scratch, out_path, names = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4], sys.argv[5:]
root = pathlib.Path("tests/golden/archs")


def run(*args):
    p = subprocess.run([hone, *map(str, args), "-q"], capture_output=True, text=True)
    if p.returncode:
        raise RuntimeError(f"hone {' '.join(map(str, args))}: {p.stderr}")


def ours(path, ids, act):
    np.asarray(ids, "<i4").tofile(scratch / "ids")
    run("eval", "logits", path, "--ids", scratch / "ids", "-o", scratch / "logits", "--act", act, "-f")
    return np.fromfile(scratch / "logits", "<f4").reshape(len(ids), -1)


def difference(path, act):
    """The largest difference between logits."""
    m = peer.Model(path, n_ctx=256)
    ids = np.random.default_rng(4).integers(0, m.n_vocab, 40)
    theirs = m.logits(ids)
    m.close()
    return float(abs(ours(path, ids, act) - theirs).max())


def one(name):
    folder = subprocess.run([micro, str(root / name)], capture_output=True, text=True, check=True).stdout.strip()
    f, q = scratch / f"{name}.gguf", scratch / f"{name}-q8.gguf"
    row = {"name": name}
    try:
        run("convert", folder, "-o", f, "--type", "f32", "-f")
        run("quantize", f, "-o", q, "--type", "Q8_0", "-f")
        row["f32"] = difference(f, "f32")
        row["q8_0"] = difference(q, "q8")
    except peer.Refused as e:
        row["refused"] = str(e)[-300:]
    except RuntimeError as e:
        row["failed"] = str(e)
    finally:
        shutil.rmtree(pathlib.Path(folder).parent, ignore_errors=True)
        for p in (f, q):
            p.unlink(missing_ok=True)
    return row


def main():
    rows, bad = [], []
    for name in names or sorted(p.name for p in root.iterdir() if p.is_dir()):
        r = one(name)
        if "failed" in r:
            print(f"{name:16} {r['failed']}", flush=True)
            bad.append(name)
        elif "refused" in r:
            print(f"{name:16} refused: {KNOWN.get(name, r['refused'])}", flush=True)
            if name not in KNOWN and "unknown model architecture" not in r["refused"]:
                bad.append(name)
        else:
            print(f"{name:16} f32 {r['f32']:.2e}  q8_0 {r['q8_0']:.2e}  {KNOWN.get(name, '')}", flush=True)
            if r["f32"] > BOUND and name not in KNOWN:
                bad.append(name)
        rows.append(dict(r, known=KNOWN[name]) if name in KNOWN else r)
    json.dump(dict(command="make interop", peer="llama-cpp-python 0.3.36", bound=BOUND, failures=bad, archs=rows), open(out_path, "w"), indent=1)
    return 1 if bad else 0


sys.exit(main())
