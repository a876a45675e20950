#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Pads a model of Llama's shape so that K-quants fit it: bench/codes_pad.py IN.gguf OUT_FOLDER

SmolLM2 135M has 576 columns, which is no multiple of 256. The padded model has 768 (and 12 heads, 4 of keys): the
channels added are zero everywhere, and norms are scaled, so its answers stay those of IN.gguf."""
import os
import sys

sys.path.pop(0)

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM


def main():
    path, out = sys.argv[1:]
    where = dict(gguf_file=os.path.basename(path))
    tok = AutoTokenizer.from_pretrained(os.path.dirname(path), **where)
    old = AutoModelForCausalLM.from_pretrained(os.path.dirname(path), dtype=torch.float32, **where)
    c = old.config
    up = lambda n: (n + 255) // 256 * 256
    d, heads = up(c.hidden_size), up(c.num_attention_heads * 64) // 64
    kv = heads * c.num_key_value_heads // c.num_attention_heads
    new = LlamaForCausalLM(LlamaConfig(
        vocab_size=c.vocab_size, hidden_size=d, intermediate_size=c.intermediate_size, num_hidden_layers=c.num_hidden_layers,
        num_attention_heads=heads, num_key_value_heads=kv, head_dim=64, max_position_embeddings=c.max_position_embeddings,
        rms_norm_eps=c.rms_norm_eps * c.hidden_size / d, tie_word_embeddings=c.tie_word_embeddings,
        rope_parameters=c.rope_parameters, bos_token_id=c.bos_token_id, eos_token_id=c.eos_token_id, dtype="float32"))
    was = dict(old.named_parameters())
    with torch.no_grad():
        for name, p in new.named_parameters():
            p.zero_()
            w = was[name]
            if "norm" in name:
                w = w * (c.hidden_size / d) ** .5
            p[tuple(slice(0, n) for n in w.shape)] = w
        ids = torch.arange(100, 200)[None]
        a, b = old(input_ids=ids).logits, new(input_ids=ids).logits
        print("largest difference of logits:", (a - b).abs().max().item())
    new.save_pretrained(out)
    tok.save_pretrained(out)


main()
