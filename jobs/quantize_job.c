// SPDX-License-Identifier: MIT
/* jobs/quantize_job.c - hone quantize: checks options, runs the quantizer, reports the result or,
 * with --dry-run, the plan. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "jobs/quantize_job.h"
#include "work/apart.h"
#include "work/device.h"
#include "jobs/quantize_budget.h"
#include "work/open.h"
#include "mix/sequential.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/out.h"
#include "base/log.h"
#include "base/str.h"
#include "base/mem.h"
#include "base/ranks.h"
#include "containers/gguf.h"
#include "quantize/exact.h"
#include "quantize/feedback.h"
#include "quantize/quantize.h"
#include "quantize/requant.h"

enum { MAX_RECIPES = 32, MAX_PASSES = 1000 };

/* Parses --search. ERR_USAGE: unknown. */
static int parse_search(const char *name, enum search *out, struct err *e) {
    static const struct {
        const char *name;
        enum search search;
    } modes[] = {
        {"fast", SEARCH_FAST}, {"best", SEARCH_BEST}, {"conventional", SEARCH_CONVENTIONAL}};
    *out = SEARCH_FAST;
    if (!name) return 0;
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        if (strcmp(modes[i].name, name) != 0) continue;
        *out = modes[i].search;
        return 0;
    }
    return err_set(e, ERR_USAGE, "--search: '%s' is not fast, best or conventional", name);
}

/* Parses a list of any of "balance,codes,scales,ints,gradients". */
static int parse_without(const char *list, unsigned *out, struct err *e) {
    static const struct {
        const char *name;
        unsigned bit;
    } steps[] = {{"balance", FEEDBACK_BALANCE},
                 {"codes", FEEDBACK_CODES},
                 {"scales", FEEDBACK_SCALES},
                 {"ints", FEEDBACK_INTS},
                 {"gradients", FEEDBACK_GRADIENTS}};
    for (const char *p = list; p && *p;) {
        size_t n = strcspn(p, ","), i = 0;
        while (i < COUNT_OF(steps) &&
               (strlen(steps[i].name) != n || memcmp(p, steps[i].name, n) != 0))
            i++;
        if (i == COUNT_OF(steps))
            return err_set(e, ERR_USAGE,
                           "--without: '%.*s' is not balance, codes, scales, ints or gradients",
                           (int)n, p);
        *out |= steps[i].bit;
        p += n + (p[n] == ',');
    }
    return 0;
}

/* Parses "REGEX=TYPE", split at the last '='. */
static int parse_override(const char *text, struct quant_override *ov, struct err *e) {
    const char *eq = strrchr(text, '=');
    if (!eq || eq == text || !eq[1])
        return err_set(e, ERR_USAGE, "--tensor: '%s' is not REGEX=TYPE", text);
    if (!qtype_parse(eq + 1, &ov->type))
        return err_set(e, ERR_USAGE, "--tensor: '%s' is not a tensor type", eq + 1);
    ov->regex = xstrndup(text, (size_t)(eq - text));
    return 0;
}

static void free_overrides(struct quant_override *ov, int n) {
    for (int i = 0; i < n; i++) {
        char *s;
        memcpy(&s, &ov[i].regex, sizeof s); /* allocated by parse_override */
        free(s);
    }
    free(ov);
}

/* Returns ERR_USAGE unless exactly one of recipe, type and budget is given. */
static int check_options(const struct quantize_job_opts *a, struct err *e) {
    enum qtype t;
    bool mix = budget_asked(&a->mix);
    if ((a->recipe != NULL) + (a->type != NULL) + mix != 1)
        return err_set(e, ERR_USAGE,
                       "give one of --recipe NAME|PLAN.tsv, --type T and --budget SIZE (or --bpw, "
                       "--vram)");
    if (mix && (a->pure || a->tensor.n))
        return err_set(
            e, ERR_USAGE,
            "--budget chooses the types, so --pure and --tensor do not apply; to change some, "
            "edit the plan it writes and pass that as --recipe");
    if (!mix && budget_detail(&a->mix))
        return err_set(e, ERR_USAGE,
                       "--sensitivity, --prefer, --avoid, --front, --gate, --bandwidth, "
                       "--no-floors and the options of a card require --budget, --bpw or --vram");
    if (!a->out && !a->dry_run) return err_set(e, ERR_USAGE, "-o OUT.gguf is missing");
    if (a->type && !qtype_parse(a->type, &t))
        return err_set(e, ERR_USAGE, "--type: '%s' is not a tensor type", a->type);
    return 0;
}

