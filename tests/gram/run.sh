#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/gram/run.sh PROGRAM DIR OUT.json: installs the libraries that tests/gram/judge.py needs into DIR and runs it;
# called by make check-gram.
set -eu
program=$1 dir=$2 out=$3
pins="jsonschema==4.26.0 hypothesis-jsonschema==0.23.1 hypothesis==6.99.13 llguidance==1.9.1 xgrammar==0.2.8 outlines-core==0.2.14 numpy"
mkdir -p "$dir"
if [ "$(cat "$dir/pins" 2> /dev/null)" != "$pins" ]; then
    python3 -m venv "$dir/venv"
    # shellcheck disable=SC2086
    "$dir/venv/bin/pip" install -q --disable-pip-version-check $pins > "$dir/log" 2>&1 || { tail -n 3 "$dir/log"; echo "SKIP: the judges cannot be installed here"; exit 0; }
    # jsonschema's source package carries the official suite
    "$dir/venv/bin/pip" download -q --disable-pip-version-check --no-deps --no-binary :all: -d "$dir" jsonschema==4.26.0 >> "$dir/log" 2>&1 || { tail -n 3 "$dir/log"; exit 1; }
    tar -xzf "$dir/jsonschema-4.26.0.tar.gz" -C "$dir"
    echo "$pins" > "$dir/pins"
fi
"$dir/venv/bin/python" tests/gram/judge.py "$program" "$dir/jsonschema-4.26.0/json/tests/draft2020-12" "$out" 2> "$dir/stderr" || { tail -n 5 "$dir/stderr"; exit 1; }
