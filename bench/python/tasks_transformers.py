# SPDX-License-Identifier: MIT
"""The tasks that transformers can do, on the folder from which the files were converted."""
from run import D, TALK, TEXT


def t09_tokenize():
    from transformers import AutoTokenizer
    return len(AutoTokenizer.from_pretrained(D)(TEXT)["input_ids"])

def t10_detokenize():
    from transformers import AutoTokenizer
    t = AutoTokenizer.from_pretrained(D)
    return t.decode(t(TEXT)["input_ids"]) == TEXT

def t11_chat_prompt():
    from transformers import AutoTokenizer
    return len(AutoTokenizer.from_pretrained(D).apply_chat_template(TALK, tokenize=False, add_generation_prompt=True))

def t12_generate():
    from transformers import AutoModelForCausalLM, AutoTokenizer
    t, m = AutoTokenizer.from_pretrained(D), AutoModelForCausalLM.from_pretrained(D)
    ids = t("Once upon a time", return_tensors="pt")
    return t.decode(m.generate(**ids, max_new_tokens=32, do_sample=False)[0])

def t13_stream_chat():
    from threading import Thread
    from transformers import AutoModelForCausalLM, AutoTokenizer, TextIteratorStreamer
    t, m = AutoTokenizer.from_pretrained(D), AutoModelForCausalLM.from_pretrained(D)
    ids = t.apply_chat_template(TALK, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    s = TextIteratorStreamer(t, skip_prompt=True)
    Thread(target=m.generate, kwargs=dict(**ids, streamer=s, max_new_tokens=32, do_sample=False)).start()
    return "".join(s)

def t14_many_prompts():
    from transformers import AutoModelForCausalLM, AutoTokenizer
    t, m = AutoTokenizer.from_pretrained(D, padding_side="left"), AutoModelForCausalLM.from_pretrained(D)
    t.pad_token = t.pad_token or t.eos_token
    ids = t([f"The number {i} is" for i in range(32)], return_tensors="pt", padding=True)
    return len(m.generate(**ids, max_new_tokens=32, do_sample=False))

def t15_logits():
    from transformers import AutoModelForCausalLM, AutoTokenizer
    t, m = AutoTokenizer.from_pretrained(D), AutoModelForCausalLM.from_pretrained(D)
    return m(**t("Once upon a time", return_tensors="pt")).logits.shape

def t16_perplexity():
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    t, m = AutoTokenizer.from_pretrained(D), AutoModelForCausalLM.from_pretrained(D)
    ids, nll = t(TEXT, return_tensors="pt")["input_ids"][0], []
    with torch.no_grad():
        for w in range(4):
            part = ids[w * 512 : w * 512 + 512]
            p = m(part[None]).logits[0, 256:511].float().log_softmax(-1)
            nll.append(-p.gather(1, part[257:512, None]).mean())
    return float(torch.stack(nll).mean().exp())
