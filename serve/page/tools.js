// SPDX-License-Identifier: MIT
// serve/page/tools.js - the tools view: a request with tools through one of three APIs, with the model's text next to the parsed calls.
const tool = (name, description, properties, required) => ({type: 'function', function: {name, description, parameters: {type: 'object', properties, required}}});
const samples = {
  Weather: [[tool('get_weather', 'The weather of a city.', {city: {type: 'string'}, unit: {enum: ['celsius', 'fahrenheit']}}, ['city'])], 'What is the weather in Oslo?'],
  Files: [[tool('read_file', 'Reads lines of a file.', {path: {type: 'string'}, from: {type: 'integer', minimum: 1}, to: {type: 'integer', minimum: 1}}, ['path']),
    tool('search', 'Searches files for a pattern.', {pattern: {type: 'string'}, glob: {type: 'string'}, case_sensitive: {type: 'boolean'}}, ['pattern'])], 'Look for TODO in all C files.'],
  Order: [[tool('place_order', 'Orders articles.', {customer: {type: 'object', properties: {name: {type: 'string'}, email: {type: 'string', format: 'email'}}, required: ['name']},
    items: {type: 'array', minItems: 1, items: {type: 'object', properties: {article: {type: 'string', pattern: '^[A-Z]{2}-[0-9]{3}$'}, count: {type: 'integer', minimum: 1, maximum: 99}}, required: ['article', 'count']}}}, ['items'])],
    'Order three of AB-123 and one of XY-001 for Ada.']};

const kindOf = v => v === null ? 'null' : Array.isArray(v) ? 'array' : typeof v;
const isKind = (v, t) => t === 'integer' ? Number.isInteger(v) : kindOf(v) === t;
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// Checks a value against the common keywords of a schema; returns the faults as ["$.path: why", ...].
function check(v, s, path = '$', root = s, depth = 0) {
  if (s === true || s == null || depth > 40) return [];
  if (s === false) return [path + ': nothing is allowed here'];
  const bad = [], below = (x, t, p) => bad.push(...check(x, t, p, root, depth + 1));
  if (typeof s.$ref === 'string' && s.$ref.startsWith('#'))
    below(v, s.$ref.slice(1).split('/').filter(Boolean).reduce((o, k) => o && o[decodeURIComponent(k).replace(/~1/g, '/').replace(/~0/g, '~')], root), path);
  const types = s.type == null ? [] : [].concat(s.type);
  if (types.length && !types.some(t => isKind(v, t))) return [...bad, `${path}: ${kindOf(v)}, expected ${types.join(' or ')}`];
  if (s.enum && !s.enum.some(e => same(e, v))) bad.push(`${path}: none of ${JSON.stringify(s.enum).slice(0, 200)}`);
  if ('const' in s && !same(s.const, v)) bad.push(`${path}: not ${JSON.stringify(s.const)}`);
  if (typeof v === 'number') {
    if (v < s.minimum) bad.push(`${path}: less than ${s.minimum}`);
    if (v > s.maximum) bad.push(`${path}: more than ${s.maximum}`);
    if (v <= s.exclusiveMinimum || v >= s.exclusiveMaximum) bad.push(path + ': outside its bounds');
  }
  if (typeof v === 'string') {
    const n = [...v].length;
    if (n < s.minLength || n > s.maxLength) bad.push(`${path}: ${n} characters`);
    try {
      if (s.pattern && !new RegExp(s.pattern, 'u').test(v)) bad.push(`${path}: does not match ${s.pattern}`);
    } catch { /* not a JavaScript pattern: not checked */ }
  }
  if (Array.isArray(v)) {
    if (v.length < s.minItems || v.length > s.maxItems) bad.push(`${path}: ${v.length} items`);
    v.forEach((x, i) => below(x, s.prefixItems && i < s.prefixItems.length ? s.prefixItems[i] : s.items, `${path}[${i}]`));
  } else if (kindOf(v) === 'object') {
    for (const k of s.required || []) if (!Object.hasOwn(v, k)) bad.push(`${path}.${k}: missing`);
    for (const k of Object.keys(v)) {
      if (s.properties && Object.hasOwn(s.properties, k)) below(v[k], s.properties[k], path + '.' + k);
      else if (s.additionalProperties === false) bad.push(`${path}.${k}: not declared`);
      else if (typeof s.additionalProperties === 'object') below(v[k], s.additionalProperties, path + '.' + k);
    }
  }
  for (const t of s.allOf || []) below(v, t, path);
  for (const word of ['anyOf', 'oneOf'])
    if (s[word] && !s[word].some(t => !check(v, t, path, root, depth + 1).length)) bad.push(`${path}: none of ${word}`);
  return bad;
}

