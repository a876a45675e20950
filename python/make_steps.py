# SPDX-License-Identifier: MIT
"""usage: make_steps.py hone.h FIELDS > steps.py
Writes the functions of hone.h that return a JSON document as typed Python functions, documented by the header's comments. Run by
`make python-steps` and the wheel's build. FIELDS: output of `gen fields`."""

import re
import sys

NAMES = {"quantize": "quantize_files"}  # quantize() is taken: it handles one file
OTHERS = {"diff", "serve"}  # written manually in jobs.py
OPTIONAL = {"manifest", "name", "mode", "types", "seconds", "list", "suite", ("recipes", "model"), ("doctor", "model"),
            ("merge", "path"), ("meta", "edits")}
SIZES = {("plan", "vram"), ("make", "budget"), ("mix", "budget"), ("sensitivity", "budget")}  # texts that are memory sizes
RENAMED = {"plan": {"ctx": "n_ctx", "slots": "n_slots"},  # keywords in the first releases
           "make": {"time": "seconds", "force": "overwrite", "ctx": "eval_ctx", "chunks": "eval_windows", "calib_chunks": "calib_windows"}}
KEYWORDS = {"bytes": "n_bytes", "from": "matrices", "in": "source"}
TYPES = {"const char *": ("Text", "C.c_char_p", "None"), "const char *const *": ("Texts", "C.POINTER(C.c_char_p)", "None"),
         "int": ("bool", "C.c_int", "False"), "int64_t": ("int", "C.c_int64", "0"), "uint64_t": ("Size", "C.c_uint64", "0"),
         "double": ("float", "C.c_double", "0.0"), "size_t": ("int", "C.c_size_t", "0")}
VALUES = {"Text": "_lib.word({})", "Texts": "_lib.paths({})", "bool": "int({})", "Size": "_lib.n_bytes({})"}  # converts a keyword to a field
COMMON = [("threads", "int", "0"), ("device", "Optional[str]", "None"), ("isa", "Optional[str]", "None"),
          ("pre", "Optional[str]", "None"), ("max_memory", "Size", "0"), ("progress", "Optional[_lib.Progress]", "None"),
          ("log", "Optional[_lib.Log]", "None"), ("cancel", "Optional[Cancel]", "None")]


def words(comment: str) -> str:
    """A comment as one line, with Python's names."""
    text = " ".join(re.sub(r"^\s*/?\*+/?|\*/\s*$", "", line).strip() for line in comment.splitlines()).strip()
    for a, b in (("NULL", "None"), ("HONE_VERDICT", "Verdict"), ("HONE_USAGE", "UsageError"), ("HONE_DATA", "DataError"),
                 ("non-zero", "True"), ("Non-zero", "True")):
        text = text.replace(a, b)
    return re.sub(r"\bhone_(?!opts)([a-z_]+)", lambda m: NAMES.get(m[1], m[1]), text)


def fields(body: str) -> list:
    """(C type, name, comment) of each field of a struct."""
    found, above = [], ""
    for m in re.finditer(r"(/\*.*?\*/)|([^;{}/]+);[ \t]*(/\*.*?\*/)?", body, re.S):
        if m[1]:
            above = m[1]
            continue
        decl = " ".join(m[2].split())
        if "(" in decl:
            continue
        kind, names = re.match(r"(const char \*const \*|const char \*|[a-z0-9_]+ )(.*)", decl).groups()
        for name in names.split(","):
            found.append((kind.strip() if kind.endswith(" ") else kind, name.strip().lstrip("*").replace("const *", ""),
                          words(m[3] or "")))
    return found


def arguments(text: str) -> list:
    """(C type, name) of each argument of a function."""
    return [re.match(r"(.*?)(\w+)$", " ".join(a.split())).groups() for a in text.split(",")]


def wrap(head: str, parts: list, end: str) -> str:
    lines, line = [], head
    for i, p in enumerate(parts):
        p += ", " if i + 1 < len(parts) else end
        if len(line) + len(p.rstrip()) > 118:
            lines.append(line.rstrip())
            line = " " * (max(head.find("("), head.rfind("[")) + 1)
        line += p
    return "\n".join([*lines, line.rstrip()])


def document(comment: str, rows: list) -> str:
    import textwrap
    text = words(comment)
    out = textwrap.wrap(text, 112)
    if rows:
        out.append("")
    for name, says in rows:
        out += textwrap.wrap(f"{name}: {says}", 112, subsequent_indent="    ")
    return '    """' + "\n".join("    " + x if x and i else x for i, x in enumerate(out)).rstrip() + ('\n    """' if len(out) > 1 else '"""')


