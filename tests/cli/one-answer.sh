#!/bin/sh
# One recommendation: the terminal, the card, the report and the Modelfile of a folder recommend the same file, hone
# plan chooses it where it fits, and its loss is described with the words of the table in the report.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
tiny=tests/golden/tiny-qwen35moe
job() { # folder, recipes
    run 0 make $tiny -o "$t/$1" --plain --recipe "$2" --chunks 4 --calib-chunks 8 --tools none --pp 8 --tg 2 --reps 1 --repo me/Tiny-GGUF --license mit
    cp "$t/o" "$t/$1.out"
}
# The recommendations, as recipes; each line: where, name.
answers() {
    d=$t/$1
    echo "terminal $(sed -n 's/^Take \([A-Z0-9_]*\),.*/\1/p' "$t/$1.out")"
    echo "server $(sed -n 's/^To serve it: hone serve .*-\([A-Z0-9_]*\)\.gguf$/\1/p' "$t/$1.out")"
    echo "card $(sed -n 's/^\*\*Take \([A-Z0-9_]*\),.*/\1/p' "$d/README.md")"
    echo "table $(sed -n 's/^| .*\[\*\*\([A-Z0-9_]*\)\*\*\](.*/\1/p' "$d/README.md")"
    echo "report $(grep -oE '[A-Z0-9_]*\.gguf</a></code><span class=star>' "$d/report.html" | head -1 | sed 's/\.gguf.*//')"
    echo "Modelfile $(sed -n 's/^FROM .*-\([A-Z0-9_]*\)\.gguf$/\1/p' "$d/Modelfile")"
    echo "commands $(grep -oE 'hone run [^ ]*-[A-Z0-9_]*\.gguf' "$d/README.md" | head -1 | sed 's/.*-\([A-Z0-9_]*\)\.gguf/\1/')"
}
job two Q8_0,Q4_K_M,Q2_K
job small Q4_K_M,Q2_K
for f in two small; do
    answers $f > "$t/answers"
    [ "$(cut -d' ' -f2 "$t/answers" | sort -u | wc -l)" = 1 ] && ! grep -q ' $' "$t/answers" || say "$f: $(cat "$t/answers")"
done
# plan agrees if everything fits: it takes the file closest to the original, which is the largest of these
run 0 plan "$t/two" --vram 24GiB
head -1 "$t/o" | grep -q 'Take tiny-qwen35moe-Q8_0.gguf' || say "plan: $(head -1 "$t/o")"
exit $fail
