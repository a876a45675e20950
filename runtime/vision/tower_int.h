// SPDX-License-Identifier: MIT
/* runtime/vision/tower_int.h - vision towers as data: a tower is a table of rows over a small set
 * of operations (tower_types.c). Opening a file binds the rows to its tensors, which yields steps
 * (tower.c); tower_run.c runs them. Internal to runtime/vision/.
 *
 * The patches of an image are rows of the residual stream. They are ordered so that the patches of
 * a window, and within it those that become one token, are neighbours: merging them is then a
 * change of shape. A class row, if any, is the last one. Only attention reads other rows, so the
 * steps between two attentions run on chunks of rows, and a worker's memory does not grow with the
 * image. */
#ifndef HONE_RUNTIME_VISION_TOWER_INT_H
#define HONE_RUNTIME_VISION_TOWER_INT_H

#include "runtime/vision/tower.h"

enum tower_op {
    TOP_END,
    TOP_PIXELS,  /* chunk = the pixels of patches */
    TOP_PATCH,   /* chunk = patches . kernel; kind 1: of pixels scaled to -1 .. 1 */
    TOP_POS,     /* chunk += position table (tower_type.pos) */
    TOP_CLASS,   /* class row = class embedding + first row of the position table */
    TOP_STORE,   /* stream = chunk */
    TOP_LOAD,    /* chunk = stream */
    TOP_ADD,     /* stream += chunk */
    TOP_NORM,    /* kind: enum tower_norm */
    TOP_LINEAR,  /* kind 1: the file has the matrix transposed */
    TOP_ACT,     /* kind: enum tower_act */
    TOP_GATED,   /* chunk = act(chunk . name) * (chunk . second) */
    TOP_COLUMNS, /* chunk *= a vector */
    TOP_WIDEN,   /* chunk *= sqrt(width) */
    TOP_CENTRE,  /* chunk = (chunk - name) * second */
    TOP_QKV,     /* query, key and value heads of chunk, normalised and rotated; name: prefix;
                  * kind 1: values are also normalised */
    TOP_ATTEND,  /* chunk = attention; kind: enum tower_range */
    TOP_MERGE,   /* rows of a square side by side */
    TOP_SHUFFLE, /* the same, channels outermost */
    TOP_POOL,    /* mean of the rows of a square */
    TOP_SHRINK,  /* stream = chunk + mean of the stream's squares: fewer rows from here on */
    TOP_OUT,     /* embeddings = chunk */
    TOP_DEEP     /* next deepstack embeddings = chunk */
};
enum tower_range {
    RANGE_ALL,
    RANGE_WINDOW, /* windows of tower_type.window, except in every n-th block */
    RANGE_SQUARE  /* squares of patches that become one row */
};
enum tower_norm {
    NORM_LAYER,
    NORM_RMS,
    NORM_AUTO, /* NORM_LAYER if there is a bias */
    NORM_BARE  /* NORM_RMS without a weight */
};
enum tower_act {
    ACT_NONE,
    ACT_GELU,  /* the tanh form */
    ACT_ERF,   /* exact GELU */
    ACT_QUICK, /* x * sigmoid(1.702 x) */
    ACT_SILU,
    ACT_KEYS /* clip.use_gelu: ACT_ERF; clip.use_silu: ACT_SILU; neither: ACT_QUICK */
};
enum tower_pos {
    POS_NONE,
    POS_CORNERS,   /* bilinear, corners aligned */
    POS_BICUBIC,   /* bicubic; for a grid of the table's size, the table itself */
    POS_ANTIALIAS, /* bilinear with a support that grows when the table is reduced */
    POS_NEAREST,   /* entry of the position as a fraction of the image, i * (1 / n) */
    POS_FRACTION,  /* the same, i / n */
    POS_AXES       /* the sum of two tables: columns, then rows */
};
enum tower_rope {
    ROPE_NONE,
    ROPE_HALVES, /* pairs (j, j + half a head): rows, then columns */
    ROPE_EVEN,   /* neighbours; rows have the even frequencies, columns the odd ones */
    ROPE_PARTS,  /* each half of a head has its own pairs: columns, then rows */
    ROPE_MIXED   /* neighbours: columns and rows in turn */
};
enum { ROW_OPT = 1 }; /* row flag: skipped if the tensor is missing */

struct tower_row {
    uint8_t op, kind, flags;
    const char *name, *second; /* tensors without ".weight"; %d: block */
    float eps;                 /* of a norm; 0: the file's */
};
struct tower_type {
    const char *family;                                     /* for messages */
    const struct tower_row *embed, *block, *deep, *project; /* block NULL: no blocks */
    const struct tower_row *middle; /* after the block that wa_layer_indexes names */
    uint8_t pos, rope;
    float theta;
    bool whole;    /* the squares that become a token are patches */
    bool unscaled; /* attention without the factor 1 / sqrt(head width) */
    int window;    /* side of attention windows in pixels; 0: none */
    int every;     /* without n_wa_pattern: every n-th block attends to the whole image */
};
/* Tables by enum projector (tower_types.c); embed NULL: not computed. */
extern const struct tower_type tower_types[PROJ_COUNT];

