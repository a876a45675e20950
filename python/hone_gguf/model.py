# SPDX-License-Identifier: MIT
"""Models: generation, logits, perplexity, divergence."""

from __future__ import annotations

import contextlib
import contextvars
import ctypes as C
import json
import operator
import os
import queue
import threading
import weakref
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Callable, Literal, Optional, Sequence, Union, overload

from . import _lib
from ._lib import Cancel, Handle, Options, lib
from .errors import UsageError
from .gguf import GGUF, Path
from .report import Report
from .text import Messages, Template, Tokenizer, _tools

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Prompt = Union[str, Sequence[int], Messages]
Image = Union[bytes, bytearray, memoryview, Path]


class Answer(str):
    """The text of an answer, with its tokens, stop reason and timing."""

    tokens: list[int]
    stop: str  # "end", "length", "context", "stop", "callback"
    n_prompt: int  # prompt tokens computed, without cached ones
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


class Stream(Iterator[str], AsyncIterator[str]):
    """An answer being generated: iterate over pieces of text with `for` or `async for`.

    Leaving a `with` block or calling `close` stops the answer. Afterwards `answer` has the whole of
    it. If several threads iterate, each piece goes to one of them, and all of them stop at the end.
    """

    answer: Optional[Answer] = None

    def __init__(self, run: Callable[[Callable[[str], bool]], Answer]) -> None:
        self._pieces: "queue.Queue[Union[str, _Whole, BaseException, None]]" = queue.Queue()
        self._left = threading.Event()
        pieces, left = self._pieces, self._left  # the thread must not keep the stream alive

        def told(piece: str) -> bool:
            pieces.put(piece)
            return left.is_set()

        def work() -> None:
            try:
                pieces.put(_Whole(run(told)))
            except BaseException as error:
                pieces.put(error)

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    def __iter__(self) -> "Stream":
        return self

    def __next__(self) -> str:
        piece = self._pieces.get()
        if isinstance(piece, str):
            return piece
        if isinstance(piece, _Whole):
            self.answer = piece.answer
        self._pieces.put(None)  # the end marker, for other and later readers
        if isinstance(piece, BaseException):
            raise piece
        raise StopIteration

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> str:
        import asyncio

        try:
            piece = await asyncio.get_running_loop().run_in_executor(None, next, self, None)
        except asyncio.CancelledError:
            self._left.set()
            raise
        if piece is None:
            raise StopAsyncIteration
        return piece

    def close(self) -> None:
        """Stops the answer and waits until it has stopped."""
        self._left.set()
        self._thread.join()
        for _ in self:
            pass

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.close()

    async def __aenter__(self) -> "Stream":
        return self

    async def __aexit__(self, kind: Any, value: Any, trace: Any) -> None:
        import asyncio

        await asyncio.get_running_loop().run_in_executor(None, self.close)

    def __del__(self) -> None:
        self._left.set()


class _Whole:
    def __init__(self, answer: Answer) -> None:
        self.answer = answer


# ids of the models that called the current function
_calling: "contextvars.ContextVar[tuple[int, ...]]" = contextvars.ContextVar("calling", default=())


