#!/bin/sh
# The installed library from a user's point of view: hone.h, libhone.a and .so through pkg-config; the programs of
# docs/examples are built against it and run; exactly the functions that the header declares are exported; uninstalling
# leaves nothing.
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

# ---- names: the header, what the libraries export ----
sed -n '/^HONE_API/,/;/p' "$p/include/hone.h" | tr '\n' ' ' | sed 's/;/;\n/g' | sed -n 's/^[^(]*[ *]\(hone_[a-z0-9_]*\)(.*/\1/p' | sort > "$t/want"
[ "$(wc -l < "$t/want")" -ge 90 ] || say "hone.h: only these functions were found: $(cat "$t/want")"
nm -D --defined-only "$p/lib/libhone.so" | sed -n 's/.* T \(.*\)@@HONE_2$/\1/p' | sort > "$t/so"
cmp -s "$t/want" "$t/so" || say "libhone.so exports: $(diff "$t/want" "$t/so")"
others=$(nm -D --defined-only "$p/lib/libhone.so" | grep -vE '@@HONE_2$' | grep -vE ' A HONE_2$|__(asan|ubsan|odr_asan)' || true)
[ -z "$others" ] || say "libhone.so exports more: $others"
nm -g --defined-only "$p/lib/libhone.a" | sed -n 's/.* T //p' | grep -vE '^__?(asan|ubsan|odr_asan)' | sort > "$t/a"
cmp -s "$t/want" "$t/a" || say "libhone.a exports: $(diff "$t/want" "$t/a")"
readelf -d "$p/lib/libhone.so" | grep -q 'SONAME.*\[libhone.so.2\]' || say "soname: $(readelf -d "$p/lib/libhone.so")"
# debug information stays in the build folder: installed files are stripped, except for the static library's names
[ -n "${SANF:-}" ] || for f in "$p/bin/hone" "$p/lib/libhone.so" "$p/lib/libhone.a"; do
    readelf -S "$f" 2> /dev/null | grep -q '\.debug_info' && say "$f is not stripped"
done

