#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Learns codes block by block, as GSQ describes it:
bench/gsq.py MODEL BASE.gguf START.gguf OUT.gguf TRAIN.txt PROBE.txt

MODEL is a small dense model of Llama's shape (a folder, or a GGUF that transformers reads), BASE.gguf the F32 file
from which START.gguf was made; both files may be padded by bench/codes_pad.py. The Q2_K, Q3_K and Q4_K matrices are
learned, the rest stays; OUT.gguf has the same types and size. Compare files with: hone eval kld START.gguf OUT.gguf
TEXT --base BASE.gguf. Results: docs/notebook/codes.md. Needs torch, transformers and gguf.

For each transformer block, in order: the loss is the squared error of the block's output. The input is the output of
the quantized blocks before it, the target is that of the original model (TARGET=same: of the original block for the
same input). RULE=gumbel follows the description of GSQ (Dadgarnia et al. 2026, arXiv 2604.18556): a weight has a
latent per level (2 bits: all four; more: the code and two to each side). The start's level begins .06 higher, all
with noise of .01. A weight is the mean of its levels under softmax((kappa latent + Gumbel noise) / tau); kappa rises
from 100 to 500, tau falls from 2 to .05. Lion with weight decay 1, cosine rate; scales stay. Published: rate .0002,
640 steps. Here RATE=.0002 is multiplied by 640 / STEPS, so that latents can move as far. RULE=ste: codes are rounded
latents that start at the original weights, at most EDGE=.49 from the code; gradients pass the rounding; Adam with
RATE (in steps). RULE=none: codes stay. SCALES=x also learns d and dmin, by Adam with relative rate x; NORMS=x the
block's two norms.

Environment: STEPS=64, BATCH=2 windows, WINDOW=512 tokens, TRAIN=64 and PROBES=16 windows, LAYERS=N (stop after N),
KEEP=1 (a block that is not better on the probe windows keeps its start), THREADS=1, SEED=0, CACHE=FOLDER for the
original's outputs, LOG=FILE.json for the errors per block."""
import json
import math
import os
import sys
import time

import codes  # first: it takes this folder from the path

import gguf
import numpy as np
import torch
from gguf.quants import dequantize
from transformers import AutoModelForCausalLM, AutoTokenizer

env = os.environ.get
RULE, TARGET = env("RULE", "gumbel"), env("TARGET", "clean")
STEPS, BATCH = int(env("STEPS", "64")), int(env("BATCH", "2"))
RATE, EDGE = float(env("RATE", ".0002")), float(env("EDGE", ".49"))
SCALES, NORMS = float(env("SCALES", "0")), float(env("NORMS", "0"))
pool = None  # Gumbel noise, used from random places


class Adam:
    def __init__(self, x):
        self.m, self.v, self.t = torch.zeros_like(x), torch.zeros_like(x), 0

    def step(self, g):
        self.t += 1
        self.m.mul_(.9).add_(g, alpha=.1)
        self.v.mul_(.99).addcmul_(g, g, value=.01)
        return self.m / (1 - .9**self.t) / ((self.v / (1 - .99**self.t)).sqrt() + 1e-12)


