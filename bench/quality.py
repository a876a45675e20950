#!/usr/bin/env python3
"""The steps of bench/quality.sh: quality.py HONE MODEL_FOLDER OUT.json"""
import hashlib
import json
import os
import shlex
import subprocess
import sys
import time

PRESETS = ["Q6_K", "Q4_K_M", "IQ4_XS", "Q3_K_M", "IQ3_S", "Q2_K", "IQ2_XS"]
AGAIN = 75
TEXTS = ("calib.txt", "calib_chat.txt", "calib.jsonl", "man_calib.txt", "probe.txt", "eval.txt", "eval.jsonl", "eval_chat.txt", "man_eval.txt",
         "tools.jsonl")
started = time.time()


def env(name, usual):
    return os.environ.get(name, usual)


def run(*cmd):
    """Runs a command and parses its output as JSON."""
    if time.time() - started > float(env("LIMIT", "480")):
        print("quality: the time of this part is over; the same command goes on", file=sys.stderr)
        sys.exit(AGAIN)
    text = subprocess.run([str(c) for c in cmd] + ["-q", "--json"], check=True, stdout=subprocess.PIPE).stdout
    return json.loads(text) if text.strip() else {}


def make(path, *cmd):
    """Runs a command that writes path, unless the file exists from an earlier part."""
    if not os.path.exists(path):
        if os.path.exists(path + ".plan.tsv"):  # left by an interrupted part
            os.remove(path + ".plan.tsv")
        run(*cmd)
    return path


