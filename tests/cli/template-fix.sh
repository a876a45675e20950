#!/bin/sh
# hone template lint, fix and parse. The template to repair comes from a vendor, so that part runs only if ../shared is
# present.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
tiny=tests/golden/tiny-qwen35moe
rc=0; "$HONE" template lint $tiny --json > "$t/o" 2> "$t/e" || rc=$?
grep -q '"n_probes": 58' "$t/o" || say "lint --json: no count of probes"
[ $rc = 0 ] || [ $rc = 1 ] || say "lint: exit $rc"
# lint offers only repairs that remove an error, says how many are left, and quotes names for the shell
echo '{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}' > "$t/no-answer.jinja"
"$HONE" template lint "$t/no-answer.jinja" > "$t/o" 2> /dev/null && say "lint: no error without a generation prompt"
head -n 1 "$t/o" | grep -q 'hone has no repair for this' || say "lint offers a repair that repairs no error: $(head -n 1 "$t/o")"
"$HONE" template fix "$t/no-answer.jinja" > /dev/null 2> "$t/e"
grep -q 'remaining defects: GEN-PROMPT' "$t/e" || say "fix without a generation prompt: $(cat "$t/e")"
cp tests/cli/strict.jinja "$t/it's mine.jinja"
"$HONE" template lint "$t/it's mine.jinja" > "$t/o" 2> /dev/null || :
n=$(head -n 1 "$t/o" | sed -n "s|.*Repair: hone template fix '$t/it'.''s mine.jinja' ([0-9]* repairs, which leave \([0-9]*\) errors*).*|\1|p")
"$HONE" template fix "$t/it's mine.jinja" -o "$t/mended.jinja" > /dev/null 2>&1
"$HONE" template lint "$t/mended.jinja" --json 2> /dev/null | grep -q "\"n_errors\": ${n:-none}," || say "lint: errors after the repair: $(head -n 1 "$t/o")"
printf '<think>\nw\n</think>\n\nHi.\n\n<tool_call>\n<function=f>\n<parameter=n>\n7\n</parameter>\n</function>\n</tool_call>' > "$t/a"
echo '[{"type": "function", "function": {"name": "f", "parameters": {"properties": {"n": {"type": "integer"}}}}}]' > "$t/tools"
want='{"content": "Hi.", "reasoning": "w", "tool_calls": [{"name": "f", "arguments": {"n": 7}}], "problems": []}'
[ "$("$HONE" template parse $tiny --tools "$t/tools" < "$t/a")" = "$want" ] || say "parse, format from the template"
[ "$("$HONE" template parse $tiny --format qwen-xml --tools "$t/tools" < "$t/a")" = "$want" ] || say "parse --format"
rc=0; "$HONE" template parse $tiny --format nope < "$t/a" > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 2 ] && grep -q 'hermes-json' "$t/e" || say "parse --format nope: exit $rc"
# a file without a template gets one by name, first by rewriting the file, then in place
"$HONE" synth --layers 1 --arch-from tests/golden/models/qwen3/config.json --recipe Q8_0 -o "$t/bare.gguf" -q > /dev/null
rc=0; "$HONE" template fix "$t/bare.gguf" --in-place > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 3 ] && grep -q 'no chat template' "$t/e" || say "fix without a template: exit $rc"
for name in qwen3 qwen3.5; do
    "$HONE" template fix "$t/bare.gguf" --replace $name --in-place > /dev/null 2> "$t/e" || say "--replace $name on a file without a template"
    "$HONE" template show "$t/bare.gguf" | cmp - template/own/$name.jinja || say "--replace $name stored another text"
