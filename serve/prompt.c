// SPDX-License-Identifier: MIT
/* serve/prompt.c - prompt of a conversation: renders the template, repairs messages that it
 * rejects, and finds the positions at which a prompt's state is worth keeping. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "serve/conv_repair.h"
#include "serve/generic.h"
#include "serve/images.h"
#include "serve/server.h"
#include "chat/think.h"
#include "template/chat_span.h"

/* Returns the members of the template's variables, freed by the caller. */
static char *template_kwargs(const struct served *d, const struct ask *a) {
    struct buf b = {0}, all = {0};
    struct err ignored;
    const char *member = a->think == ASK_THINK_AUTO
                             ? NULL
                             : think_member(d->chat, d->tmpl, a->think == ASK_THINK_ON);
    buf_fmt(&b, "{%s}", a->kwargs.data ? a->kwargs.data : "");
    if (!member || think_merge(member, b.data, &all, &ignored)) return buf_take(&b);
    buf_release(&b);
    return buf_take(&all);
}

/* Renders and encodes a conversation; gen: with the answer's beginning. */
static int tokens_of(struct served *d, const struct ask *a, const char *conv, const char *kwargs,
                     bool gen, struct chat_prompt *p, struct err *e) {
    if (a->n_images)
        TRY(images_tokens(d, a, conv, kwargs, gen, p, e));
    else
        TRY(chat_tokens(d->chat, d->core.m->tok, conv, strlen(conv), kwargs, gen,
                        d->server->o.special, NULL, p, e));
    p->refused = !p->ids.n; /* without tokens there is nothing to continue */
    return p->refused ? err_set(e, ERR_DATA, "the template renders these messages as an empty text")
                      : 0;
}

/* Replaces the conversation and takes ownership of `conv`. */
static void take_conv(struct ask *a, char *conv) {
    free(a->conv);
    a->conv = conv;
    a->n_marks = 0; /* they are indices of messages, which have changed */
}

/* Applies a repair step that keeps the number of messages. */
static void mend_conv(struct ask *a, enum conv_repair_step step) {
    const char *what;
    char *conv = conv_repair_conv(a->conv, step, &what);
    if (!conv) return;
    free(a->conv);
    a->conv = conv;
}

/* Adapts the conversation to the limits of the template: generic tool calling, null content, ids of
 * calls. */
static void adapt_conv(const struct served *d, struct ask *a) {
    static const char null[] = "\"content\":null";
    char *conv = d->generic ? generic_conv(a->conv, d->hides_calls) : NULL;
    if (conv) {
        take_conv(a, conv);
        buf_fmt(&a->warned, "%stools, described in the system message", a->warned.len ? ", " : "");
    }
    if (!d->keeps_null && strstr(a->conv, null)) mend_conv(a, MEND_NULL);
    if (toolfmt_numbers(d->fmt) && strstr(a->conv, "\"tool_calls\"")) mend_conv(a, MEND_NUMBERS);
}

/* Returns whether the prompt lacks some system text. If a text is not found in it, renders a marker
 * word in its place to see whether the template changes the text or drops it. */
static bool is_silent(struct served *d, const char *conv, const char *kwargs, bool gen,
                      const struct chat_prompt *p) {
    struct buf words = {0}, text = {0};
    struct err ignored;
    bool silent = false;
    if (conv_repair_shown(conv, p->spans)) return false;
    char *probe = conv_repair_probe(conv, &words);
    if (probe && chat_render_text(d->chat, probe, strlen(probe), kwargs, gen, &text, &ignored) == 0)
        for (char *w = words.data, *end; *w && !silent; w = end + 1) {
            end = strchr(w, '\n');
            *end = 0;
            silent = !text.len || !strstr(text.data, w);
        }
    free(probe);
    buf_release(&words);
    buf_release(&text);
    return silent;
}

/* Applies the n repair steps in `step` one by one, until the template accepts the conversation and
 * renders its system text. Records the changes in a->warned. Returns 0, or nonzero if the template
 * still fails. */
