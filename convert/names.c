// SPDX-License-Identifier: MIT
/* convert/names.c - parser of model names. A name is split at '-', and each part is classified
 * separately. The unclassified parts at the beginning are the base name, the other unclassified
 * parts the finetune. ASCII only. */
#include "convert/names.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_PARTS = 40 };
enum { SIZE = 1, FINETUNE = 2, VERSION = 4, TYPE = 8, BASE = 16 };
struct part {
    char s[64];
    unsigned is;
};

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
/* Returns the number of digits that s begins with. */
static size_t count_digits(const char *s) {
    return strspn(s, "0123456789");
}

/* Returns whether s is a version: 2407, v0.1, Iter3. */
static bool is_version(const char *s) {
    if (strncasecmp(s, "iter", 4) == 0)
        s += 4;
    else if (*s == 'v' || *s == 'V')
        s++;
    for (;;) {
        size_t n = count_digits(s);
        if (!n) return false;
        s += n;
        if (!*s) return true;
        if (*s++ != '.') return false;
    }
}

/* Returns whether s is a file type as in names of GGUF files: Q4_K_M, IQ2_XXS, BF16, FP32. */
static bool is_type(const char *s) {
    const char *q = *s == 'i' || *s == 'I' ? s + 1 : s;
    if ((*q == 'q' || *q == 'Q') && is_digit(q[1])) {
        for (q += 2; q[0] == '_' && (isalnum((unsigned char)q[1]) || q[1] == '_'); q += 2) continue;
        return !*q;
    }
    if (*s == 'b' || *s == 'B') s++;
    if (*s != 'f' && *s != 'F') return false;
    s++;
    if (*s == 'p' || *s == 'P') s++;
    return strcmp(s, "16") == 0 || strcmp(s, "32") == 0;
}

/* Returns whether s is in the NULL-terminated list, ignoring case. */
static bool is_among(const char *s, const char *const *v) {
    for (; *v; v++)
        if (strcasecmp(s, *v) == 0) return true;
    return false;
}

/* Returns whether s is a size: 7B, 0.5b, 1_6B, 8x7B, A3B, 7b1, mini. */
static bool is_size(const char *s) {
    static const char *const words[] = {"small", "mini", "medium", "large", "xl", "xxl", NULL};
    if (is_among(s, words)) return true;
    size_t n = count_digits(s);
    if (*s == 'A' || *s == 'a')
        s++;
    else if (n && (s[n] == 'x' || s[n] == 'X'))
        s += n + 1;
    n = count_digits(s);
    if (!n) return false;
    s += n;
    if ((*s == '.' || *s == '_') && is_digit(s[1])) s += 1 + count_digits(s + 1);
    if (!*s || !strchr("KMBTkmbt", *s)) return false;
    return !s[1] || (is_digit(s[1]) && !s[2]);
}

/* Normalises a size: 1_6B becomes 1.6B, 7b1 becomes 7.1b, 7b becomes 7B. */
static void normalize_size(char *s) {
    size_t n = strlen(s);
    for (char *c = s; *c; c++)
        if (*c == '_') *c = '.';
    if (n > 2 && is_digit(s[n - 1]) && n + 2 < sizeof((struct part *)0)->s) {
        char unit = s[n - 2], last = s[n - 1];
        s[n - 2] = '.', s[n - 1] = last, s[n] = unit, s[n + 1] = 0;
        n++;
    }
    if (n > 1 && is_digit(s[n - 2]) && strchr("kmbt", s[n - 1]))
        s[n - 1] = (char)toupper((unsigned char)s[n - 1]);
}

/* Returns the value of a size such as "7B"; NaN for words, 8x7B and A3B. */
static double size_of(const char *s) {
    static const char units[] = " KMBT";
    static const double powers[] = {1, 1e3, 1e6, 1e9, 1e12};
    char *end;
    double v = is_digit(*s) ? strtod(s, &end) : (double)NAN;
    if (isnan(v) || !*end || end[1]) return (double)NAN;
    const char *unit = strchr(units, *end);
    return unit ? v * powers[unit - units] : (double)NAN;
}

/* Returns whether a number that looks like a model size is so far from this model's size
 * that it must be a context length or an amount of training data. */
static bool is_other_number(const struct part *p, const struct part *next, int64_t n_params) {
    double label = size_of(p->s), n = (double)n_params;
    if (!n_params || isnan(label)) return false;
    if (next && (*next->s == 'A' || *next->s == 'a') && is_size(next->s)) {
        char active[sizeof next->s];
        snprintf(active, sizeof active, "%s", next->s);
        normalize_size(active);
        /* here n counts active parameters */
        if (fabs(size_of(active + 1) - n) <= 7 * n / 8) return false;
    }
    return fabs(label - n) > floor(7 * n / 8);
}

/* Classifies a part of a model's name as size, version, fine-tune and so on. */
static void classify_part(struct part *p, const struct part *next, bool first, int64_t n_params) {
    static const char *const tunes[] = {"chat", "instruct", "vision", "lora", NULL};
    if (is_version(p->s)) {
        p->is = VERSION;
    } else if (is_type(p->s)) {
        p->is = TYPE;
        for (char *c = p->s; *c; c++) *c = (char)toupper((unsigned char)*c);
    } else if (!first && is_size(p->s)) {
        normalize_size(p->s);
        p->is = is_other_number(p, next, n_params) ? FINETUNE : SIZE;
        char *last = p->s + strlen(p->s) - 1;
        if (p->is == FINETUNE) *last = (char)tolower((unsigned char)*last);
    } else if (!first && is_among(p->s, tunes)) {
        p->is = FINETUNE;
    }
}

