// SPDX-License-Identifier: MIT
/* runtime/measure/choices.c - table of readers for multiple-choice files, one per format. Files are
 * untrusted: counts and lengths are checked before use. Memory: the file and 4 bytes per token. */
#include "runtime/measure/choices.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "base/num.h"
#include "runtime/measure/choices_int.h"
#include "text/textfile.h"
#include "base/gz.h"
#include "base/limits.h"

enum { MAX_TASKS = 1000000, SKIP_CHOICE = 3 };

/* ---- construction ---- */

struct choice_task *choices_add(struct choice_tasks *c, int n, int right) {
    c->t = xreallocarray(c->t, (size_t)c->n + 1, sizeof *c->t);
    struct choice_task *t = &c->t[c->n++];
    *t = (struct choice_task){.n = n, .right = right};
    t->seq = xcalloc((size_t)n, sizeof *t->seq);
    t->first = xcalloc((size_t)n, sizeof *t->first);
    t->end = xcalloc((size_t)n, sizeof *t->end);
    return t;
}

int choices_encode(const struct tok *tok, const char *a, const char *b, const char *c,
                   struct ids *out, struct err *e) {
    struct buf text = {0};
    buf_fmt(&text, "%s%s%s", a, b, c);
    int rc = tok_encode(tok, text.data, text.len, false, true, out, e);
    buf_release(&text);
    return rc;
}

int choices_finish(struct choice_tasks *c, struct choice_task *t, const char *what, struct err *e) {
    int64_t n = INT64_MAX;
    for (int i = 0; i < t->n; i++) {
        n = min_i64(n, t->seq[i].n);
        c->longest = max_i64(c->longest, t->seq[i].n);
    }
    for (t->common = 0; t->common < n; t->common++)
        for (int i = 1; i < t->n; i++)
            if (t->seq[i].v[t->common] != t->seq[0].v[t->common]) n = t->common;
    t->common = n;
    for (int i = 0; i < t->n; i++) {
        if (t->first[i] == 0) t->first[i] = t->common;
        if (t->end[i] == 0) t->end[i] = t->seq[i].n;
        if (t->first[i] < 1 || t->first[i] >= t->end[i])
            return err_set(e, ERR_DATA,
                           "%s: choice %d has no token of its own after the common beginning", what,
                           i + 1);
    }
    return 0;
}

/* Adds a task with texts context + " " + choice. The common prefix is not scored. */
static int add_context(struct choice_tasks *c, const struct tok *tok, const char *context,
                       const char *const *choice, int n, int right, const char *what,
                       struct err *e) {
    struct choice_task *t = choices_add(c, n, right);
    for (int i = 0; i < n; i++) TRY(choices_encode(tok, context, " ", choice[i], &t->seq[i], e));
    return choices_finish(c, t, what, e);
}

/* ---- formats ---- */

struct input {
    char *text; /* NUL-terminated; the readers cut it up in place */
    size_t len;
    const char *path;
    const struct tok *tok;
    int64_t n_max;
};

/* Returns whether task i of n is among the in->n_max evenly spaced ones; n_max <= 0: all tasks. */
static bool is_wanted(const struct input *in, int64_t i, int64_t n) {
    if (in->n_max <= 0 || in->n_max >= n) return true;
    return i * in->n_max / n != (i + 1) * in->n_max / n;
}

/* Returns the next line, NUL-terminated in place; NULL at the end of the text. */
static char *next_line(char **p) {
    char *line = *p;
    if (!line || !*line) return NULL;
    char *nl = strchr(line, '\n');
    *p = nl ? nl + 1 : line + strlen(line);
    if (nl) *nl = 0;
    size_t n = strlen(line);
    if (n && line[n - 1] == '\r') line[n - 1] = 0;
    return line;
}

