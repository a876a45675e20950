# SPDX-License-Identifier: MIT
"""ctypes bindings of libhone: include/hone.h in Python. Internal.

ctypes instead of a compiled module: one wheel serves every Python, and the import takes 16 ms with
the standard library alone. The extra microseconds per call are negligible next to the work. Calls
release the interpreter lock.
"""

from __future__ import annotations

import _thread
import array
import contextvars
import ctypes as C
import functools
import json
import operator
import os
import re
import sys
import threading
import weakref
from typing import Any, Callable, Optional, Sequence, TypeVar, Union, cast

from .errors import UsageError, Verdict, exception
from .report import Report

Path = Union[str, "os.PathLike[str]"]
Text = Union[Path, Sequence[str], None]  # several are joined with commas
Texts = Union[Path, Sequence[Path], None]  # a single path is a list of one
Size = Union[int, str]  # bytes, or "24GiB"
Sizes = Union[Size, Sequence[Size], None]
Progress = Callable[[str, int, int], Any]
Log = Callable[[str, str], Any]

LOG = C.CFUNCTYPE(None, C.c_void_p, C.c_int, C.c_char_p)
PROGRESS = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_char_p, C.c_uint64, C.c_uint64)
TEXT = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_int64, C.POINTER(C.c_char), C.c_size_t)


class Error(C.Structure):
    _fields_ = [("status", C.c_int), ("file", C.c_char * 512), ("tensor", C.c_char * 128),
                ("message", C.c_char * 1024)]


class Sized(C.Structure):
    """A struct whose first field is its size."""

    def __init__(self, *args: Any, **kw: Any) -> None:
        kw = {n: operator.index(v) if hasattr(v, "__index__") else v for n, v in kw.items()}  # numpy's integers
        super().__init__(*args, **kw)
        self.size = C.sizeof(self)
        for name, value in kw.items():  # ctypes silently truncates values that do not fit
            if isinstance(value, int) and getattr(self, name) != value:
                raise UsageError(f"{name}={value} is too large, or negative where that makes no sense")


class Opts(Sized):
    _fields_ = [("size", C.c_size_t), ("log", LOG), ("progress", PROGRESS), ("user", C.c_void_p),
                ("cancel", C.c_void_p), ("n_threads", C.c_int), ("untrusted", C.c_int), ("device", C.c_char_p),
                ("isa", C.c_char_p), ("pre", C.c_char_p), ("pack_cache", C.c_char_p), ("max_vram", C.c_char_p),
                ("place", C.c_char_p), ("stream_from", C.c_int64), ("max_memory", C.c_uint64), ("tmp", C.c_char_p)]


class Type(Sized):
    _fields_ = [("size", C.c_size_t), ("id", C.c_int), ("name", C.c_char_p),
                ("block_weights", C.c_int32), ("block_bytes", C.c_int32), ("can_read", C.c_int),
                ("can_write", C.c_int)]


class Key(Sized):
    _fields_ = [("size", C.c_size_t), ("name", C.c_char_p), ("type", C.c_int), ("elem", C.c_int),
                ("count", C.c_uint64), ("data", C.c_void_p), ("n_bytes", C.c_uint64)]


class TensorInfo(Sized):
    _fields_ = [("size", C.c_size_t), ("name", C.c_char_p), ("type", C.c_int), ("n_dims", C.c_int),
                ("ne", C.c_int64 * 4), ("data", C.c_void_p), ("n_bytes", C.c_uint64)]


class ModelInfo(Sized):
    _fields_ = [("size", C.c_size_t), ("arch", C.c_char_p), ("n_vocab", C.c_int64),
                ("n_ctx", C.c_int64), ("n_embd", C.c_int64), ("n_layers", C.c_int64),
                ("n_weights", C.c_int64), ("n_bytes", C.c_uint64)]


class SessionOpts(Sized):
    _fields_ = [("size", C.c_size_t), ("n_ctx", C.c_int64), ("n_batch", C.c_int64),
                ("kv_type", C.c_char_p), ("device", C.c_char_p), ("exact", C.c_int), ("draft", C.c_char_p)]


