#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Parses a published folder's YAML and JSON with real parsers: published.py DIR KEY=VALUE... The card's front matter must hold
exactly these values; exit 77 without PyYAML."""
import json
import sys

try:
    import yaml
except ImportError:
    print('SKIP: no PyYAML')
    sys.exit(77)

root, want = sys.argv[1], dict(a.split('=', 1) for a in sys.argv[2:])
text = open(f'{root}/README.md', encoding='utf-8').read()
assert text.startswith('---\n'), 'no front matter'
front = yaml.safe_load(text[4:text.index('\n---\n', 4)])
for k, v in want.items():
    assert front.get(k) == v, f'{k}: {front.get(k)!r} instead of {v!r}'
assert front['base_model_relation'] == 'quantized' and front['library_name'] == 'gguf', front
assert all(isinstance(t, str) for t in front['tags']), front['tags']
m = yaml.safe_load(open(f'{root}/model.yaml', encoding='utf-8'))
assert isinstance(m['model'], str) and m['model'].count('/') == 1, m['model']
source = m['base'][0]['sources'][0]
assert source['type'] == 'huggingface' and '/'.join((source['user'], source['repo'])) == want.get('repo_id', source['user'] + '/' + source['repo'])
assert m['metadataOverrides']['compatibilityTypes'] == ['gguf'], m
for f in m.get('config', {}).get('operation', {}).get('fields', []):
    v = f['value']['value'] if isinstance(f['value'], dict) else f['value']
    assert isinstance(v, (int, float)), f
for name in ('params', 'manifest.json', 'config.json'):
    json.load(open(f'{root}/{name}', encoding='utf-8'))
