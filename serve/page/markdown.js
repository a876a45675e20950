// SPDX-License-Identifier: MIT
// serve/page/markdown.js - renderer of the Markdown subset that models write. Every pattern is bounded, so that a line of any
// length takes linear time.
const inlinePattern = /`([^`\n]{1,2000})`|\*\*([^*\n]{1,2000})\*\*|\*([^*\s][^*\n]{0,2000})\*|\[([^\][\n]{1,300})\]\((https?:\/\/[^\s()]{1,500})\)/g;

function inline(text) {
  const out = [];
  let at = 0;
  for (const m of text.matchAll(inlinePattern)) {
    if (m.index > at) out.push(text.slice(at, m.index));
    at = m.index + m[0].length;
    if (m[1] != null) out.push(el('code', {}, m[1]));
    else if (m[2] != null) out.push(el('strong', {}, m[2]));
    else if (m[3] != null) out.push(el('em', {}, m[3]));
    else out.push(el('a', {href: m[5], rel: 'noopener noreferrer', target: '_blank'}, m[4]), el('span', {class: 'url'}, ' (' + m[5] + ')'));
  }
  if (at < text.length) out.push(text.slice(at));
  return out;
}

const listMark = /^\s{0,8}(?:([-*+])|(\d{1,4})[.)])\s+/;
function markdown(text) {
  const lines = visible(text).split('\n'), out = [];
  const while_ = (i, ok) => {
    while (i < lines.length && ok(lines[i])) i++;
    return i;
  };
  for (let i = 0; i < lines.length;) {
    const l = lines[i];
    if (/^\s{0,3}```/.test(l)) {
      const end = while_(i + 1, x => !/^\s{0,3}```\s*$/.test(x));
      const code = lines.slice(i + 1, end).join('\n');
      out.push(el('div', {class: 'copy'}, el('pre', {tabindex: 0}, el('code', {}, code)), copyButton(() => code)));
      i = end + 1;
    } else if (/^#{1,6} /.test(l)) {
      out.push(el('h3', {}, inline(l.replace(/^#+ /, ''))));
      i++;
    } else if (/^\|.*\|\s*$/.test(l.slice(0, 4000)) && lines[i + 1] && /^[|\s:-]{3,400}$/.test(lines[i + 1])) {
      const end = while_(i, x => x.startsWith('|'));
      const rows = lines.slice(i, end).filter((_, k) => k !== 1).map(x => x.replace(/^\||\|\s*$/g, '').split('|'));
      out.push(el('div', {class: 'scroll'}, el('table', {}, rows.map((r, k) => el('tr', {}, r.map(c => el(k ? 'td' : 'th', {}, inline(c.trim()))))))));
      i = end;
    } else if (listMark.test(l)) {
      const end = while_(i, x => listMark.test(x));
      out.push(el(listMark.exec(l)[2] ? 'ol' : 'ul', {}, lines.slice(i, end).map(x => el('li', {}, inline(x.replace(listMark, ''))))));
      i = end;
    } else if (l.startsWith('> ')) {
      const end = while_(i, x => x.startsWith('>'));
      out.push(el('blockquote', {}, inline(lines.slice(i, end).map(x => x.replace(/^> ?/, '')).join('\n'))));
      i = end;
    } else if (!l.trim()) {
      i++;
    } else {
      const end = while_(i + 1, x => x.trim() && !/^(#{1,6} |> |\s{0,3}```|\|)/.test(x) && !listMark.test(x));
      out.push(el('p', {}, inline(lines.slice(i, end).join('\n'))));
      i = end;
    }
  }
  return out;
}
