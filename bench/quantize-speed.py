# SPDX-License-Identifier: MIT
"""Times the quantizers for bench/quantize-speed.sh. Each run is a separate process that reads in.gguf and writes one file.
Records wall time and processor time of the quantizing call (hone: processor time of the whole process). The ratio of processor
times remains comparable while other programs run."""
import argparse, json, os, resource, shlex, statistics, subprocess, sys, time


def child(src, dst, ftype, threads):
    import peer
    before = resource.getrusage(resource.RUSAGE_SELF)
    s = peer.quantize(src, dst, ftype, threads)
    after = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps(dict(seconds=s, cpu_seconds=after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)))


def run(a, args):
    """Runs a command and returns its output, processor time and peak memory."""
    p = subprocess.Popen(a.run + args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    out = p.stdout.read()
    _, status, use = os.wait4(p.pid, 0)
    if status:
        raise SystemExit(f"{args}: exit {status}")
    return out, use.ru_utime + use.ru_stime, use.ru_maxrss * 1024


def theirs(a, recipe):
    out, _, _ = run(a, [sys.executable, __file__, "--child", a.src, a.dir + "/peer.gguf", recipe, str(a.threads)])
    r = json.loads(out.splitlines()[-1])
    return r["seconds"], r["cpu_seconds"], 0


def ours(a, recipe, search):
    out, cpu, rss = run(a, [a.hone, "quantize", a.src, "-o", a.dir + "/hone.gguf", "--recipe", recipe, "--search", search,
                            "--threads", str(a.threads), "--json", "-q", "-f"])
    return json.loads(out)["seconds"], cpu, rss


def main():
    p = argparse.ArgumentParser()
    p.add_argument("hone"); p.add_argument("dir"); p.add_argument("out")
    p.add_argument("--recipes", nargs="+")
    p.add_argument("--pairs", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--search", nargs="+", default=["fast"])
    p.add_argument("--run", default="")
    a = p.parse_args()
    a.src, a.run = a.dir + "/in.gguf", shlex.split(a.run)
    doc = json.load(open(a.out)) if os.path.exists(a.out) else {}
    doctor = json.loads(subprocess.run([a.hone, "doctor", "--json"], capture_output=True, text=True).stdout)
    doc.update(command="bench/quantize-speed.sh", peer="llama-cpp-python 0.3.36", cpu=doctor["cpu"], isa=doctor["isa"],
               threads=a.threads, source_bytes=os.path.getsize(a.src),
               note="on a machine that others used at the same time, the ratio of processor times is the steadier number")
    for r in a.recipes:
        mine, peer, size = {k: [] for k in a.search}, [], {}
        for i in range(a.pairs):
            if i % 2:
                peer.append(theirs(a, r))
            for k in a.search:
                mine[k].append(ours(a, r, k))
                size[k] = os.path.getsize(a.dir + "/hone.gguf")
            if i % 2 == 0:
                peer.append(theirs(a, r))
        for k in a.search:
            row(doc.setdefault(k, {}), a, r, k, list(zip(mine[k], peer)), size[k])
        json.dump(doc, open(a.out, "w"), indent=1)


def row(rows, a, recipe, search, pairs, size):
    ratio = [y[0] / x[0] for x, y in pairs]
    rows[recipe] = x = dict(
        hone_seconds=statistics.median(x[0] for x, _ in pairs), peer_seconds=statistics.median(y[0] for _, y in pairs),
        speedup=statistics.median(ratio), speedup_min=min(ratio), speedup_max=max(ratio),
        speedup_cpu_time=statistics.median(y[1] / x[1] for x, y in pairs), hone_cpu_seconds=statistics.median(x[1] for x, _ in pairs),
        peer_cpu_seconds=statistics.median(y[1] for _, y in pairs), hone_max_rss_bytes=max(x[2] for x, _ in pairs),
        pairs=len(pairs), hone_bytes=size, peer_bytes=os.path.getsize(a.dir + "/peer.gguf"))
    print(f"{recipe:8} {search:5} {x['hone_seconds']:8.2f} s  peer {x['peer_seconds']:8.2f} s  speed-up {x['speedup']:.2f} "
          f"({x['speedup_min']:.2f} to {x['speedup_max']:.2f}), by processor time {x['speedup_cpu_time']:.2f} "
          f"({x['hone_cpu_seconds']:.1f} against {x['peer_cpu_seconds']:.1f} s), {x['hone_max_rss_bytes'] >> 20} MiB", flush=True)


if sys.argv[1] == "--child":
    child(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
else:
    main()
