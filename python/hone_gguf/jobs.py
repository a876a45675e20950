# SPDX-License-Identifier: MIT
"""Quantizing arrays and files, comparing files, serving."""

from __future__ import annotations

import ctypes as C
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence, Union

from . import _lib
from ._lib import Cancel, Handle, Options, lib
from .errors import UsageError, Verdict
from .gguf import Path, Type
from .report import Report

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _quantizer(o: Options) -> Handle:
    h = C.c_void_p()
    with o:
        lib.quantizer_new(C.byref(h), o.ref)
    return Handle("quantizer", h.value, o)


def quantize(path: Path, out: Path, recipe: str, *, imatrix: Optional[Path] = None,
             tensors: Union[Mapping[str, str], Sequence[tuple[str, str]]] = (), pure: bool = False,
             requantize: bool = False, overwrite: bool = False, dry_run: bool = False, threads: int = 0, progress: Optional[_lib.Progress] = None,
             log: Optional[_lib.Log] = None, cancel: Optional[Cancel] = None) -> Report:
    """Quantizes a GGUF file. recipe: "Q4_K_M", a type's name, or the path of a plan. tensors:
    {regular expression: type}; the first match wins. requantize: accept a file that is already
    quantized. dry_run: only report the resulting sizes."""
    o = Options(progress, log, cancel, threads)
    q, r = _quantizer(o), _lib.QuantizeReportStruct()
    pairs = tensors.items() if isinstance(tensors, Mapping) else tensors
    qo = _lib.QuantizeOpts(recipe=os.fsencode(recipe), requantize=int(requantize), imatrix=_lib.path(imatrix) if imatrix else None,
                           tensor=_lib.texts([f"{a}={b}" for a, b in pairs]), pure=int(pure),
                           overwrite=int(overwrite), dry_run=int(dry_run))
    o.run(lib.quantizer_file, q.value, _lib.path(path), _lib.path(out), C.byref(qo), C.byref(r))
    return Report({n: getattr(r, n) for n, *_ in r._fields_ if n != "size"}, f"quantize {recipe}")


def encode(array: "NDArray[Any]", type: Union[str, Type], *,
           importance: "Optional[NDArray[Any]]" = None, threads: int = 0) -> "NDArray[np.uint8]":
    """Encodes rows [..., columns] as blocks of a type, [..., bytes per row], the format of
    `Tensor.data`. importance: a weight per column, the mean squared input."""
    import numpy as np

    t, a = type if isinstance(type, Type) else Type(type), np.ascontiguousarray(array, np.float32)
    row = t.row_bytes(a.shape[-1]) if a.ndim else 0
    if not row:
        raise UsageError(f"rows of {a.shape[-1] if a.ndim else 0} numbers are not whole blocks of {t.name}")
    imp = None if importance is None else np.ascontiguousarray(importance, np.float32)
    if imp is not None and imp.shape != (a.shape[-1],):
        raise UsageError("importance has one number per column")
    out, o = np.empty((*a.shape[:-1], row), np.uint8), Options(threads=threads)
    q = _quantizer(o)
    o.run(lib.quantizer_rows, q.value, t.id, a.ctypes.data, a.size // a.shape[-1], a.shape[-1],
          None if imp is None else imp.ctypes.data, out.ctypes.data)
    return out


def decode(blocks: "NDArray[Any]", type: Union[str, Type]) -> "NDArray[np.float32]":
    """The inverse of `encode`: [..., bytes per row] to [..., columns]."""
    import numpy as np

    t, b = type if isinstance(type, Type) else Type(type), np.ascontiguousarray(blocks, np.uint8)
    if b.ndim < 1 or not b.shape[-1] or b.shape[-1] % t.block_bytes:
        raise UsageError(f"rows are not whole blocks of {t.name}, which have {t.block_bytes} bytes")
    cols = b.shape[-1] // t.block_bytes * t.block_weights
    out = np.empty((*b.shape[:-1], cols), np.float32)
    lib.decode(t.id, b.ctypes.data, b.size // b.shape[-1], cols, out.ctypes.data)
    return out


def diff(a: Path, b: Path, *, weights: bool = False, progress: Optional[_lib.Progress] = None,
         cancel: Optional[Cancel] = None) -> Report:
    """Compares two GGUF files; `same` is False if anything differs. weights: also report each
    tensor's relative weight error."""
    try:
        o = Options(progress, None, cancel)
        found = _lib.step("diff", o, _lib.path(a), _lib.path(b), int(weights), o.ref)
        return Report({**found, "same": True}, "hone diff")
    except Verdict as verdict:
        assert isinstance(verdict.report, Report)
        return Report({**verdict.report, "same": False}, "hone diff")


_lib.FUNCTIONS["diff"] = (None, [C.c_char_p, C.c_char_p, C.c_int, C.POINTER(_lib.Opts), _lib.OUT])
SAYS = C.CFUNCTYPE(None, C.c_void_p, C.c_char_p)
_TEXTS = ("alias", "cache_dir", "key", "key_file", "reasoning", "constrain", "kwargs", "kv_type", "act", "record",
          "log_file", "special", "preset", "template_", "draft",
          "mmproj")


_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "repeat_last_n", "seed")


