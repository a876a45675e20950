#!/bin/sh
# hone plan: recipe sizes are exact to the byte, memory equals independent sums, the chosen file fits, and a shell can
# run the printed commands.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
num() { sed -n "s/.*\"$1\": \"*\([^\",]*\).*/\1/p" "$t/o" | head -1; }
is() { [ "$(num "$1")" = "$2" ] || say "$1 is $(num "$1"), expected $2"; }

run 0 convert tests/golden/models/qwen35moe -o "$t/m.gguf"
run 0 plan "$t/m.gguf" --ctx 1000 --slots 3 --all-recipes --json
is n_blocks 4
is n_attn 1
is n_recurrent 3
is size_bytes "$(wc -c < "$t/m.gguf")"
# config.json: 2 KV heads of 64, f16: 1 layer * 2 * 2 heads * 64 * 2 B = 512 B per token
is kv_bytes $((512 * 1000 * 3))
# 4 V heads of 32 x 32; conv over 2 * 2 * 32 + 4 * 32 channels, 3 inputs kept; 3 layers, 4 B, 3 slots
is state_bytes $(((4 * 32 * 32 + (2 * 2 * 32 + 4 * 32) * 3) * 3 * 4 * 3))
is host_bytes $((1024 * 128 * 2))
is experts_bytes $((4 * 3 * 6 * 64 * 128 * 2))
[ $(($(num host_bytes) + $(num device_bytes))) = "$(num weights_bytes)" ] || say "weights do not add up"
tr -d '\n' < "$t/o" | tr '{' '\n' > "$t/rows"
for r in Q8_0 Q4_K_M IQ4_XS Q2_K; do
    run 0 quantize "$t/m.gguf" -o "$t/$r.gguf" --recipe $r
    want=$(sed -n "s/.*\"recipe\": \"$r\", *\"size_bytes\": \([0-9]*\).*/\1/p" "$t/rows")
    [ "$want" = "$(wc -c < "$t/$r.gguf")" ] || say "$r: predicted $want, is $(wc -c < "$t/$r.gguf")"
done

run 0 plan "$t/m.gguf" --ctx 1000 --kv-type q8_0 --json
is kv_bytes $((272 * 1000)) # 34 B per 32 values
total=$(num total_bytes)
run 0 plan "$t/m.gguf" --ctx 1000 --kv-type q8_0 --vram $((total + 1000)) --reserve 1000B --json
is fit all
run 0 plan "$t/m.gguf" --ctx 1000 --kv-type q8_0 --vram $((total + 999)) --reserve 1000B --json
is fit experts
is fit_n 1
num cmd_llama_server | grep -q -- '-c 1000 -np 1 -fa on -ngl 6 --n-cpu-moe 1 -ctk q8_0 -ctv q8_0' || say "$(num cmd_llama_server)"
grep -q '"answer": .*, and [0-9.]* KiB of main memory' "$t/o" || say "main memory: $(cat "$t/o")" # -ngl: head, MTP block, four blocks
[ "$(num used_host_bytes)" = $(($(num host_bytes) + $(num experts_bytes) / 4)) ] || say "main memory: $(num used_host_bytes)"
num cmd_hone | grep -q -- '--kv-type q8_0 --device auto$' || say "$(num cmd_hone)"
run 1 plan "$t/m.gguf" --vram 1000B --reserve 0 --json
grep -q 'no part of it fits' "$t/e" || say "nothing fits: $(cat "$t/e")"
is fit none
grep -q '"cmd_' "$t/o" && say "command lines for what does not fit: $(grep '"cmd_' "$t/o")"
is max_ctx 0
# beyond the training context: the same message everywhere
run 0 plan "$t/m.gguf" --vram 16GiB --ctx 1000000 --json
is fit all
grep -q '"answer": "Fits: 1000000 tokens, more than the 4096 it was trained for' "$t/o" || say "answer: $(grep answer "$t/o")"
grep -q 'all of it' "$t/o" && say "all of it, beyond what it was trained for"
grep -q 'more than the 4096 it was trained for' "$t/o" || say "beyond training: $(num fits)"
is max_ctx 1000000 # all that was requested
grep -q '"ctx": 4096,' "$t/o" || say "no row for the trained context"
run 0 plan "$t/m.gguf" --ctx 3000000 --vram 1TiB --json
grep -q '"ctx": 3000000,' "$t/o" || say "no row for a long context"
# plan and run support the same cache types, from one table
"$HONE" eval kv --head-dims 32 --depths 16 --kv-type nope 2> "$t/e" && say "a cache type nope"
for kv in $(sed 's/.*must be one of \(.*\), or two.*/\1/; s/,//g' "$t/e") q8_0/q4_0 Q5_0; do
    run 0 plan "$t/m.gguf" --kv-type "$kv" --json
    num cmd_hone | grep -qi -- "--kv-type $kv" || say "--kv-type $kv: $(num cmd_hone)"
    run 0 eval kv --head-dims 32 --depths 16 --kv-type "$kv" --json
