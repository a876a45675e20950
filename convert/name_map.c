// SPDX-License-Identifier: MIT
/* convert/name_map.c - tensor name mapping, from sources to output tensors. Every expected tensor
 * must be found with the right shape and a supported storage format. Every source tensor must be
 * used, or belong to the parts that conversion deliberately leaves out (vision tower, unwanted MTP
 * block, tied head, recomputable tables). Nothing is dropped silently. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/conv_plan.h"
#include "base/fp.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/printable.h"
#include "base/str.h"

enum { NAME_MAX_LEN = 512, COMPARED_BYTES = 64 << 20 };
/* Formats an untrusted name for a message. */
#define SHOW(name) (show_n((name), strlen(name)).s)
struct mapping {
    struct conv_plan *p;
    struct strmap *by_name; /* normalised name -> index in the folder */
    const char **norm;      /* [n_tensors] */
    uint8_t *claimed;       /* [n_tensors] */
    int64_t n;
    /* Set if an adapter or a multiplier unties the head: the embeddings' name, and the head's
     * possible names. */
    const char *untied, *head;
};

/* Returns the source file of a tensor, for messages. */
static const char *file_of(const struct conv_plan *p, const struct st_tensor *t) {
    return st_path(hfdir_file(p->dir, t->file));
}

/* Returns the name mtp.layers.N... for a tensor of a layer past the trunk if the config has MTP
 * blocks, because some checkpoints store MTP blocks as additional layers, or in the model. */
static const char *mtp_name(struct arena *a, const struct hparams *h, const char *name) {
    static const char head[] = "model.layers.", in_model[] = "model.mtp.layers.";
    char *end;
    if (strncmp(name, in_model, sizeof in_model - 1) == 0) return name + strlen("model.");
    if (h->d[HD_MTP] < 1 || strncmp(name, head, sizeof head - 1) != 0) return name;
    const long layer = strtol(name + sizeof head - 1, &end, 10);
    if (*end != '.' || layer < h->d[HD_LAYERS]) return name;
    const size_t cap = strlen(name) + 8;
    char *out = arena_alloc(a, cap);
    snprintf(out, cap, "mtp.layers.%lld%s", (long long)(layer - h->d[HD_LAYERS]), end);
    return out;
}

/* Returns whether two tensors have the same dtype, shape and bytes. Releases the mapped pages that
 * it reads. */
static bool same_tensor(const struct hfdir *dir, const struct st_tensor *a,
                        const struct st_tensor *b) {
    bool same = a->dtype == b->dtype && a->n_dims == b->n_dims && a->n_bytes == b->n_bytes;
    for (int i = 0; i < a->n_dims && same; i++) same = a->shape[i] == b->shape[i];
    for (uint64_t at = 0, n; at < a->n_bytes && same; at += n) {
        n = min_u64(a->n_bytes - at, COMPARED_BYTES);
        same = memcmp(a->data + at, b->data + at, n) == 0;
        st_drop(hfdir_file(dir, a->file), a->off + at, n);
        st_drop(hfdir_file(dir, b->file), b->off + at, n);
    }
    return same;
}

/* Indexes the folder's tensors by normalized name. ERR_DATA: two have the same name. */
static int map_init(struct mapping *m, struct err *e) {
    m->n = hfdir_n_tensors(m->p->dir);
    m->by_name = strmap_new((size_t)m->n);
    m->norm = xcalloc((size_t)m->n + 1, sizeof *m->norm);
    m->claimed = xcalloc((size_t)m->n + 1, 1);
    for (int64_t i = 0; i < m->n; i++) {
        const struct st_tensor *t = hfdir_tensor_at(m->p->dir, i);
        m->norm[i] = mtp_name(&m->p->arena, &m->p->hp, m->p->names.name[i]);
        if (strmap_add(m->by_name, m->norm[i], strlen(m->norm[i]), i)) continue;
        const int64_t had = strmap_get(m->by_name, m->norm[i], strlen(m->norm[i]));
        if (!same_tensor(m->p->dir, t, hfdir_tensor_at(m->p->dir, had)))
            return err_set(
                e, ERR_DATA,
                "%s: tensors %s and %s denote the same weight but have different values: "
                "remove the one that does not belong to the model",
                file_of(m->p, t), SHOW(hfdir_tensor_at(m->p->dir, had)->name), SHOW(t->name));
        m->claimed[i] = 1;
    }
    return 0;
}

static void map_release(struct mapping *m) {
    strmap_free(m->by_name);
    free(m->norm);
    free(m->claimed);
}

/* Returns the index of a source by its normalised name; -1: absent. */
static int64_t lookup(const struct mapping *m, const char *name) {
    return strmap_get(m->by_name, name, strlen(name));
}

/* Implements dq_find: looks up a tensor by name and marks it as used. NULL: not found. */
static const struct st_tensor *find_claim(void *ud, const char *name) {
    struct mapping *m = ud;
    int64_t i = lookup(m, name);
    if (i < 0) return NULL;
    m->claimed[i] = 1;
    return hfdir_tensor_at(m->p->dir, i);
}