static void emit_rows(struct emit *m, const struct quantize_report *r) {
    emit_table(m, "tensors", "tensors");
    emit_col(m, "tensor", "tensor");
    emit_col(m, "role", "role");
    emit_col(m, "from", "from");
    emit_col(m, "to", "to");
    emit_col(m, "size_bytes", "bytes");
    emit_col(m, "fallback", "fallback");
    emit_col(m, "no_imatrix", "no imatrix");
    for (int64_t i = 0; i < r->n_tensors; i++) {
        const struct quantize_row *row = &r->rows[i];
        emit_row(m);
        emit_cell_str(m, row->name);
        emit_cell_str(m, row->role);
        emit_cell_str(m, qtype_name(row->from));
        emit_cell_str(m, qtype_name(row->to));
        emit_cell_i64(m, (int64_t)row->out_bytes);
        emit_cell_str(m, row->fallback ? "yes" : "");
        emit_cell_str(m, row->no_imatrix ? "yes" : "");
    }
}

static void emit_types(struct emit *m, const struct quantize_report *r) {
    emit_table(m, "types", "by type");
    emit_col(m, "type", "type");
    emit_col(m, "n_tensors", "tensors");
    emit_col(m, "n_weights", "weights");
    emit_col(m, "size_bytes", "bytes");
    for (int t = 0; t < QT_COUNT; t++) {
        int64_t n = 0, weights = 0, bytes = 0;
        for (int64_t i = 0; i < r->n_tensors; i++) {
            if ((int)r->rows[i].to != t) continue;
            n++;
            weights += r->rows[i].n_weights;
            bytes += (int64_t)r->rows[i].out_bytes;
        }
        if (!n) continue;
        emit_row(m);
        emit_cell_str(m, qtype_name((enum qtype)t));
        emit_cell_i64(m, n);
        emit_cell_i64(m, weights);
        emit_cell_i64(m, bytes);
    }
}

/* Emits how many tensors are stored without loss. */
static void emit_exact(struct emit *m, const struct quantize_report *r) {
    struct buf b = {0};
    exact_words(&r->exact, &b);
    if (b.len) emit_str(m, "exact", "stored without loss", b.data);
    buf_release(&b);
}

static void emit_result(struct emit *m, const struct quantize_job_opts *a, const char *out,
                        const struct quantize_report *r) {
    char size[48];
    emit_fmt_bytes(size, r->file_bytes);
    emit_str(m, "recipe", "recipe", r->recipe);
    if (!a->dry_run) emit_str(m, "output", "output", out);
    emit_i64(m, "n_tensors", "tensors", r->n_tensors);
    emit_i64(m, "n_quantized", "converted", r->n_quantized);
    emit_i64(m, "n_fallbacks", "fallbacks", r->n_fallbacks);
    emit_exact(m, r);
    if (a->imatrix) emit_i64(m, "n_no_imatrix", "without importance", r->n_no_imatrix);
    if ((a->gram || a->sequential.n) && !a->dry_run)
        emit_i64(m, "n_feedback", "with error feedback", r->n_feedback);
    if (r->n_cuda) emit_i64(m, "n_cuda", "encoded on the device", r->n_cuda);
    if (r->n_resumed) emit_i64(m, "n_resumed", "of an earlier run", r->n_resumed);
    emit_i64(m, "in_bytes", NULL, (int64_t)r->in_bytes);
    emit_i64(m, "tensor_bytes", NULL, (int64_t)r->out_bytes);
    emit_i64(m, "size_bytes", NULL, (int64_t)r->file_bytes);
    emit_str(m, "size", "size", size);
    emit_num(m, "bpw", "bits per weight", r->bpw, 3);
    if (!a->dry_run) emit_num(m, "seconds", "seconds", r->seconds, 1);
    if (a->dry_run) emit_rows(m, r);
    emit_types(m, r);
}

