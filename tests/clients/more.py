# SPDX-License-Identifier: MIT
"""More kits: each requests a tool call, sends back its result if the kit does that itself, and requests a structured answer."""
import os
import subprocess
import sys
import tempfile

from common import need, same
from kits import OSLO, person


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"12 degrees in {city}"


def check_llama_index(url):
    from llama_index.core.tools import FunctionTool
    from llama_index.llms.openai_like import OpenAILike
    llm = OpenAILike(model="m", api_base=url + "/v1", api_key="none", is_chat_model=True, is_function_calling_model=True,
                     temperature=0, max_tokens=200, context_window=8192)
    tools = [FunctionTool.from_defaults(get_weather)]
    calls = llm.get_tool_calls_from_response(llm.chat_with_tools(tools, user_msg=OSLO))
    same([c.tool_kwargs["city"] for c in calls], ["Oslo"], "call")
    *_, last = llm.stream_chat_with_tools(tools, user_msg=OSLO)
    same([c.tool_kwargs for c in llm.get_tool_calls_from_response(last)], [c.tool_kwargs for c in calls], "stream")
    need(llm.as_structured_llm(person()).complete("A person.").raw.name in ("Ada", "Bob"), "form")


def check_haystack(url):
    from haystack.components.generators.chat import OpenAIChatGenerator, OpenAIResponsesChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack.tools import create_tool_from_function
    from haystack.utils import Secret
    base = dict(api_key=Secret.from_token("none"), model="m", api_base_url=url + "/v1", tools=[create_tool_from_function(get_weather)])
    asked = ChatMessage.from_user(OSLO)
    pieces = []
    for kind, more in ((OpenAIChatGenerator, {"max_tokens": 200}), (OpenAIResponsesChatGenerator, {"max_output_tokens": 200})):
        for callback in (None, pieces.append):
            g = kind(generation_kwargs={"temperature": 0, **more}, streaming_callback=callback, **base)
            r = g.run([asked])["replies"][0]
            same([c.arguments["city"] for c in r.tool_calls], ["Oslo"], kind.__name__)
        result = ChatMessage.from_tool(tool_result="12", origin=r.tool_calls[0])
        need(g.run([asked, r, result])["replies"][0], f"{kind.__name__}: a second turn")
    need(len(pieces) > 4, "pieces of streams")


def check_semantic_kernel(url):
    import asyncio
    from openai import AsyncOpenAI
    from semantic_kernel import Kernel
    from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
    from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion, OpenAIChatPromptExecutionSettings
    from semantic_kernel.contents import ChatHistory
    from semantic_kernel.functions import kernel_function
    cities = []

    class Plugin:
        @kernel_function(description="The weather of a city.")
        def get_weather(self, city: str, unit: str = "") -> str:
            cities.append(city)
            return "12"

    async def ask():
        k = Kernel()
        s = OpenAIChatCompletion(ai_model_id="m", async_client=AsyncOpenAI(base_url=url + "/v1", api_key="none"))
        k.add_service(s)
        k.add_plugin(Plugin(), "w")
        h = ChatHistory()
        h.add_user_message(OSLO)
        how = OpenAIChatPromptExecutionSettings(max_tokens=200, temperature=0, function_choice_behavior=FunctionChoiceBehavior.Auto())
        need(await s.get_chat_message_contents(h, how, kernel=k), "an answer")
        form = OpenAIChatPromptExecutionSettings(max_tokens=200, response_format=person())
        h2 = ChatHistory()
        h2.add_user_message("A person.")
        person().model_validate_json(str((await s.get_chat_message_contents(h2, form))[0]))
    asyncio.run(ask())
    need("Oslo" in cities, f"asked: {cities}")


