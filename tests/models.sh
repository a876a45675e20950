#!/bin/sh
# The table of models in docs/models.md, from the registry (hone doctor --models) and the tests. Run from the root with
# $HONE:
#   tests/models.sh            prints it
#   tests/models.sh --check    checks that docs/models.md contains it
#   tests/models.sh --write    writes it to docs/models.md
# A model is "run, measured" if a test compares its logits with an independent implementation: a folder of tests/golden,
# or an edited one, names its class, or a row of test_archs its architecture. "CUDA" is "whole" if test_cuda_session
# runs such a folder on the emulated device. Otherwise it is "by operation", because its operations are tested there one
# by one (cuda_ops, cuda_more).
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
"$HONE" doctor --models --csv > "$t/csv" || { echo "no \$HONE that knows doctor --models: build first"; exit 1; }
for c in tests/golden/models/*/config.json tests/golden/archs/*/config.json; do
    d=${c%/config.json}
    on=parts
    grep -q "\"${d##*/}\"" tests/unit/test_cuda_session.c && on=whole
    grep -oE '"[A-Za-z0-9_]+For(CausalLM|ConditionalGeneration)"' "$c" | sort -u | sed "s/^/$on /"
done > "$t/seen"
grep -ohE '\\"[A-Za-z0-9_]+For(CausalLM|ConditionalGeneration)\\"' tests/unit/test_*.c | tr -d '\\' | sort -u | sed 's/^/parts /' >> "$t/seen"
sed -n 's/^ *{"\([^"]*\)", "\([^"]*\)",.*/\1 \2/p' tests/unit/test_archs.c | while read -r d arch; do
    on=parts
    grep -q "\"$d\"" tests/unit/test_cuda_session.c && on=whole
    echo "$on $arch"
done >> "$t/seen"
{
    echo '| models | in GGUF | convert, quantize | run, measure | CUDA, emulated | tool calls | also |'
    echo '|---|---|---|---|---|---|---|'
    awk -v seen="$t/seen" '
        function cut(line,    n, q, c, i) { # fields of a line of CSV
            n = 1; f[1] = ""; q = 0
            for (i = 1; i <= length(line); i++) {
                c = substr(line, i, 1)
                if (c == "\"") q = !q
                else if (c == "," && !q) f[++n] = ""
                else f[n] = f[n] c
            }
        }
        BEGIN { while ((getline line < seen) > 0) { split(line, w, " "); gsub(/"/, "", w[2]); if (on[w[2]] != "whole") on[w[2]] = w[1] } }
        NR == 1 { cut($0); for (i in f) at[f[i]] = i; next }
        {
            cut($0); best = on[f[at["arch"]]]
            n = split(f[at["classes"]], class, " ")
            for (i = 1; i <= n; i++) if (best != "whole" && on[class[i]] != "") best = on[class[i]]
            tools = f[at["tools"]]; gsub(/ /, ", ", tools)
            also = f[at["vision"]] == "true" ? "vision tower" : ""
            limit = f[at["kind"]]
            limit = sub(/.*; contexts/, ", contexts", limit) ? limit : ""
            if (f[at["drafts"]] == "true") also = also (also == "" ? "" : ", ") "MTP block"
            else if (f[at["keeps_mtp"]] == "true") also = also (also == "" ? "" : ", ") "MTP block (not run)"
            runs = f[at["runs"]] == "true"
            printf "%s\t| %s | `%s` | yes | %s | %s | %s | %s |\n", f[at["models"]], f[at["models"]], f[at["arch"]],
                (!runs ? "no" : best == "" ? "yes, not compared" : "yes") limit, !runs ? "no" : best == "whole" ? "whole" : "by operation", tools == "" ? "-" : tools, also
        }' "$t/csv" | LC_ALL=C sort -f | cut -f 2-
    echo '| any other GGUF | any name | quantize: by names of tensors | no | no | by its template |  |'
} > "$t/table"
begin='<!-- models: written by make models-table -->' end='<!-- models end -->'
case ${1:-} in
'') cat "$t/table" ;;
--write)
    awk -v table="$t/table" -v b="$begin" -v e="$end" '
        $0 == b { print; print ""; while ((getline line < table) > 0) print line; print ""; skip = 1; next }
        $0 == e { skip = 0 }
        !skip' docs/models.md > "$t/readme" && cat "$t/readme" > docs/models.md ;;
--check)
    sed -n "/^$begin\$/,/^$end\$/p" docs/models.md | grep '^|' > "$t/now" || true
    diff "$t/now" "$t/table" > "$t/d" || { echo "docs/models.md's table of models is not true: run make models-table"; cat "$t/d"; exit 1; } ;;
*) echo "usage: tests/models.sh [--write | --check]"; exit 2 ;;
esac
