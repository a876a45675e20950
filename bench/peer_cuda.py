#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Speed of llama.cpp's CUDA backend on one GGUF file, measured like llama-bench: peer_cuda.py --libs FOLDER MODEL.gguf
[options]

FOLDER: libllama, libggml, libggml-base, libggml-cpu and libggml-cuda from PyPI's package cyllama-cuda12 0.7.0, and the
libraries that libggml-cuda needs besides the driver: libcudart.so.12, libcublas.so.12, libcublasLt.so.12. Standard library
only. All layers are on the first GPU with flash attention. Prints one JSON document on standard output, progress on standard
error. With --out the document is also written to a file after every measurement, so an interrupted run keeps its results.
Rates are in tokens per second.

  pp      prompts of each length of --pp with each micro-batch of --ubatch; "pp": the best median per length, "pp_runs": all of
          them
  tg      --n single tokens after each depth of --depths; "tg" reads the logits of every token (llama_get_logits_ith, as a
  sampler does), "tg_wait" only waits for every token, as llama-bench does
  --kv    type of the caches, f16 or q8_0        --reps  repetitions of each measurement (5); the median is reported
  --cpu   run on the CPU, to try the program without a GPU. --vocab: number of token ids, for files without a vocabulary.

Tokens are random ids, so files without a vocabulary (hone synth) will do. An uncounted warm-up precedes each measurement; in it
the driver compiles kernels that the library has only as PTX. That takes long the first time; with CUDA_CACHE_PATH and
CUDA_CACHE_MAXSIZE the result is kept. The depth is filled once; its state is kept in memory and restored before every
repetition.
"""
import argparse, ctypes, glob, json, os, random, statistics, sys, time

I32, U32, F32, BOOL, P, SIZE = ctypes.c_int32, ctypes.c_uint32, ctypes.c_float, ctypes.c_bool, ctypes.c_void_p, ctypes.c_size_t
TYPES = {"f16": 1, "q8_0": 8}


class ModelParams(ctypes.Structure):
    """llama_model_params of llama.cpp b11669."""
    _fields_ = [("devices", P), ("buft_overrides", P), ("n_gpu_layers", I32), ("split_mode", I32), ("load_mode", I32), ("lazy_mode", I32), ("main_gpu", I32),
                ("tensor_split", P), ("progress", P), ("progress_data", P), ("kv_overrides", P), ("vocab_only", BOOL), ("check_tensors", BOOL),
                ("use_extra_bufts", BOOL), ("no_host", BOOL), ("no_alloc", BOOL), ("load_mtp", BOOL)]


class ContextParams(ctypes.Structure):
    """llama_context_params of llama.cpp b11669."""
    _fields_ = [("n_ctx", U32), ("n_batch", U32), ("n_ubatch", U32), ("n_seq_max", U32), ("n_rs_seq", U32), ("n_outputs_max", U32),
                ("n_outputs_max_per_seq", U32), ("n_threads", I32), ("n_threads_batch", I32), ("ctx_type", I32), ("rope_scaling_type", I32),
                ("pooling_type", I32), ("attention_type", I32), ("flash_attn_type", I32), ("rope_freq_base", F32), ("rope_freq_scale", F32),
                ("yarn_ext_factor", F32), ("yarn_attn_factor", F32), ("yarn_beta_fast", F32), ("yarn_beta_slow", F32), ("yarn_orig_ctx", U32),
                ("defrag_thold", F32), ("cb_eval", P), ("cb_eval_data", P), ("type_k", I32), ("type_v", I32), ("moe_cache_size", SIZE), ("abort", P),
                ("abort_data", P), ("embeddings", BOOL), ("offload_kqv", BOOL), ("no_perf", BOOL), ("op_offload", BOOL), ("swa_full", BOOL),
                ("kv_unified", BOOL), ("samplers", P), ("n_samplers", SIZE), ("ctx_other", P)]


class Batch(ctypes.Structure):
    _fields_ = [("n_tokens", I32), ("token", P), ("embd", P), ("pos", P), ("n_seq_id", P), ("seq_id", P), ("logits", P)]


def note(text):
    print(f"{time.monotonic() - started:7.1f} s  {text}", file=sys.stderr, flush=True)


class Engine:
    """The loaded libraries of a folder."""

    def __init__(self, folder, gpu):
        folder = os.path.abspath(folder)
        for name in ["libgcc_s.so.1", "libstdc++.so.6", "libgomp.so.1"]:  # a bare system may lack these: FOLDER/sys has copies
            try:
                ctypes.CDLL(name, ctypes.RTLD_GLOBAL)
            except OSError:
                ctypes.CDLL(os.path.join(folder, "sys", name), ctypes.RTLD_GLOBAL)

        def path(pattern):
            found = glob.glob(os.path.join(folder, pattern))
            if len(found) != 1:
                raise SystemExit(f"{folder}: {len(found)} files are named {pattern}")
            return found[0]

        self.base, self.ggml = ctypes.CDLL(path("libggml-base-*.so*")), ctypes.CDLL(path("libggml-????????.so*"))
        self.llama = ctypes.CDLL(path("libllama*.so*"))
        self.lines, self.on_log = [], ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, P)(self.keep)
        self.function("llama_log_set", [type(self.on_log), P])(self.on_log, None)
        load = self.function("ggml_backend_load", [ctypes.c_char_p], P, self.ggml)
        for name in ["cpu"] + ["cuda"] * gpu:
            if not load(os.fsencode(path(f"libggml-{name}-*.so"))):
                raise SystemExit(f"libggml-{name} does not load: {self.said()}")
        self.function("llama_backend_init", [])()
        self.device = "cpu"
        for i in range(self.function("ggml_backend_dev_count", [], SIZE, self.ggml)()):
            dev = self.function("ggml_backend_dev_get", [SIZE], P, self.ggml)(i)
            if gpu and self.function("ggml_backend_dev_type", [P], I32, self.base)(dev) == 1:  # GGML_BACKEND_DEVICE_TYPE_GPU
                self.device = self.function("ggml_backend_dev_description", [P], ctypes.c_char_p, self.base)(dev).decode()
                break
        else:
            if gpu:
                raise SystemExit(f"libggml-cuda finds no GPU: {self.said()}")
        # Other versions of the library have other structures. Check the defaults: each field must have this version's
        # value.
        mp = self.function("llama_model_default_params", [], ModelParams)()
        cp = self.function("llama_context_default_params", [], ContextParams)()
        got = [mp.n_gpu_layers, mp.split_mode, mp.load_mode, mp.lazy_mode, mp.use_extra_bufts, mp.load_mtp, cp.n_ctx, cp.n_batch, cp.n_ubatch, cp.n_seq_max,
               cp.n_outputs_max_per_seq, cp.rope_scaling_type, cp.flash_attn_type, cp.yarn_ext_factor, cp.defrag_thold, cp.type_k, cp.type_v, cp.moe_cache_size,
               cp.embeddings, cp.offload_kqv, cp.no_perf, cp.op_offload, cp.swa_full, cp.kv_unified, cp.n_samplers, cp.ctx_other]
        if got != [-1, 1, -1, 1, True, False, 512, 2048, 512, 1, 1, -1, -1, -1.0, -1.0, 1, 1, 0, False, True, True, True, True, False, 0, None]:
            raise SystemExit(f"this libllama's parameters differ from b11669's: {got}")
        self.model_params, self.context_params = mp, cp

    def function(self, name, args, result=None, library=None):
        f = getattr(library or self.llama, name)
        f.argtypes, f.restype = args, result
        return f

    def keep(self, level, text, data):
        self.lines.append((text or b"").decode(errors="replace"))

    def said(self, *words):
        """Log lines that contain one of the words; without words, the end of the log."""
        text = "".join(self.lines).splitlines()
        return [t.strip() for t in text if any(w in t for w in words)] if words else "\n".join(text[-12:])

    def version(self):
        ask = lambda name, library: self.function(name, [], ctypes.c_char_p, library)().decode()
        return (f"llama {ask('llama_version', None)}, ggml {ask('ggml_version', self.base)} {ask('ggml_commit', self.base)}, "
                + ask("llama_print_system_info", None).strip(" |"))


class Model:
    def __init__(self, engine, path, gpu, vocab):
        e, f = engine, engine.function
        mp = e.model_params
        mp.n_gpu_layers, mp.lazy_mode = (999 if gpu else 0), 0  # load everything before measuring
        self.e, t = e, time.monotonic()
        self.model = f("llama_model_load_from_file", [ctypes.c_char_p, ModelParams], P)(os.fsencode(path), mp)
        if not self.model:
            raise SystemExit(f"llama.cpp does not load {path}: {e.said()}")
        self.load_seconds, self.ctx = time.monotonic() - t, None
        self.n_vocab = f("llama_vocab_n_tokens", [P], I32)(f("llama_model_get_vocab", [P], P)(self.model)) if not vocab else vocab
        if self.n_vocab < 1:
            raise SystemExit("the file does not tell the size of its vocabulary: --vocab N")
        self.batch_of, self.decode = f("llama_batch_get_one", [P, I32], Batch), f("llama_decode", [P, Batch], I32)
        self.wait, self.logits_of = f("llama_synchronize", [P]), f("llama_get_logits_ith", [P, I32], ctypes.POINTER(F32))

    def context(self, n_ctx, n_ubatch, kv, threads):
        e, f, cp = self.e, self.e.function, self.e.context_params
        n_ctx = max(n_ctx, n_ubatch)  # llama.cpp accepts no micro-batch longer than the context
        if self.ctx:
            f("llama_free", [P])(self.ctx)
        cp.n_ctx, cp.n_batch, cp.n_ubatch, cp.flash_attn_type = n_ctx, max(2048, n_ubatch), n_ubatch, 1
        cp.type_k = cp.type_v = TYPES[kv]
        cp.n_threads = cp.n_threads_batch = threads
        self.ctx = f("llama_init_from_model", [P, ContextParams], P)(self.model, cp)
        if not self.ctx:
            raise SystemExit(f"llama.cpp makes no context of {n_ctx} tokens: {e.said()}")
        if f("llama_n_ubatch", [P], U32)(self.ctx) != n_ubatch:
            raise SystemExit("llama.cpp took another micro-batch than asked for")
        self.n_batch, self.memory = f("llama_n_batch", [P], U32)(self.ctx), f("llama_get_memory", [P], P)(self.ctx)
        rng = random.Random(1)
        self.ids = (I32 * n_ctx)(*[rng.randrange(self.n_vocab) for i in range(n_ctx)])

    def clear(self):
        self.e.function("llama_memory_clear", [P, BOOL])(self.memory, True)

    def one(self, at, n):
        if self.decode(self.ctx, self.batch_of(ctypes.addressof(self.ids) + 4 * at, n)):
            raise SystemExit(f"llama_decode failed: {self.e.said()}")

    def prompt(self, at, n):
        """Appends n tokens and waits for the logits of the last."""
        for i in range(at, at + n, self.n_batch):
            self.one(i, min(self.n_batch, at + n - i))
        self.wait(self.ctx)

    def generate(self, at, n, read):
        """Appends n tokens, each after the previous one is ready."""
        for i in range(at, at + n):
            self.one(i, 1)
            if read:
                self.logits_of(self.ctx, -1)[0]
            else:
                self.wait(self.ctx)

    def state(self):
        n = self.e.function("llama_state_seq_get_size", [P, I32], SIZE)(self.ctx, 0)
        raw = (ctypes.c_uint8 * n)()
        got = self.e.function("llama_state_seq_get_data", [P, P, SIZE, I32], SIZE)(self.ctx, raw, n, 0)
        return (raw, got) if got else None

    def restore(self, depth, state):
        """Restores the state after depth tokens, or computes it again."""
        self.clear()
        if depth and not (state and self.e.function("llama_state_seq_set_data", [P, P, SIZE, I32], SIZE)(self.ctx, *state, 0)):
            note("computes the prompt again")
            self.clear()
            self.prompt(0, depth)
        self.wait(self.ctx)


def runs(reps, n, before, work):
    """Repeats work on n tokens reps times after an uncounted warm-up; returns the median and the rates."""
    rates, first = [], 0
    for r in range(reps + 1):
        before()
        t = time.monotonic()
        work()
        t = time.monotonic() - t
        if r:
            rates.append(n / t)
        else:
            first = t
    return dict(median=round(statistics.median(rates), 2), runs=[round(x, 2) for x in rates], first_seconds=round(first, 2))


def main():
    numbers = lambda s: [int(x) for x in s.split(",") if x]
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--libs", required=True)
    p.add_argument("--pp", type=numbers, default=[512, 2048])
    p.add_argument("--ubatch", type=numbers, default=[512, 2048])
    p.add_argument("--depths", type=numbers, default=[0, 4096, 32768])
    p.add_argument("--n", type=int, default=128)
    p.add_argument("--kv", choices=TYPES, default="f16")
    p.add_argument("--reps", type=int, default=5)
    p.add_argument("--threads", type=int, default=min(8, os.cpu_count() or 1))
    p.add_argument("--tg-ubatch", type=int, default=512)
    p.add_argument("--vocab", type=int, default=0)
    p.add_argument("--cpu", action="store_true")
    p.add_argument("--out")
    a = p.parse_args()

    e = Engine(a.libs, not a.cpu)
    note(f"{e.device}; {e.version()}")
    m = Model(e, a.model, not a.cpu, a.vocab)
    note(f"loaded in {m.load_seconds:.1f} s, vocabulary {m.n_vocab}")
    doc = dict(engine="llama.cpp CUDA" if not a.cpu else "llama.cpp CPU", version=e.version(), device=e.device, file=os.path.basename(a.model),
               bytes=os.path.getsize(a.model), kv=a.kv, flash_attention=True, threads=a.threads, tokens_generated=a.n, load_seconds=round(m.load_seconds, 2),
               offloaded=e.said("offloaded", "model buffer size"), pp={}, tg={}, tg_wait={}, pp_runs={}, tg_runs={}, tg_wait_runs={})

    def save():
        if a.out:
            with open(a.out, "w") as f:
                json.dump(doc, f, indent=1)
                f.write("\n")

    for n_ubatch in a.ubatch if a.pp else []:
        m.context(max(a.pp), n_ubatch, a.kv, a.threads)
        for n in a.pp:
            got = runs(a.reps, n, m.clear, lambda: m.prompt(0, n))
            doc["pp_runs"].setdefault(str(n), {})[f"ubatch {n_ubatch}"] = got
            doc["pp"][str(n)] = max(r["median"] for r in doc["pp_runs"][str(n)].values())
            note(f"pp {n}, micro-batch {n_ubatch}: {got['median']} tok/s {got['runs']}, first {got['first_seconds']} s")
            save()
    if a.depths and a.n:
        m.context(max(a.depths) + a.n, a.tg_ubatch, a.kv, a.threads)
    for depth in a.depths if a.n else []:
        m.clear()
        m.prompt(0, depth)
        state = m.state() if depth else None
        note(f"depth {depth} filled, state of {state[1] / 2**20 if state else 0:.0f} MiB")
        for name, read in ("tg", True), ("tg_wait", False):
            got = runs(a.reps, a.n, lambda: m.restore(depth, state), lambda: m.generate(depth, a.n, read))
            doc[name][str(depth)], doc[name + "_runs"][str(depth)] = got["median"], got
            note(f"{name} at {depth}: {got['median']} tok/s {got['runs']}, first {got['first_seconds']} s")
            save()
    doc["caches"] = e.said("KV buffer size", "RS buffer size", "compute buffer size")
    save()
    print(json.dumps(doc, indent=1))


if __name__ == "__main__":
    started = time.monotonic()
    main()
