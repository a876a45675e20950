#!/bin/sh
# A repaired template wherever it is used: in JSON and in a folder, in `hone make` (also its card, and --template keep),
# and in publish --check; tool support added to a template without it; and other engines, if python3 has them.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
tiny=tests/golden/tiny-qwen35moe
bad=tests/golden/templates/repair/chatml.jinja # content null crashes
run() { "$HONE" "$@" > "$t/o" 2> "$t/e" || say "hone $*: exit $?: $(cat "$t/e")"; }
lint() { rc=0; "$HONE" template lint "$@" > "$t/o" 2> "$t/e" || rc=$?; }

# each error names the affected clients and the consequence; -v lists the other findings one by one
lint $bad --json
grep -q '"client": "the OpenAI SDK' "$t/o" && grep -q '"consequence": "the second turn' "$t/o" || say "an error without a reason: $(head -c 600 "$t/o")"
lint $bad
[ $rc = 1 ] && [ "$(grep '^CONTENT-PARTS' "$t/o" | tr -s ' ' | cut -d' ' -f1,2)" = 'CONTENT-PARTS 2' ] || say "warnings are not by rule"
lint $bad -v
grep -q '^warning  *TOOL-ARGS-STRING-EQ .* fail:differs' "$t/o" || say "lint -v does not list warnings"

# JSON: the repaired text and the repairs; a folder gets chat_template.jinja
run template fix $bad -o "$t/good.jinja"
run template fix $bad --json
for k in '"template": "{%' '"diff": "---' '"repairs": \[' '"before": ' '"n_failed_after": '; do grep -q "$k" "$t/o" || say "fix --json: no $k"; done
mkdir "$t/hf"
cp $tiny/*.json $tiny/*.safetensors "$t/hf"
cp $bad "$t/hf/chat_template.jinja"
cp -r "$t/hf" "$t/folder"
run template fix "$t/folder" --in-place
cmp -s "$t/folder/chat_template.jinja" "$t/good.jinja" || say "fix --in-place of a folder"

# make repairs and records it in the card; --template keep does neither
head -c 12500 $tiny/self_calib.txt > "$t/calib.txt"
head -c 12000 $tiny/self_eval.txt > "$t/eval.txt"
job() { run make "$t/hf" --name Tiny -q --plain --recipes Q8_0 --calib "$t/calib.txt" --eval "$t/eval.txt" --chunks 1 --pp 8 --tg 2 --reps 1 --tools none "$@"; }
job -o "$t/out"
run template show "$t/out/Tiny-Q8_0.gguf"
cmp -s "$t/o" "$t/good.jinja" || say "make did not repair the template"
cmp -s "$t/out/chat_template.jinja" "$t/good.jinja" || say "make published a template that differs from the one it wrote"
for f in README.md report.html results.json; do grep -q 'the chat template was repaired, [0-9]* kinds* of defect (.*CONTENT-NULL' "$t/out/$f" || say "$f does not say what was repaired"; done
before=$(stat -c '%Y %i' "$t/out/Tiny-Q8_0.gguf")
job -o "$t/out"
[ "$before" = "$(stat -c '%Y %i' "$t/out/Tiny-Q8_0.gguf")" ] || say "a second run made the file again"
job -o "$t/kept" --template keep
run template show "$t/kept/Tiny-Q8_0.gguf"
cmp -s "$t/o" $bad || say "make --template keep changed the template"
grep -q 'template was repaired' "$t/kept/README.md" && say "the card tells of a repair that was not made"
"$HONE" publish --check "$t/kept" --json > "$t/o" 2> /dev/null || :
grep -q '"rule": "template-defects"' "$t/o" || say "publish --check does not tell of the defects"
"$HONE" publish --check "$t/out" --json > "$t/o" 2> /dev/null || :
grep -q '"rule": "template-defects"' "$t/o" && say "publish --check tells of defects that were repaired"
# the advice of publish --check and of lint works when it is followed
advice() { grep -oE 'hone (template fix|meta) [^ ]+ [^ ,;.]+[^,;]*' "$1" | head -n 1; } # command in a text
"$HONE" publish --check "$t/kept" > "$t/o" 2> /dev/null || :
how=$(advice "$t/o" | sed 's/ repairs .*//; s/^hone //')
[ "$how" = "template fix $t/kept/Tiny-Q8_0.gguf --in-place" ] || say "publish --check advises: $how"
run $how
run publish "$t/kept"
"$HONE" publish --check "$t/kept" --json > "$t/o" 2> /dev/null || :
grep -qE '"rule": "(template|sums|manifest)-' "$t/o" && say "the advice was followed, but: $(cat "$t/o")"
cmp -s "$t/kept/chat_template.jinja" "$t/good.jinja" || say "publish left the old chat_template.jinja"
run meta "$t/kept/Tiny-Q8_0.gguf" tokenizer.chat_template=@$bad

