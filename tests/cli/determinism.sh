#!/bin/sh
# Output bytes do not depend on instruction set and thread count: convert to every type it writes, imatrix merge in both
# forms, quantize to every type (with importance, and every search for the k-quants), a recipe, a split output. The
# first run of each is the scalar reference on one thread; instruction sets that this machine lacks are skipped with a
# message. With HASHES=FILE, the hashes of all files written are appended to FILE, to compare two builds
# (tests/hashes.sh).
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
src=tests/golden/models/qwen3 moe=tests/golden/models/qwen35moe
head -c 20000 tests/golden/tiny-qwen35moe/self_calib.txt >"$t/a.txt"
tail -c 20000 tests/golden/tiny-qwen35moe/self_calib.txt >"$t/b.txt"
ways='ref:1'
for isa in avx2 avxvnni avx512 amx neon dotprod i8mm; do
    if "$HONE" convert $src -o "$t/none" --dry-run --isa $isa -q >/dev/null 2>&1; then
        [ $isa = avx2 ] && ways="$ways avx2:1 avx2:3" || ways="$ways $isa:2"
    else
        echo "this machine has no $isa: not compared"
    fi
done
n=0 bad=0
same() { # name, command with OUT in the place of its output
    name=$1
    shift
    first=
    for way in $ways; do
        out="$t/$name.${way%:*}-${way#*:}"
        cmd=
        for a in "$@"; do [ "$a" = OUT ] && a=$out; cmd="$cmd '$a'"; done
        eval "\"\$HONE\" $cmd -q --isa ${way%:*} --threads ${way#*:}" >/dev/null 2>"$t/err" || {
            echo "$name ($way): $(cat "$t/err")"
            bad=$((bad + 1))
            continue
        }
        if [ -z "$first" ]; then first=$out; continue; fi
        n=$((n + 1))
        cmp "$first" "$out" || { echo "$name: $way differs from ${ways%% *}"; bad=$((bad + 1)); }
        rm -f "$out"
    done
    [ -z "$first" ] || mv "$first" "$t/$name"
    [ -z "${HASHES-}" ] || (cd "$t" && md5sum "$name") >>"$HASHES"
}
for type in auto f32 f16 bf16 q8_0; do same "convert-$type" convert $src -o OUT --type $type; done
same convert-moe convert $moe -o OUT
base="$t/convert-bf16"
for x in a b; do "$HONE" imatrix "$base" "$t/$x.txt" -o "$t/$x.gguf" --ctx 128 -q >/dev/null; done
same merged imatrix --merge "$t/a.gguf" "$t/b.gguf" -o OUT
same merged.dat imatrix --merge "$t/a.gguf" "$t/b.gguf" -o OUT --format dat
types=$(sed -n 's/^QTYPE([A-Z0-9_]*, *[0-9]*, *"\([a-z0-9A-Z_]*\)".*/\1/p' containers/qtype.def)
least=27 searched='q4_K q3_K iq2_xs iq3_s q4_0'
# a sanitizer is slow and looks for different errors
if grep -q __asan_init "$HONE"; then types='Q4_K IQ2_XS Q5_0' searched=q4_K least=3; fi
written=0
for type in $types; do
    # types that cannot be written (activation formats), and the base's own type, are refused before anything is read
    rc=0
    "$HONE" quantize "$base" -o "$t/none" --type "$type" --imatrix "$t/merged" --dry-run -q >/dev/null 2>&1 || rc=$?
    [ $rc = 0 ] || continue
    written=$((written + 1))
    same "q-$type" quantize "$base" -o OUT --type "$type" --imatrix "$t/merged"
    rm -f "$t/q-$type"
done
[ $written -ge $least ] || { echo "only $written types could be written"; bad=$((bad + 1)); }
for search in best conventional; do
    for type in $searched; do
        same "q-$type-$search" quantize "$base" -o OUT --type $type --imatrix "$t/merged" --search $search
    done
done
same recipe quantize "$t/convert-moe" -o OUT --recipe Q4_K_M
# with error feedback, given moments lead to the same bytes; the moments themselves are sums of activations, whose last
# bits differ between instruction sets
"$HONE" imatrix "$t/convert-moe" "$t/b.txt" -o "$t/m.gguf" --gram "$t/g.gguf" --ctx 128 --chunks 16 -q >/dev/null
few='exps|^output.weight|^blk' # without most: matrices of one block
head -c 13000 "$t/b.txt" > "$t/short.txt"
"$HONE" quantize "$t/convert-moe" -o "$t/none" --recipe Q4_0 --tensor "$few.0=BF16" --sequential "$t/short.txt" --gram "$t/own.gguf" -q > /dev/null
# scalar codes with embeddings, grids, byte scales; own: the moments that make --effort high collects after earlier
# blocks
for made in 'Q4_0 g .[1-9]' 'IQ3_S g .[1-9]|^token_embd' 'MXFP4 g .[1-9]|^token_embd' 'Q4_0 own .0|^token_embd'; do
    read -r recipe gram rest << END
$made
END
    made=feedback-$recipe-$gram
    set -- --recipe $recipe --imatrix "$t/m.gguf" --tensor "$few$rest=BF16"
    "$HONE" quantize "$t/convert-moe" -o "$t/none" "$@" -q -f > /dev/null
    same $made quantize "$t/convert-moe" -o OUT "$@" --gram "$t/$gram.gguf"
    "$HONE" diff "$t/none" "$t/$made" > "$t/diff" 2> "$t/err" || true
    grep -q 'tensors that differ  *[1-9]' "$t/diff" || { echo "$made changes nothing"; bad=$((bad + 1)); }
done
echo "$written types; $n comparisons over '$ways', $bad wrong"
[ $bad = 0 ]
