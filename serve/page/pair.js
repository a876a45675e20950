// SPDX-License-Identifier: MIT
// serve/page/pair.js - the side-by-side view: one request sent to two models or with two settings, and where the answers diverge.
const sides = ['Left', 'Right'].map(name => {
  const model = el('select', {}), more = el('textarea', {rows: 2, class: 'code', spellcheck: 'false', placeholder: '{}'}), out = el('div', {class: 'card text side', dir: 'auto'}), state = el('p', {class: 'quiet'});
  $('pair-cols').append(el('div', {}, el('label', {class: 'line'}, name, model), out, state,
    el('details', {}, el('summary', {}, 'Settings for this side only'), el('label', {}, 'JSON, such as {"temperature": 0}', more))));
  return {model, more, out, state};
});

function drawSides(a) {
  const whole = a.map(x => x.content);
  let at = 0;
  while (at < whole[0].length && at < whole[1].length && whole[0][at] === whole[1][at]) at++;
  const differ = a.every(x => x.finish) && whole[0] !== whole[1];
  sides.forEach((s, i) => fill(s.out,
    a[i].reasoning ? el('details', {class: 'think'}, el('summary', {}, 'Thinking' + (a[0].reasoning === a[1].reasoning ? ', the same' : '')), el('pre', {}, visible(a[i].reasoning))) : null,
    el('p', {}, visible(whole[i].slice(0, differ ? at : undefined)), differ ? el('mark', {class: 'diff', 'aria-label': 'first difference'}, visible(whole[i].slice(at, at + 1)) || '∎') : '', differ ? visible(whole[i].slice(at + 1)) : ''),
    a[i].calls.map(c => el('pre', {}, visible(c.function.name + ' ' + c.function.arguments)))));
  if (!a.every(x => x.finish)) return '';
  const calls = a.map(x => JSON.stringify(x.calls.map(c => [c.function.name, parsed(c.function.arguments) ?? c.function.arguments])));
  return [differ ? `the texts differ from character ${at} on` : whole[0] ? 'same text' : '', a.some(x => x.calls.length) ? calls[0] === calls[1] ? 'same calls' : 'different calls' : ''].filter(Boolean).join(' · ');
}

async function sendPair() {
  const state = $('pair-state');
  await busy($('pair-stop'), $('pair-send'), state, async signal => {
    const a = [gather(), gather()], seed = settings().seed ?? Math.floor(Math.random() * 2 ** 31);
    const draw = slowly(() => drawSides(a));
    state.textContent = 'answering';
    await Promise.all(sides.map(async (s, i) => {
      s.state.textContent = '';
      const more = {seed, ...(s.model.value ? {model: s.model.value} : {}), ...($('pair-tools').checked ? {tools: JSON.parse($('tool-text').value)} : {}), ...JSON.parse(s.more.value.trim() || '{}')};
      await stream('/v1/chat/completions', chatBody([{role: 'user', content: $('pair-ask').value}], more), signal, j => (a[i].take(j), draw()));
      s.state.textContent = spent(a[i].usage, a[i].timings);
    }));
    state.textContent = `seed ${seed} · ` + drawSides(a);
  });
  if (state.textContent === 'answering') state.textContent = '';
}
$('pair-send').addEventListener('click', sendPair);
