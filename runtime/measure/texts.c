// SPDX-License-Identifier: MIT
/* runtime/measure/texts.c - evaluation texts as domains, each with its own list of tokens: windows
 * do not cross domains. A plain text file is one domain. A .jsonl file has a conversation
 * {"messages": ...} or a text {"text": ...} per line; "domain": "..." assigns the line to that
 * domain. Memory: the texts plus 4 bytes per token. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calib/defaults.h"
#include "calib/imatrix.h"
#include "runtime/measure/job.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "template/chat.h"
#include "text/textfile.h"
#include "work/apart.h"

enum { MAX_DOMAINS = 256 };

/* Returns the token list of a domain, created on first use; NULL: too many domains. */
static struct ids *ids_of(struct eval_texts *t, const char *name) {
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->domain[i].name, name) == 0) return &t->ids[i];
    if (t->n == MAX_DOMAINS) return NULL;
    t->domain = xreallocarray(t->domain, (size_t)t->n + 1, sizeof *t->domain);
    t->ids = xreallocarray(t->ids, (size_t)t->n + 1, sizeof *t->ids);
    t->domain[t->n] = (struct eval_domain){.name = xstrdup(name)};
    t->ids[t->n] = (struct ids){0};
    return &t->ids[t->n++];
}

struct lines {
    const struct model *m;
    struct chat *chat;       /* created at the first conversation */
    const char *path, *name; /* name: of lines without a domain */
    struct eval_texts *to;
    struct buf text;
    bool skip_refused; /* conversations that the template refuses are counted instead of an error */
    int n_refused;
    struct err why; /* why the template refused the first one */
};

/* Renders a conversation and adds it to the tokens. */
static int add_conversation(struct lines *l, const char *line, size_t len, const char *what,
                            struct ids *ids, struct err *e) {
    if (!l->chat) TRY(chat_from_gguf(&l->chat, l->m->gguf, l->m->tok, e));
    buf_reset(&l->text);
    if (chat_render_text(l->chat, line, len, NULL, false, &l->text, e)) {
        if (!l->skip_refused) return err_wrap(e, "%s", what);
        if (!l->n_refused++) l->why = *e;
        return 0;
    }
    return tok_encode(l->m->tok, l->text.data ? l->text.data : "", l->text.len, true, false, ids,
                      e);
}

/* Adds the text, or rendered conversation, of a JSON line to the tokens of its domain. */
static int add_line(struct lines *l, const char *line, size_t len, const char *what,
                    struct err *e) {
    struct json *j = NULL;
    TRY(json_parse(&j, line, len, what, e));
    const char *domain = json_str(json_get(j, "domain")), *text = json_str(json_get(j, "text"));
    struct ids *ids = ids_of(l->to, domain && *domain ? domain : l->name);
    int rc = 0;
    if (!ids)
        rc = err_set(e, ERR_DATA, "%s: more than %d domains", what, MAX_DOMAINS);
    else if (text)
        rc = tok_encode(l->m->tok, text, strlen(text), false, ids->n == 0, ids, e);
    else
        rc = add_conversation(l, line, len, what, ids, e);
    json_free(j);
    return rc;
}

/* Adds the lines of a JSONL text; blank ones are ignored. */
static int add_lines(struct lines *l, const char *data, size_t len, struct err *e) {
    int rc = 0;
    int64_t line_no = 0;
    for (const char *p = data, *end = data + len; p < end && !rc;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t n = nl ? (size_t)(nl - p) : (size_t)(end - p);
        char what[512];
        snprintf(what, sizeof what, "%s: line %lld", l->path, (long long)++line_no);
        if (strspn(p, " \t\r") < n) rc = add_line(l, p, n, what, e);
        p += n + (nl != NULL);
    }
    return rc;
}
/* Reads a file of lines. */
static int load_lines(struct lines *l, struct err *e) {
    char *data = NULL;
    size_t len = 0;
    TRY(text_read_file(&data, &len, l->path, e));
    const int rc = add_lines(l, data, len, e);
    free(data);
    return rc;
}

/* Adds a built-in text to the domain l->name. */
static int add_builtin(struct lines *l, const struct default_text *t, struct err *e) {
    struct ids *ids = ids_of(l->to, l->name);
    if (!ids) return err_set(e, ERR_DATA, "%s: more than %d domains", l->path, MAX_DOMAINS);
    if (!t->is_chat)
        return tok_encode(l->m->tok, t->data, default_text_len(t), false, true, ids, e);
    l->skip_refused = true;
    l->n_refused = 0;
    TRY(add_lines(l, t->data, default_text_len(t), e));
    if (l->n_refused)
        log_warn("%d conversations of '%s' are skipped: the model's template refuses them (%s)",
                 l->n_refused, l->name, l->why.msg);
    return 0;
}

/* Adds the first n built-in domains (0: all), conversations only if the model has a template. */
static int add_builtins(struct lines *l, int n, struct err *e) {
    const bool chats = gguf_find(l->m->gguf, "tokenizer.chat_template") != NULL;
    const struct default_domain *d;
    for (int i = 0; (d = default_domain_at(i)) != NULL && (!n || i < n); i++) {
        if (d->text.is_chat && !chats) continue;
        l->name = d->name;
        TRY(add_builtin(l, &d->text, e));
    }
    return 0;
}