# a template that no conversation can use: convert, make, publish and publish --check say so, and the advice works
cp -r "$t/hf" "$t/odd"
useless() { # text, words of the reason
    printf '%s' "$1" > "$t/odd/chat_template.jinja"
    run convert "$t/odd" -o "$t/odd.gguf" -f
    grep -q "warning: .*$2.*hone meta $t/odd.gguf tokenizer.chat_template=@FILE" "$t/e" || say "convert does not warn ($2): $(cat "$t/e")"
    run meta "$t/kept/Tiny-Q8_0.gguf" "tokenizer.chat_template=$1"
    rc=0; "$HONE" publish "$t/kept" > "$t/o" 2> "$t/e" || rc=$?
    [ $rc = 3 ] && grep -q "$2" "$t/e" || say "publish ($2): exit $rc: $(cat "$t/e")"
    rc=0; "$HONE" publish --check "$t/kept" > "$t/o" 2> "$t/e" || rc=$?
    [ $rc = 1 ] && grep -q "^publishable  *no" "$t/o" && grep -q "^error  *template-unusable .*$2" "$t/o" || say "publish --check ($2): exit $rc: $(cat "$t/o")"
}
useless '{% for m in messages %}x' 'does not compile.*line 1, column 25'
useless '{{ raise_exception("never") }}' 'fails with every conversation.*never'
useless '{% for i in range(99999) %}{% for k in range(99999) %}x{% endfor %}{% endfor %}' 'fails with every conversation.*too many steps'
useless ' ' 'renders no message'
how=$(advice "$t/o" | sed 's/^hone //; s/@FILE.*//')
run $how@"$t/good.jinja"
run publish "$t/kept"
"$HONE" publish --check "$t/kept" --json > "$t/o" 2> /dev/null || :
grep -q '"rule": "template-' "$t/o" && say "a corrected template still counts as unusable"
printf '{%% for m in messages %%}x' > "$t/odd/chat_template.jinja"
run make "$t/odd" --dry-run -o "$t/not"
grep -q "warning: .*does not compile.*in $t/odd/chat_template.jinja" "$t/e" || say "make --dry-run does not warn: $(cat "$t/e")"
run make "$t/odd" --name Tiny -q --plain --recipes Q8_0 --chunks 1 --eval "$t/eval.txt" --calib "$t/calib.txt" --pp 8 --tg 2 --reps 1 --tools builtin -o "$t/no"
grep -q '^Do not publish these files yet: .*does not compile.*hone meta .*/Tiny-Q8_0.gguf .*hone publish' "$t/o" || say "make does not say it first: $(cat "$t/o")"
grep -qE 'upload|hone serve' "$t/o" && say "make tells to upload or serve: $(cat "$t/o")"
head -n 20 "$t/no/README.md" | grep -q 'cannot chat yet.*does not compile' || say "the card does not say it near the top"
grep -q 'cannot chat yet' "$t/no/report.html" || say "the report does not say it"
refused 3 "hone's own: --replace qwen3.5, " template fix "$t/no/Tiny-Q8_0.gguf" -q
refused 3 'its template needs to be replaced (--template FILE)' serve "$t/no/Tiny-Q8_0.gguf" --port 0 -q
printf '%s' "$(cat template/own/qwen3.jinja)" '{% endif %}' > "$t/torn.jinja"
lint "$t/torn.jinja"
how=$(advice "$t/o" | sed 's/ replaces .*//; s/^hone //')
run $how -o "$t/whole.jinja"
cmp -s "$t/whole.jinja" template/own/qwen3.jinja || say "the advice of lint gives another template: $how"
cp "$t/torn.jinja" "$t/odd/chat_template.jinja"; mkdir "$t/odd/additional_chat_templates"; cp $bad "$t/odd/additional_chat_templates/rag.jinja"
lint "$t/odd" --name rag
how=$(advice "$t/o" | sed 's/ ([0-9].*//; s/^hone //')
run $how
grep -q '^@@' "$t/o" || say "lint --name advises another template: $how"

