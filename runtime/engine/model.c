// SPDX-License-Identifier: MIT
/* runtime/engine/model.c - binding of a GGUF file to its architecture's graph.
 *
 * containers/gguf.h opens and validates the file, the architecture's table reads its
 * hyperparameters, the graph is built, and every weight of the graph is looked up and its shape
 * checked. Conversely, every tensor in the file must belong to the architecture: an unknown tensor
 * would mean that some computation is silently missing.
 *
 * Nothing is copied: weights are pointers into the mapped file. */
#include "runtime/engine/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "kernels/kern.h"

/* Writes a shape as "64 x 32", without trailing ones. */
static void shape_text(char out[96], const int64_t ne[4]) {
    int n = 4;
    while (n > 1 && ne[n - 1] == 1) n--;
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        int w = snprintf(out + at, 96 - at, "%s%" PRId64, i ? " x " : "", ne[i]);
        if (w > 0) at += (size_t)w;
    }
}

/* Returns whether two shapes are equal; 0 counts as 1. */
static bool shape_equal(const int64_t a[4], const int64_t b[4]) {
    for (int i = 0; i < 4; i++)
        if ((a[i] ? a[i] : 1) != (b[i] ? b[i] : 1)) return false;
    return true;
}

/* Returns ERR_DATA unless the tensor has the shape. */
static int check_shape(const struct gguf_tensor *t, const int64_t want[4], struct err *e) {
    if (shape_equal(t->ne, want)) return 0;
    char have_text[96], want_text[96];
    shape_text(have_text, t->ne);
    shape_text(want_text, want);
    return err_set(e, ERR_DATA,
                   "tensor %s has shape %s but the model requires %s: metadata and tensors do not "
                   "match",
                   t->name, have_text, want_text);
}

/* Returns whether a file with an MTP block uses its own embeddings as the head, as its target
 * does. */
static bool has_tied_head(const struct model *m) {
    return !m->arch->draft && m->target->hp.tied && gguf_find_tensor(m->gguf, "token_embd.weight");
}

/* Like find_weight, for a weight that a draft file lacks: its target's embeddings or head. */
static const struct weight *find_in_target(const struct model *m, const char *name,
                                           const struct gguf_tensor **t) {
    const struct model *of = m->target;
    const bool head = strcmp(name, "output.weight") == 0;
    if (!of || (!head && strcmp(name, "token_embd.weight") != 0)) return NULL;
    if (head && has_tied_head(m)) return NULL;
    if (head) name = model_head(of)->name;
    *t = gguf_find_tensor(of->gguf, name);
    return *t ? model_find_weight(of, name) : NULL;
}

/* Returns the weight of this name, or NULL if it is missing; *t receives its tensor, for messages
 * and shapes. A model made from `trunk` uses the trunk's weight, which may have been replaced;
 * otherwise the weight is the file's. */
static const struct weight *find_weight(const struct model *m, const struct model *trunk,
                                        const char *name, const struct gguf_tensor **t) {
    const struct model *root = m->of ? m->of : m;
    const struct weight *w = trunk ? model_find_weight(trunk, name) : NULL;
    *t = gguf_find_tensor(m->gguf, name);
    for (int i = 0; !*t && i < root->n_made; i++)
        if (strcmp(root->made[i].name, name) == 0) {
            *t = &root->made[i].t;
            return w ? w : &root->made[i].w;
        }
    if (!w && !*t) return find_in_target(m, name, t);
    if (w || !*t) return w;
    return &root->tensor[*t - gguf_tensor_at(m->gguf, 0)];
}

/* Sets ERR_DATA about a missing tensor. */
static int missing(const struct model *m, const char *name, struct err *e) {
    char one[80];
    const char *at = strstr(name, "_exps.");
    snprintf(one, sizeof one, "%.*s.0.weight", at ? (int)(at - name) : 0, name);
    if (at && gguf_find_tensor(m->gguf, one))
        return err_set(e, ERR_DATA,
                       "the experts are stored one by one, as %s and so on, which older programs "
                       "and MLX do: get a newer file, or convert the model again",
                       one);
    return err_set(e, ERR_DATA, "tensor %s is missing: the file is incomplete%s", name,
                   m->target ? "; convert the draft again"
                             : " or holds only an MTP block, which --draft takes; use a file of "
                               "the whole model");
}

