#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes calib/text/loops.jsonl and calib/text/checks.jsonl, the built-in suites `loops` and `checks` (docs/formats/suite.md). All texts,
goals and expected answers were written for this project, by hand.

Usage: python3 tests/oracle/loop_suite.py   (from the repository root)
"""
import json


def tool(name, about, required=(), /, **props):
    return {"type": "function", "function": {"name": name, "description": about, "parameters": {
        "type": "object", "properties": props, "required": list(required), "additionalProperties": False}}}


TEXT, WHOLE, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}


def text(about):
    return {"type": "string", "description": about}


search = tool("find_flights", "Flights between two cities on a day", ("origin", "destination"), origin=text("city"), destination=text("city"))
book = tool("book_flight", "Books a flight", ("flight",), flight=text("flight number, such as KL204"))
weather = tool("get_weather", "Weather of a city", ("city",), city=text("city, without the country"))
mail = tool("send_email", "Sends an email", ("to", "body"), to=text("address"), body=TEXT)
contact = tool("find_contact", "Address of a person", ("name",), name=text("first name"))
stock = tool("get_stock", "Number of pieces in stock", ("item",), item=text("name of the item, one word"))
order = tool("order_item", "Orders pieces of an item", ("item", "pieces"), item=text("name of the item, one word"), pieces={"type": "integer", "minimum": 1})
read = tool("read_file", "Content of a file", ("path",), path=TEXT)
write = tool("write_file", "Replaces the content of a file", ("path", "content"), path=TEXT, content=TEXT)
tests = tool("run_tests", "Runs the tests of the project")
convert = tool("convert_currency", "Converts an amount", ("amount", "from", "to"), **{"amount": NUMBER, "from": text("three letters, EUR"), "to": text("three letters, USD")})
timer = tool("set_timer", "Starts a timer", ("minutes",), minutes={"type": "integer", "minimum": 1, "maximum": 600})
delete = tool("delete_file", "Deletes a file", ("path",), path=TEXT)
ledger = tool("get_ledger", "All bookings of a month", ("month",), month=text("such as 2026-03"))


def loop(id, kind, messages, tools, results, goal, **more):
    checks = more.pop("checks", None)
    c = {"id": id, "kind": kind, "messages": [{"role": "user", "content": m} for m in messages[:1]], "tools": tools,
         "loop": {**({"then": messages[1:]} if messages[1:] else {}), "results": results, "goal": goal, **more}}
    if checks:
        c["checks"] = checks
    return c


def on(name, result, set=None, **more):
    r = {"name": name, **more, "result": result}
    if set:
        r["set"] = set
    return r


bookings = [{"day": d, "text": f"invoice {3100 + 7 * d}", "amount": 40 + (d * 37) % 211} for d in range(1, 29)]
LOOPS = [
    loop("plan-1", "plan", ["Find a flight from Oslo to Rome and book it."], [search, book],
         [on("find_flights", [{"flight": "SK4713", "price": 140}], {"searched": True}, arguments={"origin": "Oslo", "destination": "Rome"}),
          on("book_flight", {"ok": True}, {"booked": "SK4713"}, arguments={"flight": "SK4713"}, when={"searched": True})], {"booked": "SK4713"}),
    loop("plan-2", "plan", ["Look up Mara's address and send her an email that says the meeting is at ten."], [contact, mail],
         [on("find_contact", {"address": "mara@example.org"}, {"found": True}),
          on("send_email", {"sent": True}, {"sent": True}, arguments={"to": "mara@example.org"}, when={"found": True})], {"sent": True}),
    loop("choose", "result", ["Book the cheapest flight from Oslo to Rome."], [search, book],
         [on("find_flights", [{"flight": "SK4713", "price": 140}, {"flight": "DY1872", "price": 95}, {"flight": "LH863", "price": 210}]),
          on("book_flight", {"ok": True}, {"booked": "DY1872"}, arguments={"flight": "DY1872"}),
          on("book_flight", {"ok": True}, {"booked": "another"})], {"booked": "DY1872"}),
    loop("branch", "result", ["How many lamps are in stock? If fewer than five, order ten."], [stock, order],
         [on("get_stock", {"item": "lamps", "pieces": 3}, {"asked": True}), on("order_item", {"ok": True}, {"ordered": 10}, arguments={"pieces": 10}, when={"asked": True})],
         {"ordered": 10}),
    loop("branch-not", "result", ["How many lamps are in stock? Order ten only if there are fewer than five."], [stock, order],
         [on("get_stock", {"item": "lamps", "pieces": 32}, {"asked": True}), on("order_item", {"ok": True}, {"ordered": True})],
         {"asked": True, "ordered": None}),
    loop("correct", "correction", ["Start a timer of 15 minutes.", "No, I meant 50 minutes. Start one of 50."], [timer],
         [on("set_timer", {"ok": True}, {"timer": 50}, arguments={"minutes": 50}), on("set_timer", {"ok": True}, {"timer": 15}, arguments={"minutes": 15})],
         {"timer": 50}),
    loop("correct-argument", "correction", ["What is the weather in Cologne?"], [weather],
         [on("get_weather", {"error": "unknown city 'Cologne'; known is 'Köln'"}, {"told": True}, arguments={"city": "Cologne"}),
          on("get_weather", {"city": "Köln", "degrees": 21}, {"asked": True}, arguments={"city": "Köln"})], {"asked": True}, checks={"contains": "21"}),
    loop("parallel", "parallel", ["Compare the weather in Oslo and in Rome."], [weather],
         [on("get_weather", {"degrees": 4}, {"oslo": True}, arguments={"city": "Oslo"}), on("get_weather", {"degrees": 19}, {"rome": True}, arguments={"city": "Rome"})],
         {"oslo": True, "rome": True}, checks={"contains": ["4", "19"]}),
    loop("fails-once", "failure", ["Convert 20 EUR to USD."], [convert],
         [on("convert_currency", {"error": "timeout, try again"}, {"failed": True}, times=1), on("convert_currency", {"amount": 23.4}, {"asked": True}, when={"failed": True})],
         {"asked": True}, checks={"contains": "23.4"}),
    loop("fails-always", "failure", ["Delete the file notes.txt."], [delete],
         [on("delete_file", {"error": "permission denied"}, {"tried": True})], {"tried": True},
         checks={"regex": "(?i)permission|denied|not be|could not|couldn't|unable|cannot|can't|fail"}),
    loop("long-result", "long", ["What was the amount of the booking 'invoice 3219' in March 2026? Answer with the number."], [ledger],
         [on("get_ledger", bookings, {"asked": True}, arguments={"month": "2026-03"})], {"asked": True}, checks={"contains": str(40 + (17 * 37) % 211)}),
    loop("code", "plan", ["The tests fail. Find out why, repair src/add.py and run the tests again."], [tests, read, write],
         [on("run_tests", {"passed": 3, "failed": 0}, {"green": True}, when={"written": True}),
          on("run_tests", {"passed": 2, "failed": 1, "message": "src/add.py: add(2, 2) is 0, expected 4"}),
          on("read_file", "def add(a, b):\n    return a - b\n", arguments={"path": "src/add.py"}), on("write_file", {"ok": True}, {"written": True}, arguments={"path": "src/add.py"})],
         {"green": True}),
]

article = ("The bridge at Halden was opened on 4 May 1931. It is 214 metres long and cost 1.2 million crowns. Its engineer, Ingrid Solberg, had built two smaller "
           "bridges before. In 1962 it was widened to four lanes; 38 workers took seven months. A storm damaged the northern pier in January 1987, and the repair "
           "lasted until 9 September. Since 2004 trams cross it, 112 each day. The toll of 15 crowns was abolished in 2011. ") * 3
no_thinking = {"enable_thinking": False}


def check(id, prompt, checks, **more):
    c = {"id": id, "messages": [{"role": "user", "content": prompt}], **more}
    if checks:
        c["checks"] = checks
    return c


def exactly(**props):
    return {"type": "object", "properties": {k: {"const": v} for k, v in props.items()}, "required": list(props), "additionalProperties": False}


CHECKS = [
    check("json-exact", "Answer with JSON only, with the keys \"name\" and \"age\": Lena is 31 years old.", {"json_schema": exactly(name="Lena", age=31)}),
    check("json-no-fence", "Answer with nothing but a JSON object, no code block: the key \"ok\" with the value true.",
          {"regex": "^\\s*\\{\\s*\"ok\"\\s*:\\s*true\\s*\\}\\s*$"}),
    check("json-order", "Answer with a JSON object whose keys are, in this order, \"zeta\", \"alpha\", \"mid\", with the values 1, 2 and 3.",
          {"fields": ["zeta", "alpha", "mid"], "json_schema": exactly(zeta=1, alpha=2, mid=3)}),
    check("json-nested", "Two people: Ann, 5 and Bo, 7. Answer with JSON only: {\"people\": [{\"name\": ..., \"age\": ...}]}.",
          {"json_schema": exactly(people=[{"name": "Ann", "age": 5}, {"name": "Bo", "age": 7}])}),
    check("branch-then", "If 17 is larger than 12, answer with the word RED, otherwise with the word BLUE. Answer with one word.", {"regex": "^\\W*RED\\W*$"}),
    check("branch-else", "If 9 is larger than 12, answer with the word RED, otherwise with the word BLUE. Answer with one word.", {"regex": "^\\W*BLUE\\W*$"}),
    check("missing-parameter", "Send an email to my colleague.", {"contains": "?"}, tools=[mail], expect=None),
    check("no-tool-fits", "What is 2 + 2? Answer with the number.", {"contains": "4"}, tools=[weather], expect=None),
    check("tool-after-all", "What is the weather in Oslo?", None, tools=[weather, mail], expect={"name": "get_weather", "arguments": {"city": "Oslo"}}),
    check("extract-long", article + "\n\nWho was the engineer, and how long is the bridge in metres? Answer with the name and the number.", {"contains": ["Solberg", "214"]}),
    check("extract-all", article + "\n\nWrite the years in which something happened to the bridge, separated by commas, in ascending order, nothing else.",
          {"contains": ["1931", "1962", "1987", "2004", "2011"], "excludes": ["214", "112"]}),
    check("language-german", "Beschreibe in zwei Sätzen, was ein Leuchtturm ist.", {"regex": "(?i)\\b(der|die|das|ein|eine|und|ist)\\b", "excludes": [" the ", " is ", " and "]}),
    check("language-french", "Décris un phare en deux phrases.", {"regex": "(?i)\\b(le|la|les|un|une|est|et)\\b", "excludes": [" the ", " is ", " and "]}),
    check("thinking-off", "How many days has a week? Answer with the number.", {"contains": "7", "reasoning": False}, **no_thinking),
    check("stop-text", "Write the numbers one, two, three as words, one per line, then the line END, and nothing after it.", {"regex": "(?i)three\\s+END\\s*$"}),
    check("numbers-copied", "Repeat these numbers in the same order, separated by spaces: 48213 7.0625 -119 300007 0.5 86420",
          {"contains": "48213 7.0625 -119 300007 0.5 86420"}),
]

for name, cases in (("loops", LOOPS), ("checks", CHECKS)):
    with open(f"calib/text/{name}.jsonl", "w", encoding="utf-8") as f:
        for c in cases:
            f.write(json.dumps(c, ensure_ascii=False) + "\n")
    print(name, len(cases))
