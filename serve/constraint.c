// SPDX-License-Identifier: MIT
/* serve/constraint.c - compilation and cache of the grammars for constrained answers. */
#include "serve/constraint.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "grammar/gram.h"

enum { KEPT = 32, SPACES = 4 };
/* A grammar caches masks, so it grows as it is used. If it exceeds LANG_BYTES, the next request
 * compiles it again, long before it would reach its own limit. The cache as a whole stays below
 * KEPT_BYTES. */
enum { LANG_BYTES = 16 << 20, KEPT_BYTES = 48 << 20 };

struct lang { /* a compiled grammar; referenced by answers and the cache */
    struct grammar *g;
    char *key;
    atomic_int refs;
};
struct guards {
    const struct tok *tok;
    const struct toolfmt *fmt;
    enum guards_mode mode;
    bool open;                /* gram_opts.open */
    pthread_mutex_t making;   /* held while the vocabulary is built */
    struct gram_vocab *vocab; /* NULL: not built, because it was not needed yet */
    pthread_mutex_t lock;     /* protects the fields below */
    struct lang *kept[KEPT];  /* most recently used first */
    int n;
};
struct guards *guards_new(const struct tok *t, const struct toolfmt *f, enum guards_mode mode,
                          bool open) {
    struct guards *g = xcalloc(1, sizeof *g);
    pthread_mutex_init(&g->making, NULL);
    pthread_mutex_init(&g->lock, NULL);
    g->tok = t;
    g->fmt = f;
    g->mode = mode;
    g->open = open;
    return g;
}

/* Drops a reference to a compiled language; the last one frees it. */
static void drop_lang(struct lang *l) {
    if (atomic_fetch_sub(&l->refs, 1) != 1) return;
    grammar_free(l->g);
    free(l->key);
    free(l);
}

