// SPDX-License-Identifier: MIT
/* cli/opt.c - option parsing from tables, --help, and printing of results.
 *
 * Every command gets the common options (--json, --threads, -f ...) beside its own table. Values
 * are borrowed from argv, so nothing here is freed before the process ends. */
#include "cli/opt.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/limits.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/prog.h"
#include "quantize/enc/enc.h"

struct common {
    bool json, csv, md, help, quiet, verbose, trace, untrusted;
    const char *isa, *device, *progress, *color, *max_memory, *max_vram;
    int64_t threads, stream_from;
};

static void print_option(FILE *f, const struct opt *o) {
    char left[64], letter[8] = "    ";
    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(left, sizeof left, "%s--%s%s%s", letter, o->name, o->arg ? " " : "",
             o->arg ? o->arg : "");
    fprintf(f, "  %-32s %s\n", left, o->help);
}

static void print_help(FILE *f, const struct cmd_spec *spec, const struct opt *common,
                       int n_common) {
    fprintf(f, "usage: hone %s %s\n\n%s\n", spec->name, spec->synopsis, spec->about);
    if (spec->n_opts) {
        fprintf(f, "\noptions:\n");
        for (int i = 0; i < spec->n_opts; i++) print_option(f, &spec->opts[i]);
    }
    fprintf(f, "\ncommon options:\n");
    for (int i = 0; i < n_common; i++) print_option(f, &common[i]);
    fprintf(
        f,
        "\nexit status: 0 done, 1 the answer is no, 2 usage, 3 bad input, 4 the machine said no,\n"
        "130 interrupted\n");
}

/* Edit distance, for "did you mean"; strings longer than 31 bytes are not compared. */
static int distance(const char *a, const char *b) {
    size_t la = strlen(a), lb = strlen(b);
    int row[33];
    if (la > 31 || lb > 31) return 99;
    for (size_t j = 0; j <= lb; j++) row[j] = (int)j;
    for (size_t i = 1; i <= la; i++) {
        int diag = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= lb; j++) {
            int up = row[j], best = diag + (a[i - 1] != b[j - 1]);
            if (up + 1 < best) best = up + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diag = up;
            row[j] = best;
        }
    }
    return row[lb];
}

struct tables {
    const struct opt *t[2];
    int n[2];
};

static const struct opt *find_option(const struct tables *ts, const char *name, size_t len,
                                     char letter) {
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < ts->n[k]; i++) {
            const struct opt *o = &ts->t[k][i];
            if (letter ? o->letter == letter
                       : strlen(o->name) == len && memcmp(o->name, name, len) == 0)
                return o;
        }
    return NULL;
}

static int unknown_option(const struct tables *ts, const struct cmd_spec *spec, const char *arg,
                          struct err *e) {
    const char *best = NULL;
    int best_d = 4;
    const char *name = arg + strspn(arg, "-");
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < ts->n[k]; i++) {
            int d = distance(name, ts->t[k][i].name);
            if (d < best_d) best_d = d, best = ts->t[k][i].name;
        }
    if (best)
        return err_set(e, ERR_USAGE, "%s: unknown option '%s'; did you mean --%s?", spec->name, arg,
                       best);
    return err_set(e, ERR_USAGE, "%s: unknown option '%s'; see 'hone %s --help'", spec->name, arg,
                   spec->name);
}

