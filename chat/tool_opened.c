// SPDX-License-Identifier: MIT
/* chat/tool_opened.c - parsing of answers whose first marker is at the end of the prompt.
 * Functionary's prompts end with ">>>", so an answer begins with a tool's name, or with "all" if it
 * is text. Once the answer is known to continue the marker, the marker is prepended. Other answers
 * are parsed unchanged. */
#include "chat/tool_int.h"

#include <string.h>

enum { FIRST_MAX = 1000 /* longest text, in bytes, that is held back for this decision */ };
enum begins { BEGINS_NOT, BEGINS, BEGINS_OPEN /* more text is needed */ };

const char *toolfmt_opened(const struct toolfmt *f, const char *prompt) {
    const char *open = f ? f->named.open : NULL;
    const size_t n = open ? strlen(open) : 0, len = strlen(prompt);
    return n && f->parse == tool_parse_named && len >= n && strcmp(prompt + len - n, open) == 0
               ? open
               : NULL;
}

void toolparse_opened(struct toolparse *p, const char *marker) {
    p->opened = marker;
    buf_str(&p->in, "");
    buf_str(&p->first, "");
}

/* Returns whether the byte may be part of a tool's name. */
static bool in_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_-.:/", c));
}

/* Returns whether lit is at i, judging by the text available. */
static enum begins is_lit(const struct buf *b, size_t i, const char *lit) {
    const size_t n = strlen(lit), have = b->len - i;
    if (memcmp(b->data + i, lit, have < n ? have : n) != 0) return BEGINS_NOT;
    return have < n ? BEGINS_OPEN : BEGINS;
}

/* Returns whether the first bytes of the answer continue the marker: as the rest of a frame, or as
 * a name followed by the start of an object or fence. */
static enum begins begins(const struct toolparse *p) {
    const struct buf *b = &p->first;
    const size_t n = strlen(p->opened);
    size_t i = 0;
    for (size_t k = 0; k < TOOL_FRAMES && p->f->frame[k]; k++) {
        const char *frame = p->f->frame[k];
        const enum begins is =
            strncmp(frame, p->opened, n) == 0 ? is_lit(b, 0, frame + n) : BEGINS_NOT;
        if (is != BEGINS_NOT) return is;
    }
    while (i < b->len && tool_is_ws(b->data[i])) i++;
    const size_t name = i;
    while (i < b->len && in_name(b->data[i])) i++;
    if (b->len > FIRST_MAX || (i == name && i < b->len)) return BEGINS_NOT;
    while (i < b->len && b->data[i] == ' ') i++;
    const enum begins sep = is_lit(b, i, p->f->named.sep);
    if (sep != BEGINS) return sep;
    for (i += strlen(p->f->named.sep); i < b->len && tool_is_ws(b->data[i]);) i++;
    return i == b->len ? BEGINS_OPEN : strchr("{`~", b->data[i]) ? BEGINS : BEGINS_NOT;
}

bool tool_opened_feed(struct toolparse *p, const char *s, size_t n, bool last) {
    buf_add(&p->first, s, n);
    const enum begins is = begins(p);
    if (is == BEGINS_OPEN && !last) return false;
    if (is == BEGINS) {
        buf_str(&p->in, p->opened);
        p->n_opened = p->in.len;
    }
    p->opened = NULL;
    return true;
}
