#!/bin/sh
# README.md and the guides work as written: every line of their sh blocks runs on the bundled model and prints the output that they
# show (numbers aside). Commands that need the network or build hone are listed below and not run. Guides have at most 120 lines,
# README.md 150; all files, links and options that they mention exist.
set -eu
t=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2> /dev/null || true; rm -rf "$t"' EXIT
. tests/expect.sh
root=$PWD tiny=$PWD/tests/golden/tiny-qwen35moe

# ---- pages: length, links, files and options that they name ----
pages='README.md docs/platforms.md docs/steps.md'
for g in $pages docs/README.md docs/guides/*.md; do
    [ "$(wc -l < "$g")" -le $([ $g = README.md ] && echo 150 || echo 120) ] || say "$g has $(wc -l < "$g") lines"
    for l in $(grep -o '](\([^)#]*\)' "$g" | sed 's/](//' | grep -v '^https*:'); do
        [ -e "$(dirname "$g")/$l" ] || say "$g: a link to $l"
    done
    for f in $(grep -oE '`(models|tests|chat|tok|convert|docs)/[A-Za-z0-9_/.-]+`' "$g" | tr -d '`'); do
        [ -e "$f" ] || say "$g: there is no $f"
    done
    for o in $(grep -oE '`--[a-z][a-z0-9-]*' "$g" | tr -d '`' | sort -u); do
        grep -qF -- "| \`$o\`" docs/reference.md || say "$g: no command has $o"
    done
done
for g in docs/guides/*.md; do grep -q "guides/${g##*/}" docs/README.md || say "docs/README.md does not list $g"; done
grep -q '(docs/README.md)' README.md || say "README.md does not name docs/README.md"

# ---- programs used in guides: hone with options that make it quick, and others that are only listed ----
bin=$t/bin
mkdir "$bin"
${CC:-cc} -std=c11 -D_GNU_SOURCE -O1 tests/ask.c -o "$t/ask"
for p in pip ollama python3 cc; do printf '#!/bin/sh\nexit 0\n' > "$bin/$p"; done # the network, or a build
cat > "$bin/make" << 'END'
#!/bin/sh
[ "$1" != demo ] || exec hone make "$TINY" -o demo --recipe Q6_K,Q4_K_M,Q3_K_M
END
cat > "$bin/hf" << 'END'
#!/bin/sh
# gets nothing: folders and files of the models are there already; of "download ... config.json --local-dir DIR" the file
case $* in *" config.json --local-dir "*) mkdir -p "${*##* }" && cp "$TINY/config.json" "${*##* }/" ;; esac
END
cat > "$bin/curl" << 'END'
#!/bin/sh
# curl -s http://127.0.0.1:8080/PATH -d BODY, to the port that the server got
[ "$1" = -s ] && [ "$3" = -d ] || exit 2
body=$4
case $body in @*) body=$(cat "${body#@}") ;; esac
"$T/ask" "$(cat "$T/port")" -b "$body" POST "${2#http://127.0.0.1:8080}"
END
cat > "$bin/hone" << 'END'
#!/bin/sh
stop() {
    [ ! -e "$T/pid" ] || kill -TERM "$(cat "$T/pid")" 2> /dev/null || return 0
    while [ -e "$T/pid" ] && kill -0 "$(cat "$T/pid")" 2> /dev/null; do sleep 0.05; done
}
case "$1 $*" in
"make "*--dry-run*) set -- "$@" --time 1h --calib-ctx 64 --calib-chunks 4 --ctx 64 ;;
"make "*" -q"*) set -- "$@" --plain --recipe Q8_0,Q4_K_M,Q2_K --search fast --ctx 64 --chunks 2 --calib-ctx 64 --calib-chunks 4 --pp 8 --tg 2 --reps 1 --tools-cases 1 ;;
"make "*) # as in the guide, for one size
    head -c 700 "$TINY/self_calib.txt" > "$T/probe"
    case $* in *" --recipe "*) ;; *) set -- "$@" --recipe Q4_K_M ;; esac
    set -- "$@" --effort fast --search fast --time 0 --probe "$T/probe" --ctx 64 --chunks 2 --calib-ctx 64 --calib-chunks 4 --pp 8 --tg 2 --reps 1 --tools none ;;
