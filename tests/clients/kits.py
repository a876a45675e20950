# SPDX-License-Identifier: MIT
"""Libraries built on those of sdk.py: each with plain requests, streams, tools and structured output, as far as it has these.
The small model does not call tools reliably, so that schemas force the required answers: the checks are about the protocol, not
about the model."""
import json
import os
import subprocess
import sys
import tempfile
from typing import Literal

from common import ASK, TOOLS, need, same

OSLO = ASK[0]["content"]
QUIET = {"chat_template_kwargs": {"enable_thinking": False}} # else the small model may think until its tokens are spent


def person():
    import pydantic

    class Person(pydantic.BaseModel):
        """A person."""
        name: Literal["Ada", "Bob"]
        age: Literal[3, 5, 7] # a range would not do: Anthropic's library takes it out of the schema
    return Person


# ---- LangChain ----

def langchain_models(url, **more):
    from langchain_anthropic import ChatAnthropic
    from langchain_openai import ChatOpenAI
    common = dict(model="m", api_key="none", temperature=0, max_tokens=200, max_retries=0, **more)
    return (ChatOpenAI(base_url=url + "/v1", **common),
            ChatOpenAI(base_url=url + "/v1", use_responses_api=True, **common),
            ChatAnthropic(base_url=url, **common))


def check_langchain_chat(url):
    for m in langchain_models(url):
        r = m.invoke("Tell me something.")
        text = "".join(c.text for c in m.stream("Tell me something."))
        same(text, r.text, f"{type(m).__name__}: stream")
        need(r.usage_metadata["output_tokens"] > 0, "usage")


def check_langchain_tools(url):
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool

    @tool
    def get_weather(city: str, unit: str = "celsius") -> str:
        """The weather of a city."""
        return f"12 in {city}"
    for m in langchain_models(url):
        bound = m.bind_tools([get_weather], tool_choice="any")
        r = bound.invoke(OSLO)
        same([c["name"] for c in r.tool_calls], ["get_weather"] * len(r.tool_calls), "calls")
        need(r.tool_calls and isinstance(r.tool_calls[0]["args"]["city"], str), "arguments")
        whole = None
        for part in bound.stream(OSLO):
            whole = part if whole is None else whole + part
        same([c["args"] for c in whole.tool_calls], [c["args"] for c in r.tool_calls], "stream")
        results = [ToolMessage(get_weather.invoke(c["args"]), tool_call_id=c["id"]) for c in r.tool_calls]
        last = m.bind_tools([get_weather]).invoke([HumanMessage(OSLO), r] + results)
        need(last.usage_metadata["input_tokens"] > r.usage_metadata["input_tokens"], "a second turn")


def check_langchain_forms(url):
    Person = person()
    chat, responses, anthropic = langchain_models(url)
    for m, methods in ((chat, ("function_calling", "json_schema")), (responses, ("function_calling", "json_schema")),
                       (anthropic, ("function_calling", "json_schema"))):
        for method in methods:
            need(isinstance(m.with_structured_output(Person, method=method).invoke("A person."), Person),
                 f"{type(m).__name__}: {method}")
    raw = chat.with_structured_output(Person, method="json_mode", include_raw=True).invoke("A person in JSON.")["raw"]
    if raw.response_metadata["finish_reason"] == "stop":
        need(isinstance(json.loads(raw.content), dict), "json_mode")


def check_langchain_stop(url):
    m = langchain_models(url)[0]
    words = m.invoke("Tell me something.", extra_body=QUIET).text.split()
    need(len(words) > 3, f"too few words: {words}")
    need(words[2] not in m.invoke("Tell me something.", stop=[words[2]], extra_body=QUIET).text, "stop text of an agent that reasons aloud")


# ---- Pydantic AI ----

def pydantic_ai_models(url):
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider
    p = OpenAIProvider(base_url=url + "/v1", api_key="none")
    return (OpenAIChatModel("m", provider=p), OpenAIResponsesModel("m", provider=p),
            AnthropicModel("m", provider=AnthropicProvider(base_url=url, api_key="none")))


def check_pydantic_ai_tools(url):
    from pydantic_ai import Agent
    for m in pydantic_ai_models(url):
        asked = []
        agent = Agent(m, model_settings={"temperature": 0, "max_tokens": 200})

        @agent.tool_plain
        def get_weather(city: str, unit: str = "celsius") -> str:
            """The weather of a city."""
            asked.append(city)
            return f"12 degrees in {city}"
        first = agent.run_sync(OSLO)
        need("Oslo" in asked, f"{type(m).__name__}: asked {asked}")
        need(isinstance(first.output, str) and first.usage.requests > 1, "an answer behind the result")
        again = agent.run_sync("And in Rome?", message_history=first.all_messages())
        prompts = [x.usage.input_tokens for x in again.all_messages() if x.kind == "response"]
        need(prompts == sorted(set(prompts)) and len(prompts) >= 3, f"each turn is longer: {prompts}")


