#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/blind-picks.py SEED [N] - draws N (20) functions from the sources outside tests/, each with its comment and
# signature but without its body. A reader explains each from that alone and then compares with the body.
# Reads tracked files only; the same seed and tree give the same picks. Prints Markdown.
import random, re, subprocess, sys

seed, n = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20


def tracked(*patterns):
    return subprocess.run(['git', 'ls-files', *patterns], capture_output=True, text=True, check=True).stdout.split()


def read(path):
    return open(path, encoding='utf-8', errors='replace').read()


headers = [read(p) for p in tracked('*.h', '*.h.in')]
DEFINITION = re.compile(r'((?:/\*(?:[^*]|\*(?!/))*\*/\n)?)^((?:[a-z]\w*[\w \t*]*?)\b(\w+)\([^;{}]*\)) \{$', re.M)
COMMENT = r'(/\*(?:[^*]|\*(?!/))*\*/\n)'


def declared(name):
    """The comment of a function's declaration, or ''."""
    for header in headers:
        after = re.search(r'\b' + name + r'\([^;{}]*\);[ \t]*' + COMMENT, header)
        m = after or re.search('(?m)^' + COMMENT + r'(?:(?!/\*|;|\{)[\s\S])*\b' + name + r'\(', header)
        if m:
            return m.group(1)
    return ''


def forward(name, text):
    """The comment of a static function's forward declaration, or ''."""
    m = re.search('(?m)^' + COMMENT + r'static [^;{}]*\b' + name + r'\([^;{}]*\);', text)
    return m.group(1) if m else ''


found = []
for path in sorted(tracked('*.c', '*.cu', '*.cuh')):
    if path.startswith('tests/'):
        continue
    for m in DEFINITION.finditer(read(path)):
        if m.group(3) not in ('if', 'for', 'while', 'switch', 'main'):
            found.append((path, m.group(3), m.group(1), m.group(2)))
random.seed(seed)
print(f'{len(found)} functions; {n} picks, seed {seed}\n')
for i, (path, name, comment, signature) in enumerate(random.sample(found, n), 1):
    if not comment:
        comment = forward(name, read(path)) if signature.startswith('static') else declared(name)
    print(f'{i}. {path}\n```c\n{comment}{signature}\n```\n')
