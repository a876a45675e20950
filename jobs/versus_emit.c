// SPDX-License-Identifier: MIT
/* jobs/versus_emit.c - tables of hone versus (docs/formats/versus.md). */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/versus_int.h"
#include "text/shell.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "report/report_text.h"
#include "calib/defaults.h"
#include "runtime/measure/answer.h"
#include "runtime/measure/cells.h"
#include "runtime/measure/measures.h"

enum { DEPTH_BASE = 64 };

/* Returns the divergence, 0 if rounding made it negative. */
static double kld(double x) {
    return x < 0 ? 0 : x;
}

/* ---- the answer ---- */

/* Finds the pair of files of equal size whose divergences differ most, clearly: the closer file in
 * *a, the other in *b. Returns false without such a pair. */
static bool best_pair(const struct versus *v, int *a, int *b, struct eval_pair *out) {
    bool found = false;
    for (int i = 0; i < v->n; i++)
        for (int k = 0; k < v->n; k++) {
            struct eval_pair p;
            if (i == k || !versus_same_size(&v->f[i], &v->f[k])) continue;
            eval_kld_pair(&v->r, i, k, &p);
            if (!eval_is_closer(&p) || (found && p.ratio >= out->ratio)) continue;
            *a = i;
            *b = k;
            *out = p;
            found = true;
        }
    return found;
}

static void put_answer(const struct versus *v, struct emit *m) {
    struct buf b = {0};
    struct eval_kld k[VERSUS_MAX];
    char *label[VERSUS_MAX];
    struct eval_pair p;
    int x, y;
    for (int i = 0; i < v->n; i++) {
        k[i] = v->f[i].k;
        label[i] = v->f[i].label;
    }
    eval_answer(k, label, v->n, v->base.name, &v->r, &b);
    if (best_pair(v, &x, &y, &p))
        buf_fmt(&b, " At equal size, %s has %.2fx the divergence of %s (95 %%: %.2f to %.2f).",
                v->f[x].label, p.ratio, v->f[y].label, p.ratio_lo, p.ratio_hi);
    emit_answer(m, b.data);
    buf_release(&b);
}

/* ---- the domains ---- */

/* Returns whether a text of this name was read. */
static bool has_domain(const struct versus *v, const char *name) {
    for (int d = 0; d < v->texts.n; d++)
        if (strcmp(v->texts.domain[d].name, name) == 0) return true;
    return false;
}

/* Returns whether windows of domain d were measured. */
static bool is_measured(const struct versus *v, int d) {
    for (int64_t c = 0; c < v->r.n_chunks; c++)
        if (v->r.chunk_domain[c] == d) return true;
    return false;
}

/* Adds the domains without windows: of the texts and, without --text, of the built-in ones that the
 * base has no template for. */
static void put_missing(const struct versus *v, struct emit *m) {
    const struct default_domain *d;
    struct buf b = {0};
    bool any = false;
    buf_chr(&b, '[');
    for (int i = 0; i < v->texts.n; i++) {
        const char *name = v->texts.domain[i].name;
        if (is_measured(v, i)) continue;
        buf_str(&b, any ? ", " : "");
        json_quote(&b, name, strlen(name));
        any = true;
    }
    for (int i = 0; !v->o->text.n && (d = default_domain_at(i)) != NULL; i++) {
        if (has_domain(v, d->name)) continue;
        buf_fmt(&b, "%s\"%s\"", any ? ", " : "", d->name);
        any = true;
    }
    buf_chr(&b, ']');
    emit_json(m, "domains_missing", any ? "domains not measured" : NULL, b.data);
    buf_release(&b);
}

/* ---- the command ---- */

/* Appends a space and an argument, quoted for the shell; one that looks like an option is a file.
 */
static void put_word(struct buf *out, const char *s) {
    struct buf word = {0};
    buf_fmt(&word, "%s%s", s[0] == '-' && s[1] ? "./" : "", s);
    buf_chr(out, ' ');
    shell_word(out, word.data);
    buf_release(&word);
}

