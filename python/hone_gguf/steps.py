# SPDX-License-Identifier: MIT
"""The steps on files of include/hone.h as functions.

Written by python/make_steps.py: change hone.h, then `make python-steps`."""

from __future__ import annotations

import ctypes as C
from typing import Optional

from . import _lib
from ._lib import Cancel, Options, Path, Size, Sized, Sizes, Text, Texts
from .report import Report


class ConvertOpts(Sized):
    _fields_ = [("size", C.c_size_t), ("type", C.c_char_p), ("name", C.c_char_p), ("lora", C.c_char_p),
                ("mmproj", C.c_char_p), ("split_max", C.c_uint64), ("no_mtp", C.c_int), ("pad", C.c_int),
                ("keep_mxfp4", C.c_int), ("overwrite", C.c_int), ("dry_run", C.c_int), ("pre", C.c_char_p)]


class ImatrixOpts(Sized):
    _fields_ = [("size", C.c_size_t), ("n_ctx", C.c_int64), ("max_windows", C.c_int64), ("format", C.c_char_p),
                ("gram", C.c_char_p), ("device", C.c_char_p), ("no_special", C.c_int), ("overwrite", C.c_int),
                ("gram_block", C.c_int64), ("moments", C.c_char_p), ("have", C.c_char_p)]


class SensitivityOpts(Sized):
    _fields_ = [("size", C.c_size_t), ("imatrix", C.c_char_p), ("texts", C.POINTER(C.c_char_p)), ("n_ctx", C.c_int64),
                ("max_windows", C.c_int64), ("seconds", C.c_double), ("device", C.c_char_p), ("overwrite", C.c_int),
                ("budget", C.POINTER(C.c_char_p)), ("n_types", C.c_int64), ("bands", C.c_int64),
                ("rounds", C.c_int64), ("search", C.c_char_p)]


class QuantizeOpts(Sized):
    _fields_ = [("size", C.c_size_t), ("recipe", C.c_char_p), ("imatrix", C.c_char_p),
                ("tensor", C.POINTER(C.c_char_p)), ("pure", C.c_int), ("overwrite", C.c_int), ("dry_run", C.c_int),
                ("requantize", C.c_int), ("type", C.c_char_p), ("gram", C.c_char_p),
                ("sequential", C.POINTER(C.c_char_p)), ("search", C.c_char_p), ("without", C.c_char_p),
                ("plan_out", C.c_char_p), ("split_max", C.c_uint64), ("resume", C.c_int)]


class MixOpts(Sized):
    _fields_ = [("size", C.c_size_t), ("bytes", C.c_uint64), ("vram", C.c_uint64), ("reserve", C.c_uint64),
                ("n_ctx", C.c_int64), ("n_slots", C.c_int64), ("kv_type", C.c_char_p), ("imatrix", C.c_char_p),
                ("gram", C.c_char_p), ("sensitivity", C.c_char_p), ("avoid", C.c_char_p), ("search", C.c_char_p),
                ("plan_out", C.c_char_p), ("gate", C.POINTER(C.c_char_p)), ("overwrite", C.c_int),
                ("dry_run", C.c_int), ("budget", C.POINTER(C.c_char_p)), ("bpw", C.c_double),
                ("sequential", C.POINTER(C.c_char_p)), ("without", C.c_char_p), ("tensor", C.POINTER(C.c_char_p)),
                ("prefer", C.c_char_p), ("front", C.c_char_p), ("no_floors", C.c_int), ("bandwidth", C.c_uint64),
                ("split_max", C.c_uint64), ("requantize", C.c_int), ("resume", C.c_int)]


class MakeOpts(Sized):
    _fields_ = [("size", C.c_size_t), ("recipes", C.c_char_p), ("seconds", C.c_double),
                ("calib", C.POINTER(C.c_char_p)), ("eval", C.POINTER(C.c_char_p)), ("probe", C.POINTER(C.c_char_p)),
                ("budget", C.POINTER(C.c_char_p)), ("tools", C.c_char_p), ("calib_windows", C.c_int64),
                ("eval_windows", C.c_int64), ("tools_cases", C.c_int64), ("device", C.c_char_p), ("plain", C.c_int),
                ("overwrite", C.c_int), ("dry_run", C.c_int), ("effort", C.c_char_p), ("probe_seconds", C.c_double),
                ("calib_ctx", C.c_int64), ("eval_ctx", C.c_int64), ("type", C.c_char_p), ("search", C.c_char_p),
                ("n_prompt", C.c_int64), ("n_generate", C.c_int64), ("reps", C.c_int64), ("depths", C.c_char_p),
                ("by_depth", C.c_int), ("requantize", C.c_int), ("resume", C.c_int), ("notes", C.c_char_p),
                ("repo", C.c_char_p), ("base_model", C.c_char_p), ("license", C.c_char_p),
                ("license_name", C.c_char_p), ("license_link", C.c_char_p), ("quantized_by", C.c_char_p),
                ("name", C.c_char_p), ("language", C.c_char_p), ("tags", C.c_char_p)]


class PlanOpts(Sized):
    _fields_ = [("size", C.c_size_t), ("vram", C.c_char_p), ("reserve", C.c_uint64), ("n_ctx", C.c_int64),
                ("n_slots", C.c_int64), ("kv_type", C.c_char_p), ("recipes", C.c_int), ("act", C.c_char_p),
                ("plot", C.c_char_p), ("launches", C.c_int)]


class ReplayOpts(Sized):
    _fields_ = [("size", C.c_size_t), ("source", C.c_char_p), ("imatrix", C.c_char_p), ("gram", C.c_char_p),
                ("path", C.c_char_p), ("overwrite", C.c_int)]


class RecipesOpts(Sized):
    _fields_ = [("size", C.c_size_t), ("recipe", C.c_char_p), ("plan_out", C.c_char_p), ("imatrix", C.c_char_p),
                ("overwrite", C.c_int)]


class PublishOpts(Sized):
    _fields_ = [("size", C.c_size_t), ("repo", C.c_char_p), ("base_model", C.c_char_p), ("license", C.c_char_p),
                ("license_name", C.c_char_p), ("license_link", C.c_char_p), ("quantized_by", C.c_char_p),
                ("name", C.c_char_p), ("language", C.c_char_p), ("tags", C.c_char_p), ("notes", C.c_char_p),
                ("source", C.c_char_p), ("supersedes", C.c_char_p), ("manifest_only", C.c_int),
                ("overwrite", C.c_int)]


class SplitOpts(Sized):
    _fields_ = [("size", C.c_size_t), ("path", C.c_char_p), ("max_size", C.c_uint64), ("data_first", C.c_int),
                ("overwrite", C.c_int), ("dry_run", C.c_int)]


class SynthOpts(Sized):
    _fields_ = [("size", C.c_size_t), ("shape", C.c_char_p), ("recipe", C.c_char_p), ("tokenizer", C.c_char_p),
                ("layers", C.c_int64), ("seed", C.c_int64), ("skew", C.c_double), ("overwrite", C.c_int),
                ("dry_run", C.c_int)]


class TemplateFixOpts(Sized):
    _fields_ = [("size", C.c_size_t), ("path", C.c_char_p), ("only", C.c_char_p), ("replace", C.c_char_p),
                ("in_place", C.c_int), ("list", C.c_int), ("overwrite", C.c_int)]


class TemplateRenderOpts(Sized):
    _fields_ = [("size", C.c_size_t), ("tools", C.c_char_p), ("kwargs", C.c_char_p), ("name", C.c_char_p),
                ("context", C.c_char_p), ("mode", C.c_char_p), ("now", C.c_char_p), ("args", C.c_char_p),
                ("no_invite", C.c_int)]


