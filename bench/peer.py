# SPDX-License-Identifier: MIT
"""The other engine (llama-cpp-python from PyPI) through its C interface: load, tokenize, logits, speed, quantize.

Runs inside the venv of bench/peer-venv.sh; used by tests/interop.py, bench/peers.py and bench/quantize-speed.py."""
import ctypes, struct, time
import llama_cpp as lc
import numpy as np

messages = []  # the engine's messages at warning level or above


@lc.llama_log_callback
def _on_log(level, text, user_data):
    if level >= 3:
        messages.append(text.decode("utf-8", "replace"))


lc.llama_log_set(_on_log, ctypes.c_void_p(0))
lc.llama_backend_init()


def build():
    """Instruction sets and options with which the package was compiled."""
    return lc.llama_print_system_info().decode().strip(" |")


class Refused(Exception):
    """The engine refused a file; the text is its log."""


class Model:
    def __init__(self, path, n_ctx=512, threads=2, kv_f32=True, flash=False, n_batch=None, n_ubatch=512):
        messages.clear()
        mp = lc.llama_model_default_params()
        self.model = lc.llama_model_load_from_file(str(path).encode(), mp)
        if not self.model:
            raise Refused("".join(messages).strip())
        cp = lc.llama_context_default_params()
        cp.n_ctx, cp.n_batch, cp.n_ubatch = n_ctx, n_batch or n_ctx, min(n_ubatch, n_batch or n_ctx)
        cp.n_threads = cp.n_threads_batch = threads
        cp.flash_attn_type = 1 if flash else 0
        if kv_f32:
            cp.type_k = cp.type_v = 0
        self.ctx = lc.llama_init_from_model(self.model, cp)
        if not self.ctx:
            lc.llama_model_free(self.model)
            raise Refused("".join(messages).strip())
        self.vocab = lc.llama_model_get_vocab(self.model)
        self.n_vocab = lc.llama_vocab_n_tokens(self.vocab)

    def close(self):
        lc.llama_free(self.ctx)
        lc.llama_model_free(self.model)

    def clear(self):
        lc.llama_memory_clear(lc.llama_get_memory(self.ctx), True)

    def state(self):
        """The caches, for restore()."""
        raw = (ctypes.c_uint8 * lc.llama_state_get_size(self.ctx))()
        lc.llama_state_get_data(self.ctx, raw, len(raw))
        return bytes(raw)

    def restore(self, state):
        """Restores the caches from state; returns False on failure."""
        self.clear()
        raw = (ctypes.c_uint8 * len(state)).from_buffer_copy(state)
        return lc.llama_state_set_data(self.ctx, raw, len(raw)) > 0

    def logits(self, ids):
        """Computes the sequence in one batch from an empty state; returns float32 [len(ids)][n_vocab]."""
        self.clear()
        n = len(ids)
        b = lc.llama_batch_init(n, 0, 1)
        b.n_tokens = n
        for i, t in enumerate(ids):
            b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = int(t), i, 1, 1
            b.seq_id[i][0] = 0
        rc = lc.llama_decode(self.ctx, b)
        out = np.ctypeslib.as_array(lc.llama_get_logits(self.ctx), (n, self.n_vocab)).copy() if rc == 0 else None
        lc.llama_batch_free(b)
        if rc:
            raise Refused(f"llama_decode: {rc}")
        return out

    def feed(self, ids):
        """Appends ids to the sequence and waits for the logits of the last one."""
        a = (lc.llama_token * len(ids))(*[int(t) for t in ids])
        if lc.llama_decode(self.ctx, lc.llama_batch_get_one(a, len(ids))):
            raise Refused("llama_decode failed")
        lc.llama_synchronize(self.ctx)

    def steps(self, ids):
        """Like logits(), but one token at a time: mathematically the same, with different kernels of the engine."""
        self.clear()
        out = []
        for t in ids:
            self.feed([t])
            out.append(np.ctypeslib.as_array(lc.llama_get_logits(self.ctx), (self.n_vocab,)).copy())
        return np.stack(out)

    def tokenize(self, text, special=True):
        raw = text.encode()
        a = (lc.llama_token * (len(raw) + 8))()
        n = lc.llama_tokenize(self.vocab, raw, len(raw), a, len(a), False, special)
        return list(a[:n])


def meta(model, key):
    buf = ctypes.create_string_buffer(1 << 20)
    n = lc.llama_model_meta_val_str(model, key.encode(), buf, len(buf))
    return None if n < 0 else buf.value.decode()


def read_dat(path):
    """Importance from a legacy .dat file (hone imatrix --merge X -o Y.dat): {tensor name: float32 means}."""
    raw = open(path, "rb").read()
    at, out = 4, {}
    for _ in range(struct.unpack_from("<i", raw)[0]):
        n = struct.unpack_from("<i", raw, at)[0]
        name = raw[at + 4 : at + 4 + n]
        calls, n_val = struct.unpack_from("<ii", raw, at + 4 + n)
        at += 12 + n
        out[name] = np.frombuffer(raw, "<f4", n_val, at) / np.float32(max(calls, 1))
        at += 4 * n_val
    return out


def quantize(src, dst, ftype, threads, pure=False, imatrix=None, types=None):
    """Runs the engine's quantizer and returns its seconds. ftype is the name of a LLAMA_FTYPE_MOSTLY_ constant, imatrix
    a .dat file, types the type of each tensor by name ({"output.weight": "Q6_K"}), which overrides ftype."""
    p = lc.llama_model_quantize_default_params()
    p.nthread, p.ftype, p.pure, p.allow_requantize = threads, getattr(lc, "LLAMA_FTYPE_MOSTLY_" + ftype), pure, True
    means = read_dat(imatrix) if imatrix else {}
    data = (lc.llama_model_imatrix_data * (len(means) + 1))()  # terminated by an entry without a name
    for d, (name, v) in zip(data, means.items()):
        d.name, d.data, d.size = name, v.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), len(v)
    if means:
        p.imatrix = data
    of = (lc.llama_model_tensor_override * (len(types or {}) + 1))()  # terminated by an entry without a pattern
    for o, (name, kind) in zip(of, (types or {}).items()):
        o.pattern, o.type = ("^" + name.replace(".", "\\.") + "$").encode(), getattr(lc, "GGML_TYPE_" + kind)
    if types:
        p.tt_overrides = of
        if "token_embd.weight" in types:
            p.token_embedding_type = getattr(lc, "GGML_TYPE_" + types["token_embd.weight"])
        if "output.weight" in types:
            p.output_tensor_type = getattr(lc, "GGML_TYPE_" + types["output.weight"])
    t = time.monotonic()
    rc = lc.llama_model_quantize(str(src).encode(), str(dst).encode(), ctypes.byref(p))
    if rc:
        raise Refused("".join(messages).strip() or f"llama_model_quantize: {rc}")
    return time.monotonic() - t
