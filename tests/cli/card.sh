#!/bin/sh
# Each command on a generated model card works in the folder that the preceding lines created: the "Use" blocks run as
# scripts. hone is the real program; hf, ollama, lms and llama.cpp's programs are stubs that copy from "the Hub" (the
# published folder) and reject missing files and tags. Also checks the card: five columns, the recommended file first
# and marked, everything else folded.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh
m=tests/golden/models
mkdir "$t/bin"
cat > "$t/bin/hone" <<'X'
#!/bin/sh
cmd=$1; shift
case $cmd in
run) # a chat model gets a message, not raw text to continue
    case "$(grep -ac tokenizer.chat_template "$1")$2" in 0-p | [1-9]Hello) ;; *) echo "hone run $*: not for this model"; exit 1 ;; esac
    exec "$HONE" run "$@" -n 3 -q > /dev/null ;;
serve)
    "$HONE" serve "$@" --port 0 > serve.out 2>&1 & pid=$!
    for i in $(seq 100); do grep -q http://127 serve.out && break; sleep 0.1; done
    kill $pid; wait $pid || :
    grep -q http://127 serve.out || { cat serve.out; exit 1; } ;;
*) exec "$HONE" "$cmd" "$@" -q ;;
esac
X
cat > "$t/bin/any" <<'X'
#!/bin/sh
# hf, ollama, lms, llama-cli, llama-server
die() { echo "$me: $*"; exit 1; }
me=$(basename "$0") args="$*"
one() { # the tag names one model of the repo
    [ "$1" = "$REPO" ] || die "no repo $1"
    n=$(ls "$HUB" | grep -v '^mmproj\|^mtp-' | grep -E "[-.]$2(-00001-of-[0-9]+)?\.gguf$" | grep -c .)
    [ "$n" = 1 ] || die "$2 names $n files: $args"
}
case $me in
hf)
    [ "$1" = download ] && [ "$2" = "$REPO" ] || die "$args"
    shift 2
    what='*' to=
    while [ $# -gt 0 ]; do case $1 in --include) what=$2; shift 2 ;; --local-dir) to=$2; shift 2 ;; -*) die "$1" ;; *) what=$1; shift ;; esac; done
    mkdir -p "$to"
    cp "$HUB"/$what "$to/" || die "nothing matches $what" ;;
llama-cli | llama-server)
    while [ $# -gt 0 ]; do case $1 in
    -m) [ -e "$2" ] || die "no $2"; shift 2 ;;
    --hf-file) [ -e "$HUB/$2" ] || die "no $2"; shift 2 ;;
    -hf) case $2 in *:*) one "${2%:*}" "${2#*:}" ;; *) [ "$2" = "$REPO" ] && [ "$3" = --hf-file ] || die "$args" ;; esac; shift 2 ;;
    --mmproj) [ -e "$2" ] || die "no $2"; shift 2 ;;
    --jinja) shift ;;
    -md) [ -e "$2" ] || die "no $2"; shift 2 ;;
    --spec-type) [ "$2" = draft-mtp ] || die "$args"; shift 2 ;;
    *) die "$1" ;; esac; done ;;
