// SPDX-License-Identifier: MIT
/* models/hparams.c - hyperparameters: reads an architecture's rows from GGUF keys or config.json,
 * and writes them as GGUF keys. Facts that rows cannot express are handled by the architecture's
 * derive, from_hf, read_keys and write_keys.
 *
 * HD_LAYERS counts only the trunk. GGUF's block_count includes the MTP blocks; this file converts
 * between the two. */
#include <math.h>
#include <string.h>

#include "base/attr.h"
#include "containers/gguf.h"
#include "containers/hfdir.h"
#include "base/json.h"
#include "base/num.h"
#include "models/arch.h"
#include "models/rows.h"
#include "models/spec.h"

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

/* Slots filled by a row that was present. */
struct seen {
    bool plain[HD_COUNT], windowed[HD_COUNT];
};

/* Returns ERR_DATA unless v is in the range that the row allows. */
static int check_int(const struct hp_row *r, const char *name, int64_t v, struct err *e) {
    if (v < (r->flags & HPF_ZERO_OK ? 0 : 1) || v > max_int)
        return err_set(e, ERR_DATA, "%s is %lld, which is out of range", name, (long long)v);
    return 0;
}

/* Stores the value found under `name`. Fails if another entry has set the slot to a different
 * value. */
static int store_int(struct hparams *h, const struct hp_row *r, const char *name, int64_t v,
                     struct seen *seen, struct err *e) {
    const bool w = (r->flags & HPF_WINDOWED) != 0;
    bool *was = w ? &seen->windowed[r->slot] : &seen->plain[r->slot];
    int64_t *to = w ? &h->d_windowed[r->slot] : &h->d[r->slot];
    TRY(check_int(r, name, v, e));
    if (*was && *to != v)
        return err_set(e, ERR_DATA, "%s is %lld, but %lld was expected from another entry", name,
                       (long long)v, (long long)*to);
    *was = true;
    *to = v;
    return 0;
}

/* One number for each of n layers; the model's number is the largest. */
struct list {
    int64_t n;
    int64_t (*at)(const void *of, int64_t i); /* INT64_MIN: not an integer */
    const void *of;
};
/* Stores values per layer, and the largest one as the model's. */
static int store_list(struct hparams *h, const struct hp_row *r, const char *name,
                      const struct list *l, struct seen *seen, struct err *e) {
    int64_t most = 0;
    bool differ = false;
    if (!(r->flags & HPF_LAYERS) || l->n < h->d[HD_LAYERS] || l->n > HP_MAX_LAYERS)
        return err_set(e, ERR_DATA, "%s is neither an integer nor one for each of %lld layers",
                       name, (long long)h->d[HD_LAYERS]);
    for (int64_t i = 0; i < l->n; i++) {
        const int64_t v = l->at(l->of, i);
        TRY(check_int(r, name, v, e));
        differ = differ || v != l->at(l->of, 0);
        if (v > most) most = v;
    }
    for (int64_t i = 0; differ && i < h->d[HD_LAYERS]; i++)
        *layers_own(h, r->slot, i) = l->at(l->of, i);
    return store_int(h, r, name, most, seen, e);
}

/* Returns where the row's floating-point value is stored. */
static double *real_slot(struct hparams *h, const struct hp_row *r) {
    return r->flags & HPF_WINDOWED ? &h->f_windowed[r->slot] : &h->f[r->slot];
}
/* Stores a floating-point value. ERR_DATA: out of range. */
static int store_real(struct hparams *h, const struct hp_row *r, const char *name, double v,
                      struct err *e) {
    if (!isfinite(v) || !(r->flags & HPF_ZERO_OK ? v >= 0 : v > 0))
        return err_set(e, ERR_DATA, "%s is %g, which is out of range", name, v);
    *real_slot(h, r) = v;
    return 0;
}

/* Stores the row's default unless a value was given. */
static void store_default(struct hparams *h, const struct hp_row *r, const struct seen *seen) {
    const bool w = (r->flags & HPF_WINDOWED) != 0;
    int64_t *to = w ? &h->d_windowed[r->slot] : &h->d[r->slot];
    if (r->flags & HPF_REAL) {
        if (*real_slot(h, r) == 0) *real_slot(h, r) = r->otherwise;
    } else if (!(w ? seen->windowed : seen->plain)[r->slot] && *to == 0)
        *to = (int64_t)r->otherwise;
}

