# SPDX-License-Identifier: MIT
"""End tokens: lists in config files, templates in published styles, files from other programs.

Right: the ends are exactly the ids at which transformers' generate() stops (GenerationConfig, eos_token), the marker that a
template writes after an answer (determined manually, in the table), and the texts at which llama.cpp stops: special_eog_ids of
llama-vocab.cpp, which begin with the tokens that pad and separate files for fill-in-the-middle (special_fim_pad_id, _rep_id,
_sep_id)."""
import json
import pathlib
import shutil
import tempfile

from published import checkpoint, convert, edit, hone, keys, tokenizer, trial

USUAL = set("<|fim_pad|> <fim-pad> <fim_pad> <PAD> [PAD] <|fim_repo|> <|repo_name|> <fim-repo> <REPO> <reponame> <|file_sep|> <|eot_id|> <|im_end|> <|end|> <|return|> <|call|> <|flush|> <|calls|> <end_of_turn> <|endoftext|> </s> <|eom_id|> <EOT> _<EOT> [EOT] [EOS] "
            "<|end_of_text|> <end_of_utterance> <eos> <turn|> <|tool_response> <｜end▁of▁sentence｜> [e~[".split())
MADE = []  # the micro model, made only once


def folder(scratch, specials, template=None, eos=None, config=None, generation=None, text=None, tokens=None):
    """A Qwen3 folder with the given special tokens. config and generation are the values of eos_token_id there (...:
    the key is missing)."""
    if not MADE:
        MADE.append(tempfile.TemporaryDirectory())
        checkpoint(MADE[0].name, "qwen3", vocab_size=400)
    d = pathlib.Path(shutil.copytree(pathlib.Path(MADE[0].name, "model"), pathlib.Path(scratch, "model")))
    t = tokenizer(tuple(specials))
    t.save(str(d / "tokenizer.json"))
    ids = lambda v: [ids(x) for x in v] if isinstance(v, list) else t.token_to_id(v) if isinstance(v, str) else v
    for name, value in (("config.json", config), ("generation_config.json", generation)):
        edit(d, name, lambda c: {k: v for k, v in c.items() if k not in ("bos_token_id", "eos_token_id", "pad_token_id")})
        if value is not ...:
            edit(d, name, lambda c: {**c, "eos_token_id": ids(value)})
    if text is not None:
        edit(d, "config.json", lambda c: {**c, "text_config": {"eos_token_id": ids(text)}})
    edit(d, "tokenizer_config.json", lambda c: {"tokenizer_class": "PreTrainedTokenizerFast", **({} if eos is None else {"eos_token": eos}), **(tokens or {}),
                                                **({} if template is None else {"chat_template": template})})
    return d, t


def stops(path):
    p = hone("inspect", path, "--json", "--keys", "none")
    return {x["id"] for x in json.loads(p.out)["ends"]}


def judge(p, t, want, never=()):
    """Compares the tokens that end an answer; want and never are the texts of tokens that must and must not."""
    if p.rc:
        return ("crashed" if p.crashed else "wrong"), p.err[-300:]
    size = t.get_vocab_size()
    got = {t.id_to_token(i) for i in stops(p.path) if i < size}
    missing, more = set(want) - got, got - set(want) - (USUAL - set(never))
    return ("wrong" if missing or more else "right"), f"ends {sorted(got)}, missing {sorted(missing)}, too many {sorted(more)}"


SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|a|>", "<|b|>", "<|c|>", "<|d|>"]


def listed(name, **files):
    @trial("ends", "list: " + name)
    def _(scratch):
        from transformers import AutoTokenizer, GenerationConfig

        d, t = folder(scratch, SPECIALS, **files)
        try:
            ids = GenerationConfig.from_pretrained(d).eos_token_id
        except Exception:  # lists that its checks refuse
            ids = json.loads((d / "generation_config.json").read_text()).get("eos_token_id")
        ids = ids if isinstance(ids, list) else [ids]
        c = json.loads((d / "config.json").read_text())
        for v in (c.get("eos_token_id"), c.get("text_config", {}).get("eos_token_id")):
            ids += v if isinstance(v, list) else [v]
        want = {t.id_to_token(i) for i in ids if isinstance(i, int) and 0 <= i < t.get_vocab_size()}
        return judge(convert(d), t, want | ({AutoTokenizer.from_pretrained(d).eos_token} & t.get_vocab().keys()))


