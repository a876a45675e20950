// SPDX-License-Identifier: MIT
/* report/tools.c - the section on tool calls of README.md and report.html; nothing where none were
 * measured. */
#include <math.h>

#include "core/attr.h"
#include "core/json.h"
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

static const char *const places[] = {"name", "key", "value", "structure", "text"};

/* Returns how often a grammar overruled a file at a place of calls, over all tools. */
static double overruled_at(const struct result_file *f, const char *place) {
    double sum = 0;
    for (const struct json *t = json_first(f->tools_places); t; t = json_next(t)) {
        int64_t n;
        if (json_i64(json_get(t, place), &n)) sum += (double)n;
    }
    return sum;
}

static bool any_overruled(const struct result *r) {
    for (int i = 0; i < r->n_files; i++)
        if (json_first(r->file[i].tools_places)) return true;
    return false;
}

static const char about_places[] =
    "How often the grammar overruled a file, by place: the name of the tool, names of arguments, "
    "their values, what stands around them, and text outside of complete calls. By tool: "
    "tools_overruled in the result file.";

static void places_md(const struct result *r, struct buf *out) {
    if (!any_overruled(r)) return;
    buf_str(out, "\n| overruled at | name | key | value | structure | text |\n"
                 "|---|---:|---:|---:|---:|---:|\n");
    for (int i = 0; i < r->n_files; i++) {
        if (!json_first(r->file[i].tools_places)) continue;
        buf_fmt(out, "| %s |", r->file[i].file);
        for (int k = 0; k < (int)COUNT_OF(places); k++)
            md_num(out, overruled_at(&r->file[i], places[k]), 0);
        buf_chr(out, '\n');
    }
    buf_fmt(out, "\n%s\n", about_places);
}

static void places_html(const struct result *r, struct buf *out) {
    if (!any_overruled(r)) return;
    buf_str(out, "<table class=files><thead><tr><th>overruled at");
    for (int k = 0; k < (int)COUNT_OF(places); k++) buf_fmt(out, "<th class=n>%s", places[k]);
    buf_str(out, "</tr></thead><tbody>\n");
    for (int i = 0; i < r->n_files; i++) {
        if (!json_first(r->file[i].tools_places)) continue;
        buf_str(out, "<tr><td><code class='name long'>");
        html_text(out, pick_label(r, i));
        buf_str(out, "</code></td>");
        for (int k = 0; k < (int)COUNT_OF(places); k++)
            buf_fmt(out, "<td class=n data-l='%s'><span class=v>%.0f</span></td>", places[k],
                    overruled_at(&r->file[i], places[k]));
        buf_str(out, "</tr>\n");
    }
    buf_fmt(out, "</tbody></table><p class=m>%s</p>", about_places);
}

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
    places_md(r, out);
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
    buf_fmt(out, ". %s</p>", about);
    places_html(r, out);
    buf_str(out, "</section>\n");
}
