// SPDX-License-Identifier: MIT
/* convert/vision.h - vision towers as tables: which tensor of a folder becomes which tensor of a
 * projector file, and the numbers that go with it. One row per tensor; convert/mmproj.c reads them.
 * Inner to convert/. */
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
    VD_PATCH,  /* pixels of a patch's side */
    VD_PIXELS, /* 3 * patch * patch */
    VD_C,      /* width */
    VD_FF,
    VD_QKV,    /* 3 * width */
    VD_HEAD,   /* of a head */
    VD_Q,      /* all query heads */
    VD_KV,     /* all key heads */
    VD_POS,    /* rows of a position table */
    VD_MERGED, /* neighbouring patches side by side */
    VD_TEXT,   /* width of the language model */
    VD_COUNT
};
enum vxform {
    VX_COPY,
    VX_FRAME_0, /* [C][3][2][p][p]: the first of two frames */
    VX_FRAME_1,
    VX_RGB_LAST /* [C][p*p][3]: colours to the front */
};
enum {
    VR_F32 = 1,
    VR_CONV = 2, /* the kernel of a convolution, which is stored as F16 or F32 */
    VR_DEEP = 4, /* there is one for each entry of deepstack, numbered by block in the output */
    VR_CLIP = 8, /* only where config.json has use_clipped_linears */
    VR_STD = 16  /* only where config.json has standardize */
};
struct vision_row {
    const char *hf;   /* without a leading "model."; %d: block */
    const char *gguf; /* %d: block */
    uint8_t dim[4];   /* enum vdim of the output, outer to inner; VD_NONE ends */
    uint8_t xf, flags;
};
enum { VISION_MAX_DEEP = 64, VISION_MAX_BLOCKS = 512 };
struct vision {
    const struct vision_kind *kind;
    int64_t d[VD_COUNT];
    int64_t blocks, heads, kv_heads, image_size, merge;
    int64_t deep[VISION_MAX_DEEP]; /* blocks whose output is merged too */
    int n_deep;
    bool clip, standardize;
    double eps;
    float mean[3], std[3];
};
struct vision_kind {
    const char *const *archs; /* names of struct arch, NULL-terminated */
    const char *projector, *projector_key;
    const struct vision_row *rows; /* ends with hf NULL */
    float mean[3], std[3];         /* of the published preprocessor */
    int (*read)(struct vision *v, const struct hfdir *dir, const struct json *cfg, struct err *e);
    void (*keys)(const struct vision *v, struct gguf_w *w); /* beside the common ones; or NULL */
};
/* Returns how the vision towers of an architecture are converted; NULL when none of it is known. */
const struct vision_kind *vision_find(const char *arch);
/* Appends the architectures whose towers are known: "qwen35, ...", for messages. */
void vision_list(struct buf *out);
/* Reads the numbers of a vision tower from config.json and the preprocessor's file. ERR_DATA
 * without a vision_config. */
int vision_read(struct vision *v, const struct vision_kind *k, struct hfdir *dir, struct err *e);
/* Writes the clip.* keys. */
void vision_keys(const struct vision *v, struct gguf_w *w);

#endif