class EvalOpts(Sized):
    _fields_ = [("size", C.c_size_t), ("n_ctx", C.c_int64), ("max_windows", C.c_int64), ("kv_type", C.c_char_p),
                ("act", C.c_char_p), ("base", C.c_char_p), ("keep", C.c_char_p), ("plot", C.c_char_p),
                ("overwrite", C.c_int), ("stride", C.c_int64), ("base_file", C.c_char_p), ("save_base", C.c_char_p),
                ("compact", C.c_int), ("top", C.c_int64), ("tail", C.c_int64), ("by_depth", C.c_int),
                ("routing", C.c_int), ("worst", C.c_int64), ("base_kv_type", C.c_char_p),
                ("kv_skip_layers", C.c_int64), ("kv_skip_type", C.c_char_p), ("n_prompt", C.c_int64),
                ("n_generate", C.c_int64), ("depths", C.c_char_p), ("reps", C.c_int64), ("head_dims", C.c_char_p),
                ("cosine", C.c_double), ("max_cases", C.c_int64), ("max_tokens", C.c_int64), ("format", C.c_char_p),
                ("require", C.c_double), ("no_loss", C.c_int), ("from_answers", C.c_int), ("constrained", C.c_int),
                ("jump", C.c_int), ("all", C.c_int), ("sampled", C.c_int), ("n_depths", C.c_int64),
                ("per_depth", C.c_int64), ("texts", C.POINTER(C.c_char_p)), ("tools", C.POINTER(C.c_char_p)),
                ("choices", C.POINTER(C.c_char_p)), ("needles", C.POINTER(C.c_char_p)), ("needle_ctx", C.c_int64),
                ("strict_calls", C.c_int)]


