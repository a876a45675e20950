// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/exec.h - the CUDA backend's structures and functions. Internal to runtime/.
 *
 * From session_new on, everything a pass needs is on the device: weights as stored in the file,
 * vectors (norms, biases, convolutions) as f32, registers, the sequences' pages and states, and the
 * description of the pass's rows. Kernels read positions, page tables and the locations of states
 * from device memory, so a captured step serves every sequence at every position.
 *
 * Layers may be split over several devices. A session has a part (struct cuda) for each device,
 * with the data of its layers. Functions that work on one device take its part; functions that take
 * the session work on all parts. */
#ifndef HONE_RUNTIME_ENGINE_CUDA_EXEC_H
#define HONE_RUNTIME_ENGINE_CUDA_EXEC_H

#include "kernels/cuda/cuda.h"
#include "runtime/engine/cuda/feed.h"
#include "runtime/engine/placement.h"
#include "runtime/engine/exec.h"

enum {
    HEAD_ROWS = 64, /* rows of the head per product */
    BEST_ROWS = 16, /* rows per search for the best logits */
    CUDA_ALIGN = 256,
    CUDA_ARRIVED = 1024,    /* counters of finished thread blocks */
    CUDA_MOST_ROWS = 65535, /* rows of a pass: the y of a grid, with a row per block */
    CUDA_STREAM_FROM = 128  /* shortest pass, in tokens, that copies experts */
};

/* A weight on a device in one or more layouts (copy.c). Once listed, only its user count and the
 * list change, under the weight's lock. */
struct weight_copy {
    struct weight_copy *next;
    int device, n_users;
    bool listed; /* visible to other sessions */
    struct cu_buf *buf;
    struct cu_weight w; /* matrix; data or packed NULL: not in that layout */
    const float *vec;   /* f32 values, or NULL */
};
struct cuda_weight {
    struct cu_weight w;       /* matrices */
    const float *vec;         /* vectors: f32 */
    struct weight_mem *mem;   /* referenced: source of w and vec; NULL: not made yet */
    struct weight_copy *copy; /* referenced: memory of w and vec; NULL: tied weight, or unused */
    bool is_matrix, is_vec;   /* uses: matrix, f32 values */
    bool is_product;          /* matrix of fast products, needs the packed layout */
    bool is_read;             /* matrix of other kernels, needs the file's layout */
    bool is_host;             /* experts computed by the CPU: not on the device */
};
struct cuda_rope {
    double *freq, m;
    float *cs;
    struct cu_buf *buf;
};
/* Copies of experts from main memory to the device, for passes of many tokens (stream.c). */
/* One of two lanes used in turn: the host copies a chunk to `pinned`, the device copies it to `raw`
 * and packs it. */
struct cuda_lane {
    struct cu_stream *q;
    struct cu_event *copied; /* `pinned` may be refilled */
    struct cu_event *done;   /* all chunks of the lane are on the device */
    void *pinned, *raw;      /* cuda_arrivals.piece bytes each */
};
struct cuda_slot { /* gate, up or down matrices of the current block */
    uint8_t *at;
    uint64_t n_bytes;
    struct cu_event *read; /* event of the last product that reads them */
};
struct cuda_arrivals {
    int64_t from;        /* shortest pass, in tokens, that copies experts; 0: none */
    uint64_t piece, raw; /* bytes per lane: pinned main memory; device memory for packing */
    struct cu_buf *buf;  /* slots and raw chunks */
    struct cuda_lane lane[2];
    struct cuda_slot slot[3];
    unsigned turn;
};

/* State shared by all parts of a session: session->dev. */
struct cuda_set {
    struct cuda *part[CACHE_PLACES]; /* [n] parts that have layers, indexed by cache place */
    int n, head;                     /* head: the part with the final norm and the head */
    int first_layer, n_layers;       /* layers of the graph (graph_layers) */
    int *layer_of;                   /* [nodes], from 0 */
    uint8_t *part_of;                /* [n_layers] */
    bool *on_host;                   /* [nodes]: experts that stay in main memory */
    int n_on_host;                   /* number of these nodes */
    int n_placed;   /* nodes whose experts --place put there or no device supports */
    bool host_open; /* the CPU's packed rows and buffers are allocated */

