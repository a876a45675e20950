// SPDX-License-Identifier: MIT
/* tests/unit/test_lib_forms.c - every option of every command is a field of include/hone.h or an
 * argument of a function there, or its row gives the reason; docs/reference.md documents it. `make
 * reference` writes that file: the program's argument is its path. */
#include "cli/command.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/str.h"
#include "lib/form.h"
#include "lib/spell.h"
#include "tests/check.h"

enum { MOST = 700 };
struct known {
    char command[40]; /* "": an option of all commands */
    const char *name, *only_cli;
};
static struct known known[MOST];
static int n_known;

static void remember(const char *command, const struct option *o) {
    for (; o && o->name && n_known < MOST; o++) {
        snprintf(known[n_known].command, sizeof known->command, "%s", command);
        known[n_known].only_cli = o->only_cli;
        known[n_known++].name = o->name;
    }
}

static void visit(void *ctx, const struct cmd_spec *spec, const struct option *common) {
    bool *first = ctx;
    if (*first) remember("", common);
    *first = false;
    remember(spec->name, spec->opts);
}

static void collect(void) {
    int n;
    bool first = true;
    const struct subcommand *s = command_table(&n);
    for (int i = 0; i < n; i++) {
        struct err e;
        char *argv[] = {NULL};
        struct cli probe = {.out = stdout, .visit = visit, .visit_ctx = &first};
        CHECK_OK(s[i].run(&probe, 0, argv, &e));
    }
    CHECK(n_known > 300 && n_known < MOST);
}

/* Returns whether the name is one of those separated by '|'. */
static bool one_of(const char *list, const char *name) {
    const size_t n = strlen(name);
    for (const char *p = list;; p++) {
        const size_t k = strcspn(p, "|");
        if (k == n && memcmp(p, name, n) == 0) return true;
        p += k;
        if (!*p) return false;
    }
}

/* Appends the places of an option as `call`: field, and returns their number. */
static int places(const struct known *o, struct buf *out) {
    int n = 0;
    for (int k = 0; form_list(k); k++)
        for (const struct form *f = form_list(k); f->call; f++)
            for (int i = 0; one_of(f->command, o->command) && i < f->n; i++) {
                const struct placement *p = &f->row[i].in[f->which];
                const char *mark = p->how == PLACE_ARGUMENT ? "" : "`";
                const char *name = f->row[i].name ? f->row[i].name : f->row[i].of;
                if (!p->name || !name || strcmp(name, o->name) != 0) continue;
                buf_fmt(out, n++ ? "; `%s`: %s%s%s" : "`%s`: %s%s%s", f->call, mark, p->name, mark);
            }
    return n;
}

static void test_options(void) {
    for (int i = 0; i < n_known; i++) {
        struct buf b = {0};
        const int n = places(&known[i], &b);
        if (!n && !known[i].only_cli)
            CHECK_FAIL("hone %s --%s is nowhere in hone.h, and its row does not say why",
                       known[i].command, known[i].name);
        if (n && known[i].only_cli)
            CHECK_FAIL("hone %s --%s is documented as program only: %s", known[i].command,
                       known[i].name, b.data);
        buf_release(&b);
    }
}

/* Checks that fields have the size with which their option's kind is copied. */
static void test_rows(void) {
    for (int k = 0; form_list(k); k++)
        for (const struct form *f = form_list(k); f->call; f++)
            for (int i = 0; i < f->n; i++) {
                const struct placement *p = &f->row[i].in[f->which];
                if (p->how == PLACE_NONE || p->how == PLACE_ARGUMENT) continue;
                CHECK(p->from + p->n_bytes <= f->size);
                if (p->how == PLACE_COPIED && p->n_bytes != 8 &&
                    (p->n_bytes != 4 || f->row[i].kind != OPT_FLAG))
                    CHECK_FAIL("%s.%s has %zu bytes", f->call, p->name, p->n_bytes);
            }
}

static const struct form *form_of(const char *call) {
    for (int k = 0; form_list(k); k++)
        for (const struct form *f = form_list(k); f->call; f++)
            if (strcmp(f->call, call) == 0) return f;
    return NULL;
}