done
run 2 plan "$t/m.gguf" --kv-type iq4_nl
# expected bytes of a cache: 2 heads of 64, keys and values; a block of 32 takes 22 B (q5_0), 34 B (q8_0), 18 B (q4_0)
run 0 plan "$t/m.gguf" --ctx 1000 --kv-type q5_0 --json
is kv_bytes $((22 * 2 * 2 * 2 * 1000))
run 0 plan "$t/m.gguf" --ctx 1000 --kv-type q8_0/q4_0 --json
is kv_bytes $(((34 + 18) * 2 * 2 * 1000))
run 0 plan "$t/m.gguf" --ctx 1000 --kv-type tq4 --json
grep -q '"cmd_llama_server"' "$t/o" && say "llama-server has no tq4"
# the reserve of plan and of quantize --vram is the same: of 24 GiB one, of 8 MiB an eighth
run 0 plan "$t/m.gguf" --vram 24GiB --json
is reserve_bytes 1073741824
run 1 plan "$t/m.gguf" --vram 8KiB --json
is reserve_bytes 1024

# windows: keys and values of two kinds of layers
run 0 convert tests/golden/models/gemma4moe -o "$t/g.gguf"
run 0 plan "$t/g.gguf" --ctx 100000 --json
# hone: two full layers of 391 pages (one head of 64 keys and values), four with windows of 16: two pages, two more for a pass of 512
is kv_hone_bytes $((256 * (2 * 391 * (64 + 64) * 2 + 4 * 4 * 2 * (32 + 32) * 2)))
# other engines: the window and a pass of 512, rounded up to 256, for each slot
run 0 plan "$t/g.gguf" --ctx 100000 --slots 3 --json
is kv_bytes $((3 * (2 * 100000 * (64 + 64) * 2 + 4 * 768 * 2 * (32 + 32) * 2)))
# a dense model, tied or not; in part: -ngl counts the head, then blocks
run 0 convert tests/golden/models/qwen3 -o "$t/d.gguf"
run 0 plan "$t/d.gguf" --vram 16GiB
run 0 plan "$t/d.gguf" --json
run 0 plan "$t/d.gguf" --vram "$(num total_bytes)" --reserve 0 --json
is fit all
run 0 plan "$t/d.gguf" --vram $(($(num total_bytes) - 1)) --reserve 0 --json
is fit blocks
is fit_n $(($(num n_blocks) - 1))
num cmd_llama_server | grep -q -- "-ngl $(num n_blocks) " || say "$(num cmd_llama_server)"

# a name that a shell would split
cp "$t/d.gguf" "$t/it's \$x.gguf"
run 0 plan "$t/it's \$x.gguf" --csv
run 0 plan "$t/it's \$x.gguf"
words=$(sed -n 's/^hone  *hone run \(.*\) --ctx.*/\1/p' "$t/o")
[ "$(eval "printf %s $words")" = "$t/it's \$x.gguf" ] || say "quoting: $words"

# files that are not models, and files about models
run 0 convert tests/golden/tiny-qwen35moe -o "$t/tiny.gguf"
"$HONE" imatrix "$t/tiny.gguf" tests/golden/tiny-qwen35moe/self_calib.txt -o "$t/imatrix.gguf" --ctx 64 --chunks 2 -q > /dev/null
for c in plan serve; do refused 3 'is an importance matrix, not a model: pass the model' $c "$t/imatrix.gguf"; done
cp "$t/m.gguf" "$t/lora.gguf"
run 0 meta "$t/lora.gguf" general.type=adapter
for c in plan serve; do refused 3 'is an adapter (LoRA), not a model' $c "$t/lora.gguf"; done
refused 2 'all-recipes takes a single file' plan "$t/m.gguf" "$t/Q8_0.gguf" --all-recipes

