// SPDX-License-Identifier: MIT
/* convert/name_map.c - tensor name mapping, from sources to output tensors. Every expected tensor
 * must be found with the right shape and a supported storage format. Every source tensor must be
 * used, or belong to the parts that conversion deliberately leaves out (vision tower, unwanted MTP
 * block, tied head, recomputable tables). Nothing is dropped silently. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/name_map_int.h"

#include "base/fp.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"

enum { COMPARED_BYTES = 64 << 20 };

const char *map_file(const struct conv_plan *p, const struct st_tensor *t) {
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
                map_file(m->p, t), SHOW(hfdir_tensor_at(m->p->dir, had)->name), SHOW(t->name));
        m->claimed[i] = 1;
    }
    return 0;
}

static void map_release(struct mapping *m) {
    strmap_free(m->by_name);
    free(m->norm);
    free(m->claimed);
}

int64_t map_lookup(const struct mapping *m, const char *name) {
    return strmap_get(m->by_name, name, strlen(name));
}

/* Implements dq_find without marking the tensor; ud: a pointer to the mapping's. */
static const struct st_tensor *find_unmarked(void *ud, const char *name) {
    const struct mapping *const *m = ud;
    const int64_t i = map_lookup(*m, name);
    return i < 0 ? NULL : hfdir_tensor_at((*m)->p->dir, i);
}

bool map_probe(const struct mapping *m, const char *name, const int64_t *want, struct dq *q) {
    struct err ignored;
    bool is;
    return !dq_open(q, &m->p->quant, name, want, 2, false, find_unmarked, &m, &is, &ignored) && is;
}
const struct st_tensor *map_stored(const struct mapping *m, const char *name, struct dq *q) {
    static const int64_t any[2] = {1, 1};
    (void)map_probe(m, name, any, q);
    return q->part[0];
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
                   map_file(p, t), SHOW(t->name), p->arch->name);
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
        if (arch_name(name, sizeof name, s, len, layer, 0) && map_stored(ud, name, &q)) return true;
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
        const int64_t i = map_lookup(m, name);
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
            if (arch_name(name, sizeof name, s, strcspn(s, "|"), 0, 0)) t = map_stored(m, name, q);
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
        rc = map_bind(m, it, e);
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
