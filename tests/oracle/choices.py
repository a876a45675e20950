# SPDX-License-Identifier: MIT
"""Multiple-choice scores and greedy answers of the tiny model, computed by transformers in float32.

    python tests/oracle/choices.py tests/golden/tiny-qwen35moe tests/golden/suites

Reads hellaswag.txt, winogrande.csv and mmlu.csv in that folder (our own texts) and writes choice.bin (the same questions as
mmlu.csv in llama.cpp's binary format) and choices.json: per task the score of every choice, and the model's greedy answers to
the first 12 cases of tools.jsonl. Computes one sequence at a time without a cache, unlike our code, which branches. docs/formats/choices.md
defines the scores."""
import csv
import json
import struct
import sys

import torch
import transformers

MODEL, DIR = sys.argv[1], sys.argv[2]
tok = transformers.AutoTokenizer.from_pretrained(MODEL)
model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).eval()


def ids_of(text):
    return tok(text, add_special_tokens=False)["input_ids"]


@torch.no_grad()
def logprobs(ids):
    """log p(ids[i] | ids[:i]) for i >= 1; entry 0 is 0."""
    out = torch.log_softmax(model(torch.tensor([ids]), use_cache=False).logits[0].double(), -1)
    return [0.0] + [out[i - 1, t].item() for i, t in enumerate(ids) if i]


def common(seqs):
    n = 0
    while all(n < len(s) for s in seqs) and len({s[n] for s in seqs}) == 1:
        n += 1
    return n


def mean(lp, a, b):
    return sum(lp[a:b]) / (b - a)


def after_prefix(context, choices):
    seqs = [ids_of(context + " " + c) for c in choices]
    n = common(seqs)
    return [mean(logprobs(s), n, len(s)) for s in seqs]


def hellaswag():
    lines = open(f"{DIR}/hellaswag.txt").read().split("\n")
    for i in range(0, len(lines) - 5, 6):
        yield int(lines[i + 1]), after_prefix(lines[i], lines[i + 2:i + 6])


def winogrande():
    for row in csv.reader(open(f"{DIR}/winogrande.csv")):
        before, after = row[1].split("_", 1)
        seqs = [ids_of(before + c + after) for c in row[2:4]]
        n = common(seqs)
        skip = all(len(s) - n > 3 for s in seqs)
        scores = []
        for s, c in zip(seqs, row[2:4]):
            first = len(ids_of(before + c)) if skip else n
            scores.append(mean(logprobs(s), first, len(s) - (len(s) - first > 1)))
        yield int(row[4]) - 1, scores


def letters():
    for q, a, b, c, d, right in csv.reader(open(f"{DIR}/mmlu.csv")):
        prompt = f"{q}\nA. {a}\nB. {b}\nC. {c}\nD. {d}\nAnswer:"
        yield "ABCD".index(right), after_prefix(prompt, list("ABCD"))


def binary():
    tasks = list(csv.reader(open(f"{DIR}/mmlu.csv")))
    text = lambda s: struct.pack("<I", len(s.encode())) + s.encode()
    blobs = []
    for q, *choices, right in tasks:
        n, k = len(choices), "ABCD".index(right)
        mc1 = struct.pack("<I", n) + b"".join(map(text, choices)) + struct.pack("<%di" % n, *[int(i == k) for i in range(n)])
        blobs.append(text(q) + mc1 + struct.pack("<I", 0))
    at, offsets = 0, []
    for b in blobs:
        offsets.append(at)
        at += len(b)
    with open(f"{DIR}/choice.bin", "wb") as f:
        f.write(struct.pack("<I", len(blobs)) + struct.pack("<%dI" % len(blobs), *offsets) + b"".join(blobs))
    for q, *choices, right in tasks:
        yield "ABCD".index(right), after_prefix(q, choices)


@torch.no_grad()
def answers():
    """Greedy generation with the expected call as a draft: one pass shows where the model's own choice first differs. That
    choice is kept and the rest of the draft is put after it. Takes one pass per wrong token and gives the same text as token by
    token."""
    end = tok.convert_tokens_to_ids("<|im_end|>")
    for line in list(open(f"{MODEL}/tools.jsonl"))[:12]:
        c = json.loads(line)
        ids = ids_of(tok.apply_chat_template(c["messages"], tools=c["tools"], add_generation_prompt=True, tokenize=False))
        call = {"role": "assistant", "content": "", "reasoning_content": f"I should call {c['expect']['name']}.",
                "tool_calls": [{"type": "function", "function": c["expect"]}]}
        draft = ids_of(tok.apply_chat_template(c["messages"] + [call], tools=c["tools"], tokenize=False))
        assert draft[:len(ids)] == ids
        n, draft = len(ids), draft[len(ids):]
        while end not in ids[n:] and len(ids) - n < 120:
            best = model(torch.tensor([ids + draft]), use_cache=False).logits[0].argmax(-1).tolist()[len(ids) - 1:]
            k = 0
            while k < len(draft) and draft[k] == best[k]:
                k += 1
            ids += draft[:k] + ([best[k]] if k == len(draft) or draft[k] != best[k] else [])
            draft = draft[k + 1:]
        ids = ids[:n + ids[n:].index(end)]
        yield {"id": c["id"], "n_prompt": n, "text": tok.decode(ids[n:])}


out = {"oracle": f"transformers {transformers.__version__}, torch {torch.__version__}, float32, CPU"}
for name, f in (("hellaswag", hellaswag), ("winogrande", winogrande), ("mmlu", letters), ("choice", binary)):
    out[name] = [{"right": r, "scores": [round(s, 7) for s in scores]} for r, scores in f()]
out["answers"] = list(answers())
text = json.dumps(out, ensure_ascii=False).replace('{"right"', '\n{"right"').replace('{"id"', '\n{"id"')
open(f"{DIR}/choices.json", "w").write(text + "\n")
