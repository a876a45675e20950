// SPDX-License-Identifier: MIT
/* chat/tool_parse.c - core of the tool-call parser: splits text into reasoning, content, calls and
 * problems. The syntaxes are in tool_tags.c, tool_elem.c, tool_json.c and tool_lit.c, what they
 * share is in tool_values.c, their table in tool_formats.c.
 *
 * Reasoning ends at the first closing tag, unless that tag is inside an argument: if a call of an
 * offered tool starts before the tag and ends after it, it is a call, because models do call tools
 * without closing their reasoning. */
#include "chat/tool_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/utf8.h"

void toolparse_allow_loose(struct toolparse *p) {
    p->loose = p->tools != NULL;
}
void toolparse_no_calls(struct toolparse *p) {
    p->no_calls = true;
}
void toolparse_continues(struct toolparse *p) {
    p->continues = true;
}
void toolparse_exact(struct toolparse *p) {
    p->exact = true;
}
int toolparse_loose(const struct toolparse *p) {
    return p->n_loose;
}
bool tool_is_token(const char *tag) {
    return tag && (*tag == '<' || *tag == '[');
}

/* Returns the text that opens the reasoning. */
static const char *think_open(const struct toolparse *p) {
    return toolfmt_think_tag(p->f, false);
}
/* Returns the text that closes the reasoning. */
static const char *think_close(const struct toolparse *p) {
    return toolfmt_think_tag(p->f, true);
}

/* ---- reasoning, content, calls ---- */

/* Limit on markers that turn out not to begin a call. Each may cost a scan of the rest of the
 * text. */
enum { MAX_TRIES = 1000 };

/* Caches the next position of each marker, so that visiting all markers in order reads the text
 * only once. */
size_t tool_marker(struct toolparse *p, size_t i) {
    size_t best = SIZE_MAX;
    if (p->no_calls) return best;
    if (p->f->headers && p->f->headers->call) return p->f->headers->call(p, i);
    for (int k = 0; k <= TOOL_MARKERS; k++) {
        const bool spaced = k == TOOL_MARKERS;
        if (spaced ? !p->f->bare : !p->f->marker[k]) continue;
        bool known = p->mark_from[k] <= i && i <= p->mark_at[k] && p->mark_at[k];
        if (!known) {
            p->mark_at[k] = spaced ? tool_next_spaced(p, i) : tool_find(p, i, p->f->marker[k]);
            p->mark_from[k] = i;
        }
        if (p->mark_at[k] < best) best = p->mark_at[k];
    }
    return best;
}

size_t tool_text_end(const struct toolparse *p, size_t piece, size_t at) {
    const struct tool_headers *h = p->f->headers;
    return h && h->text_end ? h->text_end(p, piece, at) : 0;
}

size_t tool_piece_marker(struct toolparse *p, size_t piece, size_t i) {
    for (;;) {
        const size_t at = tool_marker(p, i), end = at == SIZE_MAX ? 0 : tool_text_end(p, piece, at);
        if (!end) return at;
        if (end == SIZE_MAX) return end;
        piece = i = end; /* reads the text only once */
    }
}

/* Returns whether i is at the start of a line or follows a tag, ignoring blanks before i. */
static bool line_start(const struct toolparse *p, size_t i) {
    while (i > 0 && (p->in.data[i - 1] == ' ' || p->in.data[i - 1] == '\t')) i--;
    return i == 0 || p->in.data[i - 1] == '\n' || p->in.data[i - 1] == '>';
}

/* Parses the call at i without adding it and returns its end, or 0 if there is no call. offered:
 * only calls of offered tools count. */
static size_t probe(struct toolparse *p, size_t i, bool offered) {
    const int n_calls = p->n_calls, n_problems = p->n_problems;
    bool ok = p->f->parse(p, &i);
    for (int k = n_calls; k < p->n_calls && offered && p->tools; k++)
        ok = ok && tool_declared(p, p->calls[k].name);
    p->n_calls = n_calls;
    p->n_problems = n_problems;
    return ok ? i : 0;
}

/* Frames (texts around a message that are not content) common to all families. Those of a single
 * family are in toolfmt.frame. */