char **versus_shown(const struct str_list *l, const char *(*file)(const char *given)) {
    const char **path = xcalloc((size_t)l->n + 1, sizeof *path);
    char **name = xcalloc((size_t)l->n + 1, sizeof *name);
    for (int i = 0; i < l->n; i++) path[i] = file(l->v[i]);
    io_short_names(path, l->n, name);
    free(path);
    return name;
}

const char *versus_choice_file(const char *given) {
    const char *colon = strchr(given, ':');
    return colon ? colon + 1 : given;
}

const char *versus_whole(const char *given) {
    return given;
}

/* Appends a list option; its values keep what precedes the file, but no folders. */
static void put_each(struct buf *out, const char *option, const struct str_list *l,
                     const char *(*file)(const char *given)) {
    char **shown = versus_shown(l, file);
    for (int i = 0; i < l->n; i++) {
        struct buf word = {0};
        buf_fmt(&word, "%.*s%s", (int)(file(l->v[i]) - l->v[i]), l->v[i], shown[i]);
        buf_fmt(out, " --%s", option);
        put_word(out, word.data);
        buf_release(&word);
        free(shown[i]);
    }
    free(shown);
}

/* Appends the texts; without --text, the built-in domains that were used, by name. */
static void put_texts(const struct versus *v, struct buf *out) {
    const struct default_domain *d;
    put_each(out, "text", &v->o->text, versus_text_file);
    for (int i = 0; !v->o->text.n && (d = default_domain_at(i)) != NULL; i++)
        if (has_domain(v, d->name)) buf_fmt(out, " --text %s", d->name);
}

/* Appends the command that repeats the comparison, with file names instead of paths. Options that
 * change numbers are spelled out, because later versions may have other defaults. */
static void put_command(const struct versus *v, struct buf *out) {
    const struct versus_opts *o = v->o;
    const int64_t greedy = versus_n_greedy(o);
    buf_str(out, "hone versus");
    put_word(out, v->base.name);
    for (int i = 0; i < v->n; i++) put_word(out, v->f[i].name);
    put_texts(v, out);
    buf_fmt(out, " --ctx %" PRId64 " --chunks %" PRId64, o->eval.ctx, o->eval.chunks);
    if (o->eval.by_depth) buf_str(out, " --by-depth");
    if (o->flips) buf_str(out, " --flips");
    if (greedy) buf_fmt(out, " --greedy %" PRId64, greedy);
    put_each(out, "choice", &o->choice, versus_choice_file);
    put_each(out, "tools", &o->tools, versus_whole);
    if (o->flips || o->choice.n || o->tools.n) buf_fmt(out, " --cases %" PRId64, o->n_cases);
    if (o->flips || o->tools.n) buf_fmt(out, " --max-tokens %" PRId64, o->max_tokens);
    buf_str(out, " --kv-type");
    put_word(out, o->eval.kv_type);
    buf_fmt(out, " --act %s", o->eval.act);
    if (!o->eval.pre) return;
    buf_str(out, " --pre");
    put_word(out, o->eval.pre);
}

/* ---- tables ---- */

