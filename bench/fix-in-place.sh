#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/fix-in-place.sh [OUT.json] - tests `hone template fix --in-place` on a file of about 4 GiB: measures the time
# when the text fits into the header's padding, compares a checksum of all tensors before and after, and kills CUTS (60)
# runs at random moments; after each one the file must open with either the old or the new template. Needs 9 GB of disk.
# LAYERS=1 makes a quick run on a small file.
set -eu
hone=${HONE:-build/hone}
out=${1:-docs/results/fix-in-place.json}
cuts=${CUTS:-60}
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
m=$t/m.gguf
fail() { echo "$*"; [ ! -s "$t/err" ] || cat "$t/err"; exit 1; }
us() { echo $(($(date +%s%N) / 1000)); }
fix() { "$hone" template fix "$m" --replace "$1" --in-place > /dev/null 2> "$t/err"; }
"$hone" synth --layers "${LAYERS:-8}" --recipe Q4_K_M -o "$m" -q > /dev/null

t0=$(us)
fix qwen3 || fail "fix" # no template and no room for one: the fix makes room or rewrites the file
rewrite=$(($(us) - t0)) how=rewrite_s
if grep -q "room made" "$t/err"; then how=make_room_s; fi
bytes=$(wc -c < "$m")
tensors=$("$hone" inspect "$m" --json --keys none | sed -n 's/^ *"tensor_bytes": \([0-9]*\).*/\1/p')
sum() { tail -c "$tensors" "$m" | sha256sum | cut -d' ' -f1; }
before=$(sum)

name=qwen3
for i in 1 2 3 4 5 6 7 8 9 10; do
    [ $name = qwen3 ] && name=qwen3.5 || name=qwen3
    t0=$(us)
    fix $name || fail "fix"
    echo $(($(us) - t0)) >> "$t/us"
    grep -q 'in place' "$t/err" || fail "the text did not fit"
done

killed=0 old=0 new=0 seed=${SEED:-1}
longest=$(sort -n "$t/us" | tail -1)
for i in $(seq "$cuts"); do
    was=$name
    [ $name = qwen3 ] && name=qwen3.5 || name=qwen3
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    "$hone" template fix "$m" --replace $name --in-place > /dev/null 2>&1 &
    pid=$!
    sleep "$(awk -v s="$seed" -v us="$longest" 'BEGIN { printf "%.4f", s % 1000 / 1000 * us / 1e6 }')"
    kill -KILL $pid 2> /dev/null || true
    rc=0
    wait $pid 2> /dev/null || rc=$?
    [ $rc = 0 ] || killed=$((killed + 1))
    "$hone" template show "$m" > "$t/now" 2> "$t/err" || fail "after cut $i the file does not open"
    if cmp -s "$t/now" "template/own/$name.jinja"; then new=$((new + 1))
    elif cmp -s "$t/now" "template/own/$was.jinja"; then old=$((old + 1)) name=$was
    else fail "after cut $i the template is neither the old nor the new one"; fi
done
[ "$(sum)" = "$before" ] || fail "tensors changed"
"$hone" verify "$m" -q > /dev/null || fail "verify"
median=$(sort -n "$t/us" | sed -n 5p)
{
    echo '{'
    echo ' "command": "bench/fix-in-place.sh",'
    printf ' "file_bytes": %s,\n "%s": %s,\n' "$bytes" $how "$(awk "BEGIN{print $rewrite / 1e6}")"
    printf ' "in_place_s_median": %s,\n "in_place_s_longest": %s,\n' "$(awk "BEGIN{print $median / 1e6}")" "$(awk "BEGIN{print $longest / 1e6}")"
    printf ' "cuts": %d,\n "killed": %d,\n "old_after": %d,\n "new_after": %d,\n "tensors_sha256_equal": true\n}\n' "$cuts" $killed $old $new
} > "$out"
cat "$out"
