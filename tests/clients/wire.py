# SPDX-License-Identifier: MIT
"""Requests like those of programs that are not Python libraries: Claude Code, Codex, the AI SDK, Open WebUI, Continue, Cline,
Ollama's command line. They are sent with http.client; the answers must contain what these programs read."""
import http.client
import json
import socket
import threading
import time
import urllib.parse

from common import ASK, TOOLS, need, same

FLAT = {"type": "function", "name": "get_weather", "strict": False, "description": "The weather of a city.",
        "parameters": TOOLS[0]["function"]["parameters"]}


def send(url, method, path, body=None, **headers):
    """Sends a request; returns the status, headers and body of the answer."""
    at = urllib.parse.urlsplit(url)
    c = http.client.HTTPConnection(at.hostname, at.port, timeout=60)
    text = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
    fields = {k.replace("_", "-"): v for k, v in headers.items()}
    if text is not None:
        fields.setdefault("content-type", "application/json")
    c.request(method, path, text, fields)
    r = c.getresponse()
    got = (r.status, r.headers, r.read().decode())
    c.close()
    return got


def ok(url, method, path, body=None, **headers):
    status, _, text = send(url, method, path, body, **headers)
    same(status, 200, f"{method} {path}: {text[:300]}")
    return text


def events(text):
    """(event, parsed data) of each event of a stream."""
    out = []
    for part in text.split("\n\n"):
        lines = dict(x.split(": ", 1) for x in part.split("\n") if ": " in x and not x.startswith(":"))
        if "data" in lines and lines["data"] != "[DONE]":
            out.append((lines.get("event"), json.loads(lines["data"])))
    return out


def check_wire_claude_code(url):
    """Requests of Claude Code: a first line that changes, cache marks, thinking sent back, results with images, betas
    in the path."""
    head = dict(anthropic_version="2023-06-01", x_app="cli", authorization="Bearer none", user_agent="claude-cli/2.1.0 (external, cli)",
                anthropic_beta="claude-code-20250219,interleaved-thinking-2025-05-14,fine-grained-tool-streaming-2025-05-14")
    mark = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    tool = {"name": "get_weather", "description": "The weather of a city.", "eager_input_streaming": True, **mark, "input_schema": {
        "$schema": "http://json-schema.org/draft-07/schema#", "additionalProperties": False, **TOOLS[0]["function"]["parameters"]}}
    system = [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.0.abc; cc_entrypoint=cli; cch=11111;"},
              {"type": "text", "text": "You are a tool for programmers.", **mark}]
    first = {"role": "user", "content": [{"type": "text", "text": "<system-reminder>\nBe brief.\n</system-reminder>"},
                                         {"type": "text", "text": ASK[0]["content"], **mark}]}
    body = {"model": "claude-sonnet-4-5-20250929", "max_tokens": 100, "stream": True, "temperature": 0, "system": system, "tools": [tool, {
        "type": "web_search_20250305", "name": "web_search", "max_uses": 8}], "messages": [first], "metadata": {"user_id": "u"},
        "thinking": {"type": "enabled", "budget_tokens": 80}, "output_config": {"effort": "medium"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}
    seen = events(ok(url, "POST", "/v1/messages?beta=true", body, **head))
    need(all(kind == data["type"] for kind, data in seen), "event names")
    same(seen[0][1]["message"]["model"], body["model"], "model")
    start = [d["content_block"] for k, d in seen if k == "content_block_start"]
    same([b["type"] for b in start], ["thinking", "tool_use"], "blocks")
    delta = lambda kind, member: "".join(d["delta"][member] for k, d in seen if k == "content_block_delta" and d["delta"]["type"] == kind)
    last = [d for k, d in seen if k == "message_delta"][0]
    same(last["delta"]["stop_reason"], "tool_use", "stop_reason")
    need({"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"} <= set(last["usage"]), f"usage: {last}")
    answer = {"role": "assistant", "content": [
        {"type": "thinking", "thinking": delta("thinking_delta", "thinking"), "signature": delta("signature_delta", "signature")},
        {"type": "redacted_thinking", "data": "eA=="},
        {"type": "tool_use", "id": start[1]["id"], "name": start[1]["name"], "input": json.loads(delta("input_json_delta", "partial_json"))}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": start[1]["id"], "is_error": True, **mark, "content": [
        {"type": "text", "text": "no \ud83d network"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}]},
        {"type": "text", "text": "Again, please."}]}
    system = [{**system[0], "text": system[0]["text"].replace("11111", "22222")}, system[1]]
    again = {**body, "system": system, "messages": [first, answer, result], "max_tokens": 8}
    seen = events(ok(url, "POST", "/v1/messages?beta=true", again, **head))
    use = seen[0][1]["message"]["usage"]
    need(use["cache_read_input_tokens"] > 100, f"the second turn finds nothing of the first: {use}")
    count = json.loads(ok(url, "POST", "/v1/messages/count_tokens?beta=true",
                          {k: again[k] for k in ("model", "system", "messages", "tools", "thinking")}, **head))["input_tokens"]
    total = use["input_tokens"] + use["cache_read_input_tokens"] + use["cache_creation_input_tokens"]
    need(abs(count - total) <= 40, f"count_tokens says {count}, the request had {total}")
    ok(url, "POST", "/v1/messages?beta=true", {"model": "claude-haiku-4-5-20251001", "max_tokens": 1, "temperature": 0,
                                               "messages": [{"role": "user", "content": "quota"}], "metadata": {"user_id": "u"}}, **head)
    for choice in ({"type": "auto"}, {"type": "any"}, {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True}, {"type": "none"}):
        ok(url, "POST", "/v1/messages", {**body, "stream": False, "max_tokens": 4, "tool_choice": choice}, **head)
    same(send(url, "HEAD", "/", **head)[0], 200, "HEAD /")
    need("claude" not in ok(url, "GET", "/v1/models?limit=1000", **head), "models")
    # a key in either place is accepted, and header values of a different version are no error
    status, fields, text = send(url, "POST", "/v1/messages", {"model": "m", "messages": []}, **head)
    need(status == 400 and json.loads(text)["error"]["type"] == "invalid_request_error" and fields["x-request-id"], f"{status} {text}")


