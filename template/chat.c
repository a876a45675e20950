// SPDX-License-Identifier: MIT
/* template/chat.c - prompts: conversations rendered with the model's chat template.
 *
 * Tool call arguments that come as JSON text (as on the wire) are parsed before rendering, since
 * most templates need objects. Both forms therefore give the same prompt. */
#include "template/chat.h"

#include <stdlib.h>
#include <string.h>

#include "containers/gguf.h"
#include "base/mem.h"
#include "template/chat_media.h"
#include "template/chat_span.h"

enum { N_SPECIAL = 4 };
static const char *const special_names[N_SPECIAL] = {"bos_token", "eos_token", "unk_token",
                                                     "pad_token"};

struct chat {
    struct jinja *t;
    struct jinja *lenient; /* t in lenient mode (append, pop); NULL: t itself is lenient */
    /* Texts of special tokens, owned; NULL: the tokenizer has no such token. */
    char *special[N_SPECIAL];
};

int chat_new(struct chat **out, const char *tmpl, const char *name, const char *bos,
             const char *eos, struct err *e) {
    struct jinja *t = NULL, *lenient = NULL;
    struct err ignored;
    *out = NULL;
    if (jinja_compile_mode(&lenient, tmpl, strlen(tmpl), name, JINJA_LENIENT, NULL, &ignored))
        lenient = NULL;
    if (jinja_compile(&t, tmpl, strlen(tmpl), name, NULL, e)) {
        if (!lenient) return (int)e->code;
        *e = (struct err){0};
        t = lenient;
        lenient = NULL;
    }
    struct chat *c = xcalloc(1, sizeof *c);
    c->t = t;
    c->lenient = lenient;
    c->special[0] = bos && *bos ? xstrdup(bos) : NULL;
    c->special[1] = eos && *eos ? xstrdup(eos) : NULL;
    *out = c;
    return 0;
}

/* Returns the text of a special token, freed by the caller; NULL: t is NULL or has no such
 * token. */
static char *special_text(const struct tok *t, enum tok_special s) {
    int64_t id = t ? tok_special(t, s) : -1;
    if (id < 0) return NULL;
    struct buf b = {0};
    tok_decode(t, (int32_t)id, true, &b);
    return buf_take(&b);
}

int chat_with(struct chat **out, const char *tmpl, const char *name, const struct tok *t,
              struct err *e) {
    static const enum tok_special ids[N_SPECIAL] = {TS_BOS, TS_EOS, TS_UNK, TS_PAD};
    TRY(chat_new(out, tmpl, name, NULL, NULL, e));
    for (int i = 0; i < N_SPECIAL; i++) (*out)->special[i] = special_text(t, ids[i]);
    return 0;
}

int chat_from_gguf(struct chat **out, const struct gguf *g, const struct tok *t, struct err *e) {
    const char *tmpl;
    *out = NULL;
    TRY(gguf_chat_template(g, &tmpl, e));
    if (!tmpl)
        return err_set(
            e, ERR_DATA,
            "%s: no chat template (key tokenizer.chat_template); this is a base model, or "
            "the template was lost in conversion",
            gguf_path(g));
    const int rc = chat_with(out, tmpl, "tokenizer.chat_template", t, e);
    return rc ? err_wrap(e, "%s", gguf_path(g)) : 0;
}

void chat_free(struct chat *c) {
    if (!c) return;
    jinja_free(c->t);
    jinja_free(c->lenient);
    for (int i = 0; i < N_SPECIAL; i++) free(c->special[i]);
    free(c);
}

struct job {
    const struct chat *chat;
    const char *conv_text, *kwargs_text;
    size_t conv_len;
    bool gen, text_args;
};

