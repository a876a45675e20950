# SPDX-License-Identifier: MIT
"""ik_llama.cpp, from PyPI's package ik-llama-cpp-python, through its C interface, for bench/peers.py and tests/interop-ik.py.

Runs in the venv printed by `bench/peer-venv.sh ik`. The published package is compiled for AVX2. Its best settings are used:
weights repacked at load, flash attention, fused experts (its own default)."""
import ctypes
import os

import numpy as np
import ik_llama_cpp._ctypes_api as lc


def declared(name, args, result):
    """Declares a library function that is missing in the package."""
    f = getattr(lc._lib, name)
    f.argtypes, f.restype = args, result
    return f


P, SIZE = ctypes.c_void_p, ctypes.c_size_t
batch_of = declared("llama_batch_get_one", [lc.llama_token_p, ctypes.c_int32, lc.llama_pos, lc.llama_seq_id], lc.llama_batch)
wait = declared("llama_synchronize", [P], None)
state_size = declared("llama_state_get_size", [P], SIZE)
state_get = declared("llama_state_get_data", [P, P, SIZE], SIZE)
state_set = declared("llama_state_set_data", [P, P, SIZE], SIZE)
system_info = declared("llama_print_system_info", [], ctypes.c_char_p)
ON_LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, P)
quiet = ON_LOG(lambda level, text, data: None)
declared("llama_log_set", [ON_LOG, P], None)(quiet, None)
lc.llama_backend_init()


def build():
    import importlib.metadata
    return "ik-llama-cpp-python " + importlib.metadata.version("ik-llama-cpp-python") + ", " + system_info().decode().strip(" |")


class Model:
    def __init__(self, path, n_ctx, threads, n_batch):
        mp = lc.llama_model_default_params()
        mp.repack_tensors, mp.use_mmap = True, False
        self.model = lc.llama_model_load_from_file(os.fsencode(path), mp)
        if not self.model:
            raise SystemExit(f"ik_llama.cpp does not load {path}")
        cp = lc.llama_context_default_params()
        cp.n_ctx, cp.n_batch, cp.n_ubatch, cp.flash_attn = n_ctx, n_batch, min(512, n_batch), True
        cp.n_threads = cp.n_threads_batch = threads
        cp.type_k = cp.type_v = 1  # f16
        self.ctx = lc.llama_init_from_model(self.model, cp)
        if not self.ctx:
            raise SystemExit(f"ik_llama.cpp makes no context of {n_ctx} tokens for {path}")
        self.n_vocab, self.n = lc.llama_vocab_n_tokens(lc.llama_model_get_vocab(self.model)), 0

    def clear(self):
        lc.llama_kv_cache_clear(self.ctx)
        self.n = 0

    def feed(self, ids):
        """Appends ids to the sequence and waits for the logits of the last one."""
        a = (lc.llama_token * len(ids))(*[int(t) for t in ids])
        if lc.llama_decode(self.ctx, batch_of(a, len(ids), self.n, 0)):
            raise SystemExit("ik_llama.cpp: llama_decode failed")
        wait(self.ctx)
        self.n += len(ids)

    def logits(self, ids):
        """Computes the sequence one token at a time from an empty state; returns float32 [len(ids)][n_vocab]."""
        self.clear()
        out = []
        for t in ids:
            self.feed([t])
            out.append(np.ctypeslib.as_array(lc.llama_get_logits_ith(self.ctx, -1), (self.n_vocab,)).copy())
        return np.stack(out)

    def state(self):
        """The caches and their number of tokens, for restore()."""
        raw = (ctypes.c_uint8 * state_size(self.ctx))()
        state_get(self.ctx, raw, len(raw))
        return self.n.to_bytes(8, "little") + bytes(raw)

    def restore(self, state):
        """Restores the caches from state; returns False on failure."""
        self.clear()
        self.n = int.from_bytes(state[:8], "little")
        raw = (ctypes.c_uint8 * (len(state) - 8)).from_buffer_copy(state, 8)
        return state_set(self.ctx, raw, len(raw)) > 0
