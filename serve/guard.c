// SPDX-License-Identifier: MIT
/* serve/guard.c - forms of answers (guard.h). */
#include "serve/guard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "gram/gram.h"

enum { KEPT = 32, LEADING = 4 };
/* A language remembers what it found out about texts, so it grows with its answers. One that is
 * large is compiled anew for the next request, long before it must refuse; all together stay below
 * a bound, too. */
enum { LANG_BYTES = 16 << 20, KEPT_BYTES = 48 << 20 };

struct lang { /* a compiled language, held by its states and by the list */
    struct grammar *g;
    char *key;
    atomic_int refs;
};
struct guards {
    const struct tok *tok;
    const struct toolfmt *fmt;
    struct gram_vocab *vocab; /* NULL: not needed so far */
    struct lang *kept[KEPT];  /* the last one used first */
    int n;
};
enum { LANGS = 2 };
struct place { /* in one answer */
    struct lang *lang[LANGS];
    struct gram_state *s[LANGS]; /* those that what came belongs to: the first n_alive */
    int n, n_alive;
    const struct tok *tok;
    uint32_t *bits, *more;
    int64_t n_words;
    int n_leading; /* tokens of white space in front of the form */
    bool begun;
};

struct guards *guards_new(const struct tok *t, const struct toolfmt *f) {
    struct guards *g = xcalloc(1, sizeof *g);
    g->tok = t;
    g->fmt = f;
    return g;
}

static void drop(struct lang *l) {
    if (atomic_fetch_sub(&l->refs, 1) != 1) return;
    grammar_free(l->g);
    free(l->key);
    free(l);
}

void guards_free(struct guards *g) {
    if (!g) return;
    for (int i = 0; i < g->n; i++) drop(g->kept[i]);
    gram_vocab_free(g->vocab);
    free(g);
}

/* ---- in an answer ---- */

/* A token of nothing but white space, in front of the form. */
static bool is_leading(const struct place *p, int32_t id) {
    struct buf b = {0};
    if (p->begun || p->n_leading >= LEADING) return false;
    tok_decode(p->tok, id, false, &b);
    size_t n = 0;
    while (n < b.len && strchr(" \t\r\n", b.data[n])) n++;
    const bool all = n && n == b.len && b.data[0];
    buf_release(&b);
    return all;
}

/* What any of the languages allows. False: one needs more memory than it may have. */
static bool allowed(struct place *p) {
    struct err ignored;
    if (gram_mask(p->s[0], p->bits, &ignored)) return false;
    for (int k = 1; k < p->n_alive; k++) {
        if (gram_mask(p->s[k], p->more, &ignored)) return false;
        for (int64_t i = 0; i < p->n_words; i++) p->bits[i] |= p->more[i];
    }
    return true;
}

static void place_mask(void *ud, bool thinks, float *logits, int64_t n) {
    struct place *p = ud;
    for (int64_t i = 0; i < n && thinks; i++) /* what is asked for must still come */
        if (tok_is_eog(p->tok, i)) logits[i] = -HUGE_VALF;
    if (thinks || !allowed(p)) return;
    for (int64_t i = 0; i < n; i++)
        if (!(p->bits[i / 32] >> (i % 32) & 1) && !is_leading(p, (int32_t)i))
            logits[i] = -HUGE_VALF;
}

static void place_accept(void *ud, bool thinks, int32_t id) {
    struct place *p = ud;
    struct err ignored;
    int n = 0;
    if (thinks) return;
    for (int i = 0; i < p->n_alive; i++) {
        struct gram_state *s = p->s[i];
        if (gram_accept(s, id, &ignored)) continue;
        p->s[i] = p->s[n];
        p->s[n++] = s;
    }
    if (n)
        p->n_alive = n;
    else if (is_leading(p, id))
        p->n_leading++;
    p->begun = p->begun || n;
}

static void place_free(void *ud) {
    struct place *p = ud;
    for (int i = 0; i < p->n; i++) {
        gram_end(p->s[i]);
        drop(p->lang[i]);
    }
    free(p->bits);
    free(p->more);
    free(p);
}

/* ---- compiling ---- */

/* form: of the answer's text, or FORM_TOOLS. */
static int compile_parsed(struct guards *g, struct ask *a, enum ask_form form, const struct json *j,
                          struct grammar **out, struct err *e) {
    struct buf notes = {0};
    const struct gram_opts o = {.strict = a->form_strict, .notes = &notes};
    const char *text[256];
    int n = 0, rc;
    if (form == FORM_SCHEMA || form == FORM_TOOLS) {
        const bool now = a->must_call || a->form != FORM_FREE; /* no text in front of the calls */
        const struct gram_tools t = {j, a->only_tool, now ? GRAM_TOOLS_REQUIRED : GRAM_TOOLS_AUTO,
                                     !a->one_call};
        const struct gram_opts any = {.any_order = true, .notes = &notes};
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
            return err_set(e, ERR_DATA, "a list of at most %zu texts is needed", COUNT_OF(text));
        text[n++] = json_str(s);
    }
    return n ? grammar_of_choices(out, g->vocab, text, n, e)
             : err_set(e, ERR_DATA, "a list of texts is needed");
}

