#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/http/trial.py PROGRAM PORT - tests an HTTP library's behaviour on the five points of the comparison.

The program answers /hello at once, /slow after 20 s, /flood without end, and prints `gone KIND TIME` when a client disconnects.
Prints one JSON object."""
import json, socket, statistics, subprocess, sys, threading, time

program, port = sys.argv[1], int(sys.argv[2])
server = subprocess.Popen([program, str(port)], stdout=subprocess.PIPE, text=True)
lines = []
threading.Thread(target=lambda: [lines.append(l.split()) for l in server.stdout], daemon=True).start()
while ["ready"] not in lines:
    time.sleep(0.01)


def connect():
    s = socket.create_connection(("127.0.0.1", port))
    s.settimeout(3)
    return s


def rss():
    with open(f"/proc/{server.pid}/status") as f:
        return next(int(l.split()[1]) * 1024 for l in f if l.startswith("VmRSS"))


def ask(data):
    s = connect()
    out = b""
    try:
        s.sendall(data)
        while len(out) < 200:
            got = s.recv(4096)
            if not got:
                break
            out += got
            if b"data: hello" in out:
                break
    except socket.timeout:
        out = out or b"(nothing)"
    except OSError:
        pass
    s.close()
    return out.split(b"\r\n")[0].decode("latin-1") or "(closed)"


get = b"GET /hello HTTP/1.1\r\nHost: localhost\r\n"
r = {"program": program.rsplit("/", 1)[-1], "plain": ask(get + b"\r\n")}

times = []
for i in range(200):
    s = connect()
    t = time.perf_counter()
    s.sendall(get + b"\r\n")
    got = b""
    while b"hello" not in got:
        got += s.recv(4096)
    times.append(time.perf_counter() - t)
    s.close()
r["first_event_ms"] = {"median": round(1e3 * statistics.median(times), 2), "max": round(1e3 * max(times), 2)}

r["refusals"] = {}
for name, data in {
    "bare LF": b"GET /hello HTTP/1.1\nHost: localhost\n\n",
    "obs-fold": get + b"X-A: 1\r\n  2\r\n\r\n",
    "space before colon": get + b"X-A : 1\r\n\r\n",
    "length and chunked": b"POST /hello HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"POST /hello HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    "length +5": b"POST /hello HTTP/1.1\r\nHost: localhost\r\nContent-Length: +5\r\n\r\nabcde",
    "unknown coding": b"POST /hello HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "NUL in header": get + b"X-A: a\0b\r\n\r\n",
    "control in header": get + b"X-A: a\x01b\r\n\r\n",
    "no Host": b"GET /hello HTTP/1.1\r\n\r\n",
    "two Hosts": get + b"Host: other\r\n\r\n",
    "absolute form, other host": b"GET http://other/hello HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "version 1.7": b"GET /hello HTTP/1.7\r\nHost: localhost\r\n\r\n",
    "33 KiB of headers": get + b"".join(b"X-%d: %s\r\n" % (i, b"y" * 300) for i in range(110)) + b"\r\n",
    "chunk size of letters": b"POST /hello HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n",
    "chunked (to be taken)": b"POST /hello HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
}.items():
    r["refusals"][name] = ask(data)

s = connect()
s.sendall(get.replace(b"hello", b"slow") + b"\r\n")
time.sleep(1.0)
n = len(lines)
t = time.time()
s.close()
while len(lines) == n and time.time() - t < 5:
    time.sleep(0.01)
r["leave_seen_s"] = round(float(lines[n][2]) - t, 3) if len(lines) > n else None

time.sleep(0.2)
before = rss()
slow = connect()
slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
slow.sendall(get.replace(b"hello", b"flood") + b"\r\n")
worst = 0
for i in range(5):
    slow.recv(1)
    t = time.perf_counter()
    ask(get + b"\r\n")
    worst = max(worst, time.perf_counter() - t)
    time.sleep(1)
r["slow_reader"] = {"grown_bytes": rss() - before, "others_worst_ms": round(1e3 * worst, 1)}
slow.close()

time.sleep(0.2)
before = rss()
idle = [connect() for i in range(1000)]
for s in idle:
    s.sendall(get + b"\r\n")
for s in idle:
    s.recv(4096)
time.sleep(1)
r["idle_1000_bytes"] = rss() - before
r["alive"] = server.poll() is None
server.kill()
json.dump(r, sys.stdout, indent=1)
print()
