// SPDX-License-Identifier: MIT
/* runtime/engine/exec.h - internals shared by the CPU executor's files. Internal to runtime/.
 *
 * A pass runs the graph's nodes in order over n_tok rows (at most n_ubatch). A row is one token of
 * one sequence; the rows of a sequence form a contiguous, ordered segment. Within a node, the
 * thread pool shares the work, and no two tasks accumulate into the same value.
 *
 * A row's result depends only on its own sequence, not on the other rows, on how the sequence is
 * split into passes, or on the number of threads: product kernels compute each row independently,
 * and attention orders its sums by the row's position. */
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
    FEW_TOKENS = 16,       /* up to this many rows, products are bound by memory bandwidth */
    PANEL_FLOATS = 131072, /* decoded weight panel of a task: 512 KiB */
    PANEL_MAX_ROWS = 64,
    RUN_BYTES = 256 << 10, /* packed weights read by a task with few tokens */
    RUN_MAX_ROWS = 1024,
    RUNS_PER_WORKER = 4,
    KEY_BLOCK = 256,   /* keys decoded at a time; cache pages hold a multiple of it */
    ATTN_ROWS = 128,   /* query rows of an attention task, unless one token has more heads */
    ATTN_TASKS = 64,   /* with fewer tiles, each span of a tile is a separate task ... */
    ATTN_PARTS = 8192, /* ... if their partial sums take at most this many rows */
    SPANS = 32,        /* maximum number of spans for a row's keys */
    ROPE_TABS = 4
};

struct att_row { /* running softmax of a row */
    double sum;
    float max;
};

struct att_tile { /* consecutive rows of one sequence whose keys are split into the same spans */
    const struct seq *seq;
    /* First row in the pass, number of rows, position of the first. With `keys`, a single row, and
     * the position of its last key in that list. */
    int64_t r0, n, pos;
    const float *keys; /* positions of the keys that the row sees; NULL: all up to its own */
    int64_t end;       /* position after the last visible key */
    int64_t span;      /* keys per span, a multiple of KEY_BLOCK */
    int64_t span0, n_spans;
    int64_t task0, part0; /* first task; first row of partial sums */
};
struct seg { /* rows of one sequence in a pass */
    struct seq *seq;
    int64_t r0, n; /* rows [r0, r0 + n); the first has position seq->pos */
};