/* Those of a->tools that a->allowed names, JSON text of a list. */
static int allowed_tools(const struct ask *a, struct buf *out, struct err *e) {
    struct json *names = NULL, *tools = NULL;
    struct raw r = raw_first(raw_of(a->tools, strlen(a->tools)));
    int n = 0, rc = json_parse(&names, a->allowed, strlen(a->allowed), "tool_choice", e);
    if (!rc) rc = json_parse(&tools, a->tools, strlen(a->tools), "tools", e);
    for (const struct json *t = json_first(tools); t && !rc; t = json_next(t)) {
        const char *name = json_str(json_get(json_get(t, "function"), "name"));
        const struct json *x = json_first(names);
        while (x && (!name || strcmp(json_str(x), name) != 0)) x = json_next(x);
        if (x) {
            buf_fmt(out, "%s", n++ ? ", " : "[");
            buf_add(out, r.s, r.n);
        }
        r = raw_next(raw_of(a->tools, strlen(a->tools)), r);
    }
    buf_chr(out, ']');
    if (!rc && n < json_len(names))
        rc = err_set(e, ERR_USAGE, "a tool is named that is not offered");
    json_free(names);
    json_free(tools);
    return rc;
}

static int compile(struct guards *g, struct ask *a, enum ask_form form, struct grammar **out,
                   struct err *e) {
    const struct gram_opts any = {.strict = false};
    const char *text = form == FORM_TOOLS ? a->tools : a->form_text;
    struct buf some = {0};
    struct json *j = NULL;
    if (!g->vocab) TRY(gram_vocab_new(&g->vocab, g->tok, e));
    if (form == FORM_OBJECT) return grammar_of_json(out, g->vocab, true, &any, e);
    if (form == FORM_REGEX) return grammar_of_regex(out, g->vocab, text, strlen(text), e);
    if (form == FORM_GRAMMAR) return grammar_of_text(out, g->vocab, text, strlen(text), e);
    int rc = form == FORM_TOOLS && a->allowed ? allowed_tools(a, &some, e) : 0;
    if (some.len) text = some.data;
    if (!rc)
        rc = json_parse(&j, text, strlen(text), form == FORM_TOOLS ? "tools" : a->form_path, e);
    if (!rc) rc = compile_parsed(g, a, form, j, out, e);
    json_free(j);
    buf_release(&some);
    return rc;
}

static void drop_at(struct guards *g, int i) {
    drop(g->kept[i]);
    memmove(g->kept + i, g->kept + i + 1, (size_t)(--g->n - i) * sizeof(void *));
}

/* Forgets languages that have become large, then those that were not used for long. */
static void trim(struct guards *g) {
    size_t all = 0;
    for (int i = 0; i < g->n;) {
        const size_t n = grammar_bytes(g->kept[i]->g);
        if (n > LANG_BYTES || all + n > KEPT_BYTES) {
            drop_at(g, i);
        } else {
            all += n;
            i++;
        }
    }
}

static struct lang *find(struct guards *g, struct ask *a, enum ask_form form, struct err *e) {
    const char *text = form == FORM_TOOLS ? a->tools : a->form_text;
    struct buf key = {0};
    struct lang *l = NULL;
    trim(g);
    buf_fmt(&key, "%d%d%d%d%d %s %s %s", (int)form, a->form != FORM_FREE, a->form_strict,
            a->must_call, a->one_call, a->only_tool ? a->only_tool : "",
            a->allowed ? a->allowed : "", text ? text : "");
    for (int i = 0; i < g->n && !l; i++) {
        if (strcmp(g->kept[i]->key, key.data) != 0) continue;
        l = g->kept[i];
        memmove(g->kept + 1, g->kept, (size_t)i * sizeof(void *));
    }
    if (!l) {
        struct grammar *made = NULL;
        if (compile(g, a, form, &made, e)) {
            buf_release(&key);
            return NULL;
        }
        l = xcalloc(1, sizeof *l);
        l->g = made;
        l->key = buf_take(&key);
        atomic_init(&l->refs, 1);
        if (g->n == KEPT) drop(g->kept[--g->n]);
        memmove(g->kept + 1, g->kept, (size_t)g->n++ * sizeof(void *));
    }
    g->kept[0] = l;
    buf_release(&key);
    return l;
}

static void place_new(struct guards *g, struct lang *const *l, int n, bool chat,
                      struct guard *guard) {
    struct place *p = xcalloc(1, sizeof *p);
    p->n = p->n_alive = n;
    for (int i = 0; i < n; i++) {
        atomic_fetch_add(&l[i]->refs, 1);
        p->lang[i] = l[i];
        p->s[i] = gram_begin(l[i]->g);
    }
    p->tok = g->tok;
    p->begun = !chat;
    p->n_words = (gram_vocab_size(g->vocab) + 31) / 32;
    p->bits = xcalloc((size_t)p->n_words, sizeof *p->bits);
    p->more = xcalloc((size_t)p->n_words, sizeof *p->more);
    *guard = (struct guard){p, place_mask, place_accept, place_free};
}

int guards_make(struct guards *g, struct ask *a, bool chat, bool calls, struct guard *guard, int n,
                struct fault *f) {
    struct lang *l[LANGS];
    enum ask_form form[LANGS];
    struct err e;
    int k = 0;
    if (a->form != FORM_FREE && !(calls && a->must_call)) form[k++] = a->form;
    if (calls) form[k++] = FORM_TOOLS;
    for (int i = 0; i < k; i++) {
        const char *path = form[i] != FORM_TOOLS        ? a->form_path
                           : a->must_call || a->allowed ? "tool_choice"
                           : a->one_call                ? "parallel_tool_calls"
                                                        : "tools";
        l[i] = find(g, a, form[i], &e);
        if (!l[i]) return fault_set(f, 400, NULL, path, "%s", e.msg);
    }
    for (int i = 0; i < n && k; i++) place_new(g, l, k, chat, &guard[i]);
    return 0;
}
