#!/bin/sh
# SPDX-License-Identifier: MIT
# hone meta: values of every type are compared with a file that the gguf package wrote with the edited metadata
# (tests/oracle/make_meta.py), both in place and rewritten; refused edits leave the bytes unchanged; permissions; split
# sets. tests/killed.sh and tests/unit/test_gguf_edit.c test interrupted edits.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
g=tests/golden/meta
fail() { echo "FAIL: $*"; [ ! -s "$t/err" ] || tail -n 3 "$t/err"; exit 1; }
keys() { "$HONE" meta "$1" --json | grep '"key"\|"type"\|"value"' | paste - - - | grep -v hone.padding; }

printf '{%% for m in messages %%}\n{{ m }}\n{%% endfor %%}\n' > "$t/new.jinja"
printf '["", "\303\274", "\\"\\\\\\n"]' > "$t/words.json"
edit() {
    "$HONE" meta "$1" 'general.name=Größer ="quoted"' t.count=4294967295 t.small=255 t.neg=-32768 t.long=18446744073709551615 \
        t.deep=-9223372036854775808 t.ratio=1e-6 t.exact=1e300 t.on=false 't.ints=[-1, 2147483647]' "t.words=@$t/words.json" \
        --unset t.gone "tokenizer.chat_template=@$t/new.jinja" general.sampling.temp=1 general.version=2 'general.tags=["chat"]' new.flag=true \
        new.whole=12 new.minus=-12 new.wide=5000000000 new.part=1.5 new.text=1.5.0 new.byte:u8=9 'new.list=[1.5, 2]' new.at=@@me 2> "$t/err"
}
cp $g/base.gguf "$t/m.gguf"
chmod 640 "$t/m.gguf"
edit "$t/m.gguf" > "$t/out" || fail "edit"
keys $g/edited.gguf > "$t/want"
[ "$(wc -l < "$t/want")" = 26 ] || fail "the list has $(wc -l < "$t/want") keys"
# edited keys keep their places; the added ones follow the last of them
keys "$t/m.gguf" | diff "$t/want" - || fail "metadata differs from the gguf package's"
[ "$(stat -c %a "$t/m.gguf")" = 640 ] || fail "other permissions"
tail -c 256 "$t/m.gguf" | cmp - "$(tail -c 256 $g/base.gguf > "$t/data"; echo "$t/data")" || fail "other tensor data"
"$HONE" verify "$t/m.gguf" --deep -q > /dev/null || fail "verify"
edit "$t/m.gguf" > "$t/out" || fail "the same edit again"
grep -q 'no key "t.gone"' "$t/err" || fail "no warning about a key that is missing"
keys "$t/m.gguf" | diff "$t/want" - || fail "other metadata after the same edit"
cp $g/base.gguf "$t/m.gguf"
"$HONE" meta "$t/m.gguf" --unset t.gone > /dev/null 2>&1 || fail "--unset alone"
"$HONE" meta "$t/m.gguf" t.count=8 2>&1 > /dev/null | grep -q 'wrote 1 bytes of metadata in place' || fail "one number in place"
"$HONE" meta "$t/m.gguf" t.count=8 2>&1 > /dev/null | grep -q 'nothing was written' || fail "the same number again"
"$HONE" meta "$t/m.gguf" t.on=TRUE new.yes=True > /dev/null 2>&1 || fail "booleans in capitals"
"$HONE" meta "$t/m.gguf" t.on new.yes --csv | grep -c 'bool,true' | grep -qx 2 || fail "booleans in capitals: other values"
printf '\357\273\277a name' > "$t/bom.txt"
"$HONE" meta "$t/m.gguf" "t.text=@$t/bom.txt" > /dev/null 2>&1 || fail "a byte order mark"
"$HONE" meta "$t/m.gguf" t.text --json | grep -q '"value": "a name"' || fail "a byte order mark is kept"
"$HONE" meta "$t/m.gguf" t.count t.words --csv | diff - "$(printf 'key,type,value\nt.count,u32,8\nt.words,arr str,"[""a"", ""b c""]"\n' > "$t/csv"; echo "$t/csv")" ||
    fail "two keys"
"$HONE" meta "$t/m.gguf" new.odd:f32=1 > "$t/out" 2> "$t/err" || fail "a number"
printf '\000\000\200\177' | dd of="$t/m.gguf" bs=1 seek=$(($(grep -abo new.odd "$t/m.gguf" | cut -d: -f1) + 11)) conv=notrunc 2> "$t/err"
"$HONE" meta "$t/m.gguf" new.odd | grep -q ' inf$' || fail "infinity for people"
"$HONE" meta "$t/m.gguf" new.odd --json > "$t/out" 2> "$t/err" || fail "infinity"
grep -q '"value": null$' "$t/out" || fail "infinity is not null in JSON"
"$HONE" meta "$t/m.gguf" new.odd=1 --json > "$t/out" 2> "$t/err" || fail "infinity replaced"
grep -q '"old": null,$' "$t/out" || fail "replaced infinity is not null in JSON"

