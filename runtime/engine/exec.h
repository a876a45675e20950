// SPDX-License-Identifier: MIT
/* runtime/engine/exec.h - what the executor's files share. Internal to runtime/.
 *
 * A pass runs the nodes of the graph one after the other over n_tok rows (at most n_ubatch). A row
 * is one token of one sequence; rows of a sequence lie together in order, as a segment. Inside a
 * node work is split over the pool, and no two tasks add to the same number.
 *
 * A row's result depends on its own sequence only: not on the rows beside it, not on how its
 * sequence was cut into passes, not on the number of threads. Products are computed by functions
 * whose result for a row does not depend on the other rows; attention orders its sums by the row's
 * position. */
#ifndef HONE_RUNTIME_ENGINE_EXEC_H
#define HONE_RUNTIME_ENGINE_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "kernels/pack.h"
#include "runtime/engine/backend.h"
#include "runtime/engine/cache.h"
#include "runtime/engine/program.h"
#include "runtime/engine/session.h"
#include "runtime/engine/thread_tune.h"

enum {
    FEW_TOKENS = 16,       /* up to so many rows, reading the weights is what takes time */
    PANEL_FLOATS = 131072, /* decoded weight panel of a task: 512 KiB */
    PANEL_MAX_ROWS = 64,
    RUN_BYTES = 256 << 10, /* packed weights that a task with few tokens reads */
    RUN_MAX_ROWS = 1024,
    RUNS_PER_WORKER = 4,
    KEY_BLOCK = 256,   /* keys decoded at a time; a page of the cache holds a multiple of it */
    ATTN_ROWS = 128,   /* query rows of an attention task, or one token's heads */
    ATTN_TASKS = 64,   /* with fewer tiles the spans of a tile are tasks of their own ... */
    ATTN_PARTS = 8192, /* ... when their sums take no more rows than this */
    SPANS = 32,        /* spans of a row's keys at most */
    ROPE_TABS = 4
};

struct att_row { /* of a running softmax */
    double sum;
    float max;
};

struct att_tile { /* consecutive rows of one sequence whose keys are cut into the same spans */
    const struct seq *seq;
    int64_t r0, n, pos; /* first row of the pass, number of rows, position of the first */
    int64_t span;       /* keys of a span, a multiple of KEY_BLOCK */
    int64_t span0, n_spans;
    int64_t task0, part0; /* first task; first row of partial sums */
};
struct seg { /* the rows of one sequence in a pass */
    struct seq *seq;
    int64_t r0, n; /* rows [r0, r0 + n), the first at position seq->pos */
};

