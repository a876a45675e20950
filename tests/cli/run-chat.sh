#!/bin/sh
# SPDX-License-Identifier: MIT
# hone run on a terminal, with tests/pty.c as the user: editing, pastes, history, commands, Ctrl-C, tool calls, a full
# context, and output that contains terminal escape sequences.
set -eu
t=$(mktemp -d)
trap 'rm -rf "$t" OUT1' EXIT # /save writes where hone runs
. tests/expect.sh
# shellcheck disable=SC2086
${CC:-cc} -std=c11 -D_GNU_SOURCE -O1 tests/pty.c -o "$t/pty"
tiny=tests/golden/tiny-qwen35moe
"$HONE" convert $tiny -o "$t/m.gguf" --type q8_0 -q > /dev/null
export TERM=xterm-256color XDG_STATE_HOME="$t/state"
unset NO_COLOR
# libedit never frees the names of added functions (documented in its source): six small strings
echo 'leak:wcsdup' > "$t/lsan"
export LSAN_OPTIONS="suppressions=$t/lsan:print_suppressions=0"
esc=$(printf '\033')
history=$XDG_STATE_HOME/hone/history

talk() { # name, arguments of hone run; the script of the person is stdin
    name=$1
    shift
    cat > "$t/$name.script"
    "$t/pty" "$t/$name.script" "$HONE" run "$@" > "$t/$name" 2> "$t/$name.err" || { echo "$name: $(cat "$t/$name.err")"; exit 1; }
}
saved() { # file, text that a message must be
    grep -qF -- "\"content\": \"$2\"" "$1" || { echo "no message '$2' in $1:"; cat "$1"; exit 1; }
}