/* Implements dq_find without marking the tensor; ud: a pointer to the mapping's. */
static const struct st_tensor *find_unmarked(void *ud, const char *name) {
    const struct mapping *const *m = ud;
    const int64_t i = lookup(*m, name);
    return i < 0 ? NULL : hfdir_tensor_at((*m)->p->dir, i);
}

/* Finds a tensor in any storage format without marking it as used. Returns whether it exists and
 * has the shape want[2]. q->part[0] receives its values even if the shape differs, or NULL if there
 * is no such tensor. */
static bool probe(const struct mapping *m, const char *name, const int64_t *want, struct dq *q) {
    struct err ignored;
    bool is;
    return !dq_open(q, &m->p->quant, name, want, 2, false, find_unmarked, &m, &is, &ignored) && is;
}
/* Returns the values of a tensor, in any storage format, and sets *q to the format; NULL: absent.
 */
static const struct st_tensor *stored(const struct mapping *m, const char *name, struct dq *q) {
    static const int64_t any[2] = {1, 1};
    (void)probe(m, name, any, q);
    return q->part[0];
}

/* Context of find_only: the only tensor that dq_open may find. */
struct only {
    const char *name;
    const struct st_tensor *t;
};
/* Implements dq_find for the single tensor in ud. NULL: its name is different. */
static const struct st_tensor *find_only(void *ud, const char *name) {
    const struct only *o = ud;
    return strcmp(name, o->name) == 0 ? o->t : NULL;
}

/* Makes q read a fully trained tensor of the adapter. */
static int take_whole(struct dq *q, const char *name, const struct st_tensor *t,
                      const int64_t *want, int n, bool turned, struct err *e) {
    static const struct dq_config none;
    struct only only = {name, t};
    bool is;
    if (dq_open(q, &none, name, want, n, turned, find_only, &only, &is, e))
        return err_wrap(e, "the adapter was made for another model");
    q->foreign = true;
    return 0;
}

static void add_source(struct conv_plan *p, const struct dq *q) {
    if (p->n_src == p->cap_src) {
        p->cap_src = p->cap_src ? 2 * p->cap_src : 1024;
        p->src = xreallocarray(p->src, (size_t)p->cap_src, sizeof *p->src);
    }
    p->src[p->n_src++] = *q;
}

/* Adds a source of an output; `want` as in dq_open. The base's tensor is looked up as `from`, the
 * adapter's as `name`. *found stays false if the base has none. */
static int claim_from(struct mapping *m, const char *name, const char *from, const int64_t *want,
                      int n, bool turned, bool *found, struct err *e) {
    struct conv_plan *p = m->p;
    struct dq q;
    bool is = false;
    int rc = dq_open(&q, &p->quant, from, want, n, turned, find_claim, m, &is, e);
    const struct st_tensor *whole = is && p->lora ? lora_whole(p->lora, name) : NULL;
    if (whole)
        TRY(take_whole(&q, name, whole, want, n, turned, e));
    else if (rc)
        return err_wrap(e, "%s", q.part[0] ? file_of(p, q.part[0]) : hfdir_path(p->dir));
    if (!is) return 0;
    if (p->lora) TRY(lora_bind(p->lora, name, p->hp.d[HD_EXPERTS], turned, &q, e));
    add_source(p, &q);
    *found = true;
    return 0;
}

/* Returns whether a name is one of the alternatives "a|b". */
static bool is_spelled(const char *spellings, const char *name) {
    const size_t n = strlen(name);
    for (const char *s = spellings; s && *s; s += strcspn(s, "|"), s += *s == '|')
        if (strcspn(s, "|") == n && memcmp(s, name, n) == 0) return true;
    return false;
}

/* Adds the source `name` with shape want[n], and marks it as used. Sets *found if it exists. */
static int claim_tensor(struct mapping *m, const char *name, const int64_t *want, int n,
                        bool turned, bool *found, struct err *e) {
    const bool own =
        m->untied && m->p->lora && lora_touches(m->p->lora, name) && is_spelled(m->head, name);
    return claim_from(m, name, own ? m->untied : name, want, n, turned, found, e);
}

/* Returns the name of a tensor in the folder that ends like `name`, for a hint; NULL: none. */
static const char *similar_name(const struct mapping *m, const char *name) {
    const size_t n = strlen(name);
    for (int64_t i = 0; i < m->n; i++) {
        const size_t len = strlen(m->norm[i]);
        if (len > n && m->norm[i][len - n - 1] == '.' && strcmp(m->norm[i] + len - n, name) == 0)
            return hfdir_tensor_at(m->p->dir, i)->name;
    }
    return NULL;
}

/* Writes the name that the folder would give a tensor of an MTP block (mtp_name), as it names the
 * block's other tensors; other names are copied. */
