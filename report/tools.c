// SPDX-License-Identifier: MIT
/* report/tools.c - the section of README.md and report.html about tool calls, loops and checks;
 * empty if none of them was measured. The first tables are short; a folded table shows how often a
 * grammar overruled the model. */
#include <math.h>

#include "base/attr.h"
#include "base/doc.h"
#include "report/card.h"
#include "report/pick.h"
#include "report/report_text.h"
#include "report/result.h"

/* Returns whether any file was tested with tool calls. */
static bool any_tools(const struct result *r) {
    for (int i = 0; i < r->n_files; i++)
        if (r->file[i].tools_n > 0) return true;
    return false;
}

/* Returns whether any file answered the built-in loops or checks. */
static bool any_suites(const struct result *r) {
    for (int i = 0; i < r->n_files; i++)
        if (r->file[i].loops.n > 0 || r->file[i].checks.n > 0) return true;
    return false;
}

static const char about[] =
    "Answered greedily as in use (8-bit activations, f16 cache). Valid: a call was read and "
    "satisfies the tool's schema. As expected: also the right tool with the right arguments. A "
    "quant is not expected to get right what the original gets wrong. A difference of a case or "
    "two means "
    "nothing.";
static const char about_held[] =
    "Held: valid calls when a grammar holds them to the tools' schemas, as servers do on request. "
    "Overruled: tokens in 1000 that the grammar did not let the file choose. The next columns give "
    "this rate by place: the name of the tool, names of arguments, their values, the syntax "
    "between them, and text outside of complete calls. tools_overruled in results.json has it by "
    "tool.";
static const char about_suites[] =
    "Loops: tool calls in several steps, answered by a simulated world and judged by its state in "
    "the end (13). Checks: exact JSON, order of fields, conditions, missing parameters, "
    "languages, stop sequences and so on (16). Passed, and with the same answer as the original.";
/* The commands that repeat them, for both formats. */
static const char *const suite_command[] = {
    "hone eval tools FILE loops --base ORIGINAL --kv-type f16 --act q8",
    "hone eval checks FILE --base ORIGINAL --kv-type f16 --act q8"};
static const char held_title[] = "With a grammar, as in --constrained";

static const char *const places[] = {"name", "key", "value", "structure", "text"};

/* Returns the number of tokens that a grammar overruled at one place of a call, over all tools;
 * NaN: not counted. */
static double overruled_at(const struct result_file *f, const char *place) {
    double sum = 0;
    if (!doc_first(f->tools_places)) return (double)NAN;
    for (const cJSON *t = doc_first(f->tools_places); t; t = t->next) {
        int64_t n;
        if (doc_i64(t, place, &n)) sum += (double)n;
    }
    return sum;
}

/* Returns whether any file was also measured with a grammar that enforces the tools' schemas. */
static bool any_held(const struct result *r) {
    for (int i = 0; i < r->n_files; i++)
        if (isfinite(r->file[i].tools_held)) return true;
    return false;
}

/* Returns the file's label; "original" for the base. */
static const char *label_of(const struct result *r, int i) {
    return r->file[i].is_base ? "original" : pick_label(r, i);
}

/* Cells per row of the first tables and of the folded one. */
enum { MAIN_CELLS = 3, SUITE_CELLS = 4, HELD_CELLS = 2 + COUNT_OF(places) };
static const char *const suite_cell[SUITE_CELLS] = {"loops", "same", "checks", "same"};
static const char *const main_cell[MAIN_CELLS] = {"valid", "as expected", "same as original"};
static const char *const held_cell[HELD_CELLS] = {"held",  "overruled", "name",     "key",
                                                  "value", "syntax",    "elsewhere"};

/* Sets the cells for valid, passed and unchanged calls; the base has NaN for unchanged ones. */
static void main_cells(const struct result_file *f, double v[MAIN_CELLS]) {
    v[0] = f->tools_valid, v[1] = f->tools_passed;
    v[2] = f->is_base ? (double)NAN : f->tools_same;
}

/* Sets the cells for calls under a grammar: valid ones, and how often it overruled the model in
 * each place. */
static void held_cells(const struct result_file *f, double v[HELD_CELLS]) {
    v[0] = f->tools_held, v[1] = f->tools_overruled;
    for (size_t k = 0; k < COUNT_OF(places); k++) v[2 + k] = overruled_at(f, places[k]);
}

/* Returns the largest number of cases of any file. */
static double most_cases(const struct result *r) {
    double n = 0;
    for (int i = 0; i < r->n_files; i++) n = fmax(n, r->file[i].tools_n);
    return n;
}

struct writer { /* writes table rows as Markdown or HTML */
    void (*head)(const char *const *cell, int n, struct buf *out);
    void (*row)(const char *name, const double *v, int n, struct buf *out);
};

/* Writes the table of grades of the tested files. */
static void main_table(const struct result *r, const struct writer *w, struct buf *out) {
    double v[MAIN_CELLS];
    w->head(main_cell, MAIN_CELLS, out);
    for (int i = 0; i < r->n_files; i++) {
        if (!(r->file[i].tools_n > 0)) continue;
        main_cells(&r->file[i], v);
        w->row(label_of(r, i), v, MAIN_CELLS, out);
    }
}

