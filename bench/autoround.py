#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""AutoRound's GGUF export of a small model, for comparison with ours: bench/autoround.py FOLDER SCHEME OUT PRE TEXT...

FOLDER: a checkpoint, for example from bench/models/third.py. SCHEME: gguf:q4_k_m. PRE: the pre-tokenizer's name as `hone
inspect` prints it for our own conversion; the export identifies tokenizers by a hash. Needs auto-round, gguf, sentencepiece
and torch (PyPI). ITERS: 0 (its advice for GGUF), 50 (its light recipe, the default here), 200 (its default) or 1000 (its best recipe, with
512 windows). SAMPLES: windows of 512 tokens, the same number from each text (128 in all). EXT=1: enable_alg_ext, which its
documentation recommends for GGUF types. THREADS: 1. The result is written to a folder below OUT and
can be compared with: hone eval kld OUT/*/*.gguf OURS.gguf eval.txt --base base.gguf --json, whose output is in
docs/results/autoround.json (put together by hand)"""
import os
import sys

sys.path.pop(0)  # torch's dependencies would import this folder's modules in place of theirs (kernels.py).

import torch
from auto_round import AutoRound
from auto_round.export.export_to_gguf import export
from transformers import AutoModelForCausalLM, AutoTokenizer

WINDOW = 512


def name_pre_tokenizer(pre):
    """Makes the export write `pre` instead of looking up a hash."""
    theirs = export.get_conversion

    def conversion(*args, **named):
        context = theirs(*args, **named)
        sys.modules["conversion.base"].TextModel.get_vocab_base_pre = lambda self, tokenizer: pre
        return context

    export.get_conversion = conversion


def main():
    folder, scheme, out, pre, *texts = sys.argv[1:]
    iters, samples = int(os.environ.get("ITERS", "50")), int(os.environ.get("SAMPLES", "128"))
    torch.set_num_threads(int(os.environ.get("THREADS", "1")))
    name_pre_tokenizer(pre)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tok = AutoTokenizer.from_pretrained(folder)
    data = []
    for path in texts:
        ids = tok(open(path).read())["input_ids"]
        windows = [torch.tensor([ids[i : i + WINDOW]]) for i in range(0, len(ids) - WINDOW, WINDOW)]
        data += windows[: samples // len(texts)]
    more = {"lr": 5e-3} if iters == 50 else {}
    if os.environ.get("EXT"):
        more["enable_alg_ext"] = True
    AutoRound(model, tok, scheme=scheme, nsamples=len(data), seqlen=WINDOW, iters=iters, dataset=data, device_map="cpu",
              batch_size=8, **more).quantize_and_save(out, format=scheme)


if __name__ == "__main__":
    main()