def convert(folder: Path, path: Path, *, type: Text = None, name: Text = None, lora: Text = None, mmproj: Text = None,
            split_max: Size = 0, no_mtp: bool = False, pad: bool = False, keep_mxfp4: bool = False,
            overwrite: bool = False, dry_run: bool = False, pre: Text = None, threads: int = 0,
            device: Optional[str] = None, isa: Optional[str] = None, max_memory: Size = 0,
            progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
            cancel: Optional[Cancel] = None) -> Report:
    """A Hugging Face folder to a GGUF.

    type: "f32", "f16", "bf16", "q8_0"; None: as stored
    name: general.name; None: from the folder
    lora: folder of an adapter that is merged into the weights
    mmproj: also writes the vision tower there
    split_max: bytes of a file; 0: one file
    no_mtp: leaves the block that drafts tokens out
    pad: feed-forward widths padded with zeros to multiples of 256
    keep_mxfp4: matrices stored as MXFP4 stay that
    pre: pre-tokenizer, where it is not recognised; since 1.2
    """
    o = Options(threads=threads, device=device, isa=isa, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = ConvertOpts(type=_lib.word(type), name=_lib.word(name), lora=_lib.word(lora), mmproj=_lib.word(mmproj),
                    split_max=_lib.n_bytes(split_max), no_mtp=int(no_mtp), pad=int(pad), keep_mxfp4=int(keep_mxfp4),
                    overwrite=int(overwrite), dry_run=int(dry_run), pre=_lib.word(pre))
    return _lib.step("convert", o, _lib.word(folder), _lib.word(path), C.byref(s), o.ref)


def imatrix(model: Path, texts: Texts, path: Path, *, n_ctx: int = 0, max_windows: int = 0, format: Text = None,
            gram: Text = None, device: Text = None, no_special: bool = False, overwrite: bool = False,
            gram_block: int = 0, moments: Text = None, threads: int = 0, isa: Optional[str] = None,
            pre: Optional[str] = None, max_memory: Size = 0, progress: Optional[_lib.Progress] = None,
            log: Optional[_lib.Log] = None, cancel: Optional[Cancel] = None) -> Report:
    """The mean squared input of every column of every matrix, over files of text or of conversations (.jsonl).

    n_ctx: tokens of a window; 0: 512
    max_windows: 0: all
    format: "gguf" or "dat"; None: by the ending of the path
    gram: also writes second moments there, for error feedback
    device: as in session_opts
    no_special: texts of control tokens are plain text
    gram_block: columns of a block of second moments; 0: all up to 4096, else 2048
    moments: also writes the sums of inputs and of their fourth powers there
    """
    o = Options(threads=threads, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log, cancel=cancel)
    s = ImatrixOpts(n_ctx=n_ctx, max_windows=max_windows, format=_lib.word(format), gram=_lib.word(gram),
                    device=_lib.word(device), no_special=int(no_special), overwrite=int(overwrite),
                    gram_block=gram_block, moments=_lib.word(moments))
    return _lib.step("imatrix", o, _lib.word(model), _lib.paths(texts), _lib.word(path), C.byref(s), o.ref)


def imatrix_merge(matrices: Texts, path: Path, *, format: Text = None, overwrite: bool = False, threads: int = 0,
                  device: Optional[str] = None, isa: Optional[str] = None, pre: Optional[str] = None,
                  max_memory: Size = 0, progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
                  cancel: Optional[Cancel] = None) -> Report:
    """Adds matrices up; one alone is converted to the other format. Of the options format and overwrite count.

    format: "gguf" or "dat"; None: by the ending of the path
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = ImatrixOpts(format=_lib.word(format), overwrite=int(overwrite))
    return _lib.step("imatrix_merge", o, _lib.paths(matrices), _lib.word(path), C.byref(s), o.ref)


def imatrix_stats(path: Path, *, threads: int = 0, device: Optional[str] = None, isa: Optional[str] = None,
                  pre: Optional[str] = None, max_memory: Size = 0, progress: Optional[_lib.Progress] = None,
                  log: Optional[_lib.Log] = None, cancel: Optional[Cancel] = None) -> Report:
    """What a matrix says of each tensor."""
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    return _lib.step("imatrix_stats", o, _lib.word(path), o.ref)


def imatrix_select(model: Path, texts: Texts, n_tokens: int, path: Path, *, n_ctx: int = 0, no_special: bool = False,
                   overwrite: bool = False, have: Text = None, threads: int = 0, device: Optional[str] = None,
                   isa: Optional[str] = None, pre: Optional[str] = None, max_memory: Size = 0,
                   progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
                   cancel: Optional[Cancel] = None) -> Report:
    """Chooses documents of n_tokens together that rare experts need, out of texts of documents (.jsonl), and writes
    them to a path. Options that count: n_ctx, no_special, have, overwrite.

    n_ctx: tokens of a window; 0: 512
    no_special: texts of control tokens are plain text
    have: matrix of the texts that are there already
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = ImatrixOpts(n_ctx=n_ctx, no_special=int(no_special), overwrite=int(overwrite), have=_lib.word(have))
    return _lib.step("imatrix_select", o, _lib.word(model), _lib.paths(texts), n_tokens, _lib.word(path), C.byref(s),
                     o.ref)


def sensitivity(model: Path, path: Path, *, imatrix: Text = None, texts: Texts = None, n_ctx: int = 0,
                max_windows: int = 0, seconds: float = 0.0, device: Text = None, overwrite: bool = False,
                budget: Sizes = None, n_types: int = 0, bands: int = 0, rounds: int = 0, search: Text = None,
                threads: int = 0, isa: Optional[str] = None, pre: Optional[str] = None, max_memory: Size = 0,
                progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
                cancel: Optional[Cancel] = None) -> Report:
    """What each type costs each part of a model, measured: for mix.

    texts: probed over these, not those of the matrix; None: errors alone
    n_ctx: tokens of a window; 0: 512
    max_windows: 0: 16
    seconds: of probing; 0: no limit
    budget: "15.9GiB": also measures around the mix of these sizes
    n_types: types that are probed per group, 1 to 4; 0: 3
    bands: layers that are probed per role, spread by depth; 0: all
    rounds: of measuring around each mix; 0: 1
    search: of the encoders: "fast", "best", "conventional"; None: fast
    """
    o = Options(threads=threads, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log, cancel=cancel)
    s = SensitivityOpts(imatrix=_lib.word(imatrix), texts=_lib.paths(texts), n_ctx=n_ctx, max_windows=max_windows,
                        seconds=seconds, device=_lib.word(device), overwrite=int(overwrite),
                        budget=_lib.paths(budget), n_types=n_types, bands=bands, rounds=rounds,
                        search=_lib.word(search))
    return _lib.step("sensitivity", o, _lib.word(model), _lib.word(path), C.byref(s), o.ref)


def quantize_files(source: Path, path: Path, *, recipe: Text = None, imatrix: Text = None, tensor: Texts = None,
                   pure: bool = False, overwrite: bool = False, dry_run: bool = False, requantize: bool = False,
                   type: Text = None, gram: Text = None, sequential: Texts = None, search: Text = None,
                   without: Text = None, plan_out: Text = None, split_max: Size = 0, resume: bool = False,
                   threads: int = 0, device: Optional[str] = None, isa: Optional[str] = None,
                   pre: Optional[str] = None, max_memory: Size = 0, progress: Optional[_lib.Progress] = None,
                   log: Optional[_lib.Log] = None, cancel: Optional[Cancel] = None) -> Report:
    """A GGUF to smaller GGUFs by recipe, plan or type. Several recipes with commas between them share one reading of
    the model; path is then a folder, or a name with {} for the recipe.

    recipe: "Q4_K_M", a type's name, or the path of a plan
    imatrix: path, or None
    tensor: "REGEX=TYPE", first match wins; None after the last
    pure: every matrix gets the recipe's type
    requantize: True: also a file that is quantized already, with its errors
    type: in place of the recipe: one type wherever it can be
    gram: second moments of imatrix: error feedback; or None
    sequential: error feedback block by block, from these files of text
    search: "fast", "best", "conventional"; None: fast
    without: steps of feedback to leave out, "balance,codes"; or None
    plan_out: the plan is written there; or None
    split_max: bytes of a file of the output; 0: one file
    resume: True: what is done of an interrupted output is kept even if it is small
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = QuantizeOpts(recipe=_lib.word(recipe), imatrix=_lib.word(imatrix), tensor=_lib.paths(tensor), pure=int(pure),
                     overwrite=int(overwrite), dry_run=int(dry_run), requantize=int(requantize), type=_lib.word(type),
                     gram=_lib.word(gram), sequential=_lib.paths(sequential), search=_lib.word(search),
                     without=_lib.word(without), plan_out=_lib.word(plan_out), split_max=_lib.n_bytes(split_max),
                     resume=int(resume))
    return _lib.step("quantize", o, _lib.word(source), _lib.word(path), C.byref(s), o.ref)


def mix(source: Path, path: Path, *, n_bytes: Size = 0, vram: Size = 0, reserve: Size = 0, n_ctx: int = 0,
        n_slots: int = 0, kv_type: Text = None, imatrix: Text = None, gram: Text = None, sensitivity: Text = None,
        avoid: Text = None, search: Text = None, plan_out: Text = None, gate: Texts = None, overwrite: bool = False,
        dry_run: bool = False, budget: Sizes = None, bpw: float = 0.0, sequential: Texts = None, without: Text = None,
        tensor: Texts = None, prefer: Text = None, front: Text = None, no_floors: bool = False, bandwidth: Size = 0,
        split_max: Size = 0, requantize: bool = False, resume: bool = False, threads: int = 0,
        device: Optional[str] = None, isa: Optional[str] = None, pre: Optional[str] = None, max_memory: Size = 0,
        progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
        cancel: Optional[Cancel] = None) -> Report:
    """A GGUF to the best mix of types that fits.

    n_bytes: of the file at most; 0: `vram` says
    vram: bytes of a card that holds it with n_ctx; 0: `bytes` says
    reserve: of that to keep free; 0: the usual
    n_ctx: with vram; 0: as trained, one
    n_slots: with vram; 0: as trained, one
    kv_type: with vram; None: f16
    imatrix: or None
    gram: second moments: error feedback; or None
    sensitivity: file of sensitivity; None: errors by role
    avoid: types not to use, "IQ1_S,Q2_K"; or None
    search: "fast", "best", "conventional"; None: fast
    plan_out: the plan is written there; None: next to the output
    gate: files of text: it must beat the plain recipes that fit on them
    budget: "15.9GiB": a file of each of these sizes
    bpw: one more size, as bits per weight; 0: none
    sequential: error feedback block by block, from these files of text
    without: steps of feedback to leave out, "balance,codes"; or None
    tensor: "REGEX=TYPE", first match wins
    prefer: "quality" (None), "speed", or a weight: "0.5"
    front: SVG of the best mixes from quality to speed; or None
    no_floors: no lower limits by role
    bandwidth: bytes a second, for predicted times; 0: 1000 GB
    split_max: bytes of a file of the output; 0: one file
    requantize: also a file that is quantized already
    resume: what is done of an interrupted output is kept
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = MixOpts(bytes=_lib.n_bytes(n_bytes), vram=_lib.n_bytes(vram), reserve=_lib.n_bytes(reserve), n_ctx=n_ctx,
                n_slots=n_slots, kv_type=_lib.word(kv_type), imatrix=_lib.word(imatrix), gram=_lib.word(gram),
                sensitivity=_lib.word(sensitivity), avoid=_lib.word(avoid), search=_lib.word(search),
                plan_out=_lib.word(plan_out), gate=_lib.paths(gate), overwrite=int(overwrite), dry_run=int(dry_run),
                budget=_lib.paths(budget), bpw=bpw, sequential=_lib.paths(sequential), without=_lib.word(without),
                tensor=_lib.paths(tensor), prefer=_lib.word(prefer), front=_lib.word(front), no_floors=int(no_floors),
                bandwidth=_lib.n_bytes(bandwidth), split_max=_lib.n_bytes(split_max), requantize=int(requantize),
                resume=int(resume))
    return _lib.step("mix", o, _lib.word(source), _lib.word(path), C.byref(s), o.ref)


@_lib.renamed(time="seconds", force="overwrite", ctx="eval_ctx", chunks="eval_windows", calib_chunks="calib_windows")
def make(source: Path, folder: Path, *, recipes: Text = None, seconds: float = 0.0, calib: Texts = None,
         eval: Texts = None, probe: Texts = None, budget: Sizes = None, tools: Text = None, calib_windows: int = 0,
         eval_windows: int = 0, tools_cases: int = 0, device: Text = None, plain: bool = False,
         overwrite: bool = False, dry_run: bool = False, effort: Text = None, probe_seconds: float = 0.0,
         calib_ctx: int = 0, eval_ctx: int = 0, type: Text = None, search: Text = None, n_prompt: int = 0,
         n_generate: int = 0, reps: int = 0, depths: Text = None, by_depth: bool = False, requantize: bool = False,
         resume: bool = False, notes: Text = None, repo: Text = None, base_model: Text = None, license: Text = None,
         license_name: Text = None, license_link: Text = None, quantized_by: Text = None, name: Text = None,
         language: Text = None, tags: Text = None, threads: int = 0, isa: Optional[str] = None,
         pre: Optional[str] = None, max_memory: Size = 0, progress: Optional[_lib.Progress] = None,
         log: Optional[_lib.Log] = None, cancel: Optional[Cancel] = None) -> Report:
    """The main job: a Hugging Face folder (or a GGUF) to a folder of measured files and their report. A call after one
    that was cancelled goes on with it.

    recipes: "Q4_K_M,Q6_K"; None: the usual ones
    seconds: of the whole job; 0: 12 hours, < 0: no limit
    calib: files of text; None: the library's own
    eval: files of text that divergence is measured on; None: its own
    probe: files of text that mixes are chosen on; None: its own
    budget: "15.9GiB": also the best mix of these sizes
    tools: suite of tool calls: path, "builtin", "none"; None: SRC's own
    calib_windows: 0: all
    eval_windows: 0: 100, < 0: all
    tools_cases: 0: 12, < 0: all
    plain: presets alone, no mixes
    overwrite: all steps again; else those that were done with the same inputs are not
    effort: "fast", "normal" (None), "high": how mixes are made
    probe_seconds: of the probes that mixes are chosen by; 0: no limit
    calib_ctx: tokens of a window of calibration; 0: 512
    eval_ctx: tokens of a window of evaluation; 0: 512
    type: of the base: "f32", "f16", "bf16", "q8_0"; None: as stored
    search: "fast", "best", "conventional"; None: presets fast, mixes best
    n_prompt: tokens of the speed test's prompt; 0: 512
    n_generate: tokens that it generates; 0: 64
    reps: its repetitions; 0: 3
    depths: context already filled in it, "0,4096"; None: 0
    by_depth: divergence also by tokens of context
    requantize: also a SRC that is quantized already
    resume: what is done of a quantized file is kept even if it is small
    notes: file with your own words for README.md; or None
    """
    o = Options(threads=threads, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log, cancel=cancel)
    s = MakeOpts(recipes=_lib.word(recipes), seconds=seconds, calib=_lib.paths(calib), eval=_lib.paths(eval),
                 probe=_lib.paths(probe), budget=_lib.paths(budget), tools=_lib.word(tools),
                 calib_windows=calib_windows, eval_windows=eval_windows, tools_cases=tools_cases,
                 device=_lib.word(device), plain=int(plain), overwrite=int(overwrite), dry_run=int(dry_run),
                 effort=_lib.word(effort), probe_seconds=probe_seconds, calib_ctx=calib_ctx, eval_ctx=eval_ctx,
                 type=_lib.word(type), search=_lib.word(search), n_prompt=n_prompt, n_generate=n_generate, reps=reps,
                 depths=_lib.word(depths), by_depth=int(by_depth), requantize=int(requantize), resume=int(resume),
                 notes=_lib.word(notes), repo=_lib.word(repo), base_model=_lib.word(base_model),
                 license=_lib.word(license), license_name=_lib.word(license_name),
                 license_link=_lib.word(license_link), quantized_by=_lib.word(quantized_by), name=_lib.word(name),
                 language=_lib.word(language), tags=_lib.word(tags))
    return _lib.step("make", o, _lib.word(source), _lib.word(folder), C.byref(s), o.ref)


@_lib.renamed(ctx="n_ctx", slots="n_slots")
def plan(model: Path, *, vram: Sizes = None, reserve: Size = 0, n_ctx: int = 0, n_slots: int = 0,
         kv_type: Text = None, recipes: bool = False, act: Text = None, plot: Text = None, launches: bool = False,
         threads: int = 0, device: Optional[str] = None, isa: Optional[str] = None, pre: Optional[str] = None,
         max_memory: Size = 0, progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
         cancel: Optional[Cancel] = None) -> Report:
    """Will it fit? For a folder: which of its files? Verdict: nothing fits the card.

    vram: "24GiB", of several cards "24GiB,16GiB"; None: none is asked about
    reserve: bytes to keep free; 0: the usual
    n_ctx: 0: as trained, one
    n_slots: 0: as trained, one
    kv_type: None: f16
    recipes: also the sizes of this model by every recipe
    act: with launches, activations: "f32", "q8" (None)
    plot: SVG of memory by context and cache type; or None
    launches: instead: what a pass does step by step, with bytes and FLOP
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = PlanOpts(vram=_lib.word(vram), reserve=_lib.n_bytes(reserve), n_ctx=n_ctx, n_slots=n_slots,
                 kv_type=_lib.word(kv_type), recipes=int(recipes), act=_lib.word(act), plot=_lib.word(plot),
                 launches=int(launches))
    return _lib.step("plan", o, _lib.word(model), C.byref(s), o.ref)


def inspect(path: Path, *, tensors: bool = False, threads: int = 0, device: Optional[str] = None,
            isa: Optional[str] = None, pre: Optional[str] = None, max_memory: Size = 0,
            progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
            cancel: Optional[Cancel] = None) -> Report:
    """What a file or folder is, from its headers; tensors: True lists them. DataError: nothing that is known."""
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    return _lib.step("inspect", o, _lib.word(path), int(tensors), o.ref)


def verify(path: Path, manifest: Text = None, *, deep: bool = False, threads: int = 0, device: Optional[str] = None,
           isa: Optional[str] = None, pre: Optional[str] = None, max_memory: Size = 0,
           progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
           cancel: Optional[Cancel] = None) -> Report:
    """Is it whole and what it claims? Verdict: no, json says what was found. deep: True reads all data. manifest: file
    of checksums, None: the folder's own.
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    return _lib.step("verify", o, _lib.word(path), int(deep), _lib.word(manifest), o.ref)


def replay(file: Path, *, source: Text = None, imatrix: Text = None, gram: Text = None, path: Text = None,
           overwrite: bool = False, threads: int = 0, device: Optional[str] = None, isa: Optional[str] = None,
           pre: Optional[str] = None, max_memory: Size = 0, progress: Optional[_lib.Progress] = None,
           log: Optional[_lib.Log] = None, cancel: Optional[Cancel] = None) -> Report:
    """
    source: what it was quantized from; None: the recorded name, next to it
    imatrix: importance matrix; None: likewise
    gram: second moments; None: likewise
    path: where the copy stays; None: it is removed
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = ReplayOpts(source=_lib.word(source), imatrix=_lib.word(imatrix), gram=_lib.word(gram), path=_lib.word(path),
                   overwrite=int(overwrite))
    return _lib.step("replay", o, _lib.word(file), C.byref(s), o.ref)


def recipes(model: Text = None, *, recipe: Text = None, plan_out: Text = None, imatrix: Text = None,
            overwrite: bool = False, threads: int = 0, device: Optional[str] = None, isa: Optional[str] = None,
            pre: Optional[str] = None, max_memory: Size = 0, progress: Optional[_lib.Progress] = None,
            log: Optional[_lib.Log] = None, cancel: Optional[Cancel] = None) -> Report:
    """Every recipe; model None: names alone, else with the exact size of the file each makes of it.

    recipe: this one is written as a plan, with plan_out; None: all are listed
    plan_out: the plan to edit: a tensor, a tab and a type in each line
    imatrix: importance matrix that will be used; or None
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = RecipesOpts(recipe=_lib.word(recipe), plan_out=_lib.word(plan_out), imatrix=_lib.word(imatrix),
                    overwrite=int(overwrite))
    return _lib.step("recipes", o, _lib.word(model), C.byref(s), o.ref)


def publish(folder: Path, *, repo: Text = None, base_model: Text = None, license: Text = None,
            license_name: Text = None, license_link: Text = None, quantized_by: Text = None, name: Text = None,
            language: Text = None, tags: Text = None, notes: Text = None, source: Text = None,
            supersedes: Text = None, manifest_only: bool = False, overwrite: bool = False, threads: int = 0,
            device: Optional[str] = None, isa: Optional[str] = None, pre: Optional[str] = None, max_memory: Size = 0,
            progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
            cancel: Optional[Cancel] = None) -> Report:
    """Makes a folder of GGUF files ready for the Hub: card, checksums, manifest.

    repo: "USER/NAME" that it will be on the Hub
    base_model: "ORG/NAME" of the original
    license: the Hub's identifier, "apache-2.0"
    license_name: with license "other": its name
    license_link: with license "other": where its text is
    quantized_by: who made the files
    name: the model's name
    language: "en,fr"
    tags: more tags, with commas between them
    notes: file with your own words for README.md
    source: Hugging Face folder whose license and config are copied
    supersedes: manifest.json of the release that this one replaces
    manifest_only: manifest.json and SHA256SUMS, nothing else
    overwrite: files of others are kept next to the new ones
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = PublishOpts(repo=_lib.word(repo), base_model=_lib.word(base_model), license=_lib.word(license),
                    license_name=_lib.word(license_name), license_link=_lib.word(license_link),
                    quantized_by=_lib.word(quantized_by), name=_lib.word(name), language=_lib.word(language),
                    tags=_lib.word(tags), notes=_lib.word(notes), source=_lib.word(source),
                    supersedes=_lib.word(supersedes), manifest_only=int(manifest_only), overwrite=int(overwrite))
    return _lib.step("publish", o, _lib.word(folder), C.byref(s), o.ref)


def publish_check(folder: Path, *, quick: bool = False, threads: int = 0, device: Optional[str] = None,
                  isa: Optional[str] = None, pre: Optional[str] = None, max_memory: Size = 0,
                  progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
                  cancel: Optional[Cancel] = None) -> Report:
    """Looks for faults of anyone's folder. Verdict: there are. quick: True reads no data."""
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    return _lib.step("publish_check", o, _lib.word(folder), int(quick), o.ref)


def split(source: Path, *, path: Text = None, max_size: Size = 0, data_first: bool = False, overwrite: bool = False,
          dry_run: bool = False, threads: int = 0, device: Optional[str] = None, isa: Optional[str] = None,
          pre: Optional[str] = None, max_memory: Size = 0, progress: Optional[_lib.Progress] = None,
          log: Optional[_lib.Log] = None, cancel: Optional[Cancel] = None) -> Report:
    """A GGUF to shards; every tensor is read back and compared.

    path: OUT.gguf names OUT-00001-of-0000N.gguf; None: as the input
    max_size: bytes of tensors of one file; 0: 49 GB
    data_first: tensors in the first file too
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = SplitOpts(path=_lib.word(path), max_size=_lib.n_bytes(max_size), data_first=int(data_first),
                  overwrite=int(overwrite), dry_run=int(dry_run))
    return _lib.step("split", o, _lib.word(source), C.byref(s), o.ref)


def merge(shard: Path, path: Text = None, *, overwrite: bool = False, threads: int = 0, device: Optional[str] = None,
          isa: Optional[str] = None, pre: Optional[str] = None, max_memory: Size = 0,
          progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
          cancel: Optional[Cancel] = None) -> Report:
    """The set that a shard belongs to as one file. path None: the name without its shard number."""
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    return _lib.step("merge", o, _lib.word(shard), _lib.word(path), int(overwrite), o.ref)


def synth(path: Path, *, shape: Text = None, recipe: Text = None, tokenizer: Text = None, layers: int = 0,
          seed: int = 0, skew: float = 0.0, overwrite: bool = False, dry_run: bool = False, threads: int = 0,
          device: Optional[str] = None, isa: Optional[str] = None, pre: Optional[str] = None, max_memory: Size = 0,
          progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
          cancel: Optional[Cancel] = None) -> Report:
    """A model of random weights with the shapes of a real one, for speed work.

    shape: "Qwen3.5-35B-A3B" (None), other names, or the path of a config.json
    recipe: a preset or one type; None: Q4_K_M
    tokenizer: folder whose vocabulary it gets; None: it has none
    layers: 0: as the shape has
    seed: of the random numbers; 0: 1
    skew: how unevenly routers choose experts, to 10
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = SynthOpts(shape=_lib.word(shape), recipe=_lib.word(recipe), tokenizer=_lib.word(tokenizer), layers=layers,
                  seed=seed, skew=skew, overwrite=int(overwrite), dry_run=int(dry_run))
    return _lib.step("synth", o, _lib.word(path), C.byref(s), o.ref)


def doctor(model: Text = None, list: Text = None, *, threads: int = 0, device: Optional[str] = None,
           isa: Optional[str] = None, pre: Optional[str] = None, max_memory: Size = 0,
           progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
           cancel: Optional[Cancel] = None) -> Report:
    """What this build uses on this machine; of a model: which parts are computed by slower ways than there are. list:
    None, or "limits" that inputs must keep, or "models" that can be converted.
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    return _lib.step("doctor", o, _lib.word(model), _lib.word(list), o.ref)


def bench_kernels(types: Text = None, *, seconds: float = 0.0, threads: int = 0, device: Optional[str] = None,
                  isa: Optional[str] = None, pre: Optional[str] = None, max_memory: Size = 0,
                  progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
                  cancel: Optional[Cancel] = None) -> Report:
    """Speed of single kernels on one thread. types: "Q4_K,IQ2_XS", None: all. seconds: for each number, 0: 0.03."""
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    return _lib.step("bench_kernels", o, _lib.word(types), seconds, o.ref)


def template_describe(source: Path, name: Text = None, *, threads: int = 0, device: Optional[str] = None,
                      isa: Optional[str] = None, pre: Optional[str] = None, max_memory: Size = 0,
                      progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
                      cancel: Optional[Cancel] = None) -> Report:
    """What the template is: size, hash, mode, names of others. name None: the usual one."""
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    return _lib.step("template_describe", o, _lib.word(source), _lib.word(name), o.ref)


def template_lint(source: Path, name: Text = None, *, strict: bool = False, threads: int = 0,
                  device: Optional[str] = None, isa: Optional[str] = None, pre: Optional[str] = None,
                  max_memory: Size = 0, progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
                  cancel: Optional[Cancel] = None) -> Report:
    """Renders small conversations and says whether tool calls work with it, and what is lost. Verdict: there is an
    error, or, with strict, a warning.
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    return _lib.step("template_lint", o, _lib.word(source), _lib.word(name), int(strict), o.ref)


def template_explain(rule: Path, *, threads: int = 0, device: Optional[str] = None, isa: Optional[str] = None,
                     pre: Optional[str] = None, max_memory: Size = 0, progress: Optional[_lib.Progress] = None,
                     log: Optional[_lib.Log] = None, cancel: Optional[Cancel] = None) -> Report:
    """What a rule of the linter means; "all": all of them."""
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    return _lib.step("template_explain", o, _lib.word(rule), o.ref)


def template_fix(source: Path, *, path: Text = None, only: Text = None, replace: Text = None, in_place: bool = False,
                 list: bool = False, overwrite: bool = False, threads: int = 0, device: Optional[str] = None,
                 isa: Optional[str] = None, pre: Optional[str] = None, max_memory: Size = 0,
                 progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
                 cancel: Optional[Cancel] = None) -> Report:
    """Repairs known defects; json has "diff", the unified difference, or with `list` the edits.

    path: the repaired template is written there; or None
    only: ids of edits, "a,b"; None: all that apply
    replace: in place of edits one of the library's own, by name or "auto"
    in_place: it is stored in the source, GGUF or .jinja
    list: instead: the edits that are known, and whether they apply
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = TemplateFixOpts(path=_lib.word(path), only=_lib.word(only), replace=_lib.word(replace),
                        in_place=int(in_place), list=int(list), overwrite=int(overwrite))
    return _lib.step("template_fix", o, _lib.word(source), C.byref(s), o.ref)


def template_diff(a: Path, b: Path, *, threads: int = 0, device: Optional[str] = None, isa: Optional[str] = None,
                  pre: Optional[str] = None, max_memory: Size = 0, progress: Optional[_lib.Progress] = None,
                  log: Optional[_lib.Log] = None, cancel: Optional[Cancel] = None) -> Report:
    """The unified difference of two templates as "diff". Verdict: they differ."""
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    return _lib.step("template_diff", o, _lib.word(a), _lib.word(b), o.ref)


def template_spans(source: Path, conversation: Path, *, tools: Text = None, kwargs: Text = None, name: Text = None,
                   context: Text = None, mode: Text = None, now: Text = None, args: Text = None,
                   no_invite: bool = False, threads: int = 0, device: Optional[str] = None, isa: Optional[str] = None,
                   pre: Optional[str] = None, max_memory: Size = 0, progress: Optional[_lib.Progress] = None,
                   log: Optional[_lib.Log] = None, cancel: Optional[Cancel] = None) -> Report:
    """The conversation of a file as the template renders it, with kind and source of every span.

    tools: file with a JSON list; or None
    kwargs: JSON object of more variables; or None
    name: which template, when there are several
    context: variables as "hf" (None) or "llamacpp" passes them
    mode: "hf" (None), or "lenient": also what only other engines accept
    now: the clock that it sees, "2026-03-05T14:30:00"; None: this machine's
    args: arguments of calls given as text: "auto" (None) parses them, "as-is"
    no_invite: ends after the last message
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = TemplateRenderOpts(tools=_lib.word(tools), kwargs=_lib.word(kwargs), name=_lib.word(name),
                           context=_lib.word(context), mode=_lib.word(mode), now=_lib.word(now), args=_lib.word(args),
                           no_invite=int(no_invite))
    return _lib.step("template_spans", o, _lib.word(source), _lib.word(conversation), C.byref(s), o.ref)


def template_batch(source: Path, scenarios: Path, *, name: Text = None, mode: Text = None, threads: int = 0,
                   device: Optional[str] = None, isa: Optional[str] = None, pre: Optional[str] = None,
                   max_memory: Size = 0, progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
                   cancel: Optional[Cancel] = None) -> Report:
    """All scenarios of a file, {id: text or {"error", "kind"}}. Of the options name and mode count.

    name: which template, when there are several
    mode: "hf" (None), or "lenient": also what only other engines accept
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = TemplateRenderOpts(name=_lib.word(name), mode=_lib.word(mode))
    return _lib.step("template_batch", o, _lib.word(source), _lib.word(scenarios), C.byref(s), o.ref)


def template_eval(units: Path, mode: Text = None, *, threads: int = 0, device: Optional[str] = None,
                  isa: Optional[str] = None, pre: Optional[str] = None, max_memory: Size = 0,
                  progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
                  cancel: Optional[Cancel] = None) -> Report:
    """Small templates of a file {"units": [{id, template, context}]}, each with its own variables. mode: "hf" (None)
    or "lenient".
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    return _lib.step("template_eval", o, _lib.word(units), _lib.word(mode), o.ref)


def eval_ppl(model: Path, text: Path, *, n_ctx: int = 0, max_windows: int = 0, kv_type: Text = None, act: Text = None,
             keep: Text = None, stride: int = 0, threads: int = 0, device: Optional[str] = None,
             isa: Optional[str] = None, pre: Optional[str] = None, max_memory: Size = 0,
             progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
             cancel: Optional[Cancel] = None) -> Report:
    """Perplexity of a file of text.

    n_ctx: tokens of a window, or of the context
    max_windows: of a text; < 0: all
    kv_type: of keys and values, "f16", "q8_0", "K/V", ...; several: "f16,q8_0"
    act: activations: "f32", or "q8"
    keep: file where numbers are kept as they come, and gone on from
    stride: overlapping windows advanced by this many tokens; 0: none
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = EvalOpts(n_ctx=n_ctx, max_windows=max_windows, kv_type=_lib.word(kv_type), act=_lib.word(act),
                 keep=_lib.word(keep), stride=stride)
    return _lib.step("eval_ppl", o, _lib.word(model), _lib.word(text), C.byref(s), o.ref)


def eval_kld(models: Texts, texts: Texts, *, n_ctx: int = 0, max_windows: int = 0, kv_type: Text = None,
             act: Text = None, base: Text = None, keep: Text = None, plot: Text = None, overwrite: bool = False,
             base_file: Text = None, save_base: Text = None, compact: bool = False, top: int = 0, tail: int = 0,
             by_depth: bool = False, routing: bool = False, worst: int = 0, base_kv_type: Text = None,
             kv_skip_layers: int = 0, kv_skip_type: Text = None, threads: int = 0, device: Optional[str] = None,
             isa: Optional[str] = None, pre: Optional[str] = None, max_memory: Size = 0,
             progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
             cancel: Optional[Cancel] = None) -> Report:
    """Divergence of models from a base, over files of text, in one pass. With save_base there is one model and one
    text.

    n_ctx: tokens of a window, or of the context
    max_windows: of a text; < 0: all
    kv_type: of keys and values, "f16", "q8_0", "K/V", ...; several: "f16,q8_0"
    act: activations: "f32", or "q8"
    base: a model to compare with
    keep: file where numbers are kept as they come, and gone on from
    plot: SVG; or None
    base_file: base logits in place of a base
    save_base: writes the model's logits there instead of comparing
    compact: with save_base: the compact format
    top: of it: likeliest tokens kept of a position; 0: 256
    tail: and samples of the others; 0: 64
    by_depth: also by tokens of context
    routing: also the share of the same experts
    worst: shows this many tokens of largest divergence
    base_kv_type: the base's; None: f32
    kv_skip_layers: first and last attention layers that keep kv_skip_type
    kv_skip_type: None: q8_0
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = EvalOpts(n_ctx=n_ctx, max_windows=max_windows, kv_type=_lib.word(kv_type), act=_lib.word(act),
                 base=_lib.word(base), keep=_lib.word(keep), plot=_lib.word(plot), overwrite=int(overwrite),
                 base_file=_lib.word(base_file), save_base=_lib.word(save_base), compact=int(compact), top=top,
                 tail=tail, by_depth=int(by_depth), routing=int(routing), worst=worst,
                 base_kv_type=_lib.word(base_kv_type), kv_skip_layers=kv_skip_layers,
                 kv_skip_type=_lib.word(kv_skip_type))
    return _lib.step("eval_kld", o, _lib.paths(models), _lib.paths(texts), C.byref(s), o.ref)


def eval_mtp(model: Path, text: Path, *, n_ctx: int = 0, max_windows: int = 0, kv_type: Text = None, act: Text = None,
             threads: int = 0, device: Optional[str] = None, isa: Optional[str] = None, pre: Optional[str] = None,
             max_memory: Size = 0, progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
             cancel: Optional[Cancel] = None) -> Report:
    """How often the token that the MTP block drafts is the one that the model chooses.

    n_ctx: tokens of a window, or of the context
    max_windows: of a text; < 0: all
    kv_type: of keys and values, "f16", "q8_0", "K/V", ...; several: "f16,q8_0"
    act: activations: "f32", or "q8"
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = EvalOpts(n_ctx=n_ctx, max_windows=max_windows, kv_type=_lib.word(kv_type), act=_lib.word(act))
    return _lib.step("eval_mtp", o, _lib.word(model), _lib.word(text), C.byref(s), o.ref)


def eval_cases(model: Path, suite: Text = None, *, n_ctx: int = 0, kv_type: Text = None, act: Text = None,
               base: Text = None, keep: Text = None, max_cases: int = 0, max_tokens: int = 0, format: Text = None,
               require: float = 0.0, no_loss: bool = False, from_answers: bool = False, constrained: bool = False,
               jump: bool = False, all: bool = False, strict_calls: bool = False, threads: int = 0,
               device: Optional[str] = None, isa: Optional[str] = None, pre: Optional[str] = None,
               max_memory: Size = 0, progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
               cancel: Optional[Cancel] = None) -> Report:
    """A suite of tool calls or of prompts with checks. suite None: the built-in tool calls.

    n_ctx: tokens of a window, or of the context
    kv_type: of keys and values, "f16", "q8_0", "K/V", ...; several: "f16,q8_0"
    act: activations: "f32", or "q8"
    base: a model to compare with
    keep: file where numbers are kept as they come, and gone on from
    max_cases: evenly spread; 0: all
    max_tokens: of an answer; 0: 256
    format: of calls, or of a file of choices
    require: percent that must pass, else Verdict; 0: none
    no_loss: Verdict when a case fails that the base passes
    from_answers: the suite is a server's record: its answers are expected
    constrained: answers once more with calls held to the tools' schemas
    jump: with that: what must come is not drawn
    all: lists every case, not only those that failed or changed
    strict_calls: tools: bare JSON that names a tool is no call
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = EvalOpts(n_ctx=n_ctx, kv_type=_lib.word(kv_type), act=_lib.word(act), base=_lib.word(base),
                 keep=_lib.word(keep), max_cases=max_cases, max_tokens=max_tokens, format=_lib.word(format),
                 require=require, no_loss=int(no_loss), from_answers=int(from_answers), constrained=int(constrained),
                 jump=int(jump), all=int(all), strict_calls=int(strict_calls))
    return _lib.step("eval_cases", o, _lib.word(model), _lib.word(suite), C.byref(s), o.ref)


def eval_choice(model: Path, file: Path, *, kv_type: Text = None, act: Text = None, base: Text = None,
                max_cases: int = 0, format: Text = None, threads: int = 0, device: Optional[str] = None,
                isa: Optional[str] = None, pre: Optional[str] = None, max_memory: Size = 0,
                progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
                cancel: Optional[Cancel] = None) -> Report:
    """Multiple choice from a file; format says which: "hellaswag", "winogrande", "mmlu", "choice".

    kv_type: of keys and values, "f16", "q8_0", "K/V", ...; several: "f16,q8_0"
    act: activations: "f32", or "q8"
    base: a model to compare with
    max_cases: evenly spread; 0: all
    format: of calls, or of a file of choices
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = EvalOpts(kv_type=_lib.word(kv_type), act=_lib.word(act), base=_lib.word(base), max_cases=max_cases,
                 format=_lib.word(format))
    return _lib.step("eval_choice", o, _lib.word(model), _lib.word(file), C.byref(s), o.ref)


def eval_needle(model: Path, text: Path, *, n_ctx: int = 0, kv_type: Text = None, act: Text = None, base: Text = None,
                n_depths: int = 0, per_depth: int = 0, threads: int = 0, device: Optional[str] = None,
                isa: Optional[str] = None, pre: Optional[str] = None, max_memory: Size = 0,
                progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
                cancel: Optional[Cancel] = None) -> Report:
    """Numbers hidden in windows of a text, asked for at their end.

    n_ctx: tokens of a window, or of the context
    kv_type: of keys and values, "f16", "q8_0", "K/V", ...; several: "f16,q8_0"
    act: activations: "f32", or "q8"
    base: a model to compare with
    n_depths: depths from begin to end; 0: 5
    per_depth: windows at each; 0: 4
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = EvalOpts(n_ctx=n_ctx, kv_type=_lib.word(kv_type), act=_lib.word(act), base=_lib.word(base), n_depths=n_depths,
                 per_depth=per_depth)
    return _lib.step("eval_needle", o, _lib.word(model), _lib.word(text), C.byref(s), o.ref)


def eval_replay(model: Path, record: Path, *, n_ctx: int = 0, kv_type: Text = None, act: Text = None,
                base: Text = None, max_cases: int = 0, require: float = 0.0, all: bool = False, sampled: bool = False,
                threads: int = 0, device: Optional[str] = None, isa: Optional[str] = None, pre: Optional[str] = None,
                max_memory: Size = 0, progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
                cancel: Optional[Cancel] = None) -> Report:
    """What a server recorded, asked again. Verdict: fewer answers are kept than required.

    n_ctx: tokens of a window, or of the context
    kv_type: of keys and values, "f16", "q8_0", "K/V", ...; several: "f16,q8_0"
    act: activations: "f32", or "q8"
    base: a model to compare with
    max_cases: evenly spread; 0: all
    require: percent that must pass, else Verdict; 0: none
    all: lists every case, not only those that failed or changed
    sampled: with the recorded seeds and sampling
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = EvalOpts(n_ctx=n_ctx, kv_type=_lib.word(kv_type), act=_lib.word(act), base=_lib.word(base),
                 max_cases=max_cases, require=require, all=int(all), sampled=int(sampled))
    return _lib.step("eval_replay", o, _lib.word(model), _lib.word(record), C.byref(s), o.ref)


def eval_suite(model: Path, path: Path, *, n_ctx: int = 0, max_windows: int = 0, kv_type: Text = None,
               act: Text = None, base: Text = None, overwrite: bool = False, max_cases: int = 0, max_tokens: int = 0,
               texts: Texts = None, tools: Texts = None, choices: Texts = None, needles: Texts = None,
               needle_ctx: int = 0, threads: int = 0, device: Optional[str] = None, isa: Optional[str] = None,
               pre: Optional[str] = None, max_memory: Size = 0, progress: Optional[_lib.Progress] = None,
               log: Optional[_lib.Log] = None, cancel: Optional[Cancel] = None) -> Report:
    """The standard set on one model, written to a path with a number per window and case.

    n_ctx: tokens of a window, or of the context
    max_windows: of a text; < 0: all
    kv_type: of keys and values, "f16", "q8_0", "K/V", ...; several: "f16,q8_0"
    act: activations: "f32", or "q8"
    base: a model to compare with
    max_cases: evenly spread; 0: all
    max_tokens: of an answer; 0: 256
    texts: perplexity of these files; None: of the built-in text
    tools: suites of tool calls or checks; "builtin" (None), "none"
    choices: "FORMAT:FILE"
    needles: texts that needles are hidden in
    needle_ctx: tokens of their windows; 0: 4096
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = EvalOpts(n_ctx=n_ctx, max_windows=max_windows, kv_type=_lib.word(kv_type), act=_lib.word(act),
                 base=_lib.word(base), overwrite=int(overwrite), max_cases=max_cases, max_tokens=max_tokens,
                 texts=_lib.paths(texts), tools=_lib.paths(tools), choices=_lib.paths(choices),
                 needles=_lib.paths(needles), needle_ctx=needle_ctx)
    return _lib.step("eval_suite", o, _lib.word(model), _lib.word(path), C.byref(s), o.ref)


def eval_compare(a: Path, b: Path, *, threads: int = 0, device: Optional[str] = None, isa: Optional[str] = None,
                 pre: Optional[str] = None, max_memory: Size = 0, progress: Optional[_lib.Progress] = None,
                 log: Optional[_lib.Log] = None, cancel: Optional[Cancel] = None) -> Report:
    """Two such files: which is better, where, and is the difference larger than its error?"""
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    return _lib.step("eval_compare", o, _lib.word(a), _lib.word(b), o.ref)


def eval_speed(model: Path, *, kv_type: Text = None, act: Text = None, n_prompt: int = 0, n_generate: int = 0,
               depths: Text = None, reps: int = 0, threads: int = 0, device: Optional[str] = None,
               isa: Optional[str] = None, pre: Optional[str] = None, max_memory: Size = 0,
               progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
               cancel: Optional[Cancel] = None) -> Report:
    """Tokens per second of prompts and of generation.

    kv_type: of keys and values, "f16", "q8_0", "K/V", ...; several: "f16,q8_0"
    act: activations: "f32", or "q8"
    n_prompt: tokens; 0: 512; < 0: none
    n_generate: tokens; 0: 128; < 0: none
    depths: context already filled, "0,4096"; eval_kv: keys
    reps: repetitions; 0: 5
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = EvalOpts(kv_type=_lib.word(kv_type), act=_lib.word(act), n_prompt=n_prompt, n_generate=n_generate,
                 depths=_lib.word(depths), reps=reps)
    return _lib.step("eval_speed", o, _lib.word(model), C.byref(s), o.ref)


def eval_kv(*, kv_type: Text = None, plot: Text = None, overwrite: bool = False, depths: Text = None,
            head_dims: Text = None, cosine: float = 0.0, threads: int = 0, device: Optional[str] = None,
            isa: Optional[str] = None, pre: Optional[str] = None, max_memory: Size = 0,
            progress: Optional[_lib.Progress] = None, log: Optional[_lib.Log] = None,
            cancel: Optional[Cancel] = None) -> Report:
    """Error and speed of types of the cache of keys and values, without a model.

    kv_type: of keys and values, "f16", "q8_0", "K/V", ...; several: "f16,q8_0"
    plot: SVG; or None
    depths: context already filled, "0,4096"; eval_kv: keys
    head_dims: values of a head, "64,128"
    cosine: of queries with the key they look for; 0: 0.5
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = EvalOpts(kv_type=_lib.word(kv_type), plot=_lib.word(plot), overwrite=int(overwrite), depths=_lib.word(depths),
                 head_dims=_lib.word(head_dims), cosine=cosine)
    return _lib.step("eval_kv", o, C.byref(s), o.ref)


def eval_logits(model: Path, ids: Path, path: Path, *, kv_type: Text = None, act: Text = None,
                overwrite: bool = False, threads: int = 0, device: Optional[str] = None, isa: Optional[str] = None,
                pre: Optional[str] = None, max_memory: Size = 0, progress: Optional[_lib.Progress] = None,
                log: Optional[_lib.Log] = None, cancel: Optional[Cancel] = None) -> Report:
    """Logits of the tokens of a file (int32) to another file (f32, [n][n_vocab]), little-endian.

    kv_type: of keys and values, "f16", "q8_0", "K/V", ...; several: "f16,q8_0"
    act: activations: "f32", or "q8"
    """
    o = Options(threads=threads, device=device, isa=isa, pre=pre, max_memory=max_memory, progress=progress, log=log,
                cancel=cancel)
    s = EvalOpts(kv_type=_lib.word(kv_type), act=_lib.word(act), overwrite=int(overwrite))
    return _lib.step("eval_logits", o, _lib.word(model), _lib.word(ids), _lib.word(path), C.byref(s), o.ref)


_lib.FUNCTIONS.update({
    "convert": (None, [C.c_char_p, C.c_char_p, C.POINTER(ConvertOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "imatrix": (None, [C.c_char_p, C.POINTER(C.c_char_p), C.c_char_p, C.POINTER(ImatrixOpts), C.POINTER(_lib.Opts),
                       _lib.OUT]),
    "imatrix_merge": (None, [C.POINTER(C.c_char_p), C.c_char_p, C.POINTER(ImatrixOpts), C.POINTER(_lib.Opts),
                             _lib.OUT]),
    "imatrix_stats": (None, [C.c_char_p, C.POINTER(_lib.Opts), _lib.OUT]),
    "imatrix_select": (None, [C.c_char_p, C.POINTER(C.c_char_p), C.c_int64, C.c_char_p, C.POINTER(ImatrixOpts),
                              C.POINTER(_lib.Opts), _lib.OUT]),
    "sensitivity": (None, [C.c_char_p, C.c_char_p, C.POINTER(SensitivityOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "quantize": (None, [C.c_char_p, C.c_char_p, C.POINTER(QuantizeOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "mix": (None, [C.c_char_p, C.c_char_p, C.POINTER(MixOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "make": (None, [C.c_char_p, C.c_char_p, C.POINTER(MakeOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "plan": (None, [C.c_char_p, C.POINTER(PlanOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "inspect": (None, [C.c_char_p, C.c_int, C.POINTER(_lib.Opts), _lib.OUT]),
    "verify": (None, [C.c_char_p, C.c_int, C.c_char_p, C.POINTER(_lib.Opts), _lib.OUT]),
    "replay": (None, [C.c_char_p, C.POINTER(ReplayOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "recipes": (None, [C.c_char_p, C.POINTER(RecipesOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "publish": (None, [C.c_char_p, C.POINTER(PublishOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "publish_check": (None, [C.c_char_p, C.c_int, C.POINTER(_lib.Opts), _lib.OUT]),
    "split": (None, [C.c_char_p, C.POINTER(SplitOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "merge": (None, [C.c_char_p, C.c_char_p, C.c_int, C.POINTER(_lib.Opts), _lib.OUT]),
    "synth": (None, [C.c_char_p, C.POINTER(SynthOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "doctor": (None, [C.c_char_p, C.c_char_p, C.POINTER(_lib.Opts), _lib.OUT]),
    "bench_kernels": (None, [C.c_char_p, C.c_double, C.POINTER(_lib.Opts), _lib.OUT]),
    "template_describe": (None, [C.c_char_p, C.c_char_p, C.POINTER(_lib.Opts), _lib.OUT]),
    "template_lint": (None, [C.c_char_p, C.c_char_p, C.c_int, C.POINTER(_lib.Opts), _lib.OUT]),
    "template_explain": (None, [C.c_char_p, C.POINTER(_lib.Opts), _lib.OUT]),
    "template_fix": (None, [C.c_char_p, C.POINTER(TemplateFixOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "template_diff": (None, [C.c_char_p, C.c_char_p, C.POINTER(_lib.Opts), _lib.OUT]),
    "template_spans": (None, [C.c_char_p, C.c_char_p, C.POINTER(TemplateRenderOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "template_batch": (None, [C.c_char_p, C.c_char_p, C.POINTER(TemplateRenderOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "template_eval": (None, [C.c_char_p, C.c_char_p, C.POINTER(_lib.Opts), _lib.OUT]),
    "eval_ppl": (None, [C.c_char_p, C.c_char_p, C.POINTER(EvalOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "eval_kld": (None, [C.POINTER(C.c_char_p), C.POINTER(C.c_char_p), C.POINTER(EvalOpts), C.POINTER(_lib.Opts),
                        _lib.OUT]),
    "eval_mtp": (None, [C.c_char_p, C.c_char_p, C.POINTER(EvalOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "eval_cases": (None, [C.c_char_p, C.c_char_p, C.POINTER(EvalOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "eval_choice": (None, [C.c_char_p, C.c_char_p, C.POINTER(EvalOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "eval_needle": (None, [C.c_char_p, C.c_char_p, C.POINTER(EvalOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "eval_replay": (None, [C.c_char_p, C.c_char_p, C.POINTER(EvalOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "eval_suite": (None, [C.c_char_p, C.c_char_p, C.POINTER(EvalOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "eval_compare": (None, [C.c_char_p, C.c_char_p, C.POINTER(_lib.Opts), _lib.OUT]),
    "eval_speed": (None, [C.c_char_p, C.POINTER(EvalOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "eval_kv": (None, [C.POINTER(EvalOpts), C.POINTER(_lib.Opts), _lib.OUT]),
    "eval_logits": (None, [C.c_char_p, C.c_char_p, C.c_char_p, C.POINTER(EvalOpts), C.POINTER(_lib.Opts), _lib.OUT]),
})
__all__ = ["convert", "imatrix", "imatrix_merge", "imatrix_stats", "imatrix_select", "sensitivity",
           "quantize_files", "mix", "make", "plan", "inspect", "verify",
           "replay", "recipes", "publish", "publish_check", "split", "merge",
           "synth", "doctor", "bench_kernels", "template_describe", "template_lint", "template_explain",
           "template_fix", "template_diff", "template_spans", "template_batch", "template_eval", "eval_ppl",
           "eval_kld", "eval_mtp", "eval_cases", "eval_choice", "eval_needle", "eval_replay",
           "eval_suite", "eval_compare", "eval_speed", "eval_kv", "eval_logits"]
