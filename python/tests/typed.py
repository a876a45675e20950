# SPDX-License-Identifier: MIT
"""User programs for the type checker: run.sh checks them with mypy --strict and does not run them."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
from hone_gguf import GGUF, Answer, Cancel, DataError, Model, Report, Template, Tokenizer, Writer, kld, make, mix, plan, quantize


def sizes(path: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    with GGUF(path) as g:
        for t in g.tensors.values():
            found[t.type.name] = found.get(t.type.name, 0) + t.n_bytes
    return found


def chat(model: Model, talk: list[dict[str, Any]], tools: list[Any]) -> dict[str, Any]:
    with model.generate(talk, stream=True, tools=tools, variables={"enable_thinking": False}) as stream:
        text = "".join(stream)
    whole: Answer | None = stream.answer
    assert whole is not None and whole.stop in ("end", "length")
    return model.template.read_answer(text, tools)


async def talk_on(model: Model) -> str:
    return "".join([piece async for piece in model.generate("Once", stream=True)])


def ladder(base: Path, out: Path, text: str) -> list[tuple[str, float]]:
    rows: list[tuple[str, float]] = []
    for recipe in ("Q6_K", "Q4_K_M"):
        report: Report = quantize(base, out / f"{recipe}.gguf", recipe, tensors={"output": "Q8_0"}, overwrite=True)
        assert report["file_bytes"] > 0
        rows.append((recipe, float(kld(base, out / f"{recipe}.gguf", text)["mean"])))
    needs: Report = plan(base, vram=["24GiB", 16 * 2**30], n_ctx=4096, recipes=True)
    make(base, out, recipes=["Q4_K_M"], seconds=3600, budget=["8GiB"], max_memory="4GiB", dry_run=bool(needs))
    mix(base, out / "mix.gguf", n_bytes=10**9, cancel=Cancel(), progress=lambda stage, done, total: done > 10)
    return rows


def tokens(path: str) -> int:
    tokenizer = Tokenizer(path)
    try:
        return sum(len(tokenizer.encode(line)) for line in open("corpus.txt", encoding="utf-8"))
    except DataError as error:
        print(error.file, error.tensor)
        return 0


def copy(path: str) -> None:
    rows = np.ones((4, 256), np.float32)
    with GGUF(path) as g, Writer("new.gguf") as w:
        w.copy_metadata(g)
        w.metadata({"general.name": "New", "x.n": np.uint16(5)})
        w.copy_tensors(g, [n for n in g.tensors if n.startswith("blk.")])
        w.tensor("extra", rows)


if __name__ == "__main__":
    print(Template("{{ messages | length }}").render([{"role": "user", "content": "x"}]))
    print(asyncio.run(talk_on(Model("model.gguf"))), sizes(Path("model.gguf")))
