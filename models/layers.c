// SPDX-License-Identifier: MIT
/* models/layers.c - per-layer hyperparameters: head counts and sizes, windows, RoPE, width and kind
 * of the feed-forward. A layer gets the model's values, or those of sliding-window layers, unless
 * the file has individual values for it. */
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "containers/gguf.h"
#include "base/json.h"
#include "base/log.h"
#include "models/arch.h"

static const int64_t max_rows = INT64_C(1) << 40; /* per matrix, as in hparams.c */

#define DIM(slot)
#define SIZE(slot, formula)

/* Returns a pointer to a layer's value of a slot; NULL: the slot has no per-layer values. */
static int64_t *field(struct layer_hp *l, int slot) {
    switch (slot) {
#define LAYER(slot, field)                                                                         \
    case HD_##slot:                                                                                \
        return &l->field;
#include "models/hp_dim.def"
#undef LAYER
    default:
        return NULL;
    }
}
static const int fields[] = {
#define LAYER(slot, field) HD_##slot,
#include "models/hp_dim.def"
#undef LAYER
};

#undef SIZE

int64_t hp_dim(const struct hparams *h, int block, int slot) {
    if (block < 0) return h->d[slot];
    const struct layer_hp *l = &h->layer[block];
    const int64_t *d = h->d;
    switch (slot) {
#define LAYER(slot, field)                                                                         \
    case HD_##slot:                                                                                \
        return l->field;
#define SIZE(slot, formula)                                                                        \
    case HD_##slot:                                                                                \
        return formula;
#include "models/hp_dim.def"
#undef LAYER
#undef SIZE
#undef DIM
    default:
        return d[slot];
    }
}

int64_t *layers_own(struct hparams *h, int slot, int64_t i) {
    h->own[slot] = true;
    return field(&h->layer[i], slot);
}

bool layers_differ(const struct hparams *h, int slot) {
    for (int i = 1; i < (int)h->d[HD_LAYERS]; i++)
        if (hp_dim(h, i, slot) != hp_dim(h, 0, slot)) return true;
    return false;
}

/* Fills in layer i: its individual values if there are any, otherwise the model's. */
static void fill_layer(struct hparams *h, enum mix_kind other, int64_t i) {
    const bool mtp = i >= h->d[HD_LAYERS];
    struct layer_hp *l = &h->layer[i];
    for (size_t k = 0; k < COUNT_OF(fields); k++) { /* the window comes first */
        const int slot = fields[k];
        if (h->own[slot] && (!mtp || *field(l, slot))) continue;
        int64_t v = h->d[slot];
        if (l->window && h->d_windowed[slot]) v = h->d_windowed[slot];
        if (slot == HD_WINDOW && mtp) v = 0;
        *field(l, slot) = v;
    }
    l->rope_base = h->f[HF_ROPE_BASE];
    if (l->window && h->f_windowed[HF_ROPE_BASE] > 0) l->rope_base = h->f_windowed[HF_ROPE_BASE];
    l->mixer = l->kv_heads ? MIX_ATTN : other;
    const bool skipped = h->d[HD_MOE_STEP] > 1 && (i + 1) % h->d[HD_MOE_STEP] != 0;
    l->ffn = h->d[HD_EXPERTS] && i >= h->d[HD_LEAD_DENSE] && !skipped ? FFN_MOE : FFN_DENSE;
    l->no_rope = l->keys_are_values = false;
    l->kv_of = (int)i;
}

/* Returns ERR_DATA unless the layer's attention dimensions are consistent. */
static int check_layer(const struct layer_hp *l, struct err *e) {
    if (l->mixer != MIX_ATTN) return 0;
    if (l->kv_heads < 1 || l->heads % l->kv_heads)
        return err_set(e, ERR_DATA, "%lld attention heads cannot share %lld key/value heads",
                       (long long)l->heads, (long long)l->kv_heads);
    if (l->n_rot > l->head_dim || l->n_rot % 2)
        return err_set(e, ERR_DATA,
                       "%lld of the %lld dimensions of each head cannot be rotated in pairs",
                       (long long)l->n_rot, (long long)l->head_dim);
    if (l->head_dim < 1 || 2 * l->heads > max_rows / l->head_dim)
        return err_set(e, ERR_DATA, "model dimensions %lld x %lld are too large",
                       (long long)l->heads, (long long)l->head_dim);
    return 0;
}

int layers_fill(struct hparams *h, struct err *e) {
    return layers_fill_hybrid(h, MIX_ATTN, e);
}

