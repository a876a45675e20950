#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""First measurements on a GPU lent for minutes: each job of hone on the bundled model, then on four layers of Qwen3.5-35B-A3B.

    bench/cuda_day.py [STEP...] [--total 540] [--out DIR]          (bench/cuda.sh day)

A step that exceeds its limit, or the remaining part of --total, is ended and recorded. OUT/cuda-day.json is rewritten after
each step: command, seconds, exit status, busy processors, mean GPU use, peak GPU memory, and the JSON it printed.
OUT/cuda-day.log: other output. Without arguments all steps run, in order. HONE: the program (build/hone). FIRST: the built
bench/cuda_first. BLAS: bench/blas. DIR: scratch folder for about 20 GB (default /dev/shm if it exists). The steps kld and
probes are left out if exact products are below 1000 tokens/s. Standard library only.
"""
import argparse, json, os, re, shutil, subprocess, sys, tempfile, threading, time
from http.client import HTTPConnection

HONE = os.environ.get("HONE", "build/hone")
T = "tests/golden/tiny-qwen35moe"
TEXT = T + "/self_eval.txt"
CALIB = T + "/self_calib.txt"


class Gpu(threading.Thread):
    """Samples GPU use and memory five times a second."""

    def __init__(self, device):
        super().__init__(daemon=True)
        self.rows = []
        if not device.startswith("cuda") or not shutil.which("nvidia-smi"):
            return
        self.p = subprocess.Popen(["nvidia-smi", "--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits", "-lms", "200"], stdout=subprocess.PIPE, text=True)
        self.start()

    def run(self):
        for line in self.p.stdout:
            m = re.findall(r"\d+", line)
            if len(m) == 2:
                self.rows.append((time.time(), int(m[0]), int(m[1])))

    def between(self, a, b):
        rows = [r for r in self.rows if a <= r[0] <= b]
        return {"gpu_percent": round(sum(r[1] for r in rows) / len(rows)), "gpu_mib": max(r[2] for r in rows)} if rows else {}


class Day:
    def __init__(self, a):
        self.out, self.end, self.device = a.out, time.time() + a.total, a.device
        self.dir = tempfile.mkdtemp(dir=os.environ.get("DIR") or ("/dev/shm" if os.path.isdir("/dev/shm") else None))
        self.shape, self.layers = a.shape, a.layers
        self.rows, self.slow, self.doc = [], False, {"device": self.device}
        os.makedirs(self.out, exist_ok=True)
        self.log = open(os.path.join(self.out, "cuda-day.log"), "a", buffering=1)
        self.gpu = Gpu(a.device)

    def path(self, name):
        return os.path.join(self.dir, name)

    def save(self, row):
        self.rows.append(row)
        with open(os.path.join(self.out, "cuda-day.json"), "w") as f:
            json.dump({**self.doc, "steps": self.rows}, f, indent=1)
        keys = ("name", "seconds", "exit", "cores", "gpu_percent", "gpu_mib", "short")
        print("  ".join(str(row[k]) for k in keys if k in row), flush=True)

    def left(self, limit):
        return min(limit, self.end - time.time())

    def do(self, name, limit, command, short=None):
        """Runs a command and returns its JSON, or None."""
        n = self.left(limit)
        row = {"name": name, "command": " ".join(command)}
        if n < 3:
            return self.save({**row, "skipped": True})
        begin, used = time.time(), sum(os.times()[2:4])
        p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            out, err = p.communicate(timeout=n)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, 9)
            out, err = p.communicate()
            row["cut_off"] = True
        n = time.time() - begin
        row |= {"seconds": round(n, 2), "exit": p.returncode, "cores": round((sum(os.times()[2:4]) - used) / n, 1), **self.gpu.between(begin, time.time())}
        doc = None
        try:
            doc = row["json"] = json.loads(out) if out.strip() else None
        except ValueError:
            row["printed"] = out[-2000:]
        if p.returncode:
            row["said"] = err[-1500:]
        said = re.findall(r".*(?:by the CPU|on the CPU|do not fit|does not fit).*", err)
        if said:
            row["by_cpu"] = said[:8]
        if short and doc and not p.returncode:
            try:
                row["short"] = short(doc)
            except (KeyError, IndexError, TypeError) as x:
                row["short"] = repr(x)
        self.log.write(f"== {name}: {row['command']}\n{err}\n{out if 'printed' in row else ''}\n")
        self.save(row)
        return doc if not p.returncode else None

    def hone(self, name, limit, *args, device=None, short=None):
        v = [] if args[0] in ("doctor", "synth") else ["-v"]
        return self.do(name, limit, [HONE, *args, "--device", device or self.device, "--json", *v], short)


def speeds(j):
    return ", ".join(f"{r['test']} {r['tok_per_s']:.0f}" for r in j["tests"])


def losses(j):
    return ", ".join(f"{m['mean_kld']:.6f}" for m in j["candidates"])


def step_first(d):
    if os.environ.get("FIRST"):
        d.do("single kernels", 40, [os.environ["FIRST"]])
    else:
        d.do("single kernels", 300, ["make", "-s", "bench-cuda-first"])


def plain(d, name, device, *more):
    return d.hone(name, 60, "make", T, "-o", d.path(name.replace(" ", "-")), "--plain", "--recipe", "Q8_0,Q4_K_M", "--chunks", "4", "--tg", "16", "--reps", "1", *more, device=device)


def step_tiny(d):
    """Checks that each job runs on the device and agrees with the CPU."""
    base = d.path("base.gguf")
    d.hone("convert", 20, "convert", T, "-o", base)
    for on, device in (("device", d.device), ("cpu", "cpu")):
        plain(d, "make plain " + on, device)
        im, gram = d.path(f"im-{on}.gguf"), d.path(f"gram-{on}.gguf")
        d.hone("imatrix " + on, 30, "imatrix", base, CALIB, "-o", im, "--chunks", "16", device=device)
        d.hone("imatrix --gram " + on, 40, "imatrix", base, CALIB, "-o", d.path("im2.gguf"), "-f", "--gram", gram, "--chunks", "16", device=device)
        for recipe in ("Q4_K_M", "IQ3_S"):
            d.hone(f"quantize {recipe} {on}", 30, "quantize", base, "-o", d.path(f"{recipe}-{on}.gguf"), "--recipe", recipe, "--search", "best", "--imatrix", d.path("im-device.gguf"), device=device)
        d.hone("kld " + on, 30, "eval", "kld", d.path("Q4_K_M-device.gguf"), d.path("IQ3_S-device.gguf"), TEXT, "--base", base, "--chunks", "8", device=device, short=losses)
        d.hone("sensitivity " + on, 60, "sensitivity", base, "--imatrix", d.path("im-device.gguf"), "--probe", TEXT, "-o", d.path(f"s-{on}.json"), "--types", "1", "--chunks", "4", device=device)
    for recipe in ("Q4_K_M", "IQ3_S"):
        a, b = (d.path(f"{recipe}-{on}.gguf") for on in ("device", "cpu"))
        d.do(f"same bytes {recipe}", 10, ["cmp", a, b])
    made = [d.path(f"make-plain-{on}/tiny-qwen35moe-Q8_0.gguf") for on in ("device", "cpu")]
    d.hone("kld of make's files", 30, "eval", "kld", *made, TEXT, "--base", base, "--chunks", "8", device="cpu", short=losses)
    plain(d, "make plain little memory", d.device, "--max-vram", "24MiB")


def step_files(d):
    d.hone("synth", 90, "synth", "--arch-from", d.shape, "--layers", str(d.layers), "--tokenizer", T, "--recipe", "BF16", "-o", d.path("x.gguf"))
    d.hone("quantize two", 60, "quantize", d.path("x.gguf"), "-o", d.path("x-{}.gguf"), "--recipe", "Q4_K_M,Q8_0")


def step_speed(d):
    for act in ("q8", "f32"):
        for name in ("x-Q4_K_M", "x"):
            j = d.hone(f"speed {name} {act}", 30, "eval", "speed", d.path(name + ".gguf"), "--act", act, "--pp", "2048", "--tg", "16", "--reps", "1", short=speeds)
            if act == "f32" and name == "x-Q4_K_M" and j:
                d.slow = min(r["tok_per_s"] for r in j["tests"] if "pp" in r["test"]) < 1000
    d.hone("speed x-Q4_K_M f32 by the CPU", 30, "eval", "speed", d.path("x-Q4_K_M.gguf"), "--act", "f32", "--pp", "512", "--tg", "0", "--reps", "1", device="cpu", short=speeds)


def kld(d, name, *more, device=None, chunks="4"):
    d.hone(name, 50, "eval", "kld", d.path("x-Q4_K_M.gguf"), d.path("x-Q8_0.gguf"), TEXT, "--base", d.path("x.gguf"), "--chunks", chunks, *more, device=device, short=losses)


def step_kld(d):
    if not d.slow:
        kld(d, "kld of four layers")
        kld(d, "kld with little memory", "--max-vram", "6GiB")
        kld(d, "kld by the CPU", device="cpu", chunks="1")


def ask(port, n, cancel=False, **more):
    c = HTTPConnection("127.0.0.1", port, timeout=60)
    body = {"prompt": "Once upon a time " * 8, "max_tokens": n, "seed": 1, "stream": True, "stream_options": {"include_usage": True}, **more}
    c.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
    r, n = c.getresponse(), 0
    while line := r.readline():
        if cancel and line.startswith(b"data: {"):
            break
        if m := re.search(rb'"completion_tokens": *(\d+)', line):
            n = int(m[1])
    c.close()
    return n


def step_serve(d):
    for name, options in (("serve", []), ("serve greedy", ["--temp", "0"])):
        n = d.left(40)
        if n < 5:
            return d.save({"name": name, "skipped": True})
        begin, row = time.time(), {"name": name, "tok_per_s": {}}
        p = subprocess.Popen([HONE, "serve", d.path("x-Q4_K_M.gguf"), "--device", d.device, "--port", "0", "--parallel", "8", "--log", "off", *options], stdout=subprocess.PIPE, stderr=d.log, text=True)
        stop = threading.Timer(n, p.kill)
        stop.start()
        try:
            port = int(json.loads(p.stdout.readline())["url"].rsplit(":", 1)[1])
            row["ready_s"] = round(time.time() - begin, 1)
            ask(port, 8)
            for clients in (1, 4, 8):
                got, at = [], time.time()
                ts = [threading.Thread(target=lambda: got.append(ask(port, 128))) for _ in range(clients)]
                [t.start() for t in ts]
                [t.join() for t in ts]
                row["tok_per_s"][clients] = round(sum(got) / (time.time() - at), 1)
            ask(port, 128, cancel=True)
            p.terminate()
            row["exit"] = p.wait(20)
        except (ValueError, OSError, subprocess.TimeoutExpired) as x:
            row["failed"] = repr(x)
            p.kill()
        stop.cancel()
        row |= {"seconds": round(time.time() - begin, 1), **d.gpu.between(begin, time.time()), "short": row["tok_per_s"]}
        d.save(row)


def step_probes(d):
    if d.slow:
        return
    d.hone("imatrix of four layers", 40, "imatrix", d.path("x.gguf"), CALIB, "-o", d.path("xim.gguf"), "--chunks", "8")
    common = ("--imatrix", d.path("xim.gguf"), "--probe", TEXT, "--bands", "1", "--types", "1", "--chunks", "2", "--time", "40s")
    d.hone("sensitivity of four layers", 70, "sensitivity", d.path("x.gguf"), *common, "-o", d.path("xs.json"))
    d.hone("sensitivity with little memory", 50, "sensitivity", d.path("x.gguf"), *common, "--max-vram", "6GiB", "-o", d.path("xs2.json"))
    d.hone("imatrix --gram of four layers", 50, "imatrix", d.path("x.gguf"), CALIB, "-o", d.path("xim2.gguf"), "--gram", d.path("xgram.gguf"), "--chunks", "2")


def step_search(d):
    """Runs each search on the gates of a block's experts (268 M weights), with the rest in Q8_0; two of the searches
    also with all processors."""
    im = ("--imatrix", d.path("xim.gguf")) if os.path.exists(d.path("xim.gguf")) else ()

    def one(name, device, type, search):
        d.hone(f"search {type} {search} {name}", 60, "quantize", d.path("x.gguf"), "-o", d.path(name + ".gguf"), "-f", "--type", "Q8_0", "--tensor", "^blk[.]0[.]ffn_gate_exps=" + type, *im, "--search", search, device=device)

    one("device", d.device, "Q8_0", "fast")
    for type, search in (("Q4_K", "best"), ("IQ3_S", "best")):
        one("device", d.device, type, search)
        one("cpu", "cpu", type, search)
        d.do(f"same bytes {type} {search}", 20, ["cmp", d.path("device.gguf"), d.path("cpu.gguf")])
    for type, search in (("IQ3_S", "fast"), ("IQ2_XS", "best"), ("IQ2_XXS", "best"), ("Q3_K", "best"), ("IQ4_XS", "best")):
        one("device", d.device, type, search)


def fed(d, name, base, *more):
    """Encodes tensors with error feedback on the device and by the CPU, and compares the bytes."""
    for on, device in (("device", d.device), ("cpu", "cpu")):
        d.hone(f"feedback {name} {on}", 90, "quantize", base, "-o", d.path(f"fed-{on}.gguf"), "-f", "--type", "BF16", *more, device=device, short=lambda j: f"{j['n_feedback']} fed, {j.get('n_cuda', 0)} on the device, {j['seconds']:.1f} s")
    d.do(f"same bytes feedback {name}", 20, ["cmp", d.path("fed-device.gguf"), d.path("fed-cpu.gguf")])


def step_feedback(d):
    """Error feedback of the bundled model's second block, then of the experts' gates and downs of one layer."""
    base, one, im, gram = d.path("base.gguf"), d.path("one.gguf"), d.path("fim.gguf"), d.path("fgram.gguf")
    if not os.path.exists(base):
        d.hone("convert", 20, "convert", T, "-o", base)
    d.hone("moments", 60, "imatrix", base, CALIB, "-o", im, "-f", "--gram", gram, "--ctx", "256", "--chunks", "9", device="cpu")
    for type in ("Q4_K", "Q3_K", "Q5_0"):
        fed(d, type, base, "--imatrix", im, "--gram", gram, "--tensor", "^blk[.]1[.](attn|ssm|ffn_[a-z]*_shexp).*=" + type)
    if d.layers < 1:
        return
    d.hone("synth one layer", 40, "synth", "--arch-from", d.shape, "--layers", "1", "--tokenizer", T, "--recipe", "BF16", "-o", one)
    d.hone("moments of one layer", 90, "imatrix", one, CALIB, "-o", im, "-f", "--gram", gram, "--chunks", "16", device="cpu")
    for type in ("Q4_K", "Q6_K"):
        fed(d, type + " gates", one, "--imatrix", im, "--gram", gram, "--tensor", "^blk[.]0[.]ffn_gate_exps=" + type)
    fed(d, "Q4_K downs", one, "--imatrix", im, "--gram", gram, "--tensor", "^blk[.]0[.]ffn_down_exps=Q4_K")


def step_blas(d):
    """Compares float products with numpy's BLAS, each on one thread. BLAS is the path of the built bench/blas."""
    if os.environ.get("BLAS"):
        d.do("blas", 30, [sys.executable, "bench/blas.py", os.environ["BLAS"]])


