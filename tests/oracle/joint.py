#!/usr/bin/env python3
"""tests/oracle/joint.py - golden of test_joint: most probable losses given slopes, joint and single probes, with numpy.

    python3 tests/oracle/joint.py > tests/golden/joint.json

mix/joint.c updates the prior by the measurements; here the posterior is minimized in its information form, with the inverse of
the prior's covariance, until the gradient vanishes."""
import json

import numpy as np

ROLES, BLOCKS = ["attn_q", "attn_k", "ffn_gate", "ffn_down"], 5
ALL, ROLE, BLOCK, GROUP, JOINT_ROLES, JOINT_BLOCKS, PROBE = .3, .5, .3, .35, .1, .2, .05


def groups(rng):
    out = [dict(role="token_embd", block=-1, bytes=5000), dict(role="output", block=-1, bytes=7000)]
    for b in range(BLOCKS):
        for r in ROLES:
            if r != "attn_k" or b % 2:
                out.append(dict(role=r, block=b, bytes=int(rng.integers(1, 40)) * 1000))
    for g in out:
        g["error"] = float(rng.uniform(.01, .03))
        g["true"] = float(np.exp(rng.normal(-6, 1)))
        g["slope"] = float(g["true"] / g["error"] * np.exp(rng.normal(-.3, .5)))
    return out


def inside(j, g):
    return j.get("role") in (None, g["role"]) and j.get("block") in (None, g["block"])


def measure(gs, rng, singles):
    joint = [dict(role=r) for r in sorted({g["role"] for g in gs})] + [dict(block=b) for b in range(BLOCKS)] + [{}]
    for j in joint:
        j["kld"] = float(.9 * sum(g["true"] for g in gs if inside(j, g)) * np.exp(rng.normal(0, .1)))
        j["kld_stderr"] = .1 * j["kld"]
    for i in singles:
        gs[i]["kld"] = float(gs[i]["true"] * np.exp(rng.normal(0, .1)))
        gs[i]["kld_stderr"] = .08 * gs[i]["kld"]
    return joint


def fit(gs, joint):
    n = len(gs)
    loss = np.log([g["slope"] * g["error"] for g in gs])
    prior = np.array([[ALL**2 + ROLE**2 * (a["role"] == b["role"]) + BLOCK**2 * (a["block"] == b["block"] >= 0) + GROUP**2 * (a is b)
                       for b in gs] for a in gs])
    seen = [(np.array([inside(j, g) for g in gs], float), j, 1 if "role" in j else 2) for j in joint if j.keys() & {"role", "block"}]
    seen += [(np.eye(n)[i], g, 0) for i, g in enumerate(gs) if "kld" in g]
    y = np.log([o["kld"] for _, o, _ in seen])
    shared = [0, JOINT_ROLES**2, JOINT_BLOCKS**2]
    alone = np.array([(o["kld_stderr"] / o["kld"])**2 + PROBE**2 for _, o, _ in seen])
    noise = np.array([[shared[a[2]] * (a[2] == b[2]) for b in seen] for a in seen]) + np.diag(alone)
    before, weight = np.linalg.inv(prior), np.linalg.inv(noise)
    d = np.zeros(n)
    for _ in range(100):
        parts = np.array([m * np.exp(loss + d) for m, _, _ in seen])
        h = parts / parts.sum(1, keepdims=True)
        gradient = before @ d - h.T @ weight @ (y - np.log(parts.sum(1)))
        information = before + h.T @ weight @ h
        d -= np.linalg.solve(information, gradient)
    assert abs(gradient).max() < 1e-9
    var = np.linalg.inv(information)
    found = np.exp(loss + d)
    for j in joint:
        if not j.keys() & {"role", "block"}:
            scale = j["kld"] / found.sum()
    for g, x, v in zip(gs, found, np.diag(var)):
        g["fit"], g["fit_sd"] = float(scale * x / g["error"]), float(np.sqrt(v))
    return found, var, alone.mean()


def choose(gs, found, var, probe, most):
    w = np.array([g["bytes"] for g in gs]) * found
    w /= w.sum()

    def spread(v):
        return w @ np.diag(v) - w @ v @ w

    risk, picks = spread(var) / 2, []
    for _ in range(most):
        after = [var - np.outer(var[i], var[i]) / (var[i, i] + probe) for i in range(len(gs))]
        left = [np.inf if i in picks or "kld" in g else spread(after[i]) for i, g in enumerate(gs)]
        picks.append(int(np.argmin(left)))
        var = after[picks[-1]]
    return float(risk), float(spread(var) / 2), picks


def main():
    rng = np.random.default_rng(51)
    cases = []
    for singles in [], [0, 4, 9]:
        gs = groups(rng)
        joint = measure(gs, rng, singles)
        risk, after, picks = choose(gs, *fit(gs, joint), 6)
        for g in gs:
            del g["true"]
        cases.append(dict(n_blocks=BLOCKS, groups=gs, joint=joint, risk=risk, after=after, picks=picks))
    print(json.dumps(cases, indent=1))


if __name__ == "__main__":
    main()