struct vec_cache { /* small weights (norms, conv, biases) as f32 */
    const void *data;
    enum qtype type;
    const float *v;
    float *own; /* converted copy; NULL: the file's F32 data is used */
};
struct moe_bufs {     /* pairs = n_ubatch * n_used */
    float *logits;    /* [n_ubatch][2][n_experts] logits, and the values that rank experts */
    float *weight;    /* [pairs] ordered by token, then slot */
    int32_t *expert;  /* [pairs] */
    int32_t *place;   /* [pairs] row of the pair in sorted order */
    int32_t *first;   /* [n_experts + 1] first sorted row of an expert */
    int32_t *active;  /* experts that have rows */
    int32_t *token;   /* [pairs] token of each sorted row; for observers */
    float *x, *h, *y; /* sorted rows: [pairs][d], [pairs][F], [pairs][d] */
};
struct rope_tab { /* cos and sin of one kind of OP_ROPE node for the tokens of a pass */
    double base;
    int64_t n_rot;
    gr_w divisors; /* GR_NONE: 1 */
    gr_w far;      /* divisors for sessions with a long context; GR_NONE: `divisors` */
    double factor; /* divides the angles */
    bool yarn;
    double *freq; /* [n_rot / 2] */
    float *cs;    /* [n_ubatch][n_rot / 2][cos, sin] */
    bool ready;
};
/* Images in a pass (runtime/engine/images.c). */
struct images {
    int64_t n_rows;                  /* rows of images in the pass */
    int64_t n_deep;                  /* first blocks that add rows of images to the residual */
    bool whole;                      /* the model takes all tokens of an image in one pass */
    bool turned;                     /* rotary positions differ from row_pos */
    int64_t (*turn)[3];              /* [n_ubatch], if turned: position by time, row and column */
    const struct session_image **of; /* [n_ubatch], if n_rows > 0: the row's image, or NULL */
    int64_t *at;                     /* row within the image */
};
/* Inputs of layers that passes keep (runtime/engine/taps.c). */
struct taps {
    int n;                        /* layers; 0: none */
    int node[HP_MAX_TARGETS];     /* node after which the residual is the layer's input */
    bool dropped[HP_MAX_TARGETS]; /* in this pass: only rows in `kept` were left there */
    int64_t width;
    float *rows; /* [n_ubatch][n][width] */
};
struct act_buf { /* activations of packed products, and the rows they were rounded from */
    struct kern_act *act;
    const float *x; /* NULL: empty */
    int64_t m, k;
    enum qtype partner;
};
/* Indices of act_buf: two for token rows, two for expert pairs. */
enum { ACT_DENSE, ACT_DENSE2, ACT_EXPERT, ACT_EXPERT2, ACT_BUFS };
struct session {
    const struct backend *be;
    void *dev;                 /* backend's private data; NULL on the CPU */
    const struct model *m;     /* weights in use: `given` or `packed` */
    const struct model *given; /* passed by the caller */
    struct model *packed;      /* `given` with packed rows, owned; NULL: not packed */
    const struct graph *g;
    struct session_opts o;
    bool any_ubatch;       /* n_ubatch was not given: a backend may choose it */
    int64_t wanted_ubatch; /* o.n_ubatch as given, or its default */
    bool all_keys;         /* no context is long enough for an indexer to leave out keys */
    struct kern kern;
    unsigned blas; /* products that use OpenBLAS (kernels/blas.h): the gradients of a text */
    struct dev_product *products; /* computes large dense products; borrowed; NULL: none */
    int n_workers;
    struct thread_tune tune; /* tuning of n_workers for few tokens */
    struct cache cache;
    struct programs programs; /* one per class of batch */
    struct seq *own;          /* sequence of calls that do not name one */
    /* The current pass. */
    const int32_t *ids;
    int64_t n_tok;
    struct seg *seg; /* [n_ubatch] */
    int n_segs;
    int64_t *row_pos; /* [n_ubatch] */
    struct images images;
    struct seq **row_seq;
    /* For session_pass.row: ids in segment order; the pass row of each given row. */
    int32_t *row_id, *row_from;
    struct seq **row_fork;     /* fork that receives the state after a row, or NULL */
    int n_forks;               /* 0: row_fork is unused */
    int32_t *kept;             /* rows whose outputs are wanted, ascending */
    int64_t n_kept;            /* equal to n_tok: all rows */
    int64_t n_handed;          /* residual rows handed over to the next pass */
    bool goes_on;              /* later calls about this pass synchronize with the device */
    struct head_row *head_row; /* [n_ubatch], while outputs are delivered */
    /* Index of a row's outputs: its row number or, if rows that are not kept were skipped, the
     * number of kept rows before it. */
    int32_t *row_out;
    struct session_pass now; /* the requested results; residual and hidden_in from this pass on */
    struct seq *mark;        /* target of session_rewind, or NULL */
    /* Shared by all backends: small weights as f32, and kinds of rope. */
    struct vec_cache *vec; /* [n_weights] */
    struct rope_tab rope[ROPE_TABS];
    int n_ropes;

    /* Work memory of the CPU's operators. */
    float **reg; /* [n_regs] -> [n_ubatch][width] */
    float *reg_mem;
    struct moe_bufs moe;
    uint8_t *qbuf[2]; /* activation rows in a dot partner's format */
    uint64_t qbuf_row;
    struct act_buf act_buf[ACT_BUFS];
    float *decay, *beta;       /* [n_ubatch][v heads] */
    struct att_tile *att_tile; /* [n_ubatch] */
    float *index_score;        /* [index_rows][2][width] scores of keys, and a copy to sort */
    int64_t index_rows;
    float *att_part; /* partial sums of attention tasks, then of workers: rows of head_dim */
    struct att_row *att_row;
    float **scratch; /* [n_workers] */
    int64_t scratch_floats;
    uint64_t n_bytes;
    struct {
        uint64_t n_bytes;  /* without sequences */
        int device;        /* its CUDA index */
    } place[CACHE_PLACES]; /* per device, numbered as in s->cache */
    struct {
        int64_t n_blocks, n_bytes, from;
    } offload;          /* as in session_info */
    uint64_t keep_free; /* device memory to keep free beyond the usual reserve */

    struct session_probe probe;
    struct taps taps;
};

/* Rows that enter a product: always as f32; if `q` is set, also in the format of the weight's dot
 * partner; if `p` is set, also for packed weights, with stride p_ld. */
struct acts {
    const float *x;
    int64_t ld, n_rows;
    const uint8_t *q;
    uint64_t q_row;
    const struct kern_act *p;
    int64_t p_ld;
};

/* Returns the image of row r, or NULL. */
static inline const struct session_image *exec_image(const struct session *s, int64_t r) {
    return s->images.n_rows ? s->images.of[r] : NULL;
}
void images_alloc(struct session *s);
void images_free(struct session *s);
/* Returns ERR_USAGE if one of n rows is not the row of an image that the model can take. */
int images_check(const struct session *s, const struct session_row *row, int64_t n, struct err *e);
/* Returns how many of the first k of n rows a pass takes, so that no image is cut where its tokens
 * see each other; 0: an image does not fit. */
