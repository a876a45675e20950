#!/bin/sh
# SPDX-License-Identifier: MIT
# hone convert: result on stdout, exit codes, no files left after errors.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
m=tests/golden/models
"$HONE" convert $m/qwen35moe -o "$t/a.gguf" --type bf16 --json > "$t/o" 2> "$t/e" || say "convert failed: $(cat "$t/e")"
for k in '"arch": *"qwen35moe"' '"n_tensors": *96' '"n_mtp_tensors": *20' '"n_vision_left_out": *33' '"size_bytes": *[0-9]'; do
    grep -q "$k" "$t/o" || say "JSON lacks $k"
done
[ "$(wc -c < "$t/a.gguf")" = "$(sed -n 's/.*"size_bytes": *\([0-9]*\).*/\1/p' "$t/o" | head -1)" ] || say "size_bytes is not the file's size"
grep -q 'vision tensors are left out' "$t/e" || say "vision tensors are not mentioned"
cp "$t/a.gguf" "$t/b.gguf"

# refused without -f, replaced with it; the same bytes for any thread count
rc=0; "$HONE" convert $m/qwen35moe -o "$t/a.gguf" --type bf16 > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 2 ] && grep -q -- '-f' "$t/e" && [ ! -s "$t/o" ] || say "existing output: exit $rc"
"$HONE" convert $m/qwen35moe -o "$t/a.gguf" --type bf16 -f --threads 3 > /dev/null 2>&1 || say "-f failed"
cmp -s "$t/a.gguf" "$t/b.gguf" || say "thread count changes the bytes"

# the vision tower along with the model, or alone
"$HONE" convert $m/qwen35 -o "$t/v.gguf" --mmproj "$t/mm.gguf" --type f16 --json > "$t/o" 2> /dev/null || say "--mmproj failed"
grep -q '"mmproj_n_tensors": *34' "$t/o" && grep -q '"mmproj_projector": *"qwen3vl_merger"' "$t/o" || say "--mmproj: $(cat "$t/o")"
[ "$(wc -c < "$t/mm.gguf")" = "$(sed -n 's/.*"mmproj_size_bytes": *\([0-9]*\).*/\1/p' "$t/o")" ] || say "mmproj_size_bytes is not the file's size"
"$HONE" verify "$t/mm.gguf" > /dev/null 2>&1 || say "verify of a projector file: $?"
"$HONE" convert $m/qwen35 --mmproj "$t/mm2.gguf" --type f16 > /dev/null 2>&1 && cmp -s "$t/mm.gguf" "$t/mm2.gguf" || say "--mmproj alone"

# a dry run prints the plan and writes nothing
"$HONE" convert $m/qwen3 -o "$t/dry.gguf" --dry-run > "$t/o" 2> /dev/null || say "dry run failed"
grep -q 'blk.2.ffn_down.weight' "$t/o" && [ ! -e "$t/dry.gguf" ] || say "dry run"

# each refusal: exit code, and one sentence on stderr that contains the text
refuse() { # code, text, arguments
    code=$1 text=$2; shift 2
    rc=0; "$HONE" convert "$@" > "$t/o" 2> "$t/e" || rc=$?
    [ $rc = "$code" ] || say "$*: exit $rc, expected $code"
    grep -q -e "$text" "$t/e" || say "$*: no \"$text\" in: $(cat "$t/e")"
    [ ! -s "$t/o" ] || say "$*: something on stdout"
}
refuse 2 '-o OUT' $m/qwen3
refuse 3 'not supported, only those of' $m/qwen3 --mmproj "$t/x.gguf"
refuse 2 'exists already' $m/qwen35 --mmproj "$t/mm.gguf"
refuse 2 'cannot be used together' $m/qwen3 -o "$t/x.gguf" --keep-mxfp4 --pad
refuse 2 'same file' $m/qwen35 -o "$t/x.gguf" --mmproj "$t/x.gguf"
cp -r $m/qwen3 "$t/own"
for f in "$t/own"/*.safetensors "$t/own/config.json"; do
    refuse 2 'is a file of' "$t/own" -o "$f" -f
    cmp "$f" "$m/qwen3/${f##*/}" || say "$f was replaced"
