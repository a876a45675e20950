#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/words-pick.py SEED [ROOT] [--counts] - draws 100 pieces of prose from a checkout, for a fresh reader to judge:
#
#   a  40 comments outside tests: 10 file heads, 20 of functions, 10 of types and fields, each with its declaration
#   b  25 sentences of README.md, CHANGELOG.md, docs/*.md and docs/design/*.md (no code, tables, headings)
#   c  15 sentences of docs/man/*.1 (no SYNOPSIS, no examples set as code)
#   d  20 strings of five words or more that users see
#
# Reads tracked files only. The same seed and tree give the same picks. Prints Markdown; --counts prints how many
# candidates each class has instead.
import random, re, subprocess, sys

args = [a for a in sys.argv[1:] if not a.startswith('--')]
SEED = int(args[0]) if args else 3
ROOT = args[1] if len(args) > 1 else '.'
FILES = sorted(subprocess.run(['git', '-C', ROOT, 'ls-files'], capture_output=True, text=True, check=True).stdout.split('\n'))


def read(path):
    with open(f'{ROOT}/{path}', encoding='utf-8', errors='replace') as f:
        return f.read()


def words(s):
    return re.findall(r"[A-Za-z][A-Za-z'-]*", s)


# ---- a: comments ------------------------------------------------------------------------------
def comments():
    heads, funcs, fields = [], [], []
    for path in FILES:
        if not re.search(r'\.(c|h|cu|cuh)$', path) or path.startswith('tests/'):
            continue
        lines = read(path).split('\n')
        in_type = False  # inside struct/union/enum braces that began in column 0
        i = 0
        while i < len(lines):
            s = lines[i]
            at = i
            if re.match(r'(typedef |static |const )*(struct|union|enum)\b[^;()]*\{\s*(/\*.*)?$', s):
                in_type = True
            elif s.startswith('}'):
                in_type = False
            p = s.find('/*')
            if p >= 0 and s[:p].count('"') % 2 == 0:
                block = [s]
                while '*/' not in lines[i][p + 2 if i == at else 0:] and i + 1 < len(lines):
                    i += 1
                    block.append(lines[i])
                before = s[:p].strip()
                nxt = lines[i + 1] if i + 1 < len(lines) else ''
                text = '\n'.join(block)
                if at <= 2 and p == 0:
                    heads.append((path, at + 1, text))
                elif len(words(text)) < 3 or 'clang-format' in text:
                    pass
                elif p == 0 and nxt and not nxt.startswith(('/*', '//', '#include', '#if', '#endif', ' ', '}')):
                    decl, j = [nxt], i + 1  # declaration up to its end
                    while not re.search(r'[;{]', lines[j]) and j + 1 < len(lines) and len(decl) < 4 and not nxt.startswith('#'):
                        j += 1
                        decl.append(lines[j])
                    item = (path, at + 1, text + '\n' + '\n'.join(decl))
                    d = ' '.join(decl)
                    if re.match(r'(typedef|#define|enum)\b', nxt) or '=' in d.split('(')[0] or '(' not in d:
                        fields.append(item)
                    else:
                        funcs.append(item)
                elif in_type and before:
                    fields.append((path, at + 1, text))
                elif in_type and not before and nxt.strip() and not nxt.strip().startswith(('/*', '}')):
                    fields.append((path, at + 1, text + '\n' + nxt))
            i += 1
    return heads, funcs, fields


# ---- b, c: sentences --------------------------------------------------------------------------
def split_sentences(text):
    text = re.sub(r'\s+', ' ', text).strip()
    out, start = [], 0
    for m in re.finditer(r'[.!?][)*"`]*\s+(?=[A-Z`*\[("0-9-])', text):
        head = text[start:m.end()].rstrip()
        if re.search(r'\b(e\.g|i\.e|vs|cf|etc|Nr|No)\.$', head) or head.count('`') % 2 or head.count('(') > head.count(')'):
            continue
        out.append(head)
        start = m.end()
    out.append(text[start:].strip())
    return [x for x in out if len(words(x)) >= 5]


def md_sentences():
    out = []
    for path in FILES:
        if not (path in ('README.md', 'CHANGELOG.md') or re.fullmatch(r'docs/(design/)?[^/]+\.md', path)):
            continue
        para, at, fence = [], 0, False

        def flush():
            nonlocal para
            for s in split_sentences(' '.join(para)):
                out.append((path, at, s))
            para = []
        for n, line in enumerate(read(path).split('\n'), 1):
            if line.lstrip().startswith('```'):
                flush()
                fence = not fence
                continue
            if fence:
                continue
            t = line.strip()
            if not t or t.startswith(('|', '#', '<', '![')) or re.match(r'^    \S', line) and not para:
                flush()
                continue
            if re.match(r'([-*]|\d+\.)\s+', t):
                flush()
                t = re.sub(r'^([-*]|\d+\.)\s+', '', t)
            if not para:
                at = n
            para.append(t)
        flush()
    return out