static int render_mended(struct served *d, struct ask *a, const char *kwargs, bool gen,
                         const enum conv_repair_step *step, int n, struct chat_prompt *p) {
    struct buf done = {0};
    struct err ignored;
    char *conv = NULL;
    int rc = -1;
    for (int i = 0; i < n && rc; i++) {
        const char *what;
        char *next = conv_repair_conv(conv ? conv : a->conv, step[i], &what);
        if (!next) continue;
        free(conv);
        conv = next;
        buf_fmt(&done, "%s%s", done.len ? ", " : "", what);
        rc = tokens_of(d, a, conv, kwargs, gen, p, &ignored);
        if (!rc && is_silent(d, conv, kwargs, gen, p)) rc = -1;
    }
    if (!rc) {
        take_conv(a, conv);
        buf_fmt(&a->warned, "%s%s", a->warned.len ? ", " : "", done.data);
        conv = NULL;
    }
    free(conv);
    buf_release(&done);
    return rc;
}

/* Tries other values of reasoning_effort, the nearest first, until the template accepts one.
 * Templates know different values, and many clients always send the same one. Returns 0, or nonzero
 * if the template accepts none. */
static int render_effort(struct served *d, struct ask *a, bool gen, struct chat_prompt *p) {
    static const char *const words[] = {"\"minimal\"", "\"low\"",   "\"medium\"",
                                        "\"high\"",    "\"xhigh\"", "\"max\""};
    static const char name[] = "\"reasoning_effort\": ";
    const char *said = a->kwargs.data ? strstr(a->kwargs.data, name) : NULL;
    const size_t before = a->kwargs.len;
    const int n = (int)COUNT_OF(words);
    struct err ignored;
    int at = 0, rc = -1;
    while (said && at < n && strncmp(said + sizeof name - 1, words[at], strlen(words[at])) != 0)
        at++;
    for (int k = 2; said && at < n && k < 2 * n && rc; k++) {
        const int i = k % 2 ? at - k / 2 : at + k / 2; /* above, below, two above ... */
        if (i < 0 || i >= n) continue;
        ask_kwarg(a, "reasoning_effort", words[i]);
        char *kwargs = template_kwargs(d, a);
        rc = tokens_of(d, a, a->conv, kwargs, gen, p, &ignored);
        free(kwargs);
        if (rc) a->kwargs.data[a->kwargs.len = before] = 0;
    }
    if (!rc) buf_fmt(&a->warned, "%sreasoning effort", a->warned.len ? ", " : "");
    return rc;
}

/* Renders the prompt; if the template fails, repairs the conversation in steps. */
static int render_prompt(struct served *d, struct ask *a, bool gen, struct chat_prompt *p,
                         struct fault *f) {
    struct err e;
    if (!d->chat)
        return fault_set(f, 400, NULL, "messages",
                         "this model has no chat template; use /v1/completions");
    static const enum conv_repair_step all[] = {MEND_NULL,   MEND_IDS,        MEND_ARGUMENTS,
                                                MEND_SYSTEM, MEND_NEIGHBOURS, MEND_RESULTS,
                                                MEND_FIRST,  MEND_THOUGHT,    MEND_NO_SYSTEM},
                                       thought[] = {MEND_THOUGHT},
                                       system[] = {MEND_SYSTEM, MEND_NO_SYSTEM, MEND_NEIGHBOURS};
    a->end_text = a->ignore_eos ? NULL : tok_end_text(d->core.m->tok);
    adapt_conv(d, a);
    char *kwargs = template_kwargs(d, a);
    int rc = tokens_of(d, a, a->conv, kwargs, gen, p, &e);
    const bool refused = rc && p->refused;
    if (refused) rc = render_effort(d, a, gen, p);
    if (rc && refused) rc = render_mended(d, a, kwargs, gen, thought, 1, p);
    if (rc && refused) rc = render_mended(d, a, kwargs, gen, all, (int)COUNT_OF(all), p);
    if (!rc && is_silent(d, a->conv, kwargs, gen, p) &&
        render_mended(d, a, kwargs, gen, system, (int)COUNT_OF(system), p))
        rc = tokens_of(d, a, a->conv, kwargs, gen, p, &e);
    free(kwargs);
    if (rc && e.code == ERR_INTR)
        return fault_set(f, 503, NULL, NULL, "the server is stopping, or the client disconnected");
    return rc ? fault_set(f, 400, NULL, "messages", "%s", e.msg) : 0;
}