refused() { # message, edits: the file keeps its bytes
    msg=$1
    shift
    cp "$f" "$t/x.gguf"
    rc=0
    "$HONE" meta "$t/x.gguf" "$@" > "$t/out" 2> "$t/err" || rc=$?
    [ $rc = 2 ] || fail "$*: exit status $rc"
    grep -q -- "$msg" "$t/err" || fail "$*: another message"
    cmp -s "$f" "$t/x.gguf" || fail "$*: the file changed"
}
f=$g/base.gguf
refused 'not u8' t.small=256
refused 'not u32' t.count=-1
refused 'not u32' t.count=1.5
refused 'not i16' t.neg=40000
refused 'not u64' t.long=18446744073709551616
refused 'not f32' t.ratio=1e60
refused 'not f32' t.ratio=nan
refused 'true or false' t.on=yes
refused 'JSON array' t.ints=7
refused 'element 1 of the array is not i32' 't.ints=[1, 2.5]'
refused 'element 0 of the array is not str' 't.words=[1]'
refused 'not a type' new:u33=1
refused 'readers expect str' general.url:u32=1
refused 'changed twice' t.count=1 t.count=2
refused 'changed twice' t.count=1 --unset t.count
refused 'printable ASCII' 'a b=1'
refused 'hone.padding' hone.padding=x
refused 'hone split' split.count=2
refused 'cannot open' "t.gone=@$t/none"
refused 'UTF-8' "general.name=$(printf 'a\377')"
refused 'general.alignment.*power of two' general.alignment=24
refused '"general.sampling.temp": -3 is out of range; values are 0 to 100' general.sampling.temp=-3
refused 'values are 0 to 1' general.sampling.top_p=1.5
refused 'values are 0 to 1' general.sampling.xtc_probability=-1
refused 'values are -1 to' general.sampling.top_k=-2
refused 'values are 0.01 to 100' general.sampling.penalty_repeat=0
refused '"general.file_type": 999 is not the number of a type; they are 0 to [1-9][0-9][0-9]*,' general.file_type=999
refused '"any.context_length": 0 is out of range; values are 1 to' any.context_length=0
refused 'values are 0.001 to' any.rope.freq_base=-10000
refused '_epsilon": 0 is out of range' any.attention.layer_norm_rms_epsilon=0
refused '0 is out of range' 'any.context_length:arr u32=[4, 0]'
cp $g/base.gguf "$t/m.gguf"
"$HONE" meta "$t/m.gguf" general.sampling.temp=0 general.sampling.top_k=-1 general.sampling.penalty_last_n=-1 general.file_type=15 \
    any.context_length=1 > /dev/null 2> "$t/err" || fail "values at the ends of their ranges"
[ "$("$HONE" meta $g/base.gguf none 2>&1 > /dev/null; echo $?)" != 0 ] || fail "lists a key that is missing"

"$HONE" convert tests/golden/tiny-qwen35moe -o "$t/model.gguf" -q > /dev/null
f=$t/model.gguf
refused '4 blocks' qwen35moe.block_count=5
refused 'block_count" is missing' general.architecture=llama
refused 'shape' qwen35moe.embedding_length=128
refused '4096 tokens' tokenizer.ggml.eos_token_id=4096
refused 'elements for 1 tokens' 'tokenizer.ggml.tokens=["a"]'
refused 'unchanged' general.alignment=64
refused 'missing' --unset general.architecture
refused 'missing' --unset tokenizer.ggml.tokens

# a template that cannot be used is written, with a warning
printf '{%% for m in messages %%}{{ m }}' > "$t/open.jinja"
cp $g/base.gguf "$t/m.gguf"
"$HONE" meta "$t/m.gguf" "tokenizer.chat_template=@$t/open.jinja" > "$t/out" 2> "$t/err" || fail "a template without its end"
grep -q 'warning: the new chat template cannot be used: .*endfor' "$t/err" || fail "a template without its end: no warning"
"$HONE" meta "$t/m.gguf" "tokenizer.chat_template=@$t/new.jinja" > "$t/out" 2> "$t/err" || fail "a template"
grep -q 'warning' "$t/err" && fail "a template: a warning"

# the first file of a set, and no other
"$HONE" split "$t/model.gguf" -o "$t/s.gguf" --max-size 16M -q > /dev/null
first=$(ls "$t"/s-00001-of-*.gguf) second=$(ls "$t"/s-00002-of-*.gguf)
"$HONE" meta "$first" general.name=Set > /dev/null 2>&1 || fail "the first file of a set"
"$HONE" meta "$first" general.name | grep -q '"Set"' || fail "the set's name"
f=$second
"$HONE" meta "$second" general.name=Set > /dev/null 2> "$t/err" && fail "a later file of a set"
grep -q 'name the first one' "$t/err" || fail "a later file of a set: another message"
"$HONE" verify "$first" --json > "$t/out" || fail "the set"
grep -q "\"n_files\": $(ls "$t"/s-*.gguf | wc -l)," "$t/out" || fail "verify counts other files"

# a file without room for the edit that another process has open is rewritten
cp $g/base.gguf "$t/m.gguf"
"$HONE" meta "$t/m.gguf" "general.description=$(head -c 9000 /dev/zero | tr '\000' y)" > "$t/out" 2> "$t/err" 3< "$t/m.gguf" || fail "rewritten"
grep -q 'written again' "$t/err" || fail "rewritten: another message"
grep -q 'other names' "$t/err" && fail "rewritten: other names"
cp $g/base.gguf "$t/m.gguf"
ln "$t/m.gguf" "$t/other.gguf"
"$HONE" meta "$t/m.gguf" "general.description=$(head -c 9000 /dev/zero | tr '\000' y)" > "$t/out" 2> "$t/err" 3< "$t/m.gguf" || fail "a hard link"
grep -q '1 other names (hard links)' "$t/err" || fail "a hard link: no warning"
echo "metadata: all types as the gguf package writes them; refused edits leave the file"
