# SPDX-License-Identifier: MIT
"""Runs the hone program shipped in the package."""

import os
import subprocess
import sys


def main() -> None:
    windows = sys.platform == "win32"
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "hone.exe" if windows else "hone")
    if not os.path.exists(program):
        sys.exit(f"hone: {program} is missing; install the package hone-gguf from its wheel")
    if windows:  # whose execv returns to the shell at once
        sys.exit(subprocess.run([program, *sys.argv[1:]]).returncode)
    os.execv(program, ["hone", *sys.argv[1:]])


if __name__ == "__main__":
    main()
