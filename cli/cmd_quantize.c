// SPDX-License-Identifier: MIT
/* cli/cmd_quantize.c - hone quantize: options in, one quantized GGUF and a summary (or, with
 * --dry-run, the plan) out. */
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "core/io.h"
#include "core/log.h"
#include "core/mem.h"
#include "quantize/quantize.h"

struct args {
    const char *out, *recipe, *type, *imatrix, *search, *plan_out;
    struct str_list tensor;
    uint64_t split_max;
    bool pure, dry_run;
};

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

/* "REGEX=TYPE"; the pattern may hold '=' itself, the type cannot. */
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
        memcpy(&s, &ov[i].regex, sizeof s); /* ours: made by parse_override */
        free(s);
    }
    free(ov);
}

static int check(const struct args *a, struct err *e) {
    enum qtype t;
    if (!a->recipe == !a->type)
        return err_set(e, ERR_USAGE, "give either --recipe NAME|PLAN.tsv or --type T");
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

static void emit_result(struct cli *c, const struct args *a, const struct quantize_report *r) {
    struct emit *m = emit_new();
    char size[48];
    emit_fmt_bytes(size, r->file_bytes);
    emit_str(m, "recipe", "recipe", r->recipe);
    if (!a->dry_run) emit_str(m, "output", "output", a->out);
    emit_i64(m, "n_tensors", "tensors", r->n_tensors);
    emit_i64(m, "n_quantized", "converted", r->n_quantized);
    emit_i64(m, "n_fallbacks", "fallbacks", r->n_fallbacks);
    if (a->imatrix) emit_i64(m, "n_no_imatrix", "without importance", r->n_no_imatrix);
    emit_i64(m, "in_bytes", NULL, (int64_t)r->in_bytes);
    emit_i64(m, "tensor_bytes", NULL, (int64_t)r->out_bytes);
    emit_i64(m, "size_bytes", NULL, (int64_t)r->file_bytes);
    emit_str(m, "size", "size", size);
    emit_num(m, "bpw", "bits per weight", r->bpw, 3);
    if (!a->dry_run) emit_num(m, "seconds", "seconds", r->seconds, 1);
    if (a->dry_run) emit_rows(m, r);
    emit_types(m, r);
    cli_emit(c, m);
    emit_free(m);
}

static int run(struct cli *c, const struct args *a, const struct quant_override *ov,
               struct err *e) {
    struct quantize_opts o = {
        .in = c->arg[0],
        .out = a->out,
        .recipe = a->recipe ? a->recipe : a->type,
        .imatrix = a->imatrix,
        .over = ov,
        .n_over = a->tensor.n,
        .pure = a->pure || a->type,
        .overwrite = c->overwrite,
        .dry_run = a->dry_run,
        .want_rows = true,
        .plan_out = a->plan_out,
        .split_max = a->split_max,
    };
    struct quantize_report r;
    TRY(parse_search(a->search, &o.search, e));
    TRY(cli_pool(c, e));
    o.pool = c->pool;
    TRY(quantize_run(&o, &r, e));
    if (r.n_fallbacks)
        log_warn("%lld tensors have rows that do not fit the wanted type and take a larger one",
                 (long long)r.n_fallbacks);
    if (r.n_no_imatrix)
        log_warn("%lld tensors have no entry in %s and are quantized without importance",
                 (long long)r.n_no_imatrix, a->imatrix);
    emit_result(c, a, &r);
    quantize_report_release(&r);
    return 0;
}

int cmd_quantize(struct cli *c, int argc, char **argv, struct err *e) {
    struct args a = {0};
    const struct opt opts[] = {
        {"output", 'o', OPT_STR, &a.out, "FILE", "the GGUF to write"},
        {"recipe", 0, OPT_STR, &a.recipe, "NAME|PLAN.tsv", "a preset (Q4_K_M ...) or a plan file"},
        {"type", 0, OPT_STR, &a.type, "TYPE", "one type for everything that can be quantized"},
        {"imatrix", 0, OPT_STR, &a.imatrix, "FILE", "importance matrix, GGUF or .dat"},
        {"tensor", 0, OPT_LIST, &a.tensor, "REGEX=TYPE",
         "type of the tensors that match; may be repeated"},
        {"pure", 0, OPT_FLAG, &a.pure, NULL, "the recipe's default type everywhere, no rules"},
        {"search", 0, OPT_STR, &a.search, "MODE", "fast (default), best or conventional"},
        {"plan-out", 0, OPT_STR, &a.plan_out, "FILE",
         "write the plan used; edit it and pass it as --recipe"},
        {"split-max", 0, OPT_SIZE, &a.split_max, "SIZE",
         "split the output into files of at most SIZE"},
        {"dry-run", 0, OPT_FLAG, &a.dry_run, NULL, "print the plan and the sizes, write no model"},
    };
    const struct cmd_spec spec = {
        .name = "quantize",
        .synopsis = "IN.gguf -o OUT.gguf (--recipe NAME|PLAN.tsv | --type TYPE) [--imatrix FILE]",
        .about = "Quantizes a GGUF, tensor by tensor. Norms, routers and convolutions keep their "
                 "type. With an "
                 "importance\nmatrix the error of columns that see large inputs counts for more.",
        .opts = opts,
        .n_opts = (int)COUNT_OF(opts),
        .min_args = 1,
        .max_args = 1,
    };
    TRY(cli_parse(c, &spec, argc, argv, e));
    if (c->done) return 0;
    TRY(check(&a, e));
    struct quant_override *ov = xcalloc((size_t)a.tensor.n + 1, sizeof *ov);
    int rc = 0;
    for (int i = 0; i < a.tensor.n && rc == 0; i++) rc = parse_override(a.tensor.v[i], &ov[i], e);
    if (rc == 0) rc = run(c, &a, ov, e);
    free_overrides(ov, a.tensor.n);
    return rc;
}