static void put_fields(const struct versus *v, struct emit *m) {
    struct buf command = {0};
    emit_i64(m, "hone_versus", NULL, 1);
    emit_str(m, "base", "base", v->base.name);
    emit_i64(m, "base_bytes", NULL, v->base.n_bytes);
    emit_num(m, "base_bpw", "its bits per weight", v->base.bpw, 2);
    emit_num(m, "base_ppl", "its perplexity", v->f[0].k.ppl_base, 4);
    emit_bool(m, "base_vision", NULL, v->base.vision);
    emit_i64(m, "base_mtp", NULL, v->base.mtp);
    emit_i64(m, "base_template_errors", v->base.n_template > 0 ? "errors in its template" : NULL,
             v->base.n_template);
    emit_str(m, "base_template_first", NULL, v->base.first_template);
    if (v->has_choices) emit_num(m, "base_right_per_100", NULL, v->base.n.right_per_100, 1);
    if (v->has_tools) {
        emit_i64(m, "base_tools_passed", NULL, v->base.n.tools_passed);
        emit_bool(m, "tools_offered", NULL, !v->mixed_suites);
    }
    emit_i64(m, "n_tokens", "scored tokens", v->f[0].k.n_tokens);
    emit_i64(m, "n_chunks", "windows", v->r.n_chunks);
    emit_i64(m, "ctx", "window length", v->r.ctx);
    put_missing(v, m);
    emit_str(m, "kv_type", NULL, v->eval.kv_type);
    emit_str(m, "act", NULL, v->o->eval.act);
    emit_bool(m, "exact", NULL,
              strcmp(v->eval.kv_type, KV_EXACT) == 0 && strcmp(v->o->eval.act, ACT_EXACT) == 0);
    put_command(v, &command);
    emit_str(m, "command", NULL, command.data);
    buf_release(&command);
}

static void put_files(const struct versus *v, struct emit *m) {
    emit_table(m, "files", "files, smallest first (group: each within 1 % of the next)");
    emit_col(m, "name", "file");
    emit_col(m, "file", NULL);
    emit_col(m, "group", "group");
    emit_col(m, "size_bytes", NULL);
    emit_col(m, "sample_xxh128", NULL);
    emit_col(m, "mib", "MiB");
    emit_col(m, "bpw", "bits");
    emit_col(m, "mean_kld", "mean KLD");
    emit_col(m, "mean_kld_stderr", "+-");
    emit_col(m, "mean_kld_ci95_low", NULL);
    emit_col(m, "mean_kld_ci95_high", NULL);
    emit_col(m, "median_kld", "median");
    emit_col(m, "kld_p999", "99.9 %");
    emit_col(m, "max_kld", NULL);
    emit_col(m, "same_top1", "same top");
    emit_col(m, "ppl", "ppl");
    emit_col(m, "ppl_ratio", NULL);
    for (int i = 0; i < v->n; i++) {
        const struct versus_file *f = &v->f[i];
        char hash[33];
        gguf_sample_hash(f->m->gguf, hash);
        emit_row(m);
        emit_cell_str(m, f->label);
        emit_cell_str(m, f->name);
        emit_cell_i64(m, f->group + 1);
        emit_cell_i64(m, f->n_bytes);
        emit_cell_str(m, hash);
        emit_cell_num(m, (double)f->n_bytes / 1048576, 1);
        emit_cell_num(m, f->bpw, 2);
        emit_cell_num(m, kld(f->g.mean_kld), 5);
        error_cell(m, f->g.mean_kld_stderr, f->g.n_chunks, 5);
        interval_cells(m, kld(f->g.mean_kld_lo), f->g.mean_kld_hi, f->g.n_chunks, 5);
        emit_cell_num(m, kld(f->k.median_kld), 5);
        emit_cell_num(m, f->k.kld_p999, 3);
        emit_cell_num(m, f->k.max_kld, 3);
        emit_cell_num(m, f->k.same_top1, 4);
        emit_cell_num(m, f->k.ppl, 3);
        emit_cell_num(m, f->k.ppl_ratio, 5);
    }
}

