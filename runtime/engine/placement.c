// SPDX-License-Identifier: MIT
/* runtime/engine/placement.c - parser of --place files. */
#include "runtime/engine/placement.h"

#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"

enum { PLACE_BYTES = 1 << 20 };

enum placement_at placement_experts(const struct placement *p, int block) {
    return p && block >= 0 && block < PLACE_BLOCKS ? (enum placement_at)p->experts[block]
                                                   : PLACE_FREE;
}

int placement_layer(const struct placement *p, int block) {
    return p && block >= 0 && block < PLACE_BLOCKS ? p->layer[block] : PLACE_ANY;
}

/* Cuts off the next word of a line and advances *at past it. NULL: end of line. */
static char *next_word(char **at) {
    char *w = *at + strspn(*at, " \t\r");
    if (!*w || *w == '#') return NULL;
    *at = w + strcspn(w, " \t\r#");
    if (**at == '#')
        **at = 0; /* the rest of the line is a comment */
    else if (**at)
        *(*at)++ = 0;
    return w;
}

/* Parses "3" or "3-7" and sets *first and *last. False: invalid, or a block beyond the limit. */
static bool parse_blocks(const char *text, int *first, int *last) {
    char *end;
    const size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 4) return false;
    *first = *last = (int)strtol(text, &end, 10);
    if (*end == '-') {
        const size_t k = strspn(end + 1, "0123456789");
        if (k == 0 || k > 4) return false;
        *last = (int)strtol(end + 1, &end, 10);
    }
    return !*end && *first <= *last && *last < PLACE_BLOCKS;
}

/* Returns N of "cuda:N", or PLACE_ANY for any other text. */
static int16_t parse_device(const char *text) {
    static const char name[] = "cuda:";
    const size_t n = sizeof name - 1;
    if (strncmp(text, name, n) != 0 || strspn(text + n, "0123456789") != strlen(text + n) ||
        !text[n] || strlen(text + n) > 3)
        return PLACE_ANY;
    return (int16_t)strtol(text + n, NULL, 10);
}

/* Parses one line, such as "experts 4-7 cpu", into p; the line may be blank. False: malformed. */
static bool read_line(struct placement *p, char *line) {
    char *at = line, *what = next_word(&at), *which = what ? next_word(&at) : NULL,
         *where = which ? next_word(&at) : NULL;
    int first, last;
    if (!what) return true;
    if (!where || next_word(&at) || !parse_blocks(which, &first, &last)) return false;
    if (strcmp(what, "layers") == 0) {
        const int16_t to = parse_device(where);
        for (int i = first; i <= last; i++) p->layer[i] = to;
        return to != PLACE_ANY;
    }
    const bool cpu = strcmp(where, "cpu") == 0;
    if (strcmp(what, "experts") != 0 || (!cpu && strcmp(where, "device") != 0)) return false;
    for (int i = first; i <= last; i++) p->experts[i] = cpu ? PLACE_CPU : PLACE_DEVICE;
    return true;
}

int placement_read(struct placement *p, const char *path, struct err *e) {
    char *text = NULL;
    size_t n = 0;
    int rc = 0, number = 0;
    memset(p, 0, sizeof *p);
    for (int i = 0; i < PLACE_BLOCKS; i++) p->layer[i] = PLACE_ANY;
    TRY(io_read_file(&text, &n, path, PLACE_BYTES, e));
    if (memchr(text, 0, n)) rc = err_set(e, ERR_DATA, "%s: not a text file", path);
    for (char *line = text, *next; line && !rc; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        number++;
        if (!read_line(p, line))
            rc = err_set(e, ERR_DATA,
                         "%s, line %d: expected \"experts FIRST[-LAST] cpu\" or \"... device\", or "
                         "\"layers FIRST[-LAST] cuda:N\", blocks from 0 to %d",
                         path, number, PLACE_BLOCKS - 1);
    }
    free(text);
    return rc;
}