done
ln -s "$t/own/config.json" "$t/link"
refuse 2 'is a file of' "$t/own" -o "$t/link" -f
cp -r $m/qwen35 "$t/seeing" && cp -r $m/qwen3 "$t/adapter"
refuse 2 'is a file of' "$t/seeing" --mmproj "$t/seeing/config.json" -f
cmp "$t/seeing/config.json" "$m/qwen35/config.json" || say "--mmproj replaced a file of the source"
refuse 2 'is a file of' "$t/own" --lora "$t/adapter" -o "$t/adapter/model.safetensors" -f
cmp "$t/adapter/model.safetensors" "$m/qwen3/model.safetensors" || say "the adapter was replaced"
refuse 2 'q4_k' $m/qwen3 -o "$t/x.gguf" --type q4_k
refuse 3 'config.json' tests/golden -o "$t/x.gguf"
refuse 2 'nowhere' $m/qwen3 -o "$t/nowhere/x.gguf"
mkdir "$t/hf"
cp $m/qwen3/config.json $m/qwen3/tokenizer.json "$t/hf"
refuse 3 'safetensors' "$t/hf" -o "$t/x.gguf"
head -c 20000 $m/qwen3/model.safetensors > "$t/hf/model.safetensors"
refuse 3 'model.safetensors' "$t/hf" -o "$t/x.gguf"
printf '\377\377\377\377\377\377\377\177{}' > "$t/hf/model.safetensors"
refuse 3 'model.safetensors' "$t/hf" -o "$t/x.gguf"
cp $m/qwen3/model.safetensors "$t/hf"
sed 's/Qwen3ForCausalLM/GuessForCausalLM/; s/"qwen3"/"guess"/' $m/qwen3/config.json > "$t/hf/config.json"
refuse 3 'nearest is Qwen 3, which names' "$t/hf" -o "$t/x.gguf"
cp $m/qwen3/config.json "$t/hf"
rm -f "$t/x.gguf"
sed 's/\\\\p{L}/\\\\p{Lu}/g' $m/qwen3/tokenizer.json > "$t/hf/tokenizer.json"
"$HONE" convert "$t/hf" -o "$t/x.gguf" > /dev/null 2> "$t/e" || say "own regex: $(cat "$t/e")"
grep -q 'hone.tokenizer.regexes; other programs' "$t/e" || say "no word about an unknown regex"
rm -f "$t/x.gguf"
sed 's/\\\\p{L}/(\\\\p{L}/g' $m/qwen3/tokenizer.json > "$t/hf/tokenizer.json"
refuse 3 'pre NAME\|--pre' "$t/hf" -o "$t/x.gguf"
[ -e "$t/x.gguf" ] && say "a refused conversion left its output"
"$HONE" convert "$t/hf" -o "$t/x.gguf" --pre qwen2 > /dev/null 2> "$t/e" || say "--pre: $(cat "$t/e")"
rm -f "$t/x.gguf"
left=$(find "$t" -mindepth 1 -name '*tmp*' | wc -l)
[ "$left" = 0 ] || say "temporary files are left"

# shards
"$HONE" convert $m/qwen3 -o "$t/s.gguf" --type f32 --split-max 1M > /dev/null 2>&1 || say "split failed"
[ -e "$t"/s-00001-of-0000?.gguf ] || say "no first shard"

