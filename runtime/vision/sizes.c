// SPDX-License-Identifier: MIT
/* runtime/vision/sizes.c - the sizes that each projector type's images are resized to. They follow
 * processors written in Python, and so do their roundings: round() to even, int() toward zero. */
#include <math.h>
#include <string.h>

#include "base/fp.h"
#include "runtime/vision/prepare.h"

/* Returns x truncated to an integer, but not less than `low`. */
static int at_least(int low, double x) {
    return x > low ? (int)x : low;
}

/* Returns the multiple of factor nearest to x. */
static int round_to(double x, int factor) {
    return (int)(rint(x / factor) * factor);
}

/* Returns the least multiple of factor that is not below x. */
static int up_to(double x, int factor) {
    return (int)(ceil(x / factor) * factor);
}

/* Returns the largest multiple of factor that is not above x. */
static int down_to(double x, int factor) {
    return (int)(floor(x / factor) * factor);
}

/* Sets the size of the whole image to multiples of a token's side, with a number of pixels between
 * the limits. frames: number of frames that the image counts as. */
static void fit_pixels(const struct vision_params *p, double w, double h, int frames,
                       struct view_plan *out) {
    const int side = p->patch * p->merge;
    const double pixels = frames * w * h;
    int to_w = at_least(side, round_to(w, side)), to_h = at_least(side, round_to(h, side));
    if (p->type != PROJ_LFM2) {
        to_w = round_to(w, side);
        to_h = round_to(h, side);
    }
    const int64_t now = (int64_t)frames * to_w * to_h;
    if (p->max_pixels && now > p->max_pixels) {
        const double shrink = sqrt(pixels / (double)p->max_pixels);
        to_w = at_least(side, down_to(w / shrink, side));
        to_h = at_least(side, down_to(h / shrink, side));
    } else if (now < p->min_pixels) {
        const double grow = sqrt((double)p->min_pixels / pixels);
        to_w = up_to(w * grow, side);
        to_h = up_to(h * grow, side);
    }
    out->whole_w = at_least(side, to_w);
    out->whole_h = at_least(side, to_h);
}

/* Returns ERR_DATA if one side is over 200 times the other. */
static int check_ratio(double w, double h, struct err *e) {
    if (fmax(w, h) / fmin(w, h) <= 200) return 0;
    return err_set(e, ERR_DATA,
                   "the image is %d x %d pixels; the model accepts a ratio of at most 200 between "
                   "the sides",
                   (int)w, (int)h);
}

/* Plans a single view, sized to the model's limits on pixels. */
static int plan_qwen(const struct vision_params *p, int w, int h, struct view_plan *out,
                     struct err *e) {
    TRY(check_ratio(w, h, e));
    fit_pixels(p, w, h, 1, out);
    return 0;
}

/* Plans for GLM: small images are first enlarged to a token, and an image counts as two frames. */
static int plan_glm(const struct vision_params *p, int w, int h, struct view_plan *out,
                    struct err *e) {
    const int side = p->patch * p->merge;
    if (w < side || h < side) {
        const double scale = fmax((double)side / h, (double)side / w);
        w = (int)(w * scale);
        h = (int)(h * scale);
    }
    TRY(check_ratio(w, h, e));
    fit_pixels(p, w, h, 2, out);
    return 0;
}

/* Plans a single square view, whatever the image's shape. */
static int plan_square(const struct vision_params *p, int w, int h, struct view_plan *out,
                       struct err *e) {
    (void)w, (void)h, (void)e;
    out->whole_w = out->whole_h = p->image_size;
    out->filter = FILTER_BILINEAR;
    return 0;
}

/* Plans for Gemma 4: the largest multiples of a token's side within the limit, even for small
 * images. */
static int plan_gemma4(const struct vision_params *p, int w, int h, struct view_plan *out,
                       struct err *e) {
    const int side = p->patch * p->merge;
    const int64_t most = p->max_pixels / ((int64_t)side * side) * side;
    const double scale = sqrt((double)p->max_pixels / ((double)w * h));
    int to_w = down_to(scale * w, side), to_h = down_to(scale * h, side);
    if (!to_w && !to_h)
        return err_set(e, ERR_DATA, "the limit of %lld pixels is less than a token",
                       (long long)p->max_pixels);
    if (!to_h) {
        to_h = side;
        to_w = (int)fmin(w / h * (double)side, (double)most);
    } else if (!to_w) {
        to_w = side;
        to_h = (int)fmin(h / w * (double)side, (double)most);
    }
    out->whole_w = to_w;
    out->whole_h = to_h;
    return 0;
}