void guards_free(struct guards *g) {
    if (!g) return;
    for (int i = 0; i < g->n; i++) drop_lang(g->kept[i]);
    gram_vocab_free(g->vocab);
    pthread_mutex_destroy(&g->making);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

void guard_release(struct constraint *g) {
    constrain_free(g->c);
    for (int i = 0; i < (int)COUNT_OF(g->lang); i++)
        if (g->lang[i]) drop_lang(g->lang[i]);
    *g = (struct constraint){0};
}

/* ---- compiling ---- */

/* Compiles the grammar of the answer's text or, if form is FORM_TOOLS, of its calls. */
static int compile_parsed(struct guards *g, struct ask *a, enum ask_form form, const char *opened,
                          const struct json *j, struct grammar **out, struct gram_spot *spot,
                          struct err *e) {
    struct buf notes = {0};
    const bool strict = g->mode == GUARDS_STRICT;
    const struct gram_opts o = {.strict = a->form_strict || strict,
                                .complete = a->form_strict && a->complete,
                                .open = g->open,
                                .notes = &notes};
    const char *text[256];
    int n = 0, rc;
    if (form == FORM_SCHEMA || form == FORM_TOOLS) {
        const bool now = a->must_call || a->form != FORM_FREE; /* no text before the calls */
        const struct gram_tools t = {j, a->only_tool,
                                     a->no_calls ? GRAM_TOOLS_NONE
                                     : now       ? GRAM_TOOLS_REQUIRED
                                                 : GRAM_TOOLS_AUTO,
                                     !a->one_call, opened};
        const struct gram_opts any = {.any_order = true,
                                      .strict = strict,
                                      .complete = a->complete,
                                      .open = g->open,
                                      .notes = &notes,
                                      .spot = spot};
        rc = form == FORM_SCHEMA ? grammar_of_schema(out, g->vocab, j, &o, e)
                                 : grammar_of_tools(out, g->vocab, g->fmt, &t, &any, e);
        for (size_t i = 0; i < notes.len; i++)
            if (notes.data[i] == '\n') notes.data[i] = ';';
        if (notes.len) buf_fmt(&a->warned, "%s%s", a->warned.len ? ", " : "", notes.data);
        buf_release(&notes);
        return rc;
    }
    for (const struct json *s = json_first(j); s; s = json_next(s)) {
        if (!json_str(s) || n == (int)COUNT_OF(text))
            return err_set(e, ERR_DATA, "must be a list of at most %zu strings", COUNT_OF(text));
        text[n++] = json_str(s);
    }
    return n ? grammar_of_choices(out, g->vocab, text, n, e)
             : err_set(e, ERR_DATA, "must be a list of strings");
}

/* Appends a JSON list of those tools in a->tools whose names are in a->allowed. */
static int allowed_tools(const struct ask *a, struct buf *out, struct err *e) {
    struct json *names = NULL, *tools = NULL;
    int n = 0, rc = json_parse(&names, a->allowed, strlen(a->allowed), "tool_choice", e);
    if (!rc) rc = json_parse_mend(&tools, a->tools, strlen(a->tools), "tools", e);
    for (const struct json *t = json_first(tools); t && !rc; t = json_next(t)) {
        const char *name = json_str(json_get(json_get(t, "function"), "name"));
        const struct json *x = json_first(names);
        while (x && (!name || strcmp(json_str(x), name) != 0)) x = json_next(x);
        if (x) {
            buf_str(out, n++ ? ", " : "[");
            json_write_spaced(out, t);
        }
    }
    buf_chr(out, ']');
    if (!rc && n < json_len(names))
        rc = err_set(e, ERR_USAGE, "the request does not define all of the allowed tools");
    json_free(names);
    json_free(tools);
    return rc;
}

/* Creates the grammar's view of the vocabulary on the first call. */
static int need_vocab(struct guards *g, struct err *e) {
    pthread_mutex_lock(&g->making);
    const int rc = g->vocab ? 0 : gram_vocab_new(&g->vocab, g->tok, e);
    pthread_mutex_unlock(&g->making);
    return rc;
}

/* Compiles the language of the request's tools or form. opened: marker in the prompt, or NULL. */
static int compile_form(struct guards *g, struct ask *a, enum ask_form form, const char *opened,
                        struct grammar **out, struct gram_spot *spot, struct err *e) {
    const struct gram_opts any = {.strict = false};
    const char *text = form == FORM_TOOLS ? a->tools : a->form_text;
    struct buf some = {0};
    struct json *j = NULL;
    TRY(need_vocab(g, e));
    if (form == FORM_OBJECT) return grammar_of_json(out, g->vocab, true, &any, e);
    if (form == FORM_REGEX) return grammar_of_regex(out, g->vocab, text, strlen(text), e);
    if (form == FORM_GRAMMAR) return grammar_of_text(out, g->vocab, text, strlen(text), e);
    int rc = form == FORM_TOOLS && a->allowed ? allowed_tools(a, &some, e) : 0;
    if (some.len) text = some.data;
    if (!rc)
        rc = json_parse(&j, text, strlen(text), form == FORM_TOOLS ? "tools" : a->form_path, e);
    if (!rc) rc = compile_parsed(g, a, form, opened, j, out, spot, e);
    json_free(j);
    buf_release(&some);
    return rc;
}

/* Removes language i from the cache. */
static void drop_kept(struct guards *g, int i) {
    drop_lang(g->kept[i]);
    memmove(g->kept + i, g->kept + i + 1, (size_t)(--g->n - i) * sizeof(void *));
}

/* Drops grammars that have grown too large, then the least recently used ones. */
static void trim(struct guards *g) {
    size_t all = 0;
    for (int i = 0; i < g->n;) {
        const size_t n = grammar_bytes(g->kept[i]->g);
        if (n > LANG_BYTES || all + n > KEPT_BYTES || grammar_is_full(g->kept[i]->g)) {
            drop_kept(g, i);
        } else {
            all += n;
            i++;
        }
    }
}

/* Computes the first mask of a grammar ahead of time, so that the engine thread need not. */
static int warm(const struct gram_vocab *v, struct grammar *g, struct err *e) {
    uint32_t *bits = xcalloc((size_t)gram_vocab_size(v) / 32 + 1, sizeof *bits);
    struct gram_state *s = gram_begin(g);
    const int rc = gram_mask(s, bits, e);
    gram_end(s);
    free(bits);
    return rc;
}

/* Moves a cached grammar to the front and returns it. If it is not cached, adds `made`, if that is
 * not NULL. If another thread has already added it, frees `made`. */
static struct lang *cache_grammar(struct guards *g, char *key, struct grammar *made) {
    struct lang *l = NULL;
    int i = 0;
    while (i < g->n && strcmp(g->kept[i]->key, key) != 0) i++;
    if (i < g->n) {
        l = g->kept[i];
    } else if (made) {
        l = xcalloc(1, sizeof *l);
        l->g = made;
        l->key = key;
        atomic_init(&l->refs, 1);
        if (g->n == KEPT) drop_lang(g->kept[--g->n]);
        i = g->n++;
        made = NULL, key = NULL;
    }
    if (l) {
        memmove(g->kept + 1, g->kept, (size_t)i * sizeof(void *));
        g->kept[0] = l;
        atomic_fetch_add(&l->refs, 1);
    }
    if (made) {
        grammar_free(made);
        free(key);
    }
    return l;
}

/* Sets *out to the grammar of a form; the caller drops it. Without `now`, only looks in the cache,
 * and returns GUARDS_LATER if the grammar is not there. */
static int find_grammar(struct guards *g, struct ask *a, enum ask_form form, const char *opened,
                        bool now, struct lang **out, struct gram_spot *spot, struct err *e) {
    const char *text = form == FORM_TOOLS ? a->tools : a->form_text;
    struct buf key = {0};
    struct grammar *made = NULL;
    buf_fmt(&key, "%d%d%d%d%d%d%d %s %s %s %s", (int)form, a->form != FORM_FREE, a->form_strict,
            a->complete, a->must_call, a->one_call, a->no_calls, a->only_tool ? a->only_tool : "",
            a->allowed ? a->allowed : "", opened ? opened : "", text ? text : "");
    pthread_mutex_lock(&g->lock);
    trim(g);
    *out = cache_grammar(g, key.data, NULL);
    pthread_mutex_unlock(&g->lock);
    int rc = *out ? 0 : now ? compile_form(g, a, form, opened, &made, spot, e) : GUARDS_LATER;
    if (!rc && made) rc = warm(g->vocab, made, e);
    if (!rc && made) {
        pthread_mutex_lock(&g->lock);
        *out = cache_grammar(g, buf_take(&key), made);
        pthread_mutex_unlock(&g->lock);
    } else {
        grammar_free(made);
    }
    buf_release(&key);
    return rc;
}

/* Returns a constraint with references to its n languages. */
static struct constraint make_constraint(const struct guards *g, const struct constrain_opts *o,
                                         struct lang *const *l, int n) {
    struct constraint guard = {.c = constrain_new(o, g->tok)};
    for (int i = 0; i < n; i++) {
        atomic_fetch_add(&l[i]->refs, 1);
        guard.lang[i] = l[i];
    }
    return guard;
}

/* Returns the request's field that an error of this form refers to. */
static const char *field_name_of(const struct ask *a, enum ask_form form) {
    if (form != FORM_TOOLS) return a->form_path;
    return a->must_call || a->allowed ? "tool_choice"
           : a->one_call              ? "parallel_tool_calls"
                                      : "tools";
}

/* Fills in f with the error of a form or tool; f->param is its path in the client's request. */
static int refuse(const struct ask *a, enum ask_form form, const struct gram_spot *spot,
                  const struct err *e, struct fault *f) {
    const size_t n = strlen(spot->tool), n_path = strlen(spot->path);
    const char *line = n ? a->schemas.data : NULL, *what = strstr(e->msg, spot->path);
    char param[sizeof f->param];
    while (line && (strncmp(line, spot->tool, n) != 0 || line[n] != ' ')) {
        line = strchr(line, '\n');
        line = line && line[1] ? line + 1 : NULL;
    }
    if (!line) {
        const bool list = strncmp(e->msg, "tools: ", 7) == 0;
        const char *const field = list ? "tools" : field_name_of(a, form);
        const size_t n_field = strlen(field); /* the message must not repeat it */
        const bool twice = strncmp(e->msg, field, n_field) == 0 && e->msg[n_field] == ':';
        return fault_set(f, 400, NULL, field, "%s", e->msg + (twice ? n_field + 2 : 0));
    }
    snprintf(param, sizeof param, "%.*s%s%s", (int)strcspn(line + n + 1, "\n"), line + n + 1,
             n_path ? "." : "", spot->path);
    if (!n_path || !what) return fault_set(f, 400, NULL, param, "%s", e->msg);
    what += n_path; /* f->param has the path already */
    return fault_set(f, 400, NULL, param, "tool '%s'%s", spot->tool, what);
}

/* Returns whether a tool in the list is strict. */
static bool has_strict(const char *tools) {
    struct json *j = NULL;
    struct err ignored;
    bool strict = false;
    if (!strstr(tools, "\"strict\"") ||
        json_parse_mend(&j, tools, strlen(tools), "tools", &ignored))
        return false;
    for (const struct json *t = json_first(j); t && !strict; t = json_next(t))
        strict = json_bool(json_get(json_get(t, "function"), "strict"), false);
    json_free(j);
    return strict;
}

/* Returns whether the request demands constrained calls, so that it fails if a grammar cannot be
 * compiled. */
static bool insists(const struct guards *g, const struct ask *a) {
    return g->mode == GUARDS_STRICT || a->must_call || a->one_call || a->allowed || a->held ||
           a->form != FORM_FREE || has_strict(a->tools);
}

/* Creates n constraints from m grammars. */
static void hold_all(const struct ask *a, const struct toolfmt *fmt, enum tool_think think,
                     const char *opened, const struct guards *g, struct lang *const *l, int m,
                     struct constraint *guard, int n) {
    struct constrain_opts o = {.g = l[0]->g, .other = m > 1 ? l[1]->g : NULL};
    o.may_end = a->form == FORM_FREE && !a->must_call;
    o.draw_all = a->top >= 0; /* log probabilities were requested, so no token is skipped */
    o.spaces = fmt && !opened ? SPACES : 0;
    if (fmt && think != TOOL_THINK_NONE) o.close = toolfmt_think_tag(fmt, true);
    if (fmt && think == TOOL_THINK_UNKNOWN) o.open = toolfmt_think_tag(fmt, false);
    for (int i = 0; i < n; i++) guard[i] = make_constraint(g, &o, l, m);
}

int guards_make(struct guards *g, struct ask *a, const struct toolfmt *fmt, enum tool_think think,
                const char *opened, bool now, struct constraint *guard, int n, struct fault *f) {
    const bool calls = a->tools && !a->no_calls, syntax = fmt && fmt != toolfmt_plain();
    struct lang *l[2];
    enum ask_form form[2];
    struct err e;
    struct gram_spot spot = {"", ""};
    int k = 0, m = 0, rc = 0;
    if (a->must_call && !calls)
        return fault_set(f, 400, NULL, "tool_choice",
                         "a call is required, but the request has no tools that may be called");
    if (g->mode == GUARDS_OFF) return 0;
    if (a->form != FORM_FREE && !(calls && a->must_call)) form[k++] = a->form;
    if (calls && (insists(g, a) || syntax)) form[k++] = FORM_TOOLS;
    if (a->tools && a->no_calls && !k && syntax) form[k++] = FORM_TOOLS;
    for (int i = 0; i < k && !rc; i++) {
        const int bad = find_grammar(g, a, form[i], opened, now, &l[m], &spot, &e);
        if (!bad)
            m++;
        else if (bad == GUARDS_LATER)
            rc = bad;
        else if (e.code == ERR_INTR)
            rc = fault_set(f, 503, NULL, NULL, "the server is stopping");
        else if (form[i] != FORM_TOOLS || insists(g, a))
            rc = refuse(a, form[i], &spot, &e, f);
        else
            buf_fmt(&a->warned, "%stool calls are not constrained to their schemas: %s",
                    a->warned.len ? ", " : "", e.msg);
    }
    if (!rc && m) hold_all(a, fmt, think, opened, g, l, m, guard, n);
    while (m-- > 0) drop_lang(l[m]);
    return rc;
}