def roff(s):
    s = re.sub(r'\\f[BIRP]', '', s)
    for a, b in (('\\-', '-'), ('\\(dq', '"'), ('\\(aq', "'"), ('\\&', ''), ('\\e', '\\'), ('\\(em', '--'), ('\\ ', ' ')):
        s = s.replace(a, b)
    return s


def man_sentences():
    out = []
    for path in FILES:
        if not re.fullmatch(r'docs/man/[^/]+\.1', path):
            continue
        para, at, skip, code, tag = [], 0, False, False, False

        def flush():
            nonlocal para
            for s in split_sentences(' '.join(para)):
                out.append((path, at, s))
            para = []
        for n, line in enumerate(read(path).split('\n'), 1):
            if line.startswith('.SH'):
                flush()
                skip = any(w in line for w in ('SYNOPSIS', 'NAME', 'SEE ALSO'))
            elif line.startswith(('.nf', '.EX')):
                flush()
                code = True
            elif line.startswith(('.fi', '.EE')):
                code = False
            elif skip or code or line.startswith(('.TH', '.\\"', '.RS', '.RE', '.ad', '.ft')):
                pass
            elif line.startswith(('.TP', '.P', '.IP', '.SS', '.LP')):
                flush()
                tag = line.startswith('.TP')
            elif tag:
                tag = False  # the tag of an item
            else:
                m = re.match(r'\.(B|I|BR|IR|RB|BI|RI|IB)\s+(.*)', line)
                if line.startswith('.') and not m:
                    continue
                t = roff(m.group(2) if m else line)
                if m and len(m.group(1)) == 2:  # alternating fonts: arguments join without blanks
                    t = ''.join(a.strip('"') for a in re.findall(r'"[^"]*"|\S+', t))
                if not para:
                    at = n
                para.append(t.strip('"') if m else t)
        flush()
    return out


# ---- d: strings -------------------------------------------------------------------------------
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|\'(?:\\.|[^\'\\\n])+\'|"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*|\s+|.', re.S)


def strings():
    out = []
    for path in FILES:
        if not (re.match(r'(cli|commands|jobs|work|convert|make|mix|plan|report|serve)/.*\.(c|h|def)$', path) or re.match(r'template/[^/]+\.def$', path)):
            continue
        text, line, cur, at, calls, call = read(path), 1, None, 0, '', ''

        def flush():
            nonlocal cur
            if cur is not None:
                plain = re.sub(r'%[-+ #0-9.*]*(?:ll|z|h|j)?[a-zA-Z]', 'X', cur)
                good = len(re.findall(r"[A-Za-z ,.;:()'-]", plain)) / max(1, len(plain))
                if len([w for w in words(plain) if w != 'X' and w.islower() or len(w) > 1]) >= 5 and good > .85 and not re.match(r'hone \S+ .*(\.(gguf|jsonl?|jinja|txt)|--|\b[A-Z_]{2,}\b)|\s*[>|;]', cur) and cur.count(' ') >= 4 and '[--' not in cur and '{%' not in cur and '{{' not in cur and '\\"' not in cur.replace('\\"%s\\"', ''):
                    out.append((path, at, call, cur))
            cur = None
        for m in TOKEN.finditer(text):
            t = m.group(0)
            if t.startswith('"'):
                if cur is None:
                    cur, at, call = '', line, calls
                cur += t[1:-1]
            elif t.startswith(('/*', '//')) or t.isspace():
                pass
            elif cur is not None and re.match(r'PRI[a-z]\d*|PRI\w+', t):
                cur += t  # "%" PRIu64
            else:
                flush()
                if re.match(r'[A-Za-z_]', t):
                    calls = t
            line += t.count('\n')
        flush()
    return out


def main():
    heads, funcs, fields = comments()
    md, man, lits = md_sentences(), man_sentences(), strings()
    if '--counts' in sys.argv:
        for name, v in (('file heads', heads), ('functions', funcs), ('types and fields', fields), ('sentences of Markdown', md), ('sentences of man pages', man), ('strings', lits)):
            print(f'{len(v):6} {name}')
        return
    r = random.Random(SEED)
    n = 0
    print(f'# Picks, seed {SEED}\n')
    for title, pool, k, code in (('a. file heads', heads, 10, True), ('a. functions', funcs, 20, True), ('a. types and fields', fields, 10, True),
                                 ('b. Markdown', md, 25, False), ('c. man pages', man, 15, False), ('d. strings', lits, 20, True)):
        print(f'## {title}\n')
        for x in r.sample(pool, k):
            n += 1
            print(f'### {n}. {x[0]}:{x[1]}' + (f' ({x[2]})' if len(x) == 4 else '') + '\n')
            print(f'```\n{x[-1]}\n```\n' if code else f'> {x[-1]}\n')


main()
