# SPDX-License-Identifier: MIT
"""The libraries of OpenAI, Anthropic and Ollama. They parse answers strictly. The checks test that their different methods of
requesting give the same text, and that errors become their exceptions."""
import json
import re

from common import ASK, TOO_MANY, TOOLS, need, same

# ---- openai ----

def openai_client(url, **more):
    import openai
    return openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0, **more)


def check_openai_models(url):
    c = openai_client(url)
    ids = [m.id for m in c.models.list()]
    need(len(ids) == 1, f"models: {ids}")
    same(c.models.retrieve(ids[0]).id, ids[0], "a model by its id")


def check_openai_chat(url):
    c = openai_client(url)
    r = c.chat.completions.create(model="m", messages=ASK, tools=TOOLS, temperature=0, max_tokens=80)
    m = r.choices[0].message
    same(r.choices[0].finish_reason, "tool_calls", "finish_reason")
    same(m.tool_calls[0].function.name, "get_weather", "name")
    args = json.loads(m.tool_calls[0].function.arguments)
    same(args["city"], "Oslo", "city")
    need(r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens, "usage")
    # the stream contains the same message
    name, text, reasoning, finish, usage = "", "", "", None, None
    for chunk in c.chat.completions.create(model="m", messages=ASK, tools=TOOLS, temperature=0, max_tokens=80,
                                           stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            for call in choice.delta.tool_calls or []:
                need(call.index == 0, "index of the call")
                name += call.function.name or ""
                text += call.function.arguments or ""
            finish = choice.finish_reason or finish
    same((name, text, finish), ("get_weather", m.tool_calls[0].function.arguments, "tool_calls"), "stream")
    same(reasoning, m.reasoning_content, "reasoning")
    same(usage.completion_tokens, r.usage.completion_tokens, "usage of the stream")
    # send the answer back with a tool result
    loop = ASK + [m.model_dump(exclude_none=True),
                  {"role": "tool", "tool_call_id": m.tool_calls[0].id, "content": "{\"temp\": 12}"}]
    r2 = c.chat.completions.create(model="m", messages=loop, tools=TOOLS, temperature=0, max_tokens=40)
    need(r2.usage.prompt_tokens > r.usage.prompt_tokens, "the second turn is longer")
    need(r2.usage.prompt_tokens_details.cached_tokens >= r.usage.prompt_tokens - 16, "nothing was kept")


def check_openai_helper(url):
    c = openai_client(url)
    with c.chat.completions.stream(model="m", messages=ASK, tools=TOOLS, temperature=0, max_tokens=80) as s:
        for _ in s:
            pass
        m = s.get_final_completion().choices[0].message
    same(m.tool_calls[0].function.name, "get_weather", "accumulated call")


def check_openai_choices(url):
    c = openai_client(url)
    ask = dict(model="m", messages=[{"role": "user", "content": "Tell me something."}], temperature=1, seed=7,
               max_tokens=30)
    three = c.chat.completions.create(n=3, **ask)
    same([x.index for x in three.choices], [0, 1, 2], "indices")
    one = c.chat.completions.create(**ask)
    say = lambda x: (x.message.content, x.message.reasoning_content)
    same(say(one.choices[0]), say(three.choices[0]), "seed")
    same(one.system_fingerprint, three.system_fingerprint, "fingerprint")
    r = c.chat.completions.create(logprobs=True, top_logprobs=3, extra_body={"chat_template_kwargs":
                                                                               {"enable_thinking": False}}, **ask)
    rows = r.choices[0].logprobs.content
    need(all(len(x.top_logprobs) == 3 and x.logprob <= 0 for x in rows), "logprobs")
    need(all(x.top_logprobs[0].logprob >= x.top_logprobs[1].logprob for x in rows), "order of logprobs")
    text = b"".join(bytes(x.bytes) for x in rows).decode("utf-8", "replace")
    need(text.startswith((r.choices[0].message.content or "")[:10]), "bytes of logprobs")


def check_openai_text(url):
    c = openai_client(url)
    ask = dict(model="m", prompt="The cat", max_tokens=12, temperature=0)
    r = c.completions.create(**ask)
    streamed = "".join(x.choices[0].text for x in c.completions.create(stream=True, **ask))
    same(streamed, r.choices[0].text, "stream")
    e = c.completions.create(**{**ask, "max_tokens": 0, "echo": True, "logprobs": 2})
    lp = e.choices[0].logprobs
    need(lp.token_logprobs[0] is None and all(x < 0 for x in lp.token_logprobs[1:]), "echo with logprobs")
    same("".join(lp.tokens), "The cat", "tokens of the prompt")
    word = r.choices[0].text.split()[-1]
    stopped = c.completions.create(stop=[word], **ask)
    need(word not in stopped.choices[0].text and stopped.choices[0].finish_reason == "stop", "stop")
    two = c.completions.create(**{**ask, "prompt": ["The cat", "A dog"]})
    same((len(two.choices), two.choices[0].text), (2, r.choices[0].text), "two prompts")


def check_openai_forms(url):
    import pydantic
    from typing import Literal

    class Person(pydantic.BaseModel):
        name: Literal["Ada", "Bob"]
        age: int = pydantic.Field(ge=0, le=9)
    c = openai_client(url)
    for seed in range(3):
        r = c.chat.completions.parse(model="m", messages=ASK, response_format=Person, seed=seed, max_tokens=200)
        need(isinstance(r.choices[0].message.parsed, Person), "parse")
    r = c.responses.parse(model="m", input="A person.", text_format=Person, max_output_tokens=200)
    need(isinstance(r.output_parsed, Person), "responses.parse")
    r = c.chat.completions.create(model="m", messages=ASK, response_format={"type": "json_object"}, max_tokens=400, temperature=0)
    if r.choices[0].finish_reason == "stop":
        need(isinstance(json.loads(r.choices[0].message.content), dict), "json_object")
    r = c.chat.completions.create(model="m", messages=ASK, max_tokens=200, extra_body={"grammar": 'root ::= "no " [0-9]{2}'})
    need(re.fullmatch("no [0-9]{2}", r.choices[0].message.content.strip()), r.choices[0].message.content)


def check_openai_progress(url):
    """Members that are not part of OpenAI's API but that local servers accept."""
    c = openai_client(url)
    seen = []
    for chunk in c.chat.completions.create(model="m", messages=[{"role": "user", "content": "word " * 3000}], max_tokens=4, stream=True,
                                           extra_body={"return_progress": True, "timings_per_token": True, "cache_prompt": False}):
        extra = chunk.model_extra
        if "prompt_progress" in extra:
            seen.append(extra["prompt_progress"])
        elif chunk.choices and not chunk.choices[0].delta.role:
            need(extra["timings"]["prompt_n"] > 3000, "timings")
    done = [x["processed"] for x in seen]
    need(done == sorted(done) and done[-1] == seen[-1]["total"] and all(x["cache"] == 0 for x in seen), f"progress: {seen}")


def check_openai_tool_choice(url):
    c = openai_client(url)
    tools = TOOLS + [{"type": "function", "function": {"name": "wave", "parameters": {
        "type": "object", "properties": {"hand": {"enum": ["left", "right"]}, "n": {"type": "integer", "maximum": 9, "minimum": 0}},
        "required": ["hand", "n"], "additionalProperties": False}}}]
    for seed in range(3):
        r = c.chat.completions.create(model="m", messages=ASK, tools=tools, seed=seed, max_tokens=300, parallel_tool_calls=False,
                                      tool_choice={"type": "function", "function": {"name": "wave"}})
        same(r.choices[0].finish_reason, "tool_calls", "finish_reason")
        call = r.choices[0].message.tool_calls[0].function
        args = json.loads(call.arguments)
        need(call.name == "wave" and args["hand"] in ("left", "right") and 0 <= args["n"] <= 9, f"{call}")
        r = c.chat.completions.create(model="m", messages=[{"role": "user", "content": "Tell me a story."}], tools=tools,
                                      seed=seed, max_tokens=300, tool_choice="required")
        need(r.choices[0].message.tool_calls, "required")
        r = c.chat.completions.create(model="m", messages=ASK, tools=tools, seed=seed, max_tokens=300, tool_choice={
            "type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
                {"type": "function", "function": {"name": "wave"}}]}})
        same({x.function.name for x in r.choices[0].message.tool_calls}, {"wave"}, "allowed_tools")