    /* Captured pieces of one token and its logits: one for each run of STEP_RUN on one part. The
     * steps in between, copies and CPU nodes, are queued each time. */
    struct cu_graph **step; /* [n_steps], owned */
    int n_steps;
    bool recording;         /* a token is being recorded */
    struct cuda *capturing; /* part whose piece is being captured, or NULL */
    bool recorded,
        warm; /* all pieces have been captured; a token has run since the weights last changed */
    struct err lost; /* error of a call that cannot return one; the next pass reports it */
};

struct cuda { /* one part of a session */
    struct session *s;
    struct cuda_set *all;
    int place;       /* index in all->part and in the cache */
    uint64_t most;   /* limit in bytes, --max-vram; 0: all free memory */
    uint64_t others; /* bytes of `most` used by, or reserved for, sessions that share the weights */
    bool begun;      /* the pass's rope angles are computed */
    struct cu_ctx *ctx;
    struct cu_stream *q;
    struct cu_info info;
    struct cuda_weight *w; /* [n_weights] */
    struct cuda_rope rope[ROPE_TABS];
    struct cu_buf *reg_buf, *work, *stage;
    float **reg; /* [n_regs] -> [n_ubatch][width] */
    /* 8-bit copies of the registers for products of at most CU_FEW tokens, [n_regs], owned; NULL if
     * the width does not allow one. q8_at: the turn in which a copy was made; 0: stale. */
    void **q8, *hidden_q;
    int64_t *q8_at, turn;
    unsigned fuse; /* enabled fusions, enum cuda_fuse */
    /* Stored in `work`: */
    uint8_t *rows;      /* row data of the pass: the next five fields, contiguous */
    struct cu_seg *seg; /* [n_segs], short segments first */
    int32_t *pos, *of;  /* [n_tok] position, segment */
    int32_t *ids;       /* [n_tok] */
    int32_t *turn_pos;  /* [n_tok][3] rotary positions by section */
    int32_t *expert, *arrived;
    float *router, *p, *hidden; /* [n_ubatch][experts], [n_ubatch][used]; [pairs][expert width] */
    float *hidden_up;           /* like hidden, for experts with biases or a clamped activation */
    float *part;                /* partial sums of attention */
    float *head_x, *logits;     /* [HEAD_ROWS][n_embd], [HEAD_ROWS][n_vocab] */
    int32_t *target;            /* [HEAD_ROWS] */
    struct cu_score_row *score; /* [HEAD_ROWS] */
    struct cu_best *best;       /* [HEAD_ROWS] */
    void *best_work;            /* for BEST_ROWS rows */
    int64_t n_splits;
    uint8_t *host_rows;        /* pinned copy of `rows`, segments first */
    float *host_logits;        /* pinned, one token */
    struct cu_best *host_best; /* pinned: [HEAD_ROWS] */

    struct cuda_arrivals in;
    struct cuda_feed feed;  /* used during weight upload */
    bool filled;            /* the weights are there; later uploads replace some */
    bool fed_plainly;       /* pinned memory was not available */
    struct cuda_sums *sums; /* calibration sums (sums.c), or NULL */
    bool exact;             /* f32 activations */
};
static inline struct cuda_set *exec_cuda_all(const struct session *s) {
    return s->dev;
}
/* Returns the part with the final norm and the head. */
static inline struct cuda *exec_cuda_head(const struct session *s) {
    const struct cuda_set *all = s->dev;
    return all->part[all->head];
}
/* Returns whether part d computes this node. */
bool exec_cuda_here(const struct cuda *d, int node);
static inline int exec_cuda_part_of(const struct cuda_set *all, int node) {
    return all->part_of[all->layer_of[node]];
}

/* Fusions selected by --device cuda/MASK (docs/design/cuda.md); without a mask, all of them. */
enum cuda_fuse {
    CUDA_FUSE_SHARE = 1, /* one quantized copy of a register for all products */
    CUDA_FUSE_QUANT = 2, /* the kernel that writes a register also writes its copy */
    CUDA_FUSE_MANY =
        4, /* one launch for matrices with the same input, and for shared plus routed experts */
    /* For many tokens with 8-bit activations. Results are rounded differently from those of the
     * kernels they replace. */
    CUDA_CHUNKS = 32,   /* delta rule in chunks of 64 tokens */
    CUDA_MMA_ATTN = 64, /* attention on tensor cores */
    CUDA_EARLY = 128,   /* a token's kernels start while the previous one ends */
    CUDA_WGMMA = 256,   /* products for many tokens use Hopper's wgmma; also rounded differently */
    CUDA_MMA_FEW = 512, /* attention for few tokens on tensor cores; also rounded differently */
    CUDA_DEFAULT = 7 + 32 + 64 + 128 + 256 + 512,
};

