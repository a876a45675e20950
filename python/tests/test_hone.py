# SPDX-License-Identifier: MIT
"""The examples of docs/python.md, in the current folder, and what they do not show: exceptions from
callbacks, cancelling, lifetimes, other integer types. Run by run.sh."""

import doctest
import gc
import subprocess
import sys
import threading
import time

import hone_gguf
import numpy as np
from hone_gguf import GGUF, Cancel, Cancelled, Model, UsageError, Writer, call, quantize


def test_import_time() -> None:
    """Beyond what an empty program takes, the best of ten: shown, not judged. numpy is not loaded."""
    def best(code: str) -> float:
        times = []
        for _ in range(10):
            t = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times.append(time.perf_counter() - t)
        return min(times)
    took = best("import hone_gguf") - best("pass")
    print(f"import: {took * 1000:.0f} ms")
    loaded = subprocess.run([sys.executable, "-c", "import sys, hone_gguf; print('numpy' in sys.modules)"],
                            check=True, capture_output=True, text=True)
    assert loaded.stdout.strip() == "False"


def test_arrays_outlive_the_file() -> None:
    rows = GGUF("base.gguf").tensors["output_norm.weight"].data
    gc.collect()
    assert rows.dtype == np.float32 and np.isfinite(rows).all() and not rows.flags.writeable
    assert np.array_equal(rows, GGUF("base.gguf").tensors["output_norm.weight"].to_numpy())


def test_written_is_read() -> None:
    values = {"general.architecture": "x", "x.i": 5, "x.neg": -3, "x.big": 2**40, "x.f": 0.25, "x.b": True,
              "x.texts": ["a", "\u00fc"], "x.list": [1, 2, 3], "x.floats": [0.5, 1.5]}
    a = np.arange(12, dtype=np.float16).reshape(3, 4)
    with Writer("w.gguf", overwrite=True) as w:
        w.metadata(values)
        w.tensor("a", a)
        w.tensor("b", a.astype("f4"))
    g = GGUF("w.gguf")
    assert {k: g.metadata[k] for k in values} == values
    assert np.array_equal(g.tensors["a"].data, a) and g.tensors["a"].shape == (3, 4)
    assert np.array_equal(g.tensors["b"].to_numpy(), a)
    try:
        with Writer("never.gguf") as w:
            w.metadata({"general.architecture": "x"})
            raise KeyError("mine")
    except KeyError:
        pass
    assert not __import__("os").path.exists("never.gguf")


def test_callbacks() -> None:
    class Mine(Exception):
        pass

    def progress(stage: str, done: int, total: int) -> None:
        raise Mine(stage)

    try:
        quantize("base.gguf", "no.gguf", "Q4_K_M", progress=progress)
        raise AssertionError("nothing was raised")
    except Mine:
        pass
    try:
        quantize("base.gguf", "no.gguf", "Q4_K_M", progress=lambda *a: True)
        raise AssertionError("was not cancelled")
    except Cancelled:
        pass
    c = Cancel()
    c.now()
    try:
        call("quantize", "base.gguf", output="no.gguf", recipe="Q4_K_M", cancel=c)
        raise AssertionError("was not cancelled")
    except Cancelled:
        pass
    assert not __import__("os").path.exists("no.gguf")


def test_stream_and_cancel() -> None:
    m = Model("model.gguf", n_ctx=512)
    pieces = m.generate("Once", stream=True, max_tokens=None, temperature=2.0, seed=3)
    first = [next(pieces) for _ in range(3)]
    pieces.close()
    assert all(first)
    again = m.generate(np.array(m.tokenizer.encode("Once")), max_tokens=4)
    assert len(again.tokens) == 4
    found = []

    def work() -> None:
        try:
            m.generate("Once", max_tokens=None, temperature=3.0)
        except Cancelled as error:
            found.append(error)
    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.05)
    m.cancel()
    thread.join()
    assert len(found) <= 1  # none where the answer ended before
    assert m.generate("Once", max_tokens=4) == again
    schema = m.generate("x", schema={"type": "boolean"})
    assert schema in ("true", "false")


def test_two_models_in_two_threads() -> None:
    out = {}

    def work(path: str) -> None:
        out[path] = Model(path, threads=2).generate("Once upon", max_tokens=12)
    threads = [threading.Thread(target=work, args=(p,)) for p in ("model.gguf", "base.gguf")]
    [t.start() for t in threads]
    [t.join() for t in threads]
    for p, text in out.items():
        assert Model(p, threads=2).generate("Once upon", max_tokens=12) == text


def test_commands() -> None:
    for name in ("quantize", "eval", "inspect", "doctor"):
        assert name in hone_gguf.commands()
    assert "<table>" in call("inspect", "model.gguf")._repr_html_()
    assert "<table>" in GGUF("model.gguf")._repr_html_()
    try:
        call("inspect", "model.gguf", no_such_option=1)
        raise AssertionError
    except UsageError as error:
        assert "no-such-option" in str(error)


if __name__ == "__main__":
    failed = 0
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
    result = doctest.testfile(sys.argv[1], module_relative=False,
                              optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    print(f"docs/python.md: {result.attempted} examples, {result.failed} failed")
    sys.exit(1 if result.failed else 0)