/* Adds the table of n outputs. */
static void emit_many(struct emit *m, const struct quantize_opts *o,
                      const struct quantize_report *r, int n) {
    emit_num(m, "seconds", "seconds", r[0].seconds, 1);
    emit_table(m, "outputs", "outputs");
    emit_col(m, "recipe", "recipe");
    emit_col(m, "output", "output");
    emit_col(m, "size_bytes", "bytes");
    emit_col(m, "bpw", "bits per weight");
    emit_col(m, "n_fallbacks", "fallbacks");
    emit_col(m, "n_no_imatrix", "without importance");
    for (int k = 0; k < n; k++) {
        emit_row(m);
        emit_cell_str(m, r[k].recipe);
        emit_cell_str(m, o[k].out ? o[k].out : "");
        emit_cell_i64(m, (int64_t)r[k].file_bytes);
        emit_cell_num(m, r[k].bpw, 3);
        emit_cell_i64(m, r[k].n_fallbacks);
        emit_cell_i64(m, r[k].n_no_imatrix);
    }
}

/* Warns about tensors without an entry in the importance matrix, except the output tensor: matrices
 * seldom have one for it, and its usual types need none. */
void quantize_warn(const char *imatrix, const struct quantize_report *r) {
    const char *first = NULL;
    int64_t n = 0;
    if (r->n_fallbacks)
        log_warn("%lld tensor%s with rows that do not fit the requested type: using a larger one",
                 (long long)r->n_fallbacks, str_s(r->n_fallbacks));
    for (int64_t i = 0; r->rows && i < r->n_tensors; i++)
        if (r->rows[i].no_imatrix && strcmp(r->rows[i].role, role_name(ROLE_OUTPUT)) != 0) {
            if (!first) first = r->rows[i].name;
            n++;
        }
    if (n)
        log_warn("%s has no entry for %lld tensor%s (%s%s), quantized without importance: does it "
                 "belong to this model, and was its text long enough?",
                 imatrix, (long long)n, str_s(n), first, n > 1 ? ", ..." : "");
}

/* ---- several recipes ------------------------------------------------------------------------- */

/* Splits "A,B,C" at commas, unless it is the path of a file. */
static int split_recipes(char **part, const char *text, struct err *e) {
    int n = 0;
    bool whole = io_exists(text);
    if (!*text) return err_set(e, ERR_USAGE, "--recipe: the name is empty");
    for (const char *s = text; *s;) {
        size_t len = whole ? strlen(s) : strcspn(s, ",");
        if (n == MAX_RECIPES)
            return err_set(e, ERR_USAGE, "--recipe: more than %d recipes", MAX_RECIPES);
        if (!len) return err_set(e, ERR_USAGE, "--recipe: '%s' has an empty name", text);
        part[n] = xstrndup(s, len);
        for (int k = 0; k < n; k++)
            if (strcasecmp(io_base(part[k]), io_base(part[n])) == 0) {
                free(part[n]);
                part[n] = NULL;
                return err_set(e, ERR_USAGE, "--recipe: %s is named twice", part[k]);
            }
        n++;
        s += len;
        if (*s == ',' && !*++s)
            return err_set(e, ERR_USAGE, "--recipe: '%s' has an empty name", text);
    }
    return 0;
}

/* Returns the path of one recipe's output: -o with "{}" replaced by the recipe's name, or, if -o is
 * a folder, a file in it named after the input, without its shard's number and its type, and the
 * recipe. */
static char *output_path(const char *out, const char *in, const char *recipe) {
    static const char *const types[] = {"-F32", "-F16", "-BF16"};
    char name[RECIPE_FILE];
    const char *known = recipe_find(recipe);
    if (known)
        recipe_file(known, name);
    else
        snprintf(name, sizeof name, "%s", io_base(recipe));
    const char *hole = strstr(out, "{}");
    struct buf b = {0};
    if (hole) {
        buf_fmt(&b, "%.*s%s%s", (int)(hole - out), out, name, hole + 2);
    } else {
        const char *base = io_base(in);
        size_t n = strlen(base);
        int shard, n_shards;
        if (!gguf_split_parse(base, &shard, &n_shards, &n) && n > 5 &&
            strcasecmp(base + n - 5, ".gguf") == 0)
            n -= 5;
        for (size_t t = 0; t < COUNT_OF(types); t++) {
            size_t k = strlen(types[t]);
            if (n > k && strncasecmp(base + n - k, types[t], k) == 0) n -= k;
        }
        buf_fmt(&b, "%s/%.*s-%s.gguf", out, (int)n, base, name);
    }
    char *path = xstrdup(b.data);
    buf_release(&b);
    return path;
}

