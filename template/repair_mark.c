// SPDX-License-Identifier: MIT
/* template/repair_mark.c - the first line of a repaired template: whether it was repaired, by which
 * version, and where its body begins.
 *
 * Version 1 recorded only the ids of the pieces, so its last lines show where the prelude ends. */
#include "template/repair_int.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"

static const char mark[] = "{%- set hone_repair = '";
static const char end[] = "' %}\n";
static const char *const ids[P_COUNT] = {
#define PIECE(name, id, kind, rule, mends, why) [P_##name] = id,
#include "template/repair_pieces.def"
#undef PIECE
};

static unsigned checksum(const char *s, size_t n) {
    return (unsigned)hash_u64(s, n);
}

void mark_write(struct buf *out, const struct repair_plan *p, const struct buf *prelude,
                const char *body, size_t len) {
    buf_fmt(out, "%sv%d %zu %08x %08x", mark, REPAIR_VERSION, prelude->len,
            checksum(prelude->data, prelude->len), checksum(body, len));
    for (int k = 0; k < P_COUNT; k++)
        if (plan_has(p, (enum repair_piece)k)) buf_fmt(out, " %s", ids[k]);
    buf_str(out, end);
}

static bool starts(const char *s, size_t n, const char *with) {
    return n >= strlen(with) && memcmp(s, with, strlen(with)) == 0;
}

/* Returns whether the first word of a mark of version 1 is the id of a piece. */
static bool known_id(const char *s, size_t n) {
    for (int k = 0; k < P_COUNT; k++) {
        const size_t m = strlen(ids[k]);
        if (n > m && memcmp(s, ids[k], m) == 0 && (s[m] == ' ' || s[m] == '\'')) return true;
    }
    return false;
}

/* Returns the number of bytes of a prelude of version 1. */
static size_t first_prelude(const char *s, size_t n) {
    static const char loop[] = "{%- set hone = namespace(",
                      last[] = "{%- set messages = hone.m %}\n", names[] = "{%- if tools and not ",
                      set[] = " = list.v %}\n{%- endif %}\n";
    static const char *const lines[] = {
        "{%- set tools = tools or [] %}\n",
        "{%- if tools is defined and not tools %}{%- set tools = none %}{%- endif %}\n"};
    size_t at = 0;
    const char *p = starts(s, n, loop) ? memmem(s, n, last, sizeof last - 1) : NULL;
    if (p) at = (size_t)(p - s) + sizeof last - 1;
    while (starts(s + at, n - at, names) &&
           (p = memmem(s + at, n - at, set, sizeof set - 1)) != NULL)
        at = (size_t)(p - s) + sizeof set - 1;
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        if (starts(s + at, n - at, lines[i])) at += strlen(lines[i]);
    return at;
}

enum repair_marked mark_read(const char *src, size_t len, size_t *body) {
    const char *line = starts(src, len, mark) ? memmem(src, len, end, sizeof end - 1) : NULL;
    int version = 0, used = 0;
    unsigned sum[2];
    size_t n = 0;
    char text[80];
    if (!line) return MARK_NONE;
    const char *words = src + sizeof mark - 1, *rest = line + sizeof end - 1;
    const size_t left = len - (size_t)(rest - src);
    snprintf(text, sizeof text, "%.*s", (int)(line - words > 79 ? 79 : line - words), words);
    if (sscanf(text, "v%d %zu %8x %8x%n", &version, &n, &sum[0], &sum[1], &used) != 4) {
        if (!known_id(words, (size_t)(line + 1 - words))) return MARK_NONE;
        n = first_prelude(rest, left);
        *body = (size_t)(rest - src) + n;
        return MARK_EARLIER;
    }
    if (n > left || checksum(rest, n) != sum[0]) return MARK_NONE;
    *body = (size_t)(rest - src) + n;
    const bool unchanged = checksum(rest + n, left - n) == sum[1];
    return unchanged && version >= REPAIR_VERSION ? MARK_OURS : MARK_EARLIER;
}
