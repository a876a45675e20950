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


def has(*patterns, never=None):
    """A regular expression for texts in which each pattern occurs and `never` does not."""
    return "(?is)^" + (f"(?!.*(?:{never}))" if never else "") + "".join(f"(?=.*(?:{p}))" for p in patterns)


def number(n):
    """A pattern for a number that is not a part of another one; 4.0 is 4."""
    digits = n.replace(".", "[.,]") + ("0?" if "." in n else "(?:[.,]0+)?")
    return rf"(?<![\d.,-]){digits}(?!\d|[.,]\d)"


def claim(what):
    """A pattern for a claim in a clause in which nothing before it denies it."""
    end, denial = r"[.!?;,:](?:\s|$)|\n|\bbut\b", r"\b(?:not|never|no|nothing|cannot|unable|fail\w*|be|if|whether|until|once)\b|n['’]t\b"
    return f"(?:^|{end})(?:(?!{end}|{denial}).)*?(?:{what})"


def arguments(**patterns):
    """A schema for arguments: texts that match these patterns, or other values that are equal."""
    return {"schema": {"properties": {k: {"pattern": v} if isinstance(v, str) else {"const": v} for k, v in patterns.items()}, "required": list(patterns)}}


def loop(id, kind, messages, tools, results, goal, **more):
    checks, start = more.pop("checks", None), more.pop("start", [])
    c = {"id": id, "kind": kind, "messages": [{"role": "user", "content": m} for m in messages[:1]] + start, "tools": tools,
         "loop": {**({"then": messages[1:]} if messages[1:] else {}), "results": results, "goal": goal, **more}}
    if checks:
        c["checks"] = checks
    return c


def on(name, result, set=None, **more):
    r = {"name": name, **more, "result": result}
    if set:
        r["set"] = set
    return r


def wrong(name, **more):
    """A result for any other call of a tool with side effects: none undoes them, so no later call can reach the goal."""
    return on(name, {"ok": True}, {"wrong": True}, **more)


bookings = [{"day": d, "text": f"invoice {3100 + 7 * d}", "amount": 40 + (d * 37) % 211} for d in range(1, 29)]
repaired = has(r"def add\(.*return\s+\(?\s*(?:a\s*\+\s*b|b\s*\+\s*a)\b", never=r"return\s+\(?\s*a\s*-\s*b\b")
hour = r"(?:one|two|three|four|five|six|seven|eight|nine|eleven|twelve|1[1-9]|2[0-4]|0?[1-9])\b(?! of)"
at_ten = has(r"\bmeet(?:ing)?\b", r"(?<!past )(?<!before )(?<!quarter to )(?:\bten\b(?! (?:past|fifteen|thirty))|(?<![\d:.])10(?!\d|[:.h][0-5]?[1-9]|[:.h][1-5]))(?! ?min)",
             never=rf"(?:\bnot|n['’]t)(?: be)?(?: at)? (?:ten|10)\b|(?<!not )\b(?:at|(?:moved|changed|postponed) to) {hour}")
denied = (r"denied|refused|could ?n[o'’]t|could not|cannot|can[’']t|n['’]t able|not able|unable|(?:not|n['’]t)(?: been| be)? (?:deleted|removed|permitted|allowed)|fail|"
          r"(?<!no )(?<!any )(?<!without )errors?\b|no permission (?:to|for)|(?:lack|need|require|missing|insufficient|(?:not|n['’]t) have)[^.!?]{0,40}permission")
deleted = (r"\b(?:(?:has|have) been|was|were|is|are)(?: now| already| just)* (?:deleted|removed|gone)|\bI(?:['’]ve| have)?(?: just| now| already)* (?:deleted|removed)|"
           r"\bsuccessful(?:ly)?\b|\bdone\b|no longer exists?|(?<!\w )\b(?:deleted|removed)\b")
