# SPDX-License-Identifier: MIT
"""Measures for bench/real.sh -> one JSON: real.py HONE FOLDER OUT.json. Runs inside the venv of bench/peer-venv.sh."""
import ctypes
import gzip
import hashlib
import json
import os
import subprocess
import sys
import unicodedata

import numpy as np

sys.path[:0] = [os.path.dirname(__file__), os.path.join(os.path.dirname(__file__), "models")]
import dither  # noqa: E402
import peer  # noqa: E402
from peer import lc  # noqa: E402

hone, folder, out = sys.argv[1:4]
threads = int(os.environ.get("THREADS", "2"))
chunks = int(os.environ.get("CHUNKS", "4"))
hours = os.environ.get("HOURS", "0.2")
names = os.environ.get("MODELS", "smollm2 gemma3 qwen2coder").split()
CTX, N_GREEDY = 512, 32
TEXT = "calib/text/eval.txt"
CALIB = "calib/text/calib.txt"
CLASSES = ["Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "Q3_K_M", "IQ3_S", "Q2_K"]
PROMPTS = ["The capital of France is", "def fibonacci(n):\n", "Once upon a time, there was a", "Water boils at"]


def run(*args, stdin=None):
    r = subprocess.run([hone, *map(str, args)], input=stdin, capture_output=True)
    if r.returncode:
        raise SystemExit(f"hone {' '.join(map(str, args))}: {r.stderr.decode()}")
    return r.stdout


def run_json(*args):
    return json.loads(run(*args, "--json", "-q", "-j", threads))


def path(name, what=""):
    return os.path.join(folder, name + what)


def strings():
    """The hostile strings of the tokenizer tests that are UTF-8, and the paragraphs of the text."""
    raw = gzip.open("tests/golden/tok_families/strings.json.gz").read()
    found = json.loads(raw.decode("utf-8", "surrogateescape"))
    lists = found.values() if isinstance(found, dict) else [found]
    flat = [s for v in lists for s in v if isinstance(s, str)]
    flat = [s for s in flat if s and not any("\ud800" <= c <= "\udfff" or c == "\0" for c in s)]
    return flat, [p for p in open(TEXT).read().split("\n\n") if p]


def same_ids(name, m):
    """Strings whose ids are the same in both engines. Of the others: those that are the same once the other engine gets
    the string in the form NFC, which it does not compute, and those that are the same if it looks for no special tokens
    (it makes some words special by their spelling)."""
    out = {}
    for what, texts in zip(("strings", "paragraphs"), strings()):
        json.dump(texts, open(path(name, ".texts.json"), "w"))
        ours = json.loads(run("tokenize", path(name, ".gguf"), "--batch", path(name, ".texts.json")))
        theirs = [m.tokenize(t) for t in texts]
        bad = [t for t, a, b in zip(texts, ours, theirs) if list(a) != list(b)]
        of = dict(zip(texts, ours))
        nfc = [t for t in bad if m.tokenize(unicodedata.normalize("NFC", t)) == list(of[t])]
        plain = [t for t in bad if m.tokenize(t, False) == list(of[t])]
        out[what] = {"n": len(texts), "same": len(texts) - len(bad), "same_after_nfc": len(nfc), "same_without_special": len(plain),
                     "other": [ascii(t)[:80] for t in bad[:8]]}
    return out


def piece(m, token):
    buf = ctypes.create_string_buffer(256)
    n = lc.llama_token_to_piece(m.vocab, token, buf, len(buf), 0, True)
    return buf.raw[: max(n, 0)]


def continued(m, prompt, n):
    """The text of n greedy tokens after a prompt; fewer if the answer ends earlier."""
    bos = [lc.llama_vocab_bos(m.vocab)] if lc.llama_vocab_get_add_bos(m.vocab) else []
    text = b""
    m.clear()
    m.feed(bos + m.tokenize(prompt))
    for _ in range(n):
        t = int(np.argmax(np.ctypeslib.as_array(lc.llama_get_logits(m.ctx), (m.n_vocab,))))
        if lc.llama_vocab_is_eog(m.vocab, t):
            break
        text += piece(m, t)
        m.feed([t])
    return text.decode("utf-8", "replace")


def greedy(name, m):
    """Our result with f32 activations, and theirs on the same file (activations rounded to 8 bits) and on its F16
    version (rounded to 16 bits)."""
    plain = peer.Model(path(name, "-F16.gguf"), n_ctx=CTX, threads=threads)
    rows = []
    for p in PROMPTS:
        r = json.loads(run("run", path(name, ".gguf"), "-p", p, "-n", N_GREEDY, "--temp", 0, "--act", "f32", "--json", "-q", "-j", threads))
        row = {"prompt": p, "ours": r["text"], "theirs": continued(m, p, r["generated_tokens"]),
               "theirs_f16": continued(plain, p, r["generated_tokens"])}
        row["same"], row["same_f16"] = row["theirs"] == row["ours"], row["theirs_f16"] == row["ours"]
        rows.append(row)
    plain.close()
    return rows


def perplexity(name, m):
    """Perplexity with the published procedure: windows of CTX tokens, with BOS in place of the first token if the
    vocabulary adds one; the second half of each window is scored."""
    ours = run_json("eval", "ppl", path(name, ".gguf"), TEXT, "--ctx", CTX, "--chunks", chunks)
    bos = [lc.llama_vocab_bos(m.vocab)] if lc.llama_vocab_get_add_bos(m.vocab) else []
    ids = bos + m.tokenize(open(TEXT).read())
    nll = []
    for i in range(chunks):
        w = ids[i * CTX : (i + 1) * CTX]
        if bos:
            w[0] = bos[0]
        l = m.logits(w).astype(np.float64)
        for p in range(CTX // 2, CTX - 1):
            row = l[p] - l[p].max()
            nll.append(np.log(np.exp(row).sum()) - row[w[p + 1]])
    return {"windows": chunks, "tokens_scored": len(nll), "ours_tokens_scored": ours["n_tokens"], "ours": ours["ppl"], "theirs": float(np.exp(np.mean(nll)))}


def tools(name):
    """Runs the built-in suite if the template renders tools: the rate of each check, and the syntaxes of the calls."""
    if "tools" not in run_json("template", "lint", path(name, ".gguf"))["renders"]:
        return None
    found = run_json("eval", "tools", path(name, ".gguf"))
    return {"cases": found["n_cases"], "bare_json": found["n_loose"], "cut": found["n_cut"], **{g["grade"]: g["n"] for g in found["grades"]}}


def template(name):
    """What the template doctor finds: probes, and the rule of each defect and warning."""
    found = run_json("template", "lint", path(name, ".gguf"))
    return {"tool_calls": found["tool_format"], "renders": found["renders"], "probes": found["n_probes"], "passed": found["n_passed"],
            "not_applicable": found["n_moot"], "errors": found["n_errors"], "warnings": found["n_warnings"],
            "findings": [{k: f[k] for k in ("severity", "rule", "probe", "consequence")} for f in found["findings"]]}


def speed(name):
    """Tokens per second in alternating runs (bench/peers.py), with the ratio of each pair and the load of the machine
    before and after."""
    at = path(name, ".speed.json")
    if os.path.exists(at):
        os.remove(at)
    before = os.getloadavg()[0]
    subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), "peers.py"), hone, at, "--file", f"{name}={path(name, '.gguf')}",
                    "--groups", os.environ.get("SPEED", "512:64:0:3"), "--threads", str(threads), "--model", name], check=True)
    found = json.load(open(at))
    return {"threads": threads, "load_before": before, "load_after": os.getloadavg()[0], "builds": found["builds"], "cpu": found["cpu"],
            "isa": found["hone_isa"], "tests": found["models"][name]["tests"]}


