// SPDX-License-Identifier: MIT
/* runtime/measure/gen.c - greedy generation of answers to prompts. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "runtime/measure/internal.h"
#include "runtime/generate/gen.h"

int eval_generate(struct session *s, const struct ids *prompt, const struct eval_gen_opts *how,
                  struct eval_gen *out, struct err *e) {
    const int64_t n_ctx = session_get_opts(s)->n_ctx;
    struct gen *g = NULL;
    struct gen_answer a = {0};
    int64_t n_fed;
    *out = (struct eval_gen){.n_prompt = prompt->n};
    if (prompt->n < 1) return err_set(e, ERR_DATA, "the prompt is empty");
    if (prompt->n >= n_ctx)
        return err_set(e, ERR_USAGE,
                       "the prompt has %" PRId64 " tokens, the context %" PRId64
                       ": use a larger --ctx",
                       prompt->n, n_ctx);
    struct gen_opts o = {.sample = {.temp = 0, .top_p = 1, .repeat_penalty = 1},
                         .n_max = min_i64(how->n_max, n_ctx - prompt->n),
                         /* Control tokens are kept as text, since they may mark calls. */
                         .special = true,
                         .done = how->done,
                         .done_ud = how->ud,
                         .end = tok_end_text(session_model(s)->tok)};
    if (how->constrain) o.constrain = *how->constrain;
    session_reset(s);
    TRY(gen_new(&g, s, NULL, e));
    int rc = gen_prompt(g, prompt, -1, &n_fed, e);
    if (!rc) rc = gen_run(g, &o, &a, e);
    out->n_new = a.n_drawn;
    out->decode_s = a.seconds;
    out->counts = constrain_get_counts(a.constrain);
    int64_t n_over;
    const size_t *over = constrain_overruled(a.constrain, &n_over);
    if (n_over) {
        out->overruled = xmalloc((size_t)n_over * sizeof *over);
        memcpy(out->overruled, over, (size_t)n_over * sizeof *over);
    }
    out->ended = !rc && (a.stop == GEN_END || a.stop == GEN_TEXT);
    buf_str(&out->text, "");
    buf_add(&out->text, a.text.data, a.text.len);
    gen_answer_release(&a);
    gen_free(g);
    return rc;
}
