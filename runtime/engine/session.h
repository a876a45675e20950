// SPDX-License-Identifier: MIT
/* runtime/engine/session.h - forward passes of sequences through a model, in any batching. On the
 * CPU, a token's logits are bit-identical whether its sequence is fed at once, in uneven chunks or
 * token by token, and whichever sequences are fed along with it; on a device they are equal up to
 * rounding.
 *
 * A session has its own sequence, which is the default; session_pass feeds any number of sequences
 * together. */
#ifndef HONE_RUNTIME_ENGINE_SESSION_H
#define HONE_RUNTIME_ENGINE_SESSION_H

#include "base/ctx.h"
#include "base/pool.h"
#include "kernels/kern.h"
#include "runtime/engine/device.h"
#include "runtime/engine/seq.h"
#include "runtime/engine/model.h"

enum act_mode {
    ACT_F32, /* weights decoded, f32 activations: for evaluation */
    ACT_Q8   /* activations rounded to 8 bits per block if the weight type has a kernel for it */
};
struct kv_type;
struct session;
struct session_opts {
    int64_t n_ctx; /* context length in tokens; 0: the model's, at most 4096 */
    /* Maximum rows per pass; 0: 512 or n_ctx, on a device up to 2048. On a device, at most 65535,
     * and a value above n_ctx is reduced to what memory allows. */
    int64_t n_ubatch;
    /* Type of keys and values if kv_k and kv_v are NULL: QT_F32 (default 0), QT_F16, QT_BF16,
     * QT_Q8_0, QT_Q5_1, QT_Q4_0. */
    enum qtype kv_type;
    const struct kv_type *kv_k, *kv_v; /* runtime/engine/kv_type.h */
    const struct kv_type *kv_edge_k,
        *kv_edge_v; /* of the first and last kv_n_edge attention layers; NULL: q8_0 */
    int64_t kv_n_edge;
    enum kern_isa isa; /* KERN_REF: scalar reference kernels throughout */
    enum act_mode act;
    struct pool *pool; /* borrowed; NULL: only the calling thread */
    /* Context for logging, progress and cancellation (base/ctx.h), borrowed for the session's
     * lifetime. NULL: the calling thread's context in every call. */
    struct ctx *ctx;
    struct device device;
    /* With ACT_Q8: packs the weights of products that the CPU computes (model_pack): all of them at
     * creation, or, on a device, experts that do not fit, before the first pass that needs them. */
    bool pack;
    const char *pack_cache; /* folder of packed rows with `pack` (pack_cache.h), or NULL */
    /* Number of similar sessions that will be opened after this one and whose models share its
     * weights. A device stores shared weights once and leaves room for these sessions, each with a
     * weight or two replaced. */
    int n_followers;
    /* An open session of a similar model, or NULL: on the same devices, the new one takes over its
     * placement of layers and experts and its length of a pass, if they fit. */
    const struct session *like;
    bool reread; /* the weights do not fit in memory: windows (runtime/generate/windows.h) run block
                    by block, so that many windows read each block once */
    bool whole;  /* calls that feed tokens ignore interruption */
    bool guests; /* no memory is reserved for the session's own sequence; only other sequences are
                    fed */
};
/* Creates a session on m, which must outlive it and may be shared. */
int session_new(struct session **out, const struct model *m, const struct session_opts *o,
                struct err *e);
/* Switches to another model with the same graph (model_with), starting with the next pass. Memory,
 * cache and position are kept; copies of the old model's weights are freed. ERR_USAGE: a different
 * graph, or a session with packed rows. */
int session_use(struct session *s, const struct model *m, struct err *e);
/* Copies the weights of session_use to the device now instead of in the next pass, so that the
 * remaining memory can be used for sequences. ERR_SYS: they do not fit. */
int session_prepare(struct session *s, struct err *e);
void session_free(struct session *s);
void session_reset(struct session *s); /* position 0, zero states */
/* Returns the number of tokens in the session's own sequence. */
int64_t session_pos(const struct session *s);
uint64_t session_bytes(const struct session *s); /* caches, states and scratch */
/* Adds the bytes that the session has taken on each device of its options to sum. */
void session_device_bytes(const struct session *s, uint64_t sum[DEVICES]);
struct session_info {
    const char *device; /* "cpu" or "cuda" */
    /* Nominal bandwidth of device memory in bytes per second; 0: CPU, or unknown. */
    uint64_t bandwidth;
    int64_t offload_blocks, offload_bytes; /* experts that do not fit on the device */
    int64_t stream_from; /* length of a pass, in tokens, from which they are copied to the device;
                            0: never */
    bool can_best;     /* selecting the best logits is cheaper than fetching all, as on a device */
    bool can_trim;     /* sequences can go back to any position (seq_trim), not only to snapshots */
    bool lacks_spare;  /* a spare state is missing (session_add_spare) */
    bool settled;      /* n_threads is final */
    int n_threads;     /* threads used for a single token (runtime/engine/thread_tune.h) */
    bool whole_images; /* all tokens of an image must be in one pass, which sees them together */
    bool takes_images; /* passes may have rows of images (session_row.image) */
};
struct session_info session_info(const struct session *s);

