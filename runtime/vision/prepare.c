// SPDX-License-Identifier: MIT
/* runtime/vision/prepare.c - resizes an image, cuts it into tiles and normalises its colours. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/vision/decode.h"
#include "runtime/vision/prepare.h"

/* ---- views ---- */

/* Writes the part of an image at (x, y) to a view, normalised. Beyond the image it is black. */
static void fill(const struct vision_params *p, const struct image *im, int x, int y,
                 const struct view *v) {
    const size_t plane = (size_t)v->w * (size_t)v->h;
    const int w = im->w - x < v->w ? im->w - x : v->w, h = im->h - y < v->h ? im->h - y : v->h;
    for (int c = 0; c < 3; c++) {
        const float mean = p->mean[c] * 255, std = p->std[c] * 255, black = (0 - mean) / std;
        float *to = v->data + (size_t)c * plane;
        for (int row = 0; row < v->h; row++, to += v->w) {
            const int n = row < h ? w : 0;
            const size_t at = n ? (size_t)(y + row) * (size_t)im->w + (size_t)x : 0;
            for (int i = 0; i < n; i++)
                to[i] = ((float)im->rgb[3 * (at + (size_t)i) + (size_t)c] - mean) / std;
            for (int i = n; i < v->w; i++) to[i] = black;
        }
    }
}

/* Returns ERR_DATA unless w and h are multiples of the pixels that make one token. */
static int check_sides(const struct vision_params *p, int w, int h, struct err *e) {
    const int side = p->patch * p->merge;
    if (w % side == 0 && h % side == 0) return 0;
    return err_set(e, ERR_DATA,
                   "the projector's keys do not fit together: views of %d x %d pixels are not "
                   "multiples of %d, a token's side",
                   w, h, side);
}

/* The views of a plan. */
struct view_sizes {
    int tiles, tile_w, tile_h, whole_w, whole_h;
};

/* Fills *out. ERR_DATA: a view does not consist of whole tokens. */
static int view_sizes(const struct vision_params *p, const struct view_plan *plan,
                      struct view_sizes *out, struct err *e) {
    out->tiles = plan->rows * plan->cols;
    out->tile_w = out->tiles ? plan->tiles_w / plan->cols : 0;
    out->tile_h = out->tiles ? plan->tiles_h / plan->rows : 0;
    out->whole_w = plan->padded_w ? plan->padded_w : plan->whole_w;
    out->whole_h = plan->padded_h ? plan->padded_h : plan->whole_h;
    TRY(check_sides(p, out->whole_w, out->whole_h, e));
    return out->tiles ? check_sides(p, out->tile_w, out->tile_h, e) : 0;
}

/* Returns the number of pixels of all views. */
static int64_t view_pixels(const struct view_sizes *s) {
    return (int64_t)s->tiles * s->tile_w * s->tile_h + (int64_t)s->whole_w * s->whole_h;
}

int image_look(const struct vision_params *p, int w, int h, struct image_work *out, struct err *e) {
    struct view_plan plan;
    struct view_sizes s;
    TRY(view_plan_make(p, w, h, &plan, e));
    TRY(view_sizes(p, &plan, &s, e));
    out->n_patches = view_pixels(&s) / ((int64_t)p->patch * p->patch);
    out->n_tokens = out->n_patches / ((int64_t)p->merge * p->merge);
    return 0;
}

static int make_views(const struct vision_params *p, const struct view_plan *plan,
                      struct pixels *out, struct err *e) {
    struct view_sizes s;
    void *mem;
    TRY(view_sizes(p, plan, &s, e));
    TRY(mem_alloc(&mem, 3 * (uint64_t)view_pixels(&s) * sizeof(float), "the pixels of an image",
                  e));
    out->data = mem;
    out->n_views = s.tiles + 1;
    out->rows = plan->rows;
    out->cols = plan->cols;
    out->whole = plan->whole_first ? 0 : s.tiles;
    out->view = xcalloc((size_t)out->n_views, sizeof *out->view);
    float *at = out->data;
    for (int i = 0; i < out->n_views; i++) {
        const bool whole = i == out->whole;
        out->view[i] =
            (struct view){whole ? s.whole_w : s.tile_w, whole ? s.whole_h : s.tile_h, at};
        at += 3 * (size_t)out->view[i].w * (size_t)out->view[i].h;
    }
    return 0;
}

/* Copies the image, tile by tile, to the views after or before the whole one. */
static void fill_tiles(const struct vision_params *p, const struct image *im,
                       const struct pixels *px) {
    const struct view *v = px->view + (px->whole == 0);
    for (int row = 0; row < px->rows; row++)
        for (int col = 0; col < px->cols; col++, v++) fill(p, im, col * v->w, row * v->h, v);
}

/* ---- resizing ---- */

/* The image before each step; empty for steps that a plan leaves out. */
struct stages {
    struct image first, tiles, whole;
};

/* Resizes the image for the whole view and, if planned, for the tiles, and fills the views. */
static int resize(const struct vision_params *p, const struct image *im,
                  const struct view_plan *plan, struct stages *s, struct pixels *out,
                  struct err *e) {
    const enum filter f = plan->filter;
    if (plan->first_w) {
        TRY(image_resize(im, plan->first_w, plan->first_h, f, &s->first, e));
        im = &s->first;
    }
    if (plan->rows) {
        TRY(image_resize(im, plan->tiles_w, plan->tiles_h, f, &s->tiles, e));
        fill_tiles(p, &s->tiles, out);
        if (plan->whole_of_tiles) im = &s->tiles;
    }
    TRY(image_resize(im, plan->whole_w, plan->whole_h, f, &s->whole, e));
    fill(p, &s->whole, 0, 0, &out->view[out->whole]);
    return 0;
}

int image_prepare(const struct vision_params *p, const struct image *im, struct pixels *out,
                  struct err *e) {
    struct view_plan plan;
    struct stages s = {{0}, {0}, {0}};
    memset(out, 0, sizeof *out);
    TRY(view_plan_make(p, im->w, im->h, &plan, e));
    int rc = make_views(p, &plan, out, e);
    if (rc == 0) rc = resize(p, im, &plan, &s, out, e);
    image_release(&s.first);
    image_release(&s.tiles);
    image_release(&s.whole);
    if (rc) pixels_release(out);
    return rc;
}

void pixels_release(struct pixels *px) {
    free(px->view);
    mem_free(px->data);
    memset(px, 0, sizeof *px);
}

void pixels_drop(struct pixels *px) {
    mem_free(px->data);
    px->data = NULL;
    for (int i = 0; i < px->n_views; i++) px->view[i].data = NULL;
}

void view_grid(const struct vision_params *p, const struct view *v, int *w, int *h) {
    *w = v->w / (p->patch * p->merge);
    *h = v->h / (p->patch * p->merge);
}
