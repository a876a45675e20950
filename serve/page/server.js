// SPDX-License-Identifier: MIT
// serve/page/server.js - the server view, refreshed every two seconds while visible; the tabs; startup.
const bytes = n => n >= 1 << 30 ? (n / (1 << 30)).toFixed(2) + ' GiB' : n >= 1 << 20 ? (n / (1 << 20)).toFixed(1) + ' MiB' : Math.round(n / 1024) + ' KiB';
const whole = n => Number.isInteger(n) ? n.toLocaleString('en') : n.toPrecision(4);
let before = null;

// Parses /metrics: values by name, help texts, and for each histogram its [bound, cumulative count] pairs, sum and count.
function readMetrics(text) {
  const m = {}, help = {}, spread = {};
  for (const l of text.split('\n')) {
    const h = /^# HELP (\S+) (.*)/.exec(l), v = /^([a-z_:]+(?:\{[^}]*\})?) (\S+)$/i.exec(l), b = /^(\w+)_bucket\{le="([^"]+)"\} (\d+)$/.exec(l);
    if (h) help[h[1]] = h[2];
    if (b) (spread[b[1]] ||= {rows: []}).rows.push([b[2] === '+Inf' ? Infinity : Number(b[2]), Number(b[3])]);
    else if (v) m[v[1]] = Number(v[2]);
  }
  for (const [n, s] of Object.entries(spread))
    for (const k of ['sum', 'count']) {
      s[k] = m[n + '_' + k];
      delete m[n + '_' + k];
    }
  return {m, help, spread};
}
const time = s => s < 1 ? Number((1000 * s).toPrecision(3)) + ' ms' : Number(s.toPrecision(3)) + ' s';
// Returns the bucket bound below which the given share of the samples falls.
function within(s, share) {
  const row = s.rows.find(([, n]) => n >= share * s.count);
  return !s.count || !row ? '–' : row[0] === Infinity ? '> ' + time(s.rows.at(-2)[0]) : '≤ ' + time(row[0]);
}

function drawServer({m, help, spread}, props, slots) {
  const d = n => before ? m[n] - before[n] : 0, secs = d('hone_uptime_seconds');
  const step = d('hone_steps_total') ? 1000 * d('hone_busy_seconds_total') / d('hone_steps_total') : 0;
  const tile = (name, value, part) => el('div', {class: 'tile'}, el('span', {class: 'quiet'}, name), el('b', {}, value), part == null ? null : el('meter', {min: 0, max: 1, value: part, 'aria-label': name}));
  const cached = m.hone_prompt_tokens_total ? m.hone_prompt_tokens_cached_total / m.hone_prompt_tokens_total : 0;
  fill($('tiles'), tile('Running', whole(m.hone_requests_running)), tile('Waiting', whole(m.hone_requests_waiting)),
    tile('Tokens/s', secs ? (d('hone_output_tokens_total') / secs).toFixed(1) : '–'), tile('Batch time', step ? step.toFixed(1) + ' ms' : '–'),
    tile('Batch size', d('hone_steps_total') ? (d('hone_rows_total') / d('hone_steps_total')).toFixed(1) : '–'),
    tile('Prompt tokens cached', Math.round(100 * cached) + ' %', cached), tile('Cached conversations', whole(m.hone_kept_sequences)),
    tile('Context memory', bytes(m.hone_context_bytes) + ' of ' + bytes(m.hone_context_budget_bytes), m.hone_context_bytes / m.hone_context_budget_bytes));
  fill($('slots'), el('tr', {}, ['Slot', 'State', 'Tokens', 'Cached', 'Request', ...(slots.some(s => s.model) ? ['File'] : [])].map(t => el('th', {}, t))),
    slots.map(s => el('tr', {}, [s.id, s.state || 'free', s.n_past ?? '', s.n_cached ?? '', s.request_id ?? '', ...(s.model ? [s.model] : [])].map(t => el('td', {}, String(t))))));
  fill($('times'), el('tr', {}, ['What', 'Mean', 'Median', '95 %'].map(t => el('th', {}, t))),
    Object.entries(spread).map(([n, s]) => el('tr', {}, el('td', {}, help[n] || n, el('div', {class: 'quiet'}, whole(s.count) + ' times')),
      [s.count ? time(s.sum / s.count) : '–', within(s, 0.5), within(s, 0.95)].map(t => el('td', {class: 'num'}, t)))));
  const own = Object.keys(m).filter(n => n.startsWith('hone_'));
  $('metrics-name').textContent = `All metrics (${own.length})`;
  fill($('metrics'), own.map(n => el('tr', {}, el('td', {class: 'name'}, n, el('div', {class: 'quiet'}, help[n.split('{')[0]] || '')), el('td', {class: 'num'}, whole(m[n])))));
  $('server-state').textContent = `${props.build_info} · ${props.model_path} · ${props.total_slots} slots · context ${props.default_generation_settings.n_ctx} · calls: ${props.tool_format || 'none'} · up ${Math.round(m.hone_uptime_seconds)} s`;
  before = m;
}
const propsOf = () => '/props?model=' + encodeURIComponent($('set-model').value);
async function pollServer() {
  if ($('server').hidden || document.hidden) return;
  try {
    drawServer(readMetrics(await (await ask('/metrics')).text()), await getJson(propsOf()), await getJson('/slots'));
    trouble('');
  } catch (e) {
    trouble('The server is not responding: ' + e.message);
  }
}
setInterval(pollServer, 2000);

