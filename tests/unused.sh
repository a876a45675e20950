#!/bin/sh
# Lists functions without a caller in the product: none of its objects refers to them, and its sources mention them only
# where they are declared and defined. Functions that only tests use are in the list below. Exits with 1 if there are
# others. Run by `make lint` after a build.
set -eu
all=$(dirname "$HONE")/all.a
[ -e "$all" ] || { echo "unused: no $all"; exit 0; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
# functions that only tests and benchmarks call: they show state that no result contains, or a device's work
cat > "$t/tests" << 'END'
arena_reset cu_count cu_launches cu_mark cu_marked_ms cu_unpack_weight cu_uses_wgmma dev_product_least eval_kld_file grad_observe_residual gram_may_end gram_vocab_of gram_vocab_size
jinja_render_text kern_unpack kv_turbo_codebook lint_probe_id tok_add_eos tok_merge session_own_seq tok_n_merges tok_pre
END
tr ' ' '\n' < "$t/tests" | sort > "$t/known"
objdump -r "$all" "$(dirname "$all")/cli/main.o" 2> /dev/null | awk '/R_[A-Z0-9_]+_/ { s = $3; sub(/[-+]0x.*/, "", s); print s }' | sort -u > "$t/used"
nm "$all" 2> /dev/null | awk '$2 == "T" { print $3 }' | sort -u | comm -23 - "$t/used" | grep -v '^hone_' | comm -23 - "$t/known" > "$t/left"
git ls-files '*.c' '*.h' '*.cu' '*.cuh' '*.def' | grep -vE '^(tests|bench|docs|packaging)/' | xargs cat | tr -c 'A-Za-z0-9_' '\n' |
    awk -v left="$t/left" 'BEGIN { while ((getline l < left) > 0) want[l] = 1 } $0 in want { n[$0]++ }
    END { for (f in want) if (n[f] <= 2) print f " is used by nothing: delete it, or make what tests it ask for it (tests/unused.sh)" }' | sort > "$t/out"
cat "$t/out"
[ ! -s "$t/out" ]