# the plot: a line per cache type and one of the card, at the contexts of the table, in GiB of its column
run 0 plan "$t/d.gguf" --vram 16GiB --ctx 4096 --kv-type f16 --plot "$t/fit.svg" --csv
for l in "KV f16" "KV q8_0" "KV q4_0" "card: 15 GiB"; do
    [ "$(grep -o "<title>$l " "$t/fit.svg" | wc -l)" = "$(grep -c '^[0-9]*,[0-9.]*,[0-9.]*,' "$t/o")" ] || say "points of $l"
done
run 2 plan "$t/d.gguf" --plot "$t/fit.svg"
run 0 plan "$t/d.gguf" --plot "$t/fit.svg" -f
run 2 plan "$t/d.gguf" --plot "$t/no/fit.svg"
before=$(cksum < "$t/d.gguf")
run 2 plan "$t/d.gguf" --plot "$t/d.gguf" -f
[ "$(cksum < "$t/d.gguf")" = "$before" ] || say "the plot replaced the model"

run 2 plan "$t/m.gguf" --kv-type q6_K
run 2 plan "$t/m.gguf" --slots 0
run 2 plan "$t/m.gguf" --ctx 99999999999
run 2 plan "$t/m.gguf" --vram much
run 2 plan "$t/m.gguf" --vram 1GiB,much
run 2 plan "$t/m.gguf" --vram 1G,1G,1G,1G,1G,1G,1G,1G,1G
# several cards: all blocks, each on one of them; the total is weights, the embeddings twice (the head is on another
# card), cache, states and each card's activations
run 0 plan "$t/d.gguf" --vram 6GiB,3GiB,6GiB --reserve 0 --ctx 1024 --json
tr -d '\n' < "$t/o" | sed 's/.*"cards": \[//; s/\].*//' | tr '}' '\n' > "$t/rows"
[ "$(grep -c '"card"' "$t/rows")" = 3 ] || say "cards: $(cat "$t/rows")"
sed -n 's/.*"blocks": "\([0-9][0-9]*\)-*\([0-9]*\)".*/\1 \2/p' "$t/rows" | awk '{ n += ($2 == "" ? $1 : $2) - $1 + 1 } END { print n }' > "$t/n"
[ "$(cat "$t/n")" = "$(num n_blocks)" ] || say "blocks on cards: $(cat "$t/n") of $(num n_blocks)"
grep '"card"' "$t/rows" > "$t/rows.used"
used=$(sed -n 's/.*"used_bytes": \([0-9]*\).*/\1/p' "$t/rows" | awk '{ s += $1 } END { print s }')
want=$(($(num weights_bytes) + $(num host_bytes) + $(num kv_hone_bytes) + $(num state_bytes) + $(grep -vc '"used_bytes": 0' "$t/rows.used") * $(num activations_bytes)))
[ "$used" = "$want" ] || say "used on cards: $used, expected $want"
# several files or a folder: the largest that fits completely, the closest if losses are known, and a smaller cache
# before a partial file
mkdir "$t/out"
for r in Q8_0 Q4_K_M Q2_K; do mv "$t/$r.gguf" "$t/out/m-$r.gguf"; done
: > "$t/out/mmproj-x.gguf"
used() { "$HONE" plan "$t/out/m-$1.gguf" --ctx 512 --kv-type "$2" --json | sed -n 's/.*"total_bytes": \([0-9]*\).*/\1/p'; }
run 0 plan "$t/out" --vram 24GiB --ctx 512 --json
is take "$t/out/m-Q8_0.gguf"
run 0 plan "$t/out" --vram "$(used Q4_K_M f16)B" --reserve 0B --ctx 512 --json
is take "$t/out/m-Q4_K_M.gguf"
run 0 plan "$t/out/m-Q2_K.gguf" "$t/out/m-Q4_K_M.gguf" --vram $(($(used Q4_K_M f16) - 1))B --reserve 0B --ctx 512 --json
is take "$t/out/m-Q2_K.gguf"
run 0 plan "$t/out" --vram $(($(used Q2_K f16) - 1))B --reserve 0B --ctx 512 --json
num answer | grep -q 'with --kv-type q8_0' || say "a smaller cache: $(num answer)"
# without room for any file: the one with the experts of the fewest blocks in main memory
run 0 plan "$t/out" --vram $(($(used Q2_K q4_0) - 1))B --reserve 0B --ctx 512 --kv-type q4_0 --json
is take "$t/out/m-Q2_K.gguf"
grep -q '"fits": "without the experts of [2-4] of' "$t/o" && grep -q 'without the experts of 1 of .* of main memory' "$t/o" || say "$(cat "$t/o")"
# a cache that is smaller already: q8_0, with which only some blocks fit, frees nothing
total=$("$HONE" plan "$t/d.gguf" --ctx 4096 --slots 500 --kv-type q4_0 --json | sed -n 's/.*"total_bytes": \([0-9]*\).*/\1/p')
run 0 plan "$t/d.gguf" "$t/out/m-Q2_K.gguf" --vram $((total + 1000)) --reserve 0 --ctx 4096 --slots 500 --kv-type q4_0 --json
is take "$t/d.gguf"
grep -q "answer.*frees" "$t/o" && say "q8_0 in place of q4_0: $(cat "$t/o")"
run 2 plan "$t/out" --vram 0
grep -q 'a card of 0 bytes' "$t/e" || say "no memory: $(cat "$t/e")"
run 1 plan "$t/out" --vram 1000B --ctx 512
run 0 plan "$t/out" --vram 24GiB --ctx 512 # people see a table, the largest first
[ "$(grep -o '^m-[A-Z0-9_]*' "$t/o" | tr '\n' ' ')" = "m-Q8_0 m-Q4_K_M m-Q2_K " ] || say "$(cat "$t/o")"
[ "$(head -1 "$t/o" | cut -d: -f1)" = "Take m-Q8_0.gguf" ] || say "$(cat "$t/o")"
printf '%s' '{"hone_version": "1", "model": {"name": "m"}, "files": [{"file": "m-Q8_0.gguf", "recipe": "Q8_0", "mean_kld": 0.02}, {"file": "m-Q4_K_M.gguf", "recipe": "Q4_K_M", "mean_kld": 0.01}, {"file": "m-Q2_K.gguf", "recipe": "Q2_K", "mean_kld": 0.3}]}' > "$t/out/results.json"
run 0 plan "$t/out" --vram 24GiB --ctx 512
[ "$(head -1 "$t/o" | cut -d, -f1)" = "Take m-Q4_K_M.gguf: the closest to the original that fits" ] || say "$(cat "$t/o")"
grep -q '0.30000' "$t/o" || say "no losses: $(cat "$t/o")"
# a folder's drafts are no candidates; its projector takes room on the card too
rm "$t/out/mmproj-x.gguf"
run 0 convert tests/golden/models/qwen35moe --mtp-only --type q8_0 -o "$t/out/mtp-m-Q8_0.gguf"
run 0 plan "$t/out" --vram 24GiB --ctx 512
grep -q mtp "$t/o" && say "a draft is a candidate: $(cat "$t/o")"
run 0 convert tests/golden/models/qwen35moe --mmproj "$t/out/mmproj-m-BF16.gguf"
run 0 plan "$t/out/m-Q4_K_M.gguf" --vram 1GiB,1B --reserve 0 --ctx 512 --json
two=$(num used_bytes)
for n in "$(used Q4_K_M f16)" "$two,1B"; do
    both=$((${n%,*} + $(wc -c < "$t/out/mmproj-m-BF16.gguf")))
    run 0 plan "$t/out" --vram "${both}B${n#"${n%,*}"}" --reserve 0 --ctx 512 --json
    is take "$t/out/m-Q4_K_M.gguf"
    grep -q "answer.*its projector included" "$t/o" || say "$(grep answer "$t/o")"
    run 0 plan "$t/out" --vram "$((both - 1))B${n#"${n%,*}"}" --reserve 0 --ctx 512 --json
    is take "$t/out/m-Q2_K.gguf"