/* Rows that replace the embeddings of an image's tokens (runtime/vision computes them). */
struct session_image {
    const float *rows; /* [n][n_embd] */
    /* [n_deep][n][n_embd], added to the residual after the first n_deep blocks; NULL: none */
    const float *deep;
    int64_t n, n_deep;
    /* Grid of the tokens, row by row: t * h * w = n. Models with three rotary positions per token
     * rotate by it, and continue after the image at the largest position + 1. */
    int64_t t, h, w;
};
/* A token of a sequence. */
struct session_row {
    int32_t id;
    struct seq *seq; /* NULL: the session's own */
    unsigned want;   /* bits of enum session_want */
    /* The token is row image_at of an image, and `id` is not used. NULL: text. Borrowed for the
     * call. The rows of an image with a grid follow each other; models with two-way attention in
     * images take all of them in one call, next to each other, and on the CPU only. */
    const struct session_image *image;
    int64_t image_at;
};
enum session_want {
    WANT_HIDDEN = 1, /* input of the head */
    WANT_LOGITS = 2,
    WANT_BEST = 4 /* best logits instead of all; requires session_info.can_best */
};
/* A token's largest finite logits in descending order, ties by ascending id, enough for
 * sampling. n 0: a logit is NaN or +infinity. */
enum { SESSION_BEST = 128 };
struct session_best {
    int32_t n;
    int32_t id[SESSION_BEST];
    float logit[SESSION_BEST];
};
/* Tokens to feed and results wanted: either `ids`, tokens of the session's own sequence, or `row`,
 * tokens of any sequences, ordered within each sequence. Each token takes the next position of its
 * sequence. */
struct session_pass {
    const int32_t *ids;            /* [n] */
    const struct session_row *row; /* [n] */
    /* [n], with `row`: if fork[i] is not NULL, it receives the past of row i's sequence up to and
     * including that row. Forks are sequences of this session that the call does not feed, each
     * named once. After an error they are as after seq_empty. On a device, each fork ends a
     * pass. */
    struct seq *const *fork;
    int64_t n;
    /* First block to compute (session_can_begin); 0: start with the embeddings. Blocks below it
     * keep no state, so every call on such a session starts there. Equal to the number of layers:
     * compute only what follows the last block. */
    int begin;
    /* With `begin`: [n][n_embd], as shown to a probe for block begin - 1 by a session whose weights
     * are the same up to that block. NULL: the rows come from session_hand. */
    const float *residual;
    /* Block before which passes end if only a probe reads the results; 0: run to the end. Hidden
     * rows and logits are then undefined. Ignored on a device. */
    int end;
    /* Output if `end` is set, on the CPU: [n][n_embd], the residual before block `end`. A later
     * pass can begin there with it as `residual`. NULL: not wanted. */
    float *residual_out;
    /* For a draft model (runtime/generate/drafter.h): [n][width of the graph's hidden_in], rows of
     * these positions; `ids` or `row` then holds the next tokens. */
    const float *hidden_in;
    /* Results, each NULL if not wanted: head inputs [n][n_embd], and logits [n_logits] of the last
     * of `ids`. With `row`: for the rows that want them, in row order. */
    float *hidden, *logits;
    /* After session_tap: [n][session_tap_width], for the same rows as `hidden`, which may be
     * NULL. */
    float *taps;
    struct session_best *best; /* best logits; with `ids` only if n is 1, with `row` for the
                                  same rows as `logits` */
};
/* Feeds tokens. With `begin` or `hidden_in`, rows of one sequence must be adjacent. ERR_USAGE: the
 * context is full, an id is out of range, or a draft model lacks hidden rows. Argument errors
 * change nothing; after any other error, seq_pos returns how much of a sequence was fed.
 * session_forward and session_step feed n tokens of the session's own sequence. */
int session_pass(struct session *s, const struct session_pass *p, struct err *e);
/* Makes passes also keep the inputs of these layers (the number of layers: the output of the last),
 * for session_pass.taps. On the CPU only. ERR_USAGE: a device, or no such layer. */
