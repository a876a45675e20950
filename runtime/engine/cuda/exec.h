// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/exec.h - what the files of the CUDA backend share. Internal to runtime/.
 *
 * Everything a pass needs lies on the device from session_new on: weights as the file has them,
 * vectors (norms, biases, convolutions) as f32, registers, pages and states of sequences, and what
 * describes the rows of a pass: kernels read positions, page tables and where states lie from
 * device memory, so that a captured step serves every sequence at every position.
 *
 * Layers may be split over several devices. A session has a part (struct cuda) for each, with what
 * its layers need. Functions that work on one device take its part; those that take the session
 * concern all of them. */
#ifndef HONE_RUNTIME_ENGINE_CUDA_EXEC_H
#define HONE_RUNTIME_ENGINE_CUDA_EXEC_H

#include "kernels/cuda/cuda.h"
#include "runtime/engine/cuda/feed.h"
#include "runtime/engine/placement.h"
#include "runtime/engine/exec.h"

enum {
    HEAD_ROWS = 64, /* rows of the head computed together */
    BEST_ROWS = 16, /* of which the best logits are found together */
    CUDA_ALIGN = 256,
    CUDA_ARRIVED = 1024,   /* counters of blocks that are done */
    CUDA_STREAM_FROM = 128 /* tokens of a pass that is worth copying experts */
};

/* A weight on a device, in the orders in which sessions want it (copy.c). While it is
 * listed only the count of users and the list change, under the weight's lock. */
struct weight_copy {
    struct weight_copy *next;
    int device, n_users;
    bool listed; /* others may find it */
    struct cu_buf *buf;
    struct cu_weight w; /* as a matrix; data, packed NULL: not in that order */
    const float *vec;   /* as f32 values, or NULL */
};
struct cuda_weight {
    struct cu_weight w;       /* matrices */
    const float *vec;         /* vectors: f32 */
    struct weight_mem *mem;   /* held: what w and vec were made of; NULL: nothing was made yet */
    struct weight_copy *copy; /* held: where they lie; NULL: another weight's (tied), or not used */
    bool is_matrix, is_vec;   /* how it is used: as a matrix, as f32 values */
    bool is_product;          /* a matrix that fast products use, which want it packed */
    bool is_read;             /* a matrix that other kernels read, in the order of the file */
    bool is_host;             /* experts that the CPU computes: not on the device */
};
struct cuda_rope {
    double *freq, m;
    float *cs;
    struct cu_buf *buf;
};
/* Experts in main memory on their way to the device, for passes of many tokens
 * (stream.c). */
/* One of two lanes, which take turns piece by piece: the host copies a piece to `pinned`, the
 * device copies it to `raw` and packs it. */
struct cuda_lane {
    struct cu_stream *q;
    struct cu_event *copied; /* `pinned` may be filled again */
    struct cu_event *done;   /* all pieces of the lane are on the device */
    void *pinned, *raw;      /* cuda_arrivals.piece bytes each */
};
struct cuda_slot { /* the gate, up or down matrices that a block computes with */
    uint8_t *at;
    uint64_t n_bytes;
    struct cu_event *read; /* the last product that reads them */
};
struct cuda_arrivals {
    int64_t from;        /* passes of so many tokens; 0: none */
    uint64_t piece, raw; /* bytes of a lane in main memory and, to be packed, on the device */
    struct cu_buf *buf;  /* slots and raw pieces */
    struct cuda_lane lane[2];
    struct cuda_slot slot[3];
    unsigned turn;
};

/* What all parts of a session have together: session->dev. */
struct cuda_set {
    struct cuda
        *part[CACHE_PLACES];   /* [n] those that have layers: a part is a place of the cache */
    int n, head;               /* the part with the final norm and the head */
    int first_layer, n_layers; /* of the graph (graph_layers) */
    int *layer_of;             /* [nodes], from 0 */
    uint8_t *part_of;          /* [n_layers] */
    bool *on_host;             /* [nodes]: experts that stay in main memory */
    int n_on_host;             /* such nodes */
    int n_placed;   /* of them those that --place leaves there, or that a device does not compute */
    bool host_open; /* the CPU's packed rows and buffers are there */

