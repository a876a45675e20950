// SPDX-License-Identifier: MIT
/* cli/help.c - layout of --help: wrapped to the terminal's width, at most one screen long. */
#include "cli/help.h"

#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/os.h"

#define EXAMPLE(command, line) {command, line},
static const struct {
    const char *command, *line;
} examples[] = {
#include "cli/examples.def"
};
#undef EXAMPLE

const char *help_example(const char *command, int k) {
    for (size_t i = 0; i < COUNT_OF(examples); i++)
        if (strcmp(examples[i].command, command) == 0 && k-- == 0) return examples[i].line;
    return NULL;
}

int help_width(FILE *f) {
    const char *columns = getenv("COLUMNS");
    int w = f ? os_tty_width(f) : 0;
    if (!w && columns) w = (int)strtol(columns, NULL, 10);
    return w <= 0 ? 80 : w < 40 ? 40 : w > 100 ? 100 : w;
}

/* ---- wrapping -------------------------------------------------------------------------------- */

static void put_spaces(struct buf *b, int n) {
    while (n-- > 0) buf_chr(b, ' ');
}

/* Returns the length of the word at p. A short option in brackets such as "[-n N]" counts as one
 * word, so that no line breaks inside it. */
static size_t word_length(const char *p) {
    size_t n = strcspn(p, " \n");
    const char *end = p[0] == '[' ? strchr(p, ']') : NULL;
    if (end && end - p < 32) n = (size_t)(end - p) + strcspn(end, " \n");
    return n;
}

void help_wrap(struct buf *b, const char *text, int at, int indent, int width) {
    bool first = true; /* at the first word of a line */
    for (const char *p = text; *(p += strspn(p, " \n"));) {
        size_t n = word_length(p);
        if (!first && at + 1 + (int)n > width) {
            buf_chr(b, '\n');
            put_spaces(b, indent);
            at = indent;
            first = true;
        }
        if (!first) buf_chr(b, ' '), at++;
        buf_add(b, p, n);
        at += (int)n;
        first = false;
        p += n;
    }
}

/* Appends "head text"; further lines of the text are indented to its first word. */
static void paragraph(struct buf *b, const char *head, const char *text, int width) {
    int at = (int)strlen(head);
    buf_str(b, head);
    help_wrap(b, text, at, at, width);
    buf_chr(b, '\n');
}

static int count_lines(const struct buf *b) {
    int n = 0;
    for (size_t i = 0; i < b->len; i++) n += b->data[i] == '\n';
    return n;
}

/* ---- options --------------------------------------------------------------------------------- */

/* Maximum width of the column of names; a longer name has its text on the next line. */
enum { LEFT_MOST = 26 };

/* Writes the left part of an option's help; returns its length. */
static int left_text(char out[96], const struct option *o) {
    char letter[8] = "    ";
    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    return snprintf(out, 96, "  %s--%s%s%s", letter, o->name, o->arg ? " " : "",
                    o->arg ? o->arg : "");
}

/* Returns the column where the texts of these options begin. */
static int text_column(const struct option *o, int width) {
    int most = 0, cap = width / 3 < LEFT_MOST ? width / 3 : LEFT_MOST;
    char left[96];
    for (; o && o->name; o++) {
        int len = left_text(left, o);
        if (len > most && len <= cap) most = len;
    }
    return (most ? most : cap) + 2;
}

/* Appends the help of an option; column: where its text begins. */
static void one_option(struct buf *b, const struct option *o, int column, int width) {
    char left[96];
    int len = left_text(left, o);
    buf_str(b, left);
    if (len + 2 > column) {
        buf_chr(b, '\n');
        len = 0;
    }
    put_spaces(b, column - len);
    help_wrap(b, o->help, column, column, width);
    buf_chr(b, '\n');
}

/* Appends the first `shown` of n options with their texts, and the others by name. */
static void options_text(struct buf *b, const struct cmd_spec *spec, int shown, int width) {
    int column = text_column(spec->opts, width);
    struct buf names = {0};
    buf_str(b, "\noptions:\n");
    for (int i = 0; i < shown; i++) one_option(b, &spec->opts[i], column, width);
    for (int i = shown; spec->opts[i].name; i++) buf_fmt(&names, "--%s ", spec->opts[i].name);
    if (names.len) paragraph(b, "  and ", names.data, width);
    buf_release(&names);
}