/* Adds every pair of files of equal size, the closer one first. */
static void put_pairs(const struct versus *v, struct emit *m) {
    bool any = false;
    for (int i = 0; i + 1 < v->n; i++) any = any || versus_same_size(&v->f[i], &v->f[i + 1]);
    if (!any) return;
    emit_table(m, "equal_size",
               "pairs of equal size: divergence of the first, relative to the second");
    emit_col(m, "closer", "closer");
    emit_col(m, "other", "than");
    emit_col(m, "ratio", "ratio");
    emit_col(m, "ratio_ci95_low", "95 % from");
    emit_col(m, "ratio_ci95_high", "to");
    emit_col(m, "diff", "a - b");
    emit_col(m, "diff_stderr", NULL);
    emit_col(m, "diff_ci95_low", NULL);
    emit_col(m, "diff_ci95_high", NULL);
    emit_col(m, "clear", "clear");
    for (int i = 0; i < v->n; i++)
        for (int k = i + 1; k < v->n && versus_same_size(&v->f[i], &v->f[k]); k++) {
            const bool turn = v->f[k].g.mean_kld < v->f[i].g.mean_kld;
            const int a = turn ? k : i, b = turn ? i : k;
            struct eval_pair p;
            eval_kld_pair(&v->r, a, b, &p);
            emit_row(m);
            emit_cell_str(m, v->f[a].label);
            emit_cell_str(m, v->f[b].label);
            number_cell(m, p.ratio, 3);
            interval_cells(m, p.ratio_lo, p.ratio_hi, p.n_chunks, 3);
            emit_cell_num(m, p.diff, 6);
            error_cell(m, p.stderr_, p.n_chunks, 6);
            interval_cells(m, p.lo, p.hi, p.n_chunks, 6);
            emit_cell_bool(m, eval_is_closer(&p));
        }
}

/* Adds the counts of all files as one table, for programs. */
static void put_flips(const struct versus *v, struct emit *m) {
    emit_table(m, "flips", NULL);
    emit_col(m, "name", "file");
    eval_share_columns(m, "choices", NULL);
    emit_col(m, "right_per_100", NULL);
    eval_share_columns(m, "greedy", NULL);
    emit_col(m, "first_change", NULL);
    eval_share_columns(m, "tools", NULL);
    emit_col(m, "tools_valid", NULL);
    emit_col(m, "tools_passed", NULL);
    for (int i = 0; i < v->n; i++) {
        const struct versus_counts *c = &v->f[i].n;
        emit_row(m);
        emit_cell_str(m, v->f[i].label);
        eval_share_cells(m, &c->choices);
        number_cell(m, c->right_per_100, 1);
        eval_share_cells(m, &c->greedy);
        number_cell(m, c->first_change, 1);
        eval_share_cells(m, &c->tools);
        if (c->tools.of) {
            emit_cell_i64(m, c->tools_valid);
            emit_cell_i64(m, c->tools_passed);
        } else {
            emit_cell_none(m);
            emit_cell_none(m);
        }
    }
}

enum change { CHOICES, GREEDY, TOOLS };

/* Adds a row of a table of changes; x is the base if `base`, of which only the last cell is shown.
 */
static void put_change_row(struct emit *m, const char *name, const struct versus_file *x,
                           enum change kind, bool base) {
    const struct versus_counts *c = &x->n;
    const struct eval_share none = {.of = 0};
    const struct eval_share *s = kind == CHOICES  ? &c->choices
                                 : kind == GREEDY ? &c->greedy
                                                  : &c->tools;
    emit_row(m);
    emit_cell_str(m, name);
    eval_share_cells(m, base ? &none : s);
    if (kind == TOOLS && s->of)
        emit_cell_i64(m, c->tools_passed);
    else if (kind == TOOLS)
        emit_cell_none(m);
    else
        number_cell(m, kind == CHOICES ? c->right_per_100 : c->first_change, 1);
}

/* Adds a table that is printed but not in the JSON: one kind of changes, and
 * the base's right or passed answers. */
static void put_change_table(const struct versus *v, struct emit *m, enum change kind,
                             const char *title, const char *last) {
    emit_table(m, NULL, title);
    emit_col(m, "", "file");
    eval_share_columns(m, "", "per 100");
    emit_col(m, "", last);
    for (int i = 0; i < v->n; i++) put_change_row(m, v->f[i].label, &v->f[i], kind, false);
    if (kind != GREEDY) put_change_row(m, v->base.name, &v->base, kind, true);
}

