# SPDX-License-Identifier: MIT
"""GGUF files: metadata as Python values, tensors as numpy arrays over the mapped file."""

from __future__ import annotations

import ctypes as C
import operator
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _lib
from ._lib import Handle, lib
from .errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Path = Union[str, "os.PathLike[str]"]
TEXT, ARRAY, BOOL = 8, 9, 7
# enum hone_value -> numpy type name
NUMBERS = {0: "u1", 1: "i1", 2: "u2", 3: "i2", 4: "u4", 5: "i4", 6: "f4", 7: "?", 10: "u8", 11: "i8",
           12: "f8"}
# tensor types with a numpy equivalent
PLAIN = {0: "f4", 1: "f2", 24: "i1", 25: "i2", 26: "i4", 27: "i8", 28: "f8"}
LAZY_FROM = 65536
MOST_TYPES = 256
MEMORY = "(in memory)"  # path of an in-memory file


class Type:
    """A tensor type: `Type("Q4_K")`, or by its number in GGUF files."""

    def __init__(self, name_or_id: Union[str, int]) -> None:
        t = _lib.Type()
        if isinstance(name_or_id, str):
            lib.type_find(_lib.name(name_or_id), C.byref(t))
        else:
            lib.type_by_id(operator.index(name_or_id), C.byref(t))
        self.id: int = t.id
        self.name: str = t.name.decode()
        self.block_weights: int = t.block_weights
        self.block_bytes: int = t.block_bytes
        self.can_read, self.can_write = bool(t.can_read), bool(t.can_write)

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.block_bytes / self.block_weights

    def row_bytes(self, n: int) -> int:
        """Bytes of a row of n weights; 0 if n is not a multiple of the block size."""
        return int(lib.type_row_bytes(self.id, n))

    def __repr__(self) -> str:
        return f"Type({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Type) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __reduce__(self) -> Any:
        return Type, (self.name,)


def types() -> list[Type]:
    """All tensor types."""
    found = []
    for i in range(MOST_TYPES):
        try:
            found.append(Type(i))
        except UsageError:  # an unassigned number
            pass
    return found


class Tensor:
    """A tensor of a file. `shape` is in numpy order: the contiguous dimension comes last."""

    def __init__(self, handle: Handle, info: "_lib.TensorInfo") -> None:
        self._handle, self._info = handle, info
        self.name: str = _lib.text(info.name)
        self.shape: tuple[int, ...] = tuple(reversed(info.ne[: info.n_dims]))
        self.type = Type(info.type)
        self.n_bytes: int = info.n_bytes

    def __repr__(self) -> str:
        return f"<Tensor {self.name} {self.type.name} {'x'.join(map(str, self.shape))}>"

    @property
    def data(self) -> "NDArray[Any]":
        """The stored data as a read-only view: values of plain types, otherwise blocks as bytes
        [..., bytes per row]. The file stays mapped as long as the array exists."""
        import numpy as np

        area = (C.c_ubyte * self.n_bytes).from_address(self._info.data or 0)
        area._hone = self._handle  # type: ignore[attr-defined]  # keeps the file mapped
        raw: NDArray[Any] = np.frombuffer(memoryview(area).toreadonly(), np.uint8)
        if self.type.id in PLAIN:
            return raw.view(PLAIN[self.type.id]).reshape(self.shape)
        return raw.reshape(*self.shape[:-1], -1)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> "NDArray[Any]":
        """numpy.asarray(tensor): decoded. copy=False: a view of the file if possible, otherwise
        ValueError."""
        if copy is False and (self.type.id not in PLAIN or dtype not in (None, self.data.dtype)):
            raise ValueError(f"tensor {self.name} cannot be given as this array without a copy")
        a: NDArray[Any] = self.data if copy is False else self.to_numpy()
        return a if dtype is None else a.astype(dtype, copy=False)

    def to_numpy(self, start: int = 0, stop: Optional[int] = None) -> "NDArray[np.float32]":
        """Decoded to float32: the whole tensor, or rows [start, stop) as [rows, columns]."""
        import numpy as np

        cols = self.shape[-1]
        rows = self._info.ne[1] * self._info.ne[2] * self._info.ne[3]
        part = (operator.index(start), rows if stop is None else operator.index(stop))
        if not 0 <= part[0] <= part[1] <= rows:
            raise UsageError(f"tensor {self.name} has {rows} rows, not [{part[0]}, {part[1]})",
                             tensor=self.name)
        out = np.empty((part[1] - part[0], cols), np.float32)
        first = (self._info.data or 0) + part[0] * self.type.row_bytes(cols)
        lib.decode(self.type.id, first, out.shape[0], cols, out.ctypes.data)
        return out if (start, stop) != (0, None) else out.reshape(self.shape)

    def check(self) -> None:
        """Raises DataError, with the position, if a value or scale is NaN or infinite."""
        lib.gguf_check(self._handle.value, C.byref(self._info))


