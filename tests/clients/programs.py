# SPDX-License-Identifier: MIT
"""Claude Code and Codex themselves, as bundled in packages from PyPI, without an account: a question, and a follow-up question.
run.sh lets them reach only this machine."""
import json
import os
import subprocess
import sys
import tempfile

from common import need
from kits import OSLO


def package(name, *path):
    """The path of a file in a package of this environment."""
    found = subprocess.run([sys.executable, "-c", f"import {name}; print({name}.__path__[0])"], capture_output=True, text=True, check=True)
    return os.path.join(found.stdout.strip(), *path)


def lines(command, home, **env):
    """The output of a program, which is one JSON value per line."""
    p = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
                       env={**os.environ, "HOME": home, **env})
    need(p.returncode == 0, f"{p.returncode}: {p.stdout[-800:]}{p.stderr[-800:]}")
    return [json.loads(x) for x in p.stdout.splitlines() if x.startswith("{")]


def check_claude_code(url):
    program = package("claude_agent_sdk", "_bundled", "claude")
    env = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
           "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "400"}
    with tempfile.TemporaryDirectory() as home:
        common = ["--model", "m", "--max-turns", "3", "--output-format", "stream-json", "--verbose", "--tools", ""]
        for more in ([], ["--continue"]):
            end = lines([program, *more, "-p", OSLO, *common], home, **env)[-1]
            need(end["type"] == "result" and not end["is_error"] and end["usage"]["output_tokens"] > 0, f"{end}")


def check_codex(url):
    program = package("codex_cli_bin", "bin", "codex")
    with tempfile.TemporaryDirectory() as home:
        os.mkdir(home + "/.codex")
        with open(home + "/.codex/config.toml", "w", encoding="utf-8") as f:
            f.write(f'model = "m"\nmodel_provider = "hone"\n[model_providers.hone]\nname = "hone"\nbase_url = "{url}/v1"\nwire_api = "responses"\n')
        ask = ["--skip-git-repo-check", "--json"]
        for command in (["exec", *ask, "--sandbox", "read-only", OSLO], ["exec", "resume", "--last", *ask, OSLO]):
            seen = lines([program, *command], home, CODEX_HOME=home + "/.codex")
            need(seen[-1]["type"] == "turn.completed" and seen[-1]["usage"]["output_tokens"] > 0, f"{seen[-2:]}")


for check in (check_claude_code, check_codex):
    check.template = "last.jinja"