def ladder(name):
    base, made = dither.prepared(hone, path(name)), path(name, "-GGUF")
    job = run_json("make", base, "-o", made, "--time", hours, "--calib", CALIB, "--eval", TEXT, "--chunks", chunks,
                   "--calib-chunks", 16, "--tools", "none", "--pp", 64, "--tg", 8, "--reps", 1)
    results = json.load(open(os.path.join(made, "results.json")))
    run("imatrix", "--merge", os.path.join(made, "imatrix.gguf"), "-o", path(name, ".dat"), "-f", "-q")
    ours = {f["size_class"]: f for f in results["files"] if "size_class" in f}
    theirs = {}
    for c in CLASSES:
        theirs[c] = path(name, f"-peer-{c}.gguf")
        peer.quantize(base, theirs[c], c, threads, imatrix=path(name, ".dat"))
    mine = {c: os.path.join(made, f["file"]) for c, f in ours.items()}
    kld = run_json("eval", "kld", *mine.values(), *theirs.values(), TEXT, "--base", base, "--ctx", CTX, "--chunks", chunks)
    of = {os.path.basename(c.get("file") or c["model"]): c for c in kld["candidates"]}
    rows = []
    for c in CLASSES:
        a, b = of[os.path.basename(mine[c])], of[os.path.basename(theirs[c])]
        rows.append({"size_class": c, "made": ours[c].get("made"), "size_bytes": os.path.getsize(mine[c]), "mean_kld": a["mean_kld"],
                     "mean_kld_stderr": a.get("mean_kld_stderr"), "peer_size_bytes": os.path.getsize(theirs[c]),
                     "peer_mean_kld": b["mean_kld"], "peer_mean_kld_stderr": b.get("mean_kld_stderr"), "ratio": a["mean_kld"] / b["mean_kld"]})
    return {"base": "dithered", "windows": chunks, "hours": float(hours), "left_out": results.get("left_out"), "classes": rows, "seconds": job.get("seconds")}