static void name_in_folder(const struct mapping *m, const char *name, char *out, size_t cap) {
    static const char head[] = "mtp.layers.";
    const size_t n = sizeof head - 1;
    const char *other = NULL;
    snprintf(out, cap, "%s", name);
    if (strncmp(name, head, n) != 0) return;
    for (int64_t i = 0; i < m->n && !other; i++)
        if (strncmp(m->norm[i], head, n) == 0) other = m->p->names.name[i];
    if (!other || strncmp(other, head, n) == 0) return;
    char *end;
    const long long block = strtoll(name + n, &end, 10);
    if (strncmp(other, "model.mtp.", 10) == 0)
        snprintf(out, cap, "model.%s", name);
    else
        snprintf(out, cap, "model.layers.%lld%s", block + (long long)m->p->hp.d[HD_LAYERS], end);
}

/* Sets and returns the error for a missing tensor, with a similar name if there is one. */
static int fail_missing(const struct mapping *m, const struct item *it, const char *norm,
                        struct err *e) {
    char name[256];
    name_in_folder(m, norm, name, sizeof name);
    const char *has = similar_name(m, norm), *dir = hfdir_path(m->p->dir);
    if (has)
        return err_set(e, ERR_DATA,
                       "%s: tensor %s (for %s) is missing, but %s is there: names with another "
                       "prefix on some tensors only are not supported, rename them",
                       dir, name, it->inst.name, SHOW(has));
    if (m->p->names.cut)
        return err_set(e, ERR_DATA,
                       "%s: tensor %s (for %s) is missing, even with \"%s\" instead of \"%s\", "
                       "as the embeddings are named: download the folder again, or its config.json "
                       "belongs to another model",
                       dir, name, it->inst.name, SHOW(m->p->names.cut), m->p->names.put);
    return err_set(e, ERR_DATA,
                   "%s: tensor %s (for %s) is missing: download the folder again, or its "
                   "config.json belongs to another model%s",
                   dir, name, it->inst.name,
                   it->inst.block >= m->p->hp.d[HD_LAYERS]
                       ? "; to leave out the MTP block, use --no-mtp"
                       : "");
}

/* Binds one source per expert, stacked in numerical order, or two ("%e.gate&up") with half of the
 * rows each. *found stays false if the first expert's is absent. */
static int bind_stacked(struct mapping *m, struct item *it, const char *pat, size_t len,
                        int64_t layer, const int64_t *want, bool *found, struct err *e) {
    const char *second = memchr(pat, '&', len), *stem = strstr(pat, "%e") + 3;
    const int n = second ? 2 : 1;
    const bool both = it->xf == XF_EVEN || it->xf == XF_ODD; /* halves of interleaved rows */
    int64_t shape[2] = {want[1] * (1 + both) / n, want[2]};
    for (int64_t x = 0; x < n * want[0]; x++) {
        char name[NAME_MAX_LEN], joined[NAME_MAX_LEN];
        bool is = false;
        const char *tail = x % n ? second + 1 : stem;
        const size_t n_tail = (size_t)((second && x % n == 0 ? second : pat + len) - tail);
        snprintf(joined, sizeof joined, "%.*s%.*s", (int)(stem - pat), pat, (int)n_tail, tail);
        if (arch_name(name, sizeof name, joined, strlen(joined), layer, x / n))
            TRY(claim_tensor(m, name, shape, it->inst.n_dims - 1, false, &is, e));
        if (!is && x) return fail_missing(m, it, name, e);
        if (!is) return 0;
    }
    if (!both && (it->xf == XF_SPLIT_FIRST || it->xf == XF_SPLIT_SECOND || xform_turns(it->xf)))
        it->xf = XF_COPY;
    it->n_src = n * want[0];
    *found = true;
    return 0;
}

/* Binds the shards of a matrix, "%e" from 0 up to the first that is missing. Their rows must add up
 * to want[0]. *found stays false if the first is missing. */
static int bind_shards(struct mapping *m, struct item *it, const char *pat, size_t len,
                       int64_t layer, const int64_t *want, bool *found, struct err *e) {
    int64_t rows = 0, cap = 0;
    for (int64_t x = 0;; x++) {
        char name[NAME_MAX_LEN];
        bool is = false;
        if (!arch_name(name, sizeof name, pat, len, layer, x)) return 0;
        const int64_t i = lookup(m, name);
        if (i < 0) break;
        const struct st_tensor *t = hfdir_tensor_at(m->p->dir, i);
        const int64_t shape[2] = {t->n_dims == 2 ? t->shape[0] : 1, want[1]};
        TRY(claim_tensor(m, name, shape, 2, false, &is, e));
        if (x == cap) {
            int64_t *more = arena_alloc(&m->p->arena, sizeof *more * (size_t)(2 * cap + 16));
            if (cap) memcpy(more, it->shard_row, sizeof *more * (size_t)cap);
            it->shard_row = more;
            cap = 2 * cap + 16;
        }
        it->shard_row[x] = rows;
        rows += shape[0];
        it->n_src++;
        if (!strstr(pat, "%e") || strstr(pat, "%e") >= pat + len) break;
    }
    if (!it->n_src) return 0;
    if (rows != want[0])
        return err_set(e, ERR_DATA, "%s: the %lld shards of %s have %lld rows, not %lld",
                       hfdir_path(m->p->dir), (long long)it->n_src, it->inst.name, (long long)rows,
                       (long long)want[0]);
    *found = true;
    return 0;
}

