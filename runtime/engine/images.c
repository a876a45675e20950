// SPDX-License-Identifier: MIT
/* runtime/engine/images.c - image tokens in a pass (session_row.image): checks, rotary positions,
 * and the rows added to the residual after the first blocks.
 *
 * A model with RoPE sections gives each token three rotary positions. Those of a text token are
 * equal. Those of an image token are its place in the image's grid, counted from the position at
 * which the image starts. The text after an image continues at the largest of these + 1, so its
 * rotary positions differ from its positions in the cache by a shift that the sequence keeps
 * (seq.shift). */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/num.h"
#include "runtime/engine/exec.h"

/* Returns whether positions in images are divided into sections. */
static bool has_sections(const struct graph *g) {
    return g->section[0] + g->section[1] + g->section[2] > 0;
}

/* Returns whether the tokens of an image see each other in some layer. */
static bool sees_whole(const struct graph *g) {
    for (int i = 0; i < graph_count(g, OP_ATTN); i++)
        if (graph_nth(g, OP_ATTN, i)->attn.whole) return true;
    return false;
}

void images_alloc(struct session *s) {
    struct images *im = &s->images;
    const size_t n = (size_t)s->o.n_ubatch;
    im->whole = sees_whole(s->g);
    im->turn = xcalloc(n, sizeof *im->turn);
    im->of = xcalloc(n, sizeof(void *));
    im->at = xcalloc(n, sizeof *im->at);
}
void images_free(struct session *s) {
    free(s->images.turn);
    free(s->images.of);
    free(s->images.at);
}

/* ---- checks ---- */

/* Returns ERR_USAGE if the model cannot take this image. */
static int check_image(const struct session *s, const struct session_image *im, struct err *e) {
    int64_t n_row, n = 0;
    if (s->be->on_device && s->images.whole)
        return err_set(e, ERR_USAGE,
                       "images of this model, whose tokens see each other, are computed on the CPU "
                       "only: use --device cpu");
    if (s->now.begin || s->now.hidden_in)
        return err_set(e, ERR_USAGE, "images need a pass that starts with the embeddings");
    if (im->n < 1 || im->n_deep < 0 || im->n_deep > s->m->hp.d[HD_LAYERS])
        return err_set(e, ERR_USAGE,
                       "an image has %" PRId64 " tokens and rows for %" PRId64
                       " blocks, but the model has %" PRId64 " blocks",
                       im->n, im->n_deep, s->m->hp.d[HD_LAYERS]);
    if (!has_sections(s->g)) return 0;
    if (im->t < 1 || im->h < 1 || im->w < 1 || __builtin_mul_overflow(im->h, im->w, &n_row) ||
        __builtin_mul_overflow(im->t, n_row, &n) || n != im->n)
        return err_set(e, ERR_USAGE,
                       "an image of %" PRId64 " tokens is not a grid of %" PRId64 " x %" PRId64
                       " x %" PRId64,
                       im->n, im->t, im->h, im->w);
    return 0;
}

/* Returns the number of consecutive rows, starting with row i, that belong to the image of row
 * i. */
static int64_t image_run(const struct session_row *row, int64_t i, int64_t n) {
    int64_t k = 1;
    while (i + k < n && row[i + k].image == row[i].image && row[i + k].seq == row[i].seq &&
           row[i + k].image_at == row[i].image_at + k)
        k++;
    return k;
}

int images_check(const struct session *s, const struct session_row *row, int64_t n, struct err *e) {
    for (int64_t i = 0, k; i < n; i += k) {
        const struct session_image *im = row[i].image;
        k = 1;
        if (!im) continue;
        k = image_run(row, i, n);
        TRY(check_image(s, im, e));
        if (row[i].image_at < 0 || row[i].image_at + k > im->n)
            return err_set(e, ERR_USAGE,
                           "row %" PRId64 ": an image of %" PRId64 " tokens has no row %" PRId64, i,
                           im->n, row[i].image_at);
        const bool whole = s->images.whole;
        if (whole && (row[i].image_at || k < im->n))
            return err_set(e, ERR_USAGE,
                           "row %" PRId64 ": only %" PRId64 " of the %" PRId64
                           " tokens of an image were given, which this model takes together",
                           i, k, im->n);
        if (whole && im->n > s->o.n_ubatch)
            return err_set(e, ERR_USAGE,
                           "an image of %" PRId64 " tokens does not fit a pass of %" PRId64
                           ": use a larger --ctx, or --image-tokens to shrink it",
                           im->n, s->o.n_ubatch);
    }
    return 0;
}

int64_t images_cut(const struct session *s, const struct session_row *row, int64_t k, int64_t n) {
    if (k < n && row[k].image && s->images.whole) return k - row[k].image_at;
    return k;
}

/* ---- a pass ---- */

void images_begin(struct session *s, const struct session_row *row, int64_t n) {
    struct images *im = &s->images;
    im->n_rows = im->n_deep = 0;
    im->turned = false;
    if (!row && s->own->n_shifts) {
        seq_keep_shifts(s->own, s->own->pos);
        im->turned = s->own->n_shifts > 0;
    }
    for (int64_t i = 0; row && i < n; i++) {
        struct seq *q = row[i].seq ? row[i].seq : s->own;
        if (q->n_shifts) seq_keep_shifts(q, q->pos);
        im->turned = im->turned || q->n_shifts || (row[i].image && has_sections(s->g));
        if (!row[i].image) continue;
        im->n_rows++;
        im->n_deep = max_i64(im->n_deep, row[i].image->n_deep);
    }
}

/* Sets the rotary positions of row r, a token of an image, and the shift of the text after it. */
static void turn_image(struct session *s, int64_t r, const struct session_image *im, int64_t at) {
    const int64_t pos = s->row_pos[r], first = pos - at + seq_shift_at(s->row_seq[r], pos - at);
    int64_t *turn = s->images.turn[r];
    turn[0] = first + at / (im->h * im->w);
    turn[1] = first + at / im->w % im->h;
    turn[2] = first + at % im->w;
    if (at + 1 == im->n)
        seq_add_shift(s->row_seq[r], pos + 1,
                      first + max_i64(im->t, max_i64(im->h, im->w)) - (pos + 1));
}

void images_row(struct session *s, int64_t r, const struct session_row *row) {
    struct images *im = &s->images;
    if (im->n_rows) {
        im->of[r] = row->image;
        im->at[r] = row->image_at;
    }
    if (!im->turned) return;
    if (row && row->image && has_sections(s->g)) {
        turn_image(s, r, row->image, row->image_at);
        return;
    }
    const int64_t pos = s->row_pos[r] + seq_shift_at(s->row_seq[r], s->row_pos[r]);
    for (int i = 0; i < 3; i++) im->turn[r][i] = pos;
}
