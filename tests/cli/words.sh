#!/bin/sh
# SPDX-License-Identifier: MIT
# What users type: option and command names of other programs, misspelt names, sizes, and all forms of help. Also a
# standard output that is full, closed or no longer read.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
out() { # text on stdout, arguments; exit 0, nothing on stderr
    text=$1
    shift
    rc=0
    "$HONE" "$@" < /dev/null > "$t/o" 2> "$t/e" || rc=$?
    [ $rc = 0 ] && grep -qF -- "$text" "$t/o" && [ ! -s "$t/e" ] || say "hone $*: exit $rc, expected \"$text\": $(cat "$t/o" "$t/e" | head -3)"
}
"$HONE" convert tests/golden/models/qwen3 -o "$t/m.gguf" -q > /dev/null

# ---- help in every form that users try ----
out "hone make MODEL_FOLDER" help
for c in quantize run 'eval kld' 'template lint'; do
    # shellcheck disable=SC2086
    out "usage: hone $c " help $c
    # shellcheck disable=SC2086
    out "usage: hone $c " $c '-?'
    # shellcheck disable=SC2086
    out "usage: hone $c " --help $c
    # shellcheck disable=SC2086
    out "hone 0" $c --version
    # shellcheck disable=SC2086
    out "stream-from N" help $c -v
    out "place FILE" help $c -v
done
out "usage: hone eval COMMAND" help eval
out "usage: hone template COMMAND" help template -v
out "usage: hone eval COMMAND" eval -v --help
out "TEXT... --base BASE.gguf" eval --help # what each of them needs
out "hone 0" version
says 2 "did you mean 'hone quantize'" help qauntize
for cmd in $(sed -n 's/^COMMAND("\([^"]*\)".*/\1/p' cli/commands.def); do
    subs=
    case $cmd in eval | template) subs=$("$HONE" $cmd --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p') ;; esac
    for sub in $subs ''; do
        # a screen of 40 lines and 80 columns, with two examples that are valid commands shellcheck disable=SC2086
        "$HONE" $cmd $sub --help > "$t/h"
        [ "$(wc -l < "$t/h")" -le 40 ] || say "$cmd $sub --help: $(wc -l < "$t/h") lines"
        [ "$(wc -L < "$t/h")" -le 80 ] || say "$cmd $sub --help: $(wc -L < "$t/h") columns"
        case $cmd$sub in eval | template | evalcheck | templatecheck) continue ;; esac
        [ "$(sed -n '/^examples:/,/^$/p' "$t/h" | grep -c "hone $cmd")" -ge 2 ] || say "$cmd $sub --help has no two examples"
        sed -n '/^examples:/,/^$/s/^ .*hone \(.*\)/\1/p' "$t/h" | grep -oE -- ' --[a-z-]+' | sort -u > "$t/used"
        # shellcheck disable=SC2086
        "$HONE" $cmd $sub --help -v > "$t/full"
        while read -r o; do grep -qE -- "(^|[ ,])$o( |\$)" "$t/full" || say "$cmd $sub --help: the example's $o does not exist"; done < "$t/used"
    done
done
COLUMNS=60 "$HONE" quantize --help | sed '/^examples:/,/^$/d' > "$t/h"
[ "$(wc -L < "$t/h")" -le 60 ] || say "quantize --help at 60 columns: $(wc -L < "$t/h")"

# ---- commands: misspelt, of other programs, after options ----
says 2 "did you mean 'hone quantize'" qauntize
says 2 "did you mean 'hone inspect'" inpsect x
says 2 "did you mean 'hone eval kld'" eval kdl
for c in chat pull list ls bench perplexity show push create llama-quantize convert_hf_to_gguf.py; do says 2 "no command '$c': " $c; done
says 2 "hf download" pull Qwen/Qwen3-0.6B
says 2 "hone eval ppl" perplexity -m x -f y
says 2 "hone run FILE" "$t/m.gguf"
says 2 "no command 'frobnicate'; 'hone --help' lists the commands" frobnicate
out Q4_K_M -q recipes
out '"format": "GGUF"' --json inspect "$t/m.gguf"
out '"arch"' --threads 1 --json plan "$t/m.gguf"
out '"kv_type"' --json eval kv --head-dims 32 --depths 16 --kv-type f16
says 2 "expected a command, found" -m "$t/m.gguf"