# ---- the examples, linked both ways ----
cc=${CC:-cc}
build() { # example, output, flags of the linker
    src=$1; out=$2; shift 2
    # shellcheck disable=SC2086
    $cc -std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror ${SANF:-} "$src" $(pc --cflags) "$@" -o "$out" > "$t/o" 2>&1 || say "$src: $(cat "$t/o")"
}
n=0
for x in docs/examples/*.c; do
    b=$(basename "$x" .c); n=$((n + 1))
    [ "$(wc -l < "$x")" -le 60 ] || say "$x has more than 60 lines"
    build "$x" "$t/$b" $(pc --libs) -lm -lpthread "-Wl,-rpath,$p/lib"
done
[ $n -ge 10 ] || say "$n examples"
build docs/examples/steps.c "$t/steps-static" "$p/lib/libhone.a" $(pc --static --libs | sed 's/-lhone//') -lstdc++
cp "$p/include/hone.h" "$t/cxx.cpp" && $cc -x c++ -Wall -Wextra -Werror -fsyntax-only "$t/cxx.cpp" 2> "$t/o" || say "as C++: $(cat "$t/o")"

# ---- each does what it promises ----
run() { # program, arguments: into o and e; must succeed
    x=$1; shift
    "$t/$x" "$@" > "$t/o" 2> "$t/e" || say "$x: exit $?: $(cat "$t/e")"
}
says() { grep -q -- "$1" "$t/o" || say "$x: no '$1' in: $(head -c 600 "$t/o")"; }
m=tests/golden/models/qwen35moe
text=tests/golden/tiny-qwen35moe/self_eval.txt
for x in steps steps-static; do
    run $x $m "$t/$x.gguf" Q8_0
    says '"file_type": "Q8_0"\|"recipe": "Q8_0"'
    [ ! -e "$t/$x.gguf.base.gguf" ] || say "$x left its base file"
done
"$HONE" convert $m -o "$t/c.gguf" > "$t/o" 2>&1 && "$HONE" quantize "$t/c.gguf" -o "$t/q.gguf" --recipe Q8_0 > "$t/o" 2>&1
# the record names the input file
"$HONE" diff "$t/q.gguf" "$t/steps.gguf" --json > "$t/o" 2> "$t/e" || true
tr -d '\n' < "$t/o" | grep -q '"n_tensors": 0,' || say "the library's tensors differ from the program's: $(cat "$t/o")"
rc=0; "$t/steps" $m "$t/x.gguf" Q9_9 > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 2 ] && grep -q 'Q9_9' "$t/e" && [ ! -e "$t/x.gguf" ] || say "bad recipe: exit $rc: $(cat "$t/e")"

"$HONE" convert tests/golden/tiny-qwen35moe -o "$t/b.gguf" > "$t/o" 2>&1 || say "convert: $(cat "$t/o")"
run quantizer "$t/b.gguf" "$t/own.gguf"
"$HONE" verify "$t/own.gguf" --deep > "$t/o" 2>&1 || say "quantizer: $(cat "$t/o")"
[ "$(stat -c %s "$t/own.gguf")" -lt "$(($(stat -c %s "$t/b.gguf") / 2))" ] || say "quantizer: not smaller"
run perplexity "$t/b.gguf" $text 2
# "28.0142 +- 0.9 over 512 tokens": the number of the command
"$HONE" eval ppl "$t/b.gguf" $text --chunks 2 --act f32 --csv -q > "$t/csv" 2> /dev/null
grep -q "$(cut -d' ' -f1 "$t/o")" "$t/csv" || say "perplexity: $(cat "$t/o") and $(cat "$t/csv")"
run divergence "$t/b.gguf" "$t/own.gguf" $text 1
says '^mean 0\.[0-9]* +- .*, same top token [5-9][0-9]'
run tensor "$t/own.gguf" token_embd.weight
says 'token_embd.weight: Q8_0, '
rc=0; "$t/tensor" "$t/own.gguf" absent > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 2 ] && grep -q "no tensor 'absent'" "$t/e" || say "tensor: exit $rc: $(cat "$t/e")"
run corpus "$t/b.gguf" $text "$t/ids"
says "^$(wc -c < $text) bytes, $(($(wc -c < "$t/ids") / 4)) tokens"
echo '[{"role": "user", "content": "Say <|im_end|> twice"}]' > "$t/conv"
run template "$t/b.gguf" "$t/conv"
says 'Say <|im_end|> twice'
printf 'Let me see.<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>' > "$t/answer"
"$t/toolcall" "$t/b.gguf" < "$t/answer" > "$t/o" 2> "$t/e" || say "toolcall: $(cat "$t/e")"
x=toolcall; says '"name": "get_weather", "arguments": {"city": "Oslo", "days": 3}'
run chat "$t/b.gguf" 'Once "upon" a time' 12
grep -q 'tokens, ended by: ' "$t/e" || say "chat: $(cat "$t/e")"
mkdir "$t/v" && "$HONE" convert tests/golden/models/qwen35 -o "$t/v/m.gguf" --mmproj "$t/v/mmproj.gguf" -q > "$t/o" 2>&1 || say "convert: $(cat "$t/o")"
run image "$t/v/m.gguf" tests/golden/pixels/420.jpg 8
[ -s "$t/o" ] || say "image: no answer"
rc=0; "$t/image" "$t/v/m.gguf" docs/python.md > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 3 ] && grep -q 'not an image' "$t/e" || say "image: exit $rc: $(cat "$t/e")"
for i in $(seq 100); do echo "The number $i is"; done > "$t/prompts"
run batch "$t/b.gguf" "$t/prompts" 4
[ "$(wc -l < "$t/o")" -ge 100 ] && says '^100	' || say "batch: $(tail -3 "$t/o")"
rc=0; "$t/cancel" "$t/b.gguf" "$t/late.gguf" IQ4_XS 1 > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 130 ] && [ ! -e "$t/late.gguf" ] && grep -q cancelled "$t/o" || say "cancel: exit $rc: $(cat "$t/o" "$t/e")"

# ---- after `make install PREFIX=$HOME/.local`, as in README.md: the program finds the library without further settings
# ----
if [ -z "${SANF:-}" ]; then
    mkdir -p "$t/home" && cp -r "$p" "$t/home/.local"
    sed -i "s|^prefix=.*|prefix=$t/home/.local|" "$t/home/.local/lib/pkgconfig/hone.pc" # as written by make install
    sed -n '/^```sh$/,/^```$/p' README.md | grep -E '^(export PKG_CONFIG_PATH=|cc app\.c )' > "$t/lines"
    [ "$(wc -l < "$t/lines")" = 2 ] || say "README.md: lines to build with: $(cat "$t/lines")"
    cp docs/examples/template.c "$t/app.c"
    (cd "$t" && env -u LD_LIBRARY_PATH HOME="$t/home" sh -e ./lines) > "$t/o" 2>&1 || say "README.md's lines: $(cat "$t/o")"
    rc=0; env -u LD_LIBRARY_PATH "$t/a.out" > "$t/o" 2>&1 || rc=$?
    grep -q 'shared librar' "$t/o" && say "README.md's program does not start: $(cat "$t/o")"
    [ $rc -lt 126 ] || say "README.md's program: exit $rc: $(cat "$t/o")"
fi

# ---- uninstall removes what install has written ----
n=$(find "$p" -type f | wc -l)
[ "$n" -ge 35 ] || say "$n files installed"
mkdir "$t/i" && cp -r "$stage/opt" "$t/i"
MAKEFLAGS='' make -s uninstall DESTDIR="$t/i" PREFIX=/opt/hone > "$t/o" 2>&1 || say "uninstall: $(cat "$t/o")"
[ -z "$(find "$t/i" ! -type d)" ] || say "uninstall left $(find "$t/i" ! -type d)"
exit $fail
