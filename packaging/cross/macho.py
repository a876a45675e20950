#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""packaging/cross/macho.py CPU HEADER FILE... - checks Mach-O files: processor, minimum macOS 11, libraries, signature.

Reads the load commands as Apple's mach-o/loader.h defines them. A file may load only libraries that every macOS has.
The program must have an entry point; the library must export exactly the functions that HEADER, include/hone.h, declares.
"""
import re
import struct
import sys

CPUS = {"arm64": 0x0100000C, "x86_64": 0x01000007}
ALLOWED = {"/usr/lib/libSystem.B.dylib", "/usr/lib/libedit.3.dylib"}
EXECUTE, DYLIB = 2, 6
LC_SYMTAB, LC_LOAD_DYLIB, LC_ID_DYLIB, LC_CODE_SIGNATURE, LC_BUILD_VERSION, LC_MAIN = 0x2, 0xC, 0xD, 0x1D, 0x32, 0x80000028
LC_DYLD_INFO, LC_DYLD_INFO_ONLY, LC_DYLD_EXPORTS_TRIE = 0x22, 0x80000022, 0x80000033


def text(b, at):
    return b[at : b.index(0, at)].decode()


def exported(trie, at=0, prefix=""):
    """The names of an export trie: each node is the size of its data, the data, and its edges with text and offset."""

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = trie[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    if not trie:
        return
    size = number()
    if size:
        yield prefix
    at += size
    n = trie[at]
    at += 1
    for _ in range(n):
        edge = text(trie, at)
        at += len(edge) + 1
        yield from exported(trie, number(), prefix + edge)


def check(cpu, names, path):
    b = open(path, "rb").read()
    magic, kind, _, filetype, n_cmds = struct.unpack_from("<IIIII", b)
    bad = []
    if magic != 0xFEEDFACF or kind != CPUS[cpu]:
        return [f"not a 64-bit Mach-O file for {cpu}"]
    libs, own, least, signed, has_main, trie, undefined = [], None, None, False, False, b"", set()
    at = 32
    for _ in range(n_cmds):
        cmd, size = struct.unpack_from("<II", b, at)
        if cmd == LC_LOAD_DYLIB:
            libs.append(text(b, at + struct.unpack_from("<I", b, at + 8)[0]))
        elif cmd == LC_ID_DYLIB:
            own = text(b, at + struct.unpack_from("<I", b, at + 8)[0])
        elif cmd == LC_BUILD_VERSION:
            platform, minos = struct.unpack_from("<II", b, at + 8)
            least = (platform, minos >> 16, minos >> 8 & 255)
        elif cmd == LC_CODE_SIGNATURE:
            signed = True
        elif cmd == LC_MAIN:
            has_main = True
        elif cmd in (LC_DYLD_INFO, LC_DYLD_INFO_ONLY, LC_DYLD_EXPORTS_TRIE):
            begin, length = struct.unpack_from("<II", b, at + (8 if cmd == LC_DYLD_EXPORTS_TRIE else 40))
            trie = b[begin : begin + length]
        elif cmd == LC_SYMTAB:
            symoff, nsyms, stroff, _ = struct.unpack_from("<IIII", b, at + 8)
            for i in range(nsyms):
                strx, n_type, _, _, _ = struct.unpack_from("<IBBHQ", b, symoff + 16 * i)
                if n_type & 1 and not n_type & 0xEE:
                    undefined.add(text(b, stroff + strx))
        at += size
    if least != (1, 11, 0):
        bad.append(f"platform and minimum version are {least}, not macOS 11.0")
    if set(libs) - ALLOWED or "/usr/lib/libSystem.B.dylib" not in libs:
        bad.append(f"loads {libs}")
    if cpu == "arm64" and not signed:
        bad.append("no signature: ARM64 refuses it")
    if filetype == EXECUTE and not has_main:
        bad.append("no entry point")
    if filetype == DYLIB:
        if own != "@rpath/" + path.rsplit("/", 1)[-1]:
            bad.append(f"its name is {own}")
        exports = set(exported(trie)) - {"___dso_handle", "__mh_dylib_header"}  # zig's linker adds these
        if exports != names:
            bad.append(f"exports too much {sorted(exports - names)[:5]}, too little {sorted(names - exports)[:5]}")
    # calls that macOS lacks, or has only later than 11
    late = {"_memrchr", "_pipe2", "_accept4", "_fdatasync", "_getauxval", "_mkostemp", "_aligned_alloc_type"}
    if undefined & late:
        bad.append(f"calls {sorted(undefined & late)}")
    print(f"{path}: {cpu}, macOS {least and least[1]}, {len(undefined)} symbols of {', '.join(libs)}")
    return bad


functions = {"_" + n for n in re.findall(r"^HONE_API.*[ *](hone_\w+)\(", open(sys.argv[2]).read(), re.M)}
wrong = [f"{p}: {w}" for p in sys.argv[3:] for w in check(sys.argv[1], functions, p)]
print("\n".join(wrong), end="\n" if wrong else "")
sys.exit(1 if wrong else 0)
