// SPDX-License-Identifier: MIT
/* text/size.c - sizes and times as people write them: 16GiB, 24gb, 1.5 g, 700M; 90m, 2h, 1.5 hours.
 * Letters may be small or large and a space may stand before the unit. A size without a unit counts
 * bytes, and is believed from 1 MiB on: nobody has a card of 24 bytes, so "24" asks back. A time
 * without one counts what the option's help says. */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "text/size.h"

struct unit {
    const char *suffix;
    double factor;
};
static const struct unit sizes[] = {
    {"B", 1},        {"bytes", 1},    {"K", 1e3},      {"M", 1e6},     {"G", 1e9},
    {"T", 1e12},     {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},    {"TB", 1e12},
    {"Ki", 0x1p10},  {"Mi", 0x1p20},  {"Gi", 0x1p30},  {"Ti", 0x1p40}, {"KiB", 0x1p10},
    {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}, {NULL, 0}};

enum { LEAST_BARE = 1 << 20 }; /* a number without a unit below this is a slip */

static const struct unit times[] = {
    {"s", 1},     {"sec", 1},     {"second", 1},   {"seconds", 1}, {"m", 60},      {"min", 60},
    {"mins", 60}, {"minute", 60}, {"minutes", 60}, {"h", 3600},    {"hour", 3600}, {"hours", 3600},
    {"d", 86400}, {"day", 86400}, {"days", 86400}, {NULL, 0}};

/* Finds a unit's factor, which is 0 where the table does not have it. */
static double unit_factor(const struct unit *u, const char *s) {
    while (u->suffix && strcasecmp(u->suffix, s) != 0) u++;
    return u->factor;
}

int size_parse(const char *text, const char *what, uint64_t *out, struct err *e) {
    char *end = NULL;
    errno = 0;
    double v = strtod(text, &end);
    bool ok = end != text && errno == 0 && v >= 0, bare = ok && !*end;
    while (ok && isspace((unsigned char)*end)) end++;
    double factor = !ok ? 0 : bare ? 1 : unit_factor(sizes, end);
    if (factor <= 0 || v * factor >= 0x1p62)
        return err_set(e, ERR_USAGE,
                       "%s: '%s' is not a size; write a number and a unit: K M G T (or KB ...), "
                       "powers of 1000, or KiB MiB GiB TiB, powers of 1024, such as 24GiB",
                       what, text);
    if (bare && v > 0 && v < LEAST_BARE)
        return err_set(e, ERR_USAGE, "%s: %s bytes? write %sGiB, or %sB if bytes are meant", what,
                       text, text, text);
    *out = (uint64_t)(v * factor);
    return 0;
}

int time_parse(const char *text, const char *what, const char *unit, double *out, struct err *e) {
    char *end = NULL;
    errno = 0;
    double v = strtod(text, &end), own = unit_factor(times, unit);
    bool ok = end != text && errno == 0 && v >= 0;
    while (ok && isspace((unsigned char)*end)) end++;
    double factor = !ok ? 0 : *end ? unit_factor(times, end) : own;
    if (factor <= 0 || !(v * factor < 1e12))
        return err_set(e, ERR_USAGE,
                       "%s: '%s' is not a time; write a number of %s, or one with a unit: 45s, "
                       "90m, 2h, 1.5d",
                       what, text, unit);
    *out = v * factor / own;
    return 0;
}
