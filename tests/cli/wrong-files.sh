#!/bin/sh
# Files of the wrong kind, and other slips of new users: the message names the argument, what is wrong and what to give
# instead. A base or suite that cannot be used is reported before the work with the model, not after it.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
tiny=tests/golden/tiny-qwen35moe
"$HONE" convert $tiny -o "$t/m.gguf" -q > /dev/null
"$HONE" convert tests/golden/models/qwen3 -o "$t/plain.gguf" -q > /dev/null # its template knows no tools
mkdir "$t/set"
"$HONE" convert tests/golden/models/qwen35 -o "$t/set/T-BF16.gguf" -q > /dev/null
"$HONE" convert tests/golden/models/qwen35 --mmproj "$t/set/mmproj-T.gguf" -q > /dev/null
mm=$t/set/mmproj-T.gguf none=$t/none.gguf
printf 'hello' > "$t/short.txt"

# ---- a base that cannot be used: before any answer of the model (--keep would hold it), or any other fault ----
says 2 "cannot open $none" eval tools "$t/m.gguf" --cases 1 --max-tokens 1 --base "$none" --keep "$t/kept"
[ ! -e "$t/kept" ] || say "eval tools: the model answered before its base was opened"
says 3 "plain.gguf: its template has no known syntax of tool calls" eval tools "$t/m.gguf" --cases 1 --max-tokens 1 --base "$t/plain.gguf" --keep "$t/kept"
[ ! -e "$t/kept" ] || say "eval tools: the model answered before the base's template was read"
# ---- a model without tool calls: the built-in checks that need none are run, unless a result is required ----
"$HONE" eval checks "$t/plain.gguf" --max-tokens 1 --json > "$t/o" 2> "$t/e" || say "eval checks without tool calls: $(cat "$t/e")"
n=$(grep -c '"expect"' calib/text/checks.jsonl)
grep -q "\"n_left_out\": $n" "$t/o" && grep -q "\"n_cases\": $(($(grep -c . calib/text/checks.jsonl) - n))" "$t/o" && grep -q "left out: $n of" "$t/e" || say "eval checks: $(cat "$t/e" "$t/o")"
says 3 "no known syntax of tool calls" eval checks "$t/plain.gguf" --max-tokens 1 --require 50
echo '{"query": "q", "choices": ["a", "b"], "gold": 0}' > "$t/c.jsonl"
printf '{"hone_record": 1, "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hi"}]}\n' > "$t/r.jsonl"
says 2 "cannot open $none" eval choice "$mm" "$t/c.jsonl" --format hellaswag --base "$none"
says 2 "cannot open $none" eval needle "$mm" $tiny/self_eval.txt --base "$none"
says 2 "cannot open $none" eval traffic "$mm" "$t/r.jsonl" --base "$none"
says 2 "cannot open $none" eval checks "$mm" --base "$none"
says 2 "the built-in suites are builtin, loops and checks" eval tools "$t/m.gguf" loop
says 2 "is not one of seed-xml, qwen-xml" eval tools "$t/m.gguf" --format hermes
says 2 "'-1' is below 0" eval tools "$t/m.gguf" --cases -1
says 3 "$t/short.txt: the text has" eval ppl "$t/m.gguf" "$t/short.txt"

# ---- tools for a template: a list, or a request that has one ----
echo '[{"role": "user", "content": "Hi"}]' > "$t/chat.json"
tool='{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}'
echo "[$tool]" > "$t/tools.json"
echo "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"tools\": [$tool]}" > "$t/request.json"
run 0 template render $tiny --chat "$t/chat.json" --tools "$t/tools.json"
grep -qF "$tool" "$t/o" || say "the tool is not in the prompt: $(cat "$t/o")"
cp "$t/o" "$t/list"
run 0 template render $tiny --chat "$t/chat.json" --tools "$t/request.json"
cmp -s "$t/o" "$t/list" || say "tools of a request: $(cat "$t/o")"
printf '<tool_call>\n<function=get_weather>\n<parameter=city>\n17\n</parameter>\n</function>\n</tool_call>' > "$t/answer"
for f in tools request; do
    "$HONE" template parse $tiny --tools "$t/$f.json" < "$t/answer" > "$t/o" || say "template parse with $f.json"
    grep -qF '"arguments": {"city": "17"}}], "problems": []' "$t/o" || say "$f: $(cat "$t/o")"
done
n=0
for bad in "$tool" '"abc"' '[1, 2]' '{"tools": {"name": "f"}}' null; do
    n=$((n + 1))
    echo "$bad" > "$t/bad$n.json"
    says 3 "bad$n.json: neither a list of tools" template render $tiny --chat "$t/chat.json" --tools "$t/bad$n.json"