def step_sanitize(d):
    base = d.path("base.gguf")
    for what, args in (("kld", ("eval", "kld", d.path("Q4_K_M-device.gguf"), TEXT, "--base", base, "--chunks", "1")), ("sensitivity", ("sensitivity", base, "--imatrix", d.path("im-device.gguf"), "--probe", TEXT, "-o", d.path("s3.json"), "--types", "1", "--chunks", "1", "--bands", "1"))):
        d.do("memcheck of " + what, 60, ["compute-sanitizer", "--error-exitcode", "9", HONE, *args, "--device", d.device, "--json"])


def step_whole(d):
    d.hone("make whole", 150, "make", T, "-o", d.path("whole"), "--recipe", "Q4_K_M", "--time", "20m", "--chunks", "16", "--tg", "16", "--reps", "1")


STEPS = [step_first, step_files, step_speed, step_serve, step_kld, step_probes, step_tiny, step_feedback, step_blas, step_whole, step_search, step_sanitize]


def main():
    p = argparse.ArgumentParser()
    names = [s.__name__[5:] for s in STEPS]
    p.add_argument("step", nargs="*", choices=[[], *names], default=[])
    p.add_argument("--total", type=float, default=540)
    p.add_argument("--out", default=os.environ.get("OUT", "docs/results"))
    p.add_argument("--device", default=os.environ.get("DEVICE", "cuda"))
    p.add_argument("--shape", default="Qwen3.5-35B-A3B")
    p.add_argument("--layers", type=int, default=4, help="layers of the shape; 0: feedback of the bundled model only")
    a = p.parse_args()
    d = Day(a)
    d.doc["machine"] = d.hone("doctor", 30, "doctor")
    for s in STEPS:
        if not a.step or s.__name__[5:] in a.step:
            s(d)
    shutil.rmtree(d.dir, ignore_errors=True)


if __name__ == "__main__":
    main()
