#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Acceptance rate and speed of drafts on a real but small model: trains an MTP block for the bundled trained model.

    python3 bench/mtp.py build/hone SCRATCH OUT.json [MINUTES]          (needs torch, transformers, safetensors)

The trunk is unchanged. The block starts as a copy of the trunk's last layer that sees only the hidden row, and learns the
trunk's next-token distribution (KL divergence) on self_calib.txt for MINUTES (6) of wall time. Then `hone eval mtp` on
self_eval.txt, which shares nothing with that text, for the unquantized file and for Q4_K_M with and without importance of the
block, and `hone run` with and without --draft: same text, tokens per second. Finally one comparison of files in which only the block is
quantized, and of an IQ2_XS file as hone makes it with one whose block is IQ2_XS, too."""
import copy
import json
import os
import shutil
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file

TINY = os.path.join(os.path.dirname(__file__), "../tests/golden/tiny-qwen35moe")
BLOCK_TYPES = ["Q8_0", "Q6_K", "Q5_K", "Q4_K", "IQ4_XS", "IQ3_S", "Q2_K", "IQ2_XS"]
PROMPTS = ["The value of", "def main(", "And the LORD said unto"]
WINDOW, BATCH = 256, 4


def rms(x, w, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * (1 + w)


class Block(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        text, d = model.model, model.config.hidden_size
        self.eps = model.config.rms_norm_eps
        self.fc = torch.nn.Parameter(torch.cat([torch.zeros(d, d), torch.eye(d)], 1))
        self.pre_fc_norm_embedding, self.pre_fc_norm_hidden = (torch.nn.Parameter(torch.zeros(d)) for _ in range(2))
        self.norm = torch.nn.Parameter(text.norm.weight.detach().clone())
        self.layer = copy.deepcopy(text.layers[-1])
        for p in self.layer.parameters():
            p.requires_grad_(True)

    def forward(self, e, y, rope, mask, pos):
        x = torch.cat([rms(e, self.pre_fc_norm_embedding, self.eps), rms(y, self.pre_fc_norm_hidden, self.eps)], -1) @ self.fc.T
        out = self.layer(x, position_embeddings=rope, attention_mask=mask, position_ids=pos)
        return rms(out[0] if isinstance(out, tuple) else out, self.norm, self.eps)

    def tensors(self):
        out = {"mtp.fc.weight": self.fc, "mtp.norm.weight": self.norm, "mtp.pre_fc_norm_embedding.weight": self.pre_fc_norm_embedding,
               "mtp.pre_fc_norm_hidden.weight": self.pre_fc_norm_hidden}
        out |= {"mtp.layers.0." + k: v for k, v in self.layer.state_dict().items()}
        return {k: v.detach().to(torch.bfloat16).contiguous() for k, v in out.items()}


def train(minutes):
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32).eval().requires_grad_(False)
    tok = transformers.AutoTokenizer.from_pretrained(TINY)
    ids = torch.tensor(tok(open(os.path.join(TINY, "self_calib.txt")).read())["input_ids"])
    ids = ids[:len(ids) // WINDOW * WINDOW].reshape(-1, WINDOW)
    block = Block(model)
    opt = torch.optim.AdamW(block.parameters(), lr=1e-3, betas=(.9, .95), weight_decay=.01)
    n = WINDOW - 2
    pos = torch.arange(n)[None]
    rope = model.model.rotary_emb(torch.zeros(1, n, 1), pos[None].expand(3, -1, -1))
    mask = torch.full((n, n), float("-inf")).triu(1)[None, None]
    start, steps = time.time(), 0
    while (left := 1 - (time.time() - start) / (60 * minutes)) > 0:
        for g in opt.param_groups:
            g["lr"] = 1e-3 * min(1, (steps + 1) / 20) * max(left, .05)
        x = ids[torch.randint(len(ids), (BATCH,))]
        with torch.no_grad():
            y = model.model(input_ids=x).last_hidden_state
            want = model.lm_head(y[:, 1:-1]).log_softmax(-1)
        have = model.lm_head(block(model.model.embed_tokens(x[:, 1:-1]), y[:, :-2], rope, mask, pos)).log_softmax(-1)
        loss = F.kl_div(have, want, log_target=True, reduction="sum") / (BATCH * n)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(block.parameters(), 1)
        opt.step()
        steps += 1
        if steps % 20 == 1:
            print(f"step {steps}: KL {loss.item():.3f}, same token {(have.argmax(-1) == want.argmax(-1)).float().mean():.3f}", flush=True)
    return block.tensors(), steps


def folder(path, tensors):
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(TINY, path)
    index = json.load(open(os.path.join(path, "model.safetensors.index.json")))
    save_file(tensors, os.path.join(path, "mtp.safetensors"), metadata={"format": "pt"})
    index["weight_map"] |= {k: "mtp.safetensors" for k in tensors}
    json.dump(index, open(os.path.join(path, "model.safetensors.index.json"), "w"))
    config = json.load(open(os.path.join(path, "config.json")))
    config["mtp_num_hidden_layers"] = 1
    json.dump(config, open(os.path.join(path, "config.json"), "w"))


def main():
    hone, scratch, out = sys.argv[1:4]
    minutes = float(sys.argv[4]) if len(sys.argv) > 4 else 6

    def run(*args):
        return json.loads(subprocess.run([hone, *args, "-q", "--json"], check=True, stdout=subprocess.PIPE).stdout)

    tensors, steps = train(minutes)
    hf, base, imatrix = (os.path.join(scratch, n) for n in ("hf", "base.gguf", "imatrix.gguf"))
    folder(hf, tensors)
    run("convert", hf, "-o", base, "-f")
    run("imatrix", base, os.path.join(TINY, "self_calib.txt"), "-o", imatrix, "-f")
    files = {"BF16": base}
    for name, more in ("Q4_K_M", []), ("Q4_K_M with importance", ["--imatrix", imatrix]):
        files[name] = os.path.join(scratch, name.replace(" ", "-") + ".gguf")
        run("quantize", base, "-o", files[name], "-f", "--recipe", "Q4_K_M", *more)
    rows = []
    for name, path in files.items():
        e = run("eval", "mtp", path, os.path.join(TINY, "self_eval.txt"), "--chunks", "40")
        row = {"file": name} | {k: e[k] for k in ("acceptance", "acceptance_stderr", "overlap", "trunk_top1", "draft_top1", "n_tokens")}
        runs = []
        for p in PROMPTS:
            plain, draft = (run("run", path, "-p", p, "-n", "200", "--temp", "0", *more) for more in ([], ["--draft", "mtp"]))
            runs.append({"same_text": plain["text"] == draft["text"], "drafted": draft["drafted_tokens"], "accepted": draft["accepted_tokens"],
                         "tok_per_s_plain": plain["tok_per_s"], "tok_per_s_draft": draft["tok_per_s"]})
        rows.append(row | {"runs": runs})
        print(json.dumps(rows[-1]), flush=True)
    plan = os.path.join(scratch, "plan.tsv")
    run("quantize", base, "-o", plan + ".gguf", "--recipe", "Q8_0", "--dry-run", "--plan-out", plan, "-f")
    lines = [line.split() for line in open(plan) if line[0] != "#"]
    for block in BLOCK_TYPES:
        with open(plan, "w") as f:
            f.writelines(f"{name}\t{t if t != 'Q8_0' else block if name.startswith('blk.4.') else 'BF16'}\n" for name, t in lines)
        files[f"block {block}"] = os.path.join(scratch, f"block-{block}.gguf")
        run("quantize", base, "-o", files[f"block {block}"], "-f", "--recipe", plan, "--imatrix", imatrix)
    for name, more in ("IQ2_XS", []), ("IQ2_XS, block too", ["--tensor", "blk[.]4[.]=IQ2_XS"]):
        files[name] = os.path.join(scratch, name.replace(" ", "-") + ".gguf")
        run("quantize", base, "-o", files[name], "-f", "--recipe", "IQ2_XS", "--imatrix", imatrix, *more)
    compared = run("eval", "mtp", *files.values(), os.path.join(TINY, "self_eval.txt"))
    types = [{"name": name} | {k: v for k, v in row.items() if k != "file"} for name, row in zip(files, compared["files"])]
    for row in types:
        print(json.dumps(row), flush=True)
    json.dump({"command": "python3 bench/mtp.py build/hone SCRATCH OUT.json", "training": {"minutes": minutes, "steps": steps}, "rows": rows,
               "block_types": types},
              open(out, "w"), indent=1)
    open(out, "a").write("\n")


main()
