#!/bin/sh
# SPDX-License-Identifier: MIT
# Models that hone converts and quantizes but cannot run: quantize and make work, and make measures nothing and states it;
# commands that run the model name the limit. test_named compares the conversion itself.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
only="for conversion and quantization only"
for n in kimi-k3 deepseek4 glm5-next; do
    g=$t/$n.gguf
    run 0 synth --arch-from tests/golden/named/$n/config.json --recipe F32 --tokenizer tests/golden/models/qwen3 -o "$g"
    run 0 inspect "$g"
    grep -q "not run or measured.*$only" "$t/o" || say "inspect $n"
    run 0 verify "$g" --deep
    run 0 quantize "$g" -o "$t/q-$n.gguf" --recipe Q4_K_M
    run 0 verify "$t/q-$n.gguf" --deep
    for c in "run $g -p x" "eval ppl $g README.md" "imatrix $g README.md -o $t/x.gguf"; do
        # shellcheck disable=SC2086
        run 3 $c
        grep -qF "$only" "$t/e" || say "$c: $(cat "$t/e")"
    done
done
g=$t/kimi-k3.gguf
run 0 make "$g" -o "$t/d" --dry-run
grep -q "kimi-k3-Q3_K_M.gguf" "$t/o" || say "dry run: $(cat "$t/o")"
[ ! -e "$t/d" ] || say "a dry run wrote something"
run 0 make "$g" -o "$t/d" --recipe Q8_0 --time 1s --dry-run --json
grep -q '"file_bytes": [1-9]' "$t/o" || say "dry run: no bytes: $(cat "$t/o")"
grep -q -- '--time has no effect' "$t/e" || say "dry run with --time: $(cat "$t/e")"
# a disk that the files do not fit on
mkdir "$t/small"
small() { # commands
    unshare -m sh -c "mount -t tmpfs -o size=100k none '$t/small' && { $1; }"
}
if small true 2> /dev/null; then
    small "\"$HONE\" make '$g' -o '$t/small/d' --dry-run" > "$t/o" 2> "$t/e" || say "the forecast of a small disk: $(cat "$t/e")"
    head -1 "$t/o" | grep -q "Note: not enough space for .*small/d" || say "no word on the disk: $(head -1 "$t/o")"
    rc=0
    small "\"$HONE\" make '$g' -o '$t/small/d'; rc=\$?; ls -A '$t/small'; exit \$rc" > "$t/o" 2> "$t/e" || rc=$?
    [ $rc = 4 ] && grep -q "error: not enough space for .*small/d" "$t/e" && [ ! -s "$t/o" ] || say "a small disk: exit $rc: $(cat "$t/o" "$t/e")"
else
    echo "note: no right to mount a small file system; full disk not tried"
fi
# names: of files and folders in the Hub's cache, whose real names are hashes; without a leading '.' or '-'
hash=b968826d9c46dd6066d109eabc6255188de91218
hub=$t/models--moon--Kimi-Mini
mkdir -p "$hub/blobs" "$hub/snapshots"
mv "$g" "$hub/blobs/$hash" && ln -s "$hub/blobs/$hash" "$g"
cp -r tests/golden/models/qwen3 "$hub/snapshots/$hash"
run 0 make "$g" -o "$t/d" --dry-run
grep -q "kimi-k3-Q3_K_M.gguf" "$t/o" || say "a file in the cache: $(cat "$t/o")"
run 0 make "$hub/snapshots/$hash" -o "$t/x" --plain --dry-run
grep -q "^Kimi-Mini-Q3_K_M.gguf" "$t/o" || say "a folder in the cache: $(cat "$t/o")"
run 0 make "$g" -o "$t/d" --name .-Tiny --dry-run
grep -q "^Tiny-Q3_K_M.gguf" "$t/o" || say "a hidden name: $(cat "$t/o")"
run 2 make "$g" -o "$t/d" --name ..
grep -q 'give one with --name' "$t/e" || say "no name: $(cat "$t/e")"
run 2 make "$g" -o "$t/d" --budget 1MiB
run 0 make "$g" -o "$t/d" --license mit --base-model moonshotai/Kimi-K3
grep -q "Nothing was measured" "$t/o" "$t/e" || say "make does not say that it measured nothing"
[ "$(ls "$t/d"/*.gguf | wc -l)" = 6 ] || say "make wrote $(ls "$t/d")"
grep -q '^\*\*Not evaluated\*\*: .*`kimi-k3`' "$t/d/README.md" || say "the card does not say that nothing was evaluated"
[ ! -e "$t/d/results.json" ] || say "results without measurements"
before=$(cat "$t/d/SHA256SUMS")
run 0 make "$g" -o "$t/d" --license mit --base-model moonshotai/Kimi-K3
[ "$(cat "$t/d/SHA256SUMS")" = "$before" ] || say "a second make changed files"
run 0 doctor --models --csv
for a in mimo2,false,true exaone-moe,false,true glm-dsa,false,true deepseek32,false,true qwen35,true,true llama,false,false; do
    grep -q "^${a%%,*},.*,${a#*,}," "$t/o" || say "MTP: $(grep "^${a%%,*}," "$t/o")"
done
grep -q '^kimi-k3,.*,false,' "$t/o" || say "doctor --models: $(grep kimi-k3 "$t/o")"
exit $fail