/* ---- memory (plan.c) ---- */

struct cuda_plan { /* bytes */
    uint64_t weights, regs, kv, rec, work, stage, stream, scratch;
    uint64_t others;   /* reserved for sessions that will share the weights */
    uint64_t needed;   /* total */
    uint64_t rounding; /* extra bytes, because the device allocates in large pieces */
};
/* Decides the device of each layer and of its experts and the length of passes (fit.h), and lays
 * out the session accordingly. p: device memory of each part. Closes parts without layers. ERR_SYS,
 * with the numbers: the model does not fit. ERR_USAGE: what --place requests is impossible. */
int exec_cuda_settle(struct session *s, struct cuda_plan p[CACHE_PLACES], struct err *e);
/* Computes the device memory that part d needs. */
void exec_cuda_plan(struct cuda *d, struct cuda_plan *p);
/* Sets the part's pointers into two buffers of p->regs and p->work bytes. */
void exec_cuda_lay_out(struct cuda *d, void *regs, void *work);

/* ---- rows of a pass, memory of sequences (rows.c) ---- */

/* Returns the size of the description of n rows of n sequences. */
uint64_t exec_cuda_rows_bytes(int64_t n);
/* Makes new sequences keep their cache and states on the device. */
void exec_cuda_own_cache(struct session *s);
/* Frees the part and everything that it has on its device. */
void exec_cuda_close_part(struct cuda *d);
/* Grows the sequences' pages for the rows of the pass and uploads their description and changed
 * page tables. */
int exec_cuda_rows(struct session *s, struct err *e);
/* Returns the device's view of segment i of the pass, in host memory. */
const struct cu_seg *exec_cuda_seg(const struct cuda *d, int i);
/* Returns the next segments, starting at *first, that have at most `most` rows each, and advances
 * *first past them. The longest of them, times their number, has at most `room` rows. n_segs is 0
 * if no segment is left. */
struct cu_rows_of exec_cuda_next(const struct cuda *d, int *first, int64_t most, int64_t room);

/* ---- pages and states for files (seq.c): struct backend ---- */

/* Copies a page of slot's keys and values from the device into the CPU's layout, or back. */
int exec_cuda_get_page(const struct session *s, int slot, const struct page *page, uint8_t *to,
                       struct err *e);
/* Uploads a page given in the host's layout. */
int exec_cuda_put_page(const struct session *s, int slot, const struct page *page,
                       const uint8_t *from, struct err *e);
/* Copies a sequence's recurrent states from the device into the CPU's layout, or back. */
int exec_cuda_get_states(const struct session *s, const struct seq *q, float *to, struct err *e);
/* Uploads the recurrent states of q, given in the host's layout. */
int exec_cuda_put_states(const struct session *s, const struct seq *q, float *from, struct err *e);

/* ---- weights (weights.c) ---- */

struct cuda_forms {
    uint64_t plain, packed; /* bytes in the file's layout, for exact products; bytes packed */
};
/* Returns the layouts of a weight that part d needs. */
struct cuda_forms exec_cuda_forms(const struct cuda *d, int w);
struct cu_weight exec_cuda_shape(const struct weight *w); /* without data */
/* Determines how part d uses each weight. Routers are always exact; a gated unit of two types has
 * no packed layout (cu_glu). */
void exec_cuda_find_uses(struct cuda *d);
/* Chooses the experts that stay in main memory: those that --place puts there, those that the
 * device does not support, and those of the last n blocks unless --place puts them on the
 * device. */
void exec_cuda_leave_on_host(struct session *s, int n);
/* Returns how many bytes weight i still needs on the device; 0 if a copy is already there. */
uint64_t exec_cuda_upload_bytes(const struct cuda *d, int w);
uint64_t exec_cuda_stage_bytes(const struct cuda *d); /* used while weights are packed */
/* Uploads all weights if `first`, otherwise those that session_use replaced since the last pass.
 * Drops captured steps, because they point at the old weights. */
int exec_cuda_refresh(struct session *s, bool first, struct err *e);

/* Frees device copies of weights that s->m no longer has; exec_cuda_forget_all frees all device
 * copies. */
void exec_cuda_forget(struct session *s);
void exec_cuda_forget_all(struct cuda *d);

/* ---- copies of weights (copy.c) ---- */