int cli_size(const char *text, const char *what, uint64_t *out, struct err *e) {
    static const struct {
        const char *suffix;
        double factor;
    } unit[] = {{"", 1},         {"B", 1},        {"K", 1e3},     {"M", 1e6},  {"G", 1e9},
                {"T", 1e12},     {"KB", 1e3},     {"MB", 1e6},    {"GB", 1e9}, {"KiB", 0x1p10},
                {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
    char *end = NULL;
    errno = 0;
    double v = strtod(text, &end);
    if (end != text && errno == 0 && v >= 0)
        for (size_t i = 0; i < COUNT_OF(unit); i++)
            if (strcmp(end, unit[i].suffix) == 0 && v * unit[i].factor < 0x1p62) {
                *out = (uint64_t)(v * unit[i].factor);
                return 0;
            }
    return err_set(e, ERR_USAGE,
                   "%s: '%s' is not a size; write a number with K, M, G, KiB, MiB or GiB", what,
                   text);
}

void cli_list_add(struct cli *c, struct str_list *l, const char *value) {
    /* full at every power of two: the old array stays in the arena, twice the size in all */
    if ((l->n & (l->n - 1)) == 0) {
        const char **v = arena_array(&c->mem, l->n ? 2 * (size_t)l->n : 1, sizeof *v);
        if (l->n) memcpy(v, l->v, (size_t)l->n * sizeof *v);
        l->v = v;
    }
    l->v[l->n++] = value;
}

static int store_value(struct cli *c, const struct opt *o, const char *v, struct err *e) {
    char what[64], *end = NULL;
    snprintf(what, sizeof what, "--%s", o->name);
    errno = 0;
    switch (o->kind) {
    case OPT_FLAG:
        *(bool *)o->dst = true;
        return 0;
    case OPT_STR:
        *(const char **)o->dst = v;
        return 0;
    case OPT_SIZE:
        return cli_size(v, what, o->dst, e);
    case OPT_I64: {
        long long x = strtoll(v, &end, 10);
        if (end == v || *end || errno || x < 0)
            return err_set(e, ERR_USAGE, "%s: '%s' is not a whole number", what, v);
        *(int64_t *)o->dst = x;
        return 0;
    }
    case OPT_NUM: {
        double x = strtod(v, &end);
        if (end == v || *end || errno)
            return err_set(e, ERR_USAGE, "%s: '%s' is not a number", what, v);
        *(double *)o->dst = x;
        return 0;
    }
    case OPT_LIST:
        cli_list_add(c, o->dst, v);
        return 0;
    }
    return 0;
}

/* One argument that begins with '-': sets its option, consuming argv[*i + 1] when it takes a value.
 */
static int take_option(struct cli *c, const struct tables *ts, const struct cmd_spec *spec,
                       int argc, char **argv, int *i, struct err *e) {
    const char *arg = argv[*i], *value = NULL;
    const struct opt *o;
    if (arg[1] == '-') {
        const char *eq = strchr(arg, '=');
        o = find_option(ts, arg + 2, eq ? (size_t)(eq - arg - 2) : strlen(arg + 2), 0);
        if (eq) value = eq + 1;
    } else {
        o = find_option(ts, NULL, 0, arg[1]);
        if (arg[2]) value = arg + 2;
    }
    if (!o) return unknown_option(ts, spec, arg, e);
    if (o->kind == OPT_FLAG) {
        if (value) return err_set(e, ERR_USAGE, "--%s takes no value", o->name);
    } else if (!value) {
        if (*i + 1 >= argc) return err_set(e, ERR_USAGE, "--%s needs %s", o->name, o->arg);
        value = argv[++*i];
    }
    return store_value(c, o, value, e);
}

static int choice(const char *text, const char *what, const char *const *names, int n, int *out,
                  struct err *e) {
    for (int i = 0; i < n; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = i;
            return 0;
        }
    return err_set(e, ERR_USAGE, "%s: '%s' is not one of auto, always, never", what, text);
}

static int apply_common(struct cli *c, const struct common *k, struct err *e) {
    static const char *const when[] = {"auto", "always", "never"};
    int mode = 0, color = 0;
    if (k->json + k->csv + k->md > 1)
        return err_set(e, ERR_USAGE, "--json, --csv and --md exclude each other");
    if (k->json + k->csv + k->md) c->form = k->json ? EMIT_JSON : k->csv ? EMIT_CSV : EMIT_MD;
    if (k->threads > 4096) return err_set(e, ERR_USAGE, "--threads: at most 4096");
    c->threads = (int)k->threads;
    if (k->progress) TRY(choice(k->progress, "--progress", when, 3, &mode, e));
    if (k->color) TRY(choice(k->color, "--color", when, 3, &color, e));
    prog_set_mode(k->quiet ? PROG_NEVER : (enum prog_mode)mode);
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    bool may = !(no_color && *no_color) && !(term && strcmp(term, "dumb") == 0);
    log_set_color(color == 1 || (color == 0 && may && isatty(2)));
    c->color = color == 1 || (color == 0 && may && c->out == stdout && isatty(1));
    log_set_level(k->quiet ? LOG_ERROR : k->trace ? LOG_TRACE : k->verbose ? LOG_DEBUG : LOG_INFO);
    uint64_t most = 0;
    if (k->max_memory) TRY(cli_size(k->max_memory, "--max-memory", &most, e));
    limits_untrusted(k->untrusted);
    buf_limit(most);
    c->isa = kern_isa_best();
    if (k->isa && !kern_isa_parse(k->isa, &c->isa))
        return err_set(e, ERR_USAGE, "--isa: '%s' is not one of " KERN_ISA_NAMES, k->isa);
    if (!kern_isa_has(c->isa))
        return err_set(e, ERR_SYS, "--isa: this machine has no %s; the best it has is %s", k->isa,
                       kern_isa_name(kern_isa_best()));
    enc_use(c->isa);
    TRY(device_parse(k->device, &c->device, e));
    if (k->stream_from >= 0) c->device.stream_from = k->stream_from ? k->stream_from : -1;
    return k->max_vram ? cli_size(k->max_vram, "--max-vram", &c->device.max_bytes, e) : 0;
}

int cli_parse(struct cli *c, const struct cmd_spec *spec, int argc, char **argv, struct err *e) {
    struct common k = {.stream_from = -1};
    const struct opt common[] = {
        {"json", 0, OPT_FLAG, &k.json, NULL, "print one JSON document"},
        {"csv", 0, OPT_FLAG, &k.csv, NULL, "print comma-separated values"},
        {"md", 0, OPT_FLAG, &k.md, NULL, "print Markdown"},
        {"force", 'f', OPT_FLAG, &c->overwrite, NULL, "overwrite existing outputs"},
        {"threads", 'j', OPT_I64, &k.threads, "N", "threads; 0: all processors (default)"},
        {"device", 0, OPT_STR, &k.device, "NAME", "cpu (default), cuda, cuda:N or auto"},
        {"isa", 0, OPT_STR, &k.isa, "NAME", KERN_ISA_NAMES},
        {"max-memory", 0, OPT_STR, &k.max_memory, "SIZE",
         "most its large buffers may take together"},
        {"max-vram", 0, OPT_STR, &k.max_vram, "SIZE",
         "most of the device's; experts beyond it run on the CPU"},
        {"stream-from", 0, OPT_I64, &k.stream_from, "N",
         "passes of N tokens or more copy these experts there; 0: none"},
        {"untrusted", 0, OPT_FLAG, &k.untrusted, NULL, "lower limits on what inputs may claim"},
        {"progress", 0, OPT_STR, &k.progress, "WHEN", "auto, always, never"},
        {"color", 0, OPT_STR, &k.color, "WHEN", "auto, always, never"},
        {"verbose", 'v', OPT_FLAG, &k.verbose, NULL, "more messages"},
        {"trace", 0, OPT_FLAG, &k.trace, NULL, "all messages"},
        {"quiet", 'q', OPT_FLAG, &k.quiet, NULL, "no messages but errors; the result is printed"},
        {"help", 'h', OPT_FLAG, &k.help, NULL, "this text"},
    };
    struct tables ts = {{spec->opts, common}, {spec->n_opts, (int)COUNT_OF(common)}};
    bool only_args = false;
    if (c->visit) {
        c->visit(c->visit_ctx, spec, common, (int)COUNT_OF(common));
        c->done = true;
        return 0;
    }
    c->arg = arena_array(&c->mem, (size_t)argc + 1, sizeof *c->arg);
    c->n_args = 0;
    for (int i = 1; i < argc; i++) {
        if (!only_args && strcmp(argv[i], "--") == 0)
            only_args = true;
        else if (!only_args && argv[i][0] == '-' && argv[i][1])
            TRY(take_option(c, &ts, spec, argc, argv, &i, e));
        else
            c->arg[c->n_args++] = argv[i];
    }
    if (k.help) {
        print_help(c->out, spec, common, (int)COUNT_OF(common));
        c->done = true;
        return 0;
    }
    TRY(apply_common(c, &k, e));
    if (c->n_args < spec->min_args || (spec->max_args >= 0 && c->n_args > spec->max_args))
        return err_set(e, ERR_USAGE, "usage: hone %s %s", spec->name, spec->synopsis);
    return 0;
}

int cli_sub(struct cli *c, const struct subcommand *sub, int n, const char *operands, int argc,
            char **argv, struct err *e) {
    struct buf names = {0};
    int rc = 0;
    if (c->visit) {
        for (int i = 0; i < n && !rc; i++) /* a second name of the one before is not visited */
            if (i == 0 || sub[i].run != sub[i - 1].run) rc = sub[i].run(c, argc, argv, e);
        return rc;
    }
    for (int i = 0; i < n && argc > 1; i++)
        if (strcmp(argv[1], sub[i].name) == 0) return sub[i].run(c, argc - 1, argv + 1, e);
    for (int i = 0; i < n; i++) buf_fmt(&names, "%s%s", i ? "|" : "", sub[i].name);
    if (argc < 2)
        rc = err_set(e, ERR_USAGE, "%s: say what: %s", argv[0], names.data);
    else if (strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0)
        rc = err_set(e, ERR_USAGE, "%s: unknown subcommand '%s'; known are %s", argv[0], argv[1],
                     names.data);
    else {
        fprintf(c->out, "usage: hone %s %s %s\n\n", argv[0], names.data, operands);
        for (int i = 0; i < n; i++) fprintf(c->out, "  %-8s %s\n", sub[i].name, sub[i].summary);
        fprintf(c->out, "\n'hone %s %s --help' describes one of them\n", argv[0], sub[0].name);
    }
    buf_release(&names);
    return rc;
}

int cli_pool(struct cli *c, struct err *e) {
    return c->pool ? 0 : pool_new(&c->pool, c->threads, e);
}

void cli_emit(struct cli *c, struct emit *m) {
    struct buf line = {0};
    for (int i = 0; i < c->full_argc; i++) {
        if (i) buf_chr(&line, ' ');
        const char *base = strrchr(c->full_argv[i], '/');
        buf_str(&line, i == 0 && base ? base + 1 : c->full_argv[i]);
    }
    emit_str(m, "hone_version", NULL, HONE_VERSION);
    emit_str(m, "command_line", NULL, line.data);
    emit_str(m, "isa", NULL, kern_isa_name(c->isa));
    emit_i64(m, "threads", NULL, c->pool ? pool_size(c->pool) : 1);
    emit_print(m, c->form, c->out);
    buf_release(&line);
}

void cli_split(struct cli *c, const char *text, struct str_list *out) {
    while (*text) {
        size_t n = strcspn(text, ",");
        if (n) cli_list_add(c, out, arena_strndup(&c->mem, text, n));
        text += n + (text[n] == ',');
    }
}
