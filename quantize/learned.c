// SPDX-License-Identifier: MIT
/* quantize/learned.c - checks of learned tensors against the source and the types of an output. */
#include "quantize/learned.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/num.h"
#include "kernels/kern.h"

bool learned_fit(const struct gram *m, const struct gguf *g, const struct qplan *plan) {
    int n = 0;
    for (int64_t i = 0; i < plan->n; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        const struct gram_learned *l = gram_find_learned(m, t->name);
        n += l && l->type == plan->item[i].type && memcmp(l->ne, t->ne, sizeof l->ne) == 0;
    }
    return n == m->n_learned;
}

/* Returns whether all weights of a tensor are finite. */
static bool is_finite(const struct gram_learned *l) {
    const struct qtype_info *q = qtype_info(l->type);
    struct kern ref;
    float x[QK];
    kern_init(&ref, KERN_REF);
    for (uint64_t at = 0; at < l->n_bytes; at += (uint64_t)q->block_bytes) {
        ref.op[l->type].decode((const uint8_t *)l->data + at, x, q->block_elems);
        for (int i = 0; i < q->block_elems; i++)
            if (!isfinite(x[i])) return false;
    }
    return true;
}

int learned_check(const struct gram_learned *l, const struct gguf_tensor *t, struct err *e) {
    char hash[33];
    hash_xxh128_hex(hash, t->data, (size_t)t->n_bytes);
    if (strcmp(hash, l->source) != 0)
        return err_set(e, ERR_DATA,
                       "%s was learned from other weights than the model has: collect the moments "
                       "from this model",
                       t->name);
    if (!is_finite(l))
        return err_set(e, ERR_DATA, "the learned tensor %s holds NaN or infinity: make it again",
                       t->name);
    return 0;
}