done
rm "$t/out"/*m-BF16.gguf "$t/out/mtp-m-Q8_0.gguf"
# an unconverted folder: the files that hone make would make, exact except for metadata
run 0 plan tests/golden/models/qwen35moe --vram 24GiB --ctx 512 --csv
for r in Q8_0 Q2_K; do
    n=$(sed -n "s/^$r,\([0-9]*\),.*/\1/p" "$t/o") have=$(wc -c < "$t/out/m-$r.gguf")
    [ $((n - have)) -lt 2048 ] && [ $((have - n)) -lt 2048 ] || say "$r of the folder: $n, is $have"
done
run 0 plan tests/golden/models/qwen35moe --vram 24GiB --ctx 100000 --json
is ctx 100000 # the requested context, as for one file, and printed
grep -q 'with 100000 tokens, more than the 4096 it was trained for' "$t/o" || say "$(head -3 "$t/o")"
grep -q 'trained for 4096 tokens' "$t/e" || say "$(cat "$t/e")"
# several models: each by its name and with its own context, each file once, and of two of the same size the closer class
cp -r tests/golden/models/qwen3 "$t/one" && cp -r "$t/one" "$t/two" && ln -s one "$t/link"
sed -i 's/"max_position_embeddings": 4096/"max_position_embeddings": 2048/' "$t/two/config.json"
run 0 plan "$t/one" "$t/two" "$t/link/" --vram 1GiB
[ "$(grep -c '^one Q8_0 .* 4096 ' "$t/o")" = 1 ] && [ "$(grep -c '^two Q8_0 .* 2048 ' "$t/o")" = 1 ] || say "two folders: $(cat "$t/o")"
head -1 "$t/o" | grep -q '^Take one Q8_0: .* with 4096 tokens' || say "of two folders: $(head -1 "$t/o")"
run 0 plan "$t/two" --vram 1GiB
head -1 "$t/o" | grep -q '^Take Q8_0: ' || say "of two classes of the same size: $(cat "$t/o")"
run 0 plan "$t/out/m-Q8_0.gguf" "$t/out" "$t/out/../out/m-Q8_0.gguf" --vram 1GiB
[ "$(grep -c '^m-Q8_0.gguf' "$t/o")" = 1 ] || say "a file given twice: $(cat "$t/o")"
mkdir "$t/out2" && cp "$t/out/m-Q8_0.gguf" "$t/out2/"
run 0 plan "$t/out/m-Q8_0.gguf" "$t/out2/m-Q8_0.gguf" --vram 1GiB
grep -q '/out2/m-Q8_0.gguf ' "$t/o" && grep -q '/out/m-Q8_0.gguf ' "$t/o" || say "two files of the same name: $(cat "$t/o")"
# small sizes are not rounded to nothing
for c in "$t/out" "$t/out/m-Q2_K.gguf" "$t/one"; do
    run 0 plan "$c" --vram 1GiB
    grep -qE '(^|[ ,])0\.0+ (of|GiB|MiB)|^[^ ]+ +0\.0+ ' "$t/o" && say "plan $c: $(cat "$t/o")"
