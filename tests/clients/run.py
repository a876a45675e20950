#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/clients/run.py HONE MODEL.gguf LIBRARY...: client libraries against hone serve. Each check is a function
check_LIBRARY_WHAT(url); those of the given libraries are run. A check with a member `template` gets a server that uses this
template file."""
import json
import os
import subprocess
import sys
import time
import traceback

os.environ.update({ # nothing leaves this machine: no telemetry, no lists of prices
    "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False", "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false", "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1",
    "PYDANTIC_AI_UPDATE_CHECK": "0", "HAYSTACK_TELEMETRY_ENABLED": "False", "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false", "OTEL_SDK_DISABLED": "true"})

import common
import kits
import loops
import more
import programs
import sdk
import wire


def checks_of(library):
    return [(n, f) for part in (sdk, kits, more, loops, programs, wire) for n, f in vars(part).items()
            if n.startswith(f"check_{library}_") or n == f"check_{library}"]


class Server:
    def __init__(self, hone, model, *more):
        self.p = subprocess.Popen([hone, "serve", model, "--port", "0", "--ctx", str(common.CONTEXT), "--context-memory", "256MiB",
                                   "--alias", "m", "--log", "off", "--threads", "2", *more], stdout=subprocess.PIPE, text=True)
        self.url = json.loads(self.p.stdout.readline())["url"]

    def end(self):
        self.p.terminate()
        code = self.p.wait(40)
        if code:
            print(f"FAIL: the server ended with {code}")
        return code != 0


def main():
    hone, model, libraries = sys.argv[1], sys.argv[2], sys.argv[3:]
    servers = {None: Server(hone, model)}
    failed = 0
    for library in libraries:
        checks = checks_of(library)
        begin, bad = time.time(), failed
        failed += not checks
        for name, f in checks:
            template = getattr(f, "template", None)
            if template not in servers:
                servers[template] = Server(hone, model, "--template", os.path.join(os.path.dirname(os.path.abspath(__file__)), template))
            try:
                f(servers[template].url)
            except Exception:
                failed += 1
                print(f"FAIL: {name}")
                traceback.print_exc(limit=-4)
        print(f"{library}: {len(checks)} checks, {failed - bad} failed, {time.time() - begin:.1f} s", flush=True)
    failed += sum(s.end() for s in servers.values())
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
