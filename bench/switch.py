#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Serves three files with one `hone serve` that has memory for two: requests in random order through three APIs. Fails unless
each answer equals that of a server with only that file, memory does not grow (last quarter of the requests compared with the
second), and at most two files are loaded at a time. Measures the time of a request whose file is or is not loaded.

    bench/switch.py A.gguf B.gguf C.gguf [--requests 200] [--context-memory 256MiB] [--threads N]
        [--out docs/results/switch.json]

--out adds the run to a list, replacing one with the same command. cold: the file is not loaded and its pages were dropped from
the page cache; warm: not loaded, pages cached; resident: loaded. HONE: the binary (default build/hone).
"""
import argparse, http.client, json, os, random, statistics, subprocess, sys, time
import pages

HONE = os.environ.get("HONE", "build/hone")
ASKS = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Count to ten, then stop."}], "max_tokens": 16, "temperature": 0.7, "seed": 5}),
    "messages": ("/v1/messages", {"messages": [{"role": "user", "content": "Name three rivers of Europe."}], "max_tokens": 16, "temperature": 0}),
    "ollama": ("/api/generate", {"prompt": "Once upon a time", "raw": True, "stream": False, "options": {"num_predict": 16, "seed": 3, "temperature": 1}}),
}


class Server:
    def __init__(self, paths, options):
        self.p = subprocess.Popen([HONE, "serve", *paths, "--port", "0", "--log", "off", *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = int(json.loads(self.p.stdout.readline())["url"].rsplit(":", 1)[1])

    def ask(self, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=900)
        c.request("POST" if body else "GET", path, json.dumps(body) if body else None, {"content-type": "application/json"})
        r = c.getresponse()
        text = r.read()
        c.close()
        if r.status != 200:
            sys.exit(f"{path}: {r.status} {text[:300]}")
        return json.loads(text)

    def say(self, api, model):
        path, body = ASKS[api]
        a = self.ask(path, {**body, "model": model})
        if api == "chat":
            m = a["choices"][0]["message"]
            return (m.get("reasoning_content"), m["content"])
        return a["response"] if api == "ollama" else [(x["type"], x.get("text"), x.get("thinking")) for x in a["content"]]

    def rss(self):
        """KiB of anonymous memory and of mapped files."""
        own = {l.split(":")[0]: int(l.split()[1]) for l in open(f"/proc/{self.p.pid}/status") if l.startswith(("RssAnon", "RssFile"))}
        return own["RssAnon"], own["RssFile"]

    def stop(self):
        self.p.terminate()
        if self.p.wait() != 0:
            sys.exit("the server failed at its end")


def spread(v):
    v = sorted(v)
    return {"n": len(v), "median_s": round(statistics.median(v), 4), "least_s": round(v[0], 4), "most_s": round(v[-1], 4)} if v else {"n": 0}


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("files", nargs=3)
    ap.add_argument("--requests", type=int, default=200)
    ap.add_argument("--context-memory", default="256MiB")
    ap.add_argument("--threads", default="0")
    ap.add_argument("--ctx", default="1024")
    ap.add_argument("--out")
    a = ap.parse_args()
    usual = ["--ctx", a.ctx, "--context-memory", a.context_memory] + (["--threads", a.threads] if a.threads != "0" else [])
    alone = {}
    for f in a.files:
        s = Server([f], usual)
        alone[f] = {api: s.say(api, "m") for api in ASKS}
        s.stop()
    s = Server(a.files, usual)
    needs = sorted(m["meta"]["memory_bytes"] for m in s.ask("/v1/models")["data"])
    ids = dict(zip(a.files, [m["id"] for m in s.ask("/v1/models")["data"]]))
    s.stop()
    most = needs[-1] + needs[-2] + needs[0] // 2
    rng = random.Random(1)
    s = Server(a.files, usual + ["--max-memory", str(most)])
    loaded = lambda: {m["name"] for m in s.ask("/api/ps")["models"]}
    times, rss, wrong = {"cold": [], "warm": [], "resident": []}, [], 0
    for i in range(a.requests):
        f, api = rng.choice(a.files), rng.choice(list(ASKS))
        kind = "resident" if ids[f] in loaded() else rng.choice(["cold", "warm"])
        if kind == "cold":
            pages.drop(f)
        t = time.monotonic()
        said = s.say(api, ids[f])
        times[kind].append(time.monotonic() - t)
        wrong += said != alone[f][api]
        if len(loaded()) > 2:
            sys.exit("more than two files are loaded")
        rss.append(s.rss())
    metrics = {}
    c = http.client.HTTPConnection("127.0.0.1", s.port)
    c.request("GET", "/metrics")
    for l in c.getresponse().read().decode().splitlines():
        if l.startswith("hone_model_load"):
            metrics[l.split(" ")[0]] = float(l.split(" ")[1])
    loads = sum(v for k, v in metrics.items() if "loads_total" in k)
    seconds = sum(v for k, v in metrics.items() if "load_seconds" in k)
    s.stop()
    q = a.requests // 4
    own = [x[0] for x in rss]
    second, last = statistics.mean(own[q:2 * q]), statistics.mean(own[-q:])
    out = {
        "what": "hone serve with three files and memory for two: requests in random order by three APIs (bench/switch.py)",
        "command": "bench/switch.py " + " ".join(os.path.basename(f) for f in a.files) + f" --requests {a.requests} --context-memory {a.context_memory} --threads {a.threads}",
        "commit": subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip(),
        "machine": {"cores": os.cpu_count()},
        "files": [{"file": os.path.basename(f), "size_bytes": os.path.getsize(f)} for f in a.files],
        "max_memory_bytes": most,
        "requests": a.requests,
        "wrong_answers": wrong,
        "loads": int(loads),
        "load_mean_s": round(seconds / max(loads, 1), 4),
        "seconds_of_a_request": {k: spread(v) for k, v in times.items()},
        "rss_anon_kib": {"first_quarter": round(statistics.mean(own[:q])), "second_quarter": round(second), "last_quarter": round(last), "largest": max(own),
                         "growth_first_to_last": round(last / statistics.mean(own[:q]) - 1, 4)},
        "rss_largest_kib": max(x + y for x, y in rss),
    }
    print(json.dumps(out, indent=1))
    if a.out:
        runs = json.load(open(a.out)) if os.path.exists(a.out) else []
        with open(a.out, "w") as fh:
            json.dump([r for r in runs if r["command"] != out["command"]] + [out], fh, indent=1)
            fh.write("\n")
    if wrong or last > second * 1.05 + 4096:
        sys.exit("wrong answers" if wrong else "memory grows")


if __name__ == "__main__":
    main()