# ---- a line is edited: cursor, UTF-8; a paste of three lines, Alt-Enter, a backslash and """ are one turn each ----
talk edit "$t/m.gguf" --temp 0 -n 1 << 'X'
< (qwen35moe): context 8192 of
< /help lists commands
< 2004h
> na\xc3\xafve ab\e[D\e[DX\n
< ; seed
< 2004h
> \e[200~one\ntwo\nthree\e[201~\n
< ; seed
< 2004h
> up\e\ndown\n
< ; seed
< 2004h
> first \\\n
< ...
> second\n
< ; seed
< 2004h
> """quoted\n
< ...
> end"""\n
< ; seed
< 2004h
> //slash\n
< ; seed
< 2004h
> /frobnicate\n
< there is no such command
< 2004h
> /help\n
< /continue
< 2004h
> /save OUT1\n
< 12 messages in
< 2004h
> /save OUT1\n
< exists
< 2004h
> typed and dropped\x03
< ^C
< Ctrl-C again
< 2004h
> \x03
$ 0
X
mv OUT1 "$t/edit.json"
saved "$t/edit.json" 'naïve Xab'
saved "$t/edit.json" 'one\ntwo\nthree'
saved "$t/edit.json" 'up\ndown'
saved "$t/edit.json" 'first \nsecond'
saved "$t/edit.json" 'quoted\nend'
saved "$t/edit.json" '/slash'
[ "$(grep -c '"role": "user"' "$t/edit.json")" = 6 ]
if grep -q 'frobnicate\|dropped' "$t/edit.json"; then echo "a command, or a line given up, was sent"; exit 1; fi
[ "$(stat -c %a "$history")" = 600 ] && grep -qF '"one\ntwo\nthree"' "$history" || { ls -l "$history"; cat "$history"; exit 1; }

# ---- the next session has the history; /load continues a conversation; --chat accepts the saved file ----
talk history "$t/m.gguf" --temp 0 -n 1 << X
< 2004h
> \e[A\e[A\e[A\e[A\e[A\n
< ; seed
< 2004h
> /load $t/edit.json\n
< 12 messages were read
< 2004h
> more\n
< ; seed
< 2004h
> /save -f $t/edit2.json\n
< 14 messages
< 2004h
> /systme x\n
< did you mean /system?
< 2004h
> /set top-p 2\n
< /set top-p: '2' is not a number from 0 to 1
< 2004h
> /set foo 1\n
< unknown setting; known settings: temp
< , stop
< 2004h
> /set top_k 7\n
< 2004h
> /set temperature 3000\n
< is not a number from 0 to 100
< 2004h
> /set parameter temperature 0.25\n
< 2004h
> /set temp\n
< temp               0.25
< 2004h
> /clear\n
< a new conversation begins
< 2004h
> /set top-k\n
< top-k              7
< 2004h
> /bye\n
\$ 0
X
saved "$t/edit2.json" 'naïve Xab'
saved "$t/edit2.json" 'more'
grep -q '/slash' "$t/history" || { echo "no history of the session before"; cat "$t/history"; exit 1; }
echo '[{"role": "system", "content": "a ESC]0;owned BEL b"}, {"role": "user", "content": "x", "n": 1.0},
 {"role": "assistant", "content": "y"}]' | sed 's/ESC/\\u001b/; s/BEL/\\u0007/' > "$t/hand.json"
talk hand "$t/m.gguf" --chat "$t/hand.json" --no-history -n 1 << X
< 3 messages were read
< 2004h
> /system\n
< a ^[]0;owned ^G b
< 2004h
> by hand\n
< ; seed
< 2004h
> /save $t/hand2.json\n
< 5 messages
< 2004h
> \x04
\$ 0
X
grep -qF '{"role": "user", "content": "x", "n": 1.0}' "$t/hand2.json" && saved "$t/hand2.json" 'by hand'
if grep -q 'by hand' "$history"; then echo "--no-history was not obeyed"; exit 1; fi

# ---- Ctrl-C stops only the answer; /continue resumes it; its text stays ----
talk stop "$t/m.gguf" --temp 60 --top-k 0 --top-p 1 --seed 11 --act f32 --no-history << X
< 2004h
> go on and on\n
< $esc[2m
> \x03
< stopped: /continue resumes it
< 2004h
> /continue\n
< $esc[2m
> \x03
< stopped: /continue resumes it
< 2004h
> /save $t/stop.json\n
< 2 messages
< 2004h
> /set temp 0\n
< 2004h
> and now?\n
< ; seed 12
< 2004h
> \x04
\$ 0
X
saved "$t/stop.json" 'go on and on'
grep -q '"reasoning_content"' "$t/stop.json"

# ---- tool calls: shown readable, answered by /tool or pasted JSON; reasoning folded ----
head -1 $tiny/tools.jsonl > "$t/case.json"
talk tools "$t/m.gguf" --chat "$t/case.json" --temp 0 --no-history --thinking fold << X
< thought for
< [call] search_docs
< limit = 12
< the model called 1 tool: enter /tool RESULT or paste JSON
< 2004h
> /tool\x20
> {"page": 7}\n
< ; seed
< 2004h
> /save $t/tools.json\n
< 4 messages
< 2004h
> /retry\n
< ; seed
< 2004h
> \x04
\$ 0
X
grep -qF '{"role": "tool", "content": "{\"page\": 7}", "name": "search_docs", "tool_call_id": "call00001"}' "$t/tools.json"
if grep -q '<function=' "$t/tools"; then echo "a call was shown raw"; exit 1; fi

# ---- the context is full: the oldest turns are left out, with a message; a turn that is too long is refused, and
# nothing is lost ----
long=$(i=0; while [ $i -lt 60 ]; do printf 'word%d ' $i; i=$((i + 1)); done)
talk full "$t/m.gguf" --ctx 160 --temp 0 -n 20 --system 'Be brief.' --no-history << X
< context 160 of
< 2004h
> the first of all questions is about the valve manual and the bolts\n
< ; seed
< 2004h
> the second question is about the same manual, and about the drills\n
< ; seed
< 2004h
> the third question is about the router in the same manual again\n
< ; seed
< 2004h
> the fourth question is about batteries, valves, drills and bolts\n
< ; seed
< 2004h
> $long\n
< this turn alone has
< --ctx
< 2004h
> still there?\n
< ; seed
< 2004h
> /save $t/full.json\n
< messages
< 2004h
> \x04
\$ 0
X
grep -q 'from here on the model does not see the [0-9]* oldest messages' "$t/full" && grep -q '% of the context of 160 tokens is used' "$t/full" || { cat "$t/full"; exit 1; }
saved "$t/full.json" 'Be brief.'
saved "$t/full.json" 'the first of all questions is about the valve manual and the bolts'
saved "$t/full.json" 'still there?'
if grep -q 'word59' "$t/full.json"; then echo "the refused turn stayed"; exit 1; fi
# the same for /retry: without a new answer, the last one stays
echo "[{\"role\": \"user\", \"content\": \"$long\"}, {\"role\": \"assistant\", \"content\": \"the last answer\"}]" > "$t/long.json"
talk retry "$t/m.gguf" --ctx 160 --temp 0 -n 20 --no-history << X
< context 160 of
< 2004h
> /load $t/long.json\n
< 2 messages were read
< 2004h
> /retry\n
< this turn alone has
< 2004h
> /save $t/retry.json\n
< 2 messages
< 2004h
> \x04
\$ 0
X
saved "$t/retry.json" 'the last answer'

# ---- a model whose letter I is an escape character: a terminal sees ^[, a file the bytes; no terminal that can edit ----
mkdir "$t/evil"
cp $tiny/* "$t/evil/"
sed 's/^\( *\)"I": 40,/\1"I": 215,/; s/^\( *\)"ě": 215,/\1"ě": 40,/' $tiny/tokenizer.json > "$t/evil/tokenizer.json"
"$HONE" convert "$t/evil" -o "$t/evil.gguf" --type q8_0 -q > /dev/null
"$HONE" run "$t/evil.gguf" --chat "$t/case.json" --temp 0 --raw -q > "$t/o"
grep -q "$esc should call" "$t/o" || { cat -v "$t/o"; exit 1; }
talk escape "$t/evil.gguf" --temp 0 --no-history --chat "$t/case.json" << 'X'
< ^[ should call search_docs
< [call] search_docs
< 2004h
> \x04
$ 0
X
if sed "s/$esc\[[0-9;?]*[a-zA-Z]//g" "$t/escape" | grep -q "$esc"; then echo "an escape came through"; cat -v "$t/escape"; exit 1; fi
TERM=dumb
talk dumb "$t/m.gguf" --temp 0 --no-history --chat "$t/case.json" << 'X'
< [thinking]
< [call] search_docs
< ; seed
< >
> again, a line\n
< ; seed
< >
> \x04
$ 0
X
if grep -q "$esc" "$t/dumb"; then echo "escapes on a dumb terminal"; exit 1; fi
exit $fail