class GenerateOpts(Sized):
    _fields_ = [("size", C.c_size_t), ("max_tokens", C.c_int64), ("temperature", C.c_double),
                ("top_k", C.c_int32), ("top_p", C.c_double), ("min_p", C.c_double),
                ("repeat_penalty", C.c_double), ("seed", C.c_uint64),
                ("stop", C.POINTER(C.c_char_p)), ("schema", C.c_char_p), ("regex", C.c_char_p),
                ("control", C.c_int), ("text", TEXT), ("user", C.c_void_p), ("grammar", C.c_char_p),
                ("choices", C.POINTER(C.c_char_p)), ("presence_penalty", C.c_double),
                ("frequency_penalty", C.c_double), ("repeat_last_n", C.c_int32), ("open_objects", C.c_int64)]


class AnswerStruct(Sized):
    _fields_ = [("size", C.c_size_t), ("text", C.c_void_p), ("len", C.c_size_t),
                ("ids", C.POINTER(C.c_int32)), ("n_ids", C.c_int64), ("n_prompt", C.c_int64),
                ("stop", C.c_char_p), ("seconds", C.c_double)]


class PerplexityStruct(Sized):
    _fields_ = [("size", C.c_size_t), ("value", C.c_double), ("error", C.c_double),
                ("mean_nll", C.c_double), ("n_tokens", C.c_int64), ("n_windows", C.c_int64),
                ("n_ctx", C.c_int64)]


class DivergenceStruct(Sized):
    _fields_ = [("size", C.c_size_t)] + [(n, C.c_double) for n in (
        "mean", "error", "median", "p90", "p99", "p999", "max", "perplexity", "perplexity_base",
        "same_top", "rms_dp")] + [(n, C.c_int64) for n in ("n_tokens", "n_windows", "n_ctx")]


class QuantizeOpts(Sized):
    _fields_ = [("size", C.c_size_t), ("recipe", C.c_char_p), ("imatrix", C.c_char_p),
                ("tensor", C.POINTER(C.c_char_p)), ("pure", C.c_int), ("overwrite", C.c_int),
                ("dry_run", C.c_int), ("requantize", C.c_int)]


class QuantizeReportStruct(Sized):
    _fields_ = [("size", C.c_size_t), ("n_tensors", C.c_int64), ("n_quantized", C.c_int64),
                ("in_bytes", C.c_uint64), ("out_bytes", C.c_uint64), ("file_bytes", C.c_uint64),
                ("bits_per_weight", C.c_double), ("seconds", C.c_double)]


