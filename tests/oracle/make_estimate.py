#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/oracle/make_estimate.py - the forecast of tests/unit/test_make_estimate.c, derived from docs/design/make.md.

    python3 tests/oracle/make_estimate.py > tests/golden/make_estimate.inc
"""
import math

NS = 1e-9
# candidates: (bits per weight, has a grid, kind)
CODES = {"Q2_K": 2.625, "Q3_K": 3.4375, "IQ4_XS": 4.25, "Q4_K": 4.5, "Q5_K": 5.5, "Q6_K": 6.5625}
GRIDS = {"IQ2_XXS": 2.0625, "IQ2_XS": 2.3125, "IQ2_S": 2.5625, "IQ3_XXS": 3.0625, "IQ3_S": 3.4375}
WIDE = {**CODES, **GRIDS, "Q8_0": 8.5}
NARROW = {"IQ4_NL": 4.5, "Q5_0": 5.5, "Q5_1": 6.0, "Q8_0": 8.5}
# name: columns, rows, matrices, first of its input, block of moments, matrices with their own
ITEMS = [(2048, 1024, 1, True, 2048, 1), (6144, 100, 1, True, 2048, 1), (2048, 512, 256, True, 2048, 1), (256, 64, 8, True, 256, 8),
         (896, 896, 1, True, 896, 1), (896, 128, 1, False, 896, 1)]
AT = {"codes": ((.01, 1e-6), (.16, 2.5e-6)), "grids": ((.02, 4e-6), (.32, 5.5e-6)), "narrow": ((.005, .8e-6), (.08, 2.3e-6))}
SHARE, GRIDS_OF_MIXES, PROBED = .68, .38, .016


def power(small, large, n):
    return large * (n / 2048) ** (math.log(large / small) / math.log(4))


def choose(kind, n):
    return power(AT[kind][0][0], AT[kind][1][0], n)


def weight(kind, n):
    a, b = AT[kind][0][1], AT[kind][1][1]
    return max(a + (b - a) * (n - 512) / 1536, min(a, b) / 2)


def rate(t):
    return (100 if t in GRIDS else 1) * NS


errors = probe_encode = gains = factors = chooses = encode = preset = 0
for n, rows, mats, leads, block, own in ITEMS:
    w, blocks, tries = n * rows * mats, n / block, 2 if mats > 1 else 1
    can = WIDE if n % 256 == 0 else NARROW
    sample = min(rows, max(rows // 50, max(8, -(-64 // mats)))) * mats * n
    errors += 1.3 * sample * sum(rate(t) for t in can)
    near = min((t for t in can if t not in GRIDS), key=lambda t: abs(math.log(4 ** -can[t] / PROBED)))
    probe_encode += w * rate(near)
    kinds = {"codes": len(CODES), "grids": len(GRIDS), "narrow": 1} if can is WIDE else {"narrow": len(NARROW)}
    once = blocks * ((tries if own > 1 else 1) * power(.02, 1.28, block) + own * power(.005, .32, block)) if leads else 0
    factors += once
    gains += once + sum(k * tries * blocks * choose(name, block) for name, k in kinds.items())
    used = ("codes", "grids") if can is WIDE else ("narrow",)
    part = {"codes": 1 - GRIDS_OF_MIXES, "grids": GRIDS_OF_MIXES, "narrow": 1}
    chooses += sum(part[name] * tries * blocks * choose(name, block) for name in used)
    encode += sum(part[name] * w * weight(name, block) for name in used)
    preset += w * rate("Q4_K" if can is WIDE else "Q5_0")
token, prompt = 20 / 512, 20 / 512 * .6
step = max(5e8 * .7 / 40e9 + 3e-4, token / 4)
values = {"imatrix": 21 * 512 * .05, "gram": 21 * 512 * .1, "eval_window": 20, "pass_window": 20, "slope_window": 512 * 5 * .04, "errors": errors,
          "probe_encode": probe_encode, "gains": gains, "factors": factors, "encode_alone": encode + chooses,
          "encode_feedback": SHARE * (encode + chooses), "preset": .8 * preset,
          "encode_sequential": encode + 2 * (chooses + factors) + 20 * 512 * 3 * (.05 + min(.1, .05)),
          "speed": 3 * (512 * prompt + 64 * step) * 1.5, "tools": 2 * 12 * (700 * prompt + 60 * step), "report": 6e9 / 3 / 3e8, "convert": 30, "hash": 6}
print("/* made by tests/oracle/make_estimate.py */")
for name, v in values.items():
    print(f"    CHECK_CLOSE(in.{name}, {v:.12g}, {abs(v) * 1e-9:.3g});")