def check_wire_codex(url):
    """Requests of Codex: developer messages, wrapped reasoning, its grammar for patches, results as parts."""
    patch = "start: begin hunk+ end\nbegin: \"*** Begin Patch\" LF\nend: \"*** End Patch\" LF?\nhunk: \"*** Add File: \" /[a-z.]{1,9}/ LF (\"+\" /[a-z]{0,5}/ LF)~1..2\n%import common.LF\n"
    tools = [FLAT, {"type": "custom", "name": "apply_patch", "description": "Edits files.", "format": {
        "type": "grammar", "syntax": "lark", "definition": patch}}, {"type": "web_search", "external_web_access": False},
        {"type": "local_shell"}, {"type": "image_generation", "output_format": "png"}]
    say = lambda role, text: {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}
    items = [say("developer", "<permissions instructions>none</permissions instructions>"), say("user", "<environment_context>\n</environment_context>"),
             say("user", ASK[0]["content"])]
    body = {"model": "gpt-5-codex", "instructions": "You are a coding agent.", "input": items, "tools": tools, "tool_choice": "auto",
            "parallel_tool_calls": True, "reasoning": {"effort": "medium", "summary": "auto"}, "store": False, "stream": True,
            "include": ["reasoning.encrypted_content"], "prompt_cache_key": "0198-a", "text": {"verbosity": "medium"},
            "client_metadata": {"x-codex-installation-id": "1"}, "service_tier": None}
    head = dict(authorization="Bearer none", originator="codex_cli_rs", session_id="0198-a", accept="text/event-stream", version="0.60.0")
    seen = events(ok(url, "POST", "/v1/responses", {**body, "tool_choice": {"type": "custom", "name": "apply_patch"}}, **head))
    need(all(kind == data["type"] for kind, data in seen), "event names")
    same([d["sequence_number"] for _, d in seen], list(range(len(seen))), "numbers")
    same((seen[0][0], seen[-1][0]), ("response.created", "response.completed"), "first and last")
    need(seen[-1][1]["response"]["usage"]["input_tokens_details"].keys() >= {"cached_tokens"} and seen[-1][1]["response"]["id"], "completed")
    done = [d["item"] for k, d in seen if k == "response.output_item.done"]
    same([x["type"] for x in done][-1], "custom_tool_call", "items")
    need(done[-1]["input"].startswith("*** Begin Patch\n") and "*** End Patch" in done[-1]["input"], f"{done[-1]}")
    if done[0]["type"] == "reasoning":
        need(done[0]["encrypted_content"] and isinstance(done[0]["summary"], list), "wrapped reasoning")
    back = items + [{k: v for k, v in x.items() if k not in ("status",)} | ({"content": None} if x["type"] == "reasoning" else {}) for x in done]
    back += [{"type": "custom_tool_call_output", "call_id": done[-1]["call_id"], "output": [
        {"type": "input_text", "text": "Done."}, {"type": "input_image", "image_url": "data:image/png;base64,AA=="}]},
        {"type": "ghost_snapshot", "ghost_commit": {"id": "x"}}, {"type": "compaction_summary", "encrypted_content": "x"},
        {"type": "local_shell_call", "call_id": "l", "status": "completed", "action": {"type": "exec", "command": ["ls"]}}]
    seen = events(ok(url, "POST", "/v1/responses", {**body, "input": back, "max_output_tokens": 8}, **head))
    need(seen[-1][1]["response"]["usage"]["input_tokens_details"]["cached_tokens"] > 50, "the second turn finds nothing of the first")
    ok(url, "GET", "/v1/models?client_version=0.60.0", **head)
    status, _, text = send(url, "POST", "/v1/responses", {**body, "stream": False, "previous_response_id": "resp_1"}, **head)
    need(status == 400 and "previous_response" in text, f"{status} {text}")


