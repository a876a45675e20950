// SPDX-License-Identifier: MIT
// serve/page/base.js - helpers shared by the views: DOM nodes, requests, settings. Text of models and users enters the page
// as text nodes only; HTML is never parsed.
'use strict';
const $ = id => document.getElementById(id);

// Creates a node. Props become attributes, 'on...' listeners, and true an empty attribute. Kids
// are nodes or strings.
function el(tag, props, ...kids) {
  const n = document.createElement(tag);
  for (const [k, v] of Object.entries(props || {})) {
    if (k.startsWith('on')) n.addEventListener(k.slice(2), v);
    else if (v === true) n.setAttribute(k, '');
    else if (v !== false && v != null) n.setAttribute(k, v);
  }
  for (const k of kids.flat()) if (k != null && k !== false) n.append(k);
  return n;
}
// Replaces the contents of a node.
function fill(n, ...kids) {
  n.replaceChildren();
  for (const k of kids.flat()) if (k != null && k !== false) n.append(k);
  return n;
}

// Replaces invisible characters, and those that change the text direction, by their code points.
const visible = s => s.replace(/[\u0000-\u0008\u000b-\u001f\u007f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g,
  c => '⟨' + c.charCodeAt(0).toString(16).padStart(4, '0') + '⟩');

// Creates a button that copies get(); null if the browser forbids copying (plain HTTP from another host).
function copyButton(get) {
  if (!navigator.clipboard) return null;
  const b = el('button', {class: 'small', type: 'button', onclick: async () => {
    await navigator.clipboard.writeText(get());
    b.textContent = 'Copied';
    setTimeout(() => (b.textContent = 'Copy'), 1500);
  }}, 'Copy');
  return b;
}

function trouble(text) {
  $('trouble').textContent = text || '';
  $('trouble').hidden = !text;
}

// ---- requests ----

const keyName = 'hone-key';
function headers() {
  const h = {'content-type': 'application/json'}, key = sessionStorage.getItem(keyName);
  if (key) h.authorization = 'Bearer ' + key;
  return h;
}

// Sends a request and returns the answer; body undefined: GET. Throws the server's error message.
async function ask(path, body, signal) {
  const r = await fetch(path, {method: body === undefined ? 'GET' : 'POST', headers: headers(), signal,
    body: body === undefined ? undefined : JSON.stringify(body)});
  if (r.status === 401) $('key-form').hidden = false;
  if (r.ok) return r;
  let why = r.status + ' ' + r.statusText;
  try {
    const j = await r.json();
    why = typeof j.error === 'string' ? j.error : j.error.message || why;
  } catch { /* not JSON: the status must do */ }
  throw new Error(why);
}
const getJson = async (path, body, signal) => (await ask(path, body, signal)).json();

// Sends a request and passes every event of its stream to take(data, name, raw).
async function stream(path, body, signal, take) {
  const r = await ask(path, body, signal), reader = r.body.getReader(), text = new TextDecoder();
  let have = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) break;
    have += text.decode(value, {stream: true});
    const parts = have.split('\n\n');
    have = parts.pop();
    for (const part of parts) {
      let name = '', data = '';
      for (const line of part.split('\n')) {
        if (line.startsWith('event: ')) name = line.slice(7);
        if (line.startsWith('data: ')) data += line.slice(6);
      }
      if (!data || data === '[DONE]') {
        if (data) take(null, name, part);
        continue;
      }
      const j = JSON.parse(data);
      if (j.error) throw new Error(j.error.message || String(j.error));
      take(j, name, part);
    }
  }
}

// Runs work(signal) while a stop button is shown; reports errors.
async function busy(stop, go, state, work) {
  const c = new AbortController(), end = () => c.abort();
  stop.addEventListener('click', end);
  stop.hidden = false;
  go.disabled = true;
  trouble('');
  try {
    await work(c.signal);
  } catch (e) {
    if (e.name === 'AbortError') state.textContent = 'stopped';
    else trouble(e.message);
  }
  stop.removeEventListener('click', end);
  stop.hidden = true;
  go.disabled = false;
}

// ---- settings ----

const numbers = ['temperature', 'top_p', 'top_k', 'min_p', 'max_tokens', 'seed'];
function settings() {
  const s = {};
  if ($('set-model').value) s.model = $('set-model').value;
  for (const n of numbers) if ($('set-' + n).value !== '') s[n] = Number($('set-' + n).value);
  for (const n of ['reasoning_effort', 'preset', 'stop']) if ($('set-' + n).value) s[n] = $('set-' + n).value;
  const kwargs = $('set-kwargs').value.trim();
  if (kwargs) s.chat_template_kwargs = JSON.parse(kwargs);
  return s;
}
const withSystem = messages => $('set-system').value ? [{role: 'system', content: $('set-system').value}, ...messages] : messages;

const rate = t => t && t.predicted_per_second ? t.predicted_per_second.toFixed(1) + ' tokens/s' : '';
function spent(usage, timings) {
  if (!usage) return '';
  const cached = usage.prompt_tokens_details ? usage.prompt_tokens_details.cached_tokens : 0;
  const share = usage.prompt_tokens ? Math.round(100 * cached / usage.prompt_tokens) : 0;
  return [usage.completion_tokens + ' tokens', rate(timings), `prompt ${usage.prompt_tokens}, ${share} % cached`,
    timings && timings.interventions ? timings.interventions + ' tokens changed by the grammar' : '',
    timings && timings.problems ? 'problems: ' + timings.problems.join(', ') : ''].filter(Boolean).join(' · ');
}

// Collects the parts of a chat stream: {content, reasoning, calls, finish, usage, timings}.
function gather() {
  const a = {content: '', reasoning: '', calls: [], finish: null, usage: null, timings: null};
  a.take = j => {
    if (!j) return;
    if (j.usage) a.usage = j.usage;
    const c = j.choices && j.choices[0];
    if (!c) return;
    if (j.timings) a.timings = j.timings;
    if (c.finish_reason) a.finish = c.finish_reason;
    a.content += c.delta.content || '';
    a.reasoning += c.delta.reasoning_content || '';
    for (const t of c.delta.tool_calls || []) {
      const k = a.calls[t.index] ||= {id: t.id, type: 'function', function: {name: '', arguments: ''}};
      k.function.name += t.function.name || '';
      k.function.arguments += t.function.arguments || '';
    }
  };
  return a;
}
const chatBody = (messages, more) => ({...settings(), messages: withSystem(messages), stream: true,
  stream_options: {include_usage: true}, ...more});

// Calls draw repeatedly while text streams in, rarely enough that long texts do not stall the page.
function slowly(draw) {
  let due = 0, waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => {
      waiting = false;
      const t = performance.now();
      draw();
      due = performance.now() + Math.min(2000, 10 * (performance.now() - t));
    }, Math.max(16, due - performance.now()));
  };
}
