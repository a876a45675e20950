// SPDX-License-Identifier: MIT
/* serve/replay.h - recorded requests asked again, without a network: through the same engine, so
 * what they have in common is computed once. */
#ifndef HONE_SERVE_REPLAY_H
#define HONE_SERVE_REPLAY_H

#include "base/json.h"
#include "serve/reply.h"

struct server;
struct replay { /* an answer, and the one that was recorded */
    struct buf reasoning, content;
    struct buf calls; /* JSON text of a list of {"name", "arguments"} */
    struct buf text;  /* all of it, as the model wrote it */
    enum reply_end end;
    bool thinking; /* it ended before its thinking did */
    bool failed;
    char why[300]; /* of failed */
    int64_t n_prompt, n_cached, n_out;
    /* The first token that is another one than was recorded, from 0; < 0: none is. Known where the
     * recorded tokens mean the recorded text in this model too. */
    bool comparable;
    int64_t parted;
    int32_t own, was;    /* the tokens there; < 0: the end */
    double p_own, p_was; /* their probabilities, before sampling; NaN: not known */
};
/* Asks s, a server without a network and without threads, what the line j of a record asked. *out
 * is complete after replay_finish(), and must stay where it is until then. greedy: as record_ask().
 */
int replay_ask(struct server *s, const struct json *j, bool greedy, struct replay *out,
               struct err *e);
void replay_finish(struct server *s);
void replay_release(struct replay *a);

#endif