# ---- options of other programs: accepted if they mean the same, otherwise answered with advice ----
run 0 plan -m "$t/m.gguf" -c 777 --json
grep -q '"ctx": 777' "$t/o" || say "-c is not the context"
run 0 plan "$t/m.gguf" --num_ctx=333 -np 2 -t 1 --json
grep -q '"ctx": 333' "$t/o" && grep -q '"slots": 2' "$t/o" || say "--num_ctx, -np"
run 0 eval speed -m "$t/m.gguf" -p 8 -n 2 -r 1 -t 1 --json
grep -q pp8 "$t/o" && grep -q tg2 "$t/o" || say "-p and -n of eval speed: $(cat "$t/o")"
run 0 quantize "$t/m.gguf" -o "$t/q.gguf" --recipes Q8_0 --tensor-type ffn_up=F16 --dry-run --json
grep -q '"to": "F16"' "$t/o" || say "--tensor-type"
run 0 convert tests/golden/models/qwen3 --outfile "$t/f.gguf" --outtype f32 -q
says 2 "--device cuda" run "$t/m.gguf" -ngl 99
says 2 "--device cuda" run "$t/m.gguf" --n-gpu-layers 99
says 2 "leave it out" run "$t/m.gguf" -fa -p x
says 2 "leave it out" eval speed "$t/m.gguf" -b 512
says 2 "--kv-type" run "$t/m.gguf" -ctk q8_0
says 2 "the first argument" quantize -m "$t/m.gguf"
says 2 "hf download" run -hf me/repo
says 2 "hone eval kld" eval ppl "$t/m.gguf" x --kl-divergence
says 2 "unknown option '-z'; see 'hone run --help'" run "$t/m.gguf" -z 1
says 2 "did you mean --recipe?" quantize "$t/m.gguf" --recipie Q8_0
says 2 "number of tokens; write one such as 131072 or 128K" plan "$t/m.gguf" -c 32G
says 2 "hone quantize a.gguf -o b.gguf --recipe Q4_K_M" quantize a.gguf b.gguf Q4_K_M
says 2 "did you mean Q4_K_M?" quantize "$t/m.gguf" -o "$t/x.gguf" --recipe q4km
says 2 "the penalties; leave it out" run "$t/m.gguf" --mirostat 2
says 2 "see 'hone eval ppl --help'" eval ppl "$t/m.gguf" x --kepp-on 5
run 0 plan "$t/m.gguf" -ctx 99 --json
says 2 "a file with {}" quantize "$t/m.gguf" -o "$t/x.gguf" --recipe Q8_0,Q4_0
says 2 "IN.gguf is missing; usage: hone quantize IN.gguf" quantize -o "$t/x.gguf"
says 2 "TEXT is missing; usage: hone eval ppl" eval ppl "$t/m.gguf"
says 2 "is one argument too many" inspect a b

# ---- sizes ----
says 2 "24 bytes? write 24GiB" plan "$t/m.gguf" --vram 24
says 2 "10 bytes? write 10GiB" quantize "$t/m.gguf" -o "$t/x.gguf" --budget 10
says 2 "8 bytes? write 8GiB" inspect "$t/m.gguf" --max-memory 8
says 2 "KiB MiB GiB" plan "$t/m.gguf" --vram 24X
for s in 24GiB 24gib '24 GiB' 24gb 24g 24G 25769803776; do run 0 plan "$t/m.gguf" --vram "$s" --json; done
run 0 quantize "$t/m.gguf" -o "$t/x.gguf" --budget 10m --dry-run
# every --ctx takes 2K for 2048
for s in 2k 2K 2Ki 2048; do
    run 0 plan "$t/m.gguf" -c "$s" --json
    grep -q '"ctx": 2048' "$t/o" || say "--ctx $s: $(grep ctx "$t/o")"
done
grep -nE '"[a-z-]*ctx", ' cli/cmd_*.c commands/*.def | grep -v TOKENS && say "a --ctx that does not take 128K"

# ---- times: one syntax everywhere; a plain number means hours for job limits and is refused elsewhere ----
prose=$t/time-text
head -c 2000 tests/golden/tiny-qwen35moe/self_eval.txt > "$prose"
limit() { sed -n 's/.*"time_limit_hours": \([0-9.]*\).*/\1/p' "$t/o"; }
for v in 1.5=1.5 90m=1.5 1h30m=1.5 '1 h 30 min=1.5' 5400s=1.5 1.5H=1.5 12h=12 2d=48 0=0; do
    run 0 make "$t/m.gguf" -o "$t/timed" --dry-run --json --plain --recipe Q8_0 --ctx 64 --calib-ctx 64 --calib "$prose" --eval "$prose" --time "${v%%=*}"
    [ "$(limit)" = "${v#*=}" ] || say "--time ${v%%=*} is $(limit) hours"
done
for v in 1h30 30x -1h 1h2h nan 1:30 ''; do
    says 2 "such as 90s, 30m, 12h or 1h30m" make "$t/m.gguf" -o "$t/timed" --time "$v"
    says 2 "such as 90s, 30m, 12h or 1h30m" make "$t/m.gguf" -o "$t/timed" --probe-time "$v"
    says 2 "such as 90s, 30m, 12h or 1h30m" sensitivity "$t/m.gguf" -o "$t/s.json" --time "$v"
