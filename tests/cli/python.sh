#!/bin/sh
# The Python package against the installed library, without numpy: files, tokens, a template, an answer in pieces, a command,
# exceptions. All of it, with numpy and from a wheel: make wheel wheel-test.
set -eu
stage=$(dirname "$HONE")/stage/opt/hone
[ -e "$stage/lib/libhone.so.2" ] || { echo "SKIP: no $stage (make test installs there)"; exit 77; }
command -v python3 > /dev/null || { echo "SKIP: no python3"; exit 77; }
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || { echo "SKIP: python3 is older than 3.9"; exit 77; }
[ -z "${SANF:-}" ] || { echo "SKIP: an interpreter without the sanitizer cannot load the library"; exit 77; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
gen=${HONE_GEN:-build/gen}
"$gen/gen" fields > "$t/fields"
python3 python/make_steps.py "$gen/include/hone.h" "$t/fields" > "$t/steps.py"
"$HONE" convert tests/golden/tiny-qwen35moe -o "$t/m.gguf" --type q8_0 -q > /dev/null
cp python/hone_gguf/*.py "$t" && mkdir "$t/hone_gguf" && mv "$t"/*.py "$t/hone_gguf"
# members of the ctypes structs have the offsets of hone.h
cat > "$t/layout.py" << 'END'
import re, hone_gguf.jobs, hone_gguf.steps
from hone_gguf import _lib
def kinds(c):
    for k in c.__subclasses__():
        yield k
        yield from kinds(k)
print('#include <hone.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n    int bad = 0;')
n = 0
for k in kinds(_lib.Sized):
    if '_fields_' not in vars(k): continue
    name = 'hone_' + re.sub('(?<!^)(?=[A-Z])', '_', k.__name__.removesuffix('Struct').replace('TensorInfo', 'Tensor')).lower()
    for f, *_ in k._fields_:
        print(f'    if (offsetof(struct {name}, {f}) != {getattr(k, f).offset}) bad += printf("struct {name}: {f} lies elsewhere in Python\\n");')
    n += 1
assert n > 20, n
print('    return bad != 0;\n}')
END
PYTHONPATH=$t HONE_LIBRARY=$stage/lib/libhone.so.2 python3 "$t/layout.py" > "$t/layout.c"
${CC:-cc} -std=c11 -I"$stage/include" "$t/layout.c" -o "$t/layout" && "$t/layout"
cat > "$t/try.py" << 'END'
import sys, threading
from hone_gguf import GGUF, Cancelled, DataError, MissingFile, Model, Template, Tokenizer, Type, inspect, plan, quantize
assert "numpy" not in sys.modules
from hone_gguf import UsageError, _lib  # times are written as in the commands
for text, s in ("90s", 90), ("30m", 1800), ("1h30m", 5400), ("1 H 30 m", 5400), ("1.5d", 129600), (2, 7200), ("0.5", 1800), (0, -1), ("0", -1):
    assert _lib.seconds(text) == s, (text, _lib.seconds(text))
for text in "", "h", "1h30", "30m1h", "-1", "1:30", "nan":
    try:
        _lib.seconds(text)
        raise AssertionError(text)
    except UsageError:
        pass
m = sys.argv[1]
g = GGUF(m)
assert g.metadata["general.architecture"] == "qwen35moe" and len(g.metadata["tokenizer.ggml.tokens"]) == 4096
assert g.metadata["tokenizer.ggml.tokens"][5] == Tokenizer(m).token(5)
assert "absent" not in g.metadata and g.tensors["token_embd.weight"].shape == (4096, 256)
assert Type("q4_k").bits_per_weight == 4.5
tok = Tokenizer(m)
assert tok.decode(tok.encode("Once upon \u00fc\n")) == "Once upon \u00fc\n"
talk = [{"role": "user", "content": "Hi <|im_end|>"}]
end = tok.encode("<|im_end|>", control=True)
assert len(end) == 1 and Template.of(g).tokens(tok, talk).count(end[0]) == 1  # the template's own
model = Model(m, n_ctx=256)
whole = model.generate("Once upon", max_tokens=12)
assert whole.stop == "length" and "".join(model.generate("Once upon", max_tokens=12, stream=True)) == whole
assert model.generate_many(["Once upon", "A"], max_tokens=12)[0] == whole
both, got = model.generate("Once upon", max_tokens=12, stream=True), []
reading = [threading.Thread(target=lambda: got.extend(both), daemon=True) for _ in range(3)]
for x in reading: x.start()
for x in reading: x.join(60)
assert not any(x.is_alive() for x in reading) and both.answer == whole and sorted(got) == sorted(model.generate("Once upon", max_tokens=12, stream=True))
assert "hello" in model.template.render([{"role": "user", "content": "hello"}])
assert plan(m)["total_bytes"] > 10**7
from hone_gguf import template_fix
fixed = template_fix("tests/golden/templates/repair/chatml.jinja")
assert any(r["rule"] == "CONTENT-NULL" and r["after"] for r in fixed["repairs"]) and fixed["diff"].startswith("---")
null = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": None}, {"role": "user", "content": "Ho"}]
assert "None" not in Template(fixed["template"]).render(null) and "Ho" in Template(fixed["template"]).render(null)
for bad, kind in ((lambda: GGUF("absent"), MissingFile), (lambda: GGUF(__file__), DataError),
                  (lambda: quantize(m, m + "2", "Q4_K_M", progress=lambda *a: 1), Cancelled),
                  (lambda: quantize(m, m + "2", "Q4_K_M", progress=lambda *a: 1 // 0), ZeroDivisionError)):
    try:
        bad()
    except kind:
        continue
    sys.exit(f"no {kind}")
import json, threading, urllib.request
import hone_gguf
from hone_gguf import Cancel, UsageError, eval_kv, recipes, serve
assert eval_kv(head_dims="64", depths="32", kv_type=["q8_0", "q4_0"], cosine=0.4)["cosine"] == 0.4
for bad, kind in ((lambda: hone_gguf.eval_ppl("absent", "absent"), MissingFile), (lambda: recipes(m, plan_out=m + "x"), UsageError),
                  (lambda: serve(m, colour="red"), TypeError), (lambda: serve(m, host="no.such.host.invalid", port=0), Exception)):
    try:
        bad()
    except kind:
        continue
    sys.exit(f"no {kind}")
stop, where, asked = Cancel(), [], []
at = threading.Event()
t = threading.Thread(target=lambda: serve(m, port=0, n_ctx=256, cancel=stop, request=asked.append, ready=lambda x: (where.append(x["url"]), at.set())))
t.start()
assert at.wait(30)
ask = urllib.request.Request(where[0] + "/v1/completions", json.dumps({"prompt": "Once upon", "max_tokens": 12, "temperature": 0}).encode(), {"Content-Type": "application/json"})
assert json.load(urllib.request.urlopen(ask))["choices"][0]["text"] == whole
stop.now()
t.join(30)
assert not t.is_alive() and asked[0]["status"] == 200
stop, at = Cancel(), threading.Event() # two files, each by its name; temperature 0 is greedy, as in the command
t = threading.Thread(target=lambda: serve([m, m], temperature=0, alias="one,two", max_memory="1GiB", port=0, n_ctx=256, cancel=stop, ready=lambda x: (where.append(x["url"]), at.set())))
t.start()
assert at.wait(30)
for name in "two", "one":
    ask = urllib.request.Request(where[1] + "/v1/completions", json.dumps({"model": name, "prompt": "Once upon", "max_tokens": 12}).encode(), {"Content-Type": "application/json"})
    assert json.load(urllib.request.urlopen(ask))["choices"][0]["text"] == whole
assert [x["id"] for x in json.load(urllib.request.urlopen(where[1] + "/v1/models"))["data"]] == ["one", "two"]
stop.now()
t.join(30)
assert not t.is_alive()
assert model.generate("Say ", choices=["left", "right"]) in ("left", "right")
assert model.generate("x", grammar='root ::= "a" | "b"') in ("a", "b")
assert "<table>" in inspect(m)._repr_html_()
# arguments of a wrong type, numbers that do not fit, texts with a NUL, bytes in place of tokens
eos = tok.special["eos"]
for bad, kind in ((lambda: tok.decode(b"G\0\0\0"), TypeError), (lambda: tok.decode(bytearray(b"G\0\0\0")), TypeError), (lambda: model.generate(bytearray(b"G")), TypeError),
                  (lambda: tok.token(1.5), TypeError), (lambda: tok.token(2**32 + 71), IndexError), (lambda: tok.ends("x"), TypeError), (lambda: tok.find(5), TypeError),
                  (lambda: tok.find("h\0zzz"), UsageError), (lambda: Type("Q4_K\0x"), UsageError), (lambda: Type(2**32 + 12), UsageError), (lambda: Type(1.5), TypeError),
                  (lambda: model.perplexity("a b", n_ctx="x"), TypeError), (lambda: model.perplexity("a b", n_ctx=2**64 + 64), UsageError),
                  (lambda: model.generate_many(["x"], at_once="x"), TypeError), (lambda: model.generate("x", regex=5), TypeError), (lambda: model.generate("x", grammar=5), TypeError),
                  (lambda: model.generate("x", choices=[1]), TypeError), (lambda: model.generate("x", stop=[b"x"]), TypeError), (lambda: Template(5), TypeError),
                  (lambda: Model(m, device=5), TypeError), (lambda: model.template.read_answer(5), TypeError), (lambda: serve([]), UsageError)):
    try:
        bad()
    except kind:
        continue
    sys.exit(f"no {kind}")
assert tok.ends(eos) and not tok.ends(2**32 + eos)
# tools from a generator; halves of surrogate pairs; a template that is not UTF-8
def tool(): return {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
assert model._ids(talk, tools=(tool() for _ in range(1))) == model._ids(talk, tools=[tool()]) != model._ids(talk)
assert Template("{{ messages[0].content }}").render([{"role": "user", "content": "a\ud800b\U0001f600"}]) == "a\ufffdb\U0001f600"
with open(m + ".jinja", "wb") as f: f.write(b"\xff")
try: sys.exit(f"a template that is not UTF-8: {Template.of(m + '.jinja')}")
except DataError: pass
# a model that is closed frees its memory; of a file in memory nothing can be pickled
import pickle
held = model.tokenizer
def mapped():
    return open("/proc/self/maps", encoding="utf-8").read().count(m)
with Model(m, n_ctx=64) as own:
    own.generate("x", max_tokens=1)
def closes(call):
    try: return call() and False
    except UsageError as error: return "closed" in str(error)
assert closes(lambda: own.generate("x")) and closes(lambda: own.tokenizer)
model.close()
assert held.decode(held.encode("a b")) == "a b"
del held, model, whole, both
g = None
import gc, time
for _ in range(50): # threads take a moment to end
    gc.collect()
    if not mapped(): break
    time.sleep(0.1)
assert not mapped(), open("/proc/self/maps").read()
own.close()
memory = GGUF.from_bytes(open(m, "rb").read())
for x in Tokenizer(memory), Template.of(memory):
    try: sys.exit(f"pickled: {pickle.dumps(x)}")
    except TypeError: pass
# cancelling stops what runs, not what waits or comes later
model, ended = Model(m, n_ctx=2048, threads=1), []
def work(n):
    try: ended.append((n, len(model.generate("Once upon", max_tokens=n, temperature=2.0).tokens)))
    except Cancelled: ended.append((n, "cancelled"))
model.cancel() # nothing runs
for _ in range(5):
    begun, ended[:] = threading.Event(), []
    long = threading.Thread(target=lambda: begun.set() or work(2000))
    long.start()
    begun.wait()
    time.sleep(0.05)
    later = [threading.Thread(target=work, args=(2,)) for _ in range(3)]
    for x in later: x.start()
    model.cancel()
    for x in [long, *later]: x.join(60)
    work(3)
    assert sorted(n for n, _ in ended) == [2, 2, 2, 3, 2000] and all(a != "cancelled" for n, a in ended if n < 9), ended
END
HONE_LIBRARY=$stage/lib/libhone.so.2 PYTHONPATH=$t python3 "$t/try.py" "$t/m.gguf"
