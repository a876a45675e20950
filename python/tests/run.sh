#!/bin/sh
# usage: run.sh FOLDER-WITH-THE-WHEEL RESULT.json PYTHON... : installs the wheel into a clean virtual environment of
# each Python and runs the examples of docs/python.md, the tests in this folder, the program, and mypy where pip can
# install it. Writes the results to RESULT.
set -eu
wheels=$1
result=$2
shift 2
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
root=$(pwd)
unset LD_LIBRARY_PATH HONE_LIBRARY PYTHONPATH 2> /dev/null || true
m=$root/tests/golden/tiny-qwen35moe
for python in "$@"; do
    rm -rf "$t/v" "$t/run" && mkdir "$t/run" && cd "$t/run"
    "$python" -m venv "$t/v"
    "$t/v/bin/pip" -q --disable-pip-version-check install "$wheels"/*.whl
    "$t/v/bin/pip" --disable-pip-version-check list 2> /dev/null | grep -ivE '^(package|---|pip|setuptools|wheel|hone|numpy)' && { echo "more was installed than numpy"; exit 1; }
    "$t/v/bin/hone" convert "$m" -o base.gguf --type bf16 -q > /dev/null
    "$t/v/bin/hone" quantize base.gguf -o model.gguf --recipe Q4_K_S --tensor token_embd=Q4_K -q > /dev/null
    ln -s "$m" source
    cp "$m/self_eval.txt" text.txt
    "$t/v/bin/hone" --version
    "$t/v/bin/python" "$root/python/tests/test_hone.py" "$root/docs/python.md" > "$t/out" || { cat "$t/out"; exit 1; }
    tail -1 "$t/out" | tee -a "$t/lines"
done
types='not checked: pip cannot get mypy'
if "$t/v/bin/pip" -q install mypy 2> /dev/null; then
    cp -r "$root/python/hone_gguf" "$t/hone_gguf" && make -s -C "$root" python-steps && cp "$root/build/gen/steps.py" "$t/hone_gguf"
    "$t/v/bin/mypy" --strict "$t/hone_gguf"
    "$t/v/bin/mypy" --strict "$root/python/tests/typed.py" # kinds of calls that users write
    types='mypy --strict: no error'
fi
"$t/v/bin/python" - "$wheels" "$t/lines" "$types" > "$t/result" << 'END'
import datetime, glob, json, os, sys, zipfile
wheel = glob.glob(sys.argv[1] + "/*.whl")[0]
system = dict(x.rstrip().replace('"', "").split("=", 1) for x in open("/etc/os-release") if "=" in x)["PRETTY_NAME"]
print(json.dumps({"date": datetime.date.today().isoformat(), "system": system, "wheel": os.path.basename(wheel),
                  "bytes": os.path.getsize(wheel), "types": sys.argv[3],
                  "libraries": sorted(os.path.basename(n) for n in zipfile.ZipFile(wheel).namelist() if ".libs/lib" in n),
                  "runs": [json.loads(x) for x in open(sys.argv[2])]}, indent=1))
END
mv "$t/result" "$root/$result"
