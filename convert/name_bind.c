// SPDX-License-Identifier: MIT
/* convert/name_bind.c - sources of one output tensor: looks for each spelling of its name, with the
 * right shape and a supported storage format. */
#include "convert/name_map_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"

/* Implements dq_find: looks up a tensor by name and marks it as used. NULL: not found. */
static const struct st_tensor *find_claim(void *ud, const char *name) {
    struct mapping *m = ud;
    int64_t i = map_lookup(m, name);
    if (i < 0) return NULL;
    m->claimed[i] = 1;
    return hfdir_tensor_at(m->p->dir, i);
}

/* Context of find_only: the only tensor that dq_open may find. */
struct only {
    const char *name;
    const struct st_tensor *t;
};
/* Implements dq_find for the one tensor in ud. Returns NULL for any other name. */
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
        return err_wrap(e, "%s", q.part[0] ? map_file(p, q.part[0]) : hfdir_path(p->dir));
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
        const int64_t i = map_lookup(m, name);
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
        if (it->xf == splits[i] && map_probe(m, name, want, &q)) it->xf = XF_COPY;
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
    const int64_t i = n < 0 || n >= NAME_MAX_LEN ? -1 : map_lookup(m, other);
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
    const int64_t i = map_lookup(m, name);
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

int map_bind(struct mapping *m, struct item *it, struct err *e) {
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
