# SPDX-License-Identifier: MIT
"""The built-in suite of tool calls (calib/text/tools.jsonl): 60 cases written for this project, for any model.

The expected calls were written manually along with the questions, never taken from a model; here they are only checked
against the tools' schemas by an independent validator (jsonschema). Where a careful reader could write an argument
in more than one way, the expectation is a schema of the arguments instead of one value. Every case states in words everything
that its call needs. "kind" names what it tests: one tool of many, types, omitted optional parameters, lists and objects, text
that is awkward to write in a syntax, several calls, no call, a call after a result.
Run: python tests/oracle/tool_suite.py > calib/text/tools.jsonl
"""
import json
import jsonschema


def tool(name, about, required, **props):
    for k, v in props.items():
        if isinstance(v, str):
            props[k] = {"type": v.split(":")[0], "description": v.split(":")[1]}
    return {"type": "function", "function": {"name": name, "description": about, "parameters": {
        "type": "object", "properties": props, "required": required.split(), "additionalProperties": False}}}


TOOLS = {t["function"]["name"]: t for t in [
    tool("get_weather", "Weather of a city", "city", city="string:Name of the city, without the country",
         unit={"type": "string", "enum": ["celsius", "fahrenheit"], "description": "Only when the user names one"},
         days={"type": "integer", "minimum": 1, "maximum": 14, "description": "Days of forecast; left out: now"}),
    tool("send_email", "Send an email", "to subject body", to="string:Address", subject="string:Subject, as given", body="string:Text, as given",
         cc={"type": "array", "items": {"type": "string"}, "description": "More addresses"}),
    tool("create_event", "Put an event into the calendar", "title date start", title="string:Title, as given", date="string:YYYY-MM-DD",
         start="string:HH:MM, 24 hours", minutes="integer:Duration in minutes", attendees={"type": "array", "items": {"type": "string"}, "description": "Names, as given"}),
    tool("convert_currency", "Convert an amount of money", "amount from to", amount="number:Amount", **{"from": "string:ISO 4217 code", "to": "string:ISO 4217 code"}),
    tool("set_light", "Change a lamp", "room on", room="string:Room, in lower case", on="boolean:Whether it is lit", brightness={"type": "integer", "minimum": 0, "maximum": 100, "description": "Percent"}),
    tool("search_files", "Find files", "pattern", pattern="string:Glob pattern", folder="string:Where to begin", max_results="integer:At most so many", recursive="boolean:Also in folders below"),
    tool("write_file", "Write a text file", "path content", path="string:Path", content="string:The whole text, exactly"),
    tool("run_query", "Query the orders table", "columns", columns={"type": "array", "items": {"type": "string"}, "minItems": 1},
         filter={"type": "object", "properties": {"column": {"type": "string"}, "op": {"type": "string", "enum": ["=", "<", ">", "!="]}, "value": {"type": ["string", "number", "boolean", "null"]}},
                 "required": ["column", "op", "value"], "additionalProperties": False}, limit="integer:Rows at most"),
    tool("draw_polygon", "Draw a polygon", "points", points={"type": "array", "items": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}}, closed="boolean:Join last and first point", color="string:Name of a colour"),
    tool("get_stock_price", "Price of a share", "symbol", symbol="string:Ticker symbol, in capitals"),
    tool("translate", "Translate a text", "text target", text="string:Text, as given", target={"type": "string", "enum": ["de", "en", "es", "fr", "ja"], "description": "Language"}),
    tool("get_time", "Time of day now", "", timezone="string:IANA name such as Europe/Oslo"),
]}
CASES = []


def case(kind, question, expect, tools, before=(), system=None):
    names = tools.split()
    messages = ([{"role": "system", "content": system}] if system else []) + list(before) + [{"role": "user", "content": question}] * (question is not None)
    calls = expect if isinstance(expect, list) else [expect] if expect else []
    for call in calls:
        schema = TOOLS[call["name"]]["function"]["parameters"]
        assert call["name"] in names
        if "arguments" in call:
            jsonschema.validate(call["arguments"], schema)
    CASES.append({"id": "generic-%02d" % len(CASES), "kind": kind, "messages": messages, "tools": [TOOLS[n] for n in names], "expect": expect})


def call(name, **arguments):
    return {"name": name, "arguments": arguments}


def allow(name, **properties):
    return {"name": name, "schema": {"properties": properties, "required": list(properties)}}