def main() -> None:
    header = open(sys.argv[1], encoding="utf-8").read()
    structs = {m[1]: fields(m[2]) for m in re.finditer(r"struct (hone_\w+_opts) \{(.*?)\n\};", header, re.S)}
    functions = []
    header = header[header.index("---- steps on files"):]
    for m in re.finditer(r"(/\*(?:(?!\*/).)*\*/)?\s*HONE_API int (hone_\w+)\(([^;]*)\);", header, re.S):
        args = arguments(m[3])
        name = m[2][5:]
        if ("char **", "json") in args and name not in OTHERS:
            functions.append((name, m[1] or "", args))
    has = {}
    for line in open(sys.argv[2], encoding="utf-8"):
        call, names = line.split(":")
        has.setdefault(call, []).extend(names.split())
    print('# SPDX-License-Identifier: MIT\n"""The steps on files of include/hone.h as functions.\n\nWritten by '
          'python/make_steps.py."""\n\n'
          'from __future__ import annotations\n\nimport ctypes as C\nfrom typing import Optional\n\n'
          'from . import _lib\nfrom ._lib import Cancel, Options, Path, Size, Sized, Sizes, Text, Texts\nfrom .report import Report\n')
    used = dict.fromkeys(re.sub(r"const struct (\w+) \*", r"\1", t) for _, _, args in functions for t, n in args
                         if t.startswith("const struct") and "hone_opts" not in t)
    camel = lambda s: "".join(w.capitalize() for w in s[5:].split("_"))
    for s in used:
        pairs = [(n, TYPES[t][1]) for t, n, _ in structs[s]]
        print(f"\nclass {camel(s)}(Sized):")
        print(wrap("    _fields_ = [", [f'("{n}", {t})' for n, t in pairs], "]") + "\n")
    table, exported = [], []
    for name, comment, args in functions:
        given, calls, keywords, says, kinds = [], [], [], [], []
        struct = None
        for t, n in args:
            key = KEYWORDS.get(n, n)
            if t.startswith("const struct hone_opts"):
                calls.append("o.ref")
                kinds.append("C.POINTER(_lib.Opts)")
            elif t.startswith("const struct"):
                struct = re.sub(r"const struct (\w+) \*", r"\1", t)
                calls.append("C.byref(s)")
                kinds.append(f"C.POINTER({camel(struct)})")
            elif t == "char **":
                kinds.append("_lib.OUT")
            elif t != "struct hone_error *":
                kind = TYPES[t.strip() if not t.endswith("*") else t]
                if kind[0] == "Text" and (n in OPTIONAL or (name, n) in OPTIONAL):
                    given.append(f"{key}: Text = None")
                elif kind[0] == "bool" or n in OPTIONAL:
                    keywords.append(f"{key}: {kind[0]} = {kind[2]}")
                else:
                    given.append(f"{key}: {'Path' if kind[0] == 'Text' else kind[0]}")
                calls.append(VALUES.get(kind[0], "{}").format(key))
                kinds.append(kind[1])
        taken = {k.split(":")[0] for k in given + keywords}
        sets = []
        if struct:
            for t, n, c in structs[struct]:
                if n not in has[name]:
                    continue
                key = KEYWORDS.get(n, n)
                kind = TYPES[t] if (name, n) not in SIZES else ("Sizes", *TYPES[t][1:])
                keywords.append(f"{key}: {kind[0]} = {kind[2]}")
                sets.append(f"{n}=" + VALUES.get(kind[0] if kind[0] != "Sizes" else TYPES[t][0], "{}").format(key))
                taken.add(key)
                if c:
                    says.append((key, c))
        common = [c for c in COMMON if c[0] not in taken]
        keywords += [f"{a}: {b} = {c}" for a, b, c in common]
        py = NAMES.get(name, name)
        exported.append(py)
        if name in RENAMED:
            print("\n" + wrap("@_lib.renamed(", [f'{a}="{b}"' for a, b in RENAMED[name].items()], ")"), end="")
        print("\n" + wrap(f"def {py}(", [*given, "*", *keywords], ") -> Report:"))
        print(document(comment, says))
        print(wrap("    o = Options(", [f"{a}={a}" for a, *_ in common], ")"))
        if struct:
            print(wrap(f"    s = {camel(struct)}(", sets, ")"))
        print(wrap(f'    return _lib.step("{name}", ', ["o", *calls], ")") + "\n")
        table.append(wrap(f'    "{name}": (None, [', kinds, "]),"))
    print("\n_lib.FUNCTIONS.update({\n" + "\n".join(table) + "\n})")
    print("__all__ = [" + ",\n           ".join(", ".join(f'"{n}"' for n in exported[i:i + 6]) for i in range(0, len(exported), 6)) + "]")


main()