/* Drops size words ("mini") if there is also a size with digits. */
static void drop_words(struct part *p, int n) {
    bool number = false;
    for (int i = 0; i < n; i++) number |= (p[i].is & SIZE) && strpbrk(p[i].s, "0123456789") != NULL;
    for (int i = 0; i < n && number; i++)
        if ((p[i].is & SIZE) && !strpbrk(p[i].s, "0123456789.")) p[i].is = 0;
}

/* Classifies the remaining parts: those at the beginning, including versions between them, form the
 * base name, later ones the finetune. */
static void find_base(struct part *p, int n) {
    bool start = true;
    for (int i = 0; i < n; i++) {
        if (start && ((!p[i].is && isalpha((unsigned char)*p[i].s)) || (p[i].is & VERSION))) {
            p[i].is |= BASE;
        } else {
            start = false;
            if (!p[i].is) p[i].is = FINETUNE;
        }
    }
    for (int i = n - 1; i >= 0 && (p[i].is & BASE) && p[i].is != BASE; i--) p[i].is ^= BASE;
}

/* Joins, with dashes, the parts whose kinds include one of `is` and none of `not_`. */
static void join_parts(char out[NAMES_MAX], const struct part *p, int n, unsigned is,
                       unsigned not_) {
    size_t k = 0;
    out[0] = 0;
    for (int i = 0; i < n; i++) {
        bool twice = false;
        if (!(p[i].is & is) || (p[i].is & not_)) continue;
        for (int j = 0; j < i && is == SIZE; j++)
            twice |= (p[j].is & SIZE) && strcmp(p[j].s, p[i].s) == 0;
        if (twice) continue;
        k += (size_t)snprintf(out + k, NAMES_MAX - k, "%s%s", k ? "-" : "", p[i].s);
        if (k >= NAMES_MAX) return;
    }
}

void names_parse(struct names *r, const char *id, int64_t n_params) {
    struct part p[MAX_PARTS];
    int n = 0;
    memset(r, 0, sizeof *r);
    const char *slash = strchr(id, '/'), *name = slash ? slash + 1 : id;
    if (strlen(id) >= NAMES_MAX) return;
    if (strchr(id, ' ')) { /* a sentence */
        snprintf(r->full, sizeof r->full, "%s", id);
        return;
    }
    snprintf(r->full, sizeof r->full, "%s", name);
    if (slash && *id != '.') snprintf(r->org, sizeof r->org, "%.*s", (int)(slash - id), id);
    for (const char *s = name; *s;) {
        size_t len = strcspn(s, "-");
        /* Not a model name. */
        if (len && (n == MAX_PARTS || len >= sizeof p[0].s - 2)) return;
        if (len) {
            memset(&p[n], 0, sizeof p[n]);
            memcpy(p[n++].s, s, len);
        }
        s += len + (s[len] == '-');
    }
    for (int i = 0; i < n; i++)
        classify_part(&p[i], i + 1 < n ? &p[i + 1] : NULL, i == 0, n_params);
    drop_words(p, n);
    find_base(p, n);
    join_parts(r->basename, p, n, BASE, 0);
    join_parts(r->size_label, p, n, SIZE, 0);
    join_parts(r->finetune, p, n, FINETUNE, 0);
    join_parts(r->version, p, n, VERSION, BASE);
    /* A base name alone is not informative enough. */
    if (!*r->size_label && !*r->finetune && !*r->version) *r->basename = 0;
}

/* Returns whether s looks like "v0.1" or "7b"; titles keep these unchanged. */
static bool is_number(const char *s, size_t n) {
    if (is_digit(*s)) return true;
    if (*s != 'v' || n < 2) return false;
    bool dot = true;
    for (size_t i = 1; i < n; i++) {
        if (is_digit(s[i]))
            dot = false;
        else if (s[i] == '.' && !dot)
            dot = true;
        else
            return false;
    }
    return !dot;
}

void names_title(const char *id, char out[NAMES_MAX]) {
    size_t k = 0;
    for (const char *s = id; *s && k + 2 < NAMES_MAX;) {
        size_t n = strcspn(s, "- \t\n");
        bool lower = false, upper = false, start = true;
        for (size_t i = 0; i < n; i++) {
            lower |= islower((unsigned char)s[i]) != 0;
            upper |= isupper((unsigned char)s[i]) != 0;
        }
        bool title = lower && !upper && !is_number(s, n);
        if (n && k) out[k++] = ' ';
        for (size_t i = 0; i < n && k + 1 < NAMES_MAX; i++) {
            bool alpha = isalpha((unsigned char)s[i]) != 0;
            out[k++] = title && start && alpha ? (char)toupper((unsigned char)s[i]) : s[i];
            start = !alpha;
        }
        s += n + (s[n] != 0);
    }
    out[k] = 0;
}

/* Formats a number of weights with at least two digits: 596M, 2.6B, 35B. */
static void fmt_rounded(double n, char out[32]) {
    static const struct {
        double unit;
        char name;
    } units[] = {{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}};
    double scaled = n / 1e3;
    char name = 'K';
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (n > units[i].unit) {
            scaled = n / units[i].unit, name = units[i].name;
            break;
        }
    double whole = nearbyint(scaled);
    int have = whole >= 10 ? 2 : whole >= 1 ? 1 : 0;
    snprintf(out, 32, "%.*f%c", 2 - have, scaled, name);
}

void names_size_label(int64_t n_params, int64_t n_expert_params, int64_t n_experts, char out[32]) {
    if (n_experts <= 0) {
        fmt_rounded((double)n_params, out);
        return;
    }
    char one[32], all[64];
    fmt_rounded((double)(n_params - n_expert_params + n_expert_params / n_experts), one);
    snprintf(all, sizeof all, "%lldx%s", (long long)n_experts, one);
    memcpy(out, all, 31);
    out[31] = 0;
}
