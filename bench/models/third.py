#!/usr/bin/env python3
"""Trains the third model of bench/quality.sh: a dense model of Llama's shape with 34 million weights.

    python3 bench/models/third.py OUT_FOLDER [--minutes 78] [--threads 2] [--small]

The texts exist on every Debian machine with this script's venv: the sources of the Python package transformers and the manual
pages. A hash of each document's path assigns it: 2 in 100 each become calib.txt, probe.txt and eval.txt (sources) and
man_calib.txt and man_eval.txt (pages); the rest is for training. --small: 6 million weights and a vocabulary of 2048. OUT_FOLDER gets a checkpoint in the
published layout, the five texts, and train.json with the loss by step. Needs torch, transformers, tokenizers.
"""
import argparse
import copy
import glob
import gzip
import hashlib
import json
import math
import os
import re
import subprocess
import time

import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

VOCAB, CTX = 8192, 512
SRC_BYTES, MAN_BYTES = 24 << 20, 12 << 20  # the amount that fits into the training time


def bucket(path):
    """A number from 0 to 99 that depends only on the document's name."""
    return int(hashlib.sha256(os.path.basename(path).encode()).hexdigest()[:8], 16) % 100


def sources():
    root = os.path.dirname(transformers.__file__)
    for path in sorted(glob.glob(root + "/**/*.py", recursive=True)):
        text = open(path, encoding="utf-8", errors="replace").read()
        if len(text) > 500:
            yield path, text


def pages():
    for path in sorted(glob.glob("/usr/share/man/man[1-8]/*.gz")):
        raw = gzip.open(path).read()
        if len(raw) < 2000 or len(raw) > 300000:
            continue
        # The text of a man page as in its source, without typesetting requests.
        lines = [ln for ln in raw.decode("utf-8", "replace").split("\n") if not ln.startswith((".\\\"", "'\\\""))]
        yield path, "\n".join(lines)


def split(docs, names):
    """The training documents, and the documents of each set in names."""
    parts = {n: [] for n in names}
    learned, seen = [], set()
    for path, text in docs:
        digest = hashlib.sha256(text.encode()).digest()
        if digest in seen:
            continue
        seen.add(digest)
        b = bucket(path) // 2
        (parts[names[b]] if b < len(names) else learned).append(text)
    return learned, parts


def evenly(docs, n_bytes):
    """Documents of about n_bytes in total, evenly spaced in the list."""
    step = max(1, sum(map(len, docs)) // n_bytes)
    return docs[::step]


def train_tokenizer(texts):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
            behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCAB - 2, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tok.train_from_iterator(texts, trainer)
    tok.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
    return tok


def save(model, out):
    copy.deepcopy(model).to(torch.bfloat16).save_pretrained(out)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("out")
    ap.add_argument("--minutes", type=float, default=78)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--small", action="store_true", help="6 million weights, 2048 tokens of vocabulary: trains in 12 minutes")
    a = ap.parse_args()
    global VOCAB, SRC_BYTES, MAN_BYTES
    hidden, inner_size, layers = 512, 1536, 8
    if a.small:
        VOCAB, SRC_BYTES, MAN_BYTES = 2048, 4 << 20, 2 << 20
        hidden, inner_size, layers = 256, 768, 6
    torch.manual_seed(30)
    torch.set_num_threads(a.threads)
    os.makedirs(a.out, exist_ok=True)
    src, src_parts = split(sources(), ["calib", "probe", "eval"])
    man, man_parts = split(pages(), ["man_calib", "man_eval"])
    for name, docs in {**src_parts, **man_parts}.items():
        open(f"{a.out}/{name}.txt", "w").write("\n\n".join(d[:20000] for d in docs)[: 1 << 18 if name == "man_calib" else 1200000])
    tok = train_tokenizer(evenly(src, SRC_BYTES // 4) + evenly(man, MAN_BYTES // 4))
    tok.save(f"{a.out}/tokenizer.json")
    json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|begin_of_text|>",
               "eos_token": "<|end_of_text|>", "add_bos_token": False, "model_max_length": 4096},
              open(f"{a.out}/tokenizer_config.json", "w"), indent=1)
    ids = []
    for e in tok.encode_batch_fast(evenly(src, SRC_BYTES) + evenly(man, MAN_BYTES)):
        ids += e.ids + [VOCAB - 1]
    ids = torch.tensor(ids)
    windows = ids[: len(ids) // (CTX + 1) * (CTX + 1)].view(-1, CTX + 1)
    windows = windows[torch.randperm(len(windows))]
    cfg = LlamaConfig(vocab_size=VOCAB, hidden_size=hidden, intermediate_size=inner_size, num_hidden_layers=layers,
                      num_attention_heads=hidden // 64, num_key_value_heads=hidden // 128, head_dim=64,
                      max_position_embeddings=4096, rope_theta=10000.0,
                      tie_word_embeddings=False, bos_token_id=VOCAB - 2, eos_token_id=VOCAB - 1, rms_norm_eps=1e-5)
    model = LlamaForCausalLM(cfg)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} M weights, {len(ids) / 1e6:.1f} M tokens", flush=True)
    # Muon for the matrices inside the blocks, AdamW for embeddings, output and norms: reaches the same loss with fewer
    # tokens.
    inner = [p for n, p in model.named_parameters() if p.dim() == 2 and ".layers." in n]
    outer = [p for n, p in model.named_parameters() if not (p.dim() == 2 and ".layers." in n)]
    halves = re.search("avx512_bf16|amx_bf16", open("/proc/cpuinfo").read()) is not None  # otherwise bf16 is emulated, in Muon too
    batch = 8 if halves else 2  # windows per step: a slow machine does fewer in the time
    opts = [(torch.optim.Muon(inner, lr=0.015, momentum=0.95, weight_decay=0.02, adjust_lr_fn="original"), 0.015) if halves
            else (torch.optim.AdamW(inner, lr=1.5e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True), 1.5e-3),
            (torch.optim.AdamW(outer, lr=2e-3, betas=(0.9, 0.95), weight_decay=0.0, fused=True), 2e-3)]
    # The schedule follows the fraction of wall time that has passed, so that a busy machine does fewer steps and still
    # ends on time.
    start, step, log, i, kept = time.time(), 0, [], 0, time.time()
    while time.time() - start < a.minutes * 60:
        share = (time.time() - start) / (a.minutes * 60)
        for opt, lr in opts:
            for g in opt.param_groups:
                g["lr"] = lr * min(1, (step + 1) / 50) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * share)))
        x = windows[[(i + k) % len(windows) for k in range(batch)]]
        i += batch
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=halves):
            logits = model(x[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), x[:, 1:].reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(outer, 1.0)
        for opt, _ in opts:
            opt.step()
            opt.zero_grad(set_to_none=True)
        step += 1
        log.append(round(loss.item(), 4))
        if step % 10 == 0:
            used = time.time() - start
            print(step, f"{used / 60:.1f} min", f"loss {sum(log[-10:]) / 10:.3f}", f"{step * batch * CTX / used:.0f} tokens/s",
                  flush=True)
        if time.time() - kept > 600:
            kept = time.time()
            save(model, a.out)
    save(model, a.out)
    json.dump({"steps": step, "tokens": step * batch * CTX, "minutes": a.minutes, "loss": log[::20]},
              open(f"{a.out}/train.json", "w"))


if __name__ == "__main__":
    main()