static const char *const ends[] = {
    "<|im_end|>",    "<|eot_id|>", "<|end_of_text|>", "<|end|>",  "</s>", "<EOS>",      "<turn|>",
    "<|endoftext|>", "<|eom_id|>", "<|return|>",      "<|call|>", "[e~[", "<seed:eos>", DS_END};
_Static_assert(COUNT_OF(ends) + TOOL_FRAMES < TOOL_ALL_FRAMES, "frames");

void toolparse_ends(struct toolparse *p, toolparse_is_end *is_end, void *ud) {
    for (size_t k = 0; k < COUNT_OF(ends); k++)
        if (!is_end(ud, ends[k])) p->no_ends |= UINT32_C(1) << k;
}

const char *tool_frame(const struct toolparse *p, size_t k) {
    if (k < COUNT_OF(ends)) return p->no_ends >> k & 1 ? NULL : ends[k];
    k -= COUNT_OF(ends);
    if (k < TOOL_FRAMES) return p->f->frame[k];
    return tool_is_token(p->f->think[1]) ? p->f->think[1] : NULL; /* a stray closing tag */
}

/* Returns the length of the longest marker at i, or 0. */
static size_t marker_at(const struct toolparse *p, size_t i) {
    size_t best = 0;
    for (int k = 0; k < TOOL_MARKERS && p->f->marker[k] && !p->no_calls; k++) {
        const size_t n = strlen(p->f->marker[k]);
        if (n > best && tool_at(p, i, p->f->marker[k])) best = n;
    }
    return best;
}

/* Returns the length of the frame at i; 0: none, or it begins a call or reasoning. */
static size_t frame_len(const struct toolparse *p, size_t i) {
    size_t best = 0;
    for (size_t k = 0; k < TOOL_ALL_FRAMES; k++) {
        const char *f = tool_frame(p, k);
        if (f && f != p->f->think[1] && strlen(f) > best && tool_at(p, i, f)) best = strlen(f);
    }
    if (tool_at(p, i, think_open(p)) || marker_at(p, i) > best) return 0;
    return p->f->headers ? p->f->headers->frame(p, i, best) : best;
}

size_t tool_next_header(const struct toolparse *p, size_t i) {
    return p->f->headers && p->f->headers->find ? p->f->headers->find(p, i) : SIZE_MAX;
}

/* Returns the position after white space and frames at i; closes: also skips closing tags of
 * reasoning. */
static size_t skip_frames(const struct toolparse *p, size_t i, bool closes) {
    for (size_t n = 1; n; i += n) {
        i = tool_ws(p, i);
        n = frame_len(p, i);
        if (!n && closes && tool_at(p, i, think_close(p))) n = strlen(think_close(p));
    }
    return i;
}

size_t tool_skip_frames(const struct toolparse *p, size_t i) {
    return skip_frames(p, i, true);
}

size_t tool_begin(const struct toolparse *p) {
    return skip_frames(p, 0, p->think == TOOL_THINK_NONE);
}

size_t tool_content_at(const struct toolparse *p, size_t i) {
    while (p->exact && i > 0 && tool_is_ws(p->in.data[i - 1])) i--;
    return p->continues && tool_ws(p, 0) == i ? 0 : i;
}

/* Returns the end of [from, to) once trailing whitespace and frames are removed. */
static size_t drop_frames(const struct toolparse *p, size_t from, size_t to) {
    while (to > from && tool_is_ws(p->in.data[to - 1])) to--;
    for (size_t at = from; (at = tool_next_header(p, at)) < to; at++)
        if (at + frame_len(p, at) == to) to = at;
    while (to > from && tool_is_ws(p->in.data[to - 1])) to--;
    for (size_t k = 0; k < TOOL_ALL_FRAMES; k++) {
        const char *f = tool_frame(p, k);
        size_t n = f ? strlen(f) : 0;
        while (n && tool_is_ws(f[n - 1])) n--; /* [from, to) has none at its end */
        if (!n || to - from < n || memcmp(p->in.data + to - n, f, n) != 0) continue;
        for (to -= n; to > from && tool_is_ws(p->in.data[to - 1]);) to--;
        k = SIZE_MAX;
    }
    return to;
}

/* Returns where the content of [from, to) ends, without trailing whitespace and frames. Whitespace
 * at the end of the answer stays if it is part of the content. */
