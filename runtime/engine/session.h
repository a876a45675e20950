// SPDX-License-Identifier: MIT
/* runtime/engine/session.h - sequences through a model: forward passes in any batching. On the CPU
 * a token's logits have the same bits whether its sequence is fed all at once, in uneven pieces or
 * token by token, and whatever other sequences are fed along with it; on a device they are the
 * same up to rounding.
 *
 * A session has a sequence of its own, which is fed where none is named; session_pass feeds any
 * number of sequences together. */
#ifndef HONE_RUNTIME_ENGINE_SESSION_H
#define HONE_RUNTIME_ENGINE_SESSION_H

#include "base/ctx.h"
#include "base/pool.h"
#include "kernels/kern.h"
#include "runtime/engine/device.h"
#include "runtime/engine/seq.h"
#include "runtime/engine/model.h"

enum act_mode {
    ACT_F32, /* weights decoded, activations f32: only the weights' error is seen (evaluation) */
    ACT_Q8   /* activations rounded to 8 bits per block where the weight type has an integer dot
                (speed) */
};
struct kv_type;
struct session;
struct session_opts {
    int64_t n_ctx;      /* KV slots; 0: the model's context length capped at 4096 */
    int64_t n_ubatch;   /* most rows of a pass; 0: 512 or n_ctx, on a device up to 2048. There a
                           pass of more than n_ctx rows is as long as memory allows */
    enum qtype kv_type; /* cache of keys and values when kv_k, kv_v are NULL: QT_F32 (default 0),
                           QT_F16, QT_BF16, QT_Q8_0, QT_Q5_1, QT_Q4_0 */
    const struct kv_type *kv_k, *kv_v; /* runtime/engine/kv_type.h */
    const struct kv_type *kv_edge_k,
        *kv_edge_v; /* of the first and last kv_n_edge attention layers; NULL: q8_0 */
    int64_t kv_n_edge;
    enum kern_isa isa; /* KERN_REF: scalar reference everywhere */
    enum act_mode act;
    struct pool *pool; /* borrowed; NULL: the caller's thread only */
    /* Context for logging, progress and cancellation (base/ctx.h), borrowed for the session's life.
     * NULL: in every call the context of the calling thread. */
    struct ctx *ctx;
    struct device device;
    /* With ACT_Q8: packs the weights of products that the CPU computes (model_pack): all of them,
     * or on a device the experts that it has no room for, by the first pass that needs them. */
    bool pack;
    const char *pack_cache; /* with pack: a folder that keeps them (pack_cache.h), or NULL */
    /* The number of sessions like this one that will follow and whose models share weights with it.
     * A device stores a shared weight once. Room is kept there for these sessions, and for a weight
     * or two that each replaces. */
    int n_followers;
    bool whole;  /* an interruption does not end a call that feeds tokens */
    bool guests; /* only other sequences are fed: no memory is set aside for the session's own */
};
/* Opens a session on m, which must stay open as long as the session; others may use it at the
 * same time. */
int session_new(struct session **out, const struct model *m, const struct session_opts *o,
                struct err *e);
/* Makes the session compute with another model of the same graph (model_with) from the next pass
 * on. Memory, cache and position stay; copies of the old model's weights are freed.
 * ERR_USAGE for another graph, and for sessions with packed rows. */
int session_use(struct session *s, const struct model *m, struct err *e);
/* Copies the weights of session_use to the device now rather than in the next pass. What is free
 * there afterwards is free for sequences. ERR_SYS: there is no room for them. */
