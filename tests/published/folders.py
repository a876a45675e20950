# SPDX-License-Identifier: MIT
"""Folders: where tensors are and what they are called."""
import pathlib

from safetensors.numpy import load_file, save_file

from published import checkpoint, convert, edit, same_logits, trial


def renamed(scratch, rename, **config):
    """Converts a Llama checkpoint whose tensors are renamed, and compares its logits."""
    d, model = checkpoint(scratch, "llama", **config)
    f = d / "model.safetensors"
    save_file({rename(k): v for k, v in load_file(f).items()}, f, {"format": "pt"})
    p = convert(d)
    return p.refusal("prefix") or same_logits(p.path, model)


@trial("folders")
def as_saved(scratch):
    return renamed(scratch, lambda k: k)


for prefix in ("_orig_mod.", "module.", "_orig_mod.module.", "language_model."):
    trial("folders", "prefix " + prefix)(lambda s, p=prefix: renamed(s, lambda k: p + k))
trial("folders", "bare model")(lambda s: renamed(s, lambda k: k.removeprefix("model."), tie_word_embeddings=True))
