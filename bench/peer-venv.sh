#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints the path of a Python that can import llama_cpp, the engine used for comparison: $PEER_VENV if set, otherwise
# build/peer, created by pip if missing (pip builds the package from source: minutes, and a C++ compiler). With the
# argument ik: one that can import ik_llama_cpp, $IK_VENV or build/peer-ik (a package compiled for AVX2). The packages
# are used unchanged; nothing from them enters this repository.
set -eu
if [ "${1:-}" = ik ]; then
    named=${IK_VENV:-} at=build/peer-ik module=ik_llama_cpp package=ik-llama-cpp-python==0.1.5
else
    named=${PEER_VENV:-} at=build/peer module=llama_cpp package=llama-cpp-python==0.3.36
fi
venv=${named:-$at}
if ! "$venv/bin/python" -c "import $module, numpy" > /dev/null 2>&1; then
    [ -z "$named" ] || { echo "$venv has no $module" >&2; exit 1; }
    { python3 -m venv "$venv" && "$venv/bin/pip" install -q "$package"; } >&2 || {
        echo "$package could not be installed into $venv" >&2
        exit 77
    }
fi
echo "$venv/bin/python"