static void put_changes(const struct versus *v, struct emit *m) {
    if (!v->has_choices && !v->has_greedy && !v->has_tools) return;
    put_flips(v, m);
    if (v->has_choices)
        put_change_table(v, m, CHOICES, "multiple choice: answers that change (95 % interval)",
                         "right");
    if (v->has_greedy)
        put_change_table(v, m, GREEDY, "greedy texts that change (95 % interval)", "at token");
    if (v->has_tools)
        put_change_table(v, m, TOOLS,
                         v->mixed_suites ? "suites: answers that change (95 % interval)"
                                         : "tool calls that change (95 % interval)",
                         "passed");
}

/* Adds the cells that by_domain, by_depth and by_kv share. */
static void put_group(struct emit *m, const struct eval_group *g) {
    emit_cell_i64(m, g->n_tokens);
    emit_cell_i64(m, g->n_chunks);
    emit_cell_num(m, kld(g->mean_kld), 5);
    error_cell(m, g->mean_kld_stderr, g->n_chunks, 5);
    interval_cells(m, kld(g->mean_kld_lo), g->mean_kld_hi, g->n_chunks, 5);
    emit_cell_num(m, kld(g->median_kld), 5);
    emit_cell_num(m, g->same_top1, 4);
    emit_cell_num(m, g->ppl, 3);
}

static void put_group_columns(struct emit *m) {
    emit_col(m, "n_tokens", "tokens");
    emit_col(m, "n_chunks", NULL);
    emit_col(m, "mean_kld", "mean KLD");
    emit_col(m, "mean_kld_stderr", "+-");
    emit_col(m, "mean_kld_ci95_low", NULL);
    emit_col(m, "mean_kld_ci95_high", NULL);
    emit_col(m, "median_kld", "median");
    emit_col(m, "same_top1", "same top");
    emit_col(m, "ppl", "ppl");
}

/* Adds columns of a paired ratio of divergences. */
static void put_ratio_columns(struct emit *m, const char *title) {
    emit_col(m, "ratio", title);
    emit_col(m, "ratio_ci95_low", title ? "95 % from" : NULL);
    emit_col(m, "ratio_ci95_high", title ? "to" : NULL);
}

/* Adds the cells of a paired ratio; p NULL: empty cells. */
static void put_ratio(struct emit *m, const struct eval_pair *p) {
    number_cell(m, p ? p->ratio : (double)NAN, 3);
    interval_cells(m, p ? p->ratio_lo : 0, p ? p->ratio_hi : 0, p ? p->n_chunks : 0, 3);
}

/* Returns the file that file i is compared with by domain and depth: of the files of its size, the
 * one closest to the base. -1: file i itself is the closest. */
static int rival(const struct versus *v, int i) {
    int best = i;
    for (int k = 0; k < v->n; k++)
        if (versus_same_size(&v->f[i], &v->f[k]) && v->f[k].g.mean_kld < v->f[best].g.mean_kld)
            best = k;
    return best == i ? -1 : best;
}

static void put_rival_columns(struct emit *m) {
    emit_col(m, "closest", NULL);
    put_ratio_columns(m, NULL);
}

/* Adds the cells that compare file i with its rival on rows of a domain's windows. */
static void put_rival(const struct versus *v, struct emit *m, int i, int domain, int64_t row0,
                      int64_t row1) {
    const int k = rival(v, i);
    struct eval_pair p;
    if (k >= 0) eval_kld_pair_group(&v->r, i, k, domain, row0, row1, &p);
    emit_cell_str(m, k < 0 ? NULL : v->f[k].label);
    put_ratio(m, k < 0 ? NULL : &p);
}

/* Sets *g to the statistics of file i on domain d. Returns false if none of its windows were read.
 */
static bool domain_group(const struct versus *v, int i, int d, struct eval_group *g) {
    eval_kld_group(&v->r, i, d, v->r.ctx / 2, v->r.ctx, g);
    return g->n_tokens > 0;
}

/* Returns the divergence on a domain relative to the file's mean; NaN if the file has none. */
static double relative(const struct versus_file *f, const struct eval_group *g) {
    return f->g.mean_kld > 0 ? kld(g->mean_kld) / f->g.mean_kld : (double)NAN;
}

/* Adds a table that is printed but not in the JSON: domains as rows, files i to end - 1 as columns.
 */