/* Returns the number of lines, including a last one without a newline. */
static int64_t count_lines(const struct input *in) {
    int64_t n = 0;
    for (size_t i = 0; i < in->len; i++) n += in->text[i] == '\n';
    return n + (in->len && in->text[in->len - 1] != '\n');
}

/* Reads tasks of six lines each. ERR_DATA: malformed. */
static int read_hellaswag(const struct input *in, struct choice_tasks *c, struct err *e) {
    char *p = in->text, *line[6];
    int64_t n = count_lines(in) / 6;
    for (int64_t i = 0; i < n; i++) {
        char what[300];
        snprintf(what, sizeof what, "%.200s: task %" PRId64 " (line %" PRId64 ")", in->path, i + 1,
                 6 * i + 1);
        for (int k = 0; k < 6; k++)
            if (!(line[k] = next_line(&p))) return err_set(e, ERR_DATA, "%s: truncated", what);
        if (line[1][0] < '0' || line[1][0] > '3' || line[1][1])
            return err_set(e, ERR_DATA, "%s: the second line is not 0, 1, 2 or 3", what);
        if (!is_wanted(in, i, n)) continue;
        const char *const choice[4] = {line[2], line[3], line[4], line[5]};
        TRY(add_context(c, in->tok, line[0], choice, 4, line[1][0] - '0', what, e));
    }
    return 0;
}

struct records { /* position in a CSV text, whose records end at a line break outside quotes */
    char *next;  /* where the next record begins */
    int64_t line, next_line; /* number of the current record's first line and of the next one's */
    bool cut;                /* the text ends within a quoted field of the current record */
};

/* Returns the end of the record that begins at p: its line break, or the end of the text. *cut
 * receives whether that is within a quoted field. Only a field's first character opens quotes. */
static char *record_end(char *p, bool *cut) {
    bool quoted = false, first = true; /* first: *p is the first character of its field */
    for (; *p && (quoted || *p != '\n'); p++) {
        if (quoted && *p == '"' && p[1] == '"')
            p++;
        else if (*p == '"' && (quoted || first))
            quoted = !quoted;
        first = !quoted && *p == ',';
    }
    *cut = quoted;
    return p;
}

/* Returns the next record that is not a blank line; *end receives its end, without the line break.
 * NULL: there are no more. */
static char *next_record(struct records *r, char **end) {
    while (*r->next) {
        char *p = r->next;
        *end = record_end(p, &r->cut);
        r->next = *end + (**end != 0);
        r->line = r->next_line++;
        for (const char *c = p; c < *end; c++) r->next_line += *c == '\n';
        if (*end > p && (*end)[-1] == '\r') --*end;
        if (*end > p) return p;
    }
    return NULL;
}

/* Splits a CSV record in place and returns the number of fields. Fields may be quoted, with "" for
 * ". */
static int csv_fields(char *p, char *field[], int max) {
    for (int n = 0;;) {
        char *to = p;
        bool quoted = *p == '"';
        if (n < max) field[n] = to;
        n++;
        for (p += quoted; *p && (quoted || *p != ','); p++) {
            if (quoted && *p == '"') {
                if (p[1] != '"') {
                    quoted = false;
                    continue;
                }
                p++;
            }
            *to++ = *p;
        }
        bool last = !*p;
        *to = 0;
        if (last) return n;
        p++;
    }
}

/* Adds the task of a CSV record with fields f; modifies f[1]. */
static int winogrande_task(const struct input *in, struct choice_tasks *c, char *f[5],
                           const char *what, struct err *e) {
    char *blank = strchr(f[1], '_');
    if (!blank || (strcmp(f[4], "1") != 0 && strcmp(f[4], "2") != 0))
        return err_set(e, ERR_DATA, "%s: needs a sentence with _ and an answer 1 or 2", what);
    *blank = 0;
    struct choice_task *t = choices_add(c, 2, f[4][0] - '1');
    for (int i = 0; i < 2; i++)
        TRY(choices_encode(in->tok, f[1], f[2 + i], blank + 1, &t->seq[i], e));
    TRY(choices_finish(c, t, what, e));
    bool skip = true; /* The choice itself is not scored if enough text follows it. */
    for (int i = 0; i < 2; i++) skip = skip && t->seq[i].n - t->common > SKIP_CHOICE;
    for (int i = 0; i < 2; i++) {
        struct ids base = {0};
        TRY(choices_encode(in->tok, f[1], f[2 + i], "", &base, e));
        if (skip && base.n < t->seq[i].n) t->first[i] = base.n;
        ids_release(&base);
        if (t->end[i] - t->first[i] > 1) t->end[i]--; /* the full stop is not scored */
    }
    return 0;
}

