#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/named/NAME: micro checkpoints of the architectures that hone only converts and quantizes, and what their
conversion must contain.

A folder has config.json and tensors.txt as in tests/golden/archs (archs.py), with the names, shapes and storage of the published
checkpoints, and expected.txt: a line "tensor NAME TYPE SHAPE SHA256" per tensor of the GGUF, shape as in GGUF (innermost first), and
a line "key NAME TYPE VALUE" per key of the architecture. The values are computed here with NumPy from the published layouts: names
and keys of llama.cpp (conversion/kimi_k3.py, qwen4exp.py, glm.py, deepseek.py; of drafts: llama.py, qwen.py, gemma.py), storage from the checkpoints' own code.

Usage: python3 tests/oracle/named.py   (from the repository root; numpy)
"""
import hashlib
import json
import os

import numpy as np

from archs import bits24, bf16, uniform

DIR = "tests/golden/named"
VOCAB = 1024
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


class Folder:
    """The tensors of a checkpoint, and the expected contents of the GGUF."""

    def __init__(self, name, config):
        self.name, self.config, self.lines, self.out = name, config, [], []

    def raw(self, name, shape, dtype, mean, spread):
        n = int(np.prod(shape))
        self.lines.append(f"{name} {dtype} {'x'.join(map(str, shape)) or '-'} {mean} {spread}\n")
        if dtype == "BF16":
            return bf16((mean + spread * uniform(name, n)).astype(np.float32)).reshape(shape)
        if spread < 0:  # integers that rise in equal steps
            return (int(mean) - spread * np.arange(n, dtype=np.int64)).reshape(shape)
        return (int(mean) + (bits24(name, n) % np.uint64(spread)).astype(np.int64)).reshape(shape)

    def mat(self, name, *shape):
        return self.raw(name, shape, "BF16", 0.0, 0.25)

    def norm(self, name, *shape):
        return self.raw(name, shape, "BF16", 0.5, 0.25)

    def tensor(self, name, a, kind="F32", data=None):
        a = np.asarray(a)
        data = data if data is not None else np.ascontiguousarray(a.astype({"F32": "<f4", "I32": "<i4", "I64": "<i8"}[kind])).tobytes()
        dims = "x".join(map(str, reversed(a.shape)))
        self.out.append(f"tensor {name} {kind} {dims} {hashlib.sha256(data).hexdigest()}\n")

    def key(self, name, kind, value):
        text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        self.out.append(f"key {self.name}.{name} {kind} {text}\n")

    def keys(self, kind, **kw):
        for k, v in kw.items():
            self.key(k.replace("__", "."), kind, v)

    def write(self, folder=None):
        at = f"{DIR}/{folder or self.name}"
        os.makedirs(at, exist_ok=True)
        with open(at + "/config.json", "w") as f:
            json.dump(self.config, f, indent=1)
            f.write("\n")
        for file, lines in (("tensors.txt", sorted(self.lines)), ("expected.txt", sorted(self.out))):
            with open(f"{at}/{file}", "w") as f:
                f.writelines(lines)


def fp4(codes):
    """Values of packed codes, two per byte, low half first."""
    c = codes.astype(np.uint8)
    return np.stack([c & 15, c >> 4], -1).reshape(codes.shape[:-1] + (-1,))


def mxfp4(packed, scales):
    """GGUF's blocks of 32 values: the exponent, then codes i and i + 16 in byte i."""
    v = fp4(packed).reshape(scales.shape + (32,))
    qs = v[..., :16] | v[..., 16:] << 4
    return np.concatenate([scales.astype(np.uint8)[..., None], qs], -1).tobytes()


def e4m3(codes):
    c = codes.astype(np.int64)
    sign, e, m = 1 - 2 * (c >> 7), c >> 3 & 15, c & 7
    return (sign * np.where(e == 0, m / 8 * 2.0**-6, (1 + m / 8) * np.exp2(e - 7.0))).astype(np.float32)


def kv_split(w, heads, nope):
    """kv_b_proj: per head its key rows, transposed, and its value rows."""
    w = w.reshape(heads, -1, w.shape[-1])
    return w[:, :nope].transpose(0, 2, 1), w[:, nope:]


def neg_exp(w):
    return -np.exp(w.astype(np.float64))


BASE = dict(vocab_size=VOCAB, hidden_size=64, num_hidden_layers=4, num_attention_heads=4, max_position_embeddings=512,
            tie_word_embeddings=False, bos_token_id=1010, eos_token_id=1012)  # fmt: skip


def text(f, arch, d):
    """Embeddings, final norm and head."""
    f.tensor("token_embd.weight", f.mat(arch + "model.embed_tokens.weight", VOCAB, d))
    f.tensor("output_norm.weight", f.norm(arch + "model.norm.weight", d))
    f.tensor("output.weight", f.mat(arch + "lm_head.weight", VOCAB, d))


def kda(f, at, to, d, heads, dim, full_gate):
    inner = heads * dim
    for x in "qkv":
        f.tensor(to + f"attn_{x}.weight", f.mat(at + f"{x}_proj.weight", inner, d))
        f.tensor(to + f"ssm_conv1d_{x}.weight", f.mat(at + f"{x}_conv1d.weight", inner, 1, 4).reshape(1, inner, 1, 4))
    f.tensor(to + "ssm_f_a.weight", f.mat(at + "f_a_proj.weight", dim, d))
    f.tensor(to + "ssm_f_b.weight", f.mat(at + "f_b_proj.weight", inner, dim))
    f.tensor(to + "ssm_beta.weight", f.mat(at + "b_proj.weight", heads, d))
    f.tensor(to + "ssm_dt.bias", f.mat(at + "dt_bias", inner))
    f.tensor(to + "ssm_norm.weight", f.norm(at + "o_norm.weight", dim))
    f.tensor(to + "attn_output.weight", f.mat(at + "o_proj.weight", d, inner))
    if full_gate:
        f.tensor(to + "ssm_g.weight", f.mat(at + "g_proj.weight", inner, d))
        f.tensor(to + "ssm_a", neg_exp(f.mat(at + "A_log", 1, 1, heads, 1)).reshape(heads))
    else:
        f.tensor(to + "ssm_g_a.weight", f.mat(at + "g_a_proj.weight", dim, d))
        f.tensor(to + "ssm_g_b.weight", f.mat(at + "g_b_proj.weight", inner, dim))
        f.tensor(to + "ssm_a", neg_exp(f.mat(at + "A_log", heads)))