/* Returns ERR_DATA unless the number of layers is supported. */
static int check_layers(const struct hparams *h, struct err *e) {
    int64_t n = h->d[HD_LAYERS], m = h->d[HD_MTP];
    if (n < 1 || n + m > HP_MAX_LAYERS)
        return err_set(e, ERR_DATA, "%lld layers and %lld MTP layers: 1 to %d are supported",
                       (long long)n, (long long)m, HP_MAX_LAYERS);
    return 0;
}

/* ---- GGUF ---- */

/* Writes "ARCH.KEY". False: it does not fit. */
static bool key_name(char out[128], const struct arch *a, const char *key) {
    size_t n = strlen(a->name), k = strlen(key);
    if (n + 1 + k >= 128) return false;
    memcpy(out, a->name, n);
    out[n] = '.';
    memcpy(out + n + 1, key, k + 1);
    return true;
}

/* Returns entry i of the integer array `of`, a struct gguf_kv. */
static int64_t gguf_entry(const void *of, int64_t i) {
    return gguf_kv_i64(of, (uint64_t)i);
}

/* Reads one row. For rows without HPF_LAYERS, an array of equal numbers counts as one number. */
static int row_from_gguf(struct hparams *h, const struct arch *a, const struct hp_row *r,
                         const struct gguf *g, struct seen *seen, struct err *e) {
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
    if (kv->type == GV_ARR && (kv->elem == GV_U32 || kv->elem == GV_I32) && kv->count > 0 &&
        kv->count <= HP_MAX_LAYERS) {
        const int64_t n = (int64_t)kv->count;
        if (r->flags & HPF_LAYERS)
            return store_list(h, r, key, &(struct list){n, gguf_entry, kv}, seen, e);
        int64_t v = gguf_kv_i64(kv, 0);
        for (int64_t i = 1; i < n; i++)
            if (gguf_entry(kv, i) != v)
                return err_set(e, ERR_DATA, "%s differs between layers, which %s does not support",
                               key, a->name);
        return store_int(h, r, key, v, seen, e);
    }
    if (r->flags & HPF_BOOL) {
        bool on;
        TRY(gguf_get_bool(g, key, &on, e));
        return store_int(h, r, key, on, seen, e);
    }
    uint64_t v;
    TRY(gguf_get_u64(g, key, &v, e));
    if (v > (uint64_t)max_int) return err_set(e, ERR_DATA, "%s is too large", key);
    return store_int(h, r, key, (int64_t)v, seen, e);
}

void hparams_found(struct hparams *h, const struct arch *a,
                   bool (*has)(const void *ud, const struct tensor_row *row, int64_t layer),
                   const void *ud) {
    const int64_t n = h->d[HD_LAYERS] + h->d[HD_MTP];
    for (const struct tensor_row *r = a->tensors; r->gguf; r++) {
        bool there = false;
        if (!(r->flags & TR_FOUND)) continue;
        for (int64_t i = 0; i < n && !there; i++) there = has(ud, r, i);
        if (!there && !r->hf) continue; /* computed by conversion */
        h->d[r->flags >> TR_IF_SHIFT] = there;
    }
}
/* Returns whether the file (ud) has the row's tensor in a layer. */
static bool gguf_has(const void *ud, const struct tensor_row *row, int64_t layer) {
    char name[64];
    return arch_name(name, sizeof name, row->gguf, strlen(row->gguf), layer, 0) &&
           gguf_find_tensor(ud, name);
}

/* Fails if a block that counts as an MTP block is one of the trunk: it has tensors, but not
 * nextn.eh_proj, which every MTP block has. Files without the blocks may keep the key. */
static int check_mtp(const struct hparams *h, const struct arch *a, const struct gguf *g,
                     struct err *e) {
    for (int64_t i = h->d[HD_LAYERS]; i < h->d[HD_LAYERS] + h->d[HD_MTP]; i++) {
        bool any = false, proj = false;
        for (const struct tensor_row *r = a->tensors; r->gguf; r++) {
            const bool there = strncmp(r->gguf, "blk.", 4) == 0 && gguf_has(g, r, i);
            any = any || there;
            proj = proj || (there && strcmp(r->gguf, "blk.%d.nextn.eh_proj.weight") == 0);
        }
        if (any && !proj)
            return err_set(e, ERR_DATA,
                           "%s.nextn_predict_layers is %lld, but block %lld lacks "
                           "nextn.eh_proj.weight, so it is not an MTP block",
                           a->name, (long long)h->d[HD_MTP], (long long)i);
    }
    return 0;
}