static size_t content_to(const struct toolparse *p, size_t from, size_t to) {
    const size_t cut = drop_frames(p, from, to);
    const bool keeps = p->limited || (p->exact && !p->n_calls);
    return keeps && to == p->in.len && tool_ws(p, cut) == to ? to : cut;
}

size_t tool_think_end(const struct toolparse *p, size_t i, size_t *after) {
    size_t best = tool_find(p, i, think_close(p));
    *after = best == SIZE_MAX ? p->in.len : best + strlen(think_close(p));
    for (int k = 0; k < 2 && p->f->think_end[k]; k++) {
        const size_t at = tool_find(p, i, p->f->think_end[k]);
        if (at < best) *after = best = at;
    }
    return best;
}

/* Returns the start of the next reasoning block in the piece of text [i, to), or SIZE_MAX. An
 * opening tag that is not a control token counts only at the start of the piece. */
static size_t next_block(const struct toolparse *p, size_t i, size_t to) {
    if (i < to && tool_at(p, i, think_open(p))) return i;
    if (!tool_is_token(p->f->think[0])) return SIZE_MAX;
    const size_t at = tool_find(p, i, think_open(p));
    return at < to ? at : SIZE_MAX;
}

/* Returns the end of the reasoning block that contains `at`, in the piece of text that begins at i;
 * 0: there is no such block, SIZE_MAX: it is not closed. */
static size_t block_around(const struct toolparse *p, size_t i, size_t at) {
    for (size_t after;;) {
        i = tool_skip_frames(p, i);
        const size_t open = next_block(p, i, at);
        if (open == SIZE_MAX) return 0;
        if (tool_think_end(p, open + strlen(think_open(p)), &after) == SIZE_MAX) return SIZE_MAX;
        if (after > at) return after;
        i = after;
    }
}

size_t tool_next_call(struct toolparse *p, size_t piece, size_t i) {
    for (;;) {
        const size_t at = tool_piece_marker(p, piece, i);
        const size_t n = at == SIZE_MAX ? 0 : frame_len(p, at);
        if (at == SIZE_MAX) return at;
        const size_t after = n ? at + n : block_around(p, piece, at);
        if (after == SIZE_MAX) return p->ended ? at : SIZE_MAX;
        if (!after) return at;
        i = after;
    }
}

/* Returns whether the marker at i may begin a call. A marker that is a control token may do so
 * anywhere; one that is plain text must begin a line. */
static bool may_call(const struct toolparse *p, size_t i) {
    return p->in.data[i] == '[' || tool_at(p, i, "<|") || tool_at(p, i, "<\xef\xbd\x9c") ||
           tool_at(p, i, "]<]") || line_start(p, i);
}

struct parts {
    size_t think_from, think_to, content;
};

/* Returns the borders of reasoning and content; all 0 without reasoning. */
static struct parts split_reasoning(struct toolparse *p) {
    size_t start = tool_begin(p), after;
    struct parts r = {0, 0, 0};
    bool tagged = tool_at(p, start, think_open(p));
    bool open = p->think == TOOL_THINK_OPEN && !p->f->think_tagged;
    size_t from = tagged ? start + strlen(think_open(p)) : open ? start : 0;
    size_t close = tool_think_end(p, from, &after), call = tool_marker(p, from);
    if (!tagged && !open &&
        (p->think == TOOL_THINK_NONE || close == SIZE_MAX || p->f->think_tagged))
        return r;
    /* The reasoning block may contain a call. */
    for (int n = 0; call < close && call != SIZE_MAX; n++) {
        if (n == MAX_TRIES) {
            call = SIZE_MAX;
            break;
        }
        /* A call around the tag that ends the reasoning counts only if its tool is offered. */
        const bool around = close != SIZE_MAX;
        size_t end = (!tagged && !open) || may_call(p, call) ? probe(p, call, around) : 0;
        if (end && (close == SIZE_MAX || end > close)) break;
        call = tool_marker(p, call + 1);
    }
    bool has_call = call != SIZE_MAX && call < close;
    if (has_call && !tagged && !open) return r; /* the tag is inside an argument */
    r.think_from = from;
    r.think_to = has_call ? call : close == SIZE_MAX ? p->in.len : close;
    r.content = has_call ? call : after;
    if (has_call) r.think_to = drop_frames(p, from, call);
    if (close == SIZE_MAX && p->think == TOOL_THINK_NONE && !has_call)
        return (struct parts){0, 0, 0};
    if (close == SIZE_MAX || has_call) tool_problem(p, "the reasoning was not closed");
    return r;
}

