# SPDX-License-Identifier: MIT
"""Exceptions, by kind of error. Each has a message and the file and tensor concerned."""

from __future__ import annotations

import errno
import os
from typing import Any


class HoneError(Exception):
    """Base of all errors of the library. `file` and `tensor` are "" if not applicable."""

    def __init__(self, message: str, file: str = "", tensor: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.tensor = tensor

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> Any:
        return type(self), (self.message, self.file, self.tensor), self.__dict__


class Verdict(HoneError):
    """A check ran and the answer is "no"; `report` has the findings."""

    report: object = None


class UsageError(HoneError, ValueError):
    """An invalid request: a wrong argument, or a name that does not exist."""


class MissingFile(UsageError, FileNotFoundError):
    """The file or folder named does not exist."""

    def __init__(self, message: str, file: str = "", tensor: str = "") -> None:
        super().__init__(message, file, tensor)
        self.errno, self.filename, self.strerror = errno.ENOENT, file, message


class DataError(HoneError, ValueError):
    """An input is not what it claims to be."""


class MachineError(HoneError, OSError):
    """Operating system error: I/O, memory, no such device."""


class Cancelled(HoneError):
    """Cancelled by `Cancel.now()` or by a callback's return value."""


KINDS: dict[int, type[HoneError]] = {
    1: Verdict, 2: UsageError, 3: DataError, 4: MachineError, 130: Cancelled,
}


def exception(status: int, message: str, file: str = "", tensor: str = "") -> HoneError:
    """The exception for a status of the library."""
    kind = KINDS.get(status, HoneError)
    if status == 2 and file and not os.path.exists(file):
        kind = MissingFile
    return kind(message, file, tensor)
