#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Renders a model card as shown on the Hub, for screenshots: python3 tests/card_html.py FOLDER/README.md > FOLDER/card.html
(needs markdown-it-py).

The text column is 760 px wide, as on the Hub; letters, tables and code have about the same size. No test depends on this."""
import html
import re
import sys

from markdown_it import MarkdownIt

STYLE = """
:root{--bg:#fff;--t:#24292f;--m:#6b7280;--g:#e5e7eb;--c:#f6f8fa;--a:#2563eb}
@media(prefers-color-scheme:dark){:root{--bg:#0b0f19;--t:#d1d5db;--m:#9ca3af;--g:#283042;--c:#141c2e;--a:#7aa7ff}}
body{font:16px/1.6 'Source Sans 3','Source Sans Pro',system-ui,sans-serif;background:var(--bg);color:var(--t);margin:0}
main{max-width:760px;margin:0 auto;padding:20px 16px 40px}a{color:var(--a)}h1{font-size:28px;line-height:1.2}h2{font-size:22px;border-bottom:1px solid var(--g);padding-bottom:6px;margin-top:28px}
.t{overflow-x:auto}table{border-collapse:collapse;font-size:14px;width:100%}th,td{border:1px solid var(--g);padding:5px 9px;text-align:left}th{background:var(--c);white-space:nowrap}
pre{background:var(--c);border:1px solid var(--g);border-radius:8px;padding:11px 14px;overflow-x:auto;font-size:13px;line-height:1.5}code{font:0.88em/1.5 ui-monospace,Menlo,monospace;background:var(--c);padding:1px 4px;border-radius:4px}
pre code{padding:0;font-size:13px}summary{cursor:pointer;font-weight:600;padding:4px 0}img{max-width:100%}
"""

text = open(sys.argv[1], encoding="utf-8").read()
text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)
body = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
body = body.replace("<table>", "<div class=t><table>").replace("</table>", "</table></div>")
title = html.escape(re.search(r"^# (.*)", text, re.M).group(1))
print(f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width,initial-scale=1'>"
      f"<meta name=color-scheme content='light dark'><title>{title}</title><style>{STYLE}</style><main>{body}</main>")