class _Metadata(Mapping[str, Any]):
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def __len__(self) -> int:
        return int(lib.gguf_n_keys(self._handle.value))

    def __iter__(self) -> Iterator[str]:
        for i in range(len(self)):
            k = _lib.Key()
            lib.gguf_key(self._handle.value, i, C.byref(k))
            yield _lib.text(k.name)

    def __getitem__(self, name: str) -> Any:
        k = _lib.Key()
        if not isinstance(name, str) or "\0" in name:
            raise KeyError(name)
        try:
            lib.gguf_find_key(self._handle.value, name.encode(), C.byref(k))
        except UsageError:
            raise KeyError(name) from None
        if k.elem == TEXT:
            found = self._texts(k)
            return found if k.type == ARRAY else found[0]
        if k.type != ARRAY:
            return self._number(k)
        if k.count < LAZY_FROM and k.elem != ARRAY:
            f = lib.key_float if NUMBERS[k.elem][0] == "f" else lib.key_int
            return [self._value(k.elem, f(C.byref(k), i)) for i in range(k.count)]
        if k.elem == ARRAY:
            raise UsageError(f"key {name} is an array of arrays, which is not supported")
        import numpy as np

        raw = C.string_at(k.data, k.n_bytes)
        return np.frombuffer(raw, NUMBERS[k.elem]).tolist()

    @staticmethod
    def _number(k: "_lib.Key") -> Any:
        kind = NUMBERS[k.type]
        if kind[0] == "f":
            return float(lib.key_float(C.byref(k), 0))
        return _Metadata._value(k.type, int(lib.key_int(C.byref(k), 0)))

    @staticmethod
    def _value(kind: int, value: Any) -> Any:
        """A number with its type's meaning: the library returns int64 even for a u64."""
        return bool(value) if kind == BOOL else value % 2**64 if NUMBERS[kind] == "u8" else value

    @staticmethod
    def _texts(k: "_lib.Key") -> list[str]:
        if k.type == TEXT:
            return [_lib.text(C.string_at(k.data, k.count))]
        at, p, n = C.c_uint64(0), C.c_void_p(), C.c_size_t()
        raw, base, out = C.string_at(k.data, k.n_bytes), k.data, []
        while lib.key_next_text(C.byref(k), C.byref(at), C.byref(p), C.byref(n)):
            begin = (p.value or base) - base
            out.append(_lib.text(raw[begin : begin + n.value]))
        return out

    def __repr__(self) -> str:
        return f"<{len(self)} metadata keys>"

    def _repr_html_(self) -> str:
        from .report import table

        return table([{k: f"({len(v)})" if isinstance(v, list) else v for k, v in self.items()}])


class _Tensors(Mapping[str, Tensor]):
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def __len__(self) -> int:
        return int(lib.gguf_n_tensors(self._handle.value))

    def _at(self, i: int) -> Tensor:
        t = _lib.TensorInfo()
        lib.gguf_tensor(self._handle.value, i, C.byref(t))
        return Tensor(self._handle, t)

    def __iter__(self) -> Iterator[str]:
        return (t.name for t in self.all())

    def all(self) -> Iterator[Tensor]:
        return (self._at(i) for i in range(len(self)))

    def __getitem__(self, name: str) -> Tensor:
        t = _lib.TensorInfo()
        if not isinstance(name, str) or "\0" in name:
            raise KeyError(name)
        try:
            lib.gguf_find_tensor(self._handle.value, name.encode(), C.byref(t))
        except UsageError:
            raise KeyError(name) from None
        return Tensor(self._handle, t)

    def __repr__(self) -> str:
        return f"<{len(self)} tensors>"

    def _repr_html_(self) -> str:
        from .report import table

        return table([{"name": t.name, "type": t.type.name, "shape": t.shape, "bytes": t.n_bytes} for t in self.all()])


