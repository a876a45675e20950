// SPDX-License-Identifier: MIT
/* runtime/eval_gen.c - greedy answers to prompts. */
#include <inttypes.h>

#include "core/mem.h"
#include "core/num.h"
#include "runtime/eval_int.h"

int eval_generate(struct session *s, const struct ids *prompt, int64_t n_max, struct eval_gen *out,
                  struct err *e) {
    const struct model *m = session_model(s);
    int64_t n_vocab = m->hp.d[HD_VOCAB], n_ctx = session_get_opts(s)->n_ctx;
    void *logits = NULL;
    *out = (struct eval_gen){.n_prompt = prompt->n};
    if (prompt->n < 1) return err_set(e, ERR_DATA, "the prompt is empty");
    if (prompt->n >= n_ctx)
        return err_set(e, ERR_USAGE,
                       "the prompt has %" PRId64 " tokens, the context %" PRId64
                       ": use a larger --ctx",
                       prompt->n, n_ctx);
    TRY(buf_alloc(&logits, (uint64_t)n_vocab * sizeof(float), "logits", e));
    session_reset(s);
    struct session_best best;
    const bool few = session_can_best(s);
    int rc = session_step(s, prompt->v, prompt->n, logits, e);
    int32_t id = rc ? 0 : (int32_t)eval_argmax(logits, n_vocab);
    n_max = min_i64(n_max, n_ctx - prompt->n);
    while (!rc && out->n_new < n_max) {
        out->n_new++;
        out->ended = tok_is_eog(m->tok, id);
        if (out->ended) break;
        tok_decode(m->tok, id, true, &out->text); /* calls may be marked by control tokens */
        if (out->n_new == n_max) break;
        rc = few ? session_step_best(s, id, &best, e) : session_step(s, &id, 1, logits, e);
        id = rc || (few && !best.n) ? 0 : few ? best.id[0] : (int32_t)eval_argmax(logits, n_vocab);
    }
    buf_str(&out->text, "");
    buf_free(logits);
    return rc;
}
