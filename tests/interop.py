# SPDX-License-Identifier: MIT
"""Tests hone's files in another engine; run by tests/interop.sh. interop.py HONE SCRATCH OUT.json

Four comparisons per quantized file F, on 16 random tokens and on 64:
  exact   the engine on F's weights dequantized to F32 (hone quantize --type F32) compared with hone on F, both with f32
          activations: tests the meaning of F's bytes. Must agree within BOUND.
  direct  the engine on F compared with hone on F, with the engine's own 8-bit (f16, bf16) activations and hone's f32
          activations, as a user would see it. The difference comes from the rounding of activations, not from the file; it is
          reported per type.
  act8    the engine on F compared with hone with --act q8, which rounds activations in the same way, on WINDOWS sequences of 8
          tokens, which hone computes in one batch. Logits agree to 1e-5 unless some activation is rounded in the other
          direction, which can select different experts. `within` is the number of sequences in which no logit differs by more
          than BOUND; zero would mean that F is read differently.
  self    the same for the engine token by token compared with the engine in one batch: how often it agrees with itself.
A misread file shows as a direct difference of about the size of the logits themselves: MISREAD limits the divergence between
the two distributions, far above the effect of activation rounding and far below that of garbage."""
import json, os, pathlib, subprocess, sys, unicodedata
import numpy as np
import peer
from llama_cpp import llama_chat_format

BOUND = 1e-2     # largest difference between logits, exact comparison
WINDOWS = 16
MISREAD = 0.1    # mean KLD of the direct comparison; unrelated distributions are above 1
TYPES = ("F16 BF16 Q8_0 Q6_K Q5_K Q4_K Q3_K Q2_K Q5_1 Q5_0 Q4_1 Q4_0 IQ4_NL IQ4_XS IQ3_S IQ3_XXS IQ2_S IQ2_XS IQ2_XXS IQ1_M IQ1_S MXFP4 "
         "NVFP4 TQ1_0 TQ2_0 Q1_0 Q2_0").split()
RECIPES = ("IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ2_M Q2_K_S IQ3_XXS Q2_K IQ3_XS Q3_K_S IQ3_S IQ3_M Q3_K_M Q3_K_L IQ4_XS MXFP4_MOE IQ4_NL Q4_0 "
           "Q4_K_S Q4_K_M Q4_1 Q5_0 Q5_K_S Q5_K_M Q5_1 Q6_K Q8_0 BF16 F16 F32").split()
MICRO = "qwen35moe qwen35 qwen3moe qwen3 mistral gemma4moe".split()
MICRO_BOUND = {"gemma4moe": 3e-2}  # the engine takes GELU from a half-precision table (docs/interop.md)
TOKENS_DIFFER = {"gemma4moe": 1}   # <|turn>: special but missing in tokenizer_config.json; written as NORMAL, as llama.cpp's converter does
hone, scratch, out_path = sys.argv[1].split(), pathlib.Path(sys.argv[2]), sys.argv[3]
tiny = pathlib.Path("tests/golden/tiny-qwen35moe")
rng = np.random.default_rng(1)
# In these cases the engine rounds more than activations: operands of products with BF16 to BF16, sums of a block to
# half precision (its Q8_1), GELU.
COARSER = {"type BF16", "recipe BF16", "type Q4_1", "recipe Q4_1", "type Q5_1", "recipe Q5_1", "micro gemma4moe Q8_0"}
failures = []


def run(*args, stdin=None):
    p = subprocess.run([*hone, *map(str, args)], input=stdin, capture_output=True)
    if p.returncode:
        raise RuntimeError(f"hone {' '.join(map(str, args))}: {p.stderr.decode()}")
    return p.stdout


def ours(path, ids, act="f32"):
    np.asarray(ids, "<i4").tofile(scratch / "ids")
    run("eval", "logits", path, "--ids", scratch / "ids", "-o", scratch / "logits", "--act", act, "-q", "-f")
    return np.fromfile(scratch / "logits", "<f4").reshape(len(ids), -1)