/* Rejects quantized inputs, and outputs that would be copies of the input. */
static int check_input(const struct quantize_job_opts *a, const struct quantize_opts *o,
                       char **recipe, struct err *e) {
    struct requant base = {0};
    int rc = requant_check(o->in, &base, e);
    bool named = recipe[0] && !recipe[1] && strcasecmp(recipe[0], base.type) == 0;
    if (rc && !base.quantized) return rc;
    if (rc && !a->requantize && !(named && !o->n_over)) return rc;
    if (base.quantized && a->requantize)
        log_warn("%s is already quantized (%s): its errors add to the new ones", o->in, base.type);
    if (!recipe[0] || recipe[1] || (!named && !base.quantized)) {
        if (base.q8)
            log_info(
                "%s is Q8_0: its small errors (about 0.1 %% of a weight) carry over to the result",
                o->in);
        return 0;
    }
    struct quantize_opts dry = *o;
    struct quantize_report r;
    dry.recipe = recipe[0];
    dry.dry_run = true;
    dry.want_rows = false;
    dry.imatrix = dry.gram = dry.plan_out = NULL;
    TRY(quantize_run(&dry, &r, e));
    if (r.n_quantized == 0)
        return err_set(e, ERR_USAGE, "%s is already %s: there is nothing to do", o->in, base.type);
    return base.quantized && !a->requantize ? requant_check(o->in, &base, e) : 0;
}

/* Checks that no output is an input or another output. --sequential writes the file of --gram. */
static int check_apart(struct work *w, const struct quantize_job_opts *a,
                       const struct quantize_opts *o, int n, struct err *e) {
    struct apart files = {.w = w};
    apart_in(&files, a->in);
    apart_in(&files, a->imatrix);
    apart_in_all(&files, a->sequential.v, a->sequential.n);
    for (int k = 0; k < n; k++) {
        if (!recipe_find(o[k].recipe)) apart_in(&files, o[k].recipe);
        if (!a->dry_run) apart_out(&files, o[k].out);
    }
    if (a->sequential.n)
        apart_out(&files, a->gram);
    else
        apart_in(&files, a->gram);
    apart_out(&files, a->plan_out);
    return apart_check(&files, e);
}

/* Makes the single output block by block. Replays need its moments, in the file of --gram. */
static int sequential(struct work *w, const struct quantize_job_opts *a,
                      const struct quantize_opts *o, int n, struct quantize_report *r,
                      struct err *e) {
    if (n > 1 || a->dry_run || !o->out)
        return err_set(e, ERR_USAGE,
                       "--sequential needs one recipe and -o, and no --dry-run: its moments are "
                       "those of one file's inputs");
    if (a->gram) TRY(out_check(a->gram, w->overwrite, e));
    const struct sequential_opts so = {
        .q = o, .texts = a->sequential, .keep = a->gram, .learn = (int)a->learn};
    return sequential_quantize(w, &so, r, e);
}

