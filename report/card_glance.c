// SPDX-License-Identifier: MIT
/* report/card_glance.c - the recommended file on one screen: what it loses in words and numbers,
 * what a user notices, and where it was measured. Rows without numbers are named in the last row.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/card.h"
#include "report/pick.h"
#include "report/report_text.h"
#include "report/versus.h"
#include "base/io.h"

struct glance {
    const struct result *r;
    const struct release *rel;
    const struct result_file *f;
    const cJSON *versus; /* NULL: none */
    const char *name;    /* of f in the tables of versus; NULL: not compared */
    struct buf missing;  /* measurements that are missing */
    struct buf *out;
};

/* Begins a row. */
static void begin(const struct glance *g, const char *what) {
    buf_fmt(g->out, "| %s | ", what);
}

static void end(const struct glance *g) {
    buf_str(g->out, " |\n");
}

/* Adds a measurement to the last row. */
static void missing(struct glance *g, const char *what) {
    buf_fmt(&g->missing, "%s%s", g->missing.len ? ", " : "", what);
}

/* Returns the row of a table of versus that belongs to the file, after `from` (NULL: the first). */
static const cJSON *row_of(const struct glance *g, const char *table, const cJSON *from) {
    const cJSON *row = from ? from->next : doc_first(doc_get(g->versus, table));
    while (row && !(g->name && doc_is(row, "name", g->name))) row = row->next;
    return row;
}

/* Names the cache type of a comparison if it is not exact, and the base if it is not that of the
 * other numbers. */
static void put_base(const struct glance *g) {
    const char *base = doc_str(g->versus, "base"), *own = card_base_file(g->r),
               *kv = doc_str(g->versus, "kv_type"), *act = doc_str(g->versus, "act");
    if (!versus_exact(g->versus)) {
        buf_str(g->out, ", with a key-value cache of ");
        md_text(g->out, kv ? kv : "?");
        buf_str(g->out, " and activations of ");
        md_text(g->out, act ? act : "?");
    }
    if (!base || (own && strcmp(io_base(base), own) == 0)) return;
    buf_str(g->out, ", compared with ");
    md_text(g->out, base);
}

/* Writes how many of 100 next tokens differ. */
static void put_loss(struct glance *g, int i) {
    struct buf words = {0};
    const struct pick_grade grade = pick_grade(g->r, i);
    begin(g, "loss");
    pick_grade_text(&grade, &words);
    md_text(g->out, words.data ? words.data : "unknown");
    if (isfinite(g->f->same_top1))
        buf_fmt(g->out, ": of 100 next tokens, %.1f differ from the first choice of %s",
                100 * (1 - g->f->same_top1), pick_base_word(g->r));
    if (!*g->r->version) put_base(g); /* by hone versus, not by hone make */
    end(g);
    buf_release(&words);
}

/* Writes one kind of changes per 100, from versus; name: what is missing without them. */
static void put_flips(struct glance *g, const char *prefix, const char *what, const char *name,
                      const char *cases) {
    char key[4][32];
    static const char *const part[] = {"per_100", "lo", "hi", "of"};
    const cJSON *row = row_of(g, "flips", NULL);
    for (int i = 0; i < 4; i++) snprintf(key[i], sizeof key[i], "%s_%s", prefix, part[i]);
    const double x = doc_num(row, key[0], (double)NAN);
    if (!isfinite(x)) {
        missing(g, name);
        return;
    }
    begin(g, what);
    buf_fmt(g->out, "of 100 %s, %.1f change (95 %%: %.0f to %.0f; %.0f cases)", cases, x,
            doc_num(row, key[1], 0), doc_num(row, key[2], 100), doc_num(row, key[3], 0));
    put_base(g);
    end(g);
}

static void put_tools(struct glance *g) {
    double base = (double)NAN;
    for (int i = 0; i < g->r->n_files; i++)
        if (g->r->file[i].is_base) base = g->r->file[i].tools_passed;
    if (!(g->f->tools_n > 0)) {
        const bool calls = versus_calls_only(g->versus);
        put_flips(g, "tools", calls ? "tool calls" : "suites", "tool calls",
                  calls ? "answers to tool prompts" : "answers to the cases of suites");
        return;
    }
    begin(g, "tool calls");
    buf_fmt(g->out, "%.0f of %.0f as expected", g->f->tools_passed, g->f->tools_n);
    if (isfinite(base)) buf_fmt(g->out, ", the original %.0f", base);
    end(g);
}