int layers_fill_hybrid(struct hparams *h, enum mix_kind other, struct err *e) {
    int64_t *d = h->d, *w = h->d_windowed;
    if (!d[HD_KV_HEADS]) d[HD_KV_HEADS] = w[HD_KV_HEADS] ? w[HD_KV_HEADS] : d[HD_HEADS];
    if (!d[HD_HEAD_DIM])
        d[HD_HEAD_DIM] = w[HD_HEAD_DIM] ? w[HD_HEAD_DIM]
                         : d[HD_HEADS]  ? d[HD_EMBD] / d[HD_HEADS]
                                        : 0;
    if (!d[HD_ROT]) d[HD_ROT] = d[HD_HEAD_DIM];
    if (!w[HD_ROT]) w[HD_ROT] = w[HD_HEAD_DIM];
    TRY(hparams_mul(h, HD_ATTN_OUT, d[HD_HEADS], d[HD_HEAD_DIM], e));
    TRY(hparams_mul(h, HD_QG_OUT, d[HD_ATTN_OUT], 2, e));
    TRY(hparams_mul(h, HD_KV_OUT, d[HD_KV_HEADS], d[HD_HEAD_DIM], e));
    TRY(hparams_mul(h, HD_EMBD2, 2, d[HD_EMBD], e));
    if (d[HD_FREQS]) d[HD_FREQS] = d[HD_HEAD_DIM] / 2;
    d[HD_HALF_ROT] = d[HD_ROT] / 2;
    for (int64_t i = 0; i < d[HD_LAYERS] + d[HD_MTP]; i++) {
        fill_layer(h, other, i);
        TRY(check_layer(&h->layer[i], e));
    }
    return 0;
}

int layers_mixers_hf(struct hparams *h, const struct json *types, const char *other,
                     struct err *e) {
    const int64_t n = h->d[HD_LAYERS];
    int64_t i = 0;
    if (!h->d[HD_KV_HEADS]) h->d[HD_KV_HEADS] = h->d[HD_HEADS];
    if (json_len(types) != n)
        return err_set(e, ERR_DATA, "layer_types has %lld entries for %lld layers",
                       (long long)json_len(types), (long long)n);
    for (const struct json *t = json_first(types); t; t = json_next(t), i++) {
        const char *s = json_str(t);
        const bool attn = s && (strcmp(s, "full_attention") == 0 || strcmp(s, "attention") == 0);
        if (!s || (!attn && strcmp(s, other) != 0 && strcmp(s, "linear_attention") != 0))
            return err_set(e, ERR_DATA, "layer_types[%lld] is neither attention nor %s",
                           (long long)i, other);
        *layers_own(h, HD_KV_HEADS, i) = attn ? h->d[HD_KV_HEADS] : 0;
    }
    return 0;
}

/* Returns whether a kind of layer is attention; Qwen 4's has an indexer. */
static bool is_full(const char *type) {
    return type && (strcmp(type, "full_attention") == 0 || strcmp(type, "indexed_attention") == 0);
}

int layers_interval_hf(struct hparams *h, const struct json *types, struct err *e) {
    if (json_type(types) != JSON_ARR) return 0;
    int64_t n = 0, first_full = 0, interval = h->d[HD_FULL_INTERVAL];
    for (const struct json *t = json_first(types); t; t = json_next(t)) {
        const char *s = json_str(t);
        n++;
        if (is_full(s)) {
            if (!first_full) first_full = n;
        } else if (!s || strcmp(s, "linear_attention") != 0)
            return err_set(e, ERR_DATA,
                           "layer_types[%lld] is neither linear_attention nor "
                           "full_attention",
                           (long long)(n - 1));
    }
    if (n != h->d[HD_LAYERS])
        return err_set(e, ERR_DATA, "layer_types has %lld entries for %lld layers", (long long)n,
                       (long long)h->d[HD_LAYERS]);
    if (first_full)
        interval = first_full;
    else if (interval <= n)
        interval = n + 1;
    int64_t i = 0;
    for (const struct json *t = json_first(types); t; t = json_next(t), i++)
        if (is_full(json_str(t)) != ((i + 1) % interval == 0))
            return err_set(e, ERR_DATA,
                           "layer_types follows no interval (layer %lld breaks "
                           "\"every %lldth is full attention\"), which the format cannot hold",
                           (long long)i, (long long)interval);
    h->d[HD_FULL_INTERVAL] = interval;
    return 0;
}

/* ---- windows ---- */

/* Sets a window for all but every period-th layer; period 0: for no layer. */
static void windows_by_period(struct hparams *h, int64_t period) {
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++)
        *layers_own(h, HD_WINDOW, i) = period > 0 && i % period < period - 1 ? h->d[HD_WINDOW] : 0;
}