struct vec_cache { /* small weights (norms, conv, biases) as f32 */
    const void *data;
    enum qtype type;
    const float *v;
    float *own; /* when the file's type is not F32 */
};
struct moe_bufs {     /* pairs = n_ubatch * n_used */
    float *logits;    /* [n_ubatch][2][n_experts] values, and what experts are chosen by */
    float *weight;    /* [pairs] in token, slot order */
    int32_t *expert;  /* [pairs] */
    int32_t *place;   /* [pairs] row of the pair in the sorted order */
    int32_t *first;   /* [n_experts + 1] first sorted row of an expert */
    int32_t *active;  /* experts with rows */
    int32_t *token;   /* [pairs] whose row each sorted one is; made for observers */
    float *x, *h, *y; /* sorted rows: [pairs][d], [pairs][F], [pairs][d] */
};
struct rope_tab { /* cos, sin of one kind of OP_ROPE node for the tokens of a pass */
    double base;
    int64_t n_rot;
    gr_w divisors; /* GR_NONE: 1 */
    gr_w far;      /* divisors of sessions with a long context; GR_NONE: the same */
    double factor; /* angles are divided by it */
    bool yarn;
    double *freq; /* [n_rot / 2] */
    float *cs;    /* [n_ubatch][n_rot / 2][cos, sin] */
    bool ready;
};
struct act_buf { /* activations of packed products, and what they were made of */
    struct kern_act *act;
    const float *x; /* NULL: nothing */
    int64_t m, k;
    enum qtype partner;
};
enum { ACT_DENSE, ACT_DENSE2, ACT_EXPERT, ACT_EXPERT2, ACT_BUFS }; /* two of rows, two of pairs */
struct session {
    const struct backend *be;
    void *dev;                 /* the backend's own, when it is not the CPU */
    const struct model *m;     /* whose weights are computed with: `given`, or `packed` */
    const struct model *given; /* by the caller */
    struct model *packed;      /* the same with packed rows, owned; NULL: none are used */
    const struct graph *g;
    struct session_opts o;
    bool any_ubatch;       /* nobody asked for o.n_ubatch: a backend may choose another */
    int64_t wanted_ubatch; /* o.n_ubatch as it was asked for, or its default */
    struct kern kern;
    unsigned blas; /* what OpenBLAS does of its products (kernels/blas.h): a text's gradients */
    int n_workers;
    struct thread_tune tune; /* of n_workers, for few tokens */
    struct cache cache;
    struct programs programs; /* of passes of each class of batch */
    struct seq *own;          /* the sequence of calls that name none */
    /* These describe the pass that is being run. */
    const int32_t *ids;
    int64_t n_tok;
    struct seg *seg; /* [n_ubatch] */
    int n_segs;
    int64_t *row_pos; /* [n_ubatch] */
    struct seq **row_seq;
    int32_t *row_id, *row_from; /* of `row`: ids in order; the row of each one given */
    struct seq **row_fork;      /* what gets the past up to a row, or NULL */
    int n_forks;                /* 0: row_fork says nothing */
    int32_t *kept;              /* rows whose outputs are asked for, in the order of the pass */
    int64_t n_kept;             /* n_tok: all */
    int64_t n_handed;           /* rows of residuals that the next pass may begin with */
    bool goes_on;               /* rows are asked for behind the pass: those calls wait for it */
    struct head_row *head_row;  /* [n_ubatch], while outputs are handed out */
    int32_t *row_out;           /* where the outputs of a row are: the rows before it, or of */
                                /* them those that are kept, where the others were left out */
    struct session_pass now;    /* what is wanted; residual and hidden_in of this pass on */
    struct seq *mark;           /* what session_rewind goes back to, or NULL */
    /* These are for every backend: small weights as f32, and kinds of rope. */
    struct vec_cache *vec; /* [n_weights] */
    struct rope_tab rope[ROPE_TABS];
    int n_ropes;

    /* These belong to the CPU's operators. */
    float **reg; /* [n_regs] -> [n_ubatch][width] */
    float *reg_mem;
    struct moe_bufs moe;
    uint8_t *qbuf[2]; /* activation rows in a dot partner format */
    uint64_t qbuf_row;
    struct act_buf act_buf[ACT_BUFS];
    float *decay, *beta;       /* [n_ubatch][v heads] */
    struct att_tile *att_tile; /* [n_ubatch] */
    float *att_part;           /* sums of attention tasks, then of workers: rows of head_dim */
    struct att_row *att_row;
    float **scratch; /* [n_workers] */
    int64_t scratch_floats;
    uint64_t n_bytes;
    struct {
        uint64_t n_bytes;  /* without what sequences keep */
    } place[CACHE_PLACES]; /* of devices, as s->cache has them */
    struct {
        int64_t n_blocks, n_bytes, from;
    } offload;          /* as session_info has it */
    uint64_t keep_free; /* of a device's memory, beyond what is usual */

    struct session_probe probe;
};

/* The rows that enter a product: as f32; where `q` is set, also in the format of the weight's
 * dot partner; where `p` is set, for packed weights, at stride p_ld. */
struct acts {
    const float *x;
    int64_t ld, n_rows;
    const uint8_t *q;
    uint64_t q_row;
    const struct kern_act *p;
    int64_t p_ld;
};