    /* The captured pieces of one token and its logits, [n_steps], owned: one for each run of
     * STEP_RUN of one part. What is between them, copies and the CPU's nodes, is done anew every
     * time. */
    struct cu_graph **step; /* [n_steps], owned */
    int n_steps;
    bool recording;         /* a token is */
    struct cuda *capturing; /* whose piece is under way, or NULL */
    bool recorded, warm;    /* all pieces are there; a token has run since weights last changed */
    struct err lost;        /* of a call that could not report: the next pass does */
};

struct cuda { /* one of the parts */
    struct session *s;
    struct cuda_set *all;
    int place;       /* in all->part, and in the cache */
    uint64_t most;   /* bytes that it may take, --max-vram; 0: what is free */
    uint64_t others; /* bytes of `most` that sessions sharing the weights have, or will */
    bool begun;      /* in this pass: angles of rope are there */
    struct cu_ctx *ctx;
    struct cu_stream *q;
    struct cu_info info;
    struct cuda_weight *w; /* [n_weights] */
    struct cuda_rope rope[ROPE_TABS];
    struct cu_buf *reg_buf, *work, *stage;
    float **reg; /* [n_regs] -> [n_ubatch][width] */
    /* The registers' copies in 8 bits for products of at most CU_FEW tokens, [n_regs], owned;
     * NULL where the width does not allow it. q8_at is the turn in which a copy was made; 0: it
     * is stale. */
    void **q8, *hidden_q;
    int64_t *q8_at, turn;
    unsigned fuse; /* enum cuda_fuse: what is on */
    /* These lie in `work`. */
    uint8_t *rows;      /* of the pass: holds the next four, one after the other */
    struct cu_seg *seg; /* [n_segs], short ones first */
    int32_t *pos, *of;  /* [n_tok] position, segment */
    int32_t *ids;       /* [n_tok] */
    int32_t *expert, *arrived;
    float *router, *p, *hidden; /* [n_ubatch][experts], [n_ubatch][used]; [pairs][expert width] */
    float *hidden_up;           /* as hidden, of experts with biases or a clamped activation */
    float *part;                /* partial sums of attention */
    float *head_x, *logits;     /* [HEAD_ROWS][n_embd], [HEAD_ROWS][n_vocab] */
    int32_t *target;            /* [HEAD_ROWS] */
    struct cu_score_row *score; /* [HEAD_ROWS] */
    struct cu_best *best;       /* [HEAD_ROWS] */
    void *best_work;            /* of BEST_ROWS rows */
    int64_t n_splits;
    uint8_t *host_rows;        /* pinned: the same as `rows`, segments first */
    float *host_logits;        /* pinned: of one token */
    struct cu_best *host_best; /* pinned: [HEAD_ROWS] */