/* Binds the graph's weights and checks their shapes. They are shared with `trunk` or, if that is
 * NULL, taken from the file. */
static int bind_weights(struct model *m, const struct model *trunk, const struct kern *k,
                        struct err *e) {
    const struct graph *g = &m->graph;
    size_t n = (size_t)g->n_weights;
    m->weight = xcalloc(n, sizeof *m->weight);
    m->source = xcalloc(n, sizeof *m->source);
    for (int i = 0; i < g->n_weights; i++) {
        const struct gr_weight *gw = &g->weight[i];
        const struct gguf_tensor *t;
        const struct weight *w = find_weight(m, trunk, gw->name, &t);
        m->source[i] = i;
        while (!t && g->weight[m->source[i]].optional_of >= 0) {
            m->source[i] = g->weight[m->source[i]].optional_of;
            w = find_weight(m, trunk, g->weight[m->source[i]].name, &t);
        }
        int rc = 0;
        if (!t)
            rc = missing(m, gw->name, e);
        else if (!(rc = check_shape(t, gw->ne, e)) && !kern_has(k, w->type))
            rc = err_set(e, ERR_DATA, "tensor %s has type %s, which is not supported", t->name,
                         qtype_name(w->type));
        if (rc) return err_about(e, NULL, gw->name);
        m->weight[i] = *w;
        m->weight[i].packed = NULL;
        weight_keep(w);
    }
    return 0;
}

/* Fails unless the weight whose scales t holds is only used in products, which apply them. The
 * scales of activations are ignored. */
static int check_scaled(const struct model *m, const struct gguf_tensor *t, struct err *e) {
    int n_products = str_ends(t->name, ".input_scale"), n_others = 0;
    for (int i = 0; i < m->graph.facts.n_uses; i++) {
        const struct gr_use *u = &m->graph.facts.use[i];
        const char *name = m->graph.weight[m->source[u->w]].name;
        const size_t n = strlen(name) - strlen("weight");
        if (!m->weight[u->w].scale || strncmp(name, t->name, n) != 0 ||
            strcmp(t->name + n, "scale") != 0)
            continue;
        n_products += gr_roles[u->role].product;
        n_others += !gr_roles[u->role].product;
    }
    if (!n_products && !n_others) { /* an MTP block is in another graph */
        char name[80];
        int block;
        const int n = (int)(strlen(t->name) - strlen("scale"));
        snprintf(name, sizeof name, "%.*sweight", n, t->name);
        n_products = arch_row_of(m->arch, &m->hp, name, &block) && block >= m->hp.d[HD_LAYERS];
    }
    if (n_products && !n_others) return 0;
    return err_set(e, ERR_DATA, "tensor %s: scales of this weight are not supported", t->name);
}

/* Fails unless every tensor of the file belongs to the architecture and has the right shape. */
static int check_extra(const struct model *m, struct err *e) {
    struct tensor_inst *inst = NULL;
    int64_t n_inst = 0, n_extra = 0;
    TRY(arch_tensors(m->arch, &m->hp, &inst, &n_inst, e));
    struct strmap *map = strmap_new((size_t)n_inst);
    for (int64_t i = 0; i < n_inst; i++) strmap_add(map, inst[i].name, strlen(inst[i].name), i);
    char names[400] = "";
    size_t at = 0;
    int rc = 0;
    for (int64_t i = 0; i < gguf_n_tensors(m->gguf) && !rc; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(m->gguf, i);
        int64_t j = strmap_get(map, t->name, strlen(t->name));
        if (j >= 0) {
            rc = check_shape(t, inst[j].ne, e);
        } else if (gguf_is_scale(m->gguf, t)) {
            rc = check_scaled(m, t, e);
        } else if (++n_extra <= 5) {
            int w = snprintf(names + at, sizeof names - at, "%s%s", at ? ", " : "", t->name);
            if (w > 0) at += (size_t)w;
        }
    }
    if (!rc && n_extra)
        rc = err_set(e, ERR_DATA, "%" PRId64 " %s not part of a %s model of this size: %s%s",
                     n_extra, n_extra == 1 ? "tensor is" : "tensors are", m->arch->name, names,
                     n_extra > 5 ? ", ..." : "");
    strmap_free(map);
    free(inst);
    return rc;
}