/* Plans for Pixtral: shrunk to the longest side, then up to the next multiple of a token's side. */
static int plan_pixtral(const struct vision_params *p, int w, int h, struct view_plan *out,
                        struct err *e) {
    (void)e;
    const double ratio = fmax((double)h / p->image_size, (double)w / p->image_size);
    if (ratio > 1) {
        w = at_least(1, floor(w / ratio));
        h = at_least(1, floor(h / ratio));
    }
    out->whole_w = up_to(w, p->patch * p->merge);
    out->whole_h = up_to(h, p->patch * p->merge);
    return 0;
}

/* Scales the longer side to `longest` and rounds the other one up to an even number. */
static void fit_longest(int longest, int *w, int *h) {
    const double ratio = (double)*w / *h;
    int *shorter = *w >= *h ? h : w;
    const int n = *w >= *h ? (int)(longest / ratio) : (int)(longest * ratio);
    *(*w >= *h ? w : h) = longest;
    *shorter = at_least(1, n + n % 2);
}

/* Plans for Idefics 3: scaled to the longest side, then to multiples of a tile's side, then
 * split. */
static int plan_idefics3(const struct vision_params *p, int w, int h, struct view_plan *out,
                         struct err *e) {
    enum { MAX_SIDE = 4096 };
    const int side = p->image_size, longest = p->longest ? p->longest : 4 * side;
    (void)e;
    fit_longest(longest, &w, &h);
    if (w > MAX_SIDE || h > MAX_SIDE) {
        const double ratio = (double)w / h;
        const bool wide = w >= h;
        w = wide ? MAX_SIDE : at_least(1, MAX_SIDE * ratio);
        h = wide ? at_least(1, MAX_SIDE / ratio) : MAX_SIDE;
    }
    out->first_w = w;
    out->first_h = h;
    const double ratio = (double)w / h;
    if (w >= h) {
        w = up_to(w, side);
        h = up_to((int)(w / ratio), side);
    } else {
        h = up_to(h, side);
        w = up_to((int)(h * ratio), side);
    }
    out->whole_w = out->whole_h = side;
    out->filter = FILTER_LANCZOS;
    if (w == side && h == side) return 0;
    out->tiles_w = w;
    out->tiles_h = h;
    out->rows = h / side;
    out->cols = w / side;
    out->whole_of_tiles = true;
    return 0;
}

/* Sets the tiles of `out`: g.rows x g.cols squares of `side` pixels. */
static void split(struct tile_grid g, int side, struct view_plan *out) {
    out->rows = g.rows;
    out->cols = g.cols;
    out->tiles_w = g.cols * side;
    out->tiles_h = g.rows * side;
}

/* Plans a square view of the whole image and, if the grid has several cells, square tiles. */
static int plan_internvl(const struct vision_params *p, int w, int h, struct view_plan *out,
                         struct err *e) {
    (void)e;
    const struct tile_grid g = tile_grid_choose(w, h, p->image_size, p->min_tiles, p->max_tiles);
    out->whole_w = out->whole_h = p->image_size;
    if (g.rows * g.cols > 1) split(g, p->image_size, out);
    return 0;
}

/* Plans for LFM2-VL: an image with more than twice the pixels of the limit is split. */
static int plan_lfm2(const struct vision_params *p, int w, int h, struct view_plan *out,
                     struct err *e) {
    enum { TILE = 512 };
    const int side = p->patch * p->merge;
    (void)e;
    out->filter = FILTER_BILINEAR;
    fit_pixels(p, w, h, 1, out);
    const int64_t pixels =
        (int64_t)at_least(p->patch, round_to(w, side)) * at_least(p->patch, round_to(h, side));
    if (pixels > 2 * p->max_pixels && p->max_tiles > 1)
        split(tile_grid_choose(w, h, TILE, p->min_tiles, p->max_tiles), TILE, out);
    return 0;
}

/* Plans for Kimi-VL: never enlarged, shrunk to the limits and padded to multiples of a token's
 * side. */
static int plan_kimi(const struct vision_params *p, int w, int h, struct view_plan *out,
                     struct err *e) {
    enum { SIDE_PATCHES = 512 };
    const int side = p->patch * p->merge, most = SIDE_PATCHES * p->patch;
    const double patches = fmax(1, w / p->patch) * fmax(1, h / p->patch),
                 limit = (double)p->max_pixels / ((double)p->patch * p->patch);
    (void)e;
    const double scale =
        fmin(fmin(1, sqrt(limit / patches)), fmin((double)most / h, (double)most / w));
    out->whole_w = at_least(1, w * scale);
    out->whole_h = at_least(1, h * scale);
    out->padded_w = up_to(out->whole_w, side);
    out->padded_h = up_to(out->whole_h, side);
    return 0;
}

