// SPDX-License-Identifier: MIT
/* convert/draft_file.c - draft file of a GGUF file (draft_file.h). */
#include "convert/draft_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/progress.h"
#include "containers/gguf.h"
#include "containers/safetensors.h"
#include "convert/conv_plan.h"
#include "convert/names.h"
#include "models/arch.h"

/* Returns the first MTP block of the model; its number of blocks if it has none. */
static int64_t first_block(const struct gguf *g) {
    const char *arch = gguf_str_or(g, "general.architecture", "");
    char key[2][160];
    if (strlen(arch) > 64) return INT64_MAX;
    snprintf(key[0], sizeof key[0], "%s.block_count", arch);
    snprintf(key[1], sizeof key[1], "%s.nextn_predict_layers", arch);
    const uint64_t n = gguf_u64_or(g, key[0], 0), n_mtp = gguf_u64_or(g, key[1], 0);
    return n_mtp < n ? (int64_t)(n - n_mtp) : INT64_MAX;
}

/* Returns whether the tensor belongs to block `first` or a later one. */
static bool is_of_block(const struct gguf_tensor *t, int64_t first) {
    return strncmp(t->name, "blk.", 4) == 0 && strtoll(t->name + 4, NULL, 10) >= first;
}

static bool is_wanted(const struct gguf_tensor *t, int64_t first) {
    static const char *const shared[] = {"token_embd.weight", "output_norm.weight",
                                         "output.weight"};
    bool is = is_of_block(t, first);
    for (size_t i = 0; i < COUNT_OF(shared); i++) is |= strcmp(t->name, shared[i]) == 0;
    return is;
}

/* Describes the tensor as one of a checkpoint, which st_to_f32 decodes. False: not of floats. */
static bool as_source(const struct gguf_tensor *t, struct st_tensor *out) {
    *out = (struct st_tensor){.name = t->name,
                              .n_elems = t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3],
                              .data = t->data,
                              .n_bytes = t->n_bytes};
    for (int d = 0; d < ST_COUNT; d++) {
        enum qtype same;
        if (!st_dtype_qtype((enum st_dtype)d, &same) || same != t->type) continue;
        out->dtype = (enum st_dtype)d;
        return true;
    }
    return false;
}

/* Returns the type of the tensor in the draft file. */
static enum qtype draft_type(const struct arch *a, const struct gguf_tensor *t, enum qtype type) {
    const struct tensor_row *row = a ? arch_row(a, t->name, NULL) : NULL;
    struct st_tensor unused;
    const bool fixed = t->n_dims < 2 || (row && (row->flags & TR_F32));
    return fixed || !as_source(t, &unused) ? t->type : qtype_fit(type, t->ne[0]);
}

/* Writes the data of a tensor as `to`. */
static int put_tensor(const struct gguf *g, const struct gguf_tensor *t, enum qtype to,
                      struct gguf_w *w, struct err *e) {
    if (to == t->type) {
        TRY(gguf_w_data(w, t->data, t->n_bytes, e));
        gguf_drop(g, t);
        return 0;
    }
    const uint64_t n = qtype_row_bytes(to, t->ne[0]);
    float *x = xmalloc((size_t)t->ne[0] * sizeof *x);
    uint8_t *row = xmalloc(n);
    struct tally tally = {0};
    struct st_tensor src;
    int rc = as_source(t, &src) ? 0 : err_set(e, ERR_DATA, "%s is not of floats", t->name);
    for (int64_t r = 0; r < t->ne[1] * t->ne[2] * t->ne[3] && !rc; r++) {
        rc = st_to_f32(&src, r * t->ne[0], t->ne[0], x, e);
        if (!rc) xform_encode(to, x, row, t->ne[0], &tally);
        if (!rc && progress_interrupted()) rc = err_set(e, ERR_INTR, "interrupted");
        if (!rc) rc = gguf_w_data(w, row, n, e);
    }
    if (!rc && tally.n_nan + tally.n_inf)
        rc = err_set(e, ERR_DATA, "%s: %s has values that are not finite", gguf_path(g), t->name);
    free(x);
    free(row);
    gguf_drop(g, t);
    return rc;
}

/* Computes general.size_label of the tensors of the draft file (first >= 0), or of all. */
static void size_label(const struct gguf *g, const struct arch *a, int64_t first, char out[32]) {
    int64_t all = 0, experts = 0;
    char key[160];
    snprintf(key, sizeof key, "%.64s.expert_count", a ? a->name : "");
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        const struct tensor_row *row = a ? arch_row(a, t->name, NULL) : NULL;
        const int64_t n = t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
        if (first >= 0 && !is_wanted(t, first)) continue;
        all += n;
        if (row && role_is_routed(row->role)) experts += n;
    }
    names_size_label(all, experts, experts ? (int64_t)gguf_u64_or(g, key, 0) : 0, out);
}

/* Writes keys and tensors, unless out is NULL. */
static int write_file(const struct gguf *g, const char *out, enum qtype type, struct gguf_w *w,
                      struct draft_file *r, struct err *e) {
    const int64_t first = first_block(g), n = gguf_n_tensors(g);
    const struct arch *a = arch_find_table(gguf_str_or(g, "general.architecture", ""));
    for (int64_t i = 0; i < n; i++) r->n_mtp += is_of_block(gguf_tensor_at(g, i), first);
    if (!r->n_mtp) return 0;
    for (int64_t i = 0; i < gguf_n_kv(g); i++)
        if (strncmp(gguf_kv_at(g, i)->key, "split.", 6) != 0) gguf_w_copy_kv(w, gguf_kv_at(g, i));
    char was[32], is[32];
    size_label(g, a, -1, was);
    size_label(g, a, first, is);
    if (strcmp(gguf_str_or(g, "general.size_label", ""), was) == 0)
        gguf_w_str(w, "general.size_label", is);
    gguf_w_u32(w, "general.file_type", (uint32_t)qtype_ftype_id(qtype_name(type)));
    for (int64_t i = 0; i < n; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        if (is_wanted(t, first))
            TRY(gguf_w_tensor(w, t->name, draft_type(a, t, type), t->n_dims, t->ne, e));
    }
    r->size_bytes = gguf_w_total_bytes(w);
    if (!out) return 0;
    TRY(gguf_w_begin(w, out, true, e));
    for (int64_t i = 0; i < n; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        if (is_wanted(t, first)) TRY(put_tensor(g, t, draft_type(a, t, type), w, e));
    }
    return gguf_w_commit(w, e);
}

int draft_file_write(const char *in, const char *out, enum qtype type, struct draft_file *r,
                     struct err *e) {
    struct gguf *g;
    *r = (struct draft_file){0};
    TRY(gguf_open(&g, in, GGUF_TOLERANT, e));
    struct gguf_w *w = gguf_w_new();
    const int rc = write_file(g, out, type, w, r, e);
    gguf_w_free(w);
    gguf_close(g);
    return rc;
}
