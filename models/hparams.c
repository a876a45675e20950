// SPDX-License-Identifier: MIT
/* models/hparams.c - the hyperparameter rows of an architecture read from GGUF keys or from
 * config.json, and written as GGUF keys. What rows cannot say is left to the architecture's derive,
 * from_hf, read_keys and write_keys.
 *
 * HD_LAYERS is the trunk; GGUF's block_count includes the MTP blocks: converted here, both ways. */
#include <math.h>
#include <string.h>

#include "core/gguf.h"
#include "core/hfdir.h"
#include "core/json.h"
#include "core/num.h"
#include "models/arch.h"

static const int64_t max_int = INT64_C(1) << 31;
static const int64_t max_product = INT64_C(1)
                                   << 40; /* derived sizes: products of two stay < 2^63 */

int hparams_mul(struct hparams *h, int slot, int64_t a, int64_t b, struct err *e) {
    int64_t v;
    if (!mul_ok_i64(a, b, &v) || v > max_product)
        return err_set(e, ERR_DATA, "model dimensions %lld x %lld are too large", (long long)a,
                       (long long)b);
    h->d[slot] = v;
    return 0;
}

/* Stores a value that was present under `name`. */
static int store_int(struct hparams *h, const struct hp_row *r, const char *name, int64_t v,
                     bool *seen, struct err *e) {
    if (v < (r->flags & HPF_ZERO_OK ? 0 : 1) || v > max_int)
        return err_set(e, ERR_DATA, "%s is %lld, which is out of range", name, (long long)v);
    if (seen[r->slot] && h->d[r->slot] != v)
        return err_set(e, ERR_DATA, "%s is %lld, but %lld was expected from another entry", name,
                       (long long)v, (long long)h->d[r->slot]);
    seen[r->slot] = true;
    h->d[r->slot] = v;
    return 0;
}

static int store_real(struct hparams *h, const struct hp_row *r, const char *name, double v,
                      struct err *e) {
    if (!isfinite(v) || !(r->flags & HPF_ZERO_OK ? v >= 0 : v > 0))
        return err_set(e, ERR_DATA, "%s is %g, which is out of range", name, v);
    h->f[r->slot] = v;
    return 0;
}

static void store_default(struct hparams *h, const struct hp_row *r, const bool *seen) {
    if (r->flags & HPF_REAL) {
        if (h->f[r->slot] == 0) h->f[r->slot] = r->otherwise;
    } else if (!seen[r->slot] && h->d[r->slot] == 0)
        h->d[r->slot] = (int64_t)r->otherwise;
}

static int check_layers(const struct hparams *h, struct err *e) {
    int64_t n = h->d[HD_LAYERS], m = h->d[HD_MTP];
    if (n < 1 || n + m > HP_MAX_LAYERS)
        return err_set(e, ERR_DATA, "%lld layers and %lld MTP layers: 1 to %d are supported",
                       (long long)n, (long long)m, HP_MAX_LAYERS);
    return 0;
}

/* ---- GGUF ---- */

static bool key_name(char out[128], const struct arch *a, const char *key) {
    size_t n = strlen(a->name), k = strlen(key);
    if (n + 1 + k >= 128) return false;
    memcpy(out, a->name, n);
    out[n] = '.';
    memcpy(out + n + 1, key, k + 1);
    return true;
}

/* One row. A per-layer array is accepted when all its entries are equal. */
static int row_from_gguf(struct hparams *h, const struct arch *a, const struct hp_row *r,
                         const struct gguf *g, bool *seen, struct err *e) {
    char key[128];
    if ((r->flags & HPF_NO_KEY) || !r->key || !key_name(key, a, r->key)) {
        store_default(h, r, seen);
        return 0;
    }
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) {
        if (r->flags & HPF_REQUIRED) return err_set(e, ERR_DATA, "the key %s is missing", key);
        store_default(h, r, seen);
        return 0;
    }
    if (r->flags & HPF_REAL) {
        double v;
        TRY(gguf_get_f64(g, key, &v, e));
        return store_real(h, r, key, v, e);
    }
    if (kv->type == GV_ARR && (kv->elem == GV_U32 || kv->elem == GV_I32) && kv->count > 0) {
        int64_t v = gguf_kv_i64(kv, 0);
        for (uint64_t i = 1; i < kv->count; i++)
            if (gguf_kv_i64(kv, i) != v)
                return err_set(e, ERR_DATA, "%s differs between layers, which %s does not support",
                               key, a->name);
        return store_int(h, r, key, v, seen, e);
    }
    uint64_t v;
    TRY(gguf_get_u64(g, key, &v, e));
    if (v > (uint64_t)max_int) return err_set(e, ERR_DATA, "%s is too large", key);
    return store_int(h, r, key, (int64_t)v, seen, e);
}

