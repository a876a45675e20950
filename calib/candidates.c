// SPDX-License-Identifier: MIT
/* calib/candidates.c - routing of a pool's documents through the model, to count the experts that
 * they reach.
 *
 * The first pass keeps only token counts; a second pass reads the texts of the chosen documents.
 * Memory: one session, one text file, the counts of calib/select.h, 80 bytes per document, and the
 * texts of the chosen documents. */
#include "calib/candidates.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"

struct router {
    struct candidates *c;
    const struct model *m;
    struct session *s;
    int64_t ctx;
    int text;
    /* Uses of each cell (layer, expert) by the current document, [n_cells]. */
    uint32_t *count;
    struct strmap *seen; /* hashes and lengths of all documents so far; keys are in mem */
    struct arena mem;
    struct progress prog;
    int64_t n_done; /* tokens processed */
};

int candidates_init(struct candidates *c, const struct model *m, struct err *e) {
    const struct graph *g = &m->graph;
    memset(c, 0, sizeof *c);
    c->n_layers = graph_count(g, OP_MOE);
    c->block = xcalloc((size_t)c->n_layers + 1, sizeof *c->block);
    c->first = xcalloc((size_t)c->n_layers + 2, sizeof *c->first);
    for (int i = 0; i < c->n_layers; i++) {
        const struct gr_node *n = graph_nth(g, OP_MOE, i);
        c->block[i] = n->layer;
        c->first[i + 1] =
            /* A router's matrix has one row per expert. */
            c->first[i] + model_weight(m, n->moe.router)->ne[1];
    }
    if (!c->n_layers)
        return err_set(e, ERR_DATA,
                       "%s has no experts, so there is no criterion to select texts by",
                       gguf_path(m->gguf));
    sel_init(&c->sel, c->first[c->n_layers]);
    return 0;
}

/* Counts, for each expert of the observed layer, the rows routed to it. */
static void count_routes(void *ud, const struct session_shown *s) {
    struct router *r = ud;
    for (int l = 0; l < r->c->n_layers; l++)
        for (int64_t i = 0; r->c->block[l] == s->block && i < s->n_rows * s->n_used; i++)
            r->count[r->c->first[l] + s->chosen[i]]++;
}

/* Runs a document, chunk by chunk. Copies each chunk's tokens, because the first token may have to
 * be replaced. */
static int forward(struct router *r, const struct corpus_doc *d, struct err *e) {
    const bool bos = tok_add_bos(r->m->tok) && tok_special(r->m->tok, TS_BOS) >= 0;
    int32_t *piece = xcalloc((size_t)r->ctx, sizeof *piece);
    int rc = 0;
    for (int64_t at = 0; at < d->n_ids && rc == 0; at += r->ctx) {
        const int64_t n = min_i64(r->ctx, d->n_ids - at);
        memcpy(piece, d->ids + at, (size_t)n * sizeof *piece);
        if (bos) piece[0] = (int32_t)tok_special(r->m->tok, TS_BOS);
        session_reset(r->s);
        rc = progress_interrupted() ? err_set(e, ERR_INTR, "interrupted")
                                    : session_forward(r->s, piece, n, NULL, e);
        r->n_done += n;
        progress_update(&r->prog, (uint64_t)r->n_done);
    }
    free(piece);
    return rc;
}

/* Returns the hash of the document's token ids. */
static uint64_t hash_of(const struct corpus_doc *d) {
    return hash_u64(d->ids, (size_t)d->n_ids * sizeof *d->ids);
}

/* Adds the document to the candidates unless it has already occurred. */
static int route_doc(void *ud, const struct corpus_doc *d, struct err *e) {
    struct router *r = ud;
    struct candidates *c = r->c;
    uint64_t *key = arena_alloc(&r->mem, 2 * sizeof *key);
    key[0] = hash_of(d);
    key[1] = (uint64_t)d->n_ids;
    if (!strmap_add(r->seen, (const char *)key, 2 * sizeof *key, 0)) {
        c->n_duplicates++;
        return 0;
    }
    memset(r->count, 0, (size_t)c->sel.n_cells * sizeof *r->count);
    TRY(forward(r, d, e));
    TRY(sel_add(&c->sel, d->n_ids, r->count, e));
    if (c->sel.n_docs > c->cap) {
        c->cap = 2 * c->sel.n_docs;
        c->of = xreallocarray(c->of, (size_t)c->cap, sizeof *c->of);
    }
    c->of[c->sel.n_docs - 1] = (struct candidate){r->text, d->number, key[0]};
    c->n_tokens += d->n_ids;
    return 0;
}