int64_t images_cut(const struct session *s, const struct session_row *row, int64_t k, int64_t n);
/* Prepare a pass: images_begin, then images_row for each row in order, after its row_pos is set.
 * row: NULL for text. */
void images_begin(struct session *s, const struct session_row *row, int64_t n);
/* Records the image of row r, if it has one, and the row's rope positions. */
void images_row(struct session *s, int64_t r, const struct session_row *row);

/* Returns the row at which code that walks a sequence's rows [r, end) must stop: after the first
 * row whose state a fork needs, or at `end`. The code then copies its part of the state to
 * exec_fork. */
static inline int64_t exec_until_fork(const struct session *s, int64_t r, int64_t end) {
    if (!s->n_forks) return end;
    while (r + 1 < end && !s->row_fork[r]) r++;
    return r + 1;
}
/* Returns the sequence that receives the state after a row, or NULL. */
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
/* Copies n elements of a scan's state, starting at `at`. */
static inline void exec_fork_scan(struct seq *fork, const struct seq *q, int slot, int64_t at,
                                  int64_t n) {
    memcpy(seq_scan(fork, slot) + at, seq_scan(q, slot) + at, (size_t)n * sizeof(float));
}

/* Copies the residual if one of the nodes [first, first + n_nodes), which have just run, completes
 * the input of a tapped layer. dropped: rows without outputs have been dropped. */
void taps_take(struct session *s, int first, int n_nodes, bool dropped);
/* Writes the tapped inputs of row r of the last pass. A row without outputs may have none. */
void taps_give(const struct session *s, int64_t r, float *out);

typedef void (*exec_fn)(struct session *s, const struct gr_node *n);
extern const exec_fn exec_table[OP_COUNT];
/* Allocates registers and work memory of the CPU's operators in s. exec_free frees them. */
int exec_alloc(struct session *s, struct err *e);
/* Frees the backend's buffers; may be called again. */
void exec_free(struct session *s);
/* Runs the pass. After the last node that updates a state or the cache, computes only the rows in
 * s->kept, unless a probe is set. Returns false if a pass of many rows was interrupted. */
bool exec_pass(struct session *s);
const float *exec_vec(struct session *s, gr_w w);
/* Packs weights if the session's options request it (o.pack): all of them, or those flagged in
 * `only`. session_new calls it before memory is planned. exec_unpack undoes it. */
int exec_pack(struct session *s, const bool *only, struct err *e);
/* Switches back to the model given by the caller and closes the packed one. */
void exec_unpack(struct session *s);

/* Calls fn like pool_for, but in the calling thread if there is too little work to share. `work` is
 * roughly the number of multiply-adds. */
void exec_par(struct session *s, int64_t n_items, int64_t chunk, double work, pool_fn fn,
              void *ctx);

/* Returns the maximum number of weight rows of length k that a task decodes. */
int64_t exec_panel_rows(int64_t k);
/* Chooses the form in which rows x [m][ld] are multiplied with w: packed rows, 8-bit dot products
 * or f32. The choice depends on the weight and the mode, not on m. buf (0 or 1) selects the buffer
 * for quantized rows. exact: f32 activations in any mode. */
void exec_acts(struct session *s, struct acts *a, const struct weight *w, const float *x,
               int64_t ld, int64_t m, int buf, bool exact);
/* Computes out[t*ldo + r - r0] for rows [r0, r1), at most exec_task_rows of them, of the matrix at
 * `mat`. scratch holds a panel. */
void exec_rows(const struct session *s, const struct weight *w, const uint8_t *mat, int64_t r0,
               int64_t r1, const struct acts *a, float *out, int64_t ldo, float *scratch);
/* Computes out [m][ldo] = w . x for a whole dense weight. */
void exec_product(struct session *s, const struct weight *w, const float *x, int64_t ld, int64_t m,
                  float *out, int64_t ldo, bool exact);

/* Returns whether w enters products as packed rows (runtime/engine/cpu/packed.c). */
bool exec_is_packed(const struct session *s, const struct weight *w);
/* Rounds the rows x [m][ld] to the activation type of w. The result is cached in b. */
const struct kern_act *exec_round(struct session *s, struct act_buf *b, const struct weight *w,
                                  const float *x, int64_t ld, int64_t m);
/* Invalidates rounded copies of x, or all of them if x is NULL. */
void exec_acts_stale(struct session *s, const float *x);
/* Returns the number of rows per task when m tokens are multiplied with n_mats matrices of n_rows
 * rows of `row_bytes` each: exec_panel_rows, or up to RUN_MAX_ROWS for few tokens and packed
 * weights, because a task's sequential read starts with a stall. */
