#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/quality.sh with a stub of hone: results name the command and both builds; files of another setting, build or
# text are refused, and are not used by default.
set -eu
command -v python3 > /dev/null || { echo "SKIP: no python3"; exit 77; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
fail() {
    echo "quality: $*" >&2
    exit 1
}
cat > "$t/hone" <<'END'
#!/usr/bin/env python3
import json, sys
a = sys.argv[1:]
if a == ["--version"]:
    sys.exit(print("hone 9.9"))
open(__file__ + ".log", "a").write(" ".join(a) + "\n")
for i, x in enumerate(a):
    if x in ("-o", "--gram") and a[0] != "eval":
        open(a[i + 1], "w").write("x")
if a[0] == "eval":
    files = [x for x in a[2 : a.index("--base")] if x.endswith(".gguf")]
    row = dict.fromkeys(("mean_kld", "mean_kld_stderr_windows", "kld_p999", "same_top1", "ppl_ratio"), 0.5)
    pairs = [dict(a=files[0], b=files[1], diff=0, diff_ci95_low=0, diff_ci95_high=0)] if len(files) > 1 else []
    print(json.dumps(dict(n_chunks=2, candidates=[row for _ in files], pairs=pairs)))
END
chmod +x "$t/hone"
(cat "$t/hone"; echo "# earlier") > "$t/old"
chmod +x "$t/old"
mkdir "$t/m"
for f in base.gguf calib.txt probe.txt eval.txt; do echo $f > "$t/m/$f"; done
run() { env HONE="$t/hone" SRC="$t/m" STEPS=feedback SIZES=Q4_K_M CHUNKS=2 "$@" sh bench/quality.sh "$t/out.json" > "$t/said" 2> "$t/err"; }
run OLD="$t/old" PLAIN=1 WORK="$t/w" || fail "$(cat "$t/err")"
python3 - "$t/out.json" <<'END'
import json, sys
doc = json.load(open(sys.argv[1]))["m"]
assert doc["command"] == "OLD=BINARY PLAIN=1 STEPS=feedback SIZES=Q4_K_M CHUNKS=2 SRC=m bench/quality.sh", doc["command"]
assert doc["build"].startswith("hone 9.9, sha256 ") and doc["old"].startswith("hone 9.9, sha256 ") and doc["build"] != doc["old"], doc
assert doc["rows"][0]["windows"] == {"eval.txt": 2}, doc
assert doc["calibration_bytes"] == {"calib.txt": 10} and doc["types"] == "presets", doc
END
n=$(cat "$t"/*.log | wc -l)
run OLD="$t/old" PLAIN=1 WORK="$t/w" || fail "the same run again: $(cat "$t/err")"
[ "$(cat "$t"/*.log | wc -l)" = "$n" ] || fail "it measured again"
refused() { # what differs, "$@"
    what=$1
    shift
    ! run WORK="$t/w" "$@" || fail "files of another run are used: $what"
    grep -q "files of another run ($what)" "$t/err" || fail "unclear: $(cat "$t/err")"
}
refused plain OLD="$t/old"
refused learn OLD="$t/old" PLAIN=1 LEARN=2
refused old PLAIN=1 OLD="$t/hone"
refused build PLAIN=1 OLD="$t/old" HONE="$t/old"
echo more >> "$t/m/calib.txt"
refused texts OLD="$t/old" PLAIN=1
rm "$t/w/settings.json"
! run OLD="$t/old" PLAIN=1 WORK="$t/w" || fail "files without a record are used"
