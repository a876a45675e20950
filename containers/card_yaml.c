// SPDX-License-Identifier: MIT
/* containers/card_yaml.c - parser of YAML front matter, based on libyaml's events. Only the two
 * upper levels are kept. */
#include "containers/card_yaml.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/buf.h"
#include "base/mem.h"

enum { MAX_BYTES = 4 << 20, MAX_EVENTS = 1 << 20, MAX_DEPTH = 64 };
enum {
    KEY_EVENTS = 8
}; /* events of a key without a value: stream, document, map, key, null, three ends */

struct walk {
    struct card_yaml *c;
    int line; /* line of the card at which the text begins */
    int depth, n_docs, n_events;
    bool key, list; /* key: last node at depth 1 was a key; list: the value is a list */
};

/* Sets and returns the error for a line; remembers the first one. */
static int err_at(struct card_yaml *c, int line, const char *what, struct err *e) {
    if (!c->bad_line) c->bad_line = line;
    return err_set(e, ERR_DATA, "front matter, line %d: %s", line, what);
}

/* Reports what libyaml rejected, and at which line; for unclosed constructs, the line where they
 * begin. */
static int report_yaml(struct walk *w, const yaml_parser_t *p, const char *s, struct err *e) {
    static const char *const remedy[][2] = {
        {"mapping values", "; a value with \": \" must be in quotes"},
        {"cannot start any token", "; such a value must be in quotes; tabs cannot indent"}};
    if (!p->problem) return err_set(e, ERR_SYS, "front matter: no memory");
    struct buf what = {0};
    size_t line = p->problem_mark.line;
    if (p->error == YAML_READER_ERROR)
        for (size_t i = line = 0; i < p->problem_offset; i++) line += s[i] == '\n';
    else if (p->context && strncmp(p->context, "while parsing a block", 21) != 0)
        line = p->context_mark.line;
    if (p->context) buf_fmt(&what, "%s, ", p->context);
    buf_str(&what, p->problem);
    for (size_t i = 0; i < COUNT_OF(remedy); i++)
        if (strstr(p->problem, remedy[i][0])) buf_str(&what, remedy[i][1]);
    int rc = err_at(w->c, w->line + (int)line, what.data, e);
    buf_release(&what);
    return rc;
}

/* Begins a key. ERR_DATA: not text, repeated, or too many. */
static int add_key(struct card_yaml *c, const char *name, int line, struct err *e) {
    if (!name) return err_at(c, line, "a key is not text", e);
    if (card_yaml_find(c, name)) return err_at(c, line, "the key occurs twice", e);
    if (c->n == CARD_YAML_MAX_KEYS) return err_at(c, line, "too many keys", e);
    c->key[c->n].key = name;
    c->key[c->n++].n = 0;
    return 0;
}

/* Adds a value to the last key. ERR_DATA: too many. */
static int add_value(struct card_yaml *c, const char *value, int line, struct err *e) {
    struct card_yaml_key *k = &c->key[c->n - 1];
    if (k->n == CARD_YAML_MAX_VALUES) return err_at(c, line, "too many values", e);
    k->value[k->n++] = value;
    return 0;
}

/* Adds the key or value of one YAML event to the card. Fails for values that a card must not
 * have. */
static int take_event(struct walk *w, const yaml_event_t *ev, struct err *e) {
    struct card_yaml *c = w->c;
    int line = w->line + (int)ev->start_mark.line;
    bool scalar = ev->type == YAML_SCALAR_EVENT, map = ev->type == YAML_MAPPING_START_EVENT;
    bool list = ev->type == YAML_SEQUENCE_START_EVENT;
    if (++w->n_events > MAX_EVENTS) return err_at(c, line, "too many values", e);
    if (ev->type == YAML_ALIAS_EVENT) return err_at(c, line, "aliases are not supported", e);
    if (ev->type == YAML_DOCUMENT_START_EVENT && w->n_docs++)
        return err_at(c, line, "a second document", e);
    w->depth -= ev->type == YAML_MAPPING_END_EVENT || ev->type == YAML_SEQUENCE_END_EVENT;
    if (!scalar && !map && !list) return 0;
    const char *text = NULL;
    bool null =
        scalar && !ev->data.scalar.length && ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (scalar && w->depth <= 2)
        text =
            arena_strndup(&c->arena, (const char *)ev->data.scalar.value, ev->data.scalar.length);
    if (w->depth == 0 && !map && !null) return err_at(c, line, "expected \"key: value\"", e);
    if (w->depth == 1) {
        w->key = !w->key;
        w->list = list;
        if (w->key) TRY(add_key(c, text, line, e));
    }
    if (text && !w->key && (w->depth == 1 ? !null : w->depth == 2 && w->list))
        TRY(add_value(c, text, line, e));
    w->depth += map || list;
    return w->depth > MAX_DEPTH ? err_at(c, line, "nested too deeply", e) : 0;
}

/* Processes the events of one document, continuing from the state of w. */
static int walk_document(struct walk *w, const char *s, size_t len, struct err *e) {
    yaml_parser_t p;
    yaml_event_t ev;
    int rc = 0;
    if (!yaml_parser_initialize(&p)) return err_set(e, ERR_SYS, "front matter: no memory");
    yaml_parser_set_encoding(&p, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&p, (const unsigned char *)s, len);
    for (bool end = false; rc == 0 && !end;) {
        if (!yaml_parser_parse(&p, &ev)) {
            rc = report_yaml(w, &p, s, e);
            break;
        }
        end = ev.type == YAML_STREAM_END_EVENT;
        rc = take_event(w, &ev, e);
        yaml_event_delete(&ev);
    }
    yaml_parser_delete(&p);
    return rc;
}