done
grep -q 'in place' "$t/e" || say "the second text was not written in place: $(cat "$t/e")"
# a folder with a list of templates: the new chat_template.jinja hides the list, so the others become files
mkdir "$t/list"
echo '{"chat_template": [{"name": "default", "template": "{% for m in messages %}<{{ m.role }}>{{ m.content + m.role }}{% endfor %}"}, {"name": "rag", "template": "{{ documents }}"}]}' > "$t/list/tokenizer_config.json"
"$HONE" template fix "$t/list" --in-place > /dev/null 2> "$t/e" || say "fix of a list of templates: $(cat "$t/e")"
grep -q hone_repair "$t/list/chat_template.jinja" || say "the list's default is not repaired"
[ "$("$HONE" template show "$t/list" --name rag)" = '{{ documents }}' ] || say "fix lost a template of the list"
# one of several templates, by name: from a list, from files, from a GGUF
bad='{% for m in messages %}<{{ m.role }}>{{ m.content + m.role }}{% endfor %}'
mkdir "$t/two"
echo "{\"chat_template\": [{\"name\": \"default\", \"template\": \"Hi\"}, {\"name\": \"tool_use\", \"template\": \"$bad\"}]}" > "$t/two/tokenizer_config.json"
for i in 1 2; do
    "$HONE" template fix "$t/two" --name tool_use --in-place > /dev/null 2> "$t/e" || say "fix --name: $(cat "$t/e")"
    grep -q hone_repair "$t/two/additional_chat_templates/tool_use.jinja" || say "fix --name: not repaired"
    [ "$("$HONE" template show "$t/two")" = Hi ] || say "fix --name lost the default"