P, S, I32, I64, U64, F64 = C.c_void_p, C.c_char_p, C.c_int32, C.c_int64, C.c_uint64, C.c_double
INT, SIZE, OUT = C.c_int, C.c_size_t, C.POINTER(C.c_void_p)
IDS = C.POINTER(C.c_int32)
# name: (result, arguments without the trailing error). Result None: the function returns a status and takes an error as
# its last argument; failures become exceptions.
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "gguf_open": (None, [OUT, S, C.POINTER(Opts)]),
    "gguf_n_keys": (I64, [P]), "gguf_n_tensors": (I64, [P]), "gguf_bytes": (U64, [P]),
    "gguf_n_files": (INT, [P]),
    "gguf_key": (None, [P, I64, C.POINTER(Key)]), "gguf_find_key": (None, [P, S, C.POINTER(Key)]),
    "gguf_tensor": (None, [P, I64, C.POINTER(TensorInfo)]),
    "gguf_find_tensor": (None, [P, S, C.POINTER(TensorInfo)]),
    "gguf_check": (None, [P, C.POINTER(TensorInfo)]),
    "key_int": (I64, [C.POINTER(Key), U64]), "key_float": (F64, [C.POINTER(Key), U64]),
    "key_next_text": (INT, [C.POINTER(Key), C.POINTER(U64), C.POINTER(P), C.POINTER(SIZE)]),
    "decode": (None, [INT, P, I64, I64, P]),
    "type_find": (None, [S, C.POINTER(Type)]), "type_by_id": (None, [INT, C.POINTER(Type)]),
    "type_row_bytes": (U64, [INT, I64]),
    "writer_new": (None, [OUT, C.POINTER(Opts)]),
    "writer_int": (None, [P, S, INT, I64]), "writer_float": (None, [P, S, F64]),
    "writer_text": (None, [P, S, S, SIZE]), "writer_array": (None, [P, S, INT, P, U64]),
    "writer_texts": (None, [P, S, C.POINTER(S), U64]), "writer_copy_keys": (None, [P, P, S]),
    "writer_remove": (None, [P, S]), "writer_tensor": (None, [P, S, INT, INT, C.POINTER(I64)]),
    "writer_begin": (None, [P, S, INT]), "writer_data": (None, [P, P, U64]),
    "writer_commit": (None, [P]),
    "tokenizer_open": (None, [OUT, S, C.POINTER(Opts)]),
    "tokenizer_from_gguf": (None, [OUT, P]), "tokenizer_from_json": (None, [OUT, S, SIZE, S, SIZE, C.POINTER(Opts)]),
    "tokenize": (None, [P, S, SIZE, C.c_uint, C.POINTER(IDS), C.POINTER(I64)]),
    "detokenize": (None, [P, IDS, I64, C.c_uint, C.POINTER(P), C.POINTER(SIZE)]),
    "n_vocab": (I64, [P]), "token_text": (P, [P, I32, C.POINTER(SIZE)]),
    "token_find": (I32, [P, S]), "token_ends": (INT, [P, I32]), "token_special": (I32, [P, INT]),
    "template_new": (None, [OUT, S, SIZE, S, S, C.POINTER(Opts)]),
    "template_from_gguf": (None, [OUT, P]), "template_text": (S, [P]),
    "template_render": (None, [P, S, S, INT, C.POINTER(P), C.POINTER(SIZE)]),
    "template_tokens": (None, [P, P, S, S, INT, C.POINTER(IDS), C.POINTER(I64)]),
    "template_read_answer": (None, [P, S, S, SIZE, C.POINTER(P)]),
    "model_open": (None, [OUT, S, C.POINTER(Opts)]),
    "model_info": (None, [P, C.POINTER(ModelInfo)]),
    "model_tokenizer": (None, [P, OUT]), "model_template": (None, [P, OUT]),
    "model_gguf": (P, [P]),
    "session_new": (None, [OUT, P, C.POINTER(SessionOpts), C.POINTER(Opts)]),
    "session_n_ctx": (I64, [P]), "session_bytes": (U64, [P]), "session_reset": (None, [P]),
    "session_logits": (None, [P, P, IDS, I64, P]),
    "session_projector": (None, [P, S, I64]),
    "session_prompt": (None, [P, S, S, INT, C.POINTER(P), C.POINTER(SIZE), INT, C.POINTER(IDS), C.POINTER(I64)]),
    "generate": (None, [P, IDS, I64, C.POINTER(GenerateOpts), C.POINTER(AnswerStruct)]),
    "generate_many": (None, [P, C.POINTER(IDS), C.POINTER(I64), I64, INT, C.POINTER(GenerateOpts),
                             C.POINTER(AnswerStruct)]),
    "perplexity": (None, [P, IDS, I64, I64, I64, C.POINTER(PerplexityStruct)]),
    "divergence": (None, [P, P, IDS, I64, I64, I64, C.POINTER(DivergenceStruct)]),
    "quantizer_new": (None, [OUT, C.POINTER(Opts)]),
    "quantizer_rows": (None, [P, INT, P, I64, I64, P, P]),
    "quantizer_file": (None, [P, S, S, C.POINTER(QuantizeOpts), C.POINTER(QuantizeReportStruct)]),
    "answer_free": (INT, [C.POINTER(AnswerStruct)]),
    "version": (S, []), "free": (INT, [P]),
    "cancel_new": (P, []), "cancel_now": (INT, [P]), "cancel_reset": (INT, [P]),
}
CLOSERS = {"gguf": "close", "tokenizer": "close", "model": "close", "writer": "free",
           "template": "free", "session": "free", "quantizer": "free", "cancel": "free"}


