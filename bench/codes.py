#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Learns scales or codes of a quantized file by gradients: bench/codes.py MODEL BASE.gguf START.gguf OUT.gguf TEXT...

MODEL is a checkpoint folder, BASE.gguf its F32 conversion, START.gguf a file made from it. Its Q2_K, Q3_K and Q4_K blocks
are learned, except embeddings; the other tensors stay. OUT.gguf has the same types and size. The loss is the divergence of
the whole model from the checkpoint on windows of TEXT. Compare files with: hone eval kld START.gguf OUT.gguf TEXT --base
BASE.gguf. What it showed: docs/notebook/codes.md.

A weight is d * sc * q - dmin * m. The latent of a code starts at the checkpoint's weight in units of the step, at most EDGE
from the code, so the first file is START. Gradients pass the rounding unchanged (straight-through estimate). Needs torch,
transformers and gguf. Environment: LEARN=codes,scales (also norms: vectors, convolutions and routers, by
NRATE=.001; OUT then lacks them), RATE=.02 (codes, in steps), SRATE=.002 (d and dmin, relative),
SINT=10 (sc and m: factor of SRATE), EDGE=.49, STEPS=300, BATCH=4 windows, WINDOW=512 tokens, RULE=adam, sign or fisher
(codes: the gradient divided by the Fisher information of each weight), FISHER=40 windows for that, THREADS=1, SEED=0,
PROBE=TEXT (held-out text: the state with the lowest divergence is kept, checked every CHECK steps on PROBES=32 windows),
NOCACHE=1 (saves memory: the checkpoint's answers are computed anew)."""
import os
import sys
import time

sys.path.pop(0)  # this folder's modules would shadow others'

import gguf
import numpy as np
import torch
import torch.nn.functional as F
from gguf.quants import dequantize
from transformers import AutoModelForCausalLM, AutoTokenizer

env = os.environ.get
LEARN, RULE = env("LEARN", "codes,scales").split(","), env("RULE", "adam")
RATE, SRATE, STEPS = float(env("RATE", ".02")), float(env("SRATE", ".002")), int(env("STEPS", "300"))
BATCH, WINDOW, CHECK = int(env("BATCH", "4")), int(env("WINDOW", "512")), int(env("CHECK", "50"))
KEEP = float(env("KEEP", ".9"))
SINT = float(env("SINT", "10"))
EDGE = float(env("EDGE", ".49"))


class Blocks:
    """The blocks of one tensor as d, dmin, sc, m, q, and back. Layouts: docs/formats, quantize/enc."""

    def __init__(self, kind, raw):
        self.kind, self.shape = kind, raw.shape
        b = raw.reshape(-1, {"Q2_K": 84, "Q3_K": 110, "Q4_K": 144}[kind]).copy()
        self.n = n = len(b)
        f16 = lambda a: np.ascontiguousarray(a).view(np.float16).astype(np.float32).reshape(n)
        shifts = np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1)
        if kind == "Q2_K":
            self.sub, self.qmin, self.qmax, self.scmin, self.scmax = 16, 0, 3, 0, 15
            self.sc, self.m = b[:, :16] & 15, b[:, :16] >> 4
            self.q = (b[:, 16:80].reshape(n, 2, 1, 32) >> shifts & 3).reshape(n, 256)
            self.d, self.dmin = f16(b[:, 80:82]), f16(b[:, 82:84])
        elif kind == "Q3_K":
            self.sub, self.qmin, self.qmax, self.scmin, self.scmax = 16, -4, 3, -32, 31
            low = (b[:, 32:96].reshape(n, 2, 1, 32) >> shifts & 3).astype(np.int8)
            high = (b[:, :32].reshape(n, 1, 32) >> np.arange(8, dtype=np.uint8).reshape(1, 8, 1) & 1).reshape(n, 2, 4, 32)
            self.q = (low + high.astype(np.int8) * 4 - 4).reshape(n, 256)
            s = b[:, 96:108]
            lo = np.concatenate([s[:, :8] & 15, s[:, :8] >> 4], 1)
            hi = (s[:, 8:12].reshape(n, 1, 4) >> shifts.reshape(1, 4, 1) & 3).reshape(n, 16)
            self.sc, self.m = (lo | hi << 4).astype(np.int8) - 32, np.zeros((n, 16), np.uint8)
            self.d, self.dmin = f16(b[:, 108:110]), np.zeros(n, np.float32)
        else:
            self.sub, self.qmin, self.qmax, self.scmin, self.scmax = 32, 0, 15, 0, 63
            self.d, self.dmin = f16(b[:, 0:2]), f16(b[:, 2:4])
            s = b[:, 4:16]
            self.sc = np.concatenate([s[:, :4] & 63, (s[:, 8:12] & 15) | (s[:, :4] >> 6) << 4], 1)
            self.m = np.concatenate([s[:, 4:8] & 63, s[:, 8:12] >> 4 | (s[:, 4:8] >> 6) << 4], 1)
            qs = b[:, 16:144].reshape(n, 4, 1, 32)
            self.q = (qs >> np.array([0, 4], np.uint8).reshape(1, 1, 2, 1) & 15).reshape(n, 256)

    def pack(self, q, sc, m, d, dmin):
        n, u8 = self.n, np.uint8
        f16 = lambda a: np.ascontiguousarray(a.astype(np.float16)).view(u8).reshape(n, 2)
        if self.kind == "Q2_K":
            q = q.astype(u8).reshape(n, 2, 4, 32)
            qs = q[:, :, 0] | q[:, :, 1] << 2 | q[:, :, 2] << 4 | q[:, :, 3] << 6
            b = [sc.astype(u8) | m.astype(u8) << 4, qs.reshape(n, 64), f16(d), f16(dmin)]
        elif self.kind == "Q3_K":
            u = (q + 4).astype(u8).reshape(n, 2, 4, 32)
            lo, hi = u & 3, (u >> 2).reshape(n, 8, 32)
            qs = lo[:, :, 0] | lo[:, :, 1] << 2 | lo[:, :, 2] << 4 | lo[:, :, 3] << 6
            mask = np.bitwise_or.reduce(hi << np.arange(8, dtype=u8).reshape(1, 8, 1), 1)
            s = (sc + 32).astype(u8)
            h = (s >> 4).reshape(n, 4, 4)
            b = [mask, qs.reshape(n, 64), (s[:, :8] & 15) | (s[:, 8:] & 15) << 4,
                 h[:, 0] | h[:, 1] << 2 | h[:, 2] << 4 | h[:, 3] << 6, f16(d)]
        else:
            q, sc, m = q.astype(u8).reshape(n, 4, 2, 32), sc.astype(u8), m.astype(u8)
            b = [f16(d), f16(dmin), sc[:, :4] | (sc[:, 4:] >> 4) << 6, m[:, :4] | (m[:, 4:] >> 4) << 6,
                 (sc[:, 4:] & 15) | (m[:, 4:] & 15) << 4, (q[:, :, 0] | q[:, :, 1] << 4).reshape(n, 128)]
        return np.concatenate(b, 1).reshape(self.shape)


