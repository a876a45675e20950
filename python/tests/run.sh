#!/bin/sh
# usage: run.sh FOLDER-WITH-THE-WHEEL [PYTHON]. Installs the wheel into a clean virtual environment and
# runs what docs/python.md shows, the tests beside this file, the program, and mypy where pip can get it.
set -eu
wheels=$1
python=${2:-python3}
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
root=$(pwd)
"$python" -m venv "$t/v"
"$t/v/bin/pip" -q install "$wheels"/*.whl
"$t/v/bin/pip" list 2> /dev/null | grep -ivE '^(package|---|pip|setuptools|wheel|hone|numpy)' && { echo "more was installed than numpy"; exit 1; }
unset LD_LIBRARY_PATH HONE_LIBRARY PYTHONPATH 2> /dev/null || true
m=$root/tests/golden/tiny-qwen35moe
cd "$t"
"$t/v/bin/hone" convert "$m" -o base.gguf --type bf16 -q > /dev/null
"$t/v/bin/hone" quantize base.gguf -o model.gguf --recipe Q4_K_S --tensor token_embd=Q4_K -q > /dev/null
ln -s "$m" source
cp "$m/self_eval.txt" text.txt
"$t/v/bin/hone" --version
"$t/v/bin/python" "$root/python/tests/test_hone.py" "$root/docs/python.md"
"$t/v/bin/pip" -q install mypy 2> /dev/null || { echo "mypy: not to be had, types not checked"; exit 0; }
cp -r "$root/python/hone_gguf" "$t/hone_gguf" && "$t/v/bin/mypy" --strict "$t/hone_gguf"
