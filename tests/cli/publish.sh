#!/bin/sh
# hone publish makes a folder in which --check finds nothing, keeps users' edits, and prints the same when run twice;
# --check finds each of the faults seeded here, under the right rule.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
run 0 convert tests/golden/models/qwen35moe --name "Tiny: \"x\" #1" -o "$t/base.gguf"
d=$t/d
mkdir "$d"
for r in Q8_0 Q4_K_M; do run 0 quantize "$t/base.gguf" -o "$d/Tiny-$r.gguf" --recipe $r; done
run 0 convert tests/golden/models/qwen35moe --name Tiny --mmproj "$d/mmproj-Tiny-BF16.gguf"
run 0 split "$t/base.gguf" -o "$d/Tiny-BF16.gguf" --max-size 1M
publish() { run "$1" publish "$2" --repo me/Tiny-GGUF --base-model me/Tiny --license mit --quantized-by me --source tests/golden/models/qwen35moe; }
publish 0 "$d"
for f in README.md Modelfile params model.yaml manifest.json SHA256SUMS config.json generation_config.json; do
    [ -s "$d/$f" ] || say "no $f"
done
(cd "$d" && sha256sum -c SHA256SUMS > "$t/o" 2>&1) || say "checksums: $(cat "$t/o")"
[ "$(wc -l < "$d/SHA256SUMS")" = $(($(ls "$d" | wc -l) - 1)) ] || say "SHA256SUMS does not list every other file"
run 0 verify --deep "$d"
run 0 publish --check "$d" --json
[ "$(grep -c '"rule"' "$t/o")" = 2 ] && grep -q '"rule": "private-base"' "$t/o" && grep -q '"rule": "template-defects"' "$t/o" || say "findings in our own folder: $(cat "$t/o")"
grep -q '^base_model: "me/Tiny"' "$d/README.md" || say "no base_model"
grep -q '^FROM ./Tiny-Q4_K_M.gguf' "$d/Modelfile" || say "Modelfile: $(cat "$d/Modelfile")"
grep -q '^RENDERER qwen3.5' "$d/Modelfile" || say "Modelfile: $(cat "$d/Modelfile")"
grep -q '^PARAMETER temperature 0.7$' "$d/Modelfile" || say "Modelfile: $(cat "$d/Modelfile")"
grep -qF "$t" "$d"/*.md "$d"/*.json "$d/Modelfile" "$d/model.yaml" && say "a local path leaked"

# real parsers read the files as other programs will, also with texts that are special in YAML
odd=$(printf 'm\303\251: "x" #1 \047y\047 \\n')
if python3 -c 'import yaml' 2> "$t/e"; then
    cp -r "$d" "$t/odd"
    run 0 publish "$t/odd" -f --repo me/Tiny-GGUF --base-model me/Tiny --license 'yes' --quantized-by "$odd" --source tests/golden/models/qwen35moe
    python3 tests/oracle/published.py "$t/odd" base_model=me/Tiny license=yes "quantized_by=$odd" > "$t/o" 2>&1 || say "parsers: $(cat "$t/o")"
    rm -r "$t/odd"
fi

# repeated: nothing changes; checksums in the manifest equal those of the tools
cp "$d/manifest.json" "$d/SHA256SUMS" "$t/"
publish 0 "$d"
cmp -s "$d/manifest.json" "$t/manifest.json" && cmp -s "$d/SHA256SUMS" "$t/SHA256SUMS" || say "a second run differs"
if command -v xxhsum > /dev/null 2>&1; then
    run 0 inspect "$d/Tiny-Q8_0.gguf" --json
    head -c "$(sed -n '/Tiny-Q8_0/,$ s/.*"header_bytes": \([0-9]*\).*/\1/p' "$d/manifest.json" | head -1)" "$d/Tiny-Q8_0.gguf" > "$t/header"
    grep -q "$(xxhsum -H2 "$t/header" | grep -oE '^[0-9a-f]{32}')" "$d/manifest.json" || say "header hash"
fi