def mla(f, at, to, d, heads, q_rank, rank, nope, rope, value):
    f.tensor(to + "attn_q_a.weight", f.mat(at + "q_a_proj.weight", q_rank, d))
    f.tensor(to + "attn_q_a_norm.weight", f.norm(at + "q_a_layernorm.weight", q_rank))
    f.tensor(to + "attn_q_b.weight", f.mat(at + "q_b_proj.weight", heads * (nope + rope), q_rank))
    f.tensor(to + "attn_kv_a_mqa.weight", f.mat(at + "kv_a_proj_with_mqa.weight", rank + rope, d))
    f.tensor(to + "attn_kv_a_norm.weight", f.norm(at + "kv_a_layernorm.weight", rank))
    k, v = kv_split(f.mat(at + "kv_b_proj.weight", heads * (nope + value), rank), heads, nope)
    f.tensor(to + "attn_k_b.weight", k)
    f.tensor(to + "attn_v_b.weight", v)
    f.tensor(to + "attn_output.weight", f.mat(at + "o_proj.weight", d, heads * value))


def gated(f, at, to, tail, d, ff, names=("gate_proj", "up_proj", "down_proj")):
    for gguf, name, shape in zip(("ffn_gate", "ffn_up", "ffn_down"), names, ((ff, d), (ff, d), (d, ff))):
        f.tensor(f"{to}{gguf}{tail}.weight", f.mat(f"{at}{name}.weight", *shape))


