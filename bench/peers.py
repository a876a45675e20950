# SPDX-License-Identifier: MIT
"""bench/peers.sh's program: speed of hone and of another engine on the same files, alternating. peers.py HONE OUT.json ...

A group is PP:TG:DEPTHS: a prompt of PP tokens and TG single tokens, each behind every number of tokens of DEPTHS. A run is one
process that loads the file, warms up and measures a group once; the engine's runs are this file with --child. Runs alternate
and ratios are of neighbours, so what disturbs the machine for longer than a run disturbs both. ratio_at_full_bandwidth is what
the ratio would be if hone read at the bandwidth that it measures, which is of plain loads and not the machine's last byte."""
import argparse, json, os, shlex, statistics, subprocess, sys, time
import numpy as np


def child(path, pp, tg, depths, threads):
    """Tokens per second of a group: KV f16, flash attention, batch 2048, micro-batch 512: the engine's usual best."""
    import ctypes
    import llama_cpp as lc
    import peer
    n_ctx = max(depths) + max(pp, tg) + 8
    m = peer.Model(path, n_ctx=n_ctx, threads=threads, kv_f32=False, flash=True, n_batch=min(2048, n_ctx))
    ids = np.random.default_rng(1).integers(0, m.n_vocab, n_ctx)
    out = []

    def prompt(a, b):
        for i in range(a, b, 2048):
            m.feed(ids[i:min(i + 2048, b)])

    def timed(test, n, f):
        t = time.monotonic()
        f()
        out.append(dict(test=f"{test}{n}", depth=d, tok_per_s=n / (time.monotonic() - t)))

    prompt(0, pp or 1)  # warm-up: pages of the weights, threads, clocks
    for d in depths:
        m.clear()
        prompt(0, d)
        size = lc.llama_state_get_size(m.ctx)
        state = (ctypes.c_uint8 * size)()
        lc.llama_state_get_data(m.ctx, state, size)
        if pp:
            timed("pp", pp, lambda: prompt(d, d + pp))
        m.clear()
        lc.llama_state_set_data(m.ctx, state, size)
        if tg:
            timed("tg", tg, lambda: [m.feed(ids[d + i:d + i + 1]) for i in range(tg)])
    print(json.dumps(dict(tests=out, build=peer.build())))


def command(a, args):
    p = subprocess.run(a.run + args, capture_output=True, text=True, env={**os.environ, "GGML_NO_BACKTRACE": "1"})
    if p.returncode:
        raise SystemExit(f"{args}: {p.stderr[-2000:]}")
    return json.loads(p.stdout[p.stdout.index("{"):])


def theirs(a, path, pp, tg, depths):
    return command(a, [sys.executable, __file__, "--child", path, pp, tg, depths, str(a.threads)])


def ours(a, path, pp, tg, depths):
    return command(a, [a.hone, "eval", "speed", path, "--json", "-q", "--reps", "1", "--depths", depths, "--threads",
                       str(a.threads), "--kv-type", "f16", "--pp", pp, "--tg", tg] + a.flags)


def group(a, path, spec):
    """All tests of a group: {"pp512@0": row}; and what the engine says of its build."""
    pairs = []
    for i in range(a.pairs):
        first, second = (ours, theirs) if i % 2 == 0 else (theirs, ours)
        x = first(a, path, *spec.split(":"))
        y = second(a, path, *spec.split(":"))
        pairs.append((x, y) if i % 2 == 0 else (y, x))
    rows = {}
    for k, t in enumerate(pairs[0][1]["tests"]):
        def value(side):
            return [r for r in side["tests"] if r["test"] == t["test"] and r["depth"] == t["depth"]][0]
        mine, their = [value(p[0])["tok_per_s"] for p in pairs], [value(p[1])["tok_per_s"] for p in pairs]
        ratio = [x / y for x, y in zip(mine, their)]
        r = dict(test=t["test"], depth=t["depth"], hone_tok_per_s=statistics.median(mine), peer_tok_per_s=statistics.median(their),
                 ratio=statistics.median(ratio), ratio_min=min(ratio), ratio_max=max(ratio), pairs=len(pairs))
        if t["test"].startswith("tg"):
            v = [value(p[0]) for p in pairs]
            peer = [t * x["bytes_per_token"] * 1e-9 / p[0]["bandwidth_gb_per_s"] for t, x, p in zip(their, v, pairs)]
            r.update(bytes_per_token=v[0]["bytes_per_token"], gb_per_s=statistics.median(x["gb_per_s"] for x in v),
                     share_of_bandwidth=statistics.median(x["share_of_bandwidth"] for x in v),
                     bandwidth_gb_per_s=statistics.median(p[0]["bandwidth_gb_per_s"] for p in pairs),
                     peer_share_of_bandwidth=statistics.median(peer), ratio_at_full_bandwidth=1 / statistics.median(peer))
        rows[f"{t['test']}@{t['depth']}"] = r
        print(f"  {r['test']:7} depth {r['depth']:5}  hone {r['hone_tok_per_s']:9.2f}  peer {r['peer_tok_per_s']:9.2f}  "
              f"ratio {r['ratio']:.3f} ({r['ratio_min']:.3f} to {r['ratio_max']:.3f})  "
              f"{100 * r.get('share_of_bandwidth', 0):.0f} % of bandwidth, peer "
              f"{100 * r.get('peer_share_of_bandwidth', 0):.0f} %", flush=True)
    return rows, pairs[0][1]["build"]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("hone"); p.add_argument("out")
    p.add_argument("--file", help="RECIPE=FILE")
    p.add_argument("--groups", default="512:128:0,4096 2048:0:0")
    p.add_argument("--pairs", type=int, default=5)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--run", default="", help="a command that each measurement runs under")
    p.add_argument("--flags", default="", help="more options of hone eval speed")
    p.add_argument("--model", default="")
    a = p.parse_args()
    a.run, a.flags = shlex.split(a.run), shlex.split(a.flags)
    doctor = json.loads(subprocess.run([a.hone, "doctor", "--json"], capture_output=True, text=True).stdout)
    doc = json.load(open(a.out)) if os.path.exists(a.out) else {}
    doc.update(command="bench/peers.sh", peer="llama-cpp-python 0.3.36", cpu=doctor["cpu"], hone_isa=doctor["isa"], threads=a.threads)
    name, path = a.file.split("=", 1)
    m = doc.setdefault("models", {}).setdefault(name, {})
    m.update(model=a.model, size_bytes=os.path.getsize(path))
    print(f"{a.model} {name}: {m['size_bytes']} bytes, {doctor['isa']}, {a.threads} threads", flush=True)
    for spec in a.groups.split():
        rows, doc["peer_build"] = group(a, path, spec)
        m.setdefault("tests", {}).update(rows)
        json.dump(doc, open(a.out, "w"), indent=1)


if sys.argv[1] == "--child":
    path, pp, tg, depths, threads = sys.argv[2:7]
    child(path, int(pp), int(tg), [int(x) for x in depths.split(",")], int(threads))
else:
    main()