def compare(a, b):
    """Compares b with a: differences of the logits and of their distributions."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    la = a - a.max(-1, keepdims=True); la -= np.log(np.exp(la).sum(-1, keepdims=True))
    lb = b - b.max(-1, keepdims=True); lb -= np.log(np.exp(lb).sum(-1, keepdims=True))
    return dict(max_abs=float(abs(a - b).max()), rel_rms=float(np.sqrt(((a - b) ** 2).mean() / a.var())),
                mean_kld=float((np.exp(la) * (la - lb)).sum(-1).mean()), same_top1=float((a.argmax(-1) == b.argmax(-1)).mean()))


def theirs(path, ids):
    m = peer.Model(path, n_ctx=256)
    try:
        return m.logits(ids)
    finally:
        m.close()


def windows(a, b):
    """Compares two lists of logits, which have one entry per sequence."""
    worst = sorted(float(abs(x - y).max()) for x, y in zip(a, b))
    return dict(windows=len(worst), within=sum(w <= BOUND for w in worst), median=worst[len(worst) // 2], max=worst[-1])


def check(name, path, exact_copy=True, bound=BOUND):
    """Runs all comparisons on one file; returns a row of the result."""
    row = dict(file=name, size_bytes=os.path.getsize(path))
    try:
        m = peer.Model(path, n_ctx=256)
    except peer.Refused as e:
        failures.append(f"{name}: refused")
        return dict(row, loads=False, message=str(e)[-400:])
    ids = np.random.default_rng(2).integers(0, m.n_vocab, 64)
    direct = m.logits(ids)
    some = np.random.default_rng(3).integers(0, m.n_vocab, (WINDOWS, 8))
    batch, steps = [m.logits(w) for w in some], [m.steps(w) for w in some]
    m.close()
    ref = ours(path, ids)
    row.update(loads=True, direct=compare(ref, direct), act8=windows([ours(path, w, "q8") for w in some], batch), self=windows(batch, steps))
    if not row["act8"]["within"] and name not in COARSER:
        failures.append(f"{name}: no sequence within {BOUND} with 8-bit activations on both sides")
    if exact_copy:
        run("quantize", path, "-o", scratch / "exact.gguf", "--type", "F32", "-q", "-f")
        row["exact"] = compare(ref, theirs(scratch / "exact.gguf", ids))
        if row["exact"]["max_abs"] > bound:
            failures.append(f"{name}: exact difference {row['exact']['max_abs']:.3g}")
    if not row["direct"]["mean_kld"] < MISREAD:
        failures.append(f"{name}: mean KLD {row['direct']['mean_kld']:.3g}")
    show(row)
    return row


def show(r):
    e = r.get("exact", {}).get("max_abs", float("nan"))
    d = r["direct"]
    print(f"{r['file']:22} exact {e:9.2e}  direct {d['max_abs']:8.4f}  rms {d['rel_rms']:8.5f}  KLD {d['mean_kld']:9.2e}"
          f"  8-bit both {r['act8']['within']:2}/{WINDOWS} median {r['act8']['median']:9.2e}  itself {r['self']['within']:2}/{WINDOWS}", flush=True)


def tokens(path, family):
    """Compares the engine's tokens with our vocabulary to those of an independent tokenizer, for the committed
    strings."""
    d = json.load(open("tests/golden/models/tokens.json"))
    m = peer.Model(path, n_ctx=64)
    norm = (lambda s: unicodedata.normalize("NFC", s)) if family.startswith("qwen") else str  # the engine does not normalize
    bad = [c for c, want in zip(d["cases"], d["ids"][family]) if m.tokenize(norm(c)) != want]
    m.close()
    if len(bad) > TOKENS_DIFFER.get(family, 0):
        failures.append(f"tokens {family}: {bad}")
    return dict(file=family, cases=len(d["cases"]), equal=len(d["cases"]) - len(bad), different=bad)


def templates(path):
    """Compares prompts that hone renders with those of the engine's own jinja2, from the template in the file."""
    m = peer.Model(path, n_ctx=64)
    f = llama_chat_format.Jinja2ChatFormatter(peer.meta(m.model, "tokenizer.chat_template"), eos_token="", bos_token="")
    m.close()
    cases = [json.loads(l) for l in open(tiny / "tools.jsonl")][:50] + [json.loads(l) for l in open(tiny / "eval.jsonl")][:50]
    equal = 0
    for c in cases:
        (scratch / "chat.json").write_text(json.dumps({k: c[k] for k in ("messages", "tools") if c.get(k)}))
        mine = run("template", "render", path, "--chat", scratch / "chat.json", "--kwargs", '{"add_generation_prompt": true}', "-q")
        equal += f(messages=c["messages"], tools=c.get("tools")).prompt == mine.decode()
    if equal != len(cases):
        failures.append(f"templates: {equal} of {len(cases)}")
    return dict(cases=len(cases), equal=equal)