/* Returns whether another session has a copy of weight w that this one can use. */
bool exec_cuda_copy_there(const struct cuda *d, int w);
/* Returns another session's copy of weight w, with one more user; NULL: none. */
struct weight_copy *exec_cuda_copy_take(const struct cuda *d, int w);
/* Allocates n_bytes for a new copy of weight w, not yet visible to other sessions. */
int exec_cuda_copy_new(struct weight_copy **out, const struct cuda *d, int w, uint64_t n_bytes,
                       struct err *e);
/* Makes the copy visible to other sessions. Does nothing for NULL or a listed copy. */
void exec_cuda_copy_list(struct weight_mem *mem, struct weight_copy *c);
/* Removes one user from the copy and frees its memory with the last one. Does nothing for NULL. */
void exec_cuda_copy_drop(struct weight_mem *mem, struct weight_copy *c);
/* Returns how many bytes to keep free for replaced weights: the size of the largest weight, or of
 * both matrices of a gated unit, in a type with at most 8.5 bits per weight. */
uint64_t exec_cuda_replaced_bytes(const struct session *s);

/* ---- experts that stay in main memory (stream.c) ---- */

/* Returns the device memory, in bytes, that is needed to copy experts from main memory; sets the
 * sizes in d->in. */
uint64_t exec_cuda_stream_plan(struct cuda *d);
/* Allocates the lanes that copy experts to the device; nothing if none are streamed. */
int exec_cuda_stream_open(struct cuda *d, struct err *e);
void exec_cuda_stream_close(struct cuda *d);
/* Returns whether the experts of node n are in main memory and this pass is long enough to copy
 * them. */
bool exec_cuda_can_bring(const struct session *s, const struct gr_node *n);
/* Runs STEP_BRING: queues the copy of a matrix into the slot of its role and makes the device wait
 * for it. */
int exec_cuda_bring(struct cuda *d, const struct step *p, struct err *e);
/* Records that step p is queued: the matrices it reads may be overwritten once it has run. */
int exec_cuda_brought(struct cuda *d, const struct step *p, struct err *e);

/* ---- nodes ---- */

/* Returns whether the pass has few tokens, 8-bit activations and no observer of registers.
 * Otherwise the functions below have no effect. */
bool exec_cuda_few(const struct cuda *d);
/* Returns whether this pass has few rows and the fusion `what` (CUDA_...) is enabled. */
bool exec_cuda_fuses(const struct cuda *d, unsigned what);
/* Returns the device memory for the 8-bit copy that the kernel which writes register r should also
 * write; NULL: nothing reads a copy. */
void *exec_cuda_copy_of(struct cuda *d, gr_reg r);
/* Sets *q to the 8-bit copy of register r; creates it if no kernel has written one. */
int exec_cuda_quantized(struct cuda *d, gr_reg r, const void **q, struct err *e);
/* Records that node n is queued: 8-bit copies of the registers it writes become stale unless n also
 * wrote them. */
void exec_cuda_written(struct cuda *d, const struct gr_node *n);
/* Returns whether cu_products can compute the product n. */
bool exec_cuda_is_fast(const struct cuda *d, const struct gr_node *n);
/* Queues n_nodes products, several at a time where possible. */
int exec_cuda_fast_products(struct cuda *d, const struct gr_node *const *n, int n_nodes,
                            struct err *e);
/* Returns whether the gate, up and activation nodes that start at n form one part of cu_products;
 * exec_cuda_fast_glu queues them. */
bool exec_cuda_is_fast_glu(const struct cuda *d, const struct gr_node *n);
int exec_cuda_fast_glu(struct cuda *d, const struct gr_node *n, struct err *e);
/* Queues a fusion. Each row of runtime/engine/fusions.def has an exec_cuda_fuse_<name>. */
#define FUSION(id, name, what, classes, parts)                                                     \
    int exec_cuda_fuse_##name(struct cuda *d, const struct match *m, struct err *e);
#include "runtime/engine/fusions.def"
#undef FUSION
/* Queues the logits of x and sets *done if x is register r of a single token. */
int exec_cuda_fast_head(struct cuda *d, gr_reg r, const float *x, bool *done, struct err *e);

/* Queues the logits of n <= HEAD_ROWS rows at x in device memory; they go to d->logits. */
int exec_cuda_head_rows(struct cuda *d, const float *x, int64_t n, struct err *e);
/* Compute outputs and scores for struct backend (score.c). */
int exec_cuda_outputs(struct session *s, const struct head_row *row, int64_t n, struct err *e);
/* Scores n rows against target ids and, unless base is NULL, its logits; out NULL: only computes
 * logits. */