/* Returns where to stop among a sequence's rows [r, end): behind the first whose state is wanted as
 * it is there. Whoever walks the rows stops there, and copies its part of the state to exec_fork.
 */
static inline int64_t exec_until_fork(const struct session *s, int64_t r, int64_t end) {
    if (!s->n_forks) return end;
    while (r + 1 < end && !s->row_fork[r]) r++;
    return r + 1;
}
/* Returns the sequence that gets the state behind a row, or NULL when none does. */
static inline struct seq *exec_fork(const struct session *s, int64_t r) {
    return s->n_forks ? s->row_fork[r] : NULL;
}
/* Copies channels [c0, c1) of the tail of a convolution, [n_rows][n_ch]. */
static inline void exec_fork_tail(struct seq *fork, const struct seq *q, int slot, int64_t n_rows,
                                  int64_t n_ch, int64_t c0, int64_t c1) {
    for (int64_t i = 0; i < n_rows; i++)
        memcpy(seq_conv(fork, slot) + i * n_ch + c0, seq_conv(q, slot) + i * n_ch + c0,
               (size_t)(c1 - c0) * sizeof(float));
}
/* Copies n numbers from the at-th of a scan's state on. */
static inline void exec_fork_scan(struct seq *fork, const struct seq *q, int slot, int64_t at,
                                  int64_t n) {
    memcpy(seq_scan(fork, slot) + at, seq_scan(q, slot) + at, (size_t)n * sizeof(float));
}

typedef void (*exec_fn)(struct session *s, const struct gr_node *n);
extern const exec_fn exec_table[OP_COUNT];
/* Allocates the registers and the work memory of the CPU's operators, in s. exec_free frees
 * them. */
int exec_alloc(struct session *s, struct err *e);
void exec_free(struct session *s);
/* Runs the pass. Behind the last node that keeps something of its rows, only those of s->kept are
 * computed, unless somebody observes. */
void exec_pass(struct session *s);
const float *exec_vec(struct session *s, gr_w w);
/* Makes weights packed rows where the session's options want it (o.pack): all, or those that
 * `only` names. session_new calls it before memory is planned. exec_unpack ends it. */
int exec_pack(struct session *s, const bool *only, struct err *e);
void exec_unpack(struct session *s);

/* Does what pool_for does, but in the caller where the whole work is tiny. `work` is about the
 * number of multiply-adds. */
void exec_par(struct session *s, int64_t n_items, int64_t chunk, double work, pool_fn fn,
              void *ctx);

/* Returns the largest number of weight rows of length k that a task decodes. */
int64_t exec_panel_rows(int64_t k);
/* Chooses how rows x [m][ld] meet w. What is chosen depends on the weight and the mode, not on m:
 * packed rows, 8-bit dot products, or f32. buf 0 or 1: which quantized copy is used. exact: f32
 * activations whatever the mode. */
void exec_acts(struct session *s, struct acts *a, const struct weight *w, const float *x,
               int64_t ld, int64_t m, int buf, bool exact);
/* Computes out[t*ldo + r - r0] for rows [r0, r1) of the matrix at `mat`, at most exec_task_rows
 * of them. scratch is a panel. */
void exec_rows(const struct session *s, const struct weight *w, const uint8_t *mat, int64_t r0,
               int64_t r1, const struct acts *a, float *out, int64_t ldo, float *scratch);
/* Computes out [m][ldo] = w . x for a whole dense weight. */
void exec_product(struct session *s, const struct weight *w, const float *x, int64_t ld, int64_t m,
                  float *out, int64_t ldo, bool exact);

/* Tells whether w enters products as packed rows (runtime/engine/cpu/packed.c). */
bool exec_is_packed(const struct session *s, const struct weight *w);
/* Rounds rows x [m][ld] for w into b and returns them. It does nothing when they are there
 * already. */