/* Quantizes with all recipes at once, or shows what would be written. */
static int run_recipes(struct work *w, const struct quantize_job_opts *a, char **recipe,
                       const struct quant_override *ov, struct emit *m, struct err *e) {
    struct quantize_opts o[MAX_RECIPES];
    struct quantize_report r[MAX_RECIPES];
    int n = 0, rc = 0;
    struct quantize_opts one = {
        .in = a->in,
        .out = a->out,
        .imatrix = a->imatrix,
        .gram = a->gram,
        .over = ov,
        .n_over = a->tensor.n,
        .pure = a->pure || a->type,
        .is_type = a->type != NULL,
        .overwrite = w->overwrite,
        .dry_run = a->dry_run,
        .want_rows = true,
        .plan_out = a->plan_out,
        .split_max = a->split_max,
        .resume = a->resume ? RESUME_ALWAYS : RESUME_AUTO,
    };
    if (a->learn && !a->sequential.n)
        return err_set(e, ERR_USAGE, "--learn needs --sequential TEXT");
    if (a->learn > MAX_PASSES)
        return err_set(e, ERR_USAGE, "--learn: at most %d passes", MAX_PASSES);
    TRY(parse_search(a->search, &one.search, e));
    TRY(parse_without(a->without, &one.without, e));
    if (one.without & FEEDBACK_GRADIENTS && !a->sequential.n)
        return err_set(e, ERR_USAGE,
                       "--without gradients needs --sequential: other feedback uses the gradients "
                       "that the file of --gram holds");
    if (one.search == SEARCH_CONVENTIONAL && (a->gram || a->sequential.n))
        return err_set(e, ERR_USAGE,
                       "--search conventional encodes without error feedback: leave out --gram and "
                       "--sequential, or --search");
    TRY(work_pool(w, e));
    one.pool = w->pool;
    one.device = device_quantize(w);
    TRY(check_input(a, &one, recipe, e));
    struct err why;
    if (unknown_model(one.in, &why))
        log_warn("%s: types were chosen by tensor names; nothing was evaluated, and hone cannot "
                 "run this model",
                 why.msg);
    if (budget_asked(&a->mix) && ranks_n() > 1)
        return err_set(
            e, ERR_USAGE,
            "--budget measures and solves in one process; give several ranks its plan as --recipe");
    if (budget_asked(&a->mix))
        return quantize_budgets(w, &one, &a->mix, &a->sequential, (int)a->learn, m, e);
    for (; n < MAX_RECIPES && recipe[n]; n++) {
        o[n] = one;
        o[n].recipe = recipe[n];
    }
    if (n > 1 && a->out && !strstr(a->out, "{}") && !io_is_dir(a->out) &&
        (io_exists(a->out) || str_ends(a->out, ".gguf")))
        return err_set(e, ERR_USAGE,
                       "several recipes make several files: -o names a folder, or a file with {} "
                       "for the recipe, such as -o 'x-{}.gguf'");
    if (n > 1 && a->plan_out)
        return err_set(e, ERR_USAGE, "--plan-out takes one recipe, not %d", n);
    char *path[MAX_RECIPES] = {0};
    for (int k = 0; k < n && a->out && (n > 1 || strstr(a->out, "{}")); k++)
        o[k].out = path[k] = output_path(a->out, one.in, recipe[k]);
    rc = check_apart(w, a, o, n, e);
    if (!rc) rc = a->sequential.n ? sequential(w, a, o, n, r, e) : quantize_run_many(o, n, r, e);
    for (int k = 0; k < n && rc == 0; k++) quantize_warn(a->imatrix, &r[k]);
    if (rc == 0 && n == 1) emit_result(m, a, o[0].out, &r[0]);
    if (rc == 0 && n > 1) emit_many(m, o, r, n);
    for (int k = 0; k < n; k++) {
        if (rc == 0) quantize_report_release(&r[k]);
        free(path[k]);
    }
    return rc;
}

int quantize_job_run(struct work *w, const struct quantize_job_opts *a, struct emit *m,
                     struct err *e) {
    TRY(check_options(a, e));
    struct quant_override *ov = xcalloc((size_t)a->tensor.n + 1, sizeof *ov);
    int rc = 0;
    for (int i = 0; i < a->tensor.n && rc == 0; i++) rc = parse_override(a->tensor.v[i], &ov[i], e);
    char *recipe[MAX_RECIPES + 1] = {0};
    if (rc == 0 && a->type) recipe[0] = xstrdup(a->type);
    if (rc == 0 && a->recipe) rc = split_recipes(recipe, a->recipe, e);
    if (rc == 0) rc = run_recipes(w, a, recipe, ov, m, e);
    for (int i = 0; i < MAX_RECIPES; i++) free(recipe[i]);
    free_overrides(ov, a->tensor.n);
    return rc;
}
