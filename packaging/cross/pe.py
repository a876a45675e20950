#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""packaging/cross/pe.py HEADER FILE... - checks Windows files: processor, system, libraries, exported names.

Reads the headers, imports and exports as Microsoft's "PE Format" defines them. A file may load only libraries that every
Windows 10 has. A library must export exactly the functions that HEADER, include/hone.h, declares.
"""
import re
import struct
import sys

ALLOWED = {"kernel32.dll", "ntdll.dll", "advapi32.dll", "bcrypt.dll", "bcryptprimitives.dll", "psapi.dll", "shell32.dll", "user32.dll",
           "ws2_32.dll"}
AMD64, PE32_PLUS, DLL = 0x8664, 0x20B, 0x2000


def check(path, names):
    b = open(path, "rb").read()

    def text(at):
        return b[at : b.index(0, at)].decode()

    pe = struct.unpack_from("<I", b, 0x3C)[0]
    if b[:2] != b"MZ" or b[pe : pe + 4] != b"PE\0\0":
        return ["not a Windows file"]
    machine, n_sections, _, _, _, n_optional, flags = struct.unpack_from("<HHIIIHH", b, pe + 4)
    optional = pe + 24
    system = struct.unpack_from("<HH", b, optional + 48)
    bad = []
    if machine != AMD64 or struct.unpack_from("<H", b, optional)[0] != PE32_PLUS:
        bad.append("not for x86-64")
    if system > (10, 0):
        bad.append(f"needs Windows {system}")
    sections = [struct.unpack_from("<IIII", b, optional + n_optional + 40 * i + 8) for i in range(n_sections)]

    def at(address):
        for size, start, n_raw, raw in sections:
            if start <= address < start + max(size, n_raw):
                return raw + address - start
        raise ValueError(f"{path}: address {address:#x} is in no section")

    directories = [struct.unpack_from("<II", b, optional + 112 + 8 * i)[0] for i in range(2)]
    libraries, i = [], at(directories[1])
    while struct.unpack_from("<I", b, i + 12)[0]:
        libraries.append(text(at(struct.unpack_from("<I", b, i + 12)[0])).lower())
        i += 20
    more = [n for n in libraries if n not in ALLOWED and not n.startswith("api-ms-win-crt-")]
    if more:
        bad.append(f"loads {more}")
    exports = set()
    if directories[0]:
        i = at(directories[0])
        n, pointers = struct.unpack_from("<I", b, i + 24)[0], at(struct.unpack_from("<I", b, i + 32)[0])
        exports = {text(at(struct.unpack_from("<I", b, pointers + 4 * k)[0])) for k in range(n)}
    wanted = names if flags & DLL else set()
    if exports != wanted:
        bad.append(f"exports too much {sorted(exports - wanted)[:5]}, too little {sorted(wanted - exports)[:5]}")
    print(f"{path}: x86-64, {len(exports)} names, {len(libraries)} libraries")
    return bad


functions = set(re.findall(r"^HONE_API.*[ *](hone_\w+)\(", open(sys.argv[1]).read(), re.M))
wrong = [f"{p}: {w}" for p in sys.argv[2:] for w in check(p, functions)]
print("\n".join(wrong), end="\n" if wrong else "")
sys.exit(1 if wrong else 0)