for c in (..., None, "<|a|>", ["<|a|>", "<|b|>"]):
    for g in (..., None, "<|c|>", ["<|c|>", "<|a|>", "<|c|>"]):
        for e in (None, "<|d|>"):
            listed(f"config {c}, generation {g}, eos_token {e}".replace("Ellipsis", "missing"), config=c, generation=g, eos=e)
listed("ids past the vocabulary", config=["<|a|>", 399, 100000, 2**31, 2**63 - 1], generation=[-1, "<|b|>"])
listed("ids past the vocabulary only", config=[100000], generation=100000, eos="<|a|>")
listed("four without keys", config=["<|a|>", "<|b|>", "<|c|>", "<|d|>"], generation=["<|im_end|>", "<|endoftext|>"])
listed("text_config", config=..., text=["<|a|>", "<|b|>"])
listed("text_config beside config", config="<|c|>", generation=..., text=["<|a|>", "<|b|>"])
listed("an object", eos={"content": "<|b|>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "__type": "AddedToken"})
listed("an empty list", config=[], generation=[], eos="<|b|>")
listed("eos_token that the tokenizer has not", config="<|a|>", eos="<|nowhere|>")

EACH, END, INVITE = "{%- for m in messages -%}", "{%- endfor -%}", "{%- if add_generation_prompt -%}"
GEMMA = EACH + "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' + m.content + '<end_of_turn>\\n' }}" + END + INVITE + "<start_of_turn>model\n{%- endif -%}"
# name, special tokens, template, what must end an answer, what must not, ids listed (the first is eos)
SHAPES = [
    ("chatml", ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], EACH + "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}" + END + INVITE + "<|im_start|>assistant\n{%- endif -%}", "<|im_end|>", "", "<|endoftext|>"),
    ("chatml, marks renamed", ["<|pad|>", "<|turn_begin|>", "<|turn_done|>"], EACH + "{{ '<|turn_begin|>' + m.role + '\\n' + m.content + '<|turn_done|>\\n' }}" + END + INVITE + "<|turn_begin|>assistant\n{%- endif -%}", "<|turn_done|>", "", "<|pad|>"),
    ("llama 3", ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>"], "{{ bos_token }}" + EACH + "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content + '<|eot_id|>' }}" + END + INVITE + "<|start_header_id|>assistant<|end_header_id|>\n\n{%- endif -%}", "<|eot_id|>", "", "<|end_of_text|>"),
    ("llama 3, marks renamed", ["<|bot|>", "<|eot|>", "<|hs|>", "<|he|>", "<|fin|>"], "{{ bos_token }}" + EACH + "{{ '<|hs|>' + m.role + '<|he|>\\n\\n' + m.content + '<|fin|>' }}" + END + INVITE + "<|hs|>assistant<|he|>\n\n{%- endif -%}", "<|fin|>", "", "<|eot|>"),
    ("llama 4", ["<|begin_of_text|>", "<|end_of_text|>", "<|header_start|>", "<|header_end|>", "<|eot|>", "<|eom|>"], EACH + "{{ '<|header_start|>' + m.role + '<|header_end|>\\n\\n' + (m.content or '') }}{%- if m.tool_calls -%}{{ m.tool_calls | tojson }}<|eom|>{%- else -%}<|eot|>{%- endif -%}" + END + INVITE + "<|header_start|>assistant<|header_end|>\n\n{%- endif -%}", "<|eot|> <|eom|>", "", "<|end_of_text|>"),
    ("gemma 2", ["<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"], "{{ bos_token }}" + GEMMA, "<end_of_turn>", "", "<eos>"),
    ("gemma, marks renamed", ["<pad>", "<fin>", "<bos>", "<start_of_turn>", "<turn_over>"], "{{ bos_token }}" + GEMMA.replace("<end_of_turn>", "<turn_over>"), "<turn_over>", "", "<fin>"),
    ("gemma 4", ["<pad>", "<eos>", "<bos>", "<|turn>", "<turn|>", "<|channel>", "<channel|>"], EACH + "{{ '<|turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' }}{%- if m.reasoning_content -%}<|channel>thought\n{{ m.reasoning_content }}<channel|>{%- endif -%}{{ m.content + '<turn|>\\n' }}" + END + INVITE + "<|turn>model\n{%- endif -%}", "<turn|>", "<channel|>", "<eos>"),
    ("glm 4", ["<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"], "[gMASK]<sop>" + EACH + "{{ '<|observation|>\\n' if m.role == 'tool' else '<|' + m.role + '|>\\n' }}{{ m.content }}{%- for c in m.tool_calls or [] -%}{{ c.function.name + '\\n' + (c.function.arguments | tojson) }}{%- endfor -%}" + END + INVITE + "<|assistant|>\n{%- endif -%}", "<|user|> <|observation|>", "<|assistant|>", "<|endoftext|>"),
    ("glm 4, always invites", ["<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"], "[gMASK]<sop>" + EACH + "{{ '<|observation|>\n' if m.role == 'tool' else '<|' + m.role + '|>\n' }}{{ m.content }}{%- for c in m.tool_calls or [] -%}{{ c.function.name + '\n' + (c.function.arguments | tojson) }}{%- endfor -%}" + END + "<|assistant|>", "<|user|> <|observation|>", "<|assistant|>", "<|endoftext|>"),
    ("gpt-oss", ["<|startoftext|>", "<|endoftext|>", "<|return|>", "<|constrain|>", "<|channel|>", "<|start|>", "<|end|>", "<|message|>", "<|call|>"], EACH + "{%- if m.role == 'assistant' -%}{%- if m.thinking -%}<|start|>assistant<|channel|>analysis<|message|>{{ m.thinking }}<|end|>{%- endif -%}{%- if m.tool_calls -%}<|start|>assistant to=functions.{{ m.tool_calls[0].function.name }}<|channel|>commentary json<|message|>{{ m.tool_calls[0].function.arguments | tojson }}<|call|>{%- else -%}<|start|>assistant<|channel|>final<|message|>{{ m.content }}{{ '<|return|>' if loop.last and not add_generation_prompt else '<|end|>' }}{%- endif -%}{%- else -%}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{%- endif -%}" + END + INVITE + "<|start|>assistant{%- endif -%}", "<|return|> <|call|>", "<|end|>", "<|endoftext|>"),
    ("mistral", ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"], "<s>" + EACH + "{%- if m.role == 'user' -%}[INST] {{ m.content }}[/INST]{%- else -%} {{ m.content }}</s>{%- endif -%}" + END, "</s>", "[INST] [/INST]", "</s>"),
    ("phi 3", ["<|endoftext|>", "<|assistant|>", "<|end|>", "<|user|>", "<|system|>"], EACH + "{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}" + END + "{%- if add_generation_prompt -%}<|assistant|>\n{%- else -%}<|endoftext|>{%- endif -%}", "<|end|>", "<|user|>", "<|endoftext|>"),
    ("phi 4", ["<|endoftext|>", "<|im_start|>", "<|im_sep|>", "<|im_end|>"], EACH + "{{ '<|im_start|>' + m.role + '<|im_sep|>' + m.content + '<|im_end|>' }}" + END + INVITE + "<|im_start|>assistant<|im_sep|>{%- endif -%}", "<|im_end|>", "<|im_sep|>", "<|endoftext|>"),
    ("command r", ["<PAD>", "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>", "<EOS_TOKEN>"], "<BOS_TOKEN>" + EACH + "<|START_OF_TURN_TOKEN|>{{ '<|USER_TOKEN|>' + m.content if m.role != 'assistant' else '<|CHATBOT_TOKEN|><|START_RESPONSE|>' + m.content + '<|END_RESPONSE|>' }}<|END_OF_TURN_TOKEN|>" + END + INVITE + "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{%- endif -%}", "<|END_OF_TURN_TOKEN|>", "<|START_RESPONSE|> <|END_RESPONSE|>", "<EOS_TOKEN>"),
    ("deepseek", ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>"], "{{ bos_token }}" + EACH + "{{ '<｜User｜>' + m.content if m.role == 'user' else '<｜Assistant｜></think>' + m.content + '<｜end▁of▁sentence｜>' }}" + END + INVITE + "<｜Assistant｜><think>{%- endif -%}", "<｜end▁of▁sentence｜>", "</think>", "<｜end▁of▁sentence｜>"),
    ("minimax m2", ["]!p~[", "]~!b[", "]~b]", "[e~[", "<think>", "</think>"], "]~!b[" + EACH + "{{ ']~b]' + ('ai' if m.role == 'assistant' else m.role) + '\\n' + m.content + '[e~[\\n' }}" + END + INVITE + "]~b]ai\n<think>\n{%- endif -%}", "[e~[", "]~b]", "[e~["),
    ("kimi", ["[BOS]", "[EOS]", "<|im_end|>", "<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_middle|>"], EACH + "{{ '<|im_' + m.role + '|>' + m.role + '<|im_middle|>' + m.content + '<|im_end|>' }}" + END + INVITE + "<|im_assistant|>assistant<|im_middle|>{%- endif -%}", "<|im_end|>", "<|im_middle|>", "[EOS]"),
    ("hunyuan", ["<｜hy_begin▁of▁sentence｜>", "<｜hy_User｜>", "<｜hy_Assistant｜>", "<｜hy_place▁holder▁no▁2｜>"], "{{ bos_token }}" + EACH + "{{ '<｜hy_User｜>' + m.content if m.role != 'assistant' else '<｜hy_Assistant｜>' + m.content + '<｜hy_place▁holder▁no▁2｜>' }}" + END + INVITE + "<｜hy_Assistant｜>{%- else -%}<｜hy_place▁holder▁no▁8｜>{%- endif -%}", "<｜hy_place▁holder▁no▁2｜>", "<｜hy_Assistant｜>", "<｜hy_place▁holder▁no▁2｜>"),
    ("hunyuan a13b", ["<|startoftext|>", "<|extra_0|>", "<|extra_4|>", "<|eos|>"], EACH + "{{ '<|startoftext|>' + m.content + '<|extra_0|>' if m.role == 'user' else m.content + '<|eos|>' }}" + END, "<|eos|>", "<|extra_0|>", "<|eos|>"),
    ("exaone", ["[PAD]", "[BOS]", "[|endofturn|]", "[|system|]", "[|user|]", "[|assistant|]"], EACH + "{{ '[|' + m.role + '|]' + m.content }}{{ '[|endofturn|]' if m.role != 'user' }}{{ '\\n' }}" + END + INVITE + "[|assistant|]{%- endif -%}", "[|endofturn|]", "[|assistant|]", "[|endofturn|]"),
    ("granite", ["<|end_of_text|>", "<|start_of_role|>", "<|end_of_role|>", "<|tool_call|>"], EACH + "{{ '<|start_of_role|>' + m.role + '<|end_of_role|>' + m.content + '<|end_of_text|>\\n' }}" + END + INVITE + "<|start_of_role|>assistant<|end_of_role|>{%- endif -%}", "<|end_of_text|>", "<|end_of_role|>", "<|end_of_text|>"),
    ("solar", ["<|endoftext|>", "<|begin|>", "<|end|>", "<|think|>", "<|content|>", "<|flush|>", "<|calls|>"], EACH + "{%- if m.role == 'assistant' -%}{%- if m.reasoning_content -%}<|begin|>assistant<|think|>{{ m.reasoning_content }}<|end|>{%- endif -%}<|begin|>assistant<|content|>{{ m.content }}<|flush|>{%- else -%}<|begin|>{{ m.role }}<|content|>{{ m.content }}<|end|>{%- endif -%}" + END + INVITE + "<|begin|>assistant{%- endif -%}", "<|flush|>", "<|end|>", "<|endoftext|>"),
    ("dots", ["<|endofassistant|>", "<|userprompt|>", "<|endofuserprompt|>", "<|response|>", "<|endofresponse|>"], EACH + "{{ '<|userprompt|>' + m.content + '<|endofuserprompt|>' if m.role == 'user' else '<|response|>' + m.content + '<|endofresponse|>' }}" + END + INVITE + "<|response|>{%- endif -%}", "<|endofresponse|>", "<|endofuserprompt|>", "<|endofassistant|>"),
    ("eos after the last answer only", ["<|fin|>", "<|u|>", "<|a|>"], EACH + "{{ ('<|u|>' if m.role == 'user' else '<|a|>') + m.content }}{{ eos_token if loop.last and m.role == 'assistant' }}" + END + INVITE + "<|a|>{%- endif -%}", "<|fin|>", "<|a|>", "<|fin|>"),
    ("a trimmed answer, two marks", ["<|pad|>", "<|q|>", "<|ans|>", "<|ans_end|>", "<|turn_end|>"], EACH + "{{ ('<|q|>' if m.role == 'user' else '<|ans|>') + (m.content | trim) + ('<|ans_end|>' if m.role == 'assistant' else '') + '<|turn_end|>' }}" + END + INVITE + "<|ans|>{%- endif -%}", "<|turn_end|>", "<|q|>", "<|pad|>"),
    ("content as parts", ["<|pad|>", "<|s|>", "<|over|>"], EACH + "<|s|>{{ m.role }}\n{%- for p in m.content -%}{{ p.text }}{%- endfor -%}<|over|>" + END + INVITE + "<|s|>assistant\n{%- endif -%}", "<|over|>", "<|s|>", "<|pad|>"),
    ("generation blocks", ["<|pad|>", "<|s|>", "<|over|>"], EACH + "<|s|>{{ m.role }}\n{%- if m.role == 'assistant' -%}{% generation %}{{ m.content }}<|over|>{% endgeneration %}{%- else -%}{{ m.content }}<|over|>{%- endif -%}" + END + INVITE + "<|s|>assistant\n{%- endif -%}", "<|over|>", "<|s|>", "<|pad|>"),
    ("strict roles", ["<|pad|>", "<|s|>", "<|over|>"], "{%- if messages[0].role != 'system' -%}{{ raise_exception('system first') }}{%- endif -%}" + EACH + "<|s|>{{ m.role }}\n{{ m.content }}<|over|>" + END, "<|over|>", "<|s|>", "<|pad|>"),
    ("namespaces and macros", ["<|pad|>", "<|s|>", "<|over|>"], "{%- macro turn(m) -%}<|s|>{{ m.role }}\n{{ m.content }}<|over|>{%- endmacro -%}{%- set ns = namespace(i=0) -%}" + EACH + "{%- set ns.i = ns.i + 1 -%}{{ turn(m) }}" + END + INVITE + "<|s|>assistant{%- endif -%}", "<|over|>", "<|s|>", "<|pad|>"),
]


def shape(name, specials, template, want, never, eos):
    @trial("ends", "template: " + name)
    def _(scratch):
        d, t = folder(scratch, specials, template=template, eos=eos, config=eos, generation=..., tokens={"bos_token": specials[0]} if "{{ bos_token" in template else None)
        return judge(convert(d), t, set(want.split()) | {eos}, never.split())


for s in SHAPES:
    shape(*s)


def foreign(name, texts, want, template=None, **ids):
    """A file written by gguf-py with given texts of control tokens, and token ids under some keys."""
    @trial("ends", "file: " + name)
    def _(scratch):
        import gguf

        d, t = folder(scratch, ["<|z|>"])
        p = convert(d)
        out = pathlib.Path(scratch, "other.gguf")
        r = gguf.GGUFReader(p.path)
        w = gguf.GGUFWriter(out, "qwen3")
        size = len(keys(p.path)["tokenizer.ggml.tokens"])
        for k, f in r.fields.items():
            if k.startswith(("GGUF.", "general.architecture", "hone.", "tokenizer.hone")) or "_token" in k or k.endswith((".tokens", ".token_type", ".merges", "chat_template")):
                continue
            w.add_key_value(k, f.contents(), f.types[0], f.types[-1] if len(f.types) > 1 else None)
        w.add_token_list(list(keys(p.path)["tokenizer.ggml.tokens"][: size - len(texts)]) + texts)
        w.add_token_types([1] * (size - len(texts)) + [3] * len(texts))
        w.add_token_merges(keys(p.path)["tokenizer.ggml.merges"])
        at = {x: size - len(texts) + i for i, x in enumerate(texts)}
        for k, x in ids.items():
            v = [at[y] for y in x] if isinstance(x, list) else at[x]
            w.add_array(f"tokenizer.ggml.{k}", v) if isinstance(v, list) else w.add_uint32(f"tokenizer.ggml.{k}", v)
        if template:
            w.add_chat_template(template)
        for x in r.tensors:
            w.add_tensor(x.name, x.data, raw_dtype=x.tensor_type)
        w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
        made = [("itself", out)]
        for verb, args in (("quantized", ["quantize", out, "-o", scratch + "/q.gguf", "--recipe", "Q8_0"]), ("merged", ["merge", scratch + "/s-00001-of-00002.gguf", "-o", scratch + "/m.gguf"])):
            if verb == "merged":
                hone("split", out, "-o", scratch + "/s", "--max-size", "300KiB")
                args[1] = sorted(pathlib.Path(scratch).glob("s-00001-*"))[0]
            q = hone(*args)
            if q.rc:
                return "wrong", q.err[-300:]
            made.append((verb, args[-3] if verb == "quantized" else args[-1]))
        odd = [(v, sorted(stops(f))) for v, f in made if stops(f) != {at[x] for x in want.split()}]
        return ("wrong" if odd else "right"), f"{odd}, expected {want} {at}"


U = ["<|u|>", "<|v|>", "<|w|>"]
foreign("eos key only", U, "<|u|>", eos_token_id="<|u|>")
foreign("eos and eot keys", U, "<|u|> <|v|>", eos_token_id="<|u|>", eot_token_id="<|v|>")
foreign("eot key only", U, "<|v|>", eot_token_id="<|v|>")
foreign("eom key only", U, "<|w|>", eom_token_id="<|w|>")
foreign("all keys", U, "<|u|> <|v|> <|w|>", eos_token_id="<|u|>", eot_token_id="<|v|>", eom_token_id="<|w|>")
foreign("a list of Ollama's", U, "<|u|> <|v|> <|w|>", eos_token_id="<|u|>", eos_token_ids=["<|u|>", "<|v|>", "<|w|>"])
foreign("no key, usual texts", ["<|im_start|>", "<|im_end|>", "<|endoftext|>"], "<|im_end|> <|endoftext|>")
foreign("no key, gpt-oss texts", ["<|start|>", "<|end|>", "<|return|>", "<|call|>"], "<|return|> <|call|>")
foreign("no key, Gemma 4 texts", ["<|tool_response>", "</s>", "<turn|>"], "<|tool_response> <turn|>")
foreign("eos key, template's own mark", U, "<|u|> <|w|>", template=EACH + "<|v|>{{ m.content }}<|w|>" + END, eos_token_id="<|u|>")
