// SPDX-License-Identifier: MIT
/* serve/stream_parser.c - incremental parser of an answer's text.
 *
 * The parser of chat/toolfmt.h returns reasoning and content as far as they are certain. This one
 * counts the bytes already emitted, so that each event carries only new ones. It looks for stop
 * texts only in content, because a user's stop text must not end the reasoning or a call. */
#include "serve/stream_parser.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "text/complete.h"

struct parser {
    const struct ask *a;
    struct toolparse *parse; /* NULL: everything is content */
    struct buf part;         /* start of an incomplete character */
    struct buf all;          /* whole text, if there is no parser */
    struct buf piece, tail;
    const struct toolfmt *fmt; /* NULL: no reasoning */
    bool thinks;
    bool opened;  /* the next reasoning has its opening tag in the prompt */
    bool in_tags; /* reasoning that is sent as content has begun, but its closing tag is not sent */
    bool whole_calls;
    bool continues;                /* the answer continues a text */
    bool shown;                    /* content has been emitted */
    size_t n_reasoning, n_content; /* bytes emitted */
    size_t n_looked;               /* content bytes in which no stop text begins */
    const char *stop;
    int n_calls;           /* calls emitted completely */
    bool call_open;        /* the next call has begun */
    struct buf sent, shut; /* its arguments: bytes emitted; bytes that would complete them */
    int choice;
    parser_sink sink;
    void *ud;
};

int parser_new(struct parser **out, const struct ask *a, const struct toolfmt *fmt,
               enum tool_think think, int choice, parser_sink sink, void *ud, struct err *e) {
    struct parser *s = xcalloc(1, sizeof *s);
    *s = (struct parser){.a = a, .choice = choice, .sink = sink, .ud = ud, .fmt = fmt};
    s->thinks = s->opened = fmt && think == TOOL_THINK_OPEN;
    const char *tools = a->no_calls ? NULL : a->tools;
    s->continues = a->go_on && think == TOOL_THINK_UNKNOWN;
    /* A stream cannot be held back for a closing tag that may never come. */
    if (think == TOOL_THINK_UNKNOWN) think = TOOL_THINK_NONE;
    if (fmt && (tools || !a->tags)) {
        const int rc = toolparse_new(&s->parse, fmt, tools, tools ? strlen(tools) : 0, think, e);
        if (rc) {
            free(s);
            return rc;
        }
    }
    if (s->parse && !tools) toolparse_no_calls(s->parse);
    if (s->parse && s->continues) toolparse_continues(s->parse);
    if (s->parse && (a->form == FORM_REGEX || a->form == FORM_CHOICE || a->form == FORM_GRAMMAR))
        toolparse_exact(s->parse);
    if (s->parse && !a->strict_calls && !a->allowed && a->form == FORM_FREE)
        toolparse_allow_loose(s->parse);
    buf_str(&s->all, "");
    *out = s;
    return 0;
}

void parser_free(struct parser *s) {
    if (!s) return;
    toolparse_free(s->parse);
    buf_release(&s->part);
    buf_release(&s->all);
    buf_release(&s->piece);
    buf_release(&s->tail);
    buf_release(&s->sent);
    buf_release(&s->shut);
    free(s);
}

void parser_opened(struct parser *s, const char *marker) {
    if (s->parse && marker) toolparse_opened(s->parse, marker);
}

void parser_ends(struct parser *s, toolparse_is_end *is_end, void *ud) {
    if (s->parse) toolparse_ends(s->parse, is_end, ud);
}

void parser_whole_calls(struct parser *s) {
    s->whole_calls = true;
}

/* Passes an event to the sink; call: index of a call, or -1. */
static void send_event(struct parser *s, enum event_kind kind, int call, const char *text,
                       size_t n) {
    const struct event ev = {kind, s->choice, call, text, n};
    s->sink(s->ud, &ev);
}

/* Begins or ends reasoning that is sent as content: sends its tag, unless that is in the prompt. */
static void turn_tags(struct parser *s, bool begin) {
    const char *tag = toolfmt_think_tag(s->fmt, !begin);
    if (!(begin && s->opened)) send_event(s, EV_CONTENT, 0, tag, strlen(tag));
    s->in_tags = begin;
    s->opened = false;
}

/* Emits an event; reasoning becomes content between its tags if the request wants tags. */
static void emit_event(struct parser *s, enum event_kind kind, int call, const char *text,
                       size_t n) {
    const bool thought = kind == EV_REASONING && s->a->tags;
    if (thought != s->in_tags) turn_tags(s, thought);
    send_event(s, thought ? EV_CONTENT : kind, call, text, n);
}

/* Returns the number of stop texts; end_text counts as the last one. */
static int n_stops(const struct ask *a) {
    return a->n_stop + (a->end_text ? 1 : 0);
}
/* Returns stop text i; after the last, the text that ends a turn. */
static const char *stop_at(const struct ask *a, int i) {
    return i < a->n_stop ? a->stop[i] : a->end_text;
}

/* Counts white space at the start of the content as emitted if the client's own text ends with
 * it. */
