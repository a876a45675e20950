# SPDX-License-Identifier: MIT
"""Results that notebooks show as tables."""

from __future__ import annotations

import html
from typing import Any, Mapping, Sequence

MOST_ROWS = 100


def _cell(v: Any) -> str:
    if isinstance(v, float):
        return f"{v:.6g}"
    if isinstance(v, (dict, list)):
        return f"({len(v)})"
    return html.escape(str(v))


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A list of rows as a table; a single row becomes a table of its keys."""
    if not rows:
        return ""
    if len(rows) == 1:
        body = "".join(f"<tr><th style='text-align:left'>{html.escape(str(k))}</th><td>{_cell(v)}</td></tr>"
                       for k, v in rows[0].items())
        return f"<table>{body}</table>"
    keys = list(dict.fromkeys(k for r in rows for k in r))
    head = "".join(f"<th>{html.escape(str(k))}</th>" for k in keys)
    body = "".join("<tr>" + "".join(f"<td>{_cell(r.get(k, ''))}</td>" for k in keys) + "</tr>"
                   for r in rows[:MOST_ROWS])
    more = f"<p>and {len(rows) - MOST_ROWS} more</p>" if len(rows) > MOST_ROWS else ""
    return f"<table><tr>{head}</tr>{body}</table>{more}"


class Report(dict[str, Any]):
    """A command's result as a dict; shown as tables in notebooks."""

    def __init__(self, values: Mapping[str, Any], title: str = "") -> None:
        super().__init__(values)
        self.title = title

    def _repr_html_(self) -> str:
        plain = {k: v for k, v in self.items() if not isinstance(v, (list, dict))}
        out = f"<h4>{html.escape(self.title)}</h4>" if self.title else ""
        out += table([plain]) if plain else ""
        for k, v in self.items():
            rows = [v] if isinstance(v, dict) else v
            if isinstance(rows, list) and rows and all(isinstance(r, dict) for r in rows):
                out += f"<h5>{html.escape(str(k))}</h5>" + table(rows)
        return out