static void put_domain_columns(const struct versus *v, struct emit *m, int i, int end) {
    struct eval_group g;
    struct buf b = {0};
    emit_table(m, NULL, i ? "" : "by domain: mean KLD, and its ratio to the mean of all windows");
    emit_col(m, "", "domain");
    for (int k = i; k < end; k++) emit_col(m, "", v->f[k].label);
    for (int d = 0; d < v->texts.n; d++) {
        if (!domain_group(v, i, d, &g)) continue;
        emit_row(m);
        emit_cell_str(m, v->texts.domain[d].name);
        for (int k = i; k < end; k++) {
            buf_reset(&b);
            domain_group(v, k, d, &g);
            buf_fmt(&b, "%.5f", kld(g.mean_kld));
            if (isfinite(relative(&v->f[k], &g))) buf_fmt(&b, " (%.1fx)", relative(&v->f[k], &g));
            emit_cell_str(m, b.data);
        }
    }
    buf_release(&b);
}

/* Adds the tables by domain for people, each with as many files as fit a line. */
static void put_domain_tables(const struct versus *v, struct emit *m) {
    enum { GAP = 2, CELL = 15 /* 0.12345 (12.3x) */ };
    const char *label[VERSUS_MAX];
    size_t first = 6;
    for (int i = 0; i < v->n; i++) label[i] = v->f[i].label;
    for (int d = 0; d < v->texts.n; d++)
        if (strlen(v->texts.domain[d].name) > first) first = strlen(v->texts.domain[d].name);
    for (int i = 0, end; i < v->n; i = end) {
        end = text_columns(label, v->n, i, first, CELL, GAP);
        put_domain_columns(v, m, i, end);
    }
}

static void put_domains(const struct versus *v, struct emit *m) {
    struct eval_group g;
    if (v->texts.n < 2) return;
    emit_table(m, "by_domain", NULL);
    emit_col(m, "domain", "domain");
    emit_col(m, "name", "file");
    put_group_columns(m);
    emit_col(m, "relative", NULL);
    put_rival_columns(m);
    for (int d = 0; d < v->texts.n; d++)
        for (int i = 0; i < v->n; i++) {
            if (!domain_group(v, i, d, &g)) continue;
            emit_row(m);
            emit_cell_str(m, v->texts.domain[d].name);
            emit_cell_str(m, v->f[i].label);
            put_group(m, &g);
            number_cell(m, relative(&v->f[i], &g), 2);
            put_rival(v, m, i, d, v->r.ctx / 2, v->r.ctx);
        }
    put_domain_tables(v, m);
}

static void put_depths(const struct versus *v, struct emit *m) {
    if (!v->o->eval.by_depth) return;
    emit_table(m, "by_depth", "by tokens of context");
    emit_col(m, "from", "from");
    emit_col(m, "to", "to");
    emit_col(m, "name", "file");
    put_group_columns(m);
    put_rival_columns(m);
    for (int64_t lo = 1, hi = DEPTH_BASE; lo < v->r.ctx; lo = hi, hi *= 2)
        for (int i = 0; i < v->n; i++) {
            struct eval_group g;
            eval_kld_group(&v->r, i, -1, lo - 1, hi - 1, &g);
            if (!g.n_tokens) continue;
            emit_row(m);
            emit_cell_i64(m, max_i64(lo, v->r.from + 1));
            emit_cell_i64(m, min_i64(hi, v->r.ctx) - 1);
            emit_cell_str(m, v->f[i].label);
            put_group(m, &g);
            put_rival(v, m, i, -1, lo - 1, hi - 1);
        }
}

