// SPDX-License-Identifier: MIT
/* models/spec.c - what a spec can ask for and no graph computes yet. A row of the list goes when
 * its operation comes. */
#include "models/spec.h"

#include "core/attr.h"

int spec_check(const struct arch *a, const struct hparams *h, int layer, const struct block_spec *s,
               struct err *e) {
    const struct attn_spec *at = &s->attn;
    const struct router_spec *r = &s->ffn.router;
    const struct layer_hp *l = &h->layer[layer];
    const enum act act = s->ffn.act;
    const struct {
        bool asked;
        const char *what;
    } not_yet[] = {
        {l->mixer == MIX_MAMBA2, "a Mamba 2 layer"},
        {l->mixer == MIX_CONV, "a short convolution as mixer"},
        {l->mixer == MIX_KDA, "Kimi delta attention"},
        {l->ffn == FFN_NONE, "a block without feed-forward"},
        {s->parallel && s->own_ffn, "a feed-forward of its own side by side with attention"},
        {at->rope.scaling == SCALING_FULL && h->f[HF_YARN_FACTOR] > 0, "YaRN in some layers only"},
        {at->rope.scaling == SCALING_LONG, "longrope"},
        {at->gate > GATE_IN_Q, "an attention gate with a weight of its own"},
        {at->softcap > 0, "a soft cap of attention scores"},
        {at->sinks, "attention sinks"},
        {at->chunked && l->window, "attention in chunks"},
        {at->tempered, "queries that grow with their position"},
        {at->latent.kv_rank > 0, "latent attention (MLA)"},
        {act == ACT_SWIGLU_OAI, "a clamped SwiGLU"},
        {l->ffn == FFN_MOE && act != ACT_SWIGLU && act != ACT_GEGLU, "this activation of experts"},
        {r->score != SCORE_SOFTMAX, "a router that does not choose by softmax"},
        {r->keep, "a router whose weights are not renormalised"},
        {r->choice_bias, "a router with a bias for the choice"},
        {r->groups > 0, "a router of grouped experts"},
        {r->scale > 0 && (r->scale < 1 || r->scale > 1), "a router that scales its weights"},
        {r->input_scaled, "a router that scales the experts' input"},
    };
    for (size_t i = 0; i < COUNT_OF(not_yet); i++)
        if (not_yet[i].asked)
            return err_set(e, ERR_DATA, "%s: layer %d has %s, which is not computed yet", a->name,
                           layer, not_yet[i].what);
    return 0;
}