def check_chat_ollama(url):
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_ollama import ChatOllama
    llm = ChatOllama(model="m", base_url=url, temperature=0, num_predict=200, reasoning=True)
    bound = llm.bind_tools([get_weather])
    r = bound.invoke(OSLO)
    same(r.tool_calls[0]["args"]["city"], "Oslo", "call")
    need(r.additional_kwargs["reasoning_content"], "thinking")
    whole = None
    for c in bound.stream(OSLO):
        whole = c if whole is None else whole + c
    same(whole.tool_calls[0]["args"], r.tool_calls[0]["args"], "stream")
    need(bound.invoke([HumanMessage(OSLO), r, ToolMessage("12", tool_call_id=r.tool_calls[0]["id"])]).usage_metadata["input_tokens"] >
         r.usage_metadata["input_tokens"], "a second turn")
    need(ChatOllama(model="m", base_url=url, num_predict=400).with_structured_output(person()).invoke("A person.").name, "form")


def check_outlines(url):
    import openai
    import outlines
    m = outlines.from_openai(openai.OpenAI(base_url=url + "/v1", api_key="none"), "m")
    Person = person()
    need(Person.model_validate_json(m("A person.", Person, max_tokens=400)), "form")


def check_llm(url):
    """Simon Willison's llm, which reads its models from a file."""
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/extra-openai-models.yaml", "w", encoding="utf-8") as f:
            f.write(f'- model_id: h\n  model_name: m\n  api_base: "{url}/v1"\n  supports_tools: true\n  supports_schema: true\n'
                    f'- model_id: t\n  model_name: m\n  api_base: "{url}/v1"\n  completion: true\n')
        for args in (["-m", "h", "hi"], ["-m", "h", "--no-stream", "hi"], ["-m", "h", "-T", "llm_version", "hi"],
                     ["-m", "h", "--schema", "age int", "hi"], ["-m", "t", "The cat"]):
            p = subprocess.run([os.path.join(os.path.dirname(sys.executable), "llm"), *args, "-o", "max_tokens", "60"], check=False,
                               env={**os.environ, "LLM_USER_PATH": d, "OPENAI_API_KEY": "none"}, capture_output=True, text=True, timeout=60)
            need(p.returncode == 0 and p.stdout.strip(), f"llm {args}: {p.stdout} {p.stderr[-400:]}")


def check_ag2(url):
    """A loop of its agent, through both of OpenAI's APIs."""
    import asyncio
    from ag2 import Agent, tool
    from ag2.config import OpenAIConfig, OpenAIResponsesConfig
    cities = []

    @tool
    async def get_weather(city: str) -> str:
        """The weather of a city."""
        cities.append(city)
        return f"12 degrees in {city}"

    async def ask(config):
        return await Agent("a", prompt="Be brief.", config=config, tools=[get_weather]).ask(OSLO)
    for config in (OpenAIConfig, OpenAIResponsesConfig):
        cities.clear()
        reply = asyncio.run(asyncio.wait_for(ask(config(model="m", base_url=url + "/v1", api_key="none", temperature=0)), 60))
        need("Oslo" in cities and reply, f"{config.__name__}: {cities}")


def check_dspy(url):
    """Its model alone, structured output, and a program whose fields arrive as JSON."""
    import dspy
    lm = dspy.LM("openai/m", api_base=url + "/v1", api_key="none", temperature=0, max_tokens=300, cache=False,
                 extra_body={"chat_template_kwargs": {"enable_thinking": False}})
    need(lm("Tell me something.")[0], "text")
    schema = {"type": "json_schema", "json_schema": {"name": "r", "strict": True, "schema": {
        "type": "object", "properties": {"answer": {"enum": ["yes", "no"]}}, "required": ["answer"], "additionalProperties": False}}}
    out = lm("Is it?", response_format=schema)[0]
    out = out["text"] if isinstance(out, dict) else out
    need('"answer"' in out, f"form: {out}")
    with dspy.context(lm=lm, adapter=dspy.JSONAdapter()):
        lm.kwargs["response_format"] = schema
        same(dspy.Predict("question -> answer")(question="Is it?").answer in ("yes", "no"), True, "a program")
