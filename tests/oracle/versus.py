#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/versus.json: what `hone versus` should print for three files made from tests/golden/models/qwen3, by a route that
shares no code with hone. Q8_0 is rounded here from its description (blocks of 32, scale max/127 as f16, codes x/scale), the model runs in transformers in
float64, and the statistics follow docs/design/evaluation.md in NumPy, with the same splitmix64 for the resamples of windows.

The files: `all` has every matrix as Q8_0; `first` and `last` have Q8_0 in block 0 or block 2 only, so both have the same size. The texts are
two domains, calib/text/eval.txt and calib/text/calib.txt, in windows of 64 tokens.

Usage: python3 tests/oracle/versus.py   (from the repository root; needs torch, transformers, numpy, scipy)
"""
import json

import numpy as np
import scipy.stats as stats_of_scipy
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

DIR, CTX, CHUNKS, PROMPT, GREEDY_LEN, GREEDY = "tests/golden/models/qwen3", 64, 16, 64, 48, 8
TEXTS = ["calib/text/eval.txt", "calib/text/calib.txt"]
torch.set_num_threads(1)
Z = 1.959963984540054


def q8_0(w):
    x = w.double().numpy().reshape(-1, 32).astype(np.float32)
    d = (np.abs(x).max(axis=1, keepdims=True) / np.float32(127)).astype(np.float16).astype(np.float32)
    y = np.where(d > 0, x / np.where(d > 0, d, 1), 0)
    q = np.clip(np.rint(y), -127, 127)  # ties to even, as docs/formats/legacy-blocks.md says
    return torch.from_numpy((q * d).reshape(w.shape)).double()


def model(pick):
    config = AutoConfig.from_pretrained(DIR)
    m = AutoModelForCausalLM.from_config(config, dtype=torch.float64, attn_implementation="eager")
    state = {k: v.double() for k, v in load_file(f"{DIR}/model.safetensors").items()}
    state = {k: q8_0(v) if v.dim() == 2 and pick(k) else v for k, v in state.items()}
    missing, unexpected = m.load_state_dict(state, strict=False)
    assert not unexpected and all("lm_head" in k or "inv_freq" in k for k in missing), (missing, unexpected)
    m.tie_weights()
    return m.double().eval()


def splitmix(seed):
    s, mask = seed, (1 << 64) - 1
    while True:
        s = (s + 0x9E3779B97F4A7C15) & mask
        z = ((s ^ (s >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        yield ((z ^ (z >> 31)) >> 11) * 2.0**-53


def resamples(n):
    g = splitmix(1)
    return [[int(next(g) * n) for _ in range(n)] for _ in range(1000)]


def widening(n):
    return stats_of_scipy.t.ppf(0.975, n - 1) / Z * (n / (n - 1))**0.5


def interval(v, mean, n):
    """The percentiles of the resamples of n windows, widened about the mean."""
    return [float(mean + widening(n) * (x - mean)) for x in np.percentile(v, [2.5, 97.5])]


def ratio_interval(v, ratio, n):
    return [float(ratio * (x / ratio)**widening(n)) for x in np.percentile(v, [2.5, 97.5])]


def share(n, of):
    p = n / of
    mid, half, scale = p + Z * Z / (2 * of), Z * (p * (1 - p) / of + Z * Z / (4 * of * of))**0.5, 100 / (1 + Z * Z / of)
    return {"per_100": 100 * p, "lo": (mid - half) * scale if n else 0.0, "hi": (mid + half) * scale if n < of else 100.0, "of": of}


def stats(logp, logq, target):
    """Rows of all windows: logp, logq [windows, rows, vocabulary]."""
    p = logp.exp()
    kld = torch.where(logp > -16, p * (logp - logq), torch.zeros_like(p)).sum(-1).numpy()
    means = kld.mean(axis=1)
    flat = np.sort(kld.ravel())
    boot = [means[r].mean() for r in resamples(len(means))]
    low, high = interval(boot, means.mean(), len(means))
    nll = -logq.gather(-1, target[..., None]).double()
    nll_p = -logp.gather(-1, target[..., None]).double()
    return kld, {"mean_kld": float(kld.mean()), "mean_kld_stderr": float(means.std(ddof=1) / len(means)**0.5),
                 "mean_kld_ci95_low": low, "mean_kld_ci95_high": high,
                 "median_kld": float(np.percentile(flat, 50)), "kld_p999": float(np.percentile(flat, 99.9)), "max_kld": float(flat[-1]),
                 "same_top1": float((logp.argmax(-1) == logq.argmax(-1)).double().mean()), "ppl": float(nll.mean().exp()),
                 "base_ppl": float(nll_p.mean().exp())}


@torch.no_grad()
def rows(m, windows):
    logits = m(windows).logits[:, CTX // 2:CTX - 1]
    return torch.log_softmax(logits.double(), -1)


@torch.no_grad()
def greedy(m, prompt, ends):
    ids, margin, past, feed = list(prompt), 1e9, None, list(prompt)
    while len(ids) < len(prompt) + GREEDY_LEN:
        o = m(torch.tensor([feed]), past_key_values=past, use_cache=True)
        past, two = o.past_key_values, o.logits[0, -1].topk(2)
        margin = min(margin, float(two.values[0] - two.values[1]))
        ids.append(int(two.indices[0]))
        feed = ids[-1:]
        if ids[-1] in ends:
            break
    return ids[len(prompt):], margin


def main():
    tok = PreTrainedTokenizerFast(tokenizer_file=f"{DIR}/tokenizer.json")
    ids = [tok(open(t, encoding="utf-8").read(), add_special_tokens=False)["input_ids"] for t in TEXTS]
    each = CHUNKS // len(TEXTS)
    windows = torch.tensor([i[k * CTX:(k + 1) * CTX] for i in ids for k in range(each)])
    target = windows[:, CTX // 2 + 1:]
    base = model(lambda k: False)
    made = {"all": model(lambda k: True), "first": model(lambda k: "layers.0." in k), "last": model(lambda k: "layers.2." in k)}
    logp = rows(base, windows)
    out, kld = {"ctx": CTX, "chunks": CHUNKS, "files": {}}, {}
    for name, m in made.items():
        kld[name], out["files"][name] = stats(logp, rows(m, windows), target)
        out["files"][name]["by_domain"] = [float(kld[name][d * each:(d + 1) * each].mean()) for d in range(len(TEXTS))]
    out["base_ppl"] = out["files"]["all"]["base_ppl"]
    closer, other = sorted(("first", "last"), key=lambda n: out["files"][n]["mean_kld"])
    a, b = kld[closer].mean(axis=1), kld[other].mean(axis=1)
    picks = resamples(len(a))
    ratio, diff = float(a.sum() / b.sum()), float((a - b).mean())
    out["equal_size"] = {"closer": closer, "other": other, "ratio": ratio,
                         "ratio_ci95": ratio_interval([a[r].sum() / b[r].sum() for r in picks], ratio, len(a)),
                         "diff": diff, "diff_ci95": interval([(a - b)[r].mean() for r in picks], diff, len(a))}
    # the other file's divergence relative to the closer one's, by domain
    picks, parts = resamples(each), {}
    for d, name in enumerate(("eval.txt", "two")):
        x, y = (v[d * each:(d + 1) * each] for v in (a, b))
        ratio = float(y.sum() / x.sum())
        low, high = ratio_interval([y[r].sum() / x[r].sum() for r in picks], ratio, each)
        parts[name] = {"ratio": ratio, "low": low, "high": high}
    out["equal_size_by_domain"] = parts
    ends, least, first = {1010, 1012}, 1e9, {n: [] for n in made}
    for i in range(GREEDY):
        text, k = ids[i % len(TEXTS)], i // len(TEXTS)
        at = k * (len(text) - PROMPT) // (GREEDY // len(TEXTS))
        want, margin = greedy(base, text[at:at + PROMPT], ends)
        least = min(least, margin)
        for name, m in made.items():
            have, margin = greedy(m, text[at:at + PROMPT], ends)
            differs = [j for j, t in enumerate(want) if j >= len(have) or have[j] != t]
            first[name].append(differs[0] + 1 if differs else 0)
            least = min(least, margin)
    out["greedy"] = {n: {**share(sum(x > 0 for x in f), GREEDY), "first": float(np.median([x for x in f if x])) if any(f) else None} for n, f in first.items()}
    print(json.dumps(out, indent=1), "smallest margin of a greedy token:", least)
    with open("tests/golden/versus.json", "w") as f:
        f.write(json.dumps(out, indent=1) + "\n")


main()
