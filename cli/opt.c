// SPDX-License-Identifier: MIT
/* cli/opt.c - table-driven option parser, and printing of results.
 *
 * Every command has the common options (--json, --threads, -f ...) in addition to its own table.
 * Values are borrowed from argv. */
#include "cli/opt.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/guess.h"
#include "cli/help.h"
#include "lib/options.h"
#include "text/size.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/io.h"
#include "base/os.h"
#include "base/progress.h"

int opt_count(const struct option *o) {
    int n = 0;
    while (o && o[n].name) n++;
    return n;
}

/* ---- finding an option ----------------------------------------------------------------------- */

struct tables {
    const struct option *t[2]; /* the command's options, and the common ones */
    void *args[2];             /* the structs for their values */
};

/* Returns the option with this name, or with this letter unless that is 0; NULL: unknown. */
static const struct option *find_option(const struct tables *ts, const char *name, size_t len,
                                        char letter) {
    for (int k = 0; k < 2; k++)
        for (const struct option *o = ts->t[k]; o && o->name; o++)
            if (letter ? o->letter == letter
                       : strlen(o->name) == len && memcmp(o->name, name, len) == 0)
                return o;
    return NULL;
}

struct parse { /* a command line */
    struct cli *c;
    const struct cmd_spec *spec;
    struct tables ts;
    int argc, i; /* length of argv, and index of the current argument */
    char **argv;
    const struct option **given; /* [n_given] */
    int n_given;
};

/* Returns the name of option i of both tables; NULL past the end. */
static const char *next_name(void *ctx, int i) {
    const struct tables *ts = ctx;
    const int n = opt_count(ts->t[0]);
    if (i < n) return ts->t[0][i].name;
    return i - n < opt_count(ts->t[1]) ? ts->t[1][i - n].name : NULL;
}

/* Sets and returns the error for an unknown option, with a suggestion. */
static int unknown_option(struct parse *p, const char *arg, struct err *e) {
    char name[64];
    snprintf(name, sizeof name, "%s", arg + strspn(arg, "-"));
    name[strcspn(name, "=")] = 0;
    const char *best = guess_name(name, next_name, &p->ts);
    if (best)
        return err_set(e, ERR_USAGE, "%s: unknown option '%.80s'; did you mean --%s?",
                       p->spec->name, arg, best);
    return err_set(e, ERR_USAGE, "%s: unknown option '%.80s'; see 'hone %s --help'", p->spec->name,
                   arg, p->spec->name);
}

/* Returns whether the command's first argument is a model. */
static bool takes_model_first(const struct parse *p) {
    return strncmp(p->spec->synopsis, "MODEL", 5) == 0;
}

/* Returns whether the command has the row's option. Rows with advice only always fit. */
static bool row_fits(void *ctx, const struct peer_option *row) {
    const struct parse *p = ctx;
    if (!row->ours || !row->ours[0]) return true;
    return find_option(&p->ts, row->ours, strlen(row->ours), 0) != NULL;
}

/* Returns the option with this name [n], in which '_' may replace '-'. NULL: unknown. */
static const struct option *find_long(const struct tables *ts, const char *name, size_t n) {
    char plain[48];
    if (n >= sizeof plain) return NULL;
    for (size_t i = 0; i < n; i++) plain[i] = (char)(name[i] == '_' ? '-' : name[i]);
    return find_option(ts, plain, n, 0);
}

struct found {
    const struct option *o;         /* option, or NULL */
    const struct peer_option *peer; /* otherwise the row of another program's option, or NULL */
    const char *value;              /* value in the same word, or NULL */
};