/* Returns the built-in domain that a path names; NULL: none. A file of that name wins. */
static const struct default_domain *named_domain(const char *path) {
    return io_exists(path) && !io_is_dir(path) ? NULL : default_domain(path);
}

/* Makes the token lists of all domains visible in t->domain. */
static void link_ids(struct eval_texts *t) {
    for (int i = 0; i < t->n; i++) {
        t->domain[i].ids = t->ids[i].v;
        t->domain[i].n_ids = t->ids[i].n;
    }
}

int eval_texts_add(struct eval_texts *t, const struct model *m, const char *name, const char *path,
                   struct err *e) {
    struct lines l = {.m = m, .path = path, .name = name ? name : io_base(path), .to = t};
    int rc;
    TRY(model_need_tok(m, e));
    const struct default_domain *d = named_domain(path);
    if (strcmp(path, "builtin") == 0) {
        rc = add_builtins(&l, 2, e);
    } else if (d) {
        rc = add_builtin(&l, &d->text, e);
    } else if (corpus_is_lines(path)) {
        rc = load_lines(&l, e);
    } else {
        struct ids *ids = ids_of(t, l.name);
        rc = ids ? corpus_load(m, path, false, ids, e)
                 : err_set(e, ERR_DATA, "%s: more than %d domains", path, MAX_DOMAINS);
    }
    chat_free(l.chat);
    buf_release(&l.text);
    link_ids(t);
    return rc;
}

int eval_texts_add_all(struct eval_texts *t, const struct model *m, struct err *e) {
    struct lines l = {.m = m, .path = "built-in text", .to = t};
    TRY(model_need_tok(m, e));
    const int rc = add_builtins(&l, 0, e);
    chat_free(l.chat);
    buf_release(&l.text);
    link_ids(t);
    return rc;
}

/* Adds a file of eval_texts_load; warns if it continues a domain of an earlier file. */
static int add_file(struct eval_texts *t, const struct model *m, const char *name, const char *path,
                    struct err *e) {
    const int n = t->n;
    int64_t *before = xcalloc((size_t)n + 1, sizeof *before);
    for (int i = 0; i < n; i++) before[i] = t->ids[i].n;
    const int rc = eval_texts_add(t, m, name, path, e);
    for (int i = 0; i < n && !rc; i++)
        if (t->ids[i].n > before[i])
            log_warn("%s: an earlier text also has a domain \"%s\": they are reported as one; give "
                     "one of them another name to tell them apart",
                     path, t->domain[i].name);
    free(before);
    return rc;
}

int eval_texts_load(const struct model *m, const char *const *path, int n_paths,
                    struct eval_texts *out, struct err *e) {
    int rc = 0;
    memset(out, 0, sizeof *out);
    for (int i = 0; i < n_paths; i++)
        for (int k = 0; k < i; k++)
            if (apart_same(path[i], path[k]))
                return err_set(e, ERR_USAGE,
                               "%s is given twice: its windows would count as independent ones",
                               path[i]);
    char **name = xcalloc((size_t)n_paths + 1, sizeof *name);
    io_short_names(path, n_paths, name);
    for (int i = 0; i < n_paths && !rc; i++) rc = add_file(out, m, name[i], path[i], e);
    for (int i = 0; i < n_paths; i++) free(name[i]);
    free(name);
    if (!rc && !out->n) rc = err_set(e, ERR_DATA, "%s: holds no text", path[0]);
    if (rc) eval_texts_release(out);
    return rc;
}

void eval_texts_release(struct eval_texts *t) {
    for (int i = 0; i < t->n; i++) {
        union {
            const char *c;
            char *p;
        } name = {.c = t->domain[i].name}; /* allocated by ids_of */
        free(name.p);
        ids_release(&t->ids[i]);
    }
    free(t->domain);
    free(t->ids);
    memset(t, 0, sizeof *t);
}

void eval_shuffle_chunks(struct ids *ids, int64_t ctx) {
    struct rng rng;
    rng_seed(&rng, 1);
    for (int64_t i = ids->n / ctx - 1; i > 0; i--) {
        int32_t *a = ids->v + i * ctx,
                *b = ids->v + (int64_t)(rng_u64(&rng) % (uint64_t)(i + 1)) * ctx;
        for (int64_t t = 0; t < ctx && a != b; t++) {
            const int32_t id = a[t];
            a[t] = b[t];
            b[t] = id;
        }
    }
}

void eval_spread_chunks(struct ids *ids, int64_t ctx, int64_t max_chunks) {
    int64_t n = ids->n / ctx;
    /* eval_plan needs two chunks, and then runs one. */
    if (max_chunks == 1) max_chunks = 2;
    if (!max_chunks || n <= max_chunks) return;
    for (int64_t i = 0; i < max_chunks; i++)
        memmove(ids->v + i * ctx, ids->v + i * n / max_chunks * ctx, (size_t)ctx * sizeof *ids->v);
    ids->n = max_chunks * ctx;
}