def check_wire_chat(url):
    """Chat requests of the AI SDK, Open WebUI, Continue and Cline: parts, nulls, their own members, tool results
    without names."""
    path = "/v1/chat/completions"
    call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\":\"Oslo\"}"}}
    loop = [{"role": "system", "content": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]},
            {"role": "user", "content": [{"type": "text", "text": ASK[0]["content"]}]},
            {"role": "assistant", "content": None, "tool_calls": [call], "refusal": None, "audio": None, "annotations": []},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "12"}]},
            {"role": "assistant", "content": "", "reasoning_content": "Enough.", "tool_calls": []}, {"role": "user", "content": "And?"}]
    more = {"model": "m", "max_tokens": 6, "tools": TOOLS}
    ok(url, "POST", path, {**more, "messages": loop, "tool_choice": "auto", "temperature": None, "stop": None, "user": None, "n": None})
    text = ok(url, "POST", path, {**more, "messages": ASK, "stream": True, "stream_options": {"include_usage": True}, "max_completion_tokens": 6,
                                  "reasoning_effort": "low", "parallel_tool_calls": True, "chat_id": "x", "session_id": "y", "files": [], "features": {}, "variables": {},
                                  "background_tasks": {"title_generation": True}, "metadata": {"chat_id": "x"}}, accept="*/*", user_agent="ai-sdk/5")
    need(text.rstrip().endswith("data: [DONE]"), "end of the stream")
    chunks = [d for _, d in events(text)]
    need(chunks[-1]["choices"] == [] and chunks[-1]["usage"]["total_tokens"] > 0 and chunks[-2]["choices"][0]["finish_reason"], f"{chunks[-2:]}")
    ok(url, "POST", path, {**more, "messages": ASK, "tools": [], "tool_choice": "none", "response_format": {"type": "text"}})
    ok(url, "POST", path, {**more, "messages": ASK, "tools": None, "tool_choice": None, "functions": None, "response_format": None, "logit_bias": {}})
    odd = {"type": "function", "function": {"name": "odd", "parameters": {"type": "object", "properties": {
        "when": {"type": "string", "pattern": "^(?=x)\\d+$", "format": "whatever"}, "x": {"type": ["string", "null"]}, "any": {}, "n": {"type": "integer", "format": "int64"},
        "u": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/T"}], "default": None}}, "$defs": {"T": {"type": "array"}}}}}
    ok(url, "POST", path, {**more, "messages": ASK, "tools": TOOLS + [odd, {"type": "function", "function": {"name": "none"}}], "stream": True})
    out = json.loads(ok(url, "POST", path, {"messages": ASK, "max_tokens": 400, "response_format": {"type": "json_schema", "json_schema": {
        "name": "response", "strict": True, "schema": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {
            "a": {"type": "string", "enum": ["x"]}}, "required": ["a"], "additionalProperties": False}}}}))
    same(json.loads(out["choices"][0]["message"]["content"]), {"a": "x"}, "json_schema")
    for body, word in (({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]}, "image_url"),
                       ({"messages": "hi"}, "messages"), ({"messages": [{"role": "bot", "content": "x"}]}, "role"),
                       ({"messages": ASK, "tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "no"}}}, "tool_choice")):
        status, _, text = send(url, "POST", path, body)
        need(status == 400 and word in text, f"{body}: {status} {text}")
    same(send(url, "POST", path, "{\"messages\": [")[0], 400, "half a body")
    for kind in ("text/plain", "application/octet-stream"): # from a program; a page of the same origin must declare its type
        same(send(url, "POST", path, {"messages": ASK, "max_tokens": 1}, content_type=kind)[0], 200, kind)
        same(send(url, "POST", path, {"messages": ASK, "max_tokens": 1}, content_type=kind, origin=url)[0], 415, kind + " of a page")
    same(send(url, "POST", path, {"messages": ASK, "max_tokens": 1}, content_type="multipart/form-data")[0], 415, "another type")
    same(send(url, "POST", path, {"messages": ASK, "max_tokens": 1}, content_type="application/json; charset=utf-8")[0], 200, "a charset")
    # completion of code, as editors ask for it
    stops = ["<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "/src/", "#- coding: utf-8", "```", "\n\n"]
    ok(url, "POST", "/v1/completions", {"model": "m", "prompt": "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>", "max_tokens": 8, "stop": stops, "stream": True})


def check_wire_ollama(url):
    """Requests of Ollama's command line and of the editors that use its API."""
    same(ok(url, "GET", "/"), "Ollama is running", "GET /")
    same(send(url, "HEAD", "/")[0], 200, "HEAD /")
    need("version" in json.loads(ok(url, "GET", "/api/version")), "version")
    same(len(json.loads(ok(url, "GET", "/api/tags"))["models"]), 1, "tags")
    same(len(json.loads(ok(url, "GET", "/api/ps"))["models"]), 1, "ps")
    for name in ({"model": "m"}, {"name": "m"}, {"model": "m:latest"}, {"model": "m", "verbose": True}):
        show = json.loads(ok(url, "POST", "/api/show", name))
        need({"details", "model_info", "capabilities", "template"} <= set(show), f"show: {list(show)}")
    lines = lambda text: [json.loads(x) for x in text.splitlines()]
    load = lines(ok(url, "POST", "/api/generate", {"model": "m", "keep_alive": "5m"}))
    need(load[-1]["done"] and load[-1]["done_reason"] == "load", f"load: {load}")
    stop = lines(ok(url, "POST", "/api/generate", {"model": "m", "keep_alive": 0}))
    same(stop[-1]["done_reason"], "unload", "unload")
    raw = lines(ok(url, "POST", "/api/generate", {"model": "m", "prompt": "<|fim_prefix|>x", "raw": True, "suffix": "", "context": [], "images": [], "keep_alive": 1800,
                                                  "stream": True, "options": {"num_predict": 4, "temperature": 0, "num_ctx": 8192, "stop": ["\n\n"], "num_gpu": 99,
                                                                              "mirostat": 0, "low_vram": False, "f16_kv": True}}))
    need(raw[-1]["done"] and raw[-1]["eval_count"] == 4 and all("response" in x for x in raw), f"raw: {raw}")
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False}
    made = lines(ok(url, "POST", "/api/generate", {"model": "m", "prompt": "x", "format": schema, "think": False, "stream": False, "options": {"num_predict": 60}}))
    need(isinstance(json.loads(made[0]["response"])["a"], bool), f"format: {made}")
    chat = lines(ok(url, "POST", "/api/chat", {"model": "m:latest", "messages": ASK, "tools": TOOLS, "think": False, "format": "", "options": {"num_predict": 60, "temperature": 0}}))
    need(chat[-1]["done"] and all(x["message"]["role"] == "assistant" for x in chat), f"chat: {chat[-1]}")
    for body in ({"model": "m", "messages": [{"role": "user", "content": "x", "images": ["AA=="]}]}, {"model": "m", "messages": ASK, "template": "{{ .Prompt }}"}):
        status, _, text = send(url, "POST", "/api/chat", body)
        need(status == 400 and json.loads(text).keys() == {"error"}, f"{status} {text}")
    for path in ("/api/pull", "/api/push", "/api/create", "/api/embed"):
        status, _, text = send(url, "POST", path, {"model": "m"})
        need(status == 501 and json.loads(text)["error"], f"{path}: {status} {text}")


class Line:
    """A connection that sends given bytes and records what arrives and when."""
    def __init__(self, url):
        at = urllib.parse.urlsplit(url)
        self.s = socket.create_connection((at.hostname, at.port), timeout=120)

    def send(self, head, body=b""):
        self.s.sendall(head.encode() + body)
        self.t = time.time()
        return self

    def post(self, path, body):
        b = json.dumps(body).encode()
        return self.send(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(b)}\r\n\r\n", b)

    def after(self, least, most, word):
        """Requires data with this word after this many seconds from the last send; "": the end of the connection."""
        try:
            got = self.s.recv(9999).decode()
        except ConnectionResetError:
            got = ""
        passed = time.time() - self.t
        need(least <= passed <= most and (word in got if word else not got), f"{word}: {passed:.1f} s: {got[:200]}")
        return got


def check_times(url):
    """Each time limit takes effect when it should and not earlier; a client that waits in a queue for long gets
    keep-alive data that its library can read."""
    failed = []

    def head():
        Line(url).send("GET /health HTTP/1.1\r\nHost: loc").after(9, 14, " 408 ")

    def body():
        Line(url).send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{").after(9, 14, " 408 ")

    def idle():
        line = Line(url).send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        line.after(0, 20, " 200 ")
        line.after(70, 85, "")

    def reader(): # four answers of 1.5 MB that are never read
        line = Line(url)
        for _ in range(4):
            line.post("/tokenize", {"content": "word " * 200000})
        end = time.time() + 60
        try:
            while time.time() < end:
                time.sleep(1)
                line.s.sendall(b"G")
        except OSError:
            need(time.time() - line.t > 25, "a slow reader is cut off at once")
            return
        need(False, "a reader that stopped keeps its place")

    def queue():
        kept = [Line(url).post("/v1/completions", {"prompt": f"The {i}", "max_tokens": 15000, "ignore_eos": True, "temperature": 1}) for i in range(4)]
        time.sleep(0.5)
        ask = {"messages": ASK, "max_tokens": 2, "stream": True}
        waits = [(Line(url).post(path, ask), kind, ping) for path, kind, ping in (
            ("/v1/chat/completions", "text/event-stream", ": ping\n\n"), ("/v1/messages", "text/event-stream", ": ping\n\n"),
            ("/api/chat", "application/x-ndjson", '{"message":'))]
        whole = Line(url).post("/v1/chat/completions", {"messages": ASK, "max_tokens": 2})
        for line, kind, ping in waits:
            got = line.after(9, 14, ping)
            need(f"content-type: {kind}" in got, got)
        for k in kept[1:]:
            k.s.close()
        for line, kind, _ in waits: # their turn has come: the answer is of the kind that was begun
            text = ""
            while not text.endswith("0\r\n\r\n"):
                text += line.s.recv(9999).decode()
            need("HTTP/1.1" not in text and ("data: " in text or '"done":true' in text), text[:300])
        whole.after(0, 60, " 200 ")
        kept[0].s.close()

    def run(f):
        try:
            f()
        except AssertionError as e:
            failed.append(f"{f.__name__}: {e}")
    threads = [threading.Thread(target=run, args=(f,)) for f in (head, body, idle, reader, queue)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    need(not failed, "; ".join(failed))