struct tower_mat {       /* rows of `in` weights, without gaps */
    const float *floats; /* NULL: blocks of a type, which products decode */
    const uint8_t *blocks;
    enum qtype type;
    int64_t in, out;
    const float *bias; /* NULL: none */
    bool clipped;
    float clip[4]; /* least and largest input, least and largest output */
};
struct tower_step {
    const struct tower_row *row;
    int block;
    uint8_t kind;
    struct tower_mat mat, second; /* TOP_QKV: query or all three; key */
    struct tower_mat third;       /* TOP_QKV: value */
    const float *w, *b;           /* vectors */
    int64_t n_w;                  /* TOP_QKV: width of the norms w and b of query and key */
    int64_t width;                /* of the chunk after the step */
    int square;                   /* rows of the stream per row of the chunk after the step */
};
/* A run of steps between attentions. */
struct tower_segment {
    int first, n;
    bool patches; /* only patches, without the class row */
    int shrunk;   /* patches per row of the stream */
};

enum { TOWER_MAX_BLOCKS = 512, TOWER_MAX_DEEP = 64, TOWER_CHUNK = 192, TOWER_PANEL = 24 };
struct vision_tower {
    struct gguf *file;
    struct pool *pool;
    struct kern kern;
    const struct tower_type *type;
    struct vision_params params;
    int64_t patch, merge; /* side of a patch in pixels; of the squares that become a token */
    int64_t width, text;  /* of the stream; of the embeddings */
    int64_t heads, kv_heads, head_dim;
    int64_t window, every; /* side of windows in tokens; 0: none */
    int shrunk, side;      /* while binding: patches per row; side of the squares to merge */
    int middle;            /* block followed by type->middle; -1: none */
    int64_t chunk;         /* most rows per chunk, a multiple of merge * merge */
    int64_t wide, panel;   /* floats of the widest chunk; of a panel of decoded weights */
    int n_blocks, n_deep;
    bool use_gelu, use_silu;
    float eps;
    const float *pos, *cls; /* position table, class embedding; NULL: none */
    int64_t n_pos;
    struct tower_step *step;
    struct tower_segment *segment;
    int n_steps, cap_steps, n_segments;
    uint8_t *used; /* [tensors of the file] flags */
    void **own;    /* decoded tensors */
    int n_own;
};

/* ---- tower_bind.c ---- */

/* Binds the tables' rows to the tensors of v->file and checks that no tensor is left over. */
int tower_bind(struct vision_tower *v, struct err *e);

/* ---- tower_grid.c ---- */

struct tower_spot { /* a patch */
    int32_t y, x;
};
struct tower_grid {
    int64_t w, h, n;       /* patches */
    struct tower_spot *at; /* [n] */
    int64_t *window;       /* [n_windows + 1] first rows */
    int64_t n_windows;
    float *cs; /* [n][head_dim / 2][2] cosines and sines; NULL: no rotation */
    /* Table entries and weights per row and column of patches. */
    int64_t taps;
    int32_t *entry[2];
    float *weight[2];
    void *own[7];
};
/* Orders the patches of a grid and computes its positions. */
int tower_grid_make(struct tower_grid *g, const struct vision_tower *v, int64_t w, int64_t h,
                    struct err *e);
void tower_grid_release(struct tower_grid *g);
/* Adds the position embedding of patch i to its row x of the stream. */
void tower_add_pos(const struct vision_tower *v, const struct tower_grid *g, int64_t i, float *x);
/* Rotates a head of the row's query or key in place. */
void tower_rotate(const struct vision_tower *v, const struct tower_grid *g, int64_t i, float *x);

/* ---- tower_attend.c ---- */

struct tower_heads {
    int64_t n;  /* rows */
    float *q;   /* [heads][n][head_dim], scaled */
    float *k;   /* [kv_heads][head_dim][n] */
    float *v;   /* [kv_heads][n][head_dim] */
    float *out; /* [n][heads * head_dim] */
};
/* Computes attention within each range of rows [start[i], start[i + 1]). */
int tower_attend(const struct vision_tower *v, const struct tower_heads *h, const int64_t *start,
                 int64_t n_ranges, struct err *e);

/* ---- tower_ops.c ---- */

/* Multiplies n rows of x by a matrix: y [n][ldy]. panel: room for v->panel floats. spare: room for
 * n rows of x. */
void tower_product(const struct vision_tower *v, const struct tower_mat *m, const float *x,
                   int64_t n, float *y, int64_t ldy, float *panel, float *spare);
/* Applies the activation to n values in place; unknown kinds change nothing. */
void tower_act(const struct vision_tower *v, int kind, float *x, int64_t n);
/* Normalises n rows of `width` values in place; w and b may be NULL. */
void tower_norm(const struct vision_tower *v, int kind, float *x, int64_t n, int64_t width,
                const float *w, const float *b, float eps);

#endif
