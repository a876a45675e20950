// SPDX-License-Identifier: MIT
/* lib/template.c - template handles: rendering, and parsing of answers. */
#include <stdlib.h>
#include <string.h>

#include "base/progress.h"
#include "chat/think.h"
#include "chat/toolfmt.h"
#include "lib/handles.h"

/* Sets up *t, which takes ownership of chat and copies len bytes of text. */
static void fill_template(struct hone_template *t, struct owner *owner, struct chat *chat,
                          const char *text, size_t len) {
    *t =
        (struct hone_template){.owner = owner_share(owner), .chat = chat, .text = xmalloc(len + 1)};
    memcpy(t->text, text, len);
    t->text[len] = 0;
    t->len = len;
}

int template_of(struct hone_template **out, struct owner *owner, const struct gguf *g,
                const struct tok *t, struct err *e) {
    struct chat *chat;
    *out = NULL;
    TRY(chat_from_gguf(&chat, g, t, e));
    const char *text = gguf_str_or(g, "tokenizer.chat_template", "");
    *out = xcalloc(1, sizeof **out);
    fill_template(*out, owner, chat, text, strlen(text));
    return 0;
}

int hone_template_new(struct hone_template **out, const char *text, size_t len, const char *bos,
                      const char *eos, const struct hone_opts *o, struct hone_error *e) {
    struct call c;
    struct chat *chat = NULL;
    *out = NULL;
    if (memchr(text, 0, len)) return lib_error(e, HONE_USAGE, "the template contains a zero byte");
    struct owner *owner;
    int rc = owner_new(&owner, o, NULL, e);
    if (!rc) rc = call_begin(&c, owner, e);
    if (!rc) {
        char *copy = xstrndup(text, len);
        rc = chat_new(&chat, copy, "template", bos ? bos : "", eos ? eos : "", &c.err);
        free(copy);
        if (!rc) {
            *out = xcalloc(1, sizeof **out);
            fill_template(*out, owner, chat, text, len);
        }
        rc = call_end(&c, rc, e);
    }
    owner_drop(owner);
    return rc;
}

/* Reads the file's chat template; *out is NULL on error. */
int hone_template_from_gguf(struct hone_template **out, const struct hone_gguf *g,
                            struct hone_error *e) {
    struct call c;
    struct tok *t = NULL;
    struct err ignored;
    *out = NULL;
    int rc = call_begin(&c, g->owner, e);
    if (rc) return rc;
    (void)tok_from_gguf(&t, g->g, &ignored); /* without a tokenizer, bos and eos are "" */
    rc = template_of(out, g->owner, g->g, t, &c.err);
    if (t) tok_free(t);
    return call_end(&c, rc, e);
}

void hone_template_free(struct hone_template *t) {
    if (!t) return;
    chat_free(t->chat);
    free(t->text);
    owner_drop(t->owner);
    free(t);
}

const char *hone_template_text(const struct hone_template *t) {
    return t->text;
}

int hone_template_render(const struct hone_template *t, const char *conversation,
                         const char *variables, int invite, char **text, size_t *len,
                         struct hone_error *e) {
    NEED(conversation, e);
    struct call c;
    struct buf b = {0};
    *text = NULL;
    int rc = call_begin(&c, t->owner, e);
    if (rc) return rc;
    rc = chat_render_text(t->chat, conversation, strlen(conversation), variables, invite != 0, &b,
                          &c.err);
    const size_t n = b.len;
    char *s = buf_take(&b);
    if ((rc = call_end(&c, rc, e))) {
        free(s);
        return rc;
    }
    if (len) *len = n;
    *text = s;
    return HONE_OK;
}

int hone_template_tokens(const struct hone_template *t, const struct hone_tokenizer *tok,
                         const char *conversation, const char *variables, int invite, int32_t **ids,
                         int64_t *n, struct hone_error *e) {
    NEED(conversation, e);
    struct call c;
    struct chat_prompt p = {0};
    *ids = NULL;
    *n = 0;
    int rc = call_begin(&c, t->owner, e);
    if (rc) return rc;
    rc = chat_tokens(t->chat, tok->t, conversation, strlen(conversation), variables, invite != 0,
                     CHAT_PLAIN, NULL, &p, &c.err);
    if (!rc) {
        *n = p.ids.n;
        *ids = xcalloc((size_t)p.ids.n + 1, sizeof **ids);
        if (p.ids.n) memcpy(*ids, p.ids.v, (size_t)p.ids.n * sizeof **ids);
    }
    chat_prompt_release(&p);
    return call_end(&c, rc, e);
}

/* Finds how the template's prompts end. *opened: the marker of calls at their end; NULL: none.
 * Returns OPEN if they open reasoning that no variable turns off, else UNKNOWN. */
static enum tool_think prompts_end(const struct hone_template *t, const struct toolfmt *f,
                                   const char **opened) {
    struct buf prompt = {0};
    bool open = false;
    *opened = NULL;
    if (think_sample(t->chat, &prompt)) {
        *opened = toolfmt_opened(f, prompt.data);
        open = toolfmt_think_of(f, prompt.data) == TOOL_THINK_OPEN &&
               !think_member(t->chat, t->text, false);
    }
    buf_release(&prompt);
    return open ? TOOL_THINK_OPEN : TOOL_THINK_UNKNOWN;
}

int hone_template_read_answer(const struct hone_template *t, const char *tools, const char *answer,
                              size_t len, char **json, struct hone_error *e) {
    struct call c;
    struct toolparse *p = NULL;
    struct buf b = {0};
    *json = NULL;
    int rc = call_begin(&c, t->owner, e);
    if (rc) return rc;
    const struct toolfmt *f = toolfmt_detect(t->text, t->len);
    const char *opened;
    if (!f) f = toolfmt_plain();
    const enum tool_think think = prompts_end(t, f, &opened);
    if (progress_interrupted()) /* a syntax found without all renderings may be wrong */
        return call_end(&c, err_set(&c.err, ERR_INTR, "interrupted"), e);
    rc = toolparse_new(&p, f, tools, tools ? strlen(tools) : 0, think, &c.err);
    if (!rc) {
        if (opened) toolparse_opened(p, opened);
        toolparse_allow_loose(p);
        toolparse_feed(p, answer, len);
        json_write_spaced(&b, toolparse_finish(p));
    }
    toolparse_free(p);
    char *s = buf_take(&b);
    if ((rc = call_end(&c, rc, e)))
        free(s);
    else
        *json = s;
    return rc;
}