/* Appends the common options: all with help, or only their names. */
static void common_text(struct buf *b, const struct cmd_spec *spec, const struct option *common,
                        bool all, int width) {
    struct buf names = {0};
    if (all) {
        buf_str(b, "\ncommon options:\n");
        int column = text_column(common, width);
        for (; common->name; common++) one_option(b, common, column, width);
        return;
    }
    for (; common->name; common++) {
        if (common->letter) buf_fmt(&names, "-%c/", common->letter);
        buf_fmt(&names, "--%s ", common->name);
    }
    buf_fmt(&names, " (see hone %s --help -v, or man hone)", spec->name);
    buf_chr(b, '\n');
    paragraph(b, "common: ", names.data, width);
    buf_release(&names);
}

/* Appends the command's examples. */
static void tail_text(struct buf *b, const struct cmd_spec *spec) {
    const char *line = help_example(spec->name, 0);
    if (line) buf_str(b, "\nexamples:\n");
    for (int k = 0; (line = help_example(spec->name, k)) != NULL; k++) buf_fmt(b, "  %s\n", line);
}

/* Appends every exit status with its meaning. */
static void statuses_text(struct buf *b, int width) {
    struct buf list = {0};
    const struct err_status *s;
    for (int i = 0; (s = err_status(i)) != NULL; i++)
        buf_fmt(&list, "%s%d %s", i ? ", " : "", s->status, s->brief);
    buf_str(b, "\nexit status: ");
    help_wrap(b, list.data, 13, 0, width);
    buf_chr(b, '\n');
    buf_release(&list);
}

void help_command(struct buf *b, const struct cmd_spec *spec, const struct option *common, bool all,
                  int width) {
    struct buf head = {0}, tail = {0};
    char usage[80];
    snprintf(usage, sizeof usage, "usage: hone %s ", spec->name);
    buf_str(&head, usage);
    help_wrap(&head, spec->synopsis, (int)strlen(usage), 12, width);
    buf_str(&head, "\n\n");
    help_wrap(&head, spec->about, 0, 0, width);
    buf_chr(&head, '\n');
    tail_text(&tail, spec);
    common_text(&tail, spec, common, all, width);
    if (all) statuses_text(&tail, width);
    const int room = HELP_LINES - count_lines(&head) - count_lines(&tail);
    struct buf opts = {0};
    for (int shown = opt_count(spec->opts); spec->opts;
         shown--) { /* until the options fit on the screen */
        buf_reset(&opts);
        options_text(&opts, spec, shown, width);
        if (all || shown == 0 || count_lines(&opts) <= room) break;
    }
    buf_add(b, head.data, head.len);
    if (opts.len) buf_add(b, opts.data, opts.len);
    buf_add(b, tail.data, tail.len);
    buf_release(&head);
    buf_release(&tail);
    buf_release(&opts);
}

/* ---- lists of commands ----------------------------------------------------------------------- */

void help_subcommands(struct buf *b, const char *command, const struct subcommand *sub,
                      const char *const *synopsis, int n, const char *operands, int width) {
    char head[32];
    buf_fmt(b, "usage: hone %s COMMAND %s\n\n", command, operands);
    for (int i = 0; i < n; i++) {
        snprintf(head, sizeof head, "  %-8s  ", sub[i].name);
        paragraph(b, head, sub[i].summary, width);
        if (!synopsis[i]) continue;
        put_spaces(b, 12);
        help_wrap(b, synopsis[i], 12, 14, width);
        buf_chr(b, '\n');
    }
    buf_fmt(b, "\n'hone help %s %s' describes one of them\n", command, sub[0].name);
}

void help_overview(struct buf *b, const struct subcommand *s, int n, int width) {
    char head[32];
    buf_str(b, "usage: hone COMMAND [options]\n\n");
    help_wrap(b,
              "Turns Hugging Face models into quantized GGUF files, measures every file, and runs "
              "and serves them. It never downloads anything.",
              0, 0, width);
    buf_str(b, "\n\n");
    for (int i = 0; i < n; i++) {
        snprintf(head, sizeof head, "  %-14s", s[i].name);
        paragraph(b, head, s[i].summary, width);
    }
    buf_str(b, "\nMost people need one:  hone make MODEL_FOLDER -o RESULT_FOLDER\n"
               "'hone help COMMAND' describes a command; 'man hone' covers everything.\n");
}

/* ---- operands -------------------------------------------------------------------------------- */

const char *help_operand(const char *synopsis, int k, int *n) {
    for (const char *p = synopsis; *p && !strchr("-[(|", *p); k--) {
        *n = (int)strcspn(p, " ");
        if (k == 0) return p;
        p += *n;
        p += strspn(p, " ");
    }
    return NULL;
}
