#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A YAML parser's results for front matters: python3 tests/oracle/card_yaml.py > tests/golden/card_yaml/cases.json

PyYAML 6. Scalars are kept as text (BaseLoader); duplicate keys are refused, as the Hub's parser refuses them and PyYAML
does not; tabs between words are left out here, as PyYAML alone refuses them. `read` is null if a value is neither a scalar nor
a list of scalars, which containers/card_yaml.c does not read. STRICT cases are valid YAML that it refuses: aliases on purpose
(see card_yaml.h for the reason), and pairs without a key in a list, where libyaml 0.2.5 skips a token.
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
===
a: &x b
===
a: !!str b
===
a: !x b
===
a: b
...
===
a: b
...
c: d
===
  a: b
  c: d
===
my key: b
===
a: [x, # one
  y]
===
a: [x, y,]
===
a: plain words
  on two lines
b: c
===
a: |
  text: of

  two lines
===
a: >-
  folded
  text
===
a: >+
  kept

===
? a
: b
===
? [a]
: b
===
"a b": yes
no: off
===
a: "x\x41\u00e9\N\
  y"
===
a:
-
- ''
- ~
===
a: [[b], c]
===
{a: b, c: [d, e]}
===
a: x # 1
b: 'y'# 2
===
&x a: b
===
*x : b
===
%YAML 1.1
'''
STRICT = r'''
a: &x b
c: *x
===
a: {b: &x [c], d: *x}
===
a: [? ]
===
a: [? : b]
'''


class Loader(yaml.BaseLoader):
    pass


def mapping(loader, node):
    seen = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.value in seen:
            raise yaml.constructor.ConstructorError(None, None, 'not one text, or twice', key.start_mark)
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
    return {k: v if isinstance(v, str) else [str(i) for i in v] if isinstance(v, list) and all(isinstance(i, str) for i in v)
            else None for k, v in doc.items()}


def main():
    out = []
    for group, strict in ((CASES, False), (STRICT, True)):
        for text in group.strip('\n').split('\n===\n'):
            read = judge(text + '\n')
            out.append({'text': '---\n' + text + '\n---\n', 'yaml': read is not None, 'strict': strict, 'read': read})
    print(json.dumps(out, indent=1, ensure_ascii=True))


main()