/* Binds the two vectors "a&b" of a product, each a vector or a matrix with one row. */
static int bind_product(struct mapping *m, struct item *it, const char *pat, size_t len,
                        int64_t layer, const int64_t *want, bool *found, struct err *e) {
    const size_t at = strcspn(pat, "&");
    const int64_t shape[2] = {1, want[0]};
    for (int k = 0; k < 2; k++) {
        char name[NAME_MAX_LEN];
        bool is = false;
        const char *part = k ? pat + at + 1 : pat;
        if (!arch_name(name, sizeof name, part, k ? len - at - 1 : at, layer, 0)) return 0;
        TRY(claim_tensor(m, name, shape, 2, false, &is, e));
        if (!is && !k) return 0;
        if (!is) return fail_missing(m, it, name, e);
        if (m->p->src[m->p->n_src - 1].delta || !dq_is_plain(&m->p->src[m->p->n_src - 1]))
            return err_set(e, ERR_DATA,
                           "%s is quantized or changed by an adapter, which is not "
                           "supported",
                           name);
    }
    it->n_src = 2;
    *found = true;
    return 0;
}

/* Binds a table of integers. */
static int bind_integers(struct mapping *m, struct item *it, const char *name, const int64_t *want,
                         int n, bool *found, struct err *e) {
    const struct st_tensor *t = find_claim(m, name);
    if (!t) return 0;
    struct dq q;
    TRY(dq_open_integers(&q, name, t, want, n, e));
    add_source(m->p, &q);
    it->n_src = 1;
    *found = true;
    return 0;
}

/* Changes the item's transform from splitting a fused matrix to copying, if the folder's tensor
 * `name` is the item's own part with the shape want[2]. */
static void unfused(const struct mapping *m, struct item *it, const char *name,
                    const int64_t want[4]) {
    static const enum xform splits[] = {XF_SPLIT_FIRST, XF_SPLIT_SECOND, XF_STRIPE_Q, XF_STRIPE_K,
                                        XF_STRIPE_V};
    struct dq q;
    for (size_t i = 0; i < COUNT_OF(splits) && it->inst.n_dims == 2; i++)
        if (it->xf == splits[i] && probe(m, name, want, &q)) it->xf = XF_COPY;
}

/* Returns the layout of square fused experts, which their own shape does not show, from the other
 * tensor of the same experts: 1 for transposed, 0 for not, -1 for unknown. */
static int square_layout(const struct mapping *m, const char *name) {
    static const char up[] = "gate_up_proj", down[] = "down_proj";
    const int64_t width = m->p->hp_src.d[HD_EMBD];
    const char *at = strstr(name, up);
    const bool to_down = at != NULL;
    char other[NAME_MAX_LEN];
    if (!at) at = strstr(name, down);
    if (!at) return -1;
    const int n = snprintf(other, sizeof other, "%.*s%s%s", (int)(at - name), name,
                           to_down ? down : up, at + strlen(to_down ? up : down));
    const int64_t i = n < 0 || n >= NAME_MAX_LEN ? -1 : lookup(m, other);
    const struct st_tensor *t = i < 0 ? NULL : hfdir_tensor_at(m->p->dir, i);
    if (!t || t->n_dims != 3 || (t->shape[1] == width) == (t->shape[2] == width)) return -1;
    return (t->shape[1] == width) != to_down; /* down_proj has `width` rows, gate_up_proj columns */
}

/* Chooses the transform by the layout of fused experts, [rows][columns] or transposed. Releases of
 * transformers differ: if only the layout that the table does not name fits the shape, it is
 * used. */
static void choose_orientation(const struct mapping *m, struct item *it, const char *name,
                               const int64_t want[4]) {
    static const struct {
        enum xform plain, turned;
    } pair[] = {
        {XF_COPY, XF_TURN}, {XF_SPLIT_FIRST, XF_TURN_FIRST}, {XF_SPLIT_SECOND, XF_TURN_SECOND}};
    const int64_t i = lookup(m, name);
    const struct st_tensor *t = i < 0 ? NULL : hfdir_tensor_at(m->p->dir, i);
    if (!t || t->n_dims != 3 || it->inst.n_dims != 3 || !role_is_routed(it->inst.row->role)) return;
    bool as_is = t->shape[1] == want[1] && t->shape[2] == want[2];
    bool swapped = t->shape[1] == want[2] && t->shape[2] == want[1];
    if (as_is && swapped) {
        const int turned = square_layout(m, name);
        if (turned >= 0) swapped = turned, as_is = !turned;
    }
    for (size_t k = 0; k < COUNT_OF(pair) && as_is != swapped; k++)
        if (it->xf == pair[k].plain || it->xf == pair[k].turned) {
            it->xf = swapped ? pair[k].turned : pair[k].plain;
            return;
        }
}