// ---- tabs ----

const tabs = [...document.querySelectorAll('[role=tab]')];
function showTab(t, focus) {
  for (const x of tabs) {
    const on = x === t;
    x.setAttribute('aria-selected', String(on));
    x.tabIndex = on ? 0 : -1;
    $(x.getAttribute('aria-controls')).hidden = !on;
  }
  $('settings').hidden = t.id === 'tab-server';
  document.body.dataset.view = t.getAttribute('aria-controls');
  if (focus) t.focus();
  history.replaceState(null, '', '#' + t.getAttribute('aria-controls'));
  pollServer();
}
tabs.forEach((t, i) => {
  t.addEventListener('click', () => showTab(t, true));
  t.addEventListener('keydown', e => {
    const to = {ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: tabs.length - 1}[e.key];
    if (to !== undefined) showTab(tabs.at(to % tabs.length), true);
  });
});

// ---- startup ----

// Shows the name and default settings of the selected file.
async function showModel() {
  const chosen = $('set-model'), several = chosen.options.length > 1;
  $('model-name').textContent = chosen.value;
  $('model-name').hidden = several;
  $('model-box').hidden = !several;
  const p = (await getJson(propsOf())).default_generation_settings.params;
  for (const n of ['temperature', 'top_p', 'top_k', 'min_p']) $('set-' + n).placeholder = String(+Number(p[n]).toPrecision(6));
}
$('set-model').addEventListener('change', () => showModel().catch(e => trouble(e.message)));

async function start() {
  trouble('');
  try {
    const list = (await getJson('/v1/models')).data.filter(m => m.status.value !== 'failed');
    const first = (list.find(m => m.default) || list[0]).id, other = list.find(m => m.id !== first);
    $('key-form').hidden = true;
    for (const s of [$('set-model'), ...sides.map(x => x.model)]) {
      fill(s, list.map(m => el('option', {value: m.id}, m.id)));
      s.value = first;
    }
    if (other) sides[1].model.value = other.id;
    $('pair-one').hidden = list.length > 1;
    await showModel();
  } catch (e) {
    trouble(e.message);
  }
}
$('key-form').addEventListener('submit', e => {
  e.preventDefault();
  sessionStorage.setItem(keyName, $('key').value);
  $('key').value = '';
  start();
});
showTab(tabs.find(t => '#' + t.getAttribute('aria-controls') === location.hash) || tabs[0]);
start();