/* Appends t as a separate line. */
static void add_line(struct buf *b, struct text t) {
    if (!t.n) return;
    if (b->len) buf_str(b, "\n");
    buf_add(b, t.s, t.n);
}

/* Returns the next frame of the family in [i, to), or `to`. */
static size_t next_frame(const struct toolparse *p, size_t i, size_t to) {
    const size_t header = tool_next_header(p, i);
    if (header < to) to = header;
    for (size_t k = 0; k < TOOL_FRAMES && p->f->frame[k]; k++) {
        const size_t at = tool_find(p, i, p->f->frame[k]);
        if (at < to) to = at;
    }
    return to;
}

/* Appends to b the content of [from, to), which has no calls, and adds its reasoning blocks to the
 * reasoning. */
static void join(struct toolparse *p, struct buf *b, size_t from, size_t to) {
    const bool first = from == p->content_at;
    for (size_t after;;) {
        from = tool_skip_frames(p, from);
        if (from >= to && first && p->exact && !p->n_calls && !b->len) /* only whitespace */
            add_line(b, tool_text(p, tool_content_at(p, to), to));
        if (from >= to) return;
        const size_t at = first ? tool_content_at(p, from) : from;
        const size_t open = next_block(p, from, to), end = next_frame(p, from, to);
        if (open > end || open == SIZE_MAX) { /* no reasoning before the next frame */
            const size_t cut = content_to(p, from, end > from ? end : to);
            add_line(b, tool_text(p, cut > from ? at : from, cut));
            from = end > from ? end : to;
            continue;
        }
        if (open > from) add_line(b, tool_text(p, at, drop_frames(p, from, open)));
        from = open + strlen(think_open(p));
        size_t close = tool_think_end(p, from, &after);
        if (close > to) {
            close = after = to;
            tool_problem(p, "the reasoning was not closed");
        }
        add_line(&p->thought, tool_strip(tool_text(p, from, close)));
        from = after;
    }
}

/* A fence opened before a call. It is not content if it is closed after a call or never closed. */
struct around {
    struct tool_fence fence;
    size_t from, to; /* its line */
    bool list;       /* the bracket of a list was opened before a call without a tag */
};

/* Decides, at the piece of content [*from, to) after a call, whether the open fence is content. If
 * the piece begins with the closing fence, moves *from past that; otherwise the opening fence is
 * content. */
static void settle_fence(struct toolparse *p, struct buf *content, struct around *a, size_t *from,
                         size_t to) {
    const size_t text = tool_skip_frames(p, *from);
    if (!a->fence.n || text >= to) return;
    const size_t end = tool_fence_close(p, text, &a->fence);
    if (end != SIZE_MAX && end > text)
        *from = end;
    else
        add_line(content, tool_strip(tool_text(p, a->from, a->to)));
    a->fence.n = 0;
}

/* Returns the bracket on its own line, in [from, at), that opens a list of calls at `at`; at: none.
 */
static size_t bracket_before(const struct toolparse *p, size_t from, size_t at) {
    size_t k = at;
    while (k > from && tool_is_ws(p->in.data[k - 1])) k--;
    return k > from && p->in.data[k - 1] == '[' && line_start(p, k - 1) ? k - 1 : at;
}

/* Moves *end past what separates or closes the calls of an open list. */
static void in_list(const struct toolparse *p, struct around *a, size_t *end) {
    const size_t k = tool_ws(p, *end);
    if (!a->list || k >= p->in.len || !strchr(",]", p->in.data[k])) return;
    a->list = p->in.data[k] == ',';
    *end = k + 1;
}

/* Returns whether the call at i has no tag, so that text around it may quote it. */
static bool may_be_quoted(const struct toolparse *p, size_t i) {
    return p->f->bare && p->in.data[i] == '{';
}

/* Parses the call at the marker at `at`, adds the content before it, and moves *from past the call.
 * False: not a call. */
