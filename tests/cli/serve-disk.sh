#!/bin/sh
# hone serve --cache-dir: cached prefixes of prompts survive a restart, and answers are the same as without a cache.
# Files that are truncated, changed, swapped or belong to a different model are rejected and removed; those of other
# numerics are not looked at. The cache stays below --cache-disk, and only one server at a time uses it.
set -eu
. tests/serving.sh
head=
for i in $(seq 120); do head="$head Rule $i: be brief and kind."; done
ask() { # question: the answer's text in $said, tokens that were known in $known
    "$t/ask" "$port" -b "{\"messages\": [{\"role\": \"system\", \"content\": \"$head\"}, {\"role\": \"user\", \"content\": \"$1\"}], \"temperature\": 0, \"max_tokens\": 12, \"ignore_eos\": true}" POST /v1/chat/completions > "$t/o"
    said=$(grep -o '"message":{.*}},"logprobs\|"message":{[^}]*}' "$t/o" | head -1)
    known=$(grep -o '"cached_tokens":[0-9]*' "$t/o" | head -1 | cut -d: -f2)
    [ -n "$said" ] || say "no answer: $(tail -c 300 "$t/o")"
}
d=$t/kept

start --ctx 4096
ask "What is a table?"; plain=$said
stop
start --ctx 4096 --cache-dir "$d"
grep -q 'cache-dir: files in .* contain the texts that clients send' "$t/log" || say "it does not say what files hold"
ask "Who are you?"
[ "$known" = 0 ] || say "an empty folder knew $known tokens"
i=0; while [ "$(metric hone_disk_cache_saved_total)" = 0 ] && [ $i -lt 100 ]; do i=$((i + 1)); sleep 0.05; done
[ "$(metric hone_disk_cache_saved_total)" -ge 1 ] || say "nothing is written while there is nothing to do"
first=$pid; pid=; "$HONE" serve "$t/m.gguf" --port 0 --cache-dir "$d" --ctx 4096 > "$t/ready2" 2> "$t/log2" & second=$!
i=0; while [ ! -s "$t/ready2" ] && [ $i -lt 100 ]; do i=$((i + 1)); sleep 0.05; done
grep -q 'contain the texts that clients send' "$t/log2" && say "files hold what is not kept"
grep -q 'is in use by another server' "$t/log2" || say "two servers share a folder: $(cat "$t/log2")"
kill -TERM $second; wait $second || true
pid=$first; stop
sub=$(echo "$d"/*)
[ "$(stat -c %a "$sub")" = 700 ] || say "the folder is not its owner's alone"

again() { # what, least number of known tokens, files refused
    start --ctx 4096 --cache-dir "$d"
    ask "What is a table?"
    [ "$said" = "$plain" ] || say "$1: the answer is $said, not $plain as without the cache"
    [ "$known" -ge "$2" ] || say "$1: only $known tokens were known"
    [ "$2" -gt 0 ] || [ "$known" = 0 ] || say "$1: $known tokens were known"
    [ "$(metric hone_disk_cache_refused_total)" = "$3" ] || say "$1: $(metric hone_disk_cache_refused_total) files refused, not $3"
}
cp -r "$d" "$t/good"
again "started again" 512 0
stop
damage() { rm -rf "$d"; cp -r "$t/good" "$d"; n=0; for f in "$sub"/*."$1"; do n=$((n + 1)); done; }
flip() { printf "$(printf '\\%03o' $(($(od -An -tu1 -j "$2" -N 1 "$1") ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2> /dev/null; }
damage seq; for f in "$sub"/*.seq; do truncate -s -100 "$f"; done
again "cut" 0 $n; stop
damage ids; for f in "$sub"/*.ids; do flip "$f" 40; done
again "tokens changed" 0 $n; stop
damage seq; for f in "$sub"/*.seq; do flip "$f" 5000; done
start --ctx 4096 --cache-dir "$d"; ask "What is a table?"
[ "$said" = "$plain" ] || say "a flipped bit changes the answer"
[ "$(metric hone_disk_cache_refused_total)" -ge 1 ] || say "a flipped bit is not seen"
stop
# a different model's files are in a different folder; copied into this one, they are rejected
"$HONE" quantize "$t/base.gguf" -o "$t/m.gguf" --recipe Q4_0 -f -q > /dev/null
rm -rf "$d"; cp -r "$t/good" "$d"
start --ctx 4096 --cache-dir "$d"; ask "What is a table?"
[ "$known" = 0 ] || say "another model takes $known tokens"
mine=$said
stop
for other in "$d"/*; do [ "$other" = "$sub" ] || break; done
rm "$other"/*.ids "$other"/*.seq
cp "$t/good/${sub##*/}"/*.ids "$t/good/${sub##*/}"/*.seq "$other"
start --ctx 4096 --cache-dir "$d"; ask "What is a table?"
[ "$said" = "$mine" ] || say "another model's files change the answer"
[ "$(metric hone_disk_cache_refused_total)" -ge 1 ] || say "another model's files are not refused"
stop
# entries that other numbers of the model or another type of cache would give are in folders of their own
rm -rf "$d"; cp -r "$t/good" "$d"
"$HONE" quantize "$t/base.gguf" -o "$t/m.gguf" --recipe Q8_0 -f -q > /dev/null
start --ctx 4096 --cache-dir "$d" --kv-type q8_0; ask "What is a table?"
[ "$known" = 0 ] || say "another type of cache takes $known tokens"
[ "$(metric hone_disk_cache_refused_total)" = 0 ] || say "files of another type of cache are refused"
stop
again "the type of before" 512 0; stop
"$HONE" meta "$t/m.gguf" qwen35moe.rope.freq_base=5000 -f > /dev/null
start --ctx 4096 --cache-dir "$d"; ask "What is a table?"
[ "$known" = 0 ] || say "a model with other angles takes $known tokens"
mine=$said
stop
start --ctx 4096; ask "What is a table?"
[ "$said" = "$mine" ] || say "other angles: the answer is $mine, not $said as without the cache"
stop
# entries of one key are never found with another
printf 'first-first-first-1\nsecond-second-second\n' > "$t/keys"
rm -rf "$d"
for step in 1 2; do
    start --ctx 4096 --cache-dir "$d" --api-key-file "$t/keys"
    for key in first-first-first-1 second-second-second; do
        [ $step$key != 1second-second-second ] || continue
        "$t/ask" "$port" -b "{\"messages\": [{\"role\": \"system\", \"content\": \"$head\"}, {\"role\": \"user\", \"content\": \"Hi $step\"}], \"max_tokens\": 2}" POST /v1/chat/completions "x-api-key: $key" > "$t/o"
        known=$(grep -o '"cached_tokens":[0-9]*' "$t/o" | head -1 | cut -d: -f2)
        case $step$key in
        1*) [ "$known" = 0 ] || say "$known tokens are known at the start" ;;
        2first*) [ "$known" -ge 512 ] || say "the key's own beginning is not known: $known" ;;
        2second*) [ "$known" = 0 ] || say "one key knows $known tokens of the other" ;;
        esac
    done
    stop
done
# bounded
rm -rf "$d"
start --ctx 4096 --cache-dir "$d" --cache-disk 3MiB
for q in one two three; do head="$q $head"; ask "$q"; done
stop
[ "$(du -sk "$d" | cut -f1)" -le 3300 ] || say "$(du -sk "$d") KiB of files with --cache-disk 3MiB"
exit $fail
