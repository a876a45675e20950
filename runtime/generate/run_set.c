// SPDX-License-Identifier: MIT
/* runtime/generate/run_set.c - table of the settings of an answer, one row per name (run_set.h). */
#include "runtime/generate/run_set.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"

enum kind { REAL, WHOLE, COUNT, SEED, WORD };
struct row {
    const char *name;
    enum kind kind;
    double least, most;
    size_t at;
    const char *key; /* key in the file after "general.sampling."; NULL: none */
    /* Value if the file has none of the keys, if it has some of them but not this one, and if it
     * says -1, which other programs take as all tokens (COUNT). */
    double otherwise[3];
    const char *about;
};
#define SAMPLE(field) offsetof(struct run_set, sample.field)
// clang-format off
static const struct row rows[] = {
    {"temp", REAL, 0, 100, SAMPLE(temp), "temp", {0.8, 1}, "temperature; 0: always the most likely token"},
    {"top-k", COUNT, 0, INT32_MAX, SAMPLE(top_k), "top_k", {40, 0, 0}, "only the K most likely tokens; 0: all"},
    {"top-p", REAL, 0, 1, SAMPLE(top_p), "top_p", {0.95, 1}, "only the most likely tokens of this total probability; 1: all"},
    {"min-p", REAL, 0, 1, SAMPLE(min_p), "min_p", {0.05, 0}, "none below this share of the most likely token; 0: all"},
    {"repeat-penalty", REAL, 0.01, 100, SAMPLE(repeat_penalty), "penalty_repeat", {1, 1}, "penalty for repeated tokens; 1: off"},
    {"repeat-last-n", COUNT, 0, INT32_MAX, SAMPLE(repeat_last_n), "penalty_last_n", {64, 64, INT32_MAX}, "how many tokens back the penalties look"},
    {"presence-penalty", REAL, -2, 2, SAMPLE(presence_penalty), NULL, {0, 0}, "penalty for tokens used before; 0: off"},
    {"frequency-penalty", REAL, -2, 2, SAMPLE(frequency_penalty), NULL, {0, 0}, "penalty for each time a token was used; 0: off"},
    {"seed", SEED, 0, 9007199254740992.0, offsetof(struct run_set, seed), NULL, {0, 0}, "seed of the next answer; -1: random"},
    {"n", WHOLE, 1, INT32_MAX, offsetof(struct run_set, n), NULL, {0, 0}, "most tokens of an answer; -1: until the context is full"},
    {"think", WORD, 0, 0, 0, NULL, {0, 0}, "on, off, auto: whether the model reasons; show, fold, hide: what you see of it"},
};
// clang-format on

/* Returns the member of s that the row describes. */
static void *field_at(const struct row *r, struct run_set *s) {
    return (char *)s + r->at;
}

/* Other programs' names for our settings. */
static const char *const others[][2] = {{"temperature", "temp"},
                                        {"n-predict", "n"},
                                        {"num-predict", "n"},
                                        {"max-tokens", "n"},
                                        {"repetition-penalty", "repeat-penalty"}};

/* Returns whether two names are equal, treating '_' and '-' as the same. */
static bool is_name(const char *ours, const char *typed) {
    while (*ours && (*ours == *typed || (*ours == '-' && *typed == '_'))) ours++, typed++;
    return !*ours && !*typed;
}

/* Returns the setting of this name or alias; NULL: unknown. */
static const struct row *find(const char *name) {
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (is_name(others[i][0], name)) name = others[i][1];
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (is_name(rows[i].name, name)) return &rows[i];
    return NULL;
}

/* Returns whether v is within the row's limits; false for NaN. */
static bool in_range(const struct row *r, double v) {
    return v >= r->least && v <= r->most; /* false for NaN */
}

bool run_set_range(const char *key, double *least, double *most) {
    static const char head[] = "general.sampling.";
    const size_t n = sizeof head - 1;
    for (size_t i = 0; i < COUNT_OF(rows) && strncmp(key, head, n) == 0; i++) {
        if (!rows[i].key || strcmp(rows[i].key, key + n) != 0) continue;
        *least = rows[i].kind == COUNT ? -1 : rows[i].least;
        *most = rows[i].most;
        return true;
    }
    return false;
}

/* Stores v in the row's member, converted to its type. */
static void store_value(const struct row *r, struct run_set *s, double v) {
    if (r->kind == REAL)
        *(float *)field_at(r, s) = (float)v;
    else if (r->kind == COUNT)
        *(int32_t *)field_at(r, s) = (int32_t)v;
    else
        *(int64_t *)field_at(r, s) = (int64_t)v;
}

/* Sets a random seed of 48 bits. ERR_SYS: the system provides no random numbers. */
static int random_seed(struct run_set *s, struct err *e) {
    uint64_t v = 0;
    if (!os_random(&v, sizeof v))
        return err_sys(e, "the system provides no random numbers; use --seed");
    /* Short enough to type, and represented exactly by any JSON reader. */
    s->seed = (int64_t)(v >> 16);
    s->seed_given = false;
    return 0;
}

/* Returns the number of the file's key; `otherwise` if the key is missing. */
static double read_number(const struct row *r, const struct gguf *g, const char *key,
                          double otherwise) {
    const struct gguf_kv *kv = gguf_find(g, key);
    if (r->kind == REAL) return gguf_f64_or(g, key, otherwise);
    if (kv && (kv->type == GV_I32 || kv->type == GV_I64) && gguf_kv_i64(kv, 0) == -1)
        return r->otherwise[2];
    return (double)gguf_u64_or(g, key, (uint64_t)otherwise);
}