static void skip_cut(struct parser *s, const char *text, size_t n) {
    const char *cut = s->a->cut ? s->a->cut : "";
    size_t i = s->n_content;
    while (i < n && i < strlen(cut) && text[i] == cut[i]) i++;
    s->n_content = i;
}

/* Emits content up to where a stop text may begin. A complete stop text ends the content for good.
 * last: no more content follows. */
static void show_content(struct parser *s, const char *text, size_t n, bool last) {
    size_t hit = n, hold = 0;
    if (s->stop) return;
    if (s->continues && !s->shown) skip_cut(s, text, n);
    for (int i = 0; i < n_stops(s->a) && !s->stop; i++) {
        const char *stop = stop_at(s->a, i);
        const size_t len = strlen(stop), from = s->n_looked > len ? s->n_looked - len : 0;
        const char *at = n >= from + len ? memmem(text + from, n - from, stop, len) : NULL;
        if (at && (size_t)(at - text) < hit) {
            hit = (size_t)(at - text);
            s->stop = stop;
        }
        for (size_t k = len - 1; k > hold; k--)
            if (k <= n && memcmp(text + n - k, stop, k) == 0) hold = k;
    }
    /* The stop text that begins first wins; if several begin there, the first in the list. */
    for (int i = 0; i < n_stops(s->a) && hit < n; i++) {
        const char *stop = stop_at(s->a, i);
        if (n - hit < strlen(stop) || memcmp(text + hit, stop, strlen(stop)) != 0) continue;
        s->stop = stop;
        break;
    }
    s->n_looked = n;
    const size_t to = hit < n ? hit : last ? n : n - hold;
    if (to > s->n_content) {
        s->shown = true;
        emit_event(s, EV_CONTENT, 0, text + s->n_content, to - s->n_content);
        s->n_content = to;
    }
}

static bool begins_with(const struct buf *text, const struct buf *with) {
    return text->len >= with->len && (!with->len || memcmp(text->data, with->data, with->len) == 0);
}

/* Emits the new part of a call. args: its arguments so far, of which n bytes are certain. */
static void show_call(struct parser *s, const char *name, const struct buf *args, size_t n,
                      bool done) {
    if (!s->call_open) emit_event(s, EV_CALL_BEGIN, s->n_calls, name, strlen(name));
    s->call_open = true;
    const bool same = begins_with(args, &s->sent) && n >= s->sent.len;
    const char *more = same ? args->data + s->sent.len : s->shut.data;
    const size_t n_more = same ? n - s->sent.len : done ? s->shut.len : 0;
    if (n_more) emit_event(s, EV_CALL_ARGS, s->n_calls, more, n_more);
    if (same) {
        buf_add(&s->sent, more, n_more);
        buf_reset(&s->shut);
        buf_add(&s->shut, args->data + n, args->len - n);
    }
    if (!done) return;
    emit_event(s, EV_CALL_END, s->n_calls++, "", 0);
    s->call_open = false;
    buf_reset(&s->sent);
    buf_reset(&s->shut);
}

/* Emits calls while the model is still writing them, if the answer is streamed. */
static void show_parts(struct parser *s) {
    struct buf name = {0}, args = {0};
    size_t n_sure;
    bool done = true;
    if (!s->a->stream || !s->a->tools || s->a->no_calls || s->stop) return;
    while (done && !(s->a->one_call && s->n_calls) &&
           toolparse_part(s->parse, &name, &args, &n_sure, &done))
        if (done || !s->whole_calls) show_call(s, name.data, &args, n_sure, done);
    buf_release(&name);
    buf_release(&args);
}

/* Emits the reasoning, content and calls that are certain now. */
static void show_new(struct parser *s) {
    size_t n;
    if (!s->parse) {
        show_content(s, s->all.data, s->all.len, false);
        return;
    }
    const char *r = toolparse_reasoning(s->parse, &n);
    if (n > s->n_reasoning) {
        emit_event(s, EV_REASONING, 0, r + s->n_reasoning, n - s->n_reasoning);
        s->n_reasoning = n;
    }
    const char *c = toolparse_content(s->parse, &n);
    if (n) show_content(s, c, n, false);
    show_parts(s);
}

bool parser_thinks(const struct parser *s) {
    return s->thinks;
}

bool parser_half(const struct parser *s) {
    return s->part.len > 0;
}

/* Updates `thinks` if the text now ends with a tag that opens or closes reasoning. */
static void watch_thinking(struct parser *s, const char *text, size_t n) {
    enum { TAIL = 48 };
    buf_add(&s->tail, text, n);
    if (s->tail.len > TAIL) {
        memmove(s->tail.data, s->tail.data + s->tail.len - TAIL, TAIL);
        s->tail.len = TAIL;
        s->tail.data[TAIL] = 0;
    }
    const enum tool_think now = toolfmt_think_of(s->fmt, s->tail.data);
    if (now == TOOL_THINK_UNKNOWN) return;
    s->thinks = now == TOOL_THINK_OPEN;
    buf_reset(&s->tail);
    buf_str(&s->tail, "");
}