/* Creates the tokenizer; pre: name of the pre-tokenizer, NULL: the file's own. */
static int make_tok(struct model *m, const char *pre, struct err *e) {
    TRY(tok_from_gguf_as(&m->tok, m->gguf, pre, e));
    if (tok_n_vocab(m->tok) > m->hp.d[HD_VOCAB])
        return err_set(e, ERR_DATA,
                       "the tokenizer has %" PRId64 " entries but the embedding only %" PRId64
                       " rows",
                       tok_n_vocab(m->tok), m->hp.d[HD_VOCAB]);
    return 0;
}

/* Creates the tokenizer if the file has one. An unknown one is not an error, but sets m->no_tok. */
static int load_tok(struct model *m, struct err *e) {
    const char *kind = "none";
    if (gguf_find(m->gguf, "tokenizer.ggml.model"))
        TRY(gguf_get_str(m->gguf, "tokenizer.ggml.model", &kind, e));
    if (strcmp(kind, "none") == 0 || strcmp(kind, "no_vocab") == 0) return 0;
    if (tok_gguf_known(m->gguf, &m->no_tok)) return 0; /* everything except text still works */
    return make_tok(m, NULL, e);
}

int model_use_pre(struct model *m, const char *pre, struct err *e) {
    if (!pre) return 0;
    tok_free(m->tok);
    m->tok = NULL;
    return make_tok(m, pre, e);
}

/* Appends a hash of each key that the hyperparameters may be read from. */
static void add_keys(const struct model *m, struct buf *b) {
    const char *arch = m->arch->name;
    const size_t n = strlen(arch);
    buf_fmt(b, "%s;", arch);
    for (int64_t i = 0; i < gguf_n_kv(m->gguf); i++) {
        const struct gguf_kv *k = gguf_kv_at(m->gguf, i);
        if (strncmp(k->key, arch, n) != 0 || k->key[n] != '.') continue;
        buf_fmt(b, "%s %d %d %016" PRIx64 ";", k->key, (int)k->type, (int)k->elem,
                hash_u64(k->data, (size_t)k->n_bytes));
    }
}

void model_id(const struct model *m, char out[33]) {
    enum { SAMPLE = 4096 };
    struct buf b = {0};
    add_keys(m, &b);
    for (int i = 0; i < m->graph.n_weights; i++) {
        const struct weight *w = model_weight(m, i);
        const uint64_t n = w->n_bytes < SAMPLE ? w->n_bytes : SAMPLE;
        buf_fmt(&b, "%s %s", m->graph.weight[i].name, qtype_name(w->type));
        for (int k = 0; k < 4; k++) buf_fmt(&b, " %" PRId64, w->ne[k]);
        buf_fmt(&b, " %016" PRIx64 ";",
                hash_u64((const uint8_t *)w->data + (w->n_bytes - n) / 2, (size_t)n));
        if (w->scale)
            buf_fmt(&b, " %016" PRIx64 ";",
                    hash_u64(w->scale, (size_t)w->n_scales * sizeof *w->scale));
    }
    hash_xxh128_hex(out, b.data, b.len);
    buf_release(&b);
}

int model_need_tok(const struct model *m, struct err *e) {
    if (m->tok) return 0;
    if (m->no_tok.code) {
        *e = m->no_tok;
        return (int)e->code;
    }
    return err_set(e, ERR_DATA, "%s has no tokenizer, so it cannot process text",
                   gguf_path(m->gguf));
}