/* Adds the task of a CSV record: question, four choices, and the letter of the right one. */
static int mmlu_task(const struct input *in, struct choice_tasks *c, char *f[6], const char *what,
                     struct err *e) {
    static const char *const letters[4] = {"A", "B", "C", "D"};
    struct buf text = {0};
    if (f[5][0] < 'A' || f[5][0] > 'D' || f[5][1])
        return err_set(e, ERR_DATA, "%s: the answer is not A, B, C or D", what);
    buf_fmt(&text, "%s\nA. %s\nB. %s\nC. %s\nD. %s\nAnswer:", f[0], f[1], f[2], f[3], f[4]);
    int rc = add_context(c, in->tok, text.data, letters, 4, f[5][0] - 'A', what, e);
    buf_release(&text);
    return rc;
}

/* Reads one task per record with exactly n_fields fields. ERR_DATA: malformed. */
static int read_csv(const struct input *in, struct choice_tasks *c, int n_fields,
                    int (*task)(const struct input *in, struct choice_tasks *c, char **f,
                                const char *what, struct err *e),
                    struct err *e) {
    const struct records start = {.next = in->text, .next_line = 1};
    struct records r = start;
    char *text, *end;
    int64_t n = 0;
    while (next_record(&r, &end)) n++;
    r = start;
    for (int64_t i = 0; (text = next_record(&r, &end)) != NULL; i++) {
        char *f[6], what[300];
        snprintf(what, sizeof what, "%.200s: line %" PRId64, in->path, r.line);
        if (r.cut) return err_set(e, ERR_DATA, "%s: unterminated quoted field", what);
        *end = 0;
        int have = csv_fields(text, f, 6);
        if (have != n_fields)
            return err_set(e, ERR_DATA, "%s: has %d fields, not %d", what, have, n_fields);
        if (is_wanted(in, i, n)) TRY(task(in, c, f, what, e));
    }
    return 0;
}

/* Reads WinoGrande tasks from CSV. */
static int read_winogrande(const struct input *in, struct choice_tasks *c, struct err *e) {
    return read_csv(in, c, 5, winogrande_task, e);
}
/* Reads MMLU tasks from CSV. */
static int read_mmlu(const struct input *in, struct choice_tasks *c, struct err *e) {
    return read_csv(in, c, 6, mmlu_task, e);
}

/* Read position in a binary task file. The file has a u32 count and that many u32 offsets. Each
 * task is a question, then two lists (mc1, mc2): a u32 n, n texts and n int32 labels. A text is a
 * u32 length and its bytes. Only mc1 is used. */
struct cursor {
    const char *p;
    size_t left;
};
/* Reads a number and moves the cursor past it. False: fewer than four bytes are left. */
static bool take_u32(struct cursor *c, uint32_t *v) {
    if (c->left < 4) return false;
    *v = load_u32(c->p);
    c->p += 4;
    c->left -= 4;
    return true;
}
/* Returns a copy of the next text; NULL: truncated. */
static char *take_text(struct cursor *c) {
    uint32_t n;
    if (!take_u32(c, &n) || n > c->left) return NULL;
    char *s = xstrndup(c->p, n);
    c->p += n;
    c->left -= n;
    return s;
}