def digest(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def build(hone):
    """A binary's version and hash: the version alone does not tell two builds apart."""
    said = subprocess.run([hone, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return f"{said}, sha256 {digest(hone)[:16]}"


def command():
    """The command that repeats this run, with names in place of paths."""
    said = [f"{k}={shlex.quote(env(k, ''))}" for k in ("PLAIN", "LEARN", "STEPS", "SIZES", "CHUNKS", "TOOLS") if env(k, "")]
    said += ["SRC=" + shlex.quote(os.path.basename(os.path.abspath(env("SRC", ""))))] if env("SRC", "") else []
    return " ".join((["OLD=BINARY"] if env("OLD", "") else []) + said + ["bench/quality.sh"])


def settings(hone, old, folder):
    """What the files in WORK depend on, besides the names that tell them apart."""
    weights = [[n, os.stat(f"{folder}/{n}").st_size, os.stat(f"{folder}/{n}").st_mtime_ns] for n in sorted(os.listdir(folder))
               if n.endswith((".gguf", ".safetensors"))]
    return dict(build=build(hone), old=build(old) if old else None, plain=env("PLAIN", ""), learn=env("LEARN", ""),
                weights=weights, texts={t: digest(f"{folder}/{t}") for t in TEXTS if os.path.exists(f"{folder}/{t}")})


def begin(work, asked):
    """Makes WORK or checks that its files were made with the settings asked for; exits if they were not."""
    record = work + "/settings.json"
    if os.path.isdir(work) and os.listdir(work):
        had = json.load(open(record)) if os.path.exists(record) else {}
        other = [k for k in asked if had.get(k) != asked[k]]
        if other:
            sys.exit(f"quality: {work} has files of another run ({', '.join(other)}); set WORK to another folder, or delete this one")
        return
    os.makedirs(work, exist_ok=True)
    with open(record, "w") as f:
        json.dump(asked, f, indent=1)


def remember(path, *cmd):
    """A command's output, read from the file of an earlier part if there is one."""
    if not os.path.exists(path):
        res = run(*cmd)
        json.dump(res, open(path + ".part", "w"))
        os.rename(path + ".part", path)
    return json.load(open(path))


class Model:
    def __init__(self, hone, folder, work):
        self.hone, self.folder, self.work = hone, folder, work
        self.base = folder + "/base.gguf"
        if not os.path.exists(self.base):
            self.base = make(work + "/base.gguf", hone, "convert", folder, "-o", work + "/base.gguf", "--type", "f32")
        chat = "calib_chat.txt" if os.path.exists(folder + "/calib_chat.txt") else "calib.jsonl"
        self.calib = [t for t in (f"{folder}/{n}" for n in ("calib.txt", chat, "man_calib.txt")) if os.path.exists(t)]

    def importance(self, hone, name):
        im = f"{self.work}/{name}im.gguf"
        return make(im, hone, "imatrix", self.base, *self.calib, "-o", im, "-f")

    def moments(self, hone, name):
        """Importance and second moments, as in `hone make`."""
        im, gram = f"{self.work}/{name}im.gguf", f"{self.work}/{name}gram.gguf"
        make(gram, hone, "imatrix", self.base, *self.calib, "-o", im, "--gram", gram, "-f")
        return im, gram

    def sizes(self, names):
        """Bytes by preset, and the independent engine's measurements."""
        path = self.folder + "/peer-baseline.json"
        peer = json.load(open(path))["results"] if os.path.exists(path) else {}
        out = {}
        for p in names:
            if p in peer:
                out[p] = peer[p]["size_bytes"], peer[p]
            else:
                file = f"{self.work}/preset-{p}.gguf"
                make(file, self.hone, "quantize", self.base, "-o", file, "--recipe", p, "--imatrix", self.importance(self.hone, ""), "--search",
                     "conventional")
                out[p] = os.path.getsize(file), None
        return out

    def mix(self, hone, step, preset, budget):
        """Makes the file of a step: mix, feedback, block (the types of feedback, block by block), before (feedback with
        OLD)."""
        name = "before-" if step == "before" else ""
        imatrix, gram = (self.importance(hone, name), None) if step in ("mix", "block") else self.moments(hone, name)
        file, sens = f"{self.work}/{step}-{preset}.gguf", f"{self.work}/{name}sens.json"
        best = ["--imatrix", imatrix, "--search", "best"]
        if step == "block":
            types = preset if env("PLAIN", "") else f"{self.work}/feedback-{preset}.gguf.plan.tsv"
            texts = [a for t in self.calib for a in ("--sequential", t)]
            learn = ["--learn", env("LEARN", "")] if env("LEARN", "") else []
            return make(file, hone, "quantize", self.base, "-o", file, "--recipe", types, *best, *texts, *learn)
        fed = [] if step == "mix" else ["--gram", gram]
        if env("PLAIN", ""):
            return make(file, hone, "quantize", self.base, "-o", file, "--recipe", preset, *best, *fed)
        make(sens, hone, "sensitivity", self.base, "--imatrix", imatrix, "--probe", self.folder + "/probe.txt", "--measure", "all", "--types", 2, "-o", sens)
        return make(file, hone, "quantize", self.base, "-o", file, "--sensitivity", sens, "--budget", budget, *best, *fed)


def main():
    hone, folder, out = sys.argv[1:]
    old, chunks = env("OLD", ""), env("CHUNKS", "0")
    model, asked = os.path.basename(os.path.abspath(folder)), settings(hone, old, folder)
    work = env("WORK", f"/tmp/quality-{model}-{hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:8]}")
    begin(work, asked)
    m = Model(hone, folder, work)
    steps = env("STEPS", "mix feedback block").split() + (["before"] if old else [])
    want = m.sizes(env("SIZES", " ".join(PRESETS)).split())
    domains = [t for t in ("eval.txt", "eval.jsonl", "eval_chat.txt", "man_eval.txt") if os.path.exists(folder + "/" + t)]
    suite = folder + "/tools.jsonl"
    rows = []
    for preset, (budget, peer) in want.items():
        files = [m.mix(old if s == "before" else hone, s, preset, budget) for s in steps]
        row = dict(size_of=preset, budget_bytes=budget, peer=peer and {k: peer[k] for k in ("mean_kld", "kld_p999", "same_top1_percent")})
        for s, f in zip(steps, files):
            row[s] = dict(size_bytes=os.path.getsize(f))
        for t in domains:
            res = remember(f"{work}/{preset}-{t}-{chunks}-{'-'.join(steps)}.json", hone, "eval", "kld", *files, folder + "/" + t, "--base", m.base,
                           "--chunks", chunks)
            for s, c in zip(steps, res["candidates"]):
                row[s][t] = {k: c[k] for k in ("mean_kld", "mean_kld_stderr_windows", "kld_p999", "same_top1", "ppl_ratio")}
            row.setdefault("windows", {})[t] = res["n_chunks"]
            name = {os.path.basename(f): s for s, f in zip(steps, files)}
            row.setdefault("pairs", {})[t] = [dict(a=name[os.path.basename(p["a"])], b=name[os.path.basename(p["b"])],
                                                   **{k: p[k] for k in ("diff", "diff_ci95_low", "diff_ci95_high")}) for p in res["pairs"]]
        if os.path.exists(suite) and env("TOOLS", ""):
            for s, f in zip(steps, files):
                row[s]["tools"] = remember(f"{work}/{preset}-{s}-tools-{env('TOOLS', '')}.json", hone, "eval", "tools", f, suite, "--cases", env("TOOLS", ""))
        rows.append(row)
    everything = json.load(open(out)) if os.path.exists(out) else {}
    texts = {os.path.basename(t): os.path.getsize(t) for t in m.calib}
    everything[env("ENTRY", model)] = dict(command=command(), build=asked["build"], old=asked["old"], chunks=int(chunks),
                                         types="presets" if env("PLAIN", "") else "mixes", calibration_bytes=texts, rows=rows)
    json.dump(everything, open(out, "w"), indent=1)
    show(rows, steps, domains)


def show(rows, steps, domains):
    for t in domains:
        print(f"{t}: mean divergence, its standard error over windows, and the divergence of the 99.9 % token")
        print(f"{'size of':8} {'peer':>17} " + " ".join(f"{s:>27}" for s in steps))
        for r in rows:
            p = r["peer"] if t == "eval.txt" else None
            text = f"{p['mean_kld']:9.6f} {p['kld_p999']:7.4f}" if p else f"{'':17}"
            cells = [r[s][t] for s in steps]
            print(f"{r['size_of']:8} {text} " + " ".join(f"{c['mean_kld']:9.6f} {c['mean_kld_stderr_windows']:8.6f} {c['kld_p999']:8.4f}" for c in cells))
        print("paired over windows, mean difference a - b and its 95 % interval:")
        for r in rows:
            for p in r["pairs"][t]:
                print(f"{r['size_of']:8} {p['a']} - {p['b']}: {p['diff']:.6f} ({p['diff_ci95_low']:.6f}, {p['diff_ci95_high']:.6f})")


if __name__ == "__main__":
    main()
