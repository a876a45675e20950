// SPDX-License-Identifier: MIT
/* convert/map.c - source names to output tensors. Every expected tensor must be found with the
 * right shape and a float dtype; every source tensor must be used, or be one that a text conversion
 * leaves out on purpose (vision tower, unwanted MTP block, tied head, recomputable tables). Nothing
 * is dropped silently. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/plan.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/show.h"

enum { NAME_MAX_LEN = 512 };
/* A stranger's name inside a message. */
#define SHOW(name) (show_n((name), strlen(name)).s)
struct map {
    struct plan *p;
    struct strmap *by_name; /* normalised name -> index in the folder */
    const char **norm;      /* [n_tensors] */
    uint8_t *claimed;       /* [n_tensors] */
    int64_t n;
};

/* Source file of a tensor, for messages. */
static const char *file_of(const struct plan *p, const struct st_tensor *t) {
    return st_path(hfdir_file(p->dir, t->file));
}

/* The name without "language_model.", wherever it stands as a whole part. */
static const char *normalise(struct arena *a, const char *name) {
    static const char part[] = "language_model.";
    const char *at = strstr(name, part);
    if (!at || (at != name && at[-1] != '.')) return name;
    size_t head = (size_t)(at - name), tail = strlen(at + sizeof part - 1);
    char *out = arena_alloc(a, head + tail + 1);
    memcpy(out, name, head);
    memcpy(out + head, at + sizeof part - 1, tail + 1);
    return out;
}

static int map_init(struct map *m, struct err *e) {
    m->n = hfdir_n_tensors(m->p->dir);
    m->by_name = strmap_new((size_t)m->n);
    m->norm = xcalloc((size_t)m->n + 1, sizeof *m->norm);
    m->claimed = xcalloc((size_t)m->n + 1, 1);
    for (int64_t i = 0; i < m->n; i++) {
        const struct st_tensor *t = hfdir_tensor_at(m->p->dir, i);
        m->norm[i] = normalise(&m->p->arena, t->name);
        if (!strmap_add(m->by_name, m->norm[i], strlen(m->norm[i]), i))
            return err_set(e, ERR_DATA,
                           "%s: tensor %s is there twice, with and without "
                           "\"language_model.\"",
                           file_of(m->p, t), SHOW(t->name));
    }
    return 0;
}

static void map_release(struct map *m) {
    strmap_free(m->by_name);
    free(m->norm);
    free(m->claimed);
}

/* Index of a source by normalised name, -1 when absent. */
static int64_t lookup(const struct map *m, const char *name) {
    return strmap_get(m->by_name, name, strlen(name));
}

static void fmt_shape(char out[128], const int64_t *shape, int n) {
    size_t k = 0;
    out[k++] = '[';
    for (int i = 0; i < n && k < 100; i++)
        k += (size_t)snprintf(out + k, 128 - k, "%s%lld", i ? ", " : "", (long long)shape[i]);
    snprintf(out + k, 128 - k, "]");
}

/* want[n], outer to inner; a source may carry one extra dimension of 1 in second place (conv1d). */
static int check_shape(const struct plan *p, const struct st_tensor *t, const int64_t *want, int n,
                       struct err *e) {
    bool same = t->n_dims == n || (t->n_dims == n + 1 && n >= 1 && t->shape[1] == 1);
    for (int i = 0; same && i < n; i++) same = want[i] == t->shape[i && t->n_dims > n ? i + 1 : i];
    if (same) return 0;
    char have[128], need[128];
    fmt_shape(have, t->shape, t->n_dims);
    fmt_shape(need, want, n);
    if (n == 2 && t->n_dims == 3 && t->shape[2] == 1 && t->shape[1] == want[1])
        return err_set(e, ERR_DATA,
                       "%s: tensor %s has shape %s, the layout of a folder already transformed for "
                       "MLX: convert the original Hugging Face release instead",
                       file_of(p, t), SHOW(t->name), have);
    return err_set(e, ERR_DATA,
                   "%s: tensor %s has shape %s, but config.json asks for %s: the weights "
                   "and config.json do not belong together",
                   file_of(p, t), SHOW(t->name), have, need);
}