# edited files stay unless -f is given; nothing is half done
echo '# my own' > "$d/Modelfile"
cp "$d/README.md" "$t/readme"
run 2 publish "$d" --repo you/Other-GGUF
grep -q 'use -f' "$t/e" || say "no advice: $(cat "$t/e")"
cmp -s "$d/README.md" "$t/readme" || say "README.md changed though the job was refused"
[ "$(cat "$d/Modelfile")" = '# my own' ] || say "an edited Modelfile was replaced"
run 0 publish "$d" -f --repo me/Tiny-GGUF --base-model me/Tiny --license mit
grep -q '^FROM' "$d/Modelfile" || say "-f did not replace"
rc=0; (ulimit -f 1; "$HONE" publish "$d" --license other-one) > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 4 ] || say "size limit: exit $rc: $(cat "$t/e")"
[ -z "$(ls -a "$d" | grep tmp)" ] || say "left behind: $(ls -a "$d")"
run 0 publish "$d" -f --repo me/Tiny-GGUF --base-model me/Tiny --license mit
run 2 publish "$t/nothing"
run 2 publish "$d" --repo nobody
mkdir "$t/empty"
run 2 publish "$t/empty"
run 1 publish --check "$t/empty"

# ---- the original's system prompt, unless it has blanks to fill in ----
rm -rf "$t/s" "$t/src" && cp -r "$d" "$t/s" && cp -r tests/golden/models/qwen35moe "$t/src"
echo 'You are {name}.' > "$t/src/SYSTEM_PROMPT.txt"
run 0 publish "$t/s" -f --source "$t/src"
[ ! -e "$t/s/system" ] || say "a prompt with blanks was taken"
echo 'You are kind.' > "$t/src/SYSTEM_PROMPT.txt"
run 0 publish "$t/s" -f --source "$t/src"
cmp -s "$t/s/system" "$t/src/SYSTEM_PROMPT.txt" || say "no system prompt"
rm -r "$t/s" "$t/src"

# ---- a second release: what it replaces, kept when published again; a third ----
rm -rf "$t/r2" && cp -r "$d" "$t/r2"
run 0 quantize "$t/base.gguf" -o "$t/r2/Tiny-Q4_K_M.gguf" -f --recipe Q4_K_S
rm "$t/r2/Tiny-Q8_0.gguf"
old=$(sed -n 's/  Tiny-Q4_K_M.gguf$//p' "$d/SHA256SUMS") gone=$(sed -n 's/  Tiny-Q8_0.gguf$//p' "$d/SHA256SUMS")
new=$(sha256sum < "$t/r2/Tiny-Q4_K_M.gguf" | cut -d' ' -f1)
superseded() { tr -d ' \n' < "$t/r2/manifest.json" | sed 's/.*"supersedes"://'; }
rows="[{\"file\":\"Tiny-Q4_K_M.gguf\",\"sha256\":\"$old\",\"by\":\"Tiny-Q4_K_M.gguf\",\"by_sha256\":\"$new\"},{\"file\":\"Tiny-Q8_0.gguf\",\"sha256\":\"$gone\",\"by\":null,\"by_sha256\":null}]}"
for how in "--supersedes $d/manifest.json" '' "--supersedes $t/m1"; do
    # shellcheck disable=SC2086
    run 0 publish "$t/r2" -f --repo me/Tiny-GGUF --base-model me/Tiny --license mit $how
    [ "$(superseded)" = "$rows" ] || say "supersedes ($how): $(superseded), not $rows"
    cp "$t/r2/manifest.json" "$t/m1"
done
run 3 publish "$t/r2" -f --license mit --supersedes "$d/config.json"
rm -r "$t/r2"

run 0 imatrix "$t/base.gguf" README.md -o "$t/i.gguf" --gram "$t/gram.gguf" --ctx 16 --chunks 2

