# SPDX-License-Identifier: MIT
"""Helpers shared by this folder's trials of hone on folders, texts and requests as people publish and send them.

A trial is a function with @trial(KIND) that changes a checkpoint or sends a request to a server, and returns a verdict.
  right            the output equals that of an independent library
  refused          an error that names the reason and the remedy
  wrong reason     an error whose text does not name the reason or gives no remedy
  wrong            exit status 0 and a wrong output, without a warning that says so
  crashed          a signal, a hang, or a report of a sanitizer
run.py runs them and counts. Packages: numpy, gguf, tokenizers, transformers, torch, peft, jinja2, jsonschema, tiktoken,
sentencepiece.
"""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HONE = os.environ.get("HONE", str(ROOT / "build/hone"))
VERDICTS = ("right", "refused", "wrong reason", "wrong", "crashed")
TRIALS = []  # (kind, name, function)


def trial(kind, name=None):
    """Registers a trial. The function takes an empty scratch folder and returns a verdict, or (verdict, note)."""

    def add(f):
        TRIALS.append((kind, name or f.__name__, f))
        return f

    return add


class Outcome:
    """The result of a command of hone: status, both outputs as text, and for convert the file that it wrote (None if it
    failed)."""

    def __init__(self, process, path=None):
        self.rc, self.path = process.returncode, path if process.returncode == 0 else None
        self.out = process.stdout.decode("utf8", "replace")
        self.err = process.stderr.decode("utf8", "replace")
        self.crashed = self.rc < 0 or "Sanitizer" in self.err or "runtime error:" in self.err

    def refusal(self, *words):
        """The verdict on a refusal: `refused` if the message contains every word. None if the command succeeded."""
        if self.crashed:
            return "crashed", self.err[-300:]
        if self.rc == 0:
            return None
        missing = [w for w in words if w.lower() not in self.err.lower()]
        return ("wrong reason" if missing else "refused"), self.err.strip()[:300]


def hone(*args, data=None, timeout=120):
    try:
        return Outcome(subprocess.run([HONE, *map(str, args)], input=data, capture_output=True, timeout=timeout))
    except subprocess.TimeoutExpired:
        return Outcome(subprocess.CompletedProcess(args, -1, b"", b"timeout"))


def convert(folder, *args, timeout=120):
    """Runs `hone convert FOLDER`; writes the file next to the folder."""
    path = pathlib.Path(str(folder).rstrip("/") + ".gguf")
    p = hone("convert", folder, "-o", path, "-f", *args, timeout=timeout)
    p.path = path if p.rc == 0 else None
    return p


def keys(path):
    """The metadata of a GGUF file, read by the gguf package."""
    import gguf

    return {k: f.contents() for k, f in gguf.GGUFReader(path).fields.items() if not k.startswith("GGUF.")}


def tensors(path):
    """The tensors of an F32 or F16 GGUF file, name -> array."""
    import gguf

    return {t.name: t.data for t in gguf.GGUFReader(path).tensors}


def same_file(a, b, but=()):
    """The names of tensors and keys that differ between two GGUF files, except the keys in `but`."""
    ka, kb, ta, tb = keys(a), keys(b), tensors(a), tensors(b)
    odd = [k for k in sorted(ka.keys() | kb.keys()) if k not in but and not k.startswith("general.") and ka.get(k) != kb.get(k)]
    odd += [n for n in sorted(ta.keys() | tb.keys()) if n not in ta or n not in tb or ta[n].tobytes() != tb[n].tobytes()]
    return odd


def logits(path, ids, *args):
    """Logits [len(ids)][vocabulary] from `hone eval logits`, with f32 activations."""
    import numpy as np

    with tempfile.TemporaryDirectory() as d:
        np.array(ids, "<u4").tofile(d + "/ids")
        p = hone("eval", "logits", path, "--ids", d + "/ids", "-o", d + "/out", "--act", "f32", "-f", "-q", *args)
        if p.rc:
            raise RuntimeError(p.err)
        return np.fromfile(d + "/out", "<f4").reshape(len(ids), -1)


def ids_of(model, text):
    """Token ids from `hone tokenize` with a folder or a file, without added beginning and end tokens."""
    p = hone("tokenize", model, data=text.encode())
    return json.loads(p.out) if p.rc == 0 else None


def copy_of(folder, scratch, name="model"):
    """A copy of a checkpoint in the scratch folder."""
    return pathlib.Path(shutil.copytree(folder, pathlib.Path(scratch, name)))


def edit(folder, name, change):
    """Reads a JSON file of a folder, lets `change` edit or replace it, and writes it back."""
    path = pathlib.Path(folder, name)
    value = json.loads(path.read_text()) if path.exists() else {}
    new = change(value)
    path.write_text(json.dumps(value if new is None else new, ensure_ascii=False))


TEXT = ["the quick brown fox jumps over the lazy dog", "Hello, world! 12345 + 67890 = 80235", "naïve café — 東京 привет", "def f(x):\n    return x * 2\n"]
SMALL = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512)


def tokenizer(specials=("<|endoftext|>", "<|im_start|>", "<|im_end|>"), size=320):
    """A byte-level BPE tokenizer of the tokenizers library, trained on TEXT, with special tokens after its vocabulary."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(__import__("tokenizers").Regex(QWEN2), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(TEXT * 4, trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.add_special_tokens(list(specials))
    return t


QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def checkpoint(scratch, model_type, name="model", template=None, **config):
    """Saves a small model with random weights for AutoConfig.for_model(model_type) and a tokenizer, using transformers.
    Returns (path, model)."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    t = tokenizer()
    ids = dict(vocab_size=t.get_vocab_size(), bos_token_id=t.token_to_id("<|endoftext|>"), eos_token_id=t.token_to_id("<|im_end|>"), pad_token_id=None)
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **{**SMALL, **ids, **config})).float().eval()
    folder = pathlib.Path(scratch, name)
    model.save_pretrained(folder)
    t.save(str(folder / "tokenizer.json"))
    more = {} if template is None else {"chat_template": template}
    edit(folder, "tokenizer_config.json", lambda c: {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", **more})
    return folder, model


def same_logits(path, model, n=24, bound=1e-4):
    """The verdict `right` if the file's logits for n ids equal those of the transformers model, otherwise `wrong` with
    the difference."""
    import numpy as np
    import torch

    ids = [(7 * i + 3) % model.config.get_text_config().vocab_size for i in range(n)]
    with torch.no_grad():
        want = model(torch.tensor([ids])).logits[0].numpy()
    off = float(np.abs(logits(path, ids)[:, : want.shape[1]] - want).max() / np.abs(want).max())
    return ("right" if off < bound else "wrong"), f"logits differ by {off:.1e}"