/* Finds and checks the block scales of an FP8 tensor. */
static int find_scale(struct map *m, int64_t i, struct source *s, struct err *e) {
    struct plan *p = m->p;
    const struct st_tensor *t = s->t;
    char name[NAME_MAX_LEN];
    int len = snprintf(name, sizeof name, "%s_scale_inv", m->norm[i]);
    int64_t j = len > 0 && (size_t)len < sizeof name ? lookup(m, name) : -1;
    if (j < 0)
        return err_set(e, ERR_DATA,
                       "%s: tensor %s is %s without its scales (%s): only FP8 with "
                       "weight_scale_inv can be converted; use the BF16 release",
                       file_of(p, t), SHOW(t->name), st_dtype_name(t->dtype), SHOW(name));
    const struct st_tensor *sc = hfdir_tensor_at(p->dir, j);
    bool ok = sc->dtype == ST_F32 || sc->dtype == ST_BF16 || sc->dtype == ST_F16;
    if (sc->n_elems != 1) {
        ok = ok && p->scale_rows > 0 && p->scale_cols > 0 && t->n_dims >= 2 &&
             sc->n_dims == t->n_dims;
        for (int d = 0; ok && d < t->n_dims; d++) {
            int64_t blk = d == t->n_dims - 1   ? p->scale_cols
                          : d == t->n_dims - 2 ? p->scale_rows
                                               : 1;
            ok = sc->shape[d] == t->shape[d] / blk + (t->shape[d] % blk != 0);
        }
    }
    if (!ok)
        return err_set(e, ERR_DATA,
                       "%s: the scales %s do not fit tensor %s and weight_block_size of "
                       "config.json",
                       file_of(p, sc), SHOW(sc->name), SHOW(t->name));
    s->scale = sc;
    m->claimed[j] = 1;
    return 0;
}

static int check_dtype(struct map *m, int64_t i, struct source *s, struct err *e) {
    const struct st_tensor *t = s->t;
    if (t->dtype == ST_F32 || t->dtype == ST_F16 || t->dtype == ST_BF16) return 0;
    if (t->dtype == ST_F8_E4M3 || t->dtype == ST_F8_E5M2) return find_scale(m, i, s, e);
    return err_set(e, ERR_DATA,
                   "%s: tensor %s has dtype %s, but weights must be F32, F16, BF16 or "
                   "FP8: the folder is quantized or damaged; use the unquantized release",
                   file_of(m->p, t), SHOW(t->name), st_dtype_name(t->dtype));
}

/* Claims source i for an output; `want` as in check_shape. */
static int claim(struct map *m, int64_t i, const int64_t *want, int n, struct err *e) {
    struct plan *p = m->p;
    if (p->n_src == p->cap_src) {
        p->cap_src = p->cap_src ? 2 * p->cap_src : 1024;
        p->src = xreallocarray(p->src, (size_t)p->cap_src, sizeof *p->src);
    }
    struct source s = {.t = hfdir_tensor_at(p->dir, i)};
    TRY(check_shape(p, s.t, want, n, e));
    TRY(check_dtype(m, i, &s, e));
    m->claimed[i] = 1;
    p->src[p->n_src++] = s;
    return 0;
}

static int missing(const struct map *m, const struct item *it, const char *name, struct err *e) {
    return err_set(e, ERR_DATA,
                   "%s: tensor %s (for %s) is missing: download the folder again, or its "
                   "config.json belongs to another model",
                   hfdir_path(m->p->dir), name, it->inst.name);
}

/* One source per expert, stacked in numeric order. */
static int bind_stacked(struct map *m, struct item *it, const char *pat, size_t len, int64_t layer,
                        const int64_t *want, struct err *e) {
    it->xf = it->xf == XF_SPLIT_FIRST || it->xf == XF_SPLIT_SECOND ? XF_COPY : it->xf;
    for (int64_t x = 0; x < want[0]; x++) {
        char name[NAME_MAX_LEN];
        int64_t i = arch_name(name, sizeof name, pat, len, layer, x) ? lookup(m, name) : -1;
        if (i < 0) return missing(m, it, name, e);
        TRY(claim(m, i, want + 1, it->inst.n_dims - 1, e));
    }
    it->n_src = want[0];
    return 0;
}

/* Tries one spelling; *found tells. */
static int bind_spelling(struct map *m, struct item *it, const char *pat, size_t len, bool *found,
                         struct err *e) {
    const struct hparams *h = &m->p->hp;
    bool mtp_name = strncmp(pat, "mtp.", 4) == 0;
    bool mtp_block = it->inst.block >= h->d[HD_LAYERS];
    if (mtp_name != mtp_block) return 0;
    int64_t layer = it->inst.block - (mtp_block ? h->d[HD_LAYERS] : 0);
    char name[NAME_MAX_LEN];
    if (!arch_name(name, sizeof name, pat, len, layer < 0 ? 0 : layer, 0)) return 0;
    int64_t i = lookup(m, name), want[4];
    if (i < 0) return 0;
    *found = true;
    int n = it->inst.n_dims;
    for (int d = 0; d < n; d++) want[d] = it->inst.ne[n - 1 - d];
    const char *stack = strstr(pat, "%e");
    if (stack && stack < pat + len) return bind_stacked(m, it, pat, len, layer, want, e);
    if (it->xf == XF_SPLIT_FIRST || it->xf == XF_SPLIT_SECOND) want[n - 2] *= 2;
    it->n_src = 1;
    return claim(m, i, want, n, e);
}

