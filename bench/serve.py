#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`hone serve` compared with other servers: same file, machine and requests, one server at a time.

    bench/serve.py MODEL.gguf [--peer PYTHON] [--llama-server PATH] [--name NAME] [--rows decode,ttft,...] [--runs 5] [--minutes
    M] [--out FILE.json]

--peer: a Python with llama-cpp-python[server]. --llama-server: the program. Without them their columns are missing. Results are
added to FILE under NAME after each unit (one row of one server): median, minimum and maximum of the runs. Units already in FILE
are skipped; a row that failed or exceeded --limit seconds is recorded with the reason, and retried with --again. --minutes:
stops with status 75 if more is left than fits, so `while bench/serve.py ...; [ $? -eq 75 ]; do :; done` runs it in parts.
Standard library only.
"""
import argparse, http.client, json, os, random, signal, socket, statistics, subprocess, sys, tempfile, threading, time

MORE = 75  # exit status: not enough time for all units

WORDS = "time year people way day man thing woman life child world school state family student group country problem hand part place case week company system".split()


def text(rng, n):
    """A text of about n tokens."""
    return " ".join(rng.choice(WORDS) for _ in range(n))


class Answer:
    first = first_byte = total = None
    n_out = n_prompt = 0
    longest = 0.0  # between two pieces
    text = ""


class Limit:
    """The deadline of the current row."""

    at = float("inf")

    @classmethod
    def left(cls):
        if time.monotonic() > cls.at:
            raise TimeoutError("the row took too long")
        return min(1200, max(1, cls.at - time.monotonic()))


def ask(port, path, body, on_first=None):
    a, begin = Answer(), time.monotonic()
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=Limit.left())
    c.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    r = c.getresponse()
    if r.status != 200:
        raise RuntimeError(f"{path}: {r.status} {r.read()[:300]}")
    if not body.get("stream"):
        j = json.loads(r.read())
        a.n_out, a.n_prompt = j["usage"]["completion_tokens"], j["usage"]["prompt_tokens"]
        m = j["choices"][0].get("message", {})
        a.text = j["choices"][0].get("text") or m.get("content") or ""
    last = None
    while body.get("stream") and Limit.left():
        line = r.readline()
        now = time.monotonic() - begin
        a.first_byte = a.first_byte or now
        if not line or line.startswith(b"data: [DONE]"):
            break
        if not line.startswith(b"data: {"):
            continue
        j = json.loads(line[6:])
        for ch in j.get("choices", []):
            d = ch.get("delta", {})
            piece = ch.get("text") or d.get("content") or d.get("reasoning_content") or ""
            a.text += d.get("content") or ""
            if not piece:
                continue
            if a.first is None:
                a.first = now
                if on_first:
                    on_first()
            a.longest = max(a.longest, now - last) if last else 0.0
            last = now
            a.n_out += 1
    a.total = time.monotonic() - begin
    c.close()
    return a


class Server:
    def __init__(self, kind, cmd, port):
        self.kind, self.cmd, self.port = kind, cmd, port
        self.start()

    def start(self):
        kind, cmd, port = self.kind, self.cmd, self.port
        self.p = subprocess.Popen(cmd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        for _ in range(1200):
            try:
                c = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                c.request("GET", "/v1/models")
                if c.getresponse().status == 200:
                    return
            except OSError:
                pass
            if self.p.poll() is not None:
                raise RuntimeError(f"{kind} ended with {self.p.returncode}")
            time.sleep(0.1)
        raise RuntimeError(f"{kind} does not begin")

    def rss(self):
        with open(f"/proc/{self.p.pid}/status") as f:
            return next(int(x.split()[1]) * 1024 for x in f if x.startswith("VmRSS"))

    def stop(self):
        os.killpg(self.p.pid, signal.SIGINT)
        try:
            self.p.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.p.pid, signal.SIGKILL)
            self.p.wait()


def parallel(fns):
    out = [None] * len(fns)

    def run(i):
        try:
            out[i] = fns[i]()
        except (RuntimeError, OSError, http.client.HTTPException) as e:
            out[i] = e

    ts = [threading.Thread(target=run, args=(i,)) for i in range(len(fns))]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    for x in out:
        if isinstance(x, Exception):
            raise x
    return out


# ---- rows: each returns {name: seconds or tokens per second} ----


def row_decode(s, a, rng):
    out = {}
    for n in a.clients:
        bodies = [{"prompt": text(rng, a.n_in), "max_tokens": a.n_out, "temperature": 0} for _ in range(n)]
        begin = time.monotonic()
        done = parallel([lambda b=b: ask(s.port, "/v1/completions", b) for b in bodies])
        out[f"tokens_per_s_{n}_clients"] = sum(x.n_out for x in done) / (time.monotonic() - begin)
    return out


def metric(s, name):
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    c.request("GET", "/metrics")
    found = [x.split()[1] for x in c.getresponse().read().decode().splitlines() if x.startswith(name + " ")]
    c.close()
    return float(found[0]) if found else 0.0


def row_repeat(s, a, rng):
    """An answer that repeats earlier text, as in edited code, so that hone can draft the tokens that followed there."""
    said = text(rng, 40)
    before = [metric(s, f"hone_draft_{x}_total") for x in ("tokens", "right")] if s.kind == "hone" else []
    begin = time.monotonic()
    r = ask(s.port, "/v1/completions", {"prompt": " ".join([said] * 4), "max_tokens": 2 * a.n_out, "temperature": 0, "stream": True, "ignore_eos": True})
    out = {"repeat_tokens_per_s": 2 * a.n_out / (time.monotonic() - begin)}
    if before:
        guessed, right = (metric(s, f"hone_draft_{x}_total") - b for x, b in zip(("tokens", "right"), before))
        out |= {"repeat_guessed": guessed, "repeat_right": right}
    return out


def row_draft(s, a, rng):
    """Compares drafts on and off: two servers at once get requests in turn, twelve for a repetitive text and twelve for
    a random one."""
    if s.kind != "hone":
        return {}
    said, both = text(rng, 40), {}
    prompts = {"repeat": " ".join([said] * 4), "plain": text(rng, 100)}
    took = {(how, what): [] for how in ("auto", "off") for what in prompts}
    try:
        for how in ("auto", "off"):
            port = free_port()
            cmd = [str(port) if x == str(s.port) else x for x in s.cmd]
            cmd[cmd.index("--cache-dir") + 1] += how
            both[how] = Server("hone", cmd + ["--draft", how], port)
        for turn in range(14):
            for what, prompt in prompts.items():
                for how in rng.sample(list(both), 2):
                    body = {"prompt": prompt, "max_tokens": 64, "temperature": 0 if what == "repeat" else 1, "seed": turn, "stream": True, "ignore_eos": True}
                    r = ask(both[how].port, "/v1/completions", body)
                    if turn > 1:  # before that, the cost of passes is not known
                        took[how, what].append((r.total - r.first) / 63)
    finally:
        for x in both.values():
            x.stop()
    out = {f"draft_{how}_{what}_tokens_per_s": 1 / statistics.median(v) for (how, what), v in took.items()}
    gain = lambda what: statistics.median([off / auto for auto, off in zip(took["auto", what], took["off", what])])
    return out | {f"draft_gain_{what}": gain(what) for what in prompts}


def chat(s, talk, n, **more):
    return ask(s.port, "/v1/chat/completions", {"messages": talk, "max_tokens": n, "temperature": 0, "stream": True, "ignore_eos": True, **more})


def row_ttft(s, a, rng):
    head = [{"role": "system", "content": text(rng, 2000)}]
    say = lambda: [{"role": "user", "content": text(rng, 12)}]
    talk = head + say()
    cold = chat(s, talk, 8)
    talk += [{"role": "assistant", "content": cold.text or "Yes."}] + say()
    same = chat(s, talk, 8)
    chat(s, say(), 8)  # another client in between
    other = chat(s, head + say(), 8)
    step = chat(s, say(), 16)
    return {"cold_2k_s": cold.first, "same_conversation_s": same.first, "other_conversation_s": other.first, "one_step_s": (step.total - step.first) / max(1, step.n_out - 1) if step.first else None}


def row_restart(s, a, rng):
    """Time to the first token after a 2000-word prefix that the server knew before it restarted."""
    head = [{"role": "system", "content": text(rng, 2000)}]
    chat(s, head + [{"role": "user", "content": text(rng, 12)}], 2)
    s.stop()
    s.start()
    ask(s.port, "/v1/completions", {"prompt": "Warm.", "max_tokens": 4})
    return {"after_restart_s": chat(s, head + [{"role": "user", "content": text(rng, 12)}], 2).first}


def row_loop(s, a, rng):
    """Twenty steps; each appends the last answer and 60 new tokens."""
    talk = [{"role": "system", "content": text(rng, 1000)}, {"role": "user", "content": text(rng, 40)}]
    begin = time.monotonic()
    for _ in range(20):
        r = chat(s, talk, 24)
        talk += [{"role": "assistant", "content": r.text or "Yes."}, {"role": "user", "content": text(rng, 60)}]
    return {"loop_20_steps_s": time.monotonic() - begin}


def row_beside(s, a, rng):
    """A long prompt arrives during four streams: measures the streams' longest pause and the prompt's time."""
    came, go = [0], threading.Event()

    def first():
        came[0] += 1
        if came[0] == 4:
            go.set()

    def stream(i):
        body = {"prompt": text(random.Random(i), 64), "max_tokens": a.beside_out, "temperature": 0, "stream": True, "ignore_eos": True}
        return ask(s.port, "/v1/completions", body, first)

    def long():
        go.wait(Limit.left())
        return ask(s.port, "/v1/completions", {"prompt": text(rng, a.long), "max_tokens": 1, "temperature": 0, "stream": True})

    done = parallel([lambda i=i: stream(i) for i in range(4)] + [long])
    return {f"longest_pause_beside_{a.long}_s": max(x.longest for x in done[:4]), f"prompt_{a.long}_beside_4_s": done[4].total}


def row_first_byte(s, a, rng):
    return {"first_byte_s": chat(s, [{"role": "user", "content": text(rng, 12)}], 2).first_byte}


def row_rss(s, a, rng):
    held = lambda: metric(s, "hone_context_bytes") / 2**20 if s.kind == "hone" else 0.0
    before, held_before = s.rss(), held()
    for _ in range(100):
        ask(s.port, "/v1/chat/completions", {"messages": [{"role": "user", "content": text(rng, 60)}], "max_tokens": 8, "temperature": 0})
    out = {"rss_mib": s.rss() / 2**20, "rss_growth_100_conversations_mib": (s.rss() - before) / 2**20}
    if s.kind == "hone":  # --context-memory limits the part of it that is cached
        out["rss_growth_beyond_context_memory_mib"] = out["rss_growth_100_conversations_mib"] - (held() - held_before)
    return out


def row_form(s, a, rng):
    """Time per token with a schema of 30 fields, compared with free text."""
    props = {f"field_{i}": {"type": ["string", "integer", "boolean"][i % 3], **({"maxLength": 8} if i % 3 == 0 else {"maximum": 99} if i % 3 == 1 else {})} for i in range(30)}
    schema = {"type": "object", "properties": props, "required": list(props), "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
    if s.kind == "llama-cpp-python":
        form = {"type": "json_object", "schema": schema}
    talk, out = [{"role": "user", "content": text(rng, 20)}], {}
    for name, more in (("free", {}), ("form", {"response_format": form})):
        body = {"messages": talk, "max_tokens": a.n_out, "temperature": 0, **more}
        if s.kind == "hone":
            body["reasoning_budget_tokens"] = 0  # the other servers do not reason if there is a schema
        begin = time.monotonic()
        r = ask(s.port, "/v1/chat/completions", body)
        out[f"{name}_tokens_per_s"] = r.n_out / (time.monotonic() - begin)
    return out


ROWS = {"decode": row_decode, "ttft": row_ttft, "restart": row_restart, "loop": row_loop, "beside": row_beside, "first_byte": row_first_byte, "repeat": row_repeat, "draft": row_draft, "rss": row_rss, "form": row_form}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def commands(a, kept):
    port, n = free_port(), str(a.ctx)
    yield "hone", [a.hone, "serve", a.model, *a.hone_flags.split(), "--port", str(port), "--ctx", n, "--parallel", "16", "--threads", str(a.threads), "--log", "off", "--context-memory", a.context_memory, "--cache-dir", kept], port
    if a.peer:
        port = free_port()
        yield "llama-cpp-python", [a.peer, "-m", "llama_cpp.server", "--model", a.model, "--port", str(port), "--n_ctx", n, "--n_threads", str(a.threads), "--n_threads_batch", str(a.threads)], port
    if a.llama_server:
        port = free_port()
        yield "llama-server", [a.llama_server, "-m", a.model, "--port", str(port), "-c", n, "-t", str(a.threads), "-np", "16", "--jinja", "--cache-reuse", "256", "-fa", "on", "--kv-unified"], port


class Units:
    """The results. They are saved after each unit (one row of one server), so that a later call can resume."""

    def __init__(self, a):
        self.a, self.all, self.begin = a, {}, time.monotonic()
        if a.out and os.path.exists(a.out):
            with open(a.out) as f:
                self.all = json.load(f)
        self.me = self.all.setdefault(a.name, {})
        self.raw = self.me.setdefault("units", {})

    def missing(self, kind):
        for row in self.a.rows.split(","):
            for run in range(1 if row == "rss" else self.a.runs):
                was = self.raw.get(f"{kind} {row} {run}")
                if was is None or (self.a.again and "failed" in was):
                    yield row, run

    def fits(self, kind, row):
        """Returns whether the unit will end in the time left. The first one is always tried."""
        took = [v["took_s"] for k, v in self.raw.items() if k.startswith(f"{kind} {row} ")]
        return not self.a.minutes or time.monotonic() - self.begin + max(took, default=0) < 60 * self.a.minutes

    def add(self, kind, row, run, got, took):
        shown = {k: v if isinstance(v, str) else float(f"{v:.4g}") for k, v in got.items() if v is not None}
        self.raw[f"{kind} {row} {run}"] = {"took_s": round(took, 1), **shown}
        print(f"{self.a.name:12} {kind:18} {row:10} {run}  {took:6.1f} s  {self.raw[f'{kind} {row} {run}']}", flush=True)
        self.save()

    def save(self):
        table = {}
        for k, v in self.raw.items():
            for name, x in v.items():
                if name not in ("took_s", "failed"):
                    table.setdefault(name, {}).setdefault(k.split()[0], []).append(x)
        for name, kinds in table.items():
            self.me[name] = {k: {"median": float(f"{statistics.median(v):.4g}"), "least": min(v), "most": max(v), "runs": len(v)} for k, v in kinds.items()}
        a = self.a
        self.me["how"] = {"threads": a.threads, "ctx": a.ctx, "n_in": a.n_in, "n_out": a.n_out, "long": a.long, "size_bytes": os.path.getsize(a.model)}
        if a.out:
            with open(a.out + ".tmp", "w") as f:
                json.dump(self.all, f, indent=1)
                f.write("\n")
            os.replace(a.out + ".tmp", a.out)


def measure(u, kind, cmd, port):
    """Runs the missing units. Returns False if time ran out."""
    todo = list(u.missing(kind))
    if not todo:
        return True
    s = Server(kind, cmd, port)
    Limit.at = time.monotonic() + u.a.limit
    try:
        ask(port, "/v1/completions", {"prompt": "Warm.", "max_tokens": 4})
        for i, (row, run) in enumerate(todo):
            if i and not u.fits(kind, row):
                return False
            begin = time.monotonic()
            Limit.at = begin + u.a.limit
            try:
                got = ROWS[row](s, u.a, random.Random(f"{row} {run}"))
            except (RuntimeError, OSError, http.client.HTTPException) as e:
                got = {"failed": f"{type(e).__name__}: {e}"[:300]}
            Limit.at = float("inf")
            u.add(kind, row, run, got, time.monotonic() - begin)
            if "failed" in got:  # it may still be computing
                s.stop()
                s.start()
    finally:
        s.stop()
    return True


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--hone", default="build/hone")
    p.add_argument("--hone-flags", default="", help="of hone serve, too")
    p.add_argument("--peer")
    p.add_argument("--llama-server")
    p.add_argument("--only", help="of the servers, this one")
    p.add_argument("--name", default="model")
    p.add_argument("--rows", default=",".join(ROWS))
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--minutes", type=float, default=0, help="of this call; 0: until all is measured")
    p.add_argument("--limit", type=float, default=600, help="seconds of a row, once")
    p.add_argument("--again", action="store_true", help="try again what failed")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--ctx", type=int, default=36864)
    p.add_argument("--context-memory", default="4GiB")
    p.add_argument("--clients", type=lambda s: [int(x) for x in s.split(",")], default=[1, 4, 16])
    p.add_argument("--n-in", type=int, default=256)
    p.add_argument("--n-out", type=int, default=256)
    p.add_argument("--long", type=int, default=16000, help="words of a long prompt, 1.25 tokens each")
    p.add_argument("--beside-out", type=int, default=256)
    p.add_argument("--out")
    a = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no server is left running
    u = Units(a)
    with tempfile.TemporaryDirectory() as kept:
        for kind, cmd, port in commands(a, kept):
            if a.only and a.only != kind:
                continue
            if not measure(u, kind, cmd, port) or (list(u.missing(kind)) and not u.fits(kind, "")):
                sys.exit(MORE)


main()
