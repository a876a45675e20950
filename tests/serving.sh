# SPDX-License-Identifier: MIT
# A server for scripts in tests/cli that ask one; sourced: `. tests/serving.sh`. It makes the scratch folder t, a client in $t/ask and
# the bundled model in Q8_0 as $t/m.gguf, and ends the server that still runs when the script ends.
t=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2> /dev/null || true; rm -rf "$t"' EXIT
. tests/expect.sh
${CC:-cc} -std=c11 -D_GNU_SOURCE -O1 tests/ask.c -o "$t/ask"
"$HONE" convert tests/golden/tiny-qwen35moe -o "$t/base.gguf" -q > /dev/null
"$HONE" quantize "$t/base.gguf" -o "$t/m.gguf" --recipe Q8_0 -q > /dev/null

start() { # options of hone serve: its process in $pid, its port in $port
    rm -f "$t/ready"
    : > "$t/ready"
    "$HONE" serve "$t/m.gguf" --port 0 --threads 1 --context-memory 64MiB "$@" > "$t/ready" 2> "$t/log" &
    pid=$!
    i=0
    while [ ! -s "$t/ready" ]; do
        i=$((i + 1))
        [ $i -lt 200 ] && kill -0 $pid 2> /dev/null || { cat "$t/log"; exit 1; }
        sleep 0.05
    done
    port=$(sed 's/.*127\.0\.0\.1:\([0-9]*\).*/\1/' "$t/ready")
}