def check_pydantic_ai_forms(url):
    from pydantic_ai import Agent, NativeOutput, ToolOutput
    Person = person()
    for m in pydantic_ai_models(url)[:2]:
        for how in (ToolOutput, NativeOutput):
            agent = Agent(m, output_type=how(Person), model_settings={"temperature": 1, "seed": 3, "max_tokens": 400})
            need(isinstance(agent.run_sync("A person.").output, Person), f"{type(m).__name__}: {how.__name__}")


def check_pydantic_ai_stream(url):
    import asyncio
    from pydantic_ai import Agent
    m = pydantic_ai_models(url)[0]
    agent = Agent(m, model_settings={"temperature": 0, "max_tokens": 200})

    async def say():
        async with agent.run_stream("Tell me something.") as s:
            return "".join([x async for x in s.stream_text(delta=True)])

    async def whole():
        return (await agent.run("Tell me something.")).output
    # each event loop needs its own client
    text = asyncio.run(say())
    m = pydantic_ai_models(url)[0]
    agent = Agent(m, model_settings={"temperature": 0, "max_tokens": 200})
    same(asyncio.run(whole()), text, "stream")


# ---- OpenAI Agents SDK ----

def agents_models(url):
    import agents
    import openai
    agents.set_tracing_disabled(True)
    c = openai.AsyncOpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    return (agents.OpenAIChatCompletionsModel(model="m", openai_client=c), agents.OpenAIResponsesModel(model="m", openai_client=c))


def agents_weather(asked):
    from agents import function_tool

    @function_tool
    def get_weather(city: Literal["Oslo", "Rome"]) -> str:
        """The weather of a city."""
        asked.append(city)
        return f"12 degrees in {city}"
    return get_weather


def check_agents_tools(url):
    import asyncio
    from agents import Agent, ModelSettings, Runner

    async def ask():
        for m in agents_models(url):
            asked = []
            a = Agent(name="a", model=m, tools=[agents_weather(asked)], model_settings=ModelSettings(temperature=0, max_tokens=200))
            r = await Runner.run(a, OSLO)
            need("Oslo" in asked and isinstance(r.final_output, str), f"{type(m).__name__}: asked {asked}")
            more = await Runner.run(a, r.to_input_list() + [{"role": "user", "content": "And in Rome?"}])
            need(more.context_wrapper.usage.input_tokens > r.context_wrapper.usage.input_tokens / 2, "a third turn")
            s = Runner.run_streamed(a, OSLO)
            kinds = [e.type async for e in s.stream_events()]
            need("raw_response_event" in kinds and "run_item_stream_event" in kinds, f"events: {set(kinds)}")
            same(s.final_output, r.final_output, "stream")
    asyncio.run(ask())


def check_agents_forms(url):
    """Structured output together with tools: the model may call a tool or answer."""
    import asyncio
    from agents import Agent, MaxTurnsExceeded, ModelSettings, Runner
    Person = person()

    async def ask():
        for m in agents_models(url):
            for tools in ([], [agents_weather([])]):
                answers = []
                for seed in range(6):
                    a = Agent(name="a", model=m, tools=tools, output_type=Person, model_settings=ModelSettings(
                        temperature=10, max_tokens=400, extra_body={"seed": seed, **QUIET}))
                    try:
                        answers.append((await Runner.run(a, "A person.", max_turns=2)).final_output)
                    except MaxTurnsExceeded: # it kept calling, which is allowed
                        need(tools, "calls without tools")
                need(answers and all(isinstance(x, Person) for x in answers), f"{type(m).__name__}: {answers}")
    asyncio.run(ask())


# ---- smolagents ----

def smolagents_parts(url, asked):
    from smolagents import OpenAIModel, Tool

    class Weather(Tool):
        name, description, output_type = "get_weather", "The weather of a city.", "string"
        inputs = {"city": {"type": "string", "description": "The city.", "enum": ["Oslo", "Rome"]}}

        def forward(self, city):
            asked.append(city)
            return "12"

    class Answer(Tool):
        name, description, output_type = "final_answer", "The answer.", "string"
        inputs = {"answer": {"type": "string", "description": "The answer.", "enum": ["cold", "warm"]}}

        def forward(self, answer):
            return answer
    model = OpenAIModel(model_id="m", api_base=url + "/v1", api_key="none", temperature=0, max_tokens=200, extra_body=QUIET)
    return model, [Weather(), Answer()]


def check_smolagents_model(url):
    model, _ = smolagents_parts(url, [])
    say = [{"role": "user", "content": [{"type": "text", "text": "Tell me something."}]}]
    r = model.generate(say)
    text = "".join(d.content or "" for d in model.generate_stream(say))
    same(text, r.content or "", "stream")
    form = {"type": "json_schema", "json_schema": {"name": "p", "strict": True, "schema": person().model_json_schema() | {
        "additionalProperties": False}}}
    need(json.loads(model.generate(say, response_format=form).content)["name"] in ("Ada", "Bob"), "response_format")