const struct kern_act *exec_round(struct session *s, struct act_buf *b, const struct weight *w,
                                  const float *x, int64_t ld, int64_t m);
/* Says that the values at x have changed; with NULL, that all have. */
void exec_acts_stale(struct session *s, const float *x);
/* Returns the rows of a task when m tokens meet n_mats matrices of n_rows rows, `row_bytes` of
 * weights to each. That is exec_panel_rows, or more for few tokens with a packed w, because
 * every run through memory has a start at which nothing is there yet. At most RUN_MAX_ROWS. */
int64_t exec_task_rows(const struct session *s, const struct weight *w, uint64_t row_bytes,
                       int64_t n_rows, int64_t n_mats, int64_t m);
/* Returns how many floats of results a worker has room for beside a panel, in passes of at most
 * n_ubatch rows. */
int64_t exec_task_floats(int64_t n_ubatch);
/* Does what exec_rows does for packed weights. mat_off is the matrix's distance from the first
 * one, in bytes. */
void exec_rows_packed(const struct session *s, const struct weight *w, uint64_t mat_off, int64_t r0,
                      int64_t r1, const struct acts *a, float *out, int64_t ldo, float *scratch);

/* Show the probe what enters products: rows of one sequence; n rows
 * that are given to the head; the rows x [n_tok][ld] of a dense
 * product; n sorted rows of an expert, row r of which is token[r] of the pass. gate: [n] or NULL.
 */
void exec_show_rows(const struct session *s, const struct session_shown *r);
void exec_show_head(const struct session *s, const float *hidden, int64_t n);
void exec_show(const struct session *s, gr_w w, const float *x, int64_t ld);
void exec_show_expert(const struct session *s, gr_w w, int64_t expert, const float *x, int64_t n,
                      int64_t ld, const int32_t *token, const float *gate);
/* Shows x [n_tok][heads][in], where each head's values enter a matrix of its own. */
void exec_show_heads(const struct session *s, gr_w w, const float *x, int64_t in);
/* Show the probe the residual x [n_tok][width], or the experts [n_tok][n_used] of a node, in one
 * call for every sequence of the pass. */
bool exec_wants_hidden(const struct session *s, int block);
void exec_show_hidden(const struct session *s, int block, const float *x);
void exec_show_route(const struct session *s, const struct gr_node *n, const int32_t *expert);

/* Runs an operation as models/ops.def describes it. Every operation has an exec_<name>. */
#define OP(id, name, flags, state, ...)                                                            \
    void exec_##name(struct session *s, const struct gr_node *n);
#include "models/ops.def"
#undef OP

/* Runs a fusion on the CPU. NULL stands for one that the CPU does not have. */
typedef void (*exec_fused_fn)(struct session *s, const struct match *m);
extern const exec_fused_fn exec_fused[FUSE_COUNT];
void exec_fused_add_rms(struct session *s, const struct match *m);
void exec_fused_gate_add_rms(struct session *s, const struct match *m);
struct target exec_target(enum batch batch); /* the CPU, unobserved */

/* Returns the table of angles that an OP_ROPE node uses, or with `add` a new one where there is
 * none; NULL when there is none, or no more room. */
struct rope_tab *exec_rope_tab(struct session *s, const struct gr_node *n, bool add);
/* Angles of a table per position; returns the factor of cos and sin. */
double exec_rope_freqs(struct session *s, const struct rope_tab *tab, double *freq);
/* Computes dst = gelu(gate) * up over n values; dst may be either of them. */
void exec_gelu_mul(const struct session *s, const float *gate, const float *up, float *dst,
                   int64_t n);
/* Replaces logits by cap * tanh(logits / cap). */
void exec_softcap(struct session *s, float *logits, int64_t n, double cap);

/* Returns the most query rows of an attention task. exec_attn_scratch returns the floats of
 * scratch that a worker needs for it. */
int64_t exec_attn_rows(const struct gr_node *n);
int64_t exec_attn_scratch(const struct gr_node *n);

#endif
