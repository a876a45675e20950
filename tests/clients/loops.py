# SPDX-License-Identifier: MIT
"""Agent frameworks, each with its own loop: request, tool call, result, next request; then structured output, where
the kit has one."""
import asyncio

from common import need, same
from kits import OSLO, person
from more import get_weather


def check_langgraph(url):
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI
    for responses in (False, True):
        model = ChatOpenAI(model="m", base_url=url + "/v1", api_key="none", temperature=0, max_tokens=60, use_responses_api=responses)
        agent = create_agent(model, [get_weather])
        said = agent.invoke({"messages": [("user", OSLO)]}, {"recursion_limit": 8})["messages"]
        same([m.type for m in said], ["human", "ai", "tool", "ai"], f"messages, responses {responses}")
        same(said[2].content, "12 degrees in Oslo", "result")
        seen = list(agent.stream({"messages": [("user", OSLO)]}, {"recursion_limit": 8}, stream_mode="messages"))
        need(len(seen) > 6, f"a stream of {len(seen)} pieces")


def check_autogen(url):
    from autogen_agentchat.agents import AssistantAgent
    from autogen_core.models import ModelFamily, ModelInfo
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    async def ask():
        model = OpenAIChatCompletionClient(
            model="m", base_url=url + "/v1", api_key="none", temperature=0, max_tokens=60, model_info=ModelInfo(
                vision=False, function_calling=True, json_output=True, family=ModelFamily.UNKNOWN, structured_output=True))
        agent = AssistantAgent("a", model_client=model, tools=[get_weather], reflect_on_tool_use=True, model_client_stream=True)
        kinds = [type(m).__name__ for m in (await agent.run(task=OSLO)).messages]
        need("ToolCallExecutionEvent" in kinds and kinds[-1] == "TextMessage", f"{kinds}")
        formed = await AssistantAgent("b", model_client=model, output_content_type=person()).run(task="A person.")
        need(formed.messages[-1].content.name in ("Ada", "Bob"), f"{formed.messages[-1]}")
    asyncio.run(ask())


def check_agno(url):
    from agno.agent import Agent
    from agno.models.openai import OpenAIResponses
    from agno.models.openai.like import OpenAILike
    base = dict(id="m", base_url=url + "/v1", api_key="none", temperature=0)
    chat = OpenAILike(**base, max_tokens=60)
    for model in (chat, OpenAIResponses(**base, max_output_tokens=60)):
        agent = Agent(model=model, tools=[get_weather], tool_call_limit=2, telemetry=False)
        ran = agent.run(OSLO)
        same([(t.tool_name, t.result) for t in ran.tools], [("get_weather", "12 degrees in Oslo")], type(model).__name__)
        need(len(list(agent.run(OSLO, stream=True))) > 4, "pieces of a stream")
    need(Agent(model=chat, output_schema=person(), telemetry=False).run("A person.").content.name in ("Ada", "Bob"), "form")


def check_strands(url):
    from strands import Agent, tool
    from strands.models.anthropic import AnthropicModel
    from strands.models.openai import OpenAIModel
    for model in (OpenAIModel(client_args={"base_url": url + "/v1", "api_key": "none"}, model_id="m", params={"max_tokens": 80, "temperature": 0}),
                  AnthropicModel(client_args={"base_url": url, "api_key": "none"}, model_id="m", max_tokens=80, params={"temperature": 0})):
        agent = Agent(model=model, tools=[tool(get_weather)], callback_handler=None)
        end = agent(OSLO)
        same(end.stop_reason, "end_turn", type(model).__name__)
        results = [b["toolResult"]["content"][0]["text"] for m in agent.messages for b in m["content"] if "toolResult" in b]
        same(results, ["12 degrees in Oslo"], "results")
        need(end.metrics.accumulated_usage["cacheReadInputTokens"] > 100, "the second turn finds nothing of the first")


def check_crewai(url):
    from crewai import Agent, Crew, LLM, Task
    from crewai.tools import tool
    model = LLM(model="openai/m", base_url=url + "/v1", api_key="none", temperature=0, max_tokens=80)
    asked = []

    @tool("get_weather")
    def weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return "12 degrees"
    agent = Agent(role="r", goal="g", backstory="b", llm=model, tools=[weather], max_iter=3, verbose=False)
    need(Crew(agents=[agent], tasks=[Task(description=OSLO, expected_output="x", agent=agent)], verbose=False).kickoff().raw, "an answer")


def check_adk(url):
    from google.adk.agents import LlmAgent
    from google.adk.models.lite_llm import LiteLlm
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    async def ask(**how):
        agent = LlmAgent(name="a", model=LiteLlm(temperature=0, max_tokens=80, **how), instruction="Be brief.", tools=[get_weather])
        runner = InMemoryRunner(agent=agent, app_name="x")
        s = await runner.session_service.create_session(app_name="x", user_id="u")
        parts = [p async for e in runner.run_async(user_id="u", session_id=s.id, new_message=types.Content(
            role="user", parts=[types.Part(text=OSLO)])) if e.content for p in e.content.parts]
        same([p.function_call.args["city"] for p in parts if p.function_call], ["Oslo"], how["model"])
        need(parts[-1].text, f"an answer of {how['model']}")
    asyncio.run(ask(model="openai/m", api_base=url + "/v1", api_key="none"))
    asyncio.run(ask(model="anthropic/m", api_base=url, api_key="none"))
    asyncio.run(ask(model="ollama_chat/m", api_base=url))