int run_set_init(struct run_set *s, const struct gguf *g, struct err *e) {
    bool any = false;
    char key[64];
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(key, sizeof key, "general.sampling.%s", rows[i].key ? rows[i].key : "-");
        any = any || (rows[i].key && g && gguf_find(g, key));
    }
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *r = &rows[i];
        if (r->kind != REAL && r->kind != COUNT) continue;
        double v = r->otherwise[any];
        snprintf(key, sizeof key, "general.sampling.%s", r->key ? r->key : "-");
        if (r->key && g) {
            const double file = read_number(r, g, key, v);
            if (in_range(r, file))
                v = file;
            else
                log_debug("%s: ignoring %g, which is outside %g to %g", key, file, r->least,
                          r->most);
        }
        store_value(r, s, v);
    }
    s->n = -1;
    return random_seed(s, e);
}

/* Sets whether the model reasons, or how reasoning is shown, depending on the word. */
static int set_think(struct run_set *s, const char *where, const char *text, struct err *e) {
    static const char *const model[] = {"auto", "on", "off"}, *const seen[] = {"show", "fold",
                                                                               "hide"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, model[i]) == 0) {
            s->think = (enum run_think)i;
            return 0;
        }
        if (strcmp(text, seen[i]) == 0) {
            s->thinking = (enum run_thinking)i;
            return 0;
        }
    }
    return err_set(e, ERR_USAGE, "%sthink: '%s' is not one of on, off, auto, show, fold, hide",
                   where, text);
}

int run_set(struct run_set *s, const char *where, const char *name, const char *text,
            struct err *e) {
    const struct row *r = find(name);
    char *end = NULL;
    if (!r) {
        struct buf b = {0};
        for (size_t i = 0; i < COUNT_OF(rows); i++)
            buf_fmt(&b, "%s%s", i ? ", " : "", rows[i].name);
        err_set(e, ERR_USAGE, "%s%s: unknown setting; known settings: %s", where, name, b.data);
        buf_release(&b);
        return ERR_USAGE;
    }
    if (r->kind == WORD) return set_think(s, where, text, e);
    errno = 0;
    const double v = strtod(text, &end);
    const bool number = end != text && !*end && !strpbrk(text, "xXpP \t");
    const bool whole = number && isfinite(v) && !(fabs(v - trunc(v)) > 0);
    if (r->kind == SEED && whole && v > -1.5 && v < -0.5) return random_seed(s, e);
    const bool until_full = r->kind == WHOLE && whole && v > -1.5 && v < -0.5;
    if (!until_full && (!number || !in_range(r, v) || (r->kind != REAL && !whole)))
        return err_set(e, ERR_USAGE, "%s%s: '%s' is not a %snumber from %.16g to %.16g%s", where,
                       name, text, r->kind == REAL ? "" : "whole ", r->least, r->most,
                       r->kind == WHOLE || r->kind == SEED ? ", or -1" : "");
    store_value(r, s, v);
    if (r->kind == WHOLE) s->n_given = true;
    if (r->kind == SEED) s->seed_given = true;
    return 0;
}

/* Appends a line with the name, value and description of a setting. */
static void show_one(const struct run_set *s, const struct row *r, struct buf *out) {
    static const char *const model[] = {"auto", "on", "off"}, *const seen[] = {"show", "fold",
                                                                               "hide"};
    struct run_set copy = *s;
    char value[48];
    if (r->kind == REAL)
        snprintf(value, sizeof value, "%.6g", (double)*(float *)field_at(r, &copy));
    else if (r->kind == COUNT)
        snprintf(value, sizeof value, "%" PRId32, *(int32_t *)field_at(r, &copy));
    else if (r->kind == WORD)
        snprintf(value, sizeof value, "%s, %s", model[s->think], seen[s->thinking]);
    else
        snprintf(value, sizeof value, "%" PRId64, *(int64_t *)field_at(r, &copy));
    buf_fmt(out, "  %-18s %-12s %s\n", r->name, value, r->about);
}

int run_set_given(struct run_set *s, const char *const text[RUN_SETS], struct err *e) {
    static const char *const name[RUN_SETS] = {
        [SET_TEMP] = "temp",
        [SET_TOP_K] = "top-k",
        [SET_TOP_P] = "top-p",
        [SET_MIN_P] = "min-p",
        [SET_REPEAT_PENALTY] = "repeat-penalty",
        [SET_REPEAT_LAST_N] = "repeat-last-n",
        [SET_PRESENCE_PENALTY] = "presence-penalty",
        [SET_FREQUENCY_PENALTY] = "frequency-penalty",
        [SET_SEED] = "seed",
        [SET_N_PREDICT] = "n-predict",
    };
    for (int i = 0; i < RUN_SETS; i++)
        if (text[i]) TRY(run_set(s, "--", name[i], text[i], e));
    return 0;
}

bool run_set_show(const struct run_set *s, const char *name, struct buf *out) {
    const struct row *only = name && *name ? find(name) : NULL;
    if (name && *name && !only) return false;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (!only || only == &rows[i]) show_one(s, &rows[i], out);
    return true;
}
