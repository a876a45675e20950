#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Copies a GGUF file and turns its unused tokens (type 5: no text in answers) into normal ones, spelled by their names.

A model with random weights and a small vocabulary (hone synth --tokenizer) generates mostly unused tokens, so that a stream of
it would show nothing.

    bench/spell.py IN.gguf OUT.gguf
"""
import shutil, struct, sys

SIZE = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
UNUSED, PLAIN = 5, 1


def main():
    shutil.copyfile(sys.argv[1], sys.argv[2])
    with open(sys.argv[2], "r+b") as f:
        number = lambda form: struct.unpack("<" + form, f.read(struct.calcsize(form)))[0]
        text = lambda: f.read(number("Q"))
        f.seek(16)  # magic, version, number of tensors
        for _ in range(number("Q")):
            name, kind = text(), number("I")
            if kind == 8:
                text()
            elif kind != 9:
                f.seek(SIZE[kind], 1)
            else:
                kind, n = number("I"), number("Q")
                if name == b"tokenizer.ggml.token_type":
                    at = f.tell()
                    types = struct.unpack(f"<{n}i", f.read(4 * n))
                    f.seek(at)
                    f.write(struct.pack(f"<{n}i", *(PLAIN if t == UNUSED else t for t in types)))
                    print(f"{types.count(UNUSED)} of {n} tokens")
                    return
                if kind == 8:
                    for _ in range(n):
                        text()
                else:
                    f.seek(n * SIZE[kind], 1)
    sys.exit("there are no types of tokens")


main()