done
echo '{"tools": null}' > "$t/null.json" # a request without tools
run 0 template render $tiny --chat "$t/chat.json" --tools "$t/null.json"
says 3 "bad1.json: neither a list of tools" template parse $tiny --tools "$t/bad1.json"
echo '{"messages": [{"role": "user", "content": "Hi"}], "tools": {"name": "f"}}' > "$t/odd.json"
says 3 "odd.json: neither a list of tools" template render $tiny --chat "$t/odd.json"
says 3 "standard input is empty" template render $tiny
printf '%s\n' '{% for m in messages %}<|im_start|>{{ m.role + "\n" + m.content }}<|im_end|>' \
    '{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant' '{% endif %}' > "$t/plain.jinja"
run 0 template lint "$t/plain.jinja"
n=$(sed -n 's/^warnings  *\([0-9][0-9]*\)$/\1/p' "$t/o")
head -1 "$t/o" | grep -qF "No tool calling" && head -1 "$t/o" | grep -qF "$((n - 1)) other warning" || say "of $n warnings: $(head -1 "$t/o")"

# ---- a projector file is not a model; a text is not a GGUF file ----
for c in "run $mm x" "eval ppl $mm $t/short.txt" "serve $mm --port 0" "plan $mm --launches"; do
    # shellcheck disable=SC2086
    says 3 "mmproj-T.gguf: a projector file (mmproj), not a model: pass the model's GGUF" $c
done
run 1 verify "$t/short.txt"
grep -q 'neither GGUF nor a .dat file$' "$t/o" || say "verify of a text: $(cat "$t/o")"
says 3 "the prompt is not UTF-8 text" run "$t/m.gguf" "$(printf 'Gr\374\337e')" -n 1
says 3 "--system is not UTF-8 text" run "$t/m.gguf" Hi --system "$(printf '\374')" -n 1

# ---- a name on a hub: the files that the command needs ----
says 2 "run 'hf download Qwen/Qwen3-0.6B --local-dir Qwen3-0.6B', then 'hone convert Qwen3-0.6B -o Qwen3-0.6B.gguf'" run Qwen/Qwen3-0.6B
says 2 "run 'hf download Qwen/Qwen3-0.6B --local-dir Qwen3-0.6B', then pass the folder" template lint Qwen/Qwen3-0.6B
says 2 "run 'hf download me/Qwen3-GGUF --include \"*.gguf*\" --local-dir Qwen3-GGUF', then pass the file" run me/Qwen3-GGUF
says 2 "--vram: 24564 bytes? write 24564MiB" plan "$t/m.gguf" --vram 24564
says 2 "no recipe 'Q5_K_L'; did you mean bartowski-Q5_K_L?" make $tiny -o "$t/d" --recipe Q5_K_L

# ---- plan: files named one by one give the plan of their folder ----
"$HONE" quantize "$t/set/T-BF16.gguf" -o "$t/T-Q8_0.gguf" --recipe Q8_0 -q > /dev/null
"$HONE" split "$t/T-Q8_0.gguf" -o "$t/set/T-Q8_0" --max-size 500KB -q > /dev/null
[ -e "$t/set/T-Q8_0-00002-of-00004.gguf" ] || say "shards: $(ls "$t/set")"
run 0 plan "$t/set" --vram 1GiB --json
grep -v '"command_line"' "$t/o" > "$t/folder"
grep -q 'its projector included' "$t/folder" || say "no projector: $(cat "$t/folder")"
run 0 plan "$t"/set/*.gguf --vram 1GiB --json
grep -v '"command_line"' "$t/o" | cmp -s - "$t/folder" || say "files of a folder one by one: $(cat "$t/o" "$t/folder")"
# beyond the trained context: the requested one has a row, and is the longest if it fits
run 0 plan "$t/m.gguf" --vram 1GiB --ctx 131072 --csv
tail -1 "$t/o" | grep -q '^131072,.*,yes$' || say "contexts: $(cat "$t/o")"
run 0 plan "$t/set" --vram 1GiB --ctx 8192
[ "$(grep -c '  8192  yes' "$t/o")" = 2 ] || say "longest context: $(cat "$t/o")"
run 0 plan "$t/m.gguf" "$t/set/T-BF16.gguf" --vram 1GiB --ctx 65536
grep -q 'one of the models was trained for 4096 tokens' "$t/e" && grep -q '^shortest trained context *4096$' "$t/o" || say "two models: $(cat "$t/e" "$t/o")"
run 1 plan "$t/m.gguf" "$t/set/T-BF16.gguf" --vram 1MiB
head -1 "$t/o" | grep -q '^None of 2 files fits: the smallest, T-BF16.gguf, takes [0-9.]* MiB with 4096 tokens; usable are 896.0 KiB of 1.0 MiB; ' || say "$(head -1 "$t/o")"
exit $fail