static int from_gguf(struct hparams *h, const struct arch *a, const struct gguf *g, struct err *e) {
    bool seen[HD_COUNT] = {false};
    for (const struct hp_row *r = a->hp; r->slot >= 0; r++) TRY(row_from_gguf(h, a, r, g, seen, e));
    h->d[HD_LAYERS] -= h->d[HD_MTP];
    TRY(check_layers(h, e));
    h->tied = gguf_find_tensor(g, "output.weight") == NULL;
    const struct gguf_tensor *embd = gguf_find_tensor(g, "token_embd.weight");
    if (!embd) return err_set(e, ERR_DATA, "the tensor token_embd.weight is missing");
    if (embd->ne[1] > max_int) return err_set(e, ERR_DATA, "token_embd.weight has too many rows");
    h->d[HD_VOCAB] = embd->ne[1];
    TRY(yarn_from_gguf(h, a->name, g, e));
    if (a->read_keys) TRY(a->read_keys(h, g, e));
    return a->derive(h, e);
}

int hparams_from_gguf(struct hparams *h, const struct arch *a, const struct gguf *g,
                      struct err *e) {
    memset(h, 0, sizeof *h);
    h->d[HD_ONE] = 1;
    return from_gguf(h, a, g, e) ? err_wrap(e, "%s", gguf_path(g)) : 0;
}

void hparams_write(const struct hparams *h, const struct arch *a, struct gguf_w *w) {
    for (const struct hp_row *r = a->hp; r->slot >= 0; r++) {
        char key[128];
        if ((r->flags & HPF_NO_KEY) || !r->key || !key_name(key, a, r->key)) continue;
        if (r->flags & HPF_REAL) {
            gguf_w_f32(w, key, (float)h->f[r->slot]);
            continue;
        }
        int64_t v = h->d[r->slot];
        if (r->slot == HD_LAYERS) v += h->d[HD_MTP];
        if (v > 0 || (r->flags & HPF_KEEP_ZERO))
            gguf_w_u32(w, key, (uint32_t)v); /* 0: the model has no such thing */
    }
    yarn_write(h, a->name, w);
    if (a->write_keys) a->write_keys(h, w);
}

/* ---- config.json ---- */

/* "a.b.c": the hyperparameter a, then members. name is changed and restored. */
static const struct json *descend(const struct hfdir *dir, char *name) {
    const struct json *j = NULL;
    for (char *part = name, *dot; part; part = dot ? dot + 1 : NULL) {
        dot = strchr(part, '.');
        if (dot) *dot = 0;
        j = part == name ? hfdir_hparam(dir, part) : json_get(j, part);
        if (dot) *dot = '.';
    }
    return j;
}

/* The first spelling of "a|b.c|d" that is there and not null; *name: its text. */
static const struct json *find_hf(const struct hfdir *dir, const char *spellings, char name[128]) {
    for (const char *s = spellings; s;) {
        const char *end = strchr(s, '|');
        size_t len = end ? (size_t)(end - s) : strlen(s);
        if (len < 128) {
            memcpy(name, s, len);
            name[len] = 0;
            const struct json *j = descend(dir, name);
            if (json_type(j) != JSON_NULL) return j;
        }
        s = end ? end + 1 : NULL;
    }
    return NULL;
}

static int row_from_hf(struct hparams *h, const struct hp_row *r, const struct hfdir *dir,
                       bool *seen, struct err *e) {
    char name[128];
    const struct json *j = r->hf ? find_hf(dir, r->hf, name) : NULL;
    if (!j) {
        if (r->hf && (r->flags & HPF_REQUIRED))
            return err_set(e, ERR_DATA, "%.*s is missing", (int)strcspn(r->hf, "|"), r->hf);
        store_default(h, r, seen);
        return 0;
    }
    if (json_type(j) != JSON_NUM) return err_set(e, ERR_DATA, "%s is not a number", name);
    if (r->flags & HPF_REAL) return store_real(h, r, name, json_num(j, 0), e);
    int64_t v;
    if (!json_i64(j, &v)) return err_set(e, ERR_DATA, "%s is not an integer", name);
    return store_int(h, r, name, v, seen, e);
}

static int from_hf(struct hparams *h, const struct arch *a, const struct hfdir *dir,
                   struct err *e) {
    bool seen[HD_COUNT] = {false};
    for (const struct hp_row *r = a->hp; r->slot >= 0; r++) TRY(row_from_hf(h, r, dir, seen, e));
    TRY(check_layers(h, e));
    h->tied = json_bool(hfdir_hparam(dir, "tie_word_embeddings"), false);
    TRY(yarn_from_hf(h, dir, e));
    if (a->from_hf) TRY(a->from_hf(h, dir, e));
    return a->derive(h, e);
}

int hparams_from_hf(struct hparams *h, const struct arch *a, const struct hfdir *dir,
                    struct err *e) {
    memset(h, 0, sizeof *h);
    h->d[HD_ONE] = 1;
    return from_hf(h, a, dir, e) ? err_wrap(e, "%s/config.json", hfdir_path(dir)) : 0;
}