/* Binds the item to the tensors that one spelling of its name pattern denotes. Sets *found if they
 * exist. */
static int bind_spelling(struct mapping *m, struct item *it, const char *pat, size_t len,
                         bool *found, struct err *e) {
    const struct hparams *h = &m->p->hp;
    bool mtp_name = strncmp(pat, "mtp.", 4) == 0;
    bool mtp_block = it->inst.block >= h->d[HD_LAYERS];
    if (mtp_name != mtp_block) return 0;
    int64_t layer = max_i64(0, it->inst.block - (mtp_block ? h->d[HD_LAYERS] : 0)), want[4] = {0};
    int n = it->inst.n_dims;
    int64_t ne[4];
    arch_shape(it->inst.row, &m->p->hp_src, it->inst.block, ne);
    for (int d = 0; d < n; d++) want[d] = ne[n - 1 - d];
    const char *stack = strstr(pat, "%e");
    if (it->xf == XF_SHARDS) return bind_shards(m, it, pat, len, h->d[HD_NGRAM_AT], want, found, e);
    if (it->xf == XF_PRODUCT) return bind_product(m, it, pat, len, layer, want, found, e);
    if (stack && stack < pat + len) return bind_stacked(m, it, pat, len, layer, want, found, e);
    char name[NAME_MAX_LEN];
    if (!arch_name(name, sizeof name, pat, len, layer, 0)) return 0;
    if (it->inst.row->flags & (TR_I32 | TR_I64))
        return bind_integers(m, it, name, want, n, found, e);
    unfused(m, it, name, want);
    xform_want(&m->p->hp_src, it, want);
    choose_orientation(m, it, name, want);
    if (it->xf == XF_LATENT_K || it->xf == XF_LATENT_V) n = xform_latent_source(h, want);
    TRY(claim_tensor(m, name, want, n, xform_turns(it->xf), found, e));
    if (*found && it->xf == XF_TURN && n == 2 && !dq_is_plain(&m->p->src[m->p->n_src - 1]))
        return err_set(e, ERR_DATA, "%s is stored transposed and quantized, which is not supported",
                       name);
    it->n_src = *found;
    return 0;
}

/* Binds a head that is tied to the embeddings in the folder, but not in the output. */
static int bind_untied(struct mapping *m, struct item *it, const char *name, bool *found,
                       struct err *e) {
    int64_t want[4] = {it->inst.ne[1], it->inst.ne[0]};
    TRY(claim_from(m, name, m->untied, want, 2, false, found, e));
    it->n_src = *found;
    return 0;
}

/* Binds one expected tensor; n_src stays 0 if an optional one is absent. */
static int bind_tensor(struct mapping *m, struct item *it, struct err *e) {
    const struct tensor_row *row = it->inst.row;
    bool found = false;
    char first[NAME_MAX_LEN] = "";
    it->src = m->p->n_src;
    it->xf = row->xf;
    if (xform_makes(row->xf)) return 0;
    bool mtp = it->inst.block >= m->p->hp.d[HD_LAYERS];
    for (const char *s = row->hf; s && !found;) {
        size_t len = strcspn(s, "|");
        if (!first[0] && mtp == (strncmp(s, "mtp.", 4) == 0)) {
            int64_t layer = it->inst.block - (mtp ? m->p->hp.d[HD_LAYERS] : 0);
            (void)arch_name(first, sizeof first, s, len, layer < 0 ? 0 : layer, 0);
        }
        TRY(bind_spelling(m, it, s, len, &found, e));
        s = s[len] ? s + len + 1 : NULL;
    }
    if (!found && m->untied && (row->flags & TR_TIED)) TRY(bind_untied(m, it, first, &found, e));
    if (found || it->inst.optional) return 0;
    return fail_missing(m, it, first, e);
}

/* Returns whether the dotted name has `part` at its beginning or after a dot. */
static bool has_part(const char *name, const char *part) {
    for (const char *at = strstr(name, part); at; at = strstr(at + 1, part))
        if (at == name || at[-1] == '.') return true;
    return false;
}

/* Returns whether a tensor is not needed: quantization data for activations and caches, and tables
 * that can be recomputed (RoPE angles, position ids, masks). */