/* Adds every file with every cache type, and the ratio to the same file with the first type. */
static void put_kv(const struct versus *v, struct emit *m) {
    if (v->kv.n < 2) return;
    emit_table(m, "by_kv", "by type of the key-value cache; ratio: to the first type");
    emit_col(m, "kv_type", "cache");
    emit_col(m, "name", "file");
    put_group_columns(m);
    put_ratio_columns(m, "ratio");
    for (int k = 0; k < v->kv.n; k++)
        for (int i = 0; i < v->n; i++) {
            const int cand = versus_cand(v, i, k);
            struct eval_group g;
            struct eval_pair p;
            eval_kld_group(&v->r, cand, -1, v->r.ctx / 2, v->r.ctx, &g);
            eval_kld_pair(&v->r, cand, i, &p);
            emit_row(m);
            emit_cell_str(m, v->kv.v[k]);
            emit_cell_str(m, v->f[i].label);
            put_group(m, &g);
            put_ratio(m, k ? &p : NULL);
        }
}

/* Appends the state of a file's template in words. */
static void put_template(const struct versus_file *f, struct buf *out) {
    if (f->n_template < 0)
        buf_str(out, "none");
    else if (!f->other_template)
        buf_str(out, "the base's");
    else
        buf_str(out, "its own");
    if (f->n_template > 0) buf_fmt(out, ", %d error%s", f->n_template, str_s(f->n_template));
}

static void put_checks(const struct versus *v, struct emit *m) {
    struct buf b = {0};
    emit_table(m, "checks", "metadata");
    emit_col(m, "name", "file");
    emit_col(m, "vision", "vision");
    emit_col(m, "mtp", "MTP blocks");
    emit_col(m, "template", "template");
    emit_col(m, "template_errors", NULL);
    emit_col(m, "template_first", NULL);
    emit_col(m, "n_faults", "faults");
    for (int i = 0; i < v->n; i++) {
        const struct versus_file *f = &v->f[i];
        buf_reset(&b);
        put_template(f, &b);
        emit_row(m);
        emit_cell_str(m, f->label);
        emit_cell_bool(m, f->vision);
        emit_cell_i64(m, f->mtp);
        emit_cell_str(m, b.data);
        emit_cell_i64(m, f->n_template);
        emit_cell_str(m, f->first_template);
        emit_cell_i64(m, f->n_faults);
    }
    buf_release(&b);
}

/* Adds a row with the first error of a template; none for a template without errors. */
static void put_first_error(struct emit *m, const char *whose, const struct versus_file *x) {
    if (!x->first_template) return;
    emit_row(m);
    emit_cell_str(m, whose);
    emit_cell_str(m, x->first_template);
}

/* Adds a table that is printed but not in the JSON: the first error of the base's template and of
 * those that differ from it. */
static void put_template_errors(const struct versus *v, struct emit *m) {
    bool any = v->base.first_template != NULL;
    for (int i = 0; i < v->n; i++) any = any || (v->f[i].other_template && v->f[i].first_template);
    if (!any) return;
    emit_table(m, NULL, "first error of each template");
    emit_col(m, "", "file");
    emit_col(m, "", "error");
    put_first_error(m, v->base.name, &v->base);
    for (int i = 0; i < v->n; i++)
        if (v->f[i].other_template) put_first_error(m, v->f[i].label, &v->f[i]);
}

/* Adds the faults of all files, one per row. */
static void put_faults(const struct versus *v, struct emit *m) {
    int n = 0;
    for (int i = 0; i < v->n; i++) n += v->f[i].n_faults;
    emit_table(m, "faults", n ? "faults of metadata" : NULL);
    emit_col(m, "name", "file");
    emit_col(m, "fault", "fault");
    for (int i = 0; i < v->n; i++)
        for (int k = 0; k < v->f[i].n_faults && k < VERSUS_MAX_FAULTS; k++) {
            emit_row(m);
            emit_cell_str(m, v->f[i].label);
            emit_cell_str(m, v->f[i].fault[k]);
        }
}

void versus_emit(const struct versus *v, struct emit *m) {
    put_answer(v, m);
    put_fields(v, m);
    put_files(v, m);
    put_pairs(v, m);
    put_changes(v, m);
    put_domains(v, m);
    put_depths(v, m);
    put_kv(v, m);
    put_checks(v, m);
    put_template_errors(v, m);
    put_faults(v, m);
}