/* Writes the table of loops and checks. */
static void suite_table(const struct result *r, const struct writer *w, struct buf *out) {
    w->head(suite_cell, SUITE_CELLS, out);
    for (int i = 0; i < r->n_files; i++) {
        const struct result_suite *l = &r->file[i].loops, *c = &r->file[i].checks;
        const double v[SUITE_CELLS] = {l->passed, l->same, c->passed, c->same};
        if (l->n > 0 || c->n > 0) w->row(label_of(r, i), v, SUITE_CELLS, out);
    }
}

/* Writes the table of calls generated with the syntax enforced, for files with such results. */
static void held_table(const struct result *r, const struct writer *w, struct buf *out) {
    double v[HELD_CELLS];
    w->head(held_cell, HELD_CELLS, out);
    for (int i = 0; i < r->n_files; i++) {
        if (!isfinite(r->file[i].tools_held)) continue;
        held_cells(&r->file[i], v);
        w->row(label_of(r, i), v, HELD_CELLS, out);
    }
}

/* ---- README.md ------------------------------------------------------------------------------- */

/* Writes a table's head in Markdown. */
static void head_md(const char *const *cell, int n, struct buf *out) {
    buf_str(out, "| file |");
    for (int k = 0; k < n; k++) buf_fmt(out, " %s |", cell[k]);
    buf_str(out, "\n|---|");
    for (int k = 0; k < n; k++) buf_str(out, "---:|");
    buf_chr(out, '\n');
}

/* Writes a table row in Markdown. */
static void row_md(const char *name, const double *v, int n, struct buf *out) {
    buf_str(out, "| ");
    md_text(out, name);
    buf_str(out, " |");
    for (int k = 0; k < n; k++) md_num(out, v[k], v[k] == floor(v[k]) ? 0 : 1);
    buf_chr(out, '\n');
}

void report_tools_md(const struct result *r, struct buf *out) {
    const struct writer md = {head_md, row_md};
    if (any_suites(r)) {
        card_fold("Tool loops and checks", out);
        suite_table(r, &md, out);
        buf_fmt(out, "\n%s To repeat:\n\n    %s\n    %s\n", about_suites, suite_command[0],
                suite_command[1]);
        card_fold_end(out);
    }
    if (!any_tools(r)) return;
    card_fold("Tool calls", out);
    buf_fmt(out, "Of %.0f cases of the suite ", most_cases(r));
    md_text(out, r->tools_suite);
    buf_str(out, ":\n\n");
    main_table(r, &md, out);
    buf_fmt(out, "\n%s\n", about);
    if (any_held(r)) {
        buf_fmt(out, "\n%s:\n\n", held_title);
        held_table(r, &md, out);
        buf_fmt(out, "\n%s\n", about_held);
    }
    card_fold_end(out);
}

/* ---- report.html ----------------------------------------------------------------------------- */

/* Writes a table's head in HTML. */
static void head_html(const char *const *cell, int n, struct buf *out) {
    buf_str(out, "<div class=scroll><table class=small><thead><tr><th>file");
    for (int k = 0; k < n; k++) buf_fmt(out, "<th class=n>%s", cell[k]);
    buf_str(out, "</tr></thead><tbody>\n");
}

/* Writes a table row in HTML; "-" for numbers that are not finite. */
static void row_html(const char *name, const double *v, int n, struct buf *out) {
    buf_str(out, "<tr><td><code class=name>");
    html_text(out, name);
    buf_str(out, "</code></td>");
    for (int k = 0; k < n; k++) {
        buf_str(out, "<td class=n>");
        if (isfinite(v[k]))
            buf_fmt(out, "%.*f", v[k] == floor(v[k]) ? 0 : 1, v[k]);
        else
            buf_chr(out, '-');
        buf_str(out, "</td>");
    }
    buf_str(out, "</tr>\n");
}

void report_tools_html(const struct result *r, struct buf *out) {
    const struct writer html = {head_html, row_html};
    if (any_suites(r)) {
        buf_str(out, "<section><h2>Tool loops and checks</h2>\n");
        suite_table(r, &html, out);
        buf_fmt(out,
                "</tbody></table></div><p class=m>%s To repeat:</p><pre>%s\n%s</pre></section>\n",
                about_suites, suite_command[0], suite_command[1]);
    }
    if (!any_tools(r)) return;
    buf_fmt(out, "<section><h2>Tool calls</h2><p class=m>Of %.0f cases of the suite ",
            most_cases(r));
    html_text(out, r->tools_suite);
    buf_str(out, ":</p>\n");
    main_table(r, &html, out);
    buf_fmt(out, "</tbody></table></div><p class=m>%s</p>", about);
    if (any_held(r)) {
        buf_fmt(out, "<details><summary>%s</summary>", held_title);
        held_table(r, &html, out);
        buf_fmt(out, "</tbody></table></div><p class=m>%s</p></details>", about_held);
    }
    buf_str(out, "</section>\n");
}
