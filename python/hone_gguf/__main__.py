# SPDX-License-Identifier: MIT
"""Runs the hone program shipped in the package."""

import os
import sys


def main() -> None:
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "hone")
    if not os.path.exists(program):
        sys.exit(f"hone: {program} is missing; install the package hone-gguf from its wheel")
    os.execv(program, ["hone", *sys.argv[1:]])


if __name__ == "__main__":
    main()
