// SPDX-License-Identifier: MIT
// serve/page/chat.js - the chat view: a tree of messages, with one path shown. Editing and regenerating add a branch. The tree
// is kept in the browser's storage and survives a reload.
const chat = {root: {kids: [], at: 0}, id: 0, running: false};
// The conversations of this browser, newest first: [{id, title, root}, ...]; storeMost: limit in characters.
const storeName = 'hone-chats', storeMost = 3 << 20;
let past = [];

const bare = n => ({message: n.message, at: n.at, state: n.state, kids: n.kids.map(bare)});
const titleOf = root => (root.kids[root.at]?.message.content || 'Untitled').replace(/\s+/g, ' ').slice(0, 48);
function drawPast() {
  const old = past.filter(c => c.id !== chat.id);
  $('past-box').hidden = !old.length;
  fill($('past'), el('option', {value: ''}, 'Earlier chats'), old.map(c => el('option', {value: c.id}, c.title)));
  $('forget').hidden = !chat.root.kids.length;
}
// Stores the open chat as the newest, and drops the oldest beyond storeMost.
function keepChat() {
  past = past.filter(c => c.id !== chat.id);
  if (chat.root.kids.length) past.unshift({id: chat.id ||= Date.now(), title: titleOf(chat.root), root: bare(chat.root)});
  drawPast();
  try {
    let text = JSON.stringify(past);
    for (let n = past.length - 1; text.length > storeMost && n >= 0; n--) text = JSON.stringify(past.slice(0, n));
    localStorage.setItem(storeName, text);
  } catch { /* storage is full or forbidden: the chats are lost with the tab */ }
}
function openChat(c) {
  const grow = (n, parent) => {
    n.parent = parent;
    n.done = true;
    n.kids.forEach(k => grow(k, n));
    return n;
  };
  chat.id = c ? c.id : 0;
  chat.root = c ? grow(structuredClone(c.root)) : {kids: [], at: 0};
}
function recallChat() {
  try {
    past = JSON.parse(localStorage.getItem(storeName)) || [];
    openChat(past[0]);
  } catch { /* written by another version */
    past = [];
  }
}

// The view follows the answer while its end is visible, and stays put if the user scrolls up.
const atEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 60;
function followed(draw) {
  const end = atEnd() && !$('chat').hidden;
  draw();
  if (end) scrollTo(0, document.documentElement.scrollHeight);
}

const addKid = (parent, message) => {
  const n = {message, kids: [], at: 0, parent};
  parent.kids.push(n);
  parent.at = parent.kids.length - 1;
  return n;
};
function chatPath() {
  const path = [];
  for (let n = chat.root.kids[chat.root.at]; n; n = n.kids[n.at]) path.push(n);
  return path;
}
const lastNode = () => chatPath().at(-1) || chat.root;

function branches(n) {
  const p = n.parent;
  if (p.kids.length < 2) return [];
  const go = by => () => {
    p.at = (p.at + by + p.kids.length) % p.kids.length;
    drawChat();
  };
  return [el('button', {class: 'small', 'aria-label': 'Earlier branch', onclick: go(-1)}, '‹'), el('span', {}, `${p.at + 1}/${p.kids.length}`),
    el('button', {class: 'small', 'aria-label': 'Later branch', onclick: go(1)}, '›')];
}

function edit(n, box) {
  const field = el('textarea', {rows: 4, 'aria-label': 'Edited message', dir: 'auto'});
  field.value = n.message.content || '';
  const done = () => {
    addKid(n.parent, {...n.message, content: field.value});
    drawChat();
    if (n.message.role === 'user') answerChat();
  };
  fill(box, field, el('div', {class: 'row'}, el('button', {class: 'small', onclick: done}, 'Use as a new branch'),
    el('button', {class: 'small', onclick: drawChat}, 'Cancel')));
  field.focus();
}

function drawText(n) {
  const m = n.message, think = m.reasoning_content;
  const open = n.box && n.box.querySelector('details.think')?.open;
  fill(n.box,
    think ? el('details', {class: 'think', open}, el('summary', {}, m.content || n.done ? 'Thinking' : 'Thinking …'), el('pre', {}, visible(think))) : null,
    markdown(m.content || ''),
    (m.tool_calls || []).map(c => el('pre', {tabindex: 0}, visible(c.function.name + ' ' + c.function.arguments))),
    chat.running && !n.done && !m.content && !m.tool_calls && !think && m.role === 'assistant' ? el('p', {class: 'wait', 'aria-label': 'waiting'}, el('i'), el('i'), el('i')) : null,
    n.state ? el('p', {class: 'quiet'}, n.state) : null);
}

