// SPDX-License-Identifier: MIT
/* report/tools.c - the section on tool calls of README.md and report.html; nothing where none were
 * measured. */
#include <math.h>

#include "report/pick.h"
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
    "arguments. Held: valid when a grammar held calls to the schemas of the tools "
    "(`--constrained`); "
    "overruled: of 1000 tokens, so many were not what the file would have said. "
    "Few cases: differences of a case or two mean nothing.";

void report_tools_md(const struct result *r, struct buf *out) {
    if (!any(r)) return;
    buf_str(out, "\n## Tool calls\n\n"
                 "| file | cases | valid | as expected | same as the base's | held | overruled |\n"
                 "|---|---:|---:|---:|---:|---:|---:|\n");
    for (int i = 0; i < r->n_files; i++) {
        const struct result_file *f = &r->file[i];
        if (!(f->tools_n > 0)) continue;
        buf_fmt(out, "| %s |", f->file);
        md_num(out, f->tools_n, 0);
        md_num(out, f->tools_valid, 0);
        md_num(out, f->tools_passed, 0);
        md_num(out, f->tools_same, 0);
        md_num(out, f->tools_held, 0);
        md_num(out, f->tools_overruled, 1);
        buf_chr(out, '\n');
    }
    buf_str(out, "\nSuite: ");
    md_text(out, r->tools_suite);
    buf_fmt(out, ". %s\n", about);
}

void report_tools_html(const struct result *r, struct buf *out) {
    if (!any(r)) return;
    buf_str(out,
            "<section><h2>Tool calls</h2><table class=files><thead><tr><th>file<th class=n>cases"
            "<th class=n>valid<th class=n>as expected<th class=n>same as the base's<th class=n>held"
            "<th class=n>overruled</tr></thead>"
            "<tbody>\n");
    for (int i = 0; i < r->n_files; i++) {
        const struct result_file *f = &r->file[i];
        const struct {
            const char *name;
            double v;
            int digits;
        } cell[] = {{"cases", f->tools_n, 0},
                    {"valid", f->tools_valid, 0},
                    {"as expected", f->tools_passed, 0},
                    {"same as the base", f->tools_same, 0},
                    {"held", f->tools_held, 0},
                    {"overruled", f->tools_overruled, 1}};
        if (!(f->tools_n > 0)) continue;
        buf_str(out, "<tr><td><code class='name long'>");
        html_text(out, pick_label(r, i));
        buf_str(out, "</code></td>");
        for (size_t k = 0; k < sizeof cell / sizeof *cell; k++) {
            buf_fmt(out, "<td class=n data-l='%s'><span class=v>", cell[k].name);
            if (isfinite(cell[k].v))
                buf_fmt(out, "%.*f", cell[k].digits, cell[k].v);
            else
                buf_chr(out, '-');
            buf_str(out, "</span></td>");
        }
        buf_str(out, "</tr>\n");
    }
    buf_str(out, "</tbody></table><p class=m>Suite: ");
    html_text(out, r->tools_suite);
    buf_fmt(out, ". %s</p></section>\n", about);
}
