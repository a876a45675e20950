// SPDX-License-Identifier: MIT
/* chat/tool_stream.c - detection of the reasoning and content that are certain while text is still
 * arriving. */
#include "chat/tool_int.h"

#include <string.h>

/* Returns the text that opens the reasoning. */
static const char *think_open(const struct toolparse *p) {
    return toolfmt_think_tag(p->f, false);
}

/* Returns the length of the longest suffix of the text at or after `from` that may grow into a text
 * that ends reasoning. */
static size_t held_close(const struct toolparse *p, size_t from) {
    size_t hold = tool_partial(p, from, toolfmt_think_tag(p->f, true));
    for (int k = 0; k < 2 && p->f->think_end[k]; k++) {
        const size_t h = tool_partial(p, from, p->f->think_end[k]);
        if (h > hold) hold = h;
    }
    return hold;
}

size_t tool_partial(const struct toolparse *p, size_t from, const char *lit) {
    size_t n = strlen(lit), have = p->in.len - from;
    for (size_t k = n - 1 < have ? n - 1 : have; k > 0; k--)
        if (memcmp(p->in.data + p->in.len - k, lit, k) == 0) return k;
    return 0;
}

/* Returns the length of the longest suffix of the text at or after `from` that may grow into a
 * marker, a frame or the opening tag of reasoning. */
static size_t held(const struct toolparse *p, size_t from, const char *tag) {
    size_t hold = tag ? tool_partial(p, from, tag) : 0, h;
    for (int k = 0; k < TOOL_MARKERS && p->f->marker[k] && !p->no_calls; k++) {
        h = tool_partial(p, from, p->f->marker[k]);
        if (h > hold) hold = h;
    }
    h = tool_spaced_partial(p, from);
    if (h > hold) hold = h;
    if (p->f->headers && p->f->headers->partial) {
        h = p->f->headers->partial(p, from);
        if (h > hold) hold = h;
    }
    for (size_t k = 0; k < TOOL_ALL_FRAMES; k++) {
        h = tool_frame(p, k) ? tool_partial(p, from, tool_frame(p, k)) : 0;
        if (h > hold) hold = h;
    }
    return hold;
}

/* Returns whether the text consists of whitespace and then one or two fence characters. */
static bool only_marks(const char *s, size_t n) {
    while (n && tool_is_ws(*s)) s++, n--;
    return n == 1 ? *s == '`' || *s == '~' : n == 2 && s[0] == s[1] && (*s == '`' || *s == '~');
}

/* Finds where content begins. False: not known yet, or not known before the end of the text. */
static bool content_begins(struct toolparse *p) {
    size_t i = tool_begin(p), after;
    bool tagged = tool_at(p, i, think_open(p));
    /* The text so far may grow into a marker. */
    if (!tagged && i + held(p, i, think_open(p)) >= p->in.len) return false;
    if (tagged || (p->think != TOOL_THINK_NONE && !p->f->think_tagged)) {
        size_t from = tagged ? i + strlen(think_open(p)) : 0;
        if (from < p->close_from) from = p->close_from;
        size_t at = tool_think_end(p, from, &after), call = tool_marker(p, from);
        /* Either the call is inside the reasoning, or the tag is inside an argument. */
        p->closed = call < at;
        if (p->closed) return false;
        if (at == SIZE_MAX) {
            const size_t a = held(p, from, NULL), b = held_close(p, from);
            p->close_from = p->in.len - (a > b ? a : b);
            return false;
        }
        i = tool_skip_frames(p, after);
    }
    while (tool_at(p, i, think_open(p))) { /* another reasoning block */
        if (tool_think_end(p, i + strlen(think_open(p)), &after) == SIZE_MAX) return false;
        i = tool_skip_frames(p, after);
    }
    const size_t closing = tool_partial(p, i, toolfmt_think_tag(p->f, true));
    if (i + closing >= p->in.len || i + held(p, i, think_open(p)) >= p->in.len) return false;
    if (p->loose && tool_loose(p, i) != LOOSE_NO) return false;
    p->content_from = p->scanned = tool_content_at(p, i);
    return true;
}

/* Returns the end of the content before `end` that is certain, without trailing whitespace and an
 * opening fence, which may belong to a call. */
static size_t content_end(const struct toolparse *p, size_t end) {
    struct tool_fence fence;
    const char *s = p->in.data;
    while (end > p->scanned && tool_is_ws(s[end - 1])) end--;
    if (!p->tools || p->no_calls) return end;
    if (p->f->bare && end > p->scanned && s[end - 1] == '[')
        end--; /* it may open a list of calls */
    while (end > p->scanned && tool_is_ws(s[end - 1])) end--;
    size_t line = end;
    while (line > p->scanned && s[line - 1] != '\n') line--;
    if (end - line > 40) return end;
    size_t from = tool_fence_before(p, p->content_from, end, &fence);
    if (from == end && end == p->in.len && only_marks(s + line, end - line)) from = line;
    if (from < p->scanned) from = p->scanned;
    while (from > p->scanned && tool_is_ws(s[from - 1])) from--;
    return from;
}

const char *toolparse_content(struct toolparse *p, size_t *len) {
    *len = 0;
    if (!p->started) {
        if (p->closed) return "";
        p->started = content_begins(p);
        if (!p->started) return "";
    }
    if (!p->closed) {
        size_t end = p->in.len - held(p, p->scanned, p->f->think[0]),
               at = tool_piece_marker(p, p->content_from, p->scanned);
        const size_t header = tool_next_header(p, p->scanned);
        if (header < at) at = header;
        for (size_t k = 0; k < TOOL_ALL_FRAMES; k++) {
            size_t f = tool_frame(p, k) ? tool_find(p, p->scanned, tool_frame(p, k)) : SIZE_MAX;
            if (f < at) at = f;
        }
        const bool token = tool_is_token(p->f->think[0]);
        const size_t block = token ? tool_find(p, p->scanned, think_open(p)) : SIZE_MAX;
        if (block < at) at = block;
        p->closed = at != SIZE_MAX;
        if (p->closed) end = at;
        end = content_end(p, end);
        if (end > p->scanned) p->scanned = end;
        p->n_content = p->scanned - p->content_from;
    }
    *len = p->n_content;
    return p->in.data + p->content_from;
}

const char *toolparse_reasoning(struct toolparse *p, size_t *len) {
    const bool open = p->think == TOOL_THINK_OPEN && !p->f->think_tagged;
    size_t from = tool_begin(p), after;
    const bool tagged = tool_at(p, from, think_open(p));
    *len = 0;
    if (tagged) from += strlen(think_open(p));
    if ((!tagged && !open) || (!tagged && from + held(p, from, think_open(p)) >= p->in.len))
        return "";
    from = tool_ws(p, from);
    const size_t shown = from + p->n_reasoning; /* no tag begins before it, even in part */
    const size_t a = held(p, shown, NULL), b = held_close(p, shown);
    size_t end = p->in.len - (a > b ? a : b);
    const size_t close = tool_think_end(p, shown, &after), call = tool_marker(p, shown);
    const size_t header = tool_next_header(p, shown);
    if (header < end) end = header;
    if (close < end) end = close;
    if (call < end) end = call;
    for (size_t k = 0; k < TOOL_FRAMES && p->f->frame[k]; k++) { /* a call may follow */
        const size_t frame = tool_find(p, shown, p->f->frame[k]);
        if (frame < end) end = frame;
    }
    while (end > shown && tool_is_ws(p->in.data[end - 1])) end--;
    if (end > shown) p->n_reasoning = end - from;
    *len = p->n_reasoning;
    return p->in.data + from;
}