function drawMessage(n) {
  const m = n.message;
  n.box = el('div', {class: 'text', dir: 'auto'});
  drawText(n);
  const small = (name, f) => el('button', {class: 'small plain', disabled: chat.running, onclick: f}, name);
  const known = m.role === 'user' || m.role === 'assistant';
  return el('article', {class: 'say ' + m.role, 'aria-label': m.role}, known ? null : el('div', {class: 'role'}, m.role), n.box,
    el('div', {class: 'who'}, copyButton(() => m.content || ''), small('Edit', () => edit(n, n.box)),
      m.role === 'assistant' ? small('Regenerate', () => {
        let p = n.parent;
        while (p.message && p.message.role === 'assistant') p = p.parent;
        answerChat(p);
      }) : null, branches(n)));
}
const ideas = ['Explain what quantizing a language model does.', 'Write four lines about the sea, then count the words.', 'List three names for a small bakery as JSON.'];
function drawHint() {
  const go = text => {
    $('say').value = text;
    $('chat-form').requestSubmit();
  };
  return el('div', {class: 'hint'}, el('h2', {}, 'Ask something'), el('div', {class: 'ideas'}, ideas.map(t => el('button', {type: 'button', onclick: () => go(t)}, t))),
    el('p', {class: 'quiet'}, 'Set the system message and the temperature in Settings. Tools shows the calls a model makes, Tokens its alternatives; Side by side compares two files or settings. Chats stay in this browser.'));
}
function drawChat() {
  const path = chatPath();
  $('talk').classList.toggle('running', chat.running);
  fill($('talk'), path.length ? path.map(drawMessage) : drawHint());
  keepChat();
}

async function answerChat(parent = lastNode()) {
  if (chat.running) return;
  const messages = [];
  for (let p = parent; p.message; p = p.parent) messages.unshift(p.message);
  const n = addKid(parent, {role: 'assistant', content: ''}), a = gather();
  const update = () => {
    Object.assign(n.message, {content: a.content}, a.reasoning ? {reasoning_content: a.reasoning} : {}, a.calls.length ? {tool_calls: a.calls} : {});
    followed(() => drawText(n));
  };
  const soon = slowly(update);
  chat.running = true;
  drawChat();
  scrollTo(0, document.documentElement.scrollHeight);
  $('chat-state').textContent = 'answering';
  await busy($('stop'), $('send'), $('chat-state'), async signal => {
    await stream('/v1/chat/completions', chatBody(messages), signal, j => (a.take(j), soon()));
    n.state = spent(a.usage, a.timings) + (a.finish === 'stop' || !a.finish ? '' : ' · ended by ' + a.finish);
    $('chat-state').textContent = 'answered';
  });
  chat.running = false;
  n.done = true;
  update();
  if (!n.message.content && !n.message.reasoning_content && !n.message.tool_calls) {
    parent.kids.splice(parent.kids.indexOf(n), 1);
    parent.at = Math.max(0, parent.kids.length - 1);
  }
  if ($('chat-state').textContent === 'answering') $('chat-state').textContent = '';
  followed(drawChat);
}

// One line per conversation, the format of `hone imatrix` and `hone eval`.
function exportChat() {
  const line = JSON.stringify({messages: withSystem(chatPath().map(n => n.message))}) + '\n';
  const a = el('a', {href: URL.createObjectURL(new Blob([line], {type: 'application/jsonl'})), download: 'chat.jsonl'});
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 1000);
}
function importChat(text) {
  const j = JSON.parse(text.split('\n').find(l => l.trim()) || 'null'), list = Array.isArray(j) ? j : j && j.messages;
  if (!Array.isArray(list)) throw new Error('the first line has no list of messages');
  openChat(null);
  let n = chat.root;
  for (const m of list) {
    if (typeof m !== 'object' || !m || typeof m.role !== 'string') throw new Error('a message without a role');
    if (m.role === 'system' && n === chat.root) $('set-system').value = String(m.content || '');
    else n = addKid(n, {...m, role: m.role.replace(/[^a-z]/g, ''), content: typeof m.content === 'string' ? m.content : m.content == null ? '' : JSON.stringify(m.content)});
  }
  drawChat();
}

$('chat-form').addEventListener('submit', e => {
  e.preventDefault();
  if (chat.running) return;
  const text = $('say').value;
  if (text.trim()) addKid(lastNode(), {role: 'user', content: text});
  else if (!['user', 'tool'].includes(lastNode().message?.role)) return;
  $('say').value = '';
  fitSay();
  answerChat();
});
// Grows the field with its text.
function fitSay() {
  $('say').style.height = 'auto';
  $('say').style.height = Math.min($('say').scrollHeight + 2, innerHeight / 3) + 'px';
}
$('say').addEventListener('input', fitSay);
$('say').addEventListener('keydown', e => {
  if (e.key !== 'Enter' || e.shiftKey || e.isComposing) return;
  e.preventDefault();
  $('chat-form').requestSubmit();
});
$('new').addEventListener('click', () => {
  if (chat.running) return;
  openChat(null);
  drawChat();
  $('say').focus();
});
$('past').addEventListener('change', () => {
  const c = past.find(x => String(x.id) === $('past').value);
  if (chat.running || !c) return drawPast();
  openChat(c);
  drawChat();
  scrollTo(0, document.documentElement.scrollHeight);
});
$('forget').addEventListener('click', () => {
  if (chat.running || !confirm('Delete this chat?')) return;
  chat.root = {kids: [], at: 0};
  keepChat();
  openChat(past[0]);
  drawChat();
});
$('export').addEventListener('click', exportChat);
$('import').addEventListener('click', () => $('import-file').click());
$('import-file').addEventListener('change', async e => {
  try {
    importChat(await e.target.files[0].text());
    trouble('');
  } catch (x) {
    trouble('This file cannot be imported: ' + x.message);
  }
  e.target.value = '';
});

recallChat();
drawChat();