/* Returns whether a key of a conversation is handled separately instead of becoming a variable. */
static bool reserved(struct jval name) {
    static const char *const names[] = {"messages", "tools", "documents", "add_generation_prompt"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (jv_is(name, names[i])) return true;
    return false;
}

/* Parses the JSON texts of a job and returns the template's variables. */
static struct jval job_vars(struct jctx *c, void *ctx) {
    const struct job *j = ctx;
    struct jval conv = jjson_parse(c, j->conv_text, j->conv_len, "conversation");
    struct jval extra = jv_dict(c, 0), special = jv_dict(c, 0), kwargs = jv_missing();
    if (conv.tag == JT_LIST) {
        struct jval d = jv_dict(c, 1);
        jdict_set(c, d.u.dict, jv_str("messages"), conv);
        conv = d;
    }
    if (chat_member(conv, "messages").tag != JT_LIST)
        jx_fail(c, "TypeError", "the conversation has no \"messages\" list");
    for (uint32_t i = 0; i < conv.u.dict->n; i++)
        if (!reserved(conv.u.dict->e[i].k))
            jdict_set(c, extra.u.dict, conv.u.dict->e[i].k, conv.u.dict->e[i].v);
    if (j->kwargs_text) kwargs = jjson_parse(c, j->kwargs_text, strlen(j->kwargs_text), "kwargs");
    if (kwargs.tag == JT_DICT)
        for (uint32_t i = 0; i < kwargs.u.dict->n; i++)
            jdict_set(c, extra.u.dict, kwargs.u.dict->e[i].k, kwargs.u.dict->e[i].v);
    for (int i = 0; i < N_SPECIAL; i++)
        if (j->chat->special[i])
            jdict_set(c, special.u.dict, jv_str(special_names[i]), jv_str(j->chat->special[i]));
    struct chat_case k = chat_case_of(conv, special);
    k.kwargs = extra;
    k.drop = jv_missing();
    k.gen = j->gen;
    k.parse_args = !j->text_args;
    k.text_args = j->text_args;
    return chat_case_vars(c, &k);
}

/* Returns whether a failed rendering is worth another attempt, and prepares it: in lenient mode if
 * the template modifies lists, otherwise with call arguments as text, which DeepSeek V3 and R1
 * concatenate with strings. */
static bool try_again(struct job *j, const struct jinja **t, const struct jinja_err *je) {
    if (je->kind != JF_RUNTIME) return false;
    if (strcmp(je->type, "security") == 0 && *t == j->chat->t && j->chat->lenient) {
        *t = j->chat->lenient;
        return true;
    }
    if (j->text_args) return false;
    return j->text_args = true;
}

/* Returns the variables with every string labeled by its path, for spans. */
static struct jval named_vars(struct jctx *c, void *ctx) {
    return chat_name_vars(c, job_vars(c, ctx));
}

/* Tries one way to render a conversation after another until one succeeds; spans may be NULL. If
 * all fail, *e and *je report the first failure, or the first one in lenient mode if that was
 * tried. */
static int render(struct job *j, struct buf *out, struct jinja_spans *spans, struct jinja_err *je,
                  struct err *e) {
    const struct jinja *t = j->chat->t;
    struct jinja_err last = {0};
    struct err ignored;
    for (int i = 0;; i++) {
        const bool first = t == j->chat->t;
        struct jinja_err *why = i ? &last : je;
        struct err *say = i ? &ignored : e;
        const int rc = spans ? jinja_render_spans(t, named_vars, j, -1, NULL, out, spans, why, say)
                             : jinja_render_fn(t, job_vars, j, -1, NULL, out, why, say);
        if (rc && try_again(j, &t, why)) {
            if (first && t != j->chat->t) i = -1; /* report the failure in lenient mode */
            continue;
        }
        if (rc) return (int)e->code;
        *e = (struct err){0};
        return 0;
    }
}

int chat_render_text(const struct chat *c, const char *conv, size_t len, const char *kwargs,
                     bool add_generation_prompt, struct buf *out, struct err *e) {
    struct job j = {.chat = c,
                    .conv_text = conv,
                    .conv_len = len,
                    .kwargs_text = kwargs,
                    .gen = add_generation_prompt};
    struct jinja_err je = {0};
    return render(&j, out, NULL, &je, e);
}

/* ---- to tokens ---- */

void chat_prompt_release(struct chat_prompt *p) {
    buf_release(&p->text);
    ids_release(&p->ids);
    if (p->spans) jinja_spans_free(p->spans);
    free(p->spans);
    memset(p, 0, sizeof *p);
}

/* Fills `out` with the byte ranges that come from inputs, merging adjacent spans, and returns their
 * number. Excludes roles, because they are part of the marker around them, as in <|user|>. */
static int ranges_of(const struct jinja_spans *s, struct tok_range *out) {
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        if (strcmp(s->origin[s->v[i].origin].kind, "role") == 0) continue;
        if (n && out[n - 1].end >= s->v[i].start)
            out[n - 1].end = s->v[i].end;
        else
            out[n++] = (struct tok_range){s->v[i].start, s->v[i].end};
    }
    return n;
}