done
# more memory is kept free than there is
for c in "$t/out" "$t/out/m-Q2_K.gguf"; do
    run 2 plan "$c" --vram 1GiB --reserve 2GiB
    grep -q -- '--reserve keeps 2.0 GiB of each card free, and --vram has 1.0 GiB' "$t/e" || say "$(cat "$t/e")"
done
# a word that is not a file
for c in plan run serve; do
    run 2 $c Nope
    grep -q "there is no file or folder 'Nope'.*hf download ORG/Nope" "$t/e" || say "$c Nope: $(cat "$t/e")"
done
# the first line is always the answer; without --vram the table has no columns about a card
for c in "$t/out" "$t/out/m-Q8_0.gguf" "$t/out/m-Q8_0.gguf $t/d.gguf" tests/golden/models/qwen35moe "$t/out --vram 24GiB" "$t/out --vram 1GiB,1GiB" "$t/out/m-Q8_0.gguf --vram 24GiB --ctx 9000" \
    "$t/out/m-Q8_0.gguf --vram 1GiB,1GiB"; do
    # shellcheck disable=SC2086
    run 0 plan $c
    head -1 "$t/o" | grep -qE '^(Take|Takes|Fits|[0-9]+ files), *|^(Take|Takes|Fits:) ' || say "plan $c: no answer first: $(head -1 "$t/o")"
    # shellcheck disable=SC2086
    run 0 plan $c --csv
    awk -F, 'NR == 1 {n = NF} NF != n {bad = 1} END {exit bad}' "$t/o" || say "plan $c --csv is not one table"
    case $c in
    *gguf\ --vram*1GiB) grep -q '^card,blocks,' "$t/o" || say "plan $c --csv: no table of cards" ;;
    *--vram*) head -1 "$t/o" | grep -q ',fits' || say "plan $c --csv: no column fits" ;;
    *) grep -qE 'fits|left|max_ctx|(^|,)no(,|$)|(^|,)-' "$t/o" && say "plan $c --csv says what fits no card: $(cat "$t/o")" ;;
    esac
