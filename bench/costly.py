#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Time between the tokens of plain answers in `hone serve`, alone and while clients send costly grammars:

    python3 bench/costly.py HONE MODEL.gguf [SECONDS] (standard library only). Prints JSON.

A hostile client sends its next request as soon as it gets an answer or an error. Each grammar has a new text, so the server's
cache of compiled grammars never helps. The first mask of each grammar is cheap, later ones are costly.
"""
import http.client
import json
import re
import subprocess
import sys
import threading
import time

hone, model = sys.argv[1:3]
seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 10
serial = [0]


def ways(n):  # one character, then n optional characters: n continuations
    return 'root ::= [a-z] ' + " ".join('"%c"?' % (97 + i % 26) for i in range(n))


def counted(n):  # nested counts
    return "root ::= [a-z] ([a-z]{1,%d} [0-9]{1,%d} ){1,%d}" % (n, n, n)


def masks(n):  # many alternatives that differ only at the end
    return "root ::= [a-z] (" + " | ".join('[a-z]{%d} "%d"' % (i, i) for i in range(1, n)) + ")"


KINDS = {"ways": lambda: ways(1500), "counted": lambda: counted(3000), "masks": lambda: masks(400)}


def stream(port, stop, gaps, first):
    """A plain client: streams answers and records the time between chunks."""
    while not stop.is_set():
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        body = {"prompt": "The cat sat on", "max_tokens": 400, "stream": True, "ignore_eos": True, "temperature": 0}
        c.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        r = c.getresponse()
        last = None
        for line in r:
            if not line.startswith(b"data:"):
                continue
            now = time.perf_counter()
            if last is not None and first.is_set():
                gaps.append(now - last)
            last = now
            if stop.is_set():
                break
        c.close()


def attack(port, stop, counts, kind):
    while not stop.is_set():
        serial[0] += 1
        g = KINDS[kind]().replace("root ::=", "# %d\nroot ::=" % serial[0], 1)
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            c.request("POST", "/v1/completions", json.dumps({"prompt": "x", "max_tokens": 40, "grammar": g, "temperature": 1.5, "top_k": 0}),
                      {"Content-Type": "application/json"})
            status = c.getresponse().status
        except OSError:
            status = 0
        counts[status] = counts.get(status, 0) + 1
        c.close()


def trial(port, kind, n_hostile):
    stop, first = threading.Event(), threading.Event()
    gaps, counts = [], {}
    threads = [threading.Thread(target=stream, args=(port, stop, gaps, first)) for _ in range(2)]
    threads += [threading.Thread(target=attack, args=(port, stop, counts, kind)) for _ in range(n_hostile)]
    for t in threads:
        t.start()
    time.sleep(1)
    first.set()
    time.sleep(seconds)
    stop.set()
    for t in threads:
        t.join()
    gaps.sort()
    ms = lambda q: round(1000 * gaps[min(len(gaps) - 1, int(q * len(gaps)))], 2)
    return {"tokens": len(gaps), "p50_ms": ms(.5), "p99_ms": ms(.99), "p999_ms": ms(.999), "max_ms": round(1000 * gaps[-1], 1), "hostile_requests": counts}


server = subprocess.Popen([hone, "serve", model, "--port", "0", "--ctx", "1024", "--parallel", "8", "--threads", "1", "--context-memory", "256MiB"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
try:
    port = int(re.search(r"127\.0\.0\.1:(\d+)", server.stdout.readline()).group(1))
    out = {"alone": trial(port, "ways", 0)}
    for kind in KINDS:
        for n in (1, 4):
            out["%s, %d hostile" % (kind, n)] = trial(port, kind, n)
    print(json.dumps(out, indent=2))
finally:
    server.terminate()
    server.wait()
