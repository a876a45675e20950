// SPDX-License-Identifier: MIT
/* report/tools.c - the section on tool calls of README.md and report.html; nothing where none were
 * measured. */
#include <math.h>

#include "report/report_text.h"
#include "report/result.h"

static bool any(const struct result *r) {
    for (int i = 0; i < r->n_files; i++)
        if (r->file[i].tools_n > 0) return true;
    return false;
}

static const char about[] =
    "Cases answered greedily as in use (8-bit activations, f16 cache). Valid: a call was "
    "read and satisfies the tool's schema. As expected: also the right tool with the right "
    "arguments. "
    "Few cases: differences of a case or two mean nothing.";

void report_tools_md(const struct result *r, struct buf *out) {
    if (!any(r)) return;
    buf_str(out, "\n## Tool calls\n\n| file | cases | valid | as expected | same as the base's |\n"
                 "|---|---:|---:|---:|---:|\n");
    for (int i = 0; i < r->n_files; i++) {
        const struct result_file *f = &r->file[i];
        if (!(f->tools_n > 0)) continue;
        buf_fmt(out, "| %s |", f->file);
        md_num(out, f->tools_n, 0);
        md_num(out, f->tools_valid, 0);
        md_num(out, f->tools_passed, 0);
        md_num(out, f->tools_same, 0);
        buf_chr(out, '\n');
    }
    buf_str(out, "\nSuite: ");
    md_text(out, r->tools_suite);
    buf_fmt(out, ". %s\n", about);
}

void report_tools_html(const struct result *r, struct buf *out) {
    if (!any(r)) return;
    buf_str(out, "<h2>Tool calls</h2><div class=wrap><table><tr><th>file<th class=n>cases"
                 "<th class=n>valid<th class=n>as expected<th class=n>same as the base's</tr>\n");
    for (int i = 0; i < r->n_files; i++) {
        const struct result_file *f = &r->file[i];
        if (!(f->tools_n > 0)) continue;
        buf_fmt(out, "<tr%s><td><code>", f->is_base ? " class=base" : "");
        html_text(out, f->file);
        buf_str(out, "</code></td>");
        html_num(out, f->tools_n, 0);
        html_num(out, f->tools_valid, 0);
        html_num(out, f->tools_passed, 0);
        html_num(out, f->tools_same, 0);
        buf_str(out, "</tr>\n");
    }
    buf_str(out, "</table></div><p>Suite: ");
    html_text(out, r->tools_suite);
    buf_fmt(out, ". %s</p>\n", about);
}