/* Adds the question at `at`. ERR_DATA: malformed, or not exactly one right choice. */
static int binary_task(const struct input *in, struct cursor at, struct choice_tasks *c,
                       const char *what, struct err *e) {
    uint32_t n = 0, label = 0;
    char *choice[CHOICES_MAX] = {0}, *question = take_text(&at);
    int right = -1, rc = 0;
    bool ok = question && take_u32(&at, &n) && n >= 2 && n <= CHOICES_MAX;
    for (uint32_t i = 0; i < n && ok; i++) ok = (choice[i] = take_text(&at)) != NULL;
    for (uint32_t i = 0; i < n && ok; i++) {
        ok = take_u32(&at, &label) && label <= 1 && !(label && right >= 0);
        if (ok && label) right = (int)i;
    }
    if (!ok || right < 0)
        rc = err_set(e, ERR_DATA, "%s: is not a question with exactly one right choice", what);
    else
        rc = add_context(c, in->tok, question, (const char *const *)choice, (int)n, right, what, e);
    for (uint32_t i = 0; i < CHOICES_MAX; i++) free(choice[i]);
    free(question);
    return rc;
}

/* Reads tasks using the table of offsets at the start of the file. */
static int read_binary(const struct input *in, struct choice_tasks *c, struct err *e) {
    struct cursor head = {in->text, in->len};
    uint32_t n = 0, off = 0;
    if (!take_u32(&head, &n) || n > MAX_TASKS || head.left / 4 < n)
        return err_set(e, ERR_DATA, "%s: is truncated in its table of tasks", in->path);
    struct cursor body = {head.p + 4 * (size_t)n, head.left - 4 * (size_t)n};
    for (uint32_t i = 0; i < n; i++) {
        char what[300];
        snprintf(what, sizeof what, "%.200s: task %" PRIu32, in->path, i + 1);
        (void)take_u32(&head, &off); /* cannot fail: the table has n offsets */
        if (off > body.left)
            return err_set(e, ERR_DATA, "%s: its offset is outside the file", what);
        if (!is_wanted(in, i, n)) continue;
        TRY(binary_task(in, (struct cursor){body.p + off, body.left - off}, c, what, e));
    }
    return 0;
}

static const struct {
    const char *name;
    int (*read)(const struct input *in, struct choice_tasks *c, struct err *e);
} formats[] = {{"hellaswag", read_hellaswag},
               {"winogrande", read_winogrande},
               {"mmlu", read_mmlu},
               {"choice", read_binary}};

const char *choices_formats(void) {
    return "hellaswag, winogrande, mmlu, choice";
}

int choices_open(struct choice_tasks *out, const char *format, const char *path,
                 const struct tok *tok, int64_t n_max, struct err *e) {
    struct input in = {.path = path, .tok = tok, .n_max = n_max};
    size_t k = 0;
    memset(out, 0, sizeof *out);
    while (k < COUNT_OF(formats) && strcmp(formats[k].name, format) != 0) k++;
    if (k == COUNT_OF(formats))
        return err_set(e, ERR_USAGE, "the format '%s' is not one of %s", format, choices_formats());
    TRY(gz_read_file(&in.text, &in.len, path, limit_of(LIM_TEXT), e));
    int rc = formats[k].read == read_binary ? 0 : text_check(in.text, in.len, path, e);
    if (!rc) rc = formats[k].read(&in, out, e);
    if (!rc && !out->n) rc = err_set(e, ERR_DATA, "%s: contains no task", path);
    free(in.text);
    if (rc) choices_close(out);
    return rc;
}

void choices_close(struct choice_tasks *c) {
    for (int k = 0; k < c->n; k++) {
        struct choice_task *t = &c->t[k];
        for (int i = 0; i < t->n; i++) ids_release(&t->seq[i]);
        free(t->seq);
        free(t->first);
        free(t->end);
    }
    free(c->t);
    free(c->group);
    memset(c, 0, sizeof *c);
}