/* Sets the size of a MiniCPM-V view from w x h. */
static void minicpm_fit(const struct vision_params *p, double w, double h, bool enlarge, int *to_w,
                        int *to_h) {
    const int side = p->patch * p->merge;
    if (enlarge || h * w > (double)p->image_size * p->image_size) {
        const double ratio = w / h;
        h = trunc(p->image_size / sqrt(ratio));
        w = trunc(h * ratio);
    }
    *to_w = at_least(side, round_to(w, side));
    *to_h = at_least(side, round_to(h, side));
}

/* Chooses MiniCPM-V's grid of slices: about one slice per square of scale_resolution pixels, in the
 * shape closest to the image's. 0: the image is not split. */
static struct tile_grid minicpm_grid(const struct vision_params *p, int w, int h) {
    const double log_ratio = fp_log((double)w / h),
                 squares = ceil((double)w * h / ((double)p->image_size * p->image_size));
    const int n = squares < p->max_tiles ? (int)squares : p->max_tiles;
    struct tile_grid best = {1, 1};
    double least = HUGE_VAL;
    if (n <= 1) return (struct tile_grid){0, 0};
    for (int k = n - 1; k <= n + 1; k++)
        for (int rows = 1; k > 1 && k <= p->max_tiles && rows <= k; rows++) {
            if (k % rows) continue;
            const double error = fabs(log_ratio - fp_log((double)(k / rows) / rows));
            if (error > least || (error == least && rows <= best.rows)) continue;
            best = (struct tile_grid){rows, k / rows};
            least = error;
        }
    return best;
}

/* Plans the whole image and, for large images, tiles of the best grid. */
static int plan_minicpm(const struct vision_params *p, int w, int h, struct view_plan *out,
                        struct err *e) {
    const struct tile_grid g = minicpm_grid(p, w, h);
    (void)e;
    minicpm_fit(p, w, h, !g.rows, &out->whole_w, &out->whole_h);
    if (!g.rows) return 0;
    const int refined_w = at_least(g.cols, round_to(w, g.cols)),
              refined_h = at_least(g.rows, round_to(h, g.rows));
    minicpm_fit(p, (double)refined_w / g.cols, (double)refined_h / g.rows, true, &out->tiles_w,
                &out->tiles_h);
    out->tiles_w *= g.cols;
    out->tiles_h *= g.rows;
    out->rows = g.rows;
    out->cols = g.cols;
    out->whole_first = true;
    return 0;
}

struct tile_grid tile_grid_choose(int w, int h, int side, int min, int max) {
    struct tile_grid best = {1, 1};
    const double ratio = (double)w / h, area = (double)w * h;
    double least = HUGE_VAL;
    for (int n = min; n <= max; n++)
        for (int cols = 1; cols <= n; cols++) {
            if (n % cols) continue;
            const double error = fabs(ratio - (double)cols / (n / cols));
            if (error > least || (error == least && area <= 0.5 * side * side * n)) continue;
            best = (struct tile_grid){n / cols, cols};
            least = error;
        }
    return best;
}

int view_plan_make(const struct vision_params *p, int w, int h, struct view_plan *out,
                   struct err *e) {
    static int (*const make[])(const struct vision_params *, int, int, struct view_plan *,
                               struct err *) = {
        [PROJ_QWEN2VL] = plan_qwen,      [PROJ_QWEN25VL] = plan_qwen,
        [PROJ_QWEN3VL] = plan_qwen,      [PROJ_GEMMA3] = plan_square,
        [PROJ_GEMMA4] = plan_gemma4,     [PROJ_GEMMA4U] = plan_gemma4,
        [PROJ_PIXTRAL] = plan_pixtral,   [PROJ_IDEFICS3] = plan_idefics3,
        [PROJ_INTERNVL] = plan_internvl, [PROJ_LFM2] = plan_lfm2,
        [PROJ_GLM4V] = plan_glm,         [PROJ_KIMIVL] = plan_kimi,
        [PROJ_MINICPMV] = plan_minicpm};
    memset(out, 0, sizeof *out);
    out->filter = FILTER_BICUBIC;
    return make[p->type](p, w, h, out, e);
}