done
rc=0; "$HONE" template fix "$t/two" --name nope > /dev/null 2> "$t/e" || rc=$?
[ $rc = 3 ] && grep -q "no chat template 'nope'; available: " "$t/e" || say "fix --name nope: exit $rc: $(cat "$t/e")"
rc=0; "$HONE" template fix "$t/list/tokenizer_config.json" --in-place > /dev/null 2> "$t/e" || rc=$?
[ $rc = 2 ] && grep -q 'name the folder' "$t/e" || say "fix of a JSON file in place: exit $rc"
cp $tiny/*.json $tiny/*.safetensors "$t/two" 2> /dev/null
echo "$bad" > "$t/two/additional_chat_templates/rag.jinja"
echo "$bad" > "$t/two/chat_template.jinja"
"$HONE" convert "$t/two" -o "$t/two.gguf" -q > /dev/null 2> "$t/e" || say "convert: $(cat "$t/e")"
"$HONE" template fix "$t/two.gguf" --name rag --in-place > /dev/null 2> "$t/e" || say "fix --name of a GGUF: $(cat "$t/e")"
"$HONE" template show "$t/two.gguf" --name rag | grep -q hone_repair || say "fix --name of a GGUF: not repaired"
[ "$("$HONE" template show "$t/two.gguf")" = "$bad" ] || say "fix --name of a GGUF changed the default"
# broken syntax is an error with its position
printf 'Hi\n{{ messages[0].content }' > "$t/broken.jinja"
rc=0; "$HONE" template fix "$t/broken.jinja" -o "$t/no.jinja" > /dev/null 2> "$t/e" || rc=$?
[ $rc = 3 ] && grep -q 'line 2, column 24' "$t/e" && [ ! -e "$t/no.jinja" ] || say "fix of broken syntax: exit $rc: $(cat "$t/e")"
# line ends are kept, and repairing twice equals repairing once
golden=tests/golden/templates/repair/tags.jinja
sed 's/$/\r/' $golden > "$t/crlf.jinja"
"$HONE" template fix "$t/crlf.jinja" -o "$t/crlf1.jinja" > /dev/null 2>&1
"$HONE" template fix "$t/crlf1.jinja" -o "$t/crlf2.jinja" > /dev/null 2>&1
"$HONE" template fix $golden -o "$t/lf.jinja" > /dev/null 2>&1
cmp "$t/crlf1.jinja" "$t/crlf2.jinja" || say "fix twice is not fix once"
tr -d '\r' < "$t/crlf1.jinja" | cmp - "$t/lf.jinja" || say "CRLF: another repair"
[ "$(grep -vc "$(printf '\r')\$" "$t/crlf1.jinja")" = 0 ] || say "CRLF: some lines end with LF"
# the marker line: of an earlier version, of a changed body, of a different program
sed "1s/= 'v3 [0-9a-f ]* /= 'v1 $(sed -n "1s/.*'v3 \([0-9]* [0-9a-f]* [0-9a-f]*\) .*/\1/p" "$t/lf.jinja") /" "$t/lf.jinja" > "$t/v1.jinja"
"$HONE" template fix "$t/v1.jinja" -o "$t/v2.jinja" > /dev/null 2> "$t/e"
grep -q 'replacing the repair of an earlier version' "$t/e" && grep -q "^{%- set hone_repair = 'v3 " "$t/v2.jinja" || say "an earlier repair stays: $(cat "$t/e")"
[ "$(grep -c 'set hone = namespace' "$t/v2.jinja")" = 1 ] || say "two preludes"
(echo "{%- set hone_repair = 'mine' %}"; cat $golden) > "$t/mine.jinja"
"$HONE" template fix "$t/mine.jinja" -o "$t/mine2.jinja" > /dev/null 2>&1
[ "$(grep -c 'set hone_repair' "$t/mine2.jinja")" = 2 ] || say "a foreign mark prevents the repair"
src=../shared/golden/templates/jinja/Qwen3.5-4B.jinja
if [ -e $src ]; then
    rc=0; "$HONE" template lint $src > "$t/o" 2> "$t/e" || rc=$?
    [ $rc = 1 ] && grep -q 'TOOL-ARGS-STRING' "$t/o" || say "lint of a faulty template: exit $rc"
    "$HONE" template fix $src -o "$t/fixed.jinja" > "$t/d" 2> "$t/e"
    grep -q '[0-9]* of [0-9]* checks failed before the repair, 0 after' "$t/e" || say "fix: $(cat "$t/e")"
    grep -q '^@@' "$t/d" || say "fix prints no difference"
    cp $src "$t/p.jinja"
    (cd "$t" && patch -s p.jinja d) && cmp "$t/p.jinja" "$t/fixed.jinja" || say "the difference does not give the repaired template"
    "$HONE" template fix $src --list | grep -q '^orphan  *yes' || say "fix --list"
    "$HONE" template fix "$t/fixed.jinja" > "$t/o" 2> "$t/e"
    [ ! -s "$t/o" ] && grep -q 'already repaired' "$t/e" || say "a repaired template is repaired again"
    m=../shared/golden/templates/jinja/Qwen-Qwen3-0.6B.jinja
    "$HONE" template fix $m --replace auto -o "$t/own.jinja" > /dev/null 2>&1 && cmp "$t/own.jinja" template/own/qwen3.jinja || say "--replace auto"
    rc=0; "$HONE" template fix tests/golden/tiny-qwen35moe --replace auto > /dev/null 2> "$t/e" || rc=$?
    [ $rc = 3 ] && grep -q 'name it: --replace qwen3.5, ' "$t/e" || say "--replace auto without one of ours: exit $rc: $(cat "$t/e")"
    rc=0; "$HONE" template fix $m --replace nope > /dev/null 2> "$t/e" || rc=$?
    [ $rc = 2 ] && grep -q 'gemma4-small' "$t/e" || say "--replace nope: exit $rc"
    mkdir "$t/hf"
    cp $tiny/*.json $tiny/*.safetensors "$t/hf"
    cp $src "$t/hf/chat_template.jinja"
    "$HONE" convert "$t/hf" -o "$t/m.gguf" > /dev/null 2>&1 || say "convert"
    cp "$t/m.gguf" "$t/before.gguf"
    "$HONE" template fix "$t/m.gguf" --in-place > /dev/null 2>&1 || say "fix --in-place"
    "$HONE" template show "$t/m.gguf" | cmp - "$t/fixed.jinja" || say "fix --in-place stored another text"
    "$HONE" verify "$t/m.gguf" > /dev/null 2>&1 || say "the repaired file does not verify"
    "$HONE" template fix "$t/m.gguf" --replace qwen3.5 --in-place > /dev/null 2> "$t/e" || say "fix --in-place, second time"
    grep -q 'in place' "$t/e" || say "the second edit does not fit: $(cat "$t/e")"
    "$HONE" template show "$t/m.gguf" | cmp - template/own/qwen3.5.jinja || say "--replace --in-place stored another text"
    "$HONE" verify "$t/m.gguf" > /dev/null 2>&1 || say "the file edited in place does not verify"
    tail -c 1000000 "$t/before.gguf" > "$t/x"; tail -c 1000000 "$t/m.gguf" > "$t/y"
    cmp "$t/x" "$t/y" || say "tensors changed"
    [ "$(ls "$t" | grep -c tmp-)" = 0 ] || say "a temporary file is left"
fi
printf '{{ messages[0].content }}' > "$t/same.jinja"
rc=0; "$HONE" template fix "$t/same.jinja" --replace qwen3.5 -o "$t/same.jinja" -f > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 2 ] && [ ! -s "$t/o" ] && grep -q 'same file' "$t/e" || say "fix -o over its input: exit $rc: $(cat "$t/e")"
exit $fail