static bool one_call(struct toolparse *p, struct buf *content, struct around *around, size_t at,
                     size_t *from) {
    const int n_calls = p->n_calls, n_problems = p->n_problems;
    size_t end = at;
    p->answer_to = 0;
    if (!p->f->parse(p, &end) || end <= at) {
        p->n_calls = n_calls;
        if (p->answer_to) p->n_problems = n_problems;
        if (p->answer_to) return false;
        tool_problem(p, "what begins like a call at byte %zu is not one",
                     at < p->n_opened ? 0 : at - p->n_opened);
        p->broken = true;
        return false;
    }
    for (int k = n_calls; k < p->n_calls; k++) {
        p->calls[k].from = at;
        p->calls[k].to = end;
    }
    const bool quoted = may_be_quoted(p, at);
    const size_t start = quoted ? bracket_before(p, *from, at) : at;
    if (quoted && !line_start(p, start) && tool_strip(tool_text(p, *from, start)).n)
        tool_problem(p, "a call follows text on its line; it may be an example");
    settle_fence(p, content, around, from, start);
    size_t cut = start;
    if (!around->fence.n) {
        cut = tool_fence_before(p, *from, start, &around->fence);
        around->from = cut;
        around->to = start;
    }
    join(p, content, *from, cut);
    around->list |= start < at;
    in_list(p, around, &end);
    *from = end;
    return true;
}

/* Parses the whole input; content receives the text outside of reasoning and calls. */
static void parse_all(struct toolparse *p, struct buf *content) {
    struct parts r = split_reasoning(p);
    size_t from = r.content, i = r.content;
    struct around around = {.from = 0};
    p->content_at = r.content;
    add_line(&p->thought, tool_strip(tool_text(p, r.think_from, r.think_to)));
    if (p->loose && tool_loose(p, tool_skip_frames(p, from)) == LOOSE_YES) {
        tool_add_loose(p, tool_skip_frames(p, from));
        return;
    }
    for (int n_bad = 0;;) {
        const size_t at = tool_next_call(p, from, i);
        if (at == SIZE_MAX) break;
        if (n_bad == MAX_TRIES) {
            tool_problem(p,
                         "text that begins like a call, from byte %zu on, was not parsed: %d "
                         "earlier ones were not calls",
                         at, n_bad);
            break;
        }
        if (one_call(p, content, &around, at, &from)) {
            i = from;
            continue;
        }
        if (p->answer_to) {
            i = p->answer_to;
            continue;
        }
        if (at < p->n_opened) from = p->n_opened; /* text of the prompt is not content */
        if (p->limited) break; /* complete calls after it may be part of its unfinished value */
        i = p->f->headers && p->f->headers->skip ? p->f->headers->skip(p, at) : at;
        if (i > at) { /* what follows the header is content */
            join(p, content, from, at);
            from = i;
        }
        i += i == at;
        n_bad++;
    }
    const struct tool_tags *t = &p->f->tags;
    if (p->n_calls && t->par_close &&
        (tool_find(p, from, t->par_close) != SIZE_MAX ||
         tool_find(p, from, t->fn_close) != SIZE_MAX))
        tool_problem(p,
                     "closing tags after the last call: a value may have held the text of a tag");
    settle_fence(p, content, &around, &from, p->in.len);
    if (p->n_calls && may_be_quoted(p, p->calls[p->n_calls - 1].from) &&
        tool_skip_frames(p, from) < p->in.len)
        tool_problem(p, "text follows the last call, which may be an example");
    join(p, content, from, p->in.len);
}

/* Returns whether s, without trailing white space, ends with `tail`. */
static bool ends_with(const char *s, const char *tail) {
    size_t n = strlen(s), m = strlen(tail);
    while (n && tool_is_ws(s[n - 1])) n--;
    return n >= m && memcmp(s + n - m, tail, m) == 0;
}

const char *toolfmt_think_tag(const struct toolfmt *f, bool closing) {
    static const char *const usual[] = {"<think>", "</think>"};
    return f->think[closing] ? f->think[closing] : usual[closing];
}

enum tool_think toolfmt_think_of(const struct toolfmt *f, const char *prompt) {
    const char *open = toolfmt_think_tag(f, false), *close = toolfmt_think_tag(f, true);
    return ends_with(prompt, open)    ? TOOL_THINK_OPEN
           : ends_with(prompt, close) ? TOOL_THINK_NONE
                                      : TOOL_THINK_UNKNOWN;
}

