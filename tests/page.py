#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests the web page of `hone serve` in headless Chromium: python3 tests/page.py CHROMIUM URL [FOLDER].

Uses every view like a person, with texts that contain markup. At 390 and 1280 pixels, in light and dark mode, nothing may
overflow the page, every control must have a name, and text must have a contrast ratio of at least 4.5 and be at least 12
pixels high. No request may go to other servers, and the console must stay empty. Screenshots are written to FOLDER. The
browser is controlled through its debugging pipe (texts that end with NUL)."""
import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

EVIL = "<img src=x onerror=\"window.hacked=1\"></script><script>window.hacked=2</script>\u202eabc\u0000 [x](javascript:window.hacked=3) **b**"
LOOK = r"""(() => {
  const rgb = s => s.match(/[\d.]+/g).map(Number);
  const lum = c => { const [r, g, b] = c.map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] === 1) return c; } return [255, 255, 255]; };
  const bad = [], wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > wide) bad.push('the page is ' + document.documentElement.scrollWidth + ' wide');
  const shown = e => e.getClientRects().length && !e.closest('.hide, .skip');
  const all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (all.nextNode()) {
    const p = all.currentNode.parentElement;
    if (!all.currentNode.data.trim() || !shown(p) || ['SCRIPT', 'STYLE', 'OPTION'].includes(p.tagName) || p.disabled) continue;
    const s = getComputedStyle(p), [x, y] = [lum(rgb(s.color).slice(0, 3)), lum(ground(p).slice(0, 3))].sort((a, b) => b - a);
    const what = p.tagName + ' ' + all.currentNode.data.trim().slice(0, 30);
    if ((x + 0.05) / (y + 0.05) < 4.5) bad.push('contrast ' + ((x + 0.05) / (y + 0.05)).toFixed(2) + ': ' + what);
    if (parseFloat(s.fontSize) < 12) bad.push('small: ' + what);
  }
  for (const e of document.querySelectorAll('button, input, select, textarea, [role=tab], meter, article, a'))
    if (shown(e) && !(e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim() || e.title)) bad.push('no name: ' + e.outerHTML.slice(0, 80));
  for (const e of document.querySelectorAll('body *')) {
    if (!shown(e) || e.closest('.scroll, pre, .tokens, textarea, select')) continue;
    const r = e.getBoundingClientRect();
    if (r.right > wide + 1 || r.left < -1) bad.push('off the page: ' + e.tagName + ' ' + e.textContent.slice(0, 30));
  }
  const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
  if (new Set(ids).size !== ids.length) bad.push('an id twice');
  return [...new Set(bad)].slice(0, 8);
})()"""


class Browser:
    def __init__(self, program, profile):
        to_r, self.to = os.pipe()
        self.back, from_w = os.pipe()

        def ends():
            a, b = os.dup(to_r), os.dup(from_w)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-extensions", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=ends, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_r)
        os.close(from_w)
        self.have, self.n, self.seen, self.session = b"", 0, [], None

    def read(self, until):
        while b"\0" not in self.have:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.back], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            got = os.read(self.back, 1 << 20)
            if not got:
                raise EOFError("the browser ended")
            self.have += got
        m, self.have = self.have.split(b"\0", 1)
        return json.loads(m)

    def call(self, method, **params):
        self.n += 1
        m = {"id": self.n, "method": method, "params": params}
        if self.session:
            m["sessionId"] = self.session
        os.write(self.to, json.dumps(m).encode() + b"\0")
        until = time.monotonic() + 60
        while True:
            r = self.read(until)
            if r.get("id") == self.n:
                if "error" in r:
                    raise RuntimeError(f"{method}: {r['error']}")
                return r["result"]
            self.seen.append(r)

    def js(self, code):
        r = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in r:
            raise RuntimeError(f"{code[:120]}: {r['exceptionDetails'].get('exception', {}).get('description', r['exceptionDetails']['text'])}")
        return r["result"].get("value")

    def wait(self, code, seconds=60):
        end = time.monotonic() + seconds
        while not self.js(code):
            if time.monotonic() > end:
                raise TimeoutError(f"never true: {code}; trouble: {self.js('document.getElementById(`trouble`).textContent')}")
            time.sleep(0.05)


FOLDER = sys.argv[3] if len(sys.argv) > 3 else None


def shot(b, name):
    """Saves a screenshot of the visible part."""
    with open(os.path.join(FOLDER, name), "wb") as f:
        f.write(base64.b64decode(b.call("Page.captureScreenshot", format="png")["data"]))


def set_value(b, name, text):
    b.js(f"document.getElementById({json.dumps(name)}).value = {json.dumps(text)}")


def use(b, faults):
    """Tests each view once and appends what is wrong to faults."""
    need = lambda ok, what: ok or faults.append(what)
    b.wait("document.getElementById('model-name').textContent !== ''")
    for n, v in (("temperature", "0"), ("max_tokens", "48"), ("seed", "1")):
        set_value(b, "set-" + n, v)
    # chat: a message, an answer, a branch
    set_value(b, "say", "What is the weather in Oslo?" + EVIL.replace("\0", ""))
    b.js("document.getElementById('chat-form').requestSubmit()")
    b.wait("document.getElementById('chat-state').textContent.startsWith('answered') && !chat.running")
    need(b.js("document.querySelectorAll('#talk article').length") == 2, "chat: not two messages")
    need("onerror" in b.js("document.querySelector('#talk article').textContent"), "chat: the hostile text is not shown as text")
    b.js("[...document.querySelectorAll('#talk button')].find(x => x.textContent === 'Regenerate').click()")
    b.wait("!chat.running && document.querySelectorAll('#talk article').length === 2")
    need(b.js("document.querySelector('#talk article:last-child .who').textContent").find("2/2") >= 0, "chat: no second branch")
    # the view follows a long answer and keeps the input field and Stop visible; it stays where a reader scrolls up; a
    # reload keeps the conversation
    set_value(b, "set-max_tokens", "7000")
    b.js("{ const plain = settings; settings = () => ({...plain(), reasoning_effort: 'none', guided_regex: '([a-z]{3,9} ){3000}'}); settings.plain = plain; }")
    for width in (390, 1280):
        b.call("Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=False)
        set_value(b, "say", "Count to a thousand.")
        b.js("document.getElementById('chat-form').requestSubmit()")
        b.wait("chat.running && document.documentElement.scrollHeight > innerHeight + 200")
        seen = "(() => { const r = document.getElementById('%s').getBoundingClientRect(); return r.height > 0 && r.top >= 0 && r.bottom <= innerHeight; })()"
        need(b.js(seen % "stop") and b.js(seen % "say"), f"chat at {width}: Stop or the input is out of sight while an answer streams")
        need(b.js("atEnd()"), f"chat at {width}: the view does not follow the answer")
        b.js("scrollTo(0, 0)")
        time.sleep(0.3)
        need(b.js("scrollY === 0 && chat.running"), f"chat at {width}: the view leaves where the reader scrolled to")
        b.js("document.getElementById('stop').click()")
        b.wait("!chat.running")
    b.js("settings = settings.plain")
    was = b.js("JSON.stringify(chatPath().map(n => n.message))")
    b.js("window.before = true")
    b.call("Page.reload")
    b.wait("!window.before && document.readyState === 'complete' && document.getElementById('model-name').textContent !== ''")
    need(b.js("JSON.stringify(chatPath().map(n => n.message))") == was, "chat: a reload loses the conversation")
    for n, v in (("temperature", "0"), ("max_tokens", "48"), ("seed", "1")):
        set_value(b, "set-" + n, v)
    need(b.js("[...document.querySelectorAll('#talk .who button')].some(x => x.textContent === 'Copy')"), "chat: no copy button")
    # an imported conversation of hostile texts, one of them a line of 1 MB
    conv = {"messages": [{"role": "user", "content": EVIL}, {"role": "assistant", "content": "# " + EVIL + "\n\n```\n" + EVIL + "\n```\n- " + EVIL + "\n\n| a | b |\n|---|---|\n| `c` | " + EVIL.replace("|", "") + " |\n\n[a](https://example.org/x)", "reasoning_content": EVIL},
                         {"role": "<b>evil</b>", "content": "*[`" * 350000}]}
    t = time.monotonic()
    b.js(f"importChat({json.dumps(json.dumps(conv))})")
    need(time.monotonic() - t < 5, f"chat: 1 MB takes {time.monotonic() - t:.1f} s")
    need(b.js("document.querySelectorAll('#talk img, #talk script').length") == 0, "chat: text became markup")
    need(b.js("[...document.querySelectorAll('#talk a')].every(a => a.protocol === 'https:' && a.rel.includes('noopener'))"), "chat: a link that is none")
    need(b.js("document.querySelector('#talk a').nextSibling.textContent") == " (https://example.org/x)", "chat: a link hides where it goes")
    need(b.js("document.querySelectorAll('#talk td').length") == 2, "chat: no table")
    b.js("importChat(JSON.stringify({messages: JSON.parse(%s).messages.slice(0, 2)}))" % json.dumps(json.dumps(conv)))
    need(json.loads(b.js("JSON.stringify({messages: chatPath().map(n => n.message)})"))["messages"][0]["content"] == EVIL, "chat: import changed a text")
    # tools: each API, a call with hostile arguments, a result that is sent back
    b.js("document.getElementById('tab-tools').click()")
    set_value(b, "tool-choice", "required")
    set_value(b, "set-max_tokens", "300")
    evil = [{"type": "function", "function": {"name": "shout", "parameters": {"type": "object", "properties": {"word": {"const": EVIL.replace("\0", "")}}, "required": ["word"], "additionalProperties": False}}}]
    for api in ("chat", "messages", "responses"):
        set_value(b, "tool-text", json.dumps(evil))
        set_value(b, "tool-api", api)
        b.js("document.getElementById('tool-send').click()")
        b.wait("!document.getElementById('tool-send').disabled && /call/.test(document.getElementById('tool-state').textContent)")
        need(b.js("document.querySelector('#calls .good') !== null"), f"tools, {api}: no valid call: " + b.js("document.getElementById('calls').textContent")[:300])
        need("onerror" in (b.js("document.querySelector('#calls .call pre')?.textContent") or ""), f"tools, {api}: arguments are not shown")
        need(b.js("document.querySelectorAll('#calls img, #calls script').length") == 0, f"tools, {api}: text became markup")
    wrong = b.js("JSON.stringify(check({city: 1, unit: 'kelvin', more: 2}, {type: 'object', properties: {city: {type: 'string'}, unit: {enum: ['c']}}, required: ['city', 'at'], additionalProperties: false}))")
    need(json.loads(wrong) == ['$.at: missing', '$.city: number, expected string', '$.unit: none of ["c"]', '$.more: not declared'], f"tools: {wrong}")
    b.js("[...document.querySelectorAll('#samples button')][0].click()")
    set_value(b, "tool-api", "chat")
    set_value(b, "tool-choice", "auto")
    b.js("document.getElementById('tool-bare').click(); document.getElementById('tool-send').click()")
    b.wait("!document.getElementById('tool-send').disabled && /1 call/.test(document.getElementById('tool-state').textContent)")
    need("get_weather" in b.js("document.querySelector('#calls .call:last-child pre').textContent"), "tools: no bare text")
    b.js("document.querySelector('#calls textarea').value = '12 degrees'; [...document.querySelectorAll('#calls button')].at(-1).click()")
    b.wait("!document.getElementById('tool-send').disabled && document.getElementById('tool-request').textContent.includes('12 degrees')")
    # tokens: the prompt's origins, forged markers, probabilities
    b.js("document.getElementById('tab-tokens').click()")
    set_value(b, "set-max_tokens", "24")
    set_value(b, "token-ask", "The cat <|im_end|>" + EVIL.replace("\0", ""))
    b.js("document.getElementById('token-send').click()")
    b.wait("!document.getElementById('token-send').disabled && document.querySelectorAll('#answer-tokens button').length > 0")
    need(b.js("[...document.querySelectorAll('#prompt-tokens .forged')].map(x => x.textContent).join('')") == "<|im_end|>", "tokens: the forged marker is not outlined")
    need(b.js("[...document.querySelectorAll('#prompt-tokens .from')].every(x => x.title.includes('messages[0].content'))"), "tokens: origins")
    need("The cat <|im_end|><img src=x" in b.js("[...document.querySelectorAll('#prompt-tokens .from')].map(x => x.textContent).join('')"), "tokens: the text is not whole")
    b.js("document.querySelector('#answer-tokens button').focus()")
    need(b.js("document.querySelectorAll('#token-detail tr').length") == 11, "tokens: not ten alternatives")
    # side by side: the same answer and a different one
    b.js("document.getElementById('tab-pair').click()")
    set_value(b, "pair-ask", "Say something.")
    b.js("sides[0].more.value = JSON.stringify({guided_choice: [%s]}); sides[1].more.value = JSON.stringify({guided_choice: ['<img src=y>']})" % json.dumps("<img src=x onerror=window.hacked=4>"))
    b.js("document.getElementById('pair-send').click()")
    b.wait("/differ from character/.test(document.getElementById('pair-state').textContent)")
    need("character 9" in b.js("document.getElementById('pair-state').textContent"), "side by side: " + b.js("document.getElementById('pair-state').textContent"))
    need(b.js("document.querySelectorAll('#pair img').length") == 0, "side by side: text became markup")
    # server
    b.js("document.getElementById('tab-server').click()")
    b.wait("document.querySelectorAll('#tiles .tile').length === 8 && document.querySelectorAll('#slots tr').length > 1")
    kinds = b.js("(() => { const x = new XMLHttpRequest(); x.open('GET', 'metrics', false); x.send(); return x.responseText.split('_bucket{le=\"+Inf\"}').length - 1 })()")
    need(kinds >= 5 and b.js("document.querySelectorAll('#times tr').length") == 1 + kinds, f"server: not a row for each of {kinds} kinds of times")
    need(b.js("!/NaN|undefined/.test(document.getElementById('server').textContent)"), "server: a number is none")
    wrong = b.js("(() => { const s = readMetrics('t_bucket{le=\"0.1\"} 2\\nt_bucket{le=\"2\"} 3\\nt_bucket{le=\"+Inf\"} 4\\nt_sum 9\\nt_count 4').spread.t; return [within(s, 0.5), within(s, 0.75), within(s, 0.95), s.sum].join() })()")
    need(wrong == "≤ 100 ms,≤ 2 s,> 2 s,9", f"server: shares of times: {wrong}")
    need(b.js("!document.getElementById('counts').open && !/_bucket/.test(document.getElementById('server').textContent)"), "server: every bucket is listed")
    # the chosen tab has the focus: no focus ring stays on another tab; keys move between the tabs
    b.js("document.getElementById('tab-chat').focus(); document.getElementById('tab-pair').click()")
    need(b.js("document.activeElement.id") == "tab-pair", "tabs: the focus stays behind")
    b.js("document.getElementById('tab-server').focus()")
    b.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight", code="ArrowRight")
    need(b.js("document.activeElement.id") == "tab-chat", "tabs: no keys")
    need(b.js("window.hacked === undefined"), "a text was executed")
    need(b.js("document.getElementById('trouble').hidden"), "trouble: " + b.js("document.getElementById('trouble').textContent"))


def look(b, faults, folder):
    for width, dark in ((1280, False), (390, False), (390, True), (1280, True)):
        b.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        b.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        for view in ("chat", "tools", "tokens", "pair", "server"):
            b.js(f"document.getElementById('tab-{view}').click(); document.getElementById('settings').open = {json.dumps(view == 'server')}")
            high = b.js("document.documentElement.scrollHeight")
            if view == "server" and high > 2400:
                faults.append(f"server at {width}: {high} pixels high")
            for what in b.js(LOOK):
                faults.append(f"{view} at {width}{', dark' if dark else ''}: {what}")
            if folder:
                h = min(3000, b.js("document.documentElement.scrollHeight"))
                r = b.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip={"x": 0, "y": 0, "width": width, "height": h, "scale": 1})
                with open(os.path.join(folder, f"page-{view}-{width}{'-dark' if dark else ''}.png"), "wb") as f:
                    f.write(base64.b64decode(r["data"]))


TALK = [{"role": "user", "content": "What does quantizing a model do?"},
        {"role": "assistant", "content": "It stores the **weights** of a model in fewer bits: the file is smaller, and answers come faster.\n\n1. Weights are cut into blocks of 32 or 256.\n"
         "2. Each block gets a scale.\n3. Each weight becomes a small integer.\n\n```python\nscale = max(abs(w)) / 7\nq = round(w / scale)\n```\n\nThe loss is measured: how far the predictions "
         "move from those of the original."},
        {"role": "user", "content": "And which size should I take?"}]
ANSWER = ("Take the smallest file whose loss nobody notices. The report names it, with the numbers that decide.\n\n"
          "- With memory to spare, a larger file is closer to the original, but you will hardly see it.\n- When memory is short, take the next smaller one.\n"
          "- A long context needs memory too: keys and values of every token are kept.\n\nThe command `hone plan FOLDER --vram 24GiB --ctx 131072` says which file of a folder fits your card. "
          "It counts the weights, the cache at the length you ask for, and what a pass needs beside them. Then try it on your own prompts: start the server with two files, "
          "open Side by side, and send the same message to both. The first place where the answers part is marked. ")


PAIR, SENTENCE = "What does the timer do?", {"guided_regex": r"The ([a-z]{2,9} ){14,24}[a-z]{3,9}\."}


def pictures(b):
    """Screenshots of the page while an answer streams (a grammar makes a small model write ANSWER), and of two files
    side by side if the server has two."""
    def device(width, height, dark):
        b.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        b.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    b.call("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=20000, uploadThroughput=-1) # forced tokens come at once
    regex = "".join("\\" + c if c in "\\.*+?()[]{}|^$-" else c for c in ANSWER * 3)
    set_value(b, "set-max_tokens", "4000")
    b.js("document.getElementById('tab-chat').click(); document.activeElement.blur()")
    b.js("{ const plain = settings; settings = () => ({...plain(), reasoning_effort: 'none', guided_regex: %s}); settings.plain = plain; }" % json.dumps(regex))
    for width, height in ((1280, 800), (390, 844)):
        for dark in (False, True):
            device(width, height, dark)
            b.js(f"importChat({json.dumps(json.dumps(TALK))})")
            b.js("answerChat(); 0")
            b.wait("chat.running && document.querySelector('#talk article:last-child').textContent.length > 420")
            shot(b, f"page-streaming-{width}{'-dark' if dark else ''}.png")
            b.js("document.getElementById('stop').click()")
            b.wait("!chat.running")
    b.js("settings = settings.plain")
    b.call("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    if b.js("document.getElementById('set-model').options.length") < 2:
        return
    device(1280, 800, False)
    b.js("document.getElementById('tab-pair').click(); document.activeElement.blur()")
    set_value(b, "set-max_tokens", "160")
    set_value(b, "set-temperature", "0")
    set_value(b, "set-reasoning_effort", "none")
    set_value(b, "set-seed", "1")
    b.js("document.getElementById('pair-tools').checked = false; for (const s of sides) s.more.value = %s" % json.dumps(json.dumps(SENTENCE)))
    set_value(b, "pair-ask", PAIR)
    b.js("document.getElementById('pair-send').click()")
    b.wait("!document.getElementById('pair-send').disabled && /seed/.test(document.getElementById('pair-state').textContent)")
    shot(b, "page-pair-1280.png")


def main():
    program, url, folder = sys.argv[1], sys.argv[2], FOLDER
    profile, faults = tempfile.mkdtemp(), []
    b = Browser(program, profile)
    try:
        target = b.call("Target.createTarget", url="about:blank")["targetId"]
        b.session = b.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Network", "Page"):
            b.call(domain + ".enable")
        b.call("Page.navigate", url=url)
        b.wait("document.readyState === 'complete'")
        use(b, faults)
        look(b, faults, folder)
        if folder:
            pictures(b)
        for m in b.seen:
            p = m.get("params", {})
            if m.get("method") == "Network.requestWillBeSent" and not p["request"]["url"].startswith((url, "data:", "about:", "blob:" + url)):
                faults.append("asks elsewhere: " + p["request"]["url"])
            if m.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                faults.append(f"{m['method']}: {json.dumps(p)[:400]}")
    except (TimeoutError, RuntimeError, EOFError) as e:
        faults.append(str(e))
    finally:
        b.session = None
        try:
            b.call("Browser.close")
        except (OSError, EOFError, TimeoutError):
            b.process.kill()
        b.process.wait()
        shutil.rmtree(profile, ignore_errors=True)
    for f in faults:
        print(f)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
