# SPDX-License-Identifier: MIT
"""Speed of hone and other engines on the same files, in alternating runs; called by bench/peers.sh. peers.py HONE OUT.json ...

A group is PP:TG:DEPTHS:PAIRS: a prompt of PP tokens and TG single tokens (0: none), each after every depth of DEPTHS tokens,
measured PAIRS times. A run is one process that loads the file, warms up and measures a group once. For PyPI's packages
(llama-cpp-python; ik-llama-cpp-python with --ik) this process is this file with --child; a llama-bench given by --bench runs
once per test. Runs alternate and each ratio is of two neighbouring runs, so that a disturbance longer than a run affects both.
Groups already in OUT are skipped unless --again. ratio_at_full_bandwidth: the ratio if hone read at the measured bandwidth,
which is that of plain loads and not the machine's maximum. --states keeps a package's caches at each depth and reuses them for
all files of the same shape: filling them takes long, and the time of a token does not depend on their content."""
import argparse, json, os, shlex, statistics, subprocess, sys, time


def load(engine, path, n_ctx, threads):
    """A model in an engine with the settings usually best for it: KV f16, flash attention, batch 2048, micro-batch
    512."""
    if engine == "ik":
        import peer_ik
        return peer_ik, peer_ik.Model(path, n_ctx, threads, min(2048, n_ctx))
    import peer
    return peer, peer.Model(path, n_ctx=n_ctx, threads=threads, kv_f32=False, flash=True, n_batch=min(2048, n_ctx))


def child(engine, path, pp, tg, depths, threads, states):
    """Tokens per second of a group."""
    import numpy as np
    module, m = load(engine, path, max(depths) + max(pp, tg) + 8, threads)
    ids = np.random.default_rng(1).integers(0, m.n_vocab, max(depths) + max(pp, tg) + 8)
    out = []

    def prompt(a, b):
        for i in range(a, b, 2048):
            m.feed(ids[i:min(i + 2048, b)])

    def filled(d):
        """Fills the context's caches with d tokens."""
        m.clear()
        kept = os.path.join(states, f"{engine}-{d}.state") if states and d else ""
        if kept and os.path.exists(kept):
            state = open(kept, "rb").read()
            if m.restore(state):
                return state
            m.clear()
        prompt(0, d)
        state = m.state()
        if kept:
            with open(kept, "wb") as f:
                f.write(state)
        return state

    def timed(test, n, f):
        t = time.monotonic()
        f()
        out.append(dict(test=f"{test}{n}", depth=d, tok_per_s=n / (time.monotonic() - t)))

    prompt(0, pp or 1)  # warm-up: pages of the weights, threads, clocks
    for d in depths:
        state = filled(d)
        if pp:
            timed("pp", pp, lambda: prompt(d, d + pp))
        m.restore(state)
        if tg:
            m.feed(ids[d:d + 1])  # caches are cold for the first token
            m.restore(state)
            timed("tg", tg, lambda: [m.feed(ids[d + i:d + i + 1]) for i in range(tg)])
    print(json.dumps(dict(tests=out, build=module.build())))


def command(a, args):
    p = subprocess.run(a.run + args, capture_output=True, text=True, env={**os.environ, "GGML_NO_BACKTRACE": "1"})
    if p.returncode:
        raise SystemExit(f"{args}: {p.stderr[-2000:]}")
    return p.stdout


def by_package(engine):
    def by(a, path, pp, tg, depths):
        args = [a.ik if engine == "ik" else sys.executable, __file__, "--child", engine, path, pp, tg, depths, str(a.threads), a.states]
        got = json.loads(command(a, args).splitlines()[-1])
        a.builds[engine] = got["build"]
        return got["tests"]
    return by


def by_hone(a, path, pp, tg, depths):
    text = command(a, [a.hone, "eval", "speed", path, "--json", "-q", "--reps", "1", "--depths", depths, "--threads",
                       str(a.threads), "--kv-type", "f16", "--pp", pp, "--tg", tg] + a.flags)
    return json.loads(text[text.index("{"):])["tests"]


