// SPDX-License-Identifier: MIT
/* report/versus.c - the Markdown block of hone versus, for cards and threads: a table that a phone
 * shows, sentences on pairs of equal size, and folded details. */
#include "report/versus.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/card.h"
#include "report/pick.h"
#include "report/report_text.h"
#include "base/mem.h"

enum { MAX_BYTES = 16 << 20 };

/* Returns ERR_DATA unless a row of "files" has the members that every document must have. Only a
 * measurement may be null. */
static int check_row(const cJSON *row, const char *path, struct err *e) {
    static const struct {
        const char *key;
        double most;
    } measured[] = {{"mean_kld", (double)INFINITY}, {"same_top1", 1}};
    int64_t size;
    if (!doc_str(row, "name") || !doc_i64(row, "size_bytes", &size) || size < 0)
        return err_set(e, ERR_DATA, "%s: a row of \"files\" needs a \"name\" and \"size_bytes\"",
                       path);
    for (size_t i = 0; i < COUNT_OF(measured); i++) {
        const double x = doc_num(row, measured[i].key, -1);
        if (!cJSON_IsNull(doc_get(row, measured[i].key)) && !(x >= 0 && x <= measured[i].most))
            return err_set(
                e, ERR_DATA, "%s: a row of \"files\" needs \"%s\": %s, or null if not measured",
                path, measured[i].key,
                measured[i].most > 1 ? "a number of at least 0" : "a number from 0 to 1");
    }
    return 0;
}

int versus_check(const cJSON *root, const char *path, struct err *e) {
    int64_t version;
    if (!doc_i64(root, "hone_versus", &version))
        return err_set(e, ERR_DATA, "%s is not a result of 'hone versus --json'", path);
    if (version != 1)
        return err_set(e, ERR_DATA, "%s: version %lld is not known, only 1", path,
                       (long long)version);
    if (!doc_first(doc_get(root, "files")))
        return err_set(e, ERR_DATA, "%s: compares no files", path);
    for (const cJSON *row = doc_first(doc_get(root, "files")); row; row = row->next)
        TRY(check_row(row, path, e));
    return 0;
}

int versus_read(cJSON **out, const char *path, struct err *e) {
    cJSON *root = NULL;
    TRY(doc_read(&root, path, MAX_BYTES, e));
    const int rc = versus_check(root, path, e);
    if (rc)
        cJSON_Delete(root);
    else
        *out = root;
    return rc;
}

/* Returns a number of a row; NaN if it is missing. */
static double num(const cJSON *row, const char *key) {
    return doc_num(row, key, (double)NAN);
}

/* Appends a text of a row, escaped. */
static void put_text(const cJSON *row, const char *key, struct buf *out) {
    const char *s = doc_str(row, key);
    md_text(out, s ? s : "?");
}

/* Returns the row of a table that has this name; NULL: none. */
static const cJSON *row_named(const cJSON *root, const char *table, const char *name) {
    for (const cJSON *r = doc_first(doc_get(root, table)); r; r = r->next)
        if (name && doc_is(r, "name", name)) return r;
    return NULL;
}

/* Appends a divergence with its error. */
static void put_kld(const cJSON *row, struct buf *out) {
    if (isfinite(num(row, "mean_kld")))
        text_kld(out, num(row, "mean_kld"), num(row, "mean_kld_stderr"));
    else
        buf_chr(out, '-');
}

/* Appends how often the top tokens are the same. */
static void put_same(const cJSON *row, struct buf *out) {
    if (isfinite(num(row, "same_top1")))
        buf_fmt(out, "%.1f %%", 100 * num(row, "same_top1"));
    else
        buf_chr(out, '-');
}

/* ---- what changes ---- */

static const struct {
    const char *key, *name;
} kinds[] = {{"choices", "choices"}, {"greedy", "texts"}, {"tools", "tool calls"}};
enum { GREEDY = 1, TOOLS, KINDS = sizeof kinds / sizeof *kinds };

bool versus_exact(const cJSON *root) {
    return doc_bool(root, "exact", true);
}