done
run 1 plan "$t/out" --vram 1000B --ctx 512
head -1 "$t/o" | grep -q '^None of 3 files fits: the smallest, m-Q2_K.gguf, takes' || say "$(head -1 "$t/o")"
# the recommended commands work
run 1 plan "$t/out/m-Q2_K.gguf" "$t/d.gguf" --vram "$(($(used Q2_K f16) - 200000))B" --reserve 0B --ctx 4096
ctx=$(sed -n 's/.*fits with --ctx \([0-9]*\).*/\1/p' "$t/e")
[ -n "$ctx" ] && run 0 plan "$t/out/m-Q2_K.gguf" "$t/d.gguf" --vram "$(($(used Q2_K f16) - 200000))B" --reserve 0B --ctx "$ctx"
# several cards, also for a folder: the longest context is that of the model split over them, not of their sum
run 0 plan "$t/d.gguf" --ctx 256 --json
each=$(($(num total_bytes) * 82 / 100))B
run 0 plan "$t/d.gguf" --vram $each,$each --reserve 0B --ctx 256 --json
is fit all
most=$(num max_ctx)
[ "$most" -gt 0 ] && [ "$most" -lt "$(num ctx_train)" ] || say "longest context on two cards: $most"
run 0 plan "$t/d.gguf" --vram $each,$each --reserve 0B --ctx "$most" --json
is fit all
run 1 plan "$t/d.gguf" --vram $each,$each --reserve 0B --ctx $((most + 512)) --json
# llama-server on several cards: blocks by card with the head and the MTP block, experts of the first blocks in main
# memory, or a note if its split does not fit, which it does not where hone's just does
run 0 plan "$t/g.gguf" --ctx 4096 --slots 4 --json
total=$(num total_bytes)
split() { run 0 plan "$1" --vram "$2B,$2B" --reserve 0B --ctx "$3" --slots "$4" --json; }
split "$t/g.gguf" $((total * 60 / 100)) 4096 4
grep -q -- '"cmd_llama_server": .* -ngl 7 --n-cpu-moe 4 -ts 3,4 ' "$t/o" || say "$(cat "$t/o")"
split "$t/g.gguf" $((total / 2)) 4096 4
is fit experts
if grep -q cmd_llama_server "$t/o" || ! grep -q '"cmd_note": "no command for llama-server' "$t/o"; then say "$(cat "$t/o")"; fi
split "$t/m.gguf" 16000000 256 1
grep -q -- '"cmd_llama_server": .* -ngl 6 -ts 3,3 ' "$t/o" || say "$(cat "$t/o")"
# config.json alone: the sizes of the folder, except for the vocabulary
mkdir "$t/config" && cp tests/golden/models/qwen35moe/config.json "$t/config/"
for c in "$t/config" "$t/config/config.json"; do
    run 0 plan "$c" --vram 24GiB --ctx 512 --csv
    n=$(sed -n 's/^Q2_K,\([0-9]*\),.*/\1/p' "$t/o") have=$(wc -c < "$t/out/m-Q2_K.gguf")
    [ $((n * 10)) -gt $((have * 7)) ] && [ $n -lt "$have" ] || say "Q2_K of $c: $n, is $have"
