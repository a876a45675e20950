// SPDX-License-Identifier: MIT
/* text/size.c - parsers for sizes and durations: 16GiB, 24gb, 1.5 g, 700M; 90s, 1h30m, 2 days.
 * Units are case-insensitive and may follow a space. A size without a unit is in bytes and rejected
 * below 1 MiB: no GPU has 24 bytes of memory, so "24" is a mistake. A duration needs a unit, except
 * for a job's time limit, where a plain number is in hours. Token counts are powers of two, so
 * their K is 1024. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
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

enum { LEAST_BARE = 1 << 20 }; /* smaller numbers without a unit are considered mistakes */
#define MOST_SECONDS 1e12

static const struct unit times[] = {
    {"ms", 1e-3},    {"s", 1},     {"sec", 1},     {"second", 1},   {"seconds", 1}, {"m", 60},
    {"min", 60},     {"mins", 60}, {"minute", 60}, {"minutes", 60}, {"h", 3600},    {"hour", 3600},
    {"hours", 3600}, {"d", 86400}, {"day", 86400}, {"days", 86400}, {NULL, 0}};

/* Returns a unit's factor; 0: not in the table. */
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
        return err_set(e, ERR_USAGE, "%s: %s bytes? write %s%s, or %sB if bytes are meant", what,
                       text, text, v < 1024 ? "GiB" : "MiB", text);
    *out = (uint64_t)(v * factor);
    return 0;
}

/* Parses "1h30m", "90 min" or "1.5d" at s: numbers with units, each unit smaller than the one
 * before it. Returns seconds, or -1 if malformed. */
static double sum_of_units(const char *s) {
    double sum = 0, last = HUGE_VAL;
    do {
        char *end = NULL, word[8] = {0};
        const double v = strtod(s, &end);
        if (end == s || isspace((unsigned char)*s) || !(v >= 0)) return -1;
        while (isspace((unsigned char)*end)) end++;
        size_t n = 0;
        for (; isalpha((unsigned char)*end) && n < sizeof word - 1; n++) word[n] = *end++;
        const double factor = unit_factor(times, word);
        if (factor <= 0 || factor >= last) return -1;
        sum += v * factor;
        last = factor;
        while (isspace((unsigned char)*end)) end++;
        s = end;
    } while (*s);
    return sum;
}

int time_parse(const char *text, const char *what, double *out, struct err *e) {
    char *end = NULL;
    errno = 0;
    const double v = strtod(text, &end);
    const bool bare = end != text && !*end && v >= 0;
    if (bare && v > 0 && v < MOST_SECONDS)
        return err_set(e, ERR_USAGE,
                       "%s: %s has no unit; write %ss, %sm or %sh for seconds, minutes or hours",
                       what, text, text, text, text);
    const double sum = bare ? v : sum_of_units(text);
    if (errno || !(sum >= 0 && sum < MOST_SECONDS))
        return err_set(e, ERR_USAGE,
                       "%s: '%s' is not a time; write numbers with units, such as 90s, 30m, 12h "
                       "or 1h30m",
                       what, text);
    *out = sum;
    return 0;
}

int hours_parse(const char *text, const char *what, double *out, struct err *e) {
    char *end = NULL;
    errno = 0;
    const double v = strtod(text, &end);
    if (end == text || *end || errno || !(v >= 0 && v * 3600 < MOST_SECONDS))
        return time_parse(text, what, out, e);
    *out = v * 3600;
    return 0;
}

int tokens_parse(const char *text, const char *what, int64_t *out, struct err *e) {
    static const struct unit units[] = {{"", 1},        {"K", 1 << 10},  {"Ki", 1 << 10},
                                        {"M", 1 << 20}, {"Mi", 1 << 20}, {NULL, 0}};
    char *end = NULL;
    errno = 0;
    const long long v = strtoll(text, &end, 10);
    const long long factor = (long long)unit_factor(units, end);
    if (end == text || errno || v < 0 || !factor || v > INT64_MAX / factor)
        return err_set(e, ERR_USAGE,
                       "%s: '%s' is not a number of tokens; write one such as 131072 or 128K "
                       "(1K is 1024)",
                       what, text);
    *out = v * factor;
    return 0;
}