int64_t exec_task_rows(const struct session *s, const struct weight *w, uint64_t row_bytes,
                       int64_t n_rows, int64_t n_mats, int64_t m);
/* Returns how many floats of results a worker can hold in addition to a panel in passes of at most
 * n_ubatch rows. */
int64_t exec_task_floats(int64_t n_ubatch);
/* Computes the product of exec_rows for packed weights. mat_off is the offset of the matrix from
 * the first one, in bytes. */
void exec_rows_packed(const struct session *s, const struct weight *w, uint64_t mat_off, int64_t r0,
                      int64_t r1, const struct acts *a, float *out, int64_t ldo, float *scratch);

/* Pass input rows of products to the session's probe: rows of one sequence, n rows of the head, the
 * rows x [n_tok][ld] of a dense product, and n sorted rows of an expert, where row r is token[r] of
 * the pass and gate is [n] or NULL. */
void exec_show_rows(const struct session *s, const struct session_shown *r);
/* Passes the n input rows of the output head to the observer. */
void exec_show_head(const struct session *s, const float *hidden, int64_t n);
/* Passes the input rows x of weight w to the observer, segment by segment; ld: values per row. */
void exec_show(const struct session *s, gr_w w, const float *x, int64_t ld);
/* Passes n input rows of one expert to the observer. token [n]: their tokens. gate: [n], or
 * NULL. */
void exec_show_expert(const struct session *s, gr_w w, int64_t expert, const float *x, int64_t n,
                      int64_t ld, const int32_t *token, const float *gate);
/* Passes x [n_tok][heads][in] to the probe, where each head has its own matrix. */
void exec_show_heads(const struct session *s, gr_w w, const float *x, int64_t in);
/* Pass the residual x [n_tok][width], or a node's chosen experts [n_tok][n_used], to the probe, in
 * one call per sequence of the pass. */
bool exec_wants_hidden(const struct session *s, int block);
/* Passes the residual x after `block` to the observer; x NULL: it is not in main memory. */
void exec_show_hidden(const struct session *s, int block, const float *x);
/* Passes the chosen experts [n_tok][n_used] of an OP_MOE node to the observer. */
void exec_show_route(const struct session *s, const struct gr_node *n, const int32_t *expert);

/* Runs one operation as specified in models/ops.def; each has an exec_<name> function. */
#define OP(id, name, flags, state, ...)                                                            \
    void exec_##name(struct session *s, const struct gr_node *n);
#include "models/ops.def"
#undef OP

/* Runs a fusion on the CPU. NULL in the table: the CPU runs its nodes one by one. */
typedef void (*exec_fused_fn)(struct session *s, const struct match *m);
extern const exec_fused_fn exec_fused[FUSE_COUNT];
/* Runs ADD and RMS in one parallel loop. */
void exec_fused_add_rms(struct session *s, const struct match *m);
/* Runs GATE_ADD (a sum scaled by a sigmoid), ADD and RMS in one parallel loop. */
void exec_fused_gate_add_rms(struct session *s, const struct match *m);
struct target exec_target(enum batch batch); /* the CPU without an observer */

/* Returns the angle table of an OP_ROPE node. `add` creates it if it is missing. NULL: missing, or
 * the tables are full. */
struct rope_tab *exec_rope_tab(struct session *s, const struct gr_node *n, bool add);
/* Returns whether some angles depend on the context being long (rope_tab.far). */
bool exec_rope_far(const struct session *s);
/* Computes the table's angles per position and returns the factor of cos and sin. */
double exec_rope_freqs(struct session *s, const struct rope_tab *tab, double *freq);
/* Computes dst = gelu(gate) * up over n values; dst may alias either input. */
void exec_gelu_mul(const struct session *s, const float *gate, const float *up, float *dst,
                   int64_t n);
/* Replaces logits by cap * tanh(logits / cap). */
void exec_softcap(struct session *s, float *logits, int64_t n, double cap);

/* Returns the maximum number of query rows of an attention task. exec_attn_scratch returns the
 * scratch that a worker needs for it, in floats. */
int64_t exec_attn_rows(const struct gr_node *n);
/* Return the scratch of OP_INDEX per worker, in floats; the scores of a row in sessions with this
 * context; and the rows of `width` scores that are kept at a time. */
int64_t exec_index_scratch(const struct gr_node *n);
int64_t exec_index_width(const struct gr_node *n, int64_t n_ctx);
int64_t exec_index_rows(int64_t width, int64_t n_ubatch);
/* Returns how many floats of scratch one worker needs for the node. */
int64_t exec_attn_scratch(const struct gr_node *n);

#endif
