# SPDX-License-Identifier: MIT
"""The twenty tasks with hone_gguf. M: a quantized model, B: its original, D: its folder, T: a text."""
from run import B, M, OUT, TALK, TEXT, TOOLS, WROTE


def t01_open_file():
    from hone_gguf import GGUF
    return len(GGUF(M).tensors)

def t02_read_key():
    from hone_gguf import GGUF
    return GGUF(M).metadata["general.architecture"]

def t03_vocabulary():
    from hone_gguf import GGUF
    return GGUF(M).metadata["tokenizer.ggml.tokens"][100]

def t04_sizes_by_type():
    from hone_gguf import GGUF
    sizes = {}
    for t in GGUF(M).tensors.values():
        sizes[t.type.name] = sizes.get(t.type.name, 0) + t.n_bytes
    return sizes

def t05_dequantize():
    from hone_gguf import GGUF
    return float(abs(GGUF(M).tensors["token_embd.weight"].to_numpy()).max())

def t06_write_file():
    import numpy as np
    from hone_gguf import Writer
    with Writer(OUT) as w:
        w.metadata({"general.architecture": "x", "x.layers": 2})
        w.tensor("a", np.ones((64, 256), "f4"))

def t07_quantize_array():
    import numpy as np
    from hone_gguf import encode
    return encode(np.ones((64, 256), "f4"), "Q4_K").shape

def t08_change_key():
    from hone_gguf import GGUF, Writer
    g = GGUF(M)
    with Writer(OUT) as w:
        w.copy_metadata(g)
        w.metadata({"general.name": "other"})
        for t in g.tensors.values():
            w.tensor(t.name, t.data, type=t.type.name, shape=t.shape)

def t09_tokenize():
    from hone_gguf import Tokenizer
    return len(Tokenizer(M).encode(TEXT))

def t10_detokenize():
    from hone_gguf import Tokenizer
    t = Tokenizer(M)
    return t.decode(t.encode(TEXT)) == TEXT

def t11_chat_prompt():
    from hone_gguf import Template
    return len(Template.of(M).render(TALK))

def t12_generate():
    from hone_gguf import Model
    return Model(M).generate("Once upon a time", max_tokens=32)

def t13_stream_chat():
    from hone_gguf import Model
    return "".join(Model(M).generate(TALK, stream=True, max_tokens=32))

def t14_many_prompts():
    from hone_gguf import Model
    return len(Model(M).generate_many([f"The number {i} is" for i in range(32)], max_tokens=32))

def t15_logits():
    from hone_gguf import Model
    return Model(B, exact=True).logits("Once upon a time").shape

def t16_perplexity():
    from hone_gguf import Model
    return Model(B, exact=True).perplexity(TEXT, n_ctx=512, max_windows=4)["value"]

def t17_divergence():
    from hone_gguf import kld
    return kld(B, M, TEXT, n_ctx=512, max_windows=4)["mean"]

def t18_json_answer():
    from hone_gguf import Model
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
    return Model(M).generate("A number as JSON: ", schema=schema)

def t19_quantize_file():
    from hone_gguf import quantize
    return quantize(B, OUT, "Q4_K_M")["file_bytes"]

def t20_read_tool_call():
    from hone_gguf import Template
    return Template.of(M).read_answer(WROTE, TOOLS)["tool_calls"]