def kimi_k3():
    lin = dict(head_dim=16, num_heads=4, short_conv_kernel_size=4, gate_lower_bound=-5.0, use_full_rank_gate=True, kda_layers=[1, 2, 4],
               full_attn_layers=[3])  # fmt: skip
    quant = dict(quant_method="compressed-tensors", format="mxfp4-pack-quantized",
                 config_groups=dict(group_0=dict(weights=dict(num_bits=4, type="float", group_size=32))))  # fmt: skip
    t = dict(BASE, model_type="kimi_linear", intermediate_size=96, num_experts=3, num_experts_per_token=2, num_shared_experts=2,
             moe_intermediate_size=32, routed_expert_hidden_size=64, latent_moe_use_norm=True, first_k_dense_replace=1, q_lora_rank=24,
             kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, mla_use_nope=True, mla_use_output_gate=True,
             moe_renormalize=True, moe_router_activation_func="sigmoid", routed_scaling_factor=2.5, rms_norm_eps=1e-5, rope_theta=10000.0,
             hidden_act="situ", activation_situ_beta=4.0, activation_situ_linear_beta=25.0, attn_res_block_size=2, linear_attn_config=lin,
             quantization_config=quant)  # fmt: skip
    f = Folder("kimi-k3", dict(architectures=["KimiK3ForConditionalGeneration"], model_type="kimi_k3", text_config=t))
    root, d = "language_model.", 64
    text(f, root, d)
    res = lambda at: f.norm(at + "_res_norm.weight", d) * f.mat(at + "_res_proj.weight", 1, d).reshape(d)  # noqa: E731
    f.tensor("output_res_score.weight", res(root + "model.output_attn"))
    for i in range(4):
        at, to = f"{root}model.layers.{i}.", f"blk.{i}."
        f.tensor(to + "attn_norm.weight", f.norm(at + "input_layernorm.weight", d))
        f.tensor(to + "ffn_norm.weight", f.norm(at + "post_attention_layernorm.weight", d))
        f.tensor(to + "attn_res_score.weight", res(at + "self_attention"))
        f.tensor(to + "ffn_res_score.weight", res(at + "mlp"))
        if i == 2:
            mla(f, at + "self_attn.", to, d, 4, 24, 32, 16, 8, 16)
            f.tensor(to + "attn_gate.weight", f.mat(at + "self_attn.g_proj.weight", 64, d))
        else:
            kda(f, at + "self_attn.", to, d, 4, 16, True)
        if i == 0:
            gated(f, at + "mlp.", to, "", d, 96)
            continue
        at += "block_sparse_moe."
        f.tensor(to + "ffn_gate_inp.weight", f.mat(at + "gate.weight", 3, d))
        f.tensor(to + "exp_probs_b.bias", f.mat(at + "gate.e_score_correction_bias", 3))
        gated(f, at + "shared_experts.", to, "_shexp", d, 64)
        f.tensor(to + "ffn_routed_down.weight", f.mat(at + "routed_expert_down_proj.weight", 64, d))
        f.tensor(to + "ffn_routed_up.weight", f.mat(at + "routed_expert_up_proj.weight", d, 64))
        f.tensor(to + "ffn_routed_norm.weight", f.norm(at + "routed_expert_norm.weight", 64))
        for gguf, w, rows, cols in (("gate", "w1", 32, 64), ("up", "w3", 32, 64), ("down", "w2", 64, 32)):
            data = b"".join(
                mxfp4(f.raw(f"{at}experts.{x}.{w}.weight_packed", (rows, cols // 2), "U8", 0, 256),
                      f.raw(f"{at}experts.{x}.{w}.weight_scale", (rows, cols // 32), "U8", 120, 8)) for x in range(3))  # fmt: skip
            f.tensor(to + f"ffn_{gguf}_exps.weight", np.zeros((3, rows, cols)), "MXFP4", data)
    f.lines.append("vision_tower.patch_embed.proj.weight BF16 8x3x4x4 0.0 0.25\n")
    f.keys("UINT32", block_count=4, context_length=512, embedding_length=64, vocab_size=VOCAB, feed_forward_length=96,
           attention__head_count=4, attention__q_lora_rank=24, attention__kv_lora_rank=32, attention__key_length=40,
           attention__value_length=32, attention__key_length_mla=24, attention__value_length_mla=16, rope__dimension_count=8,
           ssm__conv_kernel=4, kda__head_dim=16, expert_count=3, expert_used_count=2, expert_shared_count=2,
           expert_feed_forward_length=32, expert_latent_length=64, leading_dense_block_count=1, expert_gating_func=2,
           attn_res__block_size=2)  # fmt: skip
    f.keys("FLOAT32", attention__layer_norm_rms_epsilon=1e-5, rope__freq_base=10000.0, kda__gate_lower_bound=-5.0,
           expert_weights_scale=2.5, activation__situ_beta=4.0, activation__situ_linear_beta=25.0)  # fmt: skip
    f.key("expert_weights_norm", "BOOL", 1)
    f.key("attention.head_count_kv", "INT32", [0, 0, 1, 0])
    f.write()


def streams(f, at, to, d, n):
    mix = (2 + n) * n
    for x in ("attn", "ffn"):
        f.tensor(to + f"hc_{x}_fn.weight", f.mat(at + f"hc_{x}_fn", mix, n * d))
        f.tensor(to + f"hc_{x}_base.weight", f.mat(at + f"hc_{x}_base", mix))
        f.tensor(to + f"hc_{x}_scale.weight", f.mat(at + f"hc_{x}_scale", 3))


def glm5_next():
    lin = dict(head_dim=16, num_heads=4, short_conv_kernel_size=4, gate_lower_bound=-5.0, safe_gate=True, full_attn_layers=[3])
    t = dict(BASE, model_type="glm5_next_text", num_key_value_heads=4, intermediate_size=96, moe_intermediate_size=32, n_routed_experts=3,
             num_experts_per_tok=2, n_shared_experts=1, n_group=1, topk_group=1, norm_topk_prob=True, routed_scaling_factor=2.5,
             first_k_dense_replace=1, mlp_layer_types=["dense"] + ["sparse"] * 3, kv_lora_rank=32, q_lora_rank=24, qk_nope_head_dim=16,
             qk_rope_head_dim=0, v_head_dim=16, hidden_act="silu", rms_norm_eps=1e-5, index_topk=32, index_head_dim=16, index_n_heads=2,
             index_kpool=4, index_kpool_always_select_tail=True, index_kpool_compress=True, indexer_types=["full"] * 4, mla_use_nope=True,
             mhc=True, hc_mult=4, hc_eps=1e-6, hc_sinkhorn_iters=20, swiglu_limit=10.0, num_nextn_predict_layers=1,
             layer_types=["linear_attention"] * 3 + ["deepseek_sparse_attention"], linear_attn_config=lin)  # fmt: skip
    f = Folder("glm5-next", dict(architectures=["Glm5NextForConditionalGeneration"], model_type="glm5_next", text_config=t))
    d = 64
    f.tensor("token_embd.weight", f.mat("model.language_model.embed_tokens.weight", VOCAB, d))
    f.tensor("output_norm.weight", f.norm("model.language_model.norm.weight", d))
    f.tensor("output.weight", f.mat("lm_head.weight", VOCAB, d))
    for i in range(5):  # the last one is the MTP block
        at, to = f"model.language_model.layers.{i}.", f"blk.{i}."
        f.tensor(to + "attn_norm.weight", f.norm(at + "input_layernorm.weight", d))
        f.tensor(to + "ffn_norm.weight", f.norm(at + "post_attention_layernorm.weight", d))
        if i < 4:
            streams(f, at, to, d, 4)
        if i < 3:
            kda(f, at + "self_attn.", to, d, 4, 16, False)
        else:
            mla(f, at + "self_attn.", to, d, 4, 24, 32, 16, 0, 16)
            ix = at + "self_attn.indexer."
            f.tensor(to + "indexer.attn_q_b.weight", f.mat(ix + "wq_b.weight", 32, 24))
            f.tensor(to + "indexer.attn_k.weight", f.mat(ix + "wk.weight", 16, d))
            f.tensor(to + "indexer.k_norm.weight", f.norm(ix + "k_norm.weight", 16))
            f.tensor(to + "indexer.k_norm.bias", f.mat(ix + "k_norm.bias", 16))
            f.tensor(to + "indexer.proj.weight", f.mat(ix + "weights_proj.weight", 2, d))
            f.tensor(to + "indexer_compressor_ape.weight", f.mat(ix + "index_kpool_compress_ape", 4, 16))
            f.tensor(to + "indexer_compressor_gate.weight", f.mat(ix + "index_kpool_compress_gate", 16, d))
        if i == 0:
            gated(f, at + "mlp.", to, "", d, 96)
        else:
            f.tensor(to + "ffn_gate_inp.weight", f.mat(at + "mlp.gate.weight", 3, d))
            f.tensor(to + "exp_probs_b.bias", f.mat(at + "mlp.gate.e_score_correction_bias", 3))
            gated(f, at + "mlp.shared_experts.", to, "_shexp", d, 32)
            for gguf, name, shape in (("gate", "gate_proj", (32, d)), ("up", "up_proj", (32, d)), ("down", "down_proj", (d, 32))):
                f.tensor(to + f"ffn_{gguf}_exps.weight", np.stack([f.mat(f"{at}mlp.experts.{x}.{name}.weight", *shape) for x in range(3)]))
        if i == 4:
            f.tensor(to + "nextn.eh_proj.weight", f.mat(at + "eh_proj.weight", d, 2 * d))
            for x in ("enorm", "hnorm"):
                f.tensor(to + f"nextn.{x}.weight", f.norm(at + x + ".weight", d))
            f.tensor(to + "nextn.shared_head_norm.weight", f.norm(at + "shared_head.norm.weight", d))
    f.lines.append("model.visual.patch_embed.proj.weight BF16 8x3x4x4 0.0 0.25\n")
    f.keys("UINT32", block_count=5, nextn_predict_layers=1, context_length=512, embedding_length=64, vocab_size=VOCAB,
           feed_forward_length=96, attention__head_count=4, attention__q_lora_rank=24, attention__kv_lora_rank=32,
           attention__key_length=32, attention__value_length=32, attention__key_length_mla=16, attention__value_length_mla=16,
           rope__dimension_count=0, ssm__conv_kernel=4, kda__head_dim=16, expert_count=3, expert_used_count=2, expert_shared_count=1,
           expert_feed_forward_length=32, leading_dense_block_count=1, expert_gating_func=2, expert_group_count=1,
           expert_group_used_count=1, attention__indexer__head_count=2, attention__indexer__key_length=16, attention__indexer__top_k=32,
           attention__indexer__kpool=4, hyper_connection__count=4, hyper_connection__sinkhorn_iterations=20)  # fmt: skip
    f.keys("FLOAT32", attention__layer_norm_rms_epsilon=1e-5, attention__layer_norm_epsilon=1e-6, kda__gate_lower_bound=-5.0,
           expert_weights_scale=2.5, hyper_connection__epsilon=1e-6, swiglu_clamp_exp=[10.0] * 5, swiglu_clamp_shexp=[10.0] * 5)  # fmt: skip
    f.keys("BOOL", expert_weights_norm=1, attention__indexer__kpool_select_tail=1)
    f.key("attention.head_count_kv", "INT32", [0, 0, 0, 1, 1])
    f.write()


def deepseek4():
    rope = dict(type="yarn", factor=16, original_max_position_embeddings=64, beta_fast=32, beta_slow=1)
    quant = dict(activation_scheme="dynamic", fmt="e4m3", quant_method="fp8", scale_fmt="ue8m0", weight_block_size=[32, 32])
    c = dict(BASE, architectures=["DeepseekV4ForCausalLM"], model_type="deepseek_v4", num_key_value_heads=1, head_dim=32,
             qk_rope_head_dim=8, q_lora_rank=32, o_groups=2, o_lora_rank=32, moe_intermediate_size=32, n_routed_experts=3,
             num_experts_per_tok=2, n_shared_experts=1, norm_topk_prob=True, routed_scaling_factor=1.5, scoring_func="sqrtsoftplus",
             num_hash_layers=1, hidden_act="silu", rms_norm_eps=1e-6, rope_theta=10000, compress_rope_theta=160000, rope_scaling=rope,
             compress_ratios=[0, 4, 128, 4, 0], sliding_window=16, index_n_heads=2, index_head_dim=16, index_topk=8, hc_mult=4,
             hc_sinkhorn_iters=20, hc_eps=1e-6, swiglu_limit=10.0, num_nextn_predict_layers=1, expert_dtype="fp4",
             quantization_config=quant)  # fmt: skip
    f = Folder("deepseek4", c)
    d, hd, heads, qr = 64, 32, 4, 32

    def fp8(name, rows, cols):
        w = e4m3(f.raw(name + ".weight", (rows, cols), "F8_E4M3", 0, 127))
        s = f.raw(name + ".scale", (-(-rows // 32), -(-cols // 32)), "F8_E8M0", 120, 8)
        return w * np.exp2(s - 127.0).repeat(32, 0)[:rows].repeat(32, 1)[:, :cols].astype(np.float32)

    f.tensor("token_embd.weight", f.mat("embed.weight", VOCAB, d))
    f.tensor("output_norm.weight", f.norm("norm.weight", d))
    f.tensor("output.weight", f.mat("head.weight", VOCAB, d))
    f.tensor("output_hc_fn.weight", f.mat("hc_head_fn", 4, 4 * d))
    f.tensor("output_hc_base.weight", f.mat("hc_head_base", 4))
    f.tensor("output_hc_scale.weight", f.mat("hc_head_scale", 1))
    for i, ratio in enumerate(c["compress_ratios"][:4]):
        at, to = f"layers.{i}.", f"blk.{i}."
        f.tensor(to + "attn_norm.weight", f.norm(at + "attn_norm.weight", d))
        f.tensor(to + "ffn_norm.weight", f.norm(at + "ffn_norm.weight", d))
        streams(f, at, to, d, 4)
        a = at + "attn."
        f.tensor(to + "attn_sinks.weight", f.mat(a + "attn_sink", heads))
        f.tensor(to + "attn_q_a.weight", fp8(a + "wq_a", qr, d))
        f.tensor(to + "attn_q_a_norm.weight", f.norm(a + "q_norm.weight", qr))
        f.tensor(to + "attn_q_b.weight", fp8(a + "wq_b", heads * hd, qr))
        f.tensor(to + "attn_kv.weight", fp8(a + "wkv", hd, d))
        f.tensor(to + "attn_kv_a_norm.weight", f.norm(a + "kv_norm.weight", hd))
        f.tensor(to + "attn_output_a.weight", fp8(a + "wo_a", 2 * 32, heads * hd // 2))
        f.tensor(to + "attn_output_b.weight", fp8(a + "wo_b", d, 2 * 32))
        parts = [("attn", a, hd * (2 if ratio == 4 else 1), hd)] * (ratio > 0) + [("indexer", a + "indexer.", 32, 16)] * (ratio == 4)
        for name, p, width, head in parts:
            f.tensor(to + f"{name}_compressor_ape.weight", f.mat(p + "compressor.ape", ratio, width))
            f.tensor(to + f"{name}_compressor_kv.weight", f.mat(p + "compressor.wkv.weight", width, d))
            f.tensor(to + f"{name}_compressor_gate.weight", f.mat(p + "compressor.wgate.weight", width, d))
            f.tensor(to + f"{name}_compressor_norm.weight", f.norm(p + "compressor.norm.weight", head))
        if ratio == 4:
            f.tensor(to + "indexer.attn_q_b.weight", fp8(a + "indexer.wq_b", 32, qr))
            f.tensor(to + "indexer.proj.weight", f.mat(a + "indexer.weights_proj.weight", 2, d))
        m = at + "ffn."
        f.tensor(to + "ffn_gate_inp.weight", f.mat(m + "gate.weight", 3, d))
        if i == 0:
            f.tensor(to + "ffn_gate_tid2eid.weight", f.raw(m + "gate.tid2eid", (VOCAB, 2), "I64", 0, 3), "I32")
        else:
            f.tensor(to + "exp_probs_b.bias", f.mat(m + "gate.bias", 3))
        for gguf, w, rows, cols in (("gate", "w1", 32, d), ("up", "w3", 32, d), ("down", "w2", d, 32)):
            f.tensor(to + f"ffn_{gguf}_shexp.weight", fp8(f"{m}shared_experts.{w}", rows, cols))
            data = b"".join(
                mxfp4(f.raw(f"{m}experts.{x}.{w}.weight", (rows, cols // 2), "I8", 0, 256),
                      f.raw(f"{m}experts.{x}.{w}.scale", (rows, cols // 32), "F8_E8M0", 120, 8)) for x in range(3))  # fmt: skip
            f.tensor(to + f"ffn_{gguf}_exps.weight", np.zeros((3, rows, cols)), "MXFP4", data)
    f.lines.append("mtp.0.e_proj.weight BF16 64x64 0.0 0.25\n")
    f.keys("UINT32", block_count=4, context_length=512, embedding_length=64, vocab_size=VOCAB, attention__head_count=4,
           attention__head_count_kv=1, attention__key_length=32, attention__value_length=32, attention__sliding_window=16,
           attention__q_lora_rank=32, attention__output_lora_rank=32, attention__output_group_count=2, rope__dimension_count=8,
           rope__scaling__original_context_length=64, expert_count=3, expert_used_count=2, expert_shared_count=1,
           expert_feed_forward_length=32, expert_gating_func=4, hash_layer_count=1, attention__indexer__head_count=2,
           attention__indexer__key_length=16, attention__indexer__top_k=8, hyper_connection__count=4,
           hyper_connection__sinkhorn_iterations=20)  # fmt: skip
    f.keys("FLOAT32", attention__layer_norm_rms_epsilon=1e-6, rope__freq_base=10000.0, attention__compress_rope_freq_base=160000.0,
           rope__scaling__factor=16.0, rope__scaling__yarn_beta_fast=32.0, rope__scaling__yarn_beta_slow=1.0, expert_weights_scale=1.5,
           hyper_connection__epsilon=1e-6, swiglu_clamp_exp=[10.0] * 4)  # fmt: skip
    f.key("rope.scaling.type", "STRING", "yarn")
    f.key("expert_weights_norm", "BOOL", 1)
    f.key("attention.compress_ratios", "INT32", [0, 4, 128, 4])
    f.write()


def qwen4exp():
    t = dict(BASE, model_type="qwen4_exp_text", num_key_value_heads=2, head_dim=16, hidden_act="silu", rms_norm_eps=1e-6,
             linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_value_head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4,
             moe_intermediate_size=32, shared_expert_intermediate_size=32, num_experts=3, num_experts_per_tok=2, norm_topk_prob=True,
             full_attention_interval=4, layer_types=["linear_attention"] * 3 + ["full_attention"], output_gate_type="sigmoid",
             rope_parameters=dict(rope_type="default", rope_theta=1e7, partial_rotary_factor=0.5, mrope_section=[2, 1, 1], mrope_interleaved=True),
             hc_count=4, hc_lowrank=8, ple_layer_ids=[2], ple_embed_dim=64, ple_conv_kernel_size=4, ngram_size=3, heads_per_ngram=2,
             split_ngram_parts=3, indexer_n_heads=2, indexer_kv_heads=1, indexer_head_dim=16, indexer_budget=16,
             indexer_compress_ratio=4)  # fmt: skip
    f = Folder("qwen4exp", dict(architectures=["Qwen4ExpForConditionalGeneration"], model_type="qwen4_exp", text_config=t, image_token_id=1001))
    d, n = 64, 4
    root = "model.language_model."

    def hc(at, to, inject=True):
        f.tensor(to + "_norm.weight", f.norm(at + "hc_norm.weight", n * d) + np.float32(1))
        f.tensor(to + "_down.weight", f.mat(at + "input_mix_weight_down.weight", 8, n * d))
        f.tensor(to + "_up.weight", f.mat(at + "input_mix_weight_up.weight", n * d, 8))
        if inject:
            f.tensor(to + "_inject.weight", f.mat(at + "block_inject_weight.weight", n, n * d))

    f.tensor("token_embd.weight", f.mat(root + "embed_tokens.weight", VOCAB, d))
    f.tensor("output.weight", f.mat("lm_head.weight", VOCAB, d))
    hc(root + "hyper_connection_mixer.", "output_hc", False)
    # value head r * 2 + k of GGUF is head k * 2 + r of the checkpoint
    order = [k * 2 + r for r in range(2) for k in range(2)]
    regroup = lambda w: w.reshape(4, -1, *w.shape[1:])[order].reshape(w.shape)  # noqa: E731
    for i in range(4):
        at, to = f"{root}layers.{i}.", f"blk.{i}."
        hc(at + "attn_hyper_connection.", to + "hc_attn")
        hc(at + "mlp_hyper_connection.", to + "hc_ffn")
        if i < 3:
            a = at + "linear_attn."
            qkv, conv = f.mat(a + "in_proj_qkv.weight", 128, d), f.mat(a + "conv1d.weight", 128, 1, 4).reshape(128, 4)
            f.tensor(to + "attn_qkv.weight", np.concatenate([qkv[:64], regroup(qkv[64:])]))
            f.tensor(to + "ssm_conv1d.weight", np.concatenate([conv[:64], regroup(conv[64:])]))
            f.tensor(to + "attn_gate.weight", regroup(f.mat(a + "in_proj_z.weight", 64, d)))
            f.tensor(to + "ssm_alpha.weight", regroup(f.mat(a + "in_proj_a.weight", 4, d)))
            f.tensor(to + "ssm_beta.weight", regroup(f.mat(a + "in_proj_b.weight", 4, d)))
            f.tensor(to + "ssm_a", neg_exp(regroup(f.mat(a + "A_log", 4))))
            f.tensor(to + "ssm_dt.bias", regroup(f.mat(a + "dt_bias", 4)))
            f.tensor(to + "ssm_norm.weight", f.norm(a + "norm.weight", 16))
            f.tensor(to + "ssm_out.weight", regroup(f.mat(a + "out_proj.weight", d, 64).T).T)
        else:
            a = at + "self_attn."
            f.tensor(to + "attn_q.weight", f.mat(a + "q_proj.weight", 128, d))
            f.tensor(to + "attn_k.weight", f.mat(a + "k_proj.weight", 32, d))
            f.tensor(to + "attn_v.weight", f.mat(a + "v_proj.weight", 32, d))
            f.tensor(to + "attn_output.weight", f.mat(a + "o_proj.weight", d, 64))
            f.tensor(to + "attn_q_norm.weight", f.norm(a + "q_norm.weight", 16) + np.float32(1))
            f.tensor(to + "attn_k_norm.weight", f.norm(a + "k_norm.weight", 16) + np.float32(1))
            qk = f.mat(a + "indexer.index_qk_proj.weight", 48, d)
            f.tensor(to + "indexer.q_proj.weight", qk[:32])
            f.tensor(to + "indexer.k_proj.weight", qk[32:])
            f.tensor(to + "indexer.q_norm.weight", f.norm(a + "indexer.q_layernorm.weight", 16) + np.float32(1))
            f.tensor(to + "indexer.k_norm.weight", f.norm(a + "indexer.k_layernorm.weight", 16) + np.float32(1))
        if i == 1:
            p = at + "ple."
            f.tensor(to + "ple_key.weight", f.mat(p + "key_proj.weight", n * d, d))
            f.tensor(to + "ple_value.weight", f.mat(p + "value_proj.weight", d, d))
            for x in ("key", "query", "conv"):
                f.tensor(to + f"ple_norm_{x}.weight", f.norm(p + f"norm_{x}.weight", n * d) + np.float32(1))
            f.tensor(to + "ple_conv1d.weight", f.mat(p + "conv1d.weight", n * d, 1, 4).reshape(n * d, 4))
            e = p + "ple_embedding."
            shards = [f.mat(e + f"ngram_embedding.shard_{k}.weight", rows, 16) for k, rows in enumerate((43, 43, 42))]
            f.tensor("per_layer_token_embd.weight", np.concatenate(shards))
            mul = f.raw(e + "layer_multipliers", (3,), "I64", 23456789012345, 4194304)
            first = f.raw(e + "ngram_heads_offsets", (4,), "I64", 5, 30)
            rows = f.raw(e + "ngram_heads_vocab_sizes", (4,), "I64", 53, 30)
            f.key("ple.layer_multipliers", "UINT64", mul.tolist())
            f.key("ple.head_offsets", "UINT64", first.tolist())
            f.key("ple.head_vocab_sizes", "UINT64", rows.tolist())
        f.tensor(to + "ffn_gate_inp.weight", f.mat(at + "mlp.gate.weight", 3, d))
        gu, down = f.mat(at + "mlp.experts.gate_up_proj", 3, 64, d), f.mat(at + "mlp.experts.down_proj", 3, d, 32)
        f.tensor(to + "ffn_gate_exps.weight", gu[:, :32])
        f.tensor(to + "ffn_up_exps.weight", gu[:, 32:])
        f.tensor(to + "ffn_down_exps.weight", down)
        gated(f, at + "mlp.shared_expert.", to, "_shexp", d, 32)
        f.tensor(to + "ffn_gate_inp_shexp.weight", f.mat(at + "mlp.shared_expert_gate.weight", 1, d))
    f.lines.append("mtp.fc.weight BF16 64x128 0.0 0.25\n")
    f.lines.append("model.visual.patch_embed.proj.weight BF16 8x3x4x4 0.0 0.25\n")
    f.keys("UINT32", block_count=4, context_length=512, embedding_length=64, attention__head_count=4, attention__head_count_kv=2,
           attention__key_length=16, attention__value_length=16, rope__dimension_count=8, ssm__conv_kernel=4, ssm__state_size=16,
           ssm__group_count=2, ssm__time_step_rank=4, ssm__inner_size=64, full_attention_interval=4, expert_count=3, expert_used_count=2,
           expert_feed_forward_length=32, expert_shared_feed_forward_length=32, hyper_connection__count=4, hyper_connection__low_rank=8,
           attention__indexer__head_count=2, attention__indexer__key_length=16, attention__indexer__top_k=16, ple__ngram_size=3,
           ple__heads_per_ngram=2, ple__conv_kernel=4, ple__eos_token_id=1012, ple__image_token_id=1001,
           embedding_length_per_layer_input=16)  # fmt: skip
    f.keys("FLOAT32", attention__layer_norm_rms_epsilon=1e-6, rope__freq_base=1e7)
    f.key("attention.compress_ratios", "INT32", [0, 0, 0, 4])
    f.key("rope.dimension_sections", "INT32", [2, 1, 1, 0])
    f.key("ple.layers", "INT32", [1])
    f.write()


def pairs(w, head):
    """Rows of queries or keys in llama.cpp's order: the halves of each head interleaved."""
    return w.reshape(-1, 2, head // 2, w.shape[-1]).swapaxes(1, 2).reshape(w.shape)


def layer(f, at, to, d, wide, heads, kv_heads, head, ff, regroup):
    """A Llama or Qwen 3 layer whose projections read rows of `wide` values."""
    f.tensor(to + "attn_norm.weight", f.norm(at + "input_layernorm.weight", d))
    f.tensor(to + "attn_q.weight", regroup(f.mat(at + "self_attn.q_proj.weight", heads * head, wide)))
    f.tensor(to + "attn_k.weight", regroup(f.mat(at + "self_attn.k_proj.weight", kv_heads * head, wide)))
    f.tensor(to + "attn_v.weight", f.mat(at + "self_attn.v_proj.weight", kv_heads * head, wide))
    f.tensor(to + "attn_output.weight", f.mat(at + "self_attn.o_proj.weight", d, heads * head))
    f.tensor(to + "ffn_norm.weight", f.norm(at + "post_attention_layernorm.weight", d))
    gated(f, at + "mlp.", to, "", d, ff)


def eagle3():
    """The layout of SafeAILab's and SpecForge's checkpoints: midlayer, offsets d2t, mask t2d."""
    cfg = dict(BASE, architectures=["LlamaForCausalLMEagle3"], model_type="llama", num_hidden_layers=1, num_key_value_heads=2, head_dim=16,
               intermediate_size=96, draft_vocab_size=256, target_hidden_size=48, rms_norm_eps=1e-5, rope_theta=500000.0, hidden_act="silu",
               eagle_config=dict(eagle_aux_hidden_state_layer_ids=[1, 5, 8], use_aux_hidden_state=True), norm_before_residual=True,
               rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                 original_max_position_embeddings=256))  # fmt: skip
    f = Folder("eagle3", cfg)
    f.tensor("token_embd.weight", f.mat("embed_tokens.weight", VOCAB, 64))
    f.tensor("fc.weight", f.mat("fc.weight", 64, 3 * 48))
    layer(f, "midlayer.", "blk.0.", 64, 128, 4, 2, 16, 96, lambda w: pairs(w, 16))
    f.tensor("blk.0.attn_norm_2.weight", f.norm("midlayer.hidden_norm.weight", 64))
    f.tensor("output_norm.weight", f.norm("norm.weight", 64))
    f.tensor("output.weight", f.mat("lm_head.weight", 256, 64))
    f.tensor("d2t", f.raw("d2t", (256,), "I64", 3, -3) + np.arange(256), "I64")
    f.lines.append(f"t2d BOOL {VOCAB} 3 -4\n")
    wave = 2 * np.pi * 500000.0 ** (np.arange(8) / 8)
    s = (256 / wave - 1) / 3
    f.tensor("rope_freqs.weight", np.where(wave < 256 / 4, 1, np.where(wave >= 256 / 1, 8, 1 / ((1 - s) / 8 + s))))
    f.keys("UINT32", block_count=1, context_length=512, embedding_length=64, feed_forward_length=96, attention__head_count=4,
           attention__head_count_kv=2, attention__key_length=16, attention__value_length=16, rope__dimension_count=16, vocab_size=VOCAB,
           target_hidden_size=48)  # fmt: skip
    f.keys("FLOAT32", attention__layer_norm_rms_epsilon=1e-5, rope__freq_base=500000.0)
    f.keys("BOOL", norm_before_residual=1, norm_before_fc=0)
    f.key("target_layers", "INT32", [2, 6, 9])
    f.write()


def dflash():
    """The layout of z-lab's checkpoints: no embeddings, no head, windows in all layers but the last."""
    cfg = dict(BASE, architectures=["DFlashDraftModel"], model_type="qwen3", num_hidden_layers=3, num_key_value_heads=2, head_dim=16,
               intermediate_size=96, rms_norm_eps=1e-6, rope_theta=10000000.0, hidden_act="silu", block_size=16,
               layer_types=["sliding_attention", "sliding_attention", "full_attention"], sliding_window=64, use_sliding_window=True,
               dflash_config=dict(mask_token_id=1003, target_layer_ids=[1, 7, 13, 19]))  # fmt: skip
    f = Folder("dflash", cfg)
    f.tensor("fc.weight", f.mat("fc.weight", 64, 4 * 64))
    f.tensor("enc.output_norm.weight", f.norm("hidden_norm.weight", 64))
    f.tensor("output_norm.weight", f.norm("norm.weight", 64))
    for i in range(3):
        layer(f, f"layers.{i}.", f"blk.{i}.", 64, 64, 4, 2, 16, 96, lambda w: w)
        for x in "qk":
            f.tensor(f"blk.{i}.attn_{x}_norm.weight", f.norm(f"layers.{i}.self_attn.{x}_norm.weight", 16))
    f.keys("UINT32", block_count=3, context_length=512, embedding_length=64, feed_forward_length=96, attention__head_count=4,
           attention__head_count_kv=2, attention__key_length=16, attention__value_length=16, attention__sliding_window=64,
           block_size=16)  # fmt: skip
    f.keys("FLOAT32", attention__layer_norm_rms_epsilon=1e-6, rope__freq_base=1e7)
    f.key("attention.sliding_window_pattern", "BOOL", [1, 1, 0])
    f.key("target_layers", "INT32", [2, 8, 14, 20])
    f.out.append("key tokenizer.ggml.mask_token_id UINT32 1003\n")
    f.write()


def gemma4_assistant():
    """Names and shapes of transformers' Gemma4AssistantForCausalLM."""
    text = dict(BASE, model_type="gemma4_text", num_key_value_heads=2, num_global_key_value_heads=1, head_dim=16, global_head_dim=32,
                intermediate_size=96, rms_norm_eps=1e-6, hidden_activation="gelu_pytorch_tanh", sliding_window=64, num_kv_shared_layers=4,
                hidden_size_per_layer_input=0, enable_moe_block=False, use_double_wide_mlp=False, attention_k_eq_v=True,
                layer_types=["sliding_attention"] * 3 + ["full_attention"],
                rope_parameters=dict(full_attention=dict(rope_type="proportional", rope_theta=1000000.0, partial_rotary_factor=0.25),
                                     sliding_attention=dict(rope_type="default", rope_theta=10000.0)))  # fmt: skip
    cfg = dict(architectures=["Gemma4AssistantForCausalLM"], model_type="gemma4_assistant", backbone_hidden_size=96, num_centroids=32,
               centroid_intermediate_top_k=4, use_ordered_embeddings=True, tie_word_embeddings=True, text_config=text)  # fmt: skip
    f = Folder("gemma4-assistant", cfg)
    f.tensor("token_embd.weight", f.mat("model.embed_tokens.weight", VOCAB, 64))
    f.tensor("nextn.pre_projection.weight", f.mat("pre_projection.weight", 64, 2 * 96))
    f.tensor("nextn.post_projection.weight", f.mat("post_projection.weight", 96, 64))
    f.tensor("masked_embd_centroids.weight", f.mat("masked_embedding.centroids.weight", 32, 64))
    f.tensor("masked_embd_ordering", f.raw("masked_embedding.token_ordering", (VOCAB,), "I64", 0, -1), "I32")
    f.tensor("rope_freqs.weight", np.where(np.arange(16) < 4, 1, 1e30))
    f.tensor("output_norm.weight", f.norm("model.norm.weight", 64))
    for i in range(4):
        at, to, head = f"model.layers.{i}.", f"blk.{i}.", 32 if i == 3 else 16
        f.tensor(to + "attn_norm.weight", f.norm(at + "input_layernorm.weight", 64))
        f.tensor(to + "attn_q.weight", f.mat(at + "self_attn.q_proj.weight", 4 * head, 64))
        f.tensor(to + "attn_q_norm.weight", f.norm(at + "self_attn.q_norm.weight", head))
        f.tensor(to + "attn_output.weight", f.mat(at + "self_attn.o_proj.weight", 64, 4 * head))
        f.tensor(to + "post_attention_norm.weight", f.norm(at + "post_attention_layernorm.weight", 64))
        f.tensor(to + "ffn_norm.weight", f.norm(at + "pre_feedforward_layernorm.weight", 64))
        gated(f, at + "mlp.", to, "", 64, 96)
        f.tensor(to + "post_ffw_norm.weight", f.norm(at + "post_feedforward_layernorm.weight", 64))
        f.tensor(to + "layer_output_scale.weight", f.norm(at + "layer_scalar", 1))
    f.keys("UINT32", block_count=4, context_length=512, embedding_length=64, embedding_length_out=96, feed_forward_length=96,
           attention__head_count=4, attention__key_length=32, attention__value_length=32, attention__key_length_swa=16,
           attention__value_length_swa=16, attention__sliding_window=64, attention__shared_kv_layers=4, rope__dimension_count=32,
           rope__dimension_count_swa=16, nextn_predict_layers=4)  # fmt: skip
    f.keys("FLOAT32", attention__layer_norm_rms_epsilon=1e-6, rope__freq_base=1e6, rope__freq_base_swa=1e4)
    f.key("attention.head_count_kv", "INT32", [2, 2, 2, 1])
    f.key("attention.sliding_window_pattern", "BOOL", [1, 1, 1, 0])
    f.write()


def stripes(f, name, n, heads, kv, key, value, d, low):
    """q, k and v of a fused FP8 matrix in n stripes, whose blocks of 128 rows and columns restart in each stripe."""
    rows = [heads * key // n, kv * key // n, kv * value // n]
    per, blocks = sum(rows), -(-sum(rows) // 128)
    codes = f.raw(name, (n * per, d), "F8_E4M3", low, 126)
    scale = f.raw(name + "_scale_inv", (n * blocks, d // 128), "BF16", 0.5, 0.25).astype(np.float32)
    out = [[], [], []]
    for s in range(n):
        v = e4m3(codes[s * per : (s + 1) * per])
        for b in range(blocks):
            for c in range(d // 128):
                v[128 * b : 128 * b + 128, 128 * c : 128 * c + 128] *= scale[s * blocks + b, c]
        for k, part in enumerate(np.split(v, np.cumsum(rows)[:2])):
            out[k].append(part)
    return [np.concatenate(x) for x in out]


def mimo25(folder, n, full_kv, window_kv):
    """MiMo-V2.5 as released: XiaomiMiMo/MiMo-V2.5 (4 stripes) and MiMo-V2.5-Pro (8)."""
    d, heads, key, value, experts = 256, 8, 24, 16, 3
    f = Folder("mimo2", BASE | dict(
        architectures=["MiMoV2ForCausalLM"], model_type="mimo_v2", hidden_size=d, num_hidden_layers=2, num_attention_heads=heads,
        num_key_value_heads=full_kv, head_dim=key, v_head_dim=value, intermediate_size=96, hidden_act="silu", layernorm_epsilon=1e-5,
        attention_bias=False, n_routed_experts=experts, num_experts_per_tok=2, moe_intermediate_size=32, n_shared_experts=None,
        scoring_func="sigmoid", topk_method="noaux_tc", n_group=1, topk_group=1, norm_topk_prob=True, routed_scaling_factor=1.5,
        attention_value_scale=0.707, partial_rotary_factor=0.334, rope_theta=1e7, swa_rope_theta=10000.0, sliding_window_size=128,
        hybrid_layer_pattern=[0, 1], moe_layer_freq=[0, 1], swa_num_attention_heads=heads, swa_num_key_value_heads=window_kv,
        swa_head_dim=key, swa_v_head_dim=value, add_swa_attention_sink_bias=True, add_full_attention_sink_bias=False,
        attention_projection_layout="fused_qkv",
        quantization_config=dict(quant_method="fp8", fmt="e4m3", activation_scheme="dynamic", weight_block_size=[128, 128])))  # fmt: skip
    text(f, "", d)
    for i in range(3):
        at, to, mtp = ("model.mtp.layers.0." if i == 2 else f"model.layers.{i}."), f"blk.{i}.", i == 2
        f.tensor(to + "attn_norm.weight", f.norm(at + "input_layernorm.weight", d))
        f.tensor(to + "ffn_norm.weight", f.norm(at + ("pre_mlp" if mtp else "post_attention") + "_layernorm.weight", d))
        a = at + "self_attn."
        parts = stripes(f, a + "qkv_proj.weight", n, heads, window_kv if i else full_kv, key, value, d, 128 * (i % 2))
        for x, w in zip("qkv", parts):
            f.tensor(to + f"attn_{x}.weight", w)
        f.tensor(to + "attn_output.weight", f.mat(a + "o_proj.weight", d, heads * value))
        if i:
            f.tensor(to + "attn_sinks.weight", f.mat(a + "attention_sink_bias", heads))
        if mtp:
            f.tensor(to + "nextn.eh_proj.weight", f.mat(at + "eh_proj.weight", d, 2 * d))
            f.tensor(to + "nextn.enorm.weight", f.norm(at + "enorm.weight", d))
            f.tensor(to + "nextn.hnorm.weight", f.norm(at + "hnorm.weight", d))
            f.tensor(to + "layer_output_norm.weight", f.norm(at + "final_layernorm.weight", d))
        if i == 1:
            f.tensor(to + "ffn_gate_inp.weight", f.mat(at + "mlp.gate.weight", experts, d))
            f.tensor(to + "exp_probs_b.bias", f.mat(at + "mlp.gate.e_score_correction_bias", experts))
            for x, shape in (("gate", (32, d)), ("up", (32, d)), ("down", (d, 32))):
                w = [f.mat(at + f"mlp.experts.{k}.{x}_proj.weight", *shape) for k in range(experts)]
                f.tensor(to + f"ffn_{x}_exps.weight", np.stack(w))
        else:
            gated(f, at + "mlp.", to, "", d, 96)
    f.lines += ["visual.patch_embed.proj.weight BF16 8x3x4x4 0.0 0.25\n", "audio_encoder.input_local_transformer.norm.weight BF16 8 0.0 0.25\n",
                "speech_embeddings.0.weight BF16 8x8 0.0 0.25\n"]  # fmt: skip
    f.keys("UINT32", block_count=3, nextn_predict_layers=1, context_length=512, embedding_length=d, feed_forward_length=96,
           attention__head_count=heads, attention__key_length=key, attention__value_length=value, attention__sliding_window=129,
           rope__dimension_count=8, expert_count=experts, expert_used_count=2, expert_feed_forward_length=32, expert_gating_func=2,
           leading_dense_block_count=1)  # fmt: skip
    f.keys("FLOAT32", attention__layer_norm_rms_epsilon=1e-5, attention__value_scale=0.707, expert_weights_scale=1.5, rope__freq_base=1e7, rope__freq_base_swa=1e4)
    f.key("expert_weights_norm", "BOOL", 1)
    if full_kv == window_kv:
        f.key("attention.head_count_kv", "UINT32", full_kv)
    else:
        f.key("attention.head_count_kv", "INT32", [full_kv, window_kv, window_kv])
    f.key("attention.sliding_window_pattern", "BOOL", [0, 1, 1])
    f.write(folder)


def square_experts(folder, turned):
    """Qwen3-VL MoE whose experts' gate_up_proj is square, as first published (transposed) and as transformers 5 saves it."""
    d, heads, key, experts, ff = 64, 4, 16, 3, 32
    rope = dict(rope_type="default", rope_theta=5e5, mrope_section=[2, 3, 3])
    f = Folder("qwen3vlmoe", dict(
        architectures=["Qwen3VLMoeForConditionalGeneration"], model_type="qwen3_vl_moe", tie_word_embeddings=False,
        text_config=BASE | dict(model_type="qwen3_vl_moe_text", num_hidden_layers=2, num_key_value_heads=2, head_dim=key, rms_norm_eps=1e-6,
                                hidden_act="silu", intermediate_size=96, moe_intermediate_size=ff, num_experts=experts, num_experts_per_tok=2,
                                decoder_sparse_step=1, mlp_only_layers=[], rope_parameters=rope)))  # fmt: skip
    f.tensor("token_embd.weight", f.mat("model.language_model.embed_tokens.weight", VOCAB, d))
    f.tensor("output_norm.weight", f.norm("model.language_model.norm.weight", d))
    f.tensor("output.weight", f.mat("lm_head.weight", VOCAB, d))
    for i in range(2):
        at, to = f"model.language_model.layers.{i}.", f"blk.{i}."
        f.tensor(to + "attn_norm.weight", f.norm(at + "input_layernorm.weight", d))
        f.tensor(to + "ffn_norm.weight", f.norm(at + "post_attention_layernorm.weight", d))
        for x, rows, columns, name in ("q", heads * key, d, "q"), ("k", 2 * key, d, "k"), ("v", 2 * key, d, "v"), ("o", d, heads * key, "output"):
            f.tensor(to + f"attn_{name}.weight", f.mat(at + f"self_attn.{x}_proj.weight", rows, columns))
        for x in "qk":
            f.tensor(to + f"attn_{x}_norm.weight", f.norm(at + f"self_attn.{x}_norm.weight", key))
        f.tensor(to + "ffn_gate_inp.weight", f.mat(at + "mlp.gate.weight", experts, d))
        both = f.mat(at + "mlp.experts.gate_up_proj", experts, 2 * ff, d)
        down = f.mat(at + "mlp.experts.down_proj", experts, *((ff, d) if turned else (d, ff)))
        if turned:
            both, down = both.transpose(0, 2, 1), down.transpose(0, 2, 1)
        f.tensor(to + "ffn_gate_exps.weight", both[:, :ff])
        f.tensor(to + "ffn_up_exps.weight", both[:, ff:])
        f.tensor(to + "ffn_down_exps.weight", down)
    f.write(folder)


if __name__ == "__main__":
    kimi_k3()
    glm5_next()
    deepseek4()
    qwen4exp()
    eagle3()
    dflash()
    gemma4_assistant()
    mimo25("mimo2-4", 4, 4, 8)
    mimo25("mimo2-8", 8, 8, 8)
    square_experts("qwen3vlmoe", False)
    square_experts("qwen3vlmoe-turned", True)