# general.*: from the card, the download location or the folder's name; expected values are those that llama.cpp's
# converter writes
mkdir "$t/Meta-Qwen-3-8B-Instruct-v0.2"
src=$t/Meta-Qwen-3-8B-Instruct-v0.2
cp $m/qwen3/*.json $m/qwen3/model.safetensors "$src"
cat > "$src/README.md" <<'END'
---
license: other
license_name: qwen-research
license_link: https://example.org/LICENSE
language:
- en
- zh # both
base_model: [acme-labs/Qwen-3-8B]
datasets: teknium/OpenHermes-2.5
tags: ["chat"]
pipeline_tag: text-generation
---
Use `acme/Meta-Qwen-3-8B-Instruct-v0.2`.
END
"$HONE" convert "$src" -o "$t/k.gguf" > /dev/null 2>&1 || say "with a card: failed"
"$HONE" inspect "$t/k.gguf" --keys all --json > "$t/o"
key() { # key, value
    grep -A2 "\"key\": \"$1\"" "$t/o" | tr -d '"\\' | grep -qE "value: \[?$2" || say "key $1 is not $2: $(grep -A2 "\"$1\"" "$t/o")"
}
key general.name 'Meta Qwen 3 8B Instruct v0.2'
key general.organization Acme
key general.finetune '8b-Instruct'
key general.version v0.2
key general.license other
key general.license.name qwen-research
key general.license.link https://example.org/LICENSE
key general.source.repo_url https://huggingface.co/acme/Meta-Qwen-3-8B-Instruct-v0.2
key general.base_model.count 1
key general.base_model.0.name 'Qwen 3 8B'
key general.base_model.0.organization 'Acme Labs'
key general.base_model.0.repo_url https://huggingface.co/acme-labs/Qwen-3-8B
key general.dataset.0.name 'OpenHermes 2.5'
"$HONE" convert "$src" -o "$t/k.gguf" -f --name "Mine" > /dev/null 2>&1 || say "--name: failed"
"$HONE" inspect "$t/k.gguf" --keys all --json > "$t/o"
key general.name Mine
# an unreadable card loses its facts, but does not stop the conversion
{ echo ---; head -c 4000 /dev/urandom; printf '\n---\n'; } > "$src/README.md"
"$HONE" convert "$src" -o "$t/k.gguf" -f > /dev/null 2>&1 || say "a broken card: failed"
# special tokens that only special_tokens_map.json names, as read by AutoTokenizer of transformers 5.24: <|im_start|> as
# padding, 1011
cp -r tests/golden/models/qwen3 "$t/map"
sed -i 's/"pad_token": "[^"]*",//' "$t/map/tokenizer_config.json"
! grep -q '"pad_token":' "$t/map/tokenizer_config.json" || say "the config still names a padding token"
echo '{"pad_token": {"content": "<|im_start|>", "special": true}}' > "$t/map/special_tokens_map.json"
"$HONE" convert "$t/map" -o "$t/map.gguf" -f > /dev/null 2>&1 || say "special_tokens_map.json: failed"
"$HONE" inspect "$t/map.gguf" --keys all --json > "$t/o"
key tokenizer.ggml.padding_token_id 1011

# embedding models need no head; their pooling has two spellings and llama.cpp's numbers
emb=$t/emb
cp -r $m/qwen3 "$emb"
sed -i 's/"tie_word_embeddings": true/"tie_word_embeddings": false/' "$emb/config.json"
refuse 3 'lm_head.weight' "$emb" -o "$t/emb.gguf"
mkdir "$emb/1_Pooling"
st=sentence_transformers.models
echo "[{\"path\": \"\", \"type\": \"$st.Transformer\"}, {\"path\": \"1_Pooling\", \"type\": \"$st.Pooling\"}, {\"path\": \"2_Dense\", \"type\": \"$st.Dense\"}]" > "$emb/modules.json"
pooling() { # config.json of the module
    echo "$1" > "$emb/1_Pooling/config.json"
    "$HONE" convert "$emb" -o "$t/emb.gguf" -f > /dev/null 2> "$t/e" || say "an embedding model: $(cat "$t/e")"
    "$HONE" inspect "$t/emb.gguf" --keys all --json > "$t/o"
    grep -q 'computes no embeddings' "$t/e" && grep -q '2_Dense.*not converted' "$t/e" || say "an embedding model is not named: $(cat "$t/e")"
}
pooling '{"pooling_mode_cls_token": false, "pooling_mode_lasttoken": true}'
key qwen3.pooling_type 3
! "$HONE" inspect "$t/emb.gguf" --tensors --keys none --json | grep -q '"output.weight"' || say "an embedding model without a head has one"
pooling '{"pooling_mode": "mean"}'
key qwen3.pooling_type 1
pooling '{"pooling_mode_cls_token": true}'
key qwen3.pooling_type 2
pooling '{"pooling_mode": "max"}'
! grep -q pooling_type "$t/o" && grep -q '1_Pooling/config.json names no pooling' "$t/e" || say "an unknown pooling: $(cat "$t/e")"
exit $fail
