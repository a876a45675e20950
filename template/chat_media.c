// SPDX-License-Identifier: MIT
/* template/chat_media.c - placeholders of images in a rendered conversation (chat_media.h). */
#include "template/chat_media.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct cut { /* replaced bytes of the text */
    size_t from, to;
    size_t shift; /* of the text after it; may wrap */
};

/* Lists the placeholders in ascending order; the caller frees *out. */
static int find_cuts(const struct chat_media *m, const struct tok_range *input, int n_input,
                     const struct buf *text, struct cut **out) {
    const char *needle = m->mark ? m->mark : m->placeholder, *found;
    const size_t len = strlen(needle);
    struct cut *v = NULL;
    int n = 0, range = 0;
    for (size_t at = 0; (found = memmem(text->data + at, text->len - at, needle, len)) != NULL;) {
        at = (size_t)(found - text->data);
        while (range < n_input && input[range].end <= at) range++;
        if (!m->mark && range < n_input && input[range].start < at + len) {
            at = input[range].end;
            continue;
        }
        if ((n & (n - 1)) == 0) /* the array is full whenever n is a power of two */
            v = xreallocarray(v, n ? 2 * (size_t)n : 1, sizeof *v);
        v[n++] = (struct cut){at, at + len, 0};
        at += len;
    }
    *out = v;
    return n;
}

/* Writes the text with its cuts replaced and sets their shifts. */
static void replace_text(const struct chat_media *m, struct cut *cut, struct buf *text) {
    struct buf out = {0};
    size_t done = 0;
    for (int i = 0; i < m->n; i++) {
        buf_add(&out, text->data + done, cut[i].from - done);
        buf_str(&out, m->text[i]);
        done = cut[i].to;
        cut[i].shift = out.len - done;
    }
    buf_add(&out, text->data + done, text->len - done);
    buf_str(&out, "");
    buf_release(text);
    *text = out;
}

/* Moves the spans and removes the replaced bytes from them. */
static void replace_spans(const struct cut *cut, int n_cuts, struct jinja_spans *s) {
    struct jinja_span *v = xcalloc((size_t)s->n + (size_t)n_cuts, sizeof *v);
    int n = 0, k = 0;
    for (int i = 0; i < s->n; i++) {
        size_t from = s->v[i].start;
        while (k < n_cuts && cut[k].to <= from) k++;
        for (; k < n_cuts && cut[k].from < s->v[i].end; from = cut[k++].to) {
            const size_t shift = k ? cut[k - 1].shift : 0;
            if (cut[k].from > from)
                v[n++] = (struct jinja_span){from + shift, cut[k].from + shift, s->v[i].origin};
        }
        const size_t shift = k ? cut[k - 1].shift : 0;
        if (s->v[i].end > from)
            v[n++] = (struct jinja_span){from + shift, s->v[i].end + shift, s->v[i].origin};
    }
    free(s->v);
    s->v = v;
    s->n = n;
}

int chat_media_put(const struct chat_media *m, const struct tok_range *input, int n_input,
                   struct buf *text, struct jinja_spans *s) {
    struct cut *cut = NULL;
    const int n = find_cuts(m, input, n_input, text, &cut);
    if (n == m->n) {
        replace_text(m, cut, text);
        replace_spans(cut, n, s);
    }
    free(cut);
    return n;
}
