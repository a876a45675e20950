// SPDX-License-Identifier: MIT
/* convert/vision.h - tables of vision towers: the folder's tensor for each tensor of the
 * projector file, with its dimensions. convert/mmproj.c reads the rows, one per tensor.
 * Internal to convert/. */
#ifndef HONE_CONVERT_VISION_H
#define HONE_CONVERT_VISION_H

#include "base/buf.h"
#include "containers/gguf.h"
#include "containers/hfdir.h"

enum vdim {
    VD_NONE,
    VD_ONE,
    VD_TWO,
    VD_RGB,    /* 3 */
    VD_PATCH,  /* side of a patch in pixels */
    VD_PIXELS, /* 3 * patch * patch */
    VD_C,      /* width */
    VD_FF,
    VD_QKV,    /* 3 * width */
    VD_HEAD,   /* head width */
    VD_Q,      /* width of all query heads */
    VD_KV,     /* width of all key heads */
    VD_POS,    /* rows of the position table */
    VD_MERGED, /* width of the merged neighbouring patches */
    VD_TEXT,   /* width of the language model */
    VD_COUNT
};
enum vxform {
    VX_COPY,
    VX_FRAME_0, /* [C][3][2][p][p]: first of two frames */
    VX_FRAME_1,
    VX_RGB_LAST /* [C][p*p][3]: channels moved to the front */
};
enum {
    VR_F32 = 1,
    VR_CONV = 2, /* convolution kernel, stored as F16 or F32 */
    VR_DEEP = 4, /* one per deepstack entry, numbered by block in the output */
    VR_CLIP = 8, /* only where config.json has use_clipped_linears */
    VR_STD = 16  /* only where config.json has standardize */
};
struct vision_row {
    const char *hf;   /* without a leading "model."; %d: block */
    const char *gguf; /* %d: block */
    uint8_t dim[4];   /* enum vdim of the output, outer to inner, ends with VD_NONE */
    uint8_t xf, flags;
};
enum { VISION_MAX_DEEP = 64, VISION_MAX_BLOCKS = 512 };
struct vision {
    const struct vision_kind *kind;
    int64_t d[VD_COUNT];
    int64_t blocks, heads, kv_heads, image_size, merge;
    int64_t deep[VISION_MAX_DEEP]; /* blocks whose output is merged, too */
    int n_deep;
    bool clip, standardize;
    double eps;
    float mean[3], std[3];
};
struct vision_kind {
    const char *const *archs; /* names of struct arch, NULL-terminated */
    const char *projector, *projector_key;
    const struct vision_row *rows; /* ends with hf NULL */
    float mean[3], std[3];         /* from the published preprocessor */
    int (*read)(struct vision *v, const struct hfdir *dir, const struct json *cfg, struct err *e);
    void (*keys)(const struct vision *v, struct gguf_w *w); /* additional keys; NULL: none */
};
/* Returns the conversion of an architecture's vision tower; NULL: unknown. */
const struct vision_kind *vision_find(const char *arch);
/* Appends the architectures with known towers, for messages: "qwen35, ...". */
void vision_list(struct buf *out);
/* Reads a vision tower's hyperparameters from config.json and the preprocessor's file. ERR_DATA
 * without a vision_config. */
int vision_read(struct vision *v, const struct vision_kind *k, struct hfdir *dir, struct err *e);
/* Writes the clip.* keys. */
void vision_keys(const struct vision *v, struct gguf_w *w);

#endif
