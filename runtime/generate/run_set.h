// SPDX-License-Identifier: MIT
/* runtime/generate/run_set.h - settings of an answer: options of `hone run` that /set can change in
 * a conversation. One table holds names and ranges for both. */
#ifndef HONE_GENERATE_RUN_SET_H
#define HONE_GENERATE_RUN_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "containers/gguf.h"
#include "runtime/generate/sample.h"

enum run_think { THINK_AUTO, THINK_ON, THINK_OFF }; /* value passed to the template */
enum run_thinking { THINKING_SHOW, THINKING_FOLD, THINKING_HIDE }; /* display on a terminal */

struct run_set {
    struct sample_opts sample;
    int64_t n;    /* maximum number of tokens per answer; -1: until the context is full */
    bool n_given; /* the user set n */
    int64_t seed; /* for the next answer */
    bool seed_given;
    enum run_think think;
    enum run_thinking thinking;
};
/* Initializes the settings from the file's sampling values (general.sampling.*), or to moderate
 * defaults. Values out of range are ignored. The seed is random. */
int run_set_init(struct run_set *s, const struct gguf *g, struct err *e);
/* Sets `name` ("top-p" or "top_p") from text. where: "--" or "/set ", for messages. ERR_USAGE: out
 * of range; the message gives the range. */
int run_set(struct run_set *s, const char *where, const char *name, const char *text,
            struct err *e);
/* Returns whether the key of a file ("general.sampling.temp") is a setting, and sets its limits. A
 * number of tokens may also be -1, which other programs take as all. */
bool run_set_range(const char *key, double *least, double *most);
/* Settings that are options of hone run; most are also options of hone serve. */
enum run_set_id {
    SET_TEMP,
    SET_TOP_K,
    SET_TOP_P,
    SET_MIN_P,
    SET_REPEAT_PENALTY,
    SET_REPEAT_LAST_N,
    SET_PRESENCE_PENALTY,
    SET_FREQUENCY_PENALTY,
    SET_SEED,
    SET_N_PREDICT,
    RUN_SETS
};
/* Applies settings given as text; NULL: not given. */
int run_set_given(struct run_set *s, const char *const text[RUN_SETS], struct err *e);
/* Appends "name value" lines for all settings, or for the named one. Returns false if there is no
 * such setting. */
bool run_set_show(const struct run_set *s, const char *name, struct buf *out);

#endif
