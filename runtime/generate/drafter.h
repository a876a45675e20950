// SPDX-License-Identifier: MIT
/* runtime/generate/drafter.h - the model that drafts tokens for another one, the trunk: the trunk's
 * MTP block, or a draft file (an MTP block without its model, or EAGLE-3).
 *
 * Both predict from pairs: the trunk's row of a position, and the token after it, give the token
 * after that. The trunk's row is its hidden row (input of the head) for an MTP block, and the
 * inputs of three layers for EAGLE-3. To draft further, the draft's own output takes the place of
 * the trunk's row, and the drafted token that of the next one. */
#ifndef HONE_RUNTIME_GENERATE_DRAFTER_H
#define HONE_RUNTIME_GENERATE_DRAFTER_H

#include "runtime/engine/session.h"

enum { DRAFTER_STEPS = 3 }; /* maximum number of tokens drafted at a time */

struct drafter {
    struct model *m;
    struct session *s;
    bool taps;        /* the trunk's rows are session_pass.taps, not hidden rows */
    int steps;        /* tokens to draft at a time */
    int64_t n_row;    /* values in a row of the trunk */
    int64_t n_in;     /* values in a row of session_pass.hidden_in */
    int64_t n_own;    /* values in a row of the draft's own output */
    int64_t n_logits; /* tokens that the draft can propose */
    int32_t *ids;     /* [n_logits] the trunk's numbers of these tokens; NULL: the same */
    bool warned;      /* that logits are not finite */
};

/* Opens what drafts for the trunk, in a session with the same options. how: "mtp", or the path of a
 * draft file. The trunk, on the CPU for EAGLE-3, must outlive it. ERR_DATA: the model has no MTP
 * block, or the file does not fit it; ERR_USAGE: EAGLE-3 on a device. */
int drafter_open(struct drafter **out, struct session *trunk, const char *how, struct err *e);
void drafter_close(struct drafter *d); /* accepts NULL */
/* Returns ERR_USAGE unless how is "mtp" or an existing file. names: what the option takes, for the
 * message. */
int drafter_check(const char *how, const char *option, const char *names, struct err *e);
/* Sets where a pass of the trunk writes the rows that the draft reads; hidden: where it writes
 * hidden rows if the caller wants them in any case, or NULL. */
void drafter_wants(const struct drafter *d, struct session_pass *p, float *rows, float *hidden);
/* Writes one row of session_pass.hidden_in: from a row of the trunk, or from the draft's own
 * output. */
void drafter_put(const struct drafter *d, float *in, const float *row);
void drafter_put_own(const struct drafter *d, float *in, const float *own);
/* Runs the draft over pairs (session_pass.hidden_in). own: its outputs, for the rows for which
 * `hidden` would be written (all of `ids`); NULL: not wanted. */
int drafter_pass(struct drafter *d, struct session_pass *p, float *own, struct err *e);
/* Returns the trunk's number of the draft's token i, and of its likeliest token. Logits that are
 * not finite are reported once, in a warning. */
int32_t drafter_token(const struct drafter *d, int64_t i);
int32_t drafter_best(struct drafter *d, const float *logits);

#endif