bool versus_calls_only(const cJSON *root) {
    return doc_bool(root, "tools_offered", true);
}

/* Returns member PREFIX_SUFFIX of a row of "flips"; NaN if it is missing. */
static double share(const cJSON *row, int kind, const char *suffix) {
    char key[64];
    snprintf(key, sizeof key, "%s_%s", kinds[kind].key, suffix);
    return num(row, key);
}

/* Returns whether any file has counts of this kind. */
static bool has_kind(const cJSON *root, int kind) {
    for (const cJSON *r = doc_first(doc_get(root, "flips")); r; r = r->next)
        if (isfinite(share(r, kind, "per_100"))) return true;
    return false;
}

/* Appends what changes in a file: "choices 2.5 (1.0 to 5.9), texts 94 (72 to 99) from token 5". */
static void put_changes(const cJSON *root, const char *name, struct buf *out) {
    const cJSON *r = row_named(root, "flips", name);
    bool any = false;
    for (int k = 0; k < KINDS; k++) {
        const double x = share(r, k, "per_100");
        if (!isfinite(x)) continue;
        buf_fmt(out, "%s%s %.*f", any ? ", " : "",
                k == TOOLS && !versus_calls_only(root) ? "suites" : kinds[k].name, x < 9.95 ? 1 : 0,
                x);
        if (isfinite(share(r, k, "lo")) && isfinite(share(r, k, "hi")))
            buf_fmt(out, " (%.0f to %.0f)", share(r, k, "lo"), share(r, k, "hi"));
        if (k == GREEDY && num(r, "first_change") > 0)
            buf_fmt(out, " from token %.4g", num(r, "first_change"));
        any = true;
    }
    if (!any) buf_chr(out, '-');
}

/* ---- the table ---- */

static void put_file(const cJSON *root, const cJSON *row, bool changes, struct buf *out) {
    char size[32];
    int64_t bytes = 0;
    const double x = num(row, "mean_kld");
    const struct pick_grade g = pick_judge(x, num(row, "mean_kld_stderr"));
    doc_i64(row, "size_bytes", &bytes);
    text_size(size, bytes);
    buf_str(out, "| ");
    put_text(row, "name", out);
    buf_fmt(out, " | %s | %s, ", size, pick_word(g.band));
    put_kld(row, out);
    buf_str(out, " | ");
    put_same(row, out);
    buf_str(out, " |");
    if (changes) {
        buf_chr(out, ' ');
        put_changes(root, doc_str(row, "name"), out);
        buf_str(out, " |");
    }
    buf_chr(out, '\n');
}

static void put_files(const cJSON *root, struct buf *out) {
    bool changes = false;
    for (int k = 0; k < KINDS; k++) changes = changes || has_kind(root, k);
    buf_fmt(out, "| file | size | loss | same token |%s\n|---|---:|---|---:|%s\n",
            changes ? " changes per 100 (95 %) |" : "", changes ? "---|" : "");
    for (const cJSON *r = doc_first(doc_get(root, "files")); r; r = r->next)
        put_file(root, r, changes, out);
    buf_str(out, "\nLoss: mean KL divergence of the next-token distribution from the base's, in "
                 "nats, ± one standard error by windows. Same token: how often both rank the same "
                 "token first.");
    if (has_kind(root, 0)) buf_str(out, " Choices: multiple-choice answers that change.");
    if (has_kind(root, GREEDY))
        buf_str(out, " Texts: greedy continuations that change, and the median position of their "
                     "first different token.");
    if (has_kind(root, TOOLS))
        buf_str(out, versus_calls_only(root)
                         ? " Tool calls: answers to tool prompts that change."
                         : " Suites: answers to the cases of the suites that change.");
    buf_chr(out, '\n');
}

/* Appends the interval of a ratio, or why it is missing. */
static void put_interval(const cJSON *row, struct buf *out) {
    const double lo = num(row, "ratio_ci95_low"), hi = num(row, "ratio_ci95_high");
    if (isfinite(lo) && isfinite(hi))
        buf_fmt(out, " (95 %%: %.2f to %.2f)", lo, hi);
    else
        buf_str(out, " (too few windows for an interval)");
}