ollama)
    case $1 in
    create) [ "$3" = -f ] && [ -n "$(sed -n 's/^FROM //p' "$4")" ] || die "no FROM"
        for from in $(sed -n 's/^FROM //p' "$4"); do [ -e "$from" ] || die "no $from"; done
        echo "$2" | grep -qxE '[a-z0-9][a-z0-9._-]*' || die "name $2"; touch ".made-$2" ;;
    run) case $2 in hf.co/*) x=${2#hf.co/}; one "${x%:*}" "${x#*:}" ;; *) [ -e ".made-$2" ] || die "no model $2" ;; esac ;;
    *) die "$1" ;;
    esac ;;
lms)
    case $1 in
    get) x=${2#https://huggingface.co/}; one "${x%@*}" "${x#*@}" ;;
    import) [ -e "$2" ] || die "no $2" ;;
    *) die "$1" ;;
    esac ;;
esac
X
chmod +x "$t/bin/hone" "$t/bin/any"
for x in hf ollama lms llama-cli llama-server; do ln -s any "$t/bin/$x"; done
HONE=$(cd "$(dirname "$HONE")" && pwd)/$(basename "$HONE")
export HONE

# folder, repo or "", number of blocks, commands that must occur
card() {
    d=$1 repo=$2 want=$3; shift 3
    rm -rf "$t"/block-*
    awk -v t="$t" '/^```sh/ {f = t "/block-" ++n; next} /^```/ {f = ""} f {print > f}' "$d/README.md"
    [ "$(find "$t" -name 'block-*' | wc -l)" = "$want" ] || say "$d: not $want blocks of commands: $(cat "$t"/block-*)"
    for c; do cat "$t"/block-* | grep -qF -- "$c" || say "$d: no '$c' in $(cat "$t"/block-*)"; done
    for b in "$t"/block-*; do
        rm -rf "$t/desk"
        mkdir "$t/desk"
        [ -n "$repo" ] || cp "$d"/* "$t/desk/"
        (cd "$t/desk" && PATH=$t/bin:$PATH HUB=$d REPO=$repo sh -e "$b") > "$t/o" 2>&1 || say "$(basename "$d"), $(basename "$b"): $(tail -3 "$t/o"), of $(cat "$b")"
        grep FAILED "$t/o" && say "$d: sums"
    done
    "$HONE" publish --check "$d" --json > "$t/o" 2>&1 || :
    grep -E '"rule": "card-(link|size|local)' "$t/o" && say "$d: --check finds faults in the card"
    return 0
}

"$HONE" convert $m/qwen35moe --name "Tiny Chat 1.5" -o "$t/chat.gguf" -q > /dev/null
cp -r $m/qwen3 "$t/plain"
sed 's/"chat_template"/"no_template"/' $m/qwen3/tokenizer_config.json > "$t/plain/tokenizer_config.json"
"$HONE" convert "$t/plain" --name "Tiny Base" -o "$t/base.gguf" -q > /dev/null
quants() { for q in $3; do "$HONE" quantize "$1" -o "$2-$q.gguf" --recipe "$q" -q > /dev/null; done; }

mkdir "$t/chat" "$t/base" "$t/shards" "$t/twice" "$t/alone"
quants "$t/chat.gguf" "$t/chat/Tiny-Chat" "Q8_0 Q4_K_M"
run 0 publish "$t/chat" --repo me/Tiny-Chat-GGUF --license mit --base-model you/Tiny-Chat
card "$t/chat" me/Tiny-Chat-GGUF 2 'hone run Tiny-Chat-Q4_K_M.gguf "Hello"' "hone serve Tiny-Chat-Q4_K_M.gguf" "llama-cli -hf me/Tiny-Chat-GGUF:Q4_K_M --jinja" \
    "hf download me/Tiny-Chat-GGUF Tiny-Chat-Q4_K_M.gguf --local-dir ." "ollama run hf.co/me/Tiny-Chat-GGUF:Q4_K_M" "lms get" "lms import"
quants "$t/base.gguf" "$t/base/Tiny-Base" "Q8_0 Q4_K_M"
run 0 publish "$t/base" --repo me/Tiny-Base-GGUF --license mit --base-model you/Tiny-Base
card "$t/base" me/Tiny-Base-GGUF 2 'hone run Tiny-Base-Q4_K_M.gguf -p "Once' "llama-server -hf me/Tiny-Base-GGUF:Q4_K_M"
grep -q jinja "$t/base/README.md" && say "--jinja for a model without a template"
"$HONE" split "$t/chat/Tiny-Chat-Q4_K_M.gguf" -o "$t/shards/Tiny-Chat-Q4_K_M.gguf" --max-size 200K -q > /dev/null
run 0 publish "$t/shards" --repo me/Shards-GGUF --license mit --base-model you/Tiny-Chat
card "$t/shards" me/Shards-GGUF 2 "hone merge Tiny-Chat-Q4_K_M-00001-of-" 'hf download me/Shards-GGUF --include "Tiny-Chat-Q4_K_M-*.gguf"'
cp "$t/chat/Tiny-Chat-Q4_K_M.gguf" "$t/twice/Tiny-Q4_K_M.gguf"
cp "$t/chat/Tiny-Chat-Q4_K_M.gguf" "$t/twice/Tiny-v2-Q4_K_M.gguf"
run 0 publish "$t/twice" --repo me/Twice-GGUF --license mit --base-model you/Tiny-Chat
card "$t/twice" me/Twice-GGUF 2 "llama-server -hf me/Twice-GGUF --hf-file Tiny-Q4_K_M.gguf --jinja"
grep -q 'lms get\|hf.co' "$t/twice/README.md" && say "a tag that names two files"
cp "$t/chat"/*.gguf "$t/alone/"
run 0 publish "$t/alone" --license mit
card "$t/alone" "" 1 'hone run Tiny-Chat-Q4_K_M.gguf "Hello"' "ollama create tiny-chat-1.5 -f Modelfile"
grep -q 'repo: "Tiny-Chat-1.5-GGUF"' "$t/alone/model.yaml" || say "model.yaml: $(grep repo: "$t/alone/model.yaml")"

# measured: commands name the recommended file; the card is narrow
n=6000
if grep -q __asan_init "$HONE"; then n=3000; fi
head -c $n tests/golden/tiny-qwen35moe/self_eval.txt > "$t/eval.txt"
"$HONE" make $m/qwen35moe -o "$t/made" --name Tiny --repo me/Tiny-GGUF --license mit --plain --recipe Q8_0,Q4_K_M,Q2_K --calib-chunks 2 --calib-ctx 64 \
    --eval "$t/eval.txt" --ctx 64 --chunks 3 --pp 8 --tg 2 --reps 1 --tools none -q > "$t/o" 2> "$t/e" || say "make: $(cat "$t/e")"
made=$t/made/README.md
best=$(sed -n 's/^| ★.\[\*\*[^(]*(\([^)]*\)) |.*/\1/p' "$made")
[ -n "$best" ] && [ "$(grep -c '★.\[' "$made")" = 1 ] || say "no recommended file in front: $(grep '^| ' "$made")"
card "$t/made" me/Tiny-GGUF 2 "hone run $best \"Hello\"" "llama-server -m $best --mmproj mmproj-Tiny-BF16.gguf --jinja"
grep -q "^FROM ./$best" "$t/made/Modelfile" || say "the Modelfile names a file other than $best"
[ "$(grep '^## ' "$made" | sed -n 1,2p | tr '\n' ' ')" = "## Files ## Use " ] || say "sections: $(grep '^## ' "$made")"
awk '/<details>/ {fold = 1} /<\/details>/ {fold = 0} /^\|/ && !fold {n = gsub(/\|/, "|"); if (n > 6 || length($0) > 200) bad = bad $0 "\n"} END {printf "%s", bad; exit bad != ""}' "$made" ||
    say "a table that a phone cannot show"
