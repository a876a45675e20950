# SPDX-License-Identifier: MIT
"""Models: generating, logits, perplexity, divergence."""

from __future__ import annotations

import ctypes as C
import json
import queue
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable, Literal, Optional, Sequence, Union, overload

from . import _lib
from ._lib import Cancel, Handle, Options, lib
from .errors import HoneError, UsageError
from .gguf import GGUF, Path
from .report import Report
from .text import Messages, Template, Tokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Prompt = Union[str, Sequence[int], Messages]


class Answer(str):
    """The text of an answer, which knows how it came about."""

    tokens: list[int]
    stop: str  # "end", "length", "context", "stop", "callback"
    n_prompt: int  # tokens of the prompt that had to be computed
    seconds: float

    @classmethod
    def _of(cls, a: "_lib.AnswerStruct") -> "Answer":
        try:
            s = cls(_lib.text(C.string_at(a.text, a.len)))
            s.tokens = list(a.ids[: a.n_ids])
            s.stop, s.n_prompt, s.seconds = a.stop.decode(), a.n_prompt, a.seconds
            return s
        finally:
            lib.answer_free(C.byref(a))


class Model:
    """A GGUF model with a session: `Model("model.gguf")`.

    n_ctx: tokens of a text at most (0: the model's, capped at 4096). exact: activations stay
    float32, as for measuring; otherwise 8 bits, which is faster. device: "cpu", "cuda", "auto".
    kv_type: type of the cache, "f16" if none. Calls from several threads take turns.
    """

    def __init__(self, path: Path, *, n_ctx: int = 0, exact: bool = False, device: str = "cpu",
                 kv_type: Optional[str] = None, threads: int = 0,
                 log: Optional[_lib.Log] = None) -> None:
        self._lock = threading.RLock()
        self._progress: Optional[_lib.Progress] = None
        self._cancel = Cancel()
        self._o = Options(self._on_progress, log, self._cancel, threads)
        h, s, info = C.c_void_p(), C.c_void_p(), _lib.ModelInfo()
        so = _lib.SessionOpts(n_ctx=n_ctx, exact=int(exact), device=device.encode(),
                              kv_type=kv_type.encode() if kv_type else None)
        with self._o:
            lib.model_open(C.byref(h), _lib.path(path), self._o.ref)
        self._handle = Handle("model", h.value, self._o)
        with self._o:
            lib.session_new(C.byref(s), h, C.byref(so), self._o.ref)
        self._session = Handle("session", s.value, self._handle)
        lib.model_info(h, C.byref(info))
        self.arch: str = info.arch.decode()
        self.n_vocab, self.n_embd, self.n_layers = int(info.n_vocab), int(info.n_embd), int(info.n_layers)
        self.n_weights, self.n_bytes = int(info.n_weights), int(info.n_bytes)
        self.n_ctx = int(lib.session_n_ctx(s))
        self.path = path

    def _on_progress(self, stage: str, done: int, total: int) -> Any:
        return self._progress(stage, done, total) if self._progress else None

    def __repr__(self) -> str:
        return f"<Model {self.path}: {self.arch}, {self.n_weights / 1e6:.1f} M weights>"

    @property
    def tokenizer(self) -> Tokenizer:
        """DataError: the file has none."""
        p = C.c_void_p()
        lib.model_tokenizer(self._handle.value, C.byref(p))
        return Tokenizer._borrowed(p.value, self._handle)

    @property
    def template(self) -> Template:
        """DataError: the file has none."""
        p = C.c_void_p()
        lib.model_template(self._handle.value, C.byref(p))
        return Template._borrowed(p.value, self._handle)

    def _ids(self, prompt: Prompt, tools: Optional[Sequence[Any]] = None, bos: bool = True,
             control: bool = False) -> list[int]:
        if isinstance(prompt, str):
            return self.tokenizer.encode(prompt, bos=bos, control=control)
        if len(prompt) and isinstance(prompt[0], dict):
            return self.template.tokens(self.tokenizer, prompt, tools=tools)  # type: ignore[arg-type]
        return [int(i) for i in prompt]  # type: ignore[arg-type]

    @staticmethod
    def _options(max_tokens: Optional[int], temperature: float, top_k: int, top_p: float,
                 min_p: float, repeat_penalty: float, seed: int, stop: Optional[Sequence[str]],
                 schema: Any, regex: Optional[str], control: bool) -> "_lib.GenerateOpts":
        if isinstance(stop, str):
            stop = [stop]
        return _lib.GenerateOpts(
            max_tokens=max_tokens or 0, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
            repeat_penalty=repeat_penalty, seed=seed, stop=_lib.texts(stop),
            schema=json.dumps(schema).encode() if schema is not None else None,
            regex=regex.encode() if regex is not None else None, control=int(control))

    def _run(self, ids: list[int], o: "_lib.GenerateOpts",
             told: Optional[Callable[[str], Any]]) -> Answer:
        def on_text(user: Any, which: int, p: Any, n: int) -> int:
            try:
                return 1 if told is not None and told(_lib.text(C.string_at(p, n))) else 0
            except BaseException as error:
                self._o.raised(error)
                return 1

        a = _lib.AnswerStruct()
        o.text = _lib.TEXT(on_text)
        with self._lock, self._o:
            try:
                lib.generate(self._session.value, _lib.ids(ids), len(ids), C.byref(o), C.byref(a))
            except HoneError:
                lib.answer_free(C.byref(a))
                raise
        return Answer._of(a)

    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[False] = ..., max_tokens: Optional[int] = ...,
                 temperature: float = ..., top_k: int = ..., top_p: float = ..., min_p: float = ...,
                 repeat_penalty: float = ..., seed: int = ..., stop: Optional[Sequence[str]] = ...,
                 schema: Any = ..., regex: Optional[str] = ..., control: bool = ...,
                 tools: Optional[Sequence[Any]] = ...) -> Answer: ...
    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[True], max_tokens: Optional[int] = ...,
                 temperature: float = ..., top_k: int = ..., top_p: float = ..., min_p: float = ...,
                 repeat_penalty: float = ..., seed: int = ..., stop: Optional[Sequence[str]] = ...,
                 schema: Any = ..., regex: Optional[str] = ..., control: bool = ...,
                 tools: Optional[Sequence[Any]] = ...) -> Iterator[str]: ...

    def generate(self, prompt: Prompt, *, stream: bool = False, max_tokens: Optional[int] = 256,
                 temperature: float = 0.0, top_k: int = 0, top_p: float = 0.0, min_p: float = 0.0,
                 repeat_penalty: float = 0.0, seed: int = 0, stop: Optional[Sequence[str]] = None,
                 schema: Any = None, regex: Optional[str] = None, control: bool = False,
                 tools: Optional[Sequence[Any]] = None) -> Union[Answer, Iterator[str]]:
        """Continues a prompt: a text, tokens, or messages [{"role": ..., "content": ...}], which go
        through the model's template with `tools`.

        stream: an iterator over pieces of text; leaving it ends the answer. max_tokens None: until
        the context is full. temperature 0: always the likeliest token. schema: JSON Schema that the
        answer follows; regex: a regular expression that it matches.
        """
        ids = self._ids(prompt, tools)
        o = self._options(max_tokens, temperature, top_k, top_p, min_p, repeat_penalty, seed, stop, schema,
                          regex, control)
        return self._stream(ids, o) if stream else self._run(ids, o, None)

    def _stream(self, ids: list[int], o: "_lib.GenerateOpts") -> Iterator[str]:
        pieces: "queue.Queue[Union[str, BaseException, None]]" = queue.Queue()
        left = threading.Event()

        def told(piece: str) -> bool:
            pieces.put(piece)
            return left.is_set()

        def work() -> None:
            try:
                self._run(ids, o, told)
                pieces.put(None)
            except BaseException as error:
                pieces.put(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            while True:
                piece = pieces.get()
                if piece is None:
                    break
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            left.set()
            thread.join()

    def generate_many(self, prompts: Sequence[Prompt], *, at_once: int = 8,
                      max_tokens: Optional[int] = 256, temperature: float = 0.0, top_k: int = 0,
                      top_p: float = 0.0, min_p: float = 0.0, repeat_penalty: float = 0.0, seed: int = 0,
                      stop: Optional[Sequence[str]] = None, control: bool = False,
                      progress: Optional[_lib.Progress] = None) -> list[Answer]:
        """Answers to many prompts, several at a time, which is faster than one after the other."""
        lists = [self._ids(p) for p in prompts]
        o = self._options(max_tokens, temperature, top_k, top_p, min_p, repeat_penalty, seed, stop, None,
                          None, control)
        out = (_lib.AnswerStruct * len(lists))()
        for a in out:
            a.size = C.sizeof(a)
        rows = [_lib.ids(v) for v in lists]
        p = (_lib.IDS * len(rows))(*[C.cast(r, _lib.IDS) for r in rows])
        n = (C.c_int64 * len(rows))(*[len(v) for v in lists])
        with self._lock, self._o:
            self._progress = progress
            try:
                lib.generate_many(self._session.value, p, n, len(rows), at_once, C.byref(o), out)
            finally:
                self._progress = None
        return [Answer._of(a) for a in out]

    def logits(self, prompt: Prompt) -> "NDArray[np.float32]":
        """The logits behind every token of a text: [tokens, n_vocab]."""
        import numpy as np

        ids = self._ids(prompt)
        out = np.empty((len(ids), self.n_vocab), np.float32)
        with self._lock, self._o:
            lib.session_reset(self._session.value)
            lib.session_logits(self._session.value, None, _lib.ids(ids), len(ids), out.ctypes.data)
        return out

    def perplexity(self, text: Prompt, *, n_ctx: int = 512, max_windows: int = 0,
                   progress: Optional[_lib.Progress] = None) -> Report:
        """Over windows of n_ctx tokens, the second half of each scored. Open the model exact for
        numbers to publish."""
        ids, p = self._ids(text, control=True), _lib.PerplexityStruct()
        with self._lock, self._o:
            self._progress = progress
            try:
                lib.perplexity(self._session.value, _lib.ids(ids), len(ids), n_ctx, max_windows, C.byref(p))
            finally:
                self._progress = None
        return _report("perplexity", p)

    def cancel(self) -> None:
        """Stops what another thread is computing with this model: Cancelled is raised there."""
        self._cancel.now()
        with self._lock:
            self._cancel.reset()

    @property
    def gguf(self) -> GGUF:
        """The file, opened for reading metadata and tensors."""
        return GGUF(self.path)


def _report(title: str, p: C.Structure) -> Report:
    return Report({name: getattr(p, name) for name, *_ in p._fields_ if name != "size"}, title)


def kld(base: Union[Path, Model], model: Union[Path, Model], text: str, *, n_ctx: int = 512,
        max_windows: int = 0) -> Report:
    """How far a model is from another with the same vocabulary: Kullback-Leibler divergence of the
    next token over a text, in nats. Paths are opened exact."""
    a = base if isinstance(base, Model) else Model(base, n_ctx=n_ctx, exact=True)
    b = model if isinstance(model, Model) else Model(model, n_ctx=n_ctx, exact=True)
    if a is b:
        raise UsageError("a model diverges from another one, not from itself: open it twice")
    ids, d = a._ids(text, control=True), _lib.DivergenceStruct()
    with a._lock, b._lock, b._o:
        lib.divergence(a._session.value, b._session.value, _lib.ids(ids), len(ids), n_ctx, max_windows,
                       C.byref(d))
    return _report("divergence", d)