/* Sets HD_VOCAB to the number of embeddings, or, in a draft without its own, of tokens. */
static int count_tokens(struct hparams *h, const struct arch *a, const struct gguf *g,
                        struct err *e) {
    const struct gguf_tensor *embd = gguf_find_tensor(g, "token_embd.weight");
    const struct gguf_kv *tokens = a->draft ? gguf_find(g, "tokenizer.ggml.tokens") : NULL;
    if (!embd && a->draft && h->d[HD_VOCAB] > 0) return 0; /* from its key */
    if (!embd && (!tokens || !tokens->count))
        return err_set(e, ERR_DATA, "the tensor token_embd.weight is missing");
    const uint64_t n = embd ? (uint64_t)embd->ne[1] : tokens->count;
    if (n > (uint64_t)max_int) return err_set(e, ERR_DATA, "there are too many tokens");
    h->d[HD_VOCAB] = (int64_t)n;
    return 0;
}

static const char causal[] = "attention.causal", rotated[] = "rope.dimension_count";

/* Refuses a number of rotated dimensions that the architecture's table does not read, unless it is
 * the one that is used: that of a head. */
static int check_rotated(const struct hparams *h, const struct arch *a, const struct gguf *g,
                         struct err *e) {
    char key[128];
    uint64_t v = (uint64_t)h->d[HD_ROT];
    if (!a->decoder || a->decoder->block.attn.rope.kind == ROPE_NONE) return 0;
    for (const struct hp_row *r = a->hp; r->slot >= 0; r++)
        if (r->key && strcmp(r->key, rotated) == 0) return 0;
    if (key_name(key, a, rotated)) TRY(gguf_opt_u64(g, key, &v, e));
    return v == (uint64_t)h->d[HD_ROT]
               ? 0
               : err_set(e, ERR_DATA,
                         "%s is %llu, but in %s models all %lld dimensions of a head are rotated",
                         key, (unsigned long long)v, a->name, (long long)h->d[HD_ROT]);
}

/* Reads all hyperparameters from a GGUF file's keys. */
static int from_gguf(struct hparams *h, const struct arch *a, const struct gguf *g, struct err *e) {
    struct seen seen = {0};
    char key[128];
    bool is_causal = true;
    for (const struct hp_row *r = a->hp; r->slot >= 0; r++)
        TRY(row_from_gguf(h, a, r, g, &seen, e));
    h->d[HD_LAYERS] -= h->d[HD_MTP];
    TRY(check_layers(h, e));
    h->tied = gguf_find_tensor(g, "output.weight") == NULL;
    if (key_name(key, a, causal)) TRY(gguf_opt_bool(g, key, &is_causal, e));
    h->not_causal = !is_causal;
    TRY(count_tokens(h, a, g, e));
    TRY(check_mtp(h, a, g, e));
    hparams_found(h, a, gguf_has, g);
    if (a->window_period && h->d[HD_WINDOW])
        TRY(layers_windows_gguf(h, a->name, g, a->window_period, e));
    TRY(yarn_from_gguf(h, a, g, e));
    if (a->read_keys) TRY(a->read_keys(h, g, e));
    TRY(yarn_check_factor(h, a->name, g, e));
    TRY(a->derive(h, e));
    return check_rotated(h, a, g, e);
}

int hparams_from_gguf(struct hparams *h, const struct arch *a, const struct gguf *g,
                      struct err *e) {
    memset(h, 0, sizeof *h);
    h->d[HD_ONE] = 1;
    return from_gguf(h, a, g, e) ? err_wrap(e, "%s", gguf_path(g)) : 0;
}

/* Writes a value per layer, MTP blocks included, as an array. */
static void write_list(const struct hparams *h, int slot, const char *key, struct gguf_w *w) {
    int32_t v[HP_MAX_LAYERS];
    const int n = (int)(h->d[HD_LAYERS] + h->d[HD_MTP]);
    for (int i = 0; i < n; i++) v[i] = (int32_t)hp_dim(h, i, slot);
    gguf_w_arr(w, key, GV_I32, v, (uint64_t)n);
}

