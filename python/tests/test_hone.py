# SPDX-License-Identifier: MIT
"""Tests of hone_gguf: the examples of docs/python.md, in the current folder, and exceptions from callbacks, cancelling,
lifetimes, other integer types. Run by run.sh."""

import asyncio
import doctest
import gc
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import hone_gguf
import numpy as np
from hone_gguf import (GGUF, Cancel, Cancelled, HoneError, MissingFile, Model, Template, Tokenizer, UsageError,
                       Writer, encode, kld, plan, quantize, types)


RESULT = {"python": sys.version.split()[0], "numpy": np.__version__}


def raises(kind, function, *args, **options):
    """The exception of this kind raised by a call."""
    try:
        function(*args, **options)
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def test_import_time() -> None:
    """Import in a process of its own, best of ten. Wall time goes to RESULT; the check uses processor time, since the machine may
    be busy. numpy is not loaded."""
    code = ("import time; t, p = time.perf_counter(), time.process_time(); import hone_gguf; "
            "print(time.perf_counter() - t, time.process_time() - p)")
    runs = [subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
            for _ in range(10)]
    RESULT["import_ms"], RESULT["import_cpu_ms"] = (round(min(float(r[i]) for r in runs) * 1000) for i in (0, 1))
    assert RESULT["import_cpu_ms"] < 100, RESULT
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
        hone_gguf.quantize_files("base.gguf", "no.gguf", recipe="Q4_K_M", cancel=c)
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
    shared = m.generate("Once", max_tokens=20, stream=True)  # read by several threads: all end with it
    readers = [threading.Thread(target=lambda: [None for _ in shared], daemon=True) for _ in range(3)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(60)
    assert not any(reader.is_alive() for reader in readers) and shared.answer
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
    assert len(found) <= 1  # none if the answer had already ended
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


def test_ctrl_c() -> None:
    """Ctrl-C stops a computation, whatever Python code runs meanwhile, and the model stays usable."""
    m = Model("base.gguf", n_ctx=4096, threads=1)
    text = open("text.txt", encoding="utf-8").read()
    for work in (lambda: m.generate("Once", max_tokens=4000, temperature=1.0),
                 lambda: m.generate_many(["x"] * 200, max_tokens=400, temperature=1.0),
                 lambda: list(m.generate("Once", max_tokens=4000, temperature=1.0, stream=True)),
                 lambda: m.perplexity(text), lambda: kld(m, Model("model.gguf", threads=1), text)):
        begin = time.perf_counter()
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        raises(KeyboardInterrupt, work)
        assert time.perf_counter() - begin < 10
    assert len(m.generate("Once", max_tokens=3).tokens) == 3


def test_nothing_is_left() -> None:
    """A model without references is closed at once, without the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            m = Model("model.gguf", n_ctx=64, threads=2)
            assert m.generate("a", max_tokens=1) and list(m.generate("a", max_tokens=2, stream=True))
            del m
        for _ in range(50):  # calling threads take a moment to end
            left = open("/proc/self/maps", encoding="utf-8").read().count("model.gguf")
            if not left:
                break
            time.sleep(0.1)
        assert left == 0
    finally:
        gc.enable()


def test_closing() -> None:
    with GGUF("base.gguf") as g:
        rows = g.tensors["output_norm.weight"].data
    assert np.isfinite(rows).all() and "closed" in repr(g)
    raises(UsageError, lambda: g.tensors)
    with Model("model.gguf", n_ctx=64) as m:
        tok = m.tokenizer
    assert "closed" in str(raises(UsageError, m.generate, "Once"))
    assert tok.decode(tok.encode("Once")) == "Once"


M = Model.__new__(Model)


def in_child(x: int) -> str:
    return str(M.generate("Once", max_tokens=5)) if x else ""


def test_processes() -> None:
    """A model created before a fork computes in the child too; handles can be sent to other processes."""
    global M
    M = Model("model.gguf", n_ctx=64)
    want = M.generate("Once", max_tokens=5)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(in_child, [1, 1]).get(timeout=60) == [want, want]
    talk = [{"role": "user", "content": "x"}]
    for x, use in ((M, lambda x: x.generate("Once", max_tokens=5)), (Tokenizer("model.gguf"), lambda x: x.encode("a b")),
                   (GGUF("model.gguf"), lambda x: len(x.tensors)), (M.template, lambda x: x.render(talk)),
                   (Template("{{ bos_token }}a", bos="<s>"), lambda x: x.render(talk))):
        assert use(pickle.loads(pickle.dumps(x))) == use(x)
    error = pickle.loads(pickle.dumps(raises(MissingFile, GGUF, "absent")))
    assert (error.file, error.filename, error.errno) == ("absent", "absent", 2)


def test_async() -> None:
    m = Model("model.gguf", n_ctx=64)
    want = m.generate("Once", max_tokens=6)

    async def work() -> str:
        stream = m.generate("Once", max_tokens=6, stream=True)
        text = "".join([piece async for piece in stream])
        assert stream.answer == want and stream.answer.stop == "length"
        async with m.generate("Once", max_tokens=None, stream=True) as left:
            async for _ in left:
                break
        assert left.answer is None or len(left.answer.tokens) < 64
        return text
    assert asyncio.run(work()) == want


def test_what_is_refused() -> None:
    m, tok = Model("model.gguf", n_ctx=64), Tokenizer("model.gguf")
    for kind, words, f in (
            (TypeError, "messages", lambda: m.generate(None)), (TypeError, "messages", lambda: m.generate({"role": "user"})),
            (TypeError, "list", lambda: m.generate_many("ab")), (TypeError, "text", lambda: tok.encode(["a"])),
            (TypeError, "list", lambda: tok.decode(5)), (OverflowError, "", lambda: tok.decode([2**40])),
            (TypeError, "", lambda: m.generate([0.5])), (UsageError, "None", lambda: m.generate("a", max_tokens=0)),
            (UsageError, "n_ctx", lambda: m.generate("word " * 99)),
            (UsageError, "not several", lambda: m.generate("a", regex="a", schema={"type": "null"})),
            (UsageError, "overwrite", lambda: quantize("base.gguf", "text.txt", "Q4_0")),
            (UsageError, "requantize", lambda: quantize("model.gguf", "no.gguf", "Q2_K")),
            (UsageError, "same model", lambda: m.perplexity(tok.encode("a b c d " * 90), n_ctx=64,
                                                            progress=lambda *a: m.generate("a")))):
        assert words in str(raises(kind, f)), (words, raises(kind, f))


def test_changed_metadata() -> None:
    """A copy of a file with other keys: numbers have numpy's types or the defaults."""
    with GGUF("model.gguf") as g, Writer("changed.gguf", overwrite=True) as w:
        w.copy_metadata(g)
        w.metadata({"general.name": "Other", "x.i8": np.int8(-3), "x.u16": np.uint16(9), "x.big": -2**40, "x.f": np.float32(2)})
        w.remove("general.size_label")
        w.copy_tensors(g)
    a, b = GGUF("model.gguf"), GGUF("changed.gguf")
    assert list(a.tensors) == list(b.tensors)
    assert all(np.array_equal(t.data, b.tensors[n].data) for n, t in a.tensors.items())
    assert b.metadata["general.name"] == "Other" and "general.size_label" not in b.metadata
    assert [b.metadata["x." + n] for n in ("i8", "u16", "big", "f")] == [-3, 9, -2**40, 2.0]
    assert np.array_equal(np.asarray(b.tensors["output_norm.weight"]), b.tensors["output_norm.weight"].to_numpy())
    with Writer("blocks.gguf", overwrite=True) as w:  # the shape follows from the blocks
        w.metadata({"general.architecture": "x"})
        w.tensor("w", encode(np.ones((4, 512), "f4"), "Q4_K"), type="Q4_K")
    assert GGUF("blocks.gguf").tensors["w"].shape == (4, 512)
    r = quantize("model.gguf", "twice.gguf", "Q2_K", requantize=True, tensors={"output": "Q8_0"}, overwrite=True)
    assert r["file_bytes"] == os.path.getsize("twice.gguf")
    assert {"F32", "Q4_K", "IQ4_XS"} <= {t.name for t in types()}


def test_what_strangers_met() -> None:
    """Numbers truncated to fit, texts cut at a NUL, writable arrays, options without effect."""
    m, g = Model("model.gguf", n_ctx=64), GGUF("model.gguf")
    talk = [{"role": "user", "content": "x"}]
    for kind, words, f in (
            (UsageError, "max_tokens", lambda: m.generate("a", max_tokens=2**64)), (UsageError, "reserve", lambda: plan("model.gguf", reserve=-1)),
            (UsageError, "NUL", lambda: m.generate("a", stop=["x\0y"])), (UsageError, "NUL", lambda: GGUF("model.gguf\0x")),
            (UsageError, "one text or more", lambda: m.generate("a", choices=[])), (TypeError, "list", lambda: m.generate("a", choices="left")),
            (UsageError, "is not JSON", lambda: m.generate("a", schema="{")), (UsageError, "at most 1", lambda: m.generate("a", top_p=2)),
            (TypeError, "dicts", lambda: m.generate(talk, tools=["x"])), (TypeError, "dict", lambda: m.generate(talk, variables=["x"])),
            (UsageError, "messages", lambda: m.generate("a", tools=[{"type": "function"}])), (KeyError, "5", lambda: g.metadata[5]),
            (ValueError, "copy", lambda: g.tensors["token_embd.weight"].__array__(copy=False)),
            (ValueError, "WRITEABLE", lambda: g.tensors["output_norm.weight"].data.setflags(write=True)),
            (UsageError, "is not a size", lambda: plan("model.gguf", reserve="24 XB")), (TypeError, "same", lambda: plan("model.gguf", ctx=5, n_ctx=5))):
        assert words in str(raises(kind, f)), (words, raises(kind, f))
    assert 5 not in g.metadata and 5 not in g.tensors
    assert g.tensors["output_norm.weight"].__array__(copy=False).base is not None
    wide = {"x.a": [2**40, -1], "x.b": [2**63], "x.c": [1, 2], "x.d": [], "x.u": np.array([2**64 - 1], np.uint64)}
    with Writer("wide.gguf", overwrite=True) as w:
        w.metadata({"general.architecture": "x", **wide})
        for bad in (["a", 1], [1, "a"], [2**70], [0.5, 2**60 + 1]):
            raises(UsageError, w.metadata, {"x.bad": bad})
    read = GGUF("wide.gguf").metadata
    assert {k: read[k] for k in wide} == {k: list(v) for k, v in wide.items()}
    whole = plan("model.gguf", vram=["24GiB", 16 * 2**30], n_ctx=4096)
    assert whole["total_bytes"] == plan("model.gguf", vram="24GiB,16GiB", ctx=4096)["total_bytes"]
    data = open("model.gguf", "rb").read()
    memory = GGUF.from_bytes(data)
    assert len(memory.tensors) == len(g.tensors) and Tokenizer(memory).encode("a b") == Tokenizer(g).encode("a b")
    raises(TypeError, pickle.dumps, memory)
    assert g.tensors["token_embd.weight"].to_numpy(np.int64(1), np.int64(3)).shape == (2, 256)
    assert m.generate("a", max_tokens=np.int64(2)).tokens == m.generate("a", max_tokens=2).tokens
    with Writer("u64.gguf", overwrite=True) as w:
        w.metadata({"general.architecture": "x", "x.a": 2**63, "x.b": np.uint64(2**64 - 1), "x.c": 2**63 - 1})
        w.tensor("w", np.ones(4, "f4"))
        for bad in (lambda: w.metadata({"a\0b": 1}), lambda: w.tensor("w\0x", np.ones(4, "f4")), lambda: w.remove("x.a\0b"),
                    lambda: w.metadata({"x.d": 2**64})):
            raises(UsageError, bad)
        raises(TypeError, w.metadata, {5: 1})
    assert [GGUF("u64.gguf").metadata["x." + k] for k in "abc"] == [2**63, 2**64 - 1, 2**63 - 1]
    assert Template.of("source").render(talk) == Template.of("source/chat_template.jinja").render(talk) == Template.of(g).render(talk)
    raises(MissingFile, Template.of, "absent.jinja")
    listed = json.dumps({"chat_template": [{"name": n, "template": n} for n in ("b", "tool_use", "a")]})
    for place, text, want in (("chat_template.json", '{"chat_template": "x"}', "x"), ("chat_template.json", listed, "tool_use"),
                              ("tokenizer_config.json", listed.replace("tool_use", "c"), "a"), ("additional_chat_templates/rag.jinja", "r", "r"),
                              ("chat_template.jinja", "d", "d")):
        os.makedirs(os.path.dirname(os.path.join("places", place)), exist_ok=True)
        with open(os.path.join("places", place), "w") as f:
            f.write(text)
        assert Template.of("places").text == want, (place, want)
    odd = os.fsdecode(b"odd\xff.gguf")
    with open(odd, "wb") as f:
        f.write(data)
    assert hone_gguf.inspect(odd)["arch"] == "qwen35moe" and len(GGUF(odd).tensors) == len(g.tensors)
    assert raises(MissingFile, GGUF, odd + "x").file == odd + "x"


def test_encode_stops() -> None:
    rows = np.random.default_rng(1).random((2048, 8192), np.float32)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    begin = time.process_time()
    raises(KeyboardInterrupt, encode, rows, "IQ3_S", threads=1)
    assert time.process_time() - begin < 5


def test_tables() -> None:
    assert "<table>" in hone_gguf.inspect("model.gguf")._repr_html_()
    assert "<table>" in GGUF("model.gguf")._repr_html_()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs with SIGINT ignored
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
    result = doctest.testfile(sys.argv[1], module_relative=False,
                              optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    print(json.dumps({**RESULT, "examples": result.attempted, "failed": result.failed}))
    sys.exit(1 if result.failed else 0)
