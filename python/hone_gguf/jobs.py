# SPDX-License-Identifier: MIT
"""Quantizing, and the commands of the program hone as functions."""

from __future__ import annotations

import ctypes as C
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional, Sequence, Union

from . import _lib
from ._lib import Cancel, Handle, Options, lib
from .errors import UsageError, Verdict, command_exception
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
    """A GGUF file to a smaller one. recipe: "Q4_K_M", a type's name, or the path of a plan. tensors:
    {regular expression: type}, the first match wins. requantize: also a file that is quantized
    already. dry_run: only what it would take."""
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
    """Rows [..., columns] of numbers to the blocks of a type, [..., bytes of a row]. importance: a
    weight per column, the mean squared input. What `Tensor.data` of such a file would be."""
    import numpy as np

    t, a = type if isinstance(type, Type) else Type(type), np.ascontiguousarray(array, np.float32)
    row = t.row_bytes(a.shape[-1]) if a.ndim else 0
    if not row:
        raise UsageError(f"rows of {a.shape[-1] if a.ndim else 0} numbers are no whole blocks of {t.name}")
    imp = None if importance is None else np.ascontiguousarray(importance, np.float32)
    if imp is not None and imp.shape != (a.shape[-1],):
        raise UsageError("importance has one number per column")
    out, o = np.empty((*a.shape[:-1], row), np.uint8), Options(threads=threads)
    q = _quantizer(o)
    o.run(lib.quantizer_rows, q.value, t.id, a.ctypes.data, a.size // a.shape[-1], a.shape[-1],
          None if imp is None else imp.ctypes.data, out.ctypes.data)
    return out


