# SPDX-License-Identifier: MIT
"""bench/peers.sh's program: speed of hone and of another engine on the same files, alternating. peers.py HONE OUT.json

The engine runs in a process of its own per measurement (this file with --child), as hone does, so neither sees the other's
memory. One measurement: load, one warm-up, then the test once; ratios are of neighbouring runs."""
import argparse, json, os, statistics, subprocess, sys, time
import numpy as np


def child(path, test, n, depth, threads):
    """Seconds of one test, after a warm-up: a prompt of n tokens, or n single tokens, behind `depth` tokens."""
    import peer
    m = peer.Model(path, n_ctx=depth + n + 8, threads=threads, kv_f32=False, flash=True, n_batch=2048)
    ids = np.random.default_rng(1).integers(0, m.n_vocab, depth + n)

    def fill():
        m.clear()
        for i in range(0, depth, 2048):
            m.feed(ids[i:min(i + 2048, depth)])

    m.feed(ids[:1])
    if test == "pp":
        m.clear(); m.feed(ids[:min(n, 64)])
    fill()
    t = time.monotonic()
    if test == "pp":
        for i in range(0, n, 2048):
            m.feed(ids[depth + i:depth + min(i + 2048, n)])
    else:
        for i in range(n):
            m.feed(ids[depth + i:depth + i + 1])
    s = time.monotonic() - t
    print(json.dumps(dict(seconds=s, build=peer.build())))


def theirs(a, path, test, n, depth):
    p = subprocess.run([sys.executable, __file__, "--child", path, test, str(n), str(depth), "--threads", str(a.threads)],
                       capture_output=True, text=True, env={**os.environ, "GGML_NO_BACKTRACE": "1"})
    if p.returncode:
        raise SystemExit(p.stderr[-2000:])
    r = json.loads(p.stdout.splitlines()[-1])
    return n / r["seconds"], r


def ours(a, path, test, n, depth):
    """hone eval speed of this one test: the same number of tokens, KV in f16, one repetition. (A context is filled in prompts
    of --pp tokens, so a generation test at depth runs a prompt test too.)"""
    args = [a.hone, "eval", "speed", path, "--json", "-q", "--reps", "1", "--depths", str(depth), "--threads", str(a.threads),
            "--kv-type", "f16", "--pp", str(n if test == "pp" else min(depth, 512)), "--tg", str(n if test == "tg" else 0)]
    p = subprocess.run(args + a.flags.split(), capture_output=True, text=True)
    if p.returncode:
        raise SystemExit(p.stderr[-2000:])
    d = json.loads(p.stdout)
    row = [t for t in d["tests"] if t["test"].startswith(test) and t["depth"] == depth][0]
    return row["tok_per_s"], dict(row, bandwidth=d["bandwidth_gb_per_s"])


def measure(a, path, test, n, depth):
    pairs, row, build = [], {}, ""
    for i in range(a.pairs):
        order = [(0, ours), (1, theirs)] if i % 2 == 0 else [(1, theirs), (0, ours)]
        v = [0, 0]
        for k, f in order:
            v[k], extra = f(a, path, test, n, depth)
            if k == 0:
                row = extra
            else:
                build = extra["build"]
        pairs.append(v)
    ratio = [x / y for x, y in pairs]
    r = dict(test=f"{test}{n}", depth=depth, hone_tok_per_s=statistics.median(p[0] for p in pairs),
             peer_tok_per_s=statistics.median(p[1] for p in pairs), ratio=statistics.median(ratio), ratio_min=min(ratio),
             ratio_max=max(ratio), pairs=len(pairs))
    if test == "tg":
        r.update(bytes_per_token=row.get("bytes_per_token"), gb_per_s=row.get("gb_per_s"),
                 share_of_bandwidth=row.get("share_of_bandwidth"), bandwidth_gb_per_s=row.get("bandwidth"))
    print(f"  {r['test']:7} depth {depth:5}  hone {r['hone_tok_per_s']:9.2f}  peer {r['peer_tok_per_s']:9.2f}  "
          f"ratio {r['ratio']:.3f} ({r['ratio_min']:.3f} to {r['ratio_max']:.3f})", flush=True)
    return r, build


def main():
    p = argparse.ArgumentParser()
    p.add_argument("hone"); p.add_argument("out")
    p.add_argument("--files", nargs="+", help="RECIPE=FILE")
    p.add_argument("--tests", nargs="+", default=["pp512@0", "pp2048@0", "tg128@0", "tg128@4096"])
    p.add_argument("--pairs", type=int, default=5)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--flags", default="", help="more options of hone eval speed")
    p.add_argument("--note", default="")
    a = p.parse_args()
    doctor = json.loads(subprocess.run([a.hone, "doctor", "--json"], capture_output=True, text=True).stdout)
    doc = json.load(open(a.out)) if os.path.exists(a.out) else {}
    doc.update(command="bench/peers.sh", peer="llama-cpp-python 0.3.36", threads=a.threads, cpu=doctor.get("cpu"),
               hone_isa=doctor.get("isa"), models=doc.get("models", {}))
    for f in a.files:
        name, path = f.split("=", 1)
        print(name, os.path.getsize(path), flush=True)
        m = doc["models"].setdefault(name, dict(tests={}))
        m.update(size_bytes=os.path.getsize(path), model=a.note)
        for t in a.tests:
            test, depth = t.split("@")
            r, doc["peer_build"] = measure(a, path, test[:2], int(test[2:]), int(depth))
            m["tests"][t] = r
            json.dump(doc, open(a.out, "w"), indent=1)


if "--child" in sys.argv:
    i = sys.argv.index("--child")
    path, test, n, depth = sys.argv[i + 1:i + 5]
    child(path, test, int(n), int(depth), int(sys.argv[sys.argv.index("--threads") + 1]))
else:
    main()