/* Parses the complete characters of n more bytes. */
static void feed_text(struct parser *s, const char *text, size_t n) {
    buf_reset(&s->piece);
    text_complete(&s->piece, &s->part, text, n);
    if (!s->piece.len) return;
    if (s->parse)
        toolparse_feed(s->parse, s->piece.data, s->piece.len);
    else
        buf_add(&s->all, s->piece.data, s->piece.len);
}

bool parser_feed(struct parser *s, const char *text, size_t n, const char **stop) {
    if (!n || s->stop) return s->stop != NULL;
    if (s->fmt) watch_thinking(s, text, n);
    feed_text(s, text, n);
    if (s->piece.len) show_new(s);
    *stop = s->stop;
    return s->stop != NULL;
}

/* Emits the reasoning that has not been emitted yet. */
static void show_thought(struct parser *s, const char *text) {
    const size_t n = strlen(text);
    if (n > s->n_reasoning)
        emit_event(s, EV_REASONING, 0, text + s->n_reasoning, n - s->n_reasoning);
}

/* Emits the calls that have not been emitted yet; returns the total number of calls. */
static int show_calls(struct parser *s, const struct json *calls) {
    struct buf args = {0};
    int n = 0;
    for (const struct json *c = json_first(calls); c; c = json_next(c), n++) {
        const char *name = json_str(json_get(c, "name"));
        if (s->a->one_call && n) break;
        if (n < s->n_calls) continue; /* already emitted */
        buf_reset(&args);
        json_write_spaced(&args, json_get(c, "arguments"));
        show_call(s, name, &args, args.len, true);
    }
    buf_release(&args);
    return n;
}

/* Emits the rest of the text unparsed. */
static void show_as_text(struct parser *s) {
    size_t n, more;
    const char *text = toolparse_content(s->parse, &n);
    const char *rest = toolparse_rest(s->parse, &more); /* it follows `text` in the same buffer */
    if (!n) {
        while (more && !s->continues && strchr(" \t\r\n", *rest)) rest++, more--;
        text = rest;
    }
    show_content(s, text, n + more, true);
}

/* Emits the content that has not been emitted yet. If the final content does not begin with the
 * emitted content, because only the end of the text decided how to parse it, emits the rest of the
 * text unparsed. */
static void show_whole(struct parser *s, const char *text) {
    size_t n;
    const char *shown = toolparse_content(s->parse, &n);
    if (strlen(text) <= s->n_content) return;
    if (s->n_content && memcmp(text, shown, s->n_content) != 0)
        show_as_text(s);
    else
        show_content(s, text, strlen(text), true);
}

/* Parses to the end and emits the rest; returns the number of calls. cut: the answer ended at a
 * limit. */
static int end_parsed(struct parser *s, bool cut, struct buf *problems) {
    const bool wanted = s->a->tools && !s->a->no_calls;
    int n = 0;
    if (cut) toolparse_limited(s->parse);
    toolparse_no_more(s->parse);
    show_new(s);
    const struct json *j = toolparse_finish(s->parse), *calls = json_get(j, "tool_calls");
    show_thought(s, json_str(json_get(j, "reasoning")));
    if (!(cut || s->call_open || s->n_calls > json_len(calls)) || !wanted ||
        !toolparse_broken(s->parse))
        show_whole(s, json_str(json_get(j, "content")));
    if (wanted) n = show_calls(s, calls);
    if (n < s->n_calls) n = s->n_calls; /* calls that were emitted count in any case */
    /* The text has ended within a call; the part that was emitted counts as a call. */
    if (s->call_open && !cut) {
        if (s->shut.len) emit_event(s, EV_CALL_ARGS, s->n_calls, s->shut.data, s->shut.len);
        emit_event(s, EV_CALL_END, s->n_calls++, "", 0);
        n = s->n_calls;
    }
    for (const struct json *p = json_first(json_get(j, "problems")); p && wanted;
         p = json_next(p)) {
        if (problems->len) buf_str(problems, ", ");
        json_write(problems, p);
    }
    return n;
}

/* Emits the calls that were complete before the stop text; returns the number of calls. */
static int end_stopped(struct parser *s) {
    if (!s->parse || !s->a->tools || s->a->no_calls) return 0;
    toolparse_limited(s->parse);
    toolparse_no_more(s->parse);
    const int n = show_calls(s, json_get(toolparse_finish(s->parse), "tool_calls"));
    return n > s->n_calls ? n : s->n_calls;
}

int parser_end(struct parser *s, bool cut, struct buf *problems, const char **stop) {
    int n = 0;
    feed_text(s, NULL, 0);
    if (s->stop) /* the rest after the stop text is dropped */
        n = end_stopped(s);
    else if (s->parse)
        n = end_parsed(s, cut, problems);
    else
        show_content(s, s->all.data, s->all.len, true);
    if (s->in_tags && !s->thinks) turn_tags(s, false);
    *stop = s->stop;
    return n;
}

int parser_loose(const struct parser *s) {
    return s->parse && !s->stop ? toolparse_loose(s->parse) : 0;
}

void parser_tally(const struct parser *s, const size_t *at, int64_t n, struct tool_tally *out) {
    if (s->parse && s->a->tools && !s->a->no_calls && !s->stop)
        tool_tally_add(out, s->parse, at, n);
}