int session_prepare(struct session *s, struct err *e);
void session_free(struct session *s);
void session_reset(struct session *s); /* position 0, states zero */
int64_t session_pos(const struct session *s);
uint64_t session_bytes(const struct session *s); /* KV + state of all sequences + scratch */
struct session_info {
    const char *device; /* where it computes: "cpu" or "cuda" */
    uint64_t bandwidth; /* of the device's memory, nominal, in bytes per second; 0: it is the CPU,
                           or the driver does not say */
    int64_t offload_blocks, offload_bytes; /* experts that have no room on the device */
    int64_t stream_from; /* passes of this many tokens copy them to the device; 0: the CPU computes
                            them all */
    bool can_best;       /* finding the best logits costs less than fetching all, as on a device */
    bool can_trim;    /* sequences can go back to any position (seq_trim), not only to snapshots */
    bool lacks_spare; /* a spare state was taken (session_add_spare) */
    bool settled;     /* n_threads will not change any more */
    int n_threads;    /* that make a token (runtime/engine/thread_tune.h) */
};
struct session_info session_info(const struct session *s);

/* One token of one sequence. */
struct session_row {
    int32_t id;
    struct seq *seq; /* NULL: the session's own */
    unsigned want;   /* bits of enum session_want */
};
enum session_want {
    WANT_HIDDEN = 1, /* the input of the head */
    WANT_LOGITS = 2,
    WANT_BEST = 4 /* the best logits, in their place: where session_info.can_best */
};
/* The largest finite logits of a token, largest first, ties to the lower id: what sampling needs of
 * a vocabulary. n 0: a logit is NaN or infinite upwards. */
enum { SESSION_BEST = 128 };
struct session_best {
    int32_t n;
    int32_t id[SESSION_BEST];
    float logit[SESSION_BEST];
};
/* Tokens to feed and the results wanted. Either `ids`, tokens of the session's own sequence, or
 * `row`, tokens of any sequences, those of one sequence in their order. Each token takes the next
 * position of its sequence. */
struct session_pass {
    const int32_t *ids;            /* [n] */
    const struct session_row *row; /* [n] */
    /* [n], with `row`: fork[i], unless it is NULL, gets the past of row i's sequence up to and with
     * that row. Forks are sequences of the session that are not fed here, each named once. After an
     * error they are as after seq_empty. On a device each fork ends a pass. */
    struct seq *const *fork;
    int64_t n;
    /* The first block that is computed (session_can_begin); 0: begins with the embeddings. Blocks
     * below keep no state, so all windows of such a session begin there. The number of layers: only
     * what follows the last block is computed. */
    int begin;
    /* With `begin`: [n][n_embd], what a probe was shown of block begin - 1 in a session whose
     * weights are equal up to there. NULL: the rows were handed over (session_hand). */
    const float *residual;
    /* The block before which passes end, where only a probe reads them; 0: they run to the end.
     * Hidden rows and logits then have no meaning. On a device it is ignored. */
    int end;
    const float *hidden_in; /* of a draft model (model_open_draft): [n][n_embd], the trunk's rows
                               at the positions; the tokens are the next ones */
    /* Results, each may be NULL: inputs of the head [n][n_embd], and logits [n_vocab] of the last
     * of `ids`; with `row`, of the rows that want them, in the order of the rows. */
    float *hidden, *logits;
    struct session_best *best; /* of a single token in `ids`; with `row`, as logits */
};
/* Feeds tokens. With `begin` or `hidden_in`, rows of one sequence must follow one another.
 * ERR_USAGE when the context is full, an id is out of range, or a draft model lacks hidden rows. An
 * error of the arguments changes nothing; after any other error seq_pos tells how much of a
 * sequence was fed. session_forward and session_step feed n tokens of the session's own sequence.
 */
int session_pass(struct session *s, const struct session_pass *p, struct err *e);
int session_forward(struct session *s, const int32_t *ids, int64_t n, float *hidden, struct err *e);
int session_step(struct session *s, const int32_t *ids, int64_t n, float *logits, struct err *e);
/* Tells whether a pass can begin from a block, 1 .. number of layers. */
bool session_can_begin(const struct session *s, int block);
/* Computes logits [n][n_vocab] for n hidden rows. The caller keeps n small, since memory grows
 * by n * n_vocab. */
int session_head(struct session *s, const float *hidden, int64_t n, float *logits, struct err *e);

/* ---- several sequences ---- */

