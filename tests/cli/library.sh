#!/bin/sh
# The installation as others meet it: hone.h, libhone.a and .so by pkg-config, the two example programs against both; every
# command is in the header and exported, nothing else is; uninstall leaves nothing.
set -eu
stage=$(dirname "$HONE")/stage
[ -e "$stage/opt/hone/include/hone.h" ] || { echo "SKIP: no $stage (make test installs there)"; exit 77; }
command -v pkg-config > /dev/null && command -v nm > /dev/null || { echo "SKIP: no pkg-config or nm"; exit 77; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
p=$stage/opt/hone
pc() { PKG_CONFIG_PATH=$p/lib/pkgconfig pkg-config --define-variable=prefix="$p" "$@" hone; }
[ "$(pc --modversion)" = "$(cat VERSION)" ] || say "hone.pc: version $(pc --modversion)"
grep -q '^prefix=/opt/hone$' "$p/lib/pkgconfig/hone.pc" || say "hone.pc: $(cat "$p/lib/pkgconfig/hone.pc")"

# ---- names: commands.def, the header, what the libraries export ----
{ echo hone_call; echo hone_version; echo hone_result_free
  sed -n 's/^COMMAND("[^"]*", \([a-z_]*\),.*/hone_\1/p' cli/commands.def; } | sort > "$t/want"
grep -oE '\bhone_[a-z_]+\(|HONE_CALL\(hone_[a-z_]+' "$p/include/hone.h" | grep -oE 'hone_[a-z_]+' | sort -u > "$t/header"
# names in comments' examples are declared too
cmp -s "$t/want" "$t/header" || say "hone.h against commands.def: $(diff "$t/want" "$t/header")"
nm -D --defined-only "$p/lib/libhone.so" | sed -n 's/.* T \(.*\)@@HONE_0$/\1/p' | sort > "$t/so"
cmp -s "$t/want" "$t/so" || say "libhone.so exports: $(diff "$t/want" "$t/so")"
others=$(nm -D --defined-only "$p/lib/libhone.so" | grep -v '@@HONE_0$' | grep -vE ' A HONE_0$|__(asan|ubsan|odr_asan)' || true)
[ -z "$others" ] || say "libhone.so exports more: $others"
nm -g --defined-only "$p/lib/libhone.a" | sed -n 's/.* T //p' | grep -vE '^__?(asan|ubsan|odr_asan)' | sort > "$t/a"
cmp -s "$t/want" "$t/a" || say "libhone.a exports: $(diff "$t/want" "$t/a")"
readelf -d "$p/lib/libhone.so" | grep -q 'SONAME.*\[libhone.so.0\]' || say "soname: $(readelf -d "$p/lib/libhone.so")"

# ---- the examples, linked both ways ----
cc=${CC:-cc}
build() { # example, output, flags of the linker
    src=$1; out=$2; shift 2
    # shellcheck disable=SC2086
    $cc -std=c11 -Wall -Wextra -Werror ${SANF:-} "$src" $(pc --cflags) "$@" -o "$out" > "$t/o" 2>&1 || say "$src: $(cat "$t/o")"
}
for x in quantize ask; do
    build docs/examples/$x.c "$t/$x" $(pc --libs) "-Wl,-rpath,$p/lib"
    build docs/examples/$x.c "$t/$x-static" "$p/lib/libhone.a" $(pc --static --libs | sed 's/-lhone//') -lstdc++
done
cp include/hone.h "$t/cxx.cpp" && $cc -x c++ -Wall -Wextra -Werror -fsyntax-only "$t/cxx.cpp" 2> "$t/o" || say "as C++: $(cat "$t/o")"
m=tests/golden/models/qwen35moe
for x in quantize quantize-static; do
    "$t/$x" $m "$t/$x.gguf" Q8_0 > "$t/o" 2> "$t/e" || say "$x: exit $?: $(cat "$t/e")"
    grep -q '"file_type": "Q8_0"\|"recipe": "Q8_0"' "$t/o" || say "$x: $(cat "$t/o")"
    [ ! -e "$t/$x.gguf.base.gguf" ] || say "$x left its base file"
done
"$HONE" convert $m -o "$t/b.gguf" > "$t/o" 2>&1 && "$HONE" quantize "$t/b.gguf" -o "$t/q.gguf" --recipe Q8_0 > "$t/o" 2>&1
# the record names the input file
"$HONE" diff "$t/q.gguf" "$t/quantize.gguf" --json > "$t/o" 2> "$t/e" || true
tr -d '\n' < "$t/o" | grep -q '"n_tensors": 0,' || say "the library's tensors differ from the program's: $(cat "$t/o")"
rc=0; "$t/quantize" $m "$t/x.gguf" Q9_9 > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 2 ] && grep -q '^quantize: .*Q9_9' "$t/e" && [ ! -e "$t/x.gguf" ] || say "bad recipe: exit $rc: $(cat "$t/e")"
for x in ask ask-static; do
    "$t/$x" "$t/b.gguf" 'Once upon a time' > "$t/o" 2> "$t/e" || say "$x: exit $?: $(cat "$t/e")"
    grep -q '"generated_tokens": 8' "$t/o" || say "$x: $(cat "$t/o" "$t/e")"
done
rc=0; "$t/ask" "$t/absent.gguf" x > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 2 ] && [ ! -s "$t/o" ] || say "absent file: exit $rc: $(cat "$t/o" "$t/e")"

# ---- uninstall takes away what install put there ----
n=$(find "$p" -type f | wc -l)
[ "$n" -ge 35 ] || say "$n files installed"
mkdir "$t/i" && cp -r "$stage/opt" "$t/i"
MAKEFLAGS='' make -s uninstall DESTDIR="$t/i" PREFIX=/opt/hone > "$t/o" 2>&1 || say "uninstall: $(cat "$t/o")"
[ -z "$(find "$t/i" ! -type d)" ] || say "uninstall left $(find "$t/i" ! -type d)"
exit $fail
