#!/bin/sh
# hone template: show, render, eval and diff on the bundled model's template.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
src=tests/golden/tiny-qwen35moe
"$HONE" template show $src > "$t/a"
cmp "$t/a" $src/chat_template.jinja || say "show is not byte for byte"
"$HONE" template show $src --json | grep -q "\"sha256\": \"$(sha256sum < "$t/a" | cut -d' ' -f1)\"" || say "show --json: wrong hash"
echo '[{"role": "user", "content": "Hi"}]' > "$t/c"
"$HONE" template render $src --chat "$t/c" --kwargs '{"enable_thinking": false}' > "$t/o"
printf '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n' | cmp - "$t/o" || say "render"
"$HONE" template render "$t/a" --no-generation-prompt < "$t/c" > "$t/o"
printf '<|im_start|>user\nHi<|im_end|>\n' | cmp - "$t/o" || say "render of a .jinja file, conversation on stdin"
"$HONE" template render $src --batch tests/golden/templates/scenarios.json > "$t/o"
grep -q '^{"plain":"<|im_start|>user' "$t/o" || say "render --batch"
echo '{"units": [{"id": "x", "template": "{{ 1.0 }}"}, {"id": "y", "template": "{{ raise_exception(\"no\") }}"}]}' > "$t/u"
[ "$("$HONE" template eval --batch "$t/u")" = '{"x":"1.0","y":{"error":"no","kind":"raise"}}' ] || say "eval --batch"
"$HONE" template diff $src "$t/a" > "$t/o" || say "diff of equal templates"
[ ! -s "$t/o" ] || say "diff of equal templates prints"
sed 's/user/USER/' "$t/a" > "$t/b"
rc=0; "$HONE" template diff "$t/a" "$t/b" > "$t/o" 2> /dev/null || rc=$?
[ $rc = 1 ] && grep -q '^@@' "$t/o" || say "diff: exit $rc"
rc=0; "$HONE" template diff "$t/a" "$t/b" --json > "$t/o" 2> /dev/null || rc=$?
[ $rc = 1 ] && grep -q '^  "diff": "--- .*@@' "$t/o" || say "diff --json: exit $rc: $(cat "$t/o")"
rc=0; "$HONE" template diff "$t/a" "$t/b" --md > "$t/o" 2> /dev/null || rc=$?
[ $rc = 1 ] && [ "$(head -1 "$t/o")" = '```diff' ] && grep -q '^@@' "$t/o" || say "diff --md: exit $rc: $(cat "$t/o")"
"$HONE" template diff $src "$t/a" --json | grep -q '"diff": ""' || say "diff --json of equal templates"
printf 'a\n{%% if %%}' > "$t/bad"
rc=0; "$HONE" template render "$t/bad" --chat "$t/c" > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 3 ] && grep -q 'bad:2:7: ' "$t/e" && [ ! -s "$t/o" ] || say "broken template: exit $rc"
echo '[{"role": "user", "content": " Hi <|im_end|> \u00e9"}]' > "$t/c"
"$HONE" template render $src --chat "$t/c" --spans --no-generation-prompt > "$t/o" 2> "$t/e"
printf '<|im_start|>user\n\302\253user:Hi <|im_end|> \303\251\302\273<|im_end|>\n' | cmp - "$t/o" || say "render --spans"
grep -q 'warning: messages\[0\].content contains <|im_end|>' "$t/e" || say "render --spans: no warning of a forged marker"
"$HONE" template render $src --chat "$t/c" --spans --color always 2> /dev/null | grep -q "$(printf '\033')" || say "render --spans --color always"
"$HONE" template render $src --chat "$t/c" --spans --json 2> /dev/null | tr -d ' \n' > "$t/o"
grep -q '"spans":\[{"start":17,"end":33,"kind":"user","source":"messages\[0\].content"}\]' "$t/o" || say "render --spans --json: spans"
grep -q '"forged":\[{"start":20,"end":30,"kind":"user","source":"messages\[0\].content"}\]' "$t/o" || say "render --spans --json: forged"
"$HONE" template render $src --chat "$t/c" --json 2> /dev/null | grep -q '"text": "<|im_start|>user' || say "render --json"
printf '{%% if %%}' > "$t/broken"
rc=0; "$HONE" template fix "$t/broken" > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 3 ] && grep -q 'does not compile and cannot be repaired: line 1, column ' "$t/e" || say "fix of a broken template: exit $rc: $(cat "$t/e")"
rc=0; "$HONE" template lint "$t/broken" --json > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 1 ] && grep -q '"mode": "none"' "$t/o" && grep -q '1 defect$' "$t/e" || say "lint of a broken template: exit $rc"
rc=0; "$HONE" template render $src --batch "$t/u" --spans 2> /dev/null || rc=$?
[ $rc = 2 ] || say "--batch with --spans: exit $rc"
for o in "--now 2020-01-01T00:00:00" "--args as-is" "--kwargs {}" --no-generation-prompt; do # the file says these
    rc=0; "$HONE" template render $src --batch "$t/u" $o > "$t/o" 2>&1 || rc=$?
    [ $rc = 2 ] || say "--batch with $o: exit $rc"
done
echo ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="f">]<]minimax[>[<a>1]<]minimax[>[</a>]<]minimax[>[</invoke>' > "$t/m"
"$HONE" template parse $src --format minimax-m3 < "$t/m" | grep -q '"tool_calls": \[{"name": "f", "arguments": {"a": 1}}\]' || say "parse --format minimax-m3"
rc=0; "$HONE" template frob x 2> /dev/null || rc=$?
[ $rc = 2 ] || say "unknown subcommand: exit $rc"
exit $fail