int candidates_route(struct candidates *c, const struct model *m, const struct imatrix_opts *o,
                     struct err *e) {
    struct router r = {.c = c, .m = m, .ctx = o->ctx ? o->ctx : 512};
    const struct session_opts so = {.n_ctx = r.ctx,
                                    .n_ubatch = min_i64(r.ctx, 2048),
                                    .isa = o->isa,
                                    .act = ACT_F32,
                                    .pool = o->pool,
                                    .device = o->device};
    void *count = NULL;
    int rc;
    arena_init(&r.mem);
    r.seen = strmap_new(1024);
    TRY_GOTO(out, rc,
             mem_alloc(&count, (uint64_t)c->sel.n_cells * sizeof *r.count, "expert counts", e));
    r.count = count;
    TRY_GOTO(out, rc, session_new(&r.s, m, &so, e));
    session_observe(r.s, &(struct session_probe){.ud = &r, .route = count_routes});
    progress_begin(&r.prog, "select", PROG_TOKENS, 0);
    for (r.text = 0; r.text < o->n_texts && rc == 0; r.text++)
        rc = corpus_each(m, o->texts[r.text], o->parse_special, route_doc, &r, e);
    progress_end(&r.prog);
    if (rc == 0 && !c->sel.n_docs) rc = err_set(e, ERR_DATA, "%s: holds no text", o->texts[0]);
out:
    session_free(r.s);
    strmap_free(r.seen);
    arena_release(&r.mem);
    mem_free(count);
    return rc;
}

void candidates_release(struct candidates *c) {
    sel_release(&c->sel);
    free(c->of);
    free(c->block);
    free(c->first);
    memset(c, 0, sizeof *c);
}

/* ---- coverage -------------------------------------------------------------------------------- */

int candidates_have(const struct candidates *c, const struct imat *m, double *tokens,
                    struct err *e) {
    struct coverage cov;
    int n_found = 0;
    coverage_make(m, &cov);
    for (int64_t i = 0; i < cov.n_layers; i++) {
        const struct cover_layer *l = &cov.layer[i];
        for (int k = 0; k < c->n_layers; k++) {
            if (c->block[k] != l->block || c->first[k + 1] - c->first[k] != l->n) continue;
            n_found++;
            for (int64_t x = 0; x < l->n; x++)
                tokens[c->first[k] + l->expert[x].id] = l->expert[x].tokens;
        }
    }
    coverage_release(&cov);
    if (n_found) return 0;
    return err_set(
        e, ERR_DATA,
        "does not record tokens per expert of this model; give the model's own importance "
        "matrix in GGUF form");
}

void candidates_coverage(const struct candidates *c, const double *tokens, struct coverage *out) {
    memset(out, 0, sizeof *out);
    for (int i = 0; i < c->n_layers; i++)
        coverage_add(out, c->block[i], tokens + c->first[i], c->first[i + 1] - c->first[i]);
}

/* ---- the chosen texts ------------------------------------------------------------------------ */

struct replay {
    const struct candidates *c;
    const char *path;
    int text;
    int64_t next; /* index of the next candidate in file order */
    /* [n_docs] index of each document among the picks; -1: not picked. */
    const int64_t *slot;
    struct buf *line; /* lines of the picked documents, [n_picks] */
};

/* Sets and returns ERR_DATA for a file that changed while it was being read. */
static int fail_changed(const struct replay *a, struct err *e) {
    return err_set(e, ERR_DATA, "%s was changed while it was read; start again", a->path);
}

/* Keeps the line of a document if it was picked. Fails if the file has changed. */
static int keep_line(void *ud, const struct corpus_doc *d, struct err *e) {
    struct replay *a = ud;
    const struct candidate *want = &a->c->of[a->next];
    if (a->next == a->c->sel.n_docs || want->text != a->text || want->number != d->number)
        return 0; /* duplicate */
    if (want->hash != hash_of(d)) return fail_changed(a, e);
    const int64_t slot = a->slot[a->next++];
    if (slot < 0) return 0;
    buf_add(&a->line[slot], d->line, d->len);
    buf_chr(&a->line[slot], '\n');
    return 0;
}

int candidates_lines(const struct candidates *c, const struct model *m,
                     const struct imatrix_opts *o, const struct sel_pick *pick, int64_t n_picks,
                     struct buf *out, struct err *e) {
    int64_t *slot = xcalloc((size_t)c->sel.n_docs + 1, sizeof *slot);
    struct replay a = {.c = c, .slot = slot};
    int rc = 0;
    a.line = xcalloc((size_t)n_picks + 1, sizeof *a.line);
    for (int64_t i = 0; i < c->sel.n_docs; i++) slot[i] = -1;
    for (int64_t i = 0; i < n_picks; i++) slot[pick[i].doc] = i;
    for (a.text = 0; a.text < o->n_texts && rc == 0; a.text++) {
        a.path = o->texts[a.text];
        rc = corpus_each(m, a.path, o->parse_special, keep_line, &a, e);
        if (rc == 0 && a.next < c->sel.n_docs && c->of[a.next].text == a.text)
            rc = fail_changed(&a, e);
    }
    for (int64_t i = 0; i < n_picks; i++) {
        if (rc == 0) buf_add(out, a.line[i].data, a.line[i].len);
        buf_release(&a.line[i]);
    }
    free(a.line);
    free(slot);
    return rc;
}