def check_smolagents_agent(url):
    """Up to three steps, each a call that the library requires (tool_choice required), until the answer."""
    from smolagents import ToolCallingAgent
    for stream in (False, True):
        asked = []
        model, tools = smolagents_parts(url, asked)
        agent = ToolCallingAgent(tools=tools, model=model, max_steps=3, stream_outputs=stream, verbosity_level=0)
        steps = [s for s in agent.run(OSLO, stream=True) if type(s).__name__ == "ActionStep"]
        calls = [s.model_output_message.tool_calls for s in steps[:3]]
        need(calls and all(calls), f"steps without a call: {calls}, {[s.error for s in steps]}")


# ---- LiteLLM ----

def check_litellm_chat(url):
    import litellm
    litellm.suppress_debug_info = True
    for model, base in (("openai/m", url + "/v1"), ("anthropic/m", url)):
        ask = dict(model=model, api_base=base, api_key="none", temperature=0, max_tokens=120)
        r = litellm.completion(messages=ASK, tools=TOOLS, **ask)
        call = r.choices[0].message.tool_calls[0]
        same((call.function.name, json.loads(call.function.arguments)["city"]), ("get_weather", "Oslo"), model)
        parts = list(litellm.completion(messages=ASK, tools=TOOLS, stream=True, **ask))
        whole = litellm.stream_chunk_builder(parts, messages=ASK)
        built = whole.choices[0].message.tool_calls[0]
        same(json.loads(built.function.arguments), json.loads(call.function.arguments), f"{model}: stream")
        thought = "".join(getattr(c.choices[0].delta, "reasoning_content", None) or "" for c in parts if c.choices)
        same(thought, r.choices[0].message.reasoning_content or "", f"{model}: thinking of the stream")
        loop = ASK + [r.choices[0].message.model_dump(exclude_none=True),
                      {"role": "tool", "tool_call_id": call.id, "name": "get_weather", "content": "12"}]
        need(litellm.completion(messages=loop, tools=TOOLS, **ask).usage.prompt_tokens > r.usage.prompt_tokens, "a second turn")


def check_litellm_forms(url):
    import litellm
    Person = person()
    r = litellm.completion(model="openai/m", api_base=url + "/v1", api_key="none", messages=ASK, response_format=Person,
                           max_tokens=400)
    Person.model_validate_json(r.choices[0].message.content)
    try:
        litellm.completion(model="openai/m", api_base=url + "/v1", api_key="none", max_retries=0,
                           messages=[{"role": "user", "content": "word " * 20000}])
        need(False, "a prompt that is too long was taken")
    except litellm.ContextWindowExceededError:
        pass


# ---- Instructor ----

def check_instructor(url):
    import instructor
    import openai
    import pydantic
    Person = person()
    seen = []

    class Picky(Person):
        @pydantic.field_validator("age")
        @classmethod
        def not_at_once(cls, v):
            seen.append(v)
            if len(seen) == 1:
                raise ValueError("another age, please")
            return v
    for mode in ("TOOLS", "JSON_SCHEMA", "TOOLS_STRICT"):
        c = instructor.from_openai(openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0), mode=instructor.Mode[mode])
        ask = dict(model="m", messages=[{"role": "user", "content": "A person."}], max_tokens=600, seed=4, extra_body=QUIET)
        need(isinstance(c.chat.completions.create(response_model=Person, **ask), Person), mode)
        seen.clear()
        need(isinstance(c.chat.completions.create(response_model=Picky, max_retries=3, **ask), Picky), f"{mode}: again")
        need(len(seen) >= 2, f"{mode}: was not asked again")
        parts = list(c.chat.completions.create_partial(response_model=Person, **ask))
        need(parts and parts[-1].name in ("Ada", "Bob"), f"{mode}: stream")


# ---- aider ----

EDIT = "\n".join(["hello.py", "```python", "<" * 7 + " SEARCH", 'print("hello")', "=" * 7, 'print("hello, world")',
                  ">" * 7 + " REPLACE", "```", ""])


def check_aider(url):
    """An edit of a file; the format of the request allows only one answer."""
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/hello.py", "w", encoding="utf-8") as f:
            f.write('print("hello")\n')
        with open(f"{d}/settings.yml", "w", encoding="utf-8") as f:
            json.dump([{"name": "openai/m", "edit_format": "diff", "use_repo_map": False, "extra_params": {
                "max_tokens": 2000, "extra_body": {"guided_choice": [EDIT], **QUIET}}}], f)
        p = subprocess.run(
            [os.path.join(os.path.dirname(sys.executable), "aider"), "--model", "openai/m", "--edit-format", "diff", "--no-git",
             "--model-settings-file", "settings.yml", "--yes-always", "--no-analytics", "--no-check-update", "--no-show-release-notes",
             "--no-show-model-warnings", "--no-pretty", "--no-detect-urls", "--no-suggest-shell-commands", "--map-tokens", "0",
             "--message", "Greet the world.", "hello.py"], cwd=d, capture_output=True, text=True, timeout=120, check=False,
            env={**os.environ, "OPENAI_API_BASE": url + "/v1", "OPENAI_API_KEY": "none", "HOME": d})
        with open(f"{d}/hello.py", encoding="utf-8") as f:
            text = f.read()
        same(text, 'print("hello, world")\n', "the file; " + p.stdout[-800:] + p.stderr[-800:])
