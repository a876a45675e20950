#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a YAML parser says of front matters: python3 tests/oracle/front.py > tests/golden/front/cases.json

PyYAML 6.0.3. Scalars are kept as text (BaseLoader); duplicate keys are refused, as the Hub's parser refuses them and PyYAML
does not. `read` is null where a value is a block of text, or neither a scalar nor a list of scalars: containers/front.c keeps those unread. STRICT cases
are YAML that containers/front.c refuses on purpose (its header says why).
"""
import json
import yaml

CASES = r'''
license: mit
===
license: "mit"
base_model: 'Qwen/Qwen3.5-35B-A3B'
===
a: 'it''s'
===
a: "say \"hi\" \\ back"
===
a: "line\nbreak\ttab"
===
a: "caf\u00e9 \u4e2d"
===
a: b # a comment
===
a: "b # no comment" # a comment
===
a: b#c
===
a: http://x.org/y#z
===
# only a comment
a: b
===
a:
===
a: # nothing
b: c
===
a: [x, y]
===
a: [ x , "y, z", 'w' ]
===
a: []
===
a: [x]  # one
===
a:
- x
- "y: z"
- 'w'
===
a:
  - x
  - y
b: c
===
a:
- x # first
# between
- y
===
a:
  b: c
  d:
  - e
f: g
===
a:
- name: x
  type: y
- name: z
b: c
===
a: |
  text: of
  - any kind
b: c
===
a: >-
  folded
b: c
===
a: 2026-11-21
b: 1.0
c: true
d: null
===
a: ""
===
a: '#'
===
a: x - y
===
a: x:y
===
a: -x
===
a: b c d
===
a: c++
===
a: ünïcödé
===
a: {b: c}
===
a: b

c: d
===
a: "b
===
a: 'b
===
a: b: c
===
a: "b" c
===
a: [x, y
===
a: [x, "y]
===
a: b
a: c
===
	a: b
===
a:
	- b
===
a: @b
===
a: `b
===
a: %b
===
a: *b
===
a: ]
===
a: }
===
a: , b
===
a: - b
===
a b
===
a: b
 c: d
===
a: b
- c
===
- a
b: c
===
a: "\q"
===
a: ? b
===
a: "x\\"
===
a: ['it''s', "a\"]b"]
===
a: {b: c
===
"a": b
'c': d
===
"a: b
===
language: [
  en, fr,
  "de"
]
license: mit
===
a: [x,
  'y', z] # one
b: c
===
a: "one
  two"
b: c
===
a: 'one

  two'
===
a: {b: c,
  d: e}
f: g
===
extra_gated_prompt: |
  - an item that is none
  "a quote" in a text: with colon
    deeper
b: c
===
a: >2-
  text
b: c
===
license: other
license_name: tongyi-qianwen
license_link: https://huggingface.co/Qwen/Qwen3-0.6B/blob/main/LICENSE
base_model:
- Qwen/Qwen3-0.6B-Base
language: [en, zh]
tags: ["chat", conversational]
pipeline_tag: text-generation
library_name: transformers
model-index:
- name: x
  results:
  - task:
      type: text-generation
    metrics:
    - value: 1.5
widget:
- text: "a: b"
===
a: [x
b: c
===
a: {x
b: [c]
'''
STRICT = r'''
a: &x b
===
a: !!str b
===
a: b
...
'''


class Loader(yaml.BaseLoader):
    pass


def mapping(loader, node):
    seen = set()
    for key, _ in node.value:
        if key.value in seen:
            raise yaml.constructor.ConstructorError(None, None, 'twice', key.start_mark)
        seen.add(key.value)
    return yaml.BaseLoader.construct_mapping(loader, node, deep=True)


Loader.add_constructor('tag:yaml.org,2002:map', mapping)


def judge(text):
    try:
        doc = yaml.load(text, Loader)
    except yaml.YAMLError:
        return None
    if not isinstance(doc, dict):
        return None
    block = {k.value for k, v in yaml.compose(text, yaml.BaseLoader).value if getattr(v, 'style', None) in ('|', '>')}
    return {k: None if k in block else v if isinstance(v, str) else [str(i) for i in v] if isinstance(v, list) and all(isinstance(i, str) for i in v)
            else None for k, v in doc.items()}


def main():
    out = []
    for group, strict in ((CASES, False), (STRICT, True)):
        for text in group.strip('\n').split('\n===\n'):
            read = judge(text + '\n')
            out.append({'text': '---\n' + text + '\n---\n', 'yaml': read is not None, 'strict': strict, 'read': read})
    print(json.dumps(out, indent=1, ensure_ascii=True))


main()
