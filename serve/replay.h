// SPDX-License-Identifier: MIT
/* serve/replay.h - replay of recorded requests on the server's engine, without a network. Prefixes
 * that requests share are computed only once. */
#ifndef HONE_SERVE_REPLAY_H
#define HONE_SERVE_REPLAY_H

#include "base/json.h"
#include "serve/reply.h"

struct server;
struct replay { /* a new answer, compared with the recorded one */
    struct buf reasoning, content;
    struct buf calls; /* JSON text of a list of {"name", "arguments"} */
    struct buf text;  /* raw output of the model */
    enum reply_end end;
    bool thinking; /* the answer ended while still thinking */
    bool failed;
    char why[300]; /* error message if failed */
    int64_t n_prompt, n_cached, n_out;
    /* parted: index, from 0, of the first token that differs from the recorded answer; < 0: none.
     * Known only if comparable: the recorded tokens give the recorded text with this model's
     * tokenizer. */
    bool comparable;
    int64_t parted;
    int32_t own, was;    /* token there in the new and in the recorded answer; < 0: it has ended */
    double p_own, p_was; /* their probabilities in the new answer, before sampling; NaN: unknown */
};
/* Replays recorded request j on s, a server without a network and threads. *out is complete after
 * replay_finish() and must stay valid until then. greedy: as in record_ask(). */
int replay_ask(struct server *s, const struct json *j, bool greedy, struct replay *out,
               struct err *e);
/* Runs the scheduler until no task is left. */
void replay_finish(struct server *s);
void replay_release(struct replay *a);

#endif
