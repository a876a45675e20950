# SPDX-License-Identifier: MIT
"""packaging/old-pow.py - usage: old-pow.py IN OUT : copies a shared library whose newest requirement is pow of glibc 2.29,
and lets it require the oldest version instead, which runs the same code. For libpng in wheels for glibc 2.28."""
import struct
import sys

NEW, OLD = b"GLIBC_2.29", {62: b"GLIBC_2.2.5", 183: b"GLIBC_2.17"}  # by e_machine
VERNEED = 0x6FFFFFFE


def elf_hash(name):
    h = 0
    for c in name:
        h = (h << 4) + c
        h = (h ^ (h & 0xF0000000) >> 24) & 0x0FFFFFFF
    return h


data = bytearray(open(sys.argv[1], "rb").read())
old = OLD[struct.unpack_from("<H", data, 18)[0]]
start, size, count = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * size) for i in range(count)]
need = next(s for s in sections if s[1] == VERNEED)
strings = sections[need[6]]
text = lambda at: bytes(data[strings[4] + at:data.index(0, strings[4] + at)])
name = data.index(b"\0" + old + b"\0", strings[4], strings[4] + strings[5]) + 1 - strings[4]
entry = need[4]
for _ in range(need[7]):
    _, n, file, aux, following = struct.unpack_from("<HHIII", data, entry)
    at = entry + aux
    for _ in range(n):
        _, _, _, version, step = struct.unpack_from("<IHHII", data, at)
        if text(file).startswith(b"libm.so") and text(version) == NEW:
            struct.pack_into("<I", data, at, elf_hash(old))
            struct.pack_into("<I", data, at + 8, name)
        at += step
    entry += following
open(sys.argv[2], "wb").write(data)
