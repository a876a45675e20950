// SPDX-License-Identifier: MIT
/* commands/gen.c - build tool that generates hone.h and manual pages from commands/NAME.def.
 *
 * `gen expand < hone.h.in > hone.h` replaces a line @hone_recipes_opts@ by the struct and, in a
 * manual page, a line @recipes@ by the options of the command. `gen fields` prints the fields of
 * every call: "recipes: recipe plan_out ...". */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/option.h"

struct field { /* a member of a struct in hone.h */
    enum place_how how;
    const char *call, *owner; /* function, without hone_, and the one that owns the struct */
    int n; /* position in the struct, from 1; fixed by the ABI. 0: declared by another row */
    const char *name, *doc;
};
struct row {
    const char *command; /* set only in the row that begins a command: its name */
    const char *name;
    char letter;
    enum option_kind kind;
    const char *arg, *help, *values, *only_cli, *excludes, *goes_with, *of;
    bool is_wide;    /* flag of type int64_t */
    bool is_raw;     /* the name is a whole declaration */
    const char *man; /* manual page text that replaces the help of the row before */
    struct field in[MOST_CALLS];
};
#define OPTION(member, kind_, name_, ...) {.name = name_, .kind = OPT_##kind_, __VA_ARGS__},
#define OPTION_AT OPTION
#define CALL_FIELD(kind_, ...) {.kind = OPT_##kind_, __VA_ARGS__},
#define UNNAMED(member, kind_, ...) {.kind = OPT_##kind_, __VA_ARGS__},
#define RAW_FIELD(call, n, declaration, doc)                                                       \
    {.is_raw = true, FIELD(PLACE_READ, call, call, n, declaration, doc)},
#define MAN(text) {.man = text},
#define FIELD(how, call, owner, n, name, doc) .in[CALL_##call] = {how, #call, #owner, n, name, doc}
#define IN(call, n, field, doc) FIELD(PLACE_COPIED, call, call, n, #field, doc)
#define READ_IN(call, n, field, doc) FIELD(PLACE_READ, call, call, n, #field, doc)
#define WIDE_IN(call, n, field, doc) IN(call, n, field, doc), .is_wide = true
#define SAID_IN(call, n, field, doc) FIELD(PLACE_SAID, call, call, n, #field, doc)
#define OF_OPTS(field) FIELD(PLACE_READ, opts, opts, 0, #field, NULL)
#define FORCE_IN(call, n, doc) FIELD(PLACE_FORCE, call, call, n, "overwrite", doc)
#define DEVICE_IN(call, n, doc) FIELD(PLACE_DEVICE, call, call, n, "device", doc)
#define ALSO(call, owner, field, how) FIELD(PLACE_##how, call, owner, 0, #field, NULL)
#define OWN(call, owner, n, field, doc) FIELD(PLACE_COPIED, call, owner, n, #field, doc)
#define OWN_FORCE(call, owner, n, doc) FIELD(PLACE_FORCE, call, owner, n, "overwrite", doc)
#define ARG(call, name) FIELD(PLACE_ARGUMENT, call, call, 0, name, NULL)
#define COMMAND(name) {.command = name},

#define KERN_ISA_NAMES NULL /* used by --help only: the manual page has its own text */
static const struct row rows[] = {
#include "commands/all.def"
};
enum { N_ROWS = sizeof rows / sizeof *rows, WIDTH = 100, MOST_COLUMN = 40, MOST_FIELDS = 64 };

/* Prints the message and exits with 1. */
static void stop_with(const char *what, const char *name) {
    fprintf(stderr, "gen: %s: %s\n", name, what);
    exit(1);
}

/* ---- structs ---- */

struct member {
    const char *type; /* "int " */
    struct field f;
};
/* Orders members by their number, for qsort. */
static int by_place(const void *a, const void *b) {
    return ((const struct member *)a)->f.n - ((const struct member *)b)->f.n;
}

/* Returns the C type of a field, ready to prepend to its name. */
static const char *type_of(const struct row *r, const struct field *f) {
    static const char *const type[] = {
        [OPT_FLAG] = "int ",        [OPT_TEXT] = "const char *",
        [OPT_OUT] = "const char *", [OPT_COUNT] = "int64_t ",
        [OPT_NUMBER] = "double ",   [OPT_TIME] = "double ",
        [OPT_HOURS] = "double ",    [OPT_TOKENS] = "int64_t ",
        [OPT_SIZE] = "uint64_t ",   [OPT_LIST] = "const char *const *"};
    if (r->is_wide) return "int64_t ";
    return r->is_raw ? "" : f->how == PLACE_SAID ? "double " : type[r->kind];
}