/* Finds the data of all the graph's weights in the file or, if missing there, in the trunk. */
static int bind_graph(struct model *m, const struct model *trunk, struct err *e) {
    struct kern *k = xcalloc(1, sizeof *k);
    kern_init(k, KERN_REF);
    int rc = bind_weights(m, trunk, k, e);
    free(k);
    return rc;
}

/* Returns whether the architecture itself has a tensor X.scale for the weight `name`, X.weight, and
 * its graph applies it (Gemma 4). */
static bool has_own_scale(const struct model *m, const char *name) {
    char scale[80];
    const int n = (int)strlen(name) - (int)strlen("weight");
    snprintf(scale, sizeof scale, "%.*sscale", n < 0 ? 0 : n, name);
    return arch_row_of(m->arch, &m->hp, scale, NULL) != NULL;
}

/* Creates a weight for each tensor of the file. */
static void take_tensors(struct model *m) {
    const int64_t n = gguf_n_tensors(m->gguf);
    m->tensor = xcalloc((size_t)n + 1, sizeof *m->tensor);
    for (int64_t i = 0; i < n; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(m->gguf, i);
        struct weight *w = &m->tensor[i];
        weight_of_file(w, m->gguf, t);
        const float *scale = gguf_scales(m->gguf, t, &w->n_scales);
        if (scale && !has_own_scale(m, t->name)) w->scale = scale;
    }
}

/* Reads hyperparameters, builds the graph and binds its weights. Weights that older files store in
 * a different form are derived; without `data`, only their shapes. */
static int bind_known(struct model *m, bool data, struct err *e) {
    TRY(hparams_from_gguf(&m->hp, m->arch, m->gguf, e));
    m->hp.tied = !gguf_find_tensor(m->gguf, "output.weight");
    TRY(arch_build(m->arch, &m->hp, &m->graph, e));
    take_tensors(m);
    TRY(model_make_weights(m, data, e));
    TRY(bind_graph(m, NULL, e));
    return check_extra(m, e);
}

/* Finds the architecture and binds its weights; data false: only checks shapes. */
static int bind_model(struct model *m, bool data, struct err *e) {
    const char *name = NULL;
    TRY(gguf_get_str(m->gguf, "general.architecture", &name, e));
    m->arch = arch_find(name);
    return m->arch ? bind_known(m, data, e) : arch_refuse(gguf_path(m->gguf), name, e);
}

/* Returns a model with an empty graph and no weights. */
static struct model *new_model(void) {
    struct model *m = xcalloc(1, sizeof *m);
    graph_init(&m->graph);
    m->has_graph = true;
    return m;
}

/* Frees the model without its file. */
static void release(struct model *m) {
    for (int i = 0; i < m->graph.n_weights && m->weight; i++)
        if (m->weight[i].mem) weight_drop(&m->weight[i]);
    free(m->weight);
    if (m->has_graph) {
        graph_release(&m->graph);
        free(m->source);
    }
    for (int64_t i = 0; m->tensor && i < gguf_n_tensors(m->gguf); i++) weight_drop(&m->tensor[i]);
    free(m->tensor);
    for (int i = 0; i < m->n_made; i++) weight_drop(&m->made[i].w);
    free(m->made);
    if (!m->of) tok_free(m->tok);
    free(m);
}

int model_computes(struct gguf *g, struct err *e) {
    struct model *m = new_model();
    m->gguf = g;
    int rc = bind_model(m, false, e);
    release(m);
    return rc ? err_wrap(e, "%s", gguf_path(g)) : 0;
}

int model_refuse(struct err *e) {
    const struct err why = *e;
    err_set(e, why.code, "%.*s; hone cannot compute with this file, but " ARCH_STILL,
            (int)(sizeof why.msg - sizeof ARCH_STILL - 64), why.msg);
    return err_about(e, why.file, why.tensor);
}

/* Binds the opened file's tensors and reads its tokenizer. */
static int open_bound(struct model *m, const char *path, struct err *e) {
    int rc = bind_model(m, true, e);
    if (rc) rc = model_refuse(e);
    if (!rc) rc = load_tok(m, e);
    if (rc) err_about(e, path, NULL);
    return rc ? err_wrap(e, "%s", path) : 0;
}

