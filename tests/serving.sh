# SPDX-License-Identifier: MIT
# A server for scripts in tests/cli that need one; sourced: `. tests/serving.sh`. It makes the scratch folder t, a
# client in $t/ask and the bundled model in Q8_0 as $t/m.gguf, and kills a server that still runs when the script ends.
t=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2> /dev/null || true; rm -rf "$t"' EXIT
. tests/expect.sh
${CC:-cc} -std=c11 -D_GNU_SOURCE -O1 tests/ask.c -o "$t/ask"
"$HONE" convert tests/golden/tiny-qwen35moe -o "$t/base.gguf" -q > /dev/null
"$HONE" quantize "$t/base.gguf" -o "$t/m.gguf" --recipe Q8_0 -q > /dev/null

serve() { # arguments of hone serve: its process in $pid, its port in $port
    rm -f "$t/ready"
    : > "$t/ready"
    "$HONE" serve "$@" --port 0 --threads 1 > "$t/ready" 2> "$t/log" &
    pid=$!
    i=0
    while [ ! -s "$t/ready" ]; do
        i=$((i + 1))
        [ $i -lt 400 ] && kill -0 $pid 2> /dev/null || { cat "$t/log"; exit 1; }
        sleep 0.05
    done
    port=$(sed 's/.*127\.0\.0\.1:\([0-9]*\).*/\1/' "$t/ready")
}
start() { serve "$t/m.gguf" --context-memory 64MiB "$@"; } # options of hone serve
stop() { # SIGTERM, after which the server exits with 0
    kill -TERM $pid
    rc=0; wait $pid || rc=$?
    pid=
    [ $rc = 0 ] || say "ends with $rc: $(tail -3 "$t/log")"
}

get() { # path: the body in $t/o, the status in $status
    "$t/ask" "$port" GET "$@" > "$t/raw" || say "GET $1 fails"
    parts
}
post() { # path body [headers]
    path=$1 body=$2
    shift 2
    "$t/ask" "$port" -b "$body" POST "$path" "$@" > "$t/raw" || say "POST $path fails"
    parts
}
parts() { # splits $t/raw
    status=$(sed -n '1s/HTTP\/1.1 \([0-9]*\).*/\1/p' "$t/raw")
    tr -d '\r' < "$t/raw" | sed '1,/^$/d' > "$t/o"
}
has() { # text: in the body
    grep -qF -- "$1" "$t/o" || say "no '$1' in: $(head -c 900 "$t/o")"
}
is() { # expected status, of what
    [ "$status" = "$1" ] || say "$2: status $status, expected $1: $(head -c 300 "$t/o")"
}

metric() { "$t/ask" "$port" GET /metrics | sed -n "s/^$1 //p"; }
quiet() { # what: waits until nothing runs and nothing waits
    i=0
    while [ "$(metric hone_requests_running)$(metric hone_requests_waiting)" != 00 ]; do
        i=$((i + 1))
        [ $i -lt 600 ] || { say "$1: still served"; return; }
        sleep 0.05
    done
}