/* Collects the fields of a call's struct, sorted by position. Returns their number. */
static int fields_of(const char *call, struct member *out) {
    int n = 0;
    for (int i = 0; i < N_ROWS; i++)
        for (int k = 0; k < MOST_CALLS; k++) {
            const struct field *f = &rows[i].in[k];
            if (!f->call || strcmp(f->owner, call) != 0 || f->how == PLACE_ARGUMENT) continue;
            for (int j = 0; f && j < n; j++) /* a row that several commands include */
                if (out[j].f.n == f->n && strcmp(out[j].f.name, f->name) == 0) f = NULL;
            if (!f || !f->n) continue;
            if (n == MOST_FIELDS) stop_with("too many fields", call);
            out[n++] = (struct member){type_of(&rows[i], f), *f};
        }
    qsort(out, (size_t)n, sizeof *out, by_place);
    for (int i = 0; i < n; i++)
        if (out[i].f.n != i + 1)
            stop_with("its position is used twice, or one before it is missing", out[i].f.name);
    return n;
}

/* Prints text wrapped at WIDTH, starting in column `at`. Each new line begins with `indent` spaces
 * and `prefix`. */
static void wrap(const char *text, int at, int indent, const char *prefix) {
    for (bool first = true; *(text += strspn(text, " ")); first = false) {
        const int n = (int)strcspn(text, " ");
        if (!first && at + 1 + n > WIDTH - 3) {
            printf("\n%*s%s", indent, "", prefix);
            at = indent + (int)strlen(prefix);
        } else if (!first) {
            putchar(' ');
            at++;
        }
        printf("%.*s", n, text);
        at += n;
        text += n;
    }
}

/* Returns the only call that uses a field of a struct shared by several calls, or "" if the
 * struct's own call or more than one uses it. */
static const char *only_call(const struct field *field) {
    const char *call = NULL;
    for (int i = 0; i < N_ROWS; i++)
        for (int k = 0; k < MOST_CALLS; k++) {
            const struct field *f = &rows[i].in[k];
            if (!f->call || strcmp(f->owner, field->owner) != 0 ||
                strcmp(f->name, field->name) != 0)
                continue;
            if (strcmp(f->call, f->owner) == 0 || (call && strcmp(call, f->call) != 0)) return "";
            call = f->call;
        }
    return call;
}

/* Prints the C struct of the call's options. */
static void print_struct(const char *call) {
    struct member m[MOST_FIELDS];
    char line[MOST_FIELDS][80];
    const int n = fields_of(call, m);
    int column = 0;
    if (!n) stop_with("no row declares a field of this call", call);
    for (int i = 0; i < n; i++) {
        const int len = snprintf(line[i], sizeof line[i], "    %s%s;", m[i].type, m[i].f.name);
        if (m[i].f.doc && len + 1 > column && len < MOST_COLUMN) column = len + 1;
    }
    printf("struct hone_%s_opts {\n    size_t size;\n", call);
    const char *of = "";
    for (int i = 0; i < n; i++) {
        const char *only = only_call(&m[i].f);
        if (strcmp(only, of) != 0)
            printf(*only ? "    /* hone_%s */\n" : "    /* several calls */\n", only);
        of = only;
        if (m[i].f.doc && strlen(line[i]) >= MOST_COLUMN) {
            printf("    /* ");
            wrap(m[i].f.doc, 7, 4, " * ");
            printf(" */\n%s\n", line[i]);
        } else if (m[i].f.doc) {
            printf("%-*s/* ", column, line[i]);
            wrap(m[i].f.doc, column + 3, column, " * ");
            printf(" */\n");
        } else
            printf("%s\n", line[i]);
    }
    printf("};\n");
}