"sensitivity sensitivity "*) set -- "$@" --ctx 64 --chunks 2 --types 1 ;;
*" eval kld "* | *" eval ppl "*) set -- "$@" --ctx 64 --chunks 4 ;;
"versus versus "*) set -- "$@" --ctx 64 --chunks 4 --cases 2 ;;
*" eval tools "*) set -- "$@" --cases 2 ;;
*" eval speed "*) set -- "$@" --pp 8 --tg 2 --reps 1 ;;
*" eval suite "*) set -- "$@" --ctx 64 --chunks 4 --tools none ;;
"eval eval traffic "*) stop ;; # as in the guide
"serve "*)
    stop
    : > "$T/ready"
    "$HONE" "$@" --port 0 --context-memory 256MiB > "$T/ready" 2> "$T/log" &
    echo $! > "$T/pid"
    i=0
    while [ ! -s "$T/ready" ]; do
        i=$((i + 1))
        [ $i -lt 400 ] && kill -0 "$(cat "$T/pid")" 2> /dev/null || { cat "$T/log"; exit 1; }
        sleep 0.05
    done
    sed 's/.*127\.0\.0\.1:\([0-9]*\).*/\1/' "$T/ready" > "$T/port"
    cat "$T/ready" "$T/log"
    exit 0 ;;
esac
exec "$HONE" "$@"
END
chmod +x "$bin"/*
export HONE T="$t" TINY="$tiny"

# ---- the reader's files: the model, a finished folder of it, a downloaded file, a text ----
have=$t/have
mkdir "$have"
cp -r "$tiny" "$have/Qwen3-4B"
(cd "$have" && PATH=$bin:$PATH hone make Qwen3-4B -o Qwen3-4B-GGUF --repo me/Qwen3-4B-GGUF --license apache-2.0 --base-model Qwen/Qwen3-4B -q > /dev/null) || say "no folder of the model"
cp "$have/Qwen3-4B-GGUF/Qwen3-4B-Q4_K_M.gguf" "$have/"
head -c 8000 "$tiny/self_eval.txt" > "$have/my-text.txt"
head -n 4 "$tiny/calib.jsonl" > "$have/my-chats.jsonl"
echo '{"type":"object","properties":{"name":{"type":"string","maxLength":8}},"required":["name"]}' > "$have/answer.json"

# Writes the sh blocks of a page to DIR/N.sh, and the text block that follows one to DIR/N.text.
blocks() {
    awk -v dir="$2" '
        /^```sh$/ { on = dir "/" ++n ".sh"; printf "" > on; next }
        /^```text$/ { on = dir "/" n ".text"; next }
        /^```/ { on = ""; next }
        on { print > on }' "$1"
}
# Numbers become N, rows of blanks one.
plain() { sed -E 's/[0-9]+([.,:][0-9]+)*/N/g; s/[ ]+/ /g; s/ $//'; }
n_blocks=0 n_lines=0
for g in $pages docs/guides/*.md; do
    d=$t/run
    rm -rf "$d" "$t/blocks" "$t/pid" && mkdir "$t/blocks"
    cp -r "$have" "$d"
    mkdir "$d/build" && ln -s "$bin/hone" "$d/build/hone"
    case $g in */publish.md) rm -r "$d"/Qwen3-4B-GGUF* ;; esac # the reader makes it
    blocks "$g" "$t/blocks"
    for b in $(ls "$t/blocks" | sed -n 's/\.sh$//p' | sort -n); do
        n_blocks=$((n_blocks + 1))
        rc=0
        (cd "$d" && PATH=$bin:$PATH sh -e "$t/blocks/$b.sh") > "$t/o" 2>&1 < /dev/null || rc=$?
        [ ! -e "$t/pid" ] || pid=$(cat "$t/pid")
        [ $rc = 0 ] || say "$g, block $b: exit $rc: $(cat "$t/blocks/$b.sh" "$t/o")"
        [ -e "$t/blocks/$b.text" ] || continue
        plain < "$t/o" > "$t/plain"
        plain < "$t/blocks/$b.text" > "$t/want"
        while read -r l; do
            n_lines=$((n_lines + 1))
            grep -qF -- "$l" "$t/plain" || say "$g, block $b does not print \"$l\": $(head -c 1500 "$t/o")"
        done < "$t/want"
    done
    [ -z "$pid" ] || kill -TERM "$pid" 2> /dev/null || true
    pid=
done
cd "$root"
[ $n_blocks -ge 35 ] && [ $n_lines -ge 35 ] || say "only $n_blocks blocks and $n_lines lines of output in the guides"
exit $fail