def by_bench(a, path, pp, tg, depths):
    """Any llama-bench, with the best settings that its help lists. That of ik_llama.cpp sets the depth with -gp, that
    of llama.cpp with -d."""
    text = subprocess.run([a.bench, "--help"], capture_output=True, text=True)
    text = text.stdout + text.stderr
    base = [a.bench, "-m", path, "-t", str(a.threads), "-r", "1", "-o", "json"]
    for flag in ("-fa", "-fmoe", "-rtr"):
        base += [flag, "1"] if flag + "," in text or flag + " " in text else []
    out = []
    for d in depths.split(","):
        for test, n in (("pp", pp), ("tg", tg)):
            if n == "0":
                continue
            if d == "0":
                args = ["-p", n, "-n", "0"] if test == "pp" else ["-p", "0", "-n", n]
            elif test == "tg" and "-gp" in text:
                args = ["-p", "0", "-n", "0", "-gp", f"{d},{n}"]
            elif "-d," in text:
                args = ["-p", n, "-n", "0", "-d", d] if test == "pp" else ["-p", "0", "-n", n, "-d", d]
            else:
                continue  # it cannot measure prompts at depth
            got = command(a, base + args)
            row = json.loads(got[got.index("["):])[-1]
            a.builds["bench"] = f"{row.get('build_commit')} ({row.get('build_number')}), {row.get('cpu_info')}"
            out.append(dict(test=test + n, depth=int(d), tok_per_s=row["avg_ts"]))
    return out


ENGINES = {"hone": by_hone, "peer": by_package("peer"), "ik": by_package("ik"), "bench": by_bench}


def middle(x, digits=2):
    return round(statistics.median(x), digits)


def row_of(test, depth, runs):
    """Makes a test's row from its runs ({engine: [row of each pair]})."""
    of = {who: [t for r in rows for t in r if (t["test"], t["depth"]) == (test, depth)] for who, rows in runs.items()}
    mine = of.pop("hone")
    r = dict(test=test, depth=depth, pairs=len(mine), hone_tok_per_s=middle(x["tok_per_s"] for x in mine))
    for who, their in of.items():
        if not their:
            continue
        ratio = [x["tok_per_s"] / y["tok_per_s"] for x, y in zip(mine, their)]
        name = "" if who == "peer" else who + "_"
        r.update({who + "_tok_per_s": middle(y["tok_per_s"] for y in their), name + "ratio": middle(ratio, 3),
                  name + "ratio_min": round(min(ratio), 3), name + "ratio_max": round(max(ratio), 3)})
        if mine[0].get("bytes_per_token"):
            share = [y["tok_per_s"] * x["bytes_per_token"] / x["gb_per_s"] * x["share_of_bandwidth"] * 1e-9 for x, y in zip(mine, their)]
            r.update({who + "_share_of_bandwidth": middle(share, 3), name + "ratio_at_full_bandwidth": round(1 / statistics.median(share), 2)})
    if mine[0].get("bytes_per_token"):
        r.update(bytes_per_token=mine[0]["bytes_per_token"], gb_per_s=middle(x["gb_per_s"] for x in mine),
                 share_of_bandwidth=middle((x["share_of_bandwidth"] for x in mine), 3))
    return r


def names(spec):
    pp, tg, depths, _ = spec
    return [f"{t}{n}@{d}" for d in depths.split(",") for t, n in (("pp", pp), ("tg", tg)) if n != "0"]


def left(a, have, spec):
    return not all(e + "_tok_per_s" in have.get(t, {}) for t in names(spec) for e in a.engines)


def group(a, path, spec):
    """All tests of a group: {"pp512@0": row}."""
    pp, tg, depths, pairs = spec
    who, runs = list(a.engines), {e: [] for e in a.engines}
    for i in range(int(pairs)):
        for e in who if i % 2 == 0 else who[::-1]:
            runs[e].append(ENGINES[e](a, path, pp, tg, depths))
    rows = {}
    for t in runs["hone"][0]:
        r = rows[f"{t['test']}@{t['depth']}"] = row_of(t["test"], t["depth"], runs)
        print(f"  {r['test']:7} depth {r['depth']:5}", *(f" {e} {r[e + '_tok_per_s']:9.2f}" for e in a.engines if e + "_tok_per_s" in r),
              *(f" {k} {v}" for k, v in r.items() if "ratio" in k and "full" not in k),
              f" {100 * r['share_of_bandwidth']:.0f} % of bandwidth" if "share_of_bandwidth" in r else "", flush=True)
    return rows


