#!/bin/sh
# SPDX-License-Identifier: MIT
# hone eval: keys of the JSON documents, divergence of a quantized file, thread counts, and refusals in one sentence.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
tiny=tests/golden/tiny-qwen35moe
ctx=512 n=6 n_parts=9
# a sanitizer is slow and checks the code, not the numbers
if grep -q __asan_init "$HONE"; then ctx=256 n=3 n_parts=3; fi
"$HONE" convert $tiny -o "$t/f32.gguf" --type f32 -q > /dev/null
"$HONE" quantize "$t/f32.gguf" -o "$t/q4.gguf" --type Q4_K -q > /dev/null
head -c 30000 $tiny/self_eval.txt > "$t/text"

has() { # file, keys...
    f=$1
    shift
    for k in "$@"; do grep -q "\"$k\":" "$f" || { echo "$f lacks $k"; cat "$f"; exit 1; }; done
}
num() { sed -n "s/^ *\"$2\": \([-0-9.e+]*\),*$/\1/p" "$1" | head -1; }
holds() { awk "BEGIN { exit !($1) }" || { echo "not true: $1"; exit 1; }; }

"$HONE" eval ppl "$t/f32.gguf" "$t/text" --ctx $ctx --chunks $n --json > "$t/ppl"
has "$t/ppl" ppl ppl_stderr n_tokens ctx tok_per_s
[ "$(num "$t/ppl" n_tokens)" = $((n * (ctx / 2 - 1))) ] # the second half of each window
"$HONE" eval kld "$t/q4.gguf" "$t/text" --base "$t/f32.gguf" --ctx $ctx --chunks $n --by-depth --plot "$t/depth.svg" --json > "$t/kld"
[ "$(grep -o '<title>q4.gguf ' "$t/depth.svg" | wc -l)" = "$(grep -c '"from":' "$t/kld")" ] || { echo "the plot does not show the table"; exit 1; }
has "$t/kld" ppl ppl_base mean_kld mean_kld_stderr median_kld kld_p90 kld_p95 kld_p99 kld_p999 max_kld rms_dp mean_dp same_top1 n_tokens by_depth
# the base's log-probabilities are stored in f32; each is above -16, so at most 2^-20 is lost, also on average
holds "($(num "$t/kld" ppl_base) / $(num "$t/ppl" ppl) - 1) ^ 2 < 1e-12"
holds "$(num "$t/kld" mean_kld) > 0.001 && $(num "$t/kld" mean_kld) < 0.05 && $(num "$t/kld" same_top1) > 0.8"

# through llama.cpp's file: the same up to its 16-bit codes
"$HONE" eval kld "$t/f32.gguf" "$t/text" --save-base "$t/base" --ctx $ctx --chunks $n > /dev/null
"$HONE" eval kld "$t/q4.gguf" --base-file "$t/base" --json > "$t/kld2"
holds "($(num "$t/kld" mean_kld) - $(num "$t/kld2" mean_kld))^2 < 1e-8"
# through the compact file: unbiased, smaller
"$HONE" eval kld "$t/f32.gguf" "$t/text" --save-base "$t/compact" --compact --top 64 --ctx $ctx --chunks $n > /dev/null
[ "$(wc -c < "$t/compact")" -lt $(($(wc -c < "$t/base") / 5)) ]
"$HONE" eval kld "$t/q4.gguf" --base-file "$t/compact" --json > "$t/kld3"
"$HONE" inspect "$t/compact" --json > "$t/shape"
[ "$(num "$t/shape" n_top) $(num "$t/shape" n_chunks) $(num "$t/shape" ctx)" = "64 $n $ctx" ]
"$HONE" verify --deep "$t/compact" > "$t/o"
head -c 100000 "$t/compact" > "$t/cut"
rc=0; "$HONE" verify "$t/cut" > "$t/o" 2> "$t/e" || rc=$?
[ $rc = 1 ] && grep -q truncated "$t/e" || { echo "verify of a part: exit $rc"; cat "$t/e"; exit 1; }
holds "(($(num "$t/kld" mean_kld) - $(num "$t/kld3" mean_kld)) / $(num "$t/kld" mean_kld))^2 < 1e-4" # 1 %
holds "$(num "$t/kld3" mean_kld_sampling_stderr) > 0"
[ "$(num "$t/kld" same_top1)" = "$(num "$t/kld3" same_top1)" ]
for n_tail in 0 1; do # the divergence outside the top tokens, or its error, would be lost
    refused 2 "use 2 or more" eval kld "$t/f32.gguf" "$t/text" --save-base "$t/lost" --compact --top 4 --tail $n_tail --ctx $ctx --chunks $n