done
# a release in MXFP4 keeps the blocks of its experts in larger files, also if only config.json is known
if [ -x "${HONE_MICRO:-}" ]; then
    made=$("$HONE_MICRO" tests/golden/archs/gptoss_mxfp4)
    cp -rL "$made" "$t/oss" && rm -r "${made%/hf}"
    run 0 convert "$t/oss" -o "$t/oss.gguf"
    run 0 quantize "$t/oss.gguf" -o "$t/oss-Q8_0.gguf" --recipe Q8_0
    real=$(wc -c < "$t/oss-Q8_0.gguf")
    run 0 plan "$t/oss" --csv
    n=$(sed -n 's/^Q8_0,\([0-9]*\),.*/\1/p' "$t/o")
    [ $((n - real)) -lt 2048 ] && [ $((real - n)) -lt 2048 ] || say "Q8_0 of MXFP4: $n, is $real"
    run 0 inspect "$t/oss-Q8_0.gguf" --json
    real=$(num tensor_bytes)
    run 0 plan "$t/oss/config.json" --csv
    n=$(sed -n 's/^Q8_0,\([0-9]*\),.*/\1/p' "$t/o")
    [ $((n - real)) -ge 0 ] && [ $((n - real)) -lt 2048 ] || say "Q8_0 of a config.json of MXFP4: $n, tensors take $real"
fi
# the matrices of a release in NVFP4 also keep theirs, but config.json does not list them: its sizes are not given without a warning
cp tests/golden/models/qwen3/config.json "$t/config/"
run 0 plan "$t/config"
grep NVFP4 "$t/e" && say "a warning about NVFP4 without NVFP4"
for q in '"quant_method": "modelopt", "quant_algo": "NVFP4"' '"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"' \
    '"quant_method": "compressed-tensors", "format": "mixed-precision", "config_groups": {"group_0": {"format": "nvfp4-pack-quantized"}}'; do
    { printf '{"quantization_config": {%s},' "$q" && tail -c +2 tests/golden/models/qwen3/config.json; } > "$t/config/config.json"
    run 0 plan "$t/config"
    grep -q "matrices in NVFP4 stay so in every file" "$t/e" || say "no warning: $q: $(cat "$t/e")"
done
# the projector that hone make would write takes room as it does once it is made
run 0 convert tests/golden/models/qwen35 --mmproj "$t/tower.gguf" --type bf16
tower=$(wc -c < "$t/tower.gguf")
mkdir "$t/made" "$t/eye" && cp tests/golden/models/qwen35/config.json "$t/eye/"
run 0 convert tests/golden/models/qwen35 -o "$t/m35.gguf"
run 0 quantize "$t/m35.gguf" -o "$t/made/m-Q2_K.gguf" --recipe Q2_K
run 0 plan "$t/made/m-Q2_K.gguf" --ctx 256 --json
all=$(($(num total_bytes) + tower))
row() { sed -n 's/^Q2_K,.*,\([^,]*\),\([^,]*\)$/\1/p' "$t/o"; } # the column fits
run 0 plan tests/golden/models/qwen35 --vram $((all + 10000))B --reserve 0 --ctx 256 --csv
[ "$(row)" = yes ] || say "Q2_K with its projector: $(row)"
run 0 plan tests/golden/models/qwen35 --vram $((all - 10000))B --reserve 0 --ctx 256 --csv
[ "$(row)" != yes ] || say "Q2_K fits without its projector: $(row)"
run 0 plan tests/golden/models/qwen35 --vram 1GiB
head -1 "$t/o" | grep -q 'its projector included' || say "$(head -1 "$t/o")"
on_gpu() { sed -n 's/^Q2_K,[^,]*,[^,]*,\([^,]*\)$/\1/p' "$t/o"; }
run 0 plan "$t/eye" --ctx 256 --csv
with=$(on_gpu)
sed -i 's/"vision_config"/"no_vision"/' "$t/eye/config.json"
run 0 plan "$t/eye" --ctx 256 --csv
echo "$with $(on_gpu) $tower" | awk '{ d = ($1 - $2) * 2 ^ 30; exit !(d > $3 * .95 && d < $3 * 1.02) }' || say "projector of $tower bytes from config.json: $with, $(on_gpu) GiB"
# experts: in main memory with a smaller cache rather than blocks without any experts, which are called that
cat > "$t/config/config.json" <<EOF
{"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32,
 "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128,
 "num_experts_per_tok": 8, "vocab_size": 151936, "max_position_embeddings": 262144, "rms_norm_eps": 1e-6, "rope_theta": 10000000,
 "tie_word_embeddings": false, "norm_topk_prob": true, "mlp_only_layers": [], "decoder_sparse_step": 1}