class GGUF:
    """An open GGUF file, or a split set given its first file.

    `metadata` maps keys to values, `tensors` names to tensors, in file order. Tensors and their
    arrays keep the file mapped, even after `close` or a `with` block.
    """

    def __init__(self, path: Path, *, untrusted: bool = False) -> None:
        h, o = C.c_void_p(), _lib.Options()
        o.struct.untrusted = int(untrusted)
        with o:
            lib.gguf_open(C.byref(h), _lib.path(path), o.ref)
        self._mapped: Optional[Handle] = Handle("gguf", h.value, o)
        self._untrusted = untrusted
        self.path: Any = os.fspath(path)

    @classmethod
    def from_bytes(cls, data: "Union[bytes, bytearray, memoryview]", *, untrusted: bool = False) -> "GGUF":
        """Opens a file that is in memory. The data is copied once and never written to disk. Linux only."""
        if not hasattr(os, "memfd_create"):
            raise UsageError("GGUF.from_bytes works on Linux only: write the data to a file and open that")
        fd = os.memfd_create("gguf")
        with open(fd, "wb") as f:
            f.write(data)
            f.flush()
            g = cls(f"/proc/self/fd/{fd}", untrusted=untrusted)
        g.path = MEMORY
        return g

    @property
    def _handle(self) -> Handle:
        if self._mapped is None:
            raise UsageError(f"{self.path} is closed")
        return self._mapped

    @property
    def metadata(self) -> Mapping[str, Any]:
        return _Metadata(self._handle)

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        return _Tensors(self._handle)

    def close(self) -> None:
        """Closes the file, which stays mapped as long as arrays of it exist."""
        self._mapped = None

    def __enter__(self) -> "GGUF":
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.close()

    def __reduce__(self) -> Any:
        if self.path == MEMORY:
            raise TypeError("a GGUF that is in memory cannot be pickled: send its bytes")
        return _reopen, (os.path.abspath(self.path), self._untrusted)

    @property
    def n_bytes(self) -> int:
        """Total size of its files."""
        return int(lib.gguf_bytes(self._handle.value))

    def __repr__(self) -> str:
        if self._mapped is None:
            return f"<GGUF {self.path}: closed>"
        return f"<GGUF {self.path}: {len(self.metadata)} keys, {len(self.tensors)} tensors>"

    def _repr_html_(self) -> str:
        from .report import table

        kinds: dict[str, list[int]] = {}
        for t in self.tensors.values():
            row = kinds.setdefault(t.type.name, [0, 0])
            row[0] += 1
            row[1] += t.n_bytes
        rows = [{"type": k, "tensors": n, "MiB": round(b / 2**20, 2)} for k, (n, b) in kinds.items()]
        about = {k: v for k, v in ((k, self.metadata[k]) for k in self.metadata if "." in k
                                   and not k.startswith("tokenizer.")) if not isinstance(v, list)}
        return table([about]) + table(rows)


def _reopen(path: str, untrusted: bool) -> GGUF:
    return GGUF(path, untrusted=untrusted)


def _bits(v: int) -> int:
    """A number of up to 64 bits as the library takes it: an int64, also for a u64."""
    return v - 2**64 if v >= 2**63 else v