void hparams_write(const struct hparams *h, const struct arch *a, struct gguf_w *w) {
    for (const struct hp_row *r = a->hp; r->slot >= 0; r++) {
        char key[128];
        if ((r->flags & HPF_NO_KEY) || !r->key || !key_name(key, a, r->key)) continue;
        const bool windowed = (r->flags & HPF_WINDOWED) != 0;
        if (r->flags & HPF_REAL) {
            const double v = (windowed ? h->f_windowed : h->f)[r->slot];
            if (!(r->flags & HPF_UNUSUAL) || v < r->otherwise || v > r->otherwise)
                gguf_w_f32(w, key, (float)v);
            continue;
        }
        if ((r->flags & HPF_LAYERS) && layers_differ(h, r->slot)) {
            write_list(h, r->slot, key, w);
            continue;
        }
        if (r->flags & HPF_BOOL) {
            gguf_w_bool(w, key, h->d[r->slot] != 0);
            continue;
        }
        int64_t v = r->flags & HPF_LAYERS ? hp_dim(h, 0, r->slot)
                                          : (windowed ? h->d_windowed : h->d)[r->slot];
        if (r->slot == HD_LAYERS) v += h->d[HD_MTP];
        if (v > 0 || (r->flags & HPF_KEEP_ZERO))
            gguf_w_u32(w, key, (uint32_t)v); /* 0: the model lacks the feature */
    }
    if (a->window_keys && h->d[HD_WINDOW])
        layers_windows_write(h, a->name, w);
    else if (a->window_period > 0 && h->d[HD_WINDOW])
        layers_windows_write_period(h, a->name, a->window_period, w);
    char key[128];
    if (h->not_causal && key_name(key, a, causal)) gguf_w_bool(w, key, false);
    yarn_write(h, a, w);
    if (a->write_keys) a->write_keys(h, w);
}

/* ---- config.json ---- */

/* Returns the value of "a.b.c": finds the hyperparameter a with `find`, then descends into its
 * members. If rope_parameters differ between kinds of layers, uses those of layers without a
 * window. Changes the name temporarily. */
typedef const struct json *find_fn(const struct hfdir *dir, const char *names);
/* Finds "a.b.c" in the config, or in its rope parameters for full attention. NULL: not found. */
static const struct json *find_dotted(find_fn *find, const struct hfdir *dir, char *name) {
    const struct json *j = NULL;
    for (char *part = name, *dot; part; part = dot ? dot + 1 : NULL) {
        dot = strchr(part, '.');
        if (dot) *dot = 0;
        const struct json *of = part == name ? find(dir, part) : json_get(j, part);
        j = of || part == name ? of : json_get(json_get(j, ROPE_FULL), part);
        if (dot) *dot = '.';
    }
    return j;
}

/* Returns the value of the first spelling in "a|b.c|d" that is present and not null, or otherwise
 * of the first one with a default. Copies that spelling to `name`. NULL: not found. */
static const struct json *find_hf(const struct hfdir *dir, const char *spellings, char name[128]) {
    static find_fn *const find[] = {hfdir_said, hfdir_hparam};
    for (size_t i = 0; i < COUNT_OF(find); i++)
        for (const char *s = spellings; s;) {
            const char *end = strchr(s, '|');
            size_t len = end ? (size_t)(end - s) : strlen(s);
            if (len < 128) {
                memcpy(name, s, len);
                name[len] = 0;
                const struct json *j = find_dotted(find[i], dir, name);
                if (json_type(j) != JSON_NULL) return j;
            }
            s = end ? end + 1 : NULL;
        }
    return NULL;
}

/* Returns entry i of a JSON array; INT64_MIN: not an integer. */
static int64_t json_entry(const void *of, int64_t i) {
    const struct json *j = json_first(of);
    int64_t v;
    while (j && i-- > 0) j = json_next(j);
    return json_i64(j, &v) ? v : INT64_MIN;
}

/* Reads the row's value from config.json, if present. */
static int row_from_hf(struct hparams *h, const struct hp_row *r, const struct hfdir *dir,
                       struct seen *seen, struct err *e) {
    char name[128];
    const struct json *j = r->hf ? find_hf(dir, r->hf, name) : NULL;
    const bool derived = json_str(j) && strcmp(json_str(j), "auto") == 0;
    if (!j || derived) {
        if (r->hf && (r->flags & HPF_REQUIRED) && !derived)
            return err_set(e, ERR_DATA, "%.*s is missing", (int)strcspn(r->hf, "|"), r->hf);
        store_default(h, r, seen);
        return 0;
    }
    if (r->flags & HPF_BOOL) return store_int(h, r, name, json_bool(j, false), seen, e);
    if (json_type(j) == JSON_ARR && (r->flags & HPF_LAYERS))
        return store_list(h, r, name, &(struct list){json_len(j), json_entry, j}, seen, e);
    if (json_type(j) != JSON_NUM) return err_set(e, ERR_DATA, "%s is not a number", name);
    if (r->flags & HPF_REAL) return store_real(h, r, name, json_num(j, (double)NAN), e);
    int64_t v;
    if (!json_i64(j, &v)) return err_set(e, ERR_DATA, "%s is not an integer", name);
    return store_int(h, r, name, v, seen, e);
}