def main():
    base, imat = scratch / "base.gguf", scratch / "imatrix.gguf"
    run("convert", tiny, "-o", base, "--type", "f32", "-q")
    run("imatrix", base, tiny / "self_calib.txt", "-o", imat, "--chunks", 8, "-q")
    rows = [check("tiny F32", base, exact_copy=False)]
    if rows[0]["loads"] and rows[0]["direct"]["max_abs"] > BOUND:
        failures.append("tiny F32: not within the bound")
    for kind, names in (("--type", TYPES), ("--recipe", RECIPES)):
        for n in names:
            f = scratch / "q.gguf"
            run("quantize", base, "-o", f, kind, n, "--imatrix", imat, "-q", "-f")
            rows.append(check(f"{kind[2:]} {n}", f))
            if n == "Q4_K_M":
                os.rename(f, scratch / "keep.gguf")
    whole = scratch / "keep.gguf"
    run("split", whole, "-o", scratch / "s.gguf", "--max-size", "3M", "-q")
    first = sorted(scratch.glob("s-00001-of-*"))[0]
    ids = rng.integers(0, 4096, 64)
    split = dict(shards=len(list(scratch.glob("s-0*"))), equal_logits=bool((theirs(first, ids) == theirs(whole, ids)).all()))
    if not split["equal_logits"]:
        failures.append("split: logits differ from the whole file's")
    micro, toks = [], []
    for a in MICRO:
        src = pathlib.Path("tests/golden/models") / a
        f = scratch / "micro.gguf"
        bound = MICRO_BOUND.get(a, BOUND)
        run("convert", src, "-o", f, "--type", "f32", "-q", "-f")
        r = check(f"micro {a} F32", f, exact_copy=False)
        if r["loads"] and r["direct"]["max_abs"] > bound:
            failures.append(f"micro {a} F32: {r['direct']['max_abs']:.3g}")
        micro.append(r)
        if r["loads"] and a in ("qwen35moe", "qwen3", "mistral", "gemma4moe"):
            toks.append(tokens(f, a))
            print(f"tokens {a}: {toks[-1]['equal']} of {toks[-1]['cases']}", flush=True)
        run("quantize", f, "-o", scratch / "mq.gguf", "--type", "Q8_0", "-q", "-f")
        micro.append(check(f"micro {a} Q8_0", scratch / "mq.gguf", bound=bound))
    doc = dict(command="make interop", peer="llama-cpp-python 0.3.36", peer_build=peer.build(), bound_exact=BOUND,
               n_tokens=64, failures=failures, files=rows, split=split, micro=micro, tokens=toks, templates=templates(whole))
    json.dump(doc, open(out_path, "w"), indent=1)
    print(f"split: {split}; templates: {doc['templates']}")
    for f in failures:
        print("FAILED", f)
    return 1 if failures else 0


sys.exit(main())