class Learned:
    """The latents of one tensor, and Adam's or signed steps on them."""

    def __init__(self, kind, raw, base):
        self.b = b = Blocks(kind, raw)
        t = lambda a: torch.from_numpy(np.ascontiguousarray(a)).float()
        self.q, self.sc, self.m = t(b.q), t(b.sc), t(b.m)
        self.d, self.dmin = t(b.d).unsqueeze(1), t(b.dmin).unsqueeze(1)
        self.shape = base.shape
        assert torch.equal(torch.from_numpy(dequantize(raw, gguf.GGMLQuantizationType[kind]).reshape(base.shape).copy()), self.weight()), kind
        assert np.array_equal(b.pack(b.q, b.sc, b.m, b.d, b.dmin), raw), kind
        s, o = self.units()
        z = (torch.from_numpy(base.copy()).reshape(-1, 256) + o) / torch.where(s == 0, 1.0, s)
        self.z = torch.minimum(torch.maximum(z, self.q - EDGE), self.q + EDGE)
        self.lsc, self.lm, self.ld, self.ldm = self.sc.clone(), self.m.clone(), torch.zeros_like(self.d), torch.zeros_like(self.dmin)
        self.d0, self.dm0 = self.d.clone(), self.dmin.clone()
        self.state = {}
        self.start = self.codes()

    def units(self):
        k = self.b.sub
        return (self.d * self.sc).repeat_interleave(k, 1), (self.dmin * self.m).repeat_interleave(k, 1)

    def weight(self):
        s, o = self.units()
        return (s * self.q - o).reshape(self.shape)

    def codes(self):
        return [a.clone() for a in (self.q, self.sc, self.m, self.d, self.dmin)]

    def move(self, name, x, g, rate, t, lo=None, hi=None):
        if RULE == "sign":
            x.sub_(rate * g.sign())
        else:
            if name not in self.state:
                self.state[name] = [torch.zeros_like(x), torch.zeros_like(x)]
            m, v = self.state[name]
            m.mul_(.9).add_(g, alpha=.1)
            v.mul_(.99).addcmul_(g, g, value=.01)
            x.sub_(rate * (m / (1 - .9**t)) / ((v / (1 - .99**t)).sqrt() + 1e-12))
        if lo is not None:
            x.clamp_(lo, hi)

    def step(self, grad, rate, srate, t):
        b, k = self.b, self.b.sub
        g = grad.reshape(-1, 256)
        s, _ = self.units()
        gq = (g * self.q).reshape(b.n, -1, k).sum(2)
        gm = g.reshape(b.n, -1, k).sum(2)
        if "codes" in LEARN and RULE == "fisher":
            # steps divided by the curvature: of an update (g / h) in weights, g / (h s) in codes
            h = self.fisher.reshape(-1, 256)
            m = self.state.setdefault("z", torch.zeros_like(g))
            m.mul_(KEEP).add_(g, alpha=1 - KEEP)
            by = m / (1 - KEEP**t) / (h + h.mean() * .1) / torch.where(s == 0, 1e30, s)
            self.z.sub_(by.mul_(rate).clamp_(-.1, .1)).clamp_(b.qmin - .49, b.qmax + .49)
            self.q = self.z.round()
        elif "codes" in LEARN:
            self.move("z", self.z, g * s, rate, t, b.qmin - .49, b.qmax + .49)
            self.q = self.z.round()
        if "scales" in LEARN:
            # relative steps of d and dmin; integer steps of sc and m through rounding
            gd, gdm = (gq * self.sc).sum(1, True) * self.d, -(gm * self.m).sum(1, True) * self.dmin
            self.move("sc", self.lsc, gq * self.d, srate * SINT, t, b.scmin, b.scmax)
            self.move("ld", self.ld, gd, srate, t)
            self.sc, self.d = self.lsc.round(), (self.d0 * self.ld.exp()).half().float()
            if b.kind != "Q3_K":
                self.move("m", self.lm, -gm * self.dmin, srate * SINT, t, 0, b.scmax)
                self.move("ldm", self.ldm, gdm, srate, t)
                self.m, self.dmin = self.lm.round(), (self.dm0 * self.ldm.exp()).half().float()