EOF
run 0 plan "$t/config" --vram 24GiB
head -1 "$t/o" | grep -q '^No file fits completely. Take Q2_K with --kv-type q8_0: without the experts of [1-9] of 48 blocks, ' || say "$(head -1 "$t/o")"
grep -q '^Q8_0 .*  without the experts of [0-9]* of 48 blocks, with --kv-type q8_0$' "$t/o" || say "$(cat "$t/o")"
run 0 plan "$t/config" --vram 12GiB
head -1 "$t/o" | grep -q '^No file fits completely. Take [A-Z0-9_]*: [0-9]* of 48 blocks, without their experts, ' || say "$(head -1 "$t/o")"
# a model that does not fit several cards: the last blocks that do, more than on the largest card alone
cat > "$t/config/config.json" <<EOF
{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
 "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 29568, "vocab_size": 152064, "max_position_embeddings": 32768,
 "rms_norm_eps": 1e-6, "rope_theta": 1000000, "tie_word_embeddings": false}
EOF
blocks() { run 0 plan "$t/config" --vram "$1" --ctx 8192 && sed -n 's/^Q8_0 .* \([0-9]*\) of 80 blocks.*/\1/p' "$t/o"; }
one=$(blocks 48GiB) two=$(blocks 8GiB,48GiB)
[ "$one" -gt 0 ] && [ "$two" -gt "$one" ] || say "Q8_0 on 48 GiB: $one blocks, on 48 and 8 GiB: $two"
# no block is larger than the mean of Q8_0's 72 GiB in 80 blocks by half, and 9 GiB are for passes, cache and head
[ "$two" -ge $((47 * 80 / 72)) ] || say "$two blocks of .9 GiB on 56 GiB"
printf '{"architectures": ["NoSuchModel"]}' > "$t/config/config.json"
run 3 plan "$t/config" --vram 24GiB
mkdir "$t/none"
run 2 plan "$t/none" --vram 1GiB
run 2 plan "$t/out" --launches
run 0 plan tests/golden/containers/py.gguf
run 3 plan tests/golden/containers/py-imatrix.gguf
# *.gguf of a shell: files that are not models are left out with a note; "-of-" in a name does not make a shard
cp tests/golden/containers/py-imatrix.gguf "$t/out/imatrix.gguf"
cp "$t/out/m-Q2_K.gguf" "$t/out/Mixture-of-Experts-Q2_K.gguf"
run 0 plan "$t/out/imatrix.gguf" "$t"/out/[mM]i*.gguf "$t"/out/m-*.gguf --vram 1GiB --csv
grep -q 'imatrix.gguf: left out' "$t/e" || say "no note: $(cat "$t/e")"
grep -q 'Mixture-of-Experts-Q2_K' "$t/o" || say "a name with -of- is missing from the list"
run 0 plan "$t/out" --vram 1GiB --csv
grep -q 'Mixture-of-Experts-Q2_K' "$t/o" || say "a name with -of- is missing from the folder"
run 2 plan "$t/out/imatrix.gguf" "$t/out/imatrix.gguf"
run 2 plan "$t/absent.gguf"
# an unreadable model in a folder is left out with a warning; a card without memory is a mistake
mkdir "$t/broken" && cp "$t/out/m-Q2_K.gguf" "$t/broken/" && head -c 3000 "$t/out/m-Q2_K.gguf" > "$t/broken/m-Q8_0.gguf"
run 0 plan "$t/broken" --vram 1GiB --csv
grep -q 'warning: left out of the table: .*m-Q8_0.gguf' "$t/e" || say "no warning: $(cat "$t/e")"
[ "$(wc -l < "$t/o")" = 2 ] || say "the file that can be read: $(cat "$t/o")"
for v in 24GiB,0 0B,24GiB 24GiB,0,24GiB; do run 2 plan "$t/out" --vram $v; done
exit $fail