/* Checks that messages use the terms of the call that they come from. */
static void test_words(void) {
    static const struct {
        const char *call, *text, *want;
    } row[] = {
        {"hone_eval_kld", "give one of --base, --base-file and --save-base",
         "give one of base, base_file and save_base"},
        {"hone_eval_kld", "more text or a smaller --ctx", "more text or a smaller n_ctx"},
        {"hone_make", "--ctx 0: -f makes it again", "eval_ctx 0: overwrite makes it again"},
        {"hone_quantize", "say where with -o FILE", "say where with path FILE"},
        {"hone_serve", "--api-key-file: no key", "key_file: no key"},
        {"hone_serve", "--reasoning-budget=3 (--template x)", "reasoning_budget=3 (template_ x)"},
        {"hone_plan", "`hone run --ctx 4`, 'hone make -o x', --ctx",
         "`hone run --ctx 4`, 'hone make -o x', n_ctx"},
        {"hone_plan", "a well-known model-f.gguf, -1 and --, x--y, -0",
         "a well-known model-f.gguf, -1 and --, x--y, -0"},
        {NULL, "--max-memory 1K, --kv-type q9, --no-such", "max_memory 1K, kv_type q9, no_such"},
    };
    char out[200], few[8];
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        spell(row[i].call ? form_of(row[i].call) : NULL, row[i].text, out, sizeof out);
        CHECK_EQ_STR(out, row[i].want);
    }
    spell(NULL, "--max-memory", few, sizeof few);
    CHECK_EQ_STR(few, "max_mem");
    for (int k = 0; form_list(k); k++)
        for (const struct form *f = form_list(k); f->call; f++)
            for (int i = 0; i < f->n; i++) {
                char text[80];
                snprintf(text, sizeof text, "--%s", f->row[i].name ? f->row[i].name : "x");
                spell(f, text, out, sizeof out);
                if (strchr(out, '-') || !out[0]) CHECK_FAIL("%s: %s is '%s'", f->call, text, out);
            }
}

/* ---- docs/reference.md ---- */

static const char head[] =
    "# Commands and calls\n"
    "\n"
    "Every option of every command of `hone`, and where a program has it: the function of\n"
    "`include/hone.h` and its field or argument. Python has the same names without `hone_`, a "
    "field "
    "as\n"
    "a keyword (`bytes` is `n_bytes`, `hone_quantize` is `quantize_files`; `make` and `plan` take "
    "the options of\n"
    "the command). Where a reason replaces the call, only the program has the option.\n"
    "\n"
    "`make reference` generates this file from the option tables of the commands and the "
    "library.\n"
    "`tests/unit/test_lib_forms.c` fails if it is out of date.\n";

static void calls_of(const char *command, struct buf *out) {
    for (int k = 0; form_list(k); k++)
        for (const struct form *f = form_list(k); f->call; f++)
            if (one_of(f->command, command)) buf_fmt(out, "%s`%s`", out->len ? ", " : "", f->call);
}

static void describe(struct buf *out) {
    buf_str(out, head);
    for (int i = 0; i < n_known; i++) {
        const struct known *o = &known[i];
        struct buf calls = {0}, where = {0};
        calls_of(o->command, &calls);
        if (i == 0)
            buf_str(out, "\n## Options of all commands\n");
        else if (strcmp(o->command, known[i - 1].command) != 0)
            buf_fmt(out, "\n## hone %s\n\n%s\n", o->command, calls.data ? calls.data : "");
        if (i == 0 || strcmp(o->command, known[i - 1].command) != 0)
            buf_str(out, "\n| option | where |\n|---|---|\n");
        if (!places(o, &where)) buf_fmt(&where, "only the program: %s", o->only_cli);
        buf_fmt(out, "| `--%s` | %s |\n", o->name, where.data);
        buf_release(&calls);
        buf_release(&where);
    }
    buf_str(out, "\n## Without options of their own\n\n| command | call |\n|---|---|\n"
                 "| `hone completion` | only the program: words for a shell |\n"
                 "| `hone eval compare` | `hone_eval_compare` |\n"
                 "| `hone template diff` | `hone_template_diff` |\n");
}

static const char path[] = "docs/reference.md";
static void test_document(void) {
    struct buf b = {0};
    char *is = NULL;
    size_t n = 0;
    struct err e;
    describe(&b);
    CHECK_OK(io_read_file(&is, &n, path, 1 << 20, &e));
    if (is && (n != b.len || memcmp(is, b.data, n) != 0))
        CHECK_FAIL("%s is not what the tables say: make reference", path);
    free(is);
    buf_release(&b);
}

int main(int argc, char **argv) {
    collect();
    if (argc > 1) {
        struct buf b = {0};
        describe(&b);
        FILE *f = fopen(argv[1], "w");
        if (!f || fwrite(b.data, 1, b.len, f) != b.len || fclose(f) != 0) return 1;
        buf_release(&b);
        return 0;
    }
    RUN(test_options);
    RUN(test_rows);
    RUN(test_words);
    RUN(test_document);
    return check_done();
}