def _find() -> str:
    name = {"win32": "hone.dll", "darwin": "libhone.2.dylib"}.get(sys.platform, "libhone.so.2")
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", name)
    asked = os.environ.get("HONE_LIBRARY")
    return asked or (here if os.path.exists(here) else name)


_dll = C.CDLL(_find())


def _checked(f: Any) -> Callable[..., Any]:
    """A function whose integers must fit, and whose arguments of a wrong type raise TypeError."""
    whole = [(i, t) for i, t in enumerate(f.argtypes) if t in (C.c_int, C.c_uint, I64, U64)]

    def call(*given: Any) -> Any:
        args = list(given)
        for i, t in whole:
            args[i] = operator.index(args[i])
            if t(args[i]).value != args[i]:
                raise UsageError(f"{args[i]} is too large, or negative where that makes no sense")
        try:
            return f(*args)
        except C.ArgumentError as error:
            raise TypeError(str(error)) from None

    return call


def _status(name: str) -> Callable[..., None]:
    f = getattr(_dll, "hone_" + name)
    f.restype, f.argtypes = C.c_int, [*FUNCTIONS[name][1], C.POINTER(Error)]
    checked = _checked(f)

    def call(*args: Any) -> None:
        e = Error()
        status = checked(*args, C.byref(e))
        if status:
            raise exception(status, text(e.message), os.fsdecode(e.file), text(e.tensor))

    return call


class _Functions:
    """lib.gguf_open is hone_gguf_open; functions that fail raise."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        result, args = FUNCTIONS[name]
        if result is None:
            f = _status(name)
        else:
            f = getattr(_dll, "hone_" + name)
            f.restype, f.argtypes = result, args
            f = _checked(f)
        setattr(self, name, f)
        return f


lib: Any = _Functions()


def text(b: bytes) -> str:
    return b.decode("utf-8", "replace")


def path(p: Any) -> bytes:
    return whole(os.fsencode(os.fspath(p)))


def whole(b: bytes) -> bytes:
    """Bytes passed to C as a NUL-terminated string; UsageError if they contain a NUL."""
    if b"\0" in b:
        raise UsageError(f"{text(b)!r} contains a NUL character")
    return b


def utf8(value: Any, errors: str = "strict") -> bytes:
    """A text in UTF-8; TypeError if it is none."""
    if not isinstance(value, str):
        raise TypeError(f"a text is needed, not {type(value).__name__}")
    return value.encode("utf-8", errors)


def name(value: Any) -> bytes:
    """A name or another text that C reads up to a NUL, which it must not contain."""
    return whole(utf8(value))


def as_json(value: Any) -> bytes:
    """JSON text, in which U+FFFD replaces each half of a surrogate pair."""
    halves = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass")
    return halves.decode("utf-16", "replace").encode()


# a forked child lacks the threads of these and can neither use nor close them
THREADED = ("session", "quantizer")


class Handle:
    """An open handle, closed by `close` or with its last reference. `keep`: objects that must
    outlive it."""

    _value: Any = None

    def __init__(self, kind: str, value: Any, *keep: object) -> None:
        self._kind, self._pid, self.keep = kind, os.getpid(), keep
        self._close: Any = getattr(_dll, f"hone_{kind}_{CLOSERS[kind]}")
        self._close.argtypes, self._close.restype = [C.c_void_p], None
        self._value = value

    @property
    def forked(self) -> bool:
        """Was it created before this process was forked, so that it cannot be used here?"""
        return self._kind in THREADED and self._pid != os.getpid()

    @property
    def value(self) -> Any:
        if self._value is None:
            raise UsageError(f"the {'model' if self._kind == 'session' else self._kind} is closed")
        return self._value

    def close(self) -> None:
        value, self._value = self._value, None
        if value and not self.forked:
            self._close(value)
        self.keep = ()

    def __del__(self) -> None:
        self.close()


def take_text(p: Any, n: int) -> str:
    """Takes ownership of a text from the library."""
    try:
        return text(C.string_at(p.value, n))
    finally:
        lib.free(p)


def take_ids(p: Any, n: int) -> list[int]:
    """Takes ownership of token ids from the library."""
    try:
        return list(p[:n])
    finally:
        lib.free(C.cast(p, C.c_void_p))


def ids(values: Sequence[int]) -> tuple[Any, int]:
    """Numbers as int32, and how many. OverflowError or TypeError if one does not fit."""
    if isinstance(values, (int, str, bytes, bytearray)):
        raise TypeError(f"a list of tokens is needed, not {type(values).__name__}")
    a = array.array("i", values)
    return (C.c_int32 * len(a)).from_buffer(a) if a else (C.c_int32 * 1)(), len(a)


def is_id(value: int) -> bool:
    """Does a number fit into the library's token ids and type numbers?"""
    return -2**31 <= operator.index(value) < 2**31