static bool not_needed(const char *name, const struct st_tensor *t) {
    static const char *const tail[] = {"rotary_emb.inv_freq",
                                       "rotary_emb.original_inv_freq",
                                       "rotary_emb.cos_cached",
                                       "rotary_emb.sin_cached",
                                       "position_ids",
                                       ".masked_bias",
                                       "activation_scale",
                                       ".input_scale",
                                       "_proj_input_scale",
                                       ".input_global_scale",
                                       ".qscale_act",
                                       ".k_scale",
                                       ".v_scale",
                                       ".q_scale",
                                       ".kv_scale",
                                       ".prob_scale",
                                       ".output_scale",
                                       ".k_zero_point",
                                       ".v_zero_point",
                                       ".input_zero_point",
                                       ".output_zero_point"};
    for (size_t i = 0; i < COUNT_OF(tail); i++)
        if (str_ends(name, tail[i])) return true;
    return str_ends(name, ".bias") && t->n_dims == 4; /* causal mask of older classes */
}

/* Returns whether a tensor is an all-zero bias, which some tools add to every linear layer. */
static bool zero_bias(const char *name, const struct st_tensor *t) {
    if (!str_ends(name, ".bias") || t->n_elems > 1 << 20) return false;
    for (int64_t i = 0; i < t->n_elems; i++) {
        float v;
        struct err ignored;
        if (st_to_f32(t, i, 1, &v, &ignored) || fp_bits(v) << 1) return false;
    }
    return true;
}

/* Handles a source that no row claimed: drops it if that is known to be correct, otherwise
 * fails. */
static int account_for(struct mapping *m, int64_t i, bool no_mtp, bool tower_done, struct err *e) {
    struct conv_plan *p = m->p;
    const struct st_tensor *t = hfdir_tensor_at(p->dir, i);
    const char *name = m->norm[i];
    const bool kept = p->keeps[t->file];
    p->keeps[t->file] = kept || !tower_done || !plan_is_tower(p, i);
    for (const char *const *s = p->arch->skip; s && *s; s++)
        if (has_part(name, *s + (**s == '='))) {
            p->n_vision += **s != '=';
            return 0;
        }
    if (hf_names_other_part(p->arch, name)) {
        p->n_vision++;
        return 0;
    }
    if (no_mtp && strncmp(name, "mtp.", 4) == 0) return 0;
    if (p->hp.tied && strcmp(name, "lm_head.weight") == 0) {
        log_warn("%s is left out: config.json ties the head to the embedding", SHOW(t->name));
        return 0;
    }
    if (not_needed(name, t) || zero_bias(name, t)) {
        log_debug("%s is not needed", SHOW(t->name));
        p->keeps[t->file] = kept;
        return 0;
    }
    if (hfdir_unlisted(p->dir, i)) {
        log_warn("%s is left out: neither the index nor the model has it", SHOW(t->name));
        return 0;
    }
    return err_set(e, ERR_DATA,
                   "%s: tensor %s is not part of architecture %s: remove it, or the "
                   "folder is another kind of model (an adapter, a quantized or renamed copy)",
                   file_of(p, t), SHOW(t->name), p->arch->name);
}

/* Counts MTP layers by their tensors; the number in config.json is only compared with the
 * result. */
static int count_mtp(struct mapping *m, bool no_mtp, struct err *e) {
    int64_t n = 0, said = m->p->hp.d[HD_MTP];
    for (int64_t i = 0; i < m->n; i++) {
        static const char head[] = "mtp.layers.";
        if (strncmp(m->norm[i], head, sizeof head - 1) != 0) continue;
        int64_t k = strtol(m->norm[i] + sizeof head - 1, NULL, 10);
        if (k >= 0 && k < HP_MAX_LAYERS && k + 1 > n) n = k + 1;
    }
    const int64_t parts = max_i64(m->p->arch->mtp_parts, 1);
    n = div_up(n, parts);
    if (no_mtp)
        n = 0;
    else if (n && !said && !m->p->arch->keeps_mtp) /* MiMo's config.json has no number */
        log_warn("config.json lists no MTP layer, but its tensors exist: keeping it");
    else if (n > 1 && m->p->arch->drafts)
        log_warn("%lld MTP layers are kept, but hone drafts only with the first", (long long)n);
    else if (said && !n && hfdir_said(m->p->dir, "num_nextn_predict_layers|mtp_num_hidden_layers"))
        log_info("config.json lists %lld MTP layer(s), but their tensors are missing: writing none",
                 (long long)said);
    m->p->hp.d[HD_MTP] = n;
    return m->p->hp.d[HD_LAYERS] + n > HP_MAX_LAYERS
               ? err_set(e, ERR_DATA, "%s has too many layers", hfdir_path(m->p->dir))
               : 0;
}

/* Pads feed-forward widths with zeros to multiples of 256. The output does not change: padded
 * values are act(0) * 0, and are multiplied by columns of zeros. */
static int pad_widths(struct conv_plan *p, struct err *e) {
    static const int slot[] = {HD_FF, HD_FF_EXP, HD_FF_SHEXP};
    for (size_t i = 0; i < COUNT_OF(slot); i++)
        p->hp.d[slot[i]] = (p->hp.d[slot[i]] + 255) / 256 * 256;
    for (int64_t i = 0; i < p->hp.d[HD_LAYERS]; i++) /* differs between layers */
        p->hp.layer[i].ff = (p->hp.layer[i].ff + 255) / 256 * 256;
    return p->arch->derive(&p->hp, e);
}

