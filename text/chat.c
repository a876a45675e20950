// SPDX-License-Identifier: MIT
/* text/chat.c - conversations -> prompt text with a model's own template.
 *
 * Arguments of tool calls that come as JSON text (the wire form) are parsed before rendering, as
 * most templates need: what the model then sees is the same for both forms. */
#include "text/chat.h"

#include <stdlib.h>
#include <string.h>

#include "core/gguf.h"
#include "core/mem.h"
#include "text/chat_vars.h"

enum { N_SPECIAL = 4 };
static const char *const special_names[N_SPECIAL] = {"bos_token", "eos_token", "unk_token",
                                                     "pad_token"};

struct chat {
    struct jinja *t;
    char *special[N_SPECIAL]; /* NULL: the tokenizer has none */
};

int chat_new(struct chat **out, const char *tmpl, const char *name, const char *bos,
             const char *eos, struct err *e) {
    struct jinja *t;
    *out = NULL;
    TRY(jinja_compile(&t, tmpl, strlen(tmpl), name, NULL, e));
    struct chat *c = xcalloc(1, sizeof *c);
    c->t = t;
    c->special[0] = bos && *bos ? xstrdup(bos) : NULL;
    c->special[1] = eos && *eos ? xstrdup(eos) : NULL;
    *out = c;
    return 0;
}

static char *special_text(const struct tok *t, enum tok_special s) {
    int64_t id = t ? tok_special(t, s) : -1;
    if (id < 0) return NULL;
    struct buf b = {0};
    tok_decode(t, (int32_t)id, true, &b);
    return buf_take(&b);
}

int chat_from_gguf(struct chat **out, const struct gguf *g, const struct tok *t, struct err *e) {
    static const enum tok_special ids[N_SPECIAL] = {TS_BOS, TS_EOS, TS_UNK, TS_PAD};
    const char *tmpl = gguf_str_or(g, "tokenizer.chat_template", NULL);
    *out = NULL;
    if (!tmpl)
        return err_set(e, ERR_DATA,
                       "%s: there is no chat template (key tokenizer.chat_template); it is a base "
                       "model, or the template got lost in conversion",
                       gguf_path(g));
    TRY(chat_new(out, tmpl, "tokenizer.chat_template", NULL, NULL, e));
    for (int i = 0; i < N_SPECIAL; i++) (*out)->special[i] = special_text(t, ids[i]);
    return 0;
}

void chat_free(struct chat *c) {
    if (!c) return;
    jinja_free(c->t);
    for (int i = 0; i < N_SPECIAL; i++) free(c->special[i]);
    free(c);
}

struct job {
    const struct chat *chat;
    const struct json *conv, *kwargs;
    const char *conv_text, *kwargs_text;
    size_t conv_len;
    bool gen;
};

/* Keys of a conversation that are not variables of the same name. */
static bool reserved(struct jval name) {
    static const char *const names[] = {"messages", "tools", "documents", "add_generation_prompt"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (jv_is(name, names[i])) return true;
    return false;
}

static struct jval job_vars(struct jctx *c, void *ctx) {
    const struct job *j = ctx;
    struct jval conv = j->conv_text ? jjson_parse(c, j->conv_text, j->conv_len, "conversation")
                                    : jjson_from(c, j->conv);
    struct jval extra = jv_dict(c, 0), special = jv_dict(c, 0), kwargs = jv_missing();
    if (conv.tag == JT_LIST) {
        struct jval d = jv_dict(c, 1);
        jdict_set(c, d.u.dict, jv_str("messages"), conv);
        conv = d;
    }
    if (chat_member(conv, "messages").tag != JT_LIST)
        jx_fail(c, "TypeError", "the conversation has no list \"messages\"");
    for (uint32_t i = 0; i < conv.u.dict->n; i++)
        if (!reserved(conv.u.dict->e[i].k))
            jdict_set(c, extra.u.dict, conv.u.dict->e[i].k, conv.u.dict->e[i].v);
    if (j->kwargs_text) kwargs = jjson_parse(c, j->kwargs_text, strlen(j->kwargs_text), "kwargs");
    if (j->kwargs) kwargs = jjson_from(c, j->kwargs);
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
    k.parse_args = true;
    return chat_case_vars(c, &k);
}

int chat_render(const struct chat *c, const struct json *conv, const struct json *kwargs,
                bool add_generation_prompt, struct buf *out, struct err *e) {
    struct job j = {.chat = c, .conv = conv, .kwargs = kwargs, .gen = add_generation_prompt};
    return jinja_render_fn(c->t, job_vars, &j, -1, NULL, out, NULL, e);
}

int chat_render_text(const struct chat *c, const char *conv, size_t len, const char *kwargs,
                     bool add_generation_prompt, struct buf *out, struct err *e) {
    struct job j = {.chat = c,
                    .conv_text = conv,
                    .conv_len = len,
                    .kwargs_text = kwargs,
                    .gen = add_generation_prompt};
    return jinja_render_fn(c->t, job_vars, &j, -1, NULL, out, NULL, e);
}