/* Returns whether a domain is one of the languages among hone's built-in texts. */
static bool is_language(const char *domain) {
    static const char *const code[] = {"de", "fr", "es", "ru", "zh", "ja"};
    for (size_t i = 0; domain && i < COUNT_OF(code); i++)
        if (strcmp(domain, code[i]) == 0) return true;
    return false;
}

/* Appends how many cases of a suite pass, and how many with the base; or notes that it is missing.
 */
static void add_suite(struct glance *g, const struct result_suite *s, const struct result_suite *of,
                      const char *what, const char *name, struct buf *out) {
    if (!(s->n > 0)) {
        missing(g, name);
        return;
    }
    buf_fmt(out, "%s%.0f of %.0f %s pass", out->len ? "; " : "", s->passed, s->n, what);
    if (of && isfinite(of->passed)) buf_fmt(out, ", the original %.0f", of->passed);
}

/* Writes how many built-in loops and checks the file passes. */
static void put_suites(struct glance *g) {
    const struct result_file *base = NULL;
    struct buf text = {0};
    for (int i = 0; i < g->r->n_files; i++)
        if (g->r->file[i].is_base) base = &g->r->file[i];
    add_suite(g, &g->f->loops, base ? &base->loops : NULL, "loops", "tool loops", &text);
    add_suite(g, &g->f->checks, base ? &base->checks : NULL, "checks", "checks", &text);
    if (text.len) {
        begin(g, "tool loops, checks");
        buf_str(g->out, text.data);
        end(g);
    }
    if (!(g->f->loops.n > 0 && g->f->checks.n > 0))
        buf_str(&g->missing, " (`hone make --tools builtin,loops,checks`)");
    buf_release(&text);
}

/* Writes the divergence by kind of text. */
static void put_domains(struct glance *g) {
    struct buf list = {0};
    bool languages = false;
    for (const cJSON *row = row_of(g, "by_domain", NULL); row; row = row_of(g, "by_domain", row)) {
        const char *name = doc_str(row, "domain");
        const double x = doc_num(row, "mean_kld", (double)NAN);
        if (!isfinite(x)) continue;
        languages = languages || is_language(name);
        buf_str(&list, list.len ? ", " : "");
        md_text(&list, name ? name : "?");
        buf_fmt(&list, " %.4f", x);
    }
    if (list.len) {
        begin(g, "by kind of text");
        buf_str(g->out, list.data);
        buf_str(g->out, " (mean divergence)");
        put_base(g);
        end(g);
    }
    if (!list.len || !languages) missing(g, list.len ? "languages" : "kinds of text and languages");
    buf_release(&list);
}

/* Sets the first and the last row of the divergence by depth: of the results, or else of versus.
 * Returns false if there are no two rows with numbers. */
static bool find_depths(const struct glance *g, const cJSON **first, const cJSON **last) {
    *first = *last = doc_first(g->f->by_depth);
    while (*last && (*last)->next) *last = (*last)->next;
    if (!*first) {
        *first = *last = row_of(g, "by_depth", NULL);
        for (const cJSON *r = *first; r; r = row_of(g, "by_depth", r)) *last = r;
    }
    return *first != *last && doc_num(*first, "mean_kld", 0) > 0 && doc_num(*last, "to", 0) > 0 &&
           isfinite(doc_num(*last, "mean_kld", (double)NAN));
}

/* Writes the divergence at the longest context compared with the shortest, and notes that longer
 * ones were not measured. */
