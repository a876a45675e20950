// SPDX-License-Identifier: MIT
/* convert/vision.h - vision tower tables. A row maps a tensor of the projector (mmproj) file to
 * its source tensor in the Hugging Face folder and gives its dimensions. convert/mmproj.c reads the
 * rows; the tables are in convert/tower_*.c. Internal to convert/. */
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
    VD_MERGE,  /* side, in patches, of the squares that are merged */
    VD_MERGED, /* width of a merged square of patches */
    VD_PROJ,   /* inner width of the projector */
    VD_TEXT,   /* width of the language model */
    VD_COUNT
};
enum vxform {
    VX_COPY,
    VX_FRAME_0, /* [C][3][2][p][p]: first of two frames */
    VX_FRAME_1,
    VX_RGB_LAST, /* [C][p*p][3]: channels moved to the front */
    VX_Q,        /* first third of a fused matrix or bias */
    VX_K,
    VX_V,
    VX_ROPE, /* halves of each head interleaved, for llama.cpp's RoPE */
    VX_ADD1,
    VX_SWAP, /* [n][2][...]: two tables, interleaved in the source */
    VX_BREAK /* row v->line_break of a table */
};
enum {
    VR_F32 = 1,
    VR_CONV = 2,   /* convolution kernel, stored as F16 or F32 */
    VR_DEEP = 4,   /* one per deepstack entry, numbered by block in the output */
    VR_CLIP = 8,   /* only if config.json sets use_clipped_linears */
    VR_STD = 16,   /* only if config.json sets standardize */
    VR_OPT = 32,   /* some folders lack it, in all blocks */
    VR_F16 = 64,   /* always F16: other programs transpose it */
    VR_FLAT = 128, /* the source may have different dimensions with the same elements */
    VR_APART = 256 /* of VX_Q, VX_K, VX_V: the tensor of the second spelling is not fused */
};
struct vision_row {
    /* Spellings "a|b", without a leading "model." or "thinker."; "vision_model." may be missing in
     * the folder. %d: block. */
    const char *hf;
    const char *gguf; /* %d: block; NULL: known but not written */
    uint8_t dim[4];   /* enum vdim of the output, outer to inner, ends with VD_NONE */
    uint8_t xf;
    uint16_t flags;
};
/* A field of the folder's configs for which projector files have no key. A missing one is taken to
 * have a supported value. A table ends with field NULL. */
enum vision_place {
    VP_TOWER, /* config.json: vision_config */
    VP_ROOT,  /* config.json */
    VP_IMAGE  /* the image processor's config */
};
struct vision_fixed {
    uint8_t place;     /* enum vision_place */
    uint8_t dim;       /* enum vdim: the only supported value, or VD_NONE: see want */
    const char *field; /* "a.b": member b of a */
    const char *want;  /* supported values "a|b", spelled as in JSON, strings without quotes */
};
/* Activations, in all spellings of transformers. */
#define VW_TANH "gelu_pytorch_tanh|gelu_new|gelu_fast|gelu_accurate|gelu_python_tanh"
#define VW_GELU "gelu|gelu_python"
#define VW_SILU "silu|swish"
#define VW_QUICK "quick_gelu"
/* The base of the towers' rotary positions, in both places where configs have it. */
#define V_THETA(n)                                                                                 \
    {VP_TOWER, 0, "rope_parameters.rope_theta", n}, {                                              \
        VP_TOWER, 0, "rope_theta", n                                                               \
    }
/* All images are resized; Pillow's numbers of the filters. */
#define V_RESIZED(filter)                                                                          \
    {VP_IMAGE, 0, "do_resize", "true"}, {                                                          \
        VP_IMAGE, 0, "resample", filter                                                            \
    }
#define V_LANCZOS V_RESIZED("1")
#define V_BILINEAR V_RESIZED("2")
#define V_BICUBIC V_RESIZED("3")
enum { VISION_MAX_DEEP = 64, VISION_MAX_BLOCKS = 512 };
struct vision {
    const struct vision_kind *kind;
    int64_t d[VD_COUNT];
    int64_t blocks, heads, kv_heads, image_size, merge;
    int64_t deep[VISION_MAX_DEEP]; /* blocks whose output is also merged */
    int n_deep;
    bool clip, standardize;
    double eps;
    float mean[3], std[3];
    /* Keys that only some towers have; 0: none. */
    int64_t ff_key;     /* feed_forward_length if it is not d[VD_FF] */
    int64_t patch_key;  /* patch_size if it is not d[VD_PATCH] */
    int64_t block_key;  /* block_count if it is not `blocks` */
    int64_t merge_key;  /* spatial_merge_size */
    int64_t scale;      /* projector.scale_factor */
    int64_t full_every; /* n_wa_pattern: every n-th block attends to the whole image */
    int64_t longest;    /* preproc_image_size */
    int64_t tiles[2];   /* preproc_min_tiles, preproc_max_tiles */
    int64_t pixels[2];  /* image_min_pixels, image_max_pixels */
    bool gelu, silu;
    int64_t merge_after; /* block after which a second merger runs (MiniCPM-V) */
    int64_t line_break;  /* token at the end of a row of patches; -1: none */
};
struct vision_usual { /* defaults of transformers */
    int64_t width, ff, blocks, heads, image, patch;
};
/* How an image processor limits the size of resized images. */
enum vision_limits {
    VL_NONE,
    VL_SIZE,         /* size.shortest_edge, size.longest_edge: numbers of pixels */
    VL_PIXELS,       /* the same, unless min_pixels and max_pixels are given */
    VL_IMAGE_TOKENS, /* min_image_tokens, max_image_tokens */
    VL_SOFT_TOKENS,  /* max_soft_tokens */
    VL_PATCHES       /* in_token_limit: patches */
};
struct vision_kind {
    const char *name;           /* for messages: "Gemma 3" */
    const char *const *classes; /* model classes, NULL-terminated */
    const char *projector, *projector_key;
    const struct vision_row *rows;    /* ends with hf NULL */
    const struct vision_fixed *fixed; /* checked after read() */
    float mean[3], std[3];            /* from the published preprocessor config */
    bool clip_colours;                /* a config without them means CLIP's, not these */
    struct vision_usual usual;        /* defaults of keys missing from vision_config; 0: required */
    enum vision_limits limits;        /* vision.c reads them after read() */
    int (*read)(struct vision *v, struct hfdir *dir, const struct json *cfg, struct err *e);
    void (*keys)(const struct vision *v, struct gguf_w *w); /* additional keys; NULL: none */
};
/* Tables: tower_qwen.c, tower_siglip.c and so on. */
extern const struct vision_kind vision_qwen2, vision_qwen25, vision_qwen3, vision_gemma3,
    vision_gemma4, vision_gemma4u, vision_pixtral, vision_idefics3, vision_internvl, vision_lfm2,
    vision_glm4v, vision_kimi, vision_minicpm;

