#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs hours of mixed traffic against `hone serve`: every API, streams, schemas, calls, invalid requests, clients that
disconnect at random.

Fails unless memory is flat after the warm-up (a fifth of the time), descriptors are too, and nothing is left running or
waiting.

    bench/serve_soak.py MODEL.gguf [--seconds 7200] [--clients 12] [--pause 0] [--cache-disk MIB] [--out
    docs/results/serve-soak.json]

--cache-disk: uses a new cache folder of that many MiB. Prompts then share longer prefixes, and all clients rest for three
seconds of each minute, in which the server writes.
"""
import argparse, http.client, json, os, random, subprocess, sys, tempfile, threading, time

SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer", "maximum": 30}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]

REST_S = 3  # of each minute


def request(rng, long):
    """The path and body of a random request; most requests are valid. long: half of the prompts start with one of sixty
    long prefixes."""
    words = rng.randrange(200, 260, 4) if long and rng.random() < 0.5 else rng.randrange(60)
    head = f"You are number {rng.randrange(4)}. " + "Be brief. " * words
    say = rng.choice(["What is the weather in Oslo?", "Tell me about tables.", "Add two and two. " * rng.randrange(1, 40)])
    talk = [{"role": "system", "content": head}, {"role": "user", "content": say}]
    for i in range(rng.randrange(4)):
        talk += [{"role": "assistant", "content": f"Answer {i}."}, {"role": "user", "content": say}]
    n, seed, stream = rng.randrange(1, 120), rng.randrange(1000), rng.random() < 0.5
    usual = {"max_tokens": n, "seed": seed, "stream": stream, "temperature": rng.choice([0, 0.7, 1])}
    kind = rng.randrange(12)
    if kind < 4:
        return "/v1/chat/completions", {"messages": talk, **usual, "n": rng.choice([1, 1, 1, 3])}
    if kind == 4:
        return "/v1/chat/completions", {"messages": talk, **usual, "tools": TOOLS, "tool_choice": rng.choice(["auto", "required"])}
    if kind == 5:
        return "/v1/completions", {"prompt": say, **usual, "logprobs": rng.randrange(5), "echo": rng.random() < 0.5}
    if kind == 6:
        return "/v1/messages", {"messages": talk[1:], "system": head, "max_tokens": n, "stream": stream}
    if kind == 7:
        return "/v1/responses", {"input": say, "instructions": head, "max_output_tokens": n, "stream": stream}
    if kind == 8:
        return "/api/chat", {"messages": talk, "stream": stream, "options": {"num_predict": n}}
    if kind == 9:
        return "/v1/chat/completions", {"messages": talk, **usual, "response_format": {"type": "json_schema", "json_schema": {"name": "w", "schema": SCHEMA}}}
    if kind == 10:
        return "/tokenize", {"content": say * 20}
    return "/v1/chat/completions", rng.choice([{}, {"messages": 1}, {"messages": talk, "temperature": 1000}, {"messages": talk, "n": -1}])


class Client(threading.Thread):
    def __init__(self, soak, i):
        super().__init__(daemon=True)
        self.soak, self.rng = soak, random.Random(i)

    def run(self):
        while time.monotonic() < self.soak.end:
            if self.soak.a.pause:
                time.sleep(self.rng.expovariate(1 / self.soak.a.pause))
            if self.soak.a.cache_disk:
                time.sleep(max(0, REST_S - time.monotonic() % 60))
            try:
                self.one()
            except (OSError, http.client.HTTPException) as e:
                self.soak.count(f"error {type(e).__name__}")

    def one(self):
        path, body = request(self.rng, self.soak.a.cache_disk)
        c = http.client.HTTPConnection("127.0.0.1", self.soak.port, timeout=900)
        c.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        leave = self.rng.random() < 0.2
        if leave and self.rng.random() < 0.5:
            time.sleep(self.rng.random() / 4)
            self.soak.count("left early")
        else:
            r = c.getresponse()
            if leave:
                r.read(self.rng.randrange(2000))
                self.soak.count("left later")
            else:
                r.read()
                self.soak.count(r.status)
        c.close()


class Soak:
    def __init__(self, a):
        self.a, self.lock, self.counts = a, threading.Lock(), {}
        cmd = [a.hone, "serve", a.model, "--port", "0", "--ctx", "4096", "--context-memory", "32MiB" if a.cache_disk else "64MiB", "--log", "off", "--threads", str(a.threads)]
        self.folder = tempfile.TemporaryDirectory()
        if a.cache_disk:
            cmd += ["--cache-dir", self.folder.name, "--cache-disk", f"{a.cache_disk}MiB"]
        self.server = subprocess.Popen(cmd, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.port = int(json.loads(self.server.stdout.readline())["url"].rsplit(":", 1)[1].rstrip("/"))
        self.end = time.monotonic() + a.seconds

    def count(self, what):
        with self.lock:
            self.counts[str(what)] = self.counts.get(str(what), 0) + 1

    def metrics(self):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        c.request("GET", "/metrics")
        text = c.getresponse().read().decode()
        c.close()
        return {k: float(v) for k, v in (line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")}

    def disk_bytes(self):
        n = 0
        for at, _, names in os.walk(self.folder.name):
            for name in names:
                try:
                    n += os.path.getsize(os.path.join(at, name))
                except FileNotFoundError:  # the server evicted it meanwhile
                    pass
        return n

    def state(self):
        pid = self.server.pid
        with open(f"/proc/{pid}/status") as f:
            rss = next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
        m = self.metrics()
        return {"rss_kib": rss, "descriptors": len(os.listdir(f"/proc/{pid}/fd")), "context_bytes": m["hone_context_bytes"], "disk_bytes": self.disk_bytes()}

    def run(self):
        clients = [Client(self, i) for i in range(self.a.clients)]
        for c in clients:
            c.start()
        warm, samples, begin, stopped = None, [], time.monotonic(), 0
        while time.monotonic() < self.end:
            time.sleep(min(5, max(0.1, self.a.seconds / 60)))
            s = self.state()
            samples.append({"s": round(time.monotonic() - begin), **s})
            gap = samples[-1]["s"] - samples[-2]["s"] if len(samples) > 1 else 0
            stopped += gap if gap > 30 else 0  # this program and the server were suspended for a while
            if warm is None and time.monotonic() - begin > self.a.seconds / 5:
                warm = len(samples)
        for c in clients:
            c.join(150)
        for _ in range(100):
            m = self.metrics()
            if m["hone_requests_running"] + m["hone_requests_waiting"] == 0 and m["hone_connections"] <= 1:
                break
            time.sleep(0.1)
        last = self.state()
        self.server.terminate()
        rc = self.server.wait(60)
        later = samples[warm:]
        third = max(1, len(later) // 3)
        mean = lambda v: sum(x["rss_kib"] for x in v) / len(v)
        growth = mean(later[-third:]) / mean(later[:third]) - 1
        out = {
            "what": "hone serve under mixed traffic with clients that leave at random (bench/serve_soak.py)",
            "seconds": self.a.seconds, "of_them_stopped": round(stopped), "clients": self.a.clients, "pause_s": self.a.pause, "requests": sum(self.counts.values()), "ends": dict(sorted(self.counts.items())),
            "rss_kib": {"after_warm_up": later[0]["rss_kib"], "largest": max(x["rss_kib"] for x in later), "last": last["rss_kib"], "growth_of_means": round(growth, 5)},
            "rss_kib_over_time": " ".join(f'{x["s"]}s:{x["rss_kib"]}' for x in samples[:: max(1, len(samples) // 40)]),
            "descriptors": {"after_warm_up_most": max(x["descriptors"] for x in later), "idle_at_end": last["descriptors"]},
            "running_at_end": m["hone_requests_running"], "waiting_at_end": m["hone_requests_waiting"], "connections_at_end": m["hone_connections"],
            "cancelled": m["hone_requests_cancelled_total"], "evictions": m["hone_cache_evictions_total"], "preemptions": m["hone_preemptions_total"],
            "tokens": m["hone_output_tokens_total"], "exit": rc,
        }
        if self.a.cache_disk:
            out["disk"] = {"mib": self.a.cache_disk, "largest_bytes": max(x["disk_bytes"] for x in samples), **{k: m[f"hone_disk_cache_{k}_total"] for k in ("loaded", "saved", "refused")}}
        kept = not self.a.cache_disk or (out["disk"]["largest_bytes"] <= self.a.cache_disk << 20 and out["disk"]["loaded"] and out["disk"]["saved"])
        out["ok"] = bool(kept and rc == 0 and growth <= 0.01 and m["hone_requests_running"] + m["hone_requests_waiting"] == 0 and last["descriptors"] <= 16
                         and not any(k.startswith(("error", "5")) for k in self.counts))
        return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--hone", default="build/hone")
    p.add_argument("--seconds", type=float, default=7200)
    p.add_argument("--clients", type=int, default=12)
    p.add_argument("--pause", type=float, default=0, help="mean seconds that a client waits before a request")
    p.add_argument("--cache-disk", type=int, default=0, metavar="MIB")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--out")
    a = p.parse_args()
    out = Soak(a).run()
    text = json.dumps(out, indent=1)
    print(text)
    if a.out:
        with open(a.out, "w") as f:
            f.write(text + "\n")
    sys.exit(not out["ok"])


main()