doc = json.load(open(out)) if os.path.exists(out) else {}
doc["command"] = "bench/real.sh"
doc["peer"] = f"llama-cpp-python {lc.__version__ if hasattr(lc, '__version__') else ''}".strip()
doc["note"] = ("the base of a ladder is the published 4-bit file decoded to F16 and moved off its grid (base: dithered, bench/models/dither.py), so no type "
               "finds the grid again; its activations are still those of a 4-bit model. base: decoded is a ladder of an earlier version of this script, whose "
               "base stayed on the grid: it says that the job runs and its files are sound, and nothing about how much an original loses. Both quantizers had "
               "the same importance matrix; every divergence is computed by hone with f32 activations, on windows of 512 tokens of " + TEXT + ", which neither "
               "importance nor choices saw. theirs: their activations are rounded to 8 bits; theirs_f16: of the F16 spelling, where they are not")
doc.setdefault("models", {})
for name in names:
    sha = hashlib.sha256(open(path(name, ".gguf"), "rb").read()).hexdigest()
    info = run_json("inspect", path(name, ".gguf"))
    row = {"name": info["name"], "arch": info["arch"], "file_type": info["file_type"], "n_params": info["n_params"], "sha256": sha}
    if not os.path.exists(path(name, "-F16.gguf")):
        run("quantize", path(name, ".gguf"), "--type", "F16", "--allow-requantize", "-o", path(name, "-F16.gguf"), "-q")
    m = peer.Model(path(name, ".gguf"), n_ctx=CTX, threads=threads)
    row["ids"], row["greedy"], row["perplexity"] = same_ids(name, m), greedy(name, m), perplexity(name, m)
    m.close()
    print(name, json.dumps({k: row[k] for k in ("ids", "perplexity")}), [[g["same"], g["same_f16"]] for g in row["greedy"]], flush=True)
    row["template"], row["tools"] = template(name), tools(name)
    row["speed"] = speed(name) if os.environ.get("SPEED") != "none" else doc["models"].get(name, {}).get("speed")
    if os.environ.get("QUICK"):
        row["ladder"] = doc["models"].get(name, {}).get("ladder")
    else:
        row["ladder"] = ladder(name)
        print(json.dumps(row["ladder"]["classes"], indent=0), flush=True)
    doc["models"][name] = row
    with open(out, "w") as f:
        json.dump(doc, f, indent=1)
        f.write("\n")