/* ---- public functions ---- */
int toolparse_new(struct toolparse **out, const struct toolfmt *f, const char *tools, size_t len,
                  enum tool_think think, struct err *e) {
    struct toolparse *p = xcalloc(1, sizeof *p);
    *out = NULL;
    arena_init(&p->arena);
    p->f = f;
    p->think = think;
    if (tools) {
        size_t used;
        p->tools = tool_json(p, (struct text){tools, len}, &used);
        if (json_type(p->tools) != JSON_ARR) {
            toolparse_free(p);
            return err_set(e, ERR_DATA, "the tools are not a JSON list");
        }
        tool_know_properties(p);
    }
    *out = p;
    return 0;
}

void toolparse_free(struct toolparse *p) {
    if (!p) return;
    buf_release(&p->in);
    buf_release(&p->first);
    buf_release(&p->thought);
    free(p->calls);
    free(p->props);
    free(p->problems);
    tool_flow_release(&p->flow);
    arena_release(&p->arena);
    free(p);
}

/* Appends n bytes, replacing each NUL by U+FFFD. */
static void add_input(struct toolparse *p, const char *s, size_t n) {
    while (n) { /* replace NUL, which strings in conversations cannot contain, by U+FFFD */
        const size_t k = strnlen(s, n);
        buf_add(&p->in, s, k);
        if (k == n) break;
        buf_str(&p->in, "\xef\xbf\xbd");
        s += k + 1;
        n -= k + 1;
    }
    memset(p->mark_at, 0, sizeof p->mark_at); /* text has arrived that may contain a marker */
}

void toolparse_feed(struct toolparse *p, const char *s, size_t n) {
    if (!p->opened)
        add_input(p, s, n);
    else if (tool_opened_feed(p, s, n, false))
        add_input(p, p->first.data, p->first.len);
}

void tool_opened_end(struct toolparse *p) {
    if (p->opened && tool_opened_feed(p, "", 0, true)) add_input(p, p->first.data, p->first.len);
}

bool toolparse_broken(const struct toolparse *p) {
    return p->broken;
}

const char *toolparse_rest(const struct toolparse *p, size_t *len) {
    size_t at = p->started ? p->content_from + p->n_content : p->content_at;
    if (at < p->n_opened) at = p->n_opened;
    if (at > p->in.len) at = p->in.len;
    *len = p->in.len - at;
    return p->in.data + at;
}

static void add_member(struct toolparse *p, struct json *obj, const char *name,
                       const struct json *v) {
    json_put(&p->arena, obj, name, strlen(name), v);
}

/* Returns the result object with content, reasoning, calls and problems. */
static struct json *result_of(struct toolparse *p, struct text content, struct text reasoning) {
    struct json *d = json_new(&p->arena, JSON_OBJ), *calls = json_new(&p->arena, JSON_ARR),
                *problems = json_new(&p->arena, JSON_ARR);
    for (int i = 0; i < p->n_calls; i++) {
        struct json *call = json_new(&p->arena, JSON_OBJ);
        add_member(p, call, "name", tool_str(p, p->calls[i].name));
        add_member(p, call, "arguments", p->calls[i].args);
        json_push(&p->arena, calls, call);
    }
    for (int i = 0; i < p->n_problems; i++)
        json_push(&p->arena, problems,
                  json_new_str(&p->arena, p->problems[i], strlen(p->problems[i])));
    add_member(p, d, "content", tool_str(p, content));
    add_member(p, d, "reasoning", tool_str(p, reasoning));
    add_member(p, d, "tool_calls", calls);
    add_member(p, d, "problems", problems);
    if (p->n_loose) {
        char n[16];
        size_t used;
        snprintf(n, sizeof n, "%d", p->n_loose);
        add_member(p, d, "loose",
                   tool_json(p, (struct text){arena_strdup(&p->arena, n), strlen(n)}, &used));
    }
    return d;
}

const struct json *toolparse_finish(struct toolparse *p) {
    struct buf content = {0};
    buf_str(&p->in, ""); /* ensures that p->in.data is not NULL */
    buf_str(&content, "");
    buf_str(&p->thought, "");
    tool_opened_end(p);
    p->ended = true;
    parse_all(p, &content);
    const struct json *r = result_of(p, (struct text){content.data, content.len},
                                     (struct text){p->thought.data, p->thought.len});
    buf_release(&content);
    return r;
}