/* Appends a sentence per pair of files of equal size. */
static void put_pairs(const cJSON *root, struct buf *out) {
    const cJSON *r = doc_first(doc_get(root, "equal_size"));
    if (r) buf_str(out, "\nAt equal size (within 1 %):\n\n");
    for (; r; r = r->next) {
        const double ratio = num(r, "ratio");
        buf_str(out, "- ");
        put_text(r, "closer", out);
        if (isfinite(ratio))
            buf_fmt(out, " has %.2fx the divergence of ", ratio);
        else
            buf_str(out, " has no more divergence than ");
        put_text(r, "other", out);
        put_interval(r, out);
        buf_fmt(out, "%s.\n",
                doc_bool(r, "clear", false) ? "" : ", which is not a clear difference");
    }
}

/* ---- details ---- */

enum { MAX_FILES = 64, MAX_DOMAINS = 256 };
struct domains { /* the rows of by_domain, sorted into a table */
    const char *file[MAX_FILES], *domain[MAX_DOMAINS];
    int n_files, n_domains;
    double mean[MAX_FILES];                   /* over all windows */
    const cJSON *row[MAX_DOMAINS][MAX_FILES]; /* NULL: not measured */
};

/* Returns the position of a name among n; n if it is new. */
static int position(const char *const *list, int n, const char *name) {
    int i = 0;
    while (i < n && strcmp(list[i], name) != 0) i++;
    return i;
}

/* Sorts the rows of by_domain by domain and file. Rows of other files, and domains and files past
 * the limits, are left out. */
static void sort_domains(const cJSON *root, struct domains *t) {
    memset(t, 0, sizeof *t);
    for (const cJSON *r = doc_first(doc_get(root, "files")); r; r = r->next) {
        const char *name = doc_str(r, "name");
        if (!name || t->n_files == MAX_FILES) continue;
        t->mean[t->n_files] = num(r, "mean_kld");
        t->file[t->n_files++] = name;
    }
    for (const cJSON *r = doc_first(doc_get(root, "by_domain")); r; r = r->next) {
        const char *domain = doc_str(r, "domain"), *name = doc_str(r, "name");
        if (!domain || !name || !isfinite(num(r, "mean_kld"))) continue;
        const int f = position(t->file, t->n_files, name),
                  d = position(t->domain, t->n_domains, domain);
        if (f == t->n_files || d == MAX_DOMAINS) continue;
        if (d == t->n_domains) t->domain[t->n_domains++] = domain;
        t->row[d][f] = r;
    }
}

/* Returns the divergence of file f on domain d relative to the file's mean; NaN: not measured. */
static double relative(const struct domains *t, int d, int f) {
    return t->row[d][f] && t->mean[f] > 0 ? fmax(0, num(t->row[d][f], "mean_kld")) / t->mean[f]
                                          : (double)NAN;
}

/* Appends a table with domains as rows and files i to end - 1 as columns. */
static void put_domain_table(const struct domains *t, int i, int end, struct buf *out) {
    buf_str(out, "| domain |");
    for (int f = i; f < end; f++) {
        buf_chr(out, ' ');
        md_text(out, t->file[f]);
        buf_str(out, " |");
    }
    buf_str(out, "\n|---|");
    for (int f = i; f < end; f++) buf_str(out, "---:|");
    for (int d = 0; d < t->n_domains; d++) {
        buf_str(out, "\n| ");
        md_text(out, t->domain[d]);
        buf_str(out, " |");
        for (int f = i; f < end; f++) {
            const double x = relative(t, d, f);
            buf_chr(out, ' ');
            if (t->row[d][f])
                text_kld(out, num(t->row[d][f], "mean_kld"), (double)NAN);
            else
                buf_chr(out, '-');
            if (isfinite(x)) buf_fmt(out, ", %.1fx", x);
            buf_str(out, " |");
        }
    }
    buf_str(out, "\n\n");
}