to_rome = {"origin": "Oslo", "destination": "Rome"}
LOOPS = [
    loop("plan-1", "plan", ["Find a flight from Oslo to Rome and book it."], [search, book],
         [on("find_flights", [{"flight": "SK4713", "price": 140}], {"searched": True}, arguments=to_rome),
          on("book_flight", {"ok": True}, {"booked": "SK4713"}, arguments={"flight": "SK4713"}, when={"searched": True}, times=1),
          wrong("book_flight", arguments={"flight": "SK4713"})], {"booked": "SK4713", "wrong": None}),
    loop("plan-2", "plan", ["Look up Mara's address and send her an email that says the meeting is at ten."], [contact, mail],
         [on("find_contact", {"address": "mara@example.org"}, {"found": True}, **arguments(name=r"(?i)^\W*Mara\b")),
          on("send_email", {"sent": True}, {"sent": True}, **arguments(to=r"^mara@example\.org$", body=at_ten), when={"found": True}, times=1),
          wrong("send_email")], {"sent": True, "wrong": None}),
    loop("choose", "result", ["Book the cheapest flight from Oslo to Rome."], [search, book],
         [on("find_flights", [{"flight": "SK4713", "price": 140}, {"flight": "DY1872", "price": 95}, {"flight": "LH863", "price": 210}], arguments=to_rome),
          on("book_flight", {"ok": True}, {"booked": "DY1872"}, arguments={"flight": "DY1872"}, times=1), wrong("book_flight")],
         {"booked": "DY1872", "wrong": None}),
    loop("branch", "result", ["How many lamps are in stock? If fewer than five, order ten."], [stock, order],
         [on("get_stock", {"item": "lamps", "pieces": 3}, {"asked": True}, **arguments(item="(?i)lamp")),
          on("order_item", {"ok": True}, {"ordered": 10}, **arguments(item="(?i)lamp", pieces=10), when={"asked": True}, times=1), wrong("order_item")],
         {"ordered": 10, "wrong": None}),
    loop("branch-not", "result", ["How many lamps are in stock? Order ten only if there are fewer than five."], [stock, order],
         [on("get_stock", {"item": "lamps", "pieces": 32}, {"asked": True}, **arguments(item="(?i)lamp")), on("order_item", {"ok": True}, {"ordered": True})],
         {"asked": True, "ordered": None}, checks={"regex": number("32")}),
    loop("correct", "correction", ["Start a timer of 15 minutes.", "No, I meant 50 minutes. Start one of 50."], [timer],
         [on("set_timer", {"ok": True}, {"timer": 50}, arguments={"minutes": 50}, times=1),
          on("set_timer", {"ok": True}, {"timer": 15}, arguments={"minutes": 15}, times=1), wrong("set_timer")], {"timer": 50, "wrong": None}),
    loop("correct-argument", "correction", ["What is the weather in Cologne?"], [weather],
         [on("get_weather", {"error": "unknown city 'Cologne'; known is 'Köln'"}, {"told": True}, arguments={"city": "Cologne"}),
          on("get_weather", {"city": "Köln", "degrees": 21}, {"asked": True}, arguments={"city": "Köln"})], {"asked": True}, checks={"regex": number("21")}),
    loop("parallel", "parallel", ["Compare the weather in Oslo and in Rome."], [weather],
         [on("get_weather", {"degrees": 4}, {"oslo": True}, arguments={"city": "Oslo"}), on("get_weather", {"degrees": 19}, {"rome": True}, arguments={"city": "Rome"})],
         {"oslo": True, "rome": True}, checks={"regex": has(number("4"), number("19"))}),
    loop("fails-once", "failure", ["Convert 20 EUR to USD."], [convert],
         [on("convert_currency", {"error": "timeout, try again"}, {"failed": True}, arguments={"amount": 20, "from": "EUR", "to": "USD"}, times=1),
          on("convert_currency", {"amount": 23.4}, {"asked": True}, arguments={"amount": 20, "from": "EUR", "to": "USD"}, when={"failed": True})],
         {"asked": True}, checks={"regex": number("23.4")}),
    loop("fails-always", "failure", ["Delete the file notes.txt."], [delete],
         [on("delete_file", {"error": "permission denied"}, {"tried": True}, **arguments(path=r"notes\.txt$"))], {"tried": True},
         checks={"regex": has(denied, never=claim(deleted))}),
    loop("long-result", "long", ["What was the amount of the booking 'invoice 3219' in March 2026? Answer with the number."], [ledger],
         [on("get_ledger", bookings, {"asked": True}, arguments={"month": "2026-03"})], {"asked": True}, checks={"regex": number(str(40 + (17 * 37) % 211))}),
    loop("code", "plan", ["The tests fail. Find out why, repair src/add.py and run the tests again."], [tests, read, write],
         [on("run_tests", {"passed": 3, "failed": 0}, {"green": True}, when={"written": True}),
          on("run_tests", {"passed": 2, "failed": 1, "message": "src/add.py: add(2, 2) is 0, expected 4"}, {"green": False}),
          on("read_file", "def add(a, b):\n    return a - b\n", arguments={"path": "src/add.py"}),
          on("write_file", {"ok": True}, {"written": True}, **arguments(path=r"^src/add\.py$", content=repaired)),
          on("write_file", {"ok": True}, {"written": "another", "green": False}, arguments={"path": "src/add.py"})],
         {"written": True, "green": True}),
    # the number is only in the thinking before the first call: a model that does not see it makes up another one
    loop("thinking-kept", "thinking", ["Choose a number between 100 and 999, look up the weather in Oslo, then send mara@example.org an email with your number and the degrees."],
         [weather, mail], [on("get_weather", {"degrees": 4}, arguments={"city": "Oslo"}),
                           on("send_email", {"sent": True}, {"sent": True}, **arguments(to=r"^mara@example\.org$", body=has(number("618"), number("4"))), times=1),
                           wrong("send_email")], {"sent": True, "wrong": None},
         start=[{"role": "assistant", "content": "", "reasoning_content": "The number I choose is 618. Now I need the weather in Oslo, then I send both.",
                 "tool_calls": [{"id": "call00001", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}]},
                {"role": "tool", "name": "get_weather", "tool_call_id": "call00001", "content": "{\"degrees\": 4}"}]),
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


def words(least, native, foreign):
    """A pattern for a text with at least this many native words and no foreign ones."""
    return f"(?is)^(?!.*\\b(?:{foreign})\\b)(?:(?>.*?\\b(?:{native})\\b)){{{least}}}"


def letters(least, alphabet, never, some=""):
    """A pattern for a text with at least this many letters of an alphabet and one of `some`. Ranges, because \\p{Han} may include punctuation of all East Asian scripts."""
    return f"(?is)^(?!.*(?:{never}))" + (f"(?=.*{some})" if some else "") + f"(?:(?>.*?[{alphabet}])){{{least}}}"


ENGLISH = "the|is|and|of"
LANGUAGES = {
    # foreign words: of languages that share words with the wanted one
    "de": ("Beschreibe in zwei Sätzen, was ein Leuchtturm ist.",
           words(4, "der|die|das|den|dem|des|ein|eine|einen|einem|einer|und|ist|oder|für|auf|mit|von|zur|zum",
                 "the|and|of|est|une|les|el|una|het|een|en|van|voor|op|og|och|på|til|av|af|som|et|ett|är")),
    "fr": ("Explique en deux phrases ce qu'est un phare.",
           words(4, "est|une|les|des|du|et|qui|dans|sur|aux|pour|il|afin|ou", "the|is|and|of|el|los|una|und|der|è|che|di|della|és|amb|els|i|é|não|uma|per")),
    "es": ("Explica en dos frases qué es un faro.",
           words(4, "es|el|los|las|una|y|del|al|para|por|con|en|que|su|sus",
                 "the|is|and|of|est|et|des|dans|qui|aux|und|der|é|um|uma|com|não|são|à|às|aos|è|il|che|di|della|delle|gli|per|sono|alla|nella|és|amb|els|dels|i|als|unha")),
    "ru": ("Объясни в двух предложениях, что такое маяк.",
           letters(40, "а-яё", "[іїєґљњћђџўѓќѕјәөүңғқ]|\\b(?:" + ENGLISH + "|е|се|са|със|във|като|който|която|което|които|това)\\b", "[ыэ]")),
    "zh": ("用两句话说明什么是灯塔。", letters(12, "一-鿿", "[ぁ-ゖァ-ヺ가-힣]|\\b(?:" + ENGLISH + ")\\b")),
    "ja": ("灯台とは何か、二つの文で説明してください。", letters(8, "ぁ-ゖ", "[가-힣]|\\b(?:" + ENGLISH + ")\\b")),
}
asks = has(r"\b(?:what|which|who|whom|please|provide|need|tell|give|know|share|could you|can you)\b",
           r"\b(?:address|recipient|body|content|message|text|say|write|include|about|subject)\b|\b(?:who|whom|whose|what|which)\b[^.?!]*\bcolleague|\b(?:provide|share|give me|tell me|need|know)\b[^.?!]*\bcolleague['’]s\b",
           never=r"\b(?:I(?:['’]ve| have)?(?: just| already)?|been|was|successfully|email) sent\b")
counted = "(?i)^[\\W\\d]*" + "[\\W\\d]+".join(["one", "two", "three", "four", "five", "six"]) + "[\\W\\d]*$"

CHECKS = [
    check("json-exact", "Answer with JSON only, no code block, with the keys \"name\" and \"age\": Lena is 31 years old.",
          {"json_schema": exactly(name="Lena", age=31), "excludes": "```"}),
    check("json-order", "Answer with a JSON object whose keys are, in this order, \"zeta\" with the value 1, \"people\" with a list of Ann, 5, and Bo, 7, each as "
          "{\"name\": ..., \"age\": ...}, and \"alpha\" with the value true.",
          {"fields": ["zeta", "people", "alpha"], "json_schema": exactly(zeta=1, people=[{"name": "Ann", "age": 5}, {"name": "Bo", "age": 7}], alpha=True)}),
    check("branch", "If 17 is larger than 12, write the word RED, otherwise the word BLUE. Then, if 9 is larger than 12, write the word GREEN, otherwise the word YELLOW. "
          "Answer with these two words.", {"regex": "^\\W*RED\\W+YELLOW\\W*$"}),
    check("missing-parameter", "Send an email to my colleague.", {"regex": asks}, tools=[mail], expect=None),
    check("no-tool-fits", "What is 2 + 2? Answer with the number.", {"regex": number("4")}, tools=[weather], expect=None),
    check("tool-after-all", "What is the weather in Oslo?", None, tools=[weather, mail], expect={"name": "get_weather", "arguments": {"city": "Oslo"}}),
    check("extract-long", article + "\n\nWrite the engineer's surname and the length of the bridge in metres, then the years in which something happened to the bridge, in "
          "ascending order, all separated by commas, nothing else.",
          {"regex": "(?i)^\\W*(?:Ingrid )?Solberg\\W+214(?: ?m| met(?:re|er)s)?\\W+" + "\\W+".join(["1931", "1962", "1987", "2004", "2011"]) + "\\W*$"}),
    *(check(f"language-{name}", prompt, {"regex": regex}) for name, (prompt, regex) in LANGUAGES.items()),
    check("thinking-off", "How many days has a week? Answer with the number.", {"regex": has(number("7") + "|\\bseven\\b"), "reasoning": False}, **no_thinking),
    check("stop-sequence", "Count from one to ten in English words, one word per line. Write nothing else.", {"regex": counted}, stop=["seven", "Seven"], **no_thinking),
    check("numbers-copied", "Repeat these numbers in the same order, separated by spaces: 48213 7.0625 -119 300007 0.5 86420",
          {"contains": "48213 7.0625 -119 300007 0.5 86420"}),
]

for name, cases in (("loops", LOOPS), ("checks", CHECKS)):
    with open(f"calib/text/{name}.jsonl", "w", encoding="utf-8") as f:
        for c in cases:
            f.write(json.dumps(c, ensure_ascii=False) + "\n")
    print(name, len(cases))