/* Finds the option that arg names, or an option of another program with that name. */
static void find_argument(struct parse *p, const char *arg, struct found *f) {
    const char *name = arg + strspn(arg, "-"), *eq = strchr(name, '=');
    size_t n = eq ? (size_t)(eq - name) : strlen(name);
    *f = (struct found){.value = eq ? eq + 1 : NULL};
    if (arg[1] == '-') {
        f->o = find_long(&p->ts, name, n);
    } else if (n > 1) {
        /* "-temp" means --temp, "-ngl" is an option of llama.cpp, and "-n5" is -n with a value. */
        f->o = find_long(&p->ts, name, n);
        if (!f->o) f->peer = peer_option(name, n, p->spec->name, row_fits, p);
    }
    if (f->o || f->peer) return;
    if (arg[1] != '-') { /* a letter, perhaps followed by its value */
        f->o = find_option(&p->ts, NULL, 0, arg[1]);
        if (arg[2]) f->value = arg + 2;
        n = 1;
    }
    if (!f->o) f->peer = peer_option(name, n, p->spec->name, row_fits, p);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Rejects "-" as an output: outputs are complete files or do not appear. */
static int no_stream(const struct option *o, struct err *e) {
    return err_set(e, ERR_USAGE,
                   "--%s -: hone writes this to a file, not to standard output, so that it is "
                   "complete or absent; give it a name (./- for a file called '-')",
                   o->name);
}

/* Returns the struct that holds the value of an option. */
static void *args_of(const struct tables *ts, const struct option *o) {
    return ts->args[o >= ts->t[1] && o < ts->t[1] + opt_count(ts->t[1])];
}

/* Stores an option's value; v is NULL if the option takes none. */
static int store_value(struct parse *p, const struct option *o, const char *v, struct err *e) {
    char what[64], *end = NULL;
    void *dst = (char *)args_of(&p->ts, o) + o->at;
    snprintf(what, sizeof what, "--%s", o->name);
    if (o->kind == OPT_OUT && strcmp(v ? v : "", "-") == 0) return no_stream(o, e);
    errno = 0;
    switch (o->kind) {
    case OPT_FLAG:
        *(bool *)dst = true;
        return 0;
    case OPT_TEXT: /* A second file or folder (--lora) must not be dropped silently. */
        if (o->arg && (strcmp(o->arg, "DIR") == 0 || strcmp(o->arg, "FILE") == 0) &&
            *(const char **)dst)
            return err_set(e, ERR_USAGE, "%s is given twice, but only one can be used", what);
        *(const char **)dst = v;
        return 0;
    case OPT_OUT:
        *(const char **)dst = v;
        return 0;
    case OPT_SIZE:
        return size_parse(v, what, dst, e);
    case OPT_HOURS:
        return hours_parse(v, what, dst, e);
    case OPT_TIME:
        return time_parse(v, what, dst, e);
    case OPT_TOKENS:
        return tokens_parse(v, what, dst, e);
    case OPT_COUNT: {
        long long x = strtoll(v, &end, 10);
        if (end != v && !errno && x > 0 && x < 1 << 20 && (*end == 'k' || *end == 'K') && !end[1])
            return err_set(e, ERR_USAGE, "%s: '%s' is not a whole number; write %lld or %lld", what,
                           v, x * 1024, x * 1000);
        if (end != v && !*end && !errno && x < 0)
            return err_set(e, ERR_USAGE, "%s: '%s' is below 0", what, v);
        if (end == v || *end || errno)
            return err_set(e, ERR_USAGE, "%s: '%s' is not a whole number", what, v);
        *(int64_t *)dst = x;
        return 0;
    }
    case OPT_NUMBER: {
        double x = strtod(v, &end);
        if (end == v || *end || errno || !isfinite(x))
            return err_set(e, ERR_USAGE, "%s: '%s' is not a number", what, v);
        *(double *)dst = x;
        return 0;
    }
    case OPT_LIST:
        work_list_add(&p->c->work, dst, v);
        return 0;
    }
    return 0;
}

/* Inserts the value of another program's -m before the positional arguments. */
static void put_first(struct cli *c, const char *value) {
    memmove(c->arg + 1, c->arg, (size_t)c->n_args * sizeof *c->arg);
    c->arg[0] = value;
    c->n_args++;
}

/* Sets the option that the current argument names, and consumes the next argument if it is the
 * value. */
static int take_option(struct parse *p, struct err *e) {
    const char *arg = p->argv[p->i];
    struct found f;
    find_argument(p, arg, &f);
    bool first = f.peer && f.peer->ours && !f.peer->ours[0] && takes_model_first(p);
    if (f.peer && f.peer->ours && f.peer->ours[0])
        f.o = find_option(&p->ts, f.peer->ours, strlen(f.peer->ours), 0);
    if (!f.o && !first)
        return f.peer ? err_set(e, ERR_USAGE, "%s: no option '%.80s': %s", p->spec->name, arg,
                                f.peer->say)
                      : unknown_option(p, arg, e);
    bool flag = f.o && f.o->kind == OPT_FLAG;
    if (flag && f.value)
        return err_set(e, ERR_USAGE, "%s: '%.80s': --%s takes no value", p->spec->name, arg,
                       f.o->name);
    if (!flag && !f.value) {
        if (p->i + 1 >= p->argc)
            return err_set(e, ERR_USAGE, "%s: %.80s needs %s", p->spec->name, arg,
                           first ? "a file" : f.o->arg);
        f.value = p->argv[++p->i];
    }
    if (first) {
        put_first(p->c, f.value);
        return 0;
    }
    p->given[p->n_given++] = f.o;
    return store_value(p, f.o, f.value, e);
}

/* ---- options together ------------------------------------------------------------------------ */

/* Returns the first option of a list of names that was given, or NULL. */
static const struct option *given_of(const struct parse *p, const char *names) {
    for (size_t n; names && *names; names += n + (names[n] == ' ')) {
        n = strcspn(names, " ");
        for (int i = 0; i < p->n_given; i++)
            if (strlen(p->given[i]->name) == n && memcmp(p->given[i]->name, names, n) == 0)
                return p->given[i];
    }
    return NULL;
}

/* Rejects options that exclude each other, and those that require another one. */
static int check_given(const struct parse *p, struct err *e) {
    for (int i = 0; i < p->n_given; i++) {
        const struct option *o = p->given[i], *other = given_of(p, o->excludes);
        if (other)
            return err_set(e, ERR_USAGE, "%s: --%s and --%s cannot be used together", p->spec->name,
                           other->name, o->name);
        if (o->goes_with && !given_of(p, o->goes_with))
            return err_set(e, ERR_USAGE, "%s: --%s requires --%.*s", p->spec->name, o->name,
                           (int)strcspn(o->goes_with, " "), o->goes_with);
    }
    return 0;
}

/* ---- the common options ---------------------------------------------------------------------- */

/* Parses one of n names (auto, always and never, or on and off) and sets *out to its index. */
static int parse_choice(const char *text, const char *what, const char *const *names, int n,
                        int *out, struct err *e) {
    if (strcmp(text, "on") == 0) text = "always";
    if (strcmp(text, "off") == 0) text = "never";
    for (int i = 0; i < n; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = i;
            return 0;
        }
    return err_set(e, ERR_USAGE, "%s: '%s' is not one of auto, always, never", what, text);
}

/* Applies the options on output format, messages, progress and colour. */
static int apply_talk(struct cli *c, const struct common_opts *k, struct err *e) {
    static const char *const when[] = {"auto", "always", "never"};
    int mode = 0, color = 0;
    if (k->json + k->csv + k->md) c->form = k->json ? EMIT_JSON : k->csv ? EMIT_CSV : EMIT_MD;
    if (k->progress) TRY(parse_choice(k->progress, "--progress", when, 3, &mode, e));
    if (k->color) TRY(parse_choice(k->color, "--color", when, 3, &color, e));
    progress_set_mode(k->quiet ? PROG_NEVER : (enum progress_mode)mode);
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    bool may = !(no_color && *no_color) && !(term && strcmp(term, "dumb") == 0);
    log_set_color(color == 1 || (color == 0 && may && os_is_tty(stderr)));
    c->color = color == 1 || (color == 0 && may && c->out == stdout && os_is_tty(stdout));
    log_set_level(k->quiet ? LOG_ERROR : k->trace ? LOG_TRACE : k->verbose ? LOG_DEBUG : LOG_INFO);
    return 0;
}

/* Returns the folder for the measurements of hone doctor, or NULL if the user has none. */
static const char *choices_dir(struct arena *mem) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    struct buf b = {0};
    if (cache && os_is_absolute(cache))
        buf_fmt(&b, "%s/hone", cache);
    else if (home && os_is_absolute(home))
        buf_fmt(&b, "%s/.cache/hone", home);
    const char *dir = b.len ? arena_strdup(mem, b.data) : NULL;
    buf_release(&b);
    return dir;
}