/* Prints each command's or call's fields on one line. */
static void print_fields(void) {
    for (int c = 0; c < N_ROWS; c++)
        for (int k = 0; k < MOST_CALLS && rows[c].command; k++) {
            const char *call = NULL;
            for (int i = c + 1; i < N_ROWS && !rows[i].command; i++) {
                const struct field *f = &rows[i].in[k];
                if (f->how == PLACE_NONE || f->how == PLACE_ARGUMENT) continue;
                printf(call ? " %s" : "%s: ", call ? f->name : f->call);
                if (!call) printf("%s", f->name);
                call = f->call;
            }
            if (call) putchar('\n');
        }
}

/* ---- manual pages ---- */

/* Prints text as troff source, one sentence per line; `backquotes` become bold. */
static void print_troff(const char *text, bool capital) {
    bool bold = false, begin = true;
    for (const char *p = text; *p; p++) {
        if (begin && (*p == '.' || *p == '\'')) printf("\\&");
        begin = false;
        if (*p == '`') {
            printf((bold = !bold) ? "\\fB" : "\\fP");
        } else if (*p == '-' || *p == '\\') {
            printf(*p == '-' ? "\\-" : "\\e");
        } else if (*p == ' ' && p > text && p[-1] == '.' && !bold) {
            putchar('\n');
            begin = true;
        } else
            putchar(capital && p == text ? toupper((unsigned char)*p) : *p);
    }
}

/* Prints `words`, followed by the options of a list (names separated by spaces) and a full stop.
 * Stops if one is not an option of the command whose rows start at `first`. */
static void print_names(int first, const char *words, const char *names) {
    for (size_t n; names && *names; names += n + (names[n] == ' ')) {
        int i = first;
        n = strcspn(names, " ");
        while (i < N_ROWS && !rows[i].command &&
               !(rows[i].name && strlen(rows[i].name) == n && memcmp(rows[i].name, names, n) == 0))
            i++;
        if (i == N_ROWS || rows[i].command)
            stop_with("a row names an option that does not exist", names);
        char text[80];
        snprintf(text, sizeof text, "%s `--%.*s`%s", words, (int)n, names, names[n] ? "" : ".");
        print_troff(text, false);
        if (!names[n]) putchar('\n');
        words = ",";
    }
}

/* Prints one option in troff; man: its text there, or NULL for its help. */
static void print_option(int first, const struct row *o, const char *man) {
    char name[64], *to = name;
    for (const char *p = o->name; *p; p++) {
        if (*p == '-') *to++ = '\\';
        *to++ = *p;
    }
    *to = 0;
    printf(".TP\n");
    if (o->letter)
        printf(".BR \\-%c \", \" \\-\\-%s%s%s%s\n", o->letter, name, o->arg ? " \" " : "",
               o->arg ? o->arg : "", o->arg ? "\"" : "");
    else if (o->arg)
        printf(".BI \\-\\-%s \" %s\"\n", name, o->arg);
    else
        printf(".B \\-\\-%s\n", name);
    print_troff(man ? man : o->help, true);
    printf(man ? "\n" : ".\n");
    print_names(first, "Cannot be used with", o->excludes);
    print_names(first, "Requires", o->goes_with);
}

/* Prints the command's options in troff. */
static void print_man(const char *command) {
    for (int c = 0; c < N_ROWS; c++) {
        if (!rows[c].command || strcmp(rows[c].command, command) != 0) continue;
        for (int i = c + 1; i < N_ROWS && !rows[i].command; i++)
            if (rows[i].name)
                print_option(c + 1, &rows[i], i + 1 < N_ROWS ? rows[i + 1].man : NULL);
        return;
    }
    stop_with("no such command", command);
}

/* ---- ---- */

/* Copies stdin to stdout, replacing lines of the form @name@ by generated text. */
static void expand_template(void) {
    static char line[4096];
    while (fgets(line, sizeof line, stdin)) {
        const size_t n = strcspn(line, "\n");
        if (n < 3 || line[0] != '@' || line[n - 1] != '@') {
            fputs(line, stdout);
            continue;
        }
        line[n - 1] = 0;
        char *opts = strstr(line, "_opts");
        if (strncmp(line, "@hone_", 6) == 0 && opts) {
            *opts = 0;
            print_struct(line + 6);
        } else
            print_man(line + 1);
    }
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "expand") == 0)
        expand_template();
    else if (argc == 2 && strcmp(argv[1], "fields") == 0)
        print_fields();
    else
        stop_with("expand or fields", "usage");
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