done
unit="30 has no unit; write 30s, 30m or 30h"
for o in --drain --max-step; do says 2 "$o: $unit" serve "$t/m.gguf" $o 30; done
run 0 make "$t/m.gguf" -o "$t/timed" --dry-run --plain --recipe Q8_0 --ctx 64 --calib-ctx 64 --calib "$prose" --eval "$prose" --probe-time 30m
# every option that takes a time uses the same word, in the help and in the manual pages
grep -nE '(^OPTION|ROW).*[ _](TIME|HOURS), ' cli/cmd_*.c commands/*.def | grep -v '"TIME"' && say "an option that takes a time without the word TIME"
grep -nE '"(TIME|HOURS|MINUTES|SECONDS)"' cli/cmd_*.c commands/*.def | grep -vE '[ _](TIME|HOURS), |"now"' && say "an option that takes a time without the word TIME"

# ---- one name per meaning; old names still work ----
for cmd in make quantize recipes synth; do
    "$HONE" $cmd --help -v > "$t/h"
    grep -q -- '^ *--recipe ' "$t/h" && ! grep -q -- '--recipes' "$t/h" || say "$cmd --help: --recipe, and not --recipes"
done
same() { # two sets of arguments give the same result
    "$HONE" $1 > "$t/o1" 2> "$t/e" || say "hone $1: $(cat "$t/e")"
    "$HONE" $2 > "$t/o2" 2> "$t/e" || say "hone $2: $(cat "$t/e")"
    grep -v command_line "$t/o1" > "$t/o3"; grep -v command_line "$t/o2" | cmp -s - "$t/o3" || say "hone $1 and hone $2 differ"
}
same "plan $t/m.gguf --all-recipes --json" "plan $t/m.gguf --recipes --json"
same "quantize $t/m.gguf -o $t/x.gguf --recipe Q8_0,Q4_0 -o $t/x-{}.gguf --dry-run --csv" "quantize $t/m.gguf --recipes Q8_0,Q4_0 -o $t/x-{}.gguf --dry-run --csv"
says 2 "no recipe 'Q9_9'" make "$t/m.gguf" -o "$t/timed" --recipes Q9_9
says 2 "no recipe 'Q9_9'" make "$t/m.gguf" -o "$t/timed" --recipe Q9_9
says 2 "hone plan --all-recipes lists every recipe" plan "$t/m.gguf" --recipe Q4_K_M
"$HONE" make --help -v | grep -q -- '--base-type TYPE' || say "make has no --base-type"
for o in --base-type --type; do
    run 2 make tests/golden/models/qwen3 -o "$t/timed" $o q9 --plain --recipe Q8_0 --eval "$prose" --calib "$prose" --tools none
    grep -q 'q9 is not one of .* (hone make calls it --base-type)' "$t/e" || say "make $o q9: $(cat "$t/e")"
done
for sub in traffic replay; do says 2 "cannot open $t/none" eval $sub "$t/m.gguf" "$t/none"; done
"$HONE" eval --help | grep -q '^  traffic ' || say "eval --help does not list traffic"

# ---- outputs: '-' is not a file; a full or closed standard output is an error; a reader that exits is not ----
root=$PWD
cd "$t"
for c in "quantize m.gguf --recipe Q8_0" "convert $root/tests/golden/models/qwen3" "merge m.gguf" "imatrix m.gguf x" "make $root/tests/golden/models/qwen3"; do
    # shellcheck disable=SC2086
    says 2 "--output -" $c -o -
done
[ ! -e ./- ] || say "a file named -"
says 2 "names no file" quantize m.gguf --recipe Q8_0 -o x/
says 2 "/dev/stdout is not a file" quantize m.gguf --recipe Q8_0 -o /dev/stdout
says 2 "/dev/stdout is not a file" convert "$root/tests/golden/models/qwen3" -o /dev/stdout
says 2 "/dev/fd/1 is not a file" imatrix m.gguf x -o /dev/fd/1
cd "$root"
if [ -w /dev/full ]; then
    for c in --help --version help recipes "recipes --json" doctor "inspect $t/m.gguf" "inspect $t/m.gguf --json" "completion bash" "run --help" "eval --help" "help run" "plan $t/m.gguf --csv" \
        "tokenize $t/m.gguf" "template show tests/golden/tiny-qwen35moe"; do
        rc=0
        # shellcheck disable=SC2086
        echo x | "$HONE" $c > /dev/full 2> "$t/e" || rc=$?
        [ $rc = 4 ] && grep -q "standard output" "$t/e" || say "hone $c > /dev/full: exit $rc: $(cat "$t/e")"
    done
fi
rc=0
"$HONE" recipes >&- 2> "$t/e" || rc=$?
[ $rc = 4 ] || say "closed standard output: exit $rc"
"$HONE" quantize "$t/m.gguf" -o "$t/c.gguf" --recipe Q8_0 -q >&- 2> "$t/e" || true
run 0 quantize "$t/m.gguf" -o "$t/d.gguf" --recipe Q8_0 -q
cmp "$t/c.gguf" "$t/d.gguf" || say "with standard output closed the file is another"
mkfifo "$t/pipe"
for c in recipes "inspect $t/m.gguf" "run --help" --help; do
    : < "$t/pipe" & # a reader that opens and goes
    # shellcheck disable=SC2086
    (exec > "$t/pipe"; wait; sleep 0.05; rc=0; "$HONE" $c 2> "$t/e" || rc=$?; echo $rc > "$t/rc")
    wait
    [ "$(cat "$t/rc")" = 141 ] && [ ! -s "$t/e" ] || say "hone $c, reader gone: exit $(cat "$t/rc"): $(cat "$t/e")"
done
exit $fail
