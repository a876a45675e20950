#!/bin/sh
# SPDX-License-Identifier: MIT
# hone run --schema, --grammar, --regex, --choices: answers have the requested form, whatever the model prefers;
# overruled tokens are counted; reasoning is unconstrained; invalid requests are refused.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
tiny=tests/golden/tiny-qwen35moe
"$HONE" convert $tiny -o "$t/m.gguf" --type f32 -q > /dev/null

cat > "$t/s.json" <<'END'
{"type": "object", "properties": {"unit": {"enum": ["celsius", "kelvin"]}, "days": {"type": "integer", "minimum": 1, "maximum": 14},
 "where": {"type": "string", "maxLength": 12}}, "required": ["unit", "days", "where"], "additionalProperties": false}
END
for seed in 1 2 3; do
    "$HONE" run "$t/m.gguf" -p 'The value of' --schema "$t/s.json" --temp 1 --seed $seed -n 120 -q > "$t/o"
    tr -d '\n' < "$t/o" | grep -Eq '^ ?\{ *"unit": *"(celsius|kelvin)", *"days": *([1-9]|1[0-4]), *"where": *"[^"]*" *\}$' || { cat "$t/o"; exit 1; }
done
# whatever the limit, the object is complete if there is room for the shortest one
cat > "$t/l.json" << 'END'
{"type": "object", "properties": {"name": {"type": "string", "pattern": "^[a-z]{5,30}$"}, "n": {"type": "integer", "minimum": 10},
 "tags": {"type": "array", "items": {"type": "string", "minLength": 3}, "minItems": 2}}, "required": ["name", "n", "tags"], "additionalProperties": false}
END
for n in 30 31 33 40; do
    "$HONE" run "$t/m.gguf" -p 'Describe a car. ' --schema "$t/l.json" --temp 1 --seed $n -n $n --json > "$t/json"
    grep -q '"stop": "end"' "$t/json" && grep -q '"ended_tokens": [1-9]\|"generated_tokens": 3' "$t/json" || { cat "$t/json"; exit 1; }
done
# reasoning comes first and is free; the answer after it is the object, the same text for a seed
"$HONE" run "$t/m.gguf" 'Find 12 pages on the valve manual.' --schema "$t/s.json" --temp 0 -n 200 --json > "$t/json"
grep -q '"reasoning": "[^"]' "$t/json" && grep -q '"content": " *{[ \\n]*\\"unit\\"' "$t/json" && grep -q '"stop": "end"' "$t/json" || { cat "$t/json"; exit 1; }
grep -q '"overruled_tokens": [1-9]' "$t/json" && grep -q '"constrained_tokens": [1-9]' "$t/json"

"$HONE" run "$t/m.gguf" -p 'Pick' --choices red --choices 'dark green' --temp 1 -n 20 -q > "$t/o"
grep -Eqx 'red|dark green' "$t/o"
"$HONE" run "$t/m.gguf" -p 'Pick' --choices 'red,dark green' --temp 1 -n 20 -q > "$t/o" # one list, as everywhere
grep -Eqx 'red|dark green' "$t/o"
"$HONE" run "$t/m.gguf" -p 'Pick' --choices 'red, or so' --choices 'dark, green' --temp 1 -n 20 -q > "$t/o"
grep -Eqx 'red, or so|dark, green' "$t/o"
printf 'red, or so\r\n\ndark, green\n' > "$t/choices"
"$HONE" run "$t/m.gguf" -p 'Pick' --choices "@$t/choices" --temp 1 -n 20 -q > "$t/o"
grep -Eqx 'red, or so|dark, green' "$t/o"
refused 2 'needs at least two texts' run "$t/m.gguf" -p Pick --choices red
"$HONE" run "$t/m.gguf" -p 'The date is' --regex '[0-9]{4}-(0[1-9]|1[0-2])' --temp 1 -n 20 -q > "$t/o"
grep -Eqx '[0-9]{4}-(0[1-9]|1[0-2])' "$t/o"
printf '%s\n' 'root ::= line{2}' 'line ::= "- " [a-z]{1,9} "\n"' > "$t/g.gbnf"
"$HONE" run "$t/m.gguf" -p 'List:' --grammar "$t/g.gbnf" --temp 1 -n 40 -q > "$t/o"
[ "$(grep -Ecx -- '- [a-z]{1,9}' "$t/o")" = 2 ]
printf '%s\n' 'start: NAME "(" NUMBER ")"' 'NAME: /[a-z]{1,4}/' 'NUMBER: /[0-9]{1,3}/' > "$t/g.lark"
"$HONE" run "$t/m.gguf" -p 'Call' --grammar "$t/g.lark" --temp 1 -n 40 2> "$t/e" > "$t/o"
grep -Eqx '[a-z]{1,4}\([0-9]{1,3}\)' "$t/o"
grep -q 'the grammar overruled [0-9]* of [0-9]* tokens' "$t/e"
# an answer that the model would give anyway is unchanged, and nothing is overruled
"$HONE" run "$t/m.gguf" -p 'The value of' --temp 0 -n 8 -q > "$t/want"
"$HONE" run "$t/m.gguf" -p 'The value of' --temp 0 -n 8 --regex '(.|\n)*' --json > "$t/json"
grep -q '"overruled_tokens": 0' "$t/json"
"$HONE" run "$t/m.gguf" -p 'The value of' --temp 0 -n 8 --regex '(.|\n)*' -q > "$t/got"
cmp "$t/want" "$t/got"
# unsupported clauses are reported
echo '{"type": "string", "maxLength": 3, "if": {"minLength": 2}, "then": false}' > "$t/if.json"
"$HONE" run "$t/m.gguf" -p x --schema "$t/if.json" -n 9 2> "$t/e" > /dev/null
grep -q 'if: if, then and else are not supported; answers may break it' "$t/e"

refused 2 'cannot open none' run "$t/m.gguf" -p Pick --choices @none
echo one > "$t/choices"
refused 2 'needs at least two texts' run "$t/m.gguf" -p Pick --choices "@$t/choices"
refused 2 'cannot be used together' run "$t/m.gguf" -p x --regex a --choices b
refused 2 'lookaround is not supported' run "$t/m.gguf" -p x --regex '(?=a)'
refused 2 'no-such.json' run "$t/m.gguf" -p x --schema "$t/no-such.json"
echo '{"$ref": "#/$defs/none"}' > "$t/ref.json"
refused 3 'ref.json: $ref: the target of this $ref does not exist' run "$t/m.gguf" -p x --schema "$t/ref.json"
echo 'root ::= x' > "$t/bad.gbnf"
refused 3 "undefined rule 'x'" run "$t/m.gguf" -p x --grammar "$t/bad.gbnf"
# white space that a grammar demands is part of the answer
printf '%s\n' 'root ::= "\n  a  b \t"' > "$t/ws.gbnf"
"$HONE" run "$t/m.gguf" 'Hi' --grammar "$t/ws.gbnf" --no-think --temp 0 -n 30 --json > "$t/json"
grep -Fq '"content": "\n  a  b \t"' "$t/json" || say "white space of a grammar: $(cat "$t/json")"
"$HONE" run "$t/m.gguf" -p 'Hi' --regex '  a  ' --temp 0 -n 30 -q > "$t/o"
[ "$(cat "$t/o")" = '  a  ' ] || say "white space of a regex: '$(cat "$t/o")'"
exit $fail
