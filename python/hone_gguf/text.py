# SPDX-License-Identifier: MIT
"""Tokenizers and chat templates."""

from __future__ import annotations

import ctypes as C
import json
import operator
import os
from typing import Any, Optional, Sequence, Union

from . import _lib
from ._lib import Handle, lib
from .errors import DataError, MissingFile
from .gguf import GGUF, MEMORY, Path

BOS, CONTROL = 1, 2
Messages = Sequence[dict[str, Any]]
SPECIAL = ("bos", "eos", "eot", "unk", "sep", "pad", "mask", "eom")


def _reduced(x: "Union[Tokenizer, Template]") -> Any:
    """How to open it again in another process."""
    if x._again is None:
        raise TypeError(f"a {type(x).__name__} of a GGUF that is in memory cannot be pickled: send the bytes")
    return x._again


def _tools(tools: Any) -> Optional[list[Any]]:
    """Tools as a list, also from a generator, which can be read only once."""
    found = None if tools is None else list(tools)
    if isinstance(tools, (str, bytes, dict)) or not all(isinstance(t, dict) for t in found or ()):
        raise TypeError("tools are a list of dicts, {'type': 'function', 'function': {'name': ...}}")
    return found


class Tokenizer:
    """Text to tokens and back. Takes a GGUF, its path, or a folder with tokenizer files."""

    def __init__(self, source: Union[Path, GGUF]) -> None:
        h, o = C.c_void_p(), _lib.Options()
        path = source.path if isinstance(source, GGUF) else os.fspath(source)
        with o:
            if isinstance(source, GGUF):
                lib.tokenizer_from_gguf(C.byref(h), source._handle.value)
            else:
                lib.tokenizer_open(C.byref(h), _lib.path(path), o.ref)
        self._handle = Handle("tokenizer", h.value, o)
        self._p: Any = h.value
        self._again: Any = None if path == MEMORY else (Tokenizer, (os.path.abspath(path),))

    @classmethod
    def _borrowed(cls, p: Any, owner: Handle, path: Path) -> "Tokenizer":
        t = cls.__new__(cls)
        t._handle, t._p, t._again = owner, p, (Tokenizer, (os.path.abspath(path),))
        return t

    def __reduce__(self) -> Any:
        return _reduced(self)

    @classmethod
    def from_json(cls, tokenizer_json: Union[str, bytes], config_json: Union[str, bytes, None] = None) -> "Tokenizer":
        """From the text of tokenizer.json and, optionally, of tokenizer_config.json."""
        h, o = C.c_void_p(), _lib.Options()
        a, b = (x.encode() if isinstance(x, str) else x for x in (tokenizer_json, config_json))
        with o:
            lib.tokenizer_from_json(C.byref(h), a, len(a or b""), b, len(b or b""), o.ref)
        t = cls.__new__(cls)
        t._handle, t._p = Handle("tokenizer", h.value, o), h.value
        t._again = (Tokenizer.from_json, (tokenizer_json, config_json))
        return t

    def encode(self, text: str, *, bos: bool = False, control: bool = False) -> list[int]:
        """Tokens of a text. bos: prepend the beginning-of-text token if the vocabulary adds one.
        control: parse texts of control tokens, such as <|im_end|>, as those tokens."""
        if not isinstance(text, str):
            raise TypeError(f"a text is needed, not {type(text).__name__}; for several texts: [encode(t) for t in ...]")
        out, n, b = _lib.IDS(), C.c_int64(), text.encode("utf-8", "surrogateescape")
        lib.tokenize(self._p, b, len(b), BOS * bos + CONTROL * control, C.byref(out), C.byref(n))
        return _lib.take_ids(out, n.value)

    def decode(self, ids: Sequence[int], *, control: bool = False) -> str:
        """Text of tokens. control: spell out control tokens; otherwise they are skipped."""
        p, n = C.c_void_p(), C.c_size_t()
        lib.detokenize(self._p, *_lib.ids(ids), CONTROL * control, C.byref(p), C.byref(n))
        return _lib.take_text(p, n.value)

    def __len__(self) -> int:
        return int(lib.n_vocab(self._p))

    def token(self, id: int) -> str:
        """A token's text as stored in the vocabulary. IndexError: no such token."""
        n = C.c_size_t()
        p = lib.token_text(self._p, operator.index(id), C.byref(n)) if _lib.is_id(id) else None
        if p is None:
            raise IndexError(id)
        return _lib.text(C.string_at(p, n.value))

    def find(self, text: str) -> Optional[int]:
        """The token with exactly this text in the vocabulary, or None."""
        id = int(lib.token_find(self._p, _lib.name(text)))
        return None if id < 0 else id

    def ends(self, id: int) -> bool:
        """Does this token end an answer?"""
        return _lib.is_id(id) and bool(lib.token_ends(self._p, operator.index(id)))

    @property
    def special(self) -> dict[str, int]:
        """Ids of "bos", "eos", "eot", "unk", "sep", "pad", "mask", "eom"; missing ones are left
        out."""
        found = {name: int(lib.token_special(self._p, i)) for i, name in enumerate(SPECIAL)}
        return {k: v for k, v in found.items() if v >= 0}

    def __repr__(self) -> str:
        return f"<Tokenizer of {len(self)} tokens>"


def _template(text: str, bos: str, eos: str) -> "Template":
    return Template(text, bos=bos, eos=eos)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", newline="") as f:
            return f.read()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 at byte {error.start}", path) from None


def _json(path: str) -> dict[str, Any]:
    """The object in a JSON file; {} without the file."""
    try:
        found = json.loads(_read(path))
    except FileNotFoundError:
        return {}
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{path}: {error}", path) from None
    return found if isinstance(found, dict) else {}


