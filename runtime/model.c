// SPDX-License-Identifier: MIT
/* runtime/model.c - binding a GGUF to its architecture's graph.
 *
 * The file is opened and validated by core/gguf.h, its numbers are read by the architecture's rows,
 * the graph is built, and every weight the graph names is looked up and its shape compared. Then
 * every tensor of the file must be one that the architecture has for this block: an unknown tensor
 * means that the file holds something we would silently not compute.
 *
 * Nothing is copied: weights are pointers into the map. */
#include "runtime/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/log.h"
#include "core/mem.h"
#include "kernels/kern.h"

static void shape_text(char out[96], const int64_t ne[4]) {
    int n = 4;
    while (n > 1 && ne[n - 1] == 1) n--;
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        int w = snprintf(out + at, 96 - at, "%s%" PRId64, i ? " x " : "", ne[i]);
        if (w > 0) at += (size_t)w;
    }
}

static bool shape_equal(const int64_t a[4], const int64_t b[4]) {
    for (int i = 0; i < 4; i++)
        if ((a[i] ? a[i] : 1) != (b[i] ? b[i] : 1)) return false;
    return true;
}

static int check_shape(const struct gguf_tensor *t, const int64_t want[4], struct err *e) {
    if (shape_equal(t->ne, want)) return 0;
    char have_text[96], want_text[96];
    shape_text(have_text, t->ne);
    shape_text(want_text, want);
    return err_set(
        e, ERR_DATA,
        "tensor %s is %s but the model's numbers ask for %s: metadata and tensors do not "
        "belong together",
        t->name, have_text, want_text);
}

static void weight_fill(struct weight *w, const void *data, enum qtype type, const int64_t ne[4]) {
    w->packed = NULL;
    w->data = data;
    w->type = type;
    for (int i = 0; i < 4; i++) w->ne[i] = ne[i] ? ne[i] : 1;
    w->row_bytes = qtype_row_bytes(type, w->ne[0]);
    w->mat_bytes = w->row_bytes * (uint64_t)w->ne[1];
    w->n_bytes = w->mat_bytes * (uint64_t)w->ne[2] * (uint64_t)w->ne[3];
}

static int bind_weights(struct model *m, const struct kern *k, struct err *e) {
    const struct graph *g = &m->graph;
    size_t n = (size_t)g->n_weights;
    m->weight = xcalloc(n, sizeof *m->weight);
    m->file_weight = xcalloc(n, sizeof *m->file_weight);
    m->source = xcalloc(n, sizeof *m->source);
    for (int i = 0; i < g->n_weights; i++) {
        const struct gr_weight *gw = &g->weight[i];
        const struct gguf_tensor *t = gguf_find_tensor(m->gguf, gw->name);
        m->source[i] = i;
        while (!t && g->weight[m->source[i]].optional_of >= 0) {
            m->source[i] = g->weight[m->source[i]].optional_of;
            t = gguf_find_tensor(m->gguf, g->weight[m->source[i]].name);
        }
        if (!t)
            return err_set(e, ERR_DATA,
                           "tensor %s is missing: the file is incomplete, convert the model again",
                           gw->name);
        TRY(check_shape(t, gw->ne, e));
        if (!kern_has(k, t->type))
            return err_set(e, ERR_DATA, "tensor %s has type %s, which cannot be computed with",
                           t->name, qtype_name(t->type));
        weight_fill(&m->weight[i], t->data, t->type, t->ne);
        m->file_weight[i] = m->weight[i];
    }
    return 0;
}

/* Every tensor of the file is one the architecture knows for its block, with the right shape. */
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
        } else if (++n_extra <= 5) {
            int w = snprintf(names + at, sizeof names - at, "%s%s", at ? ", " : "", t->name);
            if (w > 0) at += (size_t)w;
        }
    }
    if (!rc && n_extra)
        rc =
            err_set(e, ERR_DATA,
                    "%" PRId64 " tensors are not part of a %s model of this size: %s%s; they would "
                    "be ignored, so the file is refused",
                    n_extra, m->arch->name, names, n_extra > 5 ? ", ..." : "");
    strmap_free(map);
    free(inst);
    return rc;
}

static int load_tok(struct model *m, struct err *e) {
    const char *kind = gguf_str_or(m->gguf, "tokenizer.ggml.model", "none");
    if (strcmp(kind, "none") == 0 || strcmp(kind, "no_vocab") == 0) return 0;
    if (tok_gguf_known(m->gguf, &m->no_tok)) return 0; /* work without text is still possible */
    TRY(tok_from_gguf(&m->tok, m->gguf, e));
    if (tok_n_vocab(m->tok) > m->hp.d[HD_VOCAB])
        return err_set(e, ERR_DATA,
                       "the tokenizer has %" PRId64 " entries but the embedding only %" PRId64
                       " rows",
                       tok_n_vocab(m->tok), m->hp.d[HD_VOCAB]);
    return 0;
}