    struct cuda_arrivals in;
    struct cuda_feed feed;  /* while weights go up */
    bool fed_plainly;       /* The system refused pinned memory. */
    struct cuda_sums *sums; /* NULL, or what passes add to (sums.c) */
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
/* Tells whether part d computes this node. */
bool exec_cuda_here(const struct cuda *d, int node);
static inline int exec_cuda_part_of(const struct cuda_set *all, int node) {
    return all->part_of[all->layer_of[node]];
}

/* What may be one launch, --device cuda/MASK (docs/design/cuda.md); all of it without a mask. */
enum cuda_fuse {
    CUDA_FUSE_SHARE = 1, /* one quantized copy of a register serves all products */
    CUDA_FUSE_QUANT = 2, /* made by the kernel that makes the register */
    CUDA_FUSE_MANY = 4,  /* matrices with the same input, shared and routed experts */
    /* These are for many tokens with 8-bit activations. They round otherwise than what they
     * replace. */
    CUDA_CHUNKS = 32,   /* the delta rule 64 tokens at a time */
    CUDA_MMA_ATTN = 64, /* attention on tensor cores */
    CUDA_EARLY = 128,   /* kernels of a token begin while the one before ends */
    CUDA_WGMMA = 256,   /* as 32 and 64: products of many tokens by Hopper's instructions */
    CUDA_MMA_FEW = 512, /* attention of few tokens on tensor cores; rounds otherwise, too */
    CUDA_DEFAULT = 7 + 32 + 64 + 128 + 256 + 512,
};

/* ---- memory (plan.c) ---- */

struct cuda_plan { /* bytes */
    uint64_t weights, regs, kv, rec, work, stage, stream, scratch;
    uint64_t others;   /* of sessions that will share the weights */
    uint64_t needed;   /* all of these */
    uint64_t rounding; /* what the device takes more, as it gives memory away in large pieces */
};
/* Decides where each layer and its experts go and how long passes are (fit.h), and lays the session
 * out so; p: what each part takes of its device. ERR_SYS, with the numbers, when the rest does not
 * fit either; ERR_USAGE: --place asks for what cannot be. Parts without layers are closed. */
int exec_cuda_settle(struct session *s, struct cuda_plan p[CACHE_PLACES],
                     struct err *e); /* split.c */
/* Computes what part d takes of its device. */
void exec_cuda_plan(struct cuda *d, struct cuda_plan *p);
/* Pointers into two buffers of p->regs and p->work bytes. */
void exec_cuda_lay_out(struct cuda *d, void *regs, void *work);

/* ---- rows of a pass, memory of sequences (rows.c) ---- */

/* Returns the bytes that describe n rows of as many sequences. */
uint64_t exec_cuda_rows_bytes(int64_t n);
/* Makes sequences keep what they know on the device from here on. */
void exec_cuda_own_cache(struct session *s);
void exec_cuda_close_part(struct cuda *d); /* backend.c */
/* Makes room for the rows of the pass and uploads what describes them, page tables too where they
 * changed. */
int exec_cuda_rows(struct session *s, struct err *e);
/* Returns segment i of the pass as the device has it, in host memory. */
const struct cu_seg *exec_cuda_seg(const struct cuda *d, int i);
/* Returns the next segments from *first on that have at most `most` rows: as many as would have
 * no more than `room` rows if all were as long as the longest of them. *first moves behind them.
 * n_segs is 0 when there is none. */
struct cu_rows_of exec_cuda_next(const struct cuda *d, int *first, int64_t most, int64_t room);

/* ---- pages and states for files (seq.c): struct backend ---- */

int exec_cuda_get_page(const struct session *s, int slot, const struct page *page, uint8_t *to,
                       struct err *e);
int exec_cuda_put_page(const struct session *s, int slot, const struct page *page,
                       const uint8_t *from, struct err *e);
int exec_cuda_get_states(const struct session *s, const struct seq *q, float *to, struct err *e);
int exec_cuda_put_states(const struct session *s, const struct seq *q, float *from, struct err *e);

/* ---- weights (weights.c) ---- */

struct cuda_forms {
    uint64_t plain, packed; /* bytes in the file's order, for exact products; in packed order */
};
/* Returns the forms in which a weight is wanted on part d. */
struct cuda_forms exec_cuda_forms(const struct cuda *d, int w);
struct cu_weight exec_cuda_shape(const struct weight *w); /* without data */
/* Finds out what part d uses each weight as. Routers are always exact; a gated unit of
 * two types has no packed form (cu_glu). */
void exec_cuda_find_uses(struct cuda *d);
/* Chooses the experts that stay in main memory: those that --place says, those that the device
 * cannot compute, and of all others, but those that --place wants on the device, the ones of the
 * last n blocks. */
void exec_cuda_leave_on_host(struct session *s, int n);
uint64_t exec_cuda_upload_bytes(const struct cuda *d, int w);
uint64_t exec_cuda_stage_bytes(const struct cuda *d); /* while weights are packed */
/* Uploads all weights, or those that session_use replaced since the last pass; what was captured
 * points at the old ones. */
int exec_cuda_refresh(struct session *s, bool first, struct err *e);

/* Frees what was made of weights that s->m no longer has; exec_cuda_forget_all, of all weights. */
void exec_cuda_forget(struct session *s);
void exec_cuda_forget_all(struct cuda *d);

/* ---- copies of weights (copy.c) ---- */

/* Returns true when another session made a copy of weight w that s can use. */
bool exec_cuda_copy_there(const struct cuda *d, int w);
/* Returns that copy and counts s as one of its users; NULL when there is none. */
struct weight_copy *exec_cuda_copy_take(const struct cuda *d, int w);
/* Allocates n_bytes for a new copy of weight w, which other sessions do not see yet. */
int exec_cuda_copy_new(struct weight_copy **out, const struct cuda *d, int w, uint64_t n_bytes,
                       struct err *e);
/* Lets other sessions find the copy from now on. Nothing is done for NULL, or when they do already.
 */
void exec_cuda_copy_list(struct weight_mem *mem, struct weight_copy *c);
/* Takes one user from the copy; its memory is freed with the last one. Nothing is done for NULL. */
void exec_cuda_copy_drop(struct weight_mem *mem, struct weight_copy *c);
/* Returns the bytes to keep free for weights that are replaced later: those of the largest weight,
 * or of the two matrices of a gated unit, in a type of at most 8.5 bits per weight. */
uint64_t exec_cuda_replaced_bytes(const struct session *s);

/* ---- experts that stay in main memory (stream.c) ---- */

/* Returns the device bytes that bringing experts from main memory takes; sets sizes in d->in. */
uint64_t exec_cuda_stream_plan(struct cuda *d);
int exec_cuda_stream_open(struct cuda *d, struct err *e);
void exec_cuda_stream_close(struct cuda *d);
/* Returns true when the experts of node n are in main memory and this pass has tokens enough to
 * bring them. */
bool exec_cuda_can_bring(const struct session *s, const struct gr_node *n);
/* Runs STEP_BRING: queues a matrix to arrive in the slot of its role, and lets the device wait. */
int exec_cuda_bring(struct cuda *d, const struct step *p, struct err *e);
/* Notes that the step p was queued: the matrices that it reads may be overwritten behind it. */
int exec_cuda_brought(struct cuda *d, const struct step *p, struct err *e);

/* ---- nodes ---- */

/* Returns true when the pass has few tokens, 8-bit activations and nobody who observes registers:
 * only then the functions below have work. */
bool exec_cuda_few(const struct cuda *d);
bool exec_cuda_fuses(const struct cuda *d, unsigned what);
/* Returns the device memory into which the kernel that writes register r shall also write its
 * values in 8 bits; NULL when nothing reads them so. */
void *exec_cuda_copy_of(struct cuda *d, gr_reg r);
/* Sets *q to the values of register r in 8 bits; they are made now if no kernel has. */
int exec_cuda_quantized(struct cuda *d, gr_reg r, const void **q, struct err *e);
/* Notes that node n was queued: 8-bit copies of the registers that it writes are stale, unless n
 * made them itself. */
void exec_cuda_written(struct cuda *d, const struct gr_node *n);
/* Returns true when cu_products can compute the product n. */
bool exec_cuda_is_fast(const struct cuda *d, const struct gr_node *n);
int exec_cuda_fast_products(struct cuda *d, const struct gr_node *const *n, int n_nodes,
                            struct err *e);
/* Returns true when the gate, up and activation that begin at node n are one part of cu_products;
 * exec_cuda_fast_glu queues them. */
bool exec_cuda_is_fast_glu(const struct cuda *d, const struct gr_node *n);
int exec_cuda_fast_glu(struct cuda *d, const struct gr_node *n, struct err *e);
/* Queues a fusion. Every row of runtime/engine/fusions.def has an exec_cuda_fuse_<name>. */
#define FUSION(id, name, what, classes, parts)                                                     \
    int exec_cuda_fuse_##name(struct cuda *d, const struct match *m, struct err *e);
#include "runtime/engine/fusions.def"
#undef FUSION
/* Queues the logits of row x and sets *done, if x is register r of a single token. */
int exec_cuda_fast_head(struct cuda *d, gr_reg r, const float *x, bool *done, struct err *e);

/* Queues the logits of n <= HEAD_ROWS rows at x in device memory, which go to d->logits. */
int exec_cuda_head_rows(struct cuda *d, const float *x, int64_t n, struct err *e);
/* Does what struct backend says of `outputs`, `score` (score.c). */
int exec_cuda_outputs(struct session *s, const struct head_row *row, int64_t n, struct err *e);
int exec_cuda_score(struct session *s, struct session *base, int64_t first, int64_t n,
                    const int32_t *target, struct session_score *out, struct err *e);
bool exec_cuda_shares(const struct session *s, const struct session *base);
/* Queues the search for the largest logits of rows [i, i + n) of d->logits; exec_cuda_take_best,
 * after a sync, brings those of a row into *to. */
int exec_cuda_find_best(struct cuda *d, int64_t i, int64_t n, struct err *e);
int exec_cuda_take_best(struct cuda *d, int64_t i, struct session_best *to, struct err *e);

/* ---- sums for calibration (sums.c): struct backend ---- */

const struct session_sums *exec_cuda_sums(const struct session *s);
void exec_cuda_sum_free(struct cuda *d); /* also of none */
/* Adds rows of device memory, which enter weight w, to its sums. */
int exec_cuda_sum(struct cuda *d, gr_w w, const float *x, int64_t n_rows, int64_t ld,
                  struct err *e);
/* Adds rows to the sums of experts; d->expert names n_used of these for each row of the pass.
 * Pair i reads row i / per_row. */
int exec_cuda_sum_pairs(struct cuda *d, gr_w w, const float *x, int64_t n_used, int64_t n_experts,
                        int64_t per_row, int64_t ld, struct err *e);

/* Returns the program of the pass under way, from node `first` on. */
const struct program *exec_cuda_program(struct session *s, int first);
/* Queues every node of the graph: one pass. */
int exec_cuda_nodes(struct session *s, struct err *e);
/* Tells whether a gated unit with these weights is one part of a launch. `up` is GR_NONE where
 * it is in one tensor with the gate. */
bool exec_cuda_glu_packs(const struct session *s, gr_w gate, gr_w up);
int exec_cuda_moe(struct cuda *d, const struct gr_node *n, struct err *e);
int exec_cuda_moe_part(struct cuda *d, const struct gr_node *n, enum step_part part, struct err *e);
/* Returns true when gate, up and activation of such experts are one kernel. */
bool exec_cuda_glu_is_whole(const struct gr_moe *m);
/* Tell whether a device computes such experts, and such a node. */
bool exec_cuda_has_experts(const struct gr_moe *m);
bool exec_cuda_has(const struct gr_node *n);
/* Sets ERR_USAGE: no device computes the node n. */
int exec_cuda_refuse(struct cuda *d, const struct gr_node *n, struct err *e);
/* Runs a step that is not STEP_RUN (host.c). */
int exec_cuda_copy_step(struct cuda *d, const struct step *p, struct err *e);
/* Begins a piece, in which launches are recorded: at the start of a pass, and behind a step of the
 * host. */
int exec_cuda_begin(struct cuda *d, struct err *e);
/* Ends and runs the piece that is captured, if there is one. */
int exec_cuda_end_piece(struct cuda_set *all, struct err *e);
/* Frees what was captured, since it points at weights that are no longer there. */
void exec_cuda_drop_step(struct cuda_set *all);
/* Allocates what the CPU needs to compute experts. Passes that need it call this themselves. */
int exec_cuda_open_host(struct session *s, struct err *e);
/* Copies n floats of device memory to *out for an observer, who frees them with free(). */
int exec_cuda_fetch(struct cuda *d, const float *src, int64_t n, float **out, struct err *e);
/* Shows the rows of a register to session->see, if there is one. */
int exec_cuda_show(struct cuda *d, gr_w w, const float *src, int64_t n_rows, int64_t ld,
                   struct err *e);

#endif
