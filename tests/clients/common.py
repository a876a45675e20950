# SPDX-License-Identifier: MIT
"""Helpers shared by the client library checks: requests, comparisons. The small model calls get_weather for ASK."""
TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "unit": {"type": "string"}},
                   "required": ["city"]}}}]
ASK = [{"role": "user", "content": "What is the weather in Oslo?"}]
CONTEXT = 16384 # tokens; the system prompts of some kits are long
TOO_MANY = CONTEXT + 1


def need(ok, what):
    if not ok:
        raise AssertionError(what)


def same(a, b, what):
    need(a == b, f"{what}: {a!r} and {b!r}")