# ---- seeded faults: name of the rule, then commands run in a copy of the folder ----
n_faults=0
seed() {
    rule=$1; shift
    rm -rf "$t/c"
    cp -r "$d" "$t/c"
    (cd "$t/c" && eval "$*") > "$t/o" 2>&1 || say "seed $rule: $(cat "$t/o")"
    rc=0; "$HONE" publish --check "$t/c" --json > "$t/o" 2> "$t/e" || rc=$?
    [ $rc = 0 ] || [ $rc = 1 ] || say "$rule: exit $rc: $(cat "$t/e")"
    grep -q "\"rule\": \"$rule\"" "$t/o" || say "not found: $rule by: $*"
    n_faults=$((n_faults + 1))
}
flip() { printf 'zz' | dd of="$1" bs=1 seek="$2" conv=notrunc; }
seed card-missing 'rm README.md'
seed card-front-matter 'sed -i 1d README.md'
seed card-front-matter 'sed -i "s/^license: .*/license: \"mit/" README.md'
seed card-front-matter 'sed -i "s/^license: .*/license: a: b/" README.md'
seed card-front-matter 'sed -i "s/^license: .*/license: mit\nlicense: mit/" README.md'
seed card-front-matter 'sed -i "s/^- hone/\t- hone/" README.md'
seed card-license 'sed -i "/^license:/d" README.md'
seed card-license-id 'sed -i "s/^license: .*/license: MIT License/" README.md'
seed card-license-other 'sed -i "s/^license: .*/license: other/" README.md'
seed card-base-model 'sed -i "/^base_model:/d" README.md'
seed card-base-model-id 'sed -i "s/^base_model: .*/base_model: Tiny/" README.md'
seed card-relation 'sed -i "s/^base_model_relation: .*/base_model_relation: quant/" README.md'
seed card-pipeline-tag 'sed -i "s/^pipeline_tag: .*/pipeline_tag: chat/" README.md'
seed card-gguf-tag 'sed -i "/^library_name/d; /^- gguf/d" README.md'
seed card-language 'sed -i "s/^tags:/language: English\ntags:/" README.md'
seed card-link 'echo "[more](Tiny-Q5_K_M.gguf)" >> README.md'
seed card-size 'sed -i "s/^\(| \[Tiny-Q8_0.*(Tiny-Q8_0.gguf) | \)[0-9]*/\1123456789/" README.md'
seed card-local-path 'echo "made in /home/me/models" >> README.md'
seed gguf-damaged 'head -c 100000 Tiny-Q8_0.gguf > x; mv x Tiny-Q8_0.gguf'
seed gguf-damaged 'dd if=/dev/zero of=Tiny-Q8_0.gguf bs=4096 count=1 conv=notrunc'
seed gguf-damaged 'rm Tiny-BF16-00002-of-*'
seed gguf-orphan 'rm Tiny-BF16-00001-of-*'
seed file-empty ': > Tiny-Q8_0.gguf'
seed file-leftover 'cp params params.tmp-17-0'
seed file-unreadable 'rm params; ln -s nowhere params'
seed private-state 'mkdir .hone; echo x > .hone/convert.json'
seed private-state 'mkdir in.work; : > in.work/lock'
seed private-text 'echo text > Calib-chats.jsonl'
seed private-log 'echo x > make.log'
seed private-secret 'echo TOKEN=x > .env'
seed private-moments 'cp ../gram.gguf .'
seed name-encoding 'mv Tiny-Q8_0.gguf Tiny-best.gguf'
seed name-file-type 'mv Tiny-Q8_0.gguf Tiny-Q6_K.gguf'
seed name-twice 'cp Tiny-Q8_0.gguf Other-Q8_0.gguf'
seed name-characters 'mv Tiny-Q8_0.gguf "Tiny final-Q8_0.gguf"'
seed vision-mmproj 'rm mmproj-*.gguf'
seed no-q4-k-m 'rm Tiny-Q4_K_M.gguf'
seed no-model 'rm *.gguf'
seed template-differs 'at=$(grep -abo "for m in messages" Tiny-Q8_0.gguf | head -1 | cut -d: -f1); flip Tiny-Q8_0.gguf $at'
seed meta-local-path 'at=$(grep -abo general.type Tiny-Q8_0.gguf | head -1 | cut -d: -f1); sed -i s/general.type/general.path/ Tiny-Q8_0.gguf; printf "C:%sxy" "\\" | dd of=Tiny-Q8_0.gguf bs=1 seek=$((at + 24)) conv=notrunc'
seed meta-quant-version 'sed -i "s/general.quantization_version/general.quantization_versioN/" Tiny-Q8_0.gguf'
seed meta-arch 'sed -i "s/general.architecture/general.architecturE/" Tiny-Q8_0.gguf'
seed meta-eos 'sed -i "s/tokenizer.ggml.eos_token_id/tokenizer.ggml.eos_token_iD/" Tiny-Q8_0.gguf'
seed meta-template 'sed -i "s/tokenizer.chat_template/tokenizer.chat_templatE/" Tiny-Q8_0.gguf'
seed meta-file-type 'sed -i "s/general.file_type/general.file_typE/" Tiny-Q8_0.gguf'
seed meta-tokenizer 'sed -i "s/tokenizer.ggml.tokens/tokenizer.ggml.tokenS/" Tiny-Q8_0.gguf'
seed sums-none 'rm SHA256SUMS'
seed sums-line 'echo garbage >> SHA256SUMS'
seed sums-line 'sed -i "s/  Tiny-Q8_0/  ..\/Tiny-Q8_0/" SHA256SUMS'
seed sums-missing 'rm Tiny-Q8_0.gguf'
seed sums-wrong 'flip Tiny-Q8_0.gguf 500000'
seed sums-unlisted 'sed -i /Tiny-Q8_0/d SHA256SUMS'
seed sums-twice 'tail -1 SHA256SUMS >> SHA256SUMS'
seed manifest-form 'echo "{" > manifest.json'
seed manifest-missing 'rm Tiny-Q8_0.gguf'
seed manifest-size 'echo >> params'
seed manifest-header 'sed -i "s/general.file_type/general.file_typE/" Tiny-Q8_0.gguf'
seed manifest-tensor 'flip Tiny-Q8_0.gguf 500000'
seed modelfile-from 'sed -i /^FROM/d Modelfile'
seed modelfile-from 'sed -i "s#^FROM .*#FROM ./Tiny-Q5_K_M.gguf#" Modelfile'
seed modelfile-from 'sed -i "s#^FROM .*#FROM /home/me/Tiny-Q8_0.gguf#" Modelfile'
seed modelfile-command 'echo "CONTEXT 4096" >> Modelfile'
seed modelfile-parameter 'echo "PARAMETER repetition_penalty 1.1" >> Modelfile'
seed modelfile-deprecated 'echo "PARAMETER mirostat 1" >> Modelfile'
seed modelfile-value 'echo "PARAMETER temperature hot" >> Modelfile'
seed modelfile-quote "echo 'PARAMETER stop \"<end>' >> Modelfile"
seed modelfile-quote "printf 'SYSTEM \"\"\"\nhello\n' >> Modelfile"
seed json-broken 'echo "{\"top_k\": 20,}" > params'
seed params-key 'echo "{\"max_tokens\": 20}" > params'
seed params-value 'echo "{\"stop\": \"x\"}" > params'
seed json-local-path 'echo "{\"_name_or_path\": \"/root/tiny\"}" > config.json'
seed model-yaml-keys 'echo "name: x" > model.yaml'
seed model-yaml-tab 'printf "\tx: 1\n" >> model.yaml'
# ---- a template that places images, of a file alone: only the template shows that a projector file is missing ----
mkdir "$t/v"
run 0 convert tests/golden/models/qwen3 -o "$t/v/Some-Q8_0.gguf" --type q8_0 # its tokenizer has the tokens of images
"$HONE" publish --check "$t/v" --json > "$t/o" 2> "$t/e" || true
grep -q '"rule": "vision' "$t/o" && say "a text model: $(cat "$t/o")"
run 0 meta "$t/v/Some-Q8_0.gguf" 'tokenizer.chat_template={% for m in messages %}<|vision_start|>{{ m.content }}{% endfor %}'
"$HONE" publish --check "$t/v" --json > "$t/o" 2> "$t/e" || true
grep -q '"rule": "vision-template"' "$t/o" && grep -q 'looks like a vision model without a projector' "$t/o" || say "images in a template: $(cat "$t/o")"
run 0 convert tests/golden/models/qwen35 --mmproj "$t/v/mmproj-Some-BF16.gguf"
"$HONE" publish --check "$t/v" --json > "$t/o" 2> "$t/e" || true
grep -q '"rule": "vision' "$t/o" && say "with a projector file: $(cat "$t/o")"
[ $n_faults -ge 30 ] || say "$n_faults faults only"
exit $fail
