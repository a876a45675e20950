// SPDX-License-Identifier: MIT
/* chat/tool_place.c - search for the part of a tool call that a byte belongs to. The syntax's
 * parser has read the values already; here they are located in the text: the name first, then each
 * argument between its tags or, in JSON and literals, by brackets, quotes and colons. */
#include "chat/tool_place.h"

#include <stdlib.h>
#include <string.h>

#include "chat/tool_int.h"
#include "base/mem.h"

const char *tool_place_name(enum tool_place place) {
    static const char *const name[TOOL_PLACES] = {"name", "key", "value", "structure", "text"};
    return name[place];
}

/* A scan of a call for one byte. */
struct walk {
    const struct toolparse *p;
    size_t i, to; /* [i, to): part not scanned yet */
    size_t at;    /* offset of the byte */
    enum tool_place place;
};

/* Sets the place of w->at if that byte is in [from, to). */
static void note_place(struct walk *w, size_t from, size_t to, enum tool_place place) {
    if (w->at >= from && w->at < to) w->place = place;
}

static bool is_word_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '+' || (unsigned char)c >= 0x80;
}

/* Returns the first occurrence of t as a whole word in [i, w->to); SIZE_MAX: none. */
static size_t find_word(const struct walk *w, size_t i, struct text t) {
    const char *s = w->p->in.data;
    for (; t.n && i < w->to && t.n <= w->to - i; i++) {
        const char *hit = memmem(s + i, w->to - i, t.s, t.n);
        if (!hit) break;
        i = (size_t)(hit - s);
        const size_t end = i + t.n;
        const bool before =
            i > 0 && is_word_char(s[i - 1]) && s[i - 1] != '.' && is_word_char(t.s[0]);
        if (!before && !(end < w->to && is_word_char(s[end]) && is_word_char(s[end - 1]))) return i;
    }
    return SIZE_MAX;
}

/* Returns the position of the text at or after i; SIZE_MAX if not found before w->to. */
static size_t find_text(const struct walk *w, size_t i, const char *lit) {
    const size_t at = tool_find(w->p, i, lit);
    return at < w->to ? at : SIZE_MAX;
}

static struct text name_of(const struct json *member) {
    struct text t;
    t.s = json_namen(member, &t.n);
    return t;
}

/* ---- arguments between tags ---- */

struct tags {
    const char *open, *name_end, *val_open, *close;
};

/* Records the places of the arguments' values written between tags. */
static void walk_tags(struct walk *w, const struct tags *t, const struct json *args) {
    for (const struct json *m = json_first(args); m; m = json_next(m)) {
        size_t i = find_text(w, w->i, t->open);
        if (i == SIZE_MAX) return;
        i = find_word(w, i + strlen(t->open), name_of(m));
        if (i == SIZE_MAX) return;
        note_place(w, i, i + name_of(m).n, TOOL_PLACE_KEY);
        i = find_text(w, i + name_of(m).n, t->val_open ? t->val_open : t->name_end);
        if (i == SIZE_MAX) return;
        i += strlen(t->val_open ? t->val_open : t->name_end);
        size_t end = find_text(w, i, t->close);
        if (end == SIZE_MAX) end = w->to;
        note_place(w, i, end, TOOL_PLACE_VALUE);
        w->i = end;
    }
}

/* ---- arguments as JSON or literals ---- */

static const char *const quotes[] = {"<|\"|>", "<escape>", "\"", "'"};

/* Moves *i past the string or word there; *t: its text without quotes. False: there is neither. */
static bool token(const struct walk *w, size_t *i, struct text *t) {
    const char *s = w->p->in.data;
    size_t from = *i, end;
    for (size_t k = 0; k < COUNT_OF(quotes); k++) {
        const size_t n = strlen(quotes[k]);
        if (!tool_at(w->p, from, quotes[k])) continue;
        for (end = from + n; end < w->to && !tool_at(w->p, end, quotes[k]);)
            end += s[end] == '\\' && n == 1 ? 2 : 1;
        if (end > w->to) end = w->to;
        *t = tool_text(w->p, from + n, end);
        *i = end + n < w->to ? end + n : w->to;
        return true;
    }
    for (end = from; end < w->to && is_word_char(s[end]);) end++;
    *t = tool_text(w->p, from, end);
    *i = end;
    return end > from;
}

/* Scans the arguments of a call in brackets, in which ':' or '=' follows a name. The first name
 * equal to that of the first argument shows at which bracket depth arguments are; names at greater
 * depth are members of an argument. */