def check_anthropic_tool_choice(url):
    c = anthropic_client(url)
    r = c.messages.create(model="m", max_tokens=300, messages=[{"role": "user", "content": "Hello."}], tools=ANTHROPIC_TOOLS,
                          tool_choice={"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True})
    same([b.name for b in r.content if b.type == "tool_use"], ["get_weather"], "tool")


def check_openai_errors(url):
    import openai
    c = openai_client(url)
    try:
        c.chat.completions.create(model="m", messages=[{"role": "user", "content": "word " * TOO_MANY}])
        need(False, "a prompt that is too long was taken")
    except openai.BadRequestError as e:
        same(e.code, "context_length_exceeded", "code")
    for bad in ({"temperature": -1}, {"n": 0}, {"messages": []}):
        try:
            c.chat.completions.create(**{"model": "m", "messages": ASK, **bad})
            need(False, f"{bad} was taken")
        except openai.BadRequestError as e:
            need(list(bad)[0] in e.message, f"{bad}: {e.message}")
    try:
        c.models.retrieve("none")
        need(False, "a model that is not there")
    except openai.NotFoundError:
        pass
    try:
        openai_client(url, timeout=0.2).completions.create(
            model="m", prompt="The", max_tokens=1900, extra_body={"ignore_eos": True})
        need(False, "no timeout")
    except openai.APITimeoutError:
        pass


def check_openai_responses(url):
    c = openai_client(url)
    flat = [{"type": "function", "strict": False, **TOOLS[0]["function"]}, {"type": "web_search"}]
    ask = dict(model="m", input=ASK[0]["content"], tools=flat, temperature=0, max_output_tokens=80,
               instructions=None, include=["reasoning.encrypted_content"])
    r = c.responses.create(**ask)
    same(r.status, "completed", "status")
    call = [x for x in r.output if x.type == "function_call"][0]
    same((call.name, json.loads(call.arguments)["city"]), ("get_weather", "Oslo"), "call")
    with c.responses.stream(**ask) as s: # its accumulator checks the order of events
        numbers = [e.sequence_number for e in s]
        final = s.get_final_response()
    same(numbers, sorted(set(numbers)), "numbers of events")
    strip = lambda x: [{k: v for k, v in i.model_dump(exclude_none=True).items() if k not in ("id", "call_id", "parsed_arguments")}
                       for i in x.output]
    same(strip(final), strip(r), "stream")
    same(final.usage.output_tokens, r.usage.output_tokens, "output tokens")
    items = [{"role": "user", "content": ask["input"]}] + [x.model_dump(exclude_none=True) for x in r.output] + [
        {"type": "function_call_output", "call_id": call.call_id, "output": "12"}]
    r2 = c.responses.create(**{**ask, "input": items})
    need(r2.usage.input_tokens > r.usage.input_tokens and r2.usage.input_tokens_details.cached_tokens > 0, "a second turn")
    short = c.responses.create(**{**ask, "max_output_tokens": 2})
    same((short.status, short.incomplete_details.reason), ("incomplete", "max_output_tokens"), "a cut answer")
    probs = dict(model="m", input="Say something.", temperature=0, max_output_tokens=40, reasoning={"effort": "none"}, top_logprobs=2,
                 include=["message.output_text.logprobs"])
    part = c.responses.create(**probs).output[-1].content[0]
    same("".join(x.token for x in part.logprobs), part.text, "texts of the tokens with their probabilities")
    need(all(len(x.top_logprobs) == 2 and x.top_logprobs[0].logprob >= x.logprob for x in part.logprobs), "order of probabilities")
    with c.responses.stream(**probs) as s:
        es = list(s)
    seen = [x.token for e in es if e.type == "response.output_text.delta" for x in e.logprobs]
    same(seen, [x.token for x in es[-1].response.output[-1].content[0].logprobs], "probabilities of a stream")
    same(seen, [x.token for x in part.logprobs], "probabilities, whole and in a stream")
    import openai
    try:
        c.responses.create(model="m", input=[{"type": "function_call_output", "call_id": "call_x", "output": "1"}])
        need(False, "a result without a call was taken")
    except openai.BadRequestError as e:
        need("call_x" in e.message, e.message)


def check_openai_custom(url):
    """Tools whose input is a text constrained by a grammar; the call is sent back with a result."""
    c = openai_client(url)
    forms = (("lark", 'start: "SELECT " COL (", " COL)~0..2 "\\n FROM \\"t\\\\\\""\nCOL: /[a-c"]{1,3}/\n',
              r'SELECT [a-c"]{1,3}(, [a-c"]{1,3}){0,2}\n FROM "t\\"'),
             ("lark", 'start: "*** Begin Patch" LF hunk+ "*** End Patch" LF?\nhunk: "*** Add File: " NAME LF ("+" LINE LF)~1..3\n'
                      'NAME: /[a-z]{1,8}\\.c/\nLINE: /[a-z "]{0,12}/\n%import common.LF\n',
              r'\*\*\* Begin Patch\n(\*\*\* Add File: [a-z]{1,8}\.c\n(\+[a-z "]{0,12}\n){1,3})+\*\*\* End Patch\n?'),
             ("regex", "[ab]{3}-[0-9]{2}", "[ab]{3}-[0-9]{2}"))
    for syntax, text, want in forms:
        grammar = {"syntax": syntax, "definition": text}
        more = dict(model="m", parallel_tool_calls=False, tool_choice="required", extra_body={"seed": 1})
        ask = dict(more, input="Go.", max_output_tokens=200, tools=[
            {"type": "custom", "name": "run", "format": {"type": "grammar", **grammar}}, {"type": "namespace", "name": "n", "tools": []}])
        whole = c.responses.create(**ask).output[-1]
        need(whole.type == "custom_tool_call" and re.fullmatch(want, whole.input), f"{syntax}: {whole}")
        with c.responses.stream(**ask) as s:
            events = list(s)
        deltas = "".join(x.delta for x in events if x.type == "response.custom_tool_call_input.delta")
        same((deltas, s.get_final_response().output[-1].input), (whole.input, whole.input), f"{syntax}: stream")
        again = c.responses.create(**{**ask, "tool_choice": "auto", "max_output_tokens": 4, "input": [
            {"role": "user", "content": "Go."}, whole.model_dump(exclude_none=True),
            {"type": "custom_tool_call_output", "call_id": whole.call_id, "output": "done"}]})
        need(again.usage.input_tokens > 0, "a second turn")
        tools = [{"type": "custom", "custom": {"name": "run", "format": {"type": "grammar", "grammar": grammar}}}]
        say = dict(more, messages=ASK, tools=tools, max_tokens=200)
        m = c.chat.completions.create(**say).choices[0].message
        need(re.fullmatch(want, m.tool_calls[0].custom.input), f"{syntax}: {m}")
        with c.chat.completions.stream(**{**say, "stream_options": {"include_usage": True}}) as s:
            parts = [x.chunk for x in s if x.type == "chunk"]
        text = "".join((k.model_extra or {}).get("custom", {}).get("input", "") for x in parts for y in x.choices for k in y.delta.tool_calls or [])
        same(text, m.tool_calls[0].custom.input, f"{syntax}: chat stream")
        loop = ASK + [m.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": m.tool_calls[0].id, "content": "done"}]
        need(c.chat.completions.create(model="m", messages=loop, tools=tools, max_tokens=4).usage.prompt_tokens > 0, "a second turn")


# ---- calls in pieces ----

NOTE = {"name": "note", "parameters": {"type": "object", "additionalProperties": False, "required": ["text", "rows", "at"], "properties": {
    "text": {"type": "string", "pattern": '^[a-z "\\\\/\n\u00e9\U0001F600]{60}$'},
    "rows": {"type": "array", "minItems": 4, "maxItems": 4, "items": {"type": "number", "minimum": 0, "maximum": 9}},
    "at": {"type": "object", "additionalProperties": False, "required": ["deep"], "properties": {"deep": {"enum": [True, None]}}}}}}
PIECES = 20 # of 60 characters and 20 more


def pieces_openai(url):
    """Arguments arrive in pieces while they are generated; joined, they equal those of the whole answer."""
    c = openai_client(url)
    ask = dict(model="m", messages=[{"role": "user", "content": "Note it."}], tools=[{"type": "function", "function": NOTE}], seed=3,
               tool_choice="required", parallel_tool_calls=False, max_tokens=900)
    whole = c.chat.completions.create(**ask).choices[0].message.tool_calls[0].function
    parts = [t.function.arguments for x in c.chat.completions.create(stream=True, **ask) for y in x.choices for t in y.delta.tool_calls or []]
    same(json.loads(whole.arguments).keys(), {"text", "rows", "at"}, "arguments")
    same("".join(parts), whole.arguments, "pieces of chat")
    need(len(parts) > PIECES, f"chat: {parts}")
    ask = dict(model="m", input="Note it.", tools=[{"type": "function", "strict": False, **NOTE}], tool_choice="required",
               parallel_tool_calls=False, max_output_tokens=900, extra_body={"seed": 3})
    whole = c.responses.create(**ask).output[-1]
    with c.responses.stream(**ask) as s:
        parts = [x for x in s if x.type.startswith("response.function_call_arguments")]
    deltas = [x.delta for x in parts[:-1]]
    same(("".join(deltas), parts[-1].arguments, s.get_final_response().output[-1].arguments), (whole.arguments,) * 3, "pieces of responses")
    need(len(deltas) > PIECES, f"responses: {deltas}")


def pieces_anthropic(url):
    c = anthropic_client(url)
    ask = dict(model="m", messages=[{"role": "user", "content": "Note it."}], max_tokens=900, extra_body={"seed": 3},
               tools=[{"name": "note", "input_schema": NOTE["parameters"]}],
               tool_choice={"type": "any", "disable_parallel_tool_use": True})
    whole = [b for b in c.messages.create(**ask).content if b.type == "tool_use"][0].input
    with c.messages.stream(**ask) as s:
        parts = [e.partial_json for e in s if e.type == "input_json"]
        final = [b for b in s.get_final_message().content if b.type == "tool_use"][0].input
    same((json.loads("".join(parts)), final), (whole, whole), "pieces of messages")
    need(len(parts) > PIECES, f"messages: {parts}")


def check_openai_pieces(url):
    pieces_openai(url)


def check_openai_json_pieces(url):
    pieces_openai(url)


def check_anthropic_pieces(url):
    pieces_anthropic(url)


def check_anthropic_json_pieces(url):
    pieces_anthropic(url)


def check_openai_json_custom(url):
    check_openai_custom(url)


check_openai_json_pieces.template = check_anthropic_json_pieces.template = check_openai_json_custom.template = "json.jinja"


# ---- anthropic ----

ANTHROPIC_TOOLS = [{"name": "get_weather", "description": "The weather of a city.",
                    "input_schema": TOOLS[0]["function"]["parameters"]}]


def anthropic_client(url, **more):
    import anthropic
    return anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, **more)


def check_anthropic_messages(url):
    c = anthropic_client(url)
    ask = dict(model="m", max_tokens=80, messages=ASK, tools=ANTHROPIC_TOOLS, extra_body={"temperature": 0})
    r = c.messages.create(**ask)
    same(r.stop_reason, "tool_use", "stop_reason")
    use = [b for b in r.content if b.type == "tool_use"][0]
    same((use.name, use.input["city"]), ("get_weather", "Oslo"), "call")
    with c.messages.stream(**ask) as s: # its accumulator checks the order of events
        for _ in s:
            pass
        final = s.get_final_message()
    strip = lambda m: [{k: v for k, v in b.model_dump(exclude_none=True).items() if k not in ("id", "parsed_output")} for b in m.content]
    same(strip(final), strip(r), "stream")
    same(final.stop_reason, r.stop_reason, "stop_reason of the stream")
    same(final.usage.output_tokens, r.usage.output_tokens, "output tokens")
    loop = ASK + [{"role": "assistant", "content": [b.model_dump(exclude_none=True) for b in r.content]},
                  {"role": "user", "content": [{"type": "text", "text": "And?"}, {
                      "type": "tool_result", "tool_use_id": use.id, "content": [{"type": "text", "text": "12"}]}]}]
    more = dict(model="m", messages=loop, tools=ANTHROPIC_TOOLS)
    r2 = c.messages.create(max_tokens=8, **more)
    total = r2.usage.input_tokens + r2.usage.cache_read_input_tokens
    same(c.messages.count_tokens(**more).input_tokens, total, "count_tokens")
    need(r2.usage.cache_read_input_tokens > 0, "nothing was kept")


def check_anthropic_thinking(url):
    c = anthropic_client(url)
    ask = dict(model="m", max_tokens=40, messages=ASK)
    on = c.messages.create(thinking={"type": "enabled", "budget_tokens": 1024}, **{**ask, "max_tokens": 1100})
    off = c.messages.create(thinking={"type": "disabled"}, **ask)
    same(on.content[0].type, "thinking", "first block")
    need(on.content[0].signature, "signature")
    need(all(b.type != "thinking" for b in off.content), "thinking was off")


def check_anthropic_text(url):
    c = anthropic_client(url)
    ask = dict(model="m", max_tokens=30, thinking={"type": "disabled"}, extra_body={"temperature": 0})
    hello = [{"role": "user", "content": "Say something."}]
    r = c.messages.create(system=[{"type": "text", "text": "Be brief."}], messages=hello, **ask)
    if r.content and r.content[0].type == "text":
        words = r.content[0].text.split()
        if len(words) > 2:
            s = c.messages.create(system="Be brief.", messages=hello, stop_sequences=[words[2]], **ask)
            same((s.stop_reason, s.stop_sequence), ("stop_sequence", words[2]), "stop")
    p = c.messages.create(messages=hello + [{"role": "assistant", "content": "The cat"}], **ask)
    need(p.usage.output_tokens > 0, "an answer that was begun")


def check_anthropic_billing(url):
    c = anthropic_client(url)
    n = [c.messages.count_tokens(model="m", messages=ASK, system=[
        {"type": "text", "text": f"x-anthropic-billing-header: cch={k};"}, {"type": "text", "text": "Be brief."}]).input_tokens
        for k in ("1", "another-one")]
    same(n[0], n[1], "a line that differs with each request")


def check_anthropic_errors(url):
    import anthropic
    c = anthropic_client(url)
    try:
        c.messages.create(model="m", max_tokens=8, messages=[{"role": "user", "content": "word " * TOO_MANY}])
        need(False, "a prompt that is too long was taken")
    except anthropic.BadRequestError as e:
        need("prompt is too long: " in str(e) and " maximum" in str(e), str(e))
    try:
        c.messages.create(model="m", max_tokens=8, messages=[{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_x", "content": "1"}]}])
        need(False, "a result without a call was taken")
    except anthropic.BadRequestError as e:
        need("toolu_x" in str(e), str(e))
    ids = [m.id for m in c.models.list()]
    need(len(ids) == 1, f"models: {ids}")


# ---- ollama ----

def check_ollama(url):
    import ollama
    c = ollama.Client(host=url)
    same([m.model for m in c.list().models], ["m"], "list")
    need("tools" in c.show("m").capabilities, "capabilities")
    ask = dict(model="m", messages=ASK, tools=TOOLS, options={"temperature": 0, "num_predict": 80})
    r = c.chat(**ask)
    same((r.message.tool_calls[0].function.name, r.message.tool_calls[0].function.arguments["city"], r.done_reason),
         ("get_weather", "Oslo", "stop"), "chat")
    calls, thinking, last = [], "", None
    for part in c.chat(stream=True, **ask):
        calls += part.message.tool_calls or []
        thinking += part.message.thinking or ""
        last = part
    same((calls[0].function.arguments, thinking), (r.message.tool_calls[0].function.arguments, r.message.thinking), "stream")
    same(last.eval_count, r.eval_count, "eval_count")
    loop = ASK + [r.message, {"role": "tool", "tool_name": "get_weather", "content": "12"}]
    need(c.chat(**{**ask, "messages": loop}).prompt_eval_count > r.prompt_eval_count, "a second turn")
    need(not c.chat(think=False, **ask).message.thinking, "thinking was off")
    g = c.generate(model="m", prompt="The cat", raw=True, options={"temperature": 0, "num_predict": 12})
    text = "".join(x.response for x in c.generate(model="m", prompt="The cat", raw=True, stream=True,
                                                   options={"temperature": 0, "num_predict": 12}))
    same((g.response, g.done_reason), (text, "length"), "generate")
    schema = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"], "additionalProperties": False}
    need(json.loads(c.chat(**{**ask, "tools": None}, format=schema).message.content)["a"] in "xy", "format")
    try:
        c.generate(model="m", prompt="x", suffix="y")
        need(False, "a suffix was taken")
    except ollama.ResponseError as e:
        same(e.status_code, 400, "status")
