#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints the path of a Python that can import llama_cpp, the engine that ours is compared with: $PEER_VENV when set, else
# build/peer, made by pip when it is not there (pip builds the package from its sources: minutes, and a C++ compiler).
# The package is used as it comes; nothing of it becomes part of this repository.
set -eu
venv=${PEER_VENV:-build/peer}
if ! "$venv/bin/python" -c 'import llama_cpp, numpy' 2> /dev/null; then
    [ -z "${PEER_VENV:-}" ] || { echo "PEER_VENV=$venv has no llama_cpp" >&2; exit 1; }
    { python3 -m venv "$venv" && "$venv/bin/pip" install -q llama-cpp-python==0.3.36; } >&2 || {
        echo "llama-cpp-python could not be installed into $venv" >&2
        exit 77
    }
fi
echo "$venv/bin/python"