def texts(values: Optional[Sequence[str]]) -> Any:
    """A NULL-terminated array of texts; None stays None."""
    if values is None:
        return None
    if isinstance(values, str):
        raise TypeError("a list of texts is needed, not one text")
    return (C.c_char_p * (len(values) + 1))(*[whole(utf8(v, "surrogateescape")) for v in values], None)


def paths(values: Any) -> Any:
    """The same for paths; a single path is a list of one."""
    if values is None:
        return None
    if isinstance(values, (str, bytes, int, os.PathLike)):
        values = [values]
    return (C.c_char_p * (len(values) + 1))(*[word(v) for v in values], None)


def word(value: Any) -> Optional[bytes]:
    """A text, a path or a number, or several joined with commas; None stays None."""
    if isinstance(value, (list, tuple)):
        return b",".join(word(v) or b"" for v in value)
    if isinstance(value, int):
        return str(value).encode()
    return None if value is None else path(value)


UNITS = {"": 1, "b": 1, "bytes": 1} | {u + b: n for i, x in enumerate("kmgt") for u, n in (
    (x, 1000 ** (i + 1)), (x + "i", 1024 ** (i + 1))) for b in ("", "b")}


def n_bytes(size: Size) -> int:
    """A number of bytes, or a text such as "24GiB", "700M", "15.9 GB"."""
    if not isinstance(size, str):
        return operator.index(size)
    m = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-z]*)\s*", size.lower())
    if not m or m[2] not in UNITS:
        raise UsageError(f"{size!r} is not a size: write a number and K M G T, powers of 1000, or KiB MiB GiB TiB, powers of 1024, such as 24GiB")
    return int(float(m[1]) * UNITS[m[2]])


SPANS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def seconds(time: Union[float, str]) -> float:
    """"90s", "12h", "1h30m", or a number of hours, in seconds. Zero becomes -1, since 0 means the
    library's default."""
    text = re.sub(r"\s+", "", str(time).lower())
    if re.fullmatch(r"[0-9]*\.?[0-9]+", text):
        return float(text) * 3600 or -1
    number = r"([0-9]*\.?[0-9]+)"
    m = re.fullmatch("".join(f"(?:{number}{unit})?" for unit in SPANS), text)
    if not m or not text:
        raise UsageError(f"{time!r} is not a time: write 90s, 30m, 12h, 1h30m, or a number of hours")
    return sum(float(n or 0) * s for n, s in zip(m.groups(), SPANS.values())) or -1


F = TypeVar("F", bound=Callable[..., Any])


def renamed(**names: str) -> Callable[[F], F]:
    """Decorator: also accepts keywords by their old names; type hints show only the new ones."""
    def around(f: F) -> F:
        @functools.wraps(f)
        def call(*args: Any, **options: Any) -> Any:
            for old in names.keys() & options.keys():
                if names[old] in options:
                    raise TypeError(f"{f.__name__}() got {old} and {names[old]}, which are the same")
                options[names[old]] = seconds(options.pop(old)) if old == "time" else options.pop(old)
            return f(*args, **options)
        return cast(F, call)
    return around


class Cancel:
    """Cancels every call it is passed to. `now()` may be called from any thread."""

    def __init__(self) -> None:
        self._handle = Handle("cancel", lib.cancel_new())
        self.on = False

    def now(self) -> None:
        self.on = True
        lib.cancel_now(self._handle.value)

    def reset(self) -> None:
        """Lets later calls run again."""
        self.on = False
        lib.cancel_reset(self._handle.value)


