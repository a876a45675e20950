// SPDX-License-Identifier: MIT
/* runtime/measure/vision_choices.c - multiple choice about images: scores each choice as an answer
 * to the prompt (vision_int.h). The prompt is computed once for all choices. */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "runtime/engine/seq.h"
#include "runtime/measure/vision_int.h"

/* Feeds a choice after the prompt and sets *score to the mean log-probability of its tokens. */
static int score_choice(struct run *x, const struct one *v, const struct ids *c, double *score,
                        struct err *e) {
    const int64_t width = v->m->hp.d[HD_EMBD];
    double sum = 0;
    if (c->n > 1) TRY(vision_feed(v, c->v, c->n - 1, 0, v->hidden + width, e));
    for (int64_t at = 0, n; at < c->n; at += n) {
        n = min_i64(x->block, c->n - at);
        TRY(session_head(v->s, v->hidden + at * width, n, x->logits, e));
        if (fault_in_logits(x->logits, n * x->n_vocab)) return fault_find(v->s, NULL, 0, e);
        for (int64_t k = 0; k < n; k++) {
            const float *row = x->logits + k * x->n_vocab;
            sum += (double)row[c->v[at + k]] - eval_lse(row, x->n_vocab);
        }
    }
    *score = sum / (double)c->n;
    return 0;
}

/* Scores all choices of q and sets *pick to the best; the first one if several are equal. */
static int score_all(struct run *x, const struct one *v, const struct vision_question *q, int *pick,
                     struct seq *after_prompt, struct err *e) {
    double best = 0;
    for (int i = 0; i < q->n_choices; i++) {
        struct ids ids = {0};
        double score = 0;
        if (i) seq_restore(session_own_seq(v->s), after_prompt);
        int rc =
            tok_encode(x->one[0].m->tok, q->choice[i], strlen(q->choice[i]), false, false, &ids, e);
        ids.n = min_i64(ids.n, x->o->max_tokens);
        if (!rc && !ids.n)
            rc = err_set(e, ERR_DATA, "the choice \"%.40s\" has no tokens", q->choice[i]);
        if (!rc) rc = score_choice(x, v, &ids, &score, e);
        ids_release(&ids);
        if (rc) return rc;
        if (!i || score > best) {
            best = score;
            *pick = i;
        }
    }
    return 0;
}

int vision_pick(struct run *x, int i, int q, struct err *e) {
    const struct one *v = &x->one[i];
    const struct ids *prompt = &v->eye->prompt;
    struct seq *after_prompt = NULL;
    session_reset(v->s);
    TRY(vision_feed(v, prompt->v, prompt->n, prompt->n - 1, v->hidden, e));
    int rc = seq_fork(&after_prompt, session_own_seq(v->s), e);
    if (!rc) rc = score_all(x, v, &x->lines.q[q], &x->r[i].answer[q].pick, after_prompt, e);
    seq_free(after_prompt);
    return rc;
}