run meta "$t/kept/Tiny-Q8_0.gguf" tokenizer.chat_template=@$bad
run replay "$t/out/Tiny-Q8_0.gguf" --source "$t"/out.work/Tiny-*.gguf --imatrix "$t/out/imatrix.gguf"

# tool support for a template without it: only on request, in a syntax that can be parsed; without tools nothing changes
plain=tests/golden/templates/repair/plain.jinja
run template fix $plain -o "$t/p.jinja"
grep -q 'tool_call' "$t/p.jinja" && say "tools were added unasked"
run template fix $plain --add-tools -o "$t/tools.jinja"
grep -q 'was not trained for' "$t/e" && grep -q 'was not trained for' "$t/tools.jinja" || say "--add-tools does not say that the model was not trained for it"
lint "$t/tools.jinja"
head -n 1 "$t/o" | grep -q '^Tool calls: work' || say "added tools: $(head -n 1 "$t/o")"
grep -q '^tool calls *hermes-json' "$t/o" || say "added tools: calls are not known: $(grep 'tool calls' "$t/o")"
echo '[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}, {"role": "user", "content": "Hm"}]' > "$t/talk"
"$HONE" template render "$t/p.jinja" --chat "$t/talk" > "$t/x"
"$HONE" template render "$t/tools.jinja" --chat "$t/talk" | cmp -s - "$t/x" || say "--add-tools changes a conversation without tools"
refused 3 'already supports tools' template fix $bad --add-tools -q

# a text that needs room, killed at 20 moments: the file opens, has the old or the new state, and its tensors are
# unchanged
bare=$t/kept/Tiny-Q8_0.gguf
tensors=$("$HONE" inspect "$bare" --json --keys none | sed -n 's/^ *"tensor_bytes": \([0-9]*\).*/\1/p')
sum() { tail -c "$tensors" "$1" | sha256sum; }
was=$(sum "$bare")
seed=7
for i in $(seq 20); do
    cp "$bare" "$t/k.gguf"
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    "$HONE" template fix "$t/k.gguf" --replace qwen3.5 --in-place > /dev/null 2>&1 &
    pid=$!
    sleep "$(awk -v s="$seed" 'BEGIN { printf "%.4f", s % 1000 / 1000 * 0.06 }')"
    kill -KILL $pid 2> /dev/null || :
    wait $pid 2> /dev/null || :
    rc=0; "$HONE" template show "$t/k.gguf" > "$t/now" 2> "$t/e" || rc=$?
    [ $rc = 0 ] && { cmp -s "$t/now" template/own/qwen3.5.jinja || cmp -s "$t/now" $bad; } || say "cut $i: exit $rc: $(cat "$t/e")"
    [ "$(sum "$t/k.gguf")" = "$was" ] || say "cut $i: the tensors changed"
    [ ! -e "$t/k.gguf.hone-journal" ] || say "cut $i: the journal is left"
done
run template fix "$t/k.gguf" --replace qwen3.5 --in-place
run verify "$t/k.gguf"

# other engines
if python3 -c 'import jinja2' 2> /dev/null; then
    run template fix $bad --prove
    grep -qE 'jinja2 [0-9.]*: [0-9]+ renderings equal hone.s, 0 differ, 0 fail' "$t/e" || say "--prove: $(cat "$t/e")"
fi
exit $fail