int session_tap(struct session *s, const int32_t *layer, int n, struct err *e);
/* Returns the number of values that a row of session_pass.taps has. */
int64_t session_tap_width(const struct session *s);
/* Feeds n tokens to the session's own sequence. hidden: space for n rows, or NULL. */
int session_forward(struct session *s, const int32_t *ids, int64_t n, float *hidden, struct err *e);
/* Feeds n tokens to the session's own sequence and writes the logits after the last one. */
int session_step(struct session *s, const int32_t *ids, int64_t n, float *logits, struct err *e);
/* Lets a device (borrowed; NULL: none) compute large dense products of a session on the CPU with
 * ACT_F32 (kernels/dev_product.h). */
struct dev_product;
void session_products(struct session *s, struct dev_product *d);
/* Returns whether a pass can start at a block, 1 .. number of layers. */
bool session_can_begin(const struct session *s, int block);
/* Computes logits [n][n_vocab] of n hidden rows. Memory grows by n * n_vocab, so n should be
 * small. */
int session_head(struct session *s, const float *hidden, int64_t n, float *logits, struct err *e);

/* ---- several sequences ---- */

/* Creates an empty sequence of at most n_ctx tokens and reserves memory for n_reserve of them; it
 * allocates more as it grows. ERR_SYS: out of memory; nothing has changed. */
int session_new_seq(struct session *s, int64_t n_reserve, struct seq **out, struct err *e);
/* Returns exactly how many bytes a sequence of n_tok tokens takes between passes.
 * session_held_bytes returns the current total of all sequences, counting shared pages once. */
uint64_t session_seq_bytes(const struct session *s, int64_t n_tok);
/* Returns the bytes of cache in use at all places. */
uint64_t session_held_bytes(const struct session *s);
/* Returns how many bytes all sequences, forks and snapshots together may take, whatever their
 * lengths, so that each device has room for its share. UINT64_MAX: they are in main memory. */
uint64_t session_room(const struct session *s);
/* Keeps the states and page tables of n more sequences allocated (cache_keep_spares), so that a
 * fork costs only a copy; returns their size in bytes. 0: sequences have neither. */
uint64_t session_keep_spares(struct session *s, int n);
/* Replaces a spare state that was taken. Returns false if none is missing
 * (session_info.lacks_spare). */
bool session_add_spare(struct session *s);
/* Returns the session's own sequence, borrowed. */
struct seq *session_own_seq(const struct session *s);
/* Appends a text that differs between sessions whose rows for the same tokens may differ: because
 * of the model, its context, the device, the kernels or the types of keys and values. */
void session_rows(const struct session *s, struct buf *out);
/* Writes a sequence (NULL: the session's own) to a file atomically. session_load_seq restores q
 * (NULL: the session's own) from a file written on any device. ERR_DATA, with q unchanged: the file
 * is damaged, not a sequence, or from another model or cache type. ERR_USAGE: the file exists and
 * overwrite is false, or it has more tokens than the context. */
int session_save_seq(const struct session *s, const struct seq *q, const char *path, bool overwrite,
                     struct err *e);
/* Replaces q (NULL: the session's own sequence) by the one in a file; unchanged on error. */
int session_load_seq(struct session *s, struct seq *q, const char *path, struct err *e);
/* Creates an empty sequence for session_pass.fork. ERR_SYS: out of memory. */
int session_new_fork(struct session *s, struct seq **out, struct err *e);

/* Scores of a row of logits, computed on the device that has them. */
struct session_score {
    double nll_q; /* -log q(target), with q the distribution of this session */
    /* With a base of distribution p: -log p(target); sum p log(p/q) over p > exp(-16). */
    double nll_p, kld;
    int32_t top_p, top_q; /* index of the first maximum, and its probability */
    float prob_p, prob_q;
};
enum { SESSION_SCORES = 64 }; /* maximum rows per call */
/* Returns whether session_score works: for sessions on a device; base, unless NULL, must have the
 * same vocabulary and be on the same device. */
bool session_can_score(const struct session *s, const struct session *base);
/* Scores rows [first, first + n), at most SESSION_SCORES, of the session's last pass of at most
 * n_ubatch rows against the tokens that follow, without copying hidden rows from the device. base:
 * NULL, or a session whose last call was session_score or session_head for n rows at the same
 * positions. out may be NULL for a session that only serves as a base. */
int session_score(struct session *s, struct session *base, int64_t first, int64_t n,
                  const int32_t *target, struct session_score *out, struct err *e);
/* Main memory for the fastest copies of rows and logits: pinned if a device computes and pinned
 * memory is available. ERR_SYS: out of memory. Free it before the session. */
struct session_host {
    void *p;
    bool pinned;
};
/* Allocates n_bytes of main memory, pinned for faster copies if the backend can do that. */
int session_host_new(struct session *s, struct session_host *out, uint64_t n_bytes,
                     const char *what, struct err *e);