int exec_cuda_score(struct session *s, struct session *base, int64_t first, int64_t n,
                    const int32_t *target, struct session_score *out, struct err *e);
/* Returns whether both sessions run on the same device with vocabularies of the same size. */
bool exec_cuda_shares(const struct session *s, const struct session *base);
/* Queues the search for the largest logits of rows [i, i + n) of d->logits. After a sync,
 * exec_cuda_take_best copies one row's result to *to. */
int exec_cuda_find_best(struct cuda *d, int64_t i, int64_t n, struct err *e);
/* Returns the functions that sum on the device; NULL if this session does not support that. */
int exec_cuda_take_best(struct cuda *d, int64_t i, struct session_best *to, struct err *e);

/* ---- sums for calibration (sums.c): struct backend ---- */

/* Returns the functions that sum on the device; NULL: this session cannot. */
const struct session_sums *exec_cuda_sums(const struct session *s);
void exec_cuda_sum_free(struct cuda *d); /* accepts a part without sums */
/* Adds rows in device memory, which enter weight w, to the sums of w. */
int exec_cuda_sum(struct cuda *d, gr_w w, const float *x, int64_t n_rows, int64_t ld,
                  struct err *e);
/* Adds rows to the sums of experts; d->expert holds n_used expert ids for each row of the pass.
 * Pair i reads row i / per_row. */
int exec_cuda_sum_pairs(struct cuda *d, gr_w w, const float *x, int64_t n_used, int64_t n_experts,
                        int64_t per_row, int64_t ld, struct err *e);

/* Returns the program of the current pass, starting at node `first`. */
const struct program *exec_cuda_program(struct session *s, int first);
/* Runs a pass: queues every node of the graph. */
int exec_cuda_nodes(struct session *s, struct err *e);
/* Returns whether a gated unit with these weights can be one part of a launch. up GR_NONE: gate and
 * up are one tensor. */
bool exec_cuda_glu_packs(const struct session *s, gr_w gate, gr_w up);
int exec_cuda_moe(struct cuda *d, const struct gr_node *n, struct err *e);
/* Queues one part of an expert layer: choosing, expanding or contracting. */
int exec_cuda_moe_part(struct cuda *d, const struct gr_node *n, enum step_part part, struct err *e);
/* Returns whether one kernel computes gate, up and activation of these experts. */
bool exec_cuda_glu_is_whole(const struct gr_moe *m);
/* Return whether a device supports these experts, and this node. */
bool exec_cuda_has_experts(const struct gr_moe *m);
/* Returns whether CUDA has kernels for node n. */
bool exec_cuda_has(const struct gr_node *n);
/* Returns ERR_USAGE, with the reason, unless CUDA supports the session's cache, context, weights
 * and the sizes of all its nodes (check.c). */
int exec_cuda_check(const struct session *s, struct err *e);
/* Sets ERR_USAGE: no device supports node n. */
int exec_cuda_refuse(struct cuda *d, const struct gr_node *n, struct err *e);
/* Copies the rows of the pass's images to the residual, after EMBED (images.c). */
int exec_cuda_embed_images(struct cuda *d, const struct gr_node *n, struct err *e);
/* Adds the images' rows for a block to the residual (session_image.deep). */
int exec_cuda_add_deep(struct cuda *d, int block, struct err *e);
/* Runs a step other than STEP_RUN (host.c). */
int exec_cuda_copy_step(struct cuda *d, const struct step *p, struct err *e);
/* Starts a piece that records launches: at the start of a pass and after a host step. */
int exec_cuda_begin(struct cuda *d, struct err *e);
/* Ends and runs the piece being captured, if any. */
int exec_cuda_end_piece(struct cuda_set *all, struct err *e);
/* Frees the captured pieces, which point at replaced weights. */
void exec_cuda_drop_step(struct cuda_set *all);
/* Prepares the CPU to compute experts: packs their weights and allocates buffers. Does nothing if
 * that has already been done. */
int exec_cuda_open_host(struct session *s, struct err *e);
/* Copies n floats from device memory to *out for an observer, which frees them with mem_free. */
int exec_cuda_fetch(struct cuda *d, const float *src, int64_t n, float **out, struct err *e);
/* Passes the rows of a register to session->see, if set. */
int exec_cuda_show(struct cuda *d, gr_w w, const float *src, int64_t n_rows, int64_t ld,
                   struct err *e);

#endif