static bool is_white(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Returns the end of the text of message i in the prompt, without trailing whitespace; 0: the
 * template does not render it. */
static size_t text_end(const struct chat_prompt *p, int i) {
    char path[48];
    const size_t n = (size_t)snprintf(path, sizeof path, "messages[%d].content", i);
    for (int k = p->spans->n - 1; k >= 0; k--) {
        const struct jinja_span *s = &p->spans->v[k];
        size_t end = s->end;
        if (strncmp(p->spans->origin[s->origin].path, path, n) != 0) continue;
        while (end > s->start && is_white(p->text.data[end - 1])) end--;
        if (end > s->start) return end;
    }
    return 0;
}

/* Renders a prompt that ends inside the last message, without the text that the template writes
 * after that. Sets a->cut. */
static int render_open(struct served *d, struct ask *a, struct chat_prompt *p, struct fault *f) {
    struct err e;
    struct json *j = NULL;
    TRY(render_prompt(d, a, false, p, f));
    if (json_parse_mend(&j, a->conv, strlen(a->conv), "messages", &e)) return 0;
    const struct json *last = json_first(json_get(j, "messages"));
    while (json_next(last)) last = json_next(last);
    const char *text = msg_text(last);
    size_t n = strlen(text);
    while (n && is_white(text[n - 1])) n--;
    free(a->cut);
    a->cut = xstrdup(text + n);
    const size_t end = text_end(p, (int)json_len(json_get(j, "messages")) - 1);
    json_free(j);
    if (!end)
        return fault_set(
            f, 400, NULL, "messages",
            "the template does not render the last message's text, so it cannot be continued");
    if (chat_tokens_cut(p, d->core.m->tok, end, d->server->o.special, &e))
        return fault_set(f, 400, NULL, "messages", "%s", e.msg);
    return 0;
}

int prepare_prompt(struct served *d, struct ask *a, struct chat_prompt *p, struct fault *f) {
    TRY(images_compute(d, a, f));
    if (a->n_images && a->go_on)
        return fault_set(f, 400, NULL, "messages",
                         "an answer cannot be continued if the conversation has images");
    return a->go_on ? render_open(d, a, p, f) : render_prompt(d, a, true, p, f);
}

/* Returns the number of tokens at the start of p that another prompt shares; 0 if it shares all of
 * p. */
static int64_t same_tokens(const struct chat_prompt *other, const struct chat_prompt *p) {
    int64_t n = 0;
    while (n < other->ids.n && n < p->ids.n && other->ids.v[n] == p->ids.v[n]) n++;
    return n < p->ids.n ? n : 0;
}

int64_t prompt_turn_end(struct served *d, struct ask *a, const struct chat_prompt *p) {
    struct chat_prompt closed = {0};
    struct fault ignored;
    const int64_t n = render_prompt(d, a, false, &closed, &ignored) ? 0 : same_tokens(&closed, p);
    chat_prompt_release(&closed);
    return n;
}

int64_t prompt_mark_end(struct served *d, const struct ask *a, int message,
                        const struct chat_prompt *p) {
    struct chat_prompt part = {0};
    struct json *j = NULL;
    struct buf conv = {0};
    struct jw w;
    struct err ignored;
    int i = 0;
    if (json_parse_mend(&j, a->conv, strlen(a->conv), "conversation", &ignored)) return 0;
    jw_init(&w, &conv, false);
    jw_obj(&w, NULL);
    jw_arr(&w, "messages");
    for (const struct json *m = json_first(json_get(j, "messages")); m && i <= message;
         m = json_next(m), i++)
        ask_put(&w, NULL, m);
    jw_end(&w);
    ask_copy(&w, "tools", j, "tools");
    jw_end(&w);
    char *kwargs = template_kwargs(d, a);
    const int rc = tokens_of(d, a, conv.data, kwargs, false, &part, &ignored);
    const int64_t n = rc ? 0 : same_tokens(&part, p);
    chat_prompt_release(&part);
    free(kwargs);
    buf_release(&conv);
    json_free(j);
    return n;
}