/* Returns whether the folder has a source for the row in a layer, under any spelling (of stacked
 * sources, the first). */
static bool source_has(const void *ud, const struct tensor_row *row, int64_t layer) {
    for (const char *s = row->hf; s;) {
        const size_t len = strcspn(s, "|");
        char name[NAME_MAX_LEN];
        struct dq q;
        if (arch_name(name, sizeof name, s, len, layer, 0) && stored(ud, name, &q)) return true;
        s = s[len] ? s + len + 1 : NULL;
    }
    return false;
}

/* Sets HD_MTP if config.json mentions no MTP block, but a layer after the trunk has a tensor that
 * only MTP blocks have. Applies to architectures with rows for MTP blocks. */
static void find_mtp(struct conv_plan *p) {
    const struct tensor_row *r = p->arch->tensors;
    const int64_t trunk = p->hp.d[HD_LAYERS];
    while (r->gguf && r->where != W_MTP) r++;
    for (int64_t i = 0; i < hfdir_n_tensors(p->dir) && r->gguf && !p->hp.d[HD_MTP]; i++) {
        const char *name = hfdir_tensor_at(p->dir, i)->name, *at = strstr(name, "layers.");
        if (!at || !str_ends(name, ".eh_proj.weight") || strtol(at + 7, NULL, 10) < trunk) continue;
        log_warn("config.json lists no MTP layer, but layer %ld is one", strtol(at + 7, NULL, 10));
        p->hp.d[HD_MTP] = 1;
    }
}

/* Returns the architecture's row with this GGUF name; NULL: not found. */
static const struct tensor_row *row_named(const struct arch *a, const char *gguf) {
    const struct tensor_row *r = a->tensors;
    while (r->gguf && strcmp(r->gguf, gguf) != 0) r++;
    return r->gguf ? r : NULL;
}

/* Returns the name of the embeddings in the folder, under the first spelling present, and sets *t
 * to the tensor. Without one, returns the last spelling and leaves *t unchanged. */
static const char *embeddings(struct mapping *m, const struct tensor_row *in,
                              const struct st_tensor **t) {
    const char *name = NULL;
    for (const char *s = in->hf; s && *s && !*t; s += strcspn(s, "|"), s += *s == '|') {
        name = arena_strndup(&m->p->arena, s, strcspn(s, "|"));
        const int64_t i = lookup(m, name);
        if (i >= 0) *t = hfdir_tensor_at(m->p->dir, i);
    }
    return name;
}

/* Writes a tied head as a tensor of its own if embeddings and head are multiplied by different
 * factors (Falcon-H1). */
static int untie_factors(struct mapping *m, struct err *e) {
    struct hparams *h = &m->p->hp;
    const struct tensor_row *in = row_named(m->p->arch, "token_embd.weight"),
                            *out = row_named(m->p->arch, "output.weight");
    const struct st_tensor *t = NULL;
    if (!h->tied || !in || !out || in->xf != XF_MULTIPLY || out->xf != XF_MULTIPLY) return 0;
    const float a = h->mul[in->group], b = h->mul[out->group];
    if (!(a < b || a > b)) return 0;
    if (m->p->lora)
        return err_set(e, ERR_DATA,
                       "%s: embeddings and head are tied with two multipliers, which --lora does "
                       "not support: merge the adapter first",
                       hfdir_path(m->p->dir));
    h->tied = false;
    m->untied = embeddings(m, in, &t);
    m->head = out->hf;
    return 0;
}

/* Applies an adapter's changes to the token count and to the tie between head and embeddings. */
static int adapt_head(struct mapping *m, struct err *e) {
    struct conv_plan *p = m->p;
    const struct tensor_row *in = row_named(p->arch, "token_embd.weight"),
                            *out = row_named(p->arch, "output.weight");
    const struct st_tensor *embd = NULL;
    bool untie;
    if (!p->lora || !in) return 0;
    const char *name = embeddings(m, in, &embd);
    TRY(lora_head(p->lora, in->hf, out ? out->hf : NULL, embd, p->hp.tied, &p->hp.d[HD_VOCAB],
                  &untie, e));
    if (untie && out && (out->flags & TR_TIED)) {
        log_info("the adapter trained embeddings and head separately: writing output.weight");
        p->hp.tied = false;
        m->untied = name;
        m->head = out->hf;
    } else if (untie) {
        log_warn("%s files have one matrix for embeddings and head: the adapter's change of the "
                 "embeddings also applies to the head",
                 p->arch->name);
    }
    return 0;
}

/* Returns the values of the folder's tensor for the output tensor `gguf`, under the first spelling
 * present, and sets *q to their format; NULL: absent. */
