// SPDX-License-Identifier: MIT
// serve/page/tokens.js - the tokens view: the prompt's token ids with the origin of their bytes, and the answer coloured by probability.
const pieceBytes = p => Array.isArray(p) ? p.length : new TextEncoder().encode(p).length;
const pieceText = p => visible(Array.isArray(p) ? p.map(b => '\\x' + b.toString(16).padStart(2, '0')).join('') : p).replace(/\n/g, '⏎');
// Adds a line break after a token that ends a line; a button cannot contain it.
const broken = (n, piece) => /\n$/.test(Array.isArray(piece) ? '' : piece) ? [n, el('br')] : [n];

function drawPrompt(r) {
  const span = (list, at) => (list || []).find(s => at >= s.start && at < s.end);
  let at = 0;
  const nodes = r.tokens_of.map(t => {
    const from = span(r.spans, at), forged = span(r.forged, at);
    const n = el('span', {class: 'tok ' + (from ? 'from' : 'mark') + (forged ? ' forged' : ''),
      title: `id ${t.id} · byte ${at} · ${from ? from.origin : 'the template'}${forged ? ' · looks like a control token, is plain text' : ''}`}, pieceText(t.piece));
    at += pieceBytes(t.piece);
    return broken(n, t.piece);
  });
  fill($('prompt-tokens'), nodes.flat());
  $('token-legend').textContent = `${r.tokens} tokens. Bold: from the template; shaded: from messages and tools. ` +
    (r.forged_markers ? `${r.forged_markers === 1 ? '1 text looks like a control token but is' : r.forged_markers + ' texts look like control tokens but are'} plain text (outlined).` : '');
}

function drawDetail(token, lp, top) {
  const pct = x => (100 * Math.exp(x)).toFixed(2) + ' %';
  const rows = Object.entries(top || {}).sort((a, b) => b[1] - a[1]);
  fill($('token-detail'), el('p', {}, 'Chosen: ', el('code', {}, el('bdi', {}, pieceText(token))), lp == null ? '' : ' ' + pct(lp)),
    el('table', {}, el('tr', {}, el('th', {}, 'Alternative'), el('th', {}, 'Probability')),
      rows.map(([t, x]) => el('tr', {}, el('td', {}, el('code', {}, el('bdi', {}, pieceText(t)))), el('td', {}, el('meter', {min: 0, max: 1, value: Math.exp(x), 'aria-label': 'probability'}), pct(x))))));
  $('token-detail').hidden = false;
}

function drawAnswer(c) {
  const l = c.logprobs || {tokens: [], token_logprobs: [], top_logprobs: []};
  fill($('answer-tokens'), l.tokens.map((t, i) => {
    const lp = l.token_logprobs[i], p = lp == null ? 1 : Math.exp(lp);
    const show = () => drawDetail(t, lp, l.top_logprobs[i]);
    const n = el('button', {type: 'button', class: 'tok p' + (p >= 0.9 ? 5 : p >= 0.5 ? 4 : p >= 0.2 ? 3 : p >= 0.05 ? 2 : 1), onclick: show, onmouseenter: show, onfocus: show}, pieceText(t));
    return broken(n, t);
  }).flat());
}

async function sendTokens(generate) {
  const state = $('token-state');
  await busy($('token-stop'), $('token-send'), state, async signal => {
    const s = settings();
    fill($('answer-tokens'));
    $('token-detail').hidden = true;
    state.textContent = 'reading the prompt';
    const r = await getJson('/apply-template?spans', {...s, messages: withSystem([{role: 'user', content: $('token-ask').value}])}, signal);
    drawPrompt(r);
    state.textContent = r.tokens + ' tokens of prompt';
    if (!generate) return;
    const {model, temperature, top_p, top_k, min_p, seed, stop} = s;
    const t = performance.now();
    const a = await getJson('/v1/completions', {model, temperature, top_p, top_k, min_p, seed, stop, max_tokens: s.max_tokens || 256,
      prompt: r.tokens_of.map(x => x.id), logprobs: 10}, signal);
    drawAnswer(a.choices[0]);
    state.textContent = `${r.tokens} prompt tokens, ${a.usage.completion_tokens} answer tokens in ${((performance.now() - t) / 1000).toFixed(1)} s. Hover over a token to see its alternatives.`;
  });
  if (state.textContent === 'reading the prompt') state.textContent = '';
}
$('token-send').addEventListener('click', () => sendTokens(true));
$('token-prompt-only').addEventListener('click', () => sendTokens(false));