/* Makes an empty sequence of at most n_ctx tokens, with memory for n_reserve tokens; it takes more
 * as it grows. ERR_SYS: there is not enough memory, and nothing has changed. */
int session_new_seq(struct session *s, int64_t n_reserve, struct seq **out, struct err *e);
/* Returns the exact bytes that a sequence of n_tok tokens takes between passes.
 * session_held_bytes returns those that all sequences hold now, with what they share counted
 * once. */
uint64_t session_seq_bytes(const struct session *s, int64_t n_tok);
uint64_t session_held_bytes(const struct session *s);
/* Returns the bytes that all sequences, forks and snapshots may take until a device is full. It
 * holds for any lengths: each device has room for its share. UINT64_MAX: they are in main memory.
 */
uint64_t session_room(const struct session *s);
/* Keeps the states of n more sequences allocated (cache_keep_spares), so that a fork costs a copy
 * and no fresh memory; returns their bytes. 0: forks have no states to copy, or a device holds
 * them. */
uint64_t session_keep_spares(struct session *s, int n);
/* Allocates one of them again after it was taken. Returns false when none is missing
 * (session_info.lacks_spare). */
bool session_add_spare(struct session *s);
/* Returns the session's own sequence, borrowed. */
struct seq *session_own_seq(const struct session *s);
/* Writes a sequence (NULL: the session's own) to a file that appears whole or not at all.
 * session_load_seq gives q (NULL: the session's own) the past in such a file, written by a session
 * of the CPU or of a device. ERR_DATA for a file of another model or other cache types and for a
 * damaged or foreign file; q is unchanged then. ERR_USAGE when the file exists and overwrite is
 * false, and when it holds more tokens than the context. */
int session_save_seq(const struct session *s, const struct seq *q, const char *path, bool overwrite,
                     struct err *e);
int session_load_seq(struct session *s, struct seq *q, const char *path, struct err *e);
/* Makes an empty sequence to name in session_pass.fork. ERR_SYS: no memory. */
int session_new_fork(struct session *s, struct seq **out, struct err *e);

/* Scores of a row of logits, computed where the logits are. */
struct session_score {
    double nll_q;         /* -log q(target), q: this session's distribution */
    double nll_p, kld;    /* with a base, p: its distribution: -log p(target); sum p log(p/q) over
                             p > exp(-16) */
    int32_t top_p, top_q; /* the first of the largest, and their probabilities */
    float prob_p, prob_q;
};
enum { SESSION_SCORES = 64 }; /* rows at a time */
/* Tells whether session_score works: for sessions of a device, and with a base of the same
 * vocabulary on the same device. NULL: there is no base. */
bool session_can_score(const struct session *s, const struct session *base);
/* Scores rows [first, first + n), at most SESSION_SCORES, of the session's last pass of at most
 * n_ubatch rows, against the tokens that follow; hidden rows need not leave the device for it.
 * base is a session whose last call was session_score or session_head of n rows of the same
 * positions, or NULL. out may be NULL for a session that others are compared with. */
int session_score(struct session *s, struct session *base, int64_t first, int64_t n,
                  const int32_t *target, struct session_score *out, struct err *e);
/* Main memory to which rows and logits are copied fastest: pinned, where a device computes and the
 * system allows it. ERR_SYS: there is none. Free it before the session. */
struct session_host {
    void *p;
    bool pinned;
};
int session_host_new(struct session *s, struct session_host *out, uint64_t n_bytes,
                     const char *what, struct err *e);
void session_host_free(struct session *s, struct session_host *h); /* also of zeros */

/* Tells whether the session's device has failed for good: no pass will run any more. */
bool session_lost(const struct session *s);

/* ---- observing ---- */