/* Appends the tables by domain, each with as many files as fit a line, and how certain they are. */
static void put_domains(const struct domains *t, struct buf *out) {
    enum { CELL = 12, EDGES = 3 };
    size_t first = 6;
    double worst = 0;
    bool unknown = false;
    for (int d = 0; d < t->n_domains; d++) {
        if (strlen(t->domain[d]) > first) first = strlen(t->domain[d]);
        for (int f = 0; f < t->n_files; f++) {
            if (!t->row[d][f]) continue;
            const double err = num(t->row[d][f], "mean_kld_stderr"),
                         x = err / num(t->row[d][f], "mean_kld");
            if (isfinite(x) && x > worst) worst = x;
            unknown = unknown || !isfinite(err);
        }
    }
    for (int i = 0, end; i < t->n_files && t->n_domains; i = end) {
        end = text_columns(t->file, t->n_files, i, first + EDGES + 1, CELL, EDGES);
        put_domain_table(t, i, end, out);
    }
    if (!t->n_domains) return;
    buf_str(out, "Mean KLD, and its ratio to the file's mean over all windows.");
    if (worst > 0) buf_fmt(out, " Standard errors are at most %.0f %% of a value.", 100 * worst);
    if (unknown) buf_str(out, " A domain with a single window has no standard error.");
    buf_str(out, "\n\n");
}

/* Returns the domain on which file f loses most relative to its mean; -1: none, or the difference
 * is small or may be an error of the domain's mean. */
static int weakest(const struct domains *t, int f) {
    static const double least = 1.05;
    int worst = -1;
    for (int d = 0; d < t->n_domains; d++)
        if (isfinite(relative(t, d, f)) && (worst < 0 || relative(t, d, f) > relative(t, worst, f)))
            worst = d;
    if (worst < 0) return -1;
    const double err = num(t->row[worst][f], "mean_kld_stderr");
    const double x = relative(t, worst, f), margin = 2 * (isfinite(err) ? err : 0) / t->mean[f];
    return x > least && x - margin > 1 ? worst : -1;
}

/* Appends a sentence that names these domains, each with its files. */
static void put_weakest(const struct domains *t, struct buf *out) {
    bool any = false;
    int worst[MAX_FILES];
    for (int f = 0; f < t->n_files; f++) worst[f] = weakest(t, f);
    for (int d = 0; d < t->n_domains && t->n_domains > 1; d++) {
        bool listed = false;
        for (int f = 0; f < t->n_files; f++) {
            if (worst[f] != d) continue;
            if (!any)
                buf_str(out, "\nThe domain on which a file loses most, relative to its mean: ");
            if (!listed) {
                buf_str(out, any ? "; " : "");
                md_text(out, t->domain[d]);
            }
            buf_str(out, listed ? ", " : " for ");
            md_text(out, t->file[f]);
            buf_fmt(out, " (%.1fx)", relative(t, d, f));
            any = listed = true;
        }
    }
    if (any) buf_str(out, ".\n");
}

/* Appends the divergence by depth. */
static void put_depths(const cJSON *root, struct buf *out) {
    const cJSON *r = doc_first(doc_get(root, "by_depth"));
    if (!r) return;
    buf_str(out, "| tokens of context | file | mean KLD | same token |\n|---|---|---:|---:|\n");
    for (; r; r = r->next) {
        buf_fmt(out, "| %.0f to %.0f | ", doc_num(r, "from", 0), doc_num(r, "to", 0));
        put_text(r, "name", out);
        buf_str(out, " | ");
        put_kld(r, out);
        buf_str(out, " | ");
        put_same(r, out);
        buf_str(out, " |\n");
    }
    buf_chr(out, '\n');
}

/* Appends the divergence by cache type. */
static void put_kv(const cJSON *root, struct buf *out) {
    const cJSON *r = doc_first(doc_get(root, "by_kv"));
    if (!r) return;
    buf_str(out, "| KV cache | file | mean KLD | compared with the first type |\n"
                 "|---|---|---:|---|\n");
    for (; r; r = r->next) {
        buf_str(out, "| ");
        put_text(r, "kv_type", out);
        buf_str(out, " | ");
        put_text(r, "name", out);
        buf_str(out, " | ");
        put_kld(r, out);
        buf_str(out, " | ");
        if (isfinite(num(r, "ratio"))) {
            buf_fmt(out, "%.2fx", num(r, "ratio"));
            put_interval(r, out);
        } else {
            buf_chr(out, '-');
        }
        buf_str(out, " |\n");
    }
    buf_chr(out, '\n');
}