class Model:
    """A GGUF model with a session: `Model("model.gguf")`.

    n_ctx: context length in tokens (0: the model's, capped at 4096). exact: float32 activations,
    for measuring; the default, 8 bits, is faster. device: "cpu", "cuda", "auto". kv_type: cache
    type, default "f16". draft "mtp": the model's own block predicts a token ahead; or the path of
    a draft file; the text is the same. Calls from several threads run one after another. A
    forked process uses a session of its own. `close` or a `with` block frees the memory.
    """

    def __init__(self, path: Path, *, n_ctx: int = 0, exact: bool = False, device: str = "cpu",
                 kv_type: Optional[str] = None, threads: int = 0, draft: Optional[str] = None,
                 log: Optional[_lib.Log] = None) -> None:
        self._lock, self._state = threading.RLock(), threading.Lock()
        self._running = 0  # computations that `cancel` stops: 1, or 0; guarded by _state
        self._progress: Optional[_lib.Progress] = None
        self._cancel = Cancel()
        me = weakref.ref(self)

        def on_progress(stage: str, done: int, total: int) -> Any:
            model = me()
            return model._progress(stage, done, total) if model and model._progress else None

        self._o = Options(on_progress, log, self._cancel, threads)
        self._again = (os.path.abspath(path), n_ctx, exact, device, kv_type, threads, draft)
        self._so = _lib.SessionOpts(n_ctx=n_ctx, exact=int(exact), device=_lib.name(device),
                                    kv_type=_lib.word(kv_type), draft=_lib.word(draft))
        h, info = C.c_void_p(), _lib.ModelInfo()
        self._o.run(lib.model_open, C.byref(h), _lib.path(path), self._o.ref)
        self._model: Optional[Handle] = Handle("model", h.value, self._o)
        self._open_session()
        lib.model_info(h, C.byref(info))
        self.arch: str = info.arch.decode()
        self.n_vocab, self.n_embd, self.n_layers = int(info.n_vocab), int(info.n_embd), int(info.n_layers)
        self.n_weights, self.n_bytes = int(info.n_weights), int(info.n_bytes)
        self.n_ctx = int(lib.session_n_ctx(self._session.value))
        self.path = path

    @property
    def _handle(self) -> Handle:
        if self._model is None:
            raise UsageError("the model is closed")
        return self._model

    def _open_session(self) -> None:
        s = C.c_void_p()
        self._o.run(lib.session_new, C.byref(s), self._handle.value, C.byref(self._so), self._o.ref)
        self._session = Handle("session", s.value, self._handle)

    def _compute(self, call: Callable[..., None], *args: Any,
                 progress: Optional[_lib.Progress] = None) -> None:
        """Runs a call on the session when its turn comes; Ctrl-C stops it."""
        self._here()

        def work() -> None:
            _calling.set((*_calling.get(), id(self)))
            call(self._session.value, *args)

        with self._turn():
            self._progress = progress
            try:
                self._o.run(contextvars.copy_context().run, work)
            finally:
                self._progress = None

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Waits for the calls before this one; `cancel` then stops only what runs within."""
        with self._lock:
            with self._state:
                self._running += 1
            try:
                yield
            finally:
                with self._state:
                    self._running -= 1
                    if not self._running:
                        self._cancel.reset()

    def _here(self) -> None:
        """Checks that this process and thread may use the session."""
        if self._session.forked:  # a forked child has no other threads yet
            self._lock, self._state, self._running = threading.RLock(), threading.Lock(), 0
            self._open_session()
        if id(self) in _calling.get():
            raise UsageError("a function that a model calls cannot compute with the same model")

    def close(self) -> None:
        """Frees the model's memory once other threads' calls are done. A tokenizer or template taken
        from it before remains usable, and keeps the memory of the weights."""
        with self._lock:
            self._session.close()
            self._model = None

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return _reopen, self._again

    def __repr__(self) -> str:
        return f"<Model {self.path}: {self.arch}, {self.n_weights / 1e6:.1f} M weights>"

    def _repr_html_(self) -> str:
        from .report import table

        return table([{n: getattr(self, n) for n in ("path", "arch", "n_weights", "n_bytes", "n_layers", "n_embd", "n_vocab",
                                                     "n_ctx")}])

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer. DataError: the file has none."""
        p = C.c_void_p()
        lib.model_tokenizer(self._handle.value, C.byref(p))
        return Tokenizer._borrowed(p.value, self._handle, self.path)

    @property
    def template(self) -> Template:
        """The model's chat template. DataError: the file has none."""
        p = C.c_void_p()
        lib.model_template(self._handle.value, C.byref(p))
        return Template._borrowed(p.value, self._handle, self.path)

    def _ids(self, prompt: Prompt, tools: Optional[Sequence[Any]] = None,
             variables: Optional[dict[str, Any]] = None, bos: bool = True,
             control: bool = False) -> list[int]:
        tools = _tools(tools)
        if variables is not None and not isinstance(variables, Mapping):
            raise TypeError("variables are a dict: their names and values")
        if (tools or variables) and not (isinstance(prompt, (list, tuple)) and prompt and isinstance(prompt[0], dict)):
            raise UsageError("tools and variables go with messages: the prompt is a list of {'role': ..., 'content': ...}")
        if isinstance(prompt, str):
            return self.tokenizer.encode(prompt, bos=bos, control=control)
        if prompt is None or isinstance(prompt, (dict, bytes, bytearray, int)):
            raise TypeError("a prompt is a text, a list of tokens, or a list of messages "
                            f"{{'role': ..., 'content': ...}}, not {type(prompt).__name__}")
        if len(prompt) and isinstance(prompt[0], dict):
            return self.template.tokens(self.tokenizer, prompt, tools=tools,  # type: ignore[arg-type]
                                        **(variables or {}))
        return [operator.index(i) for i in prompt]  # type: ignore[arg-type]

    def _seen(self, prompt: Prompt, images: Sequence[Image], tools: Optional[Sequence[Any]],
              variables: Optional[dict[str, Any]]) -> list[int]:
        """Tokens of a prompt with images, which only this session takes."""
        if isinstance(images, (str, bytes, os.PathLike)):
            raise TypeError("images are a list of bytes or paths")
        if isinstance(prompt, str):
            prompt = [{"role": "user", "content": prompt}]
        if not prompt or not all(isinstance(m, Mapping) for m in prompt):
            raise TypeError("images go with a text or with messages {'role': ..., 'content': ...}")
        said: Any = prompt
        messages: list[Any] = [dict(m) for m in said]
        parts = [p for m in messages if isinstance(m.get("content"), list) for p in m["content"]]
        if not any(isinstance(p, Mapping) and p.get("type") == "image" for p in parts):
            last = messages[-1].get("content")
            told = last if isinstance(last, list) else [{"type": "text", "text": last}]
            messages[-1]["content"] = [{"type": "image"}] * len(images) + told
        data = []
        for image in images:
            if isinstance(image, (str, os.PathLike)):
                with open(image, "rb") as f:
                    data.append(f.read())
            else:
                data.append(bytes(image))
        talk, more = Template._conversation(messages, tools, variables or {})
        n = len(data)
        p = (C.c_void_p * n)(*[C.cast(C.c_char_p(d), C.c_void_p).value for d in data])
        sizes = (C.c_size_t * n)(*[len(d) for d in data])
        out, n_out = _lib.IDS(), C.c_int64()
        self._compute(lib.session_prompt, talk, more, 1, p, sizes, n, C.byref(out), C.byref(n_out))
        return _lib.take_ids(out, n_out.value)

    @staticmethod
    def _options(max_tokens: Optional[int], temperature: float, top_k: int, top_p: float,
                 min_p: float, repeat_penalty: float, seed: int, stop: Optional[Sequence[str]],
                 schema: Any, regex: Optional[str], control: bool) -> "_lib.GenerateOpts":
        if isinstance(stop, str):
            stop = [stop]
        if max_tokens is not None and max_tokens < 1:
            raise UsageError("max_tokens is 1 or more; None: until the context is full")
        if hasattr(schema, "model_json_schema"):  # a pydantic class
            schema = schema.model_json_schema()
        if isinstance(schema, str):
            try:
                schema = json.loads(schema)
            except ValueError as error:
                raise UsageError(f"schema is not JSON: {error}") from None
        if seed < 0 or seed >= 2**64:
            raise UsageError("seed is a number from 0 to 2**64 - 1")
        return _lib.GenerateOpts(
            max_tokens=max_tokens or 0, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
            repeat_penalty=repeat_penalty, seed=seed, stop=_lib.texts(stop),
            schema=json.dumps(schema).encode() if schema is not None else None,
            regex=_lib.name(regex) if regex is not None else None, control=int(control))

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
        try:
            self._compute(lib.generate, *_lib.ids(ids), C.byref(o), C.byref(a))
        except BaseException:
            lib.answer_free(C.byref(a))
            raise
        return Answer._of(a)

    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[False] = ..., max_tokens: Optional[int] = ...,
                 temperature: float = ..., top_k: int = ..., top_p: float = ..., min_p: float = ...,
                 repeat_penalty: float = ..., seed: int = ..., stop: Optional[Sequence[str]] = ...,
                 schema: Any = ..., regex: Optional[str] = ..., grammar: Optional[str] = ...,
                 choices: Optional[Sequence[str]] = ..., presence_penalty: float = ...,
                 frequency_penalty: float = ..., control: bool = ..., open_objects: bool = ...,
                 tools: Optional[Sequence[Any]] = ..., variables: Optional[dict[str, Any]] = ...,
                 images: Optional[Sequence[Image]] = ...) -> Answer: ...
    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[True], max_tokens: Optional[int] = ...,
                 temperature: float = ..., top_k: int = ..., top_p: float = ..., min_p: float = ...,
                 repeat_penalty: float = ..., seed: int = ..., stop: Optional[Sequence[str]] = ...,
                 schema: Any = ..., regex: Optional[str] = ..., grammar: Optional[str] = ...,
                 choices: Optional[Sequence[str]] = ..., presence_penalty: float = ...,
                 frequency_penalty: float = ..., control: bool = ..., open_objects: bool = ...,
                 tools: Optional[Sequence[Any]] = ..., variables: Optional[dict[str, Any]] = ...,
                 images: Optional[Sequence[Image]] = ...) -> Stream: ...

    def generate(self, prompt: Prompt, *, stream: bool = False, max_tokens: Optional[int] = 256,
                 temperature: float = 0.0, top_k: int = 0, top_p: float = 0.0, min_p: float = 0.0,
                 repeat_penalty: float = 0.0, seed: int = 0, stop: Optional[Sequence[str]] = None,
                 schema: Any = None, regex: Optional[str] = None, grammar: Optional[str] = None,
                 choices: Optional[Sequence[str]] = None, presence_penalty: float = 0.0,
                 frequency_penalty: float = 0.0, control: bool = False, open_objects: bool = False,
                 tools: Optional[Sequence[Any]] = None, variables: Optional[dict[str, Any]] = None,
                 images: Optional[Sequence[Image]] = None) -> Union[Answer, Stream]:
        """Continues a prompt: a text, tokens, or messages [{"role": ..., "content": ...}] rendered
        by the model's template with `tools` and `variables` (such as enable_thinking).
        stream: return an iterator over pieces of text; leaving it stops the answer. max_tokens
        None: until the context is full. temperature 0: greedy. schema: JSON Schema of the answer,
        or a pydantic class; open_objects: allow members that it does not name; regex: regular
        expression that the answer matches; grammar: GBNF or Lark text; choices: the answer is one
        of these texts. images: PNG or JPEG files, as bytes or paths, for the parts {"type": "image"}
        of the messages in order; without such parts, they come before the last message's text. The
        projector file (mmproj-*.gguf) is next to the model.
        """
        ids = self._seen(prompt, images, tools, variables) if images else self._ids(prompt, tools, variables)
        o = self._options(max_tokens, temperature, top_k, top_p, min_p, repeat_penalty, seed, stop, schema,
                          regex, control)
        if choices is not None and len(choices) == 0:
            raise UsageError("choices are one text or more")
        o.grammar, o.choices = None if grammar is None else _lib.name(grammar), _lib.texts(choices)
        o.presence_penalty, o.frequency_penalty = presence_penalty, frequency_penalty
        o.open_objects = open_objects
        return Stream(lambda told: self._run(ids, o, told)) if stream else self._run(ids, o, None)

    def generate_many(self, prompts: Sequence[Prompt], *, at_once: int = 8,
                      max_tokens: Optional[int] = 256, temperature: float = 0.0, top_k: int = 0,
                      top_p: float = 0.0, min_p: float = 0.0, repeat_penalty: float = 0.0, seed: int = 0,
                      stop: Optional[Sequence[str]] = None, control: bool = False,
                      tools: Optional[Sequence[Any]] = None, variables: Optional[dict[str, Any]] = None,
                      progress: Optional[_lib.Progress] = None) -> list[Answer]:
        """Answers many prompts, several at a time, which is faster than one by one."""
        if isinstance(prompts, str):
            raise TypeError("a list of prompts is needed, not one text")
        tools = _tools(tools)
        lists = [self._ids(p, tools, variables) for p in prompts]
        o = self._options(max_tokens, temperature, top_k, top_p, min_p, repeat_penalty, seed, stop, None,
                          None, control)
        out = (_lib.AnswerStruct * len(lists))()
        for a in out:
            a.size = C.sizeof(a)
        rows = [_lib.ids(v)[0] for v in lists]
        p = (_lib.IDS * len(rows))(*[C.cast(r, _lib.IDS) for r in rows])
        n = (C.c_int64 * len(rows))(*[len(v) for v in lists])
        self._compute(lib.generate_many, p, n, len(rows), at_once, C.byref(o), out, progress=progress)
        return [Answer._of(a) for a in out]

    def logits(self, prompt: Prompt) -> "NDArray[np.float32]":
        """The logits after every token of a text: [tokens, n_vocab]."""
        import numpy as np

        ids = self._ids(prompt)
        out = np.empty((len(ids), self.n_vocab), np.float32)
        def work(session: Any) -> None:
            lib.session_reset(session)
            lib.session_logits(session, None, *_lib.ids(ids), out.ctypes.data)

        self._compute(work)
        return out

    def perplexity(self, text: Prompt, *, n_ctx: int = 512, max_windows: int = 0,
                   progress: Optional[_lib.Progress] = None) -> Report:
        """Perplexity over windows of n_ctx tokens, scoring the second half of each. For numbers to
        publish, open the model with exact=True."""
        ids, p = self._ids(text, control=True), _lib.PerplexityStruct()
        self._compute(lib.perplexity, *_lib.ids(ids), n_ctx, max_windows, C.byref(p), progress=progress)
        return _report("perplexity", p)

    def cancel(self) -> None:
        """Cancels the computation that runs with this model in another thread, which raises Cancelled.
        Calls that wait for their turn, and later ones, run as usual."""
        with self._state:
            if self._running:
                self._cancel.now()

    @property
    def gguf(self) -> GGUF:
        """The model's file, for reading metadata and tensors."""
        return GGUF(self.path)