/* Applies the options that all commands share. */
static int apply_common(struct cli *c, const struct common_opts *k, struct err *e) {
    struct work_how how = {.threads = k->threads,
                           .stream_from = k->stream_from,
                           .device = k->device,
                           .isa = k->isa,
                           .max_vram = k->max_vram,
                           .place = k->place,
                           .pack_cache = k->pack_cache,
                           .choices = choices_dir(&c->work.mem),
                           .overwrite = k->overwrite,
                           .untrusted = k->untrusted,
                           .default_device = true,
                           .root = getenv("HONE_ROOT")};
    TRY(apply_talk(c, k, e));
    if (k->max_memory) TRY(size_parse(k->max_memory, "--max-memory", &how.max_memory, e));
    return work_set(&c->work, &how, e);
}

/* ---- a command line -------------------------------------------------------------------------- */

/* Prints the text of --help or --version; the command then does nothing else. */
static void describe(struct parse *p, const struct option *common, const struct common_opts *k) {
    struct cli *c = p->c;
    struct buf b = {0};
    c->done = true;
    if (k->help)
        help_command(&b, p->spec, common, k->verbose, help_width(c->out == stdout ? stdout : NULL));
    else
        buf_str(&b, "hone " HONE_VERSION "\n");
    fwrite(b.data, 1, b.len, c->out);
    buf_release(&b);
}