/* Appends a number of a row, or a dash, and ends the cell. */
static void put_cell(const cJSON *row, const char *key, int digits, struct buf *out) {
    if (isfinite(num(row, key)))
        buf_fmt(out, " %.*f |", digits, num(row, key));
    else
        buf_str(out, " - |");
}

/* Appends the numbers of every file that the first table leaves out. */
static void put_numbers(const cJSON *root, struct buf *out) {
    bool any = false;
    for (const cJSON *r = doc_first(doc_get(root, "files")); r; r = r->next)
        any = any || isfinite(num(r, "median_kld")) || isfinite(num(r, "kld_p999"));
    if (!any) return;
    buf_str(out, "| file | bits per weight | median KLD | 99.9 % | perplexity |\n"
                 "|---|---:|---:|---:|---:|\n");
    for (const cJSON *r = doc_first(doc_get(root, "files")); r; r = r->next) {
        buf_str(out, "| ");
        put_text(r, "name", out);
        buf_str(out, " |");
        put_cell(r, "bpw", 2, out);
        put_cell(r, "median_kld", 5, out);
        put_cell(r, "kld_p999", 3, out);
        put_cell(r, "ppl", 3, out);
        buf_chr(out, '\n');
    }
    if (isfinite(num(root, "base_ppl")))
        buf_fmt(out,
                "\nPerplexity of the base: %.3f. 99.9 %%: one token in a thousand diverges more.\n",
                num(root, "base_ppl"));
    buf_chr(out, '\n');
}

/* Appends the first error of the base's template, and of each file's own template. */
static void put_template_errors(const cJSON *root, struct buf *out) {
    const char *why = doc_str(root, "base_template_first");
    if (why) {
        buf_str(out, "\nFirst error of the base's template: ");
        md_text(out, why);
        buf_chr(out, '\n');
    }
    for (const cJSON *r = doc_first(doc_get(root, "checks")); r; r = r->next) {
        const char *own = doc_str(r, "template_first");
        if (!own || (why && strcmp(own, why) == 0)) continue;
        buf_str(out, "\nFirst error of the template of ");
        put_text(r, "name", out);
        buf_str(out, ": ");
        md_text(out, own);
        buf_chr(out, '\n');
    }
}

/* Appends vision, MTP blocks, template and faults of every file. */
static void put_checks(const cJSON *root, struct buf *out) {
    buf_str(out, "| file | vision | MTP blocks | template |\n|---|---|---:|---|\n");
    for (const cJSON *r = doc_first(doc_get(root, "checks")); r; r = r->next) {
        buf_str(out, "| ");
        put_text(r, "name", out);
        buf_fmt(out, " | %s | %.0f | ", doc_bool(r, "vision", false) ? "yes" : "no",
                doc_num(r, "mtp", 0));
        put_text(r, "template", out);
        buf_str(out, " |\n");
    }
    put_template_errors(root, out);
    const cJSON *f = doc_first(doc_get(root, "faults"));
    if (f) buf_str(out, "\nMetadata that differ from the base's:\n\n");
    for (; f; f = f->next) {
        buf_str(out, "- ");
        put_text(f, "name", out);
        buf_str(out, ": ");
        put_text(f, "fault", out);
        buf_chr(out, '\n');
    }
}

/* Appends the domains that were not measured. */
static void put_missing(const cJSON *root, struct buf *out) {
    int n = 0;
    for (const cJSON *d = doc_first(doc_get(root, "domains_missing")); d && n < MAX_DOMAINS;
         d = d->next) {
        if (!cJSON_IsString(d)) continue;
        buf_str(out, n++ ? ", " : ", the domains ");
        md_text(out, d->valuestring);
    }
}