def patient(cancel: Cancel, call: Any, *args: Any) -> None:
    """Runs a long call so that signals can interrupt it. Python handles signals in the main thread,
    so another thread makes the call while this one waits. Ctrl-C, or an exception from a signal
    handler, triggers `cancel` and is raised once the call has ended."""
    if threading.current_thread() is not threading.main_thread():
        call(*args)
        return
    failed: list[BaseException] = []
    done = threading.Event()

    def work() -> None:
        nonlocal call, args
        try:
            call(*args)
        except BaseException as error:
            failed.append(error)
        finally:
            call, args = None, ()  # drop the references, so that only the caller holds the objects
            done.set()

    stopped: Optional[BaseException] = None
    pressed = False
    try:
        _thread.start_new_thread(contextvars.copy_context().run, (work,))
    except RuntimeError:  # an isolated sub-interpreter, which gets no signals, or no thread available
        call(*args)
        return
    while not done.is_set():
        try:
            done.wait()
        except BaseException as error:
            stopped = stopped or error
            if not cancel.on:
                pressed = True
                cancel.now()
    if pressed:
        cancel.reset()
    if stopped is not None:
        raise stopped
    if failed:
        raise failed[0]


LEVELS = ("error", "warning", "info", "debug", "trace")


class Options:
    """hone_opts with Python callbacks: `with options: lib....`. An exception in a callback,
    including Ctrl-C, cancels the call and is raised from it."""

    def __init__(self, progress: Optional[Progress] = None, log: Optional[Log] = None,
                 cancel: Optional[Cancel] = None, threads: int = 0, device: Optional[str] = None,
                 isa: Optional[str] = None, pre: Optional[str] = None, max_memory: Size = 0) -> None:
        self._raised: Optional[BaseException] = None
        self._lock = threading.Lock()
        self._progress, self._log, self._cancel = progress, log, cancel or Cancel()
        me = weakref.ref(self)  # no reference cycle: handles close with the last reference

        def on_progress(user: Any, stage: bytes, done: int, total: int) -> int:
            o = me()
            return o._on_progress(stage, done, total) if o else 0

        def on_log(user: Any, level: int, message: bytes) -> None:
            o = me()
            if o:
                o._on_log(level, message)

        self.struct = Opts(progress=PROGRESS(on_progress), log=LOG(on_log), n_threads=threads, device=word(device),
                           isa=word(isa), pre=word(pre), max_memory=n_bytes(max_memory))
        self.struct.cancel = self._cancel._handle.value

    @property
    def ref(self) -> Any:
        return C.byref(self.struct)

    def run(self, call: Callable[..., None], *args: Any) -> None:
        """Runs a long call with these options; Ctrl-C stops it."""
        with self:
            patient(self._cancel, call, *args)

    def stop(self) -> None:
        """Cancels the calls running with these options."""
        self._cancel.now()

    def raised(self, error: BaseException) -> None:
        with self._lock:
            self._raised = self._raised or error

    def _on_progress(self, stage: bytes, done: int, total: int) -> int:
        try:
            stop = self._progress(text(stage), done, total) if self._progress else None
            return 1 if stop else 0
        except BaseException as error:  # noqa: B902: raised again in __exit__
            self.raised(error)
            return 1

    def _on_log(self, level: int, message: bytes) -> None:
        try:
            if self._log:
                self._log(LEVELS[level], text(message))
            else:
                import logging

                logging.getLogger("hone_gguf").log((40, 30, 20, 10, 5)[level], "%s", text(message))
        except BaseException as error:
            self.raised(error)

    def __enter__(self) -> "Options":
        self._raised = None
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised from None


def step(name: str, o: Options, *args: Any) -> Report:
    """Runs a step on files and returns its report; on failure the exception carries it."""
    found = C.c_void_p()

    def report() -> Report:
        said = text(C.string_at(found.value)) if found.value else "{}"
        lib.free(found)
        return Report(json.loads(said), f"hone {name}")

    try:
        o.run(getattr(lib, name), *args, C.byref(found))
    except Verdict as error:
        error.report = report()
        raise
    return report()