/* Rejects missing and surplus arguments. */
static int count_args(const struct parse *p, struct err *e) {
    const struct cmd_spec *s = p->spec;
    int n = 0;
    if (p->c->n_args < s->min_args) {
        const char *name = help_operand(s->synopsis, p->c->n_args, &n);
        if (name && n > 3 && memcmp(name + n - 3, "...", 3) == 0) n -= 3;
        return err_set(e, ERR_USAGE, "%s: %.*s is missing; usage: hone %s %s", s->name,
                       name ? n : 11, name ? name : "an argument", s->name, s->synopsis);
    }
    if (s->max_args >= 0 && p->c->n_args > s->max_args)
        return err_set(e, ERR_USAGE, "%s: '%.80s' is one argument too many; usage: hone %s %s",
                       s->name, p->c->arg[s->max_args], s->name, s->synopsis);
    return 0;
}

int cli_parse(struct cli *c, const struct cmd_spec *spec, void *args, int argc, char **argv,
              struct err *e) {
    struct common_opts k = {.stream_from = -1};
    struct parse p = {.c = c, .spec = spec, .argc = argc, .argv = argv};
    p.ts = (struct tables){{spec->opts, common_options}, {args, &k}};
    bool only_args = false;
    if (c->visit) {
        c->visit(c->visit_ctx, spec, common_options);
        c->done = true;
        return 0;
    }
    c->arg = arena_array(&c->work.mem, (size_t)argc + 1, sizeof *c->arg);
    c->n_args = 0;
    p.given = arena_array(&c->work.mem, (size_t)argc + 1, sizeof *p.given);
    for (p.i = 1; p.i < argc; p.i++) {
        char *word = argv[p.i];
        if (!only_args && strcmp(word, "--") == 0)
            only_args = true;
        else if (!only_args && word[0] == '-' && word[1])
            TRY(take_option(&p, e));
        else
            c->arg[c->n_args++] = word;
    }
    if (k.help || k.version) {
        describe(&p, common_options, &k);
        return 0;
    }
    TRY(check_given(&p, e));
    TRY(apply_common(c, &k, e));
    TRY(count_args(&p, e));
    c->spec = spec;
    return 0;
}

void cli_to_front(int argc, char **argv, bool (*is_name)(void *ctx, const char *word), void *ctx) {
    if (argc < 2 || argv[1][0] != '-') return;
    for (int k = 2; k < argc && strcmp(argv[k - 1], "--") != 0; k++) {
        char *word = argv[k];
        if (!is_name(ctx, word)) continue;
        memmove(argv + 2, argv + 1, (size_t)(k - 1) * sizeof *argv);
        argv[1] = word;
        return;
    }
}

/* ---- subcommands ----------------------------------------------------------------------------- */

struct subs {
    const struct subcommand *v;
    int n;
};
static bool is_sub(void *ctx, const char *word) {
    const struct subs *s = ctx;
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->v[i].name, word) == 0) return true;
    return false;
}
/* Returns the name of subcommand i; NULL past the end. */
static const char *next_sub(void *ctx, int i) {
    const struct subs *s = ctx;
    return i < s->n ? s->v[i].name : NULL;
}

struct capture { /* a subcommand's required arguments, from its synopsis */
    char text[160];
};
/* Copies a command's required arguments from its synopsis. */
static void capture_needs(void *ctx, const struct cmd_spec *spec, const struct option *common) {
    struct capture *x = ctx;
    const char *end = strstr(spec->synopsis, " [");
    (void)common;
    size_t n = spec->synopsis[0] == '[' ? 0
               : end                    ? (size_t)(end - spec->synopsis)
                                        : strlen(spec->synopsis);
    snprintf(x->text, sizeof x->text, "%.*s", (int)n, spec->synopsis);
}