class ServeOpts(_lib.Sized):
    _fields_ = [("size", C.c_size_t), ("host", C.POINTER(C.c_char_p)), ("port", C.c_int64), ("alias", C.c_char_p),
                ("n_ctx", C.c_int64), ("parallel", C.c_int64), ("context_memory", C.c_uint64),
                ("cache_dir", C.c_char_p), ("cache_disk", C.c_uint64), ("key", C.c_char_p), ("key_file", C.c_char_p),
                ("no_key", C.c_int), ("max_tokens", C.c_int64), ("reasoning", C.c_char_p),
                ("reasoning_budget", C.c_int64), ("constrain", C.c_char_p), ("kwargs", C.c_char_p),
                *[(n, C.c_double) for n in _SAMPLING],
                ("kv_type", C.c_char_p), ("act", C.c_char_p), ("max_step", C.c_double), ("queue", C.c_int64),
                ("max_connections", C.c_int64), ("max_body", C.c_uint64), ("drain", C.c_double),
                ("record", C.c_char_p), ("log_file", C.c_char_p), ("strict", C.c_int),
                ("allow_host", C.POINTER(C.c_char_p)), ("allow_origin", C.POINTER(C.c_char_p)),
                ("special", C.c_char_p), ("ready", SAYS), ("request", SAYS), ("user", C.c_void_p),
                ("preset", C.c_char_p), ("template_", C.c_char_p), ("draft", C.c_char_p), ("record_last", C.c_int),
                ("open_objects", C.c_int64), ("strict_calls", C.c_int), ("more", C.POINTER(C.c_char_p)),
                ("mmproj", C.c_char_p)]


_lib.FUNCTIONS["serve"] = (None, [C.c_char_p, C.POINTER(ServeOpts), C.POINTER(_lib.Opts)])


def serve(model: Union[Path, Sequence[Path]], *, ready: Optional[Callable[[dict[str, Any]], Any]] = None,
          request: Optional[Callable[[dict[str, Any]], Any]] = None, threads: int = 0, device: Optional[str] = None,
          max_memory: _lib.Size = 0, log: Optional[_lib.Log] = None, cancel: Optional[Cancel] = None,
          **options: Any) -> None:
    """Serves an OpenAI-compatible API over HTTP until `cancel.now()` or Ctrl-C. ready is called
    with {"url": ...} once the server accepts requests, request with one log record per request.
    model may be a folder of GGUF files or a list of files: each request's model selects one, and
    max_memory bounds the memory of the loaded files. options are the fields of hone_serve_opts
    in hone.h (docs/reference.md): host="127.0.0.1", port=0 (any), parallel=4, n_ctx=8192,
    no_key=True, ..."""
    o, values = Options(None, log, cancel, threads, device, max_memory=max_memory), {}
    models = [model] if isinstance(model, (str, bytes, os.PathLike)) else list(model)
    if not models:
        raise UsageError("serve() needs one model or more")
    known = {n for n, *_ in ServeOpts._fields_} - {"size", "ready", "request", "user", "more"}
    for name, value in options.items():
        if name not in known:
            raise TypeError(f"serve() has no option {name!r}")
        if name in _SAMPLING and value is not None and not value:
            value = -1  # the library's 0 is the file's own setting
        values[name] = _lib.word(value) if name in _TEXTS else _lib.paths(value) if name in ("host", "allow_host", "allow_origin") else value

    def tell(say: Optional[Callable[[dict[str, Any]], Any]]) -> Any:
        def told(user: Any, line: bytes) -> None:
            try:
                if say:
                    say(json.loads(line))
            except BaseException as error:
                o.raised(error)
                o.stop()
        return SAYS(told)

    if models[1:]:
        values["more"] = _lib.paths(models[1:])
    s = ServeOpts(ready=tell(ready), request=tell(request), **values)
    o.run(lib.serve, _lib.path(models[0]), C.byref(s), o.ref)