void session_host_free(struct session *s, struct session_host *h); /* accepts all zeros */

/* Returns whether the session's device has failed permanently, so that no further pass can run. */
bool session_lost(const struct session *s);

/* ---- observing ---- */

/* Rows of one sequence, in order, that are shown to a probe during a pass. Borrowed for the
 * call. */
struct session_shown {
    const struct seq *seq; /* NULL: rows given to session_head */
    const float *x;        /* [n_rows], at stride ld */
    int64_t n_rows, ld;
    const struct gr_weight *w; /* product: the matrix ... */
    int64_t expert;            /* ... of this expert; -1: dense */
    const float *gate;     /* product: [n_rows] router weights applied to the results; NULL: 1 */
    int block;             /* residual, route; -1: the embeddings */
    int64_t pos;           /* residual, route: position of the first row */
    const int32_t *chosen; /* route: [n_rows][n_used] experts, best first */
    int64_t n_used;
    int64_t row; /* residual: index of the first row in the pass */
};
typedef void (*session_show_fn)(void *ud, const struct session_shown *r);
struct gr_node;
/* Callbacks of a pass. Each may be NULL; they run in the thread that feeds the session. */
struct session_probe {
    void *ud;
    session_show_fn product;  /* rows that enter a matrix; gate and up of a MoE block separately */
    session_show_fn residual; /* residual after a block */
    /* For `residual`: [layers + 1] blocks to show, the embeddings first; NULL: all. Borrowed while
     * the probe is set. */
    const bool *blocks;
    bool stays;            /* residual: x is NULL; session_hand copies the rows on the device */
    session_show_fn route; /* experts chosen by a MoE block's router */
    /* Called before and after every node of a pass on the CPU. Nodes are then not fused, so that
     * grad/ can read every register. */
    void (*node)(void *ud, struct session *s, const struct gr_node *n, bool after);
};
/* Installs a copy of p as the probe of all further passes. NULL: removes it. */
void session_observe(struct session *s, const struct session_probe *p);
/* Returns whether residuals can be handed from one session to another: both are on one device. */
bool session_can_hand(const struct session *from, const struct session *to);
/* Copies residual rows that a probe of `from` was shown into the next pass of `to`, at row `at`.
 * That pass starts after their block (session_pass.begin). */
int session_hand(struct session *from, const struct session_shown *r, struct session *to,
                 int64_t at, struct err *e);

/* Sums of squares, per column, of the rows that a probe's `product` would see, computed on the
 * device that has the rows: sum2 [n_mat][ne[0]] and row counts count [n_mat], one per expert
 * matrix. Rows are added in order within a chunk, then chunks in order, so the result is
 * bit-identical to a loop over the rows. */
typedef void (*session_sum_fn)(void *ud, const struct gr_weight *w, int64_t n_mat,
                               const double *sum2, const double *count);
/* Fills in the initial sums; false: none. */
typedef bool (*session_sum_give)(void *ud, const struct gr_weight *w, int64_t n_mat, double *sum2,
                                 double *count);
struct session_sums {
    /* Starts summing passes instead of probing them. Calls fn for every product, in pass order,
     * with sum2 and count NULL. ERR_SYS: no room on the device; nothing has changed. */
    int (*begin)(struct session *s, session_sum_fn fn, void *ud, struct err *e);
    /* Loads initial sums before the first chunk. ERR_DATA: fn has none. */
    int (*load)(struct session *s, session_sum_give fn, void *ud, struct err *e);
    /* Completes a chunk. In a pass of several sequences, each but the last is a complete chunk, in
     * order; this call completes the last. */
    int (*chunk)(struct session *s, struct err *e);
    /* Calls fn for every product with the sums of all complete chunks. */
    int (*save)(struct session *s, session_sum_fn fn, void *ud, struct err *e);
    /* Saves like `save`, then stops summing. */
    int (*end)(struct session *s, session_sum_fn fn, void *ud, struct err *e);
};
/* Returns the functions of the session's device, or NULL if it cannot sum all products. */
const struct session_sums *session_sums(const struct session *s);

const struct model *session_model(const struct session *s); /* borrowed */
const struct session_opts *
session_get_opts(const struct session *s); /* zeros are replaced by the defaults */

/* Marks the current position of the session's own sequence; session_rewind returns to it after a
 * few tokens. Recurrent states are copied, the cache is not. A mark holds until the next mark or
 * reset. Its memory is one copy of the states and, for layers with a window, the positions that the
 * window has passed since. */
int session_mark(struct session *s, struct err *e);
/* Returns the session's own sequence to its mark. */
void session_rewind(struct session *s);

#endif
