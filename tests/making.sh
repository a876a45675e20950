# SPDX-License-Identifier: MIT
# A small job of hone make for scripts in tests/cli; sourced: `. tests/making.sh`. It makes the scratch folder t, removed when the script ends,
# with calibration and evaluation texts.
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
head -c 3000 tests/golden/tiny-qwen35moe/self_calib.txt > "$t/calib.txt"
head -c 2500 tests/golden/tiny-qwen35moe/self_eval.txt > "$t/eval.txt"

small_make() { # expected exit, folder, more: a job of the model $t/Tiny
    want=$1 folder=$2
    shift 2
    run "$want" make "$t/Tiny" -o "$folder" --calib "$t/calib.txt" --eval "$t/eval.txt" --ctx 64 --chunks 2 --calib-ctx 64 --pp 4 --tg 2 \
        --reps 1 --tools none "$@"
}
number() { sed -n "s/^ *\"$1\": \([-0-9.a-z]*\),*$/\1/p" "$2" | head -1; } # of a member of a JSON file
