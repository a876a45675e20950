// SPDX-License-Identifier: MIT
/* runtime/vision/prepare.h - resizing, and the sizes of an image's views. Internal to
 * runtime/vision. */
#ifndef HONE_RUNTIME_VISION_PREPARE_H
#define HONE_RUNTIME_VISION_PREPARE_H

#include "runtime/vision/image.h"

enum filter { FILTER_BILINEAR, FILTER_BICUBIC, FILTER_LANCZOS };

/* Resizes with antialiasing. Produces the bytes of torch's interpolate() on 8-bit images: weights
 * of 16 bits, columns before rows, each rounded to 8 bits. */
int image_resize(const struct image *from, int w, int h, enum filter f, struct image *to,
                 struct err *e);

/* The sizes that an image is resized to. */
struct view_plan {
    int first_w, first_h;   /* before anything else; 0: the original size */
    int rows, cols;         /* tiles; 0: not split */
    int tiles_w, tiles_h;   /* of the image that is split */
    int whole_w, whole_h;   /* of the view of the whole image */
    int padded_w, padded_h; /* of that view with black on the right and below; 0: not padded */
    bool whole_of_tiles;    /* the whole image is made from the one that is split */
    bool whole_first;       /* the whole image comes before its tiles */
    enum filter filter;
};

/* Chooses the sizes for an image of w x h pixels. ERR_DATA: the model does not accept such a
 * shape. */
int view_plan_make(const struct vision_params *p, int w, int h, struct view_plan *out,
                   struct err *e);

/* A grid of tiles. */
struct tile_grid {
    int rows, cols;
};
/* Chooses the grid of min to max tiles whose shape is closest to the image's; of grids of the same
 * shape, the larger one if the image has more than half of its pixels. */
struct tile_grid tile_grid_choose(int w, int h, int side, int min, int max);

#endif