/* Reads which layers use sliding windows. */
static int windows_from_hf(struct hparams *h, const struct arch *a, const struct hfdir *dir,
                           struct err *e) {
    const struct json *j = hfdir_hparam(dir, "sliding_window_pattern");
    int64_t period;
    if (!json_i64(j, &period) || period < 1) period = a->window_period;
    TRY(layers_windows_hf(h, hfdir_hparam(dir, "layer_types"), period, e));
    return a->window_keys ? 0 : layers_windows_check(h, a->window_period, e);
}

/* Rejects configs whose activation differs from the architecture's. Ignores hidden_act in Gemma's
 * configs. */
static int check_act(const struct arch *a, const struct hfdir *dir, struct err *e) {
    static const char *const names[ACT_COUNT][2] = {
        [ACT_SWIGLU] = {"silu", "silu"},
        [ACT_SWIGLU_OAI] = {"silu", "swigluoai"},
        [ACT_GEGLU] = {"gelu_pytorch_tanh", "gelu_new"},
        [ACT_GEGLU_ERF] = {"gelu", "gelu"},
        [ACT_GELU] = {"gelu_pytorch_tanh", "gelu_new"},
        [ACT_GELU_ERF] = {"gelu", "gelu"},
        [ACT_RELU2] = {"relu2", "relu2"},
        [ACT_RELU2_GATED] = {"relu2", "relu2"},
        [ACT_XIELU] = {"xielu", "xielu"},
    };
    if (!a->decoder) return 0; /* its from_hf checks it */
    const enum act act = a->decoder->block.ffn.act;
    const char *key = act == ACT_GEGLU ? "hidden_activation" : "hidden_act";
    if (act == ACT_RELU2 && hfdir_hparam(dir, "mlp_hidden_act")) key = "mlp_hidden_act";
    const char *is = hf_act(json_str(hfdir_hparam(dir, key)));
    return !is || strcmp(is, names[act][0]) == 0 || strcmp(is, names[act][1]) == 0
               ? 0
               : err_set(e, ERR_DATA, "%s is \"%.40s\", not %s", key, is, names[act][0]);
}

/* Rejects configs whose RoPE bases differ between kinds of layers if GGUF has only one base for the
 * architecture. */
static int check_bases(const struct hparams *h, const struct arch *a, const struct hfdir *dir,
                       struct err *e) {
    const double one = json_num(json_get(hf_rope(dir, ROPE_FULL), "rope_theta"), 0),
                 other = json_num(json_get(hf_rope(dir, ROPE_SLIDING), "rope_theta"), one);
    for (const struct hp_row *r = a->hp; r->slot >= 0; r++)
        if ((r->flags & HPF_WINDOWED) && r->slot == HF_ROPE_BASE) return 0;
    return !h->d[HD_WINDOW] || fabs(one - other) <= 0
               ? 0
               : err_set(e, ERR_DATA,
                         "rope_theta is %g for " ROPE_FULL " and %g for " ROPE_SLIDING
                         ", but the format has one number",
                         one, other);
}

/* Reads all hyperparameters from config.json. */
static int from_hf(struct hparams *h, const struct arch *a, const struct hfdir *dir,
                   struct err *e) {
    struct seen seen = {0};
    for (const struct hp_row *r = a->hp; r->slot >= 0; r++) TRY(row_from_hf(h, r, dir, &seen, e));
    TRY(check_layers(h, e));
    h->tied = json_bool(hfdir_hparam(dir, "tie_word_embeddings"), false);
    h->not_causal = !json_bool(hfdir_hparam(dir, "is_causal"), true);
    TRY(hf_check_unread(dir, e));
    TRY(check_bases(h, a, dir, e));
    if (!a->layer_sizes && json_len(hfdir_hparam(dir, "per_layer_config")) > 0)
        return err_set(e, ERR_DATA,
                       "per_layer_config sets sizes per layer, which %s files cannot store",
                       a->name);
    TRY(yarn_from_hf(h, a, dir, e));
    if (a->window_period && h->d[HD_WINDOW]) TRY(windows_from_hf(h, a, dir, e));
    if (a->from_hf) TRY(a->from_hf(h, dir, e));
    TRY(check_act(a, dir, e));
    return a->derive(h, e);
}

int hparams_from_hf(struct hparams *h, const struct arch *a, struct hfdir *dir, struct err *e) {
    config_complete(dir);
    memset(h, 0, sizeof *h);
    h->d[HD_ONE] = 1;
    return from_hf(h, a, dir, e) ? err_wrap(e, "%s/config.json", hfdir_path(dir)) : 0;
}