done
# several at once; a model against itself
"$HONE" eval kld "$t/q4.gguf" "$t/f32.gguf" "$t/text" --base "$t/f32.gguf" --ctx $ctx --chunks 2 --csv > "$t/many"
grep -q q4.gguf "$t/many" && grep -q f32.gguf "$t/many"

# cache types: a list is one candidate each; more bits are better; kept edges are the whole model here
"$HONE" eval kld "$t/f32.gguf" "$t/text" --base "$t/f32.gguf" --ctx $ctx --chunks 2 --kv-type f32,q8_0/tq4,tq2 --json > "$t/kv"
[ "$(grep -c '"kv_type": "q8_0/tq4"' "$t/kv")" = 1 ]
set -- $(sed -n 's/^ *"mean_kld": \([-0-9.e+]*\),*$/\1/p' "$t/kv")
holds "$1 == 0 && $2 > 1e-5 && $3 > 5 * $2 && $3 < 0.1"
"$HONE" eval kld "$t/f32.gguf" "$t/text" --base "$t/f32.gguf" --ctx $ctx --chunks 2 --kv-type tq2 --kv-skip-layers 1 --kv-skip-type f32 --json > "$t/kv"
holds "$(num "$t/kv" mean_kld) == 0"

# breakdowns: depth, domains, pairs, routing, worst tokens
"$HONE" quantize "$t/f32.gguf" -o "$t/q3.gguf" --type Q3_K -q > /dev/null
head -n 60 $tiny/eval.jsonl | sed '1,30s/^{/{"domain": "first", /; 31,60s/^{/{"domain": "second", /' > "$t/d.jsonl"
"$HONE" eval kld "$t/q4.gguf" "$t/q3.gguf" "$t/text" "$t/d.jsonl" --base "$t/f32.gguf" --ctx 256 --chunks $n_parts \
    --by-depth --routing --worst 4 --json > "$t/parts"
has "$t/parts" by_depth by_domain pairs routing worst mean_kld_stderr_windows mean_kld_ci95_low mean_kld_ci95_high \
    diff diff_stderr same_set context token p_base p_model a_worse
for d in text first second; do grep -q "\"domain\": \"$d\"" "$t/parts" || { echo "no domain $d"; exit 1; }; done
holds "$(num "$t/parts" diff) < 0" # q4 beats q3
[ $n_parts -lt 8 ] || holds "$(num "$t/parts" diff_ci95_low) <= $(num "$t/parts" diff)"
holds "$(num "$t/parts" same_set) > 0.5 && $(num "$t/parts" same_set) < 1"
[ "$(grep -c '"context": ' "$t/parts")" = 8 ] || { echo "worst tokens: not 4 for each"; exit 1; }
[ "$(num "$t/parts" n_tokens)" = $((n_parts * 127)) ] # the headline stays the second halves
[ "$(grep -c '"from": ' "$t/parts")" = 6 ]      # 1-63, 64-127, 128-255 for each

# one window: no error, no interval; two: no interval yet
none() { # file, keys...
    f=$1
    shift
    for k in "$@"; do grep -q "\"$k\": null" "$f" || { echo "$f: $k is not null"; cat "$f"; exit 1; }; done
}
for n in 1 2; do
    "$HONE" eval kld "$t/q4.gguf" "$t/q3.gguf" "$t/text" --base "$t/f32.gguf" --ctx 64 --chunks $n --by-depth --json > "$t/few$n"
    none "$t/few$n" mean_kld_ci95_low mean_kld_ci95_high diff_ci95_low diff_ci95_high