ALL = " ".join(TOOLS)
# which tool
case("select", "What is the weather in Oslo?", call("get_weather", city="Oslo"), "get_weather")
case("select", "What is the weather in Lima, in celsius?", call("get_weather", city="Lima", unit="celsius"), "get_stock_price get_weather get_time")
case("select", "How much is one share of NVDA right now?", call("get_stock_price", symbol="NVDA"), "get_weather get_stock_price convert_currency")
case("select", "Translate 'good night' to Spanish.", call("translate", text="good night", target="es"), "send_email translate search_files")
case("select", "Convert 250 USD to EUR.", call("convert_currency", amount=250, **{"from": "USD", "to": "EUR"}), "get_stock_price convert_currency")
case("select", "What time is it in the time zone Asia/Tokyo?", call("get_time", timezone="Asia/Tokyo"), "get_weather get_time translate")
case("select", "Switch the lamp in the kitchen on.", call("set_light", room="kitchen", on=True), ALL)
case("select", "Get the price of the share with the symbol ASML.", call("get_stock_price", symbol="ASML"), ALL)
case("select", "Find files that match *.log", call("search_files", pattern="*.log"), ALL)
case("select", "Translate 'the bridge is closed' to German.", call("translate", text="the bridge is closed", target="de"), ALL)
case("select", "Five day forecast for Nairobi, please.", call("get_weather", city="Nairobi", days=5), ALL)
case("select", "Show the columns id and total of the orders, at most 10 rows.", call("run_query", columns=["id", "total"], limit=10), ALL)
# types
case("integer", "Forecast for Quito for 14 days in fahrenheit.", call("get_weather", city="Quito", unit="fahrenheit", days=14), "get_weather")
case("integer", "Set the lamp in the bedroom to 35 percent; it should be on.", call("set_light", room="bedroom", on=True, brightness=35), "set_light get_weather")
case("integer", "Find at most 3 files that match data-*.csv", call("search_files", pattern="data-*.csv", max_results=3), "search_files write_file")
case("number", "Convert 19.99 GBP to JPY.", call("convert_currency", amount=19.99, **{"from": "GBP", "to": "JPY"}), "convert_currency")
case("number", "How many CHF are 0.5 EUR?", call("convert_currency", amount=0.5, **{"from": "EUR", "to": "CHF"}), "convert_currency get_stock_price")
case("number", "Convert 1000000 JPY to USD.", call("convert_currency", amount=1000000, **{"from": "JPY", "to": "USD"}), "convert_currency translate")
case("boolean", "Turn the lamp in the hall off.", call("set_light", room="hall", on=False), "set_light")
case("boolean", "Find files matching *.md in the folder docs, without going into folders below.", call("search_files", pattern="*.md", folder="docs", recursive=False), "search_files")
case("boolean", "Find files matching *.h below the folder include, also in folders below it.", allow("search_files", pattern={"const": "*.h"}, folder={"enum": ["include", "include/", "./include"]}, recursive={"const": True}), "search_files get_time")
case("enum", "Translate 'Guten Tag' to English.", call("translate", text="Guten Tag", target="en"), "translate")
case("enum", "Translate 'thank you' to Japanese.", call("translate", text="thank you", target="ja"), "translate get_weather")
case("enum", "Translate 'left and right' to French.", call("translate", text="left and right", target="fr"), "translate send_email")
# lists and objects
case("list", "Show only the column customer of all orders.", call("run_query", columns=["customer"]), "run_query")
case("list", "Send an email to ann@example.com, copies to bo@example.com and cy@example.com, subject 'Lunch', text 'Noon?'.",
     call("send_email", to="ann@example.com", cc=["bo@example.com", "cy@example.com"], subject="Lunch", body="Noon?"), "send_email")
