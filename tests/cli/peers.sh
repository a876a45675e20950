#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/peers.sh with a stub of llama-bench: the options it passes, and where it finds the numbers. Results already in
# OUT are not measured again, and unfinished ones are left for the next call. With ik_llama.cpp's package, its Python
# measures the same groups.
set -eu
command -v python3 > /dev/null || { echo "SKIP: no python3"; exit 77; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
fail() {
    echo "peers: $*" >&2
    exit 1
}
cat > "$t/llama-bench" <<'END'
#!/bin/sh
[ "$1" != --help ] || { echo "  -fa, --flash-attn <0|1>
  -gp <tg_depth,n>
  -fmoe, --fused-moe <0|1>
  -rtr, --run-time-repack <0|1>"; exit; }
echo "$*" >> "${0%/*}/log"
echo 'main: n_threads = 1'
echo '[{"build_commit": "abc", "build_number": 7, "cpu_info": "some", "avg_ts": 250.0, "samples_ts": [250.0]}]'
END
chmod +x "$t/llama-bench"
run() { # "$@": more settings
    env LLAMA_BENCH="$t/llama-bench" PEER_VENV=none SYNTH_DIR="$t" SHAPE=tests/golden/tiny-qwen35moe/config.json RECIPES=Q8_0 THREADS=1 \
        SETS="8:4:0:1 0:4:16,32:1" "$@" sh bench/peers.sh "$t/out.json" > "$t/said"
}
rc=0
run MINUTES=-1 || rc=$?
[ "$rc" = 75 ] || fail "no time: status $rc"
[ ! -e "$t/log" ] || fail "it measured without time"
run
f=$(ls "$t"/*.gguf)
both="-m $f -t 1 -r 1 -o json -fa 1 -fmoe 1 -rtr 1"
printf '%s\n' "$both -p 8 -n 0" "$both -p 0 -n 4" "$both -p 0 -n 0 -gp 16,4" "$both -p 0 -n 0 -gp 32,4" > "$t/want"
cmp "$t/want" "$t/log" || fail "other options: $(cat "$t/log")"
python3 - "$t/out.json" <<'END'
import json, sys
doc = json.load(open(sys.argv[1]))
tests = doc["models"]["Q8_0"]["tests"]
assert sorted(tests) == ["pp8@0", "tg4@0", "tg4@16", "tg4@32"], sorted(tests)
for t in tests.values():
    assert t["bench_tok_per_s"] == 250 and abs(t["hone_tok_per_s"] / 250 - t["bench_ratio"]) < 1e-3, t
    assert "peer_tok_per_s" not in t, t
assert doc["builds"] == {"bench": "abc (7), some"}, doc["builds"]
END
run
cmp "$t/want" "$t/log" || fail "it measured again"
run AGAIN=1 SETS="8:4:0:2"
[ "$(wc -l < "$t/log")" = 8 ] || fail "AGAIN=1 did not measure two pairs"
mkdir -p "$t/ik/bin"
cat > "$t/ik/bin/python" <<'END'
#!/bin/sh
[ "$1" = -c ] && exit
shift
echo "$*" >> "${0%/*}/log"
echo '{"tests": [{"test": "pp8", "depth": 0, "tok_per_s": 50.0}, {"test": "tg4", "depth": 0, "tok_per_s": 25.0}], "build": "some package"}'
END
chmod +x "$t/ik/bin/python"
run LLAMA_BENCH= IK=1 IK_VENV="$t/ik" SETS="8:4:0:1"
grep -q -e "--child ik $f 8 4 0 1 " "$t/ik/bin/log" || fail "the package was asked for: $(cat "$t/ik/bin/log")"
python3 - "$t/out.json" <<'END'
import json, sys
doc = json.load(open(sys.argv[1]))
t = doc["models"]["Q8_0"]["tests"]["tg4@0"]
assert t["ik_tok_per_s"] == 25 and abs(t["hone_tok_per_s"] / 25 - t["ik_ratio"]) < 1e-3, t
assert doc["builds"]["ik"] == "some package", doc["builds"]
END
if run THREADS=2 AGAIN=1 2> "$t/err"; then fail "results of other threads are mixed"; fi
grep -q "threads 1, not 2" "$t/err" || fail "unclear: $(cat "$t/err")"