def said(a, doc):
    """The command that measures the results again: bench/peers.sh with its settings. RECIPES may have been set in several
    runs, so it names all models."""
    given = {k: os.environ.get(k) for k in ("LAYERS", "SHAPE", "THREADS", "SETS", "IK", "FLAGS", "LLAMA_BENCH")}
    given["RECIPES"] = " ".join(doc["models"]) if os.environ.get("RECIPES") else None
    given["PEER_VENV"] = "none" if a.no_peer else None
    words = [f"{k}={shlex.quote(os.path.basename(v) if k == 'LLAMA_BENCH' else v)}" for k, v in given.items() if v]
    return " ".join([*words, "bench/peers.sh", a.out])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("hone"); p.add_argument("out")
    p.add_argument("--file", help="RECIPE=FILE")
    p.add_argument("--groups", default="512:128:0,4096:5 2048:0:0:5")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--run", default="", help="a command that each measurement runs under")
    p.add_argument("--flags", default="", help="more options of hone eval speed")
    p.add_argument("--bench", default="", help="a llama-bench")
    p.add_argument("--ik", default="", help="a Python with ik_llama_cpp")
    p.add_argument("--no-peer", action="store_true", help="without the package")
    p.add_argument("--states", default="")
    p.add_argument("--model", default="")
    p.add_argument("--until", type=float, default=0, help="seconds since 1970; a group begins before that, else the exit status is 75")
    p.add_argument("--again", action="store_true")
    p.add_argument("--left", action="store_true", help="measure nothing; the exit status is 0 if something is left to do, 3 if not")
    a = p.parse_args()
    a.run, a.flags, a.builds = shlex.split(a.run), shlex.split(a.flags), {}
    a.engines = ["hone"] + ([] if a.no_peer else ["peer"]) + (["ik"] if a.ik else []) + (["bench"] if a.bench else [])
    specs = [(s.split(":") + ["1"])[:4] for s in a.groups.split()]
    name, path = a.file.split("=", 1)
    if a.left:
        have = json.load(open(a.out))["models"].get(name, {}).get("tests", {}) if os.path.exists(a.out) else {}
        return 0 if a.again or any(left(a, have, spec) for spec in specs) else 3
    doctor = json.loads(subprocess.run([a.hone, "doctor", "--json"], capture_output=True, text=True, check=True).stdout)
    doc = json.load(open(a.out)) if os.path.exists(a.out) else {}
    set_up = dict(command="bench/peers.sh", cpu=doctor["cpu"], hone_isa=doctor["isa"], threads=a.threads, flags=" ".join(a.flags))
    for k in ("cpu", "threads", "flags"):
        if doc.get("models") and k in doc and doc[k] != set_up[k]:
            raise SystemExit(f"{a.out} was measured with {k} {doc[k]}, not {set_up[k]}: give another file")
    doc.update(set_up)
    m = doc.setdefault("models", {}).setdefault(name, {})
    if m.get("model", a.model) != a.model:
        raise SystemExit(f"{a.out} has {name} of {m['model']}, not of {a.model}: give another file")
    m.update(model=a.model, size_bytes=os.path.getsize(path))
    print(f"{a.model} {name}: {m['size_bytes']} bytes, {doctor['isa']}, {a.threads} threads", flush=True)
    for spec in specs:
        have = m.setdefault("tests", {})
        if not a.again and not left(a, have, spec):
            continue
        if a.until and time.time() > a.until:
            return 75
        have.update(group(a, path, spec))
        doc.setdefault("builds", {}).update(a.builds)
        doc["command"] = said(a, doc)
        with open(a.out + ".new", "w") as f:
            json.dump(doc, f, indent=1)
            f.write("\n")
        os.replace(a.out + ".new", a.out)
    return 0


if sys.argv[1] == "--child":
    engine, path, pp, tg, depths, threads, states = sys.argv[2:9]
    child(engine, path, int(pp), int(tg), [int(x) for x in depths.split(",")], int(threads), states)
else:
    sys.exit(main())