/* What a probe is shown of a pass: rows of one sequence, in its order. Borrowed for the call. */
struct session_shown {
    const struct seq *seq; /* NULL: rows given to session_head */
    const float *x;        /* [n_rows], at stride ld */
    int64_t n_rows, ld;
    const struct gr_weight *w; /* product: the matrix ... */
    int64_t expert;            /* ... of this expert; -1: dense */
    const float *gate; /* product: [n_rows] factors of the rows' products, by the router; NULL: 1 */
    int block;         /* residual, route; -1: the embeddings */
    int64_t pos;       /* residual, route: position of the first row */
    const int32_t *chosen; /* route: [n_rows][n_used] experts, best first */
    int64_t n_used;
    int64_t row; /* residual: of the pass, the first row */
};
typedef void (*session_show_fn)(void *ud, const struct session_shown *r);
struct gr_node;
/* Callbacks of a pass, each may be NULL; they run in the thread that feeds. */
struct session_probe {
    void *ud;
    session_show_fn
        product; /* rows that enter a matrix; gate and up of a MoE block one call each */
    session_show_fn residual; /* the complete residual of a block */
    const bool *blocks; /* [layers + 1] residual: which are shown, the embeddings first; NULL: all.
                           Borrowed while it observes */
    bool stays;         /* residual: x is NULL, and session_hand takes the rows where they are */
    session_show_fn route; /* choices of a MoE block's router */
    /* Before and after every node of a pass on the CPU, which then is not fused with others: for
     * grad/, which reads registers. */
    void (*node)(void *ud, struct session *s, const struct gr_node *n, bool after);
};
/* Shows all further passes to p, which is copied. NULL: to nothing. */
void session_observe(struct session *s, const struct session_probe *p);
/* Tells whether residuals of one session can be handed to another: both are on one device. */
bool session_can_hand(const struct session *from, const struct session *to);
/* Copies the residual rows that a probe of `from` is shown to rows `at` and following of what the
 * next pass of `to` begins with, after their block (session_pass.begin). */
int session_hand(struct session *from, const struct session_shown *r, struct session *to,
                 int64_t at, struct err *e);

/* Sums of squares per column of what a probe's `product` would be shown, made on the device that
 * has the rows: sum2 [n_mat][ne[0]] and numbers of rows count [n_mat], matrices of experts in their
 * order. Rows add up in order over a chunk, chunks in order: the bits of a loop over those rows. */
typedef void (*session_sum_fn)(void *ud, const struct gr_weight *w, int64_t n_mat,
                               const double *sum2, const double *count);
/* Gives the sums to begin with; false: there are none. */
typedef bool (*session_sum_give)(void *ud, const struct gr_weight *w, int64_t n_mat, double *sum2,
                                 double *count);
struct session_sums {
    /* Sums passes from here on, in place of a probe. fn is called for every product, in the order
     * of a pass, with sum2 and count NULL. ERR_SYS when there is no room on the device; then
     * nothing has changed. */
    int (*begin)(struct session *s, session_sum_fn fn, void *ud, struct err *e);
    /* Before the first chunk. ERR_DATA where fn has no sums. */
    int (*load)(struct session *s, session_sum_give fn, void *ud, struct err *e);
    /* Completes a chunk. In a pass of several sequences all but the last are complete chunks, in
     * their order; this is about the last. */
    int (*chunk)(struct session *s, struct err *e);
    /* Calls fn for every product with the sums of all chunks so far, between chunks. */
    int (*save)(struct session *s, session_sum_fn fn, void *ud, struct err *e);
    /* Does the same, and ends. */
    int (*end)(struct session *s, session_sum_fn fn, void *ud, struct err *e);
};
/* Returns the functions of the session's device, or NULL: it cannot sum all products. */
const struct session_sums *session_sums(const struct session *s);

const struct model *session_model(const struct session *s); /* borrowed */
const struct session_opts *
session_get_opts(const struct session *s); /* zeros replaced by defaults */

/* Marks this position of the session's own sequence; session_rewind returns to it after a few
 * tokens. Recurrent states are copied, the cache is not. A mark holds until the next one or a
 * reset. It takes the memory of the states once, and of layers with a window what has left it
 * since. */
int session_mark(struct session *s, struct err *e);
void session_rewind(struct session *s);

#endif
