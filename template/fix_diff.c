// SPDX-License-Identifier: MIT
/* template/fix_diff.c - unified diffs: longest common subsequence of lines by dynamic programming,
 * without the common head and tail. Texts that are too long for the table are shown as completely
 * replaced.
 */
#include "template/fix_diff.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct line {
    const char *s;
    size_t n; /* includes the newline */
};
struct lines {
    struct line *v;
    size_t n;
};
enum { CONTEXT = 3, MAX_CELLS = 1 << 24 };

/* Splits a text into lines, which keep their newlines; the caller frees the array. */
static struct lines split_lines(const char *s, size_t n) {
    struct lines l = {0};
    size_t cap = 0;
    for (size_t i = 0; i < n;) {
        const char *nl = memchr(s + i, '\n', n - i);
        size_t e = nl ? (size_t)(nl - s) + 1 : n;
        if (l.n == cap) {
            cap = cap ? cap * 2 : 64;
            l.v = xreallocarray(l.v, cap, sizeof *l.v);
        }
        l.v[l.n++] = (struct line){s + i, e - i};
        i = e;
    }
    return l;
}

static bool same_line(struct line a, struct line b) {
    return a.n == b.n && memcmp(a.s, b.s, a.n) == 0;
}

/* Returns the edit script, one letter per line: ' ' in both, '-' only in a, '+' only in b. */
static char *edit_script(const struct lines *a, const struct lines *b, size_t *n_out) {
    size_t head = 0, tail = 0, n = 0;
    while (head < a->n && head < b->n && same_line(a->v[head], b->v[head])) head++;
    while (tail < a->n - head && tail < b->n - head &&
           same_line(a->v[a->n - 1 - tail], b->v[b->n - 1 - tail]))
        tail++;
    size_t x = a->n - head - tail, y = b->n - head - tail, i = 0, j = 0;
    char *s = xmalloc(a->n + b->n + 1);
    uint32_t *t = NULL;
    if ((x + 1) <= MAX_CELLS / (y + 1)) t = xcalloc((x + 1) * (y + 1), sizeof *t);
    for (size_t p = x; t && p-- > 0;)
        for (size_t q = y; q-- > 0;) {
            uint32_t down = t[(p + 1) * (y + 1) + q], right = t[p * (y + 1) + q + 1];
            t[p * (y + 1) + q] = same_line(a->v[head + p], b->v[head + q])
                                     ? t[(p + 1) * (y + 1) + q + 1] + 1
                                 : down > right ? down
                                                : right;
        }
    for (; n < head;) s[n++] = ' ';
    while (i < x || j < y) {
        if (t && i < x && j < y && same_line(a->v[head + i], b->v[head + j])) {
            s[n++] = ' ';
            i++;
            j++;
        } else if (i < x && (!t || j == y || t[(i + 1) * (y + 1) + j] >= t[i * (y + 1) + j + 1])) {
            s[n++] = '-';
            i++;
        } else {
            s[n++] = '+';
            j++;
        }
    }
    for (size_t k = 0; k < tail; k++) s[n++] = ' ';
    free(t);
    *n_out = n;
    return s;
}

/* Appends a diff line: sign (' ', '-' or '+') and text, which may lack its newline. */
static void put_line(struct buf *out, char sign, struct line l) {
    buf_chr(out, sign);
    buf_add(out, l.s, l.n);
    if (l.s[l.n - 1] != '\n') buf_str(out, "\n\\ No newline at end of file\n");
}

/* Writes lines [from, to) of the script as one hunk; ia and ib are the numbers of lines of a and b
 * before it. */
static void hunk(struct buf *out, const struct lines *a, const struct lines *b, const char *s,
                 size_t from, size_t to, size_t ia, size_t ib) {
    size_t na = 0, nb = 0;
    for (size_t k = from; k < to; k++) {
        na += s[k] != '+';
        nb += s[k] != '-';
    }
    buf_fmt(out, "@@ -%zu,%zu +%zu,%zu @@\n", na ? ia + 1 : ia, na, nb ? ib + 1 : ib, nb);
    for (size_t k = from; k < to; k++) {
        put_line(out, s[k], s[k] == '+' ? b->v[ib] : a->v[ia]);
        ia += s[k] != '+';
        ib += s[k] != '-';
    }
}

bool text_diff(const char *a, size_t na, const char *name_a, const char *b, size_t nb,
               const char *name_b, struct buf *out) {
    if (na == nb && memcmp(a, b, na) == 0) return false;
    struct lines x = split_lines(a, na), y = split_lines(b, nb);
    size_t n, ia = 0, ib = 0;
    char *s = edit_script(&x, &y, &n);
    buf_fmt(out, "--- %s\n+++ %s\n", name_a, name_b);
    for (size_t k = 0; k < n;) {
        if (s[k] == ' ') {
            ia++;
            ib++;
            k++;
            continue;
        }
        size_t back = k < CONTEXT ? k : CONTEXT, end = k,
               quiet = 0; /* equal lines before k since the last hunk */
        while (end < n && quiet <= 2 * CONTEXT) {
            quiet = s[end] == ' ' ? quiet + 1 : 0;
            end++;
        }
        size_t last = end - quiet, stop = last + CONTEXT < n ? last + CONTEXT : n;
        if (back > ia) back = ia;
        hunk(out, &x, &y, s, k - back, stop, ia - back, ib - back);
        for (; k < stop; k++) {
            ia += s[k] != '+';
            ib += s[k] != '-';
        }
    }
    free(s);
    free(x.v);
    free(y.v);
    return true;
}