int model_need_tok(const struct model *m, struct err *e) {
    const struct err *why = m->of ? &m->of->no_tok : &m->no_tok;
    if (m->tok) return 0;
    if (why->code) {
        *e = *why;
        return (int)e->code;
    }
    return err_set(e, ERR_DATA, "%s has no tokenizer, so no text can be read for it",
                   gguf_path(m->gguf));
}

static int bind_graph(struct model *m, struct err *e) {
    struct kern *k = xcalloc(1, sizeof *k);
    kern_init(k, KERN_REF);
    int rc = bind_weights(m, k, e);
    free(k);
    return rc;
}

static int bind(struct model *m, struct err *e) {
    const char *name = NULL;
    TRY(gguf_get_str(m->gguf, "general.architecture", &name, e));
    m->arch = arch_find(name);
    if (!m->arch) return arch_refuse(gguf_path(m->gguf), "architecture", name, e);
    TRY(hparams_from_gguf(&m->hp, m->arch, m->gguf, e));
    m->hp.tied = !gguf_find_tensor(m->gguf, "output.weight");
    TRY(arch_build(m->arch, &m->hp, &m->graph, e));
    TRY(bind_graph(m, e));
    TRY(check_extra(m, e));
    return load_tok(m, e);
}

int model_open(struct model **out, const char *path, struct err *e) {
    struct model *m = xcalloc(1, sizeof *m);
    graph_init(&m->graph);
    int rc = gguf_open(&m->gguf, path, 0, e);
    if (rc) { /* gguf_open names the file itself */
        model_close(m);
        return rc;
    }
    rc = bind(m, e);
    if (rc) {
        err_wrap(e, "%s", path);
        model_close(m);
        return rc;
    }
    log_debug("%s: %s, %d weights, %d operations", path, m->arch->name, m->graph.n_weights,
              m->graph.n_nodes);
    *out = m;
    return 0;
}

static int draft_graph(struct model *m, struct err *e) {
    if (!m->arch->build_draft || m->hp.d[HD_MTP] < 1)
        return err_set(
            e, ERR_DATA,
            "the file has no MTP block to draft with: convert a checkpoint that has one, "
            "without --no-mtp");
    TRY(arch_build_draft(m->arch, &m->hp, &m->graph, e));
    return bind_graph(m, e);
}

static int same_graph(struct model *m, struct err *e) {
    TRY(arch_build(m->arch, &m->hp, &m->graph, e));
    return bind_graph(m, e);
}

static int borrow(struct model **out, const struct model *of,
                  int (*make)(struct model *m, struct err *e), struct err *e) {
    struct model *m = xcalloc(1, sizeof *m);
    m->of = of;
    m->gguf = of->gguf;
    m->arch = of->arch;
    m->hp = of->hp;
    m->tok = of->tok;
    graph_init(&m->graph);
    int rc = make(m, e);
    if (rc) {
        err_wrap(e, "%s", gguf_path(of->gguf));
        model_close(m);
        return rc;
    }
    *out = m;
    return 0;
}

int model_open_draft(struct model **out, const struct model *of, struct err *e) {
    return borrow(out, of, draft_graph, e);
}

int model_open_again(struct model **out, const struct model *of, struct err *e) {
    return borrow(out, of, same_graph, e);
}

void model_close(struct model *m) {
    if (!m) return;
    if (!m->of) tok_free(m->tok);
    model_unpack(m);
    graph_release(&m->graph);
    free(m->weight);
    free(m->file_weight);
    free(m->source);
    if (!m->of) gguf_close(m->gguf);
    free(m);
}

int model_set_weight(struct model *m, const char *name, const void *data, enum qtype type,
                     struct err *e) {
    const struct graph *g = &m->graph;
    bool found = false;
    if (data && qtype_info(type) == NULL)
        return err_set(e, ERR_USAGE, "tensor %s: unknown type %d", name, (int)type);
    for (int i = 0; i < g->n_weights; i++) {
        if (strcmp(g->weight[m->source[i]].name, name) != 0) continue;
        found = true;
        if (!m->weight[i].lent) buf_free(m->weight[i].packed);
        uint64_t version = m->weight[i].version + 1;
        m->weight[i] = m->file_weight[i];
        m->weight[i].version = version;
        if (!data) continue;
        if (!qtype_row_bytes(type, m->weight[i].ne[0]))
            return err_set(e, ERR_DATA,
                           "tensor %s: rows of %" PRId64 " weights cannot be stored as %s", name,
                           m->weight[i].ne[0], qtype_name(type));
        int64_t ne[4];
        memcpy(ne, m->file_weight[i].ne, sizeof ne);
        weight_fill(&m->weight[i], data, type, ne);
    }
    if (!found)
        return err_set(e, ERR_DATA, "%s: no weight named %s is used by the model",
                       gguf_path(m->gguf), name);
    return 0;
}