def decode(blocks: "NDArray[Any]", type: Union[str, Type]) -> "NDArray[np.float32]":
    """The other way round: [..., bytes of a row] to [..., columns]."""
    import numpy as np

    t, b = type if isinstance(type, Type) else Type(type), np.ascontiguousarray(blocks, np.uint8)
    if b.ndim < 1 or not b.shape[-1] or b.shape[-1] % t.block_bytes:
        raise UsageError(f"rows are no whole blocks of {t.name}, which have {t.block_bytes} bytes")
    cols = b.shape[-1] // t.block_bytes * t.block_weights
    out = np.empty((*b.shape[:-1], cols), np.float32)
    lib.decode(t.id, b.ctypes.data, b.size // b.shape[-1], cols, out.ctypes.data)
    return out


def _arguments(options: dict[str, Any]) -> list[str]:
    """max_memory="4G" -> --max-memory 4G; True: the option alone; lists: once for each."""
    out: list[str] = []
    for name, v in options.items():
        flag = ("-" if len(name) == 1 else "--") + name.replace("_", "-")
        if v is None or v is False:
            continue
        for one in v if isinstance(v, (list, tuple)) else [v]:
            out += [flag] if one is True else [flag, os.fspath(one) if isinstance(one, os.PathLike) else str(one)]
    return out


def call(command: str, *args: Union[str, Path], progress: Optional[_lib.Progress] = None,
         log: Optional[_lib.Log] = None, cancel: Optional[Cancel] = None, **options: Any) -> Report:
    """A command of the program with its options as keywords (`hone help COMMAND`), its JSON as the
    result: call("inspect", "model.gguf"), call("eval", "ppl", "model.gguf", "text.txt", ctx=512)."""
    o, r, found_status = Options(progress, log, cancel), _lib.Result(), C.c_int()
    words = [os.fspath(a) for a in args] + _arguments(options)

    def work() -> None:
        found_status.value = lib.call(command.encode(), _lib.texts(words), o.ref, C.byref(r))

    try:
        o.run(work)
        status, out, message = found_status.value, _lib.text(r.text or b""), _lib.text(r.message)
    finally:
        lib.result_free(C.byref(r))
    try:
        found = json.loads(out) if out.strip() else {}
    except ValueError:
        found = {"text": out}
    report = Report(found if isinstance(found, dict) else {"rows": found}, f"hone {command}")
    if status:
        error = command_exception(status, message)
        if isinstance(error, Verdict):
            error.report = report
        raise error
    return report


def make(source: Path, out: Path, *, progress: Optional[_lib.Progress] = None,
         log: Optional[_lib.Log] = None, cancel: Optional[Cancel] = None, **options: Any) -> Report:
    """The main job: a Hugging Face folder to a folder of measured, quantized files with their
    report. Options as of `hone make`: make(src, out, recipes="Q4_K_M,Q6_K", time="1h"). One that
    was cancelled goes on when it is called again."""
    return call("make", source, output=out, progress=progress, log=log, cancel=cancel, **options)


def plan(path: Path, *, vram: Optional[str] = None, ctx: Optional[int] = None, **options: Any) -> Report:
    """Will it fit? Exact memory, and command lines. vram: "24GiB". Verdict: it does not fit."""
    return call("plan", path, vram=vram, ctx=ctx, **options)


def _step(name: str, o: Options, *args: Any) -> Report:
    """A step on files; what it found is the result, or that of the exception."""
    found = C.c_void_p()

    def report() -> Report:
        text = _lib.text(C.string_at(found.value)) if found.value else "{}"
        lib.free(found)
        return Report(json.loads(text), f"hone {name}")

    try:
        o.run(getattr(lib, name), *args, o.ref, C.byref(found))
    except Verdict as error:
        error.report = report()
        raise
    return report()


def convert(source: Path, out: Path, *, type: Optional[str] = None, name: Optional[str] = None,
            lora: Optional[Path] = None, mmproj: Optional[Path] = None, split_max: int = 0, mtp: bool = True,
            pad: bool = False, keep_mxfp4: bool = False, overwrite: bool = False, dry_run: bool = False,
            threads: int = 0, progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
            cancel: Optional[Cancel] = None) -> Report:
    """A Hugging Face folder to a GGUF. type: "f16", "bf16", "f32", "q8_0"; None: as stored. lora: folder of
    an adapter that is merged. mmproj: also the vision tower, to this file."""
    c = _lib.ConvertOpts(type=_lib.word(type), name=_lib.word(name), lora=_lib.word(lora), mmproj=_lib.word(mmproj),
                         split_max=split_max, no_mtp=int(not mtp), pad=int(pad), keep_mxfp4=int(keep_mxfp4),
                         overwrite=int(overwrite), dry_run=int(dry_run))
    return _step("convert", Options(progress, log, cancel, threads), _lib.path(source), _lib.path(out), C.byref(c))


def imatrix(model: Path, texts: Union[Path, Sequence[Path]], out: Path, *, n_ctx: int = 512, max_windows: int = 0,
            format: Optional[str] = None, gram: Optional[Path] = None, device: str = "cpu", overwrite: bool = False,
            threads: int = 0, progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
            cancel: Optional[Cancel] = None) -> Report:
    """The importance matrix of a model: mean squared inputs over files of text, or of conversations
    (.jsonl). gram: also second moments, for error feedback."""
    i = _lib.ImatrixOpts(n_ctx=n_ctx, max_windows=max_windows, format=_lib.word(format), gram=_lib.word(gram),
                         device=device.encode(), overwrite=int(overwrite))
    return _step("imatrix", Options(progress, log, cancel, threads), _lib.path(model), _lib.paths(texts),
                 _lib.path(out), C.byref(i))


def imatrix_merge(matrices: Sequence[Path], out: Path, *, format: Optional[str] = None,
                  overwrite: bool = False) -> Report:
    """Adds importance matrices up; one alone is converted to the format "gguf" or "dat"."""
    i = _lib.ImatrixOpts(format=_lib.word(format), overwrite=int(overwrite))
    return _step("imatrix_merge", Options(), _lib.paths(matrices), _lib.path(out), C.byref(i))


def sensitivity(model: Path, out: Path, *, imatrix: Optional[Path] = None,
                texts: Union[Path, Sequence[Path], None] = None, n_ctx: int = 512, max_windows: int = 16,
                seconds: float = 0, device: str = "cpu", overwrite: bool = False, threads: int = 0,
                progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
                cancel: Optional[Cancel] = None) -> Report:
    """What each type costs each part of a model, measured over texts that are not the matrix's: for `mix`."""
    s = _lib.SensitivityOpts(imatrix=_lib.word(imatrix), texts=_lib.paths(texts), n_ctx=n_ctx,
                             max_windows=max_windows, seconds=seconds, device=device.encode(), overwrite=int(overwrite))
    return _step("sensitivity", Options(progress, log, cancel, threads), _lib.path(model), _lib.path(out), C.byref(s))


def mix(path: Path, out: Path, *, n_bytes: int = 0, vram: int = 0, reserve: int = 0, n_ctx: int = 0, n_slots: int = 0,
        kv_type: Optional[str] = None, imatrix: Optional[Path] = None, gram: Optional[Path] = None,
        sensitivity: Optional[Path] = None, avoid: Sequence[str] = (), search: Optional[str] = None,
        plan_out: Optional[Path] = None, gate: Union[Path, Sequence[Path], None] = None, overwrite: bool = False,
        dry_run: bool = False, threads: int = 0, progress: Optional[_lib.Progress] = None,
        log: Optional[_lib.Log] = None, cancel: Optional[Cancel] = None) -> Report:
    """A GGUF to the best mix of types of at most n_bytes, or that a card of vram bytes holds with n_ctx
    tokens. sensitivity: what `sensitivity` measured. gate: texts on which it must beat plain recipes."""
    m = _lib.MixOpts(bytes=n_bytes, vram=vram, reserve=reserve, n_ctx=n_ctx, n_slots=n_slots, kv_type=_lib.word(kv_type),
                     imatrix=_lib.word(imatrix), gram=_lib.word(gram), sensitivity=_lib.word(sensitivity),
                     avoid=",".join(avoid).encode() if avoid else None, search=_lib.word(search),
                     plan_out=_lib.word(plan_out), gate=_lib.paths(gate), overwrite=int(overwrite), dry_run=int(dry_run))
    return _step("mix", Options(progress, log, cancel, threads), _lib.path(path), _lib.path(out), C.byref(m))


def inspect(path: Path, *, tensors: bool = False) -> Report:
    """What a file or folder is, from its headers: a GGUF, a checkpoint, an importance matrix, ..."""
    return _step("inspect", Options(), _lib.path(path), int(tensors))


def verify(path: Path, *, deep: bool = False, manifest: Optional[Path] = None,
           progress: Optional[_lib.Progress] = None, cancel: Optional[Cancel] = None) -> Report:
    """Is a file or folder whole and what it claims? Verdict: no. deep: all data are read."""
    return _step("verify", Options(progress, None, cancel), _lib.path(path), int(deep), _lib.word(manifest))


def diff(a: Path, b: Path, *, weights: bool = False, progress: Optional[_lib.Progress] = None,
         cancel: Optional[Cancel] = None) -> Report:
    """What changed from one GGUF to another; `same` tells whether anything did. weights: also the
    relative error of each tensor's weights."""
    try:
        return Report({**_step("diff", Options(progress, None, cancel), _lib.path(a), _lib.path(b), int(weights)),
                       "same": True}, "hone diff")
    except Verdict as verdict:
        assert isinstance(verdict.report, Report)
        return Report({**verdict.report, "same": False}, "hone diff")


def commands() -> list[str]:
    """Names that `call` takes."""
    names: list[str] = []
    while (name := lib.command(len(names))) is not None:
        names.append(name.decode())
    return names