/* Prints the help of a command that has subcommands. */
static int print_subs(struct cli *c, const struct subs *s, const char *command,
                      const char *operands, struct err *e) {
    enum { MOST = 32 };
    struct capture needs[MOST] = {0};
    const char *synopsis[MOST] = {NULL};
    char *argv[] = {NULL};
    struct buf b = {0};
    for (int i = 0; i < s->n && i < MOST; i++) {
        struct cli probe = {.out = c->out, .visit = capture_needs, .visit_ctx = &needs[i]};
        TRY(s->v[i].run(&probe, 0, argv, e));
        if (needs[i].text[0]) synopsis[i] = needs[i].text;
    }
    help_subcommands(&b, command, s->v, synopsis, s->n, operands,
                     help_width(c->out == stdout ? stdout : NULL));
    fwrite(b.data, 1, b.len, c->out);
    buf_release(&b);
    return 0;
}

bool cli_is_help(const char *word) {
    static const char *const words[] = {"help", "--help", "-h", "-?"};
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (strcmp(word, words[i]) == 0) return true;
    return false;
}

/* Returns whether the words after a command ask for its help: [-v] --help. */
static bool asks_help(int argc, char **argv) {
    const bool verbose =
        argc > 2 && (strcmp(argv[1], "-v") == 0 || strcmp(argv[1], "--verbose") == 0);
    return argc > 1 && cli_is_help(argv[verbose ? 2 : 1]);
}

int cli_sub(struct cli *c, const struct subcommand *sub, int n, const char *operands, int argc,
            char **argv, struct err *e) {
    struct subs s = {sub, n};
    int rc = 0;
    if (c->visit) {
        for (int i = 0; i < n && !rc; i++) /* Skip an alias of the preceding subcommand. */
            if (i == 0 || sub[i].run != sub[i - 1].run) rc = sub[i].run(c, argc, argv, e);
        return rc;
    }
    cli_to_front(argc, argv, is_sub, &s);
    for (int i = 0; i < n && argc > 1; i++)
        if (strcmp(argv[1], sub[i].name) == 0) return sub[i].run(c, argc - 1, argv + 1, e);
    if (asks_help(argc, argv)) return print_subs(c, &s, argv[0], operands, e);
    struct buf names = {0};
    for (int i = 0; i < n; i++) buf_fmt(&names, "%s%s", i ? "|" : "", sub[i].name);
    const char *best = argc > 1 ? guess_name(argv[1], next_sub, &s) : NULL;
    if (argc < 2)
        rc = err_set(e, ERR_USAGE, "%s: name a subcommand: %s", argv[0], names.data);
    else if (best)
        rc = err_set(e, ERR_USAGE, "%s: unknown subcommand '%.80s'; did you mean 'hone %s %s'?",
                     argv[0], argv[1], argv[0], best);
    else
        rc = err_set(e, ERR_USAGE, "%s: unknown subcommand '%.80s'; subcommands: %s", argv[0],
                     argv[1], names.data);
    buf_release(&names);
    return rc;
}

void cli_emit(struct cli *c, struct emit *m) {
    struct buf line = {0};
    for (int i = 0; i < c->full_argc; i++) {
        if (i) buf_chr(&line, ' ');
        const char *word = c->full_argv[i];
        buf_str(&line, i == 0 ? io_base(word) : word);
    }
    emit_str(m, "hone_version", NULL, HONE_VERSION);
    emit_str(m, "command_line", NULL, line.data);
    emit_str(m, "isa", NULL, kern_isa_name(c->work.isa));
    emit_i64(m, "threads", NULL, c->work.pool ? pool_size(c->work.pool) : 1);
    if (!os_is_tty(c->out)) emit_one_line(m);
    emit_print(m, c->form, c->out);
    buf_release(&line);
}

int cli_result(struct cli *c, struct emit *m, int rc) {
    if (!rc) cli_emit(c, m);
    emit_free(m);
    return rc;
}

int cli_verdict(struct cli *c, struct emit *m, int rc) {
    if (rc == ERR_VERDICT) cli_emit(c, m);
    return cli_result(c, m, rc);
}
