// SPDX-License-Identifier: MIT
/* models/spec.c - table of the spec features that no graph implements yet. Remove a row once its
 * operation exists. */
#include "models/spec.h"

#include "base/attr.h"

/* Returns whether clamping to -limit would also affect silu, whose minimum is -0.2785. */
static bool limit_is_low(float limit) {
    return limit > 0 && limit < 0.28f;
}

int spec_check(const struct arch *a, const struct hparams *h, int layer, const struct block_spec *s,
               struct err *e) {
    const struct router_spec *r = &s->ffn.router;
    const struct layer_hp *l = &h->layer[layer];
    const enum act act = s->ffn.act;
    const struct {
        bool asked;
        const char *what;
    } unsupported[] = {
        {s->parallel && s->own_ffn, "a feed-forward of its own side by side with attention"},
        {limit_is_low(l->limit) || limit_is_low(l->limit_exp),
         "a limit of SwiGLU below silu's smallest value"},
        {l->ffn == FFN_MOE && act != ACT_SWIGLU && act != ACT_GEGLU && act != ACT_SWIGLU_OAI &&
             act != ACT_RELU2,
         "this activation of experts"},
        {r->score == SCORE_SQRT_SOFTPLUS, "a router that chooses by the root of softplus"},
        {r->groups > 0 &&
             (h->d[HD_EXPERTS] % r->groups || r->top < 1 || r->top > r->groups || r->groups > 256),
         "experts in groups of unequal size"},
        {r->input_scaled && h->d[HD_EXPERTS_USED] > 1,
         "a router that scales the input of several experts"},
    };
    for (size_t i = 0; i < COUNT_OF(unsupported); i++)
        if (unsupported[i].asked)
            return err_set(e, ERR_DATA, "%s: layer %d has %s, which is not supported", a->name,
                           layer, unsupported[i].what);
    return 0;
}