def _reopen(path: str, n_ctx: int, exact: bool, device: str, kv_type: Optional[str], threads: int,
            draft: Optional[str]) -> Model:
    return Model(path, n_ctx=n_ctx, exact=exact, device=device, kv_type=kv_type, threads=threads, draft=draft)


def _report(title: str, p: C.Structure) -> Report:
    return Report({name: getattr(p, name) for name, *_ in p._fields_ if name != "size"}, title)


def kld(base: Union[Path, Model], model: Union[Path, Model], text: str, *, n_ctx: int = 512,
        max_windows: int = 0, progress: Optional[_lib.Progress] = None) -> Report:
    """Kullback-Leibler divergence of the next token from a base model with the same vocabulary,
    over a text, in nats. Paths are opened exact."""
    a = base if isinstance(base, Model) else Model(base, n_ctx=n_ctx, exact=True)
    b = model if isinstance(model, Model) else Model(model, n_ctx=n_ctx, exact=True)
    if a is b:
        raise UsageError("a model diverges from another one, not from itself: open it twice")
    ids, d = a._ids(text, control=True), _lib.DivergenceStruct()
    a._here()
    first, second = sorted((a, b), key=id)  # two threads lock them in the same order
    with first._turn(), second._turn():
        b._compute(lambda s: lib.divergence(a._session.value, s, *_lib.ids(ids), n_ctx, max_windows,
                                            C.byref(d)), progress=progress)
    return _report("divergence", d)