static const struct st_tensor *source_of(const struct mapping *m, const char *gguf, struct dq *q) {
    const struct st_tensor *t = NULL;
    for (const struct tensor_row *r = m->p->arch->tensors; r->gguf; r++)
        for (const char *s = strcmp(r->gguf, gguf) ? NULL : r->hf; s && *s && !t;
             s += strcspn(s, "|"), s += *s == '|') {
            char name[NAME_MAX_LEN];
            if (arch_name(name, sizeof name, s, strcspn(s, "|"), 0, 0)) t = stored(m, name, q);
        }
    return t;
}

/* Determines from the tensors whether the head is tied, because config.json does not always match
 * the saved weights. A head that differs from the embeddings is written, and so is one if either of
 * them is quantized. If the text_config of a vision model contradicts the top-level config, the
 * latter decides about a missing head. Embedding models need none. */
static void check_tie(struct mapping *m) {
    struct hparams *h = &m->p->hp;
    struct dq in = {0}, out = {0};
    const struct json *said = hfdir_said(m->p->dir, "tie_word_embeddings");
    const struct st_tensor *embd = source_of(m, "token_embd.weight", &in);
    const struct st_tensor *head = source_of(m, "output.weight", &out);
    const struct json *whole = json_get(hfdir_config(m->p->dir), "tie_word_embeddings");
    const bool may_lack = m->p->embeds || json_bool(whole, false);
    const bool tied = said && (head || !may_lack) ? h->tied : !head;
    const bool both = tied && head && embd, plain = dq_is_plain(&in) && dq_is_plain(&out);
    if (both) m->p->keeps[embd->file] = m->p->keeps[head->file] = true;
    if (both && (!plain || (embd->n_dims == head->n_dims && embd->shape[0] == head->shape[0] &&
                            !same_tensor(m->p->dir, embd, head)))) {
        log_warn("%s differs from the embeddings: writing it although config.json ties them",
                 SHOW(head->name));
        h->tied = false;
    } else {
        h->tied = tied;
    }
}

/* Returns whether a file with only the MTP block has this tensor: those of the block, and those
 * that it shares with the model. */
static bool is_drafting(const struct hparams *h, const struct tensor_inst *t) {
    static const char *const shared[] = {"token_embd.weight", "output_norm.weight",
                                         "output.weight"};
    bool is = t->block >= h->d[HD_LAYERS];
    for (size_t i = 0; i < COUNT_OF(shared); i++) is |= strcmp(t->name, shared[i]) == 0;
    return is;
}

/* Finds the sources of all tensors. ERR_DATA: a source is missing or left over. */
static int bind_all(struct mapping *m, const struct convert_opts *o, struct err *e) {
    struct conv_plan *p = m->p;
    find_mtp(p);
    const bool kept = (p->arch->drafts || p->arch->keeps_mtp) && !p->hp.d[HD_NO_MTP];
    const bool unused = p->hp.d[HD_MTP] > 0 && !kept;
    const bool no_mtp = o->no_mtp || unused;
    TRY(map_init(m, e));
    if (unused) log_info("the MTP block is left out, as usual for %s", p->arch->name);
    if (p->arch->hp) TRY(count_mtp(m, no_mtp || !kept, e));
    if (o->mtp_only && !p->hp.d[HD_MTP])
        return err_set(e, ERR_DATA, "%s has no MTP block that hone can write: leave out --mtp-only",
                       hfdir_path(p->dir));
    hparams_found(&p->hp, p->arch, source_has, m);
    check_tie(m);
    TRY(untie_factors(m, e));
    TRY(adapt_head(m, e));
    TRY(p->arch->derive(&p->hp, e));
    p->hp_src = p->hp;
    if (o->pad) TRY(pad_widths(p, e));
    if (p->arch->ple_rows) p->hp.d[HD_PLE_VOCAB] = p->hp.d[HD_VOCAB];
    struct tensor_inst *inst;
    int64_t n;
    TRY(arch_tensors(p->arch, &p->hp, &inst, &n, e));
    p->item = xcalloc((size_t)n, sizeof *p->item);
    int rc = 0;
    for (int64_t i = 0; i < n && !rc; i++) {
        struct item *it = &p->item[p->n_items];
        it->inst = inst[i];
        if (o->mtp_only && !is_drafting(&p->hp, &inst[i])) continue;
        rc = bind_tensor(m, it, e);
        if (it->n_src || xform_makes(it->xf)) p->n_items++;
    }
    free(inst);
    for (int64_t i = 0; i < m->n && !rc && !o->mtp_only; i++)
        if (!m->claimed[i]) rc = account_for(m, i, no_mtp, o->tower_done, e);
    return !rc && p->lora ? lora_all_used(p->lora, p->arch, e) : rc;
}

int map_tensors(struct conv_plan *p, const struct convert_opts *o, struct err *e) {
    struct mapping m = {.p = p};
    p->keeps = xcalloc((size_t)hfdir_n_files(p->dir) + 1, sizeof *p->keeps);
    int rc = bind_all(&m, o, e);
    map_release(&m);
    return rc;
}