def _named(found: Any) -> dict[str, str]:
    """The templates in a member chat_template: a text, or a list with names."""
    if isinstance(found, str):
        return {"default": found}
    rows = [t for t in found if isinstance(t, dict)] if isinstance(found, list) else []
    pairs = [(t.get("name"), t.get("template")) for t in reversed(rows)]
    return {name: text for name, text in pairs if isinstance(name, str) and isinstance(text, str)}


def _all_of(folder: str, config: dict[str, Any]) -> dict[str, str]:
    """The templates of a folder, in the first of these places that has any: .jinja files,
    tokenizer_config.json, chat_template.json."""
    own, more = os.path.join(folder, "chat_template.jinja"), os.path.join(folder, "additional_chat_templates")
    names = [n for n in os.listdir(more) if n.endswith(".jinja") and n != ".jinja"] if os.path.isdir(more) else []
    files = {n[: -len(".jinja")]: _read(os.path.join(more, n)) for n in names}
    if os.path.exists(own):
        files["default"] = _read(own)
    older = os.path.join(folder, "chat_template.json")
    return files or _named(config.get("chat_template")) or _named(_json(older).get("chat_template"))


def _of_folder(path: str) -> "Template":
    """The template that the program uses for a folder: "default", else "tool_use", else the first
    by name; or a single template file. Texts of tokens are in tokenizer_config.json."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    config = _json(os.path.join(folder, "tokenizer_config.json"))
    tokens = (config.get("bos_token"), config.get("eos_token"))
    words = [w["content"] if isinstance(w, dict) else w or "" for w in tokens]
    if folder != path and not os.path.exists(path):
        raise MissingFile(f"{path} does not exist", path)
    all = _all_of(path, config) if folder == path else {"default": _read(path)}
    if not all:
        raise DataError(f"{path}: no chat template found", path)
    return _template(all[next((n for n in ("default", "tool_use") if n in all), min(all))], *words)


class Template:
    """A chat template: `Template(text)`, or `Template.of(path)`: a GGUF file, a folder, a .jinja file."""

    def __init__(self, text: str, *, bos: str = "", eos: str = "") -> None:
        h, o, b = C.c_void_p(), _lib.Options(), _lib.utf8(text)
        with o:
            lib.template_new(C.byref(h), b, len(b), _lib.name(bos), _lib.name(eos), o.ref)
        self._handle = Handle("template", h.value, o)
        self._p: Any = h.value
        self._again: Any = (_template, (text, bos, eos))

    @classmethod
    def of(cls, file: Union[Path, GGUF]) -> "Template":
        """The template of a GGUF file, of a Hugging Face folder, or of a .jinja file."""
        if not isinstance(file, GGUF) and (os.path.isdir(file) or os.fsdecode(file).endswith(".jinja")):
            t = _of_folder(os.fsdecode(file))
            t._again = (Template.of, (os.path.abspath(file),))
            return t
        g, h = file if isinstance(file, GGUF) else GGUF(file), C.c_void_p()
        lib.template_from_gguf(C.byref(h), g._handle.value)
        t = cls.__new__(cls)
        t._handle, t._p = Handle("template", h.value, g), h.value
        t._again = None if g.path == MEMORY else (Template.of, (os.path.abspath(g.path),))
        return t

    @classmethod
    def _borrowed(cls, p: Any, owner: Handle, path: Path) -> "Template":
        t = cls.__new__(cls)
        t._handle, t._p, t._again = owner, p, (Template.of, (os.path.abspath(path),))
        return t

    def __reduce__(self) -> Any:
        return _reduced(self)

    @property
    def text(self) -> str:
        return _lib.text(lib.template_text(self._p))

    @staticmethod
    def _conversation(messages: Messages, tools: Optional[Sequence[Any]],
                      variables: dict[str, Any]) -> tuple[bytes, Optional[bytes]]:
        talk: dict[str, Any] = {"messages": list(messages)}
        listed = _tools(tools)
        if listed:
            talk["tools"] = listed
        return _lib.as_json(talk), _lib.as_json(variables) if variables else None

    def __repr__(self) -> str:
        return f"<Template of {len(self.text)} characters>"

    def render(self, messages: Messages, *, tools: Optional[Sequence[Any]] = None,
               add_generation_prompt: bool = True, **variables: Any) -> str:
        """The prompt as text. Further keywords are template variables."""
        talk, more = self._conversation(messages, tools, variables)
        p, n = C.c_void_p(), C.c_size_t()
        lib.template_render(self._p, talk, more, int(add_generation_prompt), C.byref(p), C.byref(n))
        return _lib.take_text(p, n.value)

    def tokens(self, tokenizer: Tokenizer, messages: Messages, *,
               tools: Optional[Sequence[Any]] = None, add_generation_prompt: bool = True,
               **variables: Any) -> list[int]:
        """The prompt as tokens. Texts of control tokens inside messages stay plain text, so that a
        message cannot impersonate another role."""
        talk, more = self._conversation(messages, tools, variables)
        out, n = _lib.IDS(), C.c_int64()
        lib.template_tokens(self._p, tokenizer._p, talk, more, int(add_generation_prompt),
                            C.byref(out), C.byref(n))
        return _lib.take_ids(out, n.value)

    def read_answer(self, answer: str, tools: Optional[Sequence[Any]] = None) -> dict[str, Any]:
        """Parses an answer: {"content", "reasoning", "tool_calls": [{"name", "arguments"}],
        "problems"}, by the call syntax of the template."""
        p, b, listed = C.c_void_p(), _lib.utf8(answer), _tools(tools)
        lib.template_read_answer(self._p, _lib.as_json(listed) if listed else None, b,
                                 len(b), C.byref(p))
        found: dict[str, Any] = json.loads(_lib.take_text(p, len(C.string_at(p.value or 0))))
        return found