/* Returns the offset of the first byte that came from a message other than a system message. */
static size_t head_end(const struct jinja_spans *s) {
    for (int i = 0; i < s->n; i++) {
        const struct jinja_origin *o = &s->origin[s->v[i].origin];
        if (strncmp(o->path, "messages[", 9) == 0 && strcmp(o->kind, "role") != 0 &&
            strcmp(o->kind, "system") != 0 && strcmp(o->kind, "developer") != 0)
            return s->v[i].start;
    }
    return 0;
}

/* Returns the number of tokens before byte `at` that no later text can change, i.e. up to and
 * including the last control token. */
static int64_t tokens_before(const struct tok *t, const struct chat_prompt *p,
                             const struct tok_range *plain, int n_plain, size_t at) {
    struct ids ids = {0};
    struct err ignored;
    int n = 0;
    while (n < n_plain && plain[n].start < at) n++;
    if (!at || tok_encode_around(t, p->text.data, at, plain, n, false, &ids, &ignored)) ids.n = 0;
    while (ids.n && tok_type(t, ids.v[ids.n - 1]) != TT_CONTROL) ids.n--;
    int64_t same = 0;
    while (same < ids.n && same < p->ids.n && ids.v[same] == p->ids.v[same]) same++;
    ids_release(&ids);
    return same;
}

/* Replaces the placeholders of images in the rendered text. */
static int put_media(const struct chat_media *m, struct jinja_spans *s, struct chat_prompt *out,
                     struct err *e) {
    struct tok_range *input = xcalloc((size_t)s->n + 1, sizeof *input);
    const int n_input = ranges_of(s, input);
    out->n_media = chat_media_put(m, input, n_input, &out->text, s);
    free(input);
    if (out->n_media == m->n) return 0;
    return err_set(e, ERR_USAGE,
                   "the conversation has %d image%s, but the model's chat template writes %d "
                   "placeholder%s (%s)",
                   m->n, m->n == 1 ? "" : "s", out->n_media, out->n_media == 1 ? "" : "s",
                   m->placeholder);
}

/* Returns how many of the ids are control tokens. */
static int count_control(const struct tok *t, const struct ids *ids) {
    int n = 0;
    for (int64_t i = 0; i < ids->n; i++) n += tok_type(t, ids->v[i]) == TT_CONTROL;
    return n;
}

int chat_tokens(const struct chat *c, const struct tok *t, const char *conv, size_t len,
                const char *kwargs, bool add_generation_prompt, enum chat_special special,
                const struct chat_media *media, struct chat_prompt *out, struct err *e) {
    struct job j = {.chat = c,
                    .conv_text = conv,
                    .conv_len = len,
                    .kwargs_text = kwargs,
                    .gen = add_generation_prompt};
    struct jinja_spans spans = {0};
    struct jinja_err je = {0};
    struct ids all = {0};
    chat_prompt_release(out);
    if (render(&j, &out->text, &spans, &je, e)) {
        out->refused = je.kind == JF_RAISED || je.kind == JF_RUNTIME;
        return (int)e->code;
    }
    buf_str(&out->text, "");
    int rc = media ? put_media(media, &spans, out, e) : 0;
    struct tok_range *plain = xcalloc((size_t)spans.n + 1, sizeof *plain);
    const int n = special == CHAT_PARSE ? 0 : ranges_of(&spans, plain);
    if (!rc)
        rc = tok_encode_around(t, out->text.data, out->text.len, plain, n, false, &out->ids, e);
    if (!rc && n) rc = tok_encode(t, out->text.data, out->text.len, true, false, &all, e);
    if (!rc && n) out->n_forged = count_control(t, &all) - count_control(t, &out->ids);
    if (!rc) out->n_head = tokens_before(t, out, plain, n, head_end(&spans));
    ids_release(&all);
    free(plain);
    out->spans = xcalloc(1, sizeof *out->spans);
    *out->spans = spans;
    return rc;
}

int chat_tokens_cut(struct chat_prompt *p, const struct tok *t, size_t len,
                    enum chat_special special, struct err *e) {
    struct tok_range *plain = xcalloc((size_t)p->spans->n + 1, sizeof *plain);
    int n = special == CHAT_PARSE ? 0 : ranges_of(p->spans, plain);
    while (n && plain[n - 1].start >= len) n--;
    if (n && plain[n - 1].end > len) plain[n - 1].end = len;
    p->text.len = len;
    p->text.data[len] = 0;
    p->ids.n = 0;
    const int rc = tok_encode_around(t, p->text.data, len, plain, n, false, &p->ids, e);
    free(plain);
    return rc;
}