class Writer:
    """A new GGUF file. It appears when the `with` block ends without an exception, or not at all.

    >>> with Writer("new.gguf") as w:                              # doctest: +SKIP
    ...     w.metadata({"general.architecture": "mine", "mine.layers": 2})
    ...     w.tensor("a.weight", array)                    # float32, float16 or an integer type
    ...     w.tensor("b.weight", blocks, type="Q4_K", shape=(256, 1024))     # bytes of blocks
    """

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        h, self._o = C.c_void_p(), _lib.Options()
        lib.writer_new(C.byref(h), self._o.ref)
        self._handle = Handle("writer", h.value, self._o)
        self._path, self._overwrite = path, overwrite
        self._data: list[Any] = []

    def metadata(self, values: Mapping[str, Any]) -> None:
        """Sets keys. Texts, bool, int (u32, or u64 if too large; i32 or i64 if negative), float
        (f32), and lists of these (int: i32, or i64 or u64 if too large). numpy numbers and
        arrays keep their type, but a single float is always f32."""
        import numpy as np

        w = self._handle.value
        for key, v in dict(values).items():
            k = _lib.name(key)
            if isinstance(v, bool):
                lib.writer_int(w, k, BOOL, int(v))
            elif isinstance(v, int):
                if not -2**63 <= v < 2**64:
                    raise UsageError(f"key {key}: {v} does not fit into 64 bits")
                kind = (5 if v >= -2**31 else 11) if v < 0 else 4 if v < 2**32 else 10
                lib.writer_int(w, k, kind, _bits(v))
            elif isinstance(v, np.integer):
                kind = [n for n, name in NUMBERS.items() if np.dtype(name) == v.dtype][0]
                lib.writer_int(w, k, kind, _bits(int(v)))
            elif isinstance(v, np.floating):
                lib.writer_float(w, k, float(v))
            elif isinstance(v, np.bool_):
                lib.writer_int(w, k, BOOL, int(v))
            elif isinstance(v, float):
                lib.writer_float(w, k, v)
            elif isinstance(v, str):
                lib.writer_text(w, k, v.encode(), len(v.encode()))
            elif isinstance(v, (list, tuple)) and v and all(isinstance(x, str) for x in v):
                lib.writer_texts(w, k, _lib.texts(v), len(v))
            else:
                try:
                    a = np.ascontiguousarray(v)
                except (ValueError, OverflowError):
                    a = np.empty(0, object)
                if a.dtype == np.int64 and not isinstance(v, np.ndarray) and -2**31 <= a.min() and a.max() < 2**31:
                    a = a.astype(np.int32)
                if isinstance(v, (list, tuple, range)) and a.dtype.kind == "f" and any(isinstance(x, int) and abs(x) > 2**24 for x in v):
                    a = np.empty(0, object)  # integers that a float would round
                if a.dtype == np.float64 and not isinstance(v, np.ndarray):
                    a = a.astype(np.float32)
                kinds = [n for n, name in NUMBERS.items() if np.dtype(name) == a.dtype]
                if a.ndim != 1 or not kinds:
                    raise UsageError(f"key {key}: a value of type {type(v).__name__} cannot be written")
                lib.writer_array(w, k, kinds[0], a.ctypes.data, a.size)

    def copy_metadata(self, source: GGUF) -> None:
        """Copies all keys of another file. Keys set afterwards replace them."""
        lib.writer_copy_keys(self._handle.value, source._handle.value, None)

    def remove(self, key: str) -> None:
        """Removes a key, if it is set."""
        lib.writer_remove(self._handle.value, _lib.name(key))

    def copy_tensors(self, source: GGUF, names: Optional[Iterable[str]] = None) -> None:
        """Copies tensors of another file unchanged; names None: all."""
        for t in source.tensors.values() if names is None else [source.tensors[n] for n in names]:
            self.tensor(t.name, t.data, type=t.type, shape=t.shape)

    def tensor(self, name: str, data: "NDArray[Any]", *, type: Union[str, Type, None] = None,
               shape: Optional[tuple[int, ...]] = None) -> None:
        """Adds an array as is or, with `type` and `shape`, as the bytes of blocks. The array is
        kept until the file is written."""
        import numpy as np

        a = np.ascontiguousarray(data)
        if type is None:
            ids = [i for i, kind in PLAIN.items() if np.dtype(kind) == a.dtype]
            if not ids:
                raise UsageError(f"tensor {name}: no tensor type for arrays of {a.dtype}", tensor=name)
            type_id, shape = ids[0], a.shape
        else:
            t = type if isinstance(type, Type) else Type(type)
            if shape is None:  # rows of blocks, as from `encode`
                last = a.nbytes // max(1, a.size // max(1, a.shape[-1])) if a.ndim else 0
                shape = (*a.shape[:-1], last // t.block_bytes * t.block_weights)
            type_id = t.id
        ne = (C.c_int64 * len(shape))(*reversed(shape))
        lib.writer_tensor(self._handle.value, _lib.name(name), type_id, len(shape), ne)
        self._data.append(a)

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        if kind is None:
            w = self._handle.value
            lib.writer_begin(w, _lib.path(self._path), int(self._overwrite))
            for a in self._data:
                lib.writer_data(w, a.ctypes.data, a.nbytes)
            lib.writer_commit(w)
        self._data.clear()
