#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/clients/run.sh HONE CHECKPOINT DIR [SET...]: tests hone serve with client libraries from PyPI, installed into
# DIR/SET when their versions change. Sets that cannot be installed are reported and skipped.
set -eu
hone=$1 checkpoint=$2 dir=$3
shift 3
here=$(dirname "$0")
mkdir -p "$dir"
if [ ! -e "$dir/m.gguf" ]; then
    "$hone" convert "$checkpoint" -o "$dir/base.gguf" -q > /dev/null
    "$hone" quantize "$dir/base.gguf" -o "$dir/m.gguf" --recipe Q8_0 -q > /dev/null
fi
failed=0
asked="$*"
alone= # what keeps a part from every network but this machine
part() { # set "libraries to check" package==version...: libraries whose own requirements agree
    name=$1 libraries=$2
    shift 2
    case " $asked " in "  " | *" $name "*) ;; *) return 0 ;; esac
    if [ "$(cat "$dir/$name/pins" 2> /dev/null)" != "$*" ]; then
        rm -rf "${dir:?}/$name"
        python3 -m venv "$dir/$name"
        if ! "$dir/$name/bin/pip" install -q --disable-pip-version-check "$@" > "$dir/$name/log" 2>&1; then
            tail -n 3 "$dir/$name/log"
            echo "SKIP: $libraries cannot be installed here"
            return 0
        fi
        echo "$*" > "$dir/$name/pins"
    fi
    # shellcheck disable=SC2086
    $alone "$dir/$name/bin/python" "$here/run.py" "$hone" "$dir/m.gguf" $libraries || failed=1
}
part sdk "wire times openai anthropic ollama langchain pydantic_ai agents smolagents" openai==3.54.0 anthropic==2.12.0 ollama==0.6.3 \
    langchain-openai==1.7.3 langchain-anthropic==1.7.7 'pydantic-ai-slim[openai,anthropic]==2.66.0' openai-agents==0.24.0 \
    'smolagents[openai]==1.26.0'
part litellm "litellm instructor" litellm==1.106.2 instructor==1.17.0 mcp==2.3.0
part llama_index "llama_index" llama-index-core==0.14.25 llama-index-llms-openai-like==0.8.1
part haystack "haystack" haystack-ai==3.4.0
part semantic_kernel "semantic_kernel" semantic-kernel==1.45.0
part more "chat_ollama outlines llm" langchain-ollama==1.1.0 outlines==1.3.3 openai==3.54.0 llm==0.36
part ag2 "ag2" 'ag2[openai]==1.2.1'
part dspy "dspy" dspy==3.4.1
part aider "aider" aider-chat==0.86.2
part langgraph "langgraph" langchain==1.4.7 langgraph==1.2.22 langchain-openai==1.7.3
part autogen "autogen" autogen-agentchat==0.7.5 'autogen-ext[openai]==0.7.5'
part agno "agno" agno==3.1.10 openai==3.54.0
part strands "strands" 'strands-agents[openai,anthropic]==1.62.0'
part crewai "crewai" crewai==1.15.30
part adk "adk" google-adk==2.13.0 litellm==1.106.2 mcp==2.3.0
# whole programs, which would ask their makers' servers too
if unshare -rn ip link set lo up 2> /dev/null; then
    alone="unshare -rn sh $here/alone.sh"
    part programs "claude_code codex" claude-agent-sdk==0.2.187 openai-codex==0.163.0
else
    echo "SKIP: claude_code codex: programs cannot be kept from the network here"
fi
exit $failed
