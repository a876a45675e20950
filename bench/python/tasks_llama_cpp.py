# SPDX-License-Identifier: MIT
"""The tasks that llama-cpp-python can do."""
from run import B, M, OUT, TALK, TEXT


def t02_read_key():
    from llama_cpp import Llama
    return Llama(M, vocab_only=True, verbose=False).metadata["general.architecture"]

def t09_tokenize():
    from llama_cpp import Llama
    return len(Llama(M, vocab_only=True, verbose=False).tokenize(TEXT.encode(), add_bos=False))

def t10_detokenize():
    from llama_cpp import Llama
    m = Llama(M, vocab_only=True, verbose=False)
    return m.detokenize(m.tokenize(TEXT.encode(), add_bos=False)).decode() == TEXT

def t12_generate():
    from llama_cpp import Llama
    return Llama(M, verbose=False)("Once upon a time", max_tokens=32, temperature=0)["choices"][0]["text"]

def t13_stream_chat():
    from llama_cpp import Llama
    m = Llama(M, verbose=False)
    parts = m.create_chat_completion(TALK, stream=True, max_tokens=32, temperature=0)
    return "".join(p["choices"][0]["delta"].get("content", "") for p in parts)

def t14_many_prompts():
    from llama_cpp import Llama
    m = Llama(M, verbose=False)
    return len([m(f"The number {i} is", max_tokens=32, temperature=0) for i in range(32)])

def t15_logits():
    from llama_cpp import Llama
    m = Llama(B, logits_all=True, verbose=False)
    m.eval(m.tokenize(b"Once upon a time", add_bos=False))
    return m.scores[: m.n_tokens].shape

def t16_perplexity():
    import numpy as np
    from llama_cpp import Llama
    m = Llama(B, logits_all=True, n_ctx=512, verbose=False)
    ids, nll = m.tokenize(TEXT.encode(), add_bos=False), []
    for w in range(4):
        m.reset()
        part = ids[w * 512 : w * 512 + 512]
        m.eval(part)
        x = m.scores[256:511].astype("f8")
        x -= x.max(axis=1, keepdims=True)
        p = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
        nll += [-p[i, part[257 + i]] for i in range(255)]
    return float(np.exp(np.mean(nll)))

def t17_divergence():
    import numpy as np
    from llama_cpp import Llama
    a, b = (Llama(f, logits_all=True, n_ctx=512, verbose=False) for f in (B, M))
    ids, kld = a.tokenize(TEXT.encode(), add_bos=False), []
    for w in range(4):
        logs = []
        for m in (a, b):
            m.reset()
            m.eval(ids[w * 512 : w * 512 + 512])
            x = m.scores[256:511].astype("f8")
            x -= x.max(axis=1, keepdims=True)
            logs.append(x - np.log(np.exp(x).sum(axis=1, keepdims=True)))
        kld += list((np.exp(logs[0]) * (logs[0] - logs[1])).sum(axis=1))
    return float(np.mean(kld))

def t18_json_answer():
    import json
    from llama_cpp import Llama, LlamaGrammar
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
    g = LlamaGrammar.from_json_schema(json.dumps(schema), verbose=False)
    return Llama(M, verbose=False)("A number as JSON: ", grammar=g, max_tokens=64)["choices"][0]["text"]

def t19_quantize_file():
    import ctypes
    import os
    import llama_cpp
    p = llama_cpp.llama_model_quantize_default_params()
    p.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M
    if llama_cpp.llama_model_quantize(B.encode(), OUT.encode(), ctypes.byref(p)):
        raise RuntimeError
    return os.path.getsize(OUT)