/* Adds the keys of one YAML document, which starts at line `line` of the card. */
static int add_keys(struct card_yaml *c, const char *s, size_t len, int line, struct err *e) {
    struct walk w = {.c = c, .line = line};
    return walk_document(&w, s, len, e);
}

/* Returns the offset after the end of the line. */
static size_t next_line(const char *s, size_t len, size_t at) {
    const char *nl = memchr(s + at, '\n', len - at);
    return nl ? (size_t)(nl - s) + 1 : len;
}

/* Returns the indentation of a list item's dash on the line at `at`; -1: not a list item. */
static long item_indent(const char *s, size_t len, size_t at) {
    size_t dash = at;
    while (dash < len && s[dash] == ' ') dash++;
    bool item = dash < len && s[dash] == '-' && (dash + 1 == len || strchr(" \r\n", s[dash + 1]));
    return item ? (long)(dash - at) : -1;
}

/* Reads a key whose value is a list with one item per line, and drops invalid items. */
static bool each_item(struct card_yaml *c, const char *s, size_t len, int line, int *n_bad) {
    struct err ignored;
    size_t at = 0;
    int n = c->n, n_lines = 0;
    while (at < len && item_indent(s, len, at) < 0) at = next_line(s, len, at), n_lines++;
    struct walk head = {.c = c, .line = line};
    if (at == len || walk_document(&head, s, at, &ignored)) return false;
    if (head.n_events != KEY_EVENTS || c->n != n + 1 || c->key[n].n) return false;
    long indent = item_indent(s, len, at);
    line += n_lines;
    for (size_t end; at < len && *n_bad < CARD_YAML_MAX_KEYS; at = end, line += n_lines) {
        struct walk w = {.c = c, .line = line, .depth = 1, .key = true};
        int n_values = c->key[n].n;
        for (end = next_line(s, len, at), n_lines = 1;
             end < len && item_indent(s, len, end) != indent; n_lines++)
            end = next_line(s, len, end);
        if (walk_document(&w, s + at, end - at, &ignored)) c->key[n].n = n_values, ++*n_bad;
    }
    return true;
}

/* Reads keys one at a time, each with its lines, and drops invalid keys. */
static void each_key(struct card_yaml *c, const char *s, size_t len, int line) {
    struct err ignored;
    int n_bad = 0, n_lines;
    c->n = c->bad_line = 0;
    for (size_t at = 0, end; at < len && n_bad < CARD_YAML_MAX_KEYS; at = end, line += n_lines) {
        int n = c->n;
        for (end = next_line(s, len, at), n_lines = 1; end < len && strchr(" \r\n#-]}", s[end]);
             n_lines++)
            end = next_line(s, len, end);
        if (add_keys(c, s + at, end - at, line, &ignored) == 0) continue;
        c->n = n, n_bad++;
        if (!each_item(c, s + at, end - at, line, &n_bad)) c->n = n;
    }
}

/* Finds the text between the first line, which must be "---", and the next line "---". False: it is
 * missing or not closed. */
static bool find_matter(const char *text, size_t len, size_t *from, size_t *to) {
    size_t at = 0, end;
    for (*from = 0; at < len; at = end) {
        end = next_line(text, len, at);
        size_t n = end - at;
        while (n && (text[at + n - 1] == '\n' || text[at + n - 1] == '\r')) n--;
        bool mark = n == 3 && memcmp(text + at, "---", 3) == 0;
        *to = at;
        if (*from && mark) return true;
        if (!*from && !mark) return false;
        if (!*from) *from = end;
    }
    return false;
}

/* Parses the front matter; lenient: keeps what can be read, and returns 0. */
static int parse_matter(struct card_yaml *c, const char *text, size_t len, bool lenient,
                        struct err *e) {
    size_t from, to;
    memset(c, 0, sizeof *c);
    if (!find_matter(text, len, &from, &to))
        return err_set(e, ERR_DATA,
                       "no front matter: the first line must be ---, and another end it");
    if (to - from > MAX_BYTES) return err_at(c, 1, "longer than 4 MiB", e);
    arena_init(&c->arena);
    c->key = xcalloc(CARD_YAML_MAX_KEYS, sizeof *c->key);
    int rc = add_keys(c, text + from, to - from, 2, e);
    if (rc && lenient)
        each_key(c, text + from, to - from, 2);
    else if (rc)
        card_yaml_release(c);
    return lenient ? 0 : rc;
}

int card_yaml_parse(struct card_yaml *c, const char *text, size_t len, struct err *e) {
    return parse_matter(c, text, len, false, e);
}

bool card_yaml_read(struct card_yaml *c, const char *text, size_t len) {
    struct err ignored;
    struct buf plain = {0};
    size_t from = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    for (size_t i = from; i < len; i++)
        buf_add(&plain, text[i] == '\t' ? "  " : text + i, text[i] == '\t' ? 2 : 1);
    bool ok = parse_matter(c, plain.data ? plain.data : "", plain.len, true, &ignored) == 0;
    buf_release(&plain);
    return ok;
}

void card_yaml_release(struct card_yaml *c) {
    free(c->key);
    arena_release(&c->arena);
    memset(c, 0, sizeof *c);
}

const struct card_yaml_key *card_yaml_find(const struct card_yaml *c, const char *key) {
    for (int i = 0; i < c->n; i++)
        if (strcmp(c->key[i].key, key) == 0) return &c->key[i];
    return NULL;
}

const char *card_yaml_value(const struct card_yaml *c, const char *key) {
    const struct card_yaml_key *k = card_yaml_find(c, key);
    return k && k->n ? k->value[0] : "";
}