int model_check_kind(const struct gguf *g, struct err *e) {
    const char *type = gguf_str_or(g, "general.type", "");
    if (strcmp(type, "adapter") == 0)
        return err_set(e, ERR_DATA,
                       "%s is an adapter (LoRA), not a model: hone merges adapters when it "
                       "converts their model, from the adapter's original folder: hone convert "
                       "HF_DIR --lora DIR",
                       gguf_path(g));
    if (strcmp(type, "imatrix") != 0) return 0;
    return err_set(e, ERR_DATA,
                   "%s is an importance matrix, not a model: pass the model's GGUF here, and "
                   "this file to hone quantize as --imatrix",
                   gguf_path(g));
}

int model_open(struct model **out, const char *path, struct err *e) {
    struct model *m = new_model();
    int rc = gguf_open(&m->gguf, path, 0, e);
    if (rc) { /* gguf_open's message already names the file */
        model_close(m);
        return rc;
    }
    rc = model_check_kind(m->gguf, e);
    if (!rc) rc = open_bound(m, path, e);
    if (rc) {
        model_close(m);
        return rc;
    }
    log_debug("%s: %s, %d weights, %d operations", path, m->arch->name, m->graph.n_weights,
              m->graph.n_nodes);
    *out = m;
    return 0;
}

/* ---- derived models ---- */

/* Returns a model that shares everything with `of` except the graph and its weights, which are left
 * empty. */
static struct model *borrow(const struct model *of) {
    struct model *m = xcalloc(1, sizeof *m);
    m->of = of->of ? of->of : of;
    m->target = of->target;
    m->gguf = of->gguf;
    m->arch = of->arch;
    m->hp = of->hp;
    m->tok = of->tok;
    m->no_tok = of->no_tok;
    return m;
}

/* Builds the graph of the MTP block that drafts for `trunk`. ERR_DATA: the file has no such
 * block. */
static int draft_graph(struct model *m, const struct model *trunk, struct err *e) {
    if (!m->arch->drafts || m->hp.d[HD_MTP] < 1)
        return err_set(
            e, ERR_DATA,
            "the file has no MTP block to draft with: convert a checkpoint that has one, "
            "without --no-mtp");
    TRY(arch_build_draft(m->arch, &m->hp, &m->graph, e));
    return bind_graph(m, trunk, e);
}

int model_open_draft(struct model **out, const struct model *of, struct err *e) {
    struct model *m = borrow(of);
    graph_init(&m->graph);
    m->has_graph = true;
    int rc = draft_graph(m, of, e);
    if (rc) {
        err_wrap(e, "%s", gguf_path(of->gguf));
        model_close(m);
        return rc;
    }
    *out = m;
    return 0;
}

/* Returns ERR_DATA unless a number of the draft file equals the target's. */
static int same_size(const struct model *m, const char *what, int64_t own, int64_t targets,
                     struct err *e) {
    if (own == targets) return 0;
    return err_set(e, ERR_DATA,
                   "its model has %s %" PRId64 ", but %s has %" PRId64
                   ": use the draft made for this model, or leave out --draft",
                   what, own, gguf_path(m->target->gguf), targets);
}

/* Fails unless the tokens of both files, where both list them, are the same. */
static int same_tokens(const struct model *m, struct err *e) {
    const char *const key = "tokenizer.ggml.tokens";
    const struct gguf_kv *a = gguf_find(m->gguf, key), *b = gguf_find(m->target->gguf, key);
    if (!a || !b || a->type != GV_ARR || b->type != GV_ARR || a->elem != GV_STR ||
        b->elem != GV_STR)
        return 0;
    const uint8_t *at[2] = {a->data, b->data};
    for (uint64_t i = 0; i < a->count && i < b->count; i++) {
        const char *s[2];
        uint64_t n[2];
        gguf_kv_str_next(a, &at[0], &s[0], &n[0]);
        gguf_kv_str_next(b, &at[1], &s[1], &n[1]);
        if (n[0] != n[1] || memcmp(s[0], s[1], (size_t)n[0]) != 0)
            return err_set(e, ERR_DATA,
                           "token %" PRIu64 " differs from that of %s: use the draft made for this "
                           "model, or leave out --draft",
                           i, gguf_path(m->target->gguf));
    }
    return 0;
}