int layers_windows_hf(struct hparams *h, const struct json *types, int64_t period, struct err *e) {
    const int64_t n = h->d[HD_LAYERS];
    int64_t i = 0;
    windows_by_period(h, period);
    if (json_type(types) != JSON_ARR) return 0;
    for (const struct json *t = json_first(types); t && i < n + h->d[HD_MTP];
         t = json_next(t), i++) {
        const char *s = json_str(t);
        const bool windowed = s && strcmp(s, "sliding_attention") == 0;
        if (!s || (!windowed && strcmp(s, "full_attention") != 0))
            return err_set(e, ERR_DATA,
                           "layer_types[%lld] is neither sliding_attention nor full_attention",
                           (long long)i);
        *layers_own(h, HD_WINDOW, i) = windowed ? h->d[HD_WINDOW] : 0;
    }
    if (json_len(types) != n && json_len(types) != n + h->d[HD_MTP]) /* some also list MTP blocks */
        return err_set(e, ERR_DATA, "layer_types has %lld entries for %lld layers",
                       (long long)json_len(types), (long long)n);
    return 0;
}

/* Returns the first layer that breaks `period` (every period-th layer has full attention); -1:
 * none. */
static int64_t odd_window(const struct hparams *h, int64_t period) {
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++)
        if ((h->layer[i].window > 0) != (i % period < period - 1)) return i;
    return -1;
}

int64_t layers_windows_period(const struct hparams *h, int64_t usual) {
    if (odd_window(h, usual) < 0) return usual;
    for (int64_t p = 1; p <= h->d[HD_LAYERS] + 1; p++)
        if (odd_window(h, p) < 0) return p;
    return 0;
}

int layers_windows_check(struct hparams *h, int64_t usual, struct err *e) {
    const int64_t period = layers_windows_period(h, usual);
    const bool all = usual == WINDOW_EVERYWHERE;
    if (all && period == 1) { /* the key of the width alone would give every layer a window */
        h->d[HD_WINDOW] = 0;
        return 0;
    }
    if (!period && all)
        return err_set(e, ERR_DATA,
                       "layer_types: layer %lld has no window, and no period fits: the format "
                       "stores only a period of full-attention layers",
                       (long long)odd_window(h, usual));
    if (!period)
        return err_set(e, ERR_DATA,
                       "layer_types: layer %lld breaks the period of %lld, and no other fits: the "
                       "format stores only a period of full-attention layers",
                       (long long)odd_window(h, usual), (long long)usual);
    if (period != usual && all)
        log_warn("one of every %lld layers has no window, although usually all have one: programs "
                 "from before 2026 ignore the key with the period",
                 (long long)period);
    else if (period != usual)
        log_warn("layers with a window have a period of %lld, not of %lld as usual: programs from "
                 "before 2026 ignore its key",
                 (long long)period, (long long)usual);
    return 0;
}

/* Writes the name of the key for windows per layer. */
static void pattern_key(char out[128], const char *arch) {
    snprintf(out, 128, "%s.attention.sliding_window_pattern", arch);
}

int layers_windows_gguf(struct hparams *h, const char *arch, const struct gguf *g, int64_t period,
                        struct err *e) {
    char key[128];
    pattern_key(key, arch);
    const int64_t n = h->d[HD_LAYERS];
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv && period < 0) return err_set(e, ERR_DATA, "the key %s is missing", key);
    if (kv && kv->type != GV_ARR) {
        uint64_t v;
        TRY(gguf_get_u64(g, key, &v, e));
        if (v > HP_MAX_LAYERS) return err_set(e, ERR_DATA, "%s is too large", key);
        period = (int64_t)v;
    }
    windows_by_period(h, period);
    if (!kv || kv->type != GV_ARR) return 0;
    if ((kv->elem != GV_BOOL && kv->elem != GV_I32 && kv->elem != GV_U32) ||
        (kv->count != (uint64_t)n && kv->count != (uint64_t)(n + h->d[HD_MTP])))
        return err_set(e, ERR_DATA, "%s is not an array with an entry for each of %lld layers", key,
                       (long long)n);
    for (int64_t i = 0; i < (int64_t)kv->count; i++)
        *layers_own(h, HD_WINDOW, i) = gguf_kv_i64(kv, (uint64_t)i) ? h->d[HD_WINDOW] : 0;
    return 0;
}

void layers_windows_write(const struct hparams *h, const char *arch, struct gguf_w *w) {
    uint8_t v[HP_MAX_LAYERS];
    char key[128];
    pattern_key(key, arch);
    const int64_t n = h->d[HD_LAYERS] + h->d[HD_MTP];
    for (int64_t i = 0; i < n; i++) v[i] = h->layer[i].window > 0;
    gguf_w_arr(w, key, GV_BOOL, v, (uint64_t)n);
}

void layers_windows_write_period(const struct hparams *h, const char *arch, int64_t usual,
                                 struct gguf_w *w) {
    const int64_t period = layers_windows_period(h, usual);
    char key[128];
    pattern_key(key, arch);
    if (period && period != usual) gguf_w_u32(w, key, (uint32_t)period);
}