case("list", "Draw a triangle through the points (0,0), (4,0) and (4,3), as points in this order.", allow("draw_polygon", points={"const": [[0, 0], [4, 0], [4, 3]]}), "draw_polygon")
case("list", "Draw a closed red polygon: (1,1), (1,5), (6,5), (6,1).", call("draw_polygon", points=[[1, 1], [1, 5], [6, 5], [6, 1]], closed=True, color="red"), "draw_polygon set_light")
case("list", "Draw an open line, not closed, through (-1.5,2) and (3,-4.25) in that order.", call("draw_polygon", points=[[-1.5, 2], [3, -4.25]], closed=False), "draw_polygon")
case("object", "Show the columns id and date of orders where total > 100.", call("run_query", columns=["id", "date"], filter={"column": "total", "op": ">", "value": 100}), "run_query")
case("object", "Column id of orders whose country = 'NO', at most 5 rows.", call("run_query", columns=["id"], filter={"column": "country", "op": "=", "value": "NO"}, limit=5), "run_query search_files")
case("object", "Columns id and customer of orders whose paid column = false (a truth value).", call("run_query", columns=["id", "customer"], filter={"column": "paid", "op": "=", "value": False}), "run_query")
case("object", "Column id of the orders where shipped != null.", call("run_query", columns=["id"], filter={"column": "shipped", "op": "!=", "value": None}), "run_query")
case("list", "Put 'Review' into the calendar on 2027-03-05 at 14:30 with Ada, Bo and Cy.", call("create_event", title="Review", date="2027-03-05", start="14:30", attendees=["Ada", "Bo", "Cy"]), "create_event send_email")
# optional parameters, dates
case("optional", "Put 'Dentist' into the calendar on 2027-01-12 at 09:15.", call("create_event", title="Dentist", date="2027-01-12", start="09:15"), "create_event")
case("optional", "Put 'Standup' into the calendar on 2027-02-01 at 08:00 for 15 minutes.", call("create_event", title="Standup", date="2027-02-01", start="08:00", minutes=15), "create_event get_time")
case("optional", "Put 'Night shift' into the calendar on 2027-12-31 at 11 pm for two hours.", call("create_event", title="Night shift", date="2027-12-31", start="23:00", minutes=120), "create_event")
case("optional", "What time is it now, here?", allow("get_time"), "get_time get_weather")
# awkward text
case("text", "Write the text 'a < b && c > d' to the file cond.txt.", call("write_file", path="cond.txt", content="a < b && c > d"), "write_file")
case("text", "Write a file quote.txt with exactly this text: She said \"yes\".", allow("write_file", path={"const": "quote.txt"}, content={"enum": ['She said "yes".', 'She said "yes"']}), "write_file")
case("text", "Write the two lines\nalpha\nbeta\nto the file greek.txt.", allow("write_file", path={"const": "greek.txt"}, content={"enum": ["alpha\nbeta", "alpha\nbeta\n"]}), "write_file search_files")
case("text", "Write {\"a\": 1} to the file a.json.", call("write_file", path="a.json", content='{"a": 1}'), "write_file")
case("text", "Write the text true to the file flag.txt.", call("write_file", path="flag.txt", content="true"), "write_file")
case("text", "Write the text 007 to the file code.txt.", call("write_file", path="code.txt", content="007"), "write_file set_light")
case("text", "Write C:\\temp\\x.txt as the text of the file path.txt.", call("write_file", path="path.txt", content="C:\\temp\\x.txt"), "write_file")
case("text", "Write the text <b>bold</b> to the file b.html.", call("write_file", path="b.html", content="<b>bold</b>"), "write_file")
case("text", "Translate 'Ça va? Très bien 😀' to English.", call("translate", text="Ça va? Très bien 😀", target="en"), "translate")
case("text", "What is the weather in São Paulo?", call("get_weather", city="São Paulo"), "get_weather get_time")
# several calls
case("parallel", "Switch the lamps in the kitchen and in the hall off, the kitchen first.", [call("set_light", room="kitchen", on=False), call("set_light", room="hall", on=False)], "set_light")
case("parallel", "Get the prices of the shares AMD and INTC, in that order.", [call("get_stock_price", symbol="AMD"), call("get_stock_price", symbol="INTC")], "get_stock_price get_weather")
case("parallel", "First the weather in Rome, then the price of the share ENI.", [call("get_weather", city="Rome"), call("get_stock_price", symbol="ENI")], "get_weather get_stock_price")
case("parallel", "Translate 'water' to German, then to French, then to Spanish.", [call("translate", text="water", target=t) for t in ("de", "fr", "es")], "translate")
# no call
case("none", "What is two plus two? Answer in one word.", None, "get_weather get_stock_price")
case("none", "Say hello to me in English.", None, "run_query search_files")
case("none", "Thank you, that was all. Goodbye!", None, "set_light create_event")
case("none", "Name a colour of the rainbow.", None, "convert_currency get_stock_price")


def used(name, arguments, result):
    return [{"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": name, "arguments": arguments}}]}, {"role": "tool", "content": result}]


# after results
case("turns", "And in Bergen?", call("get_weather", city="Bergen"), "get_weather get_time",
     [{"role": "user", "content": "What is the weather in Oslo?"}] + used("get_weather", {"city": "Oslo"}, '{"temperature": 4, "sky": "rain"}') + [{"role": "assistant", "content": "4 degrees and rain in Oslo."}])
case("turns", "Now switch it off again.", call("set_light", room="attic", on=False), "set_light",
     [{"role": "user", "content": "Switch the lamp in the attic on."}] + used("set_light", {"room": "attic", "on": True}, "ok") + [{"role": "assistant", "content": "It is on."}])
case("turns", None, None, "get_stock_price",
     [{"role": "user", "content": "What does a share of SAP cost?"}] + used("get_stock_price", {"symbol": "SAP"}, '{"symbol": "SAP", "price": 251.2, "currency": "EUR"}'))
case("system", "Lights in the studio on, full brightness.", call("set_light", room="studio", on=True, brightness=100), "set_light get_weather", system="You control a house. Use the tools; do not chat.")

assert len(CASES) == 60
for c in CASES:
    print(json.dumps(c, ensure_ascii=False))