static void walk_brackets(struct walk *w, const struct json *args) {
    const char *s = w->p->in.data;
    int depth = 0, of_args = -1;
    if (!json_first(args)) return;
    for (size_t i = w->i; i < w->to;) {
        struct text t;
        if (strchr("{[(", s[i]) && s[i]) depth++;
        if (strchr("}])", s[i]) && s[i] && --depth < of_args) {
            w->i = i + 1;
            return;
        }
        if (!token(w, &i, &t)) {
            i++;
            continue;
        }
        const size_t next = tool_ws(w->p, i), from = (size_t)(t.s - s);
        const bool key = next < w->to && (s[next] == ':' || s[next] == '=');
        if (key && of_args < 0 && tool_same(t, name_of(json_first(args)))) of_args = depth;
        if (of_args >= 0) note_place(w, from, from + t.n, key ? TOOL_PLACE_KEY : TOOL_PLACE_VALUE);
    }
}

/* ---- calls ---- */

/* Records the places of one call's values. */
static void walk_call(struct walk *w, const struct tool_call *c) {
    const struct tool_tags *t = &w->p->f->tags;
    static const struct tags elements = {M3_GUARD "<", ">", NULL, M3_GUARD "</"};
    const struct tags tags = {t->par_open, t->par_name_end, t->val_open, t->par_close};
    const size_t name = find_word(w, w->i, c->name);
    if (name != SIZE_MAX) {
        note_place(w, name, name + c->name.n, TOOL_PLACE_NAME);
        w->i = name + c->name.n;
        if (w->i < w->to && w->p->in.data[w->i] == '"') w->i++; /* the name's closing quote */
    }
    if (w->p->f->parse == tool_parse_elements)
        walk_tags(w, &elements, c->args);
    else if (t->par_open)
        walk_tags(w, &tags, c->args);
    else
        walk_brackets(w, c->args);
}

enum tool_place toolparse_place(const struct toolparse *p, size_t at, int *call) {
    struct walk w = {.p = p, .at = at, .place = TOOL_PLACE_TEXT};
    *call = -1;
    w.at = at += p->n_opened;
    for (int k = 0; k < p->n_calls; k++) {
        const struct tool_call *c = &p->calls[k];
        if (at < c->from || at >= c->to) continue;
        const bool first = *call < 0;
        if (!first) { /* a further call of the list: look for its start */
            const size_t name = find_word(&w, w.i, c->name);
            if (w.place != TOOL_PLACE_STRUCTURE || name == SIZE_MAX || at < name) break;
        }
        *call = k;
        if (first) w.i = c->from;
        w.to = c->to;
        w.place = TOOL_PLACE_STRUCTURE;
        walk_call(&w, c);
    }
    return w.place;
}

/* Returns the tool's row, added if missing; valid until the next row is added. */
static struct tool_tally_row *row_of(struct tool_tally *t, const char *s, size_t n) {
    for (int i = 0; i < t->n; i++)
        if (strlen(t->row[i].tool) == n && memcmp(t->row[i].tool, s, n) == 0) return &t->row[i];
    t->row = xreallocarray(t->row, (size_t)t->n + 1, sizeof *t->row);
    t->row[t->n] = (struct tool_tally_row){.tool = xstrndup(s, n)};
    return &t->row[t->n++];
}

void tool_tally_add(struct tool_tally *t, const struct toolparse *p, const size_t *at, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int call;
        const enum tool_place place = toolparse_place(p, at[i], &call);
        const struct text name = call < 0 ? (struct text){"", 0} : p->calls[call].name;
        row_of(t, name.s, name.n)->n[place]++;
    }
}

void tool_tally_json(const struct tool_tally *t, struct jw *w, const char *name) {
    jw_arr(w, name);
    for (int i = 0; i < t->n; i++) {
        jw_obj(w, NULL);
        jw_str(w, "tool", t->row[i].tool);
        for (int k = 0; k < TOOL_PLACES; k++)
            if (t->row[i].n[k]) jw_i64(w, tool_place_name((enum tool_place)k), t->row[i].n[k]);
        jw_end(w);
    }
    jw_end(w);
}

void tool_tally_release(struct tool_tally *t) {
    for (int i = 0; i < t->n; i++) free(t->row[i].tool);
    free(t->row);
    *t = (struct tool_tally){0};
}