// ---- three APIs, one conversation ----

const apis = {
  chat: {
    path: '/v1/chat/completions',
    body: (messages, tools, choice) => chatBody(messages, {tools, tool_choice: choice}),
  },
  messages: {
    path: '/v1/messages',
    body(messages, tools, choice) {
      const {model, temperature, top_p, top_k, max_tokens, seed} = settings(), list = [];
      for (const m of messages) {
        if (m.role === 'assistant')
          list.push({role: 'assistant', content: [...(m.content ? [{type: 'text', text: m.content}] : []),
            ...(m.tool_calls || []).map(c => ({type: 'tool_use', id: c.id, name: c.function.name, input: parsed(c.function.arguments) ?? {}}))]});
        else if (m.role === 'tool') list.push({role: 'user', content: [{type: 'tool_result', tool_use_id: m.tool_call_id, content: m.content}]});
        else list.push(m);
      }
      return {model: model || 'default', max_tokens: max_tokens || 1024, temperature: temperature == null ? undefined : Math.min(1, temperature), top_p, top_k, seed,
        system: $('set-system').value || undefined, messages: list, stream: true,
        tools: tools.map(t => ({name: t.function.name, description: t.function.description, input_schema: t.function.parameters || {type: 'object'}})),
        tool_choice: {type: choice === 'required' ? 'any' : choice}};
    },
    take(a, j) {
      const b = j.content_block, d = j.delta || {};
      if (b && b.type === 'tool_use') a.calls.push({id: b.id, type: 'function', function: {name: b.name, arguments: ''}});
      if (d.type === 'text_delta') a.content += d.text;
      if (d.type === 'thinking_delta') a.reasoning += d.thinking;
      if (d.type === 'input_json_delta') a.calls.at(-1).function.arguments += d.partial_json;
      if (d.stop_reason) a.finish = d.stop_reason;
    },
  },
  responses: {
    path: '/v1/responses',
    body(messages, tools, choice) {
      const {model, temperature, top_p, max_tokens} = settings();
      const input = messages.flatMap(m => m.role === 'tool' ? [{type: 'function_call_output', call_id: m.tool_call_id, output: m.content}]
        : m.tool_calls ? m.tool_calls.map(c => ({type: 'function_call', call_id: c.id, name: c.function.name, arguments: c.function.arguments}))
        : [{role: m.role, content: m.content}]);
      return {model, temperature, top_p, max_output_tokens: max_tokens, instructions: $('set-system').value || undefined, input, stream: true,
        tools: tools.map(t => ({type: 'function', name: t.function.name, description: t.function.description, parameters: t.function.parameters || {type: 'object'}, strict: false})), tool_choice: choice};
    },
    take(a, j) {
      if (j.type === 'response.output_text.delta') a.content += j.delta;
      if (j.type === 'response.reasoning_text.delta') a.reasoning += j.delta;
      if (j.type === 'response.output_item.done' && j.item.type === 'function_call')
        a.calls.push({id: j.item.call_id, type: 'function', function: {name: j.item.name, arguments: j.item.arguments}});
      if (j.response && j.response.status) a.finish = j.response.status;
    },
  },
};
const parsed = text => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