/* Binds one expected tensor; n_src stays 0 when an optional one is not there. */
static int bind(struct map *m, struct item *it, struct err *e) {
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
    if (found || it->inst.optional) return 0;
    return missing(m, it, first, e);
}

static bool has_part(const char *name, const char *part) {
    for (const char *at = strstr(name, part); at; at = strstr(at + 1, part))
        if (at == name || at[-1] == '.') return true;
    return false;
}

static bool ends_with(const char *s, const char *end) {
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

/* A source nobody claimed: left out on purpose, or an error. */
static int account(struct map *m, int64_t i, bool no_mtp, struct err *e) {
    struct plan *p = m->p;
    const struct st_tensor *t = hfdir_tensor_at(p->dir, i);
    const char *name = m->norm[i];
    for (const char *const *s = p->arch->skip; s && *s; s++)
        if (has_part(name, *s)) {
            p->n_vision++;
            return 0;
        }
    if (no_mtp && strncmp(name, "mtp.", 4) == 0) return 0;
    if (p->hp.tied && strcmp(name, "lm_head.weight") == 0) {
        log_warn("%s is left out: config.json ties the head to the embedding", SHOW(t->name));
        return 0;
    }
    if (ends_with(name, ".rotary_emb.inv_freq") || ends_with(name, ".input_scale") ||
        ends_with(name, "activation_scale")) {
        log_debug("%s is not needed", SHOW(t->name));
        return 0;
    }
    return err_set(e, ERR_DATA,
                   "%s: tensor %s is not part of architecture %s: remove it, or the "
                   "folder is another kind of model (an adapter, a quantized or renamed copy)",
                   file_of(p, t), SHOW(t->name), p->arch->name);
}

/* MTP layers by their tensors; what the config says is only compared. */
static int count_mtp(struct map *m, bool no_mtp, struct err *e) {
    int64_t n = 0, said = m->p->hp.d[HD_MTP];
    for (int64_t i = 0; i < m->n; i++) {
        static const char head[] = "mtp.layers.";
        if (strncmp(m->norm[i], head, sizeof head - 1) != 0) continue;
        int64_t k = strtol(m->norm[i] + sizeof head - 1, NULL, 10);
        if (k >= 0 && k < HP_MAX_LAYERS && k + 1 > n) n = k + 1;
    }
    if (no_mtp)
        n = 0;
    else if (n > 1)
        return err_set(e, ERR_DATA,
                       "%s has %lld MTP layers, but one is supported: use --no-mtp to "
                       "leave them out",
                       hfdir_path(m->p->dir), (long long)n);
    else if (n && !said)
        log_warn("config.json names no MTP layer, but its tensors are there: it is kept");
    else if (said && !n)
        log_info(
            "config.json names %lld MTP layer(s), but the tensors are not there: none is written",
            (long long)said);
    m->p->hp.d[HD_MTP] = n;
    return m->p->hp.d[HD_LAYERS] + n > HP_MAX_LAYERS
               ? err_set(e, ERR_DATA, "%s has too many layers", hfdir_path(m->p->dir))
               : 0;
}

static int bind_all(struct map *m, bool no_mtp, struct err *e) {
    struct plan *p = m->p;
    TRY(map_init(m, e));
    if (p->arch->hp) TRY(count_mtp(m, no_mtp, e));
    if (!hfdir_hparam(p->dir, "tie_word_embeddings")) p->hp.tied = lookup(m, "lm_head.weight") < 0;
    TRY(p->arch->derive(&p->hp, e));
    struct tensor_inst *inst;
    int64_t n;
    TRY(arch_tensors(p->arch, &p->hp, &inst, &n, e));
    p->item = xcalloc((size_t)n, sizeof *p->item);
    int rc = 0;
    for (int64_t i = 0; i < n && !rc; i++) {
        struct item *it = &p->item[p->n_items];
        it->inst = inst[i];
        rc = bind(m, it, e);
        if (it->n_src || xform_makes(it->xf)) p->n_items++;
    }
    free(inst);
    for (int64_t i = 0; i < m->n && !rc; i++)
        if (!m->claimed[i]) rc = account(m, i, no_mtp, e);
    return rc;
}

int map_tensors(struct plan *p, bool no_mtp, struct err *e) {
    struct map m = {.p = p};
    int rc = bind_all(&m, no_mtp, e);
    map_release(&m);
    return rc;
}