# rows that do not fit Q2_K and Q3_K are IQ4_NL, with llama.cpp Q4_0; those of the MTP block that fit are Q4_K
n=$("$HONE" inspect "$t/made/Tiny-Q2_K.gguf" --tensors --keys none | awk '/weight / && ($2 == "IQ4_NL" || $2 == "Q4_K") { n++ } END { print n }')
[ "$(sed -n 's/.*"unlike_preset": *\([0-9]*\).*/\1/p' "$t/made/results.json" | tr '\n' ' ')" = "0 0 $n " ] ||
    say "unlike_preset, not 0, 0 and $n: $(grep unlike "$t/made/results.json")"
grep -q "The files are presets.* names, except for up to $n tensors per file" "$made" ||
    say "the card does not say that the files are presets but for $n tensors: $(grep 'files are' "$made")"
awk '/^## Files/ {on = 1} /<details>/ {on = 0} on' "$made" | grep -q BF16 && say "the base is in the table though not in the folder"
# loops and checks, and those of the base; if they were not measured, the card names the command
glance() { sed -n '/^| at a glance/,/^$/p' "$1/README.md"; }
glance "$t/made" | grep -q '^| not measured | .*tool loops, checks (`hone make --tools builtin,loops,checks`)' || say "at a glance: $(glance "$t/made")"
grep -q 'Tool loops and checks' "$t/made/README.md" "$t/made/report.html" && say "a table of loops that were not run"
mkdir "$t/suites"
cp "$t/chat/Tiny-Chat-Q8_0.gguf" "$t/suites/"
cat > "$t/suites/results.json" <<'X'
{"hone_version": "1", "model": {"name": "M"}, "files": [
 {"file": "base.gguf", "recipe": "BF16", "is_base": true, "size_bytes": 2, "loops_n": 13, "loops_passed": 5, "checks_n": 16, "checks_passed": 12},
 {"file": "Tiny-Chat-Q8_0.gguf", "recipe": "Q8_0", "size_bytes": 1, "mean_kld": 0.01, "same_top1": 0.9,
  "loops_n": 13, "loops_passed": 4, "loops_same": 11, "checks_n": 16, "checks_passed": 10, "checks_same": 9}]}
X
run 0 publish "$t/suites" --license mit --base-model you/Tiny-Chat
glance "$t/suites" | grep -qxF '| tool loops, checks | 4 of 13 loops pass, the original 5; 10 of 16 checks pass, the original 12 |' || say "at a glance: $(glance "$t/suites")"
glance "$t/suites" | grep 'not measured' | grep -q 'loops\|checks' && say "at a glance: $(glance "$t/suites")"
grep -qxF '| original | 5 | - | 12 | - |' "$t/suites/README.md" && grep -q '^| .* | 4 | 11 | 10 | 9 |$' "$t/suites/README.md" || say "loops and checks: $(grep -A6 'Tool loops' "$t/suites/README.md")"
grep -q '^    hone eval tools FILE loops ' "$t/suites/README.md" && grep -q 'hone eval tools FILE loops' "$t/suites/report.html" || say "no command that repeats the loops"
sed -i 's/, "checks_n": 16, "checks_passed": 10, "checks_same": 9//' "$t/suites/results.json"
run 0 publish "$t/suites" --license mit --base-model you/Tiny-Chat --force
glance "$t/suites" | grep -qxF '| tool loops, checks | 4 of 13 loops pass, the original 5 |' && glance "$t/suites" | grep -q '^| not measured .*[ ,] checks (`hone make' || say "loops without checks: $(glance "$t/suites")"
grep -q 'default-calib.txt.*stories, letters, .*version [0-9]' "$made" || say "the calibration text is not described"
exit $fail