/* Fails unless the draft belongs to a model like its target. */
static int check_target(const struct model *m, struct err *e) {
    const int64_t *d = m->hp.d, *of = m->target->hp.d;
    const bool no_embd = !gguf_find_tensor(m->gguf, "token_embd.weight"),
               no_head = !gguf_find_tensor(m->gguf, "output.weight");
    TRY(same_size(m, "a width of", d[HD_TARGET_EMBD], of[HD_EMBD], e));
    TRY(same_size(m, "a vocabulary of", d[HD_VOCAB], of[HD_VOCAB], e));
    for (int64_t i = 0; i < d[HD_TARGETS]; i++)
        if (m->hp.target[i] > of[HD_LAYERS])
            return err_set(e, ERR_DATA,
                           "it reads the input of layer %d, but %s has %" PRId64
                           " layers: use the draft made for this model, or leave out --draft",
                           (int)m->hp.target[i], gguf_path(m->target->gguf), of[HD_LAYERS]);
    if ((no_embd || no_head) && d[HD_EMBD] != of[HD_EMBD])
        return err_set(e, ERR_DATA,
                       "it lacks %s, and those of %s have a width of %" PRId64
                       " instead of %" PRId64 ": convert the draft with its own",
                       no_embd ? "embeddings" : "a head", gguf_path(m->target->gguf), of[HD_EMBD],
                       d[HD_EMBD]);
    if (no_head && d[HD_DRAFT_VOCAB] != of[HD_VOCAB])
        return err_set(e, ERR_DATA,
                       "it lacks a head, and that of %s has %" PRId64 " tokens instead of %" PRId64
                       ": convert the draft with its own",
                       gguf_path(m->target->gguf), of[HD_VOCAB], d[HD_DRAFT_VOCAB]);
    return same_tokens(m, e);
}

/* Fails unless an MTP block, the only block of its file, belongs to a model like the target. */
static int check_block_target(const struct model *m, struct err *e) {
    const struct model *of = m->target;
    const int64_t *d = m->hp.d;
    if (m->arch != of->arch)
        return err_set(e, ERR_DATA,
                       "its model is %s, but %s is %s: use the draft made for this model, or leave "
                       "out --draft",
                       m->arch->name, gguf_path(of->gguf), of->arch->name);
    TRY(same_size(m, "a width of", d[HD_EMBD], of->hp.d[HD_EMBD], e));
    TRY(same_size(m, "a vocabulary of", d[HD_VOCAB], of->hp.d[HD_VOCAB], e));
    TRY(same_size(m, "a layer count of", d[HD_LAYERS], of->hp.d[HD_LAYERS], e));
    return same_tokens(m, e);
}

/* Fails unless hone drafts with files like this one. */
static int check_kind(const struct model *m, struct err *e) {
    const struct arch *a = m->arch;
    const char *path = gguf_path(m->gguf), *of = gguf_path(m->target->gguf);
    const bool is_draft = gguf_draft_kind(m->gguf) != NULL;
    if (!a || !is_draft)
        return err_set(e, ERR_DATA,
                       "%s is not a draft file, but %s%.80s: --draft takes an MTP block or an "
                       "EAGLE-3 draft made for %s",
                       path, a ? "a model of its own: " : "of the unknown architecture ",
                       a ? a->name : gguf_str_or(m->gguf, "general.architecture", ""), of);
    if (a->draft_graph || a->drafts) return 0;
    if (!a->draft)
        return err_set(e, ERR_DATA,
                       "%s: hone cannot draft with the MTP block of %s: leave out "
                       "--draft",
                       path, a->family);
    return err_set(e, ERR_DATA,
                   "%s: hone cannot draft with %s; it can with EAGLE-3 drafts and with MTP blocks "
                   "(--draft mtp). llama-server -m %s -md %s --spec-type draft-%s can",
                   path, a->family, of, path, a->draft);
}