/* Returns the description of a model class's vision tower; NULL: unknown. */
const struct vision_kind *vision_find(const char *cls);
/* Appends the models with known towers, for messages: "Qwen2-VL, ...". */
void vision_list(struct buf *out);
/* Reads a vision tower's hyperparameters from config.json and the preprocessor's config. ERR_DATA
 * if there is no vision_config. */
int vision_read(struct vision *v, const struct vision_kind *k, struct hfdir *dir, struct err *e);
/* Writes the clip.* keys. */
void vision_keys(const struct vision *v, struct gguf_w *w);

/* Reads a positive number from vision_config under any of the names "a|b"; of a list, reads the
 * first element. otherwise: the default; 0: the number is required. */
int vision_number(const struct json *cfg, const char *names, int64_t otherwise, int64_t *out,
                  struct err *e);
/* Reads the usual numbers of a transformer: blocks, heads, and image_size unless it is set. */
int vision_transformer(struct vision *v, const struct json *cfg, struct err *e);
/* Reads the image processor's size, a number N of pixels. forms: VS_EDGE: {"longest_edge": N};
 * VS_SQUARE: N or {"height": N, "width": N}. otherwise: the default if its config has no size; *out
 * stays as it is if there is no config. ERR_DATA: another form, which the processor would apply in
 * another way. */
enum { VS_EDGE = 1, VS_SQUARE = 2 };
int vision_size(const struct vision *v, struct hfdir *dir, int forms, int64_t otherwise,
                int64_t *out, struct err *e);
/* Returns whether s is one of the values "a|b". */
bool vision_one_of(const char *s, const char *list);
/* Finds a member of processor_config.json or preprocessor_config.json; *out NULL: missing. */
int vision_preprocessor(struct hfdir *dir, const char *name, const struct json **out,
                        struct err *e);

/* Groups of rows. */
// clang-format off
#define V_LINEAR(hf, gguf, out, in) {hf ".weight", gguf ".weight", {out, in}, 0, 0}, {hf ".bias", gguf ".bias", {out}, 0, VR_F32 | VR_OPT}
#define V_NORM(hf, gguf, n) {hf ".weight", gguf ".weight", {n}, 0, VR_F32}, {hf ".bias", gguf ".bias", {n}, 0, VR_F32 | VR_OPT}
/* Fused q, k and v, written as separate tensors. */
#define V_SPLIT_ONE(hf, gguf, xf) {hf ".weight", gguf ".weight", {VD_C, VD_C}, xf, 0}, {hf ".bias", gguf ".bias", {VD_C}, xf, VR_F32 | VR_OPT}
#define V_SPLIT(hf) V_SPLIT_ONE(hf, "v.blk.%d.attn_q", VX_Q), V_SPLIT_ONE(hf, "v.blk.%d.attn_k", VX_K), V_SPLIT_ONE(hf, "v.blk.%d.attn_v", VX_V)
#define V_PATCH(hf) {hf ".weight", "v.patch_embd.weight", {VD_C, VD_RGB, VD_PATCH, VD_PATCH}, 0, VR_CONV}, {hf ".bias", "v.patch_embd.bias", {VD_C}, 0, VR_F32 | VR_OPT}
#define V_FRAMES(hf) \
    {hf ".weight", "v.patch_embd.weight", {VD_C, VD_RGB, VD_PATCH, VD_PATCH}, VX_FRAME_0, VR_CONV}, \
    {hf ".weight", "v.patch_embd.weight.1", {VD_C, VD_RGB, VD_PATCH, VD_PATCH}, VX_FRAME_1, VR_CONV}, \
    {hf ".bias", "v.patch_embd.bias", {VD_C}, 0, VR_F32 | VR_OPT}
// clang-format on

#endif