done
none "$t/few1" mean_kld_stderr_windows diff_stderr
sed -n '/"by_depth"/,$p' "$t/few1" > "$t/by1"
none "$t/by1" mean_kld_stderr
holds "$(num "$t/few2" mean_kld_stderr_windows) > 0 && $(num "$t/few2" diff_stderr) > 0"
"$HONE" eval kld "$t/q4.gguf" "$t/text" --base "$t/f32.gguf" --ctx 64 --chunks 1 > "$t/o"
grep -q '^mean KLD +- *-$' "$t/o" && grep -q '^mean KLD 95 % from *-$' "$t/o" || { echo "one window"; cat "$t/o"; exit 1; }
"$HONE" eval ppl "$t/f32.gguf" "$t/text" --ctx 8 --chunks 3 --json > "$t/o"
none "$t/o" ppl_stderr # 9 tokens
# people read one error, that over windows: in the answer, the table of candidates and that of a single one
"$HONE" eval kld "$t/q4.gguf" "$t/text" --base "$t/f32.gguf" --ctx 64 --chunks 9 --json > "$t/nine"
"$HONE" eval kld "$t/q4.gguf" "$t/text" --base "$t/f32.gguf" --ctx 64 --chunks 9 > "$t/o"
u=$(sed -n 's/^mean KLD +- *//p' "$t/o")
[ "$(printf %.6f "$(num "$t/nine" mean_kld_stderr_windows)")" = "$u" ] || { echo "error: $u"; cat "$t/nine"; exit 1; }
short=$(sed -n '1s/.*± \([0-9.]*\),.*/\1/p' "$t/o")
holds "$short / $u > 0.5 && $short / $u < 2" # one digit

"$HONE" eval speed "$t/q4.gguf" --pp 32 --tg 8 --reps 2 --depths 0,64 --json > "$t/speed"
has "$t/speed" tests test depth tok_per_s tok_per_s_stddev gb_per_s share_of_bandwidth
[ "$(grep -c '"test": ' "$t/speed")" = 4 ]

# cache types without a model: fewer bits mean more error; rotation does not harm types close to f32
"$HONE" eval kv --head-dims 64,256 --depths 256 --kv-type f32,tq4,tq3,tq2 --json > "$t/types"
has "$t/types" head_dim depth kv_type bits_per_value attention_kld output_error put_ns_per_value get_ns_per_value
set -- $(sed -n 's/^ *"output_error": \([-0-9.e+]*\),*$/\1/p' "$t/types")
holds "$1 == 0 && 0 < $2 && $2 < $3 && $3 < $4 && $4 < 1 && $5 == 0 && $6 < $7 && $7 < $8"
# logits: ids 1 2 3 4 5; the same bytes for any thread count
printf '\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\5\0\0\0' > "$t/ids"
"$HONE" eval logits "$t/q4.gguf" --ids "$t/ids" -o "$t/l1" --threads 1 > /dev/null
"$HONE" eval logits "$t/q4.gguf" --ids "$t/ids" -o "$t/l3" --threads 3 > /dev/null
cmp "$t/l1" "$t/l3"
[ "$(wc -c < "$t/l1")" = $((5 * 4096 * 4)) ]