/* Appends the sentence on tokens, windows and base, as far as the document has them. */
static void put_measured(const cJSON *root, struct buf *out) {
    const double n = num(root, "n_chunks"), ctx = num(root, "ctx"), bpw = num(root, "base_bpw");
    char tokens[32];
    text_thousands(tokens, (int64_t)doc_num(root, "n_tokens", 0));
    buf_fmt(out, "Measured on %s tokens", tokens);
    if (isfinite(n) && isfinite(ctx)) buf_fmt(out, " in %.0f windows of %.0f", n, ctx);
    if (doc_str(root, "base")) {
        buf_str(out, ", against ");
        put_text(root, "base", out);
    }
    if (isfinite(bpw)) buf_fmt(out, " (%.1f bits per weight)", bpw);
    buf_str(out, ". ");
}

/* Appends a note if the cache or the activations were not exact, and one if the base has fewer bits
 * than a file. */
static void put_caveats(const cJSON *root, struct buf *out) {
    const double bpw = num(root, "base_bpw");
    bool finer = false;
    if (!versus_exact(root)) {
        buf_str(out, "Computed with a key-value cache of ");
        put_text(root, "kv_type", out);
        buf_str(out, " and activations of ");
        put_text(root, "act", out);
        buf_str(out, ", whose errors are in these numbers. ");
    }
    for (const cJSON *r = doc_first(doc_get(root, "files")); r; r = r->next)
        finer = finer || num(r, "bpw") > 1.01 * bpw;
    if (finer)
        buf_str(out, "The base has fewer bits per weight than some files, so the divergence of "
                     "those is mostly its own loss. ");
}

/* Appends the long contexts that were not measured: all, or those past the deepest. */
static void put_past(const cJSON *root, struct buf *out) {
    double most = 0;
    for (const cJSON *r = doc_first(doc_get(root, "by_depth")); r; r = r->next)
        most = fmax(most, doc_num(r, "to", 0));
    if (most > 0)
        buf_fmt(out, "contexts of more than %.0f tokens, ", most);
    else
        buf_str(out, "long contexts, ");
}

/* Appends a command between fences that are longer than any row of backticks in it. */
static void put_command(const char *command, struct buf *out) {
    int fence = 3, row = 0;
    for (const char *c = command; *c; c++) {
        row = *c == '`' ? row + 1 : 0;
        if (row >= fence) fence = row + 1;
    }
    buf_chr(out, '\n');
    for (int i = 0; i < fence; i++) buf_chr(out, '`');
    buf_chr(out, '\n');
    for (; *command; command++) buf_chr(out, (unsigned char)*command < 0x20 ? ' ' : *command);
    buf_chr(out, '\n');
    for (int i = 0; i < fence; i++) buf_chr(out, '`');
    buf_chr(out, '\n');
}

/* Appends how it was measured, what is missing, and the command. */
static void put_how(const cJSON *root, struct buf *out) {
    static const char *const none[] = {"multiple choice", "greedy texts", "tool calls"};
    const char *command = doc_str(root, "command");
    buf_chr(out, '\n');
    if (doc_num(root, "n_tokens", 0) > 0) put_measured(root, out);
    put_caveats(root, out);
    buf_str(out, "Not measured: ");
    for (int k = 0; k < KINDS; k++)
        if (!has_kind(root, k)) buf_fmt(out, "%s, ", none[k]);
    put_past(root, out);
    buf_str(out, "speed, images");
    put_missing(root, out);
    buf_str(out, ".\n");
    if (command) put_command(command, out);
}

void versus_markdown(const cJSON *root, struct buf *out) {
    if (doc_str(root, "answer")) {
        put_text(root, "answer", out);
        buf_str(out, "\n\n");
    }
    struct domains *t = xcalloc(1, sizeof *t);
    sort_domains(root, t);
    put_files(root, out);
    put_pairs(root, out);
    put_weakest(t, out);
    card_fold("Numbers, by domain and depth, metadata", out);
    put_numbers(root, out);
    put_domains(t, out);
    free(t);
    put_depths(root, out);
    put_kv(root, out);
    put_checks(root, out);
    card_fold_end(out);
    put_how(root, out);
}