function drawCall(c, tools, resume) {
  const t = tools.find(x => x.function.name === c.function.name), v = parsed(c.function.arguments);
  const bad = !t ? ['the request has no such tool'] : v === undefined ? ['the arguments are not JSON'] : check(v, t.function.parameters ?? true);
  const field = el('textarea', {rows: 2, 'aria-label': 'Result of ' + c.function.name, placeholder: 'Result of the tool, entered manually'});
  c.result = () => field.value;
  return el('div', {class: 'call'}, el('strong', {}, visible(c.function.name)),
    bad.length ? el('ul', {class: 'bad'}, bad.map(b => el('li', {}, visible(b)))) : el('p', {class: 'good'}, 'matches its schema'),
    el('div', {class: 'quiet'}, 'raw'), el('pre', {tabindex: 0}, visible(c.function.arguments)),
    v === undefined ? null : [el('div', {class: 'quiet'}, 'parsed'), el('pre', {tabindex: 0}, visible(JSON.stringify(v, null, 2)))],
    field, el('div', {class: 'row'}, el('button', {class: 'small', onclick: resume}, 'Continue with the results')));
}

// Sends the same prompt without any constraints.
async function bareText(messages, tools, signal) {
  const {prompt} = await getJson('/apply-template', {...settings(), stop: undefined, messages: withSystem(messages), tools}, signal);
  const {model, temperature, top_p, top_k, min_p, max_tokens, seed} = settings();
  const r = await getJson('/v1/completions', {model, temperature, top_p, top_k, min_p, seed, max_tokens: max_tokens || 512, prompt}, signal);
  return r.choices[0].text;
}

async function sendTools(messages) {
  const state = $('tool-state');
  await busy($('tool-stop'), $('tool-send'), state, async signal => {
    const tools = JSON.parse($('tool-text').value), name = $('tool-api').value, api = apis[name];
    if (!Array.isArray(tools) || !tools.every(t => t && t.function && typeof t.function.name === 'string')) throw new Error('must be a list of {"type": "function", "function": {"name", ...}}');
    const body = api.body(messages, tools, $('tool-choice').value), a = gather(), raw = [], calls = $('calls');
    $('tool-request').textContent = 'POST ' + api.path + '\n' + visible(JSON.stringify(body, null, 2));
    $('tool-events').textContent = '';
    fill(calls);
    state.textContent = 'answering';
    await stream(api.path, body, signal, (j, _, part) => {
      raw.push(part);
      if (name === 'chat') a.take(j);
      else if (j) api.take(a, j);
    });
    $('tool-events').textContent = visible(raw.join('\n\n'));
    const mine = {role: 'assistant', content: a.content, ...(a.calls.length ? {tool_calls: a.calls} : {})};
    const resume = () => sendTools([...messages, mine, ...a.calls.map(c => ({role: 'tool', tool_call_id: c.id, content: c.result()}))]);
    fill(calls,
      a.reasoning ? el('details', {class: 'think'}, el('summary', {}, 'Thinking'), el('pre', {}, visible(a.reasoning))) : null,
      a.content ? el('div', {class: 'call text', dir: 'auto'}, markdown(a.content)) : null,
      a.calls.map(c => drawCall(c, tools, resume)));
    state.textContent = [a.calls.length + (a.calls.length === 1 ? ' call' : ' calls'), 'ended by ' + a.finish, spent(a.usage, a.timings)].filter(Boolean).join(' · ');
    if ($('tool-bare').checked)
      calls.append(el('div', {class: 'call'}, el('strong', {}, 'Bare text'), el('p', {class: 'quiet'}, 'The same prompt and seed, without parsing and constraints.'),
        el('pre', {tabindex: 0}, visible(await bareText(messages, tools, signal)))));
  });
  if (state.textContent === 'answering') state.textContent = '';
}

function pickSample(name) {
  $('tool-text').value = JSON.stringify(samples[name][0], null, 1);
  $('tool-ask').value = samples[name][1];
}
fill($('samples'), Object.keys(samples).map(n => el('button', {type: 'button', class: 'small', onclick: () => pickSample(n)}, n)));
pickSample('Weather');
$('tool-send').addEventListener('click', () => sendTools([{role: 'user', content: $('tool-ask').value}]));