static void put_depth(struct glance *g) {
    const cJSON *first, *last;
    if (!find_depths(g, &first, &last)) {
        missing(g, "long contexts");
        return;
    }
    const double to = doc_num(last, "to", 0);
    begin(g, "context");
    buf_fmt(g->out, "%.0f to %.0f tokens: %.2fx the divergence of the first %.0f",
            doc_num(last, "from", 0), to,
            doc_num(last, "mean_kld", 0) / doc_num(first, "mean_kld", 1), doc_num(first, "to", 0));
    if (!doc_first(g->f->by_depth)) put_base(g);
    end(g);
    if ((double)g->rel->ctx <= to + 1) return;
    char longer[64];
    snprintf(longer, sizeof longer, "contexts of more than %.0f tokens", to);
    missing(g, longer);
}

/* Writes the divergence and the changed answers over questions about images. */
static void put_images(struct glance *g) {
    const struct result_images *v = &g->f->images;
    double base = (double)NAN;
    struct buf kld = {0};
    if (!isfinite(v->kld)) {
        if (g->rel->n_mmproj) missing(g, "images");
        return;
    }
    for (int i = 0; i < g->r->n_files; i++)
        if (g->r->file[i].is_base) base = g->r->file[i].images.right;
    text_kld(&kld, v->kld, v->kld_stderr);
    begin(g, "images");
    buf_fmt(g->out, "of 100 answers, %.1f change; divergence %s", 100 * v->changed, kld.data);
    if (isfinite(v->right))
        buf_fmt(g->out, "; %.1f right, the original %.1f", 100 * v->right, 100 * base);
    if (isfinite(v->choices_flipped))
        buf_fmt(g->out, "; of 100 choices, %.1f change", 100 * v->choices_flipped);
    end(g);
    buf_release(&kld);
}

/* Notes that the acceptance of the MTP block's drafts was not measured. */
static void put_drafts(struct glance *g) {
    const bool file = g->rel->draft.file && strcmp(g->rel->draft.kind, "mtp") == 0;
    if ((file || g->rel->has_mtp) && !isfinite(g->f->acceptance))
        missing(g, "acceptance of drafts");
}

static void put_speed(struct glance *g) {
    if (!isfinite(g->f->tg_tok_per_s)) {
        missing(g, "speed");
        return;
    }
    begin(g, "speed");
    buf_fmt(g->out, "%.0f tokens/s prompt, %.1f generated, on ", g->f->pp_tok_per_s,
            g->f->tg_tok_per_s);
    md_text(g->out, *g->r->machine ? g->r->machine : "the machine that made it");
    end(g);
}

/* Writes the memory in which the recommended file fits. */
static void put_memory(struct glance *g) {
    const struct release *rel = g->rel;
    char ctx[32], need[32];
    for (int i = 0; i < rel->n_files; i++) {
        if (strcmp(rel->file[i].file, g->f->file) != 0 || !rel->file[i].need) continue;
        begin(g, "memory");
        text_thousands(ctx, rel->fit_ctx[0]);
        text_gib(need, (int64_t)rel->file[i].need);
        buf_fmt(g->out, "%s on a card with %s tokens of context%s", need, ctx,
                release_projector(rel) ? ", with the projector file" : "");
        end(g);
    }
}

void card_glance(const struct result *r, const struct release *rel, const cJSON *versus,
                 struct buf *out) {
    const int i = pick_file(r);
    struct glance g = {.r = r, .rel = rel, .versus = versus, .out = out};
    if (i < 0) return;
    g.f = &r->file[i];
    for (int k = 0; k < rel->n_files; k++)
        if (strcmp(rel->file[k].file, g.f->file) == 0) g.name = rel->file[k].compared;
    buf_str(out, "| at a glance | ");
    md_text(out, pick_label(r, i));
    buf_str(out, " |\n|---|---|\n");
    put_memory(&g);
    put_loss(&g, i);
    put_flips(&g, "choices", "answers", "multiple choice", "multiple-choice answers");
    put_flips(&g, "greedy", "texts", "greedy texts", "greedy texts");
    put_tools(&g);
    put_suites(&g);
    put_domains(&g);
    put_depth(&g);
    put_speed(&g);
    put_images(&g);
    put_drafts(&g);
    if (g.missing.len) {
        begin(&g, "not measured");
        buf_str(out, g.missing.data);
        end(&g);
    }
    buf_chr(out, '\n');
    buf_release(&g.missing);
}
