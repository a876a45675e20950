// SPDX-License-Identifier: MIT
/* quantize/requant.c - detection of models that have already been quantized. */
#include "quantize/requant.h"

#include <stdio.h>
#include <string.h>

#include "containers/qtype.h"

/* Returns whether the file's keys show that a quantizer wrote it. */
static bool made_by_quantizer(const struct gguf *g) {
    return gguf_find(g, "hone.replay") || gguf_find(g, "quantize.imatrix.file");
}

void requant_look(const struct gguf *g, struct requant *r) {
    uint64_t bytes[QT_COUNT] = {0}, most = 0;
    uint64_t file_type = gguf_u64_or(g, "general.file_type", UINT64_MAX);
    const char *name = file_type < INT32_MAX ? qtype_ftype_name((int64_t)file_type) : NULL;
    bool released = !made_by_quantizer(g);
    memset(r, 0, sizeof *r);
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        if (t->n_dims > 1) bytes[t->type] += t->n_bytes;
    }
    for (int t = 0; t < QT_COUNT; t++) {
        if (bytes[t] > most && !name)
            snprintf(r->type, sizeof r->type, "%s", qtype_name((enum qtype)t));
        if (bytes[t] > most) most = bytes[t];
        if (!bytes[t]) continue; /* skips unused ids and unknown types */
        const unsigned flags = qtype_info((enum qtype)t)->flags;
        if (!(flags & QF_QUANT)) continue;
        bool original = released && (flags & QF_RELEASED);
        if (flags & QF_CONVERT)
            r->q8 = true;
        else if (!original)
            r->quantized = true;
    }
    if (name) snprintf(r->type, sizeof r->type, "%s", name);
    const char *base = gguf_str_or(g, REQUANT_KEY, NULL);
    /* The file has the errors of its base, stored in a type that adds none. */
    if (!r->quantized && base) {
        r->quantized = r->spelled = true;
        snprintf(r->type, sizeof r->type, "%.31s", base);
    }
    if (r->quantized) r->q8 = false;
}

int requant_check(const char *path, struct requant *r, struct err *e) {
    struct gguf *g;
    TRY(gguf_open(&g, path, 0, e));
    requant_look(g, r);
    gguf_close(g);
    if (!r->quantized) return 0;
    return err_set(e, ERR_USAGE,
                   "%s %s %s, and its errors would add to the new ones: use the unquantized model "
                   "(hone convert writes it), or --allow-requantize",
                   path, r->spelled ? "was dequantized from" : "is already quantized as", r->type);
}