/* Reads and binds an opened draft file. */
static int bind_draft(struct model *m, const char *path, struct err *e) {
    m->arch = arch_find_table(gguf_str_or(m->gguf, "general.architecture", ""));
    TRY(check_kind(m, e));
    TRY(hparams_from_gguf(&m->hp, m->arch, m->gguf, e)); /* names the file */
    int rc = m->arch->draft ? check_target(m, e) : check_block_target(m, e);
    if (!rc) rc = arch_build_draft(m->arch, &m->hp, &m->graph, e);
    if (!rc) take_tensors(m);
    if (!rc) rc = bind_graph(m, NULL, e);
    if (!rc) rc = check_extra(m, e);
    return rc ? err_wrap(e, "%s", path) : 0;
}

int model_open_draft_file(struct model **out, const char *path, const struct model *target,
                          struct err *e) {
    struct model *m = new_model();
    m->target = target;
    int rc = gguf_open(&m->gguf, path, 0, e);
    if (!rc) rc = bind_draft(m, path, e);
    if (rc) {
        model_close(m);
        return rc;
    }
    *out = m;
    return 0;
}

struct model *model_copy(const struct model *of) {
    struct model *m = borrow(of);
    m->graph = of->graph;
    m->source = of->source;
    m->weight = xcalloc((size_t)of->graph.n_weights, sizeof *m->weight);
    for (int i = 0; i < of->graph.n_weights; i++) {
        m->weight[i] = of->weight[i];
        weight_keep(&m->weight[i]);
    }
    return m;
}

/* Replaces the weight c->name wherever it is used. ERR_DATA: unknown, or a different shape. */
static int change_weight(struct model *m, const struct model_change *c, struct err *e) {
    const struct graph *g = &m->graph;
    bool found = false;
    for (int i = 0; i < g->n_weights; i++) {
        if (strcmp(g->weight[m->source[i]].name, c->name) != 0) continue;
        found = true;
        if (!shape_equal(m->weight[i].ne, c->to->ne))
            return err_set(e, ERR_DATA, "tensor %s: its replacement has a different shape",
                           c->name);
        weight_keep(c->to);
        weight_drop(&m->weight[i]);
        m->weight[i] = *c->to;
        m->weight[i].packed = NULL;
    }
    return found ? 0
                 : err_set(e, ERR_DATA, "%s: the model uses no weight named %s", gguf_path(m->gguf),
                           c->name);
}

int model_with(struct model **out, const struct model *of, const struct model_change *change, int n,
               struct err *e) {
    struct model *m = model_copy(of);
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) rc = change_weight(m, &change[i], e);
    if (rc) {
        model_close(m);
        return rc;
    }
    *out = m;
    return 0;
}

void model_close(struct model *m) {
    struct gguf *g = m && !m->of ? m->gguf : NULL;
    if (m) release(m);
    gguf_close(g);
}

/* ---- queries ---- */

const struct weight *model_find_weight(const struct model *m, const char *name) {
    const struct graph *g = &m->graph;
    for (int i = 0; i < g->n_weights; i++)
        if (strcmp(g->weight[m->source[i]].name, name) == 0) return &m->weight[i];
    return NULL;
}

/* Returns the block of a node; for nodes after the last block, the number of layers. */
static int block_of(const struct model *m, int node) {
    const int n_layers = (int)m->hp.d[HD_LAYERS];
    int b = 0;
    while (b < n_layers && m->graph.hidden_nodes[b] < node) b++;
    return b;
}

int model_first_change(const struct model *a, const struct model *b) {
    int first = (int)a->hp.d[HD_LAYERS];
    for (int i = 0; i < a->graph.facts.n_uses; i++) {
        const struct gr_use *u = &a->graph.facts.use[i];
        if (weight_same(&a->weight[u->w], &b->weight[u->w])) continue;
        const int block = block_of(a, u->node);
        if (block < first) first = block;
    }
    return first;
}