def places(g, h):
    """How rows or columns of the GGUF's matrix g become the checkpoint's h: (axis, index)."""
    g, h = g.reshape(-1, g.shape[-1]), h.reshape(-1, h.shape[-1])
    if np.array_equal(g, h):
        return None
    for axis in 0, 1:
        a, b = (g, h) if axis == 0 else (g.T, h.T)
        where = {r.tobytes(): i for i, r in enumerate(np.ascontiguousarray(a))}
        index = [where.get(r.tobytes()) for r in np.ascontiguousarray(b)]
        if None not in index:
            return axis, torch.tensor(index)
    raise SystemExit("no mapping")


NAMES = {"attn_qkv": "linear_attn.in_proj_qkv", "attn_gate": "linear_attn.in_proj_z", "ssm_out": "linear_attn.out_proj",
         "ssm_alpha": "linear_attn.in_proj_a", "ssm_beta": "linear_attn.in_proj_b",
         "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate_shexp": "mlp.shared_expert.gate_proj", "ffn_up_shexp": "mlp.shared_expert.up_proj",
         "ffn_down_shexp": "mlp.shared_expert.down_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def target(name, params):
    """The checkpoint's parameter of a GGUF tensor, and the rows of it (experts' gate and up share one)."""
    if name == "token_embd.weight":
        return "model.embed_tokens.weight", None
    if name == "output.weight":
        return "lm_head.weight", None
    _, i, kind, _ = name.split(".")
    layer = f"model.layers.{i}."
    if kind == "ffn_down_exps":
        return layer + "mlp.experts.down_proj", None
    if kind in ("ffn_gate_exps", "ffn_up_exps"):
        n = params[layer + "mlp.experts.gate_up_proj"].shape[1] // 2
        return layer + "mlp.experts.gate_up_proj", slice(0, n) if kind == "ffn_gate_exps" else slice(n, 2 * n)
    return layer + NAMES[kind] + ".weight", None


def windows(tok, path, most=10**9):
    ids = tok(open(path).read())["input_ids"]
    n = min(len(ids) // WINDOW, most)
    return list(torch.tensor(ids[: n * WINDOW]).reshape(n, WINDOW))


def divergence(model, base, batch):
    """Mean KL divergence over the tokens of a batch."""
    x = torch.stack([w for _, w in batch])
    q = F.log_softmax(model(input_ids=x).logits.float(), -1)
    p = torch.stack([base(i, w) for i, w in batch]).float()
    return (p.exp() * (p - q)).sum(-1).mean((1))


def main():
    folder, base_path, start_path, out_path, *texts = sys.argv[1:]
    torch.set_num_threads(int(env("THREADS", "1")))
    torch.manual_seed(int(env("SEED", "0")))
    tok = AutoTokenizer.from_pretrained(folder)
    load = lambda: AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa").eval()
    model, ref = load(), load()
    for p in list(model.parameters()) + list(ref.parameters()):
        p.requires_grad_(False)
    cache = {}

    def base(i, w):
        if i not in cache:
            cache[i] = F.log_softmax(ref(input_ids=w[None]).logits.float(), -1)[0].to(torch.float16 if env("CACHE16") else torch.float32)
            if env("NOCACHE"):
                return cache.pop(i)
        return cache[i]

    params = dict(model.named_parameters())
    base_t = {t.name: t for t in gguf.GGUFReader(base_path).tensors}
    start = gguf.GGUFReader(start_path)
    learned, put = {}, {}
    for t in start.tensors:
        kind = t.tensor_type.name
        if kind in ("F32", "F16", "BF16"):
            continue
        f = dequantize(base_t[t.name].data, base_t[t.name].tensor_type)
        name, part = target(t.name, params)
        view = params[name].data if part is None else params[name].data[:, part]
        where = places(f, view.numpy())
        inverse = None if where is None else (where[0], torch.argsort(where[1]))
        put[t.name] = name, part, where, inverse
        if kind in ("Q2_K", "Q3_K", "Q4_K") and t.name not in ("token_embd.weight",):
            learned[t.name] = Learned(kind, t.data, f)
        w = learned[t.name].weight() if t.name in learned else torch.from_numpy(dequantize(t.data, t.tensor_type).reshape(f.shape).copy())
        if where is not None:
            w = w.index_select(where[0], where[1])
        view.copy_(w.reshape(view.shape))
        if t.name in learned:
            params[name].requires_grad_(True)
    total = sum(x.q.numel() for x in learned.values())
    kinds = {}
    for x in learned.values():
        kinds[x.b.kind] = kinds.get(x.b.kind, 0) + x.q.numel()
    print(f"learned weights: {total} {kinds}", flush=True)

    train = [w for p in texts for w in windows(tok, p)]
    probe = [(-1 - i, w) for i, w in enumerate(windows(tok, env("PROBE"), int(env("PROBES", "32"))))] if env("PROBE") else []
    print(f"{len(train)} windows of {WINDOW}, {len(probe)} held out", flush=True)

    def check():
        with torch.no_grad():
            return torch.cat([divergence(model, base, [b]) for b in probe])

    if RULE == "fisher":
        # Fisher information of single weights: squares of a window's gradients, answers drawn from the checkpoint
        for p in {put[n][0] for n in learned}:
            dict(ref.named_parameters())[p].requires_grad_(True)
        of = dict(ref.named_parameters())
        for x in learned.values():
            x.fisher = torch.zeros(x.shape)
        some = train[:: max(1, len(train) // int(env("FISHER", "40")))]
        for w in some:
            logits = ref(input_ids=w[None]).logits[0]
            ids = torch.distributions.Categorical(logits=logits.detach()).sample()
            F.cross_entropy(logits, ids, reduction="sum").backward()
            for name, x in learned.items():
                p, part, where, inverse = put[name]
                g = of[p].grad if part is None else of[p].grad[:, part]
                if inverse is not None:
                    g = g.reshape(-1, g.shape[-1]).index_select(*inverse)
                x.fisher += g.reshape(x.shape) ** 2 / (len(some) * WINDOW)
            for p in of.values():
                p.grad = None
        for p in of.values():
            p.requires_grad_(False)
        with torch.no_grad():
            e = {n: torch.from_numpy(dequantize(base_t[n].data, base_t[n].tensor_type).reshape(x.shape).copy()) - x.weight() for n, x in learned.items()}
            print(f"divergence by the Fisher information alone: {sum((x.fisher * e[n]**2).sum().item() for n, x in learned.items()) / 2:.5f}", flush=True)

    vectors = [p for n, p in params.items() if "norms" in LEARN and (p.dim() == 1 or any(k in n for k in ("conv1d", "mlp.gate.", "shared_expert_gate")))]
    for p in vectors:
        p.requires_grad_(True)
    adam = torch.optim.Adam(vectors, betas=(.9, .99)) if vectors else None

    order = []
    first = check() if probe else None
    best, kept = (first.mean().item(), None) if probe else (1e9, None)
    if probe:
        print(f"start: {best:.5f}", flush=True)
    began, cpu, run = time.time(), time.process_time(), 0.
    for t in range(1, STEPS + 1):
        if len(order) < BATCH:
            order = torch.randperm(len(train)).tolist()
        batch = [(i, train[i]) for i in (order.pop() for _ in range(BATCH))]
        loss = divergence(model, base, batch).mean()
        loss.backward()
        run = loss.item() if t == 1 else .95 * run + .05 * loss.item()
        fall = min(1, t / 20) * max(0, 1 - (t - 1) / STEPS)
        if adam:
            adam.param_groups[0]["lr"] = float(env("NRATE", ".001")) * fall
            adam.step()
        with torch.no_grad():
            for name, x in learned.items() if LEARN != ["norms"] else ():
                p, part, where, inverse = put[name]
                g = params[p].grad if part is None else params[p].grad[:, part]
                if inverse is not None:
                    g = g.reshape(-1, g.shape[-1]).index_select(*inverse)
                x.step(g, RATE * fall, SRATE * fall, t)
                w = x.weight()
                if where is not None:
                    w = w.index_select(*where)
                view = params[p].data if part is None else params[p].data[:, part]
                view.copy_(w.reshape(view.shape))
            for p in params.values():
                p.grad = None
        if t % CHECK == 0 or t == STEPS or t == 1:
            moved = sum((x.q != x.start[0]).sum().item() for x in learned.values()) / total
            scales = sum((x.sc != x.start[1]).sum().item() for x in learned.values()) / sum(x.sc.numel() for x in learned.values())
            line = f"step {t}: train {run:.5f}, codes moved {moved:.3%}, scales {scales:.3%}, {time.time() - began:.0f} s"
            if probe and t > 1:
                now = check()
                d = now - first
                line += f", held out {now.mean():.5f} ({now.mean() / first.mean():.3f}, difference {d.mean():.5f} +- {1.96 * d.std() / len(d)**.5:.5f})"
                if now.mean() < best:
                    best, kept = now.mean().item(), {n: x.codes() for n, x in learned.items()}
            print(line, flush=True)
    print(f"{total * STEPS / (time.process_time() - cpu):.0f} weight-steps/s", flush=True)
    data = bytearray(open(start_path, "rb").read())
    for t in start.tensors:
        if t.name in learned:
            x = learned[t.name]
            c = (kept or {}).get(t.name) or (x.codes() if not probe else x.start)
            raw = x.b.pack(*[a.numpy().reshape(x.b.n, -1) if j < 3 else a.numpy().reshape(-1) for j, a in enumerate(c)]).tobytes()
            assert len(raw) == t.n_bytes
            data[t.data_offset : t.data_offset + t.n_bytes] = raw
    open(out_path, "wb").write(data)


if __name__ == "__main__":
    main()
