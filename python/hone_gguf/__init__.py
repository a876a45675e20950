# SPDX-License-Identifier: MIT
"""Language models in GGUF files: read and write, tokenize, generate, measure, quantize.

>>> from hone_gguf import GGUF, Model
>>> g = GGUF(model)
>>> g.metadata["general.architecture"]
'qwen35moe'
>>> Model(model).generate("Once upon a time", max_tokens=8).stop
'length'
"""

from ._lib import Cancel, lib as _functions
from .errors import Cancelled, DataError, HoneError, MachineError, MissingFile, UsageError, Verdict
from .gguf import GGUF, Tensor, Type, Writer, types
from . import steps
from .jobs import decode, diff, encode, quantize, serve
from .model import Answer, Model, Stream, kld
from .report import Report
from .steps import *  # noqa: F403: steps.__all__
from .text import Template, Tokenizer

__version__: str = _functions.version().decode()
__all__ = [
    "Answer", "Cancel", "Cancelled", "DataError", "GGUF", "HoneError", "MachineError", "MissingFile",
    "Model", "Report", "Stream", "Template", "Tensor", "Tokenizer", "Type", "UsageError", "Verdict", "Writer",
    "decode", "diff", "encode", "kld", "quantize", "serve", "types",
]
__all__ += steps.__all__