class Matrix:
    """One matrix: its rows and columns that are not padding, in the GGUF's order of rows."""

    def __init__(self, tensor, base, param):
        self.b = b = codes.Blocks(tensor.tensor_type.name, tensor.data)
        self.full, (r, c) = base.shape, param.shape
        many = lambda a: np.repeat(a.astype(np.float32), 256 // a.shape[1], 1).reshape(self.full)
        wide = lambda a: torch.from_numpy(many(a)[:r, :c].copy())
        self.q, self.sc, self.m = wide(b.q), wide(b.sc), wide(b.m)
        per = lambda a: torch.from_numpy(a.reshape(self.full[0], -1)[:r].copy())
        self.d, self.dm = per(b.d), per(b.dmin)
        self.d0, self.dm0 = self.d, self.dm
        self.q0, self.where = self.q.clone(), codes.places(base[:r, :c], param.numpy())
        self.inverse = None if self.where is None else torch.argsort(self.where[1])
        self.original = torch.from_numpy(base[:r, :c].copy())
        whole = dequantize(tensor.data, tensor.tensor_type).reshape(self.full)
        assert np.array_equal(whole[:r, :c], self.weight(ordered=False).numpy()) and not whole[r:].any(), tensor.name

    def units(self):
        """Step and offset of every weight."""
        wide = lambda a: a.repeat_interleave(256, 1)[:, : self.q.shape[1]]
        return wide(self.d) * self.sc, wide(self.dm) * self.m

    def weight(self, q=None, ordered=True):
        s, o = self.units()
        w = s * (self.q if q is None else q) - o
        return w[self.where[1]] if ordered and self.where else w

    def begin(self):
        s, o = self.units()
        if RULE == "gumbel":
            near = torch.arange(4.) if self.b.qmax - self.b.qmin == 3 else torch.arange(-2., 3)
            at = near if len(near) == 4 else self.q0 + near.reshape(-1, 1, 1)
            self.levels = at.reshape(-1, 1, 1) if len(near) == 4 else at
            self.x = torch.randn(len(near), *self.q.shape) * .01
            self.x += .06 * (self.levels == self.q0)
            self.x.masked_fill_((self.levels < self.b.qmin) | (self.levels > self.b.qmax), -9)
            self.momentum = torch.zeros_like(self.x)
        elif RULE == "ste":
            z = (self.original + o) / torch.where(s == 0, 1., s)
            self.x = torch.minimum(torch.maximum(z, self.q0 - EDGE), self.q0 + EDGE)
            self.adam = Adam(self.x)
        self.ld, self.ldm = torch.zeros_like(self.d), torch.zeros_like(self.dm)
        self.ad, self.adm = Adam(self.ld), Adam(self.ldm)

    def sample(self, share):
        """The weights of a step; share is the part of the steps that is done."""
        if RULE != "gumbel":
            return self.weight()
        self.kappa, self.tau = 100 + 400 * share, 2 - 1.95 * share
        at = int(torch.randint(len(pool) - self.x.numel(), (1,)))
        noise = pool[at : at + self.x.numel()].reshape(self.x.shape)
        self.p = torch.softmax((noise + self.kappa * self.x) / self.tau, 0)
        self.mean = (self.p * self.levels).sum(0)
        return self.weight(self.mean)

    def step(self, g, fall):
        if self.inverse is not None:
            g = g[self.inverse]
        s, _ = self.units()
        if RULE == "gumbel":
            g4 = self.p.mul_(self.levels - self.mean).mul_(g * s * (self.kappa / self.tau))
            rate = RATE * 640 / STEPS * fall
            by = (self.momentum * .9).add_(g4, alpha=.1).sign_()
            self.momentum.mul_(.99).add_(g4, alpha=.01)
            self.x.mul_(1 - rate).sub_(by, alpha=rate)
            self.x.masked_fill_((self.levels < self.b.qmin) | (self.levels > self.b.qmax), -9)
        elif RULE == "ste":
            self.x.sub_(self.adam.step(g * s), alpha=RATE * fall).clamp_(self.b.qmin - .49, self.b.qmax + .49)
            self.q = self.x.round()
        if SCALES:
            by_block = lambda a: torch.nn.functional.pad(a, (0, -a.shape[1] % 256)).reshape(len(a), -1, 256).sum(2)
            self.ld -= SCALES * fall * self.ad.step(by_block(g * self.sc * self.q) * self.d)
            self.ldm -= SCALES * fall * self.adm.step(by_block(-g * self.m) * self.dm)
            self.d, self.dm = (self.d0 * self.ld.exp()).half().float(), (self.dm0 * self.ldm.exp()).half().float()

    def end(self):
        if RULE == "gumbel":
            best = self.x.argmax(0, keepdim=True)
            self.q = self.levels.expand_as(self.x).gather(0, best)[0]
        for name in "x", "momentum", "adam", "p", "mean", "levels", "ad", "adm":
            self.__dict__.pop(name, None)

    def undo(self):
        self.q, self.d, self.dm = self.q0, self.d0, self.dm0

    def pack(self):
        b, (r, c) = self.b, self.q.shape
        q = b.q.reshape(self.full).copy()
        q[:r, :c] = self.q.numpy()
        d, dm = b.d.reshape(self.full[0], -1).copy(), b.dmin.reshape(self.full[0], -1).copy()
        d[:r], dm[:r] = self.d.numpy(), self.dm.numpy()
        return b.pack(q.reshape(-1, 256), b.sc, b.m, d.reshape(-1), dm.reshape(-1)).tobytes()


def main():
    global pool
    model_path, base_path, start_path, out_path, train, probe = sys.argv[1:]
    torch.set_num_threads(int(env("THREADS", "1")))
    torch.manual_seed(int(env("SEED", "0")))
    folder, file = os.path.split(model_path) if os.path.isfile(model_path) else (model_path, None)
    where = dict(pretrained_model_name_or_path=folder or ".", gguf_file=file)
    tok = AutoTokenizer.from_pretrained(**where)
    model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32, attn_implementation="sdpa").eval()
    model.requires_grad_(False)
    x = codes.windows(tok, train)
    x = x[:: max(1, len(x) // int(env("TRAIN", "64")))][: int(env("TRAIN", "64"))]
    n = len(x)
    x = torch.stack(x + codes.windows(tok, probe, int(env("PROBES", "16"))))
    print(f"{n} windows, {len(x) - n} held out", flush=True)
    rope = model.model.rotary_emb(torch.zeros(1), torch.arange(x.shape[1])[None])
    run = lambda layer, h: layer(h, position_embeddings=rope)
    whole = lambda layer, h: torch.cat([run(layer, h[i : i + 4]) for i in range(0, len(h), 4)])
    base = {t.name: t for t in gguf.GGUFReader(base_path).tensors}
    start = {t.name: t for t in gguf.GGUFReader(start_path).tensors}
    clean = model.model.embed_tokens(x)
    e = start["token_embd.weight"]
    e = dequantize(e.data, e.tensor_type)[:, : clean.shape[2]]
    h = torch.from_numpy(np.ascontiguousarray(e))[x]
    pool = -torch.empty(5 * 900000 + 2000000).exponential_().log_() if RULE == "gumbel" else None
    data, log, began = bytearray(open(start_path, "rb").read()), [], time.process_time()
    for i, layer in enumerate(model.model.layers[: int(env("LAYERS", "999"))]):
        cached = env("CACHE") and f"{env('CACHE')}/{i}.pt"
        if cached and os.path.exists(cached):
            clean = torch.load(cached)
        else:
            clean = whole(layer, clean)
            if cached:
                torch.save(clean, cached)
        target = clean if TARGET == "clean" else whole(layer, h)
        params, learned = dict(layer.named_parameters()), {}
        for name, t in start.items():
            if not name.startswith(f"blk.{i}.") or t.tensor_type.name == "F32":
                continue
            p = params[codes.target(name, params)[0].split(".", 3)[3]]
            (r, c), b = p.shape, dequantize(base[name].data, base[name].tensor_type)
            if t.tensor_type.name in ("Q2_K", "Q3_K", "Q4_K"):
                learned[name] = Matrix(t, b, p), p
            else:
                at = codes.places(b[:r, :c], p.numpy())
                w = torch.from_numpy(dequantize(t.data, t.tensor_type)[:r, :c].copy())
                p.copy_(w[at[1]] if at else w)
        norms = [(params[a], params[a].clone(), Adam(params[a]), f"blk.{i}.{b}.weight") for a, b in
                 (("input_layernorm.weight", "attn_norm"), ("post_attention_layernorm.weight", "ffn_norm"))]

        def put():
            for m, p in learned.values():
                p.data.copy_(m.weight())

        def error(part):
            """Squared error per window."""
            return (whole(layer, h[part]) - target[part]).square().mean((1, 2))

        put()
        first = error(slice(n, len(x))), error(slice(0, min(n, 16)))
        for m, p in learned.values():
            m.begin()
            p.requires_grad_(True)
        for p, *_ in norms if NORMS else []:
            p.requires_grad_(True)
        order = []
        for t in range(STEPS):
            if len(order) < BATCH:
                order = torch.randperm(n).tolist()
            at = [order.pop() for _ in range(BATCH)]
            for m, p in learned.values():
                p.data.copy_(m.sample(t / max(1, STEPS - 1)))
            with torch.enable_grad():
                (run(layer, h[at]) - target[at]).square().sum((1, 2)).div(first[1].mean()).mean().backward()
            fall = .5 + .5 * math.cos(math.pi * t / STEPS)
            for m, p in learned.values():
                m.step(p.grad, fall)
                p.grad = None
            for p, was, adam, _ in norms if NORMS else []:
                p.data.sub_(was * adam.step(p.grad * was), alpha=NORMS * fall)
                p.grad = None
        for m, p in learned.values():
            m.end()
            p.requires_grad_(False)
        layer.requires_grad_(False)
        put()
        last = error(slice(n, len(x))), error(slice(0, min(n, 16)))
        moved = torch.cat([(m.q != m.q0).flatten() for m, _ in learned.values()]).float().mean().item()
        ratio = [(b.sum() / a.sum()).item() for a, b in zip(first, last)]
        better = (last[0] < first[0]).float().mean().item()
        log.append({"block": i, "held_out": first[0].mean().item(), "ratio": ratio[0], "train_ratio": ratio[1],
                    "windows_better": better, "codes_moved": moved})
        print(f"block {i}: held out {first[0].mean():.4g}, ratio {ratio[0]:.4f}, {better:.0%} of windows better, "
              f"train {ratio[1]:.4f}, codes moved {moved:.2%}, {time.process_time() - began:.0f} s", flush=True)
        if env("KEEP") and ratio[0] >= 1:
            [m.undo() for m, _ in learned.values()]
            [p.copy_(was) for p, was, *_ in norms]
            put()
        for name, (m, _) in learned.items():
            raw, at = m.pack(), start[name].data_offset
            assert len(raw) == start[name].n_bytes
            data[at : at + len(raw)] = raw
        for p, was, _, name in norms if NORMS else []:
            f = np.frombuffer(data, np.float32, start[name].n_elements, start[name].data_offset)
            f[: len(p)] *= (p / was).numpy()
        h = whole(layer, h)
    open(out_path, "wb").write(data)
    if env("LOG"):
        json.dump({"start": start_path, "seconds": time.process_time() - began, "blocks": log}, open(env("LOG"), "w"))


if __name__ == "__main__":
    with torch.no_grad():
        main()
