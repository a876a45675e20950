// SPDX-License-Identifier: MIT
/* runtime/vision/image.h - turns the bytes of an image into the normalised pixels that a vision
 * tower reads, and gives the image its place in the prompt.
 *
 * image_decode() reads PNG and JPEG as Pillow does, image_prepare() resizes, splits and normalises
 * as the image processors of transformers do (their default, torchvision's functions on 8-bit
 * images), and image_prompt() writes what their processors put in place of an image's
 * placeholder. */
#ifndef HONE_RUNTIME_VISION_IMAGE_H
#define HONE_RUNTIME_VISION_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "containers/gguf.h"

/* ---- decoding ---- */

struct image {
    int w, h;
    unsigned char *rgb; /* [h][w][3] */
};
enum { IMAGE_MAX_SIDE = 1 << 16, IMAGE_MAX_PIXELS = 1 << 26, IMAGE_MAX_BYTES = 1 << 28 };

/* Decodes a PNG or JPEG image, recognised by its content. Applies its EXIF orientation and puts
 * transparent pixels on white. ERR_DATA: another format, damaged or larger than the limits above;
 * ERR_SYS: out of memory. The caller calls image_release(), also after an error. */
int image_decode(const void *bytes, size_t n, struct image *out, struct err *e);
void image_release(struct image *im);

/* ---- parameters ---- */

enum projector {
    PROJ_QWEN2VL,
    PROJ_QWEN25VL,
    PROJ_QWEN3VL, /* Qwen3-VL and Qwen3.5 */
    PROJ_GEMMA3,
    PROJ_GEMMA4,
    PROJ_GEMMA4U, /* Gemma 4 Unified, which has no blocks */
    PROJ_PIXTRAL, /* Pixtral and Mistral 3 */
    PROJ_IDEFICS3,
    PROJ_INTERNVL,
    PROJ_LFM2,
    PROJ_GLM4V,
    PROJ_KIMIVL,
    PROJ_MINICPMV, /* MiniCPM-V 4.6 */
    PROJ_COUNT
};
/* How a tower's images are prepared: the file's keys, and values that no key holds. */
struct vision_params {
    enum projector type;
    int patch;      /* side of a patch in pixels */
    int merge;      /* side, in patches, of the square that becomes one token */
    int image_size; /* side of an image or of a tile, for towers with one size */
    int longest;    /* longest side before an image is split; 0: not limited */
    int min_tiles, max_tiles;
    int64_t min_pixels, max_pixels; /* of a resized image; 0: not limited */
    float mean[3], std[3];
};

/* Reads the parameters of a projector (mmproj) file. ERR_DATA: not a projector file, or a projector
 * that is not supported. */
int vision_params_read(const struct gguf *g, struct vision_params *p, struct err *e);

/* ---- preparing ---- */

/* One input of the tower: the image, or one of its tiles. Both sides are multiples of patch *
 * merge. */
struct view {
    int w, h;
    float *data; /* [3][h][w] */
};
/* An image's views, in the order of the prompt: tiles row by row, and the whole image after them
 * (PROJ_MINICPMV: before them). */
struct pixels {
    struct view *view;
    int n_views;
    int rows, cols; /* of tiles; 0: not split */
    int whole;      /* view of the whole image */
    float *data;    /* of all views */
};

/* An image's part of the work, from its size alone. */
struct image_work {
    int64_t n_tokens, n_patches; /* rows in the prompt; patches of all views */
};
/* Fills *out for an image of w x h pixels. ERR_DATA: the tower does not accept such an image, as
 * image_prepare would report. */
int image_look(const struct vision_params *p, int w, int h, struct image_work *out, struct err *e);
/* Resizes, splits and normalizes an image for the tower; free with pixels_release(). */
int image_prepare(const struct vision_params *p, const struct image *im, struct pixels *out,
                  struct err *e);
void pixels_release(struct pixels *px);
/* Frees the pixels but keeps the views' sizes, which is all that image_prompt() needs. */
void pixels_drop(struct pixels *px);
/* Sets *w and *h to the grid of tokens of a view. */
void view_grid(const struct vision_params *p, const struct view *v, int *w, int *h);

/* ---- in the prompt ---- */

/* Part of an image's place in a prompt: a text, which contains control tokens, or rows of a view's
 * embeddings. */
struct image_part {
    const char *text; /* NULL: rows of a view */
    int view, first, n;
};
struct image_prompt {
    struct image_part *part;
    int n_parts;
    int64_t n_rows; /* of all views */
    char *texts;    /* storage */
};

/* Lists the parts that replace an image's placeholder in the prompt. index: the number of images
 * before it in the conversation, which some models' prompts include. */
void image_prompt(const struct vision_params *p, const struct pixels *px, int index,
                  struct image_prompt *out);
void image_prompt_release(struct image_prompt *pr);
/* Returns the token that chat templates write for an image and that image_prompt() replaces. */
const char *image_placeholder(enum projector type);
/* Sets *before and *after to what chat templates write around a placeholder. */
void image_around(enum projector type, const char **before, const char **after);
/* Returns the control token for a row of embeddings: "<|image_pad|>", "<image_soft_token>". */
const char *image_row_token(enum projector type);

#endif
