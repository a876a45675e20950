#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains the vision model of bench/vision.py: Qwen3-VL's shape with 3 million weights, on images that this script draws.

    python3 bench/models/shapes.py OUT_FOLDER [--minutes 30] [--threads 1]

--minutes is CPU time, so that a busy machine gives the same number of steps later. An image of 32 x 32 pixels, four tokens, has up
to one object in each quarter: one of four shapes or four digits in one of six colors. Questions ask for colors, shapes, digits,
counts and positions, and for a description. The tower first learns labels, then the words of the language model. The same questions are also asked about scenes described in words, so that
the language model is trained with and without the tower. OUT_FOLDER gets a checkpoint in the published layout, train.json with
the number of steps, images/ with eval.jsonl and text.jsonl (questions about images and about scenes in words, for `hone eval vision`) and
calib.jsonl (conversations for `hone imatrix`). Needs torch, transformers, tokenizers, Pillow.
"""
import argparse
import copy
import functools
import json
import math
import os
import random
import time

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

SIDE, PATCH, MERGE, VOCAB = 32, 8, 2, 512
N_SEEN, N_TOLD = 24, 12  # scenes of a step: images, and in words
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
COLORS = {"red": (220, 40, 40), "green": (40, 180, 60), "blue": (50, 80, 220), "yellow": (235, 215, 50), "purple": (150, 60, 190),
          "white": (245, 245, 245)}
SHAPES, DIGITS = ["circle", "square", "triangle", "cross"], ["1", "4", "7", "8"]
PLACES = ["top left", "top right", "bottom left", "bottom right"]
NUMBERS = ["zero", "one", "two", "three", "four"]
TEMPLATE = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.content is string %}{{ m.content }}{% else %}"
            "{% for c in m.content %}{% if c.type == 'image' %}{{ '<|vision_start|><|image_pad|><|vision_end|>' }}{% else %}{{ c.text }}"
            "{% endif %}{% endfor %}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}"
            "{{ '<|im_start|>assistant\n' }}{% endif %}")


# ---- scenes ----

def scene(rng):
    """One to four objects, often one: {place: (color, kind)}. No two are equal."""
    out = {}
    for place in sorted(rng.sample(range(4), rng.choice([1, 1, 1, 1, 1, 2, 2, 2, 3, 4]))):
        while True:
            thing = (rng.choice(list(COLORS)), rng.choice(SHAPES if rng.random() < 0.7 else DIGITS))
            if thing not in out.values():
                break
        out[place] = thing
    return out


@functools.cache
def font(size):
    return ImageFont.load_default(int(1.2 * size))


def draw(things, rng):
    shade = rng.randrange(0, 70)
    im = Image.new("RGB", (4 * SIDE, 4 * SIDE), tuple(shade + rng.randrange(20) for _ in range(3)))
    d = ImageDraw.Draw(im)
    for place, (color, kind) in things.items():
        size, q = rng.randrange(42, 56), 2 * SIDE
        x = q * (place % 2) + rng.randrange(2, q - size - 1)
        y = q * (place // 2) + rng.randrange(2, q - size - 1)
        rgb = tuple(max(0, min(255, c + rng.randrange(-15, 16))) for c in COLORS[color])
        box, mid = (x, y, x + size, y + size), size // 2
        if kind == "circle":
            d.ellipse(box, fill=rgb)
        elif kind == "square":
            d.rectangle(box, fill=rgb)
        elif kind == "triangle":
            d.polygon([(x + mid, y), (x, y + size), (x + size, y + size)], fill=rgb)
        elif kind == "cross":
            w = size // 3
            d.rectangle((x + w, y, x + 2 * w, y + size), fill=rgb)
            d.rectangle((x, y + w, x + size, y + 2 * w), fill=rgb)
        else:
            d.text((x + mid, y + mid), kind, fill=rgb, font=font(size), anchor="mm")
    return im.resize((SIDE, SIDE), Image.Resampling.BOX)


def called(thing):
    return f"a {thing[0]} {thing[1]}"


def described(things):
    return ", ".join(f"{called(t)} at the {PLACES[p]}" for p, t in things.items())


def questions(things, rng, n=4):
    """Up to n questions with answers in random order, and the request for a description."""
    place, (color, kind) = rng.choice(list(things.items()))
    kinds, colors = [t[1] for t in things.values()], [t[0] for t in things.values()]
    noun = "digit" if kind.isdigit() else "shape"
    other, where = rng.choice(SHAPES), rng.randrange(4)
    out = [("How many objects are there?", NUMBERS[len(things)]),
           (f"What is at the {PLACES[where]}?", called(things[where]) if where in things else "nothing"),
           (f"What is at the {PLACES[place]}?", called(things[place])),
           (f"Is there a {other}?", "yes" if other in kinds else "no")]
    if kinds.count(kind) == 1:
        out += [(f"Where is the {kind}?", f"at the {PLACES[place]}"), (f"What color is the {kind}?", color)]
    if colors.count(color) == 1:
        out.append((f"Which {noun} is {color}?", kind))
    rng.shuffle(out)
    out = out[:n]
    out.insert(rng.randrange(len(out) + 1), ("Describe the picture.", described(things)))
    return out


# ---- tokens ----

def train_tokenizer():
    rng, texts = random.Random(1), []
    for _ in range(2000):
        things = scene(rng)
        texts += [described(things)] + [f"{q}\n{a}" for q, a in questions(things, rng)]
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
            behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCAB - len(CONTROL), initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tok.train_from_iterator(texts, trainer)
    tok.add_special_tokens(CONTROL)
    return tok


class Coder:
    """Encodes conversations: ids and the weight of each token in the loss."""

    def __init__(self, tok):
        self.tok = tok
        self.id = {c: tok.token_to_id(c) for c in CONTROL}
        self.known = {}

    def text(self, s):
        if s not in self.known:
            self.known[s] = self.tok.encode(s, add_special_tokens=False).ids
        return self.known[s]

    def conversation(self, things, asked, seen):
        n = (SIDE // PATCH // MERGE) ** 2
        ids, weight = [], []

        def add(v, w):
            ids.extend(v)
            weight.extend([w] * len(v))

        for i, (q, a) in enumerate(asked):
            add([self.id["<|im_start|>"]] + self.text("user\n"), 0)
            if i == 0 and seen:
                add([self.id["<|vision_start|>"]] + [self.id["<|image_pad|>"]] * n + [self.id["<|vision_end|>"]], 0)
            elif i == 0:
                add(self.text(f"The picture shows {described(things)}. "), 0.05)
            add(self.text(q) + [self.id["<|im_end|>"]], 0.05)
            add(self.text("\n") + [self.id["<|im_start|>"]] + self.text("assistant\n"), 0)
            add(self.text(a) + [self.id["<|im_end|>"]], 1)
            add(self.text("\n"), 0)
        return ids, weight


def pixels(images):
    """The processor's patches: [patches in order of merged squares][3 * 2 * PATCH * PATCH], both frames equal."""
    g = SIDE // PATCH // MERGE
    x = np.stack([np.asarray(i, np.float32) for i in images]) / 127.5 - 1
    x = x.reshape(len(images), g, MERGE, PATCH, g, MERGE, PATCH, 3).transpose(0, 1, 4, 2, 5, 7, 3, 6)
    x = np.repeat(x[:, :, :, :, :, :, None], 2, axis=6)
    return torch.from_numpy(x.reshape(len(images) * (SIDE // PATCH) ** 2, -1))


def batch(coder, rng, n_seen, n_told):
    rows, images, scenes, describe = [], [], [], rng.random() < 0.35  # descriptions are longer: not in one batch with short answers
    for k in range(n_seen + n_told):
        things = scene(rng)
        asked = [q for q in questions(things, rng, 1) if q[0].startswith("Describe") == describe]
        rows.append(coder.conversation(things, asked, k < n_seen))
        if k < n_seen:
            images.append(draw(things, rng))
            scenes.append(things)
    longest, pad = max(len(r[0]) for r in rows), coder.id["<|endoftext|>"]
    ids = torch.tensor([r[0] + [pad] * (longest - len(r[0])) for r in rows])
    weight = torch.tensor([r[1] + [0] * (longest - len(r[1])) for r in rows])
    grid = torch.tensor([[1, SIDE // PATCH, SIDE // PATCH]] * n_seen)
    return ids, weight, pixels(images), grid, scenes


# ---- the model ----

def config(coder):
    c = Qwen3VLConfig(
        text_config=dict(vocab_size=VOCAB, hidden_size=256, intermediate_size=512, num_hidden_layers=3, num_attention_heads=4,
                         num_key_value_heads=2, head_dim=64, max_position_embeddings=2048, rms_norm_eps=1e-6, tie_word_embeddings=True,
                         bos_token_id=None, eos_token_id=coder.id["<|im_end|>"], pad_token_id=coder.id["<|endoftext|>"],
                         rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[12, 10, 10], mrope_interleaved=True)),
        vision_config=dict(depth=4, hidden_size=128, intermediate_size=384, num_heads=4, in_channels=3, patch_size=PATCH,
                           spatial_merge_size=MERGE, temporal_patch_size=2, out_hidden_size=256, num_position_embeddings=(SIDE // PATCH) ** 2,
                           deepstack_visual_indexes=[1]),
        image_token_id=coder.id["<|image_pad|>"], video_token_id=coder.id["<|video_pad|>"],
        vision_start_token_id=coder.id["<|vision_start|>"], vision_end_token_id=coder.id["<|vision_end|>"], tie_word_embeddings=True)
    c.architectures = ["Qwen3VLForConditionalGeneration"]
    return c


def forward(model, coder, ids, px, grid):
    types = (ids == coder.id["<|image_pad|>"]).int()
    return model(input_ids=ids, attention_mask=torch.ones_like(ids), pixel_values=px, image_grid_thw=grid, mm_token_type_ids=types,
                 use_cache=False).logits


def train_tower(model, rng, rate, seconds):
    """Teaches the tower alone, which takes fewer images: linear layers on the four tokens of each quarter name its color and kind."""
    kinds, colors, g = SHAPES + DIGITS, list(COLORS), SIDE // PATCH // MERGE
    head = torch.nn.Linear((g // 2) ** 2 * 256, len(colors) + len(kinds) + 2)
    params = list(model.model.visual.parameters()) + list(head.parameters())
    opt, start, step, right = torch.optim.AdamW(params, lr=rate, betas=(0.9, 0.98), weight_decay=0.02), time.process_time(), 0, []
    while time.process_time() - start < seconds:
        for group in opt.param_groups:
            group["lr"] = rate * min(1, (step + 1) / 100) * (1 - 0.9 * (time.process_time() - start) / seconds)
        scenes = [scene(rng) for _ in range(32)]
        px = pixels([draw(s, rng) for s in scenes])
        seen = model.model.visual(px, grid_thw=torch.tensor([[1, SIDE // PATCH, SIDE // PATCH]] * 32)).pooler_output
        seen = seen.view(32, 2, g // 2, 2, g // 2, 256).permute(0, 1, 3, 2, 4, 5).reshape(32 * 4, -1)
        said = head(seen)
        want = torch.tensor([[colors.index(s[p][0]) + 1, kinds.index(s[p][1]) + 1] if p in s else [0, 0] for s in scenes for p in range(4)])
        parts = said[:, : len(colors) + 1], said[:, len(colors) + 1 :]
        loss = sum(torch.nn.functional.cross_entropy(part, want[:, i]) for i, part in enumerate(parts))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        step += 1
        full = want[:, 0] > 0
        right.append([float((part.argmax(1) == want[:, i])[full].float().mean()) for i, part in enumerate(parts)])
        if step % 50 == 0:
            last = np.mean(right[-50:], axis=0)
            print(step, f"{(time.process_time() - start) / 60:.1f} min", f"the tower: {last[0]:.3f} of colors, {last[1]:.3f} of kinds", flush=True)
    return step


def words_loss(model, coder, seen, scenes):
    """Draws the tokens of a quarter to the embeddings of its words, so that an image is like a text to the language model."""
    g = SIDE // PATCH // MERGE
    seen = seen.view(len(scenes), 2, g // 2, 2, g // 2, 256).permute(0, 1, 3, 2, 4, 5).reshape(len(scenes) * 4, -1, 256)
    pairs = [coder.text(f"a {s[p][0]} {s[p][1]}")[1:] if p in s else coder.text("is nothing")[1:] * 2 for s in scenes for p in range(4)]
    words = torch.nn.functional.normalize(model.model.language_model.embed_tokens.weight.detach(), dim=-1)
    said = (20 * torch.nn.functional.normalize(seen, dim=-1) @ words.T).log_softmax(-1)
    want = torch.tensor([[p[0], p[-1]] for p in pairs])[:, None].expand(-1, seen.shape[1], -1)
    length = model.model.language_model.embed_tokens.weight.detach().norm(dim=-1).mean()
    return -said.gather(2, want).mean() + 0.1 * (seen.norm(dim=-1) / length - 1).pow(2).mean()


def train_words(model, coder, rng, rate, seconds):
    """Teaches the tower the words of the language model."""
    params = list(model.model.visual.parameters())
    opt, start, step, last = torch.optim.AdamW(params, lr=rate, betas=(0.9, 0.98)), time.process_time(), 0, []
    while time.process_time() - start < seconds:
        scenes = [scene(rng) for _ in range(32)]
        px = pixels([draw(s, rng) for s in scenes])
        seen = model.model.visual(px, grid_thw=torch.tensor([[1, SIDE // PATCH, SIDE // PATCH]] * 32)).pooler_output
        loss = words_loss(model, coder, seen, scenes)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        step += 1
        last.append(float(loss))
        if step % 50 == 0:
            print(step, f"{(time.process_time() - start) / 60:.1f} min", f"words: loss {np.mean(last[-50:]):.3f}", flush=True)
    return step


def shrink(model, rng):
    """Centers the tower's embeddings and gives them the length of the language model's."""
    px = pixels([draw(scene(rng), rng) for _ in range(64)])
    last = model.model.visual.merger.linear_fc2
    with torch.no_grad():
        seen = model.model.visual(px, grid_thw=torch.tensor([[1, SIDE // PATCH, SIDE // PATCH]] * 64)).pooler_output
        mean, scale = seen.mean(0), model.model.language_model.embed_tokens.weight.std() / (seen - seen.mean(0)).std()
        last.bias.sub_(mean).mul_(scale)
        last.weight.mul_(scale)
        for deep in model.model.visual.deepstack_merger_list:  # untrained so far, and much larger
            deep.linear_fc2.weight.mul_(0.005)
            deep.linear_fc2.bias.mul_(0.005)


def save(model, tok, out):
    copy.deepcopy(model).to(torch.bfloat16).save_pretrained(out)
    tok.save(f"{out}/tokenizer.json")
    with open(f"{out}/tokenizer_config.json", "w") as f:
        json.dump({"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "add_bos_token": False,
                   "model_max_length": 2048}, f, indent=1)
    with open(f"{out}/chat_template.jinja", "w") as f:
        f.write(TEMPLATE)
    with open(f"{out}/preprocessor_config.json", "w") as f:
        json.dump({"image_processor_type": "Qwen2VLImageProcessorFast", "patch_size": PATCH, "merge_size": MERGE, "temporal_patch_size": 2,
                   "size": {"shortest_edge": SIDE * SIDE, "longest_edge": 4 * SIDE * SIDE}, "image_mean": [0.5] * 3,
                   "image_std": [0.5] * 3}, f, indent=1)


def save_texts(out, n_images=100, n_texts=600):
    """Held-out scenes: images with questions, and the same kinds of questions about scenes in words."""
    rng = random.Random(2)
    os.makedirs(f"{out}/images", exist_ok=True)
    with open(f"{out}/images/eval.jsonl", "w") as f:
        for i in range(n_images):
            things = scene(rng)
            draw(things, rng).save(f"{out}/images/{i:03}.png")
            for q, a in questions(things, rng)[:3]:
                f.write(json.dumps({"image": f"{i:03}.png", "question": q, "answer": a}) + "\n")
    with open(f"{out}/images/text.jsonl", "w") as f:
        for _ in range(n_images):
            things = scene(rng)
            for q, a in questions(things, rng)[:3]:
                f.write(json.dumps({"image": [], "question": f"The picture shows {described(things)}. {q}", "answer": a}) + "\n")
    with open(f"{out}/calib.jsonl", "w") as f:
        for _ in range(n_texts):
            things, told = scene(rng), []
            for q, a in questions(things, rng):
                q = q if told else f"The picture shows {described(things)}. {q}"
                told += [{"role": "user", "content": q}, {"role": "assistant", "content": a}]
            f.write(json.dumps({"messages": told}) + "\n")


def train(model, coder, tok, a):
    opt = torch.optim.AdamW(model.parameters(), lr=a.rate, betas=(0.9, 0.98), weight_decay=0.02)
    rng, start, step, log, kept = random.Random(time.time_ns() if a.resume else 3), time.process_time(), 0, [], time.time()
    # The schedule follows CPU time.
    while time.process_time() - start < a.minutes * 60:
        share = (time.process_time() - start) / (a.minutes * 60)
        for g in opt.param_groups:
            g["lr"] = a.rate * min(1, (step + 1) / 100) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * share)))
        ids, weight, px, grid, scenes = batch(coder, rng, N_SEEN, N_TOLD)
        words = words_loss(model, coder, model.model.visual(px, grid_thw=grid).pooler_output, scenes)
        logits = forward(model, coder, ids, px, grid)
        w = weight[:, 1:].reshape(-1)
        each = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, VOCAB), ids[:, 1:].reshape(-1), reduction="none")
        ((each * w).sum() / w.sum() + 0.2 * words).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        step += 1
        # The loss of answers about images, and about scenes in words.
        sure, rows = (weight[:, 1:] == 1), each.detach().reshape(ids.shape[0], -1)
        log.append([round(float(rows[r][sure[r]].mean()), 4) for r in (slice(0, N_SEEN), slice(N_SEEN, N_SEEN + N_TOLD))])
        if step % 50 == 0:
            used, last = time.process_time() - start, np.mean(log[-50:], axis=0)
            print(step, f"{used / 60:.1f} min", f"loss {last[0]:.3f} images, {last[1]:.3f} text", flush=True)
        if time.time() - kept > 300:
            kept = time.time()
            save(model, tok, a.out)
    return step, log


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("out")
    ap.add_argument("--minutes", type=float, default=30)
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--resume", action="store_true", help="continue with the checkpoint in OUT_FOLDER, whose tower is trained")
    ap.add_argument("--words", action="store_true", help="with --resume: teach the tower the words first")
    ap.add_argument("--rate", type=float, default=1e-3)
    a = ap.parse_args()
    torch.manual_seed(52)
    torch.set_num_threads(a.threads)
    os.makedirs(a.out, exist_ok=True)
    tok = train_tokenizer()
    coder = Coder(tok)
    save_texts(a.out)
    model = Qwen3VLForConditionalGeneration(config(coder))
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M weights, {sum(p.numel() for p in model.model.visual.parameters()) / 1e6:.2f} M "
          f"of them in the tower", flush=True)
    rng, n_tower = random.Random(4), 0
    if a.resume:
        model.load_state_dict(Qwen3VLForConditionalGeneration.from_pretrained(a.out, dtype=torch.float32).state_dict())
    else:
        n_tower = train_tower(model, rng, a.rate, 0.08 * a.minutes * 60)
        shrink(model, rng)
    if not a.resume or a.words:
        n_tower += train_words(model, coder, rng, a.rate / 2, 0.07 * a.minutes * 60)
        a.minutes *= 0.85 if not a.resume else 0.93
    step, log = train(model, coder, tok, a)
    save(model, tok, a.out)
    with open(f"{a.out}/train.json", "w") as f:
        json.dump({"steps_tower": n_tower, "steps": step, "loss_images_text": log[::20]}, f)


if __name__ == "__main__":
    main()