: > "$t/empty"
head -c 800 "$t/text" > "$t/short"
head -c 1000000 "$t/f32.gguf" > "$t/cut.gguf"
printf '\1\0\0\0\2' > "$t/odd"
printf '\1\0\0\0\377\377\377\377' > "$t/negative"
refused 2 "unknown subcommand 'tols'" eval tols "$t/f32.gguf"
refused 2 "name a subcommand" eval
refused 2 "--by-depth" eval kld "$t/q4.gguf" "$t/text" --base "$t/f32.gguf" --plot "$t/x"
refused 2 "--plot cannot be combined with --save-base" eval kld "$t/f32.gguf" "$t/text" --save-base "$t/x" --by-depth --plot "$t/y"
refused 3 "holds no text" eval ppl "$t/f32.gguf" "$t/empty"
refused 3 "needs at least 1024" eval ppl "$t/f32.gguf" "$t/short"
refused 2 "$t/none" eval ppl "$t/f32.gguf" "$t/none"
refused 3 "cut.gguf" eval ppl "$t/cut.gguf" "$t/text"
refused 3 "text" eval ppl "$t/text" "$t/text"
refused 2 "too short" eval ppl "$t/f32.gguf" "$t/text" --ctx 2
refused 2 "--kv-type" eval ppl "$t/f32.gguf" "$t/text" --kv-type q4_K
refused 2 "K/V" eval ppl "$t/f32.gguf" "$t/text" --kv-type q8_0/tq9
refused 2 "not a cache type" eval kld "$t/f32.gguf" "$t/text" --base "$t/f32.gguf" --kv-type ,
refused 2 "--kv-skip-type" eval kld "$t/f32.gguf" "$t/text" --base "$t/f32.gguf" --kv-skip-type x
refused 2 "--act" eval ppl "$t/f32.gguf" "$t/text" --act q4
refused 2 "--base" eval kld "$t/q4.gguf" "$t/text"
refused 2 "--base" eval kld "$t/q4.gguf" "$t/text" --base "$t/f32.gguf" --base-file "$t/base"
refused 2 "TEXT is missing" eval kld "$t/q4.gguf" --base "$t/f32.gguf"
refused 2 "--top 5000" eval kld "$t/f32.gguf" "$t/text" --save-base "$t/x" --compact --top 5000
refused 2 "--routing" eval kld "$t/q4.gguf" --base-file "$t/base" --routing
refused 2 "--worst" eval kld "$t/q4.gguf" "$t/text" --base "$t/f32.gguf" --worst 5000
refused 2 "2 domains" eval kld "$t/f32.gguf" "$t/d.jsonl" --save-base "$t/x"
printf '{"domain": "a", "text": "words"}\nnot json\n' > "$t/bad.jsonl"
refused 3 "line 2" eval kld "$t/q4.gguf" "$t/bad.jsonl" --base "$t/f32.gguf"
refused 3 "short" eval kld "$t/q4.gguf" --base-file "$t/short"
refused 2 "use -f" eval kld "$t/f32.gguf" "$t/text" --save-base "$t/base" --chunks 1
refused 2 "--depths" eval speed "$t/q4.gguf" --depths 0,x
refused 2 "--head-dims" eval kv --head-dims 64,x
refused 2 "multiples of 32" eval kv --head-dims 40
refused 2 "'q9' must be one of" eval kv --kv-type q9
refused 2 "not a cache type" eval kv --kv-type ,
refused 2 "nothing to measure" eval speed "$t/q4.gguf" --pp 0 --tg 0
refused 3 "5 bytes" eval logits "$t/q4.gguf" --ids "$t/odd" -o "$t/x"
refused 3 "0 bytes" eval logits "$t/q4.gguf" --ids "$t/empty" -o "$t/x"
refused 3 "outside the vocabulary" eval logits "$t/q4.gguf" --ids "$t/negative" -o "$t/x"
refused 2 "use -f" eval logits "$t/q4.gguf" --ids "$t/ids" -o "$t/l1"
[ ! -e "$t/x" ] || { echo "a refused request left its output"; exit 1; }

# no output replaces an input, also with -f
cp "$t/text" "$t/kept"
cp "$t/q4.gguf" "$t/kept.gguf"
apart() {
    rc=0
    "$HONE" eval "$@" -f > /dev/null 2> "$t/err" || rc=$?
    [ $rc = 2 ] && grep -q "same file" "$t/err" || { echo "eval $*: exit $rc: $(cat "$t/err")"; exit 1; }
    cmp "$t/text" "$t/kept" && cmp "$t/q4.gguf" "$t/kept.gguf" || { echo "eval $*: an input was replaced"; exit 1; }
}
for f in text q4.gguf; do
    apart kld "$t/q4.gguf" "$t/text" --save-base "$t/$f" --ctx 64 --chunks 1
    apart suite "$t/q4.gguf" --text "$t/text" --tools none --ctx 64 --chunks 1 -o "$t/$f"
    apart logits "$t/q4.gguf" --ids "$t/text" -o "$t/$f"
done
