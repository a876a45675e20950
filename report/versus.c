// SPDX-License-Identifier: MIT
/* report/versus.c - the Markdown block of hone versus, for cards and threads: a table that a phone
 * shows, sentences on pairs of equal size, and folded details. */
#include "report/versus.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/card.h"
#include "report/pick.h"
#include "report/report_text.h"

enum { MAX_BYTES = 16 << 20 };

int versus_check(const cJSON *root, const char *path, struct err *e) {
    int64_t version;
    if (!doc_i64(root, "hone_versus", &version))
        return err_set(e, ERR_DATA, "%s is not a result of 'hone versus --json'", path);
    if (version != 1)
        return err_set(e, ERR_DATA, "%s: version %lld is not known, only 1", path,
                       (long long)version);
    if (!doc_first(doc_get(root, "files")))
        return err_set(e, ERR_DATA, "%s: compares no files", path);
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

/* ---- what changes ---- */

static const struct {
    const char *key, *name;
} kinds[] = {{"choices", "choices"}, {"greedy", "texts"}, {"tools", "tool calls"}};
enum { GREEDY = 1, KINDS = sizeof kinds / sizeof *kinds };

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
        buf_fmt(out, "%s%s %.*f (%.0f to %.0f)", any ? ", " : "", kinds[k].name, x < 9.95 ? 1 : 0,
                x, share(r, k, "lo"), share(r, k, "hi"));
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
    buf_fmt(out, " | %.1f %% |", 100 * num(row, "same_top1"));
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
    if (has_kind(root, 2)) buf_str(out, " Tool calls: answers to tool prompts that change.");
    buf_chr(out, '\n');
}

/* Appends a sentence per pair of files of equal size. */
static void put_pairs(const cJSON *root, struct buf *out) {
    const cJSON *r = doc_first(doc_get(root, "equal_size"));
    if (r) buf_str(out, "\nAt equal size (within 1 %):\n\n");
    for (; r; r = r->next) {
        buf_str(out, "- ");
        put_text(r, "closer", out);
        buf_fmt(out, " has %.2fx the divergence of ", num(r, "ratio"));
        put_text(r, "other", out);
        buf_fmt(out, " (95 %%: %.2f to %.2f)%s.\n", num(r, "ratio_ci95_low"),
                num(r, "ratio_ci95_high"),
                doc_bool(r, "clear", false) ? "" : ", which is not a clear difference");
    }
}

/* ---- details ---- */

/* Appends the divergence by domain or by depth. */
static void put_groups(const cJSON *root, const char *table, const char *title, struct buf *out) {
    const cJSON *r = doc_first(doc_get(root, table));
    if (!r) return;
    buf_fmt(out, "| %s | file | mean KLD | same token |\n|---|---|---:|---:|\n", title);
    for (; r; r = r->next) {
        buf_str(out, "| ");
        if (doc_str(r, "domain"))
            put_text(r, "domain", out);
        else
            buf_fmt(out, "%.0f to %.0f", num(r, "from"), num(r, "to"));
        buf_str(out, " | ");
        put_text(r, "name", out);
        buf_str(out, " | ");
        put_kld(r, out);
        buf_fmt(out, " | %.1f %% |\n", 100 * num(r, "same_top1"));
    }
    buf_chr(out, '\n');
}

/* Appends vision, MTP blocks, template and faults of every file. */
static void put_checks(const cJSON *root, struct buf *out) {
    buf_str(out, "| file | vision | MTP blocks | template |\n|---|---|---:|---|\n");
    for (const cJSON *r = doc_first(doc_get(root, "checks")); r; r = r->next) {
        buf_str(out, "| ");
        put_text(r, "name", out);
        buf_fmt(out, " | %s | %.0f | ", doc_bool(r, "vision", false) ? "yes" : "no", num(r, "mtp"));
        put_text(r, "template", out);
        buf_str(out, " |\n");
    }
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

/* Appends how it was measured, what is missing, and the command. */
static void put_how(const cJSON *root, struct buf *out) {
    static const char *const none[] = {"multiple choice", "greedy texts", "tool calls"};
    const char *command = doc_str(root, "command");
    char tokens[32];
    text_thousands(tokens, (int64_t)doc_num(root, "n_tokens", 0));
    buf_fmt(out, "\nMeasured on %s tokens in %.0f windows of %.0f, against ", tokens,
            num(root, "n_chunks"), num(root, "ctx"));
    put_text(root, "base", out);
    buf_fmt(out, " (%.1f bits per weight). Not measured: ", num(root, "base_bpw"));
    for (int k = 0; k < KINDS; k++)
        if (!has_kind(root, k)) buf_fmt(out, "%s, ", none[k]);
    if (!doc_first(doc_get(root, "by_depth"))) buf_str(out, "long contexts, ");
    buf_str(out, "speed, images.\n");
    if (!command) return;
    buf_str(out, "\n```\n");
    for (; *command; command++)
        buf_chr(out, *command == '`' || (unsigned char)*command < 0x20 ? ' ' : *command);
    buf_str(out, "\n```\n");
}

void versus_markdown(const cJSON *root, struct buf *out) {
    if (doc_str(root, "answer")) {
        put_text(root, "answer", out);
        buf_str(out, "\n\n");
    }
    put_files(root, out);
    put_pairs(root, out);
    card_fold("By domain and depth, metadata", out);
    put_groups(root, "by_domain", "domain", out);
    put_groups(root, "by_depth", "tokens of context", out);
    put_checks(root, out);
    card_fold_end(out);
    put_how(root, out);
}
